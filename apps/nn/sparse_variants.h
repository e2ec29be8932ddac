/* The loops of sparse.c, for a set of vector instructions (apps/vector_sets.h). `vectors` is a constant after inlining,
 * so that a row's sums are in registers. */

VECTOR_TARGET VECTOR_INLINE void SET(sum_vectors)(const struct sparse_block *block, const unsigned vectors) {
    const unsigned last = vectors - 1;
    const size_t rest = block->columns - last * VECTOR_LANES; /* of the last vector, which may be a full one */
    for (size_t t = 0; t < block->targets; t++) {
        uint64_t bits = block->bits[t * block->bits_stride];
        const float *x = block->x + t * block->x_target;
        float *target = block->target + t * block->target_stride;
        SET(vector) sums[SPARSE_VECTORS];
        if (bits == 0) {
            continue;
        }
        VECTOR_UNROLL
        for (unsigned v = 0; v < last; v++) {
            sums[v] = SET(load)(target + v * VECTOR_LANES);
        }
        sums[last] = SET(load_part)(target + last * VECTOR_LANES, rest);
        for (; bits != 0; bits &= bits - 1) {
            size_t r = (size_t)__builtin_ctzll(bits);
            const float *row = block->rows + r * block->rows_stride;
            const SET(vector) factor = SET(fill)(block->scale * x[r * block->x_row]);
            VECTOR_UNROLL
            for (unsigned v = 0; v < last; v++) {
                sums[v] = SET(multiply_add)(factor, SET(load)(row + v * VECTOR_LANES), sums[v]);
            }
            sums[last] = SET(multiply_add)(factor, SET(load_part)(row + last * VECTOR_LANES, rest), sums[last]);
        }
        VECTOR_UNROLL
        for (unsigned v = 0; v < last; v++) {
            SET(store)(target + v * VECTOR_LANES, sums[v]);
        }
        SET(store_part)(target + last * VECTOR_LANES, sums[last], rest);
    }
}

VECTOR_TARGET static void SET(sum_rows)(const struct sparse_block *block) {
    switch ((block->columns + VECTOR_LANES - 1) / VECTOR_LANES) {
    case 1:
        SET(sum_vectors)(block, 1);
        break;
    case 2:
        SET(sum_vectors)(block, 2);
        break;
    case 3:
        SET(sum_vectors)(block, 3);
        break;
    case 4:
        SET(sum_vectors)(block, 4);
        break;
    case 5:
        SET(sum_vectors)(block, 5);
        break;
    case 6:
        SET(sum_vectors)(block, 6);
        break;
    case 7:
        SET(sum_vectors)(block, 7);
        break;
    default:
        assert(block->columns <= SPARSE_VECTORS * VECTOR_LANES);
        SET(sum_vectors)(block, SPARSE_VECTORS);
        break;
    }
}

VECTOR_TARGET static void SET(copy)(const struct sparse_block *block, size_t count, float *copy) {
    for (size_t r = 0; r < count; r++) {
        const float *row = block->rows + r * block->rows_stride;
        float *to = copy + r * COLUMNS_MAX;
        size_t c = 0;
        for (; c + VECTOR_LANES <= block->columns; c += VECTOR_LANES) {
            SET(store)(to + c, SET(load)(row + c));
        }
        if (c < block->columns) {
            SET(store_part)(to + c, SET(load_part)(row + c, block->columns - c), block->columns - c);
        }
    }
}

static const struct sparse_set SET(set) = {
    .sum = SET(sum_rows), .copy = SET(copy), .columns = SPARSE_VECTORS * VECTOR_LANES};

VECTOR_TARGET static size_t SET(find)(const struct nn_dense *dense, const float *x, size_t x_stride, size_t n,
                                      uint64_t *bits) {
    size_t count = 0;
    for (size_t s = 0; s < n; s++) {
        const float *values = x + s * x_stride;
        for (size_t i = 0; i < dense->in; i += NN_SPARSE_BLOCK) {
            size_t end = dense->in - i < NN_SPARSE_BLOCK ? dense->in - i : NN_SPARSE_BLOCK;
            uint64_t word = 0;
            size_t at = 0;
            for (; at + VECTOR_LANES <= end; at += VECTOR_LANES) {
                word |= (uint64_t)SET(nonzeros)(SET(load)(values + i + at)) << at;
            }
            if (at < end) {
                word |= (uint64_t)SET(nonzeros)(SET(load_part)(values + i + at, end - at)) << at;
            }
            count += (size_t)__builtin_popcountll(word);
            *bits++ = word;
        }
    }
    return count;
}

static void SET(forward)(const struct nn_dense *dense, const float *x, size_t x_stride, const uint64_t *bits,
                         const float *w, size_t n, float *y) {
    sparse_forward(&SET(set), dense, x, x_stride, bits, w, n, y);
}

static void SET(weights)(const struct nn_dense *dense, const float *x, size_t x_stride, const uint64_t *bits,
                         const float *dy, size_t n, size_t first, size_t end, float scale, float *dw) {
    sparse_weights(&SET(set), dense, x, x_stride, bits, dy, n, first, end, scale, dw);
}
