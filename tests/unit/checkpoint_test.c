/* A partition's file of a checkpoint: it is read as written to the bit, and any other content is refused. */
#include "agileml/ps/checkpoint.h"
#include "tests/files.h"
#include "tests/test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

enum { PARTITION = 2, PARTITIONS = 5, CLOCK = 90, SPARSE_KEYS = 3000, WIDE = 90000 };
enum { ADDED, PUT, WHOLE, LARGE, STATES /* of WHOLE */, TABLES };

static const char folder[] = ".";
static const char path[] = "./partition-2";

struct fixture {
    struct job job;
    struct partition *partition;
};

static uint64_t random_state = 3;

static uint64_t next_random(void) {
    return hash_mix(random_state++);
}

/* A start value that is not 0, in any type. */
static void start_row(void *context, uint64_t key, void *row) {
    const struct table_spec *spec = context;
    memset(row, (int)(1 + key % 7), spec->row_bytes);
}

static void job_table(struct job *job, unsigned number, const char *name, enum aml_type type, enum aml_mode mode,
                      uint32_t width, uint64_t rows) {
    struct table_spec *spec = &job->tables[number];
    *spec = (struct table_spec){.type = type,
                                .mode = mode,
                                .width = width,
                                .row_bytes = width * (uint32_t)aml_type_size(type),
                                .rows = rows,
                                .start = start_row,
                                .context = spec};
    snprintf(spec->name, sizeof spec->name, "%s", name);
    job->shapes[number] = table_shape(spec);
    job->table_count = number + 1;
}

static struct partition *new_partition(const struct job *job, uint32_t id, uint32_t partitions) {
    struct partition *partition = partition_open(job, id, partitions, NULL);
    assert_non_null(partition);
    return partition;
}

static int setup(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    job_table(&fixture->job, ADDED, "added", AML_FLOAT32, AML_ADD, 10, 50000);
    job_table(&fixture->job, PUT, "put", AML_INT64, AML_PUT, 3, 0);
    job_table(&fixture->job, WHOLE, "whole", AML_INT32, AML_ADD, 1, 0);
    job_table(&fixture->job, LARGE, "large", AML_FLOAT64, AML_ADD, WIDE, 20);
    fixture->job.tables[STATES] = table_state_spec(&fixture->job.tables[WHOLE], 6);
    fixture->job.shapes[STATES] = table_shape(&fixture->job.tables[STATES]);
    fixture->job.tables[WHOLE].state = STATES;
    fixture->job.table_count = TABLES;
    fixture->partition = new_partition(&fixture->job, PARTITION, PARTITIONS);
    *state = fixture;
    return files_open(state);
}

static int teardown(void **state) {
    FREED struct fixture *fixture = *state;
    partition_close(fixture->partition);
    return files_close_one(state);
}

static void change_row(struct table *table, uint64_t key) {
    int64_t slot = table_slot(table, key);
    assert_true(slot >= 0);
    uint64_t *words = (uint64_t *)(void *)table_row(table, (uint32_t)slot);
    for (unsigned i = 0; i < table->spec->row_bytes / sizeof *words; i++) {
        words[i] = next_random();
    }
    table_row(table, (uint32_t)slot)[0] = (unsigned char)next_random();
    table_clocks(table)[slot] = 1 + (uint32_t)(next_random() % CLOCK);
}

/* Changes some rows of every table, and makes some sparse rows without changing them. */
static void fill(struct partition *partition) {
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        struct table *table = &partition->tables[t];
        uint64_t keys = table->spec->rows > 0 ? table->spec->rows : SPARSE_KEYS;
        for (uint64_t number = 0; number < keys; number++) {
            uint64_t key = table->spec->rows > 0 ? number : next_random();
            if (!table_holds(table, key)) {
                continue;
            }
            if (next_random() % 3 > 0) {
                change_row(table, key);
            } else {
                assert_true(table_slot(table, key) >= 0);
            }
        }
    }
}

static void write_checkpoint(struct fixture *fixture) {
    struct message_written written;
    if (checkpoint_write(fixture->partition, CLOCK, folder, &written) != 0) {
        fail_msg("%s", written.text);
    }
}

static void assert_same_rows(const struct table *written, struct table *read) {
    for (uint32_t slot = 0; slot < written->count; slot++) {
        int64_t other = table_slot(read, table_key(written, slot));
        assert_true(other >= 0);
        assert_int_equal(table_clocks(read)[other], table_clocks(written)[slot] > 0 ? CLOCK : 0);
        assert_memory_equal(table_row(read, (uint32_t)other), table_row(written, slot), written->spec->row_bytes);
    }
    assert_int_equal(read->count, written->count);
}

static void assert_read_again(const struct fixture *fixture) {
    struct error error = {0};
    struct partition *read = new_partition(&fixture->job, PARTITION, PARTITIONS);
    if (checkpoint_read(read, folder, CLOCK, &error) != 0) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(read->clock, CLOCK);
    for (unsigned t = 0; t < fixture->job.table_count; t++) {
        assert_same_rows(&fixture->partition->tables[t], &read->tables[t]);
    }
    partition_close(read);
}

/* Reads the whole file into a buffer with room for one more byte; the caller frees it. */
static unsigned char *load(size_t *size) {
    enum { CAPACITY = 1 << 24 };
    unsigned char *bytes = malloc(CAPACITY);
    assert_non_null(bytes);
    *size = read_bytes(path, bytes, CAPACITY);
    return bytes;
}

TEST(round_trip) {
    struct fixture *fixture = *state;
    struct message_written written;
    size_t size;
    fill(fixture->partition);
    assert_int_equal(checkpoint_write(fixture->partition, CLOCK, folder, &written), 0);
    assert_int_equal(written.state, WRITTEN_DONE);
    assert_int_equal(written.partition, PARTITION);
    assert_int_equal(written.clock, CLOCK);
    unsigned char *bytes = load(&size);
    assert_int_equal(written.bytes, size);
    assert_int_equal(written.checksum, crc32_z(0, bytes, size));
    free(bytes);
    assert_read_again(fixture);
    write_checkpoint(fixture); /* replaces the file */
    assert_read_again(fixture);
}

TEST(nothing_changed) {
    struct fixture *fixture = *state;
    write_checkpoint(fixture);
    assert_read_again(fixture);
}

/* Overwrites that are still in their flushes are written too. */
TEST(late_puts) {
    struct fixture *fixture = *state;
    struct partition *partition = fixture->partition;
    const actor_id origin = 1 << ACTOR_PART_BITS;
    struct wire_assignment assignment = {
        .origin = origin, .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER, .count = 1};
    struct wire_directory_entry entry = {.table = PUT, .rows = 1};
    struct rows_view view;
    uint64_t key = 0;
    int64_t values[3] = {7, 8, 9};
    while (!table_holds(&partition->tables[PUT], key)) {
        key++;
    }
    struct message flush = {.type = MESSAGE_FLUSH,
                            .frame_count = 3,
                            .frames = {buffer_copy(&entry, sizeof entry), buffer_copy(&key, sizeof key),
                                       buffer_copy(values, sizeof values)}};
    assert_int_equal(rows_check(&flush, fixture->job.shapes, TABLES, &view, NULL), 1);
    partition_expect(partition, &assignment, 1);
    assert_int_equal(partition_flush(partition, origin, 1, 0, false, &view, 1, NULL), FLUSH_TAKEN);
    message_close(&flush);
    assert_true(partition_advance(partition));
    write_checkpoint(fixture);
    struct partition *read = new_partition(&fixture->job, PARTITION, PARTITIONS);
    assert_int_equal(checkpoint_read(read, folder, CLOCK, NULL), 0);
    assert_int_equal(read->tables[PUT].count, 1);
    assert_memory_equal(table_row(&read->tables[PUT], 0), values, sizeof values);
    partition_close(read);
}

/* ---- Refused files ---- */

/* Reading with this job, partition and clock fails; the error names the file and `reason`. */
static void assert_refused_as(const struct fixture *fixture, const struct job *job, uint32_t id, uint32_t partitions,
                              uint64_t clock, const char *reason) {
    struct error error = {0};
    struct partition *read = new_partition(job, id, partitions);
    assert_int_equal(checkpoint_read(read, folder, clock, &error), AML_EINPUT);
    if (strstr(error.text, "./partition-") == NULL || strstr(error.text, reason) == NULL) {
        fail_msg("\"%s\" does not name \"%s\"", error.text, reason);
    }
    partition_close(read);
}

static void assert_refused(const struct fixture *fixture, const char *reason) {
    assert_refused_as(fixture, &fixture->job, PARTITION, PARTITIONS, CLOCK, reason);
}

/* A job of two small tables, for damage at every byte. */
static void use_small_job(struct fixture *fixture) {
    partition_close(fixture->partition);
    job_table(&fixture->job, 0, "dense", AML_INT32, AML_ADD, 2, 15);
    job_table(&fixture->job, 1, "sparse", AML_INT32, AML_ADD, 2, 0);
    fixture->partition = new_partition(&fixture->job, PARTITION, PARTITIONS);
    for (uint64_t key = 0, found = 0; found < 3; key++) {
        for (unsigned t = 0; t < 2; t++) {
            if (table_holds(&fixture->partition->tables[t], key)) {
                change_row(&fixture->partition->tables[t], key);
                found += t;
            }
        }
    }
    write_checkpoint(fixture);
}

TEST(damage_anywhere) {
    struct fixture *fixture = *state;
    use_small_job(fixture);
    assert_read_again(fixture);
    size_t size;
    unsigned char *bytes = load(&size);
    for (size_t at = 0; at < size; at++) {
        unsigned char flip = (unsigned char)(1 << next_random() % 8);
        bytes[at] ^= flip;
        write_bytes(path, bytes, size);
        assert_refused(fixture, "byte");
        bytes[at] ^= flip;
    }
    for (size_t length = 0; length < size; length++) {
        write_bytes(path, bytes, length);
        assert_refused(fixture, "expected");
    }
    bytes[size] = 0;
    write_bytes(path, bytes, size + 1);
    assert_refused(fixture, "expected");
    write_bytes(path, bytes, size);
    assert_read_again(fixture);
    free(bytes);
}

TEST(other_partitions_and_jobs) {
    struct fixture *fixture = *state;
    use_small_job(fixture);
    assert_refused_as(fixture, &fixture->job, PARTITION, PARTITIONS + 1, CLOCK, "expected number of partitions 6");
    assert_refused_as(fixture, &fixture->job, PARTITION, PARTITIONS, CLOCK + 1, "expected clock 91, found 90");
    assert_refused_as(fixture, &fixture->job, PARTITION, PARTITIONS, 0, "clock");
    assert_refused_as(fixture, &fixture->job, PARTITION + 1, PARTITIONS, CLOCK, "partition-3");
    const struct job written = fixture->job;
    struct job job = written;
    job.table_count = 1;
    assert_refused_as(fixture, &job, PARTITION, PARTITIONS, CLOCK, "expected number of tables 1, found 2");
    job = written;
    job_table(&job, 1, "spare", AML_INT32, AML_ADD, 2, 0);
    assert_refused_as(fixture, &job, PARTITION, PARTITIONS, CLOCK, "expected table \"spare\", found \"sparse\"");
    job_table(&job, 1, "sparse", AML_FLOAT32, AML_ADD, 2, 0);
    assert_refused_as(fixture, &job, PARTITION, PARTITIONS, CLOCK, "element type");
    job_table(&job, 1, "sparse", AML_INT32, AML_PUT, 2, 0);
    assert_refused_as(fixture, &job, PARTITION, PARTITIONS, CLOCK, "aggregation mode");
    job_table(&job, 1, "sparse", AML_INT32, AML_ADD, 3, 0);
    assert_refused_as(fixture, &job, PARTITION, PARTITIONS, CLOCK, "expected row width 3, found 2");
    job_table(&job, 1, "sparse", AML_INT32, AML_ADD, 2, 100);
    assert_refused_as(fixture, &job, PARTITION, PARTITIONS, CLOCK, "expected number of rows 100, found 0");
    char other[64];
    snprintf(other, sizeof other, "%s/partition-%d", folder, PARTITION + 1);
    assert_int_equal(rename(path, other), 0);
    assert_refused(fixture, "can't read");
    assert_refused_as(fixture, &fixture->job, PARTITION + 1, PARTITIONS, CLOCK, "expected partition 3, found 2");
    unlink(other);
}

/* The small file's parts. */
struct parts {
    struct checkpoint_head *head;
    struct checkpoint_table *tables;
    unsigned char *blocks; /* two, of the dense and of the sparse table */
};

static struct parts file_parts(unsigned char *bytes) {
    struct checkpoint_head *head = (struct checkpoint_head *)(void *)bytes;
    struct checkpoint_table *tables = (struct checkpoint_table *)(void *)(head + 1);
    return (struct parts){head, tables, (unsigned char *)(tables + 2)};
}

/* Recomputes all checksums, so that only other checks can find the damage. */
static void mend(struct parts parts, uint32_t dense_rows, uint32_t sparse_rows) {
    const size_t row = sizeof(uint64_t) + 8;
    unsigned char *after = (unsigned char *)&parts.head->partition;
    parts.head->checksum = (uint32_t)crc32_z(0, after, (size_t)(parts.blocks - after));
    uint32_t rows[2] = {dense_rows, sparse_rows};
    for (unsigned t = 0; t < 2; t++) {
        uint32_t checksum =
            (uint32_t)crc32_z(checkpoint_block_seed(parts.head, t + 1), parts.blocks + sizeof checksum, rows[t] * row);
        memcpy(parts.blocks, &checksum, sizeof checksum);
        parts.blocks += sizeof checksum + rows[t] * row;
    }
}

TEST(rows_that_can_not_be) {
    struct fixture *fixture = *state;
    size_t size;
    use_small_job(fixture);
    unsigned char *bytes = load(&size);
    const struct parts parts = file_parts(bytes);
    uint32_t dense = (uint32_t)parts.tables[0].count;
    uint32_t sparse = (uint32_t)parts.tables[1].count;
    mend(parts, dense, sparse);
    write_bytes(path, bytes, size);
    assert_read_again(fixture);

    unsigned char *dense_keys = parts.blocks + sizeof(uint32_t);
    unsigned char *sparse_keys = dense_keys + dense * (sizeof(uint64_t) + 8) + sizeof(uint32_t);
    uint64_t kept;
    const uint64_t wrong[] = {PARTITION + 1, 15 + PARTITION, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memcpy(&kept, dense_keys, sizeof kept);
        memcpy(dense_keys, &wrong[i], sizeof kept);
        mend(parts, dense, sparse);
        write_bytes(path, bytes, size);
        assert_refused(fixture, "not of this partition");
        memcpy(dense_keys, &kept, sizeof kept);
    }
    memcpy(&kept, sparse_keys, sizeof kept);
    memcpy(sparse_keys + sizeof kept, &kept, sizeof kept);
    mend(parts, dense, sparse);
    write_bytes(path, bytes, size);
    assert_refused(fixture, "again");

    parts.tables[0].count = 4; /* a row too many */
    mend(parts, dense, sparse);
    write_bytes(path, bytes, size);
    assert_refused(fixture, "expected at most 3 rows");
    parts.tables[0].count = dense;
    parts.tables[1].count = TABLE_SLOTS_MAX;
    mend(parts, dense, sparse);
    write_bytes(path, bytes, size);
    assert_refused(fixture, "bytes, found");
    free(bytes);
}

/* Intact blocks of equal length are exchanged, or come from another file. */
TEST(blocks_in_other_places) {
    struct fixture *fixture = *state;
    const size_t block = sizeof(uint32_t) + sizeof(uint64_t) + WIDE * sizeof(double);
    static unsigned char kept[sizeof(uint32_t) + sizeof(uint64_t) + WIDE * sizeof(double)];
    size_t size;
    for (uint64_t key = 0; key < 20; key++) {
        if (table_holds(&fixture->partition->tables[LARGE], key)) {
            change_row(&fixture->partition->tables[LARGE], key);
        }
    }
    write_checkpoint(fixture);
    unsigned char *bytes = load(&size);
    unsigned char *first = bytes + size - 4 * block;
    memcpy(kept, first, block);
    memcpy(first, first + block, block);
    memcpy(first + block, kept, block);
    write_bytes(path, bytes, size);
    assert_refused(fixture, "damaged");
    struct message_written written;
    assert_int_equal(checkpoint_write(fixture->partition, CLOCK + 1, folder, &written), 0);
    unsigned char *later = load(&size);
    memcpy(later + size - 4 * block, kept, block);
    write_bytes(path, later, size);
    assert_refused_as(fixture, &fixture->job, PARTITION, PARTITIONS, CLOCK + 1, "damaged");
    free(later);
    free(bytes);
}

/* ---- Failing writes ---- */

TEST(disk_errors) {
    struct fixture *fixture = *state;
    struct message_written written;
    const char *nowhere = "nowhere";
    fill(fixture->partition);
    assert_int_equal(checkpoint_write(fixture->partition, CLOCK, nowhere, &written), AML_EFAIL);
    assert_int_equal(written.state, WRITTEN_FAILED);
    assert_int_equal(written.partition, PARTITION);
    assert_non_null(strstr(written.text, nowhere));
    write_checkpoint(fixture);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {100000, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int code = checkpoint_write(fixture->partition, CLOCK + 1, folder, &written);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(code, AML_EFAIL);
    assert_int_equal(written.state, WRITTEN_FAILED);
    assert_non_null(strstr(written.text, path));
    assert_read_again(fixture); /* the earlier file is unchanged */
}

int main(void) {
    return tests_run_each(setup, teardown);
}
