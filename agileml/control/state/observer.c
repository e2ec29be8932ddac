/* See observer.h. */
#include "agileml/control/state/observer.h"

#include "agileml/base/memory.h"
#include "agileml/wire/records.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void observer_open(struct observer *observer, struct io *io, uint64_t from) {
    *observer = (struct observer){.io = io, .lines_read = from, .lines_asked = from};
}

void observer_close(struct observer *observer) {
    for (size_t r = 0; r < observer->request_count; r++) {
        message_close(&observer->requests[r]);
    }
    free(observer->requests);
    *observer = (struct observer){0};
}

/* ---- Asking ---- */

void observer_ask_lines(struct observer *observer) {
    struct message observe = {.type = MESSAGE_OBSERVE, .observe = {.from = observer->lines_read}};
    observer->lines_asked = observer->lines_read;
    observer->io->send(observer->io, ACTOR_CONTROLLER, &observe);
}

void observer_ask_status(struct observer *observer, uint64_t request) {
    struct message status = {.type = MESSAGE_STATUS, .status.request = request};
    message_add_copy(&status, NULL, 0);
    observer->io->send(observer->io, ACTOR_CONTROLLER, &status);
}

static uint64_t *request_number(struct message *request) {
    switch (request->type) {
    case MESSAGE_ALLOCATION:
        return &request->allocation.request;
    case MESSAGE_CHECKPOINT_NOW:
        return &request->checkpoint_now.request;
    case MESSAGE_GONE:
        return &request->gone.request;
    case MESSAGE_NOTE:
        return &request->note.request;
    case MESSAGE_REVOKE:
        return &request->revoke.request;
    default:
        assert(request->type == MESSAGE_EVICT);
        return &request->evict.request;
    }
}

static void send_request(struct observer *observer, const struct message *request) {
    struct message copy = message_share(request);
    observer->io->send(observer->io, ACTOR_CONTROLLER, &copy);
}

uint64_t observer_request(struct observer *observer, struct message *request) {
    if (observer->ended || observer->request_count == OBSERVER_REQUESTS_MAX) {
        message_close(request);
        return 0;
    }
    *request_number(request) = ++observer->requests_made;
    observer->requests = memory_resized(observer->requests, observer->request_count + 1, sizeof *observer->requests);
    observer->requests[observer->request_count++] = *request;
    send_request(observer, request);
    return observer->requests_made;
}

uint64_t observer_request_nodes(struct observer *observer, struct message request, const char *const *nodes,
                                size_t count) {
    char *names = memory_zeroed(count, WIRE_NAME_MAX);
    for (size_t n = 0; n < count; n++) {
        snprintf(names + n * WIRE_NAME_MAX, WIRE_NAME_MAX, "%s", nodes[n]);
    }
    message_add_copy(&request, names, count * WIRE_NAME_MAX);
    free(names);
    return observer_request(observer, &request);
}

void observer_repeat_requests(struct observer *observer) {
    for (size_t r = 0; r < observer->request_count && !observer->ended; r++) {
        send_request(observer, &observer->requests[r]);
    }
}

static bool take_request(struct observer *observer, uint64_t number, struct message *request) {
    for (size_t r = 0; r < observer->request_count; r++) {
        if (*request_number(&observer->requests[r]) == number) {
            if (request != NULL) {
                *request = observer->requests[r];
            } else {
                message_close(&observer->requests[r]);
            }
            observer->requests[r] = observer->requests[--observer->request_count];
            return true;
        }
    }
    return false;
}

void observer_withdraw(struct observer *observer, uint64_t number) {
    take_request(observer, number, NULL);
}

/* ---- Answers ---- */

bool observer_take_outcome(struct observer *observer, const struct message *message, struct message *request) {
    return message->type == MESSAGE_OUTCOME && take_request(observer, message->outcome.request, request);
}

bool observer_take_line(struct observer *observer, const struct message *message, struct report_line **line) {
    if (message->type != MESSAGE_REPORT || observer->ended) {
        return false;
    }
    uint64_t number = message->report.number;
    if (observer->lines_read == OBSERVER_AT_END) {
        observer->lines_read = observer->lines_asked = number;
    } else if (number < observer->lines_read || (number > observer->lines_read && number != message->report.oldest)) {
        return false; /* the observer requests the missing lines */
    }
    size_t size;
    const char *text = records_text(message, &size);
    *line = report_line_read(text, size, NULL);
    observer->lines_read = number + 1;
    observer->ended = *line != NULL && (*line)->is == REPORT_SUMMARY;
    if (observer->ended || observer->lines_read - observer->lines_asked >= OBSERVER_BURST) {
        observer_ask_lines(observer); /* also shows the controller, which waits for this, that the lines have arrived */
    }
    return true;
}

struct report_line *observer_status(const struct message *message) {
    size_t size;
    const char *text = records_text(message, &size);
    return report_line_read(text, size, NULL);
}
