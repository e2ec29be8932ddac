/* See gradient.h. The loops are plain, so that the compiler vectorizes them. The product is summed in 16 lanes, as
 * the compiler may not reorder a sum by itself. */
#include "apps/mf/gradient.h"

#include "apps/mf/step.h"

#include <assert.h>

enum { LANES = 16 };

static float dot(const float *restrict p, const float *restrict q, uint32_t rank) {
    float sums[LANES] = {0};
    uint32_t k = 0;
    for (; k + LANES <= rank; k += LANES) {
        for (uint32_t l = 0; l < LANES; l++) {
            sums[l] += p[k + l] * q[k + l];
        }
    }
    for (uint32_t l = 0; k + l < rank; l++) {
        sums[l] += p[k + l] * q[k + l];
    }
    float sum = 0;
    for (uint32_t l = 0; l < LANES; l++) {
        sum += sums[l];
    }
    return sum;
}

/* Takes the step of one rating: p is the user's row, q the item's row, s the item's sum. */
static void step(const struct mf_sgd *sgd, const struct mf_item *rating, float error, float *restrict p,
                 const float *restrict q, float *restrict s) {
    const float rate = sgd->rate;
    const float lambda = sgd->lambda;
    const uint32_t rank = sgd->rank;
    for (uint32_t k = 0; k < rank; k++) {
        float old = p[k];
        p[k] += rate * (error * q[k] - lambda * old);
        s[k] -= error * old - lambda * q[k];
    }
    if (sgd->biases) {
        float user_penalty = mf_penalty(sgd->user_penalties, rating->user, sgd->lambda_bias);
        float item_penalty = mf_penalty(sgd->item_penalties, rating->item, sgd->lambda_bias);
        p[rank] += rate * (error - user_penalty * p[rank]);
        s[rank] -= error - item_penalty * q[rank];
    }
}

double mf_gradient_pass(const struct mf_sgd *sgd, unsigned char *sums, const struct mf_item *ratings, size_t count) {
    const uint32_t rank = sgd->rank;
    double squares = 0;
    assert(rank >= 1 && rank <= MF_RANK_MAX);
    for (size_t i = 0; i < count; i++) {
        float *p = (float *)(void *)(sgd->users + (size_t)ratings[i].user * sgd->user_stride);
        const size_t item = (size_t)ratings[i].item * sgd->item_stride;
        const float *q = (const float *)(const void *)(sgd->items + item);
        float prediction = dot(p, q, rank) + (sgd->biases ? p[rank] + q[rank] : 0);
        float error = (ratings[i].rating - sgd->mean) * sgd->scale - prediction;
        squares += (double)error * (double)error;
        step(sgd, &ratings[i], mf_clipped(error, sgd->clip), p, q, (float *)(void *)(sums + item));
        if (sgd->users_touched != NULL) {
            sgd->users_touched[ratings[i].user] = 1;
        }
        if (sgd->items_touched != NULL) {
            sgd->items_touched[ratings[i].item] = 1;
        }
    }
    return squares;
}
