/* See object_answer.h. */
#include "agileml/cloud/object_answer.h"

#include "agileml/base/printable.h"
#include "agileml/cloud/xml_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Headers ---- */

/* Parses digits and returns the place after them; NULL: there are none, or too many. */
static const char *take_digits(const char *text, uint64_t *number) {
    const char *c = text;
    *number = 0;
    for (; *c >= '0' && *c <= '9'; c++) {
        *number = *number * 10 + (uint64_t)(*c - '0');
        if (*number > OBJECT_BYTES_MAX) {
            return NULL;
        }
    }
    return c > text ? c : NULL;
}

bool object_bytes_parse(const char *text, uint64_t *bytes) {
    const char *end = take_digits(text, bytes);
    return end != NULL && *end == '\0';
}

bool object_range_parse(const char *text, struct object_range *range) {
    *range = (struct object_range){.total = UINT64_MAX};
    if (strncasecmp(text, "bytes", 5) != 0 || (text[5] != ' ' && text[5] != '=')) {
        return false;
    }
    const char *c = text + 6;
    range->empty = *c == '*';
    if (range->empty) {
        c++;
    } else {
        c = take_digits(c, &range->first);
        c = c != NULL && *c == '-' ? take_digits(c + 1, &range->last) : NULL;
    }
    if (c == NULL || *c != '/' || (!range->empty && range->last < range->first)) {
        return false;
    }
    if (strcmp(c + 1, "*") == 0) {
        return !range->empty;
    }
    return object_bytes_parse(c + 1, &range->total) && (range->empty || range->last < range->total);
}

void object_tag_take(const struct http_answer *answer, char tag[OBJECT_TAG_MAX]) {
    bool weak = http_header(answer, "ETag", tag, OBJECT_TAG_MAX) && strncmp(tag, "W/", 2) == 0;
    if (tag[0] == '\0' || weak) {
        (void)http_header(answer, "Last-Modified", tag, OBJECT_TAG_MAX);
    }
    for (const char *c = tag; *c != '\0'; c++) {
        if (*c < ' ' || *c > '~') {
            tag[0] = '\0';
            return;
        }
    }
}

/* ---- Errors ---- */

static void copy_line(char *text, size_t size, const char *from) {
    snprintf(text, size, "%s", from);
    text_make_printable(text);
}

enum { HOST_LABELS = 3 };

/* Splits a host's name into its last labels, the last one first; missing labels are "". */
static void split_labels(char *name, const char *labels[HOST_LABELS]) {
    for (int i = 0; i < HOST_LABELS; i++) {
        char *dot = strrchr(name, '.');
        labels[i] = dot != NULL ? dot + 1 : name;
        if (dot != NULL) {
            *dot = '\0';
        } else {
            name += strlen(name);
        }
    }
}

static bool is_service(const char *label) {
    return strcasecmp(label, "s3") == 0 || strcasecmp(label, "s3-fips") == 0;
}

/* Copies the host without ".amazonaws.com" or ".amazonaws.com.cn" at its end. Returns false when it ends in neither,
 * or is too long. */
static bool cut_domain(const char *host, char name[OBJECT_HOST_MAX]) {
    static const char *const domains[] = {".amazonaws.com", ".amazonaws.com.cn"};
    size_t length = strlen(host);
    for (size_t d = 0; d < sizeof domains / sizeof *domains; d++) {
        size_t end = strlen(domains[d]);
        if (length > end && length < OBJECT_HOST_MAX - 1 && strcasecmp(host + length - end, domains[d]) == 0) {
            snprintf(name, OBJECT_HOST_MAX, "%.*s", (int)(length - end), host);
            return true;
        }
    }
    return false;
}

static bool take_region(const char *text, char region[OBJECT_REGION_MAX]) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    size_t length = strlen(text);
    bool good = length > 0 && length < OBJECT_REGION_MAX && strspn(text, letters) == length &&
                strchr(text, '-') != NULL && strncmp(text, "website-", 8) != 0;
    snprintf(region, OBJECT_REGION_MAX, "%s", good ? text : "");
    return good;
}

bool object_host_region(const char *host, char region[OBJECT_REGION_MAX]) {
    char name[OBJECT_HOST_MAX];
    region[0] = '\0';
    if (!cut_domain(host, name)) {
        return false;
    }
    const char *labels[HOST_LABELS];
    split_labels(name, labels);
    if (strcasecmp(labels[0], "s3") == 0 || strcasecmp(labels[0], "s3-external-1") == 0) {
        return take_region("us-east-1", region);
    }
    if (strncasecmp(labels[0], "s3-", 3) == 0) {
        return take_region(labels[0] + 3, region); /* the older form: s3-eu-west-3.amazonaws.com */
    }
    bool dual = strcasecmp(labels[1], "dualstack") == 0;
    return is_service(labels[dual ? 2 : 1]) && take_region(labels[0], region);
}

/* Takes the region from a URL's host, or from a host alone. */
static void region_of_place(const char *place, char region[OBJECT_REGION_MAX]) {
    char host[OBJECT_HOST_MAX];
    const char *name = strstr(place, "://") != NULL ? strstr(place, "://") + 3 : place;
    size_t length = strcspn(name, ":/?#");
    if (region[0] == '\0' && length < sizeof host) {
        snprintf(host, sizeof host, "%.*s", (int)length, name);
        (void)object_host_region(host, region);
    }
}

static void failure_take(struct xml_element root, struct object_failure *failure) {
    if (strcmp(xml_element_name(root), "Error") != 0) {
        return;
    }
    copy_line(failure->code, sizeof failure->code, xml_text_at(root, "Code"));
    copy_line(failure->text, sizeof failure->text, xml_text_at(root, "Message"));
    if (xml_text_at(root, "Region")[0] != '\0' && failure->region[0] == '\0') {
        copy_line(failure->region, sizeof failure->region, xml_text_at(root, "Region"));
    }
    region_of_place(xml_text_at(root, "Endpoint"), failure->region);
}

static void location_take(const struct http_answer *answer, struct object_failure *failure) {
    char location[OBJECT_URL_MAX];
    if (answer->status >= 300 && answer->status < 400 && http_header(answer, "Location", location, sizeof location)) {
        region_of_place(location, failure->region);
        object_url_show(location, failure->location);
    }
}

void object_failure_read(const struct http_answer *answer, struct object_failure *failure) {
    struct xml_tree *tree;
    *failure = (struct object_failure){.status = answer->status};
    (void)http_header(answer, "x-amz-bucket-region", failure->region, sizeof failure->region);
    if (answer->body_size > 0 && xml_tree_parse(&tree, answer->body, answer->body_size, NULL) == 0) {
        failure_take(xml_tree_root(tree), failure);
        xml_tree_close(tree);
    }
    location_take(answer, failure);
    if (strspn(failure->region, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(failure->region)) {
        failure->region[0] = '\0';
    }
}

bool object_answer_failed(const char *body, size_t size) {
    struct xml_tree *tree;
    if (size == 0 || xml_tree_parse(&tree, body, size, NULL) != 0) {
        return size > 0; /* the body is truncated, or is not XML of S3 */
    }
    bool failed = strcmp(xml_element_name(xml_tree_root(tree)), "Error") == 0;
    xml_tree_close(tree);
    return failed;
}

/* ---- Lists ---- */

static int digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* Decodes %XX, and '+' as a space. Returns false when the text is too long or has a 0 byte. */
static bool decode(const char *from, char *text, size_t size) {
    size_t length = 0;
    for (; *from != '\0'; from++) {
        int high = *from == '%' ? digit(from[1]) : -1;
        int low = high >= 0 ? digit(from[2]) : -1;
        char c = low >= 0 ? (char)(high * 16 + low) : *from == '+' ? ' ' : *from;
        if (c == '\0' || length + 1 >= size) {
            return false;
        }
        text[length++] = c;
        from += low >= 0 ? 2 : 0;
    }
    text[length] = '\0';
    return length > 0;
}

static int page_wrong(const char *what, struct error *error) {
    return error_set(error, AML_EFAIL, "the answer is no list of objects: %s", what);
}

static int item_take(struct xml_element element, bool encoded, bool uploads, object_found *found, void *context,
                     struct error *error) {
    struct object_item item = {0};
    const char *key = xml_text_at(element, "Key");
    bool good = encoded ? decode(key, item.key, sizeof item.key)
                        : key[0] != '\0' && snprintf(item.key, sizeof item.key, "%s", key) < (int)sizeof item.key;
    if (uploads) {
        good = good && xml_copy_at(element, "UploadId", item.upload, sizeof item.upload) == 0;
    } else {
        good = good && object_bytes_parse(xml_text_at(element, "Size"), &item.bytes);
        (void)xml_copy_at(element, "ETag", item.tag, sizeof item.tag);
    }
    return good ? found(context, &item, error) : page_wrong("an item without key, size or id", error);
}

static int folder_take(struct xml_element element, bool encoded, object_found *found, void *context,
                       struct error *error) {
    struct object_item item = {.folder = true};
    const char *prefix = xml_text_at(element, "Prefix");
    bool good = encoded ? decode(prefix, item.key, sizeof item.key)
                        : prefix[0] != '\0' && snprintf(item.key, sizeof item.key, "%s", prefix) < (int)sizeof item.key;
    return good ? found(context, &item, error) : page_wrong("a folder without a name", error);
}

static int page_take(struct xml_element root, object_found *found, void *context, struct error *error) {
    bool uploads = strcmp(xml_element_name(root), "ListMultipartUploadsResult") == 0;
    bool encoded = strcmp(xml_text_at(root, "EncodingType"), "url") == 0;
    struct xml_element element = {0};
    if (!uploads && strcmp(xml_element_name(root), "ListBucketResult") != 0) {
        return page_wrong(xml_element_name(root), error);
    }
    int code = 0;
    while (code == 0 && xml_element_next(root, uploads ? "Upload" : "Contents", &element)) {
        code = item_take(element, encoded, uploads, found, context, error);
    }
    element = (struct xml_element){0};
    while (code == 0 && !uploads && xml_element_next(root, "CommonPrefixes", &element)) {
        code = folder_take(element, encoded, found, context, error);
    }
    return code;
}

/* Sets the place where the next page begins, when the list is not complete. */
static int page_next(struct xml_element root, char next[OBJECT_CONTINUE_MAX], char next_upload[OBJECT_CONTINUE_MAX],
                     struct error *error) {
    if (strcmp(xml_text_at(root, "IsTruncated"), "true") != 0) {
        return 0;
    }
    if (strcmp(xml_element_name(root), "ListBucketResult") == 0) {
        return xml_copy_at(root, "NextContinuationToken", next, OBJECT_CONTINUE_MAX) == 0
                   ? 0
                   : page_wrong("it does not say how it goes on", error);
    }
    bool encoded = strcmp(xml_text_at(root, "EncodingType"), "url") == 0;
    const char *marker = xml_text_at(root, "NextKeyMarker");
    bool good = encoded ? decode(marker, next, OBJECT_CONTINUE_MAX)
                        : xml_copy_at(root, "NextKeyMarker", next, OBJECT_CONTINUE_MAX) == 0;
    good = good && xml_copy_at(root, "NextUploadIdMarker", next_upload, OBJECT_CONTINUE_MAX) == 0;
    return good ? 0 : page_wrong("it does not say how it goes on", error);
}

int object_page_read(const char *body, size_t size, object_found *found, void *context, char next[OBJECT_CONTINUE_MAX],
                     char next_upload[OBJECT_CONTINUE_MAX], struct error *error) {
    struct xml_tree *tree;
    struct error reason = {0};
    next[0] = next_upload[0] = '\0';
    if (xml_tree_parse(&tree, body, size, &reason) != 0) {
        return page_wrong(reason.text, error);
    }
    int code = page_next(xml_tree_root(tree), next, next_upload, error);
    code = code != 0 ? code : page_take(xml_tree_root(tree), found, context, error);
    xml_tree_close(tree);
    return code;
}

int object_upload_read(const char *body, size_t size, char upload[OBJECT_UPLOAD_MAX], struct error *error) {
    struct xml_tree *tree;
    struct error reason = {0};
    upload[0] = '\0';
    if (xml_tree_parse(&tree, body, size, &reason) != 0) {
        return error_set(error, AML_EFAIL, "the answer names no upload: %.200s", reason.text);
    }
    int code = xml_copy_at(xml_tree_root(tree), "UploadId", upload, OBJECT_UPLOAD_MAX);
    xml_tree_close(tree);
    return code == 0 ? 0 : error_set(error, AML_EFAIL, "the answer names no upload: expected an UploadId");
}
