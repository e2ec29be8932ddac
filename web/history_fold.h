/* Combines lines of type `nodes`. Each such line has only the nodes that changed (docs/proteus.md, "The report"). The
 * newest lines alone would therefore not show all nodes that take part. */
#ifndef WEB_HISTORY_FOLD_H
#define WEB_HISTORY_FOLD_H

#include "web/history.h"

/* Combines `count` lines of type `nodes` into one line with the last line's time and "all": true. It has the state of
 * each node that was in the job at that time. The first of the lines may already be a combined line. Lines that are no
 * JSON are ignored. Returns a text from malloc; NULL if no line is JSON. */
char *history_fold(struct history_line *const *lines, size_t count);

#endif
