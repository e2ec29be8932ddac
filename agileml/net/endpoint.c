/* See endpoint.h. */
#include "agileml/net/endpoint.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool endpoint_port_valid(const char *text, bool to_bind) {
    if (to_bind && (strcmp(text, "*") == 0 || strcmp(text, "0") == 0)) {
        return true;
    }
    size_t digits = strspn(text, "0123456789");
    long port = strtol(text, NULL, 10);
    return digits >= 1 && digits <= 5 && text[digits] == '\0' && port >= 1 && port <= UINT16_MAX;
}

/* Splits tcp://HOST:PORT: copies HOST, without its brackets, into `host`. */
static bool endpoint_split(const char *text, bool to_bind, char host[WIRE_ENDPOINT_MAX]) {
    const char *scheme = "tcp://";
    if (strlen(text) >= WIRE_ENDPOINT_MAX || strncmp(text, scheme, strlen(scheme)) != 0) {
        return false;
    }
    const char *start = text + strlen(scheme);
    const char *colon = strrchr(start, ':');
    if (colon == NULL || colon == start || !endpoint_port_valid(colon + 1, to_bind)) {
        return false;
    }
    const char *end = colon;
    if (*start == '[') {
        start++;
        end--;
        if (end <= start || *end != ']') {
            return false;
        }
    } else if (memchr(start, ':', (size_t)(end - start)) != NULL) {
        return false; /* an IPv6 address needs brackets */
    }
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    return host[strcspn(host, ";/ []")] == '\0'; /* libzmq gives the semicolon a meaning of its own */
}

static bool endpoint_is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

int endpoint_parse(struct endpoint *endpoint, const char *text, bool to_bind, struct error *error) {
    char host[WIRE_ENDPOINT_MAX];
    if (!endpoint_split(text, to_bind, host)) {
        return error_set(error, AML_EINPUT, "%.*s: expected tcp://HOST:PORT, at most %d characters", WIRE_ENDPOINT_MAX,
                         text, WIRE_ENDPOINT_MAX - 1);
    }
    if (strcmp(host, "*") == 0) {
        *endpoint = (struct endpoint){.loopback = false, .ipv6 = true}; /* a dual-stack socket */
        strcpy(endpoint->numeric, text);
        return to_bind ? 0 : error_set(error, AML_EINPUT, "%s: expected a host to connect to", text);
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *addresses;
    int result = getaddrinfo(host, NULL, &hints, &addresses);
    if (result != 0) {
        return error_set(error, AML_EINPUT, "%s: %s: %s", text, host, gai_strerror(result));
    }
    /* libzmq takes a name's first address of the given family. When a name has addresses of both, all sides use IPv4,
     * so that a listener and a caller of 'localhost' meet. */
    const struct addrinfo *first = addresses;
    *endpoint = (struct endpoint){.loopback = true};
    for (const struct addrinfo *one = addresses; one != NULL; one = one->ai_next) {
        endpoint->loopback = endpoint->loopback && endpoint_is_loopback(one->ai_addr);
        if (first->ai_family != AF_INET && one->ai_family == AF_INET) {
            first = one;
        }
    }
    endpoint->ipv6 = first->ai_family != AF_INET;
    char address[INET6_ADDRSTRLEN + IF_NAMESIZE + 1]; /* link-local ones with their interface */
    result = getnameinfo(first->ai_addr, first->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(addresses);
    if (result != 0) {
        return error_set(error, AML_EINPUT, "%s: %s: %s", text, host, gai_strerror(result));
    }
    snprintf(endpoint->numeric, sizeof endpoint->numeric, endpoint->ipv6 ? "tcp://[%s]%s" : "tcp://%s%s", address,
             strrchr(text, ':'));
    return 0;
}

int endpoint_parse_host(struct endpoint *endpoint, const char *host, struct error *error) {
    char text[WIRE_ENDPOINT_MAX], found[WIRE_ENDPOINT_MAX];
    struct error reason = {0};
    if (snprintf(text, sizeof text, "tcp://%s:0", host) >= (int)sizeof text || !endpoint_split(text, true, found)) {
        return error_set(
            error, AML_EINPUT,
            "--listen %.100s: expected a host alone: a name, an IPv4 address, or an IPv6 address in brackets", host);
    }
    return endpoint_parse(endpoint, text, true, &reason) == 0
               ? 0
               : error_set(error, AML_EINPUT, "--listen %.100s: expected a host: %.200s", host, reason.text);
}

bool endpoint_host_is_any(const char *host) {
    static const char *const any[] = {"*", "0.0.0.0", "0", "[::]", "[::0]", "[0:0:0:0:0:0:0:0]", "[::ffff:0.0.0.0]"};
    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++) {
        if (strcmp(host, any[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool endpoint_host_has_port(const char *host) {
    const char *colon = strrchr(host, ':');
    return colon != NULL && endpoint_port_valid(colon + 1, false) &&
           (colon == strchr(host, ':') || (*host == '[' && colon[-1] == ']'));
}

int endpoint_advertise(char text[WIRE_ENDPOINT_MAX], const char *bound, const char *host, struct error *error) {
    struct endpoint endpoint;
    struct error reason = {0};
    const bool has_port = endpoint_host_has_port(host);
    const size_t length = has_port ? (size_t)(strrchr(host, ':') - host) : strlen(host);
    const char *port = strrchr(has_port ? host : bound, ':');
    if (snprintf(text, WIRE_ENDPOINT_MAX, "%.*s", (int)length, host) < WIRE_ENDPOINT_MAX &&
        endpoint_host_is_any(text)) {
        return error_set(error, AML_EINPUT, "--advertise %s: others can't connect to that: expected one address", host);
    }
    if (snprintf(text, WIRE_ENDPOINT_MAX, "tcp://%.*s%s", (int)length, host, port) >= WIRE_ENDPOINT_MAX) {
        return error_set(error, AML_EINPUT, "--advertise %.100s...: too long", host);
    }
    return endpoint_parse(&endpoint, text, false, &reason) == 0
               ? 0
               : error_set(error, AML_EINPUT, "--advertise %.100s: expected a host: %.200s", host, reason.text);
}
