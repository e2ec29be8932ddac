/* See machine_memory.h. */
#include "agileml/base/machine_memory.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 4096 };

static const double SIZE_MAX_BYTES = 9007199254740992.0; /* 2^53 */

/* Returns the number in a file; UINT64_MAX when the file is not there or has a word, such as "max". */
static uint64_t number_in(const char *path) {
    unsigned long long number = UINT64_MAX;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return UINT64_MAX;
    }
    if (fscanf(file, "%llu", &number) != 1) {
        number = UINT64_MAX;
    }
    fclose(file);
    return number;
}

static uint64_t lesser(uint64_t one, uint64_t other) {
    return one < other ? one : other;
}

/* Returns the least limit of a cgroup and those above it. `group` is its path below `mount`, and is cut on the way.
 * In a container `mount` may be that of the container's group, while `group` is its path outside: then only the file
 * at the top is there. */
static uint64_t least_limit(const char *root, const char *mount, char *group, const char *file) {
    uint64_t least = UINT64_MAX;
    for (;;) {
        char path[PATH_BYTES];
        if (snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, file) < (int)sizeof path) {
            least = lesser(least, number_in(path));
        }
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

/* Returns the limit of the cgroup in a line of /proc/self/cgroup: "4:memory:/group", or "0::/group" for version 2. */
static uint64_t line_limit(const char *root, char *line) {
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
    char again[LINE_BYTES];
    snprintf(again, sizeof again, "%s", group);
    if (*controllers == '\0') {
        return lesser(least_limit(root, "/sys/fs/cgroup", group, "memory.max"),
                      least_limit(root, "/sys/fs/cgroup/unified", again, "memory.max"));
    }
    for (char *save, *name = strtok_r(controllers, ",", &save); name != NULL; name = strtok_r(NULL, ",", &save)) {
        if (strcmp(name, "memory") == 0) {
            return least_limit(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
        }
    }
    return UINT64_MAX;
}

static uint64_t cgroup_limit(const char *root) {
    char path[PATH_BYTES];
    char line[LINE_BYTES];
    uint64_t least = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        least = lesser(least, line_limit(root, line));
    }
    if (file != NULL) {
        fclose(file);
    }
    return least;
}

uint64_t machine_memory(const char *root) {
    char path[PATH_BYTES];
    char line[LINE_BYTES];
    unsigned long long kibibytes = 0;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *file = fopen(path, "r");
    while (file != NULL && kibibytes == 0 && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "MemTotal: %llu kB", &kibibytes) != 1) {
            kibibytes = 0;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    uint64_t limit = cgroup_limit(root);
    uint64_t machine = kibibytes > 0 ? (uint64_t)kibibytes * 1024 : UINT64_MAX;
    return limit < machine ? limit : machine < UINT64_MAX ? machine : 0;
}

int memory_size_parse(const char *text, const char *name, uint64_t *bytes, struct error *error) {
    static const char units[] = "KMGT";
    char *end = NULL;
    errno = 0;
    double size = isdigit((unsigned char)text[0]) && strpbrk(text, "xXpP") == NULL ? strtod(text, &end) : 0;
    const char *unit = end != NULL && *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
    double factor = 1 << 20;
    if (unit != NULL) {
        factor = 1024;
        for (const char *u = units; u < unit; u++) {
            factor *= 1024;
        }
        end++;
        end += strcmp(end, "iB") == 0 ? 2 : strcmp(end, "B") == 0 ? 1 : 0;
    }
    if (end == NULL || *end != '\0' || !(size * factor >= 1 << 20) || size * factor > SIZE_MAX_BYTES) {
        return error_set(error, AML_EINPUT,
                         "--%s '%s': expected a size of at least 1M, such as 512M, 4G, or 700 for MiB", name, text);
    }
    *bytes = (uint64_t)(size * factor);
    return 0;
}
