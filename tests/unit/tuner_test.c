/* The tuner on clusters with known costs: it ends in the best stage, soon and with few changes, and makes no
 * needless trials. */
#include "agileml/control/decide/tuner.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

#include <math.h>

enum { RELIABLE = 4, ITERATIONS = 600, CHANGES_MAX = 8, SEEDS = 25 };

#define NOISE 0.1 /* largest relative deviation of an iteration's time */

/* A cluster as in the paper: in stage 1 the reliable nodes' links are the limit, in proportion to the ratio. In
 * stage 2 serving slows their workers, and in stage 3 these do not work. */
struct cluster {
    double to_2, to_3; /* ratios at which stages cost the same */
};

#define COMPUTE   1.0
#define SERVING   0.3 /* cost of serving on transient nodes */
#define DISTURBED 0.01

static double cost(const struct cluster *cluster, enum stage stage, double ratio) {
    switch (stage) {
    case STAGE_1:
        return COMPUTE + (DISTURBED + SERVING / cluster->to_2) * ratio;
    case STAGE_2:
        return COMPUTE + SERVING + DISTURBED * ratio;
    default:
        return COMPUTE + SERVING + DISTURBED * cluster->to_3 * cluster->to_3 / ratio;
    }
}

static enum stage best_stage(const struct cluster *cluster, double ratio) {
    enum stage best = STAGE_1;
    for (enum stage stage = STAGE_2; stage <= STAGE_3; stage++) {
        best = cost(cluster, stage, ratio) < cost(cluster, best, ratio) ? stage : best;
    }
    return best;
}

static uint64_t random_state;

/* A random number from -1 to 1. */
static double random_unit(void) {
    return (double)hash_mix(random_state++) / (double)UINT64_MAX * 2 - 1;
}

/* The controller's use of the tuner. */
struct training {
    struct tuner tuner;
    enum stage stage;
    unsigned changes;
    unsigned iterations[4]; /* number of iterations in each stage */
};

static void training_begin(struct training *training) {
    *training = (struct training){0};
    tuner_init(&training->tuner, &(struct plan_thresholds){0});
}

static void training_run(struct training *training, const struct cluster *cluster, unsigned transient,
                         unsigned iterations, double noise) {
    double ratio = (double)transient / RELIABLE;
    for (unsigned i = 0; i < iterations; i++) {
        enum stage wanted = tuner_stage(&training->tuner, RELIABLE, transient, training->stage);
        if (wanted != training->stage) {
            training->changes += training->stage != STAGE_AUTO;
            training->stage = wanted;
            continue; /* an iteration with a change is no sample */
        }
        double seconds = cost(cluster, training->stage, ratio);
        struct tuner_sample sample = {.stage = training->stage,
                                      .reliable = RELIABLE,
                                      .transient = transient,
                                      .threads = RELIABLE + transient,
                                      .seconds = seconds * (1 + noise * random_unit()),
                                      .network_share = 1 - COMPUTE / seconds};
        training->iterations[training->stage]++;
        tuner_add(&training->tuner, &sample);
    }
}

static const struct cluster clusters[] = {{1, 15}, {3, 20}, {0.5, 8}, {2, 40}, {0.3, 5}, {3.5, 50}};
static const unsigned transients[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 64, 80, 100, 128, 160, 200, 240};

/* Checks that the final stage is the best, within a trial's precision; near a threshold either stage is good. A
 * stage beyond the trials' reach from the first thresholds is not found. */
static void check_ends_best(const struct cluster *cluster, unsigned transient, const struct training *training) {
    double ratio = (double)transient / RELIABLE;
    double best = cost(cluster, best_stage(cluster, ratio), ratio);
    if (cost(cluster, training->stage, ratio) > best * (1 + TUNER_MARGIN + NOISE)) {
        fail_msg("crossings %g, %g, ratio %g: ended in stage %d, not %d", cluster->to_2, cluster->to_3, ratio,
                 training->stage, best_stage(cluster, ratio));
    }
}

/* Where one stage is clearly the best, little time is lost compared with that stage from the first iteration on. */
static void check_little_lost(const struct cluster *cluster, double ratio, const struct training *training) {
    enum stage best = best_stage(cluster, ratio);
    double lost = 0;
    for (enum stage stage = STAGE_1; stage <= STAGE_3; stage++) {
        double slower = cost(cluster, stage, ratio) / cost(cluster, best, ratio) - 1;
        if (stage != best && slower < TUNER_MARGIN + NOISE) {
            return;
        }
        lost += training->iterations[stage] * slower;
    }
    if (lost > ITERATIONS * TUNER_MARGIN) {
        fail_msg("crossings %g, %g, ratio %g: lost %g iterations", cluster->to_2, cluster->to_3, ratio, lost);
    }
}

static bool in_reach(const struct cluster *cluster, double ratio) {
    enum stage first = plan_stage(RELIABLE, (unsigned)lround(ratio * RELIABLE),
                                  &(struct plan_thresholds){PLAN_THRESHOLD_2, PLAN_THRESHOLD_3}, STAGE_AUTO);
    switch (best_stage(cluster, ratio)) {
    case STAGE_1:
        return first == STAGE_1 || (first == STAGE_2 && ratio <= PLAN_THRESHOLD_2 * TUNER_REACH);
    case STAGE_2:
        return first == STAGE_2 ||
               (first == STAGE_1 ? ratio * TUNER_REACH >= PLAN_THRESHOLD_2 : ratio <= PLAN_THRESHOLD_3 * TUNER_REACH);
    default:
        return first == STAGE_3 || (first == STAGE_2 && ratio * TUNER_REACH >= PLAN_THRESHOLD_3);
    }
}

TEST(ends_in_the_best_stage) {
    unsigned checked = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
            for (size_t t = 0; t < sizeof transients / sizeof transients[0]; t++) {
                double ratio = (double)transients[t] / RELIABLE;
                if (!in_reach(&clusters[c], ratio)) {
                    continue;
                }
                struct training training;
                random_state = hash_mix(seed * 10000 + c * 100 + t);
                training_begin(&training);
                training_run(&training, &clusters[c], transients[t], ITERATIONS, NOISE);
                check_ends_best(&clusters[c], transients[t], &training);
                assert_in_range(training.changes, 0, CHANGES_MAX);
                check_little_lost(&clusters[c], ratio, &training);
                checked++;
            }
        }
    }
    assert_true(checked > SEEDS * 60);
}

/* Thresholds learned at some ratios apply to other ratios: the right stage is chosen from the first iteration on. */
TEST(thresholds_carry_over) {
    const struct cluster cluster = {3, 24};
    struct training training;
    random_state = 11;
    training_begin(&training);
    for (unsigned t = 0; t < sizeof transients / sizeof transients[0]; t++) {
        training_run(&training, &cluster, transients[t], ITERATIONS, NOISE);
        check_ends_best(&cluster, transients[t], &training);
    }
    struct plan_thresholds learned = tuner_thresholds(&training.tuner);
    assert_true(learned.to_2 > 1.5 && learned.to_2 < 6);
    assert_true(learned.to_3 > 12 && learned.to_3 < 48);
    assert_int_equal(tuner_stage(&training.tuner, RELIABLE, 5, STAGE_AUTO), STAGE_1);
    assert_int_equal(tuner_stage(&training.tuner, RELIABLE, 44, STAGE_AUTO), STAGE_2);
    assert_int_equal(tuner_stage(&training.tuner, RELIABLE, 250, STAGE_AUTO), STAGE_3);
}

/* Equally good stages are tried once and then kept. */
TEST(equal_stages_do_not_flap) {
    enum { LONG = 4000 };
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const struct cluster cluster = {2, 9};
        struct training training;
        random_state = hash_mix(seed);
        training_begin(&training);
        training_run(&training, &cluster, 2 * RELIABLE, LONG, NOISE);
        assert_in_range(training.changes, 0, 12);
        assert_true(training.tuner.spent > 0);
        assert_in_range(training.tuner.spent, 1, LONG / TUNER_TRIAL_ONE_IN);
    }
}

/* No trial if the next stage can't help, far from a threshold, or if thresholds are given. */
TEST(leaves_well_alone) {
    struct tuner tuner;
    struct tuner_sample sample = {
        .stage = STAGE_1, .reliable = 4, .transient = 3, .threads = 7, .seconds = 1, .network_share = 0.05};
    tuner_init(&tuner, &(struct plan_thresholds){0});
    for (unsigned i = 0; i < 2 * ITERATIONS; i++) {
        tuner_add(&tuner, &sample);
        assert_int_equal(tuner_stage(&tuner, 4, 3, STAGE_1), STAGE_1);
    }
    sample = (struct tuner_sample){
        .stage = STAGE_3, .reliable = 1, .transient = 61, .threads = 62, .seconds = 1, .network_share = 0.9};
    for (unsigned i = 0; i < 2 * ITERATIONS; i++) {
        tuner_add(&tuner, &sample);
        assert_int_equal(tuner_stage(&tuner, 1, 61, STAGE_3), STAGE_3);
    }
    tuner_init(&tuner, &(struct plan_thresholds){1, 15});
    sample = (struct tuner_sample){
        .stage = STAGE_2, .reliable = 1, .transient = 14, .threads = 15, .seconds = 1, .network_share = 0.9};
    for (unsigned i = 0; i < 2 * ITERATIONS; i++) {
        tuner_add(&tuner, &sample);
        assert_int_equal(tuner_stage(&tuner, 1, 14, STAGE_2), STAGE_2);
    }
    assert_int_equal(tuner.spent, 0);
}

static void add_samples(struct tuner *tuner, enum stage stage, unsigned transient, unsigned count, double seconds,
                        double network_share) {
    for (unsigned i = 0; i < count; i++) {
        struct tuner_sample sample = {.stage = stage,
                                      .reliable = 2,
                                      .transient = transient,
                                      .threads = 2 + transient,
                                      .seconds = seconds,
                                      .network_share = network_share};
        tuner_add(tuner, &sample);
    }
}

/* A trial compares iterations by one strategy: another strategy ends the trial and drops earlier measurements. */
TEST(another_strategy_begins_anew) {
    struct tuner tuner;
    tuner_init(&tuner, &(struct plan_thresholds){0});
    add_samples(&tuner, STAGE_1, 2, TUNER_STEADY, 1, 0.3);
    assert_int_equal(tuner_stage(&tuner, 2, 2, STAGE_1), STAGE_2);
    struct tuner_sample sample = {.stage = STAGE_2,
                                  .strategy = STRATEGY_SMA,
                                  .reliable = 2,
                                  .transient = 2,
                                  .threads = 4,
                                  .seconds = 0.1,
                                  .network_share = 0.05};
    for (unsigned i = 0; i < TUNER_STEADY - 1; i++) {
        tuner_add(&tuner, &sample);
        assert_int_equal(tuner.tried, STAGE_AUTO);
        assert_int_equal(tuner.chosen, STAGE_AUTO);
    }
    assert_true(tuner_thresholds(&tuner).to_2 == PLAN_THRESHOLD_2);
}

/* The busier the network, the sooner the next stage is tried. */
TEST(busy_network_is_urgent) {
    struct tuner tuner;
    tuner_init(&tuner, &(struct plan_thresholds){0});
    add_samples(&tuner, STAGE_1, 2, TUNER_STEADY - 1, 1, 0.3);
    assert_int_equal(tuner_stage(&tuner, 2, 2, STAGE_1), STAGE_1);
    add_samples(&tuner, STAGE_1, 2, 1, 1, 0.3);
    assert_int_equal(tuner_stage(&tuner, 2, 2, STAGE_1), STAGE_2);
    tuner_init(&tuner, &(struct plan_thresholds){0});
    add_samples(&tuner, STAGE_1, 2, TUNER_STEADY_URGENT, 1, 0.9);
    assert_int_equal(tuner_stage(&tuner, 2, 2, STAGE_1), STAGE_2);
}

/* A trial ends after few iterations if the result is clear, and at once if it is hopeless. After any result the
 * stage stays until the membership changes. */
TEST(trials) {
    static const struct {
        double seconds;
        unsigned samples;
        enum stage chosen;
    } cases[] = {{0.7, TUNER_SAMPLES_CLEAR, STAGE_2}, {0.93, TUNER_SAMPLES, STAGE_2},
                 {0.97, TUNER_SAMPLES, STAGE_1},      {1.101, 4 * TUNER_SAMPLES_CLEAR, STAGE_1},
                 {1.5, TUNER_SAMPLES_CLEAR, STAGE_1}, {3.0, 1, STAGE_1}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct tuner tuner;
        tuner_init(&tuner, &(struct plan_thresholds){0});
        add_samples(&tuner, STAGE_1, 2, TUNER_STEADY, 1, 0.9);
        add_samples(&tuner, STAGE_1, 2, 7, 1, 0.9); /* then the stage changes */
        add_samples(&tuner, STAGE_2, 2, cases[c].samples - 1, cases[c].seconds, 0.9);
        assert_int_equal(tuner_stage(&tuner, 2, 2, STAGE_2), STAGE_2);
        assert_int_equal(tuner.tried, STAGE_2);
        add_samples(&tuner, STAGE_2, 2, 1, cases[c].seconds, 0.9);
        assert_int_equal(tuner.tried, STAGE_AUTO);
        assert_int_equal(tuner.spent, cases[c].samples);
        assert_int_equal(tuner_stage(&tuner, 2, 2, STAGE_2), cases[c].chosen);
        assert_int_equal(tuner_stage(&tuner, 2, 2, STAGE_1), cases[c].chosen);
        assert_int_equal(tuner_stage(&tuner, 2, 2, STAGE_AUTO), cases[c].chosen);
        bool upper = cases[c].chosen == STAGE_2;
        assert_true(upper ? tuner_thresholds(&tuner).to_2 < 1 : tuner_thresholds(&tuner).to_2 > 1);
    }
}

/* A trial is void if the membership changes during it. */
TEST(membership_ends_a_trial) {
    struct tuner tuner;
    tuner_init(&tuner, &(struct plan_thresholds){0});
    add_samples(&tuner, STAGE_1, 2, TUNER_STEADY, 1, 0.9);
    add_samples(&tuner, STAGE_2, 2, 2, 0.1, 0.9);
    assert_int_equal(tuner_stage(&tuner, 2, 2, STAGE_2), STAGE_2);
    assert_int_equal(tuner_stage(&tuner, 2, 1, STAGE_2), STAGE_1);
    add_samples(&tuner, STAGE_1, 1, 1, 1, 0.9);
    assert_int_equal(tuner.tried, STAGE_AUTO);
    assert_true(tuner_thresholds(&tuner).to_2 == PLAN_THRESHOLD_2);
    assert_int_equal(tuner_stage(&tuner, 2, 1, STAGE_1), STAGE_1);
}

/* Invalid samples are ignored. */
TEST(samples_without_meaning) {
    static const struct tuner_sample samples[] = {
        {STAGE_TRADITIONAL, 2, 2, 4, 1, 1, STRATEGY_SSGD}, {STAGE_AUTO, 2, 2, 4, 1, 1, STRATEGY_SSGD},
        {STAGE_1, 0, 2, 2, 1, 1, STRATEGY_SSGD},           {STAGE_1, 2, 0, 2, 1, 1, STRATEGY_SSGD},
        {STAGE_1, 2, 2, 4, 0, 1, STRATEGY_SSGD},           {STAGE_1, 2, 2, 4, (double)NAN, 1, STRATEGY_SSGD}};
    struct tuner tuner;
    tuner_init(&tuner, &(struct plan_thresholds){0});
    for (size_t i = 0; i < 6 * 50; i++) {
        tuner_add(&tuner, &samples[i % 6]);
    }
    assert_int_equal(tuner.iterations, 0);
    assert_int_equal(tuner_stage(&tuner, 2, 2, STAGE_1), STAGE_1);
}
