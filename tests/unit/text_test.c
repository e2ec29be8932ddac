/* Tests of agileml/base/text_input, text_lines and text_fields: the rules common to all readers of text.
 * ratings_test, mlr_samples_test and lda_corpus_test check the readers. */
#include "agileml/base/text_fields.h"
#include "agileml/base/text_lines.h"
#include "tests/files.h"
#include "tests/test.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

enum { BUFFER = 1 << 18, LONGEST = 1 << 20 };

static const char path[] = "file";

/* ---- Lines ---- */

/* Checks the lines, each in brackets after its number. */
static void assert_lines(const char *text, size_t size, const char *expected) {
    char got[512] = "";
    struct text_lines lines;
    struct error error = {0};
    write_bytes(path, text, size);
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
}

TEST(lines_end_in_lf_crlf_and_cr) {
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

/* Line ends before, across and after the end of a read buffer. */
TEST(line_ends_around_a_buffers_end) {
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    FREED char *text = malloc(2 * BUFFER);
    assert_non_null(text);
    for (size_t e = 0; e < 3; e++) {
        for (int shift = -3; shift <= 3; shift++) {
            size_t first = (size_t)(BUFFER + shift);
            memset(text, 'x', first);
            size_t size = first + (size_t)sprintf(text + first, "%ssecond%s%sfourth", ends[e], ends[e], ends[e]);
            write_bytes(path, text, size);
            CLOSED_BY(text_lines_close) struct text_lines lines;
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
        }
    }
}

static void assert_line_refused(const char *text, size_t size, size_t longest, const char *message) {
    CLOSED_BY(text_lines_close) struct text_lines lines;
    struct error error = {0};
    write_bytes(path, text, size);
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
}

TEST(lines_that_are_refused) {
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

TEST(lines_of_zstd_frames) {
    char made[512];
    size_t used = add_frame(made, 0, sizeof made,
                            "\xEF\xBB\xBF"
                            "a\nb",
                            6);
    memcpy(made + used, "\x50\x2A\x4D\x18\x02\0\0\0xy", 10); /* a skippable frame */
    used = add_frame(made, used + 10, sizeof made, "", 0);
    used = add_frame(made, used, sizeof made, "b\r\nc", 4);
    assert_lines(made, used, "1[a]2[bb]3[c]");
    assert_lines("\x5F\x2A\x4D\x18\0\0\0\0", 8, "");
}

/* A small file that decompresses to more than a buffer: the decoder still has output when the file has ended. */
TEST(zstd_that_expands) {
    enum { LINES = 500000 };
    FREED char *text = malloc(2 * LINES);
    char made[4096];
    for (size_t i = 0; i < LINES; i++) {
        memcpy(text + 2 * i, "x\n", 2);
    }
    size_t used = add_frame(made, 0, sizeof made, text, 2 * LINES);
    write_bytes(path, made, used);
    CLOSED_BY(text_lines_close) struct text_lines lines;
    struct error error = {0};
    char *line = text;
    size_t length;
    assert_int_equal(text_lines_open(&lines, path, LONGEST, &error), 0);
    while (line != NULL) {
        assert_int_equal(text_lines_next(&lines, &line, &length, &error), 0);
        assert_true(line == NULL || (length == 1 && line[0] == 'x'));
    }
    assert_int_equal(lines.number, LINES);
}

TEST(bad_zstd_is_refused) {
    char made[512];
    size_t used = add_frame(made, 0, sizeof made, "a\nb\n", 4);
    for (size_t size = 5; size < used; size++) {
        assert_line_refused(made, size, LONGEST, ": truncated zstd data: the file ends too early");
    }
    memcpy(made + used, "abcde", 5);
    assert_line_refused(made, used + 5, LONGEST, ": damaged zstd data: Unknown frame descriptor");
    memcpy(made + used, "\x28\xB5\x2F", 3); /* the beginning of a frame */
    assert_line_refused(made, used + 3, LONGEST, ": truncated zstd data: the file ends too early");
}

/* ---- Sources and whole files ---- */

/* A text_source of numbers "0\n1\n2\n"... below next[1]; fails if they do not fit in one call. */
static int numbers(void *context, void *bytes, size_t size, size_t *got, struct error *error) {
    unsigned *next = context;
    char *to = bytes;
    for (*got = 0; *got < size && next[0] < 2 * next[1]; next[0]++) {
        to[(*got)++] = next[0] % 2 == 0 ? (char)('0' + next[0] / 2 % 10) : '\n';
    }
    return next[0] == 2 * next[1] ? 0 : error_set(error, AML_EFAIL, "too many");
}

TEST(lines_of_a_source) {
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
    next[1] = 1 << 20; /* too many for one call */
    assert_int_equal(text_input_open_source(&input, "numbers", numbers, next, &error), AML_EFAIL);
    assert_null(input);
    assert_string_equal(error.text, "too many");
}

TEST(whole_files) {
    enum { SIZE = 3 * BUFFER / 2 };
    static char bytes[SIZE];
    memset(bytes, 'x', sizeof bytes);
    for (size_t size = 0; size <= SIZE; size += SIZE / 2) {
        write_bytes(path, bytes, size);
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
    }
}

/* ---- Fields ---- */

static enum text_separator separator_of(const char *line) {
    return text_separator_of(line, line + strlen(line));
}

TEST(separators) {
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

/* Checks the fields, each in brackets; "!" for a refused field. */
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

TEST(fields) {
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
    assert_int_equal(text_field_copy(&field, copy, 2), 3); /* 3 bytes, with room for 2 */
}

int main(void) {
    return tests_run(files_open, files_close);
}
