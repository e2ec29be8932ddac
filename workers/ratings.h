/* Reads a file of ratings, plain or gzip, as a stream: the calling thread reads and inflates, parser threads turn
 * chunks of whole lines into ratings and hand them to a sink. Memory is bounded by the number of threads, never by
 * the file. Does not keep, sort, renumber or deduplicate ratings. */
#ifndef WORKERS_RATINGS_H
#define WORKERS_RATINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agileml/base/error.h"
#include "agileml/base/text_fields.h"

/* The format: one rating a line, `user item rating [time]`, by the rules of text_fields.h and text_input.h: quotes,
 * blanks, line ends, byte order marks and gzip are theirs.
 *
 * - The separator is a tab, a comma, a semicolon, `::` or blanks; the first data line decides, and then it holds for
 *   the whole file.
 * - user, item: decimal digits, 0 to 2^64 - 1. rating: a decimal number such as 3, 4.5 or -1e-2 that is finite as a
 *   float32, to which it is rounded. time: a decimal number, ignored.
 * - Line 1 is a header, and skipped, when its first field does not start as a number does.
 * - Lines that are empty or only blanks are skipped.
 * - Where it is allowed, ratings may be missing: when the first data line is `user item`, all lines are. */
enum {
    RATINGS_LINE_MAX = 4096,          /* bytes of a line, without its end */
    RATINGS_LINE_MIN = 4,             /* bytes of the shortest line that counts, with its end: "1 1\n" */
    RATINGS_CHUNK_BYTES = 256 * 1024, /* most bytes of a chunk: with its ratings it stays in a core's cache */
    RATINGS_CHUNKS_PER_THREAD = 2,    /* waiting or being parsed, for each parser thread (and one being filled) */
    RATINGS_THREADS_MAX = 256
};

struct rating {
    uint64_t user;
    uint64_t item;
    float value; /* NAN: the file has none */
};

/* Takes the ratings of one chunk, in file order; they are the sink's only during the call. Called once for each chunk
 * from the parser thread `thread` (0 to threads - 1), at the same time for different chunks on different threads.
 * `chunk` numbers the chunks in file order, from 0 without gaps; calls come in about that order, not exactly. `count`
 * can be 0. Non-zero stops the reading and is returned by ratings_read. */
typedef int ratings_sink(void *context, unsigned thread, uint64_t chunk, const struct rating *ratings, size_t count);

/* Reads the file at `path` with `threads` (1 to RATINGS_THREADS_MAX) parser threads beside the calling one, and
 * returns when all have ended. `allow_unrated`: the file may be one without ratings.
 *
 * Returns 0 when every line was taken. Otherwise what failed first in the order of the file decides, whatever the
 * threads' timing, though the sink may have been given chunks around it, before and after: AML_EINPUT for a file that
 * can't be read, damaged gzip, a line that does not fit (the message says `path:line: expected ..., got '...'`) or no
 * ratings at all; the sink's own value, with *error untouched, when it stopped. AML_ELIMIT for too many threads,
 * AML_ENOMEM, or AML_EFAIL when threads can't be started. When reading itself fails, the lines of the chunk that was
 * being filled are not looked at. */
int ratings_read(const char *path, bool allow_unrated, unsigned threads, ratings_sink *sink, void *context,
                 struct error *error);

/* The parts of ratings_read that are pure functions of text, for tests and fuzzing. */

/* What the lines of a file are like. */
struct ratings_layout {
    enum text_separator separator; /* TEXT_UNKNOWN: no line fits */
    bool unrated;                  /* `user item`, and nothing else */
};

enum ratings_fault_reason {
    RATINGS_BAD_USER = 0, /* in the order of the fields */
    RATINGS_BAD_ITEM,
    RATINGS_BAD_RATING,
    RATINGS_BAD_TIME,
    RATINGS_BAD_FIELDS,
    RATINGS_BAD_QUOTES,
    RATINGS_BAD_LENGTH
};

struct ratings_fault {
    enum ratings_fault_reason reason;
    const char *text; /* the field, or the line: within the parsed text */
    size_t length;
};

struct ratings_parsed {
    size_t count;               /* ratings */
    uint64_t lines;             /* up to the end, or to the one that does not fit, which is included */
    struct ratings_fault fault; /* set with AML_EINPUT only */
};

/* The layout by the first line of text[size] that is not empty. Here and below the text is empty or ends in a line's
 * end, and text[size] can be read and is no LF. */
struct ratings_layout ratings_detect(const char *text, size_t size, bool allow_unrated);

/* Parses the lines of text[size] into `ratings`, which has room for size / RATINGS_LINE_MIN. Returns 0, AML_EINPUT at
 * the first line that does not fit, or AML_ENOMEM. Knows no header. */
int ratings_parse(const char *text, size_t size, struct ratings_layout layout, struct rating *ratings,
                  struct ratings_parsed *parsed);

#endif
