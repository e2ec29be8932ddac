/* The map from keys to indexes (agileml/base/hash.c), as a hash table and as an array by key. */
#include "agileml/base/hash.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

enum { BOUND = 20000, KEYS = BOUND / 2, FEW = 40 };

static const uint64_t BOUNDS[] = {0, BOUND, UINT64_MAX}; /* none; an array in the end; never an array */

/* The n-th key: all below BOUND, no two the same. */
static uint64_t key_of(uint32_t n) {
    return (n * UINT64_C(7919) + 13) % BOUND;
}

static void add_keys(struct index_map *map, uint32_t from, uint32_t until) {
    for (uint32_t n = from; n < until; n++) {
        index_map_add(map, key_of(n), n);
    }
}

static void assert_holds(const struct index_map *map, uint32_t count) {
    static uint64_t keys[KEYS];
    static uint32_t values[KEYS];
    for (uint32_t n = 0; n < KEYS; n++) {
        keys[n] = key_of(n);
        index_map_prefetch(map, keys[n]);
        assert_int_equal(index_map_find(map, keys[n]), n < count ? (int64_t)n : INDEX_NONE);
    }
    index_map_find_all(map, keys, KEYS, values);
    for (uint32_t n = 0; n < KEYS; n++) {
        assert_int_equal(values[n], n < count ? n : INDEX_VALUE_NONE);
    }
}

static void assert_lacks(const struct index_map *map, uint64_t key) {
    uint32_t value = 0;
    index_map_prefetch(map, key);
    index_map_find_all(map, &key, 1, &value);
    assert_int_equal(value, INDEX_VALUE_NONE);
    assert_int_equal(index_map_find(map, key), INDEX_NONE);
}

static void test_finds_what_was_added(void **state) {
    (void)state;
    for (unsigned b = 0; b < sizeof BOUNDS / sizeof *BOUNDS; b++) {
        struct index_map map = {0};
        index_map_bound(&map, BOUNDS[b]);
        assert_holds(&map, 0);
        add_keys(&map, 0, FEW);
        assert_holds(&map, FEW);
        add_keys(&map, FEW, KEYS);
        assert_holds(&map, KEYS);
        assert_int_equal(map.count, KEYS);
        index_map_close(&map);
    }
}

static void test_lacks_keys_at_and_beyond_the_bound(void **state) {
    (void)state;
    const uint64_t beyond[] = {BOUND, BOUND + 1, UINT32_MAX, UINT64_MAX};
    for (unsigned b = 0; b < sizeof BOUNDS / sizeof *BOUNDS; b++) {
        struct index_map map = {0};
        index_map_bound(&map, BOUNDS[b]);
        add_keys(&map, 0, KEYS);
        for (unsigned k = 0; k < sizeof beyond / sizeof *beyond; k++) {
            assert_lacks(&map, beyond[k]);
        }
        index_map_close(&map);
    }
}

static void test_small_bounds(void **state) {
    (void)state;
    struct index_map map = {0};
    index_map_bound(&map, 1);
    assert_lacks(&map, 0);
    index_map_add(&map, 0, 5);
    assert_int_equal(index_map_find(&map, 0), 5);
    assert_lacks(&map, 1);
    index_map_close(&map);
}

static void test_a_copy_goes_on_by_itself(void **state) {
    (void)state;
    for (unsigned b = 0; b < sizeof BOUNDS / sizeof *BOUNDS; b++) {
        for (uint32_t copied = 0; copied <= KEYS; copied += KEYS / 2) {
            struct index_map map = {0};
            struct index_map copy = {0};
            index_map_bound(&map, BOUNDS[b]);
            add_keys(&map, 0, copied);
            index_map_copy(&copy, &map);
            add_keys(&copy, copied, KEYS);
            assert_holds(&map, copied);
            assert_holds(&copy, KEYS);
            index_map_close(&copy);
            index_map_close(&map);
        }
    }
}

/* ---- Lookups beside additions ---- */

struct reader {
    const struct index_map *map;
    pthread_t thread;
    atomic_bool *done;
    bool good;
};

/* A lookup finds nothing or the key's value, and what was found once remains. */
static void *read_beside(void *context) {
    struct reader *reader = context;
    uint32_t found = 0;
    bool last;
    reader->good = true;
    do {
        last = atomic_load(reader->done);
        for (uint32_t n = 0; n < KEYS; n += 1 + n / 16) {
            int64_t value = index_map_find(reader->map, key_of(n));
            reader->good = reader->good && (value == (int64_t)n || (value == INDEX_NONE && n >= found));
            found = value != INDEX_NONE && n >= found ? n + 1 : found;
        }
    } while (!last);
    reader->good = reader->good && found > KEYS / 2;
    return NULL;
}

static void test_lookups_beside_additions(void **state) {
    (void)state;
    for (unsigned b = 0; b < sizeof BOUNDS / sizeof *BOUNDS; b++) {
        struct index_map map = {0};
        atomic_bool done = false;
        struct reader readers[2];
        index_map_bound(&map, BOUNDS[b]);
        for (unsigned r = 0; r < 2; r++) {
            readers[r] = (struct reader){.map = &map, .done = &done};
            assert_int_equal(pthread_create(&readers[r].thread, NULL, read_beside, &readers[r]), 0);
        }
        for (uint32_t n = 0; n < KEYS; n++) {
            index_map_add_shared(&map, key_of(n), n);
        }
        atomic_store(&done, true);
        for (unsigned r = 0; r < 2; r++) {
            pthread_join(readers[r].thread, NULL);
            assert_true(readers[r].good);
        }
        index_map_trim(&map);
        assert_holds(&map, KEYS);
        index_map_close(&map);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_what_was_added),
        cmocka_unit_test(test_lacks_keys_at_and_beyond_the_bound),
        cmocka_unit_test(test_small_bounds),
        cmocka_unit_test(test_a_copy_goes_on_by_itself),
        cmocka_unit_test(test_lookups_beside_additions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
