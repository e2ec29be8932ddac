/* See strategy_auto.h. */
#include "agileml/control/decide/strategy_auto.h"

#include <assert.h>
#include <math.h>

static const struct trial_rule rule = {.samples = STRATEGY_AUTO_SAMPLES,
                                       .least = STRATEGY_AUTO_LEAST,
                                       .most = STRATEGY_AUTO_LEAST,
                                       .margin = STRATEGY_AUTO_MARGIN,
                                       .clear = INFINITY,
                                       .hopeless = INFINITY};

void strategy_auto_open(struct strategy_auto *chooser, const struct strategy_clocks *clocks, enum strategy present) {
    *chooser = (struct strategy_auto){.clocks = *clocks, .wanted = present};
}

/* Returns a node's rate under S-SGD, 0 to 1. Under S-MA the rate is estimated: S-MA waits for one exchange in each
 * group of clocks, and S-SGD would wait as long in each clock. */
static double rate_by_sums(const struct strategy_auto *chooser, const struct strategy_sample *sample) {
    double waited = 1 - sample->computed;
    if (sample->strategy != STRATEGY_SSGD) {
        uint32_t per = chooser->clocks.per_iteration;
        uint32_t steps = chooser->clocks.local_steps;
        waited *= per / (double)((per + steps - 1) / steps);
    }
    return sample->computed + waited > 0 ? sample->computed / (sample->computed + waited) : 1;
}

static void change_to(struct strategy_auto *chooser, enum strategy strategy) {
    chooser->wanted = strategy;
    chooser->rates.count = 0;
}

static void pause_begin(struct strategy_auto *chooser, struct trial_pause *pause, enum trial_wait wait) {
    trial_pause_begin(pause, chooser->iterations, wait, STRATEGY_AUTO_WAIT, STRATEGY_AUTO_WAIT_MAX);
}

/* Drops earlier measurements, as the nodes or the stage have changed. Keeps pauses: otherwise nodes that come and go
 * would make the strategy change all the time. */
static void membership_begin(struct strategy_auto *chooser, const struct strategy_sample *sample) {
    chooser->nodes = sample->nodes;
    chooser->threads = sample->threads;
    chooser->stage = sample->stage;
    chooser->rates.count = 0;
    chooser->measured = false;
    trial_drop(&chooser->trial);
}

static bool is_over(const struct strategy_auto *chooser, const struct trial_pause *pause) {
    return trial_pause_is_over(pause, chooser->iterations);
}

static void decide(struct strategy_auto *chooser, enum trial_verdict verdict) {
    double rate = trial_run_median(&chooser->rates, STRATEGY_AUTO_SAMPLES);
    if (chooser->wanted == STRATEGY_SSGD) {
        chooser->measured = true;
        if (rate < STRATEGY_AUTO_LOW && is_over(chooser, &chooser->to_sma)) {
            change_to(chooser, STRATEGY_SMA);
            trial_begin(&chooser->trial);
        }
    } else if (verdict == TRIAL_TAKEN_BACK) {
        change_to(chooser, STRATEGY_SSGD); /* S-MA is not faster than S-SGD was */
        pause_begin(chooser, &chooser->to_sma, TRIAL_WAIT_LONGER);
    } else if (!chooser->measured && is_over(chooser, &chooser->to_measure)) {
        change_to(chooser, STRATEGY_SSGD);
        pause_begin(chooser, &chooser->to_measure, TRIAL_WAIT_SAME);
    } else if (rate >= STRATEGY_AUTO_HIGH && is_over(chooser, &chooser->to_ssgd)) {
        change_to(chooser, STRATEGY_SSGD); /* S-SGD would be as fast */
        pause_begin(chooser, &chooser->to_ssgd, TRIAL_WAIT_LONGER);
    }
}

void strategy_auto_add(struct strategy_auto *chooser, const struct strategy_sample *sample) {
    enum trial_verdict verdict = TRIAL_OPEN;
    if (sample->strategy != chooser->wanted || !(sample->seconds > 0) || sample->nodes == 0) {
        return; /* the change to `wanted` is still under way, or nothing was measured */
    }
    if (sample->nodes != chooser->nodes || sample->threads != chooser->threads || sample->stage != chooser->stage) {
        membership_begin(chooser, sample);
    }
    chooser->iterations++;
    trial_run_add(&chooser->rates, STRATEGY_AUTO_SAMPLES, rate_by_sums(chooser, sample));
    if (chooser->wanted == STRATEGY_SSGD) {
        trial_run_add(&chooser->trial.usual, STRATEGY_AUTO_SAMPLES, sample->seconds);
    } else if (chooser->trial.state == TRIAL_TRIED) {
        verdict = trial_add_tried(&chooser->trial, &rule, sample->seconds);
    }
    assert(chooser->trial.state == TRIAL_USUAL || chooser->wanted != STRATEGY_SSGD || chooser->rates.count == 0);
    if (chooser->rates.count >= STRATEGY_AUTO_LEAST) {
        decide(chooser, verdict);
    }
}
