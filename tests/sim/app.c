/* See app.h. */
#include "tests/sim/app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Construction ---- */

struct table_spec *app_add_table(struct app *app, const struct table_spec *spec) {
    unsigned t = app->job.table_count++;
    struct table_spec *table = &app->job.tables[t];
    *table = *spec;
    table->row_bytes = table->width * (uint32_t)aml_type_size(table->type);
    table->context = table;
    app->job.shapes[t] = table_shape(table);
    app->table_rows[t] = app->table_rows[t + 1] = app->row_count;
    return table;
}

unsigned app_add_row(struct app *app, uint64_t key) {
    unsigned t = app->job.table_count - 1;
    app->rows = memory_resized(app->rows, app->row_count + 1, sizeof *app->rows);
    app->rows[app->row_count] = (struct app_row){.table = t, .key = key, .first = app->element_count};
    index_map_add(&app->row_index[t], key, app->row_count);
    app->element_count += app->job.tables[t].width;
    app->table_rows[t + 1] = ++app->row_count;
    return app->row_count - 1;
}

void app_shard_names(struct app_shard *shard, unsigned row) {
    shard->rows = memory_resized(shard->rows, shard->row_count + 1, sizeof *shard->rows);
    shard->rows[shard->row_count++] = row;
}

void app_complete(struct app *app) {
    for (unsigned s = 0; s < app->shard_count; s++) {
        app->items += app->shards[s].items;
    }
    app->scratch = memory_zeroed(app->element_count, sizeof *app->scratch);
}

void app_close(struct app *app) {
    app->kind->close(app);
    for (unsigned t = 0; t < app->job.table_count; t++) {
        index_map_close(&app->row_index[t]);
    }
    for (unsigned s = 0; s < app->shard_count; s++) {
        free(app->shards[s].rows);
    }
    for (uint64_t c = 0; c < app->state_count; c++) {
        free(app->states[c]);
    }
    free(app->states);
    free(app->parts);
    free(app->scratch);
    free(app->shards);
    free(app->rows);
}

/* ---- Parts of an iteration ---- */

unsigned app_parts(const struct app *app, uint64_t clock) {
    return clock < app->part_clocks && app->parts[clock] > 0 ? app->parts[clock] - 1U : 1;
}

bool app_set_parts(struct app *app, uint64_t clock, unsigned parts) {
    if (clock >= app->part_clocks) {
        app->parts = memory_resized(app->parts, clock + 1, 1);
        memset(app->parts + app->part_clocks, 0, clock + 1 - app->part_clocks);
        app->part_clocks = clock + 1;
    }
    bool same = app->parts[clock] == 0 || app->parts[clock] == parts + 1;
    app->parts[clock] = (unsigned char)(parts + 1);
    return same;
}

void app_forget_parts(struct app *app, uint64_t clock) {
    for (uint64_t c = clock + 1; c < app->part_clocks; c++) {
        app->parts[c] = 0;
    }
}

/* ---- The oracle ---- */

uint64_t app_shard_items(const struct app *app, unsigned shard, uint64_t from_clock, uint64_t until_clock) {
    uint64_t items = 0;
    for (uint64_t clock = from_clock; clock <= until_clock; clock++) {
        items += clock % app->phases == 0 ? app->kind->items(app, shard, clock) : 0;
    }
    return items;
}

uint64_t app_worked(const struct app *app, uint64_t from_clock, uint64_t until_clock) {
    uint64_t items = 0;
    for (uint64_t clock = from_clock; clock <= until_clock; clock++) {
        for (unsigned s = 0; s < app->shard_count; s++) {
            items += app->kind->items(app, s, clock);
        }
    }
    return items;
}

uint64_t app_items(const struct app *app, uint64_t from_clock, uint64_t until_clock) {
    uint64_t items = 0;
    for (unsigned s = 0; s < app->shard_count; s++) {
        items += app_shard_items(app, s, from_clock, until_clock);
    }
    return items;
}

/* Sets the start values, from the tables' functions. */
static void state_start(const struct app *app, uint64_t *state) {
    for (unsigned r = 0; r < app->row_count; r++) {
        const struct table_spec *spec = &app->job.tables[app->rows[r].table];
        uint64_t *memory = memory_zeroed(spec->width, sizeof *memory); /* no element is larger */
        if (spec->start != NULL) {
            spec->start(spec->context, app->rows[r].key, memory);
        }
        app_elements(app, r, memory, state + app->rows[r].first);
        free(memory);
    }
}

const uint64_t *app_state(struct app *app, uint64_t clock) {
    while (app->state_count <= clock) {
        uint64_t *state = memory_zeroed(app->element_count, sizeof *state);
        if (app->state_count == 0) {
            state_start(app, state);
        } else {
            memcpy(state, app->states[app->state_count - 1], app->element_count * sizeof *state);
            app->kind->advance(app, app->state_count, state);
        }
        app->states = memory_resized(app->states, app->state_count + 1, sizeof *app->states);
        app->states[app->state_count++] = state;
    }
    return app->states[clock];
}

void app_restore(struct app *app, uint64_t clock) {
    while (app->state_count > clock + 1) {
        free(app->states[--app->state_count]);
    }
}

int64_t app_find(const struct app *app, unsigned table, uint64_t key) {
    return index_map_find(&app->row_index[table], key);
}

unsigned app_width(const struct app *app, unsigned row) {
    return app->job.tables[app->rows[row].table].width;
}

/* ---- Rows in memory ---- */

void app_elements(const struct app *app, unsigned row, const void *memory, uint64_t *elements) {
    const struct table_spec *spec = &app->job.tables[app->rows[row].table];
    for (unsigned e = 0; e < spec->width; e++) {
        switch (spec->type) {
        case AML_INT64:
            elements[e] = ((const uint64_t *)memory)[e];
            break;
        case AML_INT32:
            elements[e] = (uint64_t)(int64_t)((const int32_t *)memory)[e];
            break;
        default:
            elements[e] = (uint64_t)(int64_t)((const double *)memory)[e];
            break;
        }
    }
}

void app_apply(const struct app *app, unsigned row, const uint64_t *elements, void *memory) {
    const struct table_spec *spec = &app->job.tables[app->rows[row].table];
    bool put = spec->mode == AML_PUT;
    for (unsigned e = 0; e < spec->width; e++) {
        uint64_t value = elements[e];
        if (spec->type == AML_INT64) {
            uint64_t *at = (uint64_t *)memory + e;
            *at = put ? value : *at + value;
        } else if (spec->type == AML_INT32) {
            uint32_t *at = (uint32_t *)memory + e;
            *at = put ? (uint32_t)value : *at + (uint32_t)value;
        } else {
            double *at = (double *)memory + e;
            *at = put ? (double)(int64_t)value : *at + (double)(int64_t)value;
        }
    }
}

bool app_equal(const struct app *app, unsigned row, const uint64_t *state, const void *memory, char *text,
               size_t size) {
    const struct table_spec *spec = &app->job.tables[app->rows[row].table];
    for (unsigned e = 0; e < spec->width; e++) {
        int64_t expected = (int64_t)state[app->rows[row].first + e];
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
                     (unsigned long long)app->rows[row].key, e, (long long)found, (long long)expected);
            return false;
        }
    }
    return true;
}

/* ---- Changes ---- */

void app_changes_add(const struct app *app, struct app_changes *changes, unsigned row, const uint64_t *elements) {
    unsigned width = app_width(app, row);
    unsigned at = 0;
    while (at < changes->count && changes->rows[at] != row) {
        at++;
    }
    if (at == changes->count) {
        changes->count++;
        changes->rows = memory_resized(changes->rows, changes->count, sizeof *changes->rows);
        changes->starts = memory_resized(changes->starts, changes->count, sizeof *changes->starts);
        changes->elements =
            memory_resized(changes->elements, changes->element_count + width, sizeof *changes->elements);
        changes->rows[at] = row;
        changes->starts[at] = changes->element_count;
        memset(changes->elements + changes->element_count, 0, width * sizeof *changes->elements);
        changes->element_count += width;
    }
    bool put = app->job.tables[app->rows[row].table].mode == AML_PUT;
    for (unsigned e = 0; e < width; e++) {
        uint64_t *element = &changes->elements[changes->starts[at] + e];
        *element = elements[e] + (put ? 0 : *element);
    }
}

void app_changes_apply(const struct app *app, const struct app_changes *changes, int64_t row, uint64_t *state) {
    for (unsigned r = 0; r < changes->count; r++) {
        if (row >= 0 && changes->rows[r] != (unsigned)row) {
            continue;
        }
        const struct app_row *changed = &app->rows[changes->rows[r]];
        bool put = app->job.tables[changed->table].mode == AML_PUT;
        for (unsigned e = 0; e < app->job.tables[changed->table].width; e++) {
            uint64_t *element = &state[changed->first + e];
            *element = changes->elements[changes->starts[r] + e] + (put ? 0 : *element);
        }
    }
}

void app_changes_close(struct app_changes *changes) {
    free(changes->rows);
    free(changes->starts);
    free(changes->elements);
}
