/* See suspect.h. */
#include "agileml/control/suspect.h"

static void open_question(struct suspect *suspect, uint64_t number) {
    suspect->number = number;
    suspect->unanswered = 0;
}

enum suspect_step suspect_suspected(struct suspect *suspect, uint64_t number) {
    suspect->stale = 0;
    if (!suspect->there || suspect->number != 0) {
        return SUSPECT_WAIT;
    }
    open_question(suspect, number);
    return SUSPECT_ASK;
}

enum suspect_step suspect_heard(struct suspect *suspect, uint64_t number, uint64_t next) {
    suspect->there = true;
    suspect->broken = false;
    if (suspect->number == 0 || number == suspect->number) {
        suspect->number = 0;
        return SUSPECT_WAIT;
    }
    if (number != 0) {
        return SUSPECT_WAIT; /* an answer to an earlier question, which this controller may have read late */
    }
    open_question(suspect, next); /* over a new connection: the question may be lost */
    return SUSPECT_ASK;
}

enum suspect_step suspect_broke(struct suspect *suspect, uint64_t now_us, uint64_t number) {
    suspect->broken = true;
    suspect->broken_us = now_us;
    return suspect_suspected(suspect, number);
}

enum suspect_step suspect_dialed(struct suspect *suspect, bool listens) {
    bool ended = suspect->listens && suspect->broken && !listens;
    suspect->listens = suspect->listens || listens;
    return ended ? SUSPECT_LOST : SUSPECT_WAIT;
}

enum suspect_step suspect_tick(struct suspect *suspect, uint64_t now_us, uint64_t late_us, uint64_t period_us,
                               uint64_t reconnect_us, uint64_t next) {
    if (suspect->number == 0) {
        return SUSPECT_WAIT;
    }
    suspect->stale = suspect->broken ? 0 : suspect->stale + 1;
    if (suspect->stale > SUSPECT_STALE_TICKS) {
        suspect->number = 0;
        return SUSPECT_WAIT;
    }
    if (suspect->broken_us != 0 && now_us < suspect->broken_us + reconnect_us) {
        return SUSPECT_WAIT; /* also after a message, which may have been sent before the connection ended */
    }
    if (suspect->broken_us != 0 || late_us > SUSPECT_LATE_TICKS * period_us) {
        suspect->broken_us = 0;
        open_question(suspect, next);
        return SUSPECT_ASK;
    }
    suspect->unanswered += late_us <= period_us ? 1 : 0;
    return suspect->unanswered >= SUSPECT_TICKS ? SUSPECT_LOST : SUSPECT_WAIT;
}
