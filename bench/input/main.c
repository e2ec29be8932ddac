/* bench_input: measures what the fingerprint of the input costs while ratings are read. Compares the library's reader
 * with the same code without the fingerprint (without.c), in turns, one thread each. Measures CPU-seconds; the file is
 * in the page cache. */
#include "agileml/base/hash.h"
#include "bench/input/variant.h"
#include "bench/measure.h"
#include "workers/data/ratings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARDS = 1024, NODES_MAX = 4, USERS = 162000, ITEMS = 59000, QUICK_RATINGS = 20000, QUICK_ROUNDS = 2 };

/* One reading by one variant. */
struct reading {
    const struct variant *variant;
    struct data data;
};

/* Handles a run of ratings as mf does. */
static int emit_ratings(void *context, unsigned thread, const struct line_chunk *lines, const struct rating *ratings,
                        size_t count) {
    struct reading *reading = context;
    const struct variant *variant = reading->variant;
    struct data_chunk *chunk = variant->chunk_open(&reading->data, lines->sequence, lines->sequence);
    (void)thread;
    for (size_t i = 0; i < count; i++) {
        const uint64_t keys[2] = {ratings[i].user, ratings[i].item};
        if (variant->emit(&reading->data, chunk, AML_TRAIN, keys, &ratings[i].value) == 1) {
            double *totals = variant->totals(&reading->data, chunk);
            totals[0] += ratings[i].value;
            totals[WIRE_TOTALS / 2] = fmax(totals[WIRE_TOTALS / 2], ratings[i].value);
        }
    }
    variant->chunk_close(&reading->data, chunk);
    return 0;
}

/* Reads the file as one of `nodes` nodes. Returns CPU-seconds; negative, with an error, when the file can't be read. */
static double read_once(const struct variant *variant, const char *path, unsigned nodes, struct error *error) {
    const struct aml_app app = {.item_rows = 2, .item_tables = {0, 1}, .item_bytes = sizeof(float)};
    struct reading reading = {.variant = variant};
    uint32_t own[SHARDS];
    uint32_t count = 0;
    for (uint32_t s = 0; s < SHARDS; s += nodes) {
        own[count++] = s;
    }
    variant->open(&reading.data, &app, SHARDS, 0);
    variant->pin(&reading.data, own, count);
    double begin = measure_own_cpu();
    variant->read_begin(&reading.data);
    const struct ratings_reader reader = {.threads = 1, .sink = emit_ratings, .context = &reading};
    int result = ratings_read(&reader, path, error);
    variant->read_end(&reading.data, result == 0);
    double seconds = measure_own_cpu() - begin;
    variant->unpin(&reading.data, own, count);
    variant->close(&reading.data);
    return result == 0 ? seconds : -1;
}

/* Prints medians of the rounds. The cost is the median of each round's ratio, since the machine's speed varies. */
static int measure(const char *path, unsigned nodes, int64_t ratings, int64_t rounds, struct error *error) {
    struct series rates[2] = {0}; /* CPU-ns per rating: without and with the fingerprint */
    struct series ratios = {0};
    int result = 0;
    for (int64_t r = 0; r < rounds && result == 0; r++) {
        double seconds[2] = {0};
        for (int64_t turn = 0; turn < 2 && result == 0; turn++) {
            bool with = (r + turn) % 2 != 0; /* the order changes from round to round */
            seconds[with] = read_once(with ? &variant_with : &variant_without, path, nodes, error);
            result = seconds[with] < 0 ? error->code : 0;
            series_add(&rates[with], seconds[with] / (double)ratings * 1e9);
        }
        series_add(&ratios, seconds[1] / seconds[0]);
    }
    if (result == 0) {
        printf("%5u  %22.1f  %25.1f  %8.1f %%\n", nodes, series_median(&rates[1]), series_median(&rates[0]),
               (series_median(&ratios) - 1) * 100);
    }
    series_close(&rates[0]);
    series_close(&rates[1]);
    series_close(&ratios);
    return result;
}

static int write_ratings(FILE *file, int64_t ratings, struct error *error) {
    for (int64_t r = 0; r < ratings; r++) {
        uint64_t random = hash_mix((uint64_t)r);
        fprintf(file, "%" PRIu64 ",%" PRIu64 ",%.1f,%" PRIu64 "\n", random % USERS, (random >> 20) % ITEMS,
                0.5 * (double)((random >> 40) % 10 + 1), 1000000000 + (random >> 44));
    }
    return ferror(file) != 0 || fclose(file) != 0
               ? error_set(error, AML_EFAIL, "can't write the ratings: %s", strerror(errno))
               : 0;
}

static const char SUMMARY[] =
    "bench_input: what the fingerprint of the input costs.\n"
    "One thread reads made-up ratings from the system's cache, as the only node and as one of four, with the\n"
    "fingerprint and by the same code compiled without it. Prints CPU-ns a rating, the least of the rounds.";

int main(int argc, char **argv) {
    int64_t ratings = 500000;
    int64_t rounds = 101;
    bool quick = false;
    const struct aml_option options[] = {
        {"ratings", "N", AML_OPTION_INTEGER, &ratings, 1, 1e9, "in the file"},
        {"rounds", "N", AML_OPTION_INTEGER, &rounds, 1, 1e6, "each reads it with and without"},
        {"quick", NULL, AML_OPTION_FLAG, &quick, 0, 0, "only see that it runs"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    char path[] = "/tmp/bench_input.XXXXXX";
    struct error error = {0};
    int status = measure_options(options, SUMMARY, argc, argv);
    if (status >= 0) {
        return status;
    }
    ratings = quick ? QUICK_RATINGS : ratings;
    rounds = quick ? QUICK_ROUNDS : rounds;
    int descriptor = mkstemp(path);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (file == NULL) {
        fprintf(stderr, "bench_input: %s: %s\n", path, strerror(errno));
        return 1;
    }
    int result = write_ratings(file, ratings, &error);
    measure_print_machine();
    printf("nodes  CPU-ns a rating, with it  CPU-ns a rating, without       cost\n");
    for (unsigned nodes = 1; nodes <= NODES_MAX && result == 0; nodes *= NODES_MAX) {
        result = measure(path, nodes, ratings, rounds, &error);
    }
    unlink(path);
    if (result != 0) {
        fprintf(stderr, "bench_input: %s\n", error.text);
    }
    return result == 0 ? 0 : 1;
}
