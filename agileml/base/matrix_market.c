/* See matrix_market.h. */
#include "agileml/base/matrix_market.h"

#include "agileml/base/text_fields.h"

#include <string.h>
#include <strings.h>

enum { WORDS = 5 };

static const char banner[] = "%%MatrixMarket";

/* A word of the banner or a number of the size line. */
struct word {
    const char *text;
    size_t length;
};

static bool is_word(const struct word *word, const char *expected) {
    return word->length == strlen(expected) && strncasecmp(word->text, expected, word->length) == 0;
}

/* Splits the line at blanks. Returns the number of words, at most `most` + 1; stores only the first `most`. */
static size_t split_words(const char *line, const char *end, struct word *words, size_t most) {
    size_t count = 0;
    const char *p = line;
    for (;;) {
        while (p < end && text_is_blank(*p)) {
            p++;
        }
        if (p == end || count == most) {
            return count + (p < end);
        }
        words[count].text = p;
        while (p < end && !text_is_blank(*p)) {
            p++;
        }
        words[count].length = (size_t)(p - words[count].text);
        count++;
    }
}

bool matrix_market_begins(const char *line, const char *end) {
    size_t length = sizeof banner - 1;
    return (size_t)(end - line) >= length && strncasecmp(line, banner, length) == 0 &&
           (line + length == end || text_is_blank(line[length]));
}

/* Rejects unsupported kinds of matrices, and says in the message how to write a supported one. */
static int check_kind(struct matrix_market *head, const struct word words[WORDS], struct error *error) {
    const struct word *format = &words[2];
    const struct word *symmetry = &words[4];
    if (is_word(format, "array")) {
        return error_set(error, AML_EINPUT,
                         "a dense MatrixMarket matrix (array): expected a sparse one (coordinate); scipy.io.mmwrite "
                         "writes it from scipy.sparse.coo_matrix(A)");
    }
    if (is_word(&words[3], "complex")) {
        return error_set(error, AML_EINPUT, "a complex MatrixMarket matrix: expected real, integer or pattern");
    }
    head->symmetric = head->halves && is_word(symmetry, "symmetric");
    if ((is_word(symmetry, "symmetric") && !head->halves) || is_word(symmetry, "skew-symmetric") ||
        is_word(symmetry, "hermitian")) {
        return error_set(error, AML_EINPUT,
                         "a MatrixMarket matrix that is %.*s, so that half of it is left out: expected general; "
                         "scipy.io.mmwrite writes it with symmetry='general'",
                         text_shown(symmetry->length), symmetry->text);
    }
    return 0;
}

static int take_banner(struct matrix_market *head, const char *line, const char *end, struct error *error) {
    static const struct {
        const char *name;
        enum matrix_market_field field;
    } fields[] = {{"real", MATRIX_MARKET_REAL},
                  {"double", MATRIX_MARKET_REAL},
                  {"integer", MATRIX_MARKET_INTEGER},
                  {"unsigned-integer", MATRIX_MARKET_INTEGER},
                  {"pattern", MATRIX_MARKET_PATTERN}};
    struct word words[WORDS];
    size_t count = split_words(line, end, words, WORDS);
    int code = count == WORDS ? check_kind(head, words, error) : 0;
    if (code != 0) {
        return code;
    }
    for (size_t f = 0; f < sizeof fields / sizeof fields[0] && count == WORDS; f++) {
        if (is_word(&words[0], banner) && is_word(&words[1], "matrix") && is_word(&words[2], "coordinate") &&
            is_word(&words[3], fields[f].name) && (head->symmetric || is_word(&words[4], "general"))) {
            head->field = fields[f].field;
            return 0;
        }
    }
    const struct word got = {line, (size_t)(end - line)};
    return error_set(error, AML_EINPUT,
                     "expected '%%%%MatrixMarket matrix coordinate real|integer|pattern general', got '%.*s'%s",
                     text_shown(got.length), line, text_shown_end(got.length));
}

/* Reads a decimal number. Returns false when the word is not a number, or a number above 2^64 - 1. */
static bool read_number(const struct word *word, uint64_t *number) {
    *number = 0;
    for (size_t i = 0; i < word->length; i++) {
        if (word->text[i] < '0' || word->text[i] > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(word->text[i] - '0');
        if (*number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *number = *number * 10 + digit;
    }
    return true;
}

static int take_size(struct matrix_market *head, const char *line, const char *end, struct error *error) {
    struct word words[3];
    const struct word whole = {line, (size_t)(end - line)};
    if (split_words(line, end, words, 3) != 3 || !read_number(&words[0], &head->rows) ||
        !read_number(&words[1], &head->columns) || !read_number(&words[2], &head->entries)) {
        return error_set(error, AML_EINPUT, "expected MatrixMarket's size line 'rows columns entries', got '%.*s'%s",
                         text_shown(whole.length), line, text_shown_end(whole.length));
    }
    if (head->entries > 0 && (head->rows == 0 || head->columns == 0)) {
        return error_set(error, AML_EINPUT,
                         "MatrixMarket's size line '%.*s': a matrix without %s has no entries, expected 'rows columns "
                         "entries'",
                         text_shown(whole.length), line, head->rows == 0 ? "rows" : "columns");
    }
    return 1;
}

int matrix_market_take(struct matrix_market *head, const char *line, const char *end, struct error *error) {
    struct word first;
    head->lines++;
    if (head->lines == 1) {
        return take_banner(head, line, end, error);
    }
    if (split_words(line, end, &first, 1) == 0 || *line == '%') {
        return 0;
    }
    return take_size(head, line, end, error);
}
