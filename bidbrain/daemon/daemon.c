/* See daemon.h: start, loop and end. daemon_private.h lists the other parts. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/clock.h"
#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/base/private_file.h"
#include "agileml/base/signals.h"
#include "bidbrain/cloud/user_data.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- The provider ---- */

/* Returns "CODE: TEXT" of "ACTION: CODE: TEXT": without credentials or EC2 all actions fail alike. Keeps the action
 * before an UnauthorizedOperation, since rights differ between actions. */
static const char *failure_reason(const char *text) {
    const char *colon = strstr(text, ": ");
    return colon == NULL || strncmp(colon + 2, "UnauthorizedOperation", 21) == 0 ? text : colon + 2;
}

/* Returns whether this failure was logged within the last minute, for any call or request. If not, remembers it as
 * logged now. */
static bool failure_is_known(struct daemon *daemon, const char *line) {
    const char *text = failure_reason(line);
    double wall = market_clock_elapsed();
    const char *id = strstr(text, " (request ");
    size_t length = id != NULL ? (size_t)(id - text) : strlen(text);
    length = length < PROVIDER_LINE_TEXT ? length : PROVIDER_LINE_TEXT - 1;
    struct daemon_failure *row = NULL;
    for (unsigned f = 0; f < DAEMON_FAILURES_KEPT && row == NULL; f++) {
        struct daemon_failure *kept = &daemon->cloud.failures[f];
        row = strncmp(kept->text, text, length) == 0 && kept->text[length] == '\0' ? kept : NULL;
    }
    if (row != NULL && wall - row->wall <= DAEMON_FAILURE_REPEAT_S) {
        return true;
    }
    row = row != NULL ? row : &daemon->cloud.failures[daemon->cloud.logged++ % DAEMON_FAILURES_KEPT];
    memcpy(row->text, text, length);
    row->text[length] = '\0';
    row->wall = wall;
    return false;
}

static void take_failure(void *context, const char *text, bool lasting) {
    struct daemon *daemon = context;
    if (lasting && daemon->cloud.one_shot) {
        struct error error = {0};
        error_set(&error, AML_EINPUT, "%s", text);
        daemon_fail(daemon, &error);
    } else if (!failure_is_known(daemon, text)) {
        log_warn("%s", text);
    }
}

static int64_t clock_now(const void *context) {
    return daemon_now(context);
}

int daemon_read_user_data(struct daemon *daemon, struct error *error) {
    const char *path = daemon->config->launch.user_data;
    if (path == NULL) {
        return 0;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return error_set(error, AML_EINPUT, "%.300s: %s", path, strerror(errno));
    }
    daemon->user_data = memory_zeroed(USER_DATA_MAX + 2, 1);
    size_t size = fread(daemon->user_data, 1, USER_DATA_MAX + 1, file);
    fclose(file);
    return size <= USER_DATA_MAX
               ? 0
               : error_set(error, AML_EINPUT, "%.300s: longer than user data may be (%d bytes)", path, USER_DATA_MAX);
}

struct provider_options daemon_provider_options(struct daemon *daemon) {
    const struct config *config = daemon->config;
    /* a local market has the same image for all machines, and no templates */
    bool local = config->provider == CONFIG_LOCAL;
    return (struct provider_options){
        .job = config->job,
        .user_data = daemon->user_data,
        .app = config->node.app,
        .arguments = config->node.arguments,
        .binary = config->node.binary,
        .controller = config->controller,
        .key = config->key,
        .threads = config->node.threads,
        .aws = {.region = daemon->region, .endpoint = local ? daemon->cloud.local_url : config->endpoint},
        .call = local ? PROVIDER_RUN_INSTANCES : config->launch.call,
        .image = local ? "ami-00000000" : config->launch.image,
        .key_name = config->launch.key_name,
        .instance_profile = config->launch.instance_profile,
        .launch_template = local ? NULL : config->launch.launch_template,
        .security_groups = config->launch.security_groups,
        .subnet = local ? NULL : config_subnet,
        .types = config->markets.types,
        .product = config->markets.product,
        .look_only = daemon->options->dry_run,
        .context = config,
        .now = clock_now,
        .now_context = daemon,
        .linger_seconds = config->rules->whole_hours ? (int64_t)ceil(HOUR / daemon->clock.speed) : 0,
        .listener = {.price = daemon_take_price,
                     .prices_end = daemon_prices_end,
                     .outcome = daemon_take_outcome,
                     .machine = daemon_take_machine,
                     .list_end = daemon_list_end,
                     .failed = take_failure,
                     .context = daemon},
    };
}

int daemon_open_provider(struct daemon *daemon, struct error *error) {
    int code = daemon_read_user_data(daemon, error);
    const struct provider_options options = daemon_provider_options(daemon);
    if (code == 0 && daemon->config->provider == CONFIG_LOCAL) {
        code = daemon_read_recorded(daemon, error);
        daemon->fleet.listed = daemon->cloud.local_url[0] == '\0'; /* without a market there are no machines */
    }
    return code != 0 || daemon->fleet.listed ? code : provider_ec2_open(&daemon->provider, &options, error);
}

/* If its market has ended, there are no machines: the next bidbrain starts another market. */
static void check_local(struct daemon *daemon) {
    struct error error = {0};
    if (daemon->config->provider == CONFIG_LOCAL && !embedded_runs(daemon->config->folder)) {
        error_set(&error, AML_EFAIL,
                  "the market in %.300s is gone, and its machines with it: see spotmarket.log there; 'bidbrain run' "
                  "starts another one",
                  daemon->config->folder);
        daemon_fail(daemon, &error);
    }
}

/* ---- Signals ---- */

static void take_signal(void *context) {
    struct daemon *daemon = context;
    while (signals_next(daemon->signal_fd) != 0) {
        daemon->loop.signals++;
    }
    if (daemon->options->keep && daemon->loop.signals > 0) {
        daemon_say(daemon, "ending; the machines stay");
        daemon_stop(daemon);
    } else if (daemon->loop.signals == 1) {
        daemon_say(daemon, "giving everything back; another signal does it at once");
        daemon_set_phase(daemon, DAEMON_GIVE_BACK);
    } else if (daemon->loop.signals > 1) {
        daemon_set_phase(daemon, DAEMON_AT_ONCE);
    }
}

int daemon_open_signals(struct daemon *daemon, struct error *error) {
    static const int numbers[] = {SIGINT, SIGTERM, 0};
    signal(SIGPIPE, SIG_IGN);
    return signals_open(&daemon->signal_fd, numbers, error);
}

/* ---- The loop ---- */

static void warn_of_silence(struct daemon *daemon) {
    double silence = job_link_silence(daemon->link);
    double wall = market_clock_elapsed();
    if (isinf(silence) && !daemon->loop.waited) {
        daemon->loop.waited = true;
        daemon_say(daemon, "waiting for the controller at %s", daemon->config->controller);
    } else if (silence > DAEMON_SILENCE_S && !isinf(silence) && wall - daemon->loop.silence_warned > 60) {
        daemon->loop.silence_warned = wall;
        log_warn("no word from the controller at %s for %.0f s: nothing is bought meanwhile",
                 daemon->config->controller, silence);
    }
}

/* Warns before the first calls fail: their retries take a minute or more. */
static void warn_of_no_answer(struct daemon *daemon) {
    bool any = daemon->market.priced || daemon->fleet.listed || daemon->cloud.misses > 0 || daemon->market.points > 0;
    if (!any && !daemon->cloud.silence_said && market_clock_elapsed() - daemon->cloud.asked_wall > DAEMON_FIRST_S) {
        daemon->cloud.silence_said = true;
        log_warn("neither prices nor machines have been told within %d s: does 'bidbrain check-config --online' find "
                 "why?",
                 DAEMON_FIRST_S);
    }
}

/* Returns whether spot machines may be bought. Machines and prices must be known, and the controller be heard; then
 * missing reliable machines are bought. For spot machines the job must also have a node, or wait for no reliable
 * node. */
static bool ready_to_buy(struct daemon *daemon) {
    if (!daemon->fleet.listed || !daemon->market.priced || job_link_silence(daemon->link) > DAEMON_SILENCE_S) {
        return false;
    }
    daemon_keep_reliable(daemon);
    return job_link_caught_up(daemon->link) && (job_link_nodes(daemon->link) > 0 || daemon->job.transient);
}

static double next_renewal(struct daemon *daemon) {
    int64_t next = MARKET_NEVER;
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        int64_t look = footprint_look(&daemon->fleet.machines[i].row, daemon_now(daemon), (int64_t)daemon_lead(daemon));
        next = look < next ? look : next;
    }
    return next == MARKET_NEVER ? INFINITY : (double)next;
}

/* Whether the last reading failed, or the last complete reading is too long ago. */
static bool is_unreachable(const struct daemon *daemon) {
    double silence = market_clock_elapsed() - daemon->cloud.answer_wall;
    double period = (double)daemon->config->periods.list_seconds / daemon->clock.speed;
    return daemon->cloud.misses > 0 || daemon->cloud.answer_wall == 0 || silence > period + DAEMON_SILENT_S;
}

/* Fails with a message that names what may still run and cost money. */
static void fail_with_rest(struct daemon *daemon, const char *why) {
    struct error error = {0};
    char rest[ERROR_TEXT_MAX / 2] = "";
    size_t count = daemon_machines_there(daemon);
    size_t launches = daemon_launches_unanswered(daemon);
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        if (daemon->fleet.machines[i].row.ended == 0) {
            size_t used = strlen(rest);
            const char *id = daemon->fleet.machines[i].row.machine.id;
            if (used + strlen(id) + 2 < sizeof rest) {
                snprintf(rest + used, sizeof rest - used, "%s%s", used > 0 ? " " : "", id);
            }
        }
    }
    error_set(&error, AML_EFAIL,
              "%s: %zu machine%s and %zu launch%s without an answer may still cost money; their tag is "
              "proteus:job = %s, and 'bidbrain run' takes them up again: %s",
              why, count, count == 1 ? "" : "s", launches, launches == 1 ? "" : "es", daemon->config->job,
              rest[0] != '\0' ? rest : "-");
    daemon_fail(daemon, &error);
}

/* Whether the bill must wait for prices up to the end of the last machine. */
static bool lacks_prices(struct daemon *daemon) {
    double wall = market_clock_elapsed();
    int64_t last = 0;
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        last = daemon->fleet.machines[i].row.ended > last ? daemon->fleet.machines[i].row.ended : last;
    }
    daemon->loop.bill_wall = daemon->loop.bill_wall != 0 ? daemon->loop.bill_wall : wall;
    if (daemon->market.priced_to >= last) {
        return false;
    }
    if (wall - daemon->loop.bill_wall > DAEMON_BILL_S) {
        log_warn("no prices of the last hours can be read: the bill goes by the ones before");
        return false;
    }
    daemon->loop.next_prices = fmin(daemon->loop.next_prices, market_clock_seconds(&daemon->clock));
    return true;
}

static void give_back(struct daemon *daemon) {
    double now = market_clock_seconds(&daemon->clock);
    double waited = market_clock_elapsed() - daemon->loop.phase_wall;
    double notice = (double)daemon->config->periods.notice_seconds / daemon->clock.speed;
    daemon_release_all(daemon);
    bool all_gone = daemon_all_gone(daemon);
    bool in_vain = daemon->loop.signals > 0 && waited * 1e3 > DAEMON_UNREACHABLE_MS && is_unreachable(daemon);
    if (all_gone && (daemon->fleet.gone || in_vain)) {
        if (!daemon->fleet.gone) {
            log_warn("what there is can't be asked: by the state nothing runs");
        } else if (!in_vain && lacks_prices(daemon)) {
            return;
        }
        daemon_stop(daemon);
        return;
    }
    if (all_gone && !daemon->fleet.listing) { /* requests a list to confirm that nothing is left */
        daemon->loop.next_list =
            fmin(daemon->loop.next_list, now + (daemon->fleet.gone_when_asked ? daemon->clock.speed : 0));
    }
    if (daemon->loop.phase == DAEMON_GIVE_BACK && waited > DAEMON_END_S + notice) {
        log_warn("not all nodes have left in time: their machines are terminated");
        daemon_set_phase(daemon, DAEMON_AT_ONCE);
    } else if (daemon->loop.phase == DAEMON_AT_ONCE && in_vain && daemon->loop.signals > 1) {
        fail_with_rest(daemon, "what there is can't be asked");
    } else if (daemon->loop.phase == DAEMON_AT_ONCE && waited > DAEMON_END_S) {
        char why[64];
        snprintf(why, sizeof why, "not everything is gone after %d s", DAEMON_END_S);
        fail_with_rest(daemon, why);
    }
}

static void run_phase(struct daemon *daemon) {
    double now = market_clock_seconds(&daemon->clock);
    if (daemon->loop.phase != DAEMON_RUN) {
        give_back(daemon);
        return;
    }
    warn_of_silence(daemon);
    warn_of_no_answer(daemon);
    daemon_expect(daemon);
    daemon->loop.ready = ready_to_buy(daemon);
    if (daemon->loop.ready && (daemon->loop.decide_now || now >= daemon->loop.next_decision)) {
        daemon->loop.decide_now = false;
        daemon_decide(daemon);
        daemon->loop.next_decision =
            fmin(now + (double)daemon->config->periods.decision_seconds, next_renewal(daemon) + 1);
    } else if (!daemon->loop.ready && now >= daemon->loop.next_budget) {
        daemon_keep_budget(daemon);
        daemon->loop.next_budget =
            fmin(now + (double)daemon->config->periods.decision_seconds, next_renewal(daemon) + 1);
    }
}

static double sooner(double a, double b) {
    return b < a ? b : a;
}

static void set_timer(struct daemon *daemon) {
    struct io *io = net_io_of(job_link_io(daemon->link));
    double wait = daemon->loop.next_link - market_clock_elapsed();
    int provider_ms = provider_wait_ms(daemon->provider);
    double reading =
        sooner(daemon_wall_of(daemon, daemon->loop.next_prices), daemon_wall_of(daemon, daemon->loop.next_list));
    wait = sooner(wait, fmax(reading, daemon->cloud.retry_wall - market_clock_elapsed()));
    wait = sooner(wait, daemon_wall_of(daemon, daemon_machines_due(daemon)));
    if (daemon->loop.phase != DAEMON_RUN) {
        wait = sooner(wait, DAEMON_UNREACHABLE_MS / 1e3);
    } else {
        double next = daemon->loop.ready ? daemon->loop.next_decision : daemon->loop.next_budget;
        wait = sooner(wait, fmax(0.01, daemon_wall_of(daemon, next)));
    }
    wait = provider_ms >= 0 ? sooner(wait, provider_ms / 1e3) : wait;
    io->set_timer(io, io->now_us(io) + (uint64_t)(fmax(wait, 0.001) * 1e6));
}

static void tick(void *context) {
    struct daemon *daemon = context;
    provider_step(daemon->provider);
    double now = market_clock_seconds(&daemon->clock);
    double wall = market_clock_elapsed();
    if (wall >= daemon->loop.next_link) {
        daemon->loop.next_link = wall + LINK_REPEAT_MS / 1e3;
        job_link_step(daemon->link);
        daemon_ask_again(daemon);
        check_local(daemon);
    }
    daemon_page_step(daemon);
    if (wall >= daemon->loop.next_money && daemon->market.priced &&
        (job_link_caught_up(daemon->link) || daemon->page.web != NULL)) {
        daemon->loop.next_money = wall + DAEMON_MONEY_S;
        daemon_note_money(daemon);
    }
    if (now >= daemon->loop.next_prices && wall >= daemon->cloud.retry_wall) {
        daemon_ask_prices(daemon);
    }
    if (now >= daemon->loop.next_list && wall >= daemon->cloud.retry_wall) {
        daemon_ask_list(daemon);
    }
    if (daemon->error.code == 0) {
        run_phase(daemon);
        daemon_move_machines(daemon);
    }
    set_timer(daemon);
}

static void provider_ready(void *context) {
    tick(context);
}

/* For commands without the loop: waits until prices and machines are known. */
void daemon_wait_for_provider(struct daemon *daemon) {
    double until = market_clock_elapsed() + DAEMON_END_S;
    daemon->cloud.one_shot = true;
    while ((!daemon->fleet.listed || !daemon->market.priced) && daemon->error.code == 0 && daemon->loop.signals == 0) {
        struct pollfd ready[2] = {{.fd = provider_fd(daemon->provider), .events = POLLIN},
                                  {.fd = daemon->signal_fd, .events = POLLIN}};
        int wait = provider_wait_ms(daemon->provider);
        (void)poll(ready, 2, wait >= 0 && wait < 1000 ? wait : 1000);
        provider_step(daemon->provider);
        take_signal(daemon);
        bool wait_on = market_clock_elapsed() < daemon->cloud.retry_wall || daemon->error.code != 0;
        if (market_clock_elapsed() > until) {
            error_set(&daemon->error, AML_EFAIL, "the provider has not told what there is within %d s", DAEMON_END_S);
        } else if (!wait_on && !daemon->market.pricing && !daemon->market.priced) {
            daemon_ask_prices(daemon);
        } else if (!wait_on && !daemon->fleet.listing && !daemon->fleet.listed) {
            daemon_ask_list(daemon);
        }
    }
}

static int run_loop(struct daemon *daemon, struct error *error) {
    struct net_io *io = job_link_io(daemon->link);
    int code = net_io_watch(io, provider_fd(daemon->provider), provider_ready, daemon);
    code = code != 0 ? code : net_io_watch(io, daemon->signal_fd, take_signal, daemon);
    if (code != 0) {
        return error_set(error, code, "can't wait for the provider");
    }
    daemon->cloud.asked_wall = market_clock_elapsed();
    tick(daemon);
    code = daemon->error.code != 0 ? 0 : net_io_run(io, error);
    net_io_watch(io, provider_fd(daemon->provider), NULL, NULL);
    net_io_watch(io, daemon->signal_fd, NULL, NULL);
    return code;
}

/* ---- Start and end ---- */

/* Rejects a replayed market that is not run by its clock: by real time its prices would be too old and its notices
 * over. Checks only plain-http endpoints, since replayed markets are local. */
static int check_real_time(const struct config *config, struct error *error) {
    int64_t now;
    char text[INSTANT_TEXT_MAX];
    bool replay = config->provider == CONFIG_EC2 && config->endpoint != NULL &&
                  strncmp(config->endpoint, "http://", 7) == 0 && market_clock_differs(config->endpoint, &now);
    if (!replay) {
        return 0;
    }
    instant_format(now, text);
    return error_set(error, AML_EINPUT,
                     "clock: the market at %.200s is at %s and goes by a time of its own: expected \"clock\": "
                     "\"%.200s/clock\"",
                     config->endpoint, text, config->endpoint);
}

/* A replayed clock starts with the ledger, and runs on between two runs of bidbrain. */
int daemon_open_clock(struct daemon *daemon, struct error *error) {
    const struct config *config = daemon->config;
    if (config->clock.url != NULL) {
        return market_clock_ask(&daemon->clock, config->clock.url, error);
    }
    if (config->clock.start == 0) {
        daemon->clock = market_clock_real();
        return check_real_time(config, error);
    }
    double anchor = 0;
    int code = ledger_value(daemon->ledger, "clock-anchor", &anchor, error);
    if (code == 0 && anchor == 0) {
        anchor = market_clock_system();
        code = ledger_put_value(daemon->ledger, "clock-anchor", anchor, error);
    }
    daemon->clock = market_clock_replay(
        (double)config->clock.start + config->clock.speed * (market_clock_system() - anchor), config->clock.speed);
    return code;
}

/* Takes the folder's lock, so that one bidbrain at a time works with it. The lock also shows the market that it is
 * needed. */
static int lock_folder(struct daemon *daemon, const char *path, struct error *error) {
    const char *folder = daemon->config->folder;
    const char *reason = NULL;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return error_set(error, AML_EINPUT, "folder: can't make %.300s: %s", folder, strerror(errno));
    }
    daemon->cloud.folder_lock = private_file_lock(path, &reason);
    return daemon->cloud.folder_lock >= 0 ? 0
           : reason != NULL
               ? error_set(error, AML_EINPUT, "folder: %.300s: %s", path, reason)
               : error_set(error, AML_EINPUT,
                           "folder: another bidbrain works with %.300s: give each configuration its own", folder);
}

int daemon_open_local(struct daemon *daemon, bool start, struct error *error) {
    const struct config *config = daemon->config;
    char *url = daemon->cloud.local_url;
    char clock[EMBEDDED_URL_TEXT + 8];
    int code = 0;
    if (config->provider != CONFIG_LOCAL) {
        return 0;
    }
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/bidbrain.lock", config->folder) >= (int)sizeof path) {
        return error_set(error, AML_EINPUT, "folder: %.300s...: %s", config->folder, strerror(ENAMETOOLONG));
    }
    code = start ? lock_folder(daemon, path, error) : 0;
    if (code != 0) {
        return code;
    }
    double begun = market_clock_elapsed();
    do {
        const struct embedded cloud = {.prices = config->prices,
                                       .model = config->rules->name,
                                       .region = daemon->region,
                                       .folder = config->folder,
                                       .catalog = config->catalog,
                                       .product = config->markets.product,
                                       .owner = path,
                                       .start = daemon_now(daemon),
                                       .first = config->clock.start,
                                       .speed = daemon->clock.speed,
                                       .notice = embedded_notice(daemon->clock.speed)};
        code = embedded_open(&cloud, start, daemon->signal_fd, url, error);
        if (code != 0 || url[0] == '\0') {
            return code;
        }
        snprintf(clock, sizeof clock, "%s/clock", url);
        /* A market that is just ending does not answer. */
        struct pollfd signalled = {.fd = daemon->signal_fd, .events = POLLIN};
        code = market_clock_ask_once(&daemon->clock, clock, error);
        if (code != 0 && poll(&signalled, 1, DAEMON_LOCAL_PAUSE_MS) > 0) {
            *error = (struct error){0};
            return error_set(error, AML_ESTOP, "stopped by a signal while the market in %.200s did not answer",
                             config->folder);
        }
    } while (code != 0 && market_clock_elapsed() - begun < DAEMON_LOCAL_S);
    if (code == 0) {
        environ = embedded_environment(config->folder);
    }
    return code;
}

static int open_report(struct daemon *daemon, struct error *error) {
    const char *path = daemon->options->report;
    if (path == NULL) {
        return 0;
    }
    const char *reason;
    int descriptor = private_file_open(path, O_WRONLY | O_APPEND, &reason);
    if (descriptor < 0) {
        return error_set(error, AML_EINPUT, "--report %.300s: %s", path, reason);
    }
    daemon->report = fdopen(descriptor, "a");
    if (daemon->report == NULL) {
        close(descriptor);
        return error_set(error, AML_EFAIL, "--report %.300s: %s", path, strerror(errno));
    }
    setvbuf(daemon->report, NULL, _IOLBF, 0); /* flush each line: other programs follow the file */
    return 0;
}

void daemon_close(struct daemon *daemon) {
    provider_close(daemon->provider);
    daemon_page_close(daemon);
    job_link_close(daemon->link);
    daemon_market_close(daemon);
    ledger_close(daemon->ledger);
    if (daemon->cloud.folder_lock > 0) {
        close(daemon->cloud.folder_lock);
    }
    if (daemon->signal_fd >= 0) {
        close(daemon->signal_fd);
    }
    if (daemon->report != NULL) {
        fclose(daemon->report);
    }
    free(daemon->fleet.launches);
    free(daemon->fleet.machines);
    free(daemon->fleet.closed);
    free(daemon->fleet.withdrawn);
    if (daemon->user_data != NULL) {
        explicit_bzero(daemon->user_data, USER_DATA_MAX + 2); /* a script of the user may hold a secret */
    }
    free(daemon->user_data);
    free(daemon);
}

struct daemon *daemon_new(const struct daemon_options *options) {
    struct daemon *daemon = memory_zeroed(1, sizeof *daemon);
    daemon->options = options;
    daemon->config = options->config;
    daemon->signal_fd = -1;
    daemon->clock = market_clock_real();
    config_region(daemon->config, daemon->region);
    return daemon;
}

/* Rejects a region other than that of the machines in the ledger. Its lists would not show them, so they would count as
 * gone but run on. */
static int check_region(const struct daemon *daemon, struct error *error) {
    bool ec2 = daemon->config->provider == CONFIG_EC2;
    for (size_t i = 0; i < daemon->fleet.machine_count && ec2; i++) {
        const struct provider_machine *machine = &daemon->fleet.machines[i].row.machine;
        bool here = daemon->fleet.machines[i].row.ended == 0 && machine->zone[0] != '\0';
        if (here && strncmp(machine->zone, daemon->region, strlen(daemon->region)) != 0) {
            return error_set(error, AML_EINPUT,
                             "region: %s of this state is in %s, and %s is configured: expected the region as it was, "
                             "until its machines are given back, or another \"job\" and \"state\"",
                             machine->id, machine->zone, daemon->region);
        }
    }
    return 0;
}

static int daemon_open(struct daemon *daemon, struct error *error) {
    const struct config *config = daemon->config;
    enum ledger_mode mode = daemon->options->dry_run ? LEDGER_COPY : LEDGER_WRITE;
    int code = daemon_open_signals(daemon, error);
    code = code != 0 ? code : open_report(daemon, error);
    code = code != 0 ? code : ledger_open(&daemon->ledger, config->state, config->job, mode, error);
    code = code != 0 ? code : daemon_open_clock(daemon, error);
    code = code != 0 ? code : daemon_open_local(daemon, !daemon->options->dry_run, error);
    code = code != 0 ? code : daemon_job_load(daemon, error);
    code = code != 0 ? code : daemon_load(daemon, error);
    code = code != 0 ? code : daemon_market_open(daemon, error);
    code = code != 0 ? code : check_region(daemon, error);
    code = code != 0 || daemon->options->dry_run ? code : daemon_job_open(daemon, tick, error);
    code = code != 0 || daemon->options->dry_run ? code : daemon_page_open(daemon, error);
    return code != 0 ? code : daemon_open_provider(daemon, error);
}

int daemon_run(const struct daemon_options *options, struct error *error) {
    struct daemon *daemon = daemon_new(options);
    int code = daemon_open(daemon, error);
    if (code == 0 && options->dry_run) {
        daemon_wait_for_provider(daemon);
        if (daemon->error.code == 0 && daemon->loop.signals == 0) {
            daemon_decide(daemon);
        }
    } else if (code == 0) {
        code = run_loop(daemon, error);
    }
    if (code == 0 && !options->dry_run) {
        daemon_report_summary(daemon);
    }
    if (code == 0 && daemon->error.code != 0) {
        code = error_set(error, daemon->error.code, "%s", daemon->error.text);
    }
    daemon_close(daemon);
    return code;
}
