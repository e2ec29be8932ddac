/* The names by which headers of ratings call their columns. */
#ifndef WORKERS_RATINGS_NAMES_H
#define WORKERS_RATINGS_NAMES_H

#include "workers/data/ratings_head.h"

/* The tiers of a role: a column named in the first tier counts before those named in the next, as user_id before
 * user_name. */
enum { RATINGS_TIERS = 3 };

extern const struct text_role ratings_names[RATING_ROLES][RATINGS_TIERS];
/* Columns that are not used, but by which a line is known to be a header. */
extern const struct text_role ratings_time_names;

#endif
