/* --feeders: the number of a job's feeders, or that the job chooses the number itself. */
#ifndef PROTEUS_FEEDERS_OPTION_H
#define PROTEUS_FEEDERS_OPTION_H

#include "agileml/base/error.h"

#include <stdint.h>

struct feeders_option {
    int64_t count; /* number at the start */
    int64_t most;  /* limit of the number that the job chooses (`auto`); 0: the job does not choose */
};

/* Reads N, auto or auto:MAX. `most` is the limit of a plain `auto`. Returns AML_EINPUT for anything else. */
int feeders_option(const char *text, int64_t most, struct feeders_option *option, struct error *error);

/* Returns the number of this machine's processors that `nodes` nodes of `threads` threads leave. Returns at least
 * `least`, and at most the thread limit of a feeder. */
int64_t feeders_option_threads(int64_t nodes, int64_t threads, int64_t least);

/* Returns how many feeders of `threads` threads this machine has processors for, beside `nodes` nodes of as many
 * threads; at least 1. */
int64_t feeders_option_most(int64_t nodes, int64_t threads);

#endif
