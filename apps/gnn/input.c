/* See input.h. */
#include "apps/gnn/input.h"

#include "apps/gnn/reading.h"

static int check_given(const struct graph_input *input, bool need_labels, struct error *error) {
    if (input->edges == NULL) {
        return error_set(error, AML_EINPUT, "--edges: expected a file of edges");
    }
    if (input->features == NULL && input->labels == NULL) {
        return error_set(error, AML_EINPUT, "--features: expected a file of features, a row for each vertex%s",
                         need_labels ? ", or --labels" : "");
    }
    return 0;
}

static int read_parts(struct graph_reading *reading) {
    const struct graph_input *input = reading->input;
    int code = input->features != NULL ? features_read(reading) : 0;
    code = code == 0 && input->labels != NULL ? vertex_labels_read(reading) : code;
    if (code == 0 && reading->need_labels && reading->graph->labels == NULL) {
        code = error_set(reading->error, AML_EINPUT, "--labels: expected a file of labels, as %s has none",
                         reading->counted);
    }
    code = code == 0 ? splits_read(reading) : code;
    return code == 0 ? edges_read(reading) : code;
}

int graph_input_read(const struct graph_input *input, bool need_labels, struct graph *graph,
                     void (*note)(void *context, const char *text), void *context, struct error *error) {
    struct graph_reading reading = {
        .input = input, .graph = graph, .need_labels = need_labels, .note = note, .context = context, .error = error};
    *graph = (struct graph){.directed = input->directed};
    int code = check_given(input, need_labels, error);
    code = code == 0 ? read_parts(&reading) : code;
    if (code != 0) {
        graph_close(graph);
    }
    return code;
}
