/* Data shards, and their pieces in a divided input: what is here of each shard, which shards are pinned, and which are
 * dropped when there is no room. See data.h. */
#include "workers/data/data_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

enum { PIECES_SHARE = 2 /* pieces and records together may take 1/2 of the memory's limit */ };

/* ---- Shards ---- */

void data_store_release(struct data_store *store) {
    assert(store == NULL || store->refs > 0);
    if (store == NULL || --store->refs > 0) {
        return;
    }
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        free(store->items[use]);
        free(store->places[use]);
        free(store->offsets[use]);
    }
    free(store);
}

void data_shard_drop(struct data *data, struct data_shard *shard) {
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        data_records_end(&shard->records[use]);
        assert(shard->records[use].bytes >= shard->records[use].on_disk);
        size_t bytes = shard->records[use].bytes - shard->records[use].on_disk;
        assert(data->bytes >= bytes);
        data->bytes -= bytes;
        data_records_drop(data, &shard->records[use]);
    }
    data_store_release(shard->store);
    shard->store = NULL;
    data_order_close(shard->order);
    shard->order = NULL;
    free(shard->dealt);
    shard->dealt = NULL;
    totals_clear(shard->totals);
    shard->held = false;
}

void data_input_open(struct data *data) {
    if (data->input == NULL) {
        data->input = memory_zeroed(data->shard_count, sizeof *data->input);
        for (uint32_t s = 0; s < data->shard_count; s++) {
            data->input[s].items = WIRE_ITEMS_UNKNOWN;
        }
    }
}

void data_input_add(struct data *data, uint32_t shard, struct wire_input_shard tally) {
    data_input_open(data);
    data->news = data->news || data->input[shard].items != tally.items || data->input[shard].hash != tally.hash;
    data->input[shard] = tally;
}

/* ---- Pieces of a divided input ---- */

void data_piece_close(struct data *data, struct data_piece *piece) {
    data_records_end(&piece->records[AML_TRAIN]);
    data_records_end(&piece->records[AML_TEST]);
    size_t bytes = piece->records[AML_TRAIN].bytes + piece->records[AML_TEST].bytes;
    assert(data->division.bytes >= bytes);
    data->division.bytes -= bytes;
    data_records_drop(data, &piece->records[AML_TRAIN]);
    data_records_drop(data, &piece->records[AML_TEST]);
    *piece = (struct data_piece){0};
    totals_clear(piece->totals);
}

void data_pieces_drop(struct data *data, struct data_shard *shard) {
    for (uint32_t p = 0; shard->pieces != NULL && p < data->division.count; p++) {
        data_piece_close(data, &shard->pieces[p]);
    }
    free(shard->pieces);
    shard->pieces = NULL;
}

void data_part_drop(struct data *data) {
    for (uint32_t s = 0; s < data->shard_count; s++) {
        data_piece_close(data, &data->shards[s].piece);
    }
}

struct data_piece *data_piece_of(struct data *data, struct data_shard *shard, uint32_t part) {
    assert(part < data->division.count);
    if (part == data->division.index) {
        return &shard->piece;
    }
    if (shard->pieces == NULL) {
        shard->pieces = memory_zeroed(data->division.count, sizeof *shard->pieces);
        for (uint32_t p = 0; p < data->division.count; p++) {
            totals_clear(shard->pieces[p].totals);
        }
    }
    return &shard->pieces[part];
}

void data_pieces_fit(struct data *data) {
    struct data_division *division = &data->division;
    if (division->bytes == 0 || data->limit.bytes == SIZE_MAX ||
        data->bytes + division->bytes <= data->limit.bytes / PIECES_SHARE) {
        return;
    }
    division->over = true;
    data_part_drop(data);
    for (uint32_t s = 0; s < data->shard_count; s++) {
        data_pieces_drop(data, &data->shards[s]);
        data->shards[s].piece_wish = false;
    }
}

/* ---- What stays ---- */

/* Drops first the shards that this node never worked on, then those that it left longest ago, then its part of the
 * input. */
void data_trim(struct data *data) {
    const struct data_division *division = &data->division;
    if (data->bytes + (division->settled ? division->bytes : 0) <= data->budget) {
        return;
    }
    atomic_store_explicit(&data->welcome_over, true, memory_order_relaxed);
    for (uint32_t s = 0; s < data->shard_count; s++) {
        struct data_shard *shard = &data->shards[s];
        if (shard->pins == 0 && shard->left == 0) {
            data_shard_drop(data, shard);
        }
    }
    while (data->bytes + (division->settled ? division->bytes : 0) > data->budget) {
        struct data_shard *oldest = NULL;
        for (uint32_t s = 0; s < data->shard_count; s++) {
            struct data_shard *shard = &data->shards[s];
            if (shard->held && shard->pins == 0 && (oldest == NULL || shard->left < oldest->left)) {
                oldest = shard;
            }
        }
        if (oldest == NULL) { /* pinned shards stay, even above the budget */
            if (division->settled) {
                data_part_drop(data);
            }
            return;
        }
        data_shard_drop(data, oldest);
    }
}

bool data_pin(struct data *data, const uint32_t *shards, uint32_t count) {
    bool held = true;
    pthread_mutex_lock(&data->lock);
    for (uint32_t i = 0; i < count; i++) {
        data->shards[shards[i]].pins++;
        held = held && data->shards[shards[i]].held;
    }
    pthread_mutex_unlock(&data->lock);
    return held;
}

size_t data_shard_bytes(const struct data *data, const struct data_shard *shard, enum aml_item_use use) {
    return data->varied ? shard->records[use].bytes : shard->records[use].count * data->record_size;
}

int data_shard_read(const struct data *data, const struct data_shard *shard, enum aml_item_use use,
                    const struct data_keys *keys, unsigned char *to, struct error *error) {
    if (shard->order != NULL) {
        data_order_records(data, shard, use, keys, to);
    } else if (shard->store == NULL) {
        return data_records_read(data, &shard->records[use], to, error);
    }
    for (size_t i = 0; shard->store != NULL && i < shard->records[use].count; i++) {
        const unsigned char *record = shard_record(data, shard, use, i);
        size_t size = record_size(data, record);
        if (size > 0) {
            memcpy(to, record, size);
        }
        to += size;
    }
    return 0;
}

static bool shard_is_spilled(const struct data_shard *shard) {
    return shard->records[AML_TRAIN].on_disk > 0 || shard->records[AML_TEST].on_disk > 0;
}

/* Copies the shard's records back from its set's store, as the set will be closed. */
static void shard_take_back(const struct data *data, struct data_shard *shard) {
    assert(shard->held && !shard_is_spilled(shard) && shard->order == NULL);
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        struct data_extent taken = {.count = shard->records[use].count, .bytes = shard->records[use].bytes};
        taken.capacity = taken.bytes;
        taken.records = memory_resized(NULL, taken.bytes, 1);
        data_shard_read(data, shard, use, NULL, taken.records, NULL); /* of a store: can't fail */
        data_records_add(&shard->records[use], taken);
    }
    data_store_release(shard->store);
    shard->store = NULL;
}

void data_unpin(struct data *data, const uint32_t *shards, uint32_t count) {
    pthread_mutex_lock(&data->lock);
    data->departures++;
    for (uint32_t i = 0; i < count; i++) {
        struct data_shard *shard = &data->shards[shards[i]];
        assert(shard->pins > 0);
        shard->left = --shard->pins == 0 ? data->departures : shard->left;
        if (shard->pins == 0) {
            data_pieces_drop(data, shard);
        }
        if (shard->pins == 0 && shard->held && shard_is_spilled(shard)) {
            data_shard_drop(data, shard); /* the budget is for shards in memory */
        }
    }
    data_trim(data);
    for (uint32_t i = 0; i < count; i++) {
        struct data_shard *shard = &data->shards[shards[i]];
        if (shard->pins == 0 && shard->store != NULL) {
            shard_take_back(data, shard);
        }
    }
    pthread_mutex_unlock(&data->lock);
}
