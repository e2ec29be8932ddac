/* The common part of the seed generators: writing a seed to its own file, and a main for seeds that are texts. */
#ifndef TESTS_FUZZ_CORPUS_H
#define TESTS_FUZZ_CORPUS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Writes the file FOLDER/NAME. Returns false on failure. */
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

/* The main function of the generator `program`: writes each text, without its final 0, into the folder that is the only
 * argument. Returns the exit status. */
static inline int corpus_main(const char *program, int argc, char **argv, const char *const *seeds, size_t count) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", program);
        return 2;
    }
    for (size_t i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "seed-%02zu", i);
        if (!corpus_write(argv[1], name, seeds[i], strlen(seeds[i]))) {
            fprintf(stderr, "%s: cannot write %s into %s\n", program, name, argv[1]);
            return 1;
        }
    }
    return 0;
}

#endif
