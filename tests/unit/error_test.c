/* agileml/base/error: the first failure is kept. Its text is one printable line, whatever it quotes. */
#include "agileml/base/error.h"
#include "tests/test.h"

#include <jansson.h>

TEST(the_first_failure_stays) {
    struct error error = {0};
    assert_int_equal(error_set(&error, AML_EINPUT, "%s:%d: no", "file", 3), AML_EINPUT);
    assert_int_equal(error_set(&error, AML_EFAIL, "later"), AML_EFAIL);
    assert_int_equal(error.code, AML_EINPUT);
    assert_string_equal(error.text, "file:3: no");
    assert_int_equal(error_set(NULL, AML_EFAIL, "nobody asks"), AML_EFAIL);
}

static void check_text(const char *quoted, const char *expected) {
    struct error error = {0};
    error_set(&error, AML_EINPUT, "'%s'", quoted);
    char whole[ERROR_TEXT_MAX];
    snprintf(whole, sizeof whole, "'%s'", expected);
    assert_string_equal(error.text, whole);
}

TEST(texts_are_printable) {
    check_text("plain", "plain");
    check_text("a\nb\rc\td\x7f\x1b[1m", "a b c?d??[1m");
    check_text("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
    check_text("a\xC2\x9B"
               "2J \xC2\xA0 \xC2\x80",
               "a??2J \xC2\xA0 ??"); /* C1 controls are replaced, following bytes are not */
    check_text("\x1F\x8B\x08 gzip", "??? gzip");
    check_text("\xC0\xAF \xC1\xBF \xF5\x80", "?? ?? ??");                     /* bytes that never occur in UTF-8 */
    check_text("\xE0\x80\x80 \xED\xA0\x80 \xF0\x80\x80\x80", "??? ??? ????"); /* overlong, surrogate, overlong */
    check_text("\xF4\x90\x80\x80", "????");                                   /* beyond the last code point */
    check_text("cut \xE2\x82", "cut ??");
}

/* Any quoted bytes, cut anywhere. */
TEST(json_takes_every_text) {
    uint64_t random = 1;
    for (unsigned run = 0; run < 20000; run++) {
        char bytes[2 * ERROR_TEXT_MAX];
        size_t length = run % (sizeof bytes - 1);
        for (size_t i = 0; i < length; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            unsigned kind = (unsigned)(random >> 60);
            unsigned byte = (unsigned)(random >> 48) & 0xFF;
            bytes[i] = (char)(kind < 4 ? 0x80 | (byte & 0x3F) : kind < 8 ? 0xC0 | (byte & 0x3F) : byte > 0 ? byte : 1);
        }
        bytes[length] = '\0';
        struct error error = {0};
        error_set(&error, AML_EINPUT, "%s", bytes);
        json_auto_t *value = json_string(error.text);
        assert_non_null(value);
    }
}
