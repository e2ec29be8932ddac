/* sum: adds whole numbers, so that the end of a run can be checked to the last bit (invariant I1): every item's
 * contribution must stand in the tables once per iteration. Uses every way to change a row that the API has. `finish`
 * scans all tables and fails the job when anything differs. A test's app, no example. */
#include "agileml.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { USERS, ITEMS, DENSE, BUCKETS, TABLES };
enum { DENSE_ROWS = 7, BUCKET_COUNT = 97 };
enum { TOTAL_VALUE, TOTAL_FACTORED };

struct sum {
    const char *data;
    int64_t slow_us; /* per call, to make a run last */
    bool miscount;   /* a deliberate fault: the check must find it */
};

struct item {
    uint32_t user, item;
    float rating;
};

/* Keys are not in the items, so each row carries its key's factor in its start value. */
static int64_t factor_of(uint64_t key) {
    return (int64_t)(key % 1000) + 1;
}

/* Row: factor, sum of values, sum of values x factor, how many. */
static void start_row(void *context, uint64_t key, void *row) {
    (void)context;
    ((int64_t *)row)[0] = factor_of(key);
}

static int read_some(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context) {
    (void)context;
    for (size_t i = 0; i < count; i++) {
        uint64_t keys[2] = {ratings[i].user, ratings[i].item};
        int kept = aml_emit(worker, AML_TRAIN, keys, &ratings[i].value);
        if (kept < 0) {
            return kept;
        }
        if (kept == 1) {
            int64_t value = (int64_t)(2 * ratings[i].value);
            aml_total_add(worker, TOTAL_VALUE, (double)value);
            aml_total_add(worker, TOTAL_FACTORED, (double)(value * factor_of(keys[1])));
        }
    }
    return 0;
}

static int sum_read(aml_worker *worker, void *context) {
    const struct sum *sum = context;
    return aml_read_ratings(worker, sum->data, read_some, context);
}

static int sum_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct sum *sum = context;
    const struct item *item = items;
    struct aml_rows users = aml_table_rows(worker, USERS);
    struct aml_rows rows = aml_table_rows(worker, ITEMS);
    double all = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t value = (int64_t)(2 * item[i].rating);
        int64_t *user = aml_row(&users, item[i].user);
        int64_t *row = aml_row(&rows, item[i].item);
        int64_t *both[2] = {user, row};
        for (unsigned b = 0; b < 2; b++) {
            both[b][1] += value;
            both[b][2] += value * both[b][0];
            both[b][3]++;
        }
        all += (double)value;
        int32_t dense[2] = {(int32_t)value, 1};
        double bucket[2] = {(double)value, 1};
        int result = aml_update_param(worker, DENSE, item[i].user % DENSE_ROWS, dense);
        if (result == 0) {
            result = aml_update_param(worker, BUCKETS, item[i].item % BUCKET_COUNT * UINT64_C(0x123456789ABC), bucket);
        }
        if (result != 0) {
            return result;
        }
    }
    if (sum->miscount && aml_clock(worker) == 2) {
        ((int64_t *)aml_row(&rows, item[0].item))[3]++;
    }
    if (sum->slow_us > 0) {
        struct timespec pause = {.tv_sec = sum->slow_us / 1000000, .tv_nsec = sum->slow_us % 1000000 * 1000};
        nanosleep(&pause, NULL);
    }
    aml_metric_add(worker, 0, all, (double)count);
    return 0;
}

/* ---- The check ---- */

struct check {
    aml_worker *worker;
    int table;
    double sums[3]; /* values, values x factor, how many */
};

static int check_rows(void *context, const uint64_t *keys, const void *rows, size_t count) {
    struct check *check = context;
    for (size_t i = 0; i < count; i++) {
        if (check->table == DENSE) {
            const int32_t *row = (const int32_t *)rows + 2 * i;
            check->sums[0] += row[0];
            check->sums[2] += row[1];
        } else if (check->table == BUCKETS) {
            const double *row = (const double *)rows + 2 * i;
            check->sums[0] += row[0];
            check->sums[2] += row[1];
        } else {
            const int64_t *row = (const int64_t *)rows + 4 * i;
            if (row[0] != factor_of(keys[i]) || row[2] != row[1] * row[0]) {
                return aml_error(check->worker, AML_EFAIL, "table %d row %" PRIu64 ": %" PRId64 " %" PRId64 " %" PRId64,
                                 check->table, keys[i], row[0], row[1], row[2]);
            }
            check->sums[0] += (double)row[1];
            check->sums[1] += (double)row[2];
            check->sums[2] += (double)row[3];
        }
    }
    return 0;
}

static int sum_finish(aml_worker *worker, void *context) {
    (void)context;
    double iterations = (double)aml_iteration(worker);
    double value = iterations * aml_total(worker, TOTAL_VALUE);
    double factored = iterations * aml_total(worker, TOTAL_FACTORED);
    double items = iterations * (double)aml_total_items(worker);
    for (int table = USERS; table < TABLES; table++) {
        struct check check = {.worker = worker, .table = table};
        int result = aml_scan(worker, (unsigned)table, check_rows, &check);
        if (result != 0) {
            return result;
        }
        if (check.sums[0] != value || check.sums[2] != items || (table == ITEMS && check.sums[1] != factored)) {
            return aml_error(worker, AML_EFAIL, "table %d: sum %.0f of %.0f items, expected %.0f of %.0f", table,
                             check.sums[0], check.sums[2], value, items);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    struct sum sum = {0};
    const struct aml_option options[] = {
        {"data", "FILE", AML_OPTION_STRING, &sum.data, 0, 0, "ratings"},
        {"slow-us", "N", AML_OPTION_INTEGER, &sum.slow_us, 0, 1e9, "pause in each call"},
        {"miscount", NULL, AML_OPTION_FLAG, &sum.miscount, 0, 0, "count one item twice"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct aml_table tables[TABLES] = {
        [USERS] = {.name = "users", .type = AML_INT64, .mode = AML_PUT, .width = 4, .start = start_row},
        [ITEMS] = {.name = "items", .type = AML_INT64, .mode = AML_ADD, .width = 4, .start = start_row},
        [DENSE] = {.name = "dense", .type = AML_INT32, .mode = AML_ADD, .width = 2, .rows = DENSE_ROWS},
        [BUCKETS] = {.name = "buckets", .type = AML_FLOAT64, .mode = AML_ADD, .width = 2},
    };
    const struct aml_metric metrics[] = {{.name = "sum", .kind = AML_SUM}};
    struct aml_app app = {.name = "sum",
                          .summary = "adds whole numbers and checks the sums",
                          .options = options,
                          .tables = tables,
                          .table_count = TABLES,
                          .metrics = metrics,
                          .metric_count = 1,
                          .item_rows = 2,
                          .item_tables = {USERS, ITEMS},
                          .item_bytes = sizeof(float),
                          .read = sum_read,
                          .clock = sum_clock,
                          .finish = sum_finish,
                          .context = &sum};
    return aml_main(&app, argc, argv);
}
