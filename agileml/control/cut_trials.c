/* See cut_trials.h. */
#include "agileml/control/cut_trials.h"

#include "agileml/base/median.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void cut_trials_begin(struct cut_trials *trials, const struct cut *cuts, size_t count) {
    assert(count > 0 && count <= CUT_CANDIDATES);
    unsigned stale = trials->stale;
    uint64_t wait = trials->wait > 0 ? trials->wait : CUT_TRIALS_WAIT;
    *trials = (struct cut_trials){.count = count, .stale = stale, .wait = wait};
    memcpy(trials->cuts, cuts, count * sizeof cuts[0]);
}

const struct cut *cut_trials_wanted(const struct cut_trials *trials) {
    return &trials->cuts[trials->trying < trials->count ? trials->trying : trials->best];
}

static double median(const struct cut_trials *trials) {
    double sorted[CUT_TRIALS_SAMPLES];
    unsigned count = trials->samples < CUT_TRIALS_SAMPLES ? trials->samples : CUT_TRIALS_SAMPLES;
    memcpy(sorted, trials->window, count * sizeof sorted[0]);
    return median_sort(sorted, count);
}

static void trial_add(struct cut_trials *trials) {
    double rate = median(trials);
    double best = trials->rates[trials->best];
    bool hopeless = trials->trying != trials->best && rate < best * CUT_TRIALS_HOPELESS;
    if (trials->samples < CUT_TRIALS_SAMPLES && !hopeless) {
        return;
    }
    trials->rates[trials->trying] = rate;
    if (rate > best * (1 + CUT_TRIALS_MARGIN)) {
        trials->best = trials->trying;
    }
    trials->trying++;
    trials->samples = 0;
    trials->windows = 0;
}

/* Whether the chosen cut's rate is no longer what it was. */
static bool drifted(const struct cut_trials *trials) {
    double before = trials->rates[trials->best];
    return trials->samples >= CUT_TRIALS_SAMPLES && fabs(median(trials) / before - 1) > CUT_TRIALS_DRIFT;
}

bool cut_trials_add(struct cut_trials *trials, cut_set feeders, double rate) {
    if (feeders != cut_trials_wanted(trials)->feeders || !(rate > 0) || !isfinite(rate)) {
        return false;
    }
    trials->window[trials->samples++ % CUT_TRIALS_SAMPLES] = rate;
    if (trials->trying < trials->count) {
        trial_add(trials);
        return false;
    }
    trials->windows++;
    if (trials->windows < trials->wait || trials->stale == CUT_TRIALS_STALE || !drifted(trials)) {
        return false;
    }
    trials->stale++;
    trials->wait *= 2;
    trials->windows = 0;
    return true;
}
