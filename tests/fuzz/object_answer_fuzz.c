/* libFuzzer target for answers of S3 and web servers about objects, for STS's answers, and for addresses. The first
 * byte chooses how the rest is read. Besides crashes it finds texts without an end or of several lines, and lists with
 * impossible items. */
#include "agileml/cloud/object_answer.h"
#include "agileml/cloud/sts.h"
#include "agileml/cloud/xml_tree.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

static void fuzz_line(const char *text, size_t size) {
    FUZZ_CHECK(memchr(text, '\0', size) != NULL);
    for (const char *c = text; *c != '\0'; c++) {
        FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
    }
}

static int fuzz_item(void *context, const struct object_item *item, struct error *error) {
    size_t *count = context;
    FUZZ_CHECK(item->key[0] != '\0' && memchr(item->key, '\0', sizeof item->key) != NULL);
    FUZZ_CHECK(memchr(item->upload, '\0', sizeof item->upload) != NULL && item->bytes <= OBJECT_BYTES_MAX);
    return ++*count == 1000 ? error_set(error, AML_ELIMIT, "enough") : 0;
}

static void fuzz_page(const char *body, size_t size) {
    char next[OBJECT_CONTINUE_MAX], next_upload[OBJECT_CONTINUE_MAX], upload[OBJECT_UPLOAD_MAX];
    struct error error = {0};
    size_t count = 0;
    int code = object_page_read(body, size, fuzz_item, &count, next, next_upload, &error);
    FUZZ_CHECK(code == 0 || code == AML_EFAIL || (code == AML_ELIMIT && count == 1000));
    FUZZ_CHECK((code == 0) == (error.text[0] == '\0'));
    FUZZ_CHECK(memchr(next, '\0', sizeof next) != NULL && memchr(next_upload, '\0', sizeof next_upload) != NULL);
    code = object_upload_read(body, size, upload, NULL);
    FUZZ_CHECK((code == 0) == (upload[0] != '\0'));
    (void)object_answer_failed(body, size);
}

/* The text is the answer's head up to an empty line, then its body. */
static void fuzz_answer(char *text, size_t size) {
    struct object_failure failure;
    struct object_range range;
    char header[128], tag[OBJECT_TAG_MAX];
    char *gap = strstr(text, "\n\n");
    struct http_answer answer = {.status = 403, .head = text, .body = ""};
    if (gap != NULL) {
        *gap = '\0';
        answer.body = gap + 2;
        answer.body_size = size - (size_t)(gap + 2 - text);
    }
    object_failure_read(&answer, &failure);
    fuzz_line(failure.code, sizeof failure.code);
    fuzz_line(failure.text, sizeof failure.text);
    fuzz_line(failure.region, sizeof failure.region);
    fuzz_line(failure.location, sizeof failure.location);
    FUZZ_CHECK(strchr(failure.location, '?') == NULL);
    object_tag_take(&answer, tag);
    fuzz_line(tag, sizeof tag);
    if (http_header(&answer, "Content-Range", header, sizeof header) && object_range_parse(header, &range)) {
        FUZZ_CHECK(range.empty || range.first <= range.last);
        FUZZ_CHECK(range.total == UINT64_MAX || (range.total <= OBJECT_BYTES_MAX && range.last <= range.total));
    }
}

static void fuzz_url(const char *text) {
    struct object_url url;
    struct error error = {0};
    char shown[OBJECT_NAME_SHOWN];
    int code = object_url_parse(text, &url, &error);
    FUZZ_CHECK(code == 0 || (code == AML_EINPUT && error.text[0] != '\0'));
    FUZZ_CHECK(code != 0 || url.s3 == (url.bucket[0] != '\0'));
    object_url_show(text, shown);
    fuzz_line(shown, sizeof shown);
    FUZZ_CHECK(code != 0 || !object_url_is_foreign(text));
    char region[OBJECT_REGION_MAX];
    FUZZ_CHECK(object_host_region(text, region) == (region[0] != '\0') && strpbrk(region, "./:@ ") == NULL);
}

/* Checks that values for a header and secrets for a signature are complete and printable. */
static void fuzz_sts(const char *body, size_t size) {
    static struct credentials_value value;
    struct error error = {0};
    int code = sts_answer_parse(body, size, &value, &error);
    FUZZ_CHECK(code == 0 || (code == AML_EINPUT && error.text[0] != '\0' && value.key_id[0] == '\0'));
    FUZZ_CHECK(code != 0 || (credentials_text_is_good(value.key_id, sizeof value.key_id) &&
                             credentials_text_is_good(value.secret, sizeof value.secret) &&
                             credentials_text_is_good(value.token, sizeof value.token) && value.expires > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    char *text = malloc(size);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 4) {
    case 0:
        fuzz_page(text, size - 1);
        break;
    case 1:
        fuzz_answer(text, size - 1);
        break;
    case 3:
        fuzz_sts(text, size - 1);
        break;
    default:
        fuzz_url(text);
    }
    free(text);
    return 0;
}
