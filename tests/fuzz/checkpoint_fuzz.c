/* libFuzzer target: a partition's checkpoint file, of any bytes. What is accepted must be written again as the same
 * rows; what is rejected must have an error text. The first byte chooses whether checksums are corrected first, so that
 * the code behind their check is reached. */
#include "tests/fuzz/checkpoint_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

enum { FUZZ_PATH_MAX = 128 };

static void put_checksum(unsigned char *at, uint32_t seed, const unsigned char *bytes, size_t size) {
    uint32_t checksum = (uint32_t)crc32_z(seed, bytes, size);
    memcpy(at, &checksum, sizeof checksum);
}

/* Corrects the checksums of head and blocks, as far as the file has them. */
static void mend(unsigned char *file, size_t size, const struct job *job) {
    size_t at = sizeof(struct checkpoint_head) + FUZZ_TABLES * sizeof(struct checkpoint_table);
    size_t skipped = offsetof(struct checkpoint_head, partition);
    struct checkpoint_head head;
    if (size < at) {
        return;
    }
    put_checksum(file + offsetof(struct checkpoint_head, checksum), 0, file + skipped, at - skipped);
    memcpy(&head, file, sizeof head);
    uint32_t block = 0;
    for (unsigned t = 0; t < FUZZ_TABLES; t++) {
        struct checkpoint_table table;
        memcpy(&table, file + sizeof head + t * sizeof table, sizeof table);
        const uint64_t most = checkpoint_block_rows(job->tables[t].row_bytes);
        while (table.count > 0) {
            uint64_t rows = table.count < most ? table.count : most;
            size_t bytes = rows * (sizeof(uint64_t) + job->tables[t].row_bytes);
            if (size - at < sizeof(uint32_t) + bytes) {
                return;
            }
            put_checksum(file + at, checkpoint_block_seed(&head, ++block), file + at + sizeof(uint32_t), bytes);
            at += sizeof(uint32_t) + bytes;
            table.count -= rows;
        }
    }
}

static void check_same_rows(const struct partition *partition, struct partition *again) {
    for (unsigned t = 0; t < FUZZ_TABLES; t++) {
        const struct table *table = &partition->tables[t];
        for (uint32_t slot = 0; slot < table->count; slot++) {
            int64_t other = table_slot(&again->tables[t], table_key(table, slot));
            FUZZ_CHECK(other >= 0 && table_clocks(&again->tables[t])[other] == table_clocks(table)[slot]);
            FUZZ_CHECK(memcmp(table_row(&again->tables[t], (uint32_t)other), table_row(table, slot),
                              table->spec->row_bytes) == 0);
        }
        FUZZ_CHECK(again->tables[t].count == table->count);
    }
}

static struct partition *open_partition(const struct job *job) {
    struct partition *partition = partition_open(job, FUZZ_PARTITION, FUZZ_PARTITIONS, NULL);
    FUZZ_CHECK(partition != NULL);
    return partition;
}

static void fuzz_read(const struct job *job, const char *folder) {
    struct error error = {0};
    struct partition *partition = open_partition(job);
    int code = checkpoint_read(partition, folder, FUZZ_CLOCK, &error);
    FUZZ_CHECK(code == error.code && (code == 0 || code == AML_EINPUT) && (code == 0) == (error.text[0] == '\0'));
    if (code == 0) {
        struct message_written written;
        struct partition *again = open_partition(job);
        FUZZ_CHECK(partition->clock == FUZZ_CLOCK);
        FUZZ_CHECK(checkpoint_write(partition, FUZZ_CLOCK, folder, &written) == 0);
        FUZZ_CHECK(checkpoint_read(again, folder, FUZZ_CLOCK, NULL) == 0);
        check_same_rows(partition, again);
        partition_close(again);
    }
    partition_close(partition);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char folder[FUZZ_PATH_MAX / 2] = "/tmp/checkpoint_fuzz.XXXXXX";
    char path[FUZZ_PATH_MAX];
    const struct job job = fuzz_job();
    if (size == 0 || mkdtemp(folder) == NULL) {
        return 0;
    }
    unsigned char *bytes = malloc(size);
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, data + 1, size - 1);
    if (data[0] != 0) {
        mend(bytes, size - 1, &job);
    }
    snprintf(path, sizeof path, "%s/partition-%d", folder, FUZZ_PARTITION);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file != NULL && fwrite(bytes, 1, size - 1, file) == size - 1 && fclose(file) == 0);
    fuzz_read(&job, folder);
    free(bytes);
    FUZZ_CHECK(unlink(path) == 0 && rmdir(folder) == 0);
    return 0;
}
