/* The loader: reads the input by the app's `read`, and arranges sets of data. See runtime_private.h. */
#include "workers/process/runtime_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/input/source.h"
#include "workers/data/crash.h"
#include "workers/node/parts/node_parts.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const uint32_t WHOLE = UINT32_MAX; /* in place of a part's number */
enum { PIECE_LEAST = 256 };               /* bytes of input that pieces should have: as many as their heads */

/* ---- In the loader's thread ---- */

/* Waits until the main thread has made room for `more` rows. Under the lock, which it releases while it waits. */
static int make_room(struct runtime *runtime, unsigned table, uint64_t more, struct error *error) {
    const struct cache_table *rows = &runtime->node.cache.tables[table];
    while (!runtime_rows_fit(rows, more) && !runtime->stopping) {
        uint64_t wanted = runtime_room_wanted(rows, more);
        if (wanted <= rows->capacity) {
            return error_set(error, AML_ELIMIT, "table %s: more than %u rows on one node", rows->spec->name,
                             rows->capacity);
        }
        runtime->asked.room[table] = wanted;
        runtime->asked.waiting++;
        event_raise(runtime->asked.wake);
        while (runtime->asked.room[table] != 0 && !runtime->stopping) {
            pthread_cond_wait(&runtime->asked.answered, &runtime->lock);
        }
        runtime->asked.waiting--;
        if (rows->capacity < wanted && !runtime->stopping) {
            return error_set(error, AML_ENOMEM, "table %s: no memory for the cache of %llu rows", rows->spec->name,
                             (unsigned long long)wanted);
        }
    }
    return runtime->stopping ? error_set(error, AML_ESTOP, "the job ended while its data was arranged") : 0;
}

/* Finds or makes the slot of a row, and marks the row as in use for the present set. Under both locks. */
static int use_row(struct runtime *runtime, unsigned table, uint64_t key, uint32_t *slot, struct error *error) {
    int64_t found = cache_add_for(&runtime->node.cache, table, key, runtime->loader.preparing->number);
    if (found < 0) {
        return error_set(error, (int)found, "table %s: there is no room for row %llu", runtime->job.tables[table].name,
                         (unsigned long long)key);
    }
    *slot = (uint32_t)found;
    return 0;
}

/* Finds the slots of the rows that items name, and adds the rows that are new (data_rows.slots). */
static int loader_slots(void *context, unsigned table, const uint64_t *keys, uint32_t *slots, size_t count,
                        struct error *error) {
    struct runtime *runtime = context;
    const struct cache *cache = &runtime->node.cache;
    const struct cache_table *rows = &cache->tables[table];
    const uint32_t set = runtime->loader.preparing->number;
    const uint32_t before = runtime->loader.rows_before[table];
    int result = 0;
    for (size_t done = 0; done < count && result == 0;) {
        pthread_mutex_lock(&runtime->lock);
        result = make_room(runtime, table, count - done, error);
        pthread_mutex_unlock(&runtime->lock);
        pthread_rwlock_wrlock(&runtime->lists);
        pthread_mutex_lock(&runtime->lock);
        cache_find_all(cache, table, keys + done, slots + done, count - done);
        for (; done < count && result == 0 && runtime_rows_fit(rows, 1); done++) { /* the room may be used up by now */
            if (slots[done] == CACHE_SLOT_NONE || (slots[done] < before && cache_named(rows)[slots[done]] < set)) {
                result = use_row(runtime, table, keys[done], &slots[done], error);
            }
        }
        pthread_mutex_unlock(&runtime->lock);
        pthread_rwlock_unlock(&runtime->lists);
    }
    return result;
}

/* Adds the replicated tables (aml_table.whole) to the cache, before the first items. */
static int loader_whole(struct runtime *runtime, struct error *error) {
    int result = 0;
    for (unsigned t = 0; t < runtime->job.table_count && result == 0; t++) {
        if (runtime->job.tables[t].whole) {
            uint64_t key = 0;
            uint32_t slot;
            result = loader_slots(runtime, t, &key, &slot, 1, error);
        }
    }
    return result;
}

/* Marks rows whose slots are known as in use for the present set (data_rows.use). */
static void loader_use(void *context, unsigned table, const uint32_t *slots, size_t count) {
    struct runtime *runtime = context;
    pthread_rwlock_wrlock(&runtime->lists);
    pthread_mutex_lock(&runtime->lock);
    for (size_t i = 0; i < count; i++) {
        cache_use(&runtime->node.cache, table, slots[i], runtime->loader.preparing->number);
    }
    pthread_mutex_unlock(&runtime->lock);
    pthread_rwlock_unlock(&runtime->lists);
}

/* The size of a file, or the sum over the files in a folder. */
static uint64_t input_bytes(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) {
        return source_bytes(path); /* an object's size, or 0: the app can't open the path either, and reports that */
    }
    if (!S_ISDIR(status.st_mode)) {
        return (uint64_t)status.st_size;
    }
    uint64_t bytes = 0;
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (fstatat(dirfd(folder), entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode)) {
            bytes += (uint64_t)status.st_size;
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return bytes;
}

/* Adds a file to the list of `read`'s files; a file for which the list has no room is added to the last record. */
static void add_file(struct runtime *runtime, const char *path, struct wire_input_file found) {
    struct runtime_input *input = &runtime->loader.input;
    size_t length = strlen(path);
    if (input->file_count < WIRE_INPUT_FILES_MAX) {
        input->files = memory_resized(input->files, input->file_count + 1U, sizeof *input->files);
        struct wire_input_file *file = &input->files[input->file_count++];
        *file = found;
        size_t cut = length < sizeof file->path ? 0 : length + 1 - sizeof file->path;
        memcpy(file->path, path + cut, length - cut);
    } else {
        struct wire_input_file *last = &input->files[input->file_count - 1];
        input->more++;
        last->bytes += found.bytes;
        last->blocks = hash_pair(last->blocks, found.blocks) | 1;
        last->borders = hash_pair(last->borders, found.borders) | 1;
        snprintf(last->path, sizeof last->path, "%u more files", input->more + 1);
    }
}

void runtime_input_file(struct runtime *runtime, const char *path) {
    uint64_t bytes = input_bytes(path);
    pthread_mutex_lock(&runtime->lock);
    add_file(runtime, path, (struct wire_input_file){.bytes = bytes});
    runtime->loader.input.bytes += bytes;
    pthread_mutex_unlock(&runtime->lock);
}

struct extent_range runtime_input_extents(struct runtime *runtime, const struct extents *extents, uint32_t index,
                                          uint32_t parts) {
    struct input_deal *deal = &runtime->loader.deal;
    if (deal->parts != parts) {
        input_deal_close(deal);
        input_deal_open(deal, parts, (uint64_t)PIECE_LEAST * runtime->data.shard_count);
    }
    input_deal_file(deal, extents);
    struct extent_range part = input_deal_part(deal, index);
    /* An undivided reading needs no samples, as all items are compared. */
    struct input_sample sample = parts > 1 ? input_sample(extents, deal) : (struct input_sample){0};
    uint64_t bytes = extents_bytes(extents, part);
    struct wire_input_file file = {
        .bytes = input_bytes(extents->path), .blocks = sample.blocks, .borders = sample.borders};
    pthread_mutex_lock(&runtime->lock);
    add_file(runtime, extents->path, file);
    runtime->loader.input.bytes += bytes;
    pthread_mutex_unlock(&runtime->lock);
    return part;
}

/* The record of the file that the present reading has come to. */
static unsigned last_file(const struct runtime *runtime) {
    return runtime->loader.input.file_count - 1;
}

void runtime_range_begin(struct runtime *runtime, const struct extents *extents, uint32_t index,
                         struct input_range *range) {
    const struct input_deal *deal = &runtime->loader.deal;
    input_range_begin(range, extents, input_deal_part(deal, index));
    if (runtime->loader.task == LOADER_PART) { /* once in the job, and of each part at one node */
        uint32_t other = (index + 1) % deal->parts;
        input_ranges_note(&runtime->loader.ranges, extents, input_deal_part(deal, other), other, last_file(runtime));
    }
}

void runtime_range_end(struct runtime *runtime, uint32_t index, const struct input_range *range) {
    input_ranges_add(&runtime->loader.ranges, range, index, last_file(runtime));
}

static bool set_is_here(struct runtime *runtime, const struct runtime_set *set) {
    bool here = true;
    for (uint32_t s = 0; s < set->shard_count; s++) {
        here = here && data_has(&runtime->data, set->shards[s]);
    }
    return here;
}

/* Forgets the files of the last reading, since each reading names its own. */
static void forget_files(struct runtime *runtime) {
    free(runtime->loader.input.files);
    runtime->loader.input = (struct runtime_input){0};
    input_deal_close(&runtime->loader.deal);
}

/* Reads one part of a divided input, or (WHOLE) all. */
static int loader_read(struct runtime *runtime, uint32_t part) {
    struct aml_app *app = runtime->app;
    struct aml_worker *reader = &runtime->loader.reader;
    assert(reader->chunk == NULL);
    forget_files(runtime);
    if (part == WHOLE) {
        data_read_begin(&runtime->data);
    } else {
        data_read_part_begin(&runtime->data, part);
        input_ranges_begin(&runtime->loader.ranges, part);
    }
    reader->chunk = data_chunk_open_own(&runtime->data); /* for items that `read` emits itself */
    crash_enter("read", 0);
    check_enter(reader, CALL_READ);
    int result = check_function(reader, app->read(reader, app->context), "read");
    crash_leave();
    for (uint32_t p = 1; part != WHOLE && result >= 0 && p < runtime->loader.deal.parts; p++) {
        if (runtime->loader.deal.bytes[p] == 0) {
            data_part_is_empty(&runtime->data, p);
        }
    }
    data_chunk_close(&runtime->data, reader->chunk);
    reader->chunk = NULL;
    data_read_end(&runtime->data, result >= 0);
    atomic_fetch_add(&runtime->loader.bytes_read, runtime->loader.input.bytes);
    struct error error = {0};
    if (result == 0 && data_failed(&runtime->data, &error)) {
        runtime_fail(runtime, error.code, error.text);
        result = error.code;
    }
    memory_give_back(); /* the buffers of reading and parsing */
    return result;
}

/* Reads what is missing of the set's shards: some parts, or all. */
static int loader_read_missing(struct runtime *runtime, const struct runtime_set *set) {
    uint32_t parts = runtime->data.division.count;
    uint32_t *missing = memory_resized(NULL, parts + 1U, sizeof *missing);
    uint32_t count = data_missing_parts(&runtime->data, set->shards, set->shard_count, missing);
    int result = 0;
    for (uint32_t m = 0; m < count && count <= parts / 2 && result == 0; m++) {
        result = loader_read(runtime, missing[m]);
    }
    free(missing);
    bool here = result == 0 && set_is_here(runtime, set);
    return here || result != 0 ? result : loader_read(runtime, WHOLE);
}

struct data_dealing runtime_dealing(const struct runtime *runtime) {
    return (struct data_dealing){.clocks = runtime_parts(runtime),
                                 .threads = runtime->app->clock_alone ? 1 : runtime->pool.threads,
                                 .lots = runtime->node.options.lots,
                                 .seed = (uint64_t)runtime->options.seed};
}

static void loader_arrange(struct runtime *runtime) {
    struct runtime_set *set = runtime->loader.preparing;
    struct data_rows rows = {.slots = loader_slots, .use = loader_use, .context = runtime};
    struct error error = {0};
    const struct data_dealing dealing = runtime_dealing(runtime);
    pthread_mutex_lock(&runtime->lock);
    for (unsigned t = 0; t < runtime->job.table_count; t++) {
        runtime->loader.rows_before[t] = runtime->node.cache.tables[t].count;
    }
    pthread_mutex_unlock(&runtime->lock);
    bool works = runtime->node.options.registration.tier != TIER_FEEDER; /* a feeder needs no rows */
    int result = works ? loader_whole(runtime, &error) : 0;
    result = result != 0
                 ? result
                 : data_arrange(&runtime->data, set->shards, set->shard_count, &dealing, &rows, &set->items, &error);
    for (unsigned t = 0; t < runtime->job.table_count && result == 0 && works; t++) {
        pthread_mutex_lock(&runtime->lock);
        result = make_room(runtime, t, runtime_room_for_others(&runtime->node.cache.tables[t]), &error);
        pthread_mutex_unlock(&runtime->lock);
    }
    if (result != 0) {
        runtime_fail(runtime, result, error.text);
    }
}

/* Reads the input and arranges the set, at low priority, so that other work on this machine goes first. Runs in a
 * thread of its own, since a lowered priority can't be raised again; the threads that `read` starts inherit it. */
static void *loader_read_main(void *context) {
    struct runtime *runtime = context;
    crash_thread_begin();
    setpriority(PRIO_PROCESS, 0, RUNTIME_READ_NICE); /* in Linux: this thread's */
    if (runtime->loader.task == LOADER_PART) {
        loader_read(runtime, runtime->data.division.index);
    } else if (runtime->loader.task == LOADER_SAMPLE) {
        input_ranges_sample(&runtime->loader.ranges);
    } else if (loader_read_missing(runtime, runtime->loader.preparing) == 0) {
        loader_arrange(runtime);
        memory_give_back(); /* the records that the set has taken over, and the buffers of arranging */
    }
    crash_thread_end();
    return NULL;
}

void runtime_loader_run(void *context, unsigned thread, int command) {
    (void)thread;
    (void)command; /* there is only one of each */
    struct runtime *runtime = context;
    pthread_t reader;
    if (runtime->loader.task == LOADER_SETS && set_is_here(runtime, runtime->loader.preparing)) {
        loader_arrange(runtime);
    } else if (pthread_create(&reader, NULL, loader_read_main, runtime) == 0) {
        pthread_join(reader, NULL);
    } else {
        runtime_fail(runtime, AML_EFAIL, "can't start a thread to read the input");
    }
}

/* ---- In the main thread ---- */

void runtime_grow_cache(struct runtime *runtime) {
    for (unsigned t = 0; t < runtime->job.table_count && !runtime->command.busy; t++) {
        if (runtime->asked.room[t] != 0) {
            cache_reserve(&runtime->node.cache, t, runtime->asked.room[t]); /* the loader checks the result */
            runtime->asked.room[t] = 0;
        }
    }
}

struct runtime_set *runtime_set_find(const struct runtime *runtime, unsigned number) {
    for (unsigned s = 0; s < runtime->loader.set_count; s++) {
        if (runtime->loader.sets[s]->number == number) {
            return runtime->loader.sets[s];
        }
    }
    return NULL;
}

static void set_free(struct runtime *runtime, struct runtime_set *set) {
    data_set_close(&runtime->data, &set->items);
    free(set->shards);
    free(set);
}

/* Frees a set. The records of its shards may be dropped when others need the room. */
static void drop_set(struct runtime *runtime, struct runtime_set *set) {
    unsigned s = 0;
    assert(runtime->command.set != set && runtime->loader.preparing != set);
    while (runtime->loader.sets[s] != set) {
        s++;
        assert(s < runtime->loader.set_count);
    }
    memmove(&runtime->loader.sets[s], &runtime->loader.sets[s + 1],
            (--runtime->loader.set_count - s) * sizeof(struct runtime_set *));
    data_unpin(&runtime->data, set->shards, set->shard_count);
    set_free(runtime, set);
}

/* Starts the loader on the oldest set that is not prepared, if it is idle. */
static void prepare_next(struct runtime *runtime) {
    bool idle = runtime->loader.task == LOADER_SETS;
    for (unsigned s = 0; s < runtime->loader.set_count && idle && runtime->loader.preparing == NULL; s++) {
        if (runtime->loader.sets[s]->asked && !runtime->loader.sets[s]->prepared) {
            runtime->loader.preparing = runtime->loader.sets[s];
            pool_begin(&runtime->loader.pool, 0);
        }
    }
}

/* Reports the input's fingerprint to the node, if it differs from the last one. */
static void tell_input(struct runtime *runtime) {
    struct runtime_input *input = &runtime->loader.input;
    const struct input_ranges *ranges = &runtime->loader.ranges;
    bool news = input_ranges_news(&runtime->loader.ranges);
    if (news) {
        data_input_open(&runtime->data);
    }
    if (data_input_news(&runtime->data) || news) {
        node_read(&runtime->node,
                  buffer_copy(runtime->data.input, runtime->data.shard_count * sizeof *runtime->data.input),
                  runtime->data.own, buffer_copy(input->files, input->file_count * sizeof *input->files),
                  buffer_copy(ranges->at, ranges->count * sizeof *ranges->at));
    }
}

/* Reports to the node that the loader has read this node's part. Before the node gives pieces of the part to others,
 * the controller gets the part's hashes. */
static void part_done(struct runtime *runtime) {
    runtime->loader.task = LOADER_SETS;
    if (runtime->node.ended) {
        return;
    }
    if (runtime->error.code != 0) {
        runtime_fail_node(runtime);
        return;
    }
    if (data_is_divided(&runtime->data)) {
        tell_input(runtime);
        runtime->loader.task = LOADER_SAMPLE;
        pool_begin(&runtime->loader.pool, 0);
    }
    node_part_read(&runtime->node, data_is_divided(&runtime->data));
}

/* The loader has read the other part's sample, which the next INPUT carries. */
static void sample_done(struct runtime *runtime) {
    runtime->loader.task = LOADER_SETS;
    if (!runtime->node.ended) {
        prepare_next(runtime);
    }
}

void runtime_loader_done(void *context) {
    struct runtime *runtime = context;
    struct node *node = &runtime->node;
    event_clear(runtime->loader.pool.done);
    runtime_enter(runtime);
    struct runtime_set *set = runtime->loader.preparing;
    if (runtime->loader.task != LOADER_SETS) {
        (runtime->loader.task == LOADER_PART ? part_done : sample_done)(runtime);
        runtime_leave(runtime);
        return;
    }
    assert(set != NULL && set->asked && !set->prepared);
    runtime->loader.preparing = NULL;
    set->prepared = true;
    if (node->ended) {
        /* the set is not needed */
    } else if (runtime->error.code != 0) {
        runtime_fail_node(runtime);
    } else if (set->released) {
        tell_input(runtime);
        drop_set(runtime, set);
        prepare_next(runtime);
    } else {
        tell_input(runtime); /* before the loader reads again */
        prepare_next(runtime);
        node_prepared(node, set->number, set->items.count, set->items.totals);
    }
    runtime_leave(runtime);
}

/* Returns the process's copy of the set, whose shards are pinned from now on. */
static struct runtime_set *set_of(struct runtime *runtime, const struct node_set *wanted) {
    struct runtime_set *set = runtime_set_find(runtime, wanted->number);
    if (set != NULL) {
        return set;
    }
    set = memory_zeroed(1, sizeof *set);
    *set = (struct runtime_set){.number = wanted->number, .shard_count = wanted->count};
    set->shards = memory_resized(NULL, wanted->count, sizeof *set->shards);
    memcpy(set->shards, wanted->shards, wanted->count * sizeof *set->shards);
    if (runtime->data.shards == NULL) {
        data_open(&runtime->data, runtime->app, runtime->node.plan.terms.shards,
                  (size_t)runtime->options.standby_memory << 20);
        if (runtime->memory.limit > 0) {
            data_limit_memory(&runtime->data, (size_t)((double)runtime->memory.limit * RUNTIME_DATA_SHARE),
                              &runtime->memory.spill.data);
        }
    }
    runtime->loader.sets =
        memory_resized(runtime->loader.sets, runtime->loader.set_count + 1, sizeof(struct runtime_set *));
    runtime->loader.sets[runtime->loader.set_count++] = set;
    data_pin(&runtime->data, set->shards, set->shard_count);
    return set;
}

uint32_t runtime_hook_lacks(void *context, const struct node_set *wanted, uint32_t *lacking) {
    struct runtime *runtime = context;
    const struct runtime_set *set = set_of(runtime, wanted);
    uint32_t count = 0;
    for (uint32_t s = 0; s < set->shard_count; s++) {
        lacking[count] = set->shards[s];
        count += data_has(&runtime->data, set->shards[s]) ? 0 : 1;
    }
    return count;
}

bool runtime_hook_has(void *context, uint32_t shard) {
    struct runtime *runtime = context;
    return runtime->data.shards != NULL && data_has(&runtime->data, shard);
}

static uint64_t key_of_slot(const void *context, unsigned table, uint32_t slot) {
    const struct runtime *runtime = context;
    return cache_key(&runtime->node.cache.tables[table], slot);
}

struct buffer *runtime_hook_pack(void *context, uint32_t shard) {
    struct runtime *runtime = context;
    const struct data_keys keys = {.key = key_of_slot, .context = runtime};
    return runtime->data.shards != NULL ? data_pack(&runtime->data, shard, &keys) : NULL;
}

bool runtime_hook_unpack(void *context, uint32_t shard, const unsigned char *bytes, size_t size) {
    struct runtime *runtime = context;
    return data_unpack(&runtime->data, shard, bytes, size);
}

void runtime_hook_read_part(void *context, uint32_t index, uint32_t count) {
    struct runtime *runtime = context;
    assert(runtime->loader.preparing == NULL && runtime->loader.task == LOADER_SETS);
    data_divide(&runtime->data, count, index);
    runtime->loader.task = LOADER_PART;
    pool_begin(&runtime->loader.pool, 0);
}

uint32_t runtime_hook_lacks_pieces(void *context, const struct node_set *wanted, uint32_t part, uint32_t *lacking) {
    struct runtime *runtime = context;
    return data_lacks_piece(&runtime->data, wanted->shards, wanted->count, part, lacking);
}

struct buffer *runtime_hook_pack_pieces(void *context, const uint32_t *shards, uint32_t count, size_t limit) {
    struct runtime *runtime = context;
    return runtime->data.shards != NULL ? data_pack_pieces(&runtime->data, shards, count, limit) : NULL;
}

bool runtime_hook_take_pieces(void *context, uint32_t part, const uint32_t *shards, uint32_t count,
                              const unsigned char *bytes, size_t size) {
    struct runtime *runtime = context;
    return data_take_pieces(&runtime->data, part, shards, count, bytes, size);
}

void runtime_hook_settle(void *context) {
    struct runtime *runtime = context;
    if (runtime->data.shards != NULL) {
        data_settle(&runtime->data);
    }
}

void runtime_hook_prepare(void *context, const struct node_set *wanted) {
    struct runtime *runtime = context;
    set_of(runtime, wanted)->asked = true;
    prepare_next(runtime);
}

void runtime_loader_release(struct runtime *runtime, unsigned number) {
    struct runtime_set *set = runtime_set_find(runtime, number);
    if (set == runtime->loader.preparing) {
        set->released = true; /* runtime_loader_done drops it */
    } else {
        drop_set(runtime, set);
    }
}

void runtime_loader_close(struct runtime *runtime) {
    for (unsigned set = 0; set < runtime->loader.set_count; set++) {
        set_free(runtime, runtime->loader.sets[set]);
    }
    free(runtime->loader.sets);
    free(runtime->loader.reading);
    input_ranges_close(&runtime->loader.ranges);
    input_deal_close(&runtime->loader.deal);
    data_close(&runtime->data);
    forget_files(runtime);
}
