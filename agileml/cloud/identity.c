/* See identity.h. */
#include "agileml/cloud/identity.h"

#include "agileml/base/instant.h"
#include "agileml/cloud/secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *identity_environment(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* ---- The environment ---- */

static int read_environment(struct credentials_value *value, struct error *error) {
    const char *key = identity_environment("AWS_ACCESS_KEY_ID");
    const char *secret = identity_environment("AWS_SECRET_ACCESS_KEY");
    const char *token = identity_environment("AWS_SESSION_TOKEN");
    const char *expires = identity_environment("AWS_CREDENTIAL_EXPIRATION");
    token = token != NULL ? token : identity_environment("AWS_SECURITY_TOKEN");
    if (key == NULL && secret == NULL && token == NULL) {
        return 0;
    }
    const char *wrong = key == NULL || !credentials_text_is_good(key, sizeof value->key_id) ? "AWS_ACCESS_KEY_ID"
                        : secret == NULL || !credentials_text_is_good(secret, sizeof value->secret)
                            ? "AWS_SECRET_ACCESS_KEY"
                        : token != NULL && !credentials_text_is_good(token, sizeof value->token) ? "AWS_SESSION_TOKEN"
                        : expires != NULL && !instant_parse(expires, &value->expires) ? "AWS_CREDENTIAL_EXPIRATION"
                                                                                      : NULL;
    if (wrong != NULL) {
        return error_set(error, AML_EINPUT,
                         "%s is missing, or not what it can be: AWS_ACCESS_KEY_ID and "
                         "AWS_SECRET_ACCESS_KEY belong together (and AWS_SESSION_TOKEN to them)",
                         wrong);
    }
    strcpy(value->key_id, key);
    strcpy(value->secret, secret);
    strcpy(value->token, token != NULL ? token : "");
    value->source = "environment";
    return 0;
}

/* ---- Profiles ---- */

static bool has_keys(const struct aws_profile *profile) {
    return profile->value.key_id[0] != '\0';
}

/* Whether the profile assumes a role with credentials from another source. */
static bool assumes_role(const struct aws_profile *profile) {
    return profile->role.arn[0] != '\0' && profile->web_token_file[0] == '\0';
}

static int take_profile_keys(struct identity *identity, const struct aws_profile *profile) {
    identity->base = IDENTITY_KEYS;
    identity->value = profile->value;
    strcpy(identity->source, profile->source);
    identity->value.source = identity->source;
    return 0;
}

/* Rejects unsupported sources of keys, and a profile that names two identities, as AWS's tools disagree on their
 * order. Keys beside role_arn are no second identity, as they may be the role's source. */
static int check_profile(const struct aws_profile *profile, struct error *error) {
    const char *ways[4];
    unsigned count = 0;
    bool role = profile->role.arn[0] != '\0';
    if (assumes_role(profile)) {
        ways[count++] = "role_arn";
    }
    if (profile->web_token_file[0] != '\0') {
        ways[count++] = "web_identity_token_file";
    }
    if (profile->other[0] != '\0') {
        ways[count++] = profile->other;
    }
    if (has_keys(profile) && !assumes_role(profile)) {
        ways[count++] = "aws_access_key_id";
    }
    if (count > 1) {
        return error_set(error, AML_EINPUT, "profile %.120s has two identities, by %s and %s: expected one of them",
                         profile->name, ways[0], ways[1]);
    }
    if (profile->other[0] != '\0') {
        return error_set(error, AML_EINPUT,
                         "profile %.120s takes its credentials by %s, which is not supported: put what `aws configure "
                         "export-credentials --profile %.120s --format env` prints into the environment",
                         profile->name, profile->other, profile->name);
    }
    if (!role && (profile->source_profile[0] != '\0' || profile->credential_source[0] != '\0')) {
        return error_set(error, AML_EINPUT, "profile %.120s has %s without role_arn", profile->name,
                         profile->source_profile[0] != '\0' ? "source_profile" : "credential_source");
    }
    return 0;
}

static bool session_is_good(const char *session) {
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+=,.@-";
    return session[0] == '\0' || (strlen(session) >= 2 && session[strspn(session, good)] == '\0');
}

static bool duration_is_good(const char *duration) {
    long seconds = strtol(duration, NULL, 10);
    return duration[0] == '\0' ||
           (duration[strspn(duration, "0123456789")] == '\0' && seconds >= 900 && seconds <= 43200);
}

static int check_role(const struct aws_profile *profile, const struct aws_role *role, struct error *error) {
    const char *wrong = strncmp(role->arn, "arn:", 4) != 0 ? "role_arn: expected arn:aws:iam::ACCOUNT:role/NAME"
                        : !session_is_good(role->session)
                            ? "role_session_name: expected 2 to 64 letters, digits or _+=,.@-"
                        : !duration_is_good(role->duration_s) ? "duration_seconds: expected 900 to 43200"
                                                              : NULL;
    if (wrong != NULL) {
        return error_set(error, AML_EINPUT, "profile %.120s (or AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME): %s",
                         profile->name, wrong);
    }
    return 0;
}

static int add_role(struct identity *identity, const struct aws_profile *profile, const struct aws_role *role,
                    struct error *error) {
    if (identity->role_count == IDENTITY_ROLES_MAX) {
        return error_set(error, AML_EINPUT,
                         "profile %.120s: source_profile leads over more than %d roles, or in a circle", profile->name,
                         IDENTITY_ROLES_MAX);
    }
    int code = check_role(profile, role, error);
    if (code == 0) {
        identity->roles[identity->role_count++] = *role;
    }
    return code;
}

static int take_credential_source(struct identity *identity, const struct aws_profile *profile, struct error *error) {
    const char *source = profile->credential_source;
    bool container = identity_environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != NULL ||
                     identity_environment("AWS_CONTAINER_CREDENTIALS_FULL_URI") != NULL;
    if (strcmp(source, "Ec2InstanceMetadata") == 0) {
        identity->base = IDENTITY_INSTANCE;
        return 0;
    }
    if (strcmp(source, "EcsContainer") == 0 && container) {
        identity->base = IDENTITY_CONTAINER;
        return 0;
    }
    const char *wrong = strcmp(source, "EcsContainer") == 0 ? "AWS_CONTAINER_CREDENTIALS_FULL_URI is not set"
                        : strcmp(source, "Environment") == 0
                            ? "AWS_ACCESS_KEY_ID is not set"
                            : "expected Ec2InstanceMetadata, EcsContainer or Environment";
    return error_set(error, AML_EINPUT, "profile %.120s: credential_source = %s: %s", profile->name, source, wrong);
}

static int take_token(struct identity *identity, const struct aws_profile *profile, const char *file,
                      const struct aws_role *role, struct error *error) {
    if (strlen(file) >= sizeof identity->token_file) {
        return error_set(error, AML_EINPUT, "AWS_WEB_IDENTITY_TOKEN_FILE: the path is too long");
    }
    identity->base = IDENTITY_TOKEN;
    strcpy(identity->token_file, file);
    return add_role(identity, profile, role, error);
}

/* Follows source_profile down to the first credentials, and adds the roles on the way back. `depth` counts profiles. */
static int take_role(struct identity *identity, const struct aws_profile *profile, const char *service, unsigned depth,
                     struct error *error);

static int take_source(struct identity *identity, const struct aws_profile *source, const char *service, unsigned depth,
                       struct error *error) {
    int code = check_profile(source, error);
    if (code == 0 && has_keys(source)) {
        return take_profile_keys(identity, source);
    }
    if (code == 0 && assumes_role(source)) {
        return take_role(identity, source, service, depth, error);
    }
    if (code == 0 && source->web_token_file[0] != '\0') {
        return take_token(identity, source, source->web_token_file, &source->role, error);
    }
    return code != 0 ? code
                     : error_set(error, AML_EINPUT, "profile %.120s is a source_profile, but has no credentials",
                                 source->name);
}

static int take_role(struct identity *identity, const struct aws_profile *profile, const char *service, unsigned depth,
                     struct error *error) {
    bool both = profile->source_profile[0] != '\0' && profile->credential_source[0] != '\0';
    int code = 0;
    if (profile->mfa_serial[0] != '\0') {
        return error_set(error, AML_EINPUT,
                         "profile %.120s: mfa_serial asks for a code, which is not supported: put what `aws configure "
                         "export-credentials --profile %.120s --format env` prints into the environment",
                         profile->name, profile->name);
    }
    if (both || (profile->source_profile[0] == '\0' && profile->credential_source[0] == '\0')) {
        return error_set(error, AML_EINPUT,
                         "profile %.120s has role_arn: expected %s source_profile or credential_source", profile->name,
                         both ? "one of" : "with it");
    }
    if (depth > IDENTITY_ROLES_MAX) {
        return error_set(error, AML_EINPUT,
                         "profile %.120s: source_profile leads over more than %d roles, or in a circle", profile->name,
                         IDENTITY_ROLES_MAX);
    }
    if (strcmp(profile->source_profile, profile->name) == 0 && has_keys(profile)) {
        code = take_profile_keys(identity, profile);
    } else if (profile->credential_source[0] != '\0') {
        code = take_credential_source(identity, profile, error);
    } else {
        struct aws_profile *source = secret_new(sizeof *source);
        code = aws_profile_read(source, profile->source_profile, service, error);
        code = code != 0 ? code : take_source(identity, source, service, depth + 1, error);
        secret_free(source, sizeof *source);
    }
    return code != 0 ? code : add_role(identity, profile, &profile->role, error);
}

/* ---- The chain ---- */

/* Takes the role that a token is for. The environment comes before the profile. */
static int take_environment_token(struct identity *identity, const char *file, struct error *error) {
    const struct aws_profile *profile = &identity->profile;
    const char *arn = identity_environment("AWS_ROLE_ARN");
    const char *session = identity_environment("AWS_ROLE_SESSION_NAME");
    struct aws_role role = profile->role;
    if (arn == NULL && role.arn[0] == '\0') {
        return error_set(error, AML_EINPUT, "%s is set without %s",
                         file == profile->web_token_file ? "web_identity_token_file" : "AWS_WEB_IDENTITY_TOKEN_FILE",
                         file == profile->web_token_file ? "role_arn" : "AWS_ROLE_ARN");
    }
    if ((arn != NULL && !credentials_text_is_good(arn, sizeof role.arn)) ||
        (session != NULL && !credentials_text_is_good(session, sizeof role.session))) {
        return error_set(error, AML_EINPUT, "AWS_ROLE_ARN or AWS_ROLE_SESSION_NAME is not what it can be");
    }
    if (arn != NULL) {
        strcpy(role.arn, arn);
    }
    if (session != NULL) {
        strcpy(role.session, session);
    }
    return take_token(identity, profile, file, &role, error);
}

/* Takes the machine's own identity, when no keys are configured. */
static int take_machine(struct identity *identity, struct error *error) {
    bool container = identity_environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != NULL ||
                     identity_environment("AWS_CONTAINER_CREDENTIALS_FULL_URI") != NULL;
    if (identity_environment("AWS_CREDENTIAL_FILE") != NULL) {
        return error_set(error, AML_EINPUT,
                         "AWS_CREDENTIAL_FILE is not supported: expected AWS_SHARED_CREDENTIALS_FILE");
    }
    identity->base = container ? IDENTITY_CONTAINER : IDENTITY_INSTANCE;
    return 0;
}

int identity_read(struct identity *identity, const char *service, struct error *error) {
    const struct aws_profile *profile = &identity->profile;
    const char *file = identity_environment("AWS_WEB_IDENTITY_TOKEN_FILE");
    identity->role_count = 0;
    identity->value = (struct credentials_value){0};
    int code = read_environment(&identity->value, error);
    code = code != 0 ? code : aws_profile_read(&identity->profile, NULL, service, error);
    if (code != 0 || identity->value.key_id[0] != '\0') {
        identity->base = IDENTITY_KEYS;
        return code;
    }
    if (identity_environment("AWS_ROLE_ARN") != NULL && file == NULL && profile->web_token_file[0] == '\0') {
        return error_set(error, AML_EINPUT,
                         "AWS_ROLE_ARN is set without AWS_WEB_IDENTITY_TOKEN_FILE: expected both, or a profile with "
                         "role_arn and source_profile");
    }
    if (!assumes_role(profile) && file != NULL) {
        return take_environment_token(identity, file, error);
    }
    code = check_profile(profile, error);
    if (code != 0) {
        return code;
    }
    return assumes_role(profile)                ? take_role(identity, profile, service, 1, error)
           : profile->web_token_file[0] != '\0' ? take_environment_token(identity, profile->web_token_file, error)
           : has_keys(profile)                  ? take_profile_keys(identity, profile)
                                                : take_machine(identity, error);
}
