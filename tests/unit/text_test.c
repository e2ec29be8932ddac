/* Tests of agileml/base/text_input, text_lines and text_fields: the rules that all readers of text share. What each
 * reader makes of them is in ratings_test, mlr_samples_test and lda_corpus_test. */
#include "agileml/base/text_fields.h"
#include "agileml/base/text_lines.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include <cmocka.h>

enum { BUFFER = 1 << 18, LONGEST = 1 << 20 };

static char path[32];

static int file_of(const void *bytes, size_t size) {
    int file = memfd_create("text", MFD_CLOEXEC);
    assert_true(file >= 0);
    assert_true(write(file, bytes, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return file;
}

/* ---- Lines ---- */

/* The lines, each in brackets with its number before it. */
static void assert_lines(const char *text, size_t size, const char *expected) {
    char got[512] = "";
    struct text_lines lines;
    struct error error = {0};
    int file = file_of(text, size);
    assert_int_equal(text_lines_open(&lines, path, LONGEST, &error), 0);
    for (;;) {
        char *line;
        size_t length;
        assert_int_equal(text_lines_next(&lines, &line, &length, &error), 0);
        if (line == NULL) {
            break;
        }
        assert_int_equal(strlen(line), length);
        size_t used = strlen(got);
        snprintf(got + used, sizeof got - used, "%" PRIu64 "[%s]", lines.number, line);
    }
    assert_string_equal(got, expected);
    text_lines_close(&lines);
    close(file);
}

static void test_lines_end_in_lf_crlf_and_cr(void **state) {
    (void)state;
    assert_lines("", 0, "");
    assert_lines("a", 1, "1[a]");
    assert_lines("a\nb\r\nc\rd", 8, "1[a]2[b]3[c]4[d]");
    assert_lines("a\r", 2, "1[a]");
    assert_lines("a\r\n", 3, "1[a]");
    assert_lines("\r\r\n\n\r", 5, "1[]2[]3[]4[]");
    assert_lines("\n\r", 2, "1[]2[]");
    assert_lines("\xEF\xBB\xBF"
                 "a\xEF\xBB\xBF\n",
                 8, "1[a\xEF\xBB\xBF]");
    assert_lines("\xEF\xBB\xBF", 3, "");
    assert_lines("\xEF\xBB", 2, "1[\xEF\xBB]");
}

/* A line's end at, before and behind the end of what is read at once. */
static void test_line_ends_around_a_buffers_end(void **state) {
    (void)state;
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    char *text = malloc(2 * BUFFER);
    assert_non_null(text);
    for (size_t e = 0; e < 3; e++) {
        for (int shift = -3; shift <= 3; shift++) {
            size_t first = (size_t)(BUFFER + shift);
            memset(text, 'x', first);
            size_t size = first + (size_t)sprintf(text + first, "%ssecond%s%sfourth", ends[e], ends[e], ends[e]);
            int file = file_of(text, size);
            struct text_lines lines;
            struct error error = {0};
            static const char *const expected[] = {NULL, "second", "", "fourth"};
            char *line;
            size_t length;
            assert_int_equal(text_lines_open(&lines, path, LONGEST, &error), 0);
            for (uint64_t i = 0; i < 4; i++) {
                assert_int_equal(text_lines_next(&lines, &line, &length, &error), 0);
                assert_non_null(line);
                assert_int_equal(lines.number, i + 1);
                assert_int_equal(length, i == 0 ? first : strlen(expected[i]));
                assert_true(i == 0 || strcmp(line, expected[i]) == 0);
            }
            assert_int_equal(text_lines_next(&lines, &line, &length, &error), 0);
            assert_null(line);
            assert_int_equal(lines.number, 4);
            text_lines_close(&lines);
            close(file);
        }
    }
    free(text);
}

static void assert_line_refused(const char *text, size_t size, size_t longest, const char *message) {
    struct text_lines lines;
    struct error error = {0};
    int file = file_of(text, size);
    char *line = NULL;
    size_t length;
    int code = text_lines_open(&lines, path, longest, &error);
    while (code == 0) {
        code = text_lines_next(&lines, &line, &length, &error);
        assert_true(code != 0 || line != NULL);
    }
    assert_int_equal(code, AML_EINPUT);
    assert_string_equal(error.text + strlen(path), message);
    assert_memory_equal(error.text, path, strlen(path));
    text_lines_close(&lines);
    close(file);
}

static void test_lines_that_are_refused(void **state) {
    (void)state;
    assert_line_refused("12345\n123456\n", 13, 5, ":2: expected a line of at most 5 bytes");
    assert_line_refused("12345\r\n12345\r123456", 20 - 1, 5, ":3: expected a line of at most 5 bytes");
    assert_line_refused("a\nb\0c\nd\n", 8, 5, ":2: expected text, got a zero byte");
    assert_line_refused("a\r\0", 3, 5, ":2: expected text, got a zero byte");
}

/* ---- zstd ---- */

/* Appends a frame of the text to made[room]. */
static size_t add_frame(char *made, size_t used, size_t room, const char *text, size_t size) {
    size_t added = ZSTD_compress(made + used, room - used, text, size, 1);
    assert_false(ZSTD_isError(added));
    return used + added;
}

static void test_lines_of_zstd_frames(void **state) {
    (void)state;
    char made[512];
    size_t used = add_frame(made, 0, sizeof made,
                            "\xEF\xBB\xBF"
                            "a\nb",
                            6);
    memcpy(made + used, "\x50\x2A\x4D\x18\x02\0\0\0xy", 10); /* a frame to skip */
    used = add_frame(made, used + 10, sizeof made, "", 0);
    used = add_frame(made, used, sizeof made, "b\r\nc", 4);
    assert_lines(made, used, "1[a]2[bb]3[c]");
    assert_lines("\x5F\x2A\x4D\x18\0\0\0\0", 8, "");
}

/* More text than is read at once, of little data: the decoder has more to give when the file has ended. */
static void test_zstd_that_expands(void **state) {
    (void)state;
    enum { LINES = 500000 };
    char *text = malloc(2 * LINES);
    char made[4096];
    for (size_t i = 0; i < LINES; i++) {
        memcpy(text + 2 * i, "x\n", 2);
    }
    size_t used = add_frame(made, 0, sizeof made, text, 2 * LINES);
    int file = file_of(made, used);
    struct text_lines lines;
    struct error error = {0};
    char *line = text;
    size_t length;
    assert_int_equal(text_lines_open(&lines, path, LONGEST, &error), 0);
    while (line != NULL) {
        assert_int_equal(text_lines_next(&lines, &line, &length, &error), 0);
        assert_true(line == NULL || (length == 1 && line[0] == 'x'));
    }
    assert_int_equal(lines.number, LINES);
    text_lines_close(&lines);
    close(file);
    free(text);
}

static void test_bad_zstd_is_refused(void **state) {
    (void)state;
    char made[512];
    size_t used = add_frame(made, 0, sizeof made, "a\nb\n", 4);
    for (size_t size = 5; size < used; size++) {
        assert_line_refused(made, size, LONGEST, ": truncated zstd data: the file ends too early");
    }
    memcpy(made + used, "abcde", 5);
    assert_line_refused(made, used + 5, LONGEST, ": damaged zstd data: Unknown frame descriptor");
    memcpy(made + used, "\x28\xB5\x2F", 3); /* a frame's beginning */
    assert_line_refused(made, used + 3, LONGEST, ": truncated zstd data: the file ends too early");
}

/* ---- Sources and whole files ---- */

/* The text_source of the numbers "0\n1\n2\n"... below the one that `context` points to behind the next one. */
static int numbers(void *context, void *bytes, size_t size, size_t *got, struct error *error) {
    unsigned *next = context;
    char *to = bytes;
    for (*got = 0; *got < size && next[0] < 2 * next[1]; next[0]++) {
        to[(*got)++] = next[0] % 2 == 0 ? (char)('0' + next[0] / 2 % 10) : '\n';
    }
    return next[0] == 2 * next[1] ? 0 : error_set(error, AML_EFAIL, "too many");
}

static void test_lines_of_a_source(void **state) {
    (void)state;
    unsigned next[2] = {0, 7};
    struct text_input *input;
    struct text_lines lines;
    struct error error = {0};
    char *line;
    size_t length;
    assert_int_equal(text_input_open_source(&input, "numbers", numbers, next, &error), 0);
    text_lines_take(&lines, "numbers", input, LONGEST);
    for (unsigned n = 0; n < 7; n++) {
        assert_int_equal(text_lines_next(&lines, &line, &length, &error), 0);
        assert_int_equal(length, 1);
        assert_int_equal(line[0], '0' + n);
        assert_int_equal(lines.number, n + 1);
    }
    assert_int_equal(text_lines_next(&lines, &line, &length, &error), 0);
    assert_null(line);
    text_lines_close(&lines);
    next[0] = 0;
    next[1] = 1 << 20; /* more than is asked for at once: a failure */
    assert_int_equal(text_input_open_source(&input, "numbers", numbers, next, &error), AML_EFAIL);
    assert_null(input);
    assert_string_equal(error.text, "too many");
}

static void test_whole_files(void **state) {
    (void)state;
    enum { SIZE = 3 * BUFFER / 2 };
    static char bytes[SIZE];
    memset(bytes, 'x', sizeof bytes);
    for (size_t size = 0; size <= SIZE; size += SIZE / 2) {
        int file = file_of(bytes, size);
        struct error error = {0};
        char *text;
        size_t got;
        assert_int_equal(text_input_load(path, size, &text, &got, &error), 0);
        assert_int_equal(got, size);
        assert_int_equal(strlen(text), size);
        free(text);
        if (size > 0) {
            assert_int_equal(text_input_load(path, size - 1, &text, &got, &error), AML_EINPUT);
            assert_null(text);
            assert_non_null(strstr(error.text, ": more than "));
        }
        close(file);
    }
}

/* ---- Fields ---- */

static enum text_separator separator_of(const char *line) {
    return text_separator_of(line, line + strlen(line));
}

static void test_separators(void **state) {
    (void)state;
    assert_int_equal(separator_of(""), TEXT_UNKNOWN);
    assert_int_equal(separator_of(" 12 "), TEXT_UNKNOWN);
    assert_int_equal(separator_of("\"a b\""), TEXT_UNKNOWN);
    assert_int_equal(separator_of("a b"), TEXT_BLANKS);
    assert_int_equal(separator_of("a\tb c"), TEXT_BLANKS);
    assert_int_equal(separator_of("a\tb\tc,d"), TEXT_TAB);
    assert_int_equal(separator_of("a \t b"), TEXT_TAB);
    assert_int_equal(separator_of("a b,c;d"), TEXT_COMMA);
    assert_int_equal(separator_of("\"a,b\";c,d"), TEXT_SEMICOLON);
    assert_int_equal(separator_of("\"a\"\",b\";c"), TEXT_SEMICOLON);
    assert_int_equal(separator_of("5\" disk,c"), TEXT_COMMA);
    assert_int_equal(separator_of("a:b::c"), TEXT_COLONS);
}

/* The fields, each in brackets; "!" where one is refused. */
static void assert_fields(enum text_separator separator, const char *line, const char *expected) {
    char got[256] = "";
    struct text_field field = {.next = line};
    while (field.next != NULL) {
        char copy[32];
        size_t used = strlen(got);
        if (!text_field_take(field.next, line + strlen(line), separator, &field)) {
            strcat(got, "!");
            break;
        }
        size_t length = text_field_copy(&field, copy, sizeof copy);
        assert_true(length <= sizeof copy);
        snprintf(got + used, sizeof got - used, "[%.*s]", (int)length, copy);
    }
    assert_string_equal(got, expected);
}

static void test_fields(void **state) {
    (void)state;
    assert_fields(TEXT_COMMA, "a,b c,,d", "[a][b c][][d]");
    assert_fields(TEXT_COMMA, " a\t, b ,", "[a][b][]");
    assert_fields(TEXT_COMMA, "", "[]");
    assert_fields(TEXT_COMMA, "\"a,b\" ,\"c \"\"d\"\"\",\"\",\" \"", "[a,b][c \"d\"][][ ]");
    assert_fields(TEXT_COMMA, "a\"b\",c", "[a\"b\"][c]");
    assert_fields(TEXT_COMMA, "a,\"b", "[a]!");
    assert_fields(TEXT_COMMA, "\"a\"b,c", "!");
    assert_fields(TEXT_COMMA, "\"a\"\"", "!");
    assert_fields(TEXT_SEMICOLON, "a;b,c; \"d;e\"", "[a][b,c][d;e]");
    assert_fields(TEXT_COLONS, "a::b:c:: d ", "[a][b:c][d]");
    assert_fields(TEXT_TAB, "a\t\t b \t\"c\td\"", "[a][][b][c\td]");
    assert_fields(TEXT_BLANKS, "  a \t b  ", "[a][b]");
    assert_fields(TEXT_BLANKS, "\"a b\" c,d", "[a b][c,d]");
    assert_fields(TEXT_BLANKS, "\"a\"b c", "!");
    struct text_field field = {.text = "a\"\"b", .length = 4, .quoted = true};
    char copy[2];
    assert_int_equal(text_field_copy(&field, copy, 2), 3); /* it has 3 bytes, and there is room for 2 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_end_in_lf_crlf_and_cr),
        cmocka_unit_test(test_line_ends_around_a_buffers_end),
        cmocka_unit_test(test_lines_that_are_refused),
        cmocka_unit_test(test_lines_of_zstd_frames),
        cmocka_unit_test(test_zstd_that_expands),
        cmocka_unit_test(test_bad_zstd_is_refused),
        cmocka_unit_test(test_lines_of_a_source),
        cmocka_unit_test(test_whole_files),
        cmocka_unit_test(test_separators),
        cmocka_unit_test(test_fields),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
