/* A scripted io, alone or one of several on a network: records what its actor sends and to whom it connects. The test
 * sets the time, calls the timer and delivers messages. Needs no cmocka: fuzz targets use it, too. */
#ifndef TESTS_FAKE_IO_H
#define TESTS_FAKE_IO_H

#include "agileml/net/io.h"

enum { FAKE_LOG_MAX = 32 };

struct fake_sent {
    actor_id from, to;
    struct message message;
};

struct fake_io {
    struct io io;
    actor_id self;             /* sender of what this io sends; ACTOR_NONE: the test does not ask */
    struct fake_io *network;   /* has the clock and the queue: this io, or the one that it joined */
    uint64_t now_us, timer_us; /* timer_us 0: no timer is set */
    bool mute;                 /* drops what is sent */
    struct fake_sent *sent;    /* since the last fake_io_forget, but for what fake_io_next returned */
    unsigned count, capacity;
    actor_id connected[FAKE_LOG_MAX], forgotten[FAKE_LOG_MAX]; /* the latest ones: a circular log */
    unsigned connected_count, forgotten_count;
};

/* `io` must be zeros. Time begins at second 1. */
void fake_io_open(struct fake_io *io);
/* Opens an io whose messages wait in `network`, which has the time for both. */
void fake_io_join(struct fake_io *io, struct fake_io *network, actor_id self);
/* Forgets what was sent. Must be called at the end, too. */
void fake_io_forget(struct fake_io *io);
/* Takes the message that waits longest, which the caller closes. Returns false when none waits. */
bool fake_io_next(struct fake_io *network, struct fake_sent *next);
/* Returns how many messages of a type were sent to an actor (ACTOR_NONE: to any actor). *last, unless NULL, becomes the
 * last one. */
unsigned fake_io_sent(const struct fake_io *io, actor_id to, enum message_type type, struct message *last);

#endif
