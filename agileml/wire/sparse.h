/* Rows of whole numbers, encoded as their elements that are not 0 (WIRE_SPARSE). For wide rows of counts, which are
 * mostly 0, and for their deltas, as a clock changes few elements. An encoded row has the shorter of these forms:
 *
 *   uint32_t count, count x (uint32_t column, value)   the elements that are not 0; columns ascend, below the width
 *   uint32_t SPARSE_ALL, width x value                 all elements in order
 *
 * Values have the table's type, and begin at multiples of 4 bytes. Rows follow each other without gaps, and have
 * different sizes. The encoding is exact: missing elements are 0. The functions treat elements of 4 or 8 bytes as
 * unsigned numbers, which wrap. They allocate nothing; any thread. */
#ifndef AGILEML_WIRE_SPARSE_H
#define AGILEML_WIRE_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPARSE_ALL UINT32_MAX

/* Returns the size in bytes that no encoded row exceeds. */
static inline size_t sparse_most(uint32_t width, uint32_t element_bytes) {
    return sizeof(uint32_t) + (size_t)width * element_bytes;
}

/* Encodes row - base into `to`, which has room for sparse_most bytes, and returns the encoded size. With `settle`,
 * copies `row` to `base`. `base` NULL: encodes the row; `settle` is false. `to`, `row` and `base` do not overlap. */
size_t sparse_delta(uint32_t element_bytes, unsigned char *to, const void *row, void *base, uint32_t width,
                    bool settle);

/* Encodes a row that has the given values in the given columns, which ascend, and 0 elsewhere. `to` and the return
 * value are as for sparse_delta. */
size_t sparse_write(uint32_t element_bytes, unsigned char *to, uint32_t width, uint32_t count, const uint32_t *columns,
                    const void *values);

/* Returns the size of the encoded row at `row`, where `left` bytes can be read; 0: the row is malformed. */
size_t sparse_check(uint32_t element_bytes, const unsigned char *row, size_t left, uint32_t width);

/* Add a checked row to `target`, or subtract it, or replace `target` by it, and return its encoded size. */
size_t sparse_add(uint32_t element_bytes, void *target, const unsigned char *row, uint32_t width);
size_t sparse_copy(uint32_t element_bytes, void *target, const unsigned char *row, uint32_t width);
size_t sparse_subtract(uint32_t element_bytes, void *target, const unsigned char *row, uint32_t width);

/* Returns the encoded size of a checked row. */
size_t sparse_bytes(uint32_t element_bytes, const unsigned char *row, uint32_t width);

#endif
