/* device.h for a build without CUDA. */
#include "apps/net/device.h"

const struct net_device_calls net_cuda = {0};
