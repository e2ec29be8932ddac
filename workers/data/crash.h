/* The end of a process whose app crashes: by a signal that its own mistake has caused (crash_signals.h), or by a call
 * of exit. Prints the place of the crash on standard error (the app's function, the clock, a backtrace), and has the
 * node's loop report the crash to the controller. Then the process dies as it would have died: with the same exit
 * status and, in a job without a key, a core dump if the shell's limit allows one.
 *
 * Signal handlers belong to the process, so all threads share one state. A handler that the app or a sanitizer has
 * installed before stays, and its signal is not caught here. A process that the app forks is not affected. The handler
 * allocates nothing and takes no lock. */
#ifndef AGILEML_WORKERS_CRASH_H
#define AGILEML_WORKERS_CRASH_H

#include "agileml/wire/message.h"

enum {
    CRASH_FRAMES_MAX = 64,          /* of the backtrace */
    CRASH_STACK_BYTES = 128 * 1024, /* of a handler's own stack, as the thread's stack may have overflowed */
    CRASH_WAIT_MS = 500,            /* the wait for the controller's answer; shorter than the silence after which a node
                                       is given up */
    CRASH_WAIT_OURS_MS = 100,       /* the wait outside the app's functions, where the loop itself may have crashed */
    CRASH_MAPPINGS_MAX = 64,        /* mapped files; a crash in a further file does not name its folder */
    CRASH_GIVE_UP_S = 10            /* a handler that takes longer than this hangs, and the process dies */
};

/* Installs the handlers. Call it once, in the main thread, before other threads start. The log must be set up before
 * (agileml/base/log.h), since the handlers' lines have the log's form. 0 or AML_EFAIL. */
int crash_open(struct error *error);

/* Takes the form of lines from the log again, after the log's name or node has changed. One thread at a time. */
void crash_take_frame(void);

/* Call these at the start and the end of each thread that may run the app's functions. */
void crash_thread_begin(void);
void crash_thread_end(void);

/* Call these before and after this thread runs one of the app's functions. `function` must stay valid; `clock` 0:
 * none. */
void crash_enter(const char *function, uint64_t clock);
void crash_leave(void);

/* ---- For files that are mapped, where a read error of the disk is a signal (SIGBUS) ---- */

/* From now on a crash at an address of the mapping reports that the disk of `folder` could not be read. `folder` must
 * stay valid. */
void crash_watch_mapping(const void *base, size_t size, const char *folder);
void crash_forget_mapping(const void *base);

/* ---- For the node's loop, which reports to the controller ---- */

/* A descriptor that becomes readable when the process has crashed, if a loop watches it. */
int crash_descriptor(void);
/* Sets whether a loop watches the descriptor. Without a loop a call of exit is not treated as a crash; signals are. */
void crash_listen(bool listening);
/* The report for the controller, once the descriptor is readable. */
struct message_crashed crash_facts(void);
/* Lets the process die. Call it when the controller has answered or can't be reached. */
void crash_told(void);

#endif
