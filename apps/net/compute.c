/* See compute.h. */
#include "apps/net/compute.h"

#include "agileml/base/hash.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Samples that pass together through the layers before the first dense one: few enough for a processor's cache, but
 * enough for large products. */
enum { TOGETHER = 2, ALIGNMENT = 64 };

static size_t larger(size_t one, size_t other) {
    return one > other ? one : other;
}

/* ---- Memory ---- */

static void *room_of(size_t count, size_t size, bool *failed) {
    void *memory = aligned_alloc(ALIGNMENT, (count * size + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
    *failed = *failed || memory == NULL;
    return memory;
}

/* Whether layer `l` works in place. The batch's samples must not change. */
static bool in_place(const struct network *network, size_t l) {
    enum network_kind kind = network->layers[l].kind;
    return l > 0 && (kind == NETWORK_RELU || kind == NETWORK_DROPOUT);
}

/* Whether only the pool after layer `l` needs the layer's output. */
static bool is_passing(const struct network *network, size_t l) {
    enum network_kind kind = network->layers[l].kind;
    return (kind == NETWORK_CONV || kind == NETWORK_NORM) && l + 1 < network->count &&
           network->layers[l + 1].kind == NETWORK_POOL;
}

static void lay_out(struct compute *compute, const struct network *network) {
    compute->network = network;
    compute->first_dense = network->count;
    compute->first_trained = network_first_trained(network);
    for (size_t l = network->count; l-- > 0;) {
        bool dense = network->layers[l].kind == NETWORK_DENSE;
        compute->first_dense = dense ? l : compute->first_dense;
        compute->own_first[l] = compute->own_parameters;
        compute->own_parameters += dense ? 0 : network->layers[l].parameters;
    }
}

/* Makes room for the bits of the first trained layer's inputs, if it may skip zeros. */
static void room_for_bits(struct compute *compute, size_t samples, bool *failed) {
    const struct network_layer *layer = &compute->network->layers[compute->first_trained];
    struct nn_dense dense = network_dense(layer);
    compute->sparse = nn_sparses[vectors_wide()];
    if (layer->kind == NETWORK_DENSE && nn_sparse_pays(&dense, samples, 0)) {
        compute->bits = room_of(samples * nn_sparse_words(dense.in), sizeof *compute->bits, failed);
    }
}

static void room_for_thread(const struct compute *compute, struct compute_thread *thread, bool *failed) {
    const struct network *network = compute->network;
    size_t values = 1;
    size_t errors = 1;
    size_t workspace = 1;
    for (size_t l = 0; l < compute->first_dense; l++) {
        const struct network_layer *layer = &network->layers[l];
        struct nn_conv conv = network_conv(layer);
        values = larger(values, is_passing(network, l) ? network_values(&layer->out) : 0);
        errors = larger(errors, larger(network_values(&layer->in), network_values(&layer->out)));
        workspace = larger(workspace, layer->kind == NETWORK_CONV ? nn_conv_workspace(&conv, 1) : 0);
    }
    thread->values = room_of(TOGETHER * values, sizeof(float), failed);
    thread->errors[0] = room_of(TOGETHER * errors, sizeof(float), failed);
    thread->errors[1] = room_of(TOGETHER * errors, sizeof(float), failed);
    thread->workspace = room_of(TOGETHER * workspace, sizeof(float), failed);
    thread->gradient = room_of(compute->own_parameters, sizeof(float), failed);
    if (thread->gradient != NULL) {
        memset(thread->gradient, 0, compute->own_parameters * sizeof(float));
    }
}

int compute_room(struct compute *compute, const struct network *network, size_t samples, unsigned threads,
                 struct error *error) {
    bool failed = false;
    compute_close(compute);
    lay_out(compute, network);
    compute->room = samples;
    compute->threads = threads;
    compute->thread = room_of(threads, sizeof *compute->thread, &failed);
    if (!failed) {
        memset(compute->thread, 0, threads * sizeof *compute->thread);
    }
    for (unsigned t = 0; t < threads && !failed; t++) {
        room_for_thread(compute, &compute->thread[t], &failed);
    }
    for (size_t l = 0; l < network->count && !failed; l++) {
        const struct network_layer *layer = &network->layers[l];
        size_t out = network_values(&layer->out);
        if (!in_place(network, l) && !is_passing(network, l)) {
            compute->values[l] = room_of(samples * out, sizeof(float), &failed);
        }
        if (layer->kind == NETWORK_POOL) {
            compute->places[l] = room_of(samples * out, 1, &failed);
        }
        if (layer->kind == NETWORK_DENSE && l > compute->first_trained) {
            compute->errors[l] = room_of(samples * network_values(&layer->in), sizeof(float), &failed);
        }
    }
    if (!failed) {
        room_for_bits(compute, samples, &failed);
    }
    if (failed) {
        compute_close(compute);
        return error_set(error, AML_ENOMEM, "no memory for the layers' values of %zu samples: use a smaller --batch",
                         samples);
    }
    return 0;
}

void compute_close(struct compute *compute) {
    for (unsigned t = 0; compute->thread != NULL && t < compute->threads; t++) {
        struct compute_thread *thread = &compute->thread[t];
        free(thread->values);
        free(thread->errors[0]);
        free(thread->errors[1]);
        free(thread->workspace);
        free(thread->gradient);
    }
    for (size_t l = 0; l < NETWORK_LAYERS_MAX; l++) {
        free(compute->values[l]);
        free(compute->places[l]);
        free(compute->errors[l]);
    }
    free(compute->bits);
    free(compute->thread);
    *compute = (struct compute){0};
}

/* ---- Forward ---- */

/* Samples of a batch: first..first + count - 1. */
struct span {
    size_t first, count;
};

static struct span span_of_thread(const struct compute *compute, const struct compute_batch *batch, unsigned thread) {
    size_t first = batch->count * thread / compute->threads;
    return (struct span){.first = first, .count = batch->count * (thread + 1) / compute->threads - first};
}

/* Values of samples; sample s is values[s * stride]. */
struct values {
    float *values;
    size_t stride;
};

/* Returns where the output of layer `l` is, for the span's samples. */
static struct values values_behind(const struct compute *compute, size_t l, const struct compute_thread *thread,
                                   struct span span) {
    size_t size = network_values(&compute->network->layers[l].out);
    while (in_place(compute->network, l)) {
        l--;
    }
    if (compute->values[l] == NULL) {
        return (struct values){.values = thread->values, .stride = size};
    }
    return (struct values){.values = compute->values[l] + span.first * size, .stride = size};
}

/* Returns where the input of layer `l` is, for the span's samples. The first layer's input is the batch's samples,
 * which must not change. */
static struct values values_before(const struct compute *compute, size_t l, const struct compute_thread *thread,
                                   const struct compute_batch *batch, struct span span) {
    if (l > 0) {
        return values_behind(compute, l - 1, thread, span);
    }
    return (struct values){.values = (float *)(uintptr_t)(batch->samples + span.first * batch->stride),
                           .stride = batch->stride};
}

static void copy_values(struct values from, size_t count, size_t size, float *to) {
    for (size_t s = 0; s < count; s++) {
        memcpy(to + s * size, from.values + s * from.stride, size * sizeof *to);
    }
}

static void drop_values(const struct compute_batch *batch, size_t l, const struct network_layer *layer,
                        struct span span, float *values) {
    size_t size = network_values(&layer->out);
    for (size_t s = 0; s < span.count && batch->keys != NULL; s++) {
        nn_dropout(values + s * size, size, hash_mix(batch->keys[span.first + s] + l), layer->drop);
    }
}

static void norm_values(const struct network_layer *layer, struct values x, const float *scales, size_t count,
                        float *y) {
    size_t channels = layer->in.channels;
    size_t rows = network_values(&layer->in) / channels;
    for (size_t s = 0; s < count; s++) {
        nn_norm_forward(x.values + s * x.stride, scales, rows, channels, y + s * rows * channels);
    }
}

/* Returns the bits of the inputs of layer `l`, for samples from `first` on; NULL if the layer does not skip zeros. */
static uint64_t *bits_before(const struct compute *compute, size_t l, size_t first) {
    size_t in = network_values(&compute->network->layers[l].in);
    return compute->bits != NULL && l == compute->first_trained ? compute->bits + first * nn_sparse_words(in) : NULL;
}

static void dense_forward(const struct compute *compute, size_t l, struct values x, const float *w, struct span span,
                          struct compute_thread *thread, float *y) {
    struct nn_dense dense = network_dense(&compute->network->layers[l]);
    uint64_t *bits = bits_before(compute, l, span.first);
    if (bits != NULL) {
        thread->nonzeros = compute->sparse.find(&dense, x.values, x.stride, span.count, bits);
    }
    if (bits != NULL && nn_sparse_pays(&dense, span.count, thread->nonzeros)) {
        compute->sparse.forward(&dense, x.values, x.stride, bits, w, span.count, y);
    } else {
        nn_blas.dense_forward(&dense, x.values, x.stride, w, span.count, y);
    }
}

static void layer_forward(const struct compute *compute, size_t l, const float *parameters,
                          const struct compute_batch *batch, struct compute_thread *thread, struct span span) {
    const struct network_layer *layer = &compute->network->layers[l];
    const float *w = parameters + layer->first;
    struct values x = values_before(compute, l, thread, batch, span);
    float *y = values_behind(compute, l, thread, span).values;
    struct nn_conv conv = network_conv(layer);
    struct nn_pool pool = network_pool(layer);
    size_t size = network_values(&layer->out);
    switch (layer->kind) {
    case NETWORK_CONV:
        nn_blas.conv_forward(&conv, x.values, x.stride, w, span.count, thread->workspace, y);
        break;
    case NETWORK_POOL:
        for (size_t s = 0; s < span.count; s++) {
            nn_pool_forward(&pool, x.values + s * x.stride, 1, y + s * size,
                            compute->places[l] + (span.first + s) * size);
        }
        break;
    case NETWORK_DENSE:
        dense_forward(compute, l, x, w, span, thread, y);
        break;
    case NETWORK_NORM:
        norm_values(layer, x, w, span.count, y);
        break;
    case NETWORK_RELU:
        nn_relu_forward(y, span.count * size);
        break;
    case NETWORK_DROPOUT:
        if (x.values != y) {
            copy_values(x, span.count, size, y);
        }
        drop_values(batch, l, layer, span, y);
        break;
    }
}

void compute_forward(struct compute *compute, const float *parameters, const struct compute_batch *batch,
                     unsigned thread) {
    const struct network *network = compute->network;
    struct compute_thread *own = &compute->thread[thread];
    struct span all = span_of_thread(compute, batch, thread);
    assert(batch->count <= compute->room);
    for (size_t done = 0; done < all.count && compute->first_dense > 0; done += TOGETHER) {
        size_t left = all.count - done;
        struct span few = {.first = all.first + done, .count = left < TOGETHER ? left : TOGETHER};
        for (size_t l = 0; l < compute->first_dense; l++) {
            layer_forward(compute, l, parameters, batch, own, few);
        }
    }
    for (size_t l = compute->first_dense; l < network->count; l++) {
        layer_forward(compute, l, parameters, batch, own, all);
    }
    float *logits = values_behind(compute, network->count - 1, own, all).values;
    nn_softmax_forward(logits, batch->labels + all.first, all.count, network->classes, &own->loss);
}

/* ---- Backward ---- */

/* Propagates the errors dy from the output of layer `l` to its input. Returns the errors of the input, which may be
 * in place of dy; NULL if no earlier layer has parameters. `to` is room for them. */
static float *layer_backward(const struct compute *compute, size_t l, const float *parameters,
                             const struct compute_batch *batch, const struct compute_thread *thread, struct span span,
                             float *dy, float *to) {
    const struct network_layer *layer = &compute->network->layers[l];
    const float *w = parameters + layer->first;
    float *dw = thread->gradient + compute->own_first[l];
    struct values x = values_before(compute, l, thread, batch, span);
    struct nn_conv conv = network_conv(layer);
    struct nn_pool pool = network_pool(layer);
    struct nn_dense dense = network_dense(layer);
    size_t size = network_values(&layer->out);
    size_t channels = layer->out.channels;
    bool more = l > compute->first_trained;
    switch (layer->kind) {
    case NETWORK_CONV:
        nn_blas.conv_weights(&conv, x.values, x.stride, dy, span.count, thread->workspace, dw);
        if (more) {
            nn_blas.conv_inputs(&conv, dy, w, span.count, thread->workspace, to);
        }
        return more ? to : NULL;
    case NETWORK_POOL:
        nn_pool_backward(&pool, dy, compute->places[l] + span.first * size, span.count, to);
        return to;
    case NETWORK_DENSE:
        if (more) {
            nn_blas.dense_inputs(&dense, dy, w, span.count, to);
        }
        return more ? to : NULL;
    case NETWORK_NORM:
        for (size_t s = 0; s < span.count; s++) {
            nn_norm_backward(x.values + s * x.stride, w, dy + s * size, size / channels, channels, dw, dy + s * size);
        }
        return more ? dy : NULL;
    case NETWORK_RELU:
        nn_relu_backward(values_behind(compute, l, thread, span).values, dy, span.count * size);
        return dy;
    case NETWORK_DROPOUT:
        drop_values(batch, l, layer, span, dy);
        return dy;
    }
    return NULL;
}

void compute_backward(struct compute *compute, const float *parameters, const struct compute_batch *batch,
                      unsigned thread) {
    const struct network *network = compute->network;
    const struct compute_thread *own = &compute->thread[thread];
    struct span all = span_of_thread(compute, batch, thread);
    float *dy = values_behind(compute, network->count - 1, own, all).values;
    nn_softmax_backward(dy, batch->labels + all.first, all.count, network->classes);
    for (size_t l = network->count; l-- > compute->first_dense && dy != NULL;) {
        size_t in = network_values(&network->layers[l].in);
        float *to = compute->errors[l] != NULL ? compute->errors[l] + all.first * in : NULL;
        dy = layer_backward(compute, l, parameters, batch, own, all, dy, to);
    }
    for (size_t done = 0; done < all.count && compute->first_dense > 0 && dy != NULL; done += TOGETHER) {
        size_t left = all.count - done;
        struct span few = {.first = all.first + done, .count = left < TOGETHER ? left : TOGETHER};
        float *errors = dy + done * network_values(&network->layers[compute->first_dense].in);
        for (size_t l = compute->first_dense; l-- > 0 && errors != NULL;) {
            float *to = errors == own->errors[0] ? own->errors[1] : own->errors[0];
            errors = layer_backward(compute, l, parameters, batch, own, few, errors, to);
        }
    }
}

/* ---- Gradient ---- */

/* Returns the errors of a dense layer's output, after compute_backward. They are the next dense layer's input
 * errors, changed in place by the layers between. For the last layer they replace the probabilities. */
static const float *errors_behind(const struct compute *compute, size_t l) {
    for (size_t next = l + 1; next < compute->network->count; next++) {
        if (compute->errors[next] != NULL) {
            return compute->errors[next];
        }
    }
    return compute->values[compute->network->count - 1];
}

/* Adds the threads' sums, for the range first..end-1 of the layers' own parameters, to the target, and sets the sums
 * to zero. */
static void add_own(struct compute *compute, const struct network_layer *layer, size_t own, unsigned thread,
                    float scale, float *target) {
    size_t first = layer->parameters * thread / compute->threads;
    size_t end = layer->parameters * (thread + 1) / compute->threads;
    for (unsigned t = 0; t < compute->threads; t++) {
        float *gradient = compute->thread[t].gradient + own;
        for (size_t i = first; i < end; i++) {
            target[layer->first + i] += scale * gradient[i];
        }
        memset(gradient + first, 0, (end - first) * sizeof *gradient);
    }
}

/* Adds a thread's rows of a dense layer's gradient. */
static void dense_gradient(const struct compute *compute, const struct compute_batch *batch, size_t l, unsigned thread,
                           float scale, float *target) {
    const struct span all = {.first = 0, .count = batch->count};
    struct nn_dense dense = network_dense(&compute->network->layers[l]);
    struct values x = values_before(compute, l, NULL, batch, all);
    const float *dy = errors_behind(compute, l);
    const uint64_t *bits = bits_before(compute, l, 0);
    size_t first = (dense.in + 1) * thread / compute->threads;
    size_t end = (dense.in + 1) * (thread + 1) / compute->threads;
    size_t nonzeros = 0;
    for (unsigned t = 0; t < compute->threads; t++) {
        nonzeros += compute->thread[t].nonzeros;
    }
    if (bits != NULL && nn_sparse_pays(&dense, batch->count, nonzeros)) {
        compute->sparse.weights(&dense, x.values, x.stride, bits, dy, batch->count, first, end, scale, target);
    } else {
        nn_blas.dense_weights(&dense, x.values, x.stride, dy, batch->count, first, end, scale, target);
    }
}

void compute_gradient(struct compute *compute, const struct compute_batch *batch, size_t l, unsigned thread,
                      float scale, float *target) {
    const struct network_layer *layer = &compute->network->layers[l];
    if (layer->kind == NETWORK_DENSE) {
        dense_gradient(compute, batch, l, thread, scale, target + layer->first);
    } else if (layer->parameters > 0) {
        add_own(compute, layer, compute->own_first[l], thread, scale, target);
    }
}
