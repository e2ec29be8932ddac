/* The manifest of a checkpoint. A checkpoint is a folder ROOT/clock-N with a file for each partition
 * (agileml/ps/checkpoint.h) and manifest.json. Until all of these are written the folder's name is
 * ROOT/unfinished-NUMBER, so a crash at any moment leaves either no checkpoint or a complete one. Each new checkpoint
 * in a root has a later clock. All functions block.
 *
 * With a ROOT of s3://BUCKET/PREFIX these are objects, which can't be renamed: their folder is ROOT/clock-N-TOKEN from
 * the beginning, TOKEN being random. It is a checkpoint once its manifest is there, which is written last. */
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
    double seconds;           /* training time in all jobs up to this clock */
    uint64_t items_processed; /* in all jobs up to this clock */
    uint32_t partitions, shards;
    struct job_input input;      /* its `shards` are NULL when the input is not known */
    struct manifest_file *files; /* by partition */
    double objective;            /* of the last iteration that was complete; NAN: not known */
    unsigned metric_count;       /* metrics of the same iteration; people read them, no program does */
    struct manifest_metric metrics[WIRE_METRICS_MAX];
};

/* Makes ROOT (but not its parents) and in ROOT an empty folder, which is to become the checkpoint of `clock`; `path`
 * receives the folder's path. Each attempt of a job has its own number. Removes unfinished folders of earlier attempts.
 * Returns AML_EINPUT when ROOT has a checkpoint of a later clock: another job's, or one that was not resumed. */
int manifest_begin(const char *root, uint64_t clock, uint64_t number, char path[WIRE_PATH_MAX], struct error *error);
/* Gives the folder of manifest_begin the name of the checkpoint's clock, if the root is one of objects. Called before
 * files are written into it. */
int manifest_place(const char *root, uint64_t clock, char path[WIRE_PATH_MAX], struct error *error);
/* Writes the manifest, which remains the caller's, into `folder`. */
int manifest_write(const char *folder, const struct manifest *manifest, struct error *error);
/* Writes the manifest into `folder`, which manifest_begin made. Then renames the folder, which makes it the checkpoint
 * of the manifest's clock; `path` receives the new path. */
int manifest_finish(const char *root, const char *folder, const struct manifest *manifest, char path[WIRE_PATH_MAX],
                    struct error *error);
/* The text of a manifest, for the caller to free; NULL when a name is not UTF-8. */
char *manifest_text(const struct manifest *manifest, size_t *size, struct error *error);
/* manifest_finish of a text, for another thread than that which owns the manifest. */
int manifest_finish_text(const char *root, const char *folder, uint64_t clock, const char *text, size_t size,
                         char path[WIRE_PATH_MAX], struct error *error);
/* Removes all unfinished folders, and aborts unfinished uploads. The next call removes files that a node may be adding
 * to one meanwhile. */
int manifest_discard(const char *root, struct error *error);
/* Reads and checks the manifest in `folder`, and the sizes of the partitions' files. On success the caller has to close
 * `manifest`. */
int manifest_read(const char *folder, struct manifest *manifest, struct error *error);
void manifest_close(struct manifest *manifest);
/* Finds the newest checkpoint in ROOT that manifest_read accepts; `path` receives its folder, or ROOT if ROOT itself is
 * a checkpoint. Warns of damaged checkpoints and skips them. Returns AML_EINPUT when there is no checkpoint. */
int manifest_find(const char *root, char path[WIRE_PATH_MAX], struct error *error);
/* Removes all but the newest `keep` checkpoints, and older folders that never became checkpoints. Does not remove files
 * that are not a checkpoint's. */
int manifest_prune(const char *root, unsigned keep, struct error *error);

#endif
