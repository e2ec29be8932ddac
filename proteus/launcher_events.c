/* The launcher's events: when they are due, and what they do to processes. */
#include "proteus/launcher_private.h"

#include "agileml/base/memory.h"

#include <signal.h>
#include <stdlib.h>

/* ---- Nodes ---- */

/* Selects the running nodes of an event, and returns their number. For a tier, selects the nodes that were started
 * last. */
static unsigned select_nodes(const struct launcher *launcher, const struct event *event, unsigned *selected) {
    unsigned count = 0;
    for (size_t n = 0; n < event->node_count; n++) {
        unsigned index = event->nodes[n] - 1;
        if (index < launcher->node_count && launcher->nodes[index].process.running) {
            selected[count++] = index;
        }
    }
    if (event->target != EVENT_TIER) {
        return count;
    }
    for (unsigned n = launcher->node_count; n-- > 0 && (event->count == 0 || count < event->count);) {
        const struct launched_node *node = &launcher->nodes[n];
        bool leaving = event->action == EVENT_EVICT && node->kill_us != 0;
        if (node->process.running && node->tier == event->tier && !leaving) {
            selected[count++] = n;
        }
    }
    return count;
}

/* A node that has not joined yet gets its notice when it joins: see launcher_node_joined. */
static void evict_nodes(struct launcher *launcher, const unsigned *nodes, unsigned count, double notice) {
    unsigned *members = memory_zeroed(count + 1, sizeof *members);
    unsigned member_count = 0;
    for (unsigned n = 0; n < count; n++) {
        struct launched_node *node = &launcher->nodes[nodes[n]];
        node->excused = true;
        node->kill_us = launcher_now(launcher) + (uint64_t)(notice * 1e6);
        if (node->joined) {
            members[member_count++] = nodes[n];
        }
    }
    if (member_count > 0) {
        launcher_evict(launcher, members, member_count, notice);
    }
    free(members);
}

/* A killed node is not reported to the controller, which must notice the loss itself, as if the machine were gone. */
static void signal_node(const struct launcher *launcher, struct launched_node *node, enum event_action action) {
    if (action == EVENT_KILL) {
        node->excused = launcher->elastic;
        process_signal(&node->process, SIGKILL);
    } else {
        node->paused = action == EVENT_PAUSE;
        process_signal(&node->process, action == EVENT_PAUSE ? SIGSTOP : SIGCONT);
    }
}

static void to_nodes(struct launcher *launcher, const struct event *event) {
    unsigned *nodes = memory_zeroed(launcher->node_count + event->node_count + 1, sizeof *nodes);
    unsigned count = select_nodes(launcher, event, nodes);
    if (count == 0) {
        progress_note(launcher->progress, "event: none of the nodes that it names is running");
    }
    if (event->action == EVENT_EVICT) {
        evict_nodes(launcher, nodes, count, event->notice);
    }
    for (unsigned n = 0; n < count && event->action != EVENT_EVICT; n++) {
        signal_node(launcher, &launcher->nodes[nodes[n]], event->action);
    }
    free(nodes);
}

/* ---- The controller ---- */

static void to_controller(struct launcher *launcher, const struct event *event) {
    if (event->action == EVENT_START) {
        if (!launcher->controller.process.running) {
            launcher_start_controller(launcher);
        }
        return;
    }
    launcher->controller.killed = launcher->controller.killed || event->action == EVENT_KILL;
    process_signal(&launcher->controller.process, event->action == EVENT_KILL    ? SIGKILL
                                                  : event->action == EVENT_PAUSE ? SIGSTOP
                                                                                 : SIGCONT);
}

/* ---- When ---- */

/* Returns when the event is due; 0: now; UINT64_MAX: unknown. While there is no controller to count iterations, assumes
 * that each iteration takes as long as the last. */
static uint64_t event_due_us(const struct launcher *launcher, const struct event *event) {
    if (event->action == EVENT_START && launcher->controller.killed && launcher->controller.process.running) {
        return UINT64_MAX; /* the killed process has not ended yet: "kill" and "start" may be due at once */
    }
    if (event->by_seconds) {
        return launcher->training.began_us == 0 ? UINT64_MAX
                                                : launcher->training.began_us + (uint64_t)(event->seconds * 1e6);
    }
    if (event->iteration <= launcher->training.iteration) {
        return 0;
    }
    double wait = (double)(event->iteration - launcher->training.iteration) * launcher->training.pace;
    return launcher->controller.lost_us == 0 ? UINT64_MAX : launcher->controller.lost_us + (uint64_t)(wait * 1e6);
}

static void carry_out(struct launcher *launcher, const struct event *event) {
    progress_note(launcher->progress, "event: %s", event->text);
    if (event->action == EVENT_JOIN) {
        launcher_add_nodes(launcher, event->tier, event->count);
    } else if (event->target == EVENT_CONTROLLER) {
        to_controller(launcher, event);
    } else {
        to_nodes(launcher, event);
    }
}

uint64_t launcher_run_events(struct launcher *launcher) {
    uint64_t next_us = UINT64_MAX;
    for (size_t e = 0; e < launcher->events->count && launcher->phase == LAUNCHER_JOB; e++) {
        struct event *event = &launcher->events->list[e];
        uint64_t due_us = event->done ? UINT64_MAX : event_due_us(launcher, event);
        if (due_us <= launcher_now(launcher)) {
            event->done = true;
            carry_out(launcher, event);
        } else {
            next_us = due_us < next_us ? due_us : next_us;
        }
    }
    return next_us == UINT64_MAX ? 0 : next_us;
}
