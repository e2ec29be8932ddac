/* See svg.h. */
#include "proteus/svg.h"

#include "proteus/progress_text.h"

#include <math.h>
#include <string.h>

enum {
    LEFT = 72,
    RIGHT = 16,
    TOP = 40,
    BOTTOM = 48,
    KEY_HEIGHT = 18,
    KEY_WIDTH = 180,
    TICKS = 6,       /* at most about so many */
    ROW_MOST = 18,   /* height of a row of a timeline */
    ROWS_MOST = 600, /* height of all of them */
    ROW_NAMED = 10,  /* in lower rows there is no room for a name */
    NAME_LONG = 8,   /* characters of a row's name, or fewer */
    NAME_BYTES = 48, /* of what is shown of it, with the 0 */
    MARKS_FEW = 60,  /* more of them are short, above the rows */
    LETTER = 7       /* about the width of a letter */
};

static const char *const COLOURS[SVG_COLOURS] = {"#1f6fb4", "#b8560a", "#2a8034", "#b02a30", "#7a55a8",
                                                 "#8a5a44", "#bf4a9b", "#5f6b78", "#7b7a12", "#14808c"};

/* A range of values, and where it lies in the figure. */
struct axis {
    double least, most;
    double at_least, at_most; /* places in the figure */
    double step;              /* between ticks */
};

static void write_escaped(FILE *stream, const char *text) {
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", stream);
            break;
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        default:
            putc((unsigned char)*text < ' ' ? '?' : *text, stream);
        }
    }
}

static void write_text(FILE *stream, double x, double y, const char *style, const char *text) {
    fprintf(stream, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    write_escaped(stream, text);
    fputs("</text>\n", stream);
}

static double place(const struct axis *axis, double value) {
    return axis->at_least + (value - axis->least) / (axis->most - axis->least) * (axis->at_most - axis->at_least);
}

/* Finds the steps, 1, 2 or 5 times a power of ten, and widens the range to whole ones: at its begin, and with `both` at
 * its end. */
static void round_axis(struct axis *axis, bool both) {
    static const double factors[] = {1, 2, 5, 10};
    if (!(axis->most > axis->least)) { /* one value, or none */
        axis->least = isfinite(axis->least) ? axis->least : 0;
        axis->most = axis->least + (axis->least != 0 ? fabs(axis->least) : 1);
    }
    double power = pow(10, floor(log10((axis->most - axis->least) / TICKS)));
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        axis->step = power * factors[f];
        if ((axis->most - axis->least) / axis->step <= TICKS) {
            break;
        }
    }
    axis->least = floor(axis->least / axis->step + 1e-9) * axis->step;
    axis->most = both ? ceil(axis->most / axis->step - 1e-9) * axis->step : axis->most;
}

/* Writes a tick's value with as many digits as the steps need. */
static void tick_text(const struct axis *axis, double value, char text[PROGRESS_NUMBER_TEXT]) {
    double largest = fmax(fabs(axis->least), fabs(axis->most));
    if (largest >= 1e4) {
        char *end = text;
        progress_count_text(fabs(value), text + (value < 0 ? 1 : 0));
        *end = value < 0 ? '-' : *end;
    } else {
        int digits = (int)fmax(0, ceil(-log10(axis->step) - 1e-9));
        snprintf(text, PROGRESS_NUMBER_TEXT, "%.*f", digits < 12 ? digits : 12, value);
    }
}

static void write_head(FILE *stream, double height, const char *title) {
    fprintf(stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" font-family=\"sans-serif\" "
            "font-size=\"12\" fill=\"#777\" role=\"img\">\n<title>",
            SVG_WIDTH, height);
    write_escaped(stream, title);
    fputs("</title>\n", stream);
    write_text(stream, LEFT, 20, "font-size=\"15\" font-weight=\"bold\"", title);
}

static void write_x_axis(FILE *stream, const struct axis *x, double bottom, const char *label) {
    char text[PROGRESS_NUMBER_TEXT];
    double ticks = floor((x->most - x->least) / x->step + 1e-9);
    for (double t = 0; t <= ticks; t++) {
        double value = x->least + t * x->step;
        tick_text(x, value, text);
        fprintf(stream, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#888\"/>\n", place(x, value),
                place(x, value), bottom, bottom + 4);
        write_text(stream, place(x, value), bottom + 18, "text-anchor=\"middle\"", text);
    }
    write_text(stream, (x->at_least + x->at_most) / 2, bottom + 36, "text-anchor=\"middle\"", label);
}

static void write_y_axis(FILE *stream, const struct axis *y, const char *label) {
    char text[PROGRESS_NUMBER_TEXT];
    char style[96];
    double ticks = round((y->most - y->least) / y->step);
    double middle = (y->at_least + y->at_most) / 2;
    for (double t = 0; t <= ticks; t++) {
        double value = y->least + t * y->step;
        tick_text(y, value, text);
        fprintf(stream, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#888\" stroke-opacity=\"0.35\"/>\n",
                LEFT, SVG_WIDTH - RIGHT, place(y, value), place(y, value));
        write_text(stream, LEFT - 8, place(y, value) + 4, "text-anchor=\"end\"", text);
    }
    snprintf(style, sizeof style, "text-anchor=\"middle\" transform=\"rotate(-90 14 %.1f)\"", middle);
    write_text(stream, 14, middle, style, label);
}

/* The figure's place of a point, to a tenth. */
struct dot {
    double x, y;
};

/* Of points in the same tenth of a column only those are drawn that the line needs: first, least, most, last. */
struct column {
    double x;
    double first, least, most, last;
    bool used;
};

static void flush_column(FILE *stream, struct column *column) {
    if (!column->used) {
        return;
    }
    fprintf(stream, "%.1f,%.1f ", column->x, column->first);
    if (column->most > column->least) {
        fprintf(stream, "%.1f,%.1f %.1f,%.1f %.1f,%.1f ", column->x, column->least, column->x, column->most, column->x,
                column->last);
    }
    column->used = false;
}

static void add_dot(FILE *stream, struct column *column, struct dot dot) {
    double x = round(dot.x * 2) / 2;
    if (column->used && x == column->x) {
        column->least = fmin(column->least, dot.y);
        column->most = fmax(column->most, dot.y);
        column->last = dot.y;
        return;
    }
    flush_column(stream, column);
    *column = (struct column){x, dot.y, dot.y, dot.y, dot.y, true};
}

static void write_curve(FILE *stream, const struct svg_curve *curve, const struct axis *x, const struct axis *y,
                        const char *colour) {
    struct column column = {0};
    bool open = false;
    double last = NAN;                           /* the height of the point before */
    double before = place(x, fmax(0, x->least)); /* and its column */
    for (size_t p = 0; p <= curve->count; p++) {
        bool drawn = p < curve->count && isfinite(curve->y[p]) && isfinite(curve->x[p]);
        if (drawn && !open) {
            fprintf(stream, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\"%s points=\"", colour,
                    curve->name == NULL ? " stroke-dasharray=\"5 4\"" : "");
        }
        if (drawn) {
            struct dot dot = {place(x, curve->x[p]), place(y, curve->y[p])};
            if (curve->form == SVG_STEPS && open) {
                add_dot(stream, &column, (struct dot){dot.x, last});
            } else if (curve->form == SVG_STEPS_BACK) {
                add_dot(stream, &column, (struct dot){before, dot.y});
            }
            add_dot(stream, &column, dot);
            last = dot.y;
            before = dot.x;
        } else if (open) {
            flush_column(stream, &column);
            fputs("\"/>\n", stream);
        }
        open = drawn;
    }
}

static void find_ranges(const struct svg_chart *chart, struct axis *x, struct axis *y) {
    x->least = y->least = INFINITY;
    x->most = y->most = -INFINITY;
    for (size_t c = 0; c < chart->curve_count; c++) {
        const struct svg_curve *curve = &chart->curves[c];
        for (size_t p = 0; p < curve->count; p++) {
            if (isfinite(curve->x[p]) && isfinite(curve->y[p])) {
                x->least = fmin(x->least, curve->x[p]);
                x->most = fmax(x->most, curve->x[p]);
                y->least = fmin(y->least, curve->y[p]);
                y->most = fmax(y->most, curve->y[p]);
            }
        }
    }
    x->least = fmin(x->least, 0);
    y->least = chart->from_zero ? fmin(y->least, 0) : y->least;
    round_axis(x, false);
    round_axis(y, true);
}

/* Writes the key's entry `number` below a figure of height `top`. */
static void write_key(FILE *stream, size_t number, double top, const struct svg_key *key) {
    size_t each = (SVG_WIDTH - LEFT - RIGHT) / KEY_WIDTH;
    double x = LEFT + (double)(number % each) * KEY_WIDTH;
    double y = top + (double)(number / each) * KEY_HEIGHT + 12;
    fprintf(stream, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%s\" height=\"12\" fill=\"%s\"/>\n", x + (key->line ? 5 : 0),
            y - 10, key->line ? "2" : "12", key->colour);
    write_text(stream, x + 18, y, "", key->text);
}

static double key_height(size_t count) {
    size_t each = (SVG_WIDTH - LEFT - RIGHT) / KEY_WIDTH;
    return (double)((count + each - 1) / each) * KEY_HEIGHT + 6;
}

static void write_mark(FILE *stream, const struct svg_mark *mark, double x, double bottom) {
    fprintf(stream, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"1.2\"><title>", x,
            x, TOP - 8, bottom, mark->colour);
    write_escaped(stream, mark->text);
    fputs("</title></line>\n", stream);
}

/* Writes the marks of a chart; a text that would be over the one before is left out. */
static void write_marks(FILE *stream, const struct svg_chart *chart, const struct axis *x) {
    double free_from = 0;
    for (size_t m = 0; m < chart->mark_count; m++) {
        const struct svg_mark *mark = &chart->marks[m];
        double at = place(x, mark->x);
        double width = LETTER * (double)strlen(mark->text);
        if (at < LEFT || at > SVG_WIDTH - RIGHT) {
            continue;
        }
        write_mark(stream, mark, at, SVG_HEIGHT - BOTTOM);
        if (at >= free_from && at + width < SVG_WIDTH) {
            write_text(stream, at + 4, TOP - 4, "font-size=\"11\"", mark->text);
            free_from = at + width + LETTER;
        }
    }
}

/* Whether the curve has a colour of its own; one without a name goes with the curve before it. */
static bool has_colour(const struct svg_curve *curve) {
    return curve->name != NULL;
}

void svg_write_chart(FILE *stream, const struct svg_chart *chart) {
    size_t keys = 0;
    for (size_t c = 0; c < chart->curve_count; c++) {
        keys += has_colour(&chart->curves[c]) ? 1 : 0;
    }
    keys = keys > 1 ? keys : 0;
    struct axis x = {.at_least = LEFT, .at_most = SVG_WIDTH - RIGHT};
    struct axis y = {.at_least = SVG_HEIGHT - BOTTOM, .at_most = TOP};
    find_ranges(chart, &x, &y);
    write_head(stream, SVG_HEIGHT + (keys > 0 ? key_height(keys) : 0), chart->title);
    write_y_axis(stream, &y, chart->y_label);
    write_x_axis(stream, &x, SVG_HEIGHT - BOTTOM, chart->x_label);
    for (size_t c = 0, number = 0; c < chart->curve_count; c++) {
        number += has_colour(&chart->curves[c]) ? 1 : 0;
        write_curve(stream, &chart->curves[c], &x, &y, COLOURS[(number + SVG_COLOURS - 1) % SVG_COLOURS]);
    }
    write_marks(stream, chart, &x);
    for (size_t c = 0, number = 0; keys > 0 && c < chart->curve_count; c++) {
        if (has_colour(&chart->curves[c])) {
            struct svg_key key = {.colour = COLOURS[number % SVG_COLOURS], .text = chart->curves[c].name};
            write_key(stream, number++, SVG_HEIGHT, &key);
        }
    }
    fputs("</svg>\n", stream);
}

/* ---- Timelines ---- */

/* Copies the end of a UTF-8 text, for which there is room: it is the end of a name that tells nodes apart. */
static void cut(const char *text, char name[NAME_BYTES]) {
    size_t size = strlen(text);
    size_t begin = size;
    size_t letters = 0;
    while (begin > 0 && letters < NAME_LONG && size - begin < NAME_BYTES - 8) {
        begin--;
        letters += ((unsigned char)text[begin] & 0xC0) != 0x80 ? 1 : 0; /* a character's first byte */
    }
    while (begin < size && ((unsigned char)text[begin] & 0xC0) == 0x80) {
        begin++;
    }
    snprintf(name, NAME_BYTES, "%s%s", begin > 0 ? "\u2026" : "", text + begin);
}

static void write_row(FILE *stream, const struct svg_row *row, const struct axis *x, double top, double height) {
    double gap = height >= ROW_NAMED ? 2 : height > 4 ? 1 : 0;
    for (size_t s = 0; s < row->span_count; s++) {
        const struct svg_span *span = &row->spans[s];
        double from = place(x, span->from);
        fprintf(stream, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", from, top,
                fmax(place(x, span->until) - from, 0.5), height - gap, span->colour);
    }
}

void svg_write_timeline(FILE *stream, const struct svg_timeline *timeline) {
    struct axis x = {.most = -INFINITY, .at_least = LEFT, .at_most = SVG_WIDTH - RIGHT};
    double height = fmin(ROW_MOST, (double)ROWS_MOST / (double)timeline->row_count);
    double bottom = TOP + (double)timeline->row_count * height;
    for (size_t r = 0; r < timeline->row_count; r++) {
        const struct svg_row *row = &timeline->rows[r];
        x.most = row->span_count > 0 ? fmax(x.most, row->spans[row->span_count - 1].until) : x.most;
    }
    round_axis(&x, false);
    write_head(stream, bottom + BOTTOM + key_height(timeline->key_count), timeline->title);
    for (size_t r = 0; r < timeline->row_count; r++) {
        double top = TOP + (double)r * height;
        write_row(stream, &timeline->rows[r], &x, top, height);
        if (height >= ROW_NAMED) {
            char name[NAME_BYTES];
            cut(timeline->rows[r].name, name);
            write_text(stream, LEFT - 6, top + height / 2 + 3, "text-anchor=\"end\" font-size=\"10\"", name);
        }
    }
    for (size_t m = 0; m < timeline->mark_count; m++) {
        bool few = timeline->mark_count <= MARKS_FEW;
        write_mark(stream, &timeline->marks[m], place(&x, timeline->marks[m].x), few ? bottom : TOP);
    }
    write_x_axis(stream, &x, bottom, timeline->x_label);
    for (size_t k = 0; k < timeline->key_count; k++) {
        write_key(stream, k, bottom + BOTTOM - 4, &timeline->keys[k]);
    }
    fputs("</svg>\n", stream);
}
