/* Finds the columns of a table by the names in its header line, or by an option --columns.
 *
 * Names are compared normalized: ASCII letters in lower case; without blanks, '_', '-' and '.'. So userId, user_id
 * and "User ID" are one name. A line passed here has no line end, and no byte order mark, which text_input skips.
 * Pure functions of text, for any thread. */
#ifndef AGILEML_BASE_TEXT_COLUMNS_H
#define AGILEML_BASE_TEXT_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "agileml/base/error.h"
#include "agileml/base/text_fields.h"

enum {
    TEXT_COLUMN_NONE = -1,
    TEXT_COLUMN_NAME_MAX = 64, /* bytes of a normalized name; longer names match no role */
    TEXT_COLUMNS_MAX = 1 << 20 /* the highest number of a column in --columns */
};

/* A role that a column can have. */
struct text_role {
    const char *name;  /* the role's name for messages, such as "user" */
    const char *names; /* normalized names of columns with this role, with a blank between two */
};

/* Whether a normalized name is one of the role's. */
bool text_role_has(const struct text_role *role, const char *name);

/* Finds the columns of roles[count] in the header [line, end). Sets places[r] to the column of role r, counted from 0,
 * or to TEXT_COLUMN_NONE, and *columns to the number of fields of the line. Returns how many roles were found.
 *
 * Returns AML_EINPUT when two columns have the same role, or when a field has bad quotes. The message then names the
 * columns but not the file: the caller puts FILE:LINE before it. */
int text_columns_find(const char *line, const char *end, enum text_separator separator, const struct text_role roles[],
                      size_t count, int places[], size_t *columns, struct error *error);

/* Copies the normalized name of a column to to[room], with a final 0. Returns its length. Returns `room` when the
 * name and its 0 need more than `room` bytes; to[] then has its beginning. */
size_t text_column_normalize(const struct text_field *field, char *to, size_t room);

/* Appends the column names of [line, end), quoted and shortened, to the text to[room], as many as fit. */
void text_columns_list(char *to, size_t room, const char *line, const char *end, enum text_separator separator);

/* The column that --columns gives to a role. */
struct text_choice {
    int place;                           /* the column's number, from 0; TEXT_COLUMN_NONE: not chosen by number */
    char name[TEXT_COLUMN_NAME_MAX + 1]; /* the column's normalized name; "": not chosen by name */
    char text[TEXT_SHOWN_MAX + 1];       /* the choice as the user wrote it */
};

/* Parses `ROLE=COLUMN,...` for some or all of roles[count]; columns are names, or numbers from 1. `columns` NULL
 * chooses none. Returns 0, or AML_EINPUT, also when two roles have the same column. */
int text_choices_parse(const char *columns, const char *const roles[], size_t count, struct text_choice choices[],
                       struct error *error);

/* Whether the role has a column. */
bool text_choice_is_made(const struct text_choice *choice);

/* Sets *place to the column that the choice names in the header [line, end). Returns 0, or AML_EINPUT if no column
 * or several have that name. */
int text_choice_find(const struct text_choice *choice, const char *line, const char *end, enum text_separator separator,
                     int *place, struct error *error);

/* Whether a column of this name is a row index: `index`, `Unnamed: 0`, or the first column with an empty name. */
bool text_column_is_index(const struct text_field *field, size_t column);

#endif
