/* Child processes: finds programs, starts them, ends them, reports how they ended. A child dies with its parent unless
 * it is detached. Knows nothing of what the programs do. */
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
    int status; /* of waitpid(2), once it doesn't run any more */
};

/* A program's arguments, its name first. */
struct arguments {
    char **list; /* ends with NULL */
    size_t count;
};

__attribute__((format(printf, 2, 3))) void arguments_add(struct arguments *arguments, const char *format, ...);
void arguments_close(struct arguments *arguments);

/* The program called `name`: a path if it has a '/', else beside this program, else in $PATH. AML_EINPUT when
 * there is none that may be run. */
int process_find(const char *name, char path[PATH_MAX], struct error *error);
/* The path of this program. */
int process_self(char path[PATH_MAX], struct error *error);

/* What a child has of ours. Zeroed but for the descriptors: everything. */
struct process_setting {
    int inherited_fd;         /* stays open in it under its number; -1: none */
    int output_fd;            /* its standard output and error; -1: ours */
    char *const *environment; /* "NAME=VALUE", NULL at the end; NULL: ours */
    bool detached;            /* in a session of its own, and it outlives us */
};
#define PROCESS_SETTING_OURS ((struct process_setting){.inherited_fd = -1, .output_fd = -1})

/* Starts a program in a process group of its own, so that the terminal's Ctrl-C is the parent's to deal with; standard
 * input is empty, no signal is blocked. When the parent ends, however it does, so does a child that is not detached.
 * Returns when the program runs. AML_EINPUT when it can't be run, AML_EFAIL when there is no room for a process. */
int process_start(struct process *process, const char *path, const struct arguments *arguments,
                  struct process_setting setting, struct error *error);
/* To the child and its own children; nothing when it doesn't run. */
void process_signal(const struct process *process, int number);
/* True once, when the child has ended: then `status` is set, and what it had started is killed. Doesn't wait. */
bool process_ended(struct process *process);
/* Whether the process is dying and the kernel writes its core dump: to kill it now would cut the dump short. */
bool process_dumps_core(const struct process *process);
/* Returns the CPU time that the child itself has taken so far, in microseconds; 0 when it doesn't run. */
uint64_t process_cpu_us(const struct process *process);
/* It ended by itself with exit status 0. */
bool process_succeeded(const struct process *process);
/* "was killed by signal 9 (Killed)" or "ended with exit status 1". */
void process_describe_end(const struct process *process, char text[PROCESS_END_TEXT]);

#endif
