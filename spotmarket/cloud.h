/* The embedded cloud's state: spot requests and instances in a market of recorded prices. The caller sets the market
 * time. No I/O and no clock: a listener starts and kills the machines' processes. One thread.
 *
 * Times are whole seconds of market time since 1970, prices micro-dollars per hour. The rules are those of
 * docs/spotmarket.md: the cloud takes a spot machine when the price rises above its bid, when the schedule says so, or
 * when its drawn lifetime is over. At that time the machine gets its notice; `notice` seconds later it is killed. It is
 * paid from `launched` until it ends. */
#ifndef SPOTMARKET_CLOUD_H
#define SPOTMARKET_CLOUD_H

#include "bidbrain/market/billing.h"
#include "bidbrain/market/catalog.h"
#include "bidbrain/market/interruption.h"

enum {
    CLOUD_ID_TEXT = 48,
    CLOUD_TOKEN_TEXT = 65, /* bytes of a ClientToken with its NUL */
    /* most instances, most requests, and most attempts with a token, in the cloud's life */
    CLOUD_RECORDS_MAX = 20000,
    CLOUD_LAUNCH_MAX = 1000,     /* most machines in one call */
    CLOUD_TAGS_MAX = 50,         /* most tags of a resource */
    CLOUD_USER_DATA_MAX = 16384, /* bytes */
    CLOUD_GROUPS_MAX = 16,       /* most security groups of a machine */
    CLOUD_SHOWN_SECONDS = HOUR,  /* least market time for which ended machines and requests are still described */
    CLOUD_SHOWN_REAL_S = 120,    /* the same limit in real time, as market time may be fast */
    CLOUD_LOOK_SECONDS = 30,     /* time until an open request without capacity is evaluated again */
    CLOUD_DEFER_SECONDS = 300,   /* time until a deferred request is evaluated again */
};

struct cloud_tag {
    char *key, *value;
};

struct cloud_tags {
    struct cloud_tag *list;
    size_t count;
};

/* A machine's specification, shared by the machines of one call. */
struct launch_spec {
    size_t holders;
    const struct catalog_price *type;
    char zone[MARKET_TEXT_MAX]; /* empty: any */
    char *image, *key_name, *profile, *subnet;
    char *groups[CLOUD_GROUPS_MAX];
    size_t group_count;
    char *user_data; /* decoded, with a NUL after it; NULL: none */
    size_t user_data_size;
    bool terminate_on_shutdown;
};

struct launch_spec *launch_spec_new(const struct catalog_price *type);
struct launch_spec *launch_spec_hold(struct launch_spec *spec);
void launch_spec_drop(struct launch_spec *spec); /* NULL is allowed */

enum instance_state { /* with the numbers of EC2's codes */
                      INSTANCE_PENDING = 0,
                      INSTANCE_RUNNING = 16,
                      INSTANCE_SHUTTING_DOWN = 32,
                      INSTANCE_TERMINATED = 48,
                      INSTANCE_STOPPED = 80,
};
const char *instance_state_name(enum instance_state state);

enum take_cause { TAKE_BY_PRICE, TAKE_BY_CAPACITY };

struct instance {
    char id[CLOUD_ID_TEXT], reservation[CLOUD_ID_TEXT], token[CLOUD_TOKEN_TEXT];
    size_t number;  /* index in the cloud's list */
    size_t request; /* index of its request; MARKET_NONE: on demand */
    size_t market;  /* index in the cloud's markets; MARKET_NONE: on demand in a zone without spot prices */
    bool spot;
    int64_t bid;
    const struct catalog_price *type;
    char zone[MARKET_TEXT_MAX];
    struct launch_spec *spec; /* NULL when it is no longer described */
    struct cloud_tags tags;
    enum instance_state state;
    const char *reason_code, *reason; /* "" until its end */
    int64_t launched, ready;          /* ready: when its boot ends */
    int64_t take;                     /* when the cloud will give it notice; MARKET_NEVER: never */
    int64_t take_notice;              /* seconds from that notice to its end */
    enum take_cause cause;
    int64_t rebalance;            /* when a rebalance recommendation will come; MARKET_NEVER: never */
    int64_t noticed, recommended; /* when the notice and the recommendation came; MARKET_NEVER: not yet */
    int64_t ended;                /* after the notice, its future end; MARKET_NEVER: unknown */
    bool evicted;                 /* taken by the cloud, not terminated by its user */
};

enum request_state { REQUEST_OPEN, REQUEST_ACTIVE, REQUEST_CLOSED, REQUEST_CANCELLED, REQUEST_FAILED };
const char *request_state_name(enum request_state state);

struct spot_request {
    char id[CLOUD_ID_TEXT];
    char token[CLOUD_TOKEN_TEXT];
    size_t number;
    struct launch_spec *spec; /* NULL when it is no longer described */
    struct cloud_tags tags;
    int64_t bid;
    bool persistent;
    enum request_state state;
    const char *status, *message;
    int64_t updated, created, valid_from, valid_until; /* valid_from and valid_until: MARKET_NEVER: no limit */
    int64_t look;                                      /* when it is next evaluated, while it is open */
    int64_t ended;                                     /* MARKET_NEVER: it is open or active */
    size_t instance;                                   /* last instance that fulfilled it; MARKET_NONE: none */
    size_t market;                                     /* the market of `instance` */
};

/* The result of a call with a ClientToken, so that a retry gets the same answer. */
struct attempt {
    char *action;
    char token[CLOUD_TOKEN_TEXT];
    char *arguments;     /* all parameters as one text */
    size_t first, count; /* indexes of the instances or requests that the call made */
    char *answer;        /* the complete answer, if not NULL; then there are no indexes */
};

/* An event in which the cloud takes all machines of a market. */
struct cloud_event {
    int64_t time;
    size_t market;
    int64_t notice; /* in seconds */
};

struct cloud_listener {
    /* NULL functions are not called. `start`: a machine has booted, so that its process starts. */
    void (*start)(void *context, const struct instance *instance);
    /* A machine ends now. Also called when its process has ended by itself. */
    void (*stop)(void *context, const struct instance *instance);
    /* For a log; `event` is "launched", "running", "recommended", "noticed" or "ended". */
    void (*event)(void *context, const char *event, const struct instance *instance);
    void *context;
};

struct cloud_options {
    const struct markets *markets; /* prices of one region and product; finished */
    const struct catalog *catalog;
    const struct interruptions *interruptions; /* NULL: none */
    const char *region;
    const struct market_rules *rules;
    int64_t boot, notice, rebalance;     /* in seconds */
    int64_t shown;                       /* seconds for which ended machines and requests are described */
    int64_t capacity;                    /* most machines per type and zone; 0: no limit */
    int64_t spot_quota, on_demand_quota; /* in vCPUs; 0: no limit */
    const struct cloud_event *events;
    size_t event_count;
    uint64_t seed;
    struct cloud_listener listener;
};

struct cloud {
    struct cloud_options options;
    int64_t now;
    struct instance **instances; /* sorted by launch */
    size_t instance_count, instance_capacity;
    struct spot_request **requests;
    size_t request_count, request_capacity;
    struct attempt *attempts;
    size_t attempt_count, attempt_capacity;
    uint64_t ids;     /* number of ids drawn */
    uint64_t changes; /* number of changes that a bill shows */
};

/* `options` must outlive the cloud; nothing in it is copied. */
void cloud_open(struct cloud *cloud, const struct cloud_options *options, int64_t now);
/* Frees everything, but stops no machine: cloud_end does. */
void cloud_close(struct cloud *cloud);

/* Returns the time of the next change without a call, or MARKET_NEVER. */
int64_t cloud_next(const struct cloud *cloud);
/* Makes all changes up to and including `now`, in order. Does nothing if `now` is earlier than in the last call. */
void cloud_advance(struct cloud *cloud, int64_t now);
/* Terminates all machines, as if by their user, and cancels all requests. */
void cloud_end(struct cloud *cloud);

/* How many machines could start now, and EC2's error for further machines (NULL: no limit). */
struct cloud_room {
    size_t machines;
    const char *code, *message;
};
/* `bid` is PRICE_UNKNOWN for on demand. */
struct cloud_room cloud_room(const struct cloud *cloud, const struct catalog_price *type, const char *zone,
                             int64_t bid);
/* Chooses the zone of a machine without one: for spot the cheapest zone with room, else the first zone. NULL: the type
 * is in no zone. */
const char *cloud_zone(const struct cloud *cloud, const struct catalog_price *type, int64_t bid);
bool cloud_zone_known(const struct cloud *cloud, const char *zone);
/* Returns whether market `m` is the first of its zone in the list of markets. */
bool cloud_first_of_zone(const struct cloud *cloud, size_t m);
/* Returns the market's index, or MARKET_NONE. */
size_t cloud_market(const struct cloud *cloud, const char *type, const char *zone);

/* Launches a machine in a zone with room for it; for a spot machine also adds a fulfilled request. Copies `tags`.
 * Returns NULL at CLOUD_RECORDS_MAX. */
struct instance *cloud_launch(struct cloud *cloud, struct launch_spec *spec, const char *zone, int64_t bid,
                              bool persistent, const char *reservation, const char *token,
                              const struct cloud_tags *tags);
/* Adds an open request, which cloud_advance evaluates. Copies `tags`. Returns NULL at CLOUD_RECORDS_MAX. */
struct spot_request *cloud_request(struct cloud *cloud, struct launch_spec *spec, int64_t bid, bool persistent,
                                   int64_t valid_from, int64_t valid_until, const char *token,
                                   const struct cloud_tags *tags);
/* For CLOUD_DEFER_SECONDS the open request finds no capacity. */
void cloud_defer(struct cloud *cloud, struct spot_request *request);
/* Returns the vCPUs of spot machines and open requests, or of on-demand machines. */
int64_t cloud_vcpus(const struct cloud *cloud, bool spot);
void cloud_terminate(struct cloud *cloud, struct instance *instance);
void cloud_cancel(struct cloud *cloud, struct spot_request *request);
/* Shuts down a machine whose process has ended by itself. Does nothing if the machine has ended. */
void cloud_shut_down(struct cloud *cloud, size_t number);

bool instance_lives(const struct instance *instance); /* pending or running, so that it is paid */
/* Whether it is still described. */
bool instance_shown(const struct instance *instance);
bool request_shown(const struct spot_request *request);
/* Return NULL when it does not exist or is no longer described. */
struct instance *cloud_find_instance(const struct cloud *cloud, const char *id);
struct spot_request *cloud_find_request(const struct cloud *cloud, const char *id);
/* Draws a new id: the prefix and 17 hexadecimal digits. */
void cloud_new_id(struct cloud *cloud, const char *prefix, char id[CLOUD_ID_TEXT]);

struct attempt *cloud_attempt(const struct cloud *cloud, const char *action, const char *token);
/* Stores an attempt, and takes over its `arguments` and `answer` (from malloc). There must be fewer than
 * CLOUD_RECORDS_MAX attempts. */
void cloud_remember(struct cloud *cloud, const char *action, const struct attempt *attempt);

/* Sets or replaces a tag. Returns false at CLOUD_TAGS_MAX. */
bool cloud_tags_set(struct cloud_tags *tags, const char *key, const char *value);
const char *cloud_tags_get(const struct cloud_tags *tags, const char *key); /* NULL: none */
void cloud_tags_copy(struct cloud_tags *to, const struct cloud_tags *from);
void cloud_tags_close(struct cloud_tags *tags);

/* Returns the cost of a machine until its end; of a living machine, the cost if it ended now. */
struct bill cloud_bill(const struct cloud *cloud, const struct instance *instance, const struct market_rules *rules);

#endif
