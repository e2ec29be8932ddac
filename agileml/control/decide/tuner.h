/* `--stage auto`: learns from measured iterations at which ratios of transient to reliable nodes the next stage is
 * faster on this cluster. Starts with the paper's 1:1 and 15:1; Proteus (EuroSys 2017), section 3.3, leaves learning
 * these thresholds to future work. Pure state: no sockets, no clock reads.
 *
 * Stages are compared only under the same
 * membership. When the membership has not changed for a while, and its ratio is near a threshold, the stage beyond the
 * threshold is tried for some iterations. The tried stage is kept if it is clearly faster. Either way the threshold
 * moves to a value between the ratios at which each stage was faster. Trials become rare, and take only a small part of
 * all iterations. */
#ifndef AGILEML_CONTROL_TUNER_H
#define AGILEML_CONTROL_TUNER_H

#include "agileml/base/trial.h"
#include "agileml/collective/strategy.h"
#include "agileml/control/decide/plan.h"

/* One iteration in one stage, by one strategy and under one membership, without a change of plan. */
struct tuner_sample {
    enum stage stage;
    unsigned reliable, transient;
    uint64_t threads; /* of all nodes' workers, the reliable ones included */
    double seconds;
    double network_share; /* the exchange's part of the iteration without evaluations: 0 to 1 */
    enum strategy strategy;
};

enum {
    TUNER_SAMPLES = 15,      /* the most samples of a trial; their median counts */
    TUNER_SAMPLES_CLEAR = 3, /* the fewest samples of a trial, enough for a clear difference */
    TUNER_STEADY = 10,       /* iterations under one membership before a trial */
    TUNER_STEADY_URGENT = 5, /* the same before a trial of the next stage when the network is the limit */
    TUNER_TRIAL_ONE_IN = 20, /* at most one iteration in so many belongs to a trial */
    TUNER_WAIT = 400         /* iterations until the same trial is repeated; doubles each time */
};

#define TUNER_MARGIN       0.05 /* a tried stage is kept only if it is faster by this part */
#define TUNER_CLEAR        0.2  /* clear difference after TUNER_SAMPLES_CLEAR samples; half after 4 times as many */
#define TUNER_HOPELESS     2.0  /* a stage so many times as slow is given up after one sample */
#define TUNER_REACH        4.0  /* a ratio within this factor of a threshold is near it */
#define TUNER_SIMILAR      1.5  /* measurements at a ratio are valid within this factor */
#define TUNER_NETWORK_LOW  0.1  /* network_share below which the next stage can't help */
#define TUNER_NETWORK_HIGH 0.5  /* network_share above which the next stage is urgent */

/* What is known of the threshold between a lower stage and the next, upper one. */
struct tuner_boundary {
    bool fixed; /* the user gave the threshold: it is not learned */
    double threshold;
    double lower_won;         /* the highest ratio at which the lower stage was faster; 0: none */
    double upper_won;         /* the lowest ratio at which the upper stage was faster; INFINITY: none */
    struct trial_pause pause; /* in iterations: a trial at a known ratio waits for its end */
};

struct tuner {
    struct tuner_boundary boundaries[2]; /* between stages 1 and 2, 2 and 3 */
    unsigned reliable, transient;        /* nodes of the present membership */
    enum strategy strategy;              /* another strategy, like another membership, begins all trials anew */
    uint64_t threads;
    enum stage chosen;   /* the stage that a trial under this membership has chosen; STAGE_AUTO: none */
    enum stage usual;    /* the stage outside trials, under this membership */
    enum stage tried;    /* the stage that is being tried; STAGE_AUTO: none */
    struct trial trial;  /* samples: seconds of an iteration */
    uint64_t iterations; /* all iterations so far */
    uint64_t spent;      /* iterations spent on trials */
};

/* Begins with these thresholds. A threshold of 0 is learned; others are fixed. */
void tuner_init(struct tuner *tuner, const struct plan_thresholds *thresholds);

void tuner_add(struct tuner *tuner, const struct tuner_sample *sample);

/* Returns the desired stage: the stage on trial; else the stage that a trial under this membership has chosen; else
 * plan_stage with the present thresholds. */
enum stage tuner_stage(const struct tuner *tuner, unsigned reliable, unsigned transient, enum stage present);

struct plan_thresholds tuner_thresholds(const struct tuner *tuner);

#endif
