/* bench_apply: measures one clock of a server's partition, from a received flush of every row to the rows of the new
 * clock. Compares each built-in optimizer with a table whose sums are plainly added, in turns. */
#include "agileml/ps/partition.h"
#include "bench/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAIN, MOMENTUM, ADAGRAD, ADAM, FTRL, CONTENDERS };

static const struct aml_momentum momentum = {.rate = 1e-3, .momentum = 0.9};
static const struct aml_adagrad adagrad = {.rate = 1e-3, .epsilon = 1e-8};
static const struct aml_adam adam = {.rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
static const struct aml_ftrl ftrl = {.alpha = 0.1, .beta = 1, .l1 = 0.1};

static const struct contender {
    const char *name;
    table_apply *apply;
    const void *parameters;
    uint32_t (*state_width)(uint32_t width);
} contenders[CONTENDERS] = {
    [PLAIN] = {"plain add", NULL, NULL, NULL},
    [MOMENTUM] = {"momentum", aml_apply_momentum, &momentum, aml_momentum_state},
    [ADAGRAD] = {"adagrad", aml_apply_adagrad, &adagrad, aml_adagrad_state},
    [ADAM] = {"adam", aml_apply_adam, &adam, aml_adam_state},
    [FTRL] = {"ftrl", aml_apply_ftrl, &ftrl, aml_ftrl_state},
};

static const actor_id ORIGIN = 1 << ACTOR_PART_BITS;

struct table_bench {
    struct job job;
    struct partition *partition;
    struct message flush;
};

static int bench_open(struct table_bench *bench, const struct contender *contender, uint32_t rows, uint32_t width,
                      struct error *error) {
    *bench = (struct table_bench){.job = {.table_count = 1}};
    bench->job.tables[0] = (struct table_spec){.name = "floats",
                                               .type = AML_FLOAT32,
                                               .width = width,
                                               .row_bytes = width * (uint32_t)sizeof(float),
                                               .rows = rows,
                                               .apply = contender->apply,
                                               .parameters = contender->parameters};
    if (contender->apply != NULL) {
        bench->job.tables[0].state = 1;
        bench->job.tables[1] = table_state_spec(&bench->job.tables[0], contender->state_width(width));
        bench->job.table_count = 2;
    }
    for (unsigned t = 0; t < bench->job.table_count; t++) {
        bench->job.shapes[t] = table_shape(&bench->job.tables[t]);
    }
    bench->partition = partition_open(&bench->job, 0, 1, error);
    if (bench->partition == NULL) {
        return error->code;
    }
    const struct wire_assignment assignment = {
        .origin = ORIGIN, .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER, .count = 1};
    partition_expect(bench->partition, &assignment, 1);
    partition_keep(bench->partition, true); /* like a server in stages 2 and 3, which may have to roll back */
    struct buffer *keys = buffer_new(rows * sizeof(uint64_t));
    struct buffer *values = buffer_new((size_t)rows * width * sizeof(float));
    for (uint32_t r = 0; r < rows; r++) {
        ((uint64_t *)(void *)keys->data)[r] = r;
    }
    for (size_t i = 0; i < (size_t)rows * width; i++) {
        ((float *)(void *)values->data)[i] = (float)(i % 7) - 3;
    }
    bench->flush.type = MESSAGE_FLUSH;
    rows_append(&bench->flush, 0, WIRE_FULL, keys, values);
    return 0;
}

static void bench_close(struct table_bench *bench) {
    partition_close(bench->partition);
    message_close(&bench->flush);
}

/* Runs one clock: checks and applies the flush, then forgets the clock before, as after a commit. */
static int one_clock(struct table_bench *bench, double *cpu, struct error *error) {
    struct rows_view views[WIRE_TABLES_MAX];
    uint64_t clock = bench->partition->clock + 1;
    double start = measure_thread_cpu();
    int count = rows_check(&bench->flush, bench->job.shapes, bench->job.table_count, views, error);
    int result =
        count < 0 ? count : partition_flush(bench->partition, ORIGIN, clock, 0, false, views, (unsigned)count, error);
    if (result < 0) {
        return result;
    }
    if (result != FLUSH_TAKEN || !partition_advance(bench->partition)) {
        return error_set(error, AML_EFAIL, "the clock did not advance");
    }
    partition_point(bench->partition);
    result = partition_commit(bench->partition, clock, error);
    *cpu = measure_thread_cpu() - start;
    return result;
}

static int run_shape(uint32_t rows, uint32_t width, int64_t samples, struct error *error) {
    struct table_bench benches[CONTENDERS] = {0};
    struct series cpus[CONTENDERS] = {0};
    struct series ratios[CONTENDERS] = {0};
    int result = 0;
    for (unsigned c = 0; c < CONTENDERS && result == 0; c++) {
        result = bench_open(&benches[c], &contenders[c], rows, width, error);
    }
    for (int64_t s = -1; s < samples && result == 0; s++) { /* the first is a warm-up */
        double cpu[CONTENDERS] = {0};
        for (unsigned c = 0; c < CONTENDERS && result == 0; c++) {
            result = one_clock(&benches[c], &cpu[c], error);
        }
        for (unsigned c = 0; c < CONTENDERS && result == 0 && s >= 0; c++) {
            series_add(&cpus[c], cpu[c]);
            series_add(&ratios[c], cpu[c] / cpu[PLAIN]);
        }
    }
    for (unsigned c = 0; c < CONTENDERS; c++) {
        if (result == 0) {
            printf("%8u x %-5u  %-10s  %8.2f  %6.2f\n", rows, width, contenders[c].name,
                   series_median(&cpus[c]) * 1e9 / ((double)rows * width), series_median(&ratios[c]));
        }
        bench_close(&benches[c]);
        series_close(&cpus[c]);
        series_close(&ratios[c]);
    }
    fflush(stdout);
    return result;
}

static const char SUMMARY[] =
    "bench_apply: a clock with each optimizer, beside one that adds plainly.\n"
    "A clock of one origin, whose flush has every row of a dense float32 table: check it, keep the old rows, make\n"
    "the new ones, forget those of the clock before. Columns: CPU-ns a float, and the median ratio to plain\n"
    "adding.";

int main(int argc, char **argv) {
    static const struct { uint32_t rows, width; } shapes[] = {{1000000, 1}, {60000, 16}, {10000, 100}, {1000, 1000}};
    int64_t samples = 21;
    bool quick = false;
    const struct aml_option options[] = {
        {"samples", "N", AML_OPTION_INTEGER, &samples, 1, 10000, "turns of all, after one that is not counted"},
        {"quick", NULL, AML_OPTION_FLAG, &quick, 0, 0, "one shape, one sample: does it run at all"},
        {0},
    };
    struct error error = {0};
    int status = measure_options(options, SUMMARY, argc, argv);
    if (status >= 0) {
        return status;
    }
    memory_keep();
    measure_print_machine();
    printf("    rows x width  by          ns/float   ratio of CPU times\n");
    int result = 0;
    for (size_t s = 0; s < (quick ? 1 : sizeof shapes / sizeof shapes[0]) && result == 0; s++) {
        result = run_shape(quick ? 10000 : shapes[s].rows, shapes[s].width, quick ? 1 : samples, &error);
    }
    if (result != 0) {
        fprintf(stderr, "%s\n", error.text);
    }
    return result == 0 ? 0 : error_exit_status(result);
}
