/* Which signed requests have come before: a signature is for one request. What was signed at a time that it no longer
 * remembers all of is refused too, so that its memory is bounded. No I/O, one thread. */
#ifndef BIDBRAIN_SPOTMARKET_REPLAYS_H
#define BIDBRAIN_SPOTMARKET_REPLAYS_H

#include "bidbrain/aws/sigv4.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    REPLAYS_MAX = 1 << 15, /* signatures remembered at least */
    REPLAYS_READ_US = 2000000,
};

/* A zeroed struct remembers nothing. */
struct replays {
    struct replays_table {
        struct replay *places; /* by signature; NULL: none */
        size_t count;
        int64_t newest; /* of the signatures' dates */
    } recent, older;
    bool forgetful;
    int64_t forgotten; /* if so: signatures of this date, and all before, are no longer known */
};

/* Takes note of a good signature, made at `date` (seconds since 1970). False: it is to be refused. `reading`: the
 * request changes nothing, and may come again within REPLAYS_READ_US of the first time: what AWS's own command line
 * signs says the second, and no more, so that two equal requests of a second are the same. `now_us`: real time that
 * never jumps. */
bool replays_take(struct replays *replays, const char signature[SIGV4_HEX], int64_t date, bool reading,
                  int64_t now_us);
void replays_close(struct replays *replays);

#endif
