/* See cgroup.h. */
#include "agileml/base/cgroup.h"

#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 4096 };

unsigned cgroup_numbers(const char *folder, const char *file, uint64_t numbers[2]) {
    char path[CGROUP_PATH_BYTES];
    unsigned long long read[2] = {0};
    int count = 0;
    FILE *stream = NULL;
    if (snprintf(path, sizeof path, "%s/%s", folder, file) < (int)sizeof path) {
        stream = fopen(path, "r");
    }
    if (stream != NULL) {
        count = fscanf(stream, "%llu %llu", &read[0], &read[1]);
        fclose(stream);
    }
    numbers[0] = read[0];
    numbers[1] = read[1];
    return count > 0 ? (unsigned)count : 0;
}

static uint64_t lesser(uint64_t one, uint64_t other) {
    return one < other ? one : other;
}

/* Returns the lowest limit of a group and the groups above it. `group` is its path below `mount`. In a container
 * `mount` may already be the container's group while `group` is the path on the host. Then only the files at `mount`
 * itself exist. */
static uint64_t least_above(const char *root, const char *mount, const char *group, bool second, cgroup_limit *limit) {
    char folder[CGROUP_PATH_BYTES];
    uint64_t least = UINT64_MAX;
    if (snprintf(folder, sizeof folder, "%s%s%s", root, mount, group) >= (int)sizeof folder) {
        return least;
    }
    char *top = folder + strlen(root) + strlen(mount);
    for (;;) {
        least = lesser(least, limit(folder, second));
        char *slash = strrchr(top, '/');
        if (slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

/* Returns the limit of the group in a line of /proc/self/cgroup: "4:memory:/group", or "0::/group" for version 2. */
static uint64_t line_limit(const char *root, const char *controller, char *line, cgroup_limit *limit) {
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) {
        return UINT64_MAX;
    }
    *group++ = '\0';
    controllers++;
    group[strcspn(group, "\n")] = '\0';
    if (strcmp(group, "/") == 0) {
        *group = '\0';
    }
    if (*controllers == '\0') {
        return lesser(least_above(root, "/sys/fs/cgroup", group, true, limit),
                      least_above(root, "/sys/fs/cgroup/unified", group, true, limit));
    }
    for (char *save, *name = strtok_r(controllers, ",", &save); name != NULL; name = strtok_r(NULL, ",", &save)) {
        if (strcmp(name, controller) == 0) {
            char mount[CGROUP_PATH_BYTES];
            snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", controller);
            return least_above(root, mount, group, false, limit);
        }
    }
    return UINT64_MAX;
}

uint64_t cgroup_least(const char *root, const char *controller, cgroup_limit *limit) {
    char path[CGROUP_PATH_BYTES];
    char line[LINE_BYTES];
    uint64_t least = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        least = lesser(least, line_limit(root, controller, line, limit));
    }
    if (file != NULL) {
        fclose(file);
    }
    return least;
}
