/* What people see of a job: a live line on a terminal, else a line an iteration, and a summary at the end, all from the
 * report's lines. Errors are not its business. */
#ifndef PROTEUS_PROGRESS_H
#define PROTEUS_PROGRESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    PROGRESS_NUMBER_TEXT = 32,
    PROGRESS_LINE_TEXT = 1024,
    PROGRESS_COLUMNS_DEFAULT = 80,
    PROGRESS_NAMED_MAX = 4,   /* nodes of an event that are named */
    PROGRESS_LIVE_MS = 100,   /* between changes of the live line, so that it can be read ... */
    PROGRESS_CLOCK_MS = 1000, /* ... and before a clock, which tells less, takes the place of an iteration */
};

/* Silent nodes that the job may be waiting for, until they are heard or given up, or the job goes on. */
struct progress_silence {
    json_t *nodes; /* NULL: there are none */
    int64_t began_ms, ends_ms; /* of the silence: the nodes are given up at its end */
};

struct progress {
    FILE *stream;
    bool quiet;
    bool terminal;   /* `stream` is one that can rewrite its line */
    bool live;       /* the live line stands there */
    int64_t live_ms; /* when it last changed */
    unsigned joined; /* nodes */
    bool started;    /* training has begun */
    struct progress_silence silence;
};

void progress_begin(struct progress *progress, FILE *stream, bool quiet);
/* Shows a line of the report. */
void progress_report(struct progress *progress, const json_t *line);
/* Warns on standard error, quiet or not, when the line is the summary of a job whose last checkpoint failed. */
void progress_warn(struct progress *progress, const json_t *line);
/* Call it a few times a second: the live line counts down until a silent node is given up. */
void progress_tick(struct progress *progress);
/* A line for people that stays. */
__attribute__((format(printf, 2, 3))) void progress_note(struct progress *progress, const char *format, ...);
/* Takes the live line away: before anything else is written to the terminal. */
void progress_clear(struct progress *progress);
/* The same, and stops counting down: at the end. */
void progress_end(struct progress *progress);

/* A share of the items as percent, rounded down to tenths: a part never looks like all. */
double progress_percent(double share);
/* 1234567 as "1.23 M": three digits, decimal units. */
void progress_count_text(double count, char text[PROGRESS_NUMBER_TEXT]);
/* The same with "B" at its end: "1.23 MB", "17 B". */
void progress_bytes_text(double bytes, char text[PROGRESS_NUMBER_TEXT]);
/* A line of type iteration or clock. */
void progress_line_text(const json_t *line, char text[PROGRESS_LINE_TEXT]);
/* A line of type event. */
void progress_event_text(const json_t *line, char text[PROGRESS_LINE_TEXT]);
/* A line of type summary, as several lines. */
void progress_summary_text(const json_t *line, char text[PROGRESS_LINE_TEXT]);

#endif
