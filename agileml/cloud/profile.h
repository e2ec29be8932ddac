/* A profile of AWS's shared files: ~/.aws/credentials with sections [NAME], and ~/.aws/config with sections [profile
 * NAME] (or [default]). The credentials file takes precedence. AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name
 * other files. Accepts files that other users can read, as AWS's own tools do. Blocking. */
#ifndef AGILEML_CLOUD_PROFILE_H
#define AGILEML_CLOUD_PROFILE_H

#include "agileml/cloud/credentials.h"

#include <stdbool.h>

enum {
    PROFILE_NAME_MAX = 128,
    PROFILE_REGION_MAX = 64,
    PROFILE_ENDPOINT_MAX = 512,
    PROFILE_PATH_MAX = 1024,
    PROFILE_FILE_MAX = 1 << 20, /* bytes of a file */
    PROFILE_SOURCE_MAX = 640,
    PROFILE_ARN_MAX = 2049,      /* bytes of a role's ARN with its 0 */
    PROFILE_SESSION_MAX = 65,    /* bytes of the name of a role's session */
    PROFILE_EXTERNAL_MAX = 1225, /* bytes of an external id */
};

/* A role that STS assumes with other credentials, or with an identity provider's token. */
struct aws_role {
    char arn[PROFILE_ARN_MAX];              /* "": none */
    char session[PROFILE_SESSION_MAX];      /* "": a name is generated */
    char external_id[PROFILE_EXTERNAL_MAX]; /* "": none */
    char duration_s[8];                     /* digits; "": STS's default */
};

/* Zeroed at first. Holds secrets: make it with secret_new. Texts are "" where the profile does not set them. */
struct aws_profile {
    char name[PROFILE_NAME_MAX];
    bool found;                      /* one of the files has the profile */
    struct credentials_value value;  /* key_id "": the profile has no keys */
    char source[PROFILE_SOURCE_MAX]; /* source of the keys, for messages; value.source points to it */
    struct aws_role role;
    char source_profile[PROFILE_NAME_MAX], credential_source[32]; /* the role's source */
    char mfa_serial[PROFILE_NAME_MAX];
    char web_token_file[PROFILE_PATH_MAX];
    char other[32]; /* a setting for an unsupported source of keys, such as "sso_session" */
    char region[PROFILE_REGION_MAX];
    char endpoint[PROFILE_ENDPOINT_MAX];     /* endpoint of the service, or of all services */
    char sts_endpoint[PROFILE_ENDPOINT_MAX]; /* endpoint of STS, or of all services */
    char sts_regional[16];                   /* sts_regional_endpoints */
    char fips[8], dualstack[8];              /* use_fips_endpoint, use_dualstack_endpoint */
    char ca_bundle[PROFILE_PATH_MAX];
    char metadata_endpoint[PROFILE_ENDPOINT_MAX], metadata_mode[8];
    char style[16];                 /* addressing_style of s3 */
    char missing[PROFILE_PATH_MAX]; /* a variable that names a file, and the file, which doesn't exist */
};

/* Reads the profile `named`; if NULL, that of AWS_PROFILE, AWS_DEFAULT_PROFILE, or "default". Also reads the
 * endpoint of `service` ("ec2", "s3"). A file that doesn't exist counts as empty. Returns 0, or AML_EINPUT: a file
 * can't be read or is broken; a key lacks its pair; a named profile or section of services doesn't exist; or a
 * setting would send requests to another service than it says. */
int aws_profile_read(struct aws_profile *profile, const char *named, const char *service, struct error *error);

/* Parses `text` as the content of one of the files; for tests and fuzzing. Changes `text`. */
int aws_profile_take(struct aws_profile *profile, const char *service, const char *file, bool config, char *text,
                     struct error *error);

/* Whether the text may be put into a header: 1 to `max` - 1 visible ASCII characters. */
bool credentials_text_is_good(const char *text, size_t max);

#endif
