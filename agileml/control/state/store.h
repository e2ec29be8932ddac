/* Storage for the state that the elasticity controller needs after a crash: named entries. A write stores all of its
 * entries or none. Implemented with SQLite; the simulation has its own implementation. Used by one thread. */
#ifndef AGILEML_CONTROL_STORE_H
#define AGILEML_CONTROL_STORE_H

#include "agileml/base/error.h"

#include <stddef.h>

struct store_entry {
    const char *key;   /* text, at most STORE_KEY_MAX - 1 bytes */
    const void *bytes; /* NULL: the entry is removed */
    size_t size;
};

enum { STORE_KEY_MAX = 64 };

struct store {
    /* Replaces or removes `count` entries, all or none. Written entries survive when the process is killed. */
    int (*write)(struct store *store, const struct store_entry *entries, unsigned count, struct error *error);
    /* Calls `each` with every entry, in the order of keys. Stops at the first result that is not 0, and returns it.
     * AML_EINPUT when an entry is damaged. */
    int (*read)(struct store *store,
                int (*each)(void *context, const char *key, const void *bytes, size_t size, struct error *error),
                void *context, struct error *error);
    void (*close)(struct store *store);
};

/* Opens or makes the file at `path`. Returns AML_EINPUT when the file is not a store, or another controller has it
 * open. */
int store_open(struct store **store, const char *path, struct error *error);

#endif
