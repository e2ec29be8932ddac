/* See text_fields.h. */
#include "agileml/base/text_fields.h"

#include <string.h>

const char *text_separator_name(enum text_separator separator) {
    static const char *const names[] = {
        [TEXT_UNKNOWN] = "tab, comma, semicolon, '::' or spaces",
        [TEXT_TAB] = "tab",
        [TEXT_COMMA] = "comma",
        [TEXT_SEMICOLON] = "semicolon",
        [TEXT_COLONS] = "'::'",
        [TEXT_BLANKS] = "spaces",
    };
    return names[separator];
}

/* Returns the length of the separator at p, or 0 when there is none. */
static size_t separator_at(const char *p, const char *end, enum text_separator separator) {
    switch (separator) {
    case TEXT_TAB:
        return *p == '\t';
    case TEXT_COMMA:
        return *p == ',';
    case TEXT_SEMICOLON:
        return *p == ';';
    case TEXT_COLONS:
        return *p == ':' && end - p > 1 && p[1] == ':' ? 2 : 0;
    case TEXT_BLANKS:
        return text_is_blank(*p);
    case TEXT_UNKNOWN:
        break;
    }
    return 0;
}

static const char *skip_padding(const char *p, const char *end, enum text_separator separator) {
    while (p < end && (*p == ' ' || (*p == '\t' && separator != TEXT_TAB))) {
        p++;
    }
    return p;
}

const char *text_closing_quote(const char *p, const char *end) {
    for (;;) {
        p = memchr(p, '"', (size_t)(end - p));
        if (p == NULL) {
            return NULL;
        }
        if (p + 1 == end || p[1] != '"') {
            return p + 1;
        }
        p += 2;
    }
}

/* Counts the runs of blanks between the fields of a line, to decide whether tabs or spaces separate them. */
struct blank_runs {
    bool filled;   /* a field has begun, so the blanks at the line's start are over */
    bool inside;   /* the latest byte is in a run of blanks after a field */
    bool tab;      /* the present run, or the blanks at the line's start, contain a tab */
    unsigned runs; /* finished runs between two fields */
    unsigned tabs; /* those of `runs` that contain a tab */
};

static void blank_runs_add(struct blank_runs *runs, char c) {
    if (text_is_blank(c)) {
        runs->inside = runs->filled;
        runs->tab = runs->tab || c == '\t';
        return;
    }
    runs->runs += runs->inside;
    runs->tabs += runs->inside && runs->tab;
    runs->filled = true;
    runs->inside = runs->tab = false;
}

enum text_separator text_separator_of(const char *line, const char *end) {
    struct blank_runs runs = {.filled = false};
    for (const char *p = line; p < end; p++) {
        bool begins = !runs.filled || text_is_blank(p[-1]);
        const char *behind = *p == '"' && begins ? text_closing_quote(p + 1, end) : NULL;
        for (int s = TEXT_COMMA; s <= TEXT_COLONS && runs.tabs == 0; s++) {
            if (separator_at(p, end, (enum text_separator)s) != 0) {
                return (enum text_separator)s;
            }
        }
        blank_runs_add(&runs, *p);
        p = behind != NULL ? behind - 1 : p;
    }
    return runs.runs == 0 ? TEXT_UNKNOWN : runs.tabs == runs.runs ? TEXT_TAB : TEXT_BLANKS;
}

bool text_field_take(const char *p, const char *end, enum text_separator separator, struct text_field *field) {
    p = skip_padding(p, end, separator);
    *field = (struct text_field){.text = p, .length = (size_t)(end - p), .quoted = p < end && *p == '"'};
    size_t width = 0;
    if (field->quoted) {
        const char *behind = text_closing_quote(p + 1, end);
        if (behind == NULL) {
            return false;
        }
        p = separator == TEXT_BLANKS ? behind : skip_padding(behind, end, separator);
        width = p < end ? separator_at(p, end, separator) : 0;
        if (p < end && width == 0) {
            return false;
        }
        field->text++;
        field->length = (size_t)(behind - 1 - field->text);
    } else {
        while (p < end && (width = separator_at(p, end, separator)) == 0) {
            p++;
        }
        const char *last = p;
        while (last > field->text && text_is_blank(last[-1])) {
            last--;
        }
        field->length = (size_t)(last - field->text);
    }
    if (p < end && separator == TEXT_BLANKS) {
        p = skip_padding(p, end, separator);
        width = 0;
    }
    field->next = p < end ? p + width : NULL;
    return true;
}

bool text_field_at(const char *line, const char *end, enum text_separator separator, size_t column,
                   struct text_field *field) {
    bool taken = text_field_take(line, end, separator, field);
    for (size_t c = 0; c < column && taken; c++) {
        taken = field->next != NULL && text_field_take(field->next, end, separator, field);
    }
    return taken;
}

size_t text_fields_count(const char *line, const char *end, enum text_separator separator) {
    struct text_field field = {.next = line};
    size_t count = 0;
    for (; field.next != NULL; count++) {
        if (!text_field_take(field.next, end, separator, &field)) {
            return 0;
        }
    }
    return count;
}

size_t text_field_copy(const struct text_field *field, char *to, size_t room) {
    size_t length = 0;
    for (size_t i = 0; i < field->length; i++) {
        if (length == room) {
            return room + 1;
        }
        to[length++] = field->text[i];
        i += field->quoted && field->text[i] == '"'; /* skips the second '"' of a pair */
    }
    return length;
}
