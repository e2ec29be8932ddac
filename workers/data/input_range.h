/* Hashes the ranges of a divided input, so that processes can compare their copies of a file. A range is what one part
 * of the input has of a file. Its reader makes two hashes on the way: of all bytes, for whoever reads the range too;
 * and of some blocks, for one other process that reads only these. */
#ifndef WORKERS_INPUT_RANGE_H
#define WORKERS_INPUT_RANGE_H

#include "agileml/base/hash.h"
#include "agileml/input/extents.h"
#include "agileml/wire/message.h"

/* A range's sample is at most one in INPUT_RANGE_SAMPLED of its bytes, in up to INPUT_RANGE_BLOCKS blocks spread over
 * it. With small blocks there are fewer. */
enum { INPUT_RANGE_SAMPLED = 64, INPUT_RANGE_BLOCKS = 16, INPUT_RANGE_BLOCK_LEAST = 64 * 1024 };

struct input_range {
    uint64_t first, end; /* the range's bytes are [first, end) of the file; equal: the file has no such range */
    uint64_t at;         /* the bytes before were hashed */
    uint64_t block;      /* the number of the block of which some bytes at `at` or later are */
    struct hash_stream all, sample;
};

/* Begins with the range that these extents are, which may be none. */
void input_range_begin(struct input_range *range, const struct extents *extents, struct extent_range which);
/* Hashes the range's next bytes, and ignores bytes that are not next (extent_watch.bytes). */
void input_range_add(void *range, uint64_t offset, const unsigned char *bytes, size_t size);
/* The hashes, which are not 0. 0: not all bytes were added, or the range is too small for a sample. */
uint64_t input_range_hash(const struct input_range *range);
uint64_t input_range_sample(const struct input_range *range);

/* Reads the blocks of a range that has just begun. Then input_range_sample has the hash, but 0 if the file can't be
 * read or has changed. */
void input_range_read_sample(struct input_range *range, const char *path, const struct source_identity *identity);

/* A range of another process's part, of which this process is to read the sample. */
struct input_range_other {
    char *path; /* owned */
    struct source_identity identity;
    struct input_range range;
    uint32_t part;
    unsigned file;
};

/* The hashes of all ranges that this process has read, in any reading. */
struct input_ranges {
    struct wire_input_range *at;
    size_t count;
    bool news; /* since input_ranges_news */
    struct input_range_other *others;
    size_t other_count;
};

void input_ranges_close(struct input_ranges *ranges); /* a zeroed struct is allowed */
/* Call it before a part is read: forgets what is known of that part. */
void input_ranges_begin(struct input_ranges *ranges, uint32_t part);
/* Adds what is known of a range after its reading. `file` is the record of its file in INPUT. */
void input_ranges_add(struct input_ranges *ranges, const struct input_range *range, uint32_t part, unsigned file);
/* Notes a range of another part, and reads the samples of all that were noted. */
void input_ranges_note(struct input_ranges *ranges, const struct extents *extents, struct extent_range which,
                       uint32_t part, unsigned file);
void input_ranges_sample(struct input_ranges *ranges);
/* Whether hashes were added since the last call. */
bool input_ranges_news(struct input_ranges *ranges);

#endif
