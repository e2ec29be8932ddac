/* The thinned report: a job's report of any length within bounds, so that a page can show all of it.
 *
 * Of lines that are points of curves (iteration, clock, usage, money) each type has a bound in bytes. When its lines
 * need more, every second one goes, and from then on half as many stay. The newest is always there. Of events,
 * decisions and what nodes did the newest stay, and the history is no longer whole. In place of the oldest lines of
 * what nodes did there is then one that says what all of them did at its time. Summary and market always stay.
 *
 * No locks: its owner has them. */
#ifndef WEB_HISTORY_H
#define WEB_HISTORY_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    HISTORY_CURVE_BYTES = 1 << 20, /* of each type that is thinned */
    HISTORY_LIST_BYTES = 4 << 20,  /* of each type of which the newest stay */
    HISTORY_RUN_TEXT = 17,         /* bytes of a run's name with the final 0 */
};

/* A line of the report, which is shared, also by threads: see report_line_hold. Its text does not change. */
struct report_line {
    _Atomic unsigned references;
    uint64_t number; /* in the report, from 0 */
    size_t size;
    char text[]; /* without a newline, with a final 0 */
};

struct report_line *report_line_new(uint64_t number, const char *text, size_t size); /* with one reference */
struct report_line *report_line_hold(struct report_line *line);
void report_line_drop(struct report_line *line); /* NULL is allowed */

struct history;

struct history *history_new(void);
void history_free(struct history *history);

/* Takes the report's next line. A line with a number below history_next is left out; a gap makes the history no longer
 * whole. */
void history_add(struct history *history, struct report_line *line);
/* Returns the number of the line that is to come next. */
uint64_t history_next(const struct history *history);
/* Returns a random name of this report, which tells it from others behind the same address. */
const char *history_run(const struct history *history);

/* A history as it was at a moment, to be written while it goes on: a line
 * {"type":"history","run":...,"next":...,"whole":...}, then the kept lines in their order. */
struct history_view {
    struct report_line **lines; /* the first one included; a reference of each */
    size_t count;
};
struct history_view history_view_open(const struct history *history);
void history_view_close(struct history_view *view);
void history_view_write(const struct history_view *view, FILE *stream);
/* Takes over what history_view_write has written; `history` is new. Returns 0, or AML_EINPUT with the line that is
 * wrong; the history then has what came before. */
int history_read(struct history *history, FILE *stream, struct error *error);

#endif
