/* A job's progress for people, from the report's lines: a live line on a terminal, else a line for each iteration, and
 * a summary at the end. Does not print errors. */
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
    PROGRESS_LIVE_MS = 100,   /* least time between changes of the live line, so that people can read it */
    PROGRESS_CLOCK_MS = 1000, /* before a clock's line, which has less, replaces an iteration's */
};

/* Silent nodes that the job may be waiting for, until they are heard or given up, or the job goes on. */
struct progress_silence {
    json_t *nodes; /* NULL: there are none */
    int64_t began_ms, ends_ms; /* the nodes are given up at ends_ms */
};

struct progress {
    FILE *stream;
    bool quiet;
    bool terminal;   /* `stream` is a terminal that can rewrite its line */
    bool live;       /* the terminal shows the live line */
    int64_t live_ms; /* when the live line last changed */
    unsigned joined; /* nodes so far */
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
/* Prints a line that stays. */
__attribute__((format(printf, 2, 3))) void progress_note(struct progress *progress, const char *format, ...);
/* Removes the live line. Call it before other output to the terminal. */
void progress_clear(struct progress *progress);
/* Removes the live line and ends the countdown. */
void progress_end(struct progress *progress);

/* Returns a share of the items in percent, rounded down to tenths: 100 means all. */
double progress_percent(double share);
/* Writes 1234567 as "1.23 M": three digits, decimal units. */
void progress_count_text(double count, char text[PROGRESS_NUMBER_TEXT]);
/* Writes bytes likewise: "1.23 MB", "17 B". */
void progress_bytes_text(double bytes, char text[PROGRESS_NUMBER_TEXT]);
/* Describes a line of type iteration or clock. */
void progress_line_text(const json_t *line, char text[PROGRESS_LINE_TEXT]);
/* Describes a line of type event. */
void progress_event_text(const json_t *line, char text[PROGRESS_LINE_TEXT]);
/* Describes a line of type summary, in several lines. */
void progress_summary_text(const json_t *line, char text[PROGRESS_LINE_TEXT]);

#endif
