/* See monotonic.h. */
#include "agileml/base/monotonic.h"

#include <time.h>

uint64_t monotonic_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int64_t monotonic_ms(void) {
    return (int64_t)(monotonic_us() / 1000);
}
