/* The learning rate of each iteration: a pure function of what all nodes know, also those of a job that goes on from a
 * checkpoint. Rates are of ratings with standard deviation 1. */
#ifndef APPS_MF_SCHEDULE_H
#define APPS_MF_SCHEDULE_H

#include <stdint.h>

struct mf_schedule {
    double rate; /* of the first iteration; 0: chosen by the number of iterations */
    double
        decay; /* the rate's factor from iteration to iteration; 0: it falls linearly to 0; without an end, by 0.92 */
    uint64_t iterations; /* at which the job ends; 0: it has no such end */
};

/* Returns the rate of `iteration`, from 1. */
double mf_schedule_rate(const struct mf_schedule *schedule, uint64_t iteration);

#endif
