/* Chooses the format of documents by a file's first lines (reader.h). */
#include "agileml/base/matrix_market.h"
#include "agileml/base/text_fields.h"
#include "agileml/base/text_foreign.h"
#include "apps/lda/reader.h"

#include <string.h>
#include <strings.h>

/* Whether the line is in lda-c format: `M word:count ...` or a single 0. */
static bool is_lda_c(const struct lda_reader *reader) {
    uint64_t number;
    const char *p = text_skip_blanks(reader->line);
    if (!lda_take_number(&p, UINT32_MAX, &number) || (!text_is_blank(*p) && *p != '\0')) {
        return false;
    }
    p = text_skip_blanks(p);
    return (lda_take_number(&p, UINT32_MAX, &number) && *p == ':') || (number == 0 && *p == '\0');
}

/* Whether the line is in libsvm format: a label with a sign or a point, or qid, before `index:value`. */
static bool is_libsvm(const struct lda_reader *reader) {
    uint64_t number;
    const char *end = reader->line + reader->length;
    const char *label = text_skip_blanks(reader->line);
    const char *p = label;
    while (p < end && !text_is_blank(*p)) {
        p++;
    }
    if (p == end || !lda_is_number(label, (size_t)(p - label))) {
        return false;
    }
    p = text_skip_blanks(p);
    return strncmp(p, "qid:", 4) == 0 || (lda_take_number(&p, UINT64_MAX, &number) && *p == ':');
}

/* Rejects other formats whose text would be read as words. */
static int refuse_others(const struct lda_reader *reader) {
    const char *p = text_skip_blanks(reader->line);
    if ((*p == '{' && strstr(p, "\":") != NULL) ||
        (*p == '[' && strchr("{[\"", *text_skip_blanks(p + 1)) != NULL && *text_skip_blanks(p + 1) != '\0')) {
        return lda_line_error(reader,
                              "JSON: expected documents as lines of text: jq -r '.text | gsub(\"\\n\"; \" \")' FILE "
                              ">NEW makes them of JSON lines (--format text takes all lines as they are)");
    }
    if (strncasecmp(p, "@relation", 9) == 0) {
        return lda_line_error(reader,
                              "ARFF: expected documents, for instance as a table (csv) with a column named text");
    }
    if (is_libsvm(reader)) {
        return lda_line_error(reader, "libsvm, a label and features: if they are counts of words, awk '{ $1 = NF - 1; "
                                      "print }' FILE >NEW makes lda-c of it");
    }
    const char *foreign = text_foreign_document(reader->line, reader->line + reader->length);
    return foreign != NULL ? lda_line_error(reader, "%s (--format text takes all lines as they are)", foreign) : 0;
}

int lda_recognize(struct lda_reader *reader) {
    uint64_t numbers[3] = {0};
    if (matrix_market_begins(reader->line, reader->line + reader->length)) {
        return LDA_FORMAT_MATRIX_MARKET;
    }
    if ((lda_take_numbers(reader, numbers, 1) && numbers[0] > 0) || lda_take_numbers(reader, numbers, 3)) {
        return LDA_FORMAT_UCI;
    }
    if (is_lda_c(reader)) {
        return LDA_FORMAT_LDA_C;
    }
    if (lda_is_vw(reader)) {
        return LDA_FORMAT_VW;
    }
    int result = refuse_others(reader);
    return result != 0 ? result : lda_recognize_table(reader);
}
