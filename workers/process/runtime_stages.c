/* The app's stages (agileml.h, struct aml_stage). At the beginning of `clock` or `evaluate`, the pool's threads make
 * here what the function gets of its items. What feeders have made for a coming clock waits here until the clock
 * begins. See runtime_private.h. */
#include "workers/process/runtime_private.h"

#include "agileml/base/clock.h"
#include "agileml/base/hash.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "workers/data/crash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The range of a call's items that one thread makes. */
struct range {
    struct aml_worker *worker; /* the worker of the call; other threads that help have their own */
    uint64_t clock;            /* the clock of that call */
    const char *function;      /* the app's function for which the items are made */
    const struct data_set *set;
    enum aml_item_use use;
    size_t place; /* place of the call's first item in the set */
    unsigned char *outputs;
    struct runtime_staged *staged; /* for training items; NULL: the items are test items */
    size_t first;                  /* index of the call's first item in `staged` */
    size_t count;
    uint64_t iteration; /* 0 for test items */
};

static size_t padded(size_t bytes) {
    return (bytes + 3) / 4 * 4;
}

/* Bytes of the output of the first `count` stages for an item; 0 for no stages. */
static size_t made_size(const struct runtime_stages *stages, unsigned count) {
    return count > 0 ? padded(stages->list[count - 1].bytes) : 0;
}

/* ---- One item ---- */

static uint64_t item_random(const struct runtime *runtime, enum aml_item_use use, uint64_t id, uint64_t iteration) {
    return hash_seeded(hash_seeded((uint64_t)runtime->options.seed + use, id), iteration);
}

static int run_stage(struct aml_worker *worker, const struct aml_stage *stage, uint64_t random, const void *in,
                     void *out) {
    check_enter(worker, (stage->flags & AML_STAGE_STATE) != 0 ? CALL_STAGE_STATE : CALL_STAGE);
    return check_function(worker, stage->run(worker, random, in, out, worker->runtime->app->context), stage->name);
}

/* Runs stages from `first` to `end` on an item. Each stage has random bits of its own. */
static int run_stages(struct aml_worker *worker, unsigned first, unsigned end, bool test, uint64_t random,
                      const void *in, unsigned char *out) {
    const struct runtime_stages *stages = &worker->runtime->stages;
    unsigned char *between = stages->between + 2 * stages->between_size * worker->thread;
    const void *from = in;
    bool measured = !test && random % FEED_CUT_SAMPLED == 0;
    unsigned last = end;
    while (last > first && test && (stages->list[last - 1].flags & AML_STAGE_TRAIN) != 0) {
        last--;
    }
    int result = 0;
    for (unsigned s = first; s < last && result == 0; s++) {
        if (test && (stages->list[s].flags & AML_STAGE_TRAIN) != 0) {
            continue;
        }
        unsigned char *to = s + 1 == last ? out : between + (s % 2) * stages->between_size;
        double begin = measured ? clock_seconds(CLOCK_MONOTONIC) : 0;
        result = run_stage(worker, &stages->list[s], hash_seeded(random, s), from, to);
        if (measured) {
            feed_cut_measure(&worker->runtime->stages.cut, s, clock_seconds(CLOCK_MONOTONIC) - begin);
        }
        from = to;
    }
    if (last == first && result == 0) {
        memcpy(out, in, padded(first > 0 ? stages->list[first - 1].bytes : worker->runtime->data.item_size));
    }
    return result;
}

/* ---- The items of a call ---- */

/* The random bits of the call's item `i`. */
static uint64_t range_random(const struct aml_worker *worker, const struct range *range, size_t i) {
    return item_random(worker->runtime, range->use, range->set->ids[range->use][range->place + i], range->iteration);
}

/* Runs the stages of batches on a training item, unless a feeder has done so. */
static int make_first(struct aml_worker *worker, const struct range *range, size_t i) {
    const struct runtime_stages *stages = &worker->runtime->stages;
    struct runtime_staged *staged = range->staged;
    size_t number = range->first + i;
    if (staged->here[number] != 0) {
        return 0;
    }
    staged->here[number] = 1;
    return run_stages(worker, 0, staged->stages, false, range_random(worker, range, i),
                      data_item(range->set, AML_TRAIN, range->place + i),
                      staged->made + number * made_size(stages, staged->stages));
}

/* Runs the other stages on the training item. */
static int make_rest(struct aml_worker *worker, const struct range *range, size_t i) {
    const struct runtime_stages *stages = &worker->runtime->stages;
    const struct runtime_staged *staged = range->staged;
    const void *in = staged->stages > 0 ? staged->made + (range->first + i) * made_size(stages, staged->stages)
                                        : data_item(range->set, AML_TRAIN, range->place + i);
    return run_stages(worker, staged->stages, stages->count, false, range_random(worker, range, i), in,
                      range->outputs + i * stages->out_size);
}

static int make_test(struct aml_worker *worker, const struct range *range, size_t i) {
    const struct runtime_stages *stages = &worker->runtime->stages;
    return run_stages(worker, 0, stages->count, true, range_random(worker, range, i),
                      data_item(range->set, AML_TEST, range->place + i), range->outputs + i * stages->out_size);
}

/* Runs `make` for the items of a range. */
static void make_each(struct aml_worker *worker, const struct range *range, size_t first, size_t end,
                      int (*make)(struct aml_worker *worker, const struct range *range, size_t i)) {
    int result = 0;
    for (size_t i = first; i < end && result == 0 && !runtime_failed(worker->runtime); i++) {
        result = make(worker, range, i);
    }
}

/* Runs the stages of batches on the items that no feeder has made, and measures the time. */
static void make_lacking(struct aml_worker *worker, const struct range *range, size_t first, size_t end) {
    struct runtime_stages *stages = &worker->runtime->stages;
    uint64_t start_us = monotonic_us();
    size_t items = 0;
    for (size_t i = first; i < end; i++) {
        items += range->staged->here[range->first + i] == 0 ? 1 : 0;
    }
    make_each(worker, range, first, end, make_first);
    if (items > 0) {
        atomic_fetch_add(&stages->made_items, items);
        atomic_fetch_add(&stages->made_us, monotonic_us() - start_us);
    }
}

static void make_range(struct aml_worker *worker, const struct range *range, size_t first, size_t end) {
    const struct runtime_staged *staged = range->staged;
    crash_enter("stage", worker->clock);
    if (staged == NULL) {
        make_each(worker, range, first, end, make_test);
    } else {
        if (staged->stages > 0) {
            make_lacking(worker, range, first, end);
        }
        if (staged->stages < worker->runtime->stages.count) {
            make_each(worker, range, first, end, make_rest);
        }
    }
    crash_enter(range->function, worker->clock);
}

static void make_part(void *context, unsigned thread, unsigned threads) {
    const struct range *range = context;
    struct aml_worker *worker = &range->worker->runtime->workers[thread];
    if (thread > 0) { /* thread 0 leads, and its worker has the clock already */
        worker->clock = range->clock;
    }
    make_range(worker, range, range->count * thread / threads, range->count * (thread + 1) / threads);
}

/* Makes all items of a call: this thread alone or, if it leads, all threads. */
static void make_all(struct range *range) {
    if (range->worker->leads) {
        pool_parallel(&range->worker->runtime->pool, make_part, range);
    } else {
        make_range(range->worker, range, 0, range->count);
    }
}

const void *runtime_stage_items(struct aml_worker *worker, const void *items, size_t count) {
    struct runtime *runtime = worker->runtime;
    struct runtime_stages *stages = &runtime->stages;
    struct runtime_staged *staged = stages->present;
    if (stages->count == 0 || count == 0) {
        return items;
    }
    const struct data_set *set = &runtime->command.set->items;
    size_t place = data_item_place(set, AML_TRAIN, items);
    size_t first = place - staged->first;
    assert(place >= staged->first && first + count <= staged->count);
    unsigned char *outputs = staged->stages == stages->count ? staged->made : stages->outputs;
    struct range range = {.worker = worker,
                          .clock = worker->clock,
                          .function = "clock",
                          .set = set,
                          .use = AML_TRAIN,
                          .place = place,
                          .outputs = outputs + first * stages->out_size,
                          .staged = staged,
                          .first = first,
                          .count = count,
                          .iteration = runtime_iteration(runtime, worker->clock)};
    make_all(&range);
    return range.outputs;
}

const void *runtime_stage_tests(struct aml_worker *worker, const void *items, size_t count) {
    struct runtime *runtime = worker->runtime;
    const struct runtime_stages *stages = &runtime->stages;
    if (stages->count == 0 || count == 0 || stages->train_only) {
        return items;
    }
    const struct data_set *set = &runtime->command.set->items;
    size_t place = data_item_place(set, AML_TEST, items);
    struct range range = {.worker = worker,
                          .clock = worker->clock,
                          .function = "evaluate",
                          .set = set,
                          .use = AML_TEST,
                          .place = place,
                          .outputs = stages->outputs + place * stages->out_size,
                          .count = count};
    make_all(&range);
    return range.outputs;
}

/* ---- In the main thread ---- */

static void staged_free(struct runtime_staged *staged) {
    if (staged != NULL) {
        free(staged->made);
        free(staged->here);
        free(staged);
    }
}

/* Makes room for what the stages make of the items of this clock. */
static struct runtime_staged *staged_open(struct runtime *runtime, const struct runtime_set *set, uint64_t clock,
                                          unsigned part, unsigned stages) {
    struct runtime_staged *staged = memory_zeroed(1, sizeof *staged);
    *staged = (struct runtime_staged){.set = set->number,
                                      .clock = clock,
                                      .part = part,
                                      .stages = stages,
                                      .first = data_part_first(&set->items, part),
                                      .count = data_part_count(&set->items, part)};
    if (stages > 0) {
        staged->made = memory_resized(NULL, staged->count, made_size(&runtime->stages, stages));
        staged->here = memory_zeroed(staged->count + 1, 1);
    }
    return staged;
}

/* Finds what feeders have made for this clock. */
static struct runtime_staged **coming_find(struct runtime *runtime, unsigned set, uint64_t clock) {
    struct runtime_staged **staged = &runtime->stages.coming;
    while (*staged != NULL && ((*staged)->set != set || (*staged)->clock != clock)) {
        staged = &(*staged)->next;
    }
    return staged;
}

static struct runtime_staged *coming_take(struct runtime *runtime, unsigned set, uint64_t clock) {
    struct runtime_staged **place = coming_find(runtime, set, clock);
    struct runtime_staged *staged = *place;
    if (staged != NULL) {
        *place = staged->next;
        staged->next = NULL;
    }
    return staged;
}

static void outputs_room(struct runtime_stages *stages, size_t count) {
    if (stages->outputs_room < count) {
        free(stages->outputs);
        stages->outputs = memory_resized(NULL, count, stages->out_size);
        stages->outputs_room = count;
    }
}

void runtime_stages_begin(struct runtime *runtime) {
    struct runtime_stages *stages = &runtime->stages;
    const struct runtime_command *command = &runtime->command;
    stages->made_items = stages->made_us = 0;
    unsigned part = runtime_command_part(runtime);
    if (stages->count == 0 || (stages->present != NULL && stages->present->set == command->set->number &&
                               stages->present->clock == command->clock && stages->present->part == part)) {
        return; /* a further command for lots of the same clock */
    }
    staged_free(stages->present);
    stages->present = coming_take(runtime, command->set->number, command->clock);
    if (stages->present == NULL) {
        stages->present = staged_open(runtime, command->set, command->clock, part, stages->cut.wanted);
    }
    if (stages->present->stages < stages->count) {
        outputs_room(stages, stages->present->count);
    }
}

void runtime_stages_begin_tests(struct runtime *runtime) {
    struct runtime_stages *stages = &runtime->stages;
    if (stages->count > 0 && !stages->train_only) {
        outputs_room(stages, runtime->command.set->items.test_count);
    }
}

void runtime_stages_forget(struct runtime *runtime, unsigned set) {
    if (runtime->stages.present != NULL && runtime->stages.present->set == set) {
        staged_free(runtime->stages.present);
        runtime->stages.present = NULL;
    }
}

/* ---- Feeders ---- */

unsigned runtime_hook_feeds(void *context) {
    const struct runtime *runtime = context;
    return runtime->options.local_steps > 1 ? 0 : runtime->stages.cut.feedable; /* batches are for clocks of one part */
}

unsigned runtime_hook_feed_stages(void *context) {
    const struct runtime *runtime = context;
    return runtime->stages.cut.wanted;
}

bool runtime_hook_feed_take(void *context, unsigned set_number, uint32_t shard, uint64_t clock, unsigned stages,
                            const void *bytes, size_t size, bool own) {
    struct runtime *runtime = context;
    size_t each = made_size(&runtime->stages, stages);
    const struct runtime_set *set = runtime_set_find(runtime, set_number);
    const struct data_dealing dealing = runtime_dealing(runtime);
    struct data_batch batch;
    if (set == NULL || !set->prepared ||
        !data_batch_open(&runtime->data, shard, &dealing, runtime_part(runtime, clock), &set->items, &batch)) {
        return true; /* the batch is not needed: the clock's items are now at another node, or on disk */
    }
    bool good = size == batch.count * each;
    struct runtime_staged **place = coming_find(runtime, set_number, clock);
    if (good && *place == NULL) {
        /* The stages are the same for all batches of a clock. */
        *place = staged_open(runtime, set, clock, runtime_part(runtime, clock), stages);
    }
    for (uint32_t i = 0; i < batch.count && good; i++) {
        size_t number = batch.places[i] - (*place)->first;
        memcpy((*place)->made + number * each, (const unsigned char *)bytes + i * each, each);
        (*place)->fed += (*place)->here[number] == 0 && !own ? 1 : 0;
        (*place)->here[number] = 1;
    }
    data_batch_close(&batch);
    return good;
}

void runtime_hook_feed_drop(void *context, uint64_t clock_below) {
    struct runtime *runtime = context;
    for (struct runtime_staged **place = &runtime->stages.coming; *place != NULL;) {
        struct runtime_staged *staged = *place;
        if (clock_below == UINT64_MAX || staged->clock < clock_below) {
            *place = staged->next;
            staged_free(staged);
        } else {
            place = &staged->next;
        }
    }
}

static void choose_cut(struct runtime *runtime) {
    struct runtime_stages *stages = &runtime->stages;
    unsigned before = stages->cut.wanted;
    const struct node_feed *feed = node_feed(&runtime->node);
    const struct feed_cut_job job = {.threads = runtime->pool.threads,
                                     .feeder_threads = feed->threads,
                                     .feeders = feed->feeder_count,
                                     .nodes = runtime->command.origins > 0 ? runtime->command.origins : 1};
    feed_cut_choose(&stages->cut, &job);
    if (stages->cut.wanted != before) {
        log_info("feeders run the stages up to '%s' for this node, not up to '%s'",
                 stages->list[stages->cut.wanted - 1].name, stages->list[before - 1].name);
    }
}

void runtime_stages_report(struct runtime *runtime) {
    struct runtime_stages *stages = &runtime->stages;
    const struct runtime_staged *present = stages->present;
    if (present == NULL || present->count == 0) {
        return;
    }
    uint64_t batches = stages->made_items * runtime->command.set->shard_count / present->count;
    choose_cut(runtime);
    node_fed(&runtime->node, present->fed);
    node_feed_made_here(&runtime->node, batches, stages->made_us / runtime->pool.threads);
}

static void feeding_close(struct runtime_feeding *feeding) {
    for (unsigned b = 0; b < feeding->made.count; b++) {
        data_batch_close(&feeding->batches[b]);
    }
    feeding->made.count = 0;
}

static void feeding_drop(struct runtime_feeding *feeding) {
    for (unsigned b = 0; b < feeding->made.count; b++) {
        buffer_drop(feeding->made.bytes[b]);
    }
    feeding_close(feeding);
}

bool runtime_feeding_begin(struct runtime *runtime, uint64_t clock, unsigned stages, const uint32_t *shards,
                           unsigned count) {
    struct runtime_feeding *feeding = &runtime->stages.feeding;
    const struct data_dealing dealing = runtime_dealing(runtime);
    unsigned part = runtime_part(runtime, clock);
    assert(feeding->made.count == 0 && count <= WIRE_FEED_SHARDS_MAX);
    feeding->made = (struct feed_made){.clock = clock};
    feeding->stages = stages;
    feeding->threads = node_feeding_threads(&runtime->node);
    feeding->items = 0;
    feeding->us = 0;
    for (unsigned b = 0; b < count; b++) {
        struct data_batch *batch = &feeding->batches[b];
        if (!data_batch_open(&runtime->data, shards[b], &dealing, part, NULL, batch)) {
            feeding_drop(feeding);
            return false;
        }
        feeding->made.shards[b] = shards[b];
        feeding->made.bytes[b] = buffer_new(batch->count * made_size(&runtime->stages, stages));
        feeding->made.count++;
        feeding->items += batch->count;
    }
    return true;
}

/* Makes the items with these numbers, counted over all batches. */
static void make_batches(struct aml_worker *worker, size_t first, size_t end) {
    struct runtime *runtime = worker->runtime;
    const struct runtime_stages *stages = &runtime->stages;
    const struct runtime_feeding *feeding = &stages->feeding;
    uint64_t iteration = runtime_iteration(runtime, feeding->made.clock);
    size_t each = made_size(stages, feeding->stages);
    size_t before = 0; /* items of earlier batches */
    int result = 0;
    for (unsigned b = 0; b < feeding->made.count && before < end; b++) {
        const struct data_batch *batch = &feeding->batches[b];
        size_t last = end - before < batch->count ? end - before : batch->count;
        for (size_t i = first > before ? first - before : 0; i < last && result == 0; i++) {
            uint64_t id = data_item_id(feeding->made.shards[b], batch->records[i]);
            result = run_stages(worker, 0, feeding->stages, false, item_random(runtime, AML_TRAIN, id, iteration),
                                batch->items[i], feeding->made.bytes[b]->data + i * each);
        }
        before += batch->count;
    }
    if (result != 0) {
        atomic_store(&worker->runtime->stages.feeding.failed, true);
    }
}

void runtime_feeding_run(struct aml_worker *worker) {
    struct runtime_feeding *feeding = &worker->runtime->stages.feeding;
    unsigned threads = feeding->threads;
    uint64_t start_us = monotonic_us();
    worker->clock = feeding->made.clock;
    crash_enter("stage", feeding->made.clock);
    make_batches(worker, feeding->items * worker->thread / threads, feeding->items * (worker->thread + 1) / threads);
    crash_leave();
    atomic_fetch_add(&feeding->us, monotonic_us() - start_us);
}

struct feed_made runtime_feeding_end(struct runtime *runtime) {
    struct runtime_feeding *feeding = &runtime->stages.feeding;
    struct feed_made made = feeding->made;
    made.us = feeding->us / feeding->threads;
    feeding_close(feeding);
    return made;
}

void runtime_stages_open(struct runtime *runtime) {
    struct runtime_stages *stages = &runtime->stages;
    size_t most = 0;
    stages->list = runtime->app->stages;
    stages->train_only = true;
    for (unsigned s = 0; stages->list != NULL && stages->list[s].name != NULL; s++) {
        const struct aml_stage *stage = &stages->list[s];
        stages->count++;
        stages->train_only = stages->train_only && (stage->flags & AML_STAGE_TRAIN) != 0;
        stages->out_size = padded(stage->bytes);
        most = stages->out_size > most ? stages->out_size : most;
    }
    feed_cut_open(&stages->cut, stages->list);
    stages->between_size = (most + 63) / 64 * 64;
    stages->between =
        stages->count > 0 ? memory_zeroed((size_t)runtime->options.threads, 2 * stages->between_size) : NULL;
}

void runtime_stages_close(struct runtime *runtime) {
    staged_free(runtime->stages.present);
    runtime_hook_feed_drop(runtime, UINT64_MAX);
    feeding_drop(&runtime->stages.feeding);
    free(runtime->stages.between);
    free(runtime->stages.outputs);
}
