/* libFuzzer target: a packed shard of any bytes, as from another node. What is accepted must be packed again as the
 * same bytes, and arranged; what is rejected must leave nothing. The first byte chooses the kind of items, and whether
 * the hash is corrected first, so that the code behind its check is reached. */
#include "tests/fuzz/data_job.h"

#include "workers/data/data_private.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

static void mend(unsigned char *bytes, size_t size) {
    struct packed_head head;
    if (size < sizeof head) {
        return;
    }
    memcpy(&head, bytes, sizeof head);
    if (head.bytes <= size && data_packed_bytes(&head) <= size) {
        head.hash = data_packed_hash(&head, bytes);
        memcpy(bytes, &head, sizeof head);
    }
}

static int row_slots(void *context, unsigned table, const uint64_t *keys, uint32_t *slots, size_t count,
                     struct error *error) {
    (void)context;
    (void)error;
    FUZZ_CHECK(table < DATA_JOB_TABLES);
    for (size_t i = 0; i < count; i++) {
        slots[i] = (uint32_t)(keys[i] % 1000);
    }
    return 0;
}

static void rows_use(void *context, unsigned table, const uint32_t *slots, size_t count) {
    (void)context;
    (void)table;
    (void)slots;
    (void)count;
}

static void check_taken(struct data *data, const unsigned char *bytes, size_t size) {
    static const uint32_t shard = DATA_JOB_SHARD;
    const struct data_rows rows = {.slots = row_slots, .use = rows_use};
    const struct data_dealing dealing = {.clocks = 2, .threads = 2, .seed = 1};
    struct error error = {0};
    struct data_set set;
    struct buffer *packed = data_pack(data, shard, NULL); /* without an order of items by keys */
    FUZZ_CHECK(packed != NULL && packed->size == size && memcmp(packed->data, bytes, size) == 0);
    buffer_drop(packed);
    if (data_arrange(data, &shard, 1, &dealing, &rows, &set, &error) == 0) {
        data_set_close(data, &set);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (size == 0) {
        return 0;
    }
    static const uint32_t shard = DATA_JOB_SHARD;
    struct data data;
    unsigned char *bytes = malloc(size); /* of just this size, so that a read past its end is seen */
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, input + 1, size - 1);
    data_job_open(&data, input[0] % DATA_JOB_KINDS);
    if (input[0] >= 128) {
        mend(bytes, size - 1);
    }
    data_pin(&data, &shard, 1);
    if (data_unpack(&data, shard, bytes, size - 1)) {
        check_taken(&data, bytes, size - 1);
    } else {
        FUZZ_CHECK(!data_has(&data, shard) && data.bytes == 0);
    }
    data_close(&data);
    free(bytes);
    return 0;
}
