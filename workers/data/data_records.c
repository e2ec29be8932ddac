/* The records of data shards, in extents: in memory, or, where they don't fit, on disk. Writes them and reads them
 * back. See data.h. */
#include "workers/data/data_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

enum {
    SPILL_SHARE = 2,         /* records may take 1/2 of the limit while the input is read */
    SPILL_LEAST = 4,         /* at least 1/4 of that is written together, so that extents are not too small */
    HASHED_BYTES = 256 << 10 /* of an extent, read and hashed together */
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

/* ---- Extents ---- */

struct data_extent *data_records_add(struct data_records *records, struct data_extent extent) {
    records->extents = memory_resized(records->extents, records->extent_count + 1U, sizeof *records->extents);
    records->extents[records->extent_count] = extent;
    return &records->extents[records->extent_count++];
}

void data_records_end(struct data_records *records) {
    if (records->open.count > 0) {
        records->count += records->open.count;
        records->bytes += records->open.bytes;
        data_records_add(records, records->open);
        records->open = (struct data_extent){.stretch = 0};
    }
}

/* Checks that the counts are those of all extents together. */
static void check_records(const struct data_records *records) {
    uint64_t count = 0;
    uint64_t bytes = 0;
    uint64_t on_disk = 0;
    for (uint32_t e = 0; e < records->extent_count; e++) {
        count += records->extents[e].count;
        bytes += records->extents[e].bytes;
        on_disk += records->extents[e].on_disk ? records->extents[e].bytes : 0;
    }
    assert(count == records->count && bytes == records->bytes && on_disk == records->on_disk);
}

void data_records_fit(struct data_records *records) {
    data_records_end(records);
    check_records(records);
    for (uint32_t e = 0; e < records->extent_count; e++) {
        struct data_extent *extent = &records->extents[e];
        if (!extent->on_disk && extent->bytes < extent->capacity) {
            extent->capacity = extent->bytes;
            extent->records = memory_resized(extent->records, extent->bytes, 1);
        }
    }
}

/* Notes that the extent's room on the disk is to be freed. */
static void add_unused(struct data_limit *limit, const struct data_extent *extent) {
    limit->unused = memory_resized(limit->unused, limit->unused_count + 1, sizeof *limit->unused);
    limit->unused[limit->unused_count++] =
        (struct data_range){.from = extent->offset, .until = extent->offset + extent->bytes};
}

void data_records_replace(struct data *data, struct data_records *records, size_t bytes) {
    for (uint32_t e = 0; e < records->extent_count; e++) {
        if (records->extents[e].on_disk) {
            add_unused(&data->limit, &records->extents[e]);
        }
        free(records->extents[e].records);
    }
    free(records->extents);
    *records = (struct data_records){.count = records->count, .bytes = bytes};
}

void data_records_drop(struct data *data, struct data_records *records) {
    data_records_replace(data, records, 0);
    records->count = 0;
}

/* ---- Writing ---- */

/* The hash of an extent, block by block as it will be read. */
static uint64_t extent_hash(const struct data_extent *extent) {
    uint64_t hash = extent->bytes;
    for (size_t at = 0; at < extent->bytes; at += HASHED_BYTES) {
        hash = hash_bytes(extent->records + at, extent->bytes - at < HASHED_BYTES ? extent->bytes - at : HASHED_BYTES,
                          hash);
    }
    return hash;
}

/* Appends an extent to the file of records. */
static int write_extent(struct data *data, struct data_extent *extent, struct error *error) {
    struct spill_file *file = &data->limit.records;
    int result = file->spill == NULL ? spill_open(file, data->limit.spill, error) : 0;
    extent->on_disk = true;
    extent->offset = file->size;
    extent->hash = extent_hash(extent);
    return result != 0 ? result : spill_append(file, extent->records, extent->bytes, error);
}

/* Writes an extent that is in no shard yet, if there is too little memory for it. Returns whether it did. */
static bool spill_extent(struct data *data, struct data_extent *extent) {
    if (data->limit.spill == NULL || data->limit.spilling || extent->bytes == 0 ||
        data->bytes + extent->bytes <= data->limit.bytes / SPILL_SHARE) {
        return false;
    }
    struct error error = {0};
    int result = write_extent(data, extent, &error);
    result = result != 0 ? result : spill_flush(&data->limit.records, &error);
    extent->on_disk = result == 0; /* else the records stay in memory */
    return extent->on_disk;
}

void data_records_copy(struct data *data, struct data_records *records, struct data_extent extent, bool piece) {
    const unsigned char *from = extent.records;
    size_t bytes = extent.bytes;
    records->count += extent.count;
    records->bytes += bytes;
    if (!piece && spill_extent(data, &extent)) {
        records->on_disk += bytes;
        extent.records = NULL;
    } else {
        extent.records = memory_resized(NULL, bytes, 1);
        extent.capacity = bytes;
        *(piece ? &data->division.bytes : &data->bytes) += bytes;
        if (bytes > 0) {
            memcpy(extent.records, from, bytes);
        }
    }
    data_records_add(records, extent);
}

/* An extent that was taken from its shard to be written. */
struct taken {
    struct data_records *records;
    uint32_t place; /* in `records` */
    struct data_extent extent;
};

/* Whether the shard's records may be written without the lock: only the reading uses them yet. */
static bool may_be_taken(const struct data_shard *shard) {
    return !shard->held && shard->wish == DATA_WANTED;
}

/* The bytes of records that may be written now. */
static size_t bytes_to_take(const struct data *data) {
    size_t bytes = 0;
    for (uint32_t s = 0; s < data->shard_count; s++) {
        const struct data_shard *shard = &data->shards[s];
        for (unsigned use = AML_TRAIN; use <= AML_TEST && may_be_taken(shard); use++) {
            bytes += shard->records[use].open.bytes;
        }
    }
    return bytes;
}

/* Takes what the reading has appended out of the shards. The caller frees the list. */
static struct taken *take_extents(struct data *data, size_t *count) {
    struct taken *taken = memory_resized(NULL, 2 * (size_t)data->shard_count, sizeof *taken);
    *count = 0;
    for (uint32_t s = 0; s < data->shard_count; s++) {
        for (unsigned use = AML_TRAIN; use <= AML_TEST && may_be_taken(&data->shards[s]); use++) {
            struct data_records *records = &data->shards[s].records[use];
            if (records->open.bytes > 0) {
                data_records_end(records);
                struct data_extent *last = &records->extents[records->extent_count - 1];
                last->on_disk = true;
                taken[(*count)++] =
                    (struct taken){.records = records, .place = records->extent_count - 1, .extent = *last};
                last->records = NULL;
                records->on_disk += last->bytes;
            }
        }
    }
    return taken;
}

/* Writes the extents, and frees their memory one after the other. Without the lock. */
static int write_taken(struct data *data, struct taken *taken, size_t count, struct error *error) {
    int result = 0;
    for (size_t t = 0; t < count; t++) {
        result = result != 0 ? result : write_extent(data, &taken[t].extent, error);
        free(taken[t].extent.records);
        taken[t].extent.records = NULL;
    }
    return result != 0 ? result : spill_flush(&data->limit.records, error);
}

/* Writes all records that may be written. Under the lock, which it releases meanwhile. */
static void write_out(struct data *data) {
    struct error error = {0};
    size_t count;
    struct taken *taken = take_extents(data, &count);
    data->limit.spilling = true;
    pthread_mutex_unlock(&data->lock);
    int result = write_taken(data, taken, count, &error);
    pthread_mutex_lock(&data->lock);
    for (size_t t = 0; t < count; t++) {
        assert(data->bytes >= taken[t].extent.bytes);
        data->bytes -= taken[t].extent.bytes;
        taken[t].records->extents[taken[t].place] = taken[t].extent;
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
        any = may_be_taken(shard) && (shard->records[AML_TRAIN].on_disk > 0 || shard->records[AML_TEST].on_disk > 0);
    }
    if (any && !atomic_load(&data->limit.failed)) {
        write_out(data);
    }
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
        assert(end == count || ranges[end].from > ranges[end - 1].until);
        spill_punch(&data->limit.records, ranges[first].from, ranges[end - 1].until);
    }
    free(ranges);
}

/* ---- Reading ---- */

/* Reads an extent from the disk, and checks it. `to` NULL: into `scratch`, of HASHED_BYTES, again and again. */
static int read_extent(const struct data *data, const struct data_extent *extent, unsigned char *to,
                       unsigned char *scratch, struct error *error) {
    size_t bytes = extent->bytes;
    uint64_t hash = bytes;
    int result = 0;
    for (size_t at = 0; at < bytes && result == 0; at += HASHED_BYTES) {
        size_t size = bytes - at < HASHED_BYTES ? bytes - at : HASHED_BYTES;
        unsigned char *block = to != NULL ? to + at : scratch;
        result = spill_read(&data->limit.records, extent->offset + at, block, size, error);
        hash = result == 0 ? hash_bytes(block, size, hash) : 0;
    }
    return result == 0 && hash != extent->hash ? spill_damaged(&data->limit.records, extent->offset, error) : result;
}

int data_records_read(const struct data *data, const struct data_records *records, unsigned char *to,
                      struct error *error) {
    int result = 0;
    for (uint32_t e = 0; e < records->extent_count && result == 0; e++) {
        const struct data_extent *extent = &records->extents[e];
        if (extent->on_disk) {
            result = read_extent(data, extent, to, NULL, error);
            spill_forget_unmapped(&data->limit.records, extent->offset, extent->offset + extent->bytes);
        } else if (extent->bytes > 0) {
            memcpy(to, extent->records, extent->bytes);
        }
        to += extent->bytes;
    }
    return result;
}

int data_records_check(const struct data *data, const struct data_records *records, struct error *error) {
    unsigned char *scratch = memory_resized(NULL, HASHED_BYTES, 1);
    int result = 0;
    for (uint32_t e = 0; e < records->extent_count && result == 0; e++) {
        result = records->extents[e].on_disk ? read_extent(data, &records->extents[e], NULL, scratch, error) : 0;
    }
    free(scratch);
    return result;
}

void data_records_forget(const struct data *data, const struct data_records *records) {
    for (uint32_t e = 0; e < records->extent_count; e++) {
        const struct data_extent *extent = &records->extents[e];
        if (extent->on_disk) {
            spill_forget(&data->limit.records, extent->offset, extent->offset + extent->bytes);
        }
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
