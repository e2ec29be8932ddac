/* Answers of a job's controller to commands, as JSON: its status, and the lines of its report, of which the last is the
 * summary. */
#ifndef PROTEUS_ANSWER_H
#define PROTEUS_ANSWER_H

#include "agileml/base/error.h"
#include "agileml/wire/message.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Returns the status in a STATUS message, owned by the caller; NULL: it is not JSON. */
json_t *answer_status(const struct message *message);
/* Whether the job of a status (or NULL) has ended, and its controller only waits until its report has been read. */
bool answer_job_is_over(const json_t *status);

/* Returns 0 if the job ended well by its summary (or NULL). Else returns the job's error: AML_EINPUT for bad input,
 * AML_EFAIL for anything else. */
int answer_result(const json_t *summary, struct error *error);

/* Prints a status or a line of the report as one line. Prints only ASCII, so that names can't control the terminal. */
void answer_print(FILE *stream, const json_t *answer);

#endif
