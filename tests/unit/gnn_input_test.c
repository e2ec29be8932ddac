/* Tests of apps/gnn's input: graphs of every format, the numbers of known graphs, and each error's text. */
#include "apps/gnn/input.h"

#include "agileml/base/hash.h"
#include "tests/files.h"
#include "tests/test.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOTES_MAX = 2048 };

/* The notes of a reading, a line each. */
struct notes {
    char text[NOTES_MAX];
};

static void take_note(void *context, const char *text) {
    struct notes *notes = context;
    const size_t used = strlen(notes->text);
    snprintf(notes->text + used, sizeof notes->text - used, "%s\n", text);
}

/* ---- Files ---- */

/* Writes an .npy file of version `version`, whose dictionary has this type and shape. */
static const char *write_npy_as(const char *name, unsigned version, const char *dictionary, const void *bytes,
                                size_t size) {
    unsigned char file[8192] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0};
    const size_t prefix = version == 1 ? 10 : 12;
    size_t length = strlen(dictionary);
    memcpy(file + prefix, dictionary, length);
    for (; (prefix + length + 1) % 16 != 0; length++) {
        file[prefix + length] = ' ';
    }
    file[prefix + length++] = '\n';
    file[8] = (unsigned char)length;
    file[9] = (unsigned char)(length >> 8);
    assert_true(prefix + length + size <= sizeof file);
    if (size > 0) {
        memcpy(file + prefix + length, bytes, size);
    }
    return write_bytes(name, file, prefix + length + size);
}

static const char *write_npy(const char *name, const char *type, const char *shape, const void *bytes, size_t size) {
    char dictionary[256];
    snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    return write_npy_as(name, 1, dictionary, bytes, size);
}

/* What a test reads: texts, which become files of these names; or names of files that are there, after a '@'. */
struct texts {
    const char *edges, *features, *labels, *split;
    bool directed, predict;
    int64_t training, validation;
};

static const char *file_of(const char *name, const char *text) {
    return text == NULL || *text == '@' ? (text == NULL ? NULL : text + 1) : write_text(name, text);
}

static int read_texts(const struct texts *texts, struct graph *graph, struct notes *notes, struct error *error) {
    const struct graph_input input = {.edges = file_of("edges", texts->edges),
                                      .features = file_of("features", texts->features),
                                      .labels = file_of("labels", texts->labels),
                                      .split = file_of("split", texts->split),
                                      .directed = texts->directed,
                                      .train_per_class = texts->training,
                                      .validation_per_class = texts->validation,
                                      .seed = 7};
    *notes = (struct notes){""};
    *error = (struct error){0};
    return graph_input_read(&input, !texts->predict, graph, take_note, notes, error);
}

/* Prints a graph: in-lists | out-lists | features | labels | classes | splits. */
struct print {
    char text[4096];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct print *print, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print->used += (size_t)vsnprintf(print->text + print->used, sizeof print->text - print->used, format, arguments);
    va_end(arguments);
    assert_true(print->used < sizeof print->text);
}

static void print_lists(struct print *print, const struct graph_lists *lists, uint32_t vertices) {
    for (uint32_t v = 0; v < vertices && lists->offsets != NULL; v++) {
        add(print, "%s", v > 0 ? ";" : "");
        for (uint64_t e = lists->offsets[v]; e < lists->offsets[v + 1]; e++) {
            add(print, "%s%u", e > lists->offsets[v] ? "," : "", lists->ids[e]);
        }
    }
}

static void print_features(struct print *print, const struct graph_features *features, uint32_t vertices) {
    add(print, "%s%u", features->dense ? "dense" : "sparse", features->columns);
    for (uint32_t v = 0; v < vertices; v++) {
        add(print, ";");
        for (uint32_t c = 0; c < features->columns && features->dense; c++) {
            add(print, "%s%.4g", c > 0 ? "," : "", (double)features->values[(size_t)v * features->columns + c]);
        }
        for (uint64_t e = features->dense ? 1 : features->offsets[v]; !features->dense && e < features->offsets[v + 1];
             e++) {
            add(print, "%s%u:%.4g", e > features->offsets[v] ? "," : "", features->at[e], (double)features->values[e]);
        }
    }
}

static void print_graph(struct print *print, const struct graph *graph) {
    print_lists(print, &graph->in, graph->vertices);
    add(print, "|");
    print_lists(print, &graph->out, graph->vertices);
    add(print, "|");
    if (graph->features.columns > 0) {
        print_features(print, &graph->features, graph->vertices);
    }
    add(print, "|");
    for (uint32_t v = 0; v < graph->vertices && graph->labels != NULL; v++) {
        add(print, "%s%d", v > 0 ? "," : "", graph->labels[v]);
    }
    add(print, "|");
    for (uint32_t c = 0; c < graph->classes; c++) {
        add(print, "%s%s", c > 0 ? "," : "", graph->class_names[c]);
    }
    add(print, "|");
    for (uint32_t v = 0; v < graph->vertices && graph->splits != NULL; v++) {
        add(print, "%u", graph->splits[v]);
    }
}

static void expect(const struct texts *texts, const char *expected, const char *expected_notes) {
    struct graph graph;
    struct notes notes;
    struct error error;
    struct print print = {.used = 0};
    if (read_texts(texts, &graph, &notes, &error) != 0) {
        fail_msg("%s", error.text);
    }
    print_graph(&print, &graph);
    assert_string_equal(print.text, expected);
    assert_string_equal(notes.text, expected_notes);
    graph_close(&graph);
}

static void refuse(const struct texts *texts, const char *expected) {
    struct graph graph;
    struct notes notes;
    struct error error;
    assert_int_equal(read_texts(texts, &graph, &notes, &error), AML_EINPUT);
    assert_int_equal(error.code, AML_EINPUT);
    assert_string_equal(error.text, expected);
    assert_null(graph.in.offsets);
    assert_null(graph.features.values);
}

/* Three vertices, whose features and labels need no more thought. */
#define FEATURES "0 1:1\n1 2:1\n0 3:1\n"
#define SPLIT    "0 1\n\n2\n"
#define REST     "sparse3;0:1;1:1;2:1|0,1,0|0,1|113"

static void expect_edges(const char *edges, const char *lists, const char *notes) {
    char expected[256];
    snprintf(expected, sizeof expected, "%s||" REST, lists);
    expect(&(struct texts){.edges = edges, .features = FEATURES, .split = SPLIT}, expected, notes);
}

static void expect_directed(const char *edges, const char *lists, const char *notes) {
    char expected[256];
    snprintf(expected, sizeof expected, "%s|" REST, lists);
    expect(&(struct texts){.edges = edges, .features = FEATURES, .split = SPLIT, .directed = true}, expected, notes);
}

static void refuse_edges(const char *edges, const char *expected) {
    refuse(&(struct texts){.edges = edges, .features = FEATURES, .split = SPLIT}, expected);
}

/* ---- Edges ---- */

TEST(edges_of_text) {
    expect_edges("0 1\n1 2\n", "1;0,2;1", "");
    expect_edges("0\t1\r\n1\t2", "1;0,2;1", "");
    expect_edges("0,1\n1,2\n", "1;0,2;1", "");
    expect_edges("0 ; 1\n\n 1;2 \n", "1;0,2;1", "");
    expect_edges("\"0\",\"1\"\n\"1\",\"2\"\n", "1;0,2;1", "");
    expect_edges("# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t1\n%\n1\t2\n", "1;0,2;1", "");
    expect_edges("0.000000000000000000e+00 1.000000000000000000e+00\n1.0 2\n", "1;0,2;1", "");
    expect_edges("id_1,id_2\n0,1\n1,2\n", "1;0,2;1", "");
    expect_edges("2 0\n", "2;;0", "");
    expect_edges("1 2\n", ";2;1", "edges: vertex 0 has no edge (vertices count from 0, not 1)\n");
}

TEST(edges_are_counted_once) {
    expect_edges("1 0\n0 1\n0 1\n1 2\n", "1;0,2;1",
                 "edges: 2 edges are repeated or given both ways: each counts once\n");
    expect_edges("0 0\n0 1\n2 2\n", "1;0;", "edges: 2 edges are left out: from a vertex to itself\n");
    expect_directed("1 0\n0 1\n0 1\n1 2\n", "1;0;1|1;0,2;", "edges: 1 edge is repeated: each counts once\n");
}

TEST(edges_have_directions) {
    expect_directed("0 1\n0 2\n2 1\n", ";0,2;0|1,2;;1", "");
    expect_directed("target,source\n1,0\n2,0\n1,2\n", ";0,2;0|1,2;;1", "");
}

TEST(edges_of_several_columns) {
    expect_edges("0 1 5\n1 2 7\n", "1;0,2;1", "edges: ignores column 3: edges have neither weights nor times\n");
    expect_edges("u,v,weight,time\n0,1,.5,1\n1,2,.5,2\n", "1;0,2;1",
                 "edges: ignores column 3 'weight', 4 'time': edges have neither weights nor times\n");
    expect_edges("w,src,dst\n9,0,1\n9,1,2\n", "1;0,2;1",
                 "edges: ignores column 1 'w': edges have neither weights nor times\n");
    expect_edges(",0,1\n0,0,1\n1,1,2\n", "1;0,2;1",
                 "edges: ignores column 1 '': edges have neither weights nor times\n");
}

TEST(edges_of_matrix_market) {
    expect_edges("%%MatrixMarket matrix coordinate pattern general\n% x\n3 3 2\n1 2\n2 3\n", "1;0,2;1", "");
    expect_edges("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n", "1;0,2;1", "");
    expect_edges("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 0.5\n", "1;0;",
                 "edges: ignores column 3: edges have neither weights nor times\n");
    expect_directed("%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n3 2\n", ";0,2;|1;;1", "");
    expect_directed("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n", "1;0,2;1|1;0,2;1", "");
    refuse_edges("%%MatrixMarket matrix coordinate pattern general\n3 3 2\n0 2\n2 3\n",
                 "edges:3: expected a vertex from 1 to 3, as features has 3 rows, got 0");
    refuse_edges("%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 4\n",
                 "edges:4: expected a vertex from 1 to 3, as features has 3 rows, got 4");
    refuse_edges("%%MatrixMarket matrix coordinate pattern general\n3 4 1\n1 2\n",
                 "edges:2: expected a matrix of 3 x 3, as features has 3 rows, got 3 x 4");
    refuse_edges("%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n",
                 "edges: expected 2 entries by MatrixMarket's size line, got 1");
    refuse_edges("%%MatrixMarket matrix coordinate pattern general\n",
                 "edges:1: expected MatrixMarket's size line, got the file's end");
    refuse_edges("%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 1\n1 2 3\n",
                 "edges:1: a MatrixMarket matrix that is skew-symmetric, so that half of it is left out: expected "
                 "general; scipy.io.mmwrite writes it with symmetry='general'");
}

TEST(wrong_edges) {
    refuse_edges("0 1\n1 3\n", "edges:2: expected a vertex from 0 to 2, as features has 3 rows, got 3 (vertices count "
                               "from 0)");
    refuse_edges("0 1\n1 -2\n", "edges:2: expected a vertex from 0 to 2, as features has 3 rows, got -2");
    refuse_edges("0 1\n1 12345678901\n",
                 "edges:2: expected a vertex from 0 to 2, as features has 3 rows, got 12345678901");
    refuse_edges("0 1\n1\n", "edges:2: expected 2 fields as in the lines before, got 1: each line is one edge, not a "
                             "list of neighbours");
    refuse_edges("0 1\n1 2 0\n", "edges:2: expected 2 fields as in the lines before, got 3: each line is one edge, not "
                                 "a list of neighbours");
    refuse_edges("0\n1\n", "edges:1: expected two vertices of an edge, such as '0 1', got '0'");
    refuse_edges("0 1\n1 b\n", "edges:2: expected two vertices of an edge, as whole numbers from 0, got '1 b'");
    refuse_edges("0 1\n1 1.5\n", "edges:2: expected two vertices of an edge, as whole numbers from 0, got '1 1.5'");
    refuse_edges("0 b\n1 2\n", "edges:1: expected two vertices of an edge, as whole numbers from 0, got '0 b'");
    refuse_edges("0,1\n\"1,2\n", "edges:2: expected fields without an open quote, got '\"1,2'");
    refuse_edges("", "edges: expected edges, it has none");
    refuse_edges("# none\n", "edges: expected edges, it has none");
    refuse_edges("{\"0\": [1, 2]}\n",
                 "edges:1: JSON: expected plain text, a line for each record (jq's @csv or @tsv writes it)");
    refuse_edges("@absent", "absent: cannot open: No such file or directory");
}

TEST(edges_of_npy) {
    static const int64_t rows[] = {0, 1, 1, 2};
    static const int32_t columns[] = {0, 1, 1, 2, 0, 1};
    static const int32_t both[] = {0, 1, 1, 2, 1, 0, 2, 1};
    static const double doubles[] = {0, 1, 2, 1, 2, 0};
    static const uint8_t bytes[] = {0, 1, 2, 1, 2, 0};
    write_npy("e.npy", "<i8", "(2, 2)", rows, sizeof rows);
    expect_directed("@e.npy", ";0;1|1;2;",
                    "e.npy: reads its shape (2, 2) as sources and targets, as PyG's edge_index\n");
    write_npy("e.npy", "<i4", "(3, 2)", columns, sizeof columns);
    expect_edges("@e.npy", "1;0,2;1", "e.npy: 1 edge is repeated or given both ways: each counts once\n");
    write_npy("e.npy", "<i4", "(2, 4)", both, sizeof both);
    expect_edges("@e.npy", "1;0,2;1", "e.npy: 2 edges are repeated or given both ways: each counts once\n");
    write_npy("e.npy", "<f8", "(2, 3)", doubles, sizeof doubles);
    expect_directed("@e.npy", "2;0;1|1;2;0", "");
    write_npy("e.npy", "|u1", "(2, 3)", bytes, sizeof bytes);
    expect_directed("@e.npy", "2;0;1|1;2;0", "");
}

TEST(wrong_edges_of_npy) {
    static const int64_t large[] = {0, 1, 2, 1, 2, 3};
    static const int64_t negative[] = {0, 1, 2, 1, -1, 0};
    static const double half[] = {0, 1, 2, 1, 2, .5};
    static const uint64_t huge[] = {0, 1, UINT64_MAX, 1, 2, 0};
    static const bool bools[] = {true, false, true, false};
    write_npy("e.npy", "<i8", "(2, 3)", large, sizeof large);
    refuse_edges("@e.npy", "e.npy: element [1][2]: expected a vertex from 0 to 2, as features has 3 rows, got 3 "
                           "(vertices count from 0)");
    write_npy("e.npy", "<i8", "(3, 2)", negative, sizeof negative);
    refuse_edges("@e.npy", "e.npy: element [2][0]: expected a vertex from 0 to 2, as features has 3 rows, got -1");
    write_npy("e.npy", "<f8", "(2, 3)", half, sizeof half);
    refuse_edges("@e.npy", "e.npy: element [1][2]: expected a whole number of at most 63 bits, got 0.5");
    write_npy("e.npy", "<u8", "(2, 3)", huge, sizeof huge);
    refuse_edges("@e.npy", "e.npy: element [0][2]: expected a whole number of at most 63 bits, got "
                           "18446744073709551615");
    write_npy("e.npy", "|b1", "(2, 2)", bools, sizeof bools);
    refuse_edges("@e.npy", "e.npy: expected an array of vertices' numbers, got bool");
    write_npy("e.npy", "<i8", "(6,)", large, sizeof large);
    refuse_edges("@e.npy", "e.npy: expected an array of shape (2, edges) or (edges, 2), got (6,)");
    write_npy("e.npy", "<i8", "(2, 0)", NULL, 0);
    refuse_edges("@e.npy", "e.npy: expected edges, it has none");
}

/* ---- npy ---- */

static void refuse_npy(unsigned version, const char *dictionary, size_t size, const char *expected) {
    static const unsigned char zeros[64];
    write_npy_as("e.npy", version, dictionary, zeros, size);
    refuse_edges("@e.npy", expected);
}

TEST(wrong_npy) {
    refuse_npy(1, "{'descr': '>i8', 'fortran_order': False, 'shape': (2, 1), }", 16,
               "e.npy: an array of type '>i8', big-endian: expected little-endian; a = numpy.load(FILE); "
               "numpy.save(\"new.npy\", a.astype(a.dtype.newbyteorder(\"<\"))) converts it");
    refuse_npy(1, "{'descr': '<i8', 'fortran_order': True, 'shape': (2, 1), }", 16,
               "e.npy: an array in Fortran order: expected C order; numpy.save(\"new.npy\", "
               "numpy.ascontiguousarray(numpy.load(FILE))) converts it");
    refuse_npy(1, "{'descr': '|O', 'fortran_order': False, 'shape': (2, 1), }", 16,
               "e.npy: an array of Python objects (a pickle inside): expected numbers; numpy.save(\"new.npy\", "
               "numpy.load(FILE, allow_pickle=True).astype(\"float32\")) converts it, if they are numbers");
    refuse_npy(1, "{'descr': [('u', '<i8'), ('v', '<i8')], 'fortran_order': False, 'shape': (2,), }", 32,
               "e.npy: an array of a structured type: expected numbers; numpy.save(\"new.npy\", "
               "numpy.load(FILE)[\"NAME\"]) writes one of its fields");
    refuse_npy(1, "{'descr': '<U5', 'fortran_order': False, 'shape': (2,), }", 40,
               "e.npy: an array of type '<U5': expected bool, int8 to int64, uint8 to uint64, or float16 to float64");
    refuse_npy(1, "{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }", 16,
               "e.npy: an array of type '<c8': expected bool, int8 to int64, uint8 to uint64, or float16 to float64");
    refuse_npy(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }", 24,
               "e.npy: truncated: expected 112 bytes for its shape (2, 2), got 104");
    refuse_npy(2, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }", 40,
               "e.npy: too long: expected 112 bytes for its shape (2, 2), got 120");
    refuse_npy(4, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 2), }", 32,
               "e.npy: expected an .npy file of version 1 to 3");
    refuse_npy(1, "{'descr': '<i8', 'shape': (2, 2), }", 32,
               "e.npy: a header that numpy does not write: '{'descr': '<i8', 'shape': (2, 2), }'");
    refuse_npy(1, "{'descr': '<i8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 0,
               "e.npy: a header that numpy does not write: '{'descr': '<i8', 'fortran_order': False,'...");
    write_bytes("e.npy", "\x93NUMPY\x01\0\xff\x01{", 11);
    refuse_edges("@e.npy", "e.npy: truncated");
    write_bytes("e.npy", "\x93NUMPY\x02\0\xff\xff\xff\xff{", 13);
    refuse_edges("@e.npy", "e.npy: a header of 4294967295 bytes: expected at most 65536");
}

TEST(npy_versions_and_forms) {
    static const int64_t edges[] = {0, 1, 1, 2, 2, 0};
    for (unsigned version = 1; version <= 3; version++) {
        write_npy_as("e.npy", version, "{\"shape\":(3L,2L),\"descr\":\"<i8\",\"fortran_order\":False}", edges,
                     sizeof edges);
        expect_edges("@e.npy", "1,2;0,2;0,1", "");
    }
}

TEST(python_files) {
    write_bytes("d.pkl", "\x80\x04\x95\0\0", 5);
    refuse_edges("@d.pkl", "d.pkl: a Python pickle: expected text or .npy; in Python: d = pickle.load(open(FILE, "
                           "\"rb\")); numpy.save(\"new.npy\", numpy.asarray(d))");
    write_bytes("d", "\x80\x02]", 3);
    refuse_edges("@d", "d: a Python pickle: expected text or .npy; in Python: d = pickle.load(open(FILE, \"rb\")); "
                       "numpy.save(\"new.npy\", numpy.asarray(d))");
    write_bytes("d.npz", "PK\x03\x04", 4);
    refuse_edges("@d.npz", "d.npz: an archive of numpy: expected text or .npy; in Python: a = numpy.load(FILE); "
                           "print(a.files); numpy.save(\"new.npy\", a[NAME]) for each array (a sparse matrix: "
                           "scipy.io.mmwrite for edges, .toarray() for features)");
    write_bytes("d.pt", "PK\x03\x04", 4);
    refuse_edges("@d.pt", "d.pt: a PyTorch file: expected text or .npy; in Python: d = torch.load(FILE); "
                          "numpy.save(\"edges.npy\", d.edge_index.numpy()), and so for d.x, d.y and the masks");
}

TEST(pipes) {
    assert_int_equal(mkfifo("pipe", 0600), 0);
    refuse_edges("@pipe", "pipe: expected a file, not a pipe: each process of a job reads it");
}

/* ---- Features ---- */

static void expect_features(const char *features, const char *expected, const char *notes) {
    struct texts texts = {.edges = "0 1\n", .features = features, .labels = "0\n1\n0\n", .split = SPLIT};
    char all[512];
    snprintf(all, sizeof all, "1;0;||%s|0,1,0|0,1|113", expected);
    expect(&texts, all, notes);
}

static void refuse_features(const char *features, const char *expected) {
    refuse(&(struct texts){.edges = "0 1\n", .features = features, .labels = "0\n1\n0\n", .split = SPLIT}, expected);
}

TEST(features_of_libsvm) {
    expect_features("1:1 7:2\n2:.5\n3:1\n", "sparse7;0:1,6:2;1:0.5;2:1", "");
    expect_features("0:1 6:2\n2:.5\n3:1\n", "sparse7;0:1,6:2;2:0.5;3:1", "");
    expect_features("0 1:1 7:2\n1 2:.5\n0\n", "sparse7;0:1,6:2;1:0.5;",
                    "features: ignores the labels in it, as --labels is given\n");
    expect_features("# three\n0\n1 2:.5 4:0\n0 3:1\n", "sparse4;;1:0.5;2:1",
                    "features: ignores the labels in it, as --labels is given\n");
    expect_features("1:1 2:1\n1:.5\n2:3\n", "dense2;1,1;0.5,0;0,3", "");
    expect_features("1:1 3:1\n1:.5\n2:3\n", "sparse3;0:1,2:1;0:0.5;1:3", "");
}

TEST(wrong_features_of_libsvm) {
    refuse_features("0 1:1\n1 2:nan\n", "features:2: expected a finite number behind the index, got '2:nan'");
    refuse_features("0 1:1\n1 2:1e39\n", "features:2: expected a finite number behind the index, got '2:1e39'");
    refuse_features("0 1:1\n\n1 2:1\n0 3:1\n", "features:3: expected a line for each vertex: there is an empty line or "
                                               "a comment before this one");
    refuse_features("0 16777217:1\n", "features:1: expected indexes up to 16777216, got 16777217");
    refuse_features("0 0:1 16777216:1\n1\n0\n", "features: expected 1 to 16777216 features, got 16777217");
    refuse_features("0 2:1 1:1\n", "features:1: expected indexes in ascending order, got '1:1'");
}

TEST(features_of_tables) {
    expect_features("1,2\n3,0\n-.5,1e2\n", "dense2;1,2;3,0;-0.5,100", "");
    expect_features("1;2\n3;0\n-.5;\"1e2\"\n\n", "dense2;1,2;3,0;-0.5,100", "");
    expect_features(" 1  2 \n3 \t0\n-.5 1e2\n", "dense2;1,2;3,0;-0.5,100", "");
    expect_features("1\t2\n3\t0\n-.5\t 1e2", "dense2;1,2;3,0;-0.5,100", "");
    expect_features("5\n6\n7\n", "dense1;5;6;7", "");
    expect_features("a,b\n1,2\n3,0\n-.5,1e2\n", "dense2;1,2;3,0;-0.5,100", "");
    expect_features("0,1,2\n1,2,3\n3,0,1\n-.5,1e2,1\n", "dense3;1,2,3;3,0,1;-0.5,100,1",
                    "features: takes line 1 for the columns' names: it counts from 0\n");
    expect_features("id,a\n0,2\n1,0\n2,1e2\n", "dense1;2;0;100",
                    "features: takes column 1 for the vertices' numbers, not for a feature\n");
    expect_features("0,0,0,0,1\n0,0,0,2,0\n0,0,0,0,0\n", "sparse5;4:1;3:2;", "");
    expect_features("0,0,0,1\n0,0,2,0\n0,3,0,0\n", "dense4;0,0,0,1;0,0,2,0;0,3,0,0", "");
}

TEST(wrong_features_of_tables) {
    refuse_features("1,2\n3,nan\n4,5\n", "features:2: column 2: expected a finite number, got 'nan'");
    refuse_features("nan,nan\n3,4\n4,5\n", "features:1: column 1: expected a finite number, got 'nan'");
    refuse_features("1,2\n3,1e39\n4,5\n", "features:2: column 2: expected a finite number, got '1e39'");
    refuse_features("1,2\n3,\n4,5\n", "features:2: column 2: expected a finite number, got ''");
    refuse_features("1,2\n3,x\n4,5\n", "features:2: column 2: expected a finite number, got 'x'");
    refuse_features("1,2\n3,4,5\n4,5\n", "features:2: expected 2 fields as in the lines before, got 3");
    refuse_features("1,2\n3\n4,5\n", "features:2: expected 2 fields as in the lines before, got 1");
    refuse_features("1,2\n\n3,4\n4,5\n", "features:2: expected a line for each vertex, got an empty line");
    refuse_features("id,a\n0,2\n2,0\n1,1\n", "features:3: column 1: expected the vertex's number 1, in order, got '2'");
    refuse_features("0,0\n0,0\n0,0\n0,0\n", "labels has 3 rows, but features has 4: expected one of each vertex");
    refuse_features("1,2\n3,4\n", "labels has 3 rows, but features has 2: expected one of each vertex");
    refuse_features("", "features: expected a line of numbers for each vertex, it has none");
    refuse_features("a,b\n", "features: expected a line of numbers for each vertex, it has none");
    refuse_features("{\"0\": [1, 2]}\n",
                    "features:1: JSON: expected plain text, a line for each record (jq's @csv or @tsv writes it)");
}

TEST(features_of_npy) {
    static const float floats[] = {1, 2, 3, 0, -.5F, 100};
    static const double doubles[] = {0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0};
    static const uint16_t halves[] = {0x3C00, 0x4000, 0x0001, 0x8000, 0xB800, 0x7BFF}; /* 1, 2, 2^-24, -0, -.5, 65504 */
    static const int8_t bytes[] = {1, 2, 3, 0, -1, 100};
    static const bool bools[] = {true, false, true, true, false, true};
    write_npy("x.npy", "<f4", "(3, 2)", floats, sizeof floats);
    expect_features("@x.npy", "dense2;1,2;3,0;-0.5,100", "");
    write_npy("x.npy", "<f8", "(3, 5)", doubles, sizeof doubles);
    expect_features("@x.npy", "sparse5;4:1;3:2;", "");
    write_npy("x.npy", "<f2", "(3, 2)", halves, sizeof halves);
    expect_features("@x.npy", "dense2;1,2;5.96e-08,0;-0.5,6.55e+04", "");
    write_npy("x.npy", "|i1", "(3, 2)", bytes, sizeof bytes);
    expect_features("@x.npy", "dense2;1,2;3,0;-1,100", "");
    write_npy("x.npy", "|b1", "(3, 2)", bools, sizeof bools);
    expect_features("@x.npy", "dense2;1,0;1,1;0,1", "");
}

TEST(wrong_features_of_npy) {
    static const float nan[] = {1, 2, 3, NAN, -.5F, 100};
    static const uint16_t infinite[] = {0, 0, 0, 0, 0, 0xFC00};
    static const double large[] = {1, 2, 3, 4, 1e39, 6};
    write_npy("x.npy", "<f4", "(3, 2)", nan, sizeof nan);
    refuse_features("@x.npy", "x.npy: element [1][1]: expected a finite number, got nan");
    write_npy("x.npy", "<f2", "(3, 2)", infinite, sizeof infinite);
    refuse_features("@x.npy", "x.npy: element [2][1]: expected a finite number, got -inf");
    write_npy("x.npy", "<f8", "(3, 2)", large, sizeof large);
    refuse_features("@x.npy", "x.npy: element [2][0]: expected a finite number, got 1e+39");
    write_npy("x.npy", "<f8", "(6,)", large, sizeof large);
    refuse_features("@x.npy", "x.npy: expected an array of shape (vertices, features), got (6,)");
    write_npy("x.npy", "<f8", "(3, 2, 1)", large, sizeof large);
    refuse_features("@x.npy", "x.npy: expected an array of shape (vertices, features), got (3, 2, 1)");
    write_npy("x.npy", "<f8", "(2, 3)", large, sizeof large);
    refuse_features("@x.npy", "x.npy: element [1][1]: expected a finite number, got 1e+39");
    write_npy("x.npy", "<f8", "(0, 3)", NULL, 0);
    refuse_features("@x.npy", "x.npy: expected an array of shape (vertices, features), got (0, 3)");
}

/* ---- Labels ---- */

static void expect_labels(const char *labels, const char *expected, const char *notes) {
    struct texts texts = {.edges = "0 1\n", .features = "1\n2\n3\n4\n", .labels = labels, .split = "0 1\n\n\n"};
    char all[512];
    snprintf(all, sizeof all, "1;0;;||dense1;1;2;3;4|%s|1100", expected);
    expect(&texts, all, notes);
}

static void refuse_labels(const char *labels, const char *expected) {
    refuse(&(struct texts){.edges = "0 1\n", .features = "1\n2\n3\n4\n", .labels = labels, .split = "0 1\n\n\n"},
           expected);
}

TEST(labels_of_text) {
    expect_labels("10\n9\n10\n2\n", "2,1,2,0|2,9,10", "");
    expect_labels("b\na\nb\n7\n", "2,1,2,0|7,a,b", "");
    expect_labels("two words\n\"a\"\n?\nnan\n", "1,0,-1,-1|a,two words", "");
    expect_labels("0\n1\n-1\n\n", "0,1,-1,-1|0,1", "");
    expect_labels("0\n1\n\n\n\n\n", "0,1,-1,-1|0,1", "");
    expect_labels("0.0\n1\n+1\n-1.0", "0,1,1,-1|0.0,1", "");
    expect_labels("label\n0\n1\n1\n0\n", "0,1,1,0|0,1", "labels: takes line 1, 'label', for the column's name\n");
    expect_labels("label\nb\na\na\nb\n", "1,0,0,1|a,b", "labels: takes line 1, 'label', for the column's name\n");
}

TEST(wrong_labels) {
    refuse_labels("0\n1\n0\n", "labels has 3 rows, but features has 4: expected one of each vertex");
    refuse_labels("0\n1\n0\n1\n0\n", "labels has 5 rows, but features has 4: expected one of each vertex");
    refuse_labels("0,1\n1,0\n0,1\n0,1\n", "labels:1: expected one label in each line, got '0,1'");
    refuse_labels("0 1\n1 0\n0 1\n0 1\n", "labels:1: expected one label in each line, got '0 1'");
    refuse_labels("0\n0\n0\n1\n", "split: expected training vertices of at least 2 classes, all are of '0' (a label -1 "
                                  "means: not known)");
    refuse_labels("0\n-1\n0\n1\n", "split:1: vertex 1 is for training, but has no label");
    refuse_labels("0\n1\n0\n01234567890123456789012345678901234567890123456789012345\n",
                  "labels:4: expected a label of at most 55 printable bytes, got "
                  "'0123456789012345678901234567890123456789'...");
    refuse(&(struct texts){.edges = "0 1\n", .features = "1\n2\n", .split = SPLIT},
           "--labels: expected a file of labels, as features has none");
}

TEST(labels_that_are_no_classes) {
    char text[512] = "";
    char rows[512] = "";
    for (unsigned v = 0; v < 30; v++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%u.5\n", v);
        snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "1\n");
    }
    refuse(&(struct texts){.edges = "0 1\n", .features = rows, .labels = text, .split = SPLIT},
           "labels: 30 different labels, such as 0.5 and 29.5, are a quantity or names: expected classes with several "
           "vertices each");
}

TEST(labels_of_npy) {
    static const int64_t ints[] = {10, 9, -1, 2};
    static const uint8_t bytes[] = {1, 0, 1, 0};
    static const float floats[] = {3, 5000, NAN, 3};
    static const float half[] = {3, .5F, NAN, 3};
    write_npy("y.npy", "<i8", "(4,)", ints, sizeof ints);
    expect_labels("@y.npy", "2,1,-1,0|2,9,10", "");
    write_npy("y.npy", "|u1", "(4, 1)", bytes, sizeof bytes);
    expect_labels("@y.npy", "1,0,1,0|0,1", "");
    write_npy("y.npy", "<f4", "(4,)", floats, sizeof floats);
    expect_labels("@y.npy", "0,1,-1,0|3,5000", "");
    write_npy("y.npy", "<f4", "(4,)", half, sizeof half);
    refuse_labels("@y.npy", "y.npy: element [1]: expected a whole number or nan, got 0.5");
    write_npy("y.npy", "|u1", "(2, 2)", bytes, sizeof bytes);
    refuse_labels("@y.npy", "y.npy: expected an array of shape (vertices,), a label for each, got (2, 2)");
    write_npy("y.npy", "|u1", "(3,)", bytes, 3);
    refuse_labels("@y.npy", "y.npy has 3 rows, but features has 4: expected one of each vertex");
}

TEST(graphs_without_features) {
    expect(&(struct texts){.edges = "0 1\n", .labels = "a\nb\n\n\n", .split = "0 1\n\n\n"}, "1;0|||0,1|a,b|11", "");
    refuse(&(struct texts){.edges = "0 1\n"}, "--features: expected a file of features, a row for each vertex, or "
                                              "--labels");
    refuse(&(struct texts){.features = "1\n"}, "--edges: expected a file of edges");
}

TEST(graphs_to_predict) {
    expect(&(struct texts){.edges = "0 1\n", .features = "1:1\n2:1\n", .predict = true}, "1;0||dense2;1,0;0,1|||", "");
    expect(&(struct texts){.edges = "0 1\n", .features = "3 1:1\n3 2:1\n", .predict = true},
           "1;0||dense2;1,0;0,1|0,0|3|", "");
    expect(&(struct texts){.edges = "0 1\n", .features = "3 1:1\n3 2:1\n", .split = "\n\n0\n", .predict = true},
           "1;0||dense2;1,0;0,1|0,0|3|30", "");
}

/* ---- Splits ---- */

static const char five[] = "0 1:1\n1 1:1\n0 1:1\n1 1:1\n-1 1:1\n";

static void expect_split(const char *split, const char *expected) {
    char all[512];
    snprintf(all, sizeof all, "1;0;;;||dense1;1;1;1;1;1|0,1,0,1,-1|0,1|%s", expected);
    expect(&(struct texts){.edges = "0 1\n", .features = five, .split = split}, all, "");
}

static void refuse_split(const char *split, const char *expected) {
    refuse(&(struct texts){.edges = "0 1\n", .features = five, .split = split}, expected);
}

TEST(splits_of_text) {
    expect_split("0 1\n2\n3\n", "11230");
    expect_split("# a split\n0,1\r\n\r\n3;2,\r\n\r\n", "11330");
    expect_split("train 0 1\nval 2\ntest 3\n", "11230");
    expect_split("Test: 3\nvalidation,2\ntrain:0 1", "11230");
    write_text("train.csv", "0\n1\n");
    write_text("valid.csv", "2\n");
    write_text("test.csv", "");
    expect_split("@train.csv,valid.csv,test.csv", "11200");
    write_text("a,b", "0 1\n2\n3\n");
    expect_split("@a,b", "11230");
}

TEST(splits_of_npy) {
    static const bool training[] = {true, true, false, false, false};
    static const uint8_t validation[] = {0, 0, 1, 0, 0};
    static const int32_t test[] = {3};
    static const int64_t numbers[] = {1, 0};
    write_npy("a.npy", "|b1", "(5,)", training, sizeof training);
    write_npy("b.npy", "|u1", "(5,)", validation, sizeof validation);
    write_npy("c.npy", "<i4", "(1,)", test, sizeof test);
    expect_split("@a.npy,b.npy,c.npy", "11230");
    write_npy("a.npy", "<i8", "(2,)", numbers, sizeof numbers);
    write_npy("b.npy", "<i8", "(0,)", NULL, 0);
    expect_split("@a.npy,b.npy,c.npy", "11030");
}

TEST(wrong_splits) {
    refuse_split("0 1\n2\n", "split: expected three lines (training, validation, test), got fewer");
    refuse_split("0 1\n2\n3\n4\n", "split:4: expected three lines (training, validation, test), or three files");
    refuse_split("train 0\ntrain 1\ntest 2\n", "split:2: a second line for training: expected one for each split");
    refuse_split("0 1\n2\n5\n", "split:3: expected a vertex from 0 to 4, as features has 5 rows, got 5 (vertices count "
                                "from 0)");
    refuse_split("0 1\n1\n3\n", "split:2: vertex 1 is for validation and training: expected it once");
    refuse_split("0 1\n2\n2\n", "split:3: vertex 2 is for test and validation: expected it once");
    refuse_split("test 0\ntrain 1 0\n3\n", "split:2: vertex 0 is for training and test: expected it once");
    refuse_split("0 1 0\n2\n3\n", "split:1: vertex 0 is for training already: expected it once");
    refuse_split("0 1\n2\n4\n", "split:3: vertex 4 is for test, but has no label");
    refuse_split("0 x\n2\n4\n", "split:1: expected vertices' numbers, got 'x'");
    refuse_split("\n2\n3\n", "split: expected vertices for training, there are none");
    refuse_split("0 2\n1\n3\n", "split: expected training vertices of at least 2 classes, all are of '0' (a label -1 "
                                "means: not known)");
    refuse_split(NULL, "--split or --train-per-class: expected one of them, to train on");
    write_text("train.csv", "0\n1\n");
    refuse_split("@train.csv,/tmp/test.csv,valid.csv", "--split: expected the files of training, validation and test "
                                                       "in this order, got '/tmp/test.csv' for validation");
    refuse_split("@train.csv,train.csv", "--split: expected a file, or three separated by commas (training, "
                                         "validation, test), got 'train.csv,train.csv'");
    refuse_split("@train.csv,,train.csv", "--split: expected a file, or three separated by commas (training, "
                                          "validation, test), got 'train.csv,,train.csv'");
}

TEST(wrong_splits_of_npy) {
    static const bool mask[10] = {true, true};
    static const int64_t numbers[] = {1, 0, 5};
    write_npy("a.npy", "|b1", "(5, 2)", mask, sizeof mask);
    refuse_split("@a.npy,a.npy,a.npy", "a.npy: expected a mask of shape (vertices,) or an array of vertices' numbers, "
                                       "got shape (5, 2)");
    write_npy("a.npy", "|b1", "(4,)", mask, 4);
    refuse_split("@a.npy,a.npy,a.npy", "a.npy: expected a mask of 5 elements, as features has 5 rows, got 4");
    write_npy("a.npy", "<i8", "(3,)", numbers, sizeof numbers);
    refuse_split("@a.npy,a.npy,a.npy", "a.npy: element [2]: expected a vertex from 0 to 4, as features has 5 rows, got "
                                       "5 (vertices count from 0)");
    refuse_split("@a.npy", "a.npy: expected text of three lines, or three files TRAINING,VALIDATION,TEST");
    write_npy("b.npy", "<i8", "(2,)", numbers, 2 * sizeof *numbers);
    refuse_split("@b.npy,b.npy,b.npy", "b.npy: element [0]: vertex 1 is for validation and training: expected it once");
}

TEST(splits_are_chosen) {
    struct texts texts = {.edges = "0 1\n",
                          .features = "0 1:1\n1 1:1\n0 1:1\n1 1:1\n0 1:1\n-1 1:1\n1 1:1\n",
                          .training = 1,
                          .validation = 1};
    struct graph graph;
    struct notes notes;
    struct error error;
    assert_int_equal(read_texts(&texts, &graph, &notes, &error), 0);
    unsigned counts[2][4] = {{0}};
    for (uint32_t v = 0; v < graph.vertices; v++) {
        if (graph.labels[v] < 0) {
            assert_int_equal(graph.splits[v], GRAPH_UNUSED);
        } else {
            counts[graph.labels[v]][graph.splits[v]]++;
        }
    }
    for (unsigned c = 0; c < 2; c++) {
        assert_int_equal(counts[c][GRAPH_TRAIN], 1);
        assert_int_equal(counts[c][GRAPH_VALIDATION], 1);
        assert_int_equal(counts[c][GRAPH_TEST], 1);
    }
    graph_close(&graph);
    texts.training = 3;
    refuse(&texts, "--train-per-class: class '0' has 3 vertices: expected at least 3 + 1 for training and validation");
    texts.training = 0;
    refuse(&texts, "--train-per-class: expected at least 1");
    texts.training = 1;
    texts.split = SPLIT;
    refuse(&texts, "--split: expected it without --train-per-class");
}

/* ---- Averages ---- */

static void expect_average(const struct texts *texts, enum graph_average average, const char *expected) {
    struct graph graph;
    struct notes notes;
    struct error error;
    struct print print = {.used = 0};
    assert_int_equal(read_texts(texts, &graph, &notes, &error), 0);
    assert_int_equal(graph_aggregate(&graph, average, UINT64_MAX, &error), 0);
    print_features(&print, &graph.aggregated, graph.vertices);
    assert_string_equal(print.text, expected);
    graph_close(&graph);
}

TEST(averages) {
    /* 0 - 1 - 2 - 3, 1 - 3: degrees 1, 3, 2, 2; with own edges 2, 4, 3, 3; and 4 alone */
    struct texts texts = {.edges = "0 1\n1 2\n2 3\n3 1\n", .predict = true};
    texts.features = "1:1\n2:1\n3:6\n9:6\n1:5\n";
    expect_average(&texts, GRAPH_SYMMETRIC,
                   "sparse9;0:0.5,1:0.3536;0:0.3536,1:0.25,2:1.732,8:1.732;1:0.2887,2:2,8:2;1:0.2887,2:2,8:2;0:5");
    expect_average(&texts, GRAPH_MEAN, "sparse9;1:1;0:0.3333,2:2,8:2;1:0.5,8:3;1:0.5,2:3;");
    texts.features = "1 0\n0 1\n6 0\n0 6\n5 5\n";
    expect_average(&texts, GRAPH_SYMMETRIC, "dense2;0.5,0.3536;2.086,1.982;2,2.289;2,2.289;5,5");
    expect_average(&texts, GRAPH_MEAN, "dense2;0,1;2.333,2;0,3.5;3,0.5;0,0");
}

TEST(averages_of_directed_graphs) {
    struct texts texts = {.edges = "0 1\n2 1\n", .features = "1:1\n2:1\n9:4\n", .directed = true, .predict = true};
    expect_average(&texts, GRAPH_SYMMETRIC, "sparse9;0:1;0:0.5774,1:0.3333,8:2.309;8:4");
    expect_average(&texts, GRAPH_MEAN, "sparse9;;0:0.5,8:2;");
}

TEST(averages_stop_at_the_limit) {
    struct texts texts = {.edges = "0 1\n1 2\n2 3\n3 1\n", .features = "1:1\n2:1\n3:6\n9:6\n1:5\n", .predict = true};
    struct graph graph;
    struct notes notes;
    struct error error;
    assert_int_equal(read_texts(&texts, &graph, &notes, &error), 0);
    assert_int_equal(graph_aggregate(&graph, GRAPH_SYMMETRIC, 12, &error), 1);
    assert_int_equal(graph.aggregated.columns, 0);
    assert_null(graph.aggregated.values);
    assert_int_equal(graph_aggregate(&graph, GRAPH_SYMMETRIC, 13, &error), 0);
    assert_int_equal(graph.aggregated.offsets[graph.vertices], 13);
    graph_close(&graph);
    texts.features = "1 2\n3 4\n5 6\n7 8\n9 10\n";
    assert_int_equal(read_texts(&texts, &graph, &notes, &error), 0);
    assert_int_equal(graph_aggregate(&graph, GRAPH_MEAN, 9, &error), 1);
    assert_int_equal(graph_aggregate(&graph, GRAPH_MEAN, 10, &error), 0);
    graph_close(&graph);
}

/* ---- Random graphs ---- */

enum { RANDOM_VERTICES = 60, RANDOM_EDGES = 300, RANDOM_COLUMNS = 9000, RANDOM_VALUES = 40 };

struct random_graph {
    struct graph graph;
    bool edge[RANDOM_VERTICES][RANDOM_VERTICES]; /* from, to */
    uint64_t own, repeated;
};

static void make_random_graph(struct random_graph *random, uint64_t seed, bool directed) {
    uint32_t pairs[RANDOM_EDGES][2];
    struct error error = {0};
    *random = (struct random_graph){.graph.vertices = RANDOM_VERTICES};
    for (unsigned e = 0; e < RANDOM_EDGES; e++) {
        const uint32_t u = (uint32_t)(hash_seeded(seed, 2 * e) % (RANDOM_VERTICES - 5)); /* some have no edge */
        const uint32_t v = (uint32_t)(hash_seeded(seed, 2 * e + 1) % (RANDOM_VERTICES - 5));
        pairs[e][0] = u;
        pairs[e][1] = v;
        random->own += u == v;
        random->repeated += u != v && random->edge[u][v];
        random->edge[u][v] = u != v;
        random->edge[v][u] = u != v && (!directed || random->edge[v][u]);
    }
    assert_int_equal(graph_set_edges(&random->graph, pairs[0], RANDOM_EDGES, directed, &error), 0);
}

TEST(lists_of_random_pairs) {
    for (uint64_t seed = 0; seed < 20; seed++) {
        const bool directed = seed % 2 == 1;
        struct random_graph random;
        make_random_graph(&random, seed, directed);
        const struct graph *graph = &random.graph;
        uint64_t in = 0;
        uint64_t out = 0;
        for (uint32_t v = 0; v < RANDOM_VERTICES; v++) {
            for (uint32_t u = 0; u < RANDOM_VERTICES; u++) {
                if (random.edge[u][v]) {
                    assert_int_equal(graph->in.ids[in++], u);
                }
                if (directed && random.edge[v][u]) {
                    assert_int_equal(graph->out.ids[out++], u);
                }
            }
            assert_int_equal(graph->in.offsets[v + 1], in);
            assert_true(!directed || graph->out.offsets[v + 1] == out);
        }
        assert_int_equal(graph->own_edges, random.own);
        assert_int_equal(graph->repeated_edges, random.repeated);
        graph_close(&random.graph);
    }
}

/* Gives each vertex some features, dense or sparse. */
static void set_random_features(struct graph *graph, uint64_t seed, bool dense, float *all) {
    struct graph_features *features = &graph->features;
    *features = (struct graph_features){.columns = RANDOM_COLUMNS, .dense = dense};
    for (size_t i = 0; i < (size_t)RANDOM_VERTICES * RANDOM_VALUES; i++) {
        const size_t column = hash_seeded(seed, i) % RANDOM_COLUMNS;
        all[i / RANDOM_VALUES * RANDOM_COLUMNS + column] = (float)(hash_seeded(seed, ~i) % 1000) / 100 - 5;
    }
    const size_t size = (size_t)RANDOM_VERTICES * RANDOM_COLUMNS;
    features->values = malloc(size * sizeof *features->values);
    features->at = dense ? NULL : malloc(size * sizeof *features->at);
    features->offsets = dense ? NULL : calloc(RANDOM_VERTICES + 1, sizeof *features->offsets);
    uint64_t count = 0;
    for (size_t i = 0; i < size; i++) {
        if (dense || all[i] != 0) {
            features->values[count++] = all[i];
        }
        if (!dense && all[i] != 0) {
            features->at[count - 1] = (uint32_t)(i % RANDOM_COLUMNS);
            features->offsets[i / RANDOM_COLUMNS + 1] = count;
        }
    }
    for (size_t v = 0; v < RANDOM_VERTICES && !dense; v++) { /* a vertex may have none */
        const uint64_t before = features->offsets[v];
        features->offsets[v + 1] = features->offsets[v + 1] > before ? features->offsets[v + 1] : before;
    }
}

static void count_degrees(const struct random_graph *random, double degrees[RANDOM_VERTICES]) {
    for (uint32_t v = 0; v < RANDOM_VERTICES; v++) {
        degrees[v] = 0;
        for (uint32_t u = 0; u < RANDOM_VERTICES; u++) {
            degrees[v] += random->edge[u][v];
        }
    }
}

/* Returns the average of a column at a vertex, by the definition. */
static double average_of(const struct random_graph *random, const double *degrees, const float *all,
                         enum graph_average average, uint32_t v, uint32_t column) {
    double sum = 0;
    for (uint32_t u = 0; u < RANDOM_VERTICES; u++) {
        const double value = (double)all[(size_t)u * RANDOM_COLUMNS + column];
        if (average == GRAPH_MEAN && random->edge[u][v]) {
            sum += value / degrees[v];
        } else if (average == GRAPH_SYMMETRIC && (u == v || random->edge[u][v])) {
            sum += value / sqrt((degrees[u] + 1) * (degrees[v] + 1));
        }
    }
    return sum;
}

static void check_averages(const struct random_graph *random, const float *all, enum graph_average average) {
    const struct graph_features *made = &random->graph.aggregated;
    double degrees[RANDOM_VERTICES];
    count_degrees(random, degrees);
    assert_int_equal(made->dense, random->graph.features.dense);
    for (uint32_t v = 0; v < RANDOM_VERTICES; v += 7) {
        uint64_t at = made->dense ? 0 : made->offsets[v];
        for (uint32_t c = 0; c < RANDOM_COLUMNS; c++) {
            float got = made->dense ? made->values[(size_t)v * RANDOM_COLUMNS + c] : 0;
            if (!made->dense && at < made->offsets[v + 1] && made->at[at] == c) {
                got = made->values[at++];
            }
            const double expected = average_of(random, degrees, all, average, v, c);
            assert_true(fabs((double)got - expected) <= 1e-6 * (1 + fabs(expected)));
        }
        assert_true(made->dense || at == made->offsets[v + 1]);
    }
}

TEST(averages_of_random_graphs) {
    for (unsigned form = 0; form < 8; form++) {
        struct random_graph random;
        struct error error = {0};
        float *all = calloc((size_t)RANDOM_VERTICES * RANDOM_COLUMNS, sizeof *all);
        const enum graph_average average = (form & 1) != 0 ? GRAPH_MEAN : GRAPH_SYMMETRIC;
        make_random_graph(&random, form, (form & 2) != 0);
        set_random_features(&random.graph, form, (form & 4) != 0, all);
        assert_int_equal(graph_aggregate(&random.graph, average, UINT64_MAX, &error), 0);
        check_averages(&random, all, average);
        graph_close(&random.graph);
        free(all);
    }
}

/* ---- Known graphs ---- */

struct known {
    const char *name;
    uint32_t vertices;
    uint64_t edges, nonzeros;
    uint32_t columns, classes;
    uint64_t training, validation, test; /* 0: no public split */
    bool dense;
};

static uint64_t count_split(const struct graph *graph, enum graph_split split) {
    uint64_t count = 0;
    for (uint32_t v = 0; v < graph->vertices; v++) {
        count += graph->splits[v] == split;
    }
    return count;
}

static uint64_t count_nonzeros(const struct graph_features *features, uint32_t vertices) {
    uint64_t count = 0;
    const uint64_t values = features->dense ? (uint64_t)vertices * features->columns : features->offsets[vertices];
    for (uint64_t i = 0; i < values; i++) {
        count += features->values[i] != 0;
    }
    return count;
}

static void check_lists(const struct graph *graph) {
    for (uint32_t v = 0; v < graph->vertices; v++) {
        for (uint64_t e = graph->in.offsets[v]; e < graph->in.offsets[v + 1]; e++) {
            assert_true(graph->in.ids[e] < graph->vertices && graph->in.ids[e] != v);
            assert_true(e == graph->in.offsets[v] || graph->in.ids[e] > graph->in.ids[e - 1]);
        }
    }
}

static void check_known(const struct known *known) {
    const char *source = getenv("PROTEUS_SOURCE");
    char folder[2048];
    char edges[4096];
    char features[4096];
    char split[4096];
    snprintf(folder, sizeof folder, "%s/../shared/data/graph-%s", source != NULL ? source : ".", known->name);
    snprintf(edges, sizeof edges, "%s/%s.edges.gz", folder, known->name);
    snprintf(features, sizeof features, "%s/%s.features.gz", folder, known->name);
    snprintf(split, sizeof split, "%s/%s.split.gz", folder, known->name);
    if (access(edges, R_OK) != 0) {
        print_message("skipped: %s isn't there\n", edges);
        skip();
    }
    struct graph_input input = {.edges = edges, .features = features, .seed = 1};
    if (known->training > 0) {
        input.split = split;
    } else {
        input.train_per_class = 20;
        input.validation_per_class = 30;
    }
    struct graph graph;
    struct error error = {0};
    struct notes notes = {""};
    if (graph_input_read(&input, true, &graph, take_note, &notes, &error) != 0) {
        fail_msg("%s: %s", known->name, error.text);
    }
    assert_string_equal(notes.text, "");
    assert_int_equal(graph.vertices, known->vertices);
    assert_int_equal(graph.in.offsets[graph.vertices], 2 * known->edges);
    assert_null(graph.out.offsets);
    assert_int_equal(graph.features.columns, known->columns);
    assert_int_equal(graph.features.dense, known->dense);
    assert_int_equal(count_nonzeros(&graph.features, graph.vertices), known->nonzeros);
    assert_int_equal(graph.classes, known->classes);
    assert_int_equal(strtoul(graph.class_names[known->classes - 1], NULL, 10), known->classes - 1);
    assert_int_equal(count_split(&graph, GRAPH_TRAIN), known->training > 0 ? known->training : 20 * known->classes);
    assert_int_equal(count_split(&graph, GRAPH_VALIDATION),
                     known->training > 0 ? known->validation : 30 * known->classes);
    assert_int_equal(count_split(&graph, GRAPH_TEST),
                     known->training > 0 ? known->test : known->vertices - 50 * known->classes);
    check_lists(&graph);
    graph_close(&graph);
}

TEST(cora) {
    check_known(&(struct known){.name = "cora",
                                .vertices = 2708,
                                .edges = 5278,
                                .nonzeros = 49216,
                                .columns = 1433,
                                .classes = 7,
                                .training = 140,
                                .validation = 500,
                                .test = 1000});
}

TEST(citeseer) {
    check_known(&(struct known){.name = "citeseer",
                                .vertices = 3327,
                                .edges = 4552,
                                .nonzeros = 105165,
                                .columns = 3703,
                                .classes = 6,
                                .training = 120,
                                .validation = 500,
                                .test = 1000});
}

TEST(amazon_photo) {
    check_known(&(struct known){
        .name = "amazon-photo", .vertices = 7650, .edges = 119081, .nonzeros = 1979909, .columns = 745, .classes = 8});
}

TEST(amazon_computers) {
    check_known(&(struct known){.name = "amazon-computers",
                                .vertices = 13752,
                                .edges = 245861,
                                .nonzeros = 3675081,
                                .columns = 767,
                                .classes = 10});
}

TEST(coauthor_cs) {
    check_known(&(struct known){
        .name = "coauthor-cs", .vertices = 18333, .edges = 81894, .nonzeros = 1092079, .columns = 6805, .classes = 15});
}

TEST(coauthor_physics) {
    check_known(&(struct known){.name = "coauthor-physics",
                                .vertices = 34493,
                                .edges = 247962,
                                .nonzeros = 1137311,
                                .columns = 8415,
                                .classes = 5});
}

int main(void) {
    return tests_run(files_open, files_close);
}
