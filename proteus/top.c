/* proteus top: shows a running job's nodes live on the whole screen of a terminal; on other outputs prints the table
 * repeatedly. Reads keys and requests STATUS; top_view.c makes the text. */
#include "agileml/base/clock.h"
#include "agileml/base/memory.h"
#include "agileml/base/signals.h"
#include "agileml/net/zmq.h"
#include "proteus/answer.h"
#include "proteus/command.h"
#include "proteus/operator.h"
#include "proteus/top_view.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum {
    TOP_KEY_BYTES = 8,            /* bytes of the longest key sequence */
    TOP_WARNING_MS = 2000,        /* a longer silence is shown */
    TOP_PATIENCE_MS = 300 * 1000, /* patience with a controller that is restarted: by default nodes wait as long */
};

#define TOP_INTERVAL_S     1.0
#define TOP_INTERVAL_MIN_S 0.1
#define TOP_INTERVAL_MAX_S 3600

struct top {
    double interval; /* seconds */
    bool once;
    struct operator_call *call;
    struct net_io *io;
    struct terminal terminal;
    struct top_view view;
    uint64_t asked;   /* number of the last request */
    unsigned answers; /* received so far */
    bool ended;       /* the job has ended */
    bool silent;      /* the controller is silent, and the job was at its end */
    bool full;        /* we use the whole screen */
    bool keys;        /* standard input is a terminal in the mode `ours` */
    bool printed;
    struct termios theirs, ours;
    int signal_fd;
    char key[TOP_KEY_BYTES]; /* start of a key sequence */
    size_t key_bytes;
};

static double now_seconds(void) {
    return (double)monotonic_us() / 1e6;
}

/* ---- The screen ---- */

static void enter_screen(struct top *top) {
    if (top->keys) {
        tcsetattr(STDIN_FILENO, TCSADRAIN, &top->ours);
    }
    fputs("\033[?1049h\033[?25l", stdout);
    fflush(stdout);
}

static void leave_screen(struct top *top) {
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    if (top->keys) {
        tcsetattr(STDIN_FILENO, TCSADRAIN, &top->theirs);
    }
}

/* Writes a frame in one piece, so that no half frame is seen. */
static void draw(struct top *top) {
    char *frame = NULL;
    size_t size = 0;
    if (!top->full || top->view.status == NULL) {
        return;
    }
    FILE *stream = open_memstream(&frame, &size);
    if (stream == NULL) {
        memory_exhausted(0);
    }
    top_view_draw(&top->view, &top->terminal, terminal_size_of(stdout), now_seconds(), stream);
    fclose(stream);
    fwrite(frame, 1, size, stdout);
    fflush(stdout);
    free(frame);
}

/* ---- Keys and signals ---- */

/* Returns the rows of a page, less one to help the eye. */
static long page(const struct top *top) {
    return top->view.page > 1 ? (long)top->view.page - 1 : 1;
}

static void press(struct top *top, const char *key) {
    static const struct {
        const char *key;
        enum top_order order;
    } orders[] = {{"n", TOP_BY_NAME},   {"c", TOP_BY_CLOCK},    {"i", TOP_BY_ITEMS},
                  {"m", TOP_BY_MEMORY}, {"l", TOP_BY_SLOWNESS}, {"s", TOP_BY_SILENCE}};
    static const struct {
        const char *key;
        int rows, pages;
    } moves[] = {{"j", 1, 0},       {"k", -1, 0},      {"\033[B", 1, 0},   {"\033[A", -1, 0}, {"\033OB", 1, 0},
                 {"\033OA", -1, 0}, {"\033[6~", 0, 1}, {"\033[5~", 0, -1}, {" ", 0, 1}};
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        if (strcmp(key, orders[o].key) == 0) {
            top_view_sort(&top->view, orders[o].order);
        }
    }
    for (size_t m = 0; m < sizeof moves / sizeof *moves; m++) {
        if (strcmp(key, moves[m].key) == 0) {
            top_view_scroll(&top->view, moves[m].rows + moves[m].pages * page(top));
        }
    }
    if (strcmp(key, "q") == 0) {
        net_io_stop(top->io);
    }
}

/* Collects a key's bytes. ESC [ or ESC O begins a sequence, which a letter or ~ ends. */
static void take_byte(struct top *top, char byte) {
    top->key[top->key_bytes++] = byte;
    top->key[top->key_bytes] = '\0';
    bool sequence = top->key[0] == '\033';
    bool introduced = top->key_bytes < 3 && (byte == '\033' || byte == '[' || byte == 'O');
    bool parameter = top->key_bytes >= 3 && byte < '@';
    if (sequence && (introduced || parameter) && top->key_bytes + 1 < TOP_KEY_BYTES) {
        return;
    }
    press(top, top->key);
    top->key_bytes = 0;
}

static void keys_ready(void *context) {
    struct top *top = context;
    char bytes[64];
    ssize_t size = read(STDIN_FILENO, bytes, sizeof bytes);
    if (size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN)) {
        net_io_watch(top->io, STDIN_FILENO, NULL, NULL);
        net_io_stop(top->io); /* the terminal is gone */
        return;
    }
    for (ssize_t b = 0; b < size; b++) {
        take_byte(top, bytes[b]);
    }
    draw(top);
}

static void signalled(void *context) {
    struct top *top = context;
    int number;
    while ((number = signals_next(top->signal_fd)) != 0) {
        if (number == SIGTSTP && top->full) {
            leave_screen(top);
            raise(SIGSTOP);
            enter_screen(top);
            draw(top);
        } else if (number == SIGTSTP) {
            raise(SIGSTOP);
        } else if (number == SIGWINCH) {
            draw(top);
        } else {
            net_io_stop(top->io);
        }
    }
}

/* ---- The conversation ---- */

static int begin(void *context, struct net_io *io, struct error *error) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH, 0};
    struct top *top = context;
    top->io = io;
    top->call->repeat_ms = (unsigned)(top->interval * 1e3);
    terminal_open(&top->terminal);
    int result = signals_open(&top->signal_fd, numbers, error);
    if (result == 0 && net_io_watch(io, top->signal_fd, signalled, top) != 0) {
        result = error_set(error, AML_EFAIL, "can't wait for signals");
    }
    return result;
}

/* Takes the screen at the first answer: an error before that is printed as a normal line. */
static int take_screen(struct top *top) {
    top->full = true;
    top->keys = tcgetattr(STDIN_FILENO, &top->theirs) == 0;
    top->ours = top->theirs;
    top->ours.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: Ctrl-C and Ctrl-Z are signals */
    top->ours.c_cc[VMIN] = 1;
    top->ours.c_cc[VTIME] = 0;
    enter_screen(top);
    return top->keys ? net_io_watch(top->io, STDIN_FILENO, keys_ready, top) : 0;
}

static void end(void *context) {
    struct top *top = context;
    if (top->full) {
        leave_screen(top);
        top->full = false;
    }
    terminal_close(&top->terminal);
    if (top->signal_fd >= 0) {
        close(top->signal_fd);
    }
}

static void ask(void *context, struct observer *observer) {
    struct top *top = context;
    observer_ask_status(observer, ++top->asked);
}

/* Returns whether the job was about to end at the last answer, so that silence means its end. A controller's last
 * moments are too short to be seen. */
static bool was_at_its_end(const struct top *top) {
    const struct report_line *status = top->view.status;
    if (status == NULL) {
        return false;
    }
    double seconds = fmax(status->seconds, 0) + now_seconds() - top->view.at;
    bool over = forecast_left(&top->view.forecast, seconds).seconds <= 0; /* false if NaN (unknown) */
    return over || (status->phase != NULL && strcmp(status->phase, "save") == 0);
}

static bool bear_silence(void *context, unsigned silent_ms) {
    struct top *top = context;
    if (silent_ms >= OPERATOR_SILENCE_MS && was_at_its_end(top)) {
        top->silent = true;
        net_io_stop(top->io);
        return true;
    }
    if (silent_ms >= TOP_WARNING_MS + (unsigned)(top->interval * 1e3)) {
        top->view.silent = silent_ms / 1e3;
    }
    draw(top);
    unsigned between_ms = top->answers > 0 ? (unsigned)(top->interval * 1e3) : 0;
    return silent_ms < (top->full ? TOP_PATIENCE_MS : OPERATOR_SILENCE_MS) + between_ms;
}

static bool take_status(void *context, struct observer *observer, const struct message *message) {
    struct top *top = context;
    (void)observer;
    if (message->type != MESSAGE_STATUS || message->status.request != top->asked) {
        return false; /* an answer to an older request: the next answer follows soon */
    }
    struct report_line *status = observer_status(message);
    if (status == NULL) {
        return false;
    }
    top->ended = answer_job_is_over(status);
    top_view_take(&top->view, status, now_seconds());
    report_line_drop(status);
    top->answers++;
    if (!top->once && !top->full && terminal_can_rewrite(stdout)) {
        take_screen(top);
    }
    if (top->full) {
        draw(top);
    } else if (!top->once || top->answers == 2 || top->ended) { /* rates need two answers */
        printf("%s", top->printed ? "\n" : "");
        top_view_print(&top->view, &top->terminal, stdout);
        top->printed = true;
    }
    return top->ended || (top->once && top->printed);
}

static int tell_end(void *context, struct error *error) {
    struct top *top = context;
    (void)error;
    if (top->once && !top->printed && top->view.status != NULL) {
        top_view_print(&top->view, &top->terminal, stdout);
    } else if (top->ended && !top->once) {
        printf("the job has ended\n");
    } else if (top->silent) {
        printf("the controller does not answer any more; the job was at its end\n");
    }
    return 0;
}

static const char USAGE[] = "usage: proteus top --controller tcp://HOST:PORT [OPTIONS]\n\n"
                            "Shows a running job's nodes live, on the whole screen; without a terminal prints\n"
                            "the table again and again. Keys: q quits; n, c, i, m, l and s sort by name,\n"
                            "clock, items, memory, slowness and silence, a second time the other way round;\n"
                            "j, k, arrows, PgUp and PgDn scroll.";

int command_top(int argc, char **argv) {
    struct top top = {.interval = TOP_INTERVAL_S, .signal_fd = -1};
    const struct aml_option own[] = {
        {"interval", "SECONDS", AML_OPTION_REAL, &top.interval, TOP_INTERVAL_MIN_S, TOP_INTERVAL_MAX_S,
         "between looks at the job"},
        {"once", NULL, AML_OPTION_FLAG, &top.once, 0, 0, "print the table once, with the rates of one interval"},
        {0},
    };
    struct operator_call call = {.usage = USAGE,
                                 .own = own,
                                 .begin = begin,
                                 .end = end,
                                 .wait = bear_silence,
                                 .ask = ask,
                                 .answer = take_status,
                                 .tell = tell_end,
                                 .context = &top};
    top.call = &call;
    top_view_open(&top.view);
    int code = operator_main(&call, argc, argv);
    top_view_close(&top.view);
    return code;
}
