/* gnn: graph neural networks on whole graphs, without sampling, on AgileML. Vertices' messages and errors are rows of
 * tables whose optimizer makes a row what its vertex's owner adds to it (train.c). So neighbours read them as servers
 * have them, whatever processes are lost; nothing else is state but the parameters.
 *
 * The shape of networks and the phases of an iteration are in network.h, the arithmetic in compute.c, the graph's
 * input in source.c, the model's file in model.c, `gnn --pack` in packing.c, and `gnn --predict` in predict.c.
 * (Dorylus: Thorpe, dissertation, UCLA 2023, chapter 2.) See docs/gnn.md. */
#include "agileml.h"
#include "agileml/base/memory.h"
#include "apps/app.h"
#include "apps/gnn/model.h"
#include "apps/gnn/options.h"
#include "apps/gnn/pack_head.h"
#include "apps/gnn/packing.h"
#include "apps/gnn/predict.h"
#include "apps/gnn/source.h"
#include "apps/gnn/train.h"
#include "apps/nn/layers.h"
#include "apps/tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double RATE = 0.01, RATE_OF_OLD_ATTENTION = 0.002, LAMBDA = 1e-3, MOMENTUM = 0.9,
                    BETA2 = 0.999; /* defaults */

struct gnn {
    struct gnn_job job; /* first */
    struct gnn_source source;
    struct gnn_options options;
    const char *optimizer, *pipeline, *init, *model_out;
    double dropout, attention_dropout, rate, anneal; /* -1: not given */
    struct gnn_training *training;
};

/* ---- Options ---- */

static int choose_steps(struct gnn *gnn, struct error *error) {
    static const char *const names[] = {"adam", "momentum", "sgd", NULL};
    struct gnn_steps *steps = &gnn->job.steps;
    int optimizer = app_choice("optimizer", gnn->optimizer, names, error);
    if (optimizer < 0) {
        return optimizer;
    }
    steps->optimizer = (enum gnn_optimizer)optimizer;
    if (optimizer == GNN_SGD && steps->momentum != MOMENTUM) {
        return error_set(error, AML_EINPUT, "--momentum: expected --optimizer adam or momentum, got sgd");
    }
    if (optimizer != GNN_ADAM && steps->beta2 != BETA2) {
        return error_set(error, AML_EINPUT, "--beta2: expected --optimizer adam, got %s", gnn->optimizer);
    }
    return 0;
}

static int choose_pipeline(aml_worker *worker, struct gnn *gnn, struct error *error) {
    static const char *const names[] = {"sync", "async", NULL};
    int pipeline = app_choice("pipeline", gnn->pipeline, names, error);
    if (pipeline < 0) {
        return pipeline;
    }
    gnn->job.async = pipeline == 1;
    if (!gnn->job.async && aml_staleness(worker) > 0) {
        return error_set(error, AML_EINPUT,
                         "--staleness %u: expected --pipeline async; with sync each clock needs all rows of the clock "
                         "before",
                         aml_staleness(worker));
    }
    return 0;
}

/* Sets what options left open by the kind of network. */
static void complete_options(aml_worker *worker, struct gnn *gnn, enum gnn_kind kind, int64_t iterations) {
    struct gnn_job *job = &gnn->job;
    bool attends = kind == GNN_GAT;
    job->dropout = gnn->dropout >= 0 ? gnn->dropout : attends ? 0.6 : 0.5;
    job->attention_dropout = !attends ? 0 : gnn->attention_dropout >= 0 ? gnn->attention_dropout : job->dropout;
    /* At RATE gat diverges if its neighbours' rows are an iteration old. */
    job->steps.rate = gnn->rate >= 0 ? gnn->rate : attends && job->async ? RATE_OF_OLD_ATTENTION : RATE;
    job->steps.anneal = gnn->anneal >= 0 ? gnn->anneal : fmax((double)iterations - 1, 0);
    job->seed = aml_seed(worker);
    gnn->source.input.seed = job->seed;
}

/* Rejects values between -1, which means that the default counts, and 0. */
static int check_signs(const struct gnn *gnn, struct error *error) {
    const struct {
        const char *name;
        double value;
    } options[] = {{"dropout", gnn->dropout},
                   {"attention-dropout", gnn->attention_dropout},
                   {"rate", gnn->rate},
                   {"anneal", gnn->anneal}};
    for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
        if (options[o].value < 0 && options[o].value > -1) {
            return error_set(error, AML_EINPUT, "--%s: expected at least 0, or -1, got %g", options[o].name,
                             options[o].value);
        }
    }
    return 0;
}

/* Makes the network for so many features and classes. */
static int make_network(struct gnn *gnn, enum gnn_kind kind, uint32_t features, uint32_t classes, struct error *error) {
    static const char *const names[] = {"xavier", "he", NULL};
    struct gnn_shape shape = gnn_options_shape(&gnn->options, kind);
    int init = app_choice("init", gnn->init, names, error);
    if (init < 0) {
        return init;
    }
    shape.he = init == 1;
    shape.once = gnn->source.once;
    shape.features = features;
    shape.classes = classes;
    return gnn_network_make(&gnn->job.network, &shape, error);
}

static int check_options(aml_worker *worker, struct gnn *gnn, int64_t iterations, enum gnn_kind *kind) {
    struct error error = {0};
    struct app_file files[GNN_SOURCE_FILES];
    int found = gnn_options_kind(&gnn->options, &error);
    int result = found < 0 ? found : choose_steps(gnn, &error);
    result = result != 0 ? result : check_signs(gnn, &error);
    result = result != 0 ? result : choose_pipeline(worker, gnn, &error);
    if (result == 0 && found != GNN_GAT && gnn->attention_dropout >= 0) {
        result = error_set(&error, AML_EINPUT, "--attention-dropout: expected --model gat, got %s", gnn->options.model);
    }
    /* With the smallest sizes: finds the network's wrong options before a large graph is read. */
    result = result != 0 ? result : gnn_source_check(&gnn->source, (enum gnn_kind)found, &error);
    result = result != 0 ? result : make_network(gnn, (enum gnn_kind)found, 1, 2, &error);
    if (result != 0) {
        return app_result(worker, result, &error);
    }
    *kind = (enum gnn_kind)found;
    complete_options(worker, gnn, *kind, iterations);
    size_t count = gnn_source_files(&gnn->source, files);
    return app_check_files(worker, files, count, gnn->model_out);
}

/* ---- The graph ---- */

static void write_note(void *context, const char *text) {
    aml_note(context, "%s", text);
}

static int open_source(aml_worker *worker, struct gnn *gnn, enum gnn_kind kind) {
    struct error error = {0};
    struct gnn_listener listener = {.note = write_note, .context = worker};
    gnn_source_close(&gnn->source);
    int result = gnn_source_open(&gnn->source, kind, &listener, &error);
    const struct pack_summary *summary = &gnn->source.summary;
    if (result == 0 && summary->train == 0) {
        result = error_set(&error, AML_EINPUT, "%s: expected vertices for training, there are none",
                           gnn->source.packed != NULL ? gnn->source.packed : "--split");
    }
    return app_result(worker, result, &error);
}

static int gnn_configure(aml_worker *worker, struct aml_app *app) {
    struct gnn *gnn = app->context;
    struct gnn_job *job = &gnn->job;
    struct error error = {0};
    enum gnn_kind kind = GNN_GCN;
    int result = check_options(worker, gnn, app->iterations, &kind);
    result = result != 0 ? result : open_source(worker, gnn, kind);
    if (result == 0) {
        const struct pack_summary *summary = &gnn->source.summary;
        result = app_result(worker, make_network(gnn, kind, summary->columns, summary->classes, &error), &error);
    }
    if (result != 0) {
        return result;
    }
    aml_input_mark(worker, "graph", pack_head_hash(&gnn->source.summary, gnn->source.summary.graph));
    job->train = (double)gnn->source.summary.train;
    job->intervals = gnn->source.summary.intervals;
    job->steps.network = &job->network;
    job->steps.phases = job->async ? 1 : gnn_network_phases(&job->network);
    app->phases = job->steps.phases;
    if (app->clocks_per_iteration > 0 && app->clocks_per_iteration != (int64_t)job->steps.phases) {
        return aml_error(worker, AML_EINPUT,
                         "--clocks-per-iteration %lld: expected %u, or without it: each clock works on the whole graph",
                         (long long)app->clocks_per_iteration, job->steps.phases);
    }
    app->table_count = gnn_train_tables(job, gnn->source.summary.vertices, app->tables);
    nn_blas_begin();
    return 0;
}

/* ---- Reading ---- */

struct emitting {
    aml_worker *worker;
    const struct gnn *gnn;
    struct gnn_keys keys;
};

static int emit(void *context, const void *bytes, size_t size) {
    struct emitting *emitting = context;
    return gnn_train_emit(emitting->worker, &emitting->gnn->job, bytes, size, &emitting->keys);
}

static int read_part(aml_worker *worker, const struct aml_file *file, void *context) {
    const struct gnn *gnn = context;
    struct emitting emitting = {.worker = worker, .gnn = gnn};
    struct error error = {0};
    int result = pack_read(file->path, &gnn->source.summary, emit, &emitting, &error);
    free(emitting.keys.values);
    return app_result(worker, result, &error);
}

/* Reads and divides the graph once more, and checks that its files are as they were. Sets *again, for
 * gnn_source_close. */
static int read_again(const struct gnn *gnn, struct gnn_source *again, struct error *error) {
    struct gnn_listener listener = {NULL, NULL, NULL};
    const struct pack_summary *summary = &gnn->source.summary;
    *again = gnn->source;
    again->summary = (struct pack_summary){0};
    int result = gnn_source_open(again, gnn->job.network.kind, &listener, error);
    if (result == 0 &&
        (again->once != gnn->source.once || pack_head_hash(&again->summary, 0) != pack_head_hash(summary, 0))) {
        gnn_source_close(again);
        result = error_set(error, AML_EINPUT, "%s, or another file of the graph, has changed since the job began",
                           gnn->source.input.edges);
    }
    return result;
}

/* The graph is read again if it has been released, as when the node takes over data. */
static int read_files(aml_worker *worker, struct gnn *gnn) {
    struct error error = {0};
    struct app_file files[GNN_SOURCE_FILES];
    struct emitting emitting = {.worker = worker, .gnn = gnn};
    struct gnn_source again;
    int result = gnn->source.held ? 0 : read_again(gnn, &again, &error);
    struct gnn_source *source = gnn->source.held ? &gnn->source : &again;
    if (result == 0) {
        app_name_files(worker, files, gnn_source_files(&gnn->source, files));
        result = gnn_source_each(source, gnn->job.network.kind, emit, &emitting, &error);
        if (source == &again) {
            gnn_source_close(&again);
        }
    }
    gnn_source_release(&gnn->source);
    free(emitting.keys.values);
    return app_result(worker, result, &error);
}

static int gnn_read(aml_worker *worker, void *context) {
    struct gnn *gnn = context;
    return gnn->source.packed != NULL ? aml_read_files(worker, gnn->source.packed, read_part, gnn)
                                      : read_files(worker, gnn);
}

/* ---- Training ---- */

static int gnn_begin(aml_worker *worker, void *context) {
    struct gnn *gnn = context;
    if (gnn->training == NULL) {
        gnn->training = gnn_training_open(&gnn->job);
    }
    return gnn_train_begin(worker, gnn->training);
}

static int gnn_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct gnn *gnn = context;
    return gnn_train_clock(worker, items, count, gnn->training);
}

static int gnn_evaluate_all(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct gnn *gnn = context;
    (void)items;
    (void)count;
    return gnn_train_evaluate(worker, gnn->training);
}

/* ---- The end ---- */

/* The loss, on the vertices of a split, of a model that always predicts the classes' shares of the training
 * vertices. */
static double constant_loss(const struct pack_summary *summary, enum graph_split split) {
    double loss = 0;
    double vertices = 0;
    for (uint32_t k = 0; k < summary->classes; k++) {
        double share = (double)summary->class_counts[4 * k + GRAPH_TRAIN] / (double)summary->train;
        double count = (double)summary->class_counts[4 * k + split];
        loss -= count > 0 ? count * log(fmax(share, 1e-12)) : 0;
        vertices += count;
    }
    return vertices > 0 ? loss / vertices : (double)NAN;
}

static void compare(aml_worker *worker, const struct gnn *gnn) {
    const struct {
        enum graph_split split;
        unsigned metric;
        const char *name;
    } measures[] = {{GRAPH_TEST, GNN_TEST_LOSS, "test"},
                    {GRAPH_VALIDATION, GNN_VALIDATION_LOSS, "validation"},
                    {GRAPH_TRAIN, GNN_LOSS, "training"}};
    for (size_t m = 0; m < sizeof measures / sizeof *measures; m++) {
        double loss = aml_metric_value(worker, measures[m].metric);
        double constant = constant_loss(&gnn->source.summary, measures[m].split);
        if (!isnan(constant)) {
            if (isnan(loss)) {
                aml_note(worker, "the loss on the %s vertices is no number: a lower --rate may help", measures[m].name);
            } else if (!(loss < constant)) {
                aml_note(worker,
                         "the model is no better than a constant: its loss on the %s vertices is %.6g, that of the "
                         "classes' shares %.6g. More iterations, another --rate or --model may help",
                         measures[m].name, loss, constant);
            }
            return;
        }
    }
}

static int gnn_finish(aml_worker *worker, void *context) {
    struct gnn *gnn = context;
    struct error error = {0};
    compare(worker, gnn);
    if (gnn->model_out == NULL) {
        return 0;
    }
    struct gnn_model model = gnn_options_model(&gnn->options, &gnn->job.network, &gnn->source.summary);
    model.parameters = memory_zeroed(gnn->job.network.parameters, sizeof *model.parameters);
    int result = gnn_train_gather(worker, &gnn->job, model.parameters);
    result = result != 0 ? result : gnn_model_write(gnn->model_out, &model, &error);
    free(model.parameters);
    return app_result(worker, result, &error);
}

/* ---- The command line ---- */

static int run_job(struct gnn *gnn, const struct aml_option *options, int argc, char **argv) {
    static const char *const steering[] = {"rate", "anneal", NULL};
    static struct aml_table tables[GNN_TABLES_MAX];
    tables[0] = (struct aml_table){.name = "parameters", .type = AML_FLOAT32, .mode = AML_ADD, .width = 1, .rows = 1};
    struct aml_app app = {
        .name = "gnn",
        .summary = "graph neural networks on whole graphs; also: gnn --pack FOLDER, gnn --predict MODEL",
        .options = options,
        .steering = steering,
        .tables = tables,
        .table_count = 1,
        .metrics = gnn_metrics,
        .metric_count = GNN_METRICS,
        .item_varied = 1,
        .clock_alone = 1,
        .evaluate_always = 1,
        .read_only_emits = 1,
        .iterations = 200,
        .configure = gnn_configure,
        .read = gnn_read,
        .begin = gnn_begin,
        .clock = gnn_clock,
        .evaluate = gnn_evaluate_all,
        .finish = gnn_finish,
        .context = gnn,
    };
    int status = aml_main(&app, argc, argv);
    gnn_training_close(gnn->training);
    gnn_source_close(&gnn->source);
    return status;
}

int main(int argc, char **argv) {
    enum { OWN = 14 };
    struct gnn gnn = {.job = {.steps = {.lambda = LAMBDA, .momentum = MOMENTUM, .beta2 = BETA2}},
                      .optimizer = "adam",
                      .pipeline = "sync",
                      .init = "xavier",
                      .dropout = -1,
                      .attention_dropout = -1,
                      .rate = -1,
                      .anneal = -1};
    const char *pack = NULL, *predict = NULL; /* only for --help: other files parse these tools' options */
    struct aml_option options[GNN_SOURCE_OPTIONS + GNN_OPTIONS + OWN];
    struct aml_option *next = gnn_source_options(&gnn.source, options);
    next = gnn_options_list(&gnn.options, false, next);
    const struct aml_option own[OWN] = {
        {"dropout", "X", AML_OPTION_REAL, &gnn.dropout, -1, 0.99,
         "part of the values that are 0 in training, by chance; -1: 0.5, of gat 0.6"},
        {"attention-dropout", "X", AML_OPTION_REAL, &gnn.attention_dropout, -1, 0.99,
         "gat: the same of attention; -1: as --dropout"},
        {"optimizer", "NAME", AML_OPTION_WORD, &gnn.optimizer, 0, 0, "adam, momentum or sgd"},
        {"rate", "X", AML_OPTION_REAL, &gnn.rate, -1, 1e6,
         "learning rate; -1: 0.01, of gat with --pipeline async 0.002"},
        {"anneal", "N", AML_OPTION_REAL, &gnn.anneal, -1, 1e9,
         "the rate falls to 0 in so many iterations, along a cosine; 0: it does not; -1: --iterations"},
        {"momentum", "X", AML_OPTION_REAL, &gnn.job.steps.momentum, 0, 0.999, "of momentum, and adam's beta1"},
        {"beta2", "X", AML_OPTION_REAL, &gnn.job.steps.beta2, 0, 0.999999, "of adam"},
        {"lambda", "X", AML_OPTION_REAL, &gnn.job.steps.lambda, 0, 100,
         "L2 regularization, of the first layer, of gat of all"},
        {"init", "NAME", AML_OPTION_WORD, &gnn.init, 0, 0, "start values: xavier or he"},
        {"pipeline", "NAME", AML_OPTION_WORD, &gnn.pipeline, 0, 0,
         "sync: exact steps; async: one exchange an iteration, with neighbours' values of the iteration before"},
        {"model-out", "FILE", AML_OPTION_STRING, &gnn.model_out, 0, 0, "write the model there (docs/gnn.md)"},
        {"pack", "FOLDER", AML_OPTION_STRING, &pack, 0, 0, "no job: pack a graph; see gnn --pack --help"},
        {"predict", "MODEL", AML_OPTION_STRING, &predict, 0, 0, "no job: predict by a model; see gnn --predict --help"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    memcpy(next, own, sizeof own);
    if (tool_is_asked("pack", argc, argv)) {
        return gnn_packing_main(argc, argv);
    }
    return tool_is_asked("predict", argc, argv) ? gnn_predict_main(argc, argv) : run_job(&gnn, options, argc, argv);
}
