/* Errors and warnings about a configuration and what it names, in the order in which they were found. Each is one line,
 * "FILE: KEY: what is wrong, what was expected". Prints nothing. One thread. */
#ifndef BIDBRAIN_DAEMON_FINDINGS_H
#define BIDBRAIN_DAEMON_FINDINGS_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    FINDINGS_MAX = 200,     /* kept; all others are only counted */
    FINDING_TEXT_MAX = 800, /* bytes */
};

struct finding {
    bool warning; /* it may be intended, and the configuration can be used */
    char text[FINDING_TEXT_MAX];
};

/* A zeroed struct with `file` set is empty. */
struct findings {
    const char *file; /* the configuration's file */
    struct finding *list;
    size_t count;
    size_t errors; /* number of all errors, those beyond FINDINGS_MAX included */
};

/* Adds an error at `where`, such as "limits.most_vcpus". Returns AML_EINPUT. */
__attribute__((format(printf, 3, 4))) int findings_error(struct findings *findings, const char *where,
                                                         const char *format, ...);
__attribute__((format(printf, 3, 4))) void findings_warning(struct findings *findings, const char *where,
                                                            const char *format, ...);
/* Adds an error whose text names the file and the place itself. Returns AML_EINPUT. */
int findings_error_text(struct findings *findings, const char *text);
/* Sets *error to the first error and the number of further ones. Returns 0 if there are none, else AML_EINPUT. */
int findings_first(const struct findings *findings, struct error *error);
void findings_close(struct findings *findings);

#endif
