/* Hears from the cloud that this machine is to be taken away, by the instance metadata service (EC2): polls
 * spot/instance-action and the rebalance recommendation, on the node's own loop. Decides nothing: what is to be done
 * is its user's (runtime.c). One thread. */
#ifndef AGILEML_WORKERS_NOTICE_H
#define AGILEML_WORKERS_NOTICE_H

#include "agileml/net/metadata.h"
#include "agileml/net/zmq.h"

#include <stdbool.h>

enum {
    NOTICE_POLL_S_DEFAULT = 5, /* what EC2 asks for */
    NOTICE_POLL_MS_MIN = 10,
    NOTICE_SLOW_MS = 60 * 1000, /* between polls of a service that is switched off, or has long been silent */
    NOTICE_TRIES = 12,          /* polls without an answer before that is said, and polls become rarer */
    NOTICE_STAY_S = 60,         /* beyond the time that a notice tells: clocks differ */
    NOTICE_STAY_ASK_MS = 5000,  /* so long it is asked for, if there is no answer ... */
    NOTICE_STAY_PAUSE_MS = 100, /* ... again and again */
    NOTICE_TEXT_MAX = 200
};

struct notice_hooks {
    /* The machine goes in `left_ms`; `text` is a line for people. Called for the first notice, and for one with less
     * time. */
    void (*leave)(void *context, uint32_t left_ms, const char *text);
    /* It may go earlier than others. Once. */
    void (*rebalance)(void *context, const char *text);
    /* Something that people should know, such as that the service does not answer. At most once each. */
    void (*warn)(void *context, const char *text);
    void *context;
};

struct notice;

/* Whether to poll when nobody has said so: AWS_EC2_METADATA_SERVICE_ENDPOINT is set, or the firmware says that this
 * is a machine of EC2; and AWS_EC2_METADATA_DISABLED is not true. Reads some files of /sys, asks nobody. `sys`: that
 * folder, for tests; NULL: /sys. */
bool notice_is_likely(const char *sys);

/* Polls every `poll_ms` from now on. `io` must outlive it. 0, AML_EINPUT (an endpoint in the environment that is
 * none) or AML_EFAIL. */
int notice_open(struct notice **notice, struct net_io *io, uint32_t poll_ms, const struct notice_hooks *hooks,
                struct error *error);
void notice_close(struct notice *notice); /* NULL is allowed */

/* For a node that has left its job: if the cloud is about to take this machine, waits until it does, and does not
 * return (a signal ends the process). One that shuts itself down before that is paid for, one that is taken may not
 * be. */
void notice_stay(void);

#endif
