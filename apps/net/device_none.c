/* device.h for a build without CUDA. No device can be opened, so the functions that take one are never called. */
#include "apps/net/device.h"

#include "apps/nn/device.h"

#include <assert.h>

int net_device_open(struct net_device **device, const struct network *network, struct error *error) {
    (void)network;
    *device = NULL;
    return nn_device_check(error);
}

void net_device_close(struct net_device *device) {
    assert(device == NULL);
    (void)device;
}

int net_device_room(struct net_device *device, size_t samples, struct error *error) {
    (void)device;
    (void)samples;
    return nn_device_check(error);
}

int net_device_begin(struct net_device *device, const float *parameters, struct error *error) {
    (void)device;
    (void)parameters;
    return nn_device_check(error);
}

int net_device_step(struct net_device *device, const struct compute_batch *batch, bool learn, struct error *error) {
    (void)device;
    (void)batch;
    (void)learn;
    return nn_device_check(error);
}

int net_device_end(struct net_device *device, float scale, float *target, struct nn_loss *loss, struct error *error) {
    (void)device;
    (void)scale;
    (void)target;
    (void)loss;
    return nn_device_check(error);
}
