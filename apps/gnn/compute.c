/* See compute.h. */
#include "apps/gnn/compute.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "apps/nn/layers.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRAINING, EVALUATION /* without dropout */ };

enum space {
    SPACE_VALUES,   /* features after dropout */
    SPACE_Z,        /* a layer's values before act */
    SPACE_MADE,     /* H W, or its gradient */
    SPACE_DH,       /* the gradient by H of the layer below */
    SPACE_HIDDEN,   /* H without dropout, where it is not kept */
    SPACE_ATTENDED, /* gat: o[own][pitch], then l, m, q, c and dl [own][heads] */
    SPACE_DR,       /* gat: [own][heads] */
    SPACE_PLACES    /* gat: [own + ghosts] of uint32_t */
};

/* The work on an interval in a clock. */
struct work {
    const struct gnn_clock *clock;
    const struct gnn_network *network;
    const struct gnn_task *task;
    const struct interval *interval;
    struct gnn_thread *thread;
    struct nn_rows forward[GNN_LAYERS_MAX + 1][2], backward[GNN_LAYERS_MAX + 1]; /* what tasks gather from */
    uint64_t latest;   /* values in the memo count if they were made up to this clock */
    unsigned attended; /* the layer whose attention is in SPACE_ATTENDED; 0: none */
};

void gnn_memo_close(struct gnn_memo *memo) {
    for (unsigned l = 0; l <= GNN_LAYERS_MAX; l++) {
        free(memo->hidden[l].values[TRAINING]);
        free(memo->hidden[l].values[EVALUATION]);
    }
    *memo = (struct gnn_memo){0};
}

void gnn_thread_close(struct gnn_thread *thread) {
    for (size_t s = 0; s < sizeof thread->spaces / sizeof *thread->spaces; s++) {
        free(thread->spaces[s].values);
    }
    free(thread->gradient);
    *thread = (struct gnn_thread){0};
}

/* Returns workspace of at least `floats` floats, with any contents. */
static float *space(const struct work *work, enum space which, size_t floats) {
    struct gnn_workspace *workspace = &work->thread->spaces[which];
    if (workspace->room < floats) {
        free(workspace->values);
        workspace->values = memory_resized(NULL, floats, sizeof(float));
        workspace->room = floats;
    }
    return workspace->values;
}

static struct nn_matrix matrix(const float *values, size_t pitch) {
    return (struct nn_matrix){.values = (float *)(uintptr_t)values, .pitch = pitch};
}

static const struct gnn_layer *layer_of(const struct work *work, unsigned l) {
    return &work->network->layers[l];
}

/* ---- Rows ---- */

static const float *row_of(const struct nn_rows *rows, uint32_t i) {
    size_t at = rows->slots != NULL ? rows->slots[i] : i;
    return (const float *)(const void *)(rows->base + at * rows->stride);
}

/* Makes tasks gather from the rows of the tables. */
static void see_tables(struct work *work) {
    const struct gnn_clock *clock = work->clock;
    size_t local = (size_t)work->interval->own + work->interval->ghosts;
    const uint32_t *slots = work->task->slots;
    for (unsigned l = work->network->gathered; l <= work->network->count; l++, slots += 2 * local) {
        const struct aml_rows *forward = &clock->forward[l];
        const struct aml_rows *backward = &clock->backward[l];
        size_t second =
            gnn_drops(clock->dropout, clock->attention_dropout) ? layer_of(work, l)->message * sizeof(float) : 0;
        work->forward[l][TRAINING] = (struct nn_rows){forward->base, forward->stride, slots};
        work->forward[l][EVALUATION] = (struct nn_rows){forward->base + second, forward->stride, slots};
        work->backward[l] = (struct nn_rows){backward->base, backward->stride, slots + local};
    }
}

static struct work begin_work(const struct gnn_clock *clock, const struct gnn_task *task, struct gnn_thread *thread,
                              uint64_t latest) {
    struct work work = {.clock = clock,
                        .latest = latest,
                        .network = clock->network,
                        .task = task,
                        .interval = &task->interval,
                        .thread = thread};
    if (task->memo->pass != clock->pass || latest == 0) {
        for (unsigned l = 0; l <= GNN_LAYERS_MAX; l++) {
            task->memo->hidden[l].made[TRAINING] = task->memo->hidden[l].made[EVALUATION] = 0;
        }
        task->memo->pass = clock->pass;
    }
    see_tables(&work);
    return work;
}

/* Returns the sum of own vertex i's row of a table, which the caller adds to. */
static float *sum_of(const struct aml_rows *rows, const uint32_t *slots, uint32_t i) {
    rows->touched[slots[i]] = 1;
    return (float *)(void *)(rows->sums + slots[i] * rows->stride);
}

/* ---- Features ---- */

/* What dropout draws random numbers for: each has a sequence of its own. */
enum chance { CHANCE_FEATURES, CHANCE_AGGREGATED, CHANCE_ATTENTION, CHANCE_LAYERS };

/* Returns the features after dropout. */
static struct nn_features dropped_features(const struct work *work, const struct nn_features *features, int mode,
                                           enum chance which) {
    struct nn_features dropped = *features;
    assert(features->columns == layer_of(work, 1)->in);
    if (mode == TRAINING && work->clock->dropout > 0) {
        size_t count = features->dense ? (size_t)features->n * features->columns : features->offsets[features->n];
        float *values = space(work, SPACE_VALUES, count + 1);
        uint64_t key = hash_seeded(hash_seeded(work->clock->seed, which), work->clock->pass);
        work->clock->kernels->drop(features->values, count, hash_seeded(key, work->interval->number),
                                   work->clock->dropout, values);
        dropped.values = values;
    }
    return dropped;
}

/* y[own][pitch] = beta y + features w; beta 0 or 1. Uses `spare` with beta 1. */
static void multiply_features(const struct work *work, const struct nn_features *features, size_t w, float beta,
                              float *y, float *spare) {
    const struct gnn_layer *layer = layer_of(work, 1);
    const float *weights = work->clock->parameters + w;
    size_t count = features->n * layer->pitch;
    if (features->dense) {
        nn_multiply(features->n, features->columns, layer->pitch, matrix(features->values, features->columns),
                    matrix(weights, layer->pitch), beta, matrix(y, layer->pitch));
        return;
    }
    float *to = beta > 0 ? spare : y;
    work->clock->kernels->features_forward(features, weights, layer->pitch, layer->pitch, to, layer->pitch);
    for (size_t i = 0; beta > 0 && i < count; i++) {
        y[i] += spare[i];
    }
}

/* Adds features^T dy to the gradient of the matrix at `w`. */
static void add_features_gradient(const struct work *work, const struct nn_features *features, const float *dy,
                                  size_t w) {
    const struct gnn_layer *layer = layer_of(work, 1);
    float *gradient = work->thread->gradient + w;
    if (features->dense) {
        nn_multiply_weights(features->n, features->columns, layer->pitch, matrix(features->values, features->columns),
                            matrix(dy, layer->pitch), matrix(gradient, layer->pitch));
    } else {
        work->clock->kernels->features_weights(features, dy, layer->pitch, layer->pitch, gradient, layer->pitch);
    }
}

/* Returns the features that the first layer multiplies with W, after dropout. */
static struct nn_features first_features(const struct work *work, int mode) {
    return work->network->once ? dropped_features(work, &work->interval->aggregated, mode, CHANCE_AGGREGATED)
                               : dropped_features(work, &work->interval->features, mode, CHANCE_FEATURES);
}

/* Returns the features that sage's first layer multiplies with W', after dropout. Uses the workspace of
 * first_features. */
static struct nn_features self_features(const struct work *work, int mode) {
    return dropped_features(work, &work->interval->features, mode, CHANCE_FEATURES);
}

/* ---- Factors of the averages (graph.h): message and error rows have those of their own vertex ---- */

static uint32_t in_degree(const struct work *work, uint32_t i) {
    return work->interval->in.offsets[i + 1] - work->interval->in.offsets[i];
}

/* The factor of vertex i's message. */
static float message_factor(const struct work *work, uint32_t i) {
    return work->network->kind == GNN_GCN ? 1 / sqrtf((float)in_degree(work, i) + 1) : 1;
}

/* The factor of the sum that vertex i gathers. */
static float sum_factor(const struct work *work, uint32_t i) {
    uint32_t degree = in_degree(work, i);
    return work->network->kind == GNN_GCN    ? 1 / sqrtf((float)degree + 1)
           : work->network->kind == GNN_SAGE ? 1 / (float)(degree > 0 ? degree : 1)
                                             : 1;
}

/* ---- Attention ---- */

static struct nn_attention attention_of(const struct work *work, unsigned l, int mode) {
    const struct gnn_layer *layer = layer_of(work, l);
    const struct interval *interval = work->interval;
    struct nn_attention attention = {.heads = layer->heads, .width = layer->width, .slope = 0.2F};
    if (mode == TRAINING && work->clock->attention_dropout > 0) {
        size_t local = (size_t)interval->own + interval->ghosts;
        uint32_t *places = (uint32_t *)(void *)space(work, SPACE_PLACES, local + 1);
        for (uint32_t i = 0; i < interval->own; i++) {
            places[i] = interval->first + i;
        }
        if (interval->ghosts > 0) {
            memcpy(places + interval->own, interval->ghost_places, interval->ghosts * sizeof *places);
        }
        attention.drop = work->clock->attention_dropout;
        attention.key =
            hash_seeded(hash_seeded(hash_seeded(work->clock->seed, CHANCE_ATTENTION), work->clock->pass), l);
        attention.places = places;
    }
    return attention;
}

/* The parts of SPACE_ATTENDED. */
struct attended {
    float *o, *l, *m, *q, *c, *dl;
};

static struct attended attended_space(const struct work *work, unsigned l) {
    const struct gnn_layer *layer = layer_of(work, l);
    size_t own = work->interval->own;
    size_t each = own * layer->heads;
    struct attended at = {.o = space(work, SPACE_ATTENDED, own * layer->pitch + 5 * each + 1)};
    at.l = at.o + own * layer->pitch;
    at.m = at.l + each;
    at.q = at.m + each;
    at.c = at.q + each;
    at.dl = at.c + each;
    return at;
}

/* Adds the products of z and a vector, for each head, to sums[heads]. */
static void add_projections(const struct gnn_layer *layer, const float *z, const float *vector, float *sums) {
    for (uint32_t k = 0; k < layer->heads; k++) {
        float sum = 0;
        for (uint32_t f = 0; f < layer->width; f++) {
            sum += z[k * layer->width + f] * vector[k * layer->width + f];
        }
        sums[k] += sum;
    }
}

static struct attended attend(struct work *work, unsigned l, int mode) {
    const struct gnn_layer *layer = layer_of(work, l);
    struct nn_attention attention = attention_of(work, l, mode);
    struct attended at = attended_space(work, l);
    memset(at.l, 0, (size_t)work->interval->own * layer->heads * sizeof *at.l);
    for (uint32_t i = 0; i < work->interval->own; i++) {
        add_projections(layer, row_of(&work->forward[l][mode], i), work->clock->parameters + layer->left,
                        at.l + (size_t)i * layer->heads);
    }
    work->clock->kernels->attention_forward(&attention, &work->interval->in, &work->forward[l][mode], at.l, at.o,
                                            layer->pitch, at.m, at.q);
    work->attended = mode == TRAINING ? l : 0;
    return at;
}

/* Sets z[own][out_pitch] from the heads' sums: side by side, in the last layer their mean. */
static void join_heads(const struct work *work, unsigned l, const float *o, float *z) {
    const struct gnn_layer *layer = layer_of(work, l);
    if (l < work->network->count) {
        memcpy(z, o, work->interval->own * layer->pitch * sizeof *z);
        return;
    }
    for (uint32_t i = 0; i < work->interval->own; i++) {
        for (uint32_t f = 0; f < layer->out; f++) {
            float sum = 0;
            for (uint32_t k = 0; k < layer->heads; k++) {
                sum += o[i * layer->pitch + k * layer->width + f];
            }
            z[i * layer->out_pitch + f] = sum / (float)layer->heads;
        }
    }
}

/* ---- Forward ---- */

static const float *hidden(struct work *work, unsigned l, int mode);

/* y[own][pitch] = beta y + H_l-1 w. */
static void multiply(const struct work *work, unsigned l, const float *below, size_t w, float beta, float *y) {
    const struct gnn_layer *layer = layer_of(work, l);
    nn_multiply(work->interval->own, layer->in, layer->pitch, matrix(below, layer_of(work, l - 1)->out_pitch),
                matrix(work->clock->parameters + w, layer->pitch), beta, matrix(y, layer->pitch));
}

/* Sets z to the averages of the neighbours' messages of layer l. */
static void gather_messages(struct work *work, unsigned l, int mode, float *z) {
    const struct gnn_layer *layer = layer_of(work, l);
    const struct nn_rows *rows = &work->forward[l][mode];
    work->clock->kernels->gather(&work->interval->in, rows, layer->made, z, layer->pitch);
    for (uint32_t i = 0; i < work->interval->own; i++) {
        float factor = sum_factor(work, i);
        const float *own = row_of(rows, i);
        float self = work->network->kind == GNN_GCN ? 1 : 0;
        for (size_t f = 0; f < layer->made; f++) {
            z[i * layer->pitch + f] = factor * (z[i * layer->pitch + f] + self * own[f]);
        }
    }
}

/* Sets z to layer l's values before act, without what sage adds of the vertex itself. */
static void gather_layer(struct work *work, unsigned l, int mode, float *z) {
    if (l < work->network->gathered) {
        struct nn_features features = first_features(work, mode);
        multiply_features(work, &features, layer_of(work, l)->weights, 0, z, NULL);
    } else if (work->network->kind == GNN_GAT) {
        struct attended at = attend(work, l, mode);
        join_heads(work, l, at.o, z);
    } else {
        gather_messages(work, l, mode, z);
    }
}

/* Adds what sage takes of the vertex itself. */
static void add_self(struct work *work, unsigned l, int mode, const float *below, float *z) {
    const struct gnn_layer *layer = layer_of(work, l);
    if (l > 1) {
        multiply(work, l, below, layer->self, 1, z);
    } else {
        struct nn_features features = self_features(work, mode);
        multiply_features(work, &features, layer->self, 1, z,
                          space(work, SPACE_MADE, work->interval->own * layer->pitch + 1));
    }
}

/* Sets z[own][out_pitch] to layer l's values before act. */
static void before_act(struct work *work, unsigned l, int mode, float *z) {
    const struct gnn_layer *layer = layer_of(work, l);
    bool self = work->network->kind == GNN_SAGE;
    const float *below = self && l > 1 ? hidden(work, l - 1, mode) : NULL;
    const float *bias = work->clock->parameters + layer->bias;
    gather_layer(work, l, mode, z);
    if (self) {
        add_self(work, l, mode, below, z);
    }
    for (uint32_t i = 0; i < work->interval->own; i++) {
        float *row = z + i * layer->out_pitch;
        for (uint32_t f = 0; f < layer->out; f++) {
            row[f] += bias[f];
        }
        memset(row + layer->out, 0, (layer->out_pitch - layer->out) * sizeof *row);
    }
}

/* Returns the last layer's values, [own][out_pitch], in SPACE_Z. */
static float *logits_of(struct work *work, int mode) {
    const struct gnn_layer *layer = layer_of(work, work->network->count);
    float *z = space(work, SPACE_Z, work->interval->own * layer->out_pitch + 1);
    before_act(work, work->network->count, mode, z);
    return z;
}

static void activate(const struct work *work, float *values, size_t count) {
    if (work->network->kind != GNN_GAT) {
        nn_relu_forward(values, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = values[i] < 0 ? expm1f(values[i]) : values[i];
    }
}

/* Sets values[own][out_pitch] to H_l of own vertices; for training after dropout. */
static void compute_hidden(struct work *work, unsigned l, int mode, float *values) {
    const struct gnn_clock *clock = work->clock;
    size_t count = work->interval->own * layer_of(work, l)->out_pitch;
    before_act(work, l, mode, values);
    activate(work, values, count);
    if (mode == TRAINING && clock->dropout > 0) {
        uint64_t key =
            hash_seeded(hash_seeded(hash_seeded(clock->seed, CHANCE_LAYERS + l), clock->pass), work->interval->number);
        clock->kernels->drop(values, count, key, clock->dropout, values);
    }
}

/* Returns H_l, from the memo or computed. Values without dropout are used again only by sage. */
static const float *hidden(struct work *work, unsigned l, int mode) {
    struct gnn_hidden *kept = &work->task->memo->hidden[l];
    size_t floats = work->interval->own * layer_of(work, l)->out_pitch + 1;
    if (mode == EVALUATION && work->network->kind != GNN_SAGE) {
        float *values = space(work, SPACE_HIDDEN, floats);
        compute_hidden(work, l, mode, values);
        return values;
    }
    if (kept->made[mode] == 0 || kept->made[mode] > work->latest) {
        if (kept->values[mode] == NULL) {
            kept->values[mode] = memory_resized(NULL, floats, sizeof(float));
        }
        compute_hidden(work, l, mode, kept->values[mode]);
        kept->made[mode] = work->clock->number;
    }
    return kept->values[mode];
}

/* ---- Messages ---- */

/* Returns H_l-1 W: [own][pitch], in SPACE_MADE. */
static const float *make_products(struct work *work, unsigned l, int mode) {
    const struct gnn_layer *layer = layer_of(work, l);
    const float *below = l > 1 ? hidden(work, l - 1, mode) : NULL;
    float *made = space(work, SPACE_MADE, work->interval->own * layer->pitch + 1);
    if (l > 1) {
        multiply(work, l, below, layer->weights, 0, made);
    } else {
        struct nn_features features = first_features(work, mode);
        multiply_features(work, &features, layer->weights, 0, made, NULL);
    }
    return made;
}

static const uint32_t *slots_of(const struct work *work, unsigned l, bool backward) {
    size_t local = (size_t)work->interval->own + work->interval->ghosts;
    return work->task->slots + (2 * (l - work->network->gathered) + (backward ? 1U : 0U)) * local;
}

/* Makes the messages of layer l. */
static void make_messages(struct work *work, unsigned l, int mode) {
    const struct gnn_layer *layer = layer_of(work, l);
    const struct aml_rows *rows = &work->clock->forward[l];
    const uint32_t *slots = slots_of(work, l, false);
    const float *made = make_products(work, l, mode);
    size_t from = mode == TRAINING ? 0 : layer->message;
    for (uint32_t i = 0; i < work->interval->own; i++) {
        float *sum = sum_of(rows, slots, i) + from;
        const float *values = made + i * layer->pitch;
        float factor = message_factor(work, i);
        for (uint32_t f = 0; f < layer->made; f++) {
            sum[f] += factor * values[f];
        }
        if (work->network->kind == GNN_GAT) {
            add_projections(layer, values, work->clock->parameters + layer->right, sum + layer->made);
        }
    }
}

/* ---- Backward ---- */

/* Adds the sums of the columns of values[own][pitch] to the gradient at `at`. */
static void add_sums(const struct work *work, const float *values, size_t pitch, size_t width, size_t at) {
    float *gradient = work->thread->gradient + at;
    for (uint32_t i = 0; i < work->interval->own; i++) {
        for (size_t f = 0; f < width; f++) {
            gradient[f] += values[i * pitch + f];
        }
    }
}

/* Makes the errors of gat. c and dl are computed here, as the attention of layer l is at hand. */
static void make_attention_errors(struct work *work, unsigned l, const float *dz) {
    const struct gnn_layer *layer = layer_of(work, l);
    struct attended at = work->attended == l ? attended_space(work, l) : attend(work, l, TRAINING);
    struct nn_attention attention = attention_of(work, l, TRAINING);
    uint32_t own = work->interval->own;
    uint32_t heads = layer->heads;
    bool last = l == work->network->count;
    float *d_o = space(work, SPACE_MADE, own * layer->pitch + 1);
    memset(d_o, 0, own * layer->pitch * sizeof *d_o);
    for (uint32_t i = 0; i < own; i++) {
        for (uint32_t k = 0; k < heads; k++) {
            float sum = 0;
            for (uint32_t f = 0; f < layer->width; f++) {
                size_t place = i * layer->pitch + k * layer->width + f;
                d_o[place] = last ? dz[i * layer->out_pitch + f] / (float)heads : dz[place];
                sum += d_o[place] * at.o[place];
            }
            at.c[(size_t)i * heads + k] = sum;
        }
    }
    work->clock->kernels->attention_left(&attention, &work->interval->in, &work->forward[l][TRAINING], at.l, at.m, at.q,
                                         at.c, d_o, layer->pitch, at.dl);
    const float *parts[] = {at.l, at.m, at.q, at.c, at.dl};
    for (uint32_t i = 0; i < own; i++) {
        float *sum = sum_of(&work->clock->backward[l], slots_of(work, l, true), i);
        for (uint32_t f = 0; f < layer->made; f++) {
            sum[f] += d_o[i * layer->pitch + f];
        }
        for (uint32_t k = 0; k < 5 * heads; k++) {
            sum[layer->made + k] += parts[k / heads][(size_t)i * heads + k % heads];
        }
    }
}

/* Makes the errors of layer l from dz[own][out_pitch], the gradient by its values before act. */
static void make_errors(struct work *work, unsigned l, const float *dz) {
    const struct gnn_layer *layer = layer_of(work, l);
    if (work->network->kind == GNN_GAT) {
        make_attention_errors(work, l, dz);
        return;
    }
    for (uint32_t i = 0; i < work->interval->own; i++) {
        float *sum = sum_of(&work->clock->backward[l], slots_of(work, l, true), i);
        float factor = sum_factor(work, i);
        for (uint32_t f = 0; f < layer->made; f++) {
            sum[f] += factor * dz[i * layer->out_pitch + f];
        }
    }
}

/* Sets dz[own][out_pitch] from own error rows: the gradient by layer l's values before act. */
static void own_errors(const struct work *work, unsigned l, float *dz) {
    const struct gnn_layer *layer = layer_of(work, l);
    bool last = l == work->network->count && work->network->kind == GNN_GAT;
    memset(dz, 0, work->interval->own * layer->out_pitch * sizeof *dz);
    for (uint32_t i = 0; i < work->interval->own; i++) {
        const float *row = row_of(&work->backward[l], i);
        float factor = last ? (float)layer->heads : 1 / sum_factor(work, i);
        for (uint32_t f = 0; f < layer->out; f++) {
            dz[i * layer->out_pitch + f] = factor * row[f];
        }
    }
}

/* gat: sets made[own][pitch] to the gradient by z = H W, and adds to that of both vectors of the attention. */
static void gather_attention(struct work *work, unsigned l, float *made) {
    const struct gnn_layer *layer = layer_of(work, l);
    struct nn_attention attention = attention_of(work, l, TRAINING);
    const float *left = work->clock->parameters + layer->left;
    const float *right = work->clock->parameters + layer->right;
    float *dr = space(work, SPACE_DR, (size_t)work->interval->own * layer->heads + 1);
    work->clock->kernels->attention_backward(&attention, &work->interval->out, &work->backward[l],
                                             &work->forward[l][TRAINING], made, layer->pitch, dr);
    for (uint32_t i = 0; i < work->interval->own; i++) {
        const float *z = row_of(&work->forward[l][TRAINING], i);
        const float *dl = row_of(&work->backward[l], i) + layer->made + 4 * (size_t)layer->heads;
        float *row = made + i * layer->pitch;
        for (uint32_t k = 0; k < layer->heads; k++) {
            float d_right = dr[(size_t)i * layer->heads + k];
            for (size_t f = (size_t)k * layer->width; f < ((size_t)k + 1) * layer->width; f++) {
                row[f] += dl[k] * left[f] + d_right * right[f];
                work->thread->gradient[layer->left + f] += dl[k] * z[f];
                work->thread->gradient[layer->right + f] += d_right * z[f];
            }
        }
        memset(row + layer->made, 0, (layer->pitch - layer->made) * sizeof *row);
    }
}

/* Sets made[own][pitch] to the gradient by H W of layer l. */
static void gather_errors(struct work *work, unsigned l, float *made) {
    const struct gnn_layer *layer = layer_of(work, l);
    if (work->network->kind == GNN_GAT) {
        gather_attention(work, l, made);
        return;
    }
    work->clock->kernels->gather(&work->interval->out, &work->backward[l], layer->made, made, layer->pitch);
    for (uint32_t i = 0; i < work->interval->own; i++) {
        float factor = message_factor(work, i);
        float self = work->network->kind == GNN_GCN ? 1 : 0;
        const float *own = row_of(&work->backward[l], i);
        float *row = made + i * layer->pitch;
        for (size_t f = 0; f < layer->made; f++) {
            row[f] = factor * (row[f] + self * own[f]);
        }
        memset(row + layer->made, 0, (layer->pitch - layer->made) * sizeof *row);
    }
}

/* Turns the gradient by H_l after dropout, whose values are given, into that by the values before act. A value that
 * is 0 was dropped, or relu made it 0. */
static void differentiate_act(const struct work *work, unsigned l, const float *values, float *dh) {
    float factor = 1 / (1 - work->clock->dropout);
    float zero = work->network->kind == GNN_GAT && work->clock->dropout <= 0 ? 1 : 0; /* elu's derivative at 0 */
    size_t count = work->interval->own * layer_of(work, l)->out_pitch;
    for (size_t i = 0; i < count; i++) {
        float slope = values[i] > 0 ? 1 : values[i] < 0 ? values[i] / factor + 1 : zero;
        dh[i] *= slope * factor;
    }
}

/* Gradients of the first layer's parameters, from dz[own][out_pitch] by its values before act; `made` by H W. */
static void add_first_gradients(struct work *work, const float *made, const float *dz) {
    const struct gnn_layer *layer = layer_of(work, 1);
    struct nn_features features = first_features(work, TRAINING);
    add_features_gradient(work, &features, made, layer->weights);
    if (work->network->kind == GNN_SAGE) {
        features = self_features(work, TRAINING);
        add_features_gradient(work, &features, dz, layer->self);
    }
    add_sums(work, dz, layer->out_pitch, layer->out, layer->bias);
}

/* Gathers the errors of layer l, adds its gradients, and makes the errors of the layer below. Returns false if that
 * layer gathers nothing. */
static bool go_back(struct work *work, unsigned l) {
    const struct gnn_layer *layer = layer_of(work, l);
    const struct gnn_layer *before = layer_of(work, l - 1);
    size_t own = work->interval->own;
    if (l == 1) {
        float *dz = space(work, SPACE_Z, own * layer->out_pitch + 1);
        float *made = space(work, SPACE_MADE, own * layer->pitch + 1);
        gather_errors(work, l, made);
        own_errors(work, l, dz);
        add_first_gradients(work, made, dz);
        return false;
    }
    const float *below = hidden(work, l - 1, TRAINING);
    float *dz = space(work, SPACE_Z, own * layer->out_pitch + 1);
    float *made = space(work, SPACE_MADE, own * layer->pitch + 1);
    float *dh = space(work, SPACE_DH, own * before->out_pitch + 1);
    gather_errors(work, l, made);
    own_errors(work, l, dz);
    add_sums(work, dz, layer->out_pitch, layer->out, layer->bias);
    memset(dh, 0, own * before->out_pitch * sizeof *dh);
    const struct nn_matrix h = matrix(below, before->out_pitch);
    const struct nn_matrix to = matrix(dh, before->out_pitch);
    const size_t parts[] = {layer->weights, layer->self};
    for (unsigned p = 0; p < (work->network->kind == GNN_SAGE ? 2U : 1U); p++) {
        struct nn_matrix dy = matrix(p == 0 ? made : dz, layer->pitch);
        nn_multiply_weights(own, layer->in, layer->pitch, h, dy,
                            matrix(work->thread->gradient + parts[p], layer->pitch));
        nn_multiply_inputs(own, layer->in, layer->pitch, dy, matrix(work->clock->parameters + parts[p], layer->pitch),
                           p == 0 ? 0 : 1, to);
    }
    differentiate_act(work, l - 1, below, dh);
    if (l - 1 >= work->network->gathered) {
        make_errors(work, l - 1, dh);
        return true;
    }
    add_first_gradients(work, dh, dh);
    return false;
}

/* Turns the last layer's values z into the gradient of the mean loss. */
static void differentiate_loss(const struct work *work, float *z) {
    const struct gnn_layer *layer = layer_of(work, work->network->count);
    float scale = (float)(1 / work->clock->train);
    for (uint32_t i = 0; i < work->interval->own; i++) {
        float *row = z + i * layer->out_pitch;
        if (work->interval->splits[i] != GRAPH_TRAIN) {
            memset(row, 0, layer->out * sizeof *row);
            continue;
        }
        uint32_t label = (uint32_t)work->interval->labels[i];
        struct nn_loss loss = {0};
        nn_softmax_forward(row, &label, 1, layer->out, &loss);
        nn_softmax_backward(row, &label, 1, layer->out);
        for (uint32_t f = 0; f < layer->out; f++) {
            row[f] *= scale;
        }
    }
}

/* ---- Tasks ---- */

void gnn_phase(const struct gnn_clock *clock, unsigned phase, const struct gnn_task *task, struct gnn_thread *thread) {
    struct work work = begin_work(clock, task, thread, clock->number - 1);
    unsigned gathers = gnn_network_gathers(clock->network);
    if (phase > gathers) {
        unsigned l = clock->network->gathered + phase - gathers - 1;
        make_messages(&work, l, TRAINING);
        if (gnn_drops(clock->dropout, clock->attention_dropout)) {
            make_messages(&work, l, EVALUATION);
        }
    } else if (clock->pass > 0 && phase == 0) {
        float *z = logits_of(&work, TRAINING);
        differentiate_loss(&work, z);
        make_errors(&work, clock->network->count, z);
    } else if (clock->pass > 0) {
        go_back(&work, clock->network->count - phase + 1);
    }
}

/* ---- A pass in one clock ---- */

/* Sets what tasks gather from, a part of `width` floats of rows from float `first` on, to a copy: own rows that this
 * clock has made, and the table's rows of ghosts. */
static void see_fresh(const struct work *work, struct nn_rows *view, const struct aml_rows *rows, size_t first,
                      size_t width, float **copy) {
    const struct interval *interval = work->interval;
    size_t local = (size_t)interval->own + interval->ghosts;
    size_t bytes = width * sizeof(float);
    *copy = memory_resized(*copy, local * width + 4, sizeof(float));
    for (uint32_t i = 0; i < local; i++) {
        const unsigned char *row = (i < interval->own ? rows->sums : rows->base) + view->slots[i] * rows->stride;
        memcpy(*copy + i * width, row + first * sizeof(float), bytes);
    }
    *view = (struct nn_rows){.base = (const unsigned char *)*copy, .stride = bytes};
}

void gnn_pass(const struct gnn_clock *clock, bool learn, const struct gnn_task *task, struct gnn_thread *thread) {
    struct work work = begin_work(clock, task, thread, 0);
    float *copies[3 * (GNN_LAYERS_MAX + 1)] = {NULL};
    unsigned count = clock->network->count;
    work.latest = clock->number; /* nothing of earlier clocks is left */
    for (unsigned l = clock->network->gathered; l <= count; l++) {
        for (int mode = TRAINING; mode <= (gnn_drops(clock->dropout, clock->attention_dropout) ? EVALUATION : TRAINING);
             mode++) {
            size_t message = layer_of(&work, l)->message;
            make_messages(&work, l, mode);
            see_fresh(&work, &work.forward[l][mode], &clock->forward[l], mode == TRAINING ? 0 : message, message,
                      &copies[3 * l + (unsigned)mode]);
        }
    }
    if (learn) {
        float *z = logits_of(&work, TRAINING);
        differentiate_loss(&work, z);
        make_errors(&work, count, z);
        unsigned l = count;
        bool below = true;
        for (; below; l--) {
            see_fresh(&work, &work.backward[l], &clock->backward[l], 0, layer_of(&work, l)->error, &copies[3 * l + 2]);
            below = go_back(&work, l);
        }
    }
    for (size_t c = 0; c < sizeof copies / sizeof *copies; c++) {
        free(copies[c]);
    }
}

/* ---- Evaluation ---- */

/* Returns the loss of a vertex's logits, and whether its label's is the greatest. */
static double score(const float *logits, uint32_t classes, uint32_t label, bool *correct) {
    uint32_t best = 0;
    double sum = 0;
    for (uint32_t f = 1; f < classes; f++) {
        best = logits[f] > logits[best] ? f : best;
    }
    for (uint32_t f = 0; f < classes; f++) {
        sum += exp((double)logits[f] - (double)logits[best]);
    }
    *correct = best == label;
    return log(sum) - ((double)logits[label] - (double)logits[best]);
}

void gnn_evaluate(const struct gnn_clock *clock, const struct gnn_task *task, struct gnn_thread *thread, float *logits,
                  struct gnn_score scores[4]) {
    struct work work = begin_work(clock, task, thread, clock->number);
    const struct gnn_layer *layer = layer_of(&work, clock->network->count);
    const float *z = logits_of(&work, gnn_drops(clock->dropout, clock->attention_dropout) ? EVALUATION : TRAINING);
    for (uint32_t i = 0; i < task->interval.own; i++) {
        unsigned split = task->interval.splits[i];
        bool correct;
        if (split != GRAPH_UNUSED && task->interval.labels[i] >= 0) {
            scores[split].loss +=
                score(z + i * layer->out_pitch, layer->out, (uint32_t)task->interval.labels[i], &correct);
            scores[split].correct += correct ? 1 : 0;
            scores[split].vertices++;
        }
    }
    if (logits != NULL) {
        memcpy(logits, z, task->interval.own * layer->out_pitch * sizeof *logits);
    }
}
