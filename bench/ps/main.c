/* bench_ps: measures pushing and pulling a table between two processes over TCP on this machine. Compares AgileML's
 * client and server with bare ZeroMQ, which moves as many bytes in as many messages, in turns. */
#include "bench/measure.h"
#include "bench/ps/peer.h"
#include "bench/ps/protocol.h"

#include <math.h>
#include <stdio.h>
#include <zmq.h>

enum contender { PROTOCOL, BARE, CONTENDERS };
static const char *const CONTENDER_NAMES[CONTENDERS] = {"AgileML", "bare ZeroMQ"};

struct bench {
    int64_t samples, rows, width, partitions;
    bool quick, alone, keyed;
    struct net_key key;
};

/* This process's ends of both transfers. */
struct ends {
    struct peer peer;
    struct protocol_worker worker, reader;
    struct bare bare;
};

struct result {
    struct series wall, cpu; /* costs of one transfer of the table */
    struct series gather;    /* wall time to take the deltas before a push */
};

static int transfer(struct ends *ends, enum contender contender, bool pull, struct error *error) {
    if (contender == PROTOCOL) {
        return pull ? protocol_pull(&ends->reader, error) : protocol_push(&ends->worker, error);
    }
    return pull ? bare_pull(&ends->bare, error) : bare_push(&ends->bare, error);
}

/* Takes one sample of `repeats` transfers. What the app does between them is not counted. */
static int sample(struct ends *ends, const struct shape *shape, enum contender contender, bool pull,
                  struct result *result, struct error *error) {
    double wall = 0;
    double cpu = 0;
    double gather = 0;
    for (unsigned r = 0; r < shape->repeats; r++) {
        if (contender == PROTOCOL && !pull) {
            protocol_change_rows(&ends->worker);
            gather -= measure_wall();
            int failed = protocol_gather(&ends->worker, error);
            gather += measure_wall();
            if (failed != 0) {
                return failed;
            }
        }
        double cpu_start = measure_own_cpu() + measure_process_cpu(ends->peer.process);
        double start = measure_wall();
        int failed = transfer(ends, contender, pull, error);
        if (failed != 0) {
            return failed;
        }
        wall += measure_wall() - start;
        cpu += measure_own_cpu() + measure_process_cpu(ends->peer.process) - cpu_start;
    }
    series_add(&result->wall, wall / shape->repeats);
    series_add(&result->cpu, cpu / shape->repeats);
    series_add(&result->gather, gather / shape->repeats);
    return 0;
}

static void print_results(const struct shape *shape, bool pull, const struct result results[CONTENDERS],
                          unsigned contenders, double ratio) {
    double values = (double)shape->rows * shape->width * sizeof(float);
    for (unsigned c = 0; c < contenders; c++) {
        double seconds = series_median(&results[c].wall);
        printf("%6u x %-5u %3u  %s  %-11s  %7.2f  %9.1f  %9.1f  %7.3f", shape->rows, shape->width, shape->partitions,
               pull ? "pull" : "push", CONTENDER_NAMES[c], values / seconds / 1e9, shape->rows / seconds / 1e6,
               seconds * 1e6, series_median(&results[c].cpu) / (values / 1e9));
        if (c == PROTOCOL) {
            printf("  %5.2f", ratio);
        }
        if (c == PROTOCOL && !pull) {
            printf("  %9.1f", series_median(&results[c].gather) * 1e6);
        }
        printf("\n");
        const struct measured measured = {
            "ps", CONTENDER_NAMES[c], "rows", shape->rows / seconds, c == PROTOCOL ? ratio : 1, NAN};
        measure_record(&measured, "%s of %u x %u in %u", pull ? "pull" : "push", shape->rows, shape->width,
                       shape->partitions);
    }
}

static int compare(const struct bench *bench, struct ends *ends, const struct shape *shape, bool pull,
                   struct error *error) {
    struct result results[CONTENDERS] = {0};
    struct series ratios = {0};
    const unsigned contenders = bench->alone ? 1 : CONTENDERS;
    int failed = 0;
    for (int64_t s = -1; s < bench->samples && failed == 0; s++) {
        for (unsigned c = 0; c < contenders && failed == 0; c++) {
            failed = sample(ends, shape, (enum contender)c, pull, &results[c], error);
        }
        if (s < 0) { /* the first is a warm-up */
            series_clear(&results[PROTOCOL].wall);
            series_clear(&results[PROTOCOL].cpu);
            series_clear(&results[PROTOCOL].gather);
            series_clear(&results[BARE].gather);
            series_clear(&results[BARE].wall);
            series_clear(&results[BARE].cpu);
        } else if (failed == 0 && !bench->alone) {
            series_add(&ratios, results[BARE].wall.values[s] / results[PROTOCOL].wall.values[s]);
        }
    }
    if (failed == 0) {
        print_results(shape, pull, results, contenders, series_median(&ratios));
        fflush(stdout);
    }
    for (unsigned c = 0; c < CONTENDERS; c++) {
        series_close(&results[c].wall);
        series_close(&results[c].cpu);
        series_close(&results[c].gather);
    }
    series_close(&ratios);
    return failed;
}

static int run_shape(const struct bench *bench, const struct shape *shape, struct error *error) {
    struct ends ends = {0};
    int result = peer_open(&ends.peer, shape, error);
    if (result == 0) {
        result = protocol_worker_open(&ends.worker, shape, SHAPE_WORKER, ends.peer.protocol, error);
        result = result != 0 ? result : bare_worker_open(&ends.bare, shape, ends.peer.bare, error);
        result = result != 0 ? result : compare(bench, &ends, shape, false, error);
        if (result == 0) {
            result = protocol_worker_open(&ends.reader, shape, SHAPE_READER, ends.peer.protocol, error);
            result = result != 0 ? result : protocol_subscribe(&ends.reader, error);
            result = result != 0 ? result : compare(bench, &ends, shape, true, error);
            protocol_worker_close(&ends.reader);
        }
        bare_worker_close(&ends.bare);
        protocol_worker_close(&ends.worker);
    }
    peer_close(&ends.peer);
    return result;
}

static const char SUMMARY[] =
    "bench_ps: push and pull by AgileML and by bare ZeroMQ, beside each other.\n"
    "A worker's client and a partition server exchange a table between two processes, over TCP on this machine:\n"
    "  push         one clock, from the flush of all rows until the worker knows that every partition is at the\n"
    "               clock; taking the deltas before it, by one thread, is the column 'gather us'\n"
    "  pull         a second worker, subscribed to all rows, gets all that changed since clock 0\n"
    "  bare ZeroMQ  as many messages, frames and bytes, without a copy, each answered by a short one\n"
    "Columns: rows x width and partitions; bytes of values (GB/s) and rows by wall time; one transfer of the\n"
    "table (us each); CPU-seconds of both processes for a GB of values; bare ZeroMQ's wall time by AgileML's\n"
    "(ratio, aim 0.8 for wide rows).";

int main(int argc, char **argv) {
    static const struct shape SHAPES[] = {{1000, 1, 1, 500, NULL},
                                          {10000, 100, 1, 20, NULL},
                                          {10000, 100, 8, 20, NULL},
                                          {10000, 1000, 1, 3, NULL},
                                          {10000, 1000, 8, 3, NULL}};
    static const struct shape QUICK_SHAPES[] = {{1000, 1, 1, 20, NULL}, {10000, 100, 8, 2, NULL}};
    struct bench bench = {.samples = 15, .width = 100, .partitions = 1};
    const struct aml_option options[] = {
        {"samples", "N", AML_OPTION_INTEGER, &bench.samples, 1, 10000, "turns of both, after one that is not counted"},
        {"rows", "N", AML_OPTION_INTEGER, &bench.rows, 0, 1 << 24, "one shape of so many rows; 0: the usual ones"},
        {"width", "N", AML_OPTION_INTEGER, &bench.width, 1, 1 << 20, "floats of a row, with --rows"},
        {"partitions", "N", AML_OPTION_INTEGER, &bench.partitions, 1, WIRE_PARTITIONS_MAX, "with --rows"},
        {"key", NULL, AML_OPTION_FLAG, &bench.keyed, 0, 0, "AgileML's connections are encrypted"},
        {"alone", NULL, AML_OPTION_FLAG, &bench.alone, 0, 0, "AgileML only, for a profiler"},
        {"quick", NULL, AML_OPTION_FLAG, &bench.quick, 0, 0, "two shapes, one sample: does it run at all"},
        {0},
    };
    struct error error = {0};
    int status = measure_options(options, SUMMARY, argc, argv);
    if (status >= 0) {
        return status;
    }
    struct shape own = {(uint32_t)bench.rows, (uint32_t)bench.width, (uint32_t)bench.partitions, 5, NULL};
    const struct shape *shapes = bench.rows > 0 ? &own : bench.quick ? QUICK_SHAPES : SHAPES;
    size_t count = bench.rows > 0 ? 1
                   : bench.quick  ? sizeof QUICK_SHAPES / sizeof QUICK_SHAPES[0]
                                  : sizeof SHAPES / sizeof SHAPES[0];
    if (bench.rows > 0 && bench.rows < bench.partitions) {
        fprintf(stderr, "--partitions: expected at most as many as --rows\n");
        return 2;
    }
    bench.samples = bench.quick ? 1 : bench.samples;
    memory_keep(); /* nodes do so, too; bare ZeroMQ gains as much from it */
    measure_print_machine();
    printf("  rows x width prt  what  by              GB/s   M rows/s    us each CPU-s/GB  ratio  gather us\n");
    int result = bench.keyed ? zmq_curve_keypair(bench.key.public_text, bench.key.secret_text) : 0;
    net_key_complete(&bench.key);
    for (size_t s = 0; s < count && result == 0; s++) {
        struct shape shape = shapes[s];
        shape.key = bench.keyed ? &bench.key : NULL;
        result = run_shape(&bench, &shape, &error);
    }
    if (result != 0) {
        fprintf(stderr, "%s\n", error.text);
    }
    return result == 0 ? 0 : error_exit_status(result);
}
