/* See terminal.h. */
#include "proteus/terminal.h"

#include <assert.h>
#include <langinfo.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

enum { CELL_PARTS = 8 /* a cell of a bar is filled in eighths */ };

void terminal_open(struct terminal *terminal) {
    *terminal = (struct terminal){.locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0)};
    if (terminal->locale != (locale_t)0 && strcmp(nl_langinfo_l(CODESET, terminal->locale), "UTF-8") != 0) {
        terminal_close(terminal);
    }
}

void terminal_close(struct terminal *terminal) {
    if (terminal->locale != (locale_t)0) {
        freelocale(terminal->locale);
    }
    *terminal = (struct terminal){0};
}

bool terminal_can_rewrite(FILE *stream) {
    const char *kind = getenv("TERM");
    return isatty(fileno(stream)) == 1 && kind != NULL && strcmp(kind, "dumb") != 0;
}

/* Returns the number in the environment variable `name`, or `otherwise`. */
static int size_from(const char *name, int otherwise) {
    const char *text = getenv(name);
    long number = text != NULL ? strtol(text, NULL, 10) : 0;
    return number > 0 && number <= USHRT_MAX ? (int)number : otherwise;
}

struct terminal_size terminal_size_of(FILE *stream) {
    struct winsize size;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        return (struct terminal_size){.rows = size.ws_row, .columns = size.ws_col};
    }
    return (struct terminal_size){.rows = size_from("LINES", TERMINAL_ROWS_DEFAULT),
                                  .columns = size_from("COLUMNS", TERMINAL_COLUMNS_DEFAULT)};
}

/* Returns the bytes of the UTF-8 character at `text`. Sets its columns; -1 when the terminal can't show it. */
static size_t character_at(const char *text, mbstate_t *state, int *columns) {
    wchar_t wide;
    size_t length = mbrtowc(&wide, text, strlen(text), state);
    if (length == 0 || length > MB_LEN_MAX) { /* not a character of the locale */
        *state = (mbstate_t){0};
        *columns = -1;
        length = 1;
        while (((unsigned char)text[length] & 0xC0) == 0x80) {
            length++;
        }
        return length;
    }
    *columns = wcwidth(wide);
    return length;
}

int terminal_fit(const struct terminal *terminal, const char *text, int columns, char *fitted, size_t size) {
    locale_t before = terminal->locale != (locale_t)0 ? uselocale(terminal->locale) : (locale_t)0;
    mbstate_t state = {0};
    size_t used = 0;
    int taken = 0;
    while (*text != '\0') {
        int wide;
        size_t length = character_at(text, &state, &wide);
        const char *shown = wide >= 0 ? text : "?";
        size_t bytes = wide >= 0 ? length : 1;
        wide = wide >= 0 ? wide : 1;
        if (taken + wide > columns || used + bytes >= size) {
            break;
        }
        memcpy(fitted + used, shown, bytes);
        used += bytes;
        taken += wide;
        text += length;
    }
    fitted[used] = '\0';
    if (before != (locale_t)0) {
        uselocale(before);
    }
    return taken;
}

char *terminal_bar(const struct terminal *terminal, double share, int columns, char *bar, size_t size) {
    static const char *const parts[CELL_PARTS] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    bool utf8 = terminal->locale != (locale_t)0;
    int cells = columns - 2;
    int eighths = (int)(fmin(fmax(share, 0), 1) * cells * CELL_PARTS);
    assert(columns >= 3 && size > 3 * (size_t)columns);
    char *end = stpcpy(bar, utf8 ? "▕" : "[");
    for (int c = 0; c < cells; c++) {
        int filled = eighths - c * CELL_PARTS;
        bool whole = filled >= CELL_PARTS;
        if (utf8) {
            end = stpcpy(end, whole ? "█" : parts[filled > 0 ? filled : 0]);
        } else {
            end = stpcpy(end, whole ? "#" : "-");
        }
    }
    stpcpy(end, utf8 ? "▏" : "]");
    return bar;
}
