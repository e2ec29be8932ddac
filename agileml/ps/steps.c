/* See steps.h. */
#include "agileml/ps/steps.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint64_t key_of_slot(const void *context, uint32_t slot) {
    return table_key(context, slot);
}

static struct steps_rows rows_of(const struct table *table) {
    return (struct steps_rows){.base = table->rows.base, .stride = table->spec->row_bytes, .spec = table->spec};
}

struct steps_place steps_of_table(const struct table *table) {
    struct steps_place place = {.rows = rows_of(table), .key = key_of_slot, .context = table};
    if (table->partner != NULL) {
        place.states = rows_of(table->partner);
    }
    return place;
}

static unsigned char *place_row(const struct steps_rows *rows, uint32_t slot) {
    return rows->base != NULL ? rows->base + slot * rows->stride : NULL;
}

void steps_open(struct steps *steps, const struct steps_place *place, uint64_t clock, uint32_t count,
                struct error *error) {
    const struct table_spec *spec = place->rows.spec;
    const struct table_spec *states = place->states.spec;
    size_t state_bytes = states != NULL ? states->row_bytes : 0;
    *steps = (struct steps){.place = *place,
                            .error = error,
                            .call = {.clock = clock,
                                     .type = spec->type,
                                     .width = spec->width,
                                     .state_width = states != NULL ? states->width : 0}};
    if (spec->apply_rows == NULL || count == 0) {
        return;
    }
    uint32_t most = (uint32_t)(STEPS_BYTES_MAX / (2 * spec->row_bytes + state_bytes));
    most = most > STEPS_ROWS_MAX ? STEPS_ROWS_MAX : most > 0 ? most : 1;
    steps->room = count < most ? count : most;
    steps->slots = memory_resized(NULL, steps->room, sizeof *steps->slots);
    steps->call.keys = memory_resized(NULL, steps->room, sizeof *steps->call.keys);
    steps->call.rows = memory_resized(NULL, steps->room, spec->row_bytes);
    steps->call.sums = memory_resized(NULL, steps->room, spec->row_bytes);
    steps->call.states = states != NULL ? memory_resized(NULL, steps->room, state_bytes) : NULL;
}

static void step_rows(const struct steps *steps, uint32_t slot, uint32_t rows, const unsigned char *sums,
                      size_t stride) {
    const struct steps_place *place = &steps->place;
    const struct table_spec *spec = place->rows.spec;
    struct aml_step step = {
        .clock = steps->call.clock, .type = spec->type, .width = spec->width, .state_width = steps->call.state_width};
    for (uint32_t i = 0; i < rows; i++) {
        step.key = place->key(place->context, slot + i);
        step.row = place_row(&place->rows, slot + i);
        step.state = place_row(&place->states, slot + i);
        step.sum = sums + i * stride;
        spec->apply(&step, spec->parameters);
    }
}

/* Copies rows and states from their place into the call, or `back` from the call into their place. */
static void copy_rows(struct steps *steps, uint32_t first, uint32_t count, bool back) {
    const struct steps_rows *const places[] = {&steps->place.rows, &steps->place.states};
    unsigned char *copies[] = {steps->call.rows, steps->call.states};
    for (unsigned p = 0; p < 2 && copies[p] != NULL; p++) {
        size_t bytes = places[p]->spec->row_bytes;
        for (uint32_t i = first; i < first + count; i++) {
            unsigned char *row = place_row(places[p], steps->slots[i]);
            unsigned char *copy = copies[p] + i * bytes;
            memcpy(back ? row : copy, back ? copy : row, bytes);
        }
    }
}

static void call_apply_rows(struct steps *steps) {
    const struct table_spec *spec = steps->place.rows.spec;
    if (steps->call.count > 0) {
        char text[ERROR_TEXT_MAX] = "";
        steps->call.error = text;
        steps->call.error_bytes = sizeof text;
        int result = spec->apply_rows(&steps->call, spec->parameters);
        if (result != 0) {
            text[sizeof text - 1] = '\0';
            int code = result > 0 ? AML_EINPUT : result == AML_ESTOP ? AML_EFAIL : result; /* nobody stopped the node */
            error_set(steps->error, code, "table %s: apply_rows: %s", spec->name,
                      text[0] != '\0' ? text : "failed without a reason");
        }
        copy_rows(steps, 0, (uint32_t)steps->call.count, true);
        steps->call.count = 0;
    }
}

void steps_add(struct steps *steps, uint32_t slot, uint32_t rows, const unsigned char *sums, size_t stride) {
    const struct table_spec *spec = steps->place.rows.spec;
    if (spec->apply_rows == NULL) {
        step_rows(steps, slot, rows, sums, stride);
        return;
    }
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t last = (uint32_t)steps->call.count;
        assert(last < steps->room); /* a full call is made at once */
        steps->slots[last] = slot + i;
        steps->call.keys[last] = steps->place.key(steps->place.context, slot + i);
        copy_rows(steps, last, 1, false);
        memcpy((unsigned char *)steps->call.sums + (size_t)last * spec->row_bytes, sums + i * stride, spec->row_bytes);
        steps->call.count++;
        if (steps->call.count == steps->room) {
            call_apply_rows(steps);
        }
    }
}

void steps_close(struct steps *steps) {
    call_apply_rows(steps);
    free(steps->slots);
    free(steps->call.keys);
    free(steps->call.rows);
    free(steps->call.sums);
    free(steps->call.states);
}
