/* device.h on NVIDIA's GPUs (apps/nn/cuda.h), layer by layer over a whole batch, all on one stream.
 *
 * All memory for a batch is one allocation: the samples, each layer's output (relu and dropout work in place), and
 * the errors of one layer's input and output. */
#include "apps/net/device.h"

#include "apps/nn/cuda.h"
#include "apps/nn/cuda_layers.h"

#include <assert.h>
#include <stdlib.h>

enum { ALIGNMENT = 256 };

struct net_device {
    struct nn_cuda cuda;
    const struct network *network;
    size_t first_trained;
    float *parameters, *gradient; /* [network->parameters] */
    /* For a batch of up to `room` samples; all in `memory`. */
    size_t room;
    void *memory;
    float *samples; /* [room][inputs + 1]: with the same stride as on the host */
    uint32_t *labels;
    uint64_t *keys;
    float *values[NETWORK_LAYERS_MAX + 1];     /* input of layer l, and the last layer's output, which becomes errors */
    unsigned char *places[NETWORK_LAYERS_MAX]; /* maxima of a pool */
    float *errors[2];
    float *workspace;
};

/* ---- Memory ---- */

static size_t larger(size_t one, size_t other) {
    return one > other ? one : other;
}

/* Hands out parts of an allocation; without memory, only measures. */
struct pieces {
    unsigned char *memory;
    size_t used;
};

static void *take_piece(struct pieces *pieces, size_t bytes) {
    void *piece = pieces->memory != NULL ? pieces->memory + pieces->used : NULL;
    pieces->used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return piece;
}

static bool in_place(const struct network_layer *layer) {
    return layer->kind == NETWORK_RELU || layer->kind == NETWORK_DROPOUT;
}

/* Returns the floats of workspace that a layer needs for a batch. */
static size_t workspace_of(const struct network_layer *layer, size_t samples) {
    struct nn_conv conv = network_conv(layer);
    return layer->kind == NETWORK_CONV   ? nn_cuda_conv_workspace(&conv, samples)
           : layer->kind == NETWORK_NORM ? samples * network_values(&layer->out)
                                         : 0;
}

/* Returns the largest number of values of a sample in a layer's input or output. */
static size_t most_values(const struct network *network) {
    size_t most = network_values(&network->input);
    for (size_t l = 0; l < network->count; l++) {
        most = larger(most, network_values(&network->layers[l].out));
    }
    return most;
}

static void lay_out(struct net_device *device, size_t samples, struct pieces *pieces) {
    const struct network *network = device->network;
    size_t inputs = network_values(&network->input);
    size_t most = most_values(network);
    size_t workspace = 0;
    device->samples = take_piece(pieces, samples * (inputs + 1) * sizeof(float));
    device->labels = take_piece(pieces, samples * sizeof(uint32_t));
    device->keys = take_piece(pieces, samples * sizeof(uint64_t));
    device->values[0] = take_piece(pieces, samples * inputs * sizeof(float));
    for (size_t l = 0; l < network->count; l++) {
        const struct network_layer *layer = &network->layers[l];
        size_t count = samples * network_values(&layer->out);
        device->values[l + 1] = in_place(layer) ? device->values[l] : take_piece(pieces, count * sizeof(float));
        device->places[l] = layer->kind == NETWORK_POOL ? take_piece(pieces, count) : NULL;
        workspace = larger(workspace, workspace_of(layer, samples));
    }
    device->errors[0] = take_piece(pieces, samples * most * sizeof(float));
    device->errors[1] = take_piece(pieces, samples * most * sizeof(float));
    device->workspace = take_piece(pieces, workspace * sizeof(float));
}

/* Returns the most rows that one sum of the gradient covers: samples, or pixels of a norm. */
static size_t most_rows(const struct network *network, size_t samples) {
    size_t most = samples;
    for (size_t l = 0; l < network->count; l++) {
        const struct network_layer *layer = &network->layers[l];
        size_t rows = samples * layer->out.height * layer->out.width;
        most = layer->kind == NETWORK_NORM ? larger(most, rows) : most;
    }
    return most;
}

static int room_for(struct net_device *device, size_t samples, struct error *error) {
    struct pieces pieces = {0};
    if (samples <= device->room) {
        return 0;
    }
    if (samples * (most_values(device->network) + 1) > INT32_MAX) { /* limit of kernels and cuBLAS */
        return error_set(error, AML_ENOMEM,
                         "CUDA: expected at most %d values of a layer, got %zu samples of %zu: use a smaller --batch",
                         INT32_MAX, samples, most_values(device->network));
    }
    device->room = 0;
    TRY_CUDA(error, cudaStreamSynchronize(device->cuda.stream));
    TRY_CUDA(error, cudaFree(device->memory));
    device->memory = NULL;
    lay_out(device, samples, &pieces);
    TRY(nn_cuda_allocate(&device->memory, pieces.used, "the values of a batch (see --batch)", error));
    pieces = (struct pieces){.memory = device->memory};
    lay_out(device, samples, &pieces);
    TRY(nn_cuda_sum_room(&device->cuda, most_rows(device->network, samples), error));
    device->room = samples;
    return 0;
}

static int open_all(struct net_device *device, struct error *error) {
    TRY(nn_cuda_open(&device->cuda, error));
    TRY(nn_cuda_floats(&device->parameters, device->network->parameters, "the parameters", error));
    return nn_cuda_floats(&device->gradient, device->network->parameters, "the gradient", error);
}

/* Also closes a device that is only partly open or has failed. Ignores errors. */
static void close_device(struct net_device *device) {
    if (device == NULL) {
        return;
    }
    cudaDeviceSynchronize();
    cudaFree(device->parameters);
    cudaFree(device->gradient);
    cudaFree(device->memory);
    nn_cuda_close(&device->cuda);
    free(device);
}

static int open_device(struct net_device **device, const struct network *network, struct error *error) {
    struct net_device *made = calloc(1, sizeof *made);
    *device = NULL;
    if (made == NULL) {
        return error_set(error, AML_ENOMEM, "no memory for a device");
    }
    made->network = network;
    made->first_trained = network_first_trained(network);
    int result = open_all(made, error);
    if (result != 0) {
        close_device(made);
        return result;
    }
    *device = made;
    return 0;
}

/* ---- Steps ---- */

static int begin(struct net_device *device, const float *parameters, struct error *error) {
    cudaStream_t stream = device->cuda.stream;
    size_t bytes = device->network->parameters * sizeof *parameters;
    TRY(nn_cuda_losses_begin(&device->cuda, error));
    TRY_CUDA(error, cudaMemsetAsync(device->gradient, 0, bytes, stream));
    return nn_cuda_upload(&device->cuda, device->parameters, parameters, bytes, stream, error);
}

static int upload_batch(struct net_device *device, const struct compute_batch *batch, struct error *error) {
    struct nn_cuda *cuda = &device->cuda;
    size_t inputs = network_values(&device->network->input);
    size_t floats = (batch->count - 1) * batch->stride + inputs;
    assert(batch->count <= device->room && batch->stride <= inputs + 1);
    TRY(nn_cuda_upload(cuda, device->samples, batch->samples, floats * sizeof(float), cuda->stream, error));
    TRY(nn_cuda_upload(cuda, device->labels, batch->labels, batch->count * sizeof(uint32_t), cuda->stream, error));
    if (batch->keys != NULL) {
        TRY(nn_cuda_upload(cuda, device->keys, batch->keys, batch->count * sizeof(uint64_t), cuda->stream, error));
    }
    TRY_CUDA(error, nn_kernel_copy_rows(cuda->stream, device->samples, batch->stride, batch->count, inputs,
                                        device->values[0]));
    return 0;
}

static cudaError_t drop_values(const struct net_device *device, size_t l, const struct compute_batch *batch,
                               float *values) {
    const struct network_layer *layer = &device->network->layers[l];
    return batch->keys == NULL ? cudaSuccess
                               : nn_kernel_dropout(device->cuda.stream, values, batch->count,
                                                   network_values(&layer->out), device->keys, l, layer->drop);
}

static int layer_forward(struct net_device *device, size_t l, const struct compute_batch *batch, struct error *error) {
    const struct network_layer *layer = &device->network->layers[l];
    const float *w = device->parameters + layer->first;
    const float *x = device->values[l];
    float *y = device->values[l + 1];
    struct nn_cuda *cuda = &device->cuda;
    struct nn_conv conv = network_conv(layer);
    struct nn_pool pool = network_pool(layer);
    struct nn_dense dense = network_dense(layer);
    size_t n = batch->count;
    size_t size = network_values(&layer->out);
    size_t channels = layer->out.channels;
    switch (layer->kind) {
    case NETWORK_CONV:
        return nn_cuda_conv_forward(cuda, &conv, x, w, n, device->workspace, y, error);
    case NETWORK_DENSE:
        return nn_cuda_dense_forward(cuda, &dense, x, w, n, y, error);
    case NETWORK_POOL:
        TRY_CUDA(error, nn_kernel_pool_forward(cuda->stream, &pool, x, n, y, device->places[l]));
        return 0;
    case NETWORK_NORM:
        TRY_CUDA(error, nn_kernel_norm_forward(cuda->stream, x, w, n * size / channels, channels, y));
        return 0;
    case NETWORK_RELU:
        TRY_CUDA(error, nn_kernel_relu_forward(cuda->stream, y, n * size));
        return 0;
    case NETWORK_DROPOUT:
        TRY_CUDA(error, drop_values(device, l, batch, y));
        return 0;
    }
    return 0;
}

/* Propagates the errors *dy from the output of layer `l` to its input, and adds to the gradient. `to` is room for
 * the input's errors. The first layer with parameters computes no errors of its input. */
static int layer_backward(struct net_device *device, size_t l, const struct compute_batch *batch, float **dy, float *to,
                          struct error *error) {
    const struct network_layer *layer = &device->network->layers[l];
    const float *w = device->parameters + layer->first;
    float *dw = device->gradient + layer->first;
    const float *x = device->values[l];
    float *from = *dy;
    struct nn_cuda *cuda = &device->cuda;
    struct nn_conv conv = network_conv(layer);
    struct nn_pool pool = network_pool(layer);
    struct nn_dense dense = network_dense(layer);
    size_t n = batch->count;
    size_t size = network_values(&layer->out);
    size_t channels = layer->out.channels;
    bool more = l > device->first_trained;
    *dy = in_place(layer) || layer->kind == NETWORK_NORM ? from : to;
    switch (layer->kind) {
    case NETWORK_CONV:
        TRY(nn_cuda_conv_weights(cuda, &conv, x, from, n, device->workspace, dw, error));
        return more ? nn_cuda_conv_inputs(cuda, &conv, from, w, n, device->workspace, to, error) : 0;
    case NETWORK_DENSE:
        TRY(nn_cuda_dense_weights(cuda, &dense, x, from, n, dw, error));
        return more ? nn_cuda_dense_inputs(cuda, &dense, from, w, n, to, error) : 0;
    case NETWORK_POOL:
        TRY_CUDA(error, nn_kernel_pool_backward(cuda->stream, &pool, from, device->places[l], n, to));
        return 0;
    case NETWORK_NORM:
        return nn_cuda_norm_backward(cuda, x, w, n * size / channels, channels, device->workspace, dw, from, error);
    case NETWORK_RELU:
        TRY_CUDA(error, nn_kernel_relu_backward(cuda->stream, device->values[l + 1], from, n * size));
        return 0;
    case NETWORK_DROPOUT:
        TRY_CUDA(error, drop_values(device, l, batch, from));
        return 0;
    }
    return 0;
}

static int take_step(struct net_device *device, const struct compute_batch *batch, bool learn, struct error *error) {
    const struct network *network = device->network;
    if (batch->count == 0) {
        return 0;
    }
    TRY(upload_batch(device, batch, error));
    for (size_t l = 0; l < network->count; l++) {
        TRY(layer_forward(device, l, batch, error));
    }
    float *dy = device->values[network->count];
    const struct nn_kernel_logits logits = {.values = dy,
                                            .count = batch->count,
                                            .stride = network->classes,
                                            .classes = network->classes,
                                            .labels = device->labels,
                                            .label_stride = 1};
    TRY_CUDA(error, nn_kernel_softmax(device->cuda.stream, &logits, device->cuda.sums));
    for (size_t l = network->count; learn && l-- > device->first_trained;) {
        float *to = dy == device->errors[0] ? device->errors[1] : device->errors[0];
        TRY(layer_backward(device, l, batch, &dy, to, error));
    }
    return 0;
}

static int end(struct net_device *device, float scale, float *target, struct nn_loss *loss, struct error *error) {
    TRY(nn_cuda_losses_end(&device->cuda, loss, error));
    return target == NULL ? 0
                          : nn_cuda_download_sum(&device->cuda, target, device->gradient, device->network->parameters,
                                                 scale, error);
}

const struct net_device_calls net_cuda = {
    .open = open_device,
    .close = close_device,
    .room = room_for,
    .begin = begin,
    .step = take_step,
    .end = end,
};
