/* See report.h. */
#include "agileml/control/report.h"

#include "agileml/base/memory.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

double report_metric(const struct wire_metric *metric, const struct wire_metric_sum *sum) {
    switch (metric->kind) {
    case METRIC_MEAN:
        return sum->weight != 0 ? sum->sum / sum->weight : NAN;
    case METRIC_ROOT_MEAN:
        return sum->weight != 0 ? sqrt(sum->sum / sum->weight) : NAN;
    default:
        return sum->sum;
    }
}

bool report_key(const char *key) {
    static const char *const keys[] = {"type",
                                       "event",
                                       "nodes",
                                       "reason",
                                       "clock",
                                       "clocks",
                                       "iteration",
                                       "iterations",
                                       "seconds",
                                       "objective",
                                       "stage",
                                       "reliable",
                                       "transient",
                                       "memory_bytes",
                                       "bytes_sent",
                                       "bytes_received",
                                       "items",
                                       "items_per_second",
                                       "items_processed",
                                       "items_redone",
                                       "failures",
                                       "evictions",
                                       "ok",
                                       "status",
                                       "error"};
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        if (strcmp(keys[k], key) == 0) {
            return true;
        }
    }
    return false;
}

/* JSON has no NaN: what is not a number becomes null. */
static void set_real(json_t *object, const char *key, double value) {
    json_object_set_new(object, key, isfinite(value) ? json_real(value) : json_null());
}

static void set_whole(json_t *object, const char *key, uint64_t value) {
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void set_values(json_t *object, const struct controller *controller, const double *values) {
    if (controller->metric_count > 0) {
        set_real(object, "objective", values[0]);
    }
    for (unsigned i = 0; i < controller->metric_count; i++) {
        set_real(object, controller->metrics[i].name, values[i]);
    }
}

static char *finish_line(json_t *object) {
    char *line = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (line == NULL) {
        memory_exhausted(0);
    }
    return line;
}

static json_t *new_line(const char *type) {
    json_t *object = json_object();
    json_object_set_new(object, "type", json_string(type));
    return object;
}

static void bytes_so_far(const struct controller *controller, uint64_t *sent, uint64_t *received) {
    *sent = *received = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        *sent += controller->members[m].bytes_sent;
        *received += controller->members[m].bytes_received;
    }
}

static void set_cluster(json_t *object, const struct controller *controller) {
    uint64_t tiers[2] = {0, 0};
    uint64_t memory = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        tiers[controller->members[m].node.tier]++;
        memory = controller->members[m].memory_bytes > memory ? controller->members[m].memory_bytes : memory;
    }
    if (controller->options.policy.stage == STAGE_TRADITIONAL) {
        json_object_set_new(object, "stage", json_string("traditional"));
    } else {
        set_whole(object, "stage", controller->options.policy.stage);
    }
    set_whole(object, "reliable", tiers[TIER_RELIABLE]);
    set_whole(object, "transient", tiers[TIER_TRANSIENT]);
    set_whole(object, "memory_bytes", memory);
}

char *report_clock(const struct controller *controller, const struct clock_sums *sums, double seconds) {
    double values[WIRE_METRICS_MAX];
    json_t *object = new_line("clock");
    set_whole(object, "clock", controller->completed);
    set_real(object, "seconds", seconds);
    for (unsigned i = 0; i < controller->metric_count; i++) {
        values[i] = report_metric(&controller->metrics[i], &sums->metrics[i]);
    }
    set_values(object, controller, values);
    set_whole(object, "items", sums->items);
    return finish_line(object);
}

char *report_iteration(struct controller *controller, uint64_t iteration, double seconds, double iteration_seconds) {
    uint64_t sent;
    uint64_t received;
    json_t *object = new_line("iteration");
    bytes_so_far(controller, &sent, &received);
    set_whole(object, "iteration", iteration);
    set_real(object, "seconds", seconds);
    set_values(object, controller, controller->values);
    set_cluster(object, controller);
    set_whole(object, "bytes_sent", sent - controller->iteration_bytes_sent);
    set_whole(object, "bytes_received", received - controller->iteration_bytes_received);
    set_whole(object, "items", controller->iteration.items);
    set_real(object, "items_per_second",
             iteration_seconds > 0 ? (double)controller->iteration.items / iteration_seconds : 0.0);
    set_whole(object, "clock", controller->completed);
    controller->iteration_bytes_sent = sent;
    controller->iteration_bytes_received = received;
    return finish_line(object);
}

char *report_event(const struct controller *controller, const char *event, const char *node, const char *reason) {
    json_t *object = new_line("event");
    json_object_set_new(object, "event", json_string(event));
    uint64_t each = controller->job.clocks_per_iteration > 0 ? controller->job.clocks_per_iteration : 1;
    set_whole(object, "iteration", controller->completed / each);
    json_object_set_new(object, "nodes", node != NULL ? json_pack("[s]", node) : json_array());
    uint64_t now = controller->io->now_us(controller->io);
    set_real(object, "seconds", controller->started_us > 0 ? (double)(now - controller->started_us) / 1e6 : 0.0);
    if (reason != NULL) {
        json_t *text = json_string(reason);
        json_object_set_new(object, "reason", text != NULL ? text : json_string("(not text)"));
    }
    return finish_line(object);
}

char *report_summary(const struct controller *controller, double seconds) {
    uint64_t sent;
    uint64_t received;
    uint64_t each = controller->job.clocks_per_iteration > 0 ? controller->job.clocks_per_iteration : 1;
    json_t *object = new_line("summary");
    bytes_so_far(controller, &sent, &received);
    set_whole(object, "iterations", controller->completed / each);
    set_whole(object, "clocks", controller->completed);
    set_real(object, "seconds", seconds);
    if (controller->completed >= each && controller->values != NULL) {
        set_values(object, controller, controller->values);
    }
    set_cluster(object, controller);
    set_whole(object, "items_processed", controller->items_processed);
    set_whole(object, "items_redone", 0);
    set_whole(object, "failures", controller->failures);
    set_whole(object, "evictions", 0);
    set_whole(object, "bytes_sent", sent);
    set_whole(object, "bytes_received", received);
    json_object_set_new(object, "ok", json_boolean(controller->code == 0));
    set_whole(object, "status", (uint64_t)error_exit_status(controller->code));
    if (controller->code != 0) {
        json_t *text = json_string(controller->text);
        json_object_set_new(object, "error", text != NULL ? text : json_string("(not text)"));
    }
    return finish_line(object);
}
