/* AWS credentials of the configured identity (identity.h): keys, the container endpoint, the instance's role from
 * the metadata service, or a role assumed by STS. They are refreshed before they expire. Secrets are never logged,
 * stay out of error texts and core dumps, and are wiped when they are replaced. Asynchronous, one thread. */
#ifndef AGILEML_CLOUD_CREDENTIALS_H
#define AGILEML_CLOUD_CREDENTIALS_H

#include "agileml/cloud/service_endpoint.h"
#include "agileml/net/http.h"

#include <stdbool.h>

enum {
    CREDENTIALS_KEY_MAX = 128,
    CREDENTIALS_SECRET_MAX = 256,
    CREDENTIALS_TOKEN_MAX = 8192,
    CREDENTIALS_REFRESH_S = 300, /* credentials are refreshed this long before they expire */
};

struct credentials_value {
    char key_id[CREDENTIALS_KEY_MAX];
    char secret[CREDENTIALS_SECRET_MAX];
    char token[CREDENTIALS_TOKEN_MAX]; /* empty: none */
    int64_t expires;                   /* seconds since 1970; 0: never */
    const char *source; /* source for messages: "environment", "profile default of ~/.aws/credentials", ... */
};

struct credentials;

/* `service`, "ec2" or "s3", is the service whose endpoint is wanted. Reads the environment now. Reads files and
 * requests values from services when a value is wanted. Returns 0, or AML_EINPUT (a broken file, or a setting that
 * identity_read rejects). */
int credentials_open(struct credentials **credentials, struct http *http, const char *service, struct error *error);
void credentials_close(struct credentials *credentials);
/* Calls `done` with a value that has not expired: at once if there is one, else from http_step. On failure calls
 * `done` with NULL and the reason. The value belongs to the chain and may change after `done` returns. A value that
 * expires soon is still used while a new one is fetched, and for as long as none arrives. `done` may call
 * credentials_get again, but must not close the chain. */
typedef void credentials_done(void *context, const struct credentials_value *value, const char *why);
void credentials_get(struct credentials *credentials, credentials_done *done, void *context);
/* Reports that AWS rejected the credentials as expired: the next credentials_get fetches new ones. */
void credentials_expired(struct credentials *credentials);
/* Returns the region of AWS_REGION, AWS_DEFAULT_REGION, or the profile; NULL: none is set. */
const char *credentials_region(const struct credentials *credentials);
/* Returns the service's endpoint of AWS_ENDPOINT_URL_EC2 (or _S3), AWS_ENDPOINT_URL, or the profile; NULL: none is
 * set. */
const char *credentials_endpoint(const struct credentials *credentials);
/* Returns which variant of AWS's own addresses to use, by AWS_USE_FIPS_ENDPOINT, AWS_USE_DUALSTACK_ENDPOINT and the
 * profile. */
struct service_variant credentials_variant(const struct credentials *credentials);
/* Whether the profile's settings for s3 have addressing_style = path (or virtual). */
bool credentials_path_style(const struct credentials *credentials);
bool credentials_virtual_style(const struct credentials *credentials);

#endif
