/* See vocabulary.h. */
#include "apps/lda/vocabulary.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "agileml/base/text_lines.h"
#include "agileml/input/source_text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LINE_MAX = 1 << 16 /* bytes of a line, including blanks */ };

/* Returns the word's number; or -1, with an unused hash for the word in *hash. */
static int64_t vocabulary_look(const struct lda_vocabulary *vocabulary, const char *word, size_t length,
                               uint64_t *hash) {
    for (*hash = hash_bytes((const unsigned char *)word, length, 0);; ++*hash) {
        int64_t number = index_map_find(&vocabulary->map, *hash);
        if (number == INDEX_NONE) {
            return -1;
        }
        const char *there = vocabulary->text + vocabulary->starts[number];
        if (strncmp(there, word, length) == 0 && there[length] == '\0') {
            return number;
        }
    }
}

int64_t lda_vocabulary_find(const struct lda_vocabulary *vocabulary, const char *word, size_t length) {
    uint64_t hash;
    return vocabulary_look(vocabulary, word, length, &hash);
}

uint32_t lda_vocabulary_add(struct lda_vocabulary *vocabulary, const char *word, size_t length) {
    uint64_t hash;
    int64_t number = vocabulary_look(vocabulary, word, length, &hash);
    assert(number < 0 && vocabulary->count < LDA_VOCABULARY_MAX);
    if (vocabulary->count == vocabulary->capacity) {
        vocabulary->capacity = vocabulary->capacity > 0 ? 2 * vocabulary->capacity : 1024;
        vocabulary->starts = memory_resized(vocabulary->starts, vocabulary->capacity, sizeof *vocabulary->starts);
    }
    if (vocabulary->text_capacity - vocabulary->text_size < length + 1) {
        vocabulary->text_capacity = 2 * vocabulary->text_capacity + length + 1024;
        vocabulary->text = memory_resized(vocabulary->text, vocabulary->text_capacity, 1);
    }
    memcpy(vocabulary->text + vocabulary->text_size, word, length);
    vocabulary->text[vocabulary->text_size + length] = '\0';
    vocabulary->starts[vocabulary->count] = vocabulary->text_size;
    vocabulary->text_size += length + 1;
    index_map_add(&vocabulary->map, hash, vocabulary->count);
    return vocabulary->count++;
}

const char *lda_vocabulary_word(const struct lda_vocabulary *vocabulary, uint32_t number) {
    return number < vocabulary->count ? vocabulary->text + vocabulary->starts[number] : NULL;
}

void lda_vocabulary_close(struct lda_vocabulary *vocabulary) {
    free(vocabulary->text);
    free(vocabulary->starts);
    index_map_close(&vocabulary->map);
    *vocabulary = (struct lda_vocabulary){0};
}

/* Adds the word text[length] of a line. */
static int vocabulary_line(struct lda_vocabulary *vocabulary, const struct text_lines *lines, const char *text,
                           size_t length, struct error *error) {
    if (length > LDA_WORD_MAX) {
        return error_set(error, AML_EINPUT, "%s:%" PRIu64 ": expected one word of 1 to %d bytes, got %zu bytes",
                         lines->path, lines->number, LDA_WORD_MAX, length);
    }
    int64_t before = lda_vocabulary_find(vocabulary, text, length);
    if (before >= 0) {
        return error_set(error, AML_EINPUT, "%s:%" PRIu64 ": the word '%.*s' is in line %lld already, expected it once",
                         lines->path, lines->number, (int)length, text, (long long)before + 1);
    }
    if (vocabulary->count == LDA_VOCABULARY_MAX) {
        return error_set(error, AML_ELIMIT, "%s: more than %d words", lines->path, LDA_VOCABULARY_MAX);
    }
    lda_vocabulary_add(vocabulary, text, length);
    return 0;
}

/* Reads the words. A word's number is its line's, so only lines after the last word may be empty. */
static int read_words(struct lda_vocabulary *vocabulary, struct text_lines *lines, struct error *error) {
    uint64_t empty = 0; /* the first empty line */
    for (;;) {
        char *line;
        size_t length;
        int result = text_lines_next(lines, &line, &length, error);
        if (result != 0 || line == NULL) {
            return result;
        }
        const char *word = text_skip_blanks(line);
        const char *end = line + length;
        while (end > word && text_is_blank(end[-1])) {
            end--;
        }
        if (end == word) {
            empty = empty == 0 ? lines->number : empty;
            continue;
        }
        if (empty != 0) {
            return error_set(error, AML_EINPUT, "%s:%" PRIu64 ": expected one word of 1 to %d bytes, got 0 bytes",
                             lines->path, empty, LDA_WORD_MAX);
        }
        result = vocabulary_line(vocabulary, lines, word, (size_t)(end - word), error);
        if (result != 0) {
            return result;
        }
    }
}

int lda_vocabulary_read(struct lda_vocabulary *vocabulary, const char *path, struct error *error) {
    struct text_lines lines;
    int result = source_lines_open(&lines, path, FILE_LINE_MAX, error);
    if (result != 0) {
        return result;
    }
    result = read_words(vocabulary, &lines, error);
    text_lines_close(&lines);
    if (result == 0 && vocabulary->count == 0) {
        result = error_set(error, AML_EINPUT, "%s: no words, expected one a line", path);
    }
    return result;
}

static void add_english(struct lda_vocabulary *vocabulary) {
    static const char words[] =
        "a about above after again against all also am an and any are as at be because been before being below between "
        "both but by can could did do does doing down during each even few for from further get got had has have "
        "having "
        "he her here hers herself him himself his how however i if in into is it its itself just like made make many "
        "may me might more most much must my myself no nor not now of off on once one only or other our ours ourselves "
        "out over own said same say says she should since so some still such than that the their theirs them "
        "themselves "
        "then there these they this those through to too two under until up upon us very was way we well were what "
        "when "
        "where which while who whom why will with would yet you your yours yourself yourselves "
        "can't couldn't didn't doesn't don't hadn't hasn't haven't he's i'd i'll i'm i've isn't it's let's she's "
        "shouldn't that's there's they're they've wasn't we'll we're we've weren't what's won't wouldn't you'll you're";
    for (const char *word = words; *word != '\0';) {
        size_t length = strcspn(word, " ");
        if (lda_vocabulary_find(vocabulary, word, length) < 0) {
            lda_vocabulary_add(vocabulary, word, length);
        }
        word += length + (word[length] == ' ' ? 1 : 0);
    }
}

int lda_stop_words_read(struct lda_vocabulary *stop_words, const char *path, bool english, struct error *error) {
    int result = path != NULL ? lda_vocabulary_read(stop_words, path, error) : 0;
    if (result == 0 && english) {
        add_english(stop_words);
    }
    return result;
}
