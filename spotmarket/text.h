/* Text that grows, and XML made of it: names are ours, values come from outside and are escaped. One thread.
 * A zeroed struct is an empty text. */
#ifndef SPOTMARKET_TEXT_H
#define SPOTMARKET_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *data; /* ends in a 0 byte once something was added */
    size_t length, capacity;
};

void text_add(struct text *text, const char *piece);
void text_bytes(struct text *text, const char *bytes, size_t size);
__attribute__((format(printf, 2, 3))) void text_format(struct text *text, const char *format, ...);
void text_close(struct text *text);

/* Whether XML and JSON can hold it as it is: UTF-8 without control characters but tab and line ends. */
bool text_is_clean(const char *text);

/* <name>value</name>. Nothing when `value` is NULL; what XML 1.0 can't hold becomes '?'. */
void xml_text(struct text *text, const char *name, const char *value);
void xml_number(struct text *text, const char *name, int64_t value);
/* As EC2 writes moments: 2016-03-01T00:02:00.000Z */
void xml_time(struct text *text, const char *name, int64_t seconds);

#endif
