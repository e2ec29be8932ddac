/* Dense layers that skip zeros: each instruction set of this processor against the reference, over shapes around
 * those of vectors and blocks; and NaNs. */
#include "apps/nn/sparse.h"
#include "tests/test.h"
#include "tests/unit/nn_reference.h"
#include "tests/unit/nn_values.h"

#include <math.h>

struct sparse_case {
    struct nn_dense dense;
    size_t n, x_stride, words;
    size_t zeros; /* of 16 inputs about so many are 0 */
    size_t nonzeros;
    float *x, *w, *dy;
    uint64_t *bits;
};

/* `offset` floats precede the weights in memory, so that rows cross cache lines. */
static void open_case(struct sparse_case *c, size_t in, size_t out, size_t n, size_t zeros, size_t offset) {
    *c = (struct sparse_case){.dense = {.in = in, .out = out}, .n = n, .x_stride = in + 1, .zeros = zeros};
    c->words = nn_sparse_words(in);
    c->x = nn_values(n * c->x_stride + 1, 1);
    c->w = nn_values((in + 1) * out + offset, 2);
    c->dy = nn_values(n * out + 1, 3);
    c->bits = malloc((n * c->words + 1) * sizeof *c->bits);
    assert_non_null(c->bits);
    FREED float *chance = nn_values(n * c->x_stride + 1, 4);
    for (size_t i = 0; i < n * c->x_stride; i++) {
        bool is_input = i % c->x_stride < in; /* values after a sample's inputs are not 0 */
        c->x[i] = is_input && chance[i] * 8 + 8 < (float)zeros ? 0 : c->x[i] + (c->x[i] >= 0 ? 1.0F : -1.0F);
        c->nonzeros += is_input && c->x[i] != 0;
    }
}

static void close_case(struct sparse_case *c) {
    free(c->x);
    free(c->w);
    free(c->dy);
    free(c->bits);
}

static void check_bits(const struct sparse_case *c) {
    for (size_t s = 0; s < c->n; s++) {
        for (size_t i = 0; i < c->words * NN_SPARSE_BLOCK; i++) {
            bool set = (c->bits[s * c->words + i / NN_SPARSE_BLOCK] >> i % NN_SPARSE_BLOCK & 1) != 0;
            assert_true(set == (i < c->dense.in && c->x[s * c->x_stride + i] != 0));
        }
    }
    assert_int_equal(c->bits[c->n * c->words], 77); /* unchanged */
}

/* Computes rows first..end-1 of the weights' gradient in `parts`, and checks that no other row changes. */
static void check_weights(const struct sparse_case *c, const struct nn_sparse *sparse, size_t first, size_t end,
                          size_t parts) {
    size_t count = (c->dense.in + 1) * c->dense.out;
    FREED float *dw = nn_values(count, 5);
    FREED float *expected = nn_values(count, 5);
    for (size_t p = 0; p < parts; p++) {
        size_t from = first + (end - first) * p / parts;
        size_t to = first + (end - first) * (p + 1) / parts;
        sparse->weights(&c->dense, c->x, c->x_stride, c->bits, c->dy, c->n, from, to, 0.3F, dw);
    }
    nn_reference.dense_weights(&c->dense, c->x, c->x_stride, c->dy, c->n, first, end, 0.3F, expected);
    nn_values_assert_close(dw, expected, count, 2e-6);
    assert_memory_equal(dw, expected, first * c->dense.out * sizeof *dw);
    assert_memory_equal(dw + end * c->dense.out, expected + end * c->dense.out,
                        (count - end * c->dense.out) * sizeof *dw);
}

static void check_case(struct sparse_case *c, const struct nn_sparse *sparse, size_t offset) {
    size_t rows = c->dense.in + 1;
    FREED float *y = nn_values(c->n * c->dense.out + 1, 6);
    FREED float *expected = nn_values(c->n * c->dense.out + 1, 6);
    c->bits[c->n * c->words] = 77;
    assert_int_equal(sparse->find(&c->dense, c->x, c->x_stride, c->n, c->bits), c->nonzeros);
    check_bits(c);
    sparse->forward(&c->dense, c->x, c->x_stride, c->bits, c->w + offset, c->n, y);
    nn_reference.dense_forward(&c->dense, c->x, c->x_stride, c->w + offset, c->n, expected);
    nn_values_assert_close(y, expected, c->n * c->dense.out + 1, 2e-6);
    check_weights(c, sparse, 0, rows, 1);
    check_weights(c, sparse, 0, rows, 3);
    check_weights(c, sparse, rows / 3, rows / 2 + 1, 1);
    check_weights(c, sparse, rows - 1, rows, 1); /* only the biases */
    check_weights(c, sparse, 0, rows - 1, 2);    /* all rows except the biases */
    check_weights(c, sparse, rows / 2, rows / 2, 1);
}

TEST(shapes) {
    static const size_t ins[] = {1, 2, 15, 63, 64, 65, 130};
    static const size_t outs[] = {1, 3, 8, 16, 31, 64, 100, 127, 128, 129, 300};
    static const size_t ns[] = {0, 1, 5, 63, 64, 70};
    static const size_t zeros[] = {0, 8, 13, 16}; /* zeros of 16 inputs */
    const size_t count = 1 + vectors_wide();
    size_t cases = 0;
    assert_true(count > 0);
    for (size_t i = 0; i < sizeof ins / sizeof ins[0]; i++) {
        for (size_t o = 0; o < sizeof outs / sizeof outs[0]; o++) {
            for (size_t n = 0; n < sizeof ns / sizeof ns[0]; n++) {
                struct sparse_case c;
                size_t offset = (i + o + n) % 3;
                open_case(&c, ins[i], outs[o], ns[n], zeros[cases++ % 4], offset);
                for (size_t k = 0; k < count; k++) {
                    check_case(&c, &nn_sparses[k], offset);
                }
                close_case(&c);
            }
        }
    }
}

/* A sample's output and a row's gradient are the same to the bit, whatever else is computed with them. */
TEST(parts_are_alike) {
    const size_t count = 1 + vectors_wide();
    for (size_t k = 0; k < count; k++) {
        struct sparse_case c;
        open_case(&c, 100, 130, 90, 12, 1);
        size_t weights = (c.dense.in + 1) * c.dense.out;
        float *whole[2] = {nn_values(c.n * c.dense.out, 6), nn_values(weights, 7)};
        float *parts[2] = {nn_values(c.n * c.dense.out, 8), nn_values(weights, 7)};
        nn_sparses[k].find(&c.dense, c.x, c.x_stride, c.n, c.bits);
        nn_sparses[k].forward(&c.dense, c.x, c.x_stride, c.bits, c.w + 1, c.n, whole[0]);
        nn_sparses[k].weights(&c.dense, c.x, c.x_stride, c.bits, c.dy, c.n, 0, c.dense.in + 1, 0.1F, whole[1]);
        for (size_t s = 0; s < c.n; s++) {
            nn_sparses[k].forward(&c.dense, c.x + s * c.x_stride, c.x_stride, c.bits + s * c.words, c.w + 1, 1,
                                  parts[0] + s * c.dense.out);
        }
        for (size_t i = 0; i < c.dense.in + 1; i += 7) {
            size_t end = i + 7 < c.dense.in + 1 ? i + 7 : c.dense.in + 1;
            nn_sparses[k].weights(&c.dense, c.x, c.x_stride, c.bits, c.dy, c.n, i, end, 0.1F, parts[1]);
        }
        assert_memory_equal(whole[0], parts[0], c.n * c.dense.out * sizeof(float));
        assert_memory_equal(whole[1], parts[1], weights * sizeof(float));
        for (int r = 0; r < 2; r++) {
            free(whole[r]);
            free(parts[r]);
        }
        close_case(&c);
    }
}

/* A NaN in a sample counts as a value. NaN weights spoil the samples with a nonzero input for them. NaN errors spoil
 * the biases, and so the whole gradient. */
TEST(no_numbers) {
    enum { IN = 70, OUT = 20, N = 3 };
    const struct nn_dense dense = {.in = IN, .out = OUT};
    const size_t count = 1 + vectors_wide();
    for (size_t k = 0; k < count; k++) {
        float x[N][IN] = {{0}};
        float y[N][OUT];
        float dy[N][OUT] = {{0}};
        static float w[IN + 1][OUT];
        static float dw[IN + 1][OUT];
        uint64_t bits[N * 2];
        memset(dw, 0, sizeof dw);
        x[0][66] = 1;
        x[1][5] = NAN;
        x[2][5] = -0.0F;
        w[66][3] = INFINITY;
        dy[0][4] = NAN;
        assert_int_equal(nn_sparses[k].find(&dense, x[0], IN, N, bits), 2);
        nn_sparses[k].forward(&dense, x[0], IN, bits, w[0], N, y[0]);
        nn_sparses[k].weights(&dense, x[0], IN, bits, dy[0], N, 0, IN + 1, 1, dw[0]);
        for (size_t o = 0; o < OUT; o++) {
            assert_true(o == 3 ? isinf(y[0][o]) : y[0][o] == 0);
            assert_true(isnan(y[1][o]));
            assert_true(y[2][o] == 0);
            assert_true(o == 4 ? isnan(dw[66][o]) && isnan(dw[IN][o]) : dw[66][o] == 0 && dw[IN][o] == 0);
        }
    }
}

TEST(choice) {
    const struct nn_dense dense = {.in = 100, .out = 128};
    const struct nn_dense narrow = {.in = 100, .out = 10};
    assert_true(nn_sparse_pays(&dense, 10, 0));
    assert_true(nn_sparse_pays(&dense, 10, 190)); /* as for MNIST */
    assert_true(nn_sparse_pays(&dense, 10, 400));
    assert_false(nn_sparse_pays(&dense, 10, 401));
    assert_false(nn_sparse_pays(&dense, 10, 1000));
    assert_false(nn_sparse_pays(&narrow, 10, 0));
}
