/* The file of --events: interruptions by schedule. One per line, '#' begins a comment:
 *
 *     seconds X interrupt TYPE/ZONE [notice S]      X market seconds after the start
 *     at TIME interrupt TYPE/ZONE [notice S]        TIME as 2016-03-01T00:10:00Z
 */
#ifndef SPOTMARKET_TIMETABLE_H
#define SPOTMARKET_TIMETABLE_H

#include "spotmarket/cloud.h"

enum { TIMETABLE_EVENTS_MAX = 100000, TIMETABLE_LINE_MAX = 512, TIMETABLE_NOTICE_MAX = 86400 };

struct timetable {
    struct cloud_event *events; /* in the order of the file */
    size_t count;
};

/* Returns 0, or AML_EINPUT with "PATH:LINE: what is wrong, what was expected". */
int timetable_read(struct timetable *timetable, const char *path, const struct markets *markets, int64_t start,
                   int64_t notice, struct error *error);
void timetable_close(struct timetable *timetable);

#endif
