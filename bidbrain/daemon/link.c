/* See link.h. */
#include "bidbrain/daemon/link.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/control/state/observer.h"
#include "agileml/wire/records.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LINK_EXPECT_MS = 5000, /* time between repetitions of the list of expected machines */
    LINK_STATUS_MS = 4000, /* time between requests for the status, which are always answered */
};

struct link_node {
    char name[WIRE_NAME_MAX];
    bool present;
};

/* Lines for the job's report that the controller has not confirmed, oldest first. Only one is sent at a time: a line
 * that arrives after a newer one would count as a repetition. */
struct link_notes {
    json_t *list[LINK_NOTES_MAX];
    size_t count;
    uint64_t request; /* number of the first line's request; 0: none is under way */
    bool full;        /* a line was dropped since the list was last empty */
};

struct job_link {
    struct job_link_listener listener;
    struct net *net;
    struct net_io *io;
    struct observer observer;
    uint64_t heard_us, status_us; /* 0: never */
    uint64_t status_lines;        /* lines read when the status was last requested */
    bool caught_up;
    bool refused; /* the log has a warning that the controller rejects our messages */
    double iteration_ended;
    struct link_node *nodes; /* in the order of arrival */
    size_t node_count;
    struct wire_machine *expected; /* last reported list */
    size_t expected_count;
    uint64_t expected_request; /* number of its request */
    uint64_t expected_us;      /* when it was last sent; 0: never */
    struct link_notes notes;
};

static uint64_t link_now(const struct job_link *link) {
    struct io *io = net_io_of(link->io);
    return io->now_us(io);
}

/* ---- Nodes ---- */

static struct link_node *link_find(const struct job_link *link, const char *name) {
    for (size_t n = link->node_count; n-- > 0;) {
        if (strcmp(link->nodes[n].name, name) == 0) {
            return &link->nodes[n];
        }
    }
    return NULL;
}

bool job_link_has(const struct job_link *link, const char *name) {
    const struct link_node *node = link_find(link, name);
    return node != NULL && node->present;
}

size_t job_link_nodes(const struct job_link *link) {
    size_t count = 0;
    for (size_t n = 0; n < link->node_count; n++) {
        count += link->nodes[n].present;
    }
    return count;
}

void job_link_visit(const struct job_link *link, void (*visit)(void *context, const char *node), void *context) {
    for (size_t n = 0; n < link->node_count; n++) {
        if (link->nodes[n].present) {
            visit(context, link->nodes[n].name);
        }
    }
}

static void node_joined(struct job_link *link, const char *name) {
    struct link_node *node = link_find(link, name);
    if (node == NULL && strlen(name) < WIRE_NAME_MAX && link->node_count < LINK_NODES_MAX) {
        link->nodes = memory_resized(link->nodes, link->node_count + 1, sizeof *link->nodes);
        node = &link->nodes[link->node_count++];
        snprintf(node->name, sizeof node->name, "%s", name);
    }
    if (node != NULL) {
        node->present = true;
        link->listener.joined(link->listener.context, node->name);
    }
}

static void node_left(struct job_link *link, const char *name, bool failed) {
    struct link_node *node = link_find(link, name);
    if (node != NULL && node->present) {
        node->present = false;
        link->listener.left(link->listener.context, node->name, failed);
    }
}

/* ---- The report ---- */

static void read_event(struct job_link *link, const struct report_line *line) {
    bool failed = line->happened == HAPPENED_FAILURE || line->happened == HAPPENED_REFUSED;
    if (line->happened == HAPPENED_CHECKPOINT) {
        link->listener.checkpoint(link->listener.context, fmax(line->seconds, 0));
    }
    for (size_t n = 0; n < line->nodes.count; n++) {
        const char *name = line->nodes.list[n].name;
        if (name != NULL && line->happened == HAPPENED_JOIN) {
            node_joined(link, name);
        } else if (name != NULL && (failed || line->happened == HAPPENED_EVICTED)) {
            node_left(link, name, failed);
        }
    }
}

static void read_iteration(struct job_link *link, const struct report_line *line) {
    double ended = fmax(line->seconds, 0);
    double items = fmax(line->items, 0);
    struct job_link_iteration iteration = {
        .ended = ended,
        .items = line->partial > 0 ? items / line->partial : items, /* of all the work, not only what the line covers */
        .seconds = ended - link->iteration_ended};
    link->iteration_ended = ended;
    if (line->iteration >= 0) {
        iteration.iteration = (uint64_t)line->iteration;
        iteration.iterations = line->iterations > 0 ? (uint64_t)line->iterations : 0;
        link->listener.iteration(link->listener.context, &iteration);
    }
}

static void read_summary(struct job_link *link, const struct report_line *line) {
    bool counted = line->iterations > 0 && line->iterations < 1e15;
    link->listener.summary(link->listener.context, line->ok, line->error, fmax(line->seconds, 0),
                           counted ? (uint64_t)line->iterations : 0);
}

static void receive_line(struct job_link *link, struct report_line *line) {
    if (line == NULL) {
        log_warn("the controller sent a line of its report that is not JSON; left out");
    } else if (line->is == REPORT_EVENT) {
        read_event(link, line);
    } else if (line->is == REPORT_ITERATION) {
        read_iteration(link, line);
    } else if (line->is == REPORT_SUMMARY) {
        read_summary(link, line);
    }
    report_line_drop(line);
}

/* ---- Requests ---- */

/* A request may be lost. The caller repeats it, and relies only on the end of the notice. */
void job_link_evict(struct job_link *link, const char *const *nodes, size_t count, uint32_t notice_ms) {
    if (count > 0 && count <= WIRE_NODES_MAX) {
        struct message evict = {.type = MESSAGE_EVICT, .evict.notice_ms = notice_ms};
        observer_request_nodes(&link->observer, evict, nodes, count);
    }
}

void job_link_gone(struct job_link *link, const char *const *nodes, size_t count) {
    if (count > 0 && count <= WIRE_NODES_MAX) {
        observer_request_nodes(&link->observer, (struct message){.type = MESSAGE_GONE}, nodes, count);
    }
}

/* Some nodes are unknown, or the job can't do without all of them: repeats the request for each node alone. */
static void request_refused(struct job_link *link, const struct message *message) {
    size_t count;
    const struct wire_name *names = records_names(message, &count);
    if (count == 1) {
        char name[WIRE_NAME_MAX];
        snprintf(name, sizeof name, "%s", names[0].name);
        node_left(link, name, false);
        link->listener.unknown(link->listener.context, name);
        return;
    }
    for (size_t n = 0; n < count; n++) {
        const char *name = names[n].name;
        job_link_evict(link, &name, 1, message->evict.notice_ms);
    }
}

/* ---- Lines for the report ---- */

static void send_note(struct job_link *link) {
    struct link_notes *notes = &link->notes;
    if (notes->count > 0 && notes->request == 0) {
        struct message note = {.type = MESSAGE_NOTE};
        char *text = report_line_text(json_incref(notes->list[0]), true);
        message_add_copy(&note, text, strlen(text));
        free(text);
        notes->request = observer_request(&link->observer, &note);
    }
}

static bool is_money(const json_t *line) {
    return strcmp(json_string_value(json_object_get(line, "type")), "money") == 0;
}

static void drop_note(struct link_notes *notes, size_t index) {
    json_decref(notes->list[index]);
    notes->count--;
    memmove(notes->list + index, notes->list + index + 1, (notes->count - index) * sizeof *notes->list);
}

void job_link_note(struct job_link *link, json_t *line) {
    struct link_notes *notes = &link->notes;
    for (size_t n = notes->request != 0 ? 1 : 0; is_money(line) && n < notes->count; n++) {
        if (is_money(notes->list[n])) {
            drop_note(notes, n);
            break;
        }
    }
    if (notes->count == LINK_NOTES_MAX) {
        if (!notes->full) {
            log_warn("the controller confirms nothing: some of bidbrain's lines are left out of the job's report");
        }
        notes->full = true;
        return;
    }
    notes->list[notes->count++] = json_incref(line);
    send_note(link);
}

/* The controller has the line, or the job is over and its report takes no more lines. */
static void note_answered(struct job_link *link) {
    struct link_notes *notes = &link->notes;
    notes->request = 0;
    drop_note(notes, 0);
    notes->full = notes->full && notes->count > 0;
    send_note(link);
}

static void receive_outcome(struct job_link *link, const struct message_outcome *outcome, struct message *request) {
    if (request->type == MESSAGE_NOTE) {
        note_answered(link);
        message_close(request);
        return;
    }
    bool in_full = outcome->code == 0 && outcome->text[0] == '\0';
    if (!in_full && request->type == MESSAGE_EVICT) {
        request_refused(link, request);
    }
    message_close(request);
}

static void send_expected(struct job_link *link) {
    struct message allocation = {.type = MESSAGE_ALLOCATION};
    message_add_copy(&allocation, link->expected, link->expected_count * sizeof *link->expected);
    observer_withdraw(&link->observer, link->expected_request);
    link->expected_request = observer_request(&link->observer, &allocation);
    link->expected_us = link_now(link);
}

void job_link_expect(struct job_link *link, const struct wire_machine *machines, size_t count) {
    size_t size = count * sizeof *machines;
    count = count < WIRE_NODES_MAX ? count : WIRE_NODES_MAX;
    if (count == link->expected_count && (count == 0 || memcmp(link->expected, machines, size) == 0)) {
        return;
    }
    link->expected = memory_resized(link->expected, count + 1, sizeof *link->expected);
    if (count > 0) {
        memcpy(link->expected, machines, count * sizeof *machines);
    }
    link->expected_count = count;
    send_expected(link);
}

static void ask_status(struct job_link *link) {
    link->status_us = link_now(link);
    link->status_lines = link->observer.lines_read;
    observer_ask_status(&link->observer, 0);
}

static void read_speeds(struct job_link *link, const struct report_line *status) {
    struct job_link_speed *speeds = memory_zeroed(status->nodes.count + 1, sizeof *speeds);
    size_t count = 0;
    for (size_t n = 0; n < status->nodes.count; n++) {
        const struct report_node *node = &status->nodes.list[n];
        if (node->name != NULL && node->slowness_long > 0) {
            speeds[count++] = (struct job_link_speed){node->name, node->slowness_long};
        }
    }
    if (link->listener.speeds != NULL) {
        link->listener.speeds(link->listener.context, speeds, count);
    }
    free(speeds);
}

static void read_stage(struct job_link *link, const struct report_line *status) {
    bool began = isnan(status->waits_for_reliable); /* has the key only before the job begins */
    bool transient = began ? strcmp(status->stage.name, "transient") == 0 : status->waits_for_reliable == 0;
    link->listener.stage(link->listener.context, transient);
}

/* A status says how many lines the report had. When as many lines were read, the report has been read to its end
 * once. */
static void receive_status(struct job_link *link, const struct message *message) {
    struct report_line *status = observer_status(message);
    if (status == NULL) {
        return;
    }
    read_stage(link, status);
    if (link->caught_up) {
        read_speeds(link, status);
    } else if ((double)link->observer.lines_read >= status->lines) { /* false if NaN */
        link->caught_up = true;
    } else if (link->observer.lines_read > link->status_lines) {
        ask_status(link); /* right away while lines come; if the request is lost, job_link_step repeats it */
    }
    report_line_drop(status);
}

bool job_link_caught_up(const struct job_link *link) {
    return link->caught_up;
}

void job_link_step(struct job_link *link) {
    uint64_t now = link_now(link);
    if (link->observer.ended) {
        return;
    }
    observer_ask_lines(&link->observer);
    observer_repeat_requests(&link->observer);
    if (link->expected_us != 0 && now - link->expected_us >= LINK_EXPECT_MS * UINT64_C(1000)) {
        send_expected(link);
    }
    if (link->status_us == 0 || now - link->status_us >= LINK_STATUS_MS * UINT64_C(1000)) {
        ask_status(link);
    }
}

double job_link_silence(const struct job_link *link) {
    return link->heard_us == 0 ? INFINITY : (double)(link_now(link) - link->heard_us) / 1e6;
}

/* ---- The loop ---- */

static void link_receive(void *self, actor_id from, struct message *message) {
    struct job_link *link = self;
    struct message request;
    struct report_line *line;
    if (from != ACTOR_CONTROLLER) {
        return;
    }
    link->heard_us = link_now(link);
    if (observer_take_line(&link->observer, message, &line)) {
        receive_line(link, line);
    } else if (observer_take_outcome(&link->observer, message, &request)) {
        receive_outcome(link, &message->outcome, &request);
    } else if (message->type == MESSAGE_STATUS) {
        receive_status(link, message);
    } else if (message->type == MESSAGE_ABORT && !link->refused) {
        link->refused = true;
        log_error("%s", message->text.text);
    }
}

static void link_timer(void *self) {
    struct job_link *link = self;
    link->listener.timer(link->listener.context);
}

static void link_refused(void *self, const char *endpoint, const char *why) {
    (void)self;
    log_error("the controller at %s: %s", endpoint, why);
}

int job_link_open(struct job_link **opened, const struct job_link_options *options, struct error *error) {
    struct job_link *link = memory_zeroed(1, sizeof *link);
    const struct net_io_options io_options = {
        .self = net_observer_id(),
        .actor = {.receive = link_receive, .timer = link_timer, .self = link},
        .refused = link_refused,
    };
    link->listener = options->listener;
    int code = net_open_by_file(&link->net, options->key, (struct net_options){.insecure = options->insecure}, error);
    code = code != 0 ? code : net_io_open(&link->io, link->net, &io_options, error);
    code = code != 0 ? code : net_io_connect(link->io, ACTOR_CONTROLLER, options->controller, error);
    if (code != 0) {
        job_link_close(link);
        return code;
    }
    observer_open(&link->observer, net_io_of(link->io), 0);
    *opened = link;
    return 0;
}

void job_link_close(struct job_link *link) {
    if (link == NULL) {
        return;
    }
    observer_close(&link->observer);
    while (link->notes.count > 0) {
        drop_note(&link->notes, link->notes.count - 1);
    }
    if (link->io != NULL) {
        net_io_close(link->io);
    }
    if (link->net != NULL) {
        net_close(link->net);
    }
    free(link->expected);
    free(link->nodes);
    free(link);
}

struct net_io *job_link_io(struct job_link *link) {
    return link->io;
}
