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

/* A curve: `count` points, x ascending. NaN in y ends a piece of the line. */
struct svg_curve {
    const char *name;
    const double *x, *y;
    size_t count;
    bool steps; /* y holds until the next x */
};

/* A vertical line with a word at its top. */
struct svg_mark {
    double x;
    const char *colour, *text;
};

/* Curves over one axis. y begins at 0 with `from_zero`, else below the least value. */
struct svg_chart {
    const char *title, *x_label, *y_label;
    const struct svg_curve *curves;
    size_t curve_count;
    bool from_zero;
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
