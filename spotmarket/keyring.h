/* The secrets that spotmarket gives out. These are a token for its owner, and for each machine: the secret part of its
 * metadata's path, its metadata tokens, and the keys of its role. All derive from one secret drawn at the start, so
 * that nothing else is stored. One thread. */
#ifndef SPOTMARKET_KEYRING_H
#define SPOTMARKET_KEYRING_H

#include "spotmarket/cloud.h"
#include "spotmarket/users.h"

enum {
    KEYRING_SECRET = 32,    /* bytes */
    KEYRING_OWNER_HEX = 64, /* digits of the owner's token */
    KEYRING_PATH_HEX = 32,  /* digits of a path's secret part (128 bits) */
    KEYRING_TOKEN_HEX = 48, /* digits of a metadata token: its expiry and 128 bits */
};

struct keyring {
    unsigned char secret[KEYRING_SECRET];
};

/* Draws the secret. Ends the process if the system has no random numbers. */
void keyring_open(struct keyring *keyring);
void keyring_close(struct keyring *keyring); /* wipes the secret */

void keyring_owner(const struct keyring *keyring, char owner[KEYRING_OWNER_HEX + 1]);
bool keyring_owner_good(const struct keyring *keyring, const char *owner);

/* Writes the secret part of the path to the metadata of machine `id`. */
void keyring_path(const struct keyring *keyring, const char *id, char path[KEYRING_PATH_HEX + 1]);
bool keyring_path_good(const struct keyring *keyring, const char *id, const char *path);

/* Writes a token for the machine's metadata service, valid before `until` (real time, seconds since 1970). */
void keyring_token(const struct keyring *keyring, const char *id, int64_t until, char token[KEYRING_TOKEN_HEX + 1]);
bool keyring_token_good(const struct keyring *keyring, const char *id, const char *token, int64_t now);

/* Makes temporary keys of the machine's role, valid before `until`. Their session token names the machine. */
void keyring_role(const struct keyring *keyring, const char *id, int64_t until, struct user *user);
/* Finds the keys, machine and expiry of a session token. Returns false if it is not from keyring_role. */
bool keyring_role_of(const struct keyring *keyring, const char *token, struct user *user, char id[CLOUD_ID_TEXT],
                     int64_t *until);

#endif
