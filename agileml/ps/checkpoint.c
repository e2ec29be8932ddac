/* Writes and reads a partition's file of a checkpoint. See checkpoint.h. */
#include "agileml/ps/checkpoint.h"

#include "agileml/base/new_file.h"
#include "agileml/cloud/storage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* The beginning of the file: the head and the tables' descriptions. */
struct checkpoint_front {
    struct checkpoint_head head;
    struct checkpoint_table tables[WIRE_TABLES_MAX];
};

static size_t front_size(unsigned table_count) {
    return sizeof(struct checkpoint_head) + table_count * sizeof(struct checkpoint_table);
}

static uint32_t front_checksum(const struct checkpoint_front *front) {
    size_t skipped = offsetof(struct checkpoint_head, partition);
    return (uint32_t)crc32_z(0, (const unsigned char *)front + skipped, front_size(front->head.table_count) - skipped);
}

static void checkpoint_path(char path[NEW_FILE_PATH_MAX], const char *directory, uint32_t partition) {
    snprintf(path, NEW_FILE_PATH_MAX, "%s/partition-%u", directory, partition);
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Fills in everything except the checksum and the tables' counts of rows. */
static void front_describe(struct checkpoint_front *front, const struct partition *partition, uint64_t clock) {
    const struct job *job = partition->job;
    memset(front, 0, sizeof *front);
    memcpy(front->head.magic, CHECKPOINT_MAGIC, sizeof front->head.magic);
    front->head.version = CHECKPOINT_VERSION;
    front->head.partition = partition->id;
    front->head.partitions = job->table_count > 0 ? partition->tables[0].partitions : 1;
    front->head.clock = clock;
    front->head.table_count = job->table_count;
    for (unsigned t = 0; t < job->table_count; t++) {
        const struct table_spec *spec = &job->tables[t];
        struct checkpoint_table *table = &front->tables[t];
        snprintf(table->name, sizeof table->name, "%s", spec->name);
        table->type = spec->type;
        table->mode = spec->mode;
        table->width = spec->width;
        table->rows = spec->rows;
    }
}

/* ---- Writing ---- */

struct checkpoint_writer {
    struct storage_file *file;
    const struct checkpoint_head *head;
    unsigned char *block;
    uint32_t blocks;   /* so far */
    uint64_t bytes;    /* of the file so far */
    uint32_t checksum; /* of the file so far */
};

static int writer_put(struct checkpoint_writer *writer, const void *bytes, size_t size, struct error *error) {
    writer->checksum = (uint32_t)crc32_z(writer->checksum, bytes, size);
    writer->bytes += size;
    return storage_write(writer->file, bytes, size, error);
}

/* Writes the checksum of the block's first `size` bytes, then these bytes. */
static int writer_put_block(struct checkpoint_writer *writer, size_t size, struct error *error) {
    uint32_t checksum = (uint32_t)crc32_z(checkpoint_block_seed(writer->head, ++writer->blocks), writer->block, size);
    int code = writer_put(writer, &checksum, sizeof checksum, error);
    return code != 0 ? code : writer_put(writer, writer->block, size, error);
}

static int writer_put_table(struct checkpoint_writer *writer, const struct table *table, uint64_t count,
                            struct error *error) {
    const uint32_t *clocks = table_clocks(table);
    const size_t row_bytes = table->spec->row_bytes;
    uint64_t rows = smaller(checkpoint_block_rows(table->spec->row_bytes), count);
    writer->block = memory_resized(writer->block, rows, sizeof(uint64_t) + row_bytes);
    int code = 0;
    uint64_t filled = 0;
    for (uint32_t slot = 0; count > 0 && code == 0; slot++) {
        if (clocks[slot] == 0) {
            continue;
        }
        uint64_t key = table_key(table, slot);
        memcpy(writer->block + filled * sizeof key, &key, sizeof key);
        memcpy(writer->block + rows * sizeof key + filled * row_bytes, table_row(table, slot), row_bytes);
        if (++filled == rows) {
            code = writer_put_block(writer, rows * (sizeof key + row_bytes), error);
            count -= rows;
            rows = smaller(rows, count);
            filled = 0;
        }
    }
    return code;
}

static uint64_t table_changed(const struct table *table) {
    const uint32_t *clocks = table_clocks(table);
    uint64_t changed = 0;
    for (uint32_t slot = 0; slot < table->count; slot++) {
        changed += clocks[slot] > 0;
    }
    return changed;
}

static int writer_put_partition(struct checkpoint_writer *writer, const struct partition *partition,
                                const struct checkpoint_front *front, struct error *error) {
    int code = writer_put(writer, front, front_size(front->head.table_count), error);
    for (unsigned t = 0; t < front->head.table_count && code == 0; t++) {
        code = writer_put_table(writer, &partition->tables[t], front->tables[t].count, error);
    }
    if (code != 0) {
        storage_discard(writer->file);
        return code;
    }
    return storage_commit(writer->file, error);
}

int checkpoint_write(struct partition *partition, uint64_t clock, const char *directory,
                     struct message_written *written) {
    struct checkpoint_front front;
    struct checkpoint_writer writer = {.head = &front.head};
    struct error error = {0};
    char path[NEW_FILE_PATH_MAX];
    front_describe(&front, partition, clock);
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        if (partition->late[t].count > 0) {
            partition_settle(partition, t);
        }
        front.tables[t].count = table_changed(&partition->tables[t]);
    }
    front.head.checksum = front_checksum(&front);
    checkpoint_path(path, directory, partition->id);
    int code = storage_create(&writer.file, path, false, &error);
    code = code != 0 ? code : writer_put_partition(&writer, partition, &front, &error);
    free(writer.block);
    *written = (struct message_written){
        .number = written->number, .partition = partition->id, .state = WRITTEN_FAILED, .clock = clock};
    if (code != 0) {
        memcpy(written->text, error.text, sizeof written->text);
        return code;
    }
    written->state = WRITTEN_DONE;
    written->bytes = writer.bytes;
    written->checksum = writer.checksum;
    return 0;
}

/* ---- Reading ---- */

struct checkpoint_reader {
    const char *path;
    struct storage_reader *file;
    uint64_t bytes; /* of the file */
    uint64_t at;    /* byte of the file */
    const struct checkpoint_head *head;
    unsigned char *block;
    uint32_t blocks; /* so far */
};

static int reader_get(struct checkpoint_reader *reader, void *bytes, size_t size, struct error *error) {
    size_t got;
    int code = storage_read(reader->file, bytes, size, &got, error);
    reader->at += got;
    if (code == 0 && got < size) {
        return error_set(error, AML_EINPUT, "%s: byte %llu: the file ends, expected %zu bytes more", reader->path,
                         (unsigned long long)reader->at, size - got);
    }
    return code;
}

/* Sets the error for a number at byte `at` of the file that differs from the expected number. */
static int reader_differs(const struct checkpoint_reader *reader, size_t at, const char *what, uint64_t expected,
                          uint64_t found, struct error *error) {
    return error_set(error, AML_EINPUT, "%s: byte %zu: expected %s %llu, found %llu", reader->path, at, what,
                     (unsigned long long)expected, (unsigned long long)found);
}

static int reader_check_sum(const struct checkpoint_reader *reader, uint64_t at, uint32_t expected, uint32_t found,
                            struct error *error) {
    return expected == found
               ? 0
               : error_set(error, AML_EINPUT, "%s: byte %llu: damaged: expected checksum %08x, found %08x",
                           reader->path, (unsigned long long)at, expected, found);
}

#define HEAD_AT(field) offsetof(struct checkpoint_head, field)

/* Reads the head and the tables' descriptions, and compares the head with the expected one. */
static int reader_get_front(struct checkpoint_reader *reader, const struct checkpoint_front *expected,
                            struct checkpoint_front *front, struct error *error) {
    const struct checkpoint_head *head = &front->head;
    const struct checkpoint_head *wanted = &expected->head;
    int code = reader_get(reader, &front->head, sizeof front->head, error);
    if (code != 0) {
        return code;
    }
    if (memcmp(head->magic, wanted->magic, sizeof head->magic) != 0) {
        return error_set(error, AML_EINPUT, "%s: byte 0: not a partition of a checkpoint: expected \"%s\"",
                         reader->path, CHECKPOINT_MAGIC);
    }
    if (head->version != wanted->version) {
        return reader_differs(reader, HEAD_AT(version), "version", wanted->version, head->version, error);
    }
    if (head->table_count != wanted->table_count) {
        return reader_differs(reader, HEAD_AT(table_count), "number of tables", wanted->table_count, head->table_count,
                              error);
    }
    code = reader_get(reader, front->tables, front_size(head->table_count) - sizeof front->head, error);
    code = code != 0 ? code : reader_check_sum(reader, HEAD_AT(checksum), front_checksum(front), head->checksum, error);
    if (code != 0) {
        return code;
    }
    if (head->partition != wanted->partition) {
        return reader_differs(reader, HEAD_AT(partition), "partition", wanted->partition, head->partition, error);
    }
    if (head->partitions != wanted->partitions) {
        return reader_differs(reader, HEAD_AT(partitions), "number of partitions", wanted->partitions, head->partitions,
                              error);
    }
    if (head->clock != wanted->clock) {
        return reader_differs(reader, HEAD_AT(clock), "clock", wanted->clock, head->clock, error);
    }
    return 0;
}

/* Compares a table's description with the job's, and its count of rows with the partition's room. */
static int reader_check_table(const struct checkpoint_reader *reader, unsigned t, const struct partition *partition,
                              const struct checkpoint_table *expected, const struct checkpoint_table *found,
                              struct error *error) {
    size_t at = front_size(t);
    const struct table *table = &partition->tables[t];
    uint64_t room = table->spec->rows > 0 ? table->count : TABLE_SLOTS_MAX;
    if (memcmp(found->name, expected->name, sizeof found->name) != 0) {
        return error_set(error, AML_EINPUT, "%s: byte %zu: expected table \"%s\", found \"%.*s\"", reader->path, at,
                         expected->name, (int)sizeof found->name, found->name);
    }
    const struct {
        const char *what;
        size_t at;
        uint64_t expected, found;
    } numbers[] = {
        {"element type", offsetof(struct checkpoint_table, type), expected->type, found->type},
        {"aggregation mode", offsetof(struct checkpoint_table, mode), expected->mode, found->mode},
        {"row width", offsetof(struct checkpoint_table, width), expected->width, found->width},
        {"number of rows", offsetof(struct checkpoint_table, rows), expected->rows, found->rows},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].expected != numbers[i].found) {
            return reader_differs(reader, at + numbers[i].at, numbers[i].what, numbers[i].expected, numbers[i].found,
                                  error);
        }
    }
    if (found->count > room) {
        return error_set(error, AML_EINPUT, "%s: byte %zu: expected at most %llu rows of table %s, found %llu",
                         reader->path, at + offsetof(struct checkpoint_table, count), (unsigned long long)room,
                         expected->name, (unsigned long long)found->count);
    }
    return 0;
}

/* Checks that the file is as long as its head says, before memory is allocated for its rows. */
static int reader_check_size(const struct checkpoint_reader *reader, const struct partition *partition,
                             const struct checkpoint_front *front, struct error *error) {
    uint64_t expected = front_size(front->head.table_count);
    for (unsigned t = 0; t < front->head.table_count; t++) {
        uint32_t row_bytes = partition->job->tables[t].row_bytes;
        uint64_t count = front->tables[t].count;
        uint64_t rows = checkpoint_block_rows(row_bytes);
        expected += count * (sizeof(uint64_t) + row_bytes) + (count + rows - 1) / rows * sizeof(uint32_t);
    }
    if (reader->bytes != expected) {
        return error_set(error, AML_EINPUT, "%s: expected %llu bytes, found %llu", reader->path,
                         (unsigned long long)expected, (unsigned long long)reader->bytes);
    }
    return 0;
}

/* Copies the rows of a checked block into the table. `at` is the byte of its first key in the file. */
static int reader_take_rows(const struct checkpoint_reader *reader, struct table *table, uint64_t rows, uint64_t at,
                            struct error *error) {
    const size_t row_bytes = table->spec->row_bytes;
    const unsigned char *values = reader->block + rows * sizeof(uint64_t);
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t key;
        memcpy(&key, reader->block + i * sizeof key, sizeof key);
        int64_t slot = table_slot(table, key);
        if (slot == AML_ENOMEM) {
            return error_set(error, AML_ENOMEM, "%s: no memory for the rows of table %s", reader->path,
                             table->spec->name);
        }
        if (slot < 0 || table_clocks(table)[slot] != 0) {
            return error_set(error, AML_EINPUT, "%s: byte %llu: expected another row of table %s, found key %llu%s",
                             reader->path, (unsigned long long)(at + i * sizeof key), table->spec->name,
                             (unsigned long long)key, slot < 0 ? ", which is not of this partition" : " again");
        }
        memcpy(table_row(table, (uint32_t)slot), values + i * row_bytes, row_bytes);
        table_clocks(table)[slot] = (uint32_t)reader->head->clock;
    }
    return 0;
}

static int reader_get_table(struct checkpoint_reader *reader, struct table *table, uint64_t count,
                            struct error *error) {
    const size_t row_bytes = table->spec->row_bytes;
    const uint64_t most = smaller(checkpoint_block_rows(table->spec->row_bytes), count);
    reader->block = memory_resized(reader->block, most, sizeof(uint64_t) + row_bytes);
    int code = 0;
    while (count > 0 && code == 0) {
        uint64_t rows = smaller(most, count);
        size_t size = rows * (sizeof(uint64_t) + row_bytes);
        uint64_t at = reader->at;
        uint32_t checksum = 0;
        code = reader_get(reader, &checksum, sizeof checksum, error);
        code = code != 0 ? code : reader_get(reader, reader->block, size, error);
        if (code == 0) {
            uint32_t seed = checkpoint_block_seed(reader->head, ++reader->blocks);
            code = reader_check_sum(reader, at, (uint32_t)crc32_z(seed, reader->block, size), checksum, error);
        }
        code = code != 0 ? code : reader_take_rows(reader, table, rows, at + sizeof checksum, error);
        count -= rows;
    }
    return code;
}

static int reader_get_partition(struct checkpoint_reader *reader, struct partition *partition, uint64_t clock,
                                struct error *error) {
    struct checkpoint_front expected;
    struct checkpoint_front front = {0};
    front_describe(&expected, partition, clock);
    reader->head = &front.head;
    int code = reader_get_front(reader, &expected, &front, error);
    for (unsigned t = 0; t < expected.head.table_count && code == 0; t++) {
        code = reader_check_table(reader, t, partition, &expected.tables[t], &front.tables[t], error);
    }
    code = code != 0 ? code : reader_check_size(reader, partition, &front, error);
    for (unsigned t = 0; t < expected.head.table_count && code == 0; t++) {
        code = reader_get_table(reader, &partition->tables[t], front.tables[t].count, error);
    }
    return code;
}

int checkpoint_read(struct partition *partition, const char *directory, uint64_t clock, struct error *error) {
    char path[NEW_FILE_PATH_MAX];
    checkpoint_path(path, directory, partition->id);
    if (clock == 0 || clock > WIRE_CLOCK_MAX) {
        return error_set(error, AML_EINPUT, "%s: a checkpoint is of a clock from 1 on, not of %llu", path,
                         (unsigned long long)clock);
    }
    struct checkpoint_reader reader = {.path = path};
    int code = storage_open(&reader.file, path, &reader.bytes, error);
    code = code != 0 ? code : reader_get_partition(&reader, partition, clock, error);
    if (code == 0) {
        partition_loaded(partition, clock);
    }
    storage_close(reader.file);
    free(reader.block);
    return code;
}
