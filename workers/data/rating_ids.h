/* The ids of users and items, as the 64-bit keys of their rows. Pure functions of text, for any thread.
 *
 * - A whole number from 0 to 2^64 - 1 is its own key: digits without a leading zero, also with a fraction of zeros
 *   (12.0, as pandas writes whole numbers of a column with gaps) and with a positive exponent up to 2^53 (1e+05, as R
 *   writes 100000).
 * - Any other id is a text: an ISBN, an ASIN, a name, 007. Its key is a hash of its bytes whose highest bit is set. The
 *   same text has the same key in all processes and versions: model files depend on it. */
#ifndef WORKERS_RATING_IDS_H
#define WORKERS_RATING_IDS_H

#include "agileml/base/text_fields.h"

#include <stdbool.h>
#include <stdint.h>

enum { RATING_ID_MAX = 1024 /* bytes of an id that is a text, without quotes around it */ };

/* Set in the key of every text, and in those of the numbers from 2^63 on. */
#define RATING_ID_TEXT (UINT64_C(1) << 63)

/* Sets *key to the key of the id in the field. Returns false when the field holds none: it is empty or one of the words
 * for what is missing (rating_is_missing), too long, or has control characters. */
bool rating_id_key(const struct text_field *field, uint64_t *key);

/* Copies the id in a field to to[RATING_ID_MAX]: a text without its quotes, a number by its digits alone. rating_id_key
 * must have accepted the field. Returns the id's length. */
size_t rating_id_text(const struct text_field *field, char *to);

/* Returns the end of the decimal number at p: [+-] digits [. digits] [e [+-] digits], with a digit before or after the
 * point. NULL: there is none. The text must end in another character, such as a line's end. */
const char *rating_number_end(const char *p);

/* Whether the field says that there is no value: it is empty, or nan, NA, N/A, <NA>, null, None, \N, ? or - in any case
 * of letters, without quotes around it. */
bool rating_is_missing(const struct text_field *field);

#endif
