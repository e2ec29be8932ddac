/* See machine.h. A message first waits for its turn on the sender's link (flows), which sends it in pieces. The
 * simulator delivers the last piece. The message then passes the receiver's link (arriving) and waits for the
 * receiver's thread (received). */
#include "bench/scale/machine.h"

#include "agileml/base/memory.h"
#include "bench/measure.h"

#include <math.h>
#include <stdlib.h>

/* ---- Queues ---- */

static void queue_push(struct passing_queue *queue, struct passing *passing) {
    passing->next = NULL;
    *(queue->last != NULL ? &queue->last->next : &queue->first) = passing;
    queue->last = passing;
}

static struct passing *queue_pop(struct passing_queue *queue) {
    struct passing *passing = queue->first;
    queue->first = passing->next;
    queue->last = queue->first != NULL ? queue->last : NULL;
    return passing;
}

static void queue_close(struct passing_queue *queue) {
    while (queue->first != NULL) {
        struct passing *passing = queue_pop(queue);
        message_close(&passing->message);
        free(passing);
    }
}

/* ---- Costs ---- */

/* A message of rows has a directory, then keys and values for each table. */
static double message_bytes(const struct message *message, const struct machine_costs *costs) {
    bool rows = message->type == MESSAGE_FLUSH || message->type == MESSAGE_PUSH || message->type == MESSAGE_UPDATE ||
                message->type == MESSAGE_ROWS;
    double bytes = MACHINE_HEAD_BYTES;
    for (unsigned f = 0; f < message->frame_count; f++) {
        bool values = rows && f > 0 && f % 2 == 0;
        bytes += (double)message->frames[f]->size * (values ? costs->values_factor : 1);
    }
    return bytes;
}

static double machine_now(const struct machine *machine) {
    return (double)sim_now(machine->machines->sim);
}

static void machine_at(struct machine *machine, double at_us, void (*function)(void *context), void *context) {
    sim_schedule(machine->machines->sim, machine->number, (uint64_t)at_us, function, context);
}

static double link_us(const struct machine *machine, double bytes) {
    return bytes * 1e6 / machine->machines->costs.bytes_per_second;
}

/* Adds the time of a message to the thread's work. Returns when the thread has done it. */
static double part_works(struct part *part, double bytes) {
    const struct machine_costs *costs = &part->machine->machines->costs;
    double us = costs->message_us + bytes * costs->byte_ns / 1e3;
    part->free_us = fmax(part->free_us, machine_now(part->machine)) + us;
    part->busy_us += us;
    return part->free_us;
}

/* ---- The sender's link ---- */

static double piece_of(double left) {
    return left < MACHINE_PIECE_BYTES ? left : MACHINE_PIECE_BYTES;
}

static double last_piece_of(double bytes) {
    double rest = fmod(bytes, MACHINE_PIECE_BYTES);
    return rest > 0 ? rest : MACHINE_PIECE_BYTES;
}

static void link_in(struct machine *machine, double bytes) {
    double us = link_us(machine, bytes);
    machine->in_free_us = fmax(machine->in_free_us, machine_now(machine)) + us;
    machine->in_busy_us += us;
}

/* Handles a piece that is not the last of its message. */
static void piece_arrives(void *context) {
    link_in(context, MACHINE_PIECE_BYTES);
}

static void flow_wait(struct machine *machine, struct flow *flow) {
    flow->next = NULL;
    *(machine->last != NULL ? &machine->last->next : &machine->first) = flow;
    machine->last = flow;
}

/* Sends the next piece of the flow that is next in turn. */
static void link_next(void *context) {
    struct machine *machine = context;
    struct flow *flow = machine->first;
    machine->sending = flow != NULL;
    if (flow == NULL) {
        return;
    }
    machine->first = flow->next;
    machine->last = machine->first != NULL ? machine->last : NULL;
    struct passing *passing = flow->queue.first;
    double piece = piece_of(passing->left);
    double us = link_us(machine, piece);
    passing->left -= piece;
    if (passing->left > 0) {
        machine_at(flow->to, machine_now(machine) + machine->machines->costs.latency_us, piece_arrives, flow->to);
    } else {
        queue_pop(&flow->queue);
        passing->part->network->send(passing->part->network, passing->peer, &passing->message);
        free(passing);
    }
    if (flow->queue.first != NULL) {
        flow_wait(machine, flow);
    }
    machine->out_free_us = fmax(machine->out_free_us, machine_now(machine)) + us;
    machine->out_busy_us += us;
    machine_at(machine, machine->out_free_us, link_next, machine);
}

/* The sending thread's time delays its later work, but not this message, which it sends in pieces. */
static void link_out(struct machine *machine, struct machine *to, struct passing *passing) {
    struct flow **flow = &machine->flows[to->number];
    if (*flow == NULL) {
        *flow = memory_zeroed(1, sizeof **flow);
        (*flow)->to = to;
    }
    if ((*flow)->queue.first == NULL) {
        flow_wait(machine, *flow);
    }
    queue_push(&(*flow)->queue, passing);
    if (!machine->sending) {
        link_next(machine);
    }
}

/* ---- The actor's io ---- */

static struct part *io_part(struct io *io) {
    return (struct part *)(void *)io;
}

static uint64_t part_now(struct io *io) {
    return io_part(io)->network->now_us(io_part(io)->network);
}

static uint64_t part_random(struct io *io) {
    return io_part(io)->network->random(io_part(io)->network);
}

static void part_set_timer(struct io *io, uint64_t at_us) {
    io_part(io)->network->set_timer(io_part(io)->network, at_us);
}

static void part_admit(struct io *io, const struct wire_node *nodes, size_t count) {
    io_part(io)->network->admit(io_part(io)->network, nodes, count);
}

static void part_dial(struct io *io, actor_id actor, const char *endpoint) {
    io_part(io)->network->dial(io_part(io)->network, actor, endpoint);
}

static void part_connect(struct io *io, actor_id actor, const char *endpoint) {
    io_part(io)->network->connect(io_part(io)->network, actor, endpoint);
}

static struct machine *machine_of(const struct machines *machines, actor_id actor) {
    int64_t number = index_map_find(&machines->index, actor_node(actor));
    return number != INDEX_NONE ? &machines->list[number] : NULL;
}

static void send_by(struct part *part, actor_id to, struct message *message) {
    struct machine *other = machine_of(part->machine->machines, to);
    if (other == NULL || other == part->machine) { /* passed by pointer, without a link */
        part->network->send(part->network, to, message);
        return;
    }
    double bytes = message_bytes(message, &part->machine->machines->costs);
    part_works(part, bytes);
    *(message->type == MESSAGE_HEARTBEAT_ACK ? &part->ack_bytes : &part->sent_bytes) += bytes;
    if (to == ACTOR_CONTROLLER || message->type == MESSAGE_PULSE) {
        part->network->send(part->network, to, message);
        return;
    }
    struct passing *passing = memory_zeroed(1, sizeof *passing);
    *passing = (struct passing){.part = part, .peer = to, .bytes = bytes, .left = bytes, .message = *message};
    message->frame_count = 0;
    link_out(part->machine, other, passing);
}

static void part_send(struct io *io, actor_id to, struct message *message) {
    struct part *part = io_part(io);
    double start = part->timed ? measure_thread_cpu() : 0;
    send_by(part, to, message);
    part->send_s += part->timed ? measure_thread_cpu() - start : 0;
}

/* ---- Receiving ---- */

static void part_work(void *context);

static void part_begin(struct part *part) {
    part->working = part->received.first != NULL;
    if (part->working) {
        machine_at(part->machine, part_works(part, part->received.first->bytes), part_work, part);
    }
}

/* The thread has finished a message: passes it to the actor. The actor's own sends then take their time. */
static void part_work(void *context) {
    struct part *part = context;
    struct passing *passing = queue_pop(&part->received);
    part->actor.receive(part->actor.self, passing->peer, &passing->message);
    message_close(&passing->message);
    free(passing);
    part_begin(part);
}

static void part_take(struct passing *passing) {
    struct part *part = passing->part;
    queue_push(&part->received, passing);
    if (!part->working) {
        part_begin(part);
    }
}

/* The oldest arriving message has passed the link. */
static void link_arrived(void *context) {
    part_take(queue_pop(&((struct machine *)context)->arriving));
}

static void part_receive(void *self, actor_id from, struct message *message) {
    struct part *part = self;
    struct machine *machine = part->machine;
    bool local = machine_of(machine->machines, from) == machine;
    struct passing *passing = memory_zeroed(1, sizeof *passing);
    double bytes = local ? 0 : message_bytes(message, &machine->machines->costs);
    *passing = (struct passing){.part = part, .peer = from, .bytes = bytes, .message = *message};
    machine->told_bytes += from == ACTOR_CONTROLLER && message->type != MESSAGE_HEARTBEAT_ACK ? bytes : 0;
    message->frame_count = 0; /* its frames were taken over */
    if (local || from == ACTOR_CONTROLLER || message->type == MESSAGE_PULSE) {
        part_take(passing);
        return;
    }
    link_in(machine, last_piece_of(bytes));
    queue_push(&machine->arriving, passing);
    machine_at(machine, machine->in_free_us, link_arrived, machine);
}

static void part_timer(void *self) {
    struct part *part = self;
    if (part->free_us > machine_now(part->machine)) {
        part->network->set_timer(part->network, (uint64_t)ceil(part->free_us));
        return;
    }
    part->actor.timer(part->actor.self);
}

static void part_broken(void *self, actor_id peer) {
    const struct part *part = self;
    part->actor.broken(part->actor.self, peer);
}

static void part_dialed(void *self, actor_id actor, uint64_t began_us, bool listens) {
    const struct part *part = self;
    part->actor.dialed(part->actor.self, actor, began_us, listens);
}

/* ---- Life cycle ---- */

void machines_open(struct machines *machines, struct sim *sim, unsigned count, const struct machine_costs *costs) {
    *machines = (struct machines){.sim = sim, .costs = *costs, .count = count};
    machines->list = memory_zeroed(count, sizeof *machines->list);
    for (unsigned m = 0; m < count; m++) {
        machines->list[m].machines = machines;
        machines->list[m].number = m;
        machines->list[m].flows = memory_zeroed(count, sizeof(struct flow *));
    }
}

void machines_close(struct machines *machines) {
    for (unsigned m = 0; m < machines->count; m++) {
        struct machine *machine = &machines->list[m];
        for (unsigned o = 0; o < machines->count; o++) {
            if (machine->flows[o] != NULL) {
                queue_close(&machine->flows[o]->queue);
                free(machine->flows[o]);
            }
        }
        free(machine->flows);
        queue_close(&machine->arriving);
        for (struct part *part = machine->parts; part != NULL;) {
            struct part *next = part->next;
            queue_close(&part->received);
            free(part);
            part = next;
        }
    }
    free(machines->list);
    index_map_close(&machines->index);
}

void machine_actor(struct machines *machines, unsigned number, actor_id id, const char *endpoint, struct actor actor,
                   struct io **io) {
    struct machine *machine = &machines->list[number];
    struct part *part = memory_zeroed(1, sizeof *part);
    part->io = (struct io){.now_us = part_now,
                           .random = part_random,
                           .send = part_send,
                           .set_timer = part_set_timer,
                           .connect = part_connect,
                           .admit = part_admit,
                           .dial = part_dial};
    part->machine = machine;
    part->actor = actor;
    part->next = machine->parts;
    machine->parts = part;
    if (index_map_find(&machines->index, actor_node(id)) == INDEX_NONE) {
        index_map_add(&machines->index, actor_node(id), number);
    }
    sim_actor(machines->sim, number, id, endpoint,
              (struct actor){.receive = part_receive,
                             .timer = part_timer,
                             .self = part,
                             .broken = actor.broken != NULL ? part_broken : NULL,
                             .dialed = actor.dialed != NULL ? part_dialed : NULL},
              &part->network);
    *io = &part->io;
}
