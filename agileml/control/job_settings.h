/* The options with which a job's nodes were started, as REGISTER and a checkpoint's manifest hold them. Buffers of
 * struct wire_option; NULL: no options. */
#ifndef AGILEML_CONTROL_JOB_SETTINGS_H
#define AGILEML_CONTROL_JOB_SETTINGS_H

#include "agileml/wire/message.h"

enum settings_compared {
    SETTINGS_ALL,
    SETTINGS_FIXED,   /* all but options that only steer */
    SETTINGS_STEERING /* only options that steer */
};

/* Whether `found` differs from `expected`. Writes the differences into `text`, empty when there are none: "--rank 64,
 * was 16; --rate 0.1, was 0.05" for `was` "was". If both have an option, `found` says whether it steers. */
bool job_settings_differ(const struct buffer *expected, const struct buffer *found, enum settings_compared compared,
                         const char *was, char *text, size_t size);

/* Whether two nodes have found different things in their input (aml_input_mark). Writes their names into `text`:
 * "labels, text". */
bool job_marks_differ(const struct buffer *expected, const struct buffer *found, char *text, size_t size);

#endif
