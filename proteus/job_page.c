/* See job_page.h. */
#include "proteus/job_page.h"

#include "agileml/base/memory.h"
#include "agileml/control/state/report.h"
#include "agileml/wire/records.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- The controller's io ---- */

static struct job_page *page_of(struct io *io) {
    return (struct job_page *)(void *)((char *)io - offsetof(struct job_page, io));
}

static uint64_t page_now_us(struct io *io) {
    struct io *inner = page_of(io)->inner;
    return inner->now_us(inner);
}

static uint64_t page_random(struct io *io) {
    struct io *inner = page_of(io)->inner;
    return inner->random(inner);
}

static void page_send(struct io *io, actor_id to, struct message *message) {
    struct job_page *page = page_of(io);
    if (to != page->self) {
        page->inner->send(page->inner, to, message);
        return;
    }
    if (message->type == MESSAGE_OUTCOME && page->web != NULL) {
        web_answer(page->web, message->outcome.request, message->outcome.code, message->outcome.text);
    }
    message_close(message);
}

static void page_set_timer(struct io *io, uint64_t at_us) {
    struct io *inner = page_of(io)->inner;
    inner->set_timer(inner, at_us);
}

static void page_connect(struct io *io, actor_id actor, const char *endpoint) {
    struct io *inner = page_of(io)->inner;
    inner->connect(inner, actor, endpoint);
}

static void page_admit(struct io *io, const struct wire_node *nodes, size_t count) {
    struct io *inner = page_of(io)->inner;
    inner->admit(inner, nodes, count);
}

static void page_dial(struct io *io, actor_id actor, const char *endpoint) {
    struct io *inner = page_of(io)->inner;
    inner->dial(inner, actor, endpoint);
}

static uint64_t page_token_of(struct io *io, actor_id actor) {
    struct io *inner = page_of(io)->inner;
    return inner->token_of(inner, actor);
}

static void page_revoke(struct io *io, const uint64_t *serials, size_t count) {
    struct io *inner = page_of(io)->inner;
    inner->revoke(inner, serials, count);
}

void job_page_begin(struct job_page *page, struct io *inner, struct controller *controller) {
    *page = (struct job_page){.io = {.now_us = page_now_us,
                                     .random = page_random,
                                     .send = page_send,
                                     .set_timer = page_set_timer,
                                     .connect = page_connect,
                                     .admit = page_admit,
                                     .dial = page_dial,
                                     .token_of = inner->token_of != NULL ? page_token_of : NULL,
                                     .revoke = inner->revoke != NULL ? page_revoke : NULL},
                              .inner = inner,
                              .self = net_observer_id(),
                              .wake_fd = -1,
                              .controller = controller};
}

/* ---- Requests ---- */

static void request(struct job_page *page, struct message *message) {
    controller_receive(page->controller, page->self, message);
    message_close(message);
}

static void carry_out(struct job_page *page, const struct web_action *action) {
    struct message message = {0};
    char *names;
    switch (action->kind) {
    case WEB_EVICT:
        message.type = MESSAGE_EVICT;
        message.evict = (struct message_evict){.request = action->number, .notice_ms = action->notice_ms};
        names = memory_zeroed(action->node_count, WIRE_NAME_MAX);
        for (size_t n = 0; n < action->node_count; n++) {
            snprintf(names + n * WIRE_NAME_MAX, WIRE_NAME_MAX, "%s", action->nodes[n]);
        }
        message_add_copy(&message, names, action->node_count * WIRE_NAME_MAX);
        free(names);
        request(page, &message);
        break;
    case WEB_CHECKPOINT:
        message.type = MESSAGE_CHECKPOINT_NOW;
        message.checkpoint_now.request = action->number;
        request(page, &message);
        break;
    default:
        message.type = MESSAGE_STOP;
        if (action->now) {
            message.text.code = AML_ESTOP;
            snprintf(message.text.text, sizeof message.text.text, "stopped by a request to its page");
        }
        request(page, &message);
        web_answer(page->web, action->number, 0, "the job ends soon");
    }
}

/* Answers the server's requests. Called when the server has woken this thread, and after each callback. */
static void serve(struct job_page *page) {
    struct web_action action;
    while (web_take_action(page->web, &action)) {
        carry_out(page, &action);
        web_action_close(&action);
    }
    if (web_wants_status(page->web)) {
        char *status = report_status(page->controller);
        web_status(page->web, status, strlen(status), page->controller->member_count);
        free(status);
    }
}

static void woken(void *context) {
    struct job_page *page = context;
    uint64_t count;
    if (read(page->wake_fd, &count, sizeof count) > 0) {
        job_page_step(page);
    }
}

static void wake(void *context) {
    const struct job_page *page = context;
    const uint64_t one = 1;
    (void)!write(page->wake_fd, &one, sizeof one); /* fails only if a wake-up is already pending */
}

/* Passes on the lines of the report that the server lacks. */
static void fill(void *context, struct web *web) {
    struct job_page *page = context;
    const struct controller *controller = page->controller;
    for (; page->lines < controller->report.stored; page->lines++) {
        const char *line = controller_line(controller, page->lines);
        if (line != NULL) {
            web_line(web, page->lines, line, strlen(line));
        }
    }
}

void job_page_step(struct job_page *page) {
    const struct controller *controller = page->controller;
    if (page->web == NULL) {
        return;
    }
    fill(page, page->web);
    web_ready(page->web, controller->phase == PHASE_TRAIN);
    web_alive(page->web);
    serve(page);
}

/* ---- Life cycle ---- */

int job_page_open(struct job_page *page, struct net_io *io, struct web_options options, const char *store,
                  struct error *error) {
    char history[PATH_MAX];
    if (options.listen == NULL) {
        return 0;
    }
    if (store != NULL) {
        int size = snprintf(history, sizeof history, "%s-history", store);
        if (size >= (int)sizeof history) {
            return error_set(error, AML_EINPUT, "--store %.200s: the path is too long", store);
        }
        if (page->controller->report.count == 0 && unlink(history) != 0 && errno != ENOENT) { /* from an earlier job */
            return error_set(error, AML_EINPUT, "can't remove %.200s: %s", history, strerror(errno));
        }
        options.history = history;
    }
    options.fill = fill;
    options.wake = wake;
    options.context = page;
    page->lines = page->controller->report.first; /* includes the lines in the history's file: streams may lack them */
    page->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (page->wake_fd < 0 || net_io_watch(io, page->wake_fd, woken, page) != 0) {
        return error_set(error, AML_EFAIL, "can't wait for the page's server");
    }
    int result = web_open(&page->web, &options, error);
    if (result == 0) {
        job_page_step(page);
    }
    return result;
}

void job_page_close(struct job_page *page, struct net_io *io) {
    web_close(page->web);
    page->web = NULL;
    if (page->wake_fd >= 0) {
        net_io_watch(io, page->wake_fd, NULL, NULL);
        close(page->wake_fd);
        page->wake_fd = -1;
    }
}
