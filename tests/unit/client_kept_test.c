/* What a worker's client keeps of pushes, so that a partition whose copies are all lost can be restored from the
 * node's cache: the clocks that it can give, and the rows. The test plays the servers. */
#include "tests/fake_io.h"
#include "tests/test.h"
#include "workers/client/client_private.h"

enum { ROWS = 6, PARTITIONS = 2, OWN = ROWS / PARTITIONS /* rows of partition 0: keys 0, 2 and 4 */ };

static const actor_id SELF = UINT64_C(0x10000);
static const actor_id FRIEND = UINT64_C(0x30000);
static const actor_id SERVER = UINT64_C(0x20001);

#define NOT INT64_MIN /* in place of a row's value: the message lacks the row */

struct fake {
    struct fake_io io;
    struct job job;
    struct cache cache;
    struct client client;
    struct message_plan plan;
    uint64_t epoch;
};

/* Returns the request number of the last SUBSCRIBE to a partition. All messages went to the server. */
static uint64_t last_request(const struct fake *fake, uint32_t partition) {
    uint64_t request = 0;
    for (unsigned m = 0; m < fake->io.count; m++) {
        const struct message *message = &fake->io.sent[m].message;
        assert_int_equal(fake->io.sent[m].to, SERVER);
        if (message->type == MESSAGE_SUBSCRIBE && message->subscribe.partition == partition) {
            request = message->subscribe.request;
        }
    }
    return request;
}

static void give_plan(struct fake *fake) {
    struct wire_placement placement[PARTITIONS] = {{.server = SERVER, .next_server = SERVER},
                                                   {.server = SERVER, .next_server = SERVER}};
    const struct wire_assignment assignments[] = {
        {.origin = SELF, .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER},
        {.origin = FRIEND, .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER},
    };
    CLOSED_BY(message_close)
    struct message plan = {.type = MESSAGE_PLAN, .epoch = fake->epoch, .plan = fake->plan, .frame_count = PLAN_FRAMES};
    plan.plan.version = ++fake->plan.version;
    plan.frames[PLAN_NODES] = buffer_new(0);
    plan.frames[PLAN_PLACEMENT] = buffer_copy(placement, sizeof placement);
    plan.frames[PLAN_ASSIGNMENTS] = buffer_copy(assignments, sizeof assignments);
    plan.frames[PLAN_SHARDS] = buffer_new(0);
    plan.frames[PLAN_ENDPOINTS] = buffer_new(0);
    CLOSED_BY(plan_close) struct plan_view view = plan_open(&plan);
    client_plan(&fake->client, &view);
}

/* A PUSH of partition 0 for clocks (from, to] and durable clock `durable`, with the rows that have a value. */
static struct message push_of(uint64_t from, uint64_t to, uint64_t durable, const int64_t values[OWN]) {
    struct message push = {.type = MESSAGE_PUSH};
    push.push = (struct message_push){.from_clock = from, .clock = to, .durable = durable, .received = to};
    struct buffer *keys = buffer_new(OWN * sizeof(uint64_t));
    struct buffer *rows = buffer_new(OWN * sizeof(int64_t));
    uint32_t count = 0;
    for (unsigned i = 0; i < OWN; i++) {
        if (values[i] != NOT) {
            ((uint64_t *)(void *)keys->data)[count] = (uint64_t)i * PARTITIONS;
            ((int64_t *)(void *)rows->data)[count++] = values[i];
        }
    }
    keys->size = rows->size = count * sizeof(uint64_t);
    if (count > 0) {
        rows_append(&push, 0, WIRE_FULL, keys, rows);
    } else {
        buffer_drop(keys);
        buffer_drop(rows);
    }
    return push;
}

static void give(struct fake *fake, struct message *push) {
    push->epoch = fake->epoch;
    if (push->push.clock > fake->client.possible) {
        fake->client.possible = push->push.clock; /* as if this node had worked on these clocks */
    }
    client_receive(&fake->client, SERVER, push);
    message_close(push);
}

static void push(struct fake *fake, uint64_t from, uint64_t to, uint64_t durable, int64_t a, int64_t b, int64_t c) {
    struct message message = push_of(from, to, durable, (const int64_t[]){a, b, c});
    give(fake, &message);
}

/* Answers the last SUBSCRIBE or the request for void rows. */
static void answer(struct fake *fake, uint64_t clock, int64_t a, int64_t b, int64_t c) {
    struct message message = push_of(0, clock, 0, (const int64_t[]){a, b, c});
    message.push.request = last_request(fake, 0);
    give(fake, &message);
}

/* Pushes partition 1 without rows, durable up to `durable`. */
static void other(struct fake *fake, uint64_t from, uint64_t to, uint64_t durable) {
    struct message message = {.type = MESSAGE_PUSH};
    message.push =
        (struct message_push){.partition = 1, .from_clock = from, .clock = to, .durable = durable, .received = to};
    give(fake, &message);
}

static void fake_close(void *context) {
    FREED struct fake *fake = context;
    last_request(fake, 0);
    fake_io_forget(&fake->io);
    client_close(&fake->client);
    cache_close(&fake->cache);
}

static struct fake *fake_bare(uint32_t staleness) {
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    at_end(fake_close, fake);
    fake_io_open(&fake->io);
    fake->job = (struct job){.table_count = 1, .staleness = staleness, .clocks.local_steps = 1};
    fake->job.tables[0] = (struct table_spec){
        .name = "t", .type = AML_INT64, .width = 1, .row_bytes = 8, .rows = ROWS, .whole = true, .mode = AML_ADD};
    fake->job.shapes[0] = table_shape(&fake->job.tables[0]);
    fake->plan = (struct message_plan){.commit_every = 2,
                                       .next_commit_every = 2,
                                       .window = 8,
                                       .partitions = PARTITIONS,
                                       .shards = 1,
                                       .recoverable = 1,
                                       .transient = 1};
    fake->epoch = 1;
    cache_open(&fake->cache, &fake->job, PARTITIONS);
    client_init(&fake->client, &fake->io.io, SELF, &fake->job, &fake->cache);
    return fake;
}

/* A client at clock 0 whose rows of partition 0 are 10, 20 and 30, and which waits for none of partition 1. */
static struct fake *fake_open(uint32_t staleness) {
    struct fake *fake = fake_bare(staleness);
    assert_int_equal(cache_add(&fake->cache, 0, 0), 0);
    give_plan(fake);
    assert_int_equal(client_subscribe(&fake->client, NULL), 0);
    answer(fake, 0, 10, 20, 30);
    static const uint64_t keys[] = {1, 3, 5};
    static const int64_t zeros[] = {0, 0, 0};
    struct message message = {.type = MESSAGE_PUSH, .push = {.partition = 1, .request = last_request(fake, 1)}};
    rows_append(&message, 0, WIRE_FULL, buffer_copy(keys, sizeof keys), buffer_copy(zeros, sizeof zeros));
    give(fake, &message);
    assert_true(client_subscribed(&fake->client));
    return fake;
}

static void assert_clocks(const struct fake *fake, const uint64_t *expected, unsigned count) {
    FREED uint64_t *clocks;
    assert_int_equal(client_kept_clocks(&fake->client, 0, &clocks), count);
    assert_memory_equal(clocks, expected, count * sizeof *clocks);
}

static void assert_state(const struct fake *fake, uint64_t clock, int64_t a, int64_t b, int64_t c) {
    const int64_t expected[OWN] = {a, b, c};
    CLOSED_BY(message_close) struct message update;
    struct rows_view view;
    client_kept_state(&fake->client, 0, clock, &update);
    assert_int_equal(update.type, MESSAGE_UPDATE);
    assert_int_equal(update.update.partition, 0);
    assert_int_equal(update.update.clock, clock);
    assert_int_equal(update.update.piece, 0);
    assert_true(rows_find(&update, 0, &view));
    assert_int_equal(view.count, OWN);
    for (unsigned i = 0; i < OWN; i++) {
        assert_int_equal(view.keys[i], i * PARTITIONS);
    }
    assert_memory_equal(view.values, expected, sizeof expected);
}

/* Works on the next clock and, if `ends`, flushes it. */
static void work(struct fake *fake, int64_t value, bool ends) {
    client_begin(&fake->client, SELF, fake->client.flushed + 1);
    *(int64_t *)(void *)cache_row(&fake->cache.tables[0], 0) += value;
    fake->cache.tables[0].touched.base[0] = 1;
    for (uint32_t p = 0; p < PARTITIONS && ends; p++) {
        assert_int_equal(client_gather(&fake->client, p, NULL), 0);
    }
    if (ends) {
        client_flush(&fake->client);
    }
}

/* ---- Jobs ---- */

TEST(only_where_tables_and_plan_allow_it) {
    for (unsigned c = 0; c < 6; c++) {
        struct fake *fake = fake_bare(0);
        struct table_spec *spec = &fake->job.tables[0];
        spec->whole = c != 1;
        spec->mode = c == 2 ? AML_PUT : AML_ADD;
        spec->type = c == 3 ? AML_FLOAT32 : AML_INT64;
        spec->row_bytes = c == 3 ? 4 : 8;
        spec->compressed = c == 3;
        spec->state = c == 4 ? 1 : 0;
        fake->job.shapes[0] = table_shape(spec);
        fake->plan.transient = c != 5;
        give_plan(fake);
        assert_int_equal(fake->client.partitions[0].kept.on, c == 0);
        assert_int_equal(job_unkept_table(&fake->job), c == 0 || c == 5 ? 1 : 0);
    }
}

/* ---- Clocks ---- */

TEST(the_committed_clock_is_given_whatever_came_later) {
    struct fake *fake = fake_open(0);
    assert_clocks(fake, (const uint64_t[]){0}, 1);
    work(fake, 1, true);
    push(fake, 0, 1, 0, 11, NOT, NOT);
    other(fake, 0, 1, 0);
    work(fake, 1, true);
    push(fake, 1, 2, 0, 12, 22, NOT);
    other(fake, 1, 2, 0);
    work(fake, 1, true);
    push(fake, 2, 3, 2, 13, NOT, 33);
    other(fake, 2, 3, 2);
    assert_int_equal(fake->client.committed, 2);
    work(fake, 1000, false);
    assert_clocks(fake, (const uint64_t[]){2, 3}, 2);
    assert_state(fake, 2, 12, 22, 30);
    assert_state(fake, 3, 13, 22, 33);
}

TEST(a_clock_is_committed_before_its_push_comes) {
    struct fake *fake = fake_open(0);
    work(fake, 1, true);
    push(fake, 0, 1, 0, 11, NOT, NOT);
    fake->client.possible = 2;
    push(fake, 1, 1, 2, NOT, NOT, NOT); /* this clock is durable, but its push was lost */
    other(fake, 0, 2, 2);
    assert_clocks(fake, (const uint64_t[]){1}, 1);
    assert_state(fake, 1, 11, 20, 30);
    push(fake, 1, 2, 2, NOT, 22, NOT);
    assert_clocks(fake, (const uint64_t[]){2}, 1);
    assert_state(fake, 2, 11, 22, 30);
}

/* A push of several clocks skips the clocks between. */
TEST(a_clock_that_was_skipped_is_not_given) {
    struct fake *fake = fake_open(0);
    push(fake, 0, 3, 0, 13, 23, NOT);
    assert_clocks(fake, (const uint64_t[]){0, 3}, 2);
    assert_state(fake, 0, 10, 20, 30);
}

/* With staleness, rows hold own updates that no push contains yet, and pushes wait while the app works. */
TEST(a_push_that_waits_is_kept_by_a_fence) {
    struct fake *fake = fake_open(1);
    work(fake, 1, true);
    push(fake, 0, 1, 0, 11, NOT, NOT);
    other(fake, 0, 1, 0);
    work(fake, 1, true);
    work(fake, 1000, false);
    push(fake, 1, 2, 0, 12, 22, NOT);
    assert_int_equal(fake->client.partitions[0].waiting_count, 1);
    assert_clocks(fake, (const uint64_t[]){0, 1}, 2);
    client_fence(&fake->client, 2);
    assert_clocks(fake, (const uint64_t[]){0, 2}, 2); /* clock 1 is no commit point, and not the last */
    assert_state(fake, 2, 12, 22, 30);
}

/* ---- Incomplete caches ---- */

TEST(a_cache_that_lacks_rows_gives_nothing) {
    struct fake *fake = fake_bare(0);
    fake->client.asking.bytes = 1; /* requests a row at a time */
    assert_int_equal(cache_add(&fake->cache, 0, 0), 0);
    give_plan(fake);
    assert_int_equal(client_subscribe(&fake->client, NULL), 0);
    answer(fake, 4, NOT, NOT, NOT); /* the first request has no room for rows */
    assert_clocks(fake, NULL, 0);
    answer(fake, 4, 10, NOT, NOT);
    push(fake, 4, 5, 0, 15, NOT, NOT);
    answer(fake, 6, NOT, 20, NOT); /* before the push of clock 6 */
    assert_clocks(fake, NULL, 0);
    answer(fake, 6, NOT, NOT, 30);
    assert_int_equal(fake->client.partitions[0].filled[0], OWN);
    assert_clocks(fake, NULL, 0);
    push(fake, 5, 6, 0, 16, NOT, NOT);
    assert_clocks(fake, (const uint64_t[]){6}, 1);
    assert_state(fake, 6, 16, 20, 30);
}

/* A server that takes the worker for the only origin leaves out rows whose values this client does not know. */
TEST(rows_that_were_left_out_are_missing) {
    struct fake *fake = fake_open(0);
    struct message lacking = push_of(0, 1, 0, (const int64_t[]){NOT, NOT, NOT});
    lacking.push.left_out = 1;
    give(fake, &lacking);
    assert_clocks(fake, NULL, 0);
    push(fake, 1, 2, 0, 12, NOT, 32);
    assert_clocks(fake, NULL, 0);
    push(fake, 2, 3, 0, NOT, 23, NOT);
    assert_clocks(fake, (const uint64_t[]){3}, 1);
    assert_state(fake, 3, 12, 23, 32);
}

TEST(rows_of_another_partition_are_of_no_use) {
    static const uint64_t key = 1;
    static const int64_t value = 7;
    struct fake *fake = fake_open(0);
    struct message wrong = push_of(0, 1, 0, (const int64_t[]){NOT, NOT, NOT});
    rows_append(&wrong, 0, WIRE_FULL, buffer_copy(&key, sizeof key), buffer_copy(&value, sizeof value));
    give(fake, &wrong);
    assert_clocks(fake, NULL, 0);
}

/* ---- Pushes with every row ---- */

TEST(pushes_with_every_row_are_not_copied) {
    struct fake *fake = fake_open(0);
    const struct client_kept *kept = &fake->client.partitions[0].kept;
    for (uint64_t clock = 1; clock <= 5; clock++) {
        push(fake, clock - 1, clock, clock >= 4 ? 2 : 0, (int64_t)clock, 20 + (int64_t)clock, 30);
        other(fake, clock - 1, clock, clock >= 4 ? 2 : 0);
    }
    assert_int_equal(fake->client.committed, 2);
    assert_null(kept->values[0]);
    assert_int_equal(kept->push_count, 3); /* pushes of clocks 2, 4 and 5; 3 is no commit point */
    assert_clocks(fake, (const uint64_t[]){2, 4, 5}, 3);
    assert_state(fake, 2, 2, 22, 30);
    assert_state(fake, 5, 5, 25, 30);
    push(fake, 5, 6, 4, NOT, 26, NOT);
    other(fake, 5, 6, 6);
    push(fake, 6, 7, 6, 7, NOT, NOT);
    assert_int_equal(fake->client.committed, 6);
    assert_clocks(fake, (const uint64_t[]){6, 7}, 2);
    assert_state(fake, 6, 5, 26, 30);
    assert_state(fake, 7, 7, 26, 30);
}

/* ---- Epochs ---- */

static void new_epoch(struct fake *fake, uint64_t restore) {
    client_fence(&fake->client, ++fake->epoch);
    fake->plan.restore = restore;
    give_plan(fake);
}

TEST(what_an_epoch_undoes_is_forgotten) {
    struct fake *fake = fake_open(0);
    push(fake, 0, 2, 0, 12, NOT, NOT);
    push(fake, 2, 3, 0, 13, 23, NOT);
    new_epoch(fake, 2);
    assert_clocks(fake, (const uint64_t[]){0, 2}, 2);
    assert_state(fake, 2, 12, 20, 30);
    answer(fake, 2, NOT, NOT, NOT); /* the new server knows the subscriptions */
    push(fake, 2, 3, 0, 113, NOT, 133);
    assert_state(fake, 3, 113, 20, 133);
}

/* A job with nothing committed may start from the beginning: rows known only as of later clocks are requested again. */
TEST(rows_of_undone_clocks_come_again) {
    struct fake *fake = fake_open(0);
    push(fake, 0, 2, 2, 12, NOT, NOT);
    other(fake, 0, 2, 2);
    assert_clocks(fake, (const uint64_t[]){2}, 1);
    new_epoch(fake, 0);
    assert_clocks(fake, NULL, 0);
    answer(fake, 0, NOT, NOT, NOT);
    answer(fake, 0, 10, NOT, NOT); /* the void row */
    assert_clocks(fake, (const uint64_t[]){0}, 1);
    assert_state(fake, 0, 10, 20, 30);
}

/* A push of several clocks that covers clock 2 is undone: its rows are requested again, with those changed up to
 * clock 2. */
TEST(a_push_of_several_clocks_is_undone) {
    struct fake *fake = fake_open(0);
    push(fake, 0, 3, 0, 13, 23, NOT);
    new_epoch(fake, 2);
    assert_clocks(fake, NULL, 0);
    answer(fake, 2, NOT, NOT, NOT);
    answer(fake, 2, 12, NOT, NOT);
    assert_clocks(fake, NULL, 0);
    push(fake, 2, 3, 0, 113, 23, NOT);
    assert_clocks(fake, (const uint64_t[]){3}, 1);
    assert_state(fake, 3, 113, 23, 30);

    fake = fake_open(0);
    push(fake, 0, 3, 0, 13, 23, NOT);
    new_epoch(fake, 2);
    answer(fake, 2, NOT, NOT, NOT);
    answer(fake, 2, 12, 22, NOT);
    assert_clocks(fake, (const uint64_t[]){2}, 1);
    push(fake, 2, 3, 0, 113, NOT, NOT);
    assert_clocks(fake, (const uint64_t[]){2, 3}, 2);
    assert_state(fake, 2, 12, 22, 30);
    assert_state(fake, 3, 113, 22, 30);
}

/* The pushes before the undone push stay, whether their rows are in the cache or only in the pushes. */
TEST(a_push_of_several_clocks_is_undone_after_others) {
    for (unsigned all = 0; all < 2; all++) {
        struct fake *fake = fake_open(0);
        push(fake, 0, 1, 0, 11, all != 0 ? 21 : NOT, all != 0 ? 31 : NOT);
        push(fake, 1, 2, 0, NOT, 22, NOT);
        push(fake, 2, 4, 0, NOT, NOT, 34);
        push(fake, 4, 5, 0, NOT, 25, NOT);
        new_epoch(fake, 3);
        assert_clocks(fake, NULL, 0);
        answer(fake, 3, NOT, NOT, NOT);
        answer(fake, 3, NOT, 22, 33);
        assert_clocks(fake, (const uint64_t[]){3}, 1);
        assert_state(fake, 3, 11, 22, 33);
    }
}

/* A waiting push is undone; the cache never had its rows and keeps the earlier values. */
TEST(a_push_that_waited_is_undone) {
    for (unsigned all = 0; all < 2; all++) {
        struct fake *fake = fake_open(1);
        push(fake, 0, 1, 0, 11, NOT, NOT);
        push(fake, 1, 2, 0, NOT, 22, NOT);
        client_freeze(&fake->client);
        push(fake, 2, 4, 0, 14, 24, all != 0 ? 34 : NOT);
        assert_int_equal(fake->client.partitions[0].waiting_count, 1);
        client_fence(&fake->client, fake->epoch + 1);
        assert_clocks(fake, (const uint64_t[]){0, 2, 4}, 3);
        assert_state(fake, 4, 14, 24, all != 0 ? 34 : 30);
        new_epoch(fake, 3);
        client_thaw(&fake->client);
        assert_clocks(fake, (const uint64_t[]){0, 2}, 2);
        assert_state(fake, 2, 11, 22, 30);
        answer(fake, 3, 13, NOT, NOT); /* this push also has the changes since clock 2 */
        assert_clocks(fake, (const uint64_t[]){0, 2, 3}, 3);
        assert_state(fake, 3, 13, 22, 30);
    }
}

/* A push with every row made earlier pushes be dropped, and is then undone. */
TEST(a_push_with_every_row_is_undone) {
    struct fake *fake = fake_open(0);
    fake->plan.commit_every = fake->plan.next_commit_every = 16;
    give_plan(fake);
    push(fake, 0, 4, 0, 14, 24, 34);
    for (uint64_t clock = 5; clock <= 7; clock++) {
        push(fake, clock - 1, clock, 0, NOT, NOT, NOT);
    }
    push(fake, 7, 8, 0, 18, 28, 38);
    assert_int_equal(fake->client.partitions[0].kept.push_count, 1);
    new_epoch(fake, 6);
    assert_clocks(fake, NULL, 0);
    answer(fake, 6, NOT, NOT, NOT);
    answer(fake, 6, 14, 24, NOT);
    assert_clocks(fake, NULL, 0);
    answer(fake, 6, NOT, NOT, 34);
    assert_clocks(fake, (const uint64_t[]){6}, 1);
    assert_state(fake, 6, 14, 24, 34);
}

/* A server names rows before the app has added their table. */
TEST(rows_of_a_table_that_is_not_there) {
    struct fake *fake = fake_bare(1);
    give_plan(fake);
    assert_int_equal(client_subscribe(&fake->client, NULL), 0);
    answer(fake, 0, NOT, NOT, NOT);
    assert_true(fake->client.partitions[0].subscribed);
    client_freeze(&fake->client);
    push(fake, 0, 1, 0, 11, 21, 31);
    assert_int_equal(fake->client.partitions[0].waiting_count, 1);
    client_fence(&fake->client, 2);
    assert_clocks(fake, NULL, 0);
}

/* ---- Plans ---- */

/* A job may enter stage transient late, and leave it again. */
TEST(keeping_begins_and_ends_with_the_plan) {
    struct fake *fake = fake_open(0);
    push(fake, 0, 1, 0, 11, NOT, NOT);
    fake->plan.transient = 0;
    give_plan(fake);
    assert_clocks(fake, NULL, 0);
    push(fake, 1, 2, 0, 12, NOT, NOT);
    assert_int_equal(fake->client.partitions[0].kept.push_count, 0);
    fake->plan.transient = 1;
    give_plan(fake);
    push(fake, 2, 3, 0, 13, NOT, NOT);
    assert_clocks(fake, NULL, 0);
    push(fake, 3, 4, 0, 14, 24, 34);
    assert_clocks(fake, (const uint64_t[]){4}, 1);
    assert_state(fake, 4, 14, 24, 34);
}
