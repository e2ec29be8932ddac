/* See report.h. */
#include "agileml/control/state/report.h"

#include "agileml/base/memory.h"
#include "agileml/control/state/controller_private.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

double report_metric(const struct wire_metric *metric, const struct wire_metric_sum *sum) {
    switch (metric->kind) {
    case METRIC_MEAN:
        return sum->weight != 0 ? sum->sum / sum->weight : NAN;
    case METRIC_ROOT_MEAN:
        return sum->weight != 0 ? sqrt(sum->sum / sum->weight) : NAN;
    case METRIC_EXP_MEAN:
        return sum->weight != 0 ? exp(sum->sum / sum->weight) : NAN;
    default:
        return sum->sum;
    }
}

void report_set_real(json_t *object, const char *key, double value) {
    json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

void report_set_whole(json_t *object, const char *key, uint64_t value) {
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void set_values(json_t *object, const struct controller *controller, const double *values) {
    if (controller->job.metric_count > 0) {
        report_set_real(object, "objective", values[0]);
    }
    for (unsigned i = 0; i < controller->job.metric_count; i++) {
        report_set_real(object, controller->job.metrics[i].name, values[i]);
    }
}

/* Adds the share of the items that the metrics cover, if not all. */
static void set_covered(json_t *object, double covered) {
    if (covered < 1) {
        report_set_real(object, "partial", covered);
    }
}

static json_t *new_line(const char *type) {
    json_t *object = json_object();
    json_object_set_new(object, "type", json_string(type));
    return object;
}

/* Returns the numbers of all nodes together: the memory of the largest node, what is on disk now, and of other numbers
 * the sum, which includes nodes that are gone. */
static struct node_numbers numbers_so_far(const struct controller *controller) {
    struct node_numbers sum = controller->progress.gone;
    uint64_t memory = 0;
    sum.disk_bytes = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct node_numbers *numbers = &controller->members[m].usage.numbers;
        memory = numbers->memory_bytes > memory ? numbers->memory_bytes : memory;
        numbers_add(&sum, numbers);
    }
    sum.memory_bytes = memory;
    return sum;
}

static void set_stage(json_t *object, const struct controller *controller) {
    if (plan_all_serve(controller->plan.stage)) {
        json_object_set_new(object, "stage", json_string(plan_stage_name(controller->plan.stage)));
    } else {
        report_set_whole(object, "stage", controller->plan.stage);
    }
}

/* Adds the node's group. Without this field, the host counts as the group. */
static void set_group(json_t *object, const struct member *member) {
    if (member->group[0] != '\0') {
        json_object_set_new(object, "group", report_text(member->group));
    }
}

static void set_cluster(json_t *object, const struct controller *controller) {
    uint64_t tiers[TIERS] = {0};
    for (unsigned m = 0; m < controller->member_count; m++) {
        tiers[controller->members[m].node.tier]++;
    }
    set_stage(object, controller);
    report_set_whole(object, "reliable", tiers[TIER_RELIABLE]);
    report_set_whole(object, "transient", tiers[TIER_TRANSIENT]);
    if (tiers[TIER_FEEDER] > 0) {
        report_set_whole(object, "feeders", tiers[TIER_FEEDER]);
    }
}

bool report_iteration_is_whole(const struct controller *controller) {
    return controller->progress.completed >= controller->progress.first + controller->job.terms.clocks_per_iteration;
}

uint64_t report_processed(const struct controller *controller) {
    const struct clock_sums *sums = &controller->progress.iteration;
    bool more = sums->missing > 0 && report_iteration_is_whole(controller) && controller->job.items > sums->items;
    return more ? controller->job.items : sums->items;
}

double report_covered(const struct controller *controller, const struct clock_sums *sums, uint64_t clocks) {
    double shards = (double)controller->options.policy.shards;
    double worked = 1 - (double)sums->missing / (shards * (double)clocks);
    double evaluated = 1 - (double)sums->unevaluated / shards;
    return fmax(0, fmin(worked, evaluated));
}

/* Adds the metrics' values of these clocks; null for a metric without a value. */
static void set_measured(json_t *object, const struct controller *controller, const struct clock_sums *sums) {
    double values[WIRE_METRICS_MAX];
    for (unsigned i = 0; i < controller->job.metric_count; i++) {
        values[i] = report_metric(&controller->job.metrics[i], &sums->metrics[i]);
    }
    set_values(object, controller, values);
}

char *report_clock(const struct controller *controller, const struct clock_sums *sums, double seconds) {
    json_t *object = new_line("clock");
    report_set_whole(object, "clock", controller->progress.completed);
    report_set_real(object, "seconds", seconds);
    set_measured(object, controller, sums);
    report_set_whole(object, "items", sums->worked);
    set_covered(object, report_covered(controller, sums, 1));
    return report_line_text(object, false);
}

char *report_iteration(struct controller *controller, uint64_t iteration, double seconds) {
    const struct clock_sums *sums = &controller->progress.iteration;
    json_t *object = new_line("iteration");
    const struct node_numbers all = numbers_so_far(controller);
    struct node_numbers numbers = all;
    numbers.bytes_sent -= controller->progress.iteration_bytes_sent;
    numbers.bytes_received -= controller->progress.iteration_bytes_received;
    report_set_whole(object, "iteration", iteration);
    if (controller->job.final > 0) { /* 0: the last clock is not known */
        report_set_whole(object, "iterations", controller->job.final / controller->job.terms.clocks_per_iteration);
    }
    report_set_real(object, "seconds", seconds);
    set_measured(object, controller, sums);
    set_cluster(object, controller);
    report_numbers(object, REPORT_ITERATION, &numbers);
    report_set_whole(object, "items", sums->items);
    report_set_real(object, "items_per_second",
                    sums->lasted_us > 0 ? (double)report_processed(controller) / ((double)sums->lasted_us / 1e6) : 0.0);
    report_set_whole(object, "clock", controller->progress.completed);
    if (isfinite(controller->clocks.monitor.imbalance)) {
        report_set_real(object, "imbalance", controller->clocks.monitor.imbalance);
    }
    set_covered(object, controller->progress.covered);
    features_report(controller, object, REPORT_ITERATION);
    controller->progress.iteration_bytes_sent = all.bytes_sent;
    controller->progress.iteration_bytes_received = all.bytes_received;
    return report_line_text(object, false);
}

/* Adds when the line was written: the last iteration, and the time since training began. */
static void set_moment(json_t *object, const struct controller *controller) {
    uint64_t each = controller->job.terms.clocks_per_iteration > 0 ? controller->job.terms.clocks_per_iteration : 1;
    report_set_whole(object, "iteration", controller->progress.completed / each);
    report_set_real(object, "seconds", controller_seconds(controller));
}

static json_t *new_event(const struct controller *controller, const char *event) {
    json_t *object = new_line("event");
    json_object_set_new(object, "event", json_string(event));
    set_moment(object, controller);
    return object;
}

char *report_event(const struct controller *controller, const char *event, const char *node, const char *reason) {
    json_t *object = new_event(controller, event);
    json_t *nodes = json_array();
    if (node != NULL) {
        json_array_append_new(nodes, report_text(node));
    }
    json_object_set_new(object, "nodes", nodes);
    if (reason != NULL) {
        json_object_set_new(object, "reason", report_text(reason));
    }
    return report_line_text(object, false);
}

json_t *report_new_event(const struct controller *controller, const char *event, const char *const *nodes,
                         unsigned count) {
    json_t *object = new_event(controller, event);
    json_t *list = json_array();
    for (unsigned n = 0; n < count; n++) {
        json_array_append_new(list, report_text(nodes[n]));
    }
    json_object_set_new(object, "nodes", list);
    return object;
}

char *report_event_nodes(const struct controller *controller, const char *event, const char *const *nodes,
                         unsigned count) {
    return report_line_text(report_new_event(controller, event, nodes, count), false);
}

/* Adds the job's stopping criteria. */
static void set_terms(json_t *object, const struct controller *controller) {
    const struct job_terms *terms = &controller->job.terms;
    uint64_t iterations =
        controller->job.final > 0 ? controller->job.final / terms->clocks_per_iteration : terms->iterations;
    if (iterations > 0) {
        report_set_whole(object, "iterations", iterations);
    }
    if (terms->seconds > 0) {
        report_set_real(object, "until_seconds", terms->seconds);
    }
    if (terms->tolerance > 0) {
        report_set_real(object, "tolerance", terms->tolerance);
        report_set_whole(object, "tolerance_iterations", terms->tolerance_iterations);
    }
}

char *report_start(const struct controller *controller) {
    json_t *object = report_new_event(controller, "start", NULL, 0);
    set_terms(object, controller);
    return report_line_text(object, false);
}

char *report_recovery(const struct controller *controller, uint64_t clock, double seconds) {
    char text[ERROR_TEXT_MAX];
    json_t *object = report_new_event(controller, "recover", NULL, 0);
    uint32_t cached = controller->recovery.cached;
    int size = snprintf(text, sizeof text, "restored clock %llu in %.0f ms", (unsigned long long)clock, seconds * 1e3);
    if (cached > 0) {
        snprintf(text + size, sizeof text - (size_t)size,
                 "; %u of %u partitions out of workers' caches, as all copies were lost", cached,
                 controller->options.policy.partitions);
    }
    json_object_set_new(object, "reason", json_string(text));
    report_set_real(object, "recovery_seconds", seconds);
    if (cached > 0) {
        report_set_whole(object, "partitions_from_caches", cached);
    }
    return report_line_text(object, false);
}

char *report_take_part(const struct controller *controller, const char *const *nodes, unsigned count, uint64_t first,
                       const struct report_phases *phases) {
    char text[ERROR_TEXT_MAX];
    json_t *object = report_new_event(controller, "take-part", nodes, count);
    snprintf(text, sizeof text, "from clock %llu on; gathered in %.0f ms, prepared in %.0f ms, switched in %.0f ms",
             (unsigned long long)first, phases->gather * 1e3, phases->prepare * 1e3, phases->change * 1e3);
    json_object_set_new(object, "reason", json_string(text));
    report_set_whole(object, "first_clock", first);
    report_set_real(object, "gather_seconds", phases->gather);
    report_set_real(object, "prepare_seconds", phases->prepare);
    report_set_real(object, "switch_seconds", phases->change);
    return report_line_text(object, false);
}

/* ---- Nodes ---- */

static const char *state_text(const struct member *member) {
    static const char *const states[] = {"registering", "loading", "loaded", "started", "finished"};
    return states[member->state];
}

static json_t *new_about_nodes(const struct controller *controller, const char *type) {
    json_t *object = new_line(type);
    set_moment(object, controller);
    return object;
}

/* Returns the numbers of the partitions that the member serves or, with `backup`, follows. */
static json_t *partitions_of(const struct controller *controller, const struct member *member, bool backup) {
    json_t *list = json_array();
    for (uint32_t p = 0; controller->plan.placement != NULL && p < controller->options.policy.partitions; p++) {
        const struct wire_placement *place = &controller->plan.placement[p];
        if (actor_node(backup ? place->backup : place->server) == member->node.actor) {
            json_array_append_new(list, json_integer(p));
        }
    }
    return list;
}

char *report_nodes(const struct controller *controller, struct member *const *members, size_t count) {
    json_t *object = new_about_nodes(controller, "nodes");
    json_t *list = json_array();
    report_set_whole(object, "epoch", controller->plan.epoch);
    report_set_whole(object, "version", controller->plan.version);
    set_stage(object, controller);
    for (size_t n = 0; n < count; n++) {
        const struct member *member = members[n];
        json_t *node = json_object();
        json_object_set_new(node, "name", report_text(member->name));
        json_object_set_new(node, "tier", json_string(tier_name(member->node.tier)));
        json_object_set_new(node, "host", report_text(member->host));
        set_group(node, member);
        report_set_whole(node, "threads", member_threads(member));
        json_object_set_new(node, "state", json_string(member->shown.leaving ? "leaving" : state_text(member)));
        json_object_set_new(node, "serves", partitions_of(controller, member, false));
        json_object_set_new(node, "follows", partitions_of(controller, member, true));
        report_set_whole(node, "shards", member->shown.shards);
        json_array_append_new(list, node);
    }
    json_object_set_new(object, "nodes", list);
    return report_line_text(object, false);
}

char *report_gone_nodes(const struct controller *controller, const struct node_gone *gone, size_t count) {
    json_t *object = new_about_nodes(controller, "nodes");
    json_t *list = json_array();
    for (size_t n = 0; n < count; n++) {
        json_t *node = json_object();
        json_object_set_new(node, "name", report_text(gone[n].name));
        json_object_set_new(node, "state", json_string(gone[n].lost ? "lost" : "left"));
        report_set_whole(node, "items", gone[n].usage.items);
        report_numbers(node, REPORT_NODES, &gone[n].usage.numbers);
        json_array_append_new(list, node);
    }
    json_object_set_new(object, "nodes", list);
    return report_line_text(object, false);
}

/* The slowness of all nodes, by their index in the monitor. */
struct slowness {
    double *spans[MONITOR_SPANS];
};

static struct slowness slowness_open(const struct controller *controller) {
    struct slowness slowness;
    for (unsigned span = 0; span < MONITOR_SPANS; span++) {
        slowness.spans[span] = memory_zeroed(controller->clocks.monitor.count + 1, sizeof(double));
        monitor_slowness(&controller->clocks.monitor, (enum monitor_span)span, controller_now(controller),
                         slowness.spans[span]);
    }
    return slowness;
}

/* Returns the member's slowness; NaN: not known. */
static double slowness_of(const struct controller *controller, const struct slowness *slowness, enum monitor_span span,
                          const struct member *member) {
    size_t place = monitor_find(&controller->clocks.monitor, member->node.actor);
    return place != SIZE_MAX ? slowness->spans[span][place] : NAN;
}

static void slowness_close(struct slowness *slowness) {
    for (unsigned span = 0; span < MONITOR_SPANS; span++) {
        free(slowness->spans[span]);
    }
}

char *report_usage(const struct controller *controller, unsigned first, unsigned count) {
    json_t *object = new_about_nodes(controller, "usage");
    json_t *list = json_array();
    struct slowness slowness = slowness_open(controller);
    for (unsigned m = first; m < first + count; m++) {
        const struct member_usage *usage = &controller->members[m].usage;
        json_t *node = json_array();
        json_array_append_new(node, report_text(controller->members[m].name));
        json_array_append_new(node, json_integer((json_int_t)usage->items));
        report_numbers(node, REPORT_USAGE, &usage->numbers);
        double slow = slowness_of(controller, &slowness, MONITOR_SHORT, &controller->members[m]);
        json_array_append_new(node, isfinite(slow) ? json_real(slow) : json_null());
        json_array_append_new(list, node);
    }
    slowness_close(&slowness);
    json_object_set_new(object, "nodes", list);
    return report_line_text(object, false);
}

char *report_note(const struct controller *controller, const char *text, size_t size) {
    json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    const char *type = json_string_value(json_object_get(object, "type"));
    if (type == NULL || (strcmp(type, "money") != 0 && strcmp(type, "decision") != 0)) {
        json_decref(object);
        return NULL;
    }
    set_moment(object, controller);
    return report_line_dump(object, false);
}

char *report_app_note(const struct controller *controller, const char *node, const char *text) {
    json_t *object = new_line("note");
    set_moment(object, controller);
    if (node != NULL) {
        json_object_set_new(object, "node", report_text(node));
    }
    json_object_set_new(object, "text", report_text(text));
    return report_line_text(object, false);
}

/* ---- The summary ---- */

/* What the whole job has done so far, for the summary and the status. */
static void set_work(json_t *object, const struct controller *controller, enum report_type type) {
    report_set_whole(object, "items_processed", controller->progress.items_processed);
    report_set_whole(object, "items_redone", controller->progress.items_redone);
    report_set_whole(object, "items_helped", controller->progress.items_helped);
    features_report(controller, object, type);
    report_set_whole(object, "failures", controller->progress.failures);
    report_set_whole(object, "evictions", controller->progress.evictions);
}

/* Whether the last clock's checkpoint failed although earlier checkpoints were written; `text` receives the reason. */
static bool last_checkpoint_failed(const struct controller *controller, char *text, size_t size) {
    const struct controller_checkpoint *checkpoint = &controller->checkpoint;
    if (!checkpoint->given_up || checkpoint->kept.written == 0) {
        return false;
    }
    snprintf(text, size, "%.400s; the newest checkpoint is of clock %llu", checkpoint->failure,
             (unsigned long long)checkpoint->kept.written);
    return true;
}

char *report_summary(const struct controller *controller, double seconds) {
    uint64_t each = controller->job.terms.clocks_per_iteration > 0 ? controller->job.terms.clocks_per_iteration : 1;
    json_t *object = new_line("summary");
    const struct node_numbers numbers = numbers_so_far(controller);
    report_set_whole(object, "iterations", controller->progress.completed / each);
    report_set_whole(object, "clocks", controller->progress.completed);
    report_set_real(object, "seconds", seconds);
    if (controller->progress.evaluated > 0) {
        set_values(object, controller, controller->progress.values);
        set_covered(object, controller->progress.covered);
    }
    set_cluster(object, controller);
    if (controller->progress.first > 0) {
        report_set_whole(object, "resumed_iteration", controller->progress.first / each);
        report_set_whole(object, "resumed_clock", controller->progress.first);
        report_set_real(object, "seconds_before", (double)controller->progress.before_us / 1e6);
        report_set_whole(object, "items_before", controller->progress.before_items);
    }
    set_work(object, controller, REPORT_SUMMARY);
    report_numbers(object, REPORT_SUMMARY, &numbers);
    char failed[ERROR_TEXT_MAX];
    if (last_checkpoint_failed(controller, failed, sizeof failed)) {
        json_object_set_new(object, "checkpoint_failed", report_text(failed));
    }
    json_object_set_new(object, "ok", json_boolean(controller->end.code == 0));
    report_set_whole(object, "status", (uint64_t)error_exit_status(controller->end.code));
    if (controller->end.code != 0) {
        json_object_set_new(object, "error", report_text(controller->end.text));
    }
    return report_line_text(object, false);
}

/* ---- Status ---- */

static const char *member_name_of(struct controller *controller, actor_id actor) {
    const struct member *member = controller_find_member(controller, actor_node(actor));
    return member != NULL ? member->name : NULL;
}

static void set_place(json_t *object, struct controller *controller, const char *key, actor_id actor) {
    const char *name = member_name_of(controller, actor);
    json_object_set_new(object, key, name != NULL ? report_text(name) : json_null());
}

static json_t *status_partitions(struct controller *controller) {
    json_t *list = json_array();
    for (uint32_t p = 0; controller->plan.placement != NULL && p < controller->options.policy.partitions; p++) {
        const struct wire_placement *place = &controller->plan.placement[p];
        json_t *object = json_object();
        report_set_whole(object, "partition", p);
        set_place(object, controller, "server", place->server);
        set_place(object, controller, "backup", place->backup);
        if (place->next_server != place->server || place->next_backup != place->backup) {
            set_place(object, controller, "next_server", place->next_server);
            set_place(object, controller, "next_backup", place->next_backup);
        }
        json_array_append_new(list, object);
    }
    return list;
}

static void set_speed(json_t *object, const struct controller *controller, const struct member *member,
                      const struct slowness *slowness) {
    struct monitor_speed speed =
        monitor_speed(&controller->clocks.monitor, member->node.actor, MONITOR_SHORT, controller_now(controller));
    report_set_real(object, "items_per_second",
                    speed.clocks > 0 ? speed.items_per_second / job_phases(&controller->job.terms) : NAN);
    report_set_real(object, "slowness_short", slowness_of(controller, slowness, MONITOR_SHORT, member));
    report_set_real(object, "slowness_long", slowness_of(controller, slowness, MONITOR_LONG, member));
    struct monitor_wait wait =
        monitor_wait(&controller->clocks.monitor, member->node.actor, MONITOR_SHORT, controller_now(controller));
    report_set_real(object, "server_wait", wait.clocks > 0 ? wait.seconds : NAN);
}

static json_t *status_node(const struct controller *controller, const struct member *member,
                           const struct slowness *slowness) {
    json_t *object = json_object();
    uint64_t shards =
        controller->plan.placement == NULL
            ? 0
            : schedule_count(&controller->plan.schedule, member->node.actor, controller->progress.completed + 1);
    uint64_t serves = 0;
    uint64_t follows = 0;
    for (uint32_t p = 0; controller->plan.placement != NULL && p < controller->options.policy.partitions; p++) {
        serves += actor_node(controller->plan.placement[p].server) == member->node.actor ? 1 : 0;
        follows += actor_node(controller->plan.placement[p].backup) == member->node.actor ? 1 : 0;
    }
    json_object_set_new(object, "name", report_text(member->name));
    json_object_set_new(object, "tier", json_string(tier_name(member->node.tier)));
    json_object_set_new(object, "host", report_text(member->host));
    set_group(object, member);
    report_set_whole(object, "pid", member->process_id);
    report_set_whole(object, "threads", member_threads(member));
    json_object_set_new(object, "state", json_string(state_text(member)));
    json_object_set_new(object, "leaving", json_boolean(member->stay != MEMBER_STAYS));
    report_set_whole(object, "clock", member->reported.clock);
    report_set_whole(object, "serves", serves);
    report_set_whole(object, "follows", follows);
    report_set_whole(object, "shards", shards);
    report_set_real(object, "share", (double)shards / (double)controller->options.policy.shards);
    report_set_whole(object, "slice", member->slice);
    report_set_whole(object, "items", member->usage.items);
    report_numbers(object, REPORT_STATUS, &member->usage.numbers);
    set_speed(object, controller, member, slowness);
    if (member->pass.token != 0) {
        char serial[17];
        snprintf(serial, sizeof serial, "%016" PRIx64, member->pass.token);
        json_object_set_new(object, "token", json_string(serial));
    }
    report_set_whole(object, "silent_ms", silence_of(member, controller_now(controller)) / 1000);
    return object;
}

static json_t *status_expected(const struct controller *controller) {
    json_t *list = json_array();
    for (size_t m = 0; m < controller->expected.count; m++) {
        const struct wire_machine *machine = &controller->expected.machines[m];
        json_t *object = json_object();
        json_object_set_new(object, "name", report_text(machine->name));
        json_object_set_new(object, "tier", json_string(tier_name((enum node_tier)machine->tier)));
        uint64_t waited_us = controller_now(controller) - controller->expected.since_us[m];
        report_set_real(object, "pending_seconds", (double)waited_us / 1e6);
        json_array_append_new(list, object);
    }
    return list;
}

char *report_status(struct controller *controller) {
    static const char *const phases[] = {"gather", "load", "train", "save", "leave", "leave"};
    static const char *const changes[] = {"none", "prepare", "hold", "switch", "recover"};
    uint64_t each = controller->job.terms.clocks_per_iteration > 0 ? controller->job.terms.clocks_per_iteration : 1;
    json_t *object = json_object();
    json_t *nodes = json_array();
    struct slowness slowness = slowness_open(controller);
    for (unsigned m = 0; m < controller->member_count; m++) {
        json_array_append_new(nodes, status_node(controller, &controller->members[m], &slowness));
    }
    slowness_close(&slowness);
    json_object_set_new(object, "app", report_text(controller->job.terms.app));
    json_object_set_new(object, "phase", json_string(phases[controller->phase]));
    json_object_set_new(object, "change", json_string(changes[controller->change.state]));
    set_stage(object, controller);
    report_set_whole(object, "epoch", controller->plan.epoch);
    report_set_whole(object, "version", controller->plan.version);
    report_set_whole(object, "iteration", controller->progress.completed / each);
    set_terms(object, controller);
    report_set_whole(object, "clock", controller->progress.completed);
    report_set_whole(object, "committed", controller->commit.clock);
    report_set_whole(object, "final", controller->job.final);
    report_set_real(object, "seconds", controller_seconds(controller));
    report_set_real(object, "objective", controller->progress.evaluated > 0 ? controller->progress.objective : NAN);
    set_covered(object, controller->progress.evaluated > 0 ? controller->progress.covered : 1);
    set_work(object, controller, REPORT_STATUS);
    report_set_whole(object, "lines", controller->report.stored);
    if (controller->phase == PHASE_GATHER) {
        json_object_set_new(object, "waits_for_reliable", json_integer((json_int_t)controller->options.reliable));
    }
    json_object_set_new(object, "nodes", nodes);
    json_object_set_new(object, "expected", status_expected(controller));
    json_object_set_new(object, "partitions", status_partitions(controller));
    return report_line_text(object, false);
}
