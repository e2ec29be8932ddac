/* Names the formats that are none of ours by what a file begins with, so that nobody takes them for text. text_input
 * asks text_foreign_bytes about every file, and about what comes out of a compressed one. Pure functions, for any
 * thread. */
#ifndef AGILEML_BASE_TEXT_FOREIGN_H
#define AGILEML_BASE_TEXT_FOREIGN_H

#include <stddef.h>

enum { TEXT_FOREIGN_BYTES = 512 /* of a text's first bytes decide */ };

/* Returns what begins with bytes[size], the first TEXT_FOREIGN_BYTES or all that there are, and what to do about it:
 * "a Git LFS pointer, not the data itself: run 'git lfs pull'". Returns NULL for what may be text, tar or idx. Does not
 * know gzip and zstd, which text_form_detect finds before, nor text formats that some reader takes, such as JSON: see
 * text_foreign_line. */
const char *text_foreign_bytes(const void *bytes, size_t size);

/* The same of tar and idx, for readers of lines. */
const char *text_foreign_container(const void *bytes, size_t size);

/* Returns what a file's first line [line, end) tells of a text format that no reader of numbers or words takes, and
 * what to do about it; NULL: none is known. Names MatrixMarket, Vowpal Wabbit, fastText, libffm, JSON,
 * ARFF, SQL, HTML and XML, fields between bars: a reader of one of these looks for it before. For the reader's message
 * FILE:1: ... */
const char *text_foreign_line(const char *line, const char *end);
/* The same for readers of words, which take MatrixMarket and Vowpal Wabbit, and bars between words. */
const char *text_foreign_document(const char *line, const char *end);

#endif
