/* The limits of this process's cgroups, of version 1 or 2. Linux. */
#ifndef AGILEML_BASE_CGROUP_H
#define AGILEML_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

enum { CGROUP_PATH_BYTES = 1024 };

/* Returns the limit in a group's folder, or UINT64_MAX if the group has none. `second`: the folder's files are those
 * of version 2. */
typedef uint64_t cgroup_limit(const char *folder, bool second);

/* Returns the lowest limit of this process's groups and of the groups above them; UINT64_MAX: there is none.
 * `controller` is the name in version 1. `root` is a prefix for the paths of /proc and /sys: "" except in tests. */
uint64_t cgroup_least(const char *root, const char *controller, cgroup_limit *limit);

/* Reads the numbers at the beginning of a file and returns their count. Returns 0 when the file doesn't exist or
 * begins with a word, such as "max". */
unsigned cgroup_numbers(const char *folder, const char *file, uint64_t numbers[2]);

#endif
