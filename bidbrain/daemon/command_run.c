/* The daemon's commands: `bidbrain run`, `check-config`, `status`, `prices`, `user-data`. */
#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "bidbrain/daemon/command.h"
#include "bidbrain/market/command.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int read_config(struct config *config, const char *path, struct error *error) {
    if (path == NULL) {
        return error_set(error, AML_EINPUT, "--config FILE is missing: docs/bidbrain.md describes the file");
    }
    struct findings findings = {.file = path};
    (void)config_read(config, &findings);
    int code = findings_first(&findings, error);
    findings_close(&findings);
    return code;
}

/* ---- run ---- */

int command_run(int argc, char **argv) {
    return command_run_watched(argc, argv, NULL);
}

int command_run_watched(int argc, char **argv, void (*launch_step)(enum daemon_launch_step step)) {
    struct config config = {0};
    struct daemon_options run = {.config = &config, .launch_step = launch_step};
    const char *path = NULL;
    const char *deadline = NULL;
    bool help = false;
    struct log_options log = {0};
    const struct aml_option options[] = {
        {"config", "FILE", AML_OPTION_STRING, &path, 0, 0, "bidbrain.json, see docs/bidbrain.md"},
        {"deadline", "TIME", AML_OPTION_STRING, &deadline, 0, 0,
         "when the job has to be finished, such as 2026-03-01T18:00:00Z, in place of limits.deadline"},
        {"dry-run", NULL, AML_OPTION_FLAG, &run.dry_run, 0, 0, "decide once, print it, buy nothing"},
        {"keep", NULL, AML_OPTION_FLAG, &run.keep, 0, 0, "leave the machines when ended by a signal"},
        {"report", "FILE", AML_OPTION_STRING, &run.report, 0, 0, "append lines of JSON: decisions, machines, bills"},
        {"no-bill", NULL, AML_OPTION_FLAG, &run.no_bill, 0, 0, "don't print the bill at the end; the report has it"},
        {"quiet", NULL, AML_OPTION_FLAG, &run.quiet, 0, 0, "warnings and errors only"},
        {"help", "[TOPIC]", AML_OPTION_FLAG, &help, 0, 0, "this text, or a topic's options"},
        WEB_OPTIONS(run.http),
        {"insecure", NULL, AML_OPTION_FLAG, &run.http.insecure, 0, 0,
         "allow --http on other addresses without a token"},
        LOG_OPTIONS(log),
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct error error = {0};
    int code = command_options(options, "usage: bidbrain run --config FILE [OPTIONS]", argc, argv, &error);
    if (code == 1) {
        return 0;
    }
    code = code != 0 ? code : log_set_up(&log, &error);
    code = code != 0 ? code : web_check(&run.http, &error);
    code = code != 0 ? code : read_config(&config, path, &error);
    if (code == 0 && deadline != NULL && !instant_parse(deadline, &config.limits.deadline)) {
        code = error_set(&error, AML_EINPUT, "--deadline: expected a time such as 2026-03-01T18:00:00Z, got '%.60s'",
                         deadline);
    }
    code = code != 0 ? code : daemon_run(&run, &error);
    config_close(&config);
    return command_end(code, &error);
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
    print_list(config->markets.types, "as in the prices");
    printf("; zones ");
    print_list(config->markets.zones, "all");
    printf("; at least %" PRId64 " vCPUs, %g GiB; %s\n", config->markets.vcpus_min, config->markets.memory_min,
           config->markets.product);
    if (config->provider == CONFIG_EC2) {
        printf("launches:    %s, image %s, launch template %s\n", calls[config->launch.call],
               config->launch.image != NULL ? config->launch.image : "-",
               config->launch.launch_template != NULL ? config->launch.launch_template : "-");
    }
}

static void print_limit(const char *what, double value) {
    if (isfinite(value)) {
        printf("; %s%g", what, value);
    }
}

static void print_limits(const struct config *config) {
    printf("reliable:    %" PRId64 " x %s on demand in %s%s\n", config->reliable.count, config->reliable.type,
           config->reliable.zone != NULL ? config->reliable.zone : config->region,
           config->reliable.count == 0 ? " (the operator's, or none: then of 2 markets at least)" : "");
    printf("limits:      %g vCPUs, %" PRId64 " machines, %" PRId64 " markets at least", config->limits.most_vcpus,
           config->limits.most_machines, config->limits.least_markets);
    print_limit("$/h ", config->limits.most_dollars_per_hour);
    print_limit("budget $", config->limits.budget_dollars);
    printf("; cool-down %" PRId64 " s%s\n", config->limits.cooldown_seconds,
           config->on_demand_fallback ? "; on demand when spot is too dear" : "");
}

static void print_config(const struct config *config, const char *path) {
    char region[MARKET_TEXT_MAX];
    config_region(config, region);
    printf("%s is well\n", path);
    printf("job:         %s, controller %s%s%s\n", config->job, config->controller, config->key != NULL ? ", key " : "",
           config->key != NULL ? config->key : "");
    printf("provider:    %s, model %s, region %s%s%s\n", config->provider == CONFIG_LOCAL ? "local" : "ec2",
           config->rules->name, region, config->endpoint != NULL ? ", endpoint " : "",
           config->endpoint != NULL ? config->endpoint : "");
    printf("state:       %s\n", config->state);
    printf("node:        %s (%s) ", config->node.app, config->node.binary);
    print_list(config->node.arguments, "");
    printf("\n");
    print_markets(config);
    print_limits(config);
}

/* Prints the findings to standard error, one per line. Returns whether there is no error among them. */
static bool print_findings(const struct findings *findings) {
    for (size_t f = 0; f < findings->count; f++) {
        if (findings->list[f].warning) {
            log_warn("%s", findings->list[f].text);
        } else {
            log_error("%s", findings->list[f].text);
        }
    }
    return findings->errors == 0;
}

static int check_config(const char *path, bool online) {
    struct config config = {0};
    struct findings findings = {.file = path};
    char *well = NULL; /* lines about what is right */
    size_t size = 0;
    FILE *stream = open_memstream(&well, &size);
    if (stream == NULL) {
        return command_end(AML_EFAIL, &(struct error){.text = "no memory"});
    }
    if (config_read(&config, &findings) == 0) {
        daemon_check(&config, online, stream, &findings);
    }
    fclose(stream);
    bool good = print_findings(&findings);
    if (good) {
        print_config(&config, path);
        fputs(well, stdout);
    }
    free(well);
    findings_close(&findings);
    config_close(&config);
    return good ? 0 : error_exit_status(AML_EINPUT);
}

int command_check_config(int argc, char **argv) {
    const char *path = NULL;
    bool online = false;
    bool help = false;
    bool wrong = false;
    for (int a = 1; a < argc; a++) {
        if (strcmp(argv[a], "--online") == 0) {
            online = true;
        } else if (strcmp(argv[a], "--help") == 0 || strcmp(argv[a], "-h") == 0) {
            help = true;
        } else {
            wrong = wrong || argv[a][0] == '-' || path != NULL;
            path = argv[a];
        }
    }
    if (help) {
        printf(
            "usage: bidbrain check-config FILE [--online]\n\n"
            "Checks a configuration of 'bidbrain run', and the files and credentials that it needs: one line for each\n"
            "mistake, then exit status 2. Otherwise it prints what 'run' would do. Buys and changes nothing.\n\n"
            "  --online   also asks EC2 whether the credentials, image, subnets, security groups and launch template\n"
            "             are good, whether launches and terminations would be allowed (DryRun), whether there are\n"
            "             prices for the types, zones and product, and whether this computer's clock is right\n"
            "  --help     print this\n");
        return 0;
    }
    if (wrong || path == NULL) {
        return command_end(AML_EINPUT,
                           &(struct error){.text = "check-config: expected 'bidbrain check-config FILE [--online]'"});
    }
    return check_config(path, online);
}

/* ---- status ---- */

int command_status(int argc, char **argv) {
    struct config config = {0};
    const char *path = NULL;
    bool json = false;
    bool help = false;
    const struct aml_option options[] = {
        {"config", "FILE", AML_OPTION_STRING, &path, 0, 0, "bidbrain.json, see docs/bidbrain.md"},
        {"json", NULL, AML_OPTION_FLAG, &json, 0, 0, "print lines of JSON: one for each machine, then the totals"},
        {"help", NULL, AML_OPTION_FLAG, &help, 0, 0, "print this"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct error error = {0};
    int code = command_options(options, "usage: bidbrain status --config FILE [OPTIONS]", argc, argv, &error);
    if (code == 1) {
        return 0;
    }
    code = code != 0 ? code : read_config(&config, path, &error);
    code = code != 0 ? code : daemon_status(&config, json, &error);
    config_close(&config);
    return command_end(code, &error);
}

/* ---- prices ---- */

int command_fetch_prices(int argc, char **argv) {
    struct config config = {0};
    const char *path = NULL;
    const char *store = NULL;
    struct daemon_prices prices = {0};
    bool help = false;
    const struct aml_option options[] = {
        {"config", "FILE", AML_OPTION_STRING, &path, 0, 0, "bidbrain.json, see docs/bidbrain.md"},
        {"store", "FILE", AML_OPTION_STRING, &store, 0, 0,
         "where to put the prices, a name that ends in .db (not given: the store of 'bidbrain run')"},
        {"help", NULL, AML_OPTION_FLAG, &help, 0, 0, "print this"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct error error = {0};
    int code = command_options(options, "usage: bidbrain prices --config FILE [OPTIONS]", argc, argv, &error);
    if (code == 1) {
        return 0;
    }
    size_t length = store != NULL ? strlen(store) : 0;
    if (code == 0 && store != NULL && (length < 4 || strcmp(store + length - 3, ".db") != 0)) {
        code = error_set(&error, AML_EINPUT, "--store: expected a name that ends in .db, got '%.100s'", store);
    }
    code = code != 0 ? code : read_config(&config, path, &error);
    char *own = code == 0 && store == NULL ? daemon_price_path(config.state) : NULL;
    code = code != 0 ? code : daemon_fetch_prices(&config, store != NULL ? store : own, &prices, &error);
    if (code == 0) {
        printf("%s: stored %" PRIu64 " price points%s\n", store != NULL ? store : own, prices.points, prices.age);
    }
    free(own);
    config_close(&config);
    return command_end(code, &error);
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
        {"reliable", NULL, AML_OPTION_FLAG, &reliable, 0, 0,
         "the script of a reliable node (not given: of a transient one)"},
        {"help", NULL, AML_OPTION_FLAG, &help, 0, 0, "print this"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct error error = {0};
    int code = command_options(options, "usage: bidbrain user-data --config FILE [OPTIONS]", argc, argv, &error);
    if (code == 1) {
        return 0;
    }
    code = code != 0 ? code : read_config(&config, path, &error);
    code = code != 0 ? code : daemon_user_data(&config, reliable, &text, &error);
    if (text != NULL) {
        fputs(text, stdout);
        fflush(stdout);
        explicit_bzero(text, strlen(text)); /* the script holds a token */
        free(text);
    }
    config_close(&config);
    return command_end(code, &error);
}
