/* The fields of a line of a text file, by the rules that all readers share:
 *
 * - Fields are separated by one tab, one comma, one semicolon, one `::`, or by blanks (spaces and tabs, any number). A
 *   line of blank-separated fields may also start and end with blanks.
 * - Blanks around a field are not part of the field. Between tabs only spaces count as blanks.
 * - A field that begins with '"' ends at the next '"' and holds everything between, separators too; '""' in it stands
 *   for one '"' (RFC 4180). It ends on its line.
 * - Lines end in LF, CR LF or CR.
 *
 * Pure functions of text, for any thread. */
#ifndef AGILEML_BASE_TEXT_FIELDS_H
#define AGILEML_BASE_TEXT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

enum text_separator {
    TEXT_UNKNOWN = 0, /* also the result for a line of one field */
    TEXT_TAB,
    TEXT_COMMA,
    TEXT_SEMICOLON,
    TEXT_COLONS,
    TEXT_BLANKS
};

/* Returns the separator's name for messages, such as "comma"; for TEXT_UNKNOWN, the names of all. */
const char *text_separator_name(enum text_separator separator);

static inline bool text_is_blank(char c) {
    return c == ' ' || c == '\t';
}

static inline bool text_is_line_end(char c) {
    return c == '\n' || c == '\r';
}

/* Returns the first place from p on that is not a blank. The text must end with a line end or a 0. */
static inline const char *text_skip_blanks(const char *p) {
    while (text_is_blank(*p)) {
        p++;
    }
    return p;
}

/* Returns the place of the line end of the line at p, which must have one. */
static inline const char *text_find_line_end(const char *p) {
    while (!text_is_line_end(*p)) {
        p++;
    }
    return p;
}

/* Returns the beginning of the next line, after the line end at p. Reads p[1] when *p is CR. */
static inline const char *text_next_line(const char *p) {
    return p + (p[0] == '\r' && p[1] == '\n' ? 2 : 1);
}

/* Returns the separator of the fields of the line [line, end): the first comma, semicolon or `::` outside of quotes,
 * unless a tab separates fields before it. Without these, returns tab if a tab is between all fields, else blanks.
 * Returns TEXT_UNKNOWN when there is only one field. */
enum text_separator text_separator_of(const char *line, const char *end);

/* How many bytes of a text a message shows, and what the message appends when it shows only a part. */
enum { TEXT_SHOWN_MAX = 40 };
static inline int text_shown(size_t length) {
    return length < TEXT_SHOWN_MAX ? (int)length : TEXT_SHOWN_MAX;
}
static inline const char *text_shown_end(size_t length) {
    return length > TEXT_SHOWN_MAX ? "..." : "";
}

/* Returns the place after the '"' that closes the quoted text at p, or NULL when no '"' closes it. */
const char *text_closing_quote(const char *p, const char *end);

struct text_field {
    const char *text; /* without the quotes around it */
    size_t length;
    bool quoted;
    const char *next; /* the next field, after the separator; NULL: this is the last field */
};

/* Takes the field at p of the line that ends at `end`. Returns false when the field begins with a '"' that is not
 * closed on the line, or when the closing '"' is followed by more than blanks. Then *field is the rest of the line. */
bool text_field_take(const char *p, const char *end, enum text_separator separator, struct text_field *field);

/* Takes field number `column`, from 0, of the line [line, end). Returns false when the line has no such field, or bad
 * quotes up to it. */
bool text_field_at(const char *line, const char *end, enum text_separator separator, size_t column,
                   struct text_field *field);
/* Returns the number of fields of the line [line, end); 0 for bad quotes. */
size_t text_fields_count(const char *line, const char *end, enum text_separator separator);

/* Copies the field's text to to[room], with '""' as '"' when the field is quoted. Returns the copy's length, or
 * `room` + 1 when the text is longer than `room`. */
size_t text_field_copy(const struct text_field *field, char *to, size_t room);

#endif
