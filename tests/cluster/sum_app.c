/* sum: adds whole numbers, so that a run's result can be checked to the last bit (invariant I1). Every item's
 * contribution must be in the tables once for each clock that worked on it, whichever nodes join, leave or are lost. It
 * uses every way of the API to change a row. An optimizer whose steps depend on their order shows a missing or repeated
 * step and a lost state. `finish` reads the input again, scans all tables and fails the job when a row differs from
 * what the input gives. An app for tests, not an example. */
#include "agileml.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern const char *slow_server_name; /* slow_server.c: this node's name */

enum { USERS, ITEMS, DENSE, BUCKETS, STEPPED, TABLES };
enum { DENSE_ROWS = 7, BUCKET_COUNT = 97, BUCKETS_AT_ONCE = 50, STEPPED_ROWS = 11 };
enum { TOTAL_VALUE, TOTAL_FACTORED };

/* How slow this machine is: see slowness_of. */
struct slowness {
    double factor, extra_us, on_seconds, period_seconds; /* period 0: always */
};

struct sum {
    const char *data;
    int64_t slow_us;  /* pause of each call, to make a run last */
    int64_t slice_us; /* pause for each slice */
    int64_t item_us;  /* pause for each item on a machine that is not slow */
    struct slowness slowness;
    _Atomic uint64_t paused_clock; /* the last clock with the extra pause */
    bool miscount;                 /* a deliberate mistake, which the check must find */
    bool by_process;               /* a deliberate mistake: each process reads another value */
    bool read_itself;              /* each node reads its own data, even if another node has it */
    int64_t die_reading;           /* the node with this number is killed while it reads; 0: none */
    int64_t notes;                 /* notes of `configure`; if not 0, other functions note lines, too */
};

struct item {
    uint32_t user, item;
    float rating;
};

/* Items lack their keys, so each row has its key's factor in its start value. */
static int64_t factor_of(uint64_t key) {
    return (int64_t)(key % 1000) + 1;
}

/* A row: factor, sum of values, sum of values x factor, number of items. */
static void start_row(void *context, uint64_t key, void *row) {
    (void)context;
    ((int64_t *)row)[0] = factor_of(key);
}

/* Returns the row of STEPPED that a user's items add to. */
static uint64_t stepped_key(int64_t user_factor) {
    return (uint64_t)user_factor % STEPPED_ROWS * UINT64_C(0x9876543210FE);
}

/* The optimizer (aml_table.apply) of STEPPED. A row: steps, number of items. */
static void step_row(const struct aml_step *step, const void *parameters) {
    uint64_t *row = step->row;
    uint64_t *kept = step->state;
    const uint64_t *sum = step->sum;
    (void)parameters;
    row[0] = 3 * row[0] + sum[0] + kept[0];
    row[1] += sum[1];
    kept[0] = 5 * kept[0] + sum[0] + step->clock;
}

static int read_some(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context) {
    const struct sum *sum = context;
    if (sum->die_reading > 0 && slow_server_name != NULL && strncmp(slow_server_name, "node-", 5) == 0 &&
        atoll(slow_server_name + 5) == sum->die_reading) {
        raise(SIGKILL);
    }
    if (sum->notes > 0) {
        aml_note(worker, "read: \x1b[2J %s\n", sum->data);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t keys[2] = {ratings[i].user, ratings[i].item};
        float value_read = sum->by_process && keys[0] == 1 ? (float)getpid() : ratings[i].value;
        int kept = aml_emit(worker, AML_TRAIN, keys, &value_read);
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

static int sum_configure(aml_worker *worker, struct aml_app *app) {
    const struct sum *sum = app->context;
    for (int64_t n = 1; n <= sum->notes; n++) {
        aml_note(worker, "configure: line %" PRId64, n);
    }
    app->read_only_emits = !sum->read_itself;
    return 0;
}

static int sum_read(aml_worker *worker, void *context) {
    const struct sum *sum = context;
    return aml_read_ratings(worker, sum->data, read_some, context);
}

/* Counts items in their buckets, which may repeat. */
static int count_buckets(aml_worker *worker, const struct item *items, size_t count) {
    uint64_t keys[BUCKETS_AT_ONCE];
    double buckets[BUCKETS_AT_ONCE][2];
    for (size_t i = 0; i < count; i++) {
        keys[i] = items[i].item % BUCKET_COUNT * UINT64_C(0x123456789ABC);
        buckets[i][0] = (double)(int64_t)(2 * items[i].rating);
        buckets[i][1] = 1;
    }
    return aml_update_params(worker, BUCKETS, keys, count, buckets);
}

/* Sleeps for the time that the items take on this machine. */
static void pause_for(struct sum *sum, uint64_t clock, size_t count, size_t slices) {
    const struct slowness *slowness = &sum->slowness;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    bool on =
        slowness->period_seconds == 0 || fmod((double)now.tv_sec, slowness->period_seconds) < slowness->on_seconds;
    bool first = atomic_exchange(&sum->paused_clock, clock) != clock;
    double pause_us = (double)sum->slow_us + (double)sum->slice_us * (double)slices +
                      (double)sum->item_us * (on ? slowness->factor : 1) * (double)count +
                      (first && on ? slowness->extra_us : 0);
    if (pause_us >= 1) {
        struct timespec pause = {.tv_sec = (time_t)(pause_us / 1e6), .tv_nsec = (long)fmod(pause_us, 1e6) * 1000};
        nanosleep(&pause, NULL);
    }
}

/* Adds the items' values and their number to the optimizer's sums. */
static int add_stepped(aml_worker *worker, const struct item *items, size_t count) {
    struct aml_rows users = aml_table_rows(worker, USERS);
    int64_t sums[STEPPED_ROWS][2] = {{0}};
    uint64_t keys[STEPPED_ROWS];
    uint32_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t *user = aml_row_read(&users, items[i].user);
        uint64_t key = stepped_key(user[0]);
        uint32_t k = 0;
        while (k < used && keys[k] != key) {
            k++;
        }
        keys[k] = key;
        used = k == used ? used + 1 : used;
        sums[k][0] += (int64_t)(2 * items[i].rating);
        sums[k][1]++;
    }
    return aml_update_params(worker, STEPPED, keys, used, sums);
}

static int sum_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    struct sum *sum = context;
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
        int result = aml_update_param(worker, DENSE, item[i].user % DENSE_ROWS, dense);
        if (result == 0 && i % BUCKETS_AT_ONCE == 0) {
            result = count_buckets(worker, item + i, count - i < BUCKETS_AT_ONCE ? count - i : BUCKETS_AT_ONCE);
        }
        if (result != 0) {
            return result;
        }
    }
    int added = add_stepped(worker, item, count);
    if (added != 0) {
        return added;
    }
    if (aml_lag(worker) > aml_staleness(worker) || aml_lag(worker) >= aml_clock(worker)) {
        return aml_error(worker, AML_EFAIL, "clock %" PRIu64 ": a lag of %u", aml_clock(worker), aml_lag(worker));
    }
    if (sum->miscount && aml_clock(worker) == 2) {
        ((int64_t *)aml_row(&rows, item[0].item))[3]++;
    }
    size_t slices = 0;
    for (size_t done = 0, next; (next = aml_slice(worker, count, done)) > 0; done += next) {
        slices++;
    }
    pause_for(sum, aml_clock(worker), count, slices);
    aml_metric_add(worker, 0, all, (double)count);
    return 0;
}

/* ---- The check ---- */

/* Expected content of a user's or an item's row. */
struct expected {
    uint64_t key;
    int64_t value, times; /* sums over the clocks that ran */
    bool seen;
};

struct expectation {
    struct expected *rows; /* sorted by key before use */
    size_t count, capacity;
};

/* What an iteration part's items add to a row of STEPPED. */
struct part_sum {
    uint64_t value, count;
};

struct check {
    aml_worker *worker;
    struct part_sum *parts;             /* [clocks per iteration][STEPPED_ROWS] */
    struct expectation rows[2];         /* of USERS and of ITEMS */
    int64_t value, factored, count;     /* of the input; the totals must be the same */
    int64_t worked_value, worked_count; /* sums over the clocks that ran; each table must have the same */
    int table;                          /* the table that is being scanned */
    double sums[2];                     /* of that table: values, number of items */
};

static int expect(struct check *check, int table, uint64_t key, int64_t value, int64_t times) {
    struct expectation *expectation = &check->rows[table];
    if (expectation->count == expectation->capacity) {
        size_t capacity = expectation->capacity > 0 ? 2 * expectation->capacity : 1024;
        struct expected *rows = realloc(expectation->rows, capacity * sizeof *rows);
        if (rows == NULL) {
            return aml_error(check->worker, AML_ENOMEM, "no memory for the check");
        }
        expectation->rows = rows;
        expectation->capacity = capacity;
    }
    expectation->rows[expectation->count++] = (struct expected){.key = key, .value = value * times, .times = times};
    return 0;
}

/* Returns the part of an iteration in which the library works on a user's ratings. */
static uint64_t part_of(const aml_worker *worker, uint64_t user) {
    return (aml_mix(aml_seed(worker), user) >> 33) % aml_clocks_per_iteration(worker);
}

/* Returns in how many clocks, up to the last one, the library worked on a user's ratings. */
static int64_t times_worked_on(const aml_worker *worker, uint64_t user) {
    uint64_t clocks = aml_clocks_per_iteration(worker);
    uint64_t part = part_of(worker, user);
    return (int64_t)(aml_clock(worker) / clocks + (part < aml_clock(worker) % clocks ? 1 : 0));
}

static int expect_rating(struct check *check, uint64_t user, uint64_t item, float rating) {
    int64_t value = (int64_t)(2 * rating);
    int64_t times = times_worked_on(check->worker, user);
    check->value += value;
    check->factored += value * factor_of(item);
    check->count++;
    check->worked_value += value * times;
    check->worked_count += times;
    struct part_sum *part =
        check->parts + part_of(check->worker, user) * STEPPED_ROWS + (uint64_t)factor_of(user) % STEPPED_ROWS;
    part->value += (uint64_t)value;
    part->count++;
    int result = expect(check, USERS, user, value, times);
    return result != 0 ? result : expect(check, ITEMS, item, value, times);
}

static int expected_order(const void *a, const void *b) {
    const struct expected *left = a;
    const struct expected *right = b;
    return left->key < right->key ? -1 : left->key > right->key;
}

/* Sorts by key and merges entries with the same key. */
static void expectation_sort(struct expectation *expectation) {
    size_t kept = 0;
    if (expectation->count > 0) {
        qsort(expectation->rows, expectation->count, sizeof *expectation->rows, expected_order);
    }
    for (size_t i = 0; i < expectation->count; i++) {
        struct expected *row = &expectation->rows[i];
        if (kept > 0 && expectation->rows[kept - 1].key == row->key) {
            expectation->rows[kept - 1].value += row->value;
            expectation->rows[kept - 1].times += row->times;
        } else {
            expectation->rows[kept++] = *row;
        }
    }
    expectation->count = kept;
}

/* Reads the input again, without the library: lines of two whole numbers and one real number. */
static int expect_input(struct check *check, const char *path) {
    char *line = NULL;
    size_t room = 0;
    int result = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return aml_error(check->worker, AML_EFAIL, "%s: %s", path, strerror(errno));
    }
    while (result == 0 && getline(&line, &room, file) > 0) {
        uint64_t user;
        uint64_t item;
        float rating;
        if (sscanf(line, "%" SCNu64 "%*[ \t,:]%" SCNu64 "%*[ \t,:]%f", &user, &item, &rating) != 3) {
            result =
                aml_error(check->worker, AML_EINPUT, "%s: expected plain ratings to check, got '%.40s'", path, line);
        } else {
            result = expect_rating(check, user, item, rating);
        }
    }
    free(line);
    fclose(file);
    expectation_sort(&check->rows[USERS]);
    expectation_sort(&check->rows[ITEMS]);
    return result;
}

static int check_row(struct check *check, uint64_t key, const int64_t *row) {
    const struct expectation *expectation = &check->rows[check->table];
    struct expected wanted = {.key = key};
    struct expected *found = NULL;
    if (expectation->count > 0) {
        found = bsearch(&wanted, expectation->rows, expectation->count, sizeof wanted, expected_order);
    }
    if (found == NULL || found->seen) {
        return aml_error(check->worker, AML_EFAIL, "table %d: row %" PRIu64 " %s", check->table, key,
                         found == NULL ? "is not in the input" : "came twice");
    }
    found->seen = true;
    if (row[0] != factor_of(key) || row[1] != found->value || row[2] != found->value * row[0] ||
        row[3] != found->times) {
        return aml_error(check->worker, AML_EFAIL,
                         "table %d row %" PRIu64 ": factor %" PRId64 ", sums %" PRId64 ", %" PRId64 " of %" PRId64
                         ", expected %" PRId64 " of %" PRId64,
                         check->table, key, row[0], row[1], row[2], row[3], found->value, found->times);
    }
    check->sums[0] += (double)row[1];
    check->sums[1] += (double)row[3];
    return 0;
}

static int check_rows(void *context, const uint64_t *keys, const void *rows, size_t count) {
    struct check *check = context;
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        if (check->table == DENSE) {
            const int32_t *row = (const int32_t *)rows + 2 * i;
            check->sums[0] += row[0];
            check->sums[1] += row[1];
        } else if (check->table == BUCKETS) {
            const double *row = (const double *)rows + 2 * i;
            check->sums[0] += row[0];
            check->sums[1] += row[1];
        } else {
            result = check_row(check, keys[i], (const int64_t *)rows + 4 * i);
        }
    }
    return result;
}

/* Checks a row of STEPPED by repeating the steps of all clocks. */
static int check_stepped(void *context, const uint64_t *keys, const void *rows, size_t count) {
    const struct check *check = context;
    uint64_t clocks = aml_clocks_per_iteration(check->worker);
    for (size_t i = 0; i < count; i++) {
        const uint64_t *found = (const uint64_t *)rows + 2 * i;
        uint64_t row[2] = {0};
        uint64_t kept[1] = {0};
        uint64_t r = keys[i] / UINT64_C(0x9876543210FE);
        for (uint64_t clock = 1; clock <= aml_clock(check->worker) && r < STEPPED_ROWS; clock++) {
            const struct part_sum *part = check->parts + (clock - 1) % clocks * STEPPED_ROWS + r;
            const uint64_t sum[2] = {part->value, part->count};
            const struct aml_step step = {.clock = clock, .row = row, .state = kept, .sum = sum};
            if (part->count > 0) {
                step_row(&step, NULL);
            }
        }
        if (found[0] != row[0] || found[1] != row[1]) {
            return aml_error(check->worker, AML_EFAIL,
                             "stepped row %" PRIu64 ": %" PRIu64 " of %" PRIu64 " items, expected %" PRIu64
                             " of %" PRIu64,
                             keys[i], found[0], found[1], row[0], row[1]);
        }
    }
    return 0;
}

static int check_tables(struct check *check) {
    double value = (double)check->worked_value;
    double count = (double)check->worked_count;
    for (check->table = USERS; check->table < STEPPED; check->table++) {
        memset(check->sums, 0, sizeof check->sums);
        int result = aml_scan(check->worker, (unsigned)check->table, check_rows, check);
        if (result != 0) {
            return result;
        }
        if (check->sums[0] != value || check->sums[1] != count) {
            return aml_error(check->worker, AML_EFAIL, "table %d: sum %.0f of %.0f items, expected %.0f of %.0f",
                             check->table, check->sums[0], check->sums[1], value, count);
        }
    }
    return aml_scan(check->worker, STEPPED, check_stepped, check);
}

static int check_totals(const struct check *check) {
    double value = aml_total(check->worker, TOTAL_VALUE);
    double factored = aml_total(check->worker, TOTAL_FACTORED);
    double items = (double)aml_total_items(check->worker);
    if (value != (double)check->value || factored != (double)check->factored || items != (double)check->count) {
        return aml_error(check->worker, AML_EFAIL,
                         "totals: %.0f, %.0f of %.0f items, expected %" PRId64 ", %" PRId64 " of %" PRId64, value,
                         factored, items, check->value, check->factored, check->count);
    }
    return 0;
}

static int sum_finish(aml_worker *worker, void *context) {
    const struct sum *sum = context;
    struct check check = {.worker = worker};
    check.parts = calloc((size_t)aml_clocks_per_iteration(worker) * STEPPED_ROWS, sizeof *check.parts);
    int result = check.parts != NULL ? expect_input(&check, sum->data)
                                     : aml_error(worker, AML_ENOMEM, "no memory for the check");
    result = result != 0 ? result : check_totals(&check);
    result = result != 0 ? result : check_tables(&check);
    free(check.parts);
    free(check.rows[USERS].rows);
    free(check.rows[ITEMS].rows);
    if (sum->notes > 0) {
        aml_note(worker, "finish: %0*d", 2 * AML_NOTE_BYTES_MAX, 1);
        aml_note(worker, "finish: all is right");
    }
    return result;
}

/* Returns this node's slowness from $SUM_SLOW: "NAME:FACTOR:EXTRA_US:ON_S:PERIOD_S ...". For the node NAME, items'
 * pauses are FACTOR times as long. In the first ON_S of every PERIOD_S seconds each clock has an extra pause. A
 * variable, not an option, as options are those of the whole job. */
static struct slowness slowness_of(void) {
    struct slowness slowness = {.factor = 1};
    const char *text = getenv("SUM_SLOW");
    char name[64];
    struct slowness one = slowness;
    int length = 0;
    while (text != NULL && sscanf(text, " %63[^:]:%lf:%lf:%lf:%lf%n", name, &one.factor, &one.extra_us, &one.on_seconds,
                                  &one.period_seconds, &length) == 5) {
        slowness = slow_server_name != NULL && strcmp(slow_server_name, name) == 0 ? one : slowness;
        text += length;
    }
    return slowness;
}

int main(int argc, char **argv) {
    struct sum sum = {0};
    for (int a = 1; a < argc; a++) {
        slow_server_name = strncmp(argv[a], "--name=", 7) == 0 ? argv[a] + 7 : slow_server_name;
    }
    sum.slowness = slowness_of();
    const struct aml_option options[] = {
        {"data", "FILE", AML_OPTION_STRING, &sum.data, 0, 0, "ratings"},
        {"slow-us", "N", AML_OPTION_INTEGER, &sum.slow_us, 0, 1e9, "pause in each call"},
        {"item-us", "N", AML_OPTION_INTEGER, &sum.item_us, 0, 1e6,
         "pause for each item; longer where $SUM_SLOW says so"},
        {"slice-us", "N", AML_OPTION_INTEGER, &sum.slice_us, 0, 1e9, "pause for each slice (see --slice)"},
        {"miscount", NULL, AML_OPTION_FLAG, &sum.miscount, 0, 0, "count one item twice"},
        {"read-itself", NULL, AML_OPTION_FLAG, &sum.read_itself, 0, 0, "take no data from other nodes"},
        {"die-reading", "N", AML_OPTION_INTEGER, &sum.die_reading, 0, 1000, "node N is killed while it reads"},
        {"notes", "N", AML_OPTION_INTEGER, &sum.notes, 0, 1000, "lines to be said by configure, and some by others"},
        {"by-process", NULL, AML_OPTION_FLAG, &sum.by_process, 0, 0, "read other values in each process"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct aml_table tables[TABLES] = {
        [USERS] = {.name = "users", .type = AML_INT64, .mode = AML_PUT, .width = 4, .start = start_row},
        [ITEMS] = {.name = "items", .type = AML_INT64, .mode = AML_ADD, .width = 4, .start = start_row},
        [DENSE] = {.name = "dense", .type = AML_INT32, .mode = AML_ADD, .width = 2, .rows = DENSE_ROWS},
        [BUCKETS] = {.name = "buckets", .type = AML_FLOAT64, .mode = AML_ADD, .width = 2},
        [STEPPED] = {.name = "stepped", .type = AML_INT64, .width = 2, .apply = step_row, .state_width = 1},
    };
    const struct aml_metric metrics[] = {{.name = "sum", .kind = AML_SUM}};
    static const char *const steering[] = {"slow-us", NULL};
    struct aml_app app = {.name = "sum",
                          .summary = "adds whole numbers and checks the sums",
                          .options = options,
                          .steering = steering,
                          .tables = tables,
                          .table_count = TABLES,
                          .metrics = metrics,
                          .metric_count = 1,
                          .item_rows = 2,
                          .item_tables = {USERS, ITEMS},
                          .item_bytes = sizeof(float),
                          .lots = 1,
                          .slices = 1,
                          .read_only_emits = 1,
                          .configure = sum_configure,
                          .read = sum_read,
                          .clock = sum_clock,
                          .finish = sum_finish,
                          .context = &sum};
    return aml_main(&app, argc, argv);
}
