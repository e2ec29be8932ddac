/* workers/data/data.c: each item of a set's shards is in exactly one block of an iteration, and blocks that run in
 * parallel share no row. The order depends only on seed and keys, not on the order of reading. Items of different
 * sizes are divided into parts of equal size. Records are kept within the budget, and in memory once where they are
 * the items. Dropped records are read again and counted once. */
#include "tests/test.h"
#include "workers/client/cache.h"
#include "workers/data/data.h"

#include <math.h>

enum { USERS = 300, ITEMS = 90, RATINGS = 5000, SHARDS = 64, PARTITIONS = 3 };
/* A rating as read; its slots are set once its shard is in a set. */
enum { RECORD_BYTES = 2 * sizeof(uint64_t) + sizeof(float), ALL_BYTES = RATINGS * RECORD_BYTES };
enum { ITEM_BYTES = 2 * sizeof(uint32_t) + sizeof(float) };

struct fixture {
    struct job job;
    struct cache cache;
    struct data_rows rows;
    struct data data;
    struct aml_app app;
};

struct item {
    uint32_t user, item;
    float value; /* the rating's number, n */
};

struct shards {
    uint32_t numbers[SHARDS];
    uint32_t count;
};

/* Every `step`th shard from `from` on. */
static struct shards some_shards(uint32_t from, uint32_t step) {
    struct shards shards = {.count = 0};
    for (uint32_t s = from; s < SHARDS; s += step) {
        shards.numbers[shards.count++] = s;
    }
    return shards;
}

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
    struct cache *cache = context;
    for (size_t i = 0; i < count; i++) {
        assert_in_range(slots[i], 0, cache->tables[table].count - 1);
        cache_use(cache, table, slots[i], 1);
    }
}

static void fixture_open(struct fixture *f, size_t budget) {
    memset(f, 0, sizeof *f);
    f->job.table_count = 2;
    for (unsigned t = 0; t < 2; t++) {
        f->job.tables[t] = (struct table_spec){.type = AML_FLOAT32, .width = 2, .row_bytes = 8};
    }
    f->app = (struct aml_app){.table_count = 2, .item_rows = 2, .item_tables = {0, 1}, .item_bytes = sizeof(float)};
    cache_open(&f->cache, &f->job, PARTITIONS);
    f->rows = (struct data_rows){.slots = cache_slots, .use = slots_use, .context = &f->cache};
    data_open(&f->data, &f->app, SHARDS, budget);
}

static void fixture_close(struct fixture *f) {
    data_close(&f->data);
    cache_close(&f->cache);
}

/* The user and item of rating `n`. */
static void rating_keys(unsigned n, uint64_t keys[2]) {
    keys[0] = 1000000007ULL * (hash_mix(n) % USERS);
    keys[1] = hash_mix(n + 77) % ITEMS * 3;
}

/* Adds 1 to the first sum for each item, and its number to the first maximum. */
static void count_item(struct fixture *f, struct data_chunk *chunk, unsigned n) {
    double *totals = data_totals(&f->data, chunk);
    if (totals != NULL) {
        totals[0] += 1;
        totals[WIRE_TOTALS / 2] = fmax(totals[WIRE_TOTALS / 2], n);
    }
}

/* Reads all ratings in `chunks` chunks and closes these in the given direction. Returns how many items data_emit
 * kept. */
static size_t read_all(struct fixture *f, unsigned chunks, bool backwards) {
    size_t kept = 0;
    data_read_begin(&f->data);
    for (unsigned c = 0; c < chunks; c++) {
        unsigned number = backwards ? chunks - 1 - c : c;
        struct data_chunk *chunk = data_chunk_open(&f->data, number, number);
        for (unsigned n = RATINGS * number / chunks; n < RATINGS * (number + 1) / chunks; n++) {
            uint64_t keys[2];
            float value = (float)n;
            rating_keys(n, keys);
            kept += data_emit(&f->data, chunk, n % 10 == 0 ? AML_TEST : AML_TRAIN, keys, &value) == 1 ? 1 : 0;
            count_item(f, chunk, n);
        }
        data_chunk_close(&f->data, chunk);
    }
    data_read_end(&f->data, true);
    return kept;
}

/* Makes a set of pinned shards that are in memory. */
static struct data_set arrange(struct fixture *f, const struct shards *shards, unsigned clocks, unsigned threads,
                               uint64_t seed) {
    struct data_set set;
    struct error error = {0};
    const struct data_dealing dealing = {.clocks = clocks, .threads = threads, .seed = seed};
    assert_int_equal(data_arrange(&f->data, shards->numbers, shards->count, &dealing, &f->rows, &set, &error), 0);
    return set;
}

/* Pins the shards, reads the missing ones, and arranges them. */
static struct data_set take(struct fixture *f, const struct shards *shards, bool must_read) {
    bool here = data_pin(&f->data, shards->numbers, shards->count);
    assert_int_equal(here, !must_read);
    if (must_read) {
        read_all(f, 5, false);
    }
    return arrange(f, shards, 2, 2, 5);
}

/* The shard of an item by its first key, or by its number. */
static uint32_t shard_of(const struct data *data, uint64_t key) {
    const uint64_t salt = UINT64_C(0x5368617264696E67);
    return (uint32_t)((hash_mix(key ^ salt) >> 16) % data->shard_count);
}

static bool in_shards(const struct fixture *f, const struct shards *shards, unsigned n) {
    uint64_t keys[2];
    rating_keys(n, keys);
    uint32_t shard = shard_of(&f->data, keys[0]);
    for (uint32_t s = 0; s < shards->count; s++) {
        if (shards->numbers[s] == shard) {
            return true;
        }
    }
    return false;
}

static void check_item(const struct fixture *f, const struct item *item, unsigned *seen) {
    unsigned n = (unsigned)item->value;
    uint64_t keys[2];
    rating_keys(n, keys);
    assert_true(n < RATINGS);
    assert_true(cache_key(&f->cache.tables[0], item->user) == keys[0]);
    assert_true(cache_key(&f->cache.tables[1], item->item) == keys[1]);
    seen[n]++;
}

/* Checks that the set has exactly the items of these shards, and their totals. */
static void check_set(const struct fixture *f, const struct shards *shards, const struct data_set *set) {
    FREED unsigned *seen = calloc(RATINGS, sizeof *seen);
    const void *items;
    double count = 0;
    double highest = -INFINITY;
    for (unsigned part = 0; part < set->clocks; part++) {
        size_t training = 0;
        for (unsigned block = 0; block < set->threads * set->bins; block++) {
            size_t block_count = data_block(set, part, 0, block / set->bins, block % set->bins, &items);
            for (size_t i = 0; i < block_count; i++) {
                check_item(f, (const struct item *)items + i, seen);
            }
            training += block_count;
        }
        assert_int_equal(training, data_part_count(set, part));
    }
    for (unsigned thread = 0; thread < set->threads; thread++) {
        size_t tests = data_tests(set, thread, &items);
        for (size_t i = 0; i < tests; i++) {
            check_item(f, (const struct item *)items + i, seen);
        }
    }
    for (unsigned n = 0; n < RATINGS; n++) {
        bool wanted = in_shards(f, shards, n);
        assert_int_equal(seen[n], wanted ? 1 : 0);
        count += wanted ? 1 : 0;
        highest = wanted ? fmax(highest, n) : highest;
    }
    assert_true(set->totals[0] == count);
    assert_true(set->totals[1] == 0);
    assert_true(set->totals[WIRE_TOTALS / 2] == highest);
    assert_true(set->totals[WIRE_TOTALS / 2 + 1] == -INFINITY);
    assert_true((double)(set->count + set->test_count) == count);
}

/* Within a round no two threads share a user or item. A user's items stay in one part and thread. */
static void check_arrangement(unsigned clocks, unsigned threads) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards all = some_shards(0, 1);
    unsigned thread_of_user[USERS * 2];
    fixture_open(&f, 0);
    data_pin(&f.data, all.numbers, all.count);
    assert_int_equal(read_all(&f, 7, false), RATINGS);
    struct data_set set = arrange(&f, &all, clocks, threads, 5);
    check_set(&f, &all, &set);
    memset(thread_of_user, 0xFF, sizeof thread_of_user);
    for (unsigned part = 0; part < clocks; part++) {
        for (unsigned round = 0; round < set.bins; round++) {
            unsigned user_of_round[USERS * 2];
            unsigned item_of_round[ITEMS * 2];
            memset(user_of_round, 0xFF, sizeof user_of_round);
            memset(item_of_round, 0xFF, sizeof item_of_round);
            for (unsigned thread = 0; thread < threads; thread++) {
                const void *items;
                size_t count = data_block(&set, part, 0, thread, round, &items);
                for (size_t i = 0; i < count; i++) {
                    const struct item *item = (const struct item *)items + i;
                    assert_true(user_of_round[item->user] == UINT32_MAX || user_of_round[item->user] == thread);
                    assert_true(item_of_round[item->item] == UINT32_MAX || item_of_round[item->item] == thread);
                    assert_true(thread_of_user[item->user] == UINT32_MAX ||
                                thread_of_user[item->user] == part * threads + thread);
                    user_of_round[item->user] = item_of_round[item->item] = thread;
                    thread_of_user[item->user] = part * threads + thread;
                }
            }
        }
    }
    assert_int_equal(set.count, RATINGS * 9 / 10);
    data_set_close(&f.data, &set);
}

TEST(every_item_once_and_no_shared_rows) {
    for (unsigned clocks = 1; clocks <= 16; clocks *= 4) {
        for (unsigned threads = 1; threads <= 5; threads++) {
            check_arrangement(clocks, threads);
        }
    }
}

TEST(threads_share_the_work) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards all = some_shards(0, 1);
    fixture_open(&f, 0);
    data_pin(&f.data, all.numbers, all.count);
    read_all(&f, 1, false);
    struct data_set set = arrange(&f, &all, 1, 3, 5);
    for (unsigned thread = 0; thread < 3; thread++) {
        size_t count = 0;
        for (unsigned round = 0; round < set.bins; round++) {
            const void *items;
            count += data_block(&set, 0, 0, thread, round, &items);
        }
        assert_in_range(count, RATINGS * 9 / 10 / 3 - 100, RATINGS * 9 / 10 / 3 + 100);
    }
    data_set_close(&f.data, &set);
}

TEST(the_order_does_not_depend_on_who_was_faster) {
    struct fixture f[3];
    struct data_set sets[3];
    struct shards all = some_shards(0, 1);
    for (unsigned i = 0; i < 3; i++) {
        fixture_open(&f[i], ALL_BYTES);
        data_pin(&f[i].data, all.numbers, all.count);
        read_all(&f[i], 9, i == 1);
        sets[i] = arrange(&f[i], &all, 2, 2, i < 2 ? 5 : 6);
    }
    assert_int_equal(sets[0].count, sets[1].count);
    assert_memory_equal(sets[0].items, sets[1].items, sets[0].count * sets[0].item_size);
    assert_memory_not_equal(sets[0].items, sets[2].items, sets[0].count * sets[0].item_size);
    for (unsigned i = 0; i < 3; i++) {
        data_set_close(&f[i].data, &sets[i]);
        fixture_close(&f[i]);
    }
}

TEST(without_a_budget_only_own_shards_are_kept) {
    struct fixture f[2];
    size_t kept = 0;
    for (uint32_t i = 0; i < 2; i++) {
        struct shards own = some_shards(i, 2);
        fixture_open(&f[i], 0);
        data_pin(&f[i].data, own.numbers, own.count);
        size_t own_kept = read_all(&f[i], 3, false);
        assert_in_range(own_kept, RATINGS / 3, RATINGS * 2 / 3);
        assert_true(f[i].data.bytes == own_kept * RECORD_BYTES);
        struct data_set set = arrange(&f[i], &own, 2, 2, 5);
        check_set(&f[i], &own, &set);
        data_set_close(&f[i].data, &set);
        kept += own_kept;
        fixture_close(&f[i]);
    }
    assert_int_equal(kept, RATINGS);
}

TEST(what_fits_is_taken_over_without_reading) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards own = some_shards(0, 2);
    struct shards others = some_shards(1, 2);
    fixture_open(&f, ALL_BYTES);
    struct data_set first = take(&f, &own, true);
    struct data_set second = take(&f, &others, false);
    check_set(&f, &own, &first);
    check_set(&f, &others, &second);
    data_set_close(&f.data, &first);
    data_set_close(&f.data, &second);
    data_unpin(&f.data, own.numbers, own.count);
    data_unpin(&f.data, others.numbers, others.count);
    assert_true(f.data.bytes == RATINGS * ITEM_BYTES);
}

/* Shards that were in a set before are copied: any sets, in any order, equal sets made from the start. */
TEST(a_set_is_the_same_whatever_was_before) {
    struct fixture f[2];
    struct data_set sets[2];
    struct shards all = some_shards(0, 1);
    for (unsigned i = 0; i < 2; i++) {
        fixture_open(&f[i], ALL_BYTES);
        data_pin(&f[i].data, all.numbers, all.count);
        read_all(&f[i], 3, false);
        for (uint32_t part = 0; part < 2; part++) { /* both sets give rows the same slots */
            struct shards half = some_shards(part, 2);
            struct data_set before = arrange(&f[i], &half, 3, 1 + 2 * i, 5);
            check_set(&f[i], &half, &before);
            data_set_close(&f[i].data, &before);
        }
        sets[i] = arrange(&f[i], &all, 3, 2, 5);
        check_set(&f[i], &all, &sets[i]);
    }
    assert_memory_equal(sets[0].items, sets[1].items, sets[0].count * sets[0].item_size);
    assert_memory_equal(sets[0].tests, sets[1].tests, sets[0].test_count * sets[0].item_size);
    for (unsigned i = 0; i < 2; i++) {
        data_set_close(&f[i].data, &sets[i]);
        fixture_close(&f[i]);
    }
}

/* All sets of a node have an item in the same part of the iteration, so a shard may move between two clocks. */
TEST(a_shard_keeps_its_parts) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards all = some_shards(0, 1);
    struct shards third = some_shards(1, 3);
    uint32_t part_of[RATINGS];
    fixture_open(&f, ALL_BYTES);
    data_pin(&f.data, all.numbers, all.count);
    read_all(&f, 3, false);
    struct data_set sets[2] = {arrange(&f, &all, 4, 3, 5), arrange(&f, &third, 4, 1, 5)};
    for (unsigned s = 0; s < 2; s++) {
        const struct item *items = (const struct item *)(const void *)sets[s].items;
        for (unsigned part = 0; part < 4; part++) {
            const void *start;
            data_block(&sets[s], part, 0, 0, 0, &start);
            for (size_t i = 0; i < data_part_count(&sets[s], part); i++) {
                const struct item *item = items + sets[s].starts[part * sets[s].threads * sets[s].bins] + i;
                unsigned n = (unsigned)item->value;
                assert_true(s == 0 || part_of[n] == part);
                part_of[n] = part;
            }
        }
    }
    data_set_close(&f.data, &sets[0]);
    data_set_close(&f.data, &sets[1]);
}

TEST(what_was_dropped_is_read_again_and_counts_once) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards own = some_shards(0, 2);
    struct shards others = some_shards(1, 2);
    fixture_open(&f, ALL_BYTES * 3 / 4); /* the other shards are kept at first, then dropped */
    struct data_set first = take(&f, &own, true);
    assert_true(f.data.bytes == (first.count + first.test_count) * ITEM_BYTES);
    struct data_set second = take(&f, &others, true);
    check_set(&f, &own, &first);
    check_set(&f, &others, &second);
    struct data_set again = arrange(&f, &own, 2, 2, 5);
    check_set(&f, &own, &again);
    assert_true(f.data.bytes == RATINGS * ITEM_BYTES); /* all shards are needed */
    data_set_close(&f.data, &first);
    data_set_close(&f.data, &second);
    data_set_close(&f.data, &again);
}

TEST(what_was_left_longest_ago_goes_first) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards quarters[4];
    fixture_open(&f, ALL_BYTES * 3 / 5);
    for (uint32_t q = 0; q < 4; q++) {
        if (q == 3) {
            data_unpin(&f.data, quarters[1].numbers, quarters[1].count);
            data_unpin(&f.data, quarters[0].numbers, quarters[0].count);
        }
        quarters[q] = some_shards(q, 4);
        /* not all other shards that were read at the same time fit */
        struct data_set set = take(&f, &quarters[q], true);
        check_set(&f, &quarters[q], &set);
        data_set_close(&f.data, &set);
    }
    assert_true(f.data.bytes <= ALL_BYTES * 3 / 5);
    assert_true(data_pin(&f.data, quarters[0].numbers, quarters[0].count));
    assert_false(data_pin(&f.data, quarters[1].numbers, quarters[1].count));
}

/* A failed reading leaves nothing; the next reading reads what was missing. */
TEST(half_a_reading_counts_for_nothing) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards own = some_shards(0, 3);
    fixture_open(&f, ALL_BYTES);
    assert_false(data_pin(&f.data, own.numbers, own.count));
    data_read_begin(&f.data);
    struct data_chunk *chunk = data_chunk_open(&f.data, 1, 1); /* chunk 0 is never read */
    for (unsigned n = 0; n < RATINGS / 2; n++) {
        uint64_t keys[2];
        float value = (float)n;
        rating_keys(n, keys);
        data_emit(&f.data, chunk, AML_TRAIN, keys, &value);
        count_item(&f, chunk, n);
    }
    data_chunk_close(&f.data, chunk);
    data_read_end(&f.data, false);
    assert_true(f.data.bytes == 0);
    read_all(&f, 4, true);
    struct data_set set = arrange(&f, &own, 3, 2, 5);
    check_set(&f, &own, &set);
    data_set_close(&f.data, &set);
}

/* Items without rows are assigned to shards by their place in the input, which is the same on every node. */
TEST(items_without_rows) {
    unsigned seen[RATINGS] = {0};
    for (uint32_t node = 0; node < 2; node++) {
        CLOSED_BY(fixture_close) struct fixture f;
        struct shards own = some_shards(node, 2);
        fixture_open(&f, 0);
        f.app.item_rows = 0;
        data_close(&f.data);
        data_open(&f.data, &f.app, SHARDS, 0);
        data_pin(&f.data, own.numbers, own.count);
        read_all(&f, 3, node == 1);
        struct data_set set = arrange(&f, &own, 4, 2, 5);
        assert_in_range(set.count, RATINGS * 9 / 10 / 3, RATINGS * 9 / 10 * 2 / 3);
        for (size_t i = 0; i < set.count + set.test_count; i++) {
            float value;
            const unsigned char *items = i < set.count ? set.items : set.tests;
            memcpy(&value, items + (i < set.count ? i : i - set.count) * sizeof value, sizeof value);
            seen[(unsigned)value]++;
        }
        data_set_close(&f.data, &set);
    }
    for (unsigned n = 0; n < RATINGS; n++) {
        assert_int_equal(seen[n], 1);
    }
}

/* ---- The fingerprint ---- */

enum change { CHANGE_NOTHING, CHANGE_BYTES, CHANGE_KEY, CHANGE_USE, CHANGE_SWAP, CHANGE_LESS, CHANGE_TWICE, CHANGES };

/* Emits item `n` with the change, which concerns item 500 only. CHANGE_SWAP exchanges the bytes of items 500 and
 * 510. */
static void emit_changed(struct fixture *f, struct data_chunk *chunk, unsigned n, enum change change) {
    uint64_t keys[2];
    unsigned bytes = change == CHANGE_SWAP && (n == 500 || n == 510) ? 1010 - n : n;
    float value = (float)bytes + (change == CHANGE_BYTES && n == 500 ? 0.5F : 0);
    enum aml_item_use use = (n % 10 == 0) != (change == CHANGE_USE && n == 500) ? AML_TEST : AML_TRAIN;
    rating_keys(n, keys);
    keys[1] += change == CHANGE_KEY && n == 500 ? 1 : 0;
    for (unsigned times = n != 500                 ? 1
                          : change == CHANGE_TWICE ? 2
                          : change == CHANGE_LESS  ? 0
                                                   : 1;
         times > 0; times--) {
        data_emit(&f->data, chunk, use, keys, &value);
    }
}

static bool read_changed(struct fixture *f, unsigned chunks, bool backwards, enum change change) {
    data_read_begin(&f->data);
    for (unsigned c = 0; c < chunks; c++) {
        unsigned number = backwards ? chunks - 1 - c : c;
        struct data_chunk *chunk = data_chunk_open(&f->data, number, number);
        /* as if from another thread */
        struct data_chunk *other = data_chunk_open(&f->data, chunks + number, chunks + number);
        for (unsigned n = RATINGS * number / chunks; n < RATINGS * (number + 1) / chunks; n++) {
            emit_changed(f, n % 3 == 0 ? other : chunk, n, change);
        }
        data_chunk_close(&f->data, chunk);
        data_chunk_close(&f->data, other);
    }
    data_read_end(&f->data, true);
    return data_input_news(&f->data);
}

/* The fingerprint depends neither on what a node keeps nor on the order of its threads' reading. */
TEST(every_node_has_the_same_fingerprint) {
    struct wire_input_shard first[SHARDS];
    for (unsigned node = 0; node < 4; node++) {
        CLOSED_BY(fixture_close) struct fixture f;
        struct shards own = some_shards(node, 4);
        fixture_open(&f, node % 2 == 0 ? 0 : ALL_BYTES);
        data_pin(&f.data, own.numbers, own.count);
        assert_true(read_changed(&f, 1 + 3 * node, node > 1, CHANGE_NOTHING));
        memcpy(node == 0 ? first : f.data.input, node == 0 ? f.data.input : first, node == 0 ? sizeof first : 0);
        assert_memory_equal(f.data.input, first, sizeof first);
        uint64_t items = 0;
        for (unsigned s = 0; s < SHARDS; s++) {
            items += first[s].items;
        }
        assert_int_equal(items, RATINGS);
    }
}

/* An item differs in its bytes, a key or a flag, is missing, or is there twice; or two items have exchanged bytes. */
TEST(whatever_differs_in_one_item_is_in_the_fingerprint) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct wire_input_shard first[SHARDS];
    uint64_t keys[2];
    fixture_open(&f, 0);
    assert_true(read_changed(&f, 4, false, CHANGE_NOTHING));
    memcpy(first, f.data.input, sizeof first);
    rating_keys(500, keys);
    uint32_t shard = shard_of(&f.data, keys[0]);
    for (enum change change = CHANGE_BYTES; change < CHANGES; change++) {
        assert_true(read_changed(&f, 4, true, change));
        unsigned differ = 0;
        for (unsigned s = 0; s < SHARDS; s++) {
            differ += memcmp(&f.data.input[s], &first[s], sizeof *first) != 0;
        }
        assert_true(memcmp(&f.data.input[shard], &first[shard], sizeof *first) != 0);
        assert_in_range(differ, 1, change == CHANGE_SWAP ? 2 : 1);
        assert_int_equal(f.data.input[shard].items + (change == CHANGE_LESS) - (change == CHANGE_TWICE),
                         first[shard].items);
        assert_true(read_changed(&f, 3, false, CHANGE_NOTHING)); /* the fingerprint is new again, */
        assert_memory_equal(f.data.input, first, sizeof first);
        assert_false(read_changed(&f, 5, false, CHANGE_NOTHING)); /* and then unchanged */
    }
    data_read_begin(&f.data);
    data_read_end(&f.data, false);
    assert_false(data_input_news(&f.data)); /* half a reading gives no fingerprint */
    assert_memory_equal(f.data.input, first, sizeof first);
}

/* Every byte of an item counts, at any length, and so does the length. */
TEST(each_byte_of_an_item_is_hashed) {
    static unsigned char bytes[300];
    for (size_t size = 0; size < sizeof bytes; size++) {
        uint64_t hash = hash_bytes(bytes, size, 7);
        assert_true(hash != hash_bytes(bytes, size + 1, 7) && hash != hash_bytes(bytes, size, 8));
        for (size_t b = 0; b < size; b++) {
            bytes[b] = 1;
            assert_true(hash_bytes(bytes, size, 7) != hash);
            bytes[b] = 0;
        }
    }
}

/* ---- Samples: fixed items without rows ---- */

enum { SAMPLE_FLOATS = 5 };

static void samples_open(struct fixture *f, size_t budget) {
    fixture_open(f, budget);
    data_close(&f->data);
    f->app.item_rows = 0;
    f->app.item_bytes = SAMPLE_FLOATS * sizeof(float);
    data_open(&f->data, &f->app, SHARDS, budget);
}

/* Sample `n` has the values n, n + 1, ... Returns how many samples were kept. */
static size_t read_samples(struct fixture *f) {
    size_t kept = 0;
    data_read_begin(&f->data);
    struct data_chunk *chunk = data_chunk_open(&f->data, 0, 0);
    for (unsigned n = 0; n < RATINGS; n++) {
        float sample[SAMPLE_FLOATS];
        for (unsigned i = 0; i < SAMPLE_FLOATS; i++) {
            sample[i] = (float)(n + i);
        }
        kept += data_emit(&f->data, chunk, n % 10 == 0 ? AML_TEST : AML_TRAIN, NULL, sample) == 1 ? 1 : 0;
        count_item(f, chunk, n);
    }
    data_chunk_close(&f->data, chunk);
    data_read_end(&f->data, true);
    return kept;
}

static void check_sample(const float *sample, unsigned *seen) {
    for (unsigned i = 1; i < SAMPLE_FLOATS; i++) {
        assert_true(sample[i] == sample[0] + (float)i);
    }
    seen[(unsigned)sample[0]]++;
}

/* Counts the set's samples, which form matrices. */
static void see_samples(const struct data_set *set, unsigned *seen) {
    for (size_t i = 0; i < set->count; i++) {
        check_sample((const float *)(const void *)set->items + i * SAMPLE_FLOATS, seen);
    }
    for (size_t i = 0; i < set->test_count; i++) {
        check_sample((const float *)(const void *)set->tests + i * SAMPLE_FLOATS, seen);
    }
    assert_true(set->totals[0] == (double)(set->count + set->test_count));
}

static struct data_set arrange_samples(struct fixture *f, const struct shards *shards) {
    data_pin(&f->data, shards->numbers, shards->count);
    return arrange(f, shards, 4, 3, 5);
}

static void drop_samples(struct fixture *f, const struct shards *shards, struct data_set *set) {
    data_unpin(&f->data, shards->numbers, shards->count);
    data_set_close(&f->data, set);
}

TEST(samples_are_dealt_in_equal_numbers) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards own = some_shards(0, 2);
    samples_open(&f, 0);
    data_pin(&f.data, own.numbers, own.count);
    read_samples(&f);
    struct data_set set = arrange(&f, &own, 4, 3, 5);
    const void *items;
    const void *end = set.items;
    for (unsigned part = 0; part < 4; part++) {
        assert_in_range(data_part_count(&set, part), set.count / 4 - own.count, set.count / 4 + own.count);
        for (unsigned thread = 0; thread < 3; thread++) {
            size_t count = data_block(&set, part, 0, thread, 0, &items);
            assert_in_range(count, data_part_count(&set, part) / 3, data_part_count(&set, part) / 3 + 1);
            assert_ptr_equal(items, end); /* the whole clock is one matrix */
            end = (const float *)items + count * SAMPLE_FLOATS;
        }
    }
    data_set_close(&f.data, &set);
}

/* Sets are made from live sets, in any order. Samples in no set are kept within the budget. */
TEST(samples_are_in_memory_once) {
    FREED unsigned *seen = calloc(RATINGS, sizeof *seen);
    FREED unsigned *seen_again = calloc(RATINGS, sizeof *seen_again);
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards all = some_shards(0, 1);
    struct shards half = some_shards(0, 2);
    struct shards quarter = some_shards(0, 4);
    size_t all_bytes = RATINGS * SAMPLE_FLOATS * sizeof(float);
    samples_open(&f, all_bytes);
    data_pin(&f.data, half.numbers, half.count);
    assert_int_equal(read_samples(&f), RATINGS);
    struct data_set first = arrange(&f, &half, 4, 3, 5);
    for (uint32_t s = 0; s < SHARDS; s++) {
        assert_true((f.data.shards[s].records[AML_TRAIN].extent_count == 0) == (s % 2 == 0));
    }
    struct data_set second = arrange_samples(&f, &all); /* half of its samples are shared with the first set */
    struct data_set third = arrange_samples(&f, &quarter);
    drop_samples(&f, &all, &second);
    drop_samples(&f, &half, &first);
    see_samples(&third, seen);
    drop_samples(&f, &quarter, &third);
    assert_true(f.data.bytes == all_bytes);
    struct data_set again = arrange_samples(&f, &all);
    see_samples(&again, seen_again);
    for (unsigned n = 0; n < RATINGS; n++) {
        assert_true(seen[n] <= 1);
        assert_int_equal(seen_again[n], 1);
    }
    data_set_close(&f.data, &again);
}

TEST(samples_beyond_the_budget_go) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards half = some_shards(0, 2);
    struct shards other = some_shards(1, 2);
    FREED unsigned *seen = calloc(RATINGS, sizeof *seen);
    samples_open(&f, 0);
    data_pin(&f.data, half.numbers, half.count);
    read_samples(&f);
    struct data_set set = arrange(&f, &half, 4, 3, 5);
    see_samples(&set, seen);
    drop_samples(&f, &half, &set);
    assert_true(f.data.bytes == 0);
    assert_false(data_pin(&f.data, other.numbers, other.count));
    read_samples(&f);
    set = arrange(&f, &other, 4, 3, 5);
    see_samples(&set, seen);
    for (unsigned n = 0; n < RATINGS; n++) {
        assert_int_equal(seen[n], 1);
    }
    data_set_close(&f.data, &set);
}

/* ---- Varied items ---- */

static void varied_open(struct fixture *f, size_t budget) {
    fixture_open(f, budget);
    data_close(&f->data);
    f->app = (struct aml_app){.table_count = 2, .item_varied = 1};
    data_open(&f->data, &f->app, SHARDS, budget);
}

enum { VARIED_ROWS = 200, VARIED_BYTES = 32 };

/* Keys and payload of item `n`: sizes are skewed; some items have no rows, or few bytes. */
struct varied {
    uint64_t keys[3][VARIED_ROWS];
    struct aml_keys runs[3];
    unsigned char bytes[VARIED_BYTES];
    uint32_t rows;
    size_t size;
};

static void make_varied(unsigned n, struct varied *varied) {
    uint64_t random = hash_mix(n + 1);
    uint32_t counts[3] = {n % 3, n % 50 == 0 ? VARIED_ROWS : (uint32_t)(random % 9), n % 2};
    varied->rows = 0;
    for (unsigned r = 0; r < 3; r++) {
        for (uint32_t i = 0; i < counts[r]; i++) {
            varied->keys[r][i] = r == 0 ? 1000000 + 3 * (uint64_t)n + i : hash_mix(random + r + i) % 500;
        }
        varied->runs[r] = (struct aml_keys){.table = r % 2, .count = counts[r], .keys = varied->keys[r]};
        varied->rows += counts[r];
    }
    varied->size = sizeof n + n % (VARIED_BYTES - sizeof n);
    memset(varied->bytes, (int)(n % 251), sizeof varied->bytes);
    memcpy(varied->bytes, &n, sizeof n);
}

static size_t read_varied(struct fixture *f, unsigned chunks, bool backwards) {
    FREED struct varied *varied = calloc(1, sizeof *varied);
    size_t kept = 0;
    data_read_begin(&f->data);
    for (unsigned c = 0; c < chunks; c++) {
        unsigned number = backwards ? chunks - 1 - c : c;
        struct data_chunk *chunk = data_chunk_open(&f->data, number, number);
        for (unsigned n = RATINGS * number / chunks; n < RATINGS * (number + 1) / chunks; n++) {
            make_varied(n, varied);
            kept += data_emit_varied(&f->data, chunk, n % 10 == 0 ? AML_TEST : AML_TRAIN, n / 2, varied->runs, 3,
                                     varied->bytes, varied->size) == 1;
            count_item(f, chunk, n);
        }
        data_chunk_close(&f->data, chunk);
    }
    data_read_end(&f->data, true);
    return kept;
}

/* The fingerprint of a varied item covers its bytes, its rows' tables, keys, order and counts, and the key that chose
 * its shard. */
TEST(varied_items_are_in_the_fingerprint) {
    struct wire_input_shard first[SHARDS];
    for (unsigned change = 0; change < 7; change++) {
        CLOSED_BY(fixture_close) struct fixture f;
        FREED struct varied *varied = calloc(1, sizeof *varied);
        varied_open(&f, change % 2 == 0 ? 0 : ALL_BYTES);
        data_read_begin(&f.data);
        struct data_chunk *chunk = data_chunk_open(&f.data, 0, 0);
        for (unsigned n = 0; n < 100; n++) {
            make_varied(n, varied);
            if (n == 50) { /* an item with 2, 200 and 0 rows in its runs */
                uint64_t *keys = varied->keys[1];
                uint64_t swapped = keys[0];
                keys[0] = change == 1 ? keys[1] : change == 2 ? keys[0] + 1 : keys[0];
                keys[1] = change == 1 ? swapped : keys[1];
                varied->runs[0].table += change == 3 ? 1 : 0;
                varied->runs[1].count -= change == 4 ? 1 : 0;
                varied->bytes[varied->size - 1] ^= change == 5 ? 1 : 0;
            }
            data_emit_varied(&f.data, chunk, AML_TRAIN, n / 2 + (n == 50 && change == 6 ? 1000 : 0), varied->runs, 3,
                             varied->bytes, varied->size);
        }
        data_chunk_close(&f.data, chunk);
        data_read_end(&f.data, true);
        if (change == 0) {
            memcpy(first, f.data.input, sizeof first);
        }
        assert_true((memcmp(f.data.input, first, sizeof first) != 0) == (change > 0));
    }
}

/* Checks the items of a call, marks them with `mark`, and returns their size in bytes. */
static size_t check_varied(const struct fixture *f, const void *items, size_t count, unsigned mark, unsigned *marks) {
    FREED struct varied *varied = calloc(1, sizeof *varied);
    const struct aml_item *item = items;
    for (size_t i = 0; i < count; i++, item = aml_item_next(item)) {
        const uint32_t *slots = aml_item_slots(item);
        unsigned n;
        memcpy(&n, aml_item_bytes(item), sizeof n);
        assert_true(n < RATINGS);
        make_varied(n, varied);
        assert_int_equal(item->size, varied->size);
        assert_int_equal(item->row_count, varied->rows);
        assert_memory_equal(aml_item_bytes(item), varied->bytes, varied->size);
        for (unsigned r = 0; r < 3; r++) {
            for (uint32_t k = 0; k < varied->runs[r].count; k++) {
                assert_true(cache_key(&f->cache.tables[r % 2], *slots++) == varied->keys[r][k]);
            }
        }
        assert_int_equal(marks[n], 0);
        marks[n] = mark;
    }
    return (size_t)((const unsigned char *)item - (const unsigned char *)items);
}

/* Marks each training item with 1 + its part, and each test item with 1000. Checks that parts and threads have
 * similar sizes. */
static unsigned *mark_varied(const struct fixture *f, const struct data_set *set) {
    unsigned *marks = calloc(RATINGS, sizeof *marks);
    const void *items;
    size_t all = 0;
    size_t least = SIZE_MAX;
    size_t most = 0;
    for (unsigned part = 0; part < set->clocks; part++) {
        for (unsigned thread = 0; thread < set->threads; thread++) {
            size_t count = data_block(set, part, 0, thread, 0, &items);
            size_t bytes = check_varied(f, items, count, 1 + part, marks);
            least = bytes < least ? bytes : least;
            most = bytes > most ? bytes : most;
            all += bytes;
        }
    }
    assert_true(most - least < all / set->clocks / set->threads / 8);
    for (unsigned thread = 0; thread < set->threads; thread++) {
        size_t count = data_tests(set, thread, &items);
        check_varied(f, items, count, 1000, marks);
    }
    return marks;
}

TEST(varied_items_in_equal_sizes) {
    struct fixture f[2];
    struct data_set sets[2];
    unsigned *marks[2];
    struct shards all = some_shards(0, 1);
    struct shards half = some_shards(1, 2);
    for (unsigned i = 0; i < 2; i++) { /* another node with other threads and shards, and another order of reading */
        const struct shards *shards = i == 0 ? &all : &half;
        varied_open(&f[i], 0);
        data_pin(&f[i].data, shards->numbers, shards->count);
        size_t kept = read_varied(&f[i], 3 + i, i == 1);
        assert_true(i == 1 || kept == RATINGS);
        sets[i] = arrange(&f[i], shards, 4, 3 - i, 5);
        assert_int_equal(sets[i].count + sets[i].test_count, kept);
        marks[i] = mark_varied(&f[i], &sets[i]);
    }
    for (unsigned n = 0; n < RATINGS; n++) {
        bool in_half = shard_of(&f[1].data, n / 2) % 2 == 1;
        assert_true(n % 10 == 0 ? marks[0][n] == 1000 : marks[0][n] >= 1 && marks[0][n] <= 4);
        assert_int_equal(marks[1][n], in_half ? marks[0][n] : 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        free(marks[i]);
        data_set_close(&f[i].data, &sets[i]);
        fixture_close(&f[i]);
    }
}

/* Opens a fixture whose varied items are those of an app with transforms: they have no rows. */
static void transformd_open(struct fixture *f, size_t budget) {
    static const struct aml_transform TRANSFORMS[] = {{.name = "transform"}, {.name = NULL}};
    varied_open(f, budget);
    data_close(&f->data);
    f->app.transforms = TRANSFORMS;
    data_open(&f->data, &f->app, SHARDS, budget);
}

/* Items that are their own records outlive their sets. */
TEST(varied_items_without_rows_come_back) {
    struct fixture f[2];
    struct data_set sets[2];
    struct shards all = some_shards(0, 1);
    struct shards half = some_shards(0, 2);
    for (unsigned i = 0; i < 2; i++) {
        transformd_open(&f[i], SIZE_MAX);
        data_pin(&f[i].data, all.numbers, all.count);
        assert_int_equal(read_varied(&f[i], 3, false), RATINGS);
        sets[i] = arrange(&f[i], &all, 4, 3, 5);
    }
    data_unpin(&f[0].data, half.numbers, half.count);
    data_set_close(&f[0].data, &sets[0]);
    assert_true(data_pin(&f[0].data, half.numbers, half.count));
    sets[0] = arrange(&f[0], &all, 4, 3, 5);
    for (unsigned part = 0; part < 4; part++) {
        for (unsigned thread = 0; thread < 3; thread++) {
            const void *items[2];
            size_t counts[2];
            for (unsigned i = 0; i < 2; i++) {
                counts[i] = data_block(&sets[i], part, 0, thread, 0, &items[i]);
            }
            assert_int_equal(counts[0], counts[1]);
            for (size_t n = 0; n < counts[0]; n++) {
                const struct aml_item *item[2] = {items[0], items[1]};
                assert_int_equal(item[0]->size, item[1]->size);
                assert_int_equal(item[0]->row_count, 0);
                assert_memory_equal(aml_item_bytes(item[0]), aml_item_bytes(item[1]), item[1]->size);
                items[0] = aml_item_next(item[0]);
                items[1] = aml_item_next(item[1]);
            }
        }
    }
    assert_int_equal(sets[0].test_count, sets[1].test_count);
    for (unsigned i = 0; i < 2; i++) {
        data_set_close(&f[i].data, &sets[i]);
        fixture_close(&f[i]);
    }
}

TEST(varied_records_keep_to_the_budget) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards half = some_shards(0, 2);
    struct shards other = some_shards(1, 2);
    varied_open(&f, SIZE_MAX);
    data_pin(&f.data, half.numbers, half.count);
    assert_int_equal(read_varied(&f, 4, false), RATINGS);
    size_t bytes = f.data.bytes;
    assert_true(data_pin(&f.data, other.numbers, other.count));
    struct data_set set = arrange(&f, &other, 2, 2, 5);
    free(mark_varied(&f, &set));
    assert_true(set.totals[0] == (double)(set.count + set.test_count));
    data_set_close(&f.data, &set);
    f.data.budget = bytes - 1;
    data_unpin(&f.data, other.numbers, other.count);
    assert_true(f.data.bytes < bytes);
    assert_false(data_pin(&f.data, other.numbers, other.count));
    read_varied(&f, 2, true);
    assert_true(f.data.bytes == bytes);
    set = arrange(&f, &other, 2, 2, 5);
    free(mark_varied(&f, &set));
    data_set_close(&f.data, &set);
}

/* ---- Shards from other nodes ---- */

static uint64_t key_of(const void *context, unsigned table, uint32_t slot) {
    const struct fixture *f = context;
    return cache_key(&f->cache.tables[table], slot);
}

/* Changed bytes are refused, and nothing is kept of them. */
static void refuse_bytes(struct fixture *to, uint32_t shard, const struct buffer *packed) {
    struct buffer *bytes = buffer_copy(packed->data, packed->size);
    assert_false(data_unpack(&to->data, (shard + 1) % SHARDS, bytes->data, bytes->size));
    for (size_t cut = 0; cut < bytes->size; cut += 1 + cut / 3) {
        assert_false(data_unpack(&to->data, shard, bytes->data, cut));
    }
    for (size_t b = 0; b < bytes->size; b += 1 + b / 50) {
        bytes->data[b] ^= 0x40;
        assert_false(data_unpack(&to->data, shard, bytes->data, bytes->size));
        bytes->data[b] ^= 0x40;
    }
    assert_false(data_has(&to->data, shard));
    buffer_drop(bytes);
}

static void give(struct fixture *from, struct fixture *to, const struct shards *shards) {
    const struct data_keys keys = {.key = key_of, .context = from};
    assert_false(data_pin(&to->data, shards->numbers, shards->count));
    for (uint32_t s = 0; s < shards->count; s++) {
        uint32_t shard = shards->numbers[s];
        struct buffer *packed = data_pack(&from->data, shard, &keys);
        assert_non_null(packed);
        refuse_bytes(to, shard, packed);
        assert_true(data_unpack(&to->data, shard, packed->data, packed->size));
        assert_true(data_unpack(&to->data, shard, packed->data, packed->size)); /* a repeat is accepted */
        buffer_drop(packed);
    }
    if (shards->count < SHARDS) {
        assert_null(data_pack(&to->data, (shards->numbers[0] + 1) % SHARDS, &keys));
    }
}

/* Shards sent from records, from ordered items, or by a node that received them itself make the same sets as reading
 * does. */
TEST(ratings_of_another_node) {
    struct fixture f[4];
    struct data_set sets[4];
    struct shards half = some_shards(1, 2);
    for (unsigned i = 0; i < 4; i++) {
        fixture_open(&f[i], 0);
    }
    data_pin(&f[0].data, half.numbers, half.count);
    read_all(&f[0], 5, true);
    give(&f[0], &f[1], &half);
    sets[0] = arrange(&f[0], &half, 2, 2, 5);
    give(&f[0], &f[2], &half);
    sets[2] = arrange(&f[2], &half, 2, 2, 5);
    give(&f[2], &f[3], &half);
    sets[1] = arrange(&f[1], &half, 2, 2, 5);
    sets[3] = arrange(&f[3], &half, 2, 2, 5);
    size_t count = sets[0].count;
    for (unsigned i = 0; i < 4; i++) {
        check_set(&f[i], &half, &sets[i]);
        assert_int_equal(sets[i].count, count);
        data_set_close(&f[i].data, &sets[i]);
        fixture_close(&f[i]);
    }
}

/* With one thread the order of the items does not depend on slots: it is the order of the sending node. */
TEST(the_order_of_ratings_of_another_node) {
    CLOSED_BY(fixture_close) struct fixture read;
    CLOSED_BY(fixture_close) struct fixture taken;
    struct shards all = some_shards(0, 1);
    fixture_open(&read, 0);
    fixture_open(&taken, 0);
    data_pin(&read.data, all.numbers, all.count);
    read_all(&read, 3, false);
    struct data_set first = arrange(&read, &all, 3, 1, 5);
    give(&read, &taken, &all);
    struct data_set second = arrange(&taken, &all, 3, 1, 5);
    assert_int_equal(first.count, second.count);
    for (size_t n = 0; n < first.count; n++) {
        assert_true(((const struct item *)(const void *)first.items)[n].value ==
                    ((const struct item *)(const void *)second.items)[n].value);
    }
    for (size_t n = 0; n < first.test_count; n++) {
        assert_true(((const struct item *)(const void *)first.tests)[n].value ==
                    ((const struct item *)(const void *)second.tests)[n].value);
    }
    data_set_close(&read.data, &first);
    data_set_close(&taken.data, &second);
}

TEST(samples_of_another_node) {
    CLOSED_BY(fixture_close) struct fixture read;
    CLOSED_BY(fixture_close) struct fixture taken;
    struct shards half = some_shards(0, 2);
    samples_open(&read, 0);
    samples_open(&taken, 0);
    data_pin(&read.data, half.numbers, half.count);
    read_samples(&read);
    struct data_set first = arrange(&read, &half, 4, 3, 5); /* the set's store has the records now */
    give(&read, &taken, &half);
    struct data_set second = arrange(&taken, &half, 4, 3, 5);
    assert_int_equal(first.count, second.count);
    assert_memory_equal(first.items, second.items, first.count * SAMPLE_FLOATS * sizeof(float));
    assert_memory_equal(first.tests, second.tests, first.test_count * SAMPLE_FLOATS * sizeof(float));
    assert_memory_equal(first.totals, second.totals, sizeof first.totals);
    data_set_close(&read.data, &first);
    data_set_close(&taken.data, &second);
}

TEST(varied_items_of_another_node) {
    CLOSED_BY(fixture_close) struct fixture read;
    CLOSED_BY(fixture_close) struct fixture taken;
    struct shards half = some_shards(1, 2);
    varied_open(&read, 0);
    varied_open(&taken, 0);
    data_pin(&read.data, half.numbers, half.count);
    read_varied(&read, 3, false);
    struct data_set first = arrange(&read, &half, 2, 2, 5);
    give(&read, &taken, &half);
    struct data_set second = arrange(&taken, &half, 2, 2, 5);
    unsigned *marks[2] = {mark_varied(&read, &first), mark_varied(&taken, &second)};
    assert_memory_equal(marks[0], marks[1], RATINGS * sizeof *marks[0]);
    assert_memory_equal(first.totals, second.totals, sizeof first.totals);
    free(marks[0]);
    free(marks[1]);
    data_set_close(&read.data, &first);
    data_set_close(&taken.data, &second);
}

static int no_slots(void *context, unsigned table, const uint64_t *keys, uint32_t *slots, size_t count,
                    struct error *error) {
    return error_set(error, AML_ELIMIT, "table %u is full", table);
}

TEST(a_full_cache_is_an_error) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards all = some_shards(0, 1);
    struct data_set set;
    struct error error = {0};
    const struct data_rows rows = {.slots = no_slots};
    fixture_open(&f, 0);
    data_pin(&f.data, all.numbers, all.count);
    read_all(&f, 1, false);
    assert_int_equal(data_arrange(&f.data, all.numbers, all.count,
                                  &(struct data_dealing){.clocks = 1, .threads = 1, .seed = 5}, &rows, &set, &error),
                     AML_ELIMIT);
    assert_string_equal(error.text, "table 0 is full");
}

TEST(no_items_at_all) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards all = some_shards(0, 1);
    const void *items;
    fixture_open(&f, 0);
    data_pin(&f.data, all.numbers, all.count);
    data_read_begin(&f.data);
    data_read_end(&f.data, true);
    struct data_set set = arrange(&f, &all, 2, 2, 5);
    assert_int_equal(data_block(&set, 1, 0, 1, 1, &items), 0);
    assert_int_equal(data_tests(&set, 1, &items), 0);
    data_set_close(&f.data, &set);
}

/* ---- Parts of an input ---- */

enum { PARTS = 3, FILES = 2, PART_CHUNKS = 12 };

/* Reads as node `part` of PARTS does, or as a node that reads all. The input has FILES files of PART_CHUNKS chunks;
 * with `own`, read emits items of its own before and between the files. */
static void read_files(struct fixture *f, uint32_t part, bool own) {
    uint64_t order = 0;
    if (part == PARTS) {
        data_read_begin(&f->data);
    } else {
        data_read_part_begin(&f->data, part);
    }
    for (unsigned file = 0; file < FILES; file++) {
        struct data_chunk *chunk = data_chunk_open_own(&f->data);
        for (unsigned n = RATINGS; n < RATINGS + 100 && own; n++) {
            uint64_t keys[2];
            float value = (float)(n + 1000 * file);
            rating_keys(n, keys);
            data_emit(&f->data, chunk, AML_TRAIN, keys, &value);
            count_item(f, chunk, n);
        }
        data_chunk_close(&f->data, chunk);
        uint32_t count;
        uint32_t number = data_read_file(&f->data, &count);
        uint32_t stretch = data_stretch_begin(&f->data);
        order = data_next_order(&f->data);
        for (unsigned c = PART_CHUNKS * number / count; c < PART_CHUNKS * (number + 1) / count; c++) {
            chunk = data_chunk_open(&f->data, order++, data_place(stretch, c, 0));
            for (unsigned n = RATINGS * c / PART_CHUNKS; n < RATINGS * (c + 1) / PART_CHUNKS; n++) {
                uint64_t keys[2];
                float value = (float)(n + RATINGS * file);
                rating_keys(n, keys);
                data_emit(&f->data, chunk, n % 10 == 0 ? AML_TEST : AML_TRAIN, keys, &value);
                count_item(f, chunk, n);
            }
            data_chunk_close(&f->data, chunk);
        }
        data_stretch_begin(&f->data);
    }
    data_read_end(&f->data, true);
}

static uint64_t no_key(const void *context, unsigned table, uint32_t slot) {
    return slot;
}

static void assert_same_shards(struct data *one, struct data *other, const struct shards *shards) {
    const struct data_keys keys = {.key = no_key};
    for (uint32_t s = 0; s < shards->count; s++) {
        uint32_t number = shards->numbers[s];
        struct buffer *left = data_pack(one, number, &keys);
        struct buffer *right = data_pack(other, number, &keys);
        assert_true(left != NULL && right != NULL && left->size == right->size);
        assert_memory_equal(left->data, right->data, left->size);
        assert_memory_equal(&one->input[number], &other->input[number], sizeof one->input[number]);
        buffer_drop(left);
        buffer_drop(right);
    }
}

/* Takes the missing pieces of the taker's shards from `giver`, the node of `part`. Returns the number of requests. */
static unsigned take_part(struct fixture *taker, struct fixture *giver, uint32_t part, const struct shards *shards,
                          size_t limit) {
    uint32_t lacking[SHARDS];
    unsigned asked = 0;
    for (uint32_t count; (count = data_lacks_piece(&taker->data, shards->numbers, shards->count, part, lacking)) > 0;
         asked++) {
        struct buffer *bytes = data_pack_pieces(&giver->data, lacking, count, limit);
        assert_false(data_take_pieces(&taker->data, part, lacking, count, bytes->data, bytes->size - 1));
        bytes->data[bytes->size / 2] ^= 1;
        assert_false(data_take_pieces(&taker->data, part, lacking + count - 1, 0, bytes->data, bytes->size));
        bytes->data[bytes->size / 2] ^= 1;
        assert_true(data_take_pieces(&taker->data, part, lacking, count, bytes->data, bytes->size));
        buffer_drop(bytes);
    }
    return asked;
}

TEST(shards_put_together_are_those_of_a_whole_reading) {
    for (unsigned own = 0; own < 2; own++) {
        struct fixture nodes[PARTS];
        struct shards shards[PARTS];
        CLOSED_BY(fixture_close) struct fixture whole;
        struct shards all = some_shards(0, 1);
        fixture_open(&whole, 0);
        data_pin(&whole.data, all.numbers, all.count);
        read_files(&whole, PARTS, own != 0);
        for (uint32_t p = 0; p < PARTS; p++) {
            fixture_open(&nodes[p], 1 << 20);
            shards[p] = some_shards(p, PARTS);
            assert_false(data_pin(&nodes[p].data, shards[p].numbers, shards[p].count));
            data_divide(&nodes[p].data, PARTS, p);
            read_files(&nodes[p], p, own != 0);
            assert_true(nodes[p].data.own.items == whole.data.own.items &&
                        nodes[p].data.own.hash == whole.data.own.hash);
            assert_false(data_input_news(&nodes[p].data)); /* no shard is complete */
        }
        for (uint32_t p = 0; p < PARTS; p++) {
            for (uint32_t other = 0; other < PARTS; other++) {
                unsigned asked = other != p ? take_part(&nodes[p], &nodes[other], other, &shards[p], 3000) : 2;
                assert_true(asked > 1);
            }
            assert_true(data_input_news(&nodes[p].data));
            assert_same_shards(&nodes[p].data, &whole.data, &shards[p]);
        }
        for (uint32_t p = 0; p < PARTS; p++) {
            fixture_close(&nodes[p]);
        }
    }
}

/* A node reads a lost node's part for its own shards only. Later it takes over a shard, and reads that shard's piece
 * of another lost part. */
TEST(parts_that_nobody_gives_are_read) {
    CLOSED_BY(fixture_close) struct fixture node;
    CLOSED_BY(fixture_close) struct fixture other;
    CLOSED_BY(fixture_close) struct fixture whole;
    struct shards all = some_shards(0, 1);
    struct shards own = some_shards(0, 2);
    struct shards later = some_shards(1, 8);
    uint32_t missing[PARTS];
    fixture_open(&whole, 0);
    data_pin(&whole.data, all.numbers, all.count);
    read_files(&whole, PARTS, true);
    fixture_open(&node, 1 << 20);
    fixture_open(&other, 1 << 20);
    data_pin(&node.data, own.numbers, own.count);
    data_divide(&node.data, PARTS, 1);
    data_divide(&other.data, PARTS, 2);
    read_files(&node, 1, true);
    read_files(&other, 2, true);
    take_part(&node, &other, 2, &own, 1 << 20);
    assert_int_equal(data_missing_parts(&node.data, own.numbers, own.count, missing), 1);
    assert_int_equal(missing[0], 0);
    read_files(&node, 0, true);
    assert_int_equal(data_missing_parts(&node.data, own.numbers, own.count, missing), 0);
    assert_same_shards(&node.data, &whole.data, &own);
    data_settle(&node.data);
    data_settle(&other.data);
    data_pin(&node.data, later.numbers, later.count);
    assert_int_equal(data_missing_parts(&node.data, later.numbers, later.count, missing), 2);
    take_part(&node, &other, 2, &later, 1 << 20);
    read_files(&node, 0, true);
    assert_same_shards(&node.data, &whole.data, &later);
    assert_true(node.data.division.bytes > 0);
    node.data.budget = 0; /* without a budget the part is dropped */
    data_settle(&node.data);
    assert_true(node.data.division.bytes == 0);
}

/* Pieces that do not fit in memory are given up: the node then reads all, and puts the rest on disk. */
TEST(pieces_beyond_the_memory_are_given_up) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards own = some_shards(0, 2);
    uint32_t missing[PARTS];
    fixture_open(&f, 0);
    f.data.limit.bytes = ALL_BYTES / PARTS;
    data_pin(&f.data, own.numbers, own.count);
    data_divide(&f.data, PARTS, 1);
    read_files(&f, 1, false);
    assert_true(f.data.division.over && f.data.division.bytes == 0);
    assert_int_equal(data_missing_parts(&f.data, own.numbers, own.count, missing), PARTS);
    assert_int_equal(data_lacks_piece(&f.data, own.numbers, own.count, 0, missing), 0);
    struct buffer *packed = data_pack_pieces(&f.data, own.numbers, 1, 1000); /* reports that the piece is gone */
    assert_true(packed->size > 0);
    buffer_drop(packed);
    f.data.limit.bytes = SIZE_MAX;
    read_files(&f, PARTS, false);
    assert_true(data_pin(&f.data, own.numbers, own.count));
}

/* An app without files that the library reads can't be divided. */
TEST(what_read_emits_itself_is_not_divided) {
    CLOSED_BY(fixture_close) struct fixture f;
    struct shards own = some_shards(0, 2);
    fixture_open(&f, 0);
    data_pin(&f.data, own.numbers, own.count);
    data_divide(&f.data, PARTS, 1);
    assert_true(data_is_divided(&f.data));
    data_read_part_begin(&f.data, 1);
    struct data_chunk *chunk = data_chunk_open_own(&f.data);
    for (unsigned n = 0; n < RATINGS; n++) {
        uint64_t keys[2];
        float value = (float)n;
        rating_keys(n, keys);
        data_emit(&f.data, chunk, AML_TRAIN, keys, &value);
    }
    data_chunk_close(&f.data, chunk);
    data_read_end(&f.data, true);
    assert_true(data_input_news(&f.data) && data_pin(&f.data, own.numbers, own.count));
    uint32_t lacking[SHARDS];
    assert_int_equal(data_missing_parts(&f.data, own.numbers, own.count, lacking), 0);
    assert_false(data_is_divided(&f.data));
}
