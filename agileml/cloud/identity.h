/* Which AWS identity is configured, by the environment and the profiles of AWS's shared files: where its first
 * credentials come from, and which roles are then assumed. A setting that names an identity is either used or
 * rejected with an error, never ignored. Sends no requests. Blocking, as it reads files.
 *
 * The first of these decides: keys of the environment; the profile's role_arn with source_profile or credential_source;
 * a token file (AWS_WEB_IDENTITY_TOKEN_FILE, web_identity_token_file); the profile's keys; a container's endpoint; the
 * instance's role. */
#ifndef AGILEML_CLOUD_IDENTITY_H
#define AGILEML_CLOUD_IDENTITY_H

#include "agileml/cloud/sts.h"

enum { IDENTITY_ROLES_MAX = 8 /* roles assumed one after the other */ };

enum identity_base {
    IDENTITY_KEYS,      /* `value` */
    IDENTITY_TOKEN,     /* the first role is assumed with the token in `token_file` */
    IDENTITY_CONTAINER, /* the container's endpoint */
    IDENTITY_INSTANCE,  /* the instance's role, from the metadata service */
};

/* Zeroed at first. Holds secrets: make it with secret_new. */
struct identity {
    struct aws_profile profile; /* the profile of AWS_PROFILE */
    enum identity_base base;
    struct credentials_value value; /* its source points into `source`, or to a constant */
    char source[PROFILE_SOURCE_MAX];
    char token_file[PROFILE_PATH_MAX];
    struct aws_role roles[IDENTITY_ROLES_MAX]; /* in the order in which they are assumed */
    unsigned role_count;
};

/* Determines the identity. `service` ("ec2", "s3") is the service whose endpoint the profile should contain. Returns
 * 0, or AML_EINPUT for a setting that is incomplete, unsupported, or contradicts another. */
int identity_read(struct identity *identity, const char *service, struct error *error);

/* Returns the environment variable's value; NULL when it is empty or not set. */
const char *identity_environment(const char *name);

#endif
