/* The index of rows by key (agileml/base/slot_index.c), as a hash table and as an array by key. */
#include "agileml/base/slot_index.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

#include <malloc.h>
#include <pthread.h>

enum { BOUND = 20000, KEYS = BOUND / 2, FEW = 40 };

/* no bound: a hash table; a bound: an array at the end; a bound too large for an array */
static const uint64_t BOUNDS[] = {0, BOUND, UINT64_MAX};

/* The n-th key: below BOUND, and different from all others. */
static uint64_t key_of(uint32_t n) {
    return (n * UINT64_C(7919) + 13) % BOUND;
}

static const uint64_t *all_keys(void) {
    static uint64_t keys[KEYS];
    for (uint32_t n = 0; n < KEYS && keys[KEYS - 1] == 0; n++) {
        keys[n] = key_of(n);
    }
    return keys;
}

static void add_keys(struct slot_index *index, uint32_t from, uint32_t until) {
    for (uint32_t n = from; n < until; n++) {
        assert_int_equal(index->count, n);
        slot_index_add(index, all_keys());
    }
}

static void assert_holds(const struct slot_index *index, uint32_t count) {
    static uint32_t slots[KEYS];
    const uint64_t *keys = all_keys();
    for (uint32_t n = 0; n < KEYS; n++) {
        slot_index_prefetch(index, keys[n]);
        assert_int_equal(slot_index_find(index, keys, keys[n]), n < count ? (int64_t)n : INDEX_NONE);
    }
    slot_index_find_all(index, keys, keys, KEYS, slots);
    for (uint32_t n = 0; n < KEYS; n++) {
        assert_int_equal(slots[n], n < count ? n : SLOT_INDEX_NONE);
    }
}

static void assert_lacks(const struct slot_index *index, uint64_t key) {
    uint32_t slot = 0;
    slot_index_prefetch(index, key);
    slot_index_find_all(index, all_keys(), &key, 1, &slot);
    assert_int_equal(slot, SLOT_INDEX_NONE);
    assert_int_equal(slot_index_find(index, all_keys(), key), INDEX_NONE);
}

TEST(finds_what_was_added) {
    for (unsigned b = 0; b < sizeof BOUNDS / sizeof *BOUNDS; b++) {
        CLOSED_BY(slot_index_close) struct slot_index index = {0};
        slot_index_bound(&index, BOUNDS[b]);
        assert_holds(&index, 0);
        add_keys(&index, 0, FEW);
        assert_holds(&index, FEW);
        add_keys(&index, FEW, KEYS);
        assert_holds(&index, KEYS);
        assert_int_equal(index.count, KEYS);
    }
}

TEST(lacks_keys_at_and_beyond_the_bound) {
    const uint64_t beyond[] = {BOUND, BOUND + 1, UINT32_MAX, UINT64_MAX};
    for (unsigned b = 0; b < sizeof BOUNDS / sizeof *BOUNDS; b++) {
        CLOSED_BY(slot_index_close) struct slot_index index = {0};
        slot_index_bound(&index, BOUNDS[b]);
        add_keys(&index, 0, KEYS);
        for (unsigned k = 0; k < sizeof beyond / sizeof *beyond; k++) {
            assert_lacks(&index, beyond[k]);
        }
    }
}

TEST(small_bounds) {
    const uint64_t keys[] = {0};
    CLOSED_BY(slot_index_close) struct slot_index index = {0};
    slot_index_bound(&index, 1);
    assert_lacks(&index, 0);
    slot_index_add(&index, keys);
    assert_int_equal(slot_index_find(&index, keys, 0), 0);
    assert_lacks(&index, 1);
}

static size_t allocated(void) {
    struct mallinfo2 info = mallinfo2(); /* 0 with a sanitizer's malloc */
    return info.uordblks + info.hblkhd;
}

/* With so many slots an entry has room for few bits of the hash, which other keys share. A slot takes at most 32/3
 * bytes. */
TEST(keys_with_equal_tags) {
    enum { MANY = 1 << 20 };
    static uint64_t keys[MANY];
    static uint32_t slots[MANY];
    CLOSED_BY(slot_index_close) struct slot_index index = {0};
    size_t before = allocated();
    for (uint32_t n = 0; n < MANY; n++) {
        keys[n] = (uint64_t)n << 40 | n % 3;
        slot_index_add(&index, keys);
        assert_true(n < 1000 || allocated() - before <= (size_t)n * 32 / 3 + 8192);
    }
    slot_index_find_all(&index, keys, keys, MANY, slots);
    for (uint32_t n = 0; n < MANY; n++) {
        assert_true(slots[n] == n && slot_index_find(&index, keys, keys[n]) == (int64_t)n);
        assert_true(slot_index_find(&index, keys, keys[n] + 3) == INDEX_NONE);
    }
}

TEST(a_copy_goes_on_by_itself) {
    for (unsigned b = 0; b < sizeof BOUNDS / sizeof *BOUNDS; b++) {
        for (uint32_t copied = 0; copied <= KEYS; copied += KEYS / 2) {
            CLOSED_BY(slot_index_close) struct slot_index index = {0};
            CLOSED_BY(slot_index_close) struct slot_index copy = {0};
            slot_index_bound(&index, BOUNDS[b]);
            add_keys(&index, 0, copied);
            slot_index_copy(&copy, &index);
            add_keys(&copy, copied, KEYS);
            assert_holds(&index, copied);
            assert_holds(&copy, KEYS);
        }
    }
}

/* ---- Lookups during additions ---- */

struct reader {
    const struct slot_index *index;
    pthread_t thread;
    atomic_bool *done;
    bool good;
};

/* A lookup finds nothing or the key's value; a key once found is found again. */
static void *read_beside(void *context) {
    struct reader *reader = context;
    uint32_t found = 0;
    bool last;
    reader->good = true;
    do {
        last = atomic_load(reader->done);
        for (uint32_t n = 0; n < KEYS; n += 1 + n / 16) {
            int64_t value = slot_index_find(reader->index, all_keys(), key_of(n));
            reader->good = reader->good && (value == (int64_t)n || (value == INDEX_NONE && n >= found));
            found = value != INDEX_NONE && n >= found ? n + 1 : found;
        }
    } while (!last);
    reader->good = reader->good && found > KEYS / 2;
    return NULL;
}

TEST(lookups_beside_additions) {
    for (unsigned b = 0; b < sizeof BOUNDS / sizeof *BOUNDS; b++) {
        CLOSED_BY(slot_index_close) struct slot_index index = {0};
        atomic_bool done = false;
        struct reader readers[2];
        slot_index_bound(&index, BOUNDS[b]);
        all_keys(); /* makes the keys before the threads start */
        for (unsigned r = 0; r < 2; r++) {
            readers[r] = (struct reader){.index = &index, .done = &done};
            assert_int_equal(pthread_create(&readers[r].thread, NULL, read_beside, &readers[r]), 0);
        }
        for (uint32_t n = 0; n < KEYS; n++) {
            slot_index_add_shared(&index, all_keys());
        }
        atomic_store(&done, true);
        for (unsigned r = 0; r < 2; r++) {
            pthread_join(readers[r].thread, NULL);
            assert_true(readers[r].good);
        }
        slot_index_trim(&index);
        assert_holds(&index, KEYS);
    }
}
