/* The time that passes: a clock that nobody sets and that begins anywhere. For the time of day, see instant.h. */
#ifndef AGILEML_BASE_MONOTONIC_H
#define AGILEML_BASE_MONOTONIC_H

#include <stdint.h>

uint64_t monotonic_us(void);
int64_t monotonic_ms(void);

#endif
