/* Fuzzes the input of gnn: edges, features, labels and a split, each of any format. What is read must be a graph that
 * keeps graph.h's promises; what isn't must be refused with one line. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "apps/gnn/input.h"
#include "tests/fuzz/gnn_seeds.h"

#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATH_ROOM = 32, AGGREGATE_COLUMNS_MAX = 1 << 12 };

static void check_lists(const struct graph *graph, const struct graph_lists *lists) {
    FUZZ_CHECK(lists->offsets[0] == 0);
    for (uint32_t v = 0; v < graph->vertices; v++) {
        FUZZ_CHECK(lists->offsets[v] <= lists->offsets[v + 1]);
        for (uint64_t e = lists->offsets[v]; e < lists->offsets[v + 1]; e++) {
            FUZZ_CHECK(lists->ids[e] < graph->vertices && lists->ids[e] != v);
            FUZZ_CHECK(e == lists->offsets[v] || lists->ids[e] > lists->ids[e - 1]);
        }
    }
}

static void check_features(const struct graph_features *features, uint32_t vertices) {
    const uint64_t values = features->dense ? (uint64_t)vertices * features->columns : features->offsets[vertices];
    for (uint64_t i = 0; i < values; i++) {
        FUZZ_CHECK(isfinite(features->values[i]));
    }
    for (uint32_t v = 0; v < vertices && !features->dense; v++) {
        FUZZ_CHECK(features->offsets[v] <= features->offsets[v + 1]);
        for (uint64_t e = features->offsets[v]; e < features->offsets[v + 1]; e++) {
            FUZZ_CHECK(features->at[e] < features->columns);
            FUZZ_CHECK(e == features->offsets[v] || features->at[e] > features->at[e - 1]);
        }
    }
}

static void check_vertices(const struct graph *graph, bool need_labels) {
    uint64_t training = 0;
    for (uint32_t v = 0; v < graph->vertices; v++) {
        FUZZ_CHECK(graph->labels == NULL || (graph->labels[v] >= -1 && graph->labels[v] < (int64_t)graph->classes));
        FUZZ_CHECK(graph->splits == NULL || graph->splits[v] <= GRAPH_TEST);
        FUZZ_CHECK(!need_labels || graph->splits[v] == GRAPH_UNUSED || graph->labels[v] >= 0);
        training += graph->splits != NULL && graph->splits[v] == GRAPH_TRAIN;
    }
    FUZZ_CHECK(!need_labels || training >= 2);
}

static void check_graph(struct graph *graph, bool need_labels) {
    struct error error = {0};
    FUZZ_CHECK(graph->vertices > 0);
    check_lists(graph, &graph->in);
    if (graph->directed) {
        check_lists(graph, &graph->out);
        FUZZ_CHECK(graph->in.offsets[graph->vertices] == graph->out.offsets[graph->vertices]);
    }
    check_vertices(graph, need_labels);
    if (graph->features.columns == 0) {
        return;
    }
    check_features(&graph->features, graph->vertices);
    if (graph->features.columns <= AGGREGATE_COLUMNS_MAX) {
        const enum graph_average average = graph->directed ? GRAPH_MEAN : GRAPH_SYMMETRIC;
        FUZZ_CHECK(graph_aggregate(graph, average, UINT64_MAX, &error) == 0);
        check_features(&graph->aggregated, graph->vertices);
    }
}

static void check_text(const char *text) {
    FUZZ_CHECK(text[0] != '\0');
}

static void take_note(void *context, const char *text) {
    (void)context;
    check_text(text);
}

/* Takes the next part of the data into a file; an empty part is an option that isn't given. */
static int take_part(const uint8_t **data, size_t *size, char path[PATH_ROOM]) {
    path[0] = '\0';
    if (*size < 2) {
        return -1;
    }
    size_t length = (size_t)(*data)[0] | (size_t)(*data)[1] << 8;
    *data += 2;
    *size -= 2;
    length = length < *size ? length : *size;
    if (length == 0) {
        return -1;
    }
    int file = memfd_create("gnn", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, *data, length) == (ssize_t)length);
    snprintf(path, PATH_ROOM, "/proc/self/fd/%d", file);
    *data += length;
    *size -= length;
    return file;
}

static const char *option(const char *path) {
    return *path != '\0' ? path : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { PARTS = 6 };
    int files[PARTS];
    char paths[PARTS][PATH_ROOM];
    char split[3 * PATH_ROOM];
    if (size == 0) {
        return 0;
    }
    const uint8_t options = data[0];
    data++;
    size--;
    for (unsigned p = 0; p < PARTS; p++) {
        files[p] = take_part(&data, &size, paths[p]);
    }
    const bool three = (options & GNN_SEED_THREE) != 0;
    snprintf(split, sizeof split, three ? "%s,%s,%s" : "%s", paths[3], paths[4], paths[5]);
    const struct graph_input input = {.edges = option(paths[0]),
                                      .features = option(paths[1]),
                                      .labels = option(paths[2]),
                                      .split = (options & GNN_SEED_CHOICE) == 0 ? option(split) : NULL,
                                      .directed = (options & GNN_SEED_DIRECTED) != 0,
                                      .train_per_class = (options & GNN_SEED_CHOICE) != 0,
                                      .seed = options};
    const bool need_labels = (options & GNN_SEED_PREDICT) == 0;
    struct graph graph;
    struct error error = {0};
    int result = graph_input_read(&input, need_labels, &graph, take_note, NULL, &error);
    if (result == 0) {
        FUZZ_CHECK(error.code == 0);
        check_graph(&graph, need_labels);
        graph_close(&graph);
    } else {
        FUZZ_CHECK(result == AML_EINPUT && error.code == result);
        check_text(error.text);
    }
    for (unsigned p = 0; p < PARTS; p++) {
        if (files[p] >= 0) {
            close(files[p]);
        }
    }
    return 0;
}
