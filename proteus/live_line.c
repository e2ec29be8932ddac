/* See live_line.h. */
#include "proteus/live_line.h"

#include "agileml/base/printable.h"

#include <math.h>
#include <string.h>

/* ---- What is known ---- */

void live_line_begin(struct live_line *live) {
    *live = (struct live_line){.clock = NAN, .measured = NAN, .items_per_second = NAN, .dollars = NAN, .budget = NAN};
    forecast_begin(&live->forecast);
}

static void show_metric(void *context, const char *name, double value) {
    struct progress_text *text = context;
    progress_add(text, "%s%s %.6g", text->used > 0 ? "\n" : "", name, value);
}

/* Splits the metrics into the first, which is the objective, and the others. */
static void take_metrics(struct live_line *live, const struct report_line *line) {
    char bytes[PROGRESS_LINE_TEXT] = "";
    struct progress_text text = {.bytes = bytes, .size = sizeof bytes};
    progress_visit_metrics(line, show_metric, &text);
    if (text.used == 0 || isnan(line->objective)) {
        return; /* not evaluated: the earlier values stay */
    }
    live->measured = line->iteration;
    char *rest = strchr(bytes, '\n');
    if (rest != NULL) {
        *rest++ = '\0';
    }
    struct progress_text objective = {.bytes = live->objective, .size = sizeof live->objective};
    struct progress_text metrics = {.bytes = live->metrics, .size = sizeof live->metrics};
    live->metrics[0] = live->partial[0] = '\0';
    progress_add(&objective, "%s", bytes);
    for (char *next = rest; next != NULL; next = rest) {
        rest = strchr(next, '\n');
        if (rest != NULL) {
            *rest++ = '\0';
        }
        progress_add(&metrics, "%s%s", metrics.used > 0 ? "  " : "", next);
    }
    text_make_printable(live->objective);
    text_make_printable(live->metrics);
    if (progress_is_partial(line)) {
        struct progress_text partial = {.bytes = live->partial, .size = sizeof live->partial};
        progress_add(&partial, "(metrics of %.1f %% of the items)", progress_percent(line->partial));
    }
}

static void take_iteration(struct live_line *live, const struct report_line *line) {
    char cluster[LIVE_LINE_PART] = "";
    struct progress_text text = {.bytes = cluster, .size = sizeof cluster};
    double objective = progress_is_partial(line) ? NAN : line->objective;
    forecast_terms(&live->forecast, line);
    forecast_take(&live->forecast, line->iteration, line->seconds, objective, 1);
    take_metrics(live, line);
    progress_add_cluster(&text, line);
    snprintf(live->cluster, sizeof live->cluster, "%s", cluster + strspn(cluster, " "));
    text_make_printable(live->cluster);
    live->items_per_second = line->items_per_second;
    live->clock = NAN;
}

void live_line_take(struct live_line *live, const struct report_line *line) {
    if (line->is == REPORT_ITERATION) {
        take_iteration(live, line);
    } else if (line->is == REPORT_CLOCK) {
        take_metrics(live, line);
        live->clock = line->clock;
    } else if (line->is == REPORT_MONEY) {
        live->dollars = line->dollars;
        live->budget = line->budget_dollars;
    } else if (line->happened == HAPPENED_START) {
        forecast_terms(&live->forecast, line);
    }
}

/* ---- The line ---- */

/* A line under construction. */
struct assembly {
    const struct terminal *terminal;
    char *text;
    size_t used;
    int columns, left; /* columns of the line; free columns */
};

/* Appends two spaces and a part, if it fits. */
static void append(struct assembly *line, const char *part) {
    char fitted[LIVE_LINE_TEXT];
    int gap = line->left < line->columns ? 2 : 0;
    int wide = terminal_fit(line->terminal, part, LIVE_LINE_COLUMNS_MAX, fitted, sizeof fitted);
    size_t bytes = strlen(fitted);
    if (wide == 0 || wide + gap > line->left || line->used + (size_t)gap + bytes >= LIVE_LINE_TEXT) {
        return;
    }
    memset(line->text + line->used, ' ', (size_t)gap);
    memcpy(line->text + line->used + gap, fitted, bytes + 1);
    line->used += (size_t)gap + bytes;
    line->left -= wide + gap;
}

double live_line_left_text(const struct forecast_left *left, char percent[PROGRESS_NUMBER_TEXT],
                           char time[2 * PROGRESS_NUMBER_TEXT]) {
    char duration[PROGRESS_NUMBER_TEXT];
    percent[0] = time[0] = '\0';
    if (!isnan(left->share)) {
        snprintf(percent, PROGRESS_NUMBER_TEXT, "%.0f %%", floor(left->share * 100));
    }
    if (!isnan(left->seconds)) {
        progress_duration_text(left->seconds, duration);
        snprintf(time, 2 * (size_t)PROGRESS_NUMBER_TEXT, "%s%s left", left->estimated ? "~" : "", duration);
    }
    return left->share;
}

static void append_iteration(struct assembly *line, const struct live_line *live, double seconds) {
    char part[LIVE_LINE_PART] = "";
    struct progress_text text = {.bytes = part, .size = sizeof part};
    const struct forecast *forecast = &live->forecast;
    bool slow = seconds - forecast->at >= LIVE_LINE_CLOCK_S || forecast->iteration == 0;
    if (forecast->iteration > 0) {
        progress_add(&text, "iteration %.0f", forecast->iteration);
    }
    if (forecast->iteration > 0 && forecast->iterations > 0) {
        progress_add(&text, " of %.0f", forecast->iterations);
    }
    if (slow && !isnan(live->clock)) {
        progress_add(&text, "%sclock %.0f", text.used > 0 ? ", " : "", live->clock);
    }
    append(line, text.used > 0 ? part : "training");
}

static void append_objective(struct assembly *line, const struct live_line *live) {
    char part[LIVE_LINE_PART] = "";
    struct progress_text text = {.bytes = part, .size = sizeof part};
    append(line, live->objective);
    if (live->measured < live->forecast.iteration) {
        progress_add(&text, "(of iteration %.0f)", live->measured);
        append(line, part);
    }
    append(line, live->partial);
}

static void append_numbers(struct assembly *line, const struct live_line *live) {
    char number[PROGRESS_NUMBER_TEXT];
    char part[LIVE_LINE_PART] = "";
    struct progress_text text = {.bytes = part, .size = sizeof part};
    if (!isnan(live->items_per_second)) {
        progress_count_text(live->items_per_second, number);
        progress_add(&text, "%s items/s", number);
        append(line, part);
    }
    if (!isnan(live->dollars)) {
        text.used = 0;
        progress_add(&text, "$%.2f", live->dollars);
        if (!isnan(live->budget)) {
            progress_add(&text, " of $%.2f", live->budget);
        }
        append(line, part);
    }
}

/* Puts the bar in front of the line. The bar uses the columns that are left, within limits. */
static void put_bar(struct assembly *line, double share) {
    char bar[3 * LIVE_LINE_BAR_MAX + 1];
    int columns = line->left - 1 < LIVE_LINE_BAR_MAX ? line->left - 1 : LIVE_LINE_BAR_MAX;
    if (isnan(share) || columns < LIVE_LINE_BAR_MIN) {
        return;
    }
    size_t bytes = strlen(terminal_bar(line->terminal, share, columns, bar, sizeof bar));
    if (line->used + bytes + 1 < LIVE_LINE_TEXT) {
        memmove(line->text + bytes + 1, line->text, line->used + 1);
        memcpy(line->text, bar, bytes);
        line->text[bytes] = ' ';
    }
}

void live_line_text(const struct live_line *live, const struct terminal *terminal, double seconds, int columns,
                    char text[LIVE_LINE_TEXT]) {
    char percent[PROGRESS_NUMBER_TEXT];
    char duration[PROGRESS_NUMBER_TEXT];
    char time[2 * PROGRESS_NUMBER_TEXT];
    struct forecast_left left = forecast_left(&live->forecast, seconds);
    double share = live_line_left_text(&left, percent, time);
    int most = columns < LIVE_LINE_COLUMNS_MAX ? columns : LIVE_LINE_COLUMNS_MAX;
    /* On a narrow terminal numbers are worth more than the bar. */
    int reserved = isnan(share) || most < 4 * LIVE_LINE_BAR_MIN ? 0 : LIVE_LINE_BAR_MIN + 1;
    struct assembly line = {.terminal = terminal, .text = text, .columns = most - reserved, .left = most - reserved};
    text[0] = '\0';
    append(&line, percent);
    append(&line, time);
    append_iteration(&line, live, seconds);
    append_objective(&line, live);
    append_numbers(&line, live);
    append(&line, live->cluster);
    append(&line, live->metrics);
    progress_duration_text(seconds, duration);
    snprintf(time, sizeof time, "after %s", duration);
    append(&line, time);
    line.left += reserved;
    put_bar(&line, share);
}
