/* The arithmetic of a network on an accelerator: what compute.h does in threads, to rounding. cuda.c implements it for
 * NVIDIA's GPUs. A build without CUDA has device_none.c, which reports that. nn_device_check says whether there is a
 * device.
 *
 * The order of calls: open; room, whenever batches are larger than before; then for each clock or evaluation begin,
 * step ..., end. Parameters are on the device from begin to end; of a batch, samples, labels and keys move there, and
 * the gradient back. Nothing but memory stays on the device from end to begin. Calls of one device do not overlap; any
 * thread.
 *
 * Errors: 0, AML_ENOMEM (the device's memory, or the host's) or AML_EFAIL; the text has the call that failed and the
 * reason. Work is queued, so a later call may report a failure. After a failure only close may follow. */
#ifndef APPS_NET_DEVICE_H
#define APPS_NET_DEVICE_H

#include "agileml/base/error.h"
#include "apps/net/compute.h"

struct net_device;

/* Opens a device for `network`, which stays in place until close. *device is NULL after an error. */
int net_device_open(struct net_device **device, const struct network *network, struct error *error);
/* `device` may be NULL. */
void net_device_close(struct net_device *device);

/* Makes room for batches of up to `samples`. */
int net_device_room(struct net_device *device, size_t samples, struct error *error);

/* Queues a copy of all parameters to the device, and sets the gradient and the sums of losses to 0. The caller may
 * change the parameters afterwards. */
int net_device_begin(struct net_device *device, const float *parameters, struct error *error);
/* Queues compute_forward; and with `learn` compute_backward and compute_gradient, which are added to the gradient. The
 * caller may change the batch afterwards. */
int net_device_step(struct net_device *device, const struct compute_batch *batch, bool learn, struct error *error);
/* Waits for all queued work. *loss receives the sums since begin; target[parameters] += scale times the gradient, if
 * target is not NULL. */
int net_device_end(struct net_device *device, float scale, float *target, struct nn_loss *loss, struct error *error);

#endif
