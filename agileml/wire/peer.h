/* PEER, the message between the services of nodes (workers/node/node_service.h): each service's kinds of messages,
 * their head and frames. Nodes have no connections to each other: a server passes PEER on, whatever its service. The
 * table in peer.c has a line for each kind. */
#ifndef AGILEML_WIRE_PEER_H
#define AGILEML_WIRE_PEER_H

#include "agileml/wire/actor.h"

enum service { SERVICE_FETCH, SERVICE_PARTS, SERVICE_LOTS, SERVICE_FEED, SERVICE_GOSSIP, SERVICES };

enum { PEER_KINDS_MAX = 8 /* of a service */ };

/* ---- Shards from other nodes ---- */

/* A node that is to work on shards that it lacks asks others (docs/design.md, "Shards from other nodes"):
 *
 *   FETCH_ASK_HOLDINGS  which of these data shards has the receiver in memory? Frame: shards (uint32_t each)
 *   FETCH_HOLDINGS      the answer. Frame: those that it has
 *   FETCH_ASK           requests a piece of a packed shard
 *   FETCH_PIECE         the answer. Frame: the piece's bytes
 *   FETCH_GONE          the answer of a node that does not have the shard any more */
enum fetch_kind { FETCH_ASK_HOLDINGS, FETCH_HOLDINGS, FETCH_ASK, FETCH_PIECE, FETCH_GONE };

struct peer_fetch {
    uint64_t claim;  /* of the question; the answer repeats it */
    uint32_t shard;  /* 0 in messages about holdings */
    uint64_t offset; /* where the piece begins */
    uint64_t size;   /* FETCH_PIECE: bytes of the whole packed shard */
};

/* ---- An input that is divided ---- */

/* A node requests what one part of the input has of several shards, piece by piece (docs/design.md, "An input is parsed
 * once").
 *
 *   PARTS_ASK    a request. Frame: the shards, uint32_t each; one answer may have only the first of them
 *   PARTS_PIECE  the answer. Frame: the piece's bytes
 *   PARTS_GONE   the node does not have the part
 *   PARTS_LATER  the node has not read its part yet */
enum parts_kind { PARTS_ASK, PARTS_PIECE, PARTS_GONE, PARTS_LATER };

struct peer_parts {
    uint64_t claim;       /* of the question; the answer repeats it */
    uint32_t part, parts; /* the part, and the number of parts */
    uint64_t offset;      /* where the piece begins */
    uint64_t size;        /* PARTS_PIECE: bytes of all that was packed */
};

/* ---- Lots ---- */

/* A lot is a part of a node's work in a clock that another node, its helper, may do (docs/design.md, "Lots"). The
 * helper of a lot is fixed.
 *
 *   LOT_ASK    helper -> owner: the helper has finished its own work and offers to do the lot
 *   LOT_GIVE   owner -> helper: do the lot
 *   LOT_KEEP   owner -> helper: the owner has done the lot, is doing it, or does not work on that clock
 *   LOT_DONE   helper -> owner: the lot's deltas and metrics. Frames: rows; struct wire_metric_sum each
 *   LOT_LEFT   helper -> owner: the helper will not do the lot after all
 *
 * The owner adds the helper's deltas to its own flush. If they do not come, the owner does the lot itself, so a lost
 * message costs only time. */
enum lot_kind { LOT_ASK, LOT_GIVE, LOT_KEEP, LOT_DONE, LOT_LEFT };

struct peer_lot {
    uint32_t lot;    /* its number */
    uint64_t clock;  /* of the owner's work */
    uint64_t claim;  /* number of the LOT_ASK, unique for this helper */
    uint64_t digest; /* of the lot's data shards; owner and helper must agree on it */
    uint64_t items;  /* LOT_DONE: training items in it */
};

/* ---- Batches from feeders ---- */

/* A working node requests from a feeder the batches of data shards in a clock (docs/design.md, "Feeders").
 *
 *   FEED_ASK   a request. Frame: shards, uint32_t each, ascending; empty: the message only reports `begun`
 *   FEED_DONE  the answer, or a part of it. Frames: at least one batch (struct wire_batch each); the batches' bytes,
 *              one after the other
 *   FEED_GONE  the feeder will not make these batches, but perhaps later ones. Frames: as in FEED_DONE, no bytes */
enum feed_kind { FEED_ASK, FEED_DONE, FEED_GONE };

struct peer_feed {
    uint64_t clock;
    uint64_t claim;     /* of the request, unique for the node that sends it; the answers repeat it */
    uint64_t begun;     /* FEED_ASK: the node needs no more batches of clocks up to this one */
    uint8_t transforms; /* FEED_ASK: the batches are the output of so many of the app's first transforms */
};

/* A batch: the items of a data shard in a clock, as the app's transforms have made them. */
struct wire_batch {
    uint32_t shard;
    uint32_t bytes; /* at most WIRE_BATCH_BYTES_MAX */
    uint64_t hash;  /* hash_bytes of its bytes, with seed 0 */
};

/* ---- Averages between local steps ---- */

/* AD-PSGD: two nodes average their copies of the model (the averaged tables) between the local steps of a clock
 * (workers/node/gossip/node_gossip.h). Node A offers its copy to node B. B moves its own copy to the mean of the two.
 * Its answer moves A's copy to the same mean. Both use the same strategy: in one epoch all plans agree on a clock's
 * strategy.
 *
 *   GOSSIP_OFFER   A to B: A's copy. Frames: rows
 *   GOSSIP_ANSWER  B to A: the deltas for A's copy. Frames: rows; none: B has declined the offer, because B was not
 *                  between local steps of that clock, or had an offer of its own under way
 *
 * Nothing is repeated: if a message is lost, the two copies are not averaged. */
enum gossip_kind { GOSSIP_OFFER, GOSSIP_ANSWER };

struct peer_gossip {
    uint64_t clock; /* the clock between whose local steps the copy was offered */
    uint64_t claim; /* number of the offer, unique for the node that makes it; the answer repeats it */
};

/* ---- All ---- */

struct message_peer {
    actor_id receiver; /* the node for which the message is */
    actor_id sender;   /* the node that sent it; set by the server that receives the message from there */
    uint8_t service;   /* enum service */
    uint8_t kind;      /* the service's */
    union {
        struct peer_fetch fetch;
        struct peer_parts parts;
        struct peer_lot lot;
        struct peer_feed feed;
        struct peer_gossip gossip;
    };
};

/* Returns the name of a service's kind of messages, for people; "unknown" for one that does not exist. */
const char *peer_name(unsigned service, unsigned kind);

#endif
