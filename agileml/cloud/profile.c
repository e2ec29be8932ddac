/* See profile.h. */
#include "agileml/cloud/profile.h"

#include "agileml/cloud/ini.h"
#include "agileml/cloud/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The state while files are read. */
struct profile_reader {
    struct aws_profile *profile;
    const char *service;
    const char *file;
    bool config;
    char services[PROFILE_NAME_MAX]; /* the section [services NAME] that the profile names; "": none */
    bool services_found;
    char endpoint[PROFILE_ENDPOINT_MAX], sts_endpoint[PROFILE_ENDPOINT_MAX]; /* endpoints of that section */
    bool strong;  /* [profile default] was found; it takes precedence over [default] */
    bool ignored; /* endpoints in files are ignored */
};

bool credentials_text_is_good(const char *text, size_t max) {
    size_t size = 0;
    while (text[size] > ' ' && text[size] < 0x7F) {
        size++;
    }
    return text[size] == '\0' && size > 0 && size < max;
}

/* ---- Interpreting items ---- */

/* Maps an item's name to the buffer for its value. */
struct profile_setting {
    const char *name;
    char *text;
    size_t max;
    bool blanks; /* the value may contain blanks */
};

/* Whether the text is 1 to `max` - 1 visible characters of any alphabet, perhaps with spaces. */
static bool profile_text_is_good(const char *text, size_t max) {
    size_t size = 0;
    while ((unsigned char)text[size] >= ' ' && text[size] != 0x7F) {
        size++;
    }
    return text[size] == '\0' && size > 0 && size < max;
}

/* Sets the text to the item's value; "" clears the text. */
static int profile_set(const struct profile_reader *reader, const struct ini_item *item,
                       const struct profile_setting *setting, struct error *error) {
    bool good = setting->blanks ? profile_text_is_good(item->value, setting->max)
                                : credentials_text_is_good(item->value, setting->max);
    if (item->value[0] != '\0' && !good) {
        return error_set(error, AML_EINPUT, "%s:%u: %.40s: expected 1 to %zu characters%s", reader->file, item->line,
                         item->name, setting->max - 1, setting->blanks ? "" : " without blanks");
    }
    memset(setting->text, 0, setting->max);
    strcpy(setting->text, item->value);
    return 0;
}

/* Whether it is a setting from which other tools get keys, but this program does not. */
static bool profile_is_other(const char *name) {
    static const char *const others[] = {"credential_process", "sso_session", "sso_start_url", "sso_account_id",
                                         "login_session"};
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(name, others[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int profile_take_item(struct profile_reader *reader, const struct ini_item *item, struct error *error) {
    struct aws_profile *profile = reader->profile;
    const struct profile_setting settings[] = {
        {"aws_access_key_id", profile->value.key_id, sizeof profile->value.key_id, false},
        {"aws_secret_access_key", profile->value.secret, sizeof profile->value.secret, false},
        {"aws_session_token", profile->value.token, sizeof profile->value.token, false},
        {"role_arn", profile->role.arn, sizeof profile->role.arn, false},
        {"role_session_name", profile->role.session, sizeof profile->role.session, false},
        {"external_id", profile->role.external_id, sizeof profile->role.external_id, false},
        {"duration_seconds", profile->role.duration_s, sizeof profile->role.duration_s, false},
        {"source_profile", profile->source_profile, sizeof profile->source_profile, true},
        {"credential_source", profile->credential_source, sizeof profile->credential_source, false},
        {"mfa_serial", profile->mfa_serial, sizeof profile->mfa_serial, false},
        {"web_identity_token_file", profile->web_token_file, sizeof profile->web_token_file, true},
        {"region", profile->region, sizeof profile->region, false},
        {"endpoint_url", profile->endpoint, sizeof profile->endpoint, false},
        {"services", reader->services, sizeof reader->services, true},
        {"sts_regional_endpoints", profile->sts_regional, sizeof profile->sts_regional, false},
        {"use_fips_endpoint", profile->fips, sizeof profile->fips, false},
        {"use_dualstack_endpoint", profile->dualstack, sizeof profile->dualstack, false},
        {"ca_bundle", profile->ca_bundle, sizeof profile->ca_bundle, true},
        {"ec2_metadata_service_endpoint", profile->metadata_endpoint, sizeof profile->metadata_endpoint, false},
        {"ec2_metadata_service_endpoint_mode", profile->metadata_mode, sizeof profile->metadata_mode, false},
    };
    for (unsigned i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (strcmp(item->name, settings[i].name) == 0) {
            return profile_set(reader, item, &settings[i], error);
        }
    }
    if (strcmp(item->name, "ignore_configured_endpoint_urls") == 0 ||
        strcmp(item->name, "ignore_configure_endpoint_urls") == 0) {
        reader->ignored = strcasecmp(item->value, "true") == 0;
    }
    if (profile_is_other(item->name) && profile->other[0] == '\0' && item->value[0] != '\0') {
        strcpy(profile->other, item->name);
    }
    return 0;
}

/* Takes a part of the profile's "s3 =": the addressing style, and which of S3's addresses to use. */
static int profile_take_s3(struct profile_reader *reader, const struct ini_item *item, struct error *error) {
    struct aws_profile *profile = reader->profile;
    const struct profile_setting style = {item->part, profile->style, sizeof profile->style, false};
    const struct profile_setting dualstack = {item->part, profile->dualstack, sizeof profile->dualstack, false};
    if (strcmp(item->part, "addressing_style") == 0) {
        return profile_set(reader, item, &style, error);
    }
    if (strcmp(item->part, "use_dualstack_endpoint") == 0 && strcmp(reader->service, "s3") == 0) {
        return profile_set(reader, item, &dualstack, error);
    }
    bool other = strcmp(item->part, "use_accelerate_endpoint") == 0 && strcasecmp(item->value, "true") == 0;
    return other && strcmp(reader->service, "s3") == 0
               ? error_set(error, AML_EINPUT, "%s:%u: use_accelerate_endpoint is not supported: expected false",
                           reader->file, item->line)
               : 0;
}

/* Whether the section is the profile's. In config, "profile default" takes precedence over "default". */
static bool profile_has_section(struct profile_reader *reader, const char *section) {
    const char *name = reader->profile->name;
    if (!reader->config) {
        return strcmp(section, name) == 0;
    }
    if (strncmp(section, "profile ", strlen("profile ")) == 0) {
        bool same = strcmp(section + strlen("profile "), name) == 0;
        reader->strong |= same;
        return same;
    }
    return !reader->strong && strcmp(name, "default") == 0 && strcmp(section, "default") == 0;
}

static int profile_found(void *context, const struct ini_item *item, struct error *error) {
    struct profile_reader *reader = context;
    if (!profile_has_section(reader, item->section)) {
        return 0;
    }
    reader->profile->found = true;
    if (item->name != NULL && item->part != NULL && strcmp(item->name, "s3") == 0) {
        return profile_take_s3(reader, item, error);
    }
    return item->name == NULL || item->part != NULL ? 0 : profile_take_item(reader, item, error);
}

/* Takes the endpoints of the service and of STS from the section [services NAME]. */
static int profile_found_service(void *context, const struct ini_item *item, struct error *error) {
    struct profile_reader *reader = context;
    if (strncmp(item->section, "services ", strlen("services ")) != 0 ||
        strcmp(item->section + strlen("services "), reader->services) != 0) {
        return 0;
    }
    reader->services_found = true;
    if (item->name == NULL || item->part == NULL || strcmp(item->part, "endpoint_url") != 0) {
        return 0;
    }
    const struct profile_setting own = {item->part, reader->endpoint, sizeof reader->endpoint, false};
    const struct profile_setting sts = {item->part, reader->sts_endpoint, sizeof reader->sts_endpoint, false};
    return strcmp(item->name, reader->service) == 0 ? profile_set(reader, item, &own, error)
           : strcmp(item->name, "sts") == 0         ? profile_set(reader, item, &sts, error)
                                                    : 0;
}

/* Requires both keys of a pair in one file: keys from two files would not match. */
static int profile_check_keys(const struct profile_reader *reader, struct error *error) {
    struct aws_profile *profile = reader->profile;
    bool key = profile->value.key_id[0] != '\0';
    if (key != (profile->value.secret[0] != '\0')) {
        return error_set(error, AML_EINPUT, "%s: profile %s has %s without %s", reader->file, profile->name,
                         key ? "aws_access_key_id" : "aws_secret_access_key",
                         key ? "aws_secret_access_key" : "aws_access_key_id");
    }
    if (!key && profile->value.token[0] != '\0') {
        return error_set(error, AML_EINPUT, "%s: profile %s has aws_session_token without aws_access_key_id",
                         reader->file, profile->name);
    }
    if (key) {
        snprintf(profile->source, sizeof profile->source, "profile %s of %.480s", profile->name, reader->file);
        profile->value.source = profile->source;
    }
    return 0;
}

/* Sets the endpoints. The service's own takes precedence over that of all services. */
static void profile_set_endpoints(const struct profile_reader *reader) {
    struct aws_profile *profile = reader->profile;
    strcpy(profile->sts_endpoint, reader->sts_endpoint[0] != '\0' ? reader->sts_endpoint : profile->endpoint);
    if (reader->endpoint[0] != '\0') {
        strcpy(profile->endpoint, reader->endpoint);
    }
    if (reader->ignored) {
        profile->endpoint[0] = profile->sts_endpoint[0] = '\0';
    }
}

int aws_profile_take(struct aws_profile *profile, const char *service, const char *file, bool config, char *text,
                     struct error *error) {
    struct profile_reader reader = {.profile = profile, .service = service, .file = file, .config = config};
    size_t size = strlen(text) + 1;
    char *again = secret_new(size); /* for a second pass: the services' section may stand before its profile */
    memcpy(again, text, size);
    int code = ini_parse(file, text, profile_found, &reader, error);
    code = code != 0 ? code : profile_check_keys(&reader, error);
    if (code == 0 && reader.services[0] != '\0') {
        code = ini_parse(file, again, profile_found_service, &reader, error);
        if (code == 0 && !reader.services_found) {
            code = error_set(error, AML_EINPUT, "%s: profile %s names services %s: expected a section [services %s]",
                             file, profile->name, reader.services, reader.services);
        }
    }
    secret_free(again, size);
    profile_set_endpoints(&reader);
    return code;
}

/* ---- Files ---- */

static const char *profile_environment(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* Returns the variable's path, or the usual one with ~ replaced by the home folder. */
static int profile_path(const char *variable, const char *usual, char path[PATH_MAX], struct error *error) {
    const char *text = profile_environment(variable);
    const char *home = profile_environment("HOME");
    const struct passwd *user = home == NULL ? getpwuid(getuid()) : NULL;
    text = text != NULL ? text : usual;
    home = home != NULL ? home : user != NULL ? user->pw_dir : "";
    bool folder = strncmp(text, "~/", 2) == 0;
    if (snprintf(path, PATH_MAX, "%s%s", folder ? home : "", folder ? text + 1 : text) >= PATH_MAX) {
        return error_set(error, AML_EINPUT, "%s: the path is too long", variable);
    }
    return 0;
}

/* Loads the file's text with a final 0 byte, into memory of PROFILE_FILE_MAX + 1 bytes. An absent file counts as
 * empty, and sets *absent. */
static int profile_load(const char *path, char *text, bool *absent, struct error *error) {
    size_t size = 0;
    ssize_t got = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    *absent = file < 0 && (errno == ENOENT || errno == ENOTDIR);
    if (*absent) {
        return 0;
    }
    if (file >= 0) {
        while (size < PROFILE_FILE_MAX && (got = read(file, text + size, PROFILE_FILE_MAX - size)) > 0) {
            size += (size_t)got;
        }
    }
    int wrong = file < 0 || got < 0 ? errno : 0;
    if (file >= 0) {
        close(file);
    }
    if (wrong != 0) {
        return error_set(error, AML_EINPUT, "%s: %s", path, strerror(wrong));
    }
    if (size == PROFILE_FILE_MAX || strlen(text) != size) {
        return error_set(error, AML_EINPUT, "%s: expected text of less than %d bytes", path, PROFILE_FILE_MAX);
    }
    return 0;
}

static int profile_read_file(struct aws_profile *profile, const char *service, const char *variable, const char *usual,
                             bool config, struct error *error) {
    char path[PATH_MAX];
    int code = profile_path(variable, usual, path, error);
    if (code == 0) {
        bool absent = false;
        char *text = secret_new(PROFILE_FILE_MAX + 1);
        code = profile_load(path, text, &absent, error);
        if (absent && profile_environment(variable) != NULL) {
            snprintf(profile->missing, sizeof profile->missing, "%s: %.900s", variable, path);
        }
        code = code != 0 ? code : aws_profile_take(profile, service, path, config, text, error);
        secret_free(text, PROFILE_FILE_MAX + 1);
    }
    return code;
}

/* Adds the config file's values where the credentials file has none. Both keys come from the same file. */
static void profile_merge(struct aws_profile *profile, const struct aws_profile *config) {
    const struct {
        char *text;
        const char *from;
    } texts[] = {
        {profile->role.arn, config->role.arn},
        {profile->role.session, config->role.session},
        {profile->role.external_id, config->role.external_id},
        {profile->role.duration_s, config->role.duration_s},
        {profile->source_profile, config->source_profile},
        {profile->credential_source, config->credential_source},
        {profile->mfa_serial, config->mfa_serial},
        {profile->web_token_file, config->web_token_file},
        {profile->other, config->other},
        {profile->region, config->region},
        {profile->endpoint, config->endpoint},
        {profile->sts_endpoint, config->sts_endpoint},
        {profile->sts_regional, config->sts_regional},
        {profile->fips, config->fips},
        {profile->dualstack, config->dualstack},
        {profile->ca_bundle, config->ca_bundle},
        {profile->metadata_endpoint, config->metadata_endpoint},
        {profile->metadata_mode, config->metadata_mode},
        {profile->style, config->style},
        {profile->missing, config->missing},
    };
    if (profile->value.key_id[0] == '\0') {
        profile->value = config->value;
        strcpy(profile->source, config->source);
        profile->value.source = profile->source;
    }
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].text[0] == '\0') {
            strcpy(texts[i].text, texts[i].from);
        }
    }
    profile->found |= config->found;
}

/* Sets *name to the profile that the environment names; NULL: none. Rejects two different names, as AWS's tools
 * disagree which variable takes precedence. */
static int profile_name(const char **name, struct error *error) {
    const char *own = profile_environment("AWS_PROFILE");
    const char *usual = profile_environment("AWS_DEFAULT_PROFILE");
    *name = own != NULL ? own : usual;
    if (own != NULL && usual != NULL && strcmp(own, usual) != 0) {
        return error_set(
            error, AML_EINPUT,
            "AWS_PROFILE (%.100s) and AWS_DEFAULT_PROFILE (%.100s) name two profiles: expected one of them", own,
            usual);
    }
    return 0;
}

/* Reads the profile of profile->name from both files. */
static int profile_read_files(struct aws_profile *profile, const char *service, struct error *error) {
    struct aws_profile *config = secret_new(sizeof *config);
    strcpy(config->name, profile->name);
    int code = profile_read_file(profile, service, "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", false, error);
    code = code != 0 ? code : profile_read_file(config, service, "AWS_CONFIG_FILE", "~/.aws/config", true, error);
    if (code == 0) {
        profile_merge(profile, config);
    }
    secret_free(config, sizeof *config);
    return code;
}

int aws_profile_read(struct aws_profile *profile, const char *named, const char *service, struct error *error) {
    const char *variable = named != NULL ? "source_profile" : "AWS_PROFILE";
    OPENSSL_cleanse(profile, sizeof *profile);
    int code = named != NULL ? 0 : profile_name(&named, error);
    const char *name = named != NULL ? named : "default";
    if (code == 0 && strlen(name) >= sizeof profile->name) {
        code = error_set(error, AML_EINPUT, "%s: expected a name of 1 to %d bytes", variable, PROFILE_NAME_MAX - 1);
    }
    if (code != 0) {
        return code;
    }
    strcpy(profile->name, name);
    code = profile_read_files(profile, service, error);
    if (code == 0 && named != NULL && !profile->found) {
        code = error_set(error, AML_EINPUT,
                         "%s: there is no profile '%s' in ~/.aws/credentials or ~/.aws/config (or the files of "
                         "AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE)",
                         variable, name);
    }
    return code;
}
