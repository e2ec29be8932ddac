/* See strategy_auto.h. */
#include "agileml/collective/strategy_auto.h"

#include "agileml/base/median.h"

#include <string.h>

void strategy_auto_open(struct strategy_auto *chooser, const struct strategy_clocks *clocks, enum strategy present) {
    *chooser = (struct strategy_auto){
        .clocks = *clocks, .wanted = present, .to_sma.wait = STRATEGY_AUTO_WAIT, .to_ssgd.wait = STRATEGY_AUTO_WAIT};
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

static double median_of(const double *values, unsigned count) {
    double sorted[STRATEGY_AUTO_SAMPLES];
    count = count < STRATEGY_AUTO_SAMPLES ? count : STRATEGY_AUTO_SAMPLES;
    memcpy(sorted, values, count * sizeof *sorted);
    return median_sort(sorted, count);
}

static void change_to(struct strategy_auto *chooser, enum strategy strategy) {
    chooser->wanted = strategy;
    chooser->count = 0;
}

static void pause_begin(struct strategy_pause *pause, uint64_t iteration) {
    pause->until = iteration + pause->wait;
    pause->wait = 2 * pause->wait < STRATEGY_AUTO_WAIT_MAX ? 2 * pause->wait : STRATEGY_AUTO_WAIT_MAX;
}

/* Drops earlier measurements, as the nodes or the stage have changed. Keeps pauses: otherwise nodes that come and go
 * would make the strategy change all the time. */
static void membership_begin(struct strategy_auto *chooser, const struct strategy_sample *sample) {
    chooser->nodes = sample->nodes;
    chooser->threads = sample->threads;
    chooser->stage = sample->stage;
    chooser->count = 0;
    chooser->before = 0;
}

static void decide(struct strategy_auto *chooser) {
    double rate = median_of(chooser->rates, chooser->count);
    double seconds = median_of(chooser->seconds, chooser->count);
    if (chooser->wanted == STRATEGY_SSGD) {
        chooser->before = seconds;
        if (rate < STRATEGY_AUTO_LOW && chooser->iterations >= chooser->to_sma.until) {
            change_to(chooser, STRATEGY_SMA);
        }
    } else if (chooser->before > 0 && chooser->count == STRATEGY_AUTO_LEAST &&
               seconds > chooser->before * (1 - STRATEGY_AUTO_MARGIN)) {
        change_to(chooser, STRATEGY_SSGD); /* S-MA is not faster than S-SGD was */
        pause_begin(&chooser->to_sma, chooser->iterations);
    } else if (!(chooser->before > 0) && chooser->iterations >= chooser->trial_from) {
        change_to(chooser, STRATEGY_SSGD); /* a trial: S-SGD was not measured under this membership */
        chooser->trial_from = chooser->iterations + STRATEGY_AUTO_WAIT;
    } else if (rate >= STRATEGY_AUTO_HIGH && chooser->iterations >= chooser->to_ssgd.until) {
        change_to(chooser, STRATEGY_SSGD); /* S-SGD would be as fast */
        pause_begin(&chooser->to_ssgd, chooser->iterations);
    }
}

void strategy_auto_add(struct strategy_auto *chooser, const struct strategy_sample *sample) {
    if (sample->strategy != chooser->wanted || !(sample->seconds > 0) || sample->nodes == 0) {
        return; /* the change to `wanted` is still under way, or nothing was measured */
    }
    if (sample->nodes != chooser->nodes || sample->threads != chooser->threads || sample->stage != chooser->stage) {
        membership_begin(chooser, sample);
    }
    chooser->iterations++;
    chooser->rates[chooser->count % STRATEGY_AUTO_SAMPLES] = rate_by_sums(chooser, sample);
    chooser->seconds[chooser->count % STRATEGY_AUTO_SAMPLES] = sample->seconds;
    chooser->count++;
    if (chooser->count >= STRATEGY_AUTO_LEAST) {
        decide(chooser);
    }
}
