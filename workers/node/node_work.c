/* A node's work: its assignments by the plan, the choice of the next clock, and evaluations. See node_private.h. */
#include "workers/node/node_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void become(struct node *node, enum node_activity activity) {
    static const unsigned legal[] = {[NODE_IDLE] = 1 << NODE_COMPUTING | 1 << NODE_EVALUATING,
                                     [NODE_COMPUTING] = 1 << NODE_COMPUTED,
                                     [NODE_COMPUTED] = 1 << NODE_EVALUATING,
                                     [NODE_EVALUATING] = 1 << NODE_IDLE};
    assert((legal[node->work.activity] >> activity & 1) != 0);
    node->work.activity = activity;
}

void node_work_close(struct node *node) {
    for (unsigned s = 0; s < node->work.set_count; s++) {
        free(node->work.sets[s].shards);
    }
    free(node->work.sets);
    free(node->work.assignments);
    free(node->work.evaluations);
}

/* ---- Assignments ---- */

/* Takes over what the assignment's origin has done under the old plan. */
static void take_done(const struct node *node, struct node_assignment *assignment) {
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        if (node->work.assignments[d].origin == assignment->origin) {
            assignment->done = node->work.assignments[d].done;
            assignment->last = node->work.assignments[d].last;
            return;
        }
    }
}

void node_work_take_assignments(struct node *node) {
    const struct wire_assignment *planned = node->plan.assignments;
    struct node_assignment *assignments = memory_zeroed(node->plan.assignment_count + 1, sizeof *assignments);
    unsigned count = 0;
    for (size_t d = 0; d < node->plan.assignment_count; d++) {
        if (actor_node(planned[d].origin) != node->options.self) {
            continue;
        }
        uint32_t *shards = memory_resized(NULL, planned[d].count, sizeof *shards);
        memcpy(shards, node->plan.shards + planned[d].first, planned[d].count * sizeof *shards);
        assignments[count] = (struct node_assignment){.origin = planned[d].origin,
                                                      .from_clock = planned[d].from_clock,
                                                      .until_clock = planned[d].until_clock,
                                                      .set = node_set_of_shards(node, shards, planned[d].count)};
        take_done(node, &assignments[count++]);
    }
    free(node->work.assignments);
    node->work.assignments = assignments;
    node->work.assignment_count = count;
    assert(count <= node->plan.assignment_count);
}

unsigned node_origins(const struct node *node, uint64_t clock) {
    actor_id *nodes = memory_resized(NULL, node->plan.assignment_count + 1, sizeof *nodes);
    size_t at_work = 0;
    for (size_t d = 0; d < node->plan.assignment_count; d++) {
        if (assignment_covers(&node->plan.assignments[d], clock)) {
            nodes[at_work++] = actor_node(node->plan.assignments[d].origin);
        }
    }
    qsort(nodes, at_work, sizeof *nodes, node_compare_numbers);
    unsigned different = 0;
    for (size_t n = 0; n < at_work; n++) {
        different += n == 0 || nodes[n] != nodes[n - 1] ? 1 : 0;
    }
    free(nodes);
    return different;
}

/* ---- The next clock ---- */

/* The next clock of an assignment; WIRE_CLOCK_NEVER when all are done. */
static uint64_t assignment_next(const struct node *node, const struct node_assignment *assignment) {
    uint64_t done = assignment->origin == node->options.self ? node->client.flushed : assignment->done;
    uint64_t next = assignment->from_clock > done ? assignment->from_clock : done + 1;
    return next <= assignment->until_clock ? next : WIRE_CLOCK_NEVER;
}

static bool set_contains(const struct node_set *set, const struct node_set *part) {
    return node_set_common(set, part) == part->count;
}

/* Whether, in the assignment's first clock, its shards were another origin's just before. This node must then see the
 * other origin's last puts, whatever the staleness, or its own puts would undo them. */
static bool shards_are_new(const struct node *node, const struct node_assignment *assignment, uint64_t clock) {
    if (clock != assignment->from_clock) {
        return false;
    }
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        const struct node_assignment *before = &node->work.assignments[d];
        if (before->origin == assignment->origin && before->until_clock + 1 == clock &&
            set_contains(&node->work.sets[before->set], &node->work.sets[assignment->set])) {
            return false;
        }
    }
    return true;
}

/* Whether all of the set's shards are in assignments of this node in `clock`. */
static bool worked_by_us(const struct node *node, const struct node_set *set, uint64_t clock) {
    uint32_t found = 0;
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        const struct node_assignment *assignment = &node->work.assignments[d];
        if (assignment->from_clock <= clock && clock <= assignment->until_clock) {
            found += node_set_common(&node->work.sets[assignment->set], set);
        }
    }
    return found == set->count;
}

/* Whether this is the assignment's first clock, and the clock before may still be lost with another node that had the
 * shards, and be done again with other results. Our own flush builds on that node's puts, and would be kept. So in a
 * job with put tables the clock before must be committed first. (It is a commit point.) */
static bool may_be_done_again(const struct node *node, const struct node_assignment *assignment, uint64_t clock) {
    return clock == assignment->from_clock && node->client.committed < clock - 1 && job_has_put_tables(node->job) &&
           !worked_by_us(node, &node->work.sets[assignment->set], clock - 1);
}

static bool assignment_may_begin(const struct node *node, const struct node_assignment *assignment, uint64_t clock) {
    return clock != WIRE_CLOCK_NEVER && !node_held_at(node, clock - 1) && (node->final == 0 || clock <= node->final) &&
           node->work.sets[assignment->set].state == SET_READY && client_may_begin(&node->client, clock) &&
           (!shards_are_new(node, assignment, clock) || client_has_state(&node->client, clock - 1)) &&
           !may_be_done_again(node, assignment, clock);
}

/* Whether a catch-up that ends before `clock` has clocks left. Its puts must not come after our own assignment's. */
static bool catches_up_before(const struct node *node, uint64_t clock) {
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        const struct node_assignment *assignment = &node->work.assignments[d];
        if (origin_is_catch_up(assignment->origin) && assignment->until_clock < clock &&
            assignment_next(node, assignment) != WIRE_CLOCK_NEVER) {
            return true;
        }
    }
    return false;
}

/* The assignment whose next clock comes first, among catch-ups or among our own; NULL when that may not begin. */
static struct node_assignment *assignment_to_begin(struct node *node, bool catch_up) {
    struct node_assignment *first = NULL;
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        struct node_assignment *assignment = &node->work.assignments[d];
        if ((bool)origin_is_catch_up(assignment->origin) == catch_up &&
            (first == NULL || assignment_next(node, assignment) < assignment_next(node, first))) {
            first = assignment;
        }
    }
    bool waits = first == NULL || (!catch_up && catches_up_before(node, assignment_next(node, first)));
    return !waits && assignment_may_begin(node, first, assignment_next(node, first)) ? first : NULL;
}

/* Returns the last of the clocks that are begun together with `clock`: the next clock with work, or an earlier clock if
 * that one may not begin. Catch-ups begin single clocks. A clock with work whose flushes go by a ring begins alone. */
static uint64_t begun_with(struct node *node, const struct node_assignment *assignment, uint64_t clock) {
    uint64_t last = strategy_work(plan_strategy_at(&node->plan, clock), &node->job->clocks, clock);
    const uint64_t limits[] = {assignment->until_clock, node->barrier.clock,
                               node->final != 0 ? node->final : WIRE_CLOCK_NEVER,
                               clock + WIRE_PROGRESS_MAX - 1 - node->reports.clocks};
    for (unsigned l = 0; l < sizeof limits / sizeof *limits; l++) {
        last = limits[l] < last ? limits[l] : last;
    }
    if (assignment->origin != node->options.self) {
        last = clock;
    }
    last -= last > clock && client_ring_there(&node->client, last) ? 1 : 0;
    while (last > clock && !client_may_begin(&node->client, last)) {
        last--;
    }
    assert(last >= clock && last - clock < WIRE_LOCAL_STEPS_MAX);
    return last;
}

static void begin_clock(struct node *node, const struct node_assignment *assignment) {
    const struct node_hooks *hooks = &node->options.hooks;
    uint64_t first = assignment_next(node, assignment);
    uint64_t clock = begun_with(node, assignment, first);
    uint32_t idle = (uint32_t)(clock - first);
    assert(assignment->from_clock <= first && clock <= assignment->until_clock);
    assert(actor_node(assignment->origin) == node->options.self && !node_held_at(node, clock - 1));
    assert(node->work.sets[assignment->set].state == SET_READY);
    client_begin_clocks(&node->client, assignment->origin, clock, idle);
    node->work.assignment = *assignment;
    node->work.clock = clock;
    node->work.idle = idle;
    node->work.again = false;
    node->work.begun = clock > node->work.begun ? clock : node->work.begun;
    node->work.began_us = node_now(node);
    become(node, NODE_COMPUTING);
    node->work.items = node->work.helped = node->work.compute_us = 0;
    node->work.steps = node->work.step = 0;
    FOR_SERVICES (node, service, begin) {
        service->begin(node);
    }
    hooks->compute(hooks->context, node->work.sets[assignment->set].number, clock);
}

/* ---- Evaluations ---- */

static bool is_last(const struct node *node, uint64_t clock) {
    return node->final != 0 && clock == node->final && client_has_state(&node->client, clock);
}

/* Evaluates node->work.clock of node->work.assignment. */
static void evaluate(struct node *node) {
    const struct node_hooks *hooks = &node->options.hooks;
    assert(node->work.sets[node->work.assignment.set].state == SET_READY);
    become(node, NODE_EVALUATING);
    node->work.last = is_last(node, node->work.clock);
    node->work.evaluates_us = node_now(node);
    client_freeze(&node->client);
    hooks->evaluate(hooks->context, node->work.sets[node->work.assignment.set].number, node->work.clock,
                    node->work.again);
}

static void evaluate_again(struct node *node, actor_id origin, unsigned set, uint64_t clock) {
    node->work.assignment = (struct node_assignment){.origin = origin, .set = set};
    node->work.clock = clock;
    node->work.again = true;
    evaluate(node);
}

/* Whether to evaluate the clock that was flushed. That is due when the next clock may begin. A clock that may be the
 * job's last waits for the complete state. But it does not wait if a catch-up can go on, whose flushes that state may
 * need. */
static bool evaluation_due(const struct node *node, bool catch_up) {
    uint64_t clock = node->work.clock;
    bool last = clock == node->final || node_held_at(node, clock);
    return catch_up || origin_is_catch_up(node->work.assignment.origin) ||
           (last ? client_has_state(&node->client, clock) : client_may_begin(&node->client, clock + 1));
}

/* Begins an evaluation that the controller has requested. True when there was one whose data and state are here. */
static bool evaluate_asked(struct node *node) {
    for (unsigned e = 0; e < node->work.evaluation_count && !node->client.fenced; e++) {
        const struct node_evaluation *evaluation = &node->work.evaluations[e];
        bool again = is_last(node, evaluation->clock) && evaluation->last != evaluation->clock;
        if ((!evaluation->done || again) && node->work.sets[evaluation->set].state == SET_READY &&
            client_has_state(&node->client, evaluation->clock)) {
            evaluate_again(node, evaluation->origin, evaluation->set, evaluation->clock);
            return true;
        }
    }
    return false;
}

/* Evaluates the job's last clock once more, if its evaluation came before it was named the last, or used another state
 * than its own. */
static bool evaluate_last(struct node *node) {
    for (unsigned d = 0; d < node->work.assignment_count && is_last(node, node->final) && !node->client.fenced; d++) {
        const struct node_assignment *assignment = &node->work.assignments[d];
        uint64_t next = assignment_next(node, assignment);
        if (assignment->from_clock <= node->final && node->final <= assignment->until_clock && next > node->final &&
            assignment->last != node->final && node->work.sets[assignment->set].state == SET_READY) {
            evaluate_again(node, assignment->origin, assignment->set, node->final);
            return true;
        }
    }
    return false;
}

void node_work_drop_evaluations(struct node *node, uint64_t from, uint64_t until) {
    unsigned kept = 0;
    for (unsigned e = 0; e < node->work.evaluation_count; e++) {
        if (node->work.evaluations[e].clock < from || node->work.evaluations[e].clock > until) {
            node->work.evaluations[kept++] = node->work.evaluations[e];
        }
    }
    node->work.evaluation_count = kept;
}

void node_work_undo_evaluations(struct node *node) {
    uint64_t restore = node->plan.terms.restore;
    node_work_drop_evaluations(node, restore + 1, WIRE_CLOCK_NEVER);
    if (node->final == 0 || node->final <= restore) {
        return;
    }
    node->work.last = false;
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        node->work.assignments[d].last = 0;
    }
    node_reports_undo_last(node);
}

void node_work_receive_evaluate(struct node *node, const struct message *message) {
    const struct message_evaluate *asked = &message->evaluate;
    size_t count;
    const uint32_t *listed = evaluate_shards(message, &count);
    if (message->epoch != node->client.epoch || node->client.fenced || !plan_is_there(&node->plan) ||
        actor_node(asked->origin) != node->options.self || asked->clock > node->plan.terms.restore ||
        listed[count - 1] >= node->plan.terms.shards || node->work.evaluation_count == NODE_EVALUATIONS_MAX) {
        return;
    }
    for (unsigned e = 0; e < node->work.evaluation_count; e++) {
        if (node->work.evaluations[e].origin == asked->origin && node->work.evaluations[e].clock == asked->clock) {
            return;
        }
    }
    uint32_t *shards = memory_resized(NULL, count, sizeof *shards);
    memcpy(shards, listed, count * sizeof *shards);
    node->work.evaluations =
        memory_resized(node->work.evaluations, node->work.evaluation_count + 1, sizeof *node->work.evaluations);
    unsigned set = node_set_of_shards(node, shards, (uint32_t)count);
    node->work.evaluations[node->work.evaluation_count++] =
        (struct node_evaluation){.origin = asked->origin, .clock = asked->clock, .set = set};
    assert(node->work.evaluation_count <= NODE_EVALUATIONS_MAX);
}

/* ---- What begins next ---- */

static bool is_busy(const struct node *node) {
    return node->work.activity == NODE_COMPUTING || node->work.activity == NODE_EVALUATING || node->work.occupied;
}

enum node_waits node_work_waits(const struct node *node, actor_id *on) {
    *on = ACTOR_NONE;
    if (is_busy(node)) {
        return NODE_WAITS_NOT;
    }
    enum node_waits waits = NODE_WAITS_TURN;
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        const struct node_assignment *assignment = &node->work.assignments[d];
        uint64_t next = assignment_next(node, assignment);
        if (next != WIRE_CLOCK_NEVER && node->work.sets[assignment->set].state < SET_PREPARED) {
            return NODE_WAITS_INPUT;
        }
        waits = next != WIRE_CLOCK_NEVER && node_held_at(node, next - 1) ? NODE_WAITS_BARRIER : waits;
    }
    actor_id server = ACTOR_NONE;
    enum node_waits awaits = client_waits_on(&node->client, &server);
    if (awaits != NODE_WAITS_NOT) {
        *on = actor_node(server);
        return awaits;
    }
    return waits;
}

static bool services_advance(struct node *node) {
    FOR_SERVICES (node, service, advance) {
        if (service->advance(node)) {
            return true;
        }
    }
    return false;
}

static bool services_wait(struct node *node, uint64_t clock) {
    FOR_SERVICES (node, service, waits) {
        if (service->waits(node, clock)) {
            return true;
        }
    }
    return false;
}

static void services_idle(struct node *node) {
    FOR_SERVICES (node, service, idle) {
        service->idle(node);
    }
}

bool node_work_advance(struct node *node) {
    if (node->ended) {
        return false;
    }
    if (node_sets_advance(node) || services_advance(node)) {
        return true;
    }
    if (node->state < NODE_STARTED || is_busy(node) || node->save.unsaving) {
        return false;
    }
    const struct node_assignment *catch_up = assignment_to_begin(node, true);
    if (node->work.activity == NODE_COMPUTED) {
        bool due = evaluation_due(node, catch_up != NULL);
        if (due) {
            evaluate(node);
        } else {
            services_idle(node);
        }
        return due;
    }
    if (node->reports.clocks == WIRE_PROGRESS_MAX) {
        return false;
    }
    if (catch_up == NULL && evaluate_asked(node)) {
        return true;
    }
    const struct node_assignment *assignment = catch_up != NULL ? catch_up : assignment_to_begin(node, false);
    if (assignment == NULL) {
        bool evaluates = evaluate_last(node);
        if (!evaluates) {
            services_idle(node);
        }
        return evaluates;
    }
    if (catch_up == NULL && services_wait(node, assignment_next(node, assignment))) {
        return false;
    }
    begin_clock(node, assignment);
    return true;
}

bool node_work_is_through(const struct node *node) {
    if (node->final == 0 || node->work.activity != NODE_IDLE) {
        return false;
    }
    bool had_final = false;
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        const struct node_assignment *assignment = &node->work.assignments[d];
        if (assignment_next(node, assignment) <= node->final) {
            return false;
        }
        had_final = had_final || (assignment->from_clock <= node->final && assignment->until_clock >= node->final);
    }
    return !had_final || client_has_state(&node->client, node->final);
}

/* Ends the clock: the process is done with it, and has gathered its changes. */
static void end_clock(struct node *node) {
    assert(node->client.clock == node->work.clock && node->client.origin == node->work.assignment.origin);
    assert(node->work.step == node->work.steps && node->work.helped <= node->work.items);
    become(node, NODE_COMPUTED);
    if (node->work.assignment.origin == node->options.self) {
        FOR_SERVICES (node, service, end) {
            service->end(node);
        }
    }
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        if (node->work.assignments[d].origin == node->work.assignment.origin) {
            node->work.assignments[d].done = node->client.clock;
        }
    }
    client_flush(&node->client);
}

void node_work_computed(struct node *node, uint64_t items, uint64_t compute_us) {
    if (node->ended) {
        return;
    }
    node->work.items += items;
    node->work.compute_us += compute_us;
    FOR_SERVICES (node, service, computed) {
        if (service->computed(node)) {
            return;
        }
    }
    end_clock(node);
}

void node_work_gathered(struct node *node) {
    if (node->ended) {
        return;
    }
    /* What the clock would have taken without the help of others: the controller compares nodes by it. */
    uint64_t ours = node->work.items;
    node->work.items += node->work.helped;
    if (ours > 0) {
        node->work.compute_us = (uint64_t)((double)node->work.compute_us * (double)node->work.items / (double)ours);
    }
    end_clock(node);
}

/* Records the evaluation that has just ended. */
static void note_evaluated(struct node *node) {
    if (node->work.assignment.origin == node->options.self && !node->work.again) {
        node->work.evaluated = node->work.clock;
    }
    for (unsigned d = 0; d < node->work.assignment_count && node->work.last; d++) {
        if (node->work.assignments[d].origin == node->work.assignment.origin) {
            node->work.assignments[d].last = node->work.clock;
        }
    }
    for (unsigned e = 0; e < node->work.evaluation_count && node->work.again; e++) {
        struct node_evaluation *evaluation = &node->work.evaluations[e];
        if (evaluation->origin == node->work.assignment.origin && evaluation->clock == node->work.clock) {
            evaluation->done = true;
            evaluation->last = node->work.last ? node->work.clock : evaluation->last;
        }
    }
}

void node_work_evaluated(struct node *node, const struct wire_metric_sum *metrics) {
    if (node->ended) {
        return;
    }
    client_thaw(&node->client);
    become(node, NODE_IDLE);
    note_evaluated(node);
    node_reports_add(node, metrics);
}
