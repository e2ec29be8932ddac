/* The daemon's view of a cloud: reads prices, launches, lists and terminates machines. The files of ec2_private.h
 * implement it, for AWS and for spotmarket at another endpoint.
 *
 * Asynchronous: every function returns at once. provider_step calls the listener, on the one thread that uses the
 * provider; the listener may call the provider. A provider stores nothing on disk: the daemon writes each request into
 * its ledger before it makes the request, and provider_list finds all machines and open requests. */
#ifndef BIDBRAIN_CLOUD_PROVIDER_H
#define BIDBRAIN_CLOUD_PROVIDER_H

#include "bidbrain/market/market.h"

enum {
    PROVIDER_TOKEN_TEXT = 65, /* bytes of a launch's token with its 0: EC2 takes 64 ASCII characters */
    PROVIDER_ID_TEXT = 32,    /* bytes of a machine's id with its 0; the id is also the name of its node */
    PROVIDER_CODE_TEXT = 80,
    PROVIDER_LINE_TEXT = 300,
    PROVIDER_COUNT_MAX = 1000, /* machines of one launch */
};

enum provider_kind { PROVIDER_SPOT, PROVIDER_ON_DEMAND };

/* One attempt to get machines. */
struct provider_launch {
    char token[PROVIDER_TOKEN_TEXT]; /* unique; stored before it is sent; never reused for other arguments */
    enum provider_kind kind;
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX], product[MARKET_TEXT_MAX];
    unsigned count; /* machines; 0: any number, from a launch template */
    int64_t bid;    /* spot: the most to pay, in micro-dollars per machine-hour; 0: no cap of ours */
    bool reliable;  /* tier of the nodes: reliable or transient */
    /* until when its nodes may join the job, in seconds since 1970 by this computer's clock; 0: at any time */
    int64_t join_until;
};

enum machine_state {
    MACHINE_PENDING, /* does not run yet, and may never run */
    MACHINE_RUNNING,
    MACHINE_STOPPING,
    MACHINE_GONE,
};

struct provider_machine {
    char id[PROVIDER_ID_TEXT];
    char token[PROVIDER_TOKEN_TEXT]; /* token of its launch; empty: no such tag */
    enum provider_kind kind;
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX];
    enum machine_state state;
    int64_t launched; /* start of its bill, in seconds since 1970 by the cloud's clock; 0: not known yet */
    int64_t ended;    /* end of its bill, by the same clock; 0: it is not gone, or the end is unknown */
    bool noticed;     /* the cloud has announced that it will take the machine */
    bool evicted;     /* the cloud has taken the machine, or is taking it */
    char reason[PROVIDER_LINE_TEXT];
};

enum launch_state {
    LAUNCH_WAITING, /* accepted, but no machine yet: an open spot request */
    LAUNCH_FILLED,  /* `machine` has reported all machines that this launch will ever have */
    LAUNCH_REFUSED, /* this launch has no machine and will get none */
};

struct provider_outcome {
    char token[PROVIDER_TOKEN_TEXT];
    enum launch_state state;
    unsigned machines;             /* LAUNCH_FILLED: number of machines, perhaps fewer than requested */
    char code[PROVIDER_CODE_TEXT]; /* LAUNCH_REFUSED: EC2's error code or status code, such as "SpotMaxPriceTooLow" */
    char text[PROVIDER_LINE_TEXT];
    bool ours; /* LAUNCH_REFUSED: the request itself is wrong (bad parameter, no right); a retry would fail, too */
};

enum provider_finding {
    PROVIDER_WELL,    /* no problem */
    PROVIDER_WARNING, /* may be intended, or could not be checked */
    PROVIDER_ERROR,   /* launches or terminations would fail */
};

struct provider_listener {
    /* A point of the price history. The same point may be reported again; points come in any order. */
    void (*price)(void *context, const char *type, const char *zone, const char *product, struct market_point point);
    /* A provider_prices has ended. `whole`: all prices up to now were reported; if false, `failed` was called. */
    void (*prices_end)(void *context, bool whole);
    /* The outcome of a launch. Until it is reported, the launch may or may not have been carried out: call
     * provider_launch with the same token again, or provider_list. */
    void (*outcome)(void *context, const struct provider_outcome *outcome);
    /* A machine of this job, perhaps unknown to the ledger. Called again at each change. */
    void (*machine)(void *context, const struct provider_machine *machine);
    /* A provider_list has ended. `whole`: any machine that it did not report does not exist (any more). */
    void (*list_end)(void *context, bool whole);
    /* A call failed and will be retried; one line for the log. `lasting`: retries will fail until somebody acts. */
    void (*failed)(void *context, const char *text, bool lasting);
    /* A finding of provider_ec2_check: one line about the configuration's key `key` or another subject. */
    void (*found)(void *context, enum provider_finding finding, const char *key, const char *text);
    /* A provider_ec2_check has ended. */
    void (*check_end)(void *context);
    void *context;
};

struct provider;

/* NULL is allowed. Drops calls under way; machines stay. */
void provider_close(struct provider *provider);
/* Like http_fd, http_wait_ms and http_step. */
int provider_fd(const struct provider *provider);
int provider_wait_ms(struct provider *provider);
void provider_step(struct provider *provider);
/* Reads the price history from `since` (seconds since 1970, the cloud's clock) to now. Does nothing while a reading is
 * under way. */
void provider_prices(struct provider *provider, int64_t since);
/* Requests machines. A repeated call with the same launch requests no further machines. */
void provider_launch(struct provider *provider, const struct provider_launch *launch);
/* Withdraws a launch's open requests. Reports machines that the launch got meanwhile. */
void provider_cancel(struct provider *provider, const char *token);
/* Terminates machines, after cancelling their open requests. */
void provider_terminate(struct provider *provider, const char *const *ids, size_t count);
/* Reports all machines of the job, found by their tags, and the outcomes of its requests, at each call anew. Does
 * nothing while a listing is under way. */
void provider_list(struct provider *provider);

/* ---- Opening ---- */

struct aws_options {
    const char *region;   /* NULL: from the environment or the profile */
    const char *endpoint; /* NULL: from the environment or the profile, else AWS's own */
    unsigned attempts;    /* attempts of each call; 0: the default of ec2.h */
};

enum provider_call { PROVIDER_RUN_INSTANCES, PROVIDER_REQUEST_SPOT, PROVIDER_CREATE_FLEET };

/* What the machines of the job have in common. All texts are copied. */
struct provider_options {
    const char *job;       /* the value of the tag "proteus:job" */
    const char *user_data; /* template of the script (user_data.h); NULL: the built-in one */
    /* The nodes' settings: */
    const char *app; /* name of the nodes' program, such as mf */
    /* the program's own options without --controller, --tier, --key, --name; NULL at the end */
    const char *const *arguments;
    const char *binary;     /* s3://..., https://..., or an absolute path on the machine */
    const char *controller; /* endpoint, tcp://... */
    const char *key;        /* the job's key file, whose token goes into the user data; NULL: none */
    int64_t threads;        /* 0: one for each processor of the machine */
    /* how long a spot machine waits to be taken after its node has ended well: its hour is paid */
    int64_t linger_seconds;
    struct aws_options aws;
    enum provider_call call;                                           /* the call that requests spot machines */
    const char *image, *key_name, *instance_profile, *launch_template; /* NULL: none */
    const char *const *security_groups;                                /* ids, NULL at the end */
    const char *(*subnet)(const void *context, const char *zone);      /* NULL: none; may be NULL */
    const char *const *types; /* types whose prices are read, NULL at the end; empty: all */
    const char *product;
    bool look_only; /* listings change nothing: stopped machines are not terminated, missing tags are not set */
    const void *context;
    int64_t (*now)(const void *now_context); /* the market's clock, seconds since 1970; NULL: real time */
    const void *now_context;
    struct provider_listener listener;
};

/* Makes a copy with its own texts and lists. */
void provider_options_copy(struct provider_options *copy, const struct provider_options *options);
void provider_options_free(struct provider_options *copy);

/* Returns 0, AML_EFAIL, or AML_EINPUT (a wrong option, file or credential source). */
int provider_ec2_open(struct provider **provider, const struct provider_options *options, struct error *error);

/* Checks whether EC2 would carry out such launches, and would list and terminate machines, without doing it. Call it at
 * most once for a provider of provider_ec2_open. `found` reports the problems. `price` and `prices_end` report what is
 * sold at `now` (seconds since 1970, the cloud's clock). `check_end` comes last. A launch without a zone is for any
 * zone. */
void provider_ec2_check(struct provider *provider, const struct provider_launch *launches, size_t count, int64_t now);

#endif
