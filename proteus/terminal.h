/* What a terminal can show: its size, its character set, text cut to columns, bars. Does not change the terminal's
 * modes. */
#ifndef PROTEUS_TERMINAL_H
#define PROTEUS_TERMINAL_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { TERMINAL_COLUMNS_DEFAULT = 80, TERMINAL_ROWS_DEFAULT = 24 };

/* The character set of the locale in the environment. Zeroed: ASCII. */
struct terminal {
    locale_t locale; /* a UTF-8 locale; 0: ASCII only */
};

struct terminal_size {
    int rows, columns; /* at least 1 */
};

void terminal_open(struct terminal *terminal);
void terminal_close(struct terminal *terminal);

/* Returns whether the stream is a terminal that can rewrite its line. */
bool terminal_can_rewrite(FILE *stream);
/* Returns the terminal's present size. For another stream returns $LINES and $COLUMNS, else the default. */
struct terminal_size terminal_size_of(FILE *stream);

/* Copies UTF-8 text without control characters, as far as it fits into `columns` and `size` bytes. Writes '?' for
 * characters that the terminal lacks. Returns the number of columns used. */
int terminal_fit(const struct terminal *terminal, const char *text, int columns, char *fitted, size_t size);
/* Writes a bar of `columns` (at least 3) with its ends, filled up to `share` (0 to 1), and returns `bar`. `size` must
 * be at least 3 bytes per column and one more. */
char *terminal_bar(const struct terminal *terminal, double share, int columns, char *bar, size_t size);

#endif
