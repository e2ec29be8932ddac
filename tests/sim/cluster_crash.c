/* An app that crashes on an item, on every node that works on it. The node reports CRASHED and dies within the time
 * that a process waits for the answer (workers/data/crash.h). See cluster_private.h. */
#include "tests/sim/cluster_private.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { WAIT_US = 500 * 1000 };

static void crash_ends(void *context) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    if (node->fate.gone) {
        return;
    }
    cluster_kill(node);
    if (cluster_one_in(cluster, 2)) { /* a launcher sees the end of the process */
        cluster_operator_ask(cluster, MESSAGE_GONE, &node, 1, SIGSEGV);
    }
}

static void crash_now(void *context) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    if (node->fate.gone) {
        return;
    }
    const struct message_crashed facts = {.signal = SIGSEGV, .clock = node->node.client.clock, .function = "clock"};
    cluster->crash.count += node_crashed(&node->node, &facts) ? 1 : 0;
    cluster->faults.disturbed = cluster->faults.may_fail = true;
    sim_schedule(cluster->sim, node->machine, sim_now(cluster->sim) + cluster_between(cluster, 1000, WAIT_US),
                 crash_ends, node);
}

bool cluster_crash(struct cluster_node *node, const struct cluster_set *set, uint64_t clock) {
    struct cluster *cluster = node->cluster;
    bool due = false;
    for (uint32_t s = 0; s < set->count && node->work.parts > 0; s++) {
        due = due ||
              (cluster->crash.clock > 0 && clock >= cluster->crash.clock && set->shards[s] == cluster->crash.shard);
    }
    if (due) {
        cluster->crash.clock = cluster->crash.count == 0 ? clock : cluster->crash.clock;
        sim_schedule(cluster->sim, node->machine, sim_now(cluster->sim) + cluster_between(cluster, 0, node->compute_us),
                     crash_now, node);
    }
    return due;
}

void cluster_check_crash(struct cluster *cluster) {
    const char *text = cluster->control.text;
    char place[64];
    unsigned unheard = cluster->crash.count - cluster->crash.heard;
    if (cluster->crash.clock == 0) {
        return;
    }
    snprintf(place, sizeof place, " in the app's function clock, at clock %llu",
             (unsigned long long)cluster->crash.clock);
    /* A launcher may report the crash before the node does. */
    bool named = strstr(text, " died of signal 11 ") != NULL &&
                 (strstr(text, place) != NULL || strstr(text, " about clock ") != NULL);
    if (cluster->control.code == 0 || (!named && unheard == 0)) {
        cluster_violation(cluster, "I8", "an app that crashes at clock %llu: %s",
                          (unsigned long long)cluster->crash.clock,
                          cluster->control.code == 0 ? "the job ended well" : text);
    } else if (cluster->crash.heard > 2) {
        cluster_violation(cluster, "I8", "%u nodes have crashed at clock %llu, of which %u were not heard",
                          cluster->crash.count, (unsigned long long)cluster->crash.clock, unheard);
    }
}
