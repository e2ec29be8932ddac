/* How much memory this process may use: the machine's, or its cgroup's limit if that is lower. Also parses sizes on
 * command lines. Linux. */
#ifndef AGILEML_BASE_MACHINE_MEMORY_H
#define AGILEML_BASE_MACHINE_MEMORY_H

#include "agileml/base/error.h"

#include <stdint.h>

/* Returns the machine's memory in bytes, or the lowest limit of this process's cgroups (version 1 or 2) and of the
 * groups above them, if that is lower. 0: not known. `root` is a prefix for the paths of /proc and /sys: "" except
 * in tests. */
uint64_t machine_memory(const char *root);

/* Reads a size such as 512M, 1.5G, 2T, or 700 (MiB). Units are powers of 1024, in either case, and may end in "iB"
 * or "B". Returns AML_EINPUT, with `name` in the message, for anything else and for less than 1 MiB. */
int memory_size_parse(const char *text, const char *name, uint64_t *bytes, struct error *error);

#endif
