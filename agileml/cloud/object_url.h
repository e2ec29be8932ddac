/* Addresses of objects: https://HOST/PATH, and s3://BUCKET/KEY as AWS's tools write it (the key is not encoded).
 * Plain http:// is only for this machine (service_endpoint.h). Opens nothing. Any thread. */
#ifndef AGILEML_CLOUD_OBJECT_URL_H
#define AGILEML_CLOUD_OBJECT_URL_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    OBJECT_URL_MAX = 1536,   /* bytes of an address, with its 0 */
    OBJECT_BUCKET_MAX = 64,  /* bytes of a bucket's name */
    OBJECT_KEY_MAX = 1025,   /* bytes of a key: S3's limit is 1024 */
    OBJECT_NAME_SHOWN = 200, /* bytes of an address in a message */
};

struct object_url {
    bool s3;                        /* false: `address` is a whole URL */
    char bucket[OBJECT_BUCKET_MAX]; /* only if `s3` */
    char key[OBJECT_KEY_MAX];       /* only if `s3`; may be empty, or end in '/' for a folder */
    char address[OBJECT_URL_MAX];
};

/* Whether the path begins with s3://, https:// or http://. */
bool object_url_is(const char *path);
/* Whether the path begins with an unsupported scheme (letters and "://"). */
bool object_url_is_foreign(const char *path);
/* Whether the path begins with s3://, so that it can be written and listed. */
bool object_url_is_s3(const char *path);
/* Returns 0, or AML_EINPUT for an address without a bucket or with an invalid one, with a user or password, with
 * plain http to another machine, or too long. Callers that need a key must check it. */
int object_url_parse(const char *path, struct object_url *url, struct error *error);

/* Copies the address without its query, which may hold a secret. Drops its beginning when it is too long. */
void object_url_show(const char *path, char text[OBJECT_NAME_SHOWN]);

#endif
