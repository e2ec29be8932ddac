/* Takes items while the input is read, and makes its fingerprint. See data.h. */
#include "workers/data/data_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

/* Makes the hash for data shards independent of the one for partitions and hash tables. */
static const uint64_t DATA_SHARD_SALT = UINT64_C(0x5368617264696E67);

enum {
    CHUNK_SPARE = 16 /* a chunk has room for 1/16 more than the one before */
};

void data_open(struct data *data, const struct aml_app *app, uint32_t shards, size_t budget) {
    assert(shards > 0 && shards <= WIRE_SHARDS_MAX); /* shard_of_hash is exact up to there */
    *data = (struct data){.item_rows = app->item_rows,
                          .item_tables = app->item_tables,
                          .item_bytes = app->item_bytes,
                          .varied = app->item_varied != 0,
                          .table_count = app->table_count,
                          .transformed = app->transforms != NULL && app->transforms->name != NULL,
                          .budget = budget,
                          .shard_count = shards,
                          .shard_inverse = UINT64_MAX / shards + 1};
    data->rowless = data->item_rows == 0 && (!data->varied || data->transformed);
    data->item_size = round_up(app->item_rows * sizeof(uint32_t) + app->item_bytes, 4);
    data->record_size = app->item_rows > 0 ? app->item_rows * sizeof(uint64_t) + app->item_bytes : data->item_size;
    data->shards = memory_zeroed(shards, sizeof *data->shards);
    for (uint32_t s = 0; s < shards; s++) {
        totals_clear(data->shards[s].totals);
        totals_clear(data->shards[s].piece.totals);
    }
    data->own.items = WIRE_ITEMS_UNKNOWN;
    pthread_mutex_init(&data->lock, NULL);
    pthread_cond_init(&data->limit.spilled, NULL);
    data->limit.bytes = SIZE_MAX;
}

/* ---- Chunks and the fingerprint ---- */

static void chunk_free(struct data_chunk *chunk) {
    free(chunk->kept[AML_TRAIN].records);
    free(chunk->kept[AML_TEST].records);
    free(chunk->places);
    free(chunk->totals);
    free(chunk);
}

/* Whether the chunk's items are of a file that the library reads, and not what `read` emits itself. */
static inline bool chunk_is_of_file(const struct data_chunk *chunk) {
    return (chunk->place >> 48) % 2 != 0;
}

static struct data_tally *tally_take(struct data *data, bool of_file) {
    pthread_mutex_lock(&data->lock);
    struct data_tally *tally = data->tallies[of_file];
    data->tallies[of_file] = tally != NULL ? tally->next : NULL;
    pthread_mutex_unlock(&data->lock);
    return tally != NULL ? tally : memory_zeroed(1, sizeof *tally + data->shard_count * sizeof *tally->shards);
}

/* Puts the chunk's tally back for another chunk. Under the lock. */
static void tally_put_back(struct data *data, struct data_chunk *chunk) {
    struct data_tally **list = &data->tallies[chunk_is_of_file(chunk)];
    chunk->tally->next = *list;
    *list = chunk->tally;
    chunk->tally = NULL;
}

/* 0: no fingerprint is made. bench_input compiles this file once more with 0, to measure the fingerprint's cost. */
#ifndef DATA_FINGERPRINT
#define DATA_FINGERPRINT 1
#endif

/* Counts an item, and adds the hash of its keys and bytes to the sum. A sum does not depend on the order of items. */
static void tally_add(struct data_tally *tally, uint32_t shard, uint64_t hash) {
    if (DATA_FINGERPRINT) {
        tally->shards[shard] += (hash_product)hash << 64 | 1;
    }
}

/* Frees the tallies of a kind, and returns their sums by shard. */
static struct wire_input_shard *tallies_sum(struct data *data, bool of_file) {
    struct wire_input_shard *sums = memory_zeroed(data->shard_count, sizeof *sums);
    while (data->tallies[of_file] != NULL) {
        struct data_tally *tally = data->tallies[of_file];
        for (uint32_t s = 0; s < data->shard_count; s++) {
            sums[s].items += (uint64_t)tally->shards[s];
            sums[s].hash += (uint64_t)(tally->shards[s] >> 64);
        }
        data->tallies[of_file] = tally->next;
        free(tally);
    }
    return sums;
}

/* Notes what `read` has emitted itself. */
static void note_own(struct data *data, const struct wire_input_shard *own) {
    struct wire_input_shard sum = {0};
    for (uint32_t s = 0; s < data->shard_count; s++) {
        sum.items += own[s].items;
        sum.hash += own[s].hash;
    }
    data->news = data->news || data->own.items != sum.items || data->own.hash != sum.hash;
    data->own = sum;
}

bool data_input_news(struct data *data) {
    pthread_mutex_lock(&data->lock);
    bool news = data->news && data->input != NULL;
    data->news = data->news && !news;
    pthread_mutex_unlock(&data->lock);
    return news;
}

void data_close(struct data *data) {
    if (data->shards == NULL) {
        return; /* never opened */
    }
    data_part_drop(data);
    for (uint32_t s = 0; s < data->shard_count; s++) {
        data_pieces_drop(data, &data->shards[s]);
        data_shard_drop(data, &data->shards[s]);
    }
    while (data->early != NULL) {
        struct data_chunk *next = data->early->next;
        chunk_free(data->early);
        data->early = next;
    }
    free(tallies_sum(data, false));
    free(tallies_sum(data, true));
    free(data->division.empty);
    free(data->input);
    free(data->shards);
    free(data->limit.unused);
    spill_close(&data->limit.records);
    pthread_cond_destroy(&data->limit.spilled);
    pthread_mutex_destroy(&data->lock);
    memset(data, 0, sizeof *data);
}

static uint64_t key_hash(uint64_t key) {
    return hash_mix(key ^ DATA_SHARD_SALT);
}

/* The hash's upper 48 bits modulo the number of shards, without a division. Exact, as there are at most 2^16 shards
 * (Lemire, Kaser, Kurz: Faster remainder by direct computation, 2019). */
static uint32_t shard_of_hash(const struct data *data, uint64_t hash) {
    uint64_t fraction = data->shard_inverse * (hash >> 16);
    return (uint32_t)hash_product_high(fraction, data->shard_count);
}

/* ---- Reading ---- */

void data_read_begin(struct data *data) {
    pthread_mutex_lock(&data->lock);
    bool all = !data->complete && data->budget > 0;
    for (uint32_t s = 0; s < data->shard_count; s++) {
        struct data_shard *shard = &data->shards[s];
        bool here = shard->held;
        shard->wish = here ? DATA_IGNORED : shard->pins > 0 ? DATA_WANTED : all ? DATA_WELCOME : DATA_IGNORED;
    }
    data->turn = 0;
    data->stretch = data->own_chunks = 0;
    data->division.reading = data->division.count;
    atomic_store_explicit(&data->welcome_over, false, memory_order_relaxed);
    pthread_mutex_unlock(&data->lock);
}

void data_read_part_begin(struct data *data, uint32_t part) {
    bool first = data->own.items == WIRE_ITEMS_UNKNOWN && part == data->division.index;
    data_read_begin(data);
    pthread_mutex_lock(&data->lock);
    assert(part < data->division.count);
    data->division.reading = part;
    data->division.divided = false;
    for (uint32_t s = 0; s < data->shard_count; s++) {
        struct data_shard *shard = &data->shards[s];
        bool lacking = shard->pins > 0 && !shard->held && !data_piece_of(data, shard, part)->here;
        shard->piece_wish = !data->division.over && (first || lacking);
    }
    pthread_mutex_unlock(&data->lock);
}

static bool shard_kept(const struct data *data, const struct data_shard *shard) {
    return shard->wish == DATA_WANTED ||
           (shard->wish == DATA_WELCOME && !atomic_load_explicit(&data->welcome_over, memory_order_relaxed));
}

/* Whether the chunk's items become records of pieces: those of files, when a part is read, and then also what `read`
 * emits behind the first file. */
static bool chunk_is_of_piece(const struct data *data, const struct data_chunk *chunk) {
    return data_reads_part(data) && (chunk_is_of_file(chunk) || data->division.divided);
}

/* Whether the reading keeps the chunk's items of this shard. */
static bool chunk_keeps(const struct data *data, const struct data_chunk *chunk, const struct data_shard *shard) {
    return !chunk_is_of_piece(data, chunk)
               ? shard_kept(data, shard)
               : shard->piece_wish && (chunk_is_of_file(chunk) || data->division.reading == 0);
}

/* Puts a record into the shard, or into its piece. */
static void fold_record(struct data *data, const struct data_chunk *chunk, struct data_shard *shard, unsigned use,
                        const unsigned char *record, size_t size) {
    if (chunk_is_of_piece(data, chunk)) {
        struct data_piece *piece = data_piece_of(data, shard, data->division.reading);
        memcpy(data_records_append(&piece->records[use], (uint32_t)(chunk->place >> 48), size), record, size);
        data->division.bytes += size;
    } else {
        memcpy(data_records_append(&shard->records[use], 0, size), record, size);
        data->bytes += size;
    }
}

/* Puts a chunk's records and totals into the shards, and frees it. */
static void chunk_fold(struct data *data, struct data_chunk *chunk) {
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        const unsigned char *entry = chunk->kept[use].records;
        for (size_t i = 0; i < chunk->kept[use].count; i++) {
            uint32_t number;
            memcpy(&number, entry, sizeof number);
            entry += sizeof number;
            struct data_shard *shard = &data->shards[number];
            size_t size = record_size(data, entry);
            if (chunk_keeps(data, chunk, shard)) {
                fold_record(data, chunk, shard, use, entry, size);
            }
            entry += size;
        }
        assert(chunk->kept[use].count == 0 || entry == chunk->kept[use].records + chunk->kept[use].bytes);
    }
    for (uint32_t t = 0; t < chunk->total_count; t++) {
        struct data_shard *shard = &data->shards[chunk->totals[t].shard];
        if (chunk_keeps(data, chunk, shard)) {
            totals_add(chunk_is_of_piece(data, chunk) ? data_piece_of(data, shard, data->division.reading)->totals
                                                      : shard->totals,
                       chunk->totals[t].values);
        }
    }
    data_pieces_fit(data);
    chunk_free(chunk);
    data_trim(data);
}

/* Puts the early chunks whose turn it is into the shards; with `all`, at the end of the reading, every early chunk. */
static void fold_early(struct data *data, bool all) {
    while (data->early != NULL && (all || data->early->order == data->turn)) {
        struct data_chunk *chunk = data->early;
        data->early = chunk->next;
        data->turn = chunk->order + 1;
        chunk_fold(data, chunk);
    }
}

/* Ends a reading that has kept whole shards. */
static void end_whole(struct data *data, bool whole, const struct wire_input_shard *own,
                      const struct wire_input_shard *file) {
    for (uint32_t s = 0; s < data->shard_count; s++) {
        struct data_shard *shard = &data->shards[s];
        if (whole) {
            data_input_add(data, s,
                           (struct wire_input_shard){own[s].items + file[s].items, own[s].hash + file[s].hash});
        }
        if (shard->wish == DATA_IGNORED) {
            continue;
        }
        shard->held = whole && shard_kept(data, shard);
        if (!shard->held) {
            data_shard_drop(data, shard);
        } else {
            data_pieces_drop(data, shard);
        }
        data_records_fit(&shard->records[AML_TRAIN]);
        data_records_fit(&shard->records[AML_TEST]);
        shard->wish = DATA_IGNORED;
    }
    data->complete = data->complete || whole;
    if (whole && data_reads_part(data)) { /* it came to no file, so all of the input was read */
        data_part_drop(data);
        for (uint32_t s = 0; s < data->shard_count; s++) {
            data_pieces_drop(data, &data->shards[s]);
        }
        free(data->division.empty);
        data->division = (struct data_division){.settled = data->division.settled};
    }
}

void data_read_end(struct data *data, bool whole) {
    pthread_mutex_lock(&data->lock);
    fold_early(data, true);
    data_spill_rest(data);
    whole = whole && !atomic_load(&data->limit.failed);
    struct wire_input_shard *own = tallies_sum(data, false);
    struct wire_input_shard *file = tallies_sum(data, true);
    if (whole) {
        note_own(data, own);
    }
    if (data_reads_part(data) && data->division.divided) {
        data_part_reading_end(data, whole, own, file);
    } else {
        end_whole(data, whole, own, file);
    }
    data->division.reading = data->division.count;
    free(own);
    free(file);
    pthread_mutex_unlock(&data->lock);
}

struct data_chunk *data_chunk_open(struct data *data, uint64_t order, uint64_t place) {
    struct data_chunk *chunk = memory_zeroed(1, sizeof *chunk);
    chunk->order = order;
    chunk->place = place;
    chunk->tally = tally_take(data, chunk_is_of_file(chunk));
    chunk->shard = -1;
    chunk->expected = atomic_load_explicit(&data->chunk_bytes, memory_order_relaxed);
    return chunk;
}

uint32_t data_stretch_begin(struct data *data) {
    data->own_chunks = 0;
    return ++data->stretch;
}

struct data_chunk *data_chunk_open_own(struct data *data) {
    uint32_t number = data->own_chunks++;
    return data_chunk_open(data, data_next_order(data),
                           data_place(data->stretch, number / DATA_EXTENT_CHUNKS_MAX, number));
}

uint64_t data_next_order(struct data *data) {
    pthread_mutex_lock(&data->lock);
    uint64_t order = data->turn;
    pthread_mutex_unlock(&data->lock);
    return order;
}

void data_chunk_close(struct data *data, struct data_chunk *chunk) {
    size_t bytes = chunk->kept[AML_TRAIN].bytes;
    atomic_store_explicit(&data->chunk_bytes, bytes + bytes / CHUNK_SPARE, memory_order_relaxed);
    pthread_mutex_lock(&data->lock);
    tally_put_back(data, chunk);
    struct data_chunk **place = &data->early;
    while (*place != NULL && (*place)->order < chunk->order) {
        place = &(*place)->next;
    }
    chunk->next = *place;
    *place = chunk;
    fold_early(data, false);
    data_spill_excess(data);
    pthread_mutex_unlock(&data->lock);
}

bool data_chunk_full(const struct data_chunk *chunk) {
    return chunk->given >= DATA_CHUNK_BYTES;
}

/* Counts an item of `shard`; `hash` is that of its keys and bytes. Returns memory for its record, or NULL if the item
 * is not kept. */
static inline unsigned char *chunk_append(const struct data *data, struct data_chunk *chunk, enum aml_item_use use,
                                          uint32_t shard, uint64_t hash, size_t size) {
    tally_add(chunk->tally, shard, hash);
    chunk->given += size;
    chunk->shard = -1;
    if (!chunk_keeps(data, chunk, &data->shards[shard])) {
        return NULL;
    }
    chunk->shard = shard;
    struct data_extent *kept = &chunk->kept[use];
    if (kept->records == NULL && use == AML_TRAIN && chunk->expected > 0) {
        kept->capacity = chunk->expected;
        kept->records = memory_resized(NULL, kept->capacity, 1);
    }
    unsigned char *entry = data_extent_append(kept, sizeof shard + size);
    memcpy(entry, &shard, sizeof shard);
    return entry + sizeof shard;
}

/* The number that an item without rows has in place of a key: a hash of its place in the input. */
static uint64_t next_number(struct data_chunk *chunk, enum aml_item_use use) {
    return hash_mix(hash_mix(2 * chunk->place + use) + chunk->emitted[use]++);
}

/* Returns the hash of a fixed item whose first key has the hash `first`. Reading a rating takes some 50 ns, so the hash
 * of two keys and four bytes costs only one multiplication. */
static uint64_t item_hash(const struct data *data, enum aml_item_use use, uint64_t first, const uint64_t *keys,
                          const void *bytes) {
    static const uint64_t USE_SALT[] = {UINT64_C(0xE7037ED1A0B428DB), UINT64_C(0x8EBC6AF09C88C6E3)};
    uint64_t second = USE_SALT[use] ^ (data->item_rows > 1 ? keys[1] : 0);
    return data->item_bytes == sizeof(uint32_t) ? hash_folded(first ^ hash_half_word(bytes), second)
                                                : hash_bytes(bytes, data->item_bytes, hash_folded(first, second));
}

/* Emits a fixed item whose first key, or its number if it has no rows, has the hash `first`. */
static int emit_fixed(const struct data *data, struct data_chunk *chunk, enum aml_item_use use, uint64_t first,
                      const uint64_t *keys, const void *bytes) {
    unsigned char *record = chunk_append(data, chunk, use, shard_of_hash(data, first),
                                         item_hash(data, use, first, keys, bytes), data->record_size);
    if (record == NULL) {
        return 0;
    }
    size_t key_bytes = data->item_rows * sizeof *keys;
    size_t used = key_bytes + data->item_bytes;
    if (key_bytes > 0) {
        memcpy(record, keys, key_bytes);
    }
    if (data->item_bytes > 0) {
        memcpy(record + key_bytes, bytes, data->item_bytes);
    }
    memset(record + used, 0, data->record_size - used);
    return 1;
}

int data_emit(const struct data *data, struct data_chunk *chunk, enum aml_item_use use, const uint64_t *keys,
              const void *bytes) {
    return emit_fixed(data, chunk, use, key_hash(data->item_rows > 0 ? keys[0] : next_number(chunk, use)), keys, bytes);
}

int data_emit_numbered(const struct data *data, struct data_chunk *chunk, enum aml_item_use use, uint64_t number,
                       const void *bytes) {
    const uint64_t keys[AML_ITEM_ROWS_MAX] = {number}; /* items have none */
    return emit_fixed(data, chunk, use, key_hash(number), keys, bytes);
}

/* Returns the hash of a varied item whose key has the hash `first`. */
static uint64_t varied_hash(enum aml_item_use use, uint64_t first, const struct aml_keys *runs, unsigned run_count,
                            const void *bytes, size_t size) {
    uint64_t hash = hash_pair(first, 2 * (uint64_t)run_count + use);
    for (unsigned r = 0; r < run_count; r++) {
        uint64_t kind = (uint64_t)runs[r].table << 32 | runs[r].count;
        hash = hash_bytes((const void *)runs[r].keys, runs[r].count * sizeof *runs[r].keys, hash_pair(hash, kind));
    }
    return hash_bytes(bytes, size, hash);
}

static bool keys_are_short(const struct aml_keys *runs, unsigned run_count) {
    uint64_t all = 0;
    for (unsigned r = 0; r < run_count; r++) {
        for (uint32_t i = 0; i < runs[r].count; i++) {
            all |= runs[r].keys[i];
        }
    }
    return all <= UINT32_MAX;
}

static unsigned char *write_keys(unsigned char *at, const struct aml_keys *run, size_t key_bytes) {
    if (key_bytes == sizeof *run->keys && run->count > 0) {
        memcpy(at, run->keys, run->count * sizeof *run->keys);
    }
    for (uint32_t i = 0; i < run->count && key_bytes == sizeof(uint32_t); i++) {
        uint32_t key = (uint32_t)run->keys[i];
        memcpy(at + i * sizeof key, &key, sizeof key);
    }
    return at + run->count * key_bytes;
}

/* Emits a varied item without rows, which is its own record. */
static int emit_rowless(const struct data *data, struct data_chunk *chunk, enum aml_item_use use, uint64_t key,
                        const void *bytes, size_t size) {
    const struct aml_item item = {.row_count = 0, .size = (uint32_t)size};
    uint64_t first = key_hash(key);
    unsigned char *record =
        chunk_append(data, chunk, use, shard_of_hash(data, first), varied_hash(use, first, NULL, 0, bytes, size),
                     sizeof item + round_up(size, 4));
    if (record == NULL) {
        return 0;
    }
    memcpy(record, &item, sizeof item);
    record += sizeof item;
    if (size > 0) {
        memcpy(record, bytes, size);
    }
    memset(record + size, 0, round_up(size, 4) - size);
    return 1;
}

int data_emit_varied(const struct data *data, struct data_chunk *chunk, enum aml_item_use use, uint64_t key,
                     const struct aml_keys *runs, unsigned run_count, const void *bytes, size_t size) {
    if (data->rowless) {
        return emit_rowless(data, chunk, use, key, bytes, size);
    }
    struct record_head head = {.runs = (uint16_t)run_count, .size = (uint32_t)size};
    for (unsigned r = 0; r < run_count; r++) {
        head.rows += runs[r].count;
    }
    head.key_bytes = keys_are_short(runs, run_count) ? sizeof(uint32_t) : sizeof(uint64_t);
    head.bytes =
        (uint32_t)(sizeof head + run_count * 2 * sizeof(uint32_t) + head.rows * head.key_bytes + round_up(size, 4));
    uint64_t first = key_hash(key);
    unsigned char *record = chunk_append(data, chunk, use, shard_of_hash(data, first),
                                         varied_hash(use, first, runs, run_count, bytes, size), head.bytes);
    if (record == NULL) {
        return 0;
    }
    unsigned char *at = record;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (unsigned r = 0; r < run_count; r++, at += 2 * sizeof(uint32_t)) {
        memcpy(at, (const uint32_t[2]){runs[r].table, runs[r].count}, 2 * sizeof(uint32_t));
    }
    for (unsigned r = 0; r < run_count; r++) {
        at = write_keys(at, &runs[r], head.key_bytes);
    }
    if (size > 0) {
        memcpy(at, bytes, size);
    }
    memset(at + size, 0, round_up(size, 4) - size);
    return 1;
}

double *data_totals(const struct data *data, struct data_chunk *chunk) {
    if (chunk->shard < 0) {
        return NULL;
    }
    if (chunk->places == NULL) {
        chunk->places = memory_zeroed(data->shard_count, sizeof *chunk->places);
    }
    uint32_t *place = &chunk->places[chunk->shard];
    if (*place == 0) {
        uint32_t count = chunk->total_count++;
        if ((count & (count - 1)) == 0) { /* a power of two: full */
            chunk->totals = memory_resized(chunk->totals, count > 0 ? 2 * (size_t)count : 1, sizeof *chunk->totals);
        }
        chunk->totals[count].shard = (uint32_t)chunk->shard;
        totals_clear(chunk->totals[count].values);
        *place = count + 1;
    }
    return chunk->totals[*place - 1].values;
}
