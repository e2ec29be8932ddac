/* See users.h. */
#include "spotmarket/users.h"

#include "agileml/base/memory.h"
#include "agileml/base/private_file.h"
#include "agileml/cloud/ini.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int user_field(char *field, size_t size, const char *path, const struct ini_item *item, struct error *error) {
    if (item->value[0] == '\0' || strlen(item->value) >= size) {
        return error_set(error, AML_EINPUT, "%s:%u: expected a value of 1 to %zu bytes", path, item->line, size - 1);
    }
    strcpy(field, item->value);
    return 0;
}

struct users_reading {
    struct users *users;
    const char *path;
};

static int user_found(void *context, const struct ini_item *item, struct error *error) {
    struct users *users = ((struct users_reading *)context)->users;
    const char *path = ((struct users_reading *)context)->path;
    if (item->name == NULL) {
        if (users->count == USERS_MAX) {
            return error_set(error, AML_EINPUT, "%s:%u: more than %d profiles", path, item->line, USERS_MAX);
        }
        snprintf(users->list[users->count++].name, USER_NAME_MAX, "%s", item->section);
        return 0;
    }
    if (item->part != NULL) {
        return 0;
    }
    struct user *user = &users->list[users->count - 1]; /* exists, since nothing precedes the first section */
    return strcmp(item->name, "aws_access_key_id") == 0
               ? user_field(user->key_id, sizeof user->key_id, path, item, error)
           : strcmp(item->name, "aws_secret_access_key") == 0
               ? user_field(user->secret, sizeof user->secret, path, item, error)
           : strcmp(item->name, "aws_session_token") == 0
               ? user_field(user->token, sizeof user->token, path, item, error)
               : 0;
}

static int users_load(struct users *users, FILE *file, const char *path, struct error *error) {
    struct users_reading reading = {.users = users, .path = path};
    char *text = memory_zeroed(USERS_FILE_MAX + 1, 1);
    size_t size = fread(text, 1, USERS_FILE_MAX + 1, file);
    int code = ferror(file) != 0 || size > USERS_FILE_MAX || strlen(text) != size
                   ? error_set(error, AML_EINPUT, "%s: expected text of at most %d bytes", path, USERS_FILE_MAX)
                   : ini_parse(path, text, user_found, &reading, error);
    explicit_bzero(text, USERS_FILE_MAX + 1);
    free(text);
    return code;
}

int users_read(struct users *users, const char *path, struct error *error) {
    *users = (struct users){.list = memory_zeroed(USERS_MAX, sizeof *users->list)};
    struct stat status;
    FILE *file = fopen(path, "re");
    int code;
    if (file == NULL || fstat(fileno(file), &status) != 0) {
        code = error_set(error, AML_EINPUT, "%s: %s", path, strerror(errno));
    } else if ((code = private_file_check(path, &status, error)) == 0) {
        setbuf(file, NULL); /* no buffer, which would keep the secrets */
        code = users_load(users, file, path, error);
    }
    if (file != NULL) {
        fclose(file);
    }
    size_t good = 0;
    for (size_t u = 0; u < users->count && code == 0; u++) {
        const struct user *user = &users->list[u];
        good += user->key_id[0] != '\0' && user->secret[0] != '\0';
    }
    if (code == 0 && (good == 0 || good < users->count)) {
        code = error_set(error, AML_EINPUT, "%s: expected aws_access_key_id and aws_secret_access_key in each profile",
                         path);
    }
    if (code != 0) {
        users_close(users);
    }
    return code;
}

void users_close(struct users *users) {
    if (users->list != NULL) {
        explicit_bzero(users->list, USERS_MAX * sizeof *users->list);
    }
    free(users->list);
    *users = (struct users){0};
}

const struct user *users_find(const struct users *users, const char *key_id) {
    for (size_t u = 0; u < users->count; u++) {
        if (strcmp(users->list[u].key_id, key_id) == 0) {
            return &users->list[u];
        }
    }
    return NULL;
}
