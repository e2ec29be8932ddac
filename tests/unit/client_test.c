/* The worker's client against a server played by the test: what it sends, when it asks again, when pushes may change
 * the cache, and what it retains. */
#include "workers/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PARTITIONS = 1, SENT_MAX = 64, KEY = 5 };

static const actor_id SELF = UINT64_C(0x10000);
static const actor_id SERVER = UINT64_C(0x20001);

/* An io that keeps what is sent. */
struct fake {
    struct io io;
    uint64_t now_us;
    struct message sent[SENT_MAX];
    unsigned count;
    struct job job;
    struct cache cache;
    struct client client;
};

static uint64_t fake_now(struct io *io) {
    return ((struct fake *)(void *)io)->now_us;
}

static void fake_send(struct io *io, actor_id to, struct message *message) {
    struct fake *fake = (struct fake *)(void *)io;
    assert_int_equal(to, SERVER);
    assert_true(fake->count < SENT_MAX);
    fake->sent[fake->count++] = *message;
}

/* How many messages of a type were sent since the last call; the last of them is kept until then. */
static unsigned sent(struct fake *fake, enum message_type type, struct message *last) {
    unsigned found = 0;
    for (unsigned m = 0; m < fake->count; m++) {
        if (fake->sent[m].type == type) {
            found++;
            if (last != NULL) {
                *last = fake->sent[m];
            }
        }
        message_close(&fake->sent[m]);
    }
    fake->count = 0;
    return found;
}

static void give(struct fake *fake, struct message *message) {
    message->epoch = 1;
    client_receive(&fake->client, SERVER, message);
    message_close(message);
}

/* A PUSH of clocks (from, to], with the row at `value`; negative: without rows. */
static void push(struct fake *fake, uint64_t from, uint64_t to, uint64_t request, int64_t value) {
    struct message message = {.type = MESSAGE_PUSH};
    message.push =
        (struct message_push){.from_clock = from, .clock = to, .committed = to, .received = to, .request = request};
    if (value >= 0) {
        static const struct wire_directory_entry entry = {.table = 0, .rows = 1};
        static const uint64_t key = KEY;
        message.frames[0] = buffer_copy(&entry, sizeof entry);
        message.frames[1] = buffer_copy(&key, sizeof key);
        message.frames[2] = buffer_copy(&value, sizeof value);
        message.frame_count = 3;
    }
    give(fake, &message);
}

static int64_t *row(struct fake *fake) {
    return (int64_t *)(void *)cache_row(&fake->cache.tables[0], (uint32_t)cache_find(&fake->cache, 0, KEY));
}

/* A client with one subscribed row, at clock 0 with value 100. */
static struct fake *fake_open(uint32_t staleness) {
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    fake->io = (struct io){.now_us = fake_now, .send = fake_send};
    fake->now_us = 1000 * 1000;
    fake->job = (struct job){.table_count = 1, .staleness = staleness};
    fake->job.tables[0] = (struct table_spec){.name = "t", .type = AML_INT64, .width = 1, .row_bytes = 8, .rows = 10};
    fake->job.shapes[0].row_bytes = 8;
    cache_open(&fake->cache, &fake->job, PARTITIONS);
    client_init(&fake->client, &fake->io, SELF, &fake->job, &fake->cache);
    struct message plan = {.type = MESSAGE_PLAN, .epoch = 1, .frame_count = 4};
    plan.plan = (struct message_plan){.from_clock = 1, .partitions = PARTITIONS, .shards = 1};
    plan.frames[0] = buffer_new(0);
    plan.frames[1] = buffer_copy(&SERVER, sizeof SERVER);
    plan.frames[2] = buffer_copy(&SELF, sizeof SELF);
    plan.frames[3] = buffer_new(0);
    client_plan(&fake->client, &plan);
    message_close(&plan);
    assert_int_equal(cache_add(&fake->cache, 0, KEY), 0);
    assert_int_equal(client_subscribe(&fake->client, NULL), 0);
    assert_false(client_subscribed(&fake->client));
    assert_int_equal(sent(fake, MESSAGE_SUBSCRIBE, NULL), 1);
    push(fake, 0, 0, 1, 100);
    assert_true(client_subscribed(&fake->client));
    assert_int_equal(*row(fake), 100);
    return fake;
}

static void fake_close(struct fake *fake) {
    (void)sent(fake, MESSAGE_PULL, NULL);
    client_close(&fake->client);
    cache_close(&fake->cache);
    free(fake);
}

/* Works on the next clock, adds `value` to the row, and flushes. */
static void work(struct fake *fake, int64_t value) {
    client_begin(&fake->client, fake->client.begun + 1);
    *row(fake) += value;
    fake->cache.tables[0].touched.base[0] = 1;
    assert_int_equal(client_gather(&fake->client, 0, NULL), 0);
    client_flush(&fake->client);
}

static void test_own_changes_stay_visible(void **state) {
    (void)state;
    struct fake *fake = fake_open(2);
    work(fake, 1);
    work(fake, 10);
    assert_int_equal(*row(fake), 111);
    push(fake, 0, 1, 0, 1001); /* clock 1: somebody else added 900, and our 1 is in */
    assert_int_equal(*row(fake), 1011);
    work(fake, 100);
    push(fake, 1, 3, 0, 5111);
    assert_int_equal(*row(fake), 5111);
    fake_close(fake);
}

static void test_staleness_opens_clocks(void **state) {
    (void)state;
    struct fake *fake = fake_open(1);
    assert_true(client_may_begin(&fake->client, 1));
    assert_true(client_may_begin(&fake->client, 2));
    assert_false(client_may_begin(&fake->client, 3));
    work(fake, 1);
    work(fake, 1);
    push(fake, 0, 1, 0, 101);
    assert_true(client_may_begin(&fake->client, 3));
    assert_false(client_may_begin(&fake->client, 4));
    assert_true(client_has_state(&fake->client, 1));
    assert_false(client_has_state(&fake->client, 2));
    fake_close(fake);
}

static void test_the_cache_rests_while_the_app_has_it(void **state) {
    (void)state;
    struct fake *fake = fake_open(1);
    work(fake, 1);
    client_begin(&fake->client, 2);
    push(fake, 0, 1, 0, 201);
    assert_int_equal(*row(fake), 101);
    assert_int_equal(client_gather(&fake->client, 0, NULL), 0);
    client_flush(&fake->client);
    assert_int_equal(*row(fake), 201);
    client_freeze(&fake->client);
    push(fake, 1, 2, 0, 301);
    assert_int_equal(*row(fake), 201);
    assert_false(client_has_state(&fake->client, 2));
    client_thaw(&fake->client);
    assert_int_equal(*row(fake), 301);
    assert_true(client_has_state(&fake->client, 2));
    fake_close(fake);
}

static void test_waiting_pushes_have_a_limit(void **state) {
    (void)state;
    struct fake *fake = fake_open(1);
    client_freeze(&fake->client); /* as when a node without data falls behind */
    for (uint64_t c = 0; c < 20; c++) {
        push(fake, c, c + 1, 0, (int64_t)c);
        push(fake, c, c + 1, 0, (int64_t)c); /* repeats do not count */
    }
    assert_int_equal(fake->client.partitions[0].waiting_count, 3);
    client_thaw(&fake->client);
    assert_int_equal(fake->client.partitions[0].clock, 3);
    fake->now_us += CLIENT_RETRY_MIN_US;
    struct message pull;
    client_timer(&fake->client);
    assert_int_equal(sent(fake, MESSAGE_PULL, &pull), 1);
    assert_int_equal(pull.pull.clock, 3);
    push(fake, 3, 20, 0, 19);
    assert_int_equal(*row(fake), 19);
    fake_close(fake);
}

static void test_a_gap_is_asked_for(void **state) {
    (void)state;
    struct fake *fake = fake_open(3);
    work(fake, 1);
    work(fake, 1);
    push(fake, 1, 2, 0, 500); /* clock 1 was lost */
    assert_int_equal(fake->client.partitions[0].clock, 0);
    assert_int_equal(*row(fake), 102);
    (void)sent(fake, MESSAGE_PULL, NULL);
    fake->now_us += CLIENT_RETRY_MIN_US;
    assert_true(client_timer(&fake->client) > fake->now_us);
    struct message pull;
    assert_int_equal(sent(fake, MESSAGE_PULL, &pull), 1);
    assert_int_equal(pull.pull.clock, 0);
    push(fake, 0, 2, 0, 500);
    assert_int_equal(*row(fake), 500);
    assert_int_equal(client_timer(&fake->client), 0); /* nothing is missing any more */
    fake_close(fake);
}

static void test_asking_slows_down_and_starts_anew(void **state) {
    (void)state;
    struct fake *fake = fake_open(3);
    work(fake, 1);
    uint64_t gap = CLIENT_RETRY_MIN_US;
    for (unsigned i = 0; i < 8; i++) {
        fake->now_us += gap;
        (void)sent(fake, MESSAGE_PULL, NULL);
        uint64_t next = client_timer(&fake->client);
        assert_int_equal(sent(fake, MESSAGE_PULL, NULL), 1);
        gap = 2 * gap < CLIENT_RETRY_MAX_US ? 2 * gap : CLIENT_RETRY_MAX_US;
        assert_int_equal(next, fake->now_us + gap);
    }
    work(fake, 1); /* so that we still wait after the next push */
    push(fake, 0, 1, 0, 101);
    assert_int_equal(client_timer(&fake->client), fake->now_us + CLIENT_RETRY_MIN_US);
    fake_close(fake);
}

static void test_flushes_that_did_not_arrive_are_sent_again(void **state) {
    (void)state;
    struct fake *fake = fake_open(3);
    work(fake, 1);
    work(fake, 2);
    work(fake, 3);
    assert_int_equal(sent(fake, MESSAGE_FLUSH, NULL), 3);
    struct message answer = {.type = MESSAGE_PUSH};
    answer.push.received = 1;
    give(fake, &answer);
    struct message flush;
    assert_int_equal(sent(fake, MESSAGE_FLUSH, &flush), 2);
    assert_int_equal(flush.flush.clock, 3);
    assert_int_equal(flush.flush.origin, SELF);
    push(fake, 0, 3, 0, 106);
    for (unsigned r = 0; r < 5; r++) { /* committed: nothing is retained */
        assert_int_equal(fake->client.partitions[0].retained[r].clock, 0);
    }
    fake_close(fake);
}

/* A node without data is waited for by nobody: the servers may be far ahead of its flushes. */
static void test_flushes_behind_the_commit_are_not_retained(void **state) {
    (void)state;
    struct fake *fake = fake_open(0);
    push(fake, 0, 10, 0, 110);
    for (unsigned c = 1; c <= 10; c++) {
        work(fake, 0);
        (void)sent(fake, MESSAGE_FLUSH, NULL);
    }
    assert_int_equal(fake->client.partitions[0].retained[0].clock, 0);
    assert_int_equal(fake->client.partitions[0].retained[1].clock, 0);
    fake_close(fake);
}

static void test_what_the_protocol_forbids_is_an_error(void **state) {
    (void)state;
    struct fake *fake = fake_open(0);
    static const struct wire_directory_entry entry = {.table = 0, .rows = 1};
    static const uint64_t key = KEY + 1; /* never asked for */
    struct message message = {.type = MESSAGE_PUSH, .frame_count = 3};
    message.push.clock = 1;
    message.frames[0] = buffer_copy(&entry, sizeof entry);
    message.frames[1] = buffer_copy(&key, sizeof key);
    message.frames[2] = buffer_copy(&key, sizeof key);
    give(fake, &message);
    assert_int_equal(fake->client.error.code, AML_EPROTOCOL);
    assert_int_equal(*row(fake), 100);
    fake_close(fake);
}

static void test_strangers_and_other_epochs_are_ignored(void **state) {
    (void)state;
    struct fake *fake = fake_open(0);
    struct message message = {.type = MESSAGE_PUSH, .epoch = 2};
    message.push.clock = 1;
    client_receive(&fake->client, SERVER, &message);
    message.epoch = 1;
    client_receive(&fake->client, SERVER + 1, &message);
    message.push.partition = 7;
    client_receive(&fake->client, SERVER, &message);
    assert_int_equal(fake->client.partitions[0].clock, 0);
    fake_close(fake);
}

static void test_the_silent_server_is_named(void **state) {
    (void)state;
    struct fake *fake = fake_open(1);
    uint64_t since_us = 0;
    assert_int_equal(client_silent(&fake->client, &since_us), ACTOR_NONE);
    work(fake, 1);
    uint64_t began_us = fake->now_us;
    fake->now_us += 5 * 1000 * 1000;
    assert_int_equal(client_silent(&fake->client, &since_us), SERVER);
    assert_int_equal(since_us, began_us);
    struct message answer = {.type = MESSAGE_PUSH};
    give(fake, &answer);
    assert_int_equal(client_silent(&fake->client, &since_us), SERVER);
    assert_int_equal(since_us, fake->now_us);
    push(fake, 0, 1, 0, 101);
    assert_int_equal(client_silent(&fake->client, &since_us), ACTOR_NONE);
    fake_close(fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_changes_stay_visible),
        cmocka_unit_test(test_staleness_opens_clocks),
        cmocka_unit_test(test_the_cache_rests_while_the_app_has_it),
        cmocka_unit_test(test_waiting_pushes_have_a_limit),
        cmocka_unit_test(test_a_gap_is_asked_for),
        cmocka_unit_test(test_asking_slows_down_and_starts_anew),
        cmocka_unit_test(test_flushes_that_did_not_arrive_are_sent_again),
        cmocka_unit_test(test_flushes_behind_the_commit_are_not_retained),
        cmocka_unit_test(test_what_the_protocol_forbids_is_an_error),
        cmocka_unit_test(test_strangers_and_other_epochs_are_ignored),
        cmocka_unit_test(test_the_silent_server_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
