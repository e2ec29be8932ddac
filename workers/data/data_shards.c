/* Data shards, and their pieces in a divided input: what is here of each shard, which shards are pinned, and which are
 * dropped when there is no room. See data.h. */
#include "workers/data/data_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

enum { PIECES_SHARE = 2 /* pieces and records together may take 1/2 of the memory's limit */ };

void data_run_fit(struct data_run *run) {
    if (run->bytes < run->capacity) {
        run->capacity = run->bytes;
        run->records = memory_resized(run->records, run->bytes, 1);
    }
}

/* ---- Shards ---- */

void data_store_release(struct data_store *store) {
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
        assert(data->bytes >= shard->runs[use].bytes);
        data->bytes -= shard->runs[use].bytes;
        free(shard->runs[use].records);
        shard->runs[use] = (struct data_run){0};
    }
    data_spilled_drop(data, shard);
    data_store_release(shard->store);
    shard->store = NULL;
    data_order_close(shard->order);
    shard->order = NULL;
    free(shard->dealt);
    shard->dealt = NULL;
    totals_clear(shard->totals);
    shard->held = false;
}

void data_input_add(struct data *data, uint32_t shard, struct wire_input_shard tally) {
    if (data->input == NULL) {
        data->input = memory_zeroed(data->shard_count, sizeof *data->input);
        for (uint32_t s = 0; s < data->shard_count; s++) {
            data->input[s].items = WIRE_ITEMS_UNKNOWN;
        }
    }
    data->news = data->news || data->input[shard].items != tally.items || data->input[shard].hash != tally.hash;
    data->input[shard] = tally;
}

/* ---- Pieces of a divided input ---- */

size_t data_piece_bytes(const struct data_piece *piece) {
    size_t bytes = 0;
    for (uint32_t s = 0; s < piece->count; s++) {
        bytes += piece->segments[s].runs[AML_TRAIN].bytes + piece->segments[s].runs[AML_TEST].bytes;
    }
    return bytes;
}

void data_piece_close(struct data *data, struct data_piece *piece) {
    size_t bytes = data_piece_bytes(piece);
    assert(data->division.bytes >= bytes);
    data->division.bytes -= bytes;
    for (uint32_t s = 0; s < piece->count; s++) {
        free(piece->segments[s].runs[AML_TRAIN].records);
        free(piece->segments[s].runs[AML_TEST].records);
    }
    free(piece->segments);
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

struct data_passage *data_piece_add(struct data_piece *piece, uint32_t stretch) {
    piece->segments = memory_resized(piece->segments, piece->count + 1, sizeof *piece->segments);
    piece->segments[piece->count] = (struct data_passage){.stretch = stretch};
    return &piece->segments[piece->count++];
}

struct data_passage *data_piece_segment(struct data *data, struct data_shard *shard, uint32_t stretch) {
    struct data_piece *piece = data_piece_of(data, shard, data->division.reading);
    bool last = piece->count > 0 && piece->segments[piece->count - 1].stretch == stretch;
    return last ? &piece->segments[piece->count - 1] : data_piece_add(piece, stretch);
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

/* Copies the shard's records back from its set's store, as the set will be closed. */
static void shard_take_back(const struct data *data, struct data_shard *shard) {
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        struct data_run *run = &shard->runs[use];
        unsigned char *records = memory_resized(NULL, run->bytes, 1);
        unsigned char *at = records;
        for (size_t i = 0; i < run->count; i++) {
            const unsigned char *record = shard_record(data, shard, use, i);
            size_t size = record_size(data, record);
            memcpy(at, record, size);
            at += size;
        }
        run->records = records;
        run->capacity = run->bytes;
    }
    data_store_release(shard->store);
    shard->store = NULL;
}

static bool shard_is_spilled(const struct data_shard *shard) {
    return shard->spilled[AML_TRAIN].count > 0 || shard->spilled[AML_TEST].count > 0;
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
