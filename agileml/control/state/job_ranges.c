/* See job_ranges.h. */
#include "agileml/control/state/job_ranges.h"

#include "agileml/base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void job_ranges_close(struct job_ranges *ranges) {
    free(ranges->at);
    index_map_close(&ranges->places);
    *ranges = (struct job_ranges){.at = NULL};
}

static uint64_t key_of(const struct wire_input_range *range) {
    return (uint64_t)range->part << 32 | (uint64_t)range->file << 16 | range->sampled;
}

static bool differ(const struct wire_input_range *one, const struct wire_input_range *other) {
    return one->first != other->first || one->end != other->end || one->hash != other->hash;
}

const struct job_range *job_ranges_differ(const struct job_ranges *ranges, const struct wire_input_range **found,
                                          size_t count) {
    for (size_t r = 0; r < count; r++, ++*found) {
        int64_t place = index_map_find(&ranges->places, key_of(*found));
        if (place != INDEX_NONE && differ(&ranges->at[place].range, *found)) {
            return &ranges->at[place];
        }
    }
    return NULL;
}

void job_ranges_add(struct job_ranges *ranges, const struct wire_input_range *found, size_t count, const char *reader) {
    for (size_t r = 0; r < count; r++) {
        if (index_map_find(&ranges->places, key_of(&found[r])) == INDEX_NONE) {
            ranges->at = memory_extended(ranges->at, ranges->count, &ranges->capacity, sizeof *ranges->at);
            struct job_range *range = &ranges->at[ranges->count];
            *range = (struct job_range){.range = found[r]};
            snprintf(range->reader, sizeof range->reader, "%s", reader);
            index_map_add(&ranges->places, key_of(&found[r]), (uint32_t)ranges->count++);
        }
    }
}

void job_ranges_describe(const struct job_range *expected, const struct wire_input_range *found, const char *reader,
                         const struct buffer *files, char *text, size_t size) {
    char from[JOB_INPUT_FILE_TEXT_MAX];
    bool same_reader = strcmp(expected->reader, reader) == 0;
    job_input_describe_file(files, found->file, from);
    snprintf(text, size,
             "the input differs: %s read other bytes than %s%s, between byte %" PRIu64 " and %" PRIu64
             ": give all nodes the same files",
             reader, same_reader ? "before" : expected->reader, from, found->first, found->end);
}
