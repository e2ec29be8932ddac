/* The syntax of AWS's shared files (~/.aws/credentials, ~/.aws/config): sections, names and values, values in parts.
 * profile.h interprets them. Keeps no copies, and quotes nothing in errors, as a value may be a secret. */
#ifndef AGILEML_CLOUD_INI_H
#define AGILEML_CLOUD_INI_H

#include "agileml/base/error.h"

#include <stddef.h>

enum { INI_SECTION_MAX = 256 /* bytes */ };

struct ini_item {
    const char *section; /* "default", "profile dev": one space between words, without quotes */
    const char *name;    /* lower case; NULL: a section begins */
    const char *part;    /* lower case; the name of a part, as of "endpoint_url = URL" indented below "s3 ="; or NULL */
    const char *value;   /* without blanks around it; "" for an item that has parts */
    unsigned line;
};

/* Called for a section or an item. A code other than 0 ends the parsing and becomes its result. *item is valid until
 * this function returns. */
typedef int ini_found(void *context, const struct ini_item *item, struct error *error);

/* Calls `found` for each section and item, in the file's order. A comment begins with # or ;, on a line of its own
 * or after a blank. A line that is indented further than the item before it belongs to that item's value. Changes
 * `text`, which ends with a 0 byte. Returns AML_EINPUT with the name `file` and the line in *error, or what `found`
 * returned. */
int ini_parse(const char *file, char *text, ini_found *found, void *context, struct error *error);

#endif
