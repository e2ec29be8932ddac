/* The market's time: real time, or that of a replayed market with its own start and speed. One thread. */
#ifndef BIDBRAIN_DAEMON_MARKET_CLOCK_H
#define BIDBRAIN_DAEMON_MARKET_CLOCK_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Based on a clock that can't be set, so that steps of the system's time don't matter. */
struct market_clock {
    double base;   /* market time at `anchor`, in seconds since 1970 */
    double anchor; /* the moment of `base`, as a time of market_clock_elapsed */
    double speed;  /* market seconds per real second */
};

/* Returns a clock of real time. */
struct market_clock market_clock_real(void);
/* Returns a clock that shows `now` and runs at `speed` times real time. */
struct market_clock market_clock_replay(double now, double speed);
/* Sets the clock from spotmarket's GET /clock: {"seconds": S, "speed": X}. Blocks for at most two seconds. Returns 0,
 * AML_EINPUT, or AML_EFAIL without an answer. */
int market_clock_ask_once(struct market_clock *clock, const char *url, struct error *error);
/* Like market_clock_ask_once, but tries again a few times while there is no answer. */
int market_clock_ask(struct market_clock *clock, const char *url, struct error *error);

/* Whether the cloud at `endpoint` answers GET /clock with another time than real time; sets *now to its time. Clouds
 * without such a clock, such as EC2, run in real time. Tries once, for at most two seconds. */
bool market_clock_differs(const char *endpoint, int64_t *now);

double market_clock_seconds(const struct market_clock *clock);
/* Seconds since 1970 by the system's clock, which may jump. For stored times. */
double market_clock_system(void);
/* Seconds by a clock that never jumps. For timeouts. */
double market_clock_elapsed(void);

#endif
