/* The worker threads of a process: they run one command at a time, all of them together, and a descriptor becomes
 * readable when the last one is through, or that one itself sees to what follows. Within a command thread 0 may lead
 * while the others help: it has parts of its work run by all of them. Knows nothing of what a command means. */
#ifndef AGILEML_WORKERS_POOL_H
#define AGILEML_WORKERS_POOL_H

#include "agileml/base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    POOL_THREADS_MAX = 128,
    POOL_SPINS = 2000 /* looks (some ten microseconds) before a thread of the team sleeps; none when processors lack */
};

typedef void pool_part(void *context, unsigned thread, unsigned threads);

/* Thread 0 and its helpers. */
struct pool_team {
    pool_part *part; /* of the call under way; NULL: the helpers are dismissed */
    void *context;
    unsigned spins;
    atomic_uint call;    /* number of the latest call: every helper takes part in each */
    atomic_uint running; /* helpers not through with it */
    unsigned *seen;      /* per thread: the last call it took part in; its own */
    atomic_uint sleepers;
    pthread_mutex_t lock; /* for sleeping only */
    pthread_cond_t changed;
};

struct pool {
    /* Run by every thread (0..threads-1) for each command. */
    void (*run)(void *context, unsigned thread, int command);
    /* Called by the last thread that is through with a command, which may be handed the next one meanwhile; false:
     * `done` is to become readable. NULL or pool_close was called: always. May be set before the first command. */
    bool (*through)(void *context);
    void *context;
    unsigned threads;
    int done;                  /* eventfd: readable when a command is through; read it before the next pool_begin */
    pthread_barrier_t barrier; /* for `run`: all threads */
    struct pool_team team;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    int command;
    atomic_uint generation; /* of the command; read without the lock too, before a thread sleeps */
    unsigned running;       /* threads not through with it */
    bool closing;
    pthread_t *handles;
    unsigned started;
};

/* All signals are blocked in the threads. */
int pool_open(struct pool *pool, unsigned threads, void (*run)(void *context, unsigned thread, int command),
              void *context, struct error *error);
/* Hands out a command; the one before is through. Returns at once. */
void pool_begin(struct pool *pool, int command);

/* For `run`. Every thread but 0 calls pool_help, which runs parts until thread 0, after any number of calls of
 * pool_parallel, calls pool_dismiss. Both return when all threads are through. */
void pool_help(struct pool *pool, unsigned thread);
/* Runs part(context, t, threads) in each thread t at once. */
void pool_parallel(struct pool *pool, pool_part *part, void *context);
void pool_dismiss(struct pool *pool);

/* Ends the threads; false when they have not ended within `timeout_ms`: then they are left as they are. */
bool pool_close(struct pool *pool, unsigned timeout_ms);

#endif
