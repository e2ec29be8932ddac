/* The market's time: the real one, or that of a replayed market, which began somewhere and goes faster. One thread. */
#ifndef BIDBRAIN_DAEMON_MARKET_CLOCK_H
#define BIDBRAIN_DAEMON_MARKET_CLOCK_H

#include "agileml/base/error.h"

#include <stdint.h>

struct market_clock {
    double base;   /* the market's seconds since 1970 at `anchor` ... */
    double anchor; /* ... of real seconds since 1970 */
    double speed;  /* market seconds per second */
};

/* As real time goes. */
struct market_clock market_clock_real(void);
/* At `start` when real time was `anchor`. */
struct market_clock market_clock_replay(double start, double speed, double anchor);
/* What spotmarket's GET /clock says: {"seconds": S, "speed": X}. Waits for the answer, a few tries. AML_EINPUT or
 * AML_EFAIL. */
int market_clock_ask(struct market_clock *clock, const char *url, struct error *error);

double market_clock_seconds(const struct market_clock *clock);
/* Real seconds since 1970. */
double market_clock_wall(void);

#endif
