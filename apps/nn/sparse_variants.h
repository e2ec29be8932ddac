/* The loops of sparse.c, included there once for each set of vector instructions. No include guard: this is a
 * template over the SPARSE_ macros, which it undefines. SPARSE_SET is the prefix of the names defined here,
 * SPARSE_LANES the number of floats in a SPARSE_VECTOR. `vectors` is a constant after inlining, so that a row's sums
 * are in registers. */

#define SPARSE_JOIN_(a, b) a##_##b
#define SPARSE_JOIN(a, b)  SPARSE_JOIN_(a, b)
#define SPARSE_NAME(name)  SPARSE_JOIN(SPARSE_SET, name)

SPARSE_TARGET SPARSE_INLINE void SPARSE_NAME(sum_of)(const struct sparse_block *block, const unsigned vectors) {
    const unsigned last = vectors - 1;
    const size_t rest = block->columns - last * SPARSE_LANES; /* of the last vector, which may be a full one */
    for (size_t t = 0; t < block->targets; t++) {
        uint64_t bits = block->bits[t * block->bits_stride];
        const float *x = block->x + t * block->x_target;
        float *target = block->target + t * block->target_stride;
        SPARSE_VECTOR sums[SPARSE_VECTORS];
        if (bits == 0) {
            continue;
        }
        SPARSE_UNROLL
        for (unsigned v = 0; v < last; v++) {
            sums[v] = SPARSE_LOAD(target + v * SPARSE_LANES);
        }
        sums[last] = SPARSE_LOAD_PART(target + last * SPARSE_LANES, rest);
        for (; bits != 0; bits &= bits - 1) {
            size_t r = (size_t)__builtin_ctzll(bits);
            const float *row = block->rows + r * block->rows_stride;
            const SPARSE_VECTOR factor = SPARSE_FILL(block->scale * x[r * block->x_row]);
            SPARSE_UNROLL
            for (unsigned v = 0; v < last; v++) {
                sums[v] = SPARSE_ADD_PRODUCT(factor, SPARSE_LOAD(row + v * SPARSE_LANES), sums[v]);
            }
            sums[last] = SPARSE_ADD_PRODUCT(factor, SPARSE_LOAD_PART(row + last * SPARSE_LANES, rest), sums[last]);
        }
        SPARSE_UNROLL
        for (unsigned v = 0; v < last; v++) {
            SPARSE_STORE(target + v * SPARSE_LANES, sums[v]);
        }
        SPARSE_STORE_PART(target + last * SPARSE_LANES, sums[last], rest);
    }
}

SPARSE_TARGET static void SPARSE_NAME(sum)(const struct sparse_block *block) {
    switch ((block->columns + SPARSE_LANES - 1) / SPARSE_LANES) {
    case 1:
        SPARSE_NAME(sum_of)(block, 1);
        break;
    case 2:
        SPARSE_NAME(sum_of)(block, 2);
        break;
    case 3:
        SPARSE_NAME(sum_of)(block, 3);
        break;
    case 4:
        SPARSE_NAME(sum_of)(block, 4);
        break;
    case 5:
        SPARSE_NAME(sum_of)(block, 5);
        break;
    case 6:
        SPARSE_NAME(sum_of)(block, 6);
        break;
    case 7:
        SPARSE_NAME(sum_of)(block, 7);
        break;
    default:
        assert(block->columns <= SPARSE_VECTORS * SPARSE_LANES);
        SPARSE_NAME(sum_of)(block, SPARSE_VECTORS);
        break;
    }
}

SPARSE_TARGET static void SPARSE_NAME(copy)(const struct sparse_block *block, size_t count, float *copy) {
    for (size_t r = 0; r < count; r++) {
        const float *row = block->rows + r * block->rows_stride;
        float *to = copy + r * COLUMNS_MAX;
        size_t c = 0;
        for (; c + SPARSE_LANES <= block->columns; c += SPARSE_LANES) {
            SPARSE_STORE(to + c, SPARSE_LOAD(row + c));
        }
        if (c < block->columns) {
            SPARSE_STORE_PART(to + c, SPARSE_LOAD_PART(row + c, block->columns - c), block->columns - c);
        }
    }
}

static const struct sparse_set SPARSE_NAME(set) = {
    .sum = SPARSE_NAME(sum), .copy = SPARSE_NAME(copy), .columns = SPARSE_VECTORS * SPARSE_LANES};

SPARSE_TARGET static size_t SPARSE_NAME(find)(const struct nn_dense *dense, const float *x, size_t x_stride, size_t n,
                                              uint64_t *bits) {
    size_t count = 0;
    for (size_t s = 0; s < n; s++) {
        const float *values = x + s * x_stride;
        for (size_t i = 0; i < dense->in; i += NN_SPARSE_BLOCK) {
            size_t end = dense->in - i < NN_SPARSE_BLOCK ? dense->in - i : NN_SPARSE_BLOCK;
            uint64_t word = 0;
            size_t at = 0;
            for (; at + SPARSE_LANES <= end; at += SPARSE_LANES) {
                word |= (uint64_t)SPARSE_NONZEROS(SPARSE_LOAD(values + i + at)) << at;
            }
            if (at < end) {
                word |= (uint64_t)SPARSE_NONZEROS(SPARSE_LOAD_PART(values + i + at, end - at)) << at;
            }
            count += (size_t)__builtin_popcountll(word);
            *bits++ = word;
        }
    }
    return count;
}

static void SPARSE_NAME(forward)(const struct nn_dense *dense, const float *x, size_t x_stride, const uint64_t *bits,
                                 const float *w, size_t n, float *y) {
    sparse_forward(&SPARSE_NAME(set), dense, x, x_stride, bits, w, n, y);
}

static void SPARSE_NAME(weights)(const struct nn_dense *dense, const float *x, size_t x_stride, const uint64_t *bits,
                                 const float *dy, size_t n, size_t first, size_t end, float scale, float *dw) {
    sparse_weights(&SPARSE_NAME(set), dense, x, x_stride, bits, dy, n, first, end, scale, dw);
}

#undef SPARSE_NAME
#undef SPARSE_JOIN
#undef SPARSE_JOIN_
#undef SPARSE_SET
#undef SPARSE_LANES
#undef SPARSE_TARGET
#undef SPARSE_VECTOR
#undef SPARSE_LOAD
#undef SPARSE_LOAD_PART
#undef SPARSE_STORE
#undef SPARSE_STORE_PART
#undef SPARSE_FILL
#undef SPARSE_ADD_PRODUCT
#undef SPARSE_NONZEROS
