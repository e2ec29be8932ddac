/* The controller's answer to STATUS as a table for people: the job, then one line per node. */
#ifndef PROTEUS_STATUS_TEXT_H
#define PROTEUS_STATUS_TEXT_H

#include "proteus/progress_text.h"

#include <stdio.h>

enum { STATUS_ROLE_TEXT = 64, STATUS_JOB_TEXT = 160, STATUS_FEEDERS_TEXT = 240 };

/* Prints control characters as '?': texts come from nodes and apps, and must not control the terminal. */
void status_print(FILE *stream, const struct report_line *answer);

/* ---- Parts of it ---- */

/* Writes a text such as "mf: training, preparing a change, stage 2". */
void status_job_text(const struct report_line *status, char text[STATUS_JOB_TEXT]);
/* Writes a text such as "feeders: 3 of 2 threads wanted of at most 8; trainers wait for 40 % of their time: feeder 3 is
 * tried". Writes nothing if the job does not choose the number of its feeders. */
void status_feeders_text(const struct report_line *status, char text[STATUS_FEEDERS_TEXT]);

/* Writes a text such as "2 ParamServ, 6 BackupPS" for an element of `nodes`. `stage` is the name of the
 * job's. */
void status_role_text(const struct report_node *node, const char *stage, char role[STATUS_ROLE_TEXT]);

/* Returns the node's state, "leaving" if it is about to leave. */
const char *status_state_text(const struct report_node *node);

/* Writes a node's slowness ("1.07") in at most four columns, up to 99. */
void status_slowness_text(double slowness, char text[PROGRESS_NUMBER_TEXT]);

#endif
