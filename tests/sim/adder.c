/* The adder app (app.h). Every data item adds whole numbers, which depend on item and clock, to a few rows. A
 * contribution that is lost, repeated or in the wrong clock makes a row differ from the oracle's sum. In half of the
 * jobs a table has an optimizer whose steps depend on their order and on a state. A step that is lost, repeated or made
 * with the wrong state makes the row and its state differ, too. */
#include "tests/sim/app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADDER_WIDTH_MAX = 12, ADDER_STATE_MAX = 5 };

/* A row that an item of data adds to, or (`put`) a row that its shard sets. */
struct adder_touch {
    unsigned item; /* of the shard; not used with `put` or `read_only` */
    unsigned row;
    bool put;
    bool read_only; /* a row that the shard only reads */
    uint64_t seed;
};

struct adder_shard {
    struct adder_touch *touches;
    unsigned touch_count;
};

struct adder {
    struct adder_shard *shards;
    uint64_t *elements;     /* contributions to all rows in a half of a clock */
    unsigned char *touched; /* by row: whether `elements` has a contribution */
    unsigned stepped;       /* the table with an optimizer; 0: none */
    unsigned replica;       /* the table that is averaged; 0: none */
};

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

/* Makes one step modulo 2^64. Narrower whole numbers have the same result modulo their range. */
static void step_elements(uint64_t clock, uint32_t width, uint64_t *row, uint32_t state_width, uint64_t *state,
                          const uint64_t *sum) {
    for (uint32_t e = 0; e < width; e++) {
        row[e] = 3 * row[e] + sum[e] + (state_width > 0 ? state[e % state_width] : clock);
    }
    for (uint32_t e = 0; e < state_width; e++) {
        state[e] = 5 * state[e] + sum[e % width] + clock;
    }
}

static void take_elements(const struct aml_step *step, const void *from, uint32_t width, uint64_t *elements) {
    for (uint32_t e = 0; e < width; e++) {
        elements[e] = step->type == AML_INT64 ? ((const uint64_t *)from)[e] : ((const uint32_t *)from)[e];
    }
}

static void put_elements(const struct aml_step *step, void *to, uint32_t width, const uint64_t *elements) {
    for (uint32_t e = 0; e < width; e++) {
        if (step->type == AML_INT64) {
            ((uint64_t *)to)[e] = elements[e];
        } else {
            ((uint32_t *)to)[e] = (uint32_t)elements[e];
        }
    }
}

/* table_spec.apply */
static void adder_step(const struct aml_step *step, const void *parameters) {
    const struct app *app = parameters;
    uint64_t row[ADDER_WIDTH_MAX];
    uint64_t state[ADDER_STATE_MAX];
    uint64_t sum[ADDER_WIDTH_MAX];
    take_elements(step, step->row, step->width, row);
    take_elements(step, step->state, step->state_width, state);
    take_elements(step, step->sum, step->width, sum);
    step_elements(step->clock, step->width, row, step->state_width, state, sum);
    if (app->mistake_due(app->context, APP_STEP_TWICE)) {
        step_elements(step->clock, step->width, row, step->state_width, state, sum);
    }
    put_elements(step, step->row, step->width, row);
    put_elements(step, step->state, step->state_width, state);
}

/* table_spec.apply_rows */
static int adder_steps(const struct aml_steps *steps, const void *parameters) {
    size_t element = aml_type_size(steps->type);
    for (size_t i = 0; i < steps->count; i++) {
        struct aml_step step = {.key = steps->keys[i],
                                .clock = steps->clock,
                                .type = steps->type,
                                .width = steps->width,
                                .state_width = steps->state_width,
                                .row = (unsigned char *)steps->rows + i * steps->width * element,
                                .sum = (const unsigned char *)steps->sums + i * steps->width * element};
        step.state = steps->states != NULL ? (unsigned char *)steps->states + i * steps->state_width * element : NULL;
        adder_step(&step, parameters);
    }
    return 0;
}

static void adder_add_table(struct app *app, const char *name, enum aml_type type, enum aml_mode mode,
                            uint64_t dense_rows, unsigned rows, uint64_t *random) {
    struct table_spec spec = {.type = type, .mode = mode, .rows = dense_rows};
    snprintf(spec.name, sizeof spec.name, "%s", name);
    spec.width = 1 + (uint32_t)(app_random(random) % ADDER_WIDTH_MAX);
    spec.start = app_random(random) % 4 != 0 ? adder_start : NULL;
    bool whole = type == AML_INT32 || type == AML_INT64;
    spec.sparse = mode == AML_ADD && whole && app_random(random) % 2 == 0;
    spec.given = spec.sparse && app_random(random) % 2 == 0;
    if (app->ring || app->whole || (app->pieces && mode == AML_ADD && dense_rows > 0)) {
        spec.rows = rows;
        spec.whole = true;
    }
    if (app->ring) {
        spec.sparse = spec.given = false;
    }
    app_add_table(app, &spec);
    for (unsigned r = 0; r < rows; r++) {
        app_add_row(app, spec.rows > 0 ? r : app_random(random));
    }
}

/* Adds a table with an optimizer, drawn from a stream of random numbers of its own. */
static void adder_add_stepped(struct app *app) {
    struct adder *adder = app->own;
    uint64_t random = hash_mix(app->seed ^ 0x57E9);
    if (app_random(&random) % 2 == 0) {
        return;
    }
    unsigned rows = 4 + (unsigned)(app_random(&random) % 20);
    enum aml_type type = app_random(&random) % 2 == 0 ? AML_INT64 : AML_INT32;
    adder_add_table(app, "stepped", type, AML_ADD, app_random(&random) % 2 * rows, rows, &random);
    adder->stepped = app->job.table_count - 1;
    struct table_spec *spec = &app->job.tables[adder->stepped];
    spec->given = false;
    bool many = app_random(&random) % 2 == 0;
    spec->apply = many ? NULL : adder_step;
    spec->apply_rows = many ? adder_steps : NULL;
    spec->parameters = app;
}

/* Adds the table of optimizer states behind all others. One job in four has none. */
static void adder_add_states(struct app *app) {
    const struct adder *adder = app->own;
    uint64_t drawn = hash_mix(app->seed ^ 0x57A7E);
    if (adder->stepped == 0 || drawn % 4 == 0 || app->whole) {
        return;
    }
    struct table_spec *spec = &app->job.tables[adder->stepped];
    struct table_spec states = table_state_spec(spec, 1 + (uint32_t)(drawn / 4 % ADDER_STATE_MAX));
    spec->state = app->job.table_count;
    app_add_table(app, &states);
    for (unsigned r = app->table_rows[adder->stepped]; r < app->table_rows[adder->stepped + 1]; r++) {
        app_add_row(app, app->rows[r].key);
    }
}

/* Adds a replicated, averaged table, before that of states. Its final values depend on which nodes averaged with each
 * other, so checks only compare replicas bit by bit. */
static void adder_add_replica(struct app *app) {
    struct adder *adder = app->own;
    if (!app->averages) {
        return;
    }
    struct table_spec spec = {.name = "replica",
                              .type = AML_FLOAT64,
                              .mode = AML_ADD,
                              .width = APP_REPLICA_WIDTH,
                              .rows = APP_REPLICA_ROWS,
                              .whole = true,
                              .averaged = true};
    adder->replica = app->job.table_count;
    app_add_table(app, &spec);
    for (unsigned r = 0; r < APP_REPLICA_ROWS; r++) {
        app_add_row(app, r);
    }
}

static void shard_touch(struct app *app, unsigned shard, struct adder_touch touch) {
    struct adder *adder = app->own;
    struct adder_shard *own = &adder->shards[shard];
    own->touches = memory_resized(own->touches, own->touch_count + 1, sizeof *own->touches);
    own->touches[own->touch_count++] = touch;
    app_shard_names(&app->shards[shard], touch.row);
}

/* Adds the shards, whose items add to the first `add_rows` rows. */
static void adder_add_shards(struct app *app, unsigned count, unsigned add_rows, int put_table, uint64_t *random) {
    struct adder *adder = app->own;
    app->shard_count = count;
    app->shards = memory_zeroed(count, sizeof *app->shards);
    adder->shards = memory_zeroed(count, sizeof *adder->shards);
    for (unsigned s = 0; s < count; s++) {
        struct app_shard *shard = &app->shards[s];
        for (unsigned r = 0; r < add_rows; r++) {
            if (app->job.tables[app->rows[r].table].whole) {
                app_shard_names(shard, r); /* replicated tables are in every cache */
            }
        }
        for (unsigned r = 0; r < APP_REPLICA_ROWS && adder->replica != 0; r++) {
            app_shard_names(shard, app->table_rows[adder->replica] + r);
        }
        shard->items = (unsigned)(app_random(random) % 4) + (s == 0 ? 1 : 0);
        shard->items = app->shard_items > 0 ? app->shard_items : shard->items;
        for (unsigned i = 0; i < shard->items; i++) {
            unsigned touches = 1 + (unsigned)(app_random(random) % 3);
            for (unsigned k = 0; k < touches; k++) {
                unsigned row = (unsigned)(app_random(random) % add_rows);
                shard_touch(app, s, (struct adder_touch){.item = i, .row = row, .seed = app_random(random)});
            }
        }
        if (put_table >= 0) {
            unsigned own = app->table_rows[put_table] + s;
            unsigned other = app->table_rows[put_table] + (unsigned)(app_random(random) % count);
            shard_touch(app, s, (struct adder_touch){.row = own, .put = true, .seed = app_random(random)});
            shard_touch(app, s, (struct adder_touch){.row = other, .read_only = true});
        }
    }
}

static void adder_close(struct app *app) {
    struct adder *adder = app->own;
    for (unsigned s = 0; s < app->shard_count; s++) {
        free(adder->shards[s].touches);
    }
    free(adder->shards);
    free(adder->elements);
    free(adder->touched);
    free(adder);
}

/* Whether the clock works on the item. Each item belongs to one part of an iteration. */
static bool works_on(const struct app *app, unsigned shard, unsigned item, uint64_t clock) {
    const unsigned parts = app->clocks_per_iteration / app->phases;
    uint64_t last = (clock - 1) / app->phases % parts;
    uint64_t part = (item + shard) % parts;
    return part <= last && part + app_parts(app, clock) > last;
}

/* Returns the shard's items in the clock. */
static unsigned adder_items(const struct app *app, unsigned shard, uint64_t clock) {
    unsigned items = 0;
    for (unsigned i = 0; i < app->shards[shard].items; i++) {
        items += works_on(app, shard, i, clock) ? 1 : 0;
    }
    return items;
}

/* Adds what `shard` contributes to a part of an iteration: rows of put tables are set, others are added to. With
 * phases an item adds something else in each phase, and only in the clocks that work on it. */
static void adder_contribute(const struct app *app, unsigned shard, uint64_t clock, uint64_t *elements,
                             unsigned char *touched) {
    const struct adder_shard *from = &((const struct adder *)app->own)->shards[shard];
    for (unsigned k = 0; k < from->touch_count; k++) {
        const struct adder_touch *touch = &from->touches[k];
        uint64_t chance = hash_mix(touch->seed + clock);
        if (touch->read_only || chance % 4 == 0) {
            continue; /* not every item changes every clock */
        }
        if (app->phases > 1 && !touch->put && !works_on(app, shard, touch->item, clock)) {
            continue;
        }
        const struct app_row *row = &app->rows[touch->row];
        touched[touch->row] = 1;
        for (unsigned e = 0; e < app->job.tables[row->table].width; e++) {
            uint64_t value = hash_mix(chance + e) % 2001 - 1000;
            value = app->job.tables[row->table].sparse && (chance + e) / 4 % 8 != 0 ? 0 : value;
            elements[row->first + e] = touch->put ? value : elements[row->first + e] + value;
        }
    }
}

/* Passes a row's update to the cache: its elements that are not 0, now and then all of them. */
static void adder_give(const struct app *app, struct cache *cache, unsigned row, uint32_t slot, uint64_t clock) {
    const struct adder *adder = app->own;
    const struct table_spec *spec = &app->job.tables[app->rows[row].table];
    const uint32_t element_bytes = spec->row_bytes / spec->width;
    unsigned char added[ADDER_WIDTH_MAX * sizeof(uint64_t)] = {0};
    uint32_t columns[ADDER_WIDTH_MAX];
    uint32_t count = 0;
    app_apply(app, row, adder->elements + app->rows[row].first, added);
    if (clock % 5 == 0) {
        cache_give_row(cache, app->rows[row].table, slot, added);
        return;
    }
    for (uint32_t e = 0; e < spec->width; e++) {
        uint64_t value = 0;
        memcpy(&value, added + (size_t)e * element_bytes, element_bytes);
        if (value != 0) {
            memmove(added + (size_t)count * element_bytes, added + (size_t)e * element_bytes, element_bytes);
            columns[count++] = e;
        }
    }
    cache_give(cache, app->rows[row].table, slot, count, columns, added);
}

/* A step in real numbers that no other node makes, on the averaged table. */
static void replica_step(const struct app *app, const struct app_work *work, unsigned half) {
    const struct adder *adder = app->own;
    for (unsigned r = 0; r < APP_REPLICA_ROWS && adder->replica != 0 && work->cache != NULL; r++) {
        struct cache_table *table = &work->cache->tables[adder->replica];
        uint32_t slot = (uint32_t)work->slots[app->table_rows[adder->replica] + r];
        double *row = (double *)(void *)cache_row(table, slot);
        for (unsigned e = 0; e < APP_REPLICA_WIDTH; e++) {
            uint64_t chance = hash_mix(work->origin ^ hash_mix(work->clock * 2 + half) ^ (r * APP_REPLICA_WIDTH + e));
            row[e] += (double)(chance % 2001) / 7000 - row[e] / 8;
        }
        table->touched.base[slot] = 1;
    }
}

/* Works on half of the shards each time. */
static void adder_compute(struct app *app, const struct app_work *work, unsigned half) {
    struct adder *adder = app->own;
    memset(adder->elements, 0, app->element_count * sizeof *adder->elements);
    memset(adder->touched, 0, app->row_count);
    for (unsigned s = half; s < work->shard_count; s += 2) {
        for (unsigned p = 0; p < work->parts; p++) {
            adder_contribute(app, work->shards[s], work->clock - p, adder->elements, adder->touched);
        }
    }
    for (unsigned r = 0; r < app->row_count; r++) {
        if (adder->touched[r] == 0) {
            continue;
        }
        const uint64_t *elements = adder->elements + app->rows[r].first;
        app_changes_add(app, work->changes, r, elements);
        if (work->cache == NULL) {
            continue;
        }
        struct cache_table *table = &work->cache->tables[app->rows[r].table];
        uint32_t slot = (uint32_t)work->slots[r];
        app_apply(app, r, elements, cache_summed(table) ? cache_sum(table, slot) : cache_row(table, slot));
        if (table->spec->given) {
            adder_give(app, work->cache, r, slot, work->clock);
        } else {
            table->touched.base[slot] = 1;
        }
    }
    if (work->parts > 0) {
        replica_step(app, work, half);
    }
}

/* Applies the clock's steps to the table with an optimizer. A row's sum is what the clock added to it. */
static void advance_stepped(struct app *app, uint64_t clock, const uint64_t *before, uint64_t *state) {
    const struct adder *adder = app->own;
    const struct table_spec *spec = &app->job.tables[adder->stepped];
    uint32_t state_width = spec->state != 0 ? app->job.tables[spec->state].width : 0;
    uint64_t sum[ADDER_WIDTH_MAX];
    for (unsigned r = app->table_rows[adder->stepped]; r < app->table_rows[adder->stepped + 1]; r++) {
        uint64_t *row = state + app->rows[r].first;
        unsigned states = app->table_rows[spec->state] + r - app->table_rows[adder->stepped];
        if (adder->touched[r] == 0) {
            continue;
        }
        for (uint32_t e = 0; e < spec->width; e++) {
            sum[e] = row[e] - before[app->rows[r].first + e];
            row[e] = before[app->rows[r].first + e];
        }
        step_elements(clock, spec->width, row, state_width, state_width > 0 ? state + app->rows[states].first : NULL,
                      sum);
    }
}

static void adder_advance(struct app *app, uint64_t clock, uint64_t *state) {
    struct adder *adder = app->own;
    memset(adder->touched, 0, app->row_count);
    memcpy(adder->elements, state, app->element_count * sizeof *state);
    for (unsigned s = 0; s < app->shard_count; s++) {
        for (unsigned p = 0; p < app_parts(app, clock); p++) {
            adder_contribute(app, s, clock - p, state, adder->touched);
        }
    }
    if (adder->stepped != 0) {
        advance_stepped(app, clock, adder->elements, state);
    }
}

static const struct app_kind adder_kind = {.name = "adder",
                                           .repeatable = true,
                                           .lazy = true,
                                           .close = adder_close,
                                           .items = adder_items,
                                           .compute = adder_compute,
                                           .advance = adder_advance};

void adder_open(struct app *app, unsigned shards) {
    uint64_t random = hash_mix(app->seed ^ 0xADDE);
    struct adder *adder = memory_zeroed(1, sizeof *adder);
    app->kind = &adder_kind;
    app->own = adder;
    unsigned dense = 4 + (unsigned)(app_random(&random) % 40);
    adder_add_table(app, "dense", AML_INT64, AML_ADD, dense, dense, &random);
    if (app_random(&random) % 4 != 0 && !app->ring && !app->whole) {
        adder_add_table(app, "sparse", AML_INT64, AML_ADD, 0, 4 + (unsigned)(app_random(&random) % 60), &random);
    }
    if (app_random(&random) % 2 != 0) {
        unsigned rows = 4 + (unsigned)(app_random(&random) % 20);
        adder_add_table(app, "narrow", AML_INT32, AML_ADD, app_random(&random) % 2 * rows, rows, &random);
    }
    if (app_random(&random) % 2 != 0) {
        unsigned rows = 4 + (unsigned)(app_random(&random) % 20);
        adder_add_table(app, "real", AML_FLOAT64, AML_ADD, app_random(&random) % 2 * rows, rows, &random);
    }
    adder_add_stepped(app);
    unsigned add_rows = app->row_count;
    int put_table = -1;
    if (app_random(&random) % 2 != 0 && !app->ring && !app->whole) {
        put_table = (int)app->job.table_count;
        adder_add_table(app, "put", AML_INT64, AML_PUT, app_random(&random) % 2 * shards, shards, &random);
    }
    adder_add_replica(app);
    adder_add_states(app);
    adder_add_shards(app, shards, add_rows, put_table, &random);
    adder->elements = memory_zeroed(app->element_count, sizeof *adder->elements);
    adder->touched = memory_zeroed(app->row_count, 1);
    app_complete(app);
}
