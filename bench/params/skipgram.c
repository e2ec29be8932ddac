/* skipgram: the app that bench_params runs. Trains skip-gram with negative sampling on made-up text. Rows are read and
 * updated by key, alternately one row per call and many. Unlike a usual app's, its items name no rows, so that the
 * first read of each row is by key. */
#include "agileml.h"
#include "bench/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS, CONTEXTS, ALONE, TABLES }; /* tables; rows of ALONE are read once, one row per call */
enum { LOSS, SECONDS, CPU_SECONDS, PAIRS, SEEN_ALONE_US, SEEN_BATCHED_US };
enum { WINDOW = 5, NEGATIVES = 5, TARGETS = WINDOW * (1 + NEGATIVES), WIDTH_MAX = 1024, DRAWS = 1 << 20, BATCH = 1000 };

struct skipgram {
    int64_t words, width, windows, alone;
    uint32_t *draws, *negatives; /* [DRAWS]: words by their frequency, and by its power 0.75 */
};

/* A word and the words around it; the bytes of an item. */
struct window {
    uint32_t center;
    uint32_t contexts[WINDOW];
};

/* Small and different for each key, so that gradients are too. */
static void start_word(void *context, uint64_t key, void *row) {
    const struct skipgram *skipgram = context;
    float *values = row;
    for (int64_t i = 0; i < skipgram->width; i++) {
        uint64_t bits = aml_mix(key, (uint64_t)i);
        values[i] = ((float)(bits >> 40) * 0x1p-24F - 0.5F) / (float)skipgram->width;
    }
}

/* Word w has the frequency (1 / (w + 1)) ^ `power`. */
static uint32_t *draw_table(int64_t words, double power) {
    uint32_t *table = malloc(DRAWS * sizeof *table);
    double sum = 0;
    double reached = 0;
    for (int64_t w = 0; w < words; w++) {
        sum += pow((double)(w + 1), -power);
    }
    size_t at = 0;
    for (int64_t w = 0; w < words && table != NULL; w++) {
        reached += pow((double)(w + 1), -power);
        size_t end = w + 1 < words ? (size_t)(reached / sum * DRAWS) : DRAWS;
        while (at < end) {
            table[at++] = (uint32_t)w;
        }
    }
    return table;
}

static int skipgram_configure(aml_worker *worker, struct aml_app *app) {
    struct skipgram *skipgram = app->context;
    app->tables[WORDS].width = app->tables[CONTEXTS].width = app->tables[ALONE].width = (uint32_t)skipgram->width;
    skipgram->draws = draw_table(skipgram->words, 1);
    skipgram->negatives = draw_table(skipgram->words, 0.75);
    return skipgram->draws != NULL && skipgram->negatives != NULL
               ? 0
               : aml_error(worker, AML_ENOMEM, "no memory for the tables to draw words from");
}

static int skipgram_read(aml_worker *worker, void *context) {
    const struct skipgram *skipgram = context;
    for (int64_t w = 0; w < skipgram->windows; w++) {
        struct window window;
        window.center = skipgram->draws[aml_mix(1, (uint64_t)w) % DRAWS];
        for (unsigned i = 0; i < WINDOW; i++) {
            window.contexts[i] = skipgram->draws[aml_mix(2 + i, (uint64_t)w) % DRAWS];
        }
        int kept = aml_emit(worker, AML_TRAIN, NULL, &window);
        if (kept < 0) {
            return kept;
        }
    }
    return 0;
}

/* ---- A clock ---- */

struct trainer {
    aml_worker *worker;
    const struct skipgram *skipgram;
    uint64_t random;
    double loss;
    uint64_t targets[TARGETS]; /* per context: the context itself, then negatives */
    float *center, *center_step;
    float *rows, *steps; /* [TARGETS][width] */
};

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void draw_targets(struct trainer *trainer, const struct window *window) {
    for (unsigned t = 0; t < TARGETS; t++) {
        trainer->targets[t] = t % (1 + NEGATIVES) == 0
                                  ? window->contexts[t / (1 + NEGATIVES)]
                                  : trainer->skipgram->negatives[next_random(&trainer->random) % DRAWS];
    }
}

static float product(const float *a, const float *b, size_t width) {
    float sums[8] = {0};
    size_t i = 0;
    for (; i + 8 <= width; i += 8) {
        for (unsigned j = 0; j < 8; j++) {
            sums[j] += a[i + j] * b[i + j];
        }
    }
    for (; i < width; i++) {
        sums[0] += a[i] * b[i];
    }
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/* Computes the step of a target's row into step[width]. Adds the center's part to center_step. */
static void target_step(struct trainer *trainer, unsigned target, const float *restrict row, float *restrict step) {
    const size_t width = (size_t)trainer->skipgram->width;
    const float *restrict center = trainer->center;
    float *restrict center_step = trainer->center_step;
    float label = target % (1 + NEGATIVES) == 0 ? 1 : 0;
    float guess = 1 / (1 + expf(-product(center, row, width)));
    float gradient = 0.025F * (label - guess);
    trainer->loss += fabsf(label - guess);
    for (size_t i = 0; i < width; i++) {
        step[i] = gradient * center[i];
        center_step[i] += gradient * row[i];
    }
}

static int train_one_by_one(struct trainer *trainer, const struct window *window) {
    int result = aml_read_param(trainer->worker, WORDS, window->center, trainer->center);
    memset(trainer->center_step, 0, (size_t)trainer->skipgram->width * sizeof(float));
    for (unsigned t = 0; t < TARGETS && result == 0; t++) {
        result = aml_read_param(trainer->worker, CONTEXTS, trainer->targets[t], trainer->rows);
        target_step(trainer, t, trainer->rows, trainer->steps);
        result =
            result != 0 ? result : aml_update_param(trainer->worker, CONTEXTS, trainer->targets[t], trainer->steps);
    }
    return result != 0 ? result : aml_update_param(trainer->worker, WORDS, window->center, trainer->center_step);
}

static int train_batched(struct trainer *trainer, const struct window *window) {
    const size_t width = (size_t)trainer->skipgram->width;
    int result = aml_read_param(trainer->worker, WORDS, window->center, trainer->center);
    result =
        result != 0 ? result : aml_read_params(trainer->worker, CONTEXTS, trainer->targets, TARGETS, trainer->rows);
    memset(trainer->center_step, 0, width * sizeof(float));
    for (unsigned t = 0; t < TARGETS && result == 0; t++) {
        target_step(trainer, t, trainer->rows + t * width, trainer->steps + t * width);
    }
    result =
        result != 0 ? result : aml_update_params(trainer->worker, CONTEXTS, trainer->targets, TARGETS, trainer->steps);
    return result != 0 ? result : aml_update_param(trainer->worker, WORDS, window->center, trainer->center_step);
}

/* Reads the thread's share of rows [0, count) for the first time, `batch` rows per call. */
static int see_rows(struct trainer *trainer, unsigned table, uint64_t count, uint64_t batch, unsigned metric) {
    uint64_t share = count / aml_threads(trainer->worker);
    uint64_t first = share * aml_thread(trainer->worker);
    uint64_t keys[BATCH];
    float *rows = malloc(batch * (size_t)trainer->skipgram->width * sizeof *rows);
    int result = rows == NULL ? aml_error(trainer->worker, AML_ENOMEM, "no memory for %d rows", BATCH) : 0;
    double start = measure_wall();
    for (uint64_t done = 0, n; done < share && result == 0; done += n) {
        n = share - done < batch ? share - done : batch;
        for (uint64_t k = 0; k < n; k++) {
            keys[k] = first + done + k;
        }
        result = batch == 1 ? aml_read_param(trainer->worker, table, keys[0], rows)
                            : aml_read_params(trainer->worker, table, keys, n, rows);
    }
    aml_metric_add(trainer->worker, metric, (measure_wall() - start) * 1e6, (double)share);
    free(rows);
    return result;
}

static int see_all(struct trainer *trainer) {
    const struct skipgram *skipgram = trainer->skipgram;
    int result = see_rows(trainer, ALONE, (uint64_t)skipgram->alone, 1, SEEN_ALONE_US);
    result = result != 0 ? result : see_rows(trainer, WORDS, (uint64_t)skipgram->words, BATCH, SEEN_BATCHED_US);
    return result != 0 ? result : see_rows(trainer, CONTEXTS, (uint64_t)skipgram->words, BATCH, SEEN_BATCHED_US);
}

static int train(struct trainer *trainer, const struct window *windows, size_t count, bool batched) {
    int result = 0;
    double start = measure_wall();
    double cpu = measure_thread_cpu();
    for (size_t w = 0; w < count && result == 0; w++) {
        draw_targets(trainer, &windows[w]);
        result = batched ? train_batched(trainer, &windows[w]) : train_one_by_one(trainer, &windows[w]);
    }
    double pairs = (double)count * WINDOW;
    aml_metric_add(trainer->worker, LOSS, trainer->loss, pairs * (1 + NEGATIVES));
    aml_metric_add(trainer->worker, SECONDS, measure_wall() - start, 1);
    aml_metric_add(trainer->worker, CPU_SECONDS, measure_thread_cpu() - cpu, 1);
    aml_metric_add(trainer->worker, PAIRS, pairs, 1);
    return result;
}

/* In clock 1 all rows are read for the first time. Then even clocks train with one row per call, odd clocks with
 * many. */
static int skipgram_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct skipgram *skipgram = context;
    const size_t width = (size_t)skipgram->width;
    float *memory = malloc((2 + 2 * TARGETS) * width * sizeof *memory);
    if (memory == NULL) {
        return aml_error(worker, AML_ENOMEM, "no memory for %d rows", 2 + 2 * TARGETS);
    }
    struct trainer trainer = {.worker = worker,
                              .skipgram = skipgram,
                              .random = aml_mix(aml_seed(worker), aml_clock(worker) << 16 | aml_thread(worker)) | 1,
                              .center = memory,
                              .center_step = memory + width,
                              .rows = memory + 2 * width,
                              .steps = memory + (2 + TARGETS) * width};
    int result = aml_clock(worker) == 1 ? see_all(&trainer) : train(&trainer, items, count, aml_clock(worker) % 2 == 1);
    free(memory);
    return result;
}

int main(int argc, char **argv) {
    struct skipgram skipgram = {.words = 100000, .width = 100, .windows = 60000, .alone = 1000};
    const struct aml_option options[] = {
        {"words", "N", AML_OPTION_INTEGER, &skipgram.words, 1, 1 << 24, "different words, Zipf-distributed"},
        {"width", "N", AML_OPTION_INTEGER, &skipgram.width, 1, WIDTH_MAX, "floats of a row"},
        {"windows", "N", AML_OPTION_INTEGER, &skipgram.windows, 1, 1 << 28, "words of the text, each with 5 around it"},
        {"alone", "N", AML_OPTION_INTEGER, &skipgram.alone, 1, 1 << 24, "rows that are first seen one by one"},
        {0}};
    struct aml_table tables[TABLES] = {
        [WORDS] = {.name = "words", .type = AML_FLOAT32, .mode = AML_ADD, .start = start_word},
        [CONTEXTS] = {.name = "contexts", .type = AML_FLOAT32, .mode = AML_ADD},
        [ALONE] = {.name = "alone", .type = AML_FLOAT32, .mode = AML_ADD}};
    const struct aml_metric metrics[] = {[LOSS] = {.name = "loss", .kind = AML_MEAN},
                                         [SECONDS] = {.name = "thread_seconds", .kind = AML_MEAN},
                                         [CPU_SECONDS] = {.name = "thread_cpu_seconds", .kind = AML_MEAN},
                                         [PAIRS] = {.name = "pairs", .kind = AML_SUM},
                                         [SEEN_ALONE_US] = {.name = "seen_alone_us", .kind = AML_MEAN},
                                         [SEEN_BATCHED_US] = {.name = "seen_batched_us", .kind = AML_MEAN}};
    struct aml_app app = {.name = "skipgram",
                          .summary = "skip-gram with rows by key, for bench_params",
                          .options = options,
                          .tables = tables,
                          .table_count = TABLES,
                          .metrics = metrics,
                          .metric_count = sizeof metrics / sizeof metrics[0],
                          .item_bytes = sizeof(struct window),
                          .clocks_per_iteration = 1,
                          .configure = skipgram_configure,
                          .read = skipgram_read,
                          .clock = skipgram_clock,
                          .context = &skipgram};
    return aml_main(&app, argc, argv);
}
