/* See packing.h. */
#include "apps/gnn/packing.h"

#include "agileml/base/log.h"
#include "apps/gnn/options.h"
#include "apps/gnn/source.h"
#include "apps/tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct packing {
    const char *folder;
    struct gnn_source source;
    struct gnn_options options;
    int64_t seed;
    bool terminal; /* progress is shown */
};

static void write_note(void *context, const char *text) {
    (void)context;
    log_info("%s", text);
}

static void show(void *context, const char *what, double done) {
    const struct packing *packing = context;
    enum { WIDTH = 30 };
    if (!packing->terminal) {
        return;
    }
    int full = (int)(done * WIDTH);
    fprintf(stderr, "\r%-20s [%.*s%*s] %3.0f %%%s", what, full, "##############################", WIDTH - full, "",
            100 * done, done >= 1 ? "\n" : "");
}

static void show_writing(void *context, double done) {
    show(context, "writing", done);
}

static void print_summary(const struct packing *packing) {
    const struct pack_summary *summary = &packing->source.summary;
    double entries = summary->entries > 0 ? (double)summary->entries : 1;
    printf("%s: %" PRIu32 " vertices, %" PRIu64 " %sedges, %" PRIu32 " features, %" PRIu32 " classes\n",
           packing->folder, summary->vertices, summary->directed ? summary->entries : summary->entries / 2,
           summary->directed ? "directed " : "", summary->columns, summary->classes);
    printf("%" PRIu64 " vertices for training, %" PRIu64 " for validation, %" PRIu64 " for the test\n", summary->train,
           summary->validation, summary->test);
    printf("%" PRIu32 " intervals: %.1f %% of the edges are between two of them, %.2f ghosts a vertex\n",
           summary->intervals, 100 * (double)summary->cut / entries,
           (double)summary->ghosts / (double)summary->vertices);
    if ((summary->carried & INTERVAL_AGGREGATED) != 0) {
        printf("features are averaged once (--aggregate), for --model %s\n",
               summary->average == GRAPH_MEAN ? "sage" : "gcn");
    }
}

static int run(void *context, struct error *error) {
    struct packing *packing = context;
    struct gnn_source *source = &packing->source;
    struct gnn_listener listener = {.note = write_note, .progress = show, .context = packing};
    int kind = gnn_options_kind(&packing->options, error);
    if (kind >= 0 && source->packed != NULL) {
        kind = error_set(error, AML_EINPUT, "--graph: expected --edges and --features, which --pack reads");
    }
    source->input.seed = (uint64_t)packing->seed;
    packing->terminal = isatty(STDERR_FILENO) != 0;
    int result = kind < 0 ? kind : pack_check_folder(packing->folder, error);
    result = result != 0 ? result : gnn_source_open(source, (enum gnn_kind)kind, &listener, error);
    if (result != 0) {
        return result;
    }
    result = pack_write(packing->folder, &source->graph, &source->partition,
                        gnn_source_carried((enum gnn_kind)kind, source->once), source->summary.average, show_writing,
                        packing, error);
    if (result == 0) {
        print_summary(packing);
    }
    gnn_source_close(source);
    return result;
}

int gnn_packing_main(int argc, char **argv) {
    enum { OWN = 3 };
    struct packing packing = {.seed = 1};
    struct aml_option options[GNN_SOURCE_OPTIONS + GNN_OPTIONS + OWN];
    struct aml_option *next = gnn_source_options(&packing.source, options);
    next = gnn_options_list(&packing.options, true, next);
    const struct aml_option own[OWN] = {
        {"pack", "FOLDER", AML_OPTION_STRING, &packing.folder, 0, 0, "where the packed graph goes: a new folder"},
        {"seed", "N", AML_OPTION_INTEGER, &packing.seed, 0, 1e15, "for --train-per-class"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    memcpy(next, own, sizeof own);
    const struct tool tool = {
        .app = "gnn",
        .option = "pack",
        .usage = "usage: gnn --pack FOLDER --edges FILE --features FILE [OPTION...]\n\n"
                 "Divides a graph into intervals of vertices, and writes them into files that the processes of a job\n"
                 "divide among themselves (gnn --graph FOLDER). --model says for which networks.\n\n",
        .options = options,
        .run = run,
        .context = &packing,
    };
    return tool_main(&tool, argc, argv);
}
