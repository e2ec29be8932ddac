/* Tests of agileml/base/matrix_market: which headers are accepted, and the reasons for refusals. */
#include "agileml/base/matrix_market.h"
#include "tests/test.h"

#include "agileml/base/text_fields.h"

#include <inttypes.h>

/* Takes lines up to the header's end or a wrong line. Returns as matrix_market_take; 0: the header has no end. */
static int take_head(struct matrix_market *head, const char *text, struct error *error) {
    int code = 0;
    *head = (struct matrix_market){.lines = 0};
    while (code == 0 && *text != '\0') {
        size_t length = strcspn(text, "\r\n");
        code = matrix_market_take(head, text, text + length, error);
        text += length;
        text = *text == '\0' ? text : text_next_line(text);
    }
    return code;
}

static void assert_head(const char *text, const char *expected) {
    char got[128];
    struct matrix_market head;
    struct error error = {0};
    assert_int_equal(take_head(&head, text, &error), 1);
    snprintf(got, sizeof got, "%d %" PRIu64 "x%" PRIu64 " %" PRIu64 " line %" PRIu64, (int)head.field, head.rows,
             head.columns, head.entries, head.lines);
    assert_string_equal(got, expected);
}

TEST(heads) {
    assert_head("%%MatrixMarket matrix coordinate real general\n30 40 9\n28 4 3.0\n", "0 30x40 9 line 2");
    assert_head("%%matrixmarket MATRIX Coordinate\tINTEGER  General \r\n%\n% by hand\r\n \r\n 3 4  5 \r\n1 1 1\r\n",
                "1 3x4 5 line 5");
    assert_head("%%MatrixMarket matrix coordinate pattern general\r%metadata\r18446744073709551615 0 0\r",
                "2 18446744073709551615x0 0 line 3");
    assert_head("%%MatrixMarket matrix coordinate double general\n1 1 1                        \n", "0 1x1 1 line 2");
    assert_head("%%MatrixMarket matrix coordinate unsigned-integer general\n1 1 1\n", "1 1x1 1 line 2");
    assert_head("%%MatrixMarket matrix coordinate real general\n2 3 0", "0 2x3 0 line 2");
}

TEST(symmetric_heads_where_wanted) {
    static const char *const banners[] = {"%%MatrixMarket matrix coordinate pattern symmetric",
                                          "%%MatrixMarket matrix coordinate pattern general"};
    for (size_t b = 0; b < 2; b++) {
        struct matrix_market head = {.halves = true};
        struct error error = {0};
        assert_int_equal(matrix_market_take(&head, banners[b], banners[b] + strlen(banners[b]), &error), 0);
        assert_int_equal(head.symmetric, b == 0);
        assert_int_equal(head.field, MATRIX_MARKET_PATTERN);
    }
}

TEST(banners_are_recognized) {
    static const struct {
        const char *line;
        bool begins;
    } lines[] = {{"%%MatrixMarket matrix coordinate real general", true},
                 {"%%MATRIXMARKET\tmatrix array", true},
                 {"%%MatrixMarket", true},
                 {"%%MatrixMarketing", false},
                 {"%MatrixMarket matrix", false},
                 {"%%Matrix", false},
                 {"", false}};
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++) {
        assert_int_equal(matrix_market_begins(lines[l].line, lines[l].line + strlen(lines[l].line)), lines[l].begins);
    }
}

static void assert_refused(const char *text, uint64_t line, const char *message) {
    struct matrix_market head;
    struct error error = {0};
    assert_int_equal(take_head(&head, text, &error), AML_EINPUT);
    assert_int_equal(head.lines, line);
    assert_non_null(strstr(error.text, message));
}

TEST(what_is_refused) {
    assert_refused("%%MatrixMarket matrix array real general\n2 2\n", 1, "a dense MatrixMarket matrix (array)");
    assert_refused("%%MatrixMarket matrix coordinate complex general\n1 1 1\n", 1, "a complex MatrixMarket matrix");
    assert_refused("%%MatrixMarket matrix coordinate real symmetric\n1 1 1\n", 1, "that is symmetric");
    assert_refused("%%MatrixMarket matrix coordinate real Skew-Symmetric\n1 1 1\n", 1, "that is Skew-Symmetric");
    assert_refused("%%MatrixMarket matrix coordinate pattern hermitian\n1 1 1\n", 1, "that is hermitian");
    assert_refused("%%MatrixMarket vector coordinate real general\n1 1 1\n", 1, "got '%%MatrixMarket vector");
    assert_refused("%%MatrixMarket matrix coordinate real\n1 1 1\n", 1, "expected '%%MatrixMarket matrix");
    assert_refused("%%MatrixMarket matrix coordinate real general more\n1 1 1\n", 1, "expected '%%MatrixMarket matrix");
    assert_refused("1 1 1\n", 1, "got '1 1 1'");
    assert_refused("%%MatrixMarket matrix coordinate real general\n% size\n1 1\n", 3, "size line");
    assert_refused("%%MatrixMarket matrix coordinate real general\n1 1 1 1\n", 2, "got '1 1 1 1'");
    assert_refused("%%MatrixMarket matrix coordinate real general\n1 -1 1\n", 2, "got '1 -1 1'");
    assert_refused("%%MatrixMarket matrix coordinate real general\n1 1 18446744073709551616\n", 2, "size line");
    assert_refused("%%MatrixMarket matrix coordinate real general\n0 9 5\n", 2, "'0 9 5': a matrix without rows");
    assert_refused("%%MatrixMarket matrix coordinate real general\n9 0 5\n", 2, "'9 0 5': a matrix without columns");
    assert_refused("%%MatrixMarket matrix coordinate real general\n0 0 1\n", 2, "'0 0 1': a matrix without rows");
}
