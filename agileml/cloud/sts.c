/* See sts.h. A request is a form sent by POST: signed with the source's keys, or with a token in the form. */
#include "agileml/cloud/sts.h"

#include "agileml/base/memory.h"
#include "agileml/cloud/secret.h"
#include "agileml/cloud/sigv4.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* Bytes of a form: the encoded token and the role's texts. */
enum { STS_FORM_MAX = 3 * (STS_TOKEN_MAX + (int)sizeof(struct aws_role)) + 256 };

static const char FORM_TYPE[] = "application/x-www-form-urlencoded; charset=utf-8";

/* The secrets of a request, in memory from secret_new. */
struct sts_secrets {
    struct credentials_value source; /* key_id "": the token is in the form */
    struct credentials_value answer;
    char form[STS_FORM_MAX];
    char token_header[sizeof "x-amz-security-token: " + CREDENTIALS_TOKEN_MAX];
};

struct sts_call {
    struct http *http;
    struct sts_place place;
    struct sts_secrets *secrets;
    sts_done *done;
    void *context;
    unsigned attempts;
    struct http_call *request;
};

/* ---- The address of STS ---- */

/* Whether the setting `legacy` selects the global endpoint in this region. */
static bool is_old_region(const char *region) {
    static const char *const old[] = {"ap-northeast-1", "ap-south-1",   "ap-southeast-1", "ap-southeast-2",
                                      "aws-global",     "ca-central-1", "eu-central-1",   "eu-north-1",
                                      "eu-west-1",      "eu-west-2",    "eu-west-3",      "sa-east-1",
                                      "us-east-1",      "us-east-2",    "us-west-1",      "us-west-2"};
    for (size_t i = 0; i < sizeof old / sizeof old[0]; i++) {
        if (strcmp(region, old[i]) == 0) {
            return true;
        }
    }
    return false;
}

int sts_place_choose(struct sts_place *place, const char *endpoint, const char *region, bool legacy,
                     struct service_variant variant, struct error *error) {
    char own[PROFILE_ENDPOINT_MAX];
    char host[PROFILE_ENDPOINT_MAX - 8] = "sts.amazonaws.com";
    struct error reason = {0};
    bool global = region == NULL || (legacy && is_old_region(region));
    bool varied = variant.fips || variant.dualstack;
    const char *used = region != NULL && !(global && endpoint == NULL && !varied) ? region : "us-east-1";
    if (strlen(used) >= sizeof place->region || strspn(used, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(used)) {
        return error_set(error, AML_EINPUT, "AWS_REGION: '%.60s' is not a region, expected one such as us-east-1",
                         used);
    }
    strcpy(place->region, used);
    if (endpoint == NULL) {
        if (!global || varied) {
            service_aws_host("sts", used, variant, host, sizeof host);
        }
        snprintf(own, sizeof own, "https://%s", host);
        endpoint = own;
    }
    if (service_endpoint_host(endpoint, place->host, sizeof place->host, service_plain_allowed(), &reason) != 0) {
        return error_set(error, AML_EINPUT, "AWS_ENDPOINT_URL_STS (or AWS_ENDPOINT_URL, or the profile): %.300s",
                         reason.text);
    }
    snprintf(place->url, sizeof place->url, "%s://%s/", strncasecmp(endpoint, "http:", 5) == 0 ? "http" : "https",
             place->host);
    return 0;
}

/* ---- Requests ---- */

/* Adds &NAME=VALUE, encoded; adds nothing for an empty value. */
static void form_add(char form[STS_FORM_MAX], const char *name, const char *value) {
    size_t used = strlen(form);
    if (value[0] != '\0') {
        size_t size = (size_t)snprintf(form + used, STS_FORM_MAX - used, "&%s=", name);
        (void)sigv4_encode(value, "", form + used + size, STS_FORM_MAX - used - size);
    }
}

static void form_make(struct sts_secrets *secrets, const struct aws_role *role, const char *token) {
    char session[PROFILE_SESSION_MAX];
    snprintf(session, sizeof session, "proteus-%lld", (long long)time(NULL));
    snprintf(secrets->form, sizeof secrets->form, "Action=%s&Version=2011-06-15",
             token == NULL ? "AssumeRole" : "AssumeRoleWithWebIdentity");
    form_add(secrets->form, "RoleArn", role->arn);
    form_add(secrets->form, "RoleSessionName", role->session[0] != '\0' ? role->session : session);
    form_add(secrets->form, "DurationSeconds", role->duration_s);
    if (token == NULL) {
        form_add(secrets->form, "ExternalId", role->external_id);
    } else {
        form_add(secrets->form, "WebIdentityToken", token);
    }
}

static void call_end(struct sts_call *call, const struct credentials_value *value, int64_t date, const char *why) {
    call->done(call->context, value, date, why);
    secret_free(call->secrets, sizeof *call->secrets);
    free(call);
}

static void call_send(struct sts_call *call);

static void call_answered(void *context, const struct http_answer *answer) {
    struct sts_call *call = context;
    struct error error = {0};
    struct error told = {0};
    call->request = NULL;
    bool broken = answer->status == 0 || answer->status >= 500 || answer->status == 429;
    if (broken && !answer->lasting && ++call->attempts < STS_ATTEMPTS_MAX) {
        call_send(call);
        return;
    }
    struct credentials_value *value = &call->secrets->answer;
    int code = answer->status == 0 ? error_set(&error, AML_EFAIL, "%s", answer->error)
                                   : sts_answer_parse(answer->body, answer->body_size, value, &error);
    if (code == 0 && answer->status == 200) {
        call_end(call, value, answer->date, NULL);
        return;
    }
    (void)error_set(&told, AML_EFAIL, "%s: status %d: %.300s", call->place.host, answer->status,
                    code != 0 ? error.text : "refused");
    call_end(call, NULL, 0, told.text);
}

/* Makes the header lines of a signed request. Returns the authorization, which the caller frees; NULL when the
 * request can't be signed. */
static char *call_sign(struct sts_call *call, struct sigv4_scope *scope) {
    const struct credentials_value *source = &call->secrets->source;
    const struct sigv4_header headers[] = {{"content-type", FORM_TYPE},
                                           {"host", call->place.host},
                                           {"x-amz-date", scope->date},
                                           {"x-amz-security-token", source->token}};
    const struct sigv4_request signing = {.method = "POST",
                                          .path = "/",
                                          .headers = headers,
                                          .header_count = sizeof headers / sizeof *headers - (source->token[0] == '\0'),
                                          .body = call->secrets->form,
                                          .body_size = strlen(call->secrets->form)};
    char *authorization = NULL;
    (void)sigv4_authorization(&signing, scope, source->key_id, source->secret, &authorization, NULL);
    return authorization;
}

static void call_send(struct sts_call *call) {
    struct sts_secrets *secrets = call->secrets;
    struct sigv4_scope scope = {.region = call->place.region, .service = "sts"};
    char type[sizeof FORM_TYPE + 16];
    char date[SIGV4_DATE + 16];
    char *line = NULL;
    sigv4_date((int64_t)time(NULL), scope.date);
    snprintf(type, sizeof type, "Content-Type: %s", FORM_TYPE);
    snprintf(date, sizeof date, "x-amz-date: %s", scope.date);
    struct http_request request = {.method = "POST",
                                   .url = call->place.url,
                                   .headers = {type},
                                   .body = secrets->form,
                                   .body_size = strlen(secrets->form),
                                   .body_lent = true,
                                   .timeout_ms = STS_TIMEOUT_MS,
                                   .answer_max = STS_ANSWER_MAX};
    if (secrets->source.key_id[0] != '\0') {
        char *authorization = call_sign(call, &scope);
        size_t size = strlen(authorization != NULL ? authorization : "") + 32;
        line = memory_zeroed(size, 1);
        snprintf(line, size, "Authorization: %s", authorization != NULL ? authorization : "");
        free(authorization);
        request.headers[1] = date;
        request.headers[2] = line;
        snprintf(secrets->token_header, sizeof secrets->token_header, "x-amz-security-token: %s",
                 secrets->source.token);
        request.headers[3] = secrets->source.token[0] != '\0' ? secrets->token_header : NULL;
    }
    call->request = http_start(call->http, &request, call_answered, call);
    OPENSSL_cleanse(secrets->token_header, sizeof secrets->token_header);
    free(line);
}

struct sts_call *sts_assume(struct http *http, const struct sts_place *place, const struct aws_role *role,
                            const struct credentials_value *source, const char *token, sts_done *done, void *context) {
    struct sts_call *call = memory_zeroed(1, sizeof *call);
    call->http = http;
    call->place = *place;
    call->done = done;
    call->context = context;
    call->secrets = secret_new(sizeof *call->secrets);
    if (source != NULL) {
        call->secrets->source = *source;
    }
    form_make(call->secrets, role, source != NULL ? NULL : token);
    call_send(call);
    return call;
}

void sts_cancel(struct sts_call *call) {
    if (call == NULL) {
        return;
    }
    if (call->request != NULL) {
        http_cancel(call->http, call->request);
    }
    secret_free(call->secrets, sizeof *call->secrets);
    free(call);
}
