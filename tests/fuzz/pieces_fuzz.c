/* libFuzzer target: packed pieces of shards of any bytes, as from the reader of another part. Accepted pieces are
 * combined with an empty own part and must give a shard of as many items as reported; rejected ones must leave nothing.
 * The first byte chooses the kind of items, and whether hashes are corrected first, so that the code behind their check
 * is reached. */
#include "tests/fuzz/data_job.h"

#include "workers/data/data_private.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

static void mend(unsigned char *bytes, size_t size) {
    struct packed_head head;
    while (size >= sizeof head) {
        memcpy(&head, bytes, sizeof head);
        if (head.bytes > size || data_packed_bytes(&head) > size) {
            return;
        }
        head.hash = data_packed_hash(&head, bytes);
        memcpy(bytes, &head, sizeof head);
        bytes += data_packed_bytes(&head);
        size -= (size_t)data_packed_bytes(&head);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (size == 0) {
        return 0;
    }
    static const uint32_t shards[] = {0, DATA_JOB_SHARD};
    struct data data;
    unsigned char *bytes = malloc(size); /* of just this size, so that a read past its end is seen */
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, input + 1, size - 1);
    data_job_open(&data, input[0] % DATA_JOB_KINDS);
    if (input[0] >= 128) {
        mend(bytes, size - 1);
    }
    data_pin(&data, shards, 2);
    data_divide(&data, 2, 0);
    data_read_part_begin(&data, 0);
    uint32_t count;
    FUZZ_CHECK(data_read_file(&data, &count) == 0 && count == 2);
    data_read_end(&data, true);
    bool taken = data_take_pieces(&data, 1, shards, 2, bytes, size - 1);
    for (uint32_t s = 0; s < 2; s++) {
        if (data_has(&data, shards[s])) {
            FUZZ_CHECK(data.shards[s].records[0].count + data.shards[s].records[1].count == data.input[s].items);
        }
    }
    FUZZ_CHECK(!taken || size > 1);
    data_unpin(&data, shards, 2);
    data_close(&data);
    free(bytes);
    return 0;
}
