/* Optimizers that run in the servers, or with local steps in each process: functions for aml_table.apply (agileml.h),
 * with their parameters. Apps get them through agileml.h. Plain C99 and C++; no function fails.
 *
 * In the formulas w is an element of the row, and g the same element of the sum of a clock's updates. The sum is a
 * gradient, so steps go against it. A table's elements are AML_FLOAT32 or AML_FLOAT64. State is zero before the
 * first step.
 *
 * Steps are lazy: a row is changed in the clocks in which some worker updates it, and in no others. Between these
 * clocks momentum does not move it, averages do not fade, and L2 regularization does not shrink it. */
#ifndef AGILEML_OPTIMIZERS_H
#define AGILEML_OPTIMIZERS_H

#include "agileml/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The step of one row, in one clock in which the row was updated. */
struct aml_step {
    uint64_t key;   /* key of the row */
    uint64_t clock; /* the clock of the updates; counts from 1 */
    enum aml_type type;
    uint32_t width;       /* elements of the row and the sum */
    uint32_t state_width; /* elements of the state */
    /* Aligned only as their elements require. */
    void *row;       /* [width] to be changed */
    void *state;     /* [state_width] to be changed; NULL: the table has no state */
    const void *sum; /* [width] of all workers' updates in the clock */
};

/* The steps of several rows in one clock, for aml_table.apply_rows. */
struct aml_steps {
    uint64_t clock;
    enum aml_type type;
    uint32_t width, state_width;
    size_t count;   /* rows */
    uint64_t *keys; /* [count] keys of the rows, none twice; read only */
    void *rows;     /* [count][width] to be changed */
    void *states;   /* [count][state_width] to be changed; NULL: the table has no state */
    void *sums;     /* [count][width] of all workers' updates in the clock; may be changed */
    char *error;    /* [error_bytes] for the job's error line when the function fails */
    size_t error_bytes;
};

/* Gradient descent with momentum: v = momentum v + g + l2 w; w -= rate v.
 * With `nesterov`: w -= rate (g + l2 w + momentum v), with the new v.
 * (Sutskever et al., On the importance of initialization and momentum in deep learning, ICML 2013, in the form of
 * PyTorch's SGD.) With momentum 0 plain descent. State: `width` elements. */
struct aml_momentum {
    double rate, momentum, l2;
    int nesterov;
};
void aml_apply_momentum(const struct aml_step *step, const void *parameters);

/* AdaGrad: G = g + l2 w; n += G^2; w -= rate G / (sqrt(n + initial) + epsilon).
 * (Duchi, Hazan, Singer, Adaptive Subgradient Methods for Online Learning and Stochastic Optimization, JMLR 12, 2011:
 * figure 1, diagonal.) State: `width` elements. */
struct aml_adagrad {
    double rate, l2;
    double initial; /* shortens the first steps of an element; 0: the first step is as long as the rate */
    double epsilon; /* above 0 if `initial` is 0 */
};
void aml_apply_adagrad(const struct aml_step *step, const void *parameters);

/* Adam: G = g + l2 w; m = beta1 m + (1 - beta1) G; v = beta2 v + (1 - beta2) G^2; w -= rate (m / (1 - beta1^t)) /
 * (sqrt(v / (1 - beta2^t)) + epsilon). (Kingma, Ba, Adam: A Method for Stochastic Optimization, ICLR 2015: algorithm
 * 1.) t counts the row's own steps, not clocks. So a row's first step has length `rate` even in a late clock. State:
 * 2 width + 2 elements: m, v, 1 - beta1^t and 1 - beta2^t. */
struct aml_adam {
    double rate;
    double beta1, beta2; /* 0 to below 1 */
    double epsilon;      /* above 0 */
    double l2;
};
void aml_apply_adam(const struct aml_step *step, const void *parameters);

/* FTRL-Proximal: s = (sqrt(n + g^2) - sqrt(n)) / alpha; z += g - s w; n += g^2; w = 0 if |z| <= l1, else -(z -
 * sign(z) l1) / ((beta + sqrt(n)) / alpha + l2). (McMahan et al., Ad Click Prediction: a View from the Trenches, KDD
 * 2013: algorithm 1.) Rows should start as zeros, as the first step would discard any other start value. State: 2
 * width elements: z and n. */
struct aml_ftrl {
    double alpha;        /* above 0, and constant for the table's life, as z depends on it */
    double beta, l1, l2; /* beta or l2 must be above 0 */
};
void aml_apply_ftrl(const struct aml_step *step, const void *parameters);

/* Return the elements of state that each optimizer needs, for aml_table.state_width. */
static inline uint32_t aml_momentum_state(uint32_t width) {
    return width;
}
static inline uint32_t aml_adagrad_state(uint32_t width) {
    return width;
}
static inline uint32_t aml_adam_state(uint32_t width) {
    return 2 * width + 2;
}
static inline uint32_t aml_ftrl_state(uint32_t width) {
    return 2 * width;
}

#ifdef __cplusplus
}
#endif

#endif
