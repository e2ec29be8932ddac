/* See sim.h. One heap of events. A message under way is also in its lane's queue, where breaks find it. An event that
 * may not happen yet (a paused node, a separated network) goes back into the heap with its sequence number, which keeps
 * every order. */
#include "tests/sim/sim.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/wire/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIM_START_US = 1000 * 1000,
    SIM_TIMER_LATE_US = 500,
    SIM_ADMISSION_US = 20 * 1000, /* between two attempts to connect */
    SIM_ADMISSION_MAX_US = 60 * 1000 * 1000,
    SIM_FRAME_OVERHEAD = 9, /* bytes that ZeroMQ adds to each frame */
    SIM_DUPLICATE_PERCENT = 20
};

/* A message under way. */
struct flight {
    struct flight *next, *previous; /* in its lane, oldest first */
    unsigned from, to;              /* the actors' indexes */
    unsigned lane;
    bool queued;  /* in the lane's list */
    bool at_link; /* it has reached the receiver's node and waits for that node's link */
    bool at_processor; /* it has passed the link and waits for the node's processor */
    bool lost;
    uint64_t not_before_us;
    uint64_t waited_us;    /* time spent waiting for admission */
    struct message *local; /* the message as it was sent, within a node */
    size_t head_size;
    unsigned frame_count;
    struct buffer **frames;
    unsigned char head[];
};

/* One direction of a connection. */
struct lane {
    unsigned from, to;
    bool dialed; /* `from` connected, so its messages survive a break */
    bool closed; /* the side that dialed has forgotten the connection */
    bool stood;  /* a message has passed, so the connection was established */
    uint64_t latency_us;
    uint64_t last_us; /* arrival time of the latest message */
    uint64_t down_until_us;
    uint64_t deaf_until_us; /* until then the other end does not listen, and all messages are lost */
    struct flight *first, *last;
    struct flight *delivered; /* the latest message, kept for duplicates */
};

enum event_kind { EVENT_MESSAGE, EVENT_TIMER, EVENT_CALL, EVENT_BROKEN, EVENT_DIALED };

struct event {
    uint64_t at_us, sequence;
    enum event_kind kind;
    bool late; /* of a timer: it has waited for the node's processor */
    unsigned node;
    union {
        struct flight *flight;
        struct {
            unsigned actor;
            uint64_t generation;
        } timer;
        struct {
            void (*function)(void *context);
            void *context;
        } call;
        struct {
            unsigned actor, peer;
            uint64_t began_us; /* for EVENT_DIALED */
        } peers;               /* for EVENT_BROKEN and EVENT_DIALED */
    };
};

struct sim_actor_state {
    struct io io; /* must be first: the actor's io points to it */
    struct sim *sim;
    unsigned index, node;
    actor_id id;
    char endpoint[WIRE_ENDPOINT_MAX];
    struct actor actor;
    uint64_t timer_us, timer_generation;
};

struct sim_node_state {
    uint64_t bytes_per_second;
    uint64_t out_free_us, in_free_us; /* when its link is free again to send, and to receive */
    uint64_t busy_until_us;           /* its processor has messages to handle until then */
    uint64_t paused_until_us;
    bool removed;
    bool refuses; /* removed, but its machine still refuses connections */
    uint64_t refuses_until_us;
    unsigned char side;
    actor_id *admitted; /* node parts of the admitted actors' ids, with part 0, ascending */
    size_t admitted_count;
};

struct sim {
    struct sim_config config;
    uint64_t random, now_us, sequence, separated_until_us;
    struct sim_node_state *nodes;
    struct sim_actor_state **actors;
    unsigned actor_count;
    struct index_map actor_index; /* actor_id -> index */
    struct lane *lanes;
    unsigned lane_count;
    struct index_map lane_index; /* from << 32 | to -> index */
    struct event *events;        /* a heap with the next event first */
    size_t event_count, event_capacity;
    struct sim_statistics statistics;
};

/* ---- Chance ---- */

uint64_t sim_random(struct sim *sim) {
    return hash_mix(sim->random++);
}

static uint64_t random_up_to(struct sim *sim, uint64_t most) {
    return most == UINT64_MAX ? sim_random(sim) : sim_random(sim) % (most + 1);
}

/* Returns a number between two bounds, with equal chances for each power of two. */
static uint64_t random_magnitude(struct sim *sim, uint64_t least, uint64_t most) {
    unsigned doublings = 0;
    while (least > 0 && least <= most >> (doublings + 1)) {
        doublings++;
    }
    uint64_t low = least << random_up_to(sim, doublings);
    uint64_t high = low <= most / 2 ? 2 * low : most;
    return low + random_up_to(sim, high - low);
}

/* ---- The heap ---- */

static bool event_before(const struct event *a, const struct event *b) {
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->sequence < b->sequence;
}

static void heap_push(struct sim *sim, struct event event) {
    if (sim->event_count == sim->event_capacity) {
        sim->event_capacity = sim->event_capacity > 0 ? 2 * sim->event_capacity : 1024;
        sim->events = memory_resized(sim->events, sim->event_capacity, sizeof *sim->events);
    }
    size_t at = sim->event_count++;
    while (at > 0 && event_before(&event, &sim->events[(at - 1) / 2])) {
        sim->events[at] = sim->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sim->events[at] = event;
}

static struct event heap_pop(struct sim *sim) {
    struct event first = sim->events[0];
    struct event moved = sim->events[--sim->event_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < sim->event_count && event_before(&sim->events[child + 1], &sim->events[child])) {
            child++;
        }
        if (child >= sim->event_count || !event_before(&sim->events[child], &moved)) {
            break;
        }
        sim->events[at] = sim->events[child];
        at = child;
    }
    sim->events[at] = moved;
    return first;
}

static void event_add(struct sim *sim, uint64_t at_us, struct event event) {
    event.at_us = at_us > sim->now_us ? at_us : sim->now_us;
    event.sequence = ++sim->sequence;
    heap_push(sim, event);
}

static void event_again(struct sim *sim, uint64_t at_us, struct event event) {
    event.at_us = at_us; /* keeps its sequence number: still after the same events and before the same */
    heap_push(sim, event);
}

/* ---- Messages under way ---- */

static struct flight *flight_new(const struct message *message, unsigned from, unsigned to) {
    unsigned char head[WIRE_HEAD_MAX];
    size_t size = message_encode_head(message, head);
    struct flight *flight = memory_zeroed(1, sizeof *flight + size);
    flight->from = from;
    flight->to = to;
    flight->head_size = size;
    memcpy(flight->head, head, size);
    flight->frame_count = message->frame_count;
    flight->frames = message->frame_count > 0 ? memory_zeroed(message->frame_count, sizeof *flight->frames) : NULL;
    for (unsigned f = 0; f < message->frame_count; f++) {
        flight->frames[f] = message->frames[f]; /* moves the reference */
    }
    return flight;
}

static void flight_free(struct flight *flight) {
    if (flight == NULL) {
        return;
    }
    if (flight->local != NULL) {
        message_close(flight->local);
        free(flight->local);
    }
    for (unsigned f = 0; f < flight->frame_count; f++) {
        buffer_drop(flight->frames[f]);
    }
    free(flight->frames);
    free(flight);
}

static size_t flight_bytes(const struct flight *flight) {
    size_t bytes = flight->head_size + SIM_FRAME_OVERHEAD;
    for (unsigned f = 0; f < flight->frame_count; f++) {
        bytes += flight->frames[f]->size + SIM_FRAME_OVERHEAD;
    }
    return bytes;
}

static struct flight *flight_copy(const struct flight *flight) {
    struct flight *copy = memory_zeroed(1, sizeof *copy + flight->head_size);
    copy->from = flight->from;
    copy->to = flight->to;
    copy->lane = flight->lane;
    copy->head_size = flight->head_size;
    memcpy(copy->head, flight->head, flight->head_size);
    copy->frame_count = flight->frame_count;
    copy->frames = flight->frame_count > 0 ? memory_zeroed(flight->frame_count, sizeof *copy->frames) : NULL;
    for (unsigned f = 0; f < flight->frame_count; f++) {
        copy->frames[f] = buffer_hold(flight->frames[f]);
    }
    return copy;
}

static void lane_append(struct lane *lane, struct flight *flight) {
    flight->queued = true;
    flight->previous = lane->last;
    *(lane->last != NULL ? &lane->last->next : &lane->first) = flight;
    lane->last = flight;
}

static void lane_take(struct lane *lane, struct flight *flight) {
    if (!flight->queued) {
        return;
    }
    *(flight->previous != NULL ? &flight->previous->next : &lane->first) = flight->next;
    *(flight->next != NULL ? &flight->next->previous : &lane->last) = flight->previous;
    flight->next = flight->previous = NULL;
    flight->queued = false;
}

/* ---- The actors' io ---- */

static struct sim_actor_state *io_actor(struct io *io) {
    return (struct sim_actor_state *)(void *)io;
}

static uint64_t sim_io_now(struct io *io) {
    return io_actor(io)->sim->now_us;
}

static uint64_t sim_io_random(struct io *io) {
    return sim_random(io_actor(io)->sim);
}

static void sim_io_set_timer(struct io *io, uint64_t at_us) {
    struct sim_actor_state *self = io_actor(io);
    struct sim *sim = self->sim;
    if (at_us != 0 && at_us == self->timer_us) {
        return;
    }
    self->timer_us = at_us;
    self->timer_generation++;
    if (at_us != 0) {
        uint64_t from = at_us > sim->now_us ? at_us : sim->now_us;
        event_add(sim, from + random_up_to(sim, SIM_TIMER_LATE_US),
                  (struct event){.kind = EVENT_TIMER,
                                 .node = self->node,
                                 .timer = {.actor = self->index, .generation = self->timer_generation}});
    }
}

static uint64_t lane_key(unsigned from, unsigned to) {
    return (uint64_t)from << 32 | to;
}

static void lane_open(struct sim *sim, unsigned from, unsigned to, bool dialed, uint64_t latency_us) {
    sim->lanes = memory_resized(sim->lanes, sim->lane_count + 1, sizeof *sim->lanes);
    sim->lanes[sim->lane_count] = (struct lane){.from = from, .to = to, .dialed = dialed, .latency_us = latency_us};
    index_map_add(&sim->lane_index, lane_key(from, to), sim->lane_count++);
}

static void sim_io_connect(struct io *io, actor_id actor, const char *endpoint) {
    struct sim_actor_state *self = io_actor(io);
    struct sim *sim = self->sim;
    int64_t other = index_map_find(&sim->actor_index, actor);
    if (other == INDEX_NONE || sim->actors[other]->node == self->node) {
        return;
    }
    unsigned to = (unsigned)other;
    int64_t lane = index_map_find(&sim->lane_index, lane_key(self->index, to));
    bool listens = endpoint != NULL && strcmp(sim->actors[to]->endpoint, endpoint) == 0;
    if (lane != INDEX_NONE) {
        sim->lanes[lane].closed = !listens;
        sim->lanes[index_map_find(&sim->lane_index, lane_key(to, self->index))].closed = !listens;
        return;
    }
    if (!listens) {
        return;
    }
    uint64_t latency = random_magnitude(sim, sim->config.latency_min_us, sim->config.latency_max_us);
    lane_open(sim, self->index, to, true, latency);
    lane_open(sim, to, self->index, false, latency);
}

static void sim_io_admit(struct io *io, const struct wire_node *nodes, size_t count) {
    struct sim_actor_state *self = io_actor(io);
    struct sim_node_state *node = &self->sim->nodes[self->node];
    node->admitted = memory_resized(node->admitted, count + 1, sizeof *node->admitted);
    node->admitted_count = count;
    for (size_t n = 0; n < count; n++) {
        node->admitted[n] = actor_node(nodes[n].actor);
    }
    qsort(node->admitted, count, sizeof *node->admitted, actor_compare);
}

/* Returns the round trip of a connection that may not be established yet. */
static uint64_t dial_us(struct sim *sim) {
    return 2 * random_magnitude(sim, sim->config.latency_min_us, sim->config.latency_max_us);
}

static void sim_io_dial(struct io *io, actor_id actor, const char *endpoint) {
    struct sim_actor_state *self = io_actor(io);
    int64_t other = index_map_find(&self->sim->actor_index, actor);
    if (other != INDEX_NONE && strcmp(self->sim->actors[other]->endpoint, endpoint) == 0) {
        event_add(
            self->sim, self->sim->now_us + dial_us(self->sim),
            (struct event){.kind = EVENT_DIALED,
                           .node = self->node,
                           .peers = {.actor = self->index, .peer = (unsigned)other, .began_us = self->sim->now_us}});
    }
}

/* Reports to the actor at one end of a connection that the connection has ended. */
static void lane_tell(struct sim *sim, const struct lane *lane) {
    const struct sim_actor_state *to = sim->actors[lane->to];
    if (to->actor.broken != NULL && !lane->closed) {
        event_add(
            sim, sim->now_us + lane->latency_us,
            (struct event){.kind = EVENT_BROKEN, .node = to->node, .peers = {.actor = lane->to, .peer = lane->from}});
    }
}

/* Whether the receiver admits the lane's sender, as in a job with a key. The controller admits everybody. A node admits
 * the nodes named by io.admit and those that it has connected to. */
static bool lane_is_admitted(const struct sim *sim, const struct lane *lane) {
    const struct sim_actor_state *to = sim->actors[lane->to];
    const struct sim_node_state *node = &sim->nodes[to->node];
    actor_id wanted = actor_node(sim->actors[lane->from]->id);
    return !sim->config.admission || !lane->dialed || to->id == ACTOR_CONTROLLER ||
           (node->admitted_count > 0 &&
            bsearch(&wanted, node->admitted, node->admitted_count, sizeof wanted, actor_compare) != NULL);
}

/* Returns when the message passes admission. Messages wait until the side that connects is admitted, which establishes
 * the connection. Later, messages are lost as soon as that side is no longer admitted. */
static uint64_t admission_passes_us(struct sim *sim, struct flight *flight) {
    struct lane *lane = &sim->lanes[flight->lane];
    if (lane_is_admitted(sim, lane)) {
        lane->stood = true;
        return sim->now_us;
    }
    flight->waited_us += SIM_ADMISSION_US;
    if (lane->stood || flight->waited_us > SIM_ADMISSION_MAX_US) {
        flight->lost = true;
        return sim->now_us;
    }
    return sim->now_us + SIM_ADMISSION_US;
}

/* Returns when `bytes` sent now reach the receiver's node, after everything that the sender's link already carries. */
static uint64_t arrival_us(struct sim *sim, const struct lane *lane, size_t bytes) {
    struct sim_node_state *from = &sim->nodes[sim->actors[lane->from]->node];
    uint64_t start = sim->now_us > lane->down_until_us ? sim->now_us : lane->down_until_us;
    uint64_t out = from->out_free_us > sim->now_us ? from->out_free_us : sim->now_us;
    out += bytes * UINT64_C(1000000) / from->bytes_per_second;
    from->out_free_us = out;
    uint64_t in = (out > start ? out : start) + lane->latency_us + random_up_to(sim, lane->latency_us / 4);
    if (random_up_to(sim, 999999) < sim->config.tail_per_million) {
        in += random_up_to(sim, sim->config.tail_max_us);
    }
    return in;
}

static void sim_io_send(struct io *io, actor_id to_id, struct message *message) {
    struct sim_actor_state *self = io_actor(io);
    struct sim *sim = self->sim;
    int64_t to = index_map_find(&sim->actor_index, to_id);
    if (to != INDEX_NONE && sim->actors[to]->node == self->node) {
        struct flight *flight = memory_zeroed(1, sizeof *flight);
        flight->from = self->index;
        flight->to = (unsigned)to;
        flight->local = memory_zeroed(1, sizeof *message);
        *flight->local = *message;
        message->frame_count = 0;
        sim->statistics.local++;
        event_add(sim, sim->now_us, (struct event){.kind = EVENT_MESSAGE, .node = self->node, .flight = flight});
        return;
    }
    int64_t found =
        to == INDEX_NONE ? INDEX_NONE : index_map_find(&sim->lane_index, lane_key(self->index, (unsigned)to));
    if (found == INDEX_NONE || sim->lanes[found].closed) {
        sim->statistics.unreachable++;
        message_close(message);
        return;
    }
    struct lane *lane = &sim->lanes[found];
    if (lane->deaf_until_us > sim->now_us || (lane->down_until_us > sim->now_us && !lane->dialed)) {
        sim->statistics.lost++;
        message_close(message);
        return;
    }
    struct flight *flight = flight_new(message, self->index, (unsigned)to);
    message->frame_count = 0;
    flight->lane = (unsigned)found;
    size_t bytes = flight_bytes(flight);
    uint64_t at = arrival_us(sim, lane, bytes);
    lane->last_us = at > lane->last_us ? at : lane->last_us;
    lane_append(lane, flight);
    sim->statistics.messages++;
    sim->statistics.bytes += bytes;
    event_add(sim, lane->last_us,
              (struct event){.kind = EVENT_MESSAGE, .node = sim->actors[to]->node, .flight = flight});
}

/* ---- Life cycle ---- */

struct sim *sim_open(uint64_t seed, const struct sim_config *config) {
    assert(config->nodes >= 1 && config->nodes <= SIM_NODES_MAX && config->bytes_per_second_min >= 1);
    struct sim *sim = memory_zeroed(1, sizeof *sim);
    sim->config = *config;
    sim->random = hash_mix(seed);
    sim->now_us = SIM_START_US;
    sim->nodes = memory_zeroed(config->nodes, sizeof *sim->nodes);
    for (unsigned n = 0; n < config->nodes; n++) {
        sim->nodes[n].bytes_per_second =
            random_magnitude(sim, config->bytes_per_second_min, config->bytes_per_second_max);
    }
    return sim;
}

void sim_close(struct sim *sim) {
    for (size_t e = 0; e < sim->event_count; e++) {
        if (sim->events[e].kind == EVENT_MESSAGE) {
            flight_free(sim->events[e].flight);
        }
    }
    for (unsigned l = 0; l < sim->lane_count; l++) {
        flight_free(sim->lanes[l].delivered);
    }
    for (unsigned a = 0; a < sim->actor_count; a++) {
        free(sim->actors[a]);
    }
    index_map_close(&sim->actor_index);
    index_map_close(&sim->lane_index);
    free(sim->lanes);
    free(sim->actors);
    free(sim->events);
    for (unsigned n = 0; n < sim->config.nodes; n++) {
        free(sim->nodes[n].admitted);
    }
    free(sim->nodes);
    free(sim);
}

void sim_actor(struct sim *sim, unsigned node, actor_id id, const char *endpoint, struct actor actor, struct io **io) {
    assert(node < sim->config.nodes && index_map_find(&sim->actor_index, id) == INDEX_NONE);
    struct sim_actor_state *state = memory_zeroed(1, sizeof *state);
    state->io = (struct io){.now_us = sim_io_now,
                            .random = sim_io_random,
                            .send = sim_io_send,
                            .set_timer = sim_io_set_timer,
                            .connect = sim_io_connect,
                            .admit = sim_io_admit,
                            .dial = sim_io_dial};
    state->sim = sim;
    state->index = sim->actor_count;
    state->node = node;
    state->id = id;
    state->actor = actor;
    snprintf(state->endpoint, sizeof state->endpoint, "%s", endpoint);
    index_map_add(&sim->actor_index, id, sim->actor_count);
    sim->actors = memory_resized(sim->actors, sim->actor_count + 1, sizeof *sim->actors);
    sim->actors[sim->actor_count++] = state;
    *io = &state->io;
}

void sim_schedule(struct sim *sim, unsigned node, uint64_t at_us, void (*function)(void *context), void *context) {
    assert(node < sim->config.nodes);
    event_add(sim, at_us,
              (struct event){.kind = EVENT_CALL, .node = node, .call = {.function = function, .context = context}});
}

uint64_t sim_now(const struct sim *sim) {
    return sim->now_us;
}

const struct sim_statistics *sim_statistics(const struct sim *sim) {
    return &sim->statistics;
}

/* ---- Faults ---- */

static void lane_duplicate(struct sim *sim, const struct flight *flight) {
    sim->statistics.duplicated++;
    event_add(
        sim, sim->now_us + random_up_to(sim, 2 * sim->config.reconnect_max_us),
        (struct event){.kind = EVENT_MESSAGE, .node = sim->actors[flight->to]->node, .flight = flight_copy(flight)});
}

/* Breaks one direction of a connection. Of the messages under way the oldest still arrive, the next were in the
 * kernels' buffers and are lost, and the others wait for the new connection. */
static void lane_break(struct sim *sim, struct lane *lane, uint64_t down_until_us) {
    uint64_t count = 0;
    for (const struct flight *flight = lane->first; flight != NULL; flight = flight->next) {
        count++;
    }
    uint64_t first_lost = random_up_to(sim, count);
    uint64_t first_late = first_lost + random_up_to(sim, count - first_lost);
    uint64_t number = 0;
    for (struct flight *flight = lane->first; flight != NULL; flight = flight->next, number++) {
        if (number >= first_late) {
            flight->not_before_us = down_until_us;
        } else if (number >= first_lost) {
            flight->lost = true;
        }
        if (random_up_to(sim, 99) < SIM_DUPLICATE_PERCENT) {
            lane_duplicate(sim, flight);
        }
    }
    if (lane->delivered != NULL && random_up_to(sim, 99) < SIM_DUPLICATE_PERCENT) {
        lane_duplicate(sim, lane->delivered);
    }
    lane->last_us = 0; /* a new connection does not keep the old one's order */
    lane->down_until_us = down_until_us > lane->down_until_us ? down_until_us : lane->down_until_us;
}

static void break_lanes(struct sim *sim, bool (*chosen)(const struct sim *, unsigned, unsigned, int, int), int node,
                        int other, uint64_t from_us) {
    for (unsigned l = 0; l < sim->lane_count; l++) {
        struct lane *lane = &sim->lanes[l];
        if (!lane->dialed || !chosen(sim, sim->actors[lane->from]->node, sim->actors[lane->to]->node, node, other)) {
            continue;
        }
        uint64_t down_until_us = from_us + random_up_to(sim, sim->config.reconnect_max_us);
        lane_break(sim, lane, down_until_us);
        int64_t back = index_map_find(&sim->lane_index, lane_key(lane->to, lane->from));
        lane_break(sim, &sim->lanes[back], down_until_us);
    }
}

static bool lane_between(const struct sim *sim, unsigned from, unsigned to, int node, int other) {
    (void)sim;
    bool forth = (int)from == node && (other == SIM_ALL_NODES || (int)to == other);
    bool back = (int)to == node && (other == SIM_ALL_NODES || (int)from == other);
    return forth || back;
}

static bool nodes_apart(const struct sim *sim, unsigned a, unsigned b) {
    unsigned char side_a = sim->nodes[a].side;
    unsigned char side_b = sim->nodes[b].side;
    return side_a != side_b && side_a != 0 && side_b != 0;
}

static bool lane_across(const struct sim *sim, unsigned from, unsigned to, int node, int other) {
    (void)node;
    (void)other;
    return nodes_apart(sim, from, to);
}

void sim_break(struct sim *sim, unsigned node, int other) {
    if (sim->config.trace != NULL) {
        fprintf(sim->config.trace, "%12.6f break %u %d\n", (double)sim->now_us / 1e6, node, other);
    }
    break_lanes(sim, lane_between, (int)node, other, sim->now_us);
    for (unsigned l = 0; l < sim->lane_count; l++) {
        const struct lane *lane = &sim->lanes[l];
        if (lane_between(sim, sim->actors[lane->from]->node, sim->actors[lane->to]->node, (int)node, other)) {
            lane_tell(sim, lane);
        }
    }
}

void sim_refuse(struct sim *sim, unsigned node, uint64_t until_us) {
    if (sim->config.trace != NULL) {
        fprintf(sim->config.trace, "%12.6f refuse %u until %.6f\n", (double)sim->now_us / 1e6, node,
                (double)until_us / 1e6);
    }
    sim->nodes[node].refuses_until_us = until_us;
}

uint64_t sim_refuses_until(const struct sim *sim, unsigned node) {
    return sim->nodes[node].refuses_until_us;
}

/* Ends the connection of a process that dies. Of its messages the oldest arrive and the others are lost. Messages to it
 * are lost, too, also for the next process in its place. */
static void lane_end(struct sim *sim, struct lane *lane, bool to_the_dead, uint64_t deaf_until_us) {
    uint64_t count = 0;
    for (const struct flight *flight = lane->first; flight != NULL; flight = flight->next) {
        count++;
    }
    uint64_t first_lost = to_the_dead ? 0 : random_up_to(sim, count);
    uint64_t number = 0;
    for (struct flight *flight = lane->first; flight != NULL; flight = flight->next, number++) {
        flight->lost = flight->lost || number >= first_lost;
    }
    lane->last_us = 0;
    lane->deaf_until_us = deaf_until_us > lane->deaf_until_us ? deaf_until_us : lane->deaf_until_us;
}

void sim_restart(struct sim *sim, unsigned node, uint64_t up_us) {
    if (sim->config.trace != NULL) {
        fprintf(sim->config.trace, "%12.6f restart %u, up at %.6f\n", (double)sim->now_us / 1e6, node,
                (double)up_us / 1e6);
    }
    for (unsigned l = 0; l < sim->lane_count; l++) {
        struct lane *lane = &sim->lanes[l];
        if (lane->dialed && sim->actors[lane->to]->node == node) {
            uint64_t deaf_until_us = up_us + random_up_to(sim, IO_RECONNECT_US);
            lane_end(sim, lane, true, deaf_until_us);
            struct lane *back = &sim->lanes[index_map_find(&sim->lane_index, lane_key(lane->to, lane->from))];
            lane_end(sim, back, false, deaf_until_us);
            lane_tell(sim, back);
        }
    }
}

void sim_pause(struct sim *sim, unsigned node, uint64_t until_us) {
    if (sim->config.trace != NULL) {
        fprintf(sim->config.trace, "%12.6f pause %u until %.6f\n", (double)sim->now_us / 1e6, node,
                (double)until_us / 1e6);
    }
    if (until_us > sim->nodes[node].paused_until_us) {
        sim->nodes[node].paused_until_us = until_us;
    }
}

void sim_separate(struct sim *sim, const unsigned char *sides, uint64_t until_us) {
    bool broken = until_us > sim->now_us + sim->config.hold_max_us;
    for (unsigned n = 0; n < sim->config.nodes; n++) {
        sim->nodes[n].side = sides[n];
    }
    if (sim->config.trace != NULL) {
        fprintf(sim->config.trace, "%12.6f separate until %.6f%s\n", (double)sim->now_us / 1e6, (double)until_us / 1e6,
                broken ? ", connections break" : "");
    }
    if (broken) {
        break_lanes(sim, lane_across, 0, 0, until_us);
    }
    sim->separated_until_us = until_us;
}

void sim_remove(struct sim *sim, unsigned node) {
    if (sim->config.trace != NULL && !sim->nodes[node].removed) {
        fprintf(sim->config.trace, "%12.6f remove %u\n", (double)sim->now_us / 1e6, node);
    }
    sim->nodes[node].removed = true;
}

void sim_end(struct sim *sim, unsigned node) {
    bool there = !sim->nodes[node].removed;
    sim_remove(sim, node);
    sim->nodes[node].refuses = true;
    for (unsigned l = 0; there && l < sim->lane_count; l++) {
        const struct lane *lane = &sim->lanes[l];
        if (sim->actors[lane->from]->node == node) {
            lane_tell(sim, lane);
        }
    }
}

/* ---- Events ---- */

static void trace_mix(struct sim *sim, uint64_t value) {
    sim->statistics.trace = hash_mix(sim->statistics.trace ^ value);
}

#define LLU(number) ((unsigned long long)(number))

static void trace_placement(FILE *trace, const struct message *message) {
    struct plan_view plan = plan_open(message);
    for (uint32_t p = 0; p < plan.terms.partitions; p++) {
        const struct wire_placement *place = &plan.placement[p];
        fprintf(trace, "\n%12s partition %u: %llx/%llx", "", p, LLU(place->server), LLU(place->backup));
        if (place->server != place->next_server || place->backup != place->next_backup) {
            fprintf(trace, " then %llx/%llx", LLU(place->next_server), LLU(place->next_backup));
        }
    }
    plan_close(&plan);
}

static void trace_message(struct sim *sim, const struct flight *flight, const struct message *message) {
    trace_mix(sim, lane_key(flight->from, flight->to));
    for (size_t at = 0; at < flight->head_size; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        size_t left = flight->head_size - at;
        memcpy(&word, flight->head + at, left < sizeof word ? left : sizeof word);
        trace_mix(sim, word);
    }
    trace_mix(sim, (uint64_t)message->type << 32 | message->frame_count);
    for (unsigned f = 0; f < message->frame_count; f++) {
        trace_mix(sim, hash_bytes(message->frames[f]->data, message->frames[f]->size, f));
    }
    if (sim->config.trace == NULL) {
        return;
    }
    const struct sim_actor_state *from = sim->actors[flight->from];
    const struct sim_actor_state *to = sim->actors[flight->to];
    fprintf(sim->config.trace, "%12.6f %u.%u -> %u.%u ", (double)sim->now_us / 1e6, from->node, actor_part(from->id),
            to->node, actor_part(to->id));
    message_print(sim->config.trace, message);
    if (message->type == MESSAGE_PLAN) {
        trace_placement(sim->config.trace, message);
    }
    fputc('\n', sim->config.trace);
}

/* Returns when a message that has reached the receiver's node has passed this node's link. */
static uint64_t link_passes_us(struct sim *sim, struct flight *flight) {
    struct sim_node_state *to = &sim->nodes[sim->actors[flight->to]->node];
    if (flight->at_link) {
        return sim->now_us;
    }
    flight->at_link = true;
    uint64_t start = to->in_free_us > sim->now_us ? to->in_free_us : sim->now_us;
    to->in_free_us = start + flight_bytes(flight) * UINT64_C(1000000) / to->bytes_per_second;
    return to->in_free_us;
}

/* Returns when the receiver's processor handles a message that has passed the link. */
static uint64_t processor_passes_us(struct sim *sim, struct flight *flight) {
    struct sim_node_state *to = &sim->nodes[sim->actors[flight->to]->node];
    if (flight->at_processor || sim->config.message_us == 0) {
        return sim->now_us;
    }
    flight->at_processor = true;
    uint64_t start = to->busy_until_us > sim->now_us ? to->busy_until_us : sim->now_us;
    to->busy_until_us =
        start + sim->config.message_us + flight_bytes(flight) * sim->config.megabyte_us / (UINT64_C(1) << 20);
    return start;
}

/* Returns when a message that has arrived may be received: now, or later if the network is separated. */
static uint64_t flight_passes_us(const struct sim *sim, const struct flight *flight) {
    uint64_t at = flight->not_before_us;
    if (nodes_apart(sim, sim->actors[flight->from]->node, sim->actors[flight->to]->node)) {
        /* TCP's next attempt succeeds a little after the network is whole, at a different time on each connection. */
        uint64_t heals = sim->separated_until_us +
                         hash_mix(sim->separated_until_us ^ flight->lane) % (sim->config.reconnect_max_us + 1);
        at = sim->now_us < heals && heals > at ? heals : at;
    }
    return at;
}

static void deliver(struct sim *sim, struct flight *flight) {
    struct sim_actor_state *to = sim->actors[flight->to];
    struct message message;
    if (flight->local != NULL) {
        trace_message(sim, flight, flight->local);
        to->actor.receive(to->actor.self, sim->actors[flight->from]->id, flight->local);
        flight_free(flight);
        return;
    }
    memset(&message, 0xA5, sizeof message); /* fields that were not sent must not be used */
    message.frame_count = flight->frame_count;
    for (unsigned f = 0; f < flight->frame_count; f++) {
        message.frames[f] = buffer_hold(flight->frames[f]);
    }
    struct error error = {0};
    if (message_decode_head(&message, flight->head, flight->head_size, &error) != 0) {
        sim->statistics.refused++;
        if (sim->config.trace != NULL) {
            fprintf(sim->config.trace, "%12.6f refused: %s\n", (double)sim->now_us / 1e6, error.text);
        }
    } else {
        trace_message(sim, flight, &message);
        to->actor.receive(to->actor.self, sim->actors[flight->from]->id, &message);
    }
    message_close(&message);
    struct lane *lane = &sim->lanes[flight->lane];
    flight_free(lane->delivered);
    lane->delivered = flight;
}

static bool execute_broken(struct sim *sim, const struct event *event) {
    struct sim_actor_state *actor = sim->actors[event->peers.actor];
    actor->actor.broken(actor->actor.self, sim->actors[event->peers.peer]->id);
    return true;
}

static bool execute_dialed(struct sim *sim, const struct event *event) {
    struct sim_actor_state *actor = sim->actors[event->peers.actor];
    const struct sim_actor_state *peer = sim->actors[event->peers.peer];
    const struct sim_node_state *node = &sim->nodes[peer->node];
    if (nodes_apart(sim, actor->node, peer->node) || (node->removed && !node->refuses) || actor->actor.dialed == NULL) {
        return false; /* no answer */
    }
    bool listens = !node->removed && sim->now_us >= node->refuses_until_us;
    actor->actor.dialed(actor->actor.self, peer->id, event->peers.began_us, listens);
    return true;
}

/* Executes an event that is due. Returns false when it was put off, replaced or cancelled. */
static bool event_execute(struct sim *sim, struct event event) {
    if (event.kind == EVENT_MESSAGE) {
        struct flight *flight = event.flight;
        bool travels = flight->local == NULL && !flight->lost;
        uint64_t passes_us = travels ? flight_passes_us(sim, flight) : 0;
        if (travels && passes_us <= sim->now_us) {
            passes_us = admission_passes_us(sim, flight);
        }
        if (travels && passes_us <= sim->now_us && !flight->lost) {
            passes_us = link_passes_us(sim, flight);
        }
        if (travels && passes_us <= sim->now_us && !flight->lost) {
            passes_us = processor_passes_us(sim, flight);
        }
        if (passes_us > sim->now_us) {
            event_again(sim, passes_us, event);
            return false;
        }
        if (flight->local == NULL) {
            lane_take(&sim->lanes[flight->lane], flight);
        }
        if (flight->lost) {
            sim->statistics.lost++;
            flight_free(flight);
            return false;
        }
        trace_mix(sim, sim->now_us);
        deliver(sim, flight);
        return true;
    }
    if (event.kind == EVENT_TIMER) {
        struct sim_actor_state *actor = sim->actors[event.timer.actor];
        if (event.timer.generation != actor->timer_generation) {
            return false; /* replaced or cancelled */
        }
        if (sim->nodes[event.node].busy_until_us > sim->now_us && !event.late) {
            event.late = true;
            event_again(sim, sim->nodes[event.node].busy_until_us, event);
            return false;
        }
        actor->timer_us = 0;
        trace_mix(sim, sim->now_us ^ (uint64_t)actor->index << 48);
        actor->actor.timer(actor->actor.self);
        return true;
    }
    trace_mix(sim, sim->now_us ^ (uint64_t)event.node << 32);
    if (event.kind == EVENT_BROKEN) {
        return execute_broken(sim, &event);
    }
    if (event.kind == EVENT_DIALED) {
        return execute_dialed(sim, &event);
    }
    event.call.function(event.call.context);
    return true;
}

bool sim_step(struct sim *sim) {
    while (sim->event_count > 0) {
        struct event event = heap_pop(sim);
        assert(event.at_us >= sim->now_us);
        sim->now_us = event.at_us;
        const struct sim_node_state *node = &sim->nodes[event.node];
        if (node->removed) {
            if (event.kind == EVENT_MESSAGE) {
                if (event.flight->local == NULL) {
                    lane_take(&sim->lanes[event.flight->lane], event.flight);
                }
                flight_free(event.flight);
            }
            continue;
        }
        if (node->paused_until_us > sim->now_us) {
            event_again(sim, node->paused_until_us, event);
            continue;
        }
        if (event_execute(sim, event)) {
            sim->statistics.events++;
            return true;
        }
    }
    return false;
}
