/* The instance metadata service, version 2 (EC2): tokens, and documents by path. Asynchronous, on an http. The endpoint is
 * AWS_EC2_METADATA_SERVICE_ENDPOINT, or http://169.254.169.254; it may have a path of its own, which what is asked for is
 * appended to. AWS_EC2_METADATA_DISABLED=true switches it off. One thread. */
#ifndef AGILEML_NET_METADATA_H
#define AGILEML_NET_METADATA_H

#include "agileml/net/http.h"

enum metadata_result {
    METADATA_FOUND,
    METADATA_NOTHING,     /* 404: there is no such document now */
    METADATA_OFF,         /* 403, or disabled by the environment: it will not be there later either */
    METADATA_UNREACHABLE, /* no answer, a wrong one, or a server's error: ask again later */
};

struct metadata;
typedef void metadata_done(void *context, enum metadata_result result, const char *body, size_t size);

/* `http` must outlive it. `endpoint` NULL: as the environment says. 0 or AML_EINPUT (a URL that is none). */
int metadata_open(struct metadata **metadata, struct http *http, const char *endpoint, struct error *error);
void metadata_close(struct metadata *metadata); /* drops what is under way; NULL is allowed */
/* Asks for `path`, such as "latest/meta-data/spot/instance-action"; gets a token first where that is needed, and once more
 * on a 401. `body` (METADATA_FOUND) lives until `done` returns, with a 0 byte behind it. */
void metadata_get(struct metadata *metadata, const char *path, metadata_done *done, void *context);

/* What spot/instance-action says. */
struct metadata_action {
    char action[16]; /* "terminate", "stop", "hibernate" */
    int64_t time;    /* when, seconds since 1970 */
};
/* Parses it: {"action":"terminate","time":"2017-09-18T08:22:00Z"}. 0 or AML_EINPUT. */
int metadata_parse_action(const char *body, size_t size, struct metadata_action *action, struct error *error);

#endif
