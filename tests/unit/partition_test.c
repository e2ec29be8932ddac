/* A partition: a clock is applied when every origin has delivered its flush, each flush counts once, and only
 * changed rows are pushed. */
#include "agileml/ps/partition.h"
#include "agileml/ps/steps.h"
#include "agileml/wire/sparse.h"
#include "tests/test.h"

#include <sys/mman.h>

enum { PARTITION = 1, PARTITIONS = 3, WIDTH = 3, ROWS = 20, STALENESS = 2 };

static uint64_t random_state = 7;

static uint64_t next_random(void) {
    return hash_mix(random_state++);
}

/* The `number`th key of the partition under test; keys of sparse tables are found by search. */
static uint64_t key_at(const struct table_spec *spec, unsigned number) {
    uint64_t key = 0;
    for (;; key++) {
        if (table_partition(spec, key, PARTITIONS) == PARTITION && number-- == 0) {
            return key;
        }
    }
}

static uint64_t start_of(uint64_t key) {
    return key * 5 + 3;
}

/* Writes an element of any type as a whole number; get_element reads it. */
static void set_element(enum aml_type type, void *row, unsigned element, int64_t value) {
    switch (type) {
    case AML_FLOAT32:
        ((float *)row)[element] = (float)value;
        break;
    case AML_FLOAT64:
        ((double *)row)[element] = (double)value;
        break;
    case AML_INT32:
        ((int32_t *)row)[element] = (int32_t)value;
        break;
    case AML_INT64:
        ((int64_t *)row)[element] = value;
        break;
    }
}

static int64_t get_element(enum aml_type type, const void *row, unsigned element) {
    switch (type) {
    case AML_FLOAT32:
        return (int64_t)((const float *)row)[element];
    case AML_FLOAT64:
        return (int64_t)((const double *)row)[element];
    case AML_INT32:
        return ((const int32_t *)row)[element];
    default:
        return ((const int64_t *)row)[element];
    }
}

static void start_row(void *context, uint64_t key, void *row) {
    const struct table_spec *spec = context;
    for (unsigned e = 0; e < spec->width; e++) {
        set_element(spec->type, row, e, (int64_t)(start_of(key) + e));
    }
}

static void job_add(struct job *job, enum aml_type type, enum aml_mode mode, uint64_t rows) {
    struct table_spec *spec = &job->tables[job->table_count];
    *spec = (struct table_spec){.name = "t",
                                .type = type,
                                .mode = mode,
                                .width = WIDTH,
                                .row_bytes = WIDTH * (uint32_t)aml_type_size(type),
                                .rows = rows,
                                .start = start_row,
                                .context = spec};
    job->shapes[job->table_count++] = table_shape(spec);
}

/* A message with `count` rows of a table; element e of row r is values[r] + e. */
static struct message rows_message(const struct job *job, enum message_type type, unsigned table, uint32_t count,
                                   const uint64_t *keys, const int64_t *values) {
    struct message message = {.type = type, .frame_count = type == MESSAGE_SUBSCRIBE ? 2 : 3};
    struct wire_directory_entry entry = {.table = table, .rows = count};
    const struct table_spec *spec = &job->tables[table];
    message.frames[0] = buffer_copy(&entry, sizeof entry);
    message.frames[1] = buffer_copy(keys, count * sizeof *keys);
    if (type != MESSAGE_SUBSCRIBE) {
        message.frames[2] = buffer_new((size_t)count * spec->row_bytes);
        for (uint32_t r = 0; r < count; r++) {
            for (unsigned e = 0; e < WIDTH; e++) {
                set_element(spec->type, message.frames[2]->data + (size_t)r * spec->row_bytes, e, values[r] + e);
            }
        }
    }
    return message;
}

static int flush_message(struct partition *partition, actor_id origin, uint64_t clock, struct message *message) {
    struct rows_view views[WIRE_TABLES_MAX];
    struct error error = {0};
    int count = rows_check(message, partition->job->shapes, partition->job->table_count, views, &error);
    assert_true(count >= 0);
    int result = partition_flush(partition, origin, clock, 0, false, views, (unsigned)count, &error);
    assert_int_equal(result < 0 ? result : 0, error.code);
    message_close(message);
    return result;
}

static int flush_row(struct partition *partition, actor_id origin, uint64_t clock, unsigned table, uint64_t key,
                     int64_t value) {
    struct message message = rows_message(partition->job, MESSAGE_FLUSH, table, 1, &key, &value);
    return flush_message(partition, origin, clock, &message);
}

static int flush_nothing(struct partition *partition, actor_id origin, uint64_t clock) {
    struct message message = {.type = MESSAGE_FLUSH};
    return flush_message(partition, origin, clock, &message);
}

/* Delivers piece `piece` of a flush, with one row. */
static int flush_piece(struct partition *partition, actor_id origin, uint64_t clock, uint32_t piece, bool more,
                       uint64_t key, int64_t value) {
    CLOSED_BY(message_close) struct message message = rows_message(partition->job, MESSAGE_FLUSH, 0, 1, &key, &value);
    struct rows_view views[WIRE_TABLES_MAX];
    int count = rows_check(&message, partition->job->shapes, partition->job->table_count, views, NULL);
    assert_int_equal(count, 1);
    int result = partition_flush(partition, origin, clock, piece, more, views, 1, NULL);
    return result;
}

static int64_t row_element(struct partition *partition, unsigned table, uint64_t key, unsigned element) {
    int64_t slot = table_slot(&partition->tables[table], key);
    assert_true(slot >= 0);
    return get_element(partition->job->tables[table].type, partition_row(partition, table, (uint32_t)slot), element);
}

/* Expects one assignment for each origin. */
static void expect(struct partition *partition, const actor_id *origins, unsigned count, uint64_t from,
                   uint64_t until) {
    struct wire_assignment assignments[8];
    assert_true(count <= 8);
    for (unsigned d = 0; d < count; d++) {
        assignments[d] =
            (struct wire_assignment){.origin = origins[d], .from_clock = from, .until_clock = until, .count = 1};
    }
    partition_expect(partition, assignments, count);
}

/* Applies all complete clocks. */
static bool advance(struct partition *partition) {
    bool advanced = false;
    while (partition_advance(partition)) {
        advanced = true;
    }
    return advanced;
}

static struct partition *open_partition(struct job *job, const actor_id *origins, unsigned count) {
    struct error error = {0};
    job->staleness = STALENESS;
    struct partition *partition = partition_open(job, PARTITION, PARTITIONS, &error);
    assert_non_null(partition);
    expect(partition, origins, count, 1, WIRE_CLOCK_NEVER);
    return partition;
}

/* Flushes of several origins arrive in any order, many of them repeated. At each clock, rows are the start values
 * plus all contributions up to that clock. */
static void exactly_once(enum aml_type type, enum aml_mode mode, bool dense) {
    enum { ORIGINS = 4, CLOCKS = 12, KEYS = 8 };
    static const actor_id origins[ORIGINS] = {100, 200, 300, 400};
    struct job job = {0};
    job_add(&job, type, mode, dense ? ROWS * PARTITIONS : 0);
    struct partition *partition = open_partition(&job, origins, ORIGINS);
    int64_t expected[KEYS];
    int64_t values[CLOCKS + 1][ORIGINS][KEYS] = {{{0}}};
    bool touched[CLOCKS + 1][ORIGINS][KEYS] = {{{false}}};
    uint64_t keys[KEYS];
    uint64_t sent[ORIGINS] = {0};
    for (unsigned k = 0; k < KEYS; k++) {
        keys[k] = key_at(&job.tables[0], k);
        expected[k] = (int64_t)start_of(keys[k]);
    }
    for (unsigned c = 1; c <= CLOCKS; c++) {
        for (unsigned o = 0; o < ORIGINS; o++) {
            for (unsigned k = 0; k < KEYS; k++) {
                /* overwritten rows have one writer a clock */
                touched[c][o][k] = mode == AML_PUT ? (c + k) % ORIGINS == o : next_random() % 2 == 0;
                values[c][o][k] = (int64_t)(next_random() % 100) - 50;
            }
        }
    }
    uint64_t clock = 0;
    while (clock < CLOCKS) {
        unsigned o = (unsigned)(next_random() % ORIGINS);
        uint64_t c = next_random() % 3 == 0 && sent[o] > 0 ? 1 + next_random() % sent[o] : sent[o] + 1;
        bool repeat = c <= sent[o];
        if (c > CLOCKS) {
            continue;
        }
        uint64_t some_keys[KEYS];
        int64_t some_values[KEYS];
        uint32_t count = 0;
        for (unsigned k = 0; k < KEYS; k++) {
            if (touched[c][o][k]) {
                some_keys[count] = keys[k];
                some_values[count++] = values[c][o][k];
            }
        }
        struct message message = {.type = MESSAGE_FLUSH};
        if (count > 0) {
            message = rows_message(&job, MESSAGE_FLUSH, 0, count, some_keys, some_values);
        }
        int result = flush_message(partition, origins[o], c, &message);
        assert_int_equal(result, repeat ? FLUSH_REPEATED : FLUSH_TAKEN);
        sent[o] += result == FLUSH_TAKEN ? 1 : 0;
        assert_int_equal(partition_received(partition, origins[o]), sent[o]);
        bool complete = true;
        for (unsigned i = 0; i < ORIGINS; i++) {
            complete = complete && sent[i] > clock;
        }
        assert_int_equal(advance(partition), complete);
        if (!complete) {
            assert_int_equal(partition->clock, clock);
            continue;
        }
        clock++;
        assert_int_equal(partition->clock, clock);
        for (unsigned k = 0; k < KEYS; k++) {
            int64_t sums = 0;
            bool any = false;
            for (unsigned i = 0; i < ORIGINS; i++) {
                sums += touched[clock][i][k] ? values[clock][i][k] : 0;
                any = any || touched[clock][i][k];
            }
            if (mode == AML_PUT && any) {
                expected[k] = sums;
            } else if (mode == AML_ADD) {
                expected[k] += sums;
            }
            for (unsigned e = 0; e < WIDTH; e++) {
                unsigned contributions = 0; /* start value and contributions each add e to element e */
                for (uint64_t past = 1; past <= clock; past++) {
                    for (unsigned i = 0; i < ORIGINS; i++) {
                        contributions += touched[past][i][k] ? 1 : 0;
                    }
                }
                int64_t offset = mode == AML_PUT ? e : (int64_t)((1 + contributions) * e);
                assert_int_equal(row_element(partition, 0, keys[k], e), expected[k] + offset);
            }
        }
    }
    partition_close(partition);
}

TEST(exactly_once) {
    for (unsigned type = AML_FLOAT32; type <= AML_INT64; type++) {
        for (unsigned shape = 0; shape < 4; shape++) {
            exactly_once((enum aml_type)type, shape % 2 == 0 ? AML_ADD : AML_PUT, shape < 2);
        }
    }
}

TEST(whole_numbers_wrap) {
    static const actor_id origins[] = {1 << 16, 2 << 16};
    struct job job = {0};
    job_add(&job, AML_INT32, AML_ADD, ROWS * PARTITIONS);
    struct partition *partition = open_partition(&job, origins, 2);
    uint64_t key = key_at(&job.tables[0], 0);
    assert_int_equal(flush_row(partition, origins[0], 1, 0, key, INT32_MAX - 2), FLUSH_TAKEN);
    assert_int_equal(flush_row(partition, origins[1], 1, 0, key, 100), FLUSH_TAKEN);
    assert_true(advance(partition));
    assert_int_equal(row_element(partition, 0, key, 0),
                     (int32_t)((uint32_t)INT32_MAX - 2 + 100 + (uint32_t)start_of(key)));
    partition_close(partition);
}

/* A flush counts when each of its pieces has arrived once. Other origins' pieces may arrive in between. */
TEST(a_flush_in_pieces) {
    static const actor_id origins[] = {1 << 16, 2 << 16};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_ADD, ROWS * PARTITIONS);
    struct partition *partition = open_partition(&job, origins, 2);
    uint64_t keys[] = {key_at(&job.tables[0], 0), key_at(&job.tables[0], 1), key_at(&job.tables[0], 2)};
    partition_keep(partition, true);
    assert_int_equal(flush_piece(partition, origins[0], 1, 1, true, keys[1], 20), FLUSH_GAP);
    assert_int_equal(flush_piece(partition, origins[0], 1, 0, true, keys[0], 10), FLUSH_TAKEN_PIECE);
    assert_int_equal(flush_piece(partition, origins[0], 1, 0, true, keys[0], 10), FLUSH_REPEATED);
    assert_int_equal(flush_piece(partition, origins[0], 1, 2, false, keys[2], 30), FLUSH_GAP);
    assert_int_equal(partition_pieces(partition, origins[0], 1), 1);
    assert_int_equal(flush_row(partition, origins[1], 1, 0, keys[0], 1), FLUSH_TAKEN);
    assert_false(advance(partition)); /* pieces of the flush are missing */
    assert_int_equal(partition_received(partition, origins[0]), 0);
    assert_int_equal(flush_piece(partition, origins[0], 1, 1, true, keys[1], 20), FLUSH_TAKEN_PIECE);
    assert_false(advance(partition));
    assert_int_equal(flush_piece(partition, origins[0], 2, 0, true, keys[0], 1000), FLUSH_TAKEN_PIECE);
    assert_int_equal(flush_piece(partition, origins[0], 1, 2, false, keys[2], 30), FLUSH_TAKEN);
    assert_int_equal(flush_piece(partition, origins[0], 1, 2, false, keys[2], 30), FLUSH_REPEATED);
    assert_int_equal(flush_piece(partition, origins[0], 1, 1, true, keys[1], 20), FLUSH_REPEATED);
    assert_int_equal(partition_received(partition, origins[0]), 1);
    assert_int_equal(partition_pieces(partition, origins[0], 1), 0);
    assert_int_equal(partition_pieces(partition, origins[0], 2), 1);
    assert_true(advance(partition));
    static const int64_t added[] = {11, 20, 30};
    for (unsigned k = 0; k < 3; k++) {
        assert_int_equal(row_element(partition, 0, keys[k], 0), (int64_t)start_of(keys[k]) + added[k]);
    }
    /* A sum of both origins would count the piece twice. */
    uint64_t sum = 5;
    struct message message = rows_message(&job, MESSAGE_FLUSH, 0, 1, keys, (const int64_t *)&sum);
    struct rows_view view;
    assert_int_equal(rows_check(&message, job.shapes, 1, &view, NULL), 1);
    assert_int_equal(partition_flush_sum(partition, origins, 2, 2, &view, 1, NULL), FLUSH_OVERLAPS);
    message_close(&message);
    /* A recovery drops the pieces that have arrived; origins send all pieces again. */
    assert_true(partition_restore(partition, 1));
    assert_int_equal(partition_pieces(partition, origins[0], 2), 0);
    assert_int_equal(flush_piece(partition, origins[0], 2, 1, false, keys[1], 7), FLUSH_GAP);
    assert_int_equal(flush_piece(partition, origins[0], 2, 0, true, keys[0], 100), FLUSH_TAKEN_PIECE);
    assert_int_equal(flush_nothing(partition, origins[1], 2), FLUSH_TAKEN);
    assert_int_equal(flush_piece(partition, origins[0], 2, 1, false, keys[1], 7), FLUSH_TAKEN);
    assert_true(advance(partition));
    assert_int_equal(row_element(partition, 0, keys[0], 0), (int64_t)start_of(keys[0]) + 111);
    assert_int_equal(row_element(partition, 0, keys[1], 0), (int64_t)start_of(keys[1]) + 27);
    partition_close(partition);
}

TEST(strangers_and_the_window) {
    static const actor_id origins[] = {1 << 16, 2 << 16};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_ADD, 0);
    struct partition *partition = open_partition(&job, origins, 2);
    uint64_t key = key_at(&job.tables[0], 0);
    assert_int_equal(flush_row(partition, 3 << 16, 1, 0, key, 1), FLUSH_UNEXPECTED);
    assert_int_equal(flush_row(partition, origins[0], 0, 0, key, 1), FLUSH_UNEXPECTED);
    assert_int_equal(flush_row(partition, origins[0], partition_ahead(&job) + 1, 0, key, 1), FLUSH_UNEXPECTED);
    assert_int_equal(flush_row(partition, origins[0], 1 + STALENESS, 0, key, 1), FLUSH_TAKEN);
    assert_int_equal(partition_received(partition, origins[0]), 0); /* clocks 1 and 2 are missing */
    assert_int_equal(flush_row(partition, origins[0], 2, 0, key, 1), FLUSH_TAKEN);
    assert_int_equal(partition_received(partition, origins[0]), 0);
    assert_int_equal(flush_row(partition, origins[0], 1, 0, key, 1), FLUSH_TAKEN);
    assert_int_equal(partition_received(partition, origins[0]), 3);
    assert_false(partition_advance(partition));
    assert_int_equal(row_element(partition, 0, key, 0), start_of(key)); /* a flush has no effect before its clock */
    for (uint64_t c = 1; c <= 2; c++) {
        assert_int_equal(flush_nothing(partition, origins[1], c), FLUSH_TAKEN);
    }
    assert_true(advance(partition));
    assert_int_equal(partition->clock, 2);
    assert_int_equal(row_element(partition, 0, key, 0), start_of(key) + 2);
    assert_int_equal(flush_row(partition, origins[0], 1, 0, key, 1), FLUSH_REPEATED);
    assert_int_equal(partition_received(partition, 3 << 16), partition->clock);
    partition_close(partition);
}

TEST(a_refused_flush_changes_nothing) {
    static const actor_id origins[] = {1 << 16};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_ADD, ROWS * PARTITIONS);
    job_add(&job, AML_INT64, AML_ADD, 0);
    struct partition *partition = open_partition(&job, origins, 1);
    uint64_t key = key_at(&job.tables[0], 0);
    uint64_t elsewhere = key + 1; /* a key of the next partition */
    uint64_t beyond = key_at(&job.tables[0], ROWS);
    static const int64_t values[] = {1, 1};
    const uint64_t first_good[] = {key, elsewhere};
    struct message message = rows_message(&job, MESSAGE_FLUSH, 0, 2, first_good, values);
    assert_int_equal(flush_message(partition, origins[0], 1, &message), AML_EPROTOCOL);
    assert_int_equal(flush_row(partition, origins[0], 1, 0, beyond, 1), AML_EPROTOCOL);
    uint64_t sparse = 0;
    while (table_partition(&job.tables[1], sparse, PARTITIONS) == PARTITION) {
        sparse++;
    }
    assert_int_equal(flush_row(partition, origins[0], 1, 1, sparse, 1), AML_EPROTOCOL);
    assert_int_equal(partition_received(partition, origins[0]), 0);
    assert_false(partition_advance(partition));
    assert_int_equal(flush_row(partition, origins[0], 1, 0, key, 5), FLUSH_TAKEN);
    assert_true(advance(partition));
    assert_int_equal(row_element(partition, 0, key, 0), start_of(key) + 5);
    partition_close(partition);
}

TEST(a_key_named_twice_counts_twice) {
    static const actor_id origins[] = {1 << 16, 2 << 16};
    static const int64_t values[] = {1, 10};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_ADD, ROWS * PARTITIONS);
    struct partition *partition = open_partition(&job, origins, 2);
    uint64_t key = key_at(&job.tables[0], 3);
    const uint64_t keys[] = {key, key};
    for (unsigned o = 0; o < 2; o++) { /* a single contribution is kept as received, a second is summed */
        struct message message = rows_message(&job, MESSAGE_FLUSH, 0, 2, keys, values);
        assert_int_equal(flush_message(partition, origins[o], 1, &message), FLUSH_TAKEN);
    }
    assert_true(partition_advance(partition));
    assert_int_equal(row_element(partition, 0, key, 0), start_of(key) + 22);
    partition_close(partition);
}

TEST(expected_origins_change) {
    enum { ONE = 1 << 16, TWO = 2 << 16, THREE = 3 << 16 };
    static const actor_id before[] = {ONE, TWO};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_ADD, 0);
    struct partition *partition = open_partition(&job, before, 2);
    uint64_t key = key_at(&job.tables[0], 0);
    assert_int_equal(flush_row(partition, THREE, 3, 0, key, 1), FLUSH_UNEXPECTED);
    assert_int_equal(flush_row(partition, TWO, 1, 0, key, 1), FLUSH_TAKEN);
    assert_int_equal(flush_row(partition, TWO, 2, 0, key, 1), FLUSH_TAKEN);
    const struct wire_assignment assignments[] = {
        {.origin = ONE, .from_clock = 1, .until_clock = 2, .count = 1},
        {.origin = TWO, .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER, .count = 1},
        {.origin = TWO, .from_clock = 3, .until_clock = WIRE_CLOCK_NEVER, .count = 1},
        {.origin = THREE, .from_clock = 3, .until_clock = 4, .count = 1},
        {.origin = THREE, .from_clock = 6, .until_clock = WIRE_CLOCK_NEVER, .count = 1},
        {.origin = 4 << 16, .from_clock = WIRE_CLOCK_NEVER, .until_clock = WIRE_CLOCK_NEVER, .count = 1},
    };
    partition_expect(partition, assignments, sizeof assignments / sizeof assignments[0]);
    assert_int_equal(partition_received(partition, TWO), 2); /* flushes that have arrived are kept */
    assert_int_equal(partition_received(partition, THREE), 2);
    assert_int_equal(flush_row(partition, TWO, 2, 0, key, 1), FLUSH_REPEATED);
    assert_int_equal(flush_row(partition, THREE, 2, 0, key, 1), FLUSH_UNEXPECTED);
    assert_int_equal(flush_row(partition, 4 << 16, 3, 0, key, 1), FLUSH_UNEXPECTED);
    assert_int_equal(flush_row(partition, ONE, 3, 0, key, 1), FLUSH_UNEXPECTED);
    static const struct {
        actor_id origin;
        uint64_t clock, after; /* the partition's clock after this flush */
    } flushes[] = {{THREE, 3, 0}, {ONE, 1, 1}, {ONE, 2, 2}, {TWO, 4, 2},  {TWO, 3, 3},
                   {THREE, 4, 4}, {TWO, 5, 5}, {TWO, 6, 5}, {THREE, 6, 6}};
    for (unsigned f = 0; f < sizeof flushes / sizeof flushes[0]; f++) {
        assert_int_equal(flush_row(partition, flushes[f].origin, flushes[f].clock, 0, key, 1), FLUSH_TAKEN);
        advance(partition);
        assert_int_equal(partition->clock, flushes[f].after);
    }
    assert_int_equal(row_element(partition, 0, key, 0), start_of(key) + 11);
    partition_close(partition);
}

/* Nodes come and go for the life of a replica: origins that are gone are forgotten, when they are many. What waits of
 * an origin counts all the same, and rows that a forgotten origin has put are sent to who gets its index. */
TEST(origins_that_are_gone_are_forgotten) {
    enum { NODES = 2000, OLD = 1 << 16 };
    static const actor_id old[] = {OLD};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_PUT, ROWS * PARTITIONS);
    struct partition *partition = open_partition(&job, old, 1);
    uint64_t keys[] = {key_at(&job.tables[0], 0), key_at(&job.tables[0], 1)};
    assert_int_equal(flush_row(partition, OLD, 1, 0, keys[0], 5), FLUSH_TAKEN);
    assert_true(advance(partition));
    unsigned most = 0;
    for (unsigned n = 1; n <= NODES; n++) {
        const actor_id now[] = {OLD + ((actor_id)n << ACTOR_PART_BITS), UINT64_C(7) << 40};
        uint64_t clock = n + 1;
        expect(partition, now, 2, clock, WIRE_CLOCK_NEVER);
        assert_int_equal(flush_row(partition, now[0], clock, 0, keys[0], n), FLUSH_TAKEN);
        expect(partition, now, 2, clock, WIRE_CLOCK_NEVER); /* a plan while its flush waits */
        assert_int_equal(partition_received(partition, now[0]), clock);
        assert_int_equal(flush_row(partition, now[1], clock, 0, keys[1], n), FLUSH_TAKEN);
        assert_true(advance(partition));
        assert_int_equal(row_element(partition, 0, keys[0], 0), n);
        most = partition->origin_count > most ? partition->origin_count : most;
    }
    assert_int_equal(most, PARTITION_ORIGINS_GONE_MAX + 2);
    assert_int_equal(flush_row(partition, OLD, NODES + 2, 0, keys[0], 1), FLUSH_UNEXPECTED);
    partition_close(partition);
}

TEST(who_gets_the_index_of_a_gone_origin_gets_its_rows) {
    enum { OLD = 1 << 16, OTHER = 2 << 16 };
    static const actor_id old[] = {OLD};
    static const actor_id both[] = {OTHER, OLD};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_PUT, ROWS * PARTITIONS);
    struct partition *partition = open_partition(&job, old, 1);
    uint64_t key = key_at(&job.tables[0], 0);
    assert_int_equal(flush_row(partition, OLD, 1, 0, key, 5), FLUSH_TAKEN);
    assert_true(advance(partition));
    for (unsigned n = 0; n <= PARTITION_ORIGINS_GONE_MAX; n++) {
        const actor_id now[] = {OTHER + ((actor_id)n << ACTOR_PART_BITS)};
        expect(partition, now, 1, 2, WIRE_CLOCK_NEVER);
    }
    assert_int_equal(partition->origin_count, 1);
    expect(partition, both, 2, 2, WIRE_CLOCK_NEVER);
    for (unsigned o = 0; o < 2; o++) {
        struct error error = {0};
        struct rows_view views[WIRE_TABLES_MAX];
        CLOSED_BY(message_close) struct message push = {.type = MESSAGE_PUSH};
        CLOSED_BY(message_close) struct message wanted = rows_message(&job, MESSAGE_SUBSCRIBE, 0, 1, &key, NULL);
        assert_int_equal(rows_check(&wanted, job.shapes, 1, views, &error), 1);
        assert_int_equal(partition_subscribe(partition, both[o], 1, false, views, 1, &error), 0);
        partition_changes(partition, partition_subscription(partition, both[o]), 0, NULL, NULL, &push);
        assert_int_equal(rows_check(&push, job.shapes, 1, views, &error), 1);
        assert_int_equal(views[0].count, 1);
    }
    partition_close(partition);
}

/* ---- Subscriptions ---- */

static void subscribe_to(struct partition *partition, actor_id subscriber, uint64_t request, bool only, unsigned table,
                         const uint64_t *keys, uint32_t count) {
    struct rows_view views[WIRE_TABLES_MAX];
    struct error error = {0};
    CLOSED_BY(message_close)
    struct message message = rows_message(partition->job, MESSAGE_SUBSCRIBE, table, count, keys, NULL);
    assert_int_equal(rows_check(&message, partition->job->shapes, partition->job->table_count, views, &error), 1);
    assert_int_equal(partition_subscribe(partition, subscriber, request, only, views, 1, &error), 0);
}

static void subscribe(struct partition *partition, actor_id subscriber, uint64_t request, unsigned table,
                      const uint64_t *keys, uint32_t count) {
    subscribe_to(partition, subscriber, request, false, table, keys, count);
}

/* Returns the number of rows that changed for `subscriber` since `from_clock`. `key` and `value` get the first row
 * of the last table. */
static uint32_t changes(struct partition *partition, actor_id subscriber, uint64_t from_clock, uint64_t *key,
                        int64_t *value) {
    CLOSED_BY(message_close) struct message push = {.type = MESSAGE_PUSH};
    struct rows_view views[WIRE_TABLES_MAX];
    uint32_t rows = 0;
    partition_changes(partition, partition_subscription(partition, subscriber), from_clock, NULL, NULL, &push);
    int count = rows_check(&push, partition->job->shapes, partition->job->table_count, views, NULL);
    assert_true(count >= 0);
    for (int v = 0; v < count; v++) {
        *key = views[v].keys[0];
        *value = get_element(partition->job->tables[views[v].table].type, views[v].values, 0);
        rows += views[v].count;
    }
    return rows;
}

TEST(rows_that_are_not_wanted_any_more_are_not_pushed) {
    static const actor_id origins[] = {1 << 16, 2 << 16};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_ADD, ROWS * PARTITIONS);
    job_add(&job, AML_FLOAT64, AML_PUT, 0);
    struct partition *partition = open_partition(&job, origins, 2);
    uint64_t key;
    int64_t value;
    const uint64_t dense[] = {key_at(&job.tables[0], 0), key_at(&job.tables[0], 1), key_at(&job.tables[0], 2)};
    const uint64_t sparse[] = {key_at(&job.tables[1], 0)};
    subscribe(partition, origins[0], 1, 0, dense, 3);
    subscribe(partition, origins[0], 2, 1, sparse, 1);
    assert_int_equal(flush_row(partition, origins[0], 1, 0, dense[0], 4), FLUSH_TAKEN);
    assert_int_equal(flush_row(partition, origins[1], 1, 1, sparse[0], 9), FLUSH_TAKEN);
    assert_true(advance(partition));
    assert_int_equal(changes(partition, origins[0], 0, &key, &value), 2);
    subscribe_to(partition, origins[0], 3, true, 0, dense + 1, 2);
    /* no rows of a table that the request does not name either */
    assert_int_equal(changes(partition, origins[0], 0, &key, &value), 0);
    subscribe(partition, origins[0], 2, 1, sparse, 1); /* a late, older request */
    assert_int_equal(changes(partition, origins[0], 0, &key, &value), 0);
    subscribe(partition, origins[0], 4, 0, dense, 1);
    assert_int_equal(changes(partition, origins[0], 0, &key, &value), 1);
    assert_int_equal(key, dense[0]);
    assert_int_equal(partition_subscribe(partition, origins[0], 5, true, NULL, 0, NULL), 0); /* subscribes to no row */
    assert_int_equal(partition_subscription(partition, origins[0])->lists[0].count, 0);
    partition_close(partition);
}

/* A subscription that repeats its rows again and again takes no more memory than twice the table's rows. */
TEST(repeated_rows_of_a_subscription_are_forgotten) {
    static const actor_id origins[] = {1 << 16, 2 << 16};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_ADD, ROWS * PARTITIONS);
    struct partition *partition = open_partition(&job, origins, 2);
    uint64_t keys[] = {key_at(&job.tables[0], 0), key_at(&job.tables[0], 2), key_at(&job.tables[0], 1)};
    for (uint64_t request = 1; request <= 1000; request++) {
        subscribe(partition, origins[0], request, 0, keys, 3);
        assert_true(partition_subscription(partition, origins[0])->lists[0].count <= PARTITION_REPEATS_MAX * ROWS);
    }
    assert_int_equal(flush_row(partition, origins[0], 1, 0, keys[1], 4), FLUSH_TAKEN);
    assert_int_equal(flush_row(partition, origins[1], 1, 0, keys[0], 9), FLUSH_TAKEN);
    advance(partition);
    uint64_t key;
    int64_t value;
    while (partition_subscription(partition, origins[0])->lists[0].count > 3) { /* until the repeats are dropped */
        subscribe(partition, origins[0], partition_subscription(partition, origins[0])->request + 1, 0, keys, 1);
    }
    assert_int_equal(changes(partition, origins[0], 0, &key, &value), 2);
    partition_close(partition);
}

TEST(only_subscribed_changes_are_pushed) {
    static const actor_id origins[] = {1 << 16, 2 << 16};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_ADD, ROWS * PARTITIONS);
    job_add(&job, AML_FLOAT64, AML_PUT, 0);
    struct partition *partition = open_partition(&job, origins, 2);
    uint64_t key;
    int64_t value;
    const uint64_t dense[] = {key_at(&job.tables[0], 0), key_at(&job.tables[0], 1)};
    const uint64_t sparse[] = {key_at(&job.tables[1], 0), key_at(&job.tables[1], 1)};
    subscribe(partition, origins[0], 1, 0, dense, 1);
    subscribe(partition, origins[0], 2, 1, sparse, 2);
    subscribe(partition, origins[0], 2, 1, sparse, 2); /* a repeat */
    subscribe(partition, origins[1], 1, 0, dense, 2);
    assert_int_equal(changes(partition, origins[0], 0, &key, &value), 0);

    assert_int_equal(flush_row(partition, origins[0], 1, 0, dense[1], 4), FLUSH_TAKEN);
    assert_int_equal(flush_row(partition, origins[1], 1, 1, sparse[1], 9), FLUSH_TAKEN);
    assert_true(advance(partition));
    /* sparse[1], which the other worker overwrote */
    assert_int_equal(changes(partition, origins[0], 0, &key, &value), 1);
    assert_int_equal(key, sparse[1]);
    assert_int_equal(value, 9);
    assert_int_equal(changes(partition, origins[1], 0, &key, &value), 1);
    assert_int_equal(key, dense[1]);
    assert_int_equal(value, start_of(dense[1]) + 4);
    assert_int_equal(changes(partition, origins[1], 1, &key, &value), 0);

    /* A worker's own overwritten rows are not pushed back to it. */
    assert_int_equal(flush_row(partition, origins[0], 2, 1, sparse[0], 7), FLUSH_TAKEN);
    assert_int_equal(flush_nothing(partition, origins[1], 2), FLUSH_TAKEN);
    assert_true(advance(partition));
    assert_int_equal(changes(partition, origins[0], 1, &key, &value), 0);
    assert_int_equal(changes(partition, origins[0], 0, &key, &value), 1);
    partition_close(partition);
}

TEST(equal_subscriptions_share_frames) {
    static const actor_id origins[] = {1 << 16, 2 << 16};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_ADD, ROWS * PARTITIONS);
    job_add(&job, AML_INT64, AML_ADD, 0);
    struct partition *partition = open_partition(&job, origins, 2);
    const uint64_t dense[] = {key_at(&job.tables[0], 0), key_at(&job.tables[0], 1)};
    const uint64_t sparse[] = {key_at(&job.tables[1], 0)};
    subscribe(partition, origins[0], 1, 0, dense, 2);
    subscribe(partition, origins[0], 2, 1, sparse, 1);
    subscribe(partition, origins[1], 1, 0, dense, 2);
    subscribe(partition, origins[1], 2, 1, sparse, 1);
    assert_int_equal(flush_row(partition, origins[0], 1, 0, dense[1], 4), FLUSH_TAKEN);
    assert_int_equal(flush_nothing(partition, origins[1], 1), FLUSH_TAKEN);
    assert_true(advance(partition));
    CLOSED_BY(message_close) struct message one = {.type = MESSAGE_PUSH};
    CLOSED_BY(message_close) struct message two = {.type = MESSAGE_PUSH};
    const struct subscription *first = partition_subscription(partition, origins[0]);
    partition_changes(partition, first, 0, NULL, NULL, &one);
    partition_changes(partition, partition_subscription(partition, origins[1]), 0, first, &one, &two);
    assert_int_equal(one.frame_count, 3);
    assert_int_equal(two.frame_count, 3);
    assert_ptr_equal(one.frames[2], two.frames[2]);
    assert_memory_equal(one.frames[0]->data, two.frames[0]->data, one.frames[0]->size);
    partition_close(partition);
}

TEST(scan_sees_every_row_once) {
    static const actor_id origins[] = {1 << 16};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_ADD, ROWS * PARTITIONS);
    job_add(&job, AML_INT64, AML_ADD, 0);
    struct partition *partition = open_partition(&job, origins, 1);
    static const uint32_t rows[] = {ROWS, 0};
    for (unsigned t = 0; t < 2; t++) {
        uint64_t cursor = 0;
        uint32_t seen = 0;
        do {
            CLOSED_BY(message_close) struct message message = {.type = MESSAGE_ROWS};
            struct rows_view views[WIRE_TABLES_MAX];
            cursor = partition_scan(partition, t, cursor, 3 * (size_t)job.tables[t].row_bytes, &message);
            int count = rows_check(&message, job.shapes, job.table_count, views, NULL);
            assert_int_equal(count, rows[t] > 0 ? 1 : 0);
            for (uint32_t i = 0; count > 0 && i < views[0].count; i++) {
                assert_int_equal(views[0].table, t);
                assert_int_equal(views[0].keys[i], key_at(&job.tables[t], seen++));
            }
        } while (cursor != 0);
        assert_int_equal(seen, rows[t]);
    }
    struct message message = {.type = MESSAGE_ROWS}; /* an impossible cursor */
    assert_int_equal(partition_scan(partition, 0, UINT64_MAX, 100, &message), 0);
    assert_int_equal(message.frame_count, 0);
    partition_close(partition);
}

/* Overwrites changing subsets of rows, with repetitions, and sometimes reads: every row has its last value. */
static void check_puts(struct arena_files *files) {
    enum { KEYS = 12, CLOCKS = 4 * PARTITION_LATE_MAX };
    static const actor_id origins[1] = {100};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_PUT, 0);
    job.tables[0].files = files;
    struct partition *partition = open_partition(&job, origins, 1);
    uint64_t keys[KEYS];
    int64_t expected[KEYS];
    uint64_t random = 7;
    for (unsigned k = 0; k < KEYS; k++) {
        keys[k] = key_at(&job.tables[0], k);
        expected[k] = (int64_t)start_of(keys[k]);
        assert_true(table_slot(&partition->tables[0], keys[k]) >= 0);
    }
    unsigned most_late = 0;
    for (unsigned c = 1; c <= CLOCKS; c++) {
        uint64_t some[KEYS];
        int64_t values[KEYS];
        uint32_t count = 0;
        random = hash_mix(random);
        for (unsigned k = 0; k < KEYS; k++) {
            if ((random >> k & 1) != 0 || c % 3 == 0) {
                some[count] = keys[k];
                values[count++] = expected[k] = (int64_t)(c * 100 + k);
            }
        }
        struct message flush = rows_message(&job, MESSAGE_FLUSH, 0, count, some, values);
        if (count == 0) {
            message_close(&flush);
        }
        assert_int_equal(flush_message(partition, origins[0], c, &flush), FLUSH_TAKEN);
        assert_true(partition_advance(partition));
        most_late = partition->late[0].count > most_late ? partition->late[0].count : most_late;
        assert_true(partition->late[0].rows <= KEYS);
        for (unsigned k = 0; k < KEYS; k++) {
            assert_int_equal(row_element(partition, 0, keys[k], 0), expected[k]);
        }
        if (random >> 60 == 0) {
            struct message rows = {.type = MESSAGE_ROWS};
            assert_int_equal(partition_scan(partition, 0, 0, 1 << 20, &rows), 0);
            for (unsigned k = 0; k < KEYS; k++) {
                assert_true(((const uint64_t *)(const void *)rows.frames[1]->data)[k] == keys[k]);
                assert_int_equal(((const int64_t *)(const void *)rows.frames[2]->data)[k * WIDTH], expected[k]);
            }
            message_close(&rows);
            assert_int_equal(partition->late[0].count, 0);
        }
    }
    assert_true(files != NULL ? most_late == 0 : most_late >= 2);
    partition_close(partition);
}

static int open_arena_file(void *context) {
    return memfd_create("rows", MFD_CLOEXEC);
}

TEST(puts_settle_in_order) {
    check_puts(NULL);
}

/* Rows in a file, for lack of memory, do not keep their overwritten values in memory either. */
TEST(puts_to_rows_in_a_file_settle_at_once) {
    struct arena_files files = {.open = open_arena_file};
    check_puts(&files);
    assert_true(files.used == 0 && files.bytes == 0);
}

/* ---- Restoring and following ---- */

enum { TABLES = 8, KEYS = 10, ORIGINS = 2, COUNTS = 4 /* the table of sparse rows of WIDE elements */, WIDE = 24 };
/* The tables with optimizers: Adam on floats, and the test's own optimizer on whole numbers, whose deltas come as
 * WIRE_SPARSE. STATES is the table of Adam's states. */
enum { STEPPED = 5, STEPPED_COUNTS = 6, STATES = 7 };
static const actor_id pair[ORIGINS] = {1 << 16, 2 << 16};

static const struct aml_adam adam = {.rate = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};

/* A step without a state, whose result depends on the order of steps. */
static void step_counts(const struct aml_step *step, const void *parameters) {
    assert_ptr_equal(parameters, &adam);
    assert_true(step->state == NULL && step->state_width == 0 && step->width == WIDE);
    for (unsigned e = 0; e < step->width; e++) {
        uint64_t *value = (uint64_t *)step->row + e;
        *value = 3 * *value + ((const uint64_t *)step->sum)[e] + step->key + step->clock;
    }
}

/* step_counts for many rows. */
static int steps_counts(const struct aml_steps *steps, const void *parameters) {
    for (size_t i = 0; i < steps->count; i++) {
        const struct aml_step step = {.key = steps->keys[i],
                                      .clock = steps->clock,
                                      .type = steps->type,
                                      .width = steps->width,
                                      .row = (int64_t *)steps->rows + i * steps->width,
                                      .sum = (const int64_t *)steps->sums + i * steps->width};
        assert_true(steps->states == NULL && steps->state_width == 0);
        step_counts(&step, parameters);
    }
    return 0;
}

/* Tables of whole numbers and floats, to add to and to overwrite, dense and sparse. One table's deltas come as
 * WIRE_SPARSE, and two tables have optimizers. */
static struct job mixed_job(void) {
    static struct job job;
    job = (struct job){.staleness = STALENESS};
    job_add(&job, AML_INT64, AML_ADD, ROWS * PARTITIONS);
    job_add(&job, AML_FLOAT32, AML_ADD, 0);
    job_add(&job, AML_FLOAT64, AML_PUT, ROWS * PARTITIONS);
    job_add(&job, AML_FLOAT32, AML_PUT, 0);
    job_add(&job, AML_INT64, AML_ADD, ROWS * PARTITIONS);
    job.tables[COUNTS].width = WIDE;
    job.tables[COUNTS].row_bytes = WIDE * sizeof(int64_t);
    job.tables[COUNTS].sparse = true;
    job.shapes[COUNTS] = table_shape(&job.tables[COUNTS]);
    job_add(&job, AML_FLOAT32, AML_ADD, 0);
    job.tables[STEPPED].apply = aml_apply_adam;
    job.tables[STEPPED].parameters = &adam;
    job.tables[STEPPED].state = STATES;
    job_add(&job, AML_INT64, AML_ADD, 0);
    job.tables[STEPPED_COUNTS].width = WIDE;
    job.tables[STEPPED_COUNTS].row_bytes = WIDE * sizeof(int64_t);
    job.tables[STEPPED_COUNTS].sparse = true;
    job.tables[STEPPED_COUNTS].apply_rows = steps_counts;
    job.tables[STEPPED_COUNTS].parameters = &adam;
    job.shapes[STEPPED_COUNTS] = table_shape(&job.tables[STEPPED_COUNTS]);
    job.tables[STATES] = table_state_spec(&job.tables[STEPPED], aml_adam_state(WIDTH));
    job.shapes[STATES] = table_shape(&job.tables[STATES]);
    job.table_count = TABLES;
    return job;
}

/* The bytes of all rows at a clock. */
struct image {
    unsigned char rows[TABLES][KEYS][WIDE * 8];
};

static struct image image_of(struct partition *partition) {
    struct image image;
    memset(&image, 0, sizeof image);
    for (unsigned t = 0; t < TABLES; t++) {
        for (unsigned k = 0; k < KEYS; k++) {
            int64_t slot = table_slot(&partition->tables[t], key_at(&partition->job->tables[t], k));
            assert_true(slot >= 0);
            memcpy(image.rows[t][k], partition_row(partition, t, (uint32_t)slot), partition->job->tables[t].row_bytes);
        }
    }
    return image;
}

static void assert_image(struct partition *partition, const struct image *image) {
    struct image now = image_of(partition);
    assert_memory_equal(&now, image, sizeof now);
}

/* Appends an origin's sparse rows of a clock, with a few changed elements or, at times, all. In most clocks only one
 * origin has any, so the partition keeps its deltas as received. Returns whether there are any. */
static bool add_sparse(struct message *message, const struct job *job, unsigned table, unsigned origin, uint64_t clock,
                       uint64_t salt, struct wire_directory_entry *entry) {
    const struct table_spec *spec = &job->tables[table];
    uint64_t keys[KEYS];
    struct buffer *values = buffer_new(KEYS * sparse_most(WIDE, sizeof(int64_t)));
    uint32_t count = 0;
    values->size = 0;
    for (unsigned k = 0; k < KEYS && (clock % 4 == 0 || clock % ORIGINS == origin); k++) {
        uint64_t random = hash_mix(hash_mix(clock * 100 + k) + salt + origin);
        int64_t row[WIDE] = {0};
        int64_t before[WIDE] = {0};
        unsigned changes = clock % 7 == 0 ? WIDE : (unsigned)(random % 4);
        for (unsigned c = 0; c < changes; c++) {
            row[changes == WIDE ? c : hash_mix(random + c) % WIDE] = (int64_t)(hash_mix(random ^ c) % 2001) - 1000;
        }
        if (k % 2 == 0 || changes > 0) {
            keys[count++] = key_at(spec, k);
            values->size += sparse_delta(sizeof(int64_t), values->data + values->size, row, before, WIDE, false);
        }
    }
    if (count == 0) {
        buffer_drop(values);
        return false;
    }
    *entry = (struct wire_directory_entry){.table = table, .rows = count, .encoding = WIRE_SPARSE};
    message->frames[message->frame_count++] = buffer_copy(keys, count * sizeof keys[0]);
    message->frames[message->frame_count++] = values;
    return true;
}

/* An origin's flush of a clock, the same for the same clock, origin and `salt`. It has some rows of every table,
 * with floats that round; rows to overwrite are divided between the origins. */
static int flush_some(struct partition *partition, unsigned origin, uint64_t clock, uint64_t salt) {
    struct message message = {.type = MESSAGE_FLUSH, .frame_count = 1};
    struct wire_directory_entry directory[TABLES];
    unsigned tables = 0;
    for (unsigned t = 0; t <= STEPPED; t++) {
        const struct table_spec *spec = &partition->job->tables[t];
        uint64_t keys[KEYS];
        unsigned char values[KEYS * WIDTH * 8];
        uint32_t count = 0;
        for (unsigned k = 0; k < KEYS && t != COUNTS; k++) {
            uint64_t random = hash_mix(hash_mix(clock * 100 + t * 10 + k) + salt);
            if (spec->mode == AML_PUT ? (k + clock / 3) % ORIGINS != origin || random % 5 == 0
                                      : (random >> origin) % 2 == 0) {
                continue;
            }
            keys[count] = key_at(spec, k);
            for (unsigned e = 0; e < WIDTH; e++) {
                unsigned char *element = values + (count * WIDTH + e) * aml_type_size(spec->type);
                int64_t whole = (int64_t)(hash_mix(random + origin * 7 + e) % 1000003) - 500000;
                set_element(spec->type, element, 0, whole);
                if (spec->type == AML_FLOAT32) {
                    *(float *)(void *)element /= 777.0F;
                } else if (spec->type == AML_FLOAT64) {
                    *(double *)(void *)element /= 777.0;
                }
            }
            count++;
        }
        if (count > 0) {
            directory[tables++] = (struct wire_directory_entry){.table = t, .rows = count};
            message.frames[message.frame_count++] = buffer_copy(keys, count * sizeof keys[0]);
            message.frames[message.frame_count++] = buffer_copy(values, (size_t)count * spec->row_bytes);
        }
    }
    tables += add_sparse(&message, partition->job, COUNTS, origin, clock, salt, &directory[tables]) ? 1 : 0;
    tables += add_sparse(&message, partition->job, STEPPED_COUNTS, origin, clock, salt + 1, &directory[tables]) ? 1 : 0;
    assert_true(tables > 0);
    message.frames[0] = buffer_copy(directory, tables * sizeof directory[0]);
    return flush_message(partition, pair[origin], clock, &message);
}

static void one_clock(struct partition *partition, uint64_t salt) {
    uint64_t clock = partition->clock + 1;
    for (unsigned o = 0; o < ORIGINS; o++) {
        assert_int_equal(flush_some(partition, o, clock, salt), FLUSH_TAKEN);
    }
    assert_true(partition_advance(partition));
    assert_int_equal(partition->clock, clock);
}

static void commit(struct partition *partition, uint64_t committed) {
    struct error error = {0};
    assert_int_equal(partition_commit(partition, committed, &error), 0);
}

static void assert_restore_points(const struct partition *partition, const uint64_t *expected, unsigned count) {
    FREED uint64_t *clocks;
    assert_int_equal(partition_restore_points(partition, &clocks), count);
    assert_memory_equal(clocks, expected, count * sizeof *expected);
}

/* Restores each possible commit point from different clocks, with or without reads between, which settle overwritten
 * rows. All rows are restored to the bit, and later clocks are unaffected. */
TEST(goes_back_to_the_bit) {
    enum { EVERY = 3, CLOCKS = 14, COMMITTED = 3 };
    for (unsigned reads = 0; reads < 3; reads++) {
        for (uint64_t to = COMMITTED; to <= CLOCKS; to += EVERY) {
            struct job job = mixed_job();
            struct partition *partition = open_partition(&job, pair, ORIGINS);
            struct image images[CLOCKS + 1];
            partition_keep(partition, true);
            for (uint64_t c = 1; c <= CLOCKS; c++) {
                one_clock(partition, 0);
                images[c] = image_of(partition);
                for (unsigned t = 0; t < TABLES && reads > 0 && c % reads == 0; t++) {
                    partition_settle(partition, t);
                }
                if (c % EVERY == 0) {
                    partition_point(partition);
                }
                if (c == 7) {
                    commit(partition, COMMITTED);
                }
            }
            assert_restore_points(partition, (const uint64_t[]){3, 6, 9, 12, 14}, 5);
            assert_false(partition_restore(partition, 2));
            assert_false(partition_restore(partition, 7));
            assert_image(partition, &images[CLOCKS]);
            assert_int_equal(flush_some(partition, 0, CLOCKS + 1, 0),
                             FLUSH_TAKEN); /* a flush of a clock that is to be undone */
            assert_true(partition_restore(partition, to));
            assert_int_equal(partition->clock, to);
            assert_image(partition, &images[to]);
            assert_int_equal(partition_received(partition, pair[0]), to);
            assert_true(partition_restore(partition, COMMITTED)); /* a restore to an earlier point */
            assert_image(partition, &images[COMMITTED]);
            assert_int_equal(flush_some(partition, 1, COMMITTED + 1, 9), FLUSH_TAKEN);
            assert_int_equal(flush_some(partition, 0, COMMITTED + 1, 9), FLUSH_TAKEN);
            assert_true(partition_advance(partition)); /* a different clock, also undone */
            assert_true(partition_restore(partition, COMMITTED));
            for (uint64_t c = COMMITTED + 1; c <= CLOCKS; c++) {
                one_clock(partition, 0);
                assert_image(partition, &images[c]);
            }
            partition_close(partition);
        }
    }
}

/* Checks that a push to the subscriber has `count` rows of the sparse table, as they are now. */
static void check_sparse_push(struct partition *partition, actor_id subscriber, uint64_t from_clock, uint32_t count) {
    CLOSED_BY(message_close) struct message push = {.type = MESSAGE_PUSH};
    struct table *table = &partition->tables[COUNTS];
    struct rows_view view;
    partition_changes(partition, partition_subscription(partition, subscriber), from_clock, NULL, NULL, &push);
    assert_true(rows_find(&push, COUNTS, &view) && view.count == count);
    const unsigned char *value = view.values;
    for (uint32_t r = 0; r < count; r++) {
        int64_t row[WIDE];
        value += sparse_copy(sizeof(int64_t), row, value, WIDE);
        assert_memory_equal(row, table_row(table, (uint32_t)table_slot(table, view.keys[r])), sizeof row);
    }
    assert_ptr_equal(value, view.value_frame->data + view.value_frame->size);
}

/* Subscribers of other rows get the present ones, also in a clock that is done again. */
TEST(sparse_rows_for_several_subscribers) {
    struct job job = mixed_job();
    struct partition *partition = open_partition(&job, pair, ORIGINS);
    uint64_t keys[KEYS];
    for (unsigned k = 0; k < KEYS; k++) {
        keys[k] = key_at(&job.tables[COUNTS], k);
    }
    partition_keep(partition, true);
    subscribe(partition, pair[0], 1, COUNTS, keys, 4);
    subscribe(partition, pair[1], 1, COUNTS, keys + 2, KEYS - 2);
    subscribe(partition, 3 << 16, 1, COUNTS, keys, KEYS);
    one_clock(partition, 0);
    partition_point(partition);
    for (uint64_t salt = 1; salt <= 2; salt++) {
        for (unsigned c = 0; c < 6; c++) { /* all rows change in clocks 4 and 7 */
            one_clock(partition, salt);
        }
        check_sparse_push(partition, pair[0], 3, 4);
        check_sparse_push(partition, pair[1], 3, KEYS - 2);
        check_sparse_push(partition, 3 << 16, 3, KEYS);
        assert_true(partition_restore(partition, 1));
    }
    partition_close(partition);
}

TEST(nothing_is_kept_unless_asked) {
    struct job job = mixed_job();
    struct partition *partition = open_partition(&job, pair, ORIGINS);
    for (unsigned c = 0; c < 4; c++) {
        one_clock(partition, 0);
        partition_point(partition);
    }
    assert_int_equal(partition->point_count, 0);
    assert_restore_points(partition, (const uint64_t[]){4}, 1);
    assert_false(partition_restore(partition, 3));
    assert_true(partition_restore(partition, 4));
    partition_close(partition);
}

/* Restore points before the committed clock are dropped, so memory stays bounded. */
TEST(commit_forgets) {
    struct job job = mixed_job();
    struct partition *partition = open_partition(&job, pair, ORIGINS);
    partition_keep(partition, true);
    for (uint64_t c = 1; c <= 200; c++) {
        one_clock(partition, 0);
        partition_point(partition);
        assert_true(partition->point_count <= 4);
        assert_true(partition->late[2].rows <= 4 * (uint64_t)partition->tables[2].count);
        commit(partition, c > 2 ? c - 2 : 0);
        assert_int_equal(partition->points[0].clock, c > 2 ? c - 2 : 0);
    }
    partition_close(partition);
}

TEST(after_going_back_all_is_pushed) {
    static const actor_id origins[] = {1 << 16};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_PUT, ROWS * PARTITIONS);
    job_add(&job, AML_INT64, AML_ADD, 0);
    struct partition *partition = open_partition(&job, origins, 1);
    partition_keep(partition, true);
    uint64_t key = key_at(&job.tables[0], 0);
    uint64_t sparse = key_at(&job.tables[1], 0);
    int64_t value;
    subscribe(partition, origins[0], 1, 0, &key, 1);
    subscribe(partition, origins[0], 2, 1, &sparse, 1);
    assert_int_equal(flush_row(partition, origins[0], 1, 0, key, 1), FLUSH_TAKEN);
    assert_true(advance(partition));
    assert_int_equal(flush_row(partition, origins[0], 2, 1, sparse, 1), FLUSH_TAKEN);
    assert_true(advance(partition));
    partition_point(partition);
    assert_int_equal(flush_row(partition, origins[0], 3, 0, key, 5), FLUSH_TAKEN);
    assert_int_equal(flush_row(partition, origins[0], 4, 1, sparse, 6), FLUSH_TAKEN);
    assert_true(advance(partition));
    assert_int_equal(changes(partition, origins[0], 0, &key, &value), 0); /* the only worker knows its changes */
    assert_true(partition_restore(partition, 2));
    assert_int_equal(changes(partition, origins[0], 1, &key, &value), 2);
    assert_int_equal(changes(partition, origins[0], 2, &key, &value), 0);
    partition_close(partition);
}

static void update_of(struct partition *server, uint64_t from_clock, struct message *update) {
    struct error error = {0};
    *update = (struct message){.type = MESSAGE_UPDATE};
    update->update.from_clock = from_clock;
    update->update.clock = server->clock;
    assert_int_equal(partition_changed(server, from_clock, update, &error), 0);
}

static void hold(struct partition *follower, struct message *update) {
    struct error error = {0};
    assert_int_equal(partition_hold(follower, update, &error), 0);
    message_close(update);
}

/* Copies in small pieces while the server goes on; an update with the changes since the begin completes the copy. */
static void copy_in_pieces(struct partition *server, struct partition *follower) {
    struct error error = {0};
    uint64_t begun = server->clock;
    uint64_t cursor = 0;
    unsigned pieces = 0;
    do {
        struct message piece = {.type = MESSAGE_UPDATE};
        piece.update.piece = 1;
        piece.update.clock = server->clock;
        cursor = partition_piece(server, cursor, 2 * (size_t)server->job->tables[0].row_bytes, &piece);
        assert_int_equal(partition_fill(follower, &piece, &error), 0);
        message_close(&piece);
        one_clock(server, 0);
        assert_true(++pieces < 100);
    } while (cursor != 0);
    assert_true(pieces > TABLES && follower->tables[STATES].count > 0);
    struct message update;
    update_of(server, begun, &update);
    assert_int_equal(partition_fill(follower, &update, &error), 0);
    message_close(&update);
    assert_int_equal(follower->clock, server->clock);
    struct image image = image_of(server);
    assert_image(follower, &image);
}

static struct partition *open_follower(struct job *job) {
    struct error error = {0};
    struct partition *follower = partition_open(job, PARTITION, PARTITIONS, &error);
    assert_non_null(follower);
    return follower;
}

TEST(a_follower_copies_holds_and_takes_over) {
    enum { EVERY = 2 };
    struct job job = mixed_job();
    struct partition *server = open_partition(&job, pair, ORIGINS);
    struct partition *follower = open_follower(&job);
    partition_keep(server, true);
    for (unsigned c = 0; c < 5; c++) {
        one_clock(server, 0);
    }
    copy_in_pieces(server, follower);
    struct image images[64];
    uint64_t base = server->clock;
    images[base] = image_of(server);
    for (unsigned u = 0; u < 4; u++) {
        uint64_t from = server->clock;
        for (unsigned c = 0; c < EVERY; c++) {
            one_clock(server, 0);
            images[server->clock] = image_of(server);
        }
        struct message update;
        update_of(server, from, &update);
        partition_point(server);
        hold(follower, &update);
        assert_int_equal(partition_reached(follower), server->clock);
        assert_image(follower, &images[base]); /* nothing is applied before it is committed */
    }
    assert_restore_points(follower, (const uint64_t[]){base, base + 2, base + 4, base + 6, base + 8}, 5);
    commit(follower, base + 3);
    assert_int_equal(follower->clock, base + 2);
    assert_image(follower, &images[base + 2]);
    /* The follower drops later updates and is at an earlier point. It then serves, and can still restore uncommitted
     * points. */
    assert_true(partition_restore(follower, base + 6));
    assert_int_equal(partition_reached(follower), base + 6);
    partition_expect(follower, NULL, 0);
    expect(follower, pair, ORIGINS, base + 7, WIRE_CLOCK_NEVER);
    assert_int_equal(flush_some(follower, 0, base + 8, 0), FLUSH_TAKEN); /* early flushes wait */
    assert_int_equal(flush_some(follower, 1, base + 7, 0), FLUSH_TAKEN);
    assert_int_equal(flush_some(follower, 0, base + 6, 0), FLUSH_UNEXPECTED);
    assert_false(partition_advance(follower));
    assert_image(follower, &images[base + 2]);
    partition_keep(follower, true);
    while (follower->held_count > 0) {
        struct error error = {0};
        assert_int_equal(partition_apply(follower, &error), 0);
    }
    assert_int_equal(follower->clock, base + 6);
    assert_image(follower, &images[base + 6]);
    assert_int_equal(flush_some(follower, 0, base + 7, 0), FLUSH_TAKEN);
    assert_true(partition_advance(follower));
    assert_int_equal(flush_some(follower, 1, base + 8, 0), FLUSH_TAKEN);
    assert_true(partition_advance(follower));
    assert_false(partition_advance(follower));
    assert_restore_points(follower, (const uint64_t[]){base + 2, base + 4, base + 6, base + 8}, 4);
    for (uint64_t to = base + 6; to >= base + 2; to -= 2) {
        assert_true(partition_restore(follower, to));
        assert_image(follower, &images[to]);
    }
    partition_close(follower);
    partition_close(server);
}

/* Updates of overwritten rows are the same while the values are still in flushes and after they are settled. */
TEST(updates_of_puts_say_what_rows_are) {
    struct job job = mixed_job();
    for (unsigned settles = 0; settles < 2; settles++) {
        struct partition *server = open_partition(&job, pair, ORIGINS);
        struct partition *follower = open_follower(&job);
        unsigned straight = 0; /* updates built from flushes */
        partition_keep(server, true);
        for (uint64_t c = 1; c <= 20; c++) {
            one_clock(server, 0);
            if (settles > 0 && c % 4 == 1) {
                partition_settle(server, 2);
            }
            if (c % 4 == 0) {
                unsigned late = server->late[2].count;
                bool unsettled = server->late[2].settled <= c - 4;
                struct message update;
                update_of(server, c - 4, &update);
                assert_int_equal(server->late[2].count, unsettled ? late : 0);
                straight += unsettled;
                partition_point(server);
                hold(follower, &update);
                commit(follower, c);
                commit(server, c - 4);
                struct image image = image_of(server);
                assert_image(follower, &image);
            }
        }
        assert_int_equal(straight > 0, settles == 0);
        partition_close(follower);
        partition_close(server);
    }
}

TEST(an_update_with_foreign_rows_is_refused) {
    struct job job = mixed_job();
    struct partition *follower = open_follower(&job);
    struct error error = {0};
    uint64_t key = key_at(&job.tables[0], 0) + 1;
    int64_t value = 1;
    CLOSED_BY(message_close) struct message update = rows_message(&job, MESSAGE_UPDATE, 0, 1, &key, &value);
    update.update.clock = 1;
    assert_int_equal(partition_hold(follower, &update, &error), AML_EPROTOCOL);
    assert_int_equal(partition_reached(follower), 0);
    assert_int_equal(partition_fill(follower, &update, &error), AML_EPROTOCOL);
    partition_close(follower);
}

TEST(a_copy_is_its_own) {
    struct job job = mixed_job();
    struct error error = {0};
    struct partition *partition = open_partition(&job, pair, ORIGINS);
    partition_keep(partition, true);
    one_clock(partition, 0);
    one_clock(partition, 0);
    struct image image = image_of(partition);
    struct partition *copy = partition_copy(partition, &error);
    assert_non_null(copy);
    one_clock(partition, 0);
    assert_int_equal(copy->clock, 2);
    assert_image(copy, &image);
    assert_true(partition_restore(partition, 0));
    assert_image(copy, &image);
    partition_close(partition);
    partition_close(copy);
}

TEST(only_what_is_not_known_is_answered) {
    static const actor_id origins[] = {1 << 16};
    struct job job = {0};
    job_add(&job, AML_INT64, AML_ADD, ROWS * PARTITIONS);
    struct partition *partition = open_partition(&job, origins, 1);
    const uint64_t keys[] = {key_at(&job.tables[0], 0), key_at(&job.tables[0], 1), key_at(&job.tables[0], 2)};
    for (unsigned k = 0; k < 2; k++) {
        assert_int_equal(flush_row(partition, origins[0], k + 1, 0, keys[k], 1), FLUSH_TAKEN);
        assert_true(advance(partition));
    }
    static const uint32_t rows[] = {3, 1, 0};
    CLOSED_BY(message_close) struct message named = rows_message(&job, MESSAGE_SUBSCRIBE, 0, 3, keys, NULL);
    for (uint64_t known = 0; known < 3; known++) {
        struct rows_view views[WIRE_TABLES_MAX];
        struct error error = {0};
        CLOSED_BY(message_close) struct message push = {.type = MESSAGE_PUSH};
        assert_int_equal(rows_check(&named, job.shapes, 1, views, &error), 1);
        assert_int_equal(partition_rows(partition, views, 1, known, &push, &error), 0);
        int count = rows_check(&push, job.shapes, 1, views, &error);
        assert_int_equal(count, rows[known] > 0);
        assert_int_equal(count > 0 ? views[0].count : 0, rows[known]);
    }
    partition_close(partition);
}

static bool is_second(void *context, actor_id subscriber) {
    return subscriber == pair[1];
}

TEST(subscriptions_can_be_dropped) {
    struct job job = {0};
    job_add(&job, AML_INT64, AML_ADD, ROWS * PARTITIONS);
    struct partition *partition = open_partition(&job, pair, ORIGINS);
    uint64_t key = key_at(&job.tables[0], 0);
    for (unsigned o = 0; o < ORIGINS; o++) {
        subscribe(partition, pair[o], 1, 0, &key, 1);
    }
    partition_unsubscribe(partition, is_second, NULL);
    assert_null(partition_subscription(partition, pair[0]));
    assert_int_equal(partition_subscription(partition, pair[1])->lists[0].count, 1);
    subscribe(partition, pair[0], 1, 0, &key, 1);
    assert_int_equal(partition->subscription_count, 2);
    partition_unsubscribe(partition, NULL, NULL);
    assert_null(partition_subscription(partition, pair[1]));
    partition_close(partition);
}

/* ---- Optimizers ---- */

/* Counts its calls in the state, and records the last call's key and clock. */
static void step_noted(const struct aml_step *step, const void *parameters) {
    int64_t *row = step->row;
    int64_t *note = step->state;
    assert_int_equal(step->width, WIDTH);
    assert_int_equal(step->state_width, 2);
    for (unsigned e = 0; e < WIDTH; e++) {
        row[e] = 10 * row[e] + ((const int64_t *)step->sum)[e];
    }
    note[0]++;
    note[1] = (int64_t)(step->key * 1000 + step->clock);
}

/* step_noted for many rows. */
static int steps_noted(const struct aml_steps *steps, const void *parameters) {
    assert_true(steps->count > 0);
    for (size_t i = 0; i < steps->count; i++) {
        const struct aml_step step = {.key = steps->keys[i],
                                      .clock = steps->clock,
                                      .type = steps->type,
                                      .width = steps->width,
                                      .state_width = steps->state_width,
                                      .row = (int64_t *)steps->rows + i * steps->width,
                                      .state = (int64_t *)steps->states + i * steps->state_width,
                                      .sum = (const int64_t *)steps->sums + i * steps->width};
        step_noted(&step, parameters);
    }
    if (steps->clock == 13) {
        snprintf(steps->error, steps->error_bytes, "an unlucky clock");
        return AML_EINPUT;
    }
    return 0;
}

static struct job noted_job(uint64_t rows, bool many) {
    static struct job job;
    job = (struct job){.staleness = STALENESS};
    job_add(&job, AML_INT64, AML_ADD, rows);
    job.tables[0].apply = many ? NULL : step_noted;
    job.tables[0].apply_rows = many ? steps_noted : NULL;
    job.tables[0].start = NULL;
    job.tables[0].state = 1;
    job.tables[1] = table_state_spec(&job.tables[0], 2);
    job.shapes[1] = table_shape(&job.tables[1]);
    job.table_count = 2;
    return job;
}

static void assert_noted(struct partition *partition, uint64_t key, int64_t first_element, int64_t calls,
                         uint64_t clock) {
    const int64_t *note =
        (const void *)table_row(&partition->tables[1], (uint32_t)table_slot(&partition->tables[1], key));
    assert_int_equal(row_element(partition, 0, key, 0), first_element);
    assert_int_equal(note[0], calls);
    assert_int_equal(note[1], calls == 0 ? 0 : key * 1000 + clock);
}

/* Each clock makes one call for each updated row, with the sum of all origins. */
TEST(a_sum_is_applied_once) {
    static const actor_id origins[] = {1 << 16, 2 << 16};
    for (unsigned kind = 0; kind < 4; kind++) {
        struct job job = noted_job(kind % 2 * ROWS * PARTITIONS, kind / 2 != 0);
        struct partition *partition = open_partition(&job, origins, 2);
        uint64_t one = key_at(&job.tables[0], 0);
        uint64_t two = key_at(&job.tables[0], 1);
        uint64_t never = key_at(&job.tables[0], 2);
        assert_int_equal(flush_row(partition, origins[0], 1, 0, one, 3), FLUSH_TAKEN);
        assert_int_equal(flush_row(partition, origins[0], 2, 0, two, 7), FLUSH_TAKEN);
        assert_int_equal(flush_row(partition, origins[1], 1, 0, one, 4), FLUSH_TAKEN);
        assert_true(partition_advance(partition));
        assert_noted(partition, one, 7, 1, 1);
        assert_noted(partition, two, 0, 0, 0);
        assert_int_equal(flush_nothing(partition, origins[1], 2), FLUSH_TAKEN);
        assert_int_equal(flush_nothing(partition, origins[1], 2), FLUSH_REPEATED);
        assert_true(partition_advance(partition));
        assert_noted(partition, one, 7, 1, 1);
        assert_noted(partition, two, 7, 1, 2);
        assert_int_equal(flush_row(partition, origins[1], 3, 0, one, 0), FLUSH_TAKEN); /* an update by 0 counts */
        assert_int_equal(flush_nothing(partition, origins[0], 3), FLUSH_TAKEN);
        assert_true(partition_advance(partition));
        assert_noted(partition, one, 70, 2, 3);
        assert_noted(partition, never, 0, 0, 0);
        partition_close(partition);
    }
}

/* Many rows are stepped once each, in the order and portions in which they are added. */
TEST(many_rows_at_once) {
    enum { MANY = 3 * STEPS_ROWS_MAX };
    struct job job = noted_job(MANY, true);
    struct table table;
    CLOSED_BY(table_close) struct table states;
    struct error error = {0};
    assert_int_equal(table_open(&table, &job.tables[0], 0, 1, &error), 0);
    assert_int_equal(table_open(&states, &job.tables[1], 0, 1, &error), 0);
    table_pair(&table, &states);
    int64_t(*sums)[WIDTH] = memory_zeroed(MANY, sizeof *sums);
    const struct steps_place place = steps_of_table(&table);
    struct steps steps;
    steps_open(&steps, &place, 5, MANY - 7, &error);
    for (uint32_t slot = 7, run; slot < MANY; slot += run) { /* no step for rows 0 to 6 */
        run = 1 + (uint32_t)(hash_mix(slot) % (STEPS_ROWS_MAX / 2 * 3));
        run = run < MANY - slot ? run : MANY - slot;
        for (uint32_t i = 0; i < run; i++) {
            sums[i][0] = slot + i;
        }
        steps_add(&steps, slot, run, (const unsigned char *)sums, sizeof *sums);
    }
    steps_close(&steps);
    for (uint32_t slot = 0; slot < MANY; slot++) {
        const int64_t *row = (const void *)table_row(&table, slot);
        const int64_t *note = (const void *)table_row(&states, slot);
        assert_int_equal(row[0], slot < 7 ? 0 : slot);
        assert_int_equal(note[0], slot < 7 ? 0 : 1);
        assert_int_equal(note[1], slot < 7 ? 0 : (int64_t)table_key(&table, slot) * 1000 + 5);
    }
    assert_int_equal(error.code, 0);
    steps_open(&steps, &place, 13, 1, &error);
    steps_add(&steps, 0, 1, (const unsigned char *)sums, sizeof *sums);
    steps_close(&steps);
    assert_int_equal(error.code, AML_EINPUT);
    assert_string_equal(error.text, "table t: apply_rows: an unlucky clock");
    free(sums);
    table_close(&table);
}

/* With an optimizer, a lone worker does not know the result of its updates, so it gets pushes. */
TEST(a_lone_worker_gets_rows_with_apply) {
    static const actor_id origins[] = {1 << 16};
    struct job job = noted_job(0, false);
    struct partition *partition = open_partition(&job, origins, 1);
    uint64_t key = key_at(&job.tables[0], 0);
    int64_t value;
    subscribe(partition, origins[0], 1, 0, &key, 1);
    assert_int_equal(flush_row(partition, origins[0], 1, 0, key, 5), FLUSH_TAKEN);
    assert_true(partition_advance(partition));
    assert_int_equal(changes(partition, origins[0], 0, &key, &value), 1);
    assert_int_equal(value, 5);
    partition_close(partition);
}

TEST(what_one_worker_knows_others_are_pushed) {
    static const actor_id origins[] = {1 << 16, 2 << 16};
    struct job job = noted_job(0, false);
    job_add(&job, AML_INT64, AML_ADD, 0); /* a plain table after the states, which is allowed */
    struct partition *partition = open_partition(&job, origins, 1);
    uint64_t keys[2] = {key_at(&job.tables[0], 0), key_at(&job.tables[2], 0)};
    for (unsigned o = 0; o < 2; o++) {
        subscribe(partition, origins[o], 1, 0, &keys[0], 1);
        subscribe(partition, origins[o], 2, 2, &keys[1], 1);
    }
    struct message flush = rows_message(&job, MESSAGE_FLUSH, 0, 1, &keys[0], (const int64_t[]){5});
    struct message plain = rows_message(&job, MESSAGE_FLUSH, 2, 1, &keys[1], (const int64_t[]){6});
    const struct wire_directory_entry both[] = {{.table = 0, .rows = 1}, {.table = 2, .rows = 1}};
    buffer_drop(flush.frames[0]);
    flush.frames[0] = buffer_copy(both, sizeof both);
    flush.frames[3] = buffer_hold(plain.frames[1]);
    flush.frames[4] = buffer_hold(plain.frames[2]);
    flush.frame_count = 5;
    message_close(&plain);
    assert_int_equal(flush_message(partition, origins[0], 1, &flush), FLUSH_TAKEN);
    assert_true(partition_advance(partition));
    struct message pushes[2] = {{.type = MESSAGE_PUSH}, {.type = MESSAGE_PUSH}};
    const struct subscription *first = partition_subscription(partition, origins[0]);
    partition_changes(partition, first, 0, NULL, NULL, &pushes[0]);
    partition_changes(partition, partition_subscription(partition, origins[1]), 0, first, &pushes[0], &pushes[1]);
    assert_int_equal(pushes[0].frame_count, 3);
    assert_int_equal(pushes[1].frame_count, 5);
    message_close(&pushes[0]);
    message_close(&pushes[1]);
    partition_close(partition);
}

/* Optimizers' states are only for followers: other messages may neither contain nor request them. */
TEST(states_are_in_updates_alone) {
    static const enum message_type types[] = {MESSAGE_FLUSH, MESSAGE_PUSH, MESSAGE_SUBSCRIBE, MESSAGE_ROWS,
                                              MESSAGE_UPDATE};
    struct job job = noted_job(0, false);
    job.tables[1].width = WIDTH; /* the width of rows_message's rows */
    job.tables[1].row_bytes = job.tables[0].row_bytes;
    job.shapes[1] = table_shape(&job.tables[1]);
    for (unsigned i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct rows_view views[WIRE_TABLES_MAX];
        struct error error = {0};
        int64_t value = 1;
        uint64_t key = key_at(&job.tables[1], 0);
        CLOSED_BY(message_close) struct message message = rows_message(&job, types[i], 1, 1, &key, &value);
        assert_int_equal(rows_check(&message, job.shapes, job.table_count, views, &error),
                         types[i] == MESSAGE_UPDATE ? 1 : AML_EPROTOCOL);
    }
}
