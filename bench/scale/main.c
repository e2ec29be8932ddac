/* bench_scale: simulates clusters far larger than this machine, with measured costs. The job is matrix factorization of
 * a data set of the shape of the Netflix data. Reports the time of an iteration in the paper's figures 11 to 14 and 16,
 * and how long recoveries from lost nodes take. */
#include "bench/measure.h"
#include "bench/scale/cluster.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How a dense model is flushed: each layer as soon as it is computed, or all at the clock's end. */
struct bench_layers {
    bool early;
    int64_t count;
    double share;
};

/* What is run in place of figures 11 to 14. */
struct bench_instead {
    bool elastic, changes;
    int64_t losses;
};

struct bench {
    int64_t figure, nodes, partitions, iterations, users, items, rank, clocks, staleness, commit_every, threads;
    double ratings, rating_ns, load_rating_ns, gather_byte_ns, jitter;
    double megabits, latency_us, message_us, byte_ns;
    struct bench_instead instead;
    int64_t probe;
    bool quick, whole;
    struct bench_layers layers;
    const char *exchange;
    const char *report_path;
    FILE *report;
    struct model model;
};

/* One bar of a figure. */
struct bar {
    unsigned figure, reliable, transient, active; /* see cluster_options */
    enum stage stage;
};

enum { BARS_MAX = 32 };

/* Lists the bars of the paper's figures, for `nodes` instead of its 64 (its figure 14 has 16). Half of the transient
 * nodes that may serve do so. Therefore the paper's 48 ActivePSs on 60 nodes can't be had. */
static unsigned bars_of(unsigned nodes, struct bar bars[BARS_MAX]) {
    unsigned count = 0;
    unsigned few = nodes / 16;
    unsigned fewest = nodes / 64 > 0 ? nodes / 64 : 1;
    unsigned eighth = nodes / 8;
    bars[count++] = (struct bar){11, nodes, 0, 0, STAGE_TRADITIONAL};
    for (unsigned reliable = nodes / 2; reliable >= few; reliable /= 2) {
        bars[count++] = (struct bar){11, reliable, nodes - reliable, 0, STAGE_1};
    }
    bars[count++] = (struct bar){12, few, nodes - few, nodes / 2, STAGE_2};
    bars[count++] = (struct bar){12, few, nodes - few, 0, STAGE_2};
    bars[count++] = (struct bar){13, fewest, nodes - fewest, 0, STAGE_2};
    bars[count++] = (struct bar){13, fewest, nodes - fewest, 0, STAGE_3};
    bars[count++] = (struct bar){14, 2 * eighth, 0, 0, STAGE_TRADITIONAL};
    bars[count++] = (struct bar){14, eighth, eighth, 0, STAGE_2};
    bars[count++] = (struct bar){14, eighth, eighth, 0, STAGE_3};
    return count;
}

/* Returns a number of partitions that all nodes can share nearly equally, and so can half or a quarter of them, or half
 * of the transient nodes: 60 for 64 nodes. */
static uint32_t partitions_for(unsigned nodes) {
    unsigned few = nodes / 16 > 0 ? nodes / 16 : 1;
    unsigned partitions = nodes > few ? nodes - few : nodes;
    return partitions < WIRE_PARTITIONS_MAX ? partitions : WIRE_PARTITIONS_MAX;
}

static struct cluster_options options_of(const struct bench *bench) {
    return (struct cluster_options){.model = &bench->model,
                                    .costs = {.bytes_per_second = bench->megabits * 1e6 / 8,
                                              .latency_us = bench->latency_us,
                                              .message_us = bench->message_us,
                                              .byte_ns = bench->byte_ns,
                                              .values_factor = (double)bench->rank / MODEL_WIDTH},
                                    .commit_every = (uint32_t)bench->commit_every,
                                    .layers = bench->layers.early ? (unsigned)bench->layers.count : 0,
                                    .layers_share = bench->layers.share,
                                    .iterations = (unsigned)bench->iterations,
                                    .seed = 1};
}

/* The median over the second half of the iterations. In the first half, backups may still fall behind as far as the
 * window allows. */
static double median_seconds(const struct cluster_result *result) {
    struct series series = {0};
    for (unsigned i = result->count / 2; i < result->count; i++) {
        series_add(&series, result->iterations[i].seconds);
    }
    double median = series_median(&series);
    series_close(&series);
    return median;
}

/* ---- Figures 11 to 14 ---- */

static int run_bar(const struct bench *bench, const struct bar *bar, double *traditional, struct error *error) {
    struct cluster_options options = options_of(bench);
    struct cluster_result result;
    options.reliable = bar->reliable;
    options.transient = bar->transient;
    options.stage = bar->stage;
    options.active = bar->active;
    options.partitions =
        bench->partitions > 0 ? (uint32_t)bench->partitions : partitions_for(bar->reliable + bar->transient);
    double start = measure_wall();
    int code = cluster_run(&options, &result, error);
    if (code == 0) {
        double seconds = median_seconds(&result);
        unsigned may_serve = bar->active > 0 ? bar->active : bar->transient;
        unsigned active = bar->stage == STAGE_2 || bar->stage == STAGE_3 ? (may_serve + 1) / 2 : 0;
        *traditional = bar->stage == STAGE_TRADITIONAL ? seconds : *traditional;
        double ratio = *traditional > 0 ? seconds / *traditional : NAN; /* unknown when only one figure is run */
        printf("| %u | %u + %u | %s | %u | %.3f | %.2f | %.0f %% |\n", bar->figure, bar->reliable, bar->transient,
               plan_stage_name(bar->stage), active, seconds, ratio, 100 * result.link_share);
        fflush(stdout);
        if (bench->report != NULL) {
            fprintf(bench->report,
                    "{\"figure\":%u,\"reliable\":%u,\"transient\":%u,\"stage\":\"%s\",\"active\":%u,\"seconds\":%.6f,"
                    "\"ratio\":%.4f,\"link\":%.3f,\"events\":%llu,\"wall\":%.1f}\n",
                    bar->figure, bar->reliable, bar->transient, plan_stage_name(bar->stage), active, seconds,
                    isnan(ratio) ? 0 : ratio, result.link_share, (unsigned long long)result.events,
                    measure_wall() - start);
            fflush(bench->report);
        }
    }
    free(result.iterations);
    return code;
}

static int run_figures(const struct bench *bench, struct error *error) {
    struct bar bars[BARS_MAX];
    double traditional = 0;
    unsigned count = bars_of((unsigned)bench->nodes, bars);
    int code = 0;
    printf("| figure | reliable + transient | stage | ActivePSs | s per iteration | to traditional | busiest link |\n"
           "|---|---|---|---|---|---|---|\n");
    for (unsigned b = 0; b < count && code == 0; b++) {
        bool wanted = bench->figure == 0 || bench->figure == bars[b].figure;
        code = wanted ? run_bar(bench, &bars[b], &traditional, error) : 0;
    }
    return code;
}

/* ---- Figure 16 ---- */

static int run_elastic(const struct bench *bench, struct error *error) {
    struct cluster_options options = options_of(bench);
    struct cluster_result result;
    unsigned few = bench->nodes / 16 > 0 ? (unsigned)bench->nodes / 16 : 1;
    options.reliable = few;
    options.join = (unsigned)bench->nodes - few;
    options.partitions = partitions_for((unsigned)bench->nodes);
    options.stage = STAGE_AUTO;
    options.report = bench->report;
    options.iterations = bench->quick ? 12 : 45;
    options.join_iteration = bench->quick ? 4 : 11;
    options.evict_iteration = bench->quick ? 9 : 35;
    int code = cluster_run(&options, &result, error);
    printf("| iteration | nodes | stage | s | GB sent |\n|---|---|---|---|---|\n");
    for (unsigned i = 0; i < result.count; i++) {
        const struct cluster_iteration *iteration = &result.iterations[i];
        printf("| %u | %u | %u | %.3f | %.2f |\n", i + 1, iteration->nodes, iteration->stage, iteration->seconds,
               iteration->bytes / 1e9);
    }
    if (code == 0 && result.items_redone != 0) {
        code = error_set(error, AML_EFAIL, "%llu items were worked on twice", (unsigned long long)result.items_redone);
    }
    free(result.iterations);
    return code;
}

/* ---- Recoveries ---- */

enum { LOST_MOST = 3 }; /* most nodes lost at once */

/* Prints the median and the maximum. */
static void print_series(struct series *series) {
    double most = 0;
    for (size_t v = 0; v < series->count; v++) {
        most = fmax(most, series->values[v]);
    }
    printf(" %.0f, %.0f |", 1e3 * series_median(series), 1e3 * most);
    series_close(series);
}

static int run_losses(const struct bench *bench, const struct cluster_losses *losses, struct error *error) {
    struct cluster_options options = options_of(bench);
    struct cluster_result result;
    unsigned few = bench->nodes / 16 > 0 ? (unsigned)bench->nodes / 16 : 1;
    options.reliable = few;
    options.transient = (unsigned)bench->nodes - few;
    options.partitions = bench->partitions > 0 ? (uint32_t)bench->partitions : partitions_for((unsigned)bench->nodes);
    options.stage = STAGE_AUTO;
    options.report = bench->report;
    options.iterations = UINT32_MAX / MODEL_CLOCKS_MAX / 2; /* no limit: the run ends after the last recovery */
    options.losses = *losses;
    int code = cluster_run(&options, &result, error);
    if (code == 0) {
        struct series noticed = {0};
        struct series planned = {0};
        struct series completed = {0};
        for (unsigned l = 0; l < result.recovery_count; l++) {
            series_add(&noticed, result.recoveries[l].noticed);
            series_add(&planned, result.recoveries[l].planned - result.recoveries[l].noticed);
            series_add(&completed, result.recoveries[l].completed);
        }
        printf("| %u | %s |", losses->at_once, losses->silent ? "silent" : "ended");
        print_series(&noticed);
        print_series(&planned);
        print_series(&completed);
        printf(" %.0f |\n", 1e3 * median_seconds(&result) / (double)bench->clocks);
        fflush(stdout);
    }
    free(result.iterations);
    free(result.recoveries);
    return code;
}

static int run_recoveries(const struct bench *bench, struct error *error) {
    int code = 0;
    printf("%lld times some of %lld nodes are lost, probes every %lld ms; ms, median and maximum\n\n"
           "| lost at once | how | until it is noticed | from then until the new plan | from the loss until the next "
           "clock is completed | a clock |\n|---|---|---|---|---|---|\n",
           (long long)bench->instead.losses, (long long)bench->nodes, (long long)bench->probe);
    for (unsigned lost = 1; lost <= LOST_MOST && code == 0; lost++) {
        for (unsigned silent = 0; silent < 2 && code == 0; silent++) {
            const struct cluster_losses losses = {.times = (unsigned)bench->instead.losses,
                                                  .at_once = lost,
                                                  .silent = silent != 0,
                                                  .probe_ms = (uint32_t)bench->probe};
            code = run_losses(bench, &losses, error);
        }
    }
    return code;
}

/* ---- Changes of one node ---- */

enum { CHANGE_PARTITIONS_MOST = 32 }; /* as jobs have by default */

static int run_changes(const struct bench *bench, struct error *error) {
    static const char *const names[CLUSTER_CHANGES] = {"one joins", "one is evicted", "one ends",
                                                        "half are evicted one by one"};
    struct cluster_options options = options_of(bench);
    struct cluster_result result;
    unsigned partitions = partitions_for((unsigned)bench->nodes);
    options.transient = (unsigned)bench->nodes;
    options.stage = STAGE_TRANSIENT;
    options.partitions = bench->partitions > 0                 ? (uint32_t)bench->partitions
                         : partitions < CHANGE_PARTITIONS_MOST ? partitions
                                                               : CHANGE_PARTITIONS_MOST;
    options.iterations = UINT32_MAX / MODEL_CLOCKS_MAX / 2; /* no limit: the run ends after the last change */
    options.report = bench->report;
    options.changes = true;
    options.losses.probe_ms = (uint32_t)bench->probe;
    int code = cluster_run(&options, &result, error);
    printf("| nodes | change | plans | controller sends, KB | answers to heartbeats, KB | to a node at most, KB |"
           " to the new node, KB | controller's CPU, ms | s |\n|---|---|---|---|---|---|---|---|---|\n");
    for (unsigned c = 0; c < CLUSTER_CHANGES && code == 0; c++) {
        const struct cluster_change *change = &result.changes[c];
        printf("| %lld | %s | %.0f | %.0f | %.0f | %.1f | %.1f | %.1f | %.2f |\n", (long long)bench->nodes, names[c],
               change->plans, change->sent_bytes / 1e3, change->ack_bytes / 1e3, change->most_bytes / 1e3,
               change->new_bytes / 1e3, change->cpu_ms, change->seconds);
    }
    free(result.iterations);
    return code;
}

/* ---- The program ---- */

static int run(struct bench *bench, struct error *error) {
    if (bench->report_path != NULL && (bench->report = fopen(bench->report_path, "we")) == NULL) {
        return error_set(error, AML_EINPUT, "--report %.200s: %s", bench->report_path, strerror(errno));
    }
    bench->model = (struct model){.users = (uint32_t)bench->users,
                                  .items = (uint32_t)bench->items,
                                  .ratings = bench->ratings,
                                  .rank = (uint32_t)bench->rank,
                                  .clocks = (unsigned)bench->clocks,
                                  .staleness = (unsigned)bench->staleness,
                                  .rating_ns = bench->rating_ns,
                                  .load_rating_ns = bench->load_rating_ns,
                                  .gather_byte_ns = bench->gather_byte_ns,
                                  .threads = (unsigned)bench->threads,
                                  .jitter = bench->jitter};
    bool ring = strcmp(bench->exchange, "ring") == 0;
    if (!ring && strcmp(bench->exchange, "direct") != 0) {
        return error_set(error, AML_EINPUT, "--exchange: expected direct or ring, got '%s'", bench->exchange);
    }
    if (ring && !bench->whole) {
        return error_set(error, AML_EINPUT, "--exchange ring: expected --whole with it");
    }
    if (bench->layers.early && (!bench->whole || ring)) {
        return error_set(error, AML_EINPUT, "--flush-early: expected --whole with it, and --exchange direct");
    }
    bench->model.whole = bench->whole;
    bench->model.exchange = ring ? EXCHANGE_RING : EXCHANGE_DIRECT;
    model_open(&bench->model);
    printf("%.0f ratings by %lld users of %lld items, rank %lld, %lld clocks, staleness %lld; %lld threads a node, "
           "%.1f ns a rating; %.0f Mbit/s, %.0f us, %.1f us a message, %.2f ns a byte\n\n",
           bench->ratings, (long long)bench->users, (long long)bench->items, (long long)bench->rank,
           (long long)bench->clocks, (long long)bench->staleness, (long long)bench->threads, bench->rating_ns,
           bench->megabits, bench->latency_us, bench->message_us, bench->byte_ns);
    int code = bench->instead.losses > 0 ? run_recoveries(bench, error)
               : bench->instead.changes  ? run_changes(bench, error)
               : bench->instead.elastic  ? run_elastic(bench, error)
                                 : run_figures(bench, error);
    model_close(&bench->model);
    if (bench->report != NULL) {
        fclose(bench->report);
    }
    return code;
}

static const char SUMMARY[] =
    "bench_scale: clusters larger than this machine, simulated.\n"
    "The real controller, node agents, clients and servers in the simulator of tests/sim, on the job of the\n"
    "paper's figures: 480189 users, 17770 items with the Netflix data's popularity, 100 million ratings. Rows\n"
    "have 4 floats here, and each byte of values counts as rank / 4. Nothing is computed; the options give the\n"
    "measured costs:\n"
    "  --rating-ns       bench_mf --ranks 1000: plain, ratings a CPU-second\n"
    "  --gather-byte-ns  bench_ps --rows 10000 --width 1000: gather us\n"
    "  --byte-ns         the same, half of CPU-s/GB\n"
    "  --message-us      bench_ps --rows 512 --width 1 --partitions 512: CPU-s of a push by its 2048 ends\n"
    "A machine has one link each way, which its messages share in pieces of 128 KiB, as TCP does; a state machine\n"
    "has a thread. The network has no congestion inside and loses no packet. Columns: the median of the second\n"
    "half of the iterations; its ratio to the traditional layout with as many nodes; how busy the busiest link\n"
    "was. With --losses, milliseconds (median, maximum) until the controller has noticed all losses, until the\n"
    "new plan, and from the loss until the next clock is completed; and the median clock. The time this program\n"
    "takes grows with the square of the nodes.";

int main(int argc, char **argv) {
    struct bench bench = {.nodes = 64,
                          .iterations = 24,
                          .users = 480189,
                          .items = 17770,
                          .rank = 1000,
                          .clocks = 1,
                          .exchange = "direct",
                          .layers = {.count = 8, .share = 0.5},
                          .threads = 8,
                          .ratings = 100480507,
                          .rating_ns = 260,
                          .load_rating_ns = 100,
                          .gather_byte_ns = 0.3,
                          .jitter = 0.05,
                          .megabits = 1000,
                          .probe = 25,
                          .latency_us = 100,
                          .message_us = 1.3,
                          .byte_ns = 0.25};
    const struct aml_option options[] = {
        {"nodes", "N", AML_OPTION_INTEGER, &bench.nodes, 16, WIRE_NODES_MAX, "where the paper has 64"},
        {"figure", "N", AML_OPTION_INTEGER, &bench.figure, 0, 14, "this one alone of figures 11 to 14; 0: all"},
        {"figure-16", NULL, AML_OPTION_FLAG, &bench.instead.elastic, 0, 0,
         "instead of figures 11 to 14: N/16 nodes, the others join at iteration 11 and are evicted at 35"},
        {"changes", NULL, AML_OPTION_FLAG, &bench.instead.changes, 0, 0,
         "instead of figures 11 to 14: what the controller sends when one node joins, one is evicted, one ends, and "
         "half of the others are evicted one by one, 250 a minute"},
        {"losses", "N", AML_OPTION_INTEGER, &bench.instead.losses, 0, 1000,
         "instead of figures 11 to 14: how long recoveries take, from N losses each of 1, 2 and 3 nodes at once, whose "
         "processes end or whose machines fall silent"},
        {"probe", "MS", AML_OPTION_INTEGER, &bench.probe, 10, 1000, "with --losses: between two probes of a node"},
        {"partitions", "N", AML_OPTION_INTEGER, &bench.partitions, 0, WIRE_PARTITIONS_MAX,
         "of the tables; 0: about as many as nodes"},
        {"whole", NULL, AML_OPTION_FLAG, &bench.whole, 0, 0,
         "a dense model instead of a factorization: every node has all items' rows and changes them in each clock"},
        {"exchange", "HOW", AML_OPTION_STRING, &bench.exchange, 0, 0, "direct or, with --whole, ring"},
        {"flush-early", NULL, AML_OPTION_FLAG, &bench.layers.early, 0, 0,
         "with --whole: nodes flush the model layer by layer, the last one first, while they compute"},
        {"layers", "N", AML_OPTION_INTEGER, &bench.layers.count, 2, 1000, "of that model, of as many rows each"},
        {"layers-share", "X", AML_OPTION_REAL, &bench.layers.share, 0, 1,
         "of a clock's computing time, in which the layers' gradients are computed"},
        {"iterations", "N", AML_OPTION_INTEGER, &bench.iterations, 2, 1000,
         "of each bar; the first half is not counted"},
        {"users", "N", AML_OPTION_INTEGER, &bench.users, 1, 1e8, "rows that one node at a time writes"},
        {"items", "N", AML_OPTION_INTEGER, &bench.items, 1, 1e8, "rows that all nodes add to"},
        {"ratings", "X", AML_OPTION_REAL, &bench.ratings, 1, 1e12, "data items"},
        {"rank", "N", AML_OPTION_INTEGER, &bench.rank, MODEL_WIDTH, 1e6, "floats of a row"},
        {"clocks", "N", AML_OPTION_INTEGER, &bench.clocks, 1, MODEL_CLOCKS_MAX, "of an iteration"},
        {"staleness", "S", AML_OPTION_INTEGER, &bench.staleness, 0, WIRE_STALENESS_MAX, "of reads"},
        {"commit-every", "N", AML_OPTION_INTEGER, &bench.commit_every, 0, WIRE_COMMIT_EVERY_MAX,
         "clocks between updates of the backups; 0: chosen"},
        {"threads", "N", AML_OPTION_INTEGER, &bench.threads, 1, 1024, "worker threads of a node"},
        {"rating-ns", "X", AML_OPTION_REAL, &bench.rating_ns, 0, 1e9, "a thread's time for a rating (bench_mf)"},
        {"load-rating-ns", "X", AML_OPTION_REAL, &bench.load_rating_ns, 0, 1e9, "... to load one"},
        {"gather-byte-ns", "X", AML_OPTION_REAL, &bench.gather_byte_ns, 0, 1e6,
         "... to take a byte of deltas (bench_ps)"},
        {"message-us", "X", AML_OPTION_REAL, &bench.message_us, 0, 1e6,
         "a thread's time to send or to receive a message (bench_ps) ..."},
        {"byte-ns", "X", AML_OPTION_REAL, &bench.byte_ns, 0, 1e6, "... and a byte of it"},
        {"jitter", "X", AML_OPTION_REAL, &bench.jitter, 0, 0.9, "computing takes up to this part more or less"},
        {"megabits", "X", AML_OPTION_REAL, &bench.megabits, 0.1, 1e6, "a second, of each link, each way"},
        {"latency", "US", AML_OPTION_REAL, &bench.latency_us, 1, 1e6, "one way"},
        {"report", "FILE", AML_OPTION_STRING, &bench.report_path, 0, 0,
         "the figures as lines of JSON too; of figure 16 the job's report"},
        {"quick", NULL, AML_OPTION_FLAG, &bench.quick, 0, 0, "16 nodes, a small job: does it run at all"},
        {0},
    };
    struct error error = {0};
    int status = measure_options(options, SUMMARY, argc, argv);
    if (status >= 0) {
        return status;
    }
    if (bench.quick) {
        bench.nodes = 16;
        bench.iterations = 4;
        bench.rank = 64;
        bench.users = 4800;
        bench.items = 1777;
        bench.ratings = 1e7;
        bench.rating_ns = 1000; /* changes of the cluster take less than an iteration of this small job */
    }
    int code = run(&bench, &error);
    if (code != 0) {
        fprintf(stderr, "%s\n", error.text);
    }
    return code == 0 ? 0 : error_exit_status(code);
}
