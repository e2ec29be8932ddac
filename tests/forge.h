/* Well-formed messages, which the decoder accepts, with harmful content: for tests of what actors believe. */
#ifndef TESTS_FORGE_H
#define TESTS_FORGE_H

#include "agileml/wire/message.h"

enum {
    FORGE_TYPES = 256,
    FORGE_PEER = 128, /* and above: PEER of service (type - FORGE_PEER) / PEER_KINDS_MAX, kind the rest */
    FORGE_PARTITIONS = 4,
    FORGE_SHARDS = 8
};

/* Changes some fields or frames of the message, in copies of its frames, to values drawn from `random`: limits,
 * neighbours of the present value, or any value. The decoder accepts the result. The type stays; the epoch may
 * change. */
void forge_change(struct message *message, uint64_t *random);

/* Makes a message of the type, for a job of FORGE_PARTITIONS partitions and FORGE_SHARDS shards whose table 0 has rows
 * of 8 bytes. All numbers are 0 as far as the decoder accepts that. Returns false when there is no such type. */
bool forge_message(unsigned type, struct message *message);

#endif
