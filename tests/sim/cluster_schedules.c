/* Schedules that aim at the protocol's weak moments. Each observes the messages to the actors and strikes at the moment
 * that it waits for. See cluster_private.h. */
#include "tests/sim/cluster_private.h"

#include <stdlib.h>
#include <string.h>

/* What a plan changes for the node that receives it. */
enum plan_kind { PLAN_OTHER, PLAN_PREPARE, PLAN_SWITCH, PLAN_RECOVER };

struct schedule_of {
    const char *name;
    void (*shape)(struct cluster *cluster);
    void (*see)(struct cluster *cluster, struct cluster_node *node, actor_id from, const struct message *message);
};

static enum plan_kind plan_kind(const struct cluster *cluster, const struct message *message) {
    const struct plan_view *plan = cluster_plan_in(cluster, message);
    if (plan == NULL) {
        return PLAN_OTHER;
    }
    if (plan->terms.from_clock == WIRE_CLOCK_NEVER) {
        return PLAN_PREPARE;
    }
    for (uint32_t p = 0; p < plan->terms.partitions; p++) {
        if (plan->placement[p].server != plan->placement[p].next_server) {
            return PLAN_SWITCH;
        }
    }
    return plan->epoch > cluster->seen.first_epoch ? PLAN_RECOVER : PLAN_OTHER;
}

/* ---- Common parts ---- */

/* Chooses up to `most` transient nodes that serve a partition by the newest plan, or (`next`) are to serve one. Returns
 * their number. */
static unsigned serving_nodes(struct cluster *cluster, bool next, unsigned most, struct cluster_node **nodes) {
    unsigned count = 0;
    const struct wire_placement *placement = cluster->seen.plan.placement;
    for (uint32_t p = 0; p < cluster->policy.partitions; p++) {
        struct cluster_node *node = cluster_node_of(cluster, next ? placement[p].next_server : placement[p].server);
        bool known = node == NULL || !cluster_node_lives(node) || node->tier != TIER_TRANSIENT;
        for (unsigned n = 0; n < count; n++) {
            known = known || nodes[n] == node;
        }
        if (!known && count < most) {
            nodes[count++] = node;
        }
    }
    return count;
}

static void strike(struct cluster *cluster, struct cluster_node **nodes, unsigned count) {
    if (count > 0) {
        cluster->result->counts.triggered = 1;
        cluster_kill_some(cluster, nodes, count, cluster_one_in(cluster, 2));
    }
}

/* Returns true once, after a few skipped moments, so that the moment varies from seed to seed. */
static bool now(struct cluster *cluster) {
    if (cluster->schedule.step != 0) {
        return false;
    }
    if (cluster->schedule.left > 0) {
        cluster->schedule.left--;
        return false;
    }
    cluster->schedule.step = 1;
    return true;
}

static void join_at(struct cluster *cluster, uint64_t clock, unsigned count) {
    struct action *action = &cluster->faults.actions[cluster->faults.action_count++];
    *action = (struct action){
        .cluster = cluster, .kind = ACTION_JOIN, .at_clock = clock, .who = WHO_TRANSIENT, .count = count};
}

static void evict_at(struct cluster *cluster, uint64_t clock, enum who who, unsigned count) {
    struct action *action = &cluster->faults.actions[cluster->faults.action_count++];
    *action = (struct action){.cluster = cluster,
                              .kind = cluster_one_in(cluster, 2) ? ACTION_EVICT : ACTION_LEAVE,
                              .at_clock = clock,
                              .who = who,
                              .count = count,
                              .told = true,
                              .length_us = UINT64_C(300) * 1000 * 1000};
}

static void kill_at(struct cluster *cluster, uint64_t clock, unsigned count) {
    struct action *action = &cluster->faults.actions[cluster->faults.action_count++];
    *action = (struct action){.cluster = cluster,
                              .kind = ACTION_KILL,
                              .at_clock = clock,
                              .delay_us = cluster_between(cluster, 0, cluster->drawn.compute_us),
                              .who = WHO_TRANSIENT,
                              .count = count,
                              .told = cluster_one_in(cluster, 2)};
}

/* Some transient nodes serve and some reliable nodes follow. */
static void shape_tiers(struct cluster *cluster) {
    cluster->drawn.initial_reliable = (unsigned)cluster_between(cluster, 1, 2);
    cluster->drawn.initial_transient = (unsigned)cluster_between(cluster, 3, 8);
    cluster->policy.stage = cluster_one_in(cluster, 2) ? STAGE_2 : STAGE_3;
}

/* ---- Two serving nodes die while another stage is prepared or begins ---- */

static void shape_stage_change(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->policy.stage = STAGE_AUTO;
    cluster->drawn.thresholds = (struct plan_thresholds){.to_2 = 1.5, .to_3 = 4};
    cluster->drawn.initial_reliable = 2;
    cluster->drawn.initial_transient = (unsigned)cluster_between(cluster, 4, 7);
    join_at(cluster, cluster_between(cluster, 1, 3), 6);
}

static void see_stage_change(struct cluster *cluster, struct cluster_node *node, actor_id from,
                             const struct message *message) {
    struct cluster_node *victims[2];
    enum plan_kind kind = plan_kind(cluster, message);
    (void)from;
    if (node != NULL && (kind == PLAN_PREPARE || kind == PLAN_SWITCH) && now(cluster)) {
        strike(cluster, victims, serving_nodes(cluster, cluster_one_in(cluster, 2), 2, victims));
    }
}

/* ---- The next server of a partition dies after the boundary was named ---- */

static void shape_promotion(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->policy.partitions = (uint32_t)cluster_between(cluster, 6, 24);
    join_at(cluster, cluster_between(cluster, 1, 3), (unsigned)cluster_between(cluster, 2, 6));
}

static void see_promotion(struct cluster *cluster, struct cluster_node *node, actor_id from,
                          const struct message *message) {
    (void)from;
    if (node == NULL || plan_kind(cluster, message) != PLAN_SWITCH || !now(cluster)) {
        return;
    }
    const struct wire_placement *placement = cluster->seen.plan.placement;
    for (uint32_t p = 0; p < cluster->policy.partitions; p++) {
        struct cluster_node *next = cluster_node_of(cluster, placement[p].next_server);
        if (placement[p].server != placement[p].next_server && next != NULL && next->tier == TIER_TRANSIENT &&
            cluster_node_lives(next)) {
            strike(cluster, &next, 1);
            return;
        }
    }
    cluster->schedule.step = 0; /* no such node now: waits for the next moment */
}

/* ---- A node under notice dies before its notice ends ---- */

static void shape_notice(struct cluster *cluster) {
    shape_tiers(cluster);
    evict_at(cluster, cluster_between(cluster, 1, 4), WHO_TRANSIENT, (unsigned)cluster_between(cluster, 1, 3));
}

static void see_notice(struct cluster *cluster, struct cluster_node *node, actor_id from,
                       const struct message *message) {
    (void)from;
    bool plan = message->type == MESSAGE_PACKED_PLAN || message->type == MESSAGE_PLAN;
    bool moment = plan || message->type == MESSAGE_UPDATE || message->type == MESSAGE_FOLLOW;
    if (node == NULL || !moment) {
        return;
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        struct cluster_node *leaving = cluster->nodes[n];
        if (leaving->fate.leave_us != 0 && !leaving->fate.gone && now(cluster)) {
            strike(cluster, &leaving, 1);
            return;
        }
    }
}

/* ---- The controller dies during a recovery ---- */

static void shape_recovery(struct cluster *cluster) {
    shape_tiers(cluster);
    kill_at(cluster, cluster_between(cluster, 2, 5), (unsigned)cluster_between(cluster, 1, 3));
    cluster->schedule.left = (unsigned)cluster_between(cluster, 0, 2 * cluster->drawn.initial_transient);
}

static void see_recovery(struct cluster *cluster, struct cluster_node *node, actor_id from,
                         const struct message *message) {
    (void)from;
    bool fence = message->type == MESSAGE_FENCE && node != NULL;
    bool fenced = message->type == MESSAGE_FENCED && node == NULL;
    bool recovered = plan_kind(cluster, message) == PLAN_RECOVER && node != NULL;
    if ((fence || fenced || recovered) && now(cluster)) {
        cluster->result->counts.triggered = 1;
        cluster_control_kill(cluster, cluster_between(cluster, 0, cluster->drawn.timeout_ms * UINT64_C(2000)));
    }
}

/* ---- The controller dies when some nodes have the next plan, and stays away for longer than the timeout ---- */

/* Most transient nodes leave, so that their followers are to serve. */
static void shape_half_told(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->policy.stage = STAGE_AUTO;
    cluster->drawn.thresholds = (struct plan_thresholds){.to_2 = 1.5, .to_3 = 4};
    cluster->drawn.initial_reliable = 2;
    cluster->drawn.initial_transient = (unsigned)cluster_between(cluster, 4, 7);
    evict_at(cluster, cluster_between(cluster, 1, 3), WHO_TRANSIENT, cluster->drawn.initial_transient - 1);
    cluster->schedule.left = (unsigned)cluster_between(cluster, 0, 3 * cluster->drawn.initial_transient);
}

/* No node has failed, so none may be given up. */
static void see_half_told(struct cluster *cluster, struct cluster_node *node, actor_id from,
                          const struct message *message) {
    (void)from;
    const struct plan_view *plan = cluster_plan_in(cluster, message);
    bool announced = plan != NULL && plan->terms.from_clock != 0;
    if (node != NULL && announced && now(cluster)) {
        cluster->result->counts.triggered = 1;
        cluster_control_kill(cluster, cluster_between(cluster, 1, 4) * cluster->drawn.timeout_ms * UINT64_C(1000));
    }
}

/* ---- A node pauses and rejoins again and again ---- */

static void shape_flaps(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->schedule.left = (unsigned)cluster_between(cluster, 2, 4);
    cluster->schedule.mark = cluster_between(cluster, 0, cluster->drawn.initial_transient - 1);
}

/* Pauses the machine for about the timeout or longer once training goes on, then when each new incarnation is welcomed
 * or gets a plan. */
static void see_flaps(struct cluster *cluster, struct cluster_node *node, actor_id from,
                      const struct message *message) {
    unsigned machine = CLUSTER_FIRST_NODE + cluster->drawn.initial_reliable + (unsigned)cluster->schedule.mark;
    (void)from;
    enum message_type moment =
        cluster->schedule.mark_id == 0 || cluster->schedule.left % 2 == 0 ? MESSAGE_HEARTBEAT_ACK : MESSAGE_PACKED_PLAN;
    if (node == NULL || node->machine != machine || message->type != moment || cluster->schedule.left == 0 ||
        cluster->seen.begun < cluster->drawn.first_clock + 1 || cluster->schedule.mark_id == node->id) {
        return;
    }
    cluster->schedule.left--;
    cluster->schedule.mark_id = node->id;
    cluster->result->counts.triggered = 1;
    cluster->faults.disturbed = true;
    uint64_t until_us =
        sim_now(cluster->sim) + cluster_between(cluster, 1, 4) * cluster->drawn.timeout_ms * UINT64_C(1000) * 3 / 4;
    cluster_pause(cluster, machine, until_us);
    cluster_not_calm(cluster, until_us);
}

/* ---- All transient nodes are lost when about half of a clock's flushes have arrived ---- */

static void shape_half_flushed(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->schedule.mark = cluster_between(cluster, 2, 6);
    cluster->schedule.left = (unsigned)cluster_between(
        cluster, 1, cluster->policy.partitions * (cluster->drawn.initial_transient + cluster->drawn.initial_reliable));
}

static void see_half_flushed(struct cluster *cluster, struct cluster_node *node, actor_id from,
                             const struct message *message) {
    struct cluster_node *victims[CLUSTER_NODES_MAX];
    (void)from;
    uint64_t mark = cluster->schedule.mark;
    if (node != NULL && message->type == MESSAGE_FLUSH && message->flush.clock >= mark &&
        message->flush.clock - message->flush.idle <= mark && now(cluster)) {
        strike(cluster, victims, cluster_pick(cluster, WHO_TRANSIENT, CLUSTER_NODES_MAX, victims));
    }
}

/* ---- Nodes die while the model is saved ---- */

static void shape_save(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->schedule.left = 0;
}

static void see_save(struct cluster *cluster, struct cluster_node *node, actor_id from, const struct message *message) {
    struct cluster_node *victims[2];
    (void)from;
    if (node != NULL && message->type == MESSAGE_SAVE && now(cluster)) {
        strike(cluster, victims, serving_nodes(cluster, false, (unsigned)cluster_between(cluster, 1, 2), victims));
    }
}

/* ---- A reliable node leaves in order ---- */

static void shape_reliable(struct cluster *cluster) {
    cluster->drawn.initial_reliable = (unsigned)cluster_between(cluster, 2, 4);
    cluster->drawn.initial_transient = (unsigned)cluster_between(cluster, 0, 6);
    evict_at(cluster, cluster_between(cluster, 1, 4), WHO_RELIABLE, (unsigned)cluster_between(cluster, 1, 2));
}

static void see_reliable(struct cluster *cluster, struct cluster_node *node, actor_id from,
                         const struct message *message) {
    (void)from;
    if (node != NULL && message->type == MESSAGE_DONE && node->fate.leave_us != 0) {
        cluster->result->counts.triggered = 1;
    }
}

/* ---- A worker and a server lose their connection; the controller reaches both ---- */

static void shape_cut(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->schedule.mark = cluster_between(cluster, 1, 4);
}

static void see_cut(struct cluster *cluster, struct cluster_node *node, actor_id from, const struct message *message) {
    struct cluster_node *worker = cluster_node_of(cluster, from);
    if (node == NULL || worker == NULL || worker == node || message->type != MESSAGE_FLUSH ||
        message->flush.clock < cluster->schedule.mark ||
        (worker->tier == TIER_RELIABLE && node->tier == TIER_RELIABLE) || !now(cluster)) {
        return;
    }
    unsigned char sides[CLUSTER_MACHINES] = {0};
    sides[node->machine] = 1;
    sides[worker->machine] = 2;
    uint64_t until_us =
        sim_now(cluster->sim) + cluster_between(cluster, 2, 6) * cluster->drawn.timeout_ms * UINT64_C(1000);
    sim_separate(cluster->sim, sides, until_us);
    cluster_not_calm(cluster, until_us);
    cluster->faults.disturbed = true;
    cluster->faults.may_fail = node->tier == TIER_RELIABLE || worker->tier == TIER_RELIABLE;
    cluster->result->counts.triggered = 1;
}

/* ---- All reliable nodes have died, and one joins while transient nodes prepare to go on without it ---- */

static void shape_reliable_again(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->drawn.initial_reliable = 1;
    cluster->schedule.left = (unsigned)cluster_between(cluster, 0, cluster->drawn.initial_transient);
    struct action *action = &cluster->faults.actions[cluster->faults.action_count++];
    *action = (struct action){.cluster = cluster,
                              .kind = ACTION_KILL,
                              .at_clock = cluster_between(cluster, 2, 5),
                              .who = WHO_RELIABLE,
                              .count = 1,
                              .told = true};
}

static void see_reliable_again(struct cluster *cluster, struct cluster_node *node, actor_id from,
                               const struct message *message) {
    enum plan_kind kind = plan_kind(cluster, message);
    (void)from;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        if (!cluster->nodes[n]->fate.gone && cluster->nodes[n]->tier == TIER_RELIABLE) {
            return;
        }
    }
    if (node == NULL || (kind != PLAN_RECOVER && kind != PLAN_PREPARE)) {
        return;
    }
    if (cluster->schedule.mark == 0 && kind == PLAN_RECOVER) {
        cluster->schedule.mark = 1;
        cluster_node_add(cluster, TIER_TRANSIENT, 0, cluster_between(cluster, 0, 500 * 1000));
    } else if (cluster->schedule.mark == 1 && kind == PLAN_PREPARE && now(cluster)) {
        cluster->result->counts.triggered = 1;
        cluster_node_add(cluster, TIER_RELIABLE, 0, cluster_between(cluster, 0, 500 * 1000));
    }
}

/* ---- A node works on another's shards in uncommitted clocks; then all other transient nodes die ---- */

/* Commits are rare and late and clocks short. The first node to die need not serve. */
static void shape_taken_over(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->drawn.initial_transient = (unsigned)cluster_between(cluster, 4, 8);
    cluster->policy.partitions = (uint32_t)cluster_between(cluster, 1, 3);
    cluster->terms.staleness %= 2;
    cluster->terms.clocks_per_iteration = cluster->terms.staleness + 1;
    cluster->drawn.commit_every = (uint32_t)cluster_between(cluster, 4, 8);
    cluster->drawn.compute_us = 1000;
    cluster->schedule.left = (unsigned)cluster_between(cluster, 0, cluster->policy.partitions);
    if (cluster_one_in(cluster, 4)) {
        join_at(cluster, cluster_between(cluster, 1, 5), (unsigned)cluster_between(cluster, 1, 4));
    } else {
        kill_at(cluster, cluster_between(cluster, 2, 6), 1);
    }
}

static void see_taken_over(struct cluster *cluster, struct cluster_node *node, actor_id from,
                           const struct message *message) {
    struct cluster_node *victims[CLUSTER_NODES_MAX];
    struct cluster_node *worker = cluster_node_of(cluster, from);
    if (node == NULL || worker == NULL || message->type != MESSAGE_FLUSH ||
        message->epoch != cluster->seen.plan.epoch) {
        return;
    }
    const struct message_plan *plan = &cluster->seen.plan.terms;
    bool switched = plan->from_clock > plan->restore + 1 && plan->from_clock != WIRE_CLOCK_NEVER;
    uint64_t first = switched ? plan->from_clock : plan->restore + 1;
    bool taken = switched || origin_is_catch_up(message->flush.origin);
    if (!taken || message->flush.clock < first || cluster->seen.committed + 1 >= first || !cluster_node_lives(worker) ||
        worker->tier != TIER_TRANSIENT || !now(cluster)) {
        return;
    }
    unsigned count = cluster_pick(cluster, WHO_TRANSIENT, CLUSTER_NODES_MAX, victims);
    unsigned kept = 0;
    for (unsigned v = 0; v < count; v++) {
        if (victims[v] != worker) {
            victims[kept++] = victims[v];
        }
    }
    strike(cluster, victims, kept);
}

/* ---- Announced machines join one by one, some never; others are evicted or die meanwhile ---- */

static void announce_at(struct cluster *cluster, uint64_t clock) {
    join_at(cluster, clock, (unsigned)cluster_between(cluster, 1, 5));
    cluster->faults.actions[cluster->faults.action_count - 1].told = true;
    cluster->faults.actions[cluster->faults.action_count - 1].delay_us =
        cluster_between(cluster, 0, 2 * cluster->drawn.compute_us);
}

static void shape_expected(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->schedule.mark = cluster_between(cluster, 1, 3);
    announce_at(cluster, cluster->schedule.mark);
    announce_at(cluster, cluster_between(cluster, 1, 4));
    evict_at(cluster, cluster->schedule.mark, WHO_TRANSIENT, (unsigned)cluster_between(cluster, 1, 2));
    cluster->schedule.left = (unsigned)cluster_between(cluster, 0, 4);
}

static void see_expected(struct cluster *cluster, struct cluster_node *node, actor_id from,
                         const struct message *message) {
    struct cluster_node *victims[1];
    (void)from;
    if (node == NULL && message->type == MESSAGE_REGISTER && cluster->seen.begun >= cluster->schedule.mark &&
        now(cluster)) {
        strike(cluster, victims, serving_nodes(cluster, false, 1, victims));
    }
}

/* ---- Nodes with other input join; the controller may die when it hears of that ---- */

static void shape_other_input(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->other_input.who = OTHER_INPUT_JOINS;
    join_at(cluster, cluster_between(cluster, 1, 3), (unsigned)cluster_between(cluster, 2, 5));
    join_at(cluster, cluster_between(cluster, 2, 5), (unsigned)cluster_between(cluster, 2, 5));
    if (cluster_one_in(cluster, 2)) {
        kill_at(cluster, cluster_between(cluster, 2, 5), 1);
    }
    cluster->schedule.left = (unsigned)cluster_between(cluster, 0, 2);
}

static void see_other_input(struct cluster *cluster, struct cluster_node *node, actor_id from,
                            const struct message *message) {
    const struct cluster_node *sender = cluster_node_of(cluster, from);
    if (node != NULL || message->type != MESSAGE_INPUT || sender == NULL || !sender->input.other) {
        return;
    }
    cluster->other_input.reported = true;
    cluster->result->counts.triggered = 1;
    if (now(cluster)) {
        cluster_control_kill(cluster, cluster_between(cluster, 0, cluster->drawn.timeout_ms * UINT64_C(2000)));
    }
}

/* ---- One of the job's first nodes has other input ---- */

static void shape_other_input_first(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->other_input.who = OTHER_INPUT_AT_START;
    cluster->other_input.unseen = cluster_one_in(cluster, 2);
    cluster->schedule.left = (unsigned)cluster_between(cluster, 0, 2);
}

/* ---- The app crashes on an item; the controller dies about when it hears of that ---- */

static void shape_crash(struct cluster *cluster) {
    shape_tiers(cluster);
    cluster->drawn.checkpoint_every = 0;
    cluster->terms.seconds = cluster->terms.tolerance = 0;
    cluster->terms.iterations = cluster->terms.iterations > 4 ? cluster->terms.iterations : 4;
    cluster->crash.clock = cluster_between(cluster, 1, 4);
    cluster->crash.shard = (unsigned)cluster_between(cluster, 0, cluster->policy.shards - 1);
    cluster->schedule.left = (unsigned)cluster_between(cluster, 0, 1);
    /* 0: before it hears, 1: in a write to its store, 2 or more: later */
    cluster->schedule.mark = cluster_between(cluster, 0, 4);
}

static void kill_controller(void *context) {
    struct cluster *cluster = context;
    cluster_control_kill(cluster, cluster_between(cluster, 0, cluster->drawn.timeout_ms * UINT64_C(500)));
}

static void see_crash(struct cluster *cluster, struct cluster_node *node, actor_id from,
                      const struct message *message) {
    struct cluster_node *crashed = cluster_node_of(cluster, from);
    if (node != NULL || message->type != MESSAGE_CRASHED || crashed->fate.crash_heard) {
        return;
    }
    cluster->result->counts.triggered = 1;
    bool strike_now = cluster->schedule.mark <= 2 && now(cluster);
    if (strike_now && cluster->schedule.mark == 0) {
        kill_controller(cluster);
        return;
    }
    if (strike_now && cluster->schedule.mark == 1) {
        cluster->store.fault = cluster_one_in(cluster, 2) ? STORE_CRASH_BEFORE : STORE_CRASH_AFTER;
        cluster->store.writes_left = (unsigned)cluster_between(cluster, 0, 2);
        cluster->control.restart_us = cluster_between(cluster, 0, cluster->drawn.timeout_ms * UINT64_C(500));
        return;
    }
    crashed->fate.crash_heard = true;
    cluster->crash.heard++;
    if (strike_now) {
        sim_schedule(cluster->sim, CLUSTER_OPERATOR,
                     sim_now(cluster->sim) +
                         cluster_between(cluster, 0, 2 * cluster->drawn.heartbeat_ms * UINT64_C(1000)),
                     kill_controller, cluster);
    }
}

/* ---- A single node gets company; the new nodes die once a plan names them or they begin a clock ---- */

static void shape_company(struct cluster *cluster) {
    static const enum stage stages[] = {STAGE_AUTO, STAGE_1, STAGE_2, STAGE_3};
    unsigned come = (unsigned)cluster_between(cluster, 1, 4);
    cluster->drawn.initial_reliable = 1;
    cluster->drawn.initial_transient = 0;
    cluster->policy.stage = stages[cluster_draw(cluster) % 4];
    cluster->drawn.compute_us = UINT64_C(4000) << (cluster_draw(cluster) % 6);
    cluster->terms.iterations = cluster->terms.iterations > 8 ? cluster->terms.iterations : 8;
    join_at(cluster, cluster_between(cluster, 1, 4), come);
    cluster->schedule.mark = cluster_between(cluster, 0, 2); /* 0: when a plan names them, else: when they work */
    if (cluster->schedule.mark > 0) {
        cluster->schedule.left = (unsigned)cluster_between(cluster, 0, cluster->policy.partitions * (come + 1));
    }
}

static void see_company(struct cluster *cluster, struct cluster_node *node, actor_id from,
                        const struct message *message) {
    struct cluster_node *victims[CLUSTER_NODES_MAX];
    const struct plan_view *plan = &cluster->seen.plan;
    bool named = cluster_plan_in(cluster, message) != NULL && plan->node_count > 1;
    bool work = message->type == MESSAGE_FLUSH && plan->node_count > 1 && plan->terms.from_clock > 1 &&
                message->flush.clock >= plan->terms.from_clock;
    (void)from;
    if (node != NULL && (cluster->schedule.mark == 0 ? named : work) && now(cluster)) {
        strike(cluster, victims, cluster_pick(cluster, WHO_TRANSIENT, CLUSTER_NODES_MAX, victims));
    }
}

/* ---- The table of schedules ---- */

static const struct schedule_of schedules[] = {
    {"two-actives-die-in-stage-change", shape_stage_change, see_stage_change},
    {"follower-dies-in-promotion", shape_promotion, see_promotion},
    {"evicted-dies-in-notice", shape_notice, see_notice},
    {"controller-restarts-in-recovery", shape_recovery, see_recovery},
    {"controller-away-when-half-are-told", shape_half_told, see_half_told},
    {"node-flaps", shape_flaps, see_flaps},
    {"all-transient-die-half-flushed", shape_half_flushed, see_half_flushed},
    {"kill-during-save", shape_save, see_save},
    {"reliable-evicted", shape_reliable, see_reliable},
    {"node-cut-from-one-server", shape_cut, see_cut},
    {"reliable-joins-in-change", shape_reliable_again, see_reliable_again},
    {"others-die-after-takeover", shape_taken_over, see_taken_over},
    {"machines-are-expected", shape_expected, see_expected},
    {"others-input-differs", shape_other_input, see_other_input},
    {"first-input-differs", shape_other_input_first, see_other_input},
    {"app-crashes", shape_crash, see_crash},
    {"node-alone-gets-company", shape_company, see_company},
};

unsigned cluster_schedules(void) {
    return sizeof schedules / sizeof *schedules;
}

const char *cluster_schedule_name(unsigned schedule) {
    return schedules[schedule].name;
}

void cluster_schedule_shape(struct cluster *cluster) {
    if (cluster->options.schedule != SCHEDULE_NONE) {
        cluster->schedule.left = (unsigned)cluster_between(cluster, 0, 12);
        schedules[cluster->options.schedule].shape(cluster);
    }
}

void cluster_schedule_see(struct cluster *cluster, struct cluster_node *node, actor_id from,
                          const struct message *message) {
    if (cluster->options.schedule != SCHEDULE_NONE && !cluster->control.ended) {
        schedules[cluster->options.schedule].see(cluster, node, from, message);
    }
}
