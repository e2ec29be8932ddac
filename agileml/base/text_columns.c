/* See text_columns.h. */
#include "agileml/base/text_columns.h"

#include <limits.h>
#include <string.h>

/* A name is quoted in messages up to this length. */
enum { QUOTED_MAX = 40 };

size_t text_column_normalize(const struct text_field *field, char *to, size_t room) {
    size_t length = 0;
    for (size_t i = 0; i < field->length; i++) {
        char c = field->text[i];
        i += field->quoted && c == '"'; /* inside quotes each '"' is written twice */
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

static bool has_name(const struct text_role *role, const char *name) {
    for (const char *const *known = role->names; *known != NULL; known++) {
        if (strcmp(*known, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Finds the field of the column `place`, which exists. */
static struct text_field field_at(const char *line, const char *end, enum text_separator separator, int place) {
    struct text_field field;
    text_field_take(line, end, separator, &field);
    for (int column = 0; column < place; column++) {
        text_field_take(field.next, end, separator, &field);
    }
    return field;
}

static int quoted_length(const struct text_field *field) {
    return field->length < QUOTED_MAX ? (int)field->length : QUOTED_MAX;
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
            if (!has_name(&roles[r], name)) {
                continue;
            }
            if (places[r] != TEXT_COLUMN_NONE) {
                struct text_field first = field_at(line, end, separator, places[r]);
                return error_set(error, AML_EINPUT, "two columns name the %s: %d (%.*s) and %zu (%.*s)", roles[r].name,
                                 places[r] + 1, quoted_length(&first), first.text, *columns + 1, quoted_length(&field),
                                 field.text);
            }
            places[r] = (int)*columns;
            found++;
        }
    }
    return found;
}
