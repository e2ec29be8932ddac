/* libFuzzer target for answers of the instance metadata service and the container endpoint. The first byte chooses a
 * notice, keys, or the header lines before either. Besides crashes it finds failures without a message, and values
 * unfit for a header. */
#include "agileml/base/instant.h"
#include "agileml/cloud/credentials_answer.h"
#include "agileml/cloud/profile.h"
#include "agileml/net/metadata.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

static void fuzz_action(const char *text, size_t size) {
    struct metadata_action action;
    struct error error = {0};
    int code = metadata_parse_action(text, size, &action, &error);
    FUZZ_CHECK(code == 0 ? error.code == 0 : error.code == code && error_exit_status(code) == 2);
    FUZZ_CHECK(code != 0 || (action.time >= INSTANT_MIN && action.time < INSTANT_MAX && action.action[0] != '\0'));
}

static void fuzz_keys(const char *text, size_t size) {
    static struct credentials_value value;
    struct error error = {0};
    int code = credentials_answer_parse(text, size, &value, &error);
    FUZZ_CHECK(code == 0 ? error.code == 0 : error.code == code && error.text[0] != '\0');
    FUZZ_CHECK(code == 0 ? credentials_text_is_good(value.key_id, sizeof value.key_id) &&
                               credentials_text_is_good(value.secret, sizeof value.secret) &&
                               (value.token[0] == '\0' || credentials_text_is_good(value.token, sizeof value.token))
                         : value.secret[0] == '\0');
}

static void fuzz_head(const char *text) {
    static const char *const names[] = {"Date", "X-aws-ec2-metadata-token-ttl-seconds", "x", ""};
    const struct http_answer answer = {.head = text};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        char value[16];
        bool found = http_header(&answer, names[i], value, sizeof value);
        FUZZ_CHECK(strlen(value) < sizeof value && strpbrk(value, "\r\n") == NULL && (found || value[0] == '\0'));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    char *text = calloc(size, 1); /* with a 0 byte behind it, as answers have */
    memcpy(text, data + 1, size - 1);
    switch (data[0] % 3) {
    case 0:
        fuzz_action(text, size - 1);
        break;
    case 1:
        fuzz_keys(text, size - 1);
        break;
    default:
        fuzz_head(text);
    }
    free(text);
    return 0;
}
