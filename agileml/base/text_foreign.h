/* Recognizes unsupported formats by a file's first bytes, so that they are not read as text. text_input passes every
 * file to text_foreign_bytes, and also the contents of compressed files. Pure functions, for any thread. */
#ifndef AGILEML_BASE_TEXT_FOREIGN_H
#define AGILEML_BASE_TEXT_FOREIGN_H

#include <stddef.h>

enum { TEXT_FOREIGN_BYTES = 512 /* number of first bytes that decide */ };

/* Returns a description of the format of bytes[size], the first TEXT_FOREIGN_BYTES or all bytes of a file, and what
 * to do about it: "a Git LFS pointer, not the data itself: run 'git lfs pull'". Returns NULL for what may be text,
 * tar or idx. Does not recognize gzip and zstd, which text_form_detect handles before. Nor does it recognize text
 * formats that some reader accepts, such as JSON: see text_foreign_line. */
const char *text_foreign_bytes(const void *bytes, size_t size);

/* Like text_foreign_bytes, but only for tar and idx, which readers of lines do not accept. */
const char *text_foreign_container(const void *bytes, size_t size);

/* Returns a description of the text format of a file's first line [line, end), and what to do about it, if no reader
 * of numbers or words accepts the format. Returns NULL if no such format is recognized. Names MatrixMarket, Vowpal
 * Wabbit, fastText, libffm, JSON, ARFF, SQL, HTML and XML, and fields between bars. A reader of one of these checks
 * for it before. The text follows FILE:1: in the reader's message. */
const char *text_foreign_line(const char *line, const char *end);
/* Like text_foreign_line, but for readers of words, which accept MatrixMarket, Vowpal Wabbit, and bars between
 * words. */
const char *text_foreign_document(const char *line, const char *end);

#endif
