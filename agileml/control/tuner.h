/* `--stage auto`: learns from measured iterations at which ratios of transient to reliable nodes the next stage is
 * faster on this cluster. Starts from the paper's 1:1 and 15:1 (its section 3.3 leaves learning them to future work).
 * Pure state: no sockets, no clock reads.
 *
 * Stages are compared on one membership only: when it has been the same for a while, and its ratio is near a threshold,
 * the stage beyond is tried for some iterations. It is kept when it is clearly faster; either way the threshold moves
 * between the ratios at which one and the other was faster. Trials become rare, and take but a small part of all
 * iterations. */
#ifndef AGILEML_CONTROL_TUNER_H
#define AGILEML_CONTROL_TUNER_H

#include "agileml/control/plan.h"

/* One iteration that ran in one stage, on one membership, without a change of plan in it. */
struct tuner_sample {
    enum stage stage;
    unsigned reliable, transient;
    uint64_t threads; /* of all nodes' workers, the reliable ones included */
    double seconds;
    double network_share; /* of the iteration, how much the busiest node's link was busy, as far as known: 0 to 1 */
};

enum {
    TUNER_SAMPLES = 15,      /* of which the median counts; a trial has at most so many ... */
    TUNER_SAMPLES_CLEAR = 3, /* ... and at least so many, enough when the difference is clear */
    TUNER_STEADY = 10,       /* iterations on one membership before a trial ... */
    TUNER_STEADY_URGENT = 5, /* ... or, when the network is the limit, before one of the next stage */
    TUNER_TRIAL_ONE_IN = 20, /* iterations that may be trials */
    TUNER_WAIT = 400         /* iterations until what was tried is tried again; doubled each time */
};

#define TUNER_MARGIN       0.05 /* a stage that is tried must be so much faster, or it is not worth the change */
#define TUNER_CLEAR        0.2  /* a difference that needs TUNER_SAMPLES_CLEAR samples; four times as many halve it */
#define TUNER_HOPELESS     2.0  /* times as slow: one sample is enough */
#define TUNER_REACH        4.0  /* a ratio within this factor of a threshold is near it */
#define TUNER_SIMILAR      1.5  /* what was measured at a ratio holds within this factor */
#define TUNER_NETWORK_LOW  0.1  /* network_share below which the next stage can't help ... */
#define TUNER_NETWORK_HIGH 0.5  /* ... and above which it is urgent */

/* Samples of one stage, the last ones. */
struct tuner_run {
    enum stage stage;
    unsigned count; /* in all */
    double seconds[TUNER_SAMPLES];
};

/* Between a stage and the next. */
struct tuner_boundary {
    bool fixed; /* not to be learned */
    double threshold;
    double lower_won, upper_won; /* the highest, lowest ratio at which that stage was faster; 0, INFINITY: none */
    uint64_t again;              /* the iteration from which on a ratio may be tried again */
    uint64_t wait;
};

struct tuner {
    struct tuner_boundary boundaries[2]; /* between stages 1 and 2, 2 and 3 */
    unsigned reliable, transient;        /* the membership that is measured */
    uint64_t threads;
    enum stage chosen;             /* by a trial on this membership; STAGE_AUTO: none */
    enum stage trial;              /* under way; STAGE_AUTO: none */
    struct tuner_run usual, tried; /* on this membership; `tried` during a trial */
    uint64_t iterations, spent;    /* in all, and of them on trials */
};

/* Thresholds that are 0 are learned; others stay. */
void tuner_init(struct tuner *tuner, const struct plan_thresholds *thresholds);

void tuner_add(struct tuner *tuner, const struct tuner_sample *sample);

/* The stage that should be: plan_stage by the present thresholds, a trial's, or what a trial on this membership
 * chose. */
enum stage tuner_stage(const struct tuner *tuner, unsigned reliable, unsigned transient, enum stage present);

struct plan_thresholds tuner_thresholds(const struct tuner *tuner);

#endif
