/* The row cache (workers/client/cache.c): which of its memory asks for huge pages, and the slots of keys.
 * params_test and client_test check the rows' values. */
#include "tests/test.h"
#include "workers/client/cache.h"

#include <unistd.h>

enum { ROOM = 1 << 20, FEW = 500, MANY = 1 << 19 };

struct fixture {
    struct job job;
    struct cache cache;
};

static void open_cache(struct fixture *fixture, uint64_t rows, bool whole) {
    memset(fixture, 0, sizeof *fixture);
    fixture->job.table_count = 1;
    fixture->job.tables[0] = (struct table_spec){.name = "rows",
                                                 .type = AML_FLOAT32,
                                                 .mode = AML_ADD,
                                                 .width = 4,
                                                 .row_bytes = 16,
                                                 .rows = rows,
                                                 .whole = whole};
    cache_open(&fixture->cache, &fixture->job, 1);
}

static void add_rows(struct fixture *fixture, uint64_t count) {
    for (uint64_t key = 0; key < count; key++) {
        assert_int_equal(cache_add(&fixture->cache, 0, key), key);
    }
}

/* Whether the kernel has been asked for huge pages at this address. */
static bool wants_huge_pages(const void *address) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    char line[512];
    bool here = false;
    bool wants = false;
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long long from, to;
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2) {
            here = from <= (uintptr_t)address && (uintptr_t)address < to;
        } else if (here && strncmp(line, "VmFlags:", 8) == 0) {
            wants = strstr(line, " hg") != NULL;
        }
    }
    fclose(maps);
    return wants;
}

static bool kernel_has_huge_pages(void) {
    return access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0;
}

/* In a table of a few rows, the kernel would back each small page in use by a huge page: 2 MB an arena. */
TEST(few_rows_in_much_room_get_small_pages) {
    struct fixture fixture;
    open_cache(&fixture, 0, false);
    assert_int_equal(cache_reserve(&fixture.cache, 0, ROOM), 0);
    add_rows(&fixture, FEW);
    assert_false(wants_huge_pages(fixture.cache.tables[0].rows.base));
    assert_false(wants_huge_pages(fixture.cache.tables[0].keys.base));
    cache_close(&fixture.cache);
}

TEST(many_rows_get_huge_pages) {
    if (!kernel_has_huge_pages()) {
        skip();
    }
    struct fixture fixture;
    open_cache(&fixture, 0, false);
    assert_int_equal(cache_reserve(&fixture.cache, 0, ROOM), 0);
    add_rows(&fixture, MANY);
    assert_true(wants_huge_pages(fixture.cache.tables[0].rows.base));
    assert_true(wants_huge_pages(fixture.cache.tables[0].keys.base));
    assert_int_equal(cache_reserve(&fixture.cache, 0, 4 * (uint64_t)ROOM), 0); /* moves the rows */
    const struct cache_table *table = &fixture.cache.tables[0];
    assert_true(wants_huge_pages(table->rows.base));
    assert_true(wants_huge_pages(table->rows.base + table->rows.mapped - 1));
    cache_close(&fixture.cache);
}

TEST(whole_tables_get_huge_pages) {
    if (!kernel_has_huge_pages()) {
        skip();
    }
    struct fixture fixture;
    open_cache(&fixture, MANY, true);
    assert_int_equal(cache_add(&fixture.cache, 0, 0), 0);
    assert_true(wants_huge_pages(fixture.cache.tables[0].rows.base));
    cache_close(&fixture.cache);
}

/* Sparse, dense and replicated tables each find slots in their own way. */
TEST(keys_keep_their_slots) {
    const struct {
        uint64_t rows;
        bool whole;
    } kinds[] = {{0, false}, {MANY, false}, {FEW, true}};
    for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct fixture fixture;
        uint64_t keys[FEW + 1];
        int64_t slots[FEW];
        uint32_t found[FEW + 1];
        open_cache(&fixture, kinds[k].rows, kinds[k].whole);
        for (uint64_t i = 0; i < FEW; i++) {
            keys[i] = kinds[k].whole ? FEW - 1 - i : i * i * 2 + 1;
            slots[i] = cache_add(&fixture.cache, 0, keys[i]);
            assert_in_range(slots[i], 0, FEW - 1);
            assert_int_equal(cache_key(&fixture.cache.tables[0], (uint32_t)slots[i]), keys[i]);
        }
        keys[FEW] = MANY + UINT64_C(2);
        cache_find_all(&fixture.cache, 0, keys, found, FEW + 1);
        for (unsigned i = 0; i < FEW; i++) {
            assert_int_equal(found[i], slots[i]);
            assert_int_equal(cache_find(&fixture.cache, 0, keys[i]), slots[i]);
            assert_int_equal(cache_add_for(&fixture.cache, 0, keys[i], 1), slots[i]);
        }
        assert_int_equal(found[FEW], CACHE_SLOT_NONE);
        assert_int_equal(cache_find(&fixture.cache, 0, keys[FEW]), INDEX_NONE);
        assert_true(kinds[k].rows == 0 || cache_add(&fixture.cache, 0, keys[FEW]) == AML_EINPUT);
        cache_close(&fixture.cache);
    }
}
