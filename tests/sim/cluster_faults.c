/* Faults of a simulated cluster's machines and network. Each is drawn from the seed and happens when the first node
 * begins a certain clock, or a little later. See cluster_private.h. */
#include "tests/sim/cluster_private.h"

#include <stdlib.h>
#include <string.h>

enum { SECOND_US = 1000 * 1000 };

static uint64_t timeout_us(const struct cluster *cluster) {
    return cluster->drawn.timeout_ms * UINT64_C(1000);
}

/* Returns a notice long enough to leave in order under any other fault. */
static uint64_t generous_us(const struct cluster *cluster) {
    return 60 * (uint64_t)SECOND_US + 40 * cluster->drawn.slowest_us + 10 * cluster->drawn.load_us +
           10 * timeout_us(cluster);
}

/* ---- Who is hit ---- */

unsigned cluster_pick(struct cluster *cluster, enum who who, unsigned count, struct cluster_node **nodes) {
    unsigned found = 0;
    unsigned seen = 0;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        struct cluster_node *node = cluster->nodes[n];
        bool tier = who == WHO_ANY || (node->tier == TIER_TRANSIENT) == (who == WHO_TRANSIENT);
        if (!tier || node->tier == TIER_FEEDER || !cluster_node_lives(node)) {
            continue;
        }
        seen++;
        if (found < count) {
            nodes[found++] = node;
        } else if (count > 0) {
            uint64_t at = cluster_draw(cluster) % seen; /* each node is equally likely */
            if (at < count) {
                nodes[at] = node;
            }
        }
    }
    return found;
}

/* Whether the job can do without these reliable nodes after their notice. */
static bool others_suffice(const struct cluster *cluster, struct cluster_node *const *leaving, unsigned count) {
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        bool leaves = node->fate.leave_us != 0;
        for (unsigned l = 0; l < count; l++) {
            leaves = leaves || leaving[l] == node;
        }
        bool keeps = node->tier == TIER_RELIABLE || (cluster->options.transient && node->tier != TIER_FEEDER);
        if (!leaves && keeps && node->threads > 0 && cluster_node_lives(node)) {
            return true;
        }
    }
    return false;
}

/* ---- What happens ---- */

static void notice_over(void *context) {
    struct cluster_node *node = context;
    if (node->fate.gone) {
        return;
    }
    if (node->fate.generous && !node->cluster->faults.disturbed) {
        cluster_violation(node->cluster, "I8", "%s has not left within a generous notice", node->node.name);
    }
    node->cluster->faults.disturbed = true;
    cluster_kill(node);
}

static void leave_now(void *context) {
    struct cluster_node *node = context;
    if (!node->fate.gone) {
        node_leave_soon(&node->node, node->fate.notice_ms);
    }
}

void cluster_evict(struct cluster *cluster, struct cluster_node **nodes, unsigned count, uint64_t notice_us,
                   bool generous, bool by_itself) {
    if (!others_suffice(cluster, nodes, count)) {
        return;
    }
    cluster->faults.disturbed = cluster->faults.disturbed || !generous;
    for (unsigned n = 0; n < count; n++) {
        struct cluster_node *node = nodes[n];
        node->fate.leave_us = sim_now(cluster->sim) + notice_us + 1;
        node->fate.generous = generous;
        node->fate.notice_ms = (uint32_t)(notice_us / 1000);
        node->fate.hurt = true;
        cluster->result->counts.evictions++;
        cluster_not_calm(cluster, sim_now(cluster->sim) + (generous ? 0 : notice_us));
        if (by_itself) {
            sim_schedule(cluster->sim, node->machine, sim_now(cluster->sim), leave_now, node);
        }
        sim_schedule(cluster->sim, CLUSTER_OPERATOR, node->fate.leave_us, notice_over, node);
    }
    if (!by_itself) {
        cluster_operator_ask(cluster, MESSAGE_EVICT, nodes, count, (uint32_t)(notice_us / 1000));
    }
}

void cluster_kill_some(struct cluster *cluster, struct cluster_node **nodes, unsigned count, bool told) {
    for (unsigned n = 0; n < count; n++) {
        nodes[n]->fate.hurt = true;
        cluster_kill(nodes[n]);
    }
    cluster->faults.disturbed = true;
    if (told) {
        cluster_operator_ask(cluster, MESSAGE_GONE, nodes, count, 0);
    }
}

void cluster_pause(struct cluster *cluster, unsigned machine, uint64_t until_us) {
    sim_pause(cluster->sim, machine, until_us);
    if (machine == CLUSTER_CONTROLLER && until_us > cluster->faults.stunned_us) {
        cluster->faults.stunned_us = until_us;
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        struct cluster_node_pulse *pulse = &cluster->nodes[n]->pulse;
        if (cluster->nodes[n]->machine == machine && until_us > pulse->paused_until_us) {
            pulse->paused_until_us = until_us;
        }
    }
}

static void pause_some(const struct action *action, struct cluster_node **nodes, unsigned count) {
    struct cluster *cluster = action->cluster;
    for (unsigned n = 0; n < count; n++) {
        nodes[n]->fate.hurt = true;
        cluster_pause(cluster, nodes[n]->machine, sim_now(cluster->sim) + action->length_us);
    }
    cluster->faults.disturbed = true;
}

static void cut_some(const struct action *action, struct cluster_node **nodes, unsigned count) {
    struct cluster *cluster = action->cluster;
    unsigned char sides[CLUSTER_MACHINES];
    memset(sides, 1, sizeof sides);
    sides[CLUSTER_OPERATOR] = 0;
    for (unsigned n = 0; n < count; n++) {
        sides[nodes[n]->machine] = 2;
    }
    sim_separate(cluster->sim, sides, sim_now(cluster->sim) + action->length_us);
    cluster->faults.disturbed = true;
}

static void join_some(const struct action *action) {
    struct cluster *cluster = action->cluster;
    struct cluster_node *nodes[CLUSTER_NODES_MAX];
    unsigned joined = 0;
    cluster->groups.joins = action->group;
    for (unsigned n = 0; n < action->count; n++) {
        enum node_tier tier = action->who == WHO_RELIABLE ? TIER_RELIABLE : TIER_TRANSIENT;
        struct cluster_node *node = cluster_node_add(cluster, tier, 0, cluster_between(cluster, 0, 200 * 1000));
        cluster->result->counts.joins += node != NULL ? 1 : 0;
        if (node != NULL && joined < CLUSTER_NODES_MAX) {
            nodes[joined++] = node;
        }
    }
    cluster->groups.joins = 0;
    if (action->told) {
        cluster_operator_announce(cluster, nodes, joined);
    }
}

/* Chooses all living nodes but `spare`. Returns their number. */
static unsigned pick_but(struct cluster *cluster, unsigned spare, struct cluster_node **nodes) {
    unsigned count = cluster_pick(cluster, WHO_ANY, CLUSTER_NODES_MAX, nodes);
    for (; spare > 0 && count > 0; spare--) {
        nodes[cluster_draw(cluster) % count] = nodes[count - 1];
        count--;
    }
    return count;
}

/* Lets a firewall refuse new connections to the machine, unless it did so shortly before. Together, such refusals would
 * last long enough to prove that a process ended. */
static void refuse(struct cluster *cluster, unsigned machine, uint64_t length_us) {
    uint64_t before_us = sim_refuses_until(cluster->sim, machine);
    if (before_us == 0 || sim_now(cluster->sim) > before_us + SUSPECT_REFUSED_US) {
        sim_refuse(cluster->sim, machine, sim_now(cluster->sim) + length_us);
    }
}

static void action_happen(void *context) {
    struct action *action = context;
    struct cluster *cluster = action->cluster;
    struct cluster_node *nodes[CLUSTER_NODES_MAX];
    bool gathering = !plan_is_there(&cluster->seen.plan) && cluster->options.campaign == CAMPAIGN_ELASTIC;
    if (cluster->control.ended || (gathering && action->kind != ACTION_JOIN)) {
        return; /* the job begins only when it has all its nodes */
    }
    unsigned most = action->count < CLUSTER_NODES_MAX ? action->count : CLUSTER_NODES_MAX;
    unsigned count = action->spare > 0
                         ? pick_but(cluster, action->spare, nodes)
                         : cluster_pick(cluster, action->who, action->group != 0 ? CLUSTER_NODES_MAX : most, nodes);
    if (action->spare > 0) {
        /* all of them, of any group */
    } else if (action->group != 0) {
        count = cluster_groups_only(nodes, count, action->group - 1);
        count = count < most ? count : most;
    } else if (action->kind == ACTION_KILL || action->kind == ACTION_PAUSE || action->kind == ACTION_CUT) {
        count = cluster_groups_pick(cluster, nodes, count);
    }
    uint64_t until_us = sim_now(cluster->sim) + action->length_us;
    bool network = action->kind == ACTION_BREAK || action->kind == ACTION_SEPARATE || action->kind == ACTION_CUT;
    bool machine = action->kind == ACTION_REMOVE || (action->kind == ACTION_PAUSE && action->count == 0);
    cluster->faults.split = cluster->faults.split || network || machine;
    cluster->faults.apart_us = network && action->kind != ACTION_BREAK ? until_us : cluster->faults.apart_us;
    switch (action->kind) {
    case ACTION_BREAK:
        refuse(cluster, action->machine, hash_mix(until_us) % SUSPECT_REFUSED_US);
        sim_break(cluster->sim, action->machine, action->other);
        break;
    case ACTION_PAUSE:
        if (action->count == 0) {
            cluster_pause(cluster, action->machine, until_us);
        } else {
            pause_some(action, nodes, count);
        }
        break;
    case ACTION_SEPARATE:
        sim_separate(cluster->sim, action->sides, until_us);
        break;
    case ACTION_CUT:
        cut_some(action, nodes, count);
        break;
    case ACTION_REMOVE:
        sim_remove(cluster->sim, action->machine);
        break;
    case ACTION_JOIN:
        join_some(action);
        break;
    case ACTION_EVICT:
    case ACTION_LEAVE:
        cluster_evict(cluster, nodes, count, action->length_us, action->told, action->kind == ACTION_LEAVE);
        return; /* a notice is no fault */
    case ACTION_KILL:
        cluster_kill_some(cluster, nodes, count, action->told);
        break;
    case ACTION_CONTROLLER_KILL:
        cluster_control_kill(cluster, action->length_us);
        break;
    case ACTION_CONTROLLER_PAUSE:
        cluster_pause(cluster, CLUSTER_CONTROLLER, until_us);
        cluster->faults.disturbed = true;
        break;
    case ACTION_MAD:
        for (unsigned n = 0; n < count; n++) {
            cluster_go_mad(nodes[n], action->mad);
        }
        break;
    case ACTION_STORE_FAULT:
        cluster->store.fault = action->store_fault;
        cluster->store.writes_left = action->count;
        cluster->control.restart_us = action->length_us;
        break;
    }
    cluster_not_calm(cluster, until_us);
}

void cluster_faults_clock(struct cluster *cluster, uint64_t clock) {
    for (unsigned a = 0; a < cluster->faults.action_count; a++) {
        struct action *action = &cluster->faults.actions[a];
        if (!action->triggered && action->at_clock <= clock) {
            action->triggered = true;
            sim_schedule(cluster->sim, CLUSTER_OPERATOR, sim_now(cluster->sim) + action->delay_us, action_happen,
                         action);
        }
    }
}

void cluster_faults_begin(struct cluster *cluster) {
    cluster_faults_clock(cluster, 0);
}

/* ---- What is drawn ---- */

static struct action *action_add(struct cluster *cluster, enum action_kind kind, uint64_t at_clock, uint64_t delay_us) {
    struct action *action = &cluster->faults.actions[cluster->faults.action_count++];
    *action = (struct action){.cluster = cluster, .kind = kind, .at_clock = at_clock, .delay_us = delay_us};
    return action;
}

/* Adds a short fault at a time instead of a clock. */
static struct action *fault_add(struct cluster *cluster, enum action_kind kind, uint64_t at_us, uint64_t length_us) {
    struct action *action = action_add(cluster, kind, 0, at_us);
    unsigned machines = cluster->node_count + 1;
    unsigned machine = (unsigned)(cluster_draw(cluster) % machines);
    unsigned other = (unsigned)(cluster_draw(cluster) % machines);
    action->length_us = length_us;
    action->machine = machine == 0 ? CLUSTER_CONTROLLER : machine + CLUSTER_FIRST_NODE - 1;
    action->other = cluster_one_in(cluster, 2) ? SIM_ALL_NODES
                    : other == 0               ? CLUSTER_CONTROLLER
                                               : (int)(other + CLUSTER_FIRST_NODE - 1);
    if (kind == ACTION_SEPARATE) {
        action->sides = memory_zeroed(CLUSTER_MACHINES, 1);
        for (unsigned m = 0; m < CLUSTER_MACHINES; m++) {
            action->sides[m] = (unsigned char)(m == CLUSTER_OPERATOR ? 0 : cluster_draw(cluster) % 3);
        }
    }
    uint64_t until_us = sim_now(cluster->sim) + at_us + length_us;
    cluster->faults.calm_us = until_us > cluster->faults.calm_us ? until_us : cluster->faults.calm_us;
    return action;
}

/* Draws pauses and separations with enough time in between that no silence reaches the timeout. */
void cluster_draw_faults(struct cluster *cluster) {
    unsigned breaks = cluster_one_in(cluster, 3) ? 0 : (unsigned)cluster_between(cluster, 1, 12);
    for (unsigned b = 0; b < breaks; b++) {
        fault_add(cluster, ACTION_BREAK, cluster_between(cluster, 0, 6 * SECOND_US), 0);
    }
    unsigned longer = cluster_one_in(cluster, 3) ? 0 : (unsigned)cluster_between(cluster, 1, 3);
    uint64_t at_us = cluster_between(cluster, 0, 4 * SECOND_US);
    for (unsigned f = 0; f < longer; f++) {
        uint64_t most_us = timeout_us(cluster) * (cluster_one_in(cluster, 2) ? 4 : 1) / 10;
        uint64_t length_us = cluster_between(cluster, 1000, most_us);
        fault_add(cluster, cluster_one_in(cluster, 2) ? ACTION_PAUSE : ACTION_SEPARATE, at_us, length_us);
        at_us += length_us + timeout_us(cluster) / 2 + cluster_between(cluster, 0, 2 * SECOND_US);
    }
}

/* Draws one machine, or the way between two, that is missing for longer than every timeout. */
void cluster_draw_missing(struct cluster *cluster) {
    uint64_t at_us = cluster_between(cluster, 0, 4 * SECOND_US);
    uint64_t length_us = cluster_between(cluster, 5 * timeout_us(cluster) / 2, 4 * timeout_us(cluster));
    unsigned kind = (unsigned)(cluster_draw(cluster) % 4);
    if (kind == 3) { /* one node does not reach the server on the first node; the controller reaches both */
        struct action *cut = fault_add(cluster, ACTION_SEPARATE, at_us, length_us + 15 * SECOND_US);
        memset(cut->sides, 0, CLUSTER_MACHINES);
        cut->sides[cluster->nodes[0]->machine] = 1;
        cut->sides[cluster->nodes[1]->machine] = 2; /* this node has work, so it needs every server */
        cluster->faults.missing = cluster->nodes[0];
        return;
    }
    struct action *fault = fault_add(cluster,
                                     kind == 0   ? ACTION_REMOVE
                                     : kind == 1 ? ACTION_PAUSE
                                                 : ACTION_SEPARATE,
                                     at_us, length_us);
    if (fault->sides != NULL) {
        memset(fault->sides, 2, CLUSTER_MACHINES);
        fault->sides[CLUSTER_OPERATOR] = 0;
        fault->sides[fault->machine] = 1;
    }
    cluster->faults.missing =
        fault->machine == CLUSTER_CONTROLLER ? NULL : cluster->nodes[fault->machine - CLUSTER_FIRST_NODE];
    cluster->faults.removed = kind == 0;
}

/* Draws how many of the present nodes an action hits. */
static unsigned draw_share(struct cluster *cluster) {
    static const unsigned shares[] = {1, 1, 2, 3, CLUSTER_NODES_MAX};
    unsigned share = shares[cluster_draw(cluster) % (sizeof shares / sizeof *shares)];
    return cluster_one_in(cluster, 4) ? 1 + cluster->node_count / 2 : share;
}

static void draw_notice(struct cluster *cluster, struct action *action) {
    static const uint64_t notices_us[] = {0, 1000, 30 * 1000, 300 * 1000, 2 * SECOND_US, 6 * SECOND_US};
    action->told = cluster->faults.calm_only || cluster_one_in(cluster, 2);
    action->length_us = action->told ? generous_us(cluster)
                                     : notices_us[cluster_draw(cluster) % (sizeof notices_us / sizeof *notices_us)];
}

static uint64_t draw_long(struct cluster *cluster) {
    return cluster_one_in(cluster, 3) ? cluster_between(cluster, 1000, timeout_us(cluster) / 2)
                                      : cluster_between(cluster, timeout_us(cluster), 5 * timeout_us(cluster));
}

/* Draws an action that costs no recovery: a join, a long enough notice, a restart of the controller. */
static void draw_calm_action(struct cluster *cluster, struct action *action) {
    static const enum action_kind kinds[] = {ACTION_JOIN, ACTION_JOIN, ACTION_EVICT, ACTION_LEAVE,
                                             ACTION_CONTROLLER_KILL};
    action->kind = kinds[cluster_draw(cluster) % (sizeof kinds / sizeof *kinds)];
}

static void draw_rough_action(struct cluster *cluster, struct action *action) {
    static const enum action_kind kinds[] = {ACTION_JOIN,
                                             ACTION_JOIN,
                                             ACTION_EVICT,
                                             ACTION_EVICT,
                                             ACTION_LEAVE,
                                             ACTION_KILL,
                                             ACTION_KILL,
                                             ACTION_KILL,
                                             ACTION_PAUSE,
                                             ACTION_CUT,
                                             ACTION_CONTROLLER_KILL,
                                             ACTION_STORE_FAULT,
                                             ACTION_BREAK,
                                             ACTION_BREAK,
                                             ACTION_PAUSE,
                                             ACTION_CONTROLLER_PAUSE};
    action->kind = kinds[cluster_draw(cluster) % (sizeof kinds / sizeof *kinds)];
}

static void draw_action(struct cluster *cluster, uint64_t clocks) {
    uint64_t at_clock = cluster_one_in(cluster, 20) ? 0 : cluster_between(cluster, 1, clocks);
    uint64_t delay_us =
        cluster_between(cluster, 0, cluster_one_in(cluster, 2) ? 4 * cluster->drawn.compute_us : SECOND_US);
    struct action *action = action_add(cluster, ACTION_JOIN, cluster->drawn.resume_clock + at_clock, delay_us);
    if (cluster->faults.calm_only) {
        draw_calm_action(cluster, action);
    } else {
        draw_rough_action(cluster, action);
    }
    action->count = draw_share(cluster);
    action->who = WHO_TRANSIENT;
    switch (action->kind) {
    case ACTION_JOIN:
        action->count =
            (unsigned)cluster_between(cluster, 1, 1 + cluster->node_count / (cluster_one_in(cluster, 3) ? 1 : 4));
        action->who = cluster_one_in(cluster, 6) ? WHO_RELIABLE : WHO_TRANSIENT;
        action->count = action->who == WHO_RELIABLE ? 1 : action->count;
        break;
    case ACTION_EVICT:
    case ACTION_LEAVE:
        draw_notice(cluster, action);
        if (action->told && cluster_one_in(cluster, 5)) {
            action->who = WHO_RELIABLE;
            action->count = 1;
        }
        break;
    case ACTION_KILL:
        action->told = cluster_one_in(cluster, 3);
        if (cluster_one_in(cluster, 16)) {
            action->who = WHO_RELIABLE;
            action->count = 1;
        }
        break;
    case ACTION_PAUSE:
    case ACTION_CUT:
        action->length_us = draw_long(cluster);
        break;
    case ACTION_CONTROLLER_KILL:
    case ACTION_CONTROLLER_PAUSE:
        action->length_us = cluster_between(cluster, 0, 3 * timeout_us(cluster));
        break;
    case ACTION_STORE_FAULT:
        action->store_fault = cluster_one_in(cluster, 8)   ? STORE_FAILS
                              : cluster_one_in(cluster, 2) ? STORE_CRASH_BEFORE
                                                           : STORE_CRASH_AFTER;
        action->count = (unsigned)cluster_between(cluster, 0, 12);
        action->length_us = cluster_between(cluster, 0, 2 * timeout_us(cluster));
        break;
    case ACTION_BREAK:
        action->machine = cluster_one_in(cluster, 4)
                              ? CLUSTER_CONTROLLER
                              : CLUSTER_FIRST_NODE + (unsigned)(cluster_draw(cluster) % cluster->node_count);
        action->other = SIM_ALL_NODES;
        cluster->faults.disturbed = true;
        break;
    default:
        break;
    }
}

void cluster_add_restart(struct cluster *cluster, uint64_t clock) {
    struct action *restart = action_add(cluster, ACTION_CONTROLLER_KILL, clock, 0);
    restart->length_us = SECOND_US;
}

void cluster_add_change(struct cluster *cluster, uint64_t clock, unsigned group, int nodes) {
    struct action *action = action_add(cluster, nodes > 0 ? ACTION_JOIN : ACTION_KILL, clock,
                                       cluster_between(cluster, 0, 4 * cluster->drawn.compute_us));
    action->who = WHO_TRANSIENT;
    action->count = (unsigned)(nodes > 0 ? nodes : -nodes);
    action->group = 1 + group;
    action->told = cluster_one_in(cluster, 2);
    if (nodes < 0 && cluster_one_in(cluster, 4)) {
        action->kind = ACTION_LEAVE;
        action->told = false; /* a node that had a long enough notice is not lost */
        action->length_us = cluster_between(cluster, 0, 4 * SECOND_US);
    }
}

void cluster_add_join(struct cluster *cluster, uint64_t clock) {
    struct action *join = action_add(cluster, ACTION_JOIN, clock, 0);
    join->count = 1;
    join->who = WHO_TRANSIENT;
}

/* Draws the loss of all nodes but one or two, once or twice, mostly followed by joins. In half of the cases one node is
 * lost shortly before: that undoes pushes which the remaining nodes have kept. */
static void draw_losses(struct cluster *cluster, uint64_t clocks) {
    unsigned losses = 1 + (unsigned)(cluster_draw(cluster) % 2);
    uint64_t at_clock = cluster->drawn.resume_clock;
    for (unsigned l = 0; l < losses; l++) {
        at_clock += cluster_between(cluster, 1, clocks / 2 + 1);
        if (cluster_one_in(cluster, 2)) {
            struct action *first =
                action_add(cluster, ACTION_KILL, at_clock, cluster_between(cluster, 0, 4 * cluster->drawn.compute_us));
            first->who = WHO_TRANSIENT;
            first->count = 1;
            first->told = cluster_one_in(cluster, 2);
            at_clock += cluster_between(cluster, 0, 3);
        }
        struct action *loss =
            action_add(cluster, ACTION_KILL, at_clock, cluster_between(cluster, 0, 4 * cluster->drawn.compute_us));
        loss->spare = cluster_one_in(cluster, 4) ? 2 : 1;
        loss->told = cluster_one_in(cluster, 2);
        if (!cluster_one_in(cluster, 4)) {
            struct action *join = action_add(cluster, ACTION_JOIN, at_clock + cluster_between(cluster, 0, 2), 0);
            join->count = (unsigned)cluster_between(cluster, 1, 4);
            join->who = WHO_TRANSIENT;
        }
    }
}

void cluster_draw_elastic(struct cluster *cluster) {
    uint64_t clocks = cluster->terms.iterations * cluster->terms.clocks_per_iteration;
    if (cluster->options.caches) {
        draw_losses(cluster, clocks > 0 ? clocks : 8);
        if (!cluster_one_in(cluster, 3)) {
            return;
        }
    }
    unsigned count = (unsigned)cluster_between(cluster, 1, 8);
    cluster->faults.calm_only = cluster_one_in(cluster, 4);
    for (unsigned a = 0; a < count; a++) {
        draw_action(cluster, clocks > 0 ? clocks : 8);
    }
    if (cluster->faults.loss_intended) {
        struct action *loss = action_add(cluster, ACTION_KILL,
                                         cluster->drawn.resume_clock + cluster_between(cluster, clocks / 2, clocks), 0);
        loss->who = WHO_RELIABLE;
        loss->count = CLUSTER_NODES_MAX;
    }
    cluster_draw_mad(cluster);
}
