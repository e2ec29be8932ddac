/* bench_add: measures how fast a partition server adds a received flush to the sums of a pending clock. Compares it
 * with a plain loop over arrays of the same size that adds the same values. The two run in turns. */
#include "agileml/ps/partition.h"
#include "bench/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ADD_FLUSHES = 16, /* flushes in one sample, each from another origin */
    ADD_ORIGINS = ADD_FLUSHES + 3,
    ADD_ROWS_MAX = 1 << 20 /* most rows of a flush: a sparse table of more narrow rows would take too long to make */
};

/* A table and the rows that each flush updates. */
struct shape {
    uint32_t width; /* floats per row */
    size_t bytes;   /* most bytes of values in a flush */
    /* every third row in random order, in a table without a fixed number of rows; else all rows of a dense table in
     * order */
    bool sparse;
};

struct bench {
    struct job job;
    struct partition *partition;
    struct message flush;
    uint32_t count;    /* rows per flush */
    uint32_t *slots;   /* array slots of these rows, for the plain loop */
    struct arena sums; /* the array that the plain loop adds to */
    actor_id origins[ADD_ORIGINS];
};

/* Keys of a flush. A sparse flush updates keys 0, 3, 6, ...; the table also has the rows between them. */
static void fill_keys(const struct shape *shape, uint64_t *keys, uint32_t count) {
    uint64_t random = 1;
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = shape->sparse ? 3 * (uint64_t)i : i;
    }
    for (uint32_t i = count; shape->sparse && i > 1; i--) {
        random = hash_mix(random);
        uint32_t other = (uint32_t)(random % i);
        uint64_t swap = keys[i - 1];
        keys[i - 1] = keys[other];
        keys[other] = swap;
    }
}

static struct message make_flush(const struct shape *shape, uint32_t count) {
    struct message flush = {.type = MESSAGE_FLUSH};
    struct buffer *keys = buffer_new(count * sizeof(uint64_t));
    struct buffer *values = buffer_new((size_t)count * shape->width * sizeof(float));
    fill_keys(shape, (uint64_t *)(void *)keys->data, count);
    for (size_t i = 0; i < (size_t)count * shape->width; i++) {
        ((float *)(void *)values->data)[i] = 1;
    }
    rows_append(&flush, 0, WIRE_FULL, keys, values);
    return flush;
}

/* Handles a received FLUSH as a server does. */
static int take(struct bench *bench, actor_id origin, uint64_t clock, struct error *error) {
    struct rows_view views[WIRE_TABLES_MAX];
    int count = rows_check(&bench->flush, bench->job.shapes, bench->job.table_count, views, error);
    int result =
        count < 0 ? count : partition_flush(bench->partition, origin, clock, 0, false, views, (unsigned)count, error);
    return result < 0 || result == FLUSH_TAKEN ? result : error_set(error, AML_EFAIL, "a flush was not taken");
}

/* The plain loop: the same adds, without keys, clocks or origins. */
static void add_rows(float *restrict sums, const float *restrict values, const uint32_t *restrict slots, uint32_t count,
                     uint32_t width) {
    for (uint32_t i = 0; i < count; i++) {
        float *restrict sum = sums + (size_t)slots[i] * width;
        const float *restrict value = values + (size_t)i * width;
        for (uint32_t k = 0; k < width; k++) {
            sum[k] += value[k];
        }
    }
}

static void add_all(float *restrict sums, const float *restrict values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sums[i] += values[i];
    }
}

static int bench_open(struct bench *bench, const struct shape *shape, struct error *error) {
    *bench = (struct bench){.job = {.table_count = 1}};
    bench->count = (uint32_t)(shape->bytes / (shape->width * sizeof(float)));
    bench->count = bench->count < ADD_ROWS_MAX ? bench->count : ADD_ROWS_MAX;
    uint32_t rows = shape->sparse ? 3 * bench->count : bench->count;
    bench->job.tables[0] = (struct table_spec){.name = "floats",
                                               .type = AML_FLOAT32,
                                               .width = shape->width,
                                               .row_bytes = shape->width * (uint32_t)sizeof(float),
                                               .rows = shape->sparse ? 0 : rows};
    bench->job.shapes[0] = table_shape(&bench->job.tables[0]);
    bench->partition = partition_open(&bench->job, 0, 1, error);
    if (bench->partition == NULL) {
        return error->code;
    }
    struct wire_assignment assignments[ADD_ORIGINS];
    for (unsigned o = 0; o < ADD_ORIGINS; o++) {
        bench->origins[o] = (o + UINT64_C(1)) << ACTOR_PART_BITS;
        assignments[o] = (struct wire_assignment){
            .origin = bench->origins[o], .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER, .first = o, .count = 1};
    }
    partition_expect(bench->partition, assignments, ADD_ORIGINS);
    struct table *table = &bench->partition->tables[0];
    for (uint32_t key = 0; key < rows; key++) {
        if (table_slot(table, key) < 0) {
            return error_set(error, AML_ENOMEM, "no memory for %u rows", rows);
        }
    }
    bench->flush = make_flush(shape, bench->count);
    /* The flush counts as one by a subscribed worker: its rows are in the order of the subscription. */
    struct rows_view view;
    int views = rows_check(&bench->flush, bench->job.shapes, 1, &view, error);
    for (unsigned o = 0; o < ADD_ORIGINS && views == 1; o++) {
        if (partition_subscribe(bench->partition, bench->origins[o], 1, false, &view, 1, error) != 0) {
            return error->code;
        }
    }
    bench->slots = memory_resized(NULL, bench->count, sizeof *bench->slots);
    for (uint32_t i = 0; i < bench->count; i++) {
        bench->slots[i] = (uint32_t)table_slot(table, view.keys[i]);
    }
    if (arena_grow(&bench->sums, (size_t)rows * bench->job.tables[0].row_bytes) != 0) {
        return error_set(error, AML_ENOMEM, "no memory for %u sums", rows);
    }
    return 0;
}

static void bench_close(struct bench *bench) {
    partition_close(bench->partition);
    message_close(&bench->flush);
    arena_close(&bench->sums);
    free(bench->slots);
}

/* Runs a whole clock. Times only the flushes that are added to existing sums, and returns the seconds of one. */
static int sample_partition(struct bench *bench, uint64_t clock, double *wall, double *cpu, struct error *error) {
    unsigned origin = 0;
    int result = 0;
    while (origin < 2 && result == 0) { /* the second flush makes the sums */
        result = take(bench, bench->origins[origin++], clock, error);
    }
    double start = measure_wall();
    double cpu_start = measure_thread_cpu();
    while (origin < 2 + ADD_FLUSHES && result == 0) {
        result = take(bench, bench->origins[origin++], clock, error);
    }
    *wall = (measure_wall() - start) / ADD_FLUSHES;
    *cpu = (measure_thread_cpu() - cpu_start) / ADD_FLUSHES;
    result = result == 0 ? take(bench, bench->origins[origin], clock, error) : result;
    if (result == 0 && !partition_advance(bench->partition)) {
        result = error_set(error, AML_EFAIL, "the clock did not advance");
    }
    return result;
}

static void sample_plain(struct bench *bench, const struct shape *shape, double *wall, double *cpu) {
    float *sums = (float *)(void *)bench->sums.base;
    struct rows_view view;
    if (!rows_find(&bench->flush, 0, &view)) {
        abort();
    }
    const float *values = (const float *)(const void *)view.values;
    double start = measure_wall();
    double cpu_start = measure_thread_cpu();
    for (unsigned f = 0; f < ADD_FLUSHES; f++) {
        if (shape->sparse) {
            add_rows(sums, values, bench->slots, bench->count, shape->width);
        } else {
            add_all(sums, values, (size_t)bench->count * shape->width);
        }
        __asm__ volatile("" : : "r"(sums) : "memory"); /* keeps the compiler from dropping the sums */
    }
    *wall = (measure_wall() - start) / ADD_FLUSHES;
    *cpu = (measure_thread_cpu() - cpu_start) / ADD_FLUSHES;
}

static int run_shape(const struct shape *shape, int64_t samples, struct error *error) {
    struct bench bench;
    struct series walls[2] = {0};
    struct series ratios = {0};
    struct series cpu_ratios = {0};
    int result = bench_open(&bench, shape, error);
    for (int64_t s = -1; s < samples && result == 0; s++) { /* the first is a warm-up */
        double wall[2];
        double cpu[2];
        result = sample_partition(&bench, (uint64_t)(s + 2), &wall[0], &cpu[0], error);
        sample_plain(&bench, shape, &wall[1], &cpu[1]);
        if (result == 0 && s >= 0) {
            series_add(&walls[0], wall[0]);
            series_add(&walls[1], wall[1]);
            series_add(&ratios, wall[1] / wall[0]);
            series_add(&cpu_ratios, cpu[1] / cpu[0]);
        }
    }
    if (result == 0) {
        double bytes = (double)bench.count * shape->width * sizeof(float);
        printf("%6u  %8u  %8.2f  %-6s  %8.2f  %8.2f  %6.2f  %6.2f\n", shape->width, bench.count, bytes / 1e6,
               shape->sparse ? "sparse" : "dense", bytes / series_median(&walls[0]) / 1e9,
               bytes / series_median(&walls[1]) / 1e9, series_median(&ratios), series_median(&cpu_ratios));
        fflush(stdout);
    }
    bench_close(&bench);
    series_close(&walls[0]);
    series_close(&walls[1]);
    series_close(&ratios);
    series_close(&cpu_ratios);
    return result;
}

static const char SUMMARY[] =
    "bench_add: adding a received flush to a pending clock, beside a plain loop over arrays of the same size.\n"
    "dense: all rows of a table with a fixed number of rows, in order; sparse: every third row of a table of any\n"
    "keys, in random order. 256 KiB of values, then 64 MiB or a million rows. GB/s counts the added values;\n"
    "memory sees about three times as many. The figures of 256 KiB depend on where the buffers lie in the caches:\n"
    "compare several runs.";

int main(int argc, char **argv) {
    static const uint32_t WIDTHS[] = {1, 16, 64, 100, 1000};
    static const size_t SIZES[] = {256 << 10, 64 << 20}; /* one fits into the second-level cache, one does not */
    int64_t samples = 11;
    bool quick = false;
    const struct aml_option options[] = {
        {"samples", "N", AML_OPTION_INTEGER, &samples, 1, 10000, "turns of both, after one that is not counted"},
        {"quick", NULL, AML_OPTION_FLAG, &quick, 0, 0, "small sizes, one sample: does it run at all"},
        {0},
    };
    struct error error = {0};
    int status = measure_options(options, SUMMARY, argc, argv);
    if (status >= 0) {
        return status;
    }
    measure_print_machine();
    printf(" width      rows        MB  keys    flush GB/s  loop GB/s  ratio  CPU-r.\n");
    int result = 0;
    for (size_t size = 0; size < (quick ? 1 : sizeof SIZES / sizeof SIZES[0]); size++) {
        for (unsigned sparse = 0; sparse < 2; sparse++) {
            for (size_t w = 0; w < sizeof WIDTHS / sizeof WIDTHS[0] && result == 0; w++) {
                const struct shape shape = {.width = WIDTHS[w], .bytes = SIZES[size], .sparse = sparse != 0};
                result = run_shape(&shape, quick ? 1 : samples, &error);
            }
        }
    }
    if (result != 0) {
        fprintf(stderr, "%s\n", error.text);
    }
    return result == 0 ? 0 : error_exit_status(result);
}
