/* See service_endpoint.h. */
#include "agileml/cloud/service_endpoint.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENDPOINT_SCHEME_TEXT = 8, ENDPOINT_HOST_TEXT = 256, ENDPOINT_PORT_TEXT = 8 };

static bool host_is_loopback(const char *host) {
    struct in_addr four;
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, &four) == 1 && (ntohl(four.s_addr) >> 24) == 127);
}

/* Copies a part of the URL; an absent part becomes "". Returns false when it is too long. */
static bool url_part(CURLU *parsed, CURLUPart part, char *text, size_t size) {
    char *found = NULL;
    text[0] = '\0';
    if (curl_url_get(parsed, part, &found, 0) != CURLUE_OK) {
        return true;
    }
    bool fits = strlen(found) < size;
    if (fits) {
        strcpy(text, found);
    }
    curl_free(found);
    return fits;
}

static int url_host(CURLU *parsed, const char *url, char *host, size_t size, bool plain_allowed, struct error *error) {
    char scheme[ENDPOINT_SCHEME_TEXT], name[ENDPOINT_HOST_TEXT], port[ENDPOINT_PORT_TEXT], path[4], extra[4];
    if (strpbrk(url, "@?#") != NULL ||
        curl_url_set(parsed, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK ||
        !url_part(parsed, CURLUPART_SCHEME, scheme, sizeof scheme) ||
        !url_part(parsed, CURLUPART_HOST, name, sizeof name) || !url_part(parsed, CURLUPART_PORT, port, sizeof port) ||
        !url_part(parsed, CURLUPART_PATH, path, sizeof path) ||
        !url_part(parsed, CURLUPART_QUERY, extra, sizeof extra) || extra[0] != '\0' || name[0] == '\0' ||
        strcmp(path, "/") != 0 || (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0)) {
        return error_set(error, AML_EINPUT, "'%.100s' is not an endpoint, expected https://HOST or https://HOST:PORT",
                         url);
    }
    bool plain = strcmp(scheme, "http") == 0;
    if (plain && !plain_allowed && !host_is_loopback(name)) {
        return error_set(error, AML_EINPUT,
                         "'%.100s': plain http is for this machine alone (127.0.0.1), expected https", url);
    }
    bool usual = port[0] == '\0' || strcmp(port, plain ? "80" : "443") == 0;
    if ((size_t)snprintf(host, size, "%s%s%s", name, usual ? "" : ":", usual ? "" : port) >= size) {
        return error_set(error, AML_EINPUT, "endpoint %.100s...: too long", url);
    }
    return 0;
}

int service_endpoint_host(const char *url, char *host, size_t size, bool plain_allowed, struct error *error) {
    CURLU *parsed = curl_url();
    if (parsed == NULL) {
        return error_set(error, AML_EFAIL, "no memory to read a URL");
    }
    int result = url_host(parsed, url, host, size, plain_allowed, error);
    curl_url_cleanup(parsed);
    return result;
}

void service_aws_host(const char *service, const char *region, struct service_variant variant, char *host,
                      size_t size) {
    bool china = strncmp(region, "cn-", 3) == 0;
    bool s3 = strcmp(service, "s3") == 0;
    bool named = variant.fips && (s3 || strncmp(region, "us-gov-", 7) != 0); /* in GovCloud the usual name is FIPS */
    const char *domain = china ? "amazonaws.com.cn" : "amazonaws.com";
    if (variant.dualstack && !s3) {
        domain = china ? "api.amazonwebservices.com.cn" : "api.aws";
    }
    snprintf(host, size, "%s%s.%s%s.%s", service, named ? "-fips" : "", variant.dualstack && s3 ? "dualstack." : "",
             region, domain);
}

bool service_plain_allowed(void) {
    const char *value = getenv("PROTEUS_PLAIN_HTTP");
    return value != NULL && strcmp(value, "1") == 0;
}
