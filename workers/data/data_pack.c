/* Packs a shard's records into one string of bytes for another node, and unpacks what another node has sent, after
 * checking it. See data.h. */
#include "workers/data/data_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"

/* A packed shard: this head, then the records of both uses, in the order of the input. */
struct packed_head {
    char magic[4]; /* "PSH2" */
    uint32_t shard;
    uint64_t hash;                /* of the head, with 0 here, and of the records */
    uint64_t counts[2], bytes[2]; /* of the records, by enum aml_item_use */
    double totals[WIRE_TOTALS];
};

static const char MAGIC[4] = {'P', 'S', 'H', '2'};

static uint64_t packed_hash(const struct packed_head *head, const unsigned char *records) {
    struct packed_head hashed = *head;
    hashed.hash = 0;
    return hash_bytes(records, head->bytes[AML_TRAIN] + head->bytes[AML_TEST],
                      hash_bytes((const unsigned char *)&hashed, sizeof hashed, 0));
}

bool data_has(struct data *data, uint32_t shard) {
    pthread_mutex_lock(&data->lock);
    bool held = data->shards[shard].held;
    pthread_mutex_unlock(&data->lock);
    return held;
}

/* Returns the bytes of a shard's records of one use. run.bytes may be those of the items made of the records. */
static uint64_t records_bytes(const struct data *data, const struct data_shard *shard, unsigned use) {
    return data->varied ? shard_bytes(shard, use) : shard_count(shard, use) * (uint64_t)data->record_size;
}

static int write_records(const struct data *data, const struct data_shard *shard, enum aml_item_use use,
                         const struct data_keys *keys, unsigned char *at, struct error *error) {
    int result = data_spilled_read(data, shard, use, at, error);
    at += shard->spilled[use].bytes;
    if (shard->order != NULL) {
        data_order_records(data, shard, use, keys, at);
    } else if (shard->store != NULL) {
        for (size_t i = 0; i < shard->runs[use].count; i++) {
            const unsigned char *record = shard_record(data, shard, use, i);
            size_t size = record_size(data, record);
            if (size > 0) {
                memcpy(at, record, size);
            }
            at += size;
        }
    } else if (shard->runs[use].bytes > 0) {
        memcpy(at, shard->runs[use].records, shard->runs[use].bytes);
    }
    return result;
}

struct buffer *data_pack(struct data *data, uint32_t number, const struct data_keys *keys) {
    struct buffer *packed = NULL;
    struct error error = {0};
    pthread_mutex_lock(&data->lock);
    const struct data_shard *shard = &data->shards[number];
    if (shard->held) {
        struct packed_head head = {.shard = number};
        memcpy(head.magic, MAGIC, sizeof head.magic);
        memcpy(head.totals, shard->totals, sizeof head.totals);
        for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
            head.counts[use] = shard_count(shard, use);
            head.bytes[use] = records_bytes(data, shard, use);
        }
        packed = buffer_new(sizeof head + head.bytes[AML_TRAIN] + head.bytes[AML_TEST]);
        unsigned char *records = packed->data + sizeof head;
        int result = write_records(data, shard, AML_TRAIN, keys, records, &error);
        result =
            result != 0 ? result : write_records(data, shard, AML_TEST, keys, records + head.bytes[AML_TRAIN], &error);
        head.hash = packed_hash(&head, records);
        memcpy(packed->data, &head, sizeof head);
        if (result != 0) {
            buffer_drop(packed);
            packed = NULL;
        }
    }
    pthread_mutex_unlock(&data->lock);
    if (error.code != 0) {
        log_warn("shard %u can't be given to another node: %s", number, error.text);
    }
    return packed;
}

/* ---- Taking ---- */

static bool rowless_is_good(const unsigned char *record, uint64_t left, uint32_t *bytes) {
    struct aml_item item;
    if (left < sizeof item) {
        return false;
    }
    memcpy(&item, record, sizeof item);
    if (item.row_count != 0 || item.size > AML_ITEM_BYTES_MAX || rowless_size(record) > left) {
        return false;
    }
    *bytes = (uint32_t)rowless_size(record);
    return true;
}

static bool varied_is_good(const struct data *data, const unsigned char *record, uint64_t left, uint32_t *bytes) {
    struct record_head head;
    if (data->rowless) {
        return rowless_is_good(record, left, bytes);
    }
    if (left < sizeof head) {
        return false;
    }
    head = record_head(record);
    uint64_t rows = 0;
    uint64_t runs_end = sizeof head + head.runs * UINT64_C(8);
    if (head.bytes > left || head.bytes != runs_end + head.rows * (uint64_t)head.key_bytes + round_up(head.size, 4) ||
        (head.key_bytes != sizeof(uint32_t) && head.key_bytes != sizeof(uint64_t))) {
        return false;
    }
    for (uint32_t r = 0; r < head.runs; r++) {
        uint32_t run[2]; /* table, count */
        memcpy(run, record + sizeof head + r * sizeof run, sizeof run);
        if (run[0] >= data->table_count) {
            return false;
        }
        rows += run[1];
    }
    *bytes = head.bytes;
    return rows == head.rows;
}

bool data_records_are_good(const struct data *data, const unsigned char *records, uint64_t count, uint64_t bytes) {
    if (count > UINT32_MAX || !data->varied) {
        return count <= UINT32_MAX && bytes == count * data->record_size;
    }
    for (; count > 0; count--) {
        uint32_t size;
        if (!varied_is_good(data, records, bytes, &size)) {
            return false;
        }
        records += size;
        bytes -= size;
    }
    return bytes == 0;
}

static bool packed_is_good(const struct data *data, uint32_t shard, const unsigned char *bytes, size_t size,
                           struct packed_head *head) {
    if (size < sizeof *head) {
        return false;
    }
    memcpy(head, bytes, sizeof *head);
    const unsigned char *records = bytes + sizeof *head;
    size -= sizeof *head;
    return memcmp(head->magic, MAGIC, sizeof MAGIC) == 0 && head->shard == shard && head->bytes[AML_TRAIN] <= size &&
           head->bytes[AML_TEST] == size - head->bytes[AML_TRAIN] && head->hash == packed_hash(head, records) &&
           data_records_are_good(data, records, head->counts[AML_TRAIN], head->bytes[AML_TRAIN]) &&
           data_records_are_good(data, records + head->bytes[AML_TRAIN], head->counts[AML_TEST], head->bytes[AML_TEST]);
}

bool data_unpack(struct data *data, uint32_t number, const unsigned char *bytes, size_t size) {
    struct packed_head head;
    if (!packed_is_good(data, number, bytes, size, &head)) {
        return false;
    }
    pthread_mutex_lock(&data->lock);
    struct data_shard *shard = &data->shards[number];
    const unsigned char *records = bytes + sizeof head;
    for (unsigned use = AML_TRAIN; use <= AML_TEST && !shard->held; use++) {
        if (data_spill_run(data, shard, use, records, head.bytes[use], (uint32_t)head.counts[use])) {
            records += head.bytes[use];
            continue;
        }
        struct data_run run = {.count = head.counts[use], .bytes = head.bytes[use], .capacity = head.bytes[use]};
        run.records = memory_resized(NULL, run.bytes, 1);
        if (run.bytes > 0) {
            memcpy(run.records, records, run.bytes);
        }
        records += run.bytes;
        data->bytes += run.bytes;
        shard->runs[use] = run;
    }
    memcpy(shard->totals, head.totals, sizeof shard->totals);
    shard->held = true;
    data_trim(data);
    pthread_mutex_unlock(&data->lock);
    return true;
}
