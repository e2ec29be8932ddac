/* The app's transforms (agileml.h, struct aml_transform). At the beginning of `clock` or `evaluate`, the pool's threads
 * make here what the function gets of its items. What feeders have made for a coming clock waits here until the clock
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
    struct runtime_transformed *transformed; /* for training items; NULL: the items are test items */
    size_t first;                            /* index of the call's first item in `transformed` */
    size_t count;
    uint64_t iteration; /* 0 for test items */
};

static size_t padded(size_t bytes) {
    return (bytes + 3) / 4 * 4;
}

/* Bytes of the output of the first `count` transforms for an item; 0 for no transforms. */
static size_t made_size(const struct runtime_transforms *transforms, unsigned count) {
    return count > 0 ? padded(transforms->list[count - 1].bytes) : 0;
}

/* ---- One item ---- */

static uint64_t item_random(const struct runtime *runtime, enum aml_item_use use, uint64_t id, uint64_t iteration) {
    return hash_seeded(hash_seeded((uint64_t)runtime->options.seed + use, id), iteration);
}

static int run_transform(struct aml_worker *worker, const struct aml_transform *transform, uint64_t random,
                         const void *in, void *out) {
    check_enter(worker, (transform->flags & AML_TRANSFORM_STATE) != 0 ? CALL_TRANSFORM_STATE : CALL_TRANSFORM);
    return check_function(worker, transform->run(worker, random, in, out, worker->runtime->app->context),
                          transform->name);
}

/* Runs transforms from `first` to `end` on an item. Each transform has random bits of its own. */
static int run_transforms(struct aml_worker *worker, unsigned first, unsigned end, bool test, uint64_t random,
                          const void *in, unsigned char *out) {
    const struct runtime_transforms *transforms = &worker->runtime->transforms;
    unsigned char *between = transforms->between + 2 * transforms->between_size * worker->thread;
    const void *from = in;
    bool measured = !test && random % FEED_CUT_SAMPLED == 0;
    unsigned last = end;
    while (last > first && test && (transforms->list[last - 1].flags & AML_TRANSFORM_TRAIN) != 0) {
        last--;
    }
    int result = 0;
    for (unsigned s = first; s < last && result == 0; s++) {
        if (test && (transforms->list[s].flags & AML_TRANSFORM_TRAIN) != 0) {
            continue;
        }
        unsigned char *to = s + 1 == last ? out : between + (s % 2) * transforms->between_size;
        double begin = measured ? clock_seconds(CLOCK_MONOTONIC) : 0;
        result = run_transform(worker, &transforms->list[s], hash_seeded(random, s), from, to);
        if (measured) {
            feed_cut_measure(&worker->runtime->transforms.cut, s, clock_seconds(CLOCK_MONOTONIC) - begin);
        }
        from = to;
    }
    if (last == first && result == 0) {
        memcpy(out, in, padded(first > 0 ? transforms->list[first - 1].bytes : worker->runtime->data.item_size));
    }
    return result;
}

/* ---- The items of a call ---- */

/* The random bits of the call's item `i`. */
static uint64_t range_random(const struct aml_worker *worker, const struct range *range, size_t i) {
    return item_random(worker->runtime, range->use, range->set->ids[range->use][range->place + i], range->iteration);
}

/* Runs the transforms of batches on a training item, unless a feeder has done so. */
static int make_first(struct aml_worker *worker, const struct range *range, size_t i) {
    const struct runtime_transforms *transforms = &worker->runtime->transforms;
    struct runtime_transformed *transformed = range->transformed;
    size_t number = range->first + i;
    if (transformed->here[number] != 0) {
        return 0;
    }
    transformed->here[number] = 1;
    return run_transforms(worker, 0, transformed->transforms, false, range_random(worker, range, i),
                          data_item(range->set, AML_TRAIN, range->place + i),
                          transformed->made + number * made_size(transforms, transformed->transforms));
}

/* Runs the other transforms on the training item. */
static int make_rest(struct aml_worker *worker, const struct range *range, size_t i) {
    const struct runtime_transforms *transforms = &worker->runtime->transforms;
    const struct runtime_transformed *transformed = range->transformed;
    const void *in = transformed->transforms > 0
                         ? transformed->made + (range->first + i) * made_size(transforms, transformed->transforms)
                         : data_item(range->set, AML_TRAIN, range->place + i);
    return run_transforms(worker, transformed->transforms, transforms->count, false, range_random(worker, range, i), in,
                          range->outputs + i * transforms->out_size);
}

static int make_test(struct aml_worker *worker, const struct range *range, size_t i) {
    const struct runtime_transforms *transforms = &worker->runtime->transforms;
    return run_transforms(worker, 0, transforms->count, true, range_random(worker, range, i),
                          data_item(range->set, AML_TEST, range->place + i), range->outputs + i * transforms->out_size);
}

/* Runs `make` for the items of a range. */
static void make_each(struct aml_worker *worker, const struct range *range, size_t first, size_t end,
                      int (*make)(struct aml_worker *worker, const struct range *range, size_t i)) {
    int result = 0;
    for (size_t i = first; i < end && result == 0 && !runtime_failed(worker->runtime); i++) {
        result = make(worker, range, i);
    }
}

/* Runs the transforms of batches on the items that no feeder has made, and measures the time. */
static void make_lacking(struct aml_worker *worker, const struct range *range, size_t first, size_t end) {
    struct runtime_transforms *transforms = &worker->runtime->transforms;
    uint64_t start_us = monotonic_us();
    size_t items = 0;
    for (size_t i = first; i < end; i++) {
        items += range->transformed->here[range->first + i] == 0 ? 1 : 0;
    }
    make_each(worker, range, first, end, make_first);
    if (items > 0) {
        atomic_fetch_add(&transforms->made_items, items);
        atomic_fetch_add(&transforms->made_us, monotonic_us() - start_us);
    }
}

static void make_range(struct aml_worker *worker, const struct range *range, size_t first, size_t end) {
    const struct runtime_transformed *transformed = range->transformed;
    crash_enter("transform", worker->clock);
    if (transformed == NULL) {
        make_each(worker, range, first, end, make_test);
    } else {
        if (transformed->transforms > 0) {
            make_lacking(worker, range, first, end);
        }
        if (transformed->transforms < worker->runtime->transforms.count) {
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

const void *runtime_transform_items(struct aml_worker *worker, const void *items, size_t count) {
    struct runtime *runtime = worker->runtime;
    struct runtime_transforms *transforms = &runtime->transforms;
    struct runtime_transformed *transformed = transforms->present;
    if (transforms->count == 0 || count == 0) {
        return items;
    }
    const struct data_set *set = &runtime->command.set->items;
    size_t place = data_item_place(set, AML_TRAIN, items);
    size_t first = place - transformed->first;
    assert(place >= transformed->first && first + count <= transformed->count);
    unsigned char *outputs = transformed->transforms == transforms->count ? transformed->made : transforms->outputs;
    struct range range = {.worker = worker,
                          .clock = worker->clock,
                          .function = "clock",
                          .set = set,
                          .use = AML_TRAIN,
                          .place = place,
                          .outputs = outputs + first * transforms->out_size,
                          .transformed = transformed,
                          .first = first,
                          .count = count,
                          .iteration = runtime_iteration(runtime, worker->clock)};
    make_all(&range);
    return range.outputs;
}

const void *runtime_transform_tests(struct aml_worker *worker, const void *items, size_t count) {
    struct runtime *runtime = worker->runtime;
    const struct runtime_transforms *transforms = &runtime->transforms;
    if (transforms->count == 0 || count == 0 || transforms->train_only) {
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
                          .outputs = transforms->outputs + place * transforms->out_size,
                          .count = count};
    make_all(&range);
    return range.outputs;
}

/* ---- In the main thread ---- */

static void transformd_free(struct runtime_transformed *transformed) {
    if (transformed != NULL) {
        free(transformed->made);
        free(transformed->here);
        free(transformed);
    }
}

/* Makes room for what the transforms make of the items of this clock. */
static struct runtime_transformed *transformd_open(struct runtime *runtime, const struct runtime_set *set,
                                                   uint64_t clock, unsigned part, unsigned transforms) {
    struct runtime_transformed *transformed = memory_zeroed(1, sizeof *transformed);
    *transformed = (struct runtime_transformed){.set = set->number,
                                                .clock = clock,
                                                .part = part,
                                                .transforms = transforms,
                                                .first = data_part_first(&set->items, part),
                                                .count = data_part_count(&set->items, part)};
    if (transforms > 0) {
        transformed->made = memory_resized(NULL, transformed->count, made_size(&runtime->transforms, transforms));
        transformed->here = memory_zeroed(transformed->count + 1, 1);
    }
    return transformed;
}

/* Finds what feeders have made for this clock. */
static struct runtime_transformed **coming_find(struct runtime *runtime, unsigned set, uint64_t clock) {
    struct runtime_transformed **transformed = &runtime->transforms.coming;
    while (*transformed != NULL && ((*transformed)->set != set || (*transformed)->clock != clock)) {
        transformed = &(*transformed)->next;
    }
    return transformed;
}

static struct runtime_transformed *coming_take(struct runtime *runtime, unsigned set, uint64_t clock) {
    struct runtime_transformed **place = coming_find(runtime, set, clock);
    struct runtime_transformed *transformed = *place;
    if (transformed != NULL) {
        *place = transformed->next;
        transformed->next = NULL;
    }
    return transformed;
}

static void outputs_room(struct runtime_transforms *transforms, size_t count) {
    if (transforms->outputs_room < count) {
        free(transforms->outputs);
        transforms->outputs = memory_resized(NULL, count, transforms->out_size);
        transforms->outputs_room = count;
    }
}

void runtime_transforms_begin(struct runtime *runtime) {
    struct runtime_transforms *transforms = &runtime->transforms;
    const struct runtime_command *command = &runtime->command;
    transforms->made_items = transforms->made_us = 0;
    unsigned part = runtime_command_part(runtime);
    if (transforms->count == 0 || (transforms->present != NULL && transforms->present->set == command->set->number &&
                                   transforms->present->clock == command->clock && transforms->present->part == part)) {
        return; /* a further command for lots of the same clock */
    }
    transformd_free(transforms->present);
    transforms->present = coming_take(runtime, command->set->number, command->clock);
    if (transforms->present == NULL) {
        transforms->present = transformd_open(runtime, command->set, command->clock, part, transforms->cut.wanted);
    }
    assert(transforms->present->clock == command->clock && transforms->present->part == part);
    if (transforms->present->transforms < transforms->count) {
        outputs_room(transforms, transforms->present->count);
    }
}

void runtime_transforms_begin_tests(struct runtime *runtime) {
    struct runtime_transforms *transforms = &runtime->transforms;
    if (transforms->count > 0 && !transforms->train_only) {
        outputs_room(transforms, runtime->command.set->items.test_count);
    }
}

void runtime_transforms_forget(struct runtime *runtime, unsigned set) {
    if (runtime->transforms.present != NULL && runtime->transforms.present->set == set) {
        transformd_free(runtime->transforms.present);
        runtime->transforms.present = NULL;
    }
}

/* ---- Feeders ---- */

unsigned runtime_hook_feeds(void *context) {
    const struct runtime *runtime = context;
    return runtime->options.local_steps > 1 ? 0
                                            : runtime->transforms.cut.feedable; /* batches are for clocks of one part */
}

unsigned runtime_hook_feed_transforms(void *context) {
    const struct runtime *runtime = context;
    return runtime->transforms.cut.wanted;
}

bool runtime_hook_feed_take(void *context, unsigned set_number, uint32_t shard, uint64_t clock, unsigned transforms,
                            const void *bytes, size_t size, bool own) {
    struct runtime *runtime = context;
    size_t each = made_size(&runtime->transforms, transforms);
    const struct runtime_set *set = runtime_set_find(runtime, set_number);
    const struct data_dealing dealing = runtime_dealing(runtime);
    struct data_batch batch;
    if (set == NULL || !set->prepared ||
        !data_batch_open(&runtime->data, shard, &dealing, runtime_part(runtime, clock), &set->items, &batch)) {
        return true; /* the batch is not needed: the clock's items are now at another node, or on disk */
    }
    bool good = size == batch.count * each;
    struct runtime_transformed **place = coming_find(runtime, set_number, clock);
    if (good && *place == NULL) {
        /* The transforms are the same for all batches of a clock. */
        *place = transformd_open(runtime, set, clock, runtime_part(runtime, clock), transforms);
    }
    assert(!good || ((*place)->transforms == transforms && (*place)->fed <= (*place)->count));
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
    for (struct runtime_transformed **place = &runtime->transforms.coming; *place != NULL;) {
        struct runtime_transformed *transformed = *place;
        if (clock_below == UINT64_MAX || transformed->clock < clock_below) {
            *place = transformed->next;
            transformd_free(transformed);
        } else {
            place = &transformed->next;
        }
    }
}

static void choose_cut(struct runtime *runtime) {
    struct runtime_transforms *transforms = &runtime->transforms;
    unsigned before = transforms->cut.wanted;
    const struct node_feed *feed = node_feed(&runtime->node);
    const struct feed_cut_job job = {.threads = runtime->pool.threads,
                                     .feeder_threads = feed->threads,
                                     .feeders = feed->feeder_count,
                                     .nodes = runtime->command.origins > 0 ? runtime->command.origins : 1};
    feed_cut_choose(&transforms->cut, &job);
    if (transforms->cut.wanted != before) {
        log_info("feeders run the transforms up to '%s' for this node, not up to '%s'",
                 transforms->list[transforms->cut.wanted - 1].name, transforms->list[before - 1].name);
    }
}

void runtime_transforms_report(struct runtime *runtime) {
    struct runtime_transforms *transforms = &runtime->transforms;
    const struct runtime_transformed *present = transforms->present;
    if (present == NULL || present->count == 0) {
        return;
    }
    uint64_t batches = transforms->made_items * runtime->command.set->shard_count / present->count;
    choose_cut(runtime);
    node_fed(&runtime->node, present->fed);
    node_feed_made_here(&runtime->node, batches, transforms->made_us / runtime->pool.threads);
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

bool runtime_feeding_begin(struct runtime *runtime, uint64_t clock, unsigned transforms, const uint32_t *shards,
                           unsigned count) {
    struct runtime_feeding *feeding = &runtime->transforms.feeding;
    const struct data_dealing dealing = runtime_dealing(runtime);
    unsigned part = runtime_part(runtime, clock);
    assert(feeding->made.count == 0 && count <= WIRE_FEED_SHARDS_MAX);
    feeding->made = (struct feed_made){.clock = clock};
    feeding->transforms = transforms;
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
        feeding->made.bytes[b] = buffer_new(batch->count * made_size(&runtime->transforms, transforms));
        feeding->made.count++;
        feeding->items += batch->count;
    }
    return true;
}

/* Makes the items with these numbers, counted over all batches. */
static void make_batches(struct aml_worker *worker, size_t first, size_t end) {
    struct runtime *runtime = worker->runtime;
    const struct runtime_transforms *transforms = &runtime->transforms;
    const struct runtime_feeding *feeding = &transforms->feeding;
    uint64_t iteration = runtime_iteration(runtime, feeding->made.clock);
    size_t each = made_size(transforms, feeding->transforms);
    size_t before = 0; /* items of earlier batches */
    int result = 0;
    for (unsigned b = 0; b < feeding->made.count && before < end; b++) {
        const struct data_batch *batch = &feeding->batches[b];
        size_t last = end - before < batch->count ? end - before : batch->count;
        for (size_t i = first > before ? first - before : 0; i < last && result == 0; i++) {
            uint64_t id = data_item_id(feeding->made.shards[b], batch->records[i]);
            result =
                run_transforms(worker, 0, feeding->transforms, false, item_random(runtime, AML_TRAIN, id, iteration),
                               batch->items[i], feeding->made.bytes[b]->data + i * each);
        }
        before += batch->count;
    }
    if (result != 0) {
        atomic_store(&worker->runtime->transforms.feeding.failed, true);
    }
}

void runtime_feeding_run(struct aml_worker *worker) {
    struct runtime_feeding *feeding = &worker->runtime->transforms.feeding;
    unsigned threads = feeding->threads;
    uint64_t start_us = monotonic_us();
    worker->clock = feeding->made.clock;
    crash_enter("transform", feeding->made.clock);
    make_batches(worker, feeding->items * worker->thread / threads, feeding->items * (worker->thread + 1) / threads);
    crash_leave();
    atomic_fetch_add(&feeding->us, monotonic_us() - start_us);
}

struct feed_made runtime_feeding_end(struct runtime *runtime) {
    struct runtime_feeding *feeding = &runtime->transforms.feeding;
    struct feed_made made = feeding->made;
    made.us = feeding->us / feeding->threads;
    feeding_close(feeding);
    return made;
}

void runtime_transforms_open(struct runtime *runtime) {
    struct runtime_transforms *transforms = &runtime->transforms;
    size_t most = 0;
    transforms->list = runtime->app->transforms;
    transforms->train_only = true;
    for (unsigned s = 0; transforms->list != NULL && transforms->list[s].name != NULL; s++) {
        const struct aml_transform *transform = &transforms->list[s];
        transforms->count++;
        transforms->train_only = transforms->train_only && (transform->flags & AML_TRANSFORM_TRAIN) != 0;
        transforms->out_size = padded(transform->bytes);
        most = transforms->out_size > most ? transforms->out_size : most;
    }
    feed_cut_open(&transforms->cut, transforms->list);
    transforms->between_size = (most + 63) / 64 * 64;
    transforms->between =
        transforms->count > 0 ? memory_zeroed((size_t)runtime->options.threads, 2 * transforms->between_size) : NULL;
}

void runtime_transforms_close(struct runtime *runtime) {
    transformd_free(runtime->transforms.present);
    runtime_hook_feed_drop(runtime, UINT64_MAX);
    feeding_drop(&runtime->transforms.feeding);
    free(runtime->transforms.between);
    free(runtime->transforms.outputs);
}
