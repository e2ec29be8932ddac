/* A job's metrics for Prometheus, from its status and from the lines of its report (docs/operations.md, "Metrics"). In
 * the OpenMetrics format or the older text format. Pure: no clock, no network. No locks: its owner has them. */
#ifndef WEB_METRICS_H
#define WEB_METRICS_H

#include "agileml/wire/report_line.h"

#include <stdint.h>
#include <stdio.h>

enum {
    METRICS_NODES_MAX = 1000,  /* nodes with their own series; proteus_nodes_omitted counts all others */
    METRICS_MARKETS_MAX = 200, /* markets with their own series */
    METRICS_BUCKETS = 9,       /* buckets of recovery times */
};

#define METRICS_OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Counts over the lines so far. Zeroed: no lines. */
struct metrics {
    uint64_t events[HAPPENED_COUNT];
    uint64_t recoveries[METRICS_BUCKETS + 1]; /* not cumulative; the last entry counts those longer than any bucket */
    double recovery_seconds;
    double checkpoint_time; /* when the last checkpoint was reported, in seconds since 1970; 0: none */
    uint64_t decisions;
    struct report_line *money; /* last line of type money; NULL: none */
};

void metrics_close(struct metrics *metrics);
/* Counts a line of the report that came at `now`, in seconds since 1970. */
void metrics_line(struct metrics *metrics, const struct report_line *line, double now);

struct metrics_moment {
    const struct report_line *status; /* the status from the answer to STATUS */
    uint64_t lines;                   /* number of the report's lines */
    double controller_began;          /* seconds since 1970 */
    bool open;                        /* write OpenMetrics, not the older format */
    bool money;                       /* only BidBrain's metrics, not a job's */
};
void metrics_write(const struct metrics *metrics, const struct metrics_moment *moment, FILE *stream);

#endif
