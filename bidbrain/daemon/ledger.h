/* The daemon's state, in an SQLite file: launches (stored before they are sent), machines, markets that are closed for
 * a while, and single values. Each put is a transaction that is on disk when it returns. A kill at any moment thus
 * loses nothing that was acted on. One process at a time may write a state file; others may read it. Only stores rows:
 * the daemon knows their meaning. One thread. */
#ifndef BIDBRAIN_DAEMON_LEDGER_H
#define BIDBRAIN_DAEMON_LEDGER_H

#include "bidbrain/cloud/provider.h"

struct ledger;

/* A launch's state. The numbers are stored, so they must not change. */
enum ledger_stage {
    LEDGER_PLANNED = 0, /* stored; perhaps sent */
    LEDGER_SENT = 1,    /* passed to the provider, no answer yet */
    LEDGER_WAITING = 2, /* accepted, no machine yet */
    LEDGER_FILLED = 3,
    LEDGER_REFUSED = 4,
    LEDGER_CLOSED = 5, /* over without a machine: withdrawn, or never answered */
};

struct ledger_launch {
    struct provider_launch launch;
    enum ledger_stage stage;
    bool fallback;             /* on demand, in place of spot machines that are too dear */
    int64_t planned, answered; /* market time; 0: not yet */
    unsigned machines;         /* number of machines that the launch got */
    char code[PROVIDER_CODE_TEXT];
    char text[PROVIDER_LINE_TEXT];
};

enum ledger_end { LEDGER_RUNS = 0, LEDGER_RELEASED = 1, LEDGER_EVICTED = 2, LEDGER_VANISHED = 3 };

struct ledger_machine {
    struct provider_machine machine; /* its last report */
    bool reliable, fallback;
    int64_t bid;        /* bid of its launch */
    int64_t running;    /* market time when it was first seen running; 0: not yet */
    int64_t release_at; /* market time by which it is given back; 0: it is kept */
    int64_t ended;      /* market time; 0: it has not ended */
    enum ledger_end how;
};

/* A market in which nothing is bought for a while. */
struct ledger_market {
    char type[MARKET_TEXT_MAX], zone[MARKET_TEXT_MAX];
    enum provider_kind kind;
    int64_t closed_until; /* market time */
    unsigned failures;    /* successive failures */
};

enum ledger_mode {
    LEDGER_WRITE, /* creates the file if absent; AML_EINPUT when another process has it open */
    LEDGER_READ,  /* AML_EINPUT if absent */
    LEDGER_COPY,  /* reads the file, if there is one; changes stay in memory */
};

/* Opens the state of `job`. AML_EINPUT with one line: the file is another job's, in use, damaged, or not a state
 * file. */
int ledger_open(struct ledger **ledger, const char *path, const char *job, enum ledger_mode mode, struct error *error);
void ledger_close(struct ledger *ledger); /* NULL is allowed */

/* Adds the row, or replaces the row with the same key (token; id; kind, type and zone; name). */
int ledger_put_launch(struct ledger *ledger, const struct ledger_launch *launch, struct error *error);
int ledger_put_machine(struct ledger *ledger, const struct ledger_machine *machine, struct error *error);
int ledger_put_market(struct ledger *ledger, const struct ledger_market *market, struct error *error);
int ledger_put_value(struct ledger *ledger, const char *name, double value, struct error *error);

/* Visits all rows in the order in which they were added. */
int ledger_launches(struct ledger *ledger, void (*visit)(void *context, const struct ledger_launch *launch),
                    void *context, struct error *error);
int ledger_machines(struct ledger *ledger, void (*visit)(void *context, const struct ledger_machine *machine),
                    void *context, struct error *error);
int ledger_markets(struct ledger *ledger, void (*visit)(void *context, const struct ledger_market *market),
                   void *context, struct error *error);
/* Like ledger_put_value and ledger_value, for a text. ledger_text sets "" if there is no such value, and cuts a text
 * that does not fit. */
int ledger_put_text(struct ledger *ledger, const char *name, const char *text, struct error *error);
int ledger_text(struct ledger *ledger, const char *name, char *text, size_t size, struct error *error);
/* Leaves *value unchanged if there is no value called `name`. */
int ledger_value(struct ledger *ledger, const char *name, double *value, struct error *error);

#endif
