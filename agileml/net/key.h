/* What lets a process into a job. The job's key is one CURVE key pair: the controller listens with it, and whoever can
 * read its file has every right in the job and can give others a part of them, by tokens. A token says what its holder
 * may be (enum wire_role), until when and how many nodes may join by it at a time; it holds the controller's public key
 * and nothing that could make another token. A key pair of its own each process makes when it starts (zmq.h).
 *
 * Makes, reads and checks keys and tokens, does no networking. A process that has made or read one leaves no core dump
 * from then on (agileml/base/core_dumps.h). */
#ifndef AGILEML_NET_KEY_H
#define AGILEML_NET_KEY_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    NET_KEY_TEXT = 41,    /* 40 characters of Z85 and the final 0 */
    NET_TOKEN_BYTES = 56, /* terms, then their HMAC-SHA256 under the job's secret key */
    NET_TOKEN_FILE_MAX = 256
};

/* What a key file says: the job's key, or a token. */
struct net_key {
    char public_text[NET_KEY_TEXT]; /* the controller's */
    char secret_text[NET_KEY_TEXT]; /* empty: this is a token */
    unsigned char token[NET_TOKEN_BYTES]; /* what to show the controller; one for everything with the job's key */
};

struct net_token_terms {
    unsigned roles;   /* enum wire_role */
    uint32_t nodes;   /* that may be in the job by it at a time; 0: any number */
    uint64_t serial;  /* tells tokens apart; net_token_text draws one for 0 */
    uint64_t expires; /* seconds since 1970, UTC: nobody new is let in afterwards; 0: never */
};

/* Makes a new key and writes it to `path`, mode 0600, whole or not at all; a file that is there is never
 * overwritten. 0; AML_EINPUT when `path` exists or can't be written to; AML_EFAIL when the disk fails. */
int net_key_generate(const char *path, struct error *error);

/* Reads the file of a key or a token. Refuses one that is missing, malformed, or open to group or others, as ssh does:
 * AML_EINPUT. */
int net_key_load(const char *path, struct net_key *key, struct error *error);

/* Makes the job's key ready for use once its two texts are there. */
void net_key_complete(struct net_key *key);

/* ---- Tokens ---- */

/* Writes the token's file into `text`, 0-terminated. Returns its length; AML_EINPUT when `job`
 * is a token itself. */
int net_token_text(const struct net_key *job, struct net_token_terms terms, char text[NET_TOKEN_FILE_MAX],
                   struct error *error);
/* Writes it to `path` as net_key_generate does. */
int net_token_issue(const struct net_key *job, struct net_token_terms terms, const char *path, struct error *error);

/* What the token says. */
struct net_token_terms net_token_terms(const unsigned char token[NET_TOKEN_BYTES]);
/* Whether it was made with this job's secret key. */
bool net_token_genuine(const unsigned char token[NET_TOKEN_BYTES], const struct net_key *job);

/* "a node's until 2026-11-22T18:00:00Z": for people. */
enum { NET_TOKEN_TITLE_MAX = 96 };
void net_token_title(const struct net_token_terms *terms, char title[NET_TOKEN_TITLE_MAX]);

#endif
