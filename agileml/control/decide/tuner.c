/* See tuner.h. */
#include "agileml/control/decide/tuner.h"

#include <assert.h>
#include <math.h>

static const struct trial_rule rule = {.samples = TUNER_SAMPLES,
                                       .least = TUNER_SAMPLES_CLEAR,
                                       .most = TUNER_SAMPLES,
                                       .margin = TUNER_MARGIN,
                                       .clear = TUNER_CLEAR,
                                       .hopeless = TUNER_HOPELESS};

static void boundary_init(struct tuner_boundary *boundary, double given, double initial) {
    *boundary =
        (struct tuner_boundary){.fixed = given > 0, .threshold = given > 0 ? given : initial, .upper_won = INFINITY};
}

void tuner_init(struct tuner *tuner, const struct plan_thresholds *thresholds) {
    *tuner = (struct tuner){0};
    boundary_init(&tuner->boundaries[0], thresholds->to_2, PLAN_THRESHOLD_2);
    boundary_init(&tuner->boundaries[1], thresholds->to_3, PLAN_THRESHOLD_3);
}

struct plan_thresholds tuner_thresholds(const struct tuner *tuner) {
    return (struct plan_thresholds){tuner->boundaries[0].threshold, tuner->boundaries[1].threshold};
}

enum stage tuner_stage(const struct tuner *tuner, unsigned reliable, unsigned transient, enum stage present) {
    bool measured = reliable == tuner->reliable && transient == tuner->transient;
    if (measured && tuner->tried != STAGE_AUTO) {
        return tuner->tried;
    }
    if (measured && tuner->chosen != STAGE_AUTO) {
        return tuner->chosen;
    }
    if (tuner->tried != STAGE_AUTO && present == tuner->tried) {
        present = tuner->usual; /* a stage that was only tried gets no hysteresis */
    }
    struct plan_thresholds thresholds = tuner_thresholds(tuner);
    return plan_stage(reliable, transient, &thresholds, present);
}

/* ---- Trials ---- */

static struct tuner_boundary *boundary_between(struct tuner *tuner, enum stage a, enum stage b) {
    return &tuner->boundaries[a == STAGE_3 || b == STAGE_3];
}

static double ratio_of(const struct tuner *tuner) {
    assert(tuner->reliable > 0);
    return (double)tuner->transient / tuner->reliable;
}

/* Records which stage is faster at this ratio, forgets earlier results that contradict it, and moves the threshold. */
static void boundary_learn(struct tuner_boundary *boundary, double ratio, bool upper, uint64_t iteration) {
    bool known = upper ? ratio * TUNER_SIMILAR >= boundary->upper_won : ratio <= boundary->lower_won * TUNER_SIMILAR;
    trial_pause_begin(&boundary->pause, iteration, known ? TRIAL_WAIT_LONGER : TRIAL_WAIT_SAME, TUNER_WAIT, UINT64_MAX);
    if (upper) {
        boundary->upper_won = fmin(boundary->upper_won, ratio);
        boundary->lower_won = boundary->lower_won < ratio ? boundary->lower_won : 0;
    } else {
        boundary->lower_won = fmax(boundary->lower_won, ratio);
        boundary->upper_won = boundary->upper_won > ratio ? boundary->upper_won : INFINITY;
    }
    if (boundary->lower_won > 0 && isfinite(boundary->upper_won)) {
        boundary->threshold = sqrt(boundary->lower_won * boundary->upper_won);
    } else if (boundary->lower_won > 0) {
        boundary->threshold = fmax(boundary->threshold, boundary->lower_won * (1 + 2 * PLAN_HYSTERESIS));
    } else {
        boundary->threshold = fmin(boundary->threshold, boundary->upper_won / (1 + 2 * PLAN_HYSTERESIS));
    }
    assert(boundary->lower_won < boundary->upper_won && boundary->threshold > 0);
}

/* Whether the stage beyond a boundary may be tried now. The ratio must be near the threshold, and its result unknown or
 * old. Trials must not have used up their part of the iterations. */
static bool may_try(const struct tuner *tuner, const struct tuner_boundary *boundary, bool upper) {
    double ratio = ratio_of(tuner);
    bool near = upper ? ratio * TUNER_REACH >= boundary->threshold : ratio <= boundary->threshold * TUNER_REACH;
    bool known = upper ? ratio <= boundary->lower_won * TUNER_SIMILAR : ratio * TUNER_SIMILAR >= boundary->upper_won;
    bool time = tuner->spent == 0 || (tuner->spent + TUNER_SAMPLES) * TUNER_TRIAL_ONE_IN <= tuner->iterations;
    return !boundary->fixed && near && time && (!known || trial_pause_is_over(&boundary->pause, tuner->iterations));
}

/* Returns the stage to try now, or STAGE_AUTO. */
static enum stage choose_trial(const struct tuner *tuner, double network_share) {
    enum stage usual = tuner->usual;
    unsigned steady = network_share >= TUNER_NETWORK_HIGH ? TUNER_STEADY_URGENT : TUNER_STEADY;
    unsigned count = tuner->trial.usual.count;
    if (usual < STAGE_3 && network_share >= TUNER_NETWORK_LOW && count >= steady &&
        may_try(tuner, &tuner->boundaries[usual - STAGE_1], true)) {
        return usual + 1;
    }
    if (usual > STAGE_1 && count >= TUNER_STEADY && may_try(tuner, &tuner->boundaries[usual - STAGE_2], false)) {
        return usual - 1;
    }
    return STAGE_AUTO;
}

static void trial_add(struct tuner *tuner, double seconds) {
    enum trial_verdict verdict = trial_add_tried(&tuner->trial, &rule, seconds);
    tuner->spent++;
    assert(tuner->spent <= tuner->iterations);
    if (verdict != TRIAL_OPEN) {
        bool kept = verdict == TRIAL_KEPT;
        bool upper = (tuner->tried > tuner->usual) == kept;
        boundary_learn(boundary_between(tuner, tuner->tried, tuner->usual), ratio_of(tuner), upper, tuner->iterations);
        tuner->chosen = tuner->usual = kept ? tuner->tried : tuner->usual;
        tuner->tried = STAGE_AUTO;
    }
}

static void membership_begin(struct tuner *tuner, const struct tuner_sample *sample) {
    tuner->reliable = sample->reliable;
    tuner->transient = sample->transient;
    tuner->threads = sample->threads;
    tuner->strategy = sample->strategy;
    tuner->usual = sample->stage;
    tuner->chosen = tuner->tried = STAGE_AUTO;
    trial_drop(&tuner->trial);
}

void tuner_add(struct tuner *tuner, const struct tuner_sample *sample) {
    if (sample->stage < STAGE_1 || sample->stage > STAGE_3 || sample->reliable == 0 || sample->transient == 0 ||
        !(sample->seconds > 0)) {
        return; /* there is nothing to compare */
    }
    tuner->iterations++;
    if (sample->reliable != tuner->reliable || sample->transient != tuner->transient ||
        sample->threads != tuner->threads || sample->strategy != tuner->strategy) {
        membership_begin(tuner, sample);
    }
    assert((tuner->tried != STAGE_AUTO) == (tuner->trial.state == TRIAL_TRIED));
    if (tuner->tried != STAGE_AUTO && sample->stage == tuner->tried) {
        trial_add(tuner, sample->seconds);
        return;
    }
    if (sample->stage != tuner->usual) {
        tuner->usual = sample->stage;
        tuner->trial.usual.count = 0;
    }
    trial_run_add(&tuner->trial.usual, TUNER_SAMPLES, sample->seconds);
    if (tuner->tried == STAGE_AUTO) {
        tuner->tried = choose_trial(tuner, sample->network_share);
        if (tuner->tried != STAGE_AUTO) {
            trial_begin(&tuner->trial);
        }
    }
}
