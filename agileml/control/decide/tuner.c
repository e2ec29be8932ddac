/* See tuner.h. */
#include "agileml/control/decide/tuner.h"

#include "agileml/base/median.h"

#include <math.h>
#include <string.h>

static void boundary_init(struct tuner_boundary *boundary, double given, double initial) {
    *boundary = (struct tuner_boundary){
        .fixed = given > 0, .threshold = given > 0 ? given : initial, .upper_won = INFINITY, .wait = TUNER_WAIT};
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
    if (measured && tuner->trial != STAGE_AUTO) {
        return tuner->trial;
    }
    if (measured && tuner->chosen != STAGE_AUTO) {
        return tuner->chosen;
    }
    if (tuner->trial != STAGE_AUTO && present == tuner->trial) {
        present = tuner->usual.stage; /* a stage that was only tried gets no hysteresis */
    }
    struct plan_thresholds thresholds = tuner_thresholds(tuner);
    return plan_stage(reliable, transient, &thresholds, present);
}

/* ---- Samples ---- */

static void run_begin(struct tuner_run *run, enum stage stage) {
    *run = (struct tuner_run){.stage = stage};
}

static void run_add(struct tuner_run *run, double seconds) {
    run->seconds[run->count++ % TUNER_SAMPLES] = seconds;
}

/* Returns the median of a run that has samples. */
static double run_median(const struct tuner_run *run) {
    double sorted[TUNER_SAMPLES];
    unsigned count = run->count < TUNER_SAMPLES ? run->count : TUNER_SAMPLES;
    memcpy(sorted, run->seconds, count * sizeof sorted[0]);
    return median_sort(sorted, count);
}

/* ---- Trials ---- */

static struct tuner_boundary *boundary_between(struct tuner *tuner, enum stage a, enum stage b) {
    return &tuner->boundaries[a == STAGE_3 || b == STAGE_3];
}

static double ratio_of(const struct tuner *tuner) {
    return (double)tuner->transient / tuner->reliable;
}

/* Records which stage is faster at this ratio, forgets earlier results that contradict it, and moves the threshold. */
static void boundary_learn(struct tuner_boundary *boundary, double ratio, bool upper, uint64_t iteration) {
    bool known = upper ? ratio * TUNER_SIMILAR >= boundary->upper_won : ratio <= boundary->lower_won * TUNER_SIMILAR;
    boundary->wait = known ? 2 * boundary->wait : boundary->wait;
    boundary->again = iteration + boundary->wait;
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
}

/* Whether the stage beyond a boundary may be tried now. The ratio must be near the threshold, and its result unknown or
 * old. Trials must not have used up their part of the iterations. */
static bool may_try(const struct tuner *tuner, const struct tuner_boundary *boundary, bool upper) {
    double ratio = ratio_of(tuner);
    bool near = upper ? ratio * TUNER_REACH >= boundary->threshold : ratio <= boundary->threshold * TUNER_REACH;
    bool known = upper ? ratio <= boundary->lower_won * TUNER_SIMILAR : ratio * TUNER_SIMILAR >= boundary->upper_won;
    bool time = tuner->spent == 0 || (tuner->spent + TUNER_SAMPLES) * TUNER_TRIAL_ONE_IN <= tuner->iterations;
    return !boundary->fixed && near && time && (!known || tuner->iterations >= boundary->again);
}

/* Returns the stage to try now, or STAGE_AUTO. */
static enum stage choose_trial(const struct tuner *tuner, double network_share) {
    const struct tuner_run *usual = &tuner->usual;
    bool urgent = network_share >= TUNER_NETWORK_HIGH;
    if (usual->stage < STAGE_3 && network_share >= TUNER_NETWORK_LOW &&
        usual->count >= (urgent ? TUNER_STEADY_URGENT : TUNER_STEADY) &&
        may_try(tuner, &tuner->boundaries[usual->stage - STAGE_1], true)) {
        return usual->stage + 1;
    }
    if (usual->stage > STAGE_1 && usual->count >= TUNER_STEADY &&
        may_try(tuner, &tuner->boundaries[usual->stage - STAGE_2], false)) {
        return usual->stage - 1;
    }
    return STAGE_AUTO;
}

/* Ends the trial with its result. */
static void trial_end(struct tuner *tuner, bool won) {
    bool upper = (tuner->trial > tuner->usual.stage) == won;
    boundary_learn(boundary_between(tuner, tuner->trial, tuner->usual.stage), ratio_of(tuner), upper,
                   tuner->iterations);
    tuner->chosen = won ? tuner->trial : tuner->usual.stage;
    tuner->trial = STAGE_AUTO;
    run_begin(&tuner->usual, tuner->chosen);
}

static void trial_add(struct tuner *tuner, double seconds) {
    double usual = run_median(&tuner->usual);
    tuner->spent++;
    run_add(&tuner->tried, seconds);
    double tried = run_median(&tuner->tried);
    double noise = TUNER_CLEAR * sqrt((double)TUNER_SAMPLES_CLEAR / tuner->tried.count);
    bool clear = tuner->tried.count >= TUNER_SAMPLES_CLEAR && fabs(tried / usual - 1) >= noise;
    if (clear || tried >= usual * TUNER_HOPELESS || tuner->tried.count == TUNER_SAMPLES) {
        trial_end(tuner, tried <= usual * (1 - TUNER_MARGIN));
    }
}

static void membership_begin(struct tuner *tuner, const struct tuner_sample *sample) {
    tuner->reliable = sample->reliable;
    tuner->transient = sample->transient;
    tuner->threads = sample->threads;
    tuner->strategy = sample->strategy;
    tuner->chosen = tuner->trial = STAGE_AUTO;
    run_begin(&tuner->usual, sample->stage);
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
    if (tuner->trial != STAGE_AUTO && sample->stage == tuner->trial) {
        trial_add(tuner, sample->seconds);
        return;
    }
    if (sample->stage != tuner->usual.stage) {
        run_begin(&tuner->usual, sample->stage);
    }
    run_add(&tuner->usual, sample->seconds);
    if (tuner->trial == STAGE_AUTO) {
        tuner->trial = choose_trial(tuner, sample->network_share);
        run_begin(&tuner->tried, tuner->trial);
    }
}
