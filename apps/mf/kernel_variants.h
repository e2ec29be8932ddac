/* The fast loops of kernel.c, for a set of vector instructions (apps/vector_sets.h). VECTOR_LANES divides 16. */

/* Prefetches the item row that is used MF_PREFETCH_DISTANCE ratings after `i`, for writing or for reading. */
VECTOR_TARGET VECTOR_INLINE void SET(prefetch)(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count,
                                               size_t i, size_t row_size, const bool change) {
    if (count - i > MF_PREFETCH_DISTANCE) {
        const unsigned char *row = sgd->items + (size_t)ratings[i + MF_PREFETCH_DISTANCE].item * sgd->item_stride;
        for (size_t byte = 0; byte < row_size; byte += MF_CACHE_LINE) {
            if (change) {
                __builtin_prefetch(row + byte, 1);
            } else {
                __builtin_prefetch(row + byte, 0);
            }
        }
    }
}

/* p . q */
VECTOR_TARGET VECTOR_INLINE float SET(dot)(const float *p, const float *q, uint32_t rank) {
    SET(vector) sum[2] = {{0}};
    uint32_t k = 0;
    for (; k + 2 * VECTOR_LANES <= rank; k += 2 * VECTOR_LANES) {
        sum[0] = SET(multiply_add)(SET(load)(p + k), SET(load)(q + k), sum[0]);
        sum[1] = SET(multiply_add)(SET(load)(p + k + VECTOR_LANES), SET(load)(q + k + VECTOR_LANES), sum[1]);
    }
    if (k + VECTOR_LANES <= rank) {
        sum[0] = SET(multiply_add)(SET(load)(p + k), SET(load)(q + k), sum[0]);
        k += VECTOR_LANES;
    }
    if (k < rank) {
        sum[1] = SET(multiply_add)(SET(load_part)(p + k, rank - k), SET(load_part)(q + k, rank - k), sum[1]);
    }
    return SET(sum)(sum[0] + sum[1]);
}

/* Takes one rating's step, for any rank. Both rows are read twice, the second time from the first-level cache. The
 * caller handles the user's bias, which changes with every rating of a run. */
VECTOR_TARGET VECTOR_INLINE void SET(step)(float *p, float *q, uint32_t rank, float step, float keep, float item_step,
                                           float item_keep) {
    const SET(vector) steps = SET(fill)(step);
    const SET(vector) keeps = SET(fill)(keep);
    const SET(vector) item_steps = SET(fill)(item_step);
    const SET(vector) item_keeps = SET(fill)(item_keep);
    uint32_t k = 0;
    for (; k + VECTOR_LANES <= rank; k += VECTOR_LANES) {
        SET(vector) old_p = SET(load)(p + k);
        SET(vector) old_q = SET(load)(q + k);
        SET(store)(p + k, SET(multiply_add)(steps, old_q, keeps * old_p));
        SET(store)(q + k, SET(multiply_add)(item_steps, old_p, item_keeps * old_q));
    }
    if (k < rank) {
        SET(vector) old_p = SET(load_part)(p + k, rank - k);
        SET(vector) old_q = SET(load_part)(q + k, rank - k);
        SET(store_part)(p + k, SET(multiply_add)(steps, old_q, keeps * old_p), rank - k);
        SET(store_part)(q + k, SET(multiply_add)(item_steps, old_p, item_keeps * old_q), rank - k);
    }
}

VECTOR_TARGET VECTOR_INLINE double SET(sgd_any)(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count) {
    const uint32_t rank = sgd->rank;
    const bool biases = sgd->biases;
    const float mean = sgd->mean;
    const float scale = sgd->scale;
    const float clip = sgd->clip;
    const float rate = sgd->rate;
    const float keep = 1.0F - sgd->rate * sgd->lambda;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        SET(prefetch)(sgd, ratings, count, i, (rank + biases) * sizeof(float), true);
        float *p = mf_row(sgd->users, sgd->user_stride, ratings[i].user);
        float *q = mf_row(sgd->items, sgd->item_stride, ratings[i].item);
        float prediction = SET(dot)(p, q, rank);
        if (biases) {
            prediction += p[rank] + q[rank];
        }
        float error = (ratings[i].rating - mean) * scale - prediction;
        sum += (double)error * (double)error;
        error = mf_clipped(error, clip);
        SET(step)(p, q, rank, rate * error, keep, rate * error, keep);
        if (biases) {
            const float user_penalty = mf_penalty(sgd->user_penalties, ratings[i].user, sgd->lambda_bias);
            const float item_penalty = mf_penalty(sgd->item_penalties, ratings[i].item, sgd->lambda_bias);
            p[rank] = (1.0F - rate * user_penalty) * p[rank] + rate * error;
            q[rank] = (1.0F - rate * item_penalty) * q[rank] + rate * error;
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

/* Takes a pass of steps with a rank known to the compiler. The user's row stays in registers over a run of its
 * ratings, the item's row between the product and the step. So each rating reads and writes one item row. */
VECTOR_TARGET VECTOR_INLINE double SET(sgd_fixed)(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count,
                                                  const uint32_t rank, const bool biases) {
    enum { BLOCKS_MAX = 128 / VECTOR_LANES };
    const uint32_t blocks = rank / VECTOR_LANES;
    unsigned char *items_touched = sgd->items_touched;
    const float mean = sgd->mean;
    const float scale = sgd->scale;
    const float clip = sgd->clip;
    const float rate = sgd->rate;
    const float keep = 1.0F - sgd->rate * sgd->lambda;
    const SET(vector) keeps = SET(fill)(keep);
    double sum = 0;
    size_t i = 0;
    while (i < count) {
        const uint32_t user = ratings[i].user;
        float *user_row = mf_row(sgd->users, sgd->user_stride, user);
        SET(vector) p[BLOCKS_MAX];
#pragma GCC unroll 32
        for (uint32_t b = 0; b < blocks; b++) {
            p[b] = SET(load)(user_row + b * VECTOR_LANES);
        }
        float user_bias = biases ? user_row[rank] : 0;
        const float user_keep = biases ? 1.0F - rate * mf_penalty(sgd->user_penalties, user, sgd->lambda_bias) : 0;
        do {
            SET(prefetch)(sgd, ratings, count, i, (rank + biases) * sizeof(float), true);
            float *item_row = mf_row(sgd->items, sgd->item_stride, ratings[i].item);
            SET(vector) q[BLOCKS_MAX];
            SET(vector) products[4] = {{0}};
#pragma GCC unroll 32
            for (uint32_t b = 0; b < blocks; b++) {
                q[b] = SET(load)(item_row + b * VECTOR_LANES);
                products[b % 4] = SET(multiply_add)(p[b], q[b], products[b % 4]);
            }
            SET(vector) product = products[0];
            if (blocks > 1) {
                product = product + products[1];
            }
            if (blocks > 2) {
                product = product + (products[2] + products[3]);
            }
            float dot = SET(sum)(product);
            float item_bias = biases ? item_row[rank] : 0;
            float error = ((ratings[i].rating - mean) * scale - item_bias) - user_bias - dot;
            sum += (double)error * (double)error;
            error = mf_clipped(error, clip);
            const SET(vector) steps = SET(fill)(rate * error);
            const SET(vector) item_steps = SET(fill)(rate * error);
            const SET(vector) item_keeps = SET(fill)(1.0F - rate * sgd->lambda);
#pragma GCC unroll 32
            for (uint32_t b = 0; b < blocks; b++) {
                SET(vector) old_p = p[b];
                p[b] = SET(multiply_add)(steps, q[b], keeps * old_p);
                SET(store)
                (item_row + b * VECTOR_LANES, SET(multiply_add)(item_steps, old_p, item_keeps * q[b]));
            }
            if (biases) {
                const float item_penalty = mf_penalty(sgd->item_penalties, ratings[i].item, sgd->lambda_bias);
                user_bias = user_keep * user_bias + rate * error;
                item_row[rank] = (1.0F - rate * item_penalty) * item_bias + rate * error;
            }
            if (items_touched != NULL) {
                items_touched[ratings[i].item] = 1;
            }
            i++;
        } while (i < count && ratings[i].user == user);
#pragma GCC unroll 32
        for (uint32_t b = 0; b < blocks; b++) {
            SET(store)(user_row + b * VECTOR_LANES, p[b]);
        }
        if (biases) {
            user_row[rank] = user_bias;
        }
        if (sgd->users_touched != NULL) {
            sgd->users_touched[user] = 1;
        }
    }
    return sum;
}

#define MF_FIXED(RANK)                                                                                                 \
    (sgd->biases ? SET(sgd_fixed)(sgd, ratings, count, (RANK), true)                                                   \
                 : SET(sgd_fixed)(sgd, ratings, count, (RANK), false))

VECTOR_TARGET static double SET(sgd_pass)(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count) {
    mf_check(sgd);
    switch (sgd->rank) {
    case 16:
        return MF_FIXED(16);
    case 32:
        return MF_FIXED(32);
    case 64:
        return MF_FIXED(64);
    case 128:
        return MF_FIXED(128);
    default:
        return SET(sgd_any)(sgd, ratings, count);
    }
}

VECTOR_TARGET static double SET(squared_error)(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count) {
    mf_check(sgd);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        SET(prefetch)(sgd, ratings, count, i, (sgd->rank + sgd->biases) * sizeof(float), false);
        const float *p = mf_row(sgd->users, sgd->user_stride, ratings[i].user);
        const float *q = mf_row(sgd->items, sgd->item_stride, ratings[i].item);
        float prediction = SET(dot)(p, q, sgd->rank);
        if (sgd->biases) {
            prediction += p[sgd->rank] + q[sgd->rank];
        }
        float error = (ratings[i].rating - sgd->mean) * sgd->scale - prediction;
        sum += (double)error * (double)error;
    }
    return sum;
}

#undef MF_FIXED
