/* See machine_processors.h. */
#include "agileml/base/machine_processors.h"

#include "agileml/base/cgroup.h"

#include <sched.h>
#include <unistd.h>

/* A quota of 200000 in periods of 100000 microseconds is two processors. "max" (version 2) or -1 (version 1) means
 * no limit. */
static uint64_t processors_limit(const char *folder, bool second) {
    uint64_t numbers[2] = {0};
    uint64_t period[2] = {0};
    bool there = second ? cgroup_numbers(folder, "cpu.max", numbers) == 2
                        : cgroup_numbers(folder, "cpu.cfs_quota_us", numbers) > 0 &&
                              cgroup_numbers(folder, "cpu.cfs_period_us", period) > 0;
    uint64_t each = second ? numbers[1] : period[0];
    return there && each > 0 && numbers[0] <= INT64_MAX ? numbers[0] / each + (numbers[0] % each > 0 ? 1 : 0)
                                                        : UINT64_MAX;
}

static unsigned allowed(void) {
    cpu_set_t set;
    long online = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

unsigned machine_processors(const char *root) {
    unsigned processors = allowed();
    uint64_t limit = cgroup_least(root, "cpu", processors_limit);
    return limit < processors ? (limit > 0 ? (unsigned)limit : 1) : processors;
}
