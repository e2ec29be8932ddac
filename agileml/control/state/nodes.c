/* Reports what each node does (lines `nodes`), and how much it has done (lines `usage`). Part of the elasticity
 * controller; see controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    NODES_EACH_US = 100 * 1000, /* shortest time between two lines `nodes` */
    NODES_LINE_MAX = 500,       /* nodes in one line, so that the line stays below WIRE_JSON_MAX */
    /* The time between two lines `usage` is the longest of the next three. So even a long job has only some thousand
     * such lines. */
    USAGE_EACH_US = 1000 * 1000,
    USAGE_NODE_US = 100 * 1000, /* times the number of nodes */
    USAGE_TRAINED_PART = 300,   /* the training time divided by this */
};

/* ---- What each node does ---- */

struct role {
    uint64_t digest;
    uint32_t shards;
};

/* Finds each member's role: a digest of its partitions that does not depend on their order, and the number of its data
 * shards. */
static void find_roles(const struct controller *controller, struct role *roles) {
    const struct controller_plan *plan = &controller->plan;
    struct index_map members = {0};
    for (unsigned m = 0; m < controller->member_count; m++) {
        index_map_add(&members, controller->members[m].node.actor, m);
    }
    for (uint32_t p = 0; p < controller->options.policy.partitions; p++) {
        int64_t server = index_map_find(&members, actor_node(plan->placement[p].server));
        int64_t backup = index_map_find(&members, actor_node(plan->placement[p].backup));
        if (server != INDEX_NONE) {
            roles[server].digest += hash_mix(2 * (uint64_t)p + 1);
        }
        if (backup != INDEX_NONE) {
            roles[backup].digest += hash_mix(2 * (uint64_t)p + 2);
        }
    }
    actor_id *owners = memory_zeroed(plan->schedule.shards, sizeof *owners);
    schedule_owners(&plan->schedule, controller->progress.completed + 1, owners);
    for (uint32_t s = 0; s < plan->schedule.shards; s++) {
        int64_t owner = index_map_find(&members, owners[s]);
        if (owner != INDEX_NONE) {
            roles[owner].shards++;
        }
    }
    free(owners);
    index_map_close(&members);
}

/* Whether the plan in force is still that of the last report. */
static bool plan_is_known(const struct controller *controller) {
    const struct controller_plan *plan = &controller->plan;
    bool switched = controller->progress.completed + 1 >= plan->from_clock;
    return plan->version == controller->nodes.version && switched == controller->nodes.switched;
}

static bool member_has_changed(const struct member *member, const struct role *role) {
    const struct member_shown *shown = &member->shown;
    bool moved = role != NULL && (role->digest != shown->roles || role->shards != shown->shards);
    return !shown->known || member->state != shown->state || member_threads(member) != shown->threads ||
           (member->stay != MEMBER_STAYS) != shown->leaving || moved;
}

static void member_is_shown(struct member *member, const struct role *role) {
    struct member_shown *shown = &member->shown;
    shown->known = true;
    shown->state = member->state;
    shown->threads = member_threads(member);
    shown->leaving = member->stay != MEMBER_STAYS;
    shown->roles = role != NULL ? role->digest : shown->roles;
    shown->shards = role != NULL ? role->shards : shown->shards;
}

/* Reports the members that have changed. `roles` is NULL if no role can have changed. */
static void report_changed(struct controller *controller, const struct role *roles) {
    struct member *changed[NODES_LINE_MAX];
    size_t count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        const struct role *role = roles != NULL ? &roles[m] : NULL;
        if (member_has_changed(member, role)) {
            member_is_shown(member, role);
            assert(count < NODES_LINE_MAX);
            changed[count++] = member;
        }
        if (count == NODES_LINE_MAX || (count > 0 && m + 1 == controller->member_count)) {
            controller_report(controller, report_nodes(controller, changed, count));
            count = 0;
        }
    }
}

static void report_gone(struct controller *controller) {
    struct controller_nodes *nodes = &controller->nodes;
    for (size_t g = 0; g < nodes->gone_count; g += NODES_LINE_MAX) {
        size_t left = nodes->gone_count - g;
        controller_report(
            controller, report_gone_nodes(controller, nodes->gone + g, left < NODES_LINE_MAX ? left : NODES_LINE_MAX));
    }
    nodes->gone_count = 0;
}

static void report_all(struct controller *controller) {
    struct controller_nodes *nodes = &controller->nodes;
    struct role *roles = NULL;
    if (controller->plan.placement != NULL && !plan_is_known(controller)) {
        roles = memory_zeroed(controller->member_count, sizeof *roles);
        find_roles(controller, roles);
        nodes->version = controller->plan.version;
        nodes->switched = controller->progress.completed + 1 >= controller->plan.from_clock;
    }
    report_gone(controller); /* first, as a new node may have the name of a removed one */
    report_changed(controller, roles);
    free(roles);
}

/* ---- How much each node has done ---- */

static void report_usages(struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m += NODES_LINE_MAX) {
        unsigned left = controller->member_count - m;
        controller_report(controller, report_usage(controller, m, left < NODES_LINE_MAX ? left : NODES_LINE_MAX));
    }
}

static uint64_t usage_wait_us(const struct controller *controller) {
    uint64_t by_nodes_us = controller->member_count * (uint64_t)USAGE_NODE_US;
    uint64_t by_time_us = controller_trained_us(controller) / USAGE_TRAINED_PART;
    uint64_t wait_us = by_nodes_us > by_time_us ? by_nodes_us : by_time_us;
    return wait_us > USAGE_EACH_US ? wait_us : USAGE_EACH_US;
}

void nodes_step(struct controller *controller) {
    struct controller_nodes *nodes = &controller->nodes;
    uint64_t now_us = controller_now(controller);
    if (controller->phase >= PHASE_LEAVE || now_us < nodes->due_us) {
        return;
    }
    nodes->due_us = now_us + NODES_EACH_US;
    report_all(controller);
    if (controller->phase == PHASE_TRAIN && now_us >= nodes->usage_us) {
        if (nodes->usage_us > 0) { /* 0: this controller has just begun, and members have not reported yet */
            report_usages(controller);
        }
        nodes->usage_us = now_us + usage_wait_us(controller);
    }
}

void nodes_finish(struct controller *controller) {
    report_all(controller);
    report_usages(controller);
}

void nodes_removed(struct controller *controller, const struct member *member) {
    struct controller_nodes *nodes = &controller->nodes;
    if (!member->shown.known) {
        return;
    }
    nodes->gone = memory_resized(nodes->gone, nodes->gone_count + 1, sizeof *nodes->gone);
    struct node_gone *gone = &nodes->gone[nodes->gone_count++];
    memcpy(gone->name, member->name, sizeof gone->name);
    gone->lost = member->stay != MEMBER_DISMISSED;
    gone->usage = member->usage;
}

void nodes_close(struct controller *controller) {
    free(controller->nodes.gone);
}
