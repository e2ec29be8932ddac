/* The worker threads of a process. All of them, or only the first ones, run one command at a time together. The thread
 * that finishes a command last handles the result itself, or makes a descriptor readable. In a command of all threads,
 * thread 0 may lead: it then calls functions that all threads run in parallel. The pool does not know what a command
 * means. */
#ifndef AGILEML_WORKERS_POOL_H
#define AGILEML_WORKERS_POOL_H

#include "agileml/base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    POOL_THREADS_MAX = 128,
    POOL_SPINS = 2000 /* how often a thread looks (20 us or so) before it sleeps, if each has a processor */
};

typedef void pool_part(void *context, unsigned thread, unsigned threads);

/* The threads of a command. In pool_parallel and pool_help: thread 0 and its helpers. In pool_meet all threads are
 * equal. */
struct pool_team {
    pool_part *part; /* what the present call runs; NULL: the helpers are dismissed */
    void *context;
    unsigned spins;
    atomic_uint call;    /* number of the latest call; every helper takes part in each call */
    atomic_uint running; /* helpers that have not finished the present call */
    unsigned *seen;      /* by thread, used by that thread alone: the last call that it took part in */
    atomic_uint meeting; /* number of the next meeting */
    atomic_uint met;     /* threads that have come to the next meeting */
    atomic_uint sleepers;
    pthread_mutex_t lock; /* for sleeping only */
    pthread_cond_t changed;
};

struct pool {
    /* Runs a thread's part of a command. Called in each of the command's threads, with the thread's number from 0. */
    void (*run)(void *context, unsigned thread, int command);
    /* Handles the end of a command, in the last thread that finishes it. May call pool_begin. Returns false if it has
     * not handled the end: `done` then becomes readable. Without this function, or after pool_close, `done` always
     * becomes readable. May be set before the first command. */
    bool (*handle_end)(void *context);
    void *context;
    unsigned threads;
    int done; /* eventfd: readable when a command has ended; read it before the next pool_begin */
    struct pool_team team;

    pthread_mutex_t lock;           /* guards the fields below */
    pthread_cond_t changed, parked; /* `parked`: for threads that take no part in the last command */
    int command;
    unsigned active;        /* threads that run the command */
    atomic_uint generation; /* counts commands; also read without the lock, before a thread sleeps */
    unsigned running;       /* threads that have not finished the command */
    bool closing;
    pthread_t *handles;
    unsigned started;
};

/* Starts the threads. They block all signals but those of crashes (crash_signals.h). */
int pool_open(struct pool *pool, unsigned threads, void (*run)(void *context, unsigned thread, int command),
              void *context, struct error *error);
/* Starts a command and returns at once. The command before must have ended. */
void pool_begin(struct pool *pool, int command);
/* pool_begin for the first `threads` threads alone (at least 1). The other threads sleep until a command that they take
 * part in. `run` may not call the functions below in such a command. */
void pool_begin_some(struct pool *pool, int command, unsigned threads);

/* For `run`, in all threads: returns when all threads have called it. */
void pool_meet(struct pool *pool);
/* For `run`, in every thread but 0: takes part in thread 0's calls of pool_parallel, until pool_dismiss. */
void pool_help(struct pool *pool, unsigned thread);
/* For `run`, in thread 0: runs part(context, t, threads) in each thread t at once, and returns when all have
 * finished. */
void pool_parallel(struct pool *pool, pool_part *part, void *context);
/* For `run`, in thread 0: makes pool_help return in the other threads. */
void pool_dismiss(struct pool *pool);

/* Ends the threads. False when they have not ended within `timeout_ms`; the pool is then not freed. */
bool pool_close(struct pool *pool, unsigned timeout_ms);

#endif
