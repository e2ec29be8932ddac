/* See progress.h. */
#include "proteus/progress.h"

#include "agileml/base/clock.h"
#include "agileml/base/log.h"
#include "agileml/base/printable.h"
#include "agileml/control/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- Text of limited size ---- */

struct text {
    char *bytes;
    size_t size, used;
};

/* Appends, and cuts at the end of the memory. */
__attribute__((format(printf, 2, 3))) static void text_add(struct text *text, const char *format, ...) {
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

static const char *plural(double count) {
    return count == 1 ? "" : "s";
}

/* ---- The report's lines ---- */

static double number_of(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool has(const json_t *line, const char *key) {
    return json_object_get(line, key) != NULL;
}

/* Calls `show` for the objective and each metric. The first metric is mostly the objective under its own name, which is
 * shown once. A null metric was not evaluated, such as a test's error when nothing is held out, and is not shown. */
static void each_metric(const json_t *line, void (*show)(struct text *text, const char *name, double value),
                        struct text *text) {
    const char *key;
    json_t *value;
    bool first = true;
    double objective = number_of(line, "objective");
    /* jansson keeps the order of keys. The cast drops const, as jansson's macro takes a mutable object. */
    json_object_foreach((json_t *)(uintptr_t)line, key, value) {
        bool number = json_is_number(value) || json_is_null(value);
        if (report_key(key) || !number) {
            continue;
        }
        if (first && !isnan(objective) && json_number_value(value) != objective) {
            show(text, "objective", objective);
        }
        first = false;
        if (json_is_number(value)) {
            show(text, key, json_number_value(value));
        }
    }
    if (first && !isnan(objective)) {
        show(text, "objective", objective);
    }
}

static void show_in_line(struct text *text, const char *name, double value) {
    text_add(text, "  %s %.6g", name, value);
}

/* Adds "stage 2, 4+60 nodes": the numbers of reliable and transient nodes. */
static void add_cluster(struct text *text, const json_t *line) {
    const json_t *stage = json_object_get(line, "stage");
    if (json_is_string(stage)) {
        text_add(text, "  %s", json_string_value(stage));
    } else if (json_is_integer(stage)) {
        text_add(text, "  stage %lld", (long long)json_integer_value(stage));
    }
    if (has(line, "reliable") && has(line, "transient")) {
        text_add(text, ", %.0f+%.0f nodes", number_of(line, "reliable"), number_of(line, "transient"));
    }
}

/* Returns whether the line's metrics are of a part of the items. */
static bool is_partial(const json_t *line) {
    return number_of(line, "partial") < 1;
}

void progress_line_text(const json_t *line, char bytes[PROGRESS_LINE_TEXT]) {
    struct text text = {.bytes = bytes, .size = PROGRESS_LINE_TEXT};
    const char *what = has(line, "iteration") ? "iteration" : "clock";
    char number[PROGRESS_NUMBER_TEXT];
    text_add(&text, "%s %.0f  %.2f s", what, number_of(line, what), number_of(line, "seconds"));
    add_cluster(&text, line);
    if (is_partial(line)) {
        text_add(&text, "  (metrics of %.1f %% of the items)", progress_percent(number_of(line, "partial")));
    }
    each_metric(line, show_in_line, &text);
    if (has(line, "items_per_second")) {
        progress_count_text(number_of(line, "items_per_second"), number);
        text_add(&text, "  %s items/s", number);
    }
    if (has(line, "bytes_sent") && has(line, "bytes_received")) {
        progress_bytes_text(number_of(line, "bytes_sent"), number);
        text_add(&text, "  sent %s", number);
        progress_bytes_text(number_of(line, "bytes_received"), number);
        text_add(&text, "  received %s", number);
    }
}

static void add_names(struct text *text, const json_t *nodes) {
    size_t count = json_array_size(nodes);
    for (size_t n = 0; n < count && n < PROGRESS_NAMED_MAX; n++) {
        const char *name = json_string_value(json_array_get(nodes, n));
        text_add(text, "%s%s", n > 0 ? ", " : "", name != NULL ? name : "?");
    }
    if (count > PROGRESS_NAMED_MAX) {
        text_add(text, " and %zu more", count - PROGRESS_NAMED_MAX);
    }
}

/* Adds "node-3 silent for 0.6 s, given up in 0.4 s". */
static void add_silence(struct text *text, const json_t *nodes, double silent, double left) {
    add_names(text, nodes);
    text_add(text, " silent for %.1f s, given up in %.1f s", fmax(silent, 0), fmax(left, 0));
}

void progress_event_text(const json_t *line, char bytes[PROGRESS_LINE_TEXT]) {
    struct text text = {.bytes = bytes, .size = PROGRESS_LINE_TEXT};
    const json_t *nodes = json_object_get(line, "nodes");
    const char *event = json_string_value(json_object_get(line, "event"));
    const char *reason = json_string_value(json_object_get(line, "reason"));
    text_add(&text, "iteration %.0f  %.2f s  ", number_of(line, "iteration"), number_of(line, "seconds"));
    if (event != NULL && strcmp(event, "silent") == 0) {
        add_silence(&text, nodes, number_of(line, "silent_seconds"), number_of(line, "left_seconds"));
        return;
    }
    text_add(&text, "%s%s", event != NULL ? event : "?", json_array_size(nodes) > 0 ? " " : "");
    add_names(&text, nodes);
    if (reason != NULL) {
        text_add(&text, ": %s", reason);
    }
}

enum { SUMMARY_COLUMN = 14 };

static void show_in_summary(struct text *text, const char *name, double value) {
    char printable[PROGRESS_LINE_TEXT];
    snprintf(printable, sizeof printable, "%s", name);
    text_make_printable(printable);
    text_add(text, "%-*s %.6g\n", SUMMARY_COLUMN, printable, value);
}

void progress_summary_text(const json_t *line, char bytes[PROGRESS_LINE_TEXT]) {
    struct text text = {.bytes = bytes, .size = PROGRESS_LINE_TEXT};
    char number[PROGRESS_NUMBER_TEXT];
    double seconds = number_of(line, "seconds");
    double items = number_of(line, "items_processed");
    text_add(&text, "%-*s %.0f\n", SUMMARY_COLUMN, "iterations", number_of(line, "iterations"));
    text_add(&text, "%-*s %.2f\n", SUMMARY_COLUMN, "seconds", seconds);
    if (has(line, "resumed_iteration")) {
        progress_count_text(number_of(line, "items_before"), number);
        text_add(&text, "%-*s from iteration %.0f, clock %.0f, after %.2f s and %s items\n", SUMMARY_COLUMN, "resumed",
                 number_of(line, "resumed_iteration"), number_of(line, "resumed_clock"),
                 number_of(line, "seconds_before"), number);
    }
    each_metric(line, show_in_summary, &text);
    if (is_partial(line)) {
        text_add(&text, "%-*s metrics of %.1f %% of the items: nodes were lost before they could report\n",
                 SUMMARY_COLUMN, "partial", progress_percent(number_of(line, "partial")));
    }
    progress_count_text(items, number);
    text_add(&text, "%-*s %s", SUMMARY_COLUMN, "items", number);
    progress_count_text(seconds > 0 ? items / seconds : 0, number);
    text_add(&text, ", %s a second\n", number);
    double failures = number_of(line, "failures");
    double evictions = number_of(line, "evictions");
    if (failures > 0 || evictions > 0) {
        double redone = number_of(line, "items_redone");
        progress_count_text(redone, number);
        text_add(&text, "%-*s %.0f failure%s, %.0f eviction%s, %s item%s done again\n", SUMMARY_COLUMN, "nodes lost",
                 failures, plural(failures), evictions, plural(evictions), number, plural(redone));
    }
    progress_bytes_text(number_of(line, "bytes_sent"), number);
    text_add(&text, "%-*s %s sent", SUMMARY_COLUMN, "network", number);
    progress_bytes_text(number_of(line, "bytes_received"), number);
    text_add(&text, ", %s received\n", number);
    progress_bytes_text(number_of(line, "memory_bytes"), number);
    text_add(&text, "%-*s %s in the largest node\n", SUMMARY_COLUMN, "memory", number);
}

/* ---- The terminal ---- */

void progress_begin(struct progress *progress, FILE *stream, bool quiet) {
    const char *kind = getenv("TERM");
    *progress = (struct progress){
        .stream = stream,
        .quiet = quiet,
        .terminal = isatty(fileno(stream)) == 1 && kind != NULL && strcmp(kind, "dumb") != 0,
    };
}

static int columns_of(FILE *stream) {
    struct winsize size;
    bool known = ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : PROGRESS_COLUMNS_DEFAULT;
}

/* Shows a live line, unless the present one is younger than `age_ms`. */
static void progress_live(struct progress *progress, const char *text, int age_ms) {
    int64_t now = monotonic_ms();
    if (progress->terminal && !progress->quiet && (!progress->live || now - progress->live_ms >= age_ms)) {
        int columns = columns_of(progress->stream) - 1; /* a full line would wrap */
        fprintf(progress->stream, "\r%.*s\033[K", columns > 0 ? columns : 0, text);
        fflush(progress->stream);
        progress->live = true;
        progress->live_ms = now;
    }
}

void progress_clear(struct progress *progress) {
    if (progress->live) {
        fputs("\r\033[K", progress->stream);
        fflush(progress->stream);
        progress->live = false;
    }
}

static void silence_end(struct progress_silence *silence) {
    json_decref(silence->nodes);
    silence->nodes = NULL;
}

void progress_end(struct progress *progress) {
    progress_clear(progress);
    silence_end(&progress->silence);
}

void progress_note(struct progress *progress, const char *format, ...) {
    if (progress->quiet) {
        return;
    }
    char text[PROGRESS_LINE_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    text_make_printable(text);
    progress_clear(progress);
    fprintf(progress->stream, "%s\n", text);
}

/* ---- Nodes that are silent ---- */

static void silence_begin(struct progress_silence *silence, const json_t *line) {
    silence_end(silence);
    silence->nodes = json_incref(json_object_get(line, "nodes"));
    silence->began_ms = monotonic_ms() - (int64_t)(fmax(number_of(line, "silent_seconds"), 0) * 1e3);
    silence->ends_ms = monotonic_ms() + (int64_t)(fmax(number_of(line, "left_seconds"), 0) * 1e3);
}

void progress_tick(struct progress *progress) {
    const struct progress_silence *silence = &progress->silence;
    char bytes[PROGRESS_LINE_TEXT];
    struct text text = {.bytes = bytes, .size = sizeof bytes};
    int64_t now = monotonic_ms();
    if (silence->nodes != NULL) {
        add_silence(&text, silence->nodes, (double)(now - silence->began_ms) / 1e3,
                    (double)(silence->ends_ms - now) / 1e3);
        text_make_printable(bytes);
        progress_live(progress, bytes, PROGRESS_LIVE_MS);
    }
}

/* Shows an event of the cluster. Until training begins shows only the number of nodes that have joined. */
static void report_event_line(struct progress *progress, const json_t *line, const char *event) {
    char text[PROGRESS_LINE_TEXT];
    bool join = strcmp(event, "join") == 0;
    bool silent = strcmp(event, "silent") == 0;
    bool heard = strcmp(event, "heard") == 0;
    if (silent) {
        silence_begin(&progress->silence, line);
        progress_tick(progress);
    } else if (heard || strcmp(event, "failure") == 0) {
        silence_end(&progress->silence);
    }
    if (strcmp(event, "start") == 0) {
        progress->started = true;
    } else if (heard || (silent && progress->terminal)) {
        return; /* the live line shows silence while it lasts */
    } else if (join && !progress->started) {
        progress->joined += (unsigned)json_array_size(json_object_get(line, "nodes"));
        snprintf(text, sizeof text, "starting: %u node%s joined", progress->joined,
                 progress->joined == 1 ? " has" : "s have");
        progress_live(progress, text, 0);
    } else {
        progress_event_text(line, text);
        progress_note(progress, "%s", text);
    }
}

void progress_warn(struct progress *progress, const json_t *line) {
    const char *failed = json_string_value(json_object_get(line, "checkpoint_failed"));
    if (failed != NULL) {
        progress_clear(progress);
        log_warn("the last checkpoint failed: %s", failed);
    }
}

void progress_report(struct progress *progress, const json_t *line) {
    const char *type = json_string_value(json_object_get(line, "type"));
    const char *event = json_string_value(json_object_get(line, "event"));
    char text[PROGRESS_LINE_TEXT];
    if (progress->quiet || type == NULL) {
        return;
    }
    if (strcmp(type, "iteration") == 0 || strcmp(type, "clock") == 0) {
        progress_line_text(line, text);
        text_make_printable(text);
        silence_end(&progress->silence);
        bool iteration = strcmp(type, "iteration") == 0;
        progress_live(progress, text, iteration ? PROGRESS_LIVE_MS : PROGRESS_CLOCK_MS);
        if (!progress->terminal && iteration) {
            fprintf(progress->stream, "%s\n", text);
        }
    } else if (strcmp(type, "summary") == 0) {
        silence_end(&progress->silence);
        progress_clear(progress);
        if (json_is_true(json_object_get(line, "ok"))) {
            progress_summary_text(line, text);
            fputs(text, progress->stream);
        }
    } else if (event != NULL) {
        report_event_line(progress, line, event);
    }
}
