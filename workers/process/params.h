/* Rows by key: finds rows in the cache, fetches new ones, and reads and updates them by copy. The public functions are
 * in app.c.
 *
 * Runs in the pool's threads during a command. A row in the cache is found without a lock (cache.h), and copied or
 * changed under a lock that it shares with a few other rows. A process with one thread takes no locks. */
#ifndef AGILEML_WORKERS_PARAMS_H
#define AGILEML_WORKERS_PARAMS_H

#include "workers/process/runtime.h"

/* Makes the locks, if there is more than one thread. */
void params_open(struct runtime *runtime);
void params_close(struct runtime *runtime);

/* Reading and updating. Callers have checked that the keys are in range. Both functions return 0 or an error of
 * runtime_fetch; after an error some of the rows may have been copied or changed. */

/* Copies the rows keys[count] into values, row behind row. */
int params_read(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count, void *values);
/* Adds deltas, row behind row, to the rows keys[count], in this order. In a table with AML_PUT, overwrites the rows; in
 * one with an optimizer, adds to the sums of updates. */
int params_update(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count, const void *deltas);

/* Keeps the changes that the app reports by aml_give_changes; see cache_give. */
void params_give(struct runtime *runtime, unsigned table, uint32_t slot, uint32_t count, const uint32_t *columns,
                 const void *changes);

#endif
