/* Reads edges: pairs of vertices as text, as numpy's array, or as a MatrixMarket matrix. */
#include "agileml/base/matrix_market.h"
#include "agileml/base/text_columns.h"
#include "agileml/base/text_foreign.h"
#include "agileml/base/text_lines.h"
#include "agileml/input/source_text.h"
#include "apps/gnn/npy.h"
#include "apps/gnn/reading.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EDGE_LINE_MAX = 1 << 20,
    EDGE_COLUMNS_MAX = 4096,
    EDGES_FIRST = 1 << 16, /* edges that the first allocation holds */
    EDGES_CHUNK = 1 << 13,
    ROLES = 2
};

/* The state while edges are read. */
struct edges {
    const struct graph_reading *reading;
    struct error *error;
    const char *path;
    uint32_t vertices;
    uint32_t *pairs; /* [capacity][2] */
    uint64_t count, capacity;
    struct text_lines lines;
    /* The columns of text: those of the two vertices, and their number; 0: not known yet. */
    enum text_separator separator;
    size_t from, to, columns;
    bool matrix; /* MatrixMarket */
    struct matrix_market head;
};

static const char *edges_name(const struct edges *edges) {
    return text_input_name(edges->path);
}

static int make_room(struct edges *edges, uint64_t more) {
    if (edges->count + more <= edges->capacity) {
        return 0;
    }
    uint64_t capacity = 2 * edges->capacity + EDGES_FIRST;
    capacity = capacity >= edges->count + more ? capacity : edges->count + more;
    uint32_t *pairs = realloc(edges->pairs, capacity * 2 * sizeof *pairs);
    if (pairs == NULL) {
        return error_set(edges->error, AML_ENOMEM, "%s: no memory for %llu edges", edges_name(edges),
                         (unsigned long long)capacity);
    }
    edges->pairs = pairs;
    edges->capacity = capacity;
    return 0;
}

static int add_edge(struct edges *edges, uint32_t from, uint32_t to) {
    if (edges->count == edges->capacity) {
        int code = make_room(edges, 1);
        if (code != 0) {
            return code;
        }
    }
    edges->pairs[2 * edges->count] = from;
    edges->pairs[2 * edges->count + 1] = to;
    edges->count++;
    return 0;
}

/* Refuses a vertex that isn't there. `place` follows the file's name. */
static int refuse_vertex(const struct edges *edges, const char *place, int64_t vertex) {
    const int64_t first = edges->matrix ? 1 : 0;
    return error_set(edges->error, AML_EINPUT,
                     "%s%s: expected a vertex from %lld to %lld, as %s has %u rows, got %lld%s", edges_name(edges),
                     place, (long long)first, (long long)edges->vertices - 1 + first,
                     text_input_name(edges->reading->counted), edges->vertices, (long long)vertex,
                     first == 0 && vertex == (int64_t)edges->vertices ? " (vertices count from 0)" : "");
}

/* ---- Text ---- */

static int refuse_text(const struct edges *edges, const char *expected, const char *line) {
    const size_t length = strlen(line);
    return error_set(edges->error, AML_EINPUT, "%s:%llu: expected %s, got '%.*s'%s", edges_name(edges),
                     (unsigned long long)edges->lines.number, expected, text_shown(length), line,
                     text_shown_end(length));
}

/* Takes a field that is a whole number, perhaps in quotes. */
static bool field_number(const struct text_field *field, int64_t *number) {
    const char *end = reading_take_number(field->text, number);
    return end == field->text + field->length;
}

/* Whether a field of the line is a number. */
static bool has_number(const char *line, const char *end, enum text_separator separator) {
    struct text_field field = {.next = line};
    while (field.next != NULL && text_field_take(field.next, end, separator, &field)) {
        int64_t number;
        if (field_number(&field, &number)) {
            return true;
        }
    }
    return false;
}

/* Says which columns are ignored. `header` NULL: they have no names. */
static void note_columns(const struct edges *edges, const char *header, const char *end) {
    char list[256] = "";
    size_t used = 0;
    for (size_t c = 0; c < edges->columns && used < sizeof list; c++) {
        struct text_field field;
        if (c == edges->from || c == edges->to) {
            continue;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%zu", used > 0 ? ", " : "", c + 1);
        if (header != NULL && used < sizeof list && text_field_at(header, end, edges->separator, c, &field)) {
            used += (size_t)snprintf(list + used, sizeof list - used, " '%.*s'", text_shown(field.length), field.text);
        }
    }
    if (used > 0) {
        reading_note(edges->reading, "%s: ignores column %s: edges have neither weights nor times", edges_name(edges),
                     list);
    }
}

/* Finds the vertices' columns by a header. */
static int take_header(struct edges *edges, const char *line, const char *end) {
    static const struct text_role roles[ROLES] = {
        {"source", "source src from fromid fromnode fromnodeid sourceid u id1 node1 nodeid1"},
        {"target", "target dst dest destination to toid tonode tonodeid targetid v id2 node2 nodeid2"}};
    int places[ROLES];
    struct text_field first;
    struct error error = {0};
    int found = text_columns_find(line, end, edges->separator, roles, ROLES, places, &edges->columns, &error);
    if (found < 0) {
        return error_set(edges->error, found, "%s:%llu: %s", edges_name(edges), (unsigned long long)edges->lines.number,
                         error.text);
    }
    edges->from = found == ROLES ? (size_t)places[0] : 0;
    edges->to = found == ROLES ? (size_t)places[1] : 1;
    if (found < ROLES && edges->columns > 2 && text_field_at(line, end, edges->separator, 0, &first) &&
        text_column_is_index(&first, 0)) {
        edges->from = 1;
        edges->to = 2;
    }
    note_columns(edges, line, end);
    return 0;
}

/* Finds the columns by the first line that is no comment. Sets *header when it is a header. */
static int find_columns(struct edges *edges, const char *line, size_t length, bool *header) {
    const char *end = line + length;
    const char *foreign = text_foreign_line(line, end);
    struct text_field first;
    *header = false;
    if (foreign != NULL) {
        return error_set(edges->error, AML_EINPUT, "%s:%llu: %s", edges_name(edges),
                         (unsigned long long)edges->lines.number, foreign);
    }
    edges->separator = text_separator_of(line, end);
    edges->columns = edges->separator != TEXT_UNKNOWN ? text_fields_count(line, end, edges->separator) : 1;
    if (edges->columns < 2 || edges->columns > EDGE_COLUMNS_MAX) {
        return refuse_text(edges, "two vertices of an edge, such as '0 1'", line);
    }
    edges->from = 0;
    edges->to = 1;
    const bool unnamed =
        edges->columns > 2 && text_field_take(line, end, edges->separator, &first) && first.length == 0;
    *header = unnamed || !has_number(line, end, edges->separator);
    if (*header) {
        return take_header(edges, line, end);
    }
    note_columns(edges, NULL, NULL);
    return 0;
}

/* Takes the vertices of a line of any form. */
static int take_fields(struct edges *edges, const char *line, size_t length, int64_t vertices[2]) {
    const char *end = line + length;
    struct text_field field = {.next = line};
    size_t column = 0;
    for (; field.next != NULL; column++) {
        if (!text_field_take(field.next, end, edges->separator, &field)) {
            return refuse_text(edges, "fields without an open quote", line);
        }
        const bool vertex = column == edges->from || column == edges->to;
        if (vertex && !field_number(&field, &vertices[column == edges->to])) {
            return refuse_text(edges, "two vertices of an edge, as whole numbers from 0", line);
        }
    }
    if (column != edges->columns) {
        return error_set(edges->error, AML_EINPUT,
                         "%s:%llu: expected %zu fields as in the lines before, got %zu: each line is one edge, not a "
                         "list of neighbours",
                         edges_name(edges), (unsigned long long)edges->lines.number, edges->columns, column);
    }
    return 0;
}

/* Takes up to ten digits. */
static inline const char *take_digits(const char *p, int64_t *number) {
    const char *start = p;
    int64_t value = 0;
    while (*p >= '0' && *p <= '9' && p - start < 10) {
        value = value * 10 + (*p++ - '0');
    }
    *number = value;
    return p;
}

/* Takes the vertices of a line of two plain numbers. Returns false when it has another form. */
static inline bool take_plain(const char *line, int64_t vertices[2]) {
    const char *p = take_digits(line, &vertices[0]);
    if (p == line || (*p != ' ' && *p != '\t' && *p != ',' && *p != ';')) {
        return false;
    }
    const char *second = p + 1;
    p = take_digits(second, &vertices[1]);
    return p != second && *p == '\0';
}

static int add_line_edge(struct edges *edges, const int64_t vertices[2]) {
    const int64_t first = edges->matrix ? 1 : 0;
    for (unsigned i = 0; i < 2; i++) {
        if (vertices[i] < first || vertices[i] - first >= (int64_t)edges->vertices) {
            char place[32];
            snprintf(place, sizeof place, ":%llu", (unsigned long long)edges->lines.number);
            return refuse_vertex(edges, place, vertices[i]);
        }
    }
    const uint32_t from = (uint32_t)(vertices[0] - first);
    const uint32_t to = (uint32_t)(vertices[1] - first);
    int code = add_edge(edges, from, to);
    const bool mirrored = edges->matrix && edges->head.symmetric && edges->reading->input->directed && from != to;
    return code == 0 && mirrored ? add_edge(edges, to, from) : code;
}

/* Takes the head of a MatrixMarket matrix, whose first line is `line`. */
static int take_matrix(struct edges *edges, char *line, size_t length) {
    struct error error = {0};
    int code = 0;
    edges->matrix = true;
    edges->head = (struct matrix_market){.halves = true};
    while (code == 0) {
        code = line == NULL ? error_set(&error, AML_EINPUT, "expected MatrixMarket's size line, got the file's end")
                            : matrix_market_take(&edges->head, line, line + length, &error);
        if (code < 0) {
            return error_set(edges->error, code, "%s:%llu: %s", edges_name(edges),
                             (unsigned long long)edges->lines.number, error.text);
        }
        if (code == 0) {
            code = text_lines_next(&edges->lines, &line, &length, edges->error);
            if (code != 0) {
                return code;
            }
        }
    }
    if (edges->head.rows != edges->vertices || edges->head.columns != edges->vertices) {
        return error_set(edges->error, AML_EINPUT,
                         "%s:%llu: expected a matrix of %u x %u, as %s has %u rows, got %llu x %llu", edges_name(edges),
                         (unsigned long long)edges->lines.number, edges->vertices, edges->vertices,
                         text_input_name(edges->reading->counted), edges->vertices,
                         (unsigned long long)edges->head.rows, (unsigned long long)edges->head.columns);
    }
    edges->separator = TEXT_BLANKS;
    edges->from = 0;
    edges->to = 1;
    edges->columns = edges->head.field == MATRIX_MARKET_PATTERN ? 2 : 3;
    note_columns(edges, NULL, NULL);
    return 0;
}

/* Takes a line that is not empty. */
static int take_line(struct edges *edges, char *line, size_t length) {
    int64_t vertices[2] = {0};
    if (edges->columns == 2 && take_plain(line, vertices) && edges->from == 0 && edges->to == 1) {
        return add_line_edge(edges, vertices);
    }
    if (edges->lines.number == 1 && matrix_market_begins(line, line + length)) {
        return take_matrix(edges, line, length);
    }
    const char *p = text_skip_blanks(line);
    if (*p == '\0' || *p == '#' || *p == '%') {
        return 0;
    }
    if (edges->columns == 0) {
        bool header = false;
        int code = find_columns(edges, line, length, &header);
        if (code != 0 || header) {
            return code;
        }
    }
    int code = take_fields(edges, line, length, vertices);
    return code == 0 ? add_line_edge(edges, vertices) : code;
}

static int check_matrix(const struct edges *edges, uint64_t entries) {
    if (!edges->matrix || entries == edges->head.entries) {
        return 0;
    }
    return error_set(edges->error, AML_EINPUT, "%s: expected %llu entries by MatrixMarket's size line, got %llu",
                     edges_name(edges), (unsigned long long)edges->head.entries, (unsigned long long)entries);
}

static int read_text(struct edges *edges) {
    char *line;
    size_t length;
    uint64_t entries = 0;
    int code = source_lines_open(&edges->lines, edges->path, EDGE_LINE_MAX, edges->error);
    while (code == 0) {
        const uint64_t before = edges->count;
        code = text_lines_next(&edges->lines, &line, &length, edges->error);
        if (code != 0 || line == NULL) {
            break;
        }
        code = take_line(edges, line, length);
        entries += edges->count > before;
    }
    text_lines_close(&edges->lines);
    return code == 0 ? check_matrix(edges, entries) : code;
}

/* ---- numpy ---- */

/* Puts values[count] into the pairs: the array's element `first` and those after it. `rows`: the array is 2 x E. */
static int put_elements(struct edges *edges, const int64_t *values, uint64_t first, uint64_t count, bool rows) {
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t at = first + i;
        const uint64_t edge = rows ? at % edges->count : at / 2;
        const uint64_t end = rows ? at / edges->count : at % 2;
        if (values[i] < 0 || values[i] >= (int64_t)edges->vertices) {
            char place[64];
            snprintf(place, sizeof place, ": element [%llu][%llu]", (unsigned long long)(rows ? end : edge),
                     (unsigned long long)(rows ? edge : end));
            return refuse_vertex(edges, place, values[i]);
        }
        edges->pairs[2 * edge + end] = (uint32_t)values[i];
    }
    return 0;
}

static int read_elements(struct edges *edges, struct npy *npy) {
    static const uint64_t chunk = EDGES_CHUNK;
    const bool rows = npy->shape[0] == 2;
    int64_t values[EDGES_CHUNK];
    int code = make_room(edges, npy->count / 2);
    edges->count = npy->count / 2;
    if (npy->shape[0] == 2 && npy->shape[1] == 2) {
        reading_note(edges->reading, "%s: reads its shape (2, 2) as sources and targets, as PyG's edge_index",
                     edges_name(edges));
    }
    for (uint64_t first = 0; first < npy->count && code == 0; first += chunk) {
        const uint64_t count = npy->count - first < chunk ? npy->count - first : chunk;
        code = npy_read_integers(npy, values, count, edges->error);
        code = code == 0 ? put_elements(edges, values, first, count, rows) : code;
    }
    return code;
}

static int read_npy(struct edges *edges) {
    struct npy npy;
    char shape[128];
    int code = npy_open(&npy, edges->path, edges->error);
    if (code != 0) {
        return code;
    }
    npy_print_shape(&npy, shape, sizeof shape);
    if (npy.dimensions != 2 || (npy.shape[0] != 2 && npy.shape[1] != 2)) {
        code = error_set(edges->error, AML_EINPUT, "%s: expected an array of shape (2, edges) or (edges, 2), got %s",
                         edges_name(edges), shape);
    } else if (npy.kind == NPY_BOOL) {
        code = error_set(edges->error, AML_EINPUT, "%s: expected an array of vertices' numbers, got bool",
                         edges_name(edges));
    } else {
        code = read_elements(edges, &npy);
    }
    npy_close(&npy);
    return code;
}

/* ---- Both ---- */

static const char *edges_are(uint64_t count) {
    return count == 1 ? "edge is" : "edges are";
}

/* Notes what was left out, and what edges that count from 1 would look like. */
static void note_edges(const struct edges *edges) {
    const struct graph *graph = edges->reading->graph;
    if (graph->repeated_edges > 0) {
        reading_note(edges->reading, "%s: %llu %s repeated%s: each counts once", edges_name(edges),
                     (unsigned long long)graph->repeated_edges, edges_are(graph->repeated_edges),
                     graph->directed ? "" : " or given both ways");
    }
    if (graph->own_edges > 0) {
        reading_note(edges->reading, "%s: %llu %s left out: from a vertex to itself", edges_name(edges),
                     (unsigned long long)graph->own_edges, edges_are(graph->own_edges));
    }
    if (graph->in.offsets[1] == 0 && (!graph->directed || graph->out.offsets[1] == 0) && !edges->matrix) {
        reading_note(edges->reading, "%s: vertex 0 has no edge (vertices count from 0, not 1)", edges_name(edges));
    }
}

int edges_read(struct graph_reading *reading) {
    enum graph_file kind;
    struct edges edges = {.reading = reading,
                          .error = reading->error,
                          .path = reading->input->edges,
                          .vertices = reading->graph->vertices};
    assert(reading->counted != NULL);
    int code = reading_kind(reading, edges.path, &kind);
    if (code == 0) {
        code = kind == GRAPH_FILE_NPY ? read_npy(&edges) : read_text(&edges);
    }
    if (code == 0 && edges.count == 0) {
        code = error_set(reading->error, AML_EINPUT, "%s: expected edges, it has none", edges_name(&edges));
    }
    if (code != 0) {
        free(edges.pairs);
        return code;
    }
    code = graph_take_edges(reading->graph, edges.pairs, edges.count, reading->input->directed, reading->error);
    if (code == 0) {
        note_edges(&edges);
    }
    return code;
}
