/* Checks an app's use of the library (docs/api.md, "Checks"). A misuse ends the job with exit status 2 and an error
 * line that names the call. There are two kinds of checks:
 *
 * - Always: of the public functions' arguments, and of the app's functions in which they are called (enum check_calls).
 * - With PROTEUS_CHECK=1 in the environment (`on`): of changes of rows in place. The cache's rows are copied before
 *   each call of the app and compared after it. Each thread marks the rows that it changes in an array of its own.
 *   Start values are made twice. All this takes time and memory.
 *
 * Sends no messages. The runtime_*.c files and app.c call these functions at the right moments. */
#ifndef AGILEML_WORKERS_CHECK_H
#define AGILEML_WORKERS_CHECK_H

#include "agileml.h"
#include "agileml/base/error.h"
#include "agileml/ps/table.h"
#include "workers/client/cache.h"

#include <pthread.h>
#include <stdbool.h>

enum { CHECK_ROW_GUARD = 16 }; /* bytes behind each row, with `on`: no app may write there */

/* The app's function that a worker's handle was passed to; it decides which functions of the library may be called with
 * the handle. The values are bits, since most functions may be called in several of the app's. */
enum check_calls {
    CALL_NONE = 1, /* in none: no function of the library may be called */
    CALL_CONFIGURE = 2,
    CALL_READ = 4,
    CALL_BEGIN = 8,
    CALL_CLOCK = 16,
    CALL_EVALUATE = 32,
    CALL_FINISH = 64,
    CALL_PART = 128,      /* in a part of aml_parallel; set together with another bit */
    CALL_RATINGS = 256,   /* in aml_read_ratings, which passes workers of its own; set together with CALL_READ */
    CALL_TRANSFORM = 512, /* in a transform without AML_TRANSFORM_STATE */
    CALL_TRANSFORM_STATE = 1024,
    CALLS_WORKING = CALL_BEGIN | CALL_CLOCK | CALL_EVALUATE | CALL_FINISH,
    CALLS_ALL = CALL_CONFIGURE | CALL_READ | CALLS_WORKING
};

struct runtime;

/* The table and worker of a struct aml_rows. */
struct aml_row_checks {
    struct aml_worker *worker;
    unsigned table;
};

/* The part of struct aml_worker that the checks use. */
struct check_worker {
    unsigned calls;  /* enum check_calls: one function, perhaps with CALL_PART or CALL_RATINGS */
    pthread_t owner; /* the thread of that call */
    struct aml_row_checks rows[WIRE_TABLES_MAX];
};

/* A table's rows before and during a call of the app. All arrays are by slot. */
struct check_table {
    uint32_t count, capacity;
    unsigned char *rows;   /* before the call, `stride` bytes apart; in tables with changes_given plus the changes given
                            since */
    uint32_t *stamps;      /* cache_stamps before the call. If a row's stamp differs now, the row has come from a server
                         meanwhile */
    unsigned char *usable; /* 1: the app may use the row, as an item of the present set names it or the app has used it
                               by key */
    unsigned char **marks; /* [thread]: 1: this thread has changed the row in place in this round */
    unsigned char **copies; /* [thread]: 1: this thread has changed the row by aml_update_param in this round */
    unsigned char *copied;  /* 1: aml_update_param has changed the row in this call */
};

/* The app's start function of a table. It is called twice, each time into memory with a guard behind the row. */
struct check_start {
    struct runtime *runtime;
    const struct table_spec *spec;
    table_start *start; /* the app's function */
    void *context;      /* its argument */
};

struct check {
    bool on;
    unsigned threads;
    uint64_t call; /* number of the app's present call; what aml_table_rows returns is valid during one call */
    struct check_table tables[WIRE_TABLES_MAX];
    struct check_start starts[WIRE_TABLES_MAX];
    pthread_mutex_t lock;     /* guards what several threads change: `rows` of tables with changes_given, start_error */
    struct error start_error; /* of start values. Any thread makes these, with or without the runtime's lock */
    bool misused, stopped;    /* the job must end at once; a thread waits in check_stop. Under the runtime's lock */
};

/* Sets `on` if PROTEUS_CHECK is 1. AML_EINPUT when it is neither 1, 0 nor empty. */
int check_open(struct check *check, struct error *error);
/* Frees the checks. No thread may use them any more. */
void check_close(struct check *check);
/* With `on`, adds what checking needs to the job's tables: guards behind rows, and start functions. Call it before the
 * job runs. */
void check_tables(struct runtime *runtime);

/* ---- Calls of the app's functions ---- */

/* Call check_enter before this thread calls one of the app's functions with the worker. Call check_returned or
 * check_function after it. check_returned reports a positive result as a misuse. Both return the function's result, or
 * AML_EINPUT for a misuse. check_function also fails the process for a negative result, with the app's own text if it
 * called aml_error. */
void check_enter(struct aml_worker *worker, enum check_calls calls);
int check_returned(struct aml_worker *worker, int result, const char *function);
int check_function(struct aml_worker *worker, int result, const char *function);

/* ---- Functions of the library ---- */

/* Ends the job with a line about the misuse, which begins with the name of the function. Returns AML_EINPUT. */
__attribute__((format(printf, 2, 3), cold)) int check_misuse(struct runtime *runtime, const char *format, ...);
/* check_misuse for a function that can't return an error: the thread waits for the process's end. */
__attribute__((format(printf, 2, 3), cold)) _Noreturn void check_stop(struct runtime *runtime, const char *format, ...);
/* Reports that a function was called with this worker where only `calls` allow it. Returns false. */
__attribute__((cold)) bool check_refuse(const struct aml_worker *worker, unsigned calls, const char *function);
/* Whether this thread may use the worker; else sets the error. */
bool check_thread(const struct aml_worker *worker, const char *function);

/* ---- Rows, with `on` ---- */

/* Copies the rows, before a call of the app. No thread may be in a call. */
void check_before(struct runtime *runtime);
/* Checks, after a round of a clock, that no two threads have changed the same row. All threads must be through. */
void check_round(struct runtime *runtime);
/* Checks, after a call, that no rows have changed but those that may. */
void check_after(struct runtime *runtime, enum check_calls call);
/* Adds the checks to the result of aml_table_rows. */
struct aml_rows check_rows(struct aml_worker *worker, unsigned table, struct aml_rows rows);
/* Marks rows, before aml_update_params changes them. AML_EINPUT when one was declared done in this clock. */
int check_update(struct aml_worker *worker, unsigned table, const uint64_t *keys, size_t count);
/* Checks changes before aml_give_changes takes them, and adds them to the expected rows. 0 or AML_EINPUT. */
int check_give(struct aml_worker *worker, unsigned table, uint32_t slot, uint32_t count, const uint32_t *columns,
               const void *changes);
/* Whether a start value was wrong. If so, sets *error. */
bool check_start_failed(struct check *check, struct error *error);

#endif
