/* The embedded cloud's state: spot requests and instances in a market of recorded prices. The caller sets the market
 * time. No I/O and no clock: a listener starts and kills the machines' processes. One thread.
 *
 * Times are whole seconds of market time since 1970, prices micro-dollars per hour. The rules are those of
 * docs/spotmarket.md: the cloud takes a spot machine when the price rises above its bid, when the schedule says so, or
 * when its drawn lifetime is over. The machine gets its notice then, and is killed `notice` seconds later. It is paid
 * from `launched` until it ends. */
#ifndef SPOTMARKET_CLOUD_H
#define SPOTMARKET_CLOUD_H

#include "bidbrain/market/billing.h"
#include "bidbrain/market/catalog.h"
#include "bidbrain/market/interruption.h"

enum {
    CLOUD_ID_TEXT = 48,
    CLOUD_TOKEN_TEXT = 65,       /* a ClientToken with its 0 */
    CLOUD_RECORDS_MAX = 20000,   /* of instances, of requests and of attempts with a token, in the cloud's life */
    CLOUD_LAUNCH_MAX = 1000,     /* machines asked for at once */
    CLOUD_TAGS_MAX = 50,         /* of one thing */
    CLOUD_USER_DATA_MAX = 16384, /* bytes */
    CLOUD_GROUPS_MAX = 16,       /* security groups */
    CLOUD_SHOWN_SECONDS = HOUR,  /* what has ended is still described for so long, at least */
    CLOUD_SHOWN_REAL_S = 120,    /* likewise, in real seconds: a caller needs them, however fast market time is */
    CLOUD_LOOK_SECONDS = 30,     /* until an open request without capacity is evaluated again */
    CLOUD_DEFER_SECONDS = 300,   /* until a deferred request is evaluated again */
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
    char *user_data; /* decoded, with a 0 behind; NULL: none */
    size_t user_data_size;
    bool terminate_on_shutdown;
};

struct launch_spec *launch_spec_new(const struct catalog_price *type);
struct launch_spec *launch_spec_hold(struct launch_spec *spec);
void launch_spec_drop(struct launch_spec *spec); /* NULL is allowed */

enum instance_state { /* EC2's codes */
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
    struct launch_spec *spec; /* NULL once it is no longer described */
    struct cloud_tags tags;
    enum instance_state state;
    const char *reason_code, *reason; /* "" until it ends */
    int64_t launched, ready;          /* ready: the end of its boot */
    int64_t take;                     /* when the cloud gives it notice; MARKET_NEVER */
    int64_t take_notice;              /* seconds from the notice to its end */
    enum take_cause cause;
    int64_t rebalance;            /* when a rebalance recommendation will come; MARKET_NEVER */
    int64_t noticed, recommended; /* times of the notice and the recommendation; MARKET_NEVER: none yet */
    int64_t ended;                /* its end; after the notice, its future end; MARKET_NEVER */
    bool evicted;                 /* the cloud took it, not its user */
};

enum request_state { REQUEST_OPEN, REQUEST_ACTIVE, REQUEST_CLOSED, REQUEST_CANCELLED, REQUEST_FAILED };
const char *request_state_name(enum request_state state);

struct spot_request {
    char id[CLOUD_ID_TEXT];
    char token[CLOUD_TOKEN_TEXT];
    size_t number;
    struct launch_spec *spec; /* NULL once it is no longer described */
    struct cloud_tags tags;
    int64_t bid;
    bool persistent;
    enum request_state state;
    const char *status, *message;
    int64_t updated, created, valid_from, valid_until; /* MARKET_NEVER: no such limit */
    int64_t look;                                      /* when it is evaluated next, while it is open */
    int64_t ended;                                     /* MARKET_NEVER while it is open or active */
    size_t instance;                                   /* the last instance that fulfilled it; MARKET_NONE */
    size_t market;                                     /* the market of `instance` */
};

/* What a call with a ClientToken did, so that a repeat gets the same answer. */
struct attempt {
    char *action;
    char token[CLOUD_TOKEN_TEXT];
    char *arguments;     /* all parameters, as one text */
    size_t first, count; /* indexes of the instances or requests that it made */
    char *answer;        /* the whole answer instead; NULL */
};

/* The cloud takes all machines that a market has at `time`. */
struct cloud_event {
    int64_t time;
    size_t market;
    int64_t notice; /* seconds */
};

struct cloud_listener {
    /* A NULL function is not called. `start`: a machine has booted, so its process starts. */
    void (*start)(void *context, const struct instance *instance);
    /* A machine ends now, also when its process has ended by itself. */
    void (*stop)(void *context, const struct instance *instance);
    /* For a log: "launched", "running", "recommended", "noticed", "ended". */
    void (*event)(void *context, const char *event, const struct instance *instance);
    void *context;
};

struct cloud_options {
    const struct markets *markets; /* of one region and product, finished */
    const struct catalog *catalog;
    const struct interruptions *interruptions; /* NULL: none */
    const char *region;
    const struct market_rules *rules;
    int64_t boot, notice, rebalance;     /* seconds */
    int64_t shown;                       /* seconds for which ended machines and requests are described */
    int64_t capacity;                    /* machines per type and zone; 0: no limit */
    int64_t spot_quota, on_demand_quota; /* vCPUs; 0: no limit */
    const struct cloud_event *events;
    size_t event_count;
    uint64_t seed;
    struct cloud_listener listener;
};

struct cloud {
    struct cloud_options options;
    int64_t now;
    struct instance **instances; /* in the order of launches */
    size_t instance_count, instance_capacity;
    struct spot_request **requests;
    size_t request_count, request_capacity;
    struct attempt *attempts;
    size_t attempt_count, attempt_capacity;
    uint64_t ids;     /* drawn so far */
    uint64_t changes; /* grows with every change that a bill shows */
};

/* `options` must outlive the cloud: nothing that it points to is copied. */
void cloud_open(struct cloud *cloud, const struct cloud_options *options, int64_t now);
/* Frees everything. Stops no machine: cloud_end does. */
void cloud_close(struct cloud *cloud);

/* Returns the time of the next change that no call causes, or MARKET_NEVER. */
int64_t cloud_next(const struct cloud *cloud);
/* Makes all changes up to and including `now`, in order. An earlier time than the last one has no effect. */
void cloud_advance(struct cloud *cloud, int64_t now);
/* Terminates all machines as by their user, and cancels all requests. */
void cloud_end(struct cloud *cloud);

/* The number of machines that could start now, and EC2's error for the machines beyond (NULL: no limit). */
struct cloud_room {
    size_t machines;
    const char *code, *message;
};
/* `bid` PRICE_UNKNOWN: on demand. */
struct cloud_room cloud_room(const struct cloud *cloud, const struct catalog_price *type, const char *zone,
                             int64_t bid);
/* Chooses the zone of a machine that names none: for spot the cheapest zone with room, else the first. NULL: no zone
 * has the type. */
const char *cloud_zone(const struct cloud *cloud, const struct catalog_price *type, int64_t bid);
bool cloud_zone_known(const struct cloud *cloud, const char *zone);
/* Returns whether market `m` is the first of its zone in the list of markets. */
bool cloud_first_of_zone(const struct cloud *cloud, size_t m);
/* Returns the index of the market, or MARKET_NONE. */
size_t cloud_market(const struct cloud *cloud, const char *type, const char *zone);

/* Launches a machine in a zone with room for it; a spot machine with a request that is fulfilled. Copies `tags`.
 * Returns NULL at CLOUD_RECORDS_MAX. */
struct instance *cloud_launch(struct cloud *cloud, struct launch_spec *spec, const char *zone, int64_t bid,
                              bool persistent, const char *reservation, const char *token,
                              const struct cloud_tags *tags);
/* Adds an open request, which cloud_advance evaluates. Copies `tags`. Returns NULL at CLOUD_RECORDS_MAX. */
struct spot_request *cloud_request(struct cloud *cloud, struct launch_spec *spec, int64_t bid, bool persistent,
                                   int64_t valid_from, int64_t valid_until, const char *token,
                                   const struct cloud_tags *tags);
/* Has an open request find no capacity for CLOUD_DEFER_SECONDS. */
void cloud_defer(struct cloud *cloud, struct spot_request *request);
/* Returns the vCPUs of spot machines and open requests, or of machines on demand. */
int64_t cloud_vcpus(const struct cloud *cloud, bool spot);
void cloud_terminate(struct cloud *cloud, struct instance *instance);
void cloud_cancel(struct cloud *cloud, struct spot_request *request);
/* Shuts a machine down whose process has ended by itself. No effect on a machine that has ended. */
void cloud_shut_down(struct cloud *cloud, size_t number);

bool instance_lives(const struct instance *instance); /* pending or running, so it is paid */
/* Return whether it is still described. */
bool instance_shown(const struct instance *instance);
bool request_shown(const struct spot_request *request);
/* Return NULL when there is none, or when it is no longer described. */
struct instance *cloud_find_instance(const struct cloud *cloud, const char *id);
struct spot_request *cloud_find_request(const struct cloud *cloud, const char *id);
/* Draws a new id: the prefix and 17 hexadecimal digits. */
void cloud_new_id(struct cloud *cloud, const char *prefix, char id[CLOUD_ID_TEXT]);

struct attempt *cloud_attempt(const struct cloud *cloud, const char *action, const char *token);
/* Keeps an attempt, and takes over its `arguments` and `answer` (from malloc). Fewer than CLOUD_RECORDS_MAX attempts
 * are kept before. */
void cloud_remember(struct cloud *cloud, const char *action, const struct attempt *attempt);

/* Sets or replaces a tag. Returns false at CLOUD_TAGS_MAX. */
bool cloud_tags_set(struct cloud_tags *tags, const char *key, const char *value);
const char *cloud_tags_get(const struct cloud_tags *tags, const char *key); /* NULL: none */
void cloud_tags_copy(struct cloud_tags *to, const struct cloud_tags *from);
void cloud_tags_close(struct cloud_tags *tags);

/* Returns what a machine has cost until its end; of a living machine, what it would cost if it ended now. */
struct bill cloud_bill(const struct cloud *cloud, const struct instance *instance, const struct market_rules *rules);

#endif
