/* See fake_ec2.h. One connection and one request at a time. */
#include "tests/unit/fake_ec2.h"

#include <arpa/inet.h>
#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FAKE_REQUEST_MAX = 1 << 18, FAKE_ACTION_MAX = 64 };

struct fake_request {
    char action[FAKE_ACTION_MAX];
    char *head, *form;
};

struct fake_ec2 {
    pthread_t thread;
    pthread_mutex_t answering; /* held while a reply is in use */
    pthread_mutex_t mutex;     /* protects all fields below except `listener` */
    int listener;
    char url[64];
    bool ending;
    const struct fake_reply *replies;
    bool taken[FAKE_REPLIES_MAX];
    size_t count;
    struct fake_request requests[FAKE_REQUESTS_MAX];
    size_t request_count;
};

static void fake_decode(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        char digits[3] = {0};
        if (*from == '%' && from[1] != '\0' && from[2] != '\0') {
            memcpy(digits, from + 1, 2);
            *to++ = (char)strtol(digits, NULL, 16);
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
}

/* Reads a request into `text`. Returns where its body begins, or 0 if the client has disconnected. */
static size_t fake_read(int connection, char *text) {
    size_t size = 0;
    while (size < FAKE_REQUEST_MAX - 1) {
        ssize_t got = recv(connection, text + size, FAKE_REQUEST_MAX - 1 - size, 0);
        if (got <= 0) {
            return 0;
        }
        size += (size_t)got;
        text[size] = '\0';
        char *end = strstr(text, "\r\n\r\n");
        const char *length = strcasestr(text, "content-length:");
        if (end != NULL && length != NULL && (size_t)(end + 4 - text) + strtoul(length + 15, NULL, 10) <= size) {
            return (size_t)(end + 4 - text);
        }
        if (end != NULL && strcasestr(text, "expect: 100-continue") != NULL) {
            (void)send(connection, "HTTP/1.1 100 Continue\r\n\r\n", 25, MSG_NOSIGNAL);
        }
    }
    return 0;
}

static const struct fake_reply *fake_choose(struct fake_ec2 *fake, const struct fake_request *request) {
    static const struct fake_reply unexpected = {
        .status = 400,
        .body =
            "<Response><Errors><Error><Code>FakeUnexpected</Code><Message>nothing is in the script for this</Message>"
            "</Error></Errors><RequestID>fake</RequestID></Response>"};
    for (size_t i = 0; i < fake->count; i++) {
        const struct fake_reply *reply = &fake->replies[i];
        if (!fake->taken[i] && strcmp(reply->action, request->action) == 0 &&
            (reply->asked == NULL || strstr(request->form, reply->asked) != NULL)) {
            fake->taken[i] = true;
            return reply;
        }
    }
    return &unexpected;
}

static void fake_answer(int connection, const struct fake_reply *reply) {
    if (reply->status <= 0) {
        char byte;
        while (reply->status < 0 && recv(connection, &byte, 1, 0) > 0) {
        }
        return;
    }
    char head[256];
    char date[64];
    time_t now = time(NULL) + reply->clock;
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    size_t size = strlen(reply->body);
    int length =
        snprintf(head, sizeof head, "HTTP/1.1 %d Fake\r\nDate: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                 reply->status, date, size);
    (void)send(connection, head, (size_t)length, MSG_NOSIGNAL);
    for (size_t sent = 0; sent < size - reply->cut;) {
        ssize_t wrote = send(connection, reply->body + sent, size - reply->cut - sent, MSG_NOSIGNAL);
        if (wrote <= 0) {
            return;
        }
        sent += (size_t)wrote;
    }
}

static void fake_serve(struct fake_ec2 *fake, int connection, char *text) {
    size_t body = fake_read(connection, text);
    if (body == 0) {
        return;
    }
    pthread_mutex_lock(&fake->answering);
    pthread_mutex_lock(&fake->mutex);
    assert(fake->request_count < FAKE_REQUESTS_MAX);
    struct fake_request *request = &fake->requests[fake->request_count++];
    request->form = strdup(text + body);
    text[body] = '\0';
    request->head = strdup(text);
    fake_decode(request->form);
    (void)sscanf(request->form, "Action=%63[A-Za-z]", request->action);
    const struct fake_reply *reply = fake_choose(fake, request);
    pthread_mutex_unlock(&fake->mutex);
    fake_answer(connection, reply);
    pthread_mutex_unlock(&fake->answering);
}

static void *fake_run(void *context) {
    struct fake_ec2 *fake = context;
    char *text = malloc(FAKE_REQUEST_MAX);
    for (;;) {
        int connection = accept(fake->listener, NULL, NULL);
        pthread_mutex_lock(&fake->mutex);
        bool ending = fake->ending;
        pthread_mutex_unlock(&fake->mutex);
        if (connection >= 0 && !ending) {
            fake_serve(fake, connection, text);
        }
        if (connection >= 0) {
            close(connection);
        }
        if (ending) {
            break;
        }
    }
    free(text);
    return NULL;
}

struct fake_ec2 *fake_ec2_open(void) {
    struct fake_ec2 *fake = calloc(1, sizeof *fake);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fake->listener < 0 || bind(fake->listener, (struct sockaddr *)&address, size) != 0 ||
        listen(fake->listener, 64) != 0 || getsockname(fake->listener, (struct sockaddr *)&address, &size) != 0) {
        abort();
    }
    snprintf(fake->url, sizeof fake->url, "http://127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
    pthread_mutex_init(&fake->mutex, NULL);
    pthread_mutex_init(&fake->answering, NULL);
    if (pthread_create(&fake->thread, NULL, fake_run, fake) != 0) {
        abort();
    }
    return fake;
}

static void fake_forget(struct fake_ec2 *fake) {
    for (size_t i = 0; i < fake->request_count; i++) {
        free(fake->requests[i].head);
        free(fake->requests[i].form);
    }
    memset(fake->requests, 0, sizeof fake->requests);
    fake->request_count = 0;
}

void fake_ec2_close(struct fake_ec2 *fake) {
    pthread_mutex_lock(&fake->mutex);
    fake->ending = true;
    pthread_mutex_unlock(&fake->mutex);
    shutdown(fake->listener, SHUT_RDWR);
    pthread_join(fake->thread, NULL);
    close(fake->listener);
    pthread_mutex_destroy(&fake->mutex);
    pthread_mutex_destroy(&fake->answering);
    fake_forget(fake);
    free(fake);
}

const char *fake_ec2_url(const struct fake_ec2 *fake) {
    return fake->url;
}

void fake_ec2_script(struct fake_ec2 *fake, const struct fake_reply *replies, size_t count) {
    assert(count <= FAKE_REPLIES_MAX);
    pthread_mutex_lock(&fake->answering);
    pthread_mutex_lock(&fake->mutex);
    fake_forget(fake);
    fake->replies = replies;
    fake->count = count;
    memset(fake->taken, 0, sizeof fake->taken);
    pthread_mutex_unlock(&fake->mutex);
    pthread_mutex_unlock(&fake->answering);
}

void fake_ec2_wait(struct fake_ec2 *fake) {
    pthread_mutex_lock(&fake->answering);
    pthread_mutex_unlock(&fake->answering);
}

/* The nth request for an action; counts them in *count. */
static const struct fake_request *fake_find(struct fake_ec2 *fake, const char *action, size_t n, size_t *count) {
    const struct fake_request *found = NULL;
    *count = 0;
    pthread_mutex_lock(&fake->mutex);
    for (size_t i = 0; i < fake->request_count; i++) {
        if (action == NULL || strcmp(fake->requests[i].action, action) == 0) {
            found = *count == n ? &fake->requests[i] : found;
            ++*count;
        }
    }
    pthread_mutex_unlock(&fake->mutex);
    return found;
}

size_t fake_ec2_asked(struct fake_ec2 *fake, const char *action) {
    size_t count;
    (void)fake_find(fake, action, 0, &count);
    return count;
}

size_t fake_ec2_left(struct fake_ec2 *fake) {
    size_t left = 0;
    pthread_mutex_lock(&fake->mutex);
    for (size_t i = 0; i < fake->count; i++) {
        left += !fake->taken[i];
    }
    pthread_mutex_unlock(&fake->mutex);
    return left;
}

const char *fake_ec2_form(struct fake_ec2 *fake, const char *action, size_t n) {
    size_t count;
    const struct fake_request *request = fake_find(fake, action, n, &count);
    return request == NULL ? "" : request->form;
}

const char *fake_ec2_head(struct fake_ec2 *fake, const char *action, size_t n) {
    size_t count;
    const struct fake_request *request = fake_find(fake, action, n, &count);
    return request == NULL ? "" : request->head;
}
