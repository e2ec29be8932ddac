/* The public functions of agileml.h: aml_main with the command line, and the functions that an app calls. They check
 * their arguments; the work is done in runtime.c, params.c, data.c and ratings.c. */
#include "agileml/base/log.h"
#include "agileml/base/machine_memory.h"
#include "agileml/base/machine_processors.h"
#include "agileml/base/options.h"
#include "agileml/base/printable.h"
#include "agileml/base/text_fields.h"
#include "agileml/base/text_input.h"
#include "agileml/input/list.h"
#include "workers/data/crash.h"
#include "workers/data/line_chunks.h"
#include "workers/data/ratings.h"
#include "workers/process/describe.h"
#include "workers/process/params.h"
#include "workers/process/runtime.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(struct aml_rating) == sizeof(struct rating) &&
                   offsetof(struct aml_rating, item) == offsetof(struct rating, item) &&
                   offsetof(struct aml_rating, value) == offsetof(struct rating, value),
               "ratings are passed on as they are");

/* ---- The command line ---- */

/* Options of the library, with topics and the entry that ends the table. */
enum { COMMON_OPTIONS_MAX = 56 };

static void fill_options(struct runtime_options *o, struct aml_option table[COMMON_OPTIONS_MAX]) {
    const struct aml_option all[] = {
        OPTIONS_HEADING("options of every app, for a first job"),
        {"iterations", "N", AML_OPTION_INTEGER, &o->iterations, 0, DESCRIBE_ITERATIONS_MAX,
         "passes over the data; 0: no limit"},
        {"seconds", "S", AML_OPTION_REAL, &o->seconds, 0, 1e9, "stop after S seconds; 0: never"},
        {"tolerance", "X", AML_OPTION_REAL, &o->tolerance, 0, 1,
         "stop when the objective's relative change stays below X; 0: never"},
        {"staleness", "S", AML_OPTION_INTEGER, &o->staleness, 0, WIRE_STALENESS_MAX,
         "clocks that workers may be apart; 0: none"},
        {"seed", "N", AML_OPTION_INTEGER, &o->seed, 0, 9007199254740992.0, "of everything that is random"},
        {"memory", "SIZE", AML_OPTION_STRING, &o->memory, 0, 0,
         "of a process, as 4G; data beyond it is on disk; not given: 60 % of the machine's or cgroup's"},
        {"check", NULL, AML_OPTION_FLAG, &o->check, 0, 0, "check options and input, and stop"},
        {"version", NULL, AML_OPTION_FLAG, &o->version, 0, 0, "print the version"},
        {"help", "[TOPIC]", AML_OPTION_FLAG, &o->help, 0, 0, "this text, or a topic's options"},
        OPTIONS_TOPIC("job", "clocks, threads"),
        {"tolerance-iterations", "N", AML_OPTION_INTEGER, &o->tolerance_iterations, 1, 1000000,
         "iterations in a row in which --tolerance must hold"},
        {"clocks-per-iteration", "N", AML_OPTION_INTEGER, &o->clocks_per_iteration, 0, DESCRIBE_CLOCKS_MAX,
         "parts of a pass between which updates are exchanged; 0: as the app thinks best"},
        {"evaluate-every", "N", AML_OPTION_INTEGER, &o->evaluate_every, 1, DESCRIBE_ITERATIONS_MAX,
         "evaluate after every Nth clock, and after each iteration"},
        {"threads", "N", AML_OPTION_INTEGER, &o->threads, 0, POOL_THREADS_MAX,
         "worker threads of this process; 0: one, or of a feeder as many as the job chooses"},
        {"server-threads", "N", AML_OPTION_INTEGER, &o->server_threads, 1, WIRE_SERVERS_MAX,
         "parameter server threads of this process"},
        {"reject-nan", NULL, AML_OPTION_FLAG, &o->reject_nan, 0, 0,
         "end the job when an update has a NaN or an infinity, and give up a node that sends one all the same"},
        {"supervised", NULL, AML_OPTION_FLAG, &o->supervised, 0, 0,
         "set by proteus run: leave errors that reach the controller to it"},
        OPTIONS_TOPIC("data", "memory, disk"),
        {"spill", "FOLDER", AML_OPTION_STRING, &o->spill, 0, 0,
         "where data beyond --memory is, on a local disk; not given: TMPDIR or /var/tmp"},
        {"standby-memory", "MIB", AML_OPTION_INTEGER, &o->standby_memory, 0, 1 << 20,
         "for data that other nodes work on, to take it over without reading it again; 0: none"},
        {"slice", "N", AML_OPTION_INTEGER, &o->slice, 0, UINT32_MAX,
         "items that a thread works on at once, as its device holds no more; 0: any number"},
        OPTIONS_TOPIC("exchange", "of updates"),
        {"compress", "HOW", AML_OPTION_STRING, &o->compress, 0, 0,
         "how updates of float32 tables travel: none, as they are, or bf16, half as large"},
        {"exchange", "HOW", AML_OPTION_WORD, &o->exchange, 0, 0,
         "how updates and rows travel: direct, to and from their servers; ring, from node to node, for tables that "
         "every node has as a whole; or auto, whichever costs less"},
        {"strategy", "NAME", AML_OPTION_STRING, &o->strategy_name, 0, 0,
         "how nodes agree on a model: ssgd, sma, adpsgd or auto (docs/api.md); not given: the app's own, most often "
         "ssgd"},
        {"local-steps", "N", AML_OPTION_INTEGER, &o->local_steps, 0, WIRE_LOCAL_STEPS_MAX,
         "steps that a node takes between two exchanges; 0: a quarter of an iteration, 16 to 128; with ssgd 1"},
        {"flush-early", NULL, AML_OPTION_FLAG, &o->flush_early, 0, 0,
         "send updates that the app declares complete (aml_rows_done) while it still computes"},
        OPTIONS_TOPIC("uneven", "slow machines"),
        {"lots", "N", AML_OPTION_INTEGER, &o->lots, 0, WIRE_LOTS_MAX,
         "put half of a node's data into N lots, which other nodes keep too, and work on when the node is late; 0: "
         "none"},
        OPTIONS_TOPIC("feeders", "nodes that prepare data"),
        {"threads-max", "N", AML_OPTION_INTEGER, &o->threads_max, 0, POOL_THREADS_MAX,
         "the most threads that the job may choose for this feeder; 0: the processors of this machine or its cgroup"},
        OPTIONS_TOPIC("elastic", "join, leave"),
        {"controller", "ENDPOINT", AML_OPTION_STRING, &o->controller, 0, 0,
         "join the job of the controller at tcp://HOST:PORT"},
        {"tier", "TIER", AML_OPTION_STRING, &o->tier, 0, 0, "this machine is reliable or transient, or a feeder"},
        {"name", "NAME", AML_OPTION_STRING, &o->name, 0, 0, "this node's name in the job; not given: chosen"},
        {"group", "NAME", AML_OPTION_STRING, &o->group, 0, 0,
         "what this node may fail together with: a zone, a market, a rack; its host if not given"},
        {"connect-timeout", "S", AML_OPTION_REAL, &o->connect_timeout, 0.1, 86400,
         "seconds to wait for the controller at first"},
        {"patience", "S", AML_OPTION_REAL, &o->patience, 0.1, 1e6,
         "seconds to go on without the controller before giving up"},
        {"notice", "S", AML_OPTION_REAL, &o->notice, 0, 86400,
         "seconds between SIGTERM and this machine's end: what the node has to leave the job"},
        {"poll-notice", "S", AML_OPTION_REAL, &o->poll_notice, 0, 3600,
         "seconds between looks at the cloud's notices (metadata service of EC2); 0: none; not given: on EC2 only"},
        {"leave-on-rebalance", NULL, AML_OPTION_FLAG, &o->leave_on_rebalance, 0, 0,
         "leave the job when the cloud only recommends it, as at SIGTERM"},
        OPTIONS_TOPIC("network", "addresses, keys"),
        {"listen", "HOST", AML_OPTION_STRING, &o->listen, 0, 0,
         "this machine's address, at which other nodes reach its servers; 0.0.0.0 or [::]: all of them"},
        {"advertise", "HOST", AML_OPTION_STRING, &o->advertise, 0, 0,
         "the address that other nodes are told, if they reach this machine at another one than --listen"},
        {"key", "FILE", AML_OPTION_STRING, &o->key, 0, 0,
         "a node's token or the job's key (see 'proteus keygen'): encrypt, admit only nodes of the job"},
        {"insecure", NULL, AML_OPTION_FLAG, &o->insecure, 0, 0, "allow plain text beyond this machine"},
        LOG_OPTIONS(o->log),
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    _Static_assert(sizeof all <= COMMON_OPTIONS_MAX * sizeof all[0], "the caller's table has room");
    memcpy(table, all, sizeof all);
}

static const struct aml_option NO_OPTIONS[] = {{NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL}};

enum { HELP_ABOUT_MAX = 1024 };

/* Answers --help, with the defaults, whatever other options are given. Returns as options_help does. */
static int answer_help(const struct aml_app *app, const struct aml_option *const tables[2], int argc, char **argv,
                       struct error *error) {
    char about[HELP_ABOUT_MAX], heading[HELP_ABOUT_MAX];
    snprintf(about, sizeof about,
             "%.32s - %.600s\n\nusage: proteus run [OPTIONS OF PROTEUS] -- %.32s [OPTIONS]\n"
             "       %.32s --controller tcp://HOST:PORT --tier TIER [OPTIONS]",
             app->name, app->summary != NULL ? app->summary : "an AgileML app", app->name, app->name);
    snprintf(heading, sizeof heading, "options of %.32s", app->name);
    const struct aml_option head[] = {OPTIONS_HEADING(heading), NO_OPTIONS[0]};
    const struct aml_option *const all[] = {tables[0][0].name != NULL ? head : NO_OPTIONS, tables[0], tables[1]};
    return options_help(about, all, 3, argc, argv, error);
}

/* ---- From the app to the job ---- */

static bool table_is_real(const struct aml_table *table) {
    return table->type == AML_FLOAT32 || table->type == AML_FLOAT64;
}

static void make_table(struct table_spec *spec, const struct aml_table *table, bool compress, bool averages,
                       void *context) {
    size_t element = aml_type_size(table->type);
    bool counts = (table->type == AML_INT32 || table->type == AML_INT64) && table->mode == AML_ADD;
    *spec = (struct table_spec){.type = table->type,
                                .mode = table->mode,
                                .width = table->width,
                                .row_bytes = table->width * (uint32_t)element,
                                .rows = table->rows,
                                .whole = table->whole != 0,
                                .compressed = compress && table->type == AML_FLOAT32 && table->mode == AML_ADD,
                                .sparse = counts && (table->width >= TABLE_SPARSE_WIDTH || table->changes_given),
                                .averaged =
                                    averages && table_is_real(table) && table->mode == AML_ADD && table->shares == 0,
                                .shares = table->shares,
                                .given = table->changes_given != 0,
                                .start = table->start,
                                .context = context,
                                .apply = table->apply,
                                .apply_rows = table->apply_rows,
                                .parameters = table->parameters};
    snprintf(spec->name, sizeof spec->name, "%s", table->name);
}

/* Adds the tables of states behind the app's tables. */
static void make_states(struct runtime *runtime) {
    const struct aml_app *app = runtime->app;
    struct job *job = &runtime->job;
    for (unsigned t = 0; t < app->table_count; t++) {
        if (app->tables[t].state_width > 0) {
            unsigned state = job->table_count++;
            job->tables[t].state = state;
            job->tables[state] = table_state_spec(&job->tables[t], app->tables[t].state_width);
            job->shapes[state] = table_shape(&job->tables[state]);
        }
    }
}

/* Sets how updates travel. With auto, a job whose tables can't travel by a ring exchanges directly. */
static int choose_exchange(struct runtime *runtime, struct error *error) {
    static const char *const names[] = {
        [EXCHANGE_DIRECT] = "direct", [EXCHANGE_RING] = "ring", [EXCHANGE_AUTO] = "auto"};
    struct job *job = &runtime->job;
    const char *how = runtime->options.exchange;
    unsigned e = 0;
    while (e < sizeof names / sizeof *names && strcmp(how, names[e]) != 0) {
        e++;
    }
    if (e == sizeof names / sizeof *names) {
        return error_set(error, AML_EINPUT, "--exchange: expected direct, ring or auto, got '%s'", how);
    }
    unsigned unfit = ring_unfit_table(job);
    if (unfit < job->table_count && e == EXCHANGE_RING) {
        return error_set(error, AML_EINPUT,
                         "--exchange ring: table %s can't travel by a ring: expected tables that every node has as a "
                         "whole (aml_table.whole), whose updates are summed, flushed as full rows%s",
                         job->tables[unfit].name, job->tables[unfit].compressed ? ", not --compress bf16" : "");
    }
    job->exchange = unfit < job->table_count ? EXCHANGE_DIRECT : (enum exchange)e;
    return 0;
}

/* The default of --local-steps, except with ssgd, is this part of an iteration within limits. */
enum { LOCAL_STEPS_PART = 4, LOCAL_STEPS_MIN = 16, LOCAL_STEPS_MAX = WIRE_LOCAL_STEPS_MAX };

/* Returns the name of the job's strategy: that of --strategy, or else the app's. Options that exclude an app's strategy
 * have it give way to ssgd. */
static const char *strategy_chosen(const struct runtime *runtime) {
    const struct runtime_options *options = &runtime->options;
    bool excluded = options->lots > 0 || options->flush_early || strcmp(options->compress, "none") != 0;
    return options->strategy_name != NULL                ? options->strategy_name
           : runtime->app->strategy != NULL && !excluded ? runtime->app->strategy
                                                         : strategy_name(STRATEGY_SSGD);
}

static int check_strategy_name(const char *name, struct error *error) {
    enum strategy strategy;
    return name == NULL || strategy_of_name(name, &strategy)
               ? 0
               : error_set(error, AML_EINPUT, "--strategy: expected " STRATEGY_NAMES " or auto, got '%s'", name);
}

/* Sets the clocks of an iteration, after the app's configure. */
static int take_clocks(struct runtime *runtime, struct error *error) {
    const struct aml_app *app = runtime->app;
    int64_t *clocks = &runtime->options.clocks_per_iteration;
    const int64_t phases = runtime_phases(runtime);
    const bool given = *clocks > 0;
    if (!given) {
        *clocks = app->clocks_per_iteration > 0 ? app->clocks_per_iteration : phases;
    }
    if (*clocks % phases == 0) {
        return 0;
    }
    return given ? error_set(error, AML_EINPUT,
                             "--clocks-per-iteration %lld: expected a multiple of %lld, as %s works on each part in "
                             "%lld phases",
                             (long long)*clocks, (long long)phases, app->name, (long long)phases)
                 : error_set(error, AML_EINPUT,
                             "app %s: clocks_per_iteration %lld: expected a multiple of its %lld phases", app->name,
                             (long long)*clocks, (long long)phases);
}

/* Sets the job's strategy and local steps, after the app's configure. */
static int take_strategy(struct runtime *runtime, struct error *error) {
    struct runtime_options *options = &runtime->options;
    options->strategy_name = strategy_chosen(runtime);
    if (!strategy_of_name(options->strategy_name, &options->strategy)) {
        return error_set(error, AML_EINPUT, "app %s: strategy: expected " STRATEGY_NAMES " or auto, got '%s'",
                         runtime->app->name, options->strategy_name);
    }
    if (options->strategy == STRATEGY_SSGD && options->local_steps > 1) {
        return error_set(error, AML_EINPUT, "--local-steps %lld: expected 1 with --strategy ssgd",
                         (long long)options->local_steps);
    }
    const int64_t clocks = options->clocks_per_iteration;
    int64_t steps = (clocks + LOCAL_STEPS_PART - 1) / LOCAL_STEPS_PART;
    steps = steps < LOCAL_STEPS_MIN ? LOCAL_STEPS_MIN : steps > LOCAL_STEPS_MAX ? LOCAL_STEPS_MAX : steps;
    const int64_t groups = (clocks + steps - 1) / steps;
    steps = (clocks + groups - 1) / groups; /* no short group at the end */
    steps = options->strategy == STRATEGY_SSGD ? 1 : steps;
    options->local_steps = options->local_steps > 0 ? options->local_steps : steps;
    return 0;
}

/* Whether the job can use the strategies that --strategy names. */
static int check_strategy(const struct runtime *runtime, struct error *error) {
    const struct aml_app *app = runtime->app;
    const char *name = runtime->options.strategy_name;
    if (runtime->options.strategy == STRATEGY_SSGD) {
        return 0;
    }
    if (app->phases > 1) {
        return error_set(error, AML_EINPUT, "--strategy %s: expected ssgd, since %s works in %u phases", name,
                         app->name, app->phases);
    }
    if (!app->strategies) {
        return error_set(error, AML_EINPUT, "--strategy %s: expected ssgd, since %s has no other", name, app->name);
    }
    if (runtime->options.lots > 0 || strcmp(runtime->options.compress, "none") != 0) {
        return error_set(error, AML_EINPUT, "--strategy %s: expected ssgd with --lots or --compress bf16", name);
    }
    for (unsigned t = 0; t < app->table_count; t++) {
        bool stepped = app->tables[t].apply != NULL || app->tables[t].apply_rows != NULL;
        if (stepped && table_is_real(&app->tables[t]) && !app->tables[t].whole) {
            return error_set(error, AML_EINPUT,
                             "--strategy %s: table %s can't be averaged: expected no optimizer unless every node has "
                             "the table as a whole (aml_table.whole)",
                             name, app->tables[t].name);
        }
        if (runtime->options.strategy == STRATEGY_ADPSGD && table_is_real(&app->tables[t]) && !app->tables[t].whole) {
            return error_set(error, AML_EINPUT,
                             "--strategy %s: table %s can't be averaged with another node's: expected a table that "
                             "every node has as a whole (aml_table.whole)",
                             name, app->tables[t].name);
        }
        uint64_t width = app->tables[t].width; /* of the rows or of their states, whose table is another */
        width = app->tables[t].state_width > width ? app->tables[t].state_width : width;
        uint64_t bytes = app->tables[t].rows * (width * aml_type_size(app->tables[t].type));
        if (runtime->options.strategy == STRATEGY_ADPSGD && table_is_real(&app->tables[t]) &&
            bytes > WIRE_FRAME_BYTES_MAX) {
            return error_set(error, AML_EINPUT,
                             "--strategy %s: table %s has %llu bytes: expected at most %llu, as a node sends it whole",
                             name, app->tables[t].name, (unsigned long long)bytes,
                             (unsigned long long)WIRE_FRAME_BYTES_MAX);
        }
    }
    return 0;
}

static int make_job(struct runtime *runtime, struct error *error) {
    const struct aml_app *app = runtime->app;
    struct job *job = &runtime->job;
    int result = describe_check(app, error);
    if (result != 0) {
        return result;
    }
    const char *how = runtime->options.compress;
    bool compress = strcmp(how, "bf16") == 0;
    if (runtime->options.lots > 0 && !app->lots) {
        return error_set(error, AML_EINPUT, "--lots %lld: expected 0, since %s can't be used with lots",
                         (long long)runtime->options.lots, app->name);
    }
    if (runtime->options.lots > 0 && compress) {
        return error_set(error, AML_EINPUT, "--lots %lld: expected 0 with --compress bf16",
                         (long long)runtime->options.lots);
    }
    if (runtime->options.slice > 0 && !app->slices) {
        return error_set(error, AML_EINPUT,
                         "--slice %lld: expected 0, since %s does not work in slices, or not with this data",
                         (long long)runtime->options.slice, app->name);
    }
    if (!compress && strcmp(how, "none") != 0) {
        return error_set(error, AML_EINPUT, "--compress: expected none or bf16, got '%s'", how);
    }
    result = check_strategy(runtime, error);
    if (result != 0) {
        return result;
    }
    job->clocks = (struct strategy_clocks){.per_iteration = (uint32_t)runtime->options.clocks_per_iteration,
                                           .local_steps = (uint32_t)runtime->options.local_steps};
    job->table_count = app->table_count;
    job->staleness = (uint32_t)runtime->options.staleness;
    job->reject_nan = runtime->options.reject_nan;
    for (unsigned t = 0; t < app->table_count; t++) {
        make_table(&job->tables[t], &app->tables[t], compress, runtime->options.strategy != STRATEGY_SSGD,
                   app->context);
        if (job->tables[t].mode == AML_PUT && runtime->memory.limit > 0) {
            job->tables[t].files = &runtime->memory.spill.rows;
        }
        job->shapes[t] = table_shape(&job->tables[t]);
    }
    make_states(runtime);
    result = choose_exchange(runtime, error);
    if (result != 0) {
        return result;
    }
    for (unsigned m = 0; m < app->metric_count; m++) {
        runtime->terms.metrics[m].kind = app->metrics[m].kind;
        runtime->terms.metrics[m].evaluated = app->metrics[m].evaluated != 0 ? 1 : 0;
        snprintf(runtime->terms.metrics[m].name, WIRE_NAME_MAX, "%s", app->metrics[m].name);
    }
    check_tables(runtime);
    return 0;
}

static void digest_add(uint64_t *digest, uint64_t value) {
    *digest = hash_mix(*digest ^ value);
}

/* A hash of the app's description, which must be the same in all processes. */
static uint64_t job_digest(const struct runtime *runtime) {
    const struct aml_app *app = runtime->app;
    uint64_t digest = WIRE_VERSION;
    for (unsigned t = 0; t < runtime->job.table_count; t++) {
        const struct table_spec *spec = &runtime->job.tables[t];
        digest_add(&digest, spec->type);
        digest_add(&digest, spec->mode);
        digest_add(&digest, spec->width);
        digest_add(&digest, spec->rows);
        digest_add(&digest, spec->whole && !spec->states); /* states are replicated by some strategies alone */
        digest_add(&digest, spec->compressed);
        digest_add(&digest, spec->sparse); /* servers refuse flushes in another encoding than their table's */
        digest_add(&digest, table_optimized(spec));
    }
    digest_add(&digest, app->metric_count);
    digest_add(&digest, app->item_rows);
    digest_add(&digest, app->item_bytes);
    digest_add(&digest, app->item_varied != 0);
    digest_add(&digest, app->clock_alone != 0);
    for (const struct aml_transform *transform = app->transforms; transform != NULL && transform->name != NULL;
         transform++) {
        digest_add(&digest,
                   hash_bytes((const unsigned char *)transform->name, strlen(transform->name), transform->flags));
        digest_add(&digest, transform->bytes);
    }
    return digest;
}

static bool option_steers(const struct aml_app *app, const char *name) {
    for (const char *const *steering = app->steering; steering != NULL && *steering != NULL; steering++) {
        if (strcmp(*steering, name) == 0) {
            return true;
        }
    }
    return false;
}

enum { WORD_SHOWN = WIRE_OPTION_MAX - 18 /* bytes before a space, the hash and the final 0 */ };

/* Prints a word. If the word is too long, or not printable, prints its beginning and a hash of all of it. */
static void word_value(const char *word, char value[WIRE_OPTION_MAX]) {
    snprintf(value, WIRE_OPTION_MAX, "%.*s", WIRE_OPTION_MAX - 1, word);
    text_make_printable(value);
    if (strcmp(value, word) != 0) {
        uint64_t hash = hash_bytes((const unsigned char *)word, strlen(word), 0);
        snprintf(value, WORD_SHOWN + 1, "%.*s", WORD_SHOWN, word);
        text_make_printable(value);
        size_t shown = strlen(value);
        snprintf(value + shown, WIRE_OPTION_MAX - shown, " %016llx", (unsigned long long)hash);
    }
}

/* Prints the value of a number, a flag or a word. False for any other text, as paths may differ from machine to
 * machine. */
static bool option_value(const struct aml_option *option, char value[WIRE_OPTION_MAX]) {
    double real;
    if (option->target == NULL) { /* a text for --help, not an option */
        return false;
    }
    switch (option->type) {
    case AML_OPTION_FLAG:
        snprintf(value, WIRE_OPTION_MAX, "%s", *(const bool *)option->target ? "on" : "off");
        return true;
    case AML_OPTION_INTEGER:
        snprintf(value, WIRE_OPTION_MAX, "%lld", (long long)*(const int64_t *)option->target);
        return true;
    case AML_OPTION_REAL:
        real = *(const double *)option->target;
        snprintf(value, WIRE_OPTION_MAX, "%.15g", real);
        if (strtod(value, NULL) != real) {
            snprintf(value, WIRE_OPTION_MAX, "%.17g", real);
        }
        return true;
    case AML_OPTION_WORD:
        word_value(*(const char *const *)option->target != NULL ? *(const char *const *)option->target : "", value);
        return true;
    default:
        return false;
    }
}

struct settings_list {
    struct wire_option options[WIRE_OPTIONS_MAX];
    unsigned count;
};

static int settings_add(struct settings_list *list, const struct aml_option *option, bool steers, struct error *error) {
    char value[WIRE_OPTION_MAX];
    if (!option_value(option, value)) {
        return 0;
    }
    if (list->count == WIRE_OPTIONS_MAX || strlen(option->name) >= WIRE_OPTION_MAX) {
        return error_set(error, AML_EINPUT, "--%s: expected at most %d options, of names of at most %d bytes",
                         option->name, WIRE_OPTIONS_MAX, WIRE_OPTION_MAX - 1);
    }
    struct wire_option *new = &list->options[list->count++];
    snprintf(new->name, sizeof new->name, "%s", option->name);
    memcpy(new->value, value, sizeof value);
    new->steers = steers;
    return 0;
}

/* Lists the options that must be the same in all processes: the app's own, and the library's that change results. */
static int make_settings(struct runtime *runtime, struct error *error) {
    const struct aml_app *app = runtime->app;
    struct runtime_options *o = &runtime->options;
    const struct aml_option fixed[] = {
        {"seed", "N", AML_OPTION_INTEGER, &o->seed, 0, 0, NULL},
        {"staleness", "S", AML_OPTION_INTEGER, &o->staleness, 0, 0, NULL},
        {"clocks-per-iteration", "N", AML_OPTION_INTEGER, &o->clocks_per_iteration, 0, 0, NULL},
        {"compress", "HOW", AML_OPTION_WORD, &o->compress, 0, 0, NULL},
    };
    const struct aml_option steering[] = {
        {"iterations", "N", AML_OPTION_INTEGER, &o->iterations, 0, 0, NULL},
        {"seconds", "S", AML_OPTION_REAL, &o->seconds, 0, 0, NULL},
        {"tolerance", "X", AML_OPTION_REAL, &o->tolerance, 0, 0, NULL},
        {"tolerance-iterations", "N", AML_OPTION_INTEGER, &o->tolerance_iterations, 0, 0, NULL},
        {"evaluate-every", "N", AML_OPTION_INTEGER, &o->evaluate_every, 0, 0, NULL},
        {"exchange", "HOW", AML_OPTION_WORD, &o->exchange, 0, 0, NULL},
        {"strategy", "NAME", AML_OPTION_WORD, &o->strategy_name, 0, 0, NULL},
        {"local-steps", "N", AML_OPTION_INTEGER, &o->local_steps, 0, 0, NULL},
        {"reject-nan", NULL, AML_OPTION_FLAG, &o->reject_nan, 0, 0, NULL},
        {"lots", "N", AML_OPTION_INTEGER, &o->lots, 0, 0, NULL},
    };
    struct settings_list *list = memory_zeroed(1, sizeof *list);
    int result = 0;
    for (const struct aml_option *own = app->options; own != NULL && own->name != NULL && result == 0; own++) {
        result = settings_add(list, own, option_steers(app, own->name), error);
    }
    for (unsigned i = 0; i < sizeof fixed / sizeof *fixed && result == 0; i++) {
        result = settings_add(list, &fixed[i], false, error);
    }
    for (unsigned i = 0; i < sizeof steering / sizeof *steering && result == 0; i++) {
        result = settings_add(list, &steering[i], true, error);
    }
    for (unsigned m = 0; m < runtime->terms.mark_count && result == 0; m++) {
        if (list->count == WIRE_OPTIONS_MAX) {
            result = error_set(error, AML_EINPUT, "expected at most %d options and input marks", WIRE_OPTIONS_MAX);
            break;
        }
        list->options[list->count++] = runtime->terms.marks[m];
    }
    runtime->terms.settings = buffer_copy(list->options, list->count * sizeof *list->options);
    free(list);
    return result;
}

static int make_registration(struct runtime *runtime, struct error *error) {
    const struct runtime_options *options = &runtime->options;
    struct message_register *registration = &runtime->terms.registration;
    struct job_terms *job = &registration->job;
    enum node_tier tier;
    if (!tier_of_name(options->tier, &tier)) {
        return error_set(error, AML_EINPUT, "--tier: expected " TIER_NAMES ", got '%s'", options->tier);
    }
    if (options->name != NULL && (options->name[0] == '\0' || strlen(options->name) >= WIRE_NAME_MAX)) {
        return error_set(error, AML_EINPUT, "--name '%s': expected a name of 1 to %d bytes", options->name,
                         WIRE_NAME_MAX - 1);
    }
    snprintf(registration->name, sizeof registration->name, "%s", options->name != NULL ? options->name : "");
    if (options->group != NULL && (options->group[0] == '\0' || strlen(options->group) >= WIRE_NAME_MAX)) {
        return error_set(error, AML_EINPUT, "--group '%s': expected a name of 1 to %d bytes", options->group,
                         WIRE_NAME_MAX - 1);
    }
    snprintf(registration->group, sizeof registration->group, "%s", options->group != NULL ? options->group : "");
    if (gethostname(registration->host, sizeof registration->host - 1) != 0) {
        snprintf(registration->host, sizeof registration->host, "?");
    }
    registration->process_id = (uint64_t)getpid();
    registration->tier = (uint8_t)tier;
    registration->threads = options->threads_max > 0 ? 1 : (uint32_t)options->threads;
    registration->threads_max = (uint32_t)options->threads_max;
    registration->slice = (uint64_t)options->slice * (runtime->app->clock_alone ? 1 : registration->threads);
    snprintf(job->app, sizeof job->app, "%s", runtime->app->name);
    job->digest = job_digest(runtime);
    job->staleness = (uint32_t)options->staleness;
    job->clocks_per_iteration = (uint32_t)options->clocks_per_iteration;
    job->phases = runtime->app->phases > 1 ? runtime->app->phases : 0;
    job->local_steps = (uint32_t)options->local_steps;
    job->strategy = (uint8_t)options->strategy;
    job->ssgd_iterations = options->strategy == STRATEGY_SSGD ? 0 : (uint32_t)runtime->app->ssgd_iterations;
    job->iterations = (uint64_t)options->iterations;
    job->seconds = options->seconds;
    job->tolerance = options->tolerance;
    job->tolerance_iterations = (uint32_t)options->tolerance_iterations;
    return 0;
}

/* How many threads the process has, and whether the controller may choose how many of them a feeder uses. */
static int choose_threads(struct runtime_options *options, struct error *error) {
    bool chooses = options->threads == 0 && strcmp(options->tier, tier_name(TIER_FEEDER)) == 0;
    if (options->threads_max > 0 && !chooses) {
        return error_set(error, AML_EINPUT,
                         "--threads-max: expected it with --tier feeder and without --threads: the threads of other "
                         "nodes are not chosen by the job");
    }
    if (chooses && options->threads_max == 0) {
        unsigned processors = machine_processors("");
        options->threads_max = processors < POOL_THREADS_MAX ? processors : POOL_THREADS_MAX;
    }
    options->threads = chooses ? options->threads_max : options->threads > 0 ? options->threads : 1;
    return 0;
}

static int call_configure(struct runtime *runtime, struct error *error) {
    struct aml_app *app = runtime->app;
    struct aml_worker *worker = &runtime->configuring;
    runtime_init_worker(worker, runtime, 0);
    check_enter(worker, CALL_CONFIGURE);
    crash_enter("configure", 0);
    int configured = app->configure != NULL ? app->configure(worker, app) : 0;
    crash_leave();
    configured = check_returned(worker, configured, "configure");
    if (runtime->error.code != 0) {
        return error_set(error, runtime->error.code, "%s", runtime->error.text);
    }
    return configured == 0
               ? 0
               : error_set(error, configured, "the app's configure function failed with code %d", configured);
}

/* Parses the command line. Returns 0; 1 when the program is done already (--help, --version); or an error. */
static int parse_options(struct runtime *runtime, int argc, char **argv, struct error *error) {
    const struct aml_app *app = runtime->app;
    struct runtime_options *options = &runtime->options;
    struct aml_option common[COMMON_OPTIONS_MAX];
    const struct aml_option *own = app->options != NULL ? app->options : NO_OPTIONS;
    const struct aml_option *const tables[] = {own, common};
    const int64_t iterations_unset = -1;
    int operand;
    fill_options(options, common);
    if (describe_check_first(app, common, error) != 0) {
        return AML_EINPUT;
    }
    int64_t iterations = options->iterations;
    int helped = answer_help(app, tables, argc, argv, error);
    if (helped != 0) {
        return helped;
    }
    options->iterations = iterations_unset;
    options->poll_notice = -1;
    if (options_parse(tables, 2, argc, argv, &operand, error) != 0 || log_set_up(&options->log, error) != 0) {
        return error->code;
    }
    crash_take_frame();
    if (operand < argc) {
        return error_set(error, AML_EINPUT, "unexpected argument '%s': expected options only; see --help",
                         argv[operand]);
    }
    if (options->version) {
        printf("%s (AgileML %s)\n", app->name, PROTEUS_VERSION);
        return 1;
    }
    if (options->poll_notice > 0 && options->poll_notice * 1000 < NOTICE_POLL_MS_MIN) {
        return error_set(error, AML_EINPUT, "--poll-notice: expected 0, or %g to 3600 seconds",
                         NOTICE_POLL_MS_MIN / 1e3);
    }
    bool ends = options->seconds > 0 || options->tolerance > 0;
    options->iterations_open = options->iterations == iterations_unset && !ends;
    if (options->iterations == iterations_unset) {
        options->iterations = ends ? 0 : iterations;
    }
    if (options->iterations == 0 && options->seconds <= 0 && options->tolerance <= 0) {
        return error_set(error, AML_EINPUT, "the job would never stop: give --iterations, --seconds or --tolerance");
    }
    return 0;
}

/* Finds out how much memory the process may use, and where data beyond that goes. */
static int make_memory(struct runtime *runtime, struct error *error) {
    const struct runtime_options *options = &runtime->options;
    const char *folder = options->spill;
    const char *variable = getenv("TMPDIR");
    if (folder == NULL) {
        folder = variable != NULL && variable[0] != '\0' ? variable : "/var/tmp";
    }
    if (folder[0] == '\0' || strlen(folder) >= sizeof runtime->memory.spill.data.folder) {
        return error_set(error, AML_EINPUT, "--spill '%.100s': expected the path of a folder, of at most %zu bytes",
                         folder, sizeof runtime->memory.spill.data.folder - 1);
    }
    snprintf(runtime->memory.spill.data.folder, sizeof runtime->memory.spill.data.folder, "%s", folder);
    runtime->memory.limit = (uint64_t)((double)machine_memory("") * RUNTIME_MEMORY_SHARE);
    int result = 0;
    if (options->memory != NULL) {
        result = memory_size_parse(options->memory, "memory", &runtime->memory.limit, error);
    }
    if (result == 0 && options->spill != NULL) {
        result = spill_try(&runtime->memory.spill.data, error);
    }
    spill_arenas(&runtime->memory.spill.data, &runtime->memory.spill.rows,
                 (size_t)((double)runtime->memory.limit * RUNTIME_ROWS_SHARE));
    return result;
}

/* Parses the command line, calls `configure`, and checks everything. Returns 0; 1 when the program is done already
 * (--help and the like); or an error. */
static int aml_configure(struct runtime *runtime, int argc, char **argv, struct error *error) {
    struct aml_app *app = runtime->app;
    struct runtime_options *options = &runtime->options;
    *options = (struct runtime_options){.tier = "reliable",
                                        .compress = "none",
                                        .exchange = "direct",
                                        .listen = "127.0.0.1",
                                        .server_threads = 1,
                                        .iterations = app->iterations > 0 ? app->iterations : 20,
                                        .tolerance_iterations = 3,
                                        .evaluate_every = app->evaluate_every > 0 ? app->evaluate_every : 1,
                                        .seed = 1,
                                        .standby_memory = 256,
                                        .connect_timeout = 30,
                                        .notice = 120,
                                        .poll_notice = NOTICE_POLL_S_DEFAULT,
                                        .patience = 300};
    int result = parse_options(runtime, argc, argv, error);
    if (options->clocks_per_iteration > 0) {
        app->clocks_per_iteration = options->clocks_per_iteration; /* for `configure` to see */
    }
    if (app->iterations >= 0) {                /* else describe_check refuses it */
        app->iterations = options->iterations; /* for `configure` to see */
    }
    result = result != 0 ? result : choose_threads(options, error);
    result = result != 0 ? result : check_strategy_name(options->strategy_name, error);
    result = result != 0 ? result : call_configure(runtime, error);
    if (result != 0) {
        return result;
    }
    result = take_clocks(runtime, error);
    result = result != 0 ? result : take_strategy(runtime, error);
    if (result != 0) {
        return result;
    }
    if (options->iterations_open && app->iterations > 0) {
        options->iterations = app->iterations;
    }
    if ((uint64_t)options->iterations > WIRE_CLOCK_MAX / (uint64_t)options->clocks_per_iteration) {
        return error_set(error, AML_EINPUT, "--iterations x --clocks-per-iteration: expected at most %llu clocks",
                         (unsigned long long)WIRE_CLOCK_MAX);
    }
    result = make_memory(runtime, error);
    result = result != 0 ? result : make_job(runtime, error);
    result = result != 0 ? result : make_settings(runtime, error);
    result = result != 0 ? result : make_registration(runtime, error);
    if (result == 0 && options->check) {
        return 1;
    }
    if (result == 0 && options->controller == NULL) {
        return error_set(error, AML_EINPUT,
                         "nothing to join: start it with 'proteus run -- %s ...', or give --controller tcp://HOST:PORT",
                         app->name);
    }
    return result;
}

enum { ARGUMENTS_MAX = 4096 };

/* Fills arguments[ARGUMENTS_MAX], ended by NULL, with the command line that this process was executed with. Returns the
 * text that the arguments point into, which the caller frees; NULL when the command line can't be read. aml_main may
 * have been given other arguments: those of a script, without its interpreter. */
static char *own_command_line(char *arguments[ARGUMENTS_MAX]) {
    FILE *file = fopen("/proc/self/cmdline", "r");
    char *text = NULL;
    size_t room = 0;
    unsigned count = 0;
    ssize_t length = file != NULL ? getdelim(&text, &room, EOF, file) : -1;
    if (file != NULL) {
        fclose(file);
    }
    for (ssize_t at = 0; at < length && count < ARGUMENTS_MAX - 1; at += (ssize_t)strlen(text + at) + 1) {
        arguments[count++] = text + at;
    }
    arguments[count] = NULL;
    return text;
}

/* Executes the program again in the same process. Returns only when that fails. */
static void start_anew(char **argv, struct error *error) {
    static char *arguments[ARGUMENTS_MAX];
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
    fflush(NULL);
    char *text = own_command_line(arguments);
    execv("/proc/self/exe", arguments[0] != NULL ? arguments : argv);
    *error = (struct error){0};
    error_set(error, AML_EFAIL, "can't start anew: %s", strerror(errno));
    free(text);
}

int aml_main(struct aml_app *app, int argc, char **argv) {
    memory_keep();
    struct runtime *runtime = memory_zeroed(1, sizeof *runtime);
    struct error error = {0};
    runtime->app = app;
    runtime_init(runtime);
    int result =
        app == NULL ? error_set(&error, AML_EINPUT, "aml_main: app is NULL") : check_open(&runtime->check, &error);
    log_set_name(app != NULL && app->name != NULL ? app->name : "app");
    result = result != 0 ? result : log_set_up(NULL, &error);
    result = result != 0 ? result : crash_open(&error);
    result = result != 0 ? result : aml_configure(runtime, argc, argv, &error);
    bool told = false;
    if (result == 0) {
        result = runtime_run(runtime, &error);
        /* The controller reports a supervised node's errors, once for all nodes, if the node has reached the
         * controller. */
        told = runtime->options.supervised && runtime->contact == CONTACT_WELCOMED;
    }
    if (runtime->end.rejoin) {
        start_anew(argv, &error);
        result = error.code;
        told = false;
    }
    if (result < 0 && !told) {
        log_error("%s", error.text);
    }
    if (runtime->end.stuck) {
        _exit(error_exit_status(result));
    }
    buffer_drop(runtime->terms.settings);
    runtime_notes_close(runtime);
    free(runtime);
    return result > 0 ? 0 : error_exit_status(result);
}

int aml_error(aml_worker *worker, int code, const char *format, ...) {
    char text[ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (worker == NULL) {
        check_refuse(worker, CALLS_ALL, "aml_error");
    }
    struct runtime *runtime = worker->runtime;
    if (code >= 0) {
        return check_misuse(runtime, "aml_error: code %d: expected a negative aml_error_code, for '%s'", code, text);
    }
    pthread_mutex_lock(&runtime->lock);
    /* A `finish` that was made to return has not failed. */
    if (runtime->finish != FINISH_TO_RETURN || worker != &runtime->workers[0]) {
        error_set(&runtime->error, code, "%s", text);
    }
    pthread_mutex_unlock(&runtime->lock);
    return code;
}

/* ---- Which calls are allowed ---- */

/* Whether `function` may be called with this worker now; else sets the error. */
static bool allowed(const aml_worker *worker, unsigned calls, const char *function) {
    if (worker == NULL || (worker->check.calls & ~calls) != 0) {
        return check_refuse(worker, calls, function);
    }
    return !worker->runtime->check.on || check_thread(worker, function);
}

/* Like `allowed`, but checks the calling thread even without PROTEUS_CHECK. For functions that take longer than this
 * check. */
static bool allowed_here(const aml_worker *worker, unsigned calls, const char *function) {
    return allowed(worker, calls, function) && check_thread(worker, function);
}

static bool table_allowed(const aml_worker *worker, unsigned table, const char *function) {
    const struct job *job = &worker->runtime->job;
    unsigned count = job_app_tables(job);
    if (table >= count) {
        check_misuse(worker->runtime, "%s: table %u, the app has %u (0 to %u)", function, table, count, count - 1);
        return false;
    }
    return true;
}

/* ---- Notes ---- */

_Static_assert((int)AML_NOTES_MAX == (int)WIRE_APP_NOTES_MAX && (int)AML_NOTE_BYTES_MAX < (int)WIRE_TEXT_MAX,
               "notes fit their messages");

void aml_note(aml_worker *worker, const char *format, ...) {
    static const char cut[] = "...";
    char text[AML_NOTE_BYTES_MAX + 1];
    if (!allowed(worker, CALLS_ALL | CALL_PART | CALL_RATINGS, "aml_note")) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof text) {
        size_t end = sizeof text - sizeof cut;
        while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80) {
            end--; /* a character is left out whole */
        }
        memcpy(text + end, cut, sizeof cut);
    }
    text_make_printable(text);
    runtime_note(worker->runtime, text);
}

/* ---- Reading ---- */

/* A call of aml_read_ratings, aml_read_lines, aml_read_groups or aml_read_files. */
struct file_call {
    struct runtime *runtime;
    const char *function;
    int (*each_ratings)(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context);
    int (*each_lines)(aml_worker *worker, const struct aml_lines *lines, void *context);
    const struct aml_ratings_options *ratings; /* options of aml_read_ratings_by; else NULL */
    char said[RATINGS_SAID_MAX];               /* the sentence that was reported last about a ratings header */
    uint64_t (*group)(const char *line);       /* function of aml_read_groups; else NULL */
    int (*each_file)(aml_worker *worker, const struct aml_file *file, void *context);
    void *context;
    struct extents extents;
    struct extent_range part; /* the extents to read */
    uint32_t stretch;         /* number of this file's stretch */
    uint64_t first_order;     /* order of its first chunk */
    uint32_t chunks;          /* number of full chunks, in aml_read_files */
};

/* Opens chunk `number` of this reading, the `part`-th of its extent. */
static struct data_chunk *open_file_chunk(const struct file_call *call, uint64_t number, uint32_t extent,
                                          uint32_t part) {
    return data_chunk_open(&call->runtime->data, call->first_order + number, data_place(call->stretch, extent, part));
}

/* Ends the chunk of items that the app emits itself, and begins the next one. */
static void next_chunk(aml_worker *reader) {
    struct data *data = &reader->runtime->data;
    struct file_call *file = reader->file;
    data_chunk_close(data, reader->chunk);
    if (file == NULL) {
        reader->chunk = data_chunk_open_own(data);
    } else {
        file->chunks++;
        reader->chunk = open_file_chunk(file, file->chunks, 0, file->chunks);
    }
}

/* Checks that `function` may emit such an item now. 0, or AML_EINPUT with the error set. */
static int check_emit(aml_worker *worker, enum aml_item_use use, bool varied, const char *function) {
    if (!allowed_here(worker, CALL_READ, function)) {
        return AML_EINPUT;
    }
    struct runtime *runtime = worker->runtime;
    const struct aml_app *app = runtime->app;
    if (varied != (app->item_varied != 0)) {
        return check_misuse(runtime, "%s: item_varied of app %s is %d: expected %s", function, app->name,
                            app->item_varied, varied ? "aml_emit" : "aml_emit_varied");
    }
    if (use != AML_TRAIN && use != AML_TEST) {
        return check_misuse(runtime, "%s: use %d: expected AML_TRAIN or AML_TEST", function, (int)use);
    }
    if (use == AML_TEST && app->evaluate == NULL) {
        return check_misuse(runtime, "%s: use AML_TEST: the app has no evaluate function", function);
    }
    bool alone = worker == &runtime->loader.reader || (worker->file != NULL && worker->file->each_file != NULL);
    if (alone && data_chunk_full(worker->chunk)) {
        next_chunk(worker);
    }
    return 0;
}

static int check_keys(aml_worker *worker, unsigned table, const uint64_t *keys, size_t count, const char *function) {
    const struct table_spec *spec = &worker->runtime->job.tables[table];
    for (size_t i = 0; i < count && spec->rows > 0; i++) {
        if (keys[i] >= spec->rows) {
            return check_misuse(worker->runtime, "%s: table %s: row %llu, expected 0 to %llu", function, spec->name,
                                (unsigned long long)keys[i], (unsigned long long)spec->rows - 1);
        }
    }
    return 0;
}

/* Checks that a fixed item has keys and bytes when item_rows and item_bytes say so, and that its keys are in range. */
static int check_fixed(aml_worker *worker, const uint64_t *keys, const void *bytes, const char *function) {
    const struct aml_app *app = worker->runtime->app;
    if ((keys != NULL) != (app->item_rows > 0)) {
        return check_misuse(worker->runtime, "%s: keys %s NULL, item_rows is %u", function,
                            keys != NULL ? "are not" : "are", app->item_rows);
    }
    if ((bytes != NULL) != (app->item_bytes > 0)) {
        return check_misuse(worker->runtime, "%s: bytes %s NULL, item_bytes is %zu", function,
                            bytes != NULL ? "are not" : "are", app->item_bytes);
    }
    int result = 0;
    for (unsigned r = 0; r < app->item_rows && result == 0; r++) {
        result = check_keys(worker, app->item_tables[r], keys + r, 1, function);
    }
    return result;
}

/* Returns the error of items that could not be kept so far, if any. */
static int check_kept(aml_worker *worker) {
    struct error error = {0};
    return data_failed(&worker->runtime->data, &error) ? aml_error(worker, error.code, "%s", error.text) : 0;
}

int aml_emit(aml_worker *worker, enum aml_item_use use, const uint64_t *keys, const void *bytes) {
    int result = check_emit(worker, use, false, "aml_emit");
    result = result != 0 ? result : check_fixed(worker, keys, bytes, "aml_emit");
    result = result != 0 ? result : check_kept(worker);
    return result != 0 ? result : data_emit(&worker->runtime->data, worker->chunk, use, keys, bytes);
}

int aml_emit_numbered(aml_worker *worker, enum aml_item_use use, uint64_t number, const void *bytes) {
    int result = check_emit(worker, use, false, "aml_emit_numbered");
    if (result == 0 && worker->runtime->app->item_rows > 0) {
        result = check_misuse(worker->runtime,
                              "aml_emit_numbered: item_rows is %u, expected 0: items with rows are "
                              "told apart by their keys",
                              worker->runtime->app->item_rows);
    }
    result = result != 0 ? result : check_fixed(worker, NULL, bytes, "aml_emit_numbered");
    result = result != 0 ? result : check_kept(worker);
    return result != 0 ? result : data_emit_numbered(&worker->runtime->data, worker->chunk, use, number, bytes);
}

static int check_run(aml_worker *worker, uint64_t key, const struct aml_keys *run) {
    static const char name[] = "aml_emit_varied";
    const struct runtime *runtime = worker->runtime;
    unsigned tables = job_app_tables(&runtime->job);
    if (run->table >= tables) {
        return check_misuse(worker->runtime, "%s: item %llu: table %u, the app has %u (0 to %d)", name,
                            (unsigned long long)key, run->table, tables, (int)tables - 1);
    }
    if (run->keys == NULL && run->count > 0) {
        return check_misuse(worker->runtime, "%s: item %llu: keys are NULL, count is %u", name, (unsigned long long)key,
                            run->count);
    }
    return check_keys(worker, run->table, run->keys, run->count, name);
}

static int check_varied(aml_worker *worker, uint64_t key, const struct aml_keys *runs, unsigned run_count,
                        const void *bytes, size_t size) {
    static const char name[] = "aml_emit_varied";
    struct runtime *runtime = worker->runtime;
    uint64_t rows = 0;
    if (run_count > AML_VARIED_RUNS_MAX || size > AML_ITEM_BYTES_MAX) {
        return check_misuse(runtime, "%s: item %llu: %u runs of rows and %zu bytes, expected at most %d and %d", name,
                            (unsigned long long)key, run_count, size, AML_VARIED_RUNS_MAX, AML_ITEM_BYTES_MAX);
    }
    if ((runs == NULL && run_count > 0) || (bytes == NULL && size > 0)) {
        return check_misuse(runtime, "%s: item %llu: %s", name, (unsigned long long)key,
                            runs == NULL && run_count > 0 ? "runs are NULL" : "bytes are NULL");
    }
    if (runtime->data.transformed && run_count > 0) {
        return check_misuse(runtime, "%s: item %llu: %u runs of rows, expected none: the app has transforms", name,
                            (unsigned long long)key, run_count);
    }
    int result = 0;
    for (unsigned r = 0; r < run_count && result == 0; r++) {
        rows += runs[r].count;
        result = rows <= AML_VARIED_ROWS_MAX ? check_run(worker, key, &runs[r]) : 0;
    }
    return rows <= AML_VARIED_ROWS_MAX
               ? result
               : check_misuse(runtime, "%s: item %llu: %llu rows, expected at most %d", name, (unsigned long long)key,
                              (unsigned long long)rows, AML_VARIED_ROWS_MAX);
}

int aml_emit_varied(aml_worker *worker, enum aml_item_use use, uint64_t key, const struct aml_keys *runs,
                    unsigned run_count, const void *bytes, size_t size) {
    int result = check_emit(worker, use, true, "aml_emit_varied");
    result = result != 0 ? result : check_varied(worker, key, runs, run_count, bytes, size);
    result = result != 0 ? result : check_kept(worker);
    return result != 0
               ? result
               : data_emit_varied(&worker->runtime->data, worker->chunk, use, key, runs, run_count, bytes, size);
}

/* Checks that `function` may be called now and that there is a total `index`; else sets the error. */
static bool total_allowed(const aml_worker *worker, unsigned index, unsigned calls, const char *function) {
    if (!allowed(worker, calls, function)) {
        return false;
    }
    if (index >= WIRE_TOTALS / 2) {
        check_misuse(worker->runtime, "%s: index %u: 0 to %d are possible", function, index, WIRE_TOTALS / 2 - 1);
        return false;
    }
    return true;
}

/* The totals to which the item emitted last adds; NULL: it was not kept. */
static double *item_totals(aml_worker *worker, unsigned index, const char *function) {
    return total_allowed(worker, index, CALL_READ, function) ? data_totals(&worker->runtime->data, worker->chunk)
                                                             : NULL;
}

void aml_total_add(aml_worker *worker, unsigned index, double value) {
    double *totals = item_totals(worker, index, "aml_total_add");
    if (totals != NULL) {
        totals[index] += value;
    }
}

void aml_total_raise(aml_worker *worker, unsigned index, double value) {
    double *totals = item_totals(worker, index, "aml_total_raise");
    if (totals != NULL) {
        double *total = &totals[WIRE_TOTALS / 2 + index];
        *total = fmax(*total, value);
    }
}

void aml_input_file(aml_worker *worker, const char *path) {
    if (!allowed(worker, CALL_READ | CALL_RATINGS, "aml_input_file")) {
        return;
    }
    if (path == NULL) {
        check_misuse(worker->runtime, "aml_input_file: path is NULL");
        return;
    }
    runtime_input_file(worker->runtime, path);
}

/* Whether the mark may be added; else sets the error. */
static bool mark_allowed(aml_worker *worker, const char *what) {
    struct runtime *runtime = worker->runtime;
    const struct runtime_terms *terms = &runtime->terms;
    if (!allowed_here(worker, CALL_CONFIGURE, "aml_input_mark")) {
        return false;
    }
    size_t length = what != NULL ? strlen(what) : 0;
    if (length == 0 || length > AML_INPUT_MARK_BYTES_MAX) {
        check_misuse(runtime, "aml_input_mark: what is %s: expected 1 to %d bytes", what == NULL ? "NULL" : what,
                     AML_INPUT_MARK_BYTES_MAX);
        return false;
    }
    for (unsigned m = 0; m < terms->mark_count; m++) {
        if (strcmp(terms->marks[m].name, what) == 0) {
            check_misuse(runtime, "aml_input_mark: %s: called twice: expected one hash", what);
            return false;
        }
    }
    if (terms->mark_count == AML_INPUT_MARKS_MAX) {
        check_misuse(runtime, "aml_input_mark: %s: expected at most %d marks", what, AML_INPUT_MARKS_MAX);
        return false;
    }
    return true;
}

void aml_input_mark(aml_worker *worker, const char *what, uint64_t hash) {
    if (mark_allowed(worker, what)) {
        struct wire_option *mark = &worker->runtime->terms.marks[worker->runtime->terms.mark_count++];
        *mark = (struct wire_option){.found = 1};
        snprintf(mark->name, sizeof mark->name, "%s", what);
        snprintf(mark->value, sizeof mark->value, "%016llx", (unsigned long long)hash);
    }
}

/* ---- Files that the library reads ---- */

/* Begins a chunk of the file in one of the threads that read. */
static struct aml_worker *file_chunk_begin(struct file_call *call, unsigned thread, const struct line_chunk *chunk) {
    struct aml_worker *worker = &call->runtime->loader.reading[thread];
    worker->chunk = open_file_chunk(call, chunk->sequence, chunk->extent, chunk->part);
    worker->file = call;
    crash_enter("read", 0); /* this may be a parser thread, outside loader_read */
    check_enter(worker, CALL_READ);
    return worker;
}

/* Ends the chunk. Returns what the app's function has returned, or an error. */
static int file_chunk_end(struct file_call *call, struct aml_worker *worker, int result) {
    char text[64];
    snprintf(text, sizeof text, "the function passed to %s", call->function);
    result = check_returned(worker, result, text);
    if (result >= 0 && runtime_failed(call->runtime)) {
        result = aml_error(worker, AML_ESTOP, "the job ended while its data was read");
    }
    data_chunk_close(&call->runtime->data, worker->chunk);
    worker->chunk = NULL;
    worker->file = NULL;
    return result;
}

static int ratings_chunk(void *context, unsigned thread, const struct line_chunk *chunk, const struct rating *ratings,
                         size_t count) {
    struct file_call *call = context;
    struct aml_worker *worker = file_chunk_begin(call, thread, chunk);
    int result = call->each_ratings(worker, (const struct aml_rating *)(const void *)ratings, count, call->context);
    return file_chunk_end(call, worker, result);
}

static int refuse_long(const struct file_call *call, struct aml_worker *worker, const struct aml_lines *lines,
                       const char *line, const char *what) {
    return aml_error(worker, AML_EINPUT, "%s:%llu: expected %s of at most %d bytes",
                     text_input_name(call->extents.path), (unsigned long long)aml_line_number(worker, lines, line),
                     what, AML_LINE_BYTES_MAX);
}

static int lines_chunk(void *context, unsigned thread, const struct line_chunk *chunk) {
    struct file_call *call = context;
    struct aml_worker *worker = file_chunk_begin(call, thread, chunk);
    const struct aml_lines lines = {.text = chunk->text,
                                    .size = chunk->size,
                                    .file = call->stretch / 2,
                                    .split = chunk->extent,
                                    .offset = chunk->offset,
                                    .first = chunk->extent == 0 && chunk->part == 0};
    /* If the line is too long, it ends the chunk. The LF behind it may have been added. */
    const char *last = chunk->text + (chunk->size > AML_LINE_BYTES_MAX ? chunk->size - 1 : 0);
    while (last > chunk->text && !text_is_line_end(last[-1])) {
        last--;
    }
    int result = chunk->size > (size_t)(last - chunk->text) + AML_LINE_BYTES_MAX + 2
                     ? refuse_long(call, worker, &lines, last, "a line")
                 : chunk->cut ? refuse_long(call, worker, &lines, lines.text, "lines that belong together")
                              : call->each_lines(worker, &lines, call->context);
    return file_chunk_end(call, worker, result);
}

/* Makes a worker for each thread that reads. The workers stay in memory, so that the misuse of a worker that the app
 * has kept is detected. */
static void open_reading(struct runtime *runtime) {
    if (runtime->loader.reading == NULL) {
        runtime->loader.reading = memory_zeroed(POOL_THREADS_MAX, sizeof *runtime->loader.reading);
        for (unsigned t = 0; t < POOL_THREADS_MAX; t++) {
            runtime_init_worker(&runtime->loader.reading[t], runtime, t);
        }
    }
}

/* Checks the call of a `function` that reads the files of `value` and calls `each`. */
static int check_reading(aml_worker *worker, const char *value, bool each, const char *function) {
    if (!allowed_here(worker, CALL_READ, function)) {
        return AML_EINPUT;
    }
    struct runtime *runtime = worker->runtime;
    if (worker != &runtime->loader.reader) {
        return check_misuse(runtime, "%s: called while the library reads a file: expected in read itself", function);
    }
    if (value == NULL || !each) {
        return check_misuse(runtime, "%s: %s is NULL", function, value == NULL ? "path" : "each");
    }
    return 0;
}

static int check_file(aml_worker *worker, const char *path) {
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
        return aml_error(worker, AML_EINPUT, "%s: not a regular file, and every process of the job reads it", path);
    }
    return 0;
}

_Static_assert(AML_READ_FILES_MAX == DATA_STRETCHES_MAX / 2 - 1, "a file is a stretch, and one is between two files");

/* Checks that so many more files may be read. */
static int check_file_count(aml_worker *worker, const char *value, size_t count) {
    size_t before = worker->runtime->data.stretch / 2;
    if (count > AML_READ_FILES_MAX - before) {
        return aml_error(worker, AML_EINPUT, "%s: %zu files%s, expected at most %d in all", value, count,
                         before > 0 ? " after others" : "", AML_READ_FILES_MAX);
    }
    return 0;
}

/* Has the app read the whole file, if it is this process's. */
static int read_whole_file(struct file_call *call, unsigned threads) {
    const struct aml_file file = {.path = call->extents.path, .file = call->stretch / 2, .threads = threads};
    if (call->part.first == call->part.end) {
        return 0;
    }
    struct aml_worker *worker = file_chunk_begin(call, 0, &(struct line_chunk){0});
    return file_chunk_end(call, worker, call->each_file(worker, &file, call->context));
}

/* Reports a sentence about a header once for consecutive files with the same sentence. */
static void say_header(void *context, const char *text) {
    struct file_call *call = context;
    if (strcmp(call->said, text) != 0) {
        snprintf(call->said, sizeof call->said, "%s", text);
        aml_note(&call->runtime->loader.reader, "%s: %s", text_input_name(call->extents.path), text);
    }
}

static int read_ratings_extents(struct file_call *call, const struct extents *extents, unsigned threads,
                                struct error *error) {
    const struct aml_ratings_options *options = call->ratings;
    struct ratings_reader reader = {.threads = threads, .sink = ratings_chunk, .say = say_header, .context = call};
    if (options != NULL) {
        reader.options =
            (struct ratings_options){.columns = options->columns,
                                     .missing = options->skip_missing ? RATINGS_SKIP_MISSING : RATINGS_REFUSE_MISSING,
                                     .has_options = true};
    }
    return ratings_read_part(&reader, extents, call->part, error);
}

/* Reads the file's extents. `watch` gets their bytes. */
static int read_file_extents(struct file_call *call, const struct extent_watch *watch, struct error *error) {
    /* While the input is read again, the other threads work on clocks. */
    unsigned threads = data_is_settled(&call->runtime->data) ? 1 : call->runtime->pool.threads;
    if (call->each_file != NULL) {
        return read_whole_file(call, threads);
    }
    struct extents watched = call->extents; /* other threads may read the file's first lines, to count them */
    watched.watch = watch;
    const struct line_reading lines = {.extents = &watched,
                                       .part = call->part,
                                       .threads = threads,
                                       .line_max = AML_LINE_BYTES_MAX,
                                       .group = call->group,
                                       .sink = lines_chunk,
                                       .context = call};
    return call->each_lines != NULL ? line_chunks_read(&lines, error)
                                    : read_ratings_extents(call, &watched, threads, error);
}

/* Reads a file, between two stretches of items that `read` emits itself. */
static int read_file(aml_worker *worker, const char *path, struct file_call *call) {
    struct error error = {0};
    struct runtime *runtime = worker->runtime;
    int result = check_file(worker, path);
    if (result != 0) {
        return result;
    }
    call->runtime = runtime;
    result = extents_make(&call->extents, path, call->each_file != NULL ? EXTENT_WHOLE : 0, &error);
    call->chunks = 0;
    if (result != 0) {
        return aml_error(worker, result, "%s", error.text);
    }
    open_reading(runtime);
    data_chunk_close(&runtime->data, worker->chunk);
    uint32_t count;
    uint32_t index = data_read_file(&runtime->data, &count);
    call->part = runtime_input_extents(runtime, &call->extents, index, count);
    bool hashed = count > 1 && call->each_file == NULL;
    struct input_range hashes;
    const struct extent_watch watch = {.bytes = input_range_add, .context = &hashes};
    if (hashed) {
        runtime_range_begin(runtime, &call->extents, index, &hashes);
    }
    call->stretch = data_stretch_begin(&runtime->data);
    call->first_order = data_next_order(&runtime->data);
    worker->check.calls = CALL_READ | CALL_RATINGS;
    result = read_file_extents(call, hashed ? &watch : NULL, &error);
    if (hashed && result == 0) {
        runtime_range_end(runtime, index, &hashes);
    }
    worker->check.calls = CALL_READ;
    extents_close(&call->extents);
    data_stretch_begin(&runtime->data);
    worker->chunk = data_chunk_open_own(&runtime->data);
    return result != 0 && error.code != 0 ? aml_error(worker, result, "%s", error.text) : result;
}

/* Reads the files that `value` names, one after the other. Of several files some may be empty. */
static int read_files(aml_worker *worker, const char *value, struct file_call *call) {
    struct input_list list = {0};
    struct error error = {0};
    bool each = call->each_ratings != NULL || call->each_lines != NULL || call->each_file != NULL;
    int result = check_reading(worker, value, each, call->function);
    if (result != 0) {
        return result;
    }
    result = input_list_add(&list, value, &error);
    result = result != 0 ? aml_error(worker, result, "%s", error.text) : 0;
    input_list_drop_empty(&list);
    result = result != 0 ? result : check_file_count(worker, value, list.count);
    for (size_t n = 0; n < list.count && result == 0; n++) {
        result = read_file(worker, list.names[n].path, call);
    }
    input_list_close(&list);
    return result;
}

int aml_files(aml_worker *worker, const char *value, int (*each)(aml_worker *worker, const char *path, void *context),
              void *context) {
    struct input_list list = {0};
    struct error error = {0};
    if (!allowed_here(worker, CALL_CONFIGURE | CALL_READ, "aml_files")) {
        return AML_EINPUT;
    }
    if (value == NULL || each == NULL) {
        return check_misuse(worker->runtime, "aml_files: %s is NULL", value == NULL ? "value" : "each");
    }
    int result = input_list_add(&list, value, &error);
    result = result != 0 ? aml_error(worker, result, "%s", error.text) : 0;
    for (size_t n = 0; n < list.count && result == 0; n++) {
        result = each(worker, list.names[n].path, context);
    }
    input_list_close(&list);
    return result;
}

int aml_read_ratings(aml_worker *worker, const char *path,
                     int (*each)(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context),
                     void *context) {
    struct file_call call = {.function = "aml_read_ratings", .each_ratings = each, .context = context};
    return read_files(worker, path, &call);
}

int aml_read_ratings_by(aml_worker *worker, const char *path, const struct aml_ratings_options *options,
                        int (*each)(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context),
                        void *context) {
    static const char name[] = "aml_read_ratings_by";
    struct error error = {0};
    if (options == NULL) {
        return check_misuse(worker->runtime, "%s: options is NULL", name);
    }
    if (ratings_columns_check(options->columns, &error) != 0) {
        return aml_error(worker, error.code, "%s", error.text);
    }
    struct file_call call = {.function = name, .each_ratings = each, .ratings = options, .context = context};
    return read_files(worker, path, &call);
}

int aml_read_lines(aml_worker *worker, const char *path,
                   int (*each)(aml_worker *worker, const struct aml_lines *lines, void *context), void *context) {
    struct file_call call = {.function = "aml_read_lines", .each_lines = each, .context = context};
    return read_files(worker, path, &call);
}

int aml_read_files(aml_worker *worker, const char *path,
                   int (*each)(aml_worker *worker, const struct aml_file *file, void *context), void *context) {
    struct file_call call = {.function = "aml_read_files", .each_file = each, .context = context};
    return read_files(worker, path, &call);
}

_Static_assert(AML_GROUP_SAME == LINE_GROUP_SAME, "what an app's function returns is that of the line reader");

int aml_read_groups(aml_worker *worker, const char *path, uint64_t (*group)(const char *line),
                    int (*each)(aml_worker *worker, const struct aml_lines *lines, void *context), void *context) {
    struct file_call call = {
        .function = "aml_read_groups", .each_lines = group != NULL ? each : NULL, .group = group, .context = context};
    if (group == NULL && each != NULL && allowed_here(worker, CALL_READ, "aml_read_groups")) {
        return check_misuse(worker->runtime, "aml_read_groups: group is NULL");
    }
    return read_files(worker, path, &call);
}

uint64_t aml_line_number(aml_worker *worker, const struct aml_lines *lines, const char *at) {
    struct error error;
    uint64_t before = 0;
    if (!allowed_here(worker, CALL_READ, "aml_line_number")) {
        return 0;
    }
    if (lines == NULL || worker->file == NULL || at < lines->text || at > lines->text + lines->size) {
        check_misuse(worker->runtime, "aml_line_number: expected the lines that the call of `each` has got, and a "
                                      "place in them");
        return 0;
    }
    if (line_chunks_count(&worker->file->extents, lines->split, lines->offset, &before, &error) != 0) {
        return 0;
    }
    for (const char *line = lines->text; line < at;) {
        line += strcspn(line, "\r\n");
        before += line < at;
        line = line < at ? text_next_line(line) : line;
    }
    return before + 1;
}

uint64_t aml_mix(uint64_t seed, uint64_t value) {
    return hash_seeded(seed, value);
}

/* ---- Calls that are allowed from `begin` on ---- */

double aml_total(const aml_worker *worker, unsigned index) {
    return total_allowed(worker, index, CALLS_WORKING | CALL_PART | CALL_TRANSFORM_STATE, "aml_total")
               ? worker->runtime->node.totals[index]
               : 0;
}

double aml_metric_value(const aml_worker *worker, unsigned metric) {
    bool allowed_now = allowed(worker, CALL_FINISH, "aml_metric_value");
    return allowed_now && metric < worker->runtime->app->metric_count ? worker->runtime->node.save.metrics[metric]
                                                                      : NAN;
}

double aml_total_maximum(const aml_worker *worker, unsigned index) {
    return total_allowed(worker, index, CALLS_WORKING | CALL_PART | CALL_TRANSFORM_STATE, "aml_total_maximum")
               ? worker->runtime->node.totals[WIRE_TOTALS / 2 + index]
               : 0;
}

/* Checks that a `function` whose result is known from `begin` on may be called now; else sets the error. */
static bool known(const aml_worker *worker, const char *function) {
    return allowed(worker, CALLS_WORKING | CALL_PART, function);
}

uint64_t aml_total_items(const aml_worker *worker) {
    return known(worker, "aml_total_items") ? worker->runtime->node.total_items : 0;
}

uint64_t aml_node_items(const aml_worker *worker) {
    const struct runtime_set *set = known(worker, "aml_node_items") ? worker->runtime->command.set : NULL;
    return set != NULL ? set->items.count : 0;
}

const void *aml_items(const aml_worker *worker, size_t *count) {
    bool right = known(worker, "aml_items");
    if (count == NULL) {
        check_stop(worker->runtime, "aml_items: count is NULL");
    }
    const struct runtime_set *set = right ? worker->runtime->command.set : NULL;
    *count = set != NULL ? set->items.count : 0;
    return set != NULL ? set->items.items : NULL;
}

int aml_items_on_disk(const aml_worker *worker) {
    const struct runtime_set *set = known(worker, "aml_items_on_disk") ? worker->runtime->command.set : NULL;
    return set != NULL && set->items.disk != NULL ? 1 : 0;
}

unsigned aml_thread(const aml_worker *worker) {
    /* Parts get their thread as an argument. */
    return allowed(worker, CALLS_WORKING, "aml_thread") ? worker->thread : 0;
}

uint64_t aml_clock(const aml_worker *worker) {
    return known(worker, "aml_clock") ? worker->clock : 1;
}

uint64_t aml_iteration(const aml_worker *worker) {
    return allowed(worker, CALLS_WORKING | CALL_PART | CALL_TRANSFORM_STATE, "aml_iteration")
               ? runtime_iteration(worker->runtime, worker->clock)
               : 1;
}

int aml_last(const aml_worker *worker) {
    return allowed(worker, CALL_EVALUATE | CALL_PART, "aml_last") && worker->runtime->command.last ? 1 : 0;
}

unsigned aml_clocks_per_iteration(const aml_worker *worker) {
    return known(worker, "aml_clocks_per_iteration") ? (unsigned)worker->runtime->options.clocks_per_iteration : 1;
}

unsigned aml_phase(const aml_worker *worker) {
    return known(worker, "aml_phase") ? runtime_phase(worker->runtime, worker->clock) : 0;
}

unsigned aml_nodes(const aml_worker *worker) {
    return known(worker, "aml_nodes") ? worker->runtime->command.origins : 1;
}

unsigned aml_threads(const aml_worker *worker) {
    return known(worker, "aml_threads") ? worker->runtime->pool.threads : 1;
}

unsigned aml_lag(const aml_worker *worker) {
    return allowed(worker, CALL_CLOCK | CALL_PART, "aml_lag") ? (unsigned)worker->runtime->command.lag : 0;
}

int aml_averages(const aml_worker *worker) {
    return allowed(worker, CALLS_ALL | CALL_PART | CALL_RATINGS, "aml_averages") &&
           strcmp(strategy_chosen(worker->runtime), strategy_name(STRATEGY_SSGD)) != 0;
}

enum aml_strategy aml_strategy(const aml_worker *worker) {
    return allowed(worker, CALL_CLOCK | CALL_PART, "aml_strategy")
               ? (enum aml_strategy)worker->runtime->command.strategy
               : AML_SSGD;
}

unsigned aml_local_steps(const aml_worker *worker) {
    const struct runtime *runtime = worker->runtime;
    return !allowed(worker, CALL_CLOCK | CALL_PART, "aml_local_steps") ? 1
           : runtime->command.stepwise                                 ? runtime->node.work.steps
                                                                       : runtime->command.parts;
}

unsigned aml_local_step(const aml_worker *worker) {
    return allowed(worker, CALL_CLOCK | CALL_PART, "aml_local_step") ? worker->runtime->command.step : 0;
}

double aml_share(const aml_worker *worker) {
    return allowed(worker, CALL_CLOCK | CALL_PART, "aml_share") ? worker->runtime->command.share : 0;
}

unsigned aml_staleness(const aml_worker *worker) {
    return allowed(worker, CALLS_ALL | CALL_PART | CALL_RATINGS, "aml_staleness")
               ? (unsigned)worker->runtime->options.staleness
               : 0;
}

size_t aml_slice(const aml_worker *worker, size_t count, size_t done) {
    size_t most = allowed(worker, CALL_CLOCK | CALL_PART, "aml_slice") ? (size_t)worker->runtime->options.slice : 0;
    if (done > count) {
        check_misuse(worker->runtime, "aml_slice: done %zu: expected at most count, which is %zu", done, count);
        return 0;
    }
    size_t left = count - done;
    size_t slices = most > 0 ? left / most + (left % most > 0 ? 1 : 0) : 1;
    return left > 0 ? left / slices + (left % slices > 0 ? 1 : 0) : 0;
}

uint64_t aml_seed(const aml_worker *worker) {
    return allowed(worker, CALLS_ALL | CALL_PART | CALL_RATINGS | CALL_TRANSFORM | CALL_TRANSFORM_STATE, "aml_seed")
               ? (uint64_t)worker->runtime->options.seed
               : 0;
}

int64_t aml_iterations(const aml_worker *worker) {
    if (!allowed(worker, CALLS_ALL | CALL_PART | CALL_RATINGS | CALL_TRANSFORM | CALL_TRANSFORM_STATE,
                 "aml_iterations")) {
        return -1;
    }
    return worker->runtime->options.iterations_open ? -1 : worker->runtime->options.iterations;
}

int aml_only_checks(const aml_worker *worker) {
    return allowed(worker, CALLS_ALL, "aml_only_checks") && worker->runtime->options.check;
}

void aml_parallel(aml_worker *worker, void (*part)(void *context, unsigned thread, unsigned threads), void *context) {
    static const char name[] = "aml_parallel";
    if (!allowed_here(worker, CALLS_WORKING, name)) {
        return;
    }
    if (!worker->leads) {
        check_misuse(worker->runtime, "%s: called in %s: expected in begin or finish, or with clock_alone", name,
                     (worker->check.calls & CALL_CLOCK) != 0 ? "clock" : "evaluate");
        return;
    }
    if (part == NULL) {
        check_misuse(worker->runtime, "%s: part is NULL", name);
        return;
    }
    worker->check.calls |= CALL_PART;
    pool_parallel(&worker->runtime->pool, part, context);
    worker->check.calls &= ~(unsigned)CALL_PART;
}

void aml_metric_add(aml_worker *worker, unsigned index, double sum, double weight) {
    static const char name[] = "aml_metric_add";
    if (!allowed(worker, CALL_CLOCK | CALL_EVALUATE, name)) {
        return;
    }
    const struct aml_app *app = worker->runtime->app;
    if (index >= app->metric_count) {
        check_misuse(worker->runtime, "%s: metric %u, the app has %u (0 to %d)", name, index, app->metric_count,
                     (int)app->metric_count - 1);
        return;
    }
    bool evaluating = worker->check.calls == CALL_EVALUATE;
    if (evaluating != (app->metrics[index].evaluated != 0)) {
        check_misuse(worker->runtime, "%s: metric %s: called in %s, but its `evaluated` is %d", name,
                     app->metrics[index].name, evaluating ? "evaluate" : "clock", app->metrics[index].evaluated);
        return;
    }
    worker->metrics[index].sum += sum;
    worker->metrics[index].weight += weight;
}

/* ---- Parameters ---- */

/* Checks a call that reads rows into `values`, or changes rows by them. 0, or AML_EINPUT with the error set. */
static int check_params(aml_worker *worker, unsigned calls, unsigned table, const uint64_t *keys, size_t count,
                        const void *values, const char *function) {
    if (!allowed(worker, calls | CALL_PART, function) || !table_allowed(worker, table, function)) {
        return AML_EINPUT;
    }
    if (count > 0 && (keys == NULL || values == NULL)) {
        return check_misuse(worker->runtime, "%s: table %s: %s NULL", function, worker->runtime->job.tables[table].name,
                            keys == NULL          ? "keys are"
                            : calls == CALL_CLOCK ? "deltas are"
                                                  : "values are");
    }
    return check_keys(worker, table, keys, count, function);
}

static int checked_read(aml_worker *worker, unsigned table, const uint64_t *keys, size_t count, void *values,
                        const char *function) {
    int result = check_params(worker, CALLS_WORKING | CALL_TRANSFORM_STATE, table, keys, count, values, function);
    return result != 0 ? result : params_read(worker->runtime, table, keys, count, values);
}

int aml_read_params(aml_worker *worker, unsigned table, const uint64_t *keys, size_t count, void *values) {
    return checked_read(worker, table, keys, count, values, "aml_read_params");
}

int aml_read_param(aml_worker *worker, unsigned table, uint64_t key, void *values) {
    return checked_read(worker, table, &key, 1, values, "aml_read_param");
}

static int checked_update(aml_worker *worker, unsigned table, const uint64_t *keys, size_t count, const void *deltas,
                          const char *function) {
    int result = check_params(worker, CALL_CLOCK, table, keys, count, deltas, function);
    if (result == 0 && worker->runtime->check.on) {
        result = check_update(worker, table, keys, count);
    }
    return result != 0 ? result : params_update(worker->runtime, table, keys, count, deltas);
}

int aml_update_params(aml_worker *worker, unsigned table, const uint64_t *keys, size_t count, const void *deltas) {
    return checked_update(worker, table, keys, count, deltas, "aml_update_params");
}

int aml_update_param(aml_worker *worker, unsigned table, uint64_t key, const void *delta) {
    return checked_update(worker, table, &key, 1, delta, "aml_update_param");
}

int aml_give_changes(aml_worker *worker, unsigned table, uint32_t slot, uint32_t count, const uint32_t *columns,
                     const void *changes) {
    static const char name[] = "aml_give_changes";
    if (!allowed(worker, CALL_CLOCK | CALL_PART, name) || !table_allowed(worker, table, name)) {
        return AML_EINPUT;
    }
    struct runtime *runtime = worker->runtime;
    const struct cache_table *rows = &runtime->node.cache.tables[table];
    uint32_t ascending = 0; /* how many columns, from the first, ascend and exist */
    bool there = count == 0 || (columns != NULL && changes != NULL);
    while (there && ascending < count && columns[ascending] < rows->spec->width &&
           (ascending == 0 || columns[ascending] > columns[ascending - 1])) {
        ascending++;
    }
    if (!rows->spec->given || ascending < count) {
        return check_misuse(runtime,
                            "%s: %u columns of table %s: expected ascending ones below %u, of a table with "
                            "changes_given",
                            name, count, rows->spec->name, rows->spec->width);
    }
    if (slot >= rows->count) {
        return check_misuse(runtime, "%s: slot %u: table %s has %u rows in this process", name, slot, rows->spec->name,
                            rows->count);
    }
    if (count == 0) {
        return 0; /* an unchanged row would be flushed otherwise, and pushed to all */
    }
    if (runtime->check.on && check_give(worker, table, slot, count, columns, changes) != 0) {
        return AML_EINPUT;
    }
    params_give(runtime, table, slot, count, columns, changes);
    return 0;
}

int aml_rows_done(aml_worker *worker, unsigned table, uint64_t first, uint64_t count) {
    static const char name[] = "aml_rows_done";
    if (!allowed_here(worker, CALL_CLOCK, name) || !table_allowed(worker, table, name)) {
        return AML_EINPUT;
    }
    const struct table_spec *spec = &worker->runtime->job.tables[table];
    if (!spec->whole || spec->mode != AML_ADD || spec->given) {
        return check_misuse(worker->runtime,
                            "%s: table %s: expected a table that is whole, with AML_ADD and without changes_given",
                            name, spec->name);
    }
    if (count > spec->rows || first > spec->rows - count) {
        return check_misuse(worker->runtime, "%s: %llu rows of table %s from %llu on: expected rows 0 to %llu", name,
                            (unsigned long long)count, spec->name, (unsigned long long)first,
                            (unsigned long long)spec->rows - 1);
    }
    return runtime_done_say(worker, table, first, count);
}

struct aml_rows aml_table_rows(aml_worker *worker, unsigned table) {
    static const char name[] = "aml_table_rows";
    if (!allowed(worker, CALLS_WORKING, name) || !table_allowed(worker, table, name)) {
        check_stop(worker->runtime, "%s", name); /* the error line has been set before */
    }
    struct runtime *runtime = worker->runtime;
    const struct cache_table *rows = &runtime->node.cache.tables[table];
    pthread_mutex_lock(&runtime->lock); /* another thread may be adding rows; present rows don't move */
    struct aml_rows result = {.base = rows->rows.base,
                              .stride = rows->stride,
                              .touched = cache_marks(rows),
                              .count = rows->count,
                              .sums = cache_summed(rows) ? rows->sums.base : NULL,
                              .shares = (float *)(void *)rows->shares.base,
                              .unchecked = rows->count,
                              .changeable = cache_summed(rows) ? 0 : rows->count,
                              .checks = &worker->check.rows[table],
                              .call = runtime->check.call};
    pthread_mutex_unlock(&runtime->lock);
    return runtime->check.on ? check_rows(worker, table, result) : result;
}

int aml_scan(aml_worker *worker, unsigned table,
             int (*each)(void *context, const uint64_t *keys, const void *rows, size_t count), void *context) {
    static const char name[] = "aml_scan";
    if (!allowed_here(worker, CALL_FINISH, name) || !table_allowed(worker, table, name)) {
        return AML_EINPUT;
    }
    struct runtime *runtime = worker->runtime;
    if (each == NULL) {
        return check_misuse(runtime, "%s: each is NULL", name);
    }
    int result = 0;
    for (uint32_t p = 0; p < runtime->node.client.partition_count && result == 0; p++) {
        uint64_t cursor = 0;
        do {
            struct message piece;
            struct rows_view views[WIRE_TABLES_MAX];
            struct error error = {0};
            result = runtime_scan(runtime, p, table, cursor, &piece);
            if (result != 0) {
                return result;
            }
            int count = rows_check(&piece, runtime->job.shapes, runtime->job.table_count, views, &error);
            if (count == 1) {
                result = each(context, views[0].keys, views[0].values, views[0].count);
            }
            cursor = piece.rows.next;
            message_close(&piece);
        } while (cursor != 0 && result == 0);
    }
    return result;
}
