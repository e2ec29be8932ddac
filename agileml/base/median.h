/* The median of some numbers. */
#ifndef AGILEML_BASE_MEDIAN_H
#define AGILEML_BASE_MEDIAN_H

#include <stddef.h>

/* Sorts values[count] and returns their median; with an even count, the mean of the two in the middle. There must be
 * at least one value, and no NaN. */
double median_sort(double *values, size_t count);

#endif
