/* Criteo's lines (display advertising): a label 0 or 1, 13 integers I1..I13 and 26 categories C1..C26, separated by
 * tabs or commas; an empty field is missing. A header may name the columns in any order, and an Id, which is
 * ignored. Splits a line into its fields; hash.h makes features of them.
 *
 * Pure functions, for any thread. */
#ifndef APPS_SAMPLES_CRITEO_H
#define APPS_SAMPLES_CRITEO_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CRITEO_INTEGERS = 13,
    CRITEO_CATEGORIES = 26,
    CRITEO_FIELDS = CRITEO_INTEGERS + CRITEO_CATEGORIES,
    CRITEO_COLUMNS_MAX = CRITEO_FIELDS + 2, /* including an Id and a label */
    CRITEO_NAME_MAX = 8                     /* bytes of a field's name with its final 0 */
};

/* The columns of a file, determined from its first line. */
struct criteo_columns {
    char separator; /* tab or comma */
    bool labelled;
    uint32_t count;
    /* The field of each column, from 0 (I1), or CRITEO_LABEL or CRITEO_ID. */
    signed char field_of[CRITEO_COLUMNS_MAX];
};

enum { CRITEO_LABEL = -1, CRITEO_ID = -2 };
enum { CRITEO_NO_LABEL = -1 };

/* A part of a line: text[length], without a final 0. */
struct criteo_text {
    const char *text;
    uint32_t length; /* 0: missing */
};

/* The fields of a line, which point into the line. */
struct criteo_record {
    int label; /* 0 or 1, or CRITEO_NO_LABEL: the column or the label is missing */
    struct criteo_text fields[CRITEO_FIELDS];
};

/* Returns the number of the field that text[length] names ("I1", "C26"), or -1. */
int criteo_field(const char *text, size_t length);
/* Writes the name of a field to name[CRITEO_NAME_MAX]. */
void criteo_name(unsigned field, char *name);

/* Returns whether text[length] looks like a file's first line: a header that names all fields; or a label 0 or 1,
 * integers, and 26 categories of 8 hexadecimal digits each. Some fields may be missing, but not all categories. May
 * change the line if a field is quoted. */
bool criteo_recognized(char *line, size_t length);

/* Determines the columns from a file's first line that is not empty, and sets *header to whether that line is a
 * header. With `label_optional` the label may be missing; otherwise messages say that it is expected. Returns 0 or
 * AML_EINPUT. */
int criteo_columns(struct criteo_columns *columns, char *line, size_t length, bool label_optional, bool *header,
                   struct error *error);

/* Takes the line's fields. `copy` is room for `length` bytes, and may be the line itself. It is only needed for a
 * line with quotes, whose fields are then in the copy. Returns 0, or AML_EINPUT for a wrong number of fields, bad
 * quotes, or a label other than 0 and 1. */
int criteo_take(const struct criteo_columns *columns, const char *line, size_t length, char *copy,
                struct criteo_record *record, struct error *error);

#endif
