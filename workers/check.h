/* Checks how an app uses the library (docs/api.md, "Checks"). A misuse ends the job: the error line names the call, the
 * exit status is 2. Two kinds of checks:
 *
 * - Always: arguments of the public functions, and in which of the app's functions they are called (enum check_calls).
 * - With PROTEUS_CHECK=1 in the environment (`on`): what the app does to rows in place. A copy of the cache's rows is
 *   made before each call of the app and compared with them after it, every thread marks the rows that it changes in an
 *   array of its own, and start values are made twice. That takes time and memory.
 *
 * Knows nothing of messages; runtime.c and app.c call it at the right moments. */
#ifndef AGILEML_WORKERS_CHECK_H
#define AGILEML_WORKERS_CHECK_H

#include "agileml.h"
#include "agileml/base/error.h"
#include "agileml/ps/table.h"
#include "workers/cache.h"

#include <pthread.h>
#include <stdbool.h>

enum { CHECK_ROW_GUARD = 16 }; /* bytes behind each row, with `on`: no app may write there */

/* The app's function that a worker's handle was passed to, which decides what the handle may be used for. Bits, as most
 * functions of the library may be called in several. */
enum check_calls {
    CALL_NONE = 1, /* in no function; no function of the library may be called then */
    CALL_CONFIGURE = 2,
    CALL_READ = 4,
    CALL_BEGIN = 8,
    CALL_CLOCK = 16,
    CALL_EVALUATE = 32,
    CALL_FINISH = 64,
    CALL_PART = 128,    /* with one of the others: within aml_parallel */
    CALL_RATINGS = 256, /* with CALL_READ: within aml_read_ratings, which passes other workers */
    CALLS_WORKING = CALL_BEGIN | CALL_CLOCK | CALL_EVALUATE | CALL_FINISH,
    CALLS_ALL = CALL_CONFIGURE | CALL_READ | CALLS_WORKING
};

struct runtime;

/* A table's rows as a worker was given them (struct aml_rows). */
struct aml_row_checks {
    struct aml_worker *worker;
    unsigned table;
};

/* The part of struct aml_worker that is about its use. */
struct check_worker {
    unsigned calls;  /* enum check_calls: one function, perhaps with CALL_PART or CALL_RATINGS */
    pthread_t owner; /* the thread of that call */
    struct aml_row_checks rows[WIRE_TABLES_MAX];
};

/* A table's rows before a call of the app. By slot. */
struct check_table {
    uint32_t count, capacity;
    unsigned char *rows; /* as before the call; with changes_given: plus the changes that were given; stride apart */
    uint32_t *stamps; /* cache_stamps before the call: a row whose stamp differs now has come from a server meanwhile */
    unsigned char *usable;  /* 1: an item of the present set names the row, or the app has read or updated it by key */
    unsigned char **marks;  /* [thread]: 1: changed in place by this thread in this round */
    unsigned char **copies; /* [thread]: 1: changed by this thread in this round by aml_update_param */
    unsigned char *copied;  /* 1: changed by aml_update_param in this call */
};

/* Start values are made twice, into memory with a guard behind it. */
struct check_start {
    struct runtime *runtime;
    const struct table_spec *spec;
    table_start *start; /* the app's, with its context */
    void *context;
};

struct check {
    bool on;
    unsigned threads;
    uint64_t call; /* number of the call of the app: aml_table_rows gives rows for one */
    struct check_table tables[WIRE_TABLES_MAX];
    struct check_start starts[WIRE_TABLES_MAX];
    pthread_mutex_t lock; /* guards what several threads change: `rows` of tables with changes_given, start_error */
    struct error
        start_error;       /* of start values, which are made in whatever thread, with the runtime's lock and without */
    bool misused, stopped; /* end the job at once; a thread waits for the process's end. Under the runtime's lock */
};

/* Whether PROTEUS_CHECK is 1. AML_EINPUT when it is neither 1, 0 nor empty. */
int check_open(struct check *check, struct error *error);
/* No thread uses it any more. */
void check_close(struct check *check);
/* With `on`: makes the job's tables such that rows and start values can be checked. Before the job runs. */
void check_tables(struct runtime *runtime);

/* ---- Calls of the app's functions ---- */

/* This thread is about to call the app's function with the worker; it has returned from it. */
void check_enter(struct aml_worker *worker, enum check_calls calls);
void check_leave(struct aml_worker *worker);
/* Sets the error when one of the app's functions has returned what it may not: a positive number. Returns the result,
 * or AML_EINPUT. */
int check_returned(struct aml_worker *worker, int result, const char *function);

/* ---- Functions of the library ---- */

/* Ends the job with the misuse's line, which begins with the name of the function. Returns AML_EINPUT. */
__attribute__((format(printf, 2, 3), cold)) int check_misuse(struct runtime *runtime, const char *format, ...);
/* The same where nothing can be returned that the app could go on with: the thread waits for the process's end. */
__attribute__((format(printf, 2, 3), cold)) _Noreturn void check_stop(struct runtime *runtime, const char *format, ...);
/* Reports the misuse of a function that may only be called in `calls`, and not with this worker now. Returns false. */
__attribute__((cold)) bool check_refuse(const struct aml_worker *worker, unsigned calls, const char *function);
/* Whether this thread may use the worker; else sets the error. */
bool check_thread(const struct aml_worker *worker, const char *function);

/* ---- Rows, with `on` ---- */

/* Before a call of the app: no thread is in one. */
void check_before(struct runtime *runtime);
/* All threads are through with a round of a clock, in which no two may change the same rows. */
void check_round(struct runtime *runtime);
/* After a call: only rows that may have changed have. */
void check_after(struct runtime *runtime, enum check_calls call);
/* What aml_table_rows gives. */
struct aml_rows check_rows(struct aml_worker *worker, unsigned table, struct aml_rows rows);
/* Before aml_update_params changes rows. */
void check_update(struct aml_worker *worker, unsigned table, const uint64_t *keys, size_t count);
/* Before changes are given. 0 or AML_EINPUT. */
int check_give(struct aml_worker *worker, unsigned table, uint32_t slot, uint32_t count, const uint32_t *columns,
               const void *changes);
/* A start value was wrong: *error is set. */
bool check_start_failed(struct check *check, struct error *error);

#endif
