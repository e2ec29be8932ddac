/* The daemon of `bidbrain run`. Reads prices from a provider, has the policy decide, writes each step into the ledger
 * before it takes it, launches and terminates machines, and reports leaving nodes to the job's controller. One thread,
 * one loop (docs/bidbrain.md). */
#ifndef BIDBRAIN_DAEMON_DAEMON_H
#define BIDBRAIN_DAEMON_DAEMON_H

#include "bidbrain/daemon/config.h"
#include "web/server.h"

#include <stdio.h>

/* Where a launch is. */
enum daemon_launch_step {
    DAEMON_LAUNCH_STORED,        /* planned and stored, not sent */
    DAEMON_LAUNCH_ANSWERED,      /* the provider's answer is not stored yet */
    DAEMON_LAUNCH_ANSWER_STORED, /* the answer is stored, and nothing has followed from it yet */
};

struct daemon_options {
    const struct config *config;
    bool dry_run;       /* one decision, printed */
    bool keep;          /* a signal leaves the machines as they are */
    bool quiet;         /* no lines on standard output */
    bool no_bill;       /* ... none of the bill: whoever runs the market prints its own */
    struct web_options http; /* of its page; listen NULL: none */
    const char *report; /* a file, lines of JSON are appended; NULL: none */
    void (*launch_step)(enum daemon_launch_step step); /* called at each step of each launch; for tests, NULL: not */
};

/* Runs until the job has ended, or a signal (SIGINT, SIGTERM). 0 or a code of *error. */
int daemon_run(const struct daemon_options *options, struct error *error);

/* Adds to `findings` what would keep `bidbrain run` with this configuration, which config_read has read, from working:
 * the state, prices, the start script, limits, credentials; `online`: what EC2 says too, by calls that change nothing.
 * What is well goes to `well`, lines for people. */
void daemon_check(const struct config *config, bool online, FILE *well, struct findings *findings);

/* Fills `store` (made if absent) with the provider's prices of the markets in the configuration, from what it holds
 * already, or the last 90 days. */
struct daemon_prices {
    uint64_t points; /* that were told */
    char age[128];   /* ", the newest of TIME", with a remark if it is older than EC2's history; "": there is none */
};
int daemon_fetch_prices(const struct config *config, const char *store, struct daemon_prices *prices,
                        struct error *error);
/* The script that starts a node, for a launch template. *text: from malloc; it holds a token, so wipe it. */
int daemon_user_data(const struct config *config, bool reliable, char **text, struct error *error);

/* Prints what the state file holds: machines that are there, what all have cost. As one JSON object if `json`. */
int daemon_status(const struct config *config, bool json, struct error *error);

/* The file beside the state in which prices are kept: STATE without ".db", and "-prices.db". From malloc. */
char *daemon_price_path(const char *state);

#endif
