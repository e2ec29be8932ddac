/* The layout of messages on the wire, as the tables in message.c and peer.c write it. Private to this folder. */
#ifndef AGILEML_WIRE_LAYOUT_H
#define AGILEML_WIRE_LAYOUT_H

#include "agileml/wire/message.h"

enum field_kind { FIELD_END = 0, FIELD_U8, FIELD_I32, FIELD_U32, FIELD_U64, FIELD_ID, FIELD_F64, FIELD_TEXT };

struct field {
    enum field_kind kind;
    size_t offset;    /* in struct message */
    uint64_t maximum; /* of a whole number: its highest value; of a text: the bytes of its array */
    const char *name; /* "MESSAGE.FIELD" */
};

enum { FIELDS_MAX = 40 /* of a message, including the FIELD_END entry */ };

/* What a message's payload frames hold. */
enum frame_kind {
    FRAMES_NONE,
    FRAMES_RECORDS, /* frame_count frames; frame i has whole records of record_bytes[i], at most record_max[i] */
    FRAMES_ROWS,    /* rows, see rows.h; or no frame */
    FRAMES_ROWS_AND_RECORDS /* rows or none, then a frame of records */
};

struct layout {
    const char *name;
    enum frame_kind frames;
    unsigned frame_count;
    uint32_t record_bytes[5];
    uint32_t record_max[5];
    int (*check)(const struct message *message, struct error *error); /* of the records' contents; NULL: none */
    struct field fields[FIELDS_MAX];
};

#define FIELD(kind, member, limit)                                                                                     \
    { kind, offsetof(struct message, member), limit, #member }
#define U8(member, limit)  FIELD(FIELD_U8, member, limit)
#define I32(member)        FIELD(FIELD_I32, member, 0)
#define U32(member, limit) FIELD(FIELD_U32, member, limit)
#define U64(member, limit) FIELD(FIELD_U64, member, limit)
#define ID(member)         FIELD(FIELD_ID, member, ANY) /* printed in base 16 */
#define F64(member)        FIELD(FIELD_F64, member, 0)
#define TEXT(member)       FIELD(FIELD_TEXT, member, sizeof(((struct message *)0)->member))
#define ANY                UINT64_MAX
#define CLOCK              UINT64_C(0xFFFFFFF0)
#define ITEMS              (UINT64_C(1) << 40) /* of a node: sums over nodes and clocks stay exact in JSON */
#define TIME               (UINT64_C(1) << 48) /* microseconds: a sum over WIRE_NODES_MAX nodes does not overflow */

/* A layout from `frames` to `check`. */
#define NO_FRAMES                           FRAMES_NONE, 0, {0}, {0}, NULL
#define ROWS_CHECKED(check)                 FRAMES_ROWS, 0, {0}, {0}, check
#define ROWS                                ROWS_CHECKED(NULL)
#define RECORDS_CHECKED(bytes, most, check) FRAMES_RECORDS, 1, {bytes}, {most}, check
#define RECORDS(bytes, most)                RECORDS_CHECKED(bytes, most, NULL)

/* Returns the layout of a PEER's head and frames after the fields that all PEER have; NULL: there is no such kind. */
const struct layout *peer_layout(const struct message_peer *peer);

#endif
