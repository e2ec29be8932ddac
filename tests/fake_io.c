#include "tests/fake_io.h"

#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

static struct fake_io *of(struct io *io) {
    return (struct fake_io *)(void *)io;
}

static uint64_t fake_now(struct io *io) {
    return of(io)->network->now_us;
}

static uint64_t fake_random(struct io *io) {
    (void)io;
    return 1;
}

static void fake_send(struct io *io, actor_id to, struct message *message) {
    struct fake_io *fake = of(io)->network;
    if (of(io)->mute) {
        message_close(message);
        return;
    }
    if (fake->count == fake->capacity) {
        fake->capacity = fake->capacity > 0 ? 2 * fake->capacity : 64;
        fake->sent = memory_resized(fake->sent, fake->capacity, sizeof *fake->sent);
    }
    fake->sent[fake->count++] = (struct fake_sent){.from = of(io)->self, .to = to, .message = *message};
}

static void fake_set_timer(struct io *io, uint64_t at_us) {
    of(io)->timer_us = at_us;
}

static void fake_connect(struct io *io, actor_id actor, const char *endpoint) {
    struct fake_io *fake = of(io);
    if (endpoint != NULL) {
        fake->connected[fake->connected_count++ % FAKE_LOG_MAX] = actor;
    } else {
        fake->forgotten[fake->forgotten_count++ % FAKE_LOG_MAX] = actor;
    }
}

static void fake_admit(struct io *io, const struct wire_node *nodes, size_t count) {
    (void)io;
    (void)nodes;
    (void)count;
}

void fake_io_open(struct fake_io *io) {
    io->io = (struct io){.now_us = fake_now,
                         .random = fake_random,
                         .send = fake_send,
                         .set_timer = fake_set_timer,
                         .connect = fake_connect,
                         .admit = fake_admit};
    io->network = io;
    io->now_us = 1000 * 1000;
}

void fake_io_join(struct fake_io *io, struct fake_io *network, actor_id self) {
    fake_io_open(io);
    io->network = network;
    io->self = self;
}

void fake_io_forget(struct fake_io *io) {
    for (unsigned m = 0; m < io->count; m++) {
        message_close(&io->sent[m].message);
    }
    free(io->sent);
    io->sent = NULL;
    io->count = io->capacity = 0;
}

bool fake_io_next(struct fake_io *network, struct fake_sent *next) {
    if (network->count == 0) {
        return false;
    }
    *next = network->sent[0];
    memmove(network->sent, network->sent + 1, --network->count * sizeof *network->sent);
    return true;
}

unsigned fake_io_sent(const struct fake_io *io, actor_id to, enum message_type type, struct message *last) {
    unsigned found = 0;
    for (unsigned m = 0; m < io->count; m++) {
        if (io->sent[m].message.type == type && (to == ACTOR_NONE || io->sent[m].to == to)) {
            found++;
            if (last != NULL) {
                *last = io->sent[m].message;
            }
        }
    }
    return found;
}
