/* See documents.h. */
#include "bench/lda/documents.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <stdlib.h>

enum { SUBJECTS = 300, OF_DOCUMENT = 5 };

static double uniform(uint64_t bits) {
    return (double)(bits >> 11) * 0x1p-53;
}

/* Words are Zipf-distributed, as in real text. Each subject shifts all but the 200 most frequent words. */
static uint32_t draw_word(const double *cumulated, uint32_t words, uint32_t subject, uint64_t random) {
    double at = uniform(random) * cumulated[words - 1];
    uint32_t low = 0;
    uint32_t high = words - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (cumulated[middle] < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < 200 ? low : (uint32_t)((low + hash_mix(subject)) % words);
}

void documents_write(FILE *stream, uint32_t documents, uint32_t words, uint32_t length) {
    double *cumulated = memory_zeroed(words, sizeof *cumulated);
    uint32_t *counts = memory_zeroed(words, sizeof *counts);
    uint32_t *found = memory_zeroed(length, sizeof *found);
    double sum = 0;
    for (uint32_t w = 0; w < words; w++) {
        sum += 1 / (w + 2.7);
        cumulated[w] = sum;
    }
    for (uint32_t d = 0; d < documents; d++) {
        uint32_t distinct = 0;
        for (uint32_t i = 0; i < length; i++) {
            uint64_t random = hash_mix((uint64_t)d * length + i);
            uint32_t subject = (uint32_t)(hash_mix((uint64_t)d * OF_DOCUMENT + random % OF_DOCUMENT) % SUBJECTS);
            uint32_t word = draw_word(cumulated, words, subject, hash_mix(random));
            if (counts[word]++ == 0) {
                found[distinct++] = word;
            }
        }
        fprintf(stream, "%u", distinct);
        for (uint32_t i = 0; i < distinct; i++) {
            fprintf(stream, " %u:%u", found[i], counts[found[i]]);
            counts[found[i]] = 0;
        }
        fputc('\n', stream);
    }
    free(cumulated);
    free(counts);
    free(found);
}
