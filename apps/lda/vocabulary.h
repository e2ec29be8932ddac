/* Words and their numbers, from 0 in the order in which they were added. One thread at a time while words are added. */
#ifndef APPS_LDA_VOCABULARY_H
#define APPS_LDA_VOCABULARY_H

#include "agileml/base/error.h"
#include "agileml/base/hash.h"

#include <stddef.h>
#include <stdint.h>

enum {
    LDA_WORD_MAX = 128,           /* bytes of a word */
    LDA_VOCABULARY_MAX = 1 << 28, /* words */
};

/* A zeroed struct is an empty vocabulary. */
struct lda_vocabulary {
    char *text;     /* the words, each ended by 0 */
    size_t *starts; /* [count] */
    size_t text_size, text_capacity, capacity;
    uint32_t count;
    struct index_map map; /* hash of a word to its number; a word whose hash is taken has the next hash */
};

/* The word's number, or -1. */
int64_t lda_vocabulary_find(const struct lda_vocabulary *vocabulary, const char *word, size_t length);
/* Adds a word that is not there; its number. */
uint32_t lda_vocabulary_add(struct lda_vocabulary *vocabulary, const char *word, size_t length);
/* Word `number`, until another one is added; NULL beyond the last. */
const char *lda_vocabulary_word(const struct lda_vocabulary *vocabulary, uint32_t number);
void lda_vocabulary_close(struct lda_vocabulary *vocabulary);

/* Reads a file of one word a line, plain or gzip. 0; AML_EINPUT with file, line and what was expected (a word is there
 * twice, an empty line, more than LDA_WORD_MAX bytes), AML_EFAIL, AML_ELIMIT. Closed by the caller in any case. */
int lda_vocabulary_read(struct lda_vocabulary *vocabulary, const char *path, struct error *error);

/* Adds the small list of English stop words. */
void lda_vocabulary_add_english(struct lda_vocabulary *vocabulary);

#endif
