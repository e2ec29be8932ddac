/* Decides when a suspected node is lost (docs/design.md, "Pulses"). A suspicion only opens a question to the node's
 * pulse. The node is lost in one of two cases.
 *
 * No answer: the question was open for SUSPECT_TICKS whole intervals, and was repeated in each of them. A node that is
 * asked only as a witness, without being suspected, has SUSPECT_UNACCUSED_TICKS intervals. An interval counts only if
 * this controller would have received an answer: another pulse must have answered a question asked no earlier. Where
 * other pulses' answers take long, as on busy machines, the question must have been open for longer.
 *
 * Refused connections: the question is open, and two attempts to connect to the pulse, which listened before, were
 * refused. Nothing was heard of the pulse in between, so its process has ended. One refusal alone proves nothing: a
 * firewall may refuse while it is reloaded. The second attempt must begin at least SUSPECT_REFUSED_US after the first
 * refusal was noticed; later if the pulse's connection still stands, so that the pulse can answer over it.
 *
 * A pulse whose connection has ended can't be asked. It gets the time that a connection takes to be restored. Pure:
 * knows no controller, no messages and no clock. */
#ifndef AGILEML_CONTROL_SUSPECT_H
#define AGILEML_CONTROL_SUSPECT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SUSPECT_TICKS = 4,                           /* a suspected node is lost after so many without an answer */
    SUSPECT_UNACCUSED_TICKS = 2 * SUSPECT_TICKS, /* the same for a node that is asked but not suspected */
    SUSPECT_STALE_TICKS = 12,                    /* a suspicion that is not repeated ends after so many */
    SUSPECT_LATE_TICKS = 4,                      /* a tick that comes so many intervals late begins the question anew */
    SUSPECT_REFUSED_US = 50 * 1000
};

/* CALM --suspected--> ASKED --answered, or no longer suspected--> CALM */
struct suspect {
    bool there;          /* the pulse was heard, so it can be asked */
    bool listens;        /* an attempt to connect to it has succeeded */
    bool broken;         /* the pulse's connection has ended, and it was not heard since */
    uint64_t broken_us;  /* when its connection ended last; 0: long ago, or never */
    uint64_t refused_us; /* when the first refusal in a row was noticed; 0: the last attempt succeeded */
    uint64_t number;     /* of the open question; 0: CALM */
    uint64_t asked_us;   /* when the open question was asked first */
    bool accused;        /* somebody has suspected the node since the question was opened */
    unsigned unanswered; /* intervals without an answer that count */
    unsigned stale;      /* ticks since somebody last suspected the node */
};

enum suspect_step {
    SUSPECT_WAIT,
    SUSPECT_ASK, /* send a question with the passed number */
    SUSPECT_LOST
};

/* To be called when somebody suspects the node. `number` is for the question, if one is opened. */
enum suspect_step suspect_suspected(struct suspect *suspect, uint64_t now_us, uint64_t number);
/* Opens a question to a node that nobody suspects. */
enum suspect_step suspect_asked(struct suspect *suspect, uint64_t now_us, uint64_t number);
/* To be called when the pulse was heard: an answer to question `number`, or an unasked one (0). `next` is the number
 * for a question that must be sent again. */
enum suspect_step suspect_heard(struct suspect *suspect, uint64_t now_us, uint64_t number, uint64_t next);
/* To be called when the pulse's connection to this controller has ended. */
enum suspect_step suspect_broke(struct suspect *suspect, uint64_t now_us, uint64_t number);
/* The result of an attempt to connect to the pulse. */
struct suspect_dial {
    uint64_t began_us; /* when the attempt began */
    uint64_t apart_us; /* the least time between a noticed refusal and the beginning of the attempt that confirms it */
    bool listens;
};
enum suspect_step suspect_dialed(struct suspect *suspect, uint64_t now_us, const struct suspect_dial *dial);

/* The interval that ends with a tick. */
struct suspect_interval {
    uint64_t began_us;     /* when it began, at the previous tick */
    uint64_t period_us;    /* its intended length */
    uint64_t late_us;      /* how much longer it was */
    uint64_t reconnect_us; /* the longest time until a connection is restored */
    uint64_t patience_us;  /* the least time that a question must be open, as other answers take long */
    uint64_t answered;     /* the highest number of a question that any pulse has answered in it; 0: none */
};
enum suspect_step suspect_tick(struct suspect *suspect, uint64_t now_us, const struct suspect_interval *interval,
                               uint64_t next);

#endif
