/* Where the controller keeps what it must know after a crash: named entries, written all or none. SQLite behind it;
 * the simulation has its own. One thread. */
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
    /* Replaces or removes `count` entries, all or none; what was written survives the process's end at any moment. */
    int (*write)(struct store *store, const struct store_entry *entries, unsigned count, struct error *error);
    /* Calls `each` with every entry, in the order of keys; ends early with its first result that is not 0. */
    int (*read)(struct store *store,
                int (*each)(void *context, const char *key, const void *bytes, size_t size, struct error *error),
                void *context, struct error *error);
    void (*close)(struct store *store);
};

/* Opens or makes the file at `path`. AML_EINPUT when it is something else, or another controller has it open. */
int store_open(struct store **store, const char *path, struct error *error);

#endif
