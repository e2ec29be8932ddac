/* libFuzzer target for a job's HTTP server. Sends a connection's bytes to the real server on loopback, which has a
 * token. The first byte chooses how many bytes are sent at once. Besides crashes it finds requests that reach the job
 * without the token, or with values that no request may have. */
#include "web/server.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* An unfinished request is answered only after its timeout. This program does not wait for that. */
enum { ROUNDS_MAX = 10, ROUND_MS = 2 };

#define FUZZ_TOKEN            "0123456789abcdef"
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct web *fuzz_web;
static struct addrinfo *fuzz_address;
static uint64_t fuzz_lines;

static void fuzz_wake(void *context) {
    (void)context;
}

static void fuzz_line(const char *text) {
    web_line(fuzz_web, fuzz_lines++, text, strlen(text));
}

static void fuzz_open(void) {
    char token[] = "/tmp/page-fuzz-XXXXXX";
    struct error error = {0};
    char port[8];
    int descriptor = mkstemp(token);
    FUZZ_CHECK(descriptor >= 0 && write(descriptor, FUZZ_TOKEN "\n", strlen(FUZZ_TOKEN) + 1) > 0);
    close(descriptor);
    const struct web_options options = {.listen = "auto", .token = token, .wake = fuzz_wake};
    FUZZ_CHECK(web_open(&fuzz_web, &options, &error) == 0);
    unlink(token);
    snprintf(port, sizeof port, "%d", atoi(strrchr(web_address(fuzz_web), ':') + 1));
    FUZZ_CHECK(getaddrinfo("127.0.0.1", port, NULL, &fuzz_address) == 0);
    fuzz_line("{\"type\":\"event\",\"event\":\"start\",\"iteration\":0,\"seconds\":0}");
    fuzz_line("{\"type\":\"summary\",\"ok\":true}"); /* ends streams */
}

/* Acts as the controller's thread. */
static void fuzz_serve(bool allowed) {
    static const char status[] = "{\"app\":\"x\",\"phase\":\"train\",\"nodes\":[{\"name\":\"n\\\"\\n\"}]}";
    struct web_action action;
    while (web_take_action(fuzz_web, &action)) {
        FUZZ_CHECK(allowed);
        FUZZ_CHECK(action.kind == WEB_EVICT ? action.node_count > 0 && action.nodes[0][0] != '\0'
                                            : action.node_count == 0);
        web_answer(fuzz_web, action.number, 0, "");
        web_action_close(&action);
    }
    if (web_wants_status(fuzz_web)) {
        web_status(fuzz_web, status, strlen(status), 1);
    }
    web_alive(fuzz_web);
}

/* Whether the bytes contain the token. */
static bool fuzz_has_token(const uint8_t *data, size_t size) {
    return memmem(data, size, FUZZ_TOKEN, strlen(FUZZ_TOKEN)) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char answer[1 << 14];
    if (fuzz_web == NULL) {
        fuzz_open();
    }
    if (size == 0) {
        return 0;
    }
    bool allowed = fuzz_has_token(data + 1, size - 1);
    size_t piece = data[0] == 0 ? size : data[0];
    const struct linger reset = {.l_onoff = 1}; /* closing resets the connection at the server, too */
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    FUZZ_CHECK(connection >= 0 && setsockopt(connection, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
    FUZZ_CHECK(connect(connection, fuzz_address->ai_addr, fuzz_address->ai_addrlen) == 0);
    for (size_t at = 1; at < size; at += piece) {
        size_t count = size - at < piece ? size - at : piece;
        if (send(connection, data + at, count, MSG_NOSIGNAL) < 0) {
            break; /* the server closed the connection */
        }
    }
    shutdown(connection, SHUT_WR);
    struct pollfd readable = {.fd = connection, .events = POLLIN};
    bool open = true;
    for (int quiet = 0; open && quiet < ROUNDS_MAX; quiet++) {
        fuzz_serve(allowed);
        if (poll(&readable, 1, ROUND_MS) > 0) {
            open = recv(connection, answer, sizeof answer, 0) > 0;
            quiet = 0;
        }
    }
    close(connection);
    return 0;
}
