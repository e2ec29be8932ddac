/* See source.h. */
#include "apps/gnn/source.h"

#include "apps/app.h"
#include "apps/gnn/scale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    INTERVALS = 64,      /* of small graphs */
    INTERVAL_LEAST = 64, /* vertices of an interval, unless there are fewer */
    INTERVAL_MOST = 1024
};

/* What the exchange of a vertex's rows costs, in products of a feature: about 190 ns against 1 ns. */
static const double EXCHANGE = 190;

struct aml_option *gnn_source_options(struct gnn_source *source, struct aml_option *options) {
    source->aggregate = "auto";
    source->scale = "auto";
    struct graph_input *input = &source->input;
    const struct aml_option own[GNN_SOURCE_OPTIONS] = {
        {"edges", "FILE", AML_OPTION_STRING, &input->edges, 0, 0,
         "pairs of vertices, which count from 0: text in any separator, or .npy (docs/gnn.md)"},
        {"features", "FILE", AML_OPTION_STRING, &input->features, 0, 0,
         "a line for each vertex: libsvm (with labels), csv; or .npy"},
        {"labels", "FILE", AML_OPTION_STRING, &input->labels, 0, 0, "a label for each vertex: lines, or .npy"},
        {"split", "FILES", AML_OPTION_STRING, &input->split, 0, 0,
         "vertices for training, validation and test: a file of three lines, or three files or masks with commas"},
        {"train-per-class", "N", AML_OPTION_INTEGER, &input->train_per_class, 0, 1 << 30,
         "instead of --split: train on N vertices of each class, chosen by --seed"},
        {"validation-per-class", "N", AML_OPTION_INTEGER, &input->validation_per_class, 0, 1 << 30,
         "and validate on N others; the rest are for the test"},
        {"directed", NULL, AML_OPTION_FLAG, &input->directed, 0, 0, "an edge `u v` is only from u to v"},
        {"scale", "HOW", AML_OPTION_WORD, &source->scale, 0, 0,
         "of features: none, unit (a vertex's to length 1), rows (divided by their sum), standard (columns to mean 0, "
         "deviation 1); auto: by the data"},
        {"graph", "FOLDER", AML_OPTION_STRING, &source->packed, 0, 0,
         "a packed graph (gnn --pack), instead of the files above"},
        {"aggregate", "HOW", AML_OPTION_WORD, &source->aggregate, 0, 0,
         "average neighbours' features once, or in each iteration what the first layer makes of them; auto: what "
         "costs less"},
        {"interval", "N", AML_OPTION_INTEGER, &source->interval, 0, 1 << 20,
         "vertices of an interval, the piece that a thread works on; 0: by the graph, 64 to 1024"},
    };
    memcpy(options, own, sizeof own);
    return options + GNN_SOURCE_OPTIONS;
}

size_t gnn_source_files(struct gnn_source *source, struct app_file files[GNN_SOURCE_FILES]) {
    const struct graph_input *input = &source->input;
    source->splits = (struct aml_strings){.count = input->split != NULL ? 1 : 0, .values = {input->split}};
    files[0] = (struct app_file){.option = "edges", .path = input->edges};
    files[1] = (struct app_file){.option = "features", .path = input->features};
    files[2] = (struct app_file){.option = "labels", .path = input->labels};
    files[3] = (struct app_file){.option = "graph", .path = source->packed, .folders = true};
    files[4] = (struct app_file){.option = "split", .values = &source->splits};
    return GNN_SOURCE_FILES;
}

/* ---- Options that exclude each other ---- */

static int check_packed(const struct gnn_source *source, struct error *error) {
    const struct graph_input *input = &source->input;
    const struct {
        const char *name;
        bool given;
    } options[] = {
        {"edges", input->edges != NULL},
        {"features", input->features != NULL},
        {"labels", input->labels != NULL},
        {"split", input->split != NULL},
        {"train-per-class", input->train_per_class > 0},
        {"validation-per-class", input->validation_per_class > 0},
        {"directed", input->directed},
        {"scale", strcmp(source->scale, "auto") != 0},
        {"interval", source->interval > 0},
        {"aggregate", strcmp(source->aggregate, "auto") != 0},
    };
    for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
        if (options[o].given) {
            return error_set(error, AML_EINPUT, "--%s: expected without --graph, as the graph was packed with it",
                             options[o].name);
        }
    }
    return 0;
}

enum aggregate { AGGREGATE_AUTO, AGGREGATE_ONCE, AGGREGATE_EACH };

static const char *const aggregates[] = {"auto", "once", "each", NULL};

static int check_files(const struct gnn_source *source, enum gnn_kind kind, struct error *error) {
    int scale = app_choice("scale", source->scale, graph_scale_names, error);
    int choice = scale < 0 ? scale : app_choice("aggregate", source->aggregate, aggregates, error);
    if (choice < 0) {
        return choice;
    }
    if (kind == GNN_GAT && choice == AGGREGATE_ONCE) {
        return error_set(error, AML_EINPUT,
                         "--aggregate once: expected --model gcn or sage: gat's averages change as it learns");
    }
    if (source->input.edges == NULL || source->input.features == NULL) {
        return error_set(error, AML_EINPUT, "--%s: expected --graph, or --edges and --features",
                         source->input.edges == NULL ? "edges" : "features");
    }
    return 0;
}

int gnn_source_check(const struct gnn_source *source, enum gnn_kind kind, struct error *error) {
    return source->packed != NULL ? check_packed(source, error) : check_files(source, kind, error);
}

/* ---- Reading ---- */

/* Averages the features, if that makes iterations cheaper: fewer products of features than what the first layer's
 * exchange and gathering cost otherwise. */
static int choose_aggregate(struct gnn_source *source, enum gnn_kind kind, struct error *error) {
    struct graph *graph = &source->graph;
    int choice = app_choice("aggregate", source->aggregate, aggregates, error);
    if (choice < 0 || choice == AGGREGATE_EACH || kind == GNN_GAT) {
        return choice < 0 ? choice : 0;
    }
    double entries = (double)graph->in.offsets[graph->vertices];
    double values = graph->features.dense ? (double)graph->vertices * graph->features.columns
                                          : (double)graph->features.offsets[graph->vertices];
    double limit = values + 2 * entries + EXCHANGE * graph->vertices;
    int result = graph_aggregate(graph, kind == GNN_GCN ? GRAPH_SYMMETRIC : GRAPH_MEAN,
                                 choice == AGGREGATE_ONCE ? UINT64_MAX : (uint64_t)limit, error);
    source->once = result == 0;
    return result < 0 ? result : 0;
}

/* Scales the features: by the scale that is given, or by what --scale names. */
static int scale_features(struct gnn_source *source, struct error *error) {
    struct graph *graph = &source->graph;
    if (source->given_scale != NULL) {
        if (source->given_scale->columns == graph->features.columns) {
            graph_scale_apply(source->given_scale, &graph->features, graph->vertices);
        }
        return 0;
    }
    int kind = app_choice("scale", source->scale, graph_scale_names, error);
    if (kind >= 0) {
        graph_scale_find(&graph->scale, (enum graph_scale_kind)kind, &graph->features, graph->vertices);
        graph_scale_apply(&graph->scale, &graph->features, graph->vertices);
    }
    return kind < 0 ? kind : 0;
}

static void divided(void *context, double done) {
    const struct gnn_listener *listener = context;
    if (listener->progress != NULL) {
        listener->progress(listener->context, "dividing the graph", done);
    }
}

static uint32_t intervals_of(const struct gnn_source *source) {
    uint32_t vertices = source->graph.vertices;
    uint64_t size = (uint64_t)source->interval;
    if (size == 0) {
        size = vertices / INTERVALS;
        size = size < INTERVAL_LEAST ? INTERVAL_LEAST : size > INTERVAL_MOST ? INTERVAL_MOST : size;
    }
    return (uint32_t)((vertices + size - 1) / size);
}

/* Whether an interval fits an item: its bytes, and the rows that the deepest network's item names. */
static bool fits(const struct interval_bytes *bytes, bool single) {
    struct interval interval;
    if (bytes->size > AML_ITEM_BYTES_MAX) {
        return false;
    }
    interval_view(bytes->bytes, &interval);
    return single || (size_t)interval.own + interval.ghosts <= AML_VARIED_ROWS_MAX / (2 * GNN_LAYERS_MAX);
}

/* Adds an interval to the partition's figures. */
static void count_outside(const struct interval *interval, struct graph_partition *partition) {
    uint32_t entries = interval->in.offsets[interval->own];
    partition->ghosts += interval->ghosts;
    for (uint32_t e = 0; e < entries; e++) {
        uint32_t id =
            interval->in.wide ? ((const uint32_t *)interval->in.ids)[e] : ((const uint16_t *)interval->in.ids)[e];
        partition->cut += id >= interval->own ? 1 : 0;
    }
}

/* Splits intervals until each fits an item, and counts the cut anew. */
static int fit_intervals(struct gnn_source *source, enum gnn_kind kind, struct error *error) {
    struct graph_partition *partition = &source->partition;
    struct interval_bytes bytes = {NULL, 0, 0};
    int result = 0;
    partition->cut = partition->ghosts = 0;
    for (uint32_t k = 0; k < partition->intervals && result == 0;) {
        result = interval_encode(&source->graph, partition, k, gnn_source_carried(kind, source->once), &bytes, error);
        bool single = partition->firsts[k + 1] - partition->firsts[k] == 1;
        if (result == 0 && fits(&bytes, single)) {
            struct interval interval;
            interval_view(bytes.bytes, &interval);
            count_outside(&interval, partition);
            k++;
        } else if (result == 0 && single) {
            uint32_t vertex = partition->order[partition->firsts[k]];
            result = error_set(error, AML_EINPUT,
                               "vertex %u: its features and neighbours take %zu bytes, expected at most %d", vertex,
                               bytes.size, AML_ITEM_BYTES_MAX);
        } else if (result == 0) {
            result = graph_partition_split(partition, k, error);
        }
    }
    free(bytes.bytes);
    return result;
}

static int open_files(struct gnn_source *source, enum gnn_kind kind, struct gnn_listener *listener,
                      struct error *error) {
    int result =
        graph_input_read(&source->input, !source->unlabelled, &source->graph, listener->note, listener->context, error);
    if (result != 0) {
        return result;
    }
    source->held = true;
    result = scale_features(source, error);
    result = result != 0 ? result : choose_aggregate(source, kind, error);
    result = result != 0 ? result
                         : graph_partition_make(&source->graph, intervals_of(source), &source->partition, divided,
                                                listener, error);
    result = result != 0 ? result : fit_intervals(source, kind, error);
    if (result == 0) {
        pack_summarize(&source->graph, &source->partition, gnn_source_carried(kind, source->once),
                       kind == GNN_SAGE ? GRAPH_MEAN : GRAPH_SYMMETRIC, &source->summary);
    }
    return result;
}

static int open_packed(struct gnn_source *source, enum gnn_kind kind, struct error *error) {
    static const char *const names[] = {[GNN_GCN] = "gcn", [GNN_GAT] = "gat", [GNN_SAGE] = "sage"};
    int result = pack_open(source->packed, &source->summary, error);
    if (result != 0) {
        return result;
    }
    const struct pack_summary *summary = &source->summary;
    bool averaged = (summary->carried & INTERVAL_AGGREGATED) != 0;
    enum graph_average average = kind == GNN_SAGE ? GRAPH_MEAN : GRAPH_SYMMETRIC;
    source->once = averaged && kind != GNN_GAT && summary->average == average;
    unsigned needed = gnn_source_carried(kind, source->once);
    return (summary->carried & needed) == needed
               ? 0
               : error_set(error, AML_EINPUT,
                           "%s: the graph was packed for --model %s, expected --model %s (gnn --pack --model %s, or "
                           "--aggregate each for any)",
                           source->packed, summary->average == GRAPH_MEAN ? "sage" : "gcn", names[kind], names[kind]);
}

int gnn_source_open(struct gnn_source *source, enum gnn_kind kind, struct gnn_listener *listener, struct error *error) {
    source->once = false;
    int result = gnn_source_check(source, kind, error);
    if (result != 0) {
        return result;
    }
    result = source->packed != NULL ? open_packed(source, kind, error) : open_files(source, kind, listener, error);
    if (result != 0) {
        gnn_source_close(source);
    }
    return result;
}

unsigned gnn_source_carried(enum gnn_kind kind, bool once) {
    return !once ? INTERVAL_FEATURES : kind == GNN_SAGE ? INTERVAL_FEATURES | INTERVAL_AGGREGATED : INTERVAL_AGGREGATED;
}

int gnn_source_each(const struct gnn_source *source, enum gnn_kind kind,
                    int (*each)(void *context, const void *bytes, size_t size), void *context, struct error *error) {
    struct interval_bytes bytes = {NULL, 0, 0};
    int result = 0;
    for (uint32_t k = 0; k < source->partition.intervals && result == 0; k++) {
        result = interval_encode(&source->graph, &source->partition, k, gnn_source_carried(kind, source->once), &bytes,
                                 error);
        result = result != 0 ? result : each(context, bytes.bytes, bytes.size);
    }
    free(bytes.bytes);
    return result;
}

int gnn_source_parts(const struct gnn_source *source, int (*each)(void *context, const char *path, struct error *error),
                     void *context, struct error *error) {
    int result = 0;
    for (uint32_t part = 0; part < source->summary.parts && result == 0; part++) {
        char path[NEW_FILE_PATH_MAX];
        result = pack_part_path(path, source->packed, part, error);
        result = result != 0 ? result : each(context, path, error);
    }
    return result;
}

void gnn_source_release(struct gnn_source *source) {
    if (source->held) {
        graph_close(&source->graph);
        graph_partition_close(&source->partition);
        source->held = false;
    }
}

void gnn_source_close(struct gnn_source *source) {
    gnn_source_release(source);
    pack_summary_close(&source->summary);
}
