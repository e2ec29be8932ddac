/* bench_mf: what AgileML's layers cost. Matrix factorization by plain threads on arrays in one process, and by AgileML
 * with one process, in turns, on the same ratings with the same kernel; beside the machine's memory bandwidth. */
#include "bench/bandwidth.h"
#include "bench/mf/agile.h"
#include "bench/mf/plain.h"
#include "bench/mf/synthetic.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS_MAX = 16 };

static const char *const MOVIELENS = "../shared/data/ratings-ml-1m/ratings.tsv.gz";

struct bench {
    int64_t threads, passes, rounds, partitions;
    const char *ranks_text, *data;
    bool quick, biases;
    unsigned ranks[RANKS_MAX];
    unsigned rank_count;
    char folder[PATH_MAX];
};

/* What one of the two took for its passes. */
struct result {
    struct series wall, cpu;
    double objective;
};

static int parse_ranks(struct bench *bench, struct error *error) {
    const char *text = bench->ranks_text;
    do {
        char *end;
        long rank = strtol(text, &end, 10);
        if (end == text || rank < 1 || rank > MF_RANK_MAX || (*end != ',' && *end != '\0') ||
            bench->rank_count == RANKS_MAX) {
            return error_set(error, AML_EINPUT, "--ranks: expected up to %d numbers of 1 to %d with commas, got '%.100s'",
                             RANKS_MAX, MF_RANK_MAX, bench->ranks_text);
        }
        bench->ranks[bench->rank_count++] = (unsigned)rank;
        text = *end == ',' ? end + 1 : NULL;
    } while (text != NULL);
    return 0;
}

/* The programs lie in ../bin, seen from this one, or in $PROTEUS_BIN. */
static bool find_programs(struct bench *bench) {
    char program[PATH_MAX + 16];
    const char *set = getenv("PROTEUS_BIN");
    if (set != NULL) {
        snprintf(bench->folder, sizeof bench->folder, "%s", set);
    } else {
        ssize_t length = readlink("/proc/self/exe", bench->folder, sizeof bench->folder - 16);
        bench->folder[length > 0 ? length : 0] = '\0';
        char *slash = strrchr(bench->folder, '/');
        strcpy(slash != NULL ? slash : bench->folder, "/../bin");
    }
    snprintf(program, sizeof program, "%s/proteus", bench->folder);
    bool found = access(program, X_OK) == 0;
    snprintf(program, sizeof program, "%s/mf", bench->folder);
    return found && access(program, X_OK) == 0;
}

static void print_bandwidth(unsigned threads) {
    const struct {
        const char *name;
        size_t bytes;
    } sizes[] = {{"memory", (size_t)384 << 20}, {"third level", (size_t)12 << 20}, {"second level", (size_t)384 << 10}};
    printf("bandwidth (triad, %u threads):", threads);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t bytes = s < 2 ? sizes[s].bytes : sizes[s].bytes * threads; /* each core has its own second level */
        printf("%s %s %.1f GB/s", s > 0 ? "," : "", sizes[s].name, bandwidth_triad(bytes, threads) / 1e9);
    }
    printf("\n");
}

static void print_result(const char *name, unsigned rank, const struct plain *plain, const struct result *result) {
    double ratings = (double)plain->data.count;
    double seconds = series_median(&result->wall);
    double cpu_seconds = series_median(&result->cpu);
    double row_bytes = 2 * (double)plain->sgd.item_stride; /* read and written */
    double bytes = ratings * (row_bytes + (double)sizeof(struct mf_item)) + plain->runs * row_bytes;
    printf("  %4u  %-7s  %8.2f  %8.2f  %7.2f  %7.2f  %9.5f\n", rank, name, ratings / seconds / 1e6,
           ratings / cpu_seconds / 1e6, 8.0 * rank * ratings / seconds / 1e9, bytes / seconds / 1e9, result->objective);
}

static int plain_round(const struct bench *bench, struct plain *plain, unsigned rank, struct result *result,
                       struct error *error) {
    int failed = plain_begin(plain, rank, bench->biases, error);
    for (unsigned pass = 0; pass <= bench->passes && failed == 0; pass++) {
        double start = measure_wall();
        double cpu_start = measure_own_cpu();
        result->objective = plain_pass(plain, pass + 1);printf("%f ",result->objective);
        if (pass > 0) {
            series_add(&result->wall, measure_wall() - start);
            series_add(&result->cpu, measure_own_cpu() - cpu_start);
        }
    }
    return failed;
}

static int compare(const struct bench *bench, struct plain *plain, const char *path, unsigned rank,
                   struct error *error) {
    struct result alone = {0};
    struct result agile = {0};
    struct series ratios = {0};
    struct series cpu_ratios = {0};
    const struct agile_options options = {.folder = bench->folder,
                                          .data = path,
                                          .threads = (unsigned)bench->threads,
                                          .rank = rank,
                                          .passes = (unsigned)bench->passes,
                                          .partitions = (unsigned)bench->partitions,
                                          .biases = bench->biases};
    int failed = 0;
    for (int64_t round = 0; round < bench->rounds && failed == 0; round++) {
        struct result now[2] = {0};
        failed = plain_round(bench, plain, rank, &now[0], error);
        if (failed == 0) {
            failed = agile_run(&options, &now[1].wall, &now[1].cpu, &now[1].objective, error);
        }
        if (failed == 0) {
            series_add(&ratios, series_median(&now[0].wall) / series_median(&now[1].wall));
            series_add(&cpu_ratios, series_median(&now[0].cpu) / series_median(&now[1].cpu));
        }
        struct result *sums[2] = {&alone, &agile};
        for (unsigned r = 0; r < 2; r++) {
            for (size_t i = 0; i < now[r].wall.count; i++) {
                series_add(&sums[r]->wall, now[r].wall.values[i]);
                series_add(&sums[r]->cpu, now[r].cpu.values[i]);
            }
            sums[r]->objective = now[r].objective;
            series_close(&now[r].wall);
            series_close(&now[r].cpu);
        }
    }
    if (failed == 0) {
        print_result("plain", rank, plain, &alone);
        print_result("AgileML", rank, plain, &agile);
        printf("  %4u  ratio    %8.2f  %8.2f\n", rank, series_median(&ratios), series_median(&cpu_ratios));
        fflush(stdout);
    }
    series_close(&ratios);
    series_close(&cpu_ratios);
    series_close(&alone.wall);
    series_close(&alone.cpu);
    series_close(&agile.wall);
    series_close(&agile.cpu);
    return failed;
}

static int run_data(const struct bench *bench, const char *name, const char *path, struct error *error) {
    struct plain plain;
    int result = plain_open(&plain, path, (unsigned)bench->threads, error);
    if (result == 0) {
        printf("\n%s: %zu ratings, %u users, %u items; %lld threads, rows of rank%s, kernel %s\n", name,
               plain.data.count, plain.cache.tables[0].count, plain.cache.tables[1].count, (long long)bench->threads,
               bench->biases ? " + 1 (biases)" : "", plain.kernel.name);
        printf("  rank             M/s   M/CPU-s   GFLOP/s     GB/s       RMSE\n");
    }
    for (unsigned r = 0; r < bench->rank_count && result == 0; r++) {
        result = compare(bench, &plain, path, bench->ranks[r], error);
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

int main(int argc, char **argv) {
    struct bench bench = {.threads = measure_processors(), .passes = 6, .rounds = 3, .partitions = 8};
    bench.ranks_text = "16,64,128";
    const struct aml_option options[] = {
        {"threads", "N", AML_OPTION_INTEGER, &bench.threads, 1, POOL_THREADS_MAX, "worker threads of both"},
        {"ranks", "N,...", AML_OPTION_STRING, &bench.ranks_text, 0, 0, "factors of each user and item"},
        {"passes", "N", AML_OPTION_INTEGER, &bench.passes, 1, 1000, "passes measured, after one that is not"},
        {"rounds", "N", AML_OPTION_INTEGER, &bench.rounds, 1, 1000, "turns of both"},
        {"partitions", "N", AML_OPTION_INTEGER, &bench.partitions, 1, 4096, "partitions of AgileML's tables"},
        {"data", "FILE", AML_OPTION_STRING, &bench.data, 0, 0, "these ratings, instead of the two sets"},
        {"biases", NULL, AML_OPTION_FLAG, &bench.biases, 0, 0, "with biases of users and items"},
        {"quick", NULL, AML_OPTION_FLAG, &bench.quick, 0, 0, "a small set, rank 16, one round: does it run at all"},
        {0},
    };
    struct error error = {0};
    int status = measure_options(options, "bench_mf: plain threads and AgileML, beside each other", argc, argv);
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
    if (!find_programs(&bench)) {
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
