/* An error for people: built where the facts are known, printed once, as one line, by main.
 * Codes are those of agileml/types.h. */
#ifndef AGILEML_BASE_ERROR_H
#define AGILEML_BASE_ERROR_H

#include "agileml/types.h"

enum { ERROR_TEXT_MAX = 480 };

struct error {
    int code;                  /* 0, or the AML_E... of the first failure */
    char text[ERROR_TEXT_MAX]; /* one line of UTF-8, printable: what, where, what was expected */
};

/* Sets *error and returns `code`, so that a failing function can `return error_set(...)`. If *error already has a
 * failure, that failure is the cause and stays. `error` may be NULL. */
__attribute__((format(printf, 3, 4))) int error_set(struct error *error, int code, const char *format, ...);

/* Returns the exit status for an error code: 0, 1 or 2 (docs/proteus.md). */
int error_exit_status(int code);

#endif
