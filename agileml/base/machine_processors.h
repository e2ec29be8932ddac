/* How many processors this process may use: those in its affinity mask, or fewer if its cgroup limits CPU time.
 * Linux. */
#ifndef AGILEML_BASE_MACHINE_PROCESSORS_H
#define AGILEML_BASE_MACHINE_PROCESSORS_H

/* Returns at least 1. A cgroup's limit is rounded up to whole processors. `root` is a prefix for the paths of /proc
 * and /sys: "" except in tests. */
unsigned machine_processors(const char *root);

#endif
