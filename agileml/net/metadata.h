/* The instance metadata service, version 2 (EC2): tokens, and documents by path. Asynchronous, on an http. The
 * endpoint is AWS_EC2_METADATA_SERVICE_ENDPOINT, or http://169.254.169.254, or http://[fd00:ec2::254] when
 * AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE is IPv6; it may have a path of its own, which what is asked for is appended
 * to. AWS_EC2_METADATA_DISABLED=true switches it off. Remembers tokens only: what could not be reached is tried
 * again the next time. One thread. */
#ifndef AGILEML_NET_METADATA_H
#define AGILEML_NET_METADATA_H

#include "agileml/net/http.h"

enum {
    METADATA_TIMEOUT_MS = 2000,     /* of each request: the service is one hop away */
    METADATA_TOKEN_S = 21600,       /* how long a token is asked for: the most that EC2 gives */
    METADATA_TOKEN_EARLY_S = 60,    /* so long before its end a new one is asked for */
    METADATA_TOKEN_MAX = 1024,      /* bytes; EC2's have 56 */
    METADATA_ANSWER_MAX = 1 << 17,  /* bytes; the largest document is the user data, 16 KiB */
    METADATA_ENDPOINT_MAX = 512,    /* bytes */
    METADATA_ACTION_BODY_MAX = 4096 /* bytes */
};

enum metadata_result {
    METADATA_FOUND,
    METADATA_NOTHING,     /* 404: there is no such document now */
    METADATA_OFF,         /* 403, or disabled by the environment: it will not be there later either */
    METADATA_UNREACHABLE, /* no answer, a wrong one, or a server's error: ask again later */
};

struct metadata_answer {
    enum metadata_result result;
    const char *body; /* METADATA_FOUND: the document, with a 0 byte behind it; else "" */
    size_t size;
    int64_t date; /* the service's clock, seconds since 1970; 0: it didn't tell */
    /* Of spotmarket, whose time runs faster (header X-Proteus-Seconds-Left of spot/instance-action): how many
     * seconds of real time are left until what the document tells; below 0: it didn't tell, as EC2 doesn't. */
    double seconds_left;
};

struct metadata;
/* `answer` lives until it returns. It may ask for more; it must not close. */
typedef void metadata_done(void *context, const struct metadata_answer *answer);

/* `http` must outlive it. `endpoint` NULL: as the environment says. 0 or AML_EINPUT (a URL that is none). */
int metadata_open(struct metadata **metadata, struct http *http, const char *endpoint, struct error *error);
void metadata_close(struct metadata *metadata); /* drops what is under way; NULL is allowed */
/* Asks for `path`, such as "latest/meta-data/spot/instance-action"; gets a token first where that is needed, and
 * once more on a 401. `done` is called from http_step, but at once when the environment has switched the service
 * off. */
void metadata_get(struct metadata *metadata, const char *path, metadata_done *done, void *context);

/* What spot/instance-action says. */
struct metadata_action {
    char action[16]; /* "terminate", "stop", "hibernate" */
    int64_t time;    /* when, seconds since 1970 */
};
/* Parses it: {"action":"terminate","time":"2017-09-18T08:22:00Z"}. 0 or AML_EINPUT. */
int metadata_parse_action(const char *body, size_t size, struct metadata_action *action, struct error *error);

#endif
