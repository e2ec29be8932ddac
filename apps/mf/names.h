/* The ids that are texts, for the model's file. Keys of such ids are hashes (workers/data/rating_ids.h); this module
 * finds their texts in the input. One thread. */
#ifndef APPS_MF_NAMES_H
#define APPS_MF_NAMES_H

#include "agileml/base/error.h"
#include "agileml/base/hash.h"
#include "apps/mf/model.h"
#include "workers/data/ratings.h"

#include <stddef.h>
#include <stdint.h>

/* The names of a table's rows. Must be zeroed before; mf_names_close frees it. */
struct mf_names {
    uint64_t *keys;
    char **texts; /* NULL: not found yet */
    size_t count, capacity;
    struct index_map map; /* key to its index in keys and texts */
};

/* Adds a row. Its name is wanted if its key is that of a text. Add each key once. */
void mf_names_want(struct mf_names *names, uint64_t key);
/* Sets the name of a key. Ignores keys that are not wanted. Returns 0, or AML_EINPUT when the key already has
 * another name. */
int mf_names_set(struct mf_names *names, uint64_t key, const char *text, size_t length, struct error *error);
/* Reads the wanted names from the file at `path`; names[] is indexed by enum mf_model_table. Returns 0, AML_EINPUT
 * (one line) or another code of ratings_read. */
int mf_names_read(struct mf_names names[2], const char *path, const struct ratings_options *options,
                  struct error *error);
/* Returns 0 when each wanted key has a name, else AML_EINPUT. */
int mf_names_check(const struct mf_names names[2], struct error *error);
void mf_names_close(struct mf_names *names);

#endif
