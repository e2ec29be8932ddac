/* An io of one actor that records what the actor sends and to whom it connects. The test sets the time and calls the
 * timer. */
#ifndef TESTS_FAKE_IO_H
#define TESTS_FAKE_IO_H

#include "agileml/net/io.h"

enum { FAKE_SENT_MAX = 4096, FAKE_LOG_MAX = 32 };

struct fake_io {
    struct io io;
    uint64_t now_us, timer_us; /* timer_us 0: no timer is set */
    struct {
        actor_id to;
        struct message message;
    } sent[FAKE_SENT_MAX]; /* since the last fake_io_forget */
    unsigned count;
    actor_id connected[FAKE_LOG_MAX], forgotten[FAKE_LOG_MAX]; /* the latest ones: a circular log */
    unsigned connected_count, forgotten_count;
};

/* `io` must be zeros. Time begins at second 1. */
void fake_io_open(struct fake_io *io);
/* Forgets what was sent. Must be called at the end, too. */
void fake_io_forget(struct fake_io *io);
/* Returns how many messages of a type were sent to an actor (ACTOR_NONE: to any actor). *last, unless NULL, becomes the
 * last one. */
unsigned fake_io_sent(const struct fake_io *io, actor_id to, enum message_type type, struct message *last);

#endif
