/* What the benchmarks share: clocks, medians, and a line about the machine. Measures nothing by itself. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "agileml/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Seconds on a clock that never goes back. */
double measure_wall(void);
/* CPU-seconds used so far: of the calling thread, of this process (all threads), of another process. The last is
 * negative when there is no such process. */
double measure_thread_cpu(void);
double measure_own_cpu(void);
double measure_process_cpu(pid_t process);

/* Results of repeated runs. A zeroed struct is an empty one. */
struct series {
    double *values;
    size_t count;
};
void series_add(struct series *series, double value);
/* The median; NAN when empty. */
double series_median(const struct series *series);
double series_mean(const struct series *series); /* the mean; NAN when empty */
void series_clear(struct series *series);
void series_close(struct series *series);

/* Processors that this process may use. */
unsigned measure_processors(void);
/* Prints a line such as "2 x AMD EPYC, 32 MiB third-level cache" to standard output. */
void measure_print_machine(void);

/* What one contender achieved in one case, such as "ml-1m, rank 16". Ratios are relative to the simplest contender in
 * the same turn; NaN: not measured. */
struct measured {
    const char *benchmark, *by, *unit;
    double rate, ratio, cpu_ratio; /* rate: `unit` per second */
};
/* Adds `measured` as a line of JSON to the file $PROTEUS_BENCH_RECORD, for scripts/bench. Does nothing when it is not
 * set. */
__attribute__((format(printf, 2, 3))) void measure_record(const struct measured *measured, const char *format, ...);

/* Reads the command line of a benchmark. Returns -1 to go on, else the exit status: 0 after --help, 2 after an
 * error. */
int measure_options(const struct aml_option *options, const char *summary, int argc, char **argv);

/* Ends a program that writes its result to standard output. Returns the exit status: 0, or 1 after reporting that the
 * output could not be written. */
int measure_written(const char *program);

#endif
