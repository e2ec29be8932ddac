/* The daemon's configuration: bidbrain.json (docs/bidbrain.md has every key). Reads and checks it, with the key file
 * and the catalog that it names; opens no network. Each mistake is one line: FILE:LINE for broken JSON, FILE: KEY for
 * the rest. All mistakes of form (keys, kinds of values) are found at once; without any, all mistakes of meaning. One
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
    CONFIG_JOB_MAX = 40,   /* characters of the job's name: tokens of 64 begin with it */
    CONFIG_LIST_MAX = 256, /* entries of a list */
    CONFIG_PATHS_MAX = 12,
};

enum config_provider { CONFIG_EC2, CONFIG_LOCAL };

/* Texts live as long as the config. NULL: not given. */
struct config {
    const char *job;
    enum config_provider provider;
    const char *region, *endpoint;
    const char *clock_url; /* the market's clock; NULL: by the two below */
    int64_t clock_start;   /* the market's time, in seconds since 1970, when the job began; 0: real time */
    double clock_speed;    /* market seconds in a real second */
    const struct market_rules *rules;
    const char *interruptions;
    const char *product;
    const char **types, **zones; /* NULL at the end; empty: all */
    enum provider_call call;
    const char *image, *key_name, *instance_profile, *launch_template;
    const char **security_groups;
    const json_t *subnets; /* zone: id; NULL: none */
    const char *app, *binary;
    const char **arguments;
    int64_t threads;
    const char *controller;
    bool insecure;
    const char *reliable_type, *reliable_zone;
    int64_t reliable;
    double work_vcpu_hours; /* 0: not known */
    double phi, sigma_seconds, lambda_seconds;
    double checkpoint_seconds; /* between checkpoints, of the market; 0: as the job's are */
    bool measure;
    bool measure_speeds;  /* machines count by measured speeds; never without `measure` */
    int64_t probe_types;  /* bought to compare their speeds, see portfolio.h */
    double speed_seconds; /* real: of a window in which speeds are measured */
    double most_vcpus, most_dollars_per_hour, budget_dollars; /* INFINITY: no such limit */
    int64_t deadline;                                         /* seconds since 1970 by the market's clock; 0: none */
    double hour_worth;                                        /* dollars that ending an hour sooner is worth */
    int64_t most_machines, least_markets, cooldown_seconds, vcpus_min;
    double memory_min; /* GiB */
    int64_t decision_seconds, list_seconds, price_seconds, notice_seconds;
    bool on_demand_fallback;
    /* Paths, as they are to be opened: relative ones count from the folder of the configuration. */
    const char *state, *prices, *catalog, *key, *user_data, *folder;
    struct catalog known; /* instance types: those that are built in and those of `catalog`; by config_read alone */

    json_t *root;
    char *paths[CONFIG_PATHS_MAX];
    size_t path_count;
    const char **lists[CONFIG_PATHS_MAX];
    size_t list_count;
};

/* Reads findings->file, and what it names as far as above. 0, or AML_EINPUT when there are errors among the findings.
 * config_close in any case. */
int config_read(struct config *config, struct findings *findings);
/* The same for text in memory, of a file called findings->file; looks at no files. */
int config_parse(struct config *config, const char *text, size_t size, struct findings *findings);
void config_close(struct config *config);

/* Returns the id of a zone's subnet; NULL: none is given. `config` is a struct config: for provider_options. */
const char *config_subnet(const void *config, const char *zone);
/* Sets the region whose on-demand prices count: "region", or that of the zones; "": neither is given. */
void config_region(const struct config *config, char region[MARKET_TEXT_MAX]);

/* ---- config_check.c: for config.c alone ---- */

/* Checks whether the values fit each other, without opening files. */
void config_check(const struct config *config, struct findings *findings);
/* Checks the files that are named, and the instance types by the catalog, which it opens. */
void config_check_files(struct config *config, struct findings *findings);

#endif
