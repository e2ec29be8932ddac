/* The feature that decides when a member accuses another of having sent an impossible message (ACCUSE). Either the
 * accused or the accuser has failed; which of them, can't be proved. So a rule limits the harm that a false accuser can
 * do: see `is_false`. */
#ifndef AGILEML_CONTROL_ACCUSATIONS_H
#define AGILEML_CONTROL_ACCUSATIONS_H

#include "agileml/control/state/feature.h"

enum { ACCUSATIONS_MAX = 64 };

/* A node's process, which may register again as a new node after each removal. The public key identifies the process;
 * in a job without keys, host and process number identify it. */
struct accused_process {
    char key[WIRE_KEY_MAX];
    char host[WIRE_HOST_MAX];
    uint64_t process_id;
    enum node_tier tier;
};

/* The last accusations, oldest first. Not stored. */
struct accusations {
    struct accusation {
        struct accused_process accuser, accused;
    } list[ACCUSATIONS_MAX];
    unsigned count;
};

extern const struct feature accusations_feature;

#endif
