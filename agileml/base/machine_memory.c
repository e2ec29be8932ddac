/* See machine_memory.h. */
#include "agileml/base/machine_memory.h"

#include "agileml/base/cgroup.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 4096 };

static const double SIZE_MAX_BYTES = 9007199254740992.0; /* 2^53 */

/* A group without a limit has a word, such as "max". In version 1 it has a number larger than any machine's memory. */
static uint64_t memory_limit(const char *folder, bool second) {
    uint64_t numbers[2];
    return cgroup_numbers(folder, second ? "memory.max" : "memory.limit_in_bytes", numbers) > 0 ? numbers[0]
                                                                                                : UINT64_MAX;
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
    uint64_t limit = cgroup_least(root, "memory", memory_limit);
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
