/* See options.h. */
#include "apps/gnn/options.h"

#include "apps/app.h"

#include <string.h>

enum { HEADS = 8 };

struct aml_option *gnn_options_list(struct gnn_options *chosen, bool model, struct aml_option *options) {
    *chosen = (struct gnn_options){.model = "gcn"};
    const struct aml_option own[GNN_OPTIONS] = {
        {"model", "NAME", AML_OPTION_WORD, &chosen->model, 0, 0,
         "gcn: averages of neighbours; sage: those beside the vertex's own values; gat: attention to neighbours"},
        {"layers", "N,N...", AML_OPTION_WORD, &chosen->layers, 0, 0,
         "width of each hidden layer, of gat of each head; not given: 64, of gat 8"},
        {"heads", "N", AML_OPTION_INTEGER, &chosen->heads, 0, GNN_HEADS_MAX, "gat: heads of hidden layers; 0: 8"},
        {"output-heads", "N", AML_OPTION_INTEGER, &chosen->output_heads, 0, GNN_HEADS_MAX,
         "gat: heads of the last layer, whose mean counts; 0: 1"},
    };
    size_t count = model ? 1 : GNN_OPTIONS;
    memcpy(options, own, count * sizeof *own);
    return options + count;
}

int gnn_options_kind(const struct gnn_options *chosen, struct error *error) {
    static const char *const names[] = {[GNN_GCN] = "gcn", [GNN_GAT] = "gat", [GNN_SAGE] = "sage", NULL};
    int kind = app_choice("model", chosen->model, names, error);
    if (kind >= 0 && kind != GNN_GAT && (chosen->heads > 0 || chosen->output_heads > 0)) {
        return error_set(error, AML_EINPUT, "--%s: expected --model gat, got %s",
                         chosen->heads > 0 ? "heads" : "output-heads", chosen->model);
    }
    return kind;
}

struct gnn_shape gnn_options_shape(const struct gnn_options *chosen, enum gnn_kind kind) {
    return (struct gnn_shape){.kind = kind,
                              .layers = chosen->layers != NULL ? chosen->layers
                                        : kind == GNN_GAT      ? "8"
                                                               : "64",
                              .heads = chosen->heads > 0 ? (uint32_t)chosen->heads : HEADS,
                              .output_heads = chosen->output_heads > 0 ? (uint32_t)chosen->output_heads : 1};
}

struct gnn_model gnn_options_model(const struct gnn_options *chosen, const struct gnn_network *network,
                                   const struct pack_summary *summary) {
    const struct gnn_shape shape = gnn_options_shape(chosen, network->kind);
    return (struct gnn_model){.network = *network,
                              .layers = (char *)(uintptr_t)shape.layers,
                              .heads = shape.heads,
                              .output_heads = shape.output_heads,
                              .features = summary->columns,
                              .classes = summary->classes,
                              .scale = summary->scale,
                              .directed = summary->directed,
                              .class_names = summary->class_names};
}
