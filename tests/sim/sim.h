/* A simulated cluster behind struct io: every actor of every node in one thread, with a virtual clock and one random
 * seed (docs/design.md, "Who is who"). The same seed and the same calls give the same run, event by event.
 *
 * Messages between nodes pass the wire's encoder and decoder, take time (latency, bandwidth) and arrive in order on
 * each connection (a pair of actors, once one of them has called connect). What TCP and its reconnects do to them is
 * done by sim_break, sim_refuse, sim_restart, sim_pause, sim_separate and sim_remove; the network by itself never
 * loses or repeats a message. Messages between actors of one node are not lost and take no time.
 *
 * Does not know what the actors are: cluster.c and bench/scale put clusters together. */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "agileml/net/io.h"

#include <stdio.h>

struct sim_config {
    unsigned nodes;                                      /* machines, numbered from 0; 1 to SIM_NODES_MAX */
    uint64_t latency_min_us, latency_max_us;             /* one way; each pair of actors draws its own */
    uint32_t tail_per_million;                           /* messages in a million that are delayed */
    uint64_t tail_max_us;                                /* the longest such delay */
    uint64_t bytes_per_second_min, bytes_per_second_max; /* of a node, each way; each node draws its own */
    /* How long a node's one processor takes for a message from another node: messages wait for it in their order, and
     * timers are late. 0: no time. */
    uint64_t message_us, megabyte_us;
    uint64_t hold_max_us;      /* a separation up to this long delays messages; a longer one breaks connections */
    uint64_t reconnect_max_us; /* the longest time from a break until the connection stands again */
    bool admission;            /* nodes hear only nodes that io.admit has named, as in a job with a key */
    FILE *trace;               /* one line for each event; NULL: none */
};

enum { SIM_NODES_MAX = 1 << 16, SIM_ALL_NODES = -1 };

struct sim_statistics {
    uint64_t events;   /* messages received, timers and calls */
    uint64_t messages; /* messages sent between nodes */
    uint64_t bytes;    /* bytes of those messages */
    uint64_t local;    /* messages sent within a node */
    /* Messages lost by breaks, sent by the answering side of a broken connection, or not admitted. */
    uint64_t lost;
    uint64_t duplicated;  /* messages duplicated by breaks */
    uint64_t unreachable; /* messages to an actor that is unknown or not connected */
    uint64_t refused;     /* messages that the decoder rejected: always a mistake in this program */
    uint64_t trace;       /* hash of all events so far and of every message that arrived, frames included */
};

struct sim;

/* Makes a cluster. Never returns NULL. */
struct sim *sim_open(uint64_t seed, const struct sim_config *config);
void sim_close(struct sim *sim);

/* Places an actor on a node. Others connect to it by `endpoint`. *io stays valid until sim_close. */
void sim_actor(struct sim *sim, unsigned node, actor_id id, const char *endpoint, struct actor actor, struct io **io);

/* Calls `function` at `at_us`, or now if that has passed, as part of `node`: late if the node is paused, never once it
 * is removed. */
void sim_schedule(struct sim *sim, unsigned node, uint64_t at_us, void (*function)(void *context), void *context);

/* Executes the next event. Returns false when there is none. */
bool sim_step(struct sim *sim);
uint64_t sim_now(const struct sim *sim);
uint64_t sim_random(struct sim *sim);
const struct sim_statistics *sim_statistics(const struct sim *sim);

/* ---- Faults ---- */

/* Breaks every connection between two nodes, or all of one node (`other` is SIM_ALL_NODES). Some messages under way are
 * lost, some arrive twice, and later ones may overtake delayed ones. */
void sim_break(struct sim *sim, unsigned node, int other);
/* Refuses every new connection to the node until `until_us`, as a firewall does. Established connections go on. */
void sim_refuse(struct sim *sim, unsigned node, uint64_t until_us);
/* Returns the end of the last sim_refuse, past or present; 0: there was none. */
uint64_t sim_refuses_until(const struct sim *sim, unsigned node);
/* Kills the process on `node`, to which others connect. The next process listens from `up_us` on, and each connection
 * is established again within IO_RECONNECT_MS after that. Until then everything sent over it is lost. */
void sim_restart(struct sim *sim, unsigned node, uint64_t up_us);
/* Stops the node until `until_us`, as SIGSTOP does. */
void sim_pause(struct sim *sim, unsigned node, uint64_t until_us);
/* Separates the network until `until_us`: no message passes between nodes whose `sides` differ (one entry for each
 * node). Nodes of side 0 reach every node. Replaces an earlier separation. */
void sim_separate(struct sim *sim, const unsigned char *sides, uint64_t until_us);
/* Removes the node without a report to anyone, as when its machine is gone. Messages that it has sent still arrive. */
void sim_remove(struct sim *sim, unsigned node);
/* Ends the node's process while its machine goes on: its connections end, and new ones are refused. */
void sim_end(struct sim *sim, unsigned node);

#endif
