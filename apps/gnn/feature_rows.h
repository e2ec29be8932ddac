/* Rows of features as they are read: kept sparse or dense, whichever takes less memory so far, and at the end in the
 * form whose kernels are faster. Memory stays below about twice that of the result. One thread at a time. */
#ifndef APPS_GNN_FEATURE_ROWS_H
#define APPS_GNN_FEATURE_ROWS_H

#include "apps/gnn/graph.h"

/* The share of non-zeros, one in this number, from which on features are stored dense. */
enum {
    FEATURES_DENSE_TABLE = 4, /* of files that write all values */
    FEATURES_DENSE_LISTED = 2 /* of files that list non-zeros: dense rows then take less memory, too */
};

/* Zeroed: no rows. */
struct feature_rows {
    struct graph_features features; /* `columns` may be set before the first row; it grows with sparse rows */
    uint64_t rows, nonzeros;
    size_t values_capacity, at_capacity, offsets_capacity;
};

/* Adds a row that has all columns. */
void feature_rows_add(struct feature_rows *rows, const float *values);
/* Adds a row of values[count] in the columns at[count], ascending. Values may be 0. */
void feature_rows_add_listed(struct feature_rows *rows, const uint32_t *at, const double *values, uint32_t count);
/* Moves the features to *features: dense when at least one in `dense_part` values is not 0. */
void feature_rows_finish(struct feature_rows *rows, unsigned dense_part, struct graph_features *features);
void feature_rows_close(struct feature_rows *rows);

#endif
