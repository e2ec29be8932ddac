/* The worker's client against servers played by the test: its messages and their receivers, its retries, when pushes
 * may change the cache, what is retained, and how plans and epochs change. */
#include "agileml/wire/sparse.h"
#include "tests/fake_io.h"
#include "tests/test.h"
#include "workers/client/client.h"

enum { SENT_MAX = 64, KEY = 5, OTHER_KEY = 6, ROWS = 10, ASSIGNMENTS_MAX = 4, PARTITIONS_MAX = 3 };

static const actor_id SELF = UINT64_C(0x10000);
static const actor_id FRIEND = UINT64_C(0x30000);
static const actor_id SERVER = UINT64_C(0x20001);
static const actor_id SECOND = UINT64_C(0x40001);

struct fake {
    struct fake_io io;
    struct fake *next; /* next fake in the list of open ones */
    uint64_t request;  /* number of the last SUBSCRIBE seen */
    struct job job;
    struct cache cache;
    struct client client;
    struct message_plan plan;
    uint64_t epoch;
    actor_id server, next_server;
    struct wire_assignment assignments[ASSIGNMENTS_MAX];
    unsigned assignment_count;
};

static struct fake *open_fakes; /* closed by the test, or by close_all after it */

/* fake_io_sent for any server; then forgets all messages sent. */
static unsigned sent(struct fake *fake, enum message_type type, struct message *last) {
    unsigned found = fake_io_sent(&fake->io, ACTOR_NONE, type, last);
    fake_io_forget(&fake->io);
    return found;
}

static void give_from(struct fake *fake, actor_id from, struct message *message) {
    message->epoch = fake->epoch;
    client_receive(&fake->client, from, message);
    message_close(message);
}

static void row_frames(struct message *message, uint64_t key, int64_t value) {
    static const struct wire_directory_entry entry = {.table = 0, .rows = 1};
    message->frames[0] = buffer_copy(&entry, sizeof entry);
    message->frames[1] = buffer_copy(&key, sizeof key);
    message->frames[2] = buffer_copy(&value, sizeof value);
    message->frame_count = 3;
}

/* Gives a PUSH of clocks (from, to] with the row at `value`, or without rows if `value` is negative. */
static void push_from(struct fake *fake, actor_id server, uint64_t from, uint64_t to, uint64_t request,
                      uint64_t durable, int64_t value) {
    struct message message = {.type = MESSAGE_PUSH};
    message.push =
        (struct message_push){.from_clock = from, .clock = to, .durable = durable, .received = to, .request = request};
    if (value >= 0) {
        row_frames(&message, KEY, value);
    }
    if (to > fake->client.possible) {
        fake->client.possible = to; /* as if this node had worked on these clocks */
    }
    give_from(fake, server, &message);
}

static void push(struct fake *fake, uint64_t from, uint64_t to, uint64_t request, int64_t value) {
    push_from(fake, SERVER, from, to, request, to, value);
}

/* Answers the last PULL as a server that has sent its pushes up to `clock` and has our flushes up to `received`. */
static void answer_pull(struct fake *fake, actor_id server, uint64_t clock, uint64_t received) {
    struct message message = {.type = MESSAGE_PUSH};
    message.push = (struct message_push){
        .from_clock = clock, .clock = clock, .received = received, .pull = fake->client.partitions[0].pulls};
    message.push.subscribed = fake->client.requests;
    give_from(fake, server, &message);
}

static int64_t *row_of(struct fake *fake, uint64_t key) {
    return (int64_t *)(void *)cache_row(&fake->cache.tables[0], (uint32_t)cache_find(&fake->cache, 0, key));
}

static int64_t *row(struct fake *fake) {
    return row_of(fake, KEY);
}

/* Gives the client the plan in the fake's fields, with the next version. */
static void give_plan(struct fake *fake) {
    struct wire_placement placement[PARTITIONS_MAX];
    for (uint32_t p = 0; p < PARTITIONS_MAX; p++) {
        placement[p] = (struct wire_placement){.server = fake->server, .next_server = fake->next_server};
    }
    CLOSED_BY(message_close)
    struct message plan = {.type = MESSAGE_PLAN, .epoch = fake->epoch, .plan = fake->plan, .frame_count = 5};
    plan.plan.version = ++fake->plan.version;
    struct wire_node nodes[ASSIGNMENTS_MAX] = {{0}};
    struct wire_endpoint endpoints[ASSIGNMENTS_MAX] = {{0}};
    unsigned count = fake->job.exchange == EXCHANGE_RING ? fake->assignment_count : 0;
    for (unsigned n = 0; n < count; n++) {
        nodes[n].actor = fake->assignments[n].origin;
        endpoints[n].actor = actor_of_part(fake->assignments[n].origin, 1);
    }
    plan.frames[0] = buffer_copy(nodes, count * sizeof *nodes);
    plan.frames[1] = buffer_copy(placement, fake->plan.partitions * sizeof placement[0]);
    plan.frames[2] = buffer_copy(fake->assignments, fake->assignment_count * sizeof fake->assignments[0]);
    plan.frames[3] = buffer_new(0);
    plan.frames[4] = buffer_copy(endpoints, count * sizeof *endpoints);
    CLOSED_BY(plan_close) struct plan_view view = plan_open(&plan);
    client_plan(&fake->client, &view);
}

/* A client whose cache is still empty. */
static struct fake *fake_bare(uint32_t staleness, bool whole) {
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    fake->next = open_fakes;
    open_fakes = fake;
    fake_io_open(&fake->io);
    fake->job = (struct job){.table_count = 1, .staleness = staleness};
    fake->job.tables[0] = (struct table_spec){.name = "t", .type = AML_INT64, .width = 1, .row_bytes = 8, .rows = ROWS};
    fake->job.tables[0].whole = whole;
    fake->job.shapes[0] = table_shape(&fake->job.tables[0]);
    fake->plan = (struct message_plan){
        .commit_every = 1, .next_commit_every = 1, .window = 8, .partitions = 1, .shards = 1, .recoverable = 1};
    fake->epoch = 1;
    fake->server = fake->next_server = SERVER;
    fake->assignments[0] = (struct wire_assignment){.origin = SELF, .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER};
    fake->assignments[1] = (struct wire_assignment){.origin = FRIEND, .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER};
    fake->assignment_count = 2;
    cache_open(&fake->cache, &fake->job, 1);
    client_init(&fake->client, &fake->io.io, SELF, &fake->job, &fake->cache);
    return fake;
}

static struct fake *fake_new(uint32_t staleness) {
    struct fake *fake = fake_bare(staleness, false);
    assert_int_equal(cache_add(&fake->cache, 0, KEY), 0);
    return fake;
}

/* The request number of the only SUBSCRIBE sent, which went to `server`. */
static uint64_t asked(struct fake *fake, actor_id server) {
    struct message subscribe = {0};
    assert_int_equal(fake_io_sent(&fake->io, server, MESSAGE_SUBSCRIBE, &subscribe), 1);
    return subscribe.subscribe.request;
}

/* A client with one subscribed row, at clock 0 with value 100. */
static struct fake *fake_open(uint32_t staleness) {
    struct fake *fake = fake_new(staleness);
    give_plan(fake);
    assert_int_equal(client_subscribe(&fake->client, NULL), 0);
    assert_false(client_subscribed(&fake->client));
    uint64_t request = asked(fake, SERVER);
    fake_io_forget(&fake->io);
    push(fake, 0, 0, request, 100);
    assert_true(client_subscribed(&fake->client));
    assert_int_equal(*row(fake), 100);
    return fake;
}

static void fake_close(struct fake *fake) {
    struct fake **place = &open_fakes;
    while (*place != fake) {
        place = &(*place)->next;
    }
    *place = fake->next;
    fake_io_forget(&fake->io);
    client_close(&fake->client);
    cache_close(&fake->cache);
    free(fake);
}

static void begin(struct fake *fake, actor_id origin, uint64_t clock, int64_t value) {
    client_begin(&fake->client, origin, clock);
    *row(fake) += value;
    fake->cache.tables[0].touched.base[cache_find(&fake->cache, 0, KEY)] =
        value != 0 || fake->cache.tables[0].count == 1;
}

static void finish(struct fake *fake) {
    assert_int_equal(client_gather(&fake->client, 0, NULL), 0);
    client_flush(&fake->client);
}

/* Works on the next clock, adds `value` to the row, and flushes. */
static void work(struct fake *fake, int64_t value) {
    begin(fake, SELF, fake->client.flushed + 1, value);
    finish(fake);
}

static const struct client_partition *part(const struct fake *fake) {
    return &fake->client.partitions[0];
}

static int64_t flushed_value(const struct message *flush) {
    int64_t value;
    memcpy(&value, flush->frames[2]->data, sizeof value);
    return value;
}

/* ---- Clocks ---- */

static void push_all(struct fake *fake, uint64_t clock) {
    for (uint32_t p = 0; p < PARTITIONS_MAX; p++) {
        struct message push = {.type = MESSAGE_PUSH};
        push.push = (struct message_push){
            .partition = p, .from_clock = clock - 1, .clock = clock, .durable = clock, .received = clock};
        give_from(fake, SERVER, &push);
    }
}

/* Flushes a clock. Returns whether the partitions' flushes were sent in descending order. */
static bool flush_descends(struct fake *fake, uint64_t clock) {
    client_begin(&fake->client, SELF, clock);
    for (uint32_t p = 0; p < PARTITIONS_MAX; p++) {
        assert_int_equal(client_gather(&fake->client, p, NULL), 0);
    }
    fake_io_forget(&fake->io);
    client_flush(&fake->client);
    uint32_t partitions[SENT_MAX];
    uint32_t flushes = 0;
    for (unsigned m = 0; m < fake->io.count; m++) {
        if (fake->io.sent[m].message.type == MESSAGE_FLUSH) {
            partitions[flushes++] = fake->io.sent[m].message.flush.partition;
        }
    }
    assert_int_equal(flushes, PARTITIONS_MAX);
    bool descends = partitions[0] != 0;
    for (uint32_t p = 0; p < PARTITIONS_MAX; p++) {
        assert_int_equal(partitions[p], descends ? PARTITIONS_MAX - 1 - p : p);
    }
    return descends;
}

/* The order of flushes alternates between measured clocks; with staleness not each clock is measured. */
TEST(flushes_change_their_order) {
    for (uint32_t staleness = 0; staleness <= 1; staleness++) {
        struct fake *fake = fake_bare(staleness, false);
        cache_close(&fake->cache);
        cache_open(&fake->cache, &fake->job, PARTITIONS_MAX);
        fake->plan.partitions = PARTITIONS_MAX;
        give_plan(fake);
        assert_int_equal(client_subscribe(&fake->client, NULL), 0);
        for (unsigned m = 0; m < PARTITIONS_MAX; m++) {
            const struct message_subscribe *subscribe = &fake->io.sent[m].message.subscribe;
            struct message push = {.type = MESSAGE_PUSH};
            push.push = (struct message_push){.partition = subscribe->partition, .request = subscribe->request};
            give_from(fake, SERVER, &push);
        }
        bool before = staleness > 0 && flush_descends(fake, 1); /* with staleness 1, a clock ahead of the state */
        for (uint64_t clock = 1; clock <= 6; clock++) {
            bool descends = flush_descends(fake, clock + staleness);
            bool measured = clock > 1 && (staleness == 0 || clock % 2 == 0);
            assert_true(!measured || descends != before);
            before = measured || clock == 1 ? descends : before;
            push_all(fake, clock);
        }
        fake_close(fake);
    }
}

TEST(own_changes_stay_visible) {
    struct fake *fake = fake_open(2);
    work(fake, 1);
    work(fake, 10);
    assert_int_equal(*row(fake), 111);
    push(fake, 0, 1, 0, 1001); /* clock 1: another origin added 900, and our 1 is included */
    assert_int_equal(*row(fake), 1011);
    work(fake, 100);
    push(fake, 1, 3, 0, 5111);
    assert_int_equal(*row(fake), 5111);
}

TEST(staleness_opens_clocks) {
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
}

TEST(the_window_waits_for_the_commit) {
    struct fake *fake = fake_new(1);
    fake->plan.window = 2;
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    push(fake, 0, 0, 1, 100);
    push_from(fake, SERVER, 0, 50, 0, 0, -1);
    assert_true(client_may_begin(&fake->client, 4)); /* 0 + 1 + 1 + 2 */
    assert_false(client_may_begin(&fake->client, 5));
    push_from(fake, SERVER, 50, 50, 0, 3, -1); /* a commit alone */
    assert_int_equal(fake->client.committed, 3);
    assert_int_equal(part(fake)->clock, 50);
    assert_true(client_may_begin(&fake->client, 7));
    assert_false(client_may_begin(&fake->client, 8));
}

/* After a recovery the servers may have no common restore point at which a node could find what is committed. */
TEST(after_a_recovery_the_window_counts_from_the_restored_clock) {
    struct fake *fake = fake_new(1);
    fake->plan.window = 2;
    fake->plan.restore = 10;
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    push(fake, 0, 0, 1, 100);
    push_from(fake, SERVER, 0, 50, 0, 0, -1);
    assert_int_equal(fake->client.committed, 0);
    assert_true(client_may_begin(&fake->client, 14)); /* 10 + 1 + 1 + 2 */
    assert_false(client_may_begin(&fake->client, 15));
}

TEST(a_lost_commit_is_asked_for) {
    struct fake *fake = fake_new(0);
    fake->plan.window = 0;
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    push(fake, 0, 0, 1, 100);
    work(fake, 1);
    push_from(fake, SERVER, 0, 1, 0, 0, 101);
    assert_false(client_may_begin(&fake->client, 2));
    fake_io_forget(&fake->io);
    fake->io.now_us += CLIENT_RETRY_MIN_US;
    client_timer(&fake->client);
    assert_int_equal(sent(fake, MESSAGE_PULL, NULL), 1);
    push_from(fake, SERVER, 1, 1, 0, 1, -1);
    assert_true(client_may_begin(&fake->client, 2));
    assert_int_equal(client_timer(&fake->client), 0);
    assert_int_equal(sent(fake, MESSAGE_FLUSH, NULL), 0);
}

/* Before its first clock an assignment waits for the commit of earlier clocks, as others may have overwritten rows
 * (node.c). */
TEST(the_commit_before_a_assignment_is_asked_for) {
    static const enum aml_mode modes[] = {AML_PUT, AML_ADD};
    for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++) {
        struct fake *fake = fake_new(0);
        fake->job.tables[0].mode = modes[m];
        fake->assignments[0].until_clock = 1;
        fake->assignments[2] =
            (struct wire_assignment){.origin = SELF, .from_clock = 2, .until_clock = WIRE_CLOCK_NEVER};
        fake->assignment_count = 3;
        give_plan(fake);
        client_subscribe(&fake->client, NULL);
        push(fake, 0, 0, 1, 100);
        work(fake, 1);
        push_from(fake, SERVER, 0, 1, 0, 0, 101);
        fake_io_forget(&fake->io);
        fake->io.now_us += CLIENT_RETRY_MIN_US;
        client_timer(&fake->client);
        assert_int_equal(sent(fake, MESSAGE_PULL, NULL), modes[m] == AML_PUT ? 1 : 0);
        push_from(fake, SERVER, 1, 1, 0, 1, -1);
        assert_int_equal(client_timer(&fake->client), 0);
        fake_close(fake);
    }
}

TEST(the_cache_rests_while_the_app_has_it) {
    struct fake *fake = fake_open(1);
    work(fake, 1);
    client_begin(&fake->client, SELF, 2);
    push(fake, 0, 1, 0, 201);
    assert_int_equal(*row(fake), 101);
    finish(fake);
    assert_int_equal(*row(fake), 201);
    client_freeze(&fake->client);
    push(fake, 1, 2, 0, 301);
    assert_int_equal(*row(fake), 201);
    assert_false(client_has_state(&fake->client, 2));
    client_thaw(&fake->client);
    assert_int_equal(*row(fake), 301);
    assert_true(client_has_state(&fake->client, 2));
}

TEST(waiting_pushes_have_a_limit) {
    struct fake *fake = fake_open(1);
    client_freeze(&fake->client); /* as when a node without assignments falls behind */
    for (uint64_t c = 0; c < 20; c++) {
        push(fake, c, c + 1, 0, (int64_t)c);
        push(fake, c, c + 1, 0, (int64_t)c); /* repeats are not counted */
    }
    assert_int_equal(part(fake)->waiting_count, 3);
    client_thaw(&fake->client);
    assert_int_equal(part(fake)->clock, 3);
    push(fake, 19, 20, 0, 18); /* too far ahead */
    fake->io.now_us += CLIENT_RETRY_MIN_US;
    struct message pull = {0};
    fake_io_forget(&fake->io);
    client_timer(&fake->client);
    assert_int_equal(sent(fake, MESSAGE_PULL, &pull), 1);
    assert_int_equal(pull.pull.clock, 3);
    push(fake, 3, 20, 0, 19);
    assert_int_equal(*row(fake), 19);
}

/* ---- Retries ---- */

static void pull(struct fake *fake) {
    fake->io.now_us += CLIENT_RETRY_MAX_US;
    client_timer(&fake->client);
    assert_int_equal(sent(fake, MESSAGE_PULL, NULL), 1);
}

/* A stamp has 32 bits, and 0 stands for a row without a state. */
TEST(pushes_are_applied_when_their_numbers_begin_anew) {
    struct fake *fake = fake_open(0);
    fake->client.stamp = UINT32_MAX;
    push(fake, 0, 1, 0, 101);
    assert_int_equal(*row(fake), 101);
    push(fake, 1, 2, 0, 102);
    assert_int_equal(*row(fake), 102);
    fake_close(fake);
}

/* Where states usually come late, PULL follows only after twice that time, but within the client's patience. */
TEST(what_is_usually_late_is_asked_for_later) {
    struct fake *fake = fake_open(0);
    for (int clock = 1; clock <= 3; clock++) {
        uint64_t usual_us = clock < 3 ? 300 * 1000 : 500 * 1000;
        fake->client.asking.patience_us = 800 * 1000;
        work(fake, clock);
        fake_io_forget(&fake->io);
        fake->io.now_us += usual_us;
        client_timer(&fake->client);
        assert_int_equal(sent(fake, MESSAGE_PULL, NULL), clock == 1 ? 1 : 0);
        push(fake, (uint64_t)clock - 1, (uint64_t)clock, 0, 100 + clock);
    }
    work(fake, 4);
    fake_io_forget(&fake->io);
    fake->io.now_us += 799 * 1000;
    client_timer(&fake->client);
    assert_int_equal(sent(fake, MESSAGE_PULL, NULL), 0);
    fake->io.now_us += 1000;
    client_timer(&fake->client);
    assert_int_equal(sent(fake, MESSAGE_PULL, NULL), 1);
}

TEST(a_gap_is_asked_for) {
    struct fake *fake = fake_open(3);
    work(fake, 1);
    work(fake, 1);
    fake_io_forget(&fake->io);
    push(fake, 1, 2, 0, 500); /* clock 1 was lost */
    assert_int_equal(part(fake)->clock, 0);
    assert_int_equal(*row(fake), 102);
    struct message pull = {0};
    assert_int_equal(sent(fake, MESSAGE_PULL, &pull), 1);
    assert_int_equal(pull.pull.clock, 0);
    assert_int_equal(pull.pull.again, 1);
    push(fake, 2, 2, 0, -1); /* shows the same gap again */
    assert_int_equal(sent(fake, MESSAGE_PULL, NULL), 0);
    push(fake, 0, 2, 0, 500);
    assert_int_equal(*row(fake), 500);
    assert_int_equal(client_timer(&fake->client), 0); /* nothing is missing any more */
}

/* A missing push may still be on its way. The answer to a PULL follows it on the link, so only that answer proves a
 * loss. */
TEST(pushes_are_asked_for_again_when_they_were_lost) {
    struct fake *fake = fake_open(3);
    work(fake, 1);
    fake_io_forget(&fake->io);
    struct message message = {0};
    for (unsigned i = 0; i < 3; i++) { /* without an answer: the link is slow */
        fake->io.now_us += CLIENT_RETRY_MAX_US;
        client_timer(&fake->client);
        assert_int_equal(sent(fake, MESSAGE_PULL, &message), 1);
        assert_int_equal(message.pull.again, 0);
    }
    uint64_t number = message.pull.number;
    answer_pull(fake, SERVER, 1, 1); /* the answer without the missing push */
    assert_int_equal(sent(fake, MESSAGE_PULL, &message), 1);
    assert_int_equal(message.pull.again, 1);
    assert_int_equal(message.pull.clock, 0);
    assert_true(message.pull.number > number);
    struct message late = {.type = MESSAGE_PUSH, .push = {.from_clock = 1, .clock = 1, .pull = number}};
    late.push.subscribed = fake->client.requests;
    give_from(fake, SERVER, &late); /* answers that were under way before */
    assert_int_equal(sent(fake, MESSAGE_PULL, NULL), 0);
    fake->io.now_us += CLIENT_RETRY_MAX_US; /* the retried PULL, or its answer, is lost too */
    client_timer(&fake->client);
    fake_io_forget(&fake->io);
    answer_pull(fake, SERVER, 1, 1);
    assert_int_equal(sent(fake, MESSAGE_PULL, &message), 1);
    assert_int_equal(message.pull.again, 1);
    push(fake, 0, 1, 0, 101);
    assert_int_equal(part(fake)->clock, 1);
    answer_pull(fake, SERVER, 1, 1);
    assert_int_equal(sent(fake, MESSAGE_PULL, NULL), 0);
}

TEST(rows_are_not_asked_for_twice_while_the_answer_may_come) {
    struct fake *fake = fake_new(1);
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    uint64_t request = asked(fake, SERVER);
    fake_io_forget(&fake->io);
    struct message message = {0};
    fake->io.now_us += CLIENT_RETRY_MIN_US;
    client_timer(&fake->client);
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, NULL), 0);
    assert_int_equal(sent(fake, MESSAGE_PULL, &message), 1);
    assert_int_equal(message.pull.clock, 0);
    push(fake, 0, 0, 0, -1); /* not an answer to the PULL */
    assert_int_equal(sent(fake, MESSAGE_SUBSCRIBE, NULL), 0);
    answer_pull(fake, SERVER, 0, 0);
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &message), 1);
    assert_int_equal(message.subscribe.request, request);
    assert_int_equal(message.frames[1]->size, sizeof(uint64_t));
    fake_io_forget(&fake->io);
    answer_pull(fake, SERVER, 0, 0); /* answers an earlier PULL */
    assert_int_equal(sent(fake, MESSAGE_SUBSCRIBE, NULL), 0);
    push(fake, 0, 0, request, 100);
    assert_true(client_subscribed(&fake->client));
}

/* The old server's last pushes may still be on their way when the new server reports a later clock. */
TEST(the_next_servers_pushes_show_no_gap) {
    struct fake *fake = fake_open(3);
    fake->next_server = SECOND;
    fake->plan.from_clock = 2;
    give_plan(fake);
    push_from(fake, SECOND, 0, 0, asked(fake, SECOND), 0, -1);
    work(fake, 1);
    work(fake, 1);
    fake_io_forget(&fake->io);
    push_from(fake, SECOND, 1, 2, 0, 1, 102);
    answer_pull(fake, SECOND, 2, 2);
    assert_int_equal(sent(fake, MESSAGE_PULL, NULL), 0);
    push(fake, 0, 1, 0, 101);
    assert_int_equal(part(fake)->now.server, SECOND);
    answer_pull(fake, SECOND, 2, 2); /* SECOND serves now, so the gap is requested from it */
    struct message message = {0};
    assert_int_equal(fake_io_sent(&fake->io, SECOND, MESSAGE_PULL, &message), 1);
    assert_int_equal(message.pull.again, 1);
    assert_int_equal(message.pull.clock, 1);
}

/* A new plan may require a state whose push was lost long ago. */
TEST(a_new_assignment_has_the_lost_state_asked_for) {
    struct fake *fake = fake_new(0);
    fake->assignments[0].from_clock = WIRE_CLOCK_NEVER;
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    push(fake, 0, 15, 1, 300);
    assert_int_equal(client_timer(&fake->client), 0);
    fake->assignments[0].from_clock = 17;
    fake_io_forget(&fake->io);
    give_plan(fake);
    pull(fake);
}

TEST(asking_slows_down_and_starts_anew) {
    struct fake *fake = fake_open(3);
    work(fake, 1);
    uint64_t gap = CLIENT_RETRY_MIN_US;
    for (unsigned i = 0; i < 8; i++) {
        fake->io.now_us += gap;
        fake_io_forget(&fake->io);
        uint64_t next = client_timer(&fake->client);
        assert_int_equal(sent(fake, MESSAGE_PULL, NULL), 1);
        gap = 2 * gap < CLIENT_RETRY_MAX_US ? 2 * gap : CLIENT_RETRY_MAX_US;
        assert_int_equal(next, fake->io.now_us + gap);
    }
    work(fake, 1); /* so that the client still waits after the next push */
    push(fake, 0, 1, 0, 101);
    assert_int_equal(client_timer(&fake->client), fake->io.now_us + CLIENT_RETRY_MIN_US);
}

TEST(flushes_that_did_not_arrive_are_sent_again) {
    struct fake *fake = fake_open(3);
    work(fake, 1);
    work(fake, 2);
    work(fake, 3);
    assert_int_equal(sent(fake, MESSAGE_FLUSH, NULL), 3);
    struct message answer = {.type = MESSAGE_PUSH};
    answer.push.received = 1;
    give_from(fake, SERVER, &answer); /* answers no PULL: flushes may be under way */
    assert_int_equal(sent(fake, MESSAGE_FLUSH, NULL), 0);
    pull(fake);
    work(fake, 4); /* sent after the PULL */
    fake_io_forget(&fake->io);
    answer_pull(fake, SERVER, 0, 1);
    struct message flush = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 2);
    assert_int_equal(flush.flush.clock, 3);
    assert_int_equal(flush.flush.origin, SELF);
    fake_io_forget(&fake->io);
    answer_pull(fake, SERVER, 0, 1); /* the flushes are under way again */
    assert_int_equal(sent(fake, MESSAGE_FLUSH, NULL), 0);
    pull(fake);
    answer_pull(fake, SERVER, 0, 3);
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 1);
    assert_int_equal(flush.flush.clock, 4);
    assert_int_equal(part(fake)->retained_count, 4);
    push(fake, 0, 4, 0, 110); /* committed: nothing is retained */
    assert_int_equal(part(fake)->retained_count, 0);
}

/* ---- Flushes in pieces ---- */

/* A client with all rows of a replicated table, each 100. */
static struct fake *fake_whole(uint32_t staleness) {
    struct fake *fake = fake_bare(staleness, true);
    assert_int_equal(cache_add(&fake->cache, 0, KEY), KEY);
    give_plan(fake);
    assert_int_equal(client_subscribe(&fake->client, NULL), 0);
    const struct wire_directory_entry entry = {.table = 0, .rows = ROWS};
    uint64_t keys[ROWS];
    int64_t values[ROWS];
    for (unsigned r = 0; r < ROWS; r++) {
        keys[r] = r;
        values[r] = 100;
    }
    struct message message = {.type = MESSAGE_PUSH, .frame_count = 3};
    message.push.request = asked(fake, SERVER);
    message.frames[0] = buffer_copy(&entry, sizeof entry);
    message.frames[1] = buffer_copy(keys, sizeof keys);
    message.frames[2] = buffer_copy(values, sizeof values);
    give_from(fake, SERVER, &message);
    assert_true(client_subscribed(&fake->client));
    fake_io_forget(&fake->io);
    return fake;
}

/* Adds to rows of the present clock, and flushes them as a piece. */
static void add_piece(struct fake *fake, uint64_t first, uint64_t count, int64_t value) {
    const struct client_range range = {.table = 0, .first = first, .count = count};
    struct retained_flush piece;
    for (uint64_t key = first; key < first + count; key++) {
        *row_of(fake, key) += value;
        fake->cache.tables[0].touched.base[key] = 1;
    }
    assert_true(client_gather_piece(&fake->client, 0, &range, 1, &piece));
    client_add_piece(&fake->client, 0, &piece);
    client_send_pieces(&fake->client);
}

/* Answers the last PULL: the server has flushes of `received` clocks and `pieces` pieces of the next clock. */
static void answer_pieces(struct fake *fake, uint64_t clock, uint64_t received, uint32_t pieces) {
    struct message message = {.type = MESSAGE_PUSH};
    message.push = (struct message_push){.from_clock = clock,
                                         .clock = clock,
                                         .received = received,
                                         .pieces = pieces,
                                         .pull = part(fake)->pulls,
                                         .subscribed = fake->client.requests};
    give_from(fake, SERVER, &message);
}

/* The only FLUSH sent since the last `forget` is this piece, with `rows` rows. */
static void assert_piece(struct fake *fake, uint64_t clock, uint32_t piece, bool more, uint32_t rows) {
    struct message flush = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 1);
    assert_int_equal(flush.flush.clock, clock);
    assert_int_equal(flush.flush.piece, piece);
    assert_int_equal(flush.flush.more, more);
    assert_int_equal(flush.frame_count > 1 ? flush.frames[1]->size / sizeof(uint64_t) : 0, rows);
    fake_io_forget(&fake->io);
}

TEST(pieces_wait_for_each_other) {
    struct fake *fake = fake_whole(0);
    begin(fake, SELF, 1, 0);
    assert_true(client_may_piece(&fake->client));
    add_piece(fake, 6, 4, 1);
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_PULL, NULL), 1);
    assert_piece(fake, 1, 0, true, 4);
    add_piece(fake, 3, 3, 2);
    assert_int_equal(fake->io.count, 0); /* the PULL after the first piece is not answered yet */
    answer_pieces(fake, 0, 0, 1);
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_PULL, NULL), 1);
    assert_piece(fake, 1, 1, true, 3);
    *row_of(fake, 0) += 5;
    fake->cache.tables[0].touched.base[0] = 1;
    finish(fake);
    assert_piece(fake, 1, 2, false, 1); /* the rest follows at once */
    assert_int_equal(part(fake)->retained_count, 3);
    push(fake, 0, 1, 0, -1);
    assert_int_equal(part(fake)->retained_count, 0);
    assert_int_equal(*row_of(fake, 9), 101);
    begin(fake, SELF, 2, 1); /* the PULL after the last piece is not answered yet */
    add_piece(fake, 9, 1, 1);
    assert_int_equal(sent(fake, MESSAGE_FLUSH, NULL), 0);
    finish(fake);
    assert_int_equal(sent(fake, MESSAGE_FLUSH, NULL), 2);
}

/* Gives the client the first state of a replicated table's rows in a partition. */
static void give_partition(struct fake *fake, const struct message_subscribe *subscribe) {
    struct wire_directory_entry entry = {.table = 0};
    uint64_t keys[ROWS];
    int64_t values[ROWS] = {0};
    for (uint64_t key = subscribe->partition; key < ROWS; key += fake->plan.partitions) {
        keys[entry.rows++] = key;
    }
    struct message message = {.type = MESSAGE_PUSH, .frame_count = 3};
    message.push = (struct message_push){.partition = subscribe->partition, .request = subscribe->request};
    message.frames[0] = buffer_copy(&entry, sizeof entry);
    message.frames[1] = buffer_copy(keys, entry.rows * sizeof *keys);
    message.frames[2] = buffer_copy(values, entry.rows * sizeof *values);
    give_from(fake, SERVER, &message);
}

/* A server gets one piece at a time, from the partitions in flush order. */
TEST(a_server_gets_one_piece_at_a_time) {
    struct fake *fake = fake_bare(0, true);
    struct client *client = &fake->client;
    const struct client_range all = {.table = 0, .first = 0, .count = ROWS};
    cache_close(&fake->cache);
    cache_open(&fake->cache, &fake->job, PARTITIONS_MAX);
    fake->plan.partitions = PARTITIONS_MAX;
    assert_int_equal(cache_add(&fake->cache, 0, KEY), KEY);
    give_plan(fake);
    assert_int_equal(client_subscribe(client, NULL), 0);
    for (unsigned m = 0; m < PARTITIONS_MAX; m++) {
        give_partition(fake, &fake->io.sent[m].message.subscribe);
    }
    fake_io_forget(&fake->io);
    client_begin(client, SELF, 1);
    memset(fake->cache.tables[0].touched.base, 1, ROWS);
    for (uint32_t p = 0; p < PARTITIONS_MAX; p++) {
        struct retained_flush piece;
        assert_true(client_gather_piece(client, p, &all, 1, &piece));
        client_add_piece(client, p, &piece);
    }
    uint32_t order[PARTITIONS_MAX];
    client_send_pieces(client);
    for (unsigned n = 0; n < PARTITIONS_MAX; n++) {
        struct message flush = {0};
        assert_int_equal(sent(fake, MESSAGE_FLUSH, &flush), 1);
        order[n] = flush.flush.partition;
        struct message answer = {.type = MESSAGE_PUSH};
        answer.push = (struct message_push){.partition = order[n],
                                            .pieces = 1,
                                            .pull = client->partitions[order[n]].pulls,
                                            .subscribed = client->requests};
        give_from(fake, SERVER, &answer);
    }
    assert_int_equal(sent(fake, MESSAGE_FLUSH, NULL), 0);
    for (uint32_t p = 0; p < PARTITIONS_MAX; p++) {
        assert_int_equal(client_gather(client, p, NULL), 0);
    }
    client_flush(client);
    for (unsigned n = 0; n < PARTITIONS_MAX; n++) {
        assert_int_equal(fake->io.sent[n].message.flush.partition, order[n]);
        assert_int_equal(fake->io.sent[n].message.flush.more, 0);
    }
}

/* A piece or the PULL after it is lost: missing pieces are sent again, once. */
TEST(lost_pieces_are_sent_again) {
    struct fake *fake = fake_whole(0);
    begin(fake, SELF, 1, 0);
    add_piece(fake, 8, 2, 1);
    fake_io_forget(&fake->io);
    answer_pieces(fake, 0, 0, 1);
    assert_int_equal(fake->io.count, 0); /* the piece has arrived */
    add_piece(fake, 6, 2, 1);
    add_piece(fake, 4, 2, 1);
    fake_io_forget(&fake->io);
    fake->io.now_us += CLIENT_RETRY_MIN_US;
    client_timer(&fake->client);
    assert_int_equal(sent(fake, MESSAGE_PULL, NULL), 1);
    answer_pieces(fake, 0, 0, 1);
    struct message flush = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 2); /* the second and third pieces again */
    assert_int_equal(fake->io.sent[0].message.flush.piece, 1);
    assert_int_equal(flush.flush.piece, 2);
    fake_io_forget(&fake->io);
    finish(fake);
    assert_piece(fake, 1, 3, false, 0);
    fake->io.now_us += CLIENT_RETRY_MAX_US;
    client_timer(&fake->client);
    fake_io_forget(&fake->io);
    answer_pieces(fake, 0, 0, 3);
    assert_piece(fake, 1, 3, false, 0); /* only the last piece was lost */
}

/* An epoch ends while the app computes: servers dropped the pieces and get all of them again. */
TEST(pieces_are_sent_again_in_a_new_epoch) {
    struct fake *fake = fake_whole(1);
    work(fake, 1);
    begin(fake, SELF, 2, 0);
    add_piece(fake, 8, 2, 1);
    answer_pieces(fake, 0, 1, 1);
    add_piece(fake, 6, 2, 1);
    fake->epoch = 2;
    client_fence(&fake->client, 2);
    fake_io_forget(&fake->io);
    add_piece(fake, 4, 2, 1); /* kept until the new plan */
    assert_int_equal(fake->io.count, 0);
    fake->server = fake->next_server = SECOND;
    give_plan(fake);
    struct message flush = {0};
    assert_int_equal(fake_io_sent(&fake->io, SECOND, MESSAGE_FLUSH, &flush),
                     2); /* clock 1, and the first piece of clock 2 */
    assert_int_equal(flush.flush.clock, 2);
    assert_int_equal(flush.flush.piece, 0);
    assert_int_equal(flush.epoch, 2);
    fake_io_forget(&fake->io);
    finish(fake);
    assert_int_equal(fake_io_sent(&fake->io, SECOND, MESSAGE_FLUSH, &flush), 3);
    assert_int_equal(flush.flush.piece, 3);
    assert_int_equal(flush.flush.more, 0);
}

/* This node's pieces stay visible in its rows, on top of what others added. */
TEST(pieces_stay_visible) {
    struct fake *fake = fake_whole(1);
    begin(fake, SELF, 1, 0);
    add_piece(fake, KEY, 1, 1);
    finish(fake);
    begin(fake, SELF, 2, 0);
    add_piece(fake, KEY, 1, 10);
    push(fake, 0, 1, 0, 1001);
    assert_int_equal(*row(fake), 111); /* the push waits while the app works */
    finish(fake);
    assert_int_equal(*row(fake), 1011);
    push(fake, 1, 2, 0, 1511);
    assert_int_equal(*row(fake), 1511);
}

TEST(where_there_are_no_pieces) {
    struct fake *fake = fake_whole(0);
    assert_false(client_may_piece(&fake->client)); /* no clock has begun */
    fake->job.clocks = (struct strategy_clocks){.per_iteration = 1, .local_steps = 1};
    fake->plan.strategy = fake->plan.next_strategy = STRATEGY_SMA;
    give_plan(fake);
    begin(fake, SELF, 1, 0);
    assert_false(client_may_piece(&fake->client));
    finish(fake);
    push(fake, 0, 1, 0, -1);
    fake->plan.strategy = fake->plan.next_strategy = STRATEGY_SSGD;
    fake->assignments[1].until_clock = 1;
    give_plan(fake);
    begin(fake, SELF, 2, 0);
    assert_false(client_may_piece(&fake->client)); /* no other origin */
    finish(fake);
}

TEST(flushes_are_retained_until_committed) {
    struct fake *fake = fake_open(1);
    for (uint64_t c = 0; c < 5; c++) {
        work(fake, 1);
        push_from(fake, SERVER, c, c + 1, 0, 0, (int64_t)(101 + c));
    }
    assert_int_equal(part(fake)->retained_count, 5);
    push_from(fake, SERVER, 5, 5, 0, 4, -1);
    assert_int_equal(part(fake)->retained_count, 1);
    fake_io_forget(&fake->io);
    work(fake, 1);
    struct message flush = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 1);
    assert_int_equal(flush.flush.committed, 4);
}

/* The traditional stage keeps nothing for undoing clocks. */
TEST(without_recovery_nothing_is_retained) {
    struct fake *fake = fake_new(1);
    fake->plan.recoverable = 0;
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    push(fake, 0, 0, 1, 100);
    for (uint64_t c = 0; c < 30; c++) {
        work(fake, 1);
        push_from(fake, SERVER, c, c + 1, 0, 0, (int64_t)(101 + c));
        assert_int_equal(part(fake)->retained_count, 0);
        fake_io_forget(&fake->io);
    }
}

/* The client accuses the sender of the last message, stays as it was, and still accepts valid messages. */
static void expect_accused(struct fake *fake, const char *what) {
    assert_int_equal(fake->client.accusation.accused, actor_node(SERVER));
    assert_string_equal(fake->client.accusation.text, what);
    assert_int_equal(part(fake)->clock, 0);
    assert_int_equal(fake->client.committed, 0);
    assert_int_equal(*row(fake), 100);
    fake->client.accusation.accused = ACTOR_NONE;
}

TEST(a_server_that_sends_what_can_not_be_is_accused) {
    struct fake *fake = fake_open(0);
    const struct message_push possible = {.clock = 0};
    struct message message = {.type = MESSAGE_PUSH, .push = possible};
    row_frames(&message, OTHER_KEY, 1);
    work(fake, 0);
    message.push.clock = 1;
    give_from(fake, SERVER, &message);
    expect_accused(fake, "PUSH: partition 0, table t: a row that was not asked for");
    message = (struct message){.type = MESSAGE_PUSH, .push = possible};
    row_frames(&message, KEY, 1);
    message.push.clock = 1;
    message.push.durable = 1;
    message.frames[2]->size -= 1;
    give_from(fake, SERVER, &message);
    expect_accused(fake, "PUSH: partition 0, frames of table 0 do not hold 1 rows of 8 bytes");
    message = (struct message){.type = MESSAGE_PUSH, .push = {.clock = 2}};
    give_from(fake, SERVER, &message); /* our flush of clock 2 is not sent yet */
    expect_accused(fake, "PUSH: clock 2, at most 1 is possible");
    message = (struct message){.type = MESSAGE_PUSH, .push = {.durable = WIRE_CLOCK_NEVER}};
    give_from(fake, SERVER, &message);
    expect_accused(fake, "PUSH: durable clock 4294967280, at most 1 is possible");
    message = (struct message){.type = MESSAGE_PUSH, .push = {.received = 2}};
    give_from(fake, SERVER, &message);
    expect_accused(fake, "PUSH: received clock 2, at most 1 is possible");
    push(fake, 0, 1, 0, 107);
    assert_int_equal(fake->client.accusation.accused, ACTOR_NONE);
    assert_int_equal(part(fake)->clock, 1);
    assert_int_equal(*row(fake), 107);
}

/* We leave at a clock that has no number yet. Other nodes know it first, so their server may be ahead of our plan.
 * At every clock, servers wait for a node that stays. */
TEST(who_leaves_at_a_clock_that_has_no_name_yet_accuses_no_server_beyond_it) {
    struct fake *fake = fake_open(0);
    work(fake, 0);
    fake->plan.from_clock = WIRE_CLOCK_NEVER;
    fake->assignments[2] =
        (struct wire_assignment){.origin = SELF, .from_clock = WIRE_CLOCK_NEVER, .until_clock = WIRE_CLOCK_NEVER};
    fake->assignment_count = 3;
    give_plan(fake);
    struct message message = {.type = MESSAGE_PUSH, .push = {.clock = 2}};
    give_from(fake, SERVER, &message);
    expect_accused(fake, "PUSH: clock 2, at most 1 is possible");
    fake->assignments[2].origin = FRIEND; /* we leave */
    give_plan(fake);
    message = (struct message){.type = MESSAGE_PUSH, .push = {.clock = 2, .durable = 2, .received = 1}};
    give_from(fake, SERVER, &message);
    assert_int_equal(fake->client.accusation.accused, ACTOR_NONE);
    fake_close(fake);
}

/* A push that waits until the app ends its clock is checked when it is applied. */
TEST(a_push_that_waited_is_its_senders) {
    struct fake *fake = fake_open(0);
    struct message message = {.type = MESSAGE_PUSH, .push = {.clock = 0}};
    client_begin(&fake->client, SELF, 1);
    row_frames(&message, OTHER_KEY, 1);
    message.push.request = 0;
    finish(fake);
    client_freeze(&fake->client);
    message.push.clock = 1;
    give_from(fake, SERVER, &message);
    assert_int_equal(fake->client.accusation.accused, ACTOR_NONE);
    client_thaw(&fake->client);
    expect_accused(fake, "PUSH: partition 0, table t: a row that was not asked for");
}

/* ---- Rings ---- */

/* A push relayed by other nodes accuses no node and sets no durable clock; only the server's own pushes do. */
TEST(a_relayed_push_is_not_trusted) {
    struct fake *fake = fake_open(0);
    work(fake, 1);
    fake_io_forget(&fake->io);
    const struct message_push possible = {.clock = 1, .durable = 1, .received = 1, .ring = 7};
    struct message message = {.type = MESSAGE_PUSH, .push = possible};
    row_frames(&message, OTHER_KEY, 1);
    give_from(fake, actor_of_part(SELF, 1), &message);
    assert_int_equal(fake->client.accusation.accused, ACTOR_NONE);
    assert_int_equal(part(fake)->clock, 0);
    assert_int_not_equal(part(fake)->retry_us, 0);
    fake_io_forget(&fake->io);
    fake->client.partitions[0].durable_asked = 0;
    message = (struct message){.type = MESSAGE_PUSH, .push = possible};
    row_frames(&message, KEY, 107);
    give_from(fake, actor_of_part(SELF, 1), &message);
    assert_int_equal(*row(fake), 107);
    assert_int_equal(part(fake)->retained_count, 1);
    assert_int_equal(fake->client.committed, 0);
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_PULL, NULL), 1);
    message = (struct message){.type = MESSAGE_PUSH, .push = possible};
    message.push.from_clock = 1;
    message.push.pull = part(fake)->pulls;
    message.push.subscribed = fake->client.requests;
    give_from(fake, SERVER, &message);
    assert_int_equal(part(fake)->retained_count, 0);
    assert_int_equal(fake->client.committed, 1);
}

/* After repeated losses fewer clocks use the ring, until a clock gets through. */
TEST(a_ring_that_loses_is_used_less) {
    const uint64_t tried[] = {1, 2, 4, 8, 16, 32, 64, 65, 66};
    struct fake *fake = fake_new(0);
    fake->job.exchange = EXCHANGE_RING;
    fake->assignments[2] = fake->assignments[1];
    fake->assignments[2].origin = actor_node(SECOND);
    fake->assignment_count = 3;
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    push(fake, 0, 0, 1, 100);
    for (uint64_t clock = 1, t = 0; clock <= 66; clock++) {
        fake_io_forget(&fake->io);
        work(fake, 1);
        bool by_ring = fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, NULL) == 0;
        assert_int_equal(by_ring, t < sizeof tried / sizeof *tried && clock == tried[t]);
        t += by_ring;
        if (by_ring && clock < 64) {
            fake->io.now_us += CLIENT_RING_MAX_US;
            client_timer(&fake->client);
            answer_pull(fake, SERVER, clock - 1, clock - 1);
            assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, NULL), 1);
        }
        push(fake, clock - 1, clock, 0, 100);
    }
}

/* A node that is late in each clock: the first clocks are sent twice, then the timeout is long enough. */
TEST(patience_grows_with_what_exchanges_take) {
    for (uint32_t staleness = 0; staleness <= 2; staleness += 2) {
        struct fake *fake = fake_new(staleness);
        fake->job.exchange = EXCHANGE_RING;
        fake->assignments[2] = fake->assignments[1];
        fake->assignments[2].origin = actor_node(SECOND);
        fake->assignment_count = 3;
        give_plan(fake);
        client_subscribe(&fake->client, NULL);
        push(fake, 0, 0, 1, 100);
        for (uint64_t clock = 1; clock <= 40; clock++) {
            work(fake, 1);
            if (clock <= staleness) {
                continue; /* states arrive while others are on their way */
            }
            fake_io_forget(&fake->io);
            fake->io.now_us += 1500 * 1000;
            client_timer(&fake->client);
            answer_pull(fake, SERVER, clock - staleness - 1, clock - staleness - 1);
            assert_true(clock < 10 || fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, NULL) == 0);
            push(fake, clock - staleness - 1, clock - staleness, 0, 100);
        }
        fake_close(fake);
    }
}

static void count_rows(void *context, const struct message *message) {
    ++*(unsigned *)context;
}

TEST(pieces_of_a_table_are_checked) {
    struct fake *fake = fake_open(0);
    unsigned pieces = 0;
    fake->client.rows = count_rows;
    fake->client.context = &pieces;
    struct message message = {.type = MESSAGE_ROWS, .rows = {.cursor = 5, .next = 5}};
    give_from(fake, SERVER, &message);
    expect_accused(fake, "ROWS: the next piece is not behind this one");
    message = (struct message){.type = MESSAGE_ROWS, .rows = {.table = 1}};
    row_frames(&message, KEY, 1);
    give_from(fake, SERVER, &message);
    expect_accused(fake, "ROWS: rows of another table than was asked for");
    message = (struct message){.type = MESSAGE_ROWS};
    row_frames(&message, KEY, 1);
    message.frames[2]->size -= 1;
    give_from(fake, SERVER, &message);
    expect_accused(fake, "ROWS: frames of table 0 do not hold 1 rows of 8 bytes");
    assert_int_equal(pieces, 0);
    message = (struct message){.type = MESSAGE_ROWS, .rows = {.cursor = 5, .next = 6}};
    row_frames(&message, KEY, 1);
    give_from(fake, SERVER, &message);
    assert_int_equal(fake->client.accusation.accused, ACTOR_NONE);
    assert_int_equal(pieces, 1);
}

TEST(strangers_and_other_epochs_are_ignored) {
    struct fake *fake = fake_open(0);
    struct message message = {.type = MESSAGE_PUSH, .epoch = 2};
    message.push.clock = 1;
    client_receive(&fake->client, SERVER, &message);
    message.epoch = 1;
    client_receive(&fake->client, SERVER + 1, &message);
    message.push.partition = 7;
    client_receive(&fake->client, SERVER, &message);
    assert_int_equal(part(fake)->clock, 0);
}

TEST(the_silent_server_is_named) {
    struct fake *fake = fake_open(1);
    uint64_t since_us = 0;
    assert_int_equal(client_silent(&fake->client, &since_us), ACTOR_NONE);
    work(fake, 1);
    uint64_t began_us = fake->io.now_us;
    fake->io.now_us += 5 * 1000 * 1000;
    assert_int_equal(client_silent(&fake->client, &since_us), SERVER);
    assert_int_equal(since_us, began_us);
    struct message answer = {.type = MESSAGE_PUSH};
    give_from(fake, SERVER, &answer);
    assert_int_equal(client_silent(&fake->client, &since_us), SERVER);
    assert_int_equal(since_us, fake->io.now_us);
    uint64_t heard_us = since_us;
    fake->io.now_us += 1000;
    client_excuse(&fake->client, 300, fake->io.now_us); /* a short stop of our own */
    client_silent(&fake->client, &since_us);
    assert_int_equal(since_us, heard_us + 300);
    client_excuse(&fake->client, UINT64_MAX, fake->io.now_us + 5000); /* a long one */
    client_silent(&fake->client, &since_us);
    assert_int_equal(since_us, fake->io.now_us + 5000);
    push(fake, 0, 1, 0, 101);
    assert_int_equal(client_silent(&fake->client, &since_us), ACTOR_NONE);
}

/* ---- Rows ---- */

TEST(new_rows_are_filled_during_a_clock) {
    struct fake *fake = fake_open(1);
    client_begin(&fake->client, SELF, 1);
    *row(fake) += 7;
    fake->cache.tables[0].touched.base[0] = 1;
    cache_add(&fake->cache, 0, OTHER_KEY);
    assert_false(client_filled(&fake->client));
    client_subscribe(&fake->client, NULL);
    struct message message = {.type = MESSAGE_PUSH};
    message.push.clock = 0;
    message.push.request = asked(fake, SERVER);
    row_frames(&message, OTHER_KEY, 40);
    give_from(fake, SERVER, &message);
    assert_int_equal(*row_of(fake, OTHER_KEY), 40);
    assert_int_equal(*row(fake), 107);
    assert_true(client_subscribed(&fake->client));
    finish(fake);
}

/* All rows arrive, each at the slot that equals its key, in any order of requests and pushes. */
TEST(a_whole_table_is_there_in_order) {
    struct fake *fake = fake_bare(0, true);
    struct message subscribe = {0};
    give_plan(fake);
    assert_int_equal(cache_find(&fake->cache, 0, KEY), INDEX_NONE);
    assert_int_equal(cache_add(&fake->cache, 0, ROWS), AML_EINPUT);
    assert_int_equal(cache_add(&fake->cache, 0, KEY), KEY);
    assert_int_equal(cache_add(&fake->cache, 0, OTHER_KEY), OTHER_KEY);
    assert_int_equal(fake->cache.tables[0].count, ROWS);
    assert_int_equal(client_subscribe(&fake->client, NULL), 0);
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &subscribe), 1);
    assert_int_equal(subscribe.frames[1]->size, ROWS * sizeof(uint64_t));
    static const struct wire_directory_entry entry = {.table = 0, .rows = ROWS};
    uint64_t keys[ROWS];
    int64_t values[ROWS];
    for (unsigned i = 0; i < ROWS; i++) {
        keys[i] = (i * 7 + 3) % ROWS;
        values[i] = 100 + (int64_t)keys[i];
    }
    struct message push = {.type = MESSAGE_PUSH, .frame_count = 3};
    push.push.request = subscribe.subscribe.request;
    push.frames[0] = buffer_copy(&entry, sizeof entry);
    push.frames[1] = buffer_copy(keys, sizeof keys);
    push.frames[2] = buffer_copy(values, sizeof values);
    fake_io_forget(&fake->io);
    give_from(fake, SERVER, &push);
    assert_true(client_filled(&fake->client));
    for (uint32_t key = 0; key < ROWS; key++) {
        assert_int_equal(cache_key(&fake->cache.tables[0], key), key);
        assert_int_equal(*(int64_t *)(void *)cache_row(&fake->cache.tables[0], key), 100 + key);
    }
}

TEST(a_replica_that_does_not_serve_yet_is_asked_again) {
    struct fake *fake = fake_new(1);
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    uint64_t request = asked(fake, SERVER);
    fake_io_forget(&fake->io);
    push(fake, 0, 0, request, -1);
    assert_false(client_filled(&fake->client));
    fake->io.now_us += CLIENT_RETRY_MIN_US;
    client_timer(&fake->client);
    answer_pull(fake, SERVER, 0, 0);
    assert_int_equal(asked(fake, SERVER), request);
    push(fake, 0, 4, request, 104);
    assert_true(client_subscribed(&fake->client));
    assert_int_equal(part(fake)->clock, 4);
}

/* A server that served before may not yet know the plan that makes it serve again. */
TEST(a_replica_that_lags_is_asked_again) {
    struct fake *fake = fake_open(3);
    push(fake, 0, 5, 0, 105);
    cache_add(&fake->cache, 0, OTHER_KEY);
    client_subscribe(&fake->client, NULL);
    struct message message = {.type = MESSAGE_PUSH};
    message.push.request = asked(fake, SERVER);
    message.push.clock = 3;
    row_frames(&message, OTHER_KEY, 40);
    give_from(fake, SERVER, &message);
    assert_false(client_filled(&fake->client));
    message.push.clock = 5;
    row_frames(&message, OTHER_KEY, 50);
    give_from(fake, SERVER, &message);
    assert_true(client_subscribed(&fake->client));
    assert_int_equal(*row_of(fake, OTHER_KEY), 50);
}

/* Pushes OTHER_KEY alone, not the first row. */
static void push_other(struct fake *fake, uint64_t from, uint64_t to, uint64_t request, int64_t value) {
    struct message message = {.type = MESSAGE_PUSH};
    message.push = (struct message_push){.from_clock = from, .clock = to, .durable = to, .received = to};
    message.push.request = request;
    row_frames(&message, OTHER_KEY, value);
    fake->client.possible = WIRE_CLOCK_NEVER;
    give_from(fake, SERVER, &message);
}

/* A client at clock 0 with KEY, named permanently, and OTHER_KEY at 40, named by set 1. */
static struct fake *fake_with_set(uint32_t staleness) {
    struct fake *fake = fake_open(staleness);
    assert_int_equal(cache_add_for(&fake->cache, 0, OTHER_KEY, 1), 1);
    client_subscribe(&fake->client, NULL);
    push_other(fake, 0, 0, asked(fake, SERVER), 40);
    fake_io_forget(&fake->io);
    return fake;
}

TEST(rows_that_no_set_names_are_given_up) {
    struct fake *fake = fake_with_set(1);
    struct message only = {0};
    uint64_t key;
    assert_true(client_forget(&fake->client, 1)); /* all rows are named: nothing to send */
    assert_int_equal(fake->io.count, 0);
    assert_true(client_forget(&fake->client, 2));
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &only), 1);
    assert_int_equal(only.subscribe.only, 1);
    assert_int_equal(only.frames[1]->size, sizeof key);
    memcpy(&key, only.frames[1]->data, sizeof key);
    assert_int_equal(key, KEY);
    push(fake, 0, 1, 0, 101); /* pushes during the request apply */
    push_other(fake, 1, 2, 0, 42);
    assert_int_equal(part(fake)->clock, 2);
    assert_int_equal(*row(fake), 101);
    assert_int_equal(*row_of(fake, OTHER_KEY), 40); /* except to the requested row */
    assert_false(client_forget(&fake->client, 2));
    fake_io_forget(&fake->io);
    fake->io.now_us += CLIENT_RETRY_MIN_US; /* the request was lost */
    client_timer(&fake->client);
    fake_io_forget(&fake->io);
    answer_pull(fake, SERVER, 2, 0);
    struct message again = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &again), 1);
    assert_int_equal(again.subscribe.only, 1);
    assert_int_equal(again.subscribe.request, part(fake)->now.request);
    memcpy(&key, again.frames[1]->data, sizeof key);
    assert_int_equal(key, KEY);
    fake_io_forget(&fake->io);
    push(fake, 2, 2, part(fake)->now.request, -1);
    assert_true(client_subscribed(&fake->client));
    assert_int_equal(client_timer(&fake->client), 0); /* nothing is awaited */
}

TEST(rows_that_come_back_into_use_are_asked_for) {
    struct fake *fake = fake_with_set(1);
    client_begin(&fake->client, SELF, 1);
    *row_of(fake, OTHER_KEY) += 2;
    fake->cache.tables[0].touched.base[1] = 1;
    assert_false(client_forget(&fake->client, 2)); /* refused while the app works */
    finish(fake);
    fake_io_forget(&fake->io);
    assert_true(client_forget(&fake->client, 2));
    push(fake, 0, 0, asked(fake, SERVER), -1);
    fake_io_forget(&fake->io);
    assert_int_equal(cache_add_for(&fake->cache, 0, OTHER_KEY, 3), 1); /* at its old slot */
    assert_false(client_filled(&fake->client));
    client_subscribe(&fake->client, NULL);
    struct message subscribe = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &subscribe), 1);
    assert_int_equal(subscribe.subscribe.known, 0);
    assert_int_equal(subscribe.subscribe.only, 0);
    push_other(fake, 0, 0, subscribe.subscribe.request, 45);
    assert_true(client_subscribed(&fake->client));
    assert_int_equal(*row_of(fake, OTHER_KEY), 47); /* with our flushes and others' updates */
    push_other(fake, 0, 1, 0, 48);
    assert_int_equal(*row_of(fake, OTHER_KEY), 48);
    assert_true(client_forget(&fake->client, 3));
}

/* A push that was sent before its row was given up may wait until the row is named again. */
TEST(an_old_push_does_not_undo_a_rows_new_state) {
    struct fake *fake = fake_with_set(3);
    assert_true(client_forget(&fake->client, 2));
    uint64_t request = asked(fake, SERVER);
    fake_io_forget(&fake->io);
    client_begin(&fake->client, SELF, 1);
    push_other(fake, 0, 1, 0, 41); /* the push waits */
    push(fake, 1, 1, request, -1);
    push(fake, 1, 2, 0, 102); /* the push waits; the row is not named now */
    cache_add_for(&fake->cache, 0, OTHER_KEY, 3);
    client_subscribe(&fake->client, NULL);
    push_other(fake, 0, 2, asked(fake, SERVER), 42);
    assert_true(client_subscribed(&fake->client));
    finish(fake);
    assert_int_equal(part(fake)->clock, 2);
    assert_int_equal(*row(fake), 102);
    assert_int_equal(*row_of(fake, OTHER_KEY), 42);
}

/* The next server has the list of all rows. Until it takes over, no row is given up. */
TEST(rows_are_not_given_up_while_servers_change) {
    struct fake *fake = fake_with_set(1);
    fake->next_server = SECOND;
    fake->plan.from_clock = WIRE_CLOCK_NEVER;
    give_plan(fake);
    assert_false(client_forget(&fake->client, 2));
    push_from(fake, SECOND, 0, 0, asked(fake, SECOND), 0, -1);
    assert_false(client_forget(&fake->client, 2));
    fake->server = SECOND;
    fake->plan.from_clock = 0;
    give_plan(fake);
    fake_io_forget(&fake->io);
    assert_true(client_forget(&fake->client, 2));
    struct message only = {0};
    assert_int_equal(fake_io_sent(&fake->io, SECOND, MESSAGE_SUBSCRIBE, &only), 1);
    assert_int_equal(only.subscribe.only, 1);
}

/* A request is void after its epoch; in the next epoch the client requests the rows in use. */
TEST(rows_given_up_stay_so_in_the_next_epoch) {
    struct fake *fake = fake_with_set(1);
    assert_true(client_forget(&fake->client, 2));
    client_fence(&fake->client, ++fake->epoch);
    assert_false(client_forget(&fake->client, 2));
    fake_io_forget(&fake->io);
    give_plan(fake);
    struct message subscribe = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &subscribe), 1);
    assert_int_equal(subscribe.subscribe.only, 0);
    assert_int_equal(subscribe.frames[1]->size, sizeof(uint64_t));
}

/* ---- Announced changes ---- */

/* A client at clock 0. SECOND is to serve from a clock that is not named yet, and knows the row. */
static struct fake *fake_prepare(uint32_t staleness) {
    struct fake *fake = fake_open(staleness);
    fake->next_server = SECOND;
    fake->plan.from_clock = WIRE_CLOCK_NEVER;
    give_plan(fake);
    assert_false(client_subscribed(&fake->client));
    assert_true(client_filled(&fake->client)); /* current work goes on */
    uint64_t request = asked(fake, SECOND);
    fake_io_forget(&fake->io);
    push_from(fake, SECOND, 0, 0, request, 0, -1);
    assert_true(client_subscribed(&fake->client));
    return fake;
}

TEST(a_switch_takes_place_at_its_clock) {
    struct fake *fake = fake_prepare(1);
    work(fake, 1);
    fake->plan.from_clock = 3;
    give_plan(fake);
    work(fake, 1);
    push(fake, 0, 1, 0, 101);
    work(fake, 1);
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, NULL), 2);
    struct message flush = {0};
    assert_int_equal(fake_io_sent(&fake->io, SECOND, MESSAGE_FLUSH, &flush), 1);
    assert_int_equal(flush.flush.clock, 3);
    assert_int_equal(client_server(&fake->client, 0, 2), SERVER);
    assert_int_equal(client_server(&fake->client, 0, 3), SECOND);
    fake_io_forget(&fake->io);
    push_from(fake, SECOND, 2, 3, 0, 0, 103); /* arrives before the old server's pushes */
    assert_int_equal(part(fake)->clock, 1);
    push(fake, 1, 2, 0, 102);
    assert_int_equal(part(fake)->now.server, SECOND);
    assert_int_equal(part(fake)->next.server, ACTOR_NONE);
    assert_true(client_subscribed(&fake->client));
    fake->io.now_us += CLIENT_RETRY_MAX_US;
    client_timer(&fake->client);
    assert_int_equal(fake_io_sent(&fake->io, SECOND, MESSAGE_PULL, NULL), 1);
    push_from(fake, SECOND, 2, 3, 0, 3, 103);
    assert_int_equal(part(fake)->clock, 3);
    assert_int_equal(*row(fake), 103);
    fake_io_forget(&fake->io);
    fake->server = SECOND; /* the change is settled */
    give_plan(fake);
    assert_int_equal(fake->io.count, 0);
}

TEST(the_settled_plan_leads_those_who_lag) {
    struct fake *fake = fake_prepare(1);
    work(fake, 1);
    fake->server = SECOND;
    fake->plan.from_clock = 3;
    fake_io_forget(&fake->io);
    give_plan(fake);
    assert_int_equal(fake->io.count, 0);
    fake->io.now_us += CLIENT_RETRY_MAX_US;
    client_timer(&fake->client);
    struct message message = {0};
    assert_int_equal(fake_io_sent(&fake->io, SECOND, MESSAGE_PULL, &message), 1);
    assert_int_equal(message.pull.clock, 0);
    push_from(fake, SECOND, 0, 7, 0, 6, 190);
    assert_int_equal(part(fake)->clock, 7);
}

TEST(silence_has_the_other_server_asked) {
    struct fake *fake = fake_prepare(1);
    work(fake, 1);
    fake_io_forget(&fake->io);
    for (unsigned i = 0; i < 4; i++) {
        fake->io.now_us += CLIENT_RETRY_MAX_US;
        client_timer(&fake->client);
        assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_PULL, NULL), 1);
        assert_int_equal(fake_io_sent(&fake->io, SECOND, MESSAGE_PULL, NULL), 1);
        assert_int_equal(sent(fake, MESSAGE_PULL, NULL), 2);
    }
}

TEST(the_next_server_may_serve_already) {
    struct fake *fake = fake_open(3);
    fake->next_server = SECOND;
    fake->plan.from_clock = 2;
    work(fake, 1);
    fake_io_forget(&fake->io);
    give_plan(fake);
    uint64_t request = asked(fake, SECOND);
    push_from(fake, SECOND, 0, 1, request, 0, 101); /* the row has changed since the clock that we named */
    assert_int_equal(part(fake)->clock, 1);
    assert_int_equal(part(fake)->now.server, SECOND);
    assert_true(client_subscribed(&fake->client));
}

TEST(rows_without_a_state_are_asked_of_the_new_server) {
    struct fake *fake = fake_prepare(1);
    cache_add(&fake->cache, 0, OTHER_KEY);
    client_subscribe(&fake->client, NULL);
    uint64_t request = asked(fake, SECOND);
    fake_io_forget(&fake->io);
    push_from(fake, SECOND, 0, 0, request, 0, -1); /* the old server's answer is lost */
    fake->plan.from_clock = 2;
    give_plan(fake);
    push(fake, 0, 1, 0, 101);
    assert_int_equal(part(fake)->now.server, SECOND);
    assert_false(client_filled(&fake->client));
    struct message message = {.type = MESSAGE_PUSH};
    message.push.clock = 1;
    message.push.request = asked(fake, SECOND);
    assert_true(message.push.request > request);
    row_frames(&message, OTHER_KEY, 60);
    give_from(fake, SECOND, &message);
    assert_true(client_subscribed(&fake->client));
    assert_int_equal(*row_of(fake, OTHER_KEY), 60);
}

/* Pushes of a server that does not know all our rows can't complete the next clock. */
TEST(pushes_wait_until_all_rows_are_known) {
    struct fake *fake = fake_open(3);
    fake->next_server = SECOND;
    fake->plan.from_clock = 1; /* at once */
    give_plan(fake);
    uint64_t request = asked(fake, SECOND);
    push_from(fake, SECOND, 0, 1, 0, 0, -1);
    assert_int_equal(part(fake)->clock, 0);
    push_from(fake, SECOND, 0, 1, request, 0, 150);
    assert_int_equal(part(fake)->clock, 1);
    assert_int_equal(*row(fake), 150);
}

TEST(a_joining_node_begins_at_its_clock) {
    struct fake *fake = fake_new(0);
    fake->assignments[0].from_clock = WIRE_CLOCK_NEVER;
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    push(fake, 0, 20, 1, 300);
    assert_int_equal(fake->client.flushed, 0);
    assert_int_equal(client_timer(&fake->client), 0); /* neither we nor the server wait */
    fake->assignments[0].from_clock = 31;
    give_plan(fake);
    assert_int_equal(fake->client.flushed, 30);
    push(fake, 20, 29, 0, 390);
    assert_false(client_may_begin(&fake->client, 31));
    fake_io_forget(&fake->io);
    pull(fake); /* the last push was lost: the client must request it */
    push(fake, 29, 30, 0, 400);
    assert_true(client_may_begin(&fake->client, 31));
    work(fake, 1);
    assert_int_equal(fake->client.flushed, 31);
}

/* A joining node gets its rows, and changes during its preparation, from the server of its first clock. */
TEST(a_joining_node_goes_by_the_next_server) {
    struct fake *fake = fake_new(0);
    fake->next_server = SECOND;
    fake->plan.from_clock = fake->assignments[0].from_clock = WIRE_CLOCK_NEVER;
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    struct message message = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, NULL), 0);
    uint64_t request = asked(fake, SECOND);
    push_from(fake, SECOND, 0, 0, request, 0, -1); /* the server has no copy yet */
    assert_false(client_filled(&fake->client));
    fake_io_forget(&fake->io);
    fake->io.now_us += CLIENT_RETRY_MIN_US;
    client_timer(&fake->client);
    answer_pull(fake, SECOND, 0, 0);
    assert_int_equal(asked(fake, SECOND), request);
    push_from(fake, SECOND, 0, 20, request, 20, 300);
    assert_true(client_subscribed(&fake->client));
    fake->plan.from_clock = fake->assignments[0].from_clock = 31;
    give_plan(fake);
    fake_io_forget(&fake->io);
    push_from(fake, SECOND, 30, 30, 0, 30, -1); /* its earlier pushes were lost */
    assert_int_equal(fake_io_sent(&fake->io, SECOND, MESSAGE_PULL, &message), 1);
    assert_int_equal(message.pull.again, 1);
    assert_int_equal(message.pull.clock, 20);
    push_from(fake, SECOND, 20, 30, 0, 30, 400);
    assert_int_equal(part(fake)->clock, 30);
    assert_int_equal(part(fake)->now.server, SECOND);
    assert_true(client_may_begin(&fake->client, 31));
}

/* A node without assignments reads rows at the job's end, while a plan in preparation is dropped. */
TEST(at_the_end_the_last_clocks_server_is_asked) {
    struct fake *fake = fake_bare(0, false);
    fake->next_server = SECOND;
    fake->plan.from_clock = WIRE_CLOCK_NEVER;
    fake->assignments[0] = fake->assignments[1];
    fake->assignment_count = 1;
    give_plan(fake);
    assert_true(client_want_last(&fake->client, 90));
    assert_int_equal(cache_add(&fake->cache, 0, KEY), 0);
    client_subscribe(&fake->client, NULL);
    assert_int_equal(fake_io_sent(&fake->io, SECOND, MESSAGE_SUBSCRIBE, NULL), 0);
    uint64_t request = asked(fake, SERVER);
    fake_io_forget(&fake->io);
    push_from(fake, SERVER, 0, 89, request, 89, 300); /* not yet at the last clock */
    assert_false(client_want_last(&fake->client, 90));
    fake->io.now_us += CLIENT_RETRY_MIN_US;
    client_timer(&fake->client);
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_PULL, NULL), 1);
    push_from(fake, SERVER, 89, 90, 0, 90, 400);
    assert_true(client_want_last(&fake->client, 90));
    assert_int_equal(*row(fake), 400);
}

/* Meanwhile the server has dropped the partition, by a plan that this client has not seen. */
TEST(a_forgotten_subscription_is_made_anew) {
    struct fake *fake = fake_open(1);
    push(fake, 0, 1, 0, 101);
    work(fake, 1);
    uint64_t agreed = fake->client.requests;
    cache_add(&fake->cache, 0, OTHER_KEY);
    client_subscribe(&fake->client, NULL);
    struct message subscribe = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &subscribe), 1);
    assert_int_equal(subscribe.subscribe.after, agreed);
    fake_io_forget(&fake->io);
    fake->io.now_us += CLIENT_RETRY_MAX_US;
    client_timer(&fake->client);
    fake_io_forget(&fake->io);
    struct message answer = {.type = MESSAGE_PUSH, .push = {.from_clock = 1, .clock = 1}};
    answer.push.pull = part(fake)->pulls;
    give_from(fake, SERVER, &answer);
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &subscribe), 1);
    assert_int_equal(subscribe.subscribe.after, 0);
    assert_int_equal(subscribe.subscribe.known, 1);
    assert_int_equal(subscribe.frames[1]->size, sizeof(uint64_t)); /* the row whose state is missing; then the other */
    uint64_t request = subscribe.subscribe.request;
    fake_io_forget(&fake->io);
    push(fake, 1, 2, request, 102);
    assert_int_equal(part(fake)->clock, 2);
    assert_int_equal(*row(fake), 102);
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &subscribe), 1);
    assert_int_equal(subscribe.subscribe.after, request);
}

TEST(alone_is_who_alone_has_a_assignment_in_the_clock) {
    struct fake *fake = fake_new(1);
    fake->assignments[1].until_clock = 1;
    fake->assignments[2] = (struct wire_assignment){
        .origin = origin_catch_up(SELF, 1), .from_clock = 3, .until_clock = 3}; /* another catch-up of the same node */
    fake->assignment_count = 3;
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    push(fake, 0, 0, 1, 100);
    const bool alone[] = {false, true, false, true};
    for (uint64_t c = 1; c <= 4; c++) {
        client_begin(&fake->client, SELF, c);
        assert_int_equal(fake->client.part.alone, alone[c - 1]);
        finish(fake);
        push(fake, c - 1, c, 0, -1);
    }
}

/* ---- Failures ---- */

static void fence_and_restore(struct fake *fake, uint64_t restore) {
    fake->epoch++;
    fake->plan.restore = restore;
    client_fence(&fake->client, fake->epoch);
    fake_io_forget(&fake->io);
    give_plan(fake);
}

TEST(a_fence_stops_everything) {
    struct fake *fake = fake_open(2);
    begin(fake, SELF, 1, 5);
    client_fence(&fake->client, 2);
    fake_io_forget(&fake->io);
    finish(fake);
    assert_int_equal(fake->io.count, 0);
    assert_false(client_may_begin(&fake->client, 2));
    push(fake, 0, 1, 0, 999); /* a push of the old epoch */
    assert_int_equal(part(fake)->clock, 0);
    fake->io.now_us += CLIENT_RETRY_MAX_US;
    assert_int_equal(client_timer(&fake->client), 0);
    uint64_t since_us;
    assert_int_equal(client_silent(&fake->client, &since_us), ACTOR_NONE);
    cache_add(&fake->cache, 0, OTHER_KEY);
    client_subscribe(&fake->client, NULL);
    assert_int_equal(fake->io.count, 0);
    give_plan(fake); /* another plan of the old epoch */
    assert_true(fake->client.fenced);
    fake->epoch = 2;
    give_plan(fake);
    assert_false(fake->client.fenced);
    struct message flush = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 1); /* the retained flush */
    assert_int_equal(flush.epoch, 2);
    assert_int_equal(flushed_value(&flush), 5);
}

/* A clock in progress at the fence is flushed under the new plan. */
TEST(a_clock_goes_through_a_recovery) {
    struct fake *fake = fake_open(2);
    begin(fake, SELF, 1, 5);
    fake->server = fake->next_server = SECOND;
    fence_and_restore(fake, 0);
    assert_int_equal(fake_io_sent(&fake->io, SECOND, MESSAGE_FLUSH, NULL), 0);
    push_from(fake, SECOND, 0, 0, asked(fake, SECOND), 0, -1);
    finish(fake);
    struct message flush = {0};
    assert_int_equal(fake_io_sent(&fake->io, SECOND, MESSAGE_FLUSH, &flush), 1);
    assert_int_equal(flush.flush.clock, 1);
    assert_int_equal(flush.epoch, 2);
}

TEST(flushes_beyond_the_restored_clock_are_sent_again) {
    struct fake *fake = fake_open(2);
    work(fake, 1);
    work(fake, 2);
    push_from(fake, SERVER, 0, 2, 0, 0, 103);
    work(fake, 4);
    fence_and_restore(fake, 1);
    struct message message = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &message), 2);
    assert_int_equal(message.flush.clock, 3);
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &message), 1);
    assert_int_equal(message.subscribe.known, 1);
    assert_int_equal(message.subscribe.again, 0);
    assert_int_equal(part(fake)->clock, 1);
}

TEST(rows_seen_beyond_the_restored_clock_are_asked_for_again) {
    struct fake *fake = fake_new(2);
    cache_add(&fake->cache, 0, OTHER_KEY);
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    struct message message = {.type = MESSAGE_PUSH};
    static const struct wire_directory_entry both = {.table = 0, .rows = 2};
    static const uint64_t keys[] = {KEY, OTHER_KEY};
    static const int64_t values[] = {100, 50};
    message.push.request = 1;
    message.frames[0] = buffer_copy(&both, sizeof both);
    message.frames[1] = buffer_copy(keys, sizeof keys);
    message.frames[2] = buffer_copy(values, sizeof values);
    message.frame_count = 3;
    give_from(fake, SERVER, &message);
    work(fake, 1);
    work(fake, 2);
    push_from(fake, SERVER, 0, 2, 0, 0, 703); /* the failed node's 600 is in KEY, and never reached OTHER_KEY */
    work(fake, 4);
    fence_and_restore(fake, 1);
    assert_false(client_may_begin(&fake->client, 4));
    uint64_t request = asked(fake, SERVER);
    fake_io_forget(&fake->io);
    push_from(fake, SERVER, 1, 1, request, 0, -1);
    struct message again = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &again), 1);
    assert_int_equal(again.subscribe.again, 1);
    assert_int_equal(again.subscribe.known, 0);
    assert_int_equal(again.frames[1]->size, sizeof(uint64_t));
    assert_memory_equal(again.frames[1]->data, &keys[0], sizeof keys[0]);
    assert_false(client_has_state(&fake->client, 1));
    push_from(fake, SERVER, 0, 1, again.subscribe.request, 0, 101);
    assert_int_equal(*row(fake), 107); /* our later 2 and 4 stay visible */
    assert_int_equal(*row_of(fake, OTHER_KEY), 50);
    assert_true(client_has_state(&fake->client, 1));
    assert_true(client_may_begin(&fake->client, 4));
    fake_io_forget(&fake->io);
    work(fake, 8);
    struct message flush = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 1);
    assert_int_equal(flushed_value(&flush), 8); /* and are not flushed twice */
}

/* States that arrive during a clock wait, and keep the clock's own changes. */
TEST(restored_rows_wait_for_the_clock_under_way) {
    struct fake *fake = fake_open(2);
    work(fake, 1);
    push_from(fake, SERVER, 0, 1, 0, 0, 701);
    begin(fake, SELF, 2, 2);
    fence_and_restore(fake, 0);
    push_from(fake, SERVER, 0, 0, asked(fake, SERVER), 0, -1);
    struct message again = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &again), 2);
    push_from(fake, SERVER, 0, 0, again.subscribe.request, 0, 100);
    push_from(fake, SERVER, 0, 0, again.subscribe.request, 0, 100); /* a repeat */
    assert_int_equal(*row(fake), 703);
    assert_int_equal(part(fake)->waiting_count, 1);
    finish(fake);
    assert_int_equal(*row(fake), 103);
    assert_false(part(fake)->restoring);
}

/* Pushes of the new epoch may bring the rows first; an answer that comes later must not undo them. */
TEST(new_pushes_prevail_over_the_answer) {
    struct fake *fake = fake_open(3);
    work(fake, 1);
    push_from(fake, SERVER, 0, 1, 0, 0, 701);
    fence_and_restore(fake, 0);
    push_from(fake, SERVER, 0, 0, asked(fake, SERVER), 0, -1);
    struct message again = {0};
    fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &again);
    assert_int_equal(again.subscribe.again, 1);
    push_from(fake, SERVER, 0, 1, 0, 0, 301);
    assert_false(part(fake)->restoring);
    push_from(fake, SERVER, 0, 0, again.subscribe.request, 0, 100);
    assert_int_equal(*row(fake), 301);
}

TEST(a_second_failure_meets_the_first_ones_remains) {
    struct fake *fake = fake_open(3);
    work(fake, 1);
    work(fake, 1);
    push_from(fake, SERVER, 0, 2, 0, 0, 702);
    fence_and_restore(fake, 1);
    fence_and_restore(fake, 2); /* a higher clock, but in the new history: what the old epoch showed stays void */
    push_from(fake, SERVER, 1, 2, asked(fake, SERVER), 0, -1);
    assert_true(part(fake)->restoring);
    struct message again = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &again), 2);
    assert_int_equal(again.subscribe.again, 1);
    push_from(fake, SERVER, 0, 2, again.subscribe.request, 0, 302);
    assert_int_equal(*row(fake), 302);
}

/* A node without an assignment may miss an epoch that the others went through. */
TEST(who_missed_an_epoch_asks_for_everything) {
    struct fake *fake = fake_new(3);
    fake->assignments[0].from_clock = WIRE_CLOCK_NEVER;
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    push(fake, 0, 5, 1, 705);
    fake->epoch++;
    fence_and_restore(fake, 8);
    struct message message = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &message), 1);
    assert_int_equal(message.subscribe.known, 0);
    push_from(fake, SERVER, 0, 8, message.subscribe.request, 0, 308);
    assert_int_equal(*row(fake), 308);
    assert_true(client_has_state(&fake->client, 8));
}

/* ---- Rows are requested by portions ---- */

enum { PORTION = 3, MORE = 7 };

/* A client that subscribes to MORE rows, keys 0 and on, in portions of PORTION. */
static struct fake *fake_portions(void) {
    struct fake *fake = fake_bare(2, false);
    fake->client.asking.bytes = PORTION * 2 * sizeof(uint64_t) + 1;
    for (uint64_t key = 0; key < MORE; key++) {
        assert_int_equal(cache_add(&fake->cache, 0, key), (int64_t)key);
    }
    give_plan(fake);
    assert_int_equal(client_subscribe(&fake->client, NULL), 0);
    return fake;
}

/* Answers the only SUBSCRIBE sent with rows of `clock`, each its key plus `base`. Returns the number of rows; sets
 * `first` as the first row's key is expected. */
static size_t answer_portion(struct fake *fake, uint64_t clock, uint64_t first, int64_t base) {
    struct message subscribe = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_SUBSCRIBE, &subscribe), 1);
    struct message push = {.type = MESSAGE_PUSH};
    push.push = (struct message_push){.from_clock = clock, .clock = clock, .request = subscribe.subscribe.request};
    struct buffer *keys = buffer_copy(subscribe.frames[1]->data, subscribe.frames[1]->size);
    struct buffer *values = buffer_copy(keys->data, keys->size);
    size_t count = keys->size / sizeof(uint64_t);
    for (size_t i = 0; i < count; i++) {
        ((int64_t *)(void *)values->data)[i] += base;
    }
    uint64_t key;
    memcpy(&key, keys->data, sizeof key);
    assert_int_equal(key, first);
    rows_append(&push, 0, WIRE_FULL, keys, values);
    fake_io_forget(&fake->io);
    give_from(fake, SERVER, &push);
    return count;
}

static void assert_rows(struct fake *fake, int64_t base) {
    for (uint64_t key = 0; key < MORE; key++) {
        assert_int_equal(*row_of(fake, key), (int64_t)key + base);
    }
}

TEST(rows_are_asked_for_by_portions) {
    struct fake *fake = fake_portions();
    assert_int_equal(answer_portion(fake, 0, 0, 100), PORTION);
    assert_false(client_filled(&fake->client));
    assert_int_equal(answer_portion(fake, 0, PORTION, 100), PORTION);
    assert_false(client_filled(&fake->client));
    assert_int_equal(answer_portion(fake, 0, 2 * PORTION, 100), MORE - 2 * PORTION);
    assert_true(client_subscribed(&fake->client));
    assert_int_equal(sent(fake, MESSAGE_SUBSCRIBE, NULL), 0);
    assert_rows(fake, 100);
}

TEST(a_row_larger_than_a_portion_is_asked_for) {
    struct fake *fake = fake_portions();
    fake->client.asking.bytes = 1;
    assert_int_equal(answer_portion(fake, 0, 0, 100), PORTION);
    for (uint64_t key = PORTION; key < MORE; key++) {
        assert_false(client_filled(&fake->client));
        assert_int_equal(answer_portion(fake, 0, key, 100), 1);
    }
    assert_true(client_subscribed(&fake->client));
    assert_rows(fake, 100);
}

TEST(void_rows_are_asked_for_by_portions) {
    struct fake *fake = fake_portions();
    for (uint64_t key = 0; key < MORE; key += PORTION) {
        answer_portion(fake, 0, key, 100);
    }
    fake->client.asking.bytes = MORE * 2 * sizeof(uint64_t);
    struct message push = {.type = MESSAGE_PUSH, .push = {.from_clock = 0, .clock = 2}};
    uint64_t keys[MORE];
    for (uint64_t key = 0; key < MORE; key++) {
        keys[key] = key;
    }
    rows_append(&push, 0, WIRE_FULL, buffer_copy(keys, sizeof keys), buffer_copy(keys, sizeof keys));
    fake->client.possible = 2;
    give_from(fake, SERVER, &push);
    assert_rows(fake, 0);
    fake->client.asking.bytes = PORTION * 2 * sizeof(uint64_t);
    fence_and_restore(fake, 1);
    assert_int_equal(asked(fake, SERVER), fake->client.requests); /* known rows are all requested at once */
    uint64_t request = fake->client.requests;
    fake_io_forget(&fake->io);
    push_from(fake, SERVER, 1, 1, request, 0, -1);
    for (uint64_t key = 0; key < MORE; key += PORTION) {
        assert_false(client_has_state(&fake->client, 1));
        assert_int_equal(answer_portion(fake, 1, key, 200), MORE - key < PORTION ? MORE - key : PORTION);
    }
    assert_true(client_has_state(&fake->client, 1));
    assert_int_equal(sent(fake, MESSAGE_SUBSCRIBE, NULL), 0);
    assert_rows(fake, 200);
}

/* A catch-up runs in a clock that is flushed already; its delta must not contain the earlier flush. */
TEST(a_catch_up_flushes_only_its_own) {
    for (uint32_t staleness = 0; staleness < 2; staleness++) {
        struct fake *fake = fake_open(staleness);
        work(fake, 1);
        actor_id origin = origin_catch_up(SELF, 2);
        fake->assignments[1] = (struct wire_assignment){.origin = origin, .from_clock = 1, .until_clock = 1};
        fence_and_restore(fake, 0);
        push_from(fake, SERVER, 0, 0, asked(fake, SERVER), 0, -1);
        fake_io_forget(&fake->io);
        begin(fake, origin, 1, 20);
        finish(fake);
        assert_int_equal(fake->client.flushed, 1);
        struct message flush = {0};
        assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 1);
        assert_int_equal(flush.flush.origin, origin);
        assert_int_equal(flushed_value(&flush), 20);
        assert_int_equal(part(fake)->retained_count, 2);
        fake_io_forget(&fake->io);
        pull(fake);
        answer_pull(fake, SERVER, 0, 1); /* `received` counts our own origin; the push's clock confirms the catch-up */
        assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 1);
        assert_int_equal(flush.flush.origin, origin);
        push(fake, 0, 1, 0, 121);
        assert_int_equal(*row(fake), 121);
        assert_true(client_may_begin(&fake->client, 2));
        fake_io_forget(&fake->io);
        work(fake, 300);
        assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 1);
        assert_int_equal(flushed_value(&flush), 300);
        fake_close(fake);
    }
}

/* The app overwrites a row that a later clock has overwritten: the earlier clock's flush has the new value, our row
 * keeps the later. */
TEST(a_catch_up_does_not_undo_later_puts) {
    struct fake *fake = fake_new(2);
    fake->job.tables[0].mode = AML_PUT;
    actor_id origin = origin_catch_up(SELF, 1);
    fake->assignments[1] = (struct wire_assignment){.origin = origin, .from_clock = 1, .until_clock = 1};
    give_plan(fake);
    client_subscribe(&fake->client, NULL);
    push(fake, 0, 0, 1, 100);
    begin(fake, SELF, 1, 0);
    fake->cache.tables[0].touched.base[0] = 0;
    finish(fake);
    work(fake, 2);
    fake_io_forget(&fake->io);
    begin(fake, origin, 1, 5);
    finish(fake);
    struct message flush = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 1);
    assert_int_equal(flushed_value(&flush), 107);
    assert_int_equal(*row(fake), 102);
}

/* fake_open; the app hands over its changes by cache_give. */
static struct fake *fake_given(uint32_t staleness) {
    struct fake *fake = fake_bare(staleness, false);
    fake->job.tables[0].sparse = fake->job.tables[0].given = true;
    fake->job.shapes[0] = table_shape(&fake->job.tables[0]);
    assert_int_equal(cache_add(&fake->cache, 0, KEY), 0);
    give_plan(fake);
    assert_int_equal(client_subscribe(&fake->client, NULL), 0);
    push(fake, 0, 0, asked(fake, SERVER), 100);
    fake_io_forget(&fake->io);
    return fake;
}

/* Changes of a row handed over in several calls are flushed as one. Pushes replace rows, and later flushes are
 * added. */
TEST(given_changes_are_what_is_flushed) {
    struct fake *fake = fake_given(2);
    const uint32_t column = 0;
    for (int64_t clock = 1; clock <= 3; clock++) { /* 10, 20, 30: handed over in one, two and three calls */
        client_begin(&fake->client, SELF, (uint64_t)clock);
        *row(fake) += 10 * clock;
        for (int64_t piece = 0; piece < clock; piece++) {
            cache_give(&fake->cache, 0, 0, 1, &column, &(int64_t){10});
        }
        finish(fake);
        struct message flush = {0};
        assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 1);
        struct rows_view view;
        assert_int_equal(rows_check(&flush, fake->job.shapes, 1, &view, NULL), 1);
        assert_int_equal(view.count, 1);
        assert_int_equal(view.keys[0], KEY);
        int64_t sum = 0;
        assert_int_equal(sparse_add(sizeof sum, &sum, view.values, 1), flush.frames[2]->size);
        assert_int_equal(sum, 10 * clock);
        fake_io_forget(&fake->io);
    }
    assert_int_equal(*row(fake), 160);
    push(fake, 0, 1, 0, 1000);
    assert_int_equal(*row(fake), 1050);
    push(fake, 1, 3, 0, 2000);
    assert_int_equal(*row(fake), 2000);
    client_begin(&fake->client, SELF, 4); /* nothing is left to flush */
    finish(fake);
    struct message flush = {0};
    assert_int_equal(fake_io_sent(&fake->io, SERVER, MESSAGE_FLUSH, &flush), 1);
    assert_int_equal(flush.frame_count, 0);
    fake_io_forget(&fake->io);
}

/* Memory for changes handed over grows with the rows, not with the number of calls. It shrinks if much less is
 * handed over. */
TEST(given_changes_take_room_for_rows) {
    enum { WIDTH = 50, SLOTS = 100, TIMES = 200 };
    const size_t most = SLOTS * (2 * sizeof(uint32_t) + WIDTH * sizeof(int32_t));
    struct job job = {.table_count = 1};
    job.tables[0] = (struct table_spec){
        .name = "t", .type = AML_INT32, .width = WIDTH, .row_bytes = WIDTH * sizeof(int32_t), .rows = SLOTS};
    job.tables[0].sparse = job.tables[0].given = true;
    CLOSED_BY(cache_close) struct cache cache;
    cache_open(&cache, &job, 1);
    const struct cache_changes *changes = cache_changes(&cache, 0, 0);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        assert_int_equal(cache_add(&cache, 0, slot), slot);
    }
    for (uint32_t i = 0; i < SLOTS * TIMES; i++) {
        uint32_t column = i / SLOTS % (WIDTH - 1);
        cache_give(&cache, 0, i % SLOTS, 1, &column, &(int32_t){1});
        if (i % 3 == 0) {
            cache_give_row(&cache, 0, i % SLOTS, (const int32_t[WIDTH]){[WIDTH - 1] = -1});
        }
        assert_true(changes->capacity <= 5 * most);
    }
    int64_t sum = 0;
    uint32_t slots[SLOTS];
    assert_int_equal(changes->slots, SLOTS);
    struct buffer *rows = cache_take_changes(&cache, 0, 0, slots);
    size_t at = 0;
    for (uint32_t r = 0; r < SLOTS; r++) {
        int32_t row[WIDTH] = {0};
        at += sparse_add(sizeof(int32_t), row, rows->data + at, WIDTH);
        for (uint32_t c = 0; c < WIDTH; c++) {
            assert_true(row[c] > 0 || c == WIDTH - 1);
            sum += row[c];
        }
    }
    assert_int_equal(at, rows->size);
    assert_int_equal(sum, SLOTS * TIMES - (SLOTS * TIMES + 2) / 3);
    buffer_drop(rows);
    cache_give_row(&cache, 0, 0, (const int32_t[WIDTH]){1});
    assert_int_equal(changes->slots, 1);
    buffer_drop(cache_take_changes(&cache, 0, 0, slots));
    assert_int_equal(slots[0], 0);
    assert_true(changes->capacity < most);
}

TEST(rows_of_given_tables_may_not_be_touched) {
    struct fake *fake = fake_given(0);
    begin(fake, SELF, 1, 5);
    struct error error = {0};
    assert_int_equal(client_gather(&fake->client, 0, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "table t: rows are marked as touched"));
}

static int close_all(void **state) {
    while (open_fakes != NULL) {
        fake_close(open_fakes);
    }
    return 0;
}

int main(void) {
    return tests_run_each(NULL, close_all);
}
