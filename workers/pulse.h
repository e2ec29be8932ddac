/* A process's pulse (docs/design.md, "Pulses"): an actor in a thread of its own that does nothing else, so it answers
 * as long as the process runs, however busy the app, the agent and the servers are. It answers whoever asks whether the
 * process lives. It watches some other pulses: it reports to the controller that a connection to one has broken, and,
 * where the job wants probes, that one does not answer. Behind struct io. Its messages:
 *
 *   from its node's agent   WELCOME brings the interval of probes, PLAN the other pulses
 *   with other pulses       PULSE_ASK and PULSE_ANSWER
 *   with the controller     PULSE_ASK comes in; PULSE_ANSWER, PULSE_SUSPECT */
#ifndef AGILEML_WORKERS_PULSE_H
#define AGILEML_WORKERS_PULSE_H

#include "agileml/net/io.h"
#include "agileml/wire/plan.h"

enum {
    PULSE_RING = 2,                     /* it watches the next so many nodes of the plan, in a ring, ... */
    PULSE_TARGETS_MAX = 1 + PULSE_RING, /* ... and one of another group, if these have none */
    PULSE_MISSED = 2,                   /* so many probes in a row without an answer make a suspicion */
    PULSE_BROKEN_MS = 100,              /* between two questions over a broken connection, in a job without probes */
    PULSE_GREET_US = 1000 * 1000        /* between two unasked answers to the controller */
};

/* Another pulse that this one watches. */
struct pulse_target {
    actor_id pulse;
    bool broken;     /* the connection has broken, and no answer has come since */
    bool awaited;    /* the last question is not answered */
    unsigned missed; /* questions in a row that were not answered when the next one was due */
};

struct pulse {
    struct io *io;
    actor_id self;
    uint64_t period_us; /* between two probes; 0: there are none */
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

/* Writes the pulses that the one of node `self` watches by the plan, and returns their number. */
unsigned pulse_choose(const struct plan_view *plan, actor_id self, actor_id targets[PULSE_TARGETS_MAX]);

/* A new connection to this peer stands. */
void pulse_connected(struct pulse *pulse, actor_id peer);

/* The actor's functions (net/io.h), `self` a struct pulse. */
void pulse_receive(void *self, actor_id from, struct message *message);
void pulse_timer(void *self);
void pulse_broken(void *self, actor_id peer);

#endif
