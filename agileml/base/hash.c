/* See hash.h. */
#include "agileml/base/hash.h"

#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Adds a block to four lanes of 16 bytes each, so that their multiplications overlap. */
static inline void hash_block(uint64_t lanes[HASH_LANES], const unsigned char *block) {
    for (size_t l = 0; l < HASH_LANES; l++) {
        const unsigned char *at = block + l * HASH_SHORT;
        lanes[l] = hash_pair(hash_word(at) ^ lanes[l], hash_word(at + 8));
    }
}

static uint64_t hash_of_lanes(const uint64_t lanes[HASH_LANES]) {
    return hash_pair(hash_pair(lanes[0], lanes[1]), hash_pair(lanes[2], lanes[3]));
}

/* The last 16 bytes may be hashed twice. */
uint64_t hash_long(const unsigned char *bytes, size_t size, uint64_t seed) {
    const unsigned char *end = bytes + size;
    uint64_t lanes[HASH_LANES] = {seed, seed, seed, seed};
    for (; (size_t)(end - bytes) > HASH_BLOCK; bytes += HASH_BLOCK) {
        hash_block(lanes, bytes);
    }
    uint64_t hash = hash_of_lanes(lanes);
    for (; (size_t)(end - bytes) > HASH_SHORT; bytes += HASH_SHORT) {
        hash = hash_pair(hash_word(bytes) ^ hash, hash_word(bytes + 8));
    }
    hash = hash_pair(hash_word(end - HASH_SHORT) ^ hash, hash_word(end - 8));
    return hash_pair(hash ^ seed, size);
}

void hash_stream_add(struct hash_stream *stream, const unsigned char *bytes, size_t size) {
    size_t held = (size_t)(stream->size % HASH_BLOCK);
    stream->size += size;
    if (held > 0) {
        size_t more = size < HASH_BLOCK - held ? size : HASH_BLOCK - held;
        memcpy(stream->rest + held, bytes, more);
        bytes += more;
        size -= more;
        if (held + more < HASH_BLOCK) {
            return;
        }
        hash_block(stream->lanes, stream->rest);
    }
    uint64_t lanes[HASH_LANES];
    memcpy(lanes, stream->lanes, sizeof lanes);
    for (; size >= HASH_BLOCK; bytes += HASH_BLOCK, size -= HASH_BLOCK) {
        hash_block(lanes, bytes);
    }
    memcpy(stream->lanes, lanes, sizeof lanes);
    if (size > 0) {
        memcpy(stream->rest, bytes, size);
    }
}

uint64_t hash_stream_end(const struct hash_stream *stream) {
    return hash_pair(hash_bytes(stream->rest, stream->size % HASH_BLOCK, hash_of_lanes(stream->lanes)), stream->size);
}

enum { INDEX_CAPACITY_MIN = 64 };

struct index_entry {
    uint64_t key;
    uint32_t value_plus_one; /* 0: free */
};

/* Returns the entry of the key, or the free entry where the key belongs. */
static struct index_entry *entry_of(const struct index_map *map, uint64_t key) {
    size_t at = hash_mix(key) & (map->capacity - 1);
    while (map->entries[at].value_plus_one != 0 && map->entries[at].key != key) {
        at = (at + 1) & (map->capacity - 1);
    }
    return &map->entries[at];
}

int64_t index_map_find(const struct index_map *map, uint64_t key) {
    return map->capacity > 0 ? (int64_t)entry_of(map, key)->value_plus_one - 1 : INDEX_NONE;
}

static void map_grow(struct index_map *map) {
    const struct index_map old = *map;
    map->capacity = old.capacity > 0 ? 2 * old.capacity : INDEX_CAPACITY_MIN;
    map->entries = memory_zeroed(map->capacity, sizeof *map->entries);
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.entries[i].value_plus_one != 0) {
            *entry_of(map, old.entries[i].key) = old.entries[i];
        }
    }
    free(old.entries);
}

void index_map_add(struct index_map *map, uint64_t key, uint32_t value) {
    if ((map->count + 1) * 8 > map->capacity * 5) {
        map_grow(map);
    }
    *entry_of(map, key) = (struct index_entry){.key = key, .value_plus_one = value + 1};
    map->count++;
}

void index_map_close(struct index_map *map) {
    free(map->entries);
    memset(map, 0, sizeof *map);
}
