/* See suspect.h. */
#include "agileml/control/decide/suspect.h"

#include <assert.h>

/* Checks that only an open question has an accuser or a refused connection. */
static void check_suspect(const struct suspect *suspect) {
    assert(suspect->number != 0 || (!suspect->accused && suspect->refused_us == 0));
    assert(suspect->there || suspect->number == 0);
    assert(suspect->listens || suspect->refused_us == 0);
    assert(suspect->number == 0 || suspect->stale <= SUSPECT_STALE_TICKS);
}

static void open_question(struct suspect *suspect, uint64_t now_us, uint64_t number) {
    assert(number > 0 && number >= suspect->number);
    suspect->number = number;
    suspect->asked_us = now_us;
    suspect->unanswered = 0;
}

static void close_question(struct suspect *suspect) {
    suspect->number = 0;
    suspect->refused_us = 0;
    suspect->accused = false;
}

enum suspect_step suspect_suspected(struct suspect *suspect, uint64_t now_us, uint64_t number) {
    suspect->accused = suspect->there;
    suspect->stale = 0;
    return suspect_asked(suspect, now_us, number);
}

enum suspect_step suspect_asked(struct suspect *suspect, uint64_t now_us, uint64_t number) {
    if (!suspect->there || suspect->number != 0) {
        return SUSPECT_WAIT;
    }
    suspect->stale = 0;
    open_question(suspect, now_us, number);
    return SUSPECT_ASK;
}

enum suspect_step suspect_heard(struct suspect *suspect, uint64_t now_us, uint64_t number, uint64_t next) {
    check_suspect(suspect);
    suspect->there = true;
    suspect->broken = false;
    suspect->refused_us = 0;
    if (suspect->number == 0 || number == suspect->number) {
        close_question(suspect);
        return SUSPECT_WAIT;
    }
    if (number != 0) {
        return SUSPECT_WAIT; /* an answer to an earlier question, which this controller may have read late */
    }
    open_question(suspect, now_us, next); /* the connection is new, so the question may have been lost */
    return SUSPECT_ASK;
}

enum suspect_step suspect_broke(struct suspect *suspect, uint64_t now_us, uint64_t number) {
    suspect->broken = true;
    suspect->broken_us = now_us;
    return suspect_suspected(suspect, now_us, number);
}

enum suspect_step suspect_dialed(struct suspect *suspect, uint64_t now_us, const struct suspect_dial *dial) {
    check_suspect(suspect);
    suspect->listens = suspect->listens || dial->listens;
    if (dial->listens || suspect->number == 0) {
        suspect->refused_us = 0;
    } else if (suspect->listens && suspect->refused_us == 0) {
        suspect->refused_us = now_us;
    } else if (suspect->listens && dial->began_us >= suspect->refused_us + dial->apart_us) {
        return SUSPECT_LOST;
    }
    return SUSPECT_WAIT;
}

enum suspect_step suspect_tick(struct suspect *suspect, uint64_t now_us, const struct suspect_interval *interval,
                               uint64_t next) {
    check_suspect(suspect);
    if (suspect->number == 0) {
        return SUSPECT_WAIT;
    }
    suspect->stale = suspect->broken ? 0 : suspect->stale + 1;
    if (suspect->stale > SUSPECT_STALE_TICKS) {
        close_question(suspect);
        return SUSPECT_WAIT;
    }
    if (suspect->broken_us != 0 && now_us < suspect->broken_us + interval->reconnect_us) {
        return SUSPECT_WAIT; /* even after a message: it may have been sent before the connection ended */
    }
    if (suspect->broken_us != 0 || interval->late_us > SUSPECT_LATE_TICKS * interval->period_us) {
        suspect->broken_us = 0;
        open_question(suspect, now_us, next);
        return SUSPECT_ASK;
    }
    suspect->unanswered += interval->answered >= suspect->number && suspect->asked_us <= interval->began_us ? 1 : 0;
    bool patient = now_us >= suspect->asked_us + interval->patience_us;
    unsigned ticks = suspect->accused ? SUSPECT_TICKS : SUSPECT_UNACCUSED_TICKS;
    return suspect->unanswered >= ticks && patient ? SUSPECT_LOST : SUSPECT_WAIT;
}
