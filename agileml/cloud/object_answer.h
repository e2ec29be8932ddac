/* Responses of S3 and web servers about objects, checked and in typed form: headers, errors, lists. Pure functions,
 * any thread. */
#ifndef AGILEML_CLOUD_OBJECT_ANSWER_H
#define AGILEML_CLOUD_OBJECT_ANSWER_H

#include "agileml/cloud/object_url.h"
#include "agileml/net/http.h"

enum {
    OBJECT_TAG_MAX = 128, /* bytes of an ETag, with its quotes and 0 */
    OBJECT_CODE_MAX = 64, /* bytes of S3's name of an error */
    OBJECT_TEXT_MAX = 300,
    OBJECT_REGION_MAX = 64,
    OBJECT_HOST_MAX = 320,
    OBJECT_UPLOAD_MAX = 512,    /* bytes of a multipart upload's id */
    OBJECT_CONTINUE_MAX = 2048, /* bytes of the marker where a list continues */
};

/* The largest size of an object. Sizes of S3 objects fit into 63 bits. */
#define OBJECT_BYTES_MAX (UINT64_C(1) << 62)

struct object_range {
    uint64_t first, last, total; /* last is within the range; total may be UINT64_MAX: not known */
    bool empty;                  /* "bytes * / TOTAL": the object has no such range */
};

/* Parses a Content-Range header, such as "bytes 0-99/1000". Returns false for other text. */
bool object_range_parse(const char *text, struct object_range *range);
/* Copies the response's ETag, or else its Last-Modified, which distinguish versions of an object. Writes "" when
 * there is neither, or none that can be sent back. */
void object_tag_take(const struct http_answer *answer, char tag[OBJECT_TAG_MAX]);
/* Parses a number of bytes. */
bool object_bytes_parse(const char *text, uint64_t *bytes);

struct object_failure {
    int status;
    char code[OBJECT_CODE_MAX];       /* "NoSuchKey"; "": none */
    char text[OBJECT_TEXT_MAX];       /* one printable line; "": none */
    char region[OBJECT_REGION_MAX];   /* the bucket's region, if the response names it */
    char location[OBJECT_NAME_SHOWN]; /* the target of a redirect without its query, one line; "": no redirect */
};
/* Reads a response with a status of 300 or more, or one of 200 whose body reports an error. */
void object_failure_read(const struct http_answer *answer, struct object_failure *failure);
/* Copies the region that a host of AWS's S3 serves: "bucket.s3.eu-west-3.amazonaws.com" has "eu-west-3". Returns false
 * for every other host. */
bool object_host_region(const char *host, char region[OBJECT_REGION_MAX]);
/* Whether the body of a response with status 200 reports an error, as S3's long operations may. */
bool object_answer_failed(const char *body, size_t size);

/* An object, a folder or an upload in a list. */
struct object_item {
    char key[OBJECT_KEY_MAX];
    uint64_t bytes;
    char tag[OBJECT_TAG_MAX];
    char upload[OBJECT_UPLOAD_MAX]; /* the upload's id, in a list of uploads */
    bool folder;                    /* the key ends in '/' */
};
typedef int object_found(void *context, const struct object_item *item, struct error *error);

/* Reads a page of a ListObjectsV2 or ListMultipartUploads response with encoding-type=url. Calls `found` for each
 * item until it returns other than 0. `next` and `next_upload` become the markers of the next page; "": the list has
 * ended. Returns what `found` returned, or AML_EFAIL for any other text. */
int object_page_read(const char *body, size_t size, object_found *found, void *context, char next[OBJECT_CONTINUE_MAX],
                     char next_upload[OBJECT_CONTINUE_MAX], struct error *error);
/* Copies the upload's id from the response to CreateMultipartUpload. Returns 0 or AML_EFAIL. */
int object_upload_read(const char *body, size_t size, char upload[OBJECT_UPLOAD_MAX], struct error *error);

#endif
