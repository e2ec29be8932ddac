/* The fast loops of kernel.c, included there once for each set of vector instructions. No include guard: this is a
 * template over MF_SET (the prefix of the operations and of the names defined here), MF_LANES (floats in a vector, a
 * divisor of 16) and MF_TARGET (the attribute that lets a function use the instructions). */

#define MF_JOIN_(a, b) a##_##b
#define MF_JOIN(a, b)  MF_JOIN_(a, b)
#define MF_(name)      MF_JOIN(MF_SET, name)

MF_TARGET MF_INLINE MF_(vector) MF_(load)(const float *x) {
    MF_(vector) v;
    memcpy(&v, x, sizeof v);
    return v;
}

MF_TARGET MF_INLINE void MF_(store)(float *x, MF_(vector) v) {
    memcpy(x, &v, sizeof v);
}

/* Returns a vector with x in all places. Subtracts 0, as adding 0 would turn -0 into 0. */
MF_TARGET MF_INLINE MF_(vector) MF_(fill)(float x) {
    return x - (MF_(vector)){0};
}

/* Prefetches the item row that is used MF_PREFETCH_DISTANCE ratings after `i`, for writing or for reading. */
MF_TARGET MF_INLINE void MF_(prefetch)(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count, size_t i,
                                       size_t row_size, const bool change) {
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
MF_TARGET MF_INLINE float MF_(dot)(const float *p, const float *q, uint32_t rank) {
    MF_(vector) sum[2] = {{0}};
    uint32_t k = 0;
    for (; k + 2 * MF_LANES <= rank; k += 2 * MF_LANES) {
        sum[0] = MF_(multiply_add)(MF_(load)(p + k), MF_(load)(q + k), sum[0]);
        sum[1] = MF_(multiply_add)(MF_(load)(p + k + MF_LANES), MF_(load)(q + k + MF_LANES), sum[1]);
    }
    if (k + MF_LANES <= rank) {
        sum[0] = MF_(multiply_add)(MF_(load)(p + k), MF_(load)(q + k), sum[0]);
        k += MF_LANES;
    }
    if (k < rank) {
        sum[1] = MF_(multiply_add)(MF_(load_part)(p + k, rank - k), MF_(load_part)(q + k, rank - k), sum[1]);
    }
    return MF_(sum)(sum[0] + sum[1]);
}

/* Takes one rating's step, for any rank. Both rows are read twice, the second time from the first-level cache. The
 * caller handles the user's bias, which changes with every rating of a run. */
MF_TARGET MF_INLINE void MF_(step)(float *p, float *q, uint32_t rank, float step, float keep, float item_step,
                                   float item_keep) {
    const MF_(vector) steps = MF_(fill)(step);
    const MF_(vector) keeps = MF_(fill)(keep);
    const MF_(vector) item_steps = MF_(fill)(item_step);
    const MF_(vector) item_keeps = MF_(fill)(item_keep);
    uint32_t k = 0;
    for (; k + MF_LANES <= rank; k += MF_LANES) {
        MF_(vector) old_p = MF_(load)(p + k);
        MF_(vector) old_q = MF_(load)(q + k);
        MF_(store)(p + k, MF_(multiply_add)(steps, old_q, keeps * old_p));
        MF_(store)(q + k, MF_(multiply_add)(item_steps, old_p, item_keeps * old_q));
    }
    if (k < rank) {
        MF_(vector) old_p = MF_(load_part)(p + k, rank - k);
        MF_(vector) old_q = MF_(load_part)(q + k, rank - k);
        MF_(store_part)(p + k, MF_(multiply_add)(steps, old_q, keeps * old_p), rank - k);
        MF_(store_part)(q + k, MF_(multiply_add)(item_steps, old_p, item_keeps * old_q), rank - k);
    }
}

MF_TARGET MF_INLINE double MF_(sgd_any)(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count) {
    const uint32_t rank = sgd->rank;
    const bool biases = sgd->biases;
    const float mean = sgd->mean;
    const float scale = sgd->scale;
    const float clip = sgd->clip;
    const float rate = sgd->rate;
    const float keep = 1.0F - sgd->rate * sgd->lambda;
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        MF_(prefetch)(sgd, ratings, count, i, (rank + biases) * sizeof(float), true);
        float *p = mf_row(sgd->users, sgd->user_stride, ratings[i].user);
        float *q = mf_row(sgd->items, sgd->item_stride, ratings[i].item);
        float prediction = MF_(dot)(p, q, rank);
        if (biases) {
            prediction += p[rank] + q[rank];
        }
        float error = (ratings[i].rating - mean) * scale - prediction;
        sum += (double)error * (double)error;
        error = mf_clipped(error, clip);
        const float item_rate = mf_rate_of(sgd, ratings[i].item);
        MF_(step)(p, q, rank, rate * error, keep, item_rate * error, 1.0F - item_rate * sgd->lambda);
        if (biases) {
            const float user_penalty = mf_penalty(sgd->user_penalties, ratings[i].user, sgd->lambda_bias);
            const float item_penalty = mf_penalty(sgd->item_penalties, ratings[i].item, sgd->lambda_bias);
            p[rank] = (1.0F - rate * user_penalty) * p[rank] + rate * error;
            q[rank] = (1.0F - item_rate * item_penalty) * q[rank] + item_rate * error;
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
MF_TARGET MF_INLINE double MF_(sgd_fixed)(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count,
                                          const uint32_t rank, const bool biases) {
    enum { BLOCKS_MAX = 128 / MF_LANES };
    const uint32_t blocks = rank / MF_LANES;
    unsigned char *items_touched = sgd->items_touched;
    const float mean = sgd->mean;
    const float scale = sgd->scale;
    const float clip = sgd->clip;
    const float rate = sgd->rate;
    const float keep = 1.0F - sgd->rate * sgd->lambda;
    const MF_(vector) keeps = MF_(fill)(keep);
    double sum = 0;
    size_t i = 0;
    while (i < count) {
        const uint32_t user = ratings[i].user;
        float *user_row = mf_row(sgd->users, sgd->user_stride, user);
        MF_(vector) p[BLOCKS_MAX];
#pragma GCC unroll 32
        for (uint32_t b = 0; b < blocks; b++) {
            p[b] = MF_(load)(user_row + b * MF_LANES);
        }
        float user_bias = biases ? user_row[rank] : 0;
        const float user_keep = biases ? 1.0F - rate * mf_penalty(sgd->user_penalties, user, sgd->lambda_bias) : 0;
        do {
            MF_(prefetch)(sgd, ratings, count, i, (rank + biases) * sizeof(float), true);
            float *item_row = mf_row(sgd->items, sgd->item_stride, ratings[i].item);
            MF_(vector) q[BLOCKS_MAX];
            MF_(vector) products[4] = {{0}};
#pragma GCC unroll 32
            for (uint32_t b = 0; b < blocks; b++) {
                q[b] = MF_(load)(item_row + b * MF_LANES);
                products[b % 4] = MF_(multiply_add)(p[b], q[b], products[b % 4]);
            }
            MF_(vector) product = products[0];
            if (blocks > 1) {
                product = product + products[1];
            }
            if (blocks > 2) {
                product = product + (products[2] + products[3]);
            }
            float dot = MF_(sum)(product);
            float item_bias = biases ? item_row[rank] : 0;
            float error = ((ratings[i].rating - mean) * scale - item_bias) - user_bias - dot;
            sum += (double)error * (double)error;
            error = mf_clipped(error, clip);
            const float item_rate = mf_rate_of(sgd, ratings[i].item);
            const MF_(vector) steps = MF_(fill)(rate * error);
            const MF_(vector) item_steps = MF_(fill)(item_rate * error);
            const MF_(vector) item_keeps = MF_(fill)(1.0F - item_rate * sgd->lambda);
#pragma GCC unroll 32
            for (uint32_t b = 0; b < blocks; b++) {
                MF_(vector) old_p = p[b];
                p[b] = MF_(multiply_add)(steps, q[b], keeps * old_p);
                MF_(store)
                (item_row + b * MF_LANES, MF_(multiply_add)(item_steps, old_p, item_keeps * q[b]));
            }
            if (biases) {
                const float item_penalty = mf_penalty(sgd->item_penalties, ratings[i].item, sgd->lambda_bias);
                user_bias = user_keep * user_bias + rate * error;
                item_row[rank] = (1.0F - item_rate * item_penalty) * item_bias + item_rate * error;
            }
            if (items_touched != NULL) {
                items_touched[ratings[i].item] = 1;
            }
            i++;
        } while (i < count && ratings[i].user == user);
#pragma GCC unroll 32
        for (uint32_t b = 0; b < blocks; b++) {
            MF_(store)(user_row + b * MF_LANES, p[b]);
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
    (sgd->biases ? MF_(sgd_fixed)(sgd, ratings, count, (RANK), true)                                                   \
                 : MF_(sgd_fixed)(sgd, ratings, count, (RANK), false))

MF_TARGET static double MF_(sgd_pass)(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count) {
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
        return MF_(sgd_any)(sgd, ratings, count);
    }
}

MF_TARGET static double MF_(squared_error)(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count) {
    mf_check(sgd);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        MF_(prefetch)(sgd, ratings, count, i, (sgd->rank + sgd->biases) * sizeof(float), false);
        const float *p = mf_row(sgd->users, sgd->user_stride, ratings[i].user);
        const float *q = mf_row(sgd->items, sgd->item_stride, ratings[i].item);
        float prediction = MF_(dot)(p, q, sgd->rank);
        if (sgd->biases) {
            prediction += p[sgd->rank] + q[sgd->rank];
        }
        float error = (ratings[i].rating - sgd->mean) * sgd->scale - prediction;
        sum += (double)error * (double)error;
    }
    return sum;
}

#undef MF_FIXED
#undef MF_
#undef MF_JOIN
#undef MF_JOIN_
#undef MF_SET
#undef MF_LANES
#undef MF_TARGET
