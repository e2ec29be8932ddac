/* Inside the readers of documents (corpus.h): a text that is being read, the document that is being collected, and the
 * formats. The functions of the formats return as lda_corpus_read does. */
#ifndef APPS_LDA_READER_H
#define APPS_LDA_READER_H

#include "agileml/base/text_lines.h"
#include "apps/lda/corpus.h"
#include "apps/lda/tokens.h"

/* A word of the document that is read. */
struct lda_entry {
    uint32_t word, count;
};

struct lda_reader {
    const struct lda_corpus *corpus;
    struct text_lines lines;
    const char *line; /* the line that lda_next_line found, [length] and a 0 or a line end behind */
    size_t length;
    uint64_t record;           /* the number of the line that messages name; 0: of `line` */
    const struct lda_run *run; /* NULL: a file is read */
    const char *next;          /* of the run */
    const char *feed;          /* the run's first LF from `next` on */
    int (*each)(void *context, const struct lda_bag *bag);
    void *context;
    struct lda_corpus_size size;
    uint32_t words; /* number of words by the header or the vocabulary; 0: not known */
    struct lda_entry *entries;
    size_t entry_count, entry_capacity;
    uint32_t *bag; /* words and counts */
    size_t bag_capacity;
    uint64_t passed; /* documents passed on or left out: those with lower numbers */
    const char *id;  /* of the document, [id_length]; NULL: it has none */
    size_t id_length;
    struct tokenizer *tokenizer; /* of the formats with text */
    struct error *error;
};

enum {
    LDA_LINE_MAX_BYTES = 1 << 26 /* bytes of a line */
};

/* ---- Lines and messages ---- */

/* Returns 1 with a line, 0 at the end of the file, or an error's code. */
int lda_next_line(struct lda_reader *reader);
/* Whether the line has nothing but blanks. */
bool lda_blank_line(const struct lda_reader *reader);
/* Sets *error to what is wrong with the line, and returns AML_EINPUT. Who passes a run adds its file and number. */
__attribute__((format(printf, 2, 3))) int lda_line_error(const struct lda_reader *reader, const char *format, ...);
/* The message "expected ..., got '...'", with the line. */
int lda_bad_line(const struct lda_reader *reader, const char *expected);
/* Says one line about the file, after its path. */
__attribute__((format(printf, 2, 3))) void lda_note(const struct lda_corpus *corpus, const char *format, ...);

/* ---- Numbers ---- */

/* Whether text[length] has the form of a number: signs, digits, points and exponents alone. */
bool lda_is_number(const char *text, size_t length);
/* Reads a decimal number of at most `maximum` at *text and moves it behind; false when there is none. */
bool lda_take_number(const char **text, uint64_t maximum, uint64_t *number);
/* Reads `count` numbers with blanks between them; the line has nothing else. */
bool lda_take_numbers(const struct lda_reader *reader, uint64_t *numbers, unsigned count);
/* Reads how often a word occurs at *text, and moves it behind: a whole number, also written as 4.0 or 4e0. Returns 0;
 * 1 when something else is there; AML_EINPUT after lda_line_error for a fraction, a negative or a too large number. */
int lda_take_count(const struct lda_reader *reader, const char **text, uint32_t *count);

/* ---- A document ---- */

void lda_add_word(struct lda_reader *reader, uint32_t word, uint32_t count);
/* Adds a word by its name: numbers it if it is new. Leaves out stop words, and new words of a closed vocabulary. */
int lda_add_name(struct lda_reader *reader, const char *word, size_t length, uint32_t count);
/* Adds the words of text[length]. */
int lda_add_text(struct lda_reader *reader, const char *text, size_t length);
/* Passes the words that were added to `each`, as document `number` of the file. */
int lda_end_document(struct lda_reader *reader, uint64_t number);
/* Passes on, as documents without words, those before number `end` that were not passed on; if corpus->empty. */
int lda_pass_empty(struct lda_reader *reader, uint64_t end);

/* ---- Formats; the file's first line is read ---- */

/* Chooses the format by the first lines. Returns an enum lda_format, or AML_EINPUT for data of a kind that is none of
 * ours but would be read as text. */
int lda_recognize(struct lda_reader *reader);

/* uci and MatrixMarket. Reads the header. */
int lda_counts_header(struct lda_reader *reader, enum lda_format format, struct lda_head *head);
/* Reads up to `most` lines of counts, to the end. *count: how many there are. */
int lda_counts_lines(struct lda_reader *reader, const struct lda_head *head, uint64_t most, uint64_t *count);
int lda_read_counts(struct lda_reader *reader, enum lda_format format);

int lda_lda_c_line(struct lda_reader *reader, uint64_t number);

/* Vowpal Wabbit's lines. */
int lda_read_vw(struct lda_reader *reader);
/* Whether the first line looks like one of Vowpal Wabbit's or BigARTM's. */
bool lda_is_vw(const struct lda_reader *reader);

/* Tables of documents, and MALLET's lines. */
int lda_read_table(struct lda_reader *reader);
int lda_read_mallet(struct lda_reader *reader);
/* What the beginning of the file looks like: LDA_FORMAT_TABLE, LDA_FORMAT_MALLET, LDA_FORMAT_TEXT, or AML_EINPUT for a
 * table without a column that is known to be text. */
int lda_recognize_table(struct lda_reader *reader);

#endif
