/* AWS's Security Token Service: assumes a role, and gets credentials of the role for a while. Asynchronous, on an http.
 * Keeps no secret longer than a request takes. One thread. */
#ifndef AGILEML_CLOUD_STS_H
#define AGILEML_CLOUD_STS_H

#include "agileml/cloud/profile.h"
#include "agileml/cloud/service_endpoint.h"

enum {
    STS_TOKEN_MAX = 20001,    /* bytes of an identity provider's token with its 0: STS's limit */
    STS_ANSWER_MAX = 1 << 16, /* of an answer */
    STS_ATTEMPTS_MAX = 3,     /* of one request */
    STS_TIMEOUT_MS = 10 * 1000,
};

/* Where STS is asked. */
struct sts_place {
    char url[PROFILE_ENDPOINT_MAX + 16], host[PROFILE_ENDPOINT_MAX];
    char region[PROFILE_REGION_MAX]; /* that requests are signed for */
};

/* Chooses the place: `endpoint` if there is one, else AWS's of the region. Without a region (NULL), and with `legacy`
 * for the regions that are older than 2019, it is the global one. Returns 0 or AML_EINPUT. */
int sts_place_choose(struct sts_place *place, const char *endpoint, const char *region, bool legacy,
                     struct service_variant variant, struct error *error);

struct sts_call;

/* Called with the role's credentials, whose source is not set, or with NULL and the reason. `date` is the service's
 * clock; 0: not known. */
typedef void sts_done(void *context, const struct credentials_value *value, int64_t date, const char *why);

/* Assumes the role by the credentials `source` (AssumeRole), or when NULL by `token` (AssumeRoleWithWebIdentity).
 * Copies what it needs. */
struct sts_call *sts_assume(struct http *http, const struct sts_place *place, const struct aws_role *role,
                            const struct credentials_value *source, const char *token, sts_done *done, void *context);
/* Cancels a call whose `done` was not called yet. NULL is allowed. */
void sts_cancel(struct sts_call *call);

/* Parses the answer to AssumeRole or AssumeRoleWithWebIdentity. Sets all of *value but its source. 0, or AML_EINPUT:
 * what the service says was wrong, or that it is no such answer; no more of the body is in *error. */
int sts_answer_parse(const char *body, size_t size, struct credentials_value *value, struct error *error);

#endif
