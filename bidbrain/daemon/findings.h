/* What is wrong with a configuration or with what it names, in the order in which it was found: one line each, "FILE:
 * KEY: what is wrong, what was expected". Prints nothing. One thread. */
#ifndef BIDBRAIN_DAEMON_FINDINGS_H
#define BIDBRAIN_DAEMON_FINDINGS_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    FINDINGS_MAX = 200,     /* kept; further ones are counted */
    FINDING_TEXT_MAX = 800, /* bytes */
};

struct finding {
    bool warning; /* it may be intended, and does not keep the configuration from being used */
    char text[FINDING_TEXT_MAX];
};

/* A zeroed struct with `file` set is empty. */
struct findings {
    const char *file; /* of the configuration */
    struct finding *list;
    size_t count;
    size_t errors; /* all that were found, those beyond FINDINGS_MAX too */
};

/* Adds an error at `where`, such as "limits.most_vcpus". Returns AML_EINPUT. */
__attribute__((format(printf, 3, 4))) int findings_error(struct findings *findings, const char *where,
                                                         const char *format, ...);
__attribute__((format(printf, 3, 4))) void findings_warning(struct findings *findings, const char *where,
                                                            const char *format, ...);
/* Adds an error by its whole text, which names the file and the place itself. Returns AML_EINPUT. */
int findings_error_text(struct findings *findings, const char *text);
/* Sets *error to the first error and how many more there are. 0: there is none; else AML_EINPUT. */
int findings_first(const struct findings *findings, struct error *error);
void findings_close(struct findings *findings);

#endif
