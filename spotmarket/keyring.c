/* See keyring.h. */
#include "spotmarket/keyring.h"

#include "agileml/base/log.h"

#include <ctype.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNTIL_HEX = 16, ROLE_ID_HEX = 16, ROLE_SECRET_HEX = 40, ROLE_MARK_HEX = 32 };

void keyring_open(struct keyring *keyring) {
    if (RAND_bytes(keyring->secret, KEYRING_SECRET) != 1) {
        log_error("the system returns no random numbers, which secrets are made of");
        exit(EXIT_FAILURE);
    }
}

void keyring_close(struct keyring *keyring) {
    explicit_bzero(keyring, sizeof *keyring);
}

/* Writes `digits` hexadecimal digits (at most 64): an HMAC of use, machine and time with the secret. */
static void mark_make(const struct keyring *keyring, const char *use, const char *id, int64_t until, char *hex,
                      size_t digits) {
    unsigned char mark[EVP_MAX_MD_SIZE];
    char text[CLOUD_ID_TEXT + 64];
    unsigned length = 0;
    int size = snprintf(text, sizeof text, "%s %s %016" PRIx64, use, id, (uint64_t)until);
    HMAC(EVP_sha256(), keyring->secret, KEYRING_SECRET, (const unsigned char *)text, (size_t)size, mark, &length);
    for (size_t i = 0; i < digits / 2; i++) {
        snprintf(hex + 2 * i, 3, "%02x", mark[i]);
    }
    explicit_bzero(mark, sizeof mark);
}

static bool text_is(const char *text, const char *expected) {
    size_t length = strlen(expected);
    return strlen(text) == length && CRYPTO_memcmp(text, expected, length) == 0;
}

void keyring_owner(const struct keyring *keyring, char owner[KEYRING_OWNER_HEX + 1]) {
    mark_make(keyring, "owner", "", 0, owner, KEYRING_OWNER_HEX);
}

bool keyring_owner_good(const struct keyring *keyring, const char *owner) {
    char expected[KEYRING_OWNER_HEX + 1];
    keyring_owner(keyring, expected);
    return text_is(owner, expected);
}

void keyring_path(const struct keyring *keyring, const char *id, char path[KEYRING_PATH_HEX + 1]) {
    mark_make(keyring, "path", id, 0, path, KEYRING_PATH_HEX);
}

bool keyring_path_good(const struct keyring *keyring, const char *id, const char *path) {
    char expected[KEYRING_PATH_HEX + 1];
    keyring_path(keyring, id, expected);
    return text_is(path, expected);
}

void keyring_token(const struct keyring *keyring, const char *id, int64_t until, char token[KEYRING_TOKEN_HEX + 1]) {
    snprintf(token, UNTIL_HEX + 1, "%016" PRIx64, (uint64_t)until);
    mark_make(keyring, "token", id, until, token + UNTIL_HEX, KEYRING_TOKEN_HEX - UNTIL_HEX);
}

bool keyring_token_good(const struct keyring *keyring, const char *id, const char *token, int64_t now) {
    char expected[KEYRING_TOKEN_HEX + 1];
    uint64_t until;
    if (sscanf(token, "%16" SCNx64, &until) != 1) {
        return false;
    }
    keyring_token(keyring, id, (int64_t)until, expected);
    return text_is(token, expected) && (int64_t)until > now;
}

void keyring_role(const struct keyring *keyring, const char *id, int64_t until, struct user *user) {
    char mark[ROLE_MARK_HEX + 1];
    *user = (struct user){.key_id = "ASIA"};
    mark_make(keyring, "role id", id, until, user->key_id + 4, ROLE_ID_HEX);
    for (char *digit = user->key_id; *digit != '\0'; digit++) {
        *digit = (char)toupper((unsigned char)*digit);
    }
    mark_make(keyring, "role secret", id, until, user->secret, ROLE_SECRET_HEX);
    mark_make(keyring, "role token", id, until, mark, ROLE_MARK_HEX);
    snprintf(user->token, sizeof user->token, "%s.%016" PRIx64 ".%s", id, (uint64_t)until, mark);
}

bool keyring_role_of(const struct keyring *keyring, const char *token, struct user *user, char id[CLOUD_ID_TEXT],
                     int64_t *until) {
    uint64_t end;
    size_t length = strcspn(token, ".");
    if (length >= CLOUD_ID_TEXT || sscanf(token + length, ".%16" SCNx64, &end) != 1) {
        return false;
    }
    snprintf(id, CLOUD_ID_TEXT, "%.*s", (int)length, token);
    *until = (int64_t)end;
    keyring_role(keyring, id, *until, user);
    return text_is(token, user->token);
}
