/* Splits text in UTF-8 into words: runs of letters and digits with at least one letter, and with apostrophes between
 * them. Words become lower case. Skips words of fewer than `minimum` characters or more than LDA_WORD_MAX bytes. The
 * locale C.UTF-8 defines letters and their lower case, whatever the process's locale is. */
#ifndef APPS_LDA_TOKENS_H
#define APPS_LDA_TOKENS_H

#include "agileml/base/error.h"

#include <locale.h>
#include <stddef.h>

struct tokenizer {
    locale_t locale;
    unsigned minimum;
};

/* Returns 0, or AML_EFAIL when the system has no such locale. */
int tokenizer_open(struct tokenizer *tokenizer, unsigned minimum, struct error *error);
void tokenizer_close(struct tokenizer *tokenizer);

/* Calls `each` for each word, in order. Ends at its first result other than 0 and returns it. Returns AML_EINPUT
 * when the bytes at text[*at] are not valid UTF-8; otherwise 0. */
int tokenize(const struct tokenizer *tokenizer, const char *text, size_t length,
             int (*each)(void *context, const char *word, size_t length), void *context, size_t *at);

#endif
