/* The daemon's view of a cloud: reads prices, launches, lists and terminates machines. ec2.c implements it, for AWS and
 * for spotmarket at another endpoint.
 *
 * Asynchronous: every function returns at once. provider_step calls the listener, on the one thread that uses the
 * provider; the listener may call the provider. A provider may lose its memory at any time: the daemon writes each
 * request into its ledger before it makes it, and provider_list finds all machines and open requests. */
#ifndef BIDBRAIN_CLOUD_PROVIDER_H
#define BIDBRAIN_CLOUD_PROVIDER_H

#include "bidbrain/market/market.h"

enum {
    PROVIDER_TOKEN_TEXT = 65, /* bytes of a launch's token with its 0: EC2 takes 64 ASCII characters */
    PROVIDER_ID_TEXT = 32,    /* bytes of a machine's id with its 0; the machine's node has the id as its name */
    PROVIDER_CODE_TEXT = 80,
    PROVIDER_LINE_TEXT = 300,
    PROVIDER_COUNT_MAX = 1000, /* machines of one launch */
};

enum provider_kind { PROVIDER_SPOT, PROVIDER_ON_DEMAND };

/* One attempt to get machines. */
struct provider_launch {
    char token[PROVIDER_TOKEN_TEXT]; /* unique; stored before it is sent, never used for other arguments */
    enum provider_kind kind;
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX], product[MARKET_TEXT_MAX];
    unsigned count;     /* machines; 0: any number, of a launch template */
    int64_t bid;        /* spot: the most to be paid, micro-dollars per machine-hour; 0: no cap of ours */
    bool reliable;      /* the nodes' tier */
    int64_t join_until; /* the machines' nodes may join the job until then, seconds since 1970 by this computer's clock;
                           0: at any time */
};

enum machine_state {
    MACHINE_PENDING, /* does not run yet, and may never do so */
    MACHINE_RUNNING,
    MACHINE_STOPPING,
    MACHINE_GONE,
};

struct provider_machine {
    char id[PROVIDER_ID_TEXT];
    char token[PROVIDER_TOKEN_TEXT]; /* of its launch; empty: the machine has no such tag */
    enum provider_kind kind;
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX];
    enum machine_state state;
    int64_t launched; /* when its bill begins, seconds since 1970 by the cloud's clock; 0: not known yet */
    int64_t ended;    /* when its bill ends, likewise; 0: it is not gone, or the cloud does not report it */
    bool noticed;     /* the cloud has announced that it will take the machine */
    bool evicted;     /* the cloud has taken the machine, or is taking it */
    char reason[PROVIDER_LINE_TEXT];
};

enum launch_state {
    LAUNCH_WAITING, /* accepted, without a machine yet: an open spot request */
    LAUNCH_FILLED,  /* `machine` has reported all machines that this launch will ever get */
    LAUNCH_REFUSED, /* this launch has got no machine and will get none */
};

struct provider_outcome {
    char token[PROVIDER_TOKEN_TEXT];
    enum launch_state state;
    unsigned machines;             /* LAUNCH_FILLED: how many, perhaps fewer than requested */
    char code[PROVIDER_CODE_TEXT]; /* LAUNCH_REFUSED: EC2's error code or status code, such as "SpotMaxPriceTooLow" */
    char text[PROVIDER_LINE_TEXT];
    bool ours; /* LAUNCH_REFUSED: the request itself is wrong (bad parameter, no right), and a retry would fail too */
};

enum provider_finding {
    PROVIDER_WELL,    /* no problem */
    PROVIDER_WARNING, /* may be intended, or could not be checked */
    PROVIDER_ERROR,   /* launches or terminations would fail */
};

struct provider_listener {
    /* A point of the price history. The same point may be reported again; points come in any order. */
    void (*price)(void *context, const char *type, const char *zone, const char *product, struct market_point point);
    /* A provider_prices has ended. `whole`: all prices up to now were reported. Otherwise `failed` was called. */
    void (*prices_end)(void *context, bool whole);
    /* What became of a launch. Without an outcome it may or may not have been carried out: call provider_launch with
     * the same token again, or provider_list. */
    void (*outcome)(void *context, const struct provider_outcome *outcome);
    /* A machine of this job, perhaps one that the ledger does not have. Called again at each change. */
    void (*machine)(void *context, const struct provider_machine *machine);
    /* A provider_list has ended. `whole`: machines that it did not report do not exist (any more). */
    void (*list_end)(void *context, bool whole);
    /* One line for the log: a call that failed and will be retried. `lasting`: retries fail until somebody acts. */
    void (*failed)(void *context, const char *text, bool lasting);
    /* A finding of provider_ec2_check: the configuration's key or another subject, and one line. */
    void (*found)(void *context, enum provider_finding finding, const char *key, const char *text);
    /* A provider_ec2_check has ended. */
    void (*check_end)(void *context);
    void *context;
};

struct provider;

/* NULL is allowed. Drops calls under way; machines stay. */
void provider_close(struct provider *provider);
/* As http_fd, http_wait_ms and http_step. */
int provider_fd(const struct provider *provider);
int provider_wait_ms(struct provider *provider);
void provider_step(struct provider *provider);
/* Reads the price history from `since` (seconds since 1970, the cloud's clock) to now. While a reading is under way,
 * another call does nothing. */
void provider_prices(struct provider *provider, int64_t since);
/* Requests machines. A repeated call with the same launch gets no further machines. */
void provider_launch(struct provider *provider, const struct provider_launch *launch);
/* Withdraws a launch's open requests. Reports machines that the launch has got meanwhile. */
void provider_cancel(struct provider *provider, const char *token);
/* Terminates machines, after cancelling their open requests. */
void provider_terminate(struct provider *provider, const char *const *ids, size_t count);
/* Reports all machines of the job, found by their tags, and the outcomes of its requests, the same ones at each call.
 * While a listing is under way, another call does nothing. */
void provider_list(struct provider *provider);

/* ---- Opening ---- */

struct aws_options {
    const char *region;   /* NULL: that of the environment or the profile */
    const char *endpoint; /* NULL: likewise, or else AWS's own */
    unsigned attempts;    /* of each call; 0: the default of ec2.h */
};

enum provider_call { PROVIDER_RUN_INSTANCES, PROVIDER_REQUEST_SPOT, PROVIDER_CREATE_FLEET };

/* What every machine of the job gets. All texts are copied. */
struct provider_options {
    const char *job;       /* the value of the tag "proteus:job" */
    const char *user_data; /* a template (user_data.h), NULL: the built-in one */
    /* Of the nodes: */
    const char *app;              /* a program's name: mf */
    const char *const *arguments; /* its own, NULL at the end; without --controller, --tier, --key, --name */
    const char *binary;           /* s3://..., https://..., or an absolute path on the machine */
    const char *controller;       /* tcp://... */
    const char *key;              /* the job's key file: a token goes into the user data; NULL: none */
    int64_t threads;              /* 0: as many as the machine has */
    int64_t linger_seconds; /* that a spot machine waits to be taken, once its node has ended well: its hour is paid */
    struct aws_options aws;
    enum provider_call call;                                           /* how spot machines are asked for */
    const char *image, *key_name, *instance_profile, *launch_template; /* NULL: none */
    const char *const *security_groups;                                /* ids, NULL at the end */
    const char *(*subnet)(const void *context, const char *zone);      /* NULL: none; may be NULL */
    const char *const *types; /* that prices are read for, NULL at the end; empty: all */
    const char *product;
    bool
        look_only; /* listings change nothing: machines that have stopped stay, and tags that are missing are not set */
    const void *context;
    int64_t (*now)(const void *now_context); /* the market's clock, seconds since 1970; NULL: real time */
    const void *now_context;
    struct provider_listener listener;
};

/* A copy with texts and lists of its own. */
void provider_options_copy(struct provider_options *copy, const struct provider_options *options);
void provider_options_free(struct provider_options *copy);

/* 0, AML_EINPUT (a wrong option, file or credential source), AML_EFAIL. */
int provider_ec2_open(struct provider **provider, const struct provider_options *options, struct error *error);

/* Checks whether EC2 would carry out such launches, and list and terminate machines, without doing any of it. Once for
 * a provider of provider_ec2_open. Reports all problems by `found`, and what is sold at the moment `now` (seconds since
 * 1970, the cloud's clock) by `price` and `prices_end`; then calls `check_end`. A launch without a zone is for any. */
void provider_ec2_check(struct provider *provider, const struct provider_launch *launches, size_t count, int64_t now);

#endif
