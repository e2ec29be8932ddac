/* See key.h. The key's file is three lines of text: KEY_TITLE, "public TEXT", "secret TEXT". A token's is four:
 * TOKEN_TITLE, the terms for people, "public TEXT", "token TEXT". */
#include "agileml/net/key.h"

#include "agileml/base/core_dumps.h"
#include "agileml/base/private_file.h"
#include "agileml/wire/message.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#define KEY_TITLE   "agileml-key 1"
#define TOKEN_TITLE "agileml-token 1"

enum {
    KEY_FILE_MAX = NET_TOKEN_FILE_MAX,
    TOKEN_TEXT = NET_TOKEN_BYTES / 4 * 5, /* characters of Z85 */
    /* Where a token's parts begin. */
    TOKEN_ROLES = 0,
    TOKEN_TIERS = 1,
    TOKEN_NODES = 4,
    TOKEN_SERIAL = 8,
    TOKEN_EXPIRES = 16,
    TOKEN_MAC = 24,
    TOKEN_MAC_BYTES = NET_TOKEN_BYTES - TOKEN_MAC
};

/* ---- Tokens ---- */

static void token_mac(const unsigned char token[NET_TOKEN_BYTES], const struct net_key *job,
                      unsigned char mac[TOKEN_MAC_BYTES]) {
    unsigned char signed_bytes[sizeof TOKEN_TITLE + TOKEN_MAC];
    unsigned size = 0;
    memcpy(signed_bytes, TOKEN_TITLE, sizeof TOKEN_TITLE);
    memcpy(signed_bytes + sizeof TOKEN_TITLE, token, TOKEN_MAC);
    HMAC(EVP_sha256(), job->secret_text, NET_KEY_TEXT - 1, signed_bytes, sizeof signed_bytes, mac, &size);
}

static void token_make(const struct net_key *job, const struct net_token_terms *terms,
                       unsigned char token[NET_TOKEN_BYTES]) {
    memset(token, 0, NET_TOKEN_BYTES);
    token[TOKEN_ROLES] = (unsigned char)terms->roles;
    token[TOKEN_TIERS] = (unsigned char)terms->tiers;
    memcpy(token + TOKEN_NODES, &terms->nodes, sizeof terms->nodes);
    memcpy(token + TOKEN_SERIAL, &terms->serial, sizeof terms->serial);
    memcpy(token + TOKEN_EXPIRES, &terms->expires, sizeof terms->expires);
    token_mac(token, job, token + TOKEN_MAC);
}

struct net_token_terms net_token_terms(const unsigned char token[NET_TOKEN_BYTES]) {
    struct net_token_terms terms = {.roles = token[TOKEN_ROLES], .tiers = token[TOKEN_TIERS]};
    memcpy(&terms.nodes, token + TOKEN_NODES, sizeof terms.nodes);
    memcpy(&terms.serial, token + TOKEN_SERIAL, sizeof terms.serial);
    memcpy(&terms.expires, token + TOKEN_EXPIRES, sizeof terms.expires);
    return terms;
}

bool net_token_genuine(const unsigned char token[NET_TOKEN_BYTES], const struct net_key *job) {
    unsigned char mac[TOKEN_MAC_BYTES];
    token_mac(token, job, mac);
    return !net_key_is_token(job) && CRYPTO_memcmp(mac, token + TOKEN_MAC, sizeof mac) == 0;
}

void net_token_title(const struct net_token_terms *terms, char title[NET_TOKEN_TITLE_MAX]) {
    struct tm utc;
    time_t expires = (time_t)terms->expires;
    const char *holder = terms->roles == ROLE_OPERATOR         ? "an operator"
                         : terms->roles == ROLE_OBSERVER       ? "an observer"
                         : terms->roles != ROLE_NODE           ? "everything"
                         : terms->tiers == 1 << TIER_RELIABLE  ? "a reliable node"
                         : terms->tiers == 1 << TIER_TRANSIENT ? "a transient node"
                         : terms->tiers == 1 << TIER_FEEDER    ? "a feeder"
                                                               : "a node";
    int used = snprintf(title, NET_TOKEN_TITLE_MAX, "for %s", holder);
    if (terms->expires != 0 && gmtime_r(&expires, &utc) != NULL) {
        used += (int)strftime(title + used, NET_TOKEN_TITLE_MAX - (size_t)used, " until %Y-%m-%dT%H:%M:%SZ", &utc);
    }
    if ((terms->roles & ROLE_NODE) != 0 && terms->nodes != 0) {
        snprintf(title + used, NET_TOKEN_TITLE_MAX - (size_t)used, ", %" PRIu32 " at a time", terms->nodes);
    }
}

int net_token_text(const struct net_key *job, struct net_token_terms terms, char text[NET_TOKEN_FILE_MAX],
                   struct error *error) {
    unsigned char token[NET_TOKEN_BYTES];
    char token_text[TOKEN_TEXT + 1];
    char title[NET_TOKEN_TITLE_MAX];
    if (net_key_is_token(job)) {
        return error_set(error, AML_EINPUT, "only the job's key can make tokens, and this is a token");
    }
    if (terms.serial == 0 && getrandom(&terms.serial, sizeof terms.serial, 0) != sizeof terms.serial) {
        return error_set(error, AML_EFAIL, "no random numbers: %s", strerror(errno));
    }
    net_token_title(&terms, title);
    token_make(job, &terms, token);
    zmq_z85_encode(token_text, token, sizeof token);
    int size = snprintf(text, NET_TOKEN_FILE_MAX, TOKEN_TITLE "\n%s\npublic %s\ntoken %s\n", title, job->public_text,
                        token_text);
    explicit_bzero(token, sizeof token);
    explicit_bzero(token_text, sizeof token_text);
    return size;
}

void net_key_complete(struct net_key *key) {
    token_make(key, &(struct net_token_terms){.roles = ROLES_ALL}, key->token);
}

/* ---- Files ---- */

static int key_write_error(const char *path, struct error *error) {
    int cause = errno;
    bool disk = cause == ENOSPC || cause == EDQUOT || cause == EFBIG || cause == EIO;
    return error_set(error, disk ? AML_EFAIL : AML_EINPUT, "%s: can't write the key file: %s", path, strerror(cause));
}

static int key_write(int fd, const char *text, size_t size) {
    while (size > 0) {
        ssize_t wrote = write(fd, text, size);
        if (wrote < 0 && errno != EINTR) {
            return -1;
        }
        if (wrote > 0) {
            text += wrote;
            size -= (size_t)wrote;
        }
    }
    return fsync(fd);
}

/* Writes a new file whole, and wipes the text. */
static int key_write_file(const char *path, char text[KEY_FILE_MAX], struct error *error) {
    char draft[PATH_MAX];
    if (snprintf(draft, sizeof draft, "%s.XXXXXX", path) >= (int)sizeof draft) {
        explicit_bzero(text, KEY_FILE_MAX);
        return error_set(error, AML_EINPUT, "the key file's path is longer than %zu bytes", sizeof draft - 8);
    }
    /* The finished draft is linked to `path`: unlike rename, link never replaces a file. */
    int result = 0;
    int fd = mkostemp(draft, O_CLOEXEC);
    if (fd < 0) {
        result = key_write_error(path, error);
    } else {
        if (key_write(fd, text, strlen(text)) != 0) {
            result = key_write_error(path, error);
        }
        close(fd);
        if (result == 0 && link(draft, path) != 0) {
            result = errno == EEXIST
                         ? error_set(error, AML_EINPUT, "%s: exists, and a key file is never overwritten", path)
                         : key_write_error(path, error);
        }
        unlink(draft);
    }
    explicit_bzero(text, KEY_FILE_MAX);
    return result;
}

int net_key_generate(const char *path, struct error *error) {
    struct net_key key;
    char text[KEY_FILE_MAX];
    core_dumps_forbid();
    if (zmq_curve_keypair(key.public_text, key.secret_text) != 0) {
        return error_set(error, AML_EFAIL, "can't make a key: %s", zmq_strerror(errno));
    }
    snprintf(text, sizeof text, KEY_TITLE "\npublic %s\nsecret %s\n", key.public_text, key.secret_text);
    explicit_bzero(&key, sizeof key);
    return key_write_file(path, text, error);
}

int net_token_issue(const struct net_key *job, struct net_token_terms terms, const char *path, struct error *error) {
    char text[KEY_FILE_MAX];
    int size = net_token_text(job, terms, text, error);
    return size < 0 ? size : key_write_file(path, text, error);
}

/* Copies the rest of the line that begins with `name`, and moves *at to the next line. Returns false if the line begins
 * otherwise, or its rest has not exactly `characters` characters. */
static bool key_line(const char **at, const char *name, size_t characters, char *value) {
    size_t length = strlen(name);
    if (strncmp(*at, name, length) != 0 || strcspn(*at + length, "\n") != characters ||
        (*at)[length + characters] != '\n') {
        return false;
    }
    memcpy(value, *at + length, characters);
    value[characters] = '\0';
    *at += length + characters + 1;
    return true;
}

static bool key_parse_job(const char *text, struct net_key *key) {
    char expected[NET_KEY_TEXT];
    bool good = key_line(&text, "public ", NET_KEY_TEXT - 1, key->public_text) &&
                key_line(&text, "secret ", NET_KEY_TEXT - 1, key->secret_text) && *text == '\0' &&
                zmq_curve_public(expected, key->secret_text) == 0 && strcmp(expected, key->public_text) == 0;
    if (good) {
        net_key_complete(key);
    }
    return good;
}

static bool key_parse_token(const char *text, struct net_key *key) {
    char title[NET_TOKEN_TITLE_MAX];
    char expected[NET_TOKEN_TITLE_MAX];
    char token_text[TOKEN_TEXT + 1];
    unsigned char decoded[NET_KEY_TEXT];
    size_t length = strcspn(text, "\n");
    bool good = length < sizeof title && key_line(&text, "", length, title) &&
                key_line(&text, "public ", NET_KEY_TEXT - 1, key->public_text) &&
                zmq_z85_decode(decoded, key->public_text) != NULL &&
                key_line(&text, "token ", TOKEN_TEXT, token_text) && *text == '\0' &&
                zmq_z85_decode(key->token, token_text) != NULL;
    if (good) {
        struct net_token_terms terms = net_token_terms(key->token);
        net_token_title(&terms, expected);
        good = strcmp(title, expected) == 0 && terms.roles != 0 && (terms.roles & ~(unsigned)ROLES_ALL) == 0;
    }
    explicit_bzero(token_text, sizeof token_text);
    return good;
}

static bool key_parse(const char *text, struct net_key *key) {
    size_t key_title = strlen(KEY_TITLE "\n");
    size_t token_title = strlen(TOKEN_TITLE "\n");
    memset(key, 0, sizeof *key);
    return strncmp(text, KEY_TITLE "\n", key_title) == 0       ? key_parse_job(text + key_title, key)
           : strncmp(text, TOKEN_TITLE "\n", token_title) == 0 ? key_parse_token(text + token_title, key)
                                                               : false;
}

/* Opens the file, and checks it before anything is read. Returns a descriptor or AML_EINPUT. */
static int key_open(const char *path, struct error *error) {
    struct stat file;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a FIFO must not make us wait */
    if (fd < 0) {
        return error_set(error, AML_EINPUT, "%s: can't read the key file: %s (see 'proteus keygen')", path,
                         strerror(errno));
    }
    int result = 0;
    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) {
        result = error_set(error, AML_EINPUT, "%s: not a file, expected a key file (see 'proteus keygen')", path);
    } else {
        result = private_file_check(path, &file, error);
    }
    if (result != 0) {
        close(fd);
        return result;
    }
    return fd;
}

int net_key_load(const char *path, struct net_key *key, struct error *error) {
    int fd = key_open(path, error);
    if (fd < 0) {
        return fd;
    }
    core_dumps_forbid();
    char text[KEY_FILE_MAX];
    int result = 0;
    size_t size = 0;
    ssize_t got;
    while ((got = read(fd, text + size, sizeof text - 1 - size)) > 0) {
        size += (size_t)got;
    }
    text[size] = '\0';
    if (got < 0) {
        result = error_set(error, AML_EINPUT, "%s: can't read the key file: %s", path, strerror(errno));
    } else if (strlen(text) != size || !key_parse(text, key)) {
        result = error_set(error, AML_EINPUT,
                           "%s: not a key file, expected the lines that 'proteus keygen' writes: '" KEY_TITLE
                           "', 'public TEXT' and 'secret TEXT'; or '" TOKEN_TITLE
                           "', what it is for, 'public TEXT' and 'token TEXT'",
                           path);
    }
    close(fd);
    explicit_bzero(text, sizeof text);
    if (result != 0) {
        explicit_bzero(key, sizeof *key);
    }
    return result;
}
