/* An interval as bytes: what an item of the job carries, and what packed parts contain. Everything that the tasks of an
 * interval need but rows of tables: the lists of neighbours, features, labels and splits.
 *
 * In an interval vertices have *local* numbers: its own vertices 0..own-1 in the order of their places, then its
 * ghosts, the vertices elsewhere that its lists name, by ascending place. A vertex's key in tables is its place
 * (partition.h). */
#ifndef APPS_GNN_INTERVAL_H
#define APPS_GNN_INTERVAL_H

#include "apps/gnn/graph.h"
#include "apps/gnn/partition.h"
#include "apps/nn/graph.h"

struct interval {
    uint32_t number; /* from 0 */
    uint32_t first;  /* the place of own vertex 0 */
    uint32_t own, ghosts;
    const uint32_t *ids;          /* [own]: the vertices' numbers in the input */
    const uint32_t *ghost_places; /* [ghosts] */
    /* Lists of the own vertices, ascending by local number; of an undirected graph both are the same. */
    struct nn_lists in, out;
    const int32_t *labels;       /* [own]; -1: not known */
    const unsigned char *splits; /* [own]; GRAPH_UNUSED for a vertex whose label is not known */
    /* The features as read, and aggregated (graph_aggregate). `columns` 0: the interval has none of these. */
    struct nn_features features, aggregated;
};

/* What an interval carries of the graph's features. */
enum { INTERVAL_FEATURES = 1, INTERVAL_AGGREGATED = 2 };

/* Bytes of an interval in a buffer that grows. */
struct interval_bytes {
    unsigned char *bytes; /* [size], freed by the caller */
    size_t size, room;
};

/* Encodes interval k into *bytes, which it overwrites. Of an interval that takes more than AML_ITEM_BYTES_MAX sets only
 * bytes->size, to that or to a lower bound: the caller splits the interval (graph_partition_split). Returns 0 or
 * AML_ENOMEM. */
int interval_encode(const struct graph *graph, const struct graph_partition *partition, uint32_t k, unsigned carried,
                    struct interval_bytes *bytes, struct error *error);

/* What all intervals of a graph have in common, for checks. */
struct interval_limits {
    uint32_t vertices, intervals, classes, columns;
    bool directed;
    unsigned carried;
    bool dense, aggregated_dense; /* 0, if they are not carried */
};

/* Checks bytes from a file: every count, list, column, label and number is in its range, floats are finite. Returns 0,
 * or AML_EINPUT with one line of what is wrong. Bytes that pass can be used with interval_view. `bytes` are aligned to
 * 4 bytes. */
int interval_check(const void *bytes, size_t size, const struct interval_limits *limits, struct error *error);

/* Sets the view of checked bytes, which are aligned to 4 bytes. Copies nothing. */
void interval_view(const void *bytes, struct interval *interval);

#endif
