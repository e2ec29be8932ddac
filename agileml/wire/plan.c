/* See plan.h. */
#include "agileml/wire/plan.h"

#include <string.h>

struct plan_view plan_of_frames(uint64_t epoch, const struct message_plan *terms, struct buffer *frames[PLAN_FRAMES]) {
    struct plan_view plan = {.epoch = epoch, .terms = *terms};
    memcpy(plan.frames, frames, sizeof plan.frames);
    plan.nodes = (const void *)frames[PLAN_NODES]->data;
    plan.node_count = frames[PLAN_NODES]->size / sizeof *plan.nodes;
    plan.placement = (const void *)frames[PLAN_PLACEMENT]->data;
    plan.assignments = (const void *)frames[PLAN_ASSIGNMENTS]->data;
    plan.assignment_count = frames[PLAN_ASSIGNMENTS]->size / sizeof *plan.assignments;
    plan.shards = (const void *)frames[PLAN_SHARDS]->data;
    plan.shard_count = frames[PLAN_SHARDS]->size / sizeof *plan.shards;
    plan.endpoints = (const void *)frames[PLAN_ENDPOINTS]->data;
    plan.endpoint_count = frames[PLAN_ENDPOINTS]->size / sizeof *plan.endpoints;
    return plan;
}

struct plan_view plan_open(const struct message *message) {
    struct buffer *frames[PLAN_FRAMES];
    memcpy(frames, message->frames, sizeof frames);
    struct plan_view plan = plan_of_frames(message->epoch, &message->plan, frames);
    return plan_share(&plan);
}

struct plan_view plan_share(const struct plan_view *plan) {
    for (unsigned f = 0; f < PLAN_FRAMES; f++) {
        buffer_hold(plan->frames[f]);
    }
    return *plan;
}

void plan_close(struct plan_view *plan) {
    for (unsigned f = 0; f < PLAN_FRAMES; f++) {
        buffer_drop(plan->frames[f]);
    }
    memset(plan, 0, sizeof *plan);
}

struct message plan_message(const struct plan_view *plan) {
    struct plan_view held = plan_share(plan); /* the message takes over these references */
    struct message message = {
        .type = MESSAGE_PLAN, .epoch = held.epoch, .plan = held.terms, .frame_count = PLAN_FRAMES};
    memcpy(message.frames, held.frames, sizeof held.frames);
    return message;
}

static int placement_check(const struct message_plan *terms, const struct buffer *frame, struct error *error) {
    if (frame->size != terms->partitions * sizeof(struct wire_placement)) {
        return error_set(error, AML_EPROTOCOL, "PLAN: a placement of %zu bytes does not fit %u partitions", frame->size,
                         terms->partitions);
    }
    const struct wire_placement *placement = (const void *)frame->data;
    for (uint32_t p = 0; p < terms->partitions; p++) {
        if (placement[p].server == ACTOR_NONE || placement[p].next_server == ACTOR_NONE) {
            return error_set(error, AML_EPROTOCOL, "PLAN: partition %u has no server", p);
        }
    }
    return 0;
}

static int assignments_check(const struct message_plan *terms, const struct buffer *records,
                             const struct buffer *numbers, struct error *error) {
    const struct wire_assignment *assignments = (const void *)records->data;
    const uint32_t *shards = (const void *)numbers->data;
    size_t listed = numbers->size / sizeof *shards;
    for (size_t d = 0; d < records->size / sizeof *assignments; d++) {
        if (assignments[d].count == 0 || assignments[d].first > listed ||
            assignments[d].count > listed - assignments[d].first || assignments[d].from_clock == 0 ||
            assignments[d].from_clock > assignments[d].until_clock || assignments[d].until_clock > WIRE_CLOCK_NEVER) {
            return error_set(error, AML_EPROTOCOL, "PLAN: assignment %zu: its clocks or shards are out of range", d);
        }
    }
    for (size_t i = 0; i < listed; i++) {
        if (shards[i] >= terms->shards) {
            return error_set(error, AML_EPROTOCOL, "PLAN: shard %u, expected less than %u", shards[i], terms->shards);
        }
    }
    return 0;
}

int plan_check(const struct message *message, struct error *error) {
    const struct message_plan *terms = &message->plan;
    if (terms->partitions == 0 || terms->shards == 0 || terms->commit_every == 0 || terms->next_commit_every == 0) {
        return error_set(error, AML_EPROTOCOL,
                         "PLAN: %u partitions, %u shards, commits every %u and %u clocks, expected none to be 0",
                         terms->partitions, terms->shards, terms->commit_every, terms->next_commit_every);
    }
    int result = placement_check(terms, message->frames[PLAN_PLACEMENT], error);
    return result != 0
               ? result
               : assignments_check(terms, message->frames[PLAN_ASSIGNMENTS], message->frames[PLAN_SHARDS], error);
}

bool plan_replaces(const struct plan_view *now, const struct plan_view *come, uint64_t epoch) {
    return come->epoch >= epoch && (!plan_is_there(now) || (come->terms.version > now->terms.version &&
                                                            come->terms.partitions == now->terms.partitions));
}

bool plan_has_role(const struct plan_view *plan, uint32_t partition, actor_id server) {
    const struct wire_placement *placement = &plan->placement[partition];
    return server == placement->server || server == placement->backup || server == placement->next_server ||
           server == placement->next_backup;
}

bool placement_names_node(const struct wire_placement *placement, actor_id node) {
    return node == actor_node(placement->server) || node == actor_node(placement->backup) ||
           node == actor_node(placement->next_server) || node == actor_node(placement->next_backup);
}

const char *plan_endpoint(const struct plan_view *plan, actor_id server) {
    for (size_t e = 0; e < plan->endpoint_count; e++) {
        if (plan->endpoints[e].actor == server) {
            return plan->endpoints[e].endpoint;
        }
    }
    return NULL;
}

bool plan_origin_works(const struct plan_view *plan, actor_id origin, uint64_t clock, bool *alone) {
    bool works = false;
    *alone = true;
    for (size_t d = 0; d < plan->assignment_count; d++) {
        if (assignment_covers(&plan->assignments[d], clock)) {
            works = works || plan->assignments[d].origin == origin;
            *alone = *alone && plan->assignments[d].origin == origin;
        }
    }
    return works;
}

double plan_origin_share(const struct plan_view *plan, actor_id origin, uint64_t clock) {
    uint64_t shards = 0;
    for (size_t d = 0; d < plan->assignment_count; d++) {
        const struct wire_assignment *assignment = &plan->assignments[d];
        shards += assignment->origin == origin && assignment_covers(assignment, clock) ? assignment->count : 0;
    }
    return (double)shards / plan->terms.shards;
}

bool plan_is_commit_point(const struct plan_view *plan, uint64_t clock) {
    const struct message_plan *terms = &plan->terms;
    uint32_t every = clock + 1 >= terms->from_clock ? terms->next_commit_every : terms->commit_every;
    bool is_point = clock % every == 0 || clock + 1 == terms->from_clock || clock == terms->from_clock ||
                    clock == terms->restore || (terms->final != 0 && clock == terms->final);
    for (size_t d = 0; d < plan->assignment_count && !is_point; d++) {
        is_point = plan->assignments[d].from_clock == clock + 1;
    }
    return is_point;
}

uint64_t plan_next_commit_point(const struct plan_view *plan, uint64_t clock) {
    while (!plan_is_commit_point(plan, clock)) {
        clock++;
    }
    return clock;
}
