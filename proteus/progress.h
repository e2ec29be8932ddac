/* A job's progress for people, from the report's lines: a live line on a terminal with the events above it, or lines of
 * text, or the report's lines themselves; and a summary at the end. Does not print errors. */
#ifndef PROTEUS_PROGRESS_H
#define PROTEUS_PROGRESS_H

#include "agileml/base/error.h"
#include "proteus/live_line.h"
#include "proteus/progress_text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    PROGRESS_LIVE_MS = 100, /* least time between changes of the live line, so that people can read it */
};

/* Least training time between the lines of two iterations in mode plain. */
#define PROGRESS_PLAIN_S 1.0

enum progress_mode {
    PROGRESS_AUTO,  /* LINE on a terminal, else PLAIN */
    PROGRESS_LINE,  /* a live line, and events as lines that stay */
    PROGRESS_PLAIN, /* lines: events, and an iteration's at most once a second */
    PROGRESS_JSON,  /* the report's lines as they are; notes on standard error */
    PROGRESS_NONE,
};

/* Silent nodes that the job may be waiting for, until they are heard or given up, or the job goes on. */
struct progress_silence {
    json_t *nodes; /* NULL: there are none */
    int64_t began_ms, ends_ms; /* the nodes are given up at ends_ms */
};

/* The lines of iterations in mode plain. */
struct progress_plain {
    bool begun;
    bool measured;  /* a line had an objective */
    double seconds; /* of the last line shown */
    json_t *held;   /* a line that came too early to be shown; NULL: none */
};

struct progress {
    FILE *stream;
    enum progress_mode mode;
    bool decisions; /* BidBrain's decisions are lines, too; false: somebody else shows them */
    struct terminal terminal;
    bool drawn;       /* the terminal shows the live line */
    int64_t drawn_ms; /* when it last changed */
    unsigned joined;  /* nodes so far */
    bool started;     /* training has begun */
    bool over;        /* the summary has come */
    int64_t heard_ms; /* when the last iteration's line came, or that training began; 0: neither */
    struct live_line live;
    struct progress_silence silence;
    struct progress_plain plain;
};

/* Reads the value of --progress. Returns 0 or AML_EINPUT. */
int progress_parse(const char *text, enum progress_mode *mode, struct error *error);

void progress_begin(struct progress *progress, FILE *stream, enum progress_mode mode);
/* Shows a line of the report, in all modes but json. */
void progress_report(struct progress *progress, const json_t *line);
/* Shows a line of the report, given as its text without a newline, in mode json alone. */
void progress_write(struct progress *progress, const char *text, size_t size);
/* Takes note of a line that was shown before, by a process that has ended. */
void progress_recall(struct progress *progress, const json_t *line);
/* Warns on standard error, whatever the mode, when the line is the summary of a job whose last checkpoint failed. */
void progress_warn(struct progress *progress, const json_t *line);
/* Call it a few times a second: the live line counts down. */
void progress_tick(struct progress *progress);
/* Prints a line that stays. */
__attribute__((format(printf, 2, 3))) void progress_note(struct progress *progress, const char *format, ...);
/* Removes the live line. Call it before other output to the terminal. */
void progress_clear(struct progress *progress);
/* Shows what was held back, removes the live line and ends the countdown. */
void progress_end(struct progress *progress);

#endif
