/* Packed graphs: a folder of part files, each with some of the intervals, which the processes of a job divide among
 * themselves. Each part names the graph that it belongs to, so a missing, foreign or changed part is found. A folder
 * may be s3://BUCKET/KEY. */
#ifndef APPS_GNN_PACK_H
#define APPS_GNN_PACK_H

#include "agileml/base/new_file.h"
#include "apps/gnn/interval.h"

enum {
    PACK_PART_BYTES = 1 << 26,     /* of a part at most, about */
    PACK_PART_BYTES_MIN = 1 << 18, /* of a part at least, about, where more parts are not needed */
    PACK_PARTS_WANTED = 64,        /* parts that a graph has, if they are not too small */
    PACK_PARTS_MAX = 32767         /* AML_READ_FILES_MAX */
};

/* What the job needs before it reads intervals. The same in every part. */
struct pack_summary {
    uint64_t graph; /* a hash of all intervals and of the other fields */
    uint32_t vertices, intervals, parts, classes, columns;
    bool directed;
    unsigned carried;                   /* INTERVAL_FEATURES and INTERVAL_AGGREGATED; 0 without columns */
    bool dense, aggregated_dense;       /* the form of these */
    enum graph_average average;         /* of the aggregated features */
    uint64_t entries;                   /* of all `in` lists */
    uint64_t values, aggregated_values; /* of what is carried; of dense features vertices * columns */
    uint64_t cut, ghosts;               /* partition.h */
    uint64_t train, validation, test;   /* vertices, without those whose labels are not known */
    struct graph_scale scale;           /* of the features before they were averaged */
    uint64_t *class_counts;             /* [classes][4]: vertices of each class in each split */
    char **class_names;                 /* [classes] */
};

/* A zeroed summary is empty. */
void pack_summary_close(struct pack_summary *summary);

/* Sets the summary of a graph in memory, but for `graph` and `parts`, which become 0. pack_summary_close must
 * follow. */
void pack_summarize(const struct graph *graph, const struct graph_partition *partition, unsigned carried,
                    enum graph_average average, struct pack_summary *summary);

/* Returns what interval_check needs. */
struct interval_limits pack_limits(const struct pack_summary *summary);

/* Checks that the folder is empty or does not exist. Returns 0, AML_EINPUT or AML_EFAIL. */
int pack_check_folder(const char *folder, struct error *error);

/* Writes the graph's parts into the folder, which must be empty or not exist. A failure leaves no part there; a process
 * that ends early leaves a folder that pack_open refuses. `progress` as in graph_partition_make. Returns 0, AML_EINPUT
 * (the folder), AML_ELIMIT (an interval above AML_ITEM_BYTES_MAX, or a graph above PACK_PARTS_MAX parts), AML_EFAIL or
 * AML_ENOMEM. */
int pack_write(const char *folder, const struct graph *graph, const struct graph_partition *partition, unsigned carried,
               enum graph_average average, void (*progress)(void *context, double done), void *context,
               struct error *error);

/* Reads and checks the heads of all parts: that they are there, of the same graph, and with all intervals; and that the
 * folder has no other file. Names that begin with a dot are ignored. Returns 0, and pack_summary_close must follow; or
 * AML_EINPUT, AML_EFAIL. */
int pack_open(const char *folder, struct pack_summary *summary, struct error *error);

/* Sets the path of a part. Returns 0 or AML_ELIMIT. */
int pack_part_path(char path[NEW_FILE_PATH_MAX], const char *folder, uint32_t number, struct error *error);

/* Reads a part whole, checks it and its checksum, and calls `each` with its intervals: checked bytes, aligned. Ends at
 * the first result that is not 0, and returns it. Returns AML_EINPUT for a part of another graph, or one that is
 * damaged; then `each` may have been called for some intervals. */
int pack_read(const char *path, const struct pack_summary *summary,
              int (*each)(void *context, const void *bytes, size_t size), void *context, struct error *error);

#endif
