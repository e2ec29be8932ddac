/* Compressed and averaged tables from end to end: the test carries messages between workers' clients and a
 * partition. Whole numbers make sums exact: only what is unsent in the workers' caches may be missing. Also with an
 * optimizer that adds, and counts its steps in the state. */
#include "agileml/ps/partition.h"
#include "agileml/wire/bfloat16.h"
#include "tests/fake_io.h"
#include "tests/test.h"
#include "workers/client/client.h"

#include <math.h>

enum { WORKERS = 3, ROWS = 12, WIDTH = 7, KEPT_CLOCKS = 3, CLOCKS_MAX = 400 };

static const actor_id SERVER = UINT64_C(0x990001);

struct worker {
    struct fake_io io;
    struct cache cache;
    struct client client;
    uint64_t clock; /* the last clock worked on */
};

struct cluster {
    struct job job;
    struct partition *partition;
    struct worker workers[WORKERS];
    unsigned worker_count;
    uint64_t epoch, version, restore, durable;
    uint64_t bytes; /* bytes of values in flushes and pushes */
    double added[ROWS * WIDTH];
    bool updated[CLOCKS_MAX][ROWS]; /* by any worker */
    uint64_t seed;
    bool averages; /* averages by S-MA: worker 0 has a quarter of the shards, worker 1 the others */
};

static uint32_t chance(struct cluster *cluster, uint32_t below) {
    cluster->seed = cluster->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(cluster->seed >> 33) % below;
}

static actor_id worker_actor(unsigned number) {
    return (actor_id)(number + 1) << ACTOR_PART_BITS;
}

/* A plan in which all workers work on every clock. */
static struct plan_view make_plan(struct cluster *cluster) {
    struct wire_placement placement = {.server = SERVER, .next_server = SERVER};
    struct wire_assignment assignments[WORKERS];
    for (unsigned w = 0; w < cluster->worker_count; w++) {
        assignments[w] = (struct wire_assignment){
            .origin = worker_actor(w), .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER, .count = 1 + 2 * w};
    }
    const struct message_plan terms = {.version = ++cluster->version,
                                       .restore = cluster->restore,
                                       .commit_every = 1,
                                       .next_commit_every = 1,
                                       .window = 8,
                                       .partitions = 1,
                                       .shards = 4,
                                       .next_strategy = cluster->averages ? STRATEGY_SMA : STRATEGY_SSGD,
                                       .recoverable = 1};
    struct buffer *frames[PLAN_FRAMES] = {
        [PLAN_NODES] = buffer_new(0),
        [PLAN_PLACEMENT] = buffer_copy(&placement, sizeof placement),
        [PLAN_ASSIGNMENTS] = buffer_copy(assignments, cluster->worker_count * sizeof assignments[0]),
        [PLAN_SHARDS] = buffer_new(0),
        [PLAN_ENDPOINTS] = buffer_new(0),
    };
    return plan_of_frames(cluster->epoch, &terms, frames);
}

static void give_plan(struct cluster *cluster) {
    CLOSED_BY(plan_close) struct plan_view plan = make_plan(cluster);
    partition_expect(cluster->partition, plan.assignments, cluster->worker_count);
    for (unsigned w = 0; w < cluster->worker_count; w++) {
        client_plan(&cluster->workers[w].client, &plan);
    }
}

/* Counts the bytes of the rows' values in a message. */
static void count_bytes(struct cluster *cluster, const struct message *message) {
    for (unsigned f = 2; f < message->frame_count; f += 2) {
        cluster->bytes += message->frames[f]->size;
    }
}

static struct message new_push(const struct cluster *cluster, uint64_t from_clock, uint64_t request) {
    const struct partition *partition = cluster->partition;
    struct message push = {.type = MESSAGE_PUSH, .epoch = cluster->epoch};
    push.push = (struct message_push){
        .from_clock = from_clock, .clock = partition->clock, .durable = cluster->durable, .request = request};
    return push;
}

static void give(struct cluster *cluster, unsigned w, struct message *push) {
    count_bytes(cluster, push);
    client_receive(&cluster->workers[w].client, SERVER, push);
    assert_int_equal(cluster->workers[w].client.accusation.accused, ACTOR_NONE);
    message_close(push);
}

static void take_subscribe(struct cluster *cluster, unsigned w, const struct message *message) {
    struct rows_view views[WIRE_TABLES_MAX];
    const struct message_subscribe *subscribe = &message->subscribe;
    int count = rows_check(message, cluster->job.shapes, cluster->job.table_count, views, NULL);
    assert_true(count >= 0);
    if (!subscribe->again) {
        assert_int_equal(partition_subscribe(cluster->partition, worker_actor(w), subscribe->request, false, views,
                                             (unsigned)count, NULL),
                         0);
    }
    struct message push = new_push(cluster, subscribe->known, subscribe->request);
    assert_int_equal(partition_rows(cluster->partition, views, (unsigned)count, subscribe->known, &push, NULL), 0);
    give(cluster, w, &push);
}

static void push_all(struct cluster *cluster) {
    for (unsigned w = 0; w < cluster->worker_count; w++) {
        struct subscription *subscription = partition_subscription(cluster->partition, worker_actor(w));
        if (subscription == NULL) {
            continue;
        }
        struct message push = new_push(cluster, subscription->sent_clock, 0);
        partition_changes(cluster->partition, subscription, subscription->sent_clock, NULL, NULL, &push);
        subscription->sent_clock = cluster->partition->clock;
        give(cluster, w, &push);
    }
}

static void take_flush(struct cluster *cluster, const struct message *message) {
    struct rows_view views[WIRE_TABLES_MAX];
    int count = rows_check(message, cluster->job.shapes, cluster->job.table_count, views, NULL);
    assert_true(count >= 0);
    count_bytes(cluster, message);
    assert_true(partition_flush(cluster->partition, message->flush.origin, message->flush.clock, 0, false, views,
                                (unsigned)count, NULL) >= 0);
    assert_int_equal(partition_commit(cluster->partition, message->flush.committed, NULL), 0);
    while (partition_advance(cluster->partition)) {
        partition_point(cluster->partition);
        uint64_t clock = cluster->partition->clock;
        if (clock > cluster->durable + KEPT_CLOCKS) {
            cluster->durable = clock - KEPT_CLOCKS;
        }
        push_all(cluster);
    }
}

/* Delivers the workers' messages, and messages sent in answer, until none is left. */
static void carry(struct cluster *cluster) {
    for (unsigned w = 0; w < cluster->worker_count; w++) {
        struct worker *worker = &cluster->workers[w];
        for (struct fake_sent next; fake_io_next(&worker->io, &next);) {
            struct message message = next.message;
            assert_int_equal(next.to, SERVER);
            if (message.epoch == cluster->epoch && message.type == MESSAGE_SUBSCRIBE) {
                take_subscribe(cluster, w, &message);
            } else if (message.epoch == cluster->epoch && message.type == MESSAGE_FLUSH) {
                take_flush(cluster, &message);
            }
            message_close(&message);
            w = 0; /* a push may have made an earlier worker send a request */
            worker = &cluster->workers[0];
        }
    }
}

static void step_adds(const struct aml_step *step, const void *parameters) {
    float *row = step->row;
    for (unsigned i = 0; i < WIDTH; i++) {
        row[i] += ((const float *)step->sum)[i];
    }
    ((float *)step->state)[0]++;
}

/* Gives the first table an optimizer. */
static void add_steps(struct job *job) {
    job->tables[0].apply = step_adds;
    job->tables[0].state = 1;
    job->tables[1] = table_state_spec(&job->tables[0], 1);
    job->shapes[1] = table_shape(&job->tables[1]);
    job->table_count = 2;
}

static void cluster_close(void *context) {
    FREED struct cluster *cluster = context;
    for (unsigned w = 0; w < cluster->worker_count; w++) {
        struct worker *worker = &cluster->workers[w];
        fake_io_forget(&worker->io);
        client_close(&worker->client);
        cache_close(&worker->cache);
    }
    partition_close(cluster->partition);
}

enum kind { PLAIN, STEPS, SHARES };

static struct cluster *cluster_open_with(unsigned workers, uint32_t staleness, bool compressed, enum kind kind) {
    struct cluster *cluster = calloc(1, sizeof *cluster);
    assert_non_null(cluster);
    at_end(cluster_close, cluster);
    cluster->job = (struct job){.table_count = 1, .staleness = staleness};
    cluster->job.tables[0] = (struct table_spec){.name = "t",
                                                 .type = AML_FLOAT32,
                                                 .mode = AML_ADD,
                                                 .width = WIDTH,
                                                 .row_bytes = WIDTH * sizeof(float),
                                                 .rows = ROWS,
                                                 .shares = kind == SHARES ? 1 + staleness : 0,
                                                 .compressed = compressed};
    cluster->job.shapes[0] = table_shape(&cluster->job.tables[0]);
    if (kind == STEPS) {
        add_steps(&cluster->job);
    }
    cluster->epoch = 1;
    cluster->seed = 7 + staleness;
    cluster->worker_count = workers;
    cluster->partition = partition_open(&cluster->job, 0, 1, NULL);
    assert_non_null(cluster->partition);
    partition_keep(cluster->partition, true);
    for (unsigned w = 0; w < workers; w++) {
        struct worker *worker = &cluster->workers[w];
        fake_io_open(&worker->io);
        cache_open(&worker->cache, &cluster->job, 1);
        client_init(&worker->client, &worker->io.io, worker_actor(w), &cluster->job, &worker->cache);
        for (uint64_t key = 0; key < ROWS; key++) {
            assert_int_equal(cache_add(&worker->cache, 0, key), key);
        }
    }
    give_plan(cluster);
    for (unsigned w = 0; w < workers; w++) {
        assert_int_equal(client_subscribe(&cluster->workers[w].client, NULL), 0);
    }
    carry(cluster);
    return cluster;
}

static struct cluster *cluster_open(unsigned workers, uint32_t staleness, bool compressed) {
    return cluster_open_with(workers, staleness, compressed, PLAIN);
}

static float *worker_row(const struct worker *worker, uint32_t key) {
    return (float *)(void *)cache_row(&worker->cache.tables[0], key);
}

static float *worker_sum(const struct worker *worker, uint32_t key) {
    return (float *)(void *)cache_sum(&worker->cache.tables[0], key);
}

static const float *worker_base(const struct worker *worker, uint32_t key) {
    return (const float *)(const void *)cache_base(&worker->cache.tables[0], key);
}

/* A clock of a worker: changes some elements of some rows, by numbers that bf16 can't represent. */
static void work(struct cluster *cluster, unsigned w) {
    struct worker *worker = &cluster->workers[w];
    client_begin(&worker->client, worker_actor(w), ++worker->clock);
    for (uint32_t key = 0; key < ROWS; key++) {
        if (chance(cluster, 3) == 0) {
            continue;
        }
        const unsigned shares = cluster->job.tables[0].shares; /* of all elements but the last ones, then of each */
        float *own = (float *)(void *)worker->cache.tables[0].shares.base + (size_t)key * shares;
        for (unsigned s = 0; s < shares; s++) {
            own[s] = key % 3 == 0 ? 0 : ldexpf(1, -(int)chance(cluster, 3));
        }
        float *to = cluster->job.tables[0].apply != NULL ? worker_sum(worker, key) : worker_row(worker, key);
        cluster->updated[worker->clock][key] = true;
        for (unsigned i = 0; i < WIDTH; i++) {
            float delta = (float)chance(cluster, 4001) - 2000;
            unsigned s = i + shares > WIDTH ? i + shares - WIDTH : 0;
            float share = shares > 0 && own[s] != 0 && !worker->client.part.alone ? own[s] : 1;
            to[i] += delta;
            cluster->added[key * WIDTH + i] += (double)(share * delta);
        }
        worker->cache.tables[0].touched.base[key] = 1;
    }
    assert_int_equal(client_gather(&worker->client, 0, NULL), 0);
    client_flush(&worker->client);
}

/* Workers work in random turns until all have done `clock`. */
static void work_until(struct cluster *cluster, uint64_t clock) {
    for (;;) {
        unsigned left = 0;
        for (unsigned w = 0; w < cluster->worker_count; w++) {
            struct worker *worker = &cluster->workers[w];
            left += worker->clock < clock;
            if (worker->clock < clock && chance(cluster, 2) == 0 &&
                client_may_begin(&worker->client, worker->clock + 1)) {
                work(cluster, w);
                carry(cluster);
            }
        }
        if (left == 0) {
            return;
        }
    }
}

/* Checks sums after all flushes have arrived: the server's row plus all unsent parts is the sum of all deltas. Each
 * worker's base is close to the server's row. */
static void check_sums(const struct cluster *cluster) {
    assert_int_equal(cluster->partition->clock, cluster->workers[0].clock);
    for (uint32_t key = 0; key < ROWS; key++) {
        const float *value = (const float *)(const void *)partition_row(cluster->partition, 0, key);
        for (unsigned i = 0; i < WIDTH; i++) {
            double sum = (double)value[i];
            for (unsigned w = 0; w < cluster->worker_count; w++) {
                const struct worker *worker = &cluster->workers[w];
                float unsent = worker_row(worker, key)[i] - worker_base(worker, key)[i];
                assert_true(fabsf(unsent) <= 8); /* 2008 rounded */
                assert_true(fabsf(worker_base(worker, key)[i] - value[i]) <= fabsf(value[i]) / 127);
                sum += (double)unsent;
            }
            assert_true(sum == cluster->added[key * WIDTH + i]);
        }
    }
}

/* check_sums with an optimizer: unsent parts are in the workers' sums, and workers see rows close to the server's.
 * Each row has had one step for each clock that updated it. */
static void check_steps(const struct cluster *cluster, double tolerance) {
    assert_int_equal(cluster->partition->clock, cluster->workers[0].clock);
    for (uint32_t key = 0; key < ROWS; key++) {
        const float *value = (const float *)(const void *)partition_row(cluster->partition, 0, key);
        unsigned steps = 0;
        for (uint64_t clock = 1; clock <= cluster->partition->clock; clock++) {
            steps += cluster->updated[clock][key];
        }
        assert_true(*(const float *)(const void *)partition_row(cluster->partition, 1, key) == (float)steps);
        for (unsigned i = 0; i < WIDTH; i++) {
            double sum = (double)value[i];
            for (unsigned w = 0; w < cluster->worker_count; w++) {
                sum += (double)worker_sum(&cluster->workers[w], key)[i];
                double seen = (double)worker_row(&cluster->workers[w], key)[i];
                assert_true(fabs(seen - (double)value[i]) <= fabs((double)value[i]) * tolerance);
            }
            assert_true(sum == cluster->added[key * WIDTH + i]);
        }
    }
}

/* ---- Tests ---- */

/* Also after restores, which make workers send flushes again. */
TEST(steps_are_right) {
    for (unsigned s = 0; s < 6; s++) {
        bool compressed = s % 2 == 1;
        struct cluster *cluster = cluster_open_with(s < 4 ? WORKERS : 1, s % 3, compressed, STEPS);
        for (uint64_t clock = 4; clock <= 200; clock += 4) {
            work_until(cluster, clock);
            check_steps(cluster, compressed ? 1 / 127.0 : 0);
            cluster->restore = clock - chance(cluster, KEPT_CLOCKS + 1);
            cluster->epoch++;
            for (unsigned w = 0; w < cluster->worker_count; w++) {
                client_fence(&cluster->workers[w].client, cluster->epoch);
            }
            partition_unsubscribe(cluster->partition, NULL, NULL);
            assert_true(partition_restore(cluster->partition, cluster->restore));
            give_plan(cluster);
            carry(cluster);
            check_steps(cluster, compressed ? 1 / 127.0 : 0);
        }
    }
}

TEST(sums_are_right) {
    static const uint32_t staleness[] = {0, 1, 3};
    for (unsigned s = 0; s < 3; s++) {
        struct cluster *cluster = cluster_open(WORKERS, staleness[s], true);
        for (uint64_t clock = 5; clock <= 300; clock += 5) {
            work_until(cluster, clock);
            check_sums(cluster);
        }
    }
}

/* Servers add, and workers see, the part of each change that the row's share says; all of it when nobody else works. */
TEST(shares_of_changes_are_added) {
    for (unsigned s = 0; s < 4; s++) {
        struct cluster *cluster = cluster_open_with(s < 3 ? WORKERS : 1, s % 3, false, SHARES);
        for (uint64_t clock = 5; clock <= 100; clock += 5) {
            work_until(cluster, clock);
            check_sums(cluster);
            for (uint32_t key = 0; key < ROWS; key++) {
                assert_memory_equal(worker_row(&cluster->workers[0], key), partition_row(cluster->partition, 0, key),
                                    WIDTH * sizeof(float));
            }
        }
    }
}

TEST(a_restore_counts_each_rest_once) {
    static const uint32_t staleness[] = {0, 2};
    for (unsigned s = 0; s < 2; s++) {
        struct cluster *cluster = cluster_open(WORKERS, staleness[s], true);
        for (uint64_t clock = 4; clock <= 200; clock += 4) {
            work_until(cluster, clock);
            cluster->restore = clock - chance(cluster, KEPT_CLOCKS + 1);
            cluster->epoch++;
            for (unsigned w = 0; w < WORKERS; w++) {
                client_fence(&cluster->workers[w].client, cluster->epoch);
            }
            partition_unsubscribe(cluster->partition, NULL, NULL);
            assert_true(partition_restore(cluster->partition, cluster->restore));
            give_plan(cluster);
            carry(cluster);
            check_sums(cluster);
        }
    }
}

TEST(messages_are_half_as_large) {
    uint64_t bytes[2];
    for (unsigned compressed = 0; compressed < 2; compressed++) {
        struct cluster *cluster = cluster_open(2, 0, compressed == 1);
        cluster->bytes = 0; /* first rows come uncompressed */
        work_until(cluster, 20);
        check_sums(cluster);
        bytes[compressed] = cluster->bytes;
    }
    assert_true(bytes[0] > 0);
    assert_int_equal(bytes[1] * 2, bytes[0]);
}

/* A worker that was alone from the start gets no pushes: its rows, without what is unsent, are the server's to the
 * bit. */
TEST(a_lone_worker_gets_nothing_back) {
    struct cluster *cluster = cluster_open(1, 1, true);
    uint64_t pushed = cluster->bytes;
    work_until(cluster, 1);
    uint64_t flushed = cluster->bytes - pushed;
    assert_true(flushed > 0 && flushed <= ROWS * WIDTH * 2);
    for (uint64_t clock = 2; clock <= 100; clock++) {
        work_until(cluster, clock);
        check_sums(cluster);
        for (uint32_t key = 0; key < ROWS; key++) {
            assert_memory_equal(worker_base(&cluster->workers[0], key), partition_row(cluster->partition, 0, key),
                                WIDTH * sizeof(float));
        }
    }
}

/* After others have worked, the remaining worker's rows are rounded, so it still gets pushes. */
TEST(a_worker_left_alone_gets_pushes) {
    struct cluster *cluster = cluster_open(2, 0, true);
    work_until(cluster, 10);
    struct wire_assignment assignments[] = {
        {.origin = worker_actor(0), .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER, .count = 1},
        {.origin = worker_actor(1), .from_clock = 1, .until_clock = 10, .count = 1}};
    partition_expect(cluster->partition, assignments, 2);
    cluster->workers[1].client.possible = WIRE_CLOCK_NEVER; /* as the plan without this worker says */
    for (unsigned c = 0; c < 20; c++) {
        work(cluster, 0);
        carry(cluster);
        check_sums(cluster);
    }
    struct subscription *subscription = partition_subscription(cluster->partition, worker_actor(0));
    CLOSED_BY(message_close) struct message push = new_push(cluster, 29, 0);
    partition_changes(cluster->partition, subscription, 29, NULL, NULL, &push);
    assert_int_equal(push.frame_count, 3);
}

/* A lost push is repeated with the same bytes, and all subscribers get these bytes. */
TEST(pushes_can_be_repeated) {
    struct cluster *cluster = cluster_open(WORKERS, 0, true);
    for (uint64_t clock = 1; clock <= 30; clock++) {
        work_until(cluster, clock);
        struct message pushes[WORKERS];
        for (unsigned w = 0; w < WORKERS; w++) {
            struct subscription *subscription = partition_subscription(cluster->partition, worker_actor(w));
            pushes[w] = new_push(cluster, clock - 1, 0);
            partition_changes(cluster->partition, subscription, clock - 1, NULL, NULL, &pushes[w]);
            assert_int_equal(pushes[w].frame_count, 3);
            assert_int_equal(pushes[w].frames[2]->size, pushes[0].frames[2]->size);
            assert_memory_equal(pushes[w].frames[2]->data, pushes[0].frames[2]->data, pushes[0].frames[2]->size);
        }
        const uint64_t *keys = (const void *)pushes[0].frames[1]->data;
        for (size_t r = 0; r < pushes[0].frames[1]->size / sizeof *keys; r++) {
            float values[WIDTH];
            bfloat16_decode(values, (const uint16_t *)(const void *)pushes[0].frames[2]->data + r * WIDTH, WIDTH);
            assert_memory_equal(values, worker_base(&cluster->workers[1], (uint32_t)keys[r]), sizeof values);
        }
        for (unsigned w = 0; w < WORKERS; w++) {
            message_close(&pushes[w]);
        }
    }
}

/* Over many clocks, a row as workers see it is right on average. */
TEST(what_workers_see_is_right_on_average) {
    struct cluster *cluster = cluster_open(2, 0, true);
    float *row = worker_row(&cluster->workers[0], 0);
    double seen = 0, value = 0;
    for (uint64_t clock = 1; clock <= 1000; clock++) {
        for (unsigned w = 0; w < 2; w++) {
            struct worker *worker = &cluster->workers[w];
            client_begin(&worker->client, worker_actor(w), ++worker->clock);
            if (w == 0) {
                row[0] += clock == 1 ? 1.0F + 3.0F / 1024 : 1.0F / (1 << 20);
                worker->cache.tables[0].touched.base[0] = 1;
            }
            assert_int_equal(client_gather(&worker->client, 0, NULL), 0);
            client_flush(&worker->client);
        }
        carry(cluster);
        assert_int_equal(cluster->partition->clock, clock);
        float now;
        memcpy(&now, partition_row(cluster->partition, 0, 0), sizeof now);
        value += (double)now;
        seen += (double)worker_base(&cluster->workers[1], 0)[0];
    }
    assert_true(fabs(seen - value) <= 0.01); /* one rounding; each has an error of up to 0.004 */
}

/* Each worker's changes count by its share: the server's row, and all workers' rows, are the mean. */
TEST(a_mean) {
    for (uint32_t staleness = 0; staleness <= 1; staleness++) {
        struct cluster *cluster = cluster_open(2, staleness, false);
        cluster->job.tables[0].averaged = true;
        cluster->job.clocks = (struct strategy_clocks){.per_iteration = 2, .local_steps = 2};
        cluster->averages = true;
        give_plan(cluster);
        for (unsigned w = 0; w < 2; w++) {
            struct worker *worker = &cluster->workers[w];
            client_begin(&worker->client, worker_actor(w), 1);
            for (unsigned i = 0; i < WIDTH; i++) {
                worker_row(worker, 3)[i] += (float)(w == 0 ? 8 : 16 * (int)i);
            }
            worker->cache.tables[0].touched.base[3] = 1;
            assert_int_equal(client_gather(&worker->client, 0, NULL), 0);
            client_flush(&worker->client);
            /* clock 2 has no work, so it need not wait for the other worker */
            assert_true(client_may_begin(&worker->client, 2));
            assert_false(client_may_begin(&worker->client, 3 + staleness));
        }
        carry(cluster);
        for (unsigned i = 0; i < WIDTH; i++) {
            float mean = (float)(0.25 * 8 + 0.75 * 16 * i);
            assert_true(((const float *)(const void *)partition_row(cluster->partition, 0, 3))[i] == mean);
            assert_true(worker_row(&cluster->workers[0], 3)[i] == mean);
            assert_true(worker_row(&cluster->workers[1], 3)[i] == mean);
        }
    }
}
