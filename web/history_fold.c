/* See history_fold.h. */
#include "web/history_fold.h"

#include "agileml/base/memory.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Updates `all` (node name -> its last state) from a line. */
static void fold_line(json_t *all, const json_t *line) {
    size_t n;
    json_t *node;
    json_array_foreach(json_object_get(line, "nodes"), n, node) {
        const char *name = json_string_value(json_object_get(node, "name"));
        const char *state = json_string_value(json_object_get(node, "state"));
        if (name == NULL || state == NULL) {
            continue;
        }
        if (strcmp(state, "left") == 0 || strcmp(state, "lost") == 0) {
            json_object_del(all, name);
        } else {
            json_object_set(all, name, node);
        }
    }
}

/* Replaces the line's nodes by those of `all`. */
static void set_nodes(json_t *line, json_t *all) {
    json_t *list = json_array();
    const char *name;
    json_t *node;
    json_object_foreach(all, name, node) {
        json_array_append(list, node);
    }
    json_object_set_new(line, "nodes", list);
    json_object_set_new(line, "all", json_true());
}

char *history_fold(struct history_line *const *lines, size_t count) {
    json_t *all = json_object();
    json_t *last = NULL;
    for (size_t l = 0; l < count; l++) {
        json_t *line = json_loadb(lines[l]->text, lines[l]->size, 0, NULL);
        if (json_is_object(line)) {
            fold_line(all, line);
            json_decref(last);
            last = json_incref(line);
        }
        json_decref(line);
    }
    if (last == NULL) {
        json_decref(all);
        return NULL;
    }
    set_nodes(last, all);
    char *text = json_dumps(last, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (text == NULL) {
        memory_exhausted(lines[count - 1]->size);
    }
    json_decref(last);
    json_decref(all);
    return text;
}
