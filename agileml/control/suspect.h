/* When a node that others suspect is lost (docs/design.md, "Pulses"). A suspicion only opens a question to the node's
 * pulse. The node is lost when
 *
 *   - the question was open for SUSPECT_TICKS whole intervals without an answer, though it was repeated in each. A node
 *     that is asked without being suspected, as others are, has SUSPECT_UNACCUSED_TICKS. Only intervals count in which
 *     this controller would have received an answer: in each another pulse has answered a question that was asked no
 *     earlier. Where others' answers take long, as on busy machines, the question must have been open for longer; or
 *   - the question is open, and where the pulse listened before two connections were refused, with nothing heard of the
 *     pulse in between. So its process has ended. One refusal alone proves nothing: a firewall that is being reloaded
 *     may refuse, too. The second attempt must begin at least SUSPECT_REFUSED_US after the first refusal was noticed,
 *     and later where the pulse's connection still stands, so that the pulse can answer over it.
 *
 * A pulse whose connection has ended can't be asked: it gets the time in which connections stand again. Pure: knows no
 * controller, no messages and no clock. */
#ifndef AGILEML_CONTROL_SUSPECT_H
#define AGILEML_CONTROL_SUSPECT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SUSPECT_TICKS = 4,                           /* without an answer */
    SUSPECT_UNACCUSED_TICKS = 2 * SUSPECT_TICKS, /* the same of a node that nobody suspects, but that is asked, too */
    SUSPECT_STALE_TICKS = 12,                    /* a suspicion that nobody repeats is over */
    SUSPECT_LATE_TICKS = 4,                      /* a tick that is so late begins the question anew */
    SUSPECT_REFUSED_US = 50 * 1000
};

/* CALM --suspected--> ASKED --answered, or nobody suspects it any more--> CALM */
struct suspect {
    bool there;          /* the pulse was heard, so it can be asked */
    bool listens;        /* an attempt to connect to it has succeeded */
    bool broken;         /* its connection has ended, and the pulse was not heard since */
    uint64_t broken_us;  /* when a connection ended last; 0: that is long ago */
    uint64_t refused_us; /* when the first refusal of the latest attempts was noticed; 0: the last one succeeded */
    uint64_t number;     /* of the open question; 0: CALM */
    uint64_t asked_us;   /* when the open question was asked first */
    bool accused;        /* somebody has suspected the node since the question was opened */
    unsigned unanswered; /* intervals */
    unsigned stale;      /* ticks since somebody suspected it */
};

enum suspect_step {
    SUSPECT_WAIT,
    SUSPECT_ASK, /* a question is to be sent, with the number that was given */
    SUSPECT_LOST
};

/* Somebody suspects the node. `number`: of the question, if one is opened. */
enum suspect_step suspect_suspected(struct suspect *suspect, uint64_t now_us, uint64_t number);
/* The node is to be asked, though nobody suspects it. */
enum suspect_step suspect_asked(struct suspect *suspect, uint64_t now_us, uint64_t number);
/* The pulse was heard: an answer to question `number`, or 0, unasked. `next`: of a question that is sent anew. */
enum suspect_step suspect_heard(struct suspect *suspect, uint64_t now_us, uint64_t number, uint64_t next);
/* The pulse's connection to this controller has ended. */
enum suspect_step suspect_broke(struct suspect *suspect, uint64_t now_us, uint64_t number);
/* An attempt to connect to the pulse was answered. */
struct suspect_dial {
    uint64_t began_us; /* when the attempt began */
    uint64_t apart_us; /* the least time between a noticed refusal and the beginning of the attempt that confirms it */
    bool listens;
};
enum suspect_step suspect_dialed(struct suspect *suspect, uint64_t now_us, const struct suspect_dial *dial);

/* A tick, the end of an interval. */
struct suspect_interval {
    uint64_t began_us;     /* at the tick before */
    uint64_t period_us;    /* how long it was to be */
    uint64_t late_us;      /* how much longer it was */
    uint64_t reconnect_us; /* the longest time until a connection stands again */
    uint64_t patience_us;  /* the least time that a question must be open: others' answers took about so long */
    uint64_t answered;     /* the highest number of a question that some pulse has answered in it; 0: none */
};
enum suspect_step suspect_tick(struct suspect *suspect, uint64_t now_us, const struct suspect_interval *interval,
                               uint64_t next);

#endif
