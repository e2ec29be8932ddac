/* Requests and reports of other threads to the main thread: rows, pieces of a table, room in the cache, failures, and
 * lines that the app says. See runtime_private.h. */
#include "workers/process/runtime_private.h"

#include "agileml/base/clock.h"
#include "agileml/base/hash.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void runtime_wake(struct runtime *runtime) {
    if (runtime->agent != NULL) {
        event_raise(runtime->asked.wake);
    }
}

/* ---- Failures and warnings ---- */

void runtime_fail(struct runtime *runtime, int code, const char *text) {
    pthread_mutex_lock(&runtime->lock);
    error_set(&runtime->error, code, "%s", text);
    pthread_mutex_unlock(&runtime->lock);
    atomic_store_explicit(&runtime->failed, true, memory_order_release);
}

void runtime_fail_node(struct runtime *runtime) {
    struct node *node = &runtime->node;
    int code = runtime->error.code;
    bool feeds = node->options.registration.tier == TIER_FEEDER;
    bool alone = feeds && code == AML_EINPUT && !atomic_load(&runtime->transforms.feeding.failed);
    node_fail(node, alone ? AML_ELIMIT : code, runtime->error.text);
}

void runtime_warning(void *self, const char *text) {
    (void)self;
    log_warn("%s", text);
}

/* ---- Room in the cache ---- */

bool runtime_rows_fit(const struct cache_table *rows, uint64_t more) {
    if (rows->spec->whole) {
        return rows->capacity >= rows->spec->rows;
    }
    return rows->capacity - rows->count >= more || (rows->spec->rows > 0 && rows->capacity >= rows->spec->rows);
}

uint64_t runtime_room_wanted(const struct cache_table *rows, uint64_t more) {
    uint64_t room = rows->spec->whole ? rows->spec->rows : rows->count + more;
    room = room > 2 * (uint64_t)rows->capacity ? room : 2 * (uint64_t)rows->capacity;
    room = rows->spec->rows > 0 && rows->spec->rows < room ? rows->spec->rows : room;
    return room < TABLE_SLOTS_MAX ? room : TABLE_SLOTS_MAX;
}

uint64_t runtime_room_for_others(const struct cache_table *rows) {
    uint64_t dense = rows->spec->rows;
    return dense > 0 && dense < RUNTIME_CACHE_DENSE ? dense - rows->count : RUNTIME_CACHE_SLACK;
}

/* ---- Rows and pieces ---- */

/* Wakes the main thread, and returns when to wake it again. */
static struct timespec ask_main_thread(struct runtime *runtime) {
    event_raise(runtime->asked.wake);
    return clock_after_ms(CLOCK_MONOTONIC, RUNTIME_RETRY_MS);
}

/* Whether a waiting function of the app must return, since no answer will come. */
static bool wait_is_over(const struct runtime *runtime) {
    return runtime->stopping || runtime->finish == FINISH_TO_RETURN;
}

/* Adds a row that is new, or that no item names any more. Returns 0 or a negative code. Under the lock. */
static int add_row(struct runtime *runtime, unsigned table, uint64_t key) {
    struct cache *cache = &runtime->node.cache;
    const struct cache_table *rows = &cache->tables[table];
    int64_t slot = cache_find(cache, table, key);
    if (slot != INDEX_NONE && cache_arrived(rows, (uint32_t)slot)) {
        return 0;
    }
    if (rows->capacity == 0) { /* the process never had items, so there are no rows that could move */
        cache_reserve(cache, table, runtime_room_wanted(rows, runtime_room_for_others(rows)));
    }
    slot = slot != INDEX_NONE || rows->count < rows->capacity ? cache_add(cache, table, key) : AML_ELIMIT;
    if (slot == AML_ELIMIT) {
        error_set(&runtime->error, AML_ELIMIT, "table %s: more than %u rows on one node", rows->spec->name,
                  rows->capacity);
    } else if (slot == AML_ENOMEM) {
        error_set(&runtime->error, AML_ENOMEM, "table %s: no memory for its rows", rows->spec->name);
    }
    return slot < 0 ? (int)slot : 0;
}

/* Returns how many of the first rows of keys[count] have their state. The first `known` rows are known to have it. */
static size_t count_arrived(const struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count,
                            size_t known) {
    const struct cache *cache = &runtime->node.cache;
    while (known < count) {
        int64_t slot = cache_find(cache, table, keys[known]);
        if (slot == INDEX_NONE || !cache_arrived(&cache->tables[table], (uint32_t)slot)) {
            break;
        }
        known++;
    }
    return known;
}

/* Waits until all rows have their state. Under the lock, which it releases while it waits. */
static int await_rows(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count) {
    size_t arrived = count_arrived(runtime, table, keys, count, 0);
    runtime->asked.waiting++;
    while (arrived < count && !wait_is_over(runtime)) {
        runtime->asked.rows = true;
        struct timespec again = ask_main_thread(runtime);
        int waited = 0;
        while (arrived < count && !wait_is_over(runtime) && waited != ETIMEDOUT) {
            waited = pthread_cond_timedwait(&runtime->asked.answered, &runtime->lock, &again);
            arrived = count_arrived(runtime, table, keys, count, arrived);
        }
    }
    runtime->asked.waiting--;
    return arrived == count ? 0 : AML_ESTOP;
}

int runtime_fetch(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count) {
    int result = 0;
    pthread_mutex_lock(&runtime->lock);
    for (size_t i = 0; i < count && result == 0; i++) {
        result = add_row(runtime, table, keys[i]);
    }
    result = result != 0 ? result : await_rows(runtime, table, keys, count);
    pthread_mutex_unlock(&runtime->lock);
    return result;
}

int runtime_scan(struct runtime *runtime, uint32_t partition, uint32_t table, uint64_t cursor, struct message *piece) {
    pthread_mutex_lock(&runtime->lock);
    runtime->asked.scan.partition = partition;
    runtime->asked.scan.table = table;
    runtime->asked.scan.cursor = cursor;
    runtime->asked.scan.arrived = false;
    runtime->asked.waiting++;
    while (!runtime->asked.scan.arrived && !wait_is_over(runtime)) {
        runtime->asked.scan.wanted = true;
        struct timespec again = ask_main_thread(runtime);
        while (!runtime->asked.scan.arrived && !wait_is_over(runtime) &&
               pthread_cond_timedwait(&runtime->asked.answered, &runtime->lock, &again) != ETIMEDOUT) {
        }
    }
    runtime->asked.waiting--;
    int result = AML_ESTOP;
    if (runtime->asked.scan.arrived && !wait_is_over(runtime)) {
        *piece = runtime->asked.scan.piece;
        runtime->asked.scan.piece.frame_count = 0;
        result = 0;
    }
    pthread_mutex_unlock(&runtime->lock);
    return result;
}

void runtime_take_rows(void *context, const struct message *message) {
    struct runtime *runtime = context;
    if (runtime->asked.scan.arrived || message->rows.partition != runtime->asked.scan.partition ||
        message->rows.table != runtime->asked.scan.table || message->rows.cursor != runtime->asked.scan.cursor) {
        return;
    }
    message_close(&runtime->asked.scan.piece); /* an earlier answer that nobody took */
    runtime->asked.scan.piece = message_share(message);
    runtime->asked.scan.arrived = true;
}

void runtime_send_scan(struct runtime *runtime) {
    struct node *node = &runtime->node;
    struct message scan = {.type = MESSAGE_SCAN, .epoch = node->client.epoch};
    scan.scan.partition = runtime->asked.scan.partition;
    scan.scan.table = runtime->asked.scan.table;
    scan.scan.cursor = runtime->asked.scan.cursor;
    scan.scan.min_clock = runtime_last_clock(node);
    actor_id server = client_server(&node->client, scan.scan.partition, scan.scan.min_clock);
    node->io->send(node->io, server, &scan);
}

/* ---- What the app says ---- */

static bool is_known(const struct runtime_notes *notes, uint64_t hash) {
    for (unsigned n = 0; n < notes->count; n++) {
        if (notes->hashes[n] == hash) {
            return true;
        }
    }
    return false;
}

void runtime_note(struct runtime *runtime, const char *text) {
    struct runtime_notes *notes = &runtime->asked.notes;
    uint64_t hash = hash_bytes((const unsigned char *)text, strlen(text), 0);
    pthread_mutex_lock(&runtime->lock);
    bool new = notes->count < NODE_NOTES_MAX && !is_known(notes, hash);
    if (new) {
        notes->hashes[notes->count++] = hash;
        notes->texts[notes->waiting++] = memory_string(text);
    }
    assert(notes->waiting <= notes->count && notes->count <= NODE_NOTES_MAX);
    pthread_mutex_unlock(&runtime->lock);
    if (new) {
        runtime_wake(runtime);
    }
}

void runtime_notes_give(struct runtime *runtime) {
    struct runtime_notes *notes = &runtime->asked.notes;
    for (unsigned n = 0; n < notes->waiting; n++) {
        log_info("note: %s", notes->texts[n]);
        node_note(&runtime->node, notes->texts[n]);
        free(notes->texts[n]);
    }
    notes->waiting = 0;
}

void runtime_notes_close(struct runtime *runtime) {
    for (unsigned n = 0; n < runtime->asked.notes.waiting; n++) {
        free(runtime->asked.notes.texts[n]);
    }
    runtime->asked.notes.waiting = 0;
}
