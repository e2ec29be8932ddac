/* The file of --events: planned events of the cluster. Parses the file and checks the events against the cluster; does
 * not carry them out.
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
    EVENTS_WORDS_MAX = 512,      /* words of a line */
    EVENTS_NOTICE_DEFAULT = 120, /* in seconds: the notice of the large clouds */
};

enum event_action { EVENT_KILL, EVENT_PAUSE, EVENT_RESUME, EVENT_JOIN, EVENT_EVICT, EVENT_START };

struct event {
    unsigned line; /* line of the file, from 1 */
    char *text;    /* the line, without its comment */
    bool by_seconds;
    uint64_t iteration; /* when it is due, unless `by_seconds` */
    double seconds;     /* when it is due, if `by_seconds` */
    enum event_action action;
    enum event_target { EVENT_CONTROLLER, EVENT_TIER, EVENT_NODES } target;
    enum node_tier tier;
    unsigned count;  /* nodes of the tier; 0: all */
    unsigned *nodes; /* numbers K of node-K */
    size_t node_count;
    double notice; /* seconds */
    bool done;     /* set by the launcher after it carried out the event */
};

struct events {
    const char *path;
    struct event *list; /* in the file's order */
    size_t count;
};

/* Returns 0, AML_ELIMIT, or AML_EINPUT with "PATH:LINE: what is wrong, what was expected". `path` must outlive
 * `events`. */
int events_read(struct events *events, const char *path, struct error *error);
void events_close(struct events *events);

/* Parses a line of the file, which it changes. *present: the line has an event, not just a comment. Returns 0 or
 * AML_EINPUT. The caller closes `event` even then. */
int event_parse(char *line, struct event *event, bool *present, struct error *error);
void event_close(struct event *event);

/* The cluster of the events. The names node-1, node-2, ... go to reliable nodes first, then to transient nodes, to
 * feeders, and to nodes that join. */
struct events_cluster {
    unsigned reliable, transient, feeders;
    bool elastic; /* nodes other than feeders may join and leave */
    bool market;  /* nodes join and leave by a market, not by events */
};

/* Checks that these events are possible in the cluster. Returns 0, AML_EINPUT or AML_ELIMIT. */
int events_check(const struct events *events, const struct events_cluster *cluster, struct error *error);

/* Returns the number of nodes other than feeders that join in all events. */
unsigned events_joining(const struct events *events);
/* Returns whether the controller is started by an event not yet done. */
bool events_start_controller(const struct events *events);
/* Calls `visit` with each event not yet done, such as "FILE:LINE: iteration 9 kill node-2". */
void events_visit_missed(const struct events *events, void (*visit)(void *context, const char *event), void *context);

#endif
