/* workers/data.c: every item that is a node's stands in exactly one block of an iteration, blocks that run at the same
 * time share no row, and the order depends on seed and keys only, not on who read what first. */
#include "workers/data.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { USERS = 300, ITEMS = 90, RATINGS = 5000, SHARDS = 64 };
static const actor_id SELF = 0x10000;
static const actor_id OTHER = 0x20000;

struct fixture {
    struct job job;
    struct cache cache;
    struct data data;
    struct message plan;
    struct aml_app app;
};

struct item {
    uint32_t user, item;
    float value; /* the rating's number */
};

static void fixture_open(struct fixture *f, bool two_nodes) {
    memset(f, 0, sizeof *f);
    f->job.table_count = 2;
    for (unsigned t = 0; t < 2; t++) {
        f->job.tables[t] = (struct table_spec){.type = AML_FLOAT32, .width = 2, .row_bytes = 8};
    }
    f->plan = (struct message){.type = MESSAGE_PLAN, .frame_count = 4};
    f->plan.plan.shards = SHARDS;
    for (unsigned i = 0; i < 4; i++) {
        f->plan.frames[i] = buffer_new(i == 2 ? SHARDS * sizeof(actor_id) : 0);
    }
    for (unsigned s = 0; s < SHARDS; s++) {
        ((actor_id *)(void *)f->plan.frames[2]->data)[s] = two_nodes && s % 2 == 1 ? OTHER : SELF;
    }
    f->app = (struct aml_app){.item_rows = 2, .item_tables = {0, 1}, .item_bytes = sizeof(float)};
    cache_open(&f->cache, &f->job, 3);
    data_init(&f->data, &f->app, &f->plan, SELF);
}

static void fixture_close(struct fixture *f) {
    data_close(&f->data);
    cache_close(&f->cache);
    message_close(&f->plan);
}

/* Rating number `n`: user and item are functions of it. */
static void rating_keys(unsigned n, uint64_t keys[2]) {
    keys[0] = 1000000007ULL * (hash_mix(n) % USERS);
    keys[1] = hash_mix(n + 77) % ITEMS * 3;
}

/* Emits all ratings in `chunks` chunks, opened in the given direction; returns how many were kept. */
static size_t emit_all(struct fixture *f, unsigned chunks, bool backwards) {
    size_t kept = 0;
    for (unsigned c = 0; c < chunks; c++) {
        unsigned number = backwards ? chunks - 1 - c : c;
        struct data_chunk *chunk = data_chunk_open(&f->data, number);
        for (unsigned n = RATINGS * number / chunks; n < RATINGS * (number + 1) / chunks; n++) {
            uint64_t keys[2];
            float value = (float)n;
            rating_keys(n, keys);
            enum aml_item_use use = n % 10 == 0 ? AML_TEST : AML_TRAIN;
            int result = data_emit(&f->data, chunk, use, keys, &value);
            kept += result == 1 ? 1 : 0;
            chunk->totals[0] += result;
            chunk->totals[WIRE_TOTALS / 2] = fmax(chunk->totals[WIRE_TOTALS / 2], value);
        }
    }
    return kept;
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

static void check_arrangement(unsigned clocks, unsigned threads) {
    struct fixture f;
    struct error error = {0};
    unsigned *seen = calloc(RATINGS, sizeof *seen);
    fixture_open(&f, false);
    assert_int_equal(emit_all(&f, 7, false), RATINGS);
    assert_int_equal(data_arrange(&f.data, &f.cache, clocks, threads, 5, &error), 0);
    size_t training = 0;
    unsigned thread_of_user[USERS * 2];
    memset(thread_of_user, 0xFF, sizeof thread_of_user);
    for (unsigned part = 0; part < clocks; part++) {
        for (unsigned round = 0; round < f.data.bins; round++) {
            unsigned user_of_round[USERS * 2];
            unsigned item_of_round[ITEMS * 2];
            memset(user_of_round, 0xFF, sizeof user_of_round);
            memset(item_of_round, 0xFF, sizeof item_of_round);
            for (unsigned thread = 0; thread < threads; thread++) {
                const void *items;
                size_t count = data_block(&f.data, part, thread, round, &items);
                for (size_t i = 0; i < count; i++) {
                    const struct item *item = (const struct item *)items + i;
                    check_item(&f, item, seen);
                    assert_true(user_of_round[item->user] == UINT32_MAX || user_of_round[item->user] == thread);
                    assert_true(item_of_round[item->item] == UINT32_MAX || item_of_round[item->item] == thread);
                    assert_true(thread_of_user[item->user] == UINT32_MAX ||
                                thread_of_user[item->user] == part * threads + thread);
                    user_of_round[item->user] = item_of_round[item->item] = thread;
                    thread_of_user[item->user] = part * threads + thread;
                }
                training += count;
            }
        }
    }
    size_t tests = 0;
    for (unsigned thread = 0; thread < threads; thread++) {
        const void *items;
        size_t count = data_tests(&f.data, thread, &items);
        for (size_t i = 0; i < count; i++) {
            check_item(&f, (const struct item *)items + i, seen);
        }
        tests += count;
    }
    assert_int_equal(training, RATINGS * 9 / 10);
    assert_int_equal(tests, RATINGS / 10);
    for (unsigned n = 0; n < RATINGS; n++) {
        assert_int_equal(seen[n], 1);
    }
    assert_true(f.data.totals[0] == RATINGS);
    assert_true(f.data.totals[WIRE_TOTALS / 2] == RATINGS - 1);
    fixture_close(&f);
    free(seen);
}

static void test_every_item_once_and_no_shared_rows(void **state) {
    (void)state;
    for (unsigned clocks = 1; clocks <= 16; clocks *= 4) {
        for (unsigned threads = 1; threads <= 5; threads++) {
            check_arrangement(clocks, threads);
        }
    }
}

static void test_threads_share_the_work(void **state) {
    (void)state;
    struct fixture f;
    struct error error = {0};
    fixture_open(&f, false);
    emit_all(&f, 1, false);
    assert_int_equal(data_arrange(&f.data, &f.cache, 1, 3, 5, &error), 0);
    for (unsigned thread = 0; thread < 3; thread++) {
        size_t count = 0;
        for (unsigned round = 0; round < f.data.bins; round++) {
            const void *items;
            count += data_block(&f.data, 0, thread, round, &items);
        }
        assert_in_range(count, RATINGS * 9 / 10 / 3 - 100, RATINGS * 9 / 10 / 3 + 100);
    }
    fixture_close(&f);
}

static void test_the_order_does_not_depend_on_who_was_faster(void **state) {
    (void)state;
    struct fixture a;
    struct fixture b;
    struct error error = {0};
    fixture_open(&a, false);
    fixture_open(&b, false);
    emit_all(&a, 9, false);
    emit_all(&b, 9, true);
    assert_int_equal(data_arrange(&a.data, &a.cache, 2, 2, 5, &error), 0);
    assert_int_equal(data_arrange(&b.data, &b.cache, 2, 2, 5, &error), 0);
    assert_int_equal(a.data.count, b.data.count);
    assert_memory_equal(a.data.items, b.data.items, a.data.count * a.data.item_size);
    fixture_close(&b);
    fixture_open(&b, false);
    emit_all(&b, 9, true);
    assert_int_equal(data_arrange(&b.data, &b.cache, 2, 2, 6, &error), 0);
    assert_memory_not_equal(a.data.items, b.data.items, a.data.count * a.data.item_size);
    fixture_close(&a);
    fixture_close(&b);
}

static void test_a_node_keeps_its_shards_only(void **state) {
    (void)state;
    struct fixture f;
    struct fixture g;
    fixture_open(&f, true);
    size_t own = emit_all(&f, 3, false);
    fixture_open(&g, true);
    g.data.self = OTHER;
    size_t others = emit_all(&g, 3, false);
    assert_int_equal(own + others, RATINGS);
    assert_in_range(own, RATINGS / 3, RATINGS * 2 / 3);
    fixture_close(&f);
    fixture_close(&g);
}

static void test_no_items_at_all(void **state) {
    (void)state;
    struct fixture f;
    struct error error = {0};
    const void *items;
    fixture_open(&f, false);
    assert_int_equal(data_arrange(&f.data, &f.cache, 2, 2, 5, &error), 0);
    assert_int_equal(data_block(&f.data, 1, 1, 1, &items), 0);
    assert_int_equal(data_tests(&f.data, 1, &items), 0);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_item_once_and_no_shared_rows),
        cmocka_unit_test(test_threads_share_the_work),
        cmocka_unit_test(test_the_order_does_not_depend_on_who_was_faster),
        cmocka_unit_test(test_a_node_keeps_its_shards_only),
        cmocka_unit_test(test_no_items_at_all),
    };
    return cmocka_run_group_tests_name("data", tests, NULL, NULL);
}
