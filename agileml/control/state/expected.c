/* The elasticity controller's list of machines that are allocated to the job and have not joined it yet (struct
 * message_allocation). See controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b) {
    return strcmp(((const struct wire_machine *)a)->name, ((const struct wire_machine *)b)->name);
}

static struct wire_machine *find(const struct wire_machine *machines, size_t count, const char *name) {
    struct wire_machine key = {0};
    snprintf(key.name, sizeof key.name, "%s", name);
    return count > 0 ? bsearch(&key, machines, count, sizeof key, compare) : NULL;
}

/* Sorts the machines by name and removes repeated names. Returns how many machines are left. */
static size_t put_in_order(struct wire_machine *machines, size_t count) {
    size_t kept = 0;
    qsort(machines, count, sizeof *machines, compare);
    for (size_t m = 0; m < count; m++) {
        if (kept == 0 || strcmp(machines[kept - 1].name, machines[m].name) != 0) {
            machines[kept++] = machines[m];
        }
    }
    return kept;
}

/* Checks that the machines are in the order of their names, each once, and that it is known when the controller first
 * heard of each. */
static void check_order(const struct controller_expected *expected) {
    for (size_t m = 0; m < expected->count; m++) {
        assert(m == 0 || strcmp(expected->machines[m - 1].name, expected->machines[m].name) < 0);
        assert(expected->since_us[m] != 0);
    }
}

static void report_new(struct controller *controller, const struct wire_machine *before, size_t before_count) {
    const char **names = memory_zeroed(controller->expected.count + 1, sizeof *names);
    unsigned count = 0;
    for (size_t m = 0; m < controller->expected.count; m++) {
        if (find(before, before_count, controller->expected.machines[m].name) == NULL) {
            names[count++] = controller->expected.machines[m].name;
        }
    }
    if (count > 0) {
        controller_report(controller, report_event_nodes(controller, "allocation", names, count));
    }
    free(names);
}

void expected_replan(struct controller *controller) {
    uint64_t now_us = controller_now(controller);
    uint64_t first_us = now_us;
    bool leaving = false;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (controller_feeds(member)) {
            continue;
        }
        bool new = !member->planned && !member->settled && member->stay == MEMBER_STAYS;
        first_us = new && member->joined_us < first_us ? member->joined_us : first_us;
        leaving = leaving || member->stay == MEMBER_LEAVING;
    }
    uint64_t wait_us = controller_replan_us(controller);
    uint64_t most_us = first_us + CONTROLLER_EXPECTED_WAIT_US;
    most_us = most_us > now_us ? most_us : now_us;
    bool more = controller->expected.count > 0 && !leaving;
    uint64_t due_us = more || most_us < wait_us ? most_us : wait_us;
    bool sooner = leaving && controller->change.due && controller->change.due_us < due_us;
    controller->change.due_us = sooner ? controller->change.due_us : due_us;
}

/* Drops a machine from the list. Returns when it was first in the list; 0: it is not in the list. */
static uint64_t take_out(struct controller *controller, const char *name) {
    struct wire_machine *machine = find(controller->expected.machines, controller->expected.count, name);
    uint64_t first_us = 0;
    if (machine != NULL) {
        size_t place = (size_t)(machine - controller->expected.machines);
        uint64_t *since_us = controller->expected.since_us + place;
        first_us = *since_us;
        controller->expected.count--;
        size_t behind = controller->expected.count - place;
        memmove(machine, machine + 1, behind * sizeof *machine);
        memmove(since_us, since_us + 1, behind * sizeof *since_us);
    }
    return first_us;
}

void expected_joined(struct controller *controller, const char *name) {
    uint64_t first_us = take_out(controller, name);
    if (first_us != 0) {
        rebalance_pending(controller, (double)(controller_now(controller) - first_us) / 1e6);
    }
}

void expected_receive(struct controller *controller, actor_id from, const struct message *message) {
    struct wire_machine *before = controller->expected.machines;
    uint64_t *before_us = controller->expected.since_us;
    size_t before_count = controller->expected.count;
    if (controller->phase >= PHASE_LEAVE) {
        controller_send_outcome(controller, from, message->allocation.request, AML_EINPUT, "the job is over");
        return;
    }
    size_t count;
    const struct wire_machine *machines = allocation_machines(message, &count);
    controller->expected.machines = memory_zeroed(count + 1, sizeof *controller->expected.machines);
    memcpy(controller->expected.machines, machines, count * sizeof *machines);
    controller->expected.count = put_in_order(controller->expected.machines, count);
    controller->expected.since_us = memory_zeroed(count + 1, sizeof *controller->expected.since_us);
    for (size_t m = 0; m < controller->expected.count; m++) {
        const struct wire_machine *known = find(before, before_count, controller->expected.machines[m].name);
        controller->expected.since_us[m] = known != NULL ? before_us[known - before] : controller_now(controller);
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        take_out(controller, controller->members[m].name); /* this machine has joined already */
    }
    check_order(&controller->expected);
    report_new(controller, before, before_count);
    free(before);
    free(before_us);
    uint64_t soon_us = controller_replan_us(controller);
    if (controller->expected.count == 0 && controller->change.due && controller->change.due_us > soon_us) {
        controller->change.due_us = soon_us; /* no other machine is expected */
    }
    controller_send_outcome(controller, from, message->allocation.request, 0, "");
}
