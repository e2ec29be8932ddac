/* ring: adds whole numbers to replicated tables, so that a job can exchange by a ring (--exchange ring). At its end it
 * checks that each item was counted once in each clock. Also for bench/ring. An app for tests, not an example. */
#include "agileml.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

enum { COUNTS, REALS, TABLES };
enum { COUNT_WIDTH = 4, REAL_ROWS = 64, DONE_PARTS = 4 };

struct ring {
    int64_t items, slow_us;
    int64_t rows;  /* rows of the first table */
    bool all;      /* each call changes all rows */
    int64_t *sums; /* rows x COUNT_WIDTH: expected sums less those found */
    double real;   /* sum of all rows of floats */
};

/* Returns the first (`which` 0) or second (1) row to which an item adds. */
static uint64_t row_of(const struct ring *ring, uint32_t item, unsigned which) {
    return (item * (which == 0 ? UINT64_C(1) : UINT64_C(7))) % (uint64_t)ring->rows;
}

static void add_item(uint32_t item, unsigned which, int64_t *row) {
    const int64_t added[COUNT_WIDTH] = {1, item, item % 97 * (int64_t)(which + 1), -(int64_t)item};
    for (unsigned e = 0; e < COUNT_WIDTH; e++) {
        __atomic_fetch_add(&row[e], added[e], __ATOMIC_RELAXED); /* other threads add to the row, too */
    }
}

static int ring_configure(aml_worker *worker, struct aml_app *app) {
    const struct ring *ring = app->context;
    (void)worker;
    app->tables[COUNTS].rows = (uint64_t)ring->rows;
    return 0;
}

static int ring_read(aml_worker *worker, void *context) {
    const struct ring *ring = context;
    int kept = 0;
    for (uint32_t i = 0; i < ring->items && kept >= 0; i++) {
        kept = aml_emit_numbered(worker, AML_TRAIN, i, &i);
    }
    return kept < 0 ? kept : 0;
}

/* Declares the rows done in parts, from the last to the first, each after a share of the pause. */
static int declare_done(aml_worker *worker, const struct ring *ring) {
    const int64_t pause_ns = ring->slow_us * 1000 / DONE_PARTS;
    const struct timespec pause = {.tv_sec = pause_ns / 1000000000, .tv_nsec = pause_ns % 1000000000};
    int result = 0;
    for (uint64_t part = DONE_PARTS; part-- > 0 && result == 0;) {
        if (ring->slow_us > 0) {
            nanosleep(&pause, NULL);
        }
        uint64_t first = (uint64_t)ring->rows * part / DONE_PARTS;
        result = aml_rows_done(worker, COUNTS, first, (uint64_t)ring->rows * (part + 1) / DONE_PARTS - first);
    }
    return result;
}

static int ring_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct ring *ring = context;
    const uint32_t *numbers = items;
    struct aml_rows counts = aml_table_rows(worker, COUNTS);
    int result = 0;
    for (uint32_t r = 0; r < ring->rows && ring->all; r++) {
        aml_row(&counts, r);
    }
    for (size_t i = 0; i < count && result == 0; i++) {
        for (unsigned which = 0; which < 2; which++) {
            add_item(numbers[i], which, aml_row(&counts, (uint32_t)row_of(ring, numbers[i], which)));
        }
        const double real = numbers[i]; /* exact: whole numbers below 2^53 */
        result = aml_update_param(worker, REALS, numbers[i] % REAL_ROWS, &real);
    }
    aml_metric_add(worker, 0, (double)count, (double)count);
    return result == 0 ? declare_done(worker, ring) : result;
}

static int check_counts(void *context, const uint64_t *keys, const void *rows, size_t count) {
    struct ring *ring = context;
    const int64_t *row = rows;
    for (size_t i = 0; i < count; i++) {
        for (unsigned e = 0; e < COUNT_WIDTH; e++) {
            ring->sums[keys[i] * COUNT_WIDTH + e] -= row[i * COUNT_WIDTH + e];
        }
    }
    return 0;
}

static int add_reals(void *context, const uint64_t *keys, const void *rows, size_t count) {
    struct ring *ring = context;
    (void)keys;
    for (size_t i = 0; i < count; i++) {
        ring->real += ((const double *)rows)[i];
    }
    return 0;
}

static int ring_finish(aml_worker *worker, void *context) {
    struct ring *ring = context;
    size_t elements = (size_t)ring->rows * COUNT_WIDTH;
    free(ring->sums);
    ring->sums = calloc(elements, sizeof *ring->sums);
    ring->real = 0;
    if (ring->sums == NULL) {
        return aml_error(worker, AML_ENOMEM, "no memory for the check");
    }
    for (uint32_t i = 0; i < ring->items; i++) {
        for (unsigned which = 0; which < 2; which++) {
            add_item(i, which, ring->sums + row_of(ring, i, which) * COUNT_WIDTH);
        }
    }
    for (size_t e = 0; e < elements; e++) {
        ring->sums[e] *= (int64_t)aml_clock(worker);
    }
    int result = aml_scan(worker, COUNTS, check_counts, ring);
    for (size_t e = 0; e < elements && result == 0; e++) {
        if (ring->sums[e] != 0) {
            result = aml_error(worker, AML_EFAIL, "row %zu, element %zu: %" PRId64 " are missing after clock %" PRIu64,
                               e / COUNT_WIDTH, e % COUNT_WIDTH, ring->sums[e], aml_clock(worker));
        }
    }
    result = result != 0 ? result : aml_scan(worker, REALS, add_reals, ring);
    double real = (double)ring->items * (double)(ring->items - 1) / 2 * (double)aml_clock(worker);
    return result != 0 || ring->real == real
               ? result
               : aml_error(worker, AML_EFAIL, "floats: %.0f, expected %.0f", ring->real, real);
}

int main(int argc, char **argv) {
    static struct ring ring = {.items = 5000, .rows = 999};
    const struct aml_option options[] = {
        {"items", "N", AML_OPTION_INTEGER, &ring.items, 1, 10000000, "numbers to add up"},
        {"rows", "N", AML_OPTION_INTEGER, &ring.rows, 1, 100000000, "of the table, of 32 bytes"},
        {"all", NULL, AML_OPTION_FLAG, &ring.all, 0, 0, "flush all rows each time"},
        {"slow-us", "N", AML_OPTION_INTEGER, &ring.slow_us, 0, 1e9, "pause in each call"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct aml_table tables[TABLES] = {
        [COUNTS] = {.name = "counts", .type = AML_INT64, .width = COUNT_WIDTH, .whole = 1},
        [REALS] = {.name = "reals", .type = AML_FLOAT64, .width = 1, .rows = REAL_ROWS, .whole = 1},
    };
    const struct aml_metric metrics[] = {{.name = "added", .kind = AML_SUM}};
    struct aml_app app = {.name = "ring",
                          .summary = "adds whole numbers by a ring and checks the sums",
                          .options = options,
                          .tables = tables,
                          .table_count = TABLES,
                          .metrics = metrics,
                          .metric_count = 1,
                          .item_bytes = sizeof(uint32_t),
                          .read_only_emits = 1,
                          .configure = ring_configure,
                          .read = ring_read,
                          .clock = ring_clock,
                          .finish = ring_finish,
                          .context = &ring};
    int status = aml_main(&app, argc, argv);
    free(ring.sums);
    return status;
}
