/* Arranges sets on disk, by an external sort. Batches of shards are sorted by the parts of an iteration, and written as
 * runs. Then all runs are read side by side, part by part. Each part's items are dealt to threads and appended to the
 * set's file. So only the items of one batch, or of one part's slice, are listed in memory. Runs are read through a
 * buffer of a block each. Mapped pages of many runs would not all stay in the page cache of a cgroup with little
 * memory, and each page that was dropped too early would be read again. The result is that of data_solo.c. See
 * data.h. */
#include "workers/data/data_disk.h"
#include "workers/data/data_solo.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

enum {
    BATCH_SHARE = 8,                /* a batch's records take 1/8 of the memory for data, and so does its list */
    COPIES_SHARE = 8,               /* copies of a part's records take 1/8, too */
    WINDOW_SHARE = 2,               /* items that were read ahead take 1/2 */
    PLACED_BYTES = 256 << 10,       /* items that were read ahead take 1/2 of it */
    FORGET_BYTES = 4 * SPILL_BLOCK, /* bytes of items that are made together */
    PUNCH_BYTES = 64 * SPILL_BLOCK  /* used bytes of a run that are dropped from memory together */
};

/* used bytes of a run whose room on the disk is freed together, which takes some milliseconds */
struct run_entry {
    uint64_t hash;
    uint32_t part, number, weight; /* as in struct solo */
    uint32_t bytes;                /* of the record */
};

/* A sorted run, which is read from its beginning to its end. */
struct sorted_run {
    uint64_t at, until;    /* in the file of runs: the next byte, the end */
    uint64_t loaded;       /* end of the bytes in `block`; 0: none */
    uint64_t forgotten;    /* bytes before this are not in memory */
    uint64_t punched;      /* bytes before this were given back to the disk */
    unsigned char *block;  /* SPILL_BLOCK bytes */
    struct run_entry next; /* of the next item, if has_next; `at` is then its record */
    bool has_next;
};

/* The sort of one use's items. */
struct sorting {
    const struct arranging *arranging;
    enum aml_item_use use;
    struct spill_file file;
    struct sorted_run *runs;
    uint32_t run_count;
    struct solo *items; /* of the batch or of the part's slice */
    size_t room;
    unsigned char *copies;      /* copies of the part slice's records, in their order, while there is room */
    size_t copies_room, copied; /* bytes of `copies`: allocated, used */
    bool uncopied;              /* some records of the present part are not copied, but used where they are mapped */
    unsigned char *placed;
    size_t placed_room;
    size_t written; /* items of the set */
};

bool data_is_for_disk(const struct arranging *arranging) {
    struct data *data = arranging->data;
    const struct data_set *set = arranging->set;
    size_t items = data->item_size * (set->count + set->test_count);
    size_t spilled = 0;
    if (data->limit.spill == NULL) {
        return false;
    }
    for (uint32_t s = 0; s < arranging->shard_count; s++) {
        const struct data_shard *shard = &data->shards[arranging->shards[s]];
        for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
            items += data->varied ? shard->records[use].bytes : 0; /* an upper bound */
            spilled += shard->records[use].on_disk;
        }
    }
    size_t lists = (set->count > set->test_count ? set->count : set->test_count) * sizeof(struct solo);
    pthread_mutex_lock(&data->lock);
    bool fits = data->bytes + data->set_bytes + items + lists <= data->limit.bytes;
    pthread_mutex_unlock(&data->lock);
    return spilled > 0 || !fits;
}

static void room_for_items(struct sorting *sorting, size_t count) {
    if (count > sorting->room) {
        sorting->room = count > 2 * sorting->room ? count : 2 * sorting->room;
        sorting->items = memory_resized(sorting->items, sorting->room, sizeof *sorting->items);
    }
}

/* ---- Runs ---- */

/* Appends the batch's items as a run. */
static int write_run(struct sorting *sorting, size_t count, struct error *error) {
    const struct data *data = sorting->arranging->data;
    int result = spill_append_padding(&sorting->file, error); /* runs are checked and dropped by blocks */
    struct sorted_run run = {.at = sorting->file.size};
    for (size_t i = 0; i < count && result == 0; i++) {
        const struct solo *item = &sorting->items[i];
        const struct run_entry entry = {.hash = item->hash,
                                        .part = item->part,
                                        .number = item->number,
                                        .weight = item->weight,
                                        .bytes = (uint32_t)record_size(data, item->record)};
        result = spill_append(&sorting->file, &entry, sizeof entry, error);
        result = result != 0 ? result : spill_append(&sorting->file, item->record, entry.bytes, error);
    }
    assert(result != 0 || run.at % SPILL_BLOCK == 0);
    run.until = sorting->file.size;
    run.forgotten = run.punched = run.at;
    sorting->runs = memory_resized(sorting->runs, sorting->run_count + 1U, sizeof *sorting->runs);
    sorting->runs[sorting->run_count++] = run;
    return result;
}

/* How many of the set's shards, from the s-th on, are the next batch. */
static uint32_t batch_size(const struct sorting *sorting, uint32_t s) {
    const struct arranging *arranging = sorting->arranging;
    size_t most = arranging->data->limit.bytes / BATCH_SHARE;
    size_t bytes = 0;
    size_t lists = 0;
    uint32_t first = s;
    for (; s < arranging->shard_count; s++) {
        const struct data_records *records = &arranging->data->shards[arranging->shards[s]].records[sorting->use];
        bytes += records->bytes;
        lists += records->count * sizeof(struct solo);
        if (s > first && (bytes > most || lists > most)) {
            break;
        }
    }
    return s - first;
}

/* Sorts the items of all shards in batches. */
static int write_runs(struct sorting *sorting, struct error *error) {
    const struct arranging *arranging = sorting->arranging;
    const struct data *data = arranging->data;
    uint32_t number = 0;
    int result = 0;
    for (uint32_t s = 0, end; s < arranging->shard_count && result == 0; s = end) {
        size_t count = 0;
        end = s + batch_size(sorting, s);
        for (uint32_t b = s; b < end && result == 0; b++) {
            const struct data_records *records = &data->shards[arranging->shards[b]].records[sorting->use];
            result = data_records_check(data, records, error);
            count += records->count;
        }
        if (result == 0 && count > 0) {
            room_for_items(sorting, count);
            solo_list(arranging, sorting->use, s, end, number, sorting->items);
            number += (uint32_t)count;
            solo_sort(sorting->items, count);
            result = write_run(sorting, count, error);
        }
        for (uint32_t b = s; b < end; b++) {
            data_records_forget(data, &data->shards[arranging->shards[b]].records[sorting->use]);
        }
    }
    result = result != 0 ? result : spill_flush(&sorting->file, error);
    return result != 0 || sorting->file.size == 0 ? result : spill_map(&sorting->file, error);
}

/* ---- Merging ---- */

/* Reads and checks the run's next block. Drops its pages while there is room for copies, as then few records are used
 * where they are mapped. */
static int load_block(struct sorting *sorting, struct sorted_run *run, struct error *error) {
    assert(run->at < run->until);
    uint64_t block = run->at / SPILL_BLOCK;
    run->block = run->block != NULL ? run->block : memory_resized(NULL, SPILL_BLOCK, 1);
    int result = spill_check(&sorting->file, block, run->block, error);
    run->loaded = (block + 1) * SPILL_BLOCK;
    if (!sorting->uncopied) {
        spill_forget_unmapped(&sorting->file, run->loaded - SPILL_BLOCK, run->loaded);
    }
    return result;
}

/* Moves on by `bytes` bytes, which are copied unless `to` is NULL. */
static int run_take(struct sorting *sorting, struct sorted_run *run, void *to, size_t bytes, struct error *error) {
    unsigned char *copy = to;
    int result = 0;
    while (bytes > 0 && result == 0) {
        if (run->at >= run->loaded) {
            result = load_block(sorting, run, error);
            continue;
        }
        size_t step = run->loaded - run->at < bytes ? (size_t)(run->loaded - run->at) : bytes;
        if (copy != NULL) {
            memcpy(copy, run->block + run->at % SPILL_BLOCK, step);
            copy += step;
        }
        run->at += step;
        bytes -= step;
    }
    return result;
}

/* Takes the next entry of the run, if there is one. */
static int run_peek(struct sorting *sorting, struct sorted_run *run, struct error *error) {
    int result = 0;
    if (!run->has_next && run->at < run->until) {
        result = run_take(sorting, run, &run->next, sizeof run->next, error);
        run->has_next = result == 0;
    }
    return result;
}

/* Takes the next entry's record: copies it while there is room for copies. */
static int take_record(struct sorting *sorting, struct sorted_run *run, const unsigned char **record,
                       struct error *error) {
    size_t bytes = run->next.bytes;
    unsigned char *copy = NULL;
    *record = sorting->file.map + run->at;
    if (bytes <= sorting->copies_room - sorting->copied) {
        *record = copy = sorting->copies + sorting->copied;
        sorting->copied += bytes;
    }
    sorting->uncopied = sorting->uncopied || copy == NULL;
    run->has_next = false;
    return run_take(sorting, run, copy, bytes, error);
}

/* Lists the run's items of a part's slice behind the others. */
static int collect_run(struct sorting *sorting, struct sorted_run *run, uint32_t part, size_t *count,
                       struct error *error) {
    int result = run_peek(sorting, run, error);
    while (result == 0 && run->has_next && run->next.part == part) {
        const struct run_entry *entry = &run->next;
        room_for_items(sorting, *count + 1);
        struct solo *item = &sorting->items[(*count)++];
        *item = (struct solo){.hash = entry->hash, .weight = entry->weight, .number = entry->number, .part = part};
        result = take_record(sorting, run, &item->record, error);
        result = result != 0 ? result : run_peek(sorting, run, error);
    }
    return result;
}

/* Frees the used bytes of the runs, in memory and on the disk. */
static void drop_behind(struct sorting *sorting) {
    for (uint32_t r = 0; r < sorting->run_count; r++) {
        struct sorted_run *run = &sorting->runs[r];
        bool at_end = run->at == run->until && !run->has_next;
        uint64_t next = run->has_next ? run->at - sizeof run->next : run->at;
        uint64_t used = at_end ? next : next / SPILL_BLOCK * SPILL_BLOCK;
        assert(used <= run->until && (!at_end || used == run->until));
        if (used >= run->forgotten + FORGET_BYTES) {
            spill_forget(&sorting->file, run->forgotten, used);
            run->forgotten = used;
        }
        if (used >= run->punched + PUNCH_BYTES) {
            spill_punch(&sorting->file, run->punched, used);
            run->punched = used;
        }
    }
}

/* Appends items, which are in the set's order, to its file. */
static int write_items(struct sorting *sorting, size_t count, struct error *error) {
    const struct arranging *arranging = sorting->arranging;
    const struct data *data = arranging->data;
    int result = 0;
    solo_number_items(arranging, sorting->use, sorting->items, count, sorting->written);
    sorting->written += count;
    for (size_t i = 0, next; i < count && result == 0; i = next) {
        size_t bytes = 0;
        for (next = i; next < count && (next == i || bytes < PLACED_BYTES); next++) {
            bytes += solo_bytes(data, &sorting->items[next]);
        }
        if (bytes > sorting->placed_room) {
            sorting->placed_room = bytes;
            sorting->placed = memory_resized(sorting->placed, bytes, 1);
        }
        result = solo_place(arranging, sorting->items + i, next - i, sorting->placed, error);
        result = result != 0 ? result : spill_append(&arranging->set->disk->file, sorting->placed, bytes, error);
    }
    return result;
}

/* Reads all runs side by side, and appends the items to the set's file. */
static int merge_runs(struct sorting *sorting, const struct solo_blocks *blocks, struct error *error) {
    unsigned threads = sorting->arranging->set->threads;
    uint32_t parts = (uint32_t)(blocks->count / threads);
    int result = 0;
    for (uint32_t part = 0; part < parts && result == 0; part++) {
        size_t count = 0;
        sorting->copied = 0;
        sorting->uncopied = false;
        for (uint32_t r = 0; r < sorting->run_count && result == 0; r++) {
            result = collect_run(sorting, &sorting->runs[r], part, &count, error);
        }
        if (result == 0 && count > 0) {
            solo_deal_threads(sorting->items, count, threads);
            solo_blocks_add(sorting->arranging, blocks, sorting->items, count);
            result = write_items(sorting, count, error);
            drop_behind(sorting);
        }
    }
    solo_blocks_end(blocks);
    return result;
}

/* ---- The set ---- */

static int arrange_use(const struct arranging *arranging, enum aml_item_use use, struct error *error) {
    struct sorting sorting = {.arranging = arranging, .use = use};
    const struct solo_blocks blocks = solo_blocks_make(arranging, use);
    sorting.copies_room = arranging->data->limit.bytes / COPIES_SHARE;
    sorting.copies = memory_resized(NULL, sorting.copies_room, 1); /* untouched pages cost nothing */
    int result = spill_open(&sorting.file, arranging->data->limit.spill, error);
    result = result != 0 ? result : write_runs(&sorting, error);
    result = result != 0 ? result : merge_runs(&sorting, &blocks, error);
    if (result == 0) {
        assert(sorting.written == blocks.starts[blocks.count]);
        solo_name_items(arranging, use);
    }
    spill_close(&sorting.file);
    for (uint32_t r = 0; r < sorting.run_count; r++) {
        free(sorting.runs[r].block);
    }
    free(sorting.copies);
    free(sorting.runs);
    free(sorting.items);
    free(sorting.placed);
    return result;
}

/* Checks that the disk has room for the runs. The set takes the room of the runs that were used. */
static int check_room(const struct arranging *arranging, struct error *error) {
    const struct data *data = arranging->data;
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < arranging->shard_count; s++) {
        const struct data_records *records = &data->shards[arranging->shards[s]].records[AML_TRAIN];
        bytes += records->bytes + records->count * sizeof(struct run_entry);
    }
    return spill_check_room(data->limit.spill, bytes, error);
}

static void log_disk(const struct data_set *set, const struct spill *spill) {
    char bytes[SPILL_NEEDED_TEXT_MAX];
    spill_size_text(set->disk->file.size, bytes);
    log_info("%zu items of %s are more than --memory allows: they are read from %s in each iteration",
             set->count + set->test_count, bytes, spill->folder);
}

int data_arrange_disk(const struct arranging *arranging, struct error *error) {
    struct data *data = arranging->data;
    struct data_set *set = arranging->set;
    set->disk = memory_zeroed(1, sizeof *set->disk);
    struct spill_file *file = &set->disk->file;
    int result = check_room(arranging, error);
    result = result != 0 ? result : spill_open(file, data->limit.spill, error);
    result = result != 0 || data->limit.records.spill == NULL ? result : spill_map(&data->limit.records, error);
    result = result != 0 ? result : arrange_use(arranging, AML_TRAIN, error);
    result = result != 0 ? result : spill_append_padding(file, error);
    set->disk->tests_at = file->size;
    result = result != 0 ? result : arrange_use(arranging, AML_TEST, error);
    result = result != 0 ? result : spill_flush(file, error);
    spill_end(file);
    result = result != 0 || file->size == 0 ? result : spill_map(file, error);
    result = result != 0 ? result : data_disk_start(set->disk, data->limit.bytes / WINDOW_SHARE, error);
    if (result == 0) {
        set->items = file->map;
        set->tests = file->map != NULL ? file->map + set->disk->tests_at : NULL;
        log_disk(set, data->limit.spill);
    }
    return result;
}
