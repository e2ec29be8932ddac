/* The head of a file of ratings: comments, a header that names the columns, MatrixMarket's banner and size. From it,
 * finds which columns are the user, the item and the rating. Does not read ratings. */
#ifndef WORKERS_RATINGS_HEAD_H
#define WORKERS_RATINGS_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agileml/base/error.h"
#include "agileml/base/matrix_market.h"
#include "agileml/base/text_columns.h"

enum {
    RATINGS_LINE_MAX = 1 << 20, /* bytes of a line, without its end */
    RATINGS_SAID_MAX = 400      /* bytes of a sentence about the head, with its 0 */
};

enum rating_role { RATING_USER = 0, RATING_ITEM, RATING_VALUE, RATING_ROLES };

/* What becomes of a line without a rating. */
enum ratings_missing {
    RATINGS_REFUSE_MISSING = 0,
    RATINGS_SKIP_MISSING, /* the sink does not get it */
    RATINGS_TAKE_MISSING  /* the sink gets it with the value NAN; the file may have no column of ratings */
};

struct ratings_options {
    /* Which columns are what: `user=NAME,item=2,rating=NAME` with any of the three. Names are from the header, numbers
     * count from 1. Takes precedence over the header's names. NULL: none. */
    const char *columns;
    enum ratings_missing missing;
    bool has_options; /* the program has --columns and --missing-ratings: for messages */
};

/* Checks the text of `columns`. Returns 0 or AML_EINPUT. */
int ratings_columns_check(const char *columns, struct error *error);

/* The form of a file's lines. */
struct ratings_layout {
    enum text_separator separator; /* TEXT_UNKNOWN: no line fits */
    int places[RATING_ROLES];      /* columns, from 0; of RATING_VALUE also TEXT_COLUMN_NONE */
    size_t columns;                /* fields that a line may have; one more may follow if it is empty */
    bool header;                   /* a header or --columns determines the columns */
    enum ratings_missing missing;
    bool matrix;           /* MatrixMarket, which has: */
    uint64_t users, items; /* the highest user and item */
};

/* BEGIN --banner--> MATRIX --size line--> BODY --the first line of data--> KNOWN
 * BEGIN --header--> BODY;  BEGIN --the first line of data--> KNOWN;  any but KNOWN --a line that is wrong--> REFUSED */
enum ratings_phase { RATINGS_BEGIN = 0, RATINGS_MATRIX, RATINGS_BODY, RATINGS_KNOWN, RATINGS_REFUSED };

/* Begins as zeros but for the options. */
struct ratings_head {
    struct ratings_options options;
    enum ratings_phase phase;
    struct ratings_layout layout; /* KNOWN: complete */
    struct matrix_market matrix;  /* from MATRIX on; `entries` is what the file must have */
    uint64_t lines;               /* of the head */
    uint64_t filled;              /* lines of the head that are not blank */
    struct error refusal;         /* REFUSED: the reason, which names neither file nor line; line `lines` is wrong */
    char said[RATINGS_SAID_MAX];  /* what was taken for a header, without the file's name; "": nothing */
};

/* Takes the head's lines from the file's next text[size], which must be empty or end in a line's end. The byte at
 * text[size] must be readable and no LF. Returns how many bytes were taken. In the phase KNOWN the lines of data begin
 * after these bytes. In REFUSED there is nothing more to read. Otherwise all lines were taken, and the next text is
 * needed. */
size_t ratings_head_take(struct ratings_head *head, const char *text, size_t size);

#endif
