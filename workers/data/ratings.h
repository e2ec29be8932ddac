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
#include "workers/data/line_chunks.h"
#include "workers/data/ratings_head.h"

/* The format: one rating a line, `user item rating [time]`, or the columns that a header or `columns` names. For quotes
 * and blanks see text_fields.h; for line ends, byte order marks and gzip text_input.h; for MatrixMarket
 * matrix_market.h; for what stands before the lines ratings_head.h.
 *
 * - The separator is a tab, a comma, a semicolon, `::` or blanks. The first data line decides for the whole file.
 * - user, item: numbers or texts (rating_ids.h). rating: a decimal number such as 3, 4.5 or -1e-2 that is finite as a
 *   float32, to which it is rounded. Other fields are not looked at.
 * - Without a header a line has 3 or 4 fields, otherwise at most those of the header; at its end an empty field more.
 * - Lines that are empty, only blanks or only separators are skipped.
 * - A rating is missing when the line ends before it, or has a word for that (rating_is_missing): see
 *   enum ratings_missing. */
enum {
    RATINGS_LINE_MIN = 4 /* bytes of the shortest line that counts, with its end: "1 1\n" */
};

struct rating {
    uint64_t user;
    uint64_t item;
    float value; /* NAN: the line has none */
};

/* Takes the ratings of one chunk, in file order; they are valid only during the call. Called once for each chunk, in
 * the parser thread `thread` (0 to threads - 1). Different threads call it at the same time, about in the order of
 * chunks. `count` can be 0. A non-zero result stops the reading, and ratings_read returns it. */
typedef int ratings_sink(void *context, unsigned thread, const struct line_chunk *chunk, const struct rating *ratings,
                         size_t count);

/* The ids of a rating as they stand in the file. */
struct rating_texts {
    struct text_field user, item;
};

/* As ratings_sink, with the ids' texts. */
typedef int ratings_text_sink(void *context, unsigned thread, const struct rating *ratings,
                              const struct rating_texts *texts, size_t count);

/* How to read files of ratings. */
struct ratings_reader {
    struct ratings_options options;
    unsigned threads;             /* 1 to LINE_THREADS_MAX parser threads beside the calling one */
    ratings_sink *sink;           /* or: */
    ratings_text_sink *text_sink; /* slower */
    /* Gets a sentence about the header, without the file's name, in the calling thread. The sentence does not depend on
     * the part that is read. NULL: no call. */
    void (*say)(void *context, const char *text);
    void *context;
};

/* Reads the file at `path`, and returns when all threads have ended.
 *
 * Returns 0 when every line was taken. Otherwise the first failure in the order of the file decides, whatever the
 * threads' timing; the sink may have got chunks before and after it. The codes are:
 *
 *   AML_EINPUT     the file can't be read, its gzip is damaged, a line does not fit (the message is
 *                  `path:line: expected ..., got '...'`), the header lacks a column, or there are no ratings at all
 *   AML_ELIMIT     too many threads
 *   AML_ENOMEM     no memory
 *   AML_EFAIL      the threads can't be started
 *   another value  the sink's result; *error is not set
 *
 * When reading itself fails, the lines of the chunk that was being filled are not parsed. */
int ratings_read(const struct ratings_reader *reader, const char *path, struct error *error);
/* Reads some of the file's extents. The header and the layout are still those of the file's beginning, and a line's
 * number is that in the whole file. The process that reads the last extent of a MatrixMarket file counts all its
 * lines. */
int ratings_read_part(const struct ratings_reader *reader, const struct extents *extents, struct extent_range part,
                      struct error *error);

/* ---- The parts of ratings_read that are pure functions of text, for tests and fuzzing ---- */

enum ratings_fault_reason {
    RATINGS_BAD_USER = 0, /* in the order of enum rating_role */
    RATINGS_BAD_ITEM,
    RATINGS_BAD_RATING,
    RATINGS_NO_RATING,
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
    uint64_t left_out;          /* lines whose rating is missing, with missing ratings skipped */
    uint64_t lines;             /* lines up to the end, or up to and including the bad line */
    struct ratings_fault fault; /* set with AML_EINPUT only */
};

/* Parses the lines of text[size], which must be empty or end in a line's end; text[size] must be readable and no LF.
 * `ratings` has room for size / RATINGS_LINE_MIN, and so has `texts`, unless it is NULL. Returns 0, AML_EINPUT at the
 * first line that does not fit, or AML_ENOMEM. The head must not be in the text. */
int ratings_parse(const char *text, size_t size, const struct ratings_layout *layout, struct rating *ratings,
                  struct rating_texts *texts, struct ratings_parsed *parsed);

#endif
