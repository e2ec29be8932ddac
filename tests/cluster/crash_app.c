/* crash: counts its items in ten rows and crashes as its options say: how, in which function, at which item, and from
 * which clock on. An app for tests, not an example. */
#include "agileml.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS = 1000, ROWS = 10, TEST_EACH = 5, EXITS = 8 };

struct crash {
    const char *in, *how;
    int64_t item, from;
    int64_t slow_us;
    bool on_transient; /* crash in transient nodes only */
    bool transient;    /* this node is transient: argv has the library's --tier=transient */
};

struct item {
    uint32_t row, number;
};

static int64_t zero;
static void *volatile nowhere;

/* Overflows any stack. The result is used so that the compiler makes no loop of the recursion. */
static int overflow(int64_t depth) {
    volatile char bytes[4096];
    bytes[depth % 4096] = (char)depth;
    return depth == INT64_MAX ? 0 : overflow(depth + 1) + bytes[(depth + 1) % 4096];
}

static void *abort_here(void *unused) {
    (void)unused;
    abort();
}

static void *exit_here(void *unused) {
    (void)unused;
    exit(3);
}

/* Exits in several threads at once, as when all find the same fault. */
static void exit_in_threads(void) {
    pthread_t others[EXITS];
    for (unsigned t = 0; t < EXITS; t++) {
        pthread_create(&others[t], NULL, exit_here, NULL);
    }
    for (unsigned t = 0; t < EXITS; t++) {
        pthread_join(others[t], NULL);
    }
}

/* Ends a forked process by `how`; this process goes on. */
static void end_child(void (*how)(void)) {
    pid_t child = fork();
    if (child == 0) {
        how();
    }
    waitpid(child, NULL, 0);
}

static void call_exit(void) {
    exit(0);
}

__attribute__((noinline)) void crash_here(const struct crash *crash);

/* Crashes. A backtrace must show this function's name. */
void crash_here(const struct crash *crash) {
    pthread_t other;
    if (strcmp(crash->how, "abort") == 0) {
        abort();
    } else if (strcmp(crash->how, "exit") == 0) {
        exit(3);
    } else if (strcmp(crash->how, "exits") == 0) {
        exit_in_threads();
    } else if (strcmp(crash->how, "fpe") == 0) {
        zero = ITEMS / zero;
        raise(SIGFPE); /* where a division by 0 raises no signal */
    } else if (strcmp(crash->how, "overflow") == 0) {
        zero = overflow(0);
    } else if (strcmp(crash->how, "thread") == 0) {
        pthread_create(&other, NULL, abort_here, NULL);
        pthread_join(other, NULL);
    } else if (strcmp(crash->how, "kill") == 0) {
        raise(SIGKILL);
    } else if (strcmp(crash->how, "child-exit") == 0) {
        end_child(call_exit);
    } else if (strcmp(crash->how, "child-abort") == 0) {
        end_child(abort);
    } else if (strcmp(crash->how, "default") == 0) { /* an app without a signal handler */
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    } else {
        *(char *)nowhere = 1;
    }
    usleep(0); /* prevents a tail call above, so that the function stays on the stack */
}

static bool dies_in(const struct crash *crash, const char *function) {
    return crash->in != NULL && strcmp(crash->in, function) == 0 && (crash->transient || !crash->on_transient);
}

static int crash_read(aml_worker *worker, void *context) {
    const struct crash *crash = context;
    if (dies_in(crash, "read")) {
        crash_here(crash);
    }
    for (uint64_t number = 0; number < ITEMS; number++) {
        uint64_t key = number % ROWS;
        uint32_t bytes = (uint32_t)number;
        int kept = aml_emit(worker, number % TEST_EACH == 0 ? AML_TEST : AML_TRAIN, &key, &bytes);
        if (kept < 0) {
            return kept;
        }
    }
    return 0;
}

static void part(void *context, unsigned thread, unsigned threads) {
    if (thread + 1 == threads && dies_in(context, "parallel")) {
        crash_here(context);
    }
}

static int crash_begin(aml_worker *worker, void *context) {
    const struct crash *crash = context;
    if (dies_in(crash, "begin") && aml_clock(worker) >= (uint64_t)crash->from) {
        crash_here(crash);
    }
    aml_parallel(worker, part, context);
    return 0;
}

static bool at_item(aml_worker *worker, const struct crash *crash, const void *items, size_t count) {
    const struct item *item = items;
    bool found = false;
    for (size_t i = 0; i < count && aml_clock(worker) >= (uint64_t)crash->from; i++) {
        found = found || item[i].number == (uint32_t)crash->item;
    }
    return found;
}

static int crash_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct crash *crash = context;
    struct aml_rows rows = aml_table_rows(worker, 0);
    const struct item *item = items;
    if (crash->slow_us > 0) {
        usleep((useconds_t)crash->slow_us);
    }
    if (dies_in(crash, "clock") && at_item(worker, crash, items, count)) {
        crash_here(crash);
    }
    for (size_t i = 0; i < count; i++) {
        (*(int64_t *)aml_row(&rows, item[i].row))++;
    }
    return 0;
}

static int crash_evaluate(aml_worker *worker, const void *items, size_t count, void *context) {
    if (dies_in(context, "evaluate") && at_item(worker, context, items, count)) {
        crash_here(context);
    }
    aml_metric_add(worker, 0, 0, (double)count);
    return 0;
}

static int crash_finish(aml_worker *worker, void *context) {
    (void)worker;
    if (dies_in(context, "finish")) {
        crash_here(context);
    }
    return 0;
}

int main(int argc, char **argv) {
    struct crash crash = {.how = "segv", .item = 503, .from = 3};
    const struct aml_option options[] = {
        {"in", "FUNCTION", AML_OPTION_STRING, &crash.in, 0, 0, "that crashes"},
        {"how", "HOW", AML_OPTION_STRING, &crash.how, 0, 0,
         "abort, segv, fpe, overflow, thread, exit, exits, kill, child-exit, child-abort, default"},
        {"item", "N", AML_OPTION_INTEGER, &crash.item, 0, ITEMS, "at which clock and evaluate do"},
        {"from", "N", AML_OPTION_INTEGER, &crash.from, 0, 1000000, "clock from which on"},
        {"slow-us", "N", AML_OPTION_INTEGER, &crash.slow_us, 0, 1e6, "pause in each call of clock"},
        {"on-transient", NULL, AML_OPTION_FLAG, &crash.on_transient, 0, 0, "transient nodes only"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct aml_table tables[] = {{.name = "counts", .type = AML_INT64, .mode = AML_ADD, .width = 1, .rows = ROWS}};
    const struct aml_metric metrics[] = {{.name = "nothing", .kind = AML_MEAN, .evaluated = 1}};
    struct aml_app app = {.name = "crash",
                          .summary = "dies where it is told to",
                          .options = options,
                          .tables = tables,
                          .table_count = 1,
                          .metrics = metrics,
                          .metric_count = 1,
                          .item_rows = 1,
                          .item_tables = {0},
                          .item_bytes = sizeof(uint32_t),
                          .read = crash_read,
                          .begin = crash_begin,
                          .clock = crash_clock,
                          .evaluate = crash_evaluate,
                          .finish = crash_finish,
                          .context = &crash};
    for (int a = 1; a < argc; a++) {
        crash.transient = crash.transient || strcmp(argv[a], "--tier=transient") == 0;
    }
    return aml_main(&app, argc, argv);
}
