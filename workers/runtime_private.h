/* What the parts of a process share: runtime.c (the main thread's life), runtime_commands.c (the pool), runtime_rows.c
 * (other threads' requests to the main thread), runtime_notes.c (what the app says), runtime_done.c, runtime_loader.c,
 * runtime_stages.c, server_thread.c. */
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

/* Gives the node what the app has said. Under the lock, in the main thread. */
void runtime_notes_give(struct runtime *runtime);

/* The main thread enters and leaves the node. The node learns what the app has said before it learns that the app is
 * through. Leaving wakes the threads that wait for an answer. */
static inline void runtime_enter(struct runtime *runtime) {
    pthread_mutex_lock(&runtime->lock);
    if (runtime->asked.notes.waiting > 0) {
        runtime_notes_give(runtime);
    }
}

static inline void runtime_leave(struct runtime *runtime) {
    if (runtime->asked.waiting > 0) {
        pthread_cond_broadcast(&runtime->asked.answered);
    }
    pthread_mutex_unlock(&runtime->lock);
}

/* ---- runtime.c ---- */

/* Keeps the first failure of the process, and stops further calls of the app. Any thread, without the lock. */
void runtime_fail(struct runtime *runtime, int code, const char *text);
/* Ends the node with that error. What a feeder can't read on its machine is AML_ELIMIT to the others, which need no
 * feeder; a stage that fails at it fails anywhere. In the main thread. */
void runtime_fail_node(struct runtime *runtime);
/* The job's last clock; while it is unknown, the last clock that this node has flushed. */
uint64_t runtime_last_clock(const struct node *node);
/* Logs a warning of the network layer. Any thread. */
void runtime_warning(void *self, const char *text);

/* ---- runtime_commands.c ---- */

/* Checks the result of one of the app's functions. A negative result fails the process, with the app's own text if it
 * called aml_error. Returns 0 or a negative code. */
int runtime_function_done(struct aml_worker *worker, int result, const char *function);
/* Runs a thread's part of a command (pool.run). */
void runtime_command_run(void *context, unsigned thread, int command);
/* Handles the end of a command in the last thread that ends it, which borrows the main thread's loop
 * (pool.handle_end). Returns false if the main thread does not sleep. */
bool runtime_handle_command_end(void *context);
/* Handles the end of a command in the main thread, when pool.done is readable. */
void runtime_commands_done(void *context);
/* The node's hooks; under the lock. */
void runtime_hook_compute(void *context, unsigned set, uint64_t clock);
void runtime_hook_compute_lots(void *context, unsigned set, uint64_t clock);
void runtime_hook_gather(void *context);
void runtime_hook_help(void *context, unsigned set, uint64_t clock);
void runtime_hook_evaluate(void *context, unsigned set, uint64_t clock, bool again);
void runtime_hook_save(void *context);
void runtime_hook_unsave(void *context);

/* ---- runtime_done.c ---- */

void runtime_done_open(struct runtime *runtime);
void runtime_done_close(struct runtime *runtime);
/* Before a command, in the main thread; `own_clock`: it works on a whole clock. */
void runtime_done_begin(struct runtime *runtime, bool own_clock);
/* After the app's functions: AML_EINPUT when a row of the partition was updated after it had been declared done. Any
 * thread, before client_gather. */
int runtime_done_check(const struct runtime *runtime, uint32_t partition, struct error *error);

/* ---- runtime_rows.c ---- */

/* Whether `more` rows fit without moving rows in memory. In a replicated table: whether all its rows fit. */
bool runtime_rows_fit(const struct cache_table *rows, uint64_t more);
/* The room to request when `more` rows must fit: at least twice the present room, so that requests are rare. */
uint64_t runtime_room_wanted(const struct cache_table *rows, uint64_t more);
/* The room for rows that no item names: the app may use them by key, in the middle of a clock. */
uint64_t runtime_room_for_others(const struct cache_table *rows);
/* Sends the SCAN that a thread has requested; under the lock. */
void runtime_send_scan(struct runtime *runtime);
/* Takes ROWS, the server's answer to SCAN (client.rows). */
void runtime_take_rows(void *context, const struct message *message);

/* ---- runtime_loader.c ---- */

/* Prepares a set, in the loader's thread (pool.run). */
void runtime_loader_run(void *context, unsigned thread, int command);
/* Reports the prepared set to the node, in the main thread, when the loader's pool.done is readable. */
void runtime_loader_done(void *context);
/* The node's hooks; under the lock. */
uint32_t runtime_hook_lacks(void *context, const struct node_set *wanted, uint32_t *lacking);
bool runtime_hook_has(void *context, uint32_t shard);
struct buffer *runtime_hook_pack(void *context, uint32_t shard);
bool runtime_hook_unpack(void *context, uint32_t shard, const unsigned char *bytes, size_t size);
void runtime_hook_read_part(void *context, uint32_t index, uint32_t count);
uint32_t runtime_hook_lacks_pieces(void *context, const struct node_set *wanted, uint32_t part, uint32_t *lacking);
struct buffer *runtime_hook_pack_pieces(void *context, const uint32_t *shards, uint32_t count, size_t limit);
bool runtime_hook_take_pieces(void *context, uint32_t part, const uint32_t *shards, uint32_t count,
                              const unsigned char *bytes, size_t size);
void runtime_hook_settle(void *context);
void runtime_hook_prepare(void *context, const struct node_set *wanted);
void runtime_hook_release(void *context, unsigned number);
/* How the items of every set of this process are dealt. */
struct data_dealing runtime_dealing(const struct runtime *runtime);
struct runtime_set *runtime_set_find(const struct runtime *runtime, unsigned number);
/* Makes the room that the loader waits for, unless the pool works on rows, which must not move then. Under the lock. */
void runtime_grow_cache(struct runtime *runtime);
/* Frees the sets, the data and the input's files. No thread may be at work. */
void runtime_loader_close(struct runtime *runtime);

/* ---- runtime_stages.c ---- */

/* Finds the app's stages; before the pool runs. */
void runtime_stages_open(struct runtime *runtime);
/* Makes room for the outputs of the command's clock, or of its test items; in the main thread, before it begins. */
void runtime_stages_begin(struct runtime *runtime);
void runtime_stages_begin_tests(struct runtime *runtime);
/* Return what the stages make of items of the command's set: `count` outputs, until the next command. Without stages
 * the items themselves. In the call's thread; if it leads, the other threads help. */
const void *runtime_stage_items(struct aml_worker *worker, const void *items, size_t count);
const void *runtime_stage_tests(struct aml_worker *worker, const void *items, size_t count);
/* Drops the outputs, as their set goes. */
void runtime_stages_forget(struct runtime *runtime);
void runtime_stages_close(struct runtime *runtime);
/* Reports to the node what feeders have made of the clock that was computed, and how long the rest took. */
void runtime_stages_report(struct runtime *runtime);

/* Begin to make batches, in the main thread (false: their items are not in memory); make them, in the first
 * `feeding.threads` threads of the pool; and return them, for the caller to drop their bytes. */
bool runtime_feeding_begin(struct runtime *runtime, uint64_t clock, unsigned stages, const uint32_t *shards,
                           unsigned count);
void runtime_feeding_run(struct aml_worker *worker);
struct feed_made runtime_feeding_end(struct runtime *runtime);

/* The node's hooks; under the lock. */
unsigned runtime_hook_feeds(void *context);
unsigned runtime_hook_feed_stages(void *context);
bool runtime_hook_feed_make(void *context, unsigned set, uint64_t clock, unsigned stages, const uint32_t *shards,
                            unsigned count);
bool runtime_hook_feed_take(void *context, unsigned set, uint32_t shard, uint64_t clock, unsigned stages,
                            const void *bytes, size_t size, bool own);
void runtime_hook_feed_drop(void *context, uint64_t clock_below);

/* ---- pulse_thread.c ---- */

/* Opens the pulse with its thread; thread->endpoint is then where it listens. */
int pulse_thread_open(struct pulse_thread *thread, struct runtime *runtime, struct error *error);
void pulse_thread_end(struct pulse_thread *thread);

/* ---- server_thread.c ---- */

int server_thread_open(struct server_thread *thread, struct runtime *runtime, unsigned part, struct error *error);
/* Ends the thread. False when its writer is still at work, and so still uses the partitions. */
bool server_thread_end(struct server_thread *thread);

#endif
