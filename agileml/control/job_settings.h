/* The options with which a job's nodes were started: as their REGISTER tells them, and as a checkpoint's manifest keeps
 * them. Buffers of struct wire_option; NULL is none. */
#ifndef AGILEML_CONTROL_JOB_SETTINGS_H
#define AGILEML_CONTROL_JOB_SETTINGS_H

#include "agileml/wire/message.h"

enum settings_compared {
    SETTINGS_ALL,
    SETTINGS_FIXED,   /* all but options that only steer */
    SETTINGS_STEERING /* only options that steer */
};

/* Writes how `found` differs from `expected` into `text`, as "--rank 64, was 16; --rate 0.1, was 0.05" for `was` "was";
 * empty when it does not. Whether an option steers is as `found` says. True when it differs. */
bool job_settings_differ(const struct buffer *expected, const struct buffer *found, enum settings_compared compared,
                         const char *was, char *text, size_t size);

#endif
