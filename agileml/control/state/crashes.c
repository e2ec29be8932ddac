/* Handles crashes of the app. The elasticity controller recovers from a first crash as from any failure: other nodes
 * take over the crashed node's work. If one of these nodes then crashes in the same way, all others would crash too:
 * the job ends. See controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- Descriptions ---- */

/* Writes what ended the process. */
static void describe_cause(const struct crash *crash, char *text, size_t size) {
    if (crash->facts.signal == 0) {
        snprintf(text, size, "called exit(%d)", (int)crash->facts.status & 0xFF);
    } else {
        snprintf(text, size, "died of signal %u (%s)", crash->facts.signal, strsignal((int)crash->facts.signal));
    }
}

/* Writes where the app crashed: "in the app's function clock, at clock 7". */
static void describe_place(const struct crash *crash, char *text, size_t size) {
    const struct message_crashed *facts = &crash->facts;
    char at[48] = "";
    if (facts->clock > 0) {
        snprintf(at, sizeof at, " %s clock %llu", crash->told ? "at" : "about", (unsigned long long)facts->clock);
    }
    if (facts->function[0] != '\0') {
        snprintf(text, size, " in the app's function %s%s%s", facts->function, at[0] != '\0' ? "," : "", at);
    } else {
        snprintf(text, size, "%s", at);
    }
}

static void describe_node(const struct crash *crash, char *text, size_t size) {
    snprintf(text, size, "%s (%s, pid %llu)", crash->name, crash->host, (unsigned long long)crash->process_id);
}

/* Writes one line: "node-1 (here, pid 7) died of signal 6 (Aborted) in the app's function clock, at clock 5"; with
 * `first`: "node-1 (here, pid 7) and then node-2 (there, pid 8) died ..." */
static void describe(const struct crash *crash, const struct crash *first, char *text, size_t size) {
    char one[WIRE_NAME_MAX + WIRE_HOST_MAX + 32] = "";
    char two[WIRE_NAME_MAX + WIRE_HOST_MAX + 32];
    char cause[64];
    char place[96];
    if (first != NULL) {
        describe_node(first, one, sizeof one);
    }
    describe_node(crash, two, sizeof two);
    describe_cause(crash, cause, sizeof cause);
    describe_place(crash, place, sizeof place);
    snprintf(text, size, "%s%s%s %s%s", one, first != NULL ? " and then " : "", two, cause, place);
}

/* ---- The same crash again ---- */

static bool in_function(const struct crash *crash, const char *function) {
    return strcmp(crash->facts.function, function) == 0;
}

/* Whether two nodes may have crashed on the same item. A node that takes over begins with the clock that the dead node
 * did not finish. Without CRASHED, that clock is known only roughly, from heartbeats. A node that crashes in `evaluate`
 * has completed its clock: other nodes evaluate the same items up to an iteration later. Reading belongs to no
 * clock. */
static bool at_same_clock(const struct controller *controller, const struct crash *one, const struct crash *other) {
    uint64_t low = one->facts.clock < other->facts.clock ? one->facts.clock : other->facts.clock;
    uint64_t high = one->facts.clock < other->facts.clock ? other->facts.clock : one->facts.clock;
    uint64_t each = controller->job.terms.clocks_per_iteration;
    if (!one->told || !other->told) {
        uint64_t ahead = controller->job.terms.staleness + 1;
        return high - low <= (each > ahead ? each : ahead);
    }
    if (in_function(one, "read") || in_function(other, "read")) {
        return in_function(one, "read") && in_function(other, "read");
    }
    bool evaluate = in_function(one, "evaluate") && in_function(other, "evaluate");
    return high - low <= (evaluate ? each : 0);
}

static const struct crash *find_same(const struct controller *controller, const struct crash *crash) {
    for (unsigned c = controller->crashes.known.count; c-- > 0;) {
        const struct crash *other = &controller->crashes.known.list[c];
        if (other->node != crash->node && other->facts.signal == crash->facts.signal &&
            other->facts.status == crash->facts.status && at_same_clock(controller, other, crash)) {
            return other;
        }
    }
    return NULL;
}

/* ---- A new crash ---- */

static void crashes_add(struct crash_list *crashes, const struct crash *crash) {
    if (crashes->count == CONTROLLER_CRASHES_MAX) {
        memmove(crashes->list, crashes->list + 1, --crashes->count * sizeof *crashes->list);
    }
    crashes->list[crashes->count++] = *crash;
    assert(crashes->count <= CONTROLLER_CRASHES_MAX);
}

static struct crash crash_of(const struct member *member, const struct message_crashed *facts, bool told) {
    struct crash crash = {.node = member->node.actor,
                          .process_id = member->process_id,
                          .tier = member->node.tier,
                          .facts = *facts,
                          .told = told};
    memcpy(crash.name, member->name, sizeof crash.name);
    memcpy(crash.host, member->host, sizeof crash.host);
    return crash;
}

/* Whether other nodes take over the node's work after its crash. Otherwise its crash does not predict that they crash
 * too. */
static bool takes_part(const struct controller *controller, const struct member *member) {
    return controller->phase < PHASE_TRAIN || member->settled;
}

/* Ends the job: a second node has crashed as `first` did. */
static void fail_for_crash(struct controller *controller, const struct crash *crash, const struct crash *first) {
    char text[ERROR_TEXT_MAX];
    describe(crash, first, text, sizeof text);
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, ": the app crashes; the standard error of each node has the backtrace");
    controller_fail(controller, crash->name, AML_EFAIL, text);
}

static void crashes_lost(struct controller *controller, struct member *member, const struct crash *crash) {
    char text[ERROR_TEXT_MAX];
    const struct crash *first = takes_part(controller, member) ? find_same(controller, crash) : NULL;
    if (first != NULL) {
        member->left = true;
        fail_for_crash(controller, crash, first);
        return;
    }
    describe(crash, NULL, text, sizeof text);
    if (takes_part(controller, member)) {
        crashes_add(&controller->crashes.known, crash);
    }
    controller_lose(controller, member, text);
}

/* Describes the crash of a member that has not sent CRASHED. */
static struct crash crash_untold(const struct controller *controller, const struct member *member, unsigned signal) {
    uint64_t next = controller->progress.completed + 1; /* every working node has reported all earlier clocks */
    const struct message_crashed facts = {.signal = signal,
                                          .clock = controller->phase < PHASE_TRAIN ? 0
                                                   : member->reported.clock > next ? member->reported.clock
                                                                                   : next};
    return crash_of(member, &facts, false);
}

void crashes_died(struct controller *controller, struct member *member, unsigned signal) {
    const struct crash crash = crash_untold(controller, member, signal);
    crashes_lost(controller, member, &crash);
}

void crashes_ended(struct controller *controller, const struct member *member) {
    struct crash_list *ended = &controller->crashes.ended;
    if (!takes_part(controller, member) || member->stay == MEMBER_DISMISSED) {
        return;
    }
    if (ended->count == CONTROLLER_CRASHES_MAX) {
        memmove(ended->list, ended->list + 1, --ended->count * sizeof *ended->list);
    }
    ended->list[ended->count++] = crash_untold(controller, member, 0);
    assert(ended->count <= CONTROLLER_CRASHES_MAX);
}

void crashes_told_late(struct controller *controller, const char *name, unsigned signal) {
    struct crash_list *ended = &controller->crashes.ended;
    for (unsigned e = 0; e < ended->count && controller->phase < PHASE_LEAVE; e++) {
        struct crash crash = ended->list[e];
        if (strcmp(crash.name, name) != 0) {
            continue;
        }
        memmove(&ended->list[e], &ended->list[e + 1], (--ended->count - e) * sizeof *ended->list);
        crash.facts.signal = signal;
        const struct crash *first = find_same(controller, &crash);
        if (first != NULL) {
            fail_for_crash(controller, &crash, first);
            return;
        }
        crashes_add(&controller->crashes.known, &crash);
        persist_soon(controller);
        return;
    }
}

/* Takes a CRASHED that arrives after the node was removed, because its process had ended or was silent. */
static void crashes_late(struct controller *controller, actor_id from, const struct message_crashed *facts) {
    struct crash_list *ended = &controller->crashes.ended;
    for (unsigned e = 0; e < ended->count; e++) { /* so far its end was not known to be a crash */
        if (ended->list[e].node == from) {
            crashes_add(&controller->crashes.known, &ended->list[e]);
            memmove(&ended->list[e], &ended->list[e + 1], (--ended->count - e) * sizeof *ended->list);
            break;
        }
    }
    for (unsigned c = 0; c < controller->crashes.known.count; c++) {
        struct crash *crash = &controller->crashes.known.list[c];
        if (crash->node == from && !crash->told) {
            crash->facts = *facts;
            crash->told = true;
        }
    }
}

void crashes_receive(struct controller *controller, actor_id from, const struct message *message) {
    struct member *member = controller_find_member(controller, from);
    if (member == NULL) {
        crashes_late(controller, from, &message->crashed);
    } else if (controller->phase >= PHASE_LEAVE) {
        member->left = true;
    } else if (member->stay == MEMBER_DISMISSED) {
        controller_remove_member(controller, member);
    } else {
        const struct crash crash = crash_of(member, &message->crashed, true);
        crashes_lost(controller, member, &crash);
    }
}

/* ---- After the recovery ---- */

void crashes_recovered(struct controller *controller) {
    for (unsigned c = 0; c < controller->crashes.known.count; c++) {
        controller->crashes.known.list[c].recovered = true;
    }
}

static bool had_replica(const struct controller *controller, const struct crash *crash, uint32_t partition) {
    return placement_names_node(&controller->plan.placement[partition], crash->node);
}

static bool had(const struct controller *controller, const struct crash *crash, uint32_t lacking) {
    return lacking == CRASHES_LACKING_NODES ? true
           : lacking == CRASHES_LACKING_STATE
               ? crash->tier == TIER_RELIABLE || controller->plan.stage == STAGE_TRANSIENT
               : had_replica(controller, crash, lacking);
}

bool crashes_explain(const struct controller *controller, uint32_t lacking, char *text, size_t size) {
    for (unsigned c = controller->crashes.known.count; c-- > 0;) {
        const struct crash *crash = &controller->crashes.known.list[c];
        if (!crash->recovered && had(controller, crash, lacking)) {
            describe(crash, NULL, text, size);
            size_t used = strlen(text);
            snprintf(text + used, size - used, ": the job can't go on without this node");
            return true;
        }
    }
    return false;
}
