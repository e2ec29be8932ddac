/* bench_params: compares reading rows by key (aml_read_param and its kin) with several threads and with one, in turns.
 * Runs the app skipgram in real jobs of one node. */
#include "agileml/base/error.h"
#include "bench/trial.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const APP = "skipgram";

/* The rates that are compared. First rows read for the first time, then pairs: in the app's clock alone, and in whole
 * iterations. */
enum subject { SEEN_ALONE, SEEN_BATCHED, ALONE, BATCHED, ITERATION, SUBJECTS };
static const char *const SUBJECT_NAMES[SUBJECTS] = {"first seen, one a call", "first seen, 1000 a call",
                                                    "skip-gram, one a call", "skip-gram, 30 a call",
                                                    "whole iterations"};

struct bench {
    int64_t threads, rounds, passes, words, width, windows, alone;
    bool quick;
    char programs[PATH_MAX], app[PATH_MAX];
};

/* Thousands of rows or pairs per second of all threads, and per CPU-second. Rows that are read for the first time are
 * fetched by other threads, so that for them both rates are by wall time. */
struct rates {
    double wall[SUBJECTS], cpu[SUBJECTS];
};

struct results {
    struct series wall[SUBJECTS], cpu[SUBJECTS];
};

enum { SECONDS, CPU_SECONDS, PAIRS, SEEN_ALONE_US, SEEN_BATCHED_US, NUMBERS };

/* Computes medians over iterations `first`, `first` + 2, ... to the job's last. */
static void find_rates(const struct trial_number numbers[NUMBERS], enum subject subject, size_t first, double threads,
                       struct rates *rates) {
    struct series wall = {0};
    struct series cpu = {0};
    for (size_t i = first; i < numbers[PAIRS].values.count; i += 2) {
        double pairs = numbers[PAIRS].values.values[i] / 1e3;
        series_add(&wall, pairs / numbers[SECONDS].values.values[i]);
        series_add(&cpu, pairs / numbers[CPU_SECONDS].values.values[i] / threads);
    }
    rates->wall[subject] = series_median(&wall);
    rates->cpu[subject] = series_median(&cpu);
    series_close(&wall);
    series_close(&cpu);
}

static int run_job(const struct bench *bench, unsigned threads, struct rates *rates, struct error *error) {
    struct bench_trial trial;
    struct series wall = {0};
    struct series cpu = {0};
    double objective;
    struct trial_number numbers[NUMBERS] = {[SECONDS] = {.name = "thread_seconds"},
                                            [CPU_SECONDS] = {.name = "thread_cpu_seconds"},
                                            [PAIRS] = {.name = "pairs"},
                                            [SEEN_ALONE_US] = {.name = "seen_alone_us"},
                                            [SEEN_BATCHED_US] = {.name = "seen_batched_us"}};
    trial_open(&trial, bench->programs, threads, 8, bench->app, 2 * (unsigned)bench->passes);
    trial.numbers = numbers;
    trial.number_count = NUMBERS;
    trial_argument(&trial, "--words=%lld", (long long)bench->words);
    trial_argument(&trial, "--width=%lld", (long long)bench->width);
    trial_argument(&trial, "--windows=%lld", (long long)bench->windows);
    trial_argument(&trial, "--alone=%lld", (long long)bench->alone);
    int result = trial_run(&trial, &wall, &cpu, &objective, error);
    if (result == 0) {
        rates->wall[SEEN_ALONE] = rates->cpu[SEEN_ALONE] = 1e3 * threads / numbers[SEEN_ALONE_US].values.values[0];
        rates->wall[SEEN_BATCHED] = rates->cpu[SEEN_BATCHED] =
            1e3 * threads / numbers[SEEN_BATCHED_US].values.values[0];
        find_rates(numbers, ALONE, 1, threads, rates);
        find_rates(numbers, BATCHED, 2, threads, rates);
        double pairs = series_median(&numbers[PAIRS].values) / 1e3;
        rates->wall[ITERATION] = pairs / series_mean(&wall);
        rates->cpu[ITERATION] = pairs / series_mean(&cpu);
    }
    for (unsigned n = 0; n < NUMBERS; n++) {
        series_close(&numbers[n].values);
    }
    series_close(&wall);
    series_close(&cpu);
    trial_close(&trial);
    return result;
}

static void add_rates(struct results *results, const struct rates *rates, const struct rates *by) {
    for (unsigned s = 0; s < SUBJECTS; s++) {
        series_add(&results->wall[s], rates->wall[s] / (by != NULL ? by->wall[s] : 1));
        series_add(&results->cpu[s], rates->cpu[s] / (by != NULL ? by->cpu[s] : 1));
    }
}

static int compare(const struct bench *bench, struct results *one, struct results *several, struct results *ratios,
                   struct error *error) {
    int result = 0;
    for (int64_t round = 0; round < bench->rounds && result == 0; round++) {
        struct rates rates[2] = {0};
        result = run_job(bench, 1, &rates[0], error);
        result = result != 0 ? result : run_job(bench, (unsigned)bench->threads, &rates[1], error);
        if (result == 0) {
            add_rates(one, &rates[0], NULL);
            add_rates(several, &rates[1], NULL);
            add_rates(ratios, &rates[1], &rates[0]);
        }
    }
    return result;
}

static void print_results(const struct bench *bench, const struct results *one, const struct results *several,
                          const struct results *ratios) {
    printf("%lld words of %lld floats; %lld threads by 1, medians of %lld turns; thousand rows or pairs a second\n",
           (long long)bench->words, (long long)bench->width, (long long)bench->threads, (long long)bench->rounds);
    printf("                          1 thread   threads    ratio   CPU-r.\n");
    for (unsigned s = 0; s < SUBJECTS; s++) {
        printf("%-24s %9.1f %9.1f   %6.2f", SUBJECT_NAMES[s], series_median(&one->wall[s]),
               series_median(&several->wall[s]), series_median(&ratios->wall[s]));
        if (s >= ALONE) {
            printf("   %6.2f", series_median(&ratios->cpu[s]) * (double)bench->threads);
        }
        printf("\n");
    }
}

static void close_results(struct results *results) {
    for (unsigned s = 0; s < SUBJECTS; s++) {
        series_close(&results->wall[s]);
        series_close(&results->cpu[s]);
    }
}

/* Looks for the app beside this program. */
static bool find_programs(struct bench *bench) {
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(program, '/');
    int written =
        snprintf(bench->app, sizeof bench->app, "%.*s/%s", slash != NULL ? (int)(slash - program) : 0, program, APP);
    return written < (int)sizeof bench->app && access(bench->app, X_OK) == 0 &&
           trial_find_programs("proteus", bench->programs, sizeof bench->programs);
}

static const char SUMMARY[] =
    "bench_params: rows by key, several threads and one, in turns.\n"
    "The app skipgram trains on made-up text; a window reads and updates 31 rows by key. Lines:\n"
    "  first seen, N a call  thousand rows a second that the process reads for the first time\n"
    "  skip-gram, N a call   thousand pairs of words a second in the app's clock\n"
    "  whole iterations      the same with the exchange and the CPU time of all processes\n"
    "ratio: the rate of several threads by that of one, by wall time (aim 1.7 for two). CPU-r.: the same by CPU\n"
    "time, as if each thread had a core for itself; only this tells about locks where other programs use the\n"
    "cores.";

int main(int argc, char **argv) {
    struct bench bench = {
        .threads = 2, .rounds = 5, .passes = 3, .words = 100000, .width = 100, .windows = 60000, .alone = 2000};
    const struct aml_option options[] = {
        {"threads", "N", AML_OPTION_INTEGER, &bench.threads, 2, 128, "compared with one"},
        {"rounds", "N", AML_OPTION_INTEGER, &bench.rounds, 1, 1000, "turns: a job of one thread, one of several"},
        {"passes", "N", AML_OPTION_INTEGER, &bench.passes, 1, 1000, "iterations of a job, one a call and many a call"},
        {"words", "N", AML_OPTION_INTEGER, &bench.words, 1, 1 << 24, "rows, used by Zipf's law"},
        {"width", "N", AML_OPTION_INTEGER, &bench.width, 1, 1024, "floats of a row"},
        {"windows", "N", AML_OPTION_INTEGER, &bench.windows, 1, 1 << 28,
         "of an iteration: 5 pairs, 62 reads and updates"},
        {"alone", "N", AML_OPTION_INTEGER, &bench.alone, 1, 1 << 24, "rows that are first seen one a call"},
        {"quick", NULL, AML_OPTION_FLAG, &bench.quick, 0, 0, "one small turn: does it run at all"},
        {0},
    };
    struct error error = {0};
    struct results one = {0};
    struct results several = {0};
    struct results ratios = {0};
    int status = measure_options(options, SUMMARY, argc, argv);
    if (status >= 0) {
        return status;
    }
    if (!find_programs(&bench)) {
        printf(
            "skipped: there is no proteus in %s, or no %s; build them, or set PROTEUS_BIN to the folder of proteus\n",
            bench.programs, bench.app);
        return 0;
    }
    if (bench.quick) {
        bench.rounds = bench.passes = 1;
        bench.words = 1000;
        bench.windows = 1000;
        bench.alone = 100;
    }
    measure_print_machine();
    int result = compare(&bench, &one, &several, &ratios, &error);
    if (result == 0) {
        print_results(&bench, &one, &several, &ratios);
    } else {
        fprintf(stderr, "%s\n", error.text);
    }
    close_results(&one);
    close_results(&several);
    close_results(&ratios);
    return result == 0 ? 0 : error_exit_status(result);
}
