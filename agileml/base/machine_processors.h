/* How many processors this process may use: those that it may run on, or fewer if its cgroup has less time. Linux. */
#ifndef AGILEML_BASE_MACHINE_PROCESSORS_H
#define AGILEML_BASE_MACHINE_PROCESSORS_H

/* Returns at least 1. A part of a processor that a cgroup may use counts as a whole one. `root` stands before the paths
 * of /proc and /sys; "" but in tests. */
unsigned machine_processors(const char *root);

#endif
