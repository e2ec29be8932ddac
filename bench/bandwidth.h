/* The machine's memory bandwidth, by STREAM's triad a[i] = b[i] + s * c[i]. */
#ifndef BENCH_BANDWIDTH_H
#define BENCH_BANDWIDTH_H

#include <stddef.h>

/* Returns the memory bandwidth of `threads` threads in bytes per second, the median of several passes. Each thread has
 * three arrays of `bytes` / 3 / `threads`. As in STREAM, an element counts 12 bytes; reads that the processor makes in
 * order to write do not count. */
double bandwidth_triad(size_t bytes, unsigned threads);

#endif
