/* An accelerator of dense steps, from samples to new weights. The formulas are those of dense.c and kernel.h's
 * softmax; results differ by rounding. cuda.c implements it for NVIDIA GPUs. In a build without
 * CUDA the calls are NULL. nn_device_check reports whether there is a device.
 *
 * The order of calls: open; items, whenever the training samples change; then for each clock begin, step ..., end. The
 * weights stay on the device from begin to end, the momentum from open to close. Calls of one device do not overlap;
 * any thread.
 *
 * Samples are rows of features + 1 words of 4 bytes: the features, floats, and behind them the label, a uint32_t below
 * the number of classes. `stride` of a struct mlr_dense is features + 1.
 *
 * Errors: 0, AML_ENOMEM (the device's memory, or the host's) or AML_EFAIL; the text names the failed call and the
 * reason. Work is queued, so a later call may report a failure. After a failure only close may follow. */
#ifndef APPS_MLR_DEVICE_H
#define APPS_MLR_DEVICE_H

#include "agileml/base/error.h"
#include "apps/mlr/kernel.h"

struct mlr_device;

struct mlr_device_calls {
    /* Opens a device for weights of the shape of `weights`, whose contents are ignored. With `momentum` also allocates
     * a velocity of zeros. *device is NULL after an error. */
    int (*open)(struct mlr_device **device, const struct mlr_weights *weights, bool momentum, struct error *error);
    /* `device` may be NULL. */
    void (*close)(struct mlr_device *device);

    /* Sets the training samples items[count], which must stay unchanged in place until the next call or close. The
     * device keeps a copy if its free memory allows it; otherwise each step copies its samples. */
    int (*items)(struct mlr_device *device, const float *items, size_t count, struct error *error);

    /* Copies all weights to the device and sets the sums of losses to 0. */
    int (*begin)(struct mlr_device *device, const struct mlr_weights *weights, struct error *error);
    /* Queues a step by the formulas of mlr_dense_logits, softmax, mlr_dense_update and mlr_bias_update. With `step`
     * NULL only adds the samples' losses. Ignores step->velocity, as the device has its own. The caller may change the
     * samples afterwards. */
    int (*step)(struct mlr_device *device, const struct mlr_dense *samples, const struct mlr_step *step,
                struct error *error);
    /* Waits for all queued work. Sets *loss to the sums since begin, and *weights to the new weights (NULL: not
     * wanted). */
    int (*end)(struct mlr_device *device, const struct mlr_weights *weights, struct nn_loss *loss, struct error *error);
};

extern const struct mlr_device_calls mlr_cuda;

#endif
