/* Products of a dense layer that skip inputs that are 0, as most pixels of handwritten digits are. Only for the
 * first layer with parameters, whose x comes from the data and which needs no dx. OpenBLAS is faster when few inputs
 * are 0; nn_sparse_pays decides. Allocates nothing and starts no threads.
 *
 * A skipped product is not always 0, as 0 times an infinity or a NaN is NaN. So a weight that is not finite affects
 * only samples whose input there is not 0. Training that diverges is still detected if there is such a sample: its
 * errors are NaN, and so is the biases' gradient, which sums over all samples. */
#ifndef APPS_NN_SPARSE_H
#define APPS_NN_SPARSE_H

#include "apps/nn/layers.h"
#include "apps/vectors.h"

#include <stdbool.h>

enum {
    /* Inputs, or samples, that are handled together: the bits of a word, and the rows of a block that stays in a
     * first-level cache. */
    NN_SPARSE_BLOCK = 64
};

/* Returns the words of a sample's bits: bit i % 64 of word i / 64 is set where input i is not 0. */
static inline size_t nn_sparse_words(size_t in) {
    return (in + NN_SPARSE_BLOCK - 1) / NN_SPARSE_BLOCK;
}

/* One implementation. forward and weights are like nn_products' dense_forward and dense_weights, except for the
 * order of sums, and need the bits of their samples. The result for a sample, or for a row of dw, does not depend on
 * the others computed with it.
 *
 * find: sets bits[n][nn_sparse_words(in)]. Returns how many inputs are not 0; a NaN counts as not 0. */
struct nn_sparse {
    const char *name;
    size_t (*find)(const struct nn_dense *dense, const float *x, size_t x_stride, size_t n, uint64_t *bits);
    void (*forward)(const struct nn_dense *dense, const float *x, size_t x_stride, const uint64_t *bits, const float *w,
                    size_t n, float *y);
    void (*weights)(const struct nn_dense *dense, const float *x, size_t x_stride, const uint64_t *bits,
                    const float *dy, size_t n, size_t first, size_t end, float scale, float *dw);
};

/* For each set of instructions; this processor runs nn_sparses[0..vectors_wide()]. */
extern const struct nn_sparse nn_sparses[VECTOR_SETS];

/* Whether skipping zeros is faster than a product of matrices, when `nonzeros` of n * in inputs are not 0. */
bool nn_sparse_pays(const struct nn_dense *dense, size_t n, size_t nonzeros);

#endif
