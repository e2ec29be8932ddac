/* Made-up ratings: Zipf-distributed items, as in real data, and a value that a low-rank model can learn. */
#ifndef BENCH_MF_SYNTHETIC_H
#define BENCH_MF_SYNTHETIC_H

#include "agileml/base/error.h"

#include <stdint.h>
#include <stdio.h>

enum { SYNTHETIC_PATH_MAX = 64 };

/* Writes `ratings` ratings by `users` users of `items` items, a line each, the same ones every time. Whether all was
 * written is for the caller to ask the stream. */
void synthetic_write(FILE *stream, uint32_t users, uint32_t items, uint64_t ratings);

/* The same into a file that has no name: it is gone when *file is closed, however that comes about. `path` is where
 * this and other processes can read it until then. */
int synthetic_ratings(uint32_t users, uint32_t items, uint64_t ratings, int *file, char path[SYNTHETIC_PATH_MAX],
                      struct error *error);

#endif
