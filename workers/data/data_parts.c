/* An input that is divided among nodes. Reads a part, and puts shards together from the pieces of all parts. See
 * data.h. */
#include "workers/data/data_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

/* ---- Putting shards together ---- */

static int extent_order(const void *one, const void *other) {
    const struct data_extent *a = one;
    const struct data_extent *b = other;
    if (a->stretch != b->stretch) {
        return a->stretch < b->stretch ? -1 : 1;
    }
    return a->part < b->part ? -1 : a->part > b->part;
}

/* Makes one extent of the pieces' records of a use, in the order of the input: by stretch, then by part. */
static void join_pieces(struct data *data, struct data_shard *shard, enum aml_item_use use) {
    struct data_records all = {.count = 0};
    assert(shard->records[use].extent_count == 0 && shard->records[use].open.count == 0);
    for (uint32_t p = 0; p < data->division.count; p++) {
        const struct data_records *records = &data_piece_of(data, shard, p)->records[use];
        for (uint32_t e = 0; e < records->extent_count; e++) {
            data_records_add(&all, records->extents[e])->part = p;
        }
        all.count += records->count;
        all.bytes += records->bytes;
    }
    if (all.count > 0) {
        struct data_extent joined = {.count = all.count, .bytes = all.bytes, .capacity = all.bytes};
        joined.records = memory_resized(NULL, all.bytes, 1);
        qsort(all.extents, all.extent_count, sizeof *all.extents, extent_order);
        data_records_read(data, &all, joined.records, NULL); /* from memory: can't fail */
        data_records_add(&shard->records[use], joined);
    }
    shard->records[use].count = all.count;
    shard->records[use].bytes = all.bytes;
    data->bytes += all.bytes;
    free(all.extents);
}

static bool all_pieces_here(struct data *data, struct data_shard *shard) {
    bool here = true;
    for (uint32_t p = 0; p < data->division.count && here; p++) {
        here = data->division.empty[p] || data_piece_of(data, shard, p)->here;
    }
    return here;
}

/* Puts the shard together if all its pieces are here. */
static void put_together(struct data *data, uint32_t number) {
    struct data_shard *shard = &data->shards[number];
    struct wire_input_shard tally = {0};
    assert(!shard->held);
    if (!all_pieces_here(data, shard)) {
        return;
    }
    totals_clear(shard->totals);
    for (uint32_t p = 0; p < data->division.count; p++) {
        const struct data_piece *piece = data_piece_of(data, shard, p);
        totals_add(shard->totals, piece->totals);
        tally.items += piece->tally.items;
        tally.hash += piece->tally.hash;
    }
    join_pieces(data, shard, AML_TRAIN);
    join_pieces(data, shard, AML_TEST);
    assert(shard->records[AML_TRAIN].count + shard->records[AML_TEST].count == tally.items);
    data_pieces_drop(data, shard);
    data_piece_close(data, &shard->piece);
    shard->held = true;
    data_input_add(data, number, tally);
    data_trim(data);
}

/* ---- Reading a part ---- */

void data_divide(struct data *data, uint32_t count, uint32_t index) {
    assert(index < count);
    pthread_mutex_lock(&data->lock);
    data->division = (struct data_division){
        .count = count, .index = index, .reading = count, .empty = memory_zeroed(count, sizeof(bool))};
    pthread_mutex_unlock(&data->lock);
}

/* Moves the items that `read` has emitted itself before its first file from the shards to the pieces of part 0. Other
 * parts have none of them. Items that were not kept are then missing. */
static void move_own_items(struct data *data) {
    struct data_division *division = &data->division;
    for (uint32_t s = 0; s < data->shard_count; s++) {
        struct data_shard *shard = &data->shards[s];
        if (shard->wish == DATA_IGNORED) {
            continue;
        }
        shard->wish = DATA_IGNORED;
        bool on_disk = shard->records[AML_TRAIN].on_disk + shard->records[AML_TEST].on_disk > 0;
        if (division->reading == 0 && shard->piece_wish && !on_disk) {
            struct data_piece *piece = data_piece_of(data, shard, division->reading);
            data_records_end(&shard->records[AML_TRAIN]);
            data_records_end(&shard->records[AML_TEST]);
            memcpy(piece->records, shard->records, sizeof piece->records);
            memcpy(piece->totals, shard->totals, sizeof piece->totals);
            memset(shard->records, 0, sizeof shard->records);
            size_t bytes = piece->records[AML_TRAIN].bytes + piece->records[AML_TEST].bytes;
            assert(data->bytes >= bytes);
            data->bytes -= bytes;
            division->bytes += bytes;
        }
        data_shard_drop(data, shard);
    }
}

uint32_t data_read_file(struct data *data, uint32_t *count) {
    struct data_division *division = &data->division;
    pthread_mutex_lock(&data->lock);
    bool part = data_reads_part(data);
    if (part && !division->divided) {
        move_own_items(data);
        division->divided = true;
    }
    *count = part ? division->count : 1;
    uint32_t number = part ? division->reading : 0;
    pthread_mutex_unlock(&data->lock);
    return number;
}

void data_part_reading_end(struct data *data, bool whole, const struct wire_input_shard *own,
                           const struct wire_input_shard *file) {
    struct data_division *division = &data->division;
    for (uint32_t s = 0; s < data->shard_count; s++) {
        struct data_shard *shard = &data->shards[s];
        if (!shard->piece_wish) {
            continue;
        }
        struct data_piece *piece = data_piece_of(data, shard, division->reading);
        shard->piece_wish = false;
        data_records_fit(&piece->records[AML_TRAIN]);
        data_records_fit(&piece->records[AML_TEST]);
        uint64_t records = piece->records[AML_TRAIN].count + piece->records[AML_TEST].count;
        piece->tally = file[s];
        piece->tally.items += division->reading == 0 ? own[s].items : 0;
        piece->tally.hash += division->reading == 0 ? own[s].hash : 0;
        if (!whole || records != piece->tally.items) { /* not all of what `read` emitted itself was kept */
            data_piece_close(data, piece);
            continue;
        }
        piece->here = true;
        if (shard->pins > 0 && !shard->held) {
            put_together(data, s);
        }
    }
}

void data_part_is_empty(struct data *data, uint32_t part) {
    pthread_mutex_lock(&data->lock);
    assert(part > 0 && part < data->division.count);
    data->division.empty[part] = true;
    pthread_mutex_unlock(&data->lock);
}

void data_settle(struct data *data) {
    pthread_mutex_lock(&data->lock);
    data->division.settled = true;
    data_trim(data);
    pthread_mutex_unlock(&data->lock);
}

bool data_is_divided(struct data *data) {
    pthread_mutex_lock(&data->lock);
    bool divided = data->division.count > 0;
    pthread_mutex_unlock(&data->lock);
    return divided;
}

bool data_is_settled(struct data *data) {
    pthread_mutex_lock(&data->lock);
    bool settled = data->division.settled || data->complete;
    pthread_mutex_unlock(&data->lock);
    return settled;
}

/* ---- What is missing ---- */

uint32_t data_lacks_piece(struct data *data, const uint32_t *shards, uint32_t count, uint32_t part, uint32_t *lacking) {
    uint32_t found = 0;
    pthread_mutex_lock(&data->lock);
    for (uint32_t s = 0; s < count; s++) {
        struct data_shard *shard = &data->shards[shards[s]];
        if (!shard->held) {
            const struct data_piece *piece = data_piece_of(data, shard, part);
            lacking[found] = shards[s];
            found += !data->division.over && !data->division.empty[part] && !piece->here && !piece->gone ? 1 : 0;
        }
    }
    pthread_mutex_unlock(&data->lock);
    return found;
}

uint32_t data_missing_parts(struct data *data, const uint32_t *shards, uint32_t count, uint32_t *parts) {
    uint32_t found = 0;
    pthread_mutex_lock(&data->lock);
    for (uint32_t p = 0; p < data->division.count; p++) {
        bool missing = false;
        for (uint32_t s = 0; s < count && !missing && !data->division.empty[p]; s++) {
            struct data_shard *shard = &data->shards[shards[s]];
            missing = !shard->held && !data_piece_of(data, shard, p)->here;
        }
        parts[found] = p;
        found += missing ? 1 : 0;
    }
    pthread_mutex_unlock(&data->lock);
    return found;
}

/* ---- Pieces from other nodes ---- */

static void take_piece(struct data *data, struct data_piece *piece, const struct packed_head *head,
                       const unsigned char *bytes) {
    piece->gone = head->tally.items == WIRE_ITEMS_UNKNOWN;
    piece->here = !piece->gone;
    if (piece->here) {
        data_packed_take(data, head, bytes, piece->records);
        piece->tally = head->tally;
        memcpy(piece->totals, head->totals, sizeof piece->totals);
    }
}

bool data_take_pieces(struct data *data, uint32_t part, const uint32_t *shards, uint32_t count,
                      const unsigned char *bytes, size_t size) {
    bool good = size > 0 && part < data->division.count && part != data->division.index;
    pthread_mutex_lock(&data->lock);
    for (uint32_t s = 0; good && size > 0; s++) {
        struct packed_head head;
        good = s < count && data_packed_is_good(data, bytes, size, shards[s], part, data->division.count, &head);
        if (!good) {
            break;
        }
        struct data_shard *shard = &data->shards[shards[s]];
        if (shard->pins > 0 && !shard->held && !data->division.over && !data_piece_of(data, shard, part)->here) {
            take_piece(data, data_piece_of(data, shard, part), &head, bytes);
            put_together(data, shards[s]);
            data_pieces_fit(data);
        }
        size_t taken = (size_t)data_packed_bytes(&head);
        bytes += taken;
        size -= taken;
    }
    pthread_mutex_unlock(&data->lock);
    return good;
}
