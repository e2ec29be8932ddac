/* What the two halves of a partition share: partition.c (its clocks) and partition_rows.c (rows into messages). */
#ifndef AGILEML_PS_PARTITION_PRIVATE_H
#define AGILEML_PS_PARTITION_PRIVATE_H

#include "agileml/ps/partition.h"

/* The index of an origin, or -1. */
int partition_origin(const struct partition *partition, actor_id actor);

/* The length of the run of consecutive slots that starts at slots[0]. */
static inline uint32_t slots_run(const uint32_t *slots, uint32_t count) {
    uint32_t run = 1;
    while (run < count && slots[run] == slots[0] + run) {
        run++;
    }
    return run;
}

/* Slots of a view's keys, made where new; NULL on error. */
uint32_t *partition_view_slots(struct table *table, const struct rows_view *view, struct error *error);

#endif
