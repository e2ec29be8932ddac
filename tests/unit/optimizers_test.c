/* The predefined optimizers against their formulas, computed in double precision with plain powers. */
#include "agileml/optimizers.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

#include <math.h>

enum { WIDTH = 19, STEPS = 200, STATE_MAX = 2 * WIDTH + 2 };

/* A row in both precisions, with the values that the formulas need. */
struct rows {
    float narrow[WIDTH], narrow_state[STATE_MAX], narrow_sum[WIDTH];
    double wide[WIDTH], wide_state[STATE_MAX], sum[WIDTH];
    double w[WIDTH], a[WIDTH], b[WIDTH]; /* the row and its state by the formulas */
    unsigned steps;
};

/* Gradients of very different sizes, some of them 0. */
static double gradient(unsigned step, unsigned element) {
    uint64_t random = hash_mix(step * UINT64_C(1000) + element);
    double size = pow(10, (double)(element % 5) - 3);
    return random % 7 == 0 ? 0 : ((double)(random % 20001) - 10000) / 10000 * size;
}

static struct rows start(bool zeros) {
    struct rows rows = {.steps = 0};
    for (unsigned e = 0; e < WIDTH && !zeros; e++) {
        rows.narrow[e] = (float)e / 16 - 0.5F;
        rows.wide[e] = rows.w[e] = (double)rows.narrow[e];
    }
    return rows;
}

static void next(struct rows *rows, void (*apply)(const struct aml_step *step, const void *parameters),
                 uint32_t state_width, const void *parameters) {
    rows->steps++;
    for (unsigned e = 0; e < WIDTH; e++) {
        rows->narrow_sum[e] = (float)gradient(rows->steps, e);
        rows->sum[e] = (double)rows->narrow_sum[e];
    }
    struct aml_step step = {.clock = 3 * rows->steps,
                            .type = AML_FLOAT32,
                            .width = WIDTH,
                            .state_width = state_width,
                            .row = rows->narrow,
                            .state = rows->narrow_state,
                            .sum = rows->narrow_sum};
    apply(&step, parameters);
    step.type = AML_FLOAT64;
    step.row = rows->wide;
    step.state = rows->wide_state;
    step.sum = rows->sum;
    apply(&step, parameters);
}

/* Both rows agree with the formulas within the rounding of so many steps. */
static void assert_rows(const struct rows *rows) {
    for (unsigned e = 0; e < WIDTH; e++) {
        double scale = 1 + fabs(rows->w[e]);
        if (!(fabs(rows->wide[e] - rows->w[e]) <= 1e-11 * scale)) {
            fail_msg("step %u, element %u: %.17g, expected %.17g", rows->steps, e, rows->wide[e], rows->w[e]);
        }
        if (!(fabs((double)rows->narrow[e] - rows->w[e]) <= 2e-5 * scale)) {
            fail_msg("step %u, element %u: %.9g in float32, expected %.9g", rows->steps, e, (double)rows->narrow[e],
                     rows->w[e]);
        }
    }
}

TEST(momentum) {
    static const struct aml_momentum all[] = {{.rate = 0.1},
                                              {.rate = 0.01, .momentum = 0.9},
                                              {.rate = 0.01, .momentum = 0.9, .l2 = 0.05},
                                              {.rate = 0.01, .momentum = 0.9, .l2 = 0.05, .nesterov = 1}};
    for (unsigned p = 0; p < sizeof all / sizeof all[0]; p++) {
        struct rows rows = start(false);
        for (unsigned s = 0; s < STEPS; s++) {
            next(&rows, aml_apply_momentum, aml_momentum_state(WIDTH), &all[p]);
            for (unsigned e = 0; e < WIDTH; e++) {
                double g = rows.sum[e] + all[p].l2 * rows.w[e];
                rows.a[e] = all[p].momentum * rows.a[e] + g;
                rows.w[e] -= all[p].rate * (all[p].nesterov ? g + all[p].momentum * rows.a[e] : rows.a[e]);
            }
            assert_rows(&rows);
        }
    }
}

TEST(adagrad) {
    static const struct aml_adagrad all[] = {
        {.rate = 0.1, .epsilon = 1e-8}, {.rate = 0.1, .initial = 0.1}, {.rate = 0.1, .epsilon = 1e-8, .l2 = 0.01}};
    for (unsigned p = 0; p < sizeof all / sizeof all[0]; p++) {
        struct rows rows = start(false);
        for (unsigned s = 0; s < STEPS; s++) {
            next(&rows, aml_apply_adagrad, aml_adagrad_state(WIDTH), &all[p]);
            for (unsigned e = 0; e < WIDTH; e++) {
                double g = rows.sum[e] + all[p].l2 * rows.w[e];
                rows.a[e] += g * g;
                rows.w[e] -= all[p].rate * g / (sqrt(rows.a[e] + all[p].initial) + all[p].epsilon);
            }
            assert_rows(&rows);
        }
    }
}

/* The formulas have powers of the betas, which the optimizer avoids. */
TEST(adam) {
    static const struct aml_adam all[] = {
        {.rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6},
        {.rate = 0.01, .beta1 = 0, .beta2 = 0.5, .epsilon = 1e-3},
        {.rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6, .l2 = 0.01},
    };
    for (unsigned p = 0; p < sizeof all / sizeof all[0]; p++) {
        struct rows rows = start(false);
        for (unsigned s = 0; s < STEPS; s++) {
            next(&rows, aml_apply_adam, aml_adam_state(WIDTH), &all[p]);
            double of_m = 1 - pow(all[p].beta1, rows.steps);
            double of_v = 1 - pow(all[p].beta2, rows.steps);
            for (unsigned e = 0; e < WIDTH; e++) {
                double g = rows.sum[e] + all[p].l2 * rows.w[e];
                rows.a[e] = all[p].beta1 * rows.a[e] + (1 - all[p].beta1) * g;
                rows.b[e] = all[p].beta2 * rows.b[e] + (1 - all[p].beta2) * g * g;
                rows.w[e] -= all[p].rate * (rows.a[e] / of_m) / (sqrt(rows.b[e] / of_v) + all[p].epsilon);
            }
            /* otherwise differences grow: near 0 a step has the length of the rate, however small its gradient */
            if (all[p].l2 == 0) {
                assert_rows(&rows);
            }
        }
        for (unsigned e = 0; e < WIDTH; e++) {
            assert_true(fabs(rows.wide[e] - rows.w[e]) <= 1e-9 && fabs((double)rows.narrow[e] - rows.w[e]) <= 1e-3);
        }
    }
}

/* However late a row is first updated, its first step has the length of the rate. */
TEST(adams_first_step_is_as_long_as_the_rate) {
    const struct aml_adam adam = {.rate = 0.25, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 0};
    double row[2] = {1, 1};
    double states[6] = {0};
    const double sum[2] = {1e-3, -7};
    const struct aml_step step = {.clock = 100000,
                                  .type = AML_FLOAT64,
                                  .width = 2,
                                  .state_width = aml_adam_state(2),
                                  .row = row,
                                  .state = states,
                                  .sum = sum};
    aml_apply_adam(&step, &adam);
    assert_true(fabs(row[0] - 0.75) < 1e-12 && fabs(row[1] - 1.25) < 1e-12);
}

/* The formulas solve the paper's equation 1 with the sum of all gradients. */
TEST(ftrl) {
    static const struct aml_ftrl all[] = {{.alpha = 0.1, .beta = 1},
                                          {.alpha = 0.1, .beta = 1, .l1 = 0.3},
                                          {.alpha = 0.5, .beta = 0.5, .l1 = 0.01, .l2 = 2}};
    for (unsigned p = 0; p < sizeof all / sizeof all[0]; p++) {
        struct rows rows = start(true);
        unsigned zeros = 0;
        for (unsigned s = 0; s < STEPS; s++) {
            next(&rows, aml_apply_ftrl, aml_ftrl_state(WIDTH), &all[p]);
            for (unsigned e = 0; e < WIDTH; e++) {
                double g = rows.sum[e];
                rows.a[e] += g - (sqrt(rows.b[e] + g * g) - sqrt(rows.b[e])) / all[p].alpha * rows.w[e];
                rows.b[e] += g * g;
                double sign = rows.a[e] < 0 ? -1 : 1;
                rows.w[e] = fabs(rows.a[e]) <= all[p].l1
                                ? 0
                                : -(rows.a[e] - sign * all[p].l1) /
                                      ((all[p].beta + sqrt(rows.b[e])) / all[p].alpha + all[p].l2);
                zeros += rows.wide[e] == 0;
            }
            assert_rows(&rows);
        }
        assert_int_equal(zeros > STEPS, all[p].l1 > 0); /* exact zeros, which are l1's purpose */
    }
}

/* State that only decays ends at 0, not at the smallest subnormal number, and then leaves the row unchanged. */
TEST(means_end_at_zero) {
    const struct aml_momentum momentum = {.rate = 0.1, .momentum = 0.9};
    const struct aml_adam adam = {.rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6};
    float rows[2][4] = {{0}};
    float states[2][10] = {{0}};
    float sum[4] = {1, -1, 1e-6F, 0};
    for (unsigned s = 0; s < 20000; s++) {
        struct aml_step step = {.clock = s, .type = AML_FLOAT32, .width = 4, .sum = sum};
        step.row = rows[0], step.state = states[0], step.state_width = aml_momentum_state(4);
        aml_apply_momentum(&step, &momentum);
        step.row = rows[1], step.state = states[1], step.state_width = aml_adam_state(4);
        aml_apply_adam(&step, &adam);
        memset(sum, 0, sizeof sum);
    }
    for (unsigned e = 0; e < 4; e++) {
        assert_true(states[0][e] == 0 && states[1][e] == 0 && states[1][4 + e] == 0);
    }
    assert_true(fabsf(rows[0][0] + 1) < 1e-5F && fabsf(rows[0][1] - 1) < 1e-5F);
}

/* The step for a gradient whose square is subnormal is finite. */
TEST(adam_of_a_tiny_gradient) {
    const struct aml_adam adam = {.rate = 0.25, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 0};
    float row = 1;
    float states[4] = {0};
    const float sum = 1e-20F;
    const struct aml_step step = {
        .type = AML_FLOAT32, .width = 1, .state_width = aml_adam_state(1), .row = &row, .state = states, .sum = &sum};
    aml_apply_adam(&step, &adam);
    assert_true(fabsf(row - 0.75F) < 0.02F);
}
