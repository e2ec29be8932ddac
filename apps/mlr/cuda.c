/* device.h on NVIDIA GPUs (apps/nn/cuda.h). cuBLAS computes both products of a step, a kernel of apps/nn the softmax,
 * and cuda_kernels.cu the momentum. For samples X (n x d), weights W (d x K), logits and then errors Z (n x K):
 *     Z = X W
 *     W = beta W - r X^T Z
 *     b = b - r times the sum of Z's rows
 *
 * There are two streams. The device's own copies weights in, multiplies, and copies weights out. The stream `copy`
 * fills one of two slots with samples that are not kept, while the device works on the other slot. Each clock begins
 * with a copy of all weights: to find the rows that other nodes have changed, the CPU would have to read as much. */
#include "apps/mlr/device.h"

#include "apps/mlr/cuda_kernels.h"
#include "apps/nn/cuda.h"

#include <assert.h>
#include <stdlib.h>

/* The largest part of the free memory in which training samples are kept. The rest is for logits, test samples,
 * cuBLAS and other processes. */
static const double KEPT_PART = 0.75;

/* Samples of a step that are not kept on the device. */
struct slot {
    float *samples; /* on the device */
    size_t room;    /* floats */
    cudaEvent_t filled, used;
};

struct mlr_device {
    struct nn_cuda cuda;
    cudaStream_t copy;
    uint32_t features, classes;
    size_t stride;   /* floats; for weights, velocity and logits */
    float *weights;  /* [features + 1][stride] */
    float *velocity; /* [features + 1][stride]; NULL without momentum */
    float *before;   /* [features + 1][stride], the weights before a step in slices; NULL: not needed yet */
    float *logits;   /* [room][stride] */
    size_t room;
    struct slot slots[2];
    unsigned next_slot;
    const float *items; /* the training samples on the host */
    float *kept;        /* [item_floats], a copy of `items` on the device; NULL: not kept */
    size_t item_floats;
};

/* ---- Life cycle ---- */

static size_t table_floats(const struct mlr_device *device) {
    return ((size_t)device->features + 1) * device->stride;
}

static int open_events(struct mlr_device *device, struct error *error) {
    for (unsigned i = 0; i < 2; i++) {
        struct slot *slot = &device->slots[i];
        TRY_CUDA(error, cudaEventCreateWithFlags(&slot->filled, cudaEventDisableTiming));
        TRY_CUDA(error, cudaEventCreateWithFlags(&slot->used, cudaEventDisableTiming));
    }
    return 0;
}

static int open_all(struct mlr_device *device, bool momentum, struct error *error) {
    TRY(nn_cuda_open(&device->cuda, error));
    TRY_CUDA(error, cudaStreamCreateWithFlags(&device->copy, cudaStreamNonBlocking));
    TRY(open_events(device, error));
    TRY(nn_cuda_floats(&device->weights, table_floats(device), "the weights", error));
    if (momentum) {
        TRY(nn_cuda_floats(&device->velocity, table_floats(device), "the momentum", error));
        TRY_CUDA(error,
                 cudaMemsetAsync(device->velocity, 0, table_floats(device) * sizeof(float), device->cuda.stream));
    }
    return 0;
}

/* Also closes a device that is only partly open or has failed. Ignores errors. */
static void close_device(struct mlr_device *device) {
    if (device == NULL) {
        return;
    }
    cudaDeviceSynchronize();
    cudaFree(device->weights);
    cudaFree(device->velocity);
    cudaFree(device->before);
    cudaFree(device->logits);
    cudaFree(device->kept);
    for (unsigned i = 0; i < 2; i++) {
        const cudaEvent_t events[] = {device->slots[i].filled, device->slots[i].used};
        for (unsigned e = 0; e < 2; e++) {
            if (events[e] != NULL) {
                cudaEventDestroy(events[e]);
            }
        }
        cudaFree(device->slots[i].samples);
    }
    if (device->copy != NULL) {
        cudaStreamDestroy(device->copy);
    }
    nn_cuda_close(&device->cuda);
    free(device);
}

static int open_device(struct mlr_device **device, const struct mlr_weights *weights, bool momentum,
                       struct error *error) {
    struct mlr_device *made = calloc(1, sizeof *made);
    *device = NULL;
    if (made == NULL) {
        return error_set(error, AML_ENOMEM, "no memory for a device");
    }
    made->features = weights->bias;
    made->classes = weights->classes;
    made->stride = weights->stride;
    int result = open_all(made, momentum, error);
    if (result != 0) {
        close_device(made);
        return result;
    }
    *device = made;
    return 0;
}

/* ---- Samples ---- */

static int set_items(struct mlr_device *device, const float *items, size_t count, struct error *error) {
    size_t floats = count * ((size_t)device->features + 1);
    size_t available = 0;
    size_t total = 0;
    TRY_CUDA(error, cudaDeviceSynchronize());
    TRY_CUDA(error, cudaFree(device->kept));
    device->kept = NULL;
    TRY_CUDA(error, cudaMemGetInfo(&available, &total));
    if (floats == 0 || (double)floats * sizeof(float) > KEPT_PART * (double)available) {
        return 0;
    }
    struct error other = {0}; /* another process may have taken the memory meanwhile */
    int result = nn_cuda_floats(&device->kept, floats, "samples", &other);
    if (result == AML_ENOMEM) {
        return 0;
    }
    if (result != 0) {
        return error_set(error, result, "%s", other.text);
    }
    device->items = items;
    device->item_floats = floats;
    TRY(nn_cuda_upload(&device->cuda, device->kept, items, floats * sizeof *items, device->copy, error));
    TRY_CUDA(error, cudaStreamSynchronize(device->copy));
    return 0;
}

/* Returns the samples' place among the kept samples, or NULL. */
static const float *find_kept(const struct mlr_device *device, const struct mlr_dense *samples) {
    uintptr_t first = (uintptr_t)device->items;
    uintptr_t wanted = (uintptr_t)samples->samples;
    uintptr_t end = wanted + samples->count * samples->stride * sizeof(float);
    if (device->kept == NULL || wanted < first || end > first + device->item_floats * sizeof(float)) {
        return NULL;
    }
    return device->kept + (wanted - first) / sizeof(float);
}

/* Queues a copy of the samples into the next slot. The device's own stream waits for the copy. */
static int fill_slot(struct mlr_device *device, const struct mlr_dense *samples, struct slot **filled,
                     struct error *error) {
    struct slot *slot = &device->slots[device->next_slot];
    size_t floats = samples->count * samples->stride;
    device->next_slot ^= 1;
    if (slot->room < floats) {
        TRY_CUDA(error, cudaStreamSynchronize(device->cuda.stream));
        slot->room = 0;
        TRY_CUDA(error, cudaFree(slot->samples));
        TRY(nn_cuda_floats(&slot->samples, floats, "the samples of a step", error));
        slot->room = floats;
    }
    TRY_CUDA(error, cudaStreamWaitEvent(device->copy, slot->used, 0));
    TRY(nn_cuda_upload(&device->cuda, slot->samples, samples->samples, floats * sizeof(float), device->copy, error));
    TRY_CUDA(error, cudaEventRecord(slot->filled, device->copy));
    TRY_CUDA(error, cudaStreamWaitEvent(device->cuda.stream, slot->filled, 0));
    *filled = slot;
    return 0;
}

/* Makes room for the logits of `count` samples. */
static int make_room(struct mlr_device *device, size_t count, struct error *error) {
    if (count <= device->room) {
        return 0;
    }
    device->room = 0;
    TRY_CUDA(error, cudaStreamSynchronize(device->cuda.stream));
    TRY_CUDA(error, cudaFree(device->logits));
    device->logits = NULL;
    TRY(nn_cuda_sum_room(&device->cuda, count, error));
    TRY(nn_cuda_floats(&device->logits, count * device->stride, "the logits of a step", error));
    device->room = count;
    return 0;
}

/* ---- Steps ---- */

static int begin(struct mlr_device *device, const struct mlr_weights *weights, struct error *error) {
    assert(weights->stride == device->stride && weights->bias == device->features);
    TRY(nn_cuda_losses_begin(&device->cuda, error));
    return nn_cuda_upload(&device->cuda, device->weights, weights->rows, table_floats(device) * sizeof(float),
                          device->cuda.stream, error);
}

/* Saves the weights as they were before a step in slices. */
static int keep_weights(struct mlr_device *device, struct error *error) {
    size_t floats = table_floats(device);
    if (device->before == NULL) {
        TRY(nn_cuda_floats(&device->before, floats, "the weights before a step", error));
    }
    TRY_CUDA(error, cudaMemcpyAsync(device->before, device->weights, floats * sizeof(float), cudaMemcpyDeviceToDevice,
                                    device->cuda.stream));
    return 0;
}

/* Computes errors from the samples x[count], which are on the device, and the weights. */
static int forward(struct mlr_device *device, const float *weights, const float *x, size_t count, struct error *error) {
    size_t features = device->features;
    const struct nn_cuda_product product = {.m = count,
                                            .n = device->classes,
                                            .k = features,
                                            .a = {.values = x, .stride = features + 1},
                                            .b = {.values = weights, .stride = device->stride},
                                            .c = device->logits,
                                            .c_stride = device->stride,
                                            .scale = 1};
    const struct nn_kernel_logits logits = {.values = device->logits,
                                            .count = count,
                                            .stride = device->stride,
                                            .classes = device->classes,
                                            .bias = weights + features * device->stride,
                                            .labels = (const uint32_t *)(const void *)(x + features),
                                            .label_stride = features + 1};
    TRY(nn_cuda_multiply(&device->cuda, &product, error));
    TRY_CUDA(error, nn_kernel_softmax(device->cuda.stream, &logits, device->cuda.sums));
    return 0;
}

/* to = keep * to + scale * gradient; for the biases, keep_bias replaces keep. */
struct addition {
    float *to;
    float scale, keep, keep_bias;
};

static int add_gradient(struct mlr_device *device, const float *x, size_t count, const struct addition *addition,
                        struct error *error) {
    size_t features = device->features;
    const struct nn_cuda_product product = {.m = features,
                                            .n = device->classes,
                                            .k = count,
                                            .a = {.values = x, .stride = features + 1, .transposed = true},
                                            .b = {.values = device->logits, .stride = device->stride},
                                            .c = addition->to,
                                            .c_stride = device->stride,
                                            .scale = addition->scale,
                                            .keep = addition->keep};
    const struct nn_cuda_sum sum = {.rows = count,
                                    .n = device->classes,
                                    .values = device->logits,
                                    .stride = device->stride,
                                    .to = addition->to + features * device->stride,
                                    .scale = addition->scale,
                                    .keep = addition->keep_bias};
    TRY(nn_cuda_multiply(&device->cuda, &product, error));
    return nn_cuda_sum_rows(&device->cuda, &sum, error);
}

/* Computes new weights from errors. A later slice adds its gradient to the velocity, and also to the weights, as the
 * first slice has already moved them by the velocity. */
static int backward(struct mlr_device *device, const float *x, size_t count, const struct mlr_step *step,
                    struct error *error) {
    if (device->velocity == NULL || step->slice > 0) {
        const struct addition to_weights = {
            .to = device->weights, .scale = -step->scale, .keep = 1 - step->decay, .keep_bias = 1};
        TRY(add_gradient(device, x, count, &to_weights, error));
    }
    if (device->velocity != NULL) {
        float keep = step->slice > 0 ? 1 : step->momentum;
        const struct addition to_velocity = {
            .to = device->velocity, .scale = step->scale, .keep = keep, .keep_bias = keep};
        TRY(add_gradient(device, x, count, &to_velocity, error));
    }
    if (device->velocity != NULL && step->slice == 0) {
        TRY_CUDA(error, mlr_cuda_momentum(device->cuda.stream, device->weights, device->velocity, device->stride,
                                          device->features, device->classes, step->decay));
    }
    return 0;
}

static int take_step(struct mlr_device *device, const struct mlr_dense *samples, const struct mlr_step *step,
                     struct error *error) {
    struct slot *slot = NULL;
    assert(samples->features == device->features && samples->stride == (size_t)device->features + 1);
    if (samples->count == 0) {
        return 0;
    }
    TRY(make_room(device, samples->count, error));
    const float *x = find_kept(device, samples);
    if (x == NULL) {
        TRY(fill_slot(device, samples, &slot, error));
        x = slot->samples;
    }
    bool sliced = step != NULL && step->sliced;
    if (sliced && step->slice == 0) {
        TRY(keep_weights(device, error));
    }
    TRY(forward(device, sliced ? device->before : device->weights, x, samples->count, error));
    if (step != NULL) {
        TRY(backward(device, x, samples->count, step, error));
    }
    if (slot != NULL) {
        TRY_CUDA(error, cudaEventRecord(slot->used, device->cuda.stream));
    }
    return 0;
}

static int end(struct mlr_device *device, const struct mlr_weights *weights, struct nn_loss *loss,
               struct error *error) {
    TRY(nn_cuda_losses_end(&device->cuda, loss, error));
    if (weights != NULL) {
        assert(weights->stride == device->stride && weights->bias == device->features);
        TRY(nn_cuda_download(&device->cuda, weights->rows, device->weights, table_floats(device) * sizeof(float),
                             error));
    }
    return 0;
}

const struct mlr_device_calls mlr_cuda = {
    .open = open_device,
    .close = close_device,
    .items = set_items,
    .begin = begin,
    .step = take_step,
    .end = end,
};
