/* Provider local: machines are processes here, started from the rendered user data; prices are replayed by the market's
 * clock. A spot machine whose price rises above its bid gets SIGTERM, and SIGKILL LOCAL_NOTICE_S later, as EC2 did in
 * 2016. Has any number of machines, and sends no bills. */
#include "agileml/base/instant.h"
#include "agileml/base/memory.h"
#include "bidbrain/cloud/local_machine.h"
#include "bidbrain/cloud/user_data.h"
#include "bidbrain/market/interruption.h"
#include "bidbrain/market/market_read.h"
#include "bidbrain/market/market_store.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOCAL_MACHINES_MAX = 100000,
    LOCAL_LOOK_MS = 100,        /* between looks at the machines */
    LOCAL_START_MS = 10 * 1000, /* within which a machine's process must have come about */
};

enum local_request_kind { LOCAL_PRICES, LOCAL_LAUNCH, LOCAL_CANCEL, LOCAL_TERMINATE, LOCAL_LIST };

struct local_request {
    enum local_request_kind kind;
    int64_t since;                 /* PRICES */
    struct provider_launch launch; /* LAUNCH; CANCEL: its token */
    char id[PROVIDER_ID_TEXT];     /* TERMINATE */
};

struct local {
    struct provider provider;
    struct provider_options options; /* its texts are copies */
    char *folder;
    struct markets markets;
    struct local_machine **machines; /* none is forgotten */
    size_t machine_count;
    struct local_request *requests;
    size_t request_count;
    int event;
};

/* Where the built-in template of user_data.h asks a metadata service, this one is told by the environment. */
static const char LOCAL_TEMPLATE[] =
    "#!/bin/sh\n"
    "# Starts a node of job ${job} as a process of this machine.\n"
    "umask 077\n"
    "threads=${threads}\n"
    "[ \"$threads\" = 0 ] && threads=$(nproc)\n"
    "set -- ${arguments}\n"
    "key='${key}'\n"
    "if [ -n \"$key\" ]; then\n"
    "    printf '%s\\n' \"$key\" >job.key\n"
    "    set -- \"$@\" --key job.key\n"
    "fi\n"
    "trap : TERM\n"
    "${binary} \"$@\" --controller ${controller} --tier ${tier} --name \"$PROTEUS_MACHINE\" \\\n"
    "    --threads \"$threads\" --notice \"$PROTEUS_NOTICE\" && sleep ${linger}\n";

static struct local *local_of(struct provider *provider) {
    return (struct local *)provider;
}

static int64_t local_now(const struct local *local) {
    return local->options.now(local->options.now_context);
}

static void local_ring(struct local *local) {
    uint64_t one = 1;
    ssize_t written = write(local->event, &one, sizeof one);
    (void)written;
}

static void local_ask(struct local *local, const struct local_request *request) {
    local->requests = memory_resized(local->requests, local->request_count + 1, sizeof *local->requests);
    local->requests[local->request_count++] = *request;
    local_ring(local);
}

static const struct market *local_market(const struct local *local, const char *type, const char *zone,
                                         const char *product) {
    return markets_find(&local->markets, type, zone, product);
}

static void local_tell(const struct local *local, const struct local_machine *machine) {
    struct provider_machine told = machine->told;
    local->options.listener.machine(local->options.listener.context, &told);
}

/* ---- Machines ---- */

static struct local_machine *local_find(const struct local *local, const char *id) {
    for (size_t m = 0; m < local->machine_count; m++) {
        if (strcmp(local->machines[m]->told.id, id) == 0) {
            return local->machines[m];
        }
    }
    return NULL;
}

/* When its price passes its bid. */
static void local_foresee(const struct local *local, struct local_machine *machine) {
    const struct market *market = local_market(local, machine->told.type, machine->told.zone, local->options.product);
    bool spot = machine->told.kind == PROVIDER_SPOT && machine->bid > 0 && market != NULL;
    machine->evicted_at =
        spot ? interruption_of(NULL, 0, market, machine->bid, machine->told.launched, 0, 0).time : MARKET_NEVER;
}

static struct local_machine *local_keep(struct local *local, const struct local_machine *machine) {
    struct local_machine *kept = memory_zeroed(1, sizeof *kept);
    *kept = *machine;
    local->machines = memory_resized(local->machines, local->machine_count + 1, sizeof *local->machines);
    local->machines[local->machine_count++] = kept;
    local_foresee(local, kept);
    return kept;
}

static void local_read_folder(struct local *local) {
    DIR *directory = opendir(local->folder);
    struct local_machine machine;
    if (directory == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (strncmp(entry->d_name, "i-", 2) == 0 && strlen(entry->d_name) < PROVIDER_ID_TEXT &&
            local->machine_count < LOCAL_MACHINES_MAX && local_machine_read(&machine, local->folder, entry->d_name)) {
            (void)local_keep(local, &machine);
        }
    }
    closedir(directory);
}

static void local_end(struct local *local, struct local_machine *machine, const char *reason) {
    snprintf(machine->told.reason, sizeof machine->told.reason, "%s", reason);
    local_machine_end(machine, local_now(local));
    local_tell(local, machine);
}

/* The process is over, or the price has risen above the bid. */
static void local_look_at(struct local *local, struct local_machine *machine, int64_t now) {
    if (machine->told.state == MACHINE_GONE) {
        return;
    }
    bool outbid = now >= machine->evicted_at;
    if (outbid && !machine->told.noticed) {
        machine->told.noticed = machine->told.evicted = true;
        snprintf(machine->told.reason, sizeof machine->told.reason, "the price rose above the bid");
        if (local_machine_alive(machine)) { /* or else its number may be another process's by now */
            local_machine_signal(machine, SIGTERM);
        }
        local_tell(local, machine);
    }
    if (outbid && now - machine->evicted_at >= LOCAL_NOTICE_S) {
        local_end(local, machine, "the price rose above the bid");
    } else if (!local_machine_alive(machine)) {
        local_end(local, machine, outbid ? "the price rose above the bid" : "its process has ended");
    } else if (machine->pid == 0 && (machine->looks += LOCAL_LOOK_MS) > LOCAL_START_MS) {
        local_end(local, machine, "its process did not start");
    }
}

static void local_look(struct local *local) {
    int64_t now = local_now(local);
    for (size_t m = 0; m < local->machine_count; m++) {
        local_look_at(local, local->machines[m], now);
    }
}

/* ---- Requests ---- */

static void local_prices(const struct local *local, int64_t since) {
    const struct provider_listener *listener = &local->options.listener;
    int64_t now = local_now(local);
    for (size_t m = 0; m < local->markets.count; m++) {
        const struct market *market = local->markets.list[m];
        size_t first = market_index(market, since);
        for (size_t p = first == MARKET_NONE ? 0 : first; p < market->count && market->points[p].time <= now; p++) {
            listener->price(listener->context, market->type, market->zone, market->product, market->points[p]);
        }
    }
    listener->prices_end(listener->context, true);
}

static void local_refuse(const struct local *local, const struct provider_launch *launch, const char *code,
                         const char *text, bool ours) {
    struct provider_outcome outcome = {.state = LAUNCH_REFUSED, .ours = ours};
    snprintf(outcome.token, sizeof outcome.token, "%s", launch->token);
    snprintf(outcome.code, sizeof outcome.code, "%s", code);
    snprintf(outcome.text, sizeof outcome.text, "%.299s", text);
    local->options.listener.outcome(local->options.listener.context, &outcome);
}

/* Whether the market has no machine for that launch: then it is refused. */
static bool local_outbid(const struct local *local, const struct provider_launch *launch) {
    const struct market *market = local_market(local, launch->type, launch->zone, launch->product);
    if (launch->kind == PROVIDER_ON_DEMAND) {
        return false;
    }
    int64_t price = market != NULL ? market_price(market, local_now(local)) : PRICE_UNKNOWN;
    if (price == PRICE_UNKNOWN) {
        local_refuse(local, launch, "Unsupported", "no prices of this type in this zone", true);
        return true;
    }
    if (launch->bid > 0 && price_passes(price, launch->bid)) {
        local_refuse(local, launch, "SpotMaxPriceTooLow", "the bid is below the price", false);
        return true;
    }
    return false;
}

/* The machine number `index` of a launch; NULL when it could not be started. */
static struct local_machine *local_start(struct local *local, const struct provider_launch *launch, unsigned index,
                                         const char *user_data) {
    struct local_machine machine = {.bid = launch->bid};
    struct error error = {0};
    double speed = local->options.speed > 0 ? local->options.speed : 1;
    local_machine_id(launch->token, index, machine.told.id);
    struct local_machine *known = local_find(local, machine.told.id);
    if (known != NULL && known->pid != 0) {
        return known;
    }
    snprintf(machine.told.token, sizeof machine.told.token, "%s", launch->token);
    snprintf(machine.told.type, sizeof machine.told.type, "%s", launch->type);
    snprintf(machine.told.zone, sizeof machine.told.zone, "%s", launch->zone);
    machine.told.kind = launch->kind;
    machine.told.state = MACHINE_RUNNING;
    machine.told.launched = local_now(local);
    if (local_machine_start(&machine, local->folder, user_data, LOCAL_NOTICE_S / speed, &error) != 0) {
        local->options.listener.failed(local->options.listener.context, error.text, false);
        return known;
    }
    return known != NULL ? known : local_keep(local, &machine);
}

static void local_launch(struct local *local, const struct provider_launch *launch) {
    const struct provider_listener *listener = &local->options.listener;
    struct provider_outcome outcome = {.state = LAUNCH_FILLED};
    struct error error = {0};
    char id[PROVIDER_ID_TEXT];
    char *user_data = NULL;
    local_machine_id(launch->token, 0, id);
    if (local_find(local, id) == NULL && local_outbid(local, launch)) {
        return;
    }
    if (user_data_render(&local->options, launch, &user_data, &error) != 0) {
        local_refuse(local, launch, "InvalidUserData", error.text, true);
        return;
    }
    for (unsigned i = 0; i < launch->count; i++) {
        const struct local_machine *machine = local_start(local, launch, i, user_data);
        if (machine != NULL) {
            outcome.machines++;
            local_tell(local, machine);
        }
    }
    free(user_data);
    snprintf(outcome.token, sizeof outcome.token, "%s", launch->token);
    if (outcome.machines == 0) {
        local_refuse(local, launch, "InsufficientInstanceCapacity", "no process could be started", false);
        return;
    }
    listener->outcome(listener->context, &outcome);
}

static void local_cancel(const struct local *local, const struct provider_launch *launch) {
    struct provider_outcome outcome = {.state = LAUNCH_FILLED};
    for (size_t m = 0; m < local->machine_count; m++) {
        outcome.machines += strcmp(local->machines[m]->told.token, launch->token) == 0;
    }
    if (outcome.machines == 0) {
        local_refuse(local, launch, "canceled-before-fulfillment", "cancelled", false);
        return;
    }
    snprintf(outcome.token, sizeof outcome.token, "%s", launch->token);
    local->options.listener.outcome(local->options.listener.context, &outcome);
}

static void local_terminate(struct local *local, const char *id) {
    struct local_machine *machine = local_find(local, id);
    if (machine != NULL && machine->told.state != MACHINE_GONE) {
        local_end(local, machine, "given back");
    }
}

static void local_answer(struct local *local, const struct local_request *request) {
    switch (request->kind) {
    case LOCAL_PRICES:
        local_prices(local, request->since);
        break;
    case LOCAL_LAUNCH:
        local_launch(local, &request->launch);
        break;
    case LOCAL_CANCEL:
        local_cancel(local, &request->launch);
        break;
    case LOCAL_TERMINATE:
        local_terminate(local, request->id);
        break;
    case LOCAL_LIST:
        for (size_t m = 0; m < local->machine_count; m++) {
            local_tell(local, local->machines[m]);
        }
        local->options.listener.list_end(local->options.listener.context, true);
        break;
    }
}

/* ---- Methods ---- */

static void local_close(struct provider *provider) {
    struct local *local = local_of(provider);
    for (size_t m = 0; m < local->machine_count; m++) {
        free(local->machines[m]);
    }
    if (local->event >= 0) {
        close(local->event);
    }
    markets_close(&local->markets);
    free(local->machines);
    free(local->requests);
    free(local->folder);
    provider_options_free(&local->options);
    free(local);
}

static int local_fd(const struct provider *provider) {
    return ((const struct local *)provider)->event;
}

static int local_wait_ms(struct provider *provider) {
    return local_of(provider)->request_count > 0 ? 0 : LOCAL_LOOK_MS;
}

static void local_step(struct provider *provider) {
    struct local *local = local_of(provider);
    uint64_t rung;
    ssize_t size = read(local->event, &rung, sizeof rung);
    (void)size;
    local_look(local);
    struct local_request *requests = local->requests; /* what is asked meanwhile comes with the next step */
    size_t count = local->request_count;
    local->requests = NULL;
    local->request_count = 0;
    for (size_t r = 0; r < count; r++) {
        local_answer(local, &requests[r]);
    }
    free(requests);
}

static void ask_prices(struct provider *provider, int64_t since) {
    local_ask(local_of(provider), &(struct local_request){.kind = LOCAL_PRICES, .since = since});
}

static void ask_launch(struct provider *provider, const struct provider_launch *launch) {
    local_ask(local_of(provider), &(struct local_request){.kind = LOCAL_LAUNCH, .launch = *launch});
}

static void ask_cancel(struct provider *provider, const char *token) {
    struct local_request request = {.kind = LOCAL_CANCEL};
    snprintf(request.launch.token, sizeof request.launch.token, "%s", token);
    local_ask(local_of(provider), &request);
}

static void ask_terminate(struct provider *provider, const char *const *ids, size_t count) {
    struct local_request request = {.kind = LOCAL_TERMINATE};
    for (size_t i = 0; i < count; i++) {
        snprintf(request.id, sizeof request.id, "%s", ids[i]);
        local_ask(local_of(provider), &request);
    }
}

static void ask_list(struct provider *provider) {
    local_ask(local_of(provider), &(struct local_request){.kind = LOCAL_LIST});
}

static const struct provider_methods LOCAL_METHODS = {.close = local_close,
                                                      .fd = local_fd,
                                                      .wait_ms = local_wait_ms,
                                                      .step = local_step,
                                                      .prices = ask_prices,
                                                      .launch = ask_launch,
                                                      .cancel = ask_cancel,
                                                      .terminate = ask_terminate,
                                                      .list = ask_list};

static int local_read_prices(struct local *local, const char *path, struct error *error) {
    size_t length = strlen(path);
    struct market_store *store;
    int code;
    if (length > 3 && strcmp(path + length - 3, ".db") == 0) {
        code = market_store_open(&store, path, error);
        if (code == 0) {
            code = market_store_load(store, INSTANT_MIN, &local->markets, error);
            market_store_close(store);
        }
    } else {
        code = market_read(&local->markets, path, local->options.product, error);
    }
    markets_finish(&local->markets);
    return code == 0 && local->markets.count == 0
               ? error_set(error, AML_EINPUT, "%.300s: no prices of product '%.40s'", path, local->options.product)
               : code;
}

int provider_local_open(struct provider **opened, const struct provider_options *options, struct error *error) {
    char path[PATH_MAX];
    struct local *local = memory_zeroed(1, sizeof *local);
    local->provider.methods = &LOCAL_METHODS;
    provider_options_copy(&local->options, options);
    if (options->user_data == NULL) {
        local->options.user_data = memory_string(LOCAL_TEMPLATE);
    }
    local->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int code = local->event >= 0 ? 0 : error_set(error, AML_EFAIL, "can't make an eventfd: %s", strerror(errno));
    if (code == 0 && mkdir(options->folder, 0700) != 0 && errno != EEXIST) {
        code = error_set(error, AML_EINPUT, "can't make the folder %.300s: %s", options->folder, strerror(errno));
    }
    if (code == 0 && realpath(options->folder, path) == NULL) {
        code = error_set(error, AML_EINPUT, "%.300s: %s", options->folder, strerror(errno));
    }
    local->folder = code == 0 ? memory_string(path) : NULL;
    code = code != 0 ? code : local_read_prices(local, options->prices, error);
    if (code != 0) {
        local_close(&local->provider);
        return code;
    }
    local_read_folder(local);
    *opened = &local->provider;
    return 0;
}
