/* The worker threads of a process: they run one command at a time, all of them together, and a descriptor becomes
 * readable when the last one is through. Knows nothing of what a command means. */
#ifndef AGILEML_WORKERS_POOL_H
#define AGILEML_WORKERS_POOL_H

#include "agileml/base/error.h"

#include <pthread.h>
#include <stdbool.h>

enum { POOL_THREADS_MAX = 128 };

struct pool {
    /* Run by every thread (0..threads-1) for each command. */
    void (*run)(void *context, unsigned thread, int command);
    void *context;
    unsigned threads;
    int done;                  /* eventfd: readable when a command is through; read it before the next pool_begin */
    pthread_barrier_t barrier; /* for `run`: all threads */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    int command;
    unsigned generation; /* of the command */
    unsigned running;    /* threads not through with it */
    bool closing;
    pthread_t *handles;
    unsigned started;
};

/* All signals are blocked in the threads. */
int pool_open(struct pool *pool, unsigned threads, void (*run)(void *context, unsigned thread, int command),
              void *context, struct error *error);
/* Hands out a command; the one before is through. Returns at once. */
void pool_begin(struct pool *pool, int command);
/* Ends the threads; false when they have not ended within `timeout_ms`: then they are left as they are. */
bool pool_close(struct pool *pool, unsigned timeout_ms);

#endif
