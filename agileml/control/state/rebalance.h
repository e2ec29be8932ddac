/* The feature for uneven machines: passes the monitor's measurements to a policy (agileml/balance.h) and carries out
 * its answer. Either members get new weights and a new plan is made, or a straggler is evicted and `proteus run` or the
 * operator starts another node. */
#ifndef AGILEML_CONTROL_REBALANCE_H
#define AGILEML_CONTROL_REBALANCE_H

#include "agileml/balance.h"
#include "agileml/control/state/feature.h"

#define REBALANCE_PENDING_S 30.0 /* how long the first replacement is assumed to take */

/* A straggler's replacement:
 * NOBODY --the straggler is evicted--> WAITED_FOR --a node joins--> JOINED --all speeds are known--> NOBODY */
enum { REPLACING_NOBODY, REPLACING_WAITED_FOR, REPLACING_JOINED };

/* Not stored. */
struct rebalance {
    _Alignas(16) unsigned char memory[AML_BALANCE_MEMORY]; /* the policy's */
    uint64_t looked_us;                                    /* when the policy was last asked */
    uint64_t asked_us;                                     /* when the last straggler was evicted */
    double pending_seconds; /* how long a replacement takes: as the last one did. Before the first one: the time from
                               allocation to joining of the last machine, or REBALANCE_PENDING_S */
};

/* Part of the job's progress. */
struct rebalance_kept {
    uint32_t replacements; /* stragglers that were evicted to be replaced */
    uint32_t replacing;    /* REPLACING_... */
};

extern const struct feature rebalance_feature;

/* Whether the policy may change something now: no other change is under way, and no stage is tried. */
bool rebalance_may(const struct controller *controller);
/* Records how long a machine took from its allocation to the job until it joined. */
void rebalance_pending(struct controller *controller, double seconds);

#endif
