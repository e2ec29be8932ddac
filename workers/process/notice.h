/* Learns from EC2's instance metadata service that the cloud will take this machine away. Polls spot/instance-action
 * and the rebalance recommendation, on the node's own loop. Only reports; runtime.c decides what to do. One thread. */
#ifndef AGILEML_WORKERS_NOTICE_H
#define AGILEML_WORKERS_NOTICE_H

#include "agileml/net/metadata.h"
#include "agileml/net/zmq.h"

#include <stdbool.h>

enum {
    NOTICE_POLL_S_DEFAULT = 5, /* as EC2 recommends */
    NOTICE_POLL_MS_MIN = 10,
    NOTICE_SLOW_MS = 60 * 1000, /* between polls of a service that is switched off, or has long been silent */
    NOTICE_TRIES = 12,          /* unanswered polls before a warning; after that polls become rarer */
    NOTICE_STAY_S = 60,         /* how much longer notice_stay waits than the notice says, as clocks differ */
    NOTICE_STAY_ASK_MS = 5000,  /* how long notice_stay asks a service that does not answer */
    NOTICE_STAY_PAUSE_MS = 100, /* between its requests */
    NOTICE_TEXT_MAX = 200
};

struct notice_hooks {
    /* The machine will be taken away in `left_ms`; `text` is a line for people. Called for the first notice, and for a
     * later one that leaves less time. */
    void (*leave)(void *context, uint32_t left_ms, const char *text);
    /* The machine is more likely than others to be taken away. Called once. */
    void (*rebalance)(void *context, const char *text);
    /* Warns people, for example that the service does not answer. Called at most once for each warning. */
    void (*warn)(void *context, const char *text);
    void *context;
};

struct notice;

/* Whether to poll if the user has not decided: AWS_EC2_METADATA_SERVICE_ENDPOINT is set, or the firmware names EC2; and
 * AWS_EC2_METADATA_DISABLED is not true. Reads files of the folder `sys` (NULL: /sys) and sends no request. */
bool notice_is_likely(const char *sys);

/* Starts to poll every `poll_ms`. `io` must outlive it. Returns 0, AML_EINPUT (the environment names a bad endpoint) or
 * AML_EFAIL. */
int notice_open(struct notice **notice, struct net_io *io, uint32_t poll_ms, const struct notice_hooks *hooks,
                struct error *error);
void notice_close(struct notice *notice); /* NULL is allowed */

/* Waits, in a node that has left its job, for the cloud to take this machine away, if the cloud has given notice; then
 * a signal ends the process. The last hour of a machine that the cloud takes away may be free. A machine that shuts
 * itself down before is paid for. Returns if there is no notice. */
void notice_stay(void);

#endif
