/* A topic model without a parameter server, to compare AgileML with: the sampler of apps/lda on plain arrays, by the
 * threads of one process. */
#ifndef BENCH_LDA_PLAIN_H
#define BENCH_LDA_PLAIN_H

#include "agileml/base/error.h"
#include "apps/lda/sampler.h"
#include "bench/measure.h"

struct plain_texts {
    uint32_t document_count, vocabulary;
    uint64_t tokens;
    uint64_t *starts; /* [document_count + 1], into the next two arrays */
    uint32_t *words, *counts;
    uint64_t size, capacity, starts_capacity;
};

/* Reads the documents of `path`. Call plain_close also after a failure. */
int plain_open(struct plain_texts *texts, const char *path, struct error *error);
void plain_close(struct plain_texts *texts);

/* Runs 1 + `passes` iterations from random topics. Adds the wall and CPU seconds of each but the first. */
int plain_run(const struct plain_texts *texts, uint32_t topics, unsigned proposals, unsigned threads, unsigned passes,
              struct series *wall, struct series *cpu, struct error *error);

#endif
