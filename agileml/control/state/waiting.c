/* See waiting.h. */
#include "agileml/control/state/waiting.h"

#include "agileml/control/state/controller_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/printable.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAMED_MAX = 3,    /* nodes that a text names; of the others it has the number */
    STILL_CLOCKS = 4, /* a standstill is told when it lasts so many times as long as the last clock ... */
    STILL_WORK = 6,   /* ... or so many times that, while all awaited nodes work or while other things move */
};

/* ---- What is awaited ---- */

/* A text that is being written: parts with one reason and the nodes of whom it waits. */
struct description {
    const struct controller *controller;
    char *text;
    size_t size;
    unsigned nodes; /* of the part that is being written */
    bool all_work;  /* all nodes that were named so far say that they work */
};

static void say(struct description *description, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct description *description, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int written =
        vsnprintf(description->text + description->size, WAITING_TEXT_MAX - description->size, format, arguments);
    va_end(arguments);
    description->size += written > 0 ? (size_t)written : 0;
    description->size = description->size < WAITING_TEXT_MAX ? description->size : WAITING_TEXT_MAX - 1;
}

static const char *name_of(const struct controller *controller, actor_id node) {
    const struct member *member = controller_find_member(controller, node);
    return member != NULL ? member->name : "a node that is gone";
}

static void say_what_it_does(struct description *description, const struct member *member) {
    static const char *const texts[NODE_WAITS] = {
        [NODE_WAITS_NOT] = "works",
        [NODE_WAITS_INPUT] = "reads its data",
        [NODE_WAITS_ROWS] = "waits for rows",
        [NODE_WAITS_COMMIT] = "waits for a commit",
        [NODE_WAITS_BARRIER] = "waits at a barrier",
        [NODE_WAITS_TURN] = "has no clock to begin",
    };
    const struct member_waiting *waiting = &member->waiting;
    say(description, " (%s", texts[waiting->waits]);
    if (waiting->on != ACTOR_NONE) {
        say(description, " of %s", name_of(description->controller, waiting->on));
    }
    say(description, ")");
}

/* Adds a node to the part whose reason is `what`. */
static void say_node(struct description *description, const char *what, const struct member *member) {
    if (description->nodes == 0) {
        say(description, "%s%s: ", description->size > 0 ? "; " : "", what);
    }
    if (description->nodes++ < NAMED_MAX) {
        say(description, "%s%s", description->nodes > 1 ? ", " : "", member->name);
        say_what_it_does(description, member);
    }
    description->all_work = description->all_work && member->waiting.waits == NODE_WAITS_NOT;
}

static void end_part(struct description *description) {
    if (description->nodes > NAMED_MAX) {
        say(description, " and %u more", description->nodes - NAMED_MAX);
    }
    description->nodes = 0;
}

static bool lacks_fence(const struct controller *controller, const struct member *member) {
    return controller->change.state == CHANGE_RECOVER && !member->fence.answered;
}

static bool lacks_plan(const struct controller *controller, const struct member *member) {
    return !controller_recovers(controller) && member->goes_by.version < controller->plan.version;
}

static bool lacks_data(const struct controller *controller, const struct member *member) {
    return controller->phase == PHASE_LOAD && !member->loaded;
}

static bool lacks_next_part(const struct controller *controller, const struct member *member) {
    return controller->change.state == CHANGE_PREPARE && member->goes_by.ready < controller->plan.version;
}

static bool lacks_barrier(const struct controller *controller, const struct member *member) {
    return controller->barrier.clock != WIRE_CLOCK_NEVER && member->goes_by.barrier != controller->barrier.number;
}

static bool lacks_file(const struct controller *controller, const struct member *member) {
    const struct controller_checkpoint *checkpoint = &controller->checkpoint;
    bool asked = checkpoint->state == CHECKPOINT_ASK || checkpoint->state == CHECKPOINT_WRITE;
    for (uint32_t p = 0; asked && p < controller->options.policy.partitions; p++) {
        if (!checkpoint->files[p].written && actor_node(checkpoint->files[p].writer) == member->node.actor) {
            return true;
        }
    }
    return false;
}

static bool lacks_model(const struct controller *controller, const struct member *member) {
    return controller->phase == PHASE_SAVE && save_is_asked_of(controller, member);
}

static bool lacks_goodbye(const struct controller *controller, const struct member *member) {
    return controller->phase == PHASE_LEAVE && !member->left;
}

static const struct {
    const char *what;
    bool (*lacks)(const struct controller *controller, const struct member *member);
} ANSWERED[] = {
    {"at which clocks state can be restored", lacks_fence},
    {"the answer to a plan", lacks_plan},
    {"the data", lacks_data},
    {"to be ready for the next plan", lacks_next_part},
    {"the answer to a barrier", lacks_barrier},
    {"a checkpoint's files", lacks_file},
    {"the model to be saved", lacks_model},
    {"to leave", lacks_goodbye},
};

static void describe_clock(struct description *description) {
    const struct controller *controller = description->controller;
    char what[32];
    snprintf(what, sizeof what, "clock %llu", (unsigned long long)controller->progress.completed + 1);
    actor_id *origins;
    unsigned count = progress_missing(controller, &origins);
    for (unsigned o = 0; o < count; o++) {
        const struct member *member = controller_find_member(controller, actor_node(origins[o]));
        if (member != NULL) {
            say_node(description, what, member);
        }
    }
    end_part(description);
    free(origins);
}

bool waiting_describe(const struct controller *controller, char text[WAITING_TEXT_MAX]) {
    struct description description = {.controller = controller, .text = text, .all_work = true};
    text[0] = '\0';
    for (unsigned a = 0; a < sizeof ANSWERED / sizeof *ANSWERED && controller->phase != PHASE_GATHER; a++) {
        for (unsigned m = 0; m < controller->member_count; m++) {
            const struct member *member = &controller->members[m];
            if (member->stay != MEMBER_DISMISSED && !controller_feeds(member) &&
                ANSWERED[a].lacks(controller, member)) {
                say_node(&description, ANSWERED[a].what, member);
            }
        }
        end_part(&description);
    }
    if (controller->phase == PHASE_TRAIN && controller->change.state != CHANGE_RECOVER) {
        describe_clock(&description);
    }
    text_make_printable(text);
    return description.all_work;
}

/* ---- What moves ---- */

static uint64_t digest_of(const struct controller *controller) {
    uint64_t digest = 0;
    const uint64_t job[] = {controller->phase,           controller->progress.completed, controller->commit.clock,
                            controller->plan.epoch,      controller->plan.version,       controller->change.state,
                            controller->member_count,    controller->checkpoint.state,   controller->save.attempt,
                            controller->checkpoint.tasks};
    digest = hash_bytes((const unsigned char *)job, sizeof job, digest);
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        const struct node_numbers *numbers = &member->usage.numbers;
        const uint64_t own[] = {member->state,          member->stay,         member->loaded,
                                member->goes_by.epoch,  member->goes_by.version, member->goes_by.ready,
                                member->fence.answered, member->reported.clock,  member->reported.catch_up,
                                member->left,           numbers->bytes_read,     numbers->disk_bytes,
                                numbers->shards_taken};
        digest = hash_bytes((const unsigned char *)own, sizeof own, digest);
    }
    for (uint32_t p = 0; controller->checkpoint.files != NULL && p < controller->options.policy.partitions; p++) {
        const struct checkpoint_file *file = &controller->checkpoint.files[p];
        digest = hash_mix(digest ^ ((uint64_t)file->promised << 1 | (uint64_t)file->written));
    }
    return digest;
}

/* ---- The feature ---- */

static void receive(struct controller *controller, actor_id from, struct member *member,
                    const struct message *message) {
    (void)controller;
    (void)from;
    if (member != NULL && message->type == MESSAGE_HEARTBEAT) {
        member->waiting.waits = (enum node_waits)message->heartbeat.waits;
        member->waiting.on = message->heartbeat.waits_on;
    }
}

static void tell(struct controller *controller, const char *text) {
    const double seconds = (double)controller->features.waiting.stands_us / 1e6;
    char reason[WAITING_TEXT_MAX + 32];
    snprintf(reason, sizeof reason, "for %.1f s, for %s", seconds, text);
    json_t *object = report_new_event(controller, "waiting", NULL, 0);
    report_set_real(object, "waiting_seconds", seconds);
    json_object_set_new(object, "reason", json_string(reason));
    controller_report(controller, report_line_text(object, false));
}

/* Finds out how long the job has stood still. It also does when plans, epochs and nodes come and go, but no clock is
 * completed for longer than `most_us`. */
static void look(struct controller *controller, uint64_t passed_us, uint64_t most_us) {
    struct waiting *waiting = &controller->features.waiting;
    const uint64_t completed = controller->progress.completed;
    const uint64_t digest = digest_of(controller);
    waiting->still_us = digest != waiting->digest ? 0 : waiting->still_us + passed_us;
    waiting->digest = digest;
    bool clocks = completed != waiting->completed || controller->phase != PHASE_TRAIN;
    waiting->no_clock_us = clocks ? 0 : waiting->no_clock_us + passed_us;
    waiting->completed = completed;
    waiting->stands_us = waiting->no_clock_us > most_us ? waiting->no_clock_us : waiting->still_us;
    waiting->told_us = waiting->stands_us == 0 ? 0 : waiting->told_us;
}

/* A standstill is told after a failure timeout, and again each time that it has become twice as long. */
static void check(struct controller *controller, uint64_t now_us) {
    struct waiting *waiting = &controller->features.waiting;
    const uint64_t timeout_us = controller->options.timeout_ms * UINT64_C(1000);
    const uint64_t most_us = controller->options.heartbeat_ms * UINT64_C(2000); /* between two calls in time */
    uint64_t passed_us = controller_passed_us(&waiting->checked_us, now_us, most_us);
    uint64_t least_us = STILL_CLOCKS * controller->clocks.lasted_us;
    least_us = least_us > timeout_us ? least_us : timeout_us;
    look(controller, passed_us, STILL_WORK * least_us);
    least_us = least_us > 2 * waiting->told_us ? least_us : 2 * waiting->told_us;
    char text[WAITING_TEXT_MAX];
    if (waiting->stands_us > least_us && controller->phase < PHASE_ENDED) {
        bool all_work = waiting_describe(controller, text);
        if (text[0] != '\0' && (!all_work || waiting->stands_us > STILL_WORK * timeout_us)) {
            waiting->told_us = waiting->stands_us;
            tell(controller, text);
        }
    }
}

static void report(const struct controller *controller, json_t *object, enum report_type type) {
    const uint64_t stands_us = controller->features.waiting.stands_us;
    char text[WAITING_TEXT_MAX];
    if (type == REPORT_STATUS && stands_us > controller->options.timeout_ms * UINT64_C(500) &&
        (waiting_describe(controller, text), text[0] != '\0')) {
        report_set_real(object, "waiting_seconds", (double)stands_us / 1e6);
        json_object_set_new(object, "waiting_for", json_string(text));
    }
}

const struct feature waiting_feature = {.receive = receive, .check = check, .report = report};
