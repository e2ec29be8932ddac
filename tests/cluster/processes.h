/* What the kernel says of the processes of a test (/proc). */
#ifndef TESTS_CLUSTER_PROCESSES_H
#define TESTS_CLUSTER_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether the file `name` of a process, such as cmdline or environ, has these bytes. False when it has ended. */
bool process_file_has(const char *pid, const char *name, const void *bytes, size_t size);

/* How many processes were started with `setting`, such as NAME=VALUE, in their environment. */
unsigned process_count(const char *setting);

/* The one child of a process whose command line contains `text`; 0: there is none. */
pid_t process_child(pid_t parent, const char *text);

/* What a process has at the moment; all 0 when it has ended. */
struct process_usage {
    unsigned descriptors;
    size_t bytes; /* of memory */
};
struct process_usage process_usage(pid_t pid);

#endif
