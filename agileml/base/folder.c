/* See folder.h. */
#include "agileml/base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct walk {
    bool (*wanted)(const char *name);
    int (*visit)(void *context, const char *path, struct error *error);
    void *context;
    struct error *error;
};

static int name_is_shown(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static int name_order(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

int folder_list(const char *path, struct dirent ***entries) {
    return scandir(path, entries, name_is_shown, name_order);
}

static int walk_path(const struct walk *walk, const char *path, int depth);

static int walk_entry(const struct walk *walk, const char *folder, const char *name, int depth) {
    char path[PATH_MAX];
    struct stat status;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
        return error_set(walk->error, AML_EINPUT, "%.200s...: %s", path, strerror(ENAMETOOLONG));
    }
    bool taken = stat(path, &status) == 0 && (S_ISDIR(status.st_mode) || walk->wanted(name));
    return taken ? walk_path(walk, path, depth + 1) : 0;
}

static int walk_path(const struct walk *walk, const char *path, int depth) {
    struct dirent **entries;
    struct stat status;
    if (stat(path, &status) != 0) {
        return error_set(walk->error, AML_EINPUT, "%s: %s", path, strerror(errno));
    }
    if (!S_ISDIR(status.st_mode)) {
        return walk->visit(walk->context, path, walk->error);
    }
    if (depth > FOLDER_DEEPEST) {
        return error_set(walk->error, AML_EINPUT, "%s: folders nested more than %d deep", path, FOLDER_DEEPEST);
    }
    int count = folder_list(path, &entries);
    if (count < 0) {
        return error_set(walk->error, AML_EINPUT, "%s: %s", path, strerror(errno));
    }
    int code = 0;
    for (int i = 0; i < count; i++) {
        code = code != 0 ? code : walk_entry(walk, path, entries[i]->d_name, depth);
        free(entries[i]);
    }
    free(entries);
    return code;
}

int folder_walk(const char *path, bool (*wanted)(const char *name),
                int (*visit)(void *context, const char *path, struct error *error), void *context,
                struct error *error) {
    struct walk walk = {.wanted = wanted, .visit = visit, .context = context, .error = error};
    return walk_path(&walk, path, 0);
}
