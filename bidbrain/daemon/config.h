/* The daemon's configuration: bidbrain.json (docs/bidbrain.md has every key). Reads and checks it, with the key file
 * and the catalog that it names; opens no network. Each mistake is one line, FILE:LINE for broken JSON, else FILE: KEY.
 * All mistakes of form (keys, kinds of values) are found at once. If there are none, all mistakes of meaning are. One
 * thread. */
#ifndef BIDBRAIN_DAEMON_CONFIG_H
#define BIDBRAIN_DAEMON_CONFIG_H

#include "bidbrain/cloud/provider.h"
#include "bidbrain/daemon/findings.h"
#include "bidbrain/market/billing.h"
#include "bidbrain/market/catalog.h"

#include <jansson.h>

enum {
    CONFIG_BYTES_MAX = 1 << 20,
    CONFIG_JOB_MAX = 40,   /* most characters of the job's name: it begins tokens of 64 */
    CONFIG_LIST_MAX = 256, /* most entries of a list */
    CONFIG_PATHS_MAX = 12,
};

enum config_provider { CONFIG_EC2, CONFIG_LOCAL };

struct config_clock {
    const char *url; /* address of the market's clock; NULL: `start` and `speed` set the clock */
    int64_t start;   /* market time of the job's start, in seconds since 1970; 0: real time */
    double speed;    /* market seconds per real second */
};

/* What may be bought besides reliable machines. */
struct config_markets {
    const char **types, **zones; /* NULL at the end; empty: all */
    const char *product;
    int64_t vcpus_min;
    double memory_min; /* least GiB of memory */
};

struct config_launch {
    enum provider_call call;
    const char *image, *key_name, *instance_profile, *launch_template;
    const char **security_groups;
    const json_t *subnets; /* object with the subnet id of each zone; NULL: none */
    const char *user_data; /* path of the template */
};

struct config_node {
    const char *app, *binary;
    const char **arguments;
    int64_t threads;
};

/* The reliable machines, on demand. */
struct config_reliable {
    const char *type, *zone;
    int64_t count;
};

struct config_application {
    double work_vcpu_hours; /* 0: unknown */
    double phi, sigma_seconds, lambda_seconds;
    double checkpoint_seconds; /* market seconds between checkpoints; 0: the job's own interval */
    bool measure;
    bool measure_speeds;  /* machines count by measured speeds; requires `measure` */
    int64_t probe_types;  /* types bought to compare their speeds; see portfolio.h */
    double speed_seconds; /* real seconds of a window in which speeds are measured */
};

struct config_limits {
    double most_vcpus, most_dollars_per_hour, budget_dollars; /* INFINITY: no limit */
    int64_t deadline;                                         /* seconds since 1970 by the market's clock; 0: none */
    double hour_worth;                                        /* dollars saved by each hour that the job ends earlier */
    int64_t most_machines, least_markets, cooldown_seconds;
};

struct config_periods {
    int64_t decision_seconds, list_seconds, price_seconds, notice_seconds;
};

/* Memory that config_close frees; texts point into it. */
struct config_memory {
    json_t *root;
    char *paths[CONFIG_PATHS_MAX];
    size_t path_count;
    const char **lists[CONFIG_PATHS_MAX];
    size_t list_count;
};

/* Texts live as long as the config. NULL: not given. Relative paths of the file count from its folder; here they can be
 * opened as they are. */
struct config {
    const char *job;
    enum config_provider provider;
    const char *region, *endpoint;
    const struct market_rules *rules;
    const char *interruptions;
    const char *controller;
    bool insecure;
    bool on_demand_fallback;
    const char *state, *prices, *catalog, *key, *folder; /* paths of files and folders */
    struct config_clock clock;
    struct config_markets markets;
    struct config_launch launch;
    struct config_node node;
    struct config_reliable reliable;
    struct config_application application;
    struct config_limits limits;
    struct config_periods periods;
    struct catalog known; /* built-in instance types and those of `catalog`; only by config_read */
    struct config_memory memory;
};

/* Reads findings->file, and the key and the catalog that it names. Returns 0, or AML_EINPUT when the findings have
 * errors. Call config_close also after errors. */
int config_read(struct config *config, struct findings *findings);
/* Like config_read, for text in memory of a file called findings->file. Opens no files. */
int config_parse(struct config *config, const char *text, size_t size, struct findings *findings);
void config_close(struct config *config);

/* Returns the id of a zone's subnet; NULL: none is given. `config` is a struct config; the type suits
 * provider_options. */
const char *config_subnet(const void *config, const char *zone);
/* Sets `region` to the region whose on-demand prices count: "region", or the zones' region; "": neither is given. */
void config_region(const struct config *config, char region[MARKET_TEXT_MAX]);

/* ---- config_check.c: for config.c alone ---- */

/* Checks whether the values fit each other, without opening files. */
void config_check(const struct config *config, struct findings *findings);
/* Checks the named files. Opens the catalog and checks the instance types. */
void config_check_files(struct config *config, struct findings *findings);

#endif
