/* Lines that say what nodes do, made into one: each such line is about the nodes that changed (docs/proteus.md, "The
 * report"), so that the newest of them alone do not say who takes part. */
#ifndef WEB_HISTORY_FOLD_H
#define WEB_HISTORY_FOLD_H

#include "web/history.h"

/* Returns a line in place of `count` lines of type `nodes`, with the time and number of the last: what each node did
 * that was in the job then, and "all": true. The first of the lines may be such a one. The caller drops it. A line that
 * is no JSON is left out. */
struct report_line *history_fold(struct report_line *const *lines, size_t count);

#endif
