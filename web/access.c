/* Decides who may read, and who may change something. See server_private.h. */
#include "web/server_private.h"

#include "agileml/base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define BEARER "Bearer "
#define COOKIE "proteus"

/* ---- The token ---- */

/* The user may have given the secret itself as the path: then the message does not repeat it. */
static int token_not_found(const char *path, int reason, struct error *error) {
    bool secret = reason == ENOENT && strchr(path, '/') == NULL && strlen(path) >= WEB_TOKEN_MIN;
    return secret ? error_set(error, AML_EINPUT,
                              "--http-token: no such file; expected the path of a file with the secret, not the secret")
                  : error_set(error, AML_EINPUT, "--http-token %.200s: %s", path, strerror(reason));
}

/* Reads the token's file: one line of printable characters without spaces. */
static int read_token(struct web_access *access, const char *path, struct error *error) {
    char text[WEB_TOKEN_MAX + 2] = "";
    struct stat status;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    int result = descriptor >= 0 && fstat(descriptor, &status) == 0 ? private_file_check(path, &status, error)
                                                                    : token_not_found(path, errno, error);
    ssize_t size = result == 0 ? read(descriptor, text, sizeof text - 1) : 0;
    if (descriptor >= 0) {
        close(descriptor);
    }
    if (result != 0) {
        return result;
    }
    text[size > 0 ? size : 0] = '\0';
    size_t length = strcspn(text, "\r\n");
    bool one_line = strspn(text + length, "\r\n") == strlen(text + length);
    text[length] = '\0';
    bool plain = true;
    for (size_t c = 0; c < length; c++) {
        plain = plain && text[c] > ' ' && text[c] < 0x7F;
    }
    if (length < WEB_TOKEN_MIN || length > WEB_TOKEN_MAX || !one_line || !plain) {
        result = error_set(error, AML_EINPUT,
                           "--http-token %.200s: expected one line of %d to %d printable characters without spaces, "
                           "such as of 'openssl rand -hex 16'",
                           path, WEB_TOKEN_MIN, WEB_TOKEN_MAX);
    } else {
        memcpy(access->token, text, length + 1);
    }
    explicit_bzero(text, sizeof text);
    return result;
}

int access_open(struct web *web, const struct web_options *options, struct error *error) {
    web->access.tls = options->certificate != NULL;
    web->access.client_certificates = options->client_ca != NULL;
    return options->token != NULL ? read_token(&web->access, options->token, error) : 0;
}

/* Compares in a time that does not depend on the place of the first difference. */
static bool is_same_secret(const char *given, const char *secret) {
    size_t size = strlen(secret);
    return strlen(given) == size && CRYPTO_memcmp(given, secret, size) == 0;
}

static bool has_token(const struct web *web, struct MHD_Connection *connection) {
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    return given != NULL && strncasecmp(given, BEARER, strlen(BEARER)) == 0 &&
           is_same_secret(given + strlen(BEARER), web->access.token);
}

/* ---- Sessions ---- */

void access_login(struct web *web, char session[SESSION_TEXT]) {
    unsigned char random[(SESSION_TEXT - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        abort(); /* impossible: a running kernel always has random bytes */
    }
    for (size_t b = 0; b < sizeof random; b++) {
        snprintf(session + 2 * b, 3, "%02x", random[b]);
    }
    pthread_mutex_lock(&web->mutex);
    memcpy(web->sessions[web->session_next++ % WEB_SESSIONS_MAX], session, SESSION_TEXT);
    pthread_mutex_unlock(&web->mutex);
}

static bool has_session(struct web *web, struct MHD_Connection *connection) {
    const char *given = MHD_lookup_connection_value(connection, MHD_COOKIE_KIND, COOKIE);
    bool known = false;
    pthread_mutex_lock(&web->mutex);
    for (size_t s = 0; given != NULL && s < WEB_SESSIONS_MAX; s++) {
        known = (web->sessions[s][0] != '\0' && is_same_secret(given, web->sessions[s])) || known;
    }
    pthread_mutex_unlock(&web->mutex);
    return known;
}

/* ---- Certificates ---- */

static bool has_certificate(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    unsigned status = 0;
    return info != NULL && gnutls_certificate_verify_peers2(info->tls_session, &status) == 0 && status == 0;
}

/* ---- Together ---- */

/* Whether the request's Host is this machine's own name. A page of another site whose name resolves to this machine
 * sends that site's name. */
static bool names_this_machine(struct MHD_Connection *connection) {
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    for (size_t n = 0; host != NULL && n < sizeof names / sizeof *names; n++) {
        size_t size = strlen(names[n]);
        if (strncasecmp(host, names[n], size) == 0 && (host[size] == '\0' || host[size] == ':')) {
            return true;
        }
    }
    return host != NULL && strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.:") == strlen(host);
}

static enum access lacks_token(struct MHD_Connection *connection) {
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    return given != NULL ? ACCESS_WRONG_TOKEN : ACCESS_NO_TOKEN;
}

enum access access_to_read(struct web *web, struct MHD_Connection *connection) {
    const struct web_access *access = &web->access;
    if (access->client_certificates) {
        return has_certificate(connection) ? ACCESS_GRANTED : ACCESS_NO_CERTIFICATE;
    }
    if (access->token[0] != '\0') {
        bool known = has_token(web, connection) || has_session(web, connection);
        return known ? ACCESS_GRANTED : lacks_token(connection);
    }
    return !access->loopback || names_this_machine(connection) ? ACCESS_GRANTED : ACCESS_OTHER_NAME;
}

/* Whether the request is not from a browser, or from a page of this server. */
static bool is_of_own_origin(struct MHD_Connection *connection) {
    const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    const char *name = origin != NULL ? strstr(origin, "://") : NULL;
    return origin == NULL || (name != NULL && host != NULL && strcasecmp(name + strlen("://"), host) == 0);
}

enum access access_to_change(struct web *web, struct MHD_Connection *connection) {
    if (web->access.token[0] == '\0') {
        return ACCESS_READ_ONLY;
    }
    if (!is_of_own_origin(connection)) {
        return ACCESS_OTHER_ORIGIN;
    }
    if (web->access.client_certificates && !has_certificate(connection)) {
        return ACCESS_NO_CERTIFICATE;
    }
    return has_token(web, connection) ? ACCESS_GRANTED : lacks_token(connection);
}
