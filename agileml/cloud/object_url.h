/* Addresses of objects: https://HOST/PATH, and s3://BUCKET/KEY as AWS's tools write it (the key's bytes as they are).
 * Plain http:// is for this machine (service_endpoint.h). Opens nothing. Any thread. */
#ifndef AGILEML_CLOUD_OBJECT_URL_H
#define AGILEML_CLOUD_OBJECT_URL_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    OBJECT_URL_MAX = 1536,   /* bytes of an address, with its 0 */
    OBJECT_BUCKET_MAX = 64,  /* of a bucket's name */
    OBJECT_KEY_MAX = 1025,   /* of a key: S3's limit is 1024 */
    OBJECT_NAME_SHOWN = 200, /* of an address in a message */
};

struct object_url {
    bool s3;                        /* otherwise `address` is a whole URL */
    char bucket[OBJECT_BUCKET_MAX]; /* s3 */
    char key[OBJECT_KEY_MAX];       /* s3; may be empty, or end in '/', where a folder is meant */
    char address[OBJECT_URL_MAX];
};

/* Whether the path begins with s3://, https:// or http://. */
bool object_url_is(const char *path);
/* Whether it begins with another scheme (letters and "://"), which nothing here reads or writes. */
bool object_url_is_foreign(const char *path);
/* Whether it begins with s3://, so that it can be written to and listed. */
bool object_url_is_s3(const char *path);
/* Returns 0; AML_EINPUT with a line: no bucket, a bucket's name that can't be, a user or password in the address, plain
 * http to another machine, or an address that is too long. The key is checked by who needs one. */
int object_url_parse(const char *path, struct object_url *url, struct error *error);

/* Copies the address without what may hold a secret (a query), and without its beginning when it is too long. */
void object_url_show(const char *path, char text[OBJECT_NAME_SHOWN]);

#endif
