/* The faults that the embedded cloud injects, and how often. Draws come from one seeded stream. No I/O, one thread.
 *
 *     slow=S:P      answers come S seconds (of real time) late         broken=P   the connection is cut within the body
 *     503=P         503 Unavailable                                    html=P     502 with a page of HTML
 *     throttle=P    RequestLimitExceeded                               expired=P  credentials have expired
 *     lost=P        a launch is carried out, its answer lost           capacity=P launches find no capacity
 *     metadata=P    the metadata service answers 500                   clock=S    the server's clock is S seconds ahead
 *
 * P is a probability from 0 to 1. */
#ifndef SPOTMARKET_FAULTS_H
#define SPOTMARKET_FAULTS_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum fault {
    FAULT_SLOW,
    FAULT_BROKEN,
    FAULT_503,
    FAULT_THROTTLE,
    FAULT_HTML,
    FAULT_EXPIRED,
    FAULT_LOST,
    FAULT_CAPACITY,
    FAULT_METADATA,
    FAULT_COUNT,
};

struct faults {
    double probability[FAULT_COUNT];
    double slow_seconds;
    int64_t clock_seconds;
    uint64_t seed, draws;
};

enum { FAULTS_SPEC_MAX = 512, FAULTS_SLOW_MAX = 3600, FAULTS_CLOCK_MAX = 366 * 86400 };

/* Sets all faults from a list such as "slow=2:0.3,503=0.1" ("2s" is allowed, too). Faults not in the list are off.
 * Returns AML_EINPUT with one line, and then changes nothing. The stream of draws continues. */
int faults_parse(struct faults *faults, const char *spec, struct error *error);
/* Draws whether the fault happens now. */
bool faults_draw(struct faults *faults, enum fault fault);

#endif
