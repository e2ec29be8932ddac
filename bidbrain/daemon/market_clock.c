/* See market_clock.h. */
#include "bidbrain/daemon/market_clock.h"

#include "agileml/base/clock.h"
#include "agileml/net/http.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    CLOCK_TRIES = 5,
    CLOCK_TIMEOUT_MS = 2000,
    CLOCK_WAIT_MS = 500,
    CLOCK_MOST_S = 4, /* limit for the start of a try */
    CLOCK_LOOK_MS = 2000,
    CLOCK_APART_S = 900, /* EC2 rejects requests whose time differs by more */
    CLOCK_URL_TEXT = 512,
};

double market_clock_system(void) {
    return clock_seconds(CLOCK_REALTIME);
}

double market_clock_elapsed(void) {
    return clock_seconds(CLOCK_BOOTTIME); /* also counts while the machine sleeps */
}

double market_clock_seconds(const struct market_clock *clock) {
    return clock->base + clock->speed * (market_clock_elapsed() - clock->anchor);
}

struct market_clock market_clock_replay(double now, double speed) {
    return (struct market_clock){.base = now, .anchor = market_clock_elapsed(), .speed = speed};
}

struct market_clock market_clock_real(void) {
    return market_clock_replay(market_clock_system(), 1);
}

struct asking {
    struct market_clock *clock;
    const char *url;
    struct error error;
};

static void take_clock(void *context, const struct http_answer *answer) {
    struct asking *asking = context;
    json_t *object = answer->status == 200 ? json_loadb(answer->body, answer->body_size, 0, NULL) : NULL;
    double seconds = json_number_value(json_object_get(object, "seconds"));
    double speed = json_number_value(json_object_get(object, "speed"));
    json_decref(object);
    if (seconds > 0 && speed > 0) {
        *asking->clock = market_clock_replay(seconds, speed);
        asking->error = (struct error){0};
        return;
    }
    asking->error = (struct error){0};
    if (answer->status == 0) {
        error_set(&asking->error, AML_EFAIL, "clock: no answer from %.200s: %.150s", asking->url, answer->error);
    } else {
        error_set(&asking->error, AML_EINPUT,
                  "clock: %.200s answered with status %d, expected {\"seconds\":..., "
                  "\"speed\":...}",
                  asking->url, answer->status);
    }
}

static int ask(struct market_clock *clock, const char *url, int tries, struct error *error) {
    struct asking asking = {.clock = clock, .url = url};
    struct http *http;
    int code = http_open(&http, error);
    if (code != 0) {
        return code;
    }
    double begun = market_clock_elapsed();
    for (int attempt = 0; attempt < tries && market_clock_elapsed() - begun < CLOCK_MOST_S; attempt++) {
        if (attempt > 0) {
            clock_pause_ms(CLOCK_WAIT_MS);
        }
        const struct http_request request = {.method = "GET", .url = url, .timeout_ms = CLOCK_TIMEOUT_MS};
        http_run(http, http_start(http, &request, take_clock, &asking));
        if (asking.error.code != AML_EFAIL) { /* another try would get the same answer */
            break;
        }
    }
    http_close(http);
    return asking.error.code != 0 ? error_set(error, asking.error.code, "%s", asking.error.text) : 0;
}

int market_clock_ask_once(struct market_clock *clock, const char *url, struct error *error) {
    return ask(clock, url, 1, error);
}

int market_clock_ask(struct market_clock *clock, const char *url, struct error *error) {
    return ask(clock, url, CLOCK_TRIES, error);
}

bool market_clock_differs(const char *endpoint, int64_t *now) {
    char url[CLOCK_URL_TEXT];
    struct market_clock clock = market_clock_real();
    struct asking asking = {.clock = &clock, .url = url};
    struct http *http;
    struct error error = {0};
    size_t length = strlen(endpoint);
    bool slash = length > 0 && endpoint[length - 1] == '/';
    if (snprintf(url, sizeof url, "%s%sclock", endpoint, slash ? "" : "/") >= (int)sizeof url ||
        http_open(&http, &error) != 0) {
        return false;
    }
    const struct http_request request = {.method = "GET", .url = url, .timeout_ms = CLOCK_LOOK_MS};
    http_run(http, http_start(http, &request, take_clock, &asking));
    http_close(http);
    *now = (int64_t)market_clock_seconds(&clock);
    return clock.speed != 1 || fabs(market_clock_seconds(&clock) - market_clock_system()) > CLOCK_APART_S;
}
