/* See measure.h. */
#include "bench/measure.h"

#include "agileml/base/clock.h"
#include "agileml/base/memory.h"
#include "agileml/base/options.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

double measure_wall(void) {
    return clock_seconds(CLOCK_MONOTONIC);
}

double measure_thread_cpu(void) {
    return clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

double measure_own_cpu(void) {
    return clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

double measure_process_cpu(pid_t process) {
    clockid_t clock;
    return clock_getcpuclockid(process, &clock) == 0 ? clock_seconds(clock) : -1;
}

void series_add(struct series *series, double value) {
    series->values = memory_resized(series->values, series->count + 1, sizeof *series->values);
    series->values[series->count++] = value;
}

static int value_order(const void *a, const void *b) {
    double left = *(const double *)a;
    double right = *(const double *)b;
    return left < right ? -1 : left > right;
}

double series_median(const struct series *series) {
    if (series->count == 0) {
        return NAN;
    }
    double *sorted = memory_resized(NULL, series->count, sizeof *sorted);
    memcpy(sorted, series->values, series->count * sizeof *sorted);
    qsort(sorted, series->count, sizeof *sorted, value_order);
    size_t middle = series->count / 2;
    double median = series->count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    free(sorted);
    return median;
}

double series_mean(const struct series *series) {
    double sum = 0;
    for (size_t i = 0; i < series->count; i++) {
        sum += series->values[i];
    }
    return sum / (double)series->count;
}

void series_clear(struct series *series) {
    series->count = 0;
}

void series_close(struct series *series) {
    free(series->values);
    *series = (struct series){0};
}

unsigned measure_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

void measure_print_machine(void) {
    char model[128] = "unknown processor";
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) == 0 && colon != NULL) {
            snprintf(model, sizeof model, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    printf("machine: %u x %s, %ld MiB third-level cache\n", measure_processors(), model,
           sysconf(_SC_LEVEL3_CACHE_SIZE) >> 20);
}

static void add_number(FILE *file, const char *key, double value) {
    if (isfinite(value)) {
        fprintf(file, ",\"%s\":%.6g", key, value);
    } else {
        fprintf(file, ",\"%s\":null", key);
    }
}

void measure_record(const struct measured *measured, const char *format, ...) {
    const char *path = getenv("PROTEUS_BENCH_RECORD");
    FILE *file = path != NULL ? fopen(path, "ae") : NULL;
    if (file == NULL) {
        return; /* scripts/bench misses the line and reports it */
    }
    va_list arguments;
    va_start(arguments, format);
    fprintf(file, "{\"benchmark\":\"%s\",\"case\":\"", measured->benchmark);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fprintf(file, "\",\"by\":\"%s\",\"unit\":\"%s\"", measured->by, measured->unit);
    add_number(file, "rate", measured->rate);
    add_number(file, "ratio", measured->ratio);
    add_number(file, "cpu_ratio", measured->cpu_ratio);
    fputs("}\n", file);
    fclose(file);
}

int measure_options(const struct aml_option *options, const char *summary, int argc, char **argv) {
    struct error error = {0};
    int operand;
    int result = options_help(summary, &options, 1, argc, argv, &error);
    if (result == 1) {
        return 0;
    }
    result = result != 0 ? result : options_parse(&options, 1, argc, argv, &operand, &error);
    if (result == 0 && operand < argc) {
        result =
            error_set(&error, AML_EINPUT, "unexpected argument '%s': expected options only; see --help", argv[operand]);
    }
    if (result != 0) {
        fprintf(stderr, "%s\n", error.text);
        return error_exit_status(result);
    }
    return -1;
}

int measure_written(const char *program) {
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "%s: cannot write: %s\n", program, strerror(errno));
        return 1;
    }
    return 0;
}
