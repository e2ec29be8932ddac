/* libFuzzer target for AWS's shared files. The first byte chooses credentials or config, and the profile. Besides
 * crashes it finds failures without a message, half pairs of keys, values unfit for a header, and errors that quote the
 * file. */
#include "agileml/cloud/profile.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

static bool fuzz_good(const char *text, size_t max) {
    return text[0] == '\0' || credentials_text_is_good(text, max);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct aws_profile profile;
    struct error error = {0};
    if (size == 0) {
        return 0;
    }
    memset(&profile, 0, sizeof profile);
    strcpy(profile.name, (data[0] & 2) != 0 ? "default" : "dev");
    char *text = calloc(size, 1);
    memcpy(text, data + 1, size - 1);
    int code = aws_profile_take(&profile, "s3", "FILE", (data[0] & 1) != 0, text, &error);
    FUZZ_CHECK(code == 0 ? error.code == 0 : error.code == code && strncmp(error.text, "FILE:", 5) == 0);
    FUZZ_CHECK(fuzz_good(profile.value.key_id, sizeof profile.value.key_id) &&
               fuzz_good(profile.value.secret, sizeof profile.value.secret) &&
               fuzz_good(profile.value.token, sizeof profile.value.token) &&
               fuzz_good(profile.region, sizeof profile.region) &&
               fuzz_good(profile.endpoint, sizeof profile.endpoint) &&
               fuzz_good(profile.sts_endpoint, sizeof profile.sts_endpoint) &&
               fuzz_good(profile.role.arn, sizeof profile.role.arn) &&
               fuzz_good(profile.role.session, sizeof profile.role.session) &&
               fuzz_good(profile.role.external_id, sizeof profile.role.external_id));
    FUZZ_CHECK(code != 0 || (profile.value.key_id[0] != '\0') == (profile.value.secret[0] != '\0'));
    FUZZ_CHECK(profile.found ||
               (profile.role.arn[0] == '\0' && profile.other[0] == '\0' && profile.web_token_file[0] == '\0'));
    FUZZ_CHECK(profile.found || (profile.value.key_id[0] == '\0' && profile.endpoint[0] == '\0'));
    free(text);
    return 0;
}
