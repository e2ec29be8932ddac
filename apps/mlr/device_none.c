/* device.h for a build without CUDA. No device can be opened, so the functions that take one are never called. */
#include "apps/mlr/device.h"

#include "apps/nn/device.h"

#include <assert.h>

int mlr_device_open(struct mlr_device **device, const struct mlr_weights *weights, bool momentum, struct error *error) {
    (void)weights;
    (void)momentum;
    *device = NULL;
    return nn_device_check(error);
}

void mlr_device_close(struct mlr_device *device) {
    assert(device == NULL);
    (void)device;
}

int mlr_device_items(struct mlr_device *device, const float *items, size_t count, struct error *error) {
    (void)device;
    (void)items;
    (void)count;
    return nn_device_check(error);
}

int mlr_device_begin(struct mlr_device *device, const struct mlr_weights *weights, struct error *error) {
    (void)device;
    (void)weights;
    return nn_device_check(error);
}

int mlr_device_step(struct mlr_device *device, const struct mlr_dense *samples, const struct mlr_step *step,
                    struct error *error) {
    (void)device;
    (void)samples;
    (void)step;
    return nn_device_check(error);
}

int mlr_device_end(struct mlr_device *device, const struct mlr_weights *weights, struct nn_loss *loss,
                   struct error *error) {
    (void)device;
    (void)weights;
    (void)loss;
    return nn_device_check(error);
}
