/* libFuzzer target: a manifest of any bytes, in a folder with files of two partitions. An accepted manifest must be
 * written and read again as the same; a rejected one must have an error text. */
#include "agileml/control/state/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

enum { FUZZ_PATH_MAX = 128 };

static void write_file(const char *folder, const char *name, const uint8_t *bytes, size_t size) {
    char path[FUZZ_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

static void remove_file(const char *folder, const char *name) {
    char path[FUZZ_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FUZZ_CHECK(unlink(path) == 0);
}

static void check_same(const struct manifest *a, const struct manifest *b) {
    FUZZ_CHECK(strcmp(a->job.app, b->job.app) == 0 && a->job.digest == b->job.digest);
    FUZZ_CHECK(a->job.staleness == b->job.staleness && a->job.clocks_per_iteration == b->job.clocks_per_iteration);
    FUZZ_CHECK(a->job.phases == b->job.phases);
    FUZZ_CHECK(a->job.iterations == b->job.iterations && a->job.seconds == b->job.seconds);
    FUZZ_CHECK(a->job.tolerance == b->job.tolerance && a->job.tolerance_iterations == b->job.tolerance_iterations);
    FUZZ_CHECK(a->settings->size == b->settings->size &&
               memcmp(a->settings->data, b->settings->data, a->settings->size) == 0);
    FUZZ_CHECK(a->seconds == b->seconds && a->items_processed == b->items_processed);
    FUZZ_CHECK(a->clock == b->clock && a->partitions == b->partitions && a->shards == b->shards);
    for (uint32_t p = 0; p < a->partitions; p++) {
        FUZZ_CHECK(a->files[p].bytes == b->files[p].bytes && a->files[p].checksum == b->files[p].checksum);
    }
    FUZZ_CHECK(a->metric_count == b->metric_count);
    for (unsigned i = 0; i < a->metric_count; i++) {
        FUZZ_CHECK(strcmp(a->metrics[i].name, b->metrics[i].name) == 0);
    }
}

static void fuzz_read(const char *folder) {
    struct manifest manifest;
    struct manifest again;
    struct error error = {0};
    int code = manifest_read(folder, &manifest, &error);
    FUZZ_CHECK(code == error.code && (code == 0 || code == AML_EINPUT) && (code == 0) == (error.text[0] == '\0'));
    if (code == 0) {
        size_t size = 0;
        char *text = manifest_text(&manifest, &size, NULL);
        FUZZ_CHECK(text != NULL);
        write_file(folder, "manifest.json", (const uint8_t *)text, size);
        free(text);
        FUZZ_CHECK(manifest_read(folder, &again, NULL) == 0);
        check_same(&manifest, &again);
        manifest_close(&again);
        manifest_close(&manifest);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char folder[FUZZ_PATH_MAX / 2] = "/tmp/manifest_fuzz.XXXXXX";
    if (mkdtemp(folder) == NULL) {
        return 0;
    }
    write_file(folder, "partition-0", (const uint8_t *)"", 0);
    write_file(folder, "partition-1", (const uint8_t *)"x", 1);
    write_file(folder, "manifest.json", data, size);
    fuzz_read(folder);
    remove_file(folder, "partition-0");
    remove_file(folder, "partition-1");
    remove_file(folder, "manifest.json");
    FUZZ_CHECK(rmdir(folder) == 0);
    return 0;
}
