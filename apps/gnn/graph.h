/* A whole graph in memory, as read from its files (input.h): vertices 0..vertices-1, edges, features, labels and
 * splits. Big arrays belong to the struct. Nothing here knows of jobs. */
#ifndef APPS_GNN_GRAPH_H
#define APPS_GNN_GRAPH_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRAPH_VERTICES_MAX = INT32_MAX,
    GRAPH_FEATURES_MAX = 1 << 24, /* columns */
    GRAPH_CLASSES_MAX = 1 << 12
};

/* Lists of vertices, one for each vertex: list v is ids[offsets[v]..offsets[v + 1] - 1], ascending, none
 * twice. */
struct graph_lists {
    uint64_t *offsets; /* [vertices + 1] */
    uint32_t *ids;     /* [offsets[vertices]] */
};

/* A row of features for each vertex. Dense: values[vertices][columns], and no offsets. Sparse: row v has
 * values[offsets[v]..offsets[v + 1] - 1] in the columns `at`, ascending and without repeats. */
struct graph_features {
    uint32_t columns; /* 0: there are no features */
    bool dense;
    float *values;
    uint64_t *offsets; /* [vertices + 1]; NULL: dense */
    uint32_t *at;      /* [offsets[vertices]]; NULL: dense */
};

/* How features were scaled (scale.h). */
enum graph_scale_kind {
    GRAPH_SCALE_NONE,     /* as they are */
    GRAPH_SCALE_UNIT,     /* each vertex's to length 1 */
    GRAPH_SCALE_ROWS,     /* each vertex's divided by the sum of their magnitudes, if that is above 1 */
    GRAPH_SCALE_STANDARD, /* each column's less its mean, by its deviation, limited to +- 5; a constant one is 0 */
    GRAPH_SCALE_AUTO
};

/* Sparse features keep their zeros: a column's `centre` is 0, and its deviation the root mean square of its values that
 * are written. */
struct graph_scale {
    enum graph_scale_kind kind;
    uint32_t columns;
    float *centres, *factors; /* [columns]: x' = (x - centre) factor. NULL: not GRAPH_SCALE_STANDARD */
};

enum graph_split { GRAPH_UNUSED = 0, GRAPH_TRAIN = 1, GRAPH_VALIDATION = 2, GRAPH_TEST = 3 };

struct graph {
    uint32_t vertices;
    bool directed;
    /* in: for vertex v the vertices u with an edge from u to v. An undirected graph has each edge both ways, and no
     * `out`. An edge from a vertex to itself is left out, as models add their own. */
    struct graph_lists in, out;
    struct graph_features features;
    struct graph_features aggregated; /* by graph_aggregate; columns 0: none */
    struct graph_scale scale;
    int32_t *labels;       /* [vertices], below `classes`; -1: not known. NULL: there are no labels */
    unsigned char *splits; /* [vertices] of enum graph_split. NULL: there are no splits */
    uint32_t classes;
    char **class_names; /* [classes], as written in the input */
    /* For notes: what was left out of the edges. An undirected edge that is given both ways is repeated once. */
    uint64_t repeated_edges, own_edges;
};

/* Frees what the graph owns. A zeroed graph is empty. */
void graph_close(struct graph *graph);

/* Sets graph->in (and `out`, if directed) from pairs[count][2] of vertices below graph->vertices: from, to. Returns 0
 * or AML_ENOMEM. Takes as much memory again as the lists, while it runs. */
int graph_set_edges(struct graph *graph, const uint32_t *pairs, uint64_t count, bool directed, struct error *error);
/* Like graph_set_edges, and frees `pairs`, also on failure: pairs and lists then take at most twice the memory of
 * the lists. */
int graph_take_edges(struct graph *graph, uint32_t *pairs, uint64_t count, bool directed, struct error *error);

/* How a vertex's neighbours are averaged. */
enum graph_average {
    /* D^-1/2 (A + I) D^-1/2 with d = in-degree + 1. Kipf and Welling, ICLR 2017, equation 2. */
    GRAPH_SYMMETRIC,
    /* D^-1 A with d = in-degree; a vertex without neighbours gets zeros. Hamilton et al., NIPS 2017, algorithm 1. */
    GRAPH_MEAN
};

/* Sets graph->aggregated to the averages of all vertices' features. Stops when they take more than `limit` values (of
 * dense features vertices * columns), and leaves `aggregated` empty: returns 1 then, else 0 or AML_ENOMEM. */
int graph_aggregate(struct graph *graph, enum graph_average average, uint64_t limit, struct error *error);

#endif
