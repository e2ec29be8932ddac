/* The signatures of earlier requests: a signature is good for one request. Memory is bounded: the oldest signatures are
 * dropped, and requests that were signed at their time or before are refused from then on. No I/O, one thread. */
#ifndef SPOTMARKET_REPLAYS_H
#define SPOTMARKET_REPLAYS_H

#include "agileml/cloud/sigv4.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    REPLAYS_MAX = 1 << 15,     /* signatures remembered at least */
    REPLAYS_READ_US = 2000000, /* within which a reading request may be repeated */
};

/* A zeroed struct remembers nothing. */
struct replays {
    struct replays_table {
        struct replay *places; /* by signature; NULL: none */
        size_t count;
        int64_t newest; /* of the signatures' dates */
    } recent, older;
    int64_t forgotten; /* signatures up to this date may have been dropped; 0: none was */
};

/* Adds a good signature, made at `date` (seconds since 1970, more than 0). Returns false when the request must be
 * refused. `reading`: the request changes nothing and may be repeated within REPLAYS_READ_US: AWS's command line signs
 * whole seconds, so two equal requests in one second have the same signature. `now_us`: real time that never jumps. */
bool replays_take(struct replays *replays, const char signature[SIGV4_HEX], int64_t date, bool reading, int64_t now_us);
void replays_close(struct replays *replays);

#endif
