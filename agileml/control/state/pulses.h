/* The feature that notices lost nodes by their pulses: receives PULSE, watches the controller's own connections to
 * pulses, asks suspected nodes, and gives up those that are lost by the rules of suspect.h. */
#ifndef AGILEML_CONTROL_PULSES_H
#define AGILEML_CONTROL_PULSES_H

#include "agileml/control/decide/suspect.h"
#include "agileml/control/state/feature.h"

/* The controller's questions to the member's pulse, and its attempts to connect to it. Not stored. */
struct member_pulse {
    struct suspect suspect;
    uint64_t asked; /* number of the last question; 0: answered */
    uint64_t asked_us;
    uint32_t reach_attempts; /* attempts to connect to the pulse so far, until one succeeds */
    uint64_t reach_us;       /* when the next attempt may begin */
};

/* The questions to suspected nodes. Not stored. */
struct pulses {
    uint64_t number;       /* of the last question */
    uint64_t began_us;     /* when the present interval began */
    uint64_t tick_us;      /* when the interval ends and the open questions are checked; 0: none is open */
    uint64_t answered;     /* the highest number of a question that was answered in the interval; 0: none */
    uint64_t slowest_us;   /* the longest time that an answer has taken since the first open question */
    unsigned witness;      /* index, modulo the number of members, of the member that ask_witnesses asks next */
    uint64_t dial_us;      /* when suspected pulses that have not answered are dialed next; 0: never */
    uint64_t dial_wait_us; /* the wait that ends at dial_us; the next wait is twice as long */
};

extern const struct feature pulses_feature;

#endif
