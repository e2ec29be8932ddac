/* bfloat16, the upper half of an IEEE 754 binary32, and its error feedback (docs/design.md, "Compression"). With
 * --compress bf16 float32 rows of add tables are sent in this format. Plain loops over arrays, which compilers
 * vectorize; no state, any thread. Arrays do not overlap.
 *
 * Rounding is to nearest, ties to even, with an error of at most |x| / 256 for normal numbers. Finite numbers beyond
 * the largest bfloat16 (about 3.39e38) become the largest. Infinities stay, NaNs stay NaNs. */
#ifndef AGILEML_WIRE_BFLOAT16_H
#define AGILEML_WIRE_BFLOAT16_H

#include <stddef.h>
#include <stdint.h>

/* to[i] = from[i], exactly. */
void bfloat16_decode(float *to, const uint16_t *from, size_t count);
/* target[i] += source[i]. */
void bfloat16_add(float *target, const uint16_t *source, size_t count);

/* ---- A worker's deltas: the rounding error of one delta is sent with the next ---- */

/* sent[i] = row[i] - base[i], rounded; base[i] += sent[i]. So row - base becomes the rounding error, which is part of
 * the next delta. */
void bfloat16_send(uint16_t *sent, float *base, const float *row, size_t count);
/* row[i] -= base[i]: the part that has not been sent. 0 where the difference is not finite. */
void bfloat16_unsent(float *row, const float *base, size_t count);

/* ---- A server's values: the rounding error of one clock's value is added to the next clock's ---- */

/* to[i] = value[i] + error[i], rounded. |error| is limited to |value| / 256, the largest rounding error of this value.
 * So the sent number is near the value, even when the value has just become much smaller. `error` must be finite. */
void bfloat16_encode_fed(uint16_t *to, const float *value, const float *error, size_t count);
/* error[i] = the rounding error that bfloat16_encode_fed makes for these values. Call it before the values change. 0
 * where the error is not finite. */
void bfloat16_feed(float *error, const float *value, size_t count);

#endif
