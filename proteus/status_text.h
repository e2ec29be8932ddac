/* The controller's answer to STATUS as a table for people: the job, then one line per node. */
#ifndef PROTEUS_STATUS_TEXT_H
#define PROTEUS_STATUS_TEXT_H

#include "proteus/progress_text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum { STATUS_ROLE_TEXT = 64, STATUS_JOB_TEXT = 160, STATUS_FEEDERS_TEXT = 240 };

/* Prints control characters as '?': texts come from nodes and apps, and must not control the terminal. */
void status_print(FILE *stream, const json_t *answer);

/* ---- Parts of it ---- */

/* Makes each string of the answer safe for a terminal. */
void status_make_printable(json_t *status);
/* Writes a text such as "mf: training, preparing a change, stage 2". */
void status_job_text(const json_t *status, char text[STATUS_JOB_TEXT]);
/* Writes a text such as "feeders: 3 of 2 threads wanted of at most 8; trainers wait for 40 % of their time: feeder 3 is
 * tried". Writes nothing if the job does not choose the number of its feeders. */
void status_feeders_text(const json_t *status, char text[STATUS_FEEDERS_TEXT]);
/* Returns "traditional" or "transient", the stage in a status or a line of the report; "" for other stages, or if there
 * is none. */
const char *status_stage_name(const json_t *object);

/* Writes a text such as "2 ParamServ, 6 BackupPS" for an element of `nodes`. `stage` is the job's, from
 * status_stage_name. */
void status_role_text(const json_t *node, const char *stage, char role[STATUS_ROLE_TEXT]);

/* Writes a node's slowness ("1.07") in at most four columns, up to 99. */
void status_slowness_text(double slowness, char text[PROGRESS_NUMBER_TEXT]);

#endif
