/* Data beyond a limit is on disk (workers/data/spill.c, data_records.c, data_disk.c), with no other difference: sets
 * have the same items in the same blocks, shards for other nodes have the same bytes, and shards come and go. Damage
 * and a full disk are errors. Also the memory that a process may use. */
#include "agileml/base/machine_memory.h"
#include "agileml/base/machine_processors.h"
#include "tests/files.h"
#include "tests/test.h"
#include "workers/client/cache.h"
#include "workers/data/data.h"
#include "workers/data/data_disk.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHARDS = 64, PARTITIONS = 3, ITEMS = 6000, SAMPLE_FLOATS = 40, ROWS_MAX = 3000, CHUNKS = 7, CLOCKS = 40 };
enum {
    LITTLE = 64 << 10,
    BIG_ITEM = 4321 /* its rows exceed the memory for placing items together */,
    BIG_ROWS = 90000
};

enum kind { SAMPLES, RATINGS, IMAGES /* varied items for transforms */, DOCUMENTS };

struct fixture {
    struct job job;
    struct cache cache;
    struct data_rows rows;
    struct data data;
    struct aml_app app;
    struct spill spill;
    enum kind kind;
    uint32_t shards[SHARDS];
};

static int cache_slots(void *context, unsigned table, const uint64_t *keys, uint32_t *slots, size_t count,
                       struct error *error) {
    for (size_t i = 0; i < count; i++) {
        int64_t slot = cache_add(context, table, keys[i]);
        if (slot < 0) {
            return error_set(error, (int)slot, "table %u has no room", table);
        }
        slots[i] = (uint32_t)slot;
    }
    return 0;
}

static void slots_use(void *context, unsigned table, const uint32_t *slots, size_t count) {
    for (size_t i = 0; i < count; i++) {
        cache_use(context, table, slots[i], 1);
    }
}

/* A fixture for a kind of items; `limit` 0: no limit. */
static void fixture_open(struct fixture *f, enum kind kind, size_t limit) {
    memset(f, 0, sizeof *f);
    f->kind = kind;
    f->job.table_count = 2;
    for (unsigned t = 0; t < 2; t++) {
        f->job.tables[t] = (struct table_spec){.type = AML_FLOAT32, .width = 2, .row_bytes = 8};
    }
    static const struct aml_transform transforms[] = {{.name = "decode", .bytes = 4}, {.name = NULL}};
    f->app = kind == SAMPLES   ? (struct aml_app){.item_bytes = SAMPLE_FLOATS * sizeof(float)}
             : kind == RATINGS ? (struct aml_app){.item_rows = 2, .item_tables = {0, 1}, .item_bytes = sizeof(float)}
                               : (struct aml_app){.item_varied = 1, .transforms = kind == IMAGES ? transforms : NULL};
    f->app.table_count = 2;
    cache_open(&f->cache, &f->job, PARTITIONS);
    f->rows = (struct data_rows){.slots = cache_slots, .use = slots_use, .context = &f->cache};
    snprintf(f->spill.folder, sizeof f->spill.folder, "/var/tmp");
    data_open(&f->data, &f->app, SHARDS, 0);
    if (limit > 0) {
        data_limit_memory(&f->data, limit, &f->spill);
    }
    for (uint32_t s = 0; s < SHARDS; s++) {
        f->shards[s] = s;
    }
}

static void fixture_close(struct fixture *f) {
    data_close(&f->data);
    cache_close(&f->cache);
    assert_true(f->spill.bytes == 0);
}

static int emit_document(struct fixture *f, struct data_chunk *chunk, enum aml_item_use use, unsigned n,
                         uint64_t *keys) {
    uint32_t count = n == BIG_ITEM ? BIG_ROWS : n % 100 == 0 ? ROWS_MAX : (uint32_t)(hash_mix(n) % 30);
    for (uint32_t k = 0; k < count; k++) {
        keys[k] = hash_mix(n + k) % 3000 + (n % 5 == 0 ? UINT64_C(1) << 40 : 0);
    }
    const struct aml_keys runs[] = {{.table = 0, .count = count / 2, .keys = keys},
                                    {.table = 1, .count = count - count / 2, .keys = keys + count / 2}};
    return data_emit_varied(&f->data, chunk, use, n / 3, runs, 2, &n, n % 2 == 0 ? sizeof n : 3);
}

static int emit_item(struct fixture *f, struct data_chunk *chunk, unsigned n, uint64_t *keys) {
    enum aml_item_use use = n % 10 == 0 ? AML_TEST : AML_TRAIN;
    float floats[SAMPLE_FLOATS];
    for (unsigned i = 0; i < SAMPLE_FLOATS; i++) {
        floats[i] = (float)n + (float)i / SAMPLE_FLOATS;
    }
    if (f->kind == DOCUMENTS) {
        return emit_document(f, chunk, use, n, keys);
    }
    if (f->kind == IMAGES) {
        return data_emit_varied(&f->data, chunk, use, n / 3, NULL, 0, floats, n % sizeof floats);
    }
    keys[0] = hash_mix(n) % 700;
    keys[1] = hash_mix(n + 77) % 90;
    return data_emit(&f->data, chunk, use, f->kind == RATINGS ? keys : NULL, floats);
}

/* Reads all items in chunks, which are closed in reverse order. */
static void read_items(struct fixture *f) {
    FREED uint64_t *keys = calloc(BIG_ROWS, sizeof *keys);
    data_read_begin(&f->data);
    for (unsigned c = 0; c < CHUNKS; c++) {
        unsigned number = (c % 2 == 0 && c + 1 < CHUNKS) ? c + 1 : c % 2 == 1 ? c - 1 : c;
        struct data_chunk *chunk = data_chunk_open(&f->data, number, data_place(0, 0, number));
        for (unsigned n = ITEMS * number / CHUNKS; n < ITEMS * (number + 1) / CHUNKS; n++) {
            emit_item(f, chunk, n, keys);
            double *totals = data_totals(&f->data, chunk);
            if (totals != NULL) {
                totals[0] += n;
            }
        }
        data_chunk_close(&f->data, chunk);
    }
    data_read_end(&f->data, true);
}

static int try_arrange(struct fixture *f, uint32_t count, const struct data_dealing *dealing, struct data_set *set,
                       struct error *error) {
    return data_arrange(&f->data, f->shards, count, dealing, &f->rows, set, error);
}

static struct data_set arrange(struct fixture *f, uint32_t count, const struct data_dealing *dealing) {
    struct data_set set;
    struct error error = {0};
    int result = try_arrange(f, count, dealing, &set, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(result, 0);
    return set;
}

/* The size of a block's items in bytes. */
static size_t block_bytes(const struct data_set *set, size_t count, const void *items) {
    const struct aml_item *item = items;
    for (size_t i = 0; i < count && set->item_size == 0; i++) {
        item = aml_item_next(item);
    }
    return set->item_size > 0 ? count * set->item_size
                              : (size_t)((const unsigned char *)item - (const unsigned char *)items);
}

static void same_items(const struct data_set *one, size_t count, const void *items, size_t other_count,
                       const void *other_items) {
    assert_int_equal(count, other_count);
    if (count > 0) {
        assert_memory_equal(items, other_items, block_bytes(one, count, items));
    }
}

/* With transforms, items are found by their places and have ids. */
static void check_same_places(const struct data_set *one, const struct data_set *other) {
    for (unsigned use = AML_TRAIN; use <= AML_TEST && one->ids[AML_TRAIN] != NULL; use++) {
        size_t count = use == AML_TRAIN ? one->count : one->test_count;
        for (size_t i = 0; i < count; i++) {
            const struct aml_item *item = data_item(one, use, i);
            assert_int_equal(data_item_place(one, use, item), i);
            assert_int_equal(data_item_place(other, use, data_item(other, use, i)), i);
            assert_memory_equal(item, data_item(other, use, i), sizeof *item + item->size);
            assert_true(one->ids[use][i] == other->ids[use][i]);
        }
    }
}

/* Checks that both sets have the same items in all blocks. Uses the parts several times, as clocks do. */
static void check_same(struct data_set *one, struct data_set *other) {
    const void *items;
    const void *other_items;
    struct error error = {0};
    assert_int_equal(one->count, other->count);
    assert_true(one->totals[0] == other->totals[0]);
    for (unsigned clock = 0; clock < 2 * one->clocks + 1; clock++) {
        unsigned part = clock % one->clocks;
        assert_int_equal(data_part_begin(other, part, &error), 0);
        for (unsigned slice = 0; slice < one->slices; slice++) {
            for (unsigned block = 0; block < one->threads * one->bins; block++) {
                unsigned thread = block / one->bins;
                size_t count = data_block(one, part, slice, thread, block % one->bins, &items);
                size_t other_count = data_block(other, part, slice, thread, block % one->bins, &other_items);
                same_items(one, count, items, other_count, other_items);
            }
        }
        assert_int_equal(data_part_end(other, &error), 0);
    }
    assert_int_equal(data_tests_begin(other, &error), 0);
    for (unsigned thread = 0; thread < one->threads; thread++) {
        size_t count = data_tests(one, thread, &items);
        size_t other_count = data_tests(other, thread, &other_items);
        same_items(one, count, items, other_count, other_items);
    }
    check_same_places(one, other);
    data_set_forget(other);
}

static void take_all(struct fixture *f) {
    data_pin(&f->data, f->shards, SHARDS);
    read_items(f);
}

/* Compares sets with and without a limit, of all shards, then of half of them. */
static void compare(enum kind kind, size_t limit, const struct data_dealing *dealing) {
    CLOSED_BY(fixture_close) struct fixture whole;
    CLOSED_BY(fixture_close) struct fixture spilled;
    fixture_open(&whole, kind, 0);
    fixture_open(&spilled, kind, limit);
    take_all(&whole);
    take_all(&spilled);
    struct data_set one = arrange(&whole, SHARDS, dealing);
    struct data_set other = arrange(&spilled, SHARDS, dealing);
    assert_null(one.disk);
    assert_true((other.disk != NULL) == (kind != RATINGS));
    assert_true(spilled.spill.bytes > 0 || kind == RATINGS);
    check_same(&one, &other);
    struct data_set half = arrange(&whole, SHARDS / 2, dealing);
    struct data_set other_half = arrange(&spilled, SHARDS / 2, dealing);
    data_set_close(&whole.data, &one);
    data_set_close(&spilled.data, &other);
    check_same(&half, &other_half);
    data_set_close(&whole.data, &half);
    data_set_close(&spilled.data, &other_half);
}

TEST(the_same_items_in_the_same_blocks) {
    const struct data_dealing dealings[] = {{.clocks = CLOCKS, .threads = 3, .lots = 2, .seed = 5},
                                            {.clocks = 1, .threads = 2, .seed = 6},
                                            {.clocks = 7, .threads = 1, .lots = 3, .seed = 7}};
    for (unsigned d = 0; d < sizeof dealings / sizeof *dealings; d++) {
        for (unsigned kind = SAMPLES; kind <= DOCUMENTS; kind++) {
            compare(kind, LITTLE, &dealings[d]);
        }
        compare(SAMPLES, 1 << 20, &dealings[d]); /* records in memory at first, then on disk */
        compare(DOCUMENTS, 1 << 20, &dealings[d]);
    }
}

/* With more parts than items most parts are empty. */
TEST(more_parts_than_items) {
    compare(SAMPLES, LITTLE, &(struct data_dealing){.clocks = 10000, .threads = 2, .seed = 5});
}

TEST(what_fits_stays_in_memory) {
    CLOSED_BY(fixture_close) struct fixture f;
    const struct data_dealing dealing = {.clocks = 4, .threads = 2, .seed = 5};
    fixture_open(&f, DOCUMENTS, 64 << 20);
    take_all(&f);
    struct data_set set = arrange(&f, SHARDS, &dealing);
    assert_null(set.disk);
    assert_true(f.spill.bytes == 0);
    data_set_close(&f.data, &set);
}

/* Shards are packed from disk as from memory. A node with little memory receives them and makes the same set. */
TEST(shards_from_disk_for_other_nodes) {
    const struct data_dealing dealing = {.clocks = 5, .threads = 2, .seed = 5};
    for (unsigned kind = SAMPLES; kind <= DOCUMENTS; kind++) {
        if (kind == RATINGS) {
            continue;
        }
        CLOSED_BY(fixture_close) struct fixture whole;
        CLOSED_BY(fixture_close) struct fixture spilled;
        CLOSED_BY(fixture_close) struct fixture taker;
        fixture_open(&whole, kind, 0);
        fixture_open(&spilled, kind, LITTLE);
        fixture_open(&taker, kind, LITTLE);
        take_all(&whole);
        take_all(&spilled);
        data_pin(&taker.data, taker.shards, SHARDS);
        for (uint32_t s = 0; s < SHARDS; s++) {
            struct buffer *one = data_pack(&whole.data, s, NULL);
            struct buffer *other = data_pack(&spilled.data, s, NULL);
            assert_int_equal(one->size, other->size);
            assert_memory_equal(one->data, other->data, one->size);
            assert_true(data_unpack(&taker.data, s, other->data, other->size));
            buffer_drop(one);
            buffer_drop(other);
        }
        assert_in_range(taker.data.bytes, 0, LITTLE);
        struct data_set one = arrange(&whole, SHARDS, &dealing);
        struct data_set other = arrange(&taker, SHARDS, &dealing);
        check_same(&one, &other);
        data_set_close(&whole.data, &one);
        data_set_close(&taker.data, &other);
    }
}

/* An unpinned shard is dropped from the disk too, and read again when it is pinned. */
TEST(shards_that_are_left_are_dropped) {
    CLOSED_BY(fixture_close) struct fixture whole;
    CLOSED_BY(fixture_close) struct fixture f;
    const struct data_dealing dealing = {.clocks = 5, .threads = 2, .seed = 5};
    fixture_open(&whole, DOCUMENTS, 0);
    take_all(&whole);
    fixture_open(&f, DOCUMENTS, LITTLE);
    take_all(&f);
    data_unpin(&f.data, f.shards + SHARDS / 2, SHARDS / 2);
    for (uint32_t s = 0; s < SHARDS; s++) {
        assert_int_equal(data_has(&f.data, s), s < SHARDS / 2);
        const struct data_records *records = &f.data.shards[s].records[AML_TRAIN];
        assert_true((records->on_disk > 0) == (s < SHARDS / 2));
        for (uint32_t e = 0; e < records->extent_count; e++) {
            assert_true(records->extents[e].on_disk == (records->extents[e].records == NULL));
        }
    }
    assert_false(data_pin(&f.data, f.shards + SHARDS / 2, SHARDS / 2));
    read_items(&f);
    struct data_set one = arrange(&whole, SHARDS, &dealing);
    struct data_set other = arrange(&f, SHARDS, &dealing);
    check_same(&one, &other);
    data_set_close(&whole.data, &one);
    data_set_close(&f.data, &other);
}

/* Changes a byte of the file without its owner's knowledge. */
static void damage(const struct spill_file *file, uint64_t offset) {
    unsigned char byte;
    assert_int_equal(pread(file->descriptor, &byte, 1, (off_t)offset), 1);
    byte ^= 1;
    assert_int_equal(pwrite(file->descriptor, &byte, 1, (off_t)offset), 1);
}

TEST(damaged_records_are_an_error) {
    const struct data_dealing dealing = {.clocks = 5, .threads = 2, .seed = 5};
    for (unsigned kind = SAMPLES; kind <= DOCUMENTS; kind++) {
        CLOSED_BY(fixture_close) struct fixture f;
        struct data_set set;
        struct error error = {0};
        fixture_open(&f, kind, LITTLE);
        take_all(&f);
        const struct data_extent *extent = &f.data.shards[7].records[AML_TRAIN].extents[0];
        damage(&f.data.limit.records, extent->offset + extent->bytes / 2);
        if (kind != RATINGS) {
            assert_null(data_pack(&f.data, 7, NULL));
        }
        assert_int_equal(try_arrange(&f, SHARDS, &dealing, &set, &error), AML_EFAIL);
        assert_non_null(strstr(error.text, "/var/tmp: data read back at byte"));
    }
}

TEST(damaged_items_are_an_error) {
    const struct data_dealing dealing = {.clocks = CLOCKS, .threads = 2, .seed = 5};
    CLOSED_BY(fixture_close) struct fixture f;
    struct error error = {0};
    fixture_open(&f, SAMPLES, LITTLE);
    take_all(&f);
    struct data_set set = arrange(&f, SHARDS, &dealing);
    damage(&set.disk->file, set.disk->tests_at - SPILL_BLOCK);
    damage(&set.disk->file, set.disk->file.size - 1);
    unsigned part = 0;
    while (part < CLOCKS && data_part_begin(&set, part, &error) == 0) {
        part++;
    }
    assert_in_range(part, 1, CLOCKS - 1);
    assert_non_null(strstr(error.text, "/var/tmp: data read back at byte"));
    error = (struct error){0};
    assert_int_equal(data_tests_begin(&set, &error), AML_EFAIL);
    data_set_close(&f.data, &set);
}

/* Runs `act` with a limit of `bytes` on files' sizes, like a full disk. */
static void with_a_full_disk(rlim_t bytes, void (*act)(struct fixture *f), struct fixture *f) {
    struct rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    struct rlimit little = {.rlim_cur = bytes, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &little);
    act(f);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
}

static void arrange_in_vain(struct fixture *f) {
    const struct data_dealing dealing = {.clocks = 5, .threads = 2, .seed = 5};
    struct data_set set;
    struct error error = {0};
    assert_int_equal(try_arrange(f, SHARDS, &dealing, &set, &error), AML_EFAIL);
    assert_non_null(strstr(error.text, "/var/tmp: can't write"));
}

TEST(a_full_disk_is_an_error) {
    struct fixture f;
    struct error error = {0};
    fixture_open(&f, SAMPLES, LITTLE);
    with_a_full_disk(200 << 10, take_all, &f);
    assert_true(data_failed(&f.data, &error));
    assert_non_null(strstr(error.text, "/var/tmp: can't write"));
    assert_non_null(strstr(error.text, "File too large"));
    assert_false(data_has(&f.data, 0)); /* no shard counts as read */
    fixture_close(&f);
    fixture_open(&f, SAMPLES, LITTLE);
    take_all(&f);
    with_a_full_disk(200 << 10, arrange_in_vain, &f);
    fixture_close(&f);
}

TEST(a_folder_that_is_not_there_is_an_error) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct error error = {0};
    fixture_open(&f, SAMPLES, LITTLE);
    snprintf(f.spill.folder, sizeof f.spill.folder, "/var/tmp/no such folder");
    take_all(&f);
    assert_true(data_failed(&f.data, &error));
    assert_non_null(strstr(error.text, "/var/tmp/no such folder: can't make a file"));
}

/* ---- Arenas ---- */

/* Adds rows to the cache's first table up to `rows` rows, and checks that no row has lost its value. */
static void fill_cache(struct cache *cache, uint64_t rows) {
    assert_int_equal(cache_reserve(cache, 0, rows), 0);
    for (uint64_t key = cache->tables[0].count; key < rows; key++) {
        uint32_t slot = (uint32_t)cache_add(cache, 0, key);
        memcpy(cache_row(&cache->tables[0], slot), &key, sizeof key);
    }
    for (uint32_t slot = 0; slot < rows; slot++) {
        uint64_t value;
        memcpy(&value, cache_row(&cache->tables[0], slot), sizeof value);
        assert_true(value == slot);
    }
}

static void fill_in_vain(struct fixture *f) {
    assert_int_equal(cache_reserve(&f->cache, 0, 400000), AML_ENOMEM);
    fill_cache(&f->cache, 200000); /* the earlier rows are unchanged */
}

/* Reserved but unused room takes no file. */
TEST(reserved_rows_are_in_memory) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct arena_files files = {.open = NULL};
    fixture_open(&f, RATINGS, 0);
    cache_close(&f.cache);
    spill_arenas(&f.spill, &files, 9 << 18);
    f.job.tables[0].files = &files;
    cache_open(&f.cache, &f.job, PARTITIONS);
    assert_int_equal(cache_reserve(&f.cache, 0, 200000), 0); /* 9 MiB with keys and clocks, of which an eighth counts */
    fill_cache(&f.cache, 1000);
    assert_false(f.cache.tables[0].rows.filed);
    assert_true(files.used == 9 << 17 && files.bytes == 0);
    fill_cache(&f.cache, 50000);
    assert_true(files.used == 9 << 17);
    fill_cache(&f.cache, 70000); /* counted at each doubling */
    assert_true(files.used == 9 << 18);
    cache_close(&f.cache);
    assert_true(files.used == 0);
    cache_open(&f.cache, &f.job, PARTITIONS);
    assert_int_equal(cache_reserve(&f.cache, 0, 2000000), 0); /* too much, even if unused */
    assert_true(f.cache.tables[0].rows.filed);
}

/* Rows beyond the memory limit move to a file, which grows with the rows and is removed with them. */
TEST(rows_of_put_tables_beyond_memory_are_in_a_file) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct arena_files files = {.open = NULL};
    fixture_open(&f, RATINGS, 0);
    cache_close(&f.cache);
    spill_arenas(&f.spill, &files, 3 << 20);
    f.job.tables[0].files = &files;
    cache_open(&f.cache, &f.job, PARTITIONS);
    fill_cache(&f.cache, 1000);
    assert_false(f.cache.tables[0].rows.filed);
    assert_true(files.used > 0 && files.bytes == 0);
    fill_cache(&f.cache, 100000); /* within the room reserved before */
    assert_false(f.cache.tables[0].rows.filed);
    fill_cache(&f.cache, 200000);
    assert_true(f.cache.tables[0].rows.filed);
    assert_false(f.cache.tables[0].keys.filed);
    /* keys, clocks and others of 20 bytes a row in memory; rows of 16 bytes in the file */
    assert_true(files.used == 5 << 19 && files.bytes == 4 << 20);
    with_a_full_disk(5 << 20, fill_in_vain, &f);
    fill_cache(&f.cache, 400000);
    assert_true(f.cache.tables[0].keys.filed);
    assert_true(files.bytes == 12 << 20);
    cache_close(&f.cache);
    assert_true(files.used == 0 && files.bytes == 0);
    cache_open(&f.cache, &f.job, PARTITIONS);
}

/* ---- Memory of machine and cgroup ---- */

TEST(the_memory_of_machine_and_cgroup) {
    const char *root = ".";
    assert_int_equal(files_open(state), 0);
    assert_true(machine_memory(root) == 0);
    write_text("proc/meminfo", "MemTotal:        1000 kB\nMemFree: 5 kB\n");
    assert_true(machine_memory(root) == 1000 * 1024);
    write_text("proc/self/cgroup", "5:cpu,memory:/a/b\n0::/x/y\n");
    write_text("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(machine_memory(root) == 1000 * 1024);
    write_text("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "900000\n");
    assert_true(machine_memory(root) == 900000);
    write_text("sys/fs/cgroup/x/y/memory.max", "max\n");
    assert_true(machine_memory(root) == 900000);
    write_text("sys/fs/cgroup/x/memory.max", "800000\n");
    assert_true(machine_memory(root) == 800000);
    write_text("proc/self/cgroup", "0::/\n"); /* as in a container */
    write_text("sys/fs/cgroup/memory.max", "700000\n");
    assert_true(machine_memory(root) == 700000);
    assert_true(machine_memory("") > 1 << 20);
    assert_int_equal(files_close(state), 0);
}

TEST(the_processors_of_machine_and_cgroup) {
    const char *root = ".";
    assert_int_equal(files_open(state), 0);
    unsigned all = machine_processors(root);
    assert_true(all >= 1);
    write_text("proc/self/cgroup", "5:cpu,memory:/a/b\n0::/x/y\n");
    write_text("sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
    write_text("sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
    write_text("sys/fs/cgroup/x/cpu.max", "max 100000\n");
    assert_int_equal(machine_processors(root), all);
    write_text("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "150000\n");
    write_text("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    assert_int_equal(machine_processors(root), all < 2 ? all : 2);
    write_text("sys/fs/cgroup/x/cpu.max", "50000 100000\n");
    assert_int_equal(machine_processors(root), 1);
    assert_int_equal(files_close(state), 0);
}

TEST(sizes) {
    const struct {
        const char *text;
        uint64_t bytes; /* 0: the text is refused */
    } sizes[] = {{"512M", 512 << 20},
                 {"4G", UINT64_C(4) << 30},
                 {"700", 700 << 20},
                 {"1.5g", UINT64_C(3) << 29},
                 {"2TiB", UINT64_C(2) << 40},
                 {"1024K", 1 << 20},
                 {"64MB", 64 << 20},
                 {"1", 1 << 20},
                 {"", 0},
                 {"0", 0},
                 {"-1G", 0},
                 {"1X", 0},
                 {"1Gb", 0},
                 {"1 G", 0},
                 {"G", 0},
                 {"nan", 0},
                 {"0x10M", 0},
                 {"1023K", 0},
                 {"1e30", 0},
                 {"1M2", 0}};
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint64_t bytes = 0;
        struct error error = {0};
        int result = memory_size_parse(sizes[s].text, "memory", &bytes, &error);
        assert_int_equal(result, sizes[s].bytes > 0 ? 0 : AML_EINPUT);
        assert_true(bytes == sizes[s].bytes);
        assert_true((error.code != 0) == (sizes[s].bytes == 0));
    }
}
