/* Reads documents as bags of words, from the usual formats of topic models. The same input gives the same documents,
 * words and numbers in every process. Plain, gzip or zstd:
 *
 *     uci            UCI's bag of words: the numbers of documents, words and lines that follow, in three lines or one;
 *                    then lines `document word count`, numbers from 1, in the order of documents
 *     lda-c          Blei's: a document a line, `M word:count ...`, M distinct words, numbers from 0
 *     matrix-market  as gensim and scipy write it: rows are documents, columns are words, in any order of rows
 *     text           a document a line, or a folder of files of which each is one (in the order of their names): words
 *                    are runs of letters and digits of any alphabet with at least one letter, apostrophes inside
 *                    included, made lower case
 *     vw             Vowpal Wabbit's and BigARTM's: a document a line, `id |namespace word:count ...`; the words of one
 *                    namespace
 *     table          csv, tsv: a document a record, with the text in one column and perhaps an id in another, found by
 *                    their names in the header; a field in quotes may go over several lines
 *     mallet         a document a line, `id label text`, or `id text` with a tab between
 *
 * Counts may be written as 4.0. A fraction or a negative number is an error. */
#ifndef APPS_LDA_CORPUS_H
#define APPS_LDA_CORPUS_H

#include "apps/lda/vocabulary.h"

#include <stdbool.h>

enum {
    LDA_DOCUMENT_WORDS_MAX = 1 << 17,       /* distinct words of a document */
    LDA_DOCUMENT_TOKENS_MAX = 1 << 25,      /* tokens of a document */
    LDA_DOCUMENTS_MAX = 2000 * 1000 * 1000, /* documents of a file */
    LDA_SORTED_CELLS_MAX = 1 << 30,         /* entries of a matrix whose rows are in any order */
    LDA_PARTS_HEADER_MAX = 1 << 14          /* bytes of the header of a file that is read in parts */
};

enum lda_format {
    LDA_FORMAT_AUTO = 0,
    LDA_FORMAT_UCI,
    LDA_FORMAT_LDA_C,
    LDA_FORMAT_MATRIX_MARKET,
    LDA_FORMAT_TEXT,
    LDA_FORMAT_VW,
    LDA_FORMAT_TABLE,
    LDA_FORMAT_MALLET
};

struct lda_corpus {
    const char *path;
    enum lda_format format;
    /* The words. uci, lda-c, matrix-market: NULL or empty when words have no names; otherwise a word beyond the last
     * name is an error. Other formats: not NULL; new words are added, or skipped if `closed`. */
    struct lda_vocabulary *vocabulary;
    bool closed;
    const struct lda_vocabulary *stop_words; /* names of words that are not counted; NULL: none */
    unsigned minimum_length;                 /* text, table, mallet: least characters of a word */
    uint64_t first_number;                   /* added to the documents' numbers */
    bool empty;                              /* documents without tokens are also passed on */
    const char *columns;                     /* table: `id=NAME|N,text=NAME|N`; NULL: known names */
    const char *name_space;                  /* vw: the namespace whose words count; NULL: the first line suggests it */
    /* Receives a line that describes the input. NULL: not wanted. */
    void (*note)(void *context, const char *text);
    void *note_context;
};

/* A document with at least one token, unless corpus->empty. The reader owns the arrays. */
struct lda_bag {
    uint64_t number;        /* its line, record, docID - 1, or its file's place in the folder; from 0, ascending */
    const uint32_t *words;  /* [count], ascending */
    const uint32_t *counts; /* [count], at least 1 */
    uint32_t count;
    uint32_t tokens; /* the sum of counts */
    const char *id;  /* [id_length], the document's id in the file; NULL: it has none */
    size_t id_length;
};

/* The size of the whole input. */
struct lda_corpus_size {
    uint64_t documents; /* documents that are not empty */
    uint64_t end;       /* the last document's number + 1 */
    uint64_t tokens;
    uint32_t words; /* number of words: of the vocabulary, or by the file's header, or the highest number plus 1 */
};

/* The formats' names, in the order of the enum; NULL ends them. */
extern const char *const lda_formats[];
/* The texts of --help for the options that choose how files are read. */
#define LDA_FORMAT_HELP    "auto, uci, lda-c, matrix-market, text, vw, table or mallet (docs/lda.md)"
#define LDA_COLUMNS_HELP   "table: id=NAME,text=NAME, or numbers from 1"
#define LDA_NAMESPACE_HELP "vw: the namespace whose words count"
/* The texts of --help for the options of words. */
#define LDA_STOP_WORDS_HELP "words, one a line, that do not count"
#define LDA_ENGLISH_HELP    "words of a built-in English list do not count"
#define LDA_MINIMUM_HELP    "characters of a word, at least"
/* Checks the text of --columns before files are read. Returns 0 or AML_EINPUT. */
int lda_columns_check(const char *columns, struct error *error);
/* Whether words are numbers, as in uci, lda-c and MatrixMarket. */
bool lda_format_numbers_words(enum lda_format format);

/* Calls `each` for each document of `corpus`. Ends at its first result other than 0 and returns it. Otherwise
 * returns 0, AML_EINPUT with file, line and what was expected, AML_ELIMIT or AML_EFAIL. With format auto a folder is
 * text, and a file's first line decides. `size` may be NULL. */
int lda_corpus_read(const struct lda_corpus *corpus, int (*each)(void *context, const struct lda_bag *bag),
                    void *context, struct lda_corpus_size *size, struct error *error);

/* ---- Files of lines in parts: uci, lda-c, and MatrixMarket with rows in order ---- */

/* What the beginning of a file shows. */
struct lda_head {
    enum lda_format format; /* not LDA_FORMAT_AUTO */
    /* The header of uci and MatrixMarket: */
    uint64_t begin;     /* bytes of the text up to the end of the header's last line */
    uint64_t documents; /* at most LDA_DOCUMENTS_MAX */
    uint32_t words;
    uint64_t counts; /* lines that follow */
    bool pattern;    /* the lines have no counts: each count is 1 */
};

/* Whole lines of a file, each with its end. For uci and MatrixMarket, lines of whole documents. */
struct lda_run {
    const char *text; /* [size], and a final 0 */
    size_t size;
    size_t skip;     /* bytes of the file's header at the run's beginning */
    uint64_t number; /* lda-c: number of the run's first document, without corpus->first_number */
};

/* Reads the beginning of the file corpus->path. Returns what lda_corpus_read returns. */
int lda_read_head(const struct lda_corpus *corpus, struct lda_head *head, struct error *error);

/* Passes the documents of a run to `each`, in any thread. No other thread may change the vocabulary meanwhile.
 * Returns what lda_corpus_read returns. If *at is not NULL, the message is about the line there, and lacks file and
 * line number. Only for formats whose words are numbers. */
int lda_read_run(const struct lda_corpus *corpus, const struct lda_head *head, const struct lda_run *run,
                 int (*each)(void *context, const struct lda_bag *bag), void *context, const char **at,
                 struct error *error);

/* Rejects a file whose number of lines of counts differs from its header. Returns 0 or AML_EINPUT. */
int lda_check_counts(const char *path, const struct lda_head *head, uint64_t count, struct error *error);
/* The message's text when there are more lines of counts. */
extern const char lda_counts_end[];
/* Reports that the file has no document with words. Returns AML_EINPUT. */
int lda_no_document(const char *path, struct error *error);

/* ---- Several files ---- */

/* Like lda_corpus_read, for the files of an option's values (agileml/input/list.h), with documents numbered from
 * file to file. A value that is a folder contains texts, each a document. Ignores corpus->path and first_number. */
int lda_corpora_read(const struct lda_corpus *corpus, const struct aml_strings *values,
                     int (*each)(void *context, const struct lda_bag *bag), void *context, struct error *error);

#endif
