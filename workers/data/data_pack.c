/* Packs the records of a shard, or of its piece, into one string of bytes for another node. Unpacks what another node
 * has sent, after checking it. See data.h. */
#include "workers/data/data_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <assert.h>

static const char MAGIC[4] = {'P', 'S', 'H', '3'};

static uint64_t extents_bytes(const struct packed_head *head) {
    return ((uint64_t)head->extents[AML_TRAIN] + head->extents[AML_TEST]) * sizeof(struct packed_extent);
}

uint64_t data_packed_bytes(const struct packed_head *head) {
    return sizeof *head + extents_bytes(head) + head->bytes;
}

uint64_t data_packed_hash(const struct packed_head *head, const unsigned char *bytes) {
    struct packed_head hashed = *head;
    hashed.hash = 0;
    return hash_bytes(bytes + sizeof *head, extents_bytes(head) + head->bytes,
                      hash_bytes((const unsigned char *)&hashed, sizeof hashed, 0));
}

/* ---- Giving ---- */

bool data_has(struct data *data, uint32_t shard) {
    pthread_mutex_lock(&data->lock);
    bool held = data->shards[shard].held;
    pthread_mutex_unlock(&data->lock);
    return held;
}

/* The head of a whole shard, whose records become one extent of each use, or of its piece. */
static struct packed_head head_of(const struct data *data, uint32_t number, bool whole) {
    const struct data_shard *shard = &data->shards[number];
    struct packed_head head = {.shard = number, .tally = shard->piece.tally};
    memcpy(head.totals, whole ? shard->totals : shard->piece.totals, sizeof head.totals);
    if (whole) {
        head.tally = (struct wire_input_shard){shard->records[AML_TRAIN].count + shard->records[AML_TEST].count, 0};
    } else {
        head.part = data->division.index;
        head.parts = data->division.count;
        head.tally.items = shard->piece.here ? head.tally.items : WIRE_ITEMS_UNKNOWN;
    }
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        head.extents[use] = whole ? 1 : shard->piece.records[use].extent_count;
        head.bytes += whole ? data_shard_bytes(data, shard, use) : shard->piece.records[use].bytes;
    }
    return head;
}

/* Packs a shard or its piece. Returns where its bytes end; NULL: its records can't be read. */
static unsigned char *pack(const struct data *data, uint32_t number, bool whole, const struct data_keys *keys,
                           unsigned char *at, struct error *error) {
    const struct data_shard *shard = &data->shards[number];
    struct packed_head head = head_of(data, number, whole);
    unsigned char *extents = at + sizeof head;
    unsigned char *records = extents + extents_bytes(&head);
    int result = 0;
    for (unsigned use = AML_TRAIN; use <= AML_TEST && result == 0; use++) {
        const struct data_records *from = whole ? &shard->records[use] : &shard->piece.records[use];
        size_t bytes = whole ? data_shard_bytes(data, shard, use) : from->bytes;
        for (uint32_t e = 0; e < head.extents[use]; e++, extents += sizeof(struct packed_extent)) {
            struct packed_extent extent = {.count = (uint32_t)from->count, .bytes = bytes};
            if (!whole) {
                extent = (struct packed_extent){.stretch = from->extents[e].stretch,
                                                .count = (uint32_t)from->extents[e].count,
                                                .bytes = from->extents[e].bytes};
            }
            memcpy(extents, &extent, sizeof extent);
        }
        result = whole ? data_shard_read(data, shard, use, keys, records, error)
                       : data_records_read(data, from, records, error);
        records += bytes;
    }
    assert(result != 0 || records == at + data_packed_bytes(&head));
    memcpy(head.magic, MAGIC, sizeof head.magic);
    head.hash = data_packed_hash(&head, at);
    memcpy(at, &head, sizeof head);
    return result == 0 ? records : NULL;
}

struct buffer *data_pack(struct data *data, uint32_t number, const struct data_keys *keys) {
    struct buffer *packed = NULL;
    struct error error = {0};
    pthread_mutex_lock(&data->lock);
    if (data->shards[number].held) {
        struct packed_head head = head_of(data, number, true);
        packed = buffer_new(data_packed_bytes(&head));
        if (pack(data, number, true, keys, packed->data, &error) == NULL) {
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

struct buffer *data_pack_pieces(struct data *data, const uint32_t *shards, uint32_t count, size_t limit) {
    size_t size = 0;
    uint32_t packed = 0;
    pthread_mutex_lock(&data->lock);
    while (packed < count && (packed == 0 || size < limit)) {
        struct packed_head head = head_of(data, shards[packed++], false);
        size += data_packed_bytes(&head);
    }
    struct buffer *bytes = buffer_new(size);
    unsigned char *at = bytes->data;
    for (uint32_t s = 0; s < packed; s++) {
        at = pack(data, shards[s], false, NULL, at, NULL); /* from memory: can't fail */
    }
    assert(at == bytes->data + size);
    pthread_mutex_unlock(&data->lock);
    return bytes;
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

static bool records_are_good(const struct data *data, const unsigned char *records, uint64_t count, uint64_t bytes) {
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

static bool extent_count_is_good(uint32_t parts, uint32_t count) {
    return parts > 0 ? count <= DATA_STRETCHES_MAX : count == 1;
}

bool data_packed_is_good(const struct data *data, const unsigned char *bytes, size_t size, uint32_t shard,
                         uint32_t part, uint32_t parts, struct packed_head *head) {
    if (size < sizeof *head) {
        return false;
    }
    memcpy(head, bytes, sizeof *head);
    if (memcmp(head->magic, MAGIC, sizeof MAGIC) != 0 || head->shard != shard || head->part != part ||
        head->parts != parts || !extent_count_is_good(parts, head->extents[AML_TRAIN]) ||
        !extent_count_is_good(parts, head->extents[AML_TEST]) || head->bytes > size || data_packed_bytes(head) > size ||
        head->hash != data_packed_hash(head, bytes)) {
        return false;
    }
    const unsigned char *at = bytes + sizeof *head;
    const unsigned char *records = at + extents_bytes(head);
    uint64_t left = head->bytes;
    uint64_t items = 0;
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        uint32_t next = 0;
        for (uint32_t e = 0; e < head->extents[use]; e++, at += sizeof(struct packed_extent)) {
            struct packed_extent extent;
            memcpy(&extent, at, sizeof extent);
            if (extent.stretch < next || extent.stretch >= (parts > 0 ? DATA_STRETCHES_MAX : 1) ||
                extent.bytes > left || !records_are_good(data, records, extent.count, extent.bytes)) {
                return false;
            }
            next = extent.stretch + 1;
            records += extent.bytes;
            left -= extent.bytes;
            items += extent.count;
        }
    }
    bool gone = head->tally.items == WIRE_ITEMS_UNKNOWN && parts > 0;
    return left == 0 && items == (gone ? 0 : head->tally.items);
}

void data_packed_take(struct data *data, const struct packed_head *head, const unsigned char *bytes,
                      struct data_records records[2]) {
    const unsigned char *at = bytes + sizeof *head;
    struct data_extent extent = {.records = (unsigned char *)(uintptr_t)(at + extents_bytes(head))};
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        for (uint32_t e = 0; e < head->extents[use]; e++, at += sizeof(struct packed_extent)) {
            struct packed_extent packed;
            memcpy(&packed, at, sizeof packed);
            extent.stretch = packed.stretch;
            extent.count = packed.count;
            extent.bytes = packed.bytes;
            data_records_copy(data, &records[use], extent, head->parts > 0);
            extent.records += packed.bytes;
        }
    }
}

bool data_unpack(struct data *data, uint32_t number, const unsigned char *bytes, size_t size) {
    struct packed_head head;
    if (!data_packed_is_good(data, bytes, size, number, 0, 0, &head) || data_packed_bytes(&head) != size ||
        head.tally.hash != 0) {
        return false;
    }
    pthread_mutex_lock(&data->lock);
    struct data_shard *shard = &data->shards[number];
    if (!shard->held) {
        data_packed_take(data, &head, bytes, shard->records);
        memcpy(shard->totals, head.totals, sizeof shard->totals);
        shard->held = true;
        data_trim(data);
    }
    pthread_mutex_unlock(&data->lock);
    return true;
}
