/* The kernel's view of a test's processes (/proc). */
#ifndef TESTS_CLUSTER_PROCESSES_H
#define TESTS_CLUSTER_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Counts the processes that were started with `setting`, such as NAME=VALUE, in their environment. */
unsigned process_count(const char *setting);

/* Returns the only child of a process whose command line contains `text`; 0: there is none. */
pid_t process_child(pid_t parent, const char *text);

/* What a process uses at the moment; all 0 when it has ended. */
struct process_usage {
    unsigned descriptors;
    size_t bytes; /* memory in bytes */
};
struct process_usage process_usage(pid_t pid);

#endif
