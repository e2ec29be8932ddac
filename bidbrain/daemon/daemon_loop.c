/* What the daemon's parts share: the time, the phase, failures, and when to call the provider again. */
#include "bidbrain/daemon/daemon_private.h"

#include <assert.h>
#include <math.h>

int64_t daemon_now(const struct daemon *daemon) {
    return (int64_t)market_clock_seconds(&daemon->clock);
}

const struct catalog_price *daemon_type(const struct daemon *daemon, const char *type) {
    return catalog_find(&daemon->config->known, type, daemon->region);
}

double daemon_wall_of(const struct daemon *daemon, double market) {
    return (market - market_clock_seconds(&daemon->clock)) / daemon->clock.speed;
}

void daemon_stop(struct daemon *daemon) {
    if (daemon->link != NULL) {
        net_io_stop(job_link_io(daemon->link));
    }
}

void daemon_fail(struct daemon *daemon, const struct error *error) {
    assert(error->code != 0);
    if (daemon->error.code == 0) {
        daemon->error = *error;
    }
    daemon_stop(daemon);
}

void daemon_set_phase(struct daemon *daemon, enum daemon_phase phase) {
    if (phase > daemon->loop.phase) {
        daemon->loop.phase = phase;
        daemon->loop.phase_wall = market_clock_elapsed();
        daemon->cloud.retry_wall = 0;
        for (size_t i = 0; i < daemon->fleet.machine_count && phase == DAEMON_AT_ONCE; i++) {
            daemon->fleet.machines[i].terminate_wall = 0;
        }
    }
}

void daemon_answered(struct daemon *daemon, bool whole) {
    double wall = market_clock_elapsed();
    if (whole) {
        daemon->cloud.misses = 0;
        daemon->cloud.answer_wall = wall;
        daemon->cloud.retry_wall = 0;
        return;
    }
    double most = daemon->loop.phase == DAEMON_RUN ? DAEMON_RETRY_MAX_S : DAEMON_RETRY_END_MAX_S;
    daemon->cloud.retry_wall = wall + fmin(most, ldexp(1, daemon->cloud.misses < 10 ? (int)daemon->cloud.misses : 10));
    daemon->cloud.misses++;
}

double daemon_margin(const struct daemon *daemon) {
    return fmax(DAEMON_MARGIN_S, daemon->clock.speed * DAEMON_MARGIN_MS / 1e3);
}

double daemon_lead(const struct daemon *daemon) {
    double least = daemon_margin(daemon) + daemon->clock.speed * DAEMON_LEAD_MS / 1e3;
    return fmin(HOUR / 2, fmax((double)daemon->config->periods.decision_seconds, least));
}
