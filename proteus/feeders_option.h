/* --feeders: how many feeders a job has, or that it chooses itself. */
#ifndef PROTEUS_FEEDERS_OPTION_H
#define PROTEUS_FEEDERS_OPTION_H

#include "agileml/base/error.h"

#include <stdint.h>

struct feeders_option {
    int64_t count; /* to begin with */
    int64_t most;  /* the job chooses a number up to this: `auto`; 0: it does not choose */
};

/* Reads N, auto or auto:MAX. `most` is what `auto` alone means. Returns AML_EINPUT for anything else. */
int feeders_option(const char *text, int64_t most, struct feeders_option *option, struct error *error);

/* Returns how many processors of this machine are left by `nodes` nodes of so many threads; at least `least`, and no
 * more than a feeder can have threads. */
int64_t feeders_option_threads(int64_t nodes, int64_t threads, int64_t least);

/* Returns as many feeders of so many threads as this machine has processors for beside `nodes` nodes with as many; at
 * least 1. */
int64_t feeders_option_most(int64_t nodes, int64_t threads);

#endif
