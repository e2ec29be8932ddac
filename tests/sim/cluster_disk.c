/* Checkpoints of simulated servers: real files, in a folder of this machine. A write is complete some time after it was
 * requested; until then the rows must not change. A write may fail. See cluster_private.h. */
#include "tests/sim/cluster_private.h"

#include "agileml/ps/checkpoint.h"

#include <ftw.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE_MAX_US = 200 * 1000, WRITE_FAILS_ONE_IN = 100 };

struct cluster_write {
    struct cluster_write *next;
    struct cluster_server *server;
    struct partition *partition;
    uint64_t epoch;
    bool copy;
    struct message_checkpoint checkpoint;
};

static void write_free(struct cluster *cluster, struct cluster_write *write) {
    struct cluster_write **at = &cluster->writes;
    while (*at != write) {
        at = &(*at)->next;
    }
    *at = write->next;
    if (write->copy) {
        partition_close(write->partition);
    }
    free(write);
}

static void write_done(void *context) {
    struct cluster_write *write = context;
    struct cluster_server *server = write->server;
    struct cluster *cluster = server->node->cluster;
    uint64_t clock = write->checkpoint.clock;
    struct message_written written = {
        .number = write->checkpoint.number, .partition = write->partition->id, .clock = clock};
    if (!server->node->fate.gone) {
        if (cluster_state_stands(cluster, write->epoch)) {
            cluster_check_partition(cluster, write->partition, clock, "checkpoint");
        }
        if (cluster_one_in(cluster, WRITE_FAILS_ONE_IN)) {
            cluster->run.disk_failed = true;
            written.state = WRITTEN_FAILED;
            snprintf(written.text, sizeof written.text, "the simulated disk is full");
        } else {
            checkpoint_write(write->partition, clock, write->checkpoint.path, &written);
        }
        write_free(cluster, write);
        server_written(&server->server, &written);
        cluster_check_server(server);
    } else {
        write_free(cluster, write);
    }
}

static void hook_write(void *context, struct partition *partition, const struct message_checkpoint *checkpoint,
                       bool copy) {
    struct cluster_server *server = context;
    struct cluster *cluster = server->node->cluster;
    struct cluster_write *write = memory_zeroed(1, sizeof *write);
    *write = (struct cluster_write){.next = cluster->writes,
                                    .server = server,
                                    .partition = partition,
                                    .epoch = server->server.epoch,
                                    .copy = copy,
                                    .checkpoint = *checkpoint};
    cluster->writes = write;
    sim_schedule(cluster->sim, server->node->machine, sim_now(cluster->sim) + cluster_between(cluster, 0, WRITE_MAX_US),
                 write_done, write);
}

static int hook_read(void *context, struct partition *partition, const char *path, uint64_t clock,
                     struct error *error) {
    (void)context;
    return checkpoint_read(partition, path, clock, error);
}

struct server_hooks cluster_disk_hooks(struct cluster_server *server) {
    return (struct server_hooks){.write = hook_write, .read = hook_read, .context = server};
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *ftw) {
    (void)status;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void cluster_disk_cancel(struct cluster *cluster) {
    while (cluster->writes != NULL) {
        write_free(cluster, cluster->writes);
    }
}

/* The same seed must give the same messages. So the folder's path is the same in every run: below the current folder of
 * the process, which main has made. */
void cluster_disk_open(struct cluster *cluster) {
    snprintf(cluster->run.disk, sizeof cluster->run.disk, "/proc/self/cwd/seed_%020llu",
             (unsigned long long)cluster->options.seed);
    if (mkdir(cluster->run.disk, 0700) != 0) {
        cluster_violation(cluster, "app", "can't make the folder %s", cluster->run.disk);
    }
}

void cluster_disk_close(struct cluster *cluster) {
    if (cluster->run.disk[0] != '\0') {
        nftw(cluster->run.disk, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    }
}
