/* See metrics.h. */
#include "web/metrics.h"

#include <math.h>
#include <string.h>

static const char *const EVENTS[METRICS_EVENTS] = {"allocation",   "join",
                                                   "resume",       "start",
                                                   "stage",        "silent",
                                                   "heard",        "evict",
                                                   "evicted",      "failure",
                                                   "refused",      "recover",
                                                   "checkpoint",   "checkpoint-failed",
                                                   "save-failed",  "checkpoint-slow",
                                                   "balance",      "replace",
                                                   "add-feeder",   "remove-feeders",
                                                   "keep-feeders", "feeder-threads",
                                                   "take-part",    "unreachable"};
enum { EVENT_RECOVER = 11, EVENT_CHECKPOINT = 12, EVENT_CHECKPOINT_FAILED = 13 };
static const double BUCKETS[METRICS_BUCKETS] = {0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* Returns NaN if there is no such number. */
static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* ---- Counting ---- */

void metrics_close(struct metrics *metrics) {
    json_decref(metrics->money);
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

static void count_event(struct metrics *metrics, const json_t *line, double now) {
    const char *event = text_of(line, "event");
    for (unsigned e = 0; e < METRICS_EVENTS; e++) {
        if (strcmp(event, EVENTS[e]) == 0) {
            metrics->events[e]++;
            metrics->checkpoint_time = e == EVENT_CHECKPOINT ? now : metrics->checkpoint_time;
            if (e == EVENT_RECOVER && number_of(line, "recovery_seconds") >= 0) {
                count_recovery(metrics, number_of(line, "recovery_seconds"));
            }
        }
    }
}

void metrics_line(struct metrics *metrics, const json_t *line, double now) {
    const char *type = text_of(line, "type");
    if (strcmp(type, "event") == 0) {
        count_event(metrics, line, now);
    } else if (strcmp(type, "decision") == 0) {
        metrics->decisions++;
    } else if (strcmp(type, "money") == 0) {
        json_decref(metrics->money);
        metrics->money = json_deep_copy(line);
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

static bool is_transient(const json_t *stage) {
    return json_is_string(stage) && strcmp(json_string_value(stage), "transient") == 0;
}

static void put_job(const struct writer *writer, const json_t *status) {
    static const struct {
        const char *key, *name, *type, *help;
    } numbers[] = {
        {"iteration", "proteus_iterations_total", "counter", "Iterations that are completed."},
        {"clock", "proteus_clocks_total", "counter", "Clocks that are completed."},
        {"committed", "proteus_committed_clock", "gauge", "The clock that no recovery goes back behind."},
        {"items_processed", "proteus_items_processed_total", "counter", "Items processed, each once an iteration."},
        {"items_redone", "proteus_items_redone_total", "counter", "Items processed again for lost nodes."},
        {"failures", "proteus_failures_total", "counter", "Nodes that were lost."},
        {"evictions", "proteus_evictions_total", "counter", "Nodes that left in time."},
        {"seconds", "proteus_training_seconds_total", "counter", "Seconds of training."},
        {"objective", "proteus_objective", "gauge", "The objective after the last evaluated iteration."},
        {"iterations", "proteus_iterations_planned", "gauge", "Iterations that the job is to have, if limited."},
        {"epoch", "proteus_epoch", "gauge", "The epoch, which grows when nodes are lost."},
        {"version", "proteus_plan_version", "gauge", "The version of the plan in force."},
    };
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        put_one(writer, numbers[n].name, numbers[n].type, numbers[n].help, number_of(status, numbers[n].key));
    }
    const json_t *stage = json_object_get(status, "stage");
    put_one(writer, "proteus_stage", "gauge", "The stage; 0: traditional, 4: transient.",
            is_transient(stage)     ? 4
            : json_is_string(stage) ? 0
                                    : number_of(status, "stage"));
    put_one(writer, "proteus_training", "gauge", "1 while the job is in training.",
            strcmp(text_of(status, "phase"), "train") == 0);
}

/* In stages 2, 3 and transient each partition has a server and a backup. One of them may be missing between two
 * plans. */
static void put_partitions(const struct writer *writer, const json_t *status) {
    const json_t *partitions = json_object_get(status, "partitions");
    bool two = number_of(status, "stage") >= 2 || is_transient(json_object_get(status, "stage"));
    size_t p;
    json_t *partition;
    unsigned single = 0;
    json_array_foreach(partitions, p, partition) {
        single += two && !json_is_string(json_object_get(partition, "backup")) ? 1 : 0;
    }
    put_one(writer, "proteus_partitions", "gauge", "Partitions of the tables.", (double)json_array_size(partitions));
    put_one(writer, "proteus_partitions_single_copy", "gauge",
            "Partitions of which there is one copy where there should be two.", single);
}

static void put_node_counts(const struct writer *writer, const json_t *nodes) {
    static const char *const tiers[] = {"reliable", "transient", "feeder"};
    static const char *const states[] = {"registering", "loading", "loaded", "started", "finished", "leaving"};
    put_family(writer, "proteus_nodes", "gauge", "Nodes by tier and state.");
    for (size_t t = 0; t < sizeof tiers / sizeof *tiers; t++) {
        for (size_t s = 0; s < sizeof states / sizeof *states; s++) {
            size_t n;
            json_t *node;
            unsigned count = 0;
            json_array_foreach(nodes, n, node) {
                bool leaving = json_is_true(json_object_get(node, "leaving"));
                count += strcmp(text_of(node, "tier"), tiers[t]) == 0 &&
                         strcmp(leaving ? "leaving" : text_of(node, "state"), states[s]) == 0;
            }
            const struct label labels[] = {{"tier", tiers[t]}, {"state", states[s]}};
            put_labelled(writer, "proteus_nodes", labels, 2, count);
        }
    }
}

static void put_nodes(const struct writer *writer, const json_t *nodes) {
    static const struct {
        const char *key, *name, *type, *help;
        double factor;
    } numbers[] = {
        {"threads", "proteus_node_threads", "gauge", "Worker threads; of a feeder those with which it makes batches.",
         1},
        {"items", "proteus_node_items_processed_total", "counter", "Items of completed clocks.", 1},
        {"bytes_sent", "proteus_node_bytes_sent_total", "counter", "Bytes sent to other processes.", 1},
        {"bytes_received", "proteus_node_bytes_received_total", "counter", "Bytes received from other processes.", 1},
        {"memory_bytes", "proteus_node_memory_bytes", "gauge", "Memory of the node's process.", 1},
        {"disk_bytes", "proteus_node_disk_bytes", "gauge", "Data of the node that does not fit in memory.", 1},
        {"disk_wait_seconds", "proteus_node_disk_wait_seconds_total", "counter",
         "How long the node's clocks have waited for data on disk.", 1},
        {"serves", "proteus_node_partitions_served", "gauge", "Partitions that the node serves.", 1},
        {"follows", "proteus_node_partitions_followed", "gauge", "Partitions that the node keeps copies of.", 1},
        {"shards", "proteus_node_shards", "gauge", "Data shards that the node works on.", 1},
        {"items_per_second", "proteus_node_items_per_second", "gauge", "Over the short window, waiting included.", 1},
        {"slowness_short", "proteus_node_slowness", "gauge",
         "The node's time for an equal share by the mean of all nodes', over the short window; 1 for equal nodes.", 1},
        {"server_wait", "proteus_node_server_wait_seconds", "gauge",
         "How long nodes wait for it as a server, longer than for the earliest one, in a clock of the short window.",
         1},
        {"silent_ms", "proteus_node_silent_seconds", "gauge", "Time since the node was heard.", 1e-3},
    };
    size_t count = json_array_size(nodes);
    size_t shown = count < METRICS_NODES_MAX ? count : METRICS_NODES_MAX;
    put_family(writer, "proteus_node_up", "gauge", "1 for each node of the job.");
    for (size_t n = 0; n < shown; n++) {
        const json_t *node = json_array_get(nodes, n);
        const struct label labels[] = {
            {"node", text_of(node, "name")}, {"tier", text_of(node, "tier")}, {"host", text_of(node, "host")}};
        put_labelled(writer, "proteus_node_up", labels, 3, 1);
    }
    for (size_t m = 0; m < sizeof numbers / sizeof *numbers; m++) {
        put_family(writer, numbers[m].name, numbers[m].type, numbers[m].help);
        for (size_t n = 0; n < shown; n++) {
            const json_t *node = json_array_get(nodes, n);
            double value = number_of(node, numbers[m].key);
            const struct label label = {"node", text_of(node, "name")};
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
    for (unsigned e = 0; e < METRICS_EVENTS; e++) {
        const struct label label = {"event", EVENTS[e]};
        put_labelled(writer, "proteus_events_total", &label, 1, (double)metrics->events[e]);
    }
    put_one(writer, "proteus_checkpoints_total", "counter", "Checkpoints written since this controller began.",
            (double)metrics->events[EVENT_CHECKPOINT]);
    put_one(writer, "proteus_checkpoint_failures_total", "counter",
            "Checkpoints that could not be written since this controller began.",
            (double)metrics->events[EVENT_CHECKPOINT_FAILED]);
    put_one(writer, "proteus_last_checkpoint_timestamp_seconds", "gauge",
            "When this controller reported its last checkpoint.",
            metrics->checkpoint_time > 0 ? metrics->checkpoint_time : NAN);
}

/* ---- BidBrain ---- */

/* Writes the bill so far, by kind. A value may fall: an hour may turn out to be free, or a machine to have ended
 * earlier. */
static void put_kinds(const struct writer *writer, const json_t *money, const char *name, const char *help,
                      const char *const keys[2], double factor) {
    static const char *const kinds[] = {"on_demand", "spot"};
    put_family(writer, name, "gauge", help);
    for (unsigned k = 0; k < 2; k++) {
        const struct label label = {"kind", kinds[k]};
        put_labelled(writer, name, &label, 1, number_of(money, keys[k]) * factor);
    }
}

/* In lines `money`, on-demand machines are a market of their own, whose price is no spot price. */
static bool is_on_demand(const json_t *market) {
    static const char end[] = " on demand";
    const char *name = text_of(market, "market");
    size_t length = strlen(name);
    return length >= strlen(end) && strcmp(name + length - strlen(end), end) == 0;
}

static void put_markets(const struct writer *writer, const json_t *markets) {
    static const struct {
        const char *key, *name, *help;
    } numbers[] = {
        {"price", "bidbrain_spot_price_dollars", "The spot price of a machine-hour."},
        {"on_demand_price", "bidbrain_on_demand_price_dollars", "The same machine's price on demand."},
        {"bid", "bidbrain_bid_dollars", "Our highest bid for a machine-hour, where we have machines."},
        {"machines", "bidbrain_machines", "Our machines."},
    };
    size_t count = json_array_size(markets);
    size_t shown = count < METRICS_MARKETS_MAX ? count : METRICS_MARKETS_MAX;
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        put_family(writer, numbers[n].name, "gauge", numbers[n].help);
        for (size_t m = 0; m < shown; m++) {
            const json_t *market = json_array_get(markets, m);
            const struct label label = {"market", text_of(market, "market")};
            double value = number_of(market, numbers[n].key);
            bool other_price = strcmp(numbers[n].key, "price") == 0 && is_on_demand(market);
            if (!isnan(value) && !other_price) {
                put_labelled(writer, numbers[n].name, &label, 1, value);
            }
        }
    }
    put_one(writer, "bidbrain_markets_omitted", "gauge", "Markets without series of their own, as there are too many.",
            (double)(count - shown));
}

static void put_money(const struct writer *writer, const struct metrics *metrics) {
    static const char *const dollars[] = {"on_demand_dollars", "spot_dollars"};
    static const char *const hours[] = {"on_demand_hours", "spot_hours"};
    const json_t *money = metrics->money;
    put_one(writer, "bidbrain_decisions_total", "counter", "BidBrain's decisions since this process began.",
            (double)metrics->decisions);
    if (money == NULL) {
        return;
    }
    put_kinds(writer, money, "bidbrain_dollars_spent", "Dollars spent on machines.", dollars, 1);
    put_kinds(writer, money, "bidbrain_machine_seconds", "Time of machines.", hours, 3600);
    put_one(writer, "bidbrain_all_on_demand_dollars", "gauge", "What the same machine-hours would have cost on demand.",
            number_of(money, "all_on_demand_dollars"));
    put_one(writer, "bidbrain_dollars_per_work", "gauge", "Dollars by vCPU-hour so far.",
            number_of(money, "dollars_per_work"));
    put_one(writer, "bidbrain_budget_dollars", "gauge", "The most that may be spent, if limited.",
            number_of(money, "budget_dollars"));
    put_markets(writer, json_object_get(money, "markets"));
}

static void put_all_of_job(const struct writer *writer, const struct metrics *metrics,
                           const struct metrics_moment *moment) {
    const json_t *nodes = json_object_get(moment->status, "nodes");
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
    if (!moment->money) {
        put_all_of_job(&writer, metrics, moment);
    }
    put_money(&writer, metrics);
    if (moment->open) {
        fputs("# EOF\n", stream);
    }
}
