/* spotmarket: the embedded cloud as a program. Reads the command line and the prices, then runs one loop that waits for
 * requests, signals and the market's next change. */
#include "agileml/base/clock.h"
#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "agileml/base/new_file.h"
#include "agileml/base/private_file.h"
#include "agileml/base/signals.h"
#include "bidbrain/market/command.h"
#include "bidbrain/market/market_read.h"
#include "spotmarket/machines.h"
#include "spotmarket/server.h"
#include "spotmarket/timetable.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BILL_WRITE_US = 100000, WAIT_MS_MAX = 60000, OWNER_LOOK_MS = 500 };

#define SPEED_LEAST 0.05 /* a machine stopped for longer seems to be gone */

struct options {
    const char *prices, *start, *model, *listen, *credentials, *folder, *region, *product, *catalog, *zone;
    const char *interruptions, *events, *faults, *log, *roles, *resources, *owner, *speeds;
    double speed;
    int64_t ready_fd, capacity, spot_quota, on_demand_quota, boot, notice, rebalance, page, seed;
    bool throttle, help, version;
};

struct spotmarket {
    struct options options;
    const struct market_rules *rules;
    struct markets markets;
    struct catalog catalog;
    struct interruptions interruptions;
    struct timetable timetable;
    struct users users;
    struct cloud cloud;
    struct service service;
    struct machines machines;
    struct type_speed *speeds;
    struct server *server;
    char folder[PATH_MAX], bill[PATH_MAX + 16], authorization[PATH_MAX + 16];
    FILE *log;
    int signals, epoll;
    int64_t start, steady_us; /* at the beginning: market time in seconds, steady time in microseconds */
    uint64_t billed;          /* cloud.changes at the last write of the bill */
    int64_t billed_us;        /* steady time of that write */
    int64_t looked_us;        /* steady time of the last check of the owner */
};

/* ---- Time ---- */

static struct service_clock market_clock(void *context) {
    const struct spotmarket *market = context;
    struct service_clock clock = {.real = time(NULL), .steady_us = (int64_t)monotonic_us()};
    double passed_us = (double)(clock.steady_us - market->steady_us) * market->options.speed;
    double most_us = ((double)INSTANT_MAX - 1 - (double)market->start) * 1e6; /* instant.h can't write later times */
    clock.market_us = market->start * 1000000 + (int64_t)(passed_us < most_us ? passed_us : most_us);
    return clock;
}

/* Returns the milliseconds of real time until a market time; -1: never. */
static int market_wait_ms(const struct spotmarket *market, const struct service_clock *clock, int64_t moment) {
    if (moment == MARKET_NEVER) {
        return -1;
    }
    double ms = ((double)moment * 1e6 - (double)clock->market_us) / market->options.speed / 1000;
    return ms <= 0 ? 0 : ms > WAIT_MS_MAX ? WAIT_MS_MAX : (int)ceil(ms);
}

/* ---- The cloud's listener ---- */

static void on_start(void *context, const struct instance *instance) {
    struct spotmarket *market = context;
    char path[SERVICE_METADATA_PATH], url[SERVICE_METADATA_PATH + SERVER_URL];
    service_metadata_path(&market->service, instance->id, path);
    snprintf(url, sizeof url, "%s%s", server_url(market->server), path);
    machines_start(&market->machines, instance, url);
}

static void on_stop(void *context, const struct instance *instance) {
    struct spotmarket *market = context;
    machines_stop(&market->machines, instance->number);
}

static void on_ended(void *context, size_t number) {
    struct spotmarket *market = context;
    cloud_shut_down(&market->cloud, number);
}

static void on_event(void *context, const char *event, const struct instance *instance) {
    struct spotmarket *market = context;
    char moment[INSTANT_TEXT_MAX];
    if (market->log != NULL) {
        instant_format(market->cloud.now, moment);
        fprintf(market->log,
                "{\"time\":\"%s\",\"event\":\"%s\",\"id\":\"%s\",\"kind\":\"%s\",\"type\":\"%s\","
                "\"zone\":\"%s\",\"reason\":\"%s\"}\n",
                moment, event, instance->id, instance->spot ? "spot" : "on-demand", instance->type->type,
                instance->zone, instance->reason_code);
        fflush(market->log);
    }
}

static void write_bill(struct spotmarket *market, int64_t now_us) {
    struct new_file file;
    struct error error = {0};
    char *bill = service_bill(&market->cloud);
    int code = new_file_open(&file, market->bill, &error);
    if (code == 0 && (code = new_file_write(&file, bill, strlen(bill), &error)) != 0) {
        new_file_discard(&file);
    } else if (code == 0) {
        code = new_file_commit(&file, &error);
    }
    if (code != 0) {
        log_error("%s", error.text);
    }
    free(bill);
    market->billed = market->cloud.changes;
    market->billed_us = now_us;
}

/* ---- The loop ---- */

/* Returns true if a signal requests our end. */
static bool take_signals(struct spotmarket *market) {
    bool end = false;
    for (int number = signals_next(market->signals); number != 0; number = signals_next(market->signals)) {
        end = end || number != SIGCHLD;
    }
    machines_reap(&market->machines, on_ended, market);
    return end;
}

static int sooner(int a, int b) {
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

static int wait_ms(struct spotmarket *market, const struct service_clock *clock) {
    int wait = sooner(server_wait_ms(market->server), market_wait_ms(market, clock, cloud_next(&market->cloud)));
    if (market->billed != market->cloud.changes) {
        int64_t left = market->billed_us + BILL_WRITE_US - clock->steady_us;
        wait = sooner(wait, left <= 0 ? 0 : (int)(left / 1000 + 1));
    }
    return market->options.owner != NULL ? sooner(wait, OWNER_LOOK_MS) : wait;
}

/* Whether the market is no longer needed: its owner is gone, no machine is left, and no request may get one. */
static bool is_abandoned(struct spotmarket *market, const struct service_clock *clock) {
    const struct cloud *cloud = &market->cloud;
    if (market->options.owner == NULL || clock->steady_us < market->looked_us + OWNER_LOOK_MS * 1000) {
        return false;
    }
    market->looked_us = clock->steady_us;
    for (size_t i = 0; i < cloud->instance_count; i++) {
        if (instance_lives(cloud->instances[i])) {
            return false;
        }
    }
    for (size_t r = 0; r < cloud->request_count; r++) {
        if (cloud->requests[r]->state == REQUEST_OPEN) {
            return false;
        }
    }
    return !private_file_is_locked(market->options.owner);
}

static void serve(struct spotmarket *market) {
    for (bool end = false; !end;) {
        struct epoll_event events[4];
        struct service_clock clock = market_clock(market);
        int count = epoll_wait(market->epoll, events, 4, wait_ms(market, &clock));
        clock = market_clock(market);
        cloud_advance(&market->cloud, clock.market_us / 1000000);
        for (int i = 0; i < count; i++) {
            end = end || (events[i].data.fd == market->signals && take_signals(market));
        }
        server_step(market->server);
        if (market->billed != market->cloud.changes && clock.steady_us >= market->billed_us + BILL_WRITE_US) {
            write_bill(market, clock.steady_us);
        }
        end = end || is_abandoned(market, &clock);
    }
}

/* ---- Beginning and end ---- */

static int open_signals(struct spotmarket *market, struct error *error) {
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, 0};
    signal(SIGPIPE, SIG_IGN);
    int code = signals_open(&market->signals, numbers, error);
    if (code != 0) {
        return code;
    }
    market->epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = market->signals};
    if (market->epoll < 0 || epoll_ctl(market->epoll, EPOLL_CTL_ADD, market->signals, &event) != 0) {
        return error_set(error, AML_EFAIL, "can't wait for signals: %s", strerror(errno));
    }
    return 0;
}

/* Locks the folder until the process ends. A market with --owner has inherited the lock (bidbrain/cloud/embedded.h). */
static int open_folder(struct spotmarket *market, struct error *error) {
    if (mkdir(market->options.folder, 0700) != 0 && errno != EEXIST) {
        return error_set(error, AML_EINPUT, "--folder: %s: %s", market->options.folder, strerror(errno));
    }
    if (realpath(market->options.folder, market->folder) == NULL || access(market->folder, W_OK | X_OK) != 0) {
        return error_set(error, AML_EINPUT, "--folder: %s: %s", market->options.folder, strerror(errno));
    }
    struct stat status;
    if (stat(market->folder, &status) != 0 || status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
        return error_set(error, AML_EINPUT,
                         "--folder: %.300s belongs to another user, or gives rights to group or others (mode %04o): "
                         "expected a folder of yours with mode 0700, or a new one",
                         market->options.folder, (unsigned)status.st_mode & 0777);
    }
    const char *reason = NULL;
    if (market->options.owner == NULL && private_folder_lock(market->folder, &reason) < 0) {
        return error_set(error, AML_EINPUT, "--folder: %.300s: %s", market->options.folder,
                         reason != NULL ? reason : "another spotmarket works in it: expected a folder of its own");
    }
    snprintf(market->bill, sizeof market->bill, "%s/bill.json", market->folder);
    snprintf(market->authorization, sizeof market->authorization, "%s/authorization", market->folder);
    if (market->options.log != NULL && (market->log = fopen(market->options.log, "we")) == NULL) {
        return error_set(error, AML_EINPUT, "--log: %s: %s", market->options.log, strerror(errno));
    }
    return 0;
}

static bool is_wanted(const void *context, const struct market *candidate) {
    const struct spotmarket *market = context;
    const struct options *options = &market->options;
    char region[MARKET_TEXT_MAX];
    market_region(candidate->zone, region);
    return strcmp(region, options->region) == 0 &&
           (options->zone == NULL || strncmp(candidate->zone, options->zone, strlen(options->zone)) == 0) &&
           catalog_find(&market->catalog, candidate->type, region) != NULL;
}

/* Reads the recorded data: prices, the catalog, interruptions, events. */
static int open_market(struct spotmarket *market, struct error *error) {
    const struct options *options = &market->options;
    int code = command_prices(options->prices, options->product, options->catalog, market->rules->year,
                              &market->markets, &market->catalog, error);
    if (code != 0) {
        return code;
    }
    size_t all = market->markets.count;
    markets_keep(&market->markets, is_wanted, market);
    if (market->markets.count == 0) {
        return error_set(error, AML_EINPUT,
                         "--prices: none of the %zu markets is in region %.40s%s%.40s, of a type that "
                         "the catalog knows there: see --region, --zone and --catalog",
                         all, options->region, options->zone != NULL ? " and zone " : "",
                         options->zone != NULL ? options->zone : "");
    }
    int64_t first, last;
    markets_span(&market->markets, &first, &last);
    market->start = first;
    if (options->start != NULL && !instant_parse(options->start, &market->start)) {
        return error_set(error, AML_EINPUT, "--start: expected a time such as 2016-03-01T00:00:00Z, got '%.60s'",
                         options->start);
    }
    code = interruptions_open(&market->interruptions, options->interruptions, &market->markets, error);
    if (code == 0 && market->interruptions.kind != INTERRUPTION_NONE && market->rules->bids) {
        code = error_set(error, AML_EINPUT,
                         "--interruptions: expected --model ec2 with it; in ec2-2016 the price decides");
    }
    if (code == 0 && options->events != NULL) {
        code = timetable_read(&market->timetable, options->events, &market->markets, market->start, options->notice,
                              error);
    }
    return code;
}

static void open_cloud(struct spotmarket *market) {
    const struct options *options = &market->options;
    struct cloud_options cloud = {
        .markets = &market->markets,
        .catalog = &market->catalog,
        .interruptions = &market->interruptions,
        .region = options->region,
        .rules = market->rules,
        .boot = options->boot,
        .notice = options->notice,
        .rebalance = options->rebalance,
        .shown = (int64_t)fmax(CLOUD_SHOWN_SECONDS, CLOUD_SHOWN_REAL_S * options->speed),
        .capacity = options->capacity,
        .spot_quota = options->spot_quota,
        .on_demand_quota = options->on_demand_quota,
        .events = market->timetable.events,
        .event_count = market->timetable.count,
        .seed = (uint64_t)options->seed,
        .listener = {.start = on_start, .stop = on_stop, .event = on_event, .context = market},
    };
    cloud_open(&market->cloud, &cloud, market->start);
    service_open(&market->service, &market->cloud, &market->users);
    market->service.speed = options->speed;
    market->service.throttling = options->throttle;
    market->service.api.page = options->page;
    market->service.faults.seed = (uint64_t)options->seed;
}

/* Writes the header that identifies our owner, in the form of `curl -H @FILE`. */
static int write_authorization(const struct spotmarket *market, struct error *error) {
    char owner[KEYRING_OWNER_HEX + 1];
    keyring_owner(&market->service.keyring, owner);
    (void)unlink(market->authorization); /* left by an earlier run */
    int file = open(market->authorization, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int written = file >= 0 ? dprintf(file, "Authorization: Bearer %s\n", owner) : -1;
    explicit_bzero(owner, sizeof owner);
    if (file < 0 || close(file) != 0 || written < KEYRING_OWNER_HEX) {
        return error_set(error, AML_EFAIL, "can't write %.300s: %s", market->authorization, strerror(errno));
    }
    return 0;
}

static int open_server(struct spotmarket *market, struct error *error) {
    struct server_options options = {
        .listen = market->options.listen, .service = &market->service, .clock = market_clock, .context = market};
    int code = server_open(&market->server, &options, error);
    code = code != 0 ? code : write_authorization(market, error);
    if (code != 0) {
        return code;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.fd = server_fd(market->server)};
    if (epoll_ctl(market->epoll, EPOLL_CTL_ADD, event.data.fd, &event) != 0) {
        return error_set(error, AML_EFAIL, "can't wait for requests: %s", strerror(errno));
    }
    market->machines.folder = market->folder;
    market->machines.speeds = market->speeds;
    printf("spotmarket at %s\n", server_url(market->server));
    fflush(stdout);
    if (market->options.ready_fd >= 0) {
        dprintf((int)market->options.ready_fd, "%s\n", server_url(market->server));
        close((int)market->options.ready_fd);
    }
    return 0;
}

/* Reads --speeds. No machine may be faster than this computer. */
static int read_speeds(struct spotmarket *market, struct error *error) {
    const char *path = market->options.speeds;
    int code = command_speeds(path, &market->speeds, &market->machines.speed_count, error);
    for (size_t s = 0; s < market->machines.speed_count && code == 0; s++) {
        if (market->speeds[s].speed < SPEED_LEAST || market->speeds[s].speed > 1) {
            code = error_set(error, AML_EINPUT, "--speeds: %.200s: '%.60s': expected a number from %g to 1", path,
                             market->speeds[s].type, SPEED_LEAST);
        }
    }
    return code;
}

static void close_market(struct spotmarket *market) {
    server_close(market->server);
    if (market->server != NULL) {
        cloud_advance(&market->cloud, market_clock(market).market_us / 1000000);
        cloud_end(&market->cloud);
        machines_close(&market->machines);
        write_bill(market, 0);
        (void)unlink(market->authorization);
    }
    free(market->speeds);
    cloud_close(&market->cloud);
    service_close(&market->service);
    users_close(&market->users);
    timetable_close(&market->timetable);
    interruptions_close(&market->interruptions);
    markets_close(&market->markets);
    catalog_close(&market->catalog);
    if (market->log != NULL) {
        fclose(market->log);
    }
}

static int spotmarket_run(struct spotmarket *market, struct error *error) {
    const struct options *options = &market->options;
    if (market_rules_read(&market->rules, "model", options->model, error) != 0) {
        return AML_EINPUT;
    }
    if (options->credentials == NULL || options->folder == NULL) {
        return error_set(error, AML_EINPUT, "--%s is missing",
                         options->credentials == NULL ? "credentials FILE" : "folder DIR");
    }
    (void)prctl(PR_SET_DUMPABLE, 0); /* not core_dumps_forbid: the machines' programs may dump core, unlike us */
    int code = options->speeds != NULL ? read_speeds(market, error) : 0;
    code = code != 0 ? code : users_read(&market->users, options->credentials, error);
    code = code != 0 ? code : open_folder(market, error);
    code = code != 0 ? code : open_signals(market, error);
    code = code != 0 ? code : open_market(market, error);
    if (code != 0) {
        return code;
    }
    open_cloud(market);
    code = options->faults != NULL ? faults_parse(&market->service.faults, options->faults, error) : 0;
    code = code == 0 && options->roles != NULL ? roles_read(&market->service.roles, options->roles, error) : code;
    code = code == 0 && options->resources != NULL
               ? resources_read(&market->service.api.resources, options->resources, error)
               : code;
    market->steady_us = (int64_t)monotonic_us();
    code = code != 0 ? code : open_server(market, error);
    if (code == 0) {
        write_bill(market, market->steady_us);
        serve(market);
    }
    return code;
}

static int run_command(struct spotmarket *market, const struct aml_option *options, int argc, char **argv) {
    struct error error = {0};
    int code = log_set_up(NULL, &error);
    code = code != 0
               ? code
               : command_options(options, "usage: spotmarket --prices PATH --credentials FILE --folder DIR [OPTIONS]",
                                 argc, argv, &error);
    if (code == 1) {
        return 0;
    }
    if (code == 0 && market->options.version) {
        printf("spotmarket %s\n", PROTEUS_VERSION);
        return 0;
    }
    code = code != 0 ? code : spotmarket_run(market, &error);
    close_market(market);
    if (code != 0) {
        log_error("%s", error.text);
    }
    return error_exit_status(code);
}

int main(int argc, char **argv) {
    static struct spotmarket market;
    struct options *o = &market.options;
    *o = (struct options){.model = "ec2-2016",
                          .listen = "127.0.0.1:0",
                          .region = "us-east-1",
                          .product = MARKET_PRODUCT,
                          .interruptions = "none",
                          .speed = 1,
                          .ready_fd = -1,
                          .notice = 120,
                          .seed = 1};
    const struct aml_option options[] = {
        {"prices", "PATH", AML_OPTION_STRING, &o->prices, 0, 0,
         "recorded spot prices: a file, a folder, a store (.db)"},
        {"credentials", "FILE", AML_OPTION_STRING, &o->credentials, 0, 0, "AWS credentials file of who may call"},
        {"folder", "DIR", AML_OPTION_STRING, &o->folder, 0, 0, "for bill.json and the machines' folders; yours alone"},
        {"start", "TIME", AML_OPTION_STRING, &o->start, 0, 0, "market time of the beginning; else the first price's"},
        {"speed", "X", AML_OPTION_REAL, &o->speed, 0.001, 1e6, "market seconds in a second"},
        {"model", "MODEL", AML_OPTION_STRING, &o->model, 0, 0, "ec2-2016 or ec2"},
        {"listen", "HOST:PORT", AML_OPTION_STRING, &o->listen, 0, 0, "a loopback address; port 0: any"},
        {"log", "FILE", AML_OPTION_STRING, &o->log, 0, 0, "JSON lines of what happened to machines"},
        {"help", "[TOPIC]", AML_OPTION_FLAG, &o->help, 0, 0, "this text, or a topic's options"},
        {"version", NULL, AML_OPTION_FLAG, &o->version, 0, 0, "the version"},
        OPTIONS_TOPIC("market", "what may be bought"),
        {"region", "NAME", AML_OPTION_STRING, &o->region, 0, 0, "the region that is served"},
        {"zone", "PREFIX", AML_OPTION_STRING, &o->zone, 0, 0, "only zones that begin so"},
        {"product", "NAME", AML_OPTION_STRING, &o->product, 0, 0, "product of the prices"},
        {"catalog", "FILE", AML_OPTION_STRING, &o->catalog, 0, 0, "more instance types and on-demand prices, JSON"},
        {"capacity", "N", AML_OPTION_INTEGER, &o->capacity, 0, 1e6, "machines per type and zone; 0: no limit"},
        {"spot-quota", "VCPUS", AML_OPTION_INTEGER, &o->spot_quota, 0, 1e9, "of spot machines; 0: no limit"},
        {"on-demand-quota", "VCPUS", AML_OPTION_INTEGER, &o->on_demand_quota, 0, 1e9, "of others; 0: no limit"},
        OPTIONS_TOPIC("machines", "how they start and end"),
        {"boot", "SECONDS", AML_OPTION_INTEGER, &o->boot, 0, 86400, "market time from launch to running"},
        {"notice", "SECONDS", AML_OPTION_INTEGER, &o->notice, 0, 86400,
         "market time from an eviction's notice to its end"},
        {"rebalance", "SECONDS", AML_OPTION_INTEGER, &o->rebalance, 0, 86400,
         "so long before the notice a rebalance recommendation; 0: none"},
        {"interruptions", "SPEC", AML_OPTION_STRING, &o->interruptions, 0, 0,
         "none, advisor:FILE, lifetimes:FILE or replay:PATH, for model ec2"},
        {"events", "FILE", AML_OPTION_STRING, &o->events, 0, 0, "interruptions by schedule"},
        {"speeds", "FILE", AML_OPTION_STRING, &o->speeds, 0, 0,
         "JSON of types' speeds, {\"m1.large\": 0.5}: their machines stand still for the rest of the time"},
        {"seed", "N", AML_OPTION_INTEGER, &o->seed, 0, 9007199254740992.0, "for all that is drawn"},
        OPTIONS_TOPIC("service", "who may call, how it answers"),
        {"roles", "FILE", AML_OPTION_STRING, &o->roles, 0, 0, "what machines' roles, and users, may do, JSON"},
        {"resources", "FILE", AML_OPTION_STRING, &o->resources, 0, 0,
         "images, subnets, groups, ... that there are, JSON; else all"},
        {"throttle", NULL, AML_OPTION_FLAG, &o->throttle, 0, 0, "limit calls as EC2 does"},
        {"faults", "SPEC", AML_OPTION_STRING, &o->faults, 0, 0, "what goes wrong, such as slow=2:0.3,503=0.1"},
        {"page", "N", AML_OPTION_INTEGER, &o->page, 0, API_PAGE_MAX, "items of an answer's page at most; 0: as asked"},
        {"ready-fd", "N", AML_OPTION_INTEGER, &o->ready_fd, -1, 1 << 20, "descriptor that the URL is written to"},
        {"owner", "FILE", AML_OPTION_STRING, &o->owner, 0, 0,
         "end when no process holds a lock (flock) on FILE, no machine is left and no spot request is open"},
        {0},
    };
    log_set_name("spotmarket");
    return run_command(&market, options, argc, argv);
}
