/* bench_mlr: compares dense multinomial logistic regression on AgileML with its matrix products alone. Runs the real
 * programs on one node, in turns with OpenBLAS on matrices of the same shapes with as many threads. With --device cuda
 * both run on a GPU, with cuBLAS. */
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "apps/nn/device.h"
#include "bench/mlr/cublas.h"
#include "bench/trial.h"

#include <cblas.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_ROOM = 64, PRODUCTS_MIN = 5 };

static const double PRODUCT_SECONDS = 0.5; /* time for which OpenBLAS is measured in each turn */

/* A model, its data, and the size of its steps. */
struct shape {
    const char *name;
    uint32_t features, classes, batch, samples;
    unsigned passes;
};

static const struct shape SHAPES[] = {
    {"MNIST", 784, 10, 256, 60000, 60},
    {"MNIST", 784, 10, 1024, 60000, 60},
    {"wide", 21504, 1000, 256, 2048, 12},
    {"wide", 21504, 1000, 1024, 4096, 2},
};
static const struct shape QUICK = {"small", 300, 20, 64, 2000, 2};

struct bench {
    int64_t threads, rounds;
    const char *shape; /* NULL: all */
    const char *device;
    bool cuda;
    bool quick;
    char folder[PATH_MAX];
};

/* ---- Data: idx files without a name ---- */

static int idx_create(const uint32_t *dimensions, unsigned count, unsigned type, FILE **stream, int *file,
                      char path[PATH_ROOM], struct error *error) {
    const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    *file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    int copy = *file >= 0 ? fcntl(*file, F_DUPFD_CLOEXEC, 0) : -1;
    *stream = copy >= 0 ? fdopen(copy, "w") : NULL;
    if (*stream == NULL) {
        return error_set(error, AML_EFAIL, "%s: can't create a temporary file: %s", folder, strerror(errno));
    }
    const unsigned char start[4] = {0, 0, (unsigned char)type, (unsigned char)count};
    fwrite(start, 1, sizeof start, *stream);
    for (unsigned d = 0; d < count; d++) {
        for (unsigned byte = 4; byte > 0; byte--) {
            fputc((int)(dimensions[d] >> (8 * (byte - 1)) & 255), *stream);
        }
    }
    snprintf(path, PATH_ROOM, "/proc/%d/fd/%d", (int)getpid(), *file);
    return 0;
}

static int idx_finish(FILE *stream, struct error *error) {
    bool failed = ferror(stream) != 0;
    failed = fclose(stream) != 0 || failed;
    return failed ? error_set(error, AML_EFAIL, "can't write a temporary file: %s", strerror(errno)) : 0;
}

struct data {
    int images, labels;
    char images_path[PATH_ROOM], labels_path[PATH_ROOM];
};

/* Fills the data with random bytes, and a class for each sample. */
static int data_open(struct data *data, const struct shape *shape, struct error *error) {
    const uint32_t dimensions[] = {shape->samples, shape->features};
    FILE *stream;
    *data = (struct data){.images = -1, .labels = -1};
    int result = idx_create(dimensions, 2, 8, &stream, &data->images, data->images_path, error);
    if (result != 0) {
        return result;
    }
    uint64_t bytes = (uint64_t)shape->samples * shape->features;
    for (uint64_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t random = hash_mix(i);
        fwrite(&random, 1, bytes - i < sizeof random ? (size_t)(bytes - i) : sizeof random, stream);
    }
    result = idx_finish(stream, error);
    if (result == 0) {
        result = idx_create(dimensions, 1, 12, &stream, &data->labels, data->labels_path, error);
    }
    if (result != 0) {
        return result;
    }
    for (uint32_t i = 0; i < shape->samples; i++) {
        uint32_t label = i < shape->classes ? i : (uint32_t)(hash_mix(i) % shape->classes);
        for (unsigned byte = 4; byte > 0; byte--) {
            fputc((int)(label >> (8 * (byte - 1)) & 255), stream);
        }
    }
    return idx_finish(stream, error);
}

static void data_close(struct data *data) {
    if (data->images >= 0) {
        close(data->images);
    }
    if (data->labels >= 0) {
        close(data->labels);
    }
}

/* ---- The contenders ---- */

static float *random_matrix(size_t rows, size_t columns) {
    float *matrix = memory_resized(NULL, rows * columns, sizeof *matrix);
    for (size_t i = 0; i < rows * columns; i++) {
        matrix[i] = (float)(hash_mix(i) >> 40) * 0x1p-24F;
    }
    return matrix;
}

/* Wall and CPU seconds. */
struct cost {
    double wall, cpu;
};

/* Returns the cost of a step's two products alone: logits = X W, then W -= small X^T E. */
static struct cost product_cost(const struct shape *shape, unsigned threads) {
    blasint batch = (blasint)shape->batch;
    blasint features = (blasint)shape->features;
    blasint classes = (blasint)shape->classes;
    float *samples = random_matrix(shape->batch, shape->features);
    float *weights = random_matrix(shape->features, shape->classes);
    float *logits = random_matrix(shape->batch, shape->classes);
    struct series wall = {0};
    struct series cpu = {0};
    openblas_set_num_threads((int)threads);
    double begun = measure_wall();
    while (wall.count < PRODUCTS_MIN || measure_wall() - begun < PRODUCT_SECONDS) {
        double start = measure_wall();
        double cpu_start = measure_own_cpu();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, batch, classes, features, 1, samples, features, weights,
                    classes, 0, logits, classes);
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, features, classes, batch, -1e-9F, samples, features,
                    logits, classes, 1, weights, classes);
        series_add(&wall, measure_wall() - start);
        series_add(&cpu, measure_own_cpu() - cpu_start);
    }
    struct cost median = {series_median(&wall), series_median(&cpu)};
    series_close(&wall);
    series_close(&cpu);
    free(samples);
    free(weights);
    free(logits);
    return median;
}

/* Measures the cost of a pass, all processes of the job together. */
static int pass_cost(const struct bench *bench, const struct shape *shape, const struct data *data, unsigned threads,
                     unsigned clocks, struct cost *cost, struct error *error) {
    struct bench_trial trial;
    struct series wall = {0};
    struct series cpu = {0};
    double loss;
    trial_open(&trial, bench->folder, threads, 8, "mlr", shape->passes);
    trial_argument(&trial, "--data=%s", data->images_path);
    trial_argument(&trial, "--labels=%s", data->labels_path);
    trial_argument(&trial, "--batch=%u", shape->batch);
    trial_argument(&trial, "--layout=dense");
    trial_argument(&trial, "--optimizer=sgd"); /* several steps per clock, and no choices by a survey */
    trial_argument(&trial, "--scale=byte");
    trial_argument(&trial, "--lambda=1e-4");
    trial_argument(&trial, "--device=%s", bench->device);
    trial_argument(&trial, "--clocks-per-iteration=%u", clocks);
    int result = trial_run(&trial, &wall, &cpu, &loss, error);
    trial_close(&trial);
    /* see trial_passes: only the mean of CPU times is accurate */
    *cost = (struct cost){series_median(&wall), series_mean(&cpu)};
    series_close(&wall);
    series_close(&cpu);
    return result;
}

static double step_operations(const struct shape *shape) {
    return 4.0 * shape->batch * shape->features * shape->classes;
}

/* Measures the products alone, on the chosen device. On a GPU they take next to no CPU time. */
static int peak_cost(const struct bench *bench, const struct shape *shape, unsigned threads, struct cost *cost,
                     struct error *error) {
    if (!bench->cuda) {
        *cost = product_cost(shape, threads);
        return 0;
    }
    int result = cublas_products(shape->features, shape->classes, shape->batch, PRODUCT_SECONDS, &cost->wall, error);
    cost->cpu = cost->wall;
    return result;
}

/* Compares the products alone, one clock per step, and one clock per pass, in turns. */
static int compare(const struct bench *bench, const struct shape *shape, const struct data *data, unsigned threads,
                   struct error *error) {
    const char *const names[] = {bench->cuda ? "cuBLAS" : "OpenBLAS", "mlr", "mlr, 1 clock"};
    struct series rates[3] = {0}; /* samples per second */
    struct series ratios[3] = {0};
    struct series cpu_ratios[3] = {0};
    int result = 0;
    for (int64_t round = 0; round < bench->rounds && result == 0; round++) {
        struct cost alone;
        result = peak_cost(bench, shape, threads, &alone, error);
        for (unsigned c = 0; c < 3 && result == 0; c++) {
            struct cost cost = alone;
            double samples = shape->batch;
            if (c > 0) {
                samples = shape->samples;
                result = pass_cost(bench, shape, data, threads, c == 1 ? 0 : 1, &cost, error);
            }
            series_add(&rates[c], samples / cost.wall);
            series_add(&ratios[c], samples / cost.wall * alone.wall / shape->batch);
            series_add(&cpu_ratios[c], samples / cost.cpu * alone.cpu / shape->batch);
        }
    }
    for (unsigned c = 0; c < 3; c++) {
        double rate = series_median(&rates[c]);
        if (result == 0) {
            printf("%-8s %6u %5u %6u %7u  %-13s %10.0f %9.1f %7.2f %7.2f\n", shape->name, shape->features,
                   shape->classes, shape->batch, threads, names[c], rate,
                   rate / shape->batch * step_operations(shape) / 1e9, series_median(&ratios[c]),
                   series_median(&cpu_ratios[c]));
            const struct measured measured = {
                "mlr", names[c], "samples", rate, series_median(&ratios[c]), series_median(&cpu_ratios[c])};
            measure_record(&measured, "%s, batch %u, threads %u", shape->name, shape->batch, threads);
        }
        series_close(&rates[c]);
        series_close(&ratios[c]);
        series_close(&cpu_ratios[c]);
    }
    fflush(stdout);
    return result;
}

static int run_shape(const struct bench *bench, const struct shape *shape, struct error *error) {
    struct data data;
    int result = data_open(&data, shape, error);
    for (unsigned threads = 1; threads <= bench->threads && result == 0; threads *= 2) {
        result = compare(bench, shape, &data, threads, error);
    }
    data_close(&data);
    return result;
}

static const char SUMMARY[] =
    "bench_mlr: mlr and OpenBLAS, beside each other.\n"
    "Steps on made-up dense samples, with 1, 2, 4 ... threads:\n"
    "  OpenBLAS      the two matrix products of a step, on one minibatch again and again, and nothing else\n"
    "  mlr           a job of one node with a clock for each step\n"
    "  mlr, 1 clock  the same with one clock a pass\n"
    "Columns: features d, classes K, samples of a step; samples/s and GFLOP/s by wall time (4 d K operations a\n"
    "sample); the ratios to OpenBLAS in the same turn by wall and CPU time (aim 0.8). The shapes are MNIST's, 784\n"
    "x 10, and 21504 x 1000. With --device cuda the other is cuBLAS on the GPU in single precision without TF32;\n"
    "only the wall time counts.";

int main(int argc, char **argv) {
    struct bench bench = {.threads = measure_processors(), .rounds = 3, .device = "cpu"};
    const struct aml_option options[] = {
        {"threads", "N", AML_OPTION_INTEGER, &bench.threads, 1, 256, "1, 2, 4 ... threads, up to so many"},
        {"rounds", "N", AML_OPTION_INTEGER, &bench.rounds, 1, 1000, "turns of all"},
        {"shape", "NAME", AML_OPTION_STRING, &bench.shape, 0, 0, "MNIST or wide alone"},
        {"device", "NAME", AML_OPTION_STRING, &bench.device, 0, 0, "cpu or cuda; cuda with one thread"},
        {"quick", NULL, AML_OPTION_FLAG, &bench.quick, 0, 0, "a small shape, one round: does it run at all"},
        {0},
    };
    struct error error = {0};
    int status = measure_options(options, SUMMARY, argc, argv);
    if (status >= 0) {
        return status;
    }
    if (!trial_find_programs("mlr", bench.folder, sizeof bench.folder)) {
        printf("skipped: there is no proteus and mlr in %s; build them, or set PROTEUS_BIN to their folder\n",
               bench.folder);
        return 0;
    }
    bench.cuda = strcmp(bench.device, "cuda") == 0;
    if (!bench.cuda && strcmp(bench.device, "cpu") != 0) {
        fprintf(stderr, "bench_mlr: --device: expected cpu or cuda, got '%s'\n", bench.device);
        return 2;
    }
    if (bench.cuda && nn_device_check(&error) != 0) {
        printf("skipped: no device: %s\n", error.text);
        return 0;
    }
    measure_print_machine();
    bench.rounds = bench.quick ? 1 : bench.rounds;
    bench.threads = bench.quick || bench.cuda ? 1 : bench.threads;
    printf("shape         d     K  batch threads                samples/s   GFLOP/s   ratio  CPU-r.\n");
    int result = 0;
    for (size_t s = 0; s < sizeof SHAPES / sizeof SHAPES[0] && result == 0 && !bench.quick; s++) {
        if (bench.shape == NULL || strcmp(bench.shape, SHAPES[s].name) == 0) {
            result = run_shape(&bench, &SHAPES[s], &error);
        }
    }
    if (bench.quick) {
        result = run_shape(&bench, &QUICK, &error);
    }
    if (result != 0) {
        fprintf(stderr, "%s\n", error.text);
    }
    return result == 0 ? 0 : error_exit_status(result);
}
