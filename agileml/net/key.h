/* Keys and tokens by which a process is admitted to a job. The job's key is a CURVE key pair, with which the elasticity
 * controller listens. Whoever can read the key's file has every right in the job, and can make tokens that give others
 * a part of these rights. A token states the roles that its holder may have in the job (enum wire_role), until when
 * nodes may join by it, and how many at a time. A token contains the controller's public key, but nothing from which
 * another token could be made. Each process also has a key pair of its own, see zmq.h.
 *
 * Makes, reads and checks keys and tokens; does no networking. After a process has made or read a key or token it
 * leaves no core dump (agileml/base/core_dumps.h). */
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

/* The contents of a key file: the job's key, or a token. */
struct net_key {
    char public_text[NET_KEY_TEXT];       /* the controller's */
    char secret_text[NET_KEY_TEXT];       /* empty: this is a token */
    unsigned char token[NET_TOKEN_BYTES]; /* shown to the controller; with the job's key, a token with all roles */
};

struct net_token_terms {
    unsigned roles;   /* enum wire_role */
    unsigned tiers;   /* of a node: a set of bits 1 << enum node_tier; 0: any */
    uint32_t nodes;   /* how many nodes may be in the job by this token at a time; 0: any number */
    uint64_t serial;  /* distinguishes tokens; for 0 net_token_text draws a random one */
    uint64_t expires; /* seconds since 1970, UTC: from then on the token admits no new process; 0: never */
};

static inline bool net_key_is_token(const struct net_key *key) {
    return key->secret_text[0] == '\0';
}

/* Makes a new key and writes it to `path`, mode 0600, whole or not at all. Never overwrites a file. Returns 0;
 * AML_EINPUT when `path` exists or can't be written to; AML_EFAIL when the disk fails. */
int net_key_generate(const char *path, struct error *error);

/* Reads the file of a key or a token. Returns AML_EINPUT for a file that is missing, malformed, or open to group or
 * others, as ssh does. */
int net_key_load(const char *path, struct net_key *key, struct error *error);

/* Sets the token of a job's key, whose two texts are set. */
void net_key_complete(struct net_key *key);

/* ---- Tokens ---- */

/* Writes the text of a token's file into `text`, 0-terminated. Returns its length; AML_EINPUT when `job` is a token
 * itself; AML_EFAIL when there are no random numbers. */
int net_token_text(const struct net_key *job, struct net_token_terms terms, char text[NET_TOKEN_FILE_MAX],
                   struct error *error);
/* Writes a token's file to `path`, as net_key_generate writes a key's. */
int net_token_issue(const struct net_key *job, struct net_token_terms terms, const char *path, struct error *error);

/* Returns a token's terms, whether or not the token is genuine. */
struct net_token_terms net_token_terms(const unsigned char token[NET_TOKEN_BYTES]);
/* Whether a token was made with this job's secret key. */
bool net_token_genuine(const unsigned char token[NET_TOKEN_BYTES], const struct net_key *job);

/* Describes the terms to people: "for a node until 2026-11-22T18:00:00Z, 4 at a time". */
enum { NET_TOKEN_TITLE_MAX = 96 };
void net_token_title(const struct net_token_terms *terms, char title[NET_TOKEN_TITLE_MAX]);

#endif
