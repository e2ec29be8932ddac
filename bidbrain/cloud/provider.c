/* See provider.h. Copies options. */
#include "bidbrain/cloud/provider.h"

#include "agileml/base/memory.h"

#include <stdlib.h>

static const char *const *options_list(const char *const *list) {
    size_t count = 0;
    while (list != NULL && list[count] != NULL) {
        count++;
    }
    char **copy = memory_zeroed(count + 1, sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        copy[i] = memory_string(list[i]);
    }
    return (const char *const *)copy;
}

static void options_list_free(const char *const *list) {
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        free((char *)(uintptr_t)list[i]);
    }
    free((void *)(uintptr_t)list);
}

/* Calls `each` for each text of a copy; the texts are from malloc. */
static void options_texts(struct provider_options *options, void (*each)(const char **text)) {
    const char **const texts[] = {&options->job,        &options->user_data,        &options->app,
                                  &options->binary,     &options->controller,       &options->key,
                                  &options->aws.region, &options->aws.endpoint,     &options->image,
                                  &options->key_name,   &options->instance_profile, &options->launch_template,
                                  &options->product};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        each(texts[i]);
    }
}

static void options_copy_text(const char **text) {
    *text = *text == NULL ? NULL : memory_string(*text);
}

static void options_free_text(const char **text) {
    free((char *)(uintptr_t)*text);
}

void provider_options_copy(struct provider_options *copy, const struct provider_options *options) {
    *copy = *options;
    options_texts(copy, options_copy_text);
    copy->arguments = options_list(options->arguments);
    copy->security_groups = options_list(options->security_groups);
    copy->types = options_list(options->types);
}

void provider_options_free(struct provider_options *copy) {
    options_texts(copy, options_free_text);
    options_list_free(copy->arguments);
    options_list_free(copy->security_groups);
    options_list_free(copy->types);
}
