/* Every implementation of the matrix factorization loop against the reference, on many shapes; the reference against
 * the formulas by hand; the start values. Benchmarks measure the speed. */
#include "apps/mf/gradient.h"
#include "apps/mf/kernel.h"
#include "apps/mf/step.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

#include <math.h>

enum { USERS = 23, ITEMS = 17, RATINGS = 400 };

#define PADDING_BYTE 0xA5

/* Rows of a made-up problem, and ratings for them. */
struct problem {
    struct mf_sgd sgd;
    unsigned char users_touched[USERS];
    unsigned char items_touched[ITEMS];
    float user_penalties[USERS], item_penalties[ITEMS];
    struct mf_item ratings[RATINGS];
    size_t users_size, items_size;
};

static float *row_of(unsigned char *rows, size_t stride, size_t slot) {
    return (float *)(void *)(rows + slot * stride);
}

static uint64_t random_next(uint64_t *state) {
    *state += 1;
    return hash_mix(*state);
}

static void problem_free(void *context) {
    struct problem *problem = context;
    free(problem->sgd.users - 16);
    free(problem->sgd.items - 16);
    free(problem);
}

/* `extra` is the number of units of 16 bytes by which strides are longer than needed. Rows start at a multiple of
 * 16, not of 32. Without `grouped`, users come in any order. Users 0..19 and items 0..14 have ratings. */
static struct problem *problem_new(uint32_t rank, bool biases, size_t extra, bool grouped) {
    struct problem *problem = calloc(1, sizeof *problem);
    at_end(problem_free, problem);
    size_t stride = ((rank + biases) * sizeof(float) + 15) / 16 * 16 + extra * 16;
    problem->users_size = USERS * stride;
    problem->items_size = ITEMS * stride;
    unsigned char *users = aligned_alloc(64, (problem->users_size + 16 + 63) / 64 * 64);
    unsigned char *items = aligned_alloc(64, (problem->items_size + 16 + 63) / 64 * 64);
    assert_non_null(users);
    assert_non_null(items);
    memset(users, PADDING_BYTE, problem->users_size + 16);
    memset(items, PADDING_BYTE, problem->items_size + 16);
    problem->sgd = (struct mf_sgd){.users = users + 16,
                                   .user_stride = stride,
                                   .users_touched = problem->users_touched,
                                   .items = items + 16,
                                   .item_stride = stride,
                                   .items_touched = problem->items_touched,
                                   .rank = rank,
                                   .biases = biases,
                                   .mean = 3.5F,
                                   .scale = 0.8F,
                                   .clip = 1.5F,
                                   .rate = 0.02F,
                                   .lambda = 0.05F,
                                   .lambda_bias = 0.01F};
    for (size_t slot = 0; slot < USERS; slot++) {
        mf_initial_row(1, 0, slot, rank, biases, row_of(problem->sgd.users, stride, slot));
    }
    for (size_t slot = 0; slot < ITEMS; slot++) {
        mf_initial_row(1, 1, slot, rank, biases, row_of(problem->sgd.items, stride, slot));
    }
    for (size_t slot = 0; slot < ITEMS; slot++) {
        problem->item_penalties[slot] = 0.02F * (float)(slot + 1);
    }
    for (size_t slot = 0; slot < USERS; slot++) {
        problem->user_penalties[slot] = 0.03F * (float)(slot + 1);
    }
    uint64_t state = rank;
    for (size_t i = 0; i < RATINGS; i++) {
        uint32_t user = (uint32_t)(grouped ? i / (RATINGS / 20) : random_next(&state) % 20);
        problem->ratings[i].user = user;
        problem->ratings[i].item = (uint32_t)(random_next(&state) % 15);
        problem->ratings[i].rating = (float)(1 + random_next(&state) % 5);
    }
    return problem;
}

static void assert_near(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance * (1 + fabs(expected)))) {
        fail_msg("%.9g, expected %.9g", got, expected);
    }
}

static void assert_rows_near(const unsigned char *got, const unsigned char *expected, size_t size, size_t stride,
                             size_t width) {
    for (size_t at = 0; at < size; at += stride) {
        for (size_t k = 0; k < width; k++) {
            float x;
            float y;
            memcpy(&x, got + at + k * sizeof x, sizeof x);
            memcpy(&y, expected + at + k * sizeof y, sizeof y);
            assert_near((double)x, (double)y, 1e-4);
        }
        for (size_t byte = width * sizeof(float); byte < stride; byte++) {
            assert_int_equal(got[at + byte], PADDING_BYTE);
        }
    }
}

/* Gives each row its own rates and penalties. */
static void give_rates(struct problem *problem) {
    problem->sgd.user_penalties = problem->user_penalties;
    problem->sgd.item_penalties = problem->item_penalties;
}

/* ---- The reference: the formulas of kernel.h, one number at a time ---- */

static float reference_error(const struct mf_sgd *sgd, const struct mf_item *rating, const float *p, const float *q) {
    float prediction = 0;
    for (uint32_t k = 0; k < sgd->rank; k++) {
        prediction += p[k] * q[k];
    }
    if (sgd->biases) {
        prediction += p[sgd->rank] + q[sgd->rank];
    }
    return (rating->rating - sgd->mean) * sgd->scale - prediction;
}

static double reference_sgd_pass(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        float *p = row_of(sgd->users, sgd->user_stride, ratings[i].user);
        float *q = row_of(sgd->items, sgd->item_stride, ratings[i].item);
        float error = reference_error(sgd, &ratings[i], p, q);
        sum += (double)error * (double)error;
        error = mf_clipped(error, sgd->clip);
        float item_rate = sgd->rate;
        for (uint32_t k = 0; k < sgd->rank; k++) {
            float old_p = p[k];
            p[k] += sgd->rate * (error * q[k] - sgd->lambda * old_p);
            q[k] += item_rate * (error * old_p - sgd->lambda * q[k]);
        }
        if (sgd->biases) {
            float user_penalty = mf_penalty(sgd->user_penalties, ratings[i].user, sgd->lambda_bias);
            float item_penalty = mf_penalty(sgd->item_penalties, ratings[i].item, sgd->lambda_bias);
            p[sgd->rank] += sgd->rate * (error - user_penalty * p[sgd->rank]);
            q[sgd->rank] += item_rate * (error - item_penalty * q[sgd->rank]);
        }
        if (sgd->users_touched != NULL) {
            sgd->users_touched[ratings[i].user] = 1;
        }
        if (sgd->items_touched != NULL) {
            sgd->items_touched[ratings[i].item] = 1;
        }
    }
    return sum;
}

static double reference_squared_error(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const float *p = row_of(sgd->users, sgd->user_stride, ratings[i].user);
        const float *q = row_of(sgd->items, sgd->item_stride, ratings[i].item);
        float error = reference_error(sgd, &ratings[i], p, q);
        sum += (double)error * (double)error;
    }
    return sum;
}

/* Fills `kernels` with the reference and the implementations that this processor runs. Returns their number. */
static size_t list_kernels(struct mf_kernel kernels[1 + VECTOR_SETS]) {
    size_t count = 1 + vectors_wide();
    kernels[0] = (struct mf_kernel){"reference", reference_sgd_pass, reference_squared_error};
    memcpy(kernels + 1, mf_kernels, count * sizeof *kernels);
    return 1 + count;
}

/* ---- Tests ---- */

static void compare_with_reference(const struct mf_kernel *kernel, const struct mf_kernel *reference, uint32_t rank,
                                   bool biases, size_t extra, bool grouped) {
    struct problem *a = problem_new(rank, biases, extra, grouped);
    struct problem *b = problem_new(rank, biases, extra, grouped);
    if (extra != 0) {
        give_rates(a);
        give_rates(b);
    }
    for (int pass = 0; pass < 3; pass++) {
        assert_near(kernel->sgd_pass(&a->sgd, a->ratings, RATINGS), reference->sgd_pass(&b->sgd, b->ratings, RATINGS),
                    1e-4);
    }
    size_t width = rank + (biases ? 1U : 0U);
    assert_rows_near(a->sgd.users, b->sgd.users, a->users_size, a->sgd.user_stride, width);
    assert_rows_near(a->sgd.items, b->sgd.items, a->items_size, a->sgd.item_stride, width);
    assert_memory_equal(a->users_touched, b->users_touched, USERS);
    assert_memory_equal(a->items_touched, b->items_touched, ITEMS);
    assert_near(kernel->squared_error(&a->sgd, a->ratings, RATINGS),
                reference->squared_error(&b->sgd, b->ratings, RATINGS), 1e-4);
}

TEST(all_agree_with_the_reference) {
    struct mf_kernel kernels[1 + VECTOR_SETS];
    size_t count = list_kernels(kernels);
    assert_true(count >= 2);
    static const uint32_t larger[] = {47, 48, 63, 64, 65, 100, 127, 128, 129, 200, 1000, MF_RANK_MAX};
    for (size_t v = 1; v < count; v++) {
        for (uint32_t i = 1; i <= 40 + sizeof larger / sizeof larger[0]; i++) {
            uint32_t rank = i <= 40 ? i : larger[i - 41];
            for (unsigned shape = 0; shape < 8; shape++) {
                compare_with_reference(&kernels[v], &kernels[0], rank, (shape & 1) != 0, shape & 2, (shape & 4) != 0);
            }
        }
    }
}

/* One rating at rank 2 by hand; then with the item's own rate. */
TEST(reference_follows_the_formulas) {
    struct mf_kernel kernels[1 + VECTOR_SETS];
    size_t count = list_kernels(kernels);
    for (size_t v = 0; v < count; v++) {
        float user[4] = {0.5F, -1.0F, 0.25F, 0};
        float item[4] = {2.0F, 1.0F, -0.5F, 0};
        struct mf_sgd sgd = {.users = (unsigned char *)user,
                             .user_stride = sizeof user,
                             .items = (unsigned char *)item,
                             .item_stride = sizeof item,
                             .rank = 2,
                             .biases = true,
                             .mean = 3.0F,
                             .scale = 0.5F,
                             .clip = INFINITY,
                             .rate = 0.1F,
                             .lambda = 0.5F,
                             .lambda_bias = 0.2F};
        struct mf_item rating = {0, 0, 6.5F};
        /* (6.5 - 3) / 2 - (0.25 - 0.5 + (1 - 1)) = 2 */
        assert_near(kernels[v].squared_error(&sgd, &rating, 1), 4.0, 1e-6);
        assert_near(kernels[v].sgd_pass(&sgd, &rating, 1), 4.0, 1e-6);
        assert_near((double)user[0], 0.5 + 0.1 * (2 * 2.0 - 0.5 * 0.5), 1e-6);
        assert_near((double)user[1], -1.0 + 0.1 * (2 * 1.0 + 0.5 * 1.0), 1e-6);
        assert_near((double)user[2], 0.25 + 0.1 * (2 - 0.2 * 0.25), 1e-6);
        assert_near((double)item[0], 2.0 + 0.1 * (2 * 0.5 - 0.5 * 2.0), 1e-6);
        assert_near((double)item[1], 1.0 + 0.1 * (2 * -1.0 - 0.5 * 1.0), 1e-6);
        assert_near((double)item[2], -0.5 + 0.1 * (2 + 0.2 * 0.5), 1e-6);

        float same_user[4] = {0.5F, -1.0F, 0.25F, 0};
        float same_item[4] = {2.0F, 1.0F, -0.5F, 0};
        sgd.users = (unsigned char *)same_user;
        sgd.items = (unsigned char *)same_item;
        assert_near(kernels[v].sgd_pass(&sgd, &rating, 1), 4.0, 1e-6);
        assert_memory_equal(same_user, user, sizeof user);
        assert_near((double)same_item[0], 2.0 + 0.1 * (2 * 0.5 - 0.5 * 2.0), 1e-6);
        assert_near((double)same_item[1], 1.0 + 0.1 * (2 * -1.0 - 0.5 * 1.0), 1e-6);
        assert_near((double)same_item[2], -0.5 + 0.1 * (2 + 0.2 * 0.5), 1e-6);
    }
}

/* A step limits the error to `clip`, but the unlimited error is summed. Biases have their own penalties. */
TEST(errors_are_clipped) {
    struct mf_kernel kernels[1 + VECTOR_SETS];
    size_t count = list_kernels(kernels);
    for (size_t v = 0; v < 2 * count; v++) {
        double sign = v < count ? 1 : -1;
        float user[16 + 4] = {[16] = 0.25F};
        float item[16 + 4] = {[0] = 2, [16] = -0.25F};
        const float user_penalty = 0.5F;
        const float item_penalty = 0.25F;
        struct mf_sgd sgd = {.users = (unsigned char *)user,
                             .user_stride = sizeof user,
                             .items = (unsigned char *)item,
                             .item_stride = sizeof item,
                             .rank = 16,
                             .biases = true,
                             .mean = 3.0F,
                             .scale = 2.0F,
                             .clip = 1.5F,
                             .rate = 0.1F,
                             .user_penalties = &user_penalty,
                             .item_penalties = &item_penalty};
        struct mf_item rating = {0, 0, (float)(3 + sign * 4)};
        assert_near(kernels[v % count].sgd_pass(&sgd, &rating, 1), 64, 1e-6); /* error of +-8 */
        assert_near((double)user[0], sign * 0.1 * 1.5 * 2, 1e-6);
        assert_near((double)user[16], 0.25 + 0.1 * (sign * 1.5 - 0.5 * 0.25), 1e-6);
        assert_near((double)item[16], -0.25 + 0.1 * (sign * 1.5 + 0.25 * 0.25), 1e-6);
        rating.rating = NAN; /* a diverged value also shows in the rows */
        assert_true(isnan(kernels[v % count].sgd_pass(&sgd, &rating, 1)));
        assert_true(isnan(user[0]) && isnan(user[16]) && isnan(item[16]));
        float sums[16 + 4] = {0};
        user[0] = user[16] = item[16] = 0;
        assert_true(isnan(mf_gradient_pass(&sgd, (unsigned char *)sums, &rating, 1)));
        assert_true(isnan(user[0]) && isnan(user[16]) && isnan(sums[16]));
    }
}

/* Subnormal numbers count as 0 between the two calls only. */
TEST(subnormals_are_flushed) {
    volatile float smallest = 1e-38F;
    uint64_t mode = mf_flush_begin();
    volatile float flushed = smallest / 1000;
    mf_flush_end(mode);
    volatile float kept = smallest / 1000;
    assert_true(kept > 0);
#if defined(__x86_64__) || defined(__aarch64__)
    assert_true(flushed == 0);
#else
    (void)flushed;
#endif
}

TEST(only_rated_rows_are_touched) {
    struct problem *problem = problem_new(16, true, 0, true);
    struct problem *before = problem_new(16, true, 0, true);
    struct mf_kernel kernel = mf_kernels[vectors_wide()];
    (void)kernel.sgd_pass(&problem->sgd, problem->ratings, RATINGS);
    size_t stride = problem->sgd.user_stride;
    for (size_t slot = 0; slot < USERS; slot++) {
        assert_int_equal(problem->users_touched[slot], slot < 20);
        bool same = memcmp(problem->sgd.users + slot * stride, before->sgd.users + slot * stride, stride) == 0;
        assert_int_equal(same, slot >= 20);
    }
    for (size_t slot = 0; slot < ITEMS; slot++) {
        assert_int_equal(problem->items_touched[slot], slot < 15);
        bool same = memcmp(problem->sgd.items + slot * stride, before->sgd.items + slot * stride, stride) == 0;
        assert_int_equal(same, slot >= 15);
    }
}

TEST(no_ratings_change_nothing) {
    struct problem *problem = problem_new(64, false, 0, true);
    struct mf_kernel kernels[1 + VECTOR_SETS];
    size_t count = list_kernels(kernels);
    for (size_t v = 0; v < count; v++) {
        assert_true(kernels[v].sgd_pass(&problem->sgd, problem->ratings, 0) == 0);
        assert_true(kernels[v].squared_error(&problem->sgd, problem->ratings, 0) == 0);
    }
    for (size_t slot = 0; slot < USERS; slot++) {
        assert_int_equal(problem->users_touched[slot], 0);
    }
}

TEST(same_arguments_give_the_same_bits) {
    struct mf_kernel kernels[1 + VECTOR_SETS];
    size_t count = list_kernels(kernels);
    static const uint32_t ranks[] = {16, 21, 128};
    for (size_t v = 0; v < count; v++) {
        for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++) {
            struct problem *a = problem_new(ranks[r], true, 0, true);
            struct problem *b = problem_new(ranks[r], true, 0, true);
            assert_true(kernels[v].sgd_pass(&a->sgd, a->ratings, RATINGS) ==
                        kernels[v].sgd_pass(&b->sgd, b->ratings, RATINGS));
            assert_memory_equal(a->sgd.users, b->sgd.users, a->users_size);
            assert_memory_equal(a->sgd.items, b->sgd.items, a->items_size);
        }
    }
}

/* The ratings are made from rows of rank 4: the loop must find rows that fit as well. */
TEST(learns_what_can_be_learned) {
    enum { RANK = 4 };
    struct problem *problem = problem_new(RANK, true, 0, false);
    for (size_t i = 0; i < RATINGS; i++) {
        float p[RANK + 1];
        float q[RANK + 1];
        mf_initial_row(9, 0, problem->ratings[i].user, RANK, true, p);
        mf_initial_row(9, 1, problem->ratings[i].item, RANK, true, q);
        problem->ratings[i].rating = 3.5F;
        for (uint32_t k = 0; k < RANK; k++) {
            problem->ratings[i].rating += 1000 * p[k] * q[k];
        }
    }
    problem->sgd.scale = 1;
    problem->sgd.clip = INFINITY;
    problem->sgd.lambda = 0;
    problem->sgd.lambda_bias = 0;
    problem->sgd.rate = 0.05F;
    struct mf_kernel kernel = mf_kernels[vectors_wide()];
    double first = kernel.squared_error(&problem->sgd, problem->ratings, RATINGS);
    for (int pass = 0; pass < 500; pass++) {
        (void)kernel.sgd_pass(&problem->sgd, problem->ratings, RATINGS);
    }
    double last = kernel.squared_error(&problem->sgd, problem->ratings, RATINGS);
    assert_true(last < first / 1000);
}

TEST(shares_bound_the_sum_of_changes) {
    for (unsigned nodes = 1; nodes <= 4096; nodes *= 2) {
        for (float ratings = 0; ratings < 1e7F; ratings = 3 * ratings + 1) {
            for (float limit = 1.5F; limit > 0.2F; limit /= 2) {
                double each = -expm1(-0.025 * (double)ratings / nodes); /* a node's way to the goal */
                double share = (double)mf_item_share(0.025F, limit, nodes, ratings);
                assert_true(share > 0 && share <= 1 && nodes * each * share < (double)limit * (1 + 1e-6));
                assert_true(share == 1 || nodes * each * share > (double)limit * (1 - 1e-6));
            }
        }
    }
    assert_true(mf_item_share(0.1F, 1.5F, 1, 1e6F) == 1);
    assert_near((double)mf_item_share(0.1F, 1.5F, 8, 1e6F), 1.5 / 8, 1e-6);
}

TEST(initial_rows_are_a_pure_function) {
    enum { RANK = 64 };
    float row[RANK + 2];
    float again[RANK + 1];
    row[RANK + 1] = 7;
    mf_initial_row(5, 1, 1234567890123, RANK, true, row);
    mf_initial_row(5, 1, 1234567890123, RANK, true, again);
    assert_memory_equal(row, again, sizeof again);
    double sum = 0;
    for (size_t k = 0; k < RANK; k++) {
        assert_true(row[k] >= 0 && row[k] < MF_INITIAL_SCALE / sqrtf(RANK));
        sum += (double)row[k];
    }
    assert_near(sum / RANK, 0.5 * (double)MF_INITIAL_SCALE / sqrt(RANK), 0.002); /* the values are spread */
    assert_true(row[RANK] == 0);
    assert_true(row[RANK + 1] == 7); /* nothing is written beyond the row */
    float other[RANK + 1];
    mf_initial_row(6, 1, 1234567890123, RANK, true, other);
    assert_memory_not_equal(row, other, RANK * sizeof(float));
    mf_initial_row(5, 0, 1234567890123, RANK, true, other);
    assert_memory_not_equal(row, other, RANK * sizeof(float));
    mf_initial_row(5, 1, 1234567890124, RANK, true, other);
    assert_memory_not_equal(row, other, RANK * sizeof(float));
}

/* Gradients summed for an item agree with the formulas, for the item's unchanged row and users' rows that change
 * from rating to rating. */
TEST(gradients_follow_the_formulas) {
    static const uint32_t ranks[] = {1, 5, 16, 33};
    for (unsigned r = 0; r < 4; r++) {
        for (unsigned biases = 0; biases < 2; biases++) {
            struct problem *problem = problem_new(ranks[r], biases != 0, 1, r % 2 == 0);
            const struct mf_sgd *sgd = &problem->sgd;
            const uint32_t width = ranks[r] + biases;
            give_rates(problem);
            unsigned char *sums = calloc(ITEMS, sgd->item_stride);
            unsigned char *items_before = malloc(problem->items_size);
            FREED double *p = calloc(USERS * (size_t)width, sizeof *p);
            FREED double *expected = calloc(ITEMS * (size_t)width, sizeof *expected);
            double squares = 0;
            memcpy(items_before, sgd->items, problem->items_size);
            for (unsigned u = 0; u < USERS; u++) {
                for (uint32_t k = 0; k < width; k++) {
                    p[u * width + k] = (double)row_of(sgd->users, sgd->user_stride, u)[k];
                }
            }
            for (unsigned i = 0; i < RATINGS; i++) {
                const struct mf_item *rating = &problem->ratings[i];
                double *user = p + (size_t)rating->user * width;
                double *sum = expected + (size_t)rating->item * width;
                const float *q = row_of(sgd->items, sgd->item_stride, rating->item);
                double error = ((double)rating->rating - (double)sgd->mean) * (double)sgd->scale;
                for (uint32_t k = 0; k < ranks[r]; k++) {
                    error -= user[k] * (double)q[k];
                }
                error -= biases != 0 ? user[ranks[r]] + (double)q[ranks[r]] : 0;
                squares += error * error;
                error = fmin(fmax(error, -(double)sgd->clip), (double)sgd->clip);
                for (uint32_t k = 0; k < width; k++) {
                    bool bias = k == ranks[r];
                    double of_user = (double)(bias ? sgd->user_penalties[rating->user] : sgd->lambda);
                    double of_item = (double)(bias ? sgd->item_penalties[rating->item] : sgd->lambda);
                    double old = user[k];
                    user[k] += (double)sgd->rate * (error * (bias ? 1 : (double)q[k]) - of_user * old);
                    sum[k] -= error * (bias ? 1 : old) - of_item * (double)q[k];
                }
            }
            double found = mf_gradient_pass(sgd, sums, problem->ratings, RATINGS);
            assert_true(fabs(found - squares) <= 1e-4 * squares);
            assert_memory_equal(sgd->items, items_before, problem->items_size);
            for (unsigned i = 0; i < ITEMS; i++) {
                for (uint32_t k = 0; k < width; k++) {
                    double sum = (double)row_of(sums, sgd->item_stride, i)[k];
                    assert_true(fabs(sum - expected[i * width + k]) <= 1e-3 * (1 + fabs(sum)));
                }
                assert_int_equal(problem->items_touched[i], i < 15);
            }
            for (unsigned u = 0; u < USERS; u++) {
                for (uint32_t k = 0; k < width; k++) {
                    assert_true(fabs((double)row_of(sgd->users, sgd->user_stride, u)[k] - p[u * width + k]) <= 1e-4);
                }
            }
            free(items_before);
            free(sums);
        }
    }
}
