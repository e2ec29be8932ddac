/* apps/gnn/pack.c: a packed graph has all of its intervals and a summary that adds up; whatever is missing, foreign,
 * changed or left over is refused with one line that names it; a failure while packing leaves no part. */
#include "apps/gnn/pack.h"

#include "agileml.h"
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "apps/little_endian.h"
#include "tests/files.h"
#include "tests/test.h"
#include "tests/unit/gnn_graphs.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { BOTH = INTERVAL_FEATURES | INTERVAL_AGGREGATED, INTERVALS = 40, FILE_MAX = 1 << 22 };

/* Takes about 9 parts of the least size. */
static const struct graphs_kind made = {.vertices = 6000,
                                        .edges = 40000,
                                        .blocks = 8,
                                        .isolated = 11,
                                        .columns = 64,
                                        .dense = true,
                                        .classes = 5,
                                        .seed = 1};

struct packed {
    struct graph graph;
    struct graph_partition partition;
    struct pack_summary summary; /* as it was opened */
};

static void packed_make(struct packed *packed, const struct graphs_kind *kind, uint32_t intervals) {
    struct error error = {0};
    *packed = (struct packed){.summary = {.graph = 0}};
    graphs_make(&packed->graph, kind);
    assert_int_equal(graph_partition_make(&packed->graph, intervals, &packed->partition, NULL, NULL, &error), 0);
}

static void assert_right(int result, const struct error *error) {
    assert_string_equal(error->text, "");
    assert_int_equal(result, 0);
}

static void write_pack(const struct packed *packed, const char *folder, unsigned carried) {
    struct error error = {0};
    int result = pack_write(folder, &packed->graph, &packed->partition, carried, GRAPH_MEAN, NULL, NULL, &error);
    assert_right(result, &error);
}

static void packed_open(struct packed *packed, const struct graphs_kind *kind, uint32_t intervals, unsigned carried) {
    struct error error = {0};
    packed_make(packed, kind, intervals);
    write_pack(packed, "graph", carried);
    assert_right(pack_open("graph", &packed->summary, &error), &error);
}

static void packed_close(struct packed *packed) {
    graphs_close(&packed->graph);
    graph_partition_close(&packed->partition);
    pack_summary_close(&packed->summary);
}

static void assert_message(int result, const struct error *error, int expected, const char *text) {
    assert_int_equal(result, expected);
    assert_int_equal(error->code, expected);
    assert_null(strchr(error->text, '\n'));
    if (strstr(error->text, text) == NULL) {
        fail_msg("'%s' does not have '%s'", error->text, text);
    }
}

static const char *part_name(uint32_t number) {
    static char name[32];
    snprintf(name, sizeof name, "graph/part-%05u.graph", number);
    return name;
}

/* ---- Whole graphs ---- */

struct reading {
    const struct packed *packed;
    unsigned carried;
    struct interval_bytes expected;
    uint32_t next; /* interval */
};

static int each_interval(void *context, const void *bytes, size_t size) {
    struct reading *reading = context;
    const struct packed *packed = reading->packed;
    struct error error = {0};
    assert_int_equal((uintptr_t)bytes % 4, 0);
    assert_int_equal(interval_encode(&packed->graph, &packed->partition, reading->next++, reading->carried,
                                     &reading->expected, &error),
                     0);
    assert_int_equal(size, reading->expected.size);
    assert_memory_equal(bytes, reading->expected.bytes, size);
    return 0;
}

static void assert_summary(const struct packed *packed, unsigned carried) {
    const struct pack_summary *summary = &packed->summary;
    const struct graph *graph = &packed->graph;
    assert_int_equal(summary->vertices, graph->vertices);
    assert_int_equal(summary->intervals, packed->partition.intervals);
    assert_int_equal(summary->directed, graph->directed);
    assert_int_equal(summary->carried, carried);
    assert_int_equal(summary->average, GRAPH_MEAN);
    assert_int_equal(summary->columns, carried != 0 ? graph->features.columns : 0);
    assert_int_equal(summary->dense, (carried & INTERVAL_FEATURES) != 0 && graph->features.dense);
    assert_int_equal(summary->aggregated_dense, (carried & INTERVAL_AGGREGATED) != 0 && graph->aggregated.dense);
    assert_int_equal(summary->entries, graph->in.offsets[graph->vertices]);
    assert_int_equal(summary->cut, packed->partition.cut);
    assert_int_equal(summary->ghosts, packed->partition.ghosts);
    assert_int_equal(summary->classes, graph->classes);
    uint64_t counts[4] = {0};
    for (uint32_t v = 0; v < graph->vertices && graph->labels != NULL; v++) {
        counts[graph->splits[v]] += graph->labels[v] >= 0;
        assert_true(graph->labels[v] < 0 || summary->class_counts[4 * graph->labels[v] + graph->splits[v]] > 0);
    }
    assert_int_equal(summary->train, counts[GRAPH_TRAIN]);
    assert_int_equal(summary->validation, counts[GRAPH_VALIDATION]);
    assert_int_equal(summary->test, counts[GRAPH_TEST]);
    uint64_t unused = 0;
    for (uint32_t c = 0; c < graph->classes; c++) {
        assert_string_equal(summary->class_names[c], graph->class_names[c]);
        unused += summary->class_counts[4 * (size_t)c];
    }
    assert_int_equal(unused, counts[GRAPH_UNUSED]);
}

/* Packs, opens and reads a graph; its intervals are those that are encoded. Returns the number of parts. */
static uint32_t assert_whole(const struct graphs_kind *kind, uint32_t intervals, unsigned carried) {
    CLOSED_BY(packed_close) struct packed packed;
    struct error error = {0};
    packed_open(&packed, kind, intervals, carried);
    assert_summary(&packed, carried);
    assert_int_equal(files_in("graph"), packed.summary.parts);
    struct reading reading = {.packed = &packed, .carried = carried};
    for (uint32_t p = 0; p < packed.summary.parts; p++) {
        uint32_t before = reading.next;
        assert_right(pack_read(part_name(p), &packed.summary, each_interval, &reading, &error), &error);
        assert_true(reading.next > before);
        assert_int_equal(unlink(part_name(p)), 0);
    }
    assert_int_equal(reading.next, intervals);
    assert_int_equal(rmdir("graph"), 0);
    free(reading.expected.bytes);
    return packed.summary.parts;
}

TEST(whole_graphs) {
    for (unsigned form = 0; form < 8; form++) {
        struct graphs_kind kind = made;
        kind.vertices = 2000;
        kind.directed = (form & 1) != 0;
        kind.dense = (form & 2) != 0;
        kind.classes = (form & 4) != 0 ? 0 : 5;
        kind.aggregated = true;
        for (unsigned carried = 0; carried <= BOTH; carried++) {
            assert_whole(&kind, INTERVALS, carried);
        }
    }
}

TEST(numbers_of_parts) {
    struct graphs_kind kind = made;
    assert_in_range(assert_whole(&kind, INTERVALS, INTERVAL_FEATURES), 5, 12);
    kind.vertices = 100;
    kind.edges = 500;
    assert_int_equal(assert_whole(&kind, INTERVALS, 0), 1);
    assert_int_equal(assert_whole(&kind, 1, INTERVAL_FEATURES), 1);
    kind.vertices = 40000;
    kind.columns = 128;
    assert_int_equal(assert_whole(&kind, 200, INTERVAL_FEATURES), PACK_PARTS_WANTED);
    assert_int_equal(assert_whole(&kind, 63, INTERVAL_FEATURES), 63);
}

static void progressed(void *context, double done) {
    double *last = context;
    assert_true(done >= *last && done <= 1);
    *last = done;
}

/* The same graph has the same hash and bytes, and another graph, order or choice of contents has another hash. */
TEST(hashes) {
    CLOSED_BY(packed_close) struct packed packed;
    struct pack_summary other;
    struct error error = {0};
    double last = 0;
    packed_open(&packed, &made, INTERVALS, INTERVAL_FEATURES);
    int result =
        pack_write("again", &packed.graph, &packed.partition, INTERVAL_FEATURES, GRAPH_MEAN, progressed, &last, &error);
    assert_right(result, &error);
    assert_true(last == 1);
    assert_right(pack_open("again/", &other, &error), &error);
    assert_int_equal(other.graph, packed.summary.graph);
    pack_summary_close(&other);
    packed.graph.class_names[3][0] = 'K';
    for (unsigned change = 0; change < 3; change++) {
        const char *folders[] = {"name", "split", "structure"};
        packed.partition.firsts[1] -= change == 1;
        write_pack(&packed, folders[change], change == 2 ? 0 : INTERVAL_FEATURES);
        assert_right(pack_open(folders[change], &other, &error), &error);
        assert_int_not_equal(other.graph, packed.summary.graph);
        pack_summary_close(&other);
    }
}

/* ---- Damage ---- */

static size_t read_part(uint32_t number, unsigned char *bytes) {
    return read_bytes(part_name(number), bytes, FILE_MAX);
}

/* Writes a part whose bytes were changed, with right checksums of head and file. */
static void write_part(uint32_t number, unsigned char *bytes, size_t size) {
    uint32_t head = get32(bytes + 12);
    put32(bytes + head - 4, (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, head - 4));
    put32(bytes + size - 4, (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, size - 4));
    write_bytes(part_name(number), bytes, size);
}

static int ignore_interval(void *context, const void *bytes, size_t size) {
    unsigned *count = context;
    (*count)++;
    return *count == 1000 ? -1000 : 0;
}

static void assert_open_fails(const char *text) {
    struct pack_summary summary;
    struct error error = {0};
    assert_message(pack_open("graph", &summary, &error), &error, AML_EINPUT, text);
    assert_null(summary.class_names);
}

static void assert_opens(void) {
    struct pack_summary summary;
    struct error error = {0};
    assert_right(pack_open("graph", &summary, &error), &error);
    pack_summary_close(&summary);
}

static void assert_read_fails(const struct packed *packed, uint32_t number, const char *text) {
    struct error error = {0};
    unsigned count = 0;
    int result = pack_read(part_name(number), &packed->summary, ignore_interval, &count, &error);
    assert_message(result, &error, AML_EINPUT, text);
    assert_non_null(strstr(error.text, part_name(number)));
}

TEST(missing_parts) {
    CLOSED_BY(packed_close) struct packed packed;
    packed_open(&packed, &made, INTERVALS, INTERVAL_FEATURES);
    assert_int_equal(rename(part_name(3), "elsewhere"), 0);
    assert_open_fails("graph: part-00003.graph of the graph's ");
    assert_read_fails(&packed, 3, "No such file");
    assert_int_equal(rename("elsewhere", part_name(3)), 0);
    assert_int_equal(rename(part_name(0), "elsewhere"), 0);
    assert_open_fails("part-00000.graph of");
    assert_int_equal(rename("elsewhere", part_name(0)), 0);
    assert_opens();
}

TEST(foreign_files) {
    CLOSED_BY(packed_close) struct packed packed;
    packed_open(&packed, &made, INTERVALS, INTERVAL_FEATURES);
    static const char *const names[] = {"graph/notes.txt",           "graph/part-00001.graph.Ab3dEf",
                                        "graph/part-1.graph",        "graph/part-32767.graph",
                                        "graph/part-99999999.graph", "graph/part-000010.graph"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        write_text(names[n], "");
        assert_open_fails(names[n] + 6);
        assert_int_equal(unlink(names[n]), 0);
    }
    assert_int_equal(mkdir("graph/part-00020.graph", 0755), 0);
    assert_open_fails("'part-00020.graph'");
    assert_int_equal(rmdir("graph/part-00020.graph"), 0);
    write_text("graph/.hidden", "");
    assert_opens();
    write_text(part_name(packed.summary.parts), "");
    assert_open_fails("parts: it belongs to another graph");
}

/* A part of a graph with another label, of the same partition with other features, and a part under another's name. */
TEST(foreign_parts) {
    CLOSED_BY(packed_close) struct packed packed;
    packed_open(&packed, &made, INTERVALS, INTERVAL_FEATURES);
    packed.graph.features.values[0] += 1;
    write_pack(&packed, "other", INTERVAL_FEATURES);
    assert_int_equal(rename(part_name(2), "elsewhere"), 0);
    assert_int_equal(rename("other/part-00002.graph", part_name(2)), 0);
    assert_open_fails("graph/part-00002.graph: belongs to another graph");
    assert_read_fails(&packed, 2, "a part of another graph");
    FREED unsigned char *bytes = memory_zeroed(FILE_MAX, 1);
    write_bytes(part_name(2), bytes, read_part(1, bytes));
    assert_open_fails("graph/part-00002.graph: is part 1 from interval");
    assert_int_equal(rename("elsewhere", part_name(2)), 0);
    assert_opens();
}

TEST(changed_and_truncated_parts) {
    CLOSED_BY(packed_close) struct packed packed;
    packed_open(&packed, &made, INTERVALS, INTERVAL_FEATURES);
    FREED unsigned char *bytes = memory_zeroed(FILE_MAX, 1);
    size_t size = read_part(1, bytes);
    size_t head = get32(bytes + 12);
    static const size_t steps[] = {0, 9, 13, 20, 60, 150};
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) { /* the head */
        bytes[steps[s]] ^= 4;
        write_bytes(part_name(1), bytes, size);
        assert_open_fails("graph/part-00001.graph");
        assert_read_fails(&packed, 1, "");
        bytes[steps[s]] ^= 4;
    }
    for (size_t at = head; at < size; at += size / 7) { /* the intervals, and the last byte */
        size_t where = at + size / 7 < size ? at : size - 1;
        bytes[where] ^= 128;
        write_bytes(part_name(1), bytes, size);
        assert_opens();
        assert_read_fails(&packed, 1, "damaged: its checksum does not match");
        bytes[where] ^= 128;
    }
    static const size_t sizes[] = {0, 1, 15, 16, 100};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        write_bytes(part_name(1), bytes, sizes[s]);
        assert_open_fails("truncated");
        assert_read_fails(&packed, 1, "truncated");
    }
    write_bytes(part_name(1), bytes, size - 1);
    assert_open_fails("truncated or too long");
    write_bytes(part_name(1), bytes, size + 1);
    assert_open_fails("truncated or too long");
    write_bytes(part_name(1), bytes, size);
    assert_opens();
}

TEST(other_versions_and_files) {
    CLOSED_BY(packed_close) struct packed packed;
    packed_open(&packed, &made, INTERVALS, INTERVAL_FEATURES);
    FREED unsigned char *bytes = memory_zeroed(FILE_MAX, 1);
    size_t size = read_part(0, bytes);
    for (uint32_t version = 0; version <= 2; version += 2) {
        put32(bytes + 8, version);
        write_part(0, bytes, size);
        assert_open_fails(version == 0 ? "version 0, expected 1" : "version 2, expected 1");
        assert_read_fails(&packed, 0, "version");
    }
    write_text(part_name(0), "0 1\n1 2\n2 3\n4 5\n5 6\n");
    assert_open_fails("graph/part-00000.graph: not a part of a packed graph");
}

TEST(no_packed_graph) {
    struct pack_summary summary;
    struct error error = {0};
    assert_int_equal(mkdir("graph", 0755), 0);
    assert_open_fails("no packed graph");
    assert_message(pack_open("absent", &summary, &error), &error, AML_EINPUT, "absent");
    write_text("file", "1 2\n");
    error.code = 0;
    assert_message(pack_open("file", &summary, &error), &error, AML_EINPUT, "file: can't read this folder");
}

/* An interval that is damaged before its checksum was made, and intervals that are not those of the head. */
TEST(wrong_intervals) {
    CLOSED_BY(packed_close) struct packed packed;
    packed_open(&packed, &made, INTERVALS, INTERVAL_FEATURES);
    FREED unsigned char *bytes = memory_zeroed(FILE_MAX, 1);
    size_t size = read_part(1, bytes);
    unsigned char *interval = bytes + get32(bytes + 12);
    uint32_t number = get32(interval + 4);
    put32(interval + 4, number + 1);
    write_part(1, bytes, size);
    assert_read_fails(&packed, 1, "where its head has interval");
    put32(interval + 4, INTERVALS);
    write_part(1, bytes, size);
    assert_read_fails(&packed, 1, "number 40, expected below 40");
    put32(interval + 4, number);
    uint32_t place = get32(interval + 8);
    put32(interval + 8, place - 1);
    write_part(1, bytes, size);
    assert_read_fails(&packed, 1, "interval");
}

/* Every field of a head, changed with a right checksum, is refused or still means a graph that is safe to read. */
TEST(wrong_heads) {
    CLOSED_BY(packed_close) struct packed packed;
    packed_open(&packed, &made, INTERVALS, INTERVAL_FEATURES);
    FREED unsigned char *bytes = memory_zeroed(FILE_MAX, 1);
    FREED unsigned char *changed = memory_zeroed(FILE_MAX, 1);
    size_t size = read_part(1, bytes);
    size_t head = get32(bytes + 12);
    for (size_t at = 12; at + 4 <= head - 4; at += 4) {
        static const uint32_t values[] = {0, 1, 0x7fffffff, 0xffffffff, 0x100};
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            struct pack_summary summary;
            struct error error = {0};
            memcpy(changed, bytes, size);
            put32(changed + at, values[v]);
            if (memcmp(changed, bytes, size) == 0) {
                continue;
            }
            if (get32(changed + 12) == head) {
                write_part(1, changed, size);
            } else {
                write_bytes(part_name(1), changed, size);
            }
            assert_int_equal(pack_open("graph", &summary, &error), AML_EINPUT);
            assert_non_null(strstr(error.text, "graph/part-0000"));
        }
    }
}

TEST(results_of_each) {
    CLOSED_BY(packed_close) struct packed packed;
    struct error error = {0};
    packed_open(&packed, &made, INTERVALS, INTERVAL_FEATURES);
    unsigned count = 999;
    assert_int_equal(pack_read(part_name(0), &packed.summary, ignore_interval, &count, &error), -1000);
    assert_int_equal(count, 1000);
    assert_int_equal(error.code, 0);
}

/* ---- Failures of packing ---- */

static void assert_write_fails(const struct packed *packed, const char *folder, int code, const char *text) {
    struct error error = {0};
    int result =
        pack_write(folder, &packed->graph, &packed->partition, INTERVAL_FEATURES, GRAPH_MEAN, NULL, NULL, &error);
    assert_message(result, &error, code, text);
}

TEST(folders_that_are_not_empty) {
    CLOSED_BY(packed_close) struct packed packed;
    packed_make(&packed, &made, INTERVALS);
    write_text("used/notes.txt", "mine");
    assert_write_fails(&packed, "used", AML_EINPUT, "used: has 'notes.txt' already");
    assert_file("used/notes.txt", "mine");
    assert_int_equal(files_in("used"), 1);
    write_text("file", "mine");
    assert_write_fails(&packed, "file", AML_EINPUT, "file: can't read this folder");
    assert_file("file", "mine");
    assert_write_fails(&packed, "no/such/folder", AML_EFAIL, "no/such/folder");
    write_pack(&packed, "graph", INTERVAL_FEATURES);
    assert_write_fails(&packed, "graph", AML_EINPUT, "already");
    assert_opens();
    assert_int_equal(mkdir("empty", 0755), 0);
    write_pack(&packed, "empty", INTERVAL_FEATURES);
}

TEST(intervals_that_are_too_large) {
    CLOSED_BY(packed_close) struct packed packed;
    struct graphs_kind kind = made;
    kind.columns = 200;
    packed_make(&packed, &kind, 3);
    assert_write_fails(&packed, "graph", AML_ELIMIT, "interval 0 of ");
    assert_int_equal(access("graph", F_OK), -1);
}

TEST(names_that_are_too_long) {
    CLOSED_BY(packed_close) struct packed packed;
    packed_make(&packed, &made, 3);
    packed.graph.class_names[2] = memory_resized(packed.graph.class_names[2], 2000, 1);
    memset(packed.graph.class_names[2], 'x', 1999);
    packed.graph.class_names[2][1999] = '\0';
    assert_write_fails(&packed, "graph", AML_ELIMIT, "more than 1023 bytes");
    assert_int_equal(access("graph", F_OK), -1);
}

/* Writing fails in the last and largest part, as on a full disk: no part is left, and an empty folder stays one. */
TEST(no_space_left) {
    CLOSED_BY(packed_close) struct packed packed;
    struct rlimit before;
    packed_make(&packed, &made, 4);
    memcpy(packed.partition.firsts, (uint32_t[]){0, 600, 1600, 3000, 6000}, 5 * sizeof(uint32_t));
    write_pack(&packed, "graph", INTERVAL_FEATURES);
    assert_int_equal(files_in("graph"), 4);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit little = {500000, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(mkdir("empty", 0755), 0);
    for (unsigned i = 0; i < 2; i++) {
        struct error error = {0};
        const char *folder = i == 0 ? "absent" : "empty";
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
        int result =
            pack_write(folder, &packed.graph, &packed.partition, INTERVAL_FEATURES, GRAPH_MEAN, NULL, NULL, &error);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_message(result, &error, AML_EFAIL, "/part-00003.graph: can't write it: File too large");
    }
    assert_int_equal(access("absent", F_OK), -1);
    assert_int_equal(files_in("empty"), 0);
}

int main(void) {
    return tests_run_each(files_open, files_close);
}
