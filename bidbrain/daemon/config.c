/* See config.h. Each object has a table of its keys: the key, its kind of value, and where the value goes. */
#include "bidbrain/daemon/config.h"

#include "agileml/base/instant.h"
#include "agileml/base/memory.h"
#include "agileml/base/options.h"
#include "bidbrain/market/market_read.h"
#include "bidbrain/policy/portfolio.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COOLDOWN_BY_MODEL = -1 /* no value was given */
};

enum config_kind {
    CONFIG_END,
    CONFIG_STRING,
    CONFIG_PATH,
    CONFIG_INTEGER,
    CONFIG_REAL,
    CONFIG_BOOL,
    CONFIG_LIST,   /* a list of strings */
    CONFIG_CHOICE, /* one of `choices`, its index into an int */
    CONFIG_OTHER   /* read by `read` */
};

struct reading;

struct config_key {
    const char *name;
    enum config_kind kind;
    void *target;
    double least, most;
    const char *const *choices; /* NULL at the end */
    int (*read)(struct reading *reading, const char *path, const json_t *value);
    bool needed;
};

struct reading {
    struct config *config;
    struct findings *findings;
};

/* ---- Values ---- */

static bool text_is_plain(const char *text) {
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 127) {
            return false;
        }
    }
    return true;
}

/* Reads a string that has no control characters and is not empty. */
static int read_text(const struct reading *reading, const char *path, const json_t *value, const char **text) {
    const char *string = json_string_value(value);
    if (string == NULL || string[0] == '\0' || strlen(string) != json_string_length(value) || !text_is_plain(string)) {
        return findings_error(reading->findings, path,
                              "expected a string of at least one character, without control characters");
    }
    *text = string;
    return 0;
}

static int read_path(struct reading *reading, const char *path, const json_t *value, const char **target) {
    struct config *config = reading->config;
    const char *text = NULL;
    int code = read_text(reading, path, value, &text);
    if (code != 0) {
        return code;
    }
    const char *slash = strrchr(reading->findings->file, '/');
    size_t folder = slash != NULL && text[0] != '/' ? (size_t)(slash - reading->findings->file) + 1 : 0;
    char *full = memory_zeroed(folder + strlen(text) + 1, 1);
    memcpy(full, reading->findings->file, folder);
    strcpy(full + folder, text);
    config->memory.paths[config->memory.path_count++] = full;
    *target = full;
    return 0;
}

static int read_list(struct reading *reading, const char *path, const json_t *value, const char ***target) {
    struct config *config = reading->config;
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count > CONFIG_LIST_MAX) {
        return findings_error(reading->findings, path, "expected a list of at most %d strings", CONFIG_LIST_MAX);
    }
    const char **list = memory_zeroed(count + 1, sizeof *list);
    config->memory.lists[config->memory.list_count++] = list;
    int code = 0;
    for (size_t i = 0; i < count; i++) {
        char entry[128];
        snprintf(entry, sizeof entry, "%.100s[%zu]", path, i);
        code |= read_text(reading, entry, json_array_get(value, i), &list[i]);
    }
    *target = list;
    return code;
}

static int read_number(const struct reading *reading, const char *path, const json_t *value,
                       const struct config_key *key) {
    bool whole = key->kind == CONFIG_INTEGER;
    double number = json_number_value(value);
    if (!(whole ? json_is_integer(value) : json_is_number(value)) || !(number >= key->least && number <= key->most)) {
        return findings_error(reading->findings, path, "expected a%s number from %.10g to %.10g", whole ? " whole" : "",
                              key->least, key->most);
    }
    if (whole) {
        *(int64_t *)key->target = json_integer_value(value);
    } else {
        *(double *)key->target = number;
    }
    return 0;
}

static int read_choice(const struct reading *reading, const char *path, const json_t *value,
                       const struct config_key *key) {
    char all[200] = "";
    const char *text = json_string_value(value);
    for (int c = 0; key->choices[c] != NULL; c++) {
        if (text != NULL && strcmp(text, key->choices[c]) == 0) {
            *(int *)key->target = c;
            return 0;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s\"%s\"", c == 0 ? "" : ", ", key->choices[c]);
    }
    return findings_error(reading->findings, path, "expected one of %s", all);
}

static int read_value(struct reading *reading, const struct config_key *key, const char *path, const json_t *value) {
    switch (key->kind) {
    case CONFIG_STRING:
        return read_text(reading, path, value, key->target);
    case CONFIG_PATH:
        return read_path(reading, path, value, key->target);
    case CONFIG_INTEGER:
    case CONFIG_REAL:
        return read_number(reading, path, value, key);
    case CONFIG_BOOL:
        if (!json_is_boolean(value)) {
            return findings_error(reading->findings, path, "expected true or false");
        }
        *(bool *)key->target = json_is_true(value);
        return 0;
    case CONFIG_LIST:
        return read_list(reading, path, value, key->target);
    case CONFIG_CHOICE:
        return read_choice(reading, path, value, key);
    default:
        return key->read(reading, path, value);
    }
}

/* ---- Objects ---- */

static void key_path(const char *prefix, const char *name, char path[128]) {
    snprintf(path, 128, "%.60s%s%.60s", prefix, prefix[0] != '\0' ? "." : "", name);
}

static int unknown_key(const struct reading *reading, const struct config_key *keys, const char *path,
                       const char *name) {
    const char *near = NULL;
    size_t limit = OPTIONS_SUGGESTION_DISTANCE + 1;
    size_t length = strlen(name);
    for (const struct config_key *key = keys; key->kind != CONFIG_END && length < OPTIONS_NAME_MAX; key++) {
        size_t distance = options_distance(name, length, key->name, strlen(key->name));
        if (distance < limit) {
            limit = distance;
            near = key->name;
        }
    }
    return near != NULL ? findings_error(reading->findings, path, "unknown key; did you mean \"%s\"?", near)
                        : findings_error(reading->findings, path, "unknown key");
}

/* Goes on after a mistake, to find all mistakes. */
static int read_object(struct reading *reading, const char *prefix, const json_t *object,
                       const struct config_key *keys) {
    const char *name;
    json_t *value;
    char path[128];
    int code = 0;
    if (!json_is_object(object)) {
        return findings_error(reading->findings, prefix[0] != '\0' ? prefix : "the whole", "expected an object, {...}");
    }
    json_object_foreach((json_t *)object, name, value) {
        const struct config_key *key = keys;
        while (key->kind != CONFIG_END && strcmp(key->name, name) != 0) {
            key++;
        }
        key_path(prefix, name, path);
        code |=
            key->kind != CONFIG_END ? read_value(reading, key, path, value) : unknown_key(reading, keys, path, name);
    }
    for (const struct config_key *key = keys; key->kind != CONFIG_END; key++) {
        if (key->needed && json_object_get(object, key->name) == NULL) {
            key_path(prefix, key->name, path);
            code = findings_error(reading->findings, path, "is missing");
        }
    }
    return code;
}

static int read_clock(struct reading *reading, const char *path, const json_t *value) {
    struct config_clock *clock = &reading->config->clock;
    const char *start = NULL;
    const struct config_key keys[] = {
        {.name = "start", .kind = CONFIG_STRING, .target = &start, .needed = true},
        {.name = "speed", .kind = CONFIG_REAL, .target = &clock->speed, .least = 1e-3, .most = 1e5},
        {0},
    };
    if (json_is_string(value)) {
        int code = read_text(reading, path, value, &clock->url);
        bool url = code == 0 && (strncmp(clock->url, "http://", 7) == 0 || strncmp(clock->url, "https://", 8) == 0);
        return code != 0 || url ? code : findings_error(reading->findings, path, "expected http://... or https://...");
    }
    int code = read_object(reading, path, value, keys);
    if (code == 0 && !instant_parse(start, &clock->start)) {
        code = findings_error(reading->findings, "clock.start", "expected a time such as 2016-03-01T00:00:00Z");
    }
    return code;
}

static int read_markets(struct reading *reading, const char *path, const json_t *value) {
    struct config_markets *markets = &reading->config->markets;
    const struct config_key keys[] = {
        {.name = "types", .kind = CONFIG_LIST, .target = &markets->types},
        {.name = "zones", .kind = CONFIG_LIST, .target = &markets->zones},
        {.name = "product", .kind = CONFIG_STRING, .target = &markets->product},
        {0},
    };
    return read_object(reading, path, value, keys);
}

static int read_subnets(struct reading *reading, const char *path, const json_t *value) {
    const char *zone;
    json_t *id;
    int code = 0;
    if (!json_is_object(value)) {
        return findings_error(reading->findings, path, "expected an object of zones and subnet ids");
    }
    json_object_foreach((json_t *)value, zone, id) {
        char entry[128];
        const char *text = NULL;
        key_path(path, zone, entry);
        code |= read_text(reading, entry, id, &text);
    }
    reading->config->launch.subnets = value;
    return code;
}

static const char *const CALLS[] = {"run-instances", "request-spot-instances", "create-fleet", NULL};

static int read_launch(struct reading *reading, const char *path, const json_t *value) {
    struct config_launch *launch = &reading->config->launch;
    int call = (int)launch->call;
    const struct config_key keys[] = {
        {.name = "call", .kind = CONFIG_CHOICE, .target = &call, .choices = CALLS},
        {.name = "image", .kind = CONFIG_STRING, .target = &launch->image},
        {.name = "subnets", .kind = CONFIG_OTHER, .read = read_subnets},
        {.name = "security_groups", .kind = CONFIG_LIST, .target = &launch->security_groups},
        {.name = "key_name", .kind = CONFIG_STRING, .target = &launch->key_name},
        {.name = "instance_profile", .kind = CONFIG_STRING, .target = &launch->instance_profile},
        {.name = "launch_template", .kind = CONFIG_STRING, .target = &launch->launch_template},
        {.name = "user_data", .kind = CONFIG_PATH, .target = &launch->user_data},
        {0},
    };
    int code = read_object(reading, path, value, keys);
    launch->call = (enum provider_call)call;
    return code;
}

static int read_node(struct reading *reading, const char *path, const json_t *value) {
    struct config_node *node = &reading->config->node;
    const struct config_key keys[] = {
        {.name = "app", .kind = CONFIG_STRING, .target = &node->app, .needed = true},
        {.name = "binary", .kind = CONFIG_STRING, .target = &node->binary, .needed = true},
        {.name = "arguments", .kind = CONFIG_LIST, .target = &node->arguments},
        {.name = "threads", .kind = CONFIG_INTEGER, .target = &node->threads, .most = 4096},
        {0},
    };
    return read_object(reading, path, value, keys);
}

static int read_on_demand(struct reading *reading, const char *path, const json_t *value) {
    struct config_reliable *reliable = &reading->config->reliable;
    const struct config_key keys[] = {
        {.name = "type", .kind = CONFIG_STRING, .target = &reliable->type, .needed = true},
        {.name = "zone", .kind = CONFIG_STRING, .target = &reliable->zone},
        {.name = "count", .kind = CONFIG_INTEGER, .target = &reliable->count, .most = PROVIDER_COUNT_MAX},
        {0},
    };
    return read_object(reading, path, value, keys);
}

static int read_application(struct reading *reading, const char *path, const json_t *value) {
    struct config_application *app = &reading->config->application;
    const struct config_key keys[] = {
        {.name = "work_vcpu_hours", .kind = CONFIG_REAL, .target = &app->work_vcpu_hours, .most = 1e12},
        {.name = "phi", .kind = CONFIG_REAL, .target = &app->phi, .least = 1e-3, .most = 1},
        {.name = "sigma_seconds", .kind = CONFIG_REAL, .target = &app->sigma_seconds, .most = 1e5},
        {.name = "lambda_seconds", .kind = CONFIG_REAL, .target = &app->lambda_seconds, .most = 1e5},
        {.name = "checkpoint_seconds", .kind = CONFIG_REAL, .target = &app->checkpoint_seconds, .most = 1e7},
        {.name = "measure", .kind = CONFIG_BOOL, .target = &app->measure},
        {.name = "measure_speeds", .kind = CONFIG_BOOL, .target = &app->measure_speeds},
        {.name = "probe_types", .kind = CONFIG_INTEGER, .target = &app->probe_types, .most = PORTFOLIO_PROBES_MAX},
        {.name = "speed_seconds", .kind = CONFIG_REAL, .target = &app->speed_seconds, .least = 1, .most = 86400},
        {0},
    };
    return read_object(reading, path, value, keys);
}

static int read_deadline(struct reading *reading, const char *path, const json_t *value) {
    const char *text = NULL;
    int code = read_text(reading, path, value, &text);
    if (code == 0 && !instant_parse(text, &reading->config->limits.deadline)) {
        code = findings_error(reading->findings, path, "expected a time such as 2026-03-01T18:00:00Z");
    }
    return code;
}

static int read_limits(struct reading *reading, const char *path, const json_t *value) {
    struct config_limits *limits = &reading->config->limits;
    struct config_markets *markets = &reading->config->markets;
    const struct config_key keys[] = {
        {.name = "most_vcpus",
         .kind = CONFIG_REAL,
         .target = &limits->most_vcpus,
         .least = 1,
         .most = 1e9,
         .needed = true},
        {.name = "most_machines", .kind = CONFIG_INTEGER, .target = &limits->most_machines, .least = 1, .most = 1e5},
        {.name = "least_markets", .kind = CONFIG_INTEGER, .target = &limits->least_markets, .least = 1, .most = 1000},
        {.name = "most_dollars_per_hour", .kind = CONFIG_REAL, .target = &limits->most_dollars_per_hour, .most = 1e9},
        {.name = "budget_dollars", .kind = CONFIG_REAL, .target = &limits->budget_dollars, .most = 1e9},
        {.name = "cooldown_seconds", .kind = CONFIG_INTEGER, .target = &limits->cooldown_seconds, .most = 1e6},
        {.name = "deadline", .kind = CONFIG_OTHER, .read = read_deadline},
        {.name = "hour_worth_dollars", .kind = CONFIG_REAL, .target = &limits->hour_worth, .most = 1e9},
        {.name = "vcpus_min", .kind = CONFIG_INTEGER, .target = &markets->vcpus_min, .least = 1, .most = 1000},
        {.name = "memory_min", .kind = CONFIG_REAL, .target = &markets->memory_min, .most = 1e5},
        {0},
    };
    return read_object(reading, path, value, keys);
}

static const char *const PROVIDERS[] = {"ec2", "local", NULL};
static const char *const MODELS[] = {"ec2-2016", "ec2", NULL};
static const struct market_rules *const RULES[] = {&MARKET_EC2_2016, &MARKET_EC2};

static int read_root(struct reading *reading) {
    struct config *c = reading->config;
    int provider = 0;
    int model = c->rules == RULES[1];
    struct config_periods *periods = &c->periods;
    const struct config_key keys[] = {
        {.name = "job", .kind = CONFIG_STRING, .target = &c->job, .needed = true},
        {.name = "provider", .kind = CONFIG_CHOICE, .target = &provider, .choices = PROVIDERS, .needed = true},
        {.name = "state", .kind = CONFIG_PATH, .target = &c->state},
        {.name = "folder", .kind = CONFIG_PATH, .target = &c->folder},
        {.name = "region", .kind = CONFIG_STRING, .target = &c->region},
        {.name = "endpoint", .kind = CONFIG_STRING, .target = &c->endpoint},
        {.name = "clock", .kind = CONFIG_OTHER, .read = read_clock},
        {.name = "model", .kind = CONFIG_CHOICE, .target = &model, .choices = MODELS},
        {.name = "prices", .kind = CONFIG_PATH, .target = &c->prices},
        {.name = "catalog", .kind = CONFIG_PATH, .target = &c->catalog},
        {.name = "interruptions", .kind = CONFIG_STRING, .target = &c->interruptions},
        {.name = "markets", .kind = CONFIG_OTHER, .read = read_markets},
        {.name = "launch", .kind = CONFIG_OTHER, .read = read_launch},
        {.name = "node", .kind = CONFIG_OTHER, .read = read_node, .needed = true},
        {.name = "controller", .kind = CONFIG_STRING, .target = &c->controller, .needed = true},
        {.name = "key", .kind = CONFIG_PATH, .target = &c->key},
        {.name = "insecure", .kind = CONFIG_BOOL, .target = &c->insecure},
        {.name = "on_demand", .kind = CONFIG_OTHER, .read = read_on_demand, .needed = true},
        {.name = "application", .kind = CONFIG_OTHER, .read = read_application},
        {.name = "limits", .kind = CONFIG_OTHER, .read = read_limits, .needed = true},
        {.name = "decision_seconds",
         .kind = CONFIG_INTEGER,
         .target = &periods->decision_seconds,
         .least = 1,
         .most = HOUR / 2},
        {.name = "list_seconds", .kind = CONFIG_INTEGER, .target = &periods->list_seconds, .least = 1, .most = HOUR},
        {.name = "price_seconds", .kind = CONFIG_INTEGER, .target = &periods->price_seconds, .least = 1, .most = HOUR},
        {.name = "notice_seconds", .kind = CONFIG_INTEGER, .target = &periods->notice_seconds, .most = HOUR / 2},
        {.name = "on_demand_fallback", .kind = CONFIG_BOOL, .target = &c->on_demand_fallback},
        {0},
    };
    int code = read_object(reading, "", c->memory.root, keys);
    c->provider = (enum config_provider)provider;
    c->rules = RULES[model];
    return code;
}

/* ---- The whole ---- */

static const char *const NONE[] = {NULL};

static void set_defaults(struct config *config) {
    const char **none = (const char **)NONE;
    *config = (struct config){
        .rules = &MARKET_EC2,
        .interruptions = "none",
        .clock = {.speed = 1},
        .markets = {.types = none, .zones = none, .product = MARKET_PRODUCT, .vcpus_min = 2, .memory_min = 3},
        .launch = {.security_groups = none},
        .node = {.arguments = none},
        .reliable = {.count = 1},
        .application = {.phi = 1,
                        .sigma_seconds = 30,
                        .lambda_seconds = 60,
                        .measure = true,
                        .measure_speeds = true,
                        .probe_types = PORTFOLIO_PROBES_DEFAULT,
                        .speed_seconds = 60},
        .limits = {.most_dollars_per_hour = INFINITY,
                   .budget_dollars = INFINITY,
                   .most_machines = 1000,
                   .least_markets = 1,
                   .cooldown_seconds = COOLDOWN_BY_MODEL},
        .periods = {.decision_seconds = 120, .list_seconds = 15, .price_seconds = 60, .notice_seconds = 120}};
}

/* Fills in missing values from the given ones. */
static int derive_defaults(struct reading *reading) {
    struct config *config = reading->config;
    const struct {
        const char **target;
        const char *key, *name;
    } paths[] = {{&config->state, "state", "bidbrain.db"}, {&config->folder, "folder", "machines"}};
    int code = 0;
    if (config->limits.cooldown_seconds ==
        COOLDOWN_BY_MODEL) { /* in 2016's markets the price shows the end of a spike */
        config->limits.cooldown_seconds = config->rules->cooldown_seconds;
    }
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
        if (*paths[p].target == NULL) {
            json_t *name = json_string(paths[p].name);
            code |= read_path(reading, paths[p].key, name, paths[p].target);
            json_decref(name);
        }
    }
    config->application.measure_speeds = config->application.measure_speeds && config->application.measure;
    if (config->reliable.zone == NULL) {
        config->reliable.zone = config->markets.zones[0];
    }
    return code;
}

/* Reads the keys and their values. Returns 0, or AML_EINPUT if their meaning together can't be judged. */
static int read_text_of_file(struct config *config, const char *text, size_t size, struct findings *findings) {
    json_error_t wrong;
    struct reading reading = {config, findings};
    set_defaults(config);
    config->memory.root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &wrong);
    if (config->memory.root == NULL) {
        char line[ERROR_TEXT_MAX];
        snprintf(line, sizeof line, "%.200s:%d: %.200s", findings->file, wrong.line > 0 ? wrong.line : 1, wrong.text);
        return findings_error_text(findings, line);
    }
    int code = read_root(&reading);
    return code | derive_defaults(&reading);
}

int config_parse(struct config *config, const char *text, size_t size, struct findings *findings) {
    if (read_text_of_file(config, text, size, findings) == 0) {
        config_check(config, findings);
    }
    return findings->errors > 0 ? AML_EINPUT : 0;
}

int config_read(struct config *config, struct findings *findings) {
    struct error error = {0};
    set_defaults(config);
    FILE *file = fopen(findings->file, "re");
    if (file == NULL) {
        error_set(&error, AML_EINPUT, "%.300s: %s", findings->file, strerror(errno));
        return findings_error_text(findings, error.text);
    }
    char *text = memory_zeroed(CONFIG_BYTES_MAX + 1, 1);
    size_t size = fread(text, 1, CONFIG_BYTES_MAX + 1, file);
    bool failed = ferror(file) != 0;
    int code = 0;
    fclose(file);
    if (failed || size > CONFIG_BYTES_MAX) {
        error_set(&error, AML_EINPUT, "%.300s: %s", findings->file,
                  failed ? "can't be read" : "larger than a configuration may be (1 MiB)");
        code = findings_error_text(findings, error.text);
    }
    code = code != 0 ? code : read_text_of_file(config, text, size, findings);
    free(text);
    if (code == 0) {
        config_check(config, findings);
        config_check_files(config, findings);
    }
    return findings->errors > 0 ? AML_EINPUT : 0;
}

void config_close(struct config *config) {
    for (size_t p = 0; p < config->memory.path_count; p++) {
        free(config->memory.paths[p]);
    }
    for (size_t l = 0; l < config->memory.list_count; l++) {
        free(config->memory.lists[l]);
    }
    catalog_close(&config->known);
    json_decref(config->memory.root);
    *config = (struct config){0};
}
