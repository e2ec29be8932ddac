/* The live line of a job: one line of text, as wide as the terminal, made from the report's lines so far. Does not
 * write to the terminal. */
#ifndef PROTEUS_LIVE_LINE_H
#define PROTEUS_LIVE_LINE_H

#include "proteus/forecast.h"
#include "proteus/progress_text.h"
#include "proteus/terminal.h"

enum {
    LIVE_LINE_PART = 128, /* bytes of one part of the line */
    LIVE_LINE_BAR_MIN = 12,
    LIVE_LINE_BAR_MAX = 32,
    LIVE_LINE_COLUMNS_MAX = 300,
    LIVE_LINE_TEXT = 4 * LIVE_LINE_COLUMNS_MAX + 1,
};

#define LIVE_LINE_CLOCK_S 1.0 /* the present iteration's clocks are shown if no iteration ends for so long */

/* What is known about the job. Empty texts and NaN: unknown. */
struct live_line {
    struct forecast forecast;
    double clock;    /* last clock of the present iteration */
    double measured; /* iteration of `objective` and `metrics`; NaN if they are of a clock */
    double items_per_second, dollars, budget;
    char objective[LIVE_LINE_PART]; /* "train_rmse 0.87" */
    char partial[LIVE_LINE_PART];
    char cluster[LIVE_LINE_PART]; /* "stage 2, 4+60 nodes" */
    char metrics[LIVE_LINE_PART]; /* all metrics but the objective */
};

void live_line_begin(struct live_line *live);
/* Reads a line of the report of any type. */
void live_line_take(struct live_line *live, const struct report_line *line);
/* Writes the line for `seconds` of training, at most `columns` wide. The first parts are the most important; those that
 * do not fit are left out. */
void live_line_text(const struct live_line *live, const struct terminal *terminal, double seconds, int columns,
                    char text[LIVE_LINE_TEXT]);
/* Writes what is left, as "42 %" and "~0:37 left", or nothing. Returns `left.share`. */
double live_line_left_text(const struct forecast_left *left, char percent[PROGRESS_NUMBER_TEXT],
                           char time[2 * PROGRESS_NUMBER_TEXT]);

#endif
