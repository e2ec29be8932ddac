/* A process's pulse (docs/design.md, "Pulses"): an actor in a thread of its own that does nothing else. So it answers
 * as long as the process runs, however busy the app, the agent and the servers are. It answers any actor that asks
 * whether the process lives. It watches some other pulses, and reports to the controller if the connection to one of
 * them has broken. In a job with probes, it also reports pulses that do not answer. Behind struct io. Its messages:
 *
 *   from its node's agent   WELCOME brings the interval of probes, PLAN the other pulses
 *   with other pulses       PULSE_ASK and PULSE_ANSWER
 *   with the controller     PULSE_ASK comes in; PULSE_ANSWER, PULSE_SUSPECT */
#ifndef AGILEML_WORKERS_PULSE_H
#define AGILEML_WORKERS_PULSE_H

#include "agileml/net/io.h"
#include "agileml/wire/plan.h"

enum {
    PULSE_MESSAGE_BYTES = 1 << 16,      /* most bytes of a message to a pulse: a PULSE has some 50 */
    PULSE_RING = 2,                     /* nodes that a pulse watches: the next ones in the plan's ring of nodes */
    PULSE_TARGETS_MAX = 1 + PULSE_RING, /* the most targets: one node of another group is added if these have none */
    PULSE_MISSED = 2,                   /* probes in a row without an answer that make a suspicion */
    PULSE_BROKEN_MS = 100,              /* the time between two questions over a broken connection, in a job without
                                           probes */
    PULSE_GREET_US = 1000 * 1000        /* the time between two unasked answers to the controller */
};

/* Another pulse that this one watches. */
struct pulse_target {
    actor_id pulse;
    bool broken;     /* the connection has broken, and no answer has come since */
    bool awaited;    /* the last question is not answered */
    unsigned missed; /* questions in a row that had no answer when the next one was due */
};

struct pulse {
    struct io *io;
    actor_id self;
    uint64_t period_us; /* the time between two probes; 0: there are none */
    uint64_t number;    /* of the last question */
    struct plan_view plan;
    struct pulse_target targets[PULSE_TARGETS_MAX];
    unsigned target_count;
    uint64_t tick_us;  /* when the next questions are due; 0: none are */
    uint64_t greet_us; /* when the next unasked answer is due; 0: the node is not in the job yet */
    uint64_t timer_us; /* when pulse_timer is due */
};

/* `self`: the pulse's actor. Connects to the controller. */
void pulse_init(struct pulse *pulse, struct io *io, actor_id self, const char *controller);
void pulse_close(struct pulse *pulse);

/* Handles a new connection to this peer. */
void pulse_connected(struct pulse *pulse, actor_id peer);

/* The actor's functions (net/io.h), `self` a struct pulse. */
void pulse_receive(void *self, actor_id from, struct message *message);
void pulse_timer(void *self);
void pulse_broken(void *self, actor_id peer);

#endif
