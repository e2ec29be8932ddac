/* AWS Signature Version 4, both ways: clients of EC2 and S3 sign requests, spotmarket checks them. Pure functions on
 * OpenSSL's SHA-256 and HMAC; test vectors in tests. Any thread. */
#ifndef AGILEML_CLOUD_SIGV4_H
#define AGILEML_CLOUD_SIGV4_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIGV4_HEX = 65,         /* a SHA-256 in hexadecimal and its 0 */
    SIGV4_DATE = 17,        /* "20150830T123600Z" and its 0 */
    SIGV4_HEADERS_MAX = 32, /* headers that are signed */
};

struct sigv4_header {
    const char *name, *value; /* name in any case; value as sent */
};

struct sigv4_request {
    const char *method;
    const char *path;                   /* as sent, without the query; normalized by RFC 3986 here */
    bool path_as_is;                    /* S3: the path is signed as it was sent */
    const char *body_hash;              /* in hexadecimal; NULL: computed from the body */
    const char *query;                  /* as sent, without '?'; may be NULL */
    const struct sigv4_header *headers; /* all headers to sign, repeated ones too */
    size_t header_count;
    const void *body;
    size_t body_size;
};

struct sigv4_scope {
    char date[SIGV4_DATE]; /* x-amz-date */
    const char *region, *service;
};

/* Writes the SHA-256 of bytes, in hexadecimal. */
void sigv4_hash(const void *bytes, size_t size, char hash[SIGV4_HEX]);
/* Writes `text` with %XX for all but unreserved characters and those of `kept`, such as "/". Returns false when the
 * result needs more than `size` bytes. */
bool sigv4_encode(const char *text, const char *kept, char *encoded, size_t size);
/* Writes the x-amz-date of a time in seconds since 1970. */
void sigv4_date(int64_t time, char date[SIGV4_DATE]);
/* Sets *canonical to the canonical request, which the caller frees. Returns 0, or AML_EINPUT when a limit is
 * exceeded. */
int sigv4_canonical(const struct sigv4_request *request, char **canonical, struct error *error);
/* Returns the string to sign for a canonical request. The caller frees it. */
char *sigv4_string_to_sign(const struct sigv4_scope *scope, const char *canonical);
/* Computes the signature. Wipes the derived key from memory. */
void sigv4_sign(const struct sigv4_scope *scope, const char *secret, const char *string_to_sign,
                char signature[SIGV4_HEX]);
/* Sets *authorization to the value of the Authorization header, which the caller frees. */
int sigv4_authorization(const struct sigv4_request *request, const struct sigv4_scope *scope, const char *key_id,
                        const char *secret, char **authorization, struct error *error);

#endif
