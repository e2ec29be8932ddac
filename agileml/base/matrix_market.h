/* The head of a file in the MatrixMarket format: the banner `%%MatrixMarket matrix coordinate FIELD general`, comments
 * that begin with '%', and the size line `rows columns entries`. Behind the head each line is `row column value`, or
 * `row column` when the field is pattern; rows and columns count from 1. Only sparse matrices that are written whole
 * are accepted; arrays, complex, symmetric, skew-symmetric and hermitian matrices are rejected by name. Does not read
 * the entries. Pure functions of text, for any thread. */
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

/* Begins as zeros. */
struct matrix_market {
    enum matrix_market_field field;
    uint64_t rows, columns, entries;
    uint64_t lines; /* of the head that are taken: banner, comments, blank lines, size line */
};

/* Whether the line [line, end) begins as a banner does. It may still be one that is rejected. */
bool matrix_market_begins(const char *line, const char *end);

/* Takes the head's next line, first the banner, without its line end. Returns 1 when this was the size line, so that
 * the head is complete; 0 when another line must follow. Returns AML_EINPUT when the line is not as expected; the
 * message then names neither file nor line: the caller puts FILE:LINE before it, with head->lines as the line. */
int matrix_market_take(struct matrix_market *head, const char *line, const char *end, struct error *error);

#endif
