/* The arithmetic of a network on an accelerator: the same as compute.h, up to rounding. cuda.c implements it for
 * NVIDIA GPUs. In a build without CUDA the calls are NULL. nn_device_check reports whether there is a device.
 *
 * The order of calls: open; room, whenever batches are larger than before; then for each clock or evaluation begin,
 * step ..., end. Parameters are on the device from begin to end. A batch's samples, labels and keys are copied to
 * the device, and the gradient is copied back. Between end and begin the device holds only memory, no data. Calls of
 * one device do not overlap; any thread.
 *
 * Errors: 0, AML_ENOMEM (the device's memory, or the host's) or AML_EFAIL; the text names the failed call and the
 * reason. Work is queued, so a later call may report a failure. After a failure only close may follow. */
#ifndef APPS_NET_DEVICE_H
#define APPS_NET_DEVICE_H

#include "agileml/base/error.h"
#include "apps/net/compute.h"

struct net_device;

struct net_device_calls {
    /* Opens a device for `network`, which must stay valid until close. *device is NULL after an error. */
    int (*open)(struct net_device **device, const struct network *network, struct error *error);
    /* `device` may be NULL. */
    void (*close)(struct net_device *device);

    /* Makes room for batches of up to `samples`. */
    int (*room)(struct net_device *device, size_t samples, struct error *error);

    /* Queues a copy of all parameters to the device, and sets the gradient and the sums of losses to 0. The caller may
     * change the parameters afterwards. */
    int (*begin)(struct net_device *device, const float *parameters, struct error *error);
    /* Queues compute_forward. With `learn` also queues compute_backward and compute_gradient, which add to the
     * gradient. The caller may change the batch afterwards. */
    int (*step)(struct net_device *device, const struct compute_batch *batch, bool learn, struct error *error);
    /* Waits for all queued work. *loss receives the sums since begin; target[parameters] += scale times the gradient,
     * if target is not NULL. */
    int (*end)(struct net_device *device, float scale, float *target, struct nn_loss *loss, struct error *error);
};

extern const struct net_device_calls net_cuda;

#endif
