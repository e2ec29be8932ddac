/* When a node that others suspect is lost (docs/design.md, "Pulses"). A suspicion only opens a question to the node's
 * pulse. The node is lost when
 *
 *   - the question was open for SUSPECT_TICKS ticks without an answer, and somebody still suspected the node. Only
 *     ticks count that came in time, after which this controller could have read an answer; or
 *   - the pulse's connection to this controller has ended, and where the pulse listened before nobody does any more.
 *     So its process has ended: this is known at once.
 *
 * A pulse whose connection has ended can't be asked: it gets the time in which connections stand again. Pure: knows no
 * controller, no messages and no clock. */
#ifndef AGILEML_CONTROL_SUSPECT_H
#define AGILEML_CONTROL_SUSPECT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SUSPECT_TICKS = 4,       /* without an answer */
    SUSPECT_STALE_TICKS = 8, /* a suspicion that nobody repeats is over */
    SUSPECT_LATE_TICKS = 4   /* a tick that is so late begins the question anew */
};

/* CALM --suspected--> ASKED --answered, or nobody suspects it any more--> CALM */
struct suspect {
    bool there;          /* the pulse was heard, so it can be asked */
    bool listens;        /* an attempt to connect to it has succeeded */
    bool broken;         /* its connection has ended, and the pulse was not heard since */
    uint64_t broken_us;  /* when a connection ended last; 0: that is long ago */
    uint64_t number;     /* of the open question; 0: CALM */
    unsigned unanswered; /* ticks */
    unsigned stale;      /* ticks since somebody suspected it */
};

enum suspect_step {
    SUSPECT_WAIT,
    SUSPECT_ASK, /* a question is to be sent, with the number that was given */
    SUSPECT_LOST
};

/* Somebody suspects the node. `number`: of the question, if one is opened. */
enum suspect_step suspect_suspected(struct suspect *suspect, uint64_t number);
/* The pulse was heard: an answer to question `number`, or 0, unasked. `next`: of a question that is sent anew. */
enum suspect_step suspect_heard(struct suspect *suspect, uint64_t number, uint64_t next);
/* The pulse's connection to this controller has ended. */
enum suspect_step suspect_broke(struct suspect *suspect, uint64_t now_us, uint64_t number);
/* An attempt to connect to the pulse was answered. */
enum suspect_step suspect_dialed(struct suspect *suspect, bool listens);
/* A tick of `period_us` that came `late_us` late. `reconnect_us`: the longest time until a connection stands again. */
enum suspect_step suspect_tick(struct suspect *suspect, uint64_t now_us, uint64_t late_us, uint64_t period_us,
                               uint64_t reconnect_us, uint64_t next);

#endif
