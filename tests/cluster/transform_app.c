/* transforms: sums what a chain of transforms makes of numbers, and prints the sums, which must not depend on the
 * processes that run a transform. --widen makes a second transform's output larger than the first one's; by how much
 * depends on the item's number. --varied gives items different sizes, which must not change the sums. With --mistake a
 * transform makes a forbidden call. An app for tests, not an example. */
#include "agileml.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUMS };
enum { NUMBERS, RANDOM, ITEMS, WIDTH };

struct transforms {
    int64_t items, sleep_us; /* sleep_us: time of the first transform for an item */
    int64_t widen;
    int64_t varied; /* limit of an item's extra bytes; 0: items are numbers alone */
    struct aml_transform *chain;
    const char *mistake;
    bool feeder; /* this process is a feeder */
};

/* The transforms' result for an item, which is a uint32_t. */
struct tagged {
    uint32_t number, random;
};

struct looked {
    struct tagged tagged;
    int64_t before; /* items counted in earlier clocks */
};

/* Returns how many bytes a varied item has after its number. */
static size_t more_bytes(const struct transforms *transforms, uint32_t number) {
    return number * UINT64_C(7919) % (uint64_t)(transforms->varied + 1);
}

/* Whether feeders can't read the input. */
static bool fails_reading(const struct transforms *transforms) {
    return transforms->mistake != NULL && strcmp(transforms->mistake, "read-at-feeder") == 0;
}

static int read_numbers(aml_worker *worker, void *context) {
    const struct transforms *transforms = context;
    unsigned char *item = malloc(sizeof(uint32_t) + (size_t)transforms->varied);
    bool rows = transforms->mistake != NULL && strcmp(transforms->mistake, "rows") == 0;
    const struct aml_keys run = {.table = SUMS, .count = 1, .keys = (const uint64_t[1]){0}};
    int kept = item == NULL ? AML_ENOMEM : 0;
    if (transforms->feeder && fails_reading(transforms)) {
        kept = aml_error(worker, AML_EINPUT, "numbers: no such file");
    }
    for (uint32_t i = 0; i < transforms->items && kept >= 0; i++) {
        enum aml_item_use use = i % 10 == 9 ? AML_TEST : AML_TRAIN;
        size_t more = more_bytes(transforms, i);
        memcpy(item, &i, sizeof i);
        memset(item + sizeof i, (unsigned char)i, more);
        kept = transforms->varied > 0 ? aml_emit_varied(worker, use, i, &run, rows ? 1 : 0, item, sizeof i + more)
                                      : aml_emit_numbered(worker, use, i, item);
    }
    free(item);
    return kept < 0 ? kept : 0;
}

/* Gets the number of a varied item, which must be as it was emitted. */
static int take_varied(aml_worker *worker, const struct transforms *transforms, const struct aml_item *item,
                       uint32_t *number) {
    const unsigned char *bytes = aml_item_bytes(item);
    memcpy(number, bytes, sizeof *number);
    size_t more = more_bytes(transforms, *number);
    bool same = item->row_count == 0 && item->size == sizeof *number + more;
    for (size_t b = 0; b < more && same; b++) {
        same = bytes[sizeof *number + b] == (unsigned char)*number;
    }
    return same ? 0 : aml_error(worker, AML_EINPUT, "item %u has %u bytes, or others", *number, item->size);
}

static int make_mistake(aml_worker *worker, const struct transforms *transforms) {
    int64_t row[WIDTH] = {0};
    if (transforms->mistake != NULL && strcmp(transforms->mistake, "read") == 0) {
        return aml_read_param(worker, SUMS, 0, row);
    }
    if (transforms->mistake != NULL && strcmp(transforms->mistake, "update") == 0) {
        return aml_update_param(worker, SUMS, 0, row);
    }
    if (transforms->mistake != NULL && strcmp(transforms->mistake, "total") == 0) {
        (void)aml_total(worker, 0);
    }
    bool here = transforms->mistake != NULL && strcmp(transforms->mistake, "fail-at-feeder") == 0 && transforms->feeder;
    if (here || (transforms->mistake != NULL && strcmp(transforms->mistake, "fail") == 0)) {
        return aml_error(worker, AML_EINPUT, "the transform has had enough");
    }
    return 0;
}

static int tag(aml_worker *worker, uint64_t random, const void *in, void *out, void *context) {
    const struct transforms *transforms = context;
    struct tagged *tagged = out;
    if (transforms->sleep_us > 0) {
        nanosleep(&(struct timespec){.tv_nsec = transforms->sleep_us * 1000}, NULL);
    }
    if (transforms->varied == 0) {
        memcpy(&tagged->number, in, sizeof tagged->number);
    } else if (take_varied(worker, transforms, in, &tagged->number) != 0) {
        return AML_EINPUT;
    }
    tagged->random = (uint32_t)(random >> 40);
    return make_mistake(worker, transforms);
}

static int widen(aml_worker *worker, uint64_t random, const void *in, void *out, void *context) {
    const struct transforms *transforms = context;
    struct tagged *tagged = out;
    (void)worker;
    (void)random;
    memcpy(tagged, in, sizeof *tagged);
    memset(tagged + 1, (unsigned char)tagged->number, (size_t)transforms->widen);
    return 0;
}

static int look(aml_worker *worker, uint64_t random, const void *in, void *out, void *context) {
    const struct transforms *transforms = context;
    struct looked *looked = out;
    int64_t row[WIDTH];
    (void)random;
    int result = aml_read_param(worker, SUMS, 0, row);
    memcpy(&looked->tagged, in, sizeof looked->tagged);
    looked->before = row[ITEMS];
    const unsigned char *wide = (const unsigned char *)in + sizeof looked->tagged;
    for (int64_t b = 0; b < transforms->widen && result == 0; b += 1000) {
        if (wide[b] != (unsigned char)looked->tagged.number) {
            return aml_error(worker, AML_EINPUT, "byte %lld of %u is %u", (long long)b, looked->tagged.number, wide[b]);
        }
    }
    return result;
}

static int add_up(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct looked *looked = items;
    int64_t sums[WIDTH] = {0};
    int64_t before = (int64_t)((aml_clock(worker) - 1) * aml_total_items(worker));
    (void)context;
    for (size_t i = 0; i < count; i++) {
        sums[NUMBERS] += looked[i].tagged.number;
        sums[RANDOM] += looked[i].tagged.random;
        sums[ITEMS]++;
        if (looked[i].before < before) { /* after a failure there are more: the process's own later updates */
            return aml_error(worker, AML_EINPUT, "a transform saw %lld items before clock %llu, expected %lld or more",
                             (long long)looked[i].before, (unsigned long long)aml_clock(worker), (long long)before);
        }
    }
    return aml_update_param(worker, SUMS, 0, sums);
}

/* Checks that test items have been through all transforms, with the same random bits each time. */
static int check_tests(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct looked *looked = items;
    double sum = 0;
    (void)context;
    for (size_t i = 0; i < count; i++) {
        if (looked[i].tagged.number % 10 != 9) {
            return aml_error(worker, AML_EINPUT, "%u is no test item", looked[i].tagged.number);
        }
        sum += looked[i].tagged.random;
    }
    aml_metric_add(worker, 0, sum, 1);
    return 0;
}

static int print_sums(void *context, const uint64_t *keys, const void *rows, size_t count) {
    const int64_t *sums = rows;
    (void)context;
    (void)keys;
    if (count > 0) {
        printf("sums %lld %lld %lld\n", (long long)sums[NUMBERS], (long long)sums[RANDOM], (long long)sums[ITEMS]);
    }
    return 0;
}

static int finish(aml_worker *worker, void *context) {
    int result = aml_scan(worker, SUMS, print_sums, context);
    fflush(stdout);
    return result;
}

static int set_sizes(aml_worker *worker, struct aml_app *app) {
    const struct transforms *transforms = app->context;
    struct aml_transform *chain = transforms->chain;
    (void)worker;
    chain[1].bytes = sizeof(struct tagged) + (size_t)transforms->widen;
    app->read_only_emits = !fails_reading(transforms); /* otherwise a feeder gets the items from another node */
    app->item_varied = transforms->varied > 0;
    app->item_bytes = transforms->varied > 0 ? 0 : sizeof(uint32_t);
    return 0;
}

int main(int argc, char **argv) {
    struct transforms transforms = {.items = 5000};
    const struct aml_option options[] = {
        {"items", "N", AML_OPTION_INTEGER, &transforms.items, 1, 10000000, "numbers to add up"},
        {"widen", "N", AML_OPTION_INTEGER, &transforms.widen, 0, AML_ITEM_BYTES_MAX - 8, "bytes that a transform adds"},
        {"varied", "N", AML_OPTION_INTEGER, &transforms.varied, 0, 100000, "items carry up to so many bytes more"},
        {"sleep-us", "N", AML_OPTION_INTEGER, &transforms.sleep_us, 0, 999999, "sleep so long for each item"},
        {"mistake", "NAME", AML_OPTION_STRING, &transforms.mistake, 0, 0, "what a transform does that it must not"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct aml_table tables[] = {{.name = "sums", .type = AML_INT64, .width = WIDTH, .rows = 1, .whole = 1}};
    const struct aml_metric metrics[] = {{.name = "tests", .kind = AML_SUM, .evaluated = 1}};
    struct aml_transform chain[] = {
        {.name = "tag", .bytes = sizeof(struct tagged), .run = tag},
        {.name = "widen", .from = "tag", .bytes = sizeof(struct tagged), .run = widen},
        {.name = "look", .from = "widen", .flags = AML_TRANSFORM_STATE, .bytes = sizeof(struct looked), .run = look},
        {.name = NULL},
    };
    struct aml_app app = {.name = "transforms",
                          .options = options,
                          .tables = tables,
                          .table_count = 1,
                          .metrics = metrics,
                          .metric_count = 1,
                          .clock_alone = 1,
                          .transforms = chain,
                          .configure = set_sizes,
                          .read_only_emits = 1,
                          .read = read_numbers,
                          .clock = add_up,
                          .evaluate = check_tests,
                          .finish = finish,
                          .context = &transforms};
    transforms.chain = chain;
    for (int a = 1; a < argc; a++) {
        transforms.feeder =
            transforms.feeder || strcmp(argv[a], "feeder") == 0 || strcmp(argv[a], "--tier=feeder") == 0;
    }
    return aml_main(&app, argc, argv);
}
