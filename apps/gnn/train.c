/* See train.h. */
#include "apps/gnn/train.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 0 }; /* the table */

static const double ADAM_EPSILON = 1e-8;

const struct aml_metric gnn_metrics[GNN_METRICS] = {
    [GNN_LOSS] = {.name = "loss", .kind = AML_MEAN, .evaluated = 1},
    [GNN_TRAIN_ACCURACY] = {.name = "train_accuracy", .kind = AML_MEAN, .evaluated = 1},
    [GNN_VALIDATION_LOSS] = {.name = "validation_loss", .kind = AML_MEAN, .evaluated = 1},
    [GNN_VALIDATION_ACCURACY] = {.name = "validation_accuracy", .kind = AML_MEAN, .evaluated = 1},
    [GNN_TEST_LOSS] = {.name = "test_loss", .kind = AML_MEAN, .evaluated = 1},
    [GNN_TEST_ACCURACY] = {.name = "test_accuracy", .kind = AML_MEAN, .evaluated = 1},
};

/* ---- Tables ---- */

/* Makes a message or an error the value of its row: only the vertex's owner adds to the sum. */
static int replace_rows(const struct aml_steps *steps, const void *parameters) {
    (void)parameters;
    memcpy(steps->rows, steps->sums, steps->count * steps->width * sizeof(float));
    return 0;
}

/* The rate of the step in a clock. The first iteration makes none. */
static double rate_of(const struct gnn_steps *steps, uint64_t clock) {
    static const double PI = 3.14159265358979323846;
    double time = (double)((clock - 1) / steps->phases) - 0.5;
    if (steps->anneal > 0) {
        return time < steps->anneal ? steps->rate * (1 + cos(PI * fmax(time, 0) / steps->anneal)) / 2 : 0;
    }
    return steps->rate;
}

/* L2 regularization is of the first layer alone (Kipf, Welling), with gat of all. */
static void apply_step(const struct aml_step *step, const void *parameters) {
    const struct gnn_steps *steps = parameters;
    double rate = rate_of(steps, step->clock);
    bool shrinks = steps->network->kind == GNN_GAT || step->key * GNN_ROW < steps->network->layers[1].end;
    double l2 = shrinks ? steps->lambda : 0;
    if (steps->optimizer == GNN_ADAM) {
        const struct aml_adam adam = {
            .rate = rate, .beta1 = steps->momentum, .beta2 = steps->beta2, .epsilon = ADAM_EPSILON, .l2 = l2};
        aml_apply_adam(step, &adam);
    } else {
        const struct aml_momentum momentum = {
            .rate = rate, .momentum = steps->optimizer == GNN_SGD ? 0 : steps->momentum, .l2 = l2};
        aml_apply_momentum(step, &momentum);
    }
}

static void start_row(void *context, uint64_t key, void *row) {
    const struct gnn_job *job = context;
    gnn_network_start(&job->network, job->seed, key * GNN_ROW, GNN_ROW, row);
}

unsigned gnn_train_tables(struct gnn_job *job, uint32_t vertices, struct aml_table tables[GNN_TABLES_MAX]) {
    static const char *const names[][2] = {
        {"messages_1", "errors_1"}, {"messages_2", "errors_2"}, {"messages_3", "errors_3"}, {"messages_4", "errors_4"},
        {"messages_5", "errors_5"}, {"messages_6", "errors_6"}, {"messages_7", "errors_7"}};
    const struct gnn_network *network = &job->network;
    uint32_t messages = gnn_drops(job->dropout, job->attention_dropout) ? 2 : 1;
    unsigned count = 0;
    tables[count++] = (struct aml_table){.name = "parameters",
                                         .type = AML_FLOAT32,
                                         .mode = AML_ADD,
                                         .width = GNN_ROW,
                                         .rows = network->parameters / GNN_ROW,
                                         .whole = 1,
                                         .start = start_row,
                                         .apply = apply_step,
                                         .parameters = &job->steps,
                                         .state_width = job->steps.optimizer == GNN_ADAM ? aml_adam_state(GNN_ROW)
                                                                                         : aml_momentum_state(GNN_ROW)};
    for (unsigned l = network->gathered; l <= network->count; l++) {
        const struct gnn_layer *layer = &network->layers[l];
        for (unsigned b = 0; b < 2; b++) {
            tables[count++] = (struct aml_table){.name = names[l - 1][b],
                                                 .type = AML_FLOAT32,
                                                 .mode = AML_ADD,
                                                 .width = b > 0 ? layer->error : layer->message * messages,
                                                 .rows = vertices,
                                                 .apply_rows = replace_rows};
        }
    }
    return count;
}

/* ---- Items ---- */

int gnn_train_emit(aml_worker *worker, const struct gnn_job *job, const void *bytes, size_t size,
                   struct gnn_keys *keys) {
    enum { DISTRICTS = 512 }; /* at most so many keys of items: those of neighbouring intervals are equal */
    struct interval interval;
    interval_view(bytes, &interval);
    size_t local = (size_t)interval.own + interval.ghosts;
    unsigned tables = 2 * gnn_network_gathers(&job->network);
    struct aml_keys runs[2 * GNN_LAYERS_MAX];
    if (tables * local > AML_VARIED_ROWS_MAX) {
        return aml_error(worker, AML_EINPUT,
                         "vertex %u has %u neighbours: expected at most %zu with so many --layers, as each is named in "
                         "%u tables",
                         interval.ids[0], interval.ghosts, AML_VARIED_ROWS_MAX / (size_t)tables - 1, tables);
    }
    if (keys->room < local) {
        keys->values = memory_resized(keys->values, local, sizeof *keys->values);
        keys->room = local;
    }
    for (uint32_t i = 0; i < local; i++) {
        keys->values[i] = i < interval.own ? interval.first + i : interval.ghost_places[i - interval.own];
    }
    for (unsigned t = 0; t < tables; t++) {
        runs[t] = (struct aml_keys){.table = 1 + t, .count = (uint32_t)local, .keys = keys->values};
    }
    uint64_t district =
        job->intervals <= DISTRICTS ? interval.number : (uint64_t)interval.number * DISTRICTS / job->intervals;
    int result = aml_emit_varied(worker, AML_TRAIN, district, runs, tables, bytes, size);
    return result < 0 ? result : 0;
}

/* ---- A process's state ---- */

struct gnn_training {
    const struct gnn_job *job;
    struct gnn_memo *memos; /* [job->intervals] */
    struct gnn_thread *threads;
    struct gnn_score (*scores)[4]; /* [thread_count] */
    unsigned thread_count;
    float *copy; /* [parameters], if the table's rows are not contiguous, as with PROTEUS_CHECK */
    /* The call under way. */
    struct gnn_clock clock;
    struct gnn_task *tasks;
    size_t task_count, task_room;
    atomic_size_t next; /* the first task that no thread has taken */
    unsigned phase;
    size_t gradient_first, gradient_end; /* parameters whose gradients this clock makes */
};

struct gnn_training *gnn_training_open(const struct gnn_job *job) {
    struct gnn_training *training = memory_zeroed(1, sizeof *training);
    training->job = job;
    training->memos = memory_zeroed(job->intervals, sizeof *training->memos);
    return training;
}

static void close_memos(struct gnn_training *training) {
    for (uint32_t k = 0; k < training->job->intervals; k++) {
        gnn_memo_close(&training->memos[k]);
    }
}

void gnn_training_close(struct gnn_training *training) {
    if (training == NULL) {
        return;
    }
    close_memos(training);
    for (unsigned t = 0; t < training->thread_count; t++) {
        gnn_thread_close(&training->threads[t]);
    }
    free(training->memos);
    free(training->threads);
    free(training->scores);
    free(training->copy);
    free(training->tasks);
    free(training);
}

int gnn_train_begin(aml_worker *worker, struct gnn_training *training) {
    close_memos(training); /* the process may have other items now */
    if (training->threads == NULL) {
        training->thread_count = aml_threads(worker);
        training->threads = memory_zeroed(training->thread_count, sizeof *training->threads);
        training->scores = memory_zeroed(training->thread_count, sizeof *training->scores);
        for (unsigned t = 0; t < training->thread_count; t++) {
            training->threads[t].gradient = memory_zeroed(training->job->network.parameters, sizeof(float));
        }
    }
    return 0;
}

/* Returns the parameters as one array. */
static const float *parameters_of(aml_worker *worker, struct gnn_training *training) {
    struct aml_rows rows = aml_table_rows(worker, PARAMETERS);
    if (rows.stride == GNN_ROW * sizeof(float)) {
        return (const float *)(const void *)rows.base;
    }
    if (training->copy == NULL) {
        training->copy = memory_zeroed(training->job->network.parameters, sizeof *training->copy);
    }
    for (uint32_t r = 0; r < rows.count; r++) {
        memcpy(training->copy + (size_t)r * GNN_ROW, aml_row_read(&rows, r), GNN_ROW * sizeof(float));
    }
    return training->copy;
}

/* Sets the clock and its tasks. */
static void begin_call(aml_worker *worker, struct gnn_training *training, const void *items, size_t count) {
    const struct gnn_job *job = training->job;
    uint64_t iteration = aml_iteration(worker);
    unsigned gathers = gnn_network_gathers(&job->network);
    training->phase = aml_phase(worker);
    training->clock = (struct gnn_clock){.network = &job->network,
                                         .kernels = &nn_graphs[vectors_wide()],
                                         .parameters = parameters_of(worker, training),
                                         .dropout = (float)job->dropout,
                                         .attention_dropout = (float)job->attention_dropout,
                                         .seed = job->seed,
                                         .train = job->train,
                                         .number = aml_clock(worker),
                                         .pass = job->async || training->phase > gathers ? iteration : iteration - 1};
    for (unsigned l = job->network.gathered; l <= job->network.count; l++) {
        training->clock.forward[l] = aml_table_rows(worker, 1 + 2 * (l - job->network.gathered));
        training->clock.backward[l] = aml_table_rows(worker, 2 + 2 * (l - job->network.gathered));
    }
    if (training->task_room < count) {
        training->tasks = memory_resized(training->tasks, count, sizeof *training->tasks);
        training->task_room = count;
    }
    training->task_count = count;
    const struct aml_item *item = items;
    for (size_t i = 0; i < count; i++, item = i < count ? aml_item_next(item) : NULL) {
        struct gnn_task *task = &training->tasks[i];
        interval_view(aml_item_bytes(item), &task->interval);
        task->slots = aml_item_slots(item);
        task->memo = &training->memos[task->interval.number];
    }
    atomic_store(&training->next, 0);
}

/* ---- A clock ---- */

static void part_clock(void *context, unsigned thread, unsigned threads) {
    struct gnn_training *training = context;
    (void)threads;
    for (size_t i; (i = atomic_fetch_add(&training->next, 1)) < training->task_count;) {
        struct gnn_task *task = &training->tasks[i];
        if (training->job->async) {
            gnn_pass(&training->clock, training->clock.pass > 1, task, &training->threads[thread]);
        } else {
            gnn_phase(&training->clock, training->phase, task, &training->threads[thread]);
        }
    }
}

/* Sets which parameters' gradients the clock makes: those of the layers whose errors it gathers. */
static void find_gradients(struct gnn_training *training) {
    const struct gnn_network *network = &training->job->network;
    unsigned gathers = gnn_network_gathers(network);
    training->gradient_first = training->gradient_end = 0;
    if (training->job->async) {
        training->gradient_end = training->clock.pass > 1 ? network->parameters : 0;
    } else if (training->clock.pass > 0 && training->phase >= 1 && training->phase <= gathers) {
        unsigned layer = network->count - training->phase + 1;
        unsigned lowest = layer == network->gathered ? 1 : layer;
        training->gradient_first = lowest > 1 ? network->layers[lowest - 1].end : 0;
        training->gradient_end = network->layers[layer].end;
    }
}

struct gradient_parts {
    struct gnn_training *training;
    struct aml_rows rows;
};

/* Adds the threads' gradients of a part of the rows to the table's sums. */
static void part_gradient(void *context, unsigned thread, unsigned threads) {
    const struct gradient_parts *parts = context;
    struct gnn_training *training = parts->training;
    size_t first = training->gradient_first / GNN_ROW;
    size_t rows = training->gradient_end / GNN_ROW - first;
    for (size_t r = first + rows * thread / threads; r < first + rows * (thread + 1) / threads; r++) {
        float *sum = aml_row_sum(&parts->rows, (uint32_t)r);
        for (unsigned t = 0; t < training->thread_count; t++) {
            float *gradient = training->threads[t].gradient + r * GNN_ROW;
            for (size_t i = 0; i < GNN_ROW; i++) {
                sum[i] += gradient[i];
            }
            memset(gradient, 0, GNN_ROW * sizeof *gradient);
        }
    }
}

int gnn_train_clock(aml_worker *worker, const void *items, size_t count, struct gnn_training *training) {
    begin_call(worker, training, items, count);
    aml_parallel(worker, part_clock, training);
    find_gradients(training);
    if (training->gradient_end > training->gradient_first) {
        struct gradient_parts parts = {training, aml_table_rows(worker, PARAMETERS)};
        aml_parallel(worker, part_gradient, &parts);
    }
    if (aml_items_on_disk(worker)) {
        close_memos(training);
    }
    return 0;
}

/* ---- Evaluation ---- */

static void part_evaluate(void *context, unsigned thread, unsigned threads) {
    struct gnn_training *training = context;
    (void)threads;
    memset(training->scores[thread], 0, sizeof training->scores[thread]);
    for (size_t i; (i = atomic_fetch_add(&training->next, 1)) < training->task_count;) {
        gnn_evaluate(&training->clock, &training->tasks[i], &training->threads[thread], NULL, training->scores[thread]);
    }
}

int gnn_train_evaluate(aml_worker *worker, struct gnn_training *training) {
    static const unsigned losses[] = {
        [GRAPH_TRAIN] = GNN_LOSS, [GRAPH_VALIDATION] = GNN_VALIDATION_LOSS, [GRAPH_TEST] = GNN_TEST_LOSS};
    size_t count;
    const void *items = aml_items(worker, &count);
    begin_call(worker, training, items, count);
    for (size_t i = 0; i < count && training->job->async; i++) {
        training->tasks[i].memo->pass = 0; /* its values are of the parameters before the step */
    }
    aml_parallel(worker, part_evaluate, training);
    for (unsigned s = GRAPH_TRAIN; s <= GRAPH_TEST; s++) {
        struct gnn_score sum = {0};
        for (unsigned t = 0; t < training->thread_count; t++) {
            sum.loss += training->scores[t][s].loss;
            sum.correct += training->scores[t][s].correct;
            sum.vertices += training->scores[t][s].vertices;
        }
        if (sum.vertices > 0) {
            aml_metric_add(worker, losses[s], sum.loss, (double)sum.vertices);
            aml_metric_add(worker, losses[s] + 1, (double)sum.correct, (double)sum.vertices);
        }
    }
    return 0;
}

/* ---- The end ---- */

static int gather_rows(void *context, const uint64_t *keys, const void *rows, size_t count) {
    float *parameters = context;
    for (size_t r = 0; r < count; r++) {
        memcpy(parameters + keys[r] * GNN_ROW, (const float *)rows + r * GNN_ROW, GNN_ROW * sizeof *parameters);
    }
    return 0;
}

int gnn_train_gather(aml_worker *worker, const struct gnn_job *job, float *parameters) {
    /* The scan lacks rows that no clock has changed. */
    gnn_network_start(&job->network, job->seed, 0, job->network.parameters, parameters);
    return aml_scan(worker, PARAMETERS, gather_rows, parameters);
}
