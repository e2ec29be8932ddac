/* The end of a process whose app crashes, by a signal of its own mistake (crash_signals.h) or by a call of exit: says
 * on standard error where it was (the app's function, the clock, a backtrace), has the node's loop tell the controller,
 * and lets the process die as it would have died: with the same exit status, and, in a job without a key, a core dump
 * where the shell's limit allows it.
 *
 * Signal handlers belong to the process, so there is one such state in it. A handler that the app or a sanitizer has
 * installed before stays, and its signals are not caught here. A process that the app forks dies as it would without
 * all this. In a handler nothing is allocated and no lock is taken. */
#ifndef AGILEML_WORKERS_CRASH_H
#define AGILEML_WORKERS_CRASH_H

#include "agileml/wire/message.h"

enum {
    CRASH_FRAMES_MAX = 64,          /* of the backtrace */
    CRASH_STACK_BYTES = 128 * 1024, /* of the stack on which a thread's handler runs: its own may have overflowed */
    CRASH_WAIT_MS = 500,            /* for the controller's answer: less than a node may be silent */
    CRASH_WAIT_OURS_MS = 100,       /* the same outside the app's functions: the loop may be what has crashed */
    CRASH_GIVE_UP_S = 10            /* after so long the handler itself hangs: the process dies */
};

/* Once in the process, by the main thread and before it starts others. Lines begin with `app`. 0 or AML_EFAIL. */
int crash_open(const char *app, struct error *error);

/* What lines begin with from now on. By one thread at a time. */
void crash_set_name(const char *name);

/* A thread that may run the app's functions, from its start to its end. */
void crash_thread_begin(void);
void crash_thread_end(void);

/* This thread enters and leaves one of the app's functions. `function` stays valid; `clock` 0: of none. */
void crash_enter(const char *function, uint64_t clock);
void crash_leave(void);

/* ---- For the node's loop, which tells the controller ---- */

/* A descriptor that becomes readable when the process has crashed and a loop watches it. */
int crash_descriptor(void);
/* Whether a loop watches the descriptor. After `false` a call of exit is no crash any more; signals still are. */
void crash_listen(bool listening);
/* What to report to the controller, once the descriptor is readable. */
struct message_crashed crash_facts(void);
/* The controller has answered, or can't be reached: the process dies now. */
void crash_told(void);

#endif
