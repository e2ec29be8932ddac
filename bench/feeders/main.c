/* bench_feed: simulates one job with feeders: GoldMiner's figures 9 (scaling), 12 (fused transfer) and 13 (dynamic
 * scaling), and feeders that are slow or die. Its decisions are made by agileml/control/decide/feeders.h and
 * bench/feeders/asks.h. Starts no real process. docs/feed.md says which costs are the paper's and which are assumed. */
#include "bench/feeders/one_job.h"
#include "bench/measure.h"

#include "agileml/control/decide/feeders.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 8, TENSORS = 141, FUSED = 1 };

#define WARM_UP 10.0 /* seconds that are not measured */
#define NEAR    0.9  /* part of the ideal rate that counts as near it */

struct bench {
    bool quick;
    double seconds; /* length of each measurement */
    FILE *report;
};

struct profile {
    const char *name;
    double images;    /* images (or batches of 32) that the trainer takes per second */
    double feed_cpus; /* feeder threads that make as many */
    double gigabits;  /* gigabits per second of that many */
    double cpus;      /* trainer threads that are busy with other work than receiving */
    unsigned most;    /* most feeder threads to try */
};

static const struct profile profiles[] = {
    {"AlexNet", 2595 / 32.0, 43.5, 12.5, 1, 64},
    {"ResNet18", 1433 / 32.0, 24, 6.9, 1, 40},
    {"ResNet50", 560 / 32.0, 9.4, 2.7, 1, 24},
    {"DeepFM", 20, 32, 0.15, 6, 56},
    {"Bert", 10, 2, 0.1, 1, 16},
};

/* Received bytes are copied once, at 4 GB a second. */
#define COPY_US_BYTE (1e6 / 4e9)
/* Cost of a message, besides its bytes. */
#define MESSAGE_US 50.0

static struct job_model model_of(const struct profile *profile) {
    double batch_us = 1e6 / profile->images;
    double bytes = profile->gigabits * 1e9 / 8 / profile->images;
    return (struct job_model){.feed_us = profile->feed_cpus * batch_us,
                              .train_us = batch_us,
                              .cpu_us = 0.9 * profile->cpus * batch_us + bytes * COPY_US_BYTE,
                              .message_us = MESSAGE_US,
                              .messages = FUSED,
                              .bytes = bytes,
                              .trainer_cpus = (unsigned)profile->cpus + 2,
                              .link_bytes_us = 20e9 / 8 / 1e6,
                              .latency_us = 200,
                              .jitter = 0.2,
                              .ahead = 2 * THREADS + 2};
}

static void set_feeders(struct one_job *job, unsigned feeders, unsigned threads) {
    one_job_set_threads(job, threads);
    while (one_job_feeders(job) < feeders) {
        one_job_add_feeder(job);
    }
    while (one_job_feeders(job) > feeders) {
        one_job_remove_feeder(job);
    }
}

/* Returns the steady rate with `feeders` feeders of `threads` threads each. */
static double rate_with(const struct bench *bench, const struct job_model *model, unsigned feeders, unsigned threads) {
    struct job_window window;
    struct one_job *job = one_job_open(model, 1);
    set_feeders(job, feeders, threads);
    double slow = 4 * model->feed_us * 1e-6; /* the first batches come late */
    one_job_run(job, WARM_UP + slow, &window);
    one_job_run(job, bench->seconds, &window);
    one_job_close(job);
    return window.rate;
}

/* ---- Figure 9 ---- */

static bool print_scaling(const struct bench *bench) {
    bool near = true;
    printf(
        "\n## Scaling (figure 9)\n\nBatches a second; ideal: linear from 8 threads on, up to the trainer's own rate\n\n"
        "| model | without feeders | threads of feeders | rate | ideal | of ideal |\n|---|---|---|---|---|---|\n");
    for (size_t p = 0; p < sizeof profiles / sizeof profiles[0]; p++) {
        struct job_model model = model_of(&profiles[p]);
        double least = 0;
        double alone = rate_with(bench, &model, 0, THREADS);
        for (unsigned threads = THREADS; threads <= profiles[p].most; threads += THREADS) {
            double rate = rate_with(bench, &model, threads / THREADS, THREADS);
            least = threads == THREADS ? rate : least;
            double ideal = fmin(least * threads / THREADS, profiles[p].images);
            near = near && rate >= NEAR * ideal;
            printf("| %s | %.2f | %u | %.2f | %.2f | %.3f |\n", profiles[p].name, alone, threads, rate, ideal,
                   rate / ideal);
            if (bench->report != NULL) {
                fprintf(bench->report, "{\"figure\":9,\"model\":\"%s\",\"threads\":%u,\"rate\":%.4f,\"ideal\":%.4f}\n",
                        profiles[p].name, threads, rate, ideal);
            }
        }
    }
    printf("\nall within 10 %% of ideal: %s\n", near ? "yes" : "NO");
    return near;
}

/* ---- Figure 12 ---- */

/* Here the trainer's threads also train, so that they are scarce. */
static struct job_model recommendation(unsigned cpus, unsigned messages) {
    struct job_model model = model_of(&profiles[3]);
    model.trainer_cpus = cpus;
    model.messages = messages;
    model.message_us = 600;
    return model;
}

static bool print_fused(const struct bench *bench) {
    double most = 0;
    double last = 0;
    printf("\n## Fused transfer (figure 12)\n\nDeepFM with 48 threads of feeders; batches a second\n\n"
           "| trainer's threads | a message for each of %d tensors | fused | gain |\n|---|---|---|---|\n",
           TENSORS);
    for (unsigned cpus = 2; cpus <= 10; cpus += 2) {
        struct job_model single = recommendation(cpus, TENSORS);
        struct job_model fused = recommendation(cpus, FUSED);
        double one = rate_with(bench, &single, 48 / THREADS, THREADS);
        double other = rate_with(bench, &fused, 48 / THREADS, THREADS);
        last = other / one;
        most = fmax(most, last);
        printf("| %u | %.2f | %.2f | %.2f |\n", cpus, one, other, last);
        if (bench->report != NULL) {
            fprintf(bench->report, "{\"figure\":12,\"cpus\":%u,\"single\":%.4f,\"fused\":%.4f}\n", cpus, one, other);
        }
    }
    printf("\nthe gain is largest where threads are scarce: %s\n", most > 1.2 && last < 1.05 ? "yes" : "NO");
    return most > 1.2 && last < 1.05;
}

/* ---- Figure 13 ---- */

static void carry_out(struct one_job *job, struct feeders_action action) {
    set_feeders(job, action.feeders, action.threads > 0 ? action.threads : 1);
}

/* Scales the job by measurement windows of 10 s. The first three windows after a change are ignored. Returns whether
 * the job ends with 3 feeders, as in the paper. */
static bool print_dynamic(const struct bench *bench) {
    struct job_model model = model_of(&profiles[1]);
    struct feeders feeders = {0};
    struct job_window window;
    unsigned threads = 1;
    unsigned since = 0; /* windows since the last change */
    model.trainer_cpus = 8;
    struct one_job *job = one_job_open(&model, 1);
    printf("\n## Dynamic scaling (figure 13)\n\nResNet18, windows of 10 s\n\n"
           "| window | feeders | threads of each | batches a second | waiting | then |\n|---|---|---|---|---|---|\n");
    for (unsigned w = 0; w < (bench->quick ? 60 : 160); w++) {
        char reason[FEEDERS_REASON];
        one_job_run(job, 10, &window);
        unsigned present = one_job_feeders(job);
        struct feeders_view view = {
            .feeders = present,
            .feeders_max = 6,
            .threads = threads,
            .threads_max = THREADS,
            .threads_next = THREADS,
            .changed = since<3, .rate = window.rate, .starved = window.starved, .busy = window.busy, .fed = present> 0
                           ? 1
                           : 0};
        struct feeders_action action = feeders_decide(&feeders, &view, reason);
        since++;
        if (bench->report != NULL) {
            fprintf(bench->report, "{\"figure\":13,\"window\":%u,\"feeders\":%u,\"threads\":%u,\"rate\":%.4f}\n", w + 1,
                    present, present > 0 ? threads : 0, window.rate);
        }
        if (action.act != FEEDERS_NONE) {
            printf("| %u | %u | %u | %.2f | %.0f %% | %s |\n", w + 1, present, present > 0 ? threads : 0, window.rate,
                   100 * window.starved, reason);
            carry_out(job, action);
            threads = action.threads > 0 ? action.threads : 1;
            since = 0;
        }
    }
    unsigned last = one_job_feeders(job);
    bool once = one_job_exactly_once(job);
    printf("\nin the end %u feeders of %u threads, %.2f batches a second; the paper's job has 3 of 8: %s; "
           "each batch once: %s\n",
           last, threads, window.rate, last == 3 && threads == 8 ? "yes" : "NO", once ? "yes" : "NO");
    one_job_close(job);
    return (bench->quick || (last == 3 && threads == 8)) && once;
}

/* ---- Faults ---- */

static bool print_phase(const struct bench *bench, struct one_job *job, const char *what, double *rate) {
    struct job_window window;
    one_job_run(job, WARM_UP, &window);
    one_job_run(job, bench->seconds, &window);
    bool once = one_job_exactly_once(job);
    *rate = window.rate;
    printf("| %s | %u | %.2f | %.0f %% | %llu | %llu | %llu | %s |\n", what, one_job_feeders(job), window.rate,
           100 * window.starved, (unsigned long long)window.own, (unsigned long long)window.again,
           (unsigned long long)window.repeated, once ? "yes" : "NO");
    return once;
}

static bool print_faults(const struct bench *bench) {
    struct job_model model = model_of(&profiles[1]);
    double before = 0;
    double slow = 0;
    double none = 0;
    double after = 0;
    struct one_job *job = one_job_open(&model, 1);
    printf("\n## Slow and lost feeders\n\nResNet18, feeders of 8 threads\n\n"
           "| what | feeders | batches a second | waiting | made by the trainer | asked again | repeats dropped | each "
           "batch once |\n|---|---|---|---|---|---|---|---|\n");
    set_feeders(job, 4, THREADS);
    bool well = print_phase(bench, job, "4 feeders", &before);
    one_job_slow_down(job, 20);
    well = print_phase(bench, job, "one becomes 20 times as slow", &slow) && well;
    set_feeders(job, 0, THREADS);
    well = print_phase(bench, job, "all are lost", &none) && well;
    set_feeders(job, 4, THREADS);
    well = print_phase(bench, job, "4 come", &after) && well;
    one_job_close(job);
    well = well && slow >= NEAR * fmin(before, 3 * THREADS / profiles[1].feed_cpus * profiles[1].images) && none > 0 &&
           after >= NEAR * before;
    printf("\nthe loss of feeders only slows, a slow one costs no more than itself: %s\n", well ? "yes" : "NO");
    return well;
}

int main(int argc, char **argv) {
    struct bench bench = {.seconds = 60};
    const char *path = NULL;
    const struct aml_option options[] = {
        {"seconds", "S", AML_OPTION_REAL, &bench.seconds, 1, 1e4, "simulated, of each measurement"},
        {"report", "FILE", AML_OPTION_STRING, &path, 0, 0, "the figures' numbers as lines of JSON"},
        {"quick", NULL, AML_OPTION_FLAG, &bench.quick, 0, 0, "a small part: does it run at all"},
        {0},
    };
    int status = measure_options(options, "bench_feed: one job with feeders, simulated", argc, argv);
    if (status >= 0) {
        return status;
    }
    bench.seconds = bench.quick ? 10 : bench.seconds;
    bench.report = path != NULL ? fopen(path, "w") : NULL;
    if (path != NULL && bench.report == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 2;
    }
    bool well = print_scaling(&bench);
    well = print_fused(&bench) && well;
    well = print_dynamic(&bench) && well;
    well = print_faults(&bench) && well;
    bool written = bench.report == NULL || fclose(bench.report) == 0;
    if (!written) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    }
    return written && (well || bench.quick) ? 0 : 1;
}
