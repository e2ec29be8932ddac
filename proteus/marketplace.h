/* The market of `proteus run --market`: what its options and its recorded prices come to, the files that spotmarket and
 * bidbrain are given, and what the bill says at the end. Starts nothing (launcher_market.c does). */
#ifndef PROTEUS_MARKETPLACE_H
#define PROTEUS_MARKETPLACE_H

#include "bidbrain/market/billing.h"
#include "bidbrain/market/catalog.h"
#include "proteus/app.h"
#include "proteus/job_options.h"

#include <jansson.h>

enum {
    MARKETPLACE_TRANSIENT = 8,    /* machines at most, unless told */
    MARKETPLACE_VCPUS_EACH = 8,   /* on average, at most */
    MARKETPLACE_HISTORY_DAYS = 7, /* of prices before the start, at most: what bidbrain learns from */
    MARKETPLACE_SPEED_MAX = 600,  /* the longest notice allows no more */
    MARKETPLACE_TYPES_MAX = 200,
    MARKETPLACE_SUMMARY_TEXT = 1024,
    MARKETPLACE_APART_TEXT = 600,
};

struct marketplace_options {
    const char *prices; /* file or folder; NULL: there is no market */
    const char *start;  /* a time; NULL: chosen */
    const char *model;  /* "ec2-2016" or "ec2" */
    const char *types;  /* comma-separated; NULL: all that the catalog knows and that are fit for work */
    const char
        *interruptions; /* with model ec2: who is interrupted when, as `bidbrain simulate` takes it; NULL: nobody */
    const char *folder; /* made, and stays; NULL: a temporary one */
    double speed;       /* market time by real time */
};
#define MARKETPLACE_DEFAULTS ((struct marketplace_options){.model = "ec2-2016", .speed = 120})

struct marketplace {
    struct marketplace_options options;
    char prices[PATH_MAX]; /* absolute */
    const struct market_rules *rules;
    struct catalog catalog;
    char region[MARKET_TEXT_MAX];
    char reliable_type[MARKET_TEXT_MAX], reliable_zone[MARKET_TEXT_MAX];
    int64_t start;
    int64_t notice; /* seconds of market time */
    char types[MARKETPLACE_TYPES_MAX][MARKET_TEXT_MAX];
    size_t type_count;
};

/* Reads the prices and finds out where and when to begin: in the region with most of the markets, in the middle of the
 * prices, or a week after their beginning if that is earlier. 0, AML_EINPUT or AML_ELIMIT. marketplace_close in any
 * case. */
int marketplace_open(struct marketplace *place, const struct marketplace_options *options, struct error *error);
void marketplace_close(struct marketplace *place);

/* What bidbrain must know of the job. */
struct marketplace_job {
    const struct app *app;
    const struct job_options *job; /* its `joining` machines are the most there may be at once */
    const char *host;
    int64_t threads;
    const char *controller; /* tcp://... */
    const char *cloud;      /* http://..., where spotmarket serves */
};

/* Each writes one file that only we may read into `folder`. 0 or AML_EFAIL. */
/* "node.sh": what a machine runs, a template of bidbrain's. */
int marketplace_write_script(const char *folder, const struct marketplace_job *job, struct error *error);
/* "bidbrain.json" */
int marketplace_write_config(const struct marketplace *place, const char *folder, const struct marketplace_job *job,
                             struct error *error);
/* Any text. */
int marketplace_write(const char *folder, const char *name, const char *text, size_t size, struct error *error);

/* The report's line of type market (docs/proteus.md), from the JSON that GET /bill answers. NULL and AML_EPROTOCOL when
 * it is none. */
json_t *marketplace_bill(const struct marketplace *place, const char *bill, size_t size, struct error *error);
/* Adds to it what bidbrain's ledger, by the bill in its report, says of the same machines: `ledger_dollars`, and
 * `ledger_machines_apart`, those that the two do not agree about to the last unit. False, with one line for people,
 * when a machine or all together are apart by more than a cent, or when there is no such bill. */
bool marketplace_compare(json_t *line, const char *bill, size_t size, const char *report,
                         char text[MARKETPLACE_APART_TEXT]);
/* The same for people, several lines like those of the job's summary. */
void marketplace_bill_text(const json_t *line, char text[MARKETPLACE_SUMMARY_TEXT]);

#endif
