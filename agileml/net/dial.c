/* See dial.h. */
#include "agileml/net/dial.h"

#include "agileml/wire/message.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Splits tcp://HOST:PORT; the host loses its brackets. */
static bool endpoint_split(const char *endpoint, char host[WIRE_ENDPOINT_MAX], const char **port) {
    static const char scheme[] = "tcp://";
    const char *colon = strrchr(endpoint, ':');
    if (strncmp(endpoint, scheme, strlen(scheme)) != 0 || strlen(endpoint) >= WIRE_ENDPOINT_MAX ||
        colon <= endpoint + strlen(scheme)) {
        return false;
    }
    const char *start = endpoint + strlen(scheme);
    bool brackets = start[0] == '[' && colon[-1] == ']' && colon - start > 2;
    size_t size = (size_t)(colon - start) - (brackets ? 2 : 0);
    memcpy(host, start + (brackets ? 1 : 0), size);
    host[size] = '\0';
    *port = colon + 1;
    return true;
}

int dial_begin(const char *endpoint, bool *refused) {
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    char host[WIRE_ENDPOINT_MAX];
    const char *port;
    struct addrinfo *address;
    *refused = false;
    if (!endpoint_split(endpoint, host, &port) || getaddrinfo(host, port, &hints, &address) != 0) {
        return -1;
    }
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
        *refused = errno == ECONNREFUSED; /* so this machine itself answers */
        if (!*refused) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(address);
    return fd;
}

enum dial_result dial_end(int fd) {
    int code = 0;
    socklen_t size = sizeof code;
    struct sockaddr_storage peer;
    socklen_t peer_size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) {
        return DIAL_UNKNOWN;
    }
    if (code == 0 && getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0) {
        return DIAL_LISTENS;
    }
    return code == ECONNREFUSED ? DIAL_REFUSED : DIAL_UNKNOWN;
}
