/* The signatures of earlier requests: a signature is valid for one request. Memory is bounded. When the oldest
 * signatures are dropped, requests signed at their time or before are rejected. No I/O, one thread. */
#ifndef SPOTMARKET_REPLAYS_H
#define SPOTMARKET_REPLAYS_H

#include "agileml/cloud/sigv4.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    REPLAYS_MAX = 1 << 15,     /* least number of remembered signatures */
    REPLAYS_READ_US = 2000000, /* a request that only reads may be repeated within this time */
};

/* A zeroed struct remembers nothing. */
struct replays {
    struct replays_table {
        struct replay *places; /* hashed by signature; NULL: no table */
        size_t count;
        int64_t newest; /* latest date of its signatures */
    } recent, older;
    int64_t forgotten; /* signatures up to this date may have been dropped; 0: none was */
};

/* Adds a valid signature made at `date` (seconds since 1970, above 0). Returns false when the request must be rejected.
 * `reading`: the request changes nothing, and may be repeated within REPLAYS_READ_US. AWS's command line signs whole
 * seconds, so that two equal requests in one second have the same signature. `now_us`: real time that never jumps. */
bool replays_take(struct replays *replays, const char signature[SIGV4_HEX], int64_t date, bool reading, int64_t now_us);
void replays_close(struct replays *replays);

#endif
