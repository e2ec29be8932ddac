/* device.h for a build without CUDA. */
#include "apps/mlr/device.h"

const struct mlr_device_calls mlr_cuda = {0};
