/* The controller's part that sums up what origins report of each clock, completes clocks and iterations, and decides by
 * the stopping criteria. See controller_private.h. */
#include "agileml/control/controller_private.h"

#include "agileml/base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned progress_window(const struct controller *controller) {
    return controller->job.staleness + 2 + WIRE_WINDOW_MAX + CONTROLLER_AHEAD_MAX;
}

void progress_open(struct controller *controller) {
    controller->window = memory_zeroed(progress_window(controller), sizeof *controller->window);
}

void progress_close(struct controller *controller) {
    for (unsigned w = 0; controller->window != NULL && w < progress_window(controller); w++) {
        free(controller->window[w].reports);
    }
    free(controller->window);
    controller->window = NULL;
}

static void sums_add(struct clock_sums *sums, const struct clock_sums *more, const struct wire_metric *metrics,
                     unsigned metric_count) {
    sums->items += more->items;
    sums->lasted_us += more->lasted_us;
    for (unsigned i = 0; i < metric_count; i++) {
        if (metrics[i].evaluated != 0) {
            sums->metrics[i] = more->metrics[i];
        } else {
            sums->metrics[i].sum += more->metrics[i].sum;
            sums->metrics[i].weight += more->metrics[i].weight;
        }
    }
}

/* The stopping criteria after an iteration; `known`: it has an objective of its own, and not the one before's. */
static void check_stop(struct controller *controller, bool known, double objective_before) {
    struct controller_progress *progress = &controller->progress;
    if (controller->stopping || (controller->final != 0 && progress->completed >= controller->final)) {
        return;
    }
    double change = fabs(progress->objective - objective_before) / fmax(fabs(objective_before), 1e-300);
    bool calm = progress->evaluated > 1 && change < controller->job.tolerance;
    if (known) {
        progress->calm = calm ? progress->calm + 1 : 0;
    }
    bool converged = controller->job.tolerance > 0 && progress->calm >= controller->job.tolerance_iterations;
    bool late = controller->job.seconds > 0 && controller_seconds(controller) >= controller->job.seconds;
    controller->stopping = converged || late;
}

static void add_sample(struct controller *controller, double seconds) {
    unsigned count[2];
    members_count(controller, count);
    if (controller->steady && controller->change == CHANGE_NONE) {
        struct tuner_sample sample = {
            .stage = controller->stage, .reliable = count[TIER_RELIABLE], .transient = count[TIER_TRANSIENT]};
        uint64_t compute_us = 0;
        for (unsigned m = 0; m < controller->member_count; m++) {
            sample.threads += controller->members[m].node.threads;
            compute_us =
                controller->members[m].compute_us > compute_us ? controller->members[m].compute_us : compute_us;
        }
        sample.seconds = seconds;
        double computed = (double)compute_us / 1e6 * controller->job.clocks_per_iteration;
        sample.network_share = seconds > 0 ? fmin(1, fmax(0, 1 - computed / seconds)) : 0;
        tuner_add(&controller->tuner, &sample);
    }
    controller->steady = true;
}

/* Some origin has reported it; those that have not were lost, their work was not. */
static bool metric_is_known(const struct wire_metric *metric, const struct wire_metric_sum *sum) {
    return metric->kind == METRIC_SUM || sum->weight != 0;
}

static void complete_iteration(struct controller *controller) {
    struct controller_progress *progress = &controller->progress;
    const struct wire_metric_sum *sums = progress->iteration.metrics;
    bool known = controller->metric_count == 0 || metric_is_known(&controller->metrics[0], &sums[0]);
    uint64_t iteration = progress->completed / controller->job.clocks_per_iteration;
    double before = progress->objective;
    double seconds = (double)progress->iteration.lasted_us / 1e6;
    for (unsigned i = 0; i < controller->metric_count; i++) {
        if (progress->evaluated == 0 || metric_is_known(&controller->metrics[i], &sums[i])) {
            progress->values[i] = report_metric(&controller->metrics[i], &sums[i]);
        }
    }
    progress->objective = controller->metric_count > 0 ? progress->values[0] : 0.0;
    progress->evaluated++;
    controller_report(controller, report_iteration(controller, iteration, controller_seconds(controller)));
    progress->iteration = (struct clock_sums){0};
    if (known && !isfinite(progress->objective)) {
        char text[ERROR_TEXT_MAX];
        snprintf(
            text, sizeof text,
            "the objective %.31s is not a number after iteration %llu: training diverged, try a lower learning rate",
            controller->metrics[0].name, (unsigned long long)iteration);
        controller_abort(controller, AML_EFAIL, text);
        return;
    }
    add_sample(controller, seconds);
    change_check_commit(controller);
    check_stop(controller, known, before);
}

/* The clock's entry, which one that is over may have had. */
static struct clock_window *window_of(struct controller *controller, uint64_t clock) {
    struct clock_window *window = &controller->window[clock % progress_window(controller)];
    if (window->clock != clock) {
        window->clock = clock;
        window->count = 0;
    }
    return window;
}

static bool has_report(const struct clock_window *window, actor_id origin) {
    for (unsigned r = 0; r < window->count; r++) {
        if (window->reports[r].origin == origin) {
            return true;
        }
    }
    return false;
}

static bool clock_reported(const struct controller *controller, const struct clock_window *window, uint64_t clock) {
    actor_id *origins = NULL;
    unsigned capacity = 0;
    unsigned expected = schedule_origins(&controller->schedule, clock, &origins, &capacity);
    unsigned found = 0;
    for (unsigned o = 0; o < expected && window->count >= expected; o++) {
        found += has_report(window, origins[o]) ? 1 : 0;
    }
    free(origins);
    /* Of a clock that was restored, dead nodes' reports may have been lost for good, and with them all. */
    return found == expected && (expected > 0 || clock <= controller->restore);
}

/* The mean over the nodes that worked on it: over many clocks these sum up to what passed. */
static uint64_t clock_lasted_us(const struct clock_window *window) {
    uint64_t sum_us = 0;
    uint64_t nodes = 0;
    for (unsigned r = 0; r < window->count; r++) {
        actor_id origin = window->reports[r].origin;
        sum_us += window->reports[r].clock_us;
        nodes += !origin_is_catch_up(origin) || !has_report(window, actor_node(origin)) ? 1 : 0;
    }
    return nodes > 0 ? sum_us / nodes : 0;
}

/* Training went on while there was no controller. It has lasted for at least as long as any node worked in it: a node does
 * one clock after the other. */
static void count_time(struct controller *controller, const struct clock_window *window) {
    uint64_t trained_us = controller_trained_us(controller);
    uint64_t least_us = 0;
    for (unsigned r = 0; r < window->count; r++) {
        struct member *member = member_find(controller, actor_node(window->reports[r].origin));
        if (member != NULL) {
            member->worked_us += window->reports[r].clock_us;
            least_us = member->worked_us > least_us ? member->worked_us : least_us;
        }
    }
    controller->progress.trained_us += least_us > trained_us ? least_us - trained_us : 0;
}

/* Short clocks are too many for a line each, but what was evaluated is always told. */
static bool clock_is_told(struct controller *controller, const struct clock_sums *sums) {
    uint64_t now = controller_now(controller);
    bool told = controller->job.clocks_per_iteration > 1 &&
                (controller->clock_line_us == 0 || now >= controller->clock_line_us + CONTROLLER_CLOCK_LINE_US);
    for (unsigned i = 0; i < controller->metric_count && controller->job.clocks_per_iteration > 1; i++) {
        told = told || (controller->metrics[i].evaluated != 0 && sums->metrics[i].weight != 0);
    }
    controller->clock_line_us = told ? now : controller->clock_line_us;
    return told;
}

void progress_step(struct controller *controller) {
    struct controller_progress *progress = &controller->progress;
    while (controller->phase == PHASE_TRAIN && controller->change != CHANGE_RECOVER) {
        uint64_t clock = progress->completed + 1;
        struct clock_window *window = window_of(controller, clock);
        if (!clock_reported(controller, window, clock)) {
            return;
        }
        struct clock_sums sums = {.lasted_us = clock_lasted_us(window)};
        for (unsigned r = 0; r < window->count; r++) {
            sums.items += window->reports[r].items;
            for (unsigned i = 0; i < controller->metric_count; i++) {
                sums.metrics[i].sum += window->reports[r].metrics[i].sum;
                sums.metrics[i].weight += window->reports[r].metrics[i].weight;
            }
        }
        count_time(controller, window);
        window->count = 0;
        progress->completed = clock;
        progress->items_processed += sums.items;
        sums_add(&progress->iteration, &sums, controller->metrics, controller->metric_count);
        persist_soon(controller);
        if (clock_is_told(controller, &sums)) {
            controller_report(controller, report_clock(controller, &sums, controller_seconds(controller)));
        }
        if (clock % controller->job.clocks_per_iteration == 0) {
            complete_iteration(controller);
        }
        checkpoints_completed(controller);
    }
}

void progress_forget_lost(struct controller *controller) {
    for (unsigned w = 0; w < progress_window(controller); w++) {
        struct clock_window *window = &controller->window[w];
        for (unsigned r = 0; window->clock > controller->restore && r < window->count;) {
            if (member_find(controller, actor_node(window->reports[r].origin)) == NULL) {
                window->reports[r] = window->reports[--window->count];
            } else {
                r++;
            }
        }
    }
}

static void fail_for_metrics(struct controller *controller, const struct member *member, size_t count) {
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s (%s, pid %llu) sent %zu metrics, expected %u: is it another version of %s?",
             member->name, member->host, (unsigned long long)member->process_id, count, controller->metric_count,
             controller->job.app);
    controller_abort(controller, AML_EPROTOCOL, text);
}

void progress_receive(struct controller *controller, struct member *member, const struct message *message) {
    const struct message_progress *report = &message->progress;
    const struct wire_metric_sum *metrics = (const void *)message->frames[0]->data;
    size_t metric_count = message->frames[0]->size / sizeof *metrics;
    uint64_t completed = controller->progress.completed;
    if (controller->window == NULL || actor_node(report->origin) != member->node.actor ||
        report->clock > completed + progress_window(controller)) {
        return;
    }
    if (metric_count != controller->metric_count) {
        fail_for_metrics(controller, member, metric_count);
        return;
    }
    bool catch_up = origin_is_catch_up(report->origin);
    bool present = report->origin == origin_catch_up(member->node.actor, controller->epoch);
    bool new = present && report->clock == schedule_next(&controller->schedule, report->origin, member->catch_up);
    if (report->clock > completed) {
        struct clock_window *window = window_of(controller, report->clock);
        if (!has_report(window, report->origin)) {
            if (window->count == window->capacity) {
                window->capacity = window->capacity > 0 ? 2 * window->capacity : 4;
                window->reports = memory_resized(window->reports, window->capacity, sizeof *window->reports);
            }
            struct clock_report *mine = &window->reports[window->count++];
            *mine =
                (struct clock_report){.origin = report->origin, .items = report->items, .clock_us = report->clock_us};
            memcpy(mine->metrics, metrics, metric_count * sizeof *metrics);
        }
    }
    if (new) {
        member->catch_up = report->clock;
        controller->progress.items_redone += report->clock <= controller->redone_until ? report->items : 0;
        persist_soon(controller);
    }
    member->clock = report->clock > member->clock ? report->clock : member->clock;
    controller_committed(controller, report->committed);
    member->bytes_sent = report->bytes_sent;
    member->bytes_received = report->bytes_received;
    member->memory_bytes = report->memory_bytes;
    member->compute_us = catch_up ? member->compute_us : report->compute_us;
    progress_step(controller);
}
