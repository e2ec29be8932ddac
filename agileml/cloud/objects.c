/* See objects.h. The states of a call: due (waits for its time), waiting for credentials, sent; then due again or
 * ended. */
#include "agileml/cloud/objects.h"

#include "agileml/base/clock.h"
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/base/printable.h"
#include "agileml/cloud/credentials.h"
#include "agileml/cloud/service_endpoint.h"
#include "agileml/cloud/sigv4.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

enum {
    OBJECTS_HOST_MAX = 400,
    OBJECTS_SOURCE_MAX = 200,
    OBJECTS_PATH_MAX = 3 * OBJECT_KEY_MAX + 80,
    OBJECTS_LINES = 10
};

struct objects {
    struct http *http;
    struct credentials *credentials;
    bool asking; /* credentials are requested */
    char region[OBJECT_REGION_MAX];
    char host[OBJECTS_HOST_MAX]; /* host of the configured endpoint; "": AWS's own */
    bool plain;                  /* the endpoint is http:// */
    struct objects_options options;
    int64_t skew_s;                  /* seconds that the service's clock is ahead of ours */
    char source[OBJECTS_SOURCE_MAX]; /* source of the credentials used last, for messages */
    struct object_call *calls;
    uint64_t random;
};

enum call_state { CALL_DUE, CALL_CREDENTIALS, CALL_SENT, CALL_ENDED };

struct object_call {
    struct object_call *next;
    struct objects *objects;
    struct object_request request;
    enum call_state state;
    uint64_t at_us; /* CALL_DUE: not sent before this time */
    unsigned attempts;
    bool region_changed;    /* the region is followed only once */
    struct http_call *http; /* CALL_SENT */
    struct object_failure failure;
    bool lasting;
    char *body; /* body of the result */
    struct object_result result;
};

static const struct {
    const char *method, *right;
} actions[OBJECT_ACTIONS] = {
    [OBJECT_GET] = {"GET", "s3:GetObject"},       [OBJECT_HEAD] = {"HEAD", "s3:GetObject"},
    [OBJECT_PUT] = {"PUT", "s3:PutObject"},       [OBJECT_DELETE] = {"DELETE", "s3:DeleteObject"},
    [OBJECT_LIST] = {"GET", "s3:ListBucket"},     [OBJECT_UPLOADS] = {"GET", "s3:ListBucketMultipartUploads"},
    [OBJECT_BEGIN] = {"POST", "s3:PutObject"},    [OBJECT_PART] = {"PUT", "s3:PutObject"},
    [OBJECT_COMPLETE] = {"POST", "s3:PutObject"}, [OBJECT_ABORT] = {"DELETE", "s3:AbortMultipartUpload"},
};

/* ---- Opening ---- */

static int choose_endpoint(struct objects *objects, struct error *error) {
    struct error reason = {0};
    const char *endpoint = credentials_endpoint(objects->credentials);
    const char *region = credentials_region(objects->credentials);
    snprintf(objects->region, sizeof objects->region, "%s", region != NULL && region[0] != '\0' ? region : "us-east-1");
    if (strspn(objects->region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(objects->region)) {
        return error_set(error, AML_EINPUT, "AWS_REGION: '%.60s' is not a region, expected one such as us-east-1",
                         objects->region);
    }
    if (endpoint == NULL || endpoint[0] == '\0') {
        return 0;
    }
    objects->plain = strncasecmp(endpoint, "http:", 5) == 0;
    if (service_endpoint_host(endpoint, objects->host, sizeof objects->host, service_plain_allowed(), &reason) != 0) {
        return error_set(error, AML_EINPUT, "AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL, or the profile): %.300s",
                         reason.text);
    }
    return 0;
}

int objects_open(struct objects **objects, const struct objects_options *options, struct error *error) {
    struct objects *new = memory_zeroed(1, sizeof *new);
    *objects = NULL;
    new->options = options != NULL ? *options : (struct objects_options){0};
    struct objects_options *own = &new->options;
    own->attempts = own->attempts != 0 ? own->attempts : OBJECTS_ATTEMPTS;
    own->delay_ms = own->delay_ms != 0 ? own->delay_ms : OBJECTS_DELAY_MS;
    own->timeout_ms = own->timeout_ms != 0 ? own->timeout_ms : OBJECTS_TIMEOUT_MS;
    own->stall_s = own->stall_s != 0 ? own->stall_s : OBJECTS_STALL_S;
    if (getrandom(&new->random, sizeof new->random, 0) != (ssize_t)sizeof new->random) {
        new->random = (uint64_t)time(NULL);
    }
    strcpy(new->source, "none yet");
    int code = http_open(&new->http, error);
    if (code != 0) {
        objects_close(new);
        return code;
    }
    *objects = new;
    return 0;
}

/* Opens what only requests to S3 need, so that broken credentials files do not affect https reads. */
static int open_s3(struct objects *objects, struct error *error) {
    if (objects->credentials != NULL) {
        return 0;
    }
    int code = credentials_open(&objects->credentials, objects->http, "s3", error);
    code = code != 0 ? code : choose_endpoint(objects, error);
    if (code != 0 && objects->credentials != NULL) {
        credentials_close(objects->credentials);
        objects->credentials = NULL;
    }
    return code;
}

void objects_close(struct objects *objects) {
    if (objects == NULL) {
        return;
    }
    assert(objects->calls == NULL);
    if (objects->credentials != NULL) {
        credentials_close(objects->credentials);
    }
    http_close(objects->http);
    free(objects);
}

/* ---- Errors ---- */

static void call_become(struct object_call *call, enum call_state state) {
    static const unsigned legal[] = {[CALL_DUE] = 1 << CALL_CREDENTIALS | 1 << CALL_ENDED,
                                     [CALL_CREDENTIALS] = 1 << CALL_SENT | 1 << CALL_DUE | 1 << CALL_ENDED,
                                     [CALL_SENT] = 1 << CALL_DUE | 1 << CALL_ENDED,
                                     [CALL_ENDED] = 0};
    assert((legal[call->state] >> state & 1) != 0);
    call->state = state;
}

static void call_end(struct object_call *call) {
    call_become(call, CALL_ENDED);
}

static int end_with(struct object_call *call, int code, const char *text) {
    char shown[OBJECT_NAME_SHOWN];
    char address[OBJECT_URL_MAX + OBJECT_BUCKET_MAX];
    const struct object_url *url = call->request.url;
    const char *slash = url->key[0] != '\0' ? "/" : "";
    snprintf(address, sizeof address, url->s3 ? "s3://%s%s%s" : "%s%s%s", url->s3 ? url->bucket : url->address,
             url->s3 ? slash : "", url->s3 ? url->key : "");
    object_url_show(address, shown);
    call_end(call);
    return error_set(&call->result.error, code, "%s: %s", shown, text);
}

/* Writes a text such as "status 403, AccessDenied: Access Denied". */
static void describe_failure(const struct object_failure *failure, char *text, size_t size) {
    if (failure->status < 300 && failure->code[0] == '\0') {
        snprintf(text, size, "%.250s", failure->text);
        return;
    }
    snprintf(text, size, "status %d%s%s%s%.120s", failure->status, failure->code[0] != '\0' ? ", " : "", failure->code,
             failure->text[0] != '\0' ? ": " : "", failure->text);
}

static bool is_write(enum object_action action) {
    return action != OBJECT_GET && action != OBJECT_HEAD && action != OBJECT_LIST && action != OBJECT_UPLOADS;
}

/* Describes how the user can resolve a rejected request. */
static void describe_remedy(const struct object_call *call, char *text, size_t size) {
    const struct object_failure *failure = &call->failure;
    const char *source = call->objects->source;
    const char *right = actions[call->request.action].right;
    bool s3 = call->request.url->s3;
    text[0] = '\0';
    if (failure->status >= 300 && failure->status < 400) {
        const char *place = failure->location[0] != '\0' ? failure->location : "another address";
        snprintf(text, size,
                 s3 ? ": it redirects to %s: expected the bucket's own region (AWS_REGION) and service "
                      "(AWS_ENDPOINT_URL_S3)"
                    : ": it redirects to %s: expected that address (redirects are not followed)",
                 place);
    } else if (!s3 && (failure->status == 401 || failure->status == 403)) {
        snprintf(text, size, ": expected an address that anyone may read, or a signed one that is still valid");
    } else if (strcmp(failure->code, "NoSuchBucket") == 0) {
        snprintf(text, size, ": expected a bucket that is there");
    } else if (call->result.missing) {
        snprintf(text, size, ": expected %s",
                 s3 ? "an object (as --data, with a '/' at its end, a folder's objects)" : "a file");
    } else if (strcmp(failure->code, "SignatureDoesNotMatch") == 0 ||
               strcmp(failure->code, "InvalidAccessKeyId") == 0 || failure->status == 401) {
        snprintf(text, size, ": expected valid credentials; used those of %s", source);
    } else if (failure->status == 403) {
        snprintf(text, size, ": expected credentials that allow %s; used those of %s", right, source);
    }
}

static void end_failed(struct object_call *call) {
    const struct object_failure *failure = &call->failure;
    char what[360];
    char remedy[360];
    char text[900];
    bool refused = failure->status >= 300 && failure->status < 500 && failure->status != 429 && failure->status != 408;
    call->result.missing = failure->status == 404;
    describe_failure(failure, what, sizeof what);
    describe_remedy(call, remedy, sizeof remedy);
    bool tried = !refused && call->attempts > 1;
    snprintf(text, sizeof text, "%s%.340s%s", what, remedy, tried ? " (tried again in vain)" : "");
    (void)end_with(call, (refused || call->lasting) && !is_write(call->request.action) ? AML_EINPUT : AML_EFAIL, text);
}

static void end_changed(struct object_call *call) {
    call->result.changed = true;
    (void)end_with(call, AML_EINPUT, "it has changed while it was read: expected the version that was there at first");
}

/* ---- After an attempt ---- */

static bool one_of(const char *code, const char *const *codes) {
    while (*codes != NULL && strcmp(*codes, code) != 0) {
        codes++;
    }
    return *codes != NULL;
}

static bool is_throttled(const struct object_failure *failure) {
    static const char *const codes[] = {"SlowDown",   "ServiceUnavailable",  "RequestLimitExceeded",
                                        "Throttling", "ThrottlingException", "TooManyRequests",
                                        NULL};
    return failure->status == 429 || failure->status == 503 || one_of(failure->code, codes);
}

/* Whether a later attempt may succeed. */
static bool is_passing(const struct object_failure *failure) {
    static const char *const codes[] = {"RequestTimeout", "OperationAborted", "InternalError", "SlowDown", NULL};
    bool broken = failure->status < 200 || (failure->status >= 500 && failure->status != 501);
    return broken || failure->status == 429 || failure->status == 408 || failure->status == 206 ||
           failure->status == 200 || one_of(failure->code, codes);
}

static uint64_t delay_us(struct objects *objects, unsigned attempts, bool throttled) {
    uint64_t most_ms = (uint64_t)objects->options.delay_ms * (throttled ? 4 : 1);
    for (unsigned i = 1; i < attempts && most_ms < OBJECTS_DELAY_MS_MAX; i++) {
        most_ms *= 2;
    }
    most_ms = most_ms > OBJECTS_DELAY_MS_MAX ? OBJECTS_DELAY_MS_MAX : most_ms;
    return hash_mix(objects->random++) % (most_ms * 1000 + 1);
}

/* Continues in another region. If the configured endpoint is a host of AWS's, it is dropped, as it serves only its
 * own region. */
static void follow_region(struct objects *objects, const char *region) {
    char own[OBJECT_REGION_MAX];
    snprintf(objects->region, sizeof objects->region, "%s", region);
    if (object_host_region(objects->host, own)) {
        objects->host[0] = '\0';
    }
}

/* Tries to fix the cause of a failure: adopts the service's clock, fetches new credentials, or follows the bucket to
 * its region. Returns whether to retry at once. */
static bool call_mend(struct object_call *call, int64_t date) {
    static const char *const late[] = {"RequestTimeTooSkewed", "SignatureDoesNotMatch", "RequestExpired", NULL};
    static const char *const expired[] = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", NULL};
    struct objects *objects = call->objects;
    const struct object_failure *failure = &call->failure;
    int64_t skew = date - (int64_t)time(NULL);
    if (!call->request.url->s3 || call->attempts >= objects->options.attempts) {
        return false;
    }
    if (failure->region[0] != '\0' && strcmp(failure->region, objects->region) != 0 && !call->region_changed &&
        (failure->status == 301 || failure->status == 307 || failure->status == 400 || failure->status == 403)) {
        call->region_changed = true;
        follow_region(objects, failure->region);
        return true;
    }
    if ((one_of(failure->code, late) || failure->status == 403) && date != 0 &&
        llabs(skew - objects->skew_s) > OBJECTS_SKEW_S) {
        objects->skew_s = skew;
        return true;
    }
    if (one_of(failure->code, expired)) {
        credentials_expired(objects->credentials);
        return call->attempts == 1;
    }
    return false;
}

static void call_again(struct object_call *call, uint64_t after_us) {
    call_become(call, CALL_DUE);
    call->at_us = monotonic_us() + after_us;
}

/* Retries the call, or ends it with its failure. `date` is the response's. */
static void call_failed(struct object_call *call, int64_t date) {
    static const char *const expired[] = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", NULL};
    struct objects *objects = call->objects;
    const struct object_failure *failure = &call->failure;
    unsigned most = call->request.once ? 1 : call->lasting ? OBJECTS_ATTEMPTS_LASTING : objects->options.attempts;
    if (failure->status == 412) {
        end_changed(call);
    } else if (call_mend(call, date)) {
        call_again(call, 0);
    } else if (call->attempts >= most || !(is_passing(failure) || one_of(failure->code, expired))) {
        end_failed(call);
    } else {
        call->result.uncertain |= is_passing(failure);
        call_again(call, delay_us(objects, call->attempts, is_throttled(failure)));
    }
}

static void fail_with(struct object_call *call, int status, const char *text) {
    call->failure = (struct object_failure){.status = status};
    snprintf(call->failure.text, sizeof call->failure.text, "%s", text);
    text_make_printable(call->failure.text);
}

/* Checks a response with bytes of an object. On false `failure` says what is wrong, or the call has ended. */
static bool got_range(struct object_call *call, const struct http_answer *answer) {
    const struct object_request *request = &call->request;
    struct object_range range = {.first = 0, .last = answer->body_size - 1, .total = answer->body_size};
    char header[128];
    char text[OBJECT_TEXT_MAX];
    if (answer->status == 200) { /* the server ignored the range: fine if the range contains the whole object */
        range.empty = answer->body_size == 0;
        if (request->offset != 0 || answer->body_size > request->length) {
            (void)end_with(call, AML_EINPUT, "the server does not send ranges of bytes: expected one that does");
            return false;
        }
    } else if (!http_header(answer, "Content-Range", header, sizeof header) || !object_range_parse(header, &range)) {
        fail_with(call, 206, "an answer without a valid Content-Range");
        return false;
    }
    object_tag_take(answer, call->result.tag);
    bool other = request->tag != NULL && request->tag[0] != '\0' && call->result.tag[0] != '\0' &&
                 strcmp(request->tag, call->result.tag) != 0;
    if (other || (request->total != UINT64_MAX && range.total != UINT64_MAX && range.total != request->total)) {
        end_changed(call);
        return false;
    }
    uint64_t total = range.total != UINT64_MAX ? range.total : request->total;
    uint64_t wanted =
        total == UINT64_MAX || total - request->offset > request->length ? request->length : total - request->offset;
    bool short_of = range.empty ? wanted > 0 : range.first != request->offset || range.last - range.first + 1 != wanted;
    if (total < request->offset || short_of || (answer->body_size != wanted)) {
        snprintf(text, sizeof text,
                 "bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64 " came as %zu bytes from %" PRIu64 " on",
                 request->offset, request->offset + wanted - 1, total, answer->body_size, range.first);
        fail_with(call, 206, text);
        return false;
    }
    call->result.total = total;
    call->result.size = answer->body_size;
    return true;
}

static bool got_head(struct object_call *call, const struct http_answer *answer) {
    char header[64];
    object_tag_take(answer, call->result.tag);
    if (!http_header(answer, "Content-Length", header, sizeof header) ||
        !object_bytes_parse(header, &call->result.total)) {
        (void)end_with(call, AML_EINPUT, "the answer does not tell how many bytes there are (Content-Length)");
        return false;
    }
    return true;
}

/* Takes a response with status 2xx. Returns false when it is not what was requested. */
static bool call_succeeded(struct object_call *call, const struct http_answer *answer) {
    enum object_action action = call->request.action;
    if (action == OBJECT_GET) {
        return got_range(call, answer);
    }
    if (action == OBJECT_HEAD) {
        return got_head(call, answer);
    }
    object_tag_take(answer, call->result.tag);
    if (action == OBJECT_PART && call->result.tag[0] == '\0') {
        fail_with(call, 200, "the answer to a part has no ETag");
        return false;
    }
    if (action == OBJECT_COMPLETE && object_answer_failed(answer->body, answer->body_size)) {
        object_failure_read(answer, &call->failure);
        if (call->failure.code[0] == '\0') {
            fail_with(call, 200, "the answer is no XML");
        }
        return false;
    }
    call->body = memory_zeroed(answer->body_size + 1, 1);
    memcpy(call->body, answer->body, answer->body_size);
    call->result.body = call->body;
    call->result.size = answer->body_size;
    return true;
}

/* Whether the object is empty. An empty object has no range: S3 answers a request for its first byte with 416. */
static bool is_empty_object(const struct object_call *call, const struct http_answer *answer) {
    char header[128];
    struct object_range range;
    return call->request.action == OBJECT_GET && call->request.offset == 0 && answer->status == 416 &&
           http_header(answer, "Content-Range", header, sizeof header) && object_range_parse(header, &range) &&
           range.empty && range.total == 0 && (call->request.total == UINT64_MAX || call->request.total == 0);
}

/* Whether the response exceeded the buffer: the server has sent the whole object instead of a range. */
static bool is_unasked(const struct object_call *call, const struct http_answer *answer) {
    return call->request.action == OBJECT_GET && answer->status == 0 && strncmp(answer->head, "HTTP/", 5) == 0 &&
           strncmp(answer->head + strcspn(answer->head, " "), " 200", 4) == 0 && strstr(answer->error, "large") != NULL;
}

static void call_answered(void *context, const struct http_answer *answer) {
    struct object_call *call = context;
    bool removed = call->request.action == OBJECT_DELETE || call->request.action == OBJECT_ABORT;
    call->http = NULL;
    call->result.status = answer->status;
    call->lasting = false;
    if (is_unasked(call, answer)) {
        (void)end_with(call, AML_EINPUT, "the server does not send ranges of bytes: expected one that does");
        return;
    }
    if (answer->status == 0) {
        fail_with(call, 0, answer->error);
        call->lasting = answer->lasting;
    } else if (is_empty_object(call, answer) || (removed && answer->status == 404)) {
        call_end(call);
        return;
    } else if (answer->status >= 300 || answer->status < 200) {
        object_failure_read(answer, &call->failure);
        if (answer->status == 416) {
            end_changed(call); /* the object is now shorter */
            return;
        }
    } else if (call_succeeded(call, answer)) {
        call_end(call);
        return;
    }
    if (call->state != CALL_ENDED) {
        call_failed(call, answer->date);
    }
}

/* ---- An attempt ---- */

/* Header lines of a request, "name: value"; some of them are signed. */
struct header_lines {
    struct sigv4_header signed_ones[OBJECTS_LINES];
    size_t signed_count;
    char *lines[OBJECTS_LINES + 4];
    size_t count;
};

static void add_line(struct header_lines *lines, const char *name, const char *value) {
    size_t size = strlen(name) + strlen(value) + 3;
    lines->lines[lines->count] = memory_zeroed(size, 1);
    snprintf(lines->lines[lines->count++], size, "%s: %s", name, value);
}

static void add_signed(struct header_lines *lines, const char *name, const char *value) {
    lines->signed_ones[lines->signed_count++] = (struct sigv4_header){name, value};
    add_line(lines, name, value);
}

static void lines_free(struct header_lines *lines) {
    for (size_t i = 0; i < lines->count; i++) {
        explicit_bzero(lines->lines[i], strlen(lines->lines[i]));
        free(lines->lines[i]);
    }
}

/* Where a request is sent. */
struct target {
    char host[OBJECTS_HOST_MAX + OBJECT_BUCKET_MAX];
    char path[OBJECTS_PATH_MAX];
};

static bool path_style(const struct objects *objects, const char *bucket) {
    bool named = strpbrk(bucket, "._ABCDEFGHIJKLMNOPQRSTUVWXYZ") != NULL; /* no certificate matches such a host */
    if (credentials_path_style(objects->credentials) || named) {
        return true;
    }
    return objects->host[0] != '\0' && !credentials_virtual_style(objects->credentials);
}

static bool target_set(const struct objects *objects, const struct object_url *url, struct target *target) {
    bool path = path_style(objects, url->bucket);
    char key[3 * OBJECT_KEY_MAX];
    char host[OBJECTS_HOST_MAX];
    snprintf(host, sizeof host, "%s", objects->host);
    if (host[0] == '\0') {
        service_aws_host("s3", objects->region, credentials_variant(objects->credentials), host, sizeof host);
    }
    snprintf(target->host, sizeof target->host, "%s%s%s", path ? "" : url->bucket, path ? "" : ".", host);
    if (!sigv4_encode(url->key, "/", key, sizeof key)) {
        return false;
    }
    int size = snprintf(target->path, sizeof target->path, "/%s%s%s", path ? url->bucket : "",
                        path && url->key[0] != '\0' ? "/" : "", key);
    return size < (int)sizeof target->path;
}

/* Adds the headers that S3 does not require to be signed: the range and the version. */
static void add_conditions(const struct object_request *request, struct header_lines *lines) {
    char range[80];
    if (request->action != OBJECT_GET) {
        return;
    }
    snprintf(range, sizeof range, "bytes=%" PRIu64 "-%" PRIu64, request->offset, request->offset + request->length - 1);
    add_line(lines, "range", range);
    if (request->tag != NULL && request->tag[0] != '\0') {
        bool date = strstr(request->tag, " GMT") != NULL && request->tag[0] != '"';
        add_line(lines, date ? "if-unmodified-since" : "if-match", request->tag);
    }
}

static void call_post(struct object_call *call, const char *url, const struct header_lines *lines) {
    const struct object_request *request = &call->request;
    struct objects *objects = call->objects;
    struct http_request http = {.method = actions[request->action].method,
                                .url = url,
                                .body = request->body,
                                .body_size = request->body_size,
                                .body_lent = true,
                                .timeout_ms = objects->options.timeout_ms,
                                .stall_s = request->action == OBJECT_COMPLETE ? 0 : objects->options.stall_s,
                                .answer_max = OBJECTS_ANSWER_MAX};
    if (request->action == OBJECT_GET) {
        http.room = request->room;
        http.answer_max = request->length > OBJECTS_ROOM_MIN ? request->length : OBJECTS_ROOM_MIN;
    }
    for (size_t i = 0; i < lines->count; i++) {
        http.headers[i] = lines->lines[i];
    }
    call_become(call, CALL_SENT);
    call->attempts++;
    call->http = http_start(objects->http, &http, call_answered, call);
}

static void call_send_plain(struct object_call *call) {
    struct header_lines lines = {0};
    add_conditions(&call->request, &lines);
    call_post(call, call->request.url->address, &lines);
    lines_free(&lines);
}

static void call_send_signed(struct object_call *call, const struct credentials_value *value) {
    const struct object_request *request = &call->request;
    struct objects *objects = call->objects;
    struct sigv4_scope scope = {.region = objects->region, .service = "s3"};
    struct header_lines lines = {0};
    struct target target;
    struct error error = {0};
    char hash[SIGV4_HEX];
    char *authorization = NULL;
    if (!target_set(objects, request->url, &target)) {
        (void)end_with(call, AML_EINPUT, "the key is too long");
        return;
    }
    snprintf(objects->source, sizeof objects->source, "%s", value->source != NULL ? value->source : "");
    sigv4_date((int64_t)time(NULL) + objects->skew_s, scope.date);
    sigv4_hash(request->body, request->body_size, hash);
    add_signed(&lines, "host", target.host);
    add_signed(&lines, "x-amz-content-sha256", hash);
    add_signed(&lines, "x-amz-date", scope.date);
    if (value->token[0] != '\0') {
        add_signed(&lines, "x-amz-security-token", value->token);
    }
    const struct sigv4_request signing = {.method = actions[request->action].method,
                                          .path = target.path,
                                          .path_as_is = true,
                                          .query = request->query,
                                          .headers = lines.signed_ones,
                                          .header_count = lines.signed_count,
                                          .body_hash = hash};
    if (sigv4_authorization(&signing, &scope, value->key_id, value->secret, &authorization, &error) != 0) {
        (void)end_with(call, AML_EINPUT, error.text);
    } else {
        size_t room = sizeof target + (request->query != NULL ? strlen(request->query) : 0) + 16;
        char *url = memory_zeroed(room, 1);
        add_line(&lines, "authorization", authorization);
        add_conditions(request, &lines);
        snprintf(url, room, "%s://%s%s%s%s", objects->plain ? "http" : "https", target.host, target.path,
                 request->query != NULL ? "?" : "", request->query != NULL ? request->query : "");
        call_post(call, url, &lines);
        explicit_bzero(authorization, strlen(authorization));
        free(authorization);
        free(url);
    }
    lines_free(&lines);
}

static void have_credentials(void *context, const struct credentials_value *value, const char *why) {
    struct objects *objects = context;
    objects->asking = false;
    for (struct object_call *call = objects->calls; call != NULL; call = call->next) {
        if (call->state != CALL_CREDENTIALS) {
            continue;
        }
        if (value != NULL) {
            call_send_signed(call, value);
            continue;
        }
        call->attempts++;
        call->lasting = true;
        fail_with(call, 0, why);
        call_failed(call, 0);
    }
}

/* ---- The round ---- */

static void advance(struct objects *objects) {
    uint64_t now_us = monotonic_us();
    bool wanted = false;
    for (struct object_call *call = objects->calls; call != NULL; call = call->next) {
        if (call->state == CALL_DUE && call->at_us <= now_us) {
            call_become(call, CALL_CREDENTIALS);
        }
        if (call->state == CALL_CREDENTIALS && !call->request.url->s3) {
            call_send_plain(call);
        }
        wanted |= call->state == CALL_CREDENTIALS;
    }
    if (wanted && !objects->asking) {
        objects->asking = true;
        credentials_get(objects->credentials, have_credentials, objects);
    }
}

static int wait_ms(struct objects *objects) {
    int64_t least = http_wait_ms(objects->http);
    uint64_t now_us = monotonic_us();
    for (const struct object_call *call = objects->calls; call != NULL; call = call->next) {
        if (call->state == CALL_DUE) {
            int64_t wait = call->at_us <= now_us ? 0 : (int64_t)((call->at_us - now_us + 999) / 1000);
            least = least < 0 || wait < least ? wait : least;
        }
    }
    return (int)least;
}

/* Ends a call to S3 that can't be sent. */
static void check_s3(struct object_call *call) {
    enum object_action action = call->request.action;
    struct error error = {0};
    if (call->request.url->key[0] == '\0' && action != OBJECT_LIST && action != OBJECT_UPLOADS) {
        (void)end_with(
            call, AML_EINPUT,
            "a bucket without an object's key: expected s3://BUCKET/KEY (as --data also s3://BUCKET/ for all "
            "objects of the bucket)");
    } else if (open_s3(call->objects, &error) != 0) {
        (void)end_with(call, error.code, error.text);
    }
}

struct object_call *object_start(struct objects *objects, const struct object_request *request) {
    struct object_call *call = memory_zeroed(1, sizeof *call);
    call->objects = objects;
    call->request = *request;
    struct object_call **last = &objects->calls;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = call;
    if (request->url->s3) {
        check_s3(call);
    }
    advance(objects);
    return call;
}

const struct object_result *object_wait(struct object_call *call) {
    struct objects *objects = call->objects;
    while (call->state != CALL_ENDED) {
        struct pollfd readable = {.fd = http_fd(objects->http), .events = POLLIN};
        (void)poll(&readable, 1, wait_ms(objects));
        http_step(objects->http);
        advance(objects);
    }
    return &call->result;
}

void object_call_free(struct object_call *call) {
    if (call == NULL) {
        return;
    }
    struct object_call **link = &call->objects->calls;
    while (*link != call) {
        link = &(*link)->next;
    }
    *link = call->next;
    if (call->http != NULL) {
        http_cancel(call->objects->http, call->http);
    }
    free(call->body);
    free(call);
}
