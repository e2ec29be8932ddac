/* See pty.h. */
#include "tests/cluster/pty.h"
#include "tests/test.h"

#include "agileml/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POLL_MS = 50 };

/* ---- The screen ---- */

static struct pty_screen *screen_of(struct pty *pty) {
    return &pty->screens[pty->alternate];
}

static void clear_cells(struct pty *pty, int row, int from) {
    for (int c = from; c < PTY_COLUMNS_MAX; c++) {
        strcpy(screen_of(pty)->cells[row][c], " ");
    }
}

static void clear_rows(struct pty *pty, int from) {
    for (int row = from; row < PTY_ROWS_MAX; row++) {
        clear_cells(pty, row, 0);
    }
}

static void line_feed(struct pty *pty) {
    struct pty_screen *screen = screen_of(pty);
    if (screen->row + 1 < pty->rows) {
        screen->row++;
        return;
    }
    memmove(screen->cells[0], screen->cells[1], (size_t)(pty->rows - 1) * sizeof screen->cells[0]);
    clear_cells(pty, pty->rows - 1, 0);
}

static void put_character(struct pty *pty, const char *character) {
    struct pty_screen *screen = screen_of(pty);
    if (screen->column >= pty->columns) {
        screen->column = 0;
        line_feed(pty);
    }
    strcpy(screen->cells[screen->row][screen->column++], character);
}

/* Executes ESC [ ..., as far as proteus uses it. Any other sequence fails the test. */
static void obey(struct pty *pty, const char *sequence) {
    struct pty_screen *screen = screen_of(pty);
    if (strcmp(sequence, "[K") == 0) {
        clear_cells(pty, screen->row, screen->column);
    } else if (strcmp(sequence, "[J") == 0) {
        clear_cells(pty, screen->row, screen->column);
        clear_rows(pty, screen->row + 1);
    } else if (strcmp(sequence, "[H") == 0) {
        screen->row = screen->column = 0;
    } else if (strcmp(sequence, "[?1049h") == 0) {
        pty->alternate = true;
        clear_rows(pty, 0);
    } else if (strcmp(sequence, "[?1049l") == 0) {
        pty->alternate = false;
    } else if (strcmp(sequence, "[?25l") == 0) {
        pty->hidden = true;
    } else if (strcmp(sequence, "[?25h") == 0) {
        pty->hidden = false;
    } else if (strcmp(sequence, "[7m") != 0 && strcmp(sequence, "[0m") != 0) {
        fail_msg("an unknown escape sequence: ESC %s", sequence);
    }
}

static bool sequence_is_complete(const struct pty *pty) {
    unsigned char first = (unsigned char)pty->sequence[0];
    char last = pty->sequence[pty->used - 1];
    if (first == 0x1b) {
        return pty->used > 2 && last >= '@' && last <= '~';
    }
    return pty->used == (first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4);
}

static void take_byte(struct pty *pty, char byte) {
    if (pty->used == 0 && (byte == '\r' || byte == '\n')) {
        if (byte == '\n') {
            line_feed(pty);
        } else {
            screen_of(pty)->column = 0;
        }
        return;
    }
    assert_true(pty->used + 1 < sizeof pty->sequence);
    pty->sequence[pty->used++] = byte;
    pty->sequence[pty->used] = '\0';
    if (sequence_is_complete(pty)) {
        if (pty->sequence[0] == 0x1b) {
            obey(pty, pty->sequence + 1);
        } else {
            put_character(pty, pty->sequence);
        }
        pty->used = 0;
    }
}

void pty_row(const struct pty *pty, int row, char text[PTY_COLUMNS_MAX * PTY_CELL]) {
    char *end = text;
    char *last = text;
    for (int c = 0; c < pty->columns; c++) {
        const char *cell = pty->screens[pty->alternate].cells[row][c];
        end = stpcpy(end, cell);
        last = strcmp(cell, " ") == 0 ? last : end;
    }
    *last = '\0';
}

bool pty_shows(const struct pty *pty, const char *text) {
    char row[PTY_COLUMNS_MAX * PTY_CELL];
    for (int r = 0; r < pty->rows; r++) {
        pty_row(pty, r, row);
        if (strstr(row, text) != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- The program ---- */

void pty_open(struct pty *pty, int rows, int columns, const char *const *arguments) {
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    *pty = (struct pty){.rows = rows, .columns = columns};
    for (int s = 0; s < 2; s++) {
        pty->alternate = s == 1;
        clear_rows(pty, 0);
    }
    pty->alternate = false;
    pty->process = forkpty(&pty->master, NULL, NULL, &size);
    assert_true(pty->process >= 0);
    if (pty->process == 0) {
        setenv("TERM", "xterm", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        execvp(arguments[0], (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
}

/* Reads once. Returns false after the end. */
static bool read_some(struct pty *pty) {
    char bytes[4096];
    struct pollfd waited = {.fd = pty->master, .events = POLLIN};
    if (poll(&waited, 1, POLL_MS) <= 0) {
        return true;
    }
    ssize_t size = read(pty->master, bytes, sizeof bytes);
    for (ssize_t b = 0; b < size; b++) {
        take_byte(pty, bytes[b]);
    }
    return size > 0 || (size < 0 && errno == EINTR); /* EIO: no process has the terminal open any more */
}

bool pty_wait_for(struct pty *pty, const char *text) {
    int64_t end_ms = monotonic_ms() + PTY_WAIT_MS;
    bool there = true;
    while (!pty_shows(pty, text) && there && monotonic_ms() < end_ms) {
        there = read_some(pty);
    }
    return pty_shows(pty, text);
}

void pty_type(struct pty *pty, const char *keys) {
    assert_int_equal(write(pty->master, keys, strlen(keys)), strlen(keys));
}

void pty_resize(struct pty *pty, int rows, int columns) {
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    assert_int_equal(ioctl(pty->master, TIOCSWINSZ, &size), 0);
    pty->rows = rows;
    pty->columns = columns;
}

int pty_close(struct pty *pty) {
    int64_t end_ms = monotonic_ms() + PTY_WAIT_MS;
    int status = 0;
    while (read_some(pty) && monotonic_ms() < end_ms) {
    }
    if (monotonic_ms() >= end_ms) {
        kill(pty->process, SIGKILL);
    }
    assert_int_equal(waitpid(pty->process, &status, 0), pty->process);
    close(pty->master);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
