/* The manifest of a checkpoint. A checkpoint is a folder ROOT/clock-N with a file for each partition
 * (agileml/ps/checkpoint.h) and manifest.json. Until all files are written the folder's name is ROOT/unfinished-NUMBER.
 * So a crash at any moment leaves either no checkpoint or a complete one. Each new checkpoint in a root has a later
 * clock. All functions block.
 *
 * With a ROOT of s3://BUCKET/PREFIX the files are objects, which can't be renamed. Then the folder is
 * ROOT/clock-N-TOKEN from the beginning, with a random TOKEN. It becomes a checkpoint when its manifest is written,
 * which is written last. */
#ifndef AGILEML_CONTROL_MANIFEST_H
#define AGILEML_CONTROL_MANIFEST_H

#include "agileml/base/error.h"
#include "agileml/control/state/job_input.h"

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
    double seconds;           /* training time in all jobs up to this clock */
    uint64_t items_processed; /* in all jobs up to this clock */
    uint32_t partitions, shards;
    struct job_input input;      /* its `shards` are NULL when the input is not known */
    struct manifest_file *files; /* by partition */
    double objective;            /* of the last complete iteration; NAN: not known */
    unsigned metric_count;       /* metrics of the same iteration, only for people */
    struct manifest_metric metrics[WIRE_METRICS_MAX];
};

/* Makes ROOT (but not its parents) and in ROOT an empty folder, which is to become the checkpoint of `clock`. `path`
 * receives the folder's path. Each attempt of a job has its own number. Removes unfinished folders of earlier attempts.
 * Returns AML_EINPUT when ROOT has a checkpoint of a later clock: of another job, or one that this job did not
 * resume. */
int manifest_begin(const char *root, uint64_t clock, uint64_t number, char path[WIRE_PATH_MAX], struct error *error);
/* If the root has objects, gives the folder of manifest_begin the name of the checkpoint's clock. Called before files
 * are written into the folder. */
int manifest_place(const char *root, uint64_t clock, char path[WIRE_PATH_MAX], struct error *error);
/* Returns the text of a manifest, which the caller frees; NULL when a name is not UTF-8. */
char *manifest_text(const struct manifest *manifest, size_t *size, struct error *error);
/* Writes a manifest's text into `folder`, which manifest_begin made. Then renames the folder, so that it becomes the
 * checkpoint of `clock`. `path` receives the new path. Any thread may call it. */
int manifest_finish(const char *root, const char *folder, uint64_t clock, const char *text, size_t size,
                    char path[WIRE_PATH_MAX], struct error *error);
/* Removes all unfinished folders, and aborts unfinished uploads. If a node adds files to such a folder meanwhile, the
 * next call removes them. */
int manifest_discard(const char *root, struct error *error);
/* Reads and checks the manifest in `folder`, and the sizes of the partitions' files. On success the caller has to close
 * `manifest`. */
int manifest_read(const char *folder, struct manifest *manifest, struct error *error);
void manifest_close(struct manifest *manifest);
/* Finds the newest checkpoint in ROOT that manifest_read accepts; `path` receives its folder, or ROOT if ROOT itself is
 * a checkpoint. Warns of damaged checkpoints and skips them. Returns AML_EINPUT when there is no checkpoint. */
int manifest_find(const char *root, char path[WIRE_PATH_MAX], struct error *error);
/* Removes all but the newest `keep` checkpoints, and older folders that never became checkpoints. Keeps files that are
 * not a checkpoint's. */
int manifest_prune(const char *root, unsigned keep, struct error *error);

#endif
