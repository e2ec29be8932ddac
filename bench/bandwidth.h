/* The machine's memory bandwidth, by STREAM's triad a[i] = b[i] + s * c[i]. */
#ifndef BENCH_BANDWIDTH_H
#define BENCH_BANDWIDTH_H

#include <stddef.h>

/* Bytes per second of `threads` threads, each with three arrays of `bytes` / 3 / `threads`: the median of several
 * passes. 12 bytes are counted for each element, as STREAM does: what the processor reads before it writes is not. */
double bandwidth_triad(size_t bytes, unsigned threads);

#endif
