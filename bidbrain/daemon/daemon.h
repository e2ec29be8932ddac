/* The daemon of `bidbrain run`. Reads prices from a provider and has the policy decide. Writes each step into the
 * ledger before it takes the step, launches and terminates machines, and reports leaving nodes to the job's controller.
 * One thread, one loop (docs/bidbrain.md). */
#ifndef BIDBRAIN_DAEMON_DAEMON_H
#define BIDBRAIN_DAEMON_DAEMON_H

#include "bidbrain/daemon/config.h"
#include "web/server.h"

#include <stdio.h>

/* Steps of a launch at which tests may crash the daemon. */
enum daemon_launch_step {
    DAEMON_LAUNCH_STORED,        /* planned and stored, not sent */
    DAEMON_LAUNCH_ANSWERED,      /* the provider's answer is not stored yet */
    DAEMON_LAUNCH_ANSWER_STORED, /* the answer is stored, but was not acted on yet */
};

struct daemon_options {
    const struct config *config;
    bool dry_run;            /* makes one decision, prints it and ends */
    bool keep;               /* a signal leaves the machines running */
    bool quiet;              /* prints nothing to standard output */
    bool no_bill;            /* prints no bill: the caller that runs the market prints its own */
    struct web_options http; /* options of the page; listen NULL: no page */
    const char *report;      /* a file to which lines of JSON are appended; NULL: none */
    void (*launch_step)(enum daemon_launch_step step); /* called at each step of each launch, for tests; NULL: none */
};

/* Runs until the job has ended, or until a signal (SIGINT, SIGTERM). Returns 0 or the code of *error. */
int daemon_run(const struct daemon_options *options, struct error *error);

/* Adds to `findings` the reasons why `bidbrain run` would not work with this configuration, which config_read has read.
 * Checks the state, prices, the start script, limits and credentials; if `online`, also asks EC2 by calls that change
 * nothing. Writes lines for people about what is right to `well`. */
void daemon_check(const struct config *config, bool online, FILE *well, struct findings *findings);

/* Fills `store` (created if absent) with the provider's prices of the configured markets. Starts at the newest stored
 * price, or 90 days ago. */
struct daemon_prices {
    uint64_t points; /* reported points */
    char age[128];   /* ", the newest of TIME", with a remark if it is older than EC2's history; "": no price */
};
int daemon_fetch_prices(const struct config *config, const char *store, struct daemon_prices *prices,
                        struct error *error);
/* Makes the script that starts a node, for a launch template. *text is from malloc; it holds a token, so wipe it. */
int daemon_user_data(const struct config *config, bool reliable, char **text, struct error *error);

/* Prints the content of the state file: present machines, and the cost of all machines. `json`: as one JSON object. */
int daemon_status(const struct config *config, bool json, struct error *error);

/* Returns the path of the file beside the state that holds prices: STATE without ".db", then "-prices.db". From
 * malloc. */
char *daemon_price_path(const char *state);

#endif
