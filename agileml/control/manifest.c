/* See manifest.h. */
#include "agileml/control/manifest.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/base/new_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT_SHARD_DIGITS = 32 }; /* hexadecimal, of a data shard's items and hash */
enum { MANIFEST_VERSION = 3, MANIFEST_BYTES_MAX = 4 << 20, MANIFEST_FOLDER_MODE = 0755 };

static const double MANIFEST_SECONDS_MAX = 1e12;
static const char manifest_format[] = "agileml-checkpoint";
static const char manifest_name[] = "manifest.json";
static const char manifest_clock_prefix[] = "clock-";
static const char manifest_file_prefix[] = "partition-";
static const char manifest_unfinished_prefix[] = "unfinished-";

static int path_join(char path[NEW_FILE_PATH_MAX], const char *folder, const char *name, struct error *error) {
    int length = snprintf(path, NEW_FILE_PATH_MAX, "%s/%s", folder, name);
    return length < NEW_FILE_PATH_MAX
               ? 0
               : error_set(error, AML_EINPUT, "%s: the path is longer than %d bytes", folder, NEW_FILE_PATH_MAX - 1);
}

static int io_failed(const char *path, const char *doing, struct error *error) {
    return error_set(error, AML_EFAIL, "%s: can't %s it: %s", path, doing, strerror(errno));
}

/* ---- To JSON ---- */

static json_t *json_whole(uint64_t value) {
    return json_integer((json_int_t)value);
}

/* Returns a number, or null for one that is not finite, as JSON has none. */
static json_t *json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* Jansson fails only when there is no memory. */
static json_t *json_checked(json_t *json) {
    if (json == NULL) {
        memory_exhausted(0);
    }
    return json;
}

/* Returns NULL when a name is not UTF-8; the whole manifest then can't be written either. */
static json_t *settings_to_json(const struct buffer *settings) {
    const struct wire_option *options = settings != NULL ? (const void *)settings->data : NULL;
    size_t count = settings != NULL ? settings->size / sizeof *options : 0;
    json_t *list = json_checked(json_array());
    for (size_t o = 0; o < count; o++) {
        json_t *option = json_pack("{s:s, s:s, s:b}", "name", options[o].name, "value", options[o].value, "steers",
                                   options[o].steers != 0);
        if (json_array_append_new(list, option) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *job_to_json(const struct job_terms *job, const struct buffer *settings) {
    char digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64, job->digest);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "app", job->app, "digest", digest, "staleness",
                     json_whole(job->staleness), "clocks_per_iteration", json_whole(job->clocks_per_iteration),
                     "iterations", json_whole(job->iterations), "seconds", json_number(job->seconds), "tolerance",
                     json_number(job->tolerance), "tolerance_iterations", json_whole(job->tolerance_iterations),
                     "options", settings_to_json(settings));
}

/* Returns a path's or host's name. A name that is not UTF-8 gets '?' for each byte that is not ASCII. */
static json_t *json_text(const char *text) {
    json_t *json = json_string(text);
    if (json != NULL) {
        return json;
    }
    char *ascii = memory_string(text);
    for (char *c = ascii; *c != '\0'; c++) {
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    }
    json = json_checked(json_string(ascii));
    free(ascii);
    return json;
}

/* Returns the shards as one text: for each shard the number of items and the hash, in 16 hexadecimal digits each. */
static json_t *shards_to_json(const struct job_input *input) {
    const struct wire_input_shard *shards = (const void *)input->shards->data;
    size_t count = input->shards->size / sizeof *shards;
    char *text = memory_resized(NULL, count * INPUT_SHARD_DIGITS + 1, 1);
    text[0] = '\0';
    for (size_t s = 0; s < count; s++) {
        snprintf(text + s * INPUT_SHARD_DIGITS, INPUT_SHARD_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, shards[s].items,
                 shards[s].hash);
    }
    json_t *json = json_checked(json_string(text));
    free(text);
    return json;
}

static json_t *input_to_json(const struct job_input *input) {
    if (input->shards == NULL) {
        return json_null();
    }
    const struct wire_input_file *records = (const void *)input->files->data;
    json_t *files = json_checked(json_array());
    for (size_t f = 0; f < input->files->size / sizeof *records; f++) {
        json_array_append_new(files, json_checked(json_pack("{s:o, s:o}", "path", json_text(records[f].path), "bytes",
                                                            json_whole(records[f].bytes))));
    }
    return json_checked(json_pack("{s:o, s:o, s:o, s:o}", "reader", json_text(input->reader), "items",
                                  json_whole(job_input_items(input)), "files", files, "shards", shards_to_json(input)));
}

static json_t *files_to_json(const struct manifest *manifest) {
    json_t *files = json_checked(json_array());
    for (uint32_t p = 0; p < manifest->partitions; p++) {
        char checksum[9];
        snprintf(checksum, sizeof checksum, "%08" PRIx32, manifest->files[p].checksum);
        json_array_append_new(files, json_checked(json_pack("{s:o, s:s}", "bytes", json_whole(manifest->files[p].bytes),
                                                            "crc32", checksum)));
    }
    return files;
}

static json_t *manifest_to_json(const struct manifest *manifest) {
    json_t *metrics = json_checked(json_object());
    for (unsigned i = 0; i < manifest->metric_count; i++) {
        json_object_set_new(metrics, manifest->metrics[i].name, json_number(manifest->metrics[i].value));
    }
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "format", manifest_format,
                     "version", MANIFEST_VERSION, "clock", json_whole(manifest->clock), "iteration",
                     json_whole(manifest->clock / manifest->job.clocks_per_iteration), "objective",
                     json_number(manifest->objective), "metrics", metrics, "seconds", json_number(manifest->seconds),
                     "items_processed", json_whole(manifest->items_processed), "job",
                     job_to_json(&manifest->job, manifest->settings), "shards", json_whole(manifest->shards),
                     "partitions", json_whole(manifest->partitions), "input", input_to_json(&manifest->input), "files",
                     files_to_json(manifest));
}

int manifest_write(const char *folder, const struct manifest *manifest, struct error *error) {
    char path[NEW_FILE_PATH_MAX];
    struct new_file file;
    int code = path_join(path, folder, manifest_name, error);
    code = code != 0 ? code : new_file_open(&file, path, error);
    if (code != 0) {
        return code;
    }
    json_t *json = manifest_to_json(manifest);
    char *text = json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(json);
    if (text == NULL) {
        new_file_discard(&file);
        return error_set(error, AML_EFAIL, "%s: can't write it: a name is not UTF-8", path);
    }
    code = new_file_write(&file, text, strlen(text), error);
    free(text);
    if (code != 0) {
        new_file_discard(&file);
        return code;
    }
    return new_file_commit(&file, error);
}

/* ---- From JSON ---- */

/* The JSON that values are read from. `error` names the first value that is wrong; all later values read as 0. */
struct manifest_source {
    const char *path;
    struct error *error;
    bool failed;
};

static void source_fail(struct manifest_source *source, const char *key, const char *expected) {
    error_set(source->error, AML_EINPUT, "%s: \"%s\": expected %s", source->path, key, expected);
    source->failed = true;
}

static uint64_t take_whole(struct manifest_source *source, const json_t *object, const char *key, uint64_t minimum,
                           uint64_t maximum) {
    const json_t *value = json_object_get(object, key);
    json_int_t whole = json_integer_value(value);
    if (!json_is_integer(value) || whole < 0 || (uint64_t)whole < minimum || (uint64_t)whole > maximum) {
        char expected[80];
        snprintf(expected, sizeof expected, "a whole number from %" PRIu64 " to %" PRIu64, minimum, maximum);
        source_fail(source, key, expected);
        return 0;
    }
    return (uint64_t)whole;
}

/* Reads a number; null reads as NAN where NAN is allowed. */
static double take_number(struct manifest_source *source, const json_t *object, const char *key, bool null_allowed) {
    const json_t *value = json_object_get(object, key);
    if (null_allowed && json_is_null(value)) {
        return NAN;
    }
    if (!json_is_number(value)) {
        source_fail(source, key, null_allowed ? "a number or null" : "a number");
        return 0;
    }
    return json_number_value(value);
}

static void take_text(struct manifest_source *source, const json_t *object, const char *key, char *text,
                      size_t text_size) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value) || json_string_length(value) >= text_size) {
        source_fail(source, key, "a text that is not too long");
        return;
    }
    snprintf(text, text_size, "%s", json_string_value(value));
}

/* Reads a number from hexadecimal digits. */
static uint64_t take_hexadecimal(struct manifest_source *source, const json_t *object, const char *key, size_t digits) {
    const char *text = json_string_value(json_object_get(object, key));
    if (text == NULL || strlen(text) != digits || strspn(text, "0123456789abcdef") != digits) {
        char expected[40];
        snprintf(expected, sizeof expected, "%zu hexadecimal digits", digits);
        source_fail(source, key, expected);
        return 0;
    }
    return strtoull(text, NULL, 16);
}

static void take_job(struct manifest_source *source, const json_t *object, struct job_terms *job) {
    take_text(source, object, "app", job->app, sizeof job->app);
    job->digest = take_hexadecimal(source, object, "digest", 16);
    job->staleness = (uint32_t)take_whole(source, object, "staleness", 0, WIRE_STALENESS_MAX);
    job->clocks_per_iteration = (uint32_t)take_whole(source, object, "clocks_per_iteration", 1, UINT32_MAX);
    job->iterations = take_whole(source, object, "iterations", 0, INT64_MAX);
    job->seconds = take_number(source, object, "seconds", false);
    job->tolerance = take_number(source, object, "tolerance", false);
    job->tolerance_iterations = (uint32_t)take_whole(source, object, "tolerance_iterations", 0, UINT32_MAX);
}

/* Returns the length of a list of `what`; 0 when there is no list or it is too long. */
static size_t take_length(struct manifest_source *source, const json_t *array, const char *key, size_t maximum,
                          const char *what) {
    if (!json_is_array(array) || json_array_size(array) > maximum) {
        char expected[80];
        snprintf(expected, sizeof expected, "a list of at most %zu %s", maximum, what);
        source_fail(source, key, expected);
        return 0;
    }
    return json_array_size(array);
}

static struct buffer *take_settings(struct manifest_source *source, const json_t *array) {
    size_t count = take_length(source, array, "options", WIRE_OPTIONS_MAX, "options");
    struct wire_option *options = memory_zeroed(count + 1, sizeof *options);
    for (size_t o = 0; o < count && !source->failed; o++) {
        const json_t *option = json_array_get(array, o);
        take_text(source, option, "name", options[o].name, sizeof options[o].name);
        take_text(source, option, "value", options[o].value, sizeof options[o].value);
        options[o].steers = json_is_true(json_object_get(option, "steers"));
    }
    struct buffer *buffer = buffer_copy(options, count * sizeof *options);
    free(options);
    return buffer;
}

static void take_metrics(struct manifest_source *source, json_t *object, struct manifest *manifest) {
    const char *name;
    json_t *value;
    if (!json_is_object(object) || json_object_size(object) > WIRE_METRICS_MAX) {
        source_fail(source, "metrics", "the values of at most 16 metrics");
        return;
    }
    json_object_foreach(object, name, value) {
        struct manifest_metric *metric = &manifest->metrics[manifest->metric_count++];
        if (strlen(name) >= sizeof metric->name) {
            source_fail(source, "metrics", "names of at most 31 bytes");
            return;
        }
        snprintf(metric->name, sizeof metric->name, "%s", name);
        metric->value = take_number(source, object, name, true);
    }
}

static struct buffer *take_input_shards(struct manifest_source *source, const json_t *object, uint32_t shards) {
    struct wire_input_shard *records = memory_zeroed(shards, sizeof *records);
    const char *text = json_string_value(json_object_get(object, "shards"));
    size_t digits = (size_t)shards * INPUT_SHARD_DIGITS;
    if (text == NULL || strlen(text) != digits || strspn(text, "0123456789abcdef") != digits) {
        char expected[48];
        snprintf(expected, sizeof expected, "%zu hexadecimal digits", digits);
        source_fail(source, "shards", expected);
    }
    for (uint32_t s = 0; s < shards && !source->failed; s++) {
        char number[INPUT_SHARD_DIGITS / 2 + 1] = {0};
        memcpy(number, text + (size_t)s * INPUT_SHARD_DIGITS, INPUT_SHARD_DIGITS / 2);
        records[s].items = strtoull(number, NULL, 16);
        memcpy(number, text + (size_t)s * INPUT_SHARD_DIGITS + INPUT_SHARD_DIGITS / 2, INPUT_SHARD_DIGITS / 2);
        records[s].hash = strtoull(number, NULL, 16);
    }
    struct buffer *buffer = buffer_copy(records, shards * sizeof *records);
    free(records);
    return buffer;
}

static struct buffer *take_input_files(struct manifest_source *source, const json_t *array) {
    size_t count = take_length(source, array, "files", WIRE_INPUT_FILES_MAX, "files that the input was read from");
    struct wire_input_file *records = memory_zeroed(count + 1, sizeof *records);
    for (size_t f = 0; f < count && !source->failed; f++) {
        const json_t *file = json_array_get(array, f);
        take_text(source, file, "path", records[f].path, sizeof records[f].path);
        records[f].bytes = take_whole(source, file, "bytes", 0, INT64_MAX);
    }
    struct buffer *buffer = buffer_copy(records, count * sizeof *records);
    free(records);
    return buffer;
}

static void take_input(struct manifest_source *source, const json_t *object, struct manifest *manifest) {
    if (json_is_null(object)) {
        return;
    }
    take_text(source, object, "reader", manifest->input.reader, sizeof manifest->input.reader);
    manifest->input.shards = take_input_shards(source, object, manifest->shards);
    manifest->input.files = take_input_files(source, json_object_get(object, "files"));
}

static void take_files(struct manifest_source *source, const json_t *array, struct manifest *manifest) {
    if (json_array_size(array) != manifest->partitions) {
        source_fail(source, "files", "one for each partition");
        return;
    }
    manifest->files = memory_zeroed(manifest->partitions, sizeof *manifest->files);
    for (uint32_t p = 0; p < manifest->partitions && !source->failed; p++) {
        const json_t *file = json_array_get(array, p);
        manifest->files[p].bytes = take_whole(source, file, "bytes", 0, INT64_MAX);
        manifest->files[p].checksum = (uint32_t)take_hexadecimal(source, file, "crc32", 8);
    }
}

static void take_manifest(struct manifest_source *source, const json_t *json, struct manifest *manifest) {
    const char *format = json_string_value(json_object_get(json, "format"));
    if (format == NULL || strcmp(format, manifest_format) != 0) {
        source_fail(source, "format", manifest_format);
        return;
    }
    take_whole(source, json, "version", MANIFEST_VERSION, MANIFEST_VERSION);
    manifest->clock = take_whole(source, json, "clock", 1, WIRE_CLOCK_MAX - 1);
    manifest->objective = take_number(source, json, "objective", true);
    manifest->shards = (uint32_t)take_whole(source, json, "shards", 1, WIRE_SHARDS_MAX);
    manifest->partitions = (uint32_t)take_whole(source, json, "partitions", 1, WIRE_PARTITIONS_MAX);
    manifest->seconds = take_number(source, json, "seconds", false);
    if (!(manifest->seconds >= 0 && manifest->seconds < MANIFEST_SECONDS_MAX)) {
        source_fail(source, "seconds", "a number from 0 to 1e12");
    }
    manifest->items_processed = take_whole(source, json, "items_processed", 0, INT64_MAX);
    take_metrics(source, json_object_get(json, "metrics"), manifest);
    manifest->settings = take_settings(source, json_object_get(json_object_get(json, "job"), "options"));
    take_job(source, json_object_get(json, "job"), &manifest->job);
    if (!source->failed) {
        take_input(source, json_object_get(json, "input"), manifest);
    }
    if (!source->failed) {
        take_files(source, json_object_get(json, "files"), manifest);
    }
}

/* ---- Reading ---- */

/* Returns the file's text, which the caller frees; NULL on error. */
static char *file_text(const char *path, size_t *size, struct error *error) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        error_set(error, AML_EINPUT, "%s: can't read it: %s", path, strerror(errno));
        return NULL;
    }
    char *text = memory_resized(NULL, MANIFEST_BYTES_MAX + 1, 1);
    ssize_t got = 1;
    for (*size = 0; got > 0 && *size <= MANIFEST_BYTES_MAX; *size += got > 0 ? (size_t)got : 0) {
        got = read(descriptor, text + *size, MANIFEST_BYTES_MAX + 1 - *size);
    }
    if (got < 0 || *size > MANIFEST_BYTES_MAX) {
        error_set(error, AML_EINPUT, "%s: can't read it: %s", path, got < 0 ? strerror(errno) : "longer than 4 MiB");
        free(text);
        text = NULL;
    }
    close(descriptor);
    return text;
}

static int check_files(const char *folder, const struct manifest *manifest, struct error *error) {
    for (uint32_t p = 0; p < manifest->partitions; p++) {
        char name[32];
        char path[NEW_FILE_PATH_MAX];
        struct stat status;
        snprintf(name, sizeof name, "%s%" PRIu32, manifest_file_prefix, p);
        int code = path_join(path, folder, name, error);
        if (code != 0) {
            return code;
        }
        if (stat(path, &status) != 0) {
            return error_set(error, AML_EINPUT, "%s: can't read it: %s", path, strerror(errno));
        }
        if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size != manifest->files[p].bytes) {
            return error_set(error, AML_EINPUT, "%s: expected a file of %" PRIu64 " bytes, found %lld", path,
                             manifest->files[p].bytes, (long long)status.st_size);
        }
    }
    return 0;
}

int manifest_read(const char *folder, struct manifest *manifest, struct error *error) {
    char path[NEW_FILE_PATH_MAX];
    struct error local = {0};
    size_t size;
    *manifest = (struct manifest){0};
    error = error != NULL ? error : &local;
    int code = path_join(path, folder, manifest_name, error);
    char *text = code == 0 ? file_text(path, &size, error) : NULL;
    if (text == NULL) {
        return error->code;
    }
    json_error_t wrong;
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &wrong);
    free(text);
    if (json == NULL) {
        return error_set(error, AML_EINPUT, "%s: line %d: not JSON: %s", path, wrong.line, wrong.text);
    }
    struct manifest_source source = {.path = path, .error = error};
    take_manifest(&source, json, manifest);
    json_decref(json);
    code = source.failed ? AML_EINPUT : check_files(folder, manifest, error);
    if (code != 0) {
        manifest_close(manifest);
    }
    return code;
}

void manifest_close(struct manifest *manifest) {
    free(manifest->files);
    manifest->files = NULL;
    job_input_close(&manifest->input);
    buffer_drop(manifest->settings);
    manifest->settings = NULL;
}

/* ---- The folders in a root ---- */

/* Calls `each` for every name in a folder, until one fails. Returns `unreadable` if the folder can't be read. */
static int each_name(const char *folder, int unreadable,
                     int (*each)(void *context, const char *folder, const char *name, struct error *error),
                     void *context, struct error *error) {
    struct dirent **names;
    int count = scandir(folder, &names, NULL, NULL);
    if (count < 0) {
        return error_set(error, unreadable, "%s: can't read this folder: %s", folder, strerror(errno));
    }
    int code = 0;
    for (int i = 0; i < count; i++) {
        code = code != 0 ? code : each(context, folder, names[i]->d_name, error);
        free(names[i]);
    }
    free(names);
    return code;
}

struct clock_folders {
    uint64_t *clocks; /* descending */
    size_t count;
};

/* Returns the clock in a name like clock-120; 0 for any other name. */
static uint64_t clock_of_name(const char *name) {
    const char *digits = name + sizeof manifest_clock_prefix - 1;
    if (strncmp(name, manifest_clock_prefix, sizeof manifest_clock_prefix - 1) != 0 || *digits == '0' ||
        strlen(digits) > 10 || strspn(digits, "0123456789") != strlen(digits)) {
        return 0;
    }
    uint64_t clock = strtoull(digits, NULL, 10);
    return clock < WIRE_CLOCK_MAX ? clock : 0;
}

static int clock_descending(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return a > b ? -1 : a < b;
}

static int clock_folder_found(void *context, const char *root, const char *name, struct error *error) {
    (void)root;
    (void)error;
    struct clock_folders *folders = context;
    uint64_t clock = clock_of_name(name);
    if (clock > 0) {
        folders->clocks = memory_resized(folders->clocks, folders->count + 1, sizeof *folders->clocks);
        folders->clocks[folders->count++] = clock;
    }
    return 0;
}

static int clock_folders_list(const char *root, struct clock_folders *folders, struct error *error) {
    *folders = (struct clock_folders){0};
    int code = each_name(root, AML_EINPUT, clock_folder_found, folders, error);
    if (folders->count > 0) {
        qsort(folders->clocks, folders->count, sizeof *folders->clocks, clock_descending);
    }
    return code;
}

static int clock_folder_path(const char *root, uint64_t clock, char path[WIRE_PATH_MAX], struct error *error) {
    int length = snprintf(path, WIRE_PATH_MAX, "%s/%s%" PRIu64, root, manifest_clock_prefix, clock);
    return length < WIRE_PATH_MAX ? 0
                                  : error_set(error, AML_EINPUT, "%s: a checkpoint's path is longer than %d bytes",
                                              root, WIRE_PATH_MAX - 1);
}

static bool has_manifest(const char *folder) {
    char path[NEW_FILE_PATH_MAX];
    return path_join(path, folder, manifest_name, NULL) == 0 && access(path, F_OK) == 0;
}

int manifest_find(const char *root, char path[WIRE_PATH_MAX], struct error *error) {
    struct clock_folders folders;
    if (has_manifest(root)) {
        int length = snprintf(path, WIRE_PATH_MAX, "%s", root);
        return length < WIRE_PATH_MAX
                   ? 0
                   : error_set(error, AML_EINPUT, "%s: the path is longer than %d bytes", root, WIRE_PATH_MAX - 1);
    }
    int code = clock_folders_list(root, &folders, error);
    bool found = false;
    for (size_t i = 0; i < folders.count && code == 0 && !found; i++) {
        struct manifest manifest;
        struct error wrong = {0};
        code = clock_folder_path(root, folders.clocks[i], path, error);
        if (code != 0 || !has_manifest(path)) {
            continue;
        }
        found = manifest_read(path, &manifest, &wrong) == 0;
        if (found) {
            manifest_close(&manifest);
        } else {
            log_warn("passing over a damaged checkpoint: %s", wrong.text);
        }
    }
    free(folders.clocks);
    if (code == 0 && !found) {
        code = error_set(error, AML_EINPUT, "%s: holds no checkpoint: expected a folder clock-N with a %s", root,
                         manifest_name);
    }
    return code;
}

/* ---- Making and removing folders ---- */

/* Removes a file that a checkpoint may have, temporary files included; keeps any other. */
static int file_remove(void *context, const char *folder, const char *name, struct error *error) {
    (void)context;
    char path[NEW_FILE_PATH_MAX];
    bool ours = strncmp(name, manifest_file_prefix, sizeof manifest_file_prefix - 1) == 0 ||
                strncmp(name, manifest_name, sizeof manifest_name - 1) == 0;
    int code = ours ? path_join(path, folder, name, error) : 0;
    return code == 0 && ours && unlink(path) != 0 ? io_failed(path, "remove", error) : code;
}

/* Removes a checkpoint's files, the manifest first: without it the folder is no checkpoint. */
static int folder_clear(const char *folder, struct error *error) {
    char path[NEW_FILE_PATH_MAX];
    int code = path_join(path, folder, manifest_name, error);
    if (code != 0) {
        return code;
    }
    if (unlink(path) == 0) {
        code = folder_sync(folder, error);
    } else if (errno != ENOENT) {
        code = io_failed(path, "remove", error);
    }
    return code != 0 ? code : each_name(folder, AML_EFAIL, file_remove, NULL, error);
}

static int folder_make(const char *path, struct error *error) {
    return mkdir(path, MANIFEST_FOLDER_MODE) == 0 || errno == EEXIST ? 0 : io_failed(path, "make", error);
}

static int unfinished_remove(void *removed, const char *root, const char *name, struct error *error) {
    char path[NEW_FILE_PATH_MAX];
    if (strncmp(name, manifest_unfinished_prefix, sizeof manifest_unfinished_prefix - 1) != 0) {
        return 0;
    }
    *(bool *)removed = true;
    int code = path_join(path, root, name, error);
    code = code != 0 ? code : folder_clear(path, error);
    if (code == 0 && rmdir(path) != 0 && errno != ENOTEMPTY && errno != ENOENT) {
        code = io_failed(path, "remove", error);
    }
    return code;
}

int manifest_discard(const char *root, struct error *error) {
    bool removed = false;
    int code = each_name(root, AML_EINPUT, unfinished_remove, &removed, error);
    return code != 0 || !removed ? code : folder_sync(root, error);
}

/* Fails if the root has a checkpoint of a later clock. */
static int check_clocks(const char *root, uint64_t clock, struct error *error) {
    struct clock_folders folders;
    char path[WIRE_PATH_MAX];
    int code = clock_folders_list(root, &folders, error);
    for (size_t i = 0; code == 0 && i < folders.count && folders.clocks[i] > clock; i++) {
        code = clock_folder_path(root, folders.clocks[i], path, error);
        if (code == 0 && has_manifest(path)) {
            code = error_set(error, AML_EINPUT,
                             "%s: a checkpoint of a later clock than %" PRIu64 " is there already: go on from it, or "
                             "choose another folder",
                             path, clock);
        }
    }
    free(folders.clocks);
    return code;
}

int manifest_begin(const char *root, uint64_t clock, uint64_t number, char path[WIRE_PATH_MAX], struct error *error) {
    int code = folder_make(root, error);
    code = code != 0 ? code : check_clocks(root, clock, error);
    code = code != 0 ? code : manifest_discard(root, error);
    if (code != 0) {
        return code;
    }
    int length = snprintf(path, WIRE_PATH_MAX, "%s/%s%" PRIu64, root, manifest_unfinished_prefix, number);
    if (length >= WIRE_PATH_MAX) {
        return error_set(error, AML_EINPUT, "%s: a checkpoint's path is longer than %d bytes", root, WIRE_PATH_MAX - 1);
    }
    code = folder_make(path, error);
    return code != 0 ? code : folder_sync(root, error);
}

int manifest_finish(const char *root, const char *folder, const struct manifest *manifest, char path[WIRE_PATH_MAX],
                    struct error *error) {
    int code = manifest_write(folder, manifest, error);
    code = code != 0 ? code : clock_folder_path(root, manifest->clock, path, error);
    if (code == 0 && access(path, F_OK) == 0) { /* written before the job resumed from an earlier one, or incomplete */
        code = folder_clear(path, error);
        if (code == 0 && rmdir(path) != 0) {
            code = io_failed(path, "replace", error);
        }
    }
    if (code == 0 && rename(folder, path) != 0) {
        code = io_failed(path, "make", error);
    }
    return code != 0 ? code : folder_sync(root, error);
}

int manifest_prune(const char *root, unsigned keep, struct error *error) {
    struct clock_folders folders;
    unsigned complete = 0;
    int code = clock_folders_list(root, &folders, error);
    for (size_t i = 0; i < folders.count && code == 0; i++) {
        char path[WIRE_PATH_MAX];
        code = clock_folder_path(root, folders.clocks[i], path, error);
        bool whole = code == 0 && has_manifest(path);
        complete += whole;
        if (code != 0 || (whole && complete <= keep) || complete == 0) {
            continue; /* a folder newer than every checkpoint may still become one */
        }
        code = folder_clear(path, error);
        if (code == 0 && rmdir(path) != 0 && errno != ENOTEMPTY) {
            code = io_failed(path, "remove", error);
        }
    }
    free(folders.clocks);
    return code != 0 || complete == 0 ? code : folder_sync(root, error);
}
