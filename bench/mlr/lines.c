/* sample_lines: writes made-up dense samples in one of the text formats to standard output, the same in each run. */
#include "agileml/base/hash.h"
#include "bench/measure.h"

#include <stdio.h>
#include <string.h>

enum { CLASSES = 5 };

/* Writes sample `number`: its label, then the features' values with up to 4 decimals. */
static void write_sample(uint64_t number, int64_t features, bool libsvm) {
    uint64_t random = hash_mix(number);
    printf("%u", (unsigned)(random % CLASSES));
    for (int64_t f = 0; f < features; f++) {
        random = hash_mix(random + (uint64_t)f);
        unsigned value = (unsigned)(random % 40000);
        char start[32] = ",";
        if (libsvm) {
            snprintf(start, sizeof start, " %lld:", (long long)f + 1);
        }
        printf("%s%u.%04u", start, value / 10000, value % 10000);
    }
    putchar('\n');
}

int main(int argc, char **argv) {
    int64_t lines = 1000000;
    int64_t features = 50;
    const char *format = "libsvm";
    const struct aml_option options[] = {
        {"lines", "N", AML_OPTION_INTEGER, &lines, 1, 1e15, "how many to write"},
        {"features", "N", AML_OPTION_INTEGER, &features, 1, 1e6, "of a sample"},
        {"format", "NAME", AML_OPTION_STRING, &format, 0, 0, "libsvm or csv"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    int status = measure_options(options, "sample_lines: made-up samples onto standard output", argc, argv);
    if (status >= 0) {
        return status;
    }
    bool libsvm = strcmp(format, "libsvm") == 0;
    if (!libsvm && strcmp(format, "csv") != 0) {
        fprintf(stderr, "sample_lines: --format: expected libsvm or csv, got '%s'\n", format);
        return 2;
    }
    for (int64_t n = 0; n < lines && !ferror(stdout); n++) {
        write_sample((uint64_t)n, features, libsvm);
    }
    return measure_written("sample_lines");
}
