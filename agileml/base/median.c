/* See median.h. */
#include "agileml/base/median.h"

#include <stdlib.h>

static int order(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

double median_sort(double *values, size_t count) {
    qsort(values, count, sizeof *values, order);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}
