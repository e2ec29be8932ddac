/* A cloud as the daemon needs it: prices, machines asked for and given back, what became of them. ec2.c implements it,
 * for AWS and for spotmarket at another endpoint.
 *
 * Asynchronous: every function returns at once; the listener is called from provider_step, on the one thread that uses
 * the provider, and may call the provider. A provider remembers nothing that matters: what was asked for stands in the
 * daemon's ledger before it is asked for, and provider_list finds what there is. */
#ifndef BIDBRAIN_CLOUD_PROVIDER_H
#define BIDBRAIN_CLOUD_PROVIDER_H

#include "bidbrain/market/market.h"

enum {
    PROVIDER_TOKEN_TEXT = 65, /* a launch's token with its 0: 64 ASCII characters are what EC2 takes */
    PROVIDER_ID_TEXT = 32,    /* a machine's id with its 0; it is the node's name in the job too */
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
    int64_t join_until; /* seconds since 1970 by the computer's clock: the machines' nodes may join the job until then;
                           0: at any time */
};

enum machine_state {
    MACHINE_PENDING, /* not running yet: no capacity, may never come */
    MACHINE_RUNNING,
    MACHINE_STOPPING,
    MACHINE_GONE,
};

struct provider_machine {
    char id[PROVIDER_ID_TEXT];
    char token[PROVIDER_TOKEN_TEXT]; /* of its launch; empty: it carries none */
    enum provider_kind kind;
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX];
    enum machine_state state;
    int64_t launched; /* seconds since 1970 by the cloud's clock: from when it is paid; 0: not known yet */
    int64_t ended;    /* likewise, to when it is paid, once it is gone; 0: the cloud does not tell */
    bool noticed;     /* the cloud has said that it will take it */
    bool evicted;     /* it is gone, or going, and the cloud took it */
    char reason[PROVIDER_LINE_TEXT];
};

enum launch_state {
    LAUNCH_WAITING, /* accepted, nothing yet: an open spot request. Not capacity */
    LAUNCH_FILLED,  /* all machines that will ever come of it have been told by `machine` */
    LAUNCH_REFUSED, /* no machine came or will come of it */
};

struct provider_outcome {
    char token[PROVIDER_TOKEN_TEXT];
    enum launch_state state;
    unsigned machines;             /* LAUNCH_FILLED: how many, perhaps fewer than asked for */
    char code[PROVIDER_CODE_TEXT]; /* LAUNCH_REFUSED: EC2's error code or status code, such as "SpotMaxPriceTooLow" */
    char text[PROVIDER_LINE_TEXT];
    bool ours; /* LAUNCH_REFUSED: the request itself is wrong (bad parameter, no right): asking again is no use */
};

enum provider_finding {
    PROVIDER_WELL,    /* nothing is wrong: the cloud answers */
    PROVIDER_WARNING, /* it may be meant, or could not be looked at */
    PROVIDER_ERROR,   /* machines will not be had, or not be given back */
};

struct provider_listener {
    /* Points of the price history, each once or more, in no order. */
    void (*price)(void *context, const char *type, const char *zone, const char *product, struct market_point point);
    /* A provider_prices has ended: prices up to now have been told; or it has failed, and `failed` was called. */
    void (*prices_end)(void *context, bool whole);
    /* A launch without an outcome may or may not have been carried out: ask again with the same token, or list. */
    void (*outcome)(void *context, const struct provider_outcome *outcome);
    /* A machine of this job, also one that nobody here knows of; told again at each change. */
    void (*machine)(void *context, const struct provider_machine *machine);
    /* A provider_list has ended. `whole`: machines that it did not name are not there (any more). */
    void (*list_end)(void *context, bool whole);
    /* One line for the log: what failed and will be tried again. `lasting`: time alone does not mend it. */
    void (*failed)(void *context, const char *text, bool lasting);
    /* What provider_ec2_check has found: `key` of the configuration, or what else it is about, and one line. */
    void (*found)(void *context, enum provider_finding finding, const char *key, const char *text);
    /* A provider_ec2_check has ended. */
    void (*check_end)(void *context);
    void *context;
};

struct provider;

/* NULL is allowed. What is under way is dropped; machines stay. */
void provider_close(struct provider *provider);
/* As http_fd, http_wait_ms and http_step. */
int provider_fd(const struct provider *provider);
int provider_wait_ms(struct provider *provider);
void provider_step(struct provider *provider);
/* The price history from `since` (seconds since 1970, the cloud's clock) to now. One at a time: a second while one is
 * under way is part of it. */
void provider_prices(struct provider *provider, int64_t since);
/* Asks for machines. Again with the same launch: harmless, it is the same attempt. */
void provider_launch(struct provider *provider, const struct provider_launch *launch);
/* Withdraws what a launch has not got yet. Machines that it got meanwhile are told. */
void provider_cancel(struct provider *provider, const char *token);
/* Gives machines back: open requests of theirs are cancelled first. */
void provider_terminate(struct provider *provider, const char *const *ids, size_t count);
/* Tells of all machines of the job, found by their tags, and of what its requests have come to (as outcomes, the same
 * ones again each time). A second while one is under way is part of it. */
void provider_list(struct provider *provider);

/* ---- Opening ---- */

struct aws_options {
    const char *region;   /* NULL: as the environment and the profile say */
    const char *endpoint; /* NULL: likewise, or AWS's own */
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
