/* Writes the seeds of wire_fuzz into the folder that is its only argument: one message of every type as it is sent, and
 * rows of several tables. No seed is stored in the repository. */
#include "tests/fuzz/corpus.h"

#include "agileml/wire/plan_pack.h"
#include "agileml/wire/rows.h"
#include "agileml/wire/sparse.h"
#include "tests/forge.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>

enum { CORPUS_SEED_MAX = 8192, CORPUS_ROWS = 3, CORPUS_VARIANTS = 5, CORPUS_ROW_MAX = 40 };

static const uint32_t corpus_row_bytes[] = {4, 8, 24}; /* as in wire_fuzz.c */

static void add_frame(struct message *message, size_t size) {
    struct buffer *frame = buffer_new(size);
    memset(frame->data, 0, size);
    message->frames[message->frame_count++] = frame;
}

/* Adds rows of the first `tables` tables. With all three, the rows of the second and third are in bf16 where messages
 * allow that. */
static void add_rows(struct message *message, unsigned tables) {
    struct wire_directory_entry directory[WIRE_TABLES_MAX];
    bool half = tables == 3 && (message->type == MESSAGE_PUSH || message->type == MESSAGE_FLUSH);
    for (unsigned t = 0; t < tables; t++) {
        directory[t] = (struct wire_directory_entry){
            .table = t, .rows = CORPUS_ROWS, .encoding = t > 0 && half ? WIRE_BF16 : WIRE_FULL};
    }
    message->frames[message->frame_count++] = buffer_copy(directory, tables * sizeof directory[0]);
    for (unsigned t = 0; t < tables; t++) {
        add_frame(message, CORPUS_ROWS * sizeof(uint64_t));
        if (message->type != MESSAGE_SUBSCRIBE) {
            add_frame(message, (size_t)CORPUS_ROWS * corpus_row_bytes[t] / (t > 0 && half ? 2 : 1));
        }
    }
}

/* Adds sparse rows of the tables that allow them: with no, some and many changes. */
static void add_sparse_rows(struct message *message) {
    struct wire_directory_entry directory[2];
    for (unsigned t = 0; t < 2; t++) {
        directory[t] = (struct wire_directory_entry){.table = 3 + t, .rows = CORPUS_ROWS, .encoding = WIRE_SPARSE};
    }
    message->frames[message->frame_count++] = buffer_copy(directory, sizeof directory);
    for (unsigned t = 0; t < 2; t++) {
        const uint32_t element_bytes = t == 0 ? sizeof(uint32_t) : sizeof(uint64_t);
        const uint32_t width = CORPUS_ROW_MAX / element_bytes;
        unsigned char row[CORPUS_ROW_MAX] = {0};
        unsigned char base[CORPUS_ROW_MAX] = {0};
        add_frame(message, CORPUS_ROWS * sizeof(uint64_t));
        struct buffer *values = buffer_new(CORPUS_ROWS * sparse_most(width, element_bytes));
        values->size = 0;
        for (unsigned r = 0; r < CORPUS_ROWS; r++) {
            memset(row, (int)r, (size_t)(r == 2 ? width : r) * element_bytes);
            values->size += sparse_delta(element_bytes, values->data + values->size, row, base, width, true);
        }
        message->frames[message->frame_count++] = values;
    }
}

/* Adds `count` assignments, one after the other in time, of the same shards. */
static void add_assignments(struct message *message, unsigned count) {
    add_frame(message, count * sizeof(struct wire_assignment));
    struct wire_assignment *assignments = (void *)message->frames[message->frame_count - 1]->data;
    for (unsigned d = 0; d < count; d++) {
        assignments[d] = (struct wire_assignment){.from_clock = d + 1, .until_clock = d + 1, .count = 8};
    }
    add_frame(message, 8 * sizeof(uint32_t));
}

static void add_payload(struct message *message, unsigned variant);

/* A plan that is packed, or (odd variants) its bytes before zstd. */
static void add_packed_plan(struct message *message, unsigned variant) {
    struct message whole = {.type = MESSAGE_PLAN, .epoch = message->epoch};
    add_payload(&whole, variant);
    struct plan_view plan = plan_open(&whole);
    *message = plan_pack(&plan, NULL);
    if (variant % 2 == 1) {
        struct buffer *packed = message->frames[0];
        struct buffer *image = buffer_new(message->packed_plan.bytes);
        image->size = ZSTD_decompress(image->data, image->size, packed->data, packed->size);
        message->frames[0] = image;
        buffer_drop(packed);
    }
    plan_close(&plan);
    message_close(&whole);
}

/* Adds `count` ranges of as many parts. */
static void add_ranges(struct message *message, unsigned count) {
    add_frame(message, count * sizeof(struct wire_input_range));
    struct wire_input_range *ranges = (void *)message->frames[message->frame_count - 1]->data;
    for (unsigned s = 0; s < count; s++) {
        ranges[s] = (struct wire_input_range){.first = s, .end = s + 1, .part = s};
    }
}

static void add_payload(struct message *message, unsigned variant) {
    switch ((unsigned)message->type) {
    case MESSAGE_REGISTER:
        add_frame(message, sizeof(struct wire_endpoint));
        add_frame(message, 2 * sizeof(struct wire_metric));
        add_frame(message, variant * sizeof(struct wire_option));
        break;
    case MESSAGE_PLAN:
        message->plan = (struct message_plan){.version = 1,
                                              .from_clock = variant > 1 ? WIRE_CLOCK_NEVER : 1,
                                              .commit_every = 1,
                                              .next_commit_every = 4,
                                              .partitions = 4,
                                              .shards = 8,
                                              .recoverable = 1};
        add_frame(message, 2 * sizeof(struct wire_node));
        add_frame(message, 4 * sizeof(struct wire_placement));
        memset(message->frames[1]->data, 1, message->frames[1]->size);
        add_assignments(message, variant);
        add_frame(message, sizeof(struct wire_endpoint));
        break;
    case MESSAGE_PACKED_PLAN:
        add_packed_plan(message, variant);
        break;
    case MESSAGE_INPUT:
        add_frame(message, 8 * sizeof(struct wire_input_shard));
        add_frame(message, variant * sizeof(struct wire_input_file));
        add_ranges(message, variant);
        break;
    case MESSAGE_LOADED:
    case MESSAGE_START:
        add_frame(message, WIRE_TOTALS * sizeof(double));
        break;
    case MESSAGE_SAVE:
        add_frame(message, variant * sizeof(double));
        break;
    case MESSAGE_PROGRESS:
        add_frame(message, sizeof(struct wire_metric_sum));
        break;
    case MESSAGE_EVALUATE:
        add_frame(message, (1 + variant) * sizeof(uint32_t));
        for (uint32_t s = 0; s <= variant; s++) {
            memcpy(message->frames[0]->data + s * sizeof s, &s, sizeof s);
        }
        break;
    case MESSAGE_REPORT:
    case MESSAGE_STATUS:
    case MESSAGE_NOTE:
        add_frame(message, 20);
        break;
    case MESSAGE_EVICT:
    case MESSAGE_GONE:
        add_frame(message, (size_t)variant * WIRE_NAME_MAX);
        break;
    case MESSAGE_ALLOCATION:
        add_frame(message, variant * sizeof(struct wire_machine));
        for (unsigned m = 0; m < variant; m++) {
            struct wire_machine *machine = (struct wire_machine *)(void *)message->frames[0]->data + m;
            *machine = (struct wire_machine){.name = "i-0", .tier = m % 2};
        }
        break;
    case MESSAGE_FENCED:
    case MESSAGE_REPLICAS:
        add_frame(message, variant * sizeof(struct wire_restore_point));
        break;
    case MESSAGE_CHECKPOINT:
        add_frame(message, variant * sizeof(uint32_t));
        break;
    case MESSAGE_SUBSCRIBE:
    case MESSAGE_PUSH:
    case MESSAGE_FLUSH:
    case MESSAGE_ROWS:
    case MESSAGE_UPDATE:
        if (variant == CORPUS_VARIANTS - 1 && message->type == MESSAGE_FLUSH) {
            add_sparse_rows(message);
        } else if (variant > 0) {
            add_rows(message, variant < 4 ? variant : 1);
        }
        break;
    default:
        break;
    }
}

static void put_size(unsigned char *at, size_t size) {
    at[0] = (unsigned char)size;
    at[1] = (unsigned char)(size >> 8);
}

/* Writes a seed of a type as forge_message counts them; true, too, if there is no such type. */
static bool corpus_seed(const char *folder, unsigned type, unsigned variant) {
    struct message message;
    unsigned char head[WIRE_HEAD_MAX];
    unsigned char seed[CORPUS_SEED_MAX];
    if (!forge_message(type, &message)) {
        return true;
    }
    if (message.type != MESSAGE_PEER) {
        message_close(&message);
        message = (struct message){.type = type, .epoch = 1};
        add_payload(&message, variant);
    }
    size_t head_size = message_encode_head(&message, head);
    size_t size = 1 + 2 * (1 + (size_t)message.frame_count);
    seed[0] = (unsigned char)message.frame_count;
    put_size(seed + 1, head_size);
    memcpy(seed + size, head, head_size);
    size += head_size;
    bool fits = true;
    for (unsigned f = 0; f < message.frame_count && fits; f++) {
        const struct buffer *frame = message.frames[f];
        fits = frame->size <= sizeof seed - size;
        if (fits) {
            put_size(seed + 3 + 2 * (size_t)f, frame->size);
            memcpy(seed + size, frame->data, frame->size);
            size += frame->size;
        }
    }
    message_close(&message);
    char name[32];
    snprintf(name, sizeof name, "seed-%03u-%u", type, variant);
    return fits && corpus_write(folder, name, seed, size);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: wire_corpus FOLDER\n");
        return 2;
    }
    for (unsigned type = 0; type < FORGE_TYPES; type++) {
        for (unsigned variant = 0; variant < CORPUS_VARIANTS; variant++) {
            if (!corpus_seed(argv[1], type, variant)) {
                fprintf(stderr, "wire_corpus: cannot write seed %u into %s\n", type, argv[1]);
                return 1;
            }
        }
    }
    return 0;
}
