/* See schedule.h. */
#include "apps/mf/schedule.h"

#include <math.h>
#include <stdbool.h>

/* Fewer iterations get a higher rate, so that the steps' sum is about the same; but a step that goes a large part of
 * its way learns the latest ratings alone. */
static const double RATE_SUM = 0.8;
static const double RATE_MAX = 0.1;
/* A job of more iterations is one that people stop: its rate is as if it had no end. */
static const uint64_t ITERATIONS_PLANNED = 200;
/* Without an end the rate falls so that its sum has a limit, as many more iterations would fit the noise: after about
 * 40 the model stays as it is. */
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
