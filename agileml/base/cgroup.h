/* The limits of this process's cgroups, of version 1 or 2. Linux. */
#ifndef AGILEML_BASE_CGROUP_H
#define AGILEML_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

enum { CGROUP_PATH_BYTES = 1024 };

/* Returns the limit in a group's folder, whose files are those of version 2 if `second`; UINT64_MAX: it has none. */
typedef uint64_t cgroup_limit(const char *folder, bool second);

/* Returns the least limit of this process's groups and of those above them; UINT64_MAX: there is none. `controller` is
 * the name in version 1. `root` stands before the paths of /proc and /sys; "" but in tests. */
uint64_t cgroup_least(const char *root, const char *controller, cgroup_limit *limit);

/* Returns the numbers at the beginning of a file, and how many there are: 0 also when the file is not there or begins
 * with a word, such as "max". */
unsigned cgroup_numbers(const char *folder, const char *file, uint64_t numbers[2]);

#endif
