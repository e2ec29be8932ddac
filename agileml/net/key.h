/* What lets a process into a job. The job's key is one CURVE key pair. The controller listens with it; whoever can read
 * its file has every right in the job, and can make tokens that give others a part of these rights. A token says in
 * which role its holder may be in the job (enum wire_role), until when nodes may join by it, and how many at a time. It
 * holds the controller's public key, and nothing from which another token could be made. Each process also has a key
 * pair of its own, see zmq.h.
 *
 * Makes, reads and checks keys and tokens; does no networking. A process that has made or read one leaves no core dump
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
    char public_text[NET_KEY_TEXT];       /* the controller's */
    char secret_text[NET_KEY_TEXT];       /* empty: this is a token */
    unsigned char token[NET_TOKEN_BYTES]; /* to show the controller; with the job's key: one with all roles */
};

struct net_token_terms {
    unsigned roles;   /* enum wire_role */
    unsigned tiers;   /* of a node: a set of bits 1 << enum node_tier; 0: any */
    uint32_t nodes;   /* how many may be in the job by it at a time; 0: any number */
    uint64_t serial;  /* tells tokens apart; for 0 net_token_text draws a random one */
    uint64_t expires; /* seconds since 1970, UTC: from then on it lets no new process in; 0: never */
};

static inline bool net_key_is_token(const struct net_key *key) {
    return key->secret_text[0] == '\0';
}

/* Makes a new key and writes it to `path`, mode 0600, whole or not at all; a file that is there is never
 * overwritten. 0; AML_EINPUT when `path` exists or can't be written to; AML_EFAIL when the disk fails. */
int net_key_generate(const char *path, struct error *error);

/* Reads the file of a key or a token. Refuses one that is missing, malformed, or open to group or others, as ssh does:
 * AML_EINPUT. */
int net_key_load(const char *path, struct net_key *key, struct error *error);

/* Makes the token of a job's key whose two texts are set. */
void net_key_complete(struct net_key *key);

/* ---- Tokens ---- */

/* Writes the text of a token's file into `text`, 0-terminated. Returns its length; AML_EINPUT when `job` is a token
 * itself; AML_EFAIL when there are no random numbers. */
int net_token_text(const struct net_key *job, struct net_token_terms terms, char text[NET_TOKEN_FILE_MAX],
                   struct error *error);
/* Writes such a file to `path`, as net_key_generate does. */
int net_token_issue(const struct net_key *job, struct net_token_terms terms, const char *path, struct error *error);

/* The token's terms, whether it is genuine or not. */
struct net_token_terms net_token_terms(const unsigned char token[NET_TOKEN_BYTES]);
/* Whether it was made with this job's secret key. */
bool net_token_genuine(const unsigned char token[NET_TOKEN_BYTES], const struct net_key *job);

/* The terms for people: "for a node until 2026-11-22T18:00:00Z, 4 at a time". */
enum { NET_TOKEN_TITLE_MAX = 96 };
void net_token_title(const struct net_token_terms *terms, char title[NET_TOKEN_TITLE_MAX]);

#endif
