/* Finds the columns of a table by the names in its header line, and by an option --columns.
 *
 * Names are compared normalized: ASCII letters in lower case; blanks, '_', '-' and '.' left out. userId, user_id and
 * "User ID" are one name. The line is without its line end and without a byte order mark, which text_input skips. Pure
 * functions of text, for any thread. */
#ifndef AGILEML_BASE_TEXT_COLUMNS_H
#define AGILEML_BASE_TEXT_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "agileml/base/error.h"
#include "agileml/base/text_fields.h"

enum {
    TEXT_COLUMN_NONE = -1,
    TEXT_COLUMN_NAME_MAX = 64, /* bytes of a normalized name; a longer one has no role */
    TEXT_COLUMNS_MAX = 1 << 20 /* the highest number of a column in --columns */
};

/* What a column can be. */
struct text_role {
    const char *name;         /* the role's name for messages, such as "user" */
    const char *const *names; /* the columns' names that mean it, normalized; NULL ends them */
};

/* Finds the columns of roles[count] in the header [line, end). Sets places[r] to the column of role r, counted from 0,
 * or to TEXT_COLUMN_NONE, and *columns to the number of fields of the line. Returns how many roles were found.
 *
 * Returns AML_EINPUT when two columns have one role, or when a field has bad quotes. The message then names the columns
 * but not the file: the caller puts FILE:LINE before it. */
int text_columns_find(const char *line, const char *end, enum text_separator separator, const struct text_role roles[],
                      size_t count, int places[], size_t *columns, struct error *error);

/* Copies the normalized name of a column to to[room], with a 0 behind it. Returns its length, or `room` when the name
 * with its 0 is longer than `room`, and to[] is then the beginning. */
size_t text_column_normalize(const struct text_field *field, char *to, size_t room);

/* Appends the names of the columns of [line, end), in quotes and shortened, to the text to[room], as far as there is
 * room. */
void text_columns_list(char *to, size_t room, const char *line, const char *end, enum text_separator separator);

/* The column that --columns gives a role. */
struct text_choice {
    int place;                           /* by its number, from 0; TEXT_COLUMN_NONE: not by it */
    char name[TEXT_COLUMN_NAME_MAX + 1]; /* by its normalized name; "": not by it */
    char text[TEXT_SHOWN_MAX + 1];       /* as it was given */
};

/* Parses `ROLE=COLUMN,...`, with the columns' names or their numbers from 1 on, for some or all of roles[count]. NULL
 * gives none. Returns 0, or AML_EINPUT, also for a column that two roles have. */
int text_choices_parse(const char *columns, const char *const roles[], size_t count, struct text_choice choices[],
                       struct error *error);

/* Whether the role has a column. */
bool text_choice_is_made(const struct text_choice *choice);

/* Sets *place to the column that the choice names in the header [line, end). Returns 0, or AML_EINPUT if none or
 * several have that name. */
int text_choice_find(const struct text_choice *choice, const char *line, const char *end, enum text_separator separator,
                     int *place, struct error *error);

/* Whether a column of this name numbers the rows: `index`, `Unnamed: 0`, or the first column with an empty name. */
bool text_column_is_index(const struct text_field *field, size_t column);

#endif
