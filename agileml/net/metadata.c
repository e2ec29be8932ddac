/* See metadata.h. Calls that need a token wait for one request for it, and share its answer. */
#include "agileml/net/metadata.h"

#include "agileml/base/clock.h"
#include "agileml/base/instant.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char METADATA_IPV4[] = "http://169.254.169.254";
static const char METADATA_IPV6[] = "http://[fd00:ec2::254]";
static const char METADATA_TOKEN_NAME[] = "X-aws-ec2-metadata-token: ";

struct metadata_call {
    struct metadata *metadata;
    struct metadata_call *next;
    struct http_call *request; /* for the document; NULL: waits for a token */
    unsigned token_number;     /* of the token with which the request was made */
    bool renewed;              /* a 401 was answered before, for which a new token was requested */
    metadata_done *done;
    void *context;
    char path[];
};

struct metadata {
    struct http *http;
    char endpoint[METADATA_ENDPOINT_MAX]; /* without a slash at its end */
    bool disabled;
    char token[METADATA_TOKEN_MAX];  /* "": none */
    int64_t token_until_s;           /* on the monotonic clock */
    unsigned token_number;           /* counts the tokens received */
    struct http_call *token_request; /* NULL: none is under way */
    struct metadata_call *calls;
};

static int64_t metadata_now_s(void) {
    return (int64_t)clock_seconds(CLOCK_BOOTTIME); /* a token expires also while the machine sleeps */
}

/* ---- Opening and closing ---- */

static const char *metadata_environment(void) {
    const char *endpoint = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *mode = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    if (endpoint != NULL && endpoint[0] != '\0') {
        return endpoint;
    }
    return mode != NULL && strcasecmp(mode, "ipv6") == 0 ? METADATA_IPV6 : METADATA_IPV4;
}

/* Whether the text is http://HOST... or https://HOST..., without blanks, a query or a fragment. */
static bool metadata_is_url(const char *url) {
    size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    bool host = scheme > 0 && url[scheme] != '\0' && url[scheme] != '/' && url[scheme] != ':';
    for (const char *c = url; *c != '\0'; c++) {
        host &= *c > ' ' && *c < 0x7F && *c != '?' && *c != '#';
    }
    return host;
}

int metadata_open(struct metadata **metadata, struct http *http, const char *endpoint, struct error *error) {
    const char *url = endpoint != NULL ? endpoint : metadata_environment();
    const char *disabled = getenv("AWS_EC2_METADATA_DISABLED");
    *metadata = NULL;
    if (!metadata_is_url(url) || strlen(url) >= METADATA_ENDPOINT_MAX) {
        return error_set(error, AML_EINPUT, "%s '%.80s': expected http://HOST, perhaps with a port and a path",
                         endpoint != NULL ? "the metadata service" : "AWS_EC2_METADATA_SERVICE_ENDPOINT", url);
    }
    struct metadata *new = memory_zeroed(1, sizeof *new);
    new->http = http;
    strcpy(new->endpoint, url);
    for (size_t size = strlen(url); size > 0 && new->endpoint[size - 1] == '/'; size--) {
        new->endpoint[size - 1] = '\0';
    }
    new->disabled = disabled != NULL &&strcasecmp(disabled, "true") == 0;
    *metadata = new;
    return 0;
}

void metadata_close(struct metadata *metadata) {
    if (metadata == NULL) {
        return;
    }
    if (metadata->token_request != NULL) {
        http_cancel(metadata->http, metadata->token_request);
    }
    while (metadata->calls != NULL) {
        struct metadata_call *call = metadata->calls;
        metadata->calls = call->next;
        if (call->request != NULL) {
            http_cancel(metadata->http, call->request);
        }
        free(call);
    }
    explicit_bzero(metadata->token, sizeof metadata->token);
    free(metadata);
}

/* ---- Tokens ---- */

/* Ends a call that was removed from the list. */
static void metadata_call_end(struct metadata_call *call, const struct metadata_answer *answer) {
    call->done(call->context, answer);
    free(call);
}

static void metadata_fetch(struct metadata_call *call);

/* Sends the calls that wait for a token, or ends them if there is none. Removes them from the list before calling their
 * `done`, which may start other calls. */
static void metadata_token_decided(struct metadata *metadata, enum metadata_result result) {
    struct metadata_call *waiting = NULL;
    struct metadata_call **last = &waiting;
    for (struct metadata_call **link = &metadata->calls; *link != NULL;) {
        struct metadata_call *call = *link;
        if (call->request != NULL) {
            link = &call->next;
        } else if (result == METADATA_FOUND) {
            metadata_fetch(call);
            link = &call->next;
        } else {
            *link = call->next;
            call->next = NULL;
            *last = call;
            last = &call->next;
        }
    }
    while (waiting != NULL) {
        struct metadata_call *call = waiting;
        waiting = call->next;
        metadata_call_end(call, &(struct metadata_answer){.result = result, .body = "", .seconds_left = -1});
    }
}

/* Whether the text is one word that a header can contain. */
static bool metadata_is_token(const char *text, size_t size) {
    bool good = size > 0 && size < METADATA_TOKEN_MAX;
    for (size_t i = 0; i < size && good; i++) {
        good = text[i] > ' ' && text[i] < 0x7F;
    }
    return good;
}

static void metadata_token_answered(void *context, const struct http_answer *answer) {
    struct metadata *metadata = context;
    metadata->token_request = NULL;
    if (answer->status == 200 && metadata_is_token(answer->body, answer->body_size)) {
        char seconds[16];
        long lives = METADATA_TOKEN_S;
        if (http_header(answer, "X-aws-ec2-metadata-token-ttl-seconds", seconds, sizeof seconds)) {
            lives = strtol(seconds, NULL, 10);
        }
        lives = lives < 1 ? 1 : lives > METADATA_TOKEN_S ? METADATA_TOKEN_S : lives;
        memcpy(metadata->token, answer->body, answer->body_size + 1);
        metadata->token_until_s =
            metadata_now_s() + (lives > 2 * METADATA_TOKEN_EARLY_S ? lives - METADATA_TOKEN_EARLY_S : lives / 2);
        metadata->token_number++;
        metadata_token_decided(metadata, METADATA_FOUND);
    } else {
        metadata_token_decided(metadata, answer->status == 403 ? METADATA_OFF : METADATA_UNREACHABLE);
    }
}

static void metadata_want_token(struct metadata *metadata) {
    char url[METADATA_ENDPOINT_MAX + 32];
    char lives[64];
    if (metadata->token_request != NULL) {
        return;
    }
    snprintf(url, sizeof url, "%s/latest/api/token", metadata->endpoint);
    snprintf(lives, sizeof lives, "X-aws-ec2-metadata-token-ttl-seconds: %d", METADATA_TOKEN_S);
    struct http_request request = {.method = "PUT",
                                   .url = url,
                                   .headers = {lives},
                                   .timeout_ms = METADATA_TIMEOUT_MS,
                                   .answer_max = METADATA_TOKEN_MAX};
    metadata->token_request = http_start(metadata->http, &request, metadata_token_answered, metadata);
}

/* ---- Documents ---- */

static void metadata_call_remove(struct metadata_call *call) {
    struct metadata_call **link = &call->metadata->calls;
    while (*link != call) {
        assert(*link != NULL);
        link = &(*link)->next;
    }
    *link = call->next;
}

/* Sends the call with the present token, or requests a token first. */
static void metadata_go_on(struct metadata_call *call) {
    struct metadata *metadata = call->metadata;
    if (metadata->token[0] != '\0' && metadata_now_s() < metadata->token_until_s) {
        metadata_fetch(call);
    } else {
        metadata_want_token(metadata);
    }
}

static double metadata_seconds_left(const struct http_answer *answer) {
    char text[32];
    char *end;
    double seconds = http_header(answer, "X-Proteus-Seconds-Left", text, sizeof text) ? strtod(text, &end) : -1;
    return seconds >= 0 && seconds < 1e9 && *end == '\0' && end != text ? seconds : -1;
}

static void metadata_answered(void *context, const struct http_answer *answer) {
    struct metadata_call *call = context;
    struct metadata *metadata = call->metadata;
    call->request = NULL;
    if (answer->status == 401 && !call->renewed) {
        call->renewed = true;
        if (call->token_number == metadata->token_number) { /* else another call has renewed the token meanwhile */
            metadata->token[0] = '\0';
        }
        metadata_go_on(call);
        return;
    }
    struct metadata_answer result = {
        .result = METADATA_UNREACHABLE, .body = "", .date = answer->date, .seconds_left = -1};
    if (answer->status == 200) {
        result.result = METADATA_FOUND;
        result.body = answer->body;
        result.size = answer->body_size;
        result.seconds_left = metadata_seconds_left(answer);
    } else if (answer->status == 403 || answer->status == 404) {
        result.result = answer->status == 403 ? METADATA_OFF : METADATA_NOTHING;
    }
    metadata_call_remove(call);
    metadata_call_end(call, &result);
}

static void metadata_fetch(struct metadata_call *call) {
    struct metadata *metadata = call->metadata;
    size_t size = strlen(metadata->endpoint) + strlen(call->path) + 2;
    char *url = memory_zeroed(size, 1);
    char token[METADATA_TOKEN_MAX + sizeof METADATA_TOKEN_NAME];
    snprintf(url, size, "%s/%s", metadata->endpoint, call->path);
    snprintf(token, sizeof token, "%s%s", METADATA_TOKEN_NAME, metadata->token);
    struct http_request request = {.method = "GET",
                                   .url = url,
                                   .headers = {token},
                                   .timeout_ms = METADATA_TIMEOUT_MS,
                                   .answer_max = METADATA_ANSWER_MAX};
    call->token_number = metadata->token_number;
    call->request = http_start(metadata->http, &request, metadata_answered, call);
    explicit_bzero(token, sizeof token);
    free(url);
}

void metadata_get(struct metadata *metadata, const char *path, metadata_done *done, void *context) {
    if (metadata->disabled) {
        done(context, &(struct metadata_answer){.result = METADATA_OFF, .body = "", .seconds_left = -1});
        return;
    }
    size_t size = strlen(path) + 1;
    struct metadata_call *call = memory_zeroed(1, sizeof *call + size);
    *call = (struct metadata_call){.metadata = metadata, .next = metadata->calls, .done = done, .context = context};
    memcpy(call->path, path, size);
    metadata->calls = call;
    metadata_go_on(call);
}

/* ---- The notice ---- */

int metadata_parse_action(const char *body, size_t size, struct metadata_action *action, struct error *error) {
    static const char *const actions[] = {"terminate", "stop", "hibernate"};
    json_error_t wrong;
    memset(action, 0, sizeof *action);
    json_t *root = size <= METADATA_ACTION_BODY_MAX ? json_loadb(body, size, JSON_REJECT_DUPLICATES, &wrong) : NULL;
    const char *name = json_string_value(json_object_get(root, "action"));
    const char *time = json_string_value(json_object_get(root, "time"));
    for (unsigned i = 0; i < sizeof actions / sizeof actions[0] && name != NULL; i++) {
        if (strcmp(name, actions[i]) == 0) {
            strcpy(action->action, name);
        }
    }
    bool good = action->action[0] != '\0' && time != NULL && instant_parse(time, &action->time);
    json_decref(root);
    if (good) {
        return 0;
    }
    memset(action, 0, sizeof *action);
    return error_set(error, AML_EINPUT,
                     "spot/instance-action is '%.*s': expected "
                     "{\"action\":\"terminate\", \"stop\" or \"hibernate\",\"time\":\"2017-09-18T08:22:00Z\"}",
                     size < 100 ? (int)size : 100, body);
}
