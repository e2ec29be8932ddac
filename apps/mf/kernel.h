/* The inner loop of matrix factorization: stochastic gradient descent with L2 regularization over ratings whose rows
 * are in memory. Works on slots and arrays, without keys, tables, files or threads. Calls on disjoint rows may run at
 * once; calls that share rows race, as in Hogwild. */
#ifndef APPS_MF_KERNEL_H
#define APPS_MF_KERNEL_H

#include "apps/vectors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MF_RANK_MAX = 4096 /* the largest rank: a user's and an item's row stay in the first-level cache */ };

/* One rating. `user` and `item` are slots: indexes of rows in the two arrays of struct mf_sgd. */
struct mf_item {
    uint32_t user;
    uint32_t item;
    float rating;
};

/* The rows and the step. A row is `rank` factors, then its bias if `biases`: (rank + biases) floats, at
 * users + slot * user_stride bytes. Strides are multiples of 16 and at least the row's size. The bytes between a row's
 * end and the next row are neither read nor written. The two arrays do not overlap. The caller owns all memory. */
struct mf_sgd {
    unsigned char *users;
    size_t user_stride;           /* bytes */
    unsigned char *users_touched; /* [user slots] set to 1 for each row that a pass changed; NULL: not wanted */
    unsigned char *items;
    size_t item_stride;           /* bytes */
    unsigned char *items_touched; /* [item slots] the same for items' rows */
    uint32_t rank;                /* 1..MF_RANK_MAX */
    bool biases;
    float mean;                  /* mean of the ratings: rows learn (rating - mean) * scale */
    float scale;                 /* one over the ratings' standard deviation; 1: rows learn rating - mean */
    float clip;                  /* errors beyond +-clip are treated as +-clip; INFINITY: no limit */
    float rate;                  /* length of a step */
    float lambda;                /* regularization of the factors */
    float lambda_bias;           /* regularization of the biases, unless the penalties below are set */
    const float *user_penalties; /* [user slots] regularization of each user's bias; NULL: lambda_bias for all */
    const float *item_penalties; /* [item slots] regularization of each item's bias; NULL: lambda_bias */
};

/* One implementation of the loop.
 *
 * sgd_pass takes one step per rating, in order. With p, b_u the user's row and q, b_i the item's:
 *     error = (rating - mean) * scale - (b_u + b_i + p . q);   e = error, but within +-clip
 *     p += rate * (e * q - lambda * p)            q += rate * (e * p - lambda * q)   (old p, old q)
 *     b_u += rate * (e - penalty * b_u)           b_i += rate * (e - penalty * b_i)
 * and returns the sum of error^2, each taken before its own step. Not finite: the steps diverged.
 * It is fastest when equal users follow one another, and right in any order.
 *
 * squared_error returns the sum of error^2 and changes nothing.
 *
 * The same arguments give the same bits on every run of the same implementation; implementations
 * differ from one another by rounding. */
struct mf_kernel {
    const char *name; /* "portable", "avx2", "avx512" */
    double (*sgd_pass)(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count);
    double (*squared_error)(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count);
};

/* For each set of instructions; this processor runs mf_kernels[0..vectors_wide()], the last of them fastest. */
extern const struct mf_kernel mf_kernels[VECTOR_SETS];

/* Makes this thread's arithmetic treat subnormal numbers as 0, until mf_flush_end with the result of mf_flush_begin.
 * Rows shrunk by a strong regularization, or a tiny rate, would otherwise make each step many times slower. Does
 * nothing if the processor has no such mode. */
uint64_t mf_flush_begin(void);
void mf_flush_end(uint64_t mode);

/* Returns what part of the changes of an item's row the servers add, when `nodes` nodes have taken steps on `ratings`
 * ratings of it, all together, since they last exchanged rows. They have not seen each other's steps. A step reduces
 * the error by about the factor 1 - `rate`, so n steps on one node go 1 - exp(-rate n) of the way to the goal. P nodes
 * with n / P steps each go P (1 - exp(-rate n / P)) of it, up to P times the way. The part that is returned bounds the
 * sum by `limit` times the way: below 2 the error still shrinks. So rare items' changes are summed, and of the most
 * popular ones the mean is taken, `limit` times. Factors need more steps than biases, as users' factors are smaller
 * than 1: give a MF_FACTOR_PACE times smaller rate. MF_ITEM_LIMIT and MF_FACTOR_PACE were found by experiment for
 * staleness 0; divide the limit by 1 + staleness. */
#define MF_ITEM_LIMIT  1.5F
#define MF_FACTOR_PACE 3
float mf_item_share(float rate, float limit, unsigned nodes, float ratings);

/* Fills row[0 .. rank + biases) with the start value of the row `key` of table number `table`: factors uniform in
 * [0, MF_INITIAL_SCALE / sqrt(rank)), bias 0. A pure function of its arguments, so that all nodes make the same row.
 * Factors are small, as the mean and the biases predict most. They are not negative, as that gave a lower test
 * error. */
#define MF_INITIAL_SCALE 0.1F
void mf_initial_row(uint64_t seed, unsigned table, uint64_t key, uint32_t rank, bool biases, float *row);

#endif
