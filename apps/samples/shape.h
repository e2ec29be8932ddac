/* Finds what a survey needs from a line of samples without converting its values, which is much faster than reading
 * it. The full reader (samples.c) handles lines of an unusual form. Errors in the values between are found when the
 * samples are read. Pure functions, for any thread. */
#ifndef APPS_SAMPLES_SHAPE_H
#define APPS_SAMPLES_SHAPE_H

#include "agileml/base/text_fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shape {
    const char *label; /* [label_length], in the line, as written */
    size_t label_length;
    /* libsvm: */
    uint32_t values;      /* pairs of index and value */
    uint32_t first, last; /* indexes of the first and the last pair, if there are any; last - first + 1 >= values */
};

/* Finds the shape of the libsvm line [line, end), without a comment. Returns false when the line has an unusual
 * form, or an index is not below `limit`. */
bool shape_libsvm(const char *line, const char *end, uint64_t limit, struct shape *shape);

/* Finds the label in field `column` (from 0) of the line [line, end) with `columns` fields. Returns false when the
 * line has an unusual form, such as quotes. */
bool shape_columns(const char *line, const char *end, enum text_separator separator, uint32_t column, uint32_t columns,
                   struct shape *shape);

#endif
