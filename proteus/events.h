/* The file of --events: planned events of the cluster. Parses the grammar and checks the events against the cluster.
 * Does not carry them out.
 *
 *     iteration N ACTION      after the end of iteration N
 *     seconds X ACTION        X seconds after training began
 *
 *     kill TARGET             SIGKILL                     TARGET: controller
 *     pause TARGET            SIGSTOP                             node-1 node-2 ...
 *     resume TARGET           SIGCONT                             reliable|transient|feeder N|all
 *     join TIER N | evict TIER N|all [notice SECONDSs] | evict NODE... [notice SECONDSs] | start controller
 *
 * '#' begins a comment. */
#ifndef PROTEUS_EVENTS_H
#define PROTEUS_EVENTS_H

#include "agileml/base/error.h"
#include "agileml/wire/message.h"

enum {
    EVENTS_MAX = 10000,
    EVENTS_LINE_MAX = 4096,      /* bytes */
    EVENTS_WORDS_MAX = 512,      /* of a line */
    EVENTS_NOTICE_DEFAULT = 120, /* seconds: what the large clouds give */
};

enum event_action { EVENT_KILL, EVENT_PAUSE, EVENT_RESUME, EVENT_JOIN, EVENT_EVICT, EVENT_START };

struct event {
    unsigned line; /* of the file, from 1 */
    char *text;    /* the line, without its comment */
    bool by_seconds;
    uint64_t iteration; /* when it is due, unless `by_seconds` */
    double seconds;     /* when it is due, if `by_seconds` */
    enum event_action action;
    enum event_target { EVENT_CONTROLLER, EVENT_TIER, EVENT_NODES } target;
    enum node_tier tier;
    unsigned count;  /* nodes of the tier; 0: all */
    unsigned *nodes; /* K of node-K */
    size_t node_count;
    double notice; /* seconds */
    bool done;     /* set by the launcher, which carries it out */
};

struct events {
    const char *path;
    struct event *list; /* in the file's order */
    size_t count;
};

/* Returns 0; AML_EINPUT with "PATH:LINE: what is wrong, what was expected"; AML_ELIMIT. `path` must outlive
 * `events`. */
int events_read(struct events *events, const char *path, struct error *error);
void events_close(struct events *events);

/* Parses a line of the file, and changes it. *present: the line has an event, not just a comment. Returns 0 or
 * AML_EINPUT. The caller closes `event` in any case. */
int event_parse(char *line, struct event *event, bool *present, struct error *error);
void event_close(struct event *event);

/* The cluster of the events. node-1, node-2, ...: reliable nodes first, then transient ones, then feeders, then those
 * that join. */
struct events_cluster {
    unsigned reliable, transient, feeders;
    bool elastic; /* nodes other than feeders may come and go */
    bool market;  /* nodes come and go by a market, not by events */
};

/* Checks that these events are possible in the cluster. Returns 0, AML_EINPUT or AML_ELIMIT. */
int events_check(const struct events *events, const struct events_cluster *cluster, struct error *error);

/* Returns how many nodes other than feeders join in all events. */
unsigned events_joining(const struct events *events);

#endif
