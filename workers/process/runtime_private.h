/* What the files of a process share. A file calls only those below it:
 *
 *   runtime.c             the main thread's life
 *   threads.c             the threads of servers and the pulse
 *   runtime_commands.c    the pool's commands: the node's hooks begin them, and they call the app's functions
 *   runtime_transforms.c      the app's transforms
 *   runtime_loader.c      the input and sets of data
 *   check.c (check.h)     checks of the app's use of the library
 *   runtime_done.c        rows that are done before the clock ends
 *   runtime_asked.c       requests and reports of other threads to the main thread */
#ifndef AGILEML_WORKERS_RUNTIME_PRIVATE_H
#define AGILEML_WORKERS_RUNTIME_PRIVATE_H

#include "workers/process/runtime.h"

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

/* The job's last clock; while it is unknown, the last clock that this node has flushed. */
static inline uint64_t runtime_last_clock(const struct node *node) {
    return node->final != 0 ? node->final : node->client.flushed;
}

/* Hands the app's notes to the node. Under the lock, in the main thread. */
void runtime_notes_give(struct runtime *runtime);

/* Called when the main thread enters and leaves the node. Entering hands over the app's notes, so the node has them
 * before it learns that the app has finished. Leaving wakes the threads that wait for an answer. */
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

/* ---- runtime_commands.c ---- */

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
void runtime_hook_release(void *context, unsigned number);
void runtime_hook_save(void *context);
void runtime_hook_unsave(void *context);

/* ---- runtime_done.c ---- */

void runtime_done_open(struct runtime *runtime);
void runtime_done_close(struct runtime *runtime);
/* Prepares for a command, in the main thread. `own_clock`: the command works on a whole clock of this node. */
void runtime_done_begin(struct runtime *runtime, bool own_clock);
/* Checks after the app's functions that no row of the partition was updated after it had been declared done. If one
 * was, AML_EINPUT. Any thread, before client_gather. */
int runtime_done_check(const struct runtime *runtime, uint32_t partition, struct error *error);

/* ---- runtime_asked.c ---- */

/* Keeps the first failure of the process, and stops further calls of the app. Any thread, without the lock. */
void runtime_fail(struct runtime *runtime, int code, const char *text);
/* Ends the node with the process's error. AML_EINPUT of a feeder becomes AML_ELIMIT: the feeder could not read its
 * machine's input, and other nodes go on without it. Not if a transform has failed, since that would fail on any node.
 * In the main thread. */
void runtime_fail_node(struct runtime *runtime);
/* Logs a warning of the network layer. Any thread. */
void runtime_warning(void *self, const char *text);
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
/* Releases a set that the node does not need any more. No command may use it. */
void runtime_loader_release(struct runtime *runtime, unsigned number);
/* How the items of every set of this process are dealt. */
struct data_dealing runtime_dealing(const struct runtime *runtime);
struct runtime_set *runtime_set_find(const struct runtime *runtime, unsigned number);
/* Makes the room that the loader waits for, unless the pool works on rows, which must not move then. Under the lock. */
void runtime_grow_cache(struct runtime *runtime);
/* Frees the sets, the data and the input's files. No thread may be at work. */
void runtime_loader_close(struct runtime *runtime);

/* ---- runtime_transforms.c ---- */

/* Finds the app's transforms; before the pool runs. */
void runtime_transforms_open(struct runtime *runtime);
/* Make room for the outputs of the command's clock, or of its test items. In the main thread, before the command
 * begins. */
void runtime_transforms_begin(struct runtime *runtime);
void runtime_transforms_begin_tests(struct runtime *runtime);
/* Return what the transforms make of items of the command's set: `count` outputs, valid until the next command. Without
 * transforms they return the items themselves. In the thread of the call; if that thread leads, the other threads help.
 * */
const void *runtime_transform_items(struct aml_worker *worker, const void *items, size_t count);
const void *runtime_transform_tests(struct aml_worker *worker, const void *items, size_t count);
/* Drops the outputs of a set that is released. */
void runtime_transforms_forget(struct runtime *runtime, unsigned set);
void runtime_transforms_close(struct runtime *runtime);
/* Reports to the node how many items of the computed clock feeders have made, and how long the rest took. */
void runtime_transforms_report(struct runtime *runtime);

/* Three steps of making batches. runtime_feeding_begin, in the main thread, returns false if their items are not in
 * memory. runtime_feeding_run makes the batches in the first `feeding.threads` threads of the pool. runtime_feeding_end
 * returns them; the caller drops their bytes. */
bool runtime_feeding_begin(struct runtime *runtime, uint64_t clock, unsigned transforms, const uint32_t *shards,
                           unsigned count);
void runtime_feeding_run(struct aml_worker *worker);
struct feed_made runtime_feeding_end(struct runtime *runtime);

/* The node's hooks; under the lock. */
unsigned runtime_hook_feeds(void *context);
unsigned runtime_hook_feed_transforms(void *context);
bool runtime_hook_feed_make(void *context, unsigned set, uint64_t clock, unsigned transforms, const uint32_t *shards,
                            unsigned count);
bool runtime_hook_feed_take(void *context, unsigned set, uint32_t shard, uint64_t clock, unsigned transforms,
                            const void *bytes, size_t size, bool own);
void runtime_hook_feed_drop(void *context, uint64_t clock_below);

/* ---- threads.c ---- */

/* Opens the pulse with its thread. thread->endpoint is then the endpoint at which the pulse listens. */
int pulse_thread_open(struct pulse_thread *thread, struct runtime *runtime, struct error *error);
void pulse_thread_end(struct pulse_thread *thread);

int server_thread_open(struct server_thread *thread, struct runtime *runtime, unsigned part, struct error *error);
/* Ends the thread. False when its writer still works, and so still uses the partitions. */
bool server_thread_end(struct server_thread *thread);

#endif
