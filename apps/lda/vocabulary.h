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
    char *text;     /* the words, each with a final 0 */
    size_t *starts; /* [count]: each word's place in `text` */
    size_t text_size, text_capacity, capacity;
    uint32_t count;
    struct index_map map; /* maps a word's hash to its number; a word whose hash is used gets the next unused hash */
};

/* Returns the word's number, or -1. */
int64_t lda_vocabulary_find(const struct lda_vocabulary *vocabulary, const char *word, size_t length);
/* Adds a word that is not in the vocabulary, and returns its number. */
uint32_t lda_vocabulary_add(struct lda_vocabulary *vocabulary, const char *word, size_t length);
/* Returns word `number`, valid until a word is added; NULL: no such word. */
const char *lda_vocabulary_word(const struct lda_vocabulary *vocabulary, uint32_t number);
void lda_vocabulary_close(struct lda_vocabulary *vocabulary);

/* Reads a file of one word per line, plain or gzip. Returns 0, AML_EFAIL or AML_ELIMIT. Returns AML_EINPUT with
 * file, line and what was expected, for a repeated word, an empty line, or more than LDA_WORD_MAX bytes. The caller
 * must always close the vocabulary. */
int lda_vocabulary_read(struct lda_vocabulary *vocabulary, const char *path, struct error *error);

/* Reads stop words from the file at `path` (NULL: none). With `english` also adds a built-in English list. Returns
 * what lda_vocabulary_read returns. */
int lda_stop_words_read(struct lda_vocabulary *stop_words, const char *path, bool english, struct error *error);

#endif
