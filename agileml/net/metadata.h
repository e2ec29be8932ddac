/* The instance metadata service, version 2 (EC2): tokens, and documents by path. Asynchronous, on an http. The
 * endpoint is AWS_EC2_METADATA_SERVICE_ENDPOINT, or http://169.254.169.254, or http://[fd00:ec2::254] when
 * AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE is IPv6. The endpoint may have a path, to which each requested path is
 * appended. AWS_EC2_METADATA_DISABLED=true switches the service off. Only tokens are cached: after a failure the next
 * request tries again. All functions are called by one thread. */
#ifndef AGILEML_NET_METADATA_H
#define AGILEML_NET_METADATA_H

#include "agileml/net/http.h"

enum {
    METADATA_TIMEOUT_MS = 2000,     /* of each request: the service is one hop away */
    METADATA_TOKEN_S = 21600,       /* requested lifetime of a token: the longest that EC2 grants */
    METADATA_TOKEN_EARLY_S = 60,    /* a new token is requested so long before the old one expires */
    METADATA_TOKEN_MAX = 1024,      /* bytes; EC2's have 56 */
    METADATA_ANSWER_MAX = 1 << 17,  /* bytes; the largest document is the user data, 16 KiB */
    METADATA_ENDPOINT_MAX = 512,    /* bytes */
    METADATA_ACTION_BODY_MAX = 4096 /* bytes */
};

enum metadata_result {
    METADATA_FOUND,
    METADATA_NOTHING,     /* 404: there is no such document now */
    METADATA_OFF,         /* 403, or disabled by the environment: a retry is useless */
    METADATA_UNREACHABLE, /* no answer, a malformed one, or a server's error: retry later */
};

struct metadata_answer {
    enum metadata_result result;
    const char *body; /* METADATA_FOUND: the document, with a 0 byte behind it; else "" */
    size_t size;
    int64_t date; /* the service's clock, seconds since 1970; 0: not in the answer */
    /* Real seconds left until the event that the document announces. Below 0: not in the answer, as with EC2.
     * spotmarket, whose time runs faster, sends them (header X-Proteus-Seconds-Left of spot/instance-action). */
    double seconds_left;
};

struct metadata;
/* Called with the answer, which is valid until it returns. It may call metadata_get, but not metadata_close. */
typedef void metadata_done(void *context, const struct metadata_answer *answer);

/* Opens the service. `http` must remain open longer. `endpoint` NULL: the environment's or the default. Returns 0, or
 * AML_EINPUT for a malformed URL. */
int metadata_open(struct metadata **metadata, struct http *http, const char *endpoint, struct error *error);
void metadata_close(struct metadata *metadata); /* drops what is under way; NULL is allowed */
/* Requests `path`, such as "latest/meta-data/spot/instance-action". Requests a token first if there is none, and once
 * more after a 401. `done` is called from http_step, or at once if the environment has switched the service off. */
void metadata_get(struct metadata *metadata, const char *path, metadata_done *done, void *context);

/* The contents of spot/instance-action. */
struct metadata_action {
    char action[16]; /* "terminate", "stop", "hibernate" */
    int64_t time;    /* when, seconds since 1970 */
};
/* Parses a document such as {"action":"terminate","time":"2017-09-18T08:22:00Z"}. 0 or AML_EINPUT. */
int metadata_parse_action(const char *body, size_t size, struct metadata_action *action, struct error *error);

#endif
