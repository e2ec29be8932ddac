/* See plan_pack.h. */
#include "agileml/wire/plan_pack.h"

#include "agileml/base/memory.h"
#include "agileml/wire/records.h"

#include <assert.h>
#include <string.h>
#include <zstd.h>

enum {
    PACK_LEVEL = 3, /* zstd's; higher ones save little here */
    PACK_WINDOW_LEAST = 10
};

/* ---- Images ---- */

struct image_sizes {
    uint32_t head;
    uint32_t frames[PLAN_FRAMES]; /* bytes */
};

static size_t image_bytes(const struct image_sizes *sizes) {
    size_t bytes = sizeof *sizes + sizes->head;
    for (unsigned f = 0; f < PLAN_FRAMES; f++) {
        bytes += sizes->frames[f];
    }
    return bytes;
}

/* The fields of `count` assignments in an image, one array after the other. */
struct columns {
    unsigned char *origin, *from_clock, *until_clock, *first, *count;
};

static struct columns columns_at(unsigned char *at, size_t count) {
    struct columns columns = {.origin = at};
    columns.from_clock = columns.origin + count * sizeof(actor_id);
    columns.until_clock = columns.from_clock + count * sizeof(uint64_t);
    columns.first = columns.until_clock + count * sizeof(uint64_t);
    columns.count = columns.first + count * sizeof(uint32_t);
    static_assert(sizeof(struct wire_assignment) == 3 * sizeof(uint64_t) + 2 * sizeof(uint32_t), "no other fields");
    return columns;
}

static void lay_assignments(const struct wire_assignment *assignments, size_t count, unsigned char *at) {
    struct columns columns = columns_at(at, count);
    uint32_t end = 0;
    for (size_t d = 0; d < count; d++) {
        uint32_t first = assignments[d].first - end;
        memcpy(columns.origin + d * sizeof(actor_id), &assignments[d].origin, sizeof(actor_id));
        memcpy(columns.from_clock + d * sizeof(uint64_t), &assignments[d].from_clock, sizeof(uint64_t));
        memcpy(columns.until_clock + d * sizeof(uint64_t), &assignments[d].until_clock, sizeof(uint64_t));
        memcpy(columns.first + d * sizeof first, &first, sizeof first);
        memcpy(columns.count + d * sizeof(uint32_t), &assignments[d].count, sizeof(uint32_t));
        end = assignments[d].first + assignments[d].count;
    }
}

static void take_assignments(unsigned char *at, size_t count, struct wire_assignment *assignments) {
    struct columns columns = columns_at(at, count);
    uint32_t end = 0;
    for (size_t d = 0; d < count; d++) {
        uint32_t first;
        memcpy(&assignments[d].origin, columns.origin + d * sizeof(actor_id), sizeof(actor_id));
        memcpy(&assignments[d].from_clock, columns.from_clock + d * sizeof(uint64_t), sizeof(uint64_t));
        memcpy(&assignments[d].until_clock, columns.until_clock + d * sizeof(uint64_t), sizeof(uint64_t));
        memcpy(&first, columns.first + d * sizeof first, sizeof first);
        memcpy(&assignments[d].count, columns.count + d * sizeof(uint32_t), sizeof(uint32_t));
        assignments[d].first = end + first;
        end = assignments[d].first + assignments[d].count;
    }
}

static void lay_shards(const uint32_t *shards, size_t count, unsigned char *at) {
    uint32_t before = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t more = shards[i] - before;
        memcpy(at + i * sizeof more, &more, sizeof more);
        before = shards[i];
    }
}

static void take_shards(const unsigned char *at, size_t count, uint32_t *shards) {
    uint32_t before = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t more;
        memcpy(&more, at + i * sizeof more, sizeof more);
        shards[i] = before += more;
    }
}

/* Returns the plan's image; with no plan, an empty one. */
static struct buffer *image_of(const struct plan_view *plan) {
    if (plan == NULL) {
        return buffer_new(0);
    }
    unsigned char head[WIRE_HEAD_MAX];
    struct message message = {
        .type = MESSAGE_PLAN, .epoch = plan->epoch, .plan = plan->terms, .frame_count = PLAN_FRAMES};
    struct image_sizes sizes = {.head = (uint32_t)message_encode_head(&message, head)};
    for (unsigned f = 0; f < PLAN_FRAMES; f++) {
        sizes.frames[f] = (uint32_t)plan->frames[f]->size;
    }
    struct buffer *image = buffer_new(image_bytes(&sizes));
    unsigned char *at = image->data;
    memcpy(at, &sizes, sizeof sizes);
    at += sizeof sizes;
    memcpy(at, head, sizes.head);
    at += sizes.head;
    for (unsigned f = 0; f < PLAN_FRAMES; f++) {
        if (f == PLAN_ASSIGNMENTS) {
            lay_assignments(plan->assignments, plan->assignment_count, at);
        } else if (f == PLAN_SHARDS) {
            lay_shards(plan->shards, plan->shard_count, at);
        } else if (sizes.frames[f] > 0) {
            memcpy(at, plan->frames[f]->data, sizes.frames[f]);
        }
        at += sizes.frames[f];
    }
    assert(at == image->data + image->size);
    return image;
}

static int image_error(const struct message *packed, struct error *error) {
    return error_set(error, AML_EPROTOCOL, "PACKED_PLAN: plan %llu is damaged",
                     (unsigned long long)packed->packed_plan.version);
}

/* Takes the PLAN out of the image. */
static int image_take(const struct message *packed, struct buffer *image, struct message *plan, struct error *error) {
    struct image_sizes sizes;
    if (image->size < sizeof sizes) {
        return image_error(packed, error);
    }
    memcpy(&sizes, image->data, sizeof sizes);
    if (image_bytes(&sizes) != image->size || sizes.frames[PLAN_ASSIGNMENTS] % sizeof(struct wire_assignment) != 0 ||
        sizes.frames[PLAN_SHARDS] % sizeof(uint32_t) != 0) {
        return image_error(packed, error);
    }
    const unsigned char *head = image->data + sizeof sizes;
    unsigned char *at = image->data + sizeof sizes + sizes.head;
    for (unsigned f = 0; f < PLAN_FRAMES; f++) {
        struct buffer *frame = buffer_new(sizes.frames[f]);
        if (f == PLAN_ASSIGNMENTS) {
            take_assignments(at, frame->size / sizeof(struct wire_assignment), (void *)frame->data);
        } else if (f == PLAN_SHARDS) {
            take_shards(at, frame->size / sizeof(uint32_t), (void *)frame->data);
        } else if (frame->size > 0) {
            memcpy(frame->data, at, frame->size);
        }
        message_add(plan, frame);
        at += sizes.frames[f];
    }
    int result = message_decode_head(plan, head, sizes.head, error);
    bool same = result == 0 && plan->type == MESSAGE_PLAN && plan->epoch == packed->epoch &&
                plan->plan.version == packed->packed_plan.version;
    return result != 0 || same ? result : image_error(packed, error);
}

/* ---- Compressed ---- */

/* The window must reach over the base and the image. */
static int window_log(size_t bytes) {
    int log = PACK_WINDOW_LEAST;
    while ((UINT64_C(1) << log) < bytes) {
        log++;
    }
    return log;
}

struct message plan_pack(const struct plan_view *plan, const struct plan_view *base) {
    struct message message = {.type = MESSAGE_PACKED_PLAN, .epoch = plan->epoch};
    struct buffer *image = image_of(plan);
    struct buffer *before = image_of(base);
    struct buffer *packed = buffer_new(ZSTD_compressBound(image->size));
    ZSTD_CCtx *context = ZSTD_createCCtx();
    if (context == NULL) {
        memory_exhausted(packed->size);
    }
    assert(image->size <= WIRE_PLAN_MAX);
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, PACK_LEVEL);
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log(before->size + image->size));
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1); /* finds another base */
    ZSTD_CCtx_refPrefix(context, before->data, before->size);
    size_t size = ZSTD_compress2(context, packed->data, packed->size, image->data, image->size);
    if (ZSTD_isError(size)) { /* the room is enough, so only memory can lack */
        memory_exhausted(packed->size);
    }
    ZSTD_freeCCtx(context);
    message.packed_plan = (struct message_packed_plan){
        .version = plan->terms.version, .base = base != NULL ? base->terms.version : 0, .bytes = image->size};
    message_add_copy(&message, packed->data, size);
    buffer_drop(packed);
    buffer_drop(before);
    buffer_drop(image);
    return message;
}

bool plan_unpacks(const struct message *packed, const struct plan_view *now) {
    return packed->packed_plan.base == 0 ||
           (plan_is_there(now) && packed->packed_plan.base == now->terms.version);
}

int plan_unpack(const struct message *packed, const struct plan_view *now, struct plan_view *plan,
                struct error *error) {
    struct message message = {0};
    const struct buffer *frame = packed->frames[RECORDS_FRAME];
    struct buffer *before = image_of(packed->packed_plan.base != 0 ? now : NULL);
    struct buffer *image = buffer_new(packed->packed_plan.bytes);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (context == NULL) {
        memory_exhausted(image->size);
    }
    assert(plan_unpacks(packed, now) && image->size <= WIRE_PLAN_MAX);
    ZSTD_DCtx_refPrefix(context, before->data, before->size);
    size_t size = ZSTD_decompressDCtx(context, image->data, image->size, frame->data, frame->size);
    ZSTD_freeDCtx(context);
    int result = ZSTD_isError(size) || size != image->size ? image_error(packed, error)
                                                           : image_take(packed, image, &message, error);
    if (result == 0) {
        *plan = plan_open(&message);
    }
    message_close(&message);
    buffer_drop(image);
    buffer_drop(before);
    return result;
}
