/* See text_columns.h. */
#include "agileml/base/text_columns.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LISTED_MAX = 30, /* bytes of a column's name in a list of all names */
    LIST_MAX = 160   /* bytes of such a list in a message */
};

size_t text_column_normalize(const struct text_field *field, char *to, size_t room) {
    size_t length = 0;
    for (size_t i = 0; i < field->length; i++) {
        char c = field->text[i];
        i += field->quoted && c == '"'; /* skips the second '"' of a pair: inside quotes each '"' is doubled */
        if (text_is_blank(c) || c == '_' || c == '-' || c == '.') {
            continue;
        }
        if (length + 1 == room) {
            to[length] = '\0';
            return room;
        }
        to[length++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    to[length] = '\0';
    return length;
}

bool text_column_is_index(const struct text_field *field, size_t column) {
    char name[16];
    size_t length = text_column_normalize(field, name, sizeof name);
    return (length == 0 && column == 0) || strcmp(name, "index") == 0 || strcmp(name, "unnamed:0") == 0;
}

bool text_role_has(const struct text_role *role, const char *name) {
    size_t length = strlen(name);
    for (const char *known = role->names; *known != '\0';) {
        size_t word = strcspn(known, " ");
        if (word == length && memcmp(known, name, word) == 0) {
            return true;
        }
        known += word + strspn(known + word, " ");
    }
    return false;
}

int text_columns_find(const char *line, const char *end, enum text_separator separator, const struct text_role roles[],
                      size_t count, int places[], size_t *columns, struct error *error) {
    int found = 0;
    *columns = 0;
    for (size_t r = 0; r < count; r++) {
        places[r] = TEXT_COLUMN_NONE;
    }
    for (const char *next = line; next != NULL && *columns < INT_MAX; ++*columns) {
        struct text_field field;
        char name[TEXT_COLUMN_NAME_MAX + 1];
        if (!text_field_take(next, end, separator, &field)) {
            return error_set(error, AML_EINPUT, "column %zu: a '\"' that is not closed before the next separator",
                             *columns + 1);
        }
        next = field.next;
        if (text_column_normalize(&field, name, sizeof name) == sizeof name) {
            continue;
        }
        for (size_t r = 0; r < count; r++) {
            if (!text_role_has(&roles[r], name)) {
                continue;
            }
            if (places[r] != TEXT_COLUMN_NONE) {
                struct text_field first;
                (void)text_field_at(line, end, separator, (size_t)places[r], &first);
                return error_set(error, AML_EINPUT, "two columns name the %s: %d (%.*s) and %zu (%.*s)", roles[r].name,
                                 places[r] + 1, text_shown(first.length), first.text, *columns + 1,
                                 text_shown(field.length), field.text);
            }
            places[r] = (int)*columns;
            found++;
        }
    }
    return found;
}

/* ---- --columns ---- */

void text_columns_list(char *to, size_t room, const char *line, const char *end, enum text_separator separator) {
    size_t length = strlen(to);
    struct text_field field;
    bool first = true;
    for (const char *next = line; next != NULL && text_field_take(next, end, separator, &field); next = field.next) {
        bool fits = length + LISTED_MAX + sizeof ", \"...\", ..." <= room;
        bool whole = field.length <= LISTED_MAX;
        length += (size_t)snprintf(to + length, room - length, fits ? "%s\"%.*s%s\"" : "%s...", first ? "" : ", ",
                                   (int)(whole ? field.length : LISTED_MAX), field.text, whole ? "" : "...");
        first = false;
        if (!fits) {
            return;
        }
    }
}

bool text_choice_is_made(const struct text_choice *choice) {
    return choice->place != TEXT_COLUMN_NONE || choice->name[0] != '\0';
}

static int refuse_choices(const char *columns, const char *const roles[], size_t count, struct error *error) {
    char expected[160] = "";
    size_t length = 0;
    for (size_t r = 0; r < count && length < sizeof expected; r++) {
        length +=
            (size_t)snprintf(expected + length, sizeof expected - length, "%s%s=COLUMN", r > 0 ? "," : "", roles[r]);
    }
    return error_set(
        error, AML_EINPUT,
        "--columns %.100s: expected %s, or some of these, each with the column's name in the header or its "
        "number from 1 on",
        columns, expected);
}

/* Takes the column after the `=`, text[length]. */
static bool take_choice(struct text_choice *choice, const char *text, size_t length) {
    const struct text_field field = {.text = text, .length = length};
    size_t digits = strspn(text, "0123456789");
    snprintf(choice->text, sizeof choice->text, "%.*s", text_shown(length), text);
    if (digits >= length) {
        unsigned long number = strtoul(text, NULL, 10);
        choice->place = (int)(number - 1);
        return length > 0 && number >= 1 && number <= TEXT_COLUMNS_MAX;
    }
    return text_column_normalize(&field, choice->name, sizeof choice->name) < sizeof choice->name &&
           choice->name[0] != '\0';
}

/* Returns the index of the role named before the `=` in text[length], or `count`. */
static size_t role_of(const char *text, size_t length, const char *const roles[], size_t count) {
    const char *equals = memchr(text, '=', length);
    size_t named = equals != NULL ? (size_t)(equals - text) : 0;
    size_t r = 0;
    while (r < count && (named == 0 || strlen(roles[r]) != named || strncmp(text, roles[r], named) != 0)) {
        r++;
    }
    return r;
}

int text_choices_parse(const char *columns, const char *const roles[], size_t count, struct text_choice choices[],
                       struct error *error) {
    for (size_t r = 0; r < count; r++) {
        choices[r] = (struct text_choice){.place = TEXT_COLUMN_NONE};
    }
    for (const char *p = columns; p != NULL;) {
        size_t length = strcspn(p, ",");
        size_t r = role_of(p, length, roles, count);
        size_t begin = r < count ? strlen(roles[r]) + 1 : 0;
        if (r == count || text_choice_is_made(&choices[r]) || !take_choice(&choices[r], p + begin, length - begin)) {
            return refuse_choices(columns, roles, count, error);
        }
        for (size_t other = 0; other < count; other++) {
            if (other != r && choices[r].place != TEXT_COLUMN_NONE && choices[r].place == choices[other].place) {
                return error_set(error, AML_EINPUT, "--columns %.100s: %s and %s are one column", columns, roles[other],
                                 roles[r]);
            }
        }
        p = p[length] == ',' ? p + length + 1 : NULL;
    }
    return 0;
}

int text_choice_find(const struct text_choice *choice, const char *line, const char *end, enum text_separator separator,
                     int *place, struct error *error) {
    struct text_field field;
    *place = TEXT_COLUMN_NONE;
    int column = 0;
    for (const char *next = line; next != NULL && text_field_take(next, end, separator, &field); next = field.next) {
        char name[TEXT_COLUMN_NAME_MAX + 1];
        if (text_column_normalize(&field, name, sizeof name) < sizeof name && strcmp(name, choice->name) == 0) {
            if (*place != TEXT_COLUMN_NONE) {
                return error_set(error, AML_EINPUT, "--columns: columns %d and %d are both named %s", *place + 1,
                                 column + 1, choice->text);
            }
            *place = column;
        }
        column++;
    }
    if (*place == TEXT_COLUMN_NONE) {
        char list[LIST_MAX] = "";
        text_columns_list(list, sizeof list, line, end, separator);
        return error_set(error, AML_EINPUT, "--columns: no column is named %s: the first line has %s", choice->text,
                         list);
    }
    return 0;
}
