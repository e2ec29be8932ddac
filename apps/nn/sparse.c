/* See sparse.h. Both products are sums over rows of a matrix. y[s] is a sum over the rows of w, with the inputs of
 * sample s as factors. dw[i] is a sum over the rows of dy, with input i of all samples as factors. Blocks of 64 rows
 * stay in a first-level cache while all targets read them. This file has the order of blocks; sparse_variants.h has
 * the loops, for each set of vector instructions (apps/vectors.h). */
#include "apps/nn/sparse.h"

#include <assert.h>
#include <string.h>

enum {
    COLUMNS_MAX = 128, /* columns of a block, for the set with the widest registers */
    UNITS_MIN = 16,    /* with fewer, OpenBLAS is as fast */
    /* With at least this many targets, copying a block's rows pays. Contiguous rows don't evict one another from the
     * cache, and no vector crosses a cache line. */
    COPIED_FROM = 32,
    VECTOR_BYTES = 64
};

/* target[t][columns] += scale * sum of x[t][r] * rows[r][columns], over the bits r that are set in bits[t]. Strides
 * are in floats; bits_stride is in words. */
struct sparse_block {
    const uint64_t *bits; /* of target t: bits[t * bits_stride] */
    size_t bits_stride;
    const float *x; /* [targets][64]: x[t * x_target + r * x_row] */
    size_t x_target, x_row;
    const float *rows; /* [64][columns] */
    size_t rows_stride;
    float *target; /* [targets][columns] */
    size_t target_stride, targets, columns;
    float scale;
};

/* The functions and limits of one instruction set. */
struct sparse_set {
    void (*sum)(const struct sparse_block *block);
    /* Copies the first `count` of the block's rows to copy[64][COLUMNS_MAX]. */
    void (*copy)(const struct sparse_block *block, size_t count, float *copy);
    size_t columns; /* columns of a block */
};

/* Replaces the block's rows by a copy, where that pays. */
static void copy_rows(const struct sparse_set *set, struct sparse_block *block, size_t targets, size_t count,
                      float *copy) {
    bool side_by_side = block->rows_stride <= COLUMNS_MAX && (uintptr_t)block->rows % VECTOR_BYTES == 0 &&
                        block->rows_stride * sizeof(float) % VECTOR_BYTES == 0;
    if (targets < COPIED_FROM || side_by_side) {
        return;
    }
    set->copy(block, count, copy);
    block->rows = copy;
    block->rows_stride = COLUMNS_MAX;
}

static size_t smaller(size_t one, size_t other) {
    return one < other ? one : other;
}

static void sparse_forward(const struct sparse_set *set, const struct nn_dense *dense, const float *x, size_t x_stride,
                           const uint64_t *bits, const float *w, size_t n, float *y) {
    _Alignas(VECTOR_BYTES) float copy[NN_SPARSE_BLOCK * COLUMNS_MAX];
    size_t words = nn_sparse_words(dense->in);
    nn_biases_forward(dense, w, n, y);
    for (size_t column = 0; column < dense->out; column += set->columns) {
        for (size_t word = 0; word < words && n > 0; word++) {
            size_t input = word * NN_SPARSE_BLOCK;
            struct sparse_block block = {.bits = bits + word,
                                         .bits_stride = words,
                                         .x = x + input,
                                         .x_target = x_stride,
                                         .x_row = 1,
                                         .rows = w + input * dense->out + column,
                                         .rows_stride = dense->out,
                                         .target = y + column,
                                         .target_stride = dense->out,
                                         .targets = n,
                                         .columns = smaller(dense->out - column, set->columns),
                                         .scale = 1};
            copy_rows(set, &block, n, smaller(dense->in - input, NN_SPARSE_BLOCK), copy);
            set->sum(&block);
        }
    }
}

/* Transposes a matrix of 64 x 64 bits: exchanges the off-diagonal quarters, then those of each quarter, and so on
 * (Hacker's Delight, 7-3). */
static void transpose(uint64_t m[NN_SPARSE_BLOCK]) {
    uint64_t low = 0xffffffff;
    for (unsigned j = 32; j > 0; j /= 2, low ^= low << j) {
        for (unsigned k = 0; k < NN_SPARSE_BLOCK; k += 2 * j) {
            for (unsigned i = k; i < k + j; i++) {
                uint64_t changed = (m[i] >> j ^ m[i + j]) & low;
                m[i] ^= changed << j;
                m[i + j] ^= changed;
            }
        }
    }
}

/* Gathers the bits of the 64 inputs of word `word`, for up to 64 samples: bit s of by_input[i] is input i of sample
 * s. */
static void bits_by_input(const uint64_t *bits, size_t words, size_t word, size_t samples,
                          uint64_t by_input[NN_SPARSE_BLOCK]) {
    for (size_t s = 0; s < NN_SPARSE_BLOCK; s++) {
        by_input[s] = s < samples ? bits[s * words + word] : 0;
    }
    transpose(by_input);
}

static void sparse_weights(const struct sparse_set *set, const struct nn_dense *dense, const float *x, size_t x_stride,
                           const uint64_t *bits, const float *dy, size_t n, size_t first, size_t end, float scale,
                           float *dw) {
    _Alignas(VECTOR_BYTES) float copy[NN_SPARSE_BLOCK * COLUMNS_MAX];
    size_t words = nn_sparse_words(dense->in);
    size_t out = dense->out;
    size_t end_input = smaller(end, dense->in);
    for (size_t column = 0; column < out; column += set->columns) {
        for (size_t sample = 0; sample < n && first < end_input; sample += NN_SPARSE_BLOCK) {
            size_t samples = smaller(n - sample, NN_SPARSE_BLOCK);
            struct sparse_block block = {.bits_stride = 1,
                                         .x_target = 1,
                                         .x_row = x_stride,
                                         .rows = dy + sample * out + column,
                                         .rows_stride = out,
                                         .target_stride = out,
                                         .columns = smaller(out - column, set->columns),
                                         .scale = scale};
            copy_rows(set, &block, end_input - first, samples, copy);
            for (size_t input = first; input < end_input; input += block.targets) {
                size_t word = input / NN_SPARSE_BLOCK;
                uint64_t by_input[NN_SPARSE_BLOCK];
                bits_by_input(bits + sample * words, words, word, samples, by_input);
                block.bits = by_input + input % NN_SPARSE_BLOCK;
                block.x = x + sample * x_stride + input;
                block.target = dw + input * out + column;
                block.targets = smaller((word + 1) * NN_SPARSE_BLOCK, end_input) - input;
                set->sum(&block);
            }
        }
    }
    if (end > dense->in) {
        nn_biases_backward(dense, dy, n, scale, dw);
    }
}

#define SPARSE_VECTORS 8 /* vectors of a row whose sums are in registers at once */

#define VECTOR_LOOPS "apps/nn/sparse_variants.h"
#include "apps/vector_sets.h"

const struct nn_sparse nn_sparses[VECTOR_SETS] = {
    {"portable", portable_find, portable_forward, portable_weights},
#if defined(__x86_64__)
    {"avx2", avx2_find, avx2_forward, avx2_weights},
    {"avx512", avx512_find, avx512_forward, avx512_weights},
#endif
};

/* Measured with 128 samples of 784 inputs and 128 units on a Xeon, relative to OpenBLAS's time and including `find`.
 * With AVX-512: 0.32 when 1 of 5 inputs was not 0, 0.49 for 1 of 3, and 0.71 for 1 of 2. With AVX2 for both: 0.36,
 * 0.55 and 0.78. The portable form was not measured. */
bool nn_sparse_pays(const struct nn_dense *dense, size_t n, size_t nonzeros) {
    return dense->out >= UNITS_MIN && 5 * nonzeros <= 2 * n * dense->in;
}
