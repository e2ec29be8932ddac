/* Child processes: finds programs, starts and ends them, and reports how they ended. A child dies with its parent
 * unless it is detached. Does not depend on what the programs do. */
#ifndef AGILEML_BASE_PROCESS_H
#define AGILEML_BASE_PROCESS_H

#include "agileml/base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROCESS_END_TEXT = 64 };

struct process {
    pid_t pid; /* 0: never started */
    bool running;
    int status; /* status of waitpid(2), once the process has ended */
};

/* A program's arguments, its name first. */
struct arguments {
    char **list; /* ends with NULL */
    size_t count;
};

__attribute__((format(printf, 2, 3))) void arguments_add(struct arguments *arguments, const char *format, ...);
void arguments_close(struct arguments *arguments);

/* Finds the program called `name`: a path if it has a '/', else a file beside this program, else in $PATH. Returns
 * AML_EINPUT when there is no such program that may be run. */
int process_find(const char *name, char path[PATH_MAX], struct error *error);
/* Sets `path` to the path of this program. */
int process_self(char path[PATH_MAX], struct error *error);

/* What a child inherits from this process. Zeroed, except for the descriptors: everything. */
struct process_setting {
    int inherited_fd;         /* stays open in the child, with the same number; -1: none */
    int output_fd;            /* the child's standard output and error; -1: ours */
    char *const *environment; /* "NAME=VALUE", NULL at the end; NULL: ours */
    bool detached;            /* runs in a session of its own, and outlives us */
};
#define PROCESS_SETTING_OURS ((struct process_setting){.inherited_fd = -1, .output_fd = -1})

/* Starts a program in a process group of its own, so that only the parent receives the terminal's Ctrl-C. Standard
 * input is empty, no signal is blocked. However the parent ends, a child that is not detached ends with it. Returns
 * when the program runs. Returns AML_EINPUT when the program can't be run, AML_EFAIL when there is no room for a
 * process. */
int process_start(struct process *process, const char *path, const struct arguments *arguments,
                  struct process_setting setting, struct error *error);
/* Sends a signal to the child and its own children; does nothing when it doesn't run. */
void process_signal(const struct process *process, int number);
/* Returns true once, when the child has ended; then `status` is set, and the processes it had started are killed.
 * Doesn't wait. */
bool process_ended(struct process *process);
/* Whether the process is dying and the kernel is writing its core dump. Killing it now would truncate the dump. */
bool process_dumps_core(const struct process *process);
/* Returns the CPU time that the child itself has used so far, in microseconds; 0 when it doesn't run. */
uint64_t process_cpu_us(const struct process *process);
/* Whether the process ended by itself with exit status 0. */
bool process_succeeded(const struct process *process);
/* Writes "was killed by signal 9 (Killed)" or "ended with exit status 1" to `text`. */
void process_describe_end(const struct process *process, char text[PROCESS_END_TEXT]);

#endif
