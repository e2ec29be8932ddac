/* See object_url.h. */
#include "agileml/cloud/object_url.h"

#include "agileml/base/printable.h"
#include "agileml/cloud/service_endpoint.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool begins(const char *path, const char *prefix) {
    return strncasecmp(path, prefix, strlen(prefix)) == 0;
}

bool object_url_is_s3(const char *path) {
    return begins(path, "s3://");
}

bool object_url_is(const char *path) {
    return object_url_is_s3(path) || begins(path, "https://") || begins(path, "http://");
}

bool object_url_is_foreign(const char *path) {
    size_t letters = 0;
    while (isalnum((unsigned char)path[letters])) {
        letters++;
    }
    return letters > 0 && strncmp(path + letters, "://", 3) == 0 && !object_url_is(path);
}

void object_url_show(const char *path, char text[OBJECT_NAME_SHOWN]) {
    size_t length = object_url_is_s3(path) ? strlen(path) : strcspn(path, "?#");
    size_t skipped = length >= OBJECT_NAME_SHOWN ? length - (OBJECT_NAME_SHOWN - 4) : 0;
    snprintf(text, OBJECT_NAME_SHOWN, "%s%.*s", skipped > 0 ? "..." : "", (int)(length - skipped), path + skipped);
    text_make_printable(text);
}

static int wrong(const char *path, const char *what, struct error *error) {
    char shown[OBJECT_NAME_SHOWN];
    object_url_show(path, shown);
    return error_set(error, AML_EINPUT, "%s: %s", shown, what);
}

static int parse_s3(const char *path, struct object_url *url, struct error *error) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    const char *bucket = path + strlen("s3://");
    size_t length = strcspn(bucket, "/");
    const char *key = bucket + length + (bucket[length] == '/');
    if (length < 3 || length >= sizeof url->bucket || strspn(bucket, letters) != length || bucket[0] == '.' ||
        bucket[0] == '-') {
        return wrong(
            path, "no bucket's name: expected s3://BUCKET/KEY, the bucket of 3 to 63 letters, digits, '.', '-'", error);
    }
    if (strlen(key) >= sizeof url->key) {
        return wrong(path, "the key is longer than 1024 bytes", error);
    }
    url->s3 = true;
    memcpy(url->bucket, bucket, length);
    strcpy(url->key, key);
    return 0;
}

static int parse_web(const char *path, struct object_url *url, struct error *error) {
    struct error reason = {0};
    char base[300];
    char host[300];
    bool plain = begins(path, "http://");
    const char *name = path + strlen(plain ? "http://" : "https://");
    size_t length = strcspn(name, "/?#");
    for (const char *c = path; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f) {
            return wrong(path, "a blank in the address: expected it to be encoded, as %20", error);
        }
    }
    if (memchr(name, '@', length) != NULL) {
        return error_set(error, AML_EINPUT, "an address with a user's name in it: expected https://HOST/PATH");
    }
    if (length == 0 || length > 250 || name[length] != '/') {
        return wrong(path, "expected https://HOST/PATH", error);
    }
    snprintf(base, sizeof base, "%s://%.*s", plain ? "http" : "https", (int)length, name);
    if (service_endpoint_host(base, host, sizeof host, service_plain_allowed(), &reason) != 0) {
        return wrong(path,
                     plain ? "plain http is for this machine alone (127.0.0.1), unless PROTEUS_PLAIN_HTTP=1: expected "
                             "https://HOST/PATH"
                           : "expected https://HOST/PATH",
                     error);
    }
    snprintf(url->address, sizeof url->address, "%.*s", (int)strcspn(path, "#"), path);
    return 0;
}

int object_url_parse(const char *path, struct object_url *url, struct error *error) {
    *url = (struct object_url){0};
    if (strlen(path) >= sizeof url->address) {
        return wrong(path, "the address is too long", error);
    }
    if (!object_url_is(path)) {
        return wrong(path, "expected s3://BUCKET/KEY or https://HOST/PATH", error);
    }
    return object_url_is_s3(path) ? parse_s3(path, url, error) : parse_web(path, url, error);
}
