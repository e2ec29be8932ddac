/* device.h for a build without CUDA. */
#include "apps/nn/device.h"

int nn_device_check(struct error *error) {
    return error_set(error, AML_EINPUT, "this program was built without CUDA");
}
