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
 * The loss of a change is its time without progress, beyond what the lost vCPUs explain: the seconds of the change's
 * iterations, less items / (r0 x v1 / v0), but at least 0. r0 is the rate of the last clean iterations before, v0 their
 * vCPUs, v1 the vCPUs left (at most v0). */
#ifndef BIDBRAIN_DAEMON_MEASURE_H
#define BIDBRAIN_DAEMON_MEASURE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    MEASURE_SAMPLES_MAX = 256, /* the newest samples are kept */
    MEASURE_LOSSES_MAX = 32,
    MEASURE_BEFORE = 3, /* clean iterations before a change, which give r0 */
    MEASURE_LEAST = 3,  /* fewer observations are worse than a guess */
};
#define MEASURE_PHI_MIN 0.05

struct measure_sample {
    double work, rate; /* rate: items per second */
};

struct measure_losses {
    double seconds[MEASURE_LOSSES_MAX];
    size_t count; /* number of all losses; the newest are kept */
};

/* Zeroed: nothing was measured. */
struct measure {
    struct measure_sample samples[MEASURE_SAMPLES_MAX];
    size_t count; /* number of all samples */
    struct measure_losses joins, evictions;
    unsigned settling; /* iterations left in the present change */
    bool evicting;     /* nodes left during the present change */
    bool measured;     /* a clean rate from before the change is known, in the fields below */
    double before_rate, before_work, least_work;
    double change_seconds, change_items;
};

/* An iteration that has ended. */
struct measure_iteration {
    double seconds, items; /* duration; items worked on */
    double work;           /* work of the machines in the job at its end */
    bool joined, left;     /* nodes joined or left during it */
};

void measure_add(struct measure *measure, const struct measure_iteration *iteration);
/* Forgets the clean iterations, since the unit of work has changed. Losses stay: they are in seconds. */
void measure_forget_rates(struct measure *measure);

/* Each returns false, and leaves its results unchanged, when there are too few observations. */
bool measure_throughput(const struct measure *measure, double *items_per_vcpu_second);
bool measure_phi(const struct measure *measure, double *phi, double *reference_work);
bool measure_loss(const struct measure_losses *losses, double *seconds);

#endif
