/* A job's progress for people, from the report's lines. Shows a live line on a terminal with the events above it, or
 * lines of text, or the report's lines themselves; then a summary at the end. Does not print errors. */
#ifndef PROTEUS_PROGRESS_H
#define PROTEUS_PROGRESS_H

#include "agileml/base/error.h"
#include "proteus/live_line.h"
#include "proteus/progress_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    PROGRESS_LIVE_MS = 100, /* least time between changes of the live line, so that it can be read */
};

/* In mode plain: least training time between the lines of two iterations. */
#define PROGRESS_PLAIN_S 1.0

enum progress_mode {
    PROGRESS_AUTO,  /* LINE on a terminal, else PLAIN */
    PROGRESS_LINE,  /* a live line, and events as lines that stay */
    PROGRESS_PLAIN, /* lines: all events, and iterations at most once a second */
    PROGRESS_JSON,  /* the report's lines as they are; notes on standard error */
    PROGRESS_NONE,
};

/* Silent nodes for which the job may be waiting. Ends when they are heard or given up, or when the job goes on. */
struct progress_silence {
    struct report_line *line;  /* their event; NULL: none */
    int64_t began_ms, ends_ms; /* the nodes are given up at ends_ms */
};

/* The lines of iterations in mode plain. */
struct progress_plain {
    bool begun;
    bool measured;            /* a line with an objective was shown */
    double seconds;           /* training time of the last line shown */
    struct report_line *held; /* a line held back because it came too early; NULL: none */
};

struct progress {
    FILE *stream;
    enum progress_mode mode;
    bool decisions; /* also shows BidBrain's decisions; if false, another program shows them */
    struct terminal terminal;
    bool drawn;       /* the terminal shows the live line */
    int64_t drawn_ms; /* when it last changed */
    unsigned joined;  /* nodes that have joined so far */
    bool started;     /* training has begun */
    bool over;        /* the summary has come */
    int64_t heard_ms; /* when the last iteration's line came, or the start of training; 0: neither */
    struct live_line live;
    struct progress_silence silence;
    struct progress_plain plain;
};

/* Reads the value of --progress. Returns 0 or AML_EINPUT. */
int progress_parse(const char *text, enum progress_mode *mode, struct error *error);

void progress_begin(struct progress *progress, FILE *stream, enum progress_mode mode);
/* Shows a line of the report, in all modes but json. */
void progress_report(struct progress *progress, const struct report_line *line);
/* Mode json only: shows a line of the report, given as its text without a newline. */
void progress_write(struct progress *progress, const char *text, size_t size);
/* Takes note of a line that was already shown, by an earlier process. */
void progress_recall(struct progress *progress, const struct report_line *line);
/* Warns on standard error, in all modes, if the line is the summary of a job whose last checkpoint failed. */
void progress_warn(struct progress *progress, const struct report_line *line);
/* Call it a few times a second: the live line counts down. */
void progress_tick(struct progress *progress);
/* Prints a line that stays. */
__attribute__((format(printf, 2, 3))) void progress_note(struct progress *progress, const char *format, ...);
/* Removes the live line. Call it before other output to the terminal. */
void progress_clear(struct progress *progress);
/* Shows a line that was held back, removes the live line and ends the countdown. */
void progress_end(struct progress *progress);

#endif
