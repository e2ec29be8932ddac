/* graph_lines: writes the files of a made-up graph (made.h) into a folder: edges, features, labels, split. */
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "bench/graphs/made.h"
#include "bench/measure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NAME_MAX_BYTES = 4096, ALIGNED = 64, AT_ONCE = 1 << 20, SPLITS = 3 };

struct output {
    char path[NAME_MAX_BYTES];
    FILE *file;
};

/* Opens a file in the folder. Ends the program when that fails, as finish does. */
static void start(struct output *output, const char *folder, const char *name) {
    snprintf(output->path, sizeof output->path, "%s/%s", folder, name);
    output->file = fopen(output->path, "wb");
    if (output->file == NULL) {
        fprintf(stderr, "graph_lines: can't create %s: %s\n", output->path, strerror(errno));
        exit(1);
    }
    setvbuf(output->file, NULL, _IOFBF, AT_ONCE);
}

static void finish(struct output *output) {
    bool failed = ferror(output->file) != 0;
    if (fclose(output->file) != 0 || failed) {
        fprintf(stderr, "graph_lines: can't write %s: %s\n", output->path, strerror(errno));
        exit(1);
    }
}

/* Writes the head of a .npy file, version 1.0: rows x columns in C's order. */
static void write_npy_head(FILE *file, const char *type, uint64_t rows, uint32_t columns) {
    char head[4 * ALIGNED];
    int length = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (%llu, %u), }", type,
                          (unsigned long long)rows, columns);
    unsigned before = 10; /* magic, version, length */
    unsigned padded = ((before + (unsigned)length + 1 + ALIGNED - 1) / ALIGNED * ALIGNED) - before;
    fwrite("\x93NUMPY\x01\x00", 1, 8, file);
    fputc((int)(padded & 0xFF), file);
    fputc((int)(padded >> 8), file);
    fprintf(file, "%-*s\n", (int)padded - 1, head);
}

/* Writes a number's digits before `end`; returns where they begin. */
static char *digits_before(char *end, uint32_t number) {
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return end;
}

static void write_edges(const struct made *made, const char *folder, bool text) {
    struct output output;
    start(&output, folder, text ? "edges.txt" : "edges.npy");
    if (!text) {
        write_npy_head(output.file, "<i4", made->shape.edges, 2);
    }
    for (uint64_t e = 0; e < made->shape.edges && !ferror(output.file); e++) {
        struct made_edge edge = made_edge(made, e);
        if (!text) {
            fwrite(edge.ends, sizeof edge.ends, 1, output.file);
            continue;
        }
        char line[32];
        char *end = line + sizeof line;
        char *begin = end;
        *--begin = '\n';
        begin = digits_before(begin, edge.ends[1]);
        *--begin = ' ';
        begin = digits_before(begin, edge.ends[0]);
        fwrite(begin, 1, (size_t)(end - begin), output.file);
    }
    finish(&output);
}

static void write_features(const struct made *made, const uint32_t *classes, const char *folder) {
    struct output output;
    start(&output, folder, "features.npy");
    write_npy_head(output.file, "<f4", made->shape.vertices, made->shape.features);
    float *values = memory_zeroed(made->shape.features, sizeof *values);
    for (uint32_t v = 0; v < made->shape.vertices && !ferror(output.file); v++) {
        made_features(made, v, classes[v], values);
        fwrite(values, sizeof *values, made->shape.features, output.file);
    }
    free(values);
    finish(&output);
}

static void write_labels(const struct made *made, const uint32_t *classes, const char *folder) {
    struct output output;
    start(&output, folder, "labels.txt");
    for (uint32_t v = 0; v < made->shape.vertices; v++) {
        fprintf(output.file, "%u\n", classes[v]);
    }
    finish(&output);
}

/* A line for each split, as those of ../shared/data. */
static void write_split(const struct made *made, double train, double validation, const char *folder) {
    static const char *const names[SPLITS] = {"train", "val", "test"};
    const double from[SPLITS + 1] = {0, train, train + validation, 2};
    struct output output;
    start(&output, folder, "split.txt");
    for (unsigned s = 0; s < SPLITS; s++) {
        fputs(names[s], output.file);
        for (uint32_t v = 0; v < made->shape.vertices; v++) {
            double at = (double)(hash_seeded(made->shape.seed, v) >> 11) * 0x1p-53;
            if (from[s] <= at && at < from[s + 1]) {
                fprintf(output.file, " %u", v);
            }
        }
        fputc('\n', output.file);
    }
    finish(&output);
}

/* The command line. */
struct asked {
    int64_t vertices, edges, features, classes, seed;
    struct made_shape shape;
    double train, validation;
    const char *format, *out;
};

static int read_options(struct asked *asked, int argc, char **argv) {
    struct made_shape *shape = &asked->shape;
    const struct aml_option options[] = {
        {"vertices", "N", AML_OPTION_INTEGER, &asked->vertices, 100, 1e9, "of the graph"},
        {"edges", "N", AML_OPTION_INTEGER, &asked->edges, 1, 1e12, "undirected; some are there twice"},
        {"features", "N", AML_OPTION_INTEGER, &asked->features, 1, 1e5, "of a vertex"},
        {"classes", "N", AML_OPTION_INTEGER, &asked->classes, 2, 50, "of vertices"},
        {"exponent", "X", AML_OPTION_REAL, &shape->exponent, 2.01, 10, "of the degrees' Pareto distribution"},
        {"within", "X", AML_OPTION_REAL, &shape->within, 0, 1, "part of the edges within a class"},
        {"signal", "X", AML_OPTION_REAL, &shape->signal, 0, 100, "deviation of classes' means; the noise has 1"},
        {"train", "X", AML_OPTION_REAL, &asked->train, 0, 1, "part of the vertices to train on"},
        {"validation", "X", AML_OPTION_REAL, &asked->validation, 0, 1, "part of the vertices to validate on"},
        {"seed", "N", AML_OPTION_INTEGER, &asked->seed, 0, 1e9, "another graph for each"},
        {"format", "NAME", AML_OPTION_STRING, &asked->format, 0, 0, "of the edges: npy or text"},
        {"out", "DIR", AML_OPTION_STRING, &asked->out, 0, 0, "folder, made if it does not exist"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    int status = measure_options(options, "graph_lines: a made-up graph's files into a folder", argc, argv);
    if (status >= 0) {
        return status;
    }
    shape->vertices = (uint32_t)asked->vertices;
    shape->edges = (uint64_t)asked->edges;
    shape->features = (uint32_t)asked->features;
    shape->classes = (uint32_t)asked->classes;
    shape->seed = (uint64_t)asked->seed;
    if (asked->out == NULL) {
        fprintf(stderr, "graph_lines: expected --out DIR\n");
        return 2;
    }
    if (strcmp(asked->format, "npy") != 0 && strcmp(asked->format, "text") != 0) {
        fprintf(stderr, "graph_lines: --format: expected npy or text, got '%s'\n", asked->format);
        return 2;
    }
    return -1;
}

int main(int argc, char **argv) {
    struct asked asked = {.vertices = 1000000,
                          .edges = 20000000,
                          .features = 64,
                          .classes = 16,
                          .seed = 1,
                          .shape = {.exponent = 2.5, .within = 0.7, .signal = 0.05},
                          .train = 0.1,
                          .validation = 0.1,
                          .format = "npy"};
    int status = read_options(&asked, argc, argv);
    if (status >= 0) {
        return status;
    }
    if (mkdir(asked.out, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "graph_lines: can't create %s: %s\n", asked.out, strerror(errno));
        return 1;
    }
    struct made made;
    made_open(&made, &asked.shape);
    uint32_t *classes = memory_zeroed(asked.shape.vertices, sizeof *classes);
    made_classes(&made, classes);
    write_edges(&made, asked.out, strcmp(asked.format, "text") == 0);
    write_features(&made, classes, asked.out);
    write_labels(&made, classes, asked.out);
    write_split(&made, asked.train, asked.validation, asked.out);
    free(classes);
    made_close(&made);
    return 0;
}
