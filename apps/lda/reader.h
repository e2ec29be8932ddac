/* Internals of the readers of documents (corpus.h): the text that is read, the document that is collected, and the
 * formats. The formats' functions return what lda_corpus_read returns. */
#ifndef APPS_LDA_READER_H
#define APPS_LDA_READER_H

#include "agileml/base/text_lines.h"
#include "apps/lda/corpus.h"
#include "apps/lda/tokens.h"

/* A word of the document that is being read. */
struct lda_entry {
    uint32_t word, count;
};

struct lda_reader {
    const struct lda_corpus *corpus;
    struct text_lines lines;
    const char *line; /* [length], the line that lda_next_line found; a 0 or a line end follows */
    size_t length;
    uint64_t record;           /* number of the line that messages name; 0: that of `line` */
    const struct lda_run *run; /* NULL: a file is being read */
    const char *next;          /* next byte of the run */
    const char *feed;          /* the run's first LF at or after `next` */
    int (*each)(void *context, const struct lda_bag *bag);
    void *context;
    struct lda_corpus_size size;
    uint32_t words; /* number of words by the header or the vocabulary; 0: not known */
    struct lda_entry *entries;
    size_t entry_count, entry_capacity;
    uint32_t *bag; /* words and counts */
    size_t bag_capacity;
    uint64_t passed; /* number of documents passed on or left out: all with lower numbers */
    uint64_t left_out, first_left_out; /* documents without words; the first one's number */
    const char *id;  /* [id_length], id of the document; NULL: it has none */
    size_t id_length;
    struct tokenizer *tokenizer; /* for the formats with text */
    struct error *error;
};

enum {
    LDA_LINE_MAX_BYTES = 1 << 26 /* bytes of a line */
};

/* ---- Lines and messages ---- */

/* Returns 1 with a line, 0 at the end of the file, or an error's code. */
int lda_next_line(struct lda_reader *reader);
/* Whether the line has only blanks. */
bool lda_blank_line(const struct lda_reader *reader);
/* Sets *error to the error in the line, and returns AML_EINPUT. For a run the caller adds file and line number. */
__attribute__((format(printf, 2, 3))) int lda_line_error(const struct lda_reader *reader, const char *format, ...);
/* Reports "expected ..., got '...'" for the line. Returns AML_EINPUT. */
int lda_bad_line(const struct lda_reader *reader, const char *expected);
/* Passes one line about the file, with its path, to corpus->note. */
__attribute__((format(printf, 2, 3))) void lda_note(const struct lda_corpus *corpus, const char *format, ...);

/* ---- Numbers ---- */

/* Whether text[length] looks like a number: only signs, digits, points and exponents. */
bool lda_is_number(const char *text, size_t length);
/* Reads a decimal number of at most `maximum` at *text and moves *text to its end. Returns false when there is none. */
bool lda_take_number(const char **text, uint64_t maximum, uint64_t *number);
/* Reads `count` numbers separated by blanks. The line may have nothing else. */
bool lda_take_numbers(const struct lda_reader *reader, uint64_t *numbers, unsigned count);
/* Reads a word's count at *text, and moves *text to its end. A count is a whole number, also written as 4.0 or 4e0.
 * Returns 0; 1 when the text is no number; AML_EINPUT after lda_line_error for a fraction, a negative or a too large
 * number. */
int lda_take_count(const struct lda_reader *reader, const char **text, uint32_t *count);

/* ---- A document ---- */

void lda_add_word(struct lda_reader *reader, uint32_t word, uint32_t count);
/* Adds a word by its name, and numbers it if it is new. Leaves out stop words, and new words if the vocabulary is
 * closed. */
int lda_add_name(struct lda_reader *reader, const char *word, size_t length, uint32_t count);
/* Adds the words of text[length]. */
int lda_add_text(struct lda_reader *reader, const char *text, size_t length);
/* Passes the added words to `each`, as document `number` of the file. */
int lda_end_document(struct lda_reader *reader, uint64_t number);
/* If corpus->empty, passes on documents without words for all numbers below `end` that were not passed on. */
int lda_pass_empty(struct lda_reader *reader, uint64_t end);

/* ---- Formats; the file's first line has been read ---- */

/* Chooses the format by the first lines. Returns an enum lda_format, or AML_EINPUT for an unsupported format that
 * would be read as text. */
int lda_recognize(struct lda_reader *reader);

/* Reads the header of uci or MatrixMarket. */
int lda_counts_header(struct lda_reader *reader, enum lda_format format, struct lda_head *head);
/* Reads up to `most` lines of counts, to the end. Sets *count to their number. */
int lda_counts_lines(struct lda_reader *reader, const struct lda_head *head, uint64_t most, uint64_t *count);
int lda_read_counts(struct lda_reader *reader, enum lda_format format);

int lda_lda_c_line(struct lda_reader *reader, uint64_t number);

/* Reads Vowpal Wabbit's lines. */
int lda_read_vw(struct lda_reader *reader);
/* Whether the first line looks like a line of Vowpal Wabbit or BigARTM. */
bool lda_is_vw(const struct lda_reader *reader);

/* Read tables of documents, and MALLET's lines. */
int lda_read_table(struct lda_reader *reader);
int lda_read_mallet(struct lda_reader *reader);
/* Returns the likely format of the file's beginning: LDA_FORMAT_TABLE, LDA_FORMAT_MALLET or LDA_FORMAT_TEXT. Returns
 * AML_EINPUT for a table without a known text column. */
int lda_recognize_table(struct lda_reader *reader);

#endif
