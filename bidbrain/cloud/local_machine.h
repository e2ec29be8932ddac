/* A machine of provider local: a folder and a process in it. The folder is the truth, so that machines are found again
 * after bidbrain was killed at any moment: `machine` (what it is, JSON) stands before the process starts, `pid` is
 * written by the process itself before it runs the user data, `ended` once it is over. One thread. */
#ifndef BIDBRAIN_CLOUD_LOCAL_MACHINE_H
#define BIDBRAIN_CLOUD_LOCAL_MACHINE_H

#include "bidbrain/cloud/provider.h"

#include <limits.h>
#include <sys/types.h>

enum { LOCAL_NOTICE_S = 120 /* market time, between the notice and the end */ };

struct local_machine {
    struct provider_machine told; /* as the listener is told */
    unsigned looks;               /* milliseconds for which its process has been waited for */
    int64_t bid;
    int64_t evicted_at; /* the price passes the bid: MARKET_NEVER */
    char folder[PATH_MAX];
    pid_t pid;           /* 0: not known yet */
    uint64_t start_time; /* of the process, clock ticks since boot: tells it from another with its number */
};

/* The id of the machine number `index` of a launch: the same each time. */
void local_machine_id(const char *token, unsigned index, char id[PROVIDER_ID_TEXT]);
/* Makes FOLDER/ID and starts `user_data` there, unless it was started before. AML_EFAIL. */
int local_machine_start(struct local_machine *machine, const char *folder, const char *user_data, double notice_s,
                        struct error *error);
/* Reads FOLDER/ID; false when there is no whole machine. */
bool local_machine_read(struct local_machine *machine, const char *folder, const char *id);
/* Whether its process is there. */
bool local_machine_alive(struct local_machine *machine);
/* To all its processes. */
void local_machine_signal(const struct local_machine *machine, int number);
/* Kills what is left of it and writes `ended`. */
void local_machine_end(struct local_machine *machine, int64_t time);

#endif
