/* See schedule.h. */
#include "apps/mf/schedule.h"

#include <math.h>
#include <stdbool.h>

/* Fewer iterations get a higher rate, so that the sum of the steps is about the same. The rate has a maximum, as a
 * step that goes far would learn only the latest ratings. */
static const double RATE_SUM = 0.8;
static const double RATE_MAX = 0.1;
/* A job with more iterations is likely to be stopped by its user, so it gets the rate of a job without an end. */
static const uint64_t ITERATIONS_PLANNED = 200;
/* Without an end the rate decays so that its sum is bounded, as many more iterations would fit the noise. After
 * about 40 iterations the model hardly changes. */
static const double OPEN_RATE = 0.04;
static const double OPEN_DECAY = 0.92;

double mf_schedule_rate(const struct mf_schedule *schedule, uint64_t iteration) {
    bool open = schedule->iterations == 0 || schedule->iterations > ITERATIONS_PLANNED;
    double before = (double)iteration - 1;
    double iterations = (double)schedule->iterations;
    double rate = schedule->rate;
    double decay = schedule->decay <= 0 && open ? OPEN_DECAY : schedule->decay;
    if (rate <= 0) {
        rate = open ? OPEN_RATE : fmin(RATE_SUM / iterations, RATE_MAX);
    }
    return rate * (decay > 0 ? pow(decay, before) : 1 - fmin(before, iterations - 1) / iterations);
}
