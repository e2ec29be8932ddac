/* Compares the options with which a job's nodes were started, from REGISTER or a checkpoint's manifest. They are
 * buffers of struct wire_option; NULL: no options. */
#ifndef AGILEML_CONTROL_JOB_SETTINGS_H
#define AGILEML_CONTROL_JOB_SETTINGS_H

#include "agileml/wire/message.h"

enum settings_compared {
    SETTINGS_ALL,
    SETTINGS_FIXED,   /* all options except those that only steer */
    SETTINGS_STEERING /* only options that steer */
};

/* Whether `found` differs from `expected`. Writes the differences into `text`, empty when there are none. Example, with
 * "was" for `was`: "--rank 64, was 16; --rate 0.1, was 0.05". If both have an option, the one in `found` decides
 * whether it steers. */
bool job_settings_differ(const struct buffer *expected, const struct buffer *found, enum settings_compared compared,
                         const char *was, char *text, size_t size);

/* Whether two nodes have found different facts in their input (aml_input_mark). Writes the names of these facts into
 * `text`, for example "labels, text". */
bool job_marks_differ(const struct buffer *expected, const struct buffer *found, char *text, size_t size);

#endif
