/* What the parts of a process share: runtime.c (the main thread's life), runtime_commands.c (the pool), runtime_rows.c
 * (what other threads ask of the main thread), runtime_loader.c, server_thread.c. */
#ifndef AGILEML_WORKERS_RUNTIME_PRIVATE_H
#define AGILEML_WORKERS_RUNTIME_PRIVATE_H

#include "workers/runtime.h"

#include <errno.h>
#include <unistd.h>

static inline void event_raise(int event) {
    uint64_t one = 1;
    while (write(event, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static inline void event_clear(int event) {
    uint64_t count;
    while (read(event, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

/* The node runs under the lock; whoever waits for an answer looks again afterwards. */
static inline void runtime_enter(struct runtime *runtime) {
    pthread_mutex_lock(&runtime->lock);
}

static inline void runtime_leave(struct runtime *runtime) {
    if (runtime->asked.waiting > 0) {
        pthread_cond_broadcast(&runtime->asked.answered);
    }
    pthread_mutex_unlock(&runtime->lock);
}

/* ---- runtime.c ---- */

/* Keeps the first failure of the process, and has no more of the app called. Any thread, without the lock. */
void runtime_fail(struct runtime *runtime, int code, const char *text);
/* The last clock of the job, when it is known. */
uint64_t runtime_last_clock(const struct node *node);
/* A warning of the network's. Any thread. */
void runtime_warning(void *self, const char *text);

/* ---- runtime_commands.c ---- */

/* One of the app's functions, which may have said more by aml_error, is back with this result. Returns 0 or a negative
 * code. */
int runtime_function_done(struct aml_worker *worker, int result, const char *function);
/* The pool's functions (pool.h): a thread works on a command; the last one is through; the main thread hears of it. */
void runtime_command_run(void *context, unsigned thread, int command);
bool runtime_command_through(void *context);
void runtime_commands_done(void *context);
/* The node's hooks; under the lock. */
void runtime_hook_compute(void *context, unsigned set, uint64_t clock);
void runtime_hook_evaluate(void *context, unsigned set, uint64_t clock, bool again);
void runtime_hook_save(void *context);
void runtime_hook_unsave(void *context);

/* ---- runtime_rows.c ---- */

/* Whether `more` rows can be added without moving any; in a table that is replicated, whether all can. */
bool runtime_rows_fit(const struct cache_table *rows, uint64_t more);
/* How many rows to make room for when `more` must fit: the double at least, so that it is seldom asked for. */
uint64_t runtime_room_wanted(const struct cache_table *rows, uint64_t more);
/* Beyond the items' rows the app may name others by key, in the middle of a clock. */
uint64_t runtime_room_for_others(const struct cache_table *rows);
/* Sends the SCAN that a thread waits for; under the lock. */
void runtime_send_scan(struct runtime *runtime);
/* The server's answer to it (client.rows). */
void runtime_take_rows(void *context, const struct message *message);

/* ---- runtime_loader.c ---- */

/* The loader's functions (pool.h): its thread prepares a set; the main thread hears of it. */
void runtime_loader_run(void *context, unsigned thread, int command);
void runtime_loader_done(void *context);
/* The node's hooks; under the lock. */
void runtime_hook_prepare(void *context, const struct node_set *wanted);
void runtime_hook_release(void *context, unsigned number);
struct runtime_set *runtime_set_find(const struct runtime *runtime, unsigned number);
/* Makes the room that the loader waits for, when rows may move: nobody works on them. Under the lock. */
void runtime_grow_cache(struct runtime *runtime);
/* Frees the sets and what is known of the input. No thread is at work. */
void runtime_loader_close(struct runtime *runtime);

/* ---- server_thread.c ---- */

int server_thread_open(struct server_thread *thread, struct runtime *runtime, unsigned part, struct error *error);
/* False when its writer is still at work: it uses the partitions. */
bool server_thread_end(struct server_thread *thread);

#endif
