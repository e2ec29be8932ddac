/* See adder.h. */
#include "tests/sim/adder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t adder_random(uint64_t *state) {
    return hash_mix((*state)++);
}

static uint64_t element_start(uint64_t key, unsigned element) {
    return hash_mix(key + element * UINT64_C(7919)) % 20011;
}

static void adder_start(void *context, uint64_t key, void *row) {
    const struct table_spec *spec = context;
    for (unsigned e = 0; e < spec->width; e++) {
        uint64_t value = element_start(key, e);
        uint32_t narrow = (uint32_t)value;
        double real = (double)value;
        switch (spec->type) {
        case AML_INT64:
            memcpy((unsigned char *)row + e * sizeof value, &value, sizeof value);
            break;
        case AML_INT32:
            memcpy((unsigned char *)row + e * sizeof narrow, &narrow, sizeof narrow);
            break;
        default:
            memcpy((unsigned char *)row + e * sizeof real, &real, sizeof real);
            break;
        }
    }
}

static void adder_add_table(struct adder *adder, const char *name, enum aml_type type, enum aml_mode mode,
                            uint64_t dense_rows, unsigned rows, uint64_t *random) {
    unsigned t = adder->job.table_count++;
    struct table_spec *spec = &adder->job.tables[t];
    snprintf(spec->name, sizeof spec->name, "%s", name);
    spec->type = type;
    spec->mode = mode;
    spec->width = 1 + (uint32_t)(adder_random(random) % ADDER_WIDTH_MAX);
    spec->row_bytes = spec->width * (uint32_t)aml_type_size(type);
    spec->rows = dense_rows;
    spec->start = adder_random(random) % 4 != 0 ? adder_start : NULL;
    spec->context = spec;
    adder->job.shapes[t].row_bytes = spec->row_bytes;
    adder->table_rows[t] = adder->row_count;
    adder->rows = memory_resized(adder->rows, adder->row_count + rows, sizeof *adder->rows);
    for (unsigned r = 0; r < rows; r++) {
        uint64_t key = dense_rows > 0 ? r : adder_random(random);
        adder->rows[adder->row_count] = (struct adder_row){.table = t, .key = key, .first = adder->element_count};
        index_map_add(&adder->row_index[t], key, adder->row_count++);
        adder->element_count += spec->width;
    }
    adder->table_rows[t + 1] = adder->row_count;
}

static void shard_touch(struct adder_shard *shard, struct adder_touch touch) {
    shard->touches = memory_resized(shard->touches, shard->touch_count + 1, sizeof *shard->touches);
    shard->touches[shard->touch_count++] = touch;
}

static void adder_add_shards(struct adder *adder, unsigned count, int put_table, uint64_t *random) {
    adder->shard_count = count;
    adder->shards = memory_zeroed(count, sizeof *adder->shards);
    unsigned add_rows = put_table >= 0 ? adder->table_rows[put_table] : adder->row_count; /* the put table is last */
    for (unsigned s = 0; s < count; s++) {
        struct adder_shard *shard = &adder->shards[s];
        shard->items = (unsigned)(adder_random(random) % 4) + (s == 0 ? 1 : 0);
        adder->items += shard->items;
        for (unsigned i = 0; i < shard->items; i++) {
            unsigned touches = 1 + (unsigned)(adder_random(random) % 3);
            for (unsigned k = 0; k < touches; k++) {
                shard_touch(shard, (struct adder_touch){.row = (unsigned)(adder_random(random) % add_rows),
                                                        .seed = adder_random(random)});
            }
        }
        if (put_table >= 0) {
            unsigned own = adder->table_rows[put_table] + s;
            unsigned other = adder->table_rows[put_table] + (unsigned)(adder_random(random) % count);
            shard_touch(shard, (struct adder_touch){.row = own, .put = true, .seed = adder_random(random)});
            shard_touch(shard, (struct adder_touch){.row = other, .read_only = true});
        }
    }
}

void adder_open(struct adder *adder, uint64_t seed, unsigned shards, uint32_t staleness) {
    uint64_t random = hash_mix(seed ^ 0xADDE);
    *adder = (struct adder){.seed = seed};
    adder->job.staleness = staleness;
    unsigned dense = 4 + (unsigned)(adder_random(&random) % 40);
    adder_add_table(adder, "dense", AML_INT64, AML_ADD, dense, dense, &random);
    if (adder_random(&random) % 4 != 0) {
        adder_add_table(adder, "sparse", AML_INT64, AML_ADD, 0, 4 + (unsigned)(adder_random(&random) % 60), &random);
    }
    if (adder_random(&random) % 2 != 0) {
        unsigned rows = 4 + (unsigned)(adder_random(&random) % 20);
        adder_add_table(adder, "narrow", AML_INT32, AML_ADD, adder_random(&random) % 2 * rows, rows, &random);
    }
    if (adder_random(&random) % 2 != 0) {
        unsigned rows = 4 + (unsigned)(adder_random(&random) % 20);
        adder_add_table(adder, "real", AML_FLOAT64, AML_ADD, adder_random(&random) % 2 * rows, rows, &random);
    }
    int put_table = -1;
    if (adder_random(&random) % 2 != 0) {
        put_table = (int)adder->job.table_count;
        adder_add_table(adder, "put", AML_INT64, AML_PUT, adder_random(&random) % 2 * shards, shards, &random);
    }
    adder_add_shards(adder, shards, put_table, &random);
    adder_change_open(adder, &adder->scratch);
}

void adder_close(struct adder *adder) {
    for (unsigned t = 0; t < adder->job.table_count; t++) {
        index_map_close(&adder->row_index[t]);
    }
    for (unsigned s = 0; s < adder->shard_count; s++) {
        free(adder->shards[s].touches);
    }
    for (uint64_t c = 0; c < adder->state_count; c++) {
        free(adder->states[c]);
    }
    adder_change_close(&adder->scratch);
    free(adder->states);
    free(adder->shards);
    free(adder->rows);
}

void adder_contribute(const struct adder *adder, unsigned shard, uint64_t clock, struct adder_change *change) {
    const struct adder_shard *from = &adder->shards[shard];
    for (unsigned k = 0; k < from->touch_count; k++) {
        const struct adder_touch *touch = &from->touches[k];
        uint64_t chance = hash_mix(touch->seed + clock);
        if (touch->read_only || chance % 4 == 0) {
            continue; /* not every item changes every clock */
        }
        const struct adder_row *row = &adder->rows[touch->row];
        change->touched[touch->row] = 1;
        for (unsigned e = 0; e < adder->job.tables[row->table].width; e++) {
            uint64_t value = hash_mix(chance + e) % 2001 - 1000;
            change->elements[row->first + e] = touch->put ? value : change->elements[row->first + e] + value;
        }
    }
}

const uint64_t *adder_state(struct adder *adder, uint64_t clock) {
    while (adder->state_count <= clock) {
        uint64_t *state = memory_zeroed(adder->element_count, sizeof *state);
        if (adder->state_count == 0) {
            for (unsigned r = 0; r < adder->row_count; r++) {
                const struct table_spec *spec = &adder->job.tables[adder->rows[r].table];
                for (unsigned e = 0; e < spec->width && spec->start != NULL; e++) {
                    state[adder->rows[r].first + e] = element_start(adder->rows[r].key, e);
                }
            }
        } else {
            memcpy(state, adder->states[adder->state_count - 1], adder->element_count * sizeof *state);
            struct adder_change change = {.elements = state, .touched = adder->scratch.touched};
            for (unsigned s = 0; s < adder->shard_count; s++) {
                adder_contribute(adder, s, adder->state_count, &change);
            }
        }
        adder->states = memory_resized(adder->states, adder->state_count + 1, sizeof *adder->states);
        adder->states[adder->state_count++] = state;
    }
    return adder->states[clock];
}

int64_t adder_find(const struct adder *adder, unsigned table, uint64_t key) {
    return index_map_find(&adder->row_index[table], key);
}

void adder_apply(const struct adder *adder, unsigned row, const uint64_t *elements, void *memory) {
    const struct table_spec *spec = &adder->job.tables[adder->rows[row].table];
    for (unsigned e = 0; e < spec->width; e++) {
        uint64_t value = elements[adder->rows[row].first + e];
        if (spec->type == AML_INT64) {
            uint64_t *at = (uint64_t *)memory + e;
            *at = spec->mode == AML_PUT ? value : *at + value;
        } else if (spec->type == AML_INT32) {
            ((uint32_t *)memory)[e] += (uint32_t)value;
        } else {
            ((double *)memory)[e] += (double)(int64_t)value;
        }
    }
}

bool adder_equal(const struct adder *adder, unsigned row, const uint64_t *elements, const void *memory, char *text,
                 size_t size) {
    const struct table_spec *spec = &adder->job.tables[adder->rows[row].table];
    for (unsigned e = 0; e < spec->width; e++) {
        int64_t expected = (int64_t)elements[adder->rows[row].first + e];
        int64_t found;
        if (spec->type == AML_INT64) {
            found = ((const int64_t *)memory)[e];
        } else if (spec->type == AML_INT32) {
            found = ((const int32_t *)memory)[e];
            expected = (int32_t)(uint32_t)(uint64_t)expected;
        } else {
            found = (int64_t)((const double *)memory)[e];
        }
        if (found != expected) {
            snprintf(text, size, "table %s key %llu element %u is %lld, expected %lld", spec->name,
                     (unsigned long long)adder->rows[row].key, e, (long long)found, (long long)expected);
            return false;
        }
    }
    return true;
}

void adder_change_open(const struct adder *adder, struct adder_change *change) {
    change->elements = memory_zeroed(adder->element_count, sizeof *change->elements);
    change->touched = memory_zeroed(adder->row_count, 1);
}

void adder_change_clear(const struct adder *adder, struct adder_change *change) {
    memset(change->elements, 0, adder->element_count * sizeof *change->elements);
    memset(change->touched, 0, adder->row_count);
}

void adder_change_close(struct adder_change *change) {
    free(change->elements);
    free(change->touched);
}
