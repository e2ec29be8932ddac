/* The median of some numbers. */
#ifndef AGILEML_BASE_MEDIAN_H
#define AGILEML_BASE_MEDIAN_H

#include <stddef.h>

/* Sorts values[count], of which there must be some and none that is NaN, and returns their median: with an even count
 * the mean of the two in the middle. */
double median_sort(double *values, size_t count);

#endif
