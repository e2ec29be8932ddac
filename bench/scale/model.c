/* See model.h. */
#include "bench/scale/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the Netflix data the most popular of 17770 items has 233000 ratings; half of the items have fewer than 561. */
#define MODEL_POPULARITY 8.53

void model_open(struct model *model) {
    static const char *const names[] = {[MODEL_USERS] = "users", [MODEL_ITEMS] = "items"};
    double sum = 0;
    model->item_ratings = memory_zeroed(model->items, sizeof(double));
    for (uint32_t i = 0; i < model->items; i++) {
        model->item_ratings[i] = exp(-MODEL_POPULARITY * sqrt(((double)i + 0.5) / model->items));
        sum += model->item_ratings[i];
    }
    for (uint32_t i = 0; i < model->items; i++) {
        model->item_ratings[i] *= model->ratings / sum;
    }
    model->job = (struct job){.table_count = 2, .staleness = model->staleness, .exchange = model->exchange};
    model->users = model->whole ? 1 : model->users;
    for (unsigned t = 0; t < 2; t++) {
        struct table_spec *spec = &model->job.tables[t];
        *spec = (struct table_spec){.type = AML_FLOAT32,
                                    .mode = t == MODEL_USERS && !model->whole ? AML_PUT : AML_ADD,
                                    .rows = !model->whole      ? 0
                                            : t == MODEL_USERS ? model->users
                                                               : model->items,
                                    .whole = model->whole,
                                    .width = MODEL_WIDTH,
                                    .row_bytes = MODEL_WIDTH * sizeof(float)};
        snprintf(spec->name, sizeof spec->name, "%s", names[t]);
        model->job.shapes[t] = table_shape(spec);
    }
}

void model_close(struct model *model) {
    free(model->item_ratings);
}

static bool rows_add(struct model_rows *rows, struct cache *cache, unsigned table, uint64_t key, unsigned set,
                     unsigned most) {
    int64_t slot = cache_add_for(cache, table, key, set);
    if (rows->slots == NULL) {
        rows->slots = memory_resized(NULL, most, sizeof *rows->slots);
        rows->parts = memory_resized(NULL, most, sizeof *rows->parts);
    }
    rows->slots[rows->count] = (uint32_t)slot;
    return slot >= 0;
}

/* Draws the parts of an iteration in which a node with this share of the ratings meets an item. */
static uint64_t item_parts(const struct model *model, uint32_t item, double share, uint64_t seed) {
    if (model->whole) {
        return UINT64_MAX;
    }
    double met = 1 - exp(-model->item_ratings[item] * share / model->clocks);
    uint64_t parts = 0;
    for (unsigned c = 0; c < model->clocks; c++) {
        uint64_t chance = hash_mix(seed ^ hash_mix((uint64_t)item << 8 | c)) >> 11;
        parts |= (double)chance * 0x1p-53 < met ? UINT64_C(1) << c : 0;
    }
    return parts;
}

bool model_set_open(const struct model *model, unsigned number, const uint32_t *shards, uint32_t count,
                    uint32_t shards_of_job, struct cache *cache, struct model_set *set) {
    double share = (double)count / shards_of_job;
    *set = (struct model_set){.number = number, .shard_count = count, .ratings = model->ratings * share};
    set->shards = memory_resized(NULL, count, sizeof *shards);
    memcpy(set->shards, shards, count * sizeof *shards);
    struct model_rows *users = &set->rows[MODEL_USERS];
    unsigned most = count * (model->users / shards_of_job + 1);
    for (uint32_t s = 0; s < count; s++) {
        for (uint32_t user = shards[s]; user < model->users; user += shards_of_job) {
            if (!rows_add(users, cache, MODEL_USERS, user, number, most)) {
                return false;
            }
            users->parts[users->count++] = UINT64_C(1) << user / shards_of_job % model->clocks;
        }
    }
    if (model->whole && users->count == 0) { /* replicated tables are in every cache */
        if (!rows_add(users, cache, MODEL_USERS, 0, number, most)) {
            return false;
        }
        users->parts[users->count++] = 0;
    }
    struct model_rows *items = &set->rows[MODEL_ITEMS];
    for (uint32_t item = 0; item < model->items; item++) {
        uint64_t parts = item_parts(model, item, share, hash_mix(shards[0]));
        if (parts == 0) {
            continue;
        }
        if (!rows_add(items, cache, MODEL_ITEMS, item, number, model->items)) {
            return false;
        }
        items->parts[items->count++] = parts;
    }
    return true;
}

void model_set_close(struct model_set *set) {
    free(set->shards);
    for (unsigned t = 0; t < 2; t++) {
        free(set->rows[t].slots);
        free(set->rows[t].parts);
    }
}

double model_compute(const struct model *model, const struct model_set *set, uint64_t clock, struct cache *cache,
                     double chance) {
    uint64_t part = UINT64_C(1) << (clock - 1) % model->clocks;
    double bytes = 0;
    for (unsigned t = 0; t < 2; t++) {
        struct cache_table *table = &cache->tables[t];
        const struct model_rows *rows = &set->rows[t];
        for (uint32_t r = 0; r < rows->count; r++) {
            if ((rows->parts[r] & part) == 0) {
                continue;
            }
            ((float *)(void *)cache_row(table, rows->slots[r]))[0] += 1;
            table->touched.base[rows->slots[r]] = 1;
            bytes += model->rank * sizeof(float);
        }
    }
    double ns = set->ratings / model->clocks * model->rating_ns + bytes * model->gather_byte_ns;
    return ns / 1e3 / model->threads * (1 + model->jitter * (2 * chance - 1));
}

uint64_t model_items(const struct model *model, const struct model_set *set) {
    return (uint64_t)(set->ratings / model->clocks);
}

double model_load_us(const struct model *model, double ratings) {
    return ratings * model->load_rating_ns / 1e3 / model->threads;
}
