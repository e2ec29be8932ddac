/* What the columns of a table of samples (text and csv) are, found from the table's first lines: whether the first line
 * is a header, which column is the label, which are features, in the training data's order if their names are known,
 * and which are neither. Does not read files, nor values. Pure functions of text, for any thread. docs/mlr.md has the
 * rules for people. */
#ifndef APPS_MLR_COLUMNS_H
#define APPS_MLR_COLUMNS_H

#include "agileml/base/error.h"
#include "agileml/base/text_fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COLUMNS_FEATURES_MAX = 262000,
    COLUMNS_MAX = COLUMNS_FEATURES_MAX + 2, /* with a label and an index */
    COLUMNS_LOOK_LINES = 100,               /* so many lines of a file decide, or those in its first part */
    COLUMN_NAME_MAX = 255,                  /* bytes of a name that are kept and compared */
    COLUMNS_SAID_MAX = 400                  /* bytes of what people are told */
};

/* What a column is, other than a feature, whose number is 0 or more. */
enum column_role {
    COLUMN_LABEL = -1,
    COLUMN_LEFT_OUT = -2,
    COLUMN_EMPTY = -3 /* the last one: never anything in it */
};

/* Names from a header, each with a 0 behind it. Zeroed: there was none. */
struct column_names {
    char **features; /* [count] */
    uint32_t count;
    char *label; /* NULL: no column was the label */
};

/* A zeroed struct is one of no columns. */
struct columns {
    enum text_separator separator;
    uint32_t count;
    uint32_t features;
    int32_t *roles; /* [count] the feature's number, or an enum column_role */
    int64_t label;  /* the label's column from 0; -1: there is none */
    uint64_t first; /* the number of the first line that is a sample, from 1 */
    bool placed;    /* the label is the first column, as nothing tells more */
    struct column_names names;
    char said[COLUMNS_SAID_MAX]; /* what the columns were taken for, such as "line 1 is a header" */
};

/* What the caller knows of the table. */
struct columns_wish {
    bool csv;                 /* fields are separated by commas, semicolons or tabs; else by blanks or tabs */
    const char *label_column; /* a name; or a number from 1, or from -1 backwards; NULL: the label is to be found */
    /* Whether there may be no label: then there are `features` features, of a model. */
    bool label_optional;
    uint32_t features;
    const struct columns *like; /* of the training data, or its names alone; NULL: these are the training data */
};

/* A line, neither empty nor too long; a 0 or a line end is behind its text. */
struct columns_line {
    const char *text;
    size_t length;
    uint64_t number; /* in the file, from 1 */
};

/* Finds the columns from a table's first lines[count], of which leading ones may be comments (#). Returns 0, and
 * columns_close must follow; or AML_EINPUT with *line set to the number of the line that is wrong. Without a line that
 * is no comment the table has no columns. */
int columns_find(const struct columns_wish *wish, const struct columns_line lines[], size_t count,
                 struct columns *table, uint64_t *line, struct error *error);
void columns_close(struct columns *table);

/* Returns whether text[length], with any byte but one of a number behind it, is a feature's value: a finite number, or
 * true or false in any case. */
bool column_value(const char *text, size_t length, double *value);

/* Takes over copies of names. */
void column_names_copy(struct column_names *to, const struct column_names *from);
void column_names_close(struct column_names *names);

#endif
