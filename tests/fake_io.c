#include "tests/fake_io.h"
#include "tests/test.h"

static struct fake_io *of(struct io *io) {
    return (struct fake_io *)(void *)io;
}

static uint64_t fake_now(struct io *io) {
    return of(io)->now_us;
}

static void fake_send(struct io *io, actor_id to, struct message *message) {
    struct fake_io *fake = of(io);
    assert_true(fake->count < FAKE_SENT_MAX);
    fake->sent[fake->count].to = to;
    fake->sent[fake->count++].message = *message;
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

static void fake_admit(struct io *io, const struct wire_node *nodes, size_t count) {}

void fake_io_open(struct fake_io *io) {
    io->io = (struct io){.now_us = fake_now,
                         .send = fake_send,
                         .set_timer = fake_set_timer,
                         .connect = fake_connect,
                         .admit = fake_admit};
    io->now_us = 1000 * 1000;
}

void fake_io_forget(struct fake_io *io) {
    for (unsigned m = 0; m < io->count; m++) {
        message_close(&io->sent[m].message);
    }
    io->count = 0;
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
