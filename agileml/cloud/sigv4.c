/* See sigv4.h. The names are those of AWS's specification: canonical request, string to sign, signing key. */
#include "agileml/cloud/sigv4.h"

#include "agileml/base/memory.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
    SIGV4_QUERY_MAX = 256,    /* parameters of a query */
    SIGV4_SECRET_MAX = 256,   /* bytes of a secret key; AWS's have 40 */
    SIGV4_SEGMENTS_MAX = 256, /* segments of a path */
};

static const char SIGV4_ALGORITHM[] = "AWS4-HMAC-SHA256";

/* ---- Text that grows ---- */

struct sigv4_text {
    char *data; /* a 0 byte follows */
    size_t size, capacity;
};

static void sigv4_put(struct sigv4_text *text, const char *data, size_t size) {
    if (text->capacity - text->size <= size) {
        text->capacity = 2 * (text->size + size) + 64;
        text->data = memory_resized(text->data, text->capacity, 1);
    }
    memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = '\0';
}

static void sigv4_puts(struct sigv4_text *text, const char *data) {
    sigv4_put(text, data, strlen(data));
}

static bool sigv4_unreserved(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.' || c == '~';
}

/* Appends the text with everything but unreserved characters as %XX (RFC 3986). */
static void sigv4_put_encoded(struct sigv4_text *text, const char *data, size_t size) {
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < size; i++) {
        if (sigv4_unreserved(data[i])) {
            sigv4_put(text, &data[i], 1);
        } else {
            unsigned char byte = (unsigned char)data[i];
            sigv4_put(text, (char[]){'%', digits[byte >> 4], digits[byte & 15]}, 3);
        }
    }
}

static int sigv4_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* Decodes the text, which may be encoded (%XX) or not, and appends it in canonical encoding. */
static void sigv4_put_recoded(struct sigv4_text *text, const char *data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        int high = data[i] == '%' && i + 2 < size ? sigv4_digit(data[i + 1]) : -1;
        int low = high >= 0 ? sigv4_digit(data[i + 2]) : -1;
        if (low >= 0) {
            sigv4_put_encoded(text, &(char){(char)(high * 16 + low)}, 1);
            i += 2;
        } else {
            sigv4_put_encoded(text, &data[i], 1);
        }
    }
}

void sigv4_hash(const void *bytes, size_t size, char hash[SIGV4_HEX]) {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(size > 0 ? bytes : "", size, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        snprintf(hash + 2 * i, 3, "%02x", digest[i]);
    }
}

static void sigv4_put_hex(struct sigv4_text *text, const void *data, size_t size) {
    char hash[SIGV4_HEX];
    sigv4_hash(data, size, hash);
    sigv4_puts(text, hash);
}

bool sigv4_encode(const char *text, const char *kept, char *encoded, size_t size) {
    struct sigv4_text whole = {0};
    sigv4_puts(&whole, "");
    for (; *text != '\0'; text++) {
        if (strchr(kept, *text) != NULL) {
            sigv4_put(&whole, text, 1);
        } else {
            sigv4_put_encoded(&whole, text, 1);
        }
    }
    bool fits = whole.size < size;
    snprintf(encoded, size, "%s", fits ? whole.data : "");
    free(whole.data);
    return fits;
}

/* ---- The canonical request ---- */

/* Appends the path. Removes empty and "." segments; ".." removes the segment before it. Keeps a slash at the end. */
static int sigv4_put_path(struct sigv4_text *text, const char *path, struct error *error) {
    const char *segments[SIGV4_SEGMENTS_MAX];
    size_t sizes[SIGV4_SEGMENTS_MAX];
    size_t count = 0;
    bool folder = true; /* a slash follows the last segment */
    for (const char *at = path; *at != '\0';) {
        at += strspn(at, "/");
        size_t size = strcspn(at, "/");
        bool last = at[size] == '\0';
        bool back = size == 2 && memcmp(at, "..", 2) == 0;
        bool skipped = size == 0 || back || (size == 1 && at[0] == '.');
        if (back && count > 0) {
            count--;
        }
        if (!skipped) {
            if (count == SIGV4_SEGMENTS_MAX) {
                return error_set(error, AML_EINPUT, "a path to sign has more than %d segments", SIGV4_SEGMENTS_MAX);
            }
            segments[count] = at;
            sizes[count++] = size;
        }
        folder = !last || skipped;
        at += size;
    }
    for (size_t i = 0; i < count; i++) {
        sigv4_puts(text, "/");
        sigv4_put_encoded(text, segments[i], sizes[i]);
    }
    if (folder || count == 0) {
        sigv4_puts(text, "/");
    }
    sigv4_puts(text, "\n");
    return 0;
}

/* A parameter in canonical form: where its name and its value stand. */
struct sigv4_parameter {
    char *name, *value;
};

static int sigv4_parameter_compare(const void *a, const void *b) {
    const struct sigv4_parameter *x = a;
    const struct sigv4_parameter *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : strcmp(x->value, y->value);
}

static char *sigv4_recoded(const char *data, size_t size) {
    struct sigv4_text text = {0};
    sigv4_puts(&text, "");
    sigv4_put_recoded(&text, data, size);
    return text.data;
}

static int sigv4_put_query(struct sigv4_text *text, const char *query, struct error *error) {
    struct sigv4_parameter parameters[SIGV4_QUERY_MAX];
    size_t count = 0;
    int code = 0;
    for (const char *at = query != NULL ? query : ""; *at != '\0' && code == 0;) {
        size_t size = strcspn(at, "&");
        size_t name = strcspn(at, "&=");
        if (size > 0 && count == SIGV4_QUERY_MAX) {
            code = error_set(error, AML_EINPUT, "a query to sign has more than %d parameters", SIGV4_QUERY_MAX);
        } else if (size > 0) {
            const char *value = name < size ? at + name + 1 : at + size;
            parameters[count++] =
                (struct sigv4_parameter){sigv4_recoded(at, name), sigv4_recoded(value, (size_t)(at + size - value))};
        }
        at += size + (at[size] == '&');
    }
    qsort(parameters, count, sizeof parameters[0], sigv4_parameter_compare);
    for (size_t i = 0; i < count; i++) {
        sigv4_puts(text, i > 0 ? "&" : "");
        sigv4_puts(text, parameters[i].name);
        sigv4_puts(text, "=");
        sigv4_puts(text, parameters[i].value);
        free(parameters[i].name);
        free(parameters[i].value);
    }
    sigv4_puts(text, "\n");
    return code;
}

static bool sigv4_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Appends the text without blanks around it, and with one space for each run of blanks inside. */
static void sigv4_put_value(struct sigv4_text *text, const char *value) {
    bool begun = false;
    bool pending = false;
    for (; *value != '\0'; value++) {
        if (sigv4_blank(*value)) {
            pending = begun;
            continue;
        }
        sigv4_put(text, pending ? " " : "", pending);
        sigv4_put(text, value, 1);
        begun = true;
        pending = false;
    }
}

static void sigv4_put_lower(struct sigv4_text *text, const char *name) {
    for (; *name != '\0'; name++) {
        sigv4_put(text, &(char){*name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name}, 1);
    }
}

/* Sorts the headers by name. Headers with equal names stay in the order in which they are sent. */
static int sigv4_sorted(const struct sigv4_request *request, const struct sigv4_header *sorted[SIGV4_HEADERS_MAX],
                        struct error *error) {
    if (request->header_count > SIGV4_HEADERS_MAX) {
        return error_set(error, AML_EINPUT, "%zu headers to sign: at most %d are possible", request->header_count,
                         SIGV4_HEADERS_MAX);
    }
    for (size_t i = 0; i < request->header_count; i++) {
        size_t at = i;
        for (; at > 0 && strcasecmp(sorted[at - 1]->name, request->headers[i].name) > 0; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = &request->headers[i];
    }
    return 0;
}

static void sigv4_put_headers(struct sigv4_text *text, const struct sigv4_header *const sorted[], size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcasecmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            text->size--; /* drops the line's end */
            sigv4_puts(text, ",");
        } else {
            sigv4_put_lower(text, sorted[i]->name);
            sigv4_puts(text, ":");
        }
        sigv4_put_value(text, sorted[i]->value);
        sigv4_puts(text, "\n");
    }
    sigv4_puts(text, "\n");
}

static void sigv4_put_names(struct sigv4_text *text, const struct sigv4_header *const sorted[], size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcasecmp(sorted[i - 1]->name, sorted[i]->name) != 0) {
            sigv4_puts(text, i > 0 ? ";" : "");
            sigv4_put_lower(text, sorted[i]->name);
        }
    }
}

int sigv4_canonical(const struct sigv4_request *request, char **canonical, struct error *error) {
    struct sigv4_text text = {0};
    const struct sigv4_header *sorted[SIGV4_HEADERS_MAX];
    *canonical = NULL;
    sigv4_puts(&text, request->method);
    sigv4_puts(&text, "\n");
    int code = 0;
    if (request->path_as_is) {
        sigv4_puts(&text, request->path);
        sigv4_puts(&text, "\n");
    } else {
        code = sigv4_put_path(&text, request->path, error);
    }
    code = code != 0 ? code : sigv4_put_query(&text, request->query, error);
    code = code != 0 ? code : sigv4_sorted(request, sorted, error);
    if (code != 0) {
        free(text.data);
        return code;
    }
    sigv4_put_headers(&text, sorted, request->header_count);
    sigv4_put_names(&text, sorted, request->header_count);
    sigv4_puts(&text, "\n");
    if (request->body_hash != NULL) {
        sigv4_puts(&text, request->body_hash);
    } else {
        sigv4_put_hex(&text, request->body, request->body_size);
    }
    *canonical = text.data;
    return 0;
}

/* ---- The signature ---- */

void sigv4_date(int64_t time, char date[SIGV4_DATE]) {
    time_t when = (time_t)time;
    struct tm parts;
    date[0] = '\0';
    if (gmtime_r(&when, &parts) != NULL) {
        (void)strftime(date, SIGV4_DATE, "%Y%m%dT%H%M%SZ", &parts);
    }
}

/* Appends a scope such as "20150830/us-east-1/service/aws4_request". */
static void sigv4_put_scope(struct sigv4_text *text, const struct sigv4_scope *scope) {
    sigv4_put(text, scope->date, strnlen(scope->date, 8));
    sigv4_puts(text, "/");
    sigv4_puts(text, scope->region);
    sigv4_puts(text, "/");
    sigv4_puts(text, scope->service);
    sigv4_puts(text, "/aws4_request");
}

char *sigv4_string_to_sign(const struct sigv4_scope *scope, const char *canonical) {
    struct sigv4_text text = {0};
    sigv4_puts(&text, SIGV4_ALGORITHM);
    sigv4_puts(&text, "\n");
    sigv4_puts(&text, scope->date);
    sigv4_puts(&text, "\n");
    sigv4_put_scope(&text, scope);
    sigv4_puts(&text, "\n");
    sigv4_put_hex(&text, canonical, strlen(canonical));
    return text.data;
}

/* Sets key = HMAC(with, data). `with` may be `key` itself. */
static void sigv4_hmac(unsigned char key[SHA256_DIGEST_LENGTH], const void *with, size_t with_size, const char *data,
                       size_t size) {
    unsigned int written = 0;
    if (HMAC(EVP_sha256(), with, (int)with_size, (const unsigned char *)data, size, key, &written) == NULL) {
        memory_exhausted(size); /* out of memory is the only possible failure */
    }
}

void sigv4_sign(const struct sigv4_scope *scope, const char *secret, const char *string_to_sign,
                char signature[SIGV4_HEX]) {
    char first[4 + SIGV4_SECRET_MAX + 1];
    unsigned char key[SHA256_DIGEST_LENGTH];
    int size = snprintf(first, sizeof first, "AWS4%s", secret);
    size = size < (int)sizeof first ? size : (int)sizeof first - 1;
    sigv4_hmac(key, first, (size_t)size, scope->date, strnlen(scope->date, 8));
    sigv4_hmac(key, key, sizeof key, scope->region, strlen(scope->region));
    sigv4_hmac(key, key, sizeof key, scope->service, strlen(scope->service));
    sigv4_hmac(key, key, sizeof key, "aws4_request", strlen("aws4_request"));
    sigv4_hmac(key, key, sizeof key, string_to_sign, strlen(string_to_sign));
    for (size_t i = 0; i < sizeof key; i++) {
        snprintf(&signature[2 * i], 3, "%02x", key[i]);
    }
    OPENSSL_cleanse(first, sizeof first);
    OPENSSL_cleanse(key, sizeof key);
}

int sigv4_authorization(const struct sigv4_request *request, const struct sigv4_scope *scope, const char *key_id,
                        const char *secret, char **authorization, struct error *error) {
    char *canonical;
    *authorization = NULL;
    if (strlen(secret) > SIGV4_SECRET_MAX) {
        return error_set(error, AML_EINPUT, "the secret key of %s has more than %d bytes", key_id, SIGV4_SECRET_MAX);
    }
    int code = sigv4_canonical(request, &canonical, error);
    if (code != 0) {
        return code;
    }
    char *string_to_sign = sigv4_string_to_sign(scope, canonical);
    char signature[SIGV4_HEX];
    sigv4_sign(scope, secret, string_to_sign, signature);
    const struct sigv4_header *sorted[SIGV4_HEADERS_MAX];
    (void)sigv4_sorted(request, sorted, NULL); /* can't fail: an earlier call has succeeded */
    struct sigv4_text text = {0};
    sigv4_puts(&text, SIGV4_ALGORITHM);
    sigv4_puts(&text, " Credential=");
    sigv4_puts(&text, key_id);
    sigv4_puts(&text, "/");
    sigv4_put_scope(&text, scope);
    sigv4_puts(&text, ", SignedHeaders=");
    sigv4_put_names(&text, sorted, request->header_count);
    sigv4_puts(&text, ", Signature=");
    sigv4_puts(&text, signature);
    *authorization = text.data;
    free(string_to_sign);
    free(canonical);
    return 0;
}
