/* Decimal numbers in text, fast and independent of the locale. */
#ifndef APPS_SAMPLES_NUMBER_H
#define APPS_SAMPLES_NUMBER_H

/* Parses a number, [+-] digits [. digits] [e [+-] digits] with a digit before or after the point, at the start of
 * `text`, which ends with a 0. Returns the place after it; NULL when there is no number, or it is too large to be
 * finite. Rounds correctly. Any thread. */
const char *number_take(const char *text, double *value);

/* Returns the place after a text of a number's form, even if the number is too large; NULL when there is none. */
const char *number_end(const char *text);

#endif
