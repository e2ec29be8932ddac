/* The HTTP server of `bidbrain run --http` (web/server.h). Shows bidbrain's lines `money` and `decision`, its status
 * and its metrics. The history lasts as long as the state; its file is STATE-history. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void wake(void *context) {
    const struct daemon *daemon = context;
    const uint64_t one = 1;
    (void)!write(daemon->page.wake_fd, &one, sizeof one); /* fails only if a wake-up is already pending */
}

static void woken(void *context) {
    struct daemon *daemon = context;
    uint64_t count;
    if (read(daemon->page.wake_fd, &count, sizeof count) > 0) {
        daemon_page_step(daemon);
    }
}

/* Finds the history's file. Removes it if it belongs to an earlier state. */
static int open_history(struct daemon *daemon, char path[PATH_MAX], struct error *error) {
    const char *state = daemon->config->state;
    int code = ledger_value(daemon->ledger, "page-began", &daemon->page.began, error);
    if (code != 0 || snprintf(path, PATH_MAX, "%s-history", state) >= PATH_MAX) {
        return code != 0 ? code : error_set(error, AML_EINPUT, "state %.200s: the path is too long", state);
    }
    if (daemon->page.began != 0) {
        return 0;
    }
    if (unlink(path) != 0 && errno != ENOENT) {
        return error_set(error, AML_EINPUT, "can't remove %.200s: %s", path, strerror(errno));
    }
    daemon->page.began = (double)daemon_now(daemon);
    return ledger_put_value(daemon->ledger, "page-began", daemon->page.began, error);
}

int daemon_page_open(struct daemon *daemon, struct error *error) {
    struct daemon_page *page = &daemon->page;
    struct web_options options = daemon->options->http;
    char history[PATH_MAX];
    if (options.listen == NULL) {
        return 0;
    }
    int code = open_history(daemon, history, error);
    if (code != 0) {
        return code;
    }
    page->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (page->wake_fd < 0 || net_io_watch(job_link_io(daemon->link), page->wake_fd, woken, daemon) != 0) {
        return error_set(error, AML_EFAIL, "can't wait for the page's server");
    }
    options.subject = WEB_MONEY;
    options.history = history;
    options.wake = wake;
    options.context = daemon;
    code = web_open(&page->web, &options, error);
    if (code == 0) {
        page->lines = web_next(page->web);
        log_info("page at %s", web_address(page->web));
        if (!daemon->options->quiet) {
            printf("page at %s\n", web_address(page->web));
            fflush(stdout);
        }
    }
    return code;
}

void daemon_page_close(struct daemon *daemon) {
    struct daemon_page *page = &daemon->page;
    web_close(page->web);
    page->web = NULL;
    if (page->wake_fd > 0) {
        net_io_watch(job_link_io(daemon->link), page->wake_fd, NULL, NULL);
        close(page->wake_fd);
    }
    json_decref(page->money);
}

void daemon_page_step(struct daemon *daemon) {
    struct web *web = daemon->page.web;
    if (web == NULL) {
        return;
    }
    web_ready(web, daemon->loop.phase == DAEMON_RUN && daemon->market.priced);
    web_alive(web);
    if (web_wants_status(web)) {
        json_t *status = daemon_status_json(daemon);
        char *text = json_dumps(status, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
        web_status(web, text, strlen(text), 0);
        free(text);
        json_decref(status);
    }
}
