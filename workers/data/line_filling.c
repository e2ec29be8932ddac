/* See line_filling.h. */
#include "workers/data/line_filling.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "agileml/input/lines.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE = 2 /* bytes after the text: for an LF where the file lacks it, and for the final 0 */ };

bool line_room_open(struct line_room *room) {
    *room = (struct line_room){.text = malloc(LINE_CHUNK_BYTES), .capacity = LINE_CHUNK_BYTES};
    return room->text != NULL;
}

void line_room_close(struct line_room *room) {
    free(room->text);
    *room = (struct line_room){.text = NULL};
}

/* ---- Lines of a text ---- */

/* How many bytes of text[size] are complete lines, if more text follows. */
static size_t whole_lines(const char *text, size_t size) {
    size -= size > 0 && text[size - 1] == '\r'; /* an LF may follow */
    const char *lf = memrchr(text, '\n', size);
    size_t whole = lf != NULL ? (size_t)(lf + 1 - text) : 0;
    const char *cr = memrchr(text + whole, '\r', size - whole);
    return cr != NULL ? (size_t)(cr + 1 - text) : whole;
}

/* Returns where the line begins that ends at text[end - 1] with its line end. */
static size_t line_before(const char *text, size_t end) {
    size_t at = end - (end > 1 && text[end - 1] == '\n' && text[end - 2] == '\r' ? 2 : 1);
    while (at > 0 && !text_is_line_end(text[at - 1])) {
        at--;
    }
    return at;
}

/* Returns where the last group of the lines text[size] begins; 0 when they are of one group. */
static size_t last_group(uint64_t (*group)(const char *line), const char *text, size_t size) {
    uint64_t last = LINE_GROUP_SAME;
    size_t begin = 0;
    for (size_t at = size; at > 0;) {
        at = line_before(text, at);
        uint64_t found = group(text + at);
        if (found != LINE_GROUP_SAME) {
            if (last != LINE_GROUP_SAME && found != last) {
                return begin;
            }
            last = found;
            begin = at;
        }
    }
    return 0;
}

/* Returns where the second group of the lines text[size] begins; `size` when they are of one group. */
static size_t second_group(uint64_t (*group)(const char *line), const char *text, size_t size) {
    uint64_t first = LINE_GROUP_SAME;
    for (size_t at = 0; at < size;) {
        uint64_t found = group(text + at);
        if (found != LINE_GROUP_SAME && first != LINE_GROUP_SAME && found != first) {
            return at;
        }
        first = found != LINE_GROUP_SAME ? found : first;
        while (!text_is_line_end(text[at])) {
            at++;
        }
        at = (size_t)(text_next_line(text + at) - text);
    }
    return size;
}

/* ---- A chunk ---- */

/* The text that becomes a chunk. */
struct gathering {
    struct line_filling *filling;
    struct line_room *room;
    size_t size, limit; /* bytes in room->text, and those it may have with SPARE */
};

static void make_room(struct gathering *gathering) {
    struct line_room *room = gathering->room;
    if (gathering->limit > room->capacity) {
        room->capacity = gathering->limit;
        room->text = memory_resized(room->text, room->capacity, 1);
    }
}

/* Begins with the rest of the chunk before. How much is read does not depend on what the room held before. */
static void begin_chunk(struct gathering *gathering) {
    struct line_filling *filling = gathering->filling;
    gathering->size = filling->rest_size;
    gathering->limit = LINE_CHUNK_BYTES;
    while (gathering->size + LINE_CHUNK_BYTES / 2 > gathering->limit) {
        gathering->limit *= 2;
    }
    make_room(gathering);
    if (gathering->size > 0) {
        memcpy(gathering->room->text, filling->rest, gathering->size);
    }
}

/* Reads on in the open text, up to the limit. */
static int read_more(struct gathering *gathering, struct error *error) {
    struct line_filling *filling = gathering->filling;
    assert(gathering->size + SPARE <= gathering->limit && gathering->limit <= gathering->room->capacity);
    size_t room = gathering->limit - gathering->size - SPARE;
    size_t got = 0;
    int code = filling->text_ended
                   ? 0
                   : text_input_read(filling->text, gathering->room->text + gathering->size, room, &got, error);
    filling->text_ended = filling->text_ended || got < room;
    gathering->size += got;
    return code;
}

/* Doubles the limit. Returns false when the line or group is too long already. */
static bool grow(struct gathering *gathering) {
    if (gathering->size > gathering->filling->reading->line_max + 1) {
        return false;
    }
    gathering->limit *= 2;
    make_room(gathering);
    return true;
}

/* Makes the first `whole` bytes the chunk; the rest is for the next one. */
static void end_chunk(struct gathering *gathering, size_t whole) {
    struct line_filling *filling = gathering->filling;
    struct line_room *room = gathering->room;
    assert(whole <= gathering->size && gathering->size + SPARE <= gathering->limit);
    size_t rest = gathering->size - whole;
    if (rest > filling->rest_capacity) {
        filling->rest = memory_resized(filling->rest, rest, 1);
        filling->rest_capacity = rest;
    }
    if (rest > 0) {
        memcpy(filling->rest, room->text + whole, rest);
    }
    filling->rest_size = rest;
    room->chunk = (struct line_chunk){.text = room->text,
                                      .size = whole,
                                      .extent = filling->extent,
                                      .part = filling->part++,
                                      .offset = filling->offset};
    filling->offset += whole;
    if (whole > 0 && !text_is_line_end(room->text[whole - 1])) {
        room->text[room->chunk.size++] = '\n';
    }
    room->text[room->chunk.size] = '\0';
}

/* Without groups: the extent's next lines. A line that is too long ends the extent. */
static int next_lines(struct gathering *gathering, struct error *error) {
    struct line_filling *filling = gathering->filling;
    size_t whole = 0;
    for (;;) {
        int code = read_more(gathering, error);
        if (code != 0) {
            return code;
        }
        whole = filling->text_ended ? gathering->size : whole_lines(gathering->room->text, gathering->size);
        if (whole > 0 || filling->text_ended || !grow(gathering)) {
            break;
        }
    }
    bool too_long = gathering->size - whole > filling->reading->line_max + 1;
    filling->ended = filling->text_ended || too_long;
    end_chunk(gathering, too_long ? gathering->size : whole);
    return 0;
}

/* ---- Groups ---- */

/* Opens the text of the next extent, if the file has one. Otherwise *opened is false. */
static int go_beyond(struct line_filling *filling, bool *opened, struct error *error) {
    const struct extents *extents = filling->reading->extents;
    *opened = filling->next < extents->count;
    if (!*opened) {
        return 0;
    }
    text_input_close(filling->text);
    filling->text = NULL;
    filling->text_ended = false;
    filling->phase = LINE_PHASE_BEYOND;
    return input_lines_peek(&filling->text, extents, filling->next++, error);
}

/* Ends the extent with a group that is too long. Leaves the group out if it belongs to the extent before. */
static void refuse_group(struct gathering *gathering) {
    bool skipped = gathering->filling->phase == LINE_PHASE_SKIP; /* the reader of the extent before refuses the group */
    gathering->size = skipped ? 0 : gathering->size;
    gathering->filling->ended = true;
    end_chunk(gathering, gathering->size);
    gathering->room->chunk.cut = !skipped;
}

/* Drops the lines before the extent's first change of groups. */
static void skip_group(struct gathering *gathering, size_t lines) {
    struct line_filling *filling = gathering->filling;
    char *text = gathering->room->text;
    size_t before = second_group(filling->reading->group, text, lines);
    if (before < lines) {
        gathering->size -= before;
        memmove(text, text + before, gathering->size);
        filling->offset += before;
        filling->phase = LINE_PHASE_BODY;
    } else if (filling->text_ended) {
        gathering->size = 0;
        filling->ended = true;
        end_chunk(gathering, 0);
    }
}

/* Ends the chunk before the last group. At the extent's end the next extent's lines may continue that group. *ready:
 * the chunk is ready. */
static int give_groups(struct gathering *gathering, size_t lines, bool *ready, struct error *error) {
    struct line_filling *filling = gathering->filling;
    size_t whole = last_group(filling->reading->group, gathering->room->text, lines);
    bool opened = false;
    int code = filling->text_ended ? go_beyond(filling, &opened, error) : 0;
    if (code == 0 && filling->text_ended) { /* the file's last lines */
        whole = gathering->size;
        filling->ended = true;
    }
    filling->own = gathering->size - whole;
    *ready = code == 0 && (whole > 0 || filling->ended);
    if (*ready) {
        end_chunk(gathering, whole);
    }
    return code;
}

/* Ends the chunk where the text of the open extent has its first change of groups. */
static int give_beyond(struct gathering *gathering, size_t lines, bool *ready, struct error *error) {
    struct line_filling *filling = gathering->filling;
    size_t own = filling->own;
    size_t more = lines > own ? second_group(filling->reading->group, gathering->room->text + own, lines - own) : 0;
    bool found = own + more < lines;
    bool opened = false;
    int code = !found && filling->text_ended ? go_beyond(filling, &opened, error) : 0;
    if (opened) {
        filling->own = gathering->size;
    }
    *ready = code == 0 && (found || filling->text_ended);
    if (*ready) {
        gathering->size = found ? own + more : gathering->size;
        filling->ended = true;
        end_chunk(gathering, gathering->size);
    }
    return code;
}

/* The extent's next groups. */
static int next_groups(struct gathering *gathering, struct error *error) {
    struct line_filling *filling = gathering->filling;
    for (;;) {
        char *text = gathering->room->text;
        int code = read_more(gathering, error);
        if (code != 0) {
            return code;
        }
        if (filling->text_ended && gathering->size > 0 && !text_is_line_end(text[gathering->size - 1])) {
            text[gathering->size++] = '\n'; /* the file's last line */
        }
        text[gathering->size] = '\0';
        bool ready = false;
        size_t lines = filling->text_ended ? gathering->size : whole_lines(text, gathering->size);
        if (filling->phase == LINE_PHASE_SKIP) {
            size_t before = gathering->size;
            skip_group(gathering, lines);
            lines -= before - gathering->size;
            ready = filling->ended;
        }
        bool ended = filling->text_ended;
        if (filling->phase == LINE_PHASE_BODY) {
            code = give_groups(gathering, lines, &ready, error);
        } else if (filling->phase == LINE_PHASE_BEYOND) {
            code = give_beyond(gathering, lines, &ready, error);
        }
        if (code != 0 || ready) {
            return code;
        }
        if (!ended && !grow(gathering)) {
            refuse_group(gathering);
            return 0;
        }
    }
}

/* ---- The extent ---- */

int line_filling_open(struct line_filling *filling, const struct line_reading *reading, uint32_t extent,
                      struct error *error) {
    bool skips = reading->group != NULL && extent > 0;
    *filling = (struct line_filling){
        .reading = reading, .extent = extent, .next = extent + 1, .phase = skips ? LINE_PHASE_SKIP : LINE_PHASE_BODY};
    return input_lines_open(&filling->text, reading->extents, extent, error);
}

void line_filling_close(struct line_filling *filling) {
    text_input_close(filling->text);
    free(filling->rest);
}

int line_filling_next(struct line_filling *filling, struct line_room *room, struct error *error) {
    struct gathering gathering = {.filling = filling, .room = room};
    begin_chunk(&gathering);
    return filling->reading->group != NULL ? next_groups(&gathering, error) : next_lines(&gathering, error);
}
