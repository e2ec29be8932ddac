/* bench_feed_cluster: compares policies that share out feeders among jobs, in a simulation of GoldMiner's 64-GPU
 * cluster. Reproduces its table 5 and the utilization of its figure 14, for several seeds. Starts no real process. */
#include "bench/feeders/cluster.h"
#include "bench/measure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The paper's numbers of table 5 and figure 14; 0: not given. */
struct paper {
    double completion, queuing, gpus;
};

static const struct paper paper[SCHEDULES] = {
    [SCHEDULE_TUNED] = {540, 338, 0.355}, [SCHEDULE_HARDWARE] = {495, 4, 0}, [SCHEDULE_FIXED] = {356, 160, 0.438},
    [SCHEDULE_FAIR] = {352, 14, 0},       [SCHEDULE_MAXTP] = {231, 0, 0.76}, [SCHEDULE_SRTF] = {213, 0, 0},
};

struct sums {
    double count;
    struct cluster_points points;
    struct cluster_result total;
    double gain, least_gain, most_gain; /* speedup of the completion time over SCHEDULE_TUNED on the same trace */
};

static void add(struct sums *sums, const struct cluster_result *result, double gain) {
    sums->total.completion += result->completion;
    sums->total.queuing += result->queuing;
    sums->total.makespan += result->makespan;
    sums->total.gpus += result->gpus;
    sums->total.cpus += result->cpus;
    sums->total.slowdown += result->slowdown;
    sums->gain += gain;
    sums->least_gain = sums->count == 0 ? gain : fmin(sums->least_gain, gain);
    sums->most_gain = fmax(sums->most_gain, gain);
    sums->count++;
}

/* Prints a row. Returns whether the speedup of the mean completion time is within 20 % of the paper's. */
static bool print_row(enum schedule schedule, const struct sums *sums, const struct sums *tuned) {
    double n = sums->count;
    double gain = tuned->total.completion / sums->total.completion;
    double papers = paper[SCHEDULE_TUNED].completion / paper[schedule].completion;
    bool near = fabs(gain / papers - 1) <= 0.2;
    printf("| %s | %.0f | %.0f | %.0f | %.2f | %.0f %% | %.0f %% | %.2f (%.2f to %.2f) | %.2f | %+.0f %% |\n",
           schedule_name(schedule), sums->total.completion / n, sums->total.queuing / n, sums->total.makespan / n,
           sums->total.slowdown / n, 100 * sums->total.gpus / n, 100 * sums->total.cpus / n, gain, sums->least_gain,
           sums->most_gain, papers, 100 * (gain / papers - 1));
    return near;
}

/* Compares the order of mean completion times with the paper's, and the gains in GPU utilization. */
static bool print_checks(const struct sums *sums) {
    static const enum schedule order[] = {SCHEDULE_TUNED, SCHEDULE_HARDWARE, SCHEDULE_FIXED,
                                          SCHEDULE_FAIR,  SCHEDULE_MAXTP,    SCHEDULE_SRTF};
    bool same = true;
    for (unsigned o = 1; o < SCHEDULES; o++) {
        same = same && sums[order[o]].total.completion < sums[order[o - 1]].total.completion;
    }
    printf("\norder of the completion times as in table 5: %s\n", same ? "yes" : "NO");
    for (enum schedule base = SCHEDULE_TUNED; base <= SCHEDULE_FIXED; base += SCHEDULE_FIXED - SCHEDULE_TUNED) {
        double gain = sums[SCHEDULE_MAXTP].total.gpus / sums[base].total.gpus;
        double papers = paper[SCHEDULE_MAXTP].gpus / paper[base].gpus;
        bool near = fabs(gain / papers - 1) <= 0.2;
        printf("GPU utilization, MaxTP by %s: %.2f, figure 14: %.2f, within 20 %%: %s\n", schedule_name(base), gain,
               papers, near ? "yes" : "NO");
        same = same && near;
    }
    return same;
}

static void write_report(FILE *report, enum schedule schedule, const struct sums *sums, const struct sums *tuned) {
    const char *name = schedule_name(schedule);
    fprintf(report, "{\"type\":\"schedule\",\"schedule\":\"%s\",\"gain\":%.4f,\"paper\":%.4f}\n", name,
            tuned->total.completion / sums->total.completion,
            paper[SCHEDULE_TUNED].completion / paper[schedule].completion);
    for (unsigned p = 0; p < CLUSTER_POINTS; p++) {
        fprintf(report, "{\"type\":\"utilization\",\"schedule\":\"%s\",\"minute\":%.0f,\"gpus\":%.4f,\"cpus\":%.4f}\n",
                name, p * CLUSTER_POINT, sums->points.gpus[p] / sums->count, sums->points.cpus[p] / sums->count);
    }
}

static bool run(const struct trace_options *options, unsigned seeds, FILE *report) {
    struct job jobs[JOBS_MAX];
    static struct sums sums[SCHEDULES];
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct cluster_result tuned = {0};
        trace_draw(options, seed, jobs);
        for (enum schedule schedule = 0; schedule < SCHEDULES; schedule++) {
            struct cluster_result result;
            cluster_run(schedule, jobs, options->jobs, &result, &sums[schedule].points);
            tuned = schedule == SCHEDULE_TUNED ? result : tuned;
            add(&sums[schedule], &result, tuned.completion / result.completion);
        }
    }
    printf("%zu jobs within %g hours, %g minutes in the mean, %u seeds; times in minutes\n\n", options->jobs,
           options->hours, options->minutes, seeds);
    printf("| schedule | completion | queuing | makespan | slowdown | GPUs | CPUs | gain (seeds) | table 5 | off |\n"
           "|---|---|---|---|---|---|---|---|---|---|\n");
    bool near = true;
    for (enum schedule schedule = 0; schedule < SCHEDULES; schedule++) {
        near = print_row(schedule, &sums[schedule], &sums[SCHEDULE_TUNED]) && near;
        if (report != NULL) {
            write_report(report, schedule, &sums[schedule], &sums[SCHEDULE_TUNED]);
        }
    }
    printf("\ngains within 20 %% of table 5: %s\n", near ? "yes" : "NO");
    return print_checks(sums) && near;
}

int main(int argc, char **argv) {
    struct trace_options trace = {.hours = 8, .minutes = 280, .sigma = 1.6, .longest = 1440};
    int64_t jobs = 80;
    int64_t seeds = 100;
    bool quick = false;
    const char *path = NULL;
    const struct aml_option options[] = {
        {"jobs", "N", AML_OPTION_INTEGER, &jobs, 1, JOBS_MAX, "of a trace"},
        {"hours", "H", AML_OPTION_REAL, &trace.hours, 0.1, 1000, "within which the jobs come"},
        {"minutes", "M", AML_OPTION_REAL, &trace.minutes, 1, 1e5, "of a job at full rate, in the mean"},
        {"sigma", "S", AML_OPTION_REAL, &trace.sigma, 0, 3, "of the logarithm of this time"},
        {"longest", "M", AML_OPTION_REAL, &trace.longest, 1, 1e6, "of these times, in minutes"},
        {"seeds", "N", AML_OPTION_INTEGER, &seeds, 1, 10000, "how many traces"},
        {"report", "FILE", AML_OPTION_STRING, &path, 0, 0, "gains and utilization as lines of JSON"},
        {"quick", NULL, AML_OPTION_FLAG, &quick, 0, 0, "a small part: does it run at all"},
        {0},
    };
    int status = measure_options(options, "bench_feed_cluster: policies across jobs, simulated", argc, argv);
    if (status >= 0) {
        return status;
    }
    if (trace.longest < trace.minutes) {
        fprintf(stderr, "bench_feed_cluster: --longest %g is below --minutes %g\n", trace.longest, trace.minutes);
        return 2;
    }
    trace.jobs = quick ? 10 : (size_t)jobs;
    FILE *report = path != NULL ? fopen(path, "w") : NULL;
    if (path != NULL && report == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 2;
    }
    bool as_expected = run(&trace, quick ? 1 : (unsigned)seeds, report);
    bool written = report == NULL || fclose(report) == 0;
    if (!written) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    }
    return written && (quick || as_expected) ? 0 : 1;
}
