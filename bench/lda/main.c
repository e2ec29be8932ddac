/* bench_lda: measures what AgileML's layers cost a topic model. Compares the sampler in plain threads on arrays with
 * the app on one node. Both run in turns, on the same documents, from random topics. */
#include "agileml/base/memory.h"
#include "bench/lda/documents.h"
#include "bench/lda/plain.h"
#include "bench/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double ENOUGH = 2e7; /* tokens to sample */

enum { PATH_ROOM = 64, TOPICS_MAX = 8, THREADS_MAX = 1024 };

static const char *const KOS = "../shared/data/bow-kos/docword.kos.txt.gz";

struct bench {
    int64_t threads, passes, rounds, partitions, proposals;
    const char *topics_text, *data;
    const char *set; /* name of the present data */
    bool quick;
    unsigned topics[TOPICS_MAX];
    unsigned topics_count;
    char folder[PATH_MAX];
};

static int parse_topics(struct bench *bench, struct error *error) {
    const char *text = bench->topics_text;
    do {
        char *end;
        long topics = strtol(text, &end, 10);
        if (end == text || topics < 1 || topics > LDA_TOPICS_MAX || (*end != ',' && *end != '\0') ||
            bench->topics_count == TOPICS_MAX) {
            return error_set(error, AML_EINPUT,
                             "--topics: expected up to %d numbers of 1 to %d with commas, got '%.100s'", TOPICS_MAX,
                             LDA_TOPICS_MAX, bench->topics_text);
        }
        bench->topics[bench->topics_count++] = (unsigned)topics;
        text = *end == ',' ? end + 1 : NULL;
    } while (text != NULL);
    return 0;
}

/* ---- Made-up documents ---- */

/* Makes a file without a name, which is gone when *file is closed or the process ends. */
static int make_documents(uint32_t documents, uint32_t words, uint32_t length, int *file, char path[PATH_ROOM],
                          struct error *error) {
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    *file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    int copy = *file >= 0 ? fcntl(*file, F_DUPFD_CLOEXEC, 0) : -1;
    FILE *stream = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (stream == NULL) {
        return error_set(error, AML_EFAIL, "%s: can't create a temporary file: %s", folder, strerror(errno));
    }
    documents_write(stream, documents, words, length);
    bool failed = ferror(stream) != 0;
    failed = fclose(stream) != 0 || failed;
    snprintf(path, PATH_ROOM, "/proc/%d/fd/%d", (int)getpid(), *file);
    return failed ? error_set(error, AML_EFAIL, "%s: can't write: %s", folder, strerror(errno)) : 0;
}

/* ---- The contenders ---- */

enum contender { PLAIN, AGILE, CONTENDERS };
static const char *const CONTENDER_NAMES[CONTENDERS] = {"plain", "AgileML"};

static int run_agile(const struct bench *bench, const char *path, unsigned topics, struct series *wall,
                     struct series *cpu, struct error *error) {
    struct bench_trial trial;
    double objective;
    trial_open(&trial, bench->folder, (unsigned)bench->threads, (unsigned)bench->partitions, "lda",
               (unsigned)bench->passes);
    trial_argument(&trial, "--data=%s", path);
    trial_argument(&trial, "--topics=%u", topics);
    trial_argument(&trial, "--proposals=%u", (unsigned)bench->proposals);
    trial_argument(&trial, "--likelihood-every=1000000");
    int result = trial_run(&trial, wall, cpu, &objective, error);
    trial_close(&trial);
    return result;
}

static int compare(const struct bench *bench, const struct plain_texts *texts, const char *path, unsigned topics,
                   struct error *error) {
    struct series wall[CONTENDERS] = {0};
    struct series cpu[CONTENDERS] = {0};
    struct series ratios[CONTENDERS] = {0};
    struct series cpu_ratios[CONTENDERS] = {0};
    int result = 0;
    for (int64_t round = 0; round < bench->rounds && result == 0; round++) {
        struct series turn_wall[CONTENDERS] = {0};
        struct series turn_cpu[CONTENDERS] = {0};
        result = plain_run(texts, topics, (unsigned)bench->proposals, (unsigned)bench->threads, (unsigned)bench->passes,
                           &turn_wall[PLAIN], &turn_cpu[PLAIN], error);
        if (result == 0) {
            result = run_agile(bench, path, topics, &turn_wall[AGILE], &turn_cpu[AGILE], error);
        }
        for (unsigned c = 0; c < CONTENDERS; c++) {
            for (size_t i = 0; i < turn_wall[c].count; i++) {
                series_add(&wall[c], turn_wall[c].values[i]);
                series_add(&cpu[c], turn_cpu[c].values[i]);
            }
            series_add(&ratios[c], series_median(&turn_wall[PLAIN]) / series_median(&turn_wall[c]));
            series_add(&cpu_ratios[c], series_mean(&turn_cpu[PLAIN]) / series_mean(&turn_cpu[c]));
        }
        for (unsigned c = 0; c < CONTENDERS; c++) {
            series_close(&turn_wall[c]);
            series_close(&turn_cpu[c]);
        }
    }
    for (unsigned c = 0; c < CONTENDERS; c++) {
        double tokens = (double)texts->tokens / 1e6;
        if (result == 0) {
            printf("%6u  %-8s  %8.2f  %8.2f  %8.2f  %6.2f  %6.2f\n", topics, CONTENDER_NAMES[c],
                   tokens / series_median(&wall[c]), tokens / series_median(&wall[c]) / (double)bench->threads,
                   tokens / series_mean(&cpu[c]), series_median(&ratios[c]), series_median(&cpu_ratios[c]));
            const struct measured measured = {"lda",
                                              CONTENDER_NAMES[c],
                                              "tokens",
                                              tokens * 1e6 / series_median(&wall[c]),
                                              series_median(&ratios[c]),
                                              series_median(&cpu_ratios[c])};
            measure_record(&measured, "%s, %u topics", bench->set, topics);
        }
        series_close(&wall[c]);
        series_close(&cpu[c]);
        series_close(&ratios[c]);
        series_close(&cpu_ratios[c]);
    }
    fflush(stdout);
    return result;
}

static int run_data(const struct bench *bench, const char *name, const char *path, struct error *error) {
    struct plain_texts texts;
    int result = plain_open(&texts, path, error);
    if (result == 0) {
        printf("\n%s: %u documents, %u words, %.3g million tokens; %lld threads, %lld proposals of each kind\n", name,
               texts.document_count, texts.vocabulary, (double)texts.tokens / 1e6, (long long)bench->threads,
               (long long)bench->proposals);
        printf("topics              M tok/s  per core  M/CPU-s   ratio  CPU-r.\n");
    }
    struct bench sized = *bench;
    sized.set = name;
    sized.passes = trial_passes(bench->passes, (double)texts.tokens, ENOUGH);
    for (unsigned t = 0; t < bench->topics_count && result == 0; t++) {
        result = compare(&sized, &texts, path, bench->topics[t], error);
    }
    plain_close(&texts);
    return result;
}

static int run_synthetic(const struct bench *bench, struct error *error) {
    int file = -1;
    char path[PATH_ROOM];
    int result = bench->quick ? make_documents(1000, 2000, 100, &file, path, error)
                              : make_documents(100000, 20000, 200, &file, path, error);
    if (result == 0) {
        result = run_data(bench, "synthetic", path, error);
    }
    if (file >= 0) {
        close(file);
    }
    return result;
}

static int run_all(const struct bench *bench, struct error *error) {
    if (bench->data != NULL) {
        return run_data(bench, bench->data, bench->data, error);
    }
    int result = run_synthetic(bench, error);
    if (result == 0 && !bench->quick) {
        if (access(KOS, R_OK) == 0) {
            result = run_data(bench, "kos", KOS, error);
        } else {
            printf("\nkos: skipped: no %s here\n", KOS);
        }
    }
    return result;
}

int main(int argc, char **argv) {
    struct bench bench = {.threads = 1, .rounds = 3, .partitions = 8, .proposals = LDA_PROPOSALS};
    bench.topics_text = "100,1000";
    const struct aml_option options[] = {
        {"threads", "N", AML_OPTION_INTEGER, &bench.threads, 1, THREADS_MAX, "worker threads of both"},
        {"topics", "K,...", AML_OPTION_STRING, &bench.topics_text, 0, 0, "numbers of topics"},
        {"proposals", "N", AML_OPTION_INTEGER, &bench.proposals, 1, LDA_PROPOSALS_MAX, "of each kind for a token"},
        {"passes", "N", AML_OPTION_INTEGER, &bench.passes, 0, 1000, "iterations measured; 0: by the data"},
        {"rounds", "N", AML_OPTION_INTEGER, &bench.rounds, 1, 1000, "turns of both"},
        {"partitions", "N", AML_OPTION_INTEGER, &bench.partitions, 1, 4096, "partitions of AgileML's tables"},
        {"data", "FILE", AML_OPTION_STRING, &bench.data, 0, 0, "these documents, instead of the two sets"},
        {"quick", NULL, AML_OPTION_FLAG, &bench.quick, 0, 0, "a small set, 20 topics, one round: does it run at all"},
        {0},
    };
    struct error error = {0};
    int status = measure_options(options, "bench_lda: plain threads and AgileML, beside each other", argc, argv);
    if (status >= 0) {
        return status;
    }
    if (bench.quick) {
        bench.topics_text = "20";
        bench.passes = 2;
        bench.rounds = 1;
    }
    if (parse_topics(&bench, &error) != 0) {
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    if (!trial_find_programs("lda", bench.folder, sizeof bench.folder)) {
        printf("skipped: there is no proteus and lda in %s; build them, or set PROTEUS_BIN to their folder\n",
               bench.folder);
        return 0;
    }
    measure_print_machine();
    int result = run_all(&bench, &error);
    if (result != 0) {
        fprintf(stderr, "%s\n", error.text);
    }
    return result == 0 ? 0 : error_exit_status(result);
}
