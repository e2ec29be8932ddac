/* bench_mf: measures what AgileML's layers cost. Compares matrix factorization in plain threads on arrays with AgileML
 * in one process. Both run in turns, on the same ratings with the same kernel. Also reports the machine's memory
 * bandwidth. */
#include "bench/bandwidth.h"
#include "bench/mf/plain.h"
#include "bench/mf/synthetic.h"
#include "bench/trial.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double ENOUGH = 6e7; /* ratings to train on */

enum {
    RANKS_MAX = 16,
    FLOPS_PER_FACTOR = 8 /* per rating: 2 for p . q, 3 for the step of each of the two rows (kernel.h) */
};

static const char *const MOVIELENS = "../shared/data/ratings-ml-1m/ratings.tsv.gz";

struct bench {
    int64_t threads, passes, rounds, partitions;
    const char *ranks_text, *data;
    const char *set; /* name of the present data */
    bool quick, biases;
    unsigned ranks[RANKS_MAX];
    unsigned rank_count;
    char folder[PATH_MAX];
};

/* The contenders. By its own choice of clocks the app exchanges updates several times in a pass. With one clock it does
 * exactly the steps of the plain threads, in the same order. */
enum contender { PLAIN, AGILE_ONE_CLOCK, AGILE, CONTENDERS };
static const char *const CONTENDER_NAMES[CONTENDERS] = {"plain", "AgileML, 1 clock", "AgileML"};

/* Times of a contender's passes. */
struct result {
    struct series wall, cpu;
    double objective;
};

static void result_add(struct result *result, const struct result *more) {
    for (size_t i = 0; i < more->wall.count; i++) {
        series_add(&result->wall, more->wall.values[i]);
        series_add(&result->cpu, more->cpu.values[i]);
    }
    result->objective = more->objective;
}

static void result_close(struct result *result) {
    series_close(&result->wall);
    series_close(&result->cpu);
}

static int parse_ranks(struct bench *bench, struct error *error) {
    const char *text = bench->ranks_text;
    do {
        char *end;
        long rank = strtol(text, &end, 10);
        if (end == text || rank < 1 || rank > MF_RANK_MAX || (*end != ',' && *end != '\0') ||
            bench->rank_count == RANKS_MAX) {
            return error_set(error, AML_EINPUT,
                             "--ranks: expected up to %d numbers of 1 to %d with commas, got '%.100s'", RANKS_MAX,
                             MF_RANK_MAX, bench->ranks_text);
        }
        bench->ranks[bench->rank_count++] = (unsigned)rank;
        text = *end == ',' ? end + 1 : NULL;
    } while (text != NULL);
    return 0;
}

static void print_bandwidth(unsigned threads) {
    const struct {
        const char *name;
        size_t bytes;
    } sizes[] = {{"memory", (size_t)384 << 20}, {"third level", (size_t)12 << 20}, {"second level", (size_t)384 << 10}};
    printf("bandwidth (triad, %u threads):", threads);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t bytes = s < 2 ? sizes[s].bytes : sizes[s].bytes * threads; /* each core has its own second-level cache */
        printf("%s %s %.1f GB/s", s > 0 ? "," : "", sizes[s].name, bandwidth_triad(bytes, threads) / 1e9);
    }
    printf("\n");
}

static void print_result(const char *data, const char *name, unsigned rank, const struct plain *plain,
                         const struct result *result, double ratio, double cpu_ratio) {
    double ratings = (double)plain->ratings.count;
    double seconds = series_median(&result->wall);
    double cpu_seconds = series_mean(&result->cpu);        /* see trial_passes: only the mean is accurate */
    double row_bytes = 2 * (double)plain->sgd.item_stride; /* each row is read and written */
    double bytes = ratings * (row_bytes + (double)sizeof(struct mf_item)) + plain->runs * row_bytes;
    printf("%5u  %-16s  %7.2f  %7.2f  %6.2f  %6.2f  %8.2f  %7.2f  %9.5f\n", rank, name, ratings / seconds / 1e6,
           ratings / cpu_seconds / 1e6, ratio, cpu_ratio, FLOPS_PER_FACTOR * rank * ratings / seconds / 1e9,
           bytes / seconds / 1e9, result->objective);
    const struct measured measured = {"mf", name, "ratings", ratings / seconds, ratio, cpu_ratio};
    measure_record(&measured, "%s, rank %u", data, rank);
}

static int plain_round(const struct bench *bench, struct plain *plain, unsigned rank, struct result *result,
                       struct error *error) {
    int failed = plain_begin(plain, rank, bench->biases, error);
    for (unsigned pass = 0; pass <= bench->passes && failed == 0; pass++) {
        double start = measure_wall();
        double cpu_start = measure_own_cpu();
        result->objective = plain_pass(plain, pass + 1);
        if (pass > 0) {
            series_add(&result->wall, measure_wall() - start);
            series_add(&result->cpu, measure_own_cpu() - cpu_start);
        }
    }
    return failed;
}

/* Runs a contender once and adds its times to `result`. */
static int contender_round(const struct bench *bench, struct plain *plain, const char *path, unsigned rank,
                           enum contender contender, struct result *result, struct error *error) {
    if (contender == PLAIN) {
        return plain_round(bench, plain, rank, result, error);
    }
    struct bench_trial trial;
    trial_open(&trial, bench->folder, (unsigned)bench->threads, (unsigned)bench->partitions, "mf",
               (unsigned)bench->passes);
    trial_argument(&trial, "--data=%s", path);
    trial_argument(&trial, "--rank=%u", rank);
    trial_argument(&trial, "--seed=%d", PLAIN_SEED);
    trial_argument(&trial, "--rate=%.17g", PLAIN_RATE);
    trial_argument(&trial, "--decay=%.17g", PLAIN_DECAY);
    trial_argument(&trial, "--lambda=%.17g", PLAIN_LAMBDA);
    trial_argument(&trial, "--lambda-bias=%.17g", PLAIN_LAMBDA_BIAS);
    trial_argument(&trial, "--bias-prior=%d", PLAIN_BIAS_PRIOR);
    trial_argument(&trial, "--clip=%d", PLAIN_CLIP);
    trial_argument(&trial, "--clocks-per-iteration=%u", contender == AGILE_ONE_CLOCK ? 1U : 0U);
    if (!bench->biases) {
        trial_argument(&trial, "--no-biases");
    }
    int failed = trial_run(&trial, &result->wall, &result->cpu, &result->objective, error);
    trial_close(&trial);
    return failed;
}

/* Runs all contenders in turns, `rounds` times. */
static int compare(const struct bench *bench, struct plain *plain, const char *path, unsigned rank,
                   struct error *error) {
    struct result results[CONTENDERS] = {0};
    struct series ratios[CONTENDERS] = {0};
    struct series cpu_ratios[CONTENDERS] = {0};
    int failed = 0;
    for (int64_t round = 0; round < bench->rounds && failed == 0; round++) {
        struct result turns[CONTENDERS] = {0};
        for (unsigned c = 0; c < CONTENDERS && failed == 0; c++) {
            failed = contender_round(bench, plain, path, rank, (enum contender)c, &turns[c], error);
            series_add(&ratios[c], series_median(&turns[PLAIN].wall) / series_median(&turns[c].wall));
            series_add(&cpu_ratios[c], series_mean(&turns[PLAIN].cpu) / series_mean(&turns[c].cpu));
        }
        for (unsigned c = 0; c < CONTENDERS; c++) {
            result_add(&results[c], &turns[c]);
            result_close(&turns[c]);
        }
    }
    for (unsigned c = 0; c < CONTENDERS; c++) {
        if (failed == 0) {
            print_result(bench->set, CONTENDER_NAMES[c], rank, plain, &results[c], series_median(&ratios[c]),
                         series_median(&cpu_ratios[c]));
        }
        result_close(&results[c]);
        series_close(&ratios[c]);
        series_close(&cpu_ratios[c]);
    }
    fflush(stdout);
    return failed;
}

static int run_data(const struct bench *bench, const char *name, const char *path, struct error *error) {
    struct plain plain;
    int result = plain_open(&plain, path, (unsigned)bench->threads, error);
    if (result == 0) {
        printf("\n%s: %zu ratings, %u users, %u items; %lld threads, rows of rank%s, kernel %s\n", name,
               plain.ratings.count, plain.cache.tables[0].count, plain.cache.tables[1].count, (long long)bench->threads,
               bench->biases ? " + 1 (biases)" : "", plain.kernel.name);
        printf(" rank                    M/s  M/CPU-s   ratio  CPU-r.   GFLOP/s     GB/s       RMSE\n");
    }
    struct bench sized = *bench;
    sized.set = name;
    sized.passes = trial_passes(bench->passes, (double)plain.ratings.count, ENOUGH);
    for (unsigned r = 0; r < bench->rank_count && result == 0; r++) {
        result = compare(&sized, &plain, path, bench->ranks[r], error);
    }
    plain_close(&plain);
    return result;
}

static int run_synthetic(const struct bench *bench, struct error *error) {
    int file = -1;
    char path[SYNTHETIC_PATH_MAX];
    int result = bench->quick ? synthetic_ratings(20000, 2000, 1000000, &file, path, error)
                              : synthetic_ratings(200000, 20000, 10000000, &file, path, error);
    if (result == 0) {
        result = run_data(bench, "synthetic", path, error);
    }
    if (file >= 0) {
        close(file);
    }
    return result;
}

static const char SUMMARY[] =
    "bench_mf: plain threads and AgileML, beside each other.\n"
    "Three contenders take the same steps with the same kernel on 10 million made-up ratings, then on MovieLens\n"
    "1M if it is in ../shared/data:\n"
    "  plain             threads on arrays in one process\n"
    "  AgileML, 1 clock  one node with one clock a pass; takes the steps of plain in its order, so the RMSE must\n"
    "                    be equal\n"
    "  AgileML           the same with the app's own number of clocks a pass\n"
    "Columns: million ratings per second (M/s) and per CPU-second of all the job's processes; their ratios to\n"
    "plain of the same turn (aim 0.9); GFLOP/s, 8 x rank operations a rating; GB/s that the kernel touches,\n"
    "mostly in caches; training RMSE after the last pass. The first lines give the bandwidth of memory and caches\n"
    "by STREAM's triad.";

int main(int argc, char **argv) {
    struct bench bench = {.threads = measure_processors(), .rounds = 3, .partitions = 8};
    bench.ranks_text = "16,64,128";
    const struct aml_option options[] = {
        {"threads", "N", AML_OPTION_INTEGER, &bench.threads, 1, POOL_THREADS_MAX, "worker threads of both"},
        {"ranks", "N,...", AML_OPTION_STRING, &bench.ranks_text, 0, 0, "factors of each user and item"},
        {"passes", "N", AML_OPTION_INTEGER, &bench.passes, 0, 1000, "passes measured; 0: by the data"},
        {"rounds", "N", AML_OPTION_INTEGER, &bench.rounds, 1, 1000, "turns of both"},
        {"partitions", "N", AML_OPTION_INTEGER, &bench.partitions, 1, 4096, "partitions of AgileML's tables"},
        {"data", "FILE", AML_OPTION_STRING, &bench.data, 0, 0, "these ratings, instead of the two sets"},
        {"biases", NULL, AML_OPTION_FLAG, &bench.biases, 0, 0, "with biases of users and items"},
        {"quick", NULL, AML_OPTION_FLAG, &bench.quick, 0, 0, "a small set, rank 16, one round: does it run at all"},
        {0},
    };
    struct error error = {0};
    int status = measure_options(options, SUMMARY, argc, argv);
    if (status >= 0) {
        return status;
    }
    if (bench.quick) {
        bench.ranks_text = "16";
        bench.passes = 2;
        bench.rounds = 1;
    }
    if (parse_ranks(&bench, &error) != 0) {
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    if (!trial_find_programs("mf", bench.folder, sizeof bench.folder)) {
        printf("skipped: there is no proteus and mf in %s; build them, or set PROTEUS_BIN to their folder\n",
               bench.folder);
        return 0;
    }
    measure_print_machine();
    if (!bench.quick) {
        print_bandwidth((unsigned)bench.threads);
    }
    int result;
    if (bench.data != NULL) {
        result = run_data(&bench, bench.data, bench.data, &error);
    } else {
        result = run_synthetic(&bench, &error);
        if (result == 0 && !bench.quick) {
            if (access(MOVIELENS, R_OK) == 0) {
                result = run_data(&bench, "ml-1m", MOVIELENS, &error);
            } else {
                printf("\nml-1m: skipped: no %s here\n", MOVIELENS);
            }
        }
    }
    if (result != 0) {
        fprintf(stderr, "%s\n", error.text);
    }
    return result == 0 ? 0 : error_exit_status(result);
}
