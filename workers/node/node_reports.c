/* What the node reports to the controller until the controller has it: PROGRESS, and the lines that the app says. Also
 * how the node ends. See node_private.h. */
#include "workers/node/node_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The end ---- */

void node_stop(struct node *node) {
    node->ended = true;
    node->io->set_timer(node->io, 0);
}

void node_end(struct node *node, int code, const char *text) {
    if (!node->ended) {
        node_stop(node);
        node->options.hooks.end(node->options.hooks.context, code, text);
    }
}

void node_fail(struct node *node, int code, const char *text) {
    if (node->ended) {
        return;
    }
    struct message fail = {.type = MESSAGE_FAIL};
    fail.text.code = code;
    snprintf(fail.text.text, sizeof fail.text.text, "%s", text);
    node_send(node, &fail);
    node->departure.failed = true;
    node_end(node, code, text);
}

/* ---- PROGRESS ---- */

void node_reports_open(struct node *node) {
    node->reports.burst = NODE_PROGRESS_BURST;
}

void node_reports_close(struct node *node) {
    for (unsigned i = 0; i < node->reports.count; i++) {
        message_close(&node->reports.list[i]);
    }
    free(node->reports.list);
    free(node->notes.list);
}

uint64_t node_reports_due_us(const struct node *node) {
    return node->reports.sent < node->reports.count ? node->reports.sent_us + NODE_PROGRESS_US : UINT64_MAX;
}

void node_reports_undo_last(struct node *node) {
    for (unsigned i = 0; i < node->reports.count; i++) {
        node->reports.list[i].progress.last = 0;
    }
}

/* Checks the counts, and that the reports are in the order of clocks. */
static void check_reports(const struct node_reports *reports) {
    assert(reports->sent <= reports->count && reports->again <= reports->count);
    assert(reports->count <= reports->clocks && reports->clocks <= WIRE_PROGRESS_MAX);
    assert(reports->burst >= 1 && reports->burst <= NODE_PROGRESS_BURST_MAX);
    for (unsigned i = 1; i < reports->count; i++) {
        assert(reports->list[i - 1].progress.clock <= reports->list[i].progress.clock);
    }
}

void node_reports_count(const struct node *node, struct node_numbers *numbers) {
    const struct node_hooks *hooks = &node->options.hooks;
    if (hooks->count != NULL) {
        hooks->count(hooks->context, numbers);
    }
    FOR_SERVICES (node, service, report) {
        service->report(node, numbers);
    }
}

static void send_progress(struct node *node, unsigned index) {
    struct message copy = message_share(&node->reports.list[index]);
    node_reports_count(node, &copy.progress.numbers);
    node_send(node, &copy);
}

/* Reports, now and then, how long the servers were waited for. A lost report is not repeated. */
static void send_waits(struct node *node) {
    struct message waits = {.type = MESSAGE_WAITS};
    if (node_now(node) >= node->reports.waits_us + NODE_WAITS_US && client_take_waits(&node->client, &waits)) {
        node->reports.waits_us = node_now(node);
        node_send(node, &waits);
    }
}

void node_reports_send(struct node *node) {
    for (; node->reports.sent < node->reports.count; node->reports.sent++) {
        send_progress(node, node->reports.sent);
    }
    node->reports.sent_us = node_now(node);
    send_waits(node);
}

/* Whether to send the collected PROGRESS now. A message costs as much as a short clock, so short clocks are reported
 * together. But the controller waits for the end of an iteration, where it may name the last clock or begin a
 * checkpoint, and for the barrier: these are reported at once. */
static bool progress_is_due(const struct node *node) {
    uint64_t clock = node->work.clock;
    return clock % node->options.registration.job.clocks_per_iteration == 0 || node_held_at(node, clock) ||
           node_now(node) >= node->reports.sent_us + NODE_PROGRESS_US;
}

static void send_burst(struct node *node) {
    unsigned count = node->reports.count < node->reports.burst ? node->reports.count : node->reports.burst;
    for (unsigned i = 0; i < count; i++) {
        send_progress(node, i);
    }
    node->reports.again = count;
}

void node_reports_repeat(struct node *node) {
    if (++node->reports.still > NODE_PROGRESS_STILL_MAX) { /* the controller is away, or the network is full */
        node->reports.burst = NODE_PROGRESS_BURST;
    }
    send_burst(node);
}

/* Keeps a PROGRESS in the order of clocks. The controller completes clocks in this order. So the messages that it waits
 * for are among the first, which are repeated. A message that belongs before sent messages is sent at once. */
static void keep_progress(struct node *node, struct message message) {
    unsigned place = node->reports.count;
    while (place > 0 && node->reports.list[place - 1].progress.clock > message.progress.clock) {
        place--;
    }
    node->reports.clocks += 1 + message.progress.idle; /* at most WIRE_PROGRESS_MAX: see begun_with */
    node->reports.list = memory_resized(node->reports.list, node->reports.count + 1, sizeof *node->reports.list);
    memmove(&node->reports.list[place + 1], &node->reports.list[place],
            (node->reports.count - place) * sizeof *node->reports.list);
    node->reports.list[place] = message;
    node->reports.count++;
    node->reports.again += place < node->reports.again ? 1 : 0;
    check_reports(&node->reports);
    if (place < node->reports.sent) {
        node->reports.sent++;
        send_progress(node, place);
    }
}

void node_reports_add(struct node *node, const struct wire_metric_sum *metrics) {
    struct message message = {.type = MESSAGE_PROGRESS};
    struct message_progress *progress = &message.progress;
    progress->origin = node->work.assignment.origin;
    progress->clock = node->work.clock;
    progress->idle = node->work.again ? 0 : node->work.idle;
    progress->evaluation = node->work.again ? 1 : 0;
    progress->last = node->work.last ? 1 : 0;
    progress->items = node->work.again ? 0 : node->work.items;
    progress->helped = node->work.again ? 0 : node->work.helped;
    progress->committed = node->client.committed;
    progress->compute_us = node->work.compute_us;
    progress->clock_us = node->work.again ? 0 : node_now(node) - node->work.began_us;
    progress->evaluate_us = node->work.again ? 0 : node_now(node) - node->work.evaluates_us;
    FOR_SERVICES (node, service, measure) {
        service->measure(node, progress);
    }
    message_add_copy(&message, metrics, node->options.metric_count * sizeof *metrics);
    keep_progress(node, message);
    if (progress_is_due(node)) {
        node_reports_send(node);
    }
}

/* Whether the HEARTBEAT_ACK covers this PROGRESS. `catch_up` covers what the present epoch's catch-up origin computes,
 * from the restored clock on. `progress` covers all else: also remaining reports of an earlier epoch's catch-up, and
 * evaluations in a lost node's place. Both of these are of clocks up to the restored one. */
static bool progress_arrived(const struct node *node, const struct message_progress *progress,
                             const struct message *ack) {
    bool present = ack->epoch == node->plan.epoch &&
                   progress->origin == origin_catch_up(node->options.self, ack->epoch) && progress->evaluation == 0;
    return progress->clock <= (present ? ack->heartbeat_ack.catch_up : ack->heartbeat_ack.progress);
}

void node_reports_acknowledged(struct node *node, const struct message *ack) {
    unsigned kept = 0;
    unsigned again = node->reports.again;
    unsigned sent = node->reports.sent;
    for (unsigned i = 0; i < node->reports.count; i++) {
        if (!progress_arrived(node, &node->reports.list[i].progress, ack)) {
            node->reports.list[kept++] = node->reports.list[i];
            continue;
        }
        node->reports.clocks -= 1 + node->reports.list[i].progress.idle;
        message_close(&node->reports.list[i]);
        node->reports.again -= i < again ? 1 : 0;
        sent -= i < node->reports.sent ? 1 : 0;
    }
    node->reports.still = kept < node->reports.count ? 0 : node->reports.still;
    node->reports.count = kept;
    node->reports.sent = sent;
    check_reports(&node->reports);
    if (again > 0 && node->reports.again == 0) {
        unsigned more = 2 * node->reports.burst;
        node->reports.burst = more < NODE_PROGRESS_BURST_MAX ? more : NODE_PROGRESS_BURST_MAX;
        send_burst(node);
    }
}

/* ---- What the app says ---- */

static void send_note(struct node *node, const struct message_app_note *note) {
    struct message message = {.type = MESSAGE_APP_NOTE, .app_note = *note};
    if (node->contact.heartbeat_ms != 0) {
        node_send(node, &message);
    }
}

void node_note(struct node *node, const char *text) {
    struct node_notes *notes = &node->notes;
    if (node->ended || notes->said == NODE_NOTES_MAX) {
        return;
    }
    assert(notes->count <= notes->said);
    notes->list = memory_resized(notes->list, notes->count + 1U, sizeof *notes->list);
    struct message_app_note *note = &notes->list[notes->count++];
    *note = (struct message_app_note){.request = NODE_NOTE_REQUEST + notes->said++};
    snprintf(note->text, sizeof note->text, "%s", text);
    send_note(node, note);
}

void node_notes_send(struct node *node) {
    for (unsigned n = 0; n < node->notes.count; n++) {
        send_note(node, &node->notes.list[n]);
    }
}

void node_notes_answered(struct node *node, uint64_t request) {
    struct node_notes *notes = &node->notes;
    for (unsigned n = 0; n < notes->count; n++) {
        if (notes->list[n].request == request) {
            memmove(&notes->list[n], &notes->list[n + 1], (--notes->count - n) * sizeof *notes->list);
            return;
        }
    }
}
