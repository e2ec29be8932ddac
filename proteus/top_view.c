/* See top_view.h. */
#include "proteus/top_view.h"

#include "agileml/base/memory.h"
#include "proteus/live_line.h"
#include "proteus/status_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_COLUMNS_MAX = 31,
    ROLE_COLUMNS_MAX = 24,
    HEADER_ROWS = 5, /* the job, its bar, the cluster, the choice of feeders or an empty row, the column names */
    FOOTER_ROWS = 1,
    BAR_COLUMNS = 30,
    BAR_COLUMNS_LEAST = 8,
    LINE_TEXT = 4 * TOP_VIEW_COLUMNS_MAX + 1,
};

void top_view_open(struct top_view *view) {
    *view = (struct top_view){0};
    forecast_begin(&view->forecast);
}

void top_view_close(struct top_view *view) {
    json_decref(view->status);
    free(view->nodes);
    *view = (struct top_view){0};
}

/* ---- Answers ---- */

/* Adds the growth of the counter since `before`. If it has fallen, or was unknown, it starts anew. */
static struct top_counter counter_after(const struct top_counter *before, double value, double seconds) {
    struct top_counter counter = {.value = value};
    if (before != NULL && value >= before->value && seconds > 0) {
        double kept = exp(-seconds / TOP_VIEW_RATE_S);
        counter.grown = before->grown * kept + value - before->value;
        counter.seconds = before->seconds * kept + seconds;
    }
    return counter;
}

/* Returns the growth per second; NaN: unknown. */
static double rate_of(const struct top_counter *counter) {
    return counter->seconds > 0 ? counter->grown / counter->seconds : NAN;
}

/* Returns the node as of the last answer; NULL: not there, or another process. `places`: indexes by name. */
static const struct top_node *earlier(const struct top_view *view, const json_t *places, const struct top_node *node) {
    const json_t *place = json_object_get(places, node->name);
    const struct top_node *before = place != NULL ? &view->nodes[json_integer_value(place)] : NULL;
    return before != NULL && before->process == node->process ? before : NULL;
}

static struct top_node node_of(const struct top_view *view, const json_t *places, const json_t *object,
                               const char *stage, double seconds) {
    struct top_node node = {
        .name = progress_word(object, "name"),
        .tier = progress_word(object, "tier"),
        .state = json_is_true(json_object_get(object, "leaving")) ? "leaving" : progress_word(object, "state"),
        .process = progress_number(object, "pid"),
        .clock = progress_number(object, "clock"),
        .memory = progress_number(object, "memory_bytes"),
        .silent = progress_number(object, "silent_ms") / 1e3,
        .slowness = progress_number(object, "slowness_short"),
    };
    const struct top_node *before = earlier(view, places, &node);
    double bytes = progress_number(object, "bytes_sent") + progress_number(object, "bytes_received");
    status_role_text(object, stage, node.role);
    node.items = counter_after(before != NULL ? &before->items : NULL, progress_number(object, "items"), seconds);
    node.bytes = counter_after(before != NULL ? &before->bytes : NULL, bytes, seconds);
    return node;
}

static struct top_node expected_of(const json_t *object) {
    return (struct top_node){.name = progress_word(object, "name"),
                             .tier = progress_word(object, "tier"),
                             .state = "expected",
                             .process = NAN,
                             .clock = NAN,
                             .memory = NAN,
                             .silent = NAN,
                             .slowness = NAN,
                             .items = {.value = NAN},
                             .bytes = {.value = NAN}};
}

static void take_forecast(struct top_view *view, const json_t *status) {
    struct forecast *forecast = &view->forecast;
    double iteration = progress_number(status, "iteration");
    double objective = progress_number(status, "objective");
    bool partial = json_object_get(status, "partial") != NULL;
    bool same = partial || objective == forecast->trend.objective; /* then the objective was probably not evaluated */
    forecast_terms(forecast, status);
    if (iteration > forecast->iteration) {
        double changes = isnan(forecast->trend.objective) ? 1 : iteration - forecast->trend.iteration;
        forecast_take(forecast, iteration, progress_number(status, "seconds"), same ? NAN : objective, changes);
    }
}

/* ---- The order ---- */

static double key_of(const struct top_node *node, enum top_order order) {
    switch (order) {
    case TOP_BY_CLOCK:
        return node->clock;
    case TOP_BY_ITEMS:
        return rate_of(&node->items);
    case TOP_BY_MEMORY:
        return node->memory;
    case TOP_BY_SLOWNESS:
        return node->slowness;
    case TOP_BY_SILENCE:
        return node->silent;
    default:
        return 0;
    }
}

/* Numbers from the largest, and names from A, or the other way round. Unknown values are always last. */
static int compare(const void *one, const void *other, void *context) {
    const struct top_view *view = context;
    const struct top_node *a = one;
    const struct top_node *b = other;
    double left = key_of(a, view->order);
    double right = key_of(b, view->order);
    int sign = view->reversed ? -1 : 1;
    if (isnan(left) != isnan(right)) {
        return isnan(left) ? 1 : -1;
    }
    if (left > right || left < right) {
        return left > right ? -sign : sign;
    }
    int names = strverscmp(a->name, b->name);
    return view->order == TOP_BY_NAME ? sign * names : names;
}

static void sort(struct top_view *view) {
    if (view->count > 1) {
        qsort_r(view->nodes, view->count, sizeof *view->nodes, compare, view);
    }
}

void top_view_take(struct top_view *view, const json_t *status, double now) {
    json_t *answer = json_deep_copy(status);
    json_t *places = json_object();
    status_make_printable(answer);
    const json_t *nodes = json_object_get(answer, "nodes");
    const json_t *expected = json_object_get(answer, "expected");
    size_t running = json_array_size(nodes);
    size_t count = running + json_array_size(expected);
    struct top_node *taken = memory_zeroed(count > 0 ? count : 1, sizeof *taken);
    const char *stage = status_stage_name(answer);
    for (size_t n = 0; n < view->count; n++) {
        json_object_set_new(places, view->nodes[n].name, json_integer((json_int_t)n));
    }
    for (size_t n = 0; n < running; n++) {
        taken[n] = node_of(view, places, json_array_get(nodes, n), stage, now - view->at);
    }
    for (size_t n = running; n < count; n++) {
        taken[n] = expected_of(json_array_get(expected, n - running));
    }
    json_decref(places);
    free(view->nodes);
    json_decref(view->status); /* the earlier nodes' names were in it */
    view->nodes = taken;
    view->count = count;
    view->status = answer;
    view->at = now;
    view->silent = 0;
    take_forecast(view, answer);
    sort(view);
}

void top_view_sort(struct top_view *view, enum top_order order) {
    view->reversed = order == view->order && !view->reversed;
    view->order = order;
    view->first = 0;
    sort(view);
}

void top_view_scroll(struct top_view *view, long rows) {
    size_t last = view->count > view->page ? view->count - view->page : 0;
    long first = (long)(view->first < last ? view->first : last) + rows;
    view->first = first < 0 ? 0 : (size_t)first < last ? (size_t)first : last;
}

/* ---- Text ---- */

/* The output of lines. On a screen each line replaces what was there. */
struct sheet {
    FILE *stream;
    const struct terminal *terminal;
    int columns;
    bool screen;
};

static void put_line(const struct sheet *sheet, const char *text, bool reverse) {
    char fitted[LINE_TEXT];
    terminal_fit(sheet->terminal, text, sheet->columns, fitted, sizeof fitted);
    if (sheet->screen) {
        fprintf(sheet->stream, "%s%s%s\033[K\r\n", reverse ? "\033[7m" : "", fitted, reverse ? "\033[0m" : "");
    } else {
        fprintf(sheet->stream, "%s\n", fitted);
    }
}

/* Adds the text, cut or padded with spaces to `columns`. */
static void add_cell(const struct sheet *sheet, struct progress_text *line, const char *text, int columns) {
    char fitted[LINE_TEXT];
    int wide = terminal_fit(sheet->terminal, text, columns, fitted, sizeof fitted);
    progress_add(line, "%s%s%*s", line->used > 0 ? " " : "", fitted, columns - wide, "");
}

static void add_number(struct progress_text *line, const char *text, int columns) {
    progress_add(line, " %*s", columns, text);
}

static void put_job(const struct top_view *view, const struct sheet *sheet) {
    char bytes[LINE_TEXT];
    struct progress_text line = {.bytes = bytes, .size = sizeof bytes};
    char job[STATUS_JOB_TEXT];
    double objective = progress_number(view->status, "objective");
    double iterations = view->forecast.iterations;
    status_job_text(view->status, job);
    progress_add(&line, "%s  iteration %.0f", job, fmax(progress_number(view->status, "iteration"), 0));
    if (iterations > 0) {
        progress_add(&line, " of %.0f", iterations);
    }
    if (!isnan(objective)) {
        progress_add(&line, "  objective %.6g", objective);
    }
    if (json_object_get(view->status, "partial") != NULL) {
        progress_add(&line, " (of %.1f %% of the items)", progress_percent(progress_number(view->status, "partial")));
    }
    put_line(sheet, bytes, false);
}

/* Returns the sum of the known values; NaN if neither is known. */
static double sum_of_known(double sum, double more) {
    return isnan(sum) ? more : isnan(more) ? sum : sum + more;
}

/* Adds the totals of the nodes' rates. */
static void add_rates(const struct top_view *view, struct progress_text *line) {
    char number[PROGRESS_NUMBER_TEXT];
    double items = NAN;
    double sent = NAN;
    for (size_t n = 0; n < view->count; n++) {
        items = sum_of_known(items, rate_of(&view->nodes[n].items));
        sent = sum_of_known(sent, rate_of(&view->nodes[n].bytes));
    }
    if (!isnan(items)) {
        progress_count_text(items, number);
        progress_add(line, "  %s items/s", number);
    }
    if (!isnan(sent)) {
        progress_bytes_text(sent, number);
        progress_add(line, "  %s/s sent and received", number);
    }
}

/* Writes the bar with the time left, and the totals of the nodes' rates. The bar is shorter if the rest needs the
 * columns. */
static void put_progress(const struct top_view *view, const struct sheet *sheet, double now) {
    char bytes[LINE_TEXT] = "";
    char rest[LINE_TEXT] = ""; /* ASCII: one byte per column */
    struct progress_text line = {.bytes = bytes, .size = sizeof bytes};
    struct progress_text behind = {.bytes = rest, .size = sizeof rest};
    char bar[3 * BAR_COLUMNS + 1];
    char percent[PROGRESS_NUMBER_TEXT];
    char number[PROGRESS_NUMBER_TEXT];
    char time[2 * PROGRESS_NUMBER_TEXT];
    double seconds = fmax(progress_number(view->status, "seconds"), 0);
    struct forecast_left left = forecast_left(&view->forecast, seconds > 0 ? seconds + now - view->at : 0);
    double share = live_line_left_text(&left, percent, time);
    if (time[0] != '\0') {
        progress_add(&behind, "%s  ", time);
    }
    progress_duration_text(seconds, number);
    progress_add(&behind, "after %s", number);
    add_rates(view, &behind);
    if (!isnan(share)) {
        int room = sheet->columns - (int)(strlen(percent) + strlen(rest)) - 3;
        int columns = room < BAR_COLUMNS_LEAST ? BAR_COLUMNS_LEAST : room < BAR_COLUMNS ? room : BAR_COLUMNS;
        progress_add(&line, "%s %s  ", terminal_bar(sheet->terminal, share, columns, bar, sizeof bar), percent);
    }
    progress_add(&line, "%s", rest);
    put_line(sheet, bytes, false);
}

static void put_cluster(const struct top_view *view, const struct sheet *sheet) {
    char bytes[LINE_TEXT];
    struct progress_text line = {.bytes = bytes, .size = sizeof bytes};
    unsigned reliable = 0;
    unsigned transient = 0;
    unsigned feeders = 0;
    unsigned expected = 0;
    for (size_t n = 0; n < view->count; n++) {
        const struct top_node *node = &view->nodes[n];
        unsigned *kind = isnan(node->process)                  ? &expected
                         : strcmp(node->tier, "reliable") == 0 ? &reliable
                         : strcmp(node->tier, "feeder") == 0   ? &feeders
                                                               : &transient;
        ++*kind;
    }
    if (view->silent > 0) {
        progress_add(&line, "no answer for %.0f s: the job has ended, or its controller starts again", view->silent);
        put_line(sheet, bytes, true);
        return;
    }
    progress_add(&line, "%u reliable and %u transient nodes", reliable, transient);
    if (feeders > 0) {
        progress_add(&line, ", %u feeder%s", feeders, feeders == 1 ? "" : "s");
    }
    if (expected > 0) {
        progress_add(&line, ", %u expected", expected);
    }
    progress_add(
        &line, "; failures %.0f, evictions %.0f, items redone %.0f", fmax(progress_number(view->status, "failures"), 0),
        fmax(progress_number(view->status, "evictions"), 0), fmax(progress_number(view->status, "items_redone"), 0));
    put_line(sheet, bytes, false);
}

/* Widths of columns that depend on their contents. */
struct widths {
    int name, tier, state, role;
};

static int wider(const struct sheet *sheet, int width, const char *text, int most) {
    char fitted[LINE_TEXT];
    int columns = terminal_fit(sheet->terminal, text, most, fitted, sizeof fitted);
    return columns > width ? columns : width;
}

static struct widths widths_of(const struct top_view *view, const struct sheet *sheet) {
    struct widths widths = {.name = 4, .tier = 9, .state = 5, .role = 4}; /* widths of the column names */
    for (size_t n = 0; n < view->count; n++) {
        widths.name = wider(sheet, widths.name, view->nodes[n].name, NAME_COLUMNS_MAX);
        widths.state = wider(sheet, widths.state, view->nodes[n].state, NAME_COLUMNS_MAX);
        widths.role = wider(sheet, widths.role, view->nodes[n].role, ROLE_COLUMNS_MAX);
    }
    return widths;
}

/* Formats the number with `write`, or as "-" if it is unknown. */
static const char *known(double number, void (*write)(double number, char text[PROGRESS_NUMBER_TEXT]),
                         char text[PROGRESS_NUMBER_TEXT]) {
    if (isnan(number)) {
        return "-";
    }
    write(number, text);
    return text;
}

static void whole_text(double number, char text[PROGRESS_NUMBER_TEXT]) {
    snprintf(text, PROGRESS_NUMBER_TEXT, "%.0f", number);
}

static void seconds_text(double number, char text[PROGRESS_NUMBER_TEXT]) {
    snprintf(text, PROGRESS_NUMBER_TEXT, "%.1f s", number);
}

static void put_names(const struct sheet *sheet, const struct widths *widths) {
    char bytes[LINE_TEXT] = "";
    struct progress_text line = {.bytes = bytes, .size = sizeof bytes};
    add_cell(sheet, &line, "name", widths->name);
    add_cell(sheet, &line, "tier", widths->tier);
    add_cell(sheet, &line, "state", widths->state);
    add_cell(sheet, &line, "role", widths->role);
    progress_add(&line, " %7s %7s %7s %7s %4s %6s", "clock", "items/s", "bytes/s", "memory", "slow", "silent");
    put_line(sheet, bytes, true);
}

static void put_node(const struct top_node *node, const struct sheet *sheet, const struct widths *widths) {
    char bytes[LINE_TEXT] = "";
    struct progress_text line = {.bytes = bytes, .size = sizeof bytes};
    char number[PROGRESS_NUMBER_TEXT];
    add_cell(sheet, &line, node->name, widths->name);
    add_cell(sheet, &line, node->tier, widths->tier);
    add_cell(sheet, &line, node->state, widths->state);
    add_cell(sheet, &line, node->role, widths->role);
    add_number(&line, known(node->clock, whole_text, number), 7);
    add_number(&line, known(rate_of(&node->items), progress_count_text, number), 7);
    add_number(&line, known(rate_of(&node->bytes), progress_bytes_text, number), 7);
    add_number(&line, known(node->memory, progress_bytes_text, number), 7);
    add_number(&line, known(node->slowness, status_slowness_text, number), 4);
    add_number(&line, known(node->silent, seconds_text, number), 6);
    put_line(sheet, bytes, false);
}

static void put_keys(const struct top_view *view, const struct sheet *sheet, size_t last) {
    char bytes[LINE_TEXT];
    char fitted[LINE_TEXT];
    struct progress_text line = {.bytes = bytes, .size = sizeof bytes};
    progress_add(
        &line, "%zu-%zu of %zu  q quit  sort: n name c clock i items m memory l slow s silence  scroll: j k PgUp PgDn",
        view->count > 0 ? view->first + 1 : 0, last, view->count);
    terminal_fit(sheet->terminal, bytes, sheet->columns, fitted, sizeof fitted);
    fprintf(sheet->stream, "%s\033[K", fitted); /* no newline, which would scroll the screen */
}

static void put_header(const struct top_view *view, const struct sheet *sheet, double now) {
    put_job(view, sheet);
    put_progress(view, sheet, now);
    put_cluster(view, sheet);
    char feeders[STATUS_FEEDERS_TEXT];
    status_feeders_text(view->status, feeders);
    put_line(sheet, feeders, false);
}

void top_view_draw(struct top_view *view, const struct terminal *terminal, struct terminal_size size, double now,
                   FILE *stream) {
    int columns = size.columns - 1; /* ESC [ K after a character in the last column would erase that character */
    struct sheet sheet = {stream, terminal, columns < TOP_VIEW_COLUMNS_MAX ? columns : TOP_VIEW_COLUMNS_MAX, true};
    int rows = size.rows - HEADER_ROWS - FOOTER_ROWS;
    struct widths widths = widths_of(view, &sheet);
    view->page = rows > 1 ? (size_t)rows : 1;
    top_view_scroll(view, 0);
    fputs("\033[H", stream);
    if (rows >= 1) { /* a smaller screen has only the nodes */
        put_header(view, &sheet, now);
        put_names(&sheet, &widths);
    }
    size_t shown = rows >= 1 ? view->page : (size_t)size.rows - 1;
    size_t last = view->first + shown < view->count ? view->first + shown : view->count;
    for (size_t n = view->first; n < last; n++) {
        put_node(&view->nodes[n], &sheet, &widths);
    }
    put_keys(view, &sheet, last);
    fputs("\033[J", stream);
}

void top_view_print(struct top_view *view, const struct terminal *terminal, FILE *stream) {
    struct sheet sheet = {stream, terminal, TOP_VIEW_COLUMNS_MAX, false};
    struct widths widths = widths_of(view, &sheet);
    put_header(view, &sheet, view->at);
    put_names(&sheet, &widths);
    for (size_t n = 0; n < view->count; n++) {
        put_node(&view->nodes[n], &sheet, &widths);
    }
}
