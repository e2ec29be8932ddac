/* See hash.h. */
#include "agileml/base/hash.h"

#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

int64_t index_map_find(const struct index_map *map, uint64_t key) {
    if (map->capacity == 0) {
        return INDEX_NONE;
    }
    size_t mask = map->capacity - 1;
    for (size_t at = hash_mix(key) & mask;; at = (at + 1) & mask) {
        const struct index_entry *entry = &map->entries[at];
        if (entry->value_plus_one == 0) {
            return INDEX_NONE;
        }
        if (entry->key == key) {
            return (int64_t)entry->value_plus_one - 1;
        }
    }
}

static void index_map_place(struct index_map *map, uint64_t key, uint32_t value_plus_one) {
    size_t mask = map->capacity - 1;
    size_t at = hash_mix(key) & mask;
    while (map->entries[at].value_plus_one != 0) {
        at = (at + 1) & mask;
    }
    map->entries[at] = (struct index_entry){.key = key, .value_plus_one = value_plus_one};
}

void index_map_add(struct index_map *map, uint64_t key, uint32_t value) {
    if ((map->count + 1) * 8 > map->capacity * 5) {
        struct index_map old = *map;
        map->capacity = old.capacity > 0 ? 2 * old.capacity : 64;
        map->entries = memory_zeroed(map->capacity, sizeof *map->entries);
        for (size_t i = 0; i < old.capacity; i++) {
            if (old.entries[i].value_plus_one != 0) {
                index_map_place(map, old.entries[i].key, old.entries[i].value_plus_one);
            }
        }
        free(old.entries);
    }
    index_map_place(map, key, value + 1);
    map->count++;
}

void index_map_close(struct index_map *map) {
    free(map->entries);
    memset(map, 0, sizeof *map);
}
