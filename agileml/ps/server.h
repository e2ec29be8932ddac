/* A partition server: one actor, one thread, a set of partitions. Takes PLAN (from its own node's agent), SUBSCRIBE,
 * PULL, FLUSH and SCAN; pushes changed rows to its subscribers each time a partition's clock advances. Does no I/O
 * of its own. */
#ifndef AGILEML_PS_SERVER_H
#define AGILEML_PS_SERVER_H

#include "agileml/net/io.h"
#include "agileml/ps/partition.h"

enum { SERVER_SCAN_BYTES = 4 << 20 }; /* about so much of a table per ROWS */

struct server {
    struct io *io;
    actor_id self;
    const struct job *job;
    uint64_t epoch;                /* of the plan in force; 0: none yet */
    uint32_t partition_count;      /* of the job */
    struct partition **partitions; /* by number; NULL where another server serves */
    struct scan_request {
        actor_id from;
        struct message_scan scan;
    } * scans; /* waiting for their clock */
    unsigned scan_count;
};

enum { SERVER_SCANS_MAX = 64 };

void server_init(struct server *server, struct io *io, actor_id self, const struct job *job);
void server_close(struct server *server);

/* The actor's functions (net/io.h), `self` a struct server. */
void server_receive(void *self, actor_id from, struct message *message);
void server_timer(void *self);

#endif
