/* What the generators of seed corpora share: writing one seed to a file of its own. */
#ifndef TESTS_FUZZ_CORPUS_H
#define TESTS_FUZZ_CORPUS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Writes FOLDER/NAME; false when it can't. */
static inline bool corpus_write(const char *folder, const char *name, const void *seed, size_t size) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
        return false;
    }
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return false;
    }
    bool written = fwrite(seed, 1, size, file) == size;
    return fclose(file) == 0 && written;
}

#endif
