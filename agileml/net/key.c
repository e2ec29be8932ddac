/* See key.h. A key file is three lines of text: KEY_TITLE, "public TEXT", "secret TEXT". */
#include "agileml/net/key.h"

#include "agileml/base/core_dumps.h"
#include "agileml/base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#define KEY_TITLE "agileml-key 1"

enum { KEY_FILE_MAX = 256 };

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

int net_key_generate(const char *path, struct error *error) {
    struct net_key key;
    char text[KEY_FILE_MAX];
    char draft[PATH_MAX];
    if (snprintf(draft, sizeof draft, "%s.XXXXXX", path) >= (int)sizeof draft) {
        return error_set(error, AML_EINPUT, "the key file's path is longer than %zu bytes", sizeof draft - 8);
    }
    core_dumps_forbid();
    if (zmq_curve_keypair(key.public_text, key.secret_text) != 0) {
        return error_set(error, AML_EFAIL, "can't make a key: %s", zmq_strerror(errno));
    }
    int size = snprintf(text, sizeof text, KEY_TITLE "\npublic %s\nsecret %s\n", key.public_text, key.secret_text);
    /* A finished draft is linked to its name: unlike rename, link never replaces a file. */
    int result = 0;
    int fd = mkostemp(draft, O_CLOEXEC);
    if (fd < 0) {
        result = key_write_error(path, error);
    } else {
        if (key_write(fd, text, (size_t)size) != 0) {
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
    explicit_bzero(&key, sizeof key);
    explicit_bzero(text, sizeof text);
    return result;
}

/* Copies the rest of the line that starts with `name`, and steps over the line. */
static bool key_line(const char **at, const char *name, char value[NET_KEY_TEXT]) {
    size_t length = strlen(name);
    if (strncmp(*at, name, length) != 0 || strcspn(*at + length, "\n") != NET_KEY_TEXT - 1 ||
        (*at)[length + NET_KEY_TEXT - 1] != '\n') {
        return false;
    }
    memcpy(value, *at + length, NET_KEY_TEXT - 1);
    value[NET_KEY_TEXT - 1] = '\0';
    *at += length + NET_KEY_TEXT;
    return true;
}

static bool key_parse(const char *text, struct net_key *key) {
    char expected[NET_KEY_TEXT];
    size_t title = strlen(KEY_TITLE "\n");
    if (strncmp(text, KEY_TITLE "\n", title) != 0) {
        return false;
    }
    text += title;
    return key_line(&text, "public ", key->public_text) && key_line(&text, "secret ", key->secret_text) &&
           *text == '\0' && zmq_curve_public(expected, key->secret_text) == 0 &&
           strcmp(expected, key->public_text) == 0;
}

/* Opens and judges the file before a byte of it is read. A descriptor, or an error. */
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
                           "%s: not a key file, expected the lines '" KEY_TITLE
                           "', 'public TEXT' and 'secret TEXT' that 'proteus keygen' writes",
                           path);
    }
    close(fd);
    explicit_bzero(text, sizeof text);
    if (result != 0) {
        explicit_bzero(key, sizeof *key);
    }
    return result;
}
