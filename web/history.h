/* The thinned report: a job's report of any length in bounded memory, so that a page can show all of it.
 *
 * Lines that are points of curves (iteration, clock, usage, money) have a bound in bytes per type. When a type exceeds
 * it, every second line is dropped, and from then on half as many are kept. The newest line is always there.
 *
 * Of events, decisions and lines about nodes the newest are kept; once lines are dropped, the history is no longer
 * whole. The oldest lines about nodes are replaced by one that combines them at its time. Summary and market are always
 * kept.
 *
 * No locks: the owner has them. */
#ifndef WEB_HISTORY_H
#define WEB_HISTORY_H

#include "agileml/wire/report_line.h"

#include <stdint.h>
#include <stdio.h>

enum {
    HISTORY_CURVE_BYTES = 1 << 20, /* bound of each thinned type */
    HISTORY_LIST_BYTES = 4 << 20,  /* bound of each type of which the newest lines are kept */
    HISTORY_RUN_TEXT = 17,         /* bytes of a run's name with its NUL */
};

/* A line of the report. Threads may share it, see history_line_hold. Its text does not change. */
struct history_line {
    _Atomic unsigned references;
    uint64_t number; /* number in the report, from 0 */
    enum report_type is;
    double seconds; /* since training began; NaN: not known */
    size_t size;
    char text[]; /* without newline, NUL-terminated */
};

/* `read` is the line as it was read; NULL: it is not JSON, or no line of a report. The new line has one reference. */
struct history_line *history_line_new(uint64_t number, const struct report_line *read, const char *text, size_t size);
struct history_line *history_line_hold(struct history_line *line);
void history_line_drop(struct history_line *line); /* NULL is allowed */

struct history;

struct history *history_new(void);
void history_free(struct history *history);

/* Adds the report's next line. Ignores a line with a number below history_next. After a gap the history is no longer
 * whole. */
void history_add(struct history *history, struct history_line *line);
/* Returns the number of the next line. */
uint64_t history_next(const struct history *history);
/* Returns a random name of this report, which distinguishes it from other reports at the same address. */
const char *history_run(const struct history *history);

/* A history at one time, which can be written while the history goes on. Its first line is
 * {"type":"history","run":...,"next":...,"whole":...}; then come the kept lines in order. */
struct history_view {
    struct history_line **lines; /* including the first line; holds a reference to each */
    size_t count;
};
struct history_view history_view_open(const struct history *history);
void history_view_close(struct history_view *view);
void history_view_write(const struct history_view *view, FILE *stream);
/* Reads what history_view_write has written; `history` is new. Returns 0, or AML_EINPUT with the wrong line; `history`
 * then has the lines before it. */
int history_read(struct history *history, FILE *stream, struct error *error);

#endif
