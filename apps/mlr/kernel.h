/* The arithmetic of multinomial logistic regression on arrays, without tables, files or threads. A caller splits a step
 * over threads by ranges; calls on ranges that do not overlap may run at once.
 *
 * The model: weights W, a row of K floats (one for each class) for each of d features, and a row b of biases. A sample
 * x has the logits z = x W + b, the probabilities p_k = exp(z_k) / sum_j exp(z_j), and with the label y the loss
 * -log p_y. The gradient of the loss by z is the error e = p - onehot(y); by W it is x^T e, by b it is e.
 *
 * A step with rate r, where n is the number of samples in the mean:  W -= r/n sum x^T e + decay W,  b -= r/n sum e. */
#ifndef APPS_MLR_KERNEL_H
#define APPS_MLR_KERNEL_H

#include "apps/nn/layers.h"
#include "apps/vectors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MLR_KERNELS = VECTOR_SETS > 1 ? 2 : 1 /* portable and avx2 */ };

/* The weights: row f is rows + f * stride floats. Row `bias` holds the biases. */
struct mlr_weights {
    float *rows;
    size_t stride; /* floats; at least classes */
    uint32_t bias;
    uint32_t classes; /* K */
};

/* A sparse sample: x has values[i] at feature features[i], and zeros elsewhere. Features are all different. */
struct mlr_sparse {
    const uint32_t *features; /* [count] */
    const float *values;      /* [count]; NULL: all are 1 */
    uint32_t count;
};

/* The factors of a sparse step for one feature, or for the biases, which have no decay. */
struct mlr_pace {
    float decay; /* each sample with the feature shrinks its weights by step.decay times this, at most to 0 */
    float rate;  /* the gradient's factor */
};

/* The parameters of a step, or of a slice of a dense step. All slices of a step compute their errors from the
 * weights before the step. Only the first slice applies momentum and decay. */
struct mlr_step {
    float scale;                  /* r/n */
    float decay;                  /* dense: the part that L2 takes from all weights except the biases, 0..1 */
    const struct mlr_pace *paces; /* sparse: for each row */
    float l2;                     /* sparse, when gradients go to an optimizer: see mlr_sparse_l2; 0: none */
    float momentum;               /* dense, with `velocity` */
    float *velocity; /* dense: NULL, or shaped like the weights: v = momentum v + r/n sum x^T e + decay w;  w -= v */
    unsigned slice;  /* dense: the slice's number, from 0 */
    bool sliced;     /* the step has several slices: a device saves the weights before the first one */
};

/* One implementation of the loops that are not matrix products.
 *
 * softmax: turns logits[count][classes] into errors in place, for labels[count], and adds up the losses.
 *
 * sparse_logits: computes logits[count][classes] of samples[count].
 *
 * sparse_update: takes the step for the features of `part` of `parts`, and sets touched[f] for the changed rows.
 * errors[count][classes] are those of the samples. Only one part changes a row. Blocks of MLR_PART_ROWS neighbouring
 * rows are in one part, so that parts share few cache lines. */
struct mlr_kernel {
    const char *name;
    void (*softmax)(float *logits, const uint32_t *labels, size_t count, uint32_t classes, struct nn_loss *loss);
    void (*sparse_logits)(const struct mlr_weights *weights, const struct mlr_sparse *samples, size_t count,
                          float *logits);
    void (*sparse_update)(const struct mlr_weights *weights, const struct mlr_sparse *samples, const float *errors,
                          size_t count, const struct mlr_step *step, unsigned part, unsigned parts,
                          unsigned char *touched);
};

enum { MLR_PART_ROWS = 8 };

/* Adds the gradient of L2 to `sums`, which is shaped like `weights`. Each sample adds step->l2 times the feature's
 * paces[].decay times its weights, for its features in `part` of `parts`. */
void mlr_sparse_l2(const struct mlr_weights *weights, const struct mlr_weights *sums, const struct mlr_sparse *samples,
                   size_t count, const struct mlr_step *step, unsigned part, unsigned parts);

extern const struct mlr_kernel mlr_kernels[MLR_KERNELS];
/* Returns the fastest implementation that this processor runs. */
static inline struct mlr_kernel mlr_kernel_choose(void) {
    return mlr_kernels[vectors_wide() > 0 ? MLR_KERNELS - 1 : 0];
}

/* Dense samples: sample s is `features` floats at samples + s * stride. The biases are row `features` of the
 * weights. */
struct mlr_dense {
    const float *samples;
    size_t stride; /* floats */
    size_t count;
    uint32_t features; /* d */
};

/* Computes the logits of the samples first..end-1 into rows first..end-1 of logits[count][classes]. */
void mlr_dense_logits(const struct mlr_weights *weights, const struct mlr_dense *dense, size_t first, size_t end,
                      float *logits);
/* Takes the step over all samples, for the weights of the features first..end-1. errors[count][classes]. */
void mlr_dense_update(const struct mlr_weights *weights, const struct mlr_dense *dense, const float *errors,
                      const struct mlr_step *step, uint32_t first, uint32_t end);
/* Takes the step over all samples, for the biases. */
void mlr_bias_update(const struct mlr_weights *weights, const float *errors, size_t count, const struct mlr_step *step);

#endif
