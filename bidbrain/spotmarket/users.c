/* See users.h. */
#include "bidbrain/spotmarket/users.h"

#include "agileml/base/memory.h"
#include "agileml/base/private_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *trimmed(char *text) {
    text += strspn(text, " \t\r\n");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL) {
        text[--length] = '\0';
    }
    return text;
}

static int user_field(char *field, size_t size, const char *value, const char *path, unsigned line,
                      struct error *error) {
    if (value[0] == '\0' || strlen(value) >= size) {
        return error_set(error, AML_EINPUT, "%s:%u: expected a value of 1 to %zu bytes", path, line, size - 1);
    }
    strcpy(field, value);
    return 0;
}

static int user_line(struct users *users, char *text, const char *path, unsigned line, struct error *error) {
    struct user *user = users->count > 0 ? &users->list[users->count - 1] : NULL;
    char *equals = strchr(text, '=');
    if (equals == NULL || user == NULL) {
        return error_set(error, AML_EINPUT, "%s:%u: expected %s", path, line,
                         user == NULL ? "[default]" : "a name, '=' and a value");
    }
    *equals = '\0';
    const char *name = trimmed(text);
    const char *value = trimmed(equals + 1);
    return strcmp(name, "aws_access_key_id") == 0
               ? user_field(user->key_id, sizeof user->key_id, value, path, line, error)
           : strcmp(name, "aws_secret_access_key") == 0
               ? user_field(user->secret, sizeof user->secret, value, path, line, error)
           : strcmp(name, "aws_session_token") == 0
               ? user_field(user->token, sizeof user->token, value, path, line, error)
               : 0;
}

static int users_lines(struct users *users, FILE *file, const char *path, struct error *error) {
    char text[USER_TOKEN_MAX + 64];
    unsigned line = 0;
    int code = 0;
    while (code == 0 && fgets(text, sizeof text, file) != NULL) {
        line++;
        if (strchr(text, '\n') == NULL && !feof(file)) {
            code = error_set(error, AML_EINPUT, "%s:%u: the line is too long", path, line);
            break;
        }
        char *content = trimmed(text);
        if (*content == '\0' || *content == '#' || *content == ';') {
            continue;
        }
        if (*content != '[') {
            code = user_line(users, content, path, line, error);
        } else if (users->count == USERS_MAX) {
            code = error_set(error, AML_EINPUT, "%s:%u: more than %d profiles", path, line, USERS_MAX);
        } else {
            struct user *user = &users->list[users->count++];
            memset(user, 0, sizeof *user);
            snprintf(user->name, sizeof user->name, "%.*s", (int)strcspn(content + 1, "]"), content + 1);
        }
    }
    explicit_bzero(text, sizeof text);
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
        code = users_lines(users, file, path, error);
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
