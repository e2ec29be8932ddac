/* Graphs made for tests and fuzz targets. */
#ifndef TESTS_UNIT_GNN_GRAPHS_H
#define TESTS_UNIT_GNN_GRAPHS_H

#include "apps/gnn/graph.h"

/* What a made graph has. */
struct graphs_kind {
    uint32_t vertices;
    uint32_t edges;    /* drawn: fewer are left without repeats */
    uint32_t blocks;   /* 70 % of edges are within one; vertex v is in block v % blocks */
    uint32_t isolated; /* the last so many vertices have no edges */
    bool directed;
    uint32_t columns; /* of features; 0: none */
    bool dense;
    bool aggregated; /* it has aggregated features, too: made, not computed */
    uint32_t classes;
    uint64_t seed;
};

void graphs_make(struct graph *graph, const struct graphs_kind *kind);
/* Sets the lists from pairs[count][2] of vertices: from, to. */
void graphs_set_edges(struct graph *graph, const uint32_t *pairs, uint32_t count, bool directed);
void graphs_close(struct graph *graph);

#endif
