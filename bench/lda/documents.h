/* Made-up documents in lda-c's format, the same in each run. */
#ifndef BENCH_LDA_DOCUMENTS_H
#define BENCH_LDA_DOCUMENTS_H

#include <stdint.h>
#include <stdio.h>

/* Writes `documents` lines of `length` tokens each, with a vocabulary of `words` words. The caller checks ferror. */
void documents_write(FILE *stream, uint32_t documents, uint32_t words, uint32_t length);

#endif
