/* The server's life cycle, and its input from the process that has the report. See server.h. */
#include "web/server_private.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/base/new_file.h"
#include "agileml/base/private_file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    KEEPER_MS = 1000,   /* time between two rounds of the keeper */
    HISTORY_ROUNDS = 5, /* rounds between two writes of the history's file */
    PEM_BYTES_MAX = 1 << 20,
    BACKLOG = 64,
};

/* ---- Feeding ---- */

static void recent_add(struct web_feed *feed, struct history_line *line) {
    if (feed->recent_count > 0 && feed->recent[feed->recent_count - 1]->number + 1 != line->number) {
        for (size_t l = 0; l < feed->recent_count; l++) {
            history_line_drop(feed->recent[l]); /* after a gap streams start anew */
        }
        feed->recent_count = feed->recent_bytes = 0;
    }
    if (feed->recent_count == feed->recent_capacity) {
        feed->recent_capacity = feed->recent_capacity > 0 ? 2 * feed->recent_capacity : 256;
        feed->recent = memory_resized(feed->recent, feed->recent_capacity, sizeof(struct history_line *));
    }
    feed->recent[feed->recent_count++] = history_line_hold(line);
    feed->recent_bytes += line->size;
    size_t dropped = 0;
    if (feed->recent_bytes > WEB_RECENT_BYTES) { /* drops many lines at once, so that moving the others costs little */
        while (dropped + 1 < feed->recent_count && feed->recent_bytes > WEB_RECENT_BYTES / 4 * 3) {
            feed->recent_bytes -= feed->recent[dropped]->size;
            history_line_drop(feed->recent[dropped++]);
        }
        feed->recent_count -= dropped;
        memmove(feed->recent, feed->recent + dropped, feed->recent_count * sizeof(struct history_line *));
    }
}

void web_line(struct web *web, uint64_t number, const char *text, size_t size) {
    struct report_line *read = report_line_read(text, size, NULL);
    struct history_line *line = history_line_new(number, read, text, size);
    pthread_mutex_lock(&web->mutex);
    if (number >= history_next(web->feed.history)) {
        if (read != NULL) {
            metrics_line(&web->feed.metrics, read, clock_seconds(CLOCK_REALTIME));
        }
        history_add(web->feed.history, line);
    }
    recent_add(&web->feed, line);
    web->feed.over = web->feed.over || line->is == REPORT_SUMMARY;
    streams_resume(web, false);
    pthread_mutex_unlock(&web->mutex);
    report_line_drop(read);
    history_line_drop(line);
}

uint64_t web_next(const struct web *web) {
    /* without a lock: called before the first web_line, or by the same thread */
    return history_next(web->feed.history);
}

bool web_wants_status(struct web *web) {
    pthread_mutex_lock(&web->mutex);
    const struct web_feed *feed = &web->feed;
    uint64_t age_ms = WEB_STATUS_MS > WEB_STATUS_NODE_MS * feed->status_nodes ? WEB_STATUS_MS
                                                                              : WEB_STATUS_NODE_MS * feed->status_nodes;
    bool wanted = feed->status_wanted && (feed->status == NULL || web_now_ms() - feed->status_ms >= age_ms);
    pthread_mutex_unlock(&web->mutex);
    return wanted;
}

static void text_drop(struct web_text *text) {
    if (text != NULL && --text->references == 0) {
        free(text);
    }
}

void web_status(struct web *web, const char *text, size_t size, size_t nodes) {
    struct web_text *status = memory_zeroed(1, sizeof *status + size);
    status->references = 1;
    status->size = size;
    memcpy(status->bytes, text, size);
    pthread_mutex_lock(&web->mutex);
    text_drop(web->feed.status);
    web->feed.status = status;
    web->feed.status_ms = web_now_ms();
    web->feed.status_nodes = nodes;
    web->feed.status_wanted = false;
    waiters_resume(web, 0, 0, "");
    pthread_mutex_unlock(&web->mutex);
}

void web_ready(struct web *web, bool ready) {
    pthread_mutex_lock(&web->mutex);
    web->feed.ready = ready;
    pthread_mutex_unlock(&web->mutex);
}

void web_alive(struct web *web) {
    pthread_mutex_lock(&web->mutex);
    web->feed.alive_ms = web_now_ms();
    pthread_mutex_unlock(&web->mutex);
}

bool web_take_action(struct web *web, struct web_action *action) {
    pthread_mutex_lock(&web->mutex);
    bool any = web->action_count > 0;
    if (any) {
        *action = web->actions[0];
        web->action_count--;
        memmove(web->actions, web->actions + 1, web->action_count * sizeof *web->actions);
    }
    pthread_mutex_unlock(&web->mutex);
    return any;
}

void web_answer(struct web *web, uint64_t number, int code, const char *text) {
    pthread_mutex_lock(&web->mutex);
    waiters_resume(web, number, code, text);
    pthread_mutex_unlock(&web->mutex);
}

/* ---- The history's file ---- */

static int write_history(const char *path, const struct history_view *view, struct error *error) {
    char *text = NULL;
    size_t size = 0;
    struct new_file file;
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) {
        memory_exhausted(1);
    }
    history_view_write(view, stream);
    if (fclose(stream) != 0) {
        memory_exhausted(size);
    }
    int result = new_file_open(&file, path, error);
    if (result == 0) {
        file.mode = 0600; /* like the report, whose lines it has */
        result = new_file_write(&file, text, size, error);
        if (result != 0) {
            new_file_discard(&file);
        } else {
            result = new_file_commit(&file, error);
        }
    }
    free(text);
    return result;
}

static void keep_history(struct web *web, uint64_t *written) {
    struct error error = {0};
    pthread_mutex_lock(&web->mutex);
    uint64_t next = history_next(web->feed.history);
    struct history_view view = next != *written ? history_view_open(web->feed.history) : (struct history_view){0};
    pthread_mutex_unlock(&web->mutex);
    if (view.count > 0 && write_history(web->history_path, &view, &error) != 0) {
        log_warn("the page's history is not kept, so after a restart of the controller the page begins anew: %s",
                 error.text);
    }
    *written = next;
    history_view_close(&view);
}

/* The keeper's thread. Resumes streams whose comment is due and requests whose time is over, and writes the history,
 * until the server closes. */
static void *keep(void *self) {
    struct web *web = self;
    uint64_t written = history_next(web->feed.history);
    pthread_mutex_lock(&web->mutex);
    for (unsigned round = 1; !web->closing; round++) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += KEEPER_MS / 1000;
        pthread_cond_timedwait(&web->changed, &web->mutex, &until);
        streams_resume(web, round % WEB_KEEPALIVE_S == 0);
        waiters_resume(web, UINT64_MAX, AML_EFAIL, "");
        if (web->history_path != NULL && (round % HISTORY_ROUNDS == 0 || web->closing)) {
            pthread_mutex_unlock(&web->mutex);
            keep_history(web, &written);
            pthread_mutex_lock(&web->mutex);
        }
    }
    pthread_mutex_unlock(&web->mutex);
    return NULL;
}

/* Reads the history of an earlier controller, or begins its file, so that the name of its run lasts. */
static int open_history(struct web *web, const char *path, struct error *error) {
    struct error problem = {0};
    web->history_path = memory_string(path);
    FILE *file = fopen(path, "re");
    if (file == NULL && errno != ENOENT) {
        return error_set(error, AML_EINPUT, "can't read the page's history %.200s: %s", path, strerror(errno));
    }
    if (file != NULL && history_read(web->feed.history, file, &problem) != 0) {
        log_warn("%.200s: %s; the page begins anew", path, problem.text);
        history_free(web->feed.history);
        web->feed.history = history_new();
    }
    if (file != NULL) {
        fclose(file);
    }
    uint64_t written = UINT64_MAX;
    keep_history(web, &written);
    return 0;
}

/* ---- Opening ---- */

/* Reads a file of certificates or a key. Returns 0 or AML_EINPUT. */
static int read_pem(const char *option, const char *path, bool secret, char **text, struct error *error) {
    struct stat status;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
        int result = error_set(error, AML_EINPUT, "%s %.200s: %s", option, path, strerror(errno));
        if (descriptor >= 0) {
            close(descriptor);
        }
        return result;
    }
    int result = secret ? private_file_check(path, &status, error) : 0;
    *text = memory_zeroed(1, PEM_BYTES_MAX + 1);
    ssize_t size = result == 0 ? read(descriptor, *text, PEM_BYTES_MAX) : 0;
    close(descriptor);
    if (result == 0 && (size <= 0 || strstr(*text, "-----BEGIN ") == NULL)) {
        result = error_set(error, AML_EINPUT, "%s %.200s: expected a file in PEM format", option, path);
    }
    return result;
}

/* Splits "HOST:PORT" or "[HOST]:PORT". */
static bool split_address(const char *text, char host[WEB_ADDRESS_MAX], char port[8]) {
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || strlen(text) >= WEB_ADDRESS_MAX || strlen(colon + 1) > 5 ||
        colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1) || atoi(colon + 1) > 65535) {
        return false;
    }
    size_t length = (size_t)(colon - text);
    bool brackets = text[0] == '[' && text[length - 1] == ']';
    if (!brackets && memchr(text, ':', length) != NULL) {
        return false; /* an IPv6 address needs brackets */
    }
    snprintf(host, WEB_ADDRESS_MAX, "%.*s", (int)(brackets ? length - 2 : length), text + (brackets ? 1 : 0));
    snprintf(port, 8, "%s", colon + 1);
    return true;
}

static int resolve(const char *listen, struct addrinfo **found, struct error *error) {
    char host[WEB_ADDRESS_MAX];
    char port[8];
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    if (!split_address(strcmp(listen, "auto") == 0 ? "127.0.0.1:0" : listen, host, port)) {
        return error_set(error, AML_EINPUT,
                         "--http %.200s: expected HOST:PORT with a port from 0 to 65535, [IPV6]:PORT, or auto", listen);
    }
    int failed = getaddrinfo(host, port, &hints, found);
    return failed == 0 ? 0 : error_set(error, AML_EINPUT, "--http %.200s: %s", listen, gai_strerror(failed));
}

static bool is_loopback(const struct addrinfo *address) {
    if (address->ai_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address->ai_addr)->sin6_addr);
    }
    const struct sockaddr_in *v4 = (const void *)address->ai_addr;
    return address->ai_family == AF_INET && ntohl(v4->sin_addr.s_addr) >> 24 == 127;
}

int web_check(const struct web_options *options, struct error *error) {
    struct addrinfo *found = NULL;
    bool asks = options->token != NULL || options->client_ca != NULL;
    if (options->listen == NULL) {
        const char *given = options->token != NULL         ? "token"
                            : options->certificate != NULL ? "cert"
                            : options->key != NULL         ? "cert-key"
                            : options->client_ca != NULL   ? "client-ca"
                                                           : NULL;
        return given != NULL ? error_set(error, AML_EINPUT, "--http-%s: expected --http HOST:PORT with it", given) : 0;
    }
    if ((options->certificate == NULL) != (options->key == NULL)) {
        return error_set(error, AML_EINPUT, "--http-cert and --http-cert-key: expected both or none");
    }
    if (options->client_ca != NULL && options->certificate == NULL) {
        return error_set(error, AML_EINPUT, "--http-client-ca: expected --http-cert with it");
    }
    int result = resolve(options->listen, &found, error);
    bool loopback = result == 0 && is_loopback(found);
    if (result == 0 && !loopback && !asks && !options->insecure) {
        result = error_set(error, AML_EINPUT,
                           "--http %.200s: other machines reach this address: expected --http-token, --http-client-ca, "
                           "or --insecure",
                           options->listen);
    } else if (result == 0 && !loopback && options->certificate == NULL && !options->insecure) {
        result = error_set(error, AML_EINPUT,
                           "--http %.200s: the token would travel in the clear: expected --http-cert, or --insecure",
                           options->listen);
    }
    if (found != NULL) {
        freeaddrinfo(found);
    }
    return result;
}

/* Opens the listening socket, and writes the address for clients. */
static int listen_at(struct web *web, const struct web_options *options, int *descriptor, struct error *error) {
    struct addrinfo *found = NULL;
    const int on = 1;
    char host[WEB_ADDRESS_MAX];
    char port[8];
    int result = resolve(options->listen, &found, error);
    if (result != 0) {
        return result;
    }
    int s = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_storage bound = {0};
    socklen_t size = sizeof bound;
    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(s, found->ai_addr, found->ai_addrlen) != 0 || listen(s, BACKLOG) != 0 ||
        getsockname(s, (struct sockaddr *)&bound, &size) != 0 ||
        getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        result = error_set(error, AML_EINPUT, "--http %.200s: %s", options->listen, strerror(errno));
        if (s >= 0) {
            close(s);
        }
    } else {
        bool v6 = found->ai_family == AF_INET6;
        snprintf(web->host, sizeof web->host, "%s%.200s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
        snprintf(web->address, sizeof web->address, "%s://%.240s/", options->certificate != NULL ? "https" : "http",
                 web->host);
        web->access.loopback = is_loopback(found);
        *descriptor = s;
    }
    freeaddrinfo(found);
    return result;
}

static int start(struct web *web, int descriptor, struct error *error) {
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
    struct MHD_OptionItem tls[4] = {{MHD_OPTION_END, 0, NULL}};
    unsigned count = 0;
    if (web->certificate != NULL) {
        flags |= MHD_USE_TLS;
        tls[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, web->certificate};
        tls[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, web->key};
        if (web->client_ca != NULL) {
            tls[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, web->client_ca};
        }
    }
    tls[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    web->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, routes_handle, web, MHD_OPTION_LISTEN_SOCKET, descriptor,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)WEB_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)WEB_CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)WEB_IDLE_S,
                         MHD_OPTION_NOTIFY_COMPLETED, routes_completed, web, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    if (web->daemon == NULL) {
        close(descriptor);
        return error_set(error, AML_EINPUT, "--http: the server does not start%s",
                         web->certificate != NULL ? ": expected a certificate in --http-cert that --http-cert-key fits"
                                                  : "");
    }
    return 0;
}

static int start_keeper(struct web *web, struct error *error) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&web->keeper, NULL, keep, web);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    web->keeping = failed == 0;
    return failed == 0 ? 0 : error_set(error, AML_EFAIL, "can't start a thread: %s", strerror(failed));
}

int web_open(struct web **opened, const struct web_options *options, struct error *error) {
    struct web *web = memory_zeroed(1, sizeof *web);
    pthread_condattr_t monotonic;
    int descriptor = -1;
    web->subject = options->subject;
    web->wake = options->wake;
    web->context = options->context;
    web->feed.history = history_new();
    web->feed.alive_ms = web_now_ms();
    web->feed.began = clock_seconds(CLOCK_REALTIME);
    pthread_mutex_init(&web->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&web->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int result = web_check(options, error);
    result = result == 0 ? access_open(web, options, error) : result;
    if (result == 0 && options->certificate != NULL) {
        result = read_pem("--http-cert", options->certificate, false, &web->certificate, error);
        result = result == 0 ? read_pem("--http-cert-key", options->key, true, &web->key, error) : result;
    }
    if (result == 0 && options->client_ca != NULL) {
        result = read_pem("--http-client-ca", options->client_ca, false, &web->client_ca, error);
    }
    result = result == 0 && options->history != NULL ? open_history(web, options->history, error) : result;
    if (result == 0 && options->fill != NULL) {
        options->fill(options->context, web);
    }
    result = result == 0 ? listen_at(web, options, &descriptor, error) : result;
    result = result == 0 ? start(web, descriptor, error) : result;
    result = result == 0 ? start_keeper(web, error) : result;
    if (result != 0) {
        web_close(web);
        return result;
    }
    *opened = web;
    return 0;
}

const char *web_address(const struct web *web) {
    return web->address;
}

/* ---- Closing ---- */

/* Has streams send their missing lines, and waits for those that still read. */
static void finish_streams(struct web *web) {
    uint64_t until_ms = web_now_ms() + WEB_CLOSE_MS;
    pthread_mutex_lock(&web->mutex);
    web->closing = true;
    for (struct waiter *waiter = web->waiters; waiter != NULL; waiter = waiter->next) {
        waiter->since_ms = 0; /* its time is over */
    }
    waiters_resume(web, UINT64_MAX, AML_EFAIL, "");
    streams_resume(web, false);
    while (web->streams != NULL && web_now_ms() < until_ms) {
        pthread_mutex_unlock(&web->mutex);
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
        pthread_mutex_lock(&web->mutex);
    }
    pthread_cond_signal(&web->changed);
    pthread_mutex_unlock(&web->mutex);
}

void web_close(struct web *web) {
    if (web == NULL) {
        return;
    }
    if (web->daemon != NULL) {
        finish_streams(web);
        MHD_stop_daemon(web->daemon);
    }
    if (web->keeping) {
        pthread_join(web->keeper, NULL);
    }
    for (size_t l = 0; l < web->feed.recent_count; l++) {
        history_line_drop(web->feed.recent[l]);
    }
    for (size_t a = 0; a < web->action_count; a++) {
        web_action_close(&web->actions[a]);
    }
    if (web->feed.view != NULL) {
        history_view_close(&web->feed.view->view);
    }
    free(web->feed.view);
    free(web->feed.recent);
    text_drop(web->feed.status);
    history_free(web->feed.history);
    metrics_close(&web->feed.metrics);
    explicit_bzero(web->access.token, sizeof web->access.token);
    free(web->history_path);
    free(web->certificate);
    free(web->key);
    free(web->client_ca);
    pthread_cond_destroy(&web->changed);
    pthread_mutex_destroy(&web->mutex);
    free(web);
}
