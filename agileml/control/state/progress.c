/* Sums up what origins report of each clock, completes clocks and iterations, and applies the stopping criteria. Part
 * of the elasticity controller; see controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number of clocks for which `window` has room. */
static unsigned window_entries(const struct controller *controller) {
    return controller->job.terms.staleness + 2 + WIRE_WINDOW_MAX + CONTROLLER_AHEAD_MAX;
}

void progress_open(struct controller *controller) {
    controller->clocks.window = memory_zeroed(window_entries(controller), sizeof *controller->clocks.window);
}

void progress_close(struct controller *controller) {
    for (unsigned w = 0; controller->clocks.window != NULL && w < window_entries(controller); w++) {
        free(controller->clocks.window[w].reports);
    }
    free(controller->clocks.window);
    controller->clocks.window = NULL;
}

static void sums_add(struct clock_sums *sums, const struct clock_sums *more, const struct wire_metric *metrics,
                     unsigned metric_count) {
    sums->items += more->items;
    sums->worked += more->worked;
    sums->lasted_us += more->lasted_us;
    sums->missing += more->missing;
    sums->unevaluated = more->unevaluated;
    for (unsigned i = 0; i < metric_count; i++) {
        if (metrics[i].evaluated != 0) {
            sums->metrics[i] = more->metrics[i];
        } else {
            sums->metrics[i].sum += more->metrics[i].sum;
            sums->metrics[i].weight += more->metrics[i].weight;
        }
    }
}

/* ---- Stopping criteria ---- */

/* Whether the objective has converged. Called only after iterations whose objective covers all items: other objectives
 * can't be compared. */
static bool has_converged(struct controller *controller) {
    struct controller_progress *progress = &controller->progress;
    double change = fabs(progress->objective - progress->compared) / fmax(fabs(progress->compared), 1e-300);
    assert(progress->calm <= progress->compared_count && progress->compared_count <= progress->evaluated);
    bool calm = progress->compared_count > 0 && change < controller->job.terms.tolerance;
    progress->calm = calm ? progress->calm + 1 : 0;
    progress->compared = progress->objective;
    progress->compared_count++;
    return controller->job.terms.tolerance > 0 && progress->calm >= controller->job.terms.tolerance_iterations;
}

/* Applies the stopping criteria after an iteration. `known`: the iteration has a new objective. */
static void check_stop(struct controller *controller, bool known) {
    struct controller_progress *progress = &controller->progress;
    if (controller->job.stopping || (controller->job.final != 0 && progress->completed >= controller->job.final)) {
        return;
    }
    bool converged = known && progress->covered == 1 && has_converged(controller);
    bool late = controller->job.terms.seconds > 0 && controller_seconds(controller) >= controller->job.terms.seconds;
    controller->job.stopping = converged || late;
}

/* ---- Clocks and iterations ---- */

/* Returns how many of the items that were worked on in the clock count (job_counts_items). */
static uint64_t counted_items(const struct controller *controller, uint64_t clock, uint64_t items) {
    return job_counts_items(&controller->job.terms, clock) ? items : 0;
}

/* Returns the entry for when all nodes would have computed the clock without exchange. */
static uint64_t *computed_at(struct controller_clocks *clocks, uint64_t clock) {
    return &clocks->computed_us[clock % (sizeof clocks->computed_us / sizeof *clocks->computed_us)];
}

/* Returns the part of the iteration's time that its clocks would have taken without exchange. Includes waiting for
 * slower nodes. */
static double computed_part(struct controller *controller) {
    struct controller_clocks *clocks = &controller->clocks;
    assert(*computed_at(clocks, controller->progress.completed) >= clocks->computed_from_us);
    uint64_t computed_us = *computed_at(clocks, controller->progress.completed) - clocks->computed_from_us;
    return clocks->worked_us > 0 ? fmin(1, (double)computed_us / (double)clocks->worked_us) : 1;
}

/* Whether any origin has reported the metric. */
static bool metric_is_known(const struct wire_metric *metric, const struct wire_metric_sum *sum) {
    return metric->kind == METRIC_SUM || sum->weight != 0;
}

/* Returns the share of the data that the iteration's metrics and its items cover. Counts items instead of data shards
 * where possible. */
static double iteration_covered(const struct controller *controller) {
    const struct controller_progress *progress = &controller->progress;
    struct clock_sums sums = progress->iteration;
    if (sums.missing > 0 && report_iteration_is_whole(controller)) {
        sums.missing = 0;
        double all = (double)controller->job.items;
        double worked = (double)progress->iteration.worked / job_phases(&controller->job.terms);
        double share = all > 0 ? fmin(worked, (double)progress->iteration.items) / all : 1;
        return fmin(share, report_covered(controller, &sums, 1));
    }
    uint64_t each = controller->job.terms.clocks_per_iteration;
    uint64_t clocks = progress->completed - progress->first;
    return report_covered(controller, &sums, clocks < each ? clocks : each);
}

static void complete_iteration(struct controller *controller) {
    struct controller_progress *progress = &controller->progress;
    const struct wire_metric_sum *sums = progress->iteration.metrics;
    bool known = controller->job.metric_count == 0 || metric_is_known(&controller->job.metrics[0], &sums[0]);
    uint64_t iteration = progress->completed / controller->job.terms.clocks_per_iteration;
    assert(progress->completed % controller->job.terms.clocks_per_iteration == 0);
    double seconds = (double)progress->iteration.lasted_us / 1e6;
    for (unsigned i = 0; i < controller->job.metric_count; i++) {
        if (progress->evaluated == 0 || metric_is_known(&controller->job.metrics[i], &sums[i])) {
            progress->values[i] = report_metric(&controller->job.metrics[i], &sums[i]);
        }
    }
    progress->objective = controller->job.metric_count > 0 ? progress->values[0] : 0.0;
    progress->evaluated++;
    progress->covered = iteration_covered(controller);
    progress->items_processed += report_processed(controller) - progress->iteration.items;
    monitor_end_iteration(&controller->clocks.monitor);
    controller_report(controller, report_iteration(controller, iteration, controller_seconds(controller)));
    progress->iteration = (struct clock_sums){0};
    if (known && !isfinite(progress->objective)) {
        char text[ERROR_TEXT_MAX];
        snprintf(
            text, sizeof text,
            "the objective %.31s is not a number after iteration %llu: training diverged, try a lower learning rate",
            controller->job.metrics[0].name, (unsigned long long)iteration);
        verdict_end(controller, AML_EFAIL, text);
        return;
    }
    const struct iteration_measure measure = {.comparable =
                                                  controller->plan.steady && controller->change.state == CHANGE_NONE,
                                              .strategy = plan_strategy_at(&controller->plan.view, progress->completed),
                                              .seconds = seconds,
                                              .worked_seconds = (double)controller->clocks.worked_us / 1e6,
                                              .computed = computed_part(controller)};
    controller->clocks.worked_us = 0;
    controller->clocks.computed_from_us = *computed_at(&controller->clocks, progress->completed);
    controller->plan.steady = true;
    features_iteration(controller, &measure);
    change_check_commit(controller);
    check_stop(controller, known);
}

void progress_committed(struct controller *controller, uint64_t clock) {
    uint64_t completed = controller->progress.completed;
    controller->commit.claimed = clock > controller->commit.claimed ? clock : controller->commit.claimed;
    uint64_t proven = controller->commit.claimed < completed ? controller->commit.claimed : completed;
    controller->commit.clock = proven > controller->commit.clock ? proven : controller->commit.clock;
}

/* Returns the clock's entry; NULL: there are no reports of the clock. */
static struct clock_window *window_at(const struct controller *controller, uint64_t clock) {
    struct clock_window *window = &controller->clocks.window[clock % window_entries(controller)];
    return window->clock == clock ? window : NULL;
}

/* Returns the clock's entry, cleared if it was used for an earlier clock. */
static struct clock_window *window_of(struct controller *controller, uint64_t clock) {
    struct clock_window *window = &controller->clocks.window[clock % window_entries(controller)];
    if (window->clock != clock) {
        assert(window->count == 0 || window->clock <= controller->progress.completed);
        window->clock = clock;
        window->count = 0;
    }
    return window;
}

/* Returns the origin's report; NULL: there is none. */
static struct clock_report *find_report(const struct clock_window *window, actor_id origin) {
    for (unsigned r = 0; window != NULL && r < window->count; r++) {
        if (window->reports[r].origin == origin) {
            return &window->reports[r];
        }
    }
    return NULL;
}

static bool has_report(const struct clock_window *window, actor_id origin) {
    return find_report(window, origin) != NULL;
}

/* Whether the origin's report of the clock is complete. A report of the job's last clock must include the last
 * evaluation. */
static bool has_reported(const struct controller *controller, const struct clock_window *window, actor_id origin) {
    const struct clock_report *report = find_report(window, origin);
    return report != NULL && (report->last || window->clock != controller->job.final);
}

static bool clock_reported(struct controller *controller, const struct clock_window *window, uint64_t clock) {
    const struct lost *lost = &controller->lost;
    struct clock_origins *few = &controller->clocks.origins;
    actor_id *origins = NULL;
    unsigned capacity = 0;
    if (controller->barrier.purpose == BARRIER_STOP && clock >= controller->barrier.clock) {
        return false; /* this clock may become the job's last clock, which is evaluated once more */
    }
    if (few->clock == clock && few->version == controller->plan.version && window->count < few->count) {
        return false; /* most reports end here, without a look at all shards */
    }
    unsigned expected = schedule_origins(&controller->plan.schedule, clock, &origins, &capacity);
    *few = (struct clock_origins){.clock = clock, .version = controller->plan.version, .count = expected};
    unsigned found = 0;
    for (unsigned o = 0; o < expected && window->count >= expected; o++) {
        found += has_reported(controller, window, origins[o]) ? 1 : 0;
    }
    free(origins);
    for (unsigned e = 0; e < lost->evaluation_count; e++) {
        actor_id origin = lost->evaluations[e].origin;
        if (lost->evaluations[e].clock == clock && origin != ACTOR_NONE && !has_reported(controller, window, origin)) {
            return false;
        }
    }
    assert(found <= expected && found <= window->count);
    /* A clock without any origin counts only up to the restored clock: its origins may all have been lost. */
    return found == expected && (expected > 0 || clock <= controller->plan.restore);
}

unsigned progress_missing(const struct controller *controller, actor_id **origins) {
    const uint64_t clock = controller->progress.completed + 1;
    const struct clock_window *window = window_at(controller, clock);
    unsigned capacity = 0;
    unsigned missing = 0;
    *origins = NULL;
    unsigned expected = schedule_origins(&controller->plan.schedule, clock, origins, &capacity);
    for (unsigned o = 0; o < expected; o++) {
        if (window == NULL || !has_reported(controller, window, (*origins)[o])) {
            (*origins)[missing++] = (*origins)[o];
        }
    }
    return missing;
}

/* Returns how many nodes have worked on the clock. */
static uint64_t clock_nodes(const struct clock_window *window) {
    uint64_t nodes = 0;
    for (unsigned r = 0; r < window->count; r++) {
        actor_id origin = window->reports[r].origin;
        bool worked = !window->reports[r].evaluation;
        nodes += worked && (!origin_is_catch_up(origin) || !has_report(window, actor_node(origin))) ? 1 : 0;
    }
    return nodes;
}

/* Returns the clock's duration: the mean over the nodes that worked on it. Over many clocks these means add up to the
 * time that has passed. */
static uint64_t clock_lasted_us(const struct clock_window *window) {
    uint64_t sum_us = 0;
    uint64_t nodes = clock_nodes(window);
    for (unsigned r = 0; r < window->count; r++) {
        sum_us += window->reports[r].clock_us;
    }
    return nodes > 0 ? sum_us / nodes : 0;
}

/* Adds the clock's duration, without evaluation, to that of the iteration's clocks. */
static void count_worked(struct controller_clocks *clocks, const struct clock_window *window) {
    uint64_t evaluated_us = 0;
    uint64_t nodes = clock_nodes(window);
    uint64_t lasted_us = clock_lasted_us(window);
    for (unsigned r = 0; r < window->count; r++) {
        evaluated_us += window->reports[r].evaluate_us;
    }
    evaluated_us = nodes > 0 ? evaluated_us / nodes : 0;
    clocks->worked_us += lasted_us > evaluated_us ? lasted_us - evaluated_us : 0;
}

/* Returns how long the origin itself computed: compute_us without the part for items that other nodes worked on. */
static uint64_t computed_itself_us(const struct clock_report *report) {
    uint64_t own = report->items > report->helped ? report->items - report->helped : 0;
    return report->helped == 0 || report->items == 0
               ? report->compute_us
               : (uint64_t)((double)report->compute_us * (double)own / (double)report->items);
}

/* Computes when the clock would have been finished if the exchange took no time. Then an origin begins a clock when it
 * has computed its previous clock, and all origins have computed clock - 1 - staleness. */
static void count_computed(struct controller *controller, const struct clock_window *window) {
    struct controller_clocks *clocks = &controller->clocks;
    uint64_t seen = (uint64_t)controller->job.terms.staleness + 1; /* how many clocks earlier */
    uint64_t from_us = window->clock > seen ? *computed_at(clocks, window->clock - seen) : 0;
    uint64_t until_us = *computed_at(clocks, window->clock - 1);
    for (unsigned r = 0; r < window->count; r++) {
        const struct clock_report *report = &window->reports[r];
        struct member *member = controller_find_member(controller, actor_node(report->origin));
        if (member != NULL && !report->evaluation) {
            uint64_t *own_us = &member->reported.computed_us;
            *own_us = (*own_us > from_us ? *own_us : from_us) + computed_itself_us(report);
            until_us = *own_us > until_us ? *own_us : until_us;
        }
    }
    *computed_at(clocks, window->clock) = until_us;
}

/* Adds the items and the time of the clock to each member. If a member's clocks add up to more than the training time,
 * training went on while no controller ran: corrects the training time. */
static void count_usage(struct controller *controller, const struct clock_window *window) {
    uint64_t trained_us = controller_trained_us(controller);
    uint64_t least_us = 0;
    for (unsigned r = 0; r < window->count; r++) {
        struct member *member = controller_find_member(controller, actor_node(window->reports[r].origin));
        if (member != NULL) {
            member->usage.worked_us += window->reports[r].clock_us;
            member->usage.items += counted_items(controller, window->clock, window->reports[r].items);
            least_us = member->usage.worked_us > least_us ? member->usage.worked_us : least_us;
        }
    }
    controller->progress.trained_us += least_us > trained_us ? least_us - trained_us : 0;
}

/* Whether the clock just completed gets a line in the report. An evaluated clock always gets a line, a clock without
 * work otherwise none. Of many short clocks only some get a line. */
static bool clock_is_told(struct controller *controller, const struct clock_sums *sums) {
    uint64_t now = controller_now(controller);
    uint64_t clock = controller->progress.completed;
    const struct strategy_clocks clocks = job_clocks(&controller->job.terms);
    bool works = strategy_parts(plan_strategy_at(&controller->plan.view, clock), &clocks, clock) > 0;
    bool told = works && controller->job.terms.clocks_per_iteration > 1 &&
                (controller->report.clock_us == 0 || now >= controller->report.clock_us + CONTROLLER_CLOCK_LINE_US);
    for (unsigned i = 0; i < controller->job.metric_count && controller->job.terms.clocks_per_iteration > 1; i++) {
        told = told || (controller->job.metrics[i].evaluated != 0 && sums->metrics[i].weight != 0);
    }
    controller->report.clock_us = told ? now : controller->report.clock_us;
    return told;
}

static bool any_evaluated(const struct controller *controller) {
    for (unsigned i = 0; i < controller->job.metric_count; i++) {
        if (controller->job.metrics[i].evaluated != 0) {
            return true;
        }
    }
    return false;
}

static void metrics_add(struct wire_metric_sum *sums, const struct wire_metric_sum *more, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        sums[i].sum += more[i].sum;
        sums[i].weight += more[i].weight;
    }
}

/* Whether nodes may have evaluated this clock in the state of another clock, as others were lost. Among phases that is
 * no state of the model: some tables are of this iteration, others of the one before. The job's last clock is evaluated
 * in its own state. */
static bool evaluation_is_mixed(const struct controller *controller, uint64_t clock) {
    const struct job_terms *terms = &controller->job.terms;
    return job_phases(terms) > 1 && job_counts_items(terms, clock) && clock <= controller->recovery.mixed_until &&
           clock != controller->job.final;
}

static void drop_evaluated(const struct controller *controller, struct clock_sums *sums) {
    for (unsigned i = 0; i < controller->job.metric_count; i++) {
        if (controller->job.metrics[i].evaluated != 0) {
            sums->metrics[i] = (struct wire_metric_sum){0};
        }
    }
    sums->unevaluated = controller->options.policy.shards;
}

/* Adds up what origins, including lost origins, reported of the clock. */
static struct clock_sums sum_clock(const struct controller *controller, const struct clock_window *window) {
    const struct lost_sums *lost = lost_sums_of(&controller->lost, window->clock);
    struct clock_sums sums = {.lasted_us = clock_lasted_us(window),
                              .missing = lost_shards(&controller->lost, window->clock)};
    for (unsigned r = 0; r < window->count; r++) {
        sums.worked += window->reports[r].items;
        metrics_add(sums.metrics, window->reports[r].metrics, controller->job.metric_count);
    }
    if (lost != NULL) {
        sums.worked += lost->items;
        metrics_add(sums.metrics, lost->metrics, controller->job.metric_count);
    }
    sums.items = counted_items(controller, window->clock, sums.worked);
    if (any_evaluated(controller) && !lost_is_evaluated(&controller->lost, window->clock, ACTOR_NONE)) {
        sums.unevaluated = sums.missing;
    }
    if (any_evaluated(controller) && evaluation_is_mixed(controller, window->clock)) {
        drop_evaluated(controller, &sums);
    }
    return sums;
}

void progress_step(struct controller *controller) {
    struct controller_progress *progress = &controller->progress;
    while (controller->phase == PHASE_TRAIN && controller->change.state != CHANGE_RECOVER) {
        uint64_t clock = progress->completed + 1;
        struct clock_window *window = window_of(controller, clock);
        if (!clock_reported(controller, window, clock)) {
            return;
        }
        struct clock_sums sums = sum_clock(controller, window);
        count_usage(controller, window);
        count_worked(&controller->clocks, window);
        count_computed(controller, window);
        lost_forget(&controller->lost, clock);
        assert(clock == progress->completed + 1 && window->clock == clock);
        progress->completed = clock;
        controller->clocks.completed_us = controller_now(controller);
        controller->clocks.lasted_us = sums.lasted_us;
        progress->items_processed += sums.items;
        sums_add(&progress->iteration, &sums, controller->job.metrics, controller->job.metric_count);
        persist_soon(controller);
        if (clock_is_told(controller, &sums)) {
            controller_report(controller, report_clock(controller, &sums, controller_seconds(controller)));
        }
        if (clock % controller->job.terms.clocks_per_iteration == 0) {
            complete_iteration(controller);
            if (controller->phase != PHASE_TRAIN) {
                return; /* the job ends */
            }
        }
        progress_committed(controller, 0);
        checkpoints_completed(controller);
        features_clock(controller, window);
        window->count = 0;
    }
}

/* ---- Lost nodes ---- */

static bool origin_is_lost(struct controller *controller, actor_id origin) {
    return origin != ACTOR_NONE && controller_find_member(controller, actor_node(origin)) == NULL;
}

/* Of a clock beyond the restored clock, drops the reports of lost nodes, and evaluations in their place: this work is
 * done again. Reports of other nodes remain valid, but no longer count as the last clock's evaluation. */
static void undo_reports(struct controller *controller, struct clock_window *window) {
    for (unsigned r = 0; r < window->count;) {
        struct clock_report *report = &window->reports[r];
        report->last = false;
        if (report->evaluation || origin_is_lost(controller, report->origin)) {
            *report = window->reports[--window->count];
        } else {
            r++;
        }
    }
}

/* Moves lost nodes' reports of a clock into controller.lost, as the clock's work remains valid. */
static void keep_reports(struct controller *controller, struct clock_window *window) {
    for (unsigned r = 0; r < window->count;) {
        const struct clock_report *report = &window->reports[r];
        if (!origin_is_lost(controller, report->origin)) {
            r++;
            continue;
        }
        struct lost_sums *sums = lost_sums_at(&controller->lost, window->clock);
        bool stands = has_reported(controller, window, report->origin);
        sums->items += report->items;
        for (unsigned i = 0; i < controller->job.metric_count; i++) {
            if (stands || controller->job.metrics[i].evaluated == 0) {
                sums->metrics[i].sum += report->metrics[i].sum;
                sums->metrics[i].weight += report->metrics[i].weight;
            }
        }
        window->reports[r] = window->reports[--window->count];
    }
}

/* Returns how many shards lost nodes worked on in this clock without reporting it. The clock's work remains valid.
 * Marks in `missing` the shards that were not evaluated. */
static uint64_t find_missing(struct controller *controller, uint64_t clock, const actor_id *owners,
                             unsigned char *missing) {
    const struct clock_window *window = window_at(controller, clock);
    uint64_t unreported = 0;
    actor_id known = ACTOR_NONE; /* a cache: neighbouring shards mostly have the same origin */
    bool reported = true;
    bool evaluated = true;
    for (uint32_t s = 0; s < controller->options.policy.shards; s++) {
        if (owners[s] != known) {
            known = owners[s];
            bool lost = origin_is_lost(controller, known);
            reported = !lost || has_report(window, known);
            evaluated = !lost || (reported && has_reported(controller, window, known));
        }
        unreported += reported ? 0 : 1;
        missing[s] = evaluated ? 0 : 1;
    }
    return unreported;
}

/* Marks the shards that a lost node was to evaluate in place of another node, and has not reported. */
static void find_unevaluated(struct controller *controller, uint64_t clock, unsigned char *missing) {
    const struct clock_window *window = window_at(controller, clock);
    for (unsigned e = controller->lost.evaluation_count; e-- > 0;) {
        struct lost_evaluation *evaluation = &controller->lost.evaluations[e];
        if (evaluation->clock != clock || !origin_is_lost(controller, evaluation->origin)) {
            continue;
        }
        if (has_reported(controller, window, evaluation->origin)) {
            evaluation->origin = ACTOR_NONE; /* keep_reports keeps the report's sums */
            continue;
        }
        assert(evaluation->count == 0 || /* the list is ascending */
               evaluation->shards[evaluation->count - 1] < controller->options.policy.shards);
        for (uint32_t s = 0; s < evaluation->count; s++) {
            missing[evaluation->shards[s]] = 1;
        }
        lost_drop_evaluation(&controller->lost, e);
    }
}

/* Adds evaluations of the marked shards by the nodes that take them over, and unmarks these shards. */
static void add_evaluations(struct controller *controller, uint64_t clock, const actor_id *takeover,
                            unsigned char *missing) {
    uint32_t shards = controller->options.policy.shards;
    for (uint32_t first = 0; first < shards; first++) {
        if (missing[first] == 0 || takeover[first] == ACTOR_NONE) {
            continue;
        }
        uint32_t *mine = memory_resized(NULL, shards - first, sizeof *mine);
        uint32_t count = 0;
        for (uint32_t s = first; s < shards; s++) {
            if (missing[s] != 0 && takeover[s] == takeover[first]) {
                mine[count++] = s;
                missing[s] = 0;
            }
        }
        lost_add_evaluation(&controller->lost, origin_catch_up(takeover[first], controller->plan.epoch), clock, mine,
                            count);
    }
}

void progress_recover(struct controller *controller, uint64_t restore, const actor_id *takeover) {
    uint64_t completed = controller->progress.completed;
    uint64_t each = controller->job.terms.clocks_per_iteration;
    assert(controller->change.state == CHANGE_RECOVER && restore >= controller->commit.clock);
    uint64_t end = restore / each * each; /* of an iteration, whose report line has the metrics evaluated there */
    actor_id *owners = memory_zeroed(controller->options.policy.shards, sizeof *owners);
    unsigned char *missing = memory_zeroed(controller->options.policy.shards, 1);
    lost_undo(&controller->lost, restore);
    for (unsigned w = 0; w < window_entries(controller); w++) {
        if (controller->clocks.window[w].clock > restore) {
            undo_reports(controller, &controller->clocks.window[w]);
        }
    }
    for (uint64_t clock = completed + 1; clock <= restore; clock++) {
        schedule_owners(&controller->plan.schedule, clock, owners);
        uint64_t unreported = find_missing(controller, clock, owners, missing);
        if (unreported > 0) {
            lost_add_shards(&controller->lost, clock, unreported);
        }
        if (any_evaluated(controller) && (clock == end || lost_is_evaluated(&controller->lost, clock, ACTOR_NONE))) {
            find_unevaluated(controller, clock, missing);
            add_evaluations(controller, clock, takeover, missing);
        }
        struct clock_window *window = window_at(controller, clock);
        if (window != NULL) {
            keep_reports(controller, window);
        }
    }
    free(owners);
    free(missing);
}

void progress_ask(struct controller *controller, const struct member *member) {
    for (unsigned e = 0; e < controller->lost.evaluation_count; e++) {
        const struct lost_evaluation *evaluation = &controller->lost.evaluations[e];
        if (actor_node(evaluation->origin) != member->node.actor ||
            has_report(window_at(controller, evaluation->clock), evaluation->origin)) {
            continue;
        }
        struct message message = {.type = MESSAGE_EVALUATE};
        message.evaluate.origin = evaluation->origin;
        message.evaluate.clock = evaluation->clock;
        message_add_copy(&message, evaluation->shards, evaluation->count * sizeof *evaluation->shards);
        controller_send(controller, member->node.actor, &message);
    }
}

/* ---- Nodes' reports ---- */

static void fail_for_metrics(struct controller *controller, const struct member *member, size_t count) {
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s (%s, pid %llu) sent %zu metrics, expected %u: is it another version of %s?",
             member->name, member->host, (unsigned long long)member->process_id, count, controller->job.metric_count,
             controller->job.terms.app);
    verdict_end(controller, AML_EPROTOCOL, text);
}

/* Returns the entry of a new report, zeroed. */
static struct clock_report *add_report(struct clock_window *window) {
    if (window->count == window->capacity) {
        window->capacity = window->capacity > 0 ? 2 * window->capacity : 4;
        window->reports = memory_resized(window->reports, window->capacity, sizeof *window->reports);
    }
    struct clock_report *added = &window->reports[window->count++];
    *added = (struct clock_report){0};
    return added;
}

/* Takes the clocks without work that are reported with another. */
static void take_idle(struct controller *controller, const struct message_progress *report) {
    for (uint64_t clock = report->clock - report->idle; clock < report->clock; clock++) {
        struct clock_window *window = clock > controller->progress.completed ? window_of(controller, clock) : NULL;
        if (window != NULL && !has_report(window, report->origin)) {
            add_report(window)->origin = report->origin;
        }
    }
}

/* Takes a report. Returns whether it is the origin's first report of work on the clock. A report of an earlier epoch
 * does not count as the last clock's evaluation, as the clock may be done again. */
static bool take_report(struct controller *controller, const struct message *message) {
    const struct message_progress *report = &message->progress;
    size_t metric_count;
    const struct wire_metric_sum *metrics = progress_metrics(message, &metric_count);
    assert(metric_count == controller->job.metric_count && report->clock > controller->progress.completed);
    assert(report->clock <= controller->progress.completed + window_entries(controller));
    struct clock_window *window = window_of(controller, report->clock);
    struct clock_report *mine = find_report(window, report->origin);
    bool last = report->last != 0 && message->epoch == controller->plan.epoch;
    if (mine != NULL && last && !mine->last) { /* the clock was evaluated once more, as the job's last clock */
        mine->last = true;
        for (unsigned i = 0; i < controller->job.metric_count; i++) {
            mine->metrics[i] = controller->job.metrics[i].evaluated != 0 ? metrics[i] : mine->metrics[i];
        }
    }
    bool stands_in = lost_is_evaluated(&controller->lost, report->clock, report->origin);
    if (mine != NULL || (report->evaluation != 0) != stands_in) {
        return false;
    }
    mine = add_report(window);
    *mine = (struct clock_report){.origin = report->origin,
                                  .items = report->items,
                                  .items_fed = report->items_fed < report->items ? report->items_fed : report->items,
                                  .helped = report->helped,
                                  .clock_us = report->clock_us,
                                  .compute_us = report->compute_us,
                                  .evaluate_us = report->evaluate_us,
                                  .starved_us = report->feed_wait_us + report->transforms_us,
                                  .evaluation = report->evaluation != 0,
                                  .last = last};
    for (unsigned i = 0; i < controller->job.metric_count; i++) {
        bool counts = report->evaluation == 0 || controller->job.metrics[i].evaluated != 0;
        mine->metrics[i] = counts ? metrics[i] : (struct wire_metric_sum){0};
    }
    return !mine->evaluation;
}

/* Passes a node's first report of a clock to the monitor. Skips catch-ups, which a node does beside its own clocks, and
 * clocks without work (strategy_parts): they do not show the node's speed. */
static void measure(struct controller *controller, const struct member *member, const struct message_progress *report) {
    const struct strategy_clocks clocks = job_clocks(&controller->job.terms);
    enum strategy strategy = plan_strategy_at(&controller->plan.view, report->clock);
    if (!origin_is_catch_up(report->origin) && strategy_parts(strategy, &clocks, report->clock) > 0) {
        const struct monitor_sample sample = {.node = member->node.actor,
                                              .version = controller->plan.version,
                                              .now_us = controller_now(controller),
                                              .items = report->items,
                                              .slice = member->slice,
                                              .compute_us = report->compute_us,
                                              .clock_us = report->clock_us};
        monitor_add(&controller->clocks.monitor, &sample);
    }
}

void progress_receive(struct controller *controller, struct member *member, const struct message *message) {
    const struct message_progress *report = &message->progress;
    size_t metric_count;
    progress_metrics(message, &metric_count);
    uint64_t completed = controller->progress.completed;
    if (controller->clocks.window == NULL || report->clock > completed + window_entries(controller)) {
        return;
    }
    if (metric_count != controller->job.metric_count) {
        fail_for_metrics(controller, member, metric_count);
        return;
    }
    bool present = report->origin == origin_catch_up(member->node.actor, controller->plan.epoch);
    bool new = present &&
               report->clock == schedule_next(&controller->plan.schedule, report->origin, member->reported.catch_up);
    take_idle(controller, report);
    if (report->clock > completed && take_report(controller, message)) {
        measure(controller, member, report);
        controller->progress.items_helped += counted_items(controller, report->clock, report->helped);
        controller->progress.items_fed += report->items_fed < report->items ? report->items_fed : report->items;
        controller->progress.feed_wait_us += report->feed_wait_us;
    }
    if (new) {
        member->reported.catch_up = report->clock;
        controller->progress.items_redone += report->clock <= controller->recovery.redone_until
                                                 ? counted_items(controller, report->clock, report->items)
                                                 : 0;
        persist_soon(controller);
    }
    if (report->evaluation == 0 && report->clock > member->reported.clock) {
        member->reported.clock = report->clock;
    }
    progress_committed(controller, message->epoch == controller->plan.epoch ? report->committed : 0);
    member->usage.numbers = report->numbers;
    progress_step(controller);
}
