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

/* What is being read. */
struct profile_reader {
    struct aws_profile *profile;
    const char *service;
    const char *file;
    bool config;
    char services[PROFILE_NAME_MAX];     /* the section [services NAME] that the profile names; "": none */
    char endpoint[PROFILE_ENDPOINT_MAX]; /* of that section, for the service */
    bool strong;                         /* [profile default] has come, which goes before [default] */
    bool ignored;                        /* endpoints of files do not count */
};

bool credentials_text_is_good(const char *text, size_t max) {
    size_t size = 0;
    while (text[size] > ' ' && text[size] < 0x7F) {
        size++;
    }
    return text[size] == '\0' && size > 0 && size < max;
}

/* ---- What items mean ---- */

/* Sets text[max] to the item's value; "" takes it away. */
static int profile_set(const struct profile_reader *reader, const struct ini_item *item, char *text, size_t max,
                       struct error *error) {
    if (item->value[0] != '\0' && !credentials_text_is_good(item->value, max)) {
        return error_set(error, AML_EINPUT, "%s:%u: %.40s: expected 1 to %zu characters without blanks", reader->file,
                         item->line, item->name, max - 1);
    }
    memset(text, 0, max);
    strcpy(text, item->value);
    return 0;
}

static int profile_take_item(struct profile_reader *reader, const struct ini_item *item, struct error *error) {
    static const char *const others[] = {"role_arn", "credential_process", "sso_session", "sso_start_url",
                                         "web_identity_token_file"};
    struct aws_profile *profile = reader->profile;
    const struct {
        const char *name;
        char *text;
        size_t max;
    } settings[] = {
        {"aws_access_key_id", profile->value.key_id, sizeof profile->value.key_id},
        {"aws_secret_access_key", profile->value.secret, sizeof profile->value.secret},
        {"aws_session_token", profile->value.token, sizeof profile->value.token},
        {"region", profile->region, sizeof profile->region},
        {"endpoint_url", profile->endpoint, sizeof profile->endpoint},
        {"services", reader->services, sizeof reader->services},
    };
    for (unsigned i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (strcmp(item->name, settings[i].name) == 0) {
            return profile_set(reader, item, settings[i].text, settings[i].max, error);
        }
    }
    if (strcmp(item->name, "ignore_configure_endpoint_urls") == 0) {
        reader->ignored = strcasecmp(item->value, "true") == 0;
    }
    for (unsigned i = 0; i < sizeof others / sizeof others[0] && profile->other[0] == '\0'; i++) {
        if (strcmp(item->name, others[i]) == 0) {
            strcpy(profile->other, others[i]);
        }
    }
    return 0;
}

/* Whether the section is the profile's. In config "profile default" goes before "default". */
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
    if (item->name != NULL && item->part != NULL && strcmp(item->name, "s3") == 0 &&
        strcmp(item->part, "addressing_style") == 0) {
        return profile_set(reader, item, reader->profile->style, sizeof reader->profile->style, error);
    }
    return item->name == NULL || item->part != NULL ? 0 : profile_take_item(reader, item, error);
}

static int profile_found_service(void *context, const struct ini_item *item, struct error *error) {
    struct profile_reader *reader = context;
    bool wanted = strncmp(item->section, "services ", strlen("services ")) == 0 &&
                  strcmp(item->section + strlen("services "), reader->services) == 0 && item->name != NULL &&
                  strcmp(item->name, reader->service) == 0 && item->part != NULL &&
                  strcmp(item->part, "endpoint_url") == 0;
    return wanted ? profile_set(reader, item, reader->endpoint, sizeof reader->endpoint, error) : 0;
}

/* Both keys of a pair come from one file: half from one file and half from the other would not match. */
static int profile_check_keys(const struct profile_reader *reader, struct error *error) {
    struct aws_profile *profile = reader->profile;
    bool key = profile->value.key_id[0] != '\0';
    if (key != (profile->value.secret[0] != '\0')) {
        return error_set(error, AML_EINPUT, "%s: profile %s has %s without %s", reader->file, profile->name,
                         key ? "aws_access_key_id" : "aws_secret_access_key",
                         key ? "aws_secret_access_key" : "aws_access_key_id");
    }
    if (key) {
        snprintf(profile->source, sizeof profile->source, "profile %s of %.480s", profile->name, reader->file);
        profile->value.source = profile->source;
    }
    return 0;
}

int aws_profile_take(struct aws_profile *profile, const char *service, const char *file, bool config, char *text,
                     struct error *error) {
    struct profile_reader reader = {.profile = profile, .service = service, .file = file, .config = config};
    size_t size = strlen(text) + 1;
    char *again = secret_new(size); /* the section of services may stand before the profile that names it */
    memcpy(again, text, size);
    int code = ini_parse(file, text, profile_found, &reader, error);
    code = code != 0 ? code : profile_check_keys(&reader, error);
    if (code == 0 && reader.services[0] != '\0') {
        code = ini_parse(file, again, profile_found_service, &reader, error);
    }
    secret_free(again, size);
    if (reader.endpoint[0] != '\0') {
        strcpy(profile->endpoint, reader.endpoint);
    }
    if (reader.ignored) {
        profile->endpoint[0] = '\0';
    }
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

/* The file's text with a 0 byte behind it, in memory of PROFILE_FILE_MAX + 1 bytes. An absent file is an empty one. */
static int profile_load(const char *path, char *text, struct error *error) {
    size_t size = 0;
    ssize_t got = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 && (errno == ENOENT || errno == ENOTDIR)) {
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
        char *text = secret_new(PROFILE_FILE_MAX + 1);
        code = profile_load(path, text, error);
        code = code != 0 ? code : aws_profile_take(profile, service, path, config, text, error);
        secret_free(text, PROFILE_FILE_MAX + 1);
    }
    return code;
}

/* The credentials file's keys, both or none, over those of the config file. */
static void profile_merge_keys(struct aws_profile *profile, const struct aws_profile *config) {
    if (profile->value.key_id[0] == '\0') {
        profile->value = config->value;
        strcpy(profile->source, config->source);
        profile->value.source = profile->source;
    }
    if (profile->region[0] == '\0') {
        strcpy(profile->region, config->region);
    }
    if (profile->endpoint[0] == '\0') {
        strcpy(profile->endpoint, config->endpoint);
    }
    if (profile->other[0] == '\0') {
        strcpy(profile->other, config->other);
    }
    if (profile->style[0] == '\0') {
        strcpy(profile->style, config->style);
    }
    profile->found |= config->found;
}

int aws_profile_read(struct aws_profile *profile, const char *service, struct error *error) {
    const char *named = profile_environment("AWS_PROFILE");
    named = named != NULL ? named : profile_environment("AWS_DEFAULT_PROFILE");
    const char *name = named != NULL ? named : "default";
    OPENSSL_cleanse(profile, sizeof *profile);
    if (strlen(name) >= sizeof profile->name) {
        return error_set(error, AML_EINPUT, "AWS_PROFILE: expected a name of 1 to %d bytes", PROFILE_NAME_MAX - 1);
    }
    struct aws_profile *config = secret_new(sizeof *config);
    strcpy(profile->name, name);
    strcpy(config->name, name);
    int code = profile_read_file(profile, service, "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", false, error);
    code = code != 0 ? code : profile_read_file(config, service, "AWS_CONFIG_FILE", "~/.aws/config", true, error);
    if (code == 0) {
        profile_merge_keys(profile, config);
    }
    secret_free(config, sizeof *config);
    if (code == 0 && named != NULL && !profile->found) {
        code =
            error_set(error, AML_EINPUT,
                      "AWS_PROFILE: there is no profile '%s' in ~/.aws/credentials or ~/.aws/config (or the files of "
                      "AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE)",
                      name);
    }
    return code;
}
