/* libFuzzer target: decoding head frames and finding rows in payload frames, of any bytes. What is accepted must be
 * within the frames, and its head must encode to the same bytes.
 *
 * Input: the number of payload frames (1 byte), the size of the head and of each frame (2 bytes each), then their
 * bytes. */
#include "agileml/wire/plan_pack.h"
#include "agileml/wire/rows.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static const struct row_shape fuzz_shapes[] = {
    {.type = AML_FLOAT32, .width = 1, .row_bytes = 4},
    {.type = AML_FLOAT32, .width = 2, .row_bytes = 8, .encoding = WIRE_BF16},
    {.type = AML_FLOAT32, .width = 6, .row_bytes = 24, .encoding = WIRE_BF16},
    {.type = AML_INT32, .width = 10, .row_bytes = 40, .encoding = WIRE_SPARSE},
    {.type = AML_INT64, .width = 5, .row_bytes = 40, .encoding = WIRE_SPARSE},
};
enum { FUZZ_TABLES = sizeof fuzz_shapes / sizeof fuzz_shapes[0], FUZZ_ROW_MAX = 40 };

static void fuzz_release(struct buffer *buffer) {
    free(buffer->data);
    free(buffer);
}

/* Makes a frame in an allocation of its own size, so that sanitizers see a read past its end. */
static struct buffer *fuzz_frame(const uint8_t *data, size_t size) {
    struct buffer *frame = malloc(sizeof *frame);
    FUZZ_CHECK(frame != NULL);
    atomic_init(&frame->references, 1);
    frame->size = size;
    frame->data = malloc(size > 0 ? size : 1);
    frame->release = fuzz_release;
    FUZZ_CHECK(frame->data != NULL);
    memcpy(frame->data, data, size);
    return frame;
}

/* Adds accepted rows, and subtracts them again if the encoding can. Returns their bytes. */
static size_t fuzz_values(const struct rows_view *view, const struct row_shape *shape) {
    const struct rows_codec *codec = rows_codec(view->encoding);
    uint64_t sum[FUZZ_ROW_MAX / sizeof(uint64_t)] = {0};
    size_t at = 0;
    FUZZ_CHECK(rows_not_finite(shape, view) <= view->count);
    for (int away = 0; away <= (codec->subtract != NULL); away++) {
        at = 0;
        for (uint32_t r = 0; r < view->count; r++) {
            size_t bytes = (away ? codec->subtract : codec->add)(shape, sum, view->values + at, 1);
            FUZZ_CHECK(bytes == codec->bytes(shape, view->values + at) && bytes <= codec->bytes_max(shape));
            at += bytes;
        }
    }
    for (size_t i = 0; codec->subtract != NULL && i < sizeof sum / sizeof sum[0]; i++) {
        FUZZ_CHECK(sum[i] == 0);
    }
    return at;
}

static void fuzz_rows(const struct message *message) {
    struct rows_view views[WIRE_TABLES_MAX];
    struct error error = {0};
    int count = rows_check(message, fuzz_shapes, FUZZ_TABLES, views, &error);
    FUZZ_CHECK(count == AML_EPROTOCOL ? error.code == count : count >= 0 && error.code == 0);
    for (int v = 0; v < count; v++) {
        FUZZ_CHECK(views[v].table < FUZZ_TABLES && views[v].count > 0);
        uint64_t sum = 0;
        for (uint32_t r = 0; r < views[v].count; r++) {
            sum += views[v].keys[r];
        }
        FUZZ_CHECK((views[v].values == NULL) == (message->type == MESSAGE_SUBSCRIBE));
        const struct row_shape *shape = &fuzz_shapes[views[v].table];
        FUZZ_CHECK(views[v].encoding == WIRE_FULL ||
                   ((message->type == MESSAGE_FLUSH || message->type == MESSAGE_PUSH) &&
                    views[v].encoding == shape->encoding) ||
                   (message->type == MESSAGE_UPDATE && views[v].encoding == rows_exact(shape)));
        if (views[v].values != NULL) {
            FUZZ_CHECK(fuzz_values(&views[v], shape) == message->frames[2 + 2 * v]->size);
        }
        volatile uint64_t kept = sum;
        (void)kept;
    }
}

/* Uses an accepted plan as a node does: every partition's place, every assignment's shards, every clock's commit. */
static void fuzz_plan(const struct message *message) {
    struct plan_view plan = plan_open(message);
    uint64_t sum = 0;
    for (uint32_t p = 0; p < plan.terms.partitions; p++) {
        sum += plan_server_at(&plan, 0, p) + plan_server_at(&plan, WIRE_CLOCK_NEVER, p);
        sum += (uint64_t)plan_has_role(&plan, p, sum);
    }
    for (size_t d = 0; d < plan.assignment_count; d++) {
        const struct wire_assignment *assignment = &plan.assignments[d];
        FUZZ_CHECK(assignment->count > 0 && assignment->from_clock <= assignment->until_clock);
        for (uint32_t s = 0; s < assignment->count; s++) {
            FUZZ_CHECK(plan.shards[assignment->first + s] < plan.terms.shards);
        }
    }
    volatile uint64_t kept = sum + (uint64_t)plan_is_commit_point(&plan, sum);
    (void)kept;
    struct message packed = plan_pack(&plan, plan.terms.version > 0 ? &plan : NULL);
    struct plan_view back;
    struct error error = {0};
    FUZZ_CHECK(plan_unpacks(&packed, &plan) && plan_unpack(&packed, &plan, &back, &error) == 0);
    for (unsigned f = 0; f < PLAN_FRAMES; f++) {
        FUZZ_CHECK(back.frames[f]->size == plan.frames[f]->size &&
                   memcmp(back.frames[f]->data, plan.frames[f]->data, plan.frames[f]->size) == 0);
    }
    plan_close(&back);
    message_close(&packed);
    plan_close(&plan);
}

static void fuzz_unpack(const struct message *packed) {
    struct plan_view plan;
    struct error error = {0};
    if (packed->packed_plan.base == 0 && plan_unpack(packed, NULL, &plan, &error) == 0) {
        FUZZ_CHECK(plan.terms.version == packed->packed_plan.version && plan.epoch == packed->epoch);
        plan_close(&plan);
    }
}

/* Unpacks the bytes as they are, and as what zstd would deliver, which a fuzzer would hardly find. */
static void fuzz_packed_plan(const struct message *message) {
    fuzz_unpack(message);
    const struct buffer *image = message->frames[0];
    struct message packed = *message;
    packed.packed_plan.base = 0;
    packed.packed_plan.bytes = image->size;
    packed.frames[0] = buffer_new(ZSTD_compressBound(image->size));
    packed.frames[0]->size =
        ZSTD_compress(packed.frames[0]->data, packed.frames[0]->size, image->data, image->size, 1);
    FUZZ_CHECK(!ZSTD_isError(packed.frames[0]->size));
    fuzz_unpack(&packed);
    buffer_drop(packed.frames[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct message message;
    memset(&message, 0xA5, sizeof message);
    message.frame_count = data[0] % (MESSAGE_FRAMES_MAX + 1);
    const uint8_t *sizes = data + 1;
    size_t at = 1 + 2 * (1 + (size_t)message.frame_count);
    if (size < at) {
        return 0;
    }
    size_t head_size = sizes[0] + ((size_t)sizes[1] << 8);
    head_size = head_size < size - at ? head_size : size - at;
    struct buffer *head = fuzz_frame(data + at, head_size);
    at += head_size;
    for (unsigned f = 0; f < message.frame_count; f++) {
        size_t wanted = sizes[2 + 2 * f] + ((size_t)sizes[3 + 2 * f] << 8);
        size_t left = size - at;
        size_t frame_size = wanted < left ? wanted : left;
        message.frames[f] = fuzz_frame(data + at, frame_size);
        at += frame_size;
    }
    struct error error = {0};
    int result = message_decode_head(&message, head->data, head_size, &error);
    FUZZ_CHECK(result == error.code && (result == 0 || result == AML_EPROTOCOL));
    if (result == 0) {
        unsigned char again[WIRE_HEAD_MAX];
        FUZZ_CHECK(message_encode_head(&message, again) == head_size && memcmp(again, head->data, head_size) == 0);
        FUZZ_CHECK(strcmp(message_name(message.type), "unknown") != 0);
        if (message.type == MESSAGE_SUBSCRIBE || message.type == MESSAGE_PUSH || message.type == MESSAGE_FLUSH ||
            message.type == MESSAGE_ROWS || message.type == MESSAGE_UPDATE) {
            fuzz_rows(&message);
        } else if (message.type == MESSAGE_PLAN) {
            fuzz_plan(&message);
        } else if (message.type == MESSAGE_PACKED_PLAN && message.packed_plan.bytes < 1 << 20) {
            fuzz_packed_plan(&message);
        }
    } else {
        FUZZ_CHECK(error.text[0] != '\0');
    }
    buffer_drop(head);
    message_close(&message);
    return 0;
}
