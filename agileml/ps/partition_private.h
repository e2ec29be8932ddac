/* What partition.c (clocks) and partition_rows.c (rows into messages) share. */
#ifndef AGILEML_PS_PARTITION_PRIVATE_H
#define AGILEML_PS_PARTITION_PRIVATE_H

#include "agileml/ps/partition.h"

/* Returns the index of the origin in partition->origins, or -1. */
int partition_origin(const struct partition *partition, actor_id actor);

/* Returns the length of the run of consecutive slots that starts at slots[0]. */
static inline uint32_t slots_run(const uint32_t *slots, uint32_t count) {
    uint32_t run = 1;
    while (run < count && slots[run] == slots[0] + run) {
        run++;
    }
    return run;
}

/* Returns the slots of a view's keys, which the caller frees. Makes rows that do not exist. NULL on error. */
uint32_t *partition_view_slots(struct table *table, const struct rows_view *view, struct error *error);

#endif
