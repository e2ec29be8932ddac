/* See manifest.h. */
#include "agileml/control/state/manifest.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/base/new_file.h"
#include "agileml/cloud/storage.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { INPUT_SHARD_DIGITS = 32 }; /* hexadecimal digits of a data shard's items and hash */
enum { MANIFEST_VERSION = 5, MANIFEST_BYTES_MAX = 4 << 20, TOKEN_DIGITS = 8 };

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

/* ---- To JSON ---- */

static json_t *json_whole(uint64_t value) {
    return json_integer((json_int_t)value);
}

/* Returns a JSON number; null if the value is not finite, as JSON has no such numbers. */
static json_t *json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* Ends the process when there is no memory, the only reason for which Jansson fails. */
static json_t *json_checked(json_t *json) {
    if (json == NULL) {
        memory_exhausted(0);
    }
    return json;
}

/* Returns NULL when a name is not UTF-8. Then the manifest can't be written. */
static json_t *settings_to_json(const struct buffer *settings) {
    const struct wire_option *options = settings != NULL ? (const void *)settings->data : NULL;
    size_t count = settings != NULL ? settings->size / sizeof *options : 0;
    json_t *list = json_checked(json_array());
    for (size_t o = 0; o < count; o++) {
        if (options[o].found != 0) {
            continue; /* compared only among the nodes of one job */
        }
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
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "app", job->app, "digest", digest,
                     "staleness", json_whole(job->staleness), "clocks_per_iteration",
                     json_whole(job->clocks_per_iteration), "phases", json_whole(job->phases), "local_steps",
                     json_whole(job->local_steps), "strategy", strategy_name((enum strategy)job->strategy),
                     "iterations", json_whole(job->iterations), "seconds", json_number(job->seconds), "tolerance",
                     json_number(job->tolerance), "tolerance_iterations", json_whole(job->tolerance_iterations),
                     "options", settings_to_json(settings));
}

/* Returns the name of a path or host as JSON. In a name that is not UTF-8, '?' replaces each byte that is not ASCII. */
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
    if (input->shards == NULL || !job_input_is_complete(input)) {
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

char *manifest_text(const struct manifest *manifest, size_t *size, struct error *error) {
    json_t *json = manifest_to_json(manifest);
    char *text = json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    json_decref(json);
    if (text == NULL) {
        (void)error_set(error, AML_EFAIL, "can't write %s: a name is not UTF-8", manifest_name);
        return NULL;
    }
    *size = strlen(text);
    return text;
}

static int write_text(const char *folder, const char *text, size_t size, struct error *error) {
    char path[NEW_FILE_PATH_MAX];
    struct storage_file *file;
    int code = path_join(path, folder, manifest_name, error);
    code = code != 0 ? code : storage_create(&file, path, false, error);
    if (code != 0) {
        return code;
    }
    code = storage_write(file, text, size, error);
    if (code != 0) {
        storage_discard(file);
        return code;
    }
    return storage_commit(file, error);
}

/* ---- From JSON ---- */

/* The state of reading JSON values. `error` names the first wrong value, and `failed` is then set. Wrong values read as
 * 0. */
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

/* Reads a number. With `null_allowed`, null reads as NAN. */
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

/* Reads the strategy of the checkpoint's clock. */
static uint8_t take_strategy(struct manifest_source *source, const json_t *object) {
    const char *name = json_string_value(json_object_get(object, "strategy"));
    enum strategy strategy = STRATEGY_AUTO;
    if (name == NULL || !strategy_of_name(name, &strategy) || strategy == STRATEGY_AUTO) {
        source_fail(source, "strategy", "one of " STRATEGY_NAMES);
        return STRATEGY_SSGD;
    }
    return (uint8_t)strategy;
}

static void take_job(struct manifest_source *source, const json_t *object, struct job_terms *job) {
    take_text(source, object, "app", job->app, sizeof job->app);
    job->digest = take_hexadecimal(source, object, "digest", 16);
    job->staleness = (uint32_t)take_whole(source, object, "staleness", 0, WIRE_STALENESS_MAX);
    job->clocks_per_iteration = (uint32_t)take_whole(source, object, "clocks_per_iteration", 1, UINT32_MAX);
    job->phases = (uint32_t)take_whole(source, object, "phases", 0, WIRE_PHASES_MAX);
    if (job->clocks_per_iteration % job_phases(job) != 0) {
        source_fail(source, "phases", "a number that divides clocks_per_iteration");
    }
    job->local_steps = (uint32_t)take_whole(source, object, "local_steps", 1, WIRE_LOCAL_STEPS_MAX);
    job->strategy = take_strategy(source, object);
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
    manifest->input.own.items = WIRE_ITEMS_UNKNOWN;
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
    if (json_integer_value(json_object_get(json, "version")) != MANIFEST_VERSION) {
        source_fail(source, "version", "5: the apps of another version of Proteus may scale their data otherwise");
        return;
    }
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
    struct storage_reader *reader;
    uint64_t bytes;
    if (storage_open(&reader, path, &bytes, error) != 0) {
        return NULL;
    }
    char *text = NULL;
    if (bytes > MANIFEST_BYTES_MAX) {
        (void)error_set(error, AML_EINPUT, "%s: can't read it: longer than 4 MiB", path);
    } else {
        text = memory_resized(NULL, (size_t)bytes + 1, 1);
        if (storage_read(reader, text, (size_t)bytes, size, error) != 0) {
            free(text);
            text = NULL;
        }
    }
    storage_close(reader);
    return text;
}

/* The files of partitions that a folder has. */
struct found_files {
    const struct manifest *manifest;
    uint64_t *bytes; /* sizes by partition; UINT64_MAX: no file */
};

static int file_found(void *context, const char *folder, const struct storage_entry *entry, struct error *error) {
    (void)folder;
    (void)error;
    struct found_files *found = context;
    const char *digits = entry->name + sizeof manifest_file_prefix - 1;
    char name[32];
    if (strncmp(entry->name, manifest_file_prefix, sizeof manifest_file_prefix - 1) == 0 && strlen(digits) <= 10) {
        unsigned long partition = strtoul(digits, NULL, 10);
        snprintf(name, sizeof name, "%s%lu", manifest_file_prefix, partition);
        if (partition < found->manifest->partitions && strcmp(name, entry->name) == 0) {
            found->bytes[partition] = entry->file ? entry->bytes : 0;
        }
    }
    return 0;
}

static int check_files(const char *folder, const struct manifest *manifest, struct error *error) {
    struct found_files found = {.manifest = manifest};
    found.bytes = memory_resized(NULL, manifest->partitions, sizeof *found.bytes);
    memset(found.bytes, 0xff, manifest->partitions * sizeof *found.bytes);
    int code = storage_list(folder, AML_EINPUT, file_found, &found, error);
    for (uint32_t p = 0; p < manifest->partitions && code == 0; p++) {
        if (found.bytes[p] == UINT64_MAX) {
            code = error_set(error, AML_EINPUT, "%s/%s%" PRIu32 ": can't read it: it is not there", folder,
                             manifest_file_prefix, p);
        } else if (found.bytes[p] != manifest->files[p].bytes) {
            code =
                error_set(error, AML_EINPUT, "%s/%s%" PRIu32 ": expected a file of %" PRIu64 " bytes, found %" PRIu64,
                          folder, manifest_file_prefix, p, manifest->files[p].bytes, found.bytes[p]);
        }
    }
    free(found.bytes);
    return code;
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

enum { FOLDER_NAME_MAX = 40 };

struct clock_folder {
    uint64_t clock;
    char name[FOLDER_NAME_MAX];
};

struct clock_folders {
    struct clock_folder *all; /* by clock, descending */
    size_t count;
};

/* Returns the clock in a name like clock-120 or, for objects, clock-120-1f2e3d4c; 0 for any other name. */
static uint64_t clock_of_name(const char *name) {
    const char *digits = name + sizeof manifest_clock_prefix - 1;
    if (strncmp(name, manifest_clock_prefix, sizeof manifest_clock_prefix - 1) != 0 || *digits == '0') {
        return 0;
    }
    size_t length = strspn(digits, "0123456789");
    const char *token = digits + length;
    bool whole = *token == '\0' || (*token == '-' && strspn(token + 1, "0123456789abcdef") == TOKEN_DIGITS &&
                                    strlen(token + 1) == TOKEN_DIGITS);
    if (length == 0 || length > 10 || !whole) {
        return 0;
    }
    uint64_t clock = strtoull(digits, NULL, 10);
    return clock < WIRE_CLOCK_MAX ? clock : 0;
}

static int clock_descending(const void *left, const void *right) {
    const struct clock_folder *a = left;
    const struct clock_folder *b = right;
    return a->clock > b->clock ? -1 : a->clock < b->clock ? 1 : strcmp(a->name, b->name);
}

static int clock_folder_found(void *context, const char *root, const struct storage_entry *entry, struct error *error) {
    (void)root;
    (void)error;
    struct clock_folders *folders = context;
    uint64_t clock = clock_of_name(entry->name);
    if (clock > 0) {
        folders->all = memory_resized(folders->all, folders->count + 1, sizeof *folders->all);
        struct clock_folder *folder = &folders->all[folders->count++];
        folder->clock = clock;
        snprintf(folder->name, sizeof folder->name, "%s", entry->name);
    }
    return 0;
}

static int clock_folders_list(const char *root, struct clock_folders *folders, struct error *error) {
    *folders = (struct clock_folders){0};
    int code = storage_list(root, AML_EINPUT, clock_folder_found, folders, error);
    if (folders->count > 0) {
        qsort(folders->all, folders->count, sizeof *folders->all, clock_descending);
    }
    return code;
}

static int folder_path(const char *root, const char *name, char path[WIRE_PATH_MAX], struct error *error) {
    int length = snprintf(path, WIRE_PATH_MAX, "%s/%s", root, name);
    return length < WIRE_PATH_MAX ? 0
                                  : error_set(error, AML_EINPUT, "%s: a checkpoint's path is longer than %d bytes",
                                              root, WIRE_PATH_MAX - 1);
}

/* Whether the folder has a manifest. Returns false if *code is an earlier error. Sets *code to an error if the answer
 * can't be found out. */
static bool has_manifest(const char *folder, int *code, struct error *error) {
    char path[NEW_FILE_PATH_MAX];
    int result = *code != 0 ? *code : path_join(path, folder, manifest_name, error);
    result = result != 0 ? result : storage_has(path, error);
    *code = result < 0 ? result : *code;
    return result == 1;
}

int manifest_find(const char *root, char path[WIRE_PATH_MAX], struct error *error) {
    struct clock_folders folders = {0};
    int code = 0;
    if (has_manifest(root, &code, error)) {
        int length = snprintf(path, WIRE_PATH_MAX, "%s", root);
        return length < WIRE_PATH_MAX
                   ? 0
                   : error_set(error, AML_EINPUT, "%s: the path is longer than %d bytes", root, WIRE_PATH_MAX - 1);
    }
    code = code != 0 ? code : clock_folders_list(root, &folders, error);
    bool found = false;
    for (size_t i = 0; i < folders.count && code == 0 && !found; i++) {
        struct manifest manifest;
        struct error wrong = {0};
        code = folder_path(root, folders.all[i].name, path, error);
        if (!has_manifest(path, &code, error)) {
            continue;
        }
        found = manifest_read(path, &manifest, &wrong) == 0;
        if (found) {
            manifest_close(&manifest);
        } else {
            log_warn("passing over a damaged checkpoint: %s", wrong.text);
        }
    }
    free(folders.all);
    if (code == 0 && !found) {
        code = error_set(error, AML_EINPUT, "%s: holds no checkpoint: expected a folder clock-N with a %s", root,
                         manifest_name);
    }
    return code;
}

/* ---- Making and removing folders ---- */

/* Whether the file may be a checkpoint's, temporary files included. Other files are never removed. */
static bool is_ours(const char *name) {
    return strncmp(name, manifest_file_prefix, sizeof manifest_file_prefix - 1) == 0 ||
           strncmp(name, manifest_name, sizeof manifest_name - 1) == 0;
}

/* Removes a checkpoint's files, and the folder if it has no other files. The manifest goes first: without it the folder
 * is no checkpoint. */
static int folder_remove(const char *folder, struct error *error) {
    return storage_remove_folder(folder, manifest_name, is_ours, error);
}

static int unfinished_remove(void *removed, const char *root, const struct storage_entry *entry, struct error *error) {
    char path[NEW_FILE_PATH_MAX];
    if (strncmp(entry->name, manifest_unfinished_prefix, sizeof manifest_unfinished_prefix - 1) != 0) {
        return 0;
    }
    *(bool *)removed = true;
    int code = path_join(path, root, entry->name, error);
    return code != 0 ? code : folder_remove(path, error);
}

/* Removes unfinished attempts with objects: folders without a manifest, as objects have their final names from the
 * beginning. Also removes unfinished uploads. */
static int discard_objects(const char *root, struct error *error) {
    struct clock_folders folders;
    char path[WIRE_PATH_MAX];
    int code = folder_path(root, manifest_clock_prefix, path, error);
    code = code != 0 ? code : storage_sweep(path, error);
    code = code != 0 ? code : clock_folders_list(root, &folders, error);
    if (code != 0) {
        return code;
    }
    for (size_t i = 0; i < folders.count && code == 0; i++) {
        code = folder_path(root, folders.all[i].name, path, error);
        if (!has_manifest(path, &code, error) && code == 0) {
            code = folder_remove(path, error);
        }
    }
    free(folders.all);
    return code;
}

int manifest_discard(const char *root, struct error *error) {
    bool removed = false;
    if (storage_is_object(root)) {
        return discard_objects(root, error);
    }
    int code = storage_list(root, AML_EINPUT, unfinished_remove, &removed, error);
    return code != 0 || !removed ? code : storage_sync_folder(root, error);
}

/* Fails if the root has a checkpoint of a later clock. */
static int check_clocks(const char *root, uint64_t clock, struct error *error) {
    struct clock_folders folders;
    char path[WIRE_PATH_MAX];
    int code = clock_folders_list(root, &folders, error);
    for (size_t i = 0; code == 0 && i < folders.count && folders.all[i].clock > clock; i++) {
        code = folder_path(root, folders.all[i].name, path, error);
        if (has_manifest(path, &code, error)) {
            code = error_set(error, AML_EINPUT,
                             "%s: a checkpoint of a later clock than %" PRIu64 " is there already: go on from it, or "
                             "choose another folder",
                             path, clock);
        }
    }
    free(folders.all);
    return code;
}

int manifest_begin(const char *root, uint64_t clock, uint64_t number, char path[WIRE_PATH_MAX], struct error *error) {
    char name[FOLDER_NAME_MAX];
    uint32_t token = (uint32_t)number;
    int code = storage_make_folder(root, error);
    code = code != 0 ? code : check_clocks(root, clock, error);
    code = code != 0 ? code : manifest_discard(root, error);
    if (code != 0) {
        return code;
    }
    if (storage_is_object(root)) { /* no other attempt of any job may have used these names */
        (void)getrandom(&token, sizeof token, GRND_NONBLOCK);
        snprintf(name, sizeof name, "%s%0*" PRIx32, manifest_unfinished_prefix, TOKEN_DIGITS, token);
    } else {
        snprintf(name, sizeof name, "%s%" PRIu64, manifest_unfinished_prefix, number);
    }
    code = folder_path(root, name, path, error);
    code = code != 0 ? code : storage_make_folder(path, error);
    return code != 0 ? code : storage_sync_folder(root, error);
}

int manifest_place(const char *root, uint64_t clock, char path[WIRE_PATH_MAX], struct error *error) {
    char name[FOLDER_NAME_MAX];
    char token[TOKEN_DIGITS + 1];
    size_t length = strlen(path);
    if (!storage_is_object(root) || length < TOKEN_DIGITS) {
        return 0;
    }
    memcpy(token, path + length - TOKEN_DIGITS, sizeof token);
    snprintf(name, sizeof name, "%s%" PRIu64 "-%s", manifest_clock_prefix, clock, token);
    return folder_path(root, name, path, error);
}

/* Removes other folders of the same clock: incomplete, or written before the job resumed from an earlier checkpoint. */
static int remove_same_clock(const char *root, uint64_t clock, const char *but, struct error *error) {
    struct clock_folders folders;
    char path[WIRE_PATH_MAX];
    int code = clock_folders_list(root, &folders, error);
    for (size_t i = 0; code == 0 && i < folders.count; i++) {
        if (folders.all[i].clock == clock) {
            code = folder_path(root, folders.all[i].name, path, error);
            code = code != 0 || strcmp(path, but) == 0 ? code : folder_remove(path, error);
        }
    }
    free(folders.all);
    return code;
}

int manifest_finish(const char *root, const char *folder, uint64_t clock, const char *text, size_t size,
                    char path[WIRE_PATH_MAX], struct error *error) {
    char name[FOLDER_NAME_MAX];
    if (storage_is_object(root)) {
        int code = remove_same_clock(root, clock, folder, error);
        snprintf(path, WIRE_PATH_MAX, "%s", folder);
        return code != 0 ? code : write_text(folder, text, size, error);
    }
    snprintf(name, sizeof name, "%s%" PRIu64, manifest_clock_prefix, clock);
    int code = write_text(folder, text, size, error);
    code = code != 0 ? code : folder_path(root, name, path, error);
    code = code != 0 ? code : remove_same_clock(root, clock, folder, error);
    code = code != 0 ? code : storage_rename_folder(folder, path, error);
    return code != 0 ? code : storage_sync_folder(root, error);
}

int manifest_prune(const char *root, unsigned keep, struct error *error) {
    struct clock_folders folders;
    unsigned complete = 0;
    int code = clock_folders_list(root, &folders, error);
    for (size_t i = 0; i < folders.count && code == 0; i++) {
        char path[WIRE_PATH_MAX];
        code = folder_path(root, folders.all[i].name, path, error);
        bool whole = has_manifest(path, &code, error);
        complete += whole;
        if (code != 0 || (whole && complete <= keep) || complete == 0) {
            continue; /* a folder newer than every checkpoint may still become a checkpoint */
        }
        code = folder_remove(path, error);
    }
    free(folders.all);
    return code != 0 || complete == 0 ? code : storage_sync_folder(root, error);
}
