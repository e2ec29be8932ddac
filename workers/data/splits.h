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

/* Cuts the file, which may be a pipe. Returns 0, and splits_close must follow. Otherwise returns what input_splits_make
 * returns. */
int splits_make(struct splits *splits, const char *path, struct error *error);
/* The same, as one split, for a file that can only be read from its beginning. */
int splits_make_whole(struct splits *splits, const char *path, struct error *error);
void splits_close(struct splits *splits); /* a zeroed struct is allowed */

/* A range of a file's splits; may be empty. */
struct split_part {
    uint32_t first, end;
};
struct split_part splits_all(const struct splits *splits);

/* Deals the splits of an input to the parts in which a job reads it, file by file. A file's ranges are in the order of
 * the parts. All processes deal the same files in the same order, and so get the same parts. */
struct splits_deal {
    uint32_t parts;  /* 0: closed */
    uint64_t *bytes; /* [parts]: what each part has of the files so far */
    uint32_t *first; /* [parts + 1]: each part's first split of the file dealt last; then the number of the file's
                        splits */
};
void splits_deal_open(struct splits_deal *deal, uint32_t parts);
void splits_deal_close(struct splits_deal *deal); /* a zeroed struct is allowed */
/* Deals a file so that all parts have about the same number of bytes of all files so far. So files of a single split
 * are spread over the parts, too. */
void splits_deal_file(struct splits_deal *deal, const struct splits *splits);
/* Returns the splits of the file dealt last that part `index` (from 0) has. */
struct split_part splits_part(const struct splits_deal *deal, uint32_t index);

/* The bytes of the file that the part's splits have; 0 when that is not known, as of a pipe. */
uint64_t splits_part_bytes(const struct splits *splits, struct split_part part);

/* Hashes sampled blocks of a file. `blocks` covers SPLIT_SAMPLES blocks, spread evenly, with the first and the last; or
 * all bytes of a file that has no more. `borders` covers the blocks at the borders of the parts to which the file was
 * dealt last, where one process stops and another goes on. Both are 0 when the file is a pipe or can't be read. */
enum { SPLIT_SAMPLES = 64, SPLIT_SAMPLE_BYTES = 64 * 1024 };

struct split_sample {
    uint64_t blocks, borders;
};
struct split_sample splits_sample(const struct splits *splits, const struct splits_deal *deal);

#endif
