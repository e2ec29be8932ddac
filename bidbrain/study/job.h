/* Simulates one job: handles events in time order, buys and loses machines, works, and bills. Deterministic. */
#ifndef BIDBRAIN_STUDY_JOB_H
#define BIDBRAIN_STUDY_JOB_H

#include "bidbrain/study/study.h"

enum {
    JOB_ALLOCATIONS_MAX = 64, /* most allocations held at once */
    JOB_SLOWEST = 50,         /* a job is abandoned after this many times its hours */
};

/* Runs job number `number` of a study, started at `start`, under `scheme`. `log` may be NULL. */
struct job_result job_run(const struct study *study, const struct scheme *scheme, uint64_t number, int64_t start,
                          FILE *log);

#endif
