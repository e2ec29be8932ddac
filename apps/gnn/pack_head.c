/* See pack_head.h. Numbers are little-endian:
 *
 *     8 bytes magic, u32 version, u32 bytes of the head
 *     u64 graph; u32 vertices, intervals, parts, classes, columns, forms, average
 *     u64 entries, values, aggregated values, cut, ghosts, train, validation, test
 *     u32 scale; with GRAPH_SCALE_STANDARD floats: centres, then factors of the columns
 *     of each class: u64 vertices in each of the 4 splits; u32 bytes of the name; the name
 *     u32 number of the part, first interval, intervals, first place; of each interval u32 bytes, u32 vertices
 *     zeros up to a multiple of 4 bytes; u32 checksum: CRC-32 (zlib's) of the head before it */
#include "apps/gnn/pack_head.h"

#include "agileml.h"
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "apps/little_endian.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const unsigned char magic[PACK_MAGIC] = {'A', 'M', 'L', 'G', 'R', 'A', 'P', 'H'};

enum { FORM_DIRECTED = 1, FORM_FEATURES = 2, FORM_AGGREGATED = 4, FORM_DENSE = 8, FORM_AGGREGATED_DENSE = 16 };
enum { SPLITS = GRAPH_TEST + 1, NUMBERS = 7, SUMS = 8 };

/* ---- Encoding ---- */

struct writer {
    unsigned char *bytes;
    size_t size, room;
};

static unsigned char *writer_room(struct writer *writer, size_t size) {
    if (writer->room - writer->size < size) {
        writer->room = 2 * (writer->room + size);
        writer->bytes = memory_resized(writer->bytes, writer->room, 1);
    }
    writer->size += size;
    return writer->bytes + writer->size - size;
}

static void write32(struct writer *writer, uint32_t value) {
    put32(writer_room(writer, 4), value);
}

static void write64(struct writer *writer, uint64_t value) {
    put64(writer_room(writer, 8), value);
}

static uint32_t forms_of(const struct pack_summary *summary) {
    return (summary->directed ? FORM_DIRECTED : 0U) | (summary->carried & INTERVAL_FEATURES ? FORM_FEATURES : 0U) |
           (summary->carried & INTERVAL_AGGREGATED ? FORM_AGGREGATED : 0U) | (summary->dense ? FORM_DENSE : 0U) |
           (summary->aggregated_dense ? FORM_AGGREGATED_DENSE : 0U);
}

static void write_scale(struct writer *writer, const struct pack_summary *summary) {
    const struct graph_scale *scale = &summary->scale;
    write32(writer, scale->kind);
    for (uint32_t c = 0; c < 2 * summary->columns && scale->kind == GRAPH_SCALE_STANDARD; c++) {
        bool centre = c < summary->columns;
        put_float(writer_room(writer, 4), centre ? scale->centres[c] : scale->factors[c - summary->columns]);
    }
}

/* Writes the summary from `vertices` on; `parts` as given. */
static void write_summary(struct writer *writer, const struct pack_summary *summary, uint32_t parts) {
    const uint32_t numbers[NUMBERS] = {summary->vertices, summary->intervals, parts,           summary->classes,
                                       summary->columns,  forms_of(summary),  summary->average};
    const uint64_t sums[SUMS] = {summary->entries, summary->values, summary->aggregated_values, summary->cut,
                                 summary->ghosts,  summary->train,  summary->validation,        summary->test};
    for (unsigned i = 0; i < NUMBERS; i++) {
        write32(writer, numbers[i]);
    }
    for (unsigned i = 0; i < SUMS; i++) {
        write64(writer, sums[i]);
    }
    write_scale(writer, summary);
    for (uint32_t c = 0; c < summary->classes; c++) {
        size_t length = strlen(summary->class_names[c]);
        for (unsigned s = 0; s < SPLITS; s++) {
            write64(writer, summary->class_counts[SPLITS * (size_t)c + s]);
        }
        write32(writer, (uint32_t)length);
        memcpy(writer_room(writer, length), summary->class_names[c], length);
    }
}

static void write_part(struct writer *writer, const struct pack_part *part) {
    write32(writer, part->number);
    write32(writer, part->first);
    write32(writer, part->intervals);
    write32(writer, part->place);
    for (uint32_t i = 0; i < part->intervals; i++) {
        write32(writer, part->entries[i].bytes);
        write32(writer, part->entries[i].own);
    }
}

unsigned char *pack_head_encode(const struct pack_summary *summary, const struct pack_part *part, size_t *size) {
    struct writer writer = {.bytes = NULL};
    memcpy(writer_room(&writer, PACK_MAGIC), magic, PACK_MAGIC);
    write32(&writer, PACK_VERSION);
    write32(&writer, 0);
    write64(&writer, summary->graph);
    write_summary(&writer, summary, summary->parts);
    write_part(&writer, part);
    size_t gap = (4 - writer.size % 4) % 4;
    memset(writer_room(&writer, gap), 0, gap);
    put32(writer.bytes + PACK_MAGIC + 4, (uint32_t)(writer.size + PACK_CHECKSUM));
    write32(&writer, (uint32_t)crc32_z(crc32_z(0, NULL, 0), writer.bytes, writer.size));
    *size = writer.size;
    return writer.bytes;
}

uint64_t pack_head_hash(const struct pack_summary *summary, uint64_t seed) {
    struct writer writer = {.bytes = NULL};
    write_summary(&writer, summary, 0);
    uint64_t hash = hash_bytes(writer.bytes, writer.size, seed);
    free(writer.bytes);
    return hash;
}

/* ---- Decoding ---- */

struct reader {
    const char *path;
    struct error *error;
    const unsigned char *bytes; /* [size] */
    size_t size, at;
    bool ended; /* more was taken than there is; zeros were returned */
};

static const unsigned char *reader_take(struct reader *reader, size_t size) {
    static const unsigned char zeros[8];
    if (reader->size - reader->at < size) {
        reader->ended = true;
        return zeros;
    }
    reader->at += size;
    return reader->bytes + reader->at - size;
}

static uint32_t read32(struct reader *reader) {
    return get32(reader_take(reader, 4));
}

static uint64_t read64(struct reader *reader) {
    return get64(reader_take(reader, 8));
}

static int refuse(const struct reader *reader, const char *what) {
    return error_set(reader->error, AML_EINPUT, "%s: the part's head %s", reader->path, what);
}

int pack_head_begin(const char *path, const unsigned char *bytes, size_t *size, struct error *error) {
    uint32_t version = get32(bytes + PACK_MAGIC);
    if (memcmp(bytes, magic, PACK_MAGIC) != 0) {
        return error_set(error, AML_EINPUT, "%s: not a part of a packed graph: its first bytes differ", path);
    }
    if (version != PACK_VERSION) {
        return error_set(error, AML_EINPUT, "%s: the graph was packed in version %u, expected %d: pack it again", path,
                         version, PACK_VERSION);
    }
    *size = get32(bytes + PACK_MAGIC + 4);
    if (*size < PACK_START || *size > PACK_HEAD_MAX) {
        return error_set(error, AML_EINPUT, "%s: damaged: the part's head has %zu bytes, expected %d to %d", path,
                         *size, PACK_START, PACK_HEAD_MAX);
    }
    return 0;
}

static int read_numbers(struct reader *reader, struct pack_summary *summary) {
    summary->graph = read64(reader);
    summary->vertices = read32(reader);
    summary->intervals = read32(reader);
    summary->parts = read32(reader);
    uint32_t classes = read32(reader); /* summary->classes becomes the number of names */
    summary->columns = read32(reader);
    uint32_t forms = read32(reader);
    uint32_t average = read32(reader);
    summary->directed = (forms & FORM_DIRECTED) != 0;
    summary->carried =
        (forms & FORM_FEATURES ? INTERVAL_FEATURES : 0U) | (forms & FORM_AGGREGATED ? INTERVAL_AGGREGATED : 0U);
    summary->dense = (forms & FORM_DENSE) != 0;
    summary->aggregated_dense = (forms & FORM_AGGREGATED_DENSE) != 0;
    summary->average = average == GRAPH_MEAN ? GRAPH_MEAN : GRAPH_SYMMETRIC;
    if (summary->vertices < 1 || summary->vertices > GRAPH_VERTICES_MAX || summary->intervals < 1 ||
        summary->intervals > summary->vertices || summary->parts < 1 || summary->parts > summary->intervals ||
        summary->parts > PACK_PARTS_MAX || classes > GRAPH_CLASSES_MAX || summary->columns > GRAPH_FEATURES_MAX) {
        return refuse(reader, "has a number that is out of its range");
    }
    bool forms_fit = forms == forms_of(summary) && (summary->carried != 0) == (summary->columns > 0) &&
                     (!summary->dense || (summary->carried & INTERVAL_FEATURES)) &&
                     (!summary->aggregated_dense || (summary->carried & INTERVAL_AGGREGATED));
    if (!forms_fit || average > GRAPH_MEAN) {
        return refuse(reader, "has forms of features that can't be");
    }
    summary->class_counts = memory_zeroed((size_t)classes * SPLITS + 1, sizeof *summary->class_counts);
    summary->class_names = memory_zeroed(classes + (size_t)1, sizeof *summary->class_names);
    summary->classes = classes;
    return 0;
}

static bool values_fit(const struct pack_summary *summary, unsigned carried, bool dense, uint64_t values) {
    uint64_t all = (uint64_t)summary->vertices * summary->columns;
    return (summary->carried & carried) == 0 ? values == 0 : dense ? values == all : values <= all;
}

static int read_sums(struct reader *reader, struct pack_summary *summary) {
    uint64_t *const sums[SUMS] = {&summary->entries, &summary->values, &summary->aggregated_values, &summary->cut,
                                  &summary->ghosts,  &summary->train,  &summary->validation,        &summary->test};
    for (unsigned i = 0; i < SUMS; i++) {
        *sums[i] = read64(reader);
    }
    if (summary->entries > (uint64_t)summary->vertices * summary->vertices || summary->cut > summary->entries ||
        summary->ghosts > summary->cut * (summary->directed ? 2 : 1) ||
        !values_fit(summary, INTERVAL_FEATURES, summary->dense, summary->values) ||
        !values_fit(summary, INTERVAL_AGGREGATED, summary->aggregated_dense, summary->aggregated_values)) {
        return refuse(reader, "has sums that can't be");
    }
    return 0;
}

static int read_scale(struct reader *reader, struct pack_summary *summary) {
    struct graph_scale *scale = &summary->scale;
    uint32_t kind = read32(reader);
    if (kind >= GRAPH_SCALE_AUTO) {
        return refuse(reader, "has a scale of features that can't be");
    }
    *scale = (struct graph_scale){.kind = (enum graph_scale_kind)kind, .columns = summary->columns};
    if (kind != GRAPH_SCALE_STANDARD) {
        return 0;
    }
    if ((reader->size - reader->at) / 8 < summary->columns) {
        return refuse(reader, "ends early");
    }
    scale->centres = memory_zeroed(summary->columns + (size_t)1, sizeof *scale->centres);
    scale->factors = memory_zeroed(summary->columns + (size_t)1, sizeof *scale->factors);
    for (uint32_t c = 0; c < 2 * summary->columns; c++) {
        float value = get_float(reader_take(reader, 4));
        *(c < summary->columns ? &scale->centres[c] : &scale->factors[c - summary->columns]) = value;
        if (!isfinite(value)) {
            return refuse(reader, "has a scale of features that is not finite");
        }
    }
    return 0;
}

/* Reads the classes, and checks that their vertices add up to those of the splits. */
static int read_classes(struct reader *reader, struct pack_summary *summary) {
    uint64_t sums[SPLITS] = {0};
    for (uint32_t c = 0; c < summary->classes && !reader->ended; c++) {
        for (unsigned s = 0; s < SPLITS; s++) {
            uint64_t count = read64(reader);
            summary->class_counts[SPLITS * (size_t)c + s] = count;
            sums[s] += count;
            if (count > summary->vertices) {
                return refuse(reader, "has a class of more vertices than the graph has");
            }
        }
        uint32_t length = read32(reader);
        if (length > PACK_NAME_MAX) {
            return refuse(reader, "has a class's name that is too long");
        }
        const unsigned char *name = reader->size - reader->at < length ? NULL : reader_take(reader, length);
        if (name == NULL || memchr(name, 0, length) != NULL) {
            return refuse(reader, "has a class's name that can't be");
        }
        summary->class_names[c] = memory_zeroed(length + (size_t)1, 1);
        memcpy(summary->class_names[c], name, length);
    }
    if (!reader->ended &&
        (sums[GRAPH_TRAIN] != summary->train || sums[GRAPH_VALIDATION] != summary->validation ||
         sums[GRAPH_TEST] != summary->test || sums[0] + sums[1] + sums[2] + sums[3] > summary->vertices)) {
        return refuse(reader, "has classes that don't add up to the splits");
    }
    return 0;
}

static int read_part(struct reader *reader, const struct pack_summary *summary, struct pack_part *part) {
    part->number = read32(reader);
    part->first = read32(reader);
    part->intervals = read32(reader);
    part->place = read32(reader);
    if (part->number >= summary->parts || part->first >= summary->intervals || part->intervals < 1 ||
        part->intervals > summary->intervals - part->first || part->place >= summary->vertices) {
        return refuse(reader, "has intervals that the graph doesn't have");
    }
    size_t left = reader->size - reader->at;
    if (left / 8 != part->intervals || left % 8 >= 4) {
        return refuse(reader, "has another size than its intervals need");
    }
    part->entries = memory_zeroed(part->intervals, sizeof *part->entries);
    uint32_t room = summary->vertices - part->place;
    for (uint32_t i = 0; i < part->intervals; i++) {
        struct pack_entry *entry = &part->entries[i];
        entry->bytes = read32(reader);
        entry->own = read32(reader);
        if (entry->bytes > AML_ITEM_BYTES_MAX || entry->bytes % 4 != 0 || entry->own < 1 || entry->own > room) {
            return refuse(reader, "has an interval of a size that can't be");
        }
        room -= entry->own;
    }
    while (reader->at < reader->size) {
        if (*reader_take(reader, 1) != 0) {
            return refuse(reader, "does not end in zeros");
        }
    }
    return 0;
}

static int check_file(const char *path, size_t head, uint64_t file, const struct pack_part *part, struct error *error) {
    uint64_t expected = head + PACK_CHECKSUM;
    for (uint32_t i = 0; i < part->intervals; i++) {
        expected += part->entries[i].bytes;
    }
    return file == expected ? 0
                            : error_set(error, AML_EINPUT, "%s: truncated or too long: %llu bytes, expected %llu", path,
                                        (unsigned long long)file, (unsigned long long)expected);
}

static int decode(struct reader *reader, uint64_t file, struct pack_summary *summary, struct pack_part *part) {
    int result = read_numbers(reader, summary);
    result = result != 0 ? result : read_sums(reader, summary);
    result = result != 0 ? result : read_scale(reader, summary);
    result = result != 0 ? result : read_classes(reader, summary);
    result = result != 0 ? result : read_part(reader, summary, part);
    if (result == 0 && reader->ended) {
        result = refuse(reader, "ends early");
    }
    return result != 0 ? result : check_file(reader->path, reader->size + PACK_CHECKSUM, file, part, reader->error);
}

int pack_head_decode(const char *path, const unsigned char *bytes, size_t size, uint64_t file,
                     struct pack_summary *summary, struct pack_part *part, struct error *error) {
    struct reader reader = {
        .path = path, .error = error, .bytes = bytes, .size = size - PACK_CHECKSUM, .at = PACK_START};
    *summary = (struct pack_summary){.graph = 0};
    *part = (struct pack_part){.number = 0};
    if (size < PACK_START + PACK_CHECKSUM || size % 4 != 0 ||
        crc32_z(crc32_z(0, NULL, 0), bytes, reader.size) != get32(bytes + reader.size)) {
        return error_set(error, AML_EINPUT, "%s: damaged: the checksum of the part's head does not match", path);
    }
    int result = decode(&reader, file, summary, part);
    if (result != 0) {
        free(part->entries);
        *part = (struct pack_part){.number = 0};
        pack_summary_close(summary);
    }
    return result;
}
