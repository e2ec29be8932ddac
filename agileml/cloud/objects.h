/* A client of S3 and of web servers, for objects: each request is signed (S3), checked, and retried until it
 * succeeds or fails for good. Requests run in parallel; the caller waits for those that it needs, in one thread.
 *
 * Requests are retried after a random part of a delay that doubles. Causes are: connections that fail, break or
 * stall, timeouts, status 5xx (503 SlowDown), 429 and 408, and responses whose range or size is not what was
 * requested. After expired credentials new ones are fetched; after a signature with a wrong time the response's
 * clock is adopted. After OBJECTS_ATTEMPTS the last failure is the error. If the bucket is in another region, the
 * request is sent to AWS's own host of that region; no other redirect is followed. Credentials are those of
 * credentials.h.
 *
 * The address of s3://BUCKET/KEY is https://BUCKET.s3.REGION.amazonaws.com/KEY, or, with an endpoint of
 * AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile, ENDPOINT/BUCKET/KEY; the profile's addressing_style of s3 may
 * say otherwise. REGION is that of AWS_REGION, AWS_DEFAULT_REGION or the profile, or us-east-1 at first. Errors name
 * the address, what was expected, and which credentials were used; never a secret. */
#ifndef AGILEML_CLOUD_OBJECTS_H
#define AGILEML_CLOUD_OBJECTS_H

#include "agileml/cloud/object_answer.h"

#include <stdint.h>

enum {
    OBJECTS_ATTEMPTS = 10,
    OBJECTS_ATTEMPTS_LASTING = 2, /* attempts when a retry is unlikely to help, such as for an unknown host */
    OBJECTS_DELAY_MS = 100,       /* the first delay; four times as long when the service limits the rate of requests */
    OBJECTS_DELAY_MS_MAX = 10 * 1000,
    OBJECTS_TIMEOUT_MS = 5 * 60 * 1000, /* time limit of one attempt */
    OBJECTS_STALL_S = 20,               /* an attempt ends when no bytes move for this long */
    OBJECTS_SKEW_S = 240,               /* a smaller difference of clocks can't be why a signature is rejected */
    OBJECTS_ANSWER_MAX = 1 << 24,       /* bytes of a response other than an object's */
    OBJECTS_ROOM_MIN = 1 << 14,         /* least room for an object's bytes, as error responses go there too */
    OBJECTS_LIST_MAX = 1 << 20,         /* items of a list */
};

struct objects;

/* For tests; zeros select the defaults. */
struct objects_options {
    unsigned attempts;
    uint32_t delay_ms, timeout_ms, stall_s;
};

/* Returns 0 or AML_EFAIL. The first request to S3 looks for credentials and the endpoint. That request fails with
 * AML_EINPUT if they can't be used. */
int objects_open(struct objects **objects, const struct objects_options *options, struct error *error);
/* Closes the client. All calls must have been freed before. NULL is allowed. */
void objects_close(struct objects *objects);

enum object_action {
    OBJECT_GET,    /* a range of bytes */
    OBJECT_HEAD,   /* size and tag */
    OBJECT_PUT,    /* a whole object */
    OBJECT_DELETE, /* succeeds also when the object doesn't exist */
    OBJECT_LIST,
    OBJECT_UPLOADS,  /* lists multipart uploads */
    OBJECT_BEGIN,    /* begins a multipart upload */
    OBJECT_PART,     /* a part of a multipart upload */
    OBJECT_COMPLETE, /* completes a multipart upload */
    OBJECT_ABORT,    /* aborts a multipart upload; succeeds also when it doesn't exist */
    OBJECT_ACTIONS
};

struct object_request {
    enum object_action action;
    const struct object_url *url; /* must stay valid until the call is freed, like all pointers below */
    const char *query;            /* S3's query, encoded, without '?'; NULL: none */
    uint64_t offset, length;      /* OBJECT_GET: at least one byte */
    uint64_t total;               /* OBJECT_GET: the object's bytes; UINT64_MAX: not known */
    const char *tag;              /* OBJECT_GET: tag of the expected version; NULL or "": any */
    void *room;                   /* OBJECT_GET: `length` bytes, at least OBJECTS_ROOM_MIN, for what is read */
    const void *body;             /* OBJECT_PUT, OBJECT_PART, OBJECT_COMPLETE */
    size_t body_size;
    bool once; /* never retried: a failure does not matter */
};

/* The result of a call; valid until the call is freed. */
struct object_result {
    struct error error; /* code 0: success. AML_EINPUT for what the user can fix, else AML_EFAIL */
    int status;         /* status of the last response; 0: none */
    bool missing;       /* the object (or bucket) doesn't exist; also AML_EINPUT */
    bool changed;       /* the object is not the expected version; also AML_EINPUT */
    bool uncertain;     /* an earlier attempt may have taken effect */
    const char *body;   /* response body of lists and uploads */
    size_t size;        /* bytes of the body, or bytes written to the room: fewer than `length` at the object's end */
    uint64_t total;     /* OBJECT_GET, OBJECT_HEAD: the object's bytes */
    char tag[OBJECT_TAG_MAX];
};

struct object_call;
/* Starts a request. It makes progress only while the caller waits for a call of this client. */
struct object_call *object_start(struct objects *objects, const struct object_request *request);
/* Waits until the call has ended. */
const struct object_result *object_wait(struct object_call *call);
/* Cancels the call if it has not ended. NULL is allowed. */
void object_call_free(struct object_call *call);

/* ---- In one step; these functions wait ---- */

/* Requests an object's size and tag. */
int object_head(struct objects *objects, const struct object_url *url, uint64_t *bytes, char tag[OBJECT_TAG_MAX],
                struct error *error);
/* Returns whether such an object exists: 1 or 0; a negative code when that can't be determined. */
int object_exists(struct objects *objects, const struct object_url *url, struct error *error);
/* Removes an object. Returns 0 also when it doesn't exist. */
int object_delete(struct objects *objects, const struct object_url *url, struct error *error);
/* Calls `found` for the objects whose keys begin with the address's key, in the order of bytes. With `folders` only
 * for keys without a further '/', and once for each folder. Stops at the first code of `found` that is not 0.
 * Returns AML_ELIMIT for more than OBJECTS_LIST_MAX items. */
int object_list(struct objects *objects, const struct object_url *url, bool folders, object_found *found, void *context,
                struct error *error);
/* Aborts unfinished multipart uploads of exactly this key, or with `below` of all keys that begin with it. Sets
 * *count to their number. Does nothing without the right to list uploads, or if the service can't list them. */
int object_uploads_sweep(struct objects *objects, const struct object_url *url, bool below, unsigned *count,
                         struct error *error);

#endif
