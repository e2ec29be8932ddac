/* The market's time: the real one, or that of a replayed market, which began somewhere and goes faster. One thread. */
#ifndef BIDBRAIN_DAEMON_MARKET_CLOCK_H
#define BIDBRAIN_DAEMON_MARKET_CLOCK_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* A clock goes by one that is never set: steps of the system's time don't reach it. */
struct market_clock {
    double base;   /* the market's seconds since 1970 at `anchor` ... */
    double anchor; /* ... of market_clock_elapsed */
    double speed;  /* market seconds per second */
};

/* As real time goes. */
struct market_clock market_clock_real(void);
/* It is `now`, and goes so fast. */
struct market_clock market_clock_replay(double now, double speed);
/* What spotmarket's GET /clock says: {"seconds": S, "speed": X}. Waits for the answer, a few tries. AML_EINPUT or
 * AML_EFAIL. */
int market_clock_ask(struct market_clock *clock, const char *url, struct error *error);

/* Whether a cloud at `endpoint` says, by GET /clock, that its time is not the real one: then *now is its time. A cloud
 * without such a clock, EC2 among them, goes by the real time. One try of two seconds. */
bool market_clock_differs(const char *endpoint, int64_t *now);

double market_clock_seconds(const struct market_clock *clock);
/* Seconds since 1970 as the system tells them: may jump. For what is stored. */
double market_clock_system(void);
/* Seconds since some moment: never jump. For what is waited for. */
double market_clock_elapsed(void);

#endif
