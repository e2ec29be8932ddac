/* See input_deal.h. */
#include "workers/data/input_deal.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Parts ---- */

void input_deal_open(struct input_deal *deal, uint32_t parts, uint64_t least) {
    *deal = (struct input_deal){.parts = parts,
                                .least = least,
                                .bytes = memory_zeroed(parts, sizeof *deal->bytes),
                                .first = memory_zeroed(parts + (size_t)1, sizeof *deal->first)};
}

void input_deal_close(struct input_deal *deal) {
    free(deal->bytes);
    free(deal->first);
    *deal = (struct input_deal){0};
}

/* At least 1, so that extents of unknown size are dealt evenly, too. */
static uint64_t extent_bytes(const struct extents *extents, uint32_t extent) {
    uint64_t bytes = extents_bytes(extents, (struct extent_range){extent, extent + 1});
    return bytes > 0 ? bytes : 1;
}

static int bytes_order(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one;
    uint64_t b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* Marks the `count` parts that have the fewest bytes so far; of equal ones the first. */
static bool *mark_emptiest(const struct input_deal *deal, uint32_t count) {
    bool *marked = memory_zeroed(deal->parts, sizeof *marked);
    uint64_t *bytes = memory_zeroed(deal->parts, sizeof *bytes);
    memcpy(bytes, deal->bytes, deal->parts * sizeof *bytes);
    qsort(bytes, deal->parts, sizeof *bytes, bytes_order);
    const uint64_t most = bytes[count - 1];
    uint32_t below = 0; /* parts with fewer than `most`: all of these are marked */
    for (uint32_t p = 0; p < count && bytes[p] < most; p++) {
        below++;
    }
    uint32_t equal = count - below;
    for (uint32_t p = 0; p < deal->parts; p++) {
        marked[p] = deal->bytes[p] < most || (deal->bytes[p] == most && equal > 0);
        equal -= deal->bytes[p] == most && equal > 0 ? 1 : 0;
    }
    free(bytes);
    return marked;
}

/* Returns the level to which `more` bytes fill up the marked parts, beginning with those that have the fewest. */
static uint64_t level_with(const struct input_deal *deal, const bool *marked, uint64_t more) {
    uint64_t *bytes = memory_zeroed(deal->parts, sizeof *bytes);
    uint32_t count = 0;
    for (uint32_t p = 0; p < deal->parts; p++) {
        bytes[count] = deal->bytes[p];
        count += marked[p] ? 1 : 0;
    }
    qsort(bytes, count, sizeof *bytes, bytes_order);
    uint64_t sum = more;
    uint64_t level = 0;
    for (uint32_t p = 0; p < count && (p == 0 || level > bytes[p]); p++) {
        sum += bytes[p];
        level = (sum + p) / (p + UINT64_C(1)); /* rounded up */
    }
    free(bytes);
    return level;
}

void input_deal_file(struct input_deal *deal, const struct extents *extents) {
    uint64_t total = 0;
    for (uint32_t s = 0; s < extents->count; s++) {
        total += extent_bytes(extents, s);
    }
    uint64_t most = deal->least > 0 && total / deal->least < deal->parts ? total / deal->least : deal->parts;
    bool *marked = mark_emptiest(deal, most > 0 ? (uint32_t)most : 1);
    uint64_t level = level_with(deal, marked, total);
    uint64_t wanted = 0; /* bytes of the file that this part and those before it want */
    uint64_t dealt = 0;
    uint32_t s = 0;
    for (uint32_t p = 0; p < deal->parts; p++) {
        deal->first[p] = s;
        wanted += marked[p] && level > deal->bytes[p] ? level - deal->bytes[p] : 0;
        /* Takes the extents whose first half is still wanted. The last part that wants any takes what is left. */
        for (; s < extents->count && marked[p] && dealt + extent_bytes(extents, s) / 2 < wanted; s++) {
            dealt += extent_bytes(extents, s);
            deal->bytes[p] += extent_bytes(extents, s);
        }
    }
    deal->first[deal->parts] = s;
    free(marked);
    assert(s == extents->count); /* the level is rounded up, so the parts want all of the file */
}

struct extent_range input_deal_part(const struct input_deal *deal, uint32_t index) {
    assert(index < deal->parts && deal->first[index] <= deal->first[index + 1]);
    return (struct extent_range){.first = deal->first[index], .end = deal->first[index + 1]};
}

/* ---- Samples ---- */

/* The state of a sampling. */
struct sampling {
    const struct extents *extents;
    uint64_t bytes; /* of the file */
    unsigned char *block;
    bool failed;
};

/* Adds the block's place and bytes to the hash. */
static uint64_t sample_block(struct sampling *sampling, uint64_t offset, uint64_t hash) {
    struct error error;
    uint64_t left = sampling->bytes - offset;
    size_t size = left < INPUT_SAMPLE_BYTES ? (size_t)left : INPUT_SAMPLE_BYTES;
    size_t got = 0;
    if (sampling->failed || source_read_at(sampling->extents->path, &extents_file(sampling->extents)->identity, offset,
                                           sampling->block, size, &got, &error) != 0) {
        sampling->failed = true;
        return 0;
    }
    return hash_bytes(sampling->block, got, hash_pair(hash, offset));
}

static uint64_t sample_blocks(struct sampling *sampling) {
    uint64_t bytes = sampling->bytes;
    uint64_t hash = bytes;
    bool all = bytes <= (uint64_t)INPUT_SAMPLES * INPUT_SAMPLE_BYTES;
    uint64_t count = all ? (bytes + INPUT_SAMPLE_BYTES - 1) / INPUT_SAMPLE_BYTES : INPUT_SAMPLES;
    for (uint64_t b = 0; b < count; b++) {
        /* In two steps, so that the product can't overflow. */
        uint64_t range = bytes - INPUT_SAMPLE_BYTES;
        uint64_t spread = range / (INPUT_SAMPLES - 1) * b + range % (INPUT_SAMPLES - 1) * b / (INPUT_SAMPLES - 1);
        hash = sample_block(sampling, all ? b * INPUT_SAMPLE_BYTES : spread, hash);
    }
    return sampling->failed ? 0 : hash | 1;
}

static uint64_t sample_borders(struct sampling *sampling, const struct input_deal *deal) {
    const struct extents *extents = sampling->extents;
    uint64_t hash = deal->parts;
    uint32_t before = 0;
    for (uint32_t p = 1; p < deal->parts; p++) {
        uint32_t first = input_deal_part(deal, p).first;
        if (first > before && first < extents->count) {
            uint64_t border = extents->at[first].offset;
            uint64_t half = INPUT_SAMPLE_BYTES / 2;
            hash = sample_block(sampling, border > half ? border - half : 0, hash);
            before = first;
        }
    }
    return sampling->failed ? 0 : hash | 1;
}

struct input_sample input_sample(const struct extents *extents, const struct input_deal *deal) {
    struct input_sample sample = {0};
    struct sampling sampling = {.extents = extents, .bytes = extents_file(extents)->identity.bytes};
    if (sampling.bytes != SOURCE_TO_END) {
        sampling.block = memory_resized(NULL, INPUT_SAMPLE_BYTES, 1);
        sample.blocks = sample_blocks(&sampling);
        sample.borders = deal->parts > 1 ? sample_borders(&sampling, deal) : 0;
        free(sampling.block);
    }
    return sample;
}
