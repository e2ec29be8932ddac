/* See credentials.h. identity.h decides which source is used, even if that source fails: a role must not replace
 * keys that were given. After the source has answered, the identity's roles are assumed one after the other. */
#include "agileml/cloud/credentials.h"

#include "agileml/base/clock.h"
#include "agileml/base/core_dumps.h"
#include "agileml/base/memory.h"
#include "agileml/cloud/credentials_answer.h"
#include "agileml/cloud/identity.h"
#include "agileml/cloud/secret.h"
#include "agileml/net/metadata.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum {
    CREDENTIALS_JITTER_S = 60,     /* a refresh is earlier by a random time up to this, different on each machine */
    CREDENTIALS_WAIT_S = 30,       /* a value that expires sooner than this is not used while a refresh is under way */
    CREDENTIALS_RETRY_S = 20,      /* least time between two refreshes, as a refresh may return the old value again */
    CREDENTIALS_ATTEMPTS_MAX = 3,  /* attempts of one request */
    CREDENTIALS_TIMEOUT_MS = 2000, /* time limit of each attempt */
    CREDENTIALS_ROLE_MAX = 65,     /* bytes of a role's name with its 0 */
    CREDENTIALS_URL_MAX = 1024
};

static const char CREDENTIALS_ROLES[] = "latest/meta-data/iam/security-credentials/";
static const char CREDENTIALS_CONTAINER[] = "http://169.254.170.2";

/* All secrets, in memory from secret_new. */
struct credentials_secrets {
    struct credentials_value value, incoming;
    struct identity identity;   /* what was configured at the last fetch */
    struct aws_profile profile; /* settings at the chain's opening: its region and endpoints stay */
    char token[STS_TOKEN_MAX];  /* token of an identity provider, during a request */
    char authorization[sizeof "Authorization: " + CREDENTIALS_TOKEN_MAX]; /* header for the container endpoint */
};

struct credentials_waiter {
    struct credentials_waiter *next;
    credentials_done *done;
    void *context;
};

struct credentials {
    struct http *http;
    struct metadata *metadata;
    struct credentials_secrets *secrets;
    const char *service;           /* "ec2", "s3" */
    const char *region, *endpoint; /* NULL: none */
    bool have;                     /* secrets->value is set */
    int64_t early_s;               /* a refresh begins this long before the value expires */
    int64_t retry_s;               /* no refresh before this time of the monotonic clock */
    bool fetching;
    struct credentials_waiter *waiters;
    unsigned attempts;
    struct http_call *request; /* request to the container endpoint */
    struct service_variant variant;
    struct sts_place sts;
    struct sts_call *assuming;
    unsigned assumed; /* roles of the identity assumed so far in this fetch */
    char role[CREDENTIALS_ROLE_MAX];
    char source[200]; /* description of a value from a service */
};

static int64_t credentials_random(int64_t below) {
    uint32_t bits = 0;
    (void)getrandom(&bits, sizeof bits, GRND_NONBLOCK);
    return (int64_t)(bits % (uint32_t)below);
}

/* ---- Opening and closing ---- */

/* Returns the first variable that is set; else `text`, if it is not empty; else NULL. */
static const char *first_set(const char *variable, const char *second, const char *text) {
    const char *value = identity_environment(variable);
    value = value == NULL && second != NULL ? identity_environment(second) : value;
    return value != NULL ? value : text[0] != '\0' ? text : NULL;
}

/* Sets *on to a setting of true or false. */
static int read_switch(const char *variable, const char *setting, const char *text, bool *on, struct error *error) {
    const char *value = first_set(variable, NULL, text);
    *on = value != NULL && strcasecmp(value, "true") == 0;
    return value == NULL || *on || strcasecmp(value, "false") == 0
               ? 0
               : error_set(error, AML_EINPUT, "%s (or the profile's %s): '%.40s': expected true or false", variable,
                           setting, value);
}

static int credentials_read_variant(struct credentials *credentials, struct error *error) {
    const struct aws_profile *profile = &credentials->secrets->profile;
    struct service_variant *variant = &credentials->variant;
    int code = read_switch("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint", profile->fips, &variant->fips, error);
    code = code != 0 ? code
                     : read_switch("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint", profile->dualstack,
                                   &variant->dualstack, error);
    if (code == 0 && credentials->endpoint != NULL && (variant->fips || variant->dualstack)) {
        code = error_set(error, AML_EINPUT, "%s and an endpoint of its own (%.200s) exclude each other: expected one",
                         variant->fips ? "AWS_USE_FIPS_ENDPOINT" : "AWS_USE_DUALSTACK_ENDPOINT", credentials->endpoint);
    }
    return code;
}

/* Whether endpoints configured in the environment and the files are ignored. */
static bool endpoints_are_ignored(void) {
    const char *ignore = identity_environment("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    return ignore != NULL && strcasecmp(ignore, "true") == 0;
}

static int credentials_choose_sts(struct credentials *credentials, struct error *error) {
    const struct aws_profile *profile = &credentials->secrets->profile;
    const char *way = first_set("AWS_STS_REGIONAL_ENDPOINTS", NULL, profile->sts_regional);
    const char *endpoint =
        endpoints_are_ignored() ? NULL : first_set("AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL", profile->sts_endpoint);
    bool legacy = way != NULL && strcasecmp(way, "legacy") == 0;
    if (credentials->secrets->identity.role_count == 0) {
        return 0;
    }
    if (way != NULL && !legacy && strcasecmp(way, "regional") != 0) {
        return error_set(error, AML_EINPUT,
                         "AWS_STS_REGIONAL_ENDPOINTS (or the profile's sts_regional_endpoints): '%.40s': expected "
                         "regional or legacy",
                         way);
    }
    return sts_place_choose(&credentials->sts, endpoint, credentials->region, legacy, credentials->variant, error);
}

static int credentials_read_settings(struct credentials *credentials, struct error *error) {
    struct aws_profile *profile = &credentials->secrets->profile;
    *profile = credentials->secrets->identity.profile;
    credentials->region = first_set("AWS_REGION", "AWS_DEFAULT_REGION", profile->region);
    if (!endpoints_are_ignored()) {
        const char *own = strcmp(credentials->service, "s3") == 0 ? "AWS_ENDPOINT_URL_S3" : "AWS_ENDPOINT_URL_EC2";
        credentials->endpoint = first_set(own, "AWS_ENDPOINT_URL", profile->endpoint);
    }
    if (profile->ca_bundle[0] != '\0') {
        http_trust(credentials->http, profile->ca_bundle);
    }
    int code = credentials_read_variant(credentials, error);
    return code != 0 ? code : credentials_choose_sts(credentials, error);
}

/* Opens the metadata service. The environment's address comes before the profile's. */
static int credentials_open_metadata(struct credentials *credentials, struct error *error) {
    const struct aws_profile *profile = &credentials->secrets->profile;
    bool set = identity_environment("AWS_EC2_METADATA_SERVICE_ENDPOINT") != NULL ||
               identity_environment("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE") != NULL;
    const char *endpoint = profile->metadata_endpoint[0] != '\0'             ? profile->metadata_endpoint
                           : strcasecmp(profile->metadata_mode, "ipv6") == 0 ? "http://[fd00:ec2::254]"
                                                                             : NULL;
    return metadata_open(&credentials->metadata, credentials->http, set ? NULL : endpoint, error);
}

int credentials_open(struct credentials **credentials, struct http *http, const char *service, struct error *error) {
    struct credentials *new = memory_zeroed(1, sizeof *new);
    core_dumps_forbid(); /* the environment has secrets too, and libcurl's buffers have them for moments */
    new->http = http;
    new->service = service;
    new->secrets = secret_new(sizeof *new->secrets);
    *credentials = NULL;
    int code = identity_read(&new->secrets->identity, service, error);
    code = code != 0 ? code : credentials_read_settings(new, error);
    code = code != 0 ? code : credentials_open_metadata(new, error);
    if (code != 0) {
        credentials_close(new);
        return code;
    }
    *credentials = new;
    return 0;
}

void credentials_close(struct credentials *credentials) {
    if (credentials == NULL) {
        return;
    }
    if (credentials->request != NULL) {
        http_cancel(credentials->http, credentials->request);
    }
    sts_cancel(credentials->assuming);
    metadata_close(credentials->metadata);
    while (credentials->waiters != NULL) {
        struct credentials_waiter *waiter = credentials->waiters;
        credentials->waiters = waiter->next;
        free(waiter);
    }
    secret_free(credentials->secrets, sizeof *credentials->secrets);
    free(credentials);
}

const char *credentials_region(const struct credentials *credentials) {
    return credentials->region;
}

const char *credentials_endpoint(const struct credentials *credentials) {
    return credentials->endpoint;
}

struct service_variant credentials_variant(const struct credentials *credentials) {
    return credentials->variant;
}

bool credentials_path_style(const struct credentials *credentials) {
    return strcmp(credentials->secrets->profile.style, "path") == 0;
}

bool credentials_virtual_style(const struct credentials *credentials) {
    return strcmp(credentials->secrets->profile.style, "virtual") == 0;
}

/* ---- The results of a fetch ---- */

/* Returns the seconds until the value expires; INT64_MAX if it never does. */
static int64_t credentials_left_s(const struct credentials_value *value) {
    return value->expires == 0 ? INT64_MAX : value->expires - (int64_t)time(NULL);
}

static bool credentials_usable(const struct credentials *credentials) {
    return credentials->have && credentials_left_s(&credentials->secrets->value) > 0;
}

static void credentials_assume(struct credentials *credentials);

/* Assumes the next role, or ends the fetch. `why` NULL: success, and secrets->incoming is the new value. `date` is
 * the sender's clock, by which the value expires; 0: not known. After a failure the earlier value stays. */
static void credentials_decided(struct credentials *credentials, int64_t date, const char *why) {
    struct credentials_secrets *secrets = credentials->secrets;
    bool first = !credentials->have;
    if (why == NULL && credentials->assumed < secrets->identity.role_count) {
        credentials_assume(credentials);
        return;
    }
    credentials->fetching = false;
    if (why == NULL && date > 0 && secrets->incoming.expires > 0) {
        secrets->incoming.expires -= date - (int64_t)time(NULL);
    }
    if (why == NULL && credentials_left_s(&secrets->incoming) <= 0) {
        why = "the source of credentials has only expired ones";
    }
    if (why == NULL) {
        secrets->value = secrets->incoming;
        credentials->have = true;
        credentials->early_s = CREDENTIALS_REFRESH_S + credentials_random(CREDENTIALS_JITTER_S);
    }
    OPENSSL_cleanse(&secrets->incoming, sizeof secrets->incoming);
    int64_t pause_s = CREDENTIALS_RETRY_S + credentials_random(CREDENTIALS_RETRY_S / 2);
    credentials->retry_s = monotonic_ms() / 1000 + (first ? 0 : pause_s);
    struct credentials_waiter *waiters = credentials->waiters; /* `done` may call credentials_get again */
    credentials->waiters = NULL;
    while (waiters != NULL) {
        struct credentials_waiter *waiter = waiters;
        waiters = waiter->next;
        const struct credentials_value *value = credentials_usable(credentials) ? &secrets->value : NULL;
        waiter->done(waiter->context, value, value != NULL ? NULL : why);
        free(waiter);
    }
}

/* Takes the keys from a service's response body. */
static void credentials_take(struct credentials *credentials, const char *body, size_t size, int64_t date) {
    struct error error = {0};
    struct error told = {0};
    struct credentials_value *incoming = &credentials->secrets->incoming;
    if (credentials_answer_parse(body, size, incoming, &error) != 0) {
        (void)error_set(&told, AML_EFAIL, "%s: %.300s", credentials->source, error.text);
        credentials_decided(credentials, 0, told.text);
        return;
    }
    incoming->source = credentials->source;
    credentials_decided(credentials, date, NULL);
}

/* ---- Roles that are assumed ---- */

static void credentials_assumed(void *context, const struct credentials_value *value, int64_t date, const char *why) {
    struct credentials *credentials = context;
    struct error told = {0};
    credentials->assuming = NULL;
    if (why != NULL) {
        (void)error_set(&told, AML_EFAIL, "%s: %.300s", credentials->source, why);
        credentials_decided(credentials, 0, told.text);
        return;
    }
    credentials->secrets->incoming = *value;
    credentials->secrets->incoming.source = credentials->source;
    credentials->assumed++;
    credentials_decided(credentials, date, NULL);
}

/* Reads an identity provider's token from its file. The provider replaces the file from time to time. */
static int credentials_read_token(const char *path, char token[STS_TOKEN_MAX], struct error *error) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, token, STS_TOKEN_MAX - 1) : -1;
    int reason = errno;
    if (file >= 0) {
        close(file);
    }
    token[got > 0 ? got : 0] = '\0';
    token[strcspn(token, " \t\r\n")] = '\0';
    if (got < 0) {
        return error_set(error, AML_EINPUT, "AWS_WEB_IDENTITY_TOKEN_FILE %.200s: %s", path, strerror(reason));
    }
    return credentials_text_is_good(token, STS_TOKEN_MAX)
               ? 0
               : error_set(error, AML_EINPUT, "AWS_WEB_IDENTITY_TOKEN_FILE %.200s: no token", path);
}

/* Assumes the next role. The first one may be assumed with a token, all others with secrets->incoming. */
static void credentials_assume(struct credentials *credentials) {
    struct credentials_secrets *secrets = credentials->secrets;
    const struct aws_role *role = &secrets->identity.roles[credentials->assumed];
    bool by_token = credentials->assumed == 0 && secrets->identity.base == IDENTITY_TOKEN;
    struct error error = {0};
    snprintf(credentials->source, sizeof credentials->source, "role %.180s", role->arn);
    if (by_token && credentials_read_token(secrets->identity.token_file, secrets->token, &error) != 0) {
        credentials_decided(credentials, 0, error.text);
        return;
    }
    credentials->assuming = sts_assume(credentials->http, &credentials->sts, role, by_token ? NULL : &secrets->incoming,
                                       secrets->token, credentials_assumed, credentials);
    OPENSSL_cleanse(secrets->token, sizeof secrets->token);
}

/* ---- The instance's role ---- */

static void credentials_role_failed(struct credentials *credentials, enum metadata_result result, const char *nothing) {
    char why[300];
    const char *text = result == METADATA_NOTHING ? nothing
                       : result == METADATA_OFF   ? "the metadata service is switched off"
                                                  : "the metadata service can't be reached";
    snprintf(why, sizeof why,
             "no credentials: not in the environment, not in profile %.120s of ~/.aws, no container, and %s",
             credentials->secrets->profile.name, text);
    credentials_decided(credentials, 0, why);
}

static void credentials_role_keys(void *context, const struct metadata_answer *answer) {
    struct credentials *credentials = context;
    if (answer->result != METADATA_FOUND) {
        credentials_role_failed(credentials, answer->result, "the instance's role has no keys");
        return;
    }
    snprintf(credentials->source, sizeof credentials->source, "instance role %s", credentials->role);
    credentials_take(credentials, answer->body, answer->size, answer->date);
}

/* Copies the first line, if it is a valid role name. */
static bool credentials_take_role(struct credentials *credentials, const char *body) {
    size_t size = strcspn(body, " \t\r\n");
    size_t good = strspn(body, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+=,.@-");
    if (size == 0 || good < size || size >= sizeof credentials->role || body[0] == '.') {
        return false;
    }
    memcpy(credentials->role, body, size);
    credentials->role[size] = '\0';
    return true;
}

static void credentials_role_name(void *context, const struct metadata_answer *answer) {
    struct credentials *credentials = context;
    if (answer->result != METADATA_FOUND || !credentials_take_role(credentials, answer->body)) {
        enum metadata_result result = answer->result == METADATA_FOUND ? METADATA_NOTHING : answer->result;
        credentials_role_failed(credentials, result, "the instance has no role");
        return;
    }
    char path[sizeof CREDENTIALS_ROLES + CREDENTIALS_ROLE_MAX];
    snprintf(path, sizeof path, "%s%s", CREDENTIALS_ROLES, credentials->role);
    metadata_get(credentials->metadata, path, credentials_role_keys, credentials);
}

/* ---- The container endpoint ---- */

/* Whether the URL is https, or http to an address on this machine or its link-local services. */
static bool credentials_host_is_safe(const char *scheme, const char *host) {
    static const char *const hosts[] = {"localhost", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "[::1]"};
    struct in_addr address;
    if (strcasecmp(scheme, "https") == 0) {
        return true;
    }
    for (unsigned i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        if (strcasecmp(host, hosts[i]) == 0) {
            return true;
        }
    }
    return inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static bool credentials_url_is_safe(const char *url) {
    CURLU *parts = curl_url();
    char *scheme = NULL;
    char *host = NULL;
    bool safe = parts != NULL && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK && credentials_host_is_safe(scheme, host);
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(parts);
    return safe;
}

/* Writes the header "Authorization: TOKEN", with the token from the environment's variable or file; writes "" if
 * neither is set. Returns 0 or AML_EINPUT. */
static int credentials_authorization(char *header, size_t max, struct error *error) {
    static const char name[] = "Authorization: ";
    const char *path = identity_environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *token = identity_environment("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    char *text = header + strlen(name);
    size_t room = max - sizeof name;
    OPENSSL_cleanse(header, max);
    if (path == NULL && token == NULL) {
        return 0;
    }
    memcpy(header, name, sizeof name);
    if (path != NULL) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = file >= 0 ? read(file, text, room) : -1;
        if (file >= 0) {
            close(file);
        }
        text[got > 0 ? got : 0] = '\0';
        text[strcspn(text, "\r\n")] = '\0';
    } else {
        strncat(header, token, room);
    }
    const char *rest = text + strcspn(text, " "); /* "Bearer TOKEN" has one blank between two words */
    bool good = credentials_text_is_good(rest[0] == ' ' ? rest + 1 : text, room) && text[0] != ' ';
    for (const char *c = text; *c != '\0'; c++) {
        good &= *c >= ' ' && *c < 0x7F;
    }
    if (!good) {
        OPENSSL_cleanse(header, max);
        return path != NULL
                   ? error_set(error, AML_EINPUT, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE %.200s: no token", path)
                   : error_set(error, AML_EINPUT, "AWS_CONTAINER_AUTHORIZATION_TOKEN is no token");
    }
    return 0;
}

static void credentials_ask_container(struct credentials *credentials);

static void credentials_container_answered(void *context, const struct http_answer *answer) {
    struct credentials *credentials = context;
    struct error told = {0};
    credentials->request = NULL;
    bool broken = answer->status == 0 || answer->status >= 500 || answer->status == 429;
    if (broken && ++credentials->attempts < CREDENTIALS_ATTEMPTS_MAX) {
        credentials_ask_container(credentials);
        return;
    }
    if (answer->status == 200) {
        credentials_take(credentials, answer->body, answer->body_size, answer->date);
        return;
    }
    struct error error = {0};
    struct credentials_value *incoming = &credentials->secrets->incoming;
    if (answer->status == 0) {
        (void)error_set(&error, AML_EFAIL, "%s", answer->error);
    } else if (credentials_answer_parse(answer->body, answer->body_size, incoming, &error) == 0) {
        OPENSSL_cleanse(incoming, sizeof *incoming);
        (void)error_set(&error, AML_EFAIL, "refused");
    }
    (void)error_set(&told, AML_EFAIL, "%s: status %d: %.300s", credentials->source, answer->status, error.text);
    credentials_decided(credentials, 0, told.text);
}

/* Sets `url` to the endpoint of the environment. Returns false when there is none. */
static bool credentials_container_url(char url[CREDENTIALS_URL_MAX]) {
    const char *relative = identity_environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = identity_environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    int size = relative != NULL ? snprintf(url, CREDENTIALS_URL_MAX, "%s%s%s", CREDENTIALS_CONTAINER,
                                           relative[0] == '/' ? "" : "/", relative)
                                : snprintf(url, CREDENTIALS_URL_MAX, "%s", full != NULL ? full : "");
    if (size >= CREDENTIALS_URL_MAX) {
        strcpy(url, "too long"); /* this text fails the later check for a safe URL */
    }
    return relative != NULL || full != NULL;
}

static void credentials_ask_container(struct credentials *credentials) {
    char url[CREDENTIALS_URL_MAX];
    struct error error = {0};
    char *header = credentials->secrets->authorization;
    (void)credentials_container_url(url);
    strcpy(credentials->source, "container endpoint");
    int code = 0;
    if (!credentials_url_is_safe(url)) {
        code = error_set(&error, AML_EINPUT,
                         "AWS_CONTAINER_CREDENTIALS_FULL_URI: expected https://..., or http:// with "
                         "localhost, a loopback address, 169.254.170.2, 169.254.170.23 or [fd00:ec2::23]");
    }
    code = code != 0 ? code : credentials_authorization(header, sizeof credentials->secrets->authorization, &error);
    if (code != 0) {
        credentials_decided(credentials, 0, error.text);
        return;
    }
    struct http_request request = {.method = "GET",
                                   .url = url,
                                   .headers = {"Accept: application/json", header[0] != '\0' ? header : NULL},
                                   .timeout_ms = CREDENTIALS_TIMEOUT_MS,
                                   .answer_max = CREDENTIALS_ANSWER_MAX};
    credentials->request = http_start(credentials->http, &request, credentials_container_answered, credentials);
    OPENSSL_cleanse(header, sizeof credentials->secrets->authorization);
}

/* ---- The chain ---- */

/* Whether a file was named that does not exist (yet), so that the machine's own identity would be used instead. */
static bool credentials_file_is_missing(const struct identity *identity) {
    bool machine = identity->base == IDENTITY_CONTAINER || identity->base == IDENTITY_INSTANCE;
    return machine && identity->role_count == 0 && identity->profile.missing[0] != '\0';
}

static void credentials_fetch(struct credentials *credentials) {
    struct credentials_secrets *secrets = credentials->secrets;
    struct error error = {0};
    credentials->fetching = true;
    credentials->attempts = credentials->assumed = 0;
    int code = identity_read(&secrets->identity, credentials->service, &error);
    if (code == 0 && secrets->identity.role_count > 0 && credentials->sts.url[0] == '\0') {
        code = credentials_choose_sts(credentials, &error); /* the files may have changed since credentials_open */
    }
    if (code == 0 && credentials_file_is_missing(&secrets->identity)) {
        code = error_set(&error, AML_EINPUT, "no credentials: %.300s: there is no such file",
                         secrets->identity.profile.missing);
    }
    if (code != 0) {
        credentials_decided(credentials, 0, error.text);
        return;
    }
    switch (secrets->identity.base) {
    case IDENTITY_KEYS:
        secrets->incoming = secrets->identity.value;
        credentials_decided(credentials, 0, NULL);
        break;
    case IDENTITY_TOKEN:
        credentials_assume(credentials);
        break;
    case IDENTITY_CONTAINER:
        credentials_ask_container(credentials);
        break;
    case IDENTITY_INSTANCE:
        metadata_get(credentials->metadata, CREDENTIALS_ROLES, credentials_role_name, credentials);
        break;
    }
}

void credentials_get(struct credentials *credentials, credentials_done *done, void *context) {
    const struct credentials_value *value = &credentials->secrets->value;
    int64_t left_s = credentials->have ? credentials_left_s(value) : 0;
    bool due = left_s < credentials->early_s && !credentials->fetching && monotonic_ms() / 1000 >= credentials->retry_s;
    if (left_s > CREDENTIALS_WAIT_S || (left_s > 0 && !due && !credentials->fetching)) {
        if (due) {
            credentials_fetch(credentials); /* a refresh in the background */
        }
        done(context, value, NULL);
        return;
    }
    struct credentials_waiter *waiter = memory_zeroed(1, sizeof *waiter);
    *waiter = (struct credentials_waiter){.done = done, .context = context};
    struct credentials_waiter **link = &credentials->waiters;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = waiter;
    if (!credentials->fetching) {
        credentials_fetch(credentials);
    }
}

void credentials_expired(struct credentials *credentials) {
    credentials->have = false;
    OPENSSL_cleanse(&credentials->secrets->value, sizeof credentials->secrets->value);
}
