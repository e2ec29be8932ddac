/* See labels.h. */
#include "apps/mlr/labels.h"

#include "agileml/base/memory.h"
#include "apps/mlr/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool mlr_label_make(struct mlr_label *label, const char *text, size_t length) {
    if (length == 0 || length > MLR_LABEL_MAX) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == '\x7f') {
            return false;
        }
    }
    memset(label, 0, sizeof *label);
    memcpy(label->text, text, length);
    label->number = NAN;
    const char *end = number_take(label->text, &label->number);
    if (end == label->text + length) {
        label->number += 0.0; /* -0 becomes 0 */
        memset(label->text, 0, sizeof label->text);
        snprintf(label->text, sizeof label->text, "%.17g", label->number);
    } else {
        label->number = NAN;
    }
    return true;
}

static bool is_word(const struct mlr_label *label) {
    return isnan(label->number);
}

static int label_order(const void *a, const void *b) {
    const struct mlr_label *left = a;
    const struct mlr_label *right = b;
    if (is_word(left) || is_word(right)) {
        return is_word(left) && is_word(right) ? strcmp(left->text, right->text) : is_word(left) - is_word(right);
    }
    return left->number < right->number ? -1 : left->number > right->number;
}

/* Returns a map's key. A label whose key is taken has the next free key. */
static uint64_t label_hash(const struct mlr_label *label) {
    return hash_bytes((const unsigned char *)label->text, sizeof label->text, 0);
}

int64_t mlr_labels_find(const struct mlr_labels *labels, const struct mlr_label *label) {
    for (uint64_t hash = label_hash(label);; hash++) {
        int64_t place = index_map_find(&labels->places, hash);
        if (place == INDEX_NONE || label_order(&labels->items[place], label) == 0) {
            return place;
        }
    }
}

static void labels_index(struct mlr_labels *labels, uint32_t place) {
    uint64_t hash = label_hash(&labels->items[place]);
    while (index_map_find(&labels->places, hash) != INDEX_NONE) {
        hash++;
    }
    index_map_add(&labels->places, hash, place);
}

bool mlr_labels_add(struct mlr_labels *labels, const struct mlr_label *label) {
    if (mlr_labels_find(labels, label) != INDEX_NONE) {
        return true;
    }
    if (labels->count == MLR_CLASSES_MAX) {
        return false;
    }
    if (labels->count == labels->capacity) {
        labels->capacity = labels->capacity > 0 ? 2 * labels->capacity : 16;
        labels->items = memory_resized(labels->items, labels->capacity, sizeof *labels->items);
    }
    labels->items[labels->count] = *label;
    labels_index(labels, labels->count++);
    return true;
}

void mlr_labels_sort(struct mlr_labels *labels) {
    if (labels->count > 1) {
        qsort(labels->items, labels->count, sizeof *labels->items, label_order);
    }
    index_map_close(&labels->places);
    for (uint32_t place = 0; place < labels->count; place++) {
        labels_index(labels, place);
    }
}

void mlr_labels_close(struct mlr_labels *labels) {
    free(labels->items);
    index_map_close(&labels->places);
    memset(labels, 0, sizeof *labels);
}
