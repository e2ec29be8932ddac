/* See cloud.h: specifications, tags, and attempts with a token. */
#include "agileml/base/memory.h"
#include "spotmarket/cloud.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct launch_spec *launch_spec_new(const struct catalog_price *type) {
    struct launch_spec *spec = memory_zeroed(1, sizeof *spec);
    spec->holders = 1;
    spec->type = type;
    return spec;
}

struct launch_spec *launch_spec_hold(struct launch_spec *spec) {
    spec->holders++;
    return spec;
}

void launch_spec_drop(struct launch_spec *spec) {
    if (spec == NULL || --spec->holders > 0) {
        return;
    }
    for (size_t i = 0; i < spec->group_count; i++) {
        free(spec->groups[i]);
    }
    free(spec->image);
    free(spec->key_name);
    free(spec->profile);
    free(spec->subnet);
    free(spec->user_data);
    free(spec);
}

/* ---- Tags ---- */

static struct cloud_tag *tags_find(const struct cloud_tags *tags, const char *key) {
    for (size_t i = 0; i < tags->count; i++) {
        if (strcmp(tags->list[i].key, key) == 0) {
            return &tags->list[i];
        }
    }
    return NULL;
}

bool cloud_tags_set(struct cloud_tags *tags, const char *key, const char *value) {
    struct cloud_tag *tag = tags_find(tags, key);
    if (tag == NULL && tags->count == CLOUD_TAGS_MAX) {
        return false;
    }
    if (tag == NULL) {
        tags->list = memory_resized(tags->list, tags->count + 1, sizeof *tags->list);
        tag = &tags->list[tags->count++];
        *tag = (struct cloud_tag){.key = memory_string(key)};
    }
    free(tag->value);
    tag->value = memory_string(value);
    return true;
}

const char *cloud_tags_get(const struct cloud_tags *tags, const char *key) {
    const struct cloud_tag *tag = tags_find(tags, key);
    return tag != NULL ? tag->value : NULL;
}

void cloud_tags_copy(struct cloud_tags *to, const struct cloud_tags *from) {
    for (size_t i = 0; i < from->count; i++) {
        (void)cloud_tags_set(to, from->list[i].key, from->list[i].value); /* fits: `from` has at most CLOUD_TAGS_MAX */
    }
}

void cloud_tags_close(struct cloud_tags *tags) {
    for (size_t i = 0; i < tags->count; i++) {
        free(tags->list[i].key);
        free(tags->list[i].value);
    }
    free(tags->list);
    *tags = (struct cloud_tags){0};
}

/* ---- Attempts ---- */

struct attempt *cloud_attempt(const struct cloud *cloud, const char *action, const char *token) {
    for (size_t i = 0; i < cloud->attempt_count; i++) {
        struct attempt *attempt = &cloud->attempts[i];
        if (strcmp(attempt->token, token) == 0 && strcmp(attempt->action, action) == 0) {
            return attempt;
        }
    }
    return NULL;
}

void cloud_remember(struct cloud *cloud, const char *action, const struct attempt *attempt) {
    assert(cloud->attempt_count < CLOUD_RECORDS_MAX);
    cloud->attempts =
        memory_extended(cloud->attempts, cloud->attempt_count, &cloud->attempt_capacity, sizeof *cloud->attempts);
    struct attempt *kept = &cloud->attempts[cloud->attempt_count++];
    *kept = *attempt;
    kept->action = memory_string(action);
}
