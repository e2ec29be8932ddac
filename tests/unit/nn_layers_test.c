/* The layers of apps/nn: gradients against differences of the forward functions, OpenBLAS's versions against the
 * reference, and examples small enough to compute by hand. */
#include "apps/nn/layers.h"
#include "tests/test.h"
#include "tests/unit/nn_reference.h"
#include "tests/unit/nn_values.h"

#include <math.h>

enum { N = 3 };

/* A forward function of some variables. The loss is the sum of its outputs times `weights`. */
struct function {
    void (*forward)(void *context, float *y);
    void *context;
    const float *weights; /* [outputs]: dy */
    size_t outputs;
};

static double loss_of(const struct function *function) {
    FREED float *y = calloc(function->outputs, sizeof *y);
    double sum = 0;
    assert_non_null(y);
    function->forward(function->context, y);
    for (size_t i = 0; i < function->outputs; i++) {
        sum += (double)y[i] * (double)function->weights[i];
    }
    return sum;
}

/* Checks the gradient with respect to variables[count], which `forward` reads. */
static void assert_gradient(const struct function *function, float *variables, const float *gradient, size_t count) {
    const float step = 0x1p-8F;
    FREED float *expected = calloc(count, sizeof *expected);
    assert_non_null(expected);
    for (size_t i = 0; i < count; i++) {
        float before = variables[i];
        variables[i] = before + step;
        double more = loss_of(function);
        variables[i] = before - step;
        double less = loss_of(function);
        variables[i] = before;
        expected[i] = (float)((more - less) / (2 * (double)step));
    }
    nn_values_assert_close(gradient, expected, count, 2e-3);
}

/* ---- Dense ---- */

struct dense_case {
    const struct nn_products *products;
    struct nn_dense dense;
    float *x, *w;
    size_t x_stride;
};

static void dense_forward(void *context, float *y) {
    const struct dense_case *c = context;
    c->products->dense_forward(&c->dense, c->x, c->x_stride, c->w, N, y);
}

TEST(dense) {
    static const size_t shapes[][2] = {{1, 1}, {7, 3}, {16, 10}, {5, 33}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        struct nn_dense dense = {.in = shapes[s][0], .out = shapes[s][1]};
        size_t weights = (dense.in + 1) * dense.out;
        float *reference[3] = {0};
        for (int p = 0; p < 2; p++) {
            struct dense_case c = {.products = p == 0 ? &nn_reference : &nn_blas, .dense = dense};
            c.x_stride = dense.in + 1;
            c.x = nn_values(N * c.x_stride, 1);
            c.w = nn_values(weights, 2);
            FREED float *dy = nn_values(N * dense.out, 3);
            float *results[3] = {nn_values(N * dense.out, 4), calloc(weights, sizeof(float)),
                                 nn_values(N * dense.in, 6)};
            size_t sizes[3] = {N * dense.out, weights, N * dense.in};
            struct function function = {dense_forward, &c, dy, N * dense.out};
            dense_forward(&c, results[0]);
            for (size_t row = 0; row <= dense.in; row += 2) { /* in parts */
                size_t end = row + 2 < dense.in + 1 ? row + 2 : dense.in + 1;
                c.products->dense_weights(&dense, c.x, c.x_stride, dy, N, row, end, 1, results[1]);
            }
            c.products->dense_inputs(&dense, dy, c.w, N, results[2]);
            assert_gradient(&function, c.w, results[1], weights);
            for (size_t i = 0; i < N; i++) {
                FREED float *dx = nn_values(dense.in, 0);
                memcpy(dx, results[2] + i * dense.in, dense.in * sizeof *dx);
                assert_gradient(&function, c.x + i * c.x_stride, dx, dense.in);
            }
            /* The gradient is added: -1 times itself gives zeros, and an empty batch changes nothing. */
            FREED float *sum = malloc(weights * sizeof *sum);
            assert_non_null(sum);
            memcpy(sum, results[1], weights * sizeof *sum);
            c.products->dense_weights(&dense, c.x, c.x_stride, dy, 0, 0, dense.in + 1, 1, sum);
            c.products->dense_weights(&dense, c.x, c.x_stride, dy, N, 0, dense.in + 1, -1, sum);
            for (size_t i = 0; i < weights; i++) {
                assert_true(fabsf(sum[i]) < 1e-5F);
            }
            for (int r = 0; r < 3; r++) {
                if (p == 0) {
                    reference[r] = results[r];
                } else {
                    nn_values_assert_close(results[r], reference[r], sizes[r], 1e-5);
                    free(results[r]);
                    free(reference[r]);
                }
            }
            free(c.x);
            free(c.w);
        }
    }
}

/* ---- Convolution ---- */

struct conv_case {
    const struct nn_products *products;
    struct nn_conv conv;
    float *x, *w, *workspace;
    size_t x_stride;
};

static void conv_forward(void *context, float *y) {
    const struct conv_case *c = context;
    c->products->conv_forward(&c->conv, c->x, c->x_stride, c->w, N, c->workspace, y);
}

TEST(conv) {
    static const struct nn_conv shapes[] = {
        {.height = 1, .width = 1, .channels = 1, .k = 1, .filters = 1},
        {.height = 4, .width = 5, .channels = 1, .k = 3, .filters = 2},
        {.height = 5, .width = 4, .channels = 3, .k = 3, .filters = 4},
        {.height = 4, .width = 4, .channels = 1, .k = 2, .filters = 3}, /* an even k */
        {.height = 3, .width = 4, .channels = 2, .k = 4, .filters = 2},
        {.height = 2, .width = 2, .channels = 1, .k = 7, .filters = 2}, /* larger than the image */
        {.height = 2, .width = 3, .channels = 2, .k = 9, .filters = 2},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        struct nn_conv conv = shapes[s];
        size_t inputs = conv.height * conv.width * conv.channels;
        size_t outputs = N * conv.height * conv.width * conv.filters;
        size_t weights = (nn_conv_patch(&conv) + 1) * conv.filters;
        float *reference[3] = {0};
        for (int p = 0; p < 2; p++) {
            struct conv_case c = {.products = p == 0 ? &nn_reference : &nn_blas, .conv = conv};
            c.x_stride = inputs + 2;
            c.x = nn_values(N * c.x_stride, 1);
            c.w = nn_values(weights, 2);
            c.workspace = nn_values(nn_conv_workspace(&conv, N), 7);
            FREED float *dy = nn_values(outputs, 3);
            float *results[3] = {nn_values(outputs, 4), calloc(weights, sizeof(float)), nn_values(N * inputs, 6)};
            size_t sizes[3] = {outputs, weights, N * inputs};
            struct function function = {conv_forward, &c, dy, outputs};
            conv_forward(&c, results[0]);
            c.products->conv_weights(&conv, c.x, c.x_stride, dy, N, c.workspace, results[1]);
            c.products->conv_inputs(&conv, dy, c.w, N, c.workspace, results[2]);
            assert_gradient(&function, c.w, results[1], weights);
            for (size_t i = 0; i < N; i++) {
                assert_gradient(&function, c.x + i * c.x_stride, results[2] + i * inputs, inputs);
            }
            for (int r = 0; r < 3; r++) {
                if (p == 0) {
                    reference[r] = results[r];
                } else {
                    nn_values_assert_close(results[r], reference[r], sizes[r], 1e-5);
                    free(results[r]);
                    free(reference[r]);
                }
            }
            free(c.x);
            free(c.w);
            free(c.workspace);
        }
    }
}

/* A filter with a single 1 shifts the image. */
TEST(conv_shifts) {
    const struct nn_conv conv = {.height = 2, .width = 3, .channels = 1, .k = 3, .filters = 1};
    const float x[] = {1, 2, 3, 4, 5, 6};
    const float expected[] = {0.5F, 1.5F, 2.5F, 0.5F, 4.5F, 5.5F}; /* the left neighbour plus 0.5 */
    float w[10] = {0};
    float workspace[60];
    float y[6];
    w[3] = 1; /* u = 1, v = 0 */
    w[9] = 0.5F;
    nn_blas.conv_forward(&conv, x, 6, w, 1, workspace, y);
    nn_values_assert_close(y, expected, 6, 1e-6);
}

/* ---- Layers without weights ---- */

struct pool_case {
    struct nn_pool pool;
    float *x;
};

static void pool_forward(void *context, float *y) {
    const struct pool_case *c = context;
    unsigned char at[1000];
    nn_pool_forward(&c->pool, c->x, N, y, at);
}

TEST(pool) {
    static const struct nn_pool shapes[] = {
        {.height = 4, .width = 6, .channels = 3, .size = 2},
        {.height = 5, .width = 7, .channels = 1, .size = 2}, /* the last row and column are left out */
        {.height = 3, .width = 3, .channels = 2, .size = 3},
        {.height = 2, .width = 2, .channels = 2, .size = 1},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        struct nn_pool pool = shapes[s];
        size_t inputs = N * pool.height * pool.width * pool.channels;
        size_t outputs = N * (pool.height / pool.size) * (pool.width / pool.size) * pool.channels;
        struct pool_case c = {.pool = pool, .x = nn_values(inputs, 1)};
        /* Values farther apart than the steps of the differences. */
        for (size_t i = 0; i < inputs; i++) {
            c.x[i] = (float)((i * 7919) % 1009) * 0.1F;
        }
        FREED float *dy = nn_values(outputs, 2);
        FREED float *y = nn_values(outputs, 3);
        FREED float *dx = nn_values(inputs, 4);
        unsigned char at[1000];
        struct function function = {pool_forward, &c, dy, outputs};
        nn_pool_forward(&pool, c.x, N, y, at);
        nn_pool_backward(&pool, dy, at, N, dx);
        assert_gradient(&function, c.x, dx, inputs);
        free(c.x);
    }
    const struct nn_pool pool = {.height = 2, .width = 5, .channels = 1, .size = 2};
    const float x[] = {1, 2, 8, 4, 99, /**/ 3, 0, 5, 8, 99};
    const float expected[] = {3, 8};
    const float expected_dx[] = {0, 0, 20, 0, 0, /* of equal values the first */ 10,
                                 0, 0, 0,  0}; /* of equal values the first */
    const float dy[] = {10, 20};
    float y[2];
    float dx[10];
    unsigned char at[2];
    nn_pool_forward(&pool, x, 1, y, at);
    nn_pool_backward(&pool, dy, at, 1, dx);
    nn_values_assert_close(y, expected, 2, 0);
    nn_values_assert_close(dx, expected_dx, 10, 0);
}

TEST(relu) {
    float y[] = {-1, 0, 2, -0.5F, 3};
    float dy[] = {1, 2, 3, 4, 5};
    const float expected[] = {0, 0, 2, 0, 3};
    const float expected_dx[] = {0, 0, 3, 0, 5};
    nn_relu_forward(y, 5);
    nn_relu_backward(y, dy, 5);
    nn_values_assert_close(y, expected, 5, 0);
    nn_values_assert_close(dy, expected_dx, 5, 0);
}

/* A NaN is passed on at any place in or after a vector, both in values and in errors. */
TEST(relu_passes_nan) {
    enum { COUNT = 37 };
    for (size_t at = 0; at < COUNT; at++) {
        float y[COUNT];
        float dy[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            y[i] = i == at ? NAN : -1;
            dy[i] = NAN;
        }
        nn_relu_forward(y, COUNT);
        nn_relu_backward(y, dy, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(i == at ? isnan(y[i]) : y[i] == 0);
            assert_true(i == at ? isnan(dy[i]) : dy[i] == 0);
        }
    }
}

TEST(dropout) {
    enum { COUNT = 100001 };
    FREED float *values = malloc(COUNT * sizeof *values);
    FREED float *errors = malloc(COUNT * sizeof *errors);
    size_t dropped = 0;
    size_t differ = 0;
    assert_non_null(values);
    assert_non_null(errors);
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = 1;
        errors[i] = 2;
    }
    nn_dropout(values, COUNT, 7, 0.25F);
    nn_dropout(errors, COUNT, 7, 0.25F);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(values[i] == 0 || fabsf(values[i] - 1 / 0.75F) < 1e-6F);
        assert_true(errors[i] == 2 * values[i]); /* the same values are dropped */
        dropped += values[i] == 0;
        errors[i] = 1;
    }
    assert_true(dropped > 24000 && dropped < 26000);
    nn_dropout(errors, COUNT, 8, 0.25F);
    for (size_t i = 0; i < COUNT; i++) {
        differ += (errors[i] == 0) != (values[i] == 0);
    }
    assert_true(differ > 36000 && differ < 39000); /* 2 * 0.25 * 0.75 */
    memcpy(values, errors, COUNT * sizeof *values);
    nn_dropout(values, COUNT, 9, 0);
    assert_memory_equal(values, errors, COUNT * sizeof *values);
}

struct norm_case {
    float *x, *scales;
    size_t size;
};

static void norm_forward(void *context, float *y) {
    const struct norm_case *c = context;
    nn_norm_forward(c->x, c->scales, N, c->size, y);
}

TEST(norm) {
    static const size_t sizes[] = {2, 5, 32};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t size = sizes[s];
        struct norm_case c = {.x = nn_values(N * size, 1), .scales = nn_values(2 * size, 2), .size = size};
        FREED float *dy = nn_values(N * size, 3);
        FREED float *dx = nn_values(N * size, 3);
        FREED float *dscales = calloc(2 * size, sizeof *dscales);
        assert_non_null(dscales);
        struct function function = {norm_forward, &c, dy, N * size};
        nn_norm_backward(c.x, c.scales, dx, N, size, dscales, dx); /* in place */
        assert_gradient(&function, c.scales, dscales, 2 * size);
        if (size > 2) { /* two values are normalized to -1 and 1, so differences vanish or jump */
            assert_gradient(&function, c.x, dx, N * size);
        }
        free(c.x);
        free(c.scales);
    }
    const float x[] = {1, 3, 5, 7};
    const float scales[] = {1, 1, 1, 2, 0, 0, 0, 10};
    const float expected[] = {-1.341641F, -0.4472136F, 0.4472136F, 12.683282F};
    float y[4];
    nn_norm_forward(x, scales, 1, 4, y);
    nn_values_assert_close(y, expected, 4, 1e-5);
}

TEST(softmax) {
    enum { CLASSES = 4 };
    const float logits[N * CLASSES] = {1, 2, 3, 0.5F, /**/ -100, 800, 799, 0, /**/ 5, 5, 5, 5};
    const uint32_t labels[N] = {2, 2, 0};
    float z[N * CLASSES];
    struct nn_loss loss = {0};
    memcpy(z, logits, sizeof z);
    nn_softmax_forward(z, labels, N, CLASSES, &loss);
    assert_int_equal(loss.correct, 2); /* of equal logits the first */
    double expected = log(exp(-2) + exp(-1) + 1 + exp(-2.5)) + 1 + log1p(exp(-1)) + log(4);
    assert_true(fabs(loss.loss - expected) < 1e-5);
    for (size_t s = 0; s < N; s++) {
        float sum = z[s * CLASSES] + z[s * CLASSES + 1] + z[s * CLASSES + 2] + z[s * CLASSES + 3];
        assert_true(fabsf(sum - 1) < 1e-6F);
    }
    nn_softmax_backward(z, labels, N, CLASSES);
    for (size_t i = 0; i < CLASSES; i++) { /* the first sample's gradient */
        struct nn_loss change[2] = {{0}};
        for (int sign = 0; sign < 2; sign++) {
            float moved[CLASSES];
            memcpy(moved, logits, sizeof moved);
            moved[i] += sign == 0 ? 0x1p-7F : -0x1p-7F;
            nn_softmax_forward(moved, labels, 1, CLASSES, &change[sign]);
        }
        assert_true(fabs((change[0].loss - change[1].loss) / 0x1p-6 - (double)z[i]) < 1e-3);
    }
}

int main(void) {
    nn_blas_begin();
    return tests_run(NULL, NULL);
}
