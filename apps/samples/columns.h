/* Determines the columns of a table of samples (text and csv) from its first lines: whether the first line is a
 * header, which column is the label, and which columns are features. Features are in the training data's order if
 * their names are known. Reads neither files nor values. Pure functions of text, for any thread. docs/mlr.md
 * explains the rules to users. */
#ifndef APPS_SAMPLES_COLUMNS_H
#define APPS_SAMPLES_COLUMNS_H

#include "agileml/base/error.h"
#include "agileml/base/text_fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COLUMNS_FEATURES_MAX = 262000,
    COLUMNS_MAX = COLUMNS_FEATURES_MAX + 2, /* including a label and an index */
    COLUMNS_LOOK_LINES = 100,               /* number of first lines that decide, of a file or of its first part */
    COLUMN_NAME_MAX = 255,                  /* bytes of a name that are stored and compared */
    COLUMNS_SAID_MAX = 400                  /* bytes of the note for the user */
};

/* The role of a column that is not a feature. Features have numbers from 0. */
enum column_role {
    COLUMN_LABEL = -1,
    COLUMN_LEFT_OUT = -2,
    COLUMN_EMPTY = -3 /* the last column, if it is always empty */
};

/* Names from a header, each with a final 0. Zeroed: there is no header. */
struct column_names {
    char **features; /* [count] */
    uint32_t count;
    char *label; /* NULL: no column is the label */
};

/* A zeroed struct has no columns. */
struct columns {
    enum text_separator separator;
    uint32_t count;
    uint32_t features;
    int32_t *roles; /* [count] the feature's number, or an enum column_role */
    int64_t label;  /* the label's column from 0; -1: there is none */
    uint64_t first; /* number of the first line that is a sample, from 1 */
    bool placed;    /* the label is the first column by default, without further evidence */
    struct column_names names;
    char said[COLUMNS_SAID_MAX]; /* how the columns were interpreted, such as "line 1 is a header" */
};

/* What the caller knows about the table. */
struct columns_wish {
    bool csv;                 /* commas, semicolons or tabs separate fields; else blanks or tabs */
    const char *label_column; /* a name; a number from 1, or from -1 backwards; NULL: find the label */
    /* The label may be missing. The table then has `features` features, those of a model. */
    bool label_optional;
    uint32_t features;
    const struct columns *like; /* columns of the training data, or only its names; NULL: this is the training data */
};

/* A line, neither empty nor too long; its text ends with a 0 or a line end. */
struct columns_line {
    const char *text;
    size_t length;
    uint64_t number; /* number in the file, from 1 */
};

/* Determines the columns from a table's first lines[count], of which the leading ones may be comments (#). Returns
 * 0, and columns_close must follow; or AML_EINPUT with *line set to the number of the wrong line. If all lines are
 * comments, the table has no columns. */
int columns_find(const struct columns_wish *wish, const struct columns_line lines[], size_t count,
                 struct columns *table, uint64_t *line, struct error *error);
void columns_close(struct columns *table);

/* Returns whether text[length] is a feature's value: a finite number, or true or false in any case. The byte after
 * the text must not be one of a number. */
bool column_value(const char *text, size_t length, double *value);

void column_names_close(struct column_names *names);

#endif
