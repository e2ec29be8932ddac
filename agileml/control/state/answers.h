/* The feature that gives up members that send heartbeats but do not answer requests for which others wait. Only answers
 * that need neither the app's work nor a disk have a deadline, options.answer_ms. Reading input, computing a clock,
 * evaluating, saving and writing a checkpoint have no deadline. Only time counts in which the member was heard and this
 * controller was not stopped. */
#ifndef AGILEML_CONTROL_ANSWERS_H
#define AGILEML_CONTROL_ANSWERS_H

#include "agileml/control/state/feature.h"

enum answer {
    ANSWER_BARRIER,    /* HEARTBEAT's `barrier` */
    ANSWER_PLAN,       /* HEARTBEAT's `version` */
    ANSWER_START,      /* HEARTBEAT's `state` */
    ANSWER_FENCE,      /* FENCED */
    ANSWER_CHECKPOINT, /* WRITTEN, which may only promise the file */
    ANSWERS
};

/* Of a member. */
struct owed {
    uint64_t us[ANSWERS]; /* time for which each answer is owed, while the member is heard */
};

struct answers {
    uint64_t checked_us; /* when the answers were last checked; 0: not yet */
    struct {
        uint64_t completed; /* the last completed clock */
        uint64_t barrier;   /* number of the latest barrier */
        uint64_t us;        /* how long neither has changed */
    } quiet;
};

extern const struct feature answers_feature;

#endif
