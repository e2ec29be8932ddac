/* See printable.h. */
#include "agileml/base/printable.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Returns the length of the UTF-8 sequence at `c`, or 0 when the bytes are no valid sequence. */
static size_t utf8_length(const unsigned char *c) {
    size_t length = c[0] < 0x80 ? 1 : c[0] >= 0xC2 && c[0] < 0xE0 ? 2 : (c[0] & 0xF0) == 0xE0 ? 3 : 4;
    if (c[0] >= 0xF5 || (c[0] >= 0x80 && c[0] < 0xC2)) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((c[i] & 0xC0) != 0x80) {
            return 0; /* also when the text ends within the sequence */
        }
    }
    bool overlong = (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xF0 && c[1] < 0x90);
    bool outside = (c[0] == 0xED && c[1] > 0x9F) || (c[0] == 0xF4 && c[1] > 0x8F);
    return overlong || outside ? 0 : length;
}

/* Whether a control character is at `c`, U+0080 to U+009F included: U+009B begins an escape sequence as ESC [ does. */
static bool is_control(const unsigned char *c) {
    return *c < ' ' || *c == 0x7F || (c[0] == 0xC2 && c[1] < 0xA0);
}

void text_make_printable(char *text) {
    for (unsigned char *c = (unsigned char *)text; *c != '\0';) {
        size_t length = utf8_length(c);
        if (*c == '\n' || *c == '\r') {
            *c = ' ';
        } else if (length == 0) {
            *c = '?';
        } else if (is_control(c)) {
            memset(c, '?', length);
        }
        c += length > 0 ? length : 1;
    }
}
