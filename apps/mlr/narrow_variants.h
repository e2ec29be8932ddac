/* The loops of narrow.c, for a set of vector instructions (apps/vector_sets.h). NARROW_TOGETHER is the number of
 * samples, or of vectors of features, computed at once: with NARROW_CLASSES, as many sums as fit the registers. `n` and
 * `m` below are constants after inlining. */
#define NARROW_TOGETHER (VECTOR_LANES / 4)

/* Computes the logits of m samples x (stride apart) for n classes from class `at` on. In the pass over the first
 * classes, prefetches the next m samples, as the processor's own prefetch comes too late. */
VECTOR_TARGET VECTOR_INLINE void SET(logits_block)(const struct mlr_weights *weights, const float *transposed,
                                                   const struct mlr_dense *dense, const float *x, uint32_t at,
                                                   unsigned m, unsigned n, float *logits) {
    SET(vector) sums[NARROW_TOGETHER][NARROW_CLASSES];
    size_t features = dense->features;
    const float *rows = transposed + at * features;
    VECTOR_UNROLL
    for (unsigned s = 0; s < m; s++) {
        VECTOR_UNROLL
        for (unsigned k = 0; k < n; k++) {
            sums[s][k] = SET(fill)(0);
        }
    }
    size_t f = 0;
    for (; f + VECTOR_LANES <= features; f += VECTOR_LANES) {
        SET(vector) values[NARROW_TOGETHER];
        VECTOR_UNROLL
        for (unsigned s = 0; s < m; s++) {
            values[s] = SET(load)(x + s * dense->stride + f);
            if (at == 0) {
                __builtin_prefetch(x + (m + s) * dense->stride + f);
            }
        }
        VECTOR_UNROLL
        for (unsigned k = 0; k < n; k++) {
            SET(vector) w = SET(load)(rows + k * features + f);
            VECTOR_UNROLL
            for (unsigned s = 0; s < m; s++) {
                sums[s][k] = SET(multiply_add)(values[s], w, sums[s][k]);
            }
        }
    }
    const float *bias = weights->rows + weights->bias * weights->stride + at;
    VECTOR_UNROLL
    for (unsigned s = 0; s < m; s++) {
        VECTOR_UNROLL
        for (unsigned k = 0; k < n; k++) {
            float z = SET(sum)(sums[s][k]) + bias[k];
            for (size_t rest = f; rest < features; rest++) {
                z += x[s * dense->stride + rest] * rows[k * features + rest];
            }
            logits[s * weights->classes + at + k] = z;
        }
    }
}

VECTOR_TARGET VECTOR_INLINE void SET(logits_classes)(const struct mlr_weights *weights, const float *transposed,
                                                     const struct mlr_dense *dense, const float *x, unsigned m,
                                                     float *logits) {
    uint32_t at = 0;
    for (; at + NARROW_CLASSES <= weights->classes; at += NARROW_CLASSES) {
        SET(logits_block)(weights, transposed, dense, x, at, m, NARROW_CLASSES, logits);
    }
    for (; at < weights->classes; at++) {
        SET(logits_block)(weights, transposed, dense, x, at, m, 1, logits);
    }
}

VECTOR_TARGET static void SET(logits)(const struct mlr_weights *weights, const struct mlr_dense *dense, size_t first,
                                      size_t end, float *scratch, float *logits) {
    size_t s = first;
    if (first < end) {
        transpose(weights, dense->features, scratch);
    }
    for (; s + NARROW_TOGETHER <= end; s += NARROW_TOGETHER) {
        SET(logits_classes)
        (weights, scratch, dense, dense->samples + s * dense->stride, NARROW_TOGETHER, logits + s * weights->classes);
    }
    for (; s < end; s++) {
        SET(logits_classes)
        (weights, scratch, dense, dense->samples + s * dense->stride, 1, logits + s * weights->classes);
    }
}

/* Takes the step for m vectors of features from f on, and n classes from `at` on. In the pass over the first
 * classes, prefetches what comes next: for each sample m vectors of `ahead`. */
VECTOR_TARGET VECTOR_INLINE void SET(update_block)(const struct mlr_weights *weights, const struct mlr_dense *dense,
                                                   const float *errors, const struct mlr_step *step, struct ahead ahead,
                                                   size_t f, uint32_t at, unsigned m, unsigned n) {
    SET(vector) sums[NARROW_TOGETHER][NARROW_CLASSES];
    VECTOR_UNROLL
    for (unsigned j = 0; j < m; j++) {
        VECTOR_UNROLL
        for (unsigned k = 0; k < n; k++) {
            sums[j][k] = SET(fill)(0);
        }
    }
    for (size_t s = 0; s < dense->count; s++) {
        const float *x = dense->samples + s * dense->stride + f;
        const float *e = errors + s * weights->classes + at;
        SET(vector) values[NARROW_TOGETHER];
        VECTOR_UNROLL
        for (unsigned j = 0; j < m; j++) {
            values[j] = SET(load)(x + j * VECTOR_LANES);
            if (at == 0) {
                __builtin_prefetch(ahead.values + s * ahead.stride + j * VECTOR_LANES, 0, 2);
            }
        }
        VECTOR_UNROLL
        for (unsigned k = 0; k < n; k++) {
            SET(vector) error = SET(fill)(e[k]);
            VECTOR_UNROLL
            for (unsigned j = 0; j < m; j++) {
                sums[j][k] = SET(multiply_add)(values[j], error, sums[j][k]);
            }
        }
    }
    float keep = 1 - step->decay;
    VECTOR_UNROLL
    for (unsigned j = 0; j < m; j++) {
        VECTOR_UNROLL
        for (unsigned k = 0; k < n; k++) {
            float gradient[VECTOR_LANES];
            SET(store)(gradient, sums[j][k]);
            float *w = weights->rows + (f + j * VECTOR_LANES) * weights->stride + at + k;
            for (unsigned lane = 0; lane < VECTOR_LANES; lane++, w += weights->stride) {
                *w = keep * *w - step->scale * gradient[lane];
            }
        }
    }
}

VECTOR_TARGET VECTOR_INLINE void SET(update_classes)(const struct mlr_weights *weights, const struct mlr_dense *dense,
                                                     const float *errors, const struct mlr_step *step, size_t first,
                                                     size_t f, unsigned m) {
    struct ahead ahead = ahead_of(dense, first, f, m * VECTOR_LANES);
    uint32_t at = 0;
    for (; at + NARROW_CLASSES <= weights->classes; at += NARROW_CLASSES) {
        SET(update_block)(weights, dense, errors, step, ahead, f, at, m, NARROW_CLASSES);
    }
    for (; at < weights->classes; at++) {
        SET(update_block)(weights, dense, errors, step, ahead, f, at, m, 1);
    }
}

VECTOR_TARGET static void SET(update)(const struct mlr_weights *weights, const struct mlr_dense *dense,
                                      const float *errors, const struct mlr_step *step, uint32_t first, uint32_t end) {
    size_t f = first;
    for (; f + NARROW_TOGETHER * VECTOR_LANES <= end; f += NARROW_TOGETHER * VECTOR_LANES) {
        SET(update_classes)(weights, dense, errors, step, first, f, NARROW_TOGETHER);
    }
    for (; f + VECTOR_LANES <= end; f += VECTOR_LANES) {
        SET(update_classes)(weights, dense, errors, step, first, f, 1);
    }
    if (f < end) { /* fewer features than a vector holds */
        mlr_dense_update(weights, dense, errors, step, (uint32_t)f, end);
    }
}

#undef NARROW_TOGETHER
