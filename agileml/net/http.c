/* See http.h. libcurl's callbacks report its timeout, and the sockets that it waits for, which go into an epoll set. */
#include "agileml/net/http.h"

#include "agileml/base/clock.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { HTTP_EVENTS = 32, HTTP_BUFFER_MIN = 4096, HTTP_NO_TIME = -1 };

/* Bytes that grow without leaving copies in freed memory. A 0 byte follows them once there are any. */
struct http_bytes {
    char *data;
    size_t size, capacity;
};

struct http_call {
    struct http *http;
    struct http_call *next;
    uint64_t id; /* distinguishes the call from a later one at the same address */
    CURL *easy;
    bool under_way;
    struct curl_slist *headers;
    http_done *done;
    void *context;
    size_t answer_max;
    char *room; /* the request's; NULL: the body's bytes go into `body` */
    struct http_bytes body, head;
    const char *why; /* the reason for which we have ended the call; NULL: we have not */
    char curl_text[CURL_ERROR_SIZE];
};

struct http {
    CURLM *multi;
    int epoll;
    int64_t due_ms;          /* on the monotonic clock; HTTP_NO_TIME: none */
    struct http_call *calls; /* oldest first */
    unsigned under_way;
    uint64_t last_id;
    unsigned stepping; /* calls of http_step that have not returned */
    /* Where the authorities' certificates are; NULL: where libcurl looks. */
    const char *certificates, *certificate_folder;
    char *trusted; /* http_trust's */
};

/* ---- Memory, also libcurl's, is wiped before it is freed ---- */

static void http_free(void *memory) {
    if (memory != NULL) {
        explicit_bzero(memory, malloc_usable_size(memory));
        free(memory);
    }
}

static void *http_realloc(void *old, size_t size) {
    void *new = malloc(size);
    size_t before = old != NULL ? malloc_usable_size(old) : 0;
    if (new == NULL) {
        return NULL;
    }
    memcpy(new, old != NULL ? old : "", before < size ? before : size);
    http_free(old);
    return new;
}

static void http_bytes_close(struct http_bytes *bytes) {
    http_free(bytes->data);
    *bytes = (struct http_bytes){0};
}

static void http_bytes_add(struct http_bytes *bytes, const char *data, size_t size) {
    if (bytes->capacity - bytes->size <= size) {
        size_t capacity = 2 * (bytes->size + size) + HTTP_BUFFER_MIN;
        struct http_bytes larger = {memory_zeroed(capacity, 1), bytes->size, capacity};
        if (bytes->size > 0) {
            memcpy(larger.data, bytes->data, bytes->size);
        }
        http_bytes_close(bytes);
        *bytes = larger;
    }
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    bytes->data[bytes->size] = '\0';
}

/* ---- libcurl's callbacks ---- */

static int http_on_socket(CURL *easy, curl_socket_t socket, int what, void *context, void *unused) {
    (void)easy;
    (void)unused;
    struct http *http = context;
    if (what == CURL_POLL_REMOVE) {
        (void)epoll_ctl(http->epoll, EPOLL_CTL_DEL, socket, NULL);
        return 0;
    }
    struct epoll_event event = {.data.fd = socket};
    event.events = ((what & CURL_POLL_IN) != 0 ? EPOLLIN : 0U) | ((what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0U);
    if (epoll_ctl(http->epoll, EPOLL_CTL_MOD, socket, &event) != 0 &&
        epoll_ctl(http->epoll, EPOLL_CTL_ADD, socket, &event) != 0) {
        return -1; /* out of kernel memory: libcurl fails the request */
    }
    return 0;
}

static int http_on_timer(CURLM *multi, long timeout_ms, void *context) {
    (void)multi;
    struct http *http = context;
    http->due_ms = timeout_ms < 0 ? HTTP_NO_TIME : monotonic_ms() + timeout_ms;
    return 0;
}

static size_t http_on_body(char *data, size_t size, size_t count, void *context) {
    struct http_call *call = context;
    size_t bytes = size * count;
    if (bytes > call->answer_max - call->body.size) {
        call->why = "the answer is too large";
        return bytes == 0 ? 1 : 0; /* any number other than `bytes` ends the transfer */
    }
    if (call->room != NULL) {
        memcpy(call->room + call->body.size, data, bytes);
        call->body.size += bytes;
    } else {
        http_bytes_add(&call->body, data, bytes);
    }
    return bytes;
}

static size_t http_on_head(char *data, size_t size, size_t count, void *context) {
    struct http_call *call = context;
    size_t bytes = size * count;
    if (bytes > 5 && memcmp(data, "HTTP/", 5) == 0) {
        call->head.size = 0; /* the header lines before were an interim answer's */
        call->body.size = 0; /* libcurl sends a request again by itself when a kept connection was closed */
    }
    if (bytes > HTTP_HEAD_MAX - call->head.size) {
        call->why = "the answer's header is too large";
        return bytes == 0 ? 1 : 0;
    }
    http_bytes_add(&call->head, data, bytes);
    return bytes;
}

/* ---- Opening and closing ---- */

static const char *http_environment(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

int http_open(struct http **http, struct error *error) {
    *http = NULL;
    /* libcurl keeps the memory functions of its first start in this process. */
    if (curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, http_free, http_realloc, strdup, calloc) != CURLE_OK) {
        return error_set(error, AML_EFAIL, "libcurl can't be started");
    }
    struct http *new = memory_zeroed(1, sizeof *new);
    new->due_ms = HTTP_NO_TIME;
    new->epoll = epoll_create1(EPOLL_CLOEXEC);
    new->multi = curl_multi_init();
    *http = new;
    if (new->epoll < 0 || new->multi == NULL) {
        int code = error_set(error, AML_EFAIL, "no descriptor for requests: %s", strerror(errno));
        http_close(new);
        *http = NULL;
        return code;
    }
    const char *const names[] = {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0] && new->certificates == NULL; i++) {
        new->certificates = http_environment(names[i]);
    }
    new->certificate_folder = http_environment("SSL_CERT_DIR");
    curl_multi_setopt(new->multi, CURLMOPT_SOCKETFUNCTION, http_on_socket);
    curl_multi_setopt(new->multi, CURLMOPT_SOCKETDATA, new);
    curl_multi_setopt(new->multi, CURLMOPT_TIMERFUNCTION, http_on_timer);
    curl_multi_setopt(new->multi, CURLMOPT_TIMERDATA, new);
    curl_multi_setopt(new->multi, CURLMOPT_MAXCONNECTS, (long)HTTP_CONCURRENT_MAX);
    return 0;
}

void http_trust(struct http *http, const char *certificates) {
    if (http_environment("AWS_CA_BUNDLE") == NULL) {
        free(http->trusted);
        http->trusted = memory_string(certificates);
        http->certificates = http->trusted;
    }
}

/* Removes the call from the list and from libcurl. Its `done` may be called afterwards, then http_call_free. */
static void http_call_remove(struct http_call *call) {
    struct http *http = call->http;
    struct http_call **link = &http->calls;
    while (*link != call) {
        assert(*link != NULL);
        link = &(*link)->next;
    }
    *link = call->next;
    if (call->under_way) {
        curl_multi_remove_handle(http->multi, call->easy);
        assert(http->under_way > 0);
        http->under_way--;
        call->under_way = false;
    }
}

static void http_call_free(struct http_call *call) {
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    http_bytes_close(&call->body);
    http_bytes_close(&call->head);
    free(call);
}

void http_close(struct http *http) {
    if (http == NULL) {
        return;
    }
    assert(http->stepping == 0);
    while (http->calls != NULL) {
        struct http_call *call = http->calls;
        http_call_remove(call);
        http_call_free(call);
    }
    if (http->multi != NULL) {
        curl_multi_cleanup(http->multi);
    }
    if (http->epoll >= 0) {
        close(http->epoll);
    }
    free(http->trusted);
    free(http);
    curl_global_cleanup();
}

/* ---- Requests ---- */

/* Whether the address is this machine's or link-local, so that no proxy can reach it. */
static bool http_is_near(const char *host) {
    static const char *const begins[] = {"127.", "169.254.", "[::1]", "[fe80:", "[fd00:ec2:"};
    for (unsigned i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        if (strncasecmp(host, begins[i], strlen(begins[i])) == 0) {
            return true;
        }
    }
    return strcasecmp(host, "localhost") == 0;
}

static bool http_url_is_near(const char *url) {
    CURLU *parts = curl_url();
    char *host = NULL;
    bool near = parts != NULL && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK && http_is_near(host);
    curl_free(host);
    curl_url_cleanup(parts);
    return near;
}

static void http_call_header(struct http_call *call, const char *header) {
    struct curl_slist *headers = curl_slist_append(call->headers, header);
    if (headers == NULL) {
        memory_exhausted(strlen(header));
    }
    call->headers = headers;
}

static void http_call_set_headers(struct http_call *call, const struct http_request *request) {
    bool typed = false;
    for (unsigned i = 0; i < HTTP_HEADERS_MAX && request->headers[i] != NULL; i++) {
        http_call_header(call, request->headers[i]);
        typed |= strncasecmp(request->headers[i], "content-type:", strlen("content-type:")) == 0;
    }
    http_call_header(call, "Expect:"); /* removes libcurl's own header, which costs a round trip or a second */
    if (!typed) {
        http_call_header(call, "Content-Type:");
    }
    curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
}

static void http_call_set_body(struct http_call *call, const struct http_request *request) {
    if (strcmp(request->method, "GET") == 0) {
        curl_easy_setopt(call->easy, CURLOPT_HTTPGET, 1L);
        return;
    }
    if (strcmp(request->method, "HEAD") == 0) {
        curl_easy_setopt(call->easy, CURLOPT_NOBODY, 1L);
        return;
    }
    if (strcmp(request->method, "DELETE") == 0) {
        curl_easy_setopt(call->easy, CURLOPT_HTTPGET, 1L);
        curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, request->method);
        return;
    }
    CURLoption option = request->body_lent ? CURLOPT_POSTFIELDS : CURLOPT_COPYPOSTFIELDS;
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
    if (curl_easy_setopt(call->easy, option, request->body_size > 0 ? request->body : "") != CURLE_OK) {
        memory_exhausted(request->body_size);
    }
    curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, request->method);
}

static void http_call_set_rules(struct http_call *call, const char *url) {
    const struct http *http = call->http;
    CURL *easy = call->easy;
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L); /* "." and ".." may be part of an object's name */
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* a silent name server does not delay the timeout */
#endif
    if (http->certificates != NULL) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, http->certificates);
    }
    if (http->certificate_folder != NULL) {
        curl_easy_setopt(easy, CURLOPT_CAPATH, http->certificate_folder);
    }
    if (http_url_is_near(url)) {
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
    }
}

/* Starts waiting calls, oldest first, up to HTTP_CONCURRENT_MAX under way. */
static void http_admit(struct http *http) {
    for (struct http_call *call = http->calls; call != NULL && http->under_way < HTTP_CONCURRENT_MAX;
         call = call->next) {
        if (call->under_way || call->why != NULL) {
            continue;
        }
        if (curl_multi_add_handle(http->multi, call->easy) == CURLM_OK) {
            call->under_way = true;
            http->under_way++;
        } else {
            call->why = "libcurl does not take the request";
        }
    }
}

struct http_call *http_start(struct http *http, const struct http_request *request, http_done *done, void *context) {
    struct http_call *call = memory_zeroed(1, sizeof *call);
    *call = (struct http_call){.http = http, .id = ++http->last_id, .done = done, .context = context};
    call->answer_max = request->answer_max > 0 ? request->answer_max : HTTP_ANSWER_MAX_DEFAULT;
    call->room = request->room;
    call->easy = curl_easy_init();
    if (call->easy == NULL || curl_easy_setopt(call->easy, CURLOPT_URL, request->url) != CURLE_OK) {
        memory_exhausted(strlen(request->url));
    }
    long timeout_ms = request->timeout_ms > 0 ? (long)request->timeout_ms : HTTP_TIMEOUT_MS_DEFAULT;
    curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, timeout_ms);
    curl_easy_setopt(call->easy, CURLOPT_CONNECTTIMEOUT_MS,
                     timeout_ms < HTTP_CONNECT_MS ? timeout_ms : HTTP_CONNECT_MS);
    if (request->stall_s > 0) {
        curl_easy_setopt(call->easy, CURLOPT_LOW_SPEED_LIMIT, (long)HTTP_STALL_BYTES);
        curl_easy_setopt(call->easy, CURLOPT_LOW_SPEED_TIME, (long)request->stall_s);
    }
    curl_easy_setopt(call->easy, CURLOPT_USERAGENT, "proteus/" PROTEUS_VERSION);
    curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(call->easy, CURLOPT_ERRORBUFFER, call->curl_text);
    curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, http_on_body);
    curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(call->easy, CURLOPT_HEADERFUNCTION, http_on_head);
    curl_easy_setopt(call->easy, CURLOPT_HEADERDATA, call);
    http_call_set_rules(call, request->url);
    http_call_set_body(call, request);
    http_call_set_headers(call, request);
    struct http_call **link = &http->calls;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = call;
    http_admit(http);
    return call;
}

void http_cancel(struct http *http, struct http_call *call) {
    assert(call->http == http);
    http_call_remove(call);
    http_call_free(call);
    http_admit(http);
}

/* ---- Answers and progress ---- */

bool http_header(const struct http_answer *answer, const char *name, char *value, size_t size) {
    size_t length = strlen(name);
    value[0] = '\0';
    for (const char *line = answer->head; line != NULL && line[0] != '\0';) {
        const char *end = line + strcspn(line, "\r\n");
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            const char *begin = line + length + 1;
            begin += strspn(begin, " \t");
            while (end > begin && (end[-1] == ' ' || end[-1] == '\t')) {
                end--;
            }
            if (end < begin || (size_t)(end - begin) >= size) {
                return false;
            }
            memcpy(value, begin, (size_t)(end - begin));
            value[end - begin] = '\0';
            return true;
        }
        line = end + strspn(end, "\r\n");
    }
    return false;
}

static int64_t http_date(const struct http_answer *answer) {
    char text[64];
    time_t date = http_header(answer, "Date", text, sizeof text) ? curl_getdate(text, NULL) : -1;
    return date > 0 ? (int64_t)date : 0;
}

static bool http_lasting(CURLcode result) {
    static const CURLcode codes[] = {
        CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT,    CURLE_COULDNT_RESOLVE_HOST, CURLE_PEER_FAILED_VERIFICATION,
        CURLE_SSL_CACERT_BADFILE,   CURLE_SSL_ISSUER_ERROR, CURLE_SSL_CERTPROBLEM};
    for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
        if (codes[c] == result) {
            return true;
        }
    }
    return false;
}

static void http_call_finish(struct http_call *call, CURLcode result) {
    struct http_answer answer = {0};
    long status = 0;
    answer.body = call->body.size == 0 ? "" : call->room != NULL ? call->room : call->body.data;
    answer.body_size = call->body.size;
    answer.head = call->head.size > 0 ? call->head.data : "";
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    if (call->why != NULL || result != CURLE_OK) {
        const char *text = call->curl_text[0] != '\0' ? call->curl_text : curl_easy_strerror(result);
        snprintf(answer.error, sizeof answer.error, "%s", call->why != NULL ? call->why : text);
        answer.lasting = call->why == NULL && http_lasting(result);
    } else if (status < 100 || status > 999) {
        snprintf(answer.error, sizeof answer.error, "the answer has no status");
    } else {
        answer.status = (int)status;
    }
    answer.date = http_date(&answer);
    http_call_remove(call);
    http_admit(call->http);
    call->done(call->context, &answer);
    http_call_free(call);
}

/* Returns a call that libcurl did not accept, or NULL. */
static struct http_call *http_find_refused(const struct http *http) {
    struct http_call *call = http->calls;
    while (call != NULL && (call->under_way || call->why == NULL)) {
        call = call->next;
    }
    return call;
}

static void http_finish_all(struct http *http) {
    int left;
    const struct CURLMsg *message;
    while ((message = curl_multi_info_read(http->multi, &left)) != NULL) {
        if (message->msg == CURLMSG_DONE) {
            struct http_call *call = NULL;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
            http_call_finish(call, message->data.result);
        }
    }
    struct http_call *refused;
    while ((refused = http_find_refused(http)) != NULL) {
        http_call_finish(refused, CURLE_FAILED_INIT);
    }
}

int http_fd(const struct http *http) {
    return http->epoll;
}

int http_wait_ms(struct http *http) {
    if (http_find_refused(http) != NULL) {
        return 0;
    }
    if (http->due_ms == HTTP_NO_TIME) {
        return -1;
    }
    int64_t wait = http->due_ms - monotonic_ms();
    return wait < 0 ? 0 : wait > INT_MAX ? INT_MAX : (int)wait;
}

void http_step(struct http *http) {
    http->stepping++;
    struct epoll_event events[HTTP_EVENTS];
    int count = epoll_wait(http->epoll, events, HTTP_EVENTS, 0);
    int running;
    for (int i = 0; i < count; i++) {
        uint32_t what = events[i].events;
        int mask = ((what & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) | ((what & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                   ((what & (EPOLLERR | EPOLLHUP)) != 0 ? CURL_CSELECT_ERR : 0);
        (void)curl_multi_socket_action(http->multi, events[i].data.fd, mask, &running);
    }
    if (http->due_ms != HTTP_NO_TIME && http->due_ms <= monotonic_ms()) {
        http->due_ms = HTTP_NO_TIME; /* libcurl reports its next timeout only when it differs */
        (void)curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    http_finish_all(http);
    http->stepping--;
}

static bool http_has(const struct http *http, uint64_t id) {
    const struct http_call *call = http->calls;
    while (call != NULL && call->id != id) {
        call = call->next;
    }
    return call != NULL;
}

void http_run(struct http *http, const struct http_call *call) {
    uint64_t id = call->id;
    while (http_has(http, id)) {
        struct pollfd readable = {.fd = http->epoll, .events = POLLIN};
        (void)poll(&readable, 1, http_wait_ms(http));
        http_step(http);
    }
}
