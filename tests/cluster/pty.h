/* For tests of what people see: a program in a pseudo terminal, and a screen that executes those escape sequences that
 * proteus uses. Failures are cmocka's. */
#ifndef TESTS_CLUSTER_PTY_H
#define TESTS_CLUSTER_PTY_H

#include <stdbool.h>
#include <sys/types.h>

enum {
    PTY_ROWS_MAX = 60,
    PTY_COLUMNS_MAX = 200,
    PTY_CELL = 5,            /* bytes of a character, with its final 0 */
    PTY_WAIT_MS = 60 * 1000, /* limit on waiting for what a test expects */
};

struct pty_screen {
    char cells[PTY_ROWS_MAX][PTY_COLUMNS_MAX][PTY_CELL];
    int row, column;
};

struct pty {
    pid_t process;
    int master;
    int rows, columns;
    struct pty_screen screens[2]; /* the normal and the alternate screen */
    bool alternate;
    bool hidden;       /* whether the cursor is hidden */
    char sequence[32]; /* the beginning of an escape sequence or a character */
    unsigned used;
};

/* Starts the program in a terminal of this size. `arguments` end with NULL. */
void pty_open(struct pty *pty, int rows, int columns, const char *const *arguments);
/* Reads the program's output until the screen has `text` or the program has ended. Returns whether the screen has
 * it. */
bool pty_wait_for(struct pty *pty, const char *text);
/* Returns whether a row of the screen has `text` now. */
bool pty_shows(const struct pty *pty, const char *text);
/* Copies the row, counted from 0, without the spaces at its end. */
void pty_row(const struct pty *pty, int row, char text[PTY_COLUMNS_MAX * PTY_CELL]);
void pty_type(struct pty *pty, const char *keys);
void pty_resize(struct pty *pty, int rows, int columns);
/* Reads until the program has ended. Returns its exit status, or 128 + the signal's number. */
int pty_close(struct pty *pty);

#endif
