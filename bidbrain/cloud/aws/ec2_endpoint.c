/* Checks which URLs may be used as endpoints (ec2.h). */
#include "bidbrain/cloud/aws/ec2.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

enum { EC2_SCHEME_TEXT = 8, EC2_HOST_TEXT = 256, EC2_PORT_TEXT = 8 };

static bool ec2_loopback(const char *host) {
    struct in_addr four;
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, &four) == 1 && (ntohl(four.s_addr) >> 24) == 127);
}

/* Copies a part of the URL; an absent one is empty. False: too long. */
static bool ec2_url_part(CURLU *parsed, CURLUPart part, char *text, size_t size) {
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

static int ec2_url_host(CURLU *parsed, const char *url, char *host, size_t size, struct error *error) {
    char scheme[EC2_SCHEME_TEXT], name[EC2_HOST_TEXT], port[EC2_PORT_TEXT], path[4], extra[4];
    if (strpbrk(url, "@?#") != NULL ||
        curl_url_set(parsed, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK ||
        !ec2_url_part(parsed, CURLUPART_SCHEME, scheme, sizeof scheme) ||
        !ec2_url_part(parsed, CURLUPART_HOST, name, sizeof name) ||
        !ec2_url_part(parsed, CURLUPART_PORT, port, sizeof port) ||
        !ec2_url_part(parsed, CURLUPART_PATH, path, sizeof path) ||
        !ec2_url_part(parsed, CURLUPART_QUERY, extra, sizeof extra) || extra[0] != '\0' || name[0] == '\0' ||
        strcmp(path, "/") != 0 || (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0)) {
        return error_set(error, AML_EINPUT, "'%.100s' is not an endpoint, expected https://HOST or https://HOST:PORT",
                         url);
    }
    bool plain = strcmp(scheme, "http") == 0;
    if (plain && !ec2_loopback(name)) {
        return error_set(error, AML_EINPUT,
                         "'%.100s': plain http is for this machine alone (127.0.0.1), expected https", url);
    }
    bool usual = port[0] == '\0' || strcmp(port, plain ? "80" : "443") == 0;
    if ((size_t)snprintf(host, size, "%s%s%s", name, usual ? "" : ":", usual ? "" : port) >= size) {
        return error_set(error, AML_EINPUT, "endpoint %.100s...: too long", url);
    }
    return 0;
}

int ec2_endpoint_host(const char *url, char *host, size_t size, struct error *error) {
    CURLU *parsed = curl_url();
    if (parsed == NULL) {
        return error_set(error, AML_EFAIL, "no memory to read a URL");
    }
    int result = ec2_url_host(parsed, url, host, size, error);
    curl_url_cleanup(parsed);
    return result;
}
