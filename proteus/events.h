/* The file of --events: what shall happen to the cluster, and when. Parses the whole grammar and checks it against the
 * cluster; carries nothing out.
 *
 *     iteration N ACTION      when iteration N has ended
 *     seconds X ACTION        X seconds after training began
 *
 *     kill TARGET             SIGKILL                     TARGET: controller
 *     pause TARGET            SIGSTOP                             node-1 node-2 ...
 *     resume TARGET           SIGCONT                             reliable|transient N|all
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
    uint64_t iteration; /* when ... */
    double seconds;     /* ... one of these */
    enum event_action action;
    enum event_target { EVENT_CONTROLLER, EVENT_TIER, EVENT_NODES } target;
    enum node_tier tier;
    unsigned count;  /* nodes of the tier; 0: all */
    unsigned *nodes; /* K of node-K */
    size_t node_count;
    double notice; /* seconds */
    bool done;     /* for the one who carries it out */
};

struct events {
    const char *path;
    struct event *list; /* in the file's order */
    size_t count;
};

/* 0; AML_EINPUT with "PATH:LINE: what is wrong, what was expected"; AML_ELIMIT. `path` is kept. */
int events_read(struct events *events, const char *path, struct error *error);
void events_close(struct events *events);

/* Reads one line of the file, which is changed. *present: there is an event on it, not just a comment. 0 or AML_EINPUT;
 * `event` is to be closed in any case. */
int event_parse(char *line, struct event *event, bool *present, struct error *error);
void event_close(struct event *event);

/* What the events happen to: node-1 on, the reliable ones first; those that join are numbered on. */
struct events_cluster {
    unsigned reliable, transient;
    bool elastic; /* nodes may come and go */
    bool market;  /* by what is bought and taken, and not by events */
};

/* Whether these events can happen to the cluster. 0, AML_EINPUT or AML_ELIMIT. */
int events_check(const struct events *events, const struct events_cluster *cluster, struct error *error);

/* How many nodes join in all. */
unsigned events_joining(const struct events *events);

#endif
