/* Text that grows, and XML in it. Escapes values, which come from outside; names are our own. A zeroed struct is an
 * empty text. One thread. */
#ifndef SPOTMARKET_TEXT_H
#define SPOTMARKET_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *data; /* NUL-terminated after the first addition */
    size_t length, capacity;
};

void text_add(struct text *text, const char *piece);
void text_bytes(struct text *text, const char *bytes, size_t size);
__attribute__((format(printf, 2, 3))) void text_format(struct text *text, const char *format, ...);
__attribute__((format(printf, 2, 0))) void text_format_list(struct text *text, const char *format, va_list arguments);
void text_close(struct text *text);

/* Returns whether the text is UTF-8 without control characters except tab and line ends, as XML and JSON require. */
bool text_is_clean(const char *text);

/* Adds <name>value</name>; nothing when `value` is NULL. Bytes that XML 1.0 does not allow become '?'. */
void xml_text(struct text *text, const char *name, const char *value);
void xml_number(struct text *text, const char *name, int64_t value);
/* Adds a time in EC2's form, such as 2016-03-01T00:02:00.000Z. */
void xml_time(struct text *text, const char *name, int64_t seconds);

#endif
