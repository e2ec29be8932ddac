#include "tests/cluster/processes.h"
#include "tests/test.h"

#include <ctype.h>
#include <dirent.h>
#include <unistd.h>

enum { PROC_BYTES = 1 << 15 };

/* Whether the file `name` of a process, such as cmdline or environ, contains the bytes. False when the process has
 * ended. */
static bool file_has(const char *pid, const char *name, const void *bytes, size_t size) {
    char path[64];
    static char held[PROC_BYTES];
    snprintf(path, sizeof path, "/proc/%.16s/%s", pid, name);
    FILE *file = fopen(path, "re");
    size_t held_size = file != NULL ? fread(held, 1, sizeof held, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    return memmem(held, held_size, bytes, size) != NULL;
}

unsigned process_count(const char *setting) {
    unsigned count = 0;
    DIR *directory = opendir("/proc");
    assert_non_null(directory);
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        bool process = isdigit((unsigned char)entry->d_name[0]) != 0;
        count += process && file_has(entry->d_name, "environ", setting, strlen(setting)) ? 1 : 0;
    }
    closedir(directory);
    return count;
}

pid_t process_child(pid_t parent, const char *text) {
    char path[64];
    char pid[16];
    pid_t found = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fscanf(file, "%15s", pid) == 1) {
        if (file_has(pid, "cmdline", text, strlen(text))) {
            assert_int_equal(found, 0);
            found = (pid_t)atol(pid);
        }
    }
    fclose(file);
    return found;
}

struct process_usage process_usage(pid_t pid) {
    struct process_usage usage = {0};
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return usage;
    }
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        usage.descriptors += isdigit((unsigned char)entry->d_name[0]) ? 1 : 0;
    }
    closedir(directory);
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    size_t pages = 0;
    if (file != NULL && fscanf(file, "%*s %zu", &pages) == 1) {
        usage.bytes = pages * (size_t)sysconf(_SC_PAGESIZE);
    }
    if (file != NULL) {
        fclose(file);
    }
    return usage;
}
