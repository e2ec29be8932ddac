/* See progress_text.h. */
#include "proteus/progress_text.h"

#include "agileml/base/printable.h"
#include "agileml/control/state/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PROGRESS_NAMED_MAX = 4 /* nodes of an event that are named */ };

/* ---- Text of limited size ---- */

void progress_add(struct progress_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text->bytes + text->used, text->size - text->used, format, arguments);
    va_end(arguments);
    size_t room = text->size - text->used - 1;
    text->used += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room;
}

static void scaled_text(double number, const char *unit, char text[PROGRESS_NUMBER_TEXT]) {
    static const char *const scales[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t scale = 0;
    double value = fmax(number, 0);
    while (value >= 999.5 && scale + 1 < sizeof scales / sizeof *scales) {
        value /= 1000;
        scale++;
    }
    int decimals = scale == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    bool gap = scale > 0 || *unit != '\0';
    snprintf(text, PROGRESS_NUMBER_TEXT, "%.*f%s%s%s", decimals, value, gap ? " " : "", scales[scale], unit);
}

void progress_count_text(double count, char text[PROGRESS_NUMBER_TEXT]) {
    scaled_text(count, "", text);
}

void progress_bytes_text(double bytes, char text[PROGRESS_NUMBER_TEXT]) {
    scaled_text(bytes, "B", text);
}

double progress_percent(double share) {
    return floor(share * 1000) / 10;
}

void progress_duration_text(double seconds, char text[PROGRESS_NUMBER_TEXT]) {
    long long whole = (long long)fmin(fmax(seconds, 0), 1e12);
    if (whole >= 48 * 3600) {
        snprintf(text, PROGRESS_NUMBER_TEXT, "%lld d %lld h", whole / 86400, whole / 3600 % 24);
    } else if (whole >= 3600) {
        snprintf(text, PROGRESS_NUMBER_TEXT, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        snprintf(text, PROGRESS_NUMBER_TEXT, "%lld:%02lld", whole / 60, whole % 60);
    }
}

static const char *plural(double count) {
    return count == 1 ? "" : "s";
}

/* ---- The report's lines ---- */

double progress_number(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *progress_word(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "-";
}

static bool has(const json_t *line, const char *key) {
    return json_object_get(line, key) != NULL;
}

/* The first metric is mostly the objective under its own name; it is visited once. A null metric was not evaluated,
 * such as a test error without held-out items, and is skipped. */
void progress_visit_metrics(const json_t *line, void (*visit)(void *context, const char *name, double value),
                            void *context) {
    const char *key;
    json_t *value;
    bool first = true;
    double objective = progress_number(line, "objective");
    /* jansson keeps the order of keys. The cast drops const, since jansson's macro takes a mutable object. */
    json_object_foreach((json_t *)(uintptr_t)line, key, value) {
        bool number = json_is_number(value) || json_is_null(value);
        if (report_key(key) || !number) {
            continue;
        }
        if (first && !isnan(objective) && json_number_value(value) != objective) {
            visit(context, "objective", objective);
        }
        first = false;
        if (json_is_number(value)) {
            visit(context, key, json_number_value(value));
        }
    }
    if (first && !isnan(objective)) {
        visit(context, "objective", objective);
    }
}

static void show_in_line(void *text, const char *name, double value) {
    progress_add(text, "  %s %.6g", name, value);
}

void progress_add_cluster(struct progress_text *text, const json_t *line) {
    const json_t *stage = json_object_get(line, "stage");
    if (json_is_string(stage)) {
        progress_add(text, "  %s", json_string_value(stage));
    } else if (json_is_integer(stage)) {
        progress_add(text, "  stage %lld", (long long)json_integer_value(stage));
    }
    if (has(line, "reliable") && has(line, "transient")) {
        progress_add(text, ", %.0f+%.0f nodes", progress_number(line, "reliable"), progress_number(line, "transient"));
        if (has(line, "feeders")) {
            progress_add(text, ", %.0f feeders", progress_number(line, "feeders"));
        }
    }
}

bool progress_is_partial(const json_t *line) {
    return progress_number(line, "partial") < 1;
}

void progress_line_text(const json_t *line, char bytes[PROGRESS_LINE_TEXT]) {
    struct progress_text text = {.bytes = bytes, .size = PROGRESS_LINE_TEXT};
    const char *what = has(line, "iteration") ? "iteration" : "clock";
    char number[PROGRESS_NUMBER_TEXT];
    progress_add(&text, "%s %.0f  %.2f s", what, progress_number(line, what), progress_number(line, "seconds"));
    progress_add_cluster(&text, line);
    if (progress_is_partial(line)) {
        progress_add(&text, "  (metrics of %.1f %% of the items)", progress_percent(progress_number(line, "partial")));
    }
    progress_visit_metrics(line, show_in_line, &text);
    if (has(line, "items_per_second")) {
        progress_count_text(progress_number(line, "items_per_second"), number);
        progress_add(&text, "  %s items/s", number);
    }
    if (has(line, "bytes_sent") && has(line, "bytes_received")) {
        progress_bytes_text(progress_number(line, "bytes_sent"), number);
        progress_add(&text, "  sent %s", number);
        progress_bytes_text(progress_number(line, "bytes_received"), number);
        progress_add(&text, "  received %s", number);
    }
}

static void add_names(struct progress_text *text, const json_t *nodes) {
    size_t count = json_array_size(nodes);
    for (size_t n = 0; n < count && n < PROGRESS_NAMED_MAX; n++) {
        const char *name = json_string_value(json_array_get(nodes, n));
        progress_add(text, "%s%s", n > 0 ? ", " : "", name != NULL ? name : "?");
    }
    if (count > PROGRESS_NAMED_MAX) {
        progress_add(text, " and %zu more", count - PROGRESS_NAMED_MAX);
    }
}

void progress_add_silence(struct progress_text *text, const json_t *nodes, double silent, double left) {
    add_names(text, nodes);
    progress_add(text, " silent for %.1f s, given up in %.1f s", fmax(silent, 0), fmax(left, 0));
}

void progress_event_text(const json_t *line, char bytes[PROGRESS_LINE_TEXT]) {
    struct progress_text text = {.bytes = bytes, .size = PROGRESS_LINE_TEXT};
    const json_t *nodes = json_object_get(line, "nodes");
    const char *event = json_string_value(json_object_get(line, "event"));
    const char *reason = json_string_value(json_object_get(line, "reason"));
    progress_add(&text, "iteration %.0f  %.2f s  ", progress_number(line, "iteration"),
                 progress_number(line, "seconds"));
    if (event != NULL && strcmp(event, "silent") == 0) {
        progress_add_silence(&text, nodes, progress_number(line, "silent_seconds"),
                             progress_number(line, "left_seconds"));
        return;
    }
    progress_add(&text, "%s%s", event != NULL ? event : "?", json_array_size(nodes) > 0 ? " " : "");
    add_names(&text, nodes);
    if (reason != NULL) {
        progress_add(&text, ": %s", reason);
    }
}

void progress_decision_text(const json_t *line, char bytes[PROGRESS_LINE_TEXT]) {
    struct progress_text text = {.bytes = bytes, .size = PROGRESS_LINE_TEXT};
    const char *decision = json_string_value(json_object_get(line, "text"));
    progress_add(&text, "iteration %.0f  %.2f s  bidbrain: %s", fmax(progress_number(line, "iteration"), 0),
                 fmax(progress_number(line, "seconds"), 0), decision != NULL ? decision : "?");
}

enum { SUMMARY_COLUMN = 14 };

static void show_in_summary(void *text, const char *name, double value) {
    char printable[PROGRESS_LINE_TEXT];
    snprintf(printable, sizeof printable, "%s", name);
    text_make_printable(printable);
    progress_add(text, "%-*s %.6g\n", SUMMARY_COLUMN, printable, value);
}

void progress_summary_text(const json_t *line, char bytes[PROGRESS_LINE_TEXT]) {
    struct progress_text text = {.bytes = bytes, .size = PROGRESS_LINE_TEXT};
    char number[PROGRESS_NUMBER_TEXT];
    double seconds = progress_number(line, "seconds");
    double items = progress_number(line, "items_processed");
    progress_add(&text, "%-*s %.0f\n", SUMMARY_COLUMN, "iterations", progress_number(line, "iterations"));
    progress_add(&text, "%-*s %.2f\n", SUMMARY_COLUMN, "seconds", seconds);
    if (has(line, "resumed_iteration")) {
        progress_count_text(progress_number(line, "items_before"), number);
        progress_add(&text, "%-*s from iteration %.0f, clock %.0f, after %.2f s and %s items\n", SUMMARY_COLUMN,
                     "resumed", progress_number(line, "resumed_iteration"), progress_number(line, "resumed_clock"),
                     progress_number(line, "seconds_before"), number);
    }
    progress_visit_metrics(line, show_in_summary, &text);
    if (progress_is_partial(line)) {
        progress_add(&text, "%-*s metrics of %.1f %% of the items: nodes were lost before they could report\n",
                     SUMMARY_COLUMN, "partial", progress_percent(progress_number(line, "partial")));
    }
    progress_count_text(items, number);
    progress_add(&text, "%-*s %s", SUMMARY_COLUMN, "items", number);
    progress_count_text(seconds > 0 ? items / seconds : 0, number);
    progress_add(&text, ", %s a second\n", number);
    double failures = progress_number(line, "failures");
    double evictions = progress_number(line, "evictions");
    if (failures > 0 || evictions > 0) {
        double redone = progress_number(line, "items_redone");
        progress_count_text(redone, number);
        progress_add(&text, "%-*s %.0f failure%s, %.0f eviction%s, %s item%s done again\n", SUMMARY_COLUMN,
                     "nodes lost", failures, plural(failures), evictions, plural(evictions), number, plural(redone));
    }
    progress_bytes_text(progress_number(line, "bytes_sent"), number);
    progress_add(&text, "%-*s %s sent", SUMMARY_COLUMN, "network", number);
    progress_bytes_text(progress_number(line, "bytes_received"), number);
    progress_add(&text, ", %s received\n", number);
    progress_bytes_text(progress_number(line, "memory_bytes"), number);
    progress_add(&text, "%-*s %s in the largest node\n", SUMMARY_COLUMN, "memory", number);
    double disk = progress_number(line, "disk_bytes");
    if (disk > 0) {
        progress_bytes_text(disk, number);
        progress_add(&text, "%-*s %s of data that does not fit in memory, nodes waited %.1f s for it\n", SUMMARY_COLUMN,
                     "disk", number, progress_number(line, "disk_wait_seconds"));
    }
}
