/* The text of `proteus top`: the nodes' table with rates, sorted and scrolled. Does not read keys or the network, and
 * does not change the terminal's modes. */
#ifndef PROTEUS_TOP_VIEW_H
#define PROTEUS_TOP_VIEW_H

#include "proteus/forecast.h"
#include "proteus/terminal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { TOP_VIEW_COLUMNS_MAX = 300 };

/* Older growth of a counter counts little in its rate. */
#define TOP_VIEW_RATE_S 3.0

enum top_order { TOP_BY_NAME, TOP_BY_CLOCK, TOP_BY_ITEMS, TOP_BY_MEMORY, TOP_BY_SLOWNESS, TOP_BY_SILENCE };

/* A growing counter and its rate: sums in which older growth weighs less. */
struct top_counter {
    double value; /* NaN: unknown */
    double grown, seconds;
};

struct top_node {
    const struct report_node *given; /* of the view's status, as are the texts below */
    const char *name, *tier, *state;
    char role[64];
    struct top_counter items, bytes;
};

struct top_view {
    struct report_line *status; /* last answer; NULL: none yet */
    double at;                  /* when it came, in seconds of a clock that does not jump */
    struct top_node *nodes;
    size_t count;
    enum top_order order;
    bool reversed;
    size_t first;  /* index of the node in the first row */
    size_t page;   /* rows of nodes in the last frame */
    double silent; /* seconds without an answer, to be shown as a warning; 0: none */
    struct forecast forecast;
};

void top_view_open(struct top_view *view);
void top_view_close(struct top_view *view);

/* Takes an answer to STATUS that came at `now`. */
void top_view_take(struct top_view *view, const struct report_line *status, double now);
/* Sorts by `order`. If this is the present order, reverses it. */
void top_view_sort(struct top_view *view, enum top_order order);
/* Moves the table by `rows` rows. */
void top_view_scroll(struct top_view *view, long rows);
/* Writes a frame that fills a screen of this size, at `now`. */
void top_view_draw(struct top_view *view, const struct terminal *terminal, struct terminal_size size, double now,
                   FILE *stream);
/* Writes all of it as lines. */
void top_view_print(struct top_view *view, const struct terminal *terminal, FILE *stream);

#endif
