/* Checks for `bidbrain check-config` whether the daemon could work. Does the checks that config_check.c leaves out:
 * those that open more files than a key and a catalog, or that ask the cloud. Changes nothing here or in the cloud. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/memory.h"
#include "agileml/cloud/credentials.h"
#include "agileml/net/endpoint.h"
#include "bidbrain/cloud/aws/ec2.h"
#include "bidbrain/cloud/user_data.h"
#include "bidbrain/market/command.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    CHECK_ANSWER_S = 5, /* real: without an answer by then EC2 counts as unreachable */
    CHECK_MOST_S = 120, /* real: limit for all answers */
    CHECK_ATTEMPTS = 2, /* attempts of each call */
    CHECK_POLL_MS = 200,
};

struct check {
    struct daemon *daemon;
    const struct config *config;
    struct findings *findings;
    FILE *well;
    bool scripted;       /* the script that starts a node was made */
    struct markets sold; /* what EC2 sells now */
    bool priced;         /* `sold` is complete */
    bool answered, ended;
};

/* ---- Files ---- */

/* Reports an error if no file or folder can be made at `path`: its parent folder must exist and be writable. */
static void check_place(struct check *check, const char *path, const char *where) {
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = memory_zeroed(length + 1, 1);
    struct stat status;
    memcpy(folder, slash == NULL ? "." : path, length);
    bool there = stat(folder, &status) == 0;
    if (there && !S_ISDIR(status.st_mode)) {
        findings_error(check->findings, where, "%.250s can't be made: %.250s is no folder", path, folder);
    } else if (!there || access(folder, W_OK | X_OK) != 0) {
        findings_error(check->findings, where, "%.250s can't be made: the folder %.250s: %s", path, folder,
                       strerror(errno));
    }
    free(folder);
}

static void check_state(struct check *check) {
    const struct config *config = check->config;
    struct ledger *ledger = NULL;
    struct error error = {0};
    struct stat status;
    check_place(check, config->state, "state");
    if (stat(config->state, &status) == 0 && !S_ISREG(status.st_mode)) {
        findings_error(check->findings, "state", "%.300s is no file: expected one, or none yet", config->state);
    } else if (access(config->state, F_OK) == 0) {
        if (ledger_open(&ledger, config->state, config->job, LEDGER_COPY, &error) != 0) {
            findings_error(check->findings, "state", "%.400s", error.text);
        } else if (access(config->state, W_OK) != 0) {
            findings_error(check->findings, "state", "%.300s: %s", config->state, strerror(errno));
        }
        ledger_close(ledger);
    }
    if (config->provider == CONFIG_LOCAL && access(config->folder, F_OK) != 0) {
        check_place(check, config->folder, "folder");
    }
}

static bool is_any_wanted(const struct check *check, const struct markets *markets) {
    for (size_t m = 0; m < markets->count; m++) {
        const struct market *market = markets->list[m];
        if (daemon_wants(check->daemon, market->type, market->zone, market->product)) {
            return true;
        }
    }
    return false;
}

/* Reads recorded prices into `markets`, as far as they can be read. */
static void check_prices(struct check *check, struct markets *markets) {
    const struct config *config = check->config;
    struct catalog unused = {0};
    struct error error = {0};
    if (config->prices == NULL) {
        return;
    }
    if (command_prices(config->prices, config->markets.product, NULL, CATALOG_2017, markets, &unused, &error) != 0) {
        findings_error(check->findings, "prices", "%.400s", error.text);
        *markets = (struct markets){0};
        return;
    }
    catalog_close(&unused);
    if (!is_any_wanted(check, markets)) {
        findings_error(check->findings, "prices",
                       "%.250s: of its %zu markets none is of markets.types and markets.zones, in region %s and of the "
                       "catalog",
                       config->prices, markets->count, check->daemon->region);
    }
}

static void check_interruptions(struct check *check, const struct markets *markets) {
    static const char option[] = "--interruptions: "; /* prefix in the errors of commands with this option */
    struct interruptions interruptions;
    struct error error = {0};
    if (interruptions_open(&interruptions, check->config->interruptions, markets, &error) != 0) {
        bool begins = strncmp(error.text, option, sizeof option - 1) == 0;
        findings_error(check->findings, "interruptions", "%.400s", error.text + (begins ? sizeof option - 1 : 0));
    } else {
        interruptions_close(&interruptions);
    }
}

/* Checks that the script that starts a node can be made. */
static void check_user_data(struct check *check) {
    const struct provider_launch launch = {.token = "check", .count = 1, .join_until = (int64_t)time(NULL)};
    struct error error = {0};
    char *text = NULL;
    const char *own = check->config->launch.user_data;
    if (daemon_read_user_data(check->daemon, &error) != 0) {
        findings_error(check->findings, "launch.user_data", "%.400s", error.text);
        return;
    }
    const struct provider_options options = daemon_provider_options(check->daemon);
    check->scripted = user_data_render(&options, &launch, &text, &error) == 0;
    if (!check->scripted) {
        findings_error(check->findings, own != NULL ? "launch.user_data" : "node", "%.200s%s%.300s",
                       own != NULL ? own : "", own != NULL ? ": " : "", error.text);
    }
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
        free(text);
    }
}

/* ---- Limits ---- */

static void check_caps(struct check *check) {
    const struct config *config = check->config;
    const struct catalog_price *type = catalog_find(&config->known, config->reliable.type, check->daemon->region);
    const struct {
        const char *where;
        double dollars;
    } caps[] = {{"limits.most_dollars_per_hour", config->limits.most_dollars_per_hour},
                {"limits.budget_dollars", config->limits.budget_dollars}};
    for (size_t c = 0; c < sizeof caps / sizeof *caps && type != NULL && config->reliable.count > 0; c++) {
        double need = price_dollars(type->price) * (double)config->reliable.count;
        if (caps[c].dollars < need) {
            findings_error(check->findings, caps[c].where,
                           "$%.4g, and the job begins with %" PRId64 " x %s on demand at $%.4g an hour: expected more",
                           caps[c].dollars, config->reliable.count, type->type, need);
        }
    }
}

/* ---- Credentials ---- */

struct check_credentials {
    struct check *check;
    bool told, have;
    bool needed; /* missing credentials are an error */
};

static void take_credentials(void *context, const struct credentials_value *value, const char *why) {
    struct check_credentials *asking = context;
    asking->told = true;
    asking->have = value != NULL;
    if (value != NULL) {
        fprintf(asking->check->well, "credentials: %s\n", value->source);
    } else if (asking->needed) {
        findings_error(asking->check->findings, "credentials", "%.400s", why);
    } else {
        findings_warning(asking->check->findings, "credentials", "%.400s", why);
    }
}

/* AWS's machines can't reach a controller at a loopback address. */
static void check_reach(struct check *check, const struct credentials *credentials) {
    const char *own = check->config->endpoint;
    const char *endpoint = own != NULL ? own : credentials_endpoint(credentials);
    struct endpoint controller;
    struct error error = {0};
    /* plain http is allowed only for loopback addresses */
    bool spotmarket = endpoint != NULL && strncmp(endpoint, "http://", 7) == 0;
    if (!spotmarket && endpoint_parse(&controller, check->config->controller, false, &error) == 0 &&
        controller.loopback) {
        findings_warning(check->findings, "controller",
                         "%.100s is each machine itself: expected an address at which EC2's machines find the "
                         "controller",
                         check->config->controller);
    }
}

/* Checks whether the sources of credentials can be read. Sets *have to whether there are credentials. */
static bool check_credentials(struct check *check, bool needed, bool *have) {
    struct check_credentials asking = {.check = check, .needed = needed};
    struct http *http = NULL;
    struct credentials *credentials = NULL;
    struct error error = {0};
    if (http_open(&http, &error) != 0 || credentials_open(&credentials, http, "ec2", &error) != 0) {
        findings_error(check->findings, "credentials", "%.400s", error.text);
        http_close(http);
        return false;
    }
    check_reach(check, credentials);
    credentials_get(credentials, take_credentials, &asking);
    while (!asking.told) {
        struct pollfd ready = {.fd = http_fd(http), .events = POLLIN};
        int wait = http_wait_ms(http);
        (void)poll(&ready, 1, wait >= 0 && wait < CHECK_POLL_MS ? wait : CHECK_POLL_MS);
        http_step(http);
    }
    credentials_close(credentials);
    http_close(http);
    *have = asking.have;
    return true;
}

/* ---- EC2 ---- */

static void take_price(void *context, const char *type, const char *zone, const char *product,
                       struct market_point point) {
    struct check *check = context;
    if (daemon_wants(check->daemon, type, zone, product)) {
        (void)markets_add(&check->sold, type, zone, product, point, NULL);
    }
}

static void take_prices_end(void *context, bool whole) {
    struct check *check = context;
    markets_finish(&check->sold);
    check->priced = whole;
}

static void take_found(void *context, enum provider_finding finding, const char *key, const char *text) {
    struct check *check = context;
    check->answered = true;
    if (finding == PROVIDER_WELL) {
        fprintf(check->well, "EC2:         %s\n", text);
    } else if (finding == PROVIDER_WARNING) {
        findings_warning(check->findings, key, "%s", text);
    } else {
        findings_error(check->findings, key, "%s", text);
    }
}

static void take_end(void *context) {
    struct check *check = context;
    check->ended = true;
}

static void take_outcome(void *context, const struct provider_outcome *outcome) {
    struct check *check = context;
    findings_error(check->findings, "launch", "%s", outcome->text);
}

static bool is_sold(const struct check *check, const char *type, const char *zone) {
    for (size_t m = 0; m < check->sold.count; m++) {
        const struct market *market = check->sold.list[m];
        if ((type == NULL || strcmp(market->type, type) == 0) && (zone == NULL || strcmp(market->zone, zone) == 0)) {
            return true;
        }
    }
    return false;
}

/* Reports types and zones in which nothing is sold, or a product of which nothing is. */
static void check_sold(struct check *check) {
    const struct config *config = check->config;
    if (check->sold.count == 0) {
        findings_error(check->findings, "markets.product",
                       "no spot price of '%.60s' for any of markets.types in markets.zones: expected a product such as "
                       "Linux/UNIX, and types that are sold there",
                       config->markets.product);
        return;
    }
    for (size_t t = 0; config->markets.types[t] != NULL; t++) {
        if (!is_sold(check, config->markets.types[t], NULL)) {
            findings_error(check->findings, "markets.types", "'%.60s' has no spot price in any zone of markets.zones",
                           config->markets.types[t]);
        }
    }
    for (size_t z = 0; config->markets.zones[z] != NULL; z++) {
        if (!is_sold(check, NULL, config->markets.zones[z])) {
            findings_error(check->findings, "markets.zones", "none of markets.types has a spot price in '%.60s'",
                           config->markets.zones[z]);
        }
    }
}

static struct provider_launch launch_of(const struct check *check, enum provider_kind kind, const char *type,
                                        const char *zone) {
    struct provider_launch launch = {.kind = kind,
                                     .count = 1,
                                     .reliable = kind == PROVIDER_ON_DEMAND,
                                     .join_until = (int64_t)time(NULL)}; /* the token is no longer valid */
    snprintf(launch.token, sizeof launch.token, "%s-check", check->config->job);
    snprintf(launch.type, sizeof launch.type, "%s", type);
    snprintf(launch.zone, sizeof launch.zone, "%s", zone != NULL ? zone : "");
    snprintf(launch.product, sizeof launch.product, "%s", check->config->markets.product);
    return launch;
}

/* Fills in the launches to check: a spot machine in each zone, and a reliable machine. */
static size_t launches_of(const struct check *check, struct provider_launch launches[CONFIG_LIST_MAX + 2]) {
    const struct config *config = check->config;
    size_t count = 0;
    for (size_t z = 0; config->markets.zones[z] != NULL; z++) {
        launches[count++] = launch_of(check, PROVIDER_SPOT, config->markets.types[0], config->markets.zones[z]);
    }
    if (count == 0) {
        launches[count++] = launch_of(check, PROVIDER_SPOT, config->markets.types[0], NULL);
    }
    if (config->reliable.count > 0) {
        launches[count++] = launch_of(check, PROVIDER_ON_DEMAND, config->reliable.type, config->reliable.zone);
    }
    return count;
}

/* Waits until all is checked, or EC2 does not answer. */
static void wait_for_check(struct check *check, struct provider *provider) {
    double begun = market_clock_elapsed();
    while (!check->ended) {
        struct pollfd ready = {.fd = provider_fd(provider), .events = POLLIN};
        int wait = provider_wait_ms(provider);
        (void)poll(&ready, 1, wait >= 0 && wait < CHECK_POLL_MS ? wait : CHECK_POLL_MS);
        provider_step(provider);
        double passed = market_clock_elapsed() - begun;
        int limit = check->answered ? CHECK_MOST_S : CHECK_ANSWER_S;
        if (!check->ended && passed > limit) {
            findings_error(check->findings, "endpoint", "EC2 has not answered %swithin %d s: expected it to be reached",
                           check->answered ? "all calls " : "", limit);
            return;
        }
    }
    if (check->priced) {
        check_sold(check);
    }
}

static void check_ec2(struct check *check, bool online) {
    struct provider_options options = daemon_provider_options(check->daemon);
    struct provider *provider = NULL;
    struct error error = {0};
    bool have = false;
    bool readable = check_credentials(check, online, &have);
    options.look_only = true;
    options.aws.attempts = CHECK_ATTEMPTS;
    options.listener = (struct provider_listener){.price = take_price,
                                                  .prices_end = take_prices_end,
                                                  .outcome = take_outcome,
                                                  .found = take_found,
                                                  .check_end = take_end,
                                                  .context = check};
    if (!readable || !check->scripted) {
        return; /* the provider would find the same errors */
    }
    if (provider_ec2_open(&provider, &options, &error) != 0) {
        findings_error(check->findings, "endpoint", "%.400s", error.text);
    } else if (online && have) {
        struct provider_launch launches[CONFIG_LIST_MAX + 2];
        size_t count = launches_of(check, launches);
        provider_ec2_check(provider, launches, count, daemon_now(check->daemon));
        wait_for_check(check, provider);
    }
    provider_close(provider);
}

static void check_online(struct check *check) {
    struct error error = {0};
    if (check->config->clock.url != NULL && daemon_open_clock(check->daemon, &error) != 0) {
        findings_error(check->findings, "clock", "%.400s",
                       error.text + (strncmp(error.text, "clock: ", 7) == 0 ? 7 : 0));
        return; /* present prices can't be requested */
    }
    check_ec2(check, true);
}

/* ---- The whole ---- */

void daemon_check(const struct config *config, bool online, FILE *well, struct findings *findings) {
    const struct daemon_options options = {.config = config, .dry_run = true, .quiet = true};
    struct check check = {.daemon = daemon_new(&options), .config = config, .findings = findings, .well = well};
    struct markets recorded = {0};
    check_state(&check);
    check_prices(&check, &recorded);
    check_interruptions(&check, &recorded);
    check_user_data(&check);
    check_caps(&check);
    if (config->provider == CONFIG_EC2 && online) {
        check_online(&check);
    } else if (config->provider == CONFIG_EC2) {
        check_ec2(&check, false);
    }
    markets_close(&recorded);
    markets_close(&check.sold);
    daemon_close(check.daemon);
}
