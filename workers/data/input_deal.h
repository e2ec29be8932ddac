/* Deals the extents of an input (agileml/input/extents.h) among the processes of a job. Samples files, so that
 * processes can compare copies that they have not read as a whole. */
#ifndef WORKERS_INPUT_DEAL_H
#define WORKERS_INPUT_DEAL_H

#include "agileml/input/extents.h"

/* Deals the extents of an input to the parts in which a job reads it, file by file. A file's ranges are in the order of
 * the parts. All processes deal the same files in the same order, and so get the same parts. */
struct input_deal {
    uint32_t parts;  /* 0: closed */
    uint64_t least;  /* bytes of a file that are worth a part: the file goes to at most (its bytes / least) parts, and
                        to at least one. 0: to all */
    uint64_t *bytes; /* [parts]: what each part has of the files so far */
    uint32_t *first; /* [parts + 1]: each part's first extent of the file dealt last; then the number of the file's
                        extents */
};
void input_deal_open(struct input_deal *deal, uint32_t parts, uint64_t least);
void input_deal_close(struct input_deal *deal); /* a zeroed struct is allowed */
/* Deals a file so that all parts have about the same number of bytes of all files so far. So files of a single extent
 * are spread over the parts, too. */
void input_deal_file(struct input_deal *deal, const struct extents *extents);
/* Returns the extents of the file dealt last that part `index` (from 0) has. */
struct extent_range input_deal_part(const struct input_deal *deal, uint32_t index);

/* Hashes sampled blocks of a file. `blocks` covers INPUT_SAMPLES blocks, spread evenly, with the first and the last; or
 * all bytes of a file that has no more. `borders` covers the blocks at the borders of the parts to which the file was
 * dealt last, where one process stops and another goes on. Both are 0 when the file is a pipe or can't be read. */
enum { INPUT_SAMPLES = 64, INPUT_SAMPLE_BYTES = 64 * 1024 };

struct input_sample {
    uint64_t blocks, borders;
};
struct input_sample input_sample(const struct extents *extents, const struct input_deal *deal);

#endif
