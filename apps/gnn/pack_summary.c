/* The summary of a packed graph: see pack.h. */
#include "agileml/base/memory.h"
#include "apps/gnn/pack.h"
#include "apps/gnn/scale.h"

#include <stdlib.h>

enum { SPLITS = GRAPH_TEST + 1 };

void pack_summary_close(struct pack_summary *summary) {
    for (uint32_t c = 0; c < summary->classes; c++) {
        free(summary->class_names[c]);
    }
    free(summary->class_names);
    free(summary->class_counts);
    graph_scale_close(&summary->scale);
    *summary = (struct pack_summary){.graph = 0};
}

static void summarize_classes(const struct graph *graph, struct pack_summary *summary) {
    uint64_t sums[SPLITS] = {0};
    summary->classes = graph->classes;
    summary->class_counts = memory_zeroed((size_t)graph->classes * SPLITS + 1, sizeof *summary->class_counts);
    summary->class_names = memory_zeroed(graph->classes + (size_t)1, sizeof *summary->class_names);
    for (uint32_t c = 0; c < graph->classes; c++) {
        summary->class_names[c] = memory_string(graph->class_names[c]);
    }
    for (uint32_t v = 0; v < graph->vertices && graph->labels != NULL; v++) {
        unsigned split = graph->splits != NULL ? graph->splits[v] : GRAPH_UNUSED;
        if (graph->labels[v] >= 0) {
            summary->class_counts[SPLITS * (size_t)graph->labels[v] + split]++;
            sums[split]++;
        }
    }
    summary->train = sums[GRAPH_TRAIN];
    summary->validation = sums[GRAPH_VALIDATION];
    summary->test = sums[GRAPH_TEST];
}

static uint64_t values_of(const struct graph_features *features, uint32_t vertices) {
    return features->dense ? (uint64_t)vertices * features->columns : features->offsets[vertices];
}

void pack_summarize(const struct graph *graph, const struct graph_partition *partition, unsigned carried,
                    enum graph_average average, struct pack_summary *summary) {
    const struct graph_features *features = &graph->features;
    const struct graph_features *aggregated = &graph->aggregated;
    *summary = (struct pack_summary){.vertices = graph->vertices,
                                     .intervals = partition->intervals,
                                     .directed = graph->directed,
                                     .average = average,
                                     .entries = graph->in.offsets[graph->vertices],
                                     .cut = partition->cut,
                                     .ghosts = partition->ghosts};
    if ((carried & INTERVAL_FEATURES) != 0 && features->columns > 0) {
        summary->carried |= INTERVAL_FEATURES;
        summary->columns = features->columns;
        summary->dense = features->dense;
        summary->values = values_of(features, graph->vertices);
    }
    if ((carried & INTERVAL_AGGREGATED) != 0 && aggregated->columns > 0) {
        summary->carried |= INTERVAL_AGGREGATED;
        summary->columns = aggregated->columns;
        summary->aggregated_dense = aggregated->dense;
        summary->aggregated_values = values_of(aggregated, graph->vertices);
    }
    graph_scale_copy(&graph->scale, &summary->scale);
    summarize_classes(graph, summary);
}

struct interval_limits pack_limits(const struct pack_summary *summary) {
    return (struct interval_limits){.vertices = summary->vertices,
                                    .intervals = summary->intervals,
                                    .classes = summary->classes,
                                    .columns = summary->columns,
                                    .directed = summary->directed,
                                    .carried = summary->carried,
                                    .dense = summary->dense,
                                    .aggregated_dense = summary->aggregated_dense};
}
