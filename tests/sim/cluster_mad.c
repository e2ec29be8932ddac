/* Mad nodes in the simulated cluster. Their heartbeats go on, but they ignore a kind of message or report what can't be
 * true. The job must go on without them, or take no harm. They draw from a random stream of their own, so that other
 * runs stay the same. See cluster_private.h. */
#include "tests/forge.h"
#include "tests/sim/cluster_private.h"

#include <inttypes.h>
#include <string.h>

enum { MAD_ONE_IN = 6, FORGED_ONE_IN = 8 };

static const char *const mad_names[MAD_KINDS] = {
    "nothing",   "deaf to the controller", "deaf to holds", "deaf to plans", "deaf to fences",  "deaf to checkpoints",
    "committed", "a clock",                "progress",      "an origin",     "a begun clock",   "no begun clock",
    "a server",  "restore points",         "rows",          "accusations",   "all kinds of numbers"};

static const uint64_t NO_CLOCK = UINT64_C(0xFFFFFFF0);

static bool is_lie(enum mad mad) {
    return mad >= MAD_COMMITTED;
}

/* Whether this madness shows only after a fence. */
static bool needs_fence(enum mad mad) {
    return mad == MAD_FENCE || mad == MAD_BEGUN || mad == MAD_UNBEGUN || mad == MAD_OTHER_SERVER || mad == MAD_POINTS;
}

void cluster_draw_mad(struct cluster *cluster) {
    enum mistake mistake = cluster->options.mistake;
    bool forced = mistake == MISTAKE_ANSWER_AWAITED || mistake == MISTAKE_LIE_BELIEVED;
    uint64_t clocks = cluster->terms.iterations * cluster->terms.clocks_per_iteration;
    uint64_t random = hash_mix(cluster->options.seed ^ ((uint64_t)cluster->run.jobs << 32) ^ 0x3AD);
    if (random % MAD_ONE_IN != 0 && !forced && !cluster->run.mad_certain) {
        return;
    }
    cluster->run.mad_random = hash_mix(random);
    struct action *action = &cluster->faults.actions[cluster->faults.action_count++];
    *action = (struct action){.cluster = cluster, .kind = ACTION_MAD, .count = 1};
    action->at_clock = cluster->drawn.resume_clock + 1 + hash_mix(random + 1) % (clocks > 0 ? clocks : 8);
    action->delay_us = hash_mix(random + 2) % (4 * cluster->drawn.compute_us);
    action->who = hash_mix(random + 3) % 12 == 0 ? WHO_RELIABLE : WHO_TRANSIENT;
    action->mad = (enum mad)(1 + hash_mix(random + 4) % (MAD_FORGES - 1));
    if (cluster->run.mad_certain && hash_mix(random + 6) % 2 == 0) {
        action->mad = MAD_FORGES;
    }
    if (forced) {
        action->who = WHO_TRANSIENT;
        action->mad = mistake == MISTAKE_LIE_BELIEVED ? MAD_COMMITTED : MAD_AGENT;
    }
    if (needs_fence(action->mad) || action->mad == MAD_FORGES || mistake == MISTAKE_LIE_BELIEVED) {
        struct action *kill = &cluster->faults.actions[cluster->faults.action_count++];
        *kill = (struct action){.cluster = cluster, .kind = ACTION_KILL, .count = 1, .told = true};
        kill->who = WHO_TRANSIENT;
        kill->at_clock = action->at_clock;
        kill->delay_us = action->delay_us + hash_mix(random + 5) % (uint64_t)(1000 * 1000);
    }
}

void cluster_go_mad(struct cluster_node *node, enum mad mad) {
    struct cluster *cluster = node->cluster;
    node->fate.mad = mad;
    node->fate.hurt = true;
    if (cluster->options.trace != NULL) {
        fprintf(cluster->options.trace, "%12.6f %" PRIx64 " goes mad: %s\n", (double)sim_now(cluster->sim) / 1e6,
                node->id, mad_names[mad]);
    }
    cluster->run.forged = cluster->run.forged || mad == MAD_FORGES;
    cluster->faults.disturbed = true;
    cluster->faults.may_fail = cluster->faults.may_fail || node->tier == TIER_RELIABLE || cluster->options.transient;
    cluster->result->counts.mad++;
    cluster->result->mistaken = cluster->result->mistaken || cluster->options.mistake == MISTAKE_ANSWER_AWAITED;
    cluster_not_calm(cluster, sim_now(cluster->sim) + cluster->drawn.timeout_ms * UINT64_C(6000));
}

bool cluster_mad_node(const struct cluster_node *node, actor_id from, struct message *message) {
    if (from != ACTOR_CONTROLLER) {
        return true;
    }
    if (node->fate.mad == MAD_BARRIER && message->type == MESSAGE_HEARTBEAT_ACK) {
        message->heartbeat_ack.barrier = 0; /* the number of an old barrier */
    }
    return node->fate.mad != MAD_AGENT && (node->fate.mad != MAD_PLAN || message->type != MESSAGE_PACKED_PLAN);
}

bool cluster_mad_server(const struct cluster_node *node, const struct message *message) {
    return (node->fate.mad != MAD_FENCE || message->type != MESSAGE_FENCE) &&
           (node->fate.mad != MAD_CHECKPOINT || message->type != MESSAGE_CHECKPOINT);
}

/* Returns a clock far beyond what is possible, or just beyond it. */
static uint64_t lie(const struct cluster *cluster) {
    return cluster->run.mad_random % 2 == 0 ? NO_CLOCK : possible_clock(&cluster->control.controller) + 1;
}

static void lie_in_fenced(struct cluster_node *node, struct message *message) {
    struct cluster *cluster = node->cluster;
    struct buffer *copy = buffer_copy(message->frames[0]->data, message->frames[0]->size);
    struct wire_restore_point *restore_points = (void *)copy->data;
    buffer_drop(message->frames[0]);
    message->frames[0] = copy;
    for (size_t r = 0; r < copy->size / sizeof *restore_points; r++) {
        restore_points[r].server = node->fate.mad == MAD_OTHER_SERVER ? restore_points[r].server ^ (UINT64_C(1) << 50)
                                                                      : restore_points[r].server;
        restore_points[r].clock =
            node->fate.mad == MAD_POINTS ? restore_points[r].clock + 1000 : restore_points[r].clock;
    }
    if (node->fate.mad == MAD_BEGUN) {
        message->fenced.begun = possible_clock(&cluster->control.controller) + 1;
    } else if (node->fate.mad == MAD_UNBEGUN) {
        message->fenced.begun = 0;
        message->fenced.committed = 0;
    }
}

/* Makes rows name a table that does not exist, or have too few values. */
static void lie_in_rows(struct cluster *cluster, struct message *message) {
    if (message->frame_count < 2 || message->type == MESSAGE_PLAN || message->type == MESSAGE_REPLICAS) {
        return;
    }
    unsigned frame = cluster->run.mad_random % 2 == 0 ? 0 : message->frame_count - 1;
    struct buffer *copy = buffer_copy(message->frames[frame]->data, message->frames[frame]->size);
    buffer_drop(message->frames[frame]);
    message->frames[frame] = copy;
    if (frame == 0) {
        ((struct wire_directory_entry *)(void *)copy->data)->table = WIRE_TABLES_MAX - 1;
    } else {
        copy->size--;
    }
}

static void forge_some(struct cluster *cluster, struct message *message) {
    if (hash_mix(cluster->run.mad_random++) % FORGED_ONE_IN == 0) {
        forge_change(message, &cluster->run.mad_random);
    }
}

void cluster_mad_peer(const struct cluster_node *node, actor_id from, struct message *message) {
    const struct cluster_node *sender = cluster_node_of(node->cluster, from);
    if (sender == NULL || sender == node) {
        return;
    }
    if (sender->fate.mad == MAD_ROWS) {
        lie_in_rows(node->cluster, message);
    } else if (sender->fate.mad == MAD_FORGES) {
        forge_some(node->cluster, message);
    }
}

/* Accuses another node with each heartbeat. */
static void accuse(struct cluster *cluster, actor_id from) {
    struct controller *controller = &cluster->control.controller;
    actor_id accused = controller->members[cluster->run.mad_random++ % controller->member_count].node.actor;
    struct message message = {.type = MESSAGE_ACCUSE, .epoch = controller->plan.epoch, .accuse.accused = accused};
    struct cluster_node *node = cluster_node_of(cluster, accused);
    if (node != NULL) {
        node->fate.hurt = true;
    }
    controller_receive(controller, from, &message);
}

void cluster_mad_controller(struct cluster *cluster, actor_id from, struct message *message) {
    struct cluster_node *node = cluster_node_of(cluster, from);
    struct controller *controller = &cluster->control.controller;
    if (node == NULL || !is_lie(node->fate.mad) || controller_find_member(controller, node->id) == NULL) {
        return;
    }
    if (message->type == MESSAGE_HEARTBEAT && node->fate.mad == MAD_COMMITTED) {
        if (cluster->options.mistake == MISTAKE_LIE_BELIEVED) {
            controller->commit.clock = NO_CLOCK;
            cluster->result->mistaken = true;
            return;
        }
        message->heartbeat.committed = lie(cluster);
    } else if (message->type == MESSAGE_HEARTBEAT && node->fate.mad == MAD_CLOCK) {
        message->heartbeat.clock = possible_clock(controller) + 1;
    } else if (message->type == MESSAGE_PROGRESS && node->fate.mad == MAD_PROGRESS) {
        message->progress.clock = NO_CLOCK;
    } else if (message->type == MESSAGE_PROGRESS && node->fate.mad == MAD_ORIGIN) {
        actor_id first = controller->members[0].node.actor;
        message->progress.origin = first != node->id ? first : first ^ (UINT64_C(1) << 50);
    } else if (message->type == MESSAGE_HEARTBEAT && node->fate.mad == MAD_ACCUSES) {
        accuse(cluster, from);
    } else if (node->fate.mad == MAD_FORGES) {
        forge_some(cluster, message);
    } else if (message->type == MESSAGE_FENCED) {
        lie_in_fenced(node, message);
    }
}
