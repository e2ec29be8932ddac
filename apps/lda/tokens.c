/* See tokens.h. */
#include "apps/lda/tokens.h"

#include "apps/lda/vocabulary.h"

#include <stdbool.h>
#include <stdint.h>
#include <wctype.h>

enum { CHARACTER_MAX = 4, RIGHT_QUOTE = 0x2019 };

int tokenizer_open(struct tokenizer *tokenizer, unsigned minimum, struct error *error) {
    tokenizer->minimum = minimum;
    tokenizer->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    return tokenizer->locale != (locale_t)0
               ? 0
               : error_set(error, AML_EFAIL,
                           "the system has no locale C.UTF-8, which defines letters: expected one, see locale -a");
}

void tokenizer_close(struct tokenizer *tokenizer) {
    freelocale(tokenizer->locale);
}

/* Decodes the character at text[0..length). Returns its number of bytes; 0 when it is truncated, overlong, a
 * surrogate or above U+10FFFF. */
static size_t decode(const unsigned char *text, size_t length, uint32_t *character) {
    static const uint32_t least[CHARACTER_MAX + 1] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = text[0] < 0x80 ? 1 : text[0] < 0xC0 ? 0 : text[0] < 0xE0 ? 2 : text[0] < 0xF0 ? 3 : 4;
    if (size == 0 || size > length || text[0] > 0xF4) {
        return 0;
    }
    *character = size == 1 ? text[0] : text[0] & (0x7FU >> size);
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return 0;
        }
        *character = *character << 6 | (text[i] & 0x3FU);
    }
    bool fits = *character >= least[size] && *character <= 0x10FFFF && (*character < 0xD800 || *character > 0xDFFF);
    return fits ? size : 0;
}

static size_t encode(uint32_t character, char *text) {
    if (character < 0x80) {
        text[0] = (char)character;
        return 1;
    }
    size_t size = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--) {
        text[i] = (char)(0x80 | (character & 0x3F));
        character >>= 6;
    }
    text[0] = (char)((0xF00U >> size & 0xFF) | character);
    return size;
}

/* The word that is being collected. */
struct word {
    char text[LDA_WORD_MAX + 2 * CHARACTER_MAX];
    size_t length;       /* bytes; beyond LDA_WORD_MAX no more are stored, and the word is skipped */
    unsigned characters; /* letters and digits */
    bool letter;         /* one of them is a letter */
    bool apostrophe;     /* the last character is an apostrophe; it is part of the word if a letter or digit follows */
};

static void word_add(struct word *word, uint32_t character) {
    if (word->length <= LDA_WORD_MAX) {
        if (word->apostrophe) {
            word->text[word->length++] = '\'';
        }
        word->length += encode(character, word->text + word->length);
    }
    word->apostrophe = false;
    word->characters++;
}

int tokenize(const struct tokenizer *tokenizer, const char *text, size_t length,
             int (*each)(void *context, const char *word, size_t length), void *context, size_t *at) {
    struct word word = {.length = 0};
    for (*at = 0; *at <= length;) {
        uint32_t character = ' '; /* stands for the end of the text */
        size_t size = *at < length ? decode((const unsigned char *)text + *at, length - *at, &character) : 1;
        if (size == 0) {
            return AML_EINPUT;
        }
        *at += size;
        if (iswalnum_l((wint_t)character, tokenizer->locale) != 0) {
            word.letter = word.letter || iswdigit_l((wint_t)character, tokenizer->locale) == 0;
            word_add(&word, (uint32_t)towlower_l((wint_t)character, tokenizer->locale));
        } else if (word.characters > 0 && !word.apostrophe && (character == '\'' || character == RIGHT_QUOTE)) {
            word.apostrophe = true;
        } else {
            bool counts = word.letter && word.length <= LDA_WORD_MAX && word.characters >= tokenizer->minimum;
            int result = counts ? each(context, word.text, word.length) : 0;
            if (result != 0) {
                return result;
            }
            word = (struct word){.length = 0};
        }
    }
    return 0;
}
