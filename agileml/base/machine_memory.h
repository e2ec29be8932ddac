/* How much memory this process may use: that of the machine, or of its cgroup if that is less; and sizes on command
 * lines. Linux. */
#ifndef AGILEML_BASE_MACHINE_MEMORY_H
#define AGILEML_BASE_MACHINE_MEMORY_H

#include "agileml/base/error.h"

#include <stdint.h>

/* Returns the bytes of memory of the machine, or the least limit of this process's cgroups, of version 1 or 2, and of
 * those above them. 0: not known. `root` stands before the paths of /proc and /sys; "" but in tests. */
uint64_t machine_memory(const char *root);

/* Reads a size such as 512M, 1.5G, 2T, or 700 for MiB; units are powers of 1024, in either case, and may end in "iB" or
 * "B". Returns AML_EINPUT, with `name` in the line, for anything else and for less than 1 MiB. */
int memory_size_parse(const char *text, const char *name, uint64_t *bytes, struct error *error);

#endif
