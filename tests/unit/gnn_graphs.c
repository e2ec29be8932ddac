/* See gnn_graphs.h. */
#include "tests/unit/gnn_graphs.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t draw(uint64_t *seed, uint32_t below) {
    return (uint32_t)(hash_mix(++*seed) % below);
}

static int pair_order(const void *one, const void *other) {
    const uint32_t *a = one;
    const uint32_t *b = other;
    return a[0] != b[0] ? (a[0] < b[0] ? -1 : 1) : (a[1] > b[1]) - (a[1] < b[1]);
}

/* Sets lists from pairs of an owner and an id, which it sorts. */
static void set_lists(struct graph_lists *lists, uint32_t vertices, uint32_t (*pairs)[2], size_t count) {
    lists->offsets = memory_zeroed(vertices + (size_t)1, sizeof *lists->offsets);
    lists->ids = memory_zeroed(count + 1, sizeof *lists->ids);
    qsort(pairs, count, sizeof *pairs, pair_order);
    uint64_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool repeated = i > 0 && memcmp(pairs[i], pairs[i - 1], sizeof *pairs) == 0;
        if (!repeated && pairs[i][0] != pairs[i][1]) {
            lists->ids[kept++] = pairs[i][1];
            lists->offsets[pairs[i][0] + 1]++;
        }
    }
    for (uint32_t v = 0; v < vertices; v++) {
        lists->offsets[v + 1] += lists->offsets[v];
    }
}

void graphs_set_edges(struct graph *graph, const uint32_t *pairs, uint32_t count, bool directed) {
    uint32_t(*sides)[2] = memory_zeroed(2 * (size_t)count + 1, sizeof *sides);
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *pair = pairs + 2 * (size_t)i;
        sides[used][0] = pair[1];
        sides[used++][1] = pair[0];
        if (!directed) {
            sides[used][0] = pair[0];
            sides[used++][1] = pair[1];
        }
    }
    graph->directed = directed;
    set_lists(&graph->in, graph->vertices, sides, used);
    for (size_t i = 0; i < used && directed; i++) {
        uint32_t to = sides[i][0];
        sides[i][0] = sides[i][1];
        sides[i][1] = to;
    }
    if (directed) {
        set_lists(&graph->out, graph->vertices, sides, used);
    }
    free(sides);
}

static void set_sparse(struct graph_features *features, uint32_t vertices, uint64_t seed) {
    uint32_t at = 0;
    features->offsets = memory_zeroed(vertices + (size_t)1, sizeof *features->offsets);
    features->at = memory_zeroed((size_t)vertices * 8 + 1, sizeof *features->at);
    for (uint32_t v = 0; v < vertices; v++) {
        uint32_t column = 0;
        for (uint32_t i = draw(&seed, 8); i > 0; i--) {
            column += draw(&seed, features->columns / 8 + 1);
            if (column < features->columns) {
                features->at[at++] = column++;
            }
        }
        features->offsets[v + 1] = at;
    }
}

static void set_features(struct graph_features *features, const struct graphs_kind *kind, uint64_t seed) {
    *features = (struct graph_features){.columns = kind->columns, .dense = kind->dense};
    if (!kind->dense) {
        set_sparse(features, kind->vertices, seed);
    }
    size_t values = kind->dense ? (size_t)kind->vertices * kind->columns : features->offsets[kind->vertices];
    features->values = memory_zeroed(values + 1, sizeof *features->values);
    for (size_t i = 0; i < values; i++) {
        features->values[i] = (float)draw(&seed, 2000) / 1000 - 1;
    }
}

static void set_classes(struct graph *graph, const struct graphs_kind *kind, uint64_t seed) {
    graph->classes = kind->classes;
    graph->labels = memory_zeroed(kind->vertices, sizeof *graph->labels);
    graph->splits = memory_zeroed(kind->vertices, sizeof *graph->splits);
    graph->class_names = memory_zeroed(kind->classes, sizeof *graph->class_names);
    for (uint32_t v = 0; v < kind->vertices; v++) {
        graph->labels[v] = (int32_t)draw(&seed, kind->classes + 1) - 1;
        graph->splits[v] = (unsigned char)(graph->labels[v] >= 0 ? draw(&seed, 4) : GRAPH_UNUSED);
    }
    for (uint32_t c = 0; c < kind->classes; c++) {
        char name[32];
        snprintf(name, sizeof name, "class %u", c);
        graph->class_names[c] = memory_string(name);
    }
}

void graphs_make(struct graph *graph, const struct graphs_kind *kind) {
    uint64_t seed = kind->seed << 32;
    uint32_t joined = kind->vertices - kind->isolated;
    uint32_t *pairs = memory_zeroed(2 * (size_t)kind->edges + 1, sizeof *pairs);
    for (uint32_t i = 0; i < kind->edges; i++) {
        uint32_t from = draw(&seed, joined);
        uint32_t to = draw(&seed, joined);
        if (draw(&seed, 100) < 70) {
            to -= to % kind->blocks;
            to += to + from % kind->blocks < joined ? from % kind->blocks : 0;
        }
        pairs[2 * i] = from;
        pairs[2 * i + 1] = to;
    }
    *graph = (struct graph){.vertices = kind->vertices};
    graphs_set_edges(graph, pairs, kind->edges, kind->directed);
    free(pairs);
    if (kind->columns > 0) {
        set_features(&graph->features, kind, seed + 1);
    }
    if (kind->columns > 0 && kind->aggregated) {
        set_features(&graph->aggregated, kind, seed + 2);
    }
    if (kind->classes > 0) {
        set_classes(graph, kind, seed + 3);
    }
}

static void close_features(struct graph_features *features) {
    free(features->values);
    free(features->offsets);
    free(features->at);
}

void graphs_close(struct graph *graph) {
    for (uint32_t c = 0; c < graph->classes; c++) {
        free(graph->class_names[c]);
    }
    free(graph->class_names);
    free(graph->labels);
    free(graph->splits);
    close_features(&graph->features);
    close_features(&graph->aggregated);
    free(graph->in.offsets);
    free(graph->in.ids);
    free(graph->out.offsets);
    free(graph->out.ids);
    *graph = (struct graph){.vertices = 0};
}
