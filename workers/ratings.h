/* Reads a file of ratings, plain or gzip, as a stream. The calling thread reads and inflates; parser threads turn
 * chunks of whole lines into ratings and pass them to a sink. Memory depends on the number of threads, not on the
 * file's size. Does not keep, sort, renumber or deduplicate ratings. */
#ifndef WORKERS_RATINGS_H
#define WORKERS_RATINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agileml/base/error.h"
#include "agileml/base/text_fields.h"
#include "workers/line_chunks.h"

/* The format: one rating a line, `user item rating [time]`. For quotes and blanks see text_fields.h; for line ends,
 * byte order marks and gzip text_input.h.
 *
 * - The separator is a tab, a comma, a semicolon, `::` or blanks. The first data line decides for the whole file.
 * - user, item: decimal digits, 0 to 2^64 - 1. rating: a decimal number such as 3, 4.5 or -1e-2 that is finite as a
 *   float32, to which it is rounded. time: a decimal number, ignored.
 * - Line 1 is skipped as a header when its first field does not start as a number does.
 * - Lines that are empty or only blanks are skipped.
 * - With `allow_unrated` a file may have no ratings: if the first data line is `user item`, all lines must be. */
enum {
    RATINGS_LINE_MAX = 4096, /* bytes of a line, without its end */
    RATINGS_LINE_MIN = 4,    /* bytes of the shortest line that counts, with its end: "1 1\n" */
};

struct rating {
    uint64_t user;
    uint64_t item;
    float value; /* NAN: the file has none */
};

/* Takes the ratings of one chunk, in file order; they are valid only during the call. Called once for each chunk, in
 * the parser thread `thread` (0 to threads - 1); different threads call it at the same time. Calls come about in the
 * order of chunks. `count` can be 0. A non-zero result stops the reading, and ratings_read returns it. */
typedef int ratings_sink(void *context, unsigned thread, const struct line_chunk *chunk, const struct rating *ratings,
                         size_t count);

/* Reads the file at `path` with `threads` (1 to LINE_THREADS_MAX) parser threads beside the calling one, and returns
 * when all have ended. `allow_unrated`: the file may have no ratings.
 *
 * Returns 0 when every line was taken. Otherwise the first failure in the order of the file decides, whatever the
 * threads' timing; the sink may have got chunks before and after it. The codes are:
 *
 *   AML_EINPUT     the file can't be read, its gzip is damaged, a line does not fit (the message is
 *                  `path:line: expected ..., got '...'`), or there are no ratings at all
 *   AML_ELIMIT     too many threads
 *   AML_ENOMEM     no memory
 *   AML_EFAIL      the threads can't be started
 *   another value  the sink's result; *error is not set
 *
 * When reading itself fails, the lines of the chunk that was being filled are not parsed. */
int ratings_read(const char *path, bool allow_unrated, unsigned threads, ratings_sink *sink, void *context,
                 struct error *error);
/* Reads some of the file's splits. The header and the layout are still those of the file's beginning, and a line's
 * number is that in the whole file. */
int ratings_read_part(const struct splits *splits, struct split_part part, bool allow_unrated, unsigned threads,
                      ratings_sink *sink, void *context, struct error *error);

/* ---- The parts of ratings_read that are pure functions of text, for tests and fuzzing ---- */

/* The form of a file's lines. */
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
    uint64_t lines;             /* lines up to the end, or up to and with the one that does not fit */
    struct ratings_fault fault; /* set with AML_EINPUT only */
};

/* The layout by the first line of text[size] that is not empty. In this function and the next, the text must be empty
 * or end in a line's end, and text[size] must be readable and no LF. */
struct ratings_layout ratings_detect(const char *text, size_t size, bool allow_unrated);

/* Parses the lines of text[size] into `ratings`, which has room for size / RATINGS_LINE_MIN. Returns 0, AML_EINPUT at
 * the first line that does not fit, or AML_ENOMEM. Does not skip a header. */
int ratings_parse(const char *text, size_t size, struct ratings_layout layout, struct rating *ratings,
                  struct ratings_parsed *parsed);

#endif
