/* Writes the seeds of gnn_pack_fuzz into the folder that is its only argument: intervals of each form, and parts of
 * packed graphs. No seed is stored in the repository. */
#include "apps/gnn/pack.h"
#include "tests/fuzz/corpus.h"
#include "tests/unit/gnn_graphs.h"

#include <stdlib.h>
#include <unistd.h>

enum {
    PART = 1,
    DIRECTED = 2,
    FEATURES = 4,
    AGGREGATED = 8,
    DENSE = 16,
    AGGREGATED_DENSE = 32,
    WIDE = 64,
    SEED_MAX = 1 << 20,
    HEAD = 4,
    INTERVALS = 8
};

static unsigned char seed[SEED_MAX];

static bool write_intervals(const char *folder, const struct graph *graph, const struct graph_partition *partition,
                            unsigned forms, unsigned carried) {
    struct interval_bytes bytes = {.bytes = NULL};
    struct error error = {0};
    bool written = true;
    for (uint32_t k = 0; k < INTERVALS && written; k += 5) {
        char name[32];
        written = interval_encode(graph, partition, k, carried, &bytes, &error) == 0 && bytes.size <= SEED_MAX - HEAD;
        seed[0] = (unsigned char)forms;
        seed[1] = (unsigned char)(graph->features.columns - 1);
        memcpy(seed + HEAD, bytes.bytes, written ? bytes.size : 0);
        snprintf(name, sizeof name, "interval-%02x-%u", forms, k);
        written = written && corpus_write(folder, name, seed, bytes.size + HEAD);
    }
    free(bytes.bytes);
    return written;
}

/* Packs the graph, and makes a seed of its only part. */
static bool write_part(const char *folder, const struct graph *graph, const struct graph_partition *partition,
                       unsigned forms, unsigned carried) {
    char packed[] = "/tmp/gnn-corpus.XXXXXX";
    char path[64];
    char name[32];
    struct error error = {0};
    bool written =
        mkdtemp(packed) != NULL && pack_write(packed, graph, partition, carried, GRAPH_MEAN, NULL, NULL, &error) == 0;
    snprintf(path, sizeof path, "%s/part-00000.graph", packed);
    snprintf(name, sizeof name, "part-%02x", forms);
    FILE *file = fopen(path, "rb");
    seed[0] = PART;
    if (file != NULL) {
        size_t size = fread(seed + HEAD, 1, SEED_MAX - HEAD, file);
        written = written && corpus_write(folder, name, seed, size + HEAD);
        fclose(file);
    }
    return file != NULL && unlink(path) == 0 && rmdir(packed) == 0 && written;
}

static bool write_form(const char *folder, unsigned forms) {
    unsigned carried = (forms & FEATURES ? INTERVAL_FEATURES : 0U) | (forms & AGGREGATED ? INTERVAL_AGGREGATED : 0U);
    const struct graphs_kind kind = {.vertices = 80,
                                     .edges = 200,
                                     .blocks = 2,
                                     .isolated = 3,
                                     .directed = (forms & DIRECTED) != 0,
                                     .columns = forms & WIDE ? 65537 : 7,
                                     .dense = (forms & DENSE) != 0,
                                     .aggregated = true,
                                     .classes = 3,
                                     .seed = forms};
    struct graph graph;
    struct graph_partition partition;
    struct error error = {0};
    graphs_make(&graph, &kind);
    bool written = graph_partition_make(&graph, INTERVALS, &partition, NULL, NULL, &error) == 0;
    written = written && write_intervals(folder, &graph, &partition, forms, carried) &&
              write_part(folder, &graph, &partition, forms, carried);
    graph_partition_close(&partition);
    graphs_close(&graph);
    return written;
}

int main(int argc, char **argv) {
    static const unsigned forms[] = {0,
                                     DIRECTED,
                                     FEATURES,
                                     DIRECTED | FEATURES | AGGREGATED,
                                     FEATURES | AGGREGATED | DENSE | AGGREGATED_DENSE,
                                     AGGREGATED | WIDE,
                                     DIRECTED | FEATURES | DENSE};
    bool written = argc == 2;
    for (size_t f = 0; f < sizeof forms / sizeof *forms && written; f++) {
        written = write_form(argv[1], forms[f]);
    }
    if (!written) {
        fprintf(stderr, "usage: gnn_pack_corpus FOLDER\n");
    }
    return written ? 0 : 2;
}
