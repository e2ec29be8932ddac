/* An input that is divided among nodes. Reads a part, puts shards together from the pieces of all parts, and packs
 * pieces as bytes for other nodes. See data.h. */
#include "workers/data/data_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

/* ---- Putting shards together ---- */

struct place {
    uint32_t stretch, part;
    struct data_passage *segment;
};

static int place_order(const void *one, const void *other) {
    const struct place *a = one;
    const struct place *b = other;
    if (a->stretch != b->stretch) {
        return a->stretch < b->stretch ? -1 : 1;
    }
    return a->part < b->part ? -1 : a->part > b->part;
}

/* Appends the segments' records in the order of the input: by stretch, then by part. */
static void join_segments(struct data *data, struct data_shard *shard, struct place *places, size_t count) {
    qsort(places, count, sizeof *places, place_order);
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        struct data_run run = {0};
        for (size_t p = 0; p < count; p++) {
            run.bytes += places[p].segment->runs[use].bytes;
            run.count += places[p].segment->runs[use].count;
        }
        run.capacity = run.bytes;
        run.records = memory_resized(NULL, run.bytes, 1);
        size_t at = 0;
        for (size_t p = 0; p < count; p++) {
            const struct data_run *part = &places[p].segment->runs[use];
            if (part->bytes > 0) {
                memcpy(run.records + at, part->records, part->bytes);
                at += part->bytes;
            }
        }
        shard->runs[use] = run;
        data->bytes += run.bytes;
    }
}

static bool all_pieces_here(struct data *data, struct data_shard *shard, size_t *segments) {
    *segments = 0;
    for (uint32_t p = 0; p < data->division.count; p++) {
        const struct data_piece *piece = data_piece_of(data, shard, p);
        if (!piece->here) {
            return false;
        }
        *segments += piece->count;
    }
    return true;
}

/* Puts the shard together if all its pieces are here. */
static void put_together(struct data *data, uint32_t number) {
    struct data_shard *shard = &data->shards[number];
    struct wire_input_shard tally = {0};
    size_t count;
    if (!all_pieces_here(data, shard, &count)) {
        return;
    }
    struct place *places = memory_zeroed(count + 1, sizeof *places);
    count = 0;
    totals_clear(shard->totals);
    for (uint32_t p = 0; p < data->division.count; p++) {
        struct data_piece *piece = data_piece_of(data, shard, p);
        for (uint32_t s = 0; s < piece->count; s++) {
            places[count++] = (struct place){piece->segments[s].stretch, p, &piece->segments[s]};
        }
        totals_add(shard->totals, piece->totals);
        tally.items += piece->tally.items;
        tally.hash += piece->tally.hash;
    }
    join_segments(data, shard, places, count);
    free(places);
    data_pieces_drop(data, shard);
    data_piece_close(data, &shard->piece);
    shard->held = true;
    data_input_add(data, number, tally);
    data_trim(data);
}

/* ---- Reading a part ---- */

void data_divide(struct data *data, uint32_t count, uint32_t index) {
    pthread_mutex_lock(&data->lock);
    data->division = (struct data_division){.count = count, .index = index, .reading = count};
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
        bool moves = division->reading == 0 && shard->piece_wish &&
                     shard->runs[AML_TRAIN].count + shard->runs[AML_TEST].count > 0;
        if (moves) {
            struct data_passage *segment = data_piece_segment(data, shard, 0);
            struct data_piece *piece = data_piece_of(data, shard, division->reading);
            memcpy(segment->runs, shard->runs, sizeof segment->runs);
            memcpy(piece->totals, shard->totals, sizeof piece->totals);
            memset(shard->runs, 0, sizeof shard->runs);
            size_t bytes = segment->runs[AML_TRAIN].bytes + segment->runs[AML_TEST].bytes;
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
        uint64_t records = 0;
        for (uint32_t i = 0; i < piece->count; i++) {
            for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
                data_run_fit(&piece->segments[i].runs[use]);
                records += piece->segments[i].runs[use].count;
            }
        }
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
            found += !data->division.over && !piece->here && !piece->gone ? 1 : 0;
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
        for (uint32_t s = 0; s < count && !missing; s++) {
            struct data_shard *shard = &data->shards[shards[s]];
            missing = !shard->held && !data_piece_of(data, shard, p)->here;
        }
        parts[found] = p;
        found += missing ? 1 : 0;
    }
    pthread_mutex_unlock(&data->lock);
    return found;
}

/* ---- Pieces as bytes ---- */

/* A packed piece: this head, then a segment_head for each segment, then the segments' records. Each segment has its
 * training records first. */
struct piece_head {
    char magic[4]; /* "PSP1" */
    uint32_t shard, part, parts;
    uint32_t segments;
    uint32_t gone;  /* 1: the piece is not here, and nothing follows */
    uint64_t hash;  /* of all bytes but this */
    uint64_t bytes; /* of the records */
    struct wire_input_shard tally;
    double totals[WIRE_TOTALS];
};

struct segment_head {
    uint32_t stretch, unused;
    uint64_t counts[2], bytes[2]; /* by enum aml_item_use */
};

static const char MAGIC[4] = {'P', 'S', 'P', '1'};

/* The bytes that follow the head. */
static uint64_t behind_bytes(const struct piece_head *head) {
    return head->segments * (uint64_t)sizeof(struct segment_head) + head->bytes;
}

static uint64_t piece_hash(const struct piece_head *head, const unsigned char *behind) {
    struct piece_head hashed = *head;
    hashed.hash = 0;
    return hash_bytes(behind, behind_bytes(head), hash_bytes((const unsigned char *)&hashed, sizeof hashed, 0));
}

static struct piece_head head_of(const struct data *data, uint32_t number, const struct data_piece *piece) {
    struct piece_head head = {
        .shard = number, .part = data->division.index, .parts = data->division.count, .gone = piece->here ? 0 : 1};
    memcpy(head.magic, MAGIC, sizeof head.magic);
    if (piece->here) {
        head.segments = piece->count;
        head.bytes = data_piece_bytes(piece);
        head.tally = piece->tally;
        memcpy(head.totals, piece->totals, sizeof head.totals);
    }
    return head;
}

static void pack_piece(const struct data *data, uint32_t number, unsigned char *at) {
    const struct data_piece *piece = &data->shards[number].piece;
    struct piece_head head = head_of(data, number, piece);
    unsigned char *segments = at + sizeof head;
    unsigned char *records = segments + head.segments * sizeof(struct segment_head);
    for (uint32_t s = 0; s < head.segments; s++) {
        struct segment_head segment = {.stretch = piece->segments[s].stretch};
        for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
            const struct data_run *run = &piece->segments[s].runs[use];
            segment.counts[use] = run->count;
            segment.bytes[use] = run->bytes;
            if (run->bytes > 0) {
                memcpy(records, run->records, run->bytes);
                records += run->bytes;
            }
        }
        memcpy(segments + s * sizeof segment, &segment, sizeof segment);
    }
    head.hash = piece_hash(&head, segments);
    memcpy(at, &head, sizeof head);
}

struct buffer *data_pack_pieces(struct data *data, const uint32_t *shards, uint32_t count, size_t limit) {
    size_t size = 0;
    uint32_t packed = 0;
    pthread_mutex_lock(&data->lock);
    while (packed < count && (packed == 0 || size < limit)) {
        struct piece_head head = head_of(data, shards[packed], &data->shards[shards[packed]].piece);
        size += sizeof head + behind_bytes(&head);
        packed++;
    }
    struct buffer *bytes = buffer_new(size);
    size = 0;
    for (uint32_t s = 0; s < packed; s++) {
        struct piece_head head = head_of(data, shards[s], &data->shards[shards[s]].piece);
        pack_piece(data, shards[s], bytes->data + size);
        size += sizeof head + behind_bytes(&head);
    }
    pthread_mutex_unlock(&data->lock);
    return bytes;
}

/* Checks one segment, and moves *records past its records. */
static bool segment_is_good(const struct data *data, const struct segment_head *segment, const unsigned char **records,
                            uint64_t *left, uint64_t *items) {
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        if (segment->bytes[use] > *left ||
            !data_records_are_good(data, *records, segment->counts[use], segment->bytes[use])) {
            return false;
        }
        *records += segment->bytes[use];
        *left -= segment->bytes[use];
        *items += segment->counts[use];
    }
    return true;
}

static bool piece_is_good(const struct data *data, uint32_t part, uint32_t shard, const unsigned char *bytes,
                          size_t size, struct piece_head *head) {
    if (size < sizeof *head) {
        return false;
    }
    memcpy(head, bytes, sizeof *head);
    size -= sizeof *head;
    if (memcmp(head->magic, MAGIC, sizeof MAGIC) != 0 || head->shard != shard || head->part != part ||
        head->parts != data->division.count || head->segments > DATA_STRETCHES_MAX || head->gone > 1 ||
        head->bytes > size || behind_bytes(head) > size || head->hash != piece_hash(head, bytes + sizeof *head)) {
        return false;
    }
    const unsigned char *segments = bytes + sizeof *head;
    const unsigned char *records = segments + head->segments * sizeof(struct segment_head);
    uint64_t left = head->bytes;
    uint64_t items = 0;
    uint32_t next = 0;
    for (uint32_t s = 0; s < head->segments; s++) {
        struct segment_head segment;
        memcpy(&segment, segments + s * sizeof segment, sizeof segment);
        if (segment.stretch < next || segment.stretch >= DATA_STRETCHES_MAX ||
            !segment_is_good(data, &segment, &records, &left, &items)) {
            return false;
        }
        next = segment.stretch + 1;
    }
    return left == 0 && items == head->tally.items;
}

static void take_piece(struct data *data, struct data_shard *shard, const struct piece_head *head,
                       const unsigned char *segments) {
    struct data_piece *piece = data_piece_of(data, shard, head->part);
    const unsigned char *records = segments + head->segments * sizeof(struct segment_head);
    piece->gone = head->gone != 0;
    if (piece->gone) {
        return;
    }
    for (uint32_t s = 0; s < head->segments; s++) {
        struct segment_head packed;
        memcpy(&packed, segments + s * sizeof packed, sizeof packed);
        struct data_passage *segment = data_piece_add(piece, packed.stretch);
        for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
            struct data_run *run = &segment->runs[use];
            *run = (struct data_run){
                .count = packed.counts[use], .bytes = packed.bytes[use], .capacity = packed.bytes[use]};
            run->records = memory_resized(NULL, run->bytes, 1);
            if (run->bytes > 0) {
                memcpy(run->records, records, run->bytes);
                records += run->bytes;
            }
        }
    }
    data->division.bytes += head->bytes;
    piece->tally = head->tally;
    memcpy(piece->totals, head->totals, sizeof piece->totals);
    piece->here = true;
}

bool data_take_pieces(struct data *data, uint32_t part, const uint32_t *shards, uint32_t count,
                      const unsigned char *bytes, size_t size) {
    bool good = size > 0 && part < data->division.count && part != data->division.index;
    pthread_mutex_lock(&data->lock);
    for (uint32_t s = 0; good && size > 0; s++) {
        struct piece_head head;
        good = s < count && piece_is_good(data, part, shards[s], bytes, size, &head);
        if (!good) {
            break;
        }
        struct data_shard *shard = &data->shards[shards[s]];
        if (shard->pins > 0 && !shard->held && !data->division.over && !data_piece_of(data, shard, part)->here) {
            take_piece(data, shard, &head, bytes + sizeof head);
            put_together(data, shards[s]);
            data_pieces_fit(data);
        }
        size_t taken = sizeof head + (size_t)behind_bytes(&head);
        bytes += taken;
        size -= taken;
    }
    pthread_mutex_unlock(&data->lock);
    return good;
}
