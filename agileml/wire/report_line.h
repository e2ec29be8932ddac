/* A line of a job's report, or the answer to STATUS, decoded once: a field for each key of report_keys.def. Also makes
 * the text of such a line. Not thread-safe. */
#ifndef AGILEML_WIRE_REPORT_LINE_H
#define AGILEML_WIRE_REPORT_LINE_H

#include "agileml/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct node_numbers;

enum report_type {
    REPORT_UNKNOWN, /* of a later version, or none */
#define TYPE(id, name, about) REPORT_##id,
#include "agileml/wire/report_keys.def"
    REPORT_TYPES
};

enum report_event {
    HAPPENED_UNKNOWN, /* of a later version, or no event */
#define HAPPENS(id, name, what, reason) HAPPENED_##id,
#include "agileml/wire/report_keys.def"
    HAPPENED_COUNT
};

/* A stage by its number, or by its name. */
struct report_stage {
    double number;    /* NaN: it has a name, or is absent */
    const char *name; /* "traditional" or "transient"; "" for other stages */
};

struct report_nodes {
    struct report_node *list;
    size_t count;
};

struct report_places {
    struct report_place *list;
    size_t count;
};

/* A metric of the app under its own name. */
struct report_metric {
    const char *name;
    double value; /* NaN: null, not evaluated */
};

/* The types of fields, by the kinds of keys. NaN, NULL, false or an empty list: absent, null or of another kind. */
#define FIELD_WHOLE        double
#define FIELD_BYTES        double
#define FIELD_REAL         double
#define FIELD_SECONDS      double
#define FIELD_HOURS        double
#define FIELD_DOLLARS      double
#define FIELD_SHARE        double
#define FIELD_COUNTED      double
#define FIELD_TEXT         const char *
#define FIELD_NAME         const char *
#define FIELD_TRUTH        bool
#define FIELD_STAGE        struct report_stage
#define FIELD_NODE_LIST    struct report_nodes
#define FIELD_MACHINE_LIST struct report_nodes
#define FIELD_PLACE_LIST   struct report_places

/* A node of a line, or a machine that is expected. Of an event's nodes only the name is known. */
struct report_node {
#define NODE(types, kind, name, meaning) FIELD_##kind name;
#include "agileml/wire/report_keys.def"
};

/* A market, or a partition. */
struct report_place {
#define PLACE(types, kind, name, meaning) FIELD_##kind name;
#include "agileml/wire/report_keys.def"
};

/* Owns its texts and lists. */
struct report_line {
    enum report_type is;
    enum report_event happened;
#define KEY(types, kind, name, meaning) FIELD_##kind name;
#include "agileml/wire/report_keys.def"
    struct report_metric *metrics; /* in their order */
    size_t metric_count;
    json_t *json; /* only report_line.c, and writers of lines that repeat it, look into it */
    unsigned references;
};

/* Reads an object of JSON. NULL: it is not JSON, and `error` (may be NULL) says why. The line has one reference. */
struct report_line *report_line_read(const char *text, size_t size, struct error *error);
/* Reads a line as it was built. Holds a reference to `json`. */
struct report_line *report_line_of(json_t *json);
/* Returns a copy whose texts, but not the metrics' names, are safe for a terminal. */
struct report_line *report_line_printable(const struct report_line *line);
struct report_line *report_line_hold(const struct report_line *line);
void report_line_drop(const struct report_line *line); /* NULL is allowed */

/* Whether the table has the line's keys, and their kinds are the table's. Other keys may be metrics, which stand behind
 * the objective. */
bool report_line_is_known(json_t *json);
/* Adds a node's numbers to its object, or to its array of USAGE, in a line of this type. In a line of ITERATION or
 * SUMMARY they are all nodes' numbers. */
void report_numbers(json_t *node, enum report_type type, const struct node_numbers *numbers);
/* Returns the text of a line that this process has built, from malloc, and drops the reference to `json`. Asserts that
 * the line is known. `ascii`: escapes all other characters. */
char *report_line_text(json_t *json, bool ascii);
/* The same for a line of another process, perhaps of a later version. Asserts nothing. */
char *report_line_dump(json_t *json, bool ascii);
/* Returns `text` as a JSON string; "(not text)" if it is not UTF-8, as names and reasons of other processes may be. */
json_t *report_text(const char *text);

/* Returns the metric's value; NaN: it was not evaluated, or is not in the line. */
double report_line_metric(const struct report_line *line, const char *name);
/* Whether `name` is one of the report's own keys, which no metric may have. */
bool report_line_owns(const char *name);
/* Returns the event's value of the key `event`. */
const char *report_event_name(enum report_event event);

#endif
