/* See list.h. */
#include "agileml/input/list.h"

#include "agileml/base/folder.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_input.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- One file ---- */

static int add_identified(struct input_list *list, const char *path, const struct source_identity *identity,
                          struct error *error) {
    if (list->count == INPUT_FILES_MAX) {
        return error_set(error, AML_ELIMIT, "%s: expected at most %d input files", text_input_name(path),
                         INPUT_FILES_MAX);
    }
    if (list->count == list->capacity) {
        list->capacity = 2 * list->capacity + 16;
        list->names = memory_resized(list->names, list->capacity, sizeof *list->names);
    }
    list->names[list->count++] = (struct input_name){.path = memory_string(path), .identity = *identity};
    return 0;
}

static int add_file(struct input_list *list, const char *path, struct error *error) {
    struct source_identity identity;
    int code = source_identify(path, &identity, error);
    if (code == 0 && source_scheme_of(path) == &source_files && access(path, R_OK) != 0) {
        return error_set(error, AML_EINPUT, "%s: cannot open: %s", text_input_name(path), strerror(errno));
    }
    return code == 0 ? add_identified(list, path, &identity, error) : code;
}

/* ---- Duplicate files ---- */

/* Returns the key by which duplicates are found. For a local file it is the inode and time of change, so that other
 * names of the file are found. For other sources it is the path, as several objects may have the same version. */
static const char *key_of(const struct input_name *name) {
    bool local = source_scheme_of(name->path) == &source_files && name->identity.version[0] != '\0';
    return local ? name->identity.version : name->path;
}

static int key_order(const void *a, const void *b) {
    const struct input_name *const *left = a;
    const struct input_name *const *right = b;
    int order = strcmp(key_of(*left), key_of(*right));
    return order != 0 ? order : (*left > *right) - (*left < *right);
}

static int check_distinct(const struct input_list *list, struct error *error) {
    const struct input_name **sorted = memory_zeroed(list->count + 1, sizeof(struct input_name *));
    int code = 0;
    for (size_t n = 0; n < list->count; n++) {
        sorted[n] = &list->names[n];
    }
    qsort(sorted, list->count, sizeof(struct input_name *), key_order);
    for (size_t n = 1; n < list->count && code == 0; n++) {
        const char *path = sorted[n]->path;
        const char *other = sorted[n - 1]->path;
        if (strcmp(key_of(sorted[n]), key_of(sorted[n - 1])) == 0) {
            code = strcmp(path, other) == 0
                       ? error_set(error, AML_EINPUT, "%s: named twice: expected each file once", text_input_name(path))
                       : error_set(error, AML_EINPUT, "%.200s and %.200s: the same file: expected each file once",
                                   other, path);
        }
    }
    free(sorted);
    return code;
}

/* ---- Folders and globs ---- */

static bool is_index(const char *name) {
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".gzi") == 0;
}

/* Adds a file of a folder or a glob: a regular one. */
static int add_member(struct input_list *list, const char *path, struct error *error) {
    struct stat status;
    if (is_index(path)) {
        return 0;
    }
    if (stat(path, &status) != 0) {
        return error_set(error, AML_EINPUT, "%s: cannot open: %s", text_input_name(path), strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return error_set(error, AML_EINPUT, "%s: %s: expected files alone", text_input_name(path),
                         S_ISDIR(status.st_mode) ? "a folder within the input" : "no regular file");
    }
    return add_file(list, path, error);
}

static int add_folder(struct input_list *list, const char *folder, struct error *error) {
    struct dirent **entries;
    size_t before = list->count;
    size_t length = strlen(folder);
    int count = folder_list(folder, &entries);
    if (count < 0) {
        return error_set(error, AML_EINPUT, "%s: cannot open: %s", text_input_name(folder), strerror(errno));
    }
    int code = 0;
    for (int e = 0; e < count; e++) {
        char path[PATH_MAX];
        const char *slash = folder[length - 1] == '/' ? "" : "/";
        if (code == 0 && snprintf(path, sizeof path, "%s%s%s", folder, slash, entries[e]->d_name) >= (int)sizeof path) {
            code = error_set(error, AML_EINPUT, "%s: %s", text_input_name(path), strerror(ENAMETOOLONG));
        }
        code = code == 0 ? add_member(list, path, error) : code;
        free(entries[e]);
    }
    free(entries);
    return code == 0 && list->count == before
               ? error_set(error, AML_EINPUT, "%s: a folder without files: expected data in it",
                           text_input_name(folder))
               : code;
}

static int path_order(const void *a, const void *b) {
    const char *const *left = a;
    const char *const *right = b;
    return strcmp(*left, *right);
}

/* Called by glob for a folder that can't be read: ends the glob, unless the folder doesn't exist. */
static int must_be_read(const char *path, int failure) {
    (void)path;
    return failure != ENOENT && failure != ENOTDIR;
}

/* Adds the matches of a glob. Sets *matched. */
static int add_glob(struct input_list *list, const char *pattern, bool *matched, struct error *error) {
    glob_t found = {0};
    size_t before = list->count;
    int code = 0;
    int status = glob(pattern, GLOB_NOSORT, must_be_read, &found);
    if (status != 0 && status != GLOB_NOMATCH) {
        code = error_set(error, status == GLOB_NOSPACE ? AML_ENOMEM : AML_EINPUT, "%s: %s", text_input_name(pattern),
                         status == GLOB_NOSPACE ? "out of memory" : "a folder can't be read");
    }
    if (status == 0) {
        qsort(found.gl_pathv, found.gl_pathc, sizeof(char *), path_order);
        for (size_t p = 0; p < found.gl_pathc && code == 0; p++) {
            code = add_member(list, found.gl_pathv[p], error);
        }
        globfree(&found);
    }
    *matched = code != 0 || list->count > before;
    return code;
}

/* ---- Values ---- */

static bool has_glob(const char *name) {
    return strpbrk(name, "*?[") != NULL;
}

static bool is_address(const char *name) {
    return source_scheme_of(name) != &source_files;
}

static int found_object(void *context, const char *path, const struct source_identity *identity, struct error *error) {
    return add_identified(context, path, identity, error);
}

/* If the list has an object with exactly this name among those added since `before`, keeps only that object. */
static void keep_exact(struct input_list *list, size_t before, const char *address) {
    size_t exact = before;
    while (exact < list->count && strcmp(list->names[exact].path, address) != 0) {
        exact++;
    }
    if (exact == list->count) {
        return;
    }
    struct input_name kept = list->names[exact];
    list->names[exact] = list->names[before];
    list->names[before] = kept;
    while (list->count > before + 1) {
        free(list->names[--list->count].path);
    }
}

static int add_address(struct input_list *list, const char *address, struct error *error) {
    const struct source_scheme *scheme = source_scheme_of(address);
    size_t before = list->count;
    struct error refused = {0};
    struct error none = {0};
    bool folder = address[strlen(address) - 1] == '/';
    if (scheme == NULL || scheme->list == NULL || (!has_glob(address) && !folder)) {
        return add_file(list, address, error);
    }
    int code = scheme->list(address, found_object, list, &refused);
    if (code != 0) { /* without the right to list objects, the named object may still be readable */
        bool named = !folder && list->count == before && add_file(list, address, &none) == 0;
        return named ? 0 : error_set(error, code, "%s", refused.text);
    }
    keep_exact(list, before, address);
    return list->count == before
               ? error_set(error, AML_EINPUT, "%s: nothing there that matches: expected data", text_input_name(address))
               : code;
}

/* Adds what one name stands for. Sets *found to whether it stands for anything. */
static int add_name(struct input_list *list, const char *name, bool *found, struct error *error) {
    struct stat status;
    *found = true;
    if (is_address(name)) {
        return add_address(list, name, error);
    }
    if (stat(name, &status) == 0) {
        return S_ISDIR(status.st_mode) ? add_folder(list, name, error) : add_file(list, name, error);
    }
    *found = false;
    return has_glob(name) ? add_glob(list, name, found, error) : 0;
}

static int add_found(struct input_list *list, const char *name, struct error *error) {
    bool found;
    if (name[0] == '\0') {
        return error_set(error, AML_EINPUT, "an empty name: expected a file, a folder or a pattern");
    }
    int code = add_name(list, name, &found, error);
    if (code != 0 || found) {
        return code;
    }
    return has_glob(name) ? error_set(error, AML_EINPUT, "%s: no file matches: expected data", text_input_name(name))
                          : add_file(list, name, error); /* reports why there is nothing */
}

/* Returns the comma that ends the value's first name, or NULL. */
static char *name_end(char *value) {
    char *comma = strchr(value, ',');
    while (comma != NULL && is_address(value) && !is_address(comma + 1)) {
        comma = strchr(comma + 1, ',');
    }
    return comma;
}

static int add_separated(struct input_list *list, const char *value, struct error *error) {
    char *copy = memory_string(value);
    char *name = copy;
    int code = 0;
    for (char *comma = name_end(name); comma != NULL && code == 0; comma = name_end(name)) {
        *comma = '\0';
        code = add_found(list, name, error);
        name = comma + 1;
    }
    code = code == 0 ? add_found(list, name, error) : code;
    free(copy);
    return code;
}

int input_list_add(struct input_list *list, const char *value, struct error *error) {
    bool found = false;
    int code = 0;
    if (value[0] != '\0' && !is_address(value)) {
        code = add_name(list, value, &found, error);
    }
    code = code == 0 && !found ? add_separated(list, value, error) : code;
    return code == 0 ? check_distinct(list, error) : code;
}

void input_list_drop_empty(struct input_list *list) {
    size_t kept = 0;
    bool any = false;
    for (size_t n = 0; n < list->count; n++) {
        any = any || list->names[n].identity.bytes > 0;
    }
    for (size_t n = 0; n < list->count && any; n++) {
        if (list->names[n].identity.bytes > 0) {
            list->names[kept++] = list->names[n];
        } else {
            free(list->names[n].path);
        }
    }
    list->count = any ? kept : list->count;
}

void input_list_close(struct input_list *list) {
    for (size_t n = 0; n < list->count; n++) {
        free(list->names[n].path);
    }
    free(list->names);
    *list = (struct input_list){0};
}
