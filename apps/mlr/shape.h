/* What a survey needs of a line of samples, found without converting its values: a pass over the input that is much
 * quicker than reading it. A line of an unusual form is left to the full reader (samples.c), as is what is wrong with
 * the values between: who reads the samples finds it. Pure functions, for any thread. */
#ifndef APPS_MLR_SHAPE_H
#define APPS_MLR_SHAPE_H

#include "agileml/base/text_fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shape {
    const char *label; /* [label_length], in the line, as it is written */
    size_t label_length;
    /* libsvm: */
    uint32_t values;      /* pairs of index and value */
    uint32_t first, last; /* the first and the last pair's index, if there are any; last - first + 1 >= values */
};

/* Finds the shape of the libsvm line [line, end), without a comment. Returns false when it is not of the usual form, or
 * an index is not below `limit`. */
bool shape_libsvm(const char *line, const char *end, uint64_t limit, struct shape *shape);

/* Finds the label in field `column` (from 0) of the line [line, end) of `columns` fields. Returns false when the line
 * is not of the usual form: without quotes. */
bool shape_columns(const char *line, const char *end, enum text_separator separator, uint32_t column, uint32_t columns,
                   struct shape *shape);

#endif
