/* Reads extents of a text file (agileml/input/extents.h) in chunks of whole lines, in parallel. The calling thread
 * fills a ring of chunks. Parser threads take them in file order and finish them in any order. The calling thread
 * retires them in file order, so that the reported failure is the first. Where chunks begin depends on the extent
 * alone. Memory depends on the number of threads and the longest line, not on the file's size. */
#ifndef WORKERS_LINE_CHUNKS_H
#define WORKERS_LINE_CHUNKS_H

#include "workers/data/input_deal.h"

#include <stdbool.h>

enum {
    LINE_CHUNK_BYTES = 256 * 1024, /* of a chunk, unless a line is longer: it then stays in a core's cache */
    LINE_CHUNKS_PER_THREAD = 2,    /* chunks for each parser thread, and one more that is being filled */
    LINE_THREADS_MAX = 256,
    LINE_CHUNK_SLOTS_MAX = LINE_THREADS_MAX * LINE_CHUNKS_PER_THREAD + 1
};

/* A piece of the file. The calling thread uses a chunk from its retirement until it is published again, then a parser
 * until it is done. */
struct line_chunk {
    const char *text; /* lines, each with its end; a last line without an end gets an LF. text[size] is 0 */
    size_t size;
    uint64_t sequence;     /* counts the chunks of this reading from 0 */
    uint32_t extent, part; /* its extent, and its number there: the same in every process that reads the extent */
    uint64_t offset;       /* of text[0], counted in the lines of this extent and the next ones */
    unsigned slot;         /* its place in the ring: below line_chunk_slots */
    bool cut;              /* it ends within a group that is too long */
    size_t skip;           /* bytes at its beginning that `head` takes for itself */
    uint32_t note;         /* what `head` has set; later chunks have the same */
};

/* What `group` returns for a line that belongs to the group of the line before. */
#define LINE_GROUP_SAME UINT64_MAX

struct line_reading {
    const struct extents *extents;
    struct extent_range part; /* the extents to read */
    unsigned threads;         /* 1 to LINE_THREADS_MAX parser threads, beside the calling one */
    size_t line_max; /* bytes of a line, without its end. A longer line ends its extent, and the sink must refuse
                               the line */
    /* Returns the group of a line, or LINE_GROUP_SAME. The line ends in LF or CR, and its text alone may decide.
     * Consecutive lines of a group come in one chunk, also across the border of extents. A group of more than line_max
     * bytes ends its extent, as a long line does (line_chunk.cut). Called in the calling thread. NULL: no groups. */
    uint64_t (*group)(const char *line);
    /* Looks at the file's chunks, from the first one on, and sets `skip` and `note`, until it returns true because it
     * knows enough. Also gets chunks of extents that are not read otherwise. Called in the calling thread. NULL:
     * none. */
    bool (*head)(void *context, struct line_chunk *chunk);
    /* Takes a chunk, in parser thread `thread` (from 0). Different threads call it at the same time, about in the order
     * of chunks. A result other than 0 ends the reading, and line_chunks_read returns it. */
    int (*sink)(void *context, unsigned thread, const struct line_chunk *chunk);
    /* Is called for each chunk that is done, in order, in the calling thread, up to the first that failed. NULL: no
     * call. */
    void (*retire)(void *context, const struct line_chunk *chunk, int code);
    void *context;
};

/* Returns 0 when every line was taken. Otherwise the first failure in the order of the file decides, whatever the
 * threads' timing. A failure of the sink returns the sink's result, with *error not set. All others set *error:
 * AML_EINPUT (the file can't be read, or its compressed data is damaged), AML_ENOMEM, AML_ELIMIT (too many threads),
 * AML_EFAIL (the threads can't be started). When reading itself fails, the lines of the chunk that was being filled are
 * not taken. */
int line_chunks_read(const struct line_reading *reading, struct error *error);

static inline unsigned line_chunk_slots(unsigned threads) {
    return threads * LINE_CHUNKS_PER_THREAD + 1;
}

/* Counts the lines of an extent before the byte at `offset` (see line_chunk), so that a message can name a line by its
 * number. Reads the file up to that byte, so use it for failures only. */
int line_chunks_count(const struct extents *extents, uint32_t extent, uint64_t offset, uint64_t *lines,
                      struct error *error);

#endif
