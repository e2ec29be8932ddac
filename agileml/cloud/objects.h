/* A client of S3 and of web servers, for objects: each request is signed (S3), checked and tried again until it
 * succeeds or an error is certain. Requests run beside each other; the caller waits for those that it needs, in one
 * thread.
 *
 * Tried again, after a random part of a delay that doubles: connections that are cut, can't be made or stall, time
 * outs, 5xx (503 SlowDown), 429 and 408, answers whose range or size is not what was asked for, credentials that have
 * expired (read anew) and signatures that were out of time (by the answer's clock). After OBJECTS_ATTEMPTS the last
 * failure is the error. An answer from another region than assumed is followed there, by
 * AWS's own host of that region; no other redirect is. Credentials are those of
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
    OBJECTS_ATTEMPTS_LASTING = 2, /* for what time is not likely to mend, such as a host that is not known */
    OBJECTS_DELAY_MS = 100,       /* the first; four times that when the service asks for less */
    OBJECTS_DELAY_MS_MAX = 10 * 1000,
    OBJECTS_TIMEOUT_MS = 5 * 60 * 1000, /* of one attempt */
    OBJECTS_STALL_S = 20,               /* an attempt ends when nothing moves for so long */
    OBJECTS_SKEW_S = 240,               /* clocks that differ by less are not why a signature is refused */
    OBJECTS_ANSWER_MAX = 1 << 24,       /* bytes of an answer other than an object's */
    OBJECTS_ROOM_MIN = 1 << 14,         /* of the room for an object's bytes, as errors go there, too */
    OBJECTS_LIST_MAX = 1 << 20,         /* items of a list */
};

struct objects;

/* For tests; zero: the default. */
struct objects_options {
    unsigned attempts;
    uint32_t delay_ms, timeout_ms, stall_s;
};

/* Returns 0 or AML_EFAIL. Credentials and the endpoint are looked for by the first request to S3, which fails with
 * AML_EINPUT if they can't be used. */
int objects_open(struct objects **objects, const struct objects_options *options, struct error *error);
/* Drops requests that are under way, which must have been freed before. NULL is allowed. */
void objects_close(struct objects *objects);

enum object_action {
    OBJECT_GET,    /* a range of bytes */
    OBJECT_HEAD,   /* size and tag */
    OBJECT_PUT,    /* a whole object */
    OBJECT_DELETE, /* also when it is not there */
    OBJECT_LIST,
    OBJECT_UPLOADS,  /* lists multipart uploads */
    OBJECT_BEGIN,    /* a multipart upload */
    OBJECT_PART,     /* of a multipart upload */
    OBJECT_COMPLETE, /* a multipart upload */
    OBJECT_ABORT,    /* a multipart upload; also when it is not there */
    OBJECT_ACTIONS
};

struct object_request {
    enum object_action action;
    const struct object_url *url; /* stays until the call is freed, as all that follows */
    const char *query;            /* of S3, encoded, without '?'; NULL: none */
    uint64_t offset, length;      /* OBJECT_GET: at least one byte */
    uint64_t total;               /* OBJECT_GET: the object's bytes; UINT64_MAX: not known */
    const char *tag;              /* OBJECT_GET: of the version that is expected; NULL or "": any */
    void *room;                   /* OBJECT_GET: `length` bytes, at least OBJECTS_ROOM_MIN, for what is read */
    const void *body;             /* OBJECT_PUT, OBJECT_PART, OBJECT_COMPLETE */
    size_t body_size;
    bool once; /* no second attempt: a failure does not matter */
};

/* What a call has brought; valid until it is freed. */
struct object_result {
    struct error error; /* code 0: it has succeeded. AML_EINPUT for what the user can mend, else AML_EFAIL */
    int status;         /* of the last answer; 0: none */
    bool missing;       /* there is no such object (or bucket): AML_EINPUT, too */
    bool changed;       /* the object is not the version that was expected: AML_EINPUT, too */
    bool uncertain;     /* an earlier attempt may have been carried out */
    const char *body;   /* lists and uploads */
    size_t size;        /* of the body, or bytes that were put into the room: fewer than `length` at the object's end */
    uint64_t total;     /* OBJECT_GET, OBJECT_HEAD: the object's bytes */
    char tag[OBJECT_TAG_MAX];
};

struct object_call;
/* Starts a request. It makes progress only while somebody waits for this or another call of the client. */
struct object_call *object_start(struct objects *objects, const struct object_request *request);
/* Waits until the call has ended. */
const struct object_result *object_wait(struct object_call *call);
/* Cancels the call if it has not ended. NULL is allowed. */
void object_call_free(struct object_call *call);

/* ---- In one step, with the caller waiting ---- */

/* Finds out an object's size and tag. */
int object_head(struct objects *objects, const struct object_url *url, uint64_t *bytes, char tag[OBJECT_TAG_MAX],
                struct error *error);
/* Whether there is such an object: 1 or 0; a negative code when that can't be found out. */
int object_exists(struct objects *objects, const struct object_url *url, struct error *error);
/* Removes an object. Returns 0 also when there is none. */
int object_delete(struct objects *objects, const struct object_url *url, struct error *error);
/* Calls `found` for the objects whose keys begin with the address's key, in the order of bytes; with `folders`, only
 * for those that have no further '/', and once for each folder. Stops at the first code of `found` that is not 0.
 * AML_ELIMIT for more than OBJECTS_LIST_MAX. */
int object_list(struct objects *objects, const struct object_url *url, bool folders, object_found *found, void *context,
                struct error *error);
/* Aborts unfinished multipart uploads of this very key, or with `below` of all keys that begin with it. Counts them.
 * Without the right to list uploads, or where the service can't list them, it does nothing. */
int object_uploads_sweep(struct objects *objects, const struct object_url *url, bool below, unsigned *count,
                         struct error *error);

#endif
