/* Pulses in the simulated cluster, and the checks of I17. See cluster_private.h. */
#include "tests/sim/cluster_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char CONTROLLER_ENDPOINT[] = "tcp://controller:7000";

enum {
    PROBES_ONE_IN = 3,
    PROBE_LEAST_MS = 25,
    QUEUED_US = 60 * 1000, /* a small message may wait so long for larger ones */
    CALM_US = 3000 * 1000, /* after other faults, no answers are expected for so long */
    FENCE_PERIODS = 24,    /* a lost node is given up within so many probe intervals */
    FENCE_US = 400 * 1000  /* in addition to FENCE_PERIODS */
};

static uint64_t now(const struct cluster *cluster) {
    return sim_now(cluster->sim);
}

static uint64_t period_us(const struct cluster *cluster) {
    return cluster->drawn.probe_ms * UINT64_C(1000);
}

/* Draws whether the job has probes. Their interval is long enough for an answer to arrive within a few probes. */
void cluster_pulse_draw(struct cluster *cluster, const struct sim_config *network) {
    uint64_t drawn = hash_mix(cluster->options.seed ^ 0x9B0BE);
    uint64_t tail_us = network->tail_per_million > 0 ? network->tail_max_us : 0;
    bool elastic = cluster->options.campaign == CAMPAIGN_ELASTIC;
    enum mistake mistake = cluster->options.mistake;
    bool wanted = drawn % PROBES_ONE_IN == 0 || mistake == MISTAKE_SUSPICION_BELIEVED ||
                  mistake == MISTAKE_SUSPICION_IGNORED || mistake == MISTAKE_WOKEN_ACCUSES;
    cluster->drawn.far_us = 5 * network->latency_max_us / 2 + 2 * tail_us + QUEUED_US;
    uint64_t least_ms = cluster->drawn.far_us / (1000 * (SUSPECT_TICKS - 1)) + 1;
    least_ms = least_ms < PROBE_LEAST_MS ? PROBE_LEAST_MS : least_ms;
    cluster->drawn.probe_ms = elastic && wanted ? (uint32_t)(least_ms << drawn / PROBES_ONE_IN % 3) : 0;
}

/* ---- The actor ---- */

static void actor_receive(void *self, actor_id from, struct message *message) {
    struct cluster_node *node = self;
    if (!node->fate.gone) {
        pulse_receive(&node->pulse.pulse, from, message);
    }
}

static void actor_broken(void *self, actor_id peer) {
    struct cluster_node *node = self;
    if (!node->fate.gone) {
        pulse_broken(&node->pulse.pulse, peer);
    }
}

/* Whether the node has just resumed after a pause of several probe intervals. */
static bool has_woken(const struct cluster_node *node) {
    const struct cluster_node_pulse *pulse = &node->pulse;
    return pulse->paused_until_us != 0 && pulse->ticked_us + 2 * period_us(node->cluster) < pulse->paused_until_us &&
           now(node->cluster) >= pulse->paused_until_us;
}

static void actor_timer(void *self) {
    struct cluster_node *node = self;
    struct cluster *cluster = node->cluster;
    struct pulse *pulse = &node->pulse.pulse;
    if (node->fate.gone) {
        return;
    }
    bool woken = has_woken(node) && period_us(cluster) > 0 && pulse->tick_us != 0 && now(cluster) >= pulse->tick_us;
    if (woken && pulse->target_count > 0 && cluster_mistake_due(cluster, MISTAKE_WOKEN_ACCUSES)) {
        for (unsigned t = 0; t < pulse->target_count; t++) {
            pulse->targets[t].missed = (unsigned)((now(cluster) - pulse->tick_us) / period_us(cluster));
        }
        pulse->tick_us = now(cluster);
    }
    pulse_timer(pulse);
    node->pulse.ticked_us = now(cluster);
    for (unsigned t = 0; woken && t < pulse->target_count; t++) {
        if (pulse->targets[t].missed >= PULSE_MISSED) {
            cluster_violation(cluster, "I17", "%s, which has just woken, suspects %llx", node->node.name,
                              (unsigned long long)pulse->targets[t].pulse);
        }
    }
}

void cluster_pulse_open(struct cluster_node *node) {
    struct cluster_node_pulse *pulse = &node->pulse;
    struct io *io;
    pulse->endpoint.actor = actor_pulse(node->id);
    snprintf(pulse->endpoint.endpoint, WIRE_ENDPOINT_MAX, "tcp://host-%u:7000", node->number);
    sim_actor(node->cluster->sim, node->machine, pulse->endpoint.actor, pulse->endpoint.endpoint,
              (struct actor){.receive = actor_receive, .timer = actor_timer, .self = node, .broken = actor_broken},
              &io);
    pulse_init(&pulse->pulse, io, pulse->endpoint.actor, CONTROLLER_ENDPOINT);
}

void cluster_pulse_close(struct cluster_node *node) {
    pulse_close(&node->pulse.pulse);
}

/* ---- What is checked ---- */

void cluster_pulse_see(struct cluster *cluster, struct message *message) {
    struct controller *controller = &cluster->control.controller;
    if (message->type != MESSAGE_PULSE || message->pulse.kind != PULSE_SUSPECT) {
        return;
    }
    struct member *member = controller_find_member(controller, message->pulse.suspect);
    const struct cluster_node *node = cluster_node_of(cluster, message->pulse.suspect);
    if (node != NULL && node->fate.gone && cluster_mistake_lasts(cluster, MISTAKE_SUSPICION_IGNORED)) {
        message->pulse.suspect = ACTOR_NONE;
    }
    if (member != NULL && node != NULL && !node->fate.gone && member->pulse.suspect.number != 0 &&
        (controller->phase == PHASE_LOAD || controller->phase == PHASE_TRAIN) &&
        cluster_mistake_due(cluster, MISTAKE_SUSPICION_BELIEVED)) {
        member->pulse.suspect.broken = false;
        member->pulse.suspect.unanswered = SUSPECT_TICKS;
    }
}

static bool after(uint64_t now_us, uint64_t time_us, uint64_t wait_us) {
    return time_us == 0 || now_us > time_us + wait_us;
}

void cluster_pulse_check_failure(struct cluster *cluster, const char *name, const char *reason) {
    bool asked = reason != NULL && strstr(reason, "does not answer other nodes") != NULL;
    bool ended = reason != NULL && strstr(reason, "does not listen any more") != NULL;
    uint64_t since_us = 2 * FENCE_US + FENCE_PERIODS * period_us(cluster) + CALM_US;
    if (!asked && !ended) {
        return;
    }
    for (unsigned n = 0; n < cluster->node_count; n++) { /* a name may belong to several incarnations */
        if (strcmp(cluster->nodes[n]->node.name, name) == 0 && cluster->nodes[n]->fate.gone) {
            return;
        }
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        bool apart = !after(now(cluster), cluster->faults.apart_us, since_us);
        bool stood = !after(now(cluster), node->pulse.paused_until_us, since_us);
        if (strcmp(node->node.name, name) == 0 && (ended || (!apart && !stood))) {
            cluster_violation(cluster, "I17", "%s, which could answer, is given up: %s", name, reason);
        }
    }
}

/* Whether the controller must have given the lost node up by now. */
static bool is_overdue(const struct cluster *cluster, const struct cluster_node *node) {
    uint64_t bound_us = FENCE_US + FENCE_PERIODS * period_us(cluster) + 6 * cluster->drawn.far_us;
    return node->pulse.gone_us != 0 && now(cluster) > node->pulse.gone_us + bound_us;
}

void cluster_pulse_check_control(struct cluster *cluster) {
    const struct controller *controller = &cluster->control.controller;
    uint64_t wait_us = CALM_US + FENCE_PERIODS * period_us(cluster);
    unsigned present = 0; /* members that count for the controller's doubt of itself (doubts_itself in pulses.c) */
    unsigned gone = 0;
    const struct member *overdue = NULL;
    /* With options.caches the loss of all but one or two nodes may leave no node that watches a feeder. */
    if (cluster->drawn.probe_ms == 0 || controller->phase != PHASE_TRAIN || cluster->faults.split ||
        cluster->options.caches || cluster->options.schedule != SCHEDULE_NONE || cluster->run.mad_certain ||
        cluster->result->counts.mad > 0 || !after(now(cluster), cluster->faults.stunned_us, wait_us)) {
        return;
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        const struct cluster_node *node = cluster_node_of(cluster, member->node.actor);
        bool silent = node != NULL && (node->fate.gone || !after(now(cluster), node->pulse.paused_until_us, wait_us));
        present += member->stay != MEMBER_DISMISSED ? 1 : 0;
        gone += member->stay != MEMBER_DISMISSED && silent ? 1 : 0;
        /* A feeder that joins is watched only from the next plan on. */
        bool counts = node != NULL && member->stay == MEMBER_STAYS && member->node.tier != TIER_FEEDER &&
                      member->pulse.suspect.there && !member->left && now(cluster) > member->joined_us + wait_us;
        overdue = counts && is_overdue(cluster, node) ? member : overdue;
    }
    if (2 * gone > present) {
        cluster->faults.stunned_us = now(cluster); /* the controller asks again once it no longer doubts itself */
    } else if (overdue != NULL) {
        cluster_violation(cluster, "I17", "%s is gone, and was not given up in time", overdue->name);
    }
}
