/* Measures a running job's application (Table 2 of the paper) from the iterations of its report: throughput per vCPU,
 * phi, sigma and lambda. Pure functions of what was reported before. One thread.
 *
 * Work is counted in vCPUs, each by its measured speed where one is known (bidbrain/policy/speeds.h).
 *
 * An iteration in which nodes joined or left, and the one after it (work is moved at a later clock), belong to a
 * change. All others are clean: samples of (work v, items per second r).
 *
 *   throughput   median of r / v over the clean iterations
 *   phi          median over pairs of sizes of (R(v) - R(w)) / (v - w), divided by R(v0) / v0, within 0.05 .. 1: what
 *                a vCPU beyond the reference does, relative to one of the reference. R(v) is the median of r of a size
 *                v with MEASURE_LEAST samples or more; v0, the reference, is the smallest such size. The median of
 *                slopes (Theil's and Sen's) is not moved by a few odd iterations.
 *   sigma        median of the losses of changes in which nodes only joined
 *   lambda       median of the losses of changes in which some nodes left
 *
 * The loss of a change is the time without progress beyond what the lost vCPUs explain, not below 0: the seconds that
 * the change's iterations took, less their items / r0 x v1 / v0. r0 is the rate of the last clean iterations before, v0
 * their vCPUs, v1 those that were left (at most v0). */
#ifndef BIDBRAIN_DAEMON_MEASURE_H
#define BIDBRAIN_DAEMON_MEASURE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    MEASURE_SAMPLES_MAX = 256, /* the newest count */
    MEASURE_LOSSES_MAX = 32,
    MEASURE_BEFORE = 3, /* clean iterations before a change, which give r0 */
    MEASURE_LEAST = 3,  /* with fewer observations a guess is better */
};
#define MEASURE_PHI_MIN 0.05

struct measure_sample {
    double work, rate; /* items per second */
};

struct measure_losses {
    double seconds[MEASURE_LOSSES_MAX];
    size_t count; /* ever; the newest are kept */
};

/* Zeroed: nothing seen. */
struct measure {
    struct measure_sample samples[MEASURE_SAMPLES_MAX];
    size_t count; /* ever */
    struct measure_losses joins, evictions;
    unsigned settling; /* iterations of the change under way that are still to come */
    bool evicting;     /* nodes have left in it */
    bool measured;     /* there was a clean rate before it: */
    double before_rate, before_work, least_work;
    double change_seconds, change_items;
};

/* An iteration has ended. */
struct measure_iteration {
    double seconds, items; /* it took; it worked on */
    double work;           /* of the machines that are part of the job at its end */
    bool joined, left;     /* nodes, during it */
};

void measure_add(struct measure *measure, const struct measure_iteration *iteration);
/* The unit of work has changed: forgets the clean iterations. Losses, in seconds, stay. */
void measure_forget_rates(struct measure *measure);

/* Each returns false, and leaves the value alone, when there are too few observations. */
bool measure_throughput(const struct measure *measure, double *items_per_vcpu_second);
bool measure_phi(const struct measure *measure, double *phi, double *reference_work);
bool measure_loss(const struct measure_losses *losses, double *seconds);

#endif
