/* See feeders.h. */
#include "agileml/control/decide/feeders.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DRIFTED = 2 }; /* blocks in a row after which a change counts */

static const struct feeders_action nothing = {.act = FEEDERS_NONE};

/* ---- Measuring ---- */

static void run_add(struct feeders_run *run, const struct feeders_view *view) {
    run->count++;
    run->rates += view->rate;
    run->squares += view->rate * view->rate;
    run->starved += view->starved;
    run->busy += view->busy;
    run->fed += view->fed;
}

/* Sums up the run. A few windows may be alike by chance, so the error is at least what earlier runs' windows make
 * likely. */
static struct feeders_measure measure(const struct feeders *feeders) {
    const struct feeders_run *run = &feeders->run;
    assert(run->count > 1);
    double count = run->count;
    double rate = run->rates / count;
    double variance = fmax(run->squares / count - rate * rate, 0) * count / (count - 1);
    double usual = feeders->freedom > 0 ? feeders->deviations / feeders->freedom * rate * rate : 0;
    return (struct feeders_measure){.feeders = feeders->wanted,
                                    .threads = feeders->threads,
                                    .rate = rate,
                                    .error = sqrt(fmax(variance, usual) / count),
                                    .starved = run->starved / count,
                                    .busy = run->busy / count,
                                    .fed = run->fed / count};
}

/* Remembers how much the windows of a finished run differ. */
static void learn_noise(struct feeders *feeders) {
    const struct feeders_run *run = &feeders->run;
    double rate = run->rates / run->count;
    feeders->deviations += fmax(run->squares / run->count / (rate * rate) - 1, 0) * run->count;
    feeders->freedom += run->count - 1;
}

/* Returns the highest rate that trainers may reach if they never waited. Very high where they wait nearly always. */
static double full_rate(const struct feeders_measure *measured) {
    return measured->rate / fmax(1 - measured->starved - FEEDERS_DOUBT, 1e-3);
}

/* Returns the rate with other numbers of feeders and threads, if their output grows with their threads. Assumes that
 * trainers, while they wait, go on making items as fast as now. */
static double linear_rate(const struct feeders_measure *measured, unsigned feeders, unsigned threads) {
    assert(measured->feeders > 0 && measured->threads > 0);
    double times = (double)(feeders * threads) / (measured->feeders * measured->threads);
    double own = measured->fed < 1 ? (1 - measured->fed) / fmax(measured->starved, 1e-3) : 0;
    double now = fmax(measured->fed + own, 1e-12);
    return measured->rate * (measured->fed * times + own) / now;
}

enum verdict { VERDICT_OPEN, VERDICT_LINEAR, VERDICT_LESS, VERDICT_UNSURE };

/* Returns by how many standard errors a gain must be too small to be rejected. Many, as there are many judgements and
 * chance must not decide; more if the error is known from only a few windows. */
static double certain(const struct feeders *feeders) {
    return 4 * (1 + 6 / (feeders->freedom + feeders->run.count));
}

/* Judges whether the step from the kept measure to this one gained FEEDERS_LINEAR of what was possible. Unsure: not
 * known even after FEEDERS_WINDOWS_MAX windows. */
static enum verdict judge(const struct feeders *feeders, const struct feeders_measure *now) {
    const struct feeders_measure *kept = &feeders->kept;
    double linear = linear_rate(kept, now->feeders, now->threads);
    double times = linear / kept->rate;
    double possible = fmax(fmin(linear, full_rate(kept)) - kept->rate, 1e-12 * kept->rate);
    double gain = (now->rate - kept->rate) / possible;
    double error = sqrt(now->error * now->error + times * times * kept->error * kept->error) / possible;
    bool threads = feeders->state == FEEDERS_THREADS; /* cost no machine: kept sooner, and if in doubt */
    bool last = feeders->run.count >= (threads ? FEEDERS_WINDOWS_MAX / 2 : FEEDERS_WINDOWS_MAX);
    bool told = threads || gain >= 3 * error;
    if (now->starved < FEEDERS_STARVED || (told && gain - error >= FEEDERS_LINEAR)) {
        return VERDICT_LINEAR;
    }
    if (gain + (last && !threads ? 2.5 : certain(feeders)) * error < FEEDERS_LINEAR) {
        return VERDICT_LESS;
    }
    return !last ? VERDICT_OPEN : told ? VERDICT_LINEAR : VERDICT_UNSURE;
}

/* ---- Changes ---- */

/* Changes the state as drawn in feeders.h. Only feeders_begin_anew leads from any state to the first ones. */
static void become(struct feeders *feeders, enum feeders_state state) {
    static const unsigned legal[] = {
        [FEEDERS_PROFILE] = 1 << FEEDERS_THREADS | 1 << FEEDERS_HOLD,
        [FEEDERS_THREADS] = 1 << FEEDERS_COUNT | 1 << FEEDERS_HOLD,
        [FEEDERS_COUNT] = 1 << FEEDERS_HOLD,
        [FEEDERS_HOLD] = 1 << FEEDERS_THREADS | 1 << FEEDERS_SHRINK | 1 << FEEDERS_HOLD,
        [FEEDERS_SHRINK] = 1 << FEEDERS_HOLD,
    };
    assert((legal[feeders->state] >> state & 1) != 0);
    feeders->state = state;
}

/* Requests this many feeders and threads. */
static struct feeders_action change(struct feeders *feeders, enum feeders_act act, unsigned wanted, unsigned threads) {
    assert((wanted == 0) == (threads == 0));
    feeders->requests += act == FEEDERS_ADD && feeders->requests < FEEDERS_REQUESTS ? 1 : 0;
    feeders->next_request = feeders->windows + ((uint64_t)1 << feeders->requests);
    feeders->wanted = wanted;
    feeders->threads = threads;
    feeders->run = (struct feeders_run){0};
    feeders->unsettled = 0;
    return (struct feeders_action){act, wanted, threads};
}

static void become_hold(struct feeders *feeders, bool success) {
    become(feeders, FEEDERS_HOLD);
    feeders->held = (struct feeders_measure){0};
    feeders->drifted = feeders->spare = 0;
    feeders->run = (struct feeders_run){0};
    trial_pause_begin(&feeders->pause, feeders->windows, success ? TRIAL_WAIT_FIRST : TRIAL_WAIT_LONGER, FEEDERS_WAIT,
                      FEEDERS_WAIT_MAX);
}

static struct feeders_action go_back(struct feeders *feeders, char *reason, double rate) {
    snprintf(reason, FEEDERS_REASON, "with feeders at most %.4g items a second, without them %.4g: all are given back",
             rate, feeders->baseline);
    struct feeders_action action = change(feeders, FEEDERS_BASELINE, 0, 0);
    become_hold(feeders, false);
    return action;
}

/* Ends tuning with the kept feeders. */
static struct feeders_action finish(struct feeders *feeders, char *reason) {
    const struct feeders_measure *kept = &feeders->kept;
    if (kept->rate < feeders->baseline * (1 + FEEDERS_MARGIN)) {
        return go_back(feeders, reason, kept->rate);
    }
    struct feeders_action action = nothing;
    if (feeders->wanted > kept->feeders) {
        snprintf(reason, FEEDERS_REASON, "%u feeders gained less than %.0f %% of what was possible: %u again",
                 feeders->wanted, 100 * FEEDERS_LINEAR, kept->feeders);
        action = change(feeders, FEEDERS_REMOVE, kept->feeders, kept->threads);
    } else if (feeders->threads != kept->threads) {
        snprintf(reason, FEEDERS_REASON, "%u threads gained less than %.0f %% of what was possible: %u again",
                 feeders->threads, 100 * FEEDERS_LINEAR, kept->threads);
        action = change(feeders, FEEDERS_SET_THREADS, kept->feeders, kept->threads);
    } else {
        snprintf(reason, FEEDERS_REASON, "trainers wait for %.0f %% of their time: %u feeder%s kept",
                 100 * kept->starved, kept->feeders, kept->feeders == 1 ? " is" : "s are");
    }
    become_hold(feeders, feeders->wanted != feeders->from || feeders->threads != feeders->from_threads);
    return action;
}

static struct feeders_action begin(struct feeders *feeders, char *reason, double baseline, double starved) {
    snprintf(reason, FEEDERS_REASON, "input takes %.0f %% of trainers' time: a first feeder is tried", 100 * starved);
    feeders->baseline = baseline;
    feeders->kept = (struct feeders_measure){0};
    feeders->from = feeders->from_threads = 0;
    become(feeders, FEEDERS_THREADS);
    return change(feeders, FEEDERS_ADD, 1, 1);
}

/* ---- Tuning ---- */

static struct feeders_action profile(struct feeders *feeders, const struct feeders_view *view, char *reason) {
    if (feeders->run.count < FEEDERS_WINDOWS) {
        return nothing;
    }
    struct feeders_measure now = measure(feeders);
    learn_noise(feeders);
    if (now.starved < FEEDERS_STARVED || view->feeders_max == 0) {
        snprintf(reason, FEEDERS_REASON, "input takes %.0f %% of trainers' time: no feeder is needed",
                 100 * now.starved);
        feeders->baseline = now.rate;
        become_hold(feeders, true);
        return nothing;
    }
    return begin(feeders, reason, now.rate, now.starved);
}

/* Takes the step after the measured one, or ends tuning. */
static struct feeders_action step(struct feeders *feeders, const struct feeders_view *view,
                                  const struct feeders_measure *now, char *reason) {
    double most = fmin(full_rate(now), linear_rate(now, view->feeders_max, view->threads_max));
    if (now->starved < FEEDERS_STARVED || most < feeders->baseline * (1 + FEEDERS_MARGIN)) {
        return finish(feeders, reason);
    }
    if (feeders->state == FEEDERS_THREADS && now->threads < view->threads_max) {
        unsigned threads = 2 * now->threads < view->threads_max ? 2 * now->threads : view->threads_max;
        snprintf(reason, FEEDERS_REASON, "trainers wait for %.0f %% of their time: %u threads instead of %u",
                 100 * now->starved, threads, now->threads);
        return change(feeders, FEEDERS_SET_THREADS, now->feeders, threads);
    }
    unsigned threads = now->threads < view->threads_next ? now->threads : view->threads_next;
    if (feeders->state == FEEDERS_THREADS) {
        become(feeders, FEEDERS_COUNT);
    }
    if (now->feeders >= view->feeders_max || (now->feeders + 1) * threads <= now->feeders * now->threads) {
        struct feeders_action action = finish(feeders, reason);
        if (action.act == FEEDERS_NONE) {
            strncat(reason, ", as many as there may be", FEEDERS_REASON - 1 - strlen(reason));
        }
        return action;
    }
    snprintf(reason, FEEDERS_REASON, "trainers wait for %.0f %% of their time: feeder %u is tried", 100 * now->starved,
             now->feeders + 1);
    return change(feeders, FEEDERS_ADD, now->feeders + 1, threads);
}

/* Judges the present step and takes the next one. A step whose gain may be chance is not kept, but followed by another
 * step. Both are then judged together, as their gain is larger. */
static struct feeders_action tune(struct feeders *feeders, const struct feeders_view *view, char *reason) {
    if (feeders->run.count < FEEDERS_WINDOWS) {
        return nothing;
    }
    struct feeders_measure now = measure(feeders);
    const struct feeders_measure *kept = &feeders->kept;
    bool first = kept->feeders == 0 || kept->feeders * kept->threads >= now.feeders * now.threads;
    enum verdict verdict = first ? VERDICT_LINEAR : judge(feeders, &now);
    if (verdict == VERDICT_OPEN) {
        return nothing;
    }
    learn_noise(feeders);
    if (verdict != VERDICT_LESS) {
        feeders->kept = verdict == VERDICT_LINEAR ? now : *kept;
        return step(feeders, view, &now, reason);
    }
    if (feeders->state == FEEDERS_THREADS) {
        snprintf(reason, FEEDERS_REASON, "%u threads gain less than %.0f %% of what was possible: %u again",
                 now.threads, 100 * FEEDERS_LINEAR, kept->threads);
        become(feeders, FEEDERS_COUNT);
        return change(feeders, FEEDERS_SET_THREADS, kept->feeders, kept->threads);
    }
    return finish(feeders, reason);
}

/* ---- Holding ---- */

/* Whether a block differs from the first block. */
static bool differs(const struct feeders_measure *held, const struct feeders_measure *now) {
    return fabs(now->rate / held->rate - 1) > FEEDERS_DRIFT || fabs(now->starved - held->starved) > FEEDERS_DRIFT;
}

/* Whether a try is due: something has changed and the wait is over, or it is time to repeat a try. */
static bool is_due(const struct feeders *feeders) {
    const struct trial_pause *pause = &feeders->pause;
    uint64_t passed = feeders->windows - pause->since;
    bool changed = feeders->drifted >= DRIFTED && trial_pause_is_over(pause, feeders->windows);
    bool again = pause->failures < FEEDERS_RETRIES && passed >= (uint64_t)FEEDERS_AGAIN << pause->failures;
    return changed || again;
}

/* Whether `feeders` feeders with `threads` threads each could do the present feeders' work. */
static bool is_enough(const struct feeders_measure *now, unsigned feeders, unsigned threads) {
    return now->busy * now->feeders * now->threads < FEEDERS_SPARE * feeders * threads;
}

static bool has_spare_feeder(const struct feeders_measure *now) {
    return now->feeders > 1 && is_enough(now, now->feeders - 1, now->threads);
}

static bool is_spare(const struct feeders_measure *now) {
    return now->starved < FEEDERS_FULL && has_spare_feeder(now);
}

/* Gives up a feeder that the job probably does not need, or at first as many threads (feeders.h). */
static struct feeders_action begin_shrinking(struct feeders *feeders, const struct feeders_measure *now, char *reason) {
    unsigned threads = (now->feeders - 1) * now->threads / now->feeders;
    feeders->kept = *now;
    become(feeders, FEEDERS_SHRINK);
    if (threads == 0 || !is_enough(now, now->feeders, threads)) {
        snprintf(reason, FEEDERS_REASON, "feeders are busy for %.0f %% of their time: %u are enough", 100 * now->busy,
                 now->feeders - 1);
        return change(feeders, FEEDERS_REMOVE, now->feeders - 1, now->threads);
    }
    snprintf(reason, FEEDERS_REASON, "feeders are busy for %.0f %% of their time: %u threads instead of %u are tried",
             100 * now->busy, threads, now->threads);
    return change(feeders, FEEDERS_SET_THREADS, now->feeders, threads);
}

static struct feeders_action hold_with(struct feeders *feeders, const struct feeders_view *view,
                                       const struct feeders_measure *now, char *reason) {
    bool more =
        now->starved >= FEEDERS_STARVED && (now->feeders < view->feeders_max || now->threads < view->threads_max);
    if (more && is_due(feeders)) {
        feeders->kept = *now;
        feeders->from = now->feeders;
        feeders->from_threads = now->threads;
        become(feeders, FEEDERS_THREADS);
        return step(feeders, view, now, reason);
    }
    if (!more && feeders->drifted >= DRIFTED && now->rate < feeders->baseline) {
        return go_back(feeders, reason, now->rate);
    }
    if (feeders->spare >= DRIFTED && trial_pause_is_over(&feeders->pause, feeders->windows)) {
        return begin_shrinking(feeders, now, reason);
    }
    if (feeders->drifted >= DRIFTED && now->starved < FEEDERS_STARVED) {
        feeders->held = *now; /* changed, but as good as before */
        feeders->drifted = 0;
    }
    return nothing;
}

static struct feeders_action hold(struct feeders *feeders, const struct feeders_view *view, char *reason) {
    if (feeders->run.count < FEEDERS_BLOCK) {
        return nothing;
    }
    struct feeders_measure now = measure(feeders);
    feeders->run = (struct feeders_run){0};
    if (!(feeders->held.rate > 0)) {
        feeders->held = now;
    }
    feeders->drifted = differs(&feeders->held, &now) ? feeders->drifted + 1 : 0;
    feeders->spare = is_spare(&now) ? feeders->spare + 1 : 0;
    if (now.feeders > 0) {
        return hold_with(feeders, view, &now, reason);
    }
    if (now.starved >= FEEDERS_STARVED && view->feeders_max > 0 && is_due(feeders)) {
        return begin(feeders, reason, now.rate, now.starved);
    }
    return nothing;
}

/* Undoes a step of shrinking. */
static struct feeders_action grow_again(struct feeders *feeders, const struct feeders_measure *now, char *reason) {
    const struct feeders_measure *kept = &feeders->kept;
    if (kept->feeders > now->feeders) {
        snprintf(reason, FEEDERS_REASON, "with one feeder fewer %.4g items a second instead of %.4g: it comes back",
                 now->rate, kept->rate);
        return change(feeders, FEEDERS_ADD, kept->feeders, kept->threads);
    }
    snprintf(reason, FEEDERS_REASON, "with %u threads %.4g items a second instead of %.4g: %u again", now->threads,
             now->rate, kept->rate, kept->threads);
    return change(feeders, FEEDERS_SET_THREADS, kept->feeders, kept->threads);
}

/* Keeps fewer feeders or threads if the job is as fast. */
static struct feeders_action shrink(struct feeders *feeders, char *reason) {
    if (feeders->run.count < 2 * FEEDERS_BLOCK) {
        return nothing;
    }
    struct feeders_measure now = measure(feeders);
    const struct feeders_measure *kept = &feeders->kept;
    bool slower = now.rate + 2 * now.error < kept->rate * (1 - FEEDERS_MARGIN);
    struct feeders_action action = nothing;
    if (slower) {
        action = grow_again(feeders, &now, reason);
    } else if (now.feeders == kept->feeders) {
        snprintf(reason, FEEDERS_REASON,
                 "with %u threads of each feeder the job is as fast as with %u: one is given back", now.threads,
                 kept->threads);
        return change(feeders, FEEDERS_REMOVE, now.feeders - 1, kept->threads);
    }
    become_hold(feeders, !slower);
    return action;
}

void feeders_begin_anew(struct feeders *feeders) {
    feeders->state = feeders->wanted > 0 ? FEEDERS_THREADS : FEEDERS_PROFILE;
    feeders->from = feeders->wanted;
    feeders->from_threads = feeders->threads;
    feeders->kept = feeders->held = (struct feeders_measure){0};
    feeders->run = (struct feeders_run){0};
    feeders->baseline = feeders->deviations = feeders->freedom = 0;
    feeders->pause = (struct trial_pause){0};
    feeders->drifted = feeders->spare = 0;
}

/* ---- Feeders that come and go ---- */

/* Requests a missing feeder, or accepts the present number. */
static struct feeders_action request(struct feeders *feeders, const struct feeders_view *view, char *reason) {
    if (feeders->windows < feeders->next_request) {
        return nothing;
    }
    if (feeders->requests < FEEDERS_REQUESTS && view->feeders < view->feeders_max) {
        snprintf(reason, FEEDERS_REASON, "%u feeders of %u are there: one more is requested", view->feeders,
                 feeders->wanted);
        return change(feeders, FEEDERS_ADD, feeders->wanted, feeders->threads);
    }
    snprintf(reason, FEEDERS_REASON, "%u requests brought no feeder that stayed: the job goes on with %u",
             feeders->requests, view->feeders);
    change(feeders, FEEDERS_NONE, view->feeders, view->feeders > 0 ? feeders->threads : 0);
    feeders->requests = 0;
    become_hold(feeders, false);
    return nothing;
}

/* Handles a window that does not count: there are other feeders than requested, or something changed within it. */
static struct feeders_action handle_unmeasured(struct feeders *feeders, const struct feeders_view *view, char *reason) {
    feeders->run = (struct feeders_run){0};
    bool threads = view->feeders > 0 && view->threads != feeders->threads;
    if (view->coming > 0 || (view->feeders == feeders->wanted && !threads)) {
        return nothing;
    }
    if (view->feeders < feeders->wanted) {
        return request(feeders, view, reason);
    }
    if (++feeders->unsettled >= FEEDERS_PATIENCE) { /* an operator has added feeders, or chosen their threads */
        change(feeders, FEEDERS_NONE, view->feeders, view->threads);
        become_hold(feeders, true);
    }
    return nothing;
}

/* Updates `requests` for feeders that have come or were lost. */
static void count_feeders(struct feeders *feeders, const struct feeders_view *view) {
    if (view->feeders > feeders->seen) {
        feeders->requests -= feeders->requests > 0 ? 1 : 0;
        feeders->next_request = feeders->windows; /* the next feeder may be requested at once */
    } else if (view->feeders < feeders->seen && view->feeders < feeders->wanted) {
        feeders->requests += feeders->requests < FEEDERS_REQUESTS ? 1 : 0;
        feeders->next_request = feeders->windows + ((uint64_t)1 << feeders->requests);
    }
    feeders->seen = view->feeders;
}

static bool is_measured(const struct feeders *feeders, const struct feeders_view *view) {
    bool settled = view->coming == 0 && view->feeders == feeders->wanted &&
                   (view->feeders == 0 || view->threads == feeders->threads);
    return settled && !view->changed && isfinite(view->rate) && view->rate > 0 && view->starved >= 0 &&
           view->starved <= 1 && view->busy >= 0 && view->busy <= 1 && view->fed >= 0 && view->fed <= 1;
}

struct feeders_action feeders_decide(struct feeders *feeders, const struct feeders_view *view,
                                     char reason[FEEDERS_REASON]) {
    reason[0] = 0;
    feeders->windows++;
    count_feeders(feeders, view);
    if (!is_measured(feeders, view)) {
        return handle_unmeasured(feeders, view, reason);
    }
    feeders->unsettled = 0;
    run_add(&feeders->run, view);
    if (feeders->run.count == FEEDERS_WINDOWS) {
        feeders->requests = 0; /* all feeders have stayed */
    }
    switch (feeders->state) {
    case FEEDERS_PROFILE:
        return profile(feeders, view, reason);
    case FEEDERS_THREADS:
    case FEEDERS_COUNT:
        return tune(feeders, view, reason);
    case FEEDERS_HOLD:
        return hold(feeders, view, reason);
    default:
        return shrink(feeders, reason);
    }
}
