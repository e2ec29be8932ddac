/* The fast loops of graph.c, for a set of vector instructions (apps/vector_sets.h). `vectors`, `wide` and `weighted`
 * are constants after inlining, so that a row's sums are in registers. */

VECTOR_TARGET static void SET(drop)(const float *x, size_t count, uint64_t key, float drop, float *y) {
    drop_values(x, count, key, drop, y);
}

/* Loads the first n floats of a vector of a row. Rows of a table can be read to the next multiple of 4 floats. */
VECTOR_TARGET VECTOR_INLINE SET(vector) SET(load_end)(const float *x, size_t n, const bool weighted) {
    return VECTOR_LANES == 4 && !weighted ? SET(load)(x) : SET(load_part)(x, n);
}

/* sums += row of entry `at`, or its value times the row. */
VECTOR_TARGET VECTOR_INLINE void SET(add_entry)(const struct row_sums *s, size_t at, SET(vector) * sums,
                                                const unsigned vectors, const bool wide, const bool weighted) {
    const unsigned last = vectors - 1;
    const float *row = row_of(&s->rows, id_at(s->lists.ids, wide, at));
    const SET(vector) factor = SET(fill)(weighted ? s->values[at] : 0);
    VECTOR_UNROLL
    for (unsigned v = 0; v < vectors; v++) {
        const float *x = row + v * VECTOR_LANES;
        const SET(vector) values = v < last ? SET(load)(x) : SET(load_end)(x, s->columns - v * VECTOR_LANES, weighted);
        if (weighted) {
            sums[v] = SET(multiply_add)(factor, values, sums[v]);
        } else {
            sums[v] = sums[v] + values;
        }
    }
}

/* Narrow rows have two or four sums for each vector, so that an addition need not wait for the one before it. */
VECTOR_TARGET VECTOR_INLINE void SET(sum_rows)(const struct row_sums *s, const unsigned vectors, const bool wide,
                                               const bool weighted) {
    const unsigned chains = vectors == 1 ? 4 : vectors == 2 ? 2 : 1;
    const unsigned last = vectors - 1;
    const size_t bytes = s->columns * sizeof(float);
    for (uint32_t i = 0; i < s->lists.n; i++) {
        SET(vector) sums[SUM_VECTORS];
        size_t at = s->lists.offsets[i];
        const size_t end = s->lists.offsets[i + 1];
        VECTOR_UNROLL
        for (unsigned v = 0; v < chains * vectors; v++) {
            sums[v] = SET(fill)(0);
        }
        for (; at + chains <= end; at += chains) {
            VECTOR_UNROLL
            for (unsigned chain = 0; chain < chains; chain++) {
                prefetch_entry(&s->lists, wide, &s->rows, at + chain + PREFETCH_DISTANCE, bytes);
                SET(add_entry)(s, at + chain, sums + chain * vectors, vectors, wide, weighted);
            }
        }
        for (; at < end; at++) {
            prefetch_entry(&s->lists, wide, &s->rows, at + PREFETCH_DISTANCE, bytes);
            SET(add_entry)(s, at, sums, vectors, wide, weighted);
        }
        VECTOR_UNROLL
        for (unsigned v = vectors; v < chains * vectors; v++) {
            sums[v % vectors] = sums[v % vectors] + sums[v];
        }
        float *y = s->y + i * s->pitch;
        VECTOR_UNROLL
        for (unsigned v = 0; v < last; v++) {
            SET(store)(y + v * VECTOR_LANES, sums[v]);
        }
        SET(store_part)(y + last * VECTOR_LANES, sums[last], s->columns - last * VECTOR_LANES);
    }
}

/* Calls sum_rows with constants. */
#define SUM_CASE(VECTORS)                                                                                              \
    case VECTORS:                                                                                                      \
        if (s->lists.wide) {                                                                                           \
            SET(sum_rows)(s, VECTORS, true, weighted);                                                                 \
        } else {                                                                                                       \
            SET(sum_rows)(s, VECTORS, false, weighted);                                                                \
        }                                                                                                              \
        break

VECTOR_TARGET VECTOR_INLINE void SET(sum_block)(const struct row_sums *s, const bool weighted) {
    switch ((s->columns + VECTOR_LANES - 1) / VECTOR_LANES) {
        SUM_CASE(1);
        SUM_CASE(2);
        SUM_CASE(3);
        SUM_CASE(4);
        SUM_CASE(5);
        SUM_CASE(6);
        SUM_CASE(7);
    default:
        SUM_CASE(8);
    }
}
#undef SUM_CASE

/* Sums `width` columns, as many at once as fit the registers. */
VECTOR_TARGET VECTOR_INLINE void SET(sum_blocks)(struct row_sums *s, size_t width, const bool weighted) {
    for (size_t column = 0; column < width; column += SUM_VECTORS * VECTOR_LANES) {
        s->columns = smaller(width - column, SUM_VECTORS * VECTOR_LANES);
        SET(sum_block)(s, weighted);
        s->rows.base += s->columns * sizeof(float);
        s->y += s->columns;
    }
}

VECTOR_TARGET static void SET(gather)(const struct nn_lists *lists, const struct nn_rows *rows, size_t width, float *y,
                                      size_t pitch) {
    struct row_sums s = {.lists = *lists, .rows = *rows, .y = y, .pitch = pitch};
    check_rows(rows, width);
    SET(sum_blocks)(&s, width, false);
}

VECTOR_TARGET static void SET(features_forward)(const struct nn_features *x, const float *w, size_t w_pitch,
                                                size_t width, float *y, size_t pitch) {
    struct row_sums s = {.lists = {.n = x->n, .wide = x->wide, .offsets = x->offsets, .ids = x->at},
                         .values = x->values,
                         .rows = {.base = (const unsigned char *)w, .stride = w_pitch * sizeof(float)},
                         .y = y,
                         .pitch = pitch};
    assert(!x->dense);
    SET(sum_blocks)(&s, width, true);
}

VECTOR_TARGET VECTOR_INLINE void SET(add_rows)(const struct nn_features *x, const float *dy, size_t pitch,
                                               size_t columns, float *dw, size_t w_pitch, const unsigned vectors,
                                               const bool wide) {
    const unsigned last = vectors - 1;
    const size_t rest = columns - last * VECTOR_LANES;
    for (uint32_t i = 0; i < x->n; i++) {
        const float *errors = dy + i * pitch;
        SET(vector) values[SUM_VECTORS];
        VECTOR_UNROLL
        for (unsigned v = 0; v < last; v++) {
            values[v] = SET(load)(errors + v * VECTOR_LANES);
        }
        values[last] = SET(load_part)(errors + last * VECTOR_LANES, rest);
        for (size_t at = x->offsets[i]; at < x->offsets[i + 1]; at++) {
            float *sums = dw + id_at(x->at, wide, at) * w_pitch;
            const SET(vector) factor = SET(fill)(x->values[at]);
            VECTOR_UNROLL
            for (unsigned v = 0; v < last; v++) {
                float *sum = sums + v * VECTOR_LANES;
                SET(store)(sum, SET(multiply_add)(factor, values[v], SET(load)(sum)));
            }
            float *sum = sums + last * VECTOR_LANES;
            SET(store_part)(sum, SET(multiply_add)(factor, values[last], SET(load_part)(sum, rest)), rest);
        }
    }
}

#define ADD_CASE(VECTORS)                                                                                              \
    case VECTORS:                                                                                                      \
        if (x->wide) {                                                                                                 \
            SET(add_rows)(x, dy + column, pitch, columns, dw + column, w_pitch, VECTORS, true);                        \
        } else {                                                                                                       \
            SET(add_rows)(x, dy + column, pitch, columns, dw + column, w_pitch, VECTORS, false);                       \
        }                                                                                                              \
        break

VECTOR_TARGET static void SET(features_weights)(const struct nn_features *x, const float *dy, size_t pitch,
                                                size_t width, float *dw, size_t w_pitch) {
    assert(!x->dense);
    for (size_t column = 0; column < width; column += SUM_VECTORS * VECTOR_LANES) {
        const size_t columns = smaller(width - column, SUM_VECTORS * VECTOR_LANES);
        switch ((columns + VECTOR_LANES - 1) / VECTOR_LANES) {
            ADD_CASE(1);
            ADD_CASE(2);
            ADD_CASE(3);
            ADD_CASE(4);
            ADD_CASE(5);
            ADD_CASE(6);
            ADD_CASE(7);
        default:
            ADD_CASE(8);
        }
    }
}
#undef ADD_CASE
