/* See metrics.h. */
#include "web/metrics.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const double BUCKETS[METRICS_BUCKETS] = {0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

static const char *text_of(const char *text) {
    return text != NULL ? text : "";
}

/* Returns the number at this offset of a struct of report_line.h. */
static double number_at(const void *object, size_t at) {
    return *(const double *)(const void *)((const char *)object + at);
}

/* ---- Counting ---- */

void metrics_close(struct metrics *metrics) {
    report_line_drop(metrics->money);
    *metrics = (struct metrics){0};
}

static void count_recovery(struct metrics *metrics, double seconds) {
    unsigned bucket = 0;
    while (bucket < METRICS_BUCKETS && seconds > BUCKETS[bucket]) {
        bucket++;
    }
    metrics->recoveries[bucket]++;
    metrics->recovery_seconds += seconds;
}

void metrics_line(struct metrics *metrics, const struct report_line *line, double now) {
    if (line->is == REPORT_EVENT) {
        metrics->events[line->happened]++;
        metrics->checkpoint_time = line->happened == HAPPENED_CHECKPOINT ? now : metrics->checkpoint_time;
        if (line->happened == HAPPENED_RECOVER && line->recovery_seconds >= 0) {
            count_recovery(metrics, line->recovery_seconds);
        }
    } else if (line->is == REPORT_DECISION) {
        metrics->decisions++;
    } else if (line->is == REPORT_MONEY) {
        report_line_drop(metrics->money);
        metrics->money = report_line_hold(line);
    }
}

/* ---- Writing ---- */

struct writer {
    FILE *stream;
    bool open;
};

/* Begins a family of samples. In OpenMetrics the family name of a counter lacks the _total of its samples. */
static void put_family(const struct writer *writer, const char *name, const char *type, const char *help) {
    bool counter = writer->open && strcmp(type, "counter") == 0;
    int length = (int)(strlen(name) - (counter ? strlen("_total") : 0));
    fprintf(writer->stream, "# HELP %.*s %s\n# TYPE %.*s %s\n", length, name, help, length, name, type);
}

static void put_number(const struct writer *writer, double value) {
    if (isnan(value)) {
        fputs(" NaN\n", writer->stream);
    } else if (isinf(value)) {
        fputs(value > 0 ? " +Inf\n" : " -Inf\n", writer->stream);
    } else {
        fprintf(writer->stream, " %.15g\n", value);
    }
}

static void put_sample(const struct writer *writer, const char *name, double value) {
    fputs(name, writer->stream);
    put_number(writer, value);
}

/* Writes a family of one sample, if its value is known. */
static void put_one(const struct writer *writer, const char *name, const char *type, const char *help, double value) {
    if (!isnan(value)) {
        put_family(writer, name, type, help);
        put_sample(writer, name, value);
    }
}

/* Writes a label's value, escaped: names come from nodes and markets. */
static void put_escaped(const struct writer *writer, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '\\' || *text == '"') {
            putc('\\', writer->stream);
            putc(*text, writer->stream);
        } else if (*text == '\n') {
            fputs("\\n", writer->stream);
        } else {
            putc(*text, writer->stream);
        }
    }
}

struct label {
    const char *name, *value;
};

static void put_labelled(const struct writer *writer, const char *name, const struct label *labels, size_t count,
                         double value) {
    fputs(name, writer->stream);
    for (size_t l = 0; l < count; l++) {
        fprintf(writer->stream, "%s%s=\"", l > 0 ? "," : "{", labels[l].name);
        put_escaped(writer, labels[l].value);
        putc('"', writer->stream);
    }
    putc('}', writer->stream);
    put_number(writer, value);
}

/* ---- The job ---- */

static bool is_transient(const struct report_stage *stage) {
    return strcmp(stage->name, "transient") == 0;
}

static void put_job(const struct writer *writer, const struct report_line *status) {
    const struct {
        double value;
        const char *name, *type, *help;
    } numbers[] = {
        {status->iteration, "proteus_iterations_total", "counter", "Iterations that are completed."},
        {status->clock, "proteus_clocks_total", "counter", "Clocks that are completed."},
        {status->committed, "proteus_committed_clock", "gauge", "The clock that no recovery goes back behind."},
        {status->items_processed, "proteus_items_processed_total", "counter",
         "Items processed, each once an iteration."},
        {status->items_redone, "proteus_items_redone_total", "counter", "Items processed again for lost nodes."},
        {status->failures, "proteus_failures_total", "counter", "Nodes that were lost."},
        {status->evictions, "proteus_evictions_total", "counter", "Nodes that left in time."},
        {status->seconds, "proteus_training_seconds_total", "counter", "Seconds of training."},
        {status->objective, "proteus_objective", "gauge", "The objective after the last evaluated iteration."},
        {status->iterations, "proteus_iterations_planned", "gauge", "Iterations that the job is to have, if limited."},
        {status->epoch, "proteus_epoch", "gauge", "The epoch, which grows when nodes are lost."},
        {status->version, "proteus_plan_version", "gauge", "The version of the plan in force."},
        {is_transient(&status->stage)    ? 4
         : status->stage.name[0] != '\0' ? 0
                                         : status->stage.number,
         "proteus_stage", "gauge", "The stage; 0: traditional, 4: transient."},
        {strcmp(text_of(status->phase), "train") == 0, "proteus_training", "gauge", "1 while the job is in training."},
    };
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        put_one(writer, numbers[n].name, numbers[n].type, numbers[n].help, numbers[n].value);
    }
}

/* In stages 2, 3 and transient each partition has a server and a backup. One of them may be missing between two
 * plans. */
static void put_partitions(const struct writer *writer, const struct report_line *status) {
    bool two = status->stage.number >= 2 || is_transient(&status->stage);
    unsigned single = 0;
    for (size_t p = 0; p < status->partitions.count; p++) {
        single += two && status->partitions.list[p].backup == NULL ? 1 : 0;
    }
    put_one(writer, "proteus_partitions", "gauge", "Partitions of the tables.", (double)status->partitions.count);
    put_one(writer, "proteus_partitions_single_copy", "gauge",
            "Partitions of which there is one copy where there should be two.", single);
}

static void put_node_counts(const struct writer *writer, const struct report_nodes *nodes) {
    static const char *const tiers[] = {"reliable", "transient", "feeder"};
    static const char *const states[] = {"registering", "loading", "loaded", "started", "finished", "leaving"};
    put_family(writer, "proteus_nodes", "gauge", "Nodes by tier and state.");
    for (size_t t = 0; t < sizeof tiers / sizeof *tiers; t++) {
        for (size_t s = 0; s < sizeof states / sizeof *states; s++) {
            unsigned count = 0;
            for (size_t n = 0; n < nodes->count; n++) {
                const struct report_node *node = &nodes->list[n];
                count += strcmp(text_of(node->tier), tiers[t]) == 0 &&
                         strcmp(node->leaving ? "leaving" : text_of(node->state), states[s]) == 0;
            }
            const struct label labels[] = {{"tier", tiers[t]}, {"state", states[s]}};
            put_labelled(writer, "proteus_nodes", labels, 2, count);
        }
    }
}

static void put_nodes(const struct writer *writer, const struct report_nodes *nodes) {
    static const struct {
        size_t at; /* offset of the node's number */
        const char *name, *type, *help;
        double factor;
    } numbers[] = {
        {offsetof(struct report_node, threads), "proteus_node_threads", "gauge",
         "Worker threads; of a feeder those with which it makes batches.", 1},
        {offsetof(struct report_node, items), "proteus_node_items_processed_total", "counter",
         "Items of completed clocks.", 1},
        {offsetof(struct report_node, bytes_sent), "proteus_node_bytes_sent_total", "counter",
         "Bytes sent to other processes.", 1},
        {offsetof(struct report_node, bytes_received), "proteus_node_bytes_received_total", "counter",
         "Bytes received from other processes.", 1},
        {offsetof(struct report_node, memory_bytes), "proteus_node_memory_bytes", "gauge",
         "Memory of the node's process.", 1},
        {offsetof(struct report_node, disk_bytes), "proteus_node_disk_bytes", "gauge",
         "Data of the node that does not fit in memory.", 1},
        {offsetof(struct report_node, disk_wait_seconds), "proteus_node_disk_wait_seconds_total", "counter",
         "How long the node's clocks have waited for data on disk.", 1},
        {offsetof(struct report_node, serves), "proteus_node_partitions_served", "gauge",
         "Partitions that the node serves.", 1},
        {offsetof(struct report_node, follows), "proteus_node_partitions_followed", "gauge",
         "Partitions that the node keeps copies of.", 1},
        {offsetof(struct report_node, shards), "proteus_node_shards", "gauge", "Data shards that the node works on.",
         1},
        {offsetof(struct report_node, items_per_second), "proteus_node_items_per_second", "gauge",
         "Over the short window, waiting included.", 1},
        {offsetof(struct report_node, slowness_short), "proteus_node_slowness", "gauge",
         "The node's time for an equal share by the mean of all nodes', over the short window; 1 for equal nodes.", 1},
        {offsetof(struct report_node, server_wait), "proteus_node_server_wait_seconds", "gauge",
         "How long nodes wait for it as a server, longer than for the earliest one, in a clock of the short window.",
         1},
        {offsetof(struct report_node, silent_ms), "proteus_node_silent_seconds", "gauge",
         "Time since the node was heard.", 1e-3},
    };
    size_t count = nodes->count;
    size_t shown = count < METRICS_NODES_MAX ? count : METRICS_NODES_MAX;
    put_family(writer, "proteus_node_up", "gauge", "1 for each node of the job.");
    for (size_t n = 0; n < shown; n++) {
        const struct report_node *node = &nodes->list[n];
        const struct label labels[] = {
            {"node", text_of(node->name)}, {"tier", text_of(node->tier)}, {"host", text_of(node->host)}};
        put_labelled(writer, "proteus_node_up", labels, 3, 1);
    }
    for (size_t m = 0; m < sizeof numbers / sizeof *numbers; m++) {
        put_family(writer, numbers[m].name, numbers[m].type, numbers[m].help);
        for (size_t n = 0; n < shown; n++) {
            const struct report_node *node = &nodes->list[n];
            double value = number_at(node, numbers[m].at);
            const struct label label = {"node", text_of(node->name)};
            put_labelled(writer, numbers[m].name, &label, 1, isnan(value) ? 0 : value * numbers[m].factor);
        }
    }
    put_one(writer, "proteus_nodes_omitted", "gauge", "Nodes without series of their own, as there are too many.",
            (double)(count - shown));
}

/* ---- The report ---- */

static void put_recoveries(const struct writer *writer, const struct metrics *metrics) {
    uint64_t below = 0;
    put_family(writer, "proteus_recovery_seconds", "histogram", "Time from the loss of nodes until others took over.");
    for (unsigned b = 0; b < METRICS_BUCKETS; b++) {
        below += metrics->recoveries[b];
        fprintf(writer->stream, "proteus_recovery_seconds_bucket{le=\"%g\"} %llu\n", BUCKETS[b],
                (unsigned long long)below);
    }
    below += metrics->recoveries[METRICS_BUCKETS];
    fprintf(writer->stream, "proteus_recovery_seconds_bucket{le=\"+Inf\"} %llu\n", (unsigned long long)below);
    put_sample(writer, "proteus_recovery_seconds_sum", metrics->recovery_seconds);
    fprintf(writer->stream, "proteus_recovery_seconds_count %llu\n", (unsigned long long)below);
}

static void put_events(const struct writer *writer, const struct metrics *metrics) {
    put_family(writer, "proteus_events_total", "counter", "Events of the report since this controller began.");
    for (unsigned e = HAPPENED_UNKNOWN + 1; e < HAPPENED_COUNT; e++) {
        const struct label label = {"event", report_event_name((enum report_event)e)};
        put_labelled(writer, "proteus_events_total", &label, 1, (double)metrics->events[e]);
    }
    put_one(writer, "proteus_checkpoints_total", "counter", "Checkpoints written since this controller began.",
            (double)metrics->events[HAPPENED_CHECKPOINT]);
    put_one(writer, "proteus_checkpoint_failures_total", "counter",
            "Checkpoints that could not be written since this controller began.",
            (double)metrics->events[HAPPENED_CHECKPOINT_FAILED]);
    put_one(writer, "proteus_last_checkpoint_timestamp_seconds", "gauge",
            "When this controller reported its last checkpoint.",
            metrics->checkpoint_time > 0 ? metrics->checkpoint_time : NAN);
}

/* ---- BidBrain ---- */

/* Writes the bill so far, by kind. A value may fall: an hour may turn out to be free, or a machine to have ended
 * earlier. */
static void put_kinds(const struct writer *writer, const char *name, const char *help, double on_demand, double spot) {
    const struct label kinds[] = {{"kind", "on_demand"}, {"kind", "spot"}};
    put_family(writer, name, "gauge", help);
    put_labelled(writer, name, &kinds[0], 1, on_demand);
    put_labelled(writer, name, &kinds[1], 1, spot);
}

/* In lines `money`, on-demand machines are a market of their own, whose price is no spot price. */
static bool is_on_demand(const struct report_place *market) {
    static const char end[] = " on demand";
    const char *name = text_of(market->market);
    size_t length = strlen(name);
    return length >= strlen(end) && strcmp(name + length - strlen(end), end) == 0;
}

static void put_markets(const struct writer *writer, const struct report_places *markets) {
    static const struct {
        size_t at; /* offset of the market's number */
        const char *name, *help;
    } numbers[] = {
        {offsetof(struct report_place, price), "bidbrain_spot_price_dollars", "The spot price of a machine-hour."},
        {offsetof(struct report_place, on_demand_price), "bidbrain_on_demand_price_dollars",
         "The same machine's price on demand."},
        {offsetof(struct report_place, bid), "bidbrain_bid_dollars",
         "Our highest bid for a machine-hour, where we have machines."},
        {offsetof(struct report_place, machines), "bidbrain_machines", "Our machines."},
    };
    size_t count = markets->count;
    size_t shown = count < METRICS_MARKETS_MAX ? count : METRICS_MARKETS_MAX;
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        put_family(writer, numbers[n].name, "gauge", numbers[n].help);
        for (size_t m = 0; m < shown; m++) {
            const struct report_place *market = &markets->list[m];
            const struct label label = {"market", text_of(market->market)};
            double value = number_at(market, numbers[n].at);
            bool other_price = numbers[n].at == offsetof(struct report_place, price) && is_on_demand(market);
            if (!isnan(value) && !other_price) {
                put_labelled(writer, numbers[n].name, &label, 1, value);
            }
        }
    }
    put_one(writer, "bidbrain_markets_omitted", "gauge", "Markets without series of their own, as there are too many.",
            (double)(count - shown));
}

static void put_money(const struct writer *writer, const struct metrics *metrics) {
    const struct report_line *money = metrics->money;
    put_one(writer, "bidbrain_decisions_total", "counter", "BidBrain's decisions since this process began.",
            (double)metrics->decisions);
    if (money == NULL) {
        return;
    }
    put_kinds(writer, "bidbrain_dollars_spent", "Dollars spent on machines.", money->on_demand_dollars,
              money->spot_dollars);
    put_kinds(writer, "bidbrain_machine_seconds", "Time of machines.", money->on_demand_hours * 3600,
              money->spot_hours * 3600);
    put_one(writer, "bidbrain_all_on_demand_dollars", "gauge", "What the same machine-hours would have cost on demand.",
            money->all_on_demand_dollars);
    put_one(writer, "bidbrain_dollars_per_work", "gauge", "Dollars by vCPU-hour so far.", money->dollars_per_work);
    put_one(writer, "bidbrain_budget_dollars", "gauge", "The most that may be spent, if limited.",
            money->budget_dollars);
    put_markets(writer, &money->markets);
}

static void put_all_of_job(const struct writer *writer, const struct metrics *metrics,
                           const struct metrics_moment *moment) {
    const struct report_nodes *nodes = &moment->status->nodes;
    put_job(writer, moment->status);
    put_partitions(writer, moment->status);
    put_node_counts(writer, nodes);
    put_nodes(writer, nodes);
    put_one(writer, "proteus_report_lines_total", "counter", "Lines of the report.", (double)moment->lines);
    put_one(writer, "proteus_controller_start_time_seconds", "gauge", "When this controller began.",
            moment->controller_began);
    put_recoveries(writer, metrics);
    put_events(writer, metrics);
}

void metrics_write(const struct metrics *metrics, const struct metrics_moment *moment, FILE *stream) {
    const struct writer writer = {stream, moment->open};
    if (!moment->money && moment->status != NULL) {
        put_all_of_job(&writer, metrics, moment);
    }
    put_money(&writer, metrics);
    if (moment->open) {
        fputs("# EOF\n", stream);
    }
}
