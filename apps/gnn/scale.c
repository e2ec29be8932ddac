/* See scale.h. */
#include "apps/gnn/scale.h"

#include "agileml/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const graph_scale_names[] = {"none", "unit", "rows", "standard", "auto", NULL};

static const float LIMIT = 5;      /* of standardized values */
static const double LEAST = 1e-30; /* a column that deviates less is constant: its factor would not be finite */

static uint64_t count_of(const struct graph_features *features, uint32_t vertices) {
    return features->dense ? (uint64_t)vertices * features->columns : features->offsets[vertices];
}

static uint32_t column_of(const struct graph_features *features, uint64_t i) {
    return features->dense ? (uint32_t)(i % features->columns) : features->at[i];
}

/* A column's values. */
struct column {
    double count, sum, squares; /* squares: of distances from `sum` / `count` once that is known */
};

/* Sets the centres and factors, which graph_scale_close frees. */
static void measure_open(struct graph_scale *scale, const struct graph_features *features, uint32_t vertices) {
    scale->centres = memory_zeroed((size_t)scale->columns + 1, sizeof *scale->centres);
    scale->factors = memory_zeroed((size_t)scale->columns + 1, sizeof *scale->factors);
    struct column *columns = memory_zeroed((size_t)scale->columns + 1, sizeof *columns);
    uint64_t count = count_of(features, vertices);
    for (uint64_t i = 0; i < count; i++) {
        struct column *column = &columns[column_of(features, i)];
        column->count++;
        column->sum += (double)features->values[i];
    }
    for (uint32_t c = 0; c < scale->columns; c++) {
        scale->centres[c] = features->dense ? (float)(columns[c].sum / columns[c].count) : 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint32_t c = column_of(features, i);
        double distance = (double)features->values[i] - (double)scale->centres[c];
        columns[c].squares += distance * distance;
    }
    for (uint32_t c = 0; c < scale->columns; c++) {
        double deviation = columns[c].count > 0 ? sqrt(columns[c].squares / columns[c].count) : 0;
        bool constant = !(deviation > 1e-6 * fabs((double)scale->centres[c])) || deviation < LEAST;
        scale->factors[c] = constant ? 0 : (float)(1 / deviation);
    }
    free(columns);
}

/* Columns of very different sizes, or with negative values, are no counts or words. */
static enum graph_scale_kind choose(const struct graph_features *features, uint32_t vertices) {
    static const double SIMILAR = 100; /* between the sizes of columns */
    struct graph_scale scale = {.columns = features->columns};
    bool counts = !features->dense;
    double least = INFINITY;
    double most = 0;
    for (uint64_t i = 0; counts && i < features->offsets[vertices]; i++) {
        counts = features->values[i] >= 0;
    }
    if (counts) {
        measure_open(&scale, features, vertices);
        for (uint32_t c = 0; c < scale.columns; c++) {
            if (scale.factors[c] > 0) {
                least = fmin(least, 1 / (double)scale.factors[c]);
                most = fmax(most, 1 / (double)scale.factors[c]);
            }
        }
        graph_scale_close(&scale);
    }
    return counts && most <= SIMILAR * least ? GRAPH_SCALE_UNIT : GRAPH_SCALE_STANDARD;
}

void graph_scale_find(struct graph_scale *scale, enum graph_scale_kind kind, const struct graph_features *features,
                      uint32_t vertices) {
    kind = kind == GRAPH_SCALE_AUTO ? choose(features, vertices) : kind;
    *scale = (struct graph_scale){.kind = kind, .columns = features->columns};
    if (kind == GRAPH_SCALE_STANDARD) {
        measure_open(scale, features, vertices);
    }
}

static void scale_row(float *values, uint64_t count, enum graph_scale_kind kind) {
    double sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        double value = (double)values[i];
        sum += kind == GRAPH_SCALE_UNIT ? value * value : fabs(value);
    }
    double size = kind == GRAPH_SCALE_UNIT ? sqrt(sum) : fmax(sum, 1);
    for (uint64_t i = 0; i < count && size > 0; i++) {
        values[i] = (float)((double)values[i] / size);
    }
}

static bool has_centres(const struct graph_scale *scale) {
    bool has = false;
    for (uint32_t c = 0; scale->kind == GRAPH_SCALE_STANDARD && c < scale->columns && !has; c++) {
        has = scale->centres[c] < 0 || scale->centres[c] > 0;
    }
    return has;
}

static void become_dense(struct graph_features *features, uint32_t vertices) {
    const size_t columns = features->columns;
    float *values = memory_zeroed(vertices * columns + 1, sizeof *values);
    for (uint32_t v = 0; v < vertices; v++) {
        for (uint64_t i = features->offsets[v]; i < features->offsets[v + 1]; i++) {
            values[v * columns + features->at[i]] = features->values[i];
        }
    }
    free(features->values);
    free(features->offsets);
    free(features->at);
    *features = (struct graph_features){.columns = features->columns, .dense = true, .values = values};
}

void graph_scale_apply(const struct graph_scale *scale, struct graph_features *features, uint32_t vertices) {
    if (!features->dense && has_centres(scale)) {
        become_dense(features, vertices); /* the scale is of dense features: a zero becomes another value */
    }
    if (scale->kind == GRAPH_SCALE_ROWS || scale->kind == GRAPH_SCALE_UNIT) {
        for (uint32_t v = 0; v < vertices; v++) {
            uint64_t first = features->dense ? (uint64_t)v * features->columns : features->offsets[v];
            uint64_t end = features->dense ? first + features->columns : features->offsets[v + 1];
            scale_row(features->values + first, end - first, scale->kind);
        }
    } else if (scale->kind == GRAPH_SCALE_STANDARD) {
        uint64_t count = count_of(features, vertices);
        for (uint64_t i = 0; i < count; i++) {
            uint32_t c = column_of(features, i);
            float value = (features->values[i] - scale->centres[c]) * scale->factors[c];
            features->values[i] = value > LIMIT ? LIMIT : value < -LIMIT ? -LIMIT : value;
        }
    }
}

bool graph_scale_equal(const struct graph_scale *one, const struct graph_scale *other) {
    size_t bytes = one->columns * sizeof *one->centres;
    return one->kind == other->kind && one->columns == other->columns &&
           (one->kind != GRAPH_SCALE_STANDARD ||
            (memcmp(one->centres, other->centres, bytes) == 0 && memcmp(one->factors, other->factors, bytes) == 0));
}

void graph_scale_copy(const struct graph_scale *scale, struct graph_scale *to) {
    size_t bytes = scale->columns * sizeof *scale->centres;
    *to = *scale;
    if (scale->centres != NULL) {
        to->centres = memory_resized(NULL, scale->columns + (size_t)1, sizeof *to->centres);
        to->factors = memory_resized(NULL, scale->columns + (size_t)1, sizeof *to->factors);
        memcpy(to->centres, scale->centres, bytes);
        memcpy(to->factors, scale->factors, bytes);
    }
}

void graph_scale_close(struct graph_scale *scale) {
    free(scale->centres);
    free(scale->factors);
    *scale = (struct graph_scale){0};
}
