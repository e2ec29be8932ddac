/* See feature_rows.h. */
#include "apps/gnn/feature_rows.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MIN = 64 /* rows before the first decision between sparse and dense */ };

/* Makes room for `more` values after the present ones. */
static void make_room(struct feature_rows *rows, uint64_t used, uint64_t more, bool listed) {
    struct graph_features *features = &rows->features;
    if (used + more > rows->values_capacity) {
        rows->values_capacity = 2 * used + more;
        features->values = memory_resized(features->values, rows->values_capacity, sizeof *features->values);
    }
    if (listed && used + more > rows->at_capacity) {
        rows->at_capacity = rows->values_capacity;
        features->at = memory_resized(features->at, rows->at_capacity, sizeof *features->at);
    }
}

/* Ends a sparse row. */
static void end_row(struct feature_rows *rows) {
    if (rows->rows + 2 > rows->offsets_capacity) {
        rows->offsets_capacity = 2 * (size_t)rows->rows + ROWS_MIN;
        rows->features.offsets =
            memory_resized(rows->features.offsets, rows->offsets_capacity, sizeof *rows->features.offsets);
        rows->features.offsets[0] = 0;
    }
    rows->features.offsets[++rows->rows] = rows->nonzeros;
}

static void put_value(struct feature_rows *rows, uint32_t column, float value) {
    if (value != 0) {
        assert(rows->nonzeros < rows->values_capacity);
        rows->features.values[rows->nonzeros] = value;
        rows->features.at[rows->nonzeros++] = column;
    }
}

static void become_dense(struct feature_rows *rows) {
    struct graph_features *features = &rows->features;
    const size_t columns = features->columns;
    const size_t count = (size_t)rows->rows * columns;
    float *values = memory_zeroed(count > 0 ? count : 1, sizeof *values);
    for (uint64_t v = 0; v < rows->rows; v++) {
        for (uint64_t e = features->offsets[v]; e < features->offsets[v + 1]; e++) {
            values[v * columns + features->at[e]] = features->values[e];
        }
    }
    free(features->values);
    free(features->at);
    free(features->offsets);
    *features = (struct graph_features){.columns = features->columns, .dense = true, .values = values};
    rows->values_capacity = count;
}

static void become_sparse(struct feature_rows *rows) {
    struct feature_rows sparse = {.features.columns = rows->features.columns};
    const size_t columns = rows->features.columns;
    make_room(&sparse, 0, rows->nonzeros, true);
    for (uint64_t v = 0; v < rows->rows; v++) {
        for (size_t c = 0; c < columns; c++) {
            put_value(&sparse, (uint32_t)c, rows->features.values[v * columns + c]);
        }
        end_row(&sparse);
    }
    feature_rows_close(rows);
    *rows = sparse;
}

void feature_rows_add(struct feature_rows *rows, const float *values) {
    const uint32_t columns = rows->features.columns;
    if (rows->features.dense) {
        make_room(rows, rows->rows * columns, columns, false);
        memcpy(&rows->features.values[rows->rows * columns], values, columns * sizeof *values);
        for (uint32_t c = 0; c < columns; c++) {
            rows->nonzeros += values[c] != 0;
        }
        rows->rows++;
        return;
    }
    make_room(rows, rows->nonzeros, columns, true);
    for (uint32_t c = 0; c < columns; c++) {
        put_value(rows, c, values[c]);
    }
    end_row(rows);
    if (rows->rows >= ROWS_MIN && 2 * rows->nonzeros > rows->rows * columns) {
        become_dense(rows);
    }
}

void feature_rows_add_listed(struct feature_rows *rows, const uint32_t *at, const double *values, uint32_t count) {
    make_room(rows, rows->nonzeros, count, true);
    for (uint32_t i = 0; i < count; i++) {
        put_value(rows, at[i], (float)values[i]);
    }
    if (count > 0 && at[count - 1] >= rows->features.columns) {
        rows->features.columns = at[count - 1] + 1;
    }
    end_row(rows);
}

/* Gives memory beyond the rows back. */
static void shrink(struct feature_rows *rows) {
    struct graph_features *features = &rows->features;
    const uint64_t values = features->dense ? rows->rows * features->columns : rows->nonzeros;
    features->values = memory_resized(features->values, values > 0 ? values : 1, sizeof *features->values);
    if (!features->dense) {
        features->at = memory_resized(features->at, values > 0 ? values : 1, sizeof *features->at);
        features->offsets = memory_resized(features->offsets, (size_t)rows->rows + 1, sizeof *features->offsets);
    }
}

void feature_rows_finish(struct feature_rows *rows, unsigned dense_part, struct graph_features *features) {
    const uint64_t all = rows->rows * rows->features.columns;
    const bool dense = all > 0 && dense_part * rows->nonzeros >= all;
    if (dense && !rows->features.dense) {
        become_dense(rows);
    } else if (!dense && rows->features.dense) {
        become_sparse(rows);
    }
    shrink(rows);
    *features = rows->features;
    *rows = (struct feature_rows){0};
}

void feature_rows_close(struct feature_rows *rows) {
    free(rows->features.values);
    free(rows->features.at);
    free(rows->features.offsets);
    *rows = (struct feature_rows){0};
}
