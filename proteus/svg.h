/* Figures as SVG for papers and pages: lines over a number, and rows of spans. Plain elements, no script, colours that
 * are readable on light and dark grounds. The caller checks the stream for errors. */
#ifndef PROTEUS_SVG_H
#define PROTEUS_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    SVG_WIDTH = 760,
    SVG_HEIGHT = 340,
    SVG_COLOURS = 10, /* of curves; then they begin anew */
};

/* How a curve goes from point to point. */
enum svg_form {
    SVG_LINE,
    SVG_STEPS,      /* y holds until the next x */
    SVG_STEPS_BACK, /* y holds since the x before, at first since 0 */
};

/* A curve: `count` points, x ascending. NaN in y ends a piece of the line. */
struct svg_curve {
    const char *name; /* NULL: it is dashed, has the colour of the curve before it, and is not in the key */
    const double *x, *y;
    size_t count;
    enum svg_form form;
};

/* A vertical line with a text: at its top in a chart, as far as there is room, and for the pointer in a timeline. */
struct svg_mark {
    double x;
    const char *colour, *text;
};

/* Curves over one axis. y begins at 0 with `from_zero`, else below the least value. */
struct svg_chart {
    const char *title, *x_label, *y_label;
    const struct svg_curve *curves;
    size_t curve_count;
    enum svg_form form; /* for whoever makes the curves */
    bool from_zero;
    const struct svg_mark *marks; /* by rising x */
    size_t mark_count;
};
void svg_write_chart(FILE *stream, const struct svg_chart *chart);

/* A row of a timeline: spans in ascending order. */
struct svg_span {
    double from, until;
    const char *colour;
};
struct svg_row {
    const char *name;
    const struct svg_span *spans;
    size_t span_count;
};
struct svg_key {
    const char *colour, *text;
    bool line; /* it stands for a line */
};
struct svg_timeline {
    const char *title, *x_label;
    const struct svg_row *rows;
    size_t row_count;
    const struct svg_mark *marks;
    size_t mark_count;
    const struct svg_key *keys;
    size_t key_count;
};
void svg_write_timeline(FILE *stream, const struct svg_timeline *timeline);

#endif
