/* Polls the cloud's notices. See notice.h. */
#include "workers/process/notice.h"

#include "agileml/base/clock.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static const char NOTICE_ACTION[] = "latest/meta-data/spot/instance-action";
static const char NOTICE_REBALANCE[] = "latest/meta-data/events/recommendations/rebalance";

struct notice {
    struct net_io *io;
    struct notice_hooks hooks;
    struct http *http;
    struct metadata *metadata;
    int timer; /* timerfd, for polls and for http_wait_ms */
    int64_t poll_ms;
    int64_t next_ms; /* of the monotonic clock: the next poll */
    bool asking;
    int64_t end_ms;   /* of the monotonic clock: the earliest end by any notice; 0: there was none */
    bool recommended; /* the cloud has recommended leaving this machine */
    unsigned silent;  /* polls without an answer since the last answer */
    bool warned_silent, warned_off, warned_wrong;
};

/* ---- Whether this is a machine of EC2 ---- */

/* The place of `text`, in upper or lower case, in the file's first bytes; -1: not found. */
static ptrdiff_t notice_find(const char *sys, const char *name, const char *text) {
    char path[512];
    char bytes[128] = "";
    snprintf(path, sizeof path, "%s/%s", sys, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return -1;
    }
    bytes[fread(bytes, 1, sizeof bytes - 1, file)] = '\0';
    fclose(file);
    const char *found = strcasestr(bytes, text);
    return found != NULL ? found - bytes : -1;
}

bool notice_is_likely(const char *sys) {
    const char *endpoint = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *disabled = getenv("AWS_EC2_METADATA_DISABLED");
    sys = sys != NULL ? sys : "/sys";
    if (disabled != NULL && strcasecmp(disabled, "true") == 0) {
        return false;
    }
    return (endpoint != NULL && endpoint[0] != '\0') ||
           notice_find(sys, "class/dmi/id/sys_vendor", "amazon ec2") >= 0 ||
           notice_find(sys, "class/dmi/id/board_vendor", "amazon ec2") >= 0 ||
           notice_find(sys, "class/dmi/id/bios_version", "amazon") >= 0 || /* Xen: "4.11.amazon" */
           notice_find(sys, "hypervisor/uuid", "ec2") == 0;
}

/* ---- The service's answers ---- */

static void notice_warn(struct notice *notice, bool *warned, const char *text) {
    if (!*warned) {
        *warned = true;
        notice->hooks.warn(notice->hooks.context, text);
    }
}

/* Returns the time left, by the service's clock if that is known, as this machine's clock may be wrong. */
static double seconds_left(const struct metadata_answer *answer, const struct metadata_action *action) {
    int64_t now = answer->date > 0 ? answer->date : (int64_t)time(NULL);
    double left_s = answer->seconds_left >= 0 ? answer->seconds_left : (double)(action->time - now);
    return left_s < 0 ? 0 : left_s > 86400 ? 86400 : left_s;
}

static void notice_act(struct notice *notice, const struct metadata_answer *answer) {
    struct metadata_action action;
    struct error error = {0};
    char text[NOTICE_TEXT_MAX];
    if (metadata_parse_action(answer->body, answer->size, &action, &error) != 0) {
        notice_warn(notice, &notice->warned_wrong, error.text);
        return;
    }
    double left_s = seconds_left(answer, &action);
    int64_t end_ms = monotonic_ms() + (int64_t)(left_s * 1000);
    if (notice->end_ms != 0 && end_ms > notice->end_ms - 1000) {
        return; /* the same notice, within the precision of whole seconds */
    }
    notice->end_ms = end_ms;
    snprintf(text, sizeof text, "the cloud takes this machine away in %.0f s (%s)", left_s, action.action);
    notice->hooks.leave(notice->hooks.context, (uint32_t)(left_s * 1000), text);
}

static void notice_poll_ended(struct notice *notice, enum metadata_result result) {
    notice->asking = false;
    if (result == METADATA_OFF) {
        notice_warn(notice, &notice->warned_off,
                    "the instance metadata service is switched off: the cloud's notices are not seen here");
        notice->next_ms = monotonic_ms() + (notice->poll_ms > NOTICE_SLOW_MS ? notice->poll_ms : NOTICE_SLOW_MS);
        return;
    }
    if (result != METADATA_UNREACHABLE) {
        notice->silent = 0;
        return;
    }
    if (++notice->silent < NOTICE_TRIES) {
        return;
    }
    notice_warn(notice, &notice->warned_silent,
                "the instance metadata service does not answer: the cloud's notices are not seen here");
    int64_t pause_ms = notice->poll_ms * (notice->silent / NOTICE_TRIES + 1);
    pause_ms = pause_ms > NOTICE_SLOW_MS ? NOTICE_SLOW_MS : pause_ms;
    notice->next_ms = monotonic_ms() + (pause_ms > notice->poll_ms ? pause_ms : notice->poll_ms);
}

static void notice_rebalance_answered(void *context, const struct metadata_answer *answer) {
    struct notice *notice = context;
    if (answer->result == METADATA_FOUND && !notice->recommended) {
        notice->recommended = true;
        notice->hooks.rebalance(notice->hooks.context,
                                "the cloud recommends to leave this machine: it is at more risk than"
                                " others to be taken away");
    }
    notice_poll_ended(notice, answer->result);
}

static void notice_action_answered(void *context, const struct metadata_answer *answer) {
    struct notice *notice = context;
    if (answer->result == METADATA_FOUND) {
        notice_act(notice, answer);
    }
    if (notice->recommended || answer->result == METADATA_OFF || answer->result == METADATA_UNREACHABLE) {
        notice_poll_ended(notice, answer->result);
    } else {
        metadata_get(notice->metadata, NOTICE_REBALANCE, notice_rebalance_answered, notice);
    }
}

/* ---- The loop ---- */

static void notice_set_timer(struct notice *notice) {
    int64_t wait_ms = -1;
    if (!notice->asking) {
        int64_t left_ms = notice->next_ms - monotonic_ms();
        wait_ms = left_ms > 0 ? left_ms : 0;
    }
    int http_ms = http_wait_ms(notice->http);
    if (http_ms >= 0 && (wait_ms < 0 || http_ms < wait_ms)) {
        wait_ms = http_ms;
    }
    struct itimerspec timer = {0};
    if (wait_ms >= 0) { /* 0 would stop the timer */
        timer.it_value = (struct timespec){.tv_sec = (time_t)(wait_ms / 1000), .tv_nsec = wait_ms % 1000 * 1000000 + 1};
    }
    (void)timerfd_settime(notice->timer, 0, &timer, NULL);
}

static void notice_step(void *context) {
    struct notice *notice = context;
    uint64_t times;
    (void)!read(notice->timer, &times, sizeof times);
    http_step(notice->http);
    int64_t now_ms = monotonic_ms();
    if (!notice->asking && now_ms >= notice->next_ms) {
        notice->asking = true;
        notice->next_ms = now_ms + notice->poll_ms;
        metadata_get(notice->metadata, NOTICE_ACTION, notice_action_answered, notice);
    }
    notice_set_timer(notice);
}

int notice_open(struct notice **notice, struct net_io *io, uint32_t poll_ms, const struct notice_hooks *hooks,
                struct error *error) {
    struct notice *new = memory_zeroed(1, sizeof *new);
    *new = (struct notice){
        .io = io, .hooks = *hooks, .poll_ms = poll_ms < NOTICE_POLL_MS_MIN ? NOTICE_POLL_MS_MIN : poll_ms};
    *notice = NULL;
    new->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int code = new->timer < 0 ? error_set(error, AML_EFAIL, "timerfd: %s", strerror(errno)) : 0;
    code = code != 0 ? code : http_open(&new->http, error);
    code = code != 0 ? code : metadata_open(&new->metadata, new->http, NULL, error);
    if (code == 0 && (net_io_watch(io, new->timer, notice_step, new) != 0 ||
                      net_io_watch(io, http_fd(new->http), notice_step, new) != 0)) {
        code = error_set(error, AML_EFAIL, "can't watch a descriptor");
    }
    if (code != 0) {
        notice_close(new);
        return code;
    }
    new->next_ms = monotonic_ms();
    notice_set_timer(new);
    *notice = new;
    return 0;
}

void notice_close(struct notice *notice) {
    if (notice == NULL) {
        return;
    }
    if (notice->timer >= 0) {
        (void)net_io_watch(notice->io, notice->timer, NULL, NULL);
        close(notice->timer);
    }
    if (notice->http != NULL) {
        (void)net_io_watch(notice->io, http_fd(notice->http), NULL, NULL);
    }
    metadata_close(notice->metadata);
    http_close(notice->http);
    free(notice);
}

/* ---- After the job ---- */

struct stay {
    enum metadata_result result;
    bool answered;
    double left_s; /* METADATA_FOUND */
};

static void stay_answered(void *context, const struct metadata_answer *answer) {
    struct stay *stay = context;
    struct metadata_action action;
    struct error error = {0};
    stay->answered = true;
    stay->result = answer->result;
    if (answer->result == METADATA_FOUND && metadata_parse_action(answer->body, answer->size, &action, &error) == 0) {
        stay->left_s = seconds_left(answer, &action);
    } else if (answer->result == METADATA_FOUND) {
        stay->result = METADATA_NOTHING;
    }
}

/* Sends one request and waits for the answer. */
static void stay_ask(struct http *http, struct metadata *metadata, struct stay *stay) {
    stay->answered = false;
    metadata_get(metadata, NOTICE_ACTION, stay_answered, stay);
    while (!stay->answered) {
        struct pollfd ready = {.fd = http_fd(http), .events = POLLIN};
        poll(&ready, 1, http_wait_ms(http));
        http_step(http);
    }
}

void notice_stay(void) {
    struct stay stay = {.result = METADATA_UNREACHABLE};
    struct http *http = NULL;
    struct metadata *metadata = NULL;
    struct error error = {0};
    bool open = http_open(&http, &error) == 0 && metadata_open(&metadata, http, NULL, &error) == 0;
    int64_t end_ms = monotonic_ms() + NOTICE_STAY_ASK_MS;
    while (open && stay.result == METADATA_UNREACHABLE && monotonic_ms() < end_ms) {
        stay_ask(http, metadata, &stay);
        if (stay.result == METADATA_UNREACHABLE) {
            clock_pause_ms(NOTICE_STAY_PAUSE_MS);
        }
    }
    metadata_close(metadata);
    http_close(http);
    if (stay.result == METADATA_FOUND) {
        log_warn("the job goes on without this machine, which stays until the cloud takes it, in %.0f s", stay.left_s);
        sleep((unsigned)stay.left_s + NOTICE_STAY_S);
    }
}
