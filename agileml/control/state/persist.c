/* Writes and reads the elasticity controller's state as entries of its store. Plans and barriers are stored before they
 * are sent. Progress is stored with a short delay, and acknowledged only then. See controller_private.h.
 *
 *   cluster        job, members, placement, schedule, and the state of a change
 *   input          the job's fingerprint: struct job_input
 *   range/NUMBER   hashes of ranges of its files: struct job_range
 *   progress       struct controller_progress, then a struct stored_member for each member
 *   line/NUMBER    lines of the report */
#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERSIST_VERSION = 18 };
#define LINE_KEY  "line/%016zu"
#define RANGE_KEY "range/%08zu"

/* ---- Entries: writing and reading their bytes ---- */

struct writing {
    unsigned char *bytes;
    size_t size, room;
};

static void put(struct writing *writing, const void *bytes, size_t size) {
    if (size >= writing->room - writing->size) {
        writing->room = 2 * (writing->size + size) + 64;
        writing->bytes = memory_resized(writing->bytes, writing->room, 1);
    }
    if (size > 0) {
        memcpy(writing->bytes + writing->size, bytes, size);
    }
    writing->size += size;
}

static void put_whole(struct writing *writing, uint64_t value) {
    put(writing, &value, sizeof value);
}

struct reading {
    const unsigned char *bytes;
    size_t left;
    bool damaged; /* the bytes are too few, or have a value that no controller writes */
};

static void get(struct reading *reading, void *bytes, size_t size) {
    if (reading->left < size) {
        reading->damaged = true;
        memset(bytes, 0, size);
        return;
    }
    if (size > 0) {
        memcpy(bytes, reading->bytes, size);
    }
    reading->bytes += size;
    reading->left -= size;
}

static uint64_t get_whole(struct reading *reading) {
    uint64_t value;
    get(reading, &value, sizeof value);
    return value;
}

/* Writes a buffer. NULL is written as an empty buffer. */
static void put_buffer(struct writing *writing, const struct buffer *buffer) {
    put_whole(writing, buffer != NULL ? buffer->size : 0);
    put(writing, buffer != NULL ? buffer->data : NULL, buffer != NULL ? buffer->size : 0);
}

static struct buffer *get_buffer(struct reading *reading) {
    uint64_t size = get_whole(reading);
    reading->damaged = reading->damaged || size > reading->left;
    struct buffer *buffer = buffer_new(reading->damaged ? 0 : size);
    get(reading, buffer->data, buffer->size);
    return buffer;
}

/* Writes the length of an ascending list of data shards, then the list. */
static void put_shards(struct writing *writing, const uint32_t *list, uint32_t count) {
    put_whole(writing, count);
    put(writing, list, count * sizeof *list);
}

/* Reads an ascending list of data shards, each below `shards`. The caller frees the list. */
static uint32_t *get_shards(struct reading *reading, uint32_t shards, uint32_t *count) {
    uint64_t length = get_whole(reading);
    reading->damaged = reading->damaged || length > shards;
    *count = reading->damaged ? 0 : (uint32_t)length;
    uint32_t *list = memory_zeroed(*count + 1U, sizeof *list);
    get(reading, list, *count * sizeof *list);
    for (uint32_t i = 0; i < *count; i++) {
        reading->damaged = reading->damaged || list[i] >= shards || (i > 0 && list[i] <= list[i - 1]);
    }
    return list;
}

/* ---- The cluster ---- */

/* Fields of struct controller whose bytes are stored. */
#define FIELDS(each)                                                                                                   \
    each(phase) each(plan.stage) each(job.terms) each(job.metrics) each(job.metric_count) each(job.items)              \
        each(job.totals) each(plan.epoch) each(plan.version) each(end.code) each(end.text) each(change.state)          \
            each(change.next_stage) each(plan.from_clock) each(plan.restore) each(commit.clock)                        \
                each(plan.commit_every) each(change.next_commit_every) each(commit.chosen) each(barrier)               \
                    each(job.stopping) each(job.final) each(recovery.redone_until) each(recovery.mixed_until)          \
                        each(job.resume) each(checkpoint.kept) each(crashes.known) each(report.observers)              \
                            each(report.observer_count) each(save.attempt) each(plan.strategy)                         \
                                each(plan.next_strategy) each(plan.strategy_from) each(change.strategy)                \
                                    each(job.resumed_clocks) each(job.resumed_strategy) each(features.revoked)

#define MEMBER_FIELDS(each)                                                                                            \
    each(node) each(name) each(pass) each(host) each(group) each(process_id) each(threads_max) each(state)             \
        each(loaded) each(stay) each(planned) each(settled) each(reported.clock)

/* The fields of a member that change with progress. */
struct stored_member {
    actor_id actor;
    uint64_t catch_up;
    struct member_usage usage;
};

/* The sizes of all fields whose bytes are stored, to reject the store of a build with other fields. */
#define SIZE(field)        sizeof((const struct controller *)0)->field,
#define MEMBER_SIZE(field) sizeof((const struct member *)0)->field,
static const size_t LAYOUT[] = {FIELDS(SIZE) MEMBER_FIELDS(MEMBER_SIZE) sizeof(struct controller_progress),
                                sizeof(struct stored_member), sizeof(struct wire_placement), sizeof(struct lost_sums)};
#undef SIZE
#undef MEMBER_SIZE

static void put_schedule(struct writing *writing, const struct schedule *schedule) {
    put_whole(writing, schedule->part_count);
    for (unsigned p = 0; p < schedule->part_count; p++) {
        put_whole(writing, schedule->parts[p].from_clock);
        put(writing, schedule->parts[p].owners, schedule->shards * sizeof(actor_id));
    }
    put_whole(writing, schedule->catch_up_count);
    for (unsigned c = 0; c < schedule->catch_up_count; c++) {
        const struct schedule_catch_up *late = &schedule->catch_ups[c];
        put_whole(writing, late->origin);
        put_whole(writing, late->from_clock);
        put_whole(writing, late->until_clock);
        put_shards(writing, late->shards, late->count);
    }
}

static void get_schedule(struct reading *reading, struct schedule *schedule, uint32_t shards) {
    *schedule = (struct schedule){.shards = shards};
    uint64_t parts = get_whole(reading);
    for (uint64_t p = 0; p < parts && !reading->damaged; p++) {
        schedule->parts = memory_resized(schedule->parts, p + 1, sizeof *schedule->parts);
        schedule->parts[p].from_clock = get_whole(reading);
        schedule->parts[p].owners = memory_zeroed(shards, sizeof(actor_id));
        get(reading, schedule->parts[p].owners, shards * sizeof(actor_id));
        schedule->part_count++;
    }
    uint64_t catch_ups = get_whole(reading);
    for (uint64_t c = 0; c < catch_ups && !reading->damaged; c++) {
        schedule->catch_ups = memory_resized(schedule->catch_ups, c + 1, sizeof *schedule->catch_ups);
        struct schedule_catch_up *late = &schedule->catch_ups[c];
        late->origin = get_whole(reading);
        late->from_clock = get_whole(reading);
        late->until_clock = get_whole(reading);
        late->shards = get_shards(reading, shards, &late->count);
        schedule->catch_up_count++;
    }
}

static void put_lost(struct writing *writing, const struct lost *lost) {
    put_whole(writing, lost->sums_count);
    put(writing, lost->sums, lost->sums_count * sizeof *lost->sums);
    put_whole(writing, lost->range_count);
    put(writing, lost->ranges, lost->range_count * sizeof *lost->ranges);
    put_whole(writing, lost->evaluation_count);
    for (unsigned e = 0; e < lost->evaluation_count; e++) {
        const struct lost_evaluation *evaluation = &lost->evaluations[e];
        put_whole(writing, evaluation->origin);
        put_whole(writing, evaluation->clock);
        put_shards(writing, evaluation->shards, evaluation->count);
    }
}

static void get_lost(struct reading *reading, struct lost *lost, uint32_t shards) {
    uint64_t sums = get_whole(reading);
    for (uint64_t s = 0; s < sums && !reading->damaged; s++) {
        struct lost_sums one;
        get(reading, &one, sizeof one);
        *lost_sums_at(lost, one.clock) = one;
    }
    uint64_t ranges = get_whole(reading);
    for (uint64_t r = 0; r < ranges && !reading->damaged; r++) {
        lost->ranges = memory_resized(lost->ranges, r + 1, sizeof *lost->ranges);
        get(reading, &lost->ranges[r], sizeof *lost->ranges);
        lost->range_count++;
    }
    uint64_t evaluations = get_whole(reading);
    for (uint64_t e = 0; e < evaluations && !reading->damaged; e++) {
        actor_id origin = get_whole(reading);
        uint64_t clock = get_whole(reading);
        uint32_t count;
        uint32_t *list = get_shards(reading, shards, &count);
        lost_add_evaluation(lost, origin, clock, list, count);
    }
}

static void put_cluster(struct writing *writing, const struct controller *controller) {
    const struct plan_policy *policy = &controller->options.policy;
    put_whole(writing, PERSIST_VERSION);
    put(writing, LAYOUT, sizeof LAYOUT);
    put_whole(writing, policy->partitions);
    put_whole(writing, policy->shards);
#define PUT(field) put(writing, &controller->field, sizeof controller->field);
    FIELDS(PUT)
#undef PUT
    put_buffer(writing, controller->job.settings);
    put_whole(writing, controller->member_count);
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
#define PUT(field) put(writing, &member->field, sizeof member->field);
        MEMBER_FIELDS(PUT)
#undef PUT
        put_buffer(writing, member->endpoints);
    }
    put_whole(writing, controller->plan.placement != NULL);
    if (controller->plan.placement != NULL) {
        put(writing, controller->plan.placement, policy->partitions * sizeof *controller->plan.placement);
        put(writing, controller->plan.previous, policy->shards * sizeof *controller->plan.previous);
        put_schedule(writing, &controller->plan.schedule);
        put_lost(writing, &controller->lost);
    }
}

static int get_cluster(struct controller *controller, struct reading *reading, struct error *error) {
    struct plan_policy *policy = &controller->options.policy;
    uint64_t version = get_whole(reading);
    size_t layout[sizeof LAYOUT / sizeof *LAYOUT];
    get(reading, layout, sizeof layout);
    uint64_t partitions = get_whole(reading);
    uint64_t shards = get_whole(reading);
    if (version != PERSIST_VERSION || memcmp(layout, LAYOUT, sizeof LAYOUT) != 0 || partitions == 0 ||
        partitions > WIRE_PARTITIONS_MAX || shards == 0 || shards > WIRE_SHARDS_MAX) {
        return error_set(error, AML_EINPUT, "the store is of another version of this program");
    }
    policy->partitions = (uint32_t)partitions;
    policy->shards = (uint32_t)shards;
#define GET(field) get(reading, &controller->field, sizeof controller->field);
    FIELDS(GET)
#undef GET
    controller->job.settings = get_buffer(reading);
    if (controller->job.settings->size % sizeof(struct wire_option) != 0) {
        return error_set(error, AML_EINPUT, "the store is damaged: its options do not end where they should");
    }
    uint64_t members = get_whole(reading);
    for (uint64_t m = 0; m < members && m < WIRE_NODES_MAX && !reading->damaged; m++) {
        controller->members = memory_resized(controller->members, m + 1, sizeof *controller->members);
        struct member *member = &controller->members[m];
        *member = (struct member){0};
#define GET(field) get(reading, &member->field, sizeof member->field);
        MEMBER_FIELDS(GET)
#undef GET
        member->endpoints = get_buffer(reading);
        member->silence.heard_us = member->joined_us = controller_now(controller);
        controller->member_count++;
    }
    if (get_whole(reading) != 0 && !reading->damaged) {
        controller->plan.placement = memory_zeroed(policy->partitions, sizeof *controller->plan.placement);
        controller->plan.previous = memory_zeroed(policy->shards, sizeof *controller->plan.previous);
        get(reading, controller->plan.placement, policy->partitions * sizeof *controller->plan.placement);
        get(reading, controller->plan.previous, policy->shards * sizeof *controller->plan.previous);
        get_schedule(reading, &controller->plan.schedule, policy->shards);
        get_lost(reading, &controller->lost, policy->shards);
    }
    if (reading->damaged || reading->left > 0 ||
        (controller->phase > PHASE_GATHER && controller->phase < PHASE_LEAVE &&
         (controller->plan.placement == NULL || !controller_change_fits(controller)))) {
        return error_set(error, AML_EINPUT,
                         "the store is damaged: its cluster has the wrong length or impossible numbers");
    }
    return 0;
}

/* ---- The input ---- */

static void put_input(struct writing *writing, const struct job_input *input) {
    put(writing, input->reader, sizeof input->reader);
    put_whole(writing, input->of_checkpoint);
    put_buffer(writing, input->shards);
    put(writing, &input->own, sizeof input->own);
    put(writing, input->sampler, sizeof input->sampler);
    put_whole(writing, input->samples != NULL);
    if (input->samples != NULL) {
        put_buffer(writing, input->samples);
    }
    put_buffer(writing, input->files);
}

static int get_input(struct controller *controller, struct reading *reading, struct error *error) {
    struct job_input *input = &controller->input.job;
    job_input_close(input);
    get(reading, input->reader, sizeof input->reader);
    input->of_checkpoint = get_whole(reading) != 0;
    input->shards = get_buffer(reading);
    get(reading, &input->own, sizeof input->own);
    get(reading, input->sampler, sizeof input->sampler);
    input->samples = get_whole(reading) != 0 ? get_buffer(reading) : NULL;
    input->files = get_buffer(reading);
    controller->input.stored = true;
    if (reading->damaged || reading->left > 0 || input->files->size % sizeof(struct wire_input_file) != 0 ||
        (input->samples != NULL && input->samples->size % sizeof(struct wire_input_file) != 0) ||
        input->shards->size != controller->options.policy.shards * sizeof(struct wire_input_shard)) {
        return error_set(error, AML_EINPUT, "the store is damaged: its input does not end where it should");
    }
    return 0;
}

static int get_range(struct controller *controller, struct reading *reading, struct error *error) {
    struct job_ranges *ranges = &controller->input.ranges;
    struct job_range one;
    get(reading, &one, sizeof one);
    if (reading->damaged || reading->left > 0 || memchr(one.reader, '\0', sizeof one.reader) == NULL) {
        return error_set(error, AML_EINPUT, "the store is damaged: a range of its input does not end where it should");
    }
    job_ranges_add(ranges, &one.range, 1, one.reader);
    ranges->stored = ranges->count;
    return 0;
}

/* ---- Writing ---- */

/* Marks everything as stored, when there is no store. */
static void nothing_to_store(struct controller *controller) {
    size_t told = controller->report.stored;
    controller->stored.completed = controller->progress.completed;
    controller->report.stored = controller->report.count;
    controller->input.stored = true;
    controller->input.ranges.stored = controller->input.ranges.count;
    for (unsigned m = 0; m < controller->member_count; m++) {
        controller->members[m].reported.catch_up_stored = controller->members[m].reported.catch_up;
    }
    lines_tell_observers(controller, told);
}

static bool write_entries(struct controller *controller, struct store_entry *entries, unsigned count) {
    struct error error = {0};
    struct store *store = controller->options.store;
    if (store->write(store, entries, count, &error) == 0) {
        return true;
    }
    controller->options.store = NULL; /* nothing more is written, so the store's entries remain consistent */
    verdict_end(controller, error.code, error.text);
    return false;
}

/* Stores the progress, and the report's and the ranges' new entries. With `cluster`, also stores the cluster and, if it
 * is new, the input. */
static bool write_progress(struct controller *controller, const struct writing *cluster) {
    size_t lines = controller->report.count - controller->report.stored;
    size_t dropped = controller->report.first - controller->report.pruned;
    struct job_ranges *known = &controller->input.ranges;
    size_t ranges = known->count - known->stored;
    struct store_entry *entries = memory_zeroed(lines + dropped + ranges + 3, sizeof *entries);
    char(*keys)[STORE_KEY_MAX] = memory_zeroed(lines + dropped + ranges + 1, sizeof *keys);
    unsigned count = 0;
    struct controller_progress progress = controller->progress;
    struct writing numbers = {0};
    progress.trained_us = controller_trained_us(controller);
    put(&numbers, &progress, sizeof progress);
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        struct stored_member stored = {
            .actor = member->node.actor, .catch_up = member->reported.catch_up, .usage = member->usage};
        put(&numbers, &stored, sizeof stored);
    }
    entries[count++] = (struct store_entry){"progress", numbers.bytes, numbers.size};
    if (cluster != NULL) {
        entries[count++] = (struct store_entry){"cluster", cluster->bytes, cluster->size};
    }
    struct writing input = {0};
    bool input_due = cluster != NULL && controller->input.job.shards != NULL && !controller->input.stored;
    if (input_due) {
        put_input(&input, &controller->input.job);
        entries[count++] = (struct store_entry){"input", input.bytes, input.size};
    }
    for (size_t l = 0; l < lines; l++) {
        const char *line = controller_line(controller, controller->report.stored + l);
        if (line != NULL) {
            snprintf(keys[l], sizeof keys[l], LINE_KEY, controller->report.stored + l);
            entries[count++] = (struct store_entry){keys[l], line, strlen(line)};
        }
    }
    for (size_t l = 0; l < dropped; l++) {
        snprintf(keys[lines + l], sizeof keys[lines + l], LINE_KEY, controller->report.pruned + l);
        entries[count++] = (struct store_entry){.key = keys[lines + l]};
    }
    for (size_t r = 0; r < ranges; r++) {
        char *key = keys[lines + dropped + r];
        snprintf(key, STORE_KEY_MAX, RANGE_KEY, known->stored + r);
        entries[count++] = (struct store_entry){key, &known->at[known->stored + r], sizeof *known->at};
    }
    bool written = write_entries(controller, entries, count);
    free(entries);
    free(keys);
    free(numbers.bytes);
    free(input.bytes);
    if (written) {
        controller->input.stored = controller->input.stored || input_due;
        known->stored = known->count;
        size_t told = controller->report.stored;
        for (unsigned m = 0; m < controller->member_count; m++) {
            controller->members[m].reported.catch_up_stored = controller->members[m].reported.catch_up;
        }
        controller->report.pruned = controller->report.first;
        controller->stored.completed = progress.completed;
        controller->report.stored = controller->report.count;
        controller->stored.due = false;
        lines_tell_observers(controller, told);
    }
    return written;
}

bool persist_all(struct controller *controller) {
    if (controller->options.store == NULL) {
        nothing_to_store(controller);
        return true;
    }
    assert(!controller->verdicts.end); /* end_announce stores the end with the report's last line */
    struct writing cluster = {0};
    put_cluster(&cluster, controller);
    bool written = write_progress(controller, &cluster);
    free(cluster.bytes);
    return written;
}

void persist_soon(struct controller *controller) {
    if (controller->options.store == NULL) {
        nothing_to_store(controller);
    } else if (!controller->stored.due) {
        controller->stored.due = true;
        controller->stored.due_us = controller_now(controller) + CONTROLLER_STORE_US;
        controller_tick_before(controller, controller->stored.due_us);
    }
}

void controller_report(struct controller *controller, char *line) {
    lines_add(&controller->report, line);
    persist_soon(controller);
}

uint64_t persist_due_us(const struct controller *controller, uint64_t now_us) {
    (void)now_us;
    return controller->stored.due && controller->phase < PHASE_LEAVE ? controller->stored.due_us : UINT64_MAX;
}

bool persist_progress(struct controller *controller) {
    return controller->options.store == NULL || write_progress(controller, NULL);
}

/* ---- Reading ---- */

struct loading {
    struct controller *controller;
    bool cluster, progress;
};

static int load_entry(void *context, const char *key, const void *bytes, size_t size, struct error *error) {
    struct loading *loading = context;
    struct controller *controller = loading->controller;
    if (strcmp(key, "cluster") == 0) {
        struct reading reading = {.bytes = bytes, .left = size};
        loading->cluster = true;
        return get_cluster(controller, &reading, error);
    }
    if (strcmp(key, "input") == 0) { /* "cluster" was read before, as keys come in order */
        struct reading reading = {.bytes = bytes, .left = size};
        return get_input(controller, &reading, error);
    }
    if (strncmp(key, "range/", 6) == 0) {
        struct reading reading = {.bytes = bytes, .left = size};
        return get_range(controller, &reading, error);
    }
    if (strcmp(key, "progress") == 0) {
        struct reading reading = {.bytes = bytes, .left = size};
        get(&reading, &controller->progress, sizeof controller->progress);
        while (reading.left > 0 && !reading.damaged) { /* "cluster", with the members, was read before */
            struct stored_member stored;
            get(&reading, &stored, sizeof stored);
            struct member *member = controller_find_member(controller, stored.actor);
            if (member != NULL) {
                member->reported.catch_up = member->reported.catch_up_stored = stored.catch_up;
                member->usage = stored.usage;
            }
        }
        if (reading.damaged) {
            return error_set(error, AML_EINPUT, "the store is of another version of this program");
        }
        loading->progress = true;
    } else if (strncmp(key, "line/", 5) == 0) {
        size_t number = (size_t)strtoull(key + 5, NULL, 10);
        if (controller->report.count == 0) {
            controller->report.first = controller->report.count = number;
        }
        if (number != controller->report.count) { /* a gap: lines were dropped before they were stored */
            for (size_t l = controller->report.first; l < controller->report.count; l++) {
                free(controller->report.lines[l - controller->report.first]);
            }
            controller->report.first = controller->report.count = number;
        }
        size_t kept = controller->report.count - controller->report.first;
        char *line = memory_resized(NULL, size + 1, 1);
        memcpy(line, bytes, size);
        line[size] = '\0';
        controller->report.lines = memory_resized(controller->report.lines, kept + 1, sizeof *controller->report.lines);
        controller->report.lines[kept] = line;
        controller->report.count++;
    }
    return 0;
}

int persist_load(struct controller *controller, struct error *error) {
    struct store *store = controller->options.store;
    struct loading loading = {.controller = controller};
    if (store == NULL) {
        return 0;
    }
    int result = store->read(store, load_entry, &loading, error);
    if (result != 0) {
        return result;
    }
    if (!loading.cluster || !loading.progress) {
        return 0;
    }
    controller->report.stored = controller->report.count;
    controller->report.pruned = controller->report.first;
    controller->stored.completed = controller->progress.completed;
    lost_forget(&controller->lost, controller->progress.completed);
    return 1;
}
