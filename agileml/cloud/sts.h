/* AWS's Security Token Service: assumes a role and so gets temporary credentials. Asynchronous, on a struct http.
 * Keeps secrets only while a request runs. One thread. */
#ifndef AGILEML_CLOUD_STS_H
#define AGILEML_CLOUD_STS_H

#include "agileml/cloud/profile.h"
#include "agileml/cloud/service_endpoint.h"

enum {
    STS_TOKEN_MAX = 20001,    /* bytes of an identity provider's token with its 0: STS's limit */
    STS_ANSWER_MAX = 1 << 16, /* bytes of a response */
    STS_ATTEMPTS_MAX = 3,     /* attempts of one request */
    STS_TIMEOUT_MS = 10 * 1000,
};

/* The address of STS. */
struct sts_place {
    char url[PROFILE_ENDPOINT_MAX + 16], host[PROFILE_ENDPOINT_MAX];
    char region[PROFILE_REGION_MAX]; /* region in the signature of requests */
};

/* Chooses the address: `endpoint` if it is not NULL, else AWS's host of the region. Chooses the global host without
 * a region (NULL), and with `legacy` in the regions that are older than 2019. Returns 0 or AML_EINPUT. */
int sts_place_choose(struct sts_place *place, const char *endpoint, const char *region, bool legacy,
                     struct service_variant variant, struct error *error);

struct sts_call;

/* Called with the role's credentials (source not set), or with NULL and the reason. `date` is the service's clock;
 * 0: not known. */
typedef void sts_done(void *context, const struct credentials_value *value, int64_t date, const char *why);

/* Assumes the role with the credentials `source` (AssumeRole), or if NULL with `token` (AssumeRoleWithWebIdentity).
 * Copies what it needs. */
struct sts_call *sts_assume(struct http *http, const struct sts_place *place, const struct aws_role *role,
                            const struct credentials_value *source, const char *token, sts_done *done, void *context);
/* Cancels a call whose `done` has not been called yet. NULL is allowed. */
void sts_cancel(struct sts_call *call);

/* Parses the response to AssumeRole or AssumeRoleWithWebIdentity. Sets all of *value except its source. Returns 0;
 * or AML_EINPUT with the service's error message, or when the body is no such response. Nothing else of the body is
 * in *error. */
int sts_answer_parse(const char *body, size_t size, struct credentials_value *value, struct error *error);

#endif
