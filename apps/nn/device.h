/* Where an app computes: the option --device. cuda.c finds NVIDIA's GPUs; a build without CUDA has device_none.c. */
#ifndef APPS_NN_DEVICE_H
#define APPS_NN_DEVICE_H

#include "apps/app.h"

enum nn_device { NN_DEVICE_AUTO, NN_DEVICE_CPU, NN_DEVICE_CUDA };

/* Returns the enum nn_device called `name`, or AML_EINPUT. */
static inline int nn_device_choice(const char *name, struct error *error) {
    static const char *const names[] = {"auto", "cpu", "cuda", NULL};
    return app_choice("device", name, names, error);
}

/* Returns 0 if this program has a device to run on, else AML_EINPUT with the reason. Takes a moment if there is a
 * device. */
int nn_device_check(struct error *error);

/* Sets *found to whether to compute on a device: there is one, and `choice` is not `cpu`. Returns AML_EINPUT after
 * aml_error when `choice` requires a device and there is none. */
static inline int nn_device_find(aml_worker *worker, enum nn_device choice, bool *found) {
    struct error error = {0};
    *found = choice != NN_DEVICE_CPU && nn_device_check(&error) == 0;
    return *found || choice != NN_DEVICE_CUDA ? 0 : aml_error(worker, AML_EINPUT, "--device cuda: %s", error.text);
}

/* Returns the `result` of work on a device, after aml_error on failure. */
static inline int nn_device_result(aml_worker *worker, int result, const struct error *error) {
    return result == 0 ? 0 : aml_error(worker, result, "%s; --device cpu needs no device", error->text);
}

#endif
