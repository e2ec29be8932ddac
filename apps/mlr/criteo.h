/* Criteo's lines (display advertising): a label 0 or 1, 13 integers I1..I13 and 26 categories C1..C26, separated by
 * tabs or commas; an empty field is a missing one. A header may name the columns, in any order, and an Id, which is
 * left out. Splits a line into its fields; what they are worth as features is the affair of hash.h.
 *
 * Pure functions, for any thread. */
#ifndef APPS_MLR_CRITEO_H
#define APPS_MLR_CRITEO_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CRITEO_INTEGERS = 13,
    CRITEO_CATEGORIES = 26,
    CRITEO_FIELDS = CRITEO_INTEGERS + CRITEO_CATEGORIES,
    CRITEO_COLUMNS_MAX = CRITEO_FIELDS + 2, /* with an Id and a label */
    CRITEO_NAME_MAX = 8                     /* bytes of a field's name, with a 0 */
};

/* What the columns of a file are. Made from its first line. */
struct criteo_columns {
    char separator; /* tab or comma */
    bool labelled;
    uint32_t count;
    /* Each column's field, from 0 (I1), or one of CRITEO_LABEL and CRITEO_ID. */
    signed char field_of[CRITEO_COLUMNS_MAX];
};

enum { CRITEO_LABEL = -1, CRITEO_ID = -2 };
enum { CRITEO_NO_LABEL = -1 };

/* Bytes of a line: text[length], not ended by a 0. */
struct criteo_text {
    const char *text;
    uint32_t length; /* 0: missing */
};

/* A line's fields, which point into the line. */
struct criteo_record {
    int label; /* 0 or 1, or CRITEO_NO_LABEL: there is no such column, or it is missing */
    struct criteo_text fields[CRITEO_FIELDS];
};

/* Returns the number of the field that text[length] names ("I1", "C26"), or -1. */
int criteo_field(const char *text, size_t length);
/* Writes the name of a field to name[CRITEO_NAME_MAX]. */
void criteo_name(unsigned field, char *name);

/* Returns whether text[length] looks like a file's first line: a header that names all fields; or a label 0 or 1,
 * integers, and 26 categories of 8 hexadecimal digits each, some of either missing perhaps, but not all categories. May
 * change the line where a field is quoted. */
bool criteo_recognized(char *line, size_t length);

/* Finds out what the columns are from a file's first line that is not empty, and whether it is a header. With
 * `label_optional` there may be no label; `expected` in the messages. Returns 0, or AML_EINPUT. */
int criteo_columns(struct criteo_columns *columns, char *line, size_t length, bool label_optional, bool *header,
                   struct error *error);

/* Takes the line's fields. `copy`, room for `length` bytes, is needed for a line with quotes only, whose fields then
 * are in the copy; it may be the line itself. Returns 0, or AML_EINPUT for another number of fields, bad quotes, or a
 * label other than 0 and 1. */
int criteo_take(const struct criteo_columns *columns, const char *line, size_t length, char *copy,
                struct criteo_record *record, struct error *error);

#endif
