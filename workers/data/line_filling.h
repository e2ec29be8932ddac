/* Fills chunks (line_chunks.h) with the lines of an extent, one chunk after the other; with groups of lines, each group
 * whole. Where chunks begin and end depends on the extent alone.
 *
 * An extent begins at the first place where its own lines change from one group to the next; a file's first extent
 * begins at once. It ends in the following extents, at the first such place there. (Without groups the same holds of
 * lines: agileml/input/lines.h.) So each group is in one extent, either where the group begins or the extent before. A
 * process that reads an extent need not know the lines before it. */
#ifndef WORKERS_LINE_FILLING_H
#define WORKERS_LINE_FILLING_H

#include "workers/data/line_chunks.h"

#include "agileml/base/text_input.h"

/* Memory for a chunk. */
struct line_room {
    struct line_chunk chunk;
    char *text;
    size_t capacity;
};

/* Returns false when there is no memory. */
bool line_room_open(struct line_room *room);
void line_room_close(struct line_room *room); /* a zeroed struct is allowed */

/* SKIP --the extent's first change of groups--> BODY --the end of its text--> BEYOND
 * Without groups, and in a file's first extent, the extent begins with BODY. */
enum line_phase { LINE_PHASE_SKIP = 0, LINE_PHASE_BODY, LINE_PHASE_BEYOND };

struct line_filling {
    const struct line_reading *reading;
    struct text_input *text;
    uint32_t extent, part; /* of the next chunk */
    uint32_t next;         /* the extent after the one whose text is open */
    uint64_t offset;       /* of the next chunk */
    enum line_phase phase;
    size_t own; /* BEYOND: bytes of `rest` that are before the text of the open extent */
    char *rest; /* what was read but belongs to the next chunk */
    size_t rest_size, rest_capacity;
    bool text_ended; /* nothing follows in the open text */
    bool ended;      /* no chunk follows */
};

int line_filling_open(struct line_filling *filling, const struct line_reading *reading, uint32_t extent,
                      struct error *error);
void line_filling_close(struct line_filling *filling);
/* Fills the room with the next chunk, which may be empty when it is the last. Returns 0 or what reading the text has
 * returned. */
int line_filling_next(struct line_filling *filling, struct line_room *room, struct error *error);

#endif
