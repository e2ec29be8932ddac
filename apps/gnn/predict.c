/* See predict.h. The whole graph is in memory, and computed in one thread. */
#include "apps/gnn/predict.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "apps/gnn/local.h"
#include "apps/gnn/model.h"
#include "apps/gnn/scale.h"
#include "apps/gnn/source.h"
#include "apps/nn/layers.h"
#include "apps/tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct prediction {
    const char *model_path;
    struct gnn_source source;
    bool probabilities;
    struct tool_output out;
    struct gnn_model model;
    struct gnn_local local;
    float *logits;   /* [vertices][out_pitch of the last layer] */
    int32_t *labels; /* [vertices]: of the model's classes; -1: not known */
};

static void write_note(void *context, const char *text) {
    (void)context;
    log_info("%s", text);
}

static int add_interval(void *context, const void *bytes, size_t size) {
    struct prediction *prediction = context;
    gnn_local_add(&prediction->local, bytes, size);
    return 0;
}

static int read_part(void *context, const char *path, struct error *error) {
    struct prediction *prediction = context;
    return pack_read(path, &prediction->source.summary, add_interval, prediction, error);
}

/* ---- The graph must be like the model's ---- */

static int check_graph(const struct prediction *prediction, struct error *error) {
    const struct pack_summary *summary = &prediction->source.summary;
    const struct gnn_model *model = &prediction->model;
    const char *path =
        prediction->source.packed != NULL ? prediction->source.packed : prediction->source.input.features;
    if (summary->columns != model->features) {
        return error_set(error, AML_EINPUT, "%s: expected %" PRIu32 " features, as %s has, got %" PRIu32, path,
                         model->features, prediction->model_path, summary->columns);
    }
    if (!graph_scale_equal(&summary->scale, &model->scale) && prediction->source.packed != NULL) {
        return error_set(error, AML_EINPUT,
                         "%s: expected a graph whose features are scaled as %s has it: the one that it was trained on, "
                         "or --edges and --features",
                         path, prediction->model_path);
    }
    if (summary->directed != model->directed) {
        return error_set(error, AML_EINPUT, "%s: expected a graph that is %s, as %s was trained on",
                         prediction->source.packed != NULL ? path : prediction->source.input.edges,
                         model->directed ? "--directed" : "not --directed", prediction->model_path);
    }
    return 0;
}

/* Returns the model's numbers of the graph's classes, -1 for others; the caller frees them. */
static int32_t *find_classes(const struct prediction *prediction) {
    const struct gnn_model *model = &prediction->model;
    const struct pack_summary *summary = &prediction->source.summary;
    int32_t *numbers = memory_zeroed(summary->classes + (size_t)1, sizeof *numbers);
    for (uint32_t c = 0; c < summary->classes; c++) {
        numbers[c] = -1;
        for (uint32_t k = 0; k < model->classes && numbers[c] < 0; k++) {
            numbers[c] = strcmp(model->class_names[k], summary->class_names[c]) == 0 ? (int32_t)k : -1;
        }
    }
    return numbers;
}

/* ---- Predicting ---- */

/* Computes all vertices' logits, and puts them in the order of the input. */
static void compute(struct prediction *prediction) {
    struct gnn_local *local = &prediction->local;
    const struct gnn_layer *last = &prediction->model.network.layers[prediction->model.network.count];
    uint32_t vertices = prediction->source.summary.vertices;
    prediction->logits = memory_zeroed((size_t)vertices + 1, last->out_pitch * sizeof(float));
    prediction->labels = memory_zeroed((size_t)vertices + 1, sizeof *prediction->labels);
    int32_t *classes = find_classes(prediction);
    gnn_local_forward(local);
    for (uint32_t k = 0; k < local->count; k++) {
        const struct interval *interval = &local->tasks[k].interval;
        float *logits = memory_zeroed((size_t)interval->own + 1, last->out_pitch * sizeof(float));
        struct gnn_score unused[4] = {{0}};
        gnn_evaluate(&local->clock, &local->tasks[k], &local->thread, logits, unused);
        for (uint32_t i = 0; i < interval->own; i++) {
            memcpy(prediction->logits + interval->ids[i] * last->out_pitch, logits + i * last->out_pitch,
                   last->out_pitch * sizeof *logits);
            prediction->labels[interval->ids[i]] = interval->labels[i] >= 0 ? classes[interval->labels[i]] : -1;
        }
        free(logits);
    }
    free(classes);
}

/* Sets *best to the class with the largest probability. */
static void to_probabilities(float *logits, uint32_t classes, uint32_t *best) {
    double sum = 0;
    *best = 0;
    for (uint32_t k = 1; k < classes; k++) {
        *best = logits[k] > logits[*best] ? k : *best;
    }
    float most = logits[*best];
    for (uint32_t k = 0; k < classes; k++) {
        logits[k] = expf(logits[k] - most);
        sum += (double)logits[k];
    }
    for (uint32_t k = 0; k < classes; k++) {
        logits[k] = (float)((double)logits[k] / sum);
    }
}

static int write_vertex(const struct prediction *prediction, uint32_t v, const float *probabilities, uint32_t best,
                        struct error *error) {
    FILE *file = prediction->out.file;
    const struct gnn_model *model = &prediction->model;
    fprintf(file, "%" PRIu32 "\t%s\t%.6g", v, model->class_names[best], (double)probabilities[best]);
    for (uint32_t k = 0; k < model->classes && prediction->probabilities; k++) {
        fprintf(file, "\t%.6g", (double)probabilities[k]);
    }
    (void)fputc('\n', file);
    return ferror(file) ? tool_output_failed(&prediction->out, error) : 0;
}

static void write_header(const struct prediction *prediction) {
    fprintf(prediction->out.file, "vertex\tprediction\tprobability");
    for (uint32_t k = 0; k < prediction->model.classes; k++) {
        fprintf(prediction->out.file, "\t%s", prediction->model.class_names[k]);
    }
    (void)fputc('\n', prediction->out.file);
}

static int write_all(struct prediction *prediction, struct error *error) {
    const struct gnn_model *model = &prediction->model;
    size_t pitch = model->network.layers[model->network.count].out_pitch;
    uint64_t known = 0, correct = 0;
    int result = tool_output_open(&prediction->out, error);
    if (result != 0) {
        return result;
    }
    if (prediction->probabilities) {
        write_header(prediction);
    }
    for (uint32_t v = 0; v < prediction->source.summary.vertices && result == 0; v++) {
        uint32_t best;
        float *probabilities = prediction->logits + v * pitch;
        to_probabilities(probabilities, model->classes, &best);
        known += prediction->labels[v] >= 0;
        correct += prediction->labels[v] == (int32_t)best;
        result = write_vertex(prediction, v, probabilities, best, error);
    }
    result = tool_output_close(&prediction->out, result, error);
    if (result == 0 && known > 0) {
        fprintf(prediction->out.path == NULL ? stderr : stdout,
                "vertices %" PRIu32 "  labelled %" PRIu64 "  accuracy %.6f\n", prediction->source.summary.vertices,
                known, (double)correct / (double)known);
    }
    return result;
}

/* ---- The tool ---- */

static int open_graph(struct prediction *prediction, struct error *error) {
    struct gnn_source *source = &prediction->source;
    struct gnn_listener listener = {.note = write_note, .context = prediction};
    source->aggregate = source->packed != NULL ? "auto" : "each";
    source->scale = "auto";
    source->given_scale = &prediction->model.scale;
    source->input.directed = source->packed == NULL && prediction->model.directed;
    source->unlabelled = true;
    int result = gnn_source_open(source, prediction->model.network.kind, &listener, error);
    if (result != 0) {
        return result;
    }
    result = check_graph(prediction, error);
    if (result == 0) {
        gnn_network_set_once(&prediction->model.network, source->once);
        gnn_local_open(&prediction->local, &prediction->model.network, prediction->model.parameters,
                       source->summary.vertices, 0, 0);
        result = source->packed != NULL
                     ? gnn_source_parts(source, read_part, prediction, error)
                     : gnn_source_each(source, prediction->model.network.kind, add_interval, prediction, error);
        gnn_source_release(source);
    }
    return result;
}

static int run(void *context, struct error *error) {
    struct prediction *prediction = context;
    if (prediction->model_path == NULL) {
        return error_set(error, AML_EINPUT, "--predict: expected a model");
    }
    int result = gnn_model_load(prediction->model_path, &prediction->model, error);
    if (result != 0) {
        return result;
    }
    nn_blas_begin();
    result = open_graph(prediction, error);
    if (result == 0) {
        compute(prediction);
        result = write_all(prediction, error);
    }
    gnn_local_close(&prediction->local);
    gnn_source_close(&prediction->source);
    gnn_model_close(&prediction->model);
    free(prediction->logits);
    free(prediction->labels);
    return result;
}

int gnn_predict_main(int argc, char **argv) {
    struct prediction prediction = {0};
    struct graph_input *input = &prediction.source.input;
    const struct aml_option options[] = {
        {"predict", "MODEL", AML_OPTION_STRING, &prediction.model_path, 0, 0, "the model (gnn --model-out)"},
        {"edges", "FILE", AML_OPTION_STRING, &input->edges, 0, 0, "the graph's edges, as in training"},
        {"features", "FILE", AML_OPTION_STRING, &input->features, 0, 0, "and its features"},
        {"labels", "FILE", AML_OPTION_STRING, &input->labels, 0, 0, "labels, for the accuracy"},
        {"graph", "FOLDER", AML_OPTION_STRING, &prediction.source.packed, 0, 0, "or a packed graph"},
        {"probabilities", NULL, AML_OPTION_FLAG, &prediction.probabilities, 0, 0, "a column for each class too"},
        {"out", "FILE", AML_OPTION_STRING, &prediction.out.path, 0, 0, "write there; not given: standard output"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    const struct tool tool = {
        .app = "gnn",
        .option = "predict",
        .usage =
            "usage: gnn --predict MODEL (--edges FILE --features FILE | --graph FOLDER) [OPTION...]\n\n"
            "Writes a line for each vertex: its number, the most probable class, and the probability. If vertices\n"
            "have labels, prints the accuracy: on standard error if the lines go to standard output.\n\n",
        .options = options,
        .run = run,
        .context = &prediction,
    };
    return tool_main(&tool, argc, argv);
}
