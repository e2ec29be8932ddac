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
    report_line_drop(view->status);
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
    return before != NULL && before->given->pid == node->given->pid ? before : NULL;
}

/* `state` is NULL for a node of the job, whose state is given. */
static struct top_node node_of(const struct top_view *view, const json_t *places, const struct report_node *given,
                               const char *stage, const char *state, double seconds) {
    struct top_node node = {
        .given = given,
        .name = progress_word(given->name),
        .tier = progress_word(given->tier),
        .state = state != NULL ? state : status_state_text(given),
    };
    const struct top_node *before = earlier(view, places, &node);
    double bytes = given->bytes_sent + given->bytes_received;
    if (state == NULL) {
        status_role_text(given, stage, node.role);
    }
    node.items = counter_after(before != NULL ? &before->items : NULL, given->items, seconds);
    node.bytes = counter_after(before != NULL ? &before->bytes : NULL, bytes, seconds);
    return node;
}

static void take_forecast(struct top_view *view, const struct report_line *status) {
    struct forecast *forecast = &view->forecast;
    double iteration = status->iteration;
    double objective = status->objective;
    bool same = !isnan(status->partial) ||
                objective == forecast->trend.objective; /* then the objective was probably not evaluated */
    forecast_terms(forecast, status);
    if (iteration > forecast->iteration) {
        double changes = isnan(forecast->trend.objective) ? 1 : iteration - forecast->trend.iteration;
        forecast_take(forecast, iteration, status->seconds, same ? NAN : objective, changes);
    }
}

/* ---- The order ---- */

static double key_of(const struct top_node *node, enum top_order order) {
    switch (order) {
    case TOP_BY_CLOCK:
        return node->given->clock;
    case TOP_BY_ITEMS:
        return rate_of(&node->items);
    case TOP_BY_MEMORY:
        return node->given->memory_bytes;
    case TOP_BY_SLOWNESS:
        return node->given->slowness_short;
    case TOP_BY_SILENCE:
        return node->given->silent_ms;
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

void top_view_take(struct top_view *view, const struct report_line *status, double now) {
    struct report_line *answer = report_line_printable(status);
    json_t *places = json_object();
    size_t running = answer->nodes.count;
    size_t count = running + answer->expected.count;
    struct top_node *taken = memory_zeroed(count > 0 ? count : 1, sizeof *taken);
    for (size_t n = 0; n < view->count; n++) {
        json_object_set_new(places, view->nodes[n].name, json_integer((json_int_t)n));
    }
    for (size_t n = 0; n < running; n++) {
        taken[n] = node_of(view, places, &answer->nodes.list[n], answer->stage.name, NULL, now - view->at);
    }
    for (size_t n = running; n < count; n++) {
        taken[n] = node_of(view, places, &answer->expected.list[n - running], "", "expected", 0);
    }
    json_decref(places);
    free(view->nodes);
    report_line_drop(view->status); /* the earlier nodes' names were in it */
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
    double iterations = view->forecast.iterations;
    status_job_text(view->status, job);
    progress_add(&line, "%s  iteration %.0f", job, fmax(view->status->iteration, 0));
    if (iterations > 0) {
        progress_add(&line, " of %.0f", iterations);
    }
    if (!isnan(view->status->objective)) {
        progress_add(&line, "  objective %.6g", view->status->objective);
    }
    if (!isnan(view->status->partial)) {
        progress_add(&line, " (of %.1f %% of the items)", progress_percent(view->status->partial));
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
    double seconds = fmax(view->status->seconds, 0);
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
        unsigned *kind = isnan(node->given->pid)               ? &expected
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
    progress_add(&line, "; failures %.0f, evictions %.0f, items redone %.0f", fmax(view->status->failures, 0),
                 fmax(view->status->evictions, 0), fmax(view->status->items_redone, 0));
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
    add_number(&line, known(node->given->clock, whole_text, number), 7);
    add_number(&line, known(rate_of(&node->items), progress_count_text, number), 7);
    add_number(&line, known(rate_of(&node->bytes), progress_bytes_text, number), 7);
    add_number(&line, known(node->given->memory_bytes, progress_bytes_text, number), 7);
    add_number(&line, known(node->given->slowness_short, status_slowness_text, number), 4);
    add_number(&line, known(node->given->silent_ms / 1e3, seconds_text, number), 6);
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
