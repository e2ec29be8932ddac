/* The fast loops of graph.c's attention, for a set of vector instructions (apps/vector_sets.h). A vertex's entries are
 * handled in blocks. Values of heads are vectors over heads where rows are read, and over entries and heads where they
 * are not. `together` and `vectors` are constants after inlining, as are the usual heads and their width. */

typedef uint32_t SET(words) __attribute__((vector_size(4 * VECTOR_LANES)));

/* exp(x) for x up to 0, to about 2 units in the last place; 1 above 0; exp(-80) below -80, so that no later product is
 * a slow subnormal number. x = n log 2 + r with |r| <= log(2) / 2. A polynomial gives exp(r) (Cephes' expf); 2^n is
 * made of its exponent's bits. NaN stays NaN. */
VECTOR_TARGET VECTOR_INLINE SET(vector) SET(exponential)(SET(vector) x) {
    const SET(vector) round = SET(fill)(12582912.0F); /* 1.5 * 2^23: adding it leaves a whole number in the low bits */
    const SET(vector) clipped = SET(maximum)(SET(fill)(-80.0F), -SET(maximum)(SET(fill)(0), -x));
    const SET(vector) shifted = SET(multiply_add)(clipped, SET(fill)(1.44269504F), round);
    const SET(vector) n = shifted - round;
    /* log 2 in two parts, so that n times the first is exact */
    const SET(vector) rest = SET(multiply_add)(n, SET(fill)(-0.693359375F), clipped);
    const SET(vector) r = SET(multiply_add)(n, SET(fill)(2.12194440e-4F), rest);
    SET(vector) p = SET(fill)(1.9875691500e-4F);
    p = SET(multiply_add)(p, r, SET(fill)(1.3981999507e-3F));
    p = SET(multiply_add)(p, r, SET(fill)(8.3334519073e-3F));
    p = SET(multiply_add)(p, r, SET(fill)(4.1665795894e-2F));
    p = SET(multiply_add)(p, r, SET(fill)(1.6666665459e-1F));
    p = SET(multiply_add)(p, r, SET(fill)(5.0000001201e-1F));
    p = SET(multiply_add)(p, r * r, r + SET(fill)(1));
    const SET(words) power = ((SET(words))shifted + 127U) << 23; /* shifts out the higher bits of 1.5 * 2^23 */
    return p * (SET(vector))power;
}

/* leaky'(x) */
VECTOR_TARGET VECTOR_INLINE SET(vector) SET(leaky_slopes)(SET(vector) x, float slope) {
    const SET(words) below = (SET(words))(x < SET(fill)(0));
    return (SET(vector))((below & (SET(words))SET(fill)(slope)) | (~below & (SET(words))SET(fill)(1)));
}

/* The vertex's m_i, from l_i: leaky rises, so the greatest r_j has the greatest s_ij. */
VECTOR_TARGET VECTOR_INLINE void SET(greatest)(const struct attention_pass *pass, uint32_t i, const float *l,
                                               float *m) {
    const size_t entries = entries_of(pass->lists, i);
    for (size_t k = 0; k < pass->heads; k += VECTOR_LANES) {
        const size_t n = smaller(pass->heads - k, VECTOR_LANES);
        SET(vector) greatest = SET(fill)(-INFINITY);
        for (size_t e = 0; e < entries; e++) {
            const float *r = row_of(pass->rows, entry_at(pass->lists, i, e)) + pass->values;
            greatest = SET(maximum)(greatest, SET(load_part)(r + k, n));
        }
        const SET(vector) x = SET(load_part)(l + k, n) + greatest;
        SET(store_part)(m + k, SET(leaky_slopes)(x, pass->attention->slope) * x, n);
    }
}

/* Sets parts to exp(leaky(fixed + other) - m). `other` is r of the rows, and m the vertex's; backward `other` is l, and
 * both l and m are in the rows. With `gradient` sets slopes. */
VECTOR_TARGET VECTOR_INLINE void SET(block_parts)(const struct attention_pass *pass, struct entry_block *block,
                                                  const float *fixed, const float *m, const bool gradient) {
    const size_t heads = pass->heads;
    const size_t count = block->entries * heads;
    for (size_t e = 0; e < block->entries; e++) {
        const float *others = block->rows[e] + pass->values;
        for (size_t k = 0; k < heads; k += VECTOR_LANES) {
            const size_t n = smaller(heads - k, VECTOR_LANES);
            const SET(vector) x = SET(load_part)(fixed + k, n) + SET(load_part)(others + k, n);
            const SET(vector) greatest = SET(load_part)((m != NULL ? m : others + heads) + k, n);
            const SET(vector) slopes = SET(leaky_slopes)(x, pass->attention->slope);
            SET(store)(block->parts + e * heads + k, slopes * x - greatest);
            if (gradient) {
                SET(store)(block->slopes + e * heads + k, slopes);
            }
        }
    }
    SET(store)(block->parts + count, SET(fill)(0));
    for (size_t at = 0; at < count; at += VECTOR_LANES) {
        SET(store)(block->parts + at, SET(exponential)(SET(load)(block->parts + at)));
    }
}

/* Sets keeps as keep_of does. */
VECTOR_TARGET VECTOR_INLINE void SET(block_keeps)(const struct attention_pass *pass, uint32_t vertex,
                                                  struct entry_block *block) {
    const struct drop *drop = &pass->drop;
    const SET(words) factor = (SET(words))SET(fill)(drop->factor);
    SET(words) steps;
    for (unsigned lane = 0; lane < VECTOR_LANES; lane++) {
        steps[lane] = lane * HEAD_STEP;
    }
    for (size_t e = 0; e < block->entries; e++) {
        const uint32_t start =
            pass->backward ? entry_bits(drop, block->ids[e], vertex) : entry_bits(drop, vertex, block->ids[e]);
        for (size_t k = 0; k < pass->heads; k += VECTOR_LANES) {
            SET(words) bits = steps + (start + (uint32_t)k * HEAD_STEP);
            bits = (bits ^ bits >> 16) * 0x85EBCA6BU;
            bits = (bits ^ bits >> 13) * 0xC2B2AE35U;
            const SET(words) kept = (SET(words))((bits ^ bits >> 16) >= drop->limit);
            SET(store)(block->keeps + e * pass->heads + k, (SET(vector))(kept & factor));
        }
    }
    SET(store)(block->keeps + block->entries * pass->heads, SET(fill)(0));
}

/* x[count] *= y[count], and up to a vector more. */
VECTOR_TARGET VECTOR_INLINE void SET(multiply)(float *x, const float *y, size_t count) {
    for (size_t at = 0; at < count; at += VECTOR_LANES) {
        SET(store)(x + at, SET(load)(x + at) * SET(load)(y + at));
    }
}

VECTOR_TARGET VECTOR_INLINE float SET(dot)(const float *a, const float *b, size_t count) {
    SET(vector) sums[2] = {SET(fill)(0), SET(fill)(0)};
    size_t k = 0;
    for (; k + 2 * VECTOR_LANES <= count; k += 2 * VECTOR_LANES) {
        sums[0] = SET(multiply_add)(SET(load)(a + k), SET(load)(b + k), sums[0]);
        sums[1] = SET(multiply_add)(SET(load)(a + k + VECTOR_LANES), SET(load)(b + k + VECTOR_LANES), sums[1]);
    }
    for (; k < count; k += VECTOR_LANES) {
        const size_t n = smaller(count - k, VECTOR_LANES);
        sums[0] = SET(multiply_add)(SET(load_part)(a + k, n), SET(load_part)(b + k, n), sums[0]);
    }
    return SET(sum)(sums[0] + sums[1]);
}

/* Sets dots to those of the rows' values with the vertex's, values[heads][width]. */
VECTOR_TARGET VECTOR_INLINE void SET(block_dots)(const struct attention_pass *pass, struct entry_block *block,
                                                 const float *values) {
    const size_t heads = pass->heads;
    const size_t width = pass->width;
    size_t head = 0;
    for (; width <= VECTOR_LANES && head + BLOCK_HEADS <= heads; head += BLOCK_HEADS) {
        SET(vector) own[BLOCK_HEADS];
        VECTOR_UNROLL
        for (unsigned h = 0; h < BLOCK_HEADS; h++) {
            own[h] = SET(load_part)(values + (head + h) * width, width);
        }
        for (size_t e = 0; e < block->entries; e++) {
            SET(vector) products[BLOCK_HEADS];
            VECTOR_UNROLL
            for (unsigned h = 0; h < BLOCK_HEADS; h++) {
                products[h] = own[h] * SET(load_part)(block->rows[e] + (head + h) * width, width);
            }
            SET(sums)(products, block->dots + e * heads + head);
        }
    }
    for (; head < heads; head++) {
        for (size_t e = 0; e < block->entries; e++) {
            block->dots[e * heads + head] = SET(dot)(values + head * width, block->rows[e] + head * width, width);
        }
    }
    SET(store)(block->dots + block->entries * heads, SET(fill)(0));
}

/* sums[columns] += parts times the rows' values from `value` on, for `together` heads, whose columns are `width` apart.
 * All columns of a head are in `vectors` vectors. */
VECTOR_TARGET VECTOR_INLINE void SET(add_columns)(const struct attention_pass *pass, const struct entry_block *block,
                                                  size_t head, size_t value, size_t columns, float *sums,
                                                  const unsigned together, const unsigned vectors) {
    const unsigned last = vectors - 1;
    const size_t rest = columns - last * VECTOR_LANES;
    SET(vector) s[SUM_VECTORS];
    VECTOR_UNROLL
    for (unsigned v = 0; v < together * vectors; v++) {
        const float *sum = sums + value + v / vectors * pass->width + v % vectors * VECTOR_LANES;
        s[v] = v % vectors < last ? SET(load)(sum) : SET(load_part)(sum, rest);
    }
    for (size_t e = 0; e < block->entries; e++) {
        const float *row = block->rows[e] + value;
        const float *parts = block->parts + e * pass->heads + head;
        VECTOR_UNROLL
        for (unsigned v = 0; v < together * vectors; v++) {
            const float *x = row + v / vectors * pass->width + v % vectors * VECTOR_LANES;
            const SET(vector) values = v % vectors < last ? SET(load)(x) : SET(load_part)(x, rest);
            s[v] = SET(multiply_add)(SET(fill)(parts[v / vectors]), values, s[v]);
        }
    }
    VECTOR_UNROLL
    for (unsigned v = 0; v < together * vectors; v++) {
        float *sum = sums + value + v / vectors * pass->width + v % vectors * VECTOR_LANES;
        if (v % vectors < last) {
            SET(store)(sum, s[v]);
        } else {
            SET(store_part)(sum, s[v], rest);
        }
    }
}

/* Adds one head, as many columns at once as fit the registers. */
VECTOR_TARGET VECTOR_INLINE void SET(add_head)(const struct attention_pass *pass, const struct entry_block *block,
                                               size_t head, float *sums) {
    const size_t end = (head + 1) * pass->width;
    size_t value = head * pass->width;
    while (value < end) {
        const size_t full = (end - value) / VECTOR_LANES;
        const size_t columns = full >= 8   ? 8 * VECTOR_LANES
                               : full >= 4 ? 4 * VECTOR_LANES
                               : full >= 2 ? 2 * VECTOR_LANES
                                           : smaller(end - value, VECTOR_LANES);
        if (full >= 8) {
            SET(add_columns)(pass, block, head, value, columns, sums, 1, 8);
        } else if (full >= 4) {
            SET(add_columns)(pass, block, head, value, columns, sums, 1, 4);
        } else if (full >= 2) {
            SET(add_columns)(pass, block, head, value, columns, sums, 1, 2);
        } else {
            SET(add_columns)(pass, block, head, value, columns, sums, 1, 1);
        }
        value += columns;
    }
}

/* sums[heads][width] += parts times the rows' values. Narrow heads are added together, so that an addition need not
 * wait for the one before it. */
VECTOR_TARGET VECTOR_INLINE void SET(add_values)(const struct attention_pass *pass, const struct entry_block *block,
                                                 float *sums) {
    const size_t heads = pass->heads;
    const size_t width = pass->width;
    size_t head = 0;
    for (; width <= VECTOR_LANES && head + 8 <= heads; head += 8) {
        SET(add_columns)(pass, block, head, head * width, width, sums, 8, 1);
    }
    for (; width <= VECTOR_LANES && head + 4 <= heads; head += 4) {
        SET(add_columns)(pass, block, head, head * width, width, sums, 4, 1);
    }
    for (; width > VECTOR_LANES && width <= 2 * VECTOR_LANES && head + 4 <= heads; head += 4) {
        SET(add_columns)(pass, block, head, head * width, width, sums, 4, 2);
    }
    for (; head < heads; head++) {
        SET(add_head)(pass, block, head, sums);
    }
}

/* sums[heads] += parts. */
VECTOR_TARGET VECTOR_INLINE void SET(add_parts)(const struct attention_pass *pass, const struct entry_block *block,
                                                float *sums) {
    for (size_t k = 0; k < pass->heads; k += VECTOR_LANES) {
        const size_t n = smaller(pass->heads - k, VECTOR_LANES);
        SET(vector) sum = SET(load_part)(sums + k, n);
        for (size_t e = 0; e < block->entries; e++) {
            sum = sum + SET(load)(block->parts + e * pass->heads + k);
        }
        SET(store_part)(sums + k, sum, n);
    }
}

/* sums[heads] += parts slopes (dots - c). c is the vertex's, or NULL: in the rows, after l, m and q. */
VECTOR_TARGET VECTOR_INLINE void SET(add_slopes)(const struct attention_pass *pass, const struct entry_block *block,
                                                 const float *c, float *sums) {
    for (size_t k = 0; k < pass->heads; k += VECTOR_LANES) {
        const size_t n = smaller(pass->heads - k, VECTOR_LANES);
        SET(vector) sum = SET(load_part)(sums + k, n);
        for (size_t e = 0; e < block->entries; e++) {
            const size_t at = e * pass->heads + k;
            const float *shift = c != NULL ? c + k : block->rows[e] + pass->values + 3 * pass->heads + k;
            const SET(vector) part = SET(load)(block->parts + at) * SET(load)(block->slopes + at);
            sum = SET(multiply_add)(part, SET(load)(block->dots + at) - SET(load_part)(shift, n), sum);
        }
        SET(store_part)(sums + k, sum, n);
    }
}

/* values[heads][width] times factors[heads]. */
VECTOR_TARGET VECTOR_INLINE void SET(scale_heads)(const struct attention_pass *pass, const float *factors,
                                                  float *values) {
    for (size_t head = 0; head < pass->heads; head++) {
        for (size_t k = 0; k < pass->width; k += VECTOR_LANES) {
            const size_t n = smaller(pass->width - k, VECTOR_LANES);
            float *x = values + head * pass->width + k;
            SET(store_part)(x, SET(fill)(factors[head]) * SET(load_part)(x, n), n);
        }
    }
}

VECTOR_TARGET VECTOR_INLINE void SET(forward)(const struct nn_attention *attention, const struct nn_lists *lists,
                                              const struct nn_rows *rows, const float *l, float *o, size_t pitch,
                                              float *m, float *q, const size_t heads, const size_t width) {
    const struct attention_pass pass = attention_pass(attention, lists, rows, heads, width, false);
    struct entry_block block;
    for (uint32_t i = 0; i < lists->n; i++) {
        const size_t entries = entries_of(lists, i);
        float *sums = o + i * pitch;
        float *own_m = m + i * pass.heads;
        float *own_q = q + i * pass.heads;
        SET(greatest)(&pass, i, l + i * pass.heads, own_m);
        memset(sums, 0, pass.values * sizeof *sums);
        memset(own_q, 0, pass.heads * sizeof *own_q);
        for (size_t first = 0; first < entries; first += BLOCK_ENTRIES) {
            open_block(&pass, i, first, &block);
            SET(block_parts)(&pass, &block, l + i * pass.heads, own_m, false);
            SET(add_parts)(&pass, &block, own_q);
            if (pass.drop.places != NULL) {
                SET(block_keeps)(&pass, i, &block);
                SET(multiply)(block.parts, block.keeps, block.entries * pass.heads);
            }
            SET(add_values)(&pass, &block, sums);
        }
        for (size_t k = 0; k < pass.heads; k++) {
            own_q[k] = 1 / own_q[k];
        }
        SET(scale_heads)(&pass, own_q, sums);
    }
}

VECTOR_TARGET VECTOR_INLINE void SET(left)(const struct nn_attention *attention, const struct nn_lists *lists,
                                           const struct nn_rows *rows, const float *l, const float *m, const float *q,
                                           const float *c, const float *d_o, size_t pitch, float *dl,
                                           const size_t heads, const size_t width) {
    const struct attention_pass pass = attention_pass(attention, lists, rows, heads, width, false);
    struct entry_block block;
    for (uint32_t i = 0; i < lists->n; i++) {
        const size_t entries = entries_of(lists, i);
        const size_t own = i * pass.heads;
        memset(dl + own, 0, pass.heads * sizeof *dl);
        for (size_t first = 0; first < entries; first += BLOCK_ENTRIES) {
            open_block(&pass, i, first, &block);
            SET(block_parts)(&pass, &block, l + own, m + own, true);
            SET(block_dots)(&pass, &block, d_o + i * pitch);
            if (pass.drop.places != NULL) {
                SET(block_keeps)(&pass, i, &block);
                SET(multiply)(block.dots, block.keeps, block.entries * pass.heads);
            }
            SET(add_slopes)(&pass, &block, c + own, dl + own);
        }
        for (size_t k = own; k < own + pass.heads; k++) {
            dl[k] *= q[k];
        }
    }
}

/* parts *= the rows' q. */
VECTOR_TARGET VECTOR_INLINE void SET(scale_parts)(const struct attention_pass *pass, struct entry_block *block) {
    for (size_t e = 0; e < block->entries; e++) {
        const float *q = block->rows[e] + pass->values + 2 * pass->heads;
        float *parts = block->parts + e * pass->heads;
        for (size_t k = 0; k < pass->heads; k += VECTOR_LANES) {
            const size_t n = smaller(pass->heads - k, VECTOR_LANES);
            SET(store_part)(parts + k, SET(load)(parts + k) * SET(load_part)(q + k, n), n);
        }
    }
}

VECTOR_TARGET VECTOR_INLINE void SET(backward)(const struct nn_attention *attention, const struct nn_lists *lists,
                                               const struct nn_rows *rows, const struct nn_rows *own, float *dz,
                                               size_t pitch, float *dr, const size_t heads, const size_t width) {
    const struct attention_pass pass = attention_pass(attention, lists, rows, heads, width, true);
    struct entry_block block;
    check_rows(own, nn_attention_forward_width(attention));
    for (uint32_t j = 0; j < lists->n; j++) {
        const size_t entries = entries_of(lists, j);
        const float *z = row_of(own, j);
        float *sums = dz + j * pitch;
        float *sums_r = dr + j * pass.heads;
        memset(sums, 0, pass.values * sizeof *sums);
        memset(sums_r, 0, pass.heads * sizeof *sums_r);
        for (size_t first = 0; first < entries; first += BLOCK_ENTRIES) {
            open_block(&pass, j, first, &block);
            SET(block_parts)(&pass, &block, z + pass.values, NULL, true);
            SET(scale_parts)(&pass, &block);
            SET(block_dots)(&pass, &block, z);
            if (pass.drop.places != NULL) {
                SET(block_keeps)(&pass, j, &block);
                SET(multiply)(block.dots, block.keeps, block.entries * pass.heads);
            }
            SET(add_slopes)(&pass, &block, NULL, sums_r);
            if (pass.drop.places != NULL) {
                SET(multiply)(block.parts, block.keeps, block.entries * pass.heads);
            }
            SET(add_values)(&pass, &block, sums);
        }
    }
}

/* Calls a function with constants for 8 heads of 8 values. With up to 8 values a head, half of an AVX-512 vector would
 * be empty, and vectors would cross cache lines. */
#if VECTOR_LANES == 16
#define ATTENTION_CALL(name, ...)                                                                                      \
    if (attention->width <= 8) {                                                                                       \
        avx2_attention_##name(__VA_ARGS__);                                                                            \
    } else {                                                                                                           \
        SET(name)(__VA_ARGS__, attention->heads, attention->width);                                                    \
    }
#else
#define ATTENTION_CALL(name, ...)                                                                                      \
    if (attention->heads == 8 && attention->width == 8) {                                                              \
        SET(name)(__VA_ARGS__, 8, 8);                                                                                  \
    } else {                                                                                                           \
        SET(name)(__VA_ARGS__, attention->heads, attention->width);                                                    \
    }
#endif

VECTOR_TARGET static void SET(attention_forward)(const struct nn_attention *attention, const struct nn_lists *lists,
                                                 const struct nn_rows *rows, const float *l, float *o, size_t pitch,
                                                 float *m, float *q){
    ATTENTION_CALL(forward, attention, lists, rows, l, o, pitch, m, q)}

VECTOR_TARGET
    static void SET(attention_left)(const struct nn_attention *attention, const struct nn_lists *lists,
                                    const struct nn_rows *rows, const float *l, const float *m, const float *q,
                                    const float *c, const float *d_o, size_t pitch,
                                    float *dl){ATTENTION_CALL(left, attention, lists, rows, l, m, q, c, d_o, pitch, dl)}

VECTOR_TARGET static void SET(attention_backward)(const struct nn_attention *attention, const struct nn_lists *lists,
                                                  const struct nn_rows *rows, const struct nn_rows *own, float *dz,
                                                  size_t pitch, float *dr) {
    ATTENTION_CALL(backward, attention, lists, rows, own, dz, pitch, dr)
}
#undef ATTENTION_CALL
