/* See ec2.h. A call is due (it waits for its time and for room in its bucket), then waits for credentials, then is
 * sent. After that it is due again, or has ended. Only ec2_tell reports ended calls to callers, so that callers may
 * start other calls there. */
#include "bidbrain/cloud/aws/ec2.h"

#include "agileml/base/clock.h"
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/cloud/credentials.h"
#include "agileml/cloud/service_endpoint.h"
#include "agileml/cloud/sigv4.h"
#include "agileml/net/http.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

enum { EC2_REGION_TEXT = 64, EC2_ENDPOINT_TEXT = 300 };

enum ec2_call_state { EC2_CALL_DUE, EC2_CALL_CREDENTIALS, EC2_CALL_SENT, EC2_CALL_ENDED };

struct ec2_call {
    struct ec2_call *next;
    struct ec2 *ec2;
    struct ec2_request *request;
    ec2_done *done;
    void *context;
    enum ec2_call_state state;
    uint64_t at_us;       /* EC2_CALL_DUE: earliest time of the next attempt */
    unsigned attempts;    /* attempts begun */
    bool uncertain;       /* EC2 may have carried out a failed attempt */
    struct xml_tree *xml; /* EC2_CALL_ENDED: the answer; NULL after a failure */
    struct ec2_failure failure;
    bool refused;
};

struct ec2 {
    struct http *http;
    struct credentials *credentials;
    bool asking; /* credentials have been requested */
    char region[EC2_REGION_TEXT];
    char url[EC2_ENDPOINT_TEXT + 16], host[EC2_ENDPOINT_TEXT];
    unsigned attempts;
    uint32_t timeout_ms, delay_ms;
    int64_t skew_s;  /* assumed lead of EC2's clock over ours */
    int64_t ahead_s; /* lead of EC2's clock over ours, by the last answer with a date */
    bool dated;      /* an answer had a date */
    struct ec2_throttle throttle;
    struct ec2_call *calls; /* in the order of their start */
    size_t call_count;
    uint64_t random;
};

/* ---- Opening ---- */

static int ec2_choose_region(struct ec2 *ec2, const char *wanted, struct error *error) {
    const char *region = wanted != NULL ? wanted : credentials_region(ec2->credentials);
    if (region == NULL || region[0] == '\0') {
        return error_set(error, AML_EINPUT,
                         "no AWS region: expected \"region\" in the configuration, AWS_REGION, or one "
                         "in the profile");
    }
    if (strlen(region) >= sizeof ec2->region ||
        strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(region)) {
        return error_set(error, AML_EINPUT, "'%.60s' is not an AWS region, expected one such as us-east-1", region);
    }
    strcpy(ec2->region, region);
    return 0;
}

static int ec2_choose_endpoint(struct ec2 *ec2, const char *wanted, struct error *error) {
    const char *endpoint = wanted != NULL ? wanted : credentials_endpoint(ec2->credentials);
    char own[EC2_ENDPOINT_TEXT];
    if (endpoint == NULL || endpoint[0] == '\0') {
        char host[EC2_ENDPOINT_TEXT - 8];
        service_aws_host("ec2", ec2->region, credentials_variant(ec2->credentials), host, sizeof host);
        snprintf(own, sizeof own, "https://%s", host);
        endpoint = own;
    }
    int result = service_endpoint_host(endpoint, ec2->host, sizeof ec2->host, false, error);
    if (result == 0) {
        snprintf(ec2->url, sizeof ec2->url, "%s://%s/", strncasecmp(endpoint, "http:", 5) == 0 ? "http" : "https",
                 ec2->host);
    }
    return result;
}

int ec2_open(struct ec2 **ec2, const struct ec2_options *options, struct error *error) {
    struct ec2 *opened = memory_zeroed(1, sizeof *opened);
    opened->attempts = options->attempts != 0 ? options->attempts : EC2_ATTEMPTS_DEFAULT;
    opened->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : EC2_TIMEOUT_MS_DEFAULT;
    opened->delay_ms = options->delay_ms != 0 ? options->delay_ms : EC2_DELAY_MS_DEFAULT;
    *ec2 = NULL;
    if (getrandom(&opened->random, sizeof opened->random, 0) != (ssize_t)sizeof opened->random) {
        opened->random = (uint64_t)time(NULL);
    }
    int result = http_open(&opened->http, error);
    result = result == 0 ? credentials_open(&opened->credentials, opened->http, "ec2", error) : result;
    result = result == 0 ? ec2_choose_region(opened, options->region, error) : result;
    result = result == 0 ? ec2_choose_endpoint(opened, options->endpoint, error) : result;
    if (result != 0) {
        ec2_close(opened);
        return result;
    }
    *ec2 = opened;
    return 0;
}

static void ec2_call_free(struct ec2_call *call) {
    ec2_request_free(call->request);
    xml_tree_close(call->xml);
    free(call);
}

void ec2_close(struct ec2 *ec2) {
    if (ec2 == NULL) {
        return;
    }
    if (ec2->credentials != NULL) {
        credentials_close(ec2->credentials);
    }
    http_close(ec2->http);
    while (ec2->calls != NULL) {
        struct ec2_call *call = ec2->calls;
        ec2->calls = call->next;
        ec2_call_free(call);
    }
    free(ec2);
}

const char *ec2_region(const struct ec2 *ec2) {
    return ec2->region;
}

const char *ec2_endpoint(const struct ec2 *ec2) {
    return ec2->url;
}

bool ec2_clock_ahead(const struct ec2 *ec2, int64_t *seconds) {
    *seconds = ec2->ahead_s;
    return ec2->dated;
}

/* ---- After an attempt ---- */

static bool ec2_one_of(const char *code, const char *const *codes) {
    while (*codes != NULL && strcmp(*codes, code) != 0) {
        codes++;
    }
    return *codes != NULL;
}

/* What to do after a failed attempt. */
enum ec2_verdict {
    EC2_TELL,
    EC2_AGAIN,     /* retry after a delay; EC2 may have carried the attempt out */
    EC2_THROTTLED, /* retry after a longer delay */
    EC2_LATE,      /* EC2 rejected the signature's time: our clock may be wrong */
    EC2_EXPIRED,   /* the credentials have expired */
};

/* Error codes for requests that are not authorized or are malformed. EC2 returns them before it looks at the
 * ClientToken. */
static bool ec2_code_of_caller(const char *code) {
    static const char *const codes[] = {"AuthFailure",
                                        "UnauthorizedOperation",
                                        "OptInRequired",
                                        "Blocked",
                                        "InvalidClientTokenId",
                                        "MissingAuthenticationToken",
                                        "AccessDenied",
                                        "PendingVerification",
                                        "UnrecognizedClientException",
                                        "RequestExpired",
                                        "RequestTimeTooSkewed",
                                        "RequestInTheFuture",
                                        NULL};
    return ec2_one_of(code, codes) || strncmp(code, "ExpiredToken", 12) == 0 || strstr(code, "Signature") != NULL;
}

static enum ec2_verdict ec2_judge(const struct ec2_failure *failure) {
    static const char *const throttling[] = {"RequestLimitExceeded",
                                             "EC2ThrottledException",
                                             "Throttling",
                                             "ThrottlingException",
                                             "ThrottledException",
                                             "RequestThrottled",
                                             "RequestThrottledException",
                                             "SlowDown",
                                             NULL};
    static const char *const late[] = {"RequestTimeTooSkewed",      "RequestInTheFuture", "SignatureDoesNotMatch",
                                       "InvalidSignatureException", "AuthFailure",        NULL};
    const char *code = failure->code;
    if (ec2_one_of(code, throttling) || failure->status == 429) {
        return EC2_THROTTLED;
    }
    if (strcmp(code, "RequestExpired") == 0 || strncmp(code, "ExpiredToken", 12) == 0) {
        return EC2_EXPIRED;
    }
    if (ec2_one_of(code, late)) {
        return EC2_LATE;
    }
    if (strncmp(code, "Insufficient", 12) == 0) {
        return EC2_TELL; /* about capacity: has status 500, but is final */
    }
    bool answered = failure->status >= 200 && failure->status < 300 && code[0] != '\0';
    bool refused = failure->status >= 300 && failure->status < 500 && failure->status != 408;
    return answered || refused ? EC2_TELL : EC2_AGAIN;
}

/* Adopts EC2's clock if it differs from the assumed one by more than EC2 tolerates. Returns whether it did. */
static bool ec2_correct_clock(struct ec2 *ec2, int64_t date) {
    int64_t skew = date - (int64_t)time(NULL);
    if (date == 0 || llabs(skew - ec2->skew_s) <= EC2_SKEW_S) {
        return false;
    }
    ec2->skew_s = skew;
    return true;
}

static uint64_t ec2_random(struct ec2 *ec2) {
    return hash_mix(ec2->random++);
}

/* Full jitter: a random time up to a limit that doubles with each attempt. */
static uint64_t ec2_delay_us(struct ec2 *ec2, const struct ec2_call *call, bool throttled) {
    uint64_t most_ms = (uint64_t)ec2->delay_ms * (throttled ? 4 : 1);
    for (unsigned i = 1; i < call->attempts && most_ms < EC2_DELAY_MS_MAX; i++) {
        most_ms *= 2;
    }
    most_ms = most_ms > EC2_DELAY_MS_MAX ? EC2_DELAY_MS_MAX : most_ms;
    return ec2_random(ec2) % (most_ms * 1000 + 1);
}

static void ec2_call_become(struct ec2_call *call, enum ec2_call_state state) {
    static const unsigned legal[] = {
        [EC2_CALL_DUE] = 1 << EC2_CALL_CREDENTIALS | 1 << EC2_CALL_ENDED,
        [EC2_CALL_CREDENTIALS] = 1 << EC2_CALL_SENT | 1 << EC2_CALL_DUE | 1 << EC2_CALL_ENDED,
        [EC2_CALL_SENT] = 1 << EC2_CALL_DUE | 1 << EC2_CALL_ENDED,
        [EC2_CALL_ENDED] = 0,
    };
    assert((legal[call->state] >> state & 1) != 0);
    call->state = state;
}

static void ec2_call_end(struct ec2_call *call, bool refused) {
    ec2_call_become(call, EC2_CALL_ENDED);
    call->refused = refused;
}

/* Schedules a retry, or ends the call with its failure. `date` is the answer's date. */
static void ec2_call_failed(struct ec2_call *call, int64_t date) {
    struct ec2 *ec2 = call->ec2;
    enum ec2_verdict verdict = ec2_judge(&call->failure);
    bool at_once = false;
    if (verdict == EC2_LATE || verdict == EC2_EXPIRED) {
        at_once = ec2_correct_clock(ec2, date);
        if (!at_once && verdict == EC2_LATE) {
            verdict = EC2_TELL;
        } else if (!at_once) {
            credentials_expired(ec2->credentials);
            at_once = call->attempts == 1;
        }
    }
    if (verdict == EC2_THROTTLED) {
        ec2_throttle_drain(&ec2->throttle, call->request->action, call->request->filtered, monotonic_us());
    }
    call->uncertain |= verdict == EC2_AGAIN;
    call->failure.lasting |= verdict == EC2_TELL && call->failure.status >= 400 && call->failure.status < 500;
    bool enough = call->attempts >= ec2->attempts || (call->failure.lasting && call->attempts >= EC2_ATTEMPTS_LASTING);
    if (verdict == EC2_TELL || enough) {
        bool said_no = verdict == EC2_TELL && call->failure.code[0] != '\0';
        ec2_call_end(call, said_no && !(call->uncertain && ec2_code_of_caller(call->failure.code)));
        return;
    }
    ec2_call_become(call, EC2_CALL_DUE);
    call->at_us = monotonic_us() + (at_once ? 0 : ec2_delay_us(ec2, call, verdict == EC2_THROTTLED));
}

/* Reads a complete answer with status 2xx. Returns whether its root element is the call's response. */
static bool ec2_call_answered(struct ec2_call *call, const struct http_answer *answer) {
    struct error error = {0};
    char wanted[EC2_ACTION_TEXT + 16];
    snprintf(wanted, sizeof wanted, "%sResponse", call->request->action);
    if (xml_tree_parse(&call->xml, answer->body, answer->body_size, &error) != 0) {
        ec2_failure_text(&call->failure, error.text);
        return false;
    }
    if (strcmp(xml_element_name(xml_tree_root(call->xml)), wanted) == 0) {
        return true;
    }
    xml_tree_close(call->xml);
    call->xml = NULL;
    ec2_failure_read(answer->status, answer->body, answer->body_size, &call->failure);
    return false;
}

static void ec2_call_done(void *context, const struct http_answer *answer) {
    struct ec2_call *call = context;
    call->failure = (struct ec2_failure){.status = answer->status};
    if (answer->date != 0) {
        call->ec2->dated = true;
        call->ec2->ahead_s = answer->date - (int64_t)time(NULL);
    }
    if (answer->status == 0) {
        ec2_failure_text(&call->failure, answer->error);
        call->failure.lasting = answer->lasting;
    } else if (answer->status < 200 || answer->status > 299) {
        ec2_failure_read(answer->status, answer->body, answer->body_size, &call->failure);
    } else if (ec2_call_answered(call, answer)) {
        ec2_call_end(call, false);
        return;
    }
    ec2_call_failed(call, answer->date);
}

/* ---- An attempt ---- */

/* Returns "name: value" from malloc; ec2_header_free wipes it. */
static char *ec2_header(const char *name, const char *value) {
    size_t size = strlen(name) + strlen(value) + 3;
    char *text = memory_zeroed(size, 1);
    snprintf(text, size, "%s: %s", name, value);
    return text;
}

static void ec2_header_free(char *text) {
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
        free(text);
    }
}

static void ec2_post(struct ec2_call *call, const struct sigv4_header *headers, size_t count,
                     const char *authorization) {
    struct http_request request = {.method = "POST",
                                   .url = call->ec2->url,
                                   .body = call->request->form,
                                   .body_size = call->request->size,
                                   .timeout_ms = call->ec2->timeout_ms,
                                   .answer_max = XML_TREE_BODY_MAX};
    char *lines[HTTP_HEADERS_MAX] = {NULL};
    for (size_t i = 0; i < count; i++) {
        lines[i] = ec2_header(headers[i].name, headers[i].value);
    }
    lines[count] = ec2_header("authorization", authorization);
    for (size_t i = 0; i <= count; i++) {
        request.headers[i] = lines[i];
    }
    ec2_call_become(call, EC2_CALL_SENT);
    (void)http_start(call->ec2->http, &request, ec2_call_done, call);
    for (size_t i = 0; i <= count; i++) {
        ec2_header_free(lines[i]);
    }
}

static void ec2_send(struct ec2_call *call, const struct credentials_value *value) {
    struct sigv4_scope scope = {.region = call->ec2->region, .service = "ec2"};
    sigv4_date((int64_t)time(NULL) + call->ec2->skew_s, scope.date);
    char invocation[33];
    snprintf(invocation, sizeof invocation, "%016" PRIx64 "%016" PRIx64, ec2_random(call->ec2), ec2_random(call->ec2));
    /* AWS's own libraries send this header, too. Without it, equal requests within one second have equal signatures. */
    const struct sigv4_header headers[] = {{"amz-sdk-invocation-id", invocation},
                                           {"content-type", "application/x-www-form-urlencoded; charset=utf-8"},
                                           {"host", call->ec2->host},
                                           {"x-amz-date", scope.date},
                                           {"x-amz-security-token", value->token}};
    size_t count = sizeof headers / sizeof *headers - (value->token[0] == '\0');
    const struct sigv4_request request = {.method = "POST",
                                          .path = "/",
                                          .headers = headers,
                                          .header_count = count,
                                          .body = call->request->form,
                                          .body_size = call->request->size};
    char *authorization = NULL;
    struct error error = {0};
    call->attempts++;
    if (sigv4_authorization(&request, &scope, value->key_id, value->secret, &authorization, &error) != 0) {
        call->failure = (struct ec2_failure){0};
        ec2_failure_text(&call->failure, error.text);
        ec2_call_end(call, false);
        return;
    }
    ec2_post(call, headers, count, authorization);
    ec2_header_free(authorization);
}

static void ec2_have_credentials(void *context, const struct credentials_value *value, const char *why) {
    struct ec2 *ec2 = context;
    ec2->asking = false;
    for (struct ec2_call *call = ec2->calls; call != NULL; call = call->next) {
        if (call->state != EC2_CALL_CREDENTIALS) {
            continue;
        }
        if (value != NULL) {
            ec2_send(call, value);
            continue;
        }
        bool uncertain = call->uncertain;
        call->attempts++;
        call->failure = (struct ec2_failure){.lasting = true};
        ec2_failure_text(&call->failure, why);
        ec2_call_failed(call, 0);
        call->uncertain = uncertain; /* nothing was sent */
    }
}

/* ---- The round ---- */

void ec2_start(struct ec2 *ec2, struct ec2_request *request, ec2_done *done, void *context) {
    static const char *const launches[] = {"RunInstances", "RequestSpotInstances", "CreateFleet", NULL};
    assert(request->has_token || !ec2_one_of(request->action, launches));
    struct ec2_call *call = memory_zeroed(1, sizeof *call);
    call->ec2 = ec2;
    call->request = request;
    call->done = done;
    call->context = context;
    if (ec2->call_count == EC2_CALLS_MAX) {
        ec2_failure_text(&call->failure, "too many calls are waiting already");
        ec2_call_end(call, false);
    }
    struct ec2_call **last = &ec2->calls;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = call;
    ec2->call_count++;
}

/* Moves on the calls that are due, as far as the buckets allow. */
static void ec2_advance(struct ec2 *ec2) {
    uint64_t now_us = monotonic_us();
    bool wanted = false;
    for (struct ec2_call *call = ec2->calls; call != NULL; call = call->next) {
        if (call->state == EC2_CALL_DUE && call->at_us <= now_us) {
            uint64_t wait_us =
                ec2_throttle_take(&ec2->throttle, call->request->action, call->request->filtered, now_us);
            call->at_us = now_us + wait_us;
            if (wait_us == 0) {
                ec2_call_become(call, EC2_CALL_CREDENTIALS);
            }
        }
        wanted |= call->state == EC2_CALL_CREDENTIALS;
    }
    if (wanted && !ec2->asking) {
        ec2->asking = true;
        credentials_get(ec2->credentials, ec2_have_credentials, ec2);
    }
}

static struct ec2_call *ec2_take_ended(struct ec2 *ec2) {
    for (struct ec2_call **at = &ec2->calls; *at != NULL; at = &(*at)->next) {
        if ((*at)->state == EC2_CALL_ENDED) {
            struct ec2_call *call = *at;
            *at = call->next;
            ec2->call_count--;
            return call;
        }
    }
    return NULL;
}

static void ec2_tell(struct ec2 *ec2) {
    struct ec2_call *call;
    while ((call = ec2_take_ended(ec2)) != NULL) {
        struct ec2_answer answer = {.failure = call->xml == NULL ? &call->failure : NULL, .refused = call->refused};
        if (call->xml != NULL) {
            answer.root = xml_tree_root(call->xml);
        }
        call->done(call->context, &answer);
        ec2_call_free(call);
    }
}

void ec2_step(struct ec2 *ec2) {
    http_step(ec2->http);
    ec2_advance(ec2);
    ec2_tell(ec2);
    ec2_advance(ec2);
}

int ec2_fd(const struct ec2 *ec2) {
    return http_fd(ec2->http);
}

int ec2_wait_ms(struct ec2 *ec2) {
    int64_t least = http_wait_ms(ec2->http);
    uint64_t now_us = monotonic_us();
    for (const struct ec2_call *call = ec2->calls; call != NULL; call = call->next) {
        if (call->state != EC2_CALL_DUE && call->state != EC2_CALL_ENDED) {
            continue;
        }
        bool now = call->state == EC2_CALL_ENDED || call->at_us <= now_us;
        int64_t wait = now ? 0 : (int64_t)((call->at_us - now_us + 999) / 1000);
        least = least < 0 || wait < least ? wait : least;
    }
    return (int)least;
}
