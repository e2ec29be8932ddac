/* See trial.h. */
#include "agileml/base/trial.h"

#include "agileml/base/median.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void trial_run_add(struct trial_run *run, unsigned samples, double sample) {
    assert(samples > 0 && samples <= TRIAL_SAMPLES_MAX);
    run->samples[run->count++ % samples] = sample;
}

double trial_run_median(const struct trial_run *run, unsigned samples) {
    double sorted[TRIAL_SAMPLES_MAX];
    unsigned count = run->count < samples ? run->count : samples;
    assert(count > 0);
    memcpy(sorted, run->samples, count * sizeof *sorted);
    return median_sort(sorted, count);
}

void trial_begin(struct trial *trial) {
    assert(trial->state == TRIAL_USUAL && trial->usual.count > 0);
    trial->state = TRIAL_TRIED;
    trial->tried.count = 0;
}

enum trial_verdict trial_add_tried(struct trial *trial, const struct trial_rule *rule, double sample) {
    assert(trial->state == TRIAL_TRIED && rule->least <= rule->most && rule->most <= rule->samples);
    double usual = trial_run_median(&trial->usual, rule->samples);
    trial_run_add(&trial->tried, rule->samples, sample);
    double tried = trial_run_median(&trial->tried, rule->samples);
    double noise = rule->clear * sqrt((double)rule->least / trial->tried.count);
    bool clear = trial->tried.count >= rule->least && fabs(tried / usual - 1) >= noise;
    if (!clear && tried < usual * rule->hopeless && trial->tried.count < rule->most) {
        return TRIAL_OPEN;
    }
    trial_drop(trial);
    return trial_gains(tried, usual, rule->margin) ? TRIAL_KEPT : TRIAL_TAKEN_BACK;
}

void trial_drop(struct trial *trial) {
    trial->state = TRIAL_USUAL;
    trial->usual.count = trial->tried.count = 0;
}

bool trial_gains(double tried, double usual, double margin) {
    return tried <= usual * (1 - margin);
}

uint64_t trial_longer(uint64_t wait, uint64_t first, uint64_t most) {
    uint64_t next = wait == 0 ? first : wait < most / 2 ? 2 * wait : most;
    return next < most ? next : most;
}

void trial_pause_begin(struct trial_pause *pause, uint64_t now, enum trial_wait next, uint64_t first, uint64_t most) {
    pause->since = now;
    pause->failures = next == TRIAL_WAIT_FIRST ? 0 : pause->failures + (next == TRIAL_WAIT_LONGER ? 1 : 0);
    if (next == TRIAL_WAIT_LONGER) {
        pause->wait = trial_longer(pause->wait, first, most);
    } else if (next == TRIAL_WAIT_FIRST || pause->wait == 0) {
        pause->wait = first;
    }
}

bool trial_pause_is_over(const struct trial_pause *pause, uint64_t now) {
    assert(now >= pause->since);
    return now - pause->since >= pause->wait;
}
