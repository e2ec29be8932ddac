/* bidbrain/policy/speeds: made-up windows of machines whose true speeds are known. */

#include "bidbrain/policy/speeds.h"
#include "tests/test.h"

#include <math.h>

enum { MINUTE = 60 };

static void assert_near(double a, double b) {
    if (!(fabs(a - b) <= 1e-6 * fmax(1, fabs(b)))) {
        fail_msg("%.9g is not %.9g", a, b);
    }
}

/* A type with its vCPUs, the true speed of each vCPU, and the number of machines. */
struct kind {
    const char *type;
    double vcpus, speed;
    size_t machines;
};

/* Adds a window of these machines, as the controller's monitor would measure it. `count` is at most 8 kinds. */
static bool window(struct speeds *speeds, const struct kind *kinds, size_t count, int64_t now) {
    struct speeds_machine machines[64];
    size_t all = 0;
    double sum = 0;
    for (size_t k = 0; k < count; k++) {
        for (size_t m = 0; m < kinds[k].machines; m++) {
            double seconds = 1 / (kinds[k].vcpus * kinds[k].speed); /* for an equal share of the work */
            machines[all++] = (struct speeds_machine){kinds[k].type, kinds[k].vcpus, seconds};
            sum += seconds;
        }
    }
    for (size_t m = 0; m < all; m++) {
        machines[m].slowness /= sum / (double)all;
    }
    return speeds_add(speeds, machines, all, now);
}

static double ratio(const struct speeds *speeds, const char *a, const char *b) {
    return speeds_of(speeds, a) / speeds_of(speeds, b);
}

TEST(speeds_are_relative_to_vcpus) {
    struct speeds speeds = {0};
    const struct kind kinds[] = {{"fast", 2, 1, 3}, {"wide", 16, 1, 1}, {"slow", 4, 0.5, 2}};
    assert_near(speeds_of(&speeds, "fast"), 0);
    assert_false(window(&speeds, kinds, 3, 0));
    assert_near(speeds_of(&speeds, "fast"), 0); /* one window is too few */
    assert_true(window(&speeds, kinds, 3, MINUTE));
    assert_near(speeds_of(&speeds, "fast"), 1); /* the median */
    assert_near(speeds_of(&speeds, "wide"), 1);
    assert_near(speeds_of(&speeds, "slow"), 0.5);
    assert_near(speeds_of(&speeds, "other"), 0);
    assert_false(window(&speeds, kinds, 3, 2 * MINUTE)); /* nothing new to report */
}

TEST(one_type_alone_tells_nothing) {
    struct speeds speeds = {0};
    const struct kind kinds[] = {{"slow", 4, 0.5, 8}};
    for (int w = 0; w < 5; w++) {
        assert_false(window(&speeds, kinds, 1, w * MINUTE));
    }
    assert_int_equal(speeds.count, 0);
}

TEST(types_that_never_met_are_compared_by_a_third) {
    struct speeds speeds = {0};
    const struct kind first[] = {{"a", 4, 1, 2}, {"b", 4, 0.8, 2}};
    const struct kind second[] = {{"b", 4, 0.8, 3}, {"c", 8, 0.4, 1}};
    for (int w = 0; w < 2; w++) {
        window(&speeds, first, 2, w);
    }
    for (int w = 0; w < 2; w++) {
        window(&speeds, second, 2, 2 + w);
    }
    assert_true(fabs(ratio(&speeds, "c", "b") / 0.5 - 1) <= 2 * SPEEDS_CALM);
    assert_true(fabs(ratio(&speeds, "a", "b") / 1.25 - 1) <= 2 * SPEEDS_CALM);
    assert_true(fabs(ratio(&speeds, "c", "a") / 0.4 - 1) <= 2 * SPEEDS_CALM);
}

TEST(one_slow_machine_does_not_make_a_slow_type) {
    struct speeds speeds = {0};
    for (int w = 0; w < 3; w++) {
        const struct speeds_machine machines[] = {{"a", 4, 1}, {"a", 4, 9}, {"a", 4, 1}, {"b", 4, 1}, {"b", 4, 1}};
        speeds_add(&speeds, machines, 5, w);
    }
    assert_near(ratio(&speeds, "a", "b"), 1);
}

TEST(one_odd_window_does_little) {
    struct speeds speeds = {0};
    const struct kind usual[] = {{"a", 4, 1, 1}, {"b", 4, 1, 1}, {"c", 4, 1, 1}};
    const struct kind odd[] = {{"a", 4, 0.01, 1}, {"b", 4, 1, 1}, {"c", 4, 1, 1}};
    for (int w = 0; w < 4; w++) {
        window(&speeds, usual, 3, w);
    }
    assert_true(window(&speeds, odd, 3, 4));
    assert_true(ratio(&speeds, "a", "b") > 0.8);
    for (int w = 5; w < 40; w++) {
        window(&speeds, usual, 3, w);
    }
    assert_true(fabs(ratio(&speeds, "a", "b") - 1) <= 2 * SPEEDS_CALM);
}

TEST(a_lasting_change_is_followed) {
    struct speeds speeds = {0};
    const struct kind before[] = {{"a", 4, 1, 1}, {"b", 4, 1, 1}, {"c", 4, 1, 1}};
    const struct kind after[] = {{"a", 4, 0.5, 1}, {"b", 4, 1, 1}, {"c", 4, 1, 1}};
    for (int w = 0; w < 10; w++) {
        window(&speeds, before, 3, w);
    }
    for (int w = 0; w < 30; w++) {
        window(&speeds, after, 3, 10 + w);
    }
    assert_true(fabs(ratio(&speeds, "a", "b") / 0.5 - 1) <= 2 * SPEEDS_CALM);
}

TEST(speeds_have_bounds) {
    struct speeds speeds = {0};
    const struct kind kinds[] = {{"a", 1, 1000, 1}, {"b", 1, 1, 1}, {"c", 1, 0.001, 1}};
    window(&speeds, kinds, 3, 0);
    window(&speeds, kinds, 3, 1);
    assert_near(speeds_of(&speeds, "a"), SPEEDS_HIGHEST);
    assert_near(speeds_of(&speeds, "b"), 1);
    assert_near(speeds_of(&speeds, "c"), SPEEDS_LOWEST);
}

TEST(what_is_no_measurement_is_left_out) {
    struct speeds speeds = {0};
    char longer[MARKET_TEXT_MAX + 1];
    memset(longer, 'x', sizeof longer);
    longer[MARKET_TEXT_MAX] = '\0';
    const struct speeds_machine machines[] = {{"a", 4, 1}, {"b", 4, 0},  {"c", 4, NAN}, {"d", 4, INFINITY},
                                              {"e", 0, 1}, {"f", 4, -1}, {longer, 4, 1}};
    for (int w = 0; w < 3; w++) {
        assert_false(speeds_add(&speeds, machines, sizeof machines / sizeof *machines, w));
    }
    assert_int_equal(speeds.count, 0);
    assert_false(speeds_add(&speeds, NULL, 0, 9));
}

TEST(old_speeds_are_forgotten) {
    struct speeds speeds = {0};
    const struct kind both[] = {{"a", 4, 1, 1}, {"b", 4, 0.5, 1}};
    window(&speeds, both, 2, 0);
    window(&speeds, both, 2, MINUTE);
    assert_true(speeds_of(&speeds, "b") > 0);
    assert_false(window(&speeds, both, 1, SPEEDS_KEEP_S)); /* b has gone, but is not forgotten yet */
    assert_true(speeds_of(&speeds, "b") > 0);
    assert_true(window(&speeds, both, 1, SPEEDS_KEEP_S + 2 * MINUTE));
    assert_near(speeds_of(&speeds, "b"), 0);
    assert_true(speeds_of(&speeds, "a") > 0);
}

TEST(no_more_types_than_there_is_room_for) {
    struct speeds speeds = {0};
    char names[SPEEDS_TYPES_MAX + 8][8];
    struct speeds_machine machines[SPEEDS_TYPES_MAX + 8];
    for (size_t i = 0; i < SPEEDS_TYPES_MAX + 8; i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        machines[i] = (struct speeds_machine){names[i], 4, 1};
    }
    speeds_add(&speeds, machines, SPEEDS_TYPES_MAX + 8, 0);
    speeds_add(&speeds, machines + 8, SPEEDS_TYPES_MAX, 1);
    assert_int_equal(speeds.count, SPEEDS_TYPES_MAX);
}

TEST(a_state_is_read_as_it_was_written) {
    struct speeds speeds = {0};
    struct speeds again = {0};
    struct error error = {0};
    const struct kind kinds[] = {{"a", 4, 1, 1}, {"b", 4, 0.3, 1}};
    window(&speeds, kinds, 2, 5);
    window(&speeds, kinds, 2, 6);
    json_auto_t *object = speeds_json(&speeds);
    assert_int_equal(speeds_read(&again, object, &error), 0);
    assert_int_equal(again.count, 2);
    assert_near(speeds_of(&again, "a"), speeds_of(&speeds, "a"));
    assert_near(ratio(&again, "b", "a"), 0.3);
    assert_false(window(&again, kinds, 2, 7));
    assert_int_equal(again.types[0].windows, 3);
}

TEST(a_broken_state_is_refused) {
    static const char *const texts[] = {
        "[]",
        "{\"a\": 1}",
        "{\"a\": {\"speed\": 0, \"used\": 0, \"windows\": 1, \"seen\": 1}}",
        "{\"a\": {\"speed\": 1, \"used\": 3, \"windows\": 1, \"seen\": 1}}",
        "{\"a\": {\"speed\": 1, \"used\": -1, \"windows\": 1, \"seen\": 1}}",
        "{\"a\": {\"speed\": 1, \"used\": 1, \"windows\": 0, \"seen\": 1}}",
        "{\"a\": {\"speed\": 1, \"used\": 1, \"windows\": 1}}",
        "{\"0123456789012345678901234567890123456789012345678\": "
        "{\"speed\": 1, \"used\": 1, \"windows\": 1, \"seen\": 1}}",
    };
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        struct speeds speeds = {0};
        struct error error = {0};
        json_auto_t *object = json_loads(texts[t], 0, NULL);
        assert_non_null(object);
        assert_int_equal(speeds_read(&speeds, object, &error), AML_EINPUT);
        assert_non_null(strstr(error.text, "expected"));
    }
    struct speeds speeds = {0};
    struct error error = {0};
    assert_int_equal(speeds_read(&speeds, NULL, &error), AML_EINPUT);
}
