/* A small S3 server for tests: one bucket in memory, on http_server.h. It checks signatures and simulates faults. */
#ifndef TESTS_FAKE_S3_H
#define TESTS_FAKE_S3_H

#include "tests/unit/http_server.h"

#include <stdint.h>

enum { FAKE_S3_OBJECTS = 32, FAKE_S3_UPLOADS = 8, FAKE_S3_PARTS = 8, FAKE_S3_LOG = 1 << 14, FAKE_S3_PAGE = 2 };

#define FAKE_S3_KEY    "AKIDEXAMPLE"
#define FAKE_S3_SECRET "wJalrXUtnFEMI-not-to-be-seen"

struct fake_object {
    char key[1024];
    char *bytes; /* NULL: unused entry */
    size_t size;
    unsigned version;
};

struct fake_upload {
    char key[1024];
    unsigned id; /* 0: unused entry */
    size_t sizes[FAKE_S3_PARTS];
};

/* A fault in place of the next answers. */
struct fake_fault {
    const char *of; /* requests with this beginning of "METHOD PATH?QUERY"; NULL: all */
    unsigned count; /* number of requests with the fault */
    int status;     /* 0: one of the flags below */
    const char *code;
    const char *head;                            /* more header lines; NULL: none */
    bool cut, silent, wrong_range, no_xml, lost; /* `lost`: the request is carried out, but the answer is cut */
};

struct fake_s3 {
    struct http_server *server;
    struct fake_object objects[FAKE_S3_OBJECTS];
    struct fake_upload uploads[FAKE_S3_UPLOADS];
    unsigned last_upload;
    struct fake_fault fault;
    bool no_ranges;
    const char *region; /* "us-east-1" */
    /* called before each request; NULL: no call */
    void (*before)(struct fake_s3 *fake, const struct http_server_request *request);
    unsigned requests;
    char log[FAKE_S3_LOG]; /* a line for each request: method and path */
    char *lent;            /* buffer of the last answer */
};

/* Opens the server, and sets AWS_ENDPOINT_URL_S3 and credentials in the environment. */
void fake_s3_open(struct fake_s3 *fake);
void fake_s3_close(struct fake_s3 *fake);
/* Stores an object of `size` bytes made from `seed`. */
void fake_s3_put(struct fake_s3 *fake, const char *key, size_t size, unsigned seed);
struct fake_object *fake_s3_find(struct fake_s3 *fake, const char *key);
unsigned fake_s3_uploads(const struct fake_s3 *fake);
/* The number of logged requests that begin with `begin`. */
unsigned fake_s3_count(const struct fake_s3 *fake, const char *begin);

#endif
