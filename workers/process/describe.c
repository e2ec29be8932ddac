/* Checks an app's description. See describe.h. */
#include "workers/process/describe.h"

#include "agileml/control/state/report.h"
#include "agileml/ps/table.h"
#include "agileml/wire/report_line.h"

#include <string.h>

_Static_assert((int)AML_TRANSFORMS_MAX == (int)WIRE_TRANSFORMS_MAX,
               "FEED_ASK can tell any number of an app's transforms");
_Static_assert((int)AML_PHASES_MAX == (int)WIRE_PHASES_MAX, "REGISTER can tell any number of an app's phases");
_Static_assert((int)AML_SUM == (int)METRIC_SUM && (int)AML_MEAN == (int)METRIC_MEAN &&
                   (int)AML_ROOT_MEAN == (int)METRIC_ROOT_MEAN && (int)AML_EXP_MEAN == (int)METRIC_EXP_MEAN,
               "the controller knows the app's metric kinds");

/* ---- Options ---- */

static bool option_is_number(const struct aml_option *option) {
    return option->type == AML_OPTION_INTEGER || option->type == AML_OPTION_REAL;
}

/* Finds the option of this name among those before `end` (NULL: among all). NULL: there is none. */
static const struct aml_option *find_option(const struct aml_option *options, const struct aml_option *end,
                                            const char *name) {
    while (options != end && options->name != NULL && strcmp(options->name, name) != 0) {
        options++;
    }
    return options != end && options->name != NULL ? options : NULL;
}

static int check_option(const struct aml_app *app, const struct aml_option *option, const struct aml_option *common,
                        struct error *error) {
    const char *name = option->name;
    if (name[0] == '\0' || name[0] == '-' || strpbrk(name, "= \t") != NULL) {
        return error_set(error, AML_EINPUT,
                         "app %s: option '%s': expected a name without dashes before it, '=' or spaces", app->name,
                         name);
    }
    bool library = find_option(common, NULL, name) != NULL;
    if (library && option->target != NULL) {
        return error_set(
            error, AML_EINPUT,
            "app %s: option --%s: every app has an option of this name (see --help): expected another name", app->name,
            name);
    }
    if (find_option(app->options, option, name) != NULL) {
        return error_set(error, AML_EINPUT, "app %s: option --%s: two options have this name", app->name, name);
    }
    if ((unsigned)option->type > AML_OPTION_WORD) {
        return error_set(error, AML_EINPUT, "app %s: option --%s: type %u: expected an AML_OPTION_...", app->name, name,
                         (unsigned)option->type);
    }
    if (option->target == NULL && !library) {
        return error_set(error, AML_EINPUT, "app %s: option --%s: target is NULL: expected a place for the value",
                         app->name, name);
    }
    if (option->target != NULL && option_is_number(option) && !(option->minimum < option->maximum)) {
        return error_set(error, AML_EINPUT, "app %s: option --%s: minimum %g, maximum %g: expected a range", app->name,
                         name, option->minimum, option->maximum);
    }
    if (option->help == NULL) {
        return error_set(error, AML_EINPUT, "app %s: option --%s: help is NULL: expected a line for --help", app->name,
                         name);
    }
    return 0;
}

/* Checks that each name in `steering` is one of the app's options. */
static int check_steering(const struct aml_app *app, struct error *error) {
    for (const char *const *steering = app->steering; steering != NULL && *steering != NULL; steering++) {
        if (app->options == NULL || find_option(app->options, NULL, *steering) == NULL) {
            return error_set(error, AML_EINPUT, "app %s: steering names --%.60s, expected an option of the app",
                             app->name, *steering);
        }
    }
    return 0;
}

/* ---- Names and counts ---- */

static int check_name(const struct aml_app *app, const char *field, unsigned number, const char *name,
                      struct error *error) {
    if (name == NULL) {
        return error_set(error, AML_EINPUT, "app %s: %s[%u].name is NULL: expected 1 to %d bytes", app->name, field,
                         number, WIRE_NAME_MAX - 1);
    }
    if (name[0] == '\0' || strlen(name) >= WIRE_NAME_MAX) {
        return error_set(error, AML_EINPUT, "app %s: %s[%u].name '%s': expected 1 to %d bytes", app->name, field,
                         number, name, WIRE_NAME_MAX - 1);
    }
    return 0;
}

/* Checks an array and its length: the fields `field`s and `field`_count. */
static int check_count(const struct aml_app *app, const char *field, const void *array, unsigned count, int most,
                       struct error *error) {
    if (count > (unsigned)most) {
        return error_set(error, AML_EINPUT, "app %s: %s_count %u: 0 to %d are possible", app->name, field, count, most);
    }
    if (count > 0 && array == NULL) {
        return error_set(error, AML_EINPUT, "app %s: %ss is NULL, %s_count %u: expected an array", app->name, field,
                         field, count);
    }
    if (count == 0 && array != NULL) {
        return error_set(error, AML_EINPUT, "app %s: %s_count 0, but there are %ss: expected their number", app->name,
                         field, field);
    }
    return 0;
}

int describe_check_first(const struct aml_app *app, const struct aml_option *common, struct error *error) {
    if (app->name == NULL) {
        return error_set(error, AML_EINPUT, "aml_app.name is NULL: expected 1 to %d bytes", WIRE_NAME_MAX - 1);
    }
    if (app->name[0] == '\0' || strlen(app->name) >= WIRE_NAME_MAX) {
        return error_set(error, AML_EINPUT, "aml_app.name '%s': expected 1 to %d bytes", app->name, WIRE_NAME_MAX - 1);
    }
    const struct aml_option *option = app->options;
    int result = 0;
    for (; result == 0 && option != NULL && option->name != NULL; option++) {
        result = check_option(app, option, common, error);
    }
    result = result != 0 ? result : check_count(app, "table", app->tables, app->table_count, WIRE_TABLES_MAX, error);
    return result != 0 ? result : check_count(app, "metric", app->metrics, app->metric_count, WIRE_METRICS_MAX, error);
}

/* ---- Tables ---- */

/* Checks what a ready optimizer (agileml/optimizers.h) needs of its table. */
static int check_ready_optimizer(const struct aml_table *table, struct error *error) {
    static const struct {
        void (*apply)(const struct aml_step *step, const void *parameters);
        uint32_t (*state)(uint32_t width);
        const char *name;
    } ready[] = {{aml_apply_momentum, aml_momentum_state, "momentum"},
                 {aml_apply_adagrad, aml_adagrad_state, "adagrad"},
                 {aml_apply_adam, aml_adam_state, "adam"},
                 {aml_apply_ftrl, aml_ftrl_state, "ftrl"}};
    for (size_t r = 0; r < sizeof ready / sizeof ready[0]; r++) {
        if (table->apply != ready[r].apply) {
            continue;
        }
        if (table->type != AML_FLOAT32 && table->type != AML_FLOAT64) {
            return error_set(error, AML_EINPUT,
                             "table %s: type %u: AML_FLOAT32 and AML_FLOAT64 are possible with apply aml_apply_%s",
                             table->name, (unsigned)table->type, ready[r].name);
        }
        uint32_t expected = ready[r].state(table->width);
        if (table->state_width != expected) {
            return error_set(error, AML_EINPUT,
                             "table %s: state_width %u: expected aml_%s_state(%u), which is %u, with apply "
                             "aml_apply_%s",
                             table->name, table->state_width, ready[r].name, table->width, expected, ready[r].name);
        }
    }
    return 0;
}

static int check_table_rows(const struct aml_app *app, const struct aml_table *table, struct error *error) {
    if (table->whole && (table->rows == 0 || table->rows > TABLE_SLOTS_MAX)) {
        return error_set(error, AML_EINPUT, "table %s: rows %llu: 1 to %d are possible for a table that is whole",
                         table->name, (unsigned long long)table->rows, TABLE_SLOTS_MAX);
    }
    bool stepped = table->apply != NULL || table->apply_rows != NULL;
    if (table->apply != NULL && table->apply_rows != NULL) {
        return error_set(error, AML_EINPUT, "table %s: apply and apply_rows: expected one of them", table->name);
    }
    if (stepped && (table->mode != AML_ADD || table->changes_given)) {
        return error_set(error, AML_EINPUT, "table %s: apply: expected mode AML_ADD and changes_given 0", table->name);
    }
    size_t most = WIRE_ROW_BYTES_MAX / aml_type_size((unsigned)table->type);
    if (table->state_width > (stepped ? most : 0)) {
        return error_set(error, AML_EINPUT, "table %s: state_width %u: 0 to %zu are possible %s apply", table->name,
                         table->state_width, stepped ? most : 0, stepped ? "with" : "without");
    }
    if (check_ready_optimizer(table, error) != 0) {
        return AML_EINPUT;
    }
    bool whole_numbers = table->type == AML_INT32 || table->type == AML_INT64;
    if (table->shares > 0 && (table->mode != AML_ADD || whole_numbers || stepped || table->shares > table->width)) {
        return error_set(
            error, AML_EINPUT,
            "table %s: shares %u: expected at most width, mode AML_ADD, type AML_FLOAT32 or AML_FLOAT64, and "
            "no apply",
            table->name, table->shares);
    }
    if (table->changes_given && app->lots) {
        return error_set(error, AML_EINPUT, "table %s: changes_given 1: expected 0 in an app with lots 1", table->name);
    }
    if (table->changes_given && !(whole_numbers && table->mode == AML_ADD)) {
        return error_set(error, AML_EINPUT,
                         "table %s: changes_given 1: expected mode AML_ADD and type AML_INT32 or AML_INT64",
                         table->name);
    }
    return 0;
}

static int check_table(const struct aml_app *app, unsigned number, struct error *error) {
    const struct aml_table *table = &app->tables[number];
    if (check_name(app, "tables", number, table->name, error) != 0) {
        return AML_EINPUT;
    }
    for (unsigned t = 0; t < number; t++) {
        if (strcmp(app->tables[t].name, table->name) == 0) {
            return error_set(error, AML_EINPUT, "app %s: tables[%u].name '%s': tables[%u] has this name too", app->name,
                             number, table->name, t);
        }
    }
    size_t element = aml_type_size((unsigned)table->type);
    if (element == 0) {
        return error_set(error, AML_EINPUT,
                         "table %s: type %u: AML_FLOAT32, AML_FLOAT64, AML_INT32 and AML_INT64 are possible",
                         table->name, (unsigned)table->type);
    }
    if (table->mode != AML_ADD && table->mode != AML_PUT) {
        return error_set(error, AML_EINPUT, "table %s: mode %u: AML_ADD and AML_PUT are possible", table->name,
                         (unsigned)table->mode);
    }
    if (table->width == 0 || table->width > WIRE_ROW_BYTES_MAX / element) {
        return error_set(error, AML_EINPUT, "table %s: width %u: 1 to %zu elements are possible", table->name,
                         table->width, WIRE_ROW_BYTES_MAX / element);
    }
    return check_table_rows(app, table, error);
}

/* Checks that there is room for the tables of states. */
static int check_states(const struct aml_app *app, struct error *error) {
    unsigned states = 0;
    for (unsigned t = 0; t < app->table_count; t++) {
        states += app->tables[t].state_width > 0 ? 1 : 0;
    }
    return app->table_count + states <= WIRE_TABLES_MAX
               ? 0
               : error_set(error, AML_EINPUT, "app %s: table_count %u, %u of them with state_width: at most %d in all",
                           app->name, app->table_count, states, WIRE_TABLES_MAX);
}

/* ---- Metrics ---- */

/* Checks a metric. Its name must differ from the report's own keys, since both stand in the report's lines. */
static int check_metric(const struct aml_app *app, unsigned number, struct error *error) {
    const struct aml_metric *metric = &app->metrics[number];
    if (check_name(app, "metrics", number, metric->name, error) != 0) {
        return AML_EINPUT;
    }
    bool taken = report_line_owns(metric->name);
    for (unsigned m = 0; m < number; m++) {
        taken = taken || strcmp(app->metrics[m].name, metric->name) == 0;
    }
    if (taken || strspn(metric->name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(metric->name)) {
        return error_set(error, AML_EINPUT,
                         "app %s: metrics[%u].name '%s': expected a-z, 0-9 and _, and no name of another metric or key "
                         "of the report",
                         app->name, number, metric->name);
    }
    if ((unsigned)metric->kind > AML_EXP_MEAN) {
        return error_set(error, AML_EINPUT,
                         "metric %s: kind %u: AML_SUM, AML_MEAN, AML_ROOT_MEAN and AML_EXP_MEAN are possible",
                         metric->name, (unsigned)metric->kind);
    }
    if (metric->evaluated && app->evaluate == NULL) {
        return error_set(error, AML_EINPUT, "metric %s: evaluated 1: the app has no evaluate function", metric->name);
    }
    return 0;
}

/* ---- Items ---- */

static int check_fixed_items(const struct aml_app *app, struct error *error) {
    if (app->item_rows > AML_ITEM_ROWS_MAX) {
        return error_set(error, AML_EINPUT,
                         "app %s: item_rows %u: 0 to %d are possible; several kinds of rows: item_varied", app->name,
                         app->item_rows, AML_ITEM_ROWS_MAX);
    }
    if (app->item_bytes > AML_ITEM_BYTES_MAX) {
        return error_set(error, AML_EINPUT, "app %s: item_bytes %zu: 0 to %d are possible", app->name, app->item_bytes,
                         AML_ITEM_BYTES_MAX);
    }
    if (app->item_rows == 0 && app->item_bytes == 0) {
        return error_set(
            error, AML_EINPUT,
            "app %s: item_rows 0 and item_bytes 0: items would carry nothing: expected one of them above 0, "
            "or item_varied",
            app->name);
    }
    return 0;
}

static int check_items(const struct aml_app *app, struct error *error) {
    if (app->item_varied && (app->item_rows > 0 || app->item_bytes > 0)) {
        return error_set(error, AML_EINPUT,
                         "app %s: item_rows %u and item_bytes %zu: expected 0 for both, as item_varied is set",
                         app->name, app->item_rows, app->item_bytes);
    }
    if (!app->item_varied && check_fixed_items(app, error) != 0) {
        return AML_EINPUT;
    }
    for (unsigned r = 0; r < AML_ITEM_ROWS_MAX; r++) {
        if (r < app->item_rows && app->item_tables[r] >= app->table_count) {
            return error_set(error, AML_EINPUT, "app %s: item_tables[%u] is %u, the app has %u tables", app->name, r,
                             app->item_tables[r], app->table_count);
        }
        if (r >= app->item_rows && app->item_tables[r] != 0) {
            return error_set(error, AML_EINPUT, "app %s: item_tables[%u] is %u, but item_rows is %u: expected 0",
                             app->name, r, app->item_tables[r], app->item_rows);
        }
    }
    return 0;
}

/* ---- Transforms ---- */

/* Checks a transform that takes items of `bytes` bytes. */
static int check_transform(const struct aml_app *app, unsigned number, size_t bytes, struct error *error) {
    const struct aml_transform *transform = &app->transforms[number];
    const char *before = number > 0 ? app->transforms[number - 1].name : NULL;
    if (check_name(app, "transforms", number, transform->name, error) != 0) {
        return AML_EINPUT;
    }
    if ((transform->from == NULL) != (before == NULL) || (before != NULL && strcmp(transform->from, before) != 0)) {
        return error_set(error, AML_EINPUT, "transform %s: from %s: expected %s, as transforms form a chain",
                         transform->name, transform->from != NULL ? transform->from : "NULL",
                         before != NULL ? before : "NULL");
    }
    if (transform->run == NULL) {
        return error_set(error, AML_EINPUT, "transform %s: run is NULL: expected a function", transform->name);
    }
    if ((transform->flags & ~(unsigned)(AML_TRANSFORM_STATE | AML_TRANSFORM_TRAIN)) != 0) {
        return error_set(error, AML_EINPUT,
                         "transform %s: flags %u: AML_TRANSFORM_STATE and AML_TRANSFORM_TRAIN are possible",
                         transform->name, transform->flags);
    }
    if (transform->bytes == 0 || transform->bytes > AML_ITEM_BYTES_MAX) {
        return error_set(error, AML_EINPUT, "transform %s: bytes %zu: 1 to %d are possible", transform->name,
                         transform->bytes, AML_ITEM_BYTES_MAX);
    }
    if ((transform->flags & AML_TRANSFORM_TRAIN) != 0 && number == 0 && app->item_varied) {
        return error_set(
            error, AML_EINPUT,
            "transform %s: expected no AML_TRANSFORM_TRAIN: the first transform makes what is of one size of items "
            "that differ in size",
            transform->name);
    }
    if ((transform->flags & AML_TRANSFORM_TRAIN) != 0 && transform->bytes != bytes) {
        return error_set(error, AML_EINPUT,
                         "transform %s: bytes %zu: expected %zu as in its input, as it is left out for test items "
                         "(AML_TRANSFORM_TRAIN)",
                         transform->name, transform->bytes, bytes);
    }
    for (unsigned s = 0; s < number; s++) {
        if (strcmp(app->transforms[s].name, transform->name) == 0) {
            return error_set(error, AML_EINPUT, "app %s: transforms[%u].name '%s': transforms[%u] has this name too",
                             app->name, number, transform->name, s);
        }
    }
    return 0;
}

static int check_transforms(const struct aml_app *app, struct error *error) {
    size_t bytes = app->item_bytes;
    int result = 0;
    if (app->transforms == NULL || app->transforms[0].name == NULL) {
        return 0;
    }
    if (app->item_rows > 0) {
        return error_set(error, AML_EINPUT, "app %s: transforms: expected items without rows", app->name);
    }
    for (unsigned s = 0; app->transforms[s].name != NULL && result == 0; s++) {
        if (s == AML_TRANSFORMS_MAX) {
            return error_set(error, AML_EINPUT, "app %s: more than %d transforms", app->name, AML_TRANSFORMS_MAX);
        }
        result = check_transform(app, s, bytes, error);
        bytes = app->transforms[s].bytes;
    }
    return result;
}

/* ---- Everything ---- */

static int check_range(const struct aml_app *app, const char *field, int64_t value, int64_t most, struct error *error) {
    return value >= 0 && value <= most ? 0
                                       : error_set(error, AML_EINPUT, "app %s: %s %lld: 0 to %lld are possible",
                                                   app->name, field, (long long)value, (long long)most);
}

static int check_phases(const struct aml_app *app, struct error *error) {
    if (app->phases > 1 && app->transforms != NULL && app->transforms[0].name != NULL) {
        return error_set(error, AML_EINPUT, "app %s: phases %u: expected 0 or 1 with transforms", app->name,
                         app->phases);
    }
    return check_range(app, "phases", app->phases, AML_PHASES_MAX, error);
}

int describe_check(const struct aml_app *app, struct error *error) {
    int result = check_count(app, "table", app->tables, app->table_count, WIRE_TABLES_MAX, error);
    result =
        result != 0 ? result : check_count(app, "metric", app->metrics, app->metric_count, WIRE_METRICS_MAX, error);
    if (result == 0 && app->read == NULL) {
        result =
            error_set(error, AML_EINPUT, "app %s: read is NULL: expected a function that emits the items", app->name);
    }
    if (result == 0 && app->clock == NULL) {
        result =
            error_set(error, AML_EINPUT, "app %s: clock is NULL: expected a function that works on items", app->name);
    }
    for (unsigned t = 0; t < app->table_count && result == 0; t++) {
        result = check_table(app, t, error);
    }
    result = result != 0 ? result : check_states(app, error);
    for (unsigned m = 0; m < app->metric_count && result == 0; m++) {
        result = check_metric(app, m, error);
    }
    result = result != 0 ? result : check_items(app, error);
    result = result != 0 ? result : check_transforms(app, error);
    result = result != 0 ? result : check_range(app, "iterations", app->iterations, DESCRIBE_ITERATIONS_MAX, error);
    result = result != 0
                 ? result
                 : check_range(app, "clocks_per_iteration", app->clocks_per_iteration, DESCRIBE_CLOCKS_MAX, error);
    result = result != 0 ? result : check_phases(app, error);
    result =
        result != 0 ? result : check_range(app, "evaluate_every", app->evaluate_every, DESCRIBE_ITERATIONS_MAX, error);
    result =
        result != 0 ? result : check_range(app, "ssgd_iterations", app->ssgd_iterations, DESCRIBE_CLOCKS_MAX, error);
    return result != 0 ? result : check_steering(app, error);
}
