/* workers/process/app.c, describe.c: an app's declarations are checked before anything starts. A mistake gives exit
 * status 2 and one line that names the field. */
#include "agileml.h"
#include "tests/test.h"

#include <fcntl.h>
#include <unistd.h>

enum { TEXT_MAX = 4096 };

static int read_nothing(aml_worker *worker, void *context) {
    return 0;
}

static int clock_nothing(aml_worker *worker, const void *items, size_t count, void *context) {
    return 0;
}

struct fixture {
    struct aml_table tables[2];
    struct aml_app app;
};

static struct fixture *sound_app(void) {
    static struct fixture fixture;
    fixture.tables[0] = (struct aml_table){.name = "model", .width = 3, .rows = 10, .whole = 1};
    fixture.tables[1] = (struct aml_table){.name = "words", .width = 3};
    fixture.app = (struct aml_app){.name = "app",
                                   .tables = fixture.tables,
                                   .table_count = 2,
                                   .item_varied = 1,
                                   .clock_alone = 1,
                                   .read = read_nothing,
                                   .clock = clock_nothing};
    return &fixture;
}

/* Runs `app --check OPTION`; `text` gets its standard error. `more` is NULL for no other option. */
static int check_app_with(struct aml_app *app, char *more, char text[TEXT_MAX]) {
    char program[] = "app";
    char option[] = "--check";
    char *arguments[] = {program, option, more, NULL};
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int before = dup(STDERR_FILENO);
    assert_true(before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    int status = aml_main(app, more != NULL ? 3 : 2, arguments);
    fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(file);
    text[fread(text, 1, TEXT_MAX - 1, file)] = '\0';
    fclose(file);
    return status;
}

static int check_app(struct aml_app *app, char text[TEXT_MAX]) {
    return check_app_with(app, NULL, text);
}

/* The check with another option fails with one line that contains `what`. */
static void assert_refused_with(struct fixture *fixture, const char *option, const char *what) {
    char text[TEXT_MAX];
    char more[64];
    snprintf(more, sizeof more, "%s", option);
    assert_int_equal(check_app_with(&fixture->app, option[0] != '\0' ? more : NULL, text), 2);
    if (strstr(text, what) == NULL || strchr(text, '\n') != text + strlen(text) - 1) {
        fail_msg("'%s', expected one line with '%s'", text, what);
    }
}

/* The check fails with one line that contains `what`. */
static void assert_refused(struct fixture *fixture, const char *what) {
    assert_refused_with(fixture, "", what);
}

TEST(a_sound_app_is_taken) {
    char text[TEXT_MAX];
    assert_int_equal(check_app(&sound_app()->app, text), 0);
    assert_string_equal(text, "");
}

/* ---- Single wrong fields ---- */

static struct aml_option options[3];
static bool flag;
static int64_t number = 1;

static struct fixture *with_options(void) {
    struct fixture *fixture = sound_app();
    memset(options, 0, sizeof options);
    options[0] = (struct aml_option){
        .name = "one", .value = "N", .type = AML_OPTION_INTEGER, .target = &number, .maximum = 9, .help = "a number"};
    options[1] = (struct aml_option){.name = "two", .type = AML_OPTION_FLAG, .target = &flag, .help = "a flag"};
    fixture->app.options = options;
    return fixture;
}

TEST(items) {
    struct fixture *fixture = sound_app();
    fixture->app.item_varied = 0;
    fixture->app.item_rows = 3;
    assert_refused(fixture, "app app: item_rows 3: 0 to 2 are possible; several kinds of rows: item_varied");
    fixture->app.item_rows = 0;
    assert_refused(fixture, "app app: item_rows 0 and item_bytes 0: items would carry nothing");
    fixture->app.item_bytes = AML_ITEM_BYTES_MAX + 1;
    assert_refused(fixture, "app app: item_bytes 1048577: 0 to 1048576 are possible");
    fixture->app.item_bytes = 4;
    fixture->app.item_rows = 2;
    fixture->app.item_tables[1] = 2;
    assert_refused(fixture, "app app: item_tables[1] is 2, the app has 2 tables");
    fixture->app.item_rows = 1;
    assert_refused(fixture, "app app: item_tables[1] is 2, but item_rows is 1: expected 0");
    fixture = sound_app();
    fixture->app.item_rows = 1;
    assert_refused(fixture, "app app: item_rows 1 and item_bytes 0: expected 0 for both, as item_varied is set");
    fixture = sound_app();
    fixture->app.item_bytes = 4;
    assert_refused(fixture, "app app: item_rows 0 and item_bytes 4: expected 0 for both, as item_varied is set");
}

static int transform_nothing(aml_worker *worker, uint64_t random, const void *in, void *out, void *context) {
    return 0;
}

TEST(transforms) {
    struct aml_transform transforms[AML_TRANSFORMS_MAX + 2] = {
        {.name = "crop", .bytes = 16, .run = transform_nothing},
        {.name = "turn", .from = "crop", .bytes = 16, .run = transform_nothing},
    };
    struct fixture *fixture = sound_app();
    fixture->app.transforms = transforms;
    transforms[0].flags = AML_TRANSFORM_TRAIN;
    assert_refused(fixture,
                   "transform crop: expected no AML_TRANSFORM_TRAIN: the first transform makes what is of one size of "
                   "items that differ in size");
    transforms[0].flags = 0;
    fixture->app.item_varied = 0;
    fixture->app.item_rows = 1;
    assert_refused(fixture, "app app: transforms: expected items without rows");
    fixture->app.item_rows = 0;
    fixture->app.item_bytes = 20;
    transforms[1].from = "crpo";
    assert_refused(fixture, "transform turn: from crpo: expected crop, as transforms form a chain");
    transforms[1].from = NULL;
    assert_refused(fixture, "transform turn: from NULL: expected crop");
    transforms[1].from = "crop";
    transforms[0].from = "read";
    assert_refused(fixture, "transform crop: from read: expected NULL");
    transforms[0].from = NULL;
    transforms[1].name = "crop";
    assert_refused(fixture, "app app: transforms[1].name 'crop': transforms[0] has this name too");
    transforms[1].name = "a name of more than thirty-one bytes";
    assert_refused(fixture,
                   "app app: transforms[1].name 'a name of more than thirty-one bytes': expected 1 to 31 bytes");
    transforms[1].name = "turn";
    transforms[1].bytes = 0;
    assert_refused(fixture, "transform turn: bytes 0: 1 to 1048576 are possible");
    transforms[1].bytes = 12;
    transforms[1].flags = AML_TRANSFORM_TRAIN;
    assert_refused(fixture, "transform turn: bytes 12: expected 16 as in its input, as it is left out for test items");
    transforms[1].flags = 4;
    assert_refused(fixture, "transform turn: flags 4: AML_TRANSFORM_STATE and AML_TRANSFORM_TRAIN are possible");
    transforms[1].flags = 0;
    transforms[1].run = NULL;
    assert_refused(fixture, "transform turn: run is NULL: expected a function");
    static char names[AML_TRANSFORMS_MAX + 1][8];
    for (unsigned s = 0; s <= AML_TRANSFORMS_MAX; s++) {
        snprintf(names[s], sizeof names[s], "s%u", s);
        transforms[s] = (struct aml_transform){
            .name = names[s], .from = s > 0 ? names[s - 1] : NULL, .bytes = 4, .run = transform_nothing};
    }
    assert_refused(fixture, "app app: more than 16 transforms");
}

TEST(tables) {
    struct fixture *fixture = sound_app();
    fixture->app.table_count = 17;
    assert_refused(fixture, "app app: table_count 17: 0 to 16 are possible");
    fixture->app.table_count = 0;
    assert_refused(fixture, "app app: table_count 0, but there are tables");
    fixture->app.table_count = 2;
    fixture->app.tables = NULL;
    assert_refused(fixture, "app app: tables is NULL, table_count 2: expected an array");
    fixture = sound_app();
    fixture->tables[1].name = NULL;
    assert_refused(fixture, "app app: tables[1].name is NULL: expected 1 to 31 bytes");
    fixture->tables[1].name = "a name of more than thirty-one bytes";
    assert_refused(fixture, "app app: tables[1].name 'a name of more than thirty-one bytes': expected 1 to 31 bytes");
    fixture->tables[1].name = "model";
    assert_refused(fixture, "app app: tables[1].name 'model': tables[0] has this name too");
    fixture = sound_app();
    fixture->tables[1].type = (enum aml_type)4;
    assert_refused(fixture, "table words: type 4: AML_FLOAT32, AML_FLOAT64, AML_INT32 and AML_INT64 are possible");
    fixture = sound_app();
    fixture->tables[1].mode = (enum aml_mode)2;
    assert_refused(fixture, "table words: mode 2: AML_ADD and AML_PUT are possible");
    fixture = sound_app();
    fixture->tables[1].width = 0;
    assert_refused(fixture, "table words: width 0: 1 to 16777216 elements are possible");
    fixture->tables[1].width = 16777217;
    assert_refused(fixture, "table words: width 16777217: 1 to 16777216 elements are possible");
    fixture = sound_app();
    fixture->tables[1].whole = 1;
    assert_refused(fixture, "table words: rows 0: 1 to 1073741824 are possible for a table that is whole");
    fixture = sound_app();
    fixture->tables[0].rows = UINT64_C(1) << 31;
    assert_refused(fixture, "table model: rows 2147483648: 1 to 1073741824 are possible");
    fixture = sound_app();
    fixture->tables[0].changes_given = 1;
    assert_refused(fixture, "table model: changes_given 1: expected mode AML_ADD and type AML_INT32 or AML_INT64");
    fixture = sound_app();
    fixture->tables[0].shares = 1;
    fixture->tables[0].type = AML_INT32;
    assert_refused(fixture, "table model: shares 1: expected at most width, mode AML_ADD, type AML_FLOAT32");
}

TEST(ready_optimizers) {
    static const struct aml_adam adam = {.rate = 0.1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
    char text[TEXT_MAX];
    struct fixture *fixture = sound_app();
    fixture->tables[0].apply = aml_apply_adam;
    fixture->tables[0].parameters = &adam;
    assert_refused(fixture,
                   "table model: state_width 0: expected aml_adam_state(3), which is 8, with apply aml_apply_adam");
    fixture->tables[0].state_width = 6;
    assert_refused(fixture, "table model: state_width 6: expected aml_adam_state(3)");
    fixture->tables[0].state_width = 8;
    assert_int_equal(check_app(&fixture->app, text), 0);
    fixture->tables[0].type = AML_INT32;
    assert_refused(fixture, "table model: type 2: AML_FLOAT32 and AML_FLOAT64 are possible with apply aml_apply_adam");
    fixture->tables[0].apply = aml_apply_ftrl;
    fixture->tables[0].type = AML_FLOAT64;
    assert_refused(fixture, "table model: state_width 8: expected aml_ftrl_state(3), which is 6");
}

TEST(metrics) {
    struct aml_metric metrics[2] = {{.name = "loss"}, {.name = "error_rate"}};
    struct fixture *fixture = sound_app();
    fixture->app.metrics = metrics;
    assert_refused(fixture, "app app: metric_count 0, but there are metrics");
    fixture->app.metric_count = 17;
    assert_refused(fixture, "app app: metric_count 17: 0 to 16 are possible");
    fixture->app.metric_count = 2;
    metrics[1].name = "loss";
    assert_refused(
        fixture,
        "app app: metrics[1].name 'loss': expected a-z, 0-9 and _, and no name of another metric or key of the report");
    metrics[1].name = "iteration"; /* a name reserved for the report */
    assert_refused(fixture, "app app: metrics[1].name 'iteration': expected");
    metrics[1].name = "Error";
    assert_refused(fixture, "app app: metrics[1].name 'Error': expected");
    metrics[1].name = NULL;
    assert_refused(fixture, "app app: metrics[1].name is NULL: expected 1 to 31 bytes");
    metrics[1] = (struct aml_metric){.name = "error_rate", .kind = (enum aml_metric_kind)4};
    assert_refused(fixture,
                   "metric error_rate: kind 4: AML_SUM, AML_MEAN, AML_ROOT_MEAN and AML_EXP_MEAN are possible");
    metrics[1] = (struct aml_metric){.name = "error_rate", .evaluated = 1};
    assert_refused(fixture, "metric error_rate: evaluated 1: the app has no evaluate function");
    fixture->app.metrics = NULL;
    assert_refused(fixture, "app app: metrics is NULL, metric_count 2: expected an array");
}

TEST(options) {
    char text[TEXT_MAX];
    assert_int_equal(check_app(&with_options()->app, text), 0);
    struct fixture *fixture = with_options();
    options[0].name = "--one";
    assert_refused(fixture, "app app: option '--one': expected a name without dashes before it");
    options[0].name = "seed";
    assert_refused(fixture,
                   "app app: option --seed: every app has an option of this name (see --help): expected another name");
    options[0].name = "two";
    assert_refused(fixture, "app app: option --two: two options have this name");
    with_options();
    options[0].type = (enum aml_option_type)6;
    assert_refused(fixture, "app app: option --one: type 6: expected an AML_OPTION_...");
    with_options();
    options[0].target = NULL;
    assert_refused(fixture, "app app: option --one: target is NULL");
    with_options();
    options[0].maximum = 0;
    assert_refused(fixture, "app app: option --one: minimum 0, maximum 0: expected a range");
    with_options();
    options[1].help = NULL;
    assert_refused(fixture, "app app: option --two: help is NULL");
    fixture = with_options();
    options[0] = (struct aml_option){.name = "seed", .type = AML_OPTION_INTEGER, .help = "in place of the library's"};
    assert_int_equal(check_app(&fixture->app, text), 0);
    fixture = with_options();
    fixture->app.steering = (const char *const[]){"two", "three", NULL};
    assert_refused(fixture, "app app: steering names --three, expected an option of the app");
    fixture->app.options = NULL;
    assert_refused(fixture, "app app: steering names --two, expected an option of the app");
}

static int configure_seven(aml_worker *worker, struct aml_app *app) {
    return 7;
}

static int configure_early(aml_worker *worker, struct aml_app *app) {
    return (int)aml_threads(worker) - 1;
}

static int configure_no_error(aml_worker *worker, struct aml_app *app) {
    return aml_error(worker, 0, "a file is missing");
}

TEST(everything_else) {
    struct fixture *fixture = sound_app();
    fixture->app.name = NULL;
    assert_refused(fixture, "aml_app.name is NULL: expected 1 to 31 bytes");
    fixture->app.name = "";
    assert_refused(fixture, "aml_app.name '': expected 1 to 31 bytes");
    fixture = sound_app();
    fixture->app.read = NULL;
    assert_refused(fixture, "app app: read is NULL: expected a function");
    fixture = sound_app();
    fixture->app.clock = NULL;
    assert_refused(fixture, "app app: clock is NULL: expected a function");
    fixture = sound_app();
    fixture->app.iterations = -1;
    assert_refused(fixture, "app app: iterations -1: 0 to 1000000000 are possible");
    fixture = sound_app();
    fixture->app.clocks_per_iteration = -1;
    assert_refused(fixture, "app app: clocks_per_iteration -1: 0 to 1048576 are possible");
    fixture = sound_app();
    fixture->app.evaluate_every = -1;
    assert_refused(fixture, "app app: evaluate_every -1: 0 to 1000000000 are possible");
    char text[TEXT_MAX];
    assert_int_equal(check_app(NULL, text), 2);
    assert_non_null(strstr(text, "aml_main: app is NULL\n"));
}

TEST(configure) {
    struct fixture *fixture = sound_app();
    fixture->app.configure = configure_seven;
    assert_refused(fixture, "configure returned 7: expected 0, or a negative aml_error_code");
    fixture->app.configure = configure_early;
    assert_refused(fixture, "aml_threads: called in configure: expected in begin, clock, evaluate or finish");
    fixture->app.configure = configure_no_error;
    assert_refused(fixture, "aml_error: code 0: expected a negative aml_error_code, for 'a file is missing'");
}

TEST(phases) {
    struct aml_transform transforms[2] = {{.name = "crop", .bytes = 4, .run = transform_nothing}};
    char text[TEXT_MAX];
    char multiple[] = "--clocks-per-iteration=6";
    struct fixture *fixture = sound_app();
    fixture->app.phases = AML_PHASES_MAX + 1;
    assert_refused(fixture, "app app: phases 33: 0 to 32 are possible");
    fixture->app.phases = 3;
    fixture->app.clocks_per_iteration = 4;
    assert_refused(fixture, "app app: clocks_per_iteration 4: expected a multiple of its 3 phases");
    assert_refused_with(fixture, "--clocks-per-iteration=1",
                        "--clocks-per-iteration 1: expected a multiple of 3, as app works on each part in 3 phases");
    assert_int_equal(check_app_with(&fixture->app, multiple, text), 0);
    fixture->app.clocks_per_iteration = 0;
    assert_int_equal(check_app(&fixture->app, text), 0);
    fixture->app.strategies = 1;
    assert_refused_with(fixture, "--strategy=sma", "--strategy sma: expected ssgd, since app works in 3 phases");
    fixture->app.transforms = transforms;
    assert_refused(fixture, "app app: phases 3: expected 0 or 1 with transforms");
    fixture->app.phases = 1;
    assert_int_equal(check_app(&fixture->app, text), 0);
}

TEST(the_environment) {
    struct fixture *fixture = sound_app();
    assert_int_equal(setenv("PROTEUS_CHECK", "yes", 1), 0);
    assert_refused(fixture, "PROTEUS_CHECK=yes in the environment: expected 1 or 0");
    assert_int_equal(unsetenv("PROTEUS_CHECK"), 0);
}
