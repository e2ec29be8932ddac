/* The embedded cloud's state: spot requests and instances in a market that recorded prices drive, under a market time
 * that the caller gives. No I/O, no clock: what is to happen in the world (start a machine's process, kill it) is told
 * to a listener, at once. One thread.
 *
 * Times are whole seconds of market time since 1970, prices micro-dollars per hour. Rules of docs/spotmarket.md: a
 * spot machine is taken when the price rises above its bid, when the schedule says so, or when its drawn lifetime is
 * over; it is noticed then and killed `notice` seconds later. It is paid from `launched` on until the moment it ended.
 */
#ifndef SPOTMARKET_CLOUD_H
#define SPOTMARKET_CLOUD_H

#include "bidbrain/market/billing.h"
#include "bidbrain/market/catalog.h"
#include "bidbrain/market/interruption.h"

enum {
    CLOUD_ID_TEXT = 48,
    CLOUD_TOKEN_TEXT = 65,       /* a ClientToken with its 0 */
    CLOUD_RECORDS_MAX = 20000,   /* instances, requests, and attempts with a token, each, in the cloud's life */
    CLOUD_LAUNCH_MAX = 1000,     /* machines asked for at once */
    CLOUD_TAGS_MAX = 50,         /* of one thing */
    CLOUD_USER_DATA_MAX = 16384, /* bytes */
    CLOUD_GROUPS_MAX = 16,       /* security groups */
    CLOUD_SHOWN_SECONDS = HOUR,  /* what has ended is described for so long at least */
    CLOUD_SHOWN_REAL_S = 120,    /* and for so many real seconds: requests take these, however fast market time is */
    CLOUD_LOOK_SECONDS = 30,     /* an open request without capacity looks again */
    CLOUD_DEFER_SECONDS = 300,
};

struct cloud_tag {
    char *key, *value;
};

struct cloud_tags {
    struct cloud_tag *list;
    size_t count;
};

/* What a machine is made of; shared by those of one call. */
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
    size_t number;  /* its place in the cloud's list */
    size_t request; /* its request's place; MARKET_NONE: on demand */
    size_t market;  /* its place in the cloud's markets; MARKET_NONE: on demand in a zone without spot prices */
    bool spot;
    int64_t bid;
    const struct catalog_price *type;
    char zone[MARKET_TEXT_MAX];
    struct launch_spec *spec; /* NULL once it is no longer described */
    struct cloud_tags tags;
    enum instance_state state;
    const char *reason_code, *reason; /* "" until it ends */
    int64_t launched, ready;          /* ready: when it is booted */
    int64_t take;                     /* when it will be taken; MARKET_NEVER */
    int64_t take_notice;              /* seconds between that and its end */
    enum take_cause cause;
    int64_t rebalance;            /* when a rebalance recommendation comes; MARKET_NEVER: none is to come */
    int64_t noticed, recommended; /* since when; MARKET_NEVER: not */
    int64_t ended;                /* or will be, once noticed; MARKET_NEVER */
    bool evicted;                 /* the cloud took it */
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
    int64_t look;                                      /* when an open one is looked at next */
    int64_t ended;                                     /* MARKET_NEVER while it is open or active */
    size_t instance;                                   /* the last one it got; MARKET_NONE */
    size_t market;                                     /* of that */
};

/* What a call with a ClientToken did, to answer a repeat alike. */
struct attempt {
    char *action;
    char token[CLOUD_TOKEN_TEXT];
    char *arguments;     /* all of them, as one text */
    size_t first, count; /* places of instances or requests */
    char *answer;        /* a whole answer instead; NULL */
};

/* Machines of a market are taken at `time` - all that run then. */
struct cloud_event {
    int64_t time;
    size_t market;
    int64_t notice; /* seconds */
};

struct cloud_listener {
    /* A machine has booted: its process starts. NULL functions are not called. */
    void (*start)(void *context, const struct instance *instance);
    /* A machine is to be gone now. Called for each that was started, and for those that ended by themselves too. */
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
    int64_t shown;                       /* seconds that what has ended is described for */
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
    struct instance **instances; /* in the order of their launch */
    size_t instance_count, instance_capacity;
    struct spot_request **requests;
    size_t request_count, request_capacity;
    struct attempt *attempts;
    size_t attempt_count, attempt_capacity;
    uint64_t ids;     /* drawn so far */
    uint64_t changes; /* grows with every change that a bill shows */
};

/* Nothing in `options` is copied: it must live as long. */
void cloud_open(struct cloud *cloud, const struct cloud_options *options, int64_t now);
/* Frees everything; stops nothing: cloud_end does. */
void cloud_close(struct cloud *cloud);

/* When something will happen by itself; MARKET_NEVER. */
int64_t cloud_next(const struct cloud *cloud);
/* Lets everything happen up to and including `now`, in order. A time before the last one does nothing. */
void cloud_advance(struct cloud *cloud, int64_t now);
/* Terminates all machines as by their user, and cancels all requests. */
void cloud_end(struct cloud *cloud);

/* How many machines of that type could start in that zone now, and EC2's error for those that could not (NULL: there
 * is no limit). `bid` PRICE_UNKNOWN: on demand. */
struct cloud_room {
    size_t machines;
    const char *code, *message;
};
struct cloud_room cloud_room(const struct cloud *cloud, const struct catalog_price *type, const char *zone,
                             int64_t bid);
/* The zone for a machine that names none: for spot the cheapest with room, else the first that has it. NULL: no zone
 * has that type. */
const char *cloud_zone(const struct cloud *cloud, const struct catalog_price *type, int64_t bid);
bool cloud_zone_known(const struct cloud *cloud, const char *zone);
/* The place of the market; MARKET_NONE. */
size_t cloud_market(const struct cloud *cloud, const char *type, const char *zone);

/* Launches one machine at once, in a zone with room for it. A spot one gets a request, which is fulfilled. `tags` are
 * copied. NULL: CLOUD_RECORDS_MAX. */
struct instance *cloud_launch(struct cloud *cloud, struct launch_spec *spec, const char *zone, int64_t bid,
                              bool persistent, const char *reservation, const char *token,
                              const struct cloud_tags *tags);
/* Takes a request in: open, and looked at when time goes on. NULL: CLOUD_RECORDS_MAX. */
struct spot_request *cloud_request(struct cloud *cloud, struct launch_spec *spec, int64_t bid, bool persistent,
                                   int64_t valid_from, int64_t valid_until, const char *token,
                                   const struct cloud_tags *tags);
/* An open request finds no capacity for CLOUD_DEFER_SECONDS. */
void cloud_defer(struct cloud *cloud, struct spot_request *request);
/* vCPUs of spot machines and open requests, or of machines on demand. */
int64_t cloud_vcpus(const struct cloud *cloud, bool spot);
void cloud_terminate(struct cloud *cloud, struct instance *instance);
void cloud_cancel(struct cloud *cloud, struct spot_request *request);
/* The machine's process has ended by itself: it shuts down. Nothing when it is over already. */
void cloud_shut_down(struct cloud *cloud, size_t number);

bool instance_lives(const struct instance *instance); /* pending or running: it is paid */
/* Whether it is still described. */
bool instance_shown(const struct instance *instance);
bool request_shown(const struct spot_request *request);
/* NULL: there is none, or it is described no more. */
struct instance *cloud_find_instance(const struct cloud *cloud, const char *id);
struct spot_request *cloud_find_request(const struct cloud *cloud, const char *id);
/* A new id: the prefix and 17 hexadecimal digits. */
void cloud_new_id(struct cloud *cloud, const char *prefix, char id[CLOUD_ID_TEXT]);

struct attempt *cloud_attempt(const struct cloud *cloud, const char *action, const char *token);
/* Remembers one; texts are copied. False: CLOUD_RECORDS_MAX. */
bool cloud_remember(struct cloud *cloud, const char *action, const struct attempt *attempt);

/* Sets or replaces a tag. False: CLOUD_TAGS_MAX. */
bool cloud_tags_set(struct cloud_tags *tags, const char *key, const char *value);
const char *cloud_tags_get(const struct cloud_tags *tags, const char *key); /* NULL: none */
void cloud_tags_copy(struct cloud_tags *to, const struct cloud_tags *from);
void cloud_tags_close(struct cloud_tags *tags);

/* What a machine costs until it ended, or if it were given back now, by either model. */
struct bill cloud_bill(const struct cloud *cloud, const struct instance *instance, const struct market_rules *rules);

#endif
