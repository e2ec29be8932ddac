/* The head of a file in the MatrixMarket format: the banner `%%MatrixMarket matrix coordinate FIELD general`,
 * comments that begin with '%', and the size line `rows columns entries`. Behind the head each line is `row column
 * value`, or `row column` when the field is pattern; rows and columns count from 1. Only general sparse matrices are
 * accepted, and symmetric ones where the caller wants them. The message of a rejection names the kind: array, complex,
 * symmetric, skew-symmetric or hermitian. The entries are not read here. Pure functions of text, for any thread. */
#ifndef AGILEML_BASE_MATRIX_MARKET_H
#define AGILEML_BASE_MATRIX_MARKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agileml/base/error.h"

enum matrix_market_field {
    MATRIX_MARKET_REAL = 0,
    MATRIX_MARKET_INTEGER,
    MATRIX_MARKET_PATTERN /* entries have no value: it is 1 */
};

/* Must be zeroed before the first line, except for `halves`. */
struct matrix_market {
    bool halves;    /* symmetric matrices are accepted */
    bool symmetric; /* the entries are one half of the matrix and its diagonal */
    enum matrix_market_field field;
    uint64_t rows, columns, entries;
    uint64_t lines; /* lines of the head so far: banner, comments, blank lines, size line */
};

/* Whether the line [line, end) begins like a banner. matrix_market_take may still reject it. */
bool matrix_market_begins(const char *line, const char *end);

/* Takes the head's next line without its line end, the banner first. Returns 1 when this was the size line, which
 * completes the head; 0 when another line must follow. Returns AML_EINPUT when the line is not as expected. The
 * message then names neither file nor line: the caller puts FILE:LINE before it, with head->lines as the line. */
int matrix_market_take(struct matrix_market *head, const char *line, const char *end, struct error *error);

#endif
