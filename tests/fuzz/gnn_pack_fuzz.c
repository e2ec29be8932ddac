/* Fuzzes packed graphs: any bytes as an interval, or as a part file whose checksums are made right. They are refused
 * with an error of one line, or all that their views have is within its bounds.
 *
 * Input: a byte for the kind and the forms of an interval, a byte for its number of columns, zeros up to 4 bytes, then
 * the interval or the file. */
#include "apps/gnn/pack.h"
#include "apps/gnn/pack_head.h"
#include "apps/little_endian.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_HEAD = 4,
    FUZZ_PART = 1,
    FUZZ_DIRECTED = 2,
    FUZZ_FEATURES = 4,
    FUZZ_AGGREGATED = 8,
    FUZZ_DENSE = 16,
    FUZZ_AGGREGATED_DENSE = 32,
    FUZZ_WIDE = 64, /* 65,537 columns */
    VERTICES = 80,
    INTERVALS = 8,
    CLASSES = 3
};

static uint32_t element(const void *array, bool wide, uint32_t at) {
    return wide ? ((const uint32_t *)array)[at] : ((const uint16_t *)array)[at];
}

static void check_lists(const struct interval *interval, const struct nn_lists *lists) {
    FUZZ_CHECK(lists->n == interval->own && lists->offsets[0] == 0);
    for (uint32_t i = 0; i < lists->n; i++) {
        FUZZ_CHECK(lists->offsets[i] <= lists->offsets[i + 1]);
        for (uint32_t e = lists->offsets[i]; e < lists->offsets[i + 1]; e++) {
            uint32_t id = element(lists->ids, lists->wide, e);
            FUZZ_CHECK(id < interval->own + interval->ghosts && id != i);
            FUZZ_CHECK(e == lists->offsets[i] || element(lists->ids, lists->wide, e - 1) < id);
        }
    }
}

static void check_features(const struct interval *interval, const struct nn_features *features) {
    FUZZ_CHECK(features->n == interval->own);
    for (uint32_t i = 0; i < features->n && features->columns > 0; i++) {
        for (uint32_t c = 0; c < features->columns && features->dense; c++) {
            FUZZ_CHECK(isfinite(features->values[(size_t)i * features->columns + c]));
        }
        for (uint32_t e = features->dense ? 0 : features->offsets[i];
             e < (features->dense ? 0 : features->offsets[i + 1]); e++) {
            FUZZ_CHECK(isfinite(features->values[e]) && element(features->at, features->wide, e) < features->columns);
        }
    }
}

static void check_view(const void *bytes, const struct interval_limits *limits) {
    struct interval interval;
    interval_view(bytes, &interval);
    FUZZ_CHECK(interval.number < limits->intervals && interval.own >= 1 && interval.own <= limits->vertices);
    FUZZ_CHECK(interval.first <= limits->vertices - interval.own);
    for (uint32_t g = 0; g < interval.ghosts; g++) {
        uint32_t place = interval.ghost_places[g];
        FUZZ_CHECK(place < limits->vertices && (place < interval.first || place >= interval.first + interval.own));
    }
    for (uint32_t i = 0; i < interval.own; i++) {
        FUZZ_CHECK(interval.labels[i] >= -1 && interval.labels[i] < (int32_t)limits->classes);
        FUZZ_CHECK(interval.splits[i] <= (interval.labels[i] >= 0 ? GRAPH_TEST : GRAPH_UNUSED));
    }
    check_lists(&interval, &interval.in);
    check_lists(&interval, &interval.out);
    FUZZ_CHECK(limits->directed || interval.out.ids == interval.in.ids);
    check_features(&interval, &interval.features);
    check_features(&interval, &interval.aggregated);
}

static void check_error(int result, const struct error *error) {
    FUZZ_CHECK(result == AML_EINPUT || result == AML_ENOMEM);
    FUZZ_CHECK(error->code == result && error->text[0] != '\0' && strchr(error->text, '\n') == NULL);
}

static void check_interval(uint8_t forms, uint8_t columns, const uint8_t *bytes, size_t size) {
    unsigned carried =
        (forms & FUZZ_FEATURES ? INTERVAL_FEATURES : 0U) | (forms & FUZZ_AGGREGATED ? INTERVAL_AGGREGATED : 0U);
    const struct interval_limits limits = {.vertices = VERTICES,
                                           .intervals = INTERVALS,
                                           .classes = CLASSES,
                                           .columns = carried == 0        ? 0
                                                      : forms & FUZZ_WIDE ? 65537
                                                                          : 1U + columns,
                                           .directed = (forms & FUZZ_DIRECTED) != 0,
                                           .carried = carried,
                                           .dense = (forms & FUZZ_DENSE) != 0,
                                           .aggregated_dense = (forms & FUZZ_AGGREGATED_DENSE) != 0};
    struct error error = {0};
    unsigned char *copy = malloc(size > 0 ? size : 1); /* so that a read past its end is seen */
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, bytes, size);
    int result = interval_check(copy, size, &limits, &error);
    if (result == 0) {
        check_view(copy, &limits);
    } else {
        check_error(result, &error);
    }
    free(copy);
}

static int each_interval(void *context, const void *bytes, size_t size) {
    struct interval_limits limits = pack_limits(context);
    FUZZ_CHECK(size > 0);
    check_view(bytes, &limits);
    return 0;
}

/* Sets the checksums of a part. Returns whether its head may be decoded. */
static bool make_right(uint8_t *bytes, size_t size) {
    struct error error = {0};
    size_t head;
    if (size < PACK_START + 2 * PACK_CHECKSUM || pack_head_begin("part", bytes, &head, &error) != 0 ||
        head > size - PACK_CHECKSUM || head < PACK_START + PACK_CHECKSUM) {
        return false;
    }
    put32(bytes + head - PACK_CHECKSUM, (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, head - PACK_CHECKSUM));
    put32(bytes + size - PACK_CHECKSUM, (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, size - PACK_CHECKSUM));
    return true;
}

static void read_part(const uint8_t *bytes, size_t size, const struct pack_summary *summary) {
    struct error error = {0};
    char path[32];
    int file = memfd_create("part", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, bytes, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    int result = pack_read(path, summary, each_interval, (void *)(uintptr_t)summary, &error);
    if (result != 0) {
        check_error(result, &error);
        FUZZ_CHECK(strncmp(error.text, path, strlen(path)) == 0);
    }
    close(file);
}

static void check_part(const uint8_t *data, size_t size) {
    struct pack_summary summary = {.graph = 0};
    struct pack_part part;
    struct error error = {0};
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, data, size);
    if (make_right(bytes, size)) {
        int result = pack_head_decode("part", bytes, get32(bytes + PACK_MAGIC + 4), size, &summary, &part, &error);
        if (result == 0) {
            free(part.entries);
        } else {
            check_error(result, &error);
        }
    }
    read_part(bytes, size, &summary);
    pack_summary_close(&summary);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < FUZZ_HEAD) {
        return 0;
    }
    if (data[0] & FUZZ_PART) {
        check_part(data + FUZZ_HEAD, size - FUZZ_HEAD);
    } else {
        check_interval(data[0], data[1], data + FUZZ_HEAD, size - FUZZ_HEAD);
    }
    return 0;
}
