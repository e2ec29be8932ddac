/* The phases of apps/gnn on small graphs: gradients against finite differences, and that neither intervals nor what a
 * process keeps change results. */
#include "apps/gnn/local.h"
#include "apps/nn/layers.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VERTICES = 13, FEATURES = 9, CLASSES = 3, EDGES = 30 };

struct choice {
    enum gnn_kind kind;
    bool once, directed, dense;
    const char *layers;
    uint32_t heads, output_heads;
    float dropout, attention_dropout;
    uint32_t intervals;
};

/* A graph, and its intervals' bytes. */
struct fixture {
    struct choice choice;
    struct graph graph;
    struct graph_partition partition;
    struct gnn_network network;
    float *parameters;
    struct gnn_local local;
};

static double uniform(uint64_t *state) {
    *state = aml_mix(*state, 7);
    return (double)(*state >> 11) * 0x1p-53;
}

/* Vertex 0 has no edge. */
static void make_edges(struct graph *graph, bool directed, uint64_t *state) {
    uint32_t pairs[EDGES][2];
    struct error error = {0};
    for (size_t e = 0; e < EDGES; e++) {
        for (size_t end = 0; end < 2; end++) {
            pairs[e][end] = 1 + (uint32_t)(uniform(state) * (VERTICES - 1));
        }
    }
    assert_int_equal(graph_set_edges(graph, pairs[0], EDGES, directed, &error), 0);
}

static void make_features(struct graph *graph, bool dense, uint64_t *state) {
    struct graph_features *features = &graph->features;
    *features = (struct graph_features){.columns = FEATURES, .dense = dense};
    features->values = calloc(VERTICES * FEATURES, sizeof(float));
    if (!dense) {
        features->offsets = calloc(VERTICES + 1, sizeof *features->offsets);
        features->at = calloc(VERTICES * FEATURES, sizeof *features->at);
    }
    uint64_t count = 0;
    for (uint32_t v = 0; v < VERTICES; v++) {
        for (uint32_t f = 0; f < FEATURES; f++) {
            bool there = uniform(state) < 0.5;
            float value = (float)(2 * uniform(state) - 1);
            if (dense) {
                features->values[v * FEATURES + f] = there ? value : 0;
            } else if (there) {
                features->values[count] = value;
                features->at[count++] = f;
            }
        }
        if (!dense) {
            features->offsets[v + 1] = count;
        }
    }
}

static void make_graph(struct graph *graph, const struct choice *choice) {
    uint64_t state = 11;
    struct error error = {0};
    *graph = (struct graph){.vertices = VERTICES, .directed = choice->directed, .classes = CLASSES};
    make_edges(graph, choice->directed, &state);
    make_features(graph, choice->dense, &state);
    graph->labels = calloc(VERTICES, sizeof *graph->labels);
    graph->splits = calloc(VERTICES, 1);
    for (uint32_t v = 0; v < VERTICES; v++) {
        graph->labels[v] = v % 5 == 4 ? -1 : (int32_t)(v % CLASSES);
        graph->splits[v] = graph->labels[v] < 0 ? GRAPH_UNUSED : v % 4 == 3 ? GRAPH_TEST : GRAPH_TRAIN;
    }
    if (choice->once) {
        enum graph_average average = choice->kind == GNN_SAGE ? GRAPH_MEAN : GRAPH_SYMMETRIC;
        assert_int_equal(graph_aggregate(graph, average, UINT64_MAX, &error), 0);
    }
}

static double train_vertices(const struct graph *graph) {
    double count = 0;
    for (uint32_t v = 0; v < VERTICES; v++) {
        count += graph->splits[v] == GRAPH_TRAIN ? 1 : 0;
    }
    return count;
}

static void open_local(struct fixture *fixture) {
    const struct choice *choice = &fixture->choice;
    struct interval_bytes bytes = {NULL, 0, 0};
    struct error error = {0};
    unsigned parts = INTERVAL_FEATURES | (choice->once ? INTERVAL_AGGREGATED : 0U);
    gnn_local_open(&fixture->local, &fixture->network, fixture->parameters, VERTICES, choice->dropout,
                   choice->attention_dropout);
    fixture->local.clock.train = train_vertices(&fixture->graph);
    for (uint32_t k = 0; k < fixture->partition.intervals; k++) {
        assert_int_equal(interval_encode(&fixture->graph, &fixture->partition, k, parts, &bytes, &error), 0);
        gnn_local_add(&fixture->local, bytes.bytes, bytes.size);
    }
    free(bytes.bytes);
}

static void open_fixture(struct fixture *fixture, const struct choice *choice) {
    struct error error = {0};
    *fixture = (struct fixture){.choice = *choice};
    make_graph(&fixture->graph, choice);
    assert_int_equal(graph_partition_make(&fixture->graph, choice->intervals, &fixture->partition, NULL, NULL, &error),
                     0);
    const struct gnn_shape shape = {.kind = choice->kind,
                                    .layers = choice->layers,
                                    .heads = choice->heads,
                                    .output_heads = choice->output_heads,
                                    .once = choice->once,
                                    .features = FEATURES,
                                    .classes = CLASSES};
    assert_int_equal(gnn_network_make(&fixture->network, &shape, &error), 0);
    fixture->parameters = calloc(fixture->network.parameters, sizeof(float));
    gnn_network_start(&fixture->network, 3, 0, fixture->network.parameters, fixture->parameters);
    for (unsigned l = 1; l <= fixture->network.count; l++) { /* biases, so that relu and elu are not at 0 */
        for (uint32_t f = 0; f < fixture->network.layers[l].out; f++) {
            fixture->parameters[fixture->network.layers[l].bias + f] = 0.05F * (float)(f + l) - 0.13F;
        }
    }
    open_local(fixture);
}

static void close_fixture(struct fixture *fixture) {
    gnn_local_close(&fixture->local);
    graph_partition_close(&fixture->partition);
    graph_close(&fixture->graph);
    free(fixture->parameters);
}

/* ---- The loss in training, from the last layer's errors: these are (p - onehot) / vertices, times a factor ---- */

static double loss_of_row(const struct fixture *fixture, const struct interval *interval, uint32_t i,
                          const float *row) {
    const struct gnn_network *network = &fixture->network;
    float degree = (float)(interval->in.offsets[i + 1] - interval->in.offsets[i]);
    double factor = network->kind == GNN_GCN    ? sqrt((double)degree + 1)
                    : network->kind == GNN_SAGE ? fmax((double)degree, 1)
                                                : network->layers[network->count].heads;
    double p = (double)row[interval->labels[i]] * factor * fixture->local.clock.train + 1;
    return -log(p) / fixture->local.clock.train;
}

static void forget(struct fixture *fixture) {
    for (uint32_t k = 0; k < fixture->local.count; k++) {
        gnn_memo_close(&fixture->local.intervals[k].memo);
    }
}

static double training_loss(struct fixture *fixture) {
    struct gnn_local *local = &fixture->local;
    const struct aml_rows *errors = &local->clock.backward[fixture->network.count];
    double loss = 0;
    forget(fixture); /* the pass is the same, but not the parameters */
    gnn_local_forward(local);
    gnn_local_phase(local, 0);
    for (uint32_t k = 0; k < local->count; k++) {
        const struct interval *interval = &local->tasks[k].interval;
        for (uint32_t i = 0; i < interval->own; i++) {
            if (interval->splits[i] == GRAPH_TRAIN) {
                const unsigned char *row = errors->base + (interval->first + i) * errors->stride;
                loss += loss_of_row(fixture, interval, i, (const float *)(const void *)row);
            }
        }
    }
    return loss;
}

/* Sets the gradient, after training_loss. */
static void back(struct fixture *fixture) {
    memset(fixture->local.thread.gradient, 0, fixture->network.parameters * sizeof(float));
    for (unsigned phase = 1; phase <= gnn_network_gathers(&fixture->network); phase++) {
        gnn_local_phase(&fixture->local, phase);
    }
}

static double loss_at(struct fixture *fixture, size_t p, double step) {
    float value = fixture->parameters[p];
    fixture->parameters[p] = value + (float)step;
    double loss = training_loss(fixture);
    fixture->parameters[p] = value;
    return loss;
}

/* The loss has kinks, where a relu's input is 0: there the gradient is between the slopes to both sides. */
static void check_parameter(struct fixture *fixture, size_t p, double gradient) {
    static const double steps[] = {4e-3, 1e-3, 2.5e-4};
    double left = 0;
    double right = 0;
    double here = loss_at(fixture, p, 0);
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        left = (here - loss_at(fixture, p, -steps[s])) / steps[s];
        right = (loss_at(fixture, p, steps[s]) - here) / steps[s];
        double noise = 2e-4 + 4e-7 / steps[s] + 0.01 * fabs(gradient);
        if (gradient > fmin(left, right) - noise && gradient < fmax(left, right) + noise) {
            return;
        }
    }
    fail_msg("kind %d, %s, once %d, directed %d, dense %d, layers %s, %u intervals: parameter %zu of %zu, layer %u: "
             "slopes %.6g and %.6g, gradient %.6g",
             fixture->choice.kind, fixture->choice.dropout > 0 ? "dropout" : "no dropout", fixture->choice.once,
             fixture->choice.directed, fixture->choice.dense, fixture->choice.layers, fixture->choice.intervals, p,
             fixture->network.parameters, gnn_network_layer_of(&fixture->network, p), left, right, gradient);
}

static void check_gradient(struct fixture *fixture) {
    size_t count = fixture->network.parameters;
    float *gradient = malloc(count * sizeof *gradient);
    size_t checked = 0;
    training_loss(fixture);
    back(fixture);
    memcpy(gradient, fixture->local.thread.gradient, count * sizeof *gradient);
    for (size_t p = 0; p < count; p++) {
        if (fixture->parameters[p] != 0.0F || gradient[p] != 0.0F) { /* else it pads a row */
            check_parameter(fixture, p, (double)gradient[p]);
            checked += gradient[p] != 0.0F ? 1 : 0;
        }
    }
    assert_true(checked > 20);
    free(gradient);
}

static void check_choice(const struct choice *choice) {
    struct fixture fixture;
    open_fixture(&fixture, choice);
    check_gradient(&fixture);
    close_fixture(&fixture);
}

static void gradients_are_those_of_the_loss(void **state) {
    (void)state;
    static const char *const layers[] = {"4", "5,3", "4,3,5"};
    for (unsigned kind = GNN_GCN; kind <= GNN_SAGE; kind++) {
        for (unsigned c = 0; c < 24; c++) {
            bool once = c % 2 == 1 && kind != GNN_GAT;
            const struct choice choice = {.kind = (enum gnn_kind)kind,
                                          .once = once,
                                          .directed = c / 2 % 2 == 1,
                                          .dense = c / 4 % 2 == 1,
                                          .layers = layers[c / 8],
                                          .heads = 2,
                                          .output_heads = 1 + c % 2,
                                          .intervals = 1 + c % 3};
            check_choice(&choice);
        }
    }
}

static void gradients_with_dropout(void **state) {
    (void)state;
    for (unsigned kind = GNN_GCN; kind <= GNN_SAGE; kind++) {
        for (unsigned c = 0; c < 4; c++) {
            const struct choice choice = {.kind = (enum gnn_kind)kind,
                                          .once = c % 2 == 1 && kind != GNN_GAT,
                                          .dense = c / 2 == 1,
                                          .layers = "6,4",
                                          .heads = 2,
                                          .output_heads = 2,
                                          .dropout = 0.3F,
                                          .attention_dropout = kind == GNN_GAT ? 0.4F : 0,
                                          .intervals = 3};
            check_choice(&choice);
        }
    }
}

/* ---- Results do not depend on intervals, nor on what is kept ---- */

static struct gnn_score evaluate(struct fixture *fixture, float *logits) {
    struct gnn_local *local = &fixture->local;
    const struct gnn_layer *last = &fixture->network.layers[fixture->network.count];
    struct gnn_score scores[4] = {{0}};
    float *own = calloc(VERTICES, last->out_pitch * sizeof *own);
    for (uint32_t k = 0; k < local->count; k++) {
        const struct interval *interval = &local->tasks[k].interval;
        gnn_evaluate(&local->clock, &local->tasks[k], &local->thread, own, scores);
        for (uint32_t i = 0; i < interval->own; i++) {
            memcpy(logits + fixture->partition.order[interval->first + i] * last->out_pitch, own + i * last->out_pitch,
                   last->out_pitch * sizeof *own);
        }
    }
    free(own);
    return scores[GRAPH_TRAIN];
}

static void intervals_change_nothing(void **state) {
    (void)state;
    enum { PITCH = 16 };
    for (unsigned kind = GNN_GCN; kind <= GNN_SAGE; kind++) {
        float logits[2][VERTICES * PITCH];
        struct gnn_score scores[2];
        for (unsigned several = 0; several < 2; several++) {
            const struct choice choice = {.kind = (enum gnn_kind)kind,
                                          .layers = "5,4",
                                          .heads = 3,
                                          .output_heads = 2,
                                          .intervals = several ? 4 : 1};
            struct fixture fixture;
            open_fixture(&fixture, &choice);
            gnn_local_forward(&fixture.local);
            scores[several] = evaluate(&fixture, logits[several]);
            double loss = training_loss(&fixture);
            assert_true(fabs(loss - scores[several].loss / (double)scores[several].vertices) < 1e-5);
            close_fixture(&fixture);
        }
        assert_int_equal(scores[0].vertices, scores[1].vertices);
        assert_int_equal(scores[0].correct, scores[1].correct);
        for (size_t i = 0; i < (size_t)VERTICES * PITCH; i++) {
            assert_true(fabsf(logits[0][i] - logits[1][i]) < 1e-5F);
        }
    }
}

/* Opens network c of the six kinds and orders, with dropout. Returns the gradient of its phases, which the caller
 * frees; the thread's is zero again. */
static float *open_dropping(struct fixture *fixture, unsigned c, uint32_t intervals) {
    const struct choice choice = {.kind = (enum gnn_kind)(c % 3),
                                  .once = c >= 3 && c % 3 != GNN_GAT,
                                  .layers = "5,4",
                                  .heads = 3,
                                  .output_heads = 2,
                                  .dropout = 0.5F,
                                  .attention_dropout = c % 3 == GNN_GAT ? 0.5F : 0,
                                  .intervals = intervals};
    open_fixture(fixture, &choice);
    size_t bytes = fixture->network.parameters * sizeof(float);
    float *gradient = malloc(bytes);
    training_loss(fixture);
    back(fixture);
    memcpy(gradient, fixture->local.thread.gradient, bytes);
    memset(fixture->local.thread.gradient, 0, bytes);
    return gradient;
}

static void kept_values_change_nothing(void **state) {
    (void)state;
    for (unsigned c = 0; c < 6; c++) {
        struct fixture fixture;
        float *gradient = open_dropping(&fixture, c, 3);
        for (unsigned phase = gnn_network_gathers(&fixture.network) + 1; phase < gnn_network_phases(&fixture.network);
             phase++) {
            forget(&fixture);
            gnn_local_phase(&fixture.local, phase);
        }
        for (unsigned phase = 0; phase <= gnn_network_gathers(&fixture.network); phase++) {
            forget(&fixture);
            gnn_local_phase(&fixture.local, phase);
        }
        assert_memory_equal(gradient, fixture.local.thread.gradient, fixture.network.parameters * sizeof *gradient);
        free(gradient);
        close_fixture(&fixture);
    }
}

/* With all vertices in one interval no row is old. */
static void a_pass_of_one_interval_is_exact(void **state) {
    (void)state;
    for (unsigned c = 0; c < 6; c++) {
        struct fixture fixture;
        float *gradient = open_dropping(&fixture, c, 1);
        size_t count = fixture.network.parameters;
        gnn_local_pass(&fixture.local, true);
        for (size_t p = 0; p < count; p++) {
            assert_true(fabsf(gradient[p] - fixture.local.thread.gradient[p]) < 1e-6F + 1e-4F * fabsf(gradient[p]));
        }
        free(gradient);
        close_fixture(&fixture);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_loss), cmocka_unit_test(gradients_with_dropout),
        cmocka_unit_test(intervals_change_nothing),        cmocka_unit_test(kept_values_change_nothing),
        cmocka_unit_test(a_pass_of_one_interval_is_exact),
    };
    nn_blas_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
