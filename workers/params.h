/* Rows by key: finds them in the cache, has those fetched that are seen for the first time, and reads and updates them
 * by copy. The public functions are in app.c.
 *
 * Threads: the pool's, while they have a command. A row that is in the cache is found without a lock (cache.h), and
 * copied or changed under a lock that it shares with a few others; a process with one thread takes none. */
#ifndef AGILEML_WORKERS_PARAMS_H
#define AGILEML_WORKERS_PARAMS_H

#include "workers/runtime.h"

/* Makes the locks, if there is more than one thread. */
void params_open(struct runtime *runtime);
void params_close(struct runtime *runtime);

/* Reading and updating. Keys are in range: callers have checked them. Both return 0 or what runtime_fetch returns; then
 * some of the rows may have been copied or changed. */

/* Copies the rows keys[count] into values, row behind row. */
int params_read(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count, void *values);
/* Adds deltas, row behind row, to the rows keys[count], in this order; in tables that are put, replaces them. */
int params_update(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count, const void *deltas);

/* Keeps what the app says it changed in place; see cache_give. */
void params_give(struct runtime *runtime, unsigned table, uint32_t slot, uint32_t count, const uint32_t *columns,
                 const void *changes);

#endif
