/* See input_range.h. */
#include "workers/data/input_range.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void input_range_begin(struct input_range *range, const struct extents *extents, struct extent_range which) {
    *range = (struct input_range){.first = 0};
    uint64_t bytes = extents_bytes(extents, which);
    if (bytes > 0) {
        range->first = range->at = extents->at[which.first].offset;
        range->end = range->first + bytes;
    }
}

/* ---- The sample ---- */

struct block {
    uint64_t first, end; /* bytes of the file */
};

static uint64_t block_count(const struct input_range *range) {
    uint64_t bytes = (range->end - range->first) / INPUT_RANGE_SAMPLED;
    uint64_t count = bytes / INPUT_RANGE_BLOCK_LEAST;
    return bytes == 0 ? 0 : count == 0 ? 1 : count < INPUT_RANGE_BLOCKS ? count : INPUT_RANGE_BLOCKS;
}

/* Returns a block: at a place in its stretch of the range that is the same in every process. */
static struct block block_at(const struct input_range *range, uint64_t number) {
    uint64_t stretch = (range->end - range->first) / block_count(range);
    uint64_t bytes = stretch / INPUT_RANGE_SAMPLED;
    uint64_t first = range->first + number * stretch + hash_seeded(range->end, number) % (stretch - bytes + 1);
    return (struct block){.first = first, .end = first + bytes};
}

/* Adds what bytes at range->at have of the sample. */
static void add_to_sample(struct input_range *range, const unsigned char *bytes, size_t size) {
    const uint64_t end = range->at + size;
    for (uint64_t count = block_count(range); range->block < count; range->block++) {
        struct block block = block_at(range, range->block);
        uint64_t from = block.first > range->at ? block.first : range->at;
        uint64_t to = block.end < end ? block.end : end;
        if (from < to) {
            hash_stream_add(&range->sample, bytes + (from - range->at), (size_t)(to - from));
        }
        if (block.end > end) {
            return;
        }
    }
}

/* ---- Both hashes ---- */

void input_range_add(void *context, uint64_t offset, const unsigned char *bytes, size_t size) {
    struct input_range *range = context;
    if (offset == range->at && size <= range->end - range->at) {
        hash_stream_add(&range->all, bytes, size);
        add_to_sample(range, bytes, size);
        range->at += size;
    }
}

uint64_t input_range_hash(const struct input_range *range) {
    bool all = range->first < range->end && range->all.size == range->end - range->first;
    return all ? hash_stream_end(&range->all) | 1 : 0;
}

uint64_t input_range_sample(const struct input_range *range) {
    uint64_t count = range->first < range->end ? block_count(range) : 0;
    return count > 0 && range->block == count ? hash_stream_end(&range->sample) | 1 : 0;
}

/* Reads bytes [range->at, end) of the file. Returns whether they were all there. */
static bool read_block(struct input_range *range, uint64_t end, const char *path,
                       const struct source_identity *identity, unsigned char *room) {
    struct source *source = NULL;
    struct error error;
    size_t got = 1;
    if (source_open(&source, path, identity, range->at, end - range->at, &error) != 0) {
        return false;
    }
    while (range->at < end && got > 0) {
        size_t size = end - range->at < INPUT_RANGE_BLOCK_LEAST ? (size_t)(end - range->at) : INPUT_RANGE_BLOCK_LEAST;
        if (source_read(source, room, size, &got, &error) != 0) {
            break;
        }
        add_to_sample(range, room, got);
        range->at += got;
    }
    source_close(source);
    return range->at == end;
}

void input_range_read_sample(struct input_range *range, const char *path, const struct source_identity *identity) {
    unsigned char *room = memory_resized(NULL, INPUT_RANGE_BLOCK_LEAST, 1);
    bool there = true;
    for (uint64_t count = block_count(range); range->block < count && there;) {
        struct block block = block_at(range, range->block);
        range->at = block.first;
        there = read_block(range, block.end, path, identity, room);
    }
    free(room);
}

/* ---- The ranges that this process has read ---- */

void input_ranges_close(struct input_ranges *ranges) {
    for (size_t o = 0; o < ranges->other_count; o++) {
        free(ranges->others[o].path);
    }
    free(ranges->others);
    free(ranges->at);
    *ranges = (struct input_ranges){.at = NULL};
}

void input_ranges_begin(struct input_ranges *ranges, uint32_t part) {
    size_t kept = 0;
    for (size_t r = 0; r < ranges->count; r++) {
        ranges->at[kept] = ranges->at[r];
        kept += ranges->at[r].part != part;
    }
    ranges->count = kept;
}

/* Adds a hash. If the part has one for this record of files already, the record stands for several files, whose hashes
 * become one. */
static void add_hash(struct input_ranges *ranges, struct wire_input_range found) {
    ranges->news = true;
    for (size_t r = ranges->count; r > 0 && ranges->at[r - 1].part == found.part; r--) {
        struct wire_input_range *known = &ranges->at[r - 1];
        if (known->file == found.file && known->sampled == found.sampled) {
            known->end += found.end - found.first;
            known->hash = hash_pair(known->hash, found.hash);
            return;
        }
    }
    if (ranges->count < WIRE_INPUT_RANGES_MAX) {
        ranges->at = memory_resized(ranges->at, ranges->count + 1, sizeof *ranges->at);
        ranges->at[ranges->count++] = found;
    }
}

void input_ranges_add(struct input_ranges *ranges, const struct input_range *range, uint32_t part, unsigned file) {
    const uint64_t hashes[] = {input_range_hash(range), input_range_sample(range)};
    assert(file < WIRE_INPUT_FILES_MAX && part < WIRE_NODES_MAX);
    for (uint16_t sampled = 0; sampled < 2; sampled++) {
        if (hashes[sampled] != 0) {
            add_hash(ranges, (struct wire_input_range){.first = range->first,
                                                       .end = range->end,
                                                       .hash = hashes[sampled],
                                                       .part = part,
                                                       .file = (uint16_t)file,
                                                       .sampled = sampled});
        }
    }
}

void input_ranges_note(struct input_ranges *ranges, const struct extents *extents, struct extent_range which,
                       uint32_t part, unsigned file) {
    struct input_range_other other = {.path = strdup(extents_file(extents)->path),
                                      .identity = extents_file(extents)->identity,
                                      .part = part,
                                      .file = file};
    input_range_begin(&other.range, extents, which);
    ranges->others = memory_resized(ranges->others, ranges->other_count + 1, sizeof *ranges->others);
    ranges->others[ranges->other_count++] = other;
}

void input_ranges_sample(struct input_ranges *ranges) {
    for (size_t o = 0; o < ranges->other_count; o++) {
        struct input_range_other *other = &ranges->others[o];
        if (other->path != NULL && other->range.first < other->range.end) {
            input_range_read_sample(&other->range, other->path, &other->identity);
            input_ranges_add(ranges, &other->range, other->part, other->file);
        }
        free(other->path);
    }
    free(ranges->others);
    ranges->others = NULL;
    ranges->other_count = 0;
}

bool input_ranges_news(struct input_ranges *ranges) {
    bool news = ranges->news;
    ranges->news = false;
    return news;
}
