/* An accelerator that takes dense steps, from samples to new weights: the same formulas as dense.c and kernel.h's
 * softmax, so the same results but for rounding. cuda.c is one for NVIDIA's GPUs. A build without CUDA has
 * device_none.c, which says so to whoever asks.
 *
 * The order of calls: open; items, whenever the training samples are others; and for each clock begin, step ..., end,
 * or to evaluate begin, evaluate ..., end. The weights stay on the device from begin to end, and so does the momentum
 * from open to close. Calls of one device do not overlap; any thread.
 *
 * Samples are rows of features + 1 words of 4 bytes: the features, floats, and behind them the label, a uint32_t below
 * the number of classes. `stride` of a struct mlr_dense is features + 1.
 *
 * Errors: 0 or AML_ENOMEM (the device's memory, or the host's), AML_EFAIL; the text names the call that failed and
 * why. Work is queued, so a failure may show in a later call. After one, the device is only good for close. */
#ifndef APPS_MLR_DEVICE_H
#define APPS_MLR_DEVICE_H

#include "agileml/base/error.h"
#include "apps/mlr/kernel.h"

struct mlr_device;

/* Whether this program has a device to run on; else AML_EINPUT, and why not. Takes a moment where there is one. */
int mlr_device_check(struct error *error);

/* A device for weights of the shape of `weights` (the contents do not matter), with room for a velocity, of zeros, if
 * steps have a momentum. *device is NULL after an error. */
int mlr_device_open(struct mlr_device **device, const struct mlr_weights *weights, bool momentum, struct error *error);
/* NULL: nothing. */
void mlr_device_close(struct mlr_device *device);

/* items[count] are the training samples from now on, unchanged in place until the next call or close: the device keeps
 * them if they take no more than a part of its free memory (else steps send theirs each time). */
int mlr_device_items(struct mlr_device *device, const float *items, size_t count, struct error *error);

/* Takes the weights over, all of them, and begins the sums of losses at 0. */
int mlr_device_begin(struct mlr_device *device, const struct mlr_weights *weights, struct error *error);
/* Queues a step, as mlr_dense_logits, softmax, mlr_dense_update and mlr_bias_update take it. step->velocity is not
 * used: the device has its own. The samples may be changed afterwards. */
int mlr_device_step(struct mlr_device *device, const struct mlr_dense *samples, const struct mlr_step *step,
                    struct error *error);
/* Queues the losses of samples alone. */
int mlr_device_evaluate(struct mlr_device *device, const struct mlr_dense *samples, struct error *error);
/* Waits for all that is queued: *loss are the sums since begin, *weights the new weights (NULL: not wanted). */
int mlr_device_end(struct mlr_device *device, const struct mlr_weights *weights, struct mlr_loss *loss,
                   struct error *error);

#endif
