/* The steps that optimizers make on this process's own rows and states, in tables that are averaged. See client.h. */
#include "agileml/ps/steps.h"
#include "workers/client/client_private.h"

#include <string.h>

/* Replicated tables alone are averaged with an optimizer: their slots are keys. */
static uint64_t key_of_slot(const void *context, uint32_t slot) {
    (void)context;
    return slot;
}

static struct steps_rows rows_of(const struct cache_table *table) {
    return (struct steps_rows){.base = table->rows.base, .stride = table->stride, .spec = table->spec};
}

/* Steps the updated rows of [slot, end), and marks them and their states for the flush. */
static void step_rows(const struct cache_table *table, const struct cache_table *states, uint64_t clock, uint32_t slot,
                      uint32_t end, struct error *error) {
    struct steps_place place = {.rows = rows_of(table), .key = key_of_slot};
    struct steps steps;
    if (states != NULL) {
        place.states = rows_of(states);
    }
    steps_open(&steps, &place, clock, end - slot, error);
    while (slot < end) {
        uint32_t run = 0;
        while (slot + run < end && table->updated.base[slot + run] != 0) {
            run++;
        }
        if (run > 0) {
            steps_add(&steps, slot, run, cache_sum(table, slot), table->stride);
            memset(cache_sum(table, slot), 0, run * table->stride);
            memset(table->updated.base + slot, 0, run);
            memset(table->touched.base + slot, 1, run);
        }
        if (run > 0 && states != NULL) {
            memset(states->touched.base + slot, 1, run);
        }
        slot += run + 1;
    }
    steps_close(&steps);
}

int client_step(struct client *client, uint64_t clock, unsigned part, unsigned parts, struct error *error) {
    *error = (struct error){0};
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_table *table = &client->cache->tables[t];
        const unsigned state = table->spec->state;
        if (table_steps_locally(table->spec)) {
            uint32_t first = (uint32_t)((uint64_t)table->count * part / parts);
            uint32_t end = (uint32_t)((uint64_t)table->count * (part + 1) / parts);
            step_rows(table, state != 0 ? &client->cache->tables[state] : NULL, clock, first, end, error);
        }
    }
    return error->code;
}
