/* See splits.h. */
#include "workers/data/splits.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* `size`: as for input_splits_make. */
static int make_splits(struct splits *splits, const char *path, uint64_t size, struct error *error) {
    struct stat status;
    *splits = (struct splits){0};
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        return error_set(error, AML_EINPUT, "%s: cannot read: %s", text_input_name(path), strerror(EISDIR));
    }
    splits->path = path;
    int code = input_list_add(&splits->list, path, error);
    if (code == 0 && splits->list.count > 1) {
        code = error_set(error, AML_EINPUT, "%s: %zu files, expected one", text_input_name(path), splits->list.count);
    }
    code = code != 0 ? code : input_splits_make(&splits->cut, &splits->list, size, error);
    if (code != 0) {
        input_list_close(&splits->list);
        splits->path = NULL;
        return code;
    }
    splits->count = (uint32_t)splits->cut.count;
    return 0;
}

int splits_make(struct splits *splits, const char *path, struct error *error) {
    return make_splits(splits, path, 0, error);
}

int splits_make_whole(struct splits *splits, const char *path, struct error *error) {
    return make_splits(splits, path, INPUT_SPLIT_WHOLE, error);
}

void splits_close(struct splits *splits) {
    if (splits->path != NULL) {
        input_splits_close(&splits->cut);
        input_list_close(&splits->list);
        *splits = (struct splits){0};
    }
}

struct split_part splits_all(const struct splits *splits) {
    return (struct split_part){.end = splits->count};
}

static const struct input_file *file_of(const struct splits *splits) {
    return &splits->cut.files[0];
}

/* ---- Parts ---- */

void splits_deal_open(struct splits_deal *deal, uint32_t parts) {
    *deal = (struct splits_deal){.parts = parts,
                                 .bytes = memory_zeroed(parts, sizeof *deal->bytes),
                                 .first = memory_zeroed(parts + (size_t)1, sizeof *deal->first)};
}

void splits_deal_close(struct splits_deal *deal) {
    free(deal->bytes);
    free(deal->first);
    *deal = (struct splits_deal){0};
}

/* At least 1, so that splits of unknown size are dealt evenly, too. */
static uint64_t split_bytes(const struct splits *splits, uint32_t split) {
    uint64_t bytes = splits_part_bytes(splits, (struct split_part){split, split + 1});
    return bytes > 0 ? bytes : 1;
}

static int bytes_order(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one;
    uint64_t b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

/* Returns the level to which `more` bytes fill up the parts, beginning with those that have the fewest. */
static uint64_t level_with(const struct splits_deal *deal, uint64_t more) {
    uint64_t *bytes = memory_zeroed(deal->parts, sizeof *bytes);
    memcpy(bytes, deal->bytes, deal->parts * sizeof *bytes);
    qsort(bytes, deal->parts, sizeof *bytes, bytes_order);
    uint64_t sum = more;
    uint64_t level = 0;
    for (uint32_t p = 0; p < deal->parts && (p == 0 || level > bytes[p]); p++) {
        sum += bytes[p];
        level = (sum + p) / (p + UINT64_C(1)); /* rounded up */
    }
    free(bytes);
    return level;
}

void splits_deal_file(struct splits_deal *deal, const struct splits *splits) {
    uint64_t total = 0;
    for (uint32_t s = 0; s < splits->count; s++) {
        total += split_bytes(splits, s);
    }
    uint64_t level = level_with(deal, total);
    uint64_t wanted = 0; /* bytes of the file that this part and those before it want */
    uint64_t dealt = 0;
    uint32_t s = 0;
    for (uint32_t p = 0; p < deal->parts; p++) {
        deal->first[p] = s;
        wanted += level > deal->bytes[p] ? level - deal->bytes[p] : 0;
        /* Takes the splits whose first half is still wanted. The last part that wants any takes what is left. */
        for (; s < splits->count && dealt + split_bytes(splits, s) / 2 < wanted; s++) {
            dealt += split_bytes(splits, s);
            deal->bytes[p] += split_bytes(splits, s);
        }
    }
    deal->first[deal->parts] = s;
}

struct split_part splits_part(const struct splits_deal *deal, uint32_t index) {
    return (struct split_part){.first = deal->first[index], .end = deal->first[index + 1]};
}

uint64_t splits_part_bytes(const struct splits *splits, struct split_part part) {
    uint64_t size = file_of(splits)->identity.bytes;
    uint64_t bytes = 0;
    for (uint32_t s = part.first; s < part.end && size != SOURCE_TO_END; s++) {
        const struct input_split *split = &splits->cut.splits[s];
        bytes += split->length != SOURCE_TO_END ? split->length : size - split->offset;
    }
    return bytes;
}

/* ---- Samples ---- */

/* The state of a sampling. */
struct sampling {
    const struct splits *splits;
    uint64_t bytes; /* of the file */
    unsigned char *block;
    bool failed;
};

/* Adds the block's place and bytes to the hash. */
static uint64_t sample_block(struct sampling *sampling, uint64_t offset, uint64_t hash) {
    struct error error;
    uint64_t left = sampling->bytes - offset;
    size_t size = left < SPLIT_SAMPLE_BYTES ? (size_t)left : SPLIT_SAMPLE_BYTES;
    size_t got = 0;
    if (sampling->failed || source_read_at(sampling->splits->path, &file_of(sampling->splits)->identity, offset,
                                           sampling->block, size, &got, &error) != 0) {
        sampling->failed = true;
        return 0;
    }
    return hash_bytes(sampling->block, got, hash_pair(hash, offset));
}

static uint64_t sample_blocks(struct sampling *sampling) {
    uint64_t bytes = sampling->bytes;
    uint64_t hash = bytes;
    bool all = bytes <= (uint64_t)SPLIT_SAMPLES * SPLIT_SAMPLE_BYTES;
    uint64_t count = all ? (bytes + SPLIT_SAMPLE_BYTES - 1) / SPLIT_SAMPLE_BYTES : SPLIT_SAMPLES;
    for (uint64_t b = 0; b < count; b++) {
        /* In two steps, so that the product can't overflow. */
        uint64_t range = bytes - SPLIT_SAMPLE_BYTES;
        uint64_t spread = range / (SPLIT_SAMPLES - 1) * b + range % (SPLIT_SAMPLES - 1) * b / (SPLIT_SAMPLES - 1);
        hash = sample_block(sampling, all ? b * SPLIT_SAMPLE_BYTES : spread, hash);
    }
    return sampling->failed ? 0 : hash | 1;
}

static uint64_t sample_borders(struct sampling *sampling, const struct splits_deal *deal) {
    const struct splits *splits = sampling->splits;
    uint64_t hash = deal->parts;
    uint32_t before = 0;
    for (uint32_t p = 1; p < deal->parts; p++) {
        uint32_t first = splits_part(deal, p).first;
        if (first > before && first < splits->count) {
            uint64_t border = splits->cut.splits[first].offset;
            uint64_t half = SPLIT_SAMPLE_BYTES / 2;
            hash = sample_block(sampling, border > half ? border - half : 0, hash);
            before = first;
        }
    }
    return sampling->failed ? 0 : hash | 1;
}

struct split_sample splits_sample(const struct splits *splits, const struct splits_deal *deal) {
    struct split_sample sample = {0};
    struct sampling sampling = {.splits = splits, .bytes = file_of(splits)->identity.bytes};
    if (sampling.bytes != SOURCE_TO_END) {
        sampling.block = memory_resized(NULL, SPLIT_SAMPLE_BYTES, 1);
        sample.blocks = sample_blocks(&sampling);
        sample.borders = deal->parts > 1 ? sample_borders(&sampling, deal) : 0;
        free(sampling.block);
    }
    return sample;
}
