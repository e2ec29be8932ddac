/* Moments as text: seconds since 1970 UTC to and from ISO 8601. Leap seconds do not exist here. */
#ifndef AGILEML_BASE_INSTANT_H
#define AGILEML_BASE_INSTANT_H

#include <stdbool.h>
#include <stdint.h>

enum { INSTANT_TEXT_MAX = 32 };
/* Limits of times. A price from before EC2 opened, or from after this century, is an error in the data. */
#define INSTANT_MIN INT64_C(1136073600) /* 2006-01-01 */
#define INSTANT_MAX INT64_C(4102444800) /* 2100-01-01 */

/* Parses "2016-04-25T12:00:32". The T may be a space. A fraction of a second may follow and is ignored. Last may
 * come the UTC offset: Z, +HH:MM or +HHMM. Returns false for other text, or a time outside INSTANT_MIN..INSTANT_MAX. */
bool instant_parse(const char *text, int64_t *seconds);
/* Parses what instant_parse does and other unambiguous forms: "2016-04-25" (midnight), "2016/04/25 12:00", a ','
 * before the fraction, a blank before the offset, "+HH", "UTC", "GMT", "20160425". Also parses seconds (perhaps with
 * a fraction), milliseconds, microseconds or nanoseconds since 1970; the number's size decides the unit. */
bool instant_parse_any(const char *text, int64_t *seconds);
/* Writes a time like "2016-04-25T12:00:32Z". */
void instant_format(int64_t seconds, char text[INSTANT_TEXT_MAX]);

#endif
