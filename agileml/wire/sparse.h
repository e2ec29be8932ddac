/* Rows of whole numbers written by their elements that are not 0 (WIRE_SPARSE): deltas of wide rows of counts, of which
 * a clock changes few. Such a row is
 *
 *   uint32_t count                   how many elements follow; SPARSE_ALL: all of them, in order, without columns
 *   count x (uint32_t column, value) columns ascending, below the row's width; values of the table's type
 *
 * whichever of the two is shorter. Rows follow each other without gaps, so they have no fixed size. Exact: elements
 * that are not there add 0. Values stand at multiples of 4 bytes. The functions use elements of 4 or 8 bytes as
 * unsigned numbers, which wrap. They allocate nothing; any thread. */
#ifndef AGILEML_WIRE_SPARSE_H
#define AGILEML_WIRE_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPARSE_ALL UINT32_MAX

/* Bytes that no row exceeds. */
static inline size_t sparse_most(uint32_t width, uint32_t element_bytes) {
    return sizeof(uint32_t) + (size_t)width * element_bytes;
}

/* Writes row - base to `to`, which has room for sparse_most bytes, and returns the bytes; with `settle`, base becomes
 * row. None overlap. */
size_t sparse_delta(uint32_t element_bytes, unsigned char *to, const void *row, void *base, uint32_t width,
                    bool settle);

/* Writes the row whose elements columns[count], ascending, are values[count], likewise. */
size_t sparse_write(uint32_t element_bytes, unsigned char *to, uint32_t width, uint32_t count, const uint32_t *columns,
                    const void *values);

/* The bytes of the row that begins at `row`, of which `left` are there; 0: it is malformed. */
size_t sparse_check(uint32_t element_bytes, const unsigned char *row, size_t left, uint32_t width);

/* Adds a row that was checked to `target`, or takes it away, and returns its bytes. */
size_t sparse_add(uint32_t element_bytes, void *target, const unsigned char *row, uint32_t width);
size_t sparse_subtract(uint32_t element_bytes, void *target, const unsigned char *row, uint32_t width);

/* The bytes of a row that was checked. */
size_t sparse_bytes(uint32_t element_bytes, const unsigned char *row, uint32_t width);

#endif
