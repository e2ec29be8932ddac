/* Runs simulated clusters, one for each seed, and checks the design's invariants in each (cluster.h). Without
 * arguments, as under ctest: every mistake must be found, a seed must replay to the same trace, then come seeds that
 * once failed, all campaigns and all schedules.
 *
 * cluster_sim_test [--app NAME] [--seeds N] [--first-seed S] [--campaign NAME | --schedule NAME] runs N seeds.
 *
 * cluster_sim_test --seed S [--app NAME] [--campaign NAME | --schedule NAME] [--mistake NAME] runs one seed and prints
 * every event.
 *
 * cluster_sim_test --mistake NAME checks that the mistake is found.
 *
 * cluster_sim_test --digests N [--app NAME] prints a hash of each trace, for N seeds of each campaign and schedule. A
 * change that only moves code leaves every line the same. */
#include "agileml/base/clock.h"
#include "agileml/base/sanitizers.h"
#include "tests/sim/cluster.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SANITIZED = WITH_ASAN || WITH_TSAN,
    DEFAULT_SEEDS = SANITIZED ? 30 : 200, /* of the elastic campaign; sanitizers are several times slower */
    TRANSIENT_PART = 2,                   /* divides the number of seeds, for stage transient */
    CACHES_PART = 2,                      /* the same, with losses of all but one or two nodes */
    TRACES_PART = 10,                     /* the same, with recorded traces */
    FAULTS_PART = 2,                      /* divides the number of seeds, for each other campaign */
    MISSING_PART = 15,
    MAD_PART = 5,
    UNEVEN_PART = 10,
    SCHEDULE_PART = 15,     /* divides DEFAULT_SEEDS, for each schedule and app */
    LDA_PART = 5,           /* divides DEFAULT_SEEDS, for lda */
    MOMENT_SEEDS_MAX = 200, /* a schedule's moment must come within this many more seeds */
    AVERAGES_SEEDS = 60,    /* seeds of the elastic campaign; nodes must average with others in them */
    MISTAKE_SEEDS_MAX = 60, /* a mistake must be found within this many seeds that made it */
    MISTAKE_TRIES = 1000    /* seeds tried at most for a mistake */
};

static void counts_add(struct cluster_counts *sum, const struct cluster_counts *one) {
    sum->nodes += one->nodes;
    sum->clocks += one->clocks;
    sum->plans += one->plans;
    sum->recoveries += one->recoveries;
    sum->joins += one->joins;
    sum->rejoins += one->rejoins;
    sum->evictions += one->evictions;
    sum->kills += one->kills;
    sum->controller_restarts += one->controller_restarts;
    sum->checkpoints += one->checkpoints;
    sum->resumes += one->resumes;
    sum->redone_items += one->redone_items;
    sum->balances += one->balances;
    sum->replacements += one->replacements;
    sum->evaluations += one->evaluations;
    sum->partial += one->partial;
    sum->triggered += one->triggered;
    sum->lost += one->lost;
    sum->unsaved += one->unsaved;
    sum->mad += one->mad;
    sum->lots += one->lots;
    sum->shards_taken += one->shards_taken;
    sum->batches += one->batches;
    sum->batches_used += one->batches_used;
    sum->batches_own += one->batches_own;
    sum->batches_at_once += one->batches_at_once;
    sum->averages += one->averages;
    sum->ring.sums += one->ring.sums;
    sum->ring.overlaps += one->ring.overlaps;
    sum->ring.pushes += one->ring.pushes;
    sum->pieces_taken += one->pieces_taken;
    sum->ring.pieces += one->ring.pieces;
    sum->cached += one->cached;
}

static const char transient_name[] = "transient"; /* the elastic campaign in stage transient */
static const char large_name[] = "large";         /* the elastic campaign with hundreds of nodes */
static const char traces_name[] = "traces";       /* the same, with recorded traces of spot machines */

static const char caches_name[] = "caches"; /* the same, with losses of both copies of partitions */

static const char *run_name(const struct cluster_options *options) {
    return options->caches                      ? caches_name
           : options->traces != NULL            ? traces_name
           : options->large                     ? large_name
           : options->transient                 ? transient_name
           : options->schedule == SCHEDULE_NONE ? campaign_names[options->campaign]
                                                : cluster_schedule_name((unsigned)options->schedule);
}

static void print_violation(const struct cluster_options *options, const struct cluster_result *result) {
    printf("violation with --app %s --seed %llu --%s %s: %s\n", app_names[options->app],
           (unsigned long long)options->seed, options->schedule == SCHEDULE_NONE ? "campaign" : "schedule",
           run_name(options), result->violation);
    fflush(stdout);
}

static void print_totals(const struct cluster_options *options, uint64_t seeds, double seconds,
                         const struct cluster_counts *counts, const struct sim_statistics *statistics) {
    printf(
        "%s, %s: %llu seeds in %.1f s: %llu nodes, %llu clocks, %llu plans, %llu recoveries, %llu joins, %llu rejoins, "
        "%llu evictions, %llu kills, %llu changes of shares, %llu replacements, %llu mad nodes, %llu controller "
        "restarts, %llu "
        "checkpoints, %llu resumes, "
        "%llu lots done for others, %llu shards and %llu pieces taken from others, %llu batches taken from feeders, "
        "%llu used, %llu made while waiting, %llu by several threads, %llu averages between steps, %llu sums of a ring "
        "taken, %llu "
        "overlapped, %llu pushes relayed, %llu pieces of flushes taken, %llu partitions out of caches, %llu jobs lost, "
        "%llu items redone, %llu "
        "iterations "
        "partial, %llu more evaluations, "
        "%llu models not saved, "
        "%llu events, %llu messages, %llu lost, %llu duplicated",
        app_names[options->app], run_name(options), (unsigned long long)seeds, seconds,
        (unsigned long long)counts->nodes, (unsigned long long)counts->clocks, (unsigned long long)counts->plans,
        (unsigned long long)counts->recoveries, (unsigned long long)counts->joins, (unsigned long long)counts->rejoins,
        (unsigned long long)counts->evictions, (unsigned long long)counts->kills, (unsigned long long)counts->balances,
        (unsigned long long)counts->replacements, (unsigned long long)counts->mad,
        (unsigned long long)counts->controller_restarts, (unsigned long long)counts->checkpoints,
        (unsigned long long)counts->resumes, (unsigned long long)counts->lots, (unsigned long long)counts->shards_taken,
        (unsigned long long)counts->pieces_taken, (unsigned long long)counts->batches,
        (unsigned long long)counts->batches_used, (unsigned long long)counts->batches_own,
        (unsigned long long)counts->batches_at_once, (unsigned long long)counts->averages,
        (unsigned long long)counts->ring.sums, (unsigned long long)counts->ring.overlaps,
        (unsigned long long)counts->ring.pushes, (unsigned long long)counts->ring.pieces,
        (unsigned long long)counts->cached, (unsigned long long)counts->lost, (unsigned long long)counts->redone_items,
        (unsigned long long)counts->partial, (unsigned long long)counts->evaluations,
        (unsigned long long)counts->unsaved, (unsigned long long)statistics->events,
        (unsigned long long)statistics->messages, (unsigned long long)statistics->lost,
        (unsigned long long)statistics->duplicated);
    if (options->schedule != SCHEDULE_NONE) {
        printf(", the moment came in %llu", (unsigned long long)counts->triggered);
    }
    printf("\n");
    fflush(stdout);
}

/* Runs `seeds` seeds. options.seed is ignored. */
static bool run_seeds(struct cluster_options options, uint64_t first_seed, uint64_t seeds) {
    struct cluster_counts counts = {0};
    struct sim_statistics statistics = {0};
    bool passed = true;
    double begin = clock_seconds(CLOCK_MONOTONIC);
    uint64_t asked = seeds;
    for (uint64_t s = 0; s < seeds; s++) {
        struct cluster_result result;
        options.seed = first_seed + s;
        if (!cluster_run(&options, &result)) {
            print_violation(&options, &result);
            passed = false;
        }
        counts_add(&counts, &result.counts);
        statistics.events += result.statistics.events;
        statistics.messages += result.statistics.messages;
        statistics.lost += result.statistics.lost;
        statistics.duplicated += result.statistics.duplicated;
        bool moment_lacks = options.schedule != SCHEDULE_NONE && counts.triggered == 0;
        if (s + 1 == seeds && moment_lacks && seeds < asked + MOMENT_SEEDS_MAX) {
            seeds++;
        }
    }
    print_totals(&options, seeds, clock_seconds(CLOCK_MONOTONIC) - begin, &counts, &statistics);
    if (options.schedule != SCHEDULE_NONE && counts.triggered == 0) {
        printf("%s: its moment never came\n", run_name(&options));
        passed = false;
    }
    bool averages = options.campaign == CAMPAIGN_ELASTIC && options.app == APP_ADDER && !options.transient;
    if (averages && options.schedule == SCHEDULE_NONE && seeds >= AVERAGES_SEEDS && counts.averages == 0) {
        printf("%s: no node averaged with another one between local steps\n", run_name(&options));
        passed = false;
    }
    return passed;
}

/* ---- Mistakes ---- */

struct expected_find {
    enum campaign campaign;
    enum cluster_app app;
    const char *invariant; /* NULL: any */
    uint64_t first_seed;   /* the search begins after this seed, shortly before a seed that finds the mistake */
    bool caches;           /* cluster_options.caches: lost partitions are restored from caches */
};

static const struct expected_find finds[MISTAKES] = {
    [MISTAKE_FLUSH_WITHOUT_ROWS] = {CAMPAIGN_FAULTS, APP_ADDER, "I1", 0, false},
    [MISTAKE_FLUSH_TWICE] = {CAMPAIGN_FAULTS, APP_ADDER, "I1", 0, false},
    [MISTAKE_PUSH_WITHOUT_ROWS] = {CAMPAIGN_FAULTS, APP_ADDER, "I2", 0, false},
    [MISTAKE_STALE_WORKER] = {CAMPAIGN_FAULTS, APP_ADDER, "I3", 0, false},
    [MISTAKE_TWO_OWNERS] = {CAMPAIGN_FAULTS, APP_ADDER, "I6", 0, false},
    [MISTAKE_TWO_SERVERS] = {CAMPAIGN_FAULTS, APP_ADDER, "I7", 0, false},
    [MISTAKE_DEAF_SERVER] = {CAMPAIGN_FAULTS, APP_ADDER, "I8", 0, false},
    [MISTAKE_PROGRESS_TWICE] = {CAMPAIGN_FAULTS, APP_ADDER, "report", 0, false},
    [MISTAKE_FLUSH_LOST_IN_RESTORE] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, false},
    [MISTAKE_CATCH_UP_SKIPPED] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, false},
    [MISTAKE_UNDO_SKIPPED] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 62, false},
    [MISTAKE_COMMIT_TOO_EARLY] = {CAMPAIGN_ELASTIC, APP_ADDER, "I5", 0, false},
    [MISTAKE_TWO_SERVERS_FENCED] = {CAMPAIGN_ELASTIC, APP_ADDER, "I7", 0, false},
    [MISTAKE_NOT_FENCED] = {CAMPAIGN_ELASTIC, APP_ADDER, "I6", 39, false},
    [MISTAKE_STORE_WRITE_LOST] = {CAMPAIGN_ELASTIC, APP_ADDER, NULL, 0, false},
    [MISTAKE_ROW_GIVEN_UP] = {CAMPAIGN_ELASTIC, APP_ADDER, "I2", 39, false},
    [MISTAKE_INPUT_CONCEALED] = {CAMPAIGN_ELASTIC, APP_ADDER, "I9", 0, false},
    [MISTAKE_LOSS_CONCEALED] = {CAMPAIGN_ELASTIC, APP_ADDER, "report", 10, false},
    [MISTAKE_LAST_UNSAID] = {CAMPAIGN_ELASTIC, APP_ADDER, "report", 0, false},
    [MISTAKE_TOPICS_FORGOTTEN] = {CAMPAIGN_ELASTIC, APP_LDA, "LDA", 0, false},
    [MISTAKE_IMPATIENT_RESTART] = {CAMPAIGN_ELASTIC, APP_ADDER, "accused", 823, false},
    [MISTAKE_CHECKPOINT_NOT_HELD] = {CAMPAIGN_ELASTIC, APP_ADDER, "checkpoint", 90, false},
    [MISTAKE_ANSWER_AWAITED] = {CAMPAIGN_ELASTIC, APP_ADDER, "I8", 0, false},
    [MISTAKE_LIE_BELIEVED] = {CAMPAIGN_ELASTIC, APP_ADDER, "I8", 2, false},
    [MISTAKE_WAITING_COUNTED] = {CAMPAIGN_UNEVEN, APP_ADDER, "I12", 0, false},
    [MISTAKE_SPEED_REVERSED] = {CAMPAIGN_UNEVEN, APP_ADDER, "I12", 0, false},
    [MISTAKE_WEIGHTS_LOST] = {CAMPAIGN_UNEVEN, APP_ADDER, "I12", 7, false},
    [MISTAKE_TWO_REPLACED] = {CAMPAIGN_UNEVEN, APP_ADDER, "I11", 483, false},
    [MISTAKE_WAITS_UNTOLD] = {CAMPAIGN_UNEVEN, APP_ADDER, "I12", 34, false},
    [MISTAKE_LOT_TWICE] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, false},
    [MISTAKE_SHARD_MIXED] = {CAMPAIGN_ELASTIC, APP_ADDER, "I9", 0, false},
    [MISTAKE_BATCH_OF_OTHER_CLOCK] = {CAMPAIGN_ELASTIC, APP_ADDER, "I13", 0, false},
    [MISTAKE_BATCH_TWICE] = {CAMPAIGN_ELASTIC, APP_ADDER, "I14", 0, false},
    [MISTAKE_CREDIT_LOST] = {CAMPAIGN_ELASTIC, APP_ADDER, "I15", 0, false},
    [MISTAKE_FEEDER_COUNTS] = {CAMPAIGN_ELASTIC, APP_ADDER, "I16", 0, false},
    [MISTAKE_PIECE_TWICE] = {CAMPAIGN_ELASTIC, APP_ADDER, "I9", 0, false},
    [MISTAKE_PIECE_LEFT_OUT] = {CAMPAIGN_ELASTIC, APP_ADDER, "I9", 0, false},
    [MISTAKE_STEP_TWICE] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, false},
    [MISTAKE_SUSPICION_BELIEVED] = {CAMPAIGN_ELASTIC, APP_ADDER, "I17", 2745, false},
    [MISTAKE_SUSPICION_IGNORED] = {CAMPAIGN_ELASTIC, APP_ADDER, "I17", 390, false},
    [MISTAKE_WOKEN_ACCUSES] = {CAMPAIGN_ELASTIC, APP_ADDER, "I17", 0, false},
    [MISTAKE_STATE_KEPT] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, false},
    [MISTAKE_RING_TWICE] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, false},
    [MISTAKE_RING_OVERLAPS] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, false},
    [MISTAKE_RING_KEPT] = {CAMPAIGN_ELASTIC, APP_ADDER, "S3", 0, false},
    [MISTAKE_RING_MIXED] = {CAMPAIGN_ELASTIC, APP_ADDER, "S3", 215, false},
    [MISTAKE_STRATEGY_KEPT] = {CAMPAIGN_ELASTIC, APP_ADDER, "S5", 0, false},
    [MISTAKE_GOSSIP_LATE] = {CAMPAIGN_ELASTIC, APP_ADDER, "S6", 0, false},
    [MISTAKE_REPLICA_APART] = {CAMPAIGN_ELASTIC, APP_ADDER, "S2", 0, false},
    [MISTAKE_FLUSH_PIECE_WHOLE] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, false},
    [MISTAKE_FLUSH_PIECE_TWICE] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, false},
    [MISTAKE_CACHE_OTHER_CLOCK] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, true},
    [MISTAKE_CACHE_UNFINISHED] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, true},
    [MISTAKE_CACHE_LACKS_ROW] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, true},
    [MISTAKE_CACHES_IGNORED] = {CAMPAIGN_ELASTIC, APP_ADDER, "I5", 0, true},
    [MISTAKE_PHASE_AGAIN] = {CAMPAIGN_ELASTIC, APP_ADDER, "I1", 0, false},
};

/* Each mistake must be found, by the invariant that it breaks: a check that can't fail is worth nothing. */
static bool run_mistake(enum mistake mistake) {
    unsigned made = 0;
    bool found = false;
    const char *invariant = finds[mistake].invariant;
    uint64_t seed = finds[mistake].first_seed;
    for (unsigned tries = 0; made < MISTAKE_SEEDS_MAX && tries < MISTAKE_TRIES && !found; tries++) {
        struct cluster_options options = {.seed = ++seed,
                                          .campaign = finds[mistake].campaign,
                                          .app = finds[mistake].app,
                                          .schedule = SCHEDULE_NONE,
                                          .mistake = mistake,
                                          .transient = finds[mistake].caches,
                                          .caches = finds[mistake].caches};
        struct cluster_result result;
        cluster_run(&options, &result);
        made += result.mistaken ? 1 : 0;
        char where[16];
        snprintf(where, sizeof where, "%s: ", invariant != NULL ? invariant : "");
        found = result.mistaken && strstr(result.violation, where) != NULL;
    }
    printf("mistake %s: %s %s after %u seeds, up to %llu\n", mistake_names[mistake],
           found ? "found by" : "NOT FOUND by", invariant != NULL ? invariant : "any", made, (unsigned long long)seed);
    fflush(stdout);
    return found;
}

static bool run_mistakes(void) {
    bool passed = true;
    for (unsigned m = MISTAKE_NONE + 1; m < MISTAKES; m++) {
        passed = run_mistake(m) && passed;
    }
    return passed;
}

static bool run_twice(void) {
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct cluster_options options = {
            .seed = seed, .campaign = seed % 2 == 0 ? CAMPAIGN_ELASTIC : CAMPAIGN_FAULTS, .schedule = SCHEDULE_NONE};
        struct cluster_result one;
        struct cluster_result two;
        cluster_run(&options, &one);
        cluster_run(&options, &two);
        if (one.statistics.trace != two.statistics.trace || one.statistics.events != two.statistics.events) {
            printf("seed %llu does not replay to the same events\n", (unsigned long long)seed);
            return false;
        }
    }
    return true;
}

/* Campaign uneven needs the adder: lda refuses its clocks and staleness, and lda's documents are of unequal work. */
static bool has_campaign(enum cluster_app app, enum campaign campaign) {
    return app != APP_LDA || campaign != CAMPAIGN_UNEVEN;
}

static bool run_traces(struct cluster_options options, const struct cluster_traces *traces, uint64_t seeds) {
    if (traces == NULL) {
        printf("skipped: no traces of spot machines in ../shared/data/traces-*\n");
        return true;
    }
    options.transient = true;
    options.traces = traces;
    return run_seeds(options, 1, seeds);
}

/* Runs all campaigns and schedules with one app; the elastic campaign with `seeds` seeds. */
static bool run_app(enum cluster_app app, const struct cluster_traces *traces, uint64_t seeds) {
    struct cluster_options options = {.campaign = CAMPAIGN_ELASTIC, .app = app, .schedule = SCHEDULE_NONE};
    bool passed = run_seeds(options, 1, seeds);
    options.transient = true;
    passed = run_seeds(options, 1, seeds / TRANSIENT_PART) && passed;
    options.caches = app == APP_ADDER; /* some of lda's tables are not replicated */
    passed = (!options.caches || run_seeds(options, 1, seeds / CACHES_PART)) && passed;
    options.transient = options.caches = false;
    passed = run_traces(options, traces, seeds / TRACES_PART) && passed;
    options.campaign = CAMPAIGN_FAULTS;
    passed = run_seeds(options, 1, seeds / FAULTS_PART) && passed;
    options.campaign = CAMPAIGN_MISSING;
    passed = run_seeds(options, 1, seeds / MISSING_PART) && passed;
    options.campaign = CAMPAIGN_MAD;
    passed = run_seeds(options, 1, seeds / MAD_PART) && passed;
    options.campaign = CAMPAIGN_UNEVEN;
    passed = (!has_campaign(app, CAMPAIGN_UNEVEN) || run_seeds(options, 1, seeds / UNEVEN_PART)) && passed;
    options.campaign = CAMPAIGN_ELASTIC;
    for (unsigned s = 0; s < cluster_schedules(); s++) {
        options.schedule = (int)s;
        passed = run_seeds(options, 1, DEFAULT_SEEDS / SCHEDULE_PART) && passed;
    }
    return passed;
}

/* Runs seeds that once failed. Unit tests have the same cases, as a change may give a seed another course. */
static bool run_kept(void) {
    static const struct {
        uint64_t seed;
        enum campaign campaign;
        bool transient, caches;
    } kept[] = {{40222, CAMPAIGN_ELASTIC, true, false},   {820724, CAMPAIGN_ELASTIC, true, false},
                {70145, CAMPAIGN_ELASTIC, true, false},   {830900, CAMPAIGN_ELASTIC, true, true},
                {706159, CAMPAIGN_ELASTIC, false, false}, {300577, CAMPAIGN_ELASTIC, false, false},
                {501869, CAMPAIGN_ELASTIC, false, false}, {980427, CAMPAIGN_ELASTIC, true, false},
                {40962, CAMPAIGN_MAD, false, false},      {31001878, CAMPAIGN_ELASTIC, false, false}};
    bool passed = true;
    for (unsigned k = 0; k < sizeof kept / sizeof *kept; k++) {
        const struct cluster_options options = {.campaign = kept[k].campaign,
                                                .transient = kept[k].transient,
                                                .caches = kept[k].caches,
                                                .schedule = SCHEDULE_NONE};
        passed = run_seeds(options, kept[k].seed, 1) && passed;
    }
    return passed;
}

static bool print_digests(struct cluster_options options, uint64_t seeds) {
    bool passed = true;
    for (options.seed = 1; options.seed <= seeds; options.seed++) {
        struct cluster_result result;
        if (!cluster_run(&options, &result)) {
            print_violation(&options, &result);
            passed = false;
        }
        printf("%s %s %llu %016llx\n", app_names[options.app], run_name(&options), (unsigned long long)options.seed,
               (unsigned long long)result.statistics.trace);
    }
    fflush(stdout);
    return passed;
}

static bool print_all_digests(enum cluster_app app, uint64_t seeds) {
    struct cluster_options options = {.app = app, .schedule = SCHEDULE_NONE};
    bool passed = true;
    for (unsigned c = 0; c < CAMPAIGNS; c++) {
        options.campaign = (enum campaign)c;
        passed = (!has_campaign(app, options.campaign) || print_digests(options, seeds)) && passed;
    }
    options.campaign = CAMPAIGN_ELASTIC;
    for (unsigned s = 0; s < cluster_schedules(); s++) {
        options.schedule = (int)s;
        passed = print_digests(options, seeds) && passed;
    }
    return passed;
}

static bool run_all(const struct cluster_traces *traces) {
    bool passed = SANITIZED || (run_mistakes() && run_twice()); /* sanitizers would find nothing new here */
    passed = run_kept() && passed;
    passed = run_app(APP_ADDER, traces, DEFAULT_SEEDS) && passed;
    return run_app(APP_LDA, traces, DEFAULT_SEEDS / LDA_PART) && passed;
}

/* ---- The command line ---- */

static int usage(void) {
    fprintf(stderr, "usage: cluster_sim_test [--seeds N] [--first-seed S] [--seed S] [--app NAME] "
                    "[--campaign NAME] [--schedule NAME] [--mistake NAME] [--digests N]\n");
    return 2;
}

/* Returns the number of `name` among `count` names, or -1. */
static int named(const char *name, unsigned count, const char *(*name_of)(unsigned number)) {
    for (unsigned n = 0; n < count; n++) {
        if (strcmp(name_of(n), name) == 0) {
            return (int)n;
        }
    }
    return -1;
}

static const char *campaign_name(unsigned campaign) {
    return campaign_names[campaign];
}

static const char *app_name(unsigned app) {
    return app_names[app];
}

static const char *mistake_name(unsigned mistake) {
    return mistake_names[mistake];
}

static int run(int argc, char **argv, const struct cluster_traces *traces) {
    uint64_t seeds = DEFAULT_SEEDS;
    uint64_t first_seed = 1;
    uint64_t digests = 0;
    bool one = false;
    struct cluster_options options = {.campaign = CAMPAIGN_ELASTIC, .schedule = SCHEDULE_NONE};
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        int number = 0;
        if (value == NULL) {
            return usage();
        }
        if (strcmp(argv[i], "--seeds") == 0) {
            seeds = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--first-seed") == 0) {
            first_seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            one = true;
            options.seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--digests") == 0) {
            digests = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--app") == 0) {
            number = named(value, APPS, app_name);
            options.app = (enum cluster_app)(number < 0 ? 0 : number);
        } else if (strcmp(argv[i], "--campaign") == 0 && strcmp(value, transient_name) == 0) {
            options.transient = true;
        } else if (strcmp(argv[i], "--campaign") == 0 && strcmp(value, large_name) == 0) {
            options.large = true;
        } else if (strcmp(argv[i], "--campaign") == 0 && strcmp(value, caches_name) == 0) {
            options.transient = options.caches = true;
        } else if (strcmp(argv[i], "--campaign") == 0 && strcmp(value, traces_name) == 0) {
            options.transient = true;
            options.traces = traces;
            if (traces == NULL) {
                return run_traces(options, traces, 0) ? 0 : 1;
            }
        } else if (strcmp(argv[i], "--campaign") == 0) {
            number = named(value, CAMPAIGNS, campaign_name);
            options.campaign = (enum campaign)(number < 0 ? 0 : number);
        } else if (strcmp(argv[i], "--schedule") == 0) {
            number = options.schedule = named(value, cluster_schedules(), cluster_schedule_name);
        } else if (strcmp(argv[i], "--mistake") == 0) {
            number = named(value, MISTAKES, mistake_name);
            options.mistake = (enum mistake)(number < 0 ? 0 : number);
        } else {
            return usage();
        }
        if (number < 0) {
            return usage();
        }
    }
    if (!has_campaign(options.app, options.campaign)) {
        fprintf(stderr, "campaign %s does not work with app %s\n", campaign_name(options.campaign),
                app_name(options.app));
        return 2;
    }
    if (digests > 0) {
        return print_all_digests(options.app, digests) ? 0 : 1;
    }
    if (one) {
        struct cluster_result result;
        options.trace = stdout;
        bool passed = cluster_run(&options, &result);
        printf("%s\n", passed ? "no violation" : result.violation);
        return passed ? 0 : 1;
    }
    if (options.mistake != MISTAKE_NONE) {
        return run_mistake(options.mistake) ? 0 : 1;
    }
    return (argc > 1 ? run_seeds(options, first_seed, seeds) : run_all(traces)) ? 0 : 1;
}

/* Runs in a new folder, which holds the clusters' checkpoints (cluster_disk.c). */
int main(int argc, char **argv) {
    char folder[] = "/dev/shm/cluster_sim_XXXXXX"; /* nothing written here needs to last */
    char elsewhere[] = "/tmp/cluster_sim_XXXXXX";
    const char *source = getenv("PROTEUS_SOURCE");
    char data[PATH_MAX];
    snprintf(data, sizeof data, "%s/../shared/data", source != NULL ? source : ".");
    struct cluster_traces *traces = cluster_traces_read(data);
    const char *made = mkdtemp(folder);
    made = made != NULL ? made : mkdtemp(elsewhere);
    if (made == NULL || chdir(made) != 0) {
        perror("can't make a folder for checkpoints");
        cluster_traces_close(traces);
        return 2;
    }
    int status = run(argc, argv, traces);
    cluster_traces_close(traces);
    rmdir(made);
    return status;
}
