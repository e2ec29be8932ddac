/* Cuts a file into splits: ranges that different processes, or one after the other, can read by themselves. A line
 * belongs to the split in which it begins. The splits depend on the file's bytes alone, so they are the same for every
 * process that has the same file. A plain file has splits of one size; any other file (gzip, a pipe) is one split. */
#ifndef WORKERS_SPLITS_H
#define WORKERS_SPLITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agileml/base/error.h"

enum {
    SPLIT_BYTES_MIN = 1 << 18, /* of a plain split, but for a file's last */
    SPLIT_BYTES_MAX = 1 << 26,
    SPLITS_OF_FILE = 256 /* a file's size is divided by it for the size of its splits */
};

/* The splits of one file. Not changed once made: any threads may read it. */
struct splits {
    const char *path; /* the caller's */
    bool plain;
    uint64_t bytes; /* of the file, when it is plain */
    uint64_t size;  /* of a split, but for the last, when the file is plain */
    uint32_t count; /* at least 1 */
};

/* Returns 0 or AML_EINPUT: the file can't be opened or read. `cut` false: one split. */
int splits_make(struct splits *splits, const char *path, bool cut, struct error *error);

/* The part of number `index` (0 to count - 1) of `count` contiguous parts of about equal size. */
struct split_part {
    uint32_t first, end; /* its splits; may be none */
};
struct split_part splits_part(const struct splits *splits, uint32_t index, uint32_t count);
/* The bytes of the file that the part's splits have. */
uint64_t splits_part_bytes(const struct splits *splits, struct split_part part);

/* The text of a split's lines, as a stream. */
struct split_text;

/* Opens the text of split `index`; split_text_close must follow when it returns 0. Otherwise AML_EINPUT or
 * AML_ENOMEM. */
int split_text_open(struct split_text **text, const struct splits *splits, uint32_t index, struct error *error);
/* Reads `size` bytes (the first time at least 16), or fewer if the text ends; *got < size means that it has ended. A
 * byte order mark at the file's beginning is skipped. Returns 0, AML_EINPUT or AML_ENOMEM. */
int split_text_read(struct split_text *text, char *bytes, size_t size, size_t *got, struct error *error);
/* The offset in the file's text of the split's first byte, once something was read. 0 for a split that is not plain. */
uint64_t split_text_offset(const struct split_text *text);
void split_text_close(struct split_text *text); /* NULL is allowed */

/* Hashes sampled blocks of a file, so that processes can compare copies that they have not read as a whole: `blocks`
 * over SPLIT_SAMPLES blocks that are spread evenly over the file, the first and the last included (so over all bytes of
 * a file that is small), and `borders` over the blocks around the borders of `parts` parts, where a process stops and
 * another goes on. Both 0 when the file can't be read. */
enum { SPLIT_SAMPLES = 64, SPLIT_SAMPLE_BYTES = 64 * 1024 };

struct split_sample {
    uint64_t blocks, borders;
};
struct split_sample splits_sample(const struct splits *splits, uint32_t parts);

#endif
