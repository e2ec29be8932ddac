/* The loops of narrow.c, included there once for each set of vector instructions. No include guard: this is a
 * template over the NARROW_ macros, which it undefines. NARROW_SET is the prefix of the names defined here,
 * NARROW_LANES the number of floats in a NARROW_VECTOR. NARROW_TOGETHER is the number of samples, or of vectors of
 * features, computed at once: with NARROW_CLASSES, as many sums as fit the registers. `n` and `m` below are
 * constants after inlining. */

#define NARROW_JOIN_(a, b) a##_##b
#define NARROW_JOIN(a, b)  NARROW_JOIN_(a, b)
#define NARROW_NAME(name)  NARROW_JOIN(NARROW_SET, name)

/* Computes the logits of m samples x (stride apart) for n classes from class `at` on. In the pass over the first
 * classes, prefetches the next m samples, as the processor's own prefetch comes too late. */
NARROW_TARGET NARROW_INLINE void NARROW_NAME(logits_block)(const struct mlr_weights *weights, const float *transposed,
                                                           const struct mlr_dense *dense, const float *x, uint32_t at,
                                                           unsigned m, unsigned n, float *logits) {
    NARROW_VECTOR sums[NARROW_TOGETHER][NARROW_CLASSES];
    size_t features = dense->features;
    const float *rows = transposed + at * features;
    NARROW_UNROLL
    for (unsigned s = 0; s < m; s++) {
        NARROW_UNROLL
        for (unsigned k = 0; k < n; k++) {
            sums[s][k] = NARROW_ZERO();
        }
    }
    size_t f = 0;
    for (; f + NARROW_LANES <= features; f += NARROW_LANES) {
        NARROW_VECTOR values[NARROW_TOGETHER];
        NARROW_UNROLL
        for (unsigned s = 0; s < m; s++) {
            values[s] = NARROW_LOAD(x + s * dense->stride + f);
            if (at == 0) {
                __builtin_prefetch(x + (m + s) * dense->stride + f);
            }
        }
        NARROW_UNROLL
        for (unsigned k = 0; k < n; k++) {
            NARROW_VECTOR w = NARROW_LOAD(rows + k * features + f);
            NARROW_UNROLL
            for (unsigned s = 0; s < m; s++) {
                sums[s][k] = NARROW_ADD_PRODUCT(values[s], w, sums[s][k]);
            }
        }
    }
    const float *bias = weights->rows + weights->bias * weights->stride + at;
    NARROW_UNROLL
    for (unsigned s = 0; s < m; s++) {
        NARROW_UNROLL
        for (unsigned k = 0; k < n; k++) {
            float z = NARROW_TOTAL(sums[s][k]) + bias[k];
            for (size_t rest = f; rest < features; rest++) {
                z += x[s * dense->stride + rest] * rows[k * features + rest];
            }
            logits[s * weights->classes + at + k] = z;
        }
    }
}

NARROW_TARGET NARROW_INLINE void NARROW_NAME(logits_classes)(const struct mlr_weights *weights, const float *transposed,
                                                             const struct mlr_dense *dense, const float *x, unsigned m,
                                                             float *logits) {
    uint32_t at = 0;
    for (; at + NARROW_CLASSES <= weights->classes; at += NARROW_CLASSES) {
        NARROW_NAME(logits_block)(weights, transposed, dense, x, at, m, NARROW_CLASSES, logits);
    }
    for (; at < weights->classes; at++) {
        NARROW_NAME(logits_block)(weights, transposed, dense, x, at, m, 1, logits);
    }
}

NARROW_TARGET static void NARROW_NAME(logits)(const struct mlr_weights *weights, const struct mlr_dense *dense,
                                              size_t first, size_t end, float *scratch, float *logits) {
    size_t s = first;
    if (first < end) {
        transpose(weights, dense->features, scratch);
    }
    for (; s + NARROW_TOGETHER <= end; s += NARROW_TOGETHER) {
        NARROW_NAME(logits_classes)
        (weights, scratch, dense, dense->samples + s * dense->stride, NARROW_TOGETHER, logits + s * weights->classes);
    }
    for (; s < end; s++) {
        NARROW_NAME(logits_classes)
        (weights, scratch, dense, dense->samples + s * dense->stride, 1, logits + s * weights->classes);
    }
}

/* Takes the step for m vectors of features from f on, and n classes from `at` on. In the pass over the first
 * classes, prefetches what comes next: for each sample m vectors of `ahead`. */
NARROW_TARGET NARROW_INLINE void NARROW_NAME(update_block)(const struct mlr_weights *weights,
                                                           const struct mlr_dense *dense, const float *errors,
                                                           const struct mlr_step *step, struct ahead ahead, size_t f,
                                                           uint32_t at, unsigned m, unsigned n) {
    NARROW_VECTOR sums[NARROW_TOGETHER][NARROW_CLASSES];
    NARROW_UNROLL
    for (unsigned j = 0; j < m; j++) {
        NARROW_UNROLL
        for (unsigned k = 0; k < n; k++) {
            sums[j][k] = NARROW_ZERO();
        }
    }
    for (size_t s = 0; s < dense->count; s++) {
        const float *x = dense->samples + s * dense->stride + f;
        const float *e = errors + s * weights->classes + at;
        NARROW_VECTOR values[NARROW_TOGETHER];
        NARROW_UNROLL
        for (unsigned j = 0; j < m; j++) {
            values[j] = NARROW_LOAD(x + j * NARROW_LANES);
            if (at == 0) {
                __builtin_prefetch(ahead.values + s * ahead.stride + j * NARROW_LANES, 0, 2);
            }
        }
        NARROW_UNROLL
        for (unsigned k = 0; k < n; k++) {
            NARROW_VECTOR error = NARROW_FILL(e[k]);
            NARROW_UNROLL
            for (unsigned j = 0; j < m; j++) {
                sums[j][k] = NARROW_ADD_PRODUCT(values[j], error, sums[j][k]);
            }
        }
    }
    float keep = 1 - step->decay;
    NARROW_UNROLL
    for (unsigned j = 0; j < m; j++) {
        NARROW_UNROLL
        for (unsigned k = 0; k < n; k++) {
            float gradient[NARROW_LANES];
            NARROW_STORE(gradient, sums[j][k]);
            float *w = weights->rows + (f + j * NARROW_LANES) * weights->stride + at + k;
            for (unsigned lane = 0; lane < NARROW_LANES; lane++, w += weights->stride) {
                *w = keep * *w - step->scale * gradient[lane];
            }
        }
    }
}

NARROW_TARGET NARROW_INLINE void NARROW_NAME(update_classes)(const struct mlr_weights *weights,
                                                             const struct mlr_dense *dense, const float *errors,
                                                             const struct mlr_step *step, size_t first, size_t f,
                                                             unsigned m) {
    struct ahead ahead = ahead_of(dense, first, f, m * NARROW_LANES);
    uint32_t at = 0;
    for (; at + NARROW_CLASSES <= weights->classes; at += NARROW_CLASSES) {
        NARROW_NAME(update_block)(weights, dense, errors, step, ahead, f, at, m, NARROW_CLASSES);
    }
    for (; at < weights->classes; at++) {
        NARROW_NAME(update_block)(weights, dense, errors, step, ahead, f, at, m, 1);
    }
}

NARROW_TARGET static void NARROW_NAME(update)(const struct mlr_weights *weights, const struct mlr_dense *dense,
                                              const float *errors, const struct mlr_step *step, uint32_t first,
                                              uint32_t end) {
    size_t f = first;
    for (; f + NARROW_TOGETHER * NARROW_LANES <= end; f += NARROW_TOGETHER * NARROW_LANES) {
        NARROW_NAME(update_classes)(weights, dense, errors, step, first, f, NARROW_TOGETHER);
    }
    for (; f + NARROW_LANES <= end; f += NARROW_LANES) {
        NARROW_NAME(update_classes)(weights, dense, errors, step, first, f, 1);
    }
    if (f < end) { /* fewer features than a vector holds */
        mlr_dense_update(weights, dense, errors, step, (uint32_t)f, end);
    }
}

#undef NARROW_JOIN_
#undef NARROW_JOIN
#undef NARROW_NAME
#undef NARROW_SET
#undef NARROW_LANES
#undef NARROW_TOGETHER
#undef NARROW_TARGET
#undef NARROW_VECTOR
#undef NARROW_ZERO
#undef NARROW_LOAD
#undef NARROW_STORE
#undef NARROW_FILL
#undef NARROW_ADD_PRODUCT
#undef NARROW_TOTAL
