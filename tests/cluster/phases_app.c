/* phases: a graph network of whole numbers, whose layers are phases (aml_app.phases). A vertex's step needs what the
 * phase before has made of its neighbours, so each phase must see that phase complete, and nothing of a later one. The
 * layers' rows are overwritten by an optimizer. `finish` computes all rows again, scans the tables and fails the job
 * when a number differs. An app for tests, not an example. */
#include "agileml.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HIDDEN, OUT, COUNTS, TABLES };
enum { NEIGHBOURS = 3, NAMED = 1 + NEIGHBOURS, PHASES = 3, PAYLOAD_MAX = 1 << 16 };
/* Columns of COUNTS, behind one for each phase with the number of its clocks. */
enum { COUNT_SUM = AML_PHASES_MAX, COUNT_PART, COUNT_WIDTH };

struct phases {
    int64_t vertices, payload;
    int64_t phases;
    int64_t slow_us;   /* pause of each call, to make a run last */
    int64_t uneven_us; /* another pause of each call, in some clocks that differ from process to process */
    bool miscount;     /* a deliberate mistake, which the check must find */
};

/* Sets named[0] to the vertex, the others to its neighbours. */
static void name_vertices(const struct phases *phases, uint64_t vertex, uint64_t named[NAMED]) {
    const uint64_t vertices = (uint64_t)phases->vertices;
    named[0] = vertex;
    named[1] = (vertex + 1) % vertices;
    for (uint64_t n = 2; n < NAMED; n++) {
        named[n] = aml_mix(n, vertex) % vertices;
    }
}

static uint64_t out_start(uint64_t vertex) {
    return 7 * vertex + 1;
}

static void start_out(void *context, uint64_t key, void *row) {
    (void)context;
    *(uint64_t *)row = out_start(key);
}

/* The optimizer (aml_table.apply) of HIDDEN and OUT: the only contribution of a clock overwrites the row. */
static void overwrite(const struct aml_step *step, const void *parameters) {
    (void)parameters;
    memcpy(step->row, step->sum, step->width * sizeof(int64_t));
}

static int phases_configure(aml_worker *worker, struct aml_app *app) {
    const struct phases *phases = app->context;
    if (aml_staleness(worker) > 0) {
        return aml_error(worker, AML_EINPUT, "--staleness %u: expected 0", aml_staleness(worker));
    }
    app->phases = (unsigned)phases->phases;
    for (unsigned t = 0; t < TABLES; t++) {
        app->tables[t].rows = (uint64_t)phases->vertices;
    }
    return 0;
}

/* An item is the vertex, and bytes that follow from it. */
static unsigned char payload_byte(uint64_t vertex) {
    return (unsigned char)aml_mix(9, vertex);
}

static int phases_read(aml_worker *worker, void *context) {
    const struct phases *phases = context;
    const size_t size = sizeof(uint64_t) + (size_t)phases->payload;
    unsigned char *bytes = malloc(size);
    int kept = bytes != NULL ? 0 : AML_ENOMEM;
    for (uint64_t vertex = 0; vertex < (uint64_t)phases->vertices && kept >= 0; vertex++) {
        uint64_t named[NAMED];
        name_vertices(phases, vertex, named);
        const struct aml_keys runs[] = {{.table = HIDDEN, .count = NAMED, .keys = named},
                                        {.table = OUT, .count = NAMED, .keys = named},
                                        {.table = COUNTS, .count = 1, .keys = named}};
        memcpy(bytes, &vertex, sizeof vertex);
        memset(bytes + sizeof vertex, payload_byte(vertex), (size_t)phases->payload);
        kept = aml_emit_varied(worker, AML_TRAIN, vertex, runs, TABLES, bytes, size);
    }
    free(bytes);
    return kept < 0 ? kept : 0;
}

/* ---- Work ---- */

static uint64_t value_of(const struct aml_rows *rows, uint32_t slot) {
    return *(const uint64_t *)aml_row_read(rows, slot);
}

static uint64_t sum_of_neighbours(const struct aml_rows *rows, const uint32_t *slots) {
    uint64_t sum = 0;
    for (unsigned n = 1; n < NAMED; n++) {
        sum += value_of(rows, slots[n]);
    }
    return sum;
}

/* Returns the part of the iteration that the clock works on. */
static uint64_t part_of(const aml_worker *worker, const struct phases *phases) {
    const uint64_t each = (uint64_t)phases->phases;
    return (aml_clock(worker) - 1) / each % (aml_clocks_per_iteration(worker) / each);
}

static int work_item(aml_worker *worker, const struct phases *phases, const struct aml_rows rows[TABLES],
                     const struct aml_item *item) {
    const uint32_t *slots = aml_item_slots(item);
    const unsigned char *bytes = aml_item_bytes(item);
    uint64_t *counts = aml_row(&rows[COUNTS], slots[2 * NAMED]);
    const unsigned phase = aml_phase(worker);
    uint64_t vertex;
    memcpy(&vertex, bytes, sizeof vertex);
    for (size_t b = sizeof vertex; b < item->size; b++) {
        if (bytes[b] != payload_byte(vertex)) {
            return aml_error(worker, AML_EFAIL, "vertex %" PRIu64 " has wrong bytes", vertex);
        }
    }
    counts[phase]++;
    if (phase == 0) {
        *(uint64_t *)aml_row_sum(&rows[HIDDEN], slots[0]) +=
            sum_of_neighbours(&rows[OUT], slots + NAMED) + aml_iteration(worker);
        counts[COUNT_PART] += part_of(worker, phases) + 1;
    } else if (phase == 1) {
        *(uint64_t *)aml_row_sum(&rows[OUT], slots[NAMED]) +=
            3 * value_of(&rows[HIDDEN], slots[0]) + sum_of_neighbours(&rows[HIDDEN], slots);
    } else if (phase == 2) {
        counts[COUNT_SUM] += value_of(&rows[OUT], slots[NAMED]);
    }
    return 0;
}

static void pause_in(const struct phases *phases, uint64_t clock) {
    const bool late = aml_mix((uint64_t)getpid(), clock) % 4 == 0;
    const int64_t us = phases->slow_us + (late ? phases->uneven_us : 0);
    struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    if (us > 0) {
        nanosleep(&pause, NULL);
    }
}

static int phases_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct phases *phases = context;
    const struct aml_item *item = items;
    struct aml_rows rows[TABLES];
    int result = 0;
    if (aml_phase(worker) != (aml_clock(worker) - 1) % (uint64_t)phases->phases) {
        return aml_error(worker, AML_EFAIL, "clock %" PRIu64 " has phase %u", aml_clock(worker), aml_phase(worker));
    }
    for (unsigned t = 0; t < TABLES; t++) {
        rows[t] = aml_table_rows(worker, t);
    }
    for (size_t i = 0; i < count && result == 0; i++, item = i < count ? aml_item_next(item) : item) {
        result = work_item(worker, phases, rows, item);
    }
    if (phases->miscount && aml_clock(worker) == 5) {
        ((uint64_t *)aml_row(&rows[COUNTS], aml_item_slots(items)[2 * NAMED]))[COUNT_SUM]++;
    }
    pause_in(phases, aml_clock(worker));
    aml_metric_add(worker, 0, (double)count, 1);
    return result;
}

static int phases_evaluate(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct phases *phases = context;
    (void)items;
    (void)count;
    aml_metric_add(worker, 1, 1, 1);
    return aml_phase(worker) + 1 == (unsigned)phases->phases
               ? 0
               : aml_error(worker, AML_EFAIL, "clock %" PRIu64 " is evaluated in phase %u", aml_clock(worker),
                           aml_phase(worker));
}

/* ---- The check ---- */

struct check {
    aml_worker *worker;
    const struct phases *phases;
    unsigned table;
    uint64_t iterations, parts;
    uint64_t *rows[2]; /* of HIDDEN and OUT, as expected */
    uint64_t *sums;    /* of COUNT_SUM, as expected; in the first scan as found */
    uint64_t *part;    /* by vertex */
    uint64_t seen;
};

/* Takes a vertex's part and its sum from its counts. */
static int take_counts(struct check *check, uint64_t vertex, const uint64_t *counts) {
    for (unsigned p = 0; p < (unsigned)check->phases->phases; p++) {
        if (counts[p] != check->iterations) {
            return aml_error(check->worker, AML_EINPUT,
                             "vertex %" PRIu64 " has %" PRIu64 " clocks of phase %u in %" PRIu64 " iterations", vertex,
                             counts[p], p, check->iterations);
        }
    }
    check->part[vertex] = counts[COUNT_PART] / check->iterations - 1;
    check->sums[vertex] = counts[COUNT_SUM];
    check->seen++;
    return check->part[vertex] < check->parts && counts[COUNT_PART] % check->iterations == 0
               ? 0
               : aml_error(check->worker, AML_EINPUT, "vertex %" PRIu64 " is not in one part of every iteration",
                           vertex);
}

static int check_rows(void *context, const uint64_t *keys, const void *rows, size_t count) {
    struct check *check = context;
    const uint64_t *row = rows;
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        if (check->table == COUNTS) {
            result = take_counts(check, keys[i], row + i * COUNT_WIDTH);
        } else if (row[i] != check->rows[check->table][keys[i]]) {
            result = aml_error(check->worker, AML_EINPUT, "table %u row %" PRIu64 ": %" PRIu64 ", expected %" PRIu64,
                               check->table, keys[i], row[i], check->rows[check->table][keys[i]]);
        }
    }
    return result;
}

/* Does what the clocks of a part and an iteration do, and takes the vertices' sums off check->sums. */
static void compute_part(struct check *check, uint64_t iteration, uint64_t part) {
    uint64_t named[NAMED];
    for (unsigned phase = 0; phase < PHASES; phase++) {
        for (uint64_t vertex = 0; vertex < (uint64_t)check->phases->vertices; vertex++) {
            if (check->part[vertex] != part) {
                continue;
            }
            const uint64_t *from = check->rows[phase == 0 ? OUT : HIDDEN];
            uint64_t sum = 0;
            name_vertices(check->phases, vertex, named);
            for (unsigned n = 1; n < NAMED; n++) {
                sum += from[named[n]];
            }
            if (phase == 0) {
                check->rows[HIDDEN][vertex] = sum + iteration;
            } else if (phase == 1) {
                check->rows[OUT][vertex] = 3 * check->rows[HIDDEN][vertex] + sum;
            } else {
                check->sums[vertex] -= check->rows[OUT][vertex];
            }
        }
    }
}

static int check_all(struct check *check) {
    const uint64_t vertices = (uint64_t)check->phases->vertices;
    check->table = COUNTS;
    int result = aml_scan(check->worker, COUNTS, check_rows, check);
    if (result == 0 && check->seen != vertices) {
        return aml_error(check->worker, AML_EINPUT, "%" PRIu64 " of %" PRIu64 " vertices", check->seen, vertices);
    }
    for (uint64_t vertex = 0; vertex < vertices; vertex++) {
        check->rows[OUT][vertex] = out_start(vertex);
    }
    for (uint64_t iteration = 1; iteration <= check->iterations && result == 0; iteration++) {
        for (uint64_t part = 0; part < check->parts; part++) {
            compute_part(check, iteration, part);
        }
    }
    for (check->table = HIDDEN; check->table <= OUT && result == 0; check->table++) {
        result = aml_scan(check->worker, check->table, check_rows, check);
    }
    for (uint64_t vertex = 0; vertex < vertices && result == 0; vertex++) {
        if (check->sums[vertex] != 0) {
            result = aml_error(check->worker, AML_EINPUT, "vertex %" PRIu64 ": its sum is wrong by %" PRIu64, vertex,
                               check->sums[vertex]);
        }
    }
    return result;
}

static int phases_finish(aml_worker *worker, void *context) {
    const struct phases *phases = context;
    const uint64_t clocks = aml_clocks_per_iteration(worker);
    struct check check = {.worker = worker,
                          .phases = phases,
                          .iterations = aml_clock(worker) / clocks,
                          .parts = clocks / (uint64_t)phases->phases};
    uint64_t *numbers = calloc((size_t)phases->vertices, 4 * sizeof *numbers);
    if (numbers == NULL) {
        return aml_error(worker, AML_ENOMEM, "no memory for the check");
    }
    check.rows[HIDDEN] = numbers;
    check.rows[OUT] = numbers + phases->vertices;
    check.sums = numbers + 2 * phases->vertices;
    check.part = numbers + 3 * phases->vertices;
    int result = check_all(&check);
    free(numbers);
    return result;
}

int main(int argc, char **argv) {
    struct phases phases = {.vertices = 600, .phases = PHASES};
    const struct aml_option options[] = {
        {"vertices", "N", AML_OPTION_INTEGER, &phases.vertices, 4, 1e7, "how many there are"},
        {"phases", "N", AML_OPTION_INTEGER, &phases.phases, PHASES, AML_PHASES_MAX, "the work is in the first three"},
        {"payload", "BYTES", AML_OPTION_INTEGER, &phases.payload, 0, PAYLOAD_MAX, "more bytes of an item"},
        {"slow-us", "N", AML_OPTION_INTEGER, &phases.slow_us, 0, 1e9, "pause in each call"},
        {"uneven-us", "N", AML_OPTION_INTEGER, &phases.uneven_us, 0, 1e9, "another pause, in some clocks"},
        {"miscount", NULL, AML_OPTION_FLAG, &phases.miscount, 0, 0, "add to a sum twice"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    static const char *const steering[] = {"slow-us", "uneven-us", NULL};
    struct aml_table tables[TABLES] = {
        [HIDDEN] = {.name = "hidden", .type = AML_INT64, .width = 1, .apply = overwrite},
        [OUT] = {.name = "out", .type = AML_INT64, .width = 1, .apply = overwrite, .start = start_out},
        [COUNTS] = {.name = "counts", .type = AML_INT64, .width = COUNT_WIDTH},
    };
    const struct aml_metric metrics[] = {{.name = "worked", .kind = AML_SUM},
                                         {.name = "evaluated", .kind = AML_SUM, .evaluated = 1}};
    struct aml_app app = {.name = "phases",
                          .summary = "computes layers of a graph and checks them",
                          .options = options,
                          .steering = steering,
                          .tables = tables,
                          .table_count = TABLES,
                          .metrics = metrics,
                          .metric_count = 2,
                          .item_varied = 1,
                          .evaluate_always = 1,
                          .lots = 1,
                          .configure = phases_configure,
                          .read_only_emits = 1,
                          .read = phases_read,
                          .clock = phases_clock,
                          .evaluate = phases_evaluate,
                          .finish = phases_finish,
                          .context = &phases};
    return aml_main(&app, argc, argv);
}
