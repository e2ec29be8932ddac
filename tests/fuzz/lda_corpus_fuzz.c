/* libFuzzer target for apps/lda's readers: the first byte of the input chooses the format, and whether the words have
 * names; the rest is the file, plain or gzip. Besides crashes it finds: documents without tokens, words out of order or
 * beyond the vocabulary, sums that differ, and failures without a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "apps/lda/corpus.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

struct fuzz_sums {
    struct lda_corpus_size size;
    uint32_t highest;
    uint64_t last; /* the last document's number + 1 */
};

static int fuzz_bag(void *context, const struct lda_bag *bag) {
    struct fuzz_sums *sums = context;
    uint64_t tokens = 0;
    FUZZ_CHECK(bag->count > 0 && bag->number >= sums->last);
    for (uint32_t i = 0; i < bag->count; i++) {
        FUZZ_CHECK(bag->counts[i] > 0 && (i == 0 || bag->words[i] > bag->words[i - 1]));
        tokens += bag->counts[i];
    }
    FUZZ_CHECK(tokens == bag->tokens);
    sums->last = bag->number + 1;
    sums->size.documents++;
    sums->size.tokens += tokens;
    if (bag->words[bag->count - 1] >= sums->highest) {
        sums->highest = bag->words[bag->count - 1] + 1;
    }
    return 0;
}

static void fuzz_words(const struct lda_vocabulary *words) {
    for (uint32_t w = 0; w < words->count; w++) {
        const char *word = lda_vocabulary_word(words, w);
        size_t length = strlen(word);
        FUZZ_CHECK(length > 0 && length <= LDA_WORD_MAX && lda_vocabulary_find(words, word, length) == w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    int file = memfd_create("corpus", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, data + 1, size - 1) == (ssize_t)(size - 1));
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct lda_vocabulary words = {0};
    struct fuzz_sums sums = {0};
    struct lda_corpus_size found = {0};
    struct error error = {0};
    const struct lda_corpus corpus = {.path = path,
                                      .format = (enum lda_format)(data[0] % 4),
                                      .vocabulary = data[0] & 4 ? &words : NULL,
                                      .minimum_length = 1 + data[0] / 64};
    int code = lda_corpus_read(&corpus, fuzz_bag, &sums, &found, &error);
    FUZZ_CHECK(code == 0 ? error.code == 0 : (code == AML_EINPUT || code == AML_ELIMIT) && error.code == code);
    FUZZ_CHECK(code == 0 || (strncmp(error.text, path, strlen(path)) == 0 && strchr(error.text, '\n') == NULL));
    FUZZ_CHECK(code != 0 || (found.documents == sums.size.documents && found.tokens == sums.size.tokens &&
                             sums.highest <= found.words && found.documents > 0));
    fuzz_words(&words);
    lda_vocabulary_close(&words);
    error = (struct error){0};
    code = lda_vocabulary_read(&words, path, &error);
    FUZZ_CHECK(code == 0 ? words.count > 0 : code == AML_EINPUT && error.code == code);
    fuzz_words(&words);
    lda_vocabulary_close(&words);
    close(file);
    return 0;
}
