/* The launcher's market: spotmarket, whose machines run the nodes, and bidbrain, which buys them. A killed bidbrain is
 * restarted. Without spotmarket there are no machines, and the job ends. */
#include "proteus/launcher_private.h"

#include "agileml/base/clock.h"
#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/base/private_file.h"
#include "agileml/net/http.h"
#include "bidbrain/cloud/embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BILL_TIMEOUT_MS = 5000,
    BURY_WAIT_MS = 3000, /* wait after the cloud's end, for its machines to end, too */
    BURY_LOOK_MS = 10,
    WORDS_MAX = 300, /* most bytes of a program's last line in a message */
    AUTHORIZATION_MAX = 128,
};

/* A program of the market. Its output goes to FOLDER/NAME.log. The last line may give the reason of its end. */
struct market_program {
    const char *name;
    struct process process;
    struct child_lines output;
    FILE *log; /* NULL: not made */
    char last[WORDS_MAX];
};

struct launcher_market {
    const struct marketplace *place;
    struct market_program cloud, buyer; /* spotmarket, bidbrain */
    struct child_lines ready;           /* pipe for the cloud's address */
    char url[CHILD_LINE_MAX];           /* empty: unknown */
    char folder[PATH_MAX];              /* empty: not made */
    unsigned restarts;                  /* restarts of the buyer */
    bool finishing;                     /* the job is over */
    struct http *http;
    struct http_call *bill_call; /* NULL: none is under way */
    struct report_line *summary; /* summary of the job, held back for the bill; NULL: not here yet, or already shown */
    json_t *bill;                /* the report's line; NULL: none yet */
    /* children from before this program, of the shell that it replaced (exec); not ours to end */
    pid_t *strangers;
    size_t stranger_count;
};

/* ---- Its programs ---- */

static void keep_line(struct market_program *program, const char *line) {
    snprintf(program->last, sizeof program->last, "%s", line);
    fprintf(program->log, "%s\n", line);
    fflush(program->log);
}

static void cloud_said(void *context, const char *line) {
    struct launcher *launcher = context;
    keep_line(&launcher->market->cloud, line);
}

static void buyer_said(void *context, const char *line) {
    struct launcher *launcher = context;
    bool named = strncmp(line, "bidbrain: ", 10) == 0; /* warnings begin with the program's name */
    keep_line(&launcher->market->buyer, line);
    progress_note(launcher->progress, "%s%s", named ? "" : "bidbrain: ", line);
}

static int open_log(const struct launcher_market *market, struct market_program *program, struct error *error) {
    char path[PATH_MAX];
    if (program->log != NULL) {
        return 0; /* it runs already */
    }
    const char *reason = strerror(ENAMETOOLONG);
    int length = snprintf(path, sizeof path, "%s/%s.log", market->folder, program->name);
    int log = length < (int)sizeof path ? private_file_open(path, O_WRONLY | O_TRUNC, &reason) : -1;
    program->log = log >= 0 ? fdopen(log, "w") : NULL;
    return program->log != NULL
               ? 0
               : error_set(error, AML_EFAIL, "can't write %.300s/%s.log: %s", market->folder, program->name, reason);
}

static void start_program(struct launcher *launcher, struct market_program *program, const struct arguments *arguments,
                          struct process_setting setting) {
    char path[PATH_MAX];
    program->last[0] = '\0';
    if (process_find(program->name, path, &launcher->error) != 0 ||
        open_log(launcher->market, program, &launcher->error) != 0 ||
        child_lines_open(&program->output, launcher->io, &setting.output_fd, &launcher->error) != 0) {
        launcher_kill_all(launcher);
        return;
    }
    if (process_start(&program->process, path, arguments, setting, &launcher->error) != 0) {
        launcher_kill_all(launcher);
    }
    close(setting.output_fd);
}

/* Describes a program's end, such as "NAME was killed by signal 9 (Killed)". Adds its last line if it ended by
 * itself. */
static void describe_end(struct market_program *program, char text[LAUNCHER_REASON_TEXT]) {
    char end[PROCESS_END_TEXT];
    child_lines_read(&program->output);
    child_lines_close(&program->output);
    process_describe_end(&program->process, end);
    bool words = WIFEXITED(program->process.status) && WEXITSTATUS(program->process.status) != 0;
    snprintf(text, LAUNCHER_REASON_TEXT, "%s %s%s%s", program->name, end, words && program->last[0] != '\0' ? ": " : "",
             words ? program->last : "");
}

static void close_program(struct market_program *program) {
    child_lines_close(&program->output);
    if (program->log != NULL) {
        fclose(program->log);
    }
}

static bool was_refused(const struct market_program *program) {
    return WIFEXITED(program->process.status) && WEXITSTATUS(program->process.status) == 2;
}

/* ---- The cloud ---- */

static void cloud_ready(void *context, const char *line) {
    struct launcher *launcher = context;
    struct launcher_market *market = launcher->market;
    char start[INSTANT_TEXT_MAX];
    child_lines_close(&market->ready);
    snprintf(market->url, sizeof market->url, "%s", line);
    instant_format(market->place->start, start);
    progress_note(launcher->progress, "market at %s: %s from %s, %g times as fast as time", market->url,
                  market->place->rules->name, start, market->place->options.speed);
    launcher_start_controller(launcher);
}

static int make_market_folder(struct launcher *launcher) {
    struct launcher_market *market = launcher->market;
    const char *kept = market->place->options.folder;
    char path[PATH_MAX];
    int length = kept != NULL ? snprintf(path, sizeof path, "%s", kept)
                              : snprintf(path, sizeof path, "%s/market", launcher->folder.path);
    if (length >= (int)sizeof path) {
        return error_set(&launcher->error, AML_EINPUT, "--market-folder: too long a path");
    }
    if ((mkdir(path, 0700) != 0 && (errno != EEXIST || kept == NULL)) || realpath(path, market->folder) == NULL) {
        market->folder[0] = '\0';
        return error_set(&launcher->error, AML_EINPUT, "can't make the folder %.300s: %s", path, strerror(errno));
    }
    length = snprintf(path, sizeof path, "%s/machines", market->folder);
    if (length >= (int)sizeof path || mkdir(path, 0700) != 0) {
        return errno == EEXIST ? error_set(&launcher->error, AML_EINPUT,
                                           "--market-folder %.300s: holds another run: expected a new folder", kept)
                               : error_set(&launcher->error, AML_EFAIL, "can't make a folder in %.300s: %s",
                                           market->folder, strerror(errno));
    }
    return 0;
}

static void add_cloud_arguments(const struct launcher_market *market, struct arguments *arguments) {
    const struct marketplace *place = market->place;
    char machines[PATH_MAX + 16];
    snprintf(machines, sizeof machines, "%s/machines", market->folder);
    const struct embedded cloud = {.prices = place->prices,
                                   .model = place->rules->name,
                                   .region = place->region,
                                   .folder = machines,
                                   .interruptions = place->options.interruptions,
                                   .start = place->start,
                                   .speed = place->options.speed,
                                   .notice = place->notice,
                                   .seed = 1};
    embedded_arguments(arguments, &cloud, market->folder);
}

void launcher_market_start(struct launcher *launcher) {
    struct launcher_market *market = launcher->market;
    struct arguments arguments = {0};
    int ready_fd;
    market->ready.line = cloud_ready;
    market->ready.context = launcher;
    if (make_market_folder(launcher) != 0 || embedded_write_credentials(market->folder, &launcher->error) != 0 ||
        child_lines_open(&market->ready, launcher->io, &ready_fd, &launcher->error) != 0) {
        launcher_kill_all(launcher);
        return;
    }
    add_cloud_arguments(market, &arguments);
    arguments_add(&arguments, "--ready-fd=%d", ready_fd);
    start_program(launcher, &market->cloud, &arguments, (struct process_setting){.inherited_fd = ready_fd});
    close(ready_fd);
    arguments_close(&arguments);
}

static void cloud_ended(struct launcher *launcher) {
    struct launcher_market *market = launcher->market;
    char end[LAUNCHER_REASON_TEXT];
    child_lines_close(&market->ready);
    describe_end(&market->cloud, end);
    if (launcher->phase != LAUNCHER_END) {
        launcher_fail(launcher, was_refused(&market->cloud) ? AML_EINPUT : AML_EFAIL, "the market is gone: %s", end);
    }
}

/* ---- The buyer ---- */

static void start_buyer(struct launcher *launcher) {
    struct launcher_market *market = launcher->market;
    struct arguments arguments = {0};
    char **environment = embedded_environment(market->folder); /* the only credentials */
    arguments_add(&arguments, "bidbrain");
    arguments_add(&arguments, "run");
    arguments_add(&arguments, "--no-bill");
    arguments_add(&arguments, "--config=%s/bidbrain.json", market->folder);
    arguments_add(&arguments, "--report=%s/bidbrain.jsonl", market->folder);
    start_program(launcher, &market->buyer, &arguments,
                  (struct process_setting){.inherited_fd = -1, .environment = environment});
    arguments_close(&arguments);
    for (size_t e = 0; environment[e] != NULL; e++) {
        free(environment[e]);
    }
    free(environment);
}

void launcher_market_buy(struct launcher *launcher) {
    struct launcher_market *market = launcher->market;
    const struct launcher_options *options = launcher->options;
    const struct marketplace_job job = {.app = options->app,
                                        .job = options->job,
                                        .host = options->host,
                                        .threads = options->threads,
                                        .controller = launcher->endpoint,
                                        .cloud = market->url};
    if (marketplace_write_script(market->folder, &job, &launcher->error) != 0 ||
        marketplace_write_config(market->place, market->folder, &job, &launcher->error) != 0) {
        launcher_kill_all(launcher);
        return;
    }
    start_buyer(launcher);
}

/* The buyer's purchases are in its ledger and in the cloud: a new bidbrain goes on from there. */
static void buyer_lost(struct launcher *launcher, const char *end) {
    struct launcher_market *market = launcher->market;
    if (++market->restarts > LAUNCHER_MARKET_RESTARTS_MAX) {
        launcher_stop(launcher, AML_EFAIL, "bidbrain was killed again and again");
        return;
    }
    progress_note(launcher->progress, "%s; starting it again", end);
    start_buyer(launcher);
}

static void ask_for_bill(struct launcher *launcher);

static void buyer_ended(struct launcher *launcher) {
    struct launcher_market *market = launcher->market;
    char end[LAUNCHER_REASON_TEXT];
    char reason[LAUNCHER_REASON_TEXT + 32];
    describe_end(&market->buyer, end);
    if (market->finishing) {
        if (!process_succeeded(&market->buyer.process)) {
            progress_note(launcher->progress, "%s", end);
        }
        ask_for_bill(launcher);
    } else if (launcher->phase == LAUNCHER_JOB && WIFSIGNALED(market->buyer.process.status)) {
        buyer_lost(launcher, end);
    } else if (launcher->phase == LAUNCHER_JOB) {
        snprintf(reason, sizeof reason, "%s, before the job was over", end);
        launcher_stop(launcher, was_refused(&market->buyer) ? AML_EINPUT : AML_EFAIL, reason);
    }
}

/* ---- The end ---- */

static void end_cloud(struct launcher *launcher) {
    launcher_market_tell(launcher);
    process_signal(&launcher->market->cloud.process, SIGTERM);
}

/* Shows the market's bill, and checks bidbrain's ledger against it. */
static void compare_bills(const struct launcher_market *market, const struct http_answer *answer) {
    char report[PATH_MAX + 32];
    char text[MARKETPLACE_APART_TEXT];
    snprintf(report, sizeof report, "%s/bidbrain.jsonl", market->folder);
    if (!marketplace_compare(market->bill, answer->body, answer->body_size, report, text)) {
        log_warn("%s", text);
    }
}

static void bill_came(void *context, const struct http_answer *answer) {
    struct launcher *launcher = context;
    struct launcher_market *market = launcher->market;
    struct error error = {0};
    market->bill_call = NULL;
    if (answer->status == 200) {
        if (marketplace_write(market->folder, "bill.json", answer->body, answer->body_size, &error) != 0) {
            progress_note(launcher->progress, "%s", error.text);
        }
        market->bill = marketplace_bill(market->place, answer->body, answer->body_size, &error);
    } else {
        error_set(&error, AML_EFAIL, "%s", answer->status != 0 ? "not 200" : answer->error);
    }
    if (market->bill == NULL) {
        progress_note(launcher->progress, "there is no bill: %s", error.text);
    } else {
        compare_bills(market, answer);
    }
    end_cloud(launcher);
}

/* Reads the header by which the cloud recognizes its owner from a file in its folder. "" when it can't be read. */
static void read_authorization(const struct launcher_market *market, char header[AUTHORIZATION_MAX]) {
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/machines/authorization", market->folder);
    FILE *file = fopen(path, "re");
    header[0] = '\0';
    if (file != NULL) {
        if (fgets(header, AUTHORIZATION_MAX, file) != NULL) {
            header[strcspn(header, "\n")] = '\0';
        }
        fclose(file);
    }
}

static void ask_for_bill(struct launcher *launcher) {
    struct launcher_market *market = launcher->market;
    char url[CHILD_LINE_MAX + 8];
    char authorization[AUTHORIZATION_MAX];
    if (!market->cloud.process.running) {
        launcher_market_tell(launcher);
    } else if (market->bill_call == NULL) {
        snprintf(url, sizeof url, "%s/bill", market->url);
        read_authorization(market, authorization);
        const struct http_request request = {
            .method = "GET", .url = url, .headers = {authorization}, .timeout_ms = BILL_TIMEOUT_MS};
        market->bill_call = http_start(market->http, &request, bill_came, launcher);
        explicit_bzero(authorization, sizeof authorization);
    }
}

void launcher_market_finish(struct launcher *launcher) {
    struct launcher_market *market = launcher->market;
    market->finishing = true;
    launcher->kill_us = launcher_after(launcher, LAUNCHER_MARKET_END_WAIT_MS);
    if (market->buyer.process.running) {
        process_signal(&market->buyer.process, SIGTERM);
    } else {
        ask_for_bill(launcher);
    }
}

bool launcher_market_holds(struct launcher *launcher, struct report_line *line) {
    bool held = line->is == REPORT_SUMMARY;
    if (held) {
        launcher->market->summary = report_line_hold(line);
    }
    return held;
}

void launcher_market_tell(struct launcher *launcher) {
    struct launcher_market *market = launcher->market;
    char text[MARKETPLACE_SUMMARY_TEXT];
    if (market == NULL || market->summary == NULL) {
        return;
    }
    if (market->bill != NULL) {
        json_object_set_new(market->bill, "bidbrain_restarts", json_integer((json_int_t)market->restarts));
        launcher_show(launcher, json_incref(market->bill));
    }
    launcher_show(launcher, json_incref(market->summary->json));
    if (market->bill != NULL && market->summary->ok) {
        struct report_line *bill = report_line_of(market->bill);
        marketplace_bill_text(bill, text);
        report_line_drop(bill);
        for (char *rest = text, *note; (note = strsep(&rest, "\n")) != NULL && rest != NULL;) {
            progress_note(launcher->progress, "%s", note);
        }
    }
    report_line_drop(market->summary);
    market->summary = NULL;
}

/* ---- All of it ---- */

void launcher_market_reap(struct launcher *launcher) {
    struct launcher_market *market = launcher->market;
    if (market != NULL && process_ended(&market->buyer.process)) {
        buyer_ended(launcher);
    }
    if (market != NULL && process_ended(&market->cloud.process)) {
        cloud_ended(launcher);
    }
}

void launcher_market_signal(const struct launcher *launcher, int number) {
    if (launcher->market != NULL) {
        process_signal(&launcher->market->buyer.process, number);
        process_signal(&launcher->market->cloud.process, number);
    }
}

bool launcher_market_runs(const struct launcher *launcher) {
    return launcher->market != NULL &&
           (launcher->market->buyer.process.running || launcher->market->cloud.process.running);
}

static void http_ready(void *context) {
    struct launcher *launcher = context;
    http_step(launcher->market->http);
    launcher_wake(launcher);
}

uint64_t launcher_market_due(const struct launcher *launcher) {
    int wait_ms = launcher->market != NULL ? http_wait_ms(launcher->market->http) : -1;
    return wait_ms < 0 ? 0 : launcher_after(launcher, (unsigned)wait_ms);
}

void launcher_market_step(struct launcher *launcher) {
    if (launcher->market != NULL) {
        http_step(launcher->market->http);
    }
}

/* Opens the kernel's list of our children; NULL: not supported. */
static FILE *open_children(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    return fopen(path, "re");
}

static void find_strangers(struct launcher_market *market) {
    FILE *file = open_children();
    int pid;
    while (file != NULL && fscanf(file, "%d", &pid) == 1) {
        market->strangers = memory_resized(market->strangers, market->stranger_count + 1, sizeof *market->strangers);
        market->strangers[market->stranger_count++] = pid;
    }
    if (file != NULL) {
        fclose(file);
    }
}

static bool is_stranger(const struct launcher_market *market, pid_t pid) {
    size_t s = 0;
    while (s < market->stranger_count && market->strangers[s] != pid) {
        s++;
    }
    return s < market->stranger_count;
}

/* Sends `number` to our children. Returns whether there may be any left. */
static bool children_left(const struct launcher_market *market, int number) {
    FILE *file = open_children();
    bool left = file == NULL;
    int pid;
    while (file != NULL && fscanf(file, "%d", &pid) == 1) {
        if (!is_stranger(market, pid)) {
            kill(pid, number);
            left = true;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return left;
}

/* The machines of a killed cloud end a moment later. They are then our children, and we wait for them. */
static void bury_machines(const struct launcher_market *market) {
    for (int waited_ms = 0; waited_ms <= 2 * BURY_WAIT_MS; waited_ms += BURY_LOOK_MS) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD) {
            return;
        }
        if (pid == 0) {
            if (!children_left(market, waited_ms >= BURY_WAIT_MS ? SIGKILL : 0)) {
                return;
            }
            clock_pause_ms(BURY_LOOK_MS);
        }
    }
}

int launcher_market_open(struct launcher *launcher, struct error *error) {
    if (launcher->options->market == NULL) {
        return 0;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    struct launcher_market *market = memory_zeroed(1, sizeof *market);
    launcher->market = market;
    market->place = launcher->options->market;
    find_strangers(market);
    market->cloud = (struct market_program){.name = "spotmarket", .output = {.line = cloud_said, .context = launcher}};
    market->buyer = (struct market_program){.name = "bidbrain", .output = {.line = buyer_said, .context = launcher}};
    int result = http_open(&market->http, error);
    if (result == 0 && net_io_watch(launcher->io, http_fd(market->http), http_ready, launcher) != 0) {
        result = error_set(error, AML_EFAIL, "can't wait for the market's answers");
    }
    return result;
}

void launcher_market_close(struct launcher *launcher) {
    struct launcher_market *market = launcher->market;
    if (market == NULL) {
        return;
    }
    child_lines_close(&market->ready);
    if (market->http != NULL) {
        net_io_watch(launcher->io, http_fd(market->http), NULL, NULL);
        http_close(market->http);
    }
    bury_machines(market);
    close_program(&market->cloud);
    close_program(&market->buyer);
    report_line_drop(market->summary);
    json_decref(market->bill);
    free(market->strangers);
    free(market);
    launcher->market = NULL;
}
