/* See authorize.h. */
#include "spotmarket/authorize.h"

#include "agileml/base/instant.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The parts of "AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/SERVICE/aws4_request, SignedHeaders=a;b, Signature=...". */
struct authorization {
    char text[AUTHORIZE_HEADER_MAX];
    char *key_id, *date, *region, *service, *end;
    char *signed_headers, *signature;
};

const char *request_header(const struct sigv4_request *request, const char *name) {
    for (size_t h = 0; h < request->header_count; h++) {
        if (strcasecmp(request->headers[h].name, name) == 0) {
            return request->headers[h].value;
        }
    }
    return NULL;
}

static bool authorization_parse(struct authorization *authorization, const char *header) {
    static const char algorithm[] = "AWS4-HMAC-SHA256";
    *authorization = (struct authorization){0};
    if (strlen(header) >= sizeof authorization->text || strncmp(header, algorithm, sizeof algorithm - 1) != 0) {
        return false;
    }
    strcpy(authorization->text, header + sizeof algorithm - 1);
    char *credential = NULL;
    char *rest = authorization->text;
    for (char *part; (part = strsep(&rest, ", ")) != NULL;) {
        char **target = strncmp(part, "Credential=", 11) == 0      ? &credential
                        : strncmp(part, "SignedHeaders=", 14) == 0 ? &authorization->signed_headers
                        : strncmp(part, "Signature=", 10) == 0     ? &authorization->signature
                                                                   : NULL;
        if (target != NULL) {
            *target = strchr(part, '=') + 1;
        } else if (*part != '\0') {
            return false;
        }
    }
    authorization->key_id = strsep(&credential, "/");
    authorization->date = strsep(&credential, "/");
    authorization->region = strsep(&credential, "/");
    authorization->service = strsep(&credential, "/");
    authorization->end = credential;
    return authorization->end != NULL && strcmp(authorization->end, "aws4_request") == 0 &&
           authorization->signed_headers != NULL && authorization->signature != NULL;
}

/* Parses an x-amz-date such as "20150830T123600Z" into seconds since 1970. */
static bool date_parse(const char *date, int64_t *seconds) {
    char text[INSTANT_TEXT_MAX];
    if (strlen(date) != SIGV4_DATE - 1 || date[8] != 'T' || date[15] != 'Z') {
        return false;
    }
    snprintf(text, sizeof text, "%.4s-%.2s-%.5s:%.2s:%.3s", date, date + 4, date + 6, date + 11, date + 13);
    return instant_parse(text, seconds);
}

/* Collects all headers whose names are in SignedHeaders. Returns false when one is missing or there are too many. */
static bool signed_headers(const struct sigv4_request *request, const char *names, struct sigv4_header *headers,
                           size_t *count) {
    *count = 0;
    while (*names != '\0') {
        size_t length = strcspn(names, ";");
        size_t before = *count;
        for (size_t h = 0; h < request->header_count; h++) {
            const char *name = request->headers[h].name;
            if (strlen(name) == length && strncasecmp(name, names, length) == 0) {
                if (*count == SIGV4_HEADERS_MAX) {
                    return false;
                }
                headers[(*count)++] = request->headers[h];
            }
        }
        if (*count == before) {
            return false;
        }
        names += length + (names[length] == ';');
    }
    return *count > 0;
}

/* Returns whether the signature covers the headers that prevent a request from being sent elsewhere or later. */
static bool signs_enough(const struct sigv4_header *headers, size_t count, bool token) {
    bool host = false;
    bool date = false;
    bool token_signed = !token;
    for (size_t h = 0; h < count; h++) {
        host = host || strcasecmp(headers[h].name, "host") == 0;
        date = date || strcasecmp(headers[h].name, "x-amz-date") == 0;
        token_signed = token_signed || strcasecmp(headers[h].name, "x-amz-security-token") == 0;
    }
    return host && date && token_signed;
}

static bool signature_right(const struct sigv4_request *request, const struct authorization *authorization,
                            const char *date, const char *secret) {
    struct sigv4_header headers[SIGV4_HEADERS_MAX];
    struct sigv4_request part = *request;
    struct sigv4_scope scope = {.region = authorization->region, .service = authorization->service};
    bool token = request_header(request, "x-amz-security-token") != NULL;
    char *canonical;
    part.headers = headers;
    if (!signed_headers(request, authorization->signed_headers, headers, &part.header_count) ||
        !signs_enough(headers, part.header_count, token) || sigv4_canonical(&part, &canonical, NULL) != 0) {
        return false;
    }
    snprintf(scope.date, sizeof scope.date, "%s", date);
    char *to_sign = sigv4_string_to_sign(&scope, canonical);
    char signature[SIGV4_HEX];
    sigv4_sign(&scope, secret, to_sign, signature);
    free(to_sign);
    free(canonical);
    return strlen(authorization->signature) == SIGV4_HEX - 1 &&
           CRYPTO_memcmp(authorization->signature, signature, SIGV4_HEX - 1) == 0;
}

static bool token_right(const struct sigv4_request *request, const struct user *user) {
    const char *token = request_header(request, "x-amz-security-token");
    token = token != NULL ? token : "";
    return strcmp(token, user->token) == 0;
}

bool authorize(const struct sigv4_request *request, const struct users *users, const struct user *role,
               const char *region, int64_t now, struct authorized *authorized, struct api_error *error) {
    struct authorization authorization;
    const char *header = request_header(request, "authorization");
    const char *date = request_header(request, "x-amz-date");
    int64_t time;
    if (header == NULL) {
        api_error_set(error, 403, "MissingAuthenticationToken", "Request is missing Authentication Token");
        return false;
    }
    if (!authorization_parse(&authorization, header) || date == NULL || !date_parse(date, &time) ||
        strncmp(date, authorization.date, 8) != 0 || strlen(authorization.date) != 8) {
        api_error_set(error, 400, "IncompleteSignature",
                      "The Authorization or x-amz-date header is not one of AWS's "
                      "Signature Version 4");
        return false;
    }
    const struct user *user = users_find(users, authorization.key_id);
    if (user == NULL && role != NULL && strcmp(role->key_id, authorization.key_id) == 0) {
        user = role;
    }
    if (user == NULL) {
        api_error_set(error, 401, "AuthFailure", "AWS was not able to validate the provided access credentials");
    } else if (strcmp(authorization.region, region) != 0 || strcmp(authorization.service, "ec2") != 0) {
        api_error_set(error, 403, "SignatureDoesNotMatch",
                      "Credential should be scoped to region '%.40s' and service "
                      "'ec2'",
                      region);
    } else if (!signature_right(request, &authorization, date, user->secret)) {
        api_error_set(error, 403, "SignatureDoesNotMatch",
                      "The request signature we calculated does not match the "
                      "signature you provided.");
    } else if (!token_right(request, user)) {
        api_error_set(error, 403, "InvalidClientTokenId", "The security token included in the request is invalid.");
    } else if (time < now - AUTHORIZE_SKEW_SECONDS || time > now + AUTHORIZE_SKEW_SECONDS) {
        api_error_set(error, 400, "RequestExpired", "Request has expired.");
    }
    if (error->status == 0) {
        *authorized = (struct authorized){.by_role = user == role, .user = user, .date = time};
        memcpy(authorized->signature, authorization.signature, SIGV4_HEX);
    }
    return error->status == 0;
}
