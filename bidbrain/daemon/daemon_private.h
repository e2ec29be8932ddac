/* What the parts of the daemon share: daemon.c (start, loop, end), daemon_job.c (the job's reports), daemon_market.c
 * (prices, purchasable markets, decisions), daemon_fleet.c (rows of launches, machines and closed markets),
 * daemon_launches.c and daemon_machines.c (their life cycles), daemon_report.c (output for people and programs),
 * daemon_money.c (what the job's report says of money), daemon_speeds.c (how fast types work) and
 * daemon_commands.c (commands that open a daemon briefly).
 *
 * Times are of the market (market_clock.h), or "real": "wall" times are those of market_clock_elapsed. */
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
    DAEMON_OVERLAP_S = 300,                   /* overlap of two readings of prices, as points come in no order */
    DAEMON_ASK_AGAIN_S = 30,                  /* real: a launch or a termination without an answer is repeated */
    DAEMON_ADMIT_S = 24 * HOUR,               /* real: after its plan, in which a launch's nodes may join the job */
    DAEMON_TEMPLATE_ADMIT_S = 30 * 24 * HOUR, /* real: likewise, for machines from a launch template */
    DAEMON_TOKEN_S = 12 * HOUR, /* market: a launch is repeated for so long; EC2 recognizes its token for a day */
    DAEMON_WAIT_S = 300,        /* market: age at which an open spot request is withdrawn */
    DAEMON_SILENCE_S = 30,      /* real: silence of the controller after which nothing is bought */
    DAEMON_END_S = 300,         /* real: after a signal, for nodes to leave (and the notice); then for machines to go */
    DAEMON_ABSENT = 3,          /* complete lists without a machine until it counts as gone */
    DAEMON_FRESH_S = 300,       /* market: after its launch, in which lists may not show a machine yet */
    DAEMON_BACK_OFF_S = 120,    /* market: a market is closed after a refusal; doubled by each further one ... */
    DAEMON_QUOTA_S = 300,       /* ... likewise all markets, when a quota is used up ... */
    DAEMON_BACK_OFF_MAX_S = HOUR, /* ... and the limit of both */
    DAEMON_JOIN_S = 900, /* market, and DAEMON_JOIN_WALL_S real: a machine is given back when its node has not joined */
    DAEMON_JOIN_WALL_S = 60,
    DAEMON_NOTICE_S = 120,   /* market: between the cloud's notice and the machine's end */
    DAEMON_UNTAKEN_S = 900,  /* market: after its notice, a machine that still runs is given back */
    DAEMON_TERMINATE_S = 60, /* market, and DAEMON_TERMINATE_WALL_S real: from a termination until a list shows it */
    DAEMON_TERMINATE_WALL_S = 5,
    DAEMON_MARGIN_S = 10, /* market, and at least DAEMON_MARGIN_MS real: machines go so long before a paid hour ends */
    DAEMON_MARGIN_MS = 250,
    DAEMON_RETRY_MAX_S = 300,     /* real: limit of the pause between failed readings, doubled from 1 ... */
    DAEMON_RETRY_END_MAX_S = 5,   /* ... while machines are given back */
    DAEMON_FAILURE_REPEAT_S = 60, /* real: until the same failure is logged again */
    DAEMON_FAILURES_KEPT = 8,
    DAEMON_FIRST_S = 5,          /* real: a warning when neither prices nor machines have come by then */
    DAEMON_SILENT_S = 2,         /* real: a reading that takes longer counts EC2 as unreachable */
    DAEMON_UNREACHABLE_MS = 900, /* real: wait for an EC2 that did not answer before the signal */
    DAEMON_LOCAL_S = 15,         /* real: wait for the answer of provider local's market */
    DAEMON_LOCAL_PAUSE_MS = 100, /* real: between two questions to it */
    DAEMON_BILL_S = 30,          /* real: wait of the bill for the prices of the last hours */
    DAEMON_BOOT_S = 120,         /* market: from a launch to its node's joining, until it is measured */
    DAEMON_BOOTS = 4,            /* each new launch counts 1/4 in the running mean of these */
    DAEMON_MONEY_S = 2,          /* real: between two looks at what the job's report should say of money */
    DAEMON_MONEY_MARKETS = 64,   /* markets that it names without a machine */
    DAEMON_SPEEDS_TEXT = 512,    /* bytes of a line's measured speeds; more types are cut */
    DAEMON_LEAD_MS = 1000,       /* real: a decision about the next hour comes at least so long before the margin */
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
 *        |         |        |-----> CLOSED      withdrawn (`cancelled`) before it got a machine
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
 *     AWAITED, MEMBER, LOST -told to leave-> LEAVING -has left, or is not known to the controller-> OUT
 *
 * A node that is AWAITED or LOST for too long has its machine given back. OUT is final, even if the node comes back. */
enum machine_node { NODE_AWAITED, NODE_MEMBER, NODE_LOST, NODE_LEAVING, NODE_OUT };

/* A machine. Its state is the cloud's (row.machine.state: pending, running, stopping, gone). The row also has its
 * planned end: release_at (we give it back) or noticed (the cloud takes it), and then its end: ended, how. A machine
 * that counts as gone because lists do not show it may reappear. */
struct daemon_machine {
    struct ledger_machine row;
    enum machine_node node;
    bool hold;             /* it stays until release_at although its node has left: its hour is paid */
    bool listed;           /* in the list under way */
    unsigned absent;       /* complete lists without it, in a row */
    double waited_wall;    /* since when its node is AWAITED or LOST; 0: it is not */
    double terminate_wall; /* when its termination was last requested; 0: never */
    double joined_wall;    /* when its node last joined; 0: not yet */
    int64_t terminated;    /* market: when its termination was first requested */
    int64_t noticed;       /* market: when the notice was seen */
    int64_t seen;          /* market: when it was last seen running; 0: not by this process */
};

/* Prices, purchasable markets, and what messages last said about them: of daemon_market.c. */
struct daemon_market {
    struct market_store *store; /* NULL in a dry run */
    const char *store_path;     /* NULL: that beside the state */
    uint64_t points;            /* reported points of wanted markets */
    int64_t newest;             /* market time of the newest reported or stored point, however old; 0: none */
    bool pricing;               /* a reading of prices is under way */
    bool priced;                /* a reading has been complete */
    int64_t priced_from;        /* when the reading under way was requested */
    int64_t priced_to;          /* prices up to here are known; 0: none */
    const struct catalog_price *reliable_price;
    struct markets markets, fresh;
    struct portfolio_market *buyable; /* the spot markets as in `markets`, then on demand */
    size_t buyable_count;
    size_t learned; /* markets that `eviction` and `interruptions` know */
    struct eviction eviction;
    struct interruptions interruptions;
    struct unwanted unwanted;
    char unwanted_said[UNWANTED_TEXT],
        unwanted_reason_said[UNWANTED_TEXT]; /* last text of a warning, of a decision; "": none */
    unsigned reasons_said[REASONS];          /* counts in the last line that said why nothing is bought */
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
    bool stopped[2];        /* per kind: no more launches, since one was refused as wrong in itself */
    unsigned reliable_said; /* 1 + the number of reliable machines in the last message about too few or too many */
    bool listing;           /* a list is under way */
    bool listed;            /* a list has been complete */
    size_t orphans;         /* orphaned machines and requests in the list under way */
    char (*withdrawn)[PROVIDER_TOKEN_TEXT]; /* tokens of the orphaned requests */
    size_t withdrawn_count;
    bool gone_when_asked; /* by the ledger nothing was left when the list under way was requested ... */
    bool gone;            /* ... and the complete list showed nothing either */
};

/* What is known of the application: of daemon_job.c. */
struct daemon_job {
    struct measure measure;
    struct speeds speeds;          /* as stored in the ledger */
    double next_speeds_wall;       /* when their next window ends */
    bool nodes_joined, nodes_left; /* since the last iteration */
    struct policy_app app;
    double throughput; /* items per second and vCPU, counted by its speed; 0: not known */
    /* As stored in the ledger: measured values, which replace the configured guesses, also for the next bidbrain. */
    double known_phi, known_reference, known_sigma, known_lambda; /* seconds of the market */
    uint64_t iterations;
    int64_t begun;             /* market time of this bidbrain's start */
    double boot_seconds;       /* market: from a machine's launch to its node's joining, a running mean */
    double work_left;          /* vCPU-hours of the market; 0: not known */
    bool transient;            /* no node is reliable: the state is spread over groups of machines (policy.h) */
    double checkpoint_seconds; /* of the job: when the last one was complete */
    double checkpoint_gaps, checkpoint_gaps_sum; /* between checkpoints: how many, and their sum in seconds */
    bool ok;                                     /* the job has ended well */
};

/* Whether the provider answers: of daemon.c. */
struct daemon_cloud {
    char local_url[EMBEDDED_URL_TEXT]; /* provider local: the address of its market; empty: none runs */
    int folder_lock;                   /* provider local: the descriptor of the folder's lock; 0: none */
    bool one_shot;                     /* a command without the loop: a lasting failure ends it */
    unsigned misses;                   /* failed readings of prices or machines since the last complete one */
    double answer_wall;                /* when the last complete one ended; 0: none */
    double asked_wall;                 /* when the first one was requested */
    bool silence_said;                 /* warned that neither prices nor machines have come */
    double retry_wall;                 /* no reading begins before */
    struct daemon_failure {
        char text[PROVIDER_LINE_TEXT]; /* without the action and the request's id */
        double wall;                   /* when it was logged */
    } failures[DAEMON_FAILURES_KEPT];  /* the last ones that were logged */
    unsigned logged;
};

/* What is due when: of daemon.c. Other parts may bring a reading or a decision forward. */
struct daemon_loop {
    enum daemon_phase phase;
    unsigned signals;
    double next_prices, next_list, next_decision, next_budget; /* market */
    double next_link, next_money, phase_wall;                  /* wall */
    double bill_wall; /* since when all machines are gone and the bill waits for prices; 0: not yet */
    double silence_warned;
    bool waited; /* "waiting for the controller" was said */
    bool ready;  /* to buy */
    bool decide_now;
};

/* What the page's server has been given: of daemon_page.c. */
struct daemon_page {
    struct web *web; /* NULL: there is no page */
    int wake_fd;     /* 0: none */
    uint64_t lines;
    double began;  /* market time from which the page's seconds count: when the state was new */
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

/* ---- daemon.c ---- */
/* Opened as far as options and a real clock go; daemon_close ends it. */
struct daemon *daemon_new(const struct daemon_options *options);
void daemon_close(struct daemon *daemon);
int daemon_open_clock(struct daemon *daemon, struct error *error);
/* Provider local: finds its market, or starts one if `start` is set, and goes by its clock. Otherwise does nothing. */
int daemon_open_local(struct daemon *daemon, bool start, struct error *error);
/* Reads the template of the user data that is configured, if one is. */
int daemon_read_user_data(struct daemon *daemon, struct error *error);
struct provider_options daemon_provider_options(struct daemon *daemon);
int64_t daemon_now(const struct daemon *daemon);
/* The daemon can't go on. Only the first reason is kept. */
void daemon_fail(struct daemon *daemon, const struct error *error);
/* Real seconds until a market time. */
double daemon_wall_of(const struct daemon *daemon, double market);
/* A reading of prices or machines has ended. */
void daemon_answered(struct daemon *daemon, bool whole);
void daemon_set_phase(struct daemon *daemon, enum daemon_phase phase);
int daemon_open_signals(struct daemon *daemon, struct error *error);
int daemon_open_provider(struct daemon *daemon, struct error *error);
/* Without the loop: until prices and machines are known. */
void daemon_wait_for_provider(struct daemon *daemon);

/* ---- daemon_job.c ---- */
/* What is known of the application from the configuration and the state. */
int daemon_job_load(struct daemon *daemon, struct error *error);
/* Opens the link to the controller; `tick` is its timer's. */
int daemon_job_open(struct daemon *daemon, void (*tick)(void *daemon), struct error *error);
/* What the loss of both copies of a part of the state costs, by the checkpoints that the job writes. */
struct policy_copies daemon_copies(const struct daemon *daemon);
/* What was measured, into the state. */
void daemon_store_measured(struct daemon *daemon);

/* ---- daemon_speeds.c ---- */
/* The measured speed of a type's vCPUs; 0: it is not measured, or speeds are switched off. */
double daemon_speed(const struct daemon *daemon, const char *type);
int daemon_speeds_load(struct daemon *daemon, struct error *error);
/* Takes the slowness of the nodes in a status of the job. */
void daemon_take_speeds(void *context, const struct job_link_speed *told, size_t count);
/* The measured speeds by type, for people ("": none) and for programs. */
void daemon_speeds_text(const struct daemon *daemon, char *text, size_t size);
json_t *daemon_speeds_json(const struct daemon *daemon);
/* The work an hour of a machine by the node's name: its vCPUs, by their speed. 0: it is reliable, or none of ours. */
double daemon_node_work(const struct daemon *daemon, const char *node);
/* That of all nodes that are part of the job. */
double daemon_nodes_work(const struct daemon *daemon);

/* ---- daemon_market.c ---- */
bool daemon_wants(const struct daemon *daemon, const char *type, const char *zone, const char *product);
int daemon_market_open(struct daemon *daemon, struct error *error);
void daemon_market_close(struct daemon *daemon);
/* Provider local: takes the prices that its market has told by now from the recording. */
int daemon_read_recorded(struct daemon *daemon, struct error *error);
void daemon_take_price(void *context, const char *type, const char *zone, const char *product,
                       struct market_point point);
void daemon_prices_end(void *context, bool whole);
void daemon_ask_prices(struct daemon *daemon);
/* What is known now, for a decision or a bill. Valid until launches or machines are added. */
struct daemon_view {
    struct footprint footprint;
    struct eviction_table table;
    const struct ledger_launch **launches; /* the rows */
    const struct ledger_machine **machines;
};
const struct footprint *daemon_view_open(struct daemon *daemon, struct daemon_view *view);
void daemon_view_close(struct daemon_view *view);
void daemon_decide(struct daemon *daemon);
/* While nothing can be decided: gives back what the budget does not allow any more. */
void daemon_keep_budget(struct daemon *daemon);
double daemon_lead(const struct daemon *daemon);
double daemon_margin(const struct daemon *daemon);

/* ---- daemon_fleet.c ---- */
extern const char DAEMON_ANY_MARKET[]; /* as type and zone: a quota counts for all markets of a kind */
int daemon_load(struct daemon *daemon, struct error *error);
/* Places in the fleet's arrays; SIZE_MAX: there is none. What is added is not stored yet. */
size_t daemon_find_machine(const struct daemon *daemon, const char *id);
size_t daemon_find_launch(const struct daemon *daemon, const char *token);
size_t daemon_add_launch(struct daemon *daemon, const struct ledger_launch *launch);
size_t daemon_add_machine(struct daemon *daemon, const struct ledger_machine *machine);
void daemon_store_launch(struct daemon *daemon, size_t launch);
void daemon_store_machine(struct daemon *daemon, size_t machine);
/* Nothing is bought there for `seconds` of the market; `doubled` by each call that follows, until it is reopened. */
void daemon_close_market(struct daemon *daemon, enum provider_kind kind, const char *type, const char *zone,
                         int64_t seconds, bool doubled);
/* What failed there before is forgotten. */
void daemon_reopen_market(struct daemon *daemon, enum provider_kind kind, const char *type, const char *zone);
int64_t daemon_closed_until(const struct daemon *daemon, enum provider_kind kind, const char *type, const char *zone);

/* ---- daemon_launches.c ---- */
void daemon_launch(struct daemon *daemon, const struct portfolio_buy *buy);
/* Buys reliable machines that lack, as far as the caps allow; in a dry run it only says so. */
void daemon_keep_reliable(struct daemon *daemon);
/* Asks again for what has no answer, since this process or the one before it asked, while the job runs; withdraws open
 * requests. */
void daemon_ask_again(struct daemon *daemon);
/* After a whole list: closes launches that are too old for an answer, or after the job's end by what the list shows. */
void daemon_look_for_launches(struct daemon *daemon);
void daemon_take_outcome(void *context, const struct provider_outcome *outcome);

/* ---- daemon_machines.c ---- */
void daemon_take_machine(void *context, const struct provider_machine *told);
void daemon_list_end(void *context, bool whole);
void daemon_ask_list(struct daemon *daemon);
void daemon_release(struct daemon *daemon, size_t machine, int64_t at, bool hold);
/* Tells the controller which machines are about to join, and gives back those whose node does not. */
void daemon_expect(struct daemon *daemon);
/* Evictions that are to be told, terminations that are due. */
void daemon_move_machines(struct daemon *daemon);
/* When the next of them is due, market seconds; infinite: none. */
double daemon_machines_due(const struct daemon *daemon);
void daemon_release_all(struct daemon *daemon);
/* Its node has joined the job: what failed there before is forgotten. */
void daemon_machine_joined(struct daemon *daemon, size_t machine);
/* Its node is no part of the job any more, or the controller knows of none. */
void daemon_machine_left(struct daemon *daemon, size_t machine);
/* Nothing is left, neither a machine nor a launch that may bring one. */
bool daemon_all_gone(const struct daemon *daemon);

/* ---- daemon_money.c ---- */
/* Adds a line `decision` to the job's report, if there is a link to the job, and to the page. */
void daemon_note_decision(struct daemon *daemon, const char *text);
/* Adds a line `money` to the job's report, once the controller has answered, and to the page, if it differs from the
 * last one there. */
void daemon_note_money(struct daemon *daemon);

/* ---- daemon_page.c ---- */
/* Opens the page's server, if options->http.listen is set; the link to the job is open. */
int daemon_page_open(struct daemon *daemon, struct error *error);
/* Before the link to the job is closed. */
void daemon_page_close(struct daemon *daemon);
/* Shows a line of type money or decision. */
void daemon_page_line(struct daemon *daemon, const json_t *line);
/* Shows that bidbrain is alive, and what the server asks for. To be called a few times a second. */
void daemon_page_step(struct daemon *daemon);

/* ---- daemon_report.c ---- */
__attribute__((format(printf, 2, 3))) void daemon_say(struct daemon *daemon, const char *format, ...);
/* Writes a line of the report; takes the object. */
void daemon_report(struct daemon *daemon, const char *type, json_t *object);
void daemon_report_launch(struct daemon *daemon, const struct ledger_launch *launch);
void daemon_report_machine(struct daemon *daemon, const struct ledger_machine *machine);
void daemon_report_summary(struct daemon *daemon);
/* The bill as people and programs are told it, at the end and by `bidbrain status`. */
struct daemon_spend_text {
    char hours[160], cost[200];
};
void daemon_spend_text(const struct footprint_spend *spend, struct daemon_spend_text *text);
json_t *daemon_spend_json(const struct footprint_spend *spend);
size_t daemon_machines_there(const struct daemon *daemon);
size_t daemon_launches_unanswered(const struct daemon *daemon);
/* The status in one object, without the machines one by one. */
json_t *daemon_status_json(struct daemon *daemon);

#endif
