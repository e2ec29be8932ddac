/* See server.h. */
#include "spotmarket/server.h"

#include "agileml/base/memory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* A request under way. */
struct exchange {
    struct server *server;
    struct MHD_Connection *connection;
    struct exchange *next; /* next in the list of delayed exchanges */
    int64_t due_us;        /* steady time at which a delayed answer is sent */
    char uri[SERVICE_URI_MAX];
    bool uri_too_long, begun, answered;
    struct text body;
    struct sigv4_header headers[SERVICE_HEADERS_MAX];
    size_t header_count;
    struct service_answer answer;
    size_t sent; /* bytes sent of a broken answer */
};

/* A connection. */
struct link {
    struct link *older, *newer;
    struct MHD_Connection *connection;
    int socket;
    bool given_way; /* shut down and removed from the list; libmicrohttpd will notice and close it */
};

struct server {
    struct server_options options;
    struct MHD_Daemon *daemon;
    int epoll;
    char url[SERVER_URL];
    struct exchange *waiting;
    struct link *oldest, *newest; /* sorted by the time of the last answer, or else of connecting */
    unsigned link_count;
};

/* ---- Connections ---- */

static void link_append(struct server *server, struct link *link) {
    link->older = server->newest;
    link->newer = NULL;
    *(server->newest != NULL ? &server->newest->newer : &server->oldest) = link;
    server->newest = link;
    server->link_count++;
}

static void link_remove(struct server *server, struct link *link) {
    *(link->older != NULL ? &link->older->newer : &server->oldest) = link->newer;
    *(link->newer != NULL ? &link->newer->older : &server->newest) = link->older;
    server->link_count--;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode code) {
    struct server *server = context;
    struct link *link = *state;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        link = memory_zeroed(1, sizeof *link);
        link->connection = connection;
        link->socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        link_append(server, link);
        *state = link;
    } else if (link != NULL) {
        if (!link->given_way) {
            link_remove(server, link);
        }
        free(link);
        *state = NULL;
    }
}

/* Makes the connection the newest: a request on it has ended. */
static void link_renew(struct server *server, struct MHD_Connection *connection) {
    struct link *link = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    if (link != NULL && !link->given_way) {
        link_remove(server, link);
        link_append(server, link);
    }
}

/* Removes a delayed exchange. Returns false if it was not delayed. */
static bool waiting_remove(struct server *server, const struct exchange *exchange) {
    for (struct exchange **at = &server->waiting; *at != NULL; at = &(*at)->next) {
        if (*at == exchange) {
            *at = exchange->next;
            return true;
        }
    }
    return false;
}

static void link_give_way(struct server *server, struct link *link) {
    struct exchange *exchange = server->waiting;
    while (exchange != NULL && exchange->connection != link->connection) {
        exchange = exchange->next;
    }
    if (exchange != NULL && waiting_remove(server, exchange)) {
        MHD_resume_connection(link->connection);
    }
    link_remove(server, link);
    link->given_way = true;
    shutdown(link->socket, SHUT_RDWR);
}

/* ---- Answers ---- */

/* Sends half of the body, then fails, which closes the connection. */
static ssize_t broken_read(void *context, uint64_t position, char *bytes, size_t most) {
    struct exchange *exchange = context;
    size_t half = exchange->answer.body.length / 2;
    if (position >= half) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t size = half - (size_t)position < most ? half - (size_t)position : most;
    memcpy(bytes, exchange->answer.body.data + position, size);
    return (ssize_t)size;
}

static void date_header(struct MHD_Response *response, int64_t date) {
    char text[64];
    time_t when = (time_t)date;
    struct tm parts;
    gmtime_r(&when, &parts);
    strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts); /* the program's locale is "C" */
    MHD_add_response_header(response, MHD_HTTP_HEADER_DATE, text);
}

static enum MHD_Result exchange_send(struct exchange *exchange) {
    struct service_answer *answer = &exchange->answer;
    if (answer->lost) {
        return MHD_NO; /* closes the connection */
    }
    struct MHD_Response *response =
        answer->broken ? MHD_create_response_from_callback(answer->body.length, 4096, broken_read, exchange, NULL)
                       : MHD_create_response_from_buffer(answer->body.length, answer->body.data, MHD_RESPMEM_MUST_COPY);
    if (response == NULL) {
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_SERVER, "spotmarket");
    date_header(response, answer->date);
    if (answer->noticed) {
        char left[32];
        snprintf(left, sizeof left, "%.3f", answer->left_s);
        MHD_add_response_header(response, "X-Proteus-Seconds-Left", left);
    }
    enum MHD_Result result = MHD_queue_response(exchange->connection, (unsigned)answer->status, response);
    MHD_destroy_response(response);
    return result;
}

static void exchange_refuse(struct exchange *exchange, int status, const char *text) {
    struct service_clock clock = exchange->server->options.clock(exchange->server->options.context);
    exchange->answer = (struct service_answer){.status = status, .type = "text/plain"};
    exchange->answer.date = clock.real;
    text_add(&exchange->answer.body, text);
    exchange->answered = true;
}

/* ---- Requests ---- */

static enum MHD_Result header_keep(void *context, enum MHD_ValueKind kind, const char *name, const char *value) {
    struct exchange *exchange = context;
    (void)kind;
    if (exchange->header_count == SERVICE_HEADERS_MAX) {
        return MHD_NO;
    }
    exchange->headers[exchange->header_count++] = (struct sigv4_header){name, value != NULL ? value : ""};
    return MHD_YES;
}

static void exchange_wait(struct exchange *exchange, int64_t due_us) {
    exchange->due_us = due_us;
    exchange->next = exchange->server->waiting;
    exchange->server->waiting = exchange;
    MHD_suspend_connection(exchange->connection);
}

static enum MHD_Result exchange_handle(struct exchange *exchange, const char *method) {
    struct server *server = exchange->server;
    char *query = strchr(exchange->uri, '?');
    int headers = MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, header_keep, exchange);
    if (headers > SERVICE_HEADERS_MAX || exchange->header_count == SERVICE_HEADERS_MAX) {
        exchange_refuse(exchange, 431, "too many headers\n");
        return exchange_send(exchange);
    }
    if (query != NULL) {
        *query++ = '\0';
    }
    struct sigv4_request request = {
        .method = method,
        .path = exchange->uri,
        .query = query,
        .headers = exchange->headers,
        .header_count = exchange->header_count,
        .body = exchange->body.data != NULL ? exchange->body.data : "",
        .body_size = exchange->body.length,
    };
    struct service_clock clock = server->options.clock(server->options.context);
    service_handle(server->options.service, &request, &clock, &exchange->answer);
    exchange->answered = true;
    if (exchange->answer.delay_ms > 0) {
        exchange_wait(exchange, clock.steady_us + exchange->answer.delay_ms * 1000);
        return MHD_YES;
    }
    return exchange_send(exchange);
}

/* Handles the first call for a request, when its headers are complete. */
static enum MHD_Result exchange_begin(struct exchange *exchange) {
    const char *length =
        MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    exchange->begun = true;
    if (exchange->uri_too_long) {
        exchange_refuse(exchange, 414, "the URI is too long\n");
        return exchange_send(exchange);
    }
    if (length != NULL && strtoull(length, NULL, 10) > SERVICE_BODY_MAX) {
        exchange_refuse(exchange, 413, "the body is too large\n");
        return exchange_send(exchange);
    }
    return MHD_YES;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *data, size_t *size, void **state) {
    struct exchange *exchange = *state;
    (void)context;
    (void)url;
    (void)version;
    if (exchange == NULL) {
        return MHD_NO;
    }
    exchange->connection = connection;
    if (!exchange->begun) {
        return exchange_begin(exchange);
    }
    if (*size > 0) {
        if (exchange->body.length + *size > SERVICE_BODY_MAX) {
            return MHD_NO; /* a body without Content-Length: closes the connection */
        }
        text_bytes(&exchange->body, data, *size);
        *size = 0;
        return MHD_YES;
    }
    return exchange->answered ? exchange_send(exchange) : exchange_handle(exchange, method);
}

static void *on_uri(void *context, const char *uri, struct MHD_Connection *connection) {
    struct exchange *exchange = memory_zeroed(1, sizeof *exchange);
    (void)connection;
    exchange->server = context;
    exchange->uri_too_long = strlen(uri) >= sizeof exchange->uri;
    snprintf(exchange->uri, sizeof exchange->uri, "%s", uri);
    return exchange;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why) {
    struct server *server = context;
    struct exchange *exchange = *state;
    (void)why;
    if (exchange == NULL) {
        return;
    }
    (void)waiting_remove(server, exchange);
    link_renew(server, connection);
    text_close(&exchange->body);
    text_close(&exchange->answer.body);
    free(exchange);
    *state = NULL;
}

/* ---- The server ---- */

/* Parses "127.X.X.X:PORT" or "localhost:PORT". */
static bool listen_parse(const char *text, struct sockaddr_in *address) {
    char host[32];
    const char *colon = strrchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    if (length == 0 || length >= sizeof host) {
        return false;
    }
    snprintf(host, sizeof host, "%.*s", (int)length, text);
    char *end;
    long port = strtol(colon + 1, &end, 10);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return colon[1] >= '0' && colon[1] <= '9' && *end == '\0' && port <= UINT16_MAX &&
           inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &address->sin_addr) == 1 &&
           ntohl(address->sin_addr.s_addr) >> 24 == 127;
}

int server_open(struct server **opened, const struct server_options *options, struct error *error) {
    struct sockaddr_in address;
    if (!listen_parse(options->listen, &address)) {
        return error_set(error, AML_EINPUT,
                         "--listen: expected a loopback address and a port such as 127.0.0.1:0, got "
                         "'%.60s'",
                         options->listen);
    }
    struct server *server = memory_zeroed(1, sizeof *server);
    server->options = *options;
    errno = 0;
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_SUPPRESS_DATE_NO_CLOCK | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, server,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)SERVER_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVER_MEMORY,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SERVER_IDLE_SECONDS, MHD_OPTION_URI_LOG_CALLBACK, on_uri, server,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
        MHD_OPTION_END);
    if (server->daemon == NULL) {
        int code = error_set(error, AML_EFAIL, "can't listen on %.60s: %s", options->listen,
                             errno != 0 ? strerror(errno) : "the HTTP server does not start");
        free(server);
        return code;
    }
    server->epoll = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    char host[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &address.sin_addr, host, sizeof host);
    snprintf(server->url, sizeof server->url, "http://%s:%u", host,
             (unsigned)MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    *opened = server;
    return 0;
}

void server_close(struct server *server) {
    if (server == NULL) {
        return;
    }
    while (server->waiting != NULL) {
        struct exchange *exchange = server->waiting;
        server->waiting = exchange->next;
        MHD_resume_connection(exchange->connection);
    }
    MHD_stop_daemon(server->daemon);
    free(server);
}

const char *server_url(const struct server *server) {
    return server->url;
}

int server_fd(const struct server *server) {
    return server->epoll;
}

int server_wait_ms(const struct server *server) {
    MHD_UNSIGNED_LONG_LONG timeout;
    int64_t wait = MHD_get_timeout(server->daemon, &timeout) == MHD_YES ? (int64_t)timeout : INT_MAX;
    int64_t now_us = server->options.clock(server->options.context).steady_us;
    for (const struct exchange *exchange = server->waiting; exchange != NULL; exchange = exchange->next) {
        int64_t left = exchange->due_us > now_us ? (exchange->due_us - now_us + 999) / 1000 : 0;
        wait = left < wait ? left : wait;
    }
    return wait >= INT_MAX ? -1 : (int)wait;
}

void server_step(struct server *server) {
    int64_t now_us = server->options.clock(server->options.context).steady_us;
    for (struct exchange **link = &server->waiting; *link != NULL;) {
        struct exchange *exchange = *link;
        if (exchange->due_us <= now_us) {
            *link = exchange->next;
            MHD_resume_connection(exchange->connection);
        } else {
            link = &exchange->next;
        }
    }
    MHD_run(server->daemon);
    while (server->link_count > SERVER_CONNECTIONS_KEPT) {
        link_give_way(server, server->oldest);
    }
}
