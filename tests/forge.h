/* Messages that are well formed, as the decoder takes them, and mean harm: for tests of what actors believe. */
#ifndef TESTS_FORGE_H
#define TESTS_FORGE_H

#include "agileml/wire/message.h"

enum { FORGE_TYPES = 256, FORGE_PARTITIONS = 4, FORGE_SHARDS = 8 };

/* Changes some fields or frames of the message, in copies of its frames, to values drawn from `random`: the limits,
 * what stands beside the present value, and any. The decoder takes the result. The type stays; the epoch may change. */
void forge_change(struct message *message, uint64_t *random);

/* A message of the type, of a job of FORGE_PARTITIONS partitions and FORGE_SHARDS shards whose table 0 has rows of 8
 * bytes: all its numbers are 0, as far as the decoder takes that. False: there is no such type. */
bool forge_message(unsigned type, struct message *message);

#endif
