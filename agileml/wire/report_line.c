/* See report_line.h. */
#include "agileml/wire/report_line.h"

#include "agileml/base/memory.h"
#include "agileml/base/printable.h"
#include "agileml/wire/message.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    WHOLE,
    BYTES,
    REAL,
    SECONDS,
    HOURS,
    DOLLARS,
    SHARE,
    COUNTED,
    TEXT,
    NAME,
    TRUTH,
    STAGE,
    NODE_LIST,
    MACHINE_LIST,
    PLACE_LIST
};

/* Bits of the types that have a key. */
enum {
#define TYPE(id, name, about) id = 1 << REPORT_##id,
#include "agileml/wire/report_keys.def"
    EXPECTED = 1 << REPORT_TYPES,
    MEASURED = CLOCK | ITERATION | SUMMARY, /* their lines have metrics */
    ANY = ~0
};

struct key {
    const char *name;
    unsigned types;
    enum kind kind;
    size_t at; /* offset of the field */
};

struct table {
    const struct key *keys;
    size_t count;
};

static const struct key LINE_KEYS[] = {
#define KEY(types, kind, name, meaning) {#name, types, kind, offsetof(struct report_line, name)},
#include "agileml/wire/report_keys.def"
};
static const struct key NODE_KEYS[] = {
#define NODE(types, kind, name, meaning) {#name, types, kind, offsetof(struct report_node, name)},
#include "agileml/wire/report_keys.def"
};
static const struct key PLACE_KEYS[] = {
#define PLACE(types, kind, name, meaning) {#name, types, kind, offsetof(struct report_place, name)},
#include "agileml/wire/report_keys.def"
};
/* A number of a node: `at` is its offset in struct node_numbers. */
static const struct key NUMBERS[] = {
#define NUMBER(types, kind, name, field, most, label, meaning)                                                         \
    {#name, types, kind, offsetof(struct node_numbers, field)},
#include "agileml/wire/report_keys.def"
};
static const struct table LINE = {LINE_KEYS, sizeof LINE_KEYS / sizeof *LINE_KEYS};
static const struct table NODE = {NODE_KEYS, sizeof NODE_KEYS / sizeof *NODE_KEYS};
static const struct table PLACE = {PLACE_KEYS, sizeof PLACE_KEYS / sizeof *PLACE_KEYS};

static const char *const TYPES[REPORT_TYPES] = {
#define TYPE(id, name, about) [REPORT_##id] = #name,
#include "agileml/wire/report_keys.def"
};
static const char *const EVENTS[HAPPENED_COUNT] = {
#define HAPPENS(id, name, what, reason) [HAPPENED_##id] = name,
#include "agileml/wire/report_keys.def"
};

/* Returns the place of `name` in the list, which has no entry 0; 0: it is NULL or not there. */
static unsigned place_of(const char *const *list, unsigned count, const char *name) {
    for (unsigned n = 1; name != NULL && n < count; n++) {
        if (strcmp(list[n], name) == 0) {
            return n;
        }
    }
    return 0;
}

const char *report_event_name(enum report_event event) {
    assert(event > HAPPENED_UNKNOWN && event < HAPPENED_COUNT);
    return EVENTS[event];
}

/* Finds a key, and moves `*from` behind it. The search begins there, so it is short if keys come in the table's
 * order. */
static const struct key *next_key(const struct table *table, unsigned types, const char *name, size_t *from) {
    for (size_t n = 0; n < table->count; n++) {
        const struct key *key = &table->keys[(*from + n) % table->count];
        if ((key->types & types) != 0 && strcmp(key->name, name) == 0) {
            *from = (size_t)(key - table->keys) + 1;
            return key;
        }
    }
    return NULL;
}

static const struct key *find_key(const struct table *table, unsigned types, const char *name) {
    size_t from = 0;
    return next_key(table, types, name, &from);
}

bool report_line_owns(const char *name) {
    static const char *const basic[] = {"", "event", "nodes", "reason"};
    return find_key(&LINE, MEASURED, name) != NULL || place_of(basic, sizeof basic / sizeof *basic, name) != 0;
}

/* ---- Reading ---- */

static void read_object(const struct table *table, unsigned types, const json_t *object, void *into);

/* Reads an array of USAGE, or an event's node. */
static void read_array(json_t *array, struct report_node *node) {
    json_t *object = json_object();
    size_t place = 0;
    for (size_t k = 0; k < NODE.count; k++) {
        if ((NODE.keys[k].types & USAGE) != 0) {
            json_object_set(object, NODE.keys[k].name, json_is_array(array) ? json_array_get(array, place) : array);
            place++;
        }
    }
    read_object(&NODE, USAGE, object, node);
    json_decref(object);
}

static struct report_nodes read_nodes(unsigned types, const json_t *list) {
    struct report_nodes nodes = {.count = json_array_size(list)};
    nodes.list = nodes.count > 0 ? memory_zeroed(nodes.count, sizeof *nodes.list) : NULL;
    for (size_t n = 0; n < nodes.count; n++) {
        json_t *node = json_array_get(list, n);
        if (json_is_object(node)) {
            read_object(&NODE, types, node, &nodes.list[n]);
        } else {
            read_array(node, &nodes.list[n]);
        }
    }
    return nodes;
}

static struct report_places read_places(unsigned types, const json_t *list) {
    struct report_places places = {.count = json_array_size(list)};
    places.list = places.count > 0 ? memory_zeroed(places.count, sizeof *places.list) : NULL;
    for (size_t p = 0; p < places.count; p++) {
        read_object(&PLACE, types, json_array_get(list, p), &places.list[p]);
    }
    return places;
}

static void read_field(const struct key *key, unsigned types, const json_t *value, void *field) {
    const char *text = json_string_value(value);
    switch (key->kind) {
    case TEXT:
    case NAME:
        *(const char **)field = text;
        break;
    case TRUTH:
        *(bool *)field = json_is_true(value);
        break;
    case STAGE:
        *(struct report_stage *)field = (struct report_stage){
            .number = json_is_integer(value) ? json_number_value(value) : NAN, .name = text != NULL ? text : ""};
        break;
    case NODE_LIST:
    case MACHINE_LIST:
        *(struct report_nodes *)field = read_nodes(key->kind == MACHINE_LIST ? EXPECTED : types, value);
        break;
    case PLACE_LIST:
        *(struct report_places *)field = read_places(types, value);
        break;
    default:
        *(double *)field = key->kind == COUNTED && json_is_array(value) ? (double)json_array_size(value)
                           : json_is_number(value)                      ? json_number_value(value)
                                                                        : NAN;
    }
}

static void read_object(const struct table *table, unsigned types, const json_t *object, void *into) {
    for (size_t k = 0; k < table->count; k++) {
        const struct key *key = &table->keys[k];
        const json_t *value = (key->types & types) != 0 ? json_object_get(object, key->name) : NULL;
        read_field(key, types, value, (char *)into + key->at);
    }
}

/* Takes the numbers and nulls that have no key in the table. */
static void read_metrics(struct report_line *line, unsigned types) {
    const char *name;
    json_t *value;
    line->metrics = memory_zeroed(json_object_size(line->json) + 1, sizeof *line->metrics);
    json_object_foreach(line->json, name, value) { /* in the order of the text */
        if (find_key(&LINE, types, name) == NULL && (json_is_number(value) || json_is_null(value))) {
            line->metrics[line->metric_count++] =
                (struct report_metric){name, json_is_number(value) ? json_number_value(value) : NAN};
        }
    }
}

/* A line without a type may be a status. */
static unsigned types_of(enum report_type is) {
    return is == REPORT_UNKNOWN ? (unsigned)ANY : 1U << is;
}

struct report_line *report_line_of(json_t *json) {
    struct report_line *line = memory_zeroed(1, sizeof *line);
    line->json = json_incref(json);
    line->references = 1;
    line->is = (enum report_type)place_of(TYPES, REPORT_STATUS, json_string_value(json_object_get(json, "type")));
    read_object(&LINE, types_of(line->is), json, line);
    line->happened = (enum report_event)place_of(EVENTS, HAPPENED_COUNT, line->event);
    read_metrics(line, types_of(line->is));
    return line;
}

struct report_line *report_line_read(const char *text, size_t size, struct error *error) {
    json_error_t problem;
    json_t *json = json_loadb(text, size, 0, &problem);
    if (json == NULL) {
        error_set(error, AML_EINPUT, "%s", problem.text);
        return NULL;
    }
    struct report_line *line = report_line_of(json);
    json_decref(json);
    return line;
}

double report_line_metric(const struct report_line *line, const char *name) {
    for (size_t m = 0; m < line->metric_count; m++) {
        if (strcmp(line->metrics[m].name, name) == 0) {
            return line->metrics[m].value;
        }
    }
    return NAN;
}

static void make_printable(json_t *value) {
    const char *key;
    size_t index;
    json_t *inner;
    if (json_is_string(value)) {
        char *text = memory_string(json_string_value(value));
        text_make_printable(text);
        json_string_set(value, text);
        free(text);
    }
    json_object_foreach(value, key, inner) {
        make_printable(inner);
    }
    json_array_foreach(value, index, inner) {
        make_printable(inner);
    }
}

struct report_line *report_line_printable(const struct report_line *line) {
    json_t *json = json_deep_copy(line->json);
    make_printable(json);
    struct report_line *copy = report_line_of(json);
    json_decref(json);
    return copy;
}

struct report_line *report_line_hold(const struct report_line *line) {
    struct report_line *held = (struct report_line *)(uintptr_t)line; /* the count is no part of what a line says */
    held->references++;
    return held;
}

void report_line_drop(const struct report_line *line) {
    struct report_line *dropped = (struct report_line *)(uintptr_t)line;
    if (line == NULL || --dropped->references > 0) {
        return;
    }
    free(dropped->nodes.list);
    free(dropped->expected.list);
    free(dropped->partitions.list);
    free(dropped->markets.list);
    free(dropped->metrics);
    json_decref(dropped->json);
    free(dropped);
}

/* ---- Writing ---- */

static bool is_of_table(const struct table *table, unsigned types, json_t *object);
static bool is_of_kind(const struct key *key, unsigned types, const json_t *value);

static bool are_of_table(const struct table *table, unsigned types, const json_t *list) {
    size_t n;
    json_t *one;
    bool good = json_is_array(list);
    json_array_foreach(list, n, one) {
        good = good && is_of_table(table, types, one);
    }
    return good;
}

static bool is_usage(const json_t *array) {
    size_t place = 0;
    bool good = true;
    for (size_t k = 0; k < NODE.count; k++) {
        if ((NODE.keys[k].types & USAGE) != 0) {
            good = good && is_of_kind(&NODE.keys[k], USAGE, json_array_get(array, place++));
        }
    }
    return good && place == json_array_size(array);
}

static bool are_nodes(unsigned types, const json_t *list) {
    size_t n;
    json_t *node;
    bool good = json_is_array(list);
    if ((types & (EVENT | USAGE)) == 0) {
        return are_of_table(&NODE, types, list);
    }
    json_array_foreach(list, n, node) {
        good = good && (types == EVENT ? json_is_string(node) : is_usage(node));
    }
    return good;
}

static bool is_of_kind(const struct key *key, unsigned types, const json_t *value) {
    switch (key->kind) {
    case WHOLE:
    case BYTES:
        return json_is_integer(value);
    case REAL:
    case SECONDS:
    case HOURS:
    case DOLLARS:
    case SHARE:
        return json_is_real(value) || json_is_null(value);
    case COUNTED:
        return json_is_integer(value) || json_is_array(value);
    case TEXT:
        return json_is_string(value);
    case NAME:
        return json_is_string(value) || json_is_null(value);
    case TRUTH:
        return json_is_boolean(value);
    case STAGE:
        return json_is_integer(value) || json_is_string(value);
    case NODE_LIST:
        return are_nodes(types, value);
    case MACHINE_LIST:
        return are_of_table(&NODE, EXPECTED, value);
    default:
        return are_of_table(&PLACE, types, value);
    }
}

/* Metrics stand together behind the objective. */
static bool is_of_table(const struct table *table, unsigned types, json_t *object) {
    const char *name;
    json_t *value;
    bool good = json_is_object(object);
    bool measured = false;
    size_t from = 0;
    json_object_foreach(object, name, value) {
        const struct key *key = next_key(table, types, name, &from);
        measured = (types & MEASURED) != 0 && (measured ? key == NULL : strcmp(name, "objective") == 0);
        good = good && (key != NULL ? is_of_kind(key, types, value)
                        : measured  ? json_is_real(value) || json_is_null(value)
                                    : false);
    }
    return good;
}

bool report_line_is_known(json_t *json) {
    const char *type = json_string_value(json_object_get(json, "type"));
    const char *event = json_string_value(json_object_get(json, "event"));
    unsigned is = type != NULL ? place_of(TYPES, REPORT_STATUS, type) : (unsigned)REPORT_STATUS;
    return is != REPORT_UNKNOWN && (event == NULL || place_of(EVENTS, HAPPENED_COUNT, event) != 0) &&
           is_of_table(&LINE, 1U << is, json);
}

void report_numbers(json_t *node, enum report_type type, const struct node_numbers *numbers) {
    unsigned types = 1U << type;
    for (size_t n = 0; n < sizeof NUMBERS / sizeof *NUMBERS; n++) {
        const struct key *number = &NUMBERS[n];
        uint64_t value = *(const uint64_t *)(const void *)((const char *)numbers + number->at);
        if ((types & MEASURED) != 0 ? find_key(&LINE, types, number->name) == NULL : (types & number->types) == 0) {
            continue;
        }
        json_t *json = number->kind == SECONDS ? json_real((double)value / 1e6) : json_integer((json_int_t)value);
        if (json_is_array(node)) {
            json_array_append_new(node, json);
        } else {
            json_object_set_new(node, number->name, json);
        }
    }
}

char *report_line_dump(json_t *json, bool ascii) {
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9) | (ascii ? JSON_ENSURE_ASCII : 0U));
    json_decref(json);
    if (text == NULL) {
        memory_exhausted(0);
    }
    return text;
}

char *report_line_text(json_t *json, bool ascii) {
    assert(report_line_is_known(json));
    return report_line_dump(json, ascii);
}

json_t *report_text(const char *text) {
    json_t *value = json_string(text);
    return value != NULL ? value : json_string("(not text)");
}
