/* What the parts of the daemon share. The parts, from the lowest up, each of which calls only those before it:
 * daemon_loop.c (time, phase, failures), daemon_report.c (lines for people and programs), daemon_fleet.c (rows of
 * launches, machines and closed markets), daemon_speeds.c (how fast types work), daemon_market.c (prices, what can be
 * bought), daemon_view.c (all that is known now), daemon_launches.c and daemon_machines.c (their life cycles),
 * daemon_job.c (the job's reports), daemon_decide.c, daemon_money.c (costs), daemon_page.c, daemon.c (start, loop,
 * end), daemon_commands.c (commands that open a daemon briefly) and daemon_check.c (check-config).
 *
 * Times are market times (market_clock.h) or real times. A name with "wall" is a time of market_clock_elapsed. */
#ifndef BIDBRAIN_DAEMON_DAEMON_PRIVATE_H
#define BIDBRAIN_DAEMON_DAEMON_PRIVATE_H

#include "bidbrain/cloud/embedded.h"
#include "bidbrain/daemon/daemon.h"
#include "bidbrain/daemon/footprint.h"
#include "bidbrain/daemon/ledger.h"
#include "bidbrain/daemon/link.h"
#include "bidbrain/daemon/market_clock.h"
#include "bidbrain/daemon/measure.h"
#include "bidbrain/daemon/unwanted.h"
#include "bidbrain/market/market_store.h"
#include "bidbrain/policy/speeds.h"

#include <jansson.h>
#include <stdio.h>

enum {
    DAEMON_HISTORY_DAYS = 90,
    DAEMON_OVERLAP_S = 300,                   /* overlap of two readings of prices, since points come in no order */
    DAEMON_ASK_AGAIN_S = 30,                  /* real: until an unanswered launch or termination is repeated */
    DAEMON_ADMIT_S = 24 * HOUR,               /* real: time after its plan in which a launch's nodes may join the job */
    DAEMON_TEMPLATE_ADMIT_S = 30 * 24 * HOUR, /* real: the same time for machines from a launch template */
    DAEMON_TOKEN_S = 12 * HOUR, /* market: time in which a launch is retried; EC2 recognizes its token for a day */
    DAEMON_WAIT_S = 300,        /* market: age at which an open spot request is withdrawn */
    DAEMON_SILENCE_S = 30,      /* real: nothing is bought if the controller is silent for longer */
    /* real: after a signal, for nodes to leave (after the notice); then again for machines to go */
    DAEMON_END_S = 300,
    DAEMON_ABSENT = 3,    /* successive complete lists without a machine after which it counts as gone */
    DAEMON_FRESH_S = 300, /* market: time after its launch in which lists may lack a machine */
    /* market: how long a market is closed after a refusal; doubled by each further refusal */
    DAEMON_BACK_OFF_S = 120,
    DAEMON_QUOTA_S = 300, /* market: how long all markets are closed when a quota is used up; doubled as above */
    DAEMON_BACK_OFF_MAX_S = HOUR, /* limit of both times */
    /* market: a machine is given back if its node has not joined by then and by DAEMON_JOIN_WALL_S */
    DAEMON_JOIN_S = 900,
    DAEMON_JOIN_WALL_S = 60,
    DAEMON_NOTICE_S = 120,  /* market: from the cloud's notice to the machine's end */
    DAEMON_UNTAKEN_S = 900, /* market: after its notice, a machine that still runs is given back */
    /* market: with DAEMON_TERMINATE_WALL_S real seconds, from a termination until a list shows it */
    DAEMON_TERMINATE_S = 60,
    DAEMON_TERMINATE_WALL_S = 5,
    /* market: a machine is released this long before its paid hour ends, but at least DAEMON_MARGIN_MS real */
    DAEMON_MARGIN_S = 10,
    DAEMON_MARGIN_MS = 250,
    DAEMON_RETRY_MAX_S = 300,     /* real: limit of the pause between failed readings, which doubles from 1 s */
    DAEMON_RETRY_END_MAX_S = 5,   /* real: DAEMON_RETRY_MAX_S at the end, while machines are given back */
    DAEMON_FAILURE_REPEAT_S = 60, /* real: until the same failure is logged again */
    DAEMON_FAILURES_KEPT = 8,
    DAEMON_FIRST_S = 5,          /* real: warn if neither prices nor machines are known by then */
    DAEMON_SILENT_S = 2,         /* real: if a reading takes longer, EC2 counts as unreachable */
    DAEMON_UNREACHABLE_MS = 900, /* real: limit of waiting for EC2 if it did not answer before the signal */
    DAEMON_LOCAL_S = 15,         /* real: limit of waiting for provider local's market */
    DAEMON_LOCAL_PAUSE_MS = 100, /* real: between two requests to that market */
    DAEMON_BILL_S = 30,          /* real: how long the bill waits for the prices of the last hours */
    DAEMON_BOOT_S = 120,         /* market: from a launch to its node's joining, until this is measured */
    DAEMON_BOOTS = 4,            /* each new launch counts 1/4 in the running mean of these times */
    DAEMON_MONEY_S = 2,          /* real: between two checks whether the job's report needs a line `money` */
    DAEMON_MONEY_MARKETS = 64,   /* most markets without a machine in such a line */
    DAEMON_SPEEDS_TEXT = 512,    /* bytes for measured speeds in a line; more types are cut */
    DAEMON_LEAD_MS = 1000,       /* real: the next hour is decided at least this long before the margin */
};

enum daemon_phase {
    DAEMON_RUN,
    DAEMON_JOB_OVER,  /* after the job's summary */
    DAEMON_GIVE_BACK, /* after a signal: nodes leave, then machines go */
    DAEMON_AT_ONCE,   /* after a second signal: machines go at once */
};

/* A launch. Its state is the ledger's stage, which is stored at each transition:
 *
 *     PLANNED -> SENT -> FILLED                 all its machines are known
 *        |         |---> WAITING -> FILLED      an open request
 *        |         |        |-----> REFUSED
 *        |         |        `-----> CLOSED      withdrawn (`cancelled`) before it got a machine
 *        |         `---> REFUSED
 *        `-------------> CLOSED                 no answer, and too old, or the job is over
 *
 * A daemon that is started again sends a PLANNED launch again, under the same token. It stays PLANNED until its answer,
 * so all that may happen to a SENT launch may happen to it. */
struct daemon_launch {
    struct ledger_launch row;
    double asked;   /* wall: when this process sent it last; 0: never */
    bool cancelled; /* its withdrawal was requested */
};

/* The state of a machine's node in the job:
 *
 *     AWAITED -joins-> MEMBER -ends, fails-> LOST -joins-> MEMBER
 *     AWAITED -unknown to the controller-> LOST
 *     AWAITED, MEMBER -asked to leave-> LEAVING -has left, or is unknown to the controller-> OUT
 *     each -its machine goes without it-> OUT
 *
 * If a node is AWAITED or LOST for too long, its machine is given back. OUT is final, even if the node comes back. */
enum machine_node { NODE_AWAITED, NODE_MEMBER, NODE_LOST, NODE_LEAVING, NODE_OUT };

/* A machine. Its state is the cloud's (row.machine.state: pending, running, stopping, gone). The row also has its
 * planned end: release_at (we give it back) or noticed (the cloud takes it). After that it has the real end: ended,
 * how. A machine that has ended may reappear in a list, and the cloud may say later how it ended:
 *
 *     RUNS -> RELEASED, EVICTED, VANISHED -> RUNS      VANISHED -> RELEASED, EVICTED      RELEASED -> EVICTED */
struct daemon_machine {
    struct ledger_machine row;
    enum machine_node node;
    bool hold;             /* it stays until release_at although its node has left: its hour is paid */
    bool listed;           /* the list under way has shown it */
    unsigned absent;       /* successive complete lists without it */
    double waited_wall;    /* when its node became AWAITED or LOST; 0: it is neither */
    double terminate_wall; /* when its termination was last requested; 0: never */
    double joined_wall;    /* when its node last joined; 0: not yet */
    int64_t terminated;    /* market: when its termination was first requested */
    int64_t noticed;       /* market: when the notice was seen */
    int64_t seen;          /* market: when it was last seen running; 0: not by this process */
};

/* Prices, purchasable markets, and the last messages about them: of daemon_market.c. */
struct daemon_market {
    struct market_store *store; /* NULL in a dry run */
    const char *store_path;     /* NULL: the default path beside the state */
    uint64_t points;            /* reported points of wanted markets */
    int64_t newest;             /* market time of the newest reported or stored point, however old; 0: none */
    bool pricing;               /* a reading of prices is under way */
    bool priced;                /* a reading has been complete */
    int64_t priced_from;        /* when the present reading was requested */
    int64_t priced_to;          /* prices up to here are known; 0: none */
    const struct catalog_price *reliable_price;
    struct markets markets, fresh;
    struct portfolio_market *buyable; /* spot markets in the order of `markets`, then on demand */
    size_t buyable_count;
    size_t learned; /* markets that `eviction` and `interruptions` know */
    struct eviction eviction;
    struct interruptions interruptions;
    struct unwanted unwanted;
    char unwanted_said[UNWANTED_TEXT],
        unwanted_reason_said[UNWANTED_TEXT]; /* texts of the last warning and the last decision; "": none */
    unsigned reasons_said[REASONS];          /* counts in the last message about why nothing is bought */
    json_t *money_noted;                     /* the last line `money` without its time; NULL: none */
    unsigned groups_said;                    /* 1 + the number of groups in the last message about too few; 0: none */
    int late_said; /* whether the last message said that the deadline will be missed; -1: no message yet */
};

/* Launches, machines and closed markets: of daemon_fleet.c, daemon_launches.c and daemon_machines.c. */
struct daemon_fleet {
    struct daemon_launch *launches;
    size_t launch_count;
    struct daemon_machine *machines;
    size_t machine_count;
    struct ledger_market *closed;
    size_t closed_count;
    bool stopped[2];        /* per kind: launches have stopped, since a request was rejected as wrong in itself */
    unsigned reliable_said; /* 1 + the number of reliable machines in the last message about too few or too many */
    bool listing;           /* a list is under way */
    bool listed;            /* a list has been complete */
    size_t orphans;         /* machines and requests without a launch, in the list under way */
    char (*withdrawn)[PROVIDER_TOKEN_TEXT]; /* tokens of the requests without a launch */
    size_t withdrawn_count;
    bool gone_when_asked; /* when the list under way was requested, nothing was left by the ledger */
    bool gone;            /* gone_when_asked, and the complete list showed nothing either */
};

/* What is known about the application: of daemon_job.c. */
struct daemon_job {
    struct measure measure;
    struct speeds speeds;          /* as stored in the ledger */
    double next_speeds_wall;       /* when their next window ends */
    bool nodes_joined, nodes_left; /* whether any did since the last iteration */
    struct policy_app app;
    double throughput; /* items per second and vCPU, weighted by its speed; 0: unknown */
    /* As stored in the ledger: measured values, which replace the configured guesses, also in later runs. */
    double known_phi, known_reference, known_sigma, known_lambda; /* seconds of the market */
    uint64_t iterations;
    int64_t begun;             /* market time of this bidbrain's start */
    double boot_seconds;       /* market: from a machine's launch to its node's joining, a running mean */
    double work_left;          /* vCPU-hours of the market; 0: unknown */
    bool transient;            /* no node is reliable: the state is spread over groups of machines (policy.h) */
    double checkpoint_seconds; /* job seconds at which the last checkpoint was complete */
    double checkpoint_gaps, checkpoint_gaps_sum; /* number of times between checkpoints, and their sum in seconds */
    bool ok;                                     /* the job has ended well */
};

/* Whether the provider answers: of daemon.c. */
struct daemon_cloud {
    char local_url[EMBEDDED_URL_TEXT]; /* provider local: the address of its market; empty: none runs */
    int folder_lock;                   /* provider local: descriptor of the folder's lock; 0: none */
    bool one_shot;                     /* a command without the loop: a lasting failure ends it */
    unsigned misses;                   /* failed readings of prices or machines since the last complete reading */
    double answer_wall;                /* when the last complete reading ended; 0: none */
    double asked_wall;                 /* when the first reading was requested */
    bool silence_said;                 /* a warning said that neither prices nor machines are known */
    double retry_wall;                 /* earliest time of the next reading */
    struct daemon_failure {
        char text[PROVIDER_LINE_TEXT]; /* text without the action and the request's id */
        double wall;                   /* when it was logged */
    } failures[DAEMON_FAILURES_KEPT];  /* the last logged failures */
    unsigned logged;
};

/* When each task is due: of daemon.c. Other parts may advance a reading or a decision. */
struct daemon_loop {
    enum daemon_phase phase;
    unsigned signals;
    double next_prices, next_list, next_decision, next_budget; /* market times of the next step of each kind */
    double next_link, next_money, phase_wall;                  /* wall times */
    double bill_wall; /* when all machines were gone and the bill began to wait for prices; 0: not yet */
    double silence_warned;
    bool waited; /* "waiting for the controller" was logged */
    bool ready;  /* machines may be bought */
    bool decide_now;
};

/* What the page's server has received: of daemon_page.c. */
struct daemon_page {
    struct web *web; /* NULL: no page */
    int wake_fd;     /* 0: none */
    uint64_t lines;
    double began;  /* market time of the page's second 0: when the state was new */
    json_t *money; /* the last line `money` without its time; NULL: none */
};

struct daemon {
    const struct daemon_options *options;
    const struct config *config;
    char region[MARKET_TEXT_MAX];
    struct market_clock clock;
    struct ledger *ledger;
    struct provider *provider;
    struct job_link *link;
    int signal_fd;
    FILE *report;
    char *user_data;
    struct daemon_market market;
    struct daemon_fleet fleet;
    struct daemon_job job;
    struct daemon_cloud cloud;
    struct daemon_loop loop;
    struct daemon_page page;
    struct error error;
};

/* ---- daemon_loop.c ---- */
int64_t daemon_now(const struct daemon *daemon);
/* Returns NULL if the type has no price in the region. */
const struct catalog_price *daemon_type(const struct daemon *daemon, const char *type);
/* Real seconds until a market time. */
double daemon_wall_of(const struct daemon *daemon, double market);
/* Ends the loop. */
void daemon_stop(struct daemon *daemon);
/* Ends the daemon with an error. Only the first error is kept. */
void daemon_fail(struct daemon *daemon, const struct error *error);
/* Goes on to a later phase. Does nothing if that phase has passed. */
void daemon_set_phase(struct daemon *daemon, enum daemon_phase phase);
/* A reading of prices or machines has ended. */
void daemon_answered(struct daemon *daemon, bool whole);
/* Market seconds from a machine's release to the end of its paid hour; and from the decision about the next hour to
 * that release. */
double daemon_margin(const struct daemon *daemon);
double daemon_lead(const struct daemon *daemon);

/* ---- daemon_report.c ---- */
__attribute__((format(printf, 2, 3))) void daemon_say(struct daemon *daemon, const char *format, ...);
/* Writes a line of the report. Takes ownership of the object. */
void daemon_report(struct daemon *daemon, const char *type, json_t *object);
void daemon_report_launch(struct daemon *daemon, const struct ledger_launch *launch);
void daemon_report_machine(struct daemon *daemon, const struct ledger_machine *machine);
void daemon_report_bill(struct daemon *daemon, const struct ledger_machine *machine, const struct bill *bill);
/* Shows a line of type money or decision on the page. */
void daemon_page_line(struct daemon *daemon, const json_t *line);

/* ---- daemon_fleet.c ---- */
extern const char DAEMON_ANY_MARKET[]; /* type and zone of a quota, which counts for all markets of a kind */
int daemon_load(struct daemon *daemon, struct error *error);
/* Return indexes in the fleet's arrays; SIZE_MAX: not found. A new entry is not stored yet. */
size_t daemon_find_machine(const struct daemon *daemon, const char *id);
size_t daemon_find_launch(const struct daemon *daemon, const char *token);
size_t daemon_add_launch(struct daemon *daemon, const struct ledger_launch *launch);
size_t daemon_add_machine(struct daemon *daemon, const struct ledger_machine *machine);
void daemon_store_launch(struct daemon *daemon, size_t launch);
void daemon_store_machine(struct daemon *daemon, size_t machine);
/* Buys nothing in the market for `seconds` of the market. `doubled`: each further call doubles the time, until the
 * market is reopened. */
void daemon_close_market(struct daemon *daemon, enum provider_kind kind, const char *type, const char *zone,
                         int64_t seconds, bool doubled);
/* Forgets the failures of the market. */
void daemon_reopen_market(struct daemon *daemon, enum provider_kind kind, const char *type, const char *zone);
int64_t daemon_closed_until(const struct daemon *daemon, enum provider_kind kind, const char *type, const char *zone);
size_t daemon_machines_there(const struct daemon *daemon);
size_t daemon_launches_unanswered(const struct daemon *daemon);
/* Whether neither a machine is left nor a launch that may bring one. */
bool daemon_all_gone(const struct daemon *daemon);

/* ---- daemon_speeds.c ---- */
/* Returns the measured speed of a type's vCPUs; 0: not measured, or speeds are switched off. */
double daemon_speed(const struct daemon *daemon, const char *type);
int daemon_speeds_load(struct daemon *daemon, struct error *error);
/* Takes the nodes' slowness from a status of the job. */
void daemon_take_speeds(void *context, const struct job_link_speed *told, size_t count);
/* The measured speeds by type, as text for people ("": none) and as JSON. */
void daemon_speeds_text(const struct daemon *daemon, char *text, size_t size);
json_t *daemon_speeds_json(const struct daemon *daemon);
/* Returns the work per hour of all nodes of the job: their vCPUs weighted by speed. Reliable nodes count 0. */
double daemon_nodes_work(const struct daemon *daemon);

/* ---- daemon_market.c ---- */
bool daemon_wants(const struct daemon *daemon, const char *type, const char *zone, const char *product);
int daemon_market_open(struct daemon *daemon, struct error *error);
void daemon_market_close(struct daemon *daemon);
/* Provider local: reads from the recording the prices that its market has reached. */
int daemon_read_recorded(struct daemon *daemon, struct error *error);
void daemon_take_price(void *context, const char *type, const char *zone, const char *product,
                       struct market_point point);
void daemon_prices_end(void *context, bool whole);
void daemon_ask_prices(struct daemon *daemon);

/* ---- daemon_view.c ---- */
/* What is known now, for a decision or a bill. Valid until launches or machines are added. */
struct daemon_view {
    struct footprint footprint;
    struct eviction_table table;
    const struct ledger_launch **launches; /* the rows of the launches */
    const struct ledger_machine **machines;
};
const struct footprint *daemon_view_open(struct daemon *daemon, struct daemon_view *view);
void daemon_view_close(struct daemon_view *view);

/* ---- daemon_launches.c ---- */
void daemon_launch(struct daemon *daemon, const struct portfolio_buy *buy);
/* Buys missing reliable machines, as far as the caps allow; in a dry run only says so. */
void daemon_keep_reliable(struct daemon *daemon);
/* While the job runs, repeats launches that were not answered, also those of an earlier run. Withdraws open
 * requests. */
void daemon_ask_again(struct daemon *daemon);
/* After a complete list: closes launches that are too old for an answer. After the job's end, closes launches by what
 * the list shows. */
void daemon_look_for_launches(struct daemon *daemon);
void daemon_take_outcome(void *context, const struct provider_outcome *outcome);

/* ---- daemon_machines.c ---- */
void daemon_take_machine(void *context, const struct provider_machine *told);
void daemon_list_end(void *context, bool whole);
void daemon_ask_list(struct daemon *daemon);
void daemon_release(struct daemon *daemon, size_t machine, int64_t at, bool hold);
/* Reports to the controller which machines are about to join. Gives back machines whose node does not join. */
void daemon_expect(struct daemon *daemon);
/* Requests due evictions and terminations. */
void daemon_move_machines(struct daemon *daemon);
/* Returns when the next eviction or termination is due, in market seconds; infinite: none. */
double daemon_machines_due(const struct daemon *daemon);
void daemon_release_all(struct daemon *daemon);
/* The machine's node has joined the job. Forgets earlier failures of its market. */
void daemon_machine_joined(struct daemon *daemon, size_t machine);
/* The machine's node is not part of the job any more, or the controller does not know it. */
void daemon_machine_left(struct daemon *daemon, size_t machine);

/* ---- daemon_job.c ---- */
/* Loads what the configuration and the state say about the application. */
int daemon_job_load(struct daemon *daemon, struct error *error);
/* Opens the link to the controller; its timer calls `tick`. */
int daemon_job_open(struct daemon *daemon, void (*tick)(void *daemon), struct error *error);
/* Stores the measured values in the state. */
void daemon_store_measured(struct daemon *daemon);

/* ---- daemon_decide.c ---- */
void daemon_decide(struct daemon *daemon);
/* While nothing can be decided: gives back machines that the budget no longer allows. */
void daemon_keep_budget(struct daemon *daemon);

/* ---- daemon_money.c ---- */
/* Adds a line `money` to the page and, once the controller has answered, to the job's report. Does so only if it
 * differs from the last one there. */
void daemon_note_money(struct daemon *daemon);
/* The bill in words and numbers, for the end of the job and for `bidbrain status`. */
struct daemon_spend_text {
    char hours[160], cost[200];
};
void daemon_spend_text(const struct footprint_spend *spend, struct daemon_spend_text *text);
/* Returns the status as one object, without the individual machines. */
json_t *daemon_status_json(struct daemon *daemon);
void daemon_report_summary(struct daemon *daemon);

/* ---- daemon_page.c ---- */
/* Opens the page's server, if options->http.listen is set. Call it when the link to the job is open. */
int daemon_page_open(struct daemon *daemon, struct error *error);
/* Call it before the link to the job is closed. */
void daemon_page_close(struct daemon *daemon);
/* Shows that bidbrain is alive, and answers the server's requests. Call it a few times a second. */
void daemon_page_step(struct daemon *daemon);

/* ---- daemon.c ---- */
/* Opens the parts that need only options and a real clock. daemon_close ends it. */
struct daemon *daemon_new(const struct daemon_options *options);
void daemon_close(struct daemon *daemon);
int daemon_open_clock(struct daemon *daemon, struct error *error);
/* Provider local: finds its market, or starts one if `start` is set, and adopts its clock. Otherwise does nothing. */
int daemon_open_local(struct daemon *daemon, bool start, struct error *error);
/* Reads the configured template of the user data, if there is one. */
int daemon_read_user_data(struct daemon *daemon, struct error *error);
struct provider_options daemon_provider_options(struct daemon *daemon);
int daemon_open_signals(struct daemon *daemon, struct error *error);
int daemon_open_provider(struct daemon *daemon, struct error *error);
/* For commands without the loop: waits until prices and machines are known. */
void daemon_wait_for_provider(struct daemon *daemon);

#endif
