/* See http_server.h. */
#include "tests/unit/http_server.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
    struct http_server *server;
    pthread_t thread;
    int socket;
    unsigned number;
};

struct http_server {
    http_server_answer *answer;
    void *context;
    int listener;
    char url[64];
    pthread_t thread;
    pthread_mutex_t lock; /* protects the handler and all fields below */
    struct connection connections[HTTP_SERVER_CONNECTIONS_MAX];
    unsigned count;
};

static bool send_all(int socket, const char *data, size_t size) {
    while (size > 0) {
        ssize_t sent = send(socket, data, size, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        data += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* Reads a request; false: the connection ended. */
static bool request_read(int socket, struct http_server_request *request) {
    char *head = request->head;
    size_t size = 0;
    while (size < 4 || memcmp(head + size - 4, "\r\n\r\n", 4) != 0) {
        if (size + 1 >= sizeof request->head || recv(socket, head + size, 1, 0) != 1) {
            return false;
        }
        head[++size] = '\0';
    }
    if (sscanf(head, "%15s %1023s", request->method, request->path) != 2) {
        return false;
    }
    char value[1024];
    size_t length = strtoul(http_server_header(request, "Content-Length", value), NULL, 10);
    request->body_size = 0;
    while (request->body_size < length) {
        char piece[4096];
        size_t wanted = length - request->body_size < sizeof piece ? length - request->body_size : sizeof piece;
        ssize_t got = recv(socket, piece, wanted, 0);
        if (got <= 0) {
            return false;
        }
        if (request->body_size + (size_t)got < sizeof request->body) {
            memcpy(request->body + request->body_size, piece, (size_t)got);
            request->body[request->body_size + (size_t)got] = '\0';
        }
        request->body_size += (size_t)got;
    }
    return true;
}

/* Sends a reply; false: the connection is to be closed. */
static bool reply_send(int socket, const struct http_server_reply *reply) {
    if (reply->silent) {
        return true;
    }
    if (reply->raw != NULL) {
        (void)send_all(socket, reply->raw, strlen(reply->raw));
        return false;
    }
    const size_t size = reply->size;
    char head[2048];
    int length = snprintf(head, sizeof head, "HTTP/1.1 %d Whatever\r\nContent-Length: %zu\r\n%s\r\n", reply->status,
                          size, reply->head);
    return send_all(socket, head, (size_t)length) &&
           send_all(socket, reply->body, reply->cut > 0 ? reply->cut : size) && reply->cut == 0;
}

static void *connection_run(void *argument) {
    struct connection *connection = argument;
    struct http_server *server = connection->server;
    FREED struct http_server_request *request = calloc(1, sizeof *request);
    FREED struct http_server_reply *reply = calloc(1, sizeof *reply);
    request->connection = connection->number;
    while (request_read(connection->socket, request)) {
        *reply = (struct http_server_reply){.status = 200, .body = ""};
        pthread_mutex_lock(&server->lock);
        server->answer(server->context, request, reply);
        reply->size = reply->size > 0 ? reply->size : strlen(reply->body);
        FREED char *body = malloc(reply->size + 1); /* the next answer may change what `body` points to */
        memcpy(body, reply->body, reply->size);
        reply->body = body;
        pthread_mutex_unlock(&server->lock);
        if (!reply_send(connection->socket, reply)) {
            break;
        }
        request->body[0] = '\0';
    }
    shutdown(connection->socket, SHUT_RDWR);
    return NULL;
}

static void *server_run(void *argument) {
    struct http_server *server = argument;
    int socket;
    while ((socket = accept(server->listener, NULL, NULL)) >= 0) {
        pthread_mutex_lock(&server->lock);
        bool room = server->count < HTTP_SERVER_CONNECTIONS_MAX;
        (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        struct connection *connection = &server->connections[room ? server->count : 0];
        if (room) {
            *connection = (struct connection){.server = server, .socket = socket, .number = server->count};
            room = pthread_create(&connection->thread, NULL, connection_run, connection) == 0;
            server->count += room;
        }
        pthread_mutex_unlock(&server->lock);
        if (!room) {
            close(socket);
        }
    }
    return NULL;
}

struct http_server *http_server_open(http_server_answer *answer, void *context) {
    struct http_server *server = calloc(1, sizeof *server);
    server->answer = answer;
    server->context = context;
    pthread_mutex_init(&server->lock, NULL);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server->listener, 64), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&server->thread, NULL, server_run, server), 0);
    return server;
}

void http_server_close(struct http_server *server) {
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
    for (unsigned i = 0; i < server->count; i++) {
        shutdown(server->connections[i].socket, SHUT_RDWR);
        pthread_join(server->connections[i].thread, NULL);
        close(server->connections[i].socket);
    }
    pthread_mutex_destroy(&server->lock);
    free(server);
}

const char *http_server_url(const struct http_server *server) {
    return server->url;
}

unsigned http_server_connections(struct http_server *server) {
    pthread_mutex_lock(&server->lock);
    unsigned count = server->count;
    pthread_mutex_unlock(&server->lock);
    return count;
}

const char *http_server_header(const struct http_server_request *request, const char *name, char value[1024]) {
    size_t length = strlen(name);
    value[0] = '\0';
    for (const char *line = request->head; *line != '\0';) {
        size_t size = strcspn(line, "\r\n");
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            const char *begin = line + length + 1 + strspn(line + length + 1, " ");
            snprintf(value, 1024, "%.*s", (int)(size - (size_t)(begin - line)), begin);
            return value;
        }
        line += size + strspn(line + size, "\r\n");
    }
    return value;
}
