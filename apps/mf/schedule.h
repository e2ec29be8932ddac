/* The learning rate of each iteration: a pure function of values that all nodes know, even in a job that resumes
 * from a checkpoint. Rates are for ratings with standard deviation 1. */
#ifndef APPS_MF_SCHEDULE_H
#define APPS_MF_SCHEDULE_H

#include <stdint.h>

struct mf_schedule {
    double rate; /* rate of the first iteration; 0: chosen by the number of iterations */
    /* the rate's factor from iteration to iteration; 0: it falls linearly to 0; without an end, by 0.92 */
    double decay;
    uint64_t iterations; /* number of iterations after which the job ends; 0: not limited */
};

/* Returns the rate of `iteration`, which counts from 1. */
double mf_schedule_rate(const struct mf_schedule *schedule, uint64_t iteration);

#endif
