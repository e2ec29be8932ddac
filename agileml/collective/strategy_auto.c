/* See strategy_auto.h. */
#include "agileml/collective/strategy_auto.h"

#include "agileml/base/median.h"

#include <string.h>

void strategy_auto_open(struct strategy_auto *chooser, const struct strategy_clocks *clocks, enum strategy present) {
    *chooser = (struct strategy_auto){
        .clocks = *clocks, .wanted = present, .to_sma.wait = STRATEGY_AUTO_WAIT, .to_ssgd.wait = STRATEGY_AUTO_WAIT};
}

/* Returns the rate of S-SGD beside that of a single node. By S-MA, waiting is that of an exchange for each group of
 * clocks; by S-SGD there would be one for each clock. */
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

/* Other nodes, or another stage: what was measured does not hold any more, but pauses do, as nodes may come and go all
 * the time. */
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
        change_to(chooser, STRATEGY_SSGD); /* in vain */
        pause_begin(&chooser->to_sma, chooser->iterations);
    } else if (!(chooser->before > 0) && chooser->iterations >= chooser->trial_from) {
        change_to(chooser, STRATEGY_SSGD); /* not known here */
        chooser->trial_from = chooser->iterations + STRATEGY_AUTO_WAIT;
    } else if (rate >= STRATEGY_AUTO_HIGH && chooser->iterations >= chooser->to_ssgd.until) {
        change_to(chooser, STRATEGY_SSGD); /* as good */
        pause_begin(&chooser->to_ssgd, chooser->iterations);
    }
}

void strategy_auto_add(struct strategy_auto *chooser, const struct strategy_sample *sample) {
    if (sample->strategy != chooser->wanted || !(sample->seconds > 0) || sample->nodes == 0) {
        return; /* the change is under way, or nothing was measured */
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
