/* See job_settings.h. */
#include "agileml/control/job_settings.h"

#include <stdio.h>
#include <string.h>

static const struct wire_option *settings(const struct buffer *buffer, size_t *count) {
    *count = buffer != NULL ? buffer->size / sizeof(struct wire_option) : 0;
    return *count > 0 ? (const void *)buffer->data : NULL;
}

static const struct wire_option *setting_find(const struct buffer *buffer, const char *name) {
    size_t count;
    const struct wire_option *all = settings(buffer, &count);
    for (size_t o = 0; o < count; o++) {
        if (strcmp(all[o].name, name) == 0) {
            return &all[o];
        }
    }
    return NULL;
}

static bool is_compared(const struct wire_option *option, enum settings_compared compared) {
    return compared == SETTINGS_ALL || (option->steers != 0) == (compared == SETTINGS_STEERING);
}

/* Adds one difference to `text`, cut off where it does not fit. */
static void add(char *text, size_t size, const char *name, const char *value, const char *was, const char *before) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s--%s %s, %s %s", used > 0 ? "; " : "", name, value, was, before);
}

bool job_settings_differ(const struct buffer *expected, const struct buffer *found, enum settings_compared compared,
                         const char *was, char *text, size_t size) {
    static const char none[] = "not there";
    size_t count;
    const struct wire_option *all = settings(found, &count);
    text[0] = '\0';
    for (size_t o = 0; o < count; o++) {
        const struct wire_option *old = setting_find(expected, all[o].name);
        if (is_compared(&all[o], compared) && (old == NULL || strcmp(old->value, all[o].value) != 0)) {
            add(text, size, all[o].name, all[o].value, was, old != NULL ? old->value : none);
        }
    }
    all = settings(expected, &count);
    for (size_t o = 0; o < count; o++) {
        if (is_compared(&all[o], compared) && setting_find(found, all[o].name) == NULL) {
            add(text, size, all[o].name, none, was, all[o].value);
        }
    }
    return text[0] != '\0';
}
