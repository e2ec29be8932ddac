/* The market of `proteus run --market`. Combines its options and recorded prices, writes the files for spotmarket and
 * bidbrain, and reads the bill at the end. Starts nothing (launcher_market.c does). */
#ifndef PROTEUS_MARKETPLACE_H
#define PROTEUS_MARKETPLACE_H

#include "agileml/wire/report_line.h"
#include "bidbrain/market/billing.h"
#include "bidbrain/market/catalog.h"
#include "proteus/app.h"
#include "proteus/job_options.h"

enum {
    MARKETPLACE_TRANSIENT = 8,    /* default limit of machines */
    MARKETPLACE_VCPUS_EACH = 8,   /* limit of the average per machine */
    MARKETPLACE_HISTORY_DAYS = 7, /* limit of the price history before the start, from which bidbrain learns */
    MARKETPLACE_SPEED_MAX = 600,  /* limit of `speed`, set by the longest notice */
    MARKETPLACE_TYPES_MAX = 200,
    MARKETPLACE_SUMMARY_TEXT = 1024,
    MARKETPLACE_APART_TEXT = 600,
};

struct marketplace_options {
    const char *prices;        /* file or folder; NULL: no market */
    const char *start;         /* start time; NULL: chosen */
    const char *model;         /* "ec2-2016" or "ec2" */
    const char *types;         /* comma-separated; NULL: all types in the catalog that are fit for work */
    const char *interruptions; /* model ec2 only: interruptions, in the form of `bidbrain simulate`; NULL: none */
    const char *folder;        /* is created and stays; NULL: a temporary folder */
    double speed;              /* market seconds per real second */
};
#define MARKETPLACE_DEFAULTS ((struct marketplace_options){.model = "ec2-2016", .speed = 120})

struct marketplace {
    struct marketplace_options options;
    char prices[PATH_MAX]; /* absolute path */
    const struct market_rules *rules;
    struct catalog catalog;
    char region[MARKET_TEXT_MAX];
    char reliable_type[MARKET_TEXT_MAX], reliable_zone[MARKET_TEXT_MAX];
    int64_t start;
    int64_t notice; /* seconds of market time */
    char types[MARKETPLACE_TYPES_MAX][MARKET_TEXT_MAX];
    size_t type_count;
};

/* Reads the prices, and chooses the region and the start. The region is that with most of the markets. The start is the
 * middle of the prices, or a week after their beginning if that is earlier. Returns 0, AML_EINPUT or AML_ELIMIT. Call
 * marketplace_close also after an error. */
int marketplace_open(struct marketplace *place, const struct marketplace_options *options, struct error *error);
void marketplace_close(struct marketplace *place);

/* What bidbrain must know about the job. */
struct marketplace_job {
    const struct app *app;
    const struct job_options *job; /* `joining` is the limit of machines at once */
    const char *host;
    int64_t threads;
    const char *controller; /* endpoint, tcp://... */
    const char *cloud;      /* spotmarket's address, http://... */
};

/* Each writes into `folder` one file that only our user may read. Returns 0 or AML_EFAIL. */
/* "node.sh", the script of a machine, from a template of bidbrain */
int marketplace_write_script(const char *folder, const struct marketplace_job *job, struct error *error);
/* "bidbrain.json" */
int marketplace_write_config(const struct marketplace *place, const char *folder, const struct marketplace_job *job,
                             struct error *error);
/* Writes any text. */
int marketplace_write(const char *folder, const char *name, const char *text, size_t size, struct error *error);

/* Returns the report's line of type market (docs/proteus.md), made from the JSON of GET /bill. NULL and AML_EPROTOCOL
 * if that is malformed. */
json_t *marketplace_bill(const struct marketplace *place, const char *bill, size_t size, struct error *error);
/* Compares the bill with that of bidbrain's ledger, which is in bidbrain's report. Adds to the line `ledger_dollars`,
 * and `ledger_machines_apart`, the number of machines whose amounts differ at all. Returns false with one line for
 * people when a machine, or the total, differs by more than a cent, or when bidbrain wrote no bill. */
bool marketplace_compare(json_t *line, const char *bill, size_t size, const char *report,
                         char text[MARKETPLACE_APART_TEXT]);
/* Describes a line of type market for people, in several lines like those of the job's summary. */
void marketplace_bill_text(const struct report_line *line, char text[MARKETPLACE_SUMMARY_TEXT]);

#endif
