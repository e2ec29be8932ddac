/* See numbering.h. */
#include "apps/samples/numbering.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <stdlib.h>

enum { CAPACITY_MIN = 1024 };

/* ---- Surveys ---- */

/* Returns the place of a feature that is NUMBERING_FROM or above. */
static uint32_t place_of(struct numbering *numbering, uint64_t feature) {
    int64_t place = slot_index_find(&numbering->places, numbering->features, feature);
    if (place != INDEX_NONE) {
        return (uint32_t)place;
    }
    if (numbering->places.count == numbering->capacity) {
        numbering->capacity = 2 * numbering->capacity + CAPACITY_MIN;
        numbering->features = memory_resized(numbering->features, numbering->capacity, sizeof *numbering->features);
    }
    numbering->features[numbering->places.count] = feature;
    slot_index_add(&numbering->places, numbering->features);
    return numbering->places.count - 1;
}

uint32_t numbering_add(struct numbering *numbering, const uint32_t *features, uint32_t count, uint32_t *numbers) {
    if (numbering->low == NULL) {
        numbering->low = memory_zeroed(NUMBERING_FROM / 8, 1);
    }
    uint32_t i = 0;
    for (; i < count && features[i] < NUMBERING_FROM; i++) {
        numbering->low[features[i] / 8] |= (unsigned char)(1U << features[i] % 8);
        numbers[i] = features[i];
    }
    for (; i < count; i++) {
        numbers[i] = NUMBERING_FROM + place_of(numbering, features[i]);
    }
    return NUMBERING_FROM + numbering->places.count;
}

static int compare_features(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static bool is_low(const struct numbering *numbering, uint32_t feature) {
    return (numbering->low[feature / 8] >> feature % 8 & 1) != 0;
}

/* Returns all features that occur, ascending, and sets *count. */
static uint64_t *sorted_features(const struct numbering *numbering, uint32_t *count) {
    uint32_t low = 0;
    for (uint32_t feature = 0; feature < NUMBERING_FROM; feature++) {
        low += is_low(numbering, feature);
    }
    *count = low + numbering->places.count;
    uint64_t *sorted = memory_zeroed(*count, sizeof *sorted);
    uint32_t used = 0;
    for (uint32_t feature = 0; used < low; feature++) {
        sorted[used] = feature;
        used += is_low(numbering, feature);
    }
    for (uint32_t place = 0; place < numbering->places.count; place++) {
        sorted[used++] = numbering->features[place];
    }
    qsort(sorted + low, numbering->places.count, sizeof *sorted, compare_features);
    return sorted;
}

uint32_t *numbering_end(struct numbering *numbering, uint32_t base) {
    uint32_t count;
    if (numbering->places.count == 0) {
        numbering_close(numbering);
        return NULL;
    }
    uint64_t *sorted = sorted_features(numbering, &count);
    /* Only written pages are resident: of the lower features, those that occur. */
    uint32_t *numbers = memory_zeroed((size_t)NUMBERING_FROM + numbering->places.count, sizeof *numbers);
    for (uint32_t n = 0; n < count; n++) {
        bool low = sorted[n] < NUMBERING_FROM;
        numbers[low ? sorted[n] : NUMBERING_FROM + place_of(numbering, sorted[n])] = n;
        sorted[n] -= base;
    }
    numbering_close(numbering);
    numbering_make(numbering, sorted, count);
    return numbers;
}

/* ---- Lookups ---- */

void numbering_make(struct numbering *numbering, uint64_t *features, uint32_t count) {
    *numbering = (struct numbering){.features = features, .capacity = count};
    for (uint32_t n = 0; n < count; n++) {
        slot_index_add(&numbering->places, features);
    }
}

uint32_t numbering_apply(const struct numbering *numbering, uint32_t *features, double *values, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t place = slot_index_find(&numbering->places, numbering->features, features[i]);
        if (place != INDEX_NONE) {
            features[kept] = (uint32_t)place;
            values[kept++] = values[i];
        }
    }
    return kept;
}

void numbering_close(struct numbering *numbering) {
    free(numbering->features);
    free(numbering->low);
    slot_index_close(&numbering->places);
    *numbering = (struct numbering){0};
}
