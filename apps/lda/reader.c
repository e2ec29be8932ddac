/* See reader.h. Lines, messages, numbers and documents, shared by the readers of all formats. */
#include "apps/lda/reader.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NUMBER_MAX = 64,    /* bytes of a decimal number with a point or an exponent */
    EXPONENT_MAX = 1000 /* largest exponent */
};

/* ---- Lines and messages ---- */

int lda_line_error(const struct lda_reader *reader, const char *format, ...) {
    char text[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (reader->run != NULL) {
        return error_set(reader->error, AML_EINPUT, "%s", text);
    }
    uint64_t line = reader->record != 0 ? reader->record : reader->lines.number;
    return error_set(reader->error, AML_EINPUT, "%s:%llu: %s", reader->lines.path, (unsigned long long)line, text);
}

void lda_note(const struct lda_corpus *corpus, const char *format, ...) {
    char text[320];
    if (corpus->note == NULL) {
        return;
    }
    int length = snprintf(text, sizeof text, "%s: ", text_input_name(corpus->path));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    corpus->note(corpus->note_context, text);
}

/* Takes the next line of the run. */
static int next_run_line(struct lda_reader *reader) {
    const struct lda_run *run = reader->run;
    const char *end = run->text + run->size;
    if (reader->next == end) {
        return 0;
    }
    if (reader->feed == NULL || reader->feed < reader->next) {
        const char *feed = memchr(reader->next, '\n', (size_t)(end - reader->next));
        reader->feed = feed != NULL ? feed : end;
    }
    const char *cr = memchr(reader->next, '\r', (size_t)(reader->feed - reader->next));
    const char *line_end = cr != NULL ? cr : reader->feed;
    reader->line = reader->next;
    reader->length = (size_t)(line_end - reader->next);
    reader->next = text_next_line(line_end);
    return 1;
}

int lda_next_line(struct lda_reader *reader) {
    if (reader->run != NULL) {
        return next_run_line(reader);
    }
    char *line;
    int result = text_lines_next(&reader->lines, &line, &reader->length, reader->error);
    reader->line = line;
    return result != 0 ? result : line != NULL;
}

bool lda_blank_line(const struct lda_reader *reader) {
    return text_skip_blanks(reader->line) == reader->line + reader->length;
}

int lda_bad_line(const struct lda_reader *reader, const char *expected) {
    int shown = text_shown(reader->length);
    return lda_line_error(reader, "expected %s, got '%.*s'%s", expected, shown, reader->line,
                          text_shown_end(reader->length));
}

/* ---- Numbers ---- */

bool lda_is_number(const char *text, size_t length) {
    static const char bytes[] = "0123456789+-.eE";
    bool number = length > 0 && *text != 'e' && *text != 'E';
    for (size_t i = 0; i < length && number; i++) {
        number = memchr(bytes, text[i], sizeof bytes - 1) != NULL;
    }
    return number;
}

bool lda_take_number(const char **text, uint64_t maximum, uint64_t *number) {
    const char *p = *text;
    uint64_t value = 0;
    if (*p < '0' || *p > '9') {
        return false;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (value > (maximum - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *number = value;
    *text = p;
    return value <= maximum;
}

bool lda_take_numbers(const struct lda_reader *reader, uint64_t *numbers, unsigned count) {
    const char *p = text_skip_blanks(reader->line);
    for (unsigned i = 0; i < count; i++) {
        const char *before = p;
        if (!lda_take_number(&p, UINT64_MAX / 16, &numbers[i])) {
            return false;
        }
        if (i + 1 < count && p == before) {
            return false;
        }
        const char *behind = text_skip_blanks(p);
        if (i + 1 < count && behind == p) {
            return false;
        }
        p = behind;
    }
    return p == reader->line + reader->length;
}

/* Evaluates a decimal number with a point or an exponent, exactly. Returns false when text[length] is no number.
 * Sets *fraction if it is not whole. A number above `maximum` gets the value maximum + 1. */
static bool evaluate(const char *text, size_t length, uint64_t maximum, uint64_t *value, bool *fraction) {
    const char *end = text + length;
    const char *mantissa_end = text;
    size_t point = 0; /* number of digits before the point */
    bool pointed = false;
    for (; mantissa_end < end && *mantissa_end != 'e' && *mantissa_end != 'E'; mantissa_end++) {
        bool digit = *mantissa_end >= '0' && *mantissa_end <= '9';
        if (!digit && (*mantissa_end != '.' || pointed)) {
            return false;
        }
        pointed = pointed || !digit;
        point += digit && !pointed;
    }
    int64_t exponent = 0;
    if (mantissa_end < end) {
        const char *p = mantissa_end + 1;
        bool minus = *p == '-';
        uint64_t size;
        p += minus || *p == '+' ? 1 : 0;
        if (!lda_take_number(&p, EXPONENT_MAX, &size) || p != end) {
            return false;
        }
        exponent = minus ? -(int64_t)size : (int64_t)size;
    }
    int64_t whole = (int64_t)point + exponent; /* number of digits before the point after the exponent is applied */
    *value = 0;
    *fraction = false;
    for (const char *p = text; p < mantissa_end; p++) {
        if (*p != '.') {
            *fraction = *fraction || (whole <= 0 && *p != '0');
            *value = whole > 0 && *value <= maximum ? *value * 10 + (uint64_t)(*p - '0') : *value;
            whole--;
        }
    }
    for (; whole > 0 && *value > 0 && *value <= maximum; whole--) {
        *value *= 10;
    }
    *value = *value <= maximum ? *value : maximum + 1;
    return mantissa_end > text + pointed;
}

int lda_take_count(const struct lda_reader *reader, const char **text, uint32_t *count) {
    const char *p = *text;
    uint64_t value;
    bool fraction = false;
    if (lda_take_number(&p, LDA_DOCUMENT_TOKENS_MAX, &value) && *p != '.' && *p != 'e' && *p != 'E') {
        *count = (uint32_t)value;
        *text = p;
        return 0;
    }
    bool minus = **text == '-';
    const char *digits = *text + (minus ? 1 : 0);
    size_t length = strspn(digits, "0123456789+-.eE");
    if (length > NUMBER_MAX || !evaluate(digits, length, LDA_DOCUMENT_TOKENS_MAX, &value, &fraction)) {
        return 1;
    }
    if (fraction) {
        return lda_line_error(reader,
                              "count %.*s: expected a whole number: how often a word occurs, not a weight such as "
                              "tf-idf",
                              (int)(digits + length - *text), *text);
    }
    if ((minus && value > 0) || value > LDA_DOCUMENT_TOKENS_MAX) {
        return lda_line_error(reader, "count %.*s: expected a whole number of at most %d",
                              (int)(digits + length - *text), *text, LDA_DOCUMENT_TOKENS_MAX);
    }
    *count = (uint32_t)value;
    *text = digits + length;
    return 0;
}

/* ---- A document ---- */

void lda_add_word(struct lda_reader *reader, uint32_t word, uint32_t count) {
    if (reader->entry_count == reader->entry_capacity) {
        reader->entry_capacity = reader->entry_capacity > 0 ? 2 * reader->entry_capacity : 1024;
        reader->entries = memory_resized(reader->entries, reader->entry_capacity, sizeof *reader->entries);
    }
    reader->entries[reader->entry_count++] = (struct lda_entry){word, count};
}

int lda_add_name(struct lda_reader *reader, const char *word, size_t length, uint32_t count) {
    const struct lda_corpus *corpus = reader->corpus;
    if (corpus->stop_words != NULL && lda_vocabulary_find(corpus->stop_words, word, length) >= 0) {
        return 0;
    }
    int64_t number = lda_vocabulary_find(corpus->vocabulary, word, length);
    if (number < 0 && corpus->closed) {
        return 0;
    }
    if (number < 0 && corpus->vocabulary->count == LDA_VOCABULARY_MAX) {
        return error_set(reader->error, AML_ELIMIT, "%s: more than %d different words", reader->lines.path,
                         LDA_VOCABULARY_MAX);
    }
    lda_add_word(reader, number >= 0 ? (uint32_t)number : lda_vocabulary_add(corpus->vocabulary, word, length), count);
    return 0;
}

static int add_word(void *context, const char *word, size_t length) {
    return lda_add_name(context, word, length, 1);
}

int lda_add_text(struct lda_reader *reader, const char *text, size_t length) {
    size_t at = 0;
    int result = tokenize(reader->tokenizer, text, length, add_word, reader, &at);
    if (result == AML_EINPUT) {
        return lda_line_error(reader, "byte %zu (0x%02X): expected text in UTF-8", at + 1, (unsigned char)text[at]);
    }
    return result;
}

static int entry_order(const void *a, const void *b) {
    const struct lda_entry *left = a;
    const struct lda_entry *right = b;
    return left->word < right->word ? -1 : left->word > right->word;
}

/* Passes the bag of `count` words to `each` as document `number`. */
static int pass(struct lda_reader *reader, uint64_t number, uint32_t count, uint32_t tokens) {
    const struct lda_bag bag = {.number = number + reader->corpus->first_number,
                                .words = reader->bag,
                                .counts = count > 0 ? reader->bag + count : NULL,
                                .count = count,
                                .tokens = tokens,
                                .id = reader->id,
                                .id_length = reader->id_length};
    reader->size.end = bag.number + 1;
    reader->passed = number + 1;
    reader->id = NULL;
    return reader->each(reader->context, &bag);
}

int lda_pass_empty(struct lda_reader *reader, uint64_t end) {
    int result = 0;
    const char *id = reader->id;
    reader->id = NULL;
    while (reader->corpus->empty && reader->passed < end && result == 0) {
        result = pass(reader, reader->passed, 0, 0);
    }
    reader->id = id;
    return result;
}

int lda_end_document(struct lda_reader *reader, uint64_t number) {
    size_t count = 0;
    uint64_t tokens = 0;
    if (number >= LDA_DOCUMENTS_MAX) {
        return error_set(reader->error, AML_ELIMIT, "%s: more than %d documents", reader->corpus->path,
                         LDA_DOCUMENTS_MAX);
    }
    int result = lda_pass_empty(reader, number);
    if (result != 0) {
        return result;
    }
    if (reader->entry_count == 0 && reader->corpus->empty) {
        return pass(reader, number, 0, 0);
    }
    if (reader->entry_count == 0) {
        reader->first_left_out = reader->left_out == 0 ? number : reader->first_left_out;
        reader->left_out++;
        return 0;
    }
    qsort(reader->entries, reader->entry_count, sizeof *reader->entries, entry_order);
    for (size_t i = 0; i < reader->entry_count; i++) { /* adds up the counts of equal words */
        tokens += reader->entries[i].count;
        if (count > 0 && reader->entries[count - 1].word == reader->entries[i].word) {
            uint64_t sum = (uint64_t)reader->entries[count - 1].count + reader->entries[i].count;
            reader->entries[count - 1].count = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
        } else {
            reader->entries[count++] = reader->entries[i];
        }
    }
    reader->entry_count = 0;
    if (count > LDA_DOCUMENT_WORDS_MAX || tokens > LDA_DOCUMENT_TOKENS_MAX) {
        return error_set(reader->error, AML_ELIMIT,
                         "%s: document %llu has %llu tokens of %zu words: expected at most %d tokens of %d words",
                         reader->corpus->path, (unsigned long long)number + 1, (unsigned long long)tokens, count,
                         LDA_DOCUMENT_TOKENS_MAX, LDA_DOCUMENT_WORDS_MAX);
    }
    if (2 * count > reader->bag_capacity) {
        reader->bag_capacity = 4 * count;
        reader->bag = memory_resized(reader->bag, reader->bag_capacity, sizeof *reader->bag);
    }
    for (size_t i = 0; i < count; i++) {
        reader->bag[i] = reader->entries[i].word;
        reader->bag[count + i] = reader->entries[i].count;
    }
    if (reader->words == 0 && reader->bag[count - 1] >= reader->size.words) {
        reader->size.words = reader->bag[count - 1] + 1;
    }
    reader->size.documents++;
    reader->size.tokens += tokens;
    return pass(reader, number, (uint32_t)count, (uint32_t)tokens);
}
