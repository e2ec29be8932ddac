/* Estimates of a file's number of lines: exact for short files, close for long files, plain or gzip, and the same
 * each time. */
#include "agileml/input/estimate.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

static int file;
static char path[32];

static void begin_file(void) {
    file = memfd_create("lines", MFD_CLOEXEC);
    assert_true(file >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
}

static uint64_t estimate(void) {
    uint64_t lines = 0;
    uint64_t again = 0;
    struct error error = {0};
    if (estimate_lines(path, &lines, &error) != 0 || estimate_lines(path, &again, &error) != 0) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(again, lines);
    return lines;
}

static void expect_exactly(const char *text, uint64_t lines) {
    begin_file();
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    assert_int_equal(estimate(), lines);
    close(file);
}

TEST(short_files_are_counted) {
    expect_exactly("", 1);
    expect_exactly("a", 1);
    expect_exactly("a\n", 1);
    expect_exactly("a\nb", 2);
    expect_exactly("a\n\nc\n", 3);
}

/* Makes lines of 20 to 99 bytes that compress badly or, with `alike`, equal lines. */
static size_t make_text(char *text, size_t lines, bool alike) {
    size_t used = 0;
    for (size_t i = 0; i < lines; i++) {
        size_t length = alike ? 50 : 20 + hash_mix(i) % 80;
        for (size_t b = 0; b < length; b++) {
            text[used] = alike ? 'x' : (char)('a' + hash_mix(used) % 16);
            used++;
        }
        text[used++] = '\n';
    }
    return used;
}

TEST(long_files_are_estimated) {
    enum { LINES = 100000 };
    FREED char *text = malloc(LINES * 101);
    assert_non_null(text);
    for (int kind = 0; kind < 4; kind++) {
        bool alike = (kind & 2) != 0;
        size_t size = make_text(text, LINES, alike);
        begin_file();
        if ((kind & 1) != 0) {
            gzFile packed = gzopen(path, "wb1");
            assert_non_null(packed);
            assert_int_equal(gzwrite(packed, text, (unsigned)size), size);
            assert_int_equal(gzclose(packed), Z_OK);
        } else {
            assert_int_equal(write(file, text, size), size);
        }
        uint64_t lines = estimate();
        if (lines < LINES * 97 / 100 || lines > LINES * 103 / 100) {
            fail_msg("kind %d: %llu of %d lines", kind, (unsigned long long)lines, LINES);
        }
        close(file);
    }
}

TEST(errors) {
    uint64_t lines;
    struct error error = {0};
    assert_int_equal(estimate_lines("/nowhere/at all", &lines, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "/nowhere/at all: "));
    begin_file();
    assert_int_equal(write(file, "\x1f\x8b\x08", 3), 3);
    error = (struct error){0};
    assert_int_equal(estimate_lines(path, &lines, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "truncated gzip data"));
    close(file);
}
