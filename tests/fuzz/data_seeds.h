/* The common part of data_corpus.c and pieces_corpus.c: items of each kind, and seeds made of packed items. */
#ifndef TESTS_FUZZ_DATA_SEEDS_H
#define TESTS_FUZZ_DATA_SEEDS_H

#include "tests/fuzz/corpus.h"
#include "tests/fuzz/data_job.h"

#include <stdio.h>
#include <string.h>

enum { DATA_SEEDS_ITEMS = 40 };

/* Emits the items and closes the chunk. */
static inline void data_seeds_emit(struct data *data, struct data_chunk *chunk, unsigned kind) {
    for (uint64_t n = 0; n < DATA_SEEDS_ITEMS; n++) {
        const uint64_t keys[2] = {n % 7, n % 5};
        const float bytes[3] = {(float)n, 1, 2};
        const struct aml_keys runs[2] = {{.table = 0, .count = n % 3, .keys = keys},
                                         {.table = 1, .count = 1, .keys = keys}};
        enum aml_item_use use = n % 4 == 0 ? AML_TEST : AML_TRAIN;
        if (kind == DATA_JOB_DOCUMENTS || kind == DATA_JOB_IMAGES) {
            data_emit_varied(data, chunk, use, n, runs, kind == DATA_JOB_IMAGES ? 0 : 2, bytes, n % sizeof bytes);
        } else {
            data_emit(data, chunk, use, kind == DATA_JOB_RATINGS ? keys : NULL, bytes);
        }
    }
    data_chunk_close(data, chunk);
}

/* Writes two seeds: the packed items as they are, and with a first byte that makes the target correct the hash. Frees
 * the items. */
static inline bool data_seeds_write(const char *folder, unsigned kind, struct buffer *packed) {
    unsigned char seed[1 << 14];
    char name[32];
    seed[0] = (unsigned char)kind;
    memcpy(seed + 1, packed->data, packed->size);
    snprintf(name, sizeof name, "kind-%u", kind);
    bool written = corpus_write(folder, name, seed, packed->size + 1);
    seed[0] = (unsigned char)(kind + 128); /* a multiple of DATA_JOB_KINDS; the hash is corrected */
    snprintf(name, sizeof name, "mended-%u", kind);
    written = corpus_write(folder, name, seed, packed->size + 1) && written;
    buffer_drop(packed);
    return written;
}

#endif
