/* Decimal numbers in text, fast and independent of the locale. */
#ifndef APPS_MLR_NUMBER_H
#define APPS_MLR_NUMBER_H

/* Takes a number, [+-] digits [. digits] [e [+-] digits] with a digit before or after the point, at the start of
 * `text`, which ends in 0. Returns the place behind it; NULL when there is no number, or one too large to be finite.
 * Correctly rounded. Any thread. */
const char *number_take(const char *text, double *value);

/* Returns the place behind what has a number's form, also of one too large; NULL when there is none. */
const char *number_end(const char *text);

#endif
