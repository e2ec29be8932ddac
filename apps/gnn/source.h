/* Where the intervals of a job come from: a graph's files, which are divided here, or a packed graph (pack.h). */
#ifndef APPS_GNN_SOURCE_H
#define APPS_GNN_SOURCE_H

#include "agileml.h"
#include "apps/app.h"
#include "apps/gnn/input.h"
#include "apps/gnn/network.h"
#include "apps/gnn/pack.h"

enum { GNN_SOURCE_FILES = 5, GNN_SOURCE_OPTIONS = 11 };

struct gnn_source {
    /* The options' values. */
    struct graph_input input;
    const char *packed;                    /* --graph */
    const char *aggregate;                 /* --aggregate */
    const char *scale;                     /* --scale */
    int64_t interval;                      /* --interval; 0: by the graph */
    struct aml_strings splits;             /* --split, set by gnn_source_files */
    bool unlabelled;                       /* labels and splits are not needed, for predictions */
    const struct graph_scale *given_scale; /* a model's, instead of --scale; NULL: none */
    /* Set by gnn_source_open. */
    struct pack_summary summary;
    bool once;
    /* While `held`: a graph in memory, which is divided. Never of a packed graph. */
    struct graph graph;
    struct graph_partition partition;
    bool held;
};

/* Adds the source's options. Returns the place behind them. */
struct aml_option *gnn_source_options(struct gnn_source *source, struct aml_option *options);

/* Lists the files named by options, for app_check_files. */
size_t gnn_source_files(struct gnn_source *source, struct app_file files[GNN_SOURCE_FILES]);

/* Receives notes, and how far reading has come. Both functions may be NULL. */
struct gnn_listener {
    void (*note)(void *context, const char *text);
    void (*progress)(void *context, const char *what, double done);
    void *context;
};

/* Checks the options without reading a file, for networks of this kind. Returns 0, or AML_EINPUT with *error set. */
int gnn_source_check(const struct gnn_source *source, enum gnn_kind kind, struct error *error);

/* Reads the graph's files and divides the graph, or the packed graph's summary. Decides whether features are averaged
 * `once` for networks of this kind. Returns 0, and gnn_source_close must follow; or a code with *error set. */
int gnn_source_open(struct gnn_source *source, enum gnn_kind kind, struct gnn_listener *listener, struct error *error);

/* Returns what intervals carry of the features, for these networks. */
unsigned gnn_source_carried(enum gnn_kind kind, bool once);

/* Calls `each` with all intervals of a source that is held, in order. Ends at the first result that is not 0. */
int gnn_source_each(const struct gnn_source *source, enum gnn_kind kind,
                    int (*each)(void *context, const void *bytes, size_t size), void *context, struct error *error);

/* Calls `each` with the path of each part of a packed graph. Ends as gnn_source_each does. */
int gnn_source_parts(const struct gnn_source *source, int (*each)(void *context, const char *path, struct error *error),
                     void *context, struct error *error);

/* Frees the graph, but not the summary. */
void gnn_source_release(struct gnn_source *source);
void gnn_source_close(struct gnn_source *source);

#endif
