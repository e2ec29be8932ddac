/* Made-up ratings: Zipf-distributed items, as in real data, and values that a low-rank model can learn. */
#ifndef BENCH_MF_SYNTHETIC_H
#define BENCH_MF_SYNTHETIC_H

#include "agileml/base/error.h"

#include <stdint.h>
#include <stdio.h>

enum { SYNTHETIC_PATH_MAX = 64 };

/* Writes `ratings` lines of ratings by `users` users of `items` items, the same in each run. The caller checks
 * ferror. */
void synthetic_write(FILE *stream, uint32_t users, uint32_t items, uint64_t ratings);

/* Writes the same ratings into a file without a name, which is gone when *file is closed or the process ends. Until
 * then processes can read it at `path`. */
int synthetic_ratings(uint32_t users, uint32_t items, uint64_t ratings, int *file, char path[SYNTHETIC_PATH_MAX],
                      struct error *error);

#endif
