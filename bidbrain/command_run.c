/* The commands around the daemon: `bidbrain run`, `check-config`, `status`, `prices`, `user-data`. */
#include "agileml/base/log.h"
#include "bidbrain/aws/credentials.h"
#include "bidbrain/command.h"
#include "bidbrain/daemon/daemon.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int finish(int code, const struct error *error) {
    if (code != 0) {
        log_error("%s", error->text);
    }
    return error_exit_status(code);
}

static int read_config(struct config *config, const char *path, struct error *error) {
    return path != NULL ? config_read(config, path, error)
                        : error_set(error, AML_EINPUT, "--config FILE is missing: see docs/bidbrain.md");
}

/* ---- run ---- */

int command_run(int argc, char **argv) {
    struct config config = {0};
    struct daemon_options run = {.config = &config};
    const char *path = NULL;
    bool help = false;
    const struct aml_option options[] = {
        {"config", "FILE", AML_OPTION_STRING, &path, 0, 0, "bidbrain.json, see docs/bidbrain.md"},
        {"dry-run", NULL, AML_OPTION_FLAG, &run.dry_run, 0, 0, "decide once, print it, buy nothing"},
        {"keep", NULL, AML_OPTION_FLAG, &run.keep, 0, 0, "leave the machines when ended by a signal"},
        {"report", "FILE", AML_OPTION_STRING, &run.report, 0, 0, "append lines of JSON: decisions, machines, bills"},
        {"quiet", NULL, AML_OPTION_FLAG, &run.quiet, 0, 0, "warnings and errors only"},
        {"help", NULL, AML_OPTION_FLAG, &help, 0, 0, "print this"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct error error = {0};
    int code = command_options(options, "bidbrain run --config FILE [OPTIONS]", argc, argv, &error);
    if (code == 1) {
        return 0;
    }
    code = code != 0 ? code : read_config(&config, path, &error);
    code = code != 0 ? code : daemon_run(&run, &error);
    config_close(&config);
    return finish(code, &error);
}

/* ---- check-config ---- */

static void print_list(const char *const *list, const char *none) {
    for (size_t i = 0; list[i] != NULL; i++) {
        printf("%s%s", i > 0 ? ", " : "", list[i]);
    }
    printf("%s", list[0] == NULL ? none : "");
}

static void print_markets(const struct config *config) {
    static const char *const calls[] = {"RunInstances", "RequestSpotInstances", "CreateFleet"};
    printf("markets:     types ");
    print_list(config->types, "as in the prices");
    printf("; zones ");
    print_list(config->zones, "all");
    printf("; at least %" PRId64 " vCPUs, %g GiB; %s\n", config->vcpus_min, config->memory_min, config->product);
    if (config->provider == CONFIG_EC2) {
        printf("launches:    %s, image %s, launch template %s\n", calls[config->call],
               config->image != NULL ? config->image : "-",
               config->launch_template != NULL ? config->launch_template : "-");
    }
}

static void print_limit(const char *what, double value) {
    if (isfinite(value)) {
        printf("; %s%g", what, value);
    }
}

static void print_limits(const struct config *config) {
    printf("reliable:    %" PRId64 " x %s on demand in %s%s\n", config->reliable, config->reliable_type,
           config->reliable_zone != NULL ? config->reliable_zone : config->region,
           config->reliable == 0 ? " (the operator's)" : "");
    printf("limits:      %g vCPUs, %" PRId64 " machines, %" PRId64 " markets at least", config->most_vcpus,
           config->most_machines, config->least_markets);
    print_limit("$/h ", config->most_dollars_per_hour);
    print_limit("budget $", config->budget_dollars);
    printf("; cool-down %" PRId64 " s%s\n", config->cooldown_seconds,
           config->on_demand_fallback ? "; on demand when spot is too dear" : "");
}

static void credentials_told(void *context, const struct credentials_value *value, const char *why) {
    (void)context;
    if (value != NULL) {
        printf("credentials: %s\n", value->source);
    } else {
        printf("credentials: none: %s\n", why);
    }
    *(bool *)context = true;
}

static int print_credentials(struct error *error) {
    struct http *http;
    struct credentials *credentials;
    bool told = false;
    int code = http_open(&http, error);
    if (code != 0) {
        return code;
    }
    code = credentials_open(&credentials, http, error);
    if (code == 0) {
        credentials_get(credentials, credentials_told, &told);
        while (!told) {
            int wait = http_wait_ms(http);
            usleep((useconds_t)(wait >= 0 && wait < 20 ? wait : 20) * 1000);
            http_step(http);
        }
        credentials_close(credentials);
    }
    http_close(http);
    return code;
}

static int print_config(const struct config *config, const char *path, struct error *error) {
    char region[MARKET_TEXT_MAX];
    config_region(config, region);
    printf("%s is well\n", path);
    printf("job:         %s, controller %s%s%s\n", config->job, config->controller, config->key != NULL ? ", key " : "",
           config->key != NULL ? config->key : "");
    printf("provider:    %s, model %s, region %s%s%s\n", config->provider == CONFIG_LOCAL ? "local" : "ec2",
           market_model_name(config->model), region, config->endpoint != NULL ? ", endpoint " : "",
           config->endpoint != NULL ? config->endpoint : "");
    printf("state:       %s\n", config->state);
    printf("node:        %s (%s) ", config->app, config->binary);
    print_list(config->arguments, "");
    printf("\n");
    print_markets(config);
    print_limits(config);
    return config->provider == CONFIG_EC2 ? print_credentials(error) : 0;
}

int command_check_config(int argc, char **argv) {
    struct config config = {0};
    struct error error = {0};
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf(
            "usage: bidbrain check-config FILE\n\nChecks a configuration of 'bidbrain run' and tells what it would do. "
            "Buys nothing.\n");
        return 0;
    }
    if (argc != 2 || argv[1][0] == '-') {
        return finish(AML_EINPUT, &(struct error){.text = "check-config: expected 'bidbrain check-config FILE'"});
    }
    int code = config_read(&config, argv[1], &error);
    code = code != 0 ? code : print_config(&config, argv[1], &error);
    config_close(&config);
    return finish(code, &error);
}

/* ---- status ---- */

int command_status(int argc, char **argv) {
    struct config config = {0};
    const char *path = NULL;
    bool json = false;
    bool help = false;
    const struct aml_option options[] = {
        {"config", "FILE", AML_OPTION_STRING, &path, 0, 0, "bidbrain.json, see docs/bidbrain.md"},
        {"json", NULL, AML_OPTION_FLAG, &json, 0, 0, "lines of JSON: a machine each, then the whole"},
        {"help", NULL, AML_OPTION_FLAG, &help, 0, 0, "print this"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct error error = {0};
    int code = command_options(options, "bidbrain status --config FILE [OPTIONS]", argc, argv, &error);
    if (code == 1) {
        return 0;
    }
    code = code != 0 ? code : read_config(&config, path, &error);
    code = code != 0 ? code : daemon_status(&config, json, &error);
    config_close(&config);
    return finish(code, &error);
}

/* ---- prices ---- */

int command_fetch_prices(int argc, char **argv) {
    struct config config = {0};
    const char *path = NULL;
    const char *store = NULL;
    uint64_t points = 0;
    bool help = false;
    const struct aml_option options[] = {
        {"config", "FILE", AML_OPTION_STRING, &path, 0, 0, "bidbrain.json, see docs/bidbrain.md"},
        {"store", "FILE", AML_OPTION_STRING, &store, 0, 0,
         "where to put them, a name that ends in .db (not given: where 'bidbrain run' does)"},
        {"help", NULL, AML_OPTION_FLAG, &help, 0, 0, "print this"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct error error = {0};
    int code = command_options(options, "bidbrain prices --config FILE [OPTIONS]", argc, argv, &error);
    if (code == 1) {
        return 0;
    }
    size_t length = store != NULL ? strlen(store) : 0;
    if (code == 0 && store != NULL && (length < 4 || strcmp(store + length - 3, ".db") != 0)) {
        code = error_set(&error, AML_EINPUT, "--store: expected a name that ends in .db, got '%.100s'", store);
    }
    code = code != 0 ? code : read_config(&config, path, &error);
    char *own = code == 0 && store == NULL ? daemon_price_path(config.state) : NULL;
    code = code != 0 ? code : daemon_fetch_prices(&config, store != NULL ? store : own, &points, &error);
    if (code == 0) {
        printf("%s: %" PRIu64 " points were told and are kept\n", store != NULL ? store : own, points);
    }
    free(own);
    config_close(&config);
    return finish(code, &error);
}

/* ---- user-data ---- */

int command_user_data(int argc, char **argv) {
    struct config config = {0};
    const char *path = NULL;
    char *text = NULL;
    bool reliable = false;
    bool help = false;
    const struct aml_option options[] = {
        {"config", "FILE", AML_OPTION_STRING, &path, 0, 0, "bidbrain.json, see docs/bidbrain.md"},
        {"reliable", NULL, AML_OPTION_FLAG, &reliable, 0, 0, "of a reliable node (not given: a transient one)"},
        {"help", NULL, AML_OPTION_FLAG, &help, 0, 0, "print this"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct error error = {0};
    int code = command_options(options, "bidbrain user-data --config FILE [OPTIONS]", argc, argv, &error);
    if (code == 1) {
        return 0;
    }
    code = code != 0 ? code : read_config(&config, path, &error);
    code = code != 0 ? code : daemon_user_data(&config, reliable, &text, &error);
    if (text != NULL) {
        fputs(text, stdout);
        fflush(stdout);
        explicit_bzero(text, strlen(text)); /* it holds a token */
        free(text);
    }
    config_close(&config);
    return finish(code, &error);
}
