/* The market's time: real time, or that of a replayed market, with a beginning and a speed of its own. One thread. */
#ifndef BIDBRAIN_DAEMON_MARKET_CLOCK_H
#define BIDBRAIN_DAEMON_MARKET_CLOCK_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Based on a clock that nobody sets, so that steps of the system's time don't change it. */
struct market_clock {
    double base;   /* the market's seconds since 1970 at `anchor` ... */
    double anchor; /* ... of market_clock_elapsed */
    double speed;  /* market seconds per second */
};

/* Real time. */
struct market_clock market_clock_real(void);
/* A clock that shows `now` and goes `speed` times as fast as real time. */
struct market_clock market_clock_replay(double now, double speed);
/* Sets the clock by spotmarket's GET /clock: {"seconds": S, "speed": X}. Blocks for two seconds at most. 0, AML_EINPUT,
 * or AML_EFAIL without an answer. */
int market_clock_ask_once(struct market_clock *clock, const char *url, struct error *error);
/* Asks so a few times while there is no answer. */
int market_clock_ask(struct market_clock *clock, const char *url, struct error *error);

/* Whether the cloud at `endpoint` answers GET /clock with another time than the real one; *now is its time then. Clouds
 * without such a clock, such as EC2, go by real time. Blocks for one try of two seconds at most. */
bool market_clock_differs(const char *endpoint, int64_t *now);

double market_clock_seconds(const struct market_clock *clock);
/* Seconds since 1970 by the system's clock, which may jump. For stored times. */
double market_clock_system(void);
/* Seconds since some moment, by a clock that never jumps. For timeouts. */
double market_clock_elapsed(void);

#endif
