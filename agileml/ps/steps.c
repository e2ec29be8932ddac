/* See steps.h. */
#include "agileml/ps/steps.h"

#include "agileml/base/memory.h"
#include "agileml/ps/partition_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint32_t state_bytes(const struct table *table) {
    return table->partner != NULL ? table->partner->spec->row_bytes : 0;
}

void steps_open(struct steps *steps, const struct table *table, uint64_t clock, uint32_t count, struct error *error) {
    const struct table_spec *spec = table->spec;
    *steps = (struct steps){.table = table,
                            .error = error,
                            .call = {.clock = clock,
                                     .type = spec->type,
                                     .width = spec->width,
                                     .state_width = table->partner != NULL ? table->partner->spec->width : 0}};
    if (spec->apply_rows == NULL || count == 0) {
        return;
    }
    uint32_t most = STEPS_BYTES_MAX / (2 * spec->row_bytes + state_bytes(table));
    most = most > STEPS_ROWS_MAX ? STEPS_ROWS_MAX : most > 0 ? most : 1;
    steps->room = count < most ? count : most;
    steps->slots = memory_resized(NULL, steps->room, sizeof *steps->slots);
    steps->call.keys = memory_resized(NULL, steps->room, sizeof *steps->call.keys);
    steps->call.rows = memory_resized(NULL, steps->room, spec->row_bytes);
    steps->call.sums = memory_resized(NULL, steps->room, spec->row_bytes);
    steps->call.states = table->partner != NULL ? memory_resized(NULL, steps->room, state_bytes(table)) : NULL;
}

static void step_rows(const struct table *table, uint64_t clock, uint32_t slot, uint32_t rows,
                      const unsigned char *sums) {
    const struct table_spec *spec = table->spec;
    const struct table *states = table->partner;
    struct aml_step step = {.clock = clock,
                            .type = spec->type,
                            .width = spec->width,
                            .state_width = states != NULL ? states->spec->width : 0};
    for (uint32_t i = 0; i < rows; i++) {
        step.key = table_key(table, slot + i);
        step.row = table_row(table, slot + i);
        step.state = states != NULL ? table_row(states, slot + i) : NULL;
        step.sum = sums + (size_t)i * spec->row_bytes;
        spec->apply(&step, spec->parameters);
    }
}

/* Copies rows and states from the table into the call, or `back` from the call into the table. */
static void copy_rows(struct steps *steps, uint32_t first, uint32_t count, bool back) {
    const struct table *tables[] = {steps->table, steps->table->partner};
    unsigned char *copies[] = {steps->call.rows, steps->call.states};
    for (unsigned t = 0; t < 2 && tables[t] != NULL; t++) {
        uint32_t bytes = tables[t]->spec->row_bytes;
        for (uint32_t done = 0; done < count;) {
            const uint32_t *slots = steps->slots + first + done;
            uint32_t run = slots_run(slots, count - done);
            unsigned char *rows = table_row(tables[t], slots[0]);
            unsigned char *copy = copies[t] + (size_t)(first + done) * bytes;
            memcpy(back ? rows : copy, back ? copy : rows, (size_t)run * bytes);
            done += run;
        }
    }
}

static void call_apply_rows(struct steps *steps) {
    if (steps->call.count > 0) {
        char text[ERROR_TEXT_MAX] = "";
        steps->call.error = text;
        steps->call.error_bytes = sizeof text;
        int result = steps->table->spec->apply_rows(&steps->call, steps->table->spec->parameters);
        if (result != 0) {
            text[sizeof text - 1] = '\0';
            int code = result > 0 ? AML_EINPUT : result == AML_ESTOP ? AML_EFAIL : result; /* nobody stopped the node */
            error_set(steps->error, code, "table %s: apply_rows: %s", steps->table->spec->name,
                      text[0] != '\0' ? text : "failed without a reason");
        }
        copy_rows(steps, 0, (uint32_t)steps->call.count, true);
        steps->call.count = 0;
    }
}

void steps_add(struct steps *steps, uint32_t slot, uint32_t rows, const unsigned char *sums) {
    const struct table_spec *spec = steps->table->spec;
    if (spec->apply_rows == NULL) {
        step_rows(steps->table, steps->call.clock, slot, rows, sums);
        return;
    }
    for (uint32_t done = 0; done < rows;) {
        uint32_t first = (uint32_t)steps->call.count;
        assert(first < steps->room); /* a full call is made at once */
        uint32_t count = rows - done < steps->room - first ? rows - done : steps->room - first;
        for (uint32_t i = 0; i < count; i++) {
            steps->slots[first + i] = slot + done + i;
            steps->call.keys[first + i] = table_key(steps->table, slot + done + i);
        }
        copy_rows(steps, first, count, false);
        memcpy((unsigned char *)steps->call.sums + (size_t)first * spec->row_bytes,
               sums + (size_t)done * spec->row_bytes, (size_t)count * spec->row_bytes);
        steps->call.count += count;
        done += count;
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
