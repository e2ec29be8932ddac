/* AWS credentials of the identity that is configured (identity.h): keys, the container endpoint, the instance's role by
 * the metadata service, or a role that is assumed by STS. Refreshed before they expire. A secret is never logged, never
 * part of an error text, left out of core dumps, and wiped when it is replaced. Asynchronous, one thread. */
#ifndef AGILEML_CLOUD_CREDENTIALS_H
#define AGILEML_CLOUD_CREDENTIALS_H

#include "agileml/cloud/service_endpoint.h"
#include "agileml/net/http.h"

#include <stdbool.h>

enum {
    CREDENTIALS_KEY_MAX = 128,
    CREDENTIALS_SECRET_MAX = 256,
    CREDENTIALS_TOKEN_MAX = 8192,
    CREDENTIALS_REFRESH_S = 300, /* so long before they expire */
};

struct credentials_value {
    char key_id[CREDENTIALS_KEY_MAX];
    char secret[CREDENTIALS_SECRET_MAX];
    char token[CREDENTIALS_TOKEN_MAX]; /* empty: none */
    int64_t expires;                   /* seconds since 1970; 0: never */
    const char *source;                /* for people: "environment", "profile default of ~/.aws/credentials", ... */
};

struct credentials;

/* `service` is the one whose endpoint is wanted, "ec2" or "s3". Reads the environment now; reads files and asks
 * services when a value is wanted. 0 or AML_EINPUT (a file that is broken, what identity_read refuses). */
int credentials_open(struct credentials **credentials, struct http *http, const char *service, struct error *error);
void credentials_close(struct credentials *credentials);
/* Calls `done` with a value that has not expired: at once if there is one, else from http_step; or with NULL and the
 * reason. The value belongs to the chain and may change after `done` returns. A value that expires soon is handed out
 * while a new one is fetched, and as long as none comes. `done` may ask again; it must not close. */
typedef void credentials_done(void *context, const struct credentials_value *value, const char *why);
void credentials_get(struct credentials *credentials, credentials_done *done, void *context);
/* AWS has refused them as expired: the next credentials_get reads them anew. */
void credentials_expired(struct credentials *credentials);
/* The region of AWS_REGION, AWS_DEFAULT_REGION, or the profile; NULL: none is set. */
const char *credentials_region(const struct credentials *credentials);
/* The service's endpoint of AWS_ENDPOINT_URL_EC2 (or _S3), AWS_ENDPOINT_URL, or the profile; NULL: none is set. */
const char *credentials_endpoint(const struct credentials *credentials);
/* Which of AWS's own addresses are asked, by AWS_USE_FIPS_ENDPOINT, AWS_USE_DUALSTACK_ENDPOINT and the profile. */
struct service_variant credentials_variant(const struct credentials *credentials);
/* Whether the profile has addressing_style = path (or virtual) among its settings of s3. */
bool credentials_path_style(const struct credentials *credentials);
bool credentials_virtual_style(const struct credentials *credentials);

#endif
