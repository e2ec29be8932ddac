/* A profile of AWS's shared files: ~/.aws/credentials, in sections [NAME], and ~/.aws/config, in sections [profile
 * NAME] (or [default]); the first one counts where both have a value. Other files by AWS_SHARED_CREDENTIALS_FILE and
 * AWS_CONFIG_FILE. Files that others may read are accepted, as AWS's own tools do. Blocking. */
#ifndef AGILEML_CLOUD_PROFILE_H
#define AGILEML_CLOUD_PROFILE_H

#include "agileml/cloud/credentials.h"

#include <stdbool.h>

enum {
    PROFILE_NAME_MAX = 128,
    PROFILE_REGION_MAX = 64,
    PROFILE_ENDPOINT_MAX = 512,
    PROFILE_FILE_MAX = 1 << 20, /* bytes of a file */
    PROFILE_SOURCE_MAX = 640
};

/* Zeroed at first. Holds secrets: make it with secret_new. */
struct aws_profile {
    char name[PROFILE_NAME_MAX];
    bool found;                          /* one of the files has it */
    struct credentials_value value;      /* key_id "": the profile has no keys */
    char source[PROFILE_SOURCE_MAX];     /* of the keys, for people; value.source points to it */
    char region[PROFILE_REGION_MAX];     /* "": none */
    char endpoint[PROFILE_ENDPOINT_MAX]; /* the service's, or every service's; "": none */
    char style[16];                      /* addressing_style of s3; "": none */
    char other[32]; /* a setting that brings keys by ways not known here, such as "role_arn"; "": none */
};

/* Reads the profile of AWS_PROFILE, AWS_DEFAULT_PROFILE, or "default", and the endpoint of `service`
 * ("ec2", "s3"). A file that isn't there is an empty one. 0,
 * or AML_EINPUT: a file that can't be read or is broken, half a pair of keys, or a profile that is named but in no
 * file. */
int aws_profile_read(struct aws_profile *profile, const char *service, struct error *error);

/* For tests and fuzzing: takes what is in `text` as one of the files' content. `text` is changed. */
int aws_profile_take(struct aws_profile *profile, const char *service, const char *file, bool config, char *text,
                     struct error *error);

/* Whether the text may be put into a header: 1 to `max` - 1 visible ASCII characters. */
bool credentials_text_is_good(const char *text, size_t max);

#endif
