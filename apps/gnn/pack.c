/* See pack.h. A part is its head (pack_head.h), its intervals one after the other, and a CRC-32 (zlib's) of all bytes
 * before it. Parts have temporary names until they are complete. */
#include "apps/gnn/pack.h"

#include "agileml.h"
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/base/new_file.h"
#include "agileml/cloud/storage.h"
#include "apps/gnn/pack_head.h"
#include "apps/little_endian.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PART_NAME = 32 };

static_assert((int)PACK_PARTS_MAX == (int)AML_READ_FILES_MAX, "a job reads all parts");
static_assert(AML_ITEM_BYTES_MAX / 4 <= AML_VARIED_ROWS_MAX, "an item of this size can't name too many vertices");

/* ---- Names ---- */

int pack_part_path(char path[NEW_FILE_PATH_MAX], const char *folder, uint32_t number, struct error *error) {
    int length = snprintf(path, NEW_FILE_PATH_MAX, "%s/part-%05u.graph", folder, number);
    return length < NEW_FILE_PATH_MAX ? 0
                                      : error_set(error, AML_ELIMIT, "%.200s...: the path is longer than %d bytes",
                                                  folder, NEW_FILE_PATH_MAX - PART_NAME);
}

/* Returns the number of the part that a file has by its name; -1: the file is no part. */
static int64_t part_number(const char *name) {
    char expected[PART_NAME];
    char *end;
    if (strncmp(name, "part-", 5) != 0) {
        return -1;
    }
    unsigned long number = strtoul(name + 5, &end, 10);
    snprintf(expected, sizeof expected, "part-%05lu.graph", number);
    return number < PACK_PARTS_MAX && strcmp(name, expected) == 0 ? (int64_t)number : -1;
}

static bool is_part(const char *name) {
    return part_number(name) >= 0;
}

/* ---- Writing ---- */

struct packing {
    const char *folder;
    const struct graph *graph;
    const struct graph_partition *partition;
    struct pack_summary summary;
    struct pack_entry *entries; /* [intervals] */
    uint64_t bytes;             /* of all intervals */
    struct interval_bytes encoded;
    void (*progress)(void *context, double done);
    void *context;
    struct error *error;
};

/* Encodes interval k, in a pass over all intervals of two. */
static int packing_encode(struct packing *packing, uint32_t k, unsigned pass) {
    uint32_t own = packing->partition->firsts[k + 1] - packing->partition->firsts[k];
    int result = interval_encode(packing->graph, packing->partition, k, packing->summary.carried, &packing->encoded,
                                 packing->error);
    if (result == 0 && packing->encoded.size > AML_ITEM_BYTES_MAX) {
        return error_set(packing->error, AML_ELIMIT,
                         "interval %u of %u vertices takes %zu bytes or more, expected at most %d: its vertices have "
                         "too many neighbours or features",
                         k, own, packing->encoded.size, AML_ITEM_BYTES_MAX);
    }
    if (packing->progress != NULL && k % 64 == 0) {
        packing->progress(packing->context, ((double)k / packing->partition->intervals + pass) / 2);
    }
    return result;
}

/* Sets the entries of all intervals, and the hash of the graph. */
static int packing_survey(struct packing *packing) {
    struct hash_stream stream = {.size = 0};
    for (uint32_t k = 0; k < packing->partition->intervals; k++) {
        int result = packing_encode(packing, k, 0);
        if (result != 0) {
            return result;
        }
        hash_stream_add(&stream, packing->encoded.bytes, packing->encoded.size);
        packing->entries[k].bytes = (uint32_t)packing->encoded.size;
        packing->entries[k].own = packing->partition->firsts[k + 1] - packing->partition->firsts[k];
        packing->bytes += packing->encoded.size;
    }
    packing->summary.graph = pack_head_hash(&packing->summary, hash_stream_end(&stream));
    return 0;
}

/* Sets the number of parts: as few as their largest size allows, or as many as are wanted while they are not small. */
static int packing_divide(struct packing *packing) {
    uint64_t needed = (packing->bytes + PACK_PART_BYTES - 1) / PACK_PART_BYTES;
    uint64_t wanted = packing->bytes / PACK_PART_BYTES_MIN;
    wanted = wanted < PACK_PARTS_WANTED ? wanted : PACK_PARTS_WANTED;
    wanted = wanted < needed ? needed : wanted;
    wanted = wanted < packing->partition->intervals ? wanted : packing->partition->intervals;
    packing->summary.parts = wanted > 0 ? (uint32_t)wanted : 1;
    return wanted <= PACK_PARTS_MAX
               ? 0
               : error_set(packing->error, AML_ELIMIT, "the graph takes %llu bytes, expected at most %llu",
                           (unsigned long long)packing->bytes, (unsigned long long)PACK_PARTS_MAX * PACK_PART_BYTES);
}

struct part_writer {
    struct storage_file *file;
    uint32_t checksum;
};

static int part_add(struct part_writer *writer, const void *bytes, size_t size, struct error *error) {
    writer->checksum = (uint32_t)crc32_z(writer->checksum, bytes, size);
    return storage_write(writer->file, bytes, size, error);
}

static int part_fill(struct packing *packing, const struct pack_part *part, struct part_writer *writer) {
    unsigned char end[PACK_CHECKSUM];
    size_t size;
    unsigned char *head = pack_head_encode(&packing->summary, part, &size);
    int result = size <= PACK_HEAD_MAX
                     ? part_add(writer, head, size, packing->error)
                     : error_set(packing->error, AML_ELIMIT, "a part's head takes %zu bytes, expected at most %d", size,
                                 PACK_HEAD_MAX);
    free(head);
    for (uint32_t k = part->first; k < part->first + part->intervals && result == 0; k++) {
        result = packing_encode(packing, k, 1);
        result = result != 0 ? result : part_add(writer, packing->encoded.bytes, packing->encoded.size, packing->error);
    }
    put32(end, writer->checksum);
    return result != 0 ? result : storage_write(writer->file, end, sizeof end, packing->error);
}

static int part_write(struct packing *packing, const struct pack_part *part) {
    char path[NEW_FILE_PATH_MAX];
    struct part_writer writer = {.checksum = (uint32_t)crc32_z(0, NULL, 0)};
    int result = pack_part_path(path, packing->folder, part->number, packing->error);
    result = result != 0 ? result : storage_create(&writer.file, path, true, packing->error);
    if (result != 0) {
        return result;
    }
    result = part_fill(packing, part, &writer);
    if (result != 0) {
        storage_discard(writer.file);
        return result;
    }
    return storage_commit(writer.file, packing->error);
}

/* Writes the parts: each ends where the bytes so far reach its share of all, and has an interval at least. */
static int packing_parts(struct packing *packing) {
    const struct pack_summary *summary = &packing->summary;
    uint64_t bytes = 0;
    uint32_t next = 0;
    int result = 0;
    for (uint32_t p = 0; p < summary->parts && result == 0; p++) {
        struct pack_part part = {
            .number = p, .first = next, .place = packing->partition->firsts[next], .entries = packing->entries + next};
        uint32_t last = summary->intervals - (summary->parts - 1 - p); /* leaves an interval to each later part */
        uint64_t share = packing->bytes / summary->parts * (p + 1);
        do {
            bytes += packing->entries[next++].bytes;
        } while (next < last && (bytes < share || p + 1 == summary->parts));
        part.intervals = next - part.first;
        result = part_write(packing, &part);
    }
    return result;
}

static int found_entry(void *context, const char *folder, const struct storage_entry *entry, struct error *error) {
    (void)context;
    return error_set(error, AML_EINPUT, "%s: has '%.100s' already: expected an empty folder, or a new one", folder,
                     entry->name);
}

/* Returns 1 if the folder is there and empty, 0 if it is not there, or a negative code. */
static int find_folder(const char *folder, struct error *error) {
    int there = storage_is_object(folder) ? 1 : storage_has(folder, error);
    int result = there == 1 ? storage_list(folder, AML_EINPUT, found_entry, NULL, error) : 0;
    return result != 0 ? result : there;
}

int pack_check_folder(const char *folder, struct error *error) {
    int there = find_folder(folder, error);
    return there < 0 ? there : 0;
}

/* Makes the folder, if it is not there. */
static int make_folder(const char *folder, bool *made, struct error *error) {
    int there = find_folder(folder, error);
    *made = there == 0;
    return there < 0 ? there : there == 0 ? storage_make_folder(folder, error) : 0;
}

/* Removes the parts, and the folder if this pack has made it. */
static void remove_parts(const char *folder, bool made) {
    struct error ignored = {0}; /* the cause is known already */
    (void)storage_remove_folder(folder, "part-00000.graph", is_part, &ignored);
    if (!made) {
        (void)storage_make_folder(folder, &ignored);
    }
}

static int check_names(const struct graph *graph, struct error *error) {
    for (uint32_t c = 0; c < graph->classes; c++) {
        if (strlen(graph->class_names[c]) > PACK_NAME_MAX) {
            return error_set(error, AML_ELIMIT, "the class '%.40s...' has a name of more than %d bytes",
                             graph->class_names[c], PACK_NAME_MAX);
        }
    }
    return 0;
}

static int packing_run(struct packing *packing) {
    bool made = false;
    int result = check_names(packing->graph, packing->error);
    result = result != 0 ? result : packing_survey(packing);
    result = result != 0 ? result : packing_divide(packing);
    result = result != 0 ? result : make_folder(packing->folder, &made, packing->error);
    if (result != 0) {
        return result;
    }
    result = packing_parts(packing);
    if (result != 0) {
        remove_parts(packing->folder, made);
    } else if (packing->progress != NULL) {
        packing->progress(packing->context, 1);
    }
    return result;
}

int pack_write(const char *folder, const struct graph *graph, const struct graph_partition *partition, unsigned carried,
               enum graph_average average, void (*progress)(void *context, double done), void *context,
               struct error *error) {
    struct packing packing = {.folder = folder,
                              .graph = graph,
                              .partition = partition,
                              .entries = memory_zeroed(partition->intervals, sizeof *packing.entries),
                              .progress = progress,
                              .context = context,
                              .error = error};
    pack_summarize(graph, partition, carried, average, &packing.summary);
    int result = packing_run(&packing);
    pack_summary_close(&packing.summary);
    free(packing.entries);
    free(packing.encoded.bytes);
    return result;
}

/* ---- Reading ---- */

/* A part that is being read. */
struct part_reader {
    const char *path;
    struct storage_reader *reader;
    uint64_t file;     /* bytes of the file */
    uint32_t checksum; /* of the bytes so far */
    struct pack_summary summary;
    struct pack_part part;
};

static int read_exactly(struct part_reader *reader, void *bytes, size_t size, struct error *error) {
    size_t got;
    int result = storage_read(reader->reader, bytes, size, &got, error);
    reader->checksum = (uint32_t)crc32_z(reader->checksum, bytes, size);
    return result != 0 || got == size
               ? result
               : error_set(error, AML_EINPUT, "%s: became shorter while it was read", reader->path);
}

static int read_head(struct part_reader *reader, struct error *error) {
    unsigned char start[PACK_START];
    size_t size;
    if (reader->file < PACK_START) {
        return error_set(error, AML_EINPUT, "%s: truncated, or not a part of a packed graph: %llu bytes", reader->path,
                         (unsigned long long)reader->file);
    }
    int result = read_exactly(reader, start, sizeof start, error);
    result = result != 0 ? result : pack_head_begin(reader->path, start, &size, error);
    if (result == 0 && size > reader->file) {
        result = error_set(error, AML_EINPUT, "%s: truncated: %llu bytes, of which its head has %zu", reader->path,
                           (unsigned long long)reader->file, size);
    }
    if (result != 0) {
        return result;
    }
    unsigned char *head = memory_zeroed(size, 1);
    memcpy(head, start, sizeof start);
    result = read_exactly(reader, head + sizeof start, size - sizeof start, error);
    result = result != 0
                 ? result
                 : pack_head_decode(reader->path, head, size, reader->file, &reader->summary, &reader->part, error);
    free(head);
    return result;
}

/* Opens a part and reads its head. part_close must follow, after an error too. */
static int part_open(struct part_reader *reader, const char *path, struct error *error) {
    *reader = (struct part_reader){.path = path, .checksum = (uint32_t)crc32_z(0, NULL, 0)};
    int result = storage_open(&reader->reader, path, &reader->file, error);
    return result != 0 ? result : read_head(reader, error);
}

static void part_close(struct part_reader *reader) {
    storage_close(reader->reader);
    pack_summary_close(&reader->summary);
    free(reader->part.entries);
    reader->part.entries = NULL;
}

/* Whether two summaries are of the same graph, packed at once. */
static bool same_graph(const struct pack_summary *one, const struct pack_summary *other) {
    return one->graph == other->graph && one->parts == other->parts &&
           pack_head_hash(one, 0) == pack_head_hash(other, 0);
}

/* Which parts a folder has. */
struct listing {
    bool found[PACK_PARTS_MAX];
    uint32_t count, lowest, highest;
};

static int list_entry(void *context, const char *folder, const struct storage_entry *entry, struct error *error) {
    struct listing *listing = context;
    int64_t number = part_number(entry->name);
    if (entry->name[0] == '.') {
        return 0;
    }
    if (number < 0 || !entry->file) {
        return error_set(error, AML_EINPUT,
                         "%s: has '%.100s', which is no part of a packed graph: expected part-00000.graph and so on",
                         folder, entry->name);
    }
    listing->lowest = listing->count == 0 || number < listing->lowest ? (uint32_t)number : listing->lowest;
    listing->highest = number > listing->highest ? (uint32_t)number : listing->highest;
    listing->found[number] = true;
    listing->count++;
    return 0;
}

/* Checks that the folder has the parts 0..parts - 1 and no others. */
static int check_listing(const struct listing *listing, const char *folder, uint32_t parts, struct error *error) {
    for (uint32_t p = 0; p < parts; p++) {
        if (!listing->found[p]) {
            return error_set(error, AML_EINPUT, "%s: part-%05u.graph of the graph's %u parts is missing", folder, p,
                             parts);
        }
    }
    return listing->highest < parts ? 0
                                    : error_set(error, AML_EINPUT,
                                                "%s: has part-%05u.graph, expected %u parts: it belongs to another "
                                                "graph",
                                                folder, listing->highest, parts);
}

/* Where the next part begins. */
struct following {
    uint32_t number, interval, place;
};

/* Checks that a part follows the parts before it. */
static int check_part(const struct part_reader *reader, const struct pack_summary *summary, struct following *following,
                      struct error *error) {
    const struct pack_part *part = &reader->part;
    if (!same_graph(&reader->summary, summary)) {
        return error_set(error, AML_EINPUT, "%s: belongs to another graph than the folder's first part", reader->path);
    }
    if (part->number != following->number || part->first != following->interval || part->place != following->place) {
        return error_set(error, AML_EINPUT,
                         "%s: is part %u from interval %u on, expected part %u from interval %u on: was it renamed?",
                         reader->path, part->number, part->first, following->number, following->interval);
    }
    following->number++;
    following->interval += part->intervals;
    for (uint32_t i = 0; i < part->intervals; i++) {
        following->place += part->entries[i].own;
    }
    bool last = following->number == summary->parts;
    bool whole = following->interval == summary->intervals && following->place == summary->vertices;
    return last && !whole ? error_set(error, AML_EINPUT, "%s: the last part ends at interval %u of %u", reader->path,
                                      following->interval, summary->intervals)
                          : 0;
}

/* Reads the heads of all parts, and checks them. Sets the summary to that of the first. */
static int read_heads(const char *folder, const struct listing *listing, struct pack_summary *summary,
                      struct error *error) {
    char path[NEW_FILE_PATH_MAX];
    struct following following = {.number = 0};
    struct part_reader reader;
    int result = pack_part_path(path, folder, listing->lowest, error);
    if (result != 0) {
        return result;
    }
    result = part_open(&reader, path, error);
    if (result == 0) { /* the summary moves to the caller */
        *summary = reader.summary;
        reader.summary = (struct pack_summary){.graph = 0};
    }
    part_close(&reader);
    result = result != 0 ? result : check_listing(listing, folder, summary->parts, error);
    for (uint32_t p = 0; p < summary->parts && result == 0; p++) {
        (void)pack_part_path(path, folder, p, error); /* as long as the first one's */
        result = part_open(&reader, path, error);
        result = result != 0 ? result : check_part(&reader, summary, &following, error);
        part_close(&reader);
    }
    return result;
}

int pack_open(const char *folder, struct pack_summary *summary, struct error *error) {
    struct listing *listing = memory_zeroed(1, sizeof *listing);
    *summary = (struct pack_summary){.graph = 0};
    int result = storage_list(folder, AML_EINPUT, list_entry, listing, error);
    if (result == 0 && listing->count == 0) {
        result = error_set(error, AML_EINPUT, "%s: no packed graph: it has no part-00000.graph", folder);
    }
    result = result != 0 ? result : read_heads(folder, listing, summary, error);
    free(listing);
    if (result != 0) {
        pack_summary_close(summary);
    }
    return result;
}

/* Checks an interval, and that it is the one that the head has at its place. */
static int check_interval(const struct part_reader *reader, const unsigned char *bytes, uint32_t i, uint32_t place,
                          const struct interval_limits *limits, struct error *error) {
    const struct pack_entry *entry = &reader->part.entries[i];
    struct error reason = {0};
    struct interval interval;
    int result = interval_check(bytes, entry->bytes, limits, &reason);
    if (result != 0) {
        return error_set(error, result, "%s: %s", reader->path, reason.text);
    }
    interval_view(bytes, &interval);
    return interval.number == reader->part.first + i && interval.first == place && interval.own == entry->own
               ? 0
               : error_set(error, AML_EINPUT, "%s: has interval %u where its head has interval %u", reader->path,
                           interval.number, reader->part.first + i);
}

static int read_intervals(const struct part_reader *reader, const unsigned char *bytes,
                          const struct pack_summary *summary,
                          int (*each)(void *context, const void *bytes, size_t size), void *context,
                          struct error *error) {
    struct interval_limits limits = pack_limits(summary);
    uint32_t place = reader->part.place;
    int result = 0;
    for (uint32_t i = 0; i < reader->part.intervals && result == 0; i++) {
        result = check_interval(reader, bytes, i, place, &limits, error);
        result = result != 0 ? result : each(context, bytes, reader->part.entries[i].bytes);
        bytes += reader->part.entries[i].bytes;
        place += reader->part.entries[i].own;
    }
    return result;
}

/* Reads what follows the head, and compares the checksum. */
static int read_body(struct part_reader *reader, unsigned char *bytes, size_t size, struct error *error) {
    unsigned char end[PACK_CHECKSUM];
    int result = read_exactly(reader, bytes, size, error);
    uint32_t checksum = reader->checksum;
    result = result != 0 ? result : read_exactly(reader, end, sizeof end, error);
    return result != 0 || checksum == get32(end)
               ? result
               : error_set(error, AML_EINPUT, "%s: damaged: its checksum does not match", reader->path);
}

int pack_read(const char *path, const struct pack_summary *summary,
              int (*each)(void *context, const void *bytes, size_t size), void *context, struct error *error) {
    struct part_reader reader;
    unsigned char *bytes = NULL;
    size_t size = 0;
    int result = part_open(&reader, path, error);
    if (result == 0 && !same_graph(&reader.summary, summary)) {
        result = error_set(error, AML_EINPUT, "%s: a part of another graph", path);
    }
    for (uint32_t i = 0; i < reader.part.intervals && result == 0; i++) {
        size += reader.part.entries[i].bytes;
    }
    if (result == 0) {
        bytes = malloc(size + 1);
        result = bytes != NULL ? 0 : error_set(error, AML_ENOMEM, "%s: no memory for its %zu bytes", path, size);
    }
    result = result != 0 ? result : read_body(&reader, bytes, size, error);
    result = result != 0 ? result : read_intervals(&reader, bytes, summary, each, context, error);
    free(bytes);
    part_close(&reader);
    return result;
}
