/* Writes the seeds of manifest_fuzz into the folder that is its only argument: complete manifests, with and without
 * metrics, for the target's files. No seed is stored in the repository. */
#include "agileml/control/state/manifest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CORPUS_PATH_MAX = 4096, CORPUS_VARIANTS = 3 };

/* Partition p's file has p bytes, as in manifest_fuzz.c. */
static struct manifest_file corpus_files[] = {{0, 0}, {1, 0xFFFFFFFF}};

static struct wire_input_shard corpus_shards[] = {{100, UINT64_MAX}};
static struct wire_input_file corpus_inputs[] = {{"/data/ratings.csv", 4096, 5, 6}, {"test.csv", 0, 0, 0}};
static struct buffer corpus_shards_frame = {.size = sizeof corpus_shards, .data = (unsigned char *)corpus_shards};
static struct buffer corpus_inputs_frame = {.size = sizeof corpus_inputs, .data = (unsigned char *)corpus_inputs};

static struct wire_option corpus_options[] = {{"rank", "16", 0, 0}, {"rate", "0.025", 1, 0}};
static struct buffer corpus_options_frame = {.size = sizeof corpus_options, .data = (unsigned char *)corpus_options};

static const struct manifest corpus_manifests[CORPUS_VARIANTS] = {
    {.job = {.app = "mf", .digest = UINT64_MAX, .clocks_per_iteration = 1, .iterations = 45},
     .settings = &corpus_options_frame,
     .clock = 1,
     .seconds = 0.5,
     .items_processed = 1000,
     .partitions = 1,
     .shards = 1,
     .input = {.reader = "node-1 (host)", .shards = &corpus_shards_frame, .files = &corpus_inputs_frame},
     .files = corpus_files},
    {.job = {.app = "lda",
             .staleness = 64,
             .clocks_per_iteration = 9,
             .phases = 3,
             .seconds = 0.1,
             .tolerance = 1e-9,
             .tolerance_iterations = 3},
     .clock = 4294967279,
     .partitions = 2,
     .shards = WIRE_SHARDS_MAX,
     .files = corpus_files,
     .objective = -1.5e300,
     .metric_count = 2,
     .metrics = {{"rmse", 0.5}, {"loss", 7}}},
    {.job = {.app = "", .clocks_per_iteration = 2},
     .clock = 120,
     .partitions = 2,
     .shards = 1024,
     .files = corpus_files,
     .objective = NAN,
     .metric_count = 1,
     .metrics = {{"log_likelihood", NAN}}},
};

static bool corpus_seed(const char *folder, unsigned number) {
    char path[CORPUS_PATH_MAX];
    size_t size = 0;
    char *text = manifest_text(&corpus_manifests[number], &size, NULL);
    snprintf(path, sizeof path, "%s/seed-%02u", folder, number);
    FILE *file = text != NULL ? fopen(path, "wb") : NULL;
    bool written = file != NULL && fwrite(text, 1, size, file) == size;
    written = file != NULL && fclose(file) == 0 && written;
    free(text);
    return written;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: manifest_corpus FOLDER\n");
        return 2;
    }
    for (unsigned i = 0; i < CORPUS_VARIANTS; i++) {
        if (!corpus_seed(argv[1], i)) {
            fprintf(stderr, "manifest_corpus: cannot write seed %u into %s\n", i, argv[1]);
            return 1;
        }
    }
    return 0;
}
