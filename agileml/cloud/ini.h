/* The syntax of AWS's shared files (~/.aws/credentials, ~/.aws/config): sections, names and values, values in parts.
 * What they mean is elsewhere (profile.h). Keeps no copies and quotes nothing in errors: a value may be a secret. */
#ifndef AGILEML_CLOUD_INI_H
#define AGILEML_CLOUD_INI_H

#include "agileml/base/error.h"

#include <stddef.h>

enum { INI_SECTION_MAX = 256 /* bytes */ };

struct ini_item {
    const char *section; /* "default", "profile dev": one space between words, quotes taken away */
    const char *name;    /* lower case; NULL: the section begins */
    const char
        *part; /* lower case, of a value in parts, as in "ec2 =" and then, indented, "endpoint_url = URL"; or NULL */
    const char *value; /* without blanks around it; "" for what has parts */
    unsigned line;
};

/* A code other than 0 ends the parsing, and is its result. What `item` points to is valid until it returns. */
typedef int ini_found(void *context, const struct ini_item *item, struct error *error);

/* Calls `found` for each section and item, in the file's order. A comment begins with # or ;, on a line of its own
 * or behind a blank. A line that is indented further than the item before belongs to its value. `text` is changed; a
 * 0 byte ends it. `file` is for errors: AML_EINPUT with the file and the line, or what `found` has returned. */
int ini_parse(const char *file, char *text, ini_found *found, void *context, struct error *error);

#endif
