/* Runs simulated clusters, one a seed, and checks the design's invariants in each (cluster.h). Without arguments, what
 * ctest runs: every mistake must be found, a seed must replay to the same trace, then both campaigns.
 *
 *   cluster_sim_test [--seeds N] [--first-seed S] [--missing]    a campaign of that many seeds
 *   cluster_sim_test --seed S [--missing] [--mistake NAME]       one seed, with every event on stdout */
#include "tests/sim/cluster.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

enum {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) ||               \
    __has_feature(thread_sanitizer)
    DEFAULT_SEEDS = 500, /* sanitized programs are several times slower */
#else
    DEFAULT_SEEDS = 6000,
#endif
    MISSING_PART = 4,      /* of the seeds, one in so many once more with something missing */
    MISTAKE_SEEDS_MAX = 40 /* a mistake must be found within so many seeds in which it was made */
};

struct totals {
    uint64_t seeds, clocks, nodes, virtual_us;
    struct sim_statistics statistics;
};

static void totals_add(struct totals *totals, const struct cluster_result *result) {
    totals->seeds++;
    totals->clocks += result->clocks;
    totals->nodes += result->nodes;
    totals->virtual_us += result->virtual_us;
    totals->statistics.events += result->statistics.events;
    totals->statistics.messages += result->statistics.messages;
    totals->statistics.local += result->statistics.local;
    totals->statistics.lost += result->statistics.lost;
    totals->statistics.duplicated += result->statistics.duplicated;
}

static void print_violation(const struct cluster_options *options, const struct cluster_result *result) {
    fprintf(stderr, "violation with --seed %llu%s %s\n", (unsigned long long)options->seed,
            options->campaign == CAMPAIGN_MISSING ? " --missing" : "", result->violation);
}

static bool run_campaign(enum campaign campaign, uint64_t first_seed, uint64_t seeds) {
    struct totals totals = {0};
    struct timespec begin;
    struct timespec end;
    bool passed = true;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t s = 0; s < seeds; s++) {
        struct cluster_options options = {.seed = first_seed + s, .campaign = campaign};
        struct cluster_result result;
        if (!cluster_run(&options, &result)) {
            print_violation(&options, &result);
            passed = false;
        }
        totals_add(&totals, &result);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%s: %llu seeds in %.1f s: %llu nodes, %llu clocks, %.0f s of virtual time, %llu events, %llu messages "
           "(%llu more within nodes), %llu lost, %llu duplicated\n",
           campaign == CAMPAIGN_FAULTS ? "faults" : "missing", (unsigned long long)totals.seeds,
           (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9,
           (unsigned long long)totals.nodes, (unsigned long long)totals.clocks, (double)totals.virtual_us / 1e6,
           (unsigned long long)totals.statistics.events, (unsigned long long)totals.statistics.messages,
           (unsigned long long)totals.statistics.local, (unsigned long long)totals.statistics.lost,
           (unsigned long long)totals.statistics.duplicated);
    fflush(stdout);
    return passed;
}

/* A check that can't fail is worth nothing: each mistake must be found, by the invariant it breaks. */
static bool run_mistakes(void) {
    static const char *const found_by[MISTAKES] = {
        [MISTAKE_FLUSH_WITHOUT_ROWS] = "I1", [MISTAKE_FLUSH_TWICE] = "I1",        [MISTAKE_PUSH_WITHOUT_ROWS] = "I2",
        [MISTAKE_STALE_WORKER] = "I3",       [MISTAKE_TWO_OWNERS] = "I6",         [MISTAKE_TWO_SERVERS] = "I7",
        [MISTAKE_DEAF_SERVER] = "I8",        [MISTAKE_PROGRESS_TWICE] = "report",
    };
    bool passed = true;
    for (unsigned m = MISTAKE_NONE + 1; m < MISTAKES; m++) {
        unsigned made = 0;
        bool found = false;
        for (uint64_t seed = 1; made < MISTAKE_SEEDS_MAX && seed < 1000 && !found; seed++) {
            struct cluster_options options = {.seed = seed, .mistake = m};
            struct cluster_result result;
            cluster_run(&options, &result);
            made += result.mistaken ? 1 : 0;
            found = result.mistaken && strstr(result.violation, found_by[m]) != NULL;
        }
        printf("mistake %s: %s %s after %u seeds\n", mistake_names[m], found ? "found by" : "NOT FOUND by", found_by[m],
               made);
        passed = passed && found;
    }
    return passed;
}

static bool run_twice(void) {
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct cluster_options options = {.seed = seed};
        struct cluster_result one;
        struct cluster_result two;
        cluster_run(&options, &one);
        cluster_run(&options, &two);
        if (one.statistics.trace != two.statistics.trace || one.statistics.events != two.statistics.events) {
            fprintf(stderr, "seed %llu does not replay to the same events\n", (unsigned long long)seed);
            return false;
        }
    }
    return true;
}

static int usage(void) {
    fprintf(stderr, "usage: cluster_sim_test [--seeds N] [--first-seed S] [--seed S] [--missing] [--mistake NAME]\n");
    return 2;
}

int main(int argc, char **argv) {
    uint64_t seeds = DEFAULT_SEEDS;
    uint64_t first_seed = 1;
    bool one = false;
    struct cluster_options options = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--missing") == 0) {
            options.campaign = CAMPAIGN_MISSING;
        } else if (i + 1 == argc) {
            return usage();
        } else if (strcmp(argv[i], "--seeds") == 0) {
            seeds = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--first-seed") == 0) {
            first_seed = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            one = true;
            options.seed = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--mistake") == 0) {
            i++;
            while (options.mistake < MISTAKES && strcmp(mistake_names[options.mistake], argv[i]) != 0) {
                options.mistake++;
            }
            if (options.mistake == MISTAKES) {
                return usage();
            }
        } else {
            return usage();
        }
    }
    if (one) {
        struct cluster_result result;
        options.trace = stdout;
        bool passed = cluster_run(&options, &result);
        printf("%s\n", passed ? "no violation" : result.violation);
        return passed ? 0 : 1;
    }
    if (argc > 1) {
        return run_campaign(options.campaign, first_seed, seeds) ? 0 : 1;
    }
    bool passed = run_mistakes() && run_twice();
    passed = run_campaign(CAMPAIGN_FAULTS, first_seed, seeds) && passed;
    passed = run_campaign(CAMPAIGN_MISSING, first_seed, seeds / MISSING_PART) && passed;
    return passed ? 0 : 1;
}
