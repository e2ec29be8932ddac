/* Words and their numbers, from 0 in the order of addition. Any number of threads may look words up at once; only one
 * may add. */
#ifndef APPS_LDA_VOCABULARY_H
#define APPS_LDA_VOCABULARY_H

#include "agileml/base/error.h"
#include "agileml/base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LDA_WORD_MAX = 128,           /* bytes of a word */
    LDA_VOCABULARY_MAX = 1 << 28, /* words */
};

/* A zeroed struct is an empty vocabulary. */
struct lda_vocabulary {
    char *text;     /* the words, each ended by 0 */
    size_t *starts; /* [count]: each word's place in `text` */
    size_t text_size, text_capacity, capacity;
    uint32_t count;
    struct index_map map; /* hash of a word to its number; a word whose hash is taken has the next hash */
};

/* Returns the word's number, or -1. */
int64_t lda_vocabulary_find(const struct lda_vocabulary *vocabulary, const char *word, size_t length);
/* Adds a word that is not in the vocabulary, and returns its number. */
uint32_t lda_vocabulary_add(struct lda_vocabulary *vocabulary, const char *word, size_t length);
/* Returns word `number`, valid until a word is added; NULL beyond the last. */
const char *lda_vocabulary_word(const struct lda_vocabulary *vocabulary, uint32_t number);
void lda_vocabulary_close(struct lda_vocabulary *vocabulary);

/* Reads a file of one word a line, plain or gzip. Returns 0; AML_EINPUT with file, line and what was expected (a word
 * is there twice, an empty line, more than LDA_WORD_MAX bytes); AML_EFAIL or AML_ELIMIT. The caller closes the
 * vocabulary in any case. */
int lda_vocabulary_read(struct lda_vocabulary *vocabulary, const char *path, struct error *error);

/* Reads stop words from the file at `path` (NULL: none), and adds a built-in English list if asked. Returns as
 * lda_vocabulary_read. */
int lda_stop_words_read(struct lda_vocabulary *stop_words, const char *path, bool english, struct error *error);

#endif
