/* The job's key: one CURVE key pair that every process of a job holds. Whoever can read the file can
 * join the job; there is no finer right. Makes and reads key files, does no networking. A process that has made or read
 * a key leaves no core dump from then on (agileml/base/core_dumps.h). */
#ifndef AGILEML_NET_KEY_H
#define AGILEML_NET_KEY_H

#include "agileml/base/error.h"

enum { NET_KEY_TEXT = 41 }; /* 40 characters of Z85 and the final 0 */

struct net_key {
    char public_text[NET_KEY_TEXT];
    char secret_text[NET_KEY_TEXT];
};

/* Makes a new key and writes it to `path`, mode 0600, whole or not at all; a file that is there is never
 * overwritten. 0; AML_EINPUT when `path` exists or can't be written to; AML_EFAIL when the disk fails. */
int net_key_generate(const char *path, struct error *error);

/* Reads a key file. Refuses one that is missing, malformed, or open to group or others, as ssh does:
 * AML_EINPUT. */
int net_key_load(const char *path, struct net_key *key, struct error *error);

#endif
