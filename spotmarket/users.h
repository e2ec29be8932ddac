/* The users who may call the embedded cloud: the profiles of an AWS credentials file. */
#ifndef SPOTMARKET_USERS_H
#define SPOTMARKET_USERS_H

#include "agileml/base/error.h"

#include <stddef.h>

enum {
    USERS_MAX = 32,
    USERS_FILE_MAX = 1 << 16,
    USER_NAME_MAX = 64,
    USER_KEY_MAX = 128,
    USER_SECRET_MAX = 256,
    USER_TOKEN_MAX = 4096
};

struct user {
    char name[USER_NAME_MAX]; /* name of the profile; a longer name is cut */
    char key_id[USER_KEY_MAX];
    char secret[USER_SECRET_MAX];
    char token[USER_TOKEN_MAX]; /* "": none */
};

struct users {
    struct user *list;
    size_t count;
};

/* Reads "[profile]" sections with aws_access_key_id, aws_secret_access_key and perhaps aws_session_token; ignores other
 * keys. The file must be accessible only to its owner. Returns AML_EINPUT with file and line, but never with a
 * secret. */
int users_read(struct users *users, const char *path, struct error *error);
/* Wipes the secrets and frees everything. */
void users_close(struct users *users);
/* Returns NULL when no user has this key id. */
const struct user *users_find(const struct users *users, const char *key_id);

#endif
