/* The feature that decides which members have failed by silence: those that are silent for longer than the timeout, and
 * those that other nodes can't reach. Silence counts only while this controller could have heard the member: not after
 * the controller's start until connections are restored, and not while the controller was stopped. Members that have
 * become silent are reported. */
#ifndef AGILEML_CONTROL_SILENCE_H
#define AGILEML_CONTROL_SILENCE_H

#include "agileml/control/state/feature.h"

/* When the controller heard the member, and which node the member can't hear. */
struct silence {
    uint64_t heard_us;   /* the member's silence counts from here: the last message, or later */
    uint64_t lively_us;  /* since when the member is heard without long gaps; 0: not heard since open, or a long stop */
    bool reported;       /* the report has a line about the member's present silence */
    actor_id accuses;    /* the node that the member accuses of silence */
    uint64_t accused_us; /* when this accusation began */
};

struct silences {
    uint64_t
        doubt_until_us; /* none is given up before this time, as most members are silent at once; 0: most are heard */
};

extern const struct feature silence_feature;

/* Whether the member was heard since this controller began or was stopped for long, and not long ago. */
bool silence_is_lively(const struct controller *controller, const struct member *member, uint64_t now_us);

#endif
