/* See progress_text.h. */
#include "proteus/progress_text.h"

#include "agileml/base/printable.h"

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

const char *progress_word(const char *text) {
    return text != NULL ? text : "-";
}

/* The first metric is mostly the objective under its own name; it is visited once. A null metric was not evaluated,
 * such as a test error without held-out items, and is skipped. */
void progress_visit_metrics(const struct report_line *line,
                            void (*visit)(void *context, const char *name, double value), void *context) {
    bool other = line->metric_count == 0 || line->metrics[0].value != line->objective;
    if (other && !isnan(line->objective)) {
        visit(context, "objective", line->objective);
    }
    for (size_t m = 0; m < line->metric_count; m++) {
        if (!isnan(line->metrics[m].value)) {
            visit(context, line->metrics[m].name, line->metrics[m].value);
        }
    }
}

static void show_in_line(void *text, const char *name, double value) {
    progress_add(text, "  %s %.6g", name, value);
}

void progress_add_cluster(struct progress_text *text, const struct report_line *line) {
    if (line->stage.name[0] != '\0') {
        progress_add(text, "  %s", line->stage.name);
    } else if (!isnan(line->stage.number)) {
        progress_add(text, "  stage %.0f", line->stage.number);
    }
    if (!isnan(line->reliable) && !isnan(line->transient)) {
        progress_add(text, ", %.0f+%.0f nodes", line->reliable, line->transient);
        if (!isnan(line->feeders)) {
            progress_add(text, ", %.0f feeders", line->feeders);
        }
    }
}

bool progress_is_partial(const struct report_line *line) {
    return line->partial < 1;
}

void progress_line_text(const struct report_line *line, char bytes[PROGRESS_LINE_TEXT]) {
    struct progress_text text = {.bytes = bytes, .size = PROGRESS_LINE_TEXT};
    bool whole = !isnan(line->iteration);
    char number[PROGRESS_NUMBER_TEXT];
    progress_add(&text, "%s %.0f  %.2f s", whole ? "iteration" : "clock", whole ? line->iteration : line->clock,
                 line->seconds);
    progress_add_cluster(&text, line);
    if (progress_is_partial(line)) {
        progress_add(&text, "  (metrics of %.1f %% of the items)", progress_percent(line->partial));
    }
    progress_visit_metrics(line, show_in_line, &text);
    if (!isnan(line->items_per_second)) {
        progress_count_text(line->items_per_second, number);
        progress_add(&text, "  %s items/s", number);
    }
    if (!isnan(line->bytes_sent) && !isnan(line->bytes_received)) {
        progress_bytes_text(line->bytes_sent, number);
        progress_add(&text, "  sent %s", number);
        progress_bytes_text(line->bytes_received, number);
        progress_add(&text, "  received %s", number);
    }
}

static void add_names(struct progress_text *text, const struct report_nodes *nodes) {
    for (size_t n = 0; n < nodes->count && n < PROGRESS_NAMED_MAX; n++) {
        const char *name = nodes->list[n].name;
        progress_add(text, "%s%s", n > 0 ? ", " : "", name != NULL ? name : "?");
    }
    if (nodes->count > PROGRESS_NAMED_MAX) {
        progress_add(text, " and %zu more", nodes->count - PROGRESS_NAMED_MAX);
    }
}

void progress_add_silence(struct progress_text *text, const struct report_nodes *nodes, double silent, double left) {
    add_names(text, nodes);
    progress_add(text, " silent for %.1f s, given up in %.1f s", fmax(silent, 0), fmax(left, 0));
}

void progress_event_text(const struct report_line *line, char bytes[PROGRESS_LINE_TEXT]) {
    struct progress_text text = {.bytes = bytes, .size = PROGRESS_LINE_TEXT};
    progress_add(&text, "iteration %.0f  %.2f s  ", line->iteration, line->seconds);
    if (line->happened == HAPPENED_SILENT) {
        progress_add_silence(&text, &line->nodes, line->silent_seconds, line->left_seconds);
        return;
    }
    progress_add(&text, "%s%s", line->event != NULL ? line->event : "?", line->nodes.count > 0 ? " " : "");
    add_names(&text, &line->nodes);
    if (line->reason != NULL) {
        progress_add(&text, ": %s", line->reason);
    }
}

void progress_decision_text(const struct report_line *line, char bytes[PROGRESS_LINE_TEXT]) {
    struct progress_text text = {.bytes = bytes, .size = PROGRESS_LINE_TEXT};
    progress_add(&text, "iteration %.0f  %.2f s  bidbrain: %s", fmax(line->iteration, 0), fmax(line->seconds, 0),
                 line->text != NULL ? line->text : "?");
}

enum { SUMMARY_COLUMN = 14 };

static void show_in_summary(void *text, const char *name, double value) {
    char printable[PROGRESS_LINE_TEXT];
    snprintf(printable, sizeof printable, "%s", name);
    text_make_printable(printable);
    progress_add(text, "%-*s %.6g\n", SUMMARY_COLUMN, printable, value);
}

void progress_summary_text(const struct report_line *line, char bytes[PROGRESS_LINE_TEXT]) {
    struct progress_text text = {.bytes = bytes, .size = PROGRESS_LINE_TEXT};
    char number[PROGRESS_NUMBER_TEXT];
    progress_add(&text, "%-*s %.0f\n", SUMMARY_COLUMN, "iterations", line->iterations);
    progress_add(&text, "%-*s %.2f\n", SUMMARY_COLUMN, "seconds", line->seconds);
    if (!isnan(line->resumed_iteration)) {
        progress_count_text(line->items_before, number);
        progress_add(&text, "%-*s from iteration %.0f, clock %.0f, after %.2f s and %s items\n", SUMMARY_COLUMN,
                     "resumed", line->resumed_iteration, line->resumed_clock, line->seconds_before, number);
    }
    progress_visit_metrics(line, show_in_summary, &text);
    if (progress_is_partial(line)) {
        progress_add(&text, "%-*s metrics of %.1f %% of the items: nodes were lost before they could report\n",
                     SUMMARY_COLUMN, "partial", progress_percent(line->partial));
    }
    progress_count_text(line->items_processed, number);
    progress_add(&text, "%-*s %s", SUMMARY_COLUMN, "items", number);
    progress_count_text(line->seconds > 0 ? line->items_processed / line->seconds : 0, number);
    progress_add(&text, ", %s a second\n", number);
    if (line->failures > 0 || line->evictions > 0) {
        progress_count_text(line->items_redone, number);
        progress_add(&text, "%-*s %.0f failure%s, %.0f eviction%s, %s item%s done again\n", SUMMARY_COLUMN,
                     "nodes lost", line->failures, plural(line->failures), line->evictions, plural(line->evictions),
                     number, plural(line->items_redone));
    }
    progress_bytes_text(line->bytes_sent, number);
    progress_add(&text, "%-*s %s sent", SUMMARY_COLUMN, "network", number);
    progress_bytes_text(line->bytes_received, number);
    progress_add(&text, ", %s received\n", number);
    progress_bytes_text(line->memory_bytes, number);
    progress_add(&text, "%-*s %s in the largest node\n", SUMMARY_COLUMN, "memory", number);
    if (line->disk_bytes > 0) {
        progress_bytes_text(line->disk_bytes, number);
        progress_add(&text, "%-*s %s of data that does not fit in memory, nodes waited %.1f s for it\n", SUMMARY_COLUMN,
                     "disk", number, line->disk_wait_seconds);
    }
}
