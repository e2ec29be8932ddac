/* The manifest of a checkpoint: a folder ROOT/clock-N with a file for each partition (agileml/ps/checkpoint.h) and
 * manifest.json. Until all of it is there the folder has another name, ROOT/unfinished-NUMBER, so that a crash at any
 * moment leaves either no checkpoint or a whole one. In one root clocks only grow. Blocking. */
#ifndef AGILEML_CONTROL_MANIFEST_H
#define AGILEML_CONTROL_MANIFEST_H

#include "agileml/base/error.h"
#include "agileml/control/job_input.h"

struct manifest_file {
    uint64_t bytes;
    uint32_t checksum; /* CRC-32 */
};

struct manifest_metric {
    char name[WIRE_NAME_MAX];
    double value; /* NAN: not known */
};

struct manifest {
    struct job_terms job;
    struct buffer *settings; /* struct wire_option each; NULL: none */
    uint64_t clock;
    double seconds;           /* that training had lasted, in all jobs up to this clock */
    uint64_t items_processed; /* likewise */
    uint32_t partitions, shards;
    struct job_input input;      /* without shards: not known */
    struct manifest_file *files; /* by partition */
    double objective;            /* of the last iteration that was complete; NAN: not known */
    unsigned metric_count;       /* of the same iteration, for people */
    struct manifest_metric metrics[WIRE_METRICS_MAX];
};

/* Makes ROOT (but not its parents) and in it an empty folder, which is to become the checkpoint of `clock`; `path`
 * receives the folder's path. Each attempt of a job has its own number. Unfinished folders of earlier attempts are
 * removed. AML_EINPUT when ROOT holds a checkpoint of a later clock: another job's, or one that this job did not resume
 * from. */
int manifest_begin(const char *root, uint64_t clock, uint64_t number, char path[WIRE_PATH_MAX], struct error *error);
/* Writes the manifest, which stays the caller's, into `folder`. */
int manifest_write(const char *folder, const struct manifest *manifest, struct error *error);
/* Writes the manifest into `folder`, which manifest_begin made. Then renames the folder, which makes it the checkpoint
 * of the manifest's clock; `path` receives the new path. */
int manifest_finish(const char *root, const char *folder, const struct manifest *manifest, char path[WIRE_PATH_MAX],
                    struct error *error);
/* Removes all unfinished folders. A node may still be writing into one of them: the next call removes what it adds
 * meanwhile. */
int manifest_discard(const char *root, struct error *error);
/* Reads and checks it, the partitions' files' sizes too. `manifest` is to be closed on success. */
int manifest_read(const char *folder, struct manifest *manifest, struct error *error);
void manifest_close(struct manifest *manifest);
/* The folder of the newest checkpoint in ROOT that manifest_read takes, or ROOT when it is one. Damaged ones are passed
 * over with a warning. AML_EINPUT when there is none. */
int manifest_find(const char *root, char path[WIRE_PATH_MAX], struct error *error);
/* Removes all but the newest `keep` checkpoints, and folders of older ones that never became any. Files that are not a
 * checkpoint's stay. */
int manifest_prune(const char *root, unsigned keep, struct error *error);

#endif
