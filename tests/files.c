#include "tests/files.h"
#include "tests/test.h"

#include <dirent.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATHS_MAX = 64, TEXT_STEP = 1 << 20 };

static char folder[64];
static char before[PATH_MAX]; /* the folder before files_open */
static char *paths[PATHS_MAX];

/* Sets a variable that ctest would set, for programs that are run by hand in the source folder. */
static void set_place(const char *name, const char *path) {
    FREED char *whole = realpath(path, NULL);
    if (whole != NULL) {
        setenv(name, whole, 0);
    }
}

int files_open(void **state) {
    set_place("PROTEUS_BIN", "build/bin");
    set_place("PROTEUS_SOURCE", ".");
    strcpy(folder, "/tmp/proteus-test.XXXXXX");
    return getcwd(before, sizeof before) == NULL || mkdtemp(folder) == NULL || chdir(folder) != 0 ? -1 : 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk) {
    return remove(path);
}

int files_close(void **state) {
    for (unsigned p = 0; p < PATHS_MAX; p++) {
        free(paths[p]);
        paths[p] = NULL;
    }
    return chdir(before) != 0 || nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0 ? -1 : 0;
}

int files_close_one(void **state) {
    bool clean = files_in(folder) <= 1;
    return files_close(state) == 0 && clean ? 0 : -1;
}

const char *in_folder(const char *name) {
    char path[PATH_MAX];
    unsigned p = 0;
    snprintf(path, sizeof path, "%s%s%s", folder, name[0] != '\0' ? "/" : "", name);
    while (paths[p] != NULL && strcmp(paths[p], path) != 0) {
        assert_true(++p < PATHS_MAX);
    }
    if (paths[p] == NULL) {
        paths[p] = strdup(path);
    }
    return paths[p];
}

FILE *open_file(const char *name, const char *mode) {
    FILE *file = fopen(name, mode);
    assert_non_null(file);
    return file;
}

char *read_text(const char *name) {
    char *text = NULL;
    size_t size = 0;
    size_t got = 0;
    FILE *file = fopen(name, "re");
    do {
        size += got;
        text = realloc(text, size + TEXT_STEP + 1);
        assert_non_null(text);
        got = file != NULL ? fread(text + size, 1, TEXT_STEP, file) : 0;
    } while (got > 0);
    if (file != NULL) {
        fclose(file);
    }
    text[size] = '\0';
    return text;
}

size_t read_bytes(const char *name, void *bytes, size_t capacity) {
    FILE *file = open_file(name, "re");
    size_t size = fread(bytes, 1, capacity, file);
    assert_true(size < capacity);
    assert_int_equal(fclose(file), 0);
    return size;
}

const char *write_text(const char *name, const char *text) {
    return write_bytes(name, text, strlen(text));
}

const char *write_bytes(const char *name, const void *bytes, size_t size) {
    char above[PATH_MAX];
    for (const char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(above, sizeof above, "%.*s", (int)(slash - name), name);
        (void)mkdir(above, 0700);
    }
    FILE *file = open_file(name, "we");
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return name;
}

unsigned files_in(const char *path) {
    unsigned count = 0;
    DIR *entries = opendir(path);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 ? 1 : 0;
    }
    closedir(entries);
    return count;
}

void assert_file(const char *name, const char *expected) {
    FREED char *text = read_text(name);
    assert_string_equal(text, expected);
}

void assert_text(const char *name, const char *expected) {
    FREED char *text = read_text(name);
    if (strstr(text, expected) == NULL) {
        fail_msg("'%s' has no '%s': %s", name, expected, text);
    }
}

void assert_no_text(const char *name, const char *unexpected) {
    FREED char *text = read_text(name);
    if (strstr(text, unexpected) != NULL) {
        fail_msg("'%s' has '%s': %s", name, unexpected, text);
    }
}
