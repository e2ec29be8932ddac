/* See synthetic.h. */
#include "bench/mf/synthetic.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SYNTHETIC_FACTORS = 4,
    SYNTHETIC_STRIDE = 7919 /* a prime: spreads popular items over the keys */
};

static double uniform(uint64_t bits) {
    return (double)(bits >> 11) * 0x1p-53;
}

/* Returns the item whose share of the cumulated popularity contains `at`. */
static uint32_t item_at(const double *cumulated, uint32_t items, double at) {
    uint32_t low = 0;
    uint32_t high = items - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (cumulated[middle] < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Returns half stars from 0.5 to 5: the value by the hidden factors of user and item, plus some noise. */
static double rating_value(uint32_t user, uint32_t item, uint64_t noise) {
    double value = 3;
    for (unsigned f = 0; f < SYNTHETIC_FACTORS; f++) {
        double p = uniform(hash_mix((UINT64_C(1) << 40) + (uint64_t)user * SYNTHETIC_FACTORS + f)) - 0.5;
        double q = uniform(hash_mix((UINT64_C(1) << 41) + (uint64_t)item * SYNTHETIC_FACTORS + f)) - 0.5;
        value += 6 * p * q;
    }
    value = round(2 * (value + uniform(noise) - 0.5)) / 2;
    return fmin(fmax(value, 0.5), 5);
}

void synthetic_write(FILE *stream, uint32_t users, uint32_t items, uint64_t ratings) {
    double *cumulated = memory_zeroed(items, sizeof *cumulated);
    double sum = 0;
    for (uint32_t i = 0; i < items; i++) {
        sum += 1 / ((double)i + 1);
        cumulated[i] = sum;
    }
    uint64_t written = 0;
    for (uint32_t user = 0; user < users; user++) {
        uint64_t until = ratings * (user + UINT64_C(1)) / users; /* about equally many for each user */
        for (; written < until; written++) {
            uint64_t random = hash_mix(written);
            uint32_t rank = item_at(cumulated, items, uniform(random) * sum);
            uint32_t item = (uint32_t)((uint64_t)rank * SYNTHETIC_STRIDE % items);
            fprintf(stream, "%u\t%u\t%.1f\n", user, item, rating_value(user, item, hash_mix(random)));
        }
    }
    free(cumulated);
}

int synthetic_ratings(uint32_t users, uint32_t items, uint64_t ratings, int *file, char path[SYNTHETIC_PATH_MAX],
                      struct error *error) {
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    *file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*file < 0) {
        return error_set(error, AML_EFAIL, "%s: can't create a temporary file: %s", folder, strerror(errno));
    }
    int copy = fcntl(*file, F_DUPFD_CLOEXEC, 0);
    FILE *stream = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (stream == NULL) {
        return error_set(error, AML_EFAIL, "can't write a temporary file: %s", strerror(errno));
    }
    synthetic_write(stream, users, items, ratings);
    bool failed = ferror(stream) != 0;
    failed = fclose(stream) != 0 || failed;
    if (failed) {
        return error_set(error, AML_EFAIL, "%s: can't write %llu ratings: %s", folder, (unsigned long long)ratings,
                         strerror(errno));
    }
    snprintf(path, SYNTHETIC_PATH_MAX, "/proc/%d/fd/%d", (int)getpid(), *file);
    return 0;
}
