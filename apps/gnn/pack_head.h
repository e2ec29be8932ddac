/* The head of a part of a packed graph (pack.h): its bytes, and their check. */
#ifndef APPS_GNN_PACK_HEAD_H
#define APPS_GNN_PACK_HEAD_H

#include "apps/gnn/pack.h"

enum {
    PACK_VERSION = 1,
    PACK_MAGIC = 8,
    PACK_START = PACK_MAGIC + 8, /* magic, version, bytes of the head */
    PACK_HEAD_MAX = 1 << 25,     /* bytes of a head */
    PACK_NAME_MAX = 1023,        /* bytes of a class's name */
    PACK_CHECKSUM = 4
};

struct pack_entry {
    uint32_t bytes, own; /* of an interval: its size, and its vertices */
};

/* The intervals of a part. */
struct pack_part {
    uint32_t number;
    uint32_t first, intervals;  /* the number of the first interval, and how many there are */
    uint32_t place;             /* of the first vertex */
    struct pack_entry *entries; /* [intervals] */
};

/* Returns the bytes of a head, with its checksum, from malloc. */
unsigned char *pack_head_encode(const struct pack_summary *summary, const struct pack_part *part, size_t *size);

/* Returns a hash of the summary without `graph` and `parts`. */
uint64_t pack_head_hash(const struct pack_summary *summary, uint64_t seed);

/* Checks the first PACK_START bytes of a file: magic and version. Sets *size to the size of the head, PACK_START to
 * PACK_HEAD_MAX. Returns 0 or AML_EINPUT. */
int pack_head_begin(const char *path, const unsigned char *bytes, size_t *size, struct error *error);

/* Decodes a head of `size` bytes in a file of `file` bytes, and checks all that it has. Returns 0, and
 * pack_summary_close and free(part->entries) must follow; or AML_EINPUT. */
int pack_head_decode(const char *path, const unsigned char *bytes, size_t size, uint64_t file,
                     struct pack_summary *summary, struct pack_part *part, struct error *error);

#endif
