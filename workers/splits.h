/* The splits of one file (agileml/input/split.h), divided among the processes of a job; and samples of files, by which
 * processes compare copies that they have not read as a whole. */
#ifndef WORKERS_SPLITS_H
#define WORKERS_SPLITS_H

#include "agileml/input/split.h"

/* Not changed once made: any threads may read it. */
struct splits {
    const char *path; /* the caller's */
    struct input_list list;
    struct input_splits cut;
    uint32_t count; /* at least 1 */
};

/* Cuts the file, which may be a pipe. Returns 0, and splits_close must follow; or what input_splits_make returns. */
int splits_make(struct splits *splits, const char *path, struct error *error);
void splits_close(struct splits *splits); /* a zeroed struct is allowed */

/* The part of number `index` (0 to count - 1) of `count` contiguous parts of about equal size. */
struct split_part {
    uint32_t first, end; /* its splits; may be none */
};
struct split_part splits_part(const struct splits *splits, uint32_t index, uint32_t count);
/* The bytes of the file that the part's splits have; 0 when that is not known, as of a pipe. */
uint64_t splits_part_bytes(const struct splits *splits, struct split_part part);

/* Hashes sampled blocks of a file: `blocks` over SPLIT_SAMPLES blocks that are spread evenly over the file, the first
 * and the last included, and over all bytes of a file that has no more than these; `borders` over the blocks around the
 * borders of `parts` parts, where a process stops and another goes on. Both 0 when the file can't be read, or is a
 * pipe. */
enum { SPLIT_SAMPLES = 64, SPLIT_SAMPLE_BYTES = 64 * 1024 };

struct split_sample {
    uint64_t blocks, borders;
};
struct split_sample splits_sample(const struct splits *splits, uint32_t parts);

#endif
