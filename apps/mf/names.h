/* The ids that are texts, for the model's file: of the rows whose keys are hashes (workers/rating_ids.h), the texts in
 * the input. One thread. */
#ifndef APPS_MF_NAMES_H
#define APPS_MF_NAMES_H

#include "agileml/base/error.h"
#include "agileml/base/hash.h"
#include "apps/mf/model.h"
#include "workers/ratings.h"

#include <stddef.h>
#include <stdint.h>

/* The names of a table's rows. Begins as zeros; mf_names_close frees it. */
struct mf_names {
    uint64_t *keys;
    char **texts; /* NULL: not found yet */
    size_t count, capacity;
    struct index_map map; /* key to its place in keys and texts */
};

/* Adds a row, of which a name is wanted if its key is a text's. Each key once. */
void mf_names_want(struct mf_names *names, uint64_t key);
/* Sets the name of a key; of others than those that are wanted nothing. Returns 0, or AML_EINPUT when the key has
 * another name. */
int mf_names_set(struct mf_names *names, uint64_t key, const char *text, size_t length, struct error *error);
/* Reads the file at `path` for the names that are wanted; names[] by enum mf_model_table. Returns 0, AML_EINPUT (one
 * line) or another code of ratings_read. */
int mf_names_read(struct mf_names names[2], const char *path, const struct ratings_options *options,
                  struct error *error);
/* Returns 0 when each key that is wanted has a name, or AML_EINPUT. */
int mf_names_check(const struct mf_names names[2], struct error *error);
void mf_names_close(struct mf_names *names);

#endif
