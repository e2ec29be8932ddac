/* `bidbrain simulate`: runs the cost study on recorded prices. */
#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "bidbrain/market/command.h"
#include "bidbrain/market/market_read.h"
#include "bidbrain/study/command.h"
#include "bidbrain/study/figures.h"
#include "bidbrain/study/study.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct simulate {
    struct study_options study;
    const char *prices, *product, *model, *catalog, *interruptions, *log, *plot, *speeds;
    struct type_speed *speed_list;
    bool json, help;
};

static void print_table(const struct study *study, const struct scheme_summary *summaries) {
    char first[INSTANT_TEXT_MAX];
    char last[INSTANT_TEXT_MAX];
    instant_format(study->first_start, first);
    instant_format(study->last_start, last);
    const struct study_options *options = &study->options;
    printf("%s, %zu markets of %s; %g hours of work on %" PRId64 " x %s; %" PRId64 " starts from %s to %s\n",
           options->rules->name, study->count, options->zone != NULL ? options->zone : study->region,
           options->job_hours, options->machines, options->reference, options->starts, first, last);
    printf("standard bidding failed every %.1f hours in the time learned from; checkpoints every %.0f s cost %.1f %% "
           "of time\n",
           study->mttf_hours, study->checkpoint_interval, 100 * study->checkpoint_share);
    printf("%-34s %16s %16s %14s %7s %9s %28s\n", "scheme", "cost $", "% of on-demand", "runtime h", "p95 h",
           "evictions", "machine-h dem./spot/free");
    for (size_t s = 0; s < study->scheme_count; s++) {
        const struct scheme_summary *x = &summaries[s];
        char late[40] = "";
        if (options->deadline_hours > 0) {
            snprintf(late, sizeof late, "  %" PRIu64 " of %" PRId64 " late", x->late, options->starts);
        }
        printf("%-34s %8.2f +- %-5.2f %8.1f +- %-4.1f %6.2f +- %-5.2f %7.2f %9.2f %10.1f %8.1f %8.1f%s%s\n",
               x->scheme->name, x->dollars.mean, x->dollars.ci95, 100 * x->relative.mean, 100 * x->relative.ci95,
               x->hours.mean, x->hours.ci95, x->hours_p95, x->evictions.mean, x->on_demand_hours.mean,
               x->spot_hours.mean, x->free_hours.mean, late, x->unfinished > 0 ? "  (not all finished)" : "");
    }
}

static json_t *json_statistic(struct statistic statistic) {
    return json_pack("{s:f,s:f}", "mean", statistic.mean, "ci95", statistic.ci95);
}

static int print_json(const struct study *study, const struct scheme_summary *summaries, struct error *error) {
    json_t *schemes = json_array();
    for (size_t s = 0; s < study->scheme_count; s++) {
        const struct scheme_summary *x = &summaries[s];
        json_t *scheme = json_pack("{s:s,s:o,s:o,s:o,s:f,s:o,s:o,s:I,s:I,s:{s:o,s:o,s:o}}", "scheme", x->scheme->name,
                                   "cost", json_statistic(x->dollars), "relative_cost", json_statistic(x->relative),
                                   "runtime_hours", json_statistic(x->hours), "runtime_hours_p95", x->hours_p95,
                                   "evictions", json_statistic(x->evictions), "restarts", json_statistic(x->restarts),
                                   "unfinished", (json_int_t)x->unfinished, "late", (json_int_t)x->late, "hours",
                                   "on_demand", json_statistic(x->on_demand_hours), "spot",
                                   json_statistic(x->spot_hours), "free", json_statistic(x->free_hours));
        json_array_append_new(schemes, scheme);
    }
    json_t *root = json_pack("{s:s,s:s,s:I,s:f,s:I,s:f,s:f,s:o}", "model", study->options.rules->name, "region",
                             study->region, "markets", (json_int_t)study->count, "job_hours", study->options.job_hours,
                             "starts", (json_int_t)study->options.starts, "mttf_hours", study->mttf_hours,
                             "checkpoint_interval_seconds", study->checkpoint_interval, "schemes", schemes);
    bool written = root != NULL && json_dumpf(root, stdout, JSON_REAL_PRECISION(9)) == 0;
    putchar('\n');
    json_decref(root);
    return written ? 0 : error_set(error, AML_EFAIL, "can't write JSON");
}

static int simulate_run(const struct simulate *simulate, const struct study *study, struct error *error) {
    struct scheme_summary summaries[STUDY_SCHEMES_MAX];
    FILE *log = NULL;
    if (simulate->log != NULL) {
        /* study_run empties the log before it writes: after Ctrl-C an older log is left */
        log = fopen(simulate->log, "ae");
        if (log == NULL) {
            return error_set(error, AML_EINPUT, "--log: %s: %s", simulate->log, strerror(errno));
        }
    }
    int code = study_run(study, summaries, log, error);
    if (log != NULL && fclose(log) != 0 && code == 0) {
        code = error_set(error, AML_EFAIL, "--log: %s: %s", simulate->log, strerror(errno));
    }
    if (code == 0 && simulate->json) {
        code = print_json(study, summaries, error);
    } else if (code == 0) {
        print_table(study, summaries);
    }
    return code == 0 && simulate->plot != NULL ? figures_plot(study, summaries, simulate->plot, error) : code;
}

static int simulate(struct simulate *simulate, struct error *error) {
    struct markets markets = {0};
    struct catalog catalog;
    struct study study;
    int code = market_rules_read(&simulate->study.rules, "model", simulate->model, error);
    code = code == 0 && simulate->plot != NULL ? figures_check(error) : code;
    if (code == 0 && simulate->speeds != NULL) {
        code = command_speeds(simulate->speeds, &simulate->speed_list, &simulate->study.speed_count, error);
        simulate->study.speeds = simulate->speed_list;
    }
    code = code != 0 ? code
                     : command_prices(simulate->prices, simulate->product, simulate->catalog,
                                      simulate->study.rules->year, &markets, &catalog, error);
    if (code != 0) {
        return code;
    }
    code = study_open(&study, &simulate->study, &markets, &catalog, simulate->interruptions, error);
    if (code == 0) {
        if (study.unknown > 0) {
            log_warn("%" PRIu64
                     " markets were left out: the catalog has no on-demand price for their types and regions",
                     study.unknown);
        }
        code = simulate_run(simulate, &study, error);
        study_close(&study);
    }
    markets_close(&markets);
    catalog_close(&catalog);
    return code;
}

int command_simulate(int argc, char **argv) {
    struct simulate s = {
        .study = study_defaults(), .product = MARKET_PRODUCT, .model = "ec2-2016", .interruptions = "none"};
    struct study_options *o = &s.study;
    int64_t seed = (int64_t)o->seed;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    o->threads = processors > 0 ? processors : 1;
    const struct aml_option options[] = {
        {"prices", "PATH", AML_OPTION_STRING, &s.prices, 0, 0, "files of spot prices: a file, a folder, a store (.db)"},
        {"model", "MODEL", AML_OPTION_STRING, &s.model, 0, 0,
         "market model: ec2-2016 (bids, whole hours) or ec2 (today)"},
        {"schemes", "LIST", AML_OPTION_STRING, &o->schemes, 0, 0,
         "comma-separated: on-demand, standard+checkpoint, standard+agileml, cheapest+checkpoint, eager+checkpoint, "
         "uniform+checkpoint (with --deadline-hours), proteus, proteus+learning, +decay, +memory, +conditional, "
         "+joint, +diverse, +measured, +end, +additions (memory, conditional, joint, end, measured), +transient "
         "(additions, no reliable machine), +speeds and +true-speeds (additions, with --speeds), +all (additions and "
         "diverse) (not given: all)"},
        {"job-hours", "H", AML_OPTION_REAL, &o->job_hours, 0.01, 1000,
         "work of a job: hours on the reference machines"},
        {"machines", "N", AML_OPTION_INTEGER, &o->machines, 1, 100000, "reference machines"},
        {"reference", "TYPE", AML_OPTION_STRING, &o->reference, 0, 0, "their type"},
        {"starts", "N", AML_OPTION_INTEGER, &o->starts, 1, STUDY_STARTS_MAX, "random starts, the same for all schemes"},
        {"seed", "N", AML_OPTION_INTEGER, &seed, 0, 9007199254740992.0, "seed of starts and interruptions"},
        {"threads", "N", AML_OPTION_INTEGER, &o->threads, 1, 256, "jobs simulated at once"},
        {"json", NULL, AML_OPTION_FLAG, &s.json, 0, 0, "print JSON instead of a table"},
        {"plot", "FILE.svg", AML_OPTION_STRING, &s.plot, 0, 0, "draw cost, runtime and machine-hours with gnuplot"},
        {"log", "FILE", AML_OPTION_STRING, &s.log, 0, 0, "write each action as a JSON line"},
        {"help", "[TOPIC]", AML_OPTION_FLAG, &s.help, 0, 0, "this text, or a topic's options"},
        OPTIONS_TOPIC("prices", "which markets count"),
        {"zone", "ZONE", AML_OPTION_STRING, &o->zone, 0, 0, "only markets whose zone begins with this"},
        {"product", "TEXT", AML_OPTION_STRING, &s.product, 0, 0, "product description"},
        {"catalog", "FILE", AML_OPTION_STRING, &s.catalog, 0, 0, "JSON of more instance types, see docs/bidbrain.md"},
        {"vcpus-min", "N", AML_OPTION_INTEGER, &o->vcpus_min, 1, 1000, "leave smaller types out"},
        {"memory-min", "GIB", AML_OPTION_REAL, &o->memory_min, 0, 1e5, "leave types with less memory out"},
        {"train", "SHARE", AML_OPTION_REAL, &o->train, 0.01, 0.99, "share of the prices' span used for learning only"},
        {"interruptions", "SPEC", AML_OPTION_STRING, &s.interruptions, 0, 0,
         "for ec2: none, advisor:FILE, lifetimes:FILE, replay:PATH"},
        OPTIONS_TOPIC("app", "how it scales and fails"),
        {"reliable", "N", AML_OPTION_INTEGER, &o->reliable, 0, 100000,
         "on-demand machines that AgileML keeps its state on"},
        {"reliable-type", "TYPE", AML_OPTION_STRING, &o->reliable_type, 0, 0, "their type"},
        {"phi", "X", AML_OPTION_REAL, &o->app.phi, 0, 1, "how much work beyond the reference machines' counts"},
        {"sigma-seconds", "S", AML_OPTION_REAL, &o->app.sigma_seconds, 0, 1e5,
         "time without progress when machines join"},
        {"lambda-seconds", "S", AML_OPTION_REAL, &o->app.lambda_seconds, 0, 1e5,
         "time without progress when machines are evicted"},
        {"assumed-phi", "X", AML_OPTION_REAL, &o->assumed.phi, -1, 1, "phi as the policy assumes it; -1: as it is"},
        {"assumed-sigma-seconds", "S", AML_OPTION_REAL, &o->assumed.sigma_seconds, -1, 1e5, "the same for sigma"},
        {"assumed-lambda-seconds", "S", AML_OPTION_REAL, &o->assumed.lambda_seconds, -1, 1e5, "the same for lambda"},
        {"boot-seconds", "S", AML_OPTION_INTEGER, &o->boot_seconds, 0, 1e5,
         "time from buying a machine to its first work"},
        {"notice-seconds", "S", AML_OPTION_INTEGER, &o->notice_seconds, 0, 1e5, "notice before an eviction"},
        {"drain-seconds", "S", AML_OPTION_INTEGER, &o->drain_seconds, 0, 1e5, "notice that a clean departure needs"},
        {"recovery-seconds", "S", AML_OPTION_INTEGER, &o->recovery_seconds, 0, 1e5,
         "time lost without any notice; with a short notice a part of it"},
        {"checkpoint-overhead", "X", AML_OPTION_REAL, &o->checkpoints.overhead, 0, 1,
         "time for checkpoints over time for work"},
        {"checkpoint-seconds", "S", AML_OPTION_REAL, &o->checkpoints.seconds, 0, 1e5,
         "time of one checkpoint; the mean time to failure then gives overhead and interval; 0: as above"},
        {"restart-seconds", "S", AML_OPTION_REAL, &o->checkpoints.restart_seconds, 0, 1e5,
         "time to read a checkpoint on new machines"},
        OPTIONS_TOPIC("limits", "what may be bought"),
        {"most-scale", "X", AML_OPTION_REAL, &o->most_scale, 0.01, 1000,
         "most vCPUs at once, over the reference machines'"},
        {"most-machines", "N", AML_OPTION_INTEGER, &o->most_machines, 1, 1e6, "most spot machines at once"},
        {"most-dollars-per-hour", "D", AML_OPTION_REAL, &o->most_dollars_per_hour, 0, 1e9, "most to spend in an hour"},
        {"least-markets", "N", AML_OPTION_INTEGER, &o->least_markets, 1, 1000,
         "buy in at least N markets: none gets more than 1/N of the most vCPUs"},
        {"cooldown-seconds", "S", AML_OPTION_INTEGER, &o->cooldown_seconds, 0, 1e6,
         "time without bids for a market after it has evicted"},
        {"whole-hours", NULL, AML_OPTION_FLAG, &o->whole_hours, 0, 0,
         "no job follows: the last hours are paid whole; else only what is used of them"},
        OPTIONS_TOPIC("additions", "of some schemes"),
        {"deadline-hours", "H", AML_OPTION_REAL, &o->deadline_hours, 0, 1e5,
         "from a job's start, for proteus+end, +additions, +all and uniform+checkpoint; 0: none"},
        {"hour-worth", "D", AML_OPTION_REAL, &o->hour_worth, 0, 1e6,
         "dollars that ending an hour sooner is worth to the same schemes"},
        {"speeds", "FILE", AML_OPTION_STRING, &s.speeds, 0, 0,
         "JSON of true speeds of types' vCPUs, {\"m1.large\": 0.5}; the reference and all others have 1"},
        {"probe-types", "N", AML_OPTION_INTEGER, &o->probes, 0, PORTFOLIO_PROBES_MAX,
         "types of unknown speed of which proteus+speeds buys one machine each beside a purchase"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct error error = {0};
    int code = command_options(options, "usage: bidbrain simulate --prices PATH [OPTIONS]", argc, argv, &error);
    if (code == 1) {
        return 0;
    }
    o->seed = (uint64_t)seed;
    code = code != 0 ? code : simulate(&s, &error);
    free(s.speed_list);
    return command_end(code, &error);
}
