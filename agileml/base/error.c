/* See error.h. */
#include "agileml/base/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* Bytes of the UTF-8 sequence at `c`; 0: there is none. */
static size_t utf8_length(const unsigned char *c) {
    size_t length = c[0] < 0x80 ? 1 : c[0] >= 0xC2 && c[0] < 0xE0 ? 2 : (c[0] & 0xF0) == 0xE0 ? 3 : 4;
    if (c[0] >= 0xF5 || (c[0] >= 0x80 && c[0] < 0xC2)) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((c[i] & 0xC0) != 0x80) {
            return 0; /* the end of the text included */
        }
    }
    bool overlong = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xF0 && c[1] < 0x90);
    bool outside = (c[0] == 0xED && c[1] > 0x9F) || (c[0] == 0xF4 && c[1] > 0x8F);
    return overlong || outside ? 0 : length;
}

/* Texts quote what was found in files and messages: one line of UTF-8 is made of it, which terminals and JSON take. */
static void make_printable(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c != '\0';) {
        size_t length = utf8_length(c);
        if (*c == '\n' || *c == '\r') {
            *c = ' ';
        } else if (length == 0 || *c < ' ' || *c == 0x7F) {
            *c = '?';
        }
        c += length > 0 ? length : 1;
    }
}

int error_set(struct error *error, int code, const char *format, ...) {
    if (error == NULL || error->code != 0) {
        return code;
    }
    error->code = code;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    make_printable(error->text);
    return code;
}

int error_exit_status(int code) {
    switch (code) {
    case AML_OK:
        return 0;
    case AML_EINPUT:
    case AML_ELIMIT:
        return 2;
    default:
        return 1;
    }
}
