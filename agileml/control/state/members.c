/* Functions about members and their parts in the plan, for the other files of the elasticity controller. See
 * controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct member *controller_find_member(const struct controller *controller, actor_id actor) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (controller->members[m].node.actor == actor) {
            return &controller->members[m];
        }
    }
    return NULL;
}

unsigned controller_members_of_tier(const struct controller *controller, unsigned tier) {
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        count += controller->members[m].node.tier == tier ? 1 : 0;
    }
    return count;
}

void controller_count_members(const struct controller *controller, unsigned count[TIERS]) {
    memset(count, 0, TIERS * sizeof *count);
    for (unsigned m = 0; m < controller->member_count; m++) {
        count[controller->members[m].node.tier] += controller->members[m].stay != MEMBER_STAYS ? 0 : 1;
    }
}

struct member *controller_member_named(const struct controller *controller, const char *name) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (strcmp(controller->members[m].name, name) == 0) {
            return &controller->members[m];
        }
    }
    return NULL;
}

void member_set_stay(struct member *member, enum member_stay stay) {
    assert(stay == member->stay + 1 && stay <= MEMBER_DISMISSED);
    member->stay = stay;
}

enum node_tier controller_actor_tier(const struct controller *controller, actor_id actor) {
    const struct member *member = controller_find_member(controller, actor_node(actor));
    return member != NULL ? member->node.tier : TIER_TRANSIENT;
}

enum node_tier controller_trusted_tier(const struct controller *controller, const struct member *member) {
    bool alike = member->node.tier == TIER_RELIABLE && controller->plan.stage == STAGE_TRANSIENT;
    return alike ? TIER_TRANSIENT : member->node.tier;
}

/* ---- Parts in the plan ---- */

bool controller_plan_names(const struct controller *controller, actor_id node, bool coming) {
    bool named = false;
    for (uint32_t p = 0; p < controller->options.policy.partitions && !named; p++) {
        const struct wire_placement *place = &controller->plan.placement[p];
        const struct wire_placement now = {.server = place->server, .backup = place->backup};
        named = placement_names_node(coming ? place : &now, node);
    }
    for (unsigned i = 0; i < controller->plan.schedule.part_count && !named; i++) {
        uint64_t from_clock = controller->plan.schedule.parts[i].from_clock;
        named = (coming || from_clock != WIRE_CLOCK_NEVER) &&
                schedule_count(&controller->plan.schedule, node, from_clock) > 0;
    }
    for (unsigned c = 0; c < controller->plan.schedule.catch_up_count && !named; c++) {
        named = actor_node(controller->plan.schedule.catch_ups[c].origin) == node;
    }
    return named;
}

bool controller_change_fits(const struct controller *controller) {
    uint64_t from_clock = controller->plan.from_clock;
    switch (controller->change.state) {
    case CHANGE_NONE:
        return from_clock == 0;
    case CHANGE_PREPARE:
    case CHANGE_BARRIER:
        return from_clock == WIRE_CLOCK_NEVER;
    case CHANGE_SWITCH:
        return from_clock != 0 && from_clock != WIRE_CLOCK_NEVER;
    case CHANGE_RECOVER:
        return true; /* the clock of the given-up change decides which half of the plan is restored */
    }
    return false;
}

bool controller_has_part(const struct controller *controller, const struct member *member) {
    bool coming = controller->change.state == CHANGE_BARRIER || controller->plan.from_clock != WIRE_CLOCK_NEVER;
    return controller_plan_names(controller, member->node.actor, coming);
}

bool controller_is_outside(const struct controller *controller, const struct member *member) {
    return controller->plan.placement != NULL &&
           (controller_feeds(member) ||
            (member->goes_by.version == 0 && !member->settled && !controller_has_part(controller, member)));
}

bool controller_enough_without_these(const struct controller *controller, const unsigned char *also, char *why,
                                     size_t size) {
    unsigned left[TIERS] = {0};
    uint64_t threads = 0;
    unsigned serving[TIERS] = {0};
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (member->stay == MEMBER_STAYS && also[m] == 0 && !controller_feeds(member)) {
            left[member->node.tier]++;
            threads += member->node.threads;
            serving[member->node.tier] += member->node.servers > 0 ? 1 : 0;
        }
    }
    bool switches = controller->change.state == CHANGE_BARRIER || controller->change.state == CHANGE_SWITCH;
    bool all_serve =
        plan_all_serve(controller->plan.stage) && (!switches || plan_all_serve(controller->change.next_stage));
    if (left[TIER_RELIABLE] + left[TIER_TRANSIENT] == 0) {
        snprintf(why, size, "no node would be left");
    } else if (!all_serve && serving[TIER_RELIABLE] == 0) {
        snprintf(why, size, "no reliable node would be left to keep the parameters");
    } else if (threads == 0 || (all_serve && serving[0] + serving[1] == 0)) {
        snprintf(why, size, "no node would be left to work on the data");
    } else {
        return true;
    }
    return false;
}

bool controller_enough_without(const struct controller *controller, const struct member *member) {
    char why[128];
    unsigned char *chosen = memory_zeroed(controller->member_count, 1);
    assert(member >= controller->members && member < controller->members + controller->member_count);
    chosen[member - controller->members] = 1;
    bool enough = controller_enough_without_these(controller, chosen, why, sizeof why);
    free(chosen);
    return enough;
}

/* ---- Members as others see them ---- */

struct buffer *controller_plan_nodes(const struct controller *controller, bool dismissed) {
    struct buffer *records = buffer_new(controller->member_count * sizeof(struct wire_node));
    records->size = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (member->stay == MEMBER_DISMISSED && !dismissed) {
            continue;
        }
        struct wire_node *record = (struct wire_node *)(void *)(records->data + records->size);
        *record = (struct wire_node){.actor = member->node.actor,
                                     .group = member->node.group,
                                     .tier = member->node.tier,
                                     .threads = member->node.threads};
        memcpy(record->name, member->name, sizeof record->name);
        memcpy(record->key, member->pass.key, sizeof record->key);
        records->size += sizeof *record;
    }
    return records;
}

void controller_admit_members(struct controller *controller) {
    struct buffer *nodes = controller_plan_nodes(controller, true);
    assert(nodes->size == controller->member_count * sizeof(struct wire_node));
    controller->io->admit(controller->io, (const void *)nodes->data, controller->member_count);
    buffer_drop(nodes);
}

uint64_t controller_plan_sent_us(const struct controller *controller) {
    return controller->plan.published_us + controller->member_count * (uint64_t)CONTROLLER_PLAN_SEND_US;
}

uint64_t controller_replan_us(const struct controller *controller) {
    uint64_t soon_us = controller_now(controller) + CONTROLLER_JOIN_WAIT_US;
    uint64_t apart_us = controller->plan.published_us + controller->member_count * (uint64_t)CONTROLLER_CHANGE_GAP_US;
    return soon_us > apart_us ? soon_us : apart_us;
}
