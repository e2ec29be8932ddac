/* A trial of a change that can be taken back: what is usual is measured, the change is made and measured, and by the
 * median of its samples it is kept or taken back. A pause until the same trial may be repeated becomes longer with each
 * failure. Pure state: reads no clock; a caller counts time as it likes, for example in iterations.
 *
 *   USUAL --the pause is over: trial_begin--> TRIED --trial_add_tried: KEPT or TAKEN_BACK--> USUAL, measured anew
 *     ^                                         |
 *     +------------- trial_drop ----------------+
 *
 * The caller makes the change and takes it back. A user with other judgements, or that takes nothing back, uses the
 * parts alone: trial_gains, trial_longer, and the pause. */
#ifndef AGILEML_BASE_TRIAL_H
#define AGILEML_BASE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

enum { TRIAL_SAMPLES_MAX = 15 };

/* The thresholds of one user. */
struct trial_rule {
    unsigned samples;     /* the median of so many last samples counts; at most TRIAL_SAMPLES_MAX */
    unsigned least, most; /* samples of a trial */
    double margin;        /* a change is kept only if samples become smaller by this part */
    double clear;    /* from `least` samples on, a difference by this part ends the trial; half of it after 4 times as
                        many */
    double hopeless; /* a change that makes samples so many times as large is taken back at once */
};

struct trial_run {
    unsigned count; /* of all samples so far */
    double samples[TRIAL_SAMPLES_MAX];
};

enum trial_state { TRIAL_USUAL, TRIAL_TRIED };

/* It begins zeroed. */
struct trial {
    enum trial_state state;
    struct trial_run usual, tried;
};

enum trial_verdict { TRIAL_OPEN, TRIAL_KEPT, TRIAL_TAKEN_BACK };

/* Adds a sample, of which the last `samples` count. */
void trial_run_add(struct trial_run *run, unsigned samples, double sample);
/* Returns the median of a run that has samples. */
double trial_run_median(const struct trial_run *run, unsigned samples);

void trial_begin(struct trial *trial);
/* Adds a sample of what is tried. A verdict ends the trial. */
enum trial_verdict trial_add_tried(struct trial *trial, const struct trial_rule *rule, double sample);
/* Drops all samples and ends the trial without a verdict. */
void trial_drop(struct trial *trial);

/* Whether `tried` is smaller than `usual` by the part `margin`, or more. */
bool trial_gains(double tried, double usual, double margin);
/* Returns the wait after `wait`: twice as long, at most `most`. The first is `first`. */
uint64_t trial_longer(uint64_t wait, uint64_t first, uint64_t most);

/* The time after a trial in which it is not repeated. It begins zeroed, and is then over. */
struct trial_pause {
    uint64_t since, wait;
    unsigned failures; /* in a row */
};

enum trial_wait { TRIAL_WAIT_FIRST, TRIAL_WAIT_SAME, TRIAL_WAIT_LONGER };

/* Begins the next pause: as long as the first one, as the last one, or longer. */
void trial_pause_begin(struct trial_pause *pause, uint64_t now, enum trial_wait next, uint64_t first, uint64_t most);
bool trial_pause_is_over(const struct trial_pause *pause, uint64_t now);

#endif
