/* See text.h. */
#include "spotmarket/text.h"

#include "agileml/base/instant.h"
#include "agileml/base/memory.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void text_reserve(struct text *text, size_t more) {
    if (text->length + more + 1 > text->capacity) {
        text->capacity = 2 * (text->length + more + 128);
        text->data = memory_resized(text->data, text->capacity, 1);
    }
}

void text_bytes(struct text *text, const char *bytes, size_t size) {
    text_reserve(text, size);
    memcpy(text->data + text->length, bytes, size);
    text->length += size;
    text->data[text->length] = '\0';
}

void text_add(struct text *text, const char *piece) {
    text_bytes(text, piece, strlen(piece));
}

void text_format_list(struct text *text, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length > 0) {
        text_reserve(text, (size_t)length);
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

void text_format(struct text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    text_format_list(text, format, arguments);
    va_end(arguments);
}

void text_close(struct text *text) {
    free(text->data);
    memset(text, 0, sizeof *text);
}

/* Returns the length of the UTF-8 sequence at `c` if XML 1.0 allows it, else 0. */
static size_t xml_length(const unsigned char *c) {
    if (c[0] < 0x80) {
        return c[0] >= ' ' || c[0] == '\t' || c[0] == '\n' || c[0] == '\r';
    }
    size_t length = c[0] < 0xC2 || c[0] >= 0xF5 ? 0 : c[0] < 0xE0 ? 2 : c[0] < 0xF0 ? 3 : 4;
    for (size_t i = 1; i < length; i++) {
        if ((c[i] & 0xC0) != 0x80) {
            return 0; /* also at the end of the text */
        }
    }
    bool overlong = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xF0 && c[1] < 0x90);
    bool outside = (c[0] == 0xED && c[1] > 0x9F) || (c[0] == 0xF4 && c[1] > 0x8F);
    bool nothing = c[0] == 0xEF && c[1] == 0xBF && length == 3 && c[2] >= 0xBE; /* U+FFFE, U+FFFF */
    return overlong || outside || nothing ? 0 : length;
}

bool text_is_clean(const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    size_t length;
    while (*c != '\0' && (length = xml_length(c)) > 0) {
        c += length;
    }
    return *c == '\0';
}

static void xml_escaped(struct text *text, const char *value) {
    for (const unsigned char *c = (const unsigned char *)value; *c != '\0';) {
        size_t length = xml_length(c);
        switch (*c) {
        case '&':
            text_add(text, "&amp;");
            break;
        case '<':
            text_add(text, "&lt;");
            break;
        case '>':
            text_add(text, "&gt;");
            break;
        case '\r':
            text_add(text, "&#13;");
            break;
        default:
            text_bytes(text, length > 0 ? (const char *)c : "?", length > 0 ? length : 1);
        }
        c += length > 0 ? length : 1;
    }
}

void xml_text(struct text *text, const char *name, const char *value) {
    if (value != NULL) {
        text_format(text, "<%s>", name);
        xml_escaped(text, value);
        text_format(text, "</%s>", name);
    }
}

void xml_number(struct text *text, const char *name, int64_t value) {
    text_format(text, "<%s>%" PRId64 "</%s>", name, value, name);
}

void xml_time(struct text *text, const char *name, int64_t seconds) {
    char moment[INSTANT_TEXT_MAX];
    instant_format(seconds, moment);
    moment[strlen(moment) - 1] = '\0'; /* cuts the Z */
    text_format(text, "<%s>%s.000Z</%s>", name, moment, name);
}
