/* The feature that says what the job waits for, and of whom, when nothing has moved for long: as a line of the report,
 * and in the status. It gives nobody up. */
#ifndef AGILEML_CONTROL_WAITING_H
#define AGILEML_CONTROL_WAITING_H

#include "agileml/control/state/feature.h"

enum { WAITING_TEXT_MAX = 480 };

/* What the member waits for, as its last HEARTBEAT says. */
struct member_waiting {
    enum node_waits waits;
    actor_id on; /* the node that it waits for; ACTOR_NONE: no certain one */
};

struct waiting {
    uint64_t digest;      /* of all that moves */
    uint64_t still_us;    /* how long that has not changed, without time in which this controller was stopped */
    uint64_t completed;   /* the last completed clock */
    uint64_t no_clock_us; /* the same for that, while the job trains */
    uint64_t stands_us;   /* how long the job has stood still, by one of both; 0: it does not */
    uint64_t told_us;     /* `stands_us` at the last line; 0: there is none about this standstill */
    uint64_t checked_us;  /* when that was last looked at; 0: not yet */
};

extern const struct feature waiting_feature;

/* Writes what the job waits for now, and of whom; "" if nothing keeps it waiting. Returns whether all nodes of whom it
 * waits work. */
bool waiting_describe(const struct controller *controller, char text[WAITING_TEXT_MAX]);

#endif
