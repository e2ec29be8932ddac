/* Records of data shards on disk: writing those that don't fit in memory, and reading them back. See data.h. */
#include "workers/data/data_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <stdlib.h>

enum {
    SPILL_SHARE = 2,                /* records may take 1/2 of the limit while the input is read */
    SPILL_LEAST = 4,                /* at least 1/4 of that is written together, so that segments are not too small */
    SEGMENT_PIECE_BYTES = 256 << 10 /* of a segment, read and hashed together */
};

void data_limit_memory(struct data *data, size_t bytes, struct spill *spill) {
    data->limit.bytes = bytes;
    data->limit.spill = spill;
    data->budget = data->budget < bytes / SPILL_SHARE ? data->budget : bytes / SPILL_SHARE;
}

bool data_failed(struct data *data, struct error *error) {
    if (!atomic_load_explicit(&data->limit.failed, memory_order_acquire)) {
        return false;
    }
    pthread_mutex_lock(&data->lock);
    error_set(error, data->limit.error.code, "%s", data->limit.error.text);
    pthread_mutex_unlock(&data->lock);
    return true;
}

static void note_failure(struct data *data, const struct error *error) {
    error_set(&data->limit.error, error->code, "%s", error->text);
    atomic_store_explicit(&data->limit.failed, true, memory_order_release);
}

/* ---- Writing ---- */

/* The hash of a segment, piece by piece as it will be read. */
static uint64_t segment_hash(const unsigned char *records, size_t size) {
    uint64_t hash = size;
    for (size_t at = 0; at < size; at += SEGMENT_PIECE_BYTES) {
        hash = hash_bytes(records + at, size - at < SEGMENT_PIECE_BYTES ? size - at : SEGMENT_PIECE_BYTES, hash);
    }
    return hash;
}

/* Appends a run to the file of records. */
static int write_run(struct data *data, const unsigned char *records, size_t size, struct data_segment *segment,
                     struct error *error) {
    struct spill_file *file = &data->limit.records;
    int result = file->spill == NULL ? spill_open(file, data->limit.spill, error) : 0;
    segment->offset = file->size;
    segment->bytes = size;
    segment->hash = segment_hash(records, size);
    return result != 0 ? result : spill_append(file, records, size, error);
}

static void add_segment(struct data_spilled *spilled, const struct data_segment *segment) {
    spilled->segments = memory_resized(spilled->segments, spilled->segment_count + 1U, sizeof *spilled->segments);
    spilled->segments[spilled->segment_count++] = *segment;
    spilled->count += segment->count;
    spilled->bytes += segment->bytes;
}

/* A run that was taken from its shard to be written. */
struct taken_run {
    struct data_run run;
    struct data_segment segment;
    uint32_t shard;
    enum aml_item_use use;
};

/* Whether the shard's runs may be written without the lock: only the reading uses them yet. */
static bool may_be_taken(const struct data_shard *shard) {
    return !shard->held && shard->wish == DATA_WANTED;
}

/* The bytes of records that may be written now. */
static size_t bytes_to_take(const struct data *data) {
    size_t bytes = 0;
    for (uint32_t s = 0; s < data->shard_count; s++) {
        const struct data_shard *shard = &data->shards[s];
        bytes += may_be_taken(shard) ? shard->runs[AML_TRAIN].bytes + shard->runs[AML_TEST].bytes : 0;
    }
    return bytes;
}

/* Takes the runs out of their shards. The caller frees the list. */
static struct taken_run *take_runs(struct data *data, size_t *count) {
    struct taken_run *taken = memory_resized(NULL, 2 * (size_t)data->shard_count, sizeof *taken);
    *count = 0;
    for (uint32_t s = 0; s < data->shard_count; s++) {
        struct data_shard *shard = &data->shards[s];
        for (unsigned use = AML_TRAIN; use <= AML_TEST && may_be_taken(shard); use++) {
            if (shard->runs[use].count > 0) {
                taken[(*count)++] = (struct taken_run){.run = shard->runs[use], .shard = s, .use = use};
                shard->runs[use] = (struct data_run){0};
            }
        }
    }
    return taken;
}

/* Writes the runs, and frees them one after the other. Without the lock. */
static int write_taken(struct data *data, struct taken_run *taken, size_t count, struct error *error) {
    int result = 0;
    for (size_t t = 0; t < count; t++) {
        struct data_run *run = &taken[t].run;
        taken[t].segment.count = (uint32_t)run->count;
        result = result != 0 ? result : write_run(data, run->records, run->bytes, &taken[t].segment, error);
        free(run->records);
        run->records = NULL;
    }
    return result != 0 ? result : spill_flush(&data->limit.records, error);
}

/* Writes all records that may be written. Under the lock, which it releases meanwhile. */
static void write_out(struct data *data) {
    struct error error = {0};
    size_t count;
    struct taken_run *taken = take_runs(data, &count);
    data->limit.spilling = true;
    pthread_mutex_unlock(&data->lock);
    int result = write_taken(data, taken, count, &error);
    pthread_mutex_lock(&data->lock);
    for (size_t t = 0; t < count; t++) {
        data->bytes -= taken[t].run.bytes;
        add_segment(&data->shards[taken[t].shard].spilled[taken[t].use], &taken[t].segment);
    }
    if (result != 0) {
        note_failure(data, &error);
    }
    data->limit.spilling = false;
    pthread_cond_broadcast(&data->limit.spilled);
    free(taken);
}

void data_spill_excess(struct data *data) {
    size_t most = data->limit.bytes / SPILL_SHARE;
    if (data->limit.spill == NULL) {
        return;
    }
    while (data->bytes > most && !atomic_load(&data->limit.failed)) {
        if (data->limit.spilling) {
            pthread_cond_wait(&data->limit.spilled, &data->lock);
        } else if (bytes_to_take(data) >= most / SPILL_LEAST) {
            write_out(data);
        } else {
            return; /* what is left in memory is in sets, or small */
        }
    }
}

void data_spill_rest(struct data *data) {
    bool any = false;
    for (uint32_t s = 0; s < data->shard_count && !any; s++) {
        const struct data_shard *shard = &data->shards[s];
        any = may_be_taken(shard) && (shard->spilled[AML_TRAIN].count > 0 || shard->spilled[AML_TEST].count > 0);
    }
    if (any && !atomic_load(&data->limit.failed)) {
        write_out(data);
    }
}

bool data_spill_run(struct data *data, struct data_shard *shard, enum aml_item_use use, const unsigned char *records,
                    size_t size, uint32_t count) {
    if (data->limit.spill == NULL || data->limit.spilling || size == 0 ||
        data->bytes + size <= data->limit.bytes / SPILL_SHARE) {
        return false;
    }
    struct error error = {0};
    struct data_segment segment = {.count = count};
    int result = write_run(data, records, size, &segment, &error);
    result = result != 0 ? result : spill_flush(&data->limit.records, &error);
    if (result == 0) {
        add_segment(&shard->spilled[use], &segment);
    }
    return result == 0; /* else the records stay in memory */
}

static void add_unused(struct data_limit *limit, const struct data_segment *segment) {
    limit->unused = memory_resized(limit->unused, limit->unused_count + 1, sizeof *limit->unused);
    limit->unused[limit->unused_count++] =
        (struct data_range){.from = segment->offset, .until = segment->offset + segment->bytes};
}

static int order_ranges(const void *a, const void *b) {
    const struct data_range *one = a;
    const struct data_range *other = b;
    return one->from < other->from ? -1 : one->from > other->from;
}

void data_spill_give_back(struct data *data) {
    pthread_mutex_lock(&data->lock);
    struct data_range *ranges = data->limit.unused;
    size_t count = data->limit.unused_count;
    data->limit.unused = NULL;
    data->limit.unused_count = 0;
    pthread_mutex_unlock(&data->lock);
    if (count > 0) {
        qsort(ranges, count, sizeof *ranges, order_ranges);
    }
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && ranges[end].from == ranges[end - 1].until; end++) {
        }
        spill_punch(&data->limit.records, ranges[first].from, ranges[end - 1].until);
    }
    free(ranges);
}

void data_spilled_drop(struct data *data, struct data_shard *shard) {
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        struct data_spilled *spilled = &shard->spilled[use];
        for (uint32_t s = 0; s < spilled->segment_count; s++) {
            add_unused(&data->limit, &spilled->segments[s]);
        }
        free(spilled->segments);
        *spilled = (struct data_spilled){.segments = NULL};
    }
}

/* ---- Reading back ---- */

/* Reads a segment in pieces and compares its hash. The pieces go to `to`, one after the other, or each to `scratch` if
 * `to` is NULL. */
static int read_segment(const struct data *data, const struct data_segment *segment, unsigned char *to,
                        unsigned char *scratch, struct error *error) {
    uint64_t hash = segment->bytes;
    int result = 0;
    for (size_t at = 0; at < segment->bytes && result == 0; at += SEGMENT_PIECE_BYTES) {
        size_t size = segment->bytes - at < SEGMENT_PIECE_BYTES ? segment->bytes - at : SEGMENT_PIECE_BYTES;
        unsigned char *piece = to != NULL ? to + at : scratch;
        result = spill_read(&data->limit.records, segment->offset + at, piece, size, error);
        hash = result == 0 ? hash_bytes(piece, size, hash) : 0;
    }
    return result == 0 && hash != segment->hash ? spill_damaged(&data->limit.records, segment->offset, error) : result;
}

int data_spilled_read(const struct data *data, const struct data_shard *shard, enum aml_item_use use,
                      unsigned char *records, struct error *error) {
    const struct data_spilled *spilled = &shard->spilled[use];
    int result = 0;
    for (uint32_t s = 0; s < spilled->segment_count && result == 0; s++) {
        const struct data_segment *segment = &spilled->segments[s];
        result = read_segment(data, segment, records, NULL, error);
        spill_forget_unmapped(&data->limit.records, segment->offset, segment->offset + segment->bytes);
        records += segment->bytes;
    }
    return result;
}

int data_spilled_check(const struct data *data, const struct data_shard *shard, enum aml_item_use use,
                       struct error *error) {
    const struct data_spilled *spilled = &shard->spilled[use];
    unsigned char *scratch = memory_resized(NULL, SEGMENT_PIECE_BYTES, 1);
    int result = 0;
    for (uint32_t s = 0; s < spilled->segment_count && result == 0; s++) {
        result = read_segment(data, &spilled->segments[s], NULL, scratch, error);
    }
    free(scratch);
    return result;
}

void data_spilled_forget(const struct data *data, const struct data_shard *shard, enum aml_item_use use) {
    const struct data_spilled *spilled = &shard->spilled[use];
    for (uint32_t s = 0; s < spilled->segment_count; s++) {
        const struct data_segment *segment = &spilled->segments[s];
        spill_forget(&data->limit.records, segment->offset, segment->offset + segment->bytes);
    }
}

void data_warn_exceeded(struct data *data) {
    size_t bytes = data->bytes + data->set_bytes;
    if (bytes > data->limit.bytes && !data->limit.exceeded) {
        char has[SPILL_NEEDED_TEXT_MAX];
        char limit[SPILL_NEEDED_TEXT_MAX];
        spill_size_text(bytes, has);
        spill_size_text(data->limit.bytes, limit);
        log_warn("items with fixed rows stay in memory: they take %s, and --memory leaves %s for data; use more nodes",
                 has, limit);
        data->limit.exceeded = true;
    }
}
