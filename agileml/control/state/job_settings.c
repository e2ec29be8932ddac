/* See job_settings.h. */
#include "agileml/control/state/job_settings.h"

#include <stdio.h>
#include <string.h>

static const struct wire_option *settings(const struct buffer *buffer, size_t *count) {
    *count = buffer != NULL ? buffer->size / sizeof(struct wire_option) : 0;
    return *count > 0 ? (const void *)buffer->data : NULL;
}

/* Finds a fact from the input (`mark`) or an option by its name. NULL: there is none. */
static const struct wire_option *setting_find(const struct buffer *buffer, const char *name, bool mark) {
    size_t count;
    const struct wire_option *all = settings(buffer, &count);
    for (size_t o = 0; o < count; o++) {
        if ((all[o].found != 0) == mark && strcmp(all[o].name, name) == 0) {
            return &all[o];
        }
    }
    return NULL;
}

static bool is_compared(const struct wire_option *option, enum settings_compared compared) {
    return option->found == 0 && (compared == SETTINGS_ALL || (option->steers != 0) == (compared == SETTINGS_STEERING));
}

/* Returns the quotation mark for a value: an empty text, or a text with spaces, needs one. */
static const char *mark_of(const char *value) {
    return value[0] == '\0' || strchr(value, ' ') != NULL ? "'" : "";
}

/* Adds one difference to `text`, cut off if it does not fit. `value` or `before` may be NULL: no such option. */
static void add(char *text, size_t size, const char *name, const char *value, const char *was, const char *before) {
    static const char none[] = "not there";
    size_t used = strlen(text);
    const char *new_mark = value != NULL ? mark_of(value) : "";
    const char *old_mark = before != NULL ? mark_of(before) : "";
    snprintf(text + used, size - used, "%s--%s %s%s%s, %s %s%s%s", used > 0 ? "; " : "", name, new_mark,
             value != NULL ? value : none, new_mark, was, old_mark, before != NULL ? before : none, old_mark);
}

bool job_settings_differ(const struct buffer *expected, const struct buffer *found, enum settings_compared compared,
                         const char *was, char *text, size_t size) {
    size_t count;
    const struct wire_option *all = settings(found, &count);
    text[0] = '\0';
    for (size_t o = 0; o < count; o++) {
        const struct wire_option *old = setting_find(expected, all[o].name, false);
        if (is_compared(&all[o], compared) && (old == NULL || strcmp(old->value, all[o].value) != 0)) {
            add(text, size, all[o].name, all[o].value, was, old != NULL ? old->value : NULL);
        }
    }
    all = settings(expected, &count);
    for (size_t o = 0; o < count; o++) {
        if (is_compared(&all[o], compared) && setting_find(found, all[o].name, false) == NULL) {
            add(text, size, all[o].name, NULL, was, all[o].value);
        }
    }
    return text[0] != '\0';
}

/* Adds the names of marks in `one` that have another hash in `other`; with `lacking`, of marks that `other` lacks. */
static void add_marks(const struct buffer *one, const struct buffer *other, bool lacking, char *text, size_t size) {
    size_t count;
    const struct wire_option *all = settings(one, &count);
    for (size_t o = 0; o < count; o++) {
        const struct wire_option *same = all[o].found != 0 ? setting_find(other, all[o].name, true) : &all[o];
        if (same == NULL ? lacking : !lacking && strcmp(same->value, all[o].value) != 0) {
            size_t used = strlen(text);
            snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", all[o].name);
        }
    }
}

bool job_marks_differ(const struct buffer *expected, const struct buffer *found, char *text, size_t size) {
    text[0] = '\0';
    add_marks(found, expected, false, text, size);
    add_marks(found, expected, true, text, size);
    add_marks(expected, found, true, text, size);
    return text[0] != '\0';
}
