/* See names.h. */
#include "apps/mf/names.h"

#include "agileml/base/memory.h"
#include "workers/data/rating_ids.h"

#include <stdlib.h>
#include <string.h>

enum { CAPACITY_MIN = 64 };

static const char *const table_names[2] = {"user", "item"};

void mf_names_want(struct mf_names *names, uint64_t key) {
    if ((key & RATING_ID_TEXT) == 0) {
        return;
    }
    if (names->count == names->capacity) {
        names->capacity = names->capacity > 0 ? 2 * names->capacity : CAPACITY_MIN;
        names->keys = memory_resized(names->keys, names->capacity, sizeof *names->keys);
        names->texts = memory_resized(names->texts, names->capacity, sizeof *names->texts);
    }
    names->keys[names->count] = key;
    names->texts[names->count] = NULL;
    index_map_add(&names->map, key, (uint32_t)names->count++);
}

int mf_names_set(struct mf_names *names, uint64_t key, const char *text, size_t length, struct error *error) {
    int64_t place = index_map_find(&names->map, key);
    if (place == INDEX_NONE) {
        return 0;
    }
    char **name = &names->texts[place];
    if (*name == NULL) {
        *name = memory_zeroed(length + 1, 1);
        memcpy(*name, text, length);
    } else if (strlen(*name) != length || memcmp(*name, text, length) != 0) {
        return error_set(error, AML_EINPUT, "the ids '%s' and '%.*s' have the same 64-bit hash: rename one of them",
                         *name, (int)length, text);
    }
    return 0;
}

/* ---- Reading ---- */

struct reading {
    struct mf_names *names; /* [2], indexed by enum mf_model_table */
    const char *path;
    struct error *error;
};

static int set_name(const struct reading *reading, int table, uint64_t key, const struct text_field *field) {
    char text[RATING_ID_MAX];
    struct error error = {0};
    if ((key & RATING_ID_TEXT) == 0) {
        return 0;
    }
    size_t length = rating_id_text(field, text);
    int code = mf_names_set(&reading->names[table], key, text, length, &error);
    return code == 0 ? 0 : error_set(reading->error, code, "%s: %s", reading->path, error.text);
}

static int take_ratings(void *context, unsigned thread, const struct rating *ratings, const struct rating_texts *texts,
                        size_t count) {
    const struct reading *reading = context;
    int code = 0;
    (void)thread;
    for (size_t i = 0; i < count && code == 0; i++) {
        code = set_name(reading, MF_MODEL_USERS, ratings[i].user, &texts[i].user);
        code = code != 0 ? code : set_name(reading, MF_MODEL_ITEMS, ratings[i].item, &texts[i].item);
    }
    return code;
}

int mf_names_read(struct mf_names names[2], const char *path, const struct ratings_options *options,
                  struct error *error) {
    struct reading reading = {.names = names, .path = path, .error = error};
    const struct ratings_reader reader = {
        .options = *options, .threads = 1, .text_sink = take_ratings, .context = &reading};
    return ratings_read(&reader, path, error);
}

int mf_names_check(const struct mf_names names[2], struct error *error) {
    for (int t = 0; t < 2; t++) {
        for (size_t i = 0; i < names[t].count; i++) {
            if (names[t].texts[i] == NULL) {
                return error_set(error, AML_EINPUT,
                                 "the input has no %s any more whose id has the hash %llx: expected files that do not "
                                 "change while the job runs",
                                 table_names[t], (unsigned long long)names[t].keys[i]);
            }
        }
    }
    return 0;
}

void mf_names_close(struct mf_names *names) {
    for (size_t i = 0; i < names->count; i++) {
        free(names->texts[i]);
    }
    free(names->keys);
    free(names->texts);
    index_map_close(&names->map);
    *names = (struct mf_names){.count = 0};
}
