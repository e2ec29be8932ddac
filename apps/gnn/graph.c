/* See graph.h. Lists come from pairs by counting sorts. A list made by going over vertices in ascending order is itself
 * ascending, so the transpose of unordered lists has ordered ones. */
#include "apps/gnn/graph.h"
#include "apps/gnn/scale.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void close_lists(struct graph_lists *lists) {
    free(lists->offsets);
    free(lists->ids);
    *lists = (struct graph_lists){0};
}

static void close_features(struct graph_features *features) {
    free(features->values);
    free(features->offsets);
    free(features->at);
    *features = (struct graph_features){0};
}

void graph_close(struct graph *graph) {
    close_lists(&graph->in);
    close_lists(&graph->out);
    close_features(&graph->features);
    close_features(&graph->aggregated);
    graph_scale_close(&graph->scale);
    free(graph->labels);
    free(graph->splits);
    for (uint32_t c = 0; c < graph->classes && graph->class_names != NULL; c++) {
        free(graph->class_names[c]);
    }
    free(graph->class_names);
    *graph = (struct graph){0};
}

/* Allocates lists whose lengths are at offsets[2..vertices + 1], and moves each length to its list's place: then
 * offsets[v + 1] is where list v begins, and moves to its end while the list is filled. */
static int begin_lists(struct graph_lists *lists, uint32_t vertices, struct error *error) {
    for (uint64_t v = 2; v <= (uint64_t)vertices + 1; v++) {
        lists->offsets[v] += lists->offsets[v - 1];
    }
    uint64_t entries = lists->offsets[(uint64_t)vertices + 1];
    lists->ids = malloc((entries > 0 ? entries : 1) * sizeof *lists->ids);
    return lists->ids != NULL
               ? 0
               : error_set(error, AML_ENOMEM, "no memory for a graph of %llu edges", (unsigned long long)entries);
}

/* Allocates the lists' offsets: one more than they have in the end. */
static int begin_offsets(struct graph_lists *lists, uint32_t vertices, struct error *error) {
    *lists = (struct graph_lists){.offsets = calloc((size_t)vertices + 2, sizeof *lists->offsets)};
    return lists->offsets != NULL ? 0 : error_set(error, AML_ENOMEM, "no memory for a graph of %u vertices", vertices);
}

/* Makes lists of pairs by their first vertex, and by their second if `both`. Leaves out edges from a vertex to itself.
 * The lists have any order. */
static int lists_of_pairs(struct graph_lists *lists, uint32_t vertices, const uint32_t *pairs, uint64_t count,
                          bool both, struct error *error) {
    int code = begin_offsets(lists, vertices, error);
    for (uint64_t e = 0; e < count && code == 0; e++) {
        const uint32_t from = pairs[2 * e];
        const uint32_t to = pairs[2 * e + 1];
        assert(from < vertices && to < vertices);
        lists->offsets[(uint64_t)from + 2] += from != to;
        lists->offsets[(uint64_t)to + 2] += both && from != to;
    }
    code = code != 0 ? code : begin_lists(lists, vertices, error);
    for (uint64_t e = 0; e < count && code == 0; e++) {
        const uint32_t from = pairs[2 * e];
        const uint32_t to = pairs[2 * e + 1];
        if (from != to) {
            lists->ids[lists->offsets[(uint64_t)from + 1]++] = to;
        }
        if (from != to && both) {
            lists->ids[lists->offsets[(uint64_t)to + 1]++] = from;
        }
    }
    return code;
}

/* Makes the lists in which v has u where u has v in `lists`. They are ascending. `symmetric`: each list gets the length
 * that it has. */
static int transpose(const struct graph_lists *lists, uint32_t vertices, bool symmetric, struct graph_lists *other,
                     struct error *error) {
    const uint64_t entries = lists->offsets[vertices];
    int code = begin_offsets(other, vertices, error);
    for (uint64_t v = 0; v < vertices && code == 0 && symmetric; v++) {
        other->offsets[v + 2] = lists->offsets[v + 1] - lists->offsets[v];
    }
    for (uint64_t e = 0; e < entries && code == 0 && !symmetric; e++) {
        other->offsets[(uint64_t)lists->ids[e] + 2]++;
    }
    code = code != 0 ? code : begin_lists(other, vertices, error);
    for (uint32_t v = 0; v < vertices && code == 0; v++) {
        for (uint64_t e = lists->offsets[v]; e < lists->offsets[v + 1]; e++) {
            other->ids[other->offsets[(uint64_t)lists->ids[e] + 1]++] = v;
        }
    }
    return code;
}

/* Takes repeats out of ascending lists. Returns their number. */
static uint64_t drop_repeats(struct graph_lists *lists, uint32_t vertices) {
    uint64_t kept = 0;
    uint64_t begin = 0;
    for (uint32_t v = 0; v < vertices; v++) {
        const uint64_t end = lists->offsets[v + 1];
        const uint64_t first = kept;
        for (uint64_t e = begin; e < end; e++) {
            if (kept == first || lists->ids[kept - 1] != lists->ids[e]) {
                lists->ids[kept++] = lists->ids[e];
            }
        }
        lists->offsets[v + 1] = kept;
        begin = end;
    }
    if (kept < begin) {
        uint32_t *smaller = realloc(lists->ids, (kept > 0 ? kept : 1) * sizeof *lists->ids);
        lists->ids = smaller != NULL ? smaller : lists->ids;
    }
    return begin - kept;
}

/* Replaces the unordered lists of all edges by graph->in and `out`. */
static int finish_lists(struct graph *graph, struct graph_lists *unordered, bool directed, struct error *error) {
    int code = transpose(unordered, graph->vertices, !directed, &graph->in, error);
    close_lists(unordered);
    if (code == 0) {
        graph->repeated_edges = drop_repeats(&graph->in, graph->vertices) / (directed ? 1 : 2);
    }
    code = code == 0 && directed ? transpose(&graph->in, graph->vertices, false, &graph->out, error) : code;
    if (code != 0) {
        close_lists(&graph->in);
        close_lists(&graph->out);
    }
    return code;
}

static uint64_t count_own_edges(const uint32_t *pairs, uint64_t count) {
    uint64_t own = 0;
    for (uint64_t e = 0; e < count; e++) {
        own += pairs[2 * e] == pairs[2 * e + 1];
    }
    return own;
}

static void begin_edges(struct graph *graph, const uint32_t *pairs, uint64_t count, bool directed) {
    assert(graph->in.offsets == NULL && graph->out.offsets == NULL);
    graph->directed = directed;
    graph->own_edges = count_own_edges(pairs, count);
}

int graph_set_edges(struct graph *graph, const uint32_t *pairs, uint64_t count, bool directed, struct error *error) {
    struct graph_lists unordered;
    begin_edges(graph, pairs, count, directed);
    int code = lists_of_pairs(&unordered, graph->vertices, pairs, count, !directed, error);
    if (code != 0) {
        close_lists(&unordered);
        return code;
    }
    return finish_lists(graph, &unordered, directed, error);
}

int graph_take_edges(struct graph *graph, uint32_t *pairs, uint64_t count, bool directed, struct error *error) {
    struct graph_lists unordered;
    begin_edges(graph, pairs, count, directed);
    int code = lists_of_pairs(&unordered, graph->vertices, pairs, count, !directed, error);
    free(pairs);
    if (code != 0) {
        close_lists(&unordered);
        return code;
    }
    return finish_lists(graph, &unordered, directed, error);
}
