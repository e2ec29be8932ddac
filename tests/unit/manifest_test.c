/* Manifests of checkpoints are read as written. Only complete checkpoints are found; anything else is refused with
 * the reason. */
#include "agileml/control/state/manifest.h"
#include "tests/test.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PARTITIONS = 3, ROOT_BYTES = 64, PATH_BYTES = 600, TEXT_MAX = 8192 };

static int setup(void **state) {
    char *root = calloc(1, ROOT_BYTES);
    snprintf(root, ROOT_BYTES, "/tmp/manifest_test.XXXXXX");
    *state = root;
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int teardown(void **state) {
    char command[ROOT_BYTES + 16];
    snprintf(command, sizeof command, "rm -r '%s'", (char *)*state);
    free(*state);
    return system(command);
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static bool is_there(const char *folder, const char *name) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static struct manifest_file files[PARTITIONS] = {{0, 0}, {1, 0xFFFFFFFF}, {2, 0x12AB}};

enum { SHARDS = 3 };
static struct wire_input_shard input_shards[SHARDS] = {{10, 0xFEDCBA9876543211}, {0, 0}, {UINT64_MAX - 1, UINT64_MAX}};
static struct wire_input_file input_files[] = {{.path = "/data/ratings.csv", .bytes = 1234567}, {.path = "te\"st"}};
static struct buffer input_shards_frame = {.size = sizeof input_shards, .data = (unsigned char *)input_shards};
static struct buffer input_files_frame = {.size = sizeof input_files, .data = (unsigned char *)input_files};

static struct wire_option settings[] = {{"rank", "16", 0, 0}, {"rate", "0.025", 1, 0}};
static struct buffer settings_frame = {.size = sizeof settings, .data = (unsigned char *)settings};

static struct manifest sample(uint64_t clock) {
    return (struct manifest){
        .job = {.app = "mf",
                .digest = 0xFEDCBA9876543210,
                .staleness = 3,
                .clocks_per_iteration = 4,
                .phases = 2,
                .local_steps = 2,
                .strategy = STRATEGY_SMA,
                .iterations = 45,
                .seconds = 0.1,
                .tolerance = 1e-300,
                .tolerance_iterations = 7},
        .settings = &settings_frame,
        .clock = clock,
        .seconds = 12.25,
        .items_processed = 9876501234000,
        .partitions = PARTITIONS,
        .shards = SHARDS,
        .input = {.reader = "node-1 (host)", .shards = &input_shards_frame, .files = &input_files_frame},
        .files = files,
        .objective = 0.1 + 0.2,
        .metric_count = 2,
        .metrics = {{"rmse", 0.1 + 0.2}, {"loss", NAN}}};
}

static void write_partitions(const char *folder) {
    write_file(folder, "partition-0", "");
    write_file(folder, "partition-1", "x");
    write_file(folder, "partition-2", "xx");
}

/* Begins a checkpoint. */
static void begin_checkpoint(const char *root, uint64_t clock, uint64_t number, char folder[WIRE_PATH_MAX]) {
    struct error error = {0};
    if (manifest_begin(root, clock, number, folder, &error) != 0) {
        fail_msg("%s", error.text);
    }
    write_partitions(folder);
}

/* Makes the folder of a checkpoint without its manifest. */
static void make_folder(const char *root, uint64_t clock, char folder[WIRE_PATH_MAX]) {
    snprintf(folder, WIRE_PATH_MAX, "%s/clock-%llu", root, (unsigned long long)clock);
    assert_int_equal(mkdir(folder, 0700), 0);
    write_partitions(folder);
}

/* Writes the manifest into a folder, which is not yet a checkpoint. */
static void write_manifest(const char *folder, const struct manifest *manifest) {
    size_t size = 0;
    FREED char *text = manifest_text(manifest, &size, NULL);
    assert_non_null(text);
    assert_int_equal(size, strlen(text));
    write_file(folder, "manifest.json", text);
}

static int finish(const char *root, const char *folder, const struct manifest *manifest, char path[WIRE_PATH_MAX],
                  struct error *error) {
    size_t size = 0;
    FREED char *text = manifest_text(manifest, &size, error);
    assert_non_null(text);
    int code = manifest_finish(root, folder, manifest->clock, text, size, path, error);
    return code;
}

static void make_checkpoint(const char *root, uint64_t clock, char folder[WIRE_PATH_MAX]) {
    struct manifest manifest = sample(clock);
    char unfinished[WIRE_PATH_MAX];
    begin_checkpoint(root, clock, 1, unfinished);
    assert_int_equal(finish(root, unfinished, &manifest, folder, NULL), 0);
}

static void assert_found(const char *root, const char *expected) {
    char path[WIRE_PATH_MAX];
    struct error error = {0};
    if (manifest_find(root, path, &error) != 0) {
        fail_msg("%s", error.text);
    }
    assert_string_equal(path, expected);
}

static void assert_nothing_found(const char *root, const char *reason) {
    char path[WIRE_PATH_MAX];
    struct error error = {0};
    assert_int_equal(manifest_find(root, path, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, root));
    assert_non_null(strstr(error.text, reason));
}

TEST(round_trip) {
    char folder[WIRE_PATH_MAX];
    struct manifest expected = sample(120);
    CLOSED_BY(manifest_close) struct manifest manifest;
    struct error error = {0};
    make_checkpoint(*state, 120, folder);
    assert_int_equal(manifest_read(folder, &manifest, &error), 0);
    assert_string_equal(manifest.job.app, "mf");
    assert_true(manifest.job.digest == expected.job.digest);
    assert_int_equal(manifest.job.staleness, 3);
    assert_int_equal(manifest.job.clocks_per_iteration, 4);
    assert_int_equal(manifest.job.phases, 2);
    assert_int_equal(manifest.job.local_steps, 2);
    assert_int_equal(manifest.job.strategy, STRATEGY_SMA);
    assert_int_equal(manifest.job.iterations, 45);
    assert_true(manifest.job.seconds == expected.job.seconds && manifest.job.tolerance == expected.job.tolerance);
    assert_int_equal(manifest.job.tolerance_iterations, 7);
    assert_int_equal(manifest.clock, 120);
    assert_true(manifest.seconds == 12.25);
    assert_int_equal(manifest.items_processed, 9876501234000);
    assert_int_equal(manifest.settings->size, sizeof settings);
    assert_memory_equal(manifest.settings->data, settings, sizeof settings);
    assert_int_equal(manifest.partitions, PARTITIONS);
    assert_int_equal(manifest.shards, SHARDS);
    assert_string_equal(manifest.input.reader, "node-1 (host)");
    assert_true(job_input_equal(&manifest.input, &expected.input));
    assert_int_equal(manifest.input.files->size, sizeof input_files);
    assert_memory_equal(manifest.input.files->data, input_files, sizeof input_files);
    assert_true(manifest.objective == expected.objective);
    for (unsigned p = 0; p < PARTITIONS; p++) {
        assert_int_equal(manifest.files[p].bytes, files[p].bytes);
        assert_int_equal(manifest.files[p].checksum, files[p].checksum);
    }
    assert_int_equal(manifest.metric_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_string_equal(manifest.metrics[i].name, expected.metrics[i].name);
    }
    assert_true(manifest.metrics[0].value == expected.metrics[0].value && isnan(manifest.metrics[1].value));
}

TEST(newest_is_found) {
    const char *root = *state;
    char folder[WIRE_PATH_MAX];
    char second[WIRE_PATH_MAX];
    assert_nothing_found(root, "no checkpoint");
    assert_nothing_found("/nowhere/at/all", "can't read");
    make_folder(root, 5, folder);
    assert_nothing_found(root, "no checkpoint");
    make_checkpoint(root, 9, folder);
    make_checkpoint(root, 80, folder);
    assert_found(root, folder);
    make_checkpoint(root, 123, second); /* not the last in the order of names */
    assert_found(root, second);
    assert_found(second, second);
    assert_found(folder, folder);
    make_folder(root, 130, second); /* a crash before the manifest was written */
    snprintf(second, sizeof second, "%s/clock-123", root);
    assert_found(root, second);
    write_file(second, "partition-2", "xxx"); /* a damaged checkpoint: the one before is taken */
    assert_found(root, folder);
    write_file(folder, "manifest.json", "{");
    snprintf(folder, sizeof folder, "%s/clock-9", root);
    assert_found(root, folder);
}

TEST(names_that_are_no_clocks) {
    static const char *const names[] = {"clock-",           "clock-0",  "clock-07",
                                        "clock-7x",         "clock--7", "clock-99999999999",
                                        "clock-4294967295", "7",        "lock-7"};
    const char *root = *state;
    struct manifest manifest = sample(7);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char folder[PATH_BYTES];
        snprintf(folder, sizeof folder, "%s/%s", root, names[i]);
        assert_int_equal(mkdir(folder, 0700), 0);
        write_manifest(folder, &manifest);
    }
    assert_nothing_found(root, "no checkpoint");
    assert_int_equal(manifest_prune(root, 0, NULL), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(is_there(root, names[i]));
    }
}

/* An unfinished checkpoint, under way or left by a crash, is not found; the next checkpoint removes it. */
TEST(unfinished_ones_leave_nothing) {
    const char *root = *state;
    char below[ROOT_BYTES + 16];
    char first[WIRE_PATH_MAX];
    char folder[WIRE_PATH_MAX];
    struct error error = {0};
    struct manifest manifest = sample(7);
    snprintf(below, sizeof below, "%s/made", root);
    begin_checkpoint(below, 7, 1, first);
    write_file(first, "partition-0.Ab12cd", "left by a crash");
    assert_nothing_found(below, "no checkpoint");
    begin_checkpoint(below, 7, 2, folder);
    assert_false(is_there(below, "unfinished-1"));
    assert_true(is_there(below, "unfinished-2"));
    write_manifest(folder, &manifest); /* a crash before the folder got its name */
    assert_nothing_found(below, "no checkpoint");
    assert_int_equal(manifest_discard(below, &error), 0);
    assert_false(is_there(below, "unfinished-2"));
    snprintf(below, sizeof below, "%s/not/made", root);
    assert_int_equal(manifest_begin(below, 7, 3, folder, &error), AML_EFAIL);
    assert_non_null(strstr(error.text, "not/made"));
    assert_int_equal(manifest_discard(below, NULL), AML_EINPUT);
}

TEST(a_checkpoint_takes_the_place_of_what_never_was_whole) {
    const char *root = *state;
    char folder[WIRE_PATH_MAX];
    char path[WIRE_PATH_MAX];
    struct error error = {0};
    struct manifest manifest = sample(7);
    make_folder(root, 7, folder);
    write_file(folder, "partition-0.Ab12cd", "left by a crash");
    make_checkpoint(root, 7, path);
    assert_string_equal(path, folder);
    assert_found(root, folder);
    assert_false(is_there(folder, "partition-0.Ab12cd"));
    write_file(folder, "notes.txt", "someone's own");
    begin_checkpoint(root, 7, 2, folder);
    assert_int_equal(finish(root, folder, &manifest, path, &error), AML_EFAIL);
    assert_non_null(strstr(error.text, "clock-7"));
    assert_true(is_there(path, "notes.txt"));
}

/* Another job's checkpoints would otherwise seem newer. */
TEST(later_checkpoints_are_in_the_way) {
    const char *root = *state;
    char folder[WIRE_PATH_MAX];
    struct error error = {0};
    make_folder(root, 200, folder);
    make_checkpoint(root, 100, folder);
    assert_int_equal(manifest_begin(root, 99, 2, folder, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "clock-100"));
    assert_int_equal(manifest_begin(root, 101, 3, folder, NULL), 0);
}

/* A job without reported input; and names that are not UTF-8, as paths may be. */
TEST(input_that_is_unknown_or_has_odd_names) {
    char folder[WIRE_PATH_MAX];
    struct manifest manifest = sample(7);
    struct error error = {0};
    static struct wire_input_file odd[] = {{.path = "/da\xFFta", .bytes = 1}};
    struct buffer odd_frame = {.size = sizeof odd, .data = (unsigned char *)odd};
    make_folder(*state, 7, folder);
    manifest.input.files = &odd_frame;
    write_manifest(folder, &manifest);
    assert_int_equal(manifest_read(folder, &manifest, &error), 0);
    assert_string_equal(((const struct wire_input_file *)(const void *)manifest.input.files->data)->path, "/da?ta");
    manifest_close(&manifest);
    manifest = sample(7);
    manifest.input = (struct job_input){0};
    write_manifest(folder, &manifest);
    assert_int_equal(manifest_read(folder, &manifest, &error), 0);
    assert_null(manifest.input.shards);
    manifest_close(&manifest);
}

TEST(prune) {
    const char *root = *state;
    char folder[WIRE_PATH_MAX];
    static const char *const gone[] = {"clock-10", "clock-20", "clock-25", "clock-35"};
    static const char *const kept[] = {"clock-30", "clock-40", "clock-50", "clock-5"};
    make_checkpoint(root, 5, folder);
    write_file(folder, "notes.txt", "someone's own");
    make_checkpoint(root, 10, folder);
    make_checkpoint(root, 20, folder);
    make_folder(root, 25, folder);
    write_file(folder, "partition-1.xYz123", "left by a crash");
    make_checkpoint(root, 30, folder);
    make_folder(root, 35, folder);
    make_checkpoint(root, 40, folder);
    make_folder(root, 50, folder); /* not finished */
    assert_int_equal(manifest_prune(root, 2, NULL), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_false(is_there(root, gone[i]));
        assert_true(is_there(root, kept[i]));
    }
    snprintf(folder, sizeof folder, "%s/clock-5", root);
    assert_true(is_there(folder, "notes.txt"));
    assert_false(is_there(folder, "manifest.json"));
    assert_false(is_there(folder, "partition-0"));
    snprintf(folder, sizeof folder, "%s/clock-30", root);
    assert_found(folder, folder);
    assert_int_equal(manifest_prune("/nowhere/at/all", 2, NULL), AML_EINPUT);
}

/* ---- Damage ---- */

static size_t load(const char *folder, char *text) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(text, 1, TEXT_MAX - 1, file);
    text[size] = '\0';
    fclose(file);
    return size;
}

static void assert_refused(const char *folder, const char *reason) {
    struct manifest manifest;
    struct error error = {0};
    assert_int_equal(manifest_read(folder, &manifest, &error), AML_EINPUT);
    if (strstr(error.text, folder) == NULL || strstr(error.text, reason) == NULL) {
        fail_msg("\"%s\" does not name \"%s\"", error.text, reason);
    }
    assert_null(manifest.files);
}

TEST(damage) {
    static const struct {
        const char *from, *to, *reason;
    } changes[] = {
        {"agileml-checkpoint", "something-else-", "\"format\""},
        {"\"version\": 5", "\"version\": 4", "\"version\""},
        {"\"clock\": 120", "\"clock\": 0", "\"clock\""},
        {"\"clock\": 120", "\"clock\": -1", "\"clock\""},
        {"\"clock\": 120", "\"clock\": 4294967280", "\"clock\""},
        {"\"clock\": 120", "\"clock\": 120.5", "\"clock\""},
        {"\"clock\": 120", "\"clock\": 99999999999999999999", "not JSON"},
        {"\"clock\": 120", "\"tick\": 120", "\"clock\""},
        {"\"clock\": 120", "\"version\": 1", "not JSON"},
        {"\"shards\": 3", "\"shards\": 65537", "\"shards\""},
        {"\"shards\": 3", "\"shards\": 4", "\"shards\""},
        {"000000000000000afedcba9876543211", "000000000000000afedcba987654321g", "\"shards\""},
        {"\"input\": {", "\"output\": {", "\"reader\""},
        {"\"path\"", "\"name\"", "\"path\""},
        {"1234567", "-1234567", "\"bytes\""},
        {"\"partitions\": 3", "\"partitions\": 0", "\"partitions\""},
        {"\"partitions\": 3", "\"partitions\": 4", "\"files\""},
        {"\"partitions\": 3", "\"partitions\": 5000", "\"partitions\""},
        {"crc32\": \"ffffffff\"", "crc32\": \"ffffff\"", "\"crc32\""},
        {"crc32\": \"ffffffff\"", "crc32\": \"fffffffg\"", "\"crc32\""},
        {"\"bytes\": 2", "\"bytes\": -2", "\"bytes\""},
        {"\"bytes\": 2", "\"bytes\": 3", "expected a file of 3 bytes, found 2"},
        {"fedcba9876543210", "fedcba987654321", "\"digest\""},
        {"\"mf\"", "\"a name of more than thirty-one bytes\"", "\"app\""},
        {"\"mf\"", "7", "\"app\""},
        {"\"seconds\": 12.25", "\"seconds\": -1.0", "\"seconds\""},
        {"\"seconds\": 12.25", "\"seconds\": 1e300", "\"seconds\""},
        {"9876501234000", "-1", "\"items_processed\""},
        {"\"options\": [", "\"settings\": [", "\"options\""},
        {"\"rank\"", "17", "\"name\""},
        {"\"0.025\"", "0.025", "\"value\""},
        {"\"staleness\": 3", "\"staleness\": 65", "\"staleness\""},
        {"\"clocks_per_iteration\": 4", "\"clocks_per_iteration\": 0", "\"clocks_per_iteration\""},
        {"\"phases\": 2", "\"phases\": 33", "\"phases\""},
        {"\"phases\": 2", "\"phases\": 3", "\"phases\": expected a number that divides clocks_per_iteration"},
        {"\"local_steps\": 2", "\"local_steps\": 129", "\"local_steps\""},
        {"\"strategy\": \"sma\"", "\"strategy\": \"auto\"", "\"strategy\""},
        {"\"loss\": null", "\"loss\": \"none\"", "\"loss\""},
        {"\"rmse\"", "\"a name of more than thirty-one bytes\"", "\"metrics\""},
        {"\"tolerance\": 1", "\"tolerance\": null, \"x\": 1", "\"tolerance\""},
    };
    static char text[TEXT_MAX];
    static char changed[TEXT_MAX];
    char folder[WIRE_PATH_MAX];
    make_checkpoint(*state, 120, folder);
    size_t size = load(folder, text);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        const char *at = strstr(text, changes[i].from);
        print_message("%s -> %s\n", changes[i].from, changes[i].to);
        assert_non_null(at);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, changes[i].to,
                 at + strlen(changes[i].from));
        write_file(folder, "manifest.json", changed);
        assert_refused(folder, changes[i].reason);
    }
    for (size_t length = 0; length + 1 < size; length += 7) {
        snprintf(changed, sizeof changed, "%.*s", (int)length, text);
        write_file(folder, "manifest.json", changed);
        assert_refused(folder, "not JSON");
    }
    write_file(folder, "manifest.json", text);
    assert_found(folder, folder);
}

TEST(damaged_files) {
    char folder[WIRE_PATH_MAX];
    char path[PATH_BYTES];
    make_checkpoint(*state, 120, folder);
    snprintf(path, sizeof path, "%s/partition-1", folder);
    unlink(path);
    assert_refused(folder, "partition-1");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused(folder, "expected a file");
    rmdir(path);
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    assert_int_equal(truncate(path, 5 << 20), 0);
    assert_refused(folder, "longer");
    unlink(path);
    assert_refused(folder, "manifest.json");
}

TEST(write_errors) {
    struct manifest manifest = sample(7);
    struct error error = {0};
    char folder[PATH_BYTES];
    char path[WIRE_PATH_MAX];
    size_t size = 0;
    snprintf(folder, sizeof folder, "%s/nowhere", (char *)*state);
    assert_int_equal(finish(*state, folder, &manifest, path, &error), AML_EFAIL);
    assert_non_null(strstr(error.text, folder));
    memset(manifest.job.app, 0xFF, 4);
    error = (struct error){0};
    assert_null(manifest_text(&manifest, &size, &error));
    assert_int_equal(error.code, AML_EFAIL);
    assert_non_null(strstr(error.text, "UTF-8"));
    static struct wire_option odd[] = {{"ra\xFFnk", "16", 0, 0}};
    struct buffer odd_frame = {.size = sizeof odd, .data = (unsigned char *)odd};
    manifest = sample(7);
    manifest.settings = &odd_frame;
    error = (struct error){0};
    assert_null(manifest_text(&manifest, &size, &error));
    assert_int_equal(error.code, AML_EFAIL);
    assert_non_null(strstr(error.text, "UTF-8"));
}

int main(void) {
    return tests_run_each(setup, teardown);
}
