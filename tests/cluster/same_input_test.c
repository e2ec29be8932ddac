/* Tests that all nodes of a job train on the same input, with real processes: nodes that read different files, an app
 * whose `read` differs by process, a node that joins or a job that resumes with another file, a file that changes
 * meanwhile. The job must end, or refuse the node, with one line that names the nodes, the files, their sizes and the
 * difference. */
#include <math.h>

#include "tests/cluster/shell.h"
#include "tests/test.h"

enum {
    RATINGS = 100000,
    RATINGS_LESS = 60000,
    DOCUMENTS = 200,
    DOCUMENTS_LESS = 120,
    SAMPLES = 300,
    SAMPLES_LESS = 290,
    MANY = 40000,          /* several extents of 256 KiB */
    MANY_DOCUMENTS = 9000, /* several extents, too; without the empty ones */
    LARGE = 400000,
    /* Sampled block b of 64 begins at about b / 63 of the file. This line is between two blocks, and not at the border
     * of halves. */
    LARGE_EDIT = LARGE / 630 * 307
};

/* Arguments: the app, its option for the input, the file of most nodes, another file, the number of the node that reads
 * it. */
#define PICK "-- sh pick "

/* Checks that standard error reports the difference once, and that all parts are in that line or later ones. */
static void refused_for(const char *const *parts, size_t count) {
    FREED char *error = read_text("err");
    const char *line = strstr(error, "the input differs: ");
    if (line == NULL || strstr(line + 1, "the input differs: ") != NULL) {
        fail_msg("'%s': expected one line that tells how the input differs", error);
    }
    for (size_t p = 0; p < count; p++) {
        if (strstr(line, parts[p]) == NULL) {
            fail_msg("'%s' lacks '%s'", line, parts[p]);
        }
    }
}

/* Runs a job, which must end with exit status 2 before any training. */
static void differs(const char *command, const char *const *parts, size_t count) {
    int status = run("%s", command);
    if (status != 2) {
        fail_msg("%s: status %d: %s", command, status, read_text("err"));
    }
    refused_for(parts, count);
    assert_no_text("report", "\"type\":\"iteration\"");
}

/* ---- At the start ---- */

/* Two nodes: one with a file of 100,000 ratings, the other with its first 60,000. */
TEST(a_file_of_100000_ratings_and_its_first_60000) {
    static const char *const parts[] = {"node-1 (", "node-2 (", " ratings (",
                                        " less (",  " bytes)",  "their bytes differ where they were compared"};
    differs("$run --reliable 2 " PICK "$bin/mf --data ratings less 2 --iterations 3", parts, 6);
    differs("$run --reliable 1 --transient 2 " PICK "$bin/mf --data ratings less 1 --iterations 3", parts + 2, 4);
    differs("$run --reliable 1 --transient 1 --stage traditional " PICK "$bin/mf --data ratings less 2", parts, 6);
}

/* Copies of one size that differ in a few bytes of one line. Each node parses another part of its copy. */
TEST(copies_of_one_size) {
    static const char *const parts[] = {" ratings (", " edited (", "their bytes differ where they were compared"};
    differs("sed '50000s/.*/9 9 0.5/; 50000s/$/    /' ratings | head -c $(wc -c <ratings) >edited; "
            "$run --reliable 3 " PICK "$bin/mf --data ratings edited 3 --iterations 3",
            parts, 3);
}

static double bytes_of(const char *file) {
    run_well("wc -c <%s >bytes", file);
    FREED char *text = read_text("bytes");
    double bytes = strtod(text, NULL);
    return bytes;
}

/* Two nodes with copies of one size above 4 MiB, which differ where nothing was compared so far: in many places, of
 * which the sample of a part has some. */
TEST(copies_that_differ_between_samples) {
    static const char *const parts[] = {"node-1 (", "node-2 (", " read other bytes than ", " bytes), between byte ",
                                        ": give all nodes the same files"};
    differs("$run --reliable 2 " PICK "$bin/mf --data huge huge-changed 2 --iterations 3", parts, 5);
    differs("$run --reliable 1 --transient 1 " PICK "$bin/mf --data huge huge-changed 1 --iterations 3", parts, 5);
    differs("$run --reliable 1 --transient 2 " PICK
            "$tests/sum_app --data ratings,huge ratings,huge-changed 2 --iterations 3",
            parts + 2, 3);
}

/* Few bytes differ. Whoever reads a dead node's part finds it: before training two nodes read that part, later its hash
 * is known. */
TEST(copies_that_differ_in_bytes_of_a_dead_nodes_part) {
    run_well("$run --reliable 1 --transient 3 -- $tests/sum_app --data huge --iterations 3 --die-reading 3");
    static const char *const parts[] = {"node-", " read other bytes than node-", " from huge",
                                        ": give all nodes the same files"};
    differs("$run --reliable 1 --transient 3 " PICK
            "$tests/sum_app --data huge huge-edited 4 --iterations 3 --die-reading 3",
            parts, 4);
    int status = run("printf 'iteration 3 kill transient 1\\n' >events; "
                     "$run --reliable 1 --transient 1 --events events " PICK
                     "$tests/sum_app --data huge huge-edited 1 --iterations 100 --slow-us 4000");
    if (status != 2) {
        fail_msg("status %d: %s", status, read_text("err"));
    }
    refused_for(parts, 4);
}

/* A job's nodes parse the input once, each a part, and the sums are right. */
TEST(an_input_is_parsed_once) {
    run_well("$run --reliable 2 --transient 3 -- $tests/sum_app --data ratings --iterations 3");
    assert_true(summary("bytes_read") == bytes_of("ratings"));
    assert_true(summary("items_processed") == 3.0 * RATINGS);
    run_well("$run --reliable 2 --transient 3 -- $tests/sum_app --data ratings --iterations 3 --read-itself");
    assert_true(summary("bytes_read") == 5 * bytes_of("ratings"));
}

/* The same for samples in every format of lines, whose losses are those of one node. Each node reads all idx data. */
TEST(samples_are_parsed_once) {
    static const char *const files[] = {"many.libsvm", "many.csv --label-column -1", "many.txt --format text",
                                        "many.libsvm --layout sparse"};
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(files[f], " "), files[f]);
        run_well("$run -- mlr --iterations 2 --batch 9000 --rate 0.1 --test-fraction 0.1 --data %s", files[f]);
        double loss = summary("loss");
        double test_loss = summary("test_loss");
        run_well("$run --reliable 2 --transient 2 -- mlr --iterations 2 --batch 9000 --rate 0.1 --test-fraction 0.1 "
                 "--data %s",
                 files[f]);
        assert_true(summary("bytes_read") == bytes_of(name));
        double tolerance = f < 3 ? 1e-3 : 1e-2; /* L2 of sparse samples: the same in expectation */
        assert_true(summary("loss") > (1 - tolerance) * loss && summary("loss") < (1 + tolerance) * loss);
        assert_true(summary("test_loss") > (1 - tolerance) * test_loss);
        assert_true(summary("test_loss") < (1 + tolerance) * test_loss);
    }
    run_refused("sed '30000s/1:/x:/' many.libsvm >bad; $run --reliable 3 -- mlr --data bad",
                "bad:30000: expected index:value with an index up to 2147483647, got 'x:");
    run_well("$run --reliable 3 -- mlr --labels labels --data images --iterations 2");
    assert_true(summary("bytes_read") == 3 * (bytes_of("images") + bytes_of("labels")));
}

/* If a node is killed while it reads its part, other nodes read that part again. */
TEST(a_reader_that_is_killed) {
    run_well("$run --reliable 1 --transient 3 -- $tests/sum_app --data ratings --iterations 3 "
             "--die-reading 3");
    assert_true(summary("items_processed") == 3.0 * RATINGS);
    assert_true(summary("bytes_read") > bytes_of("ratings"));
}

/* The same for documents, one of which has more words than an extent. A single node has the same bits in every format.
 * Each node reads all text. */
TEST(documents_are_parsed_once) {
    static const char *const files[] = {"many.uci", "many.lda-c", "many.uci,many.lda-c --test-fraction 0.2"};
    double objective = 0;
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        run_well("$run --reliable 2 --transient 6 --threads 1 -- lda --topics 4 --iterations 2 --data %s", files[f]);
        double found = summary("log_likelihood_per_token");
        assert_true(f != 1 || fabs(found - objective) < 0.01 * fabs(objective)); /* eight nodes add in any order */
        objective = found;
        double bytes = (f != 1 ? bytes_of("many.uci") : 0) + (f > 0 ? bytes_of("many.lda-c") : 0);
        assert_true(summary("bytes_read") == bytes);
        assert_true(summary("items_processed") == 2 * MANY_DOCUMENTS || f == 2);
    }
    run_well("$run --threads 1 -- lda --topics 4 --iterations 2 --data many.uci --model-out model-1");
    run_well("$run --threads 1 -- lda --topics 4 --iterations 2 --data many.lda-c --model-out model-2 && "
             "cmp model-1 model-2");
    run_refused("sed '30000s/$/x/' many.uci >bad; $run --reliable 3 -- lda --data bad",
                "bad:30000: expected 'document word count', got '");
    run_refused("sed '3001s/:/x/' many.lda-c >bad; $run --reliable 3 -- lda --data bad",
                "bad:3001: expected 'word:count', word up to ");
    run_refused("sed '$d' many.uci >bad; $run --reliable 3 -- lda --data bad", "bad: ends after ");
    run_well("$run --reliable 3 -- lda --topics 4 --iterations 2 --data many.text");
    assert_true(summary("bytes_read") == 3 * bytes_of("many.text"));
}

/* The same with lda. */
TEST(lda_with_fewer_documents) {
    static const char *const lines[] = {"node-1", "node-2", " has found other lines than node-",
                                        ": give all nodes the same files"};
    differs("$run --reliable 2 " PICK "$bin/lda --data documents fewer-documents 2 --topics 4 --iterations 3", lines,
            4);
    static const char *const text[] = {"node-1 (", "node-2 (", "200 items from words (", "120 items from fewer-words (",
                                       " data shards differ"};
    differs("$run --reliable 2 " PICK "$bin/lda --data words fewer-words 2 --topics 4 --iterations 3 "
            "--minimum-length 1",
            text, 5);
}

TEST(mlr_with_fewer_samples) {
    static const char *const parts[] = {"node-1", "node-2", " has found other numbers of samples, lines than node-",
                                        ": give all nodes the same files"};
    differs("$run --reliable 2 " PICK "$bin/mlr --data samples fewer-samples 2 --iterations 3", parts, 4);
    differs("$run --reliable 2 " PICK "$bin/mlr --data sparse fewer-sparse 1 --iterations 3", parts, 4);
    static const char *const images[] = {"node-1", "node-2", " has found other values than node-",
                                         ": give all nodes the same files"};
    differs("$run --reliable 2 " PICK "$bin/mlr --data images others 2 --labels labels --iterations 3", images, 4);
}

/* Copies of one size above 4 MiB that differ outside the compared samples. mlr's survey sees all lines. */
TEST(mlr_with_copies_of_one_size) {
    static const char *const parts[] = {"node-1", "node-2", ": give all nodes the same files",
                                        " has found other lines than node-"};
    differs("$run --reliable 2 " PICK "$bin/mlr --data large large-value 2 --iterations 3", parts, 4);
    static const char *const label[] = {"node-1", "node-2", ": give all nodes the same files",
                                        " has found other labels, lines than node-"};
    differs("$run --reliable 2 " PICK "$bin/mlr --data large large-label 2 --iterations 3", label, 4);
    static const char *const scale[] = {"node-1", "node-2", ": give all nodes the same files",
                                        " has found other maxima, lines than node-"};
    differs("$run --reliable 2 " PICK "$bin/mlr --data large large-value 2 --scale max --iterations 3", scale, 4);
}

/* The survey also finds the difference at a node that joins and need not read. */
TEST(mlr_where_a_node_with_another_copy_joins) {
    int status = run("printf 'iteration 3 join transient 1\n' >events; $run --reliable 1 --transient 1 "
                     "--events events " PICK
                     "$bin/mlr --data many.libsvm other.libsvm 3 --iterations 1000 --batch 4000 --lambda 1e-4");
    if (status != 0) {
        fail_msg("status %d: %s", status, read_text("err"));
    }
    assert_text("err", "has found other lines than node-");
    assert_true(summary("failures") == 0);
}

/* A `read` that differs by process, with fixed items, samples without rows, and varied items. */
TEST(a_read_that_differs_by_process) {
    static const char *const same_size[] = {"100000 items from ratings (", "node-1 (", "node-2 (",
                                            "; 1 of 1024 data shards differ"};
    differs("$run --reliable 2 -- $tests/sum_app --data ratings --by-process --read-itself", same_size, 4);
    static const char *const no_files[] = {"node-1 (", "node-2 (", " read 699 items, ", " 699 items; "};
    differs("$run --reliable 2 -- $tests/varied_app --mistake process", no_files, 4);
    differs("$run --reliable 2 -- $tests/varied_app --mistake process --samples", no_files, 4);
}

/* The same items in another order. Where each node reads all, this is the same input; to read it in parts is
 * refused. */
TEST(a_file_in_another_order) {
    static const char *const parts[] = {" ratings (", " sorted (", "their bytes differ where they were compared"};
    differs("sort -r ratings >sorted && $run --reliable 2 " PICK "$bin/mf --data ratings sorted 2 --iterations 2",
            parts, 3);
    run_well("$run --reliable 2 " PICK "$tests/sum_app --data ratings sorted 2 --iterations 2 --read-itself");
}

/* ---- Later ---- */

/* A joining node with a changed file is refused, and it alone, also by a restarted controller. */
TEST(who_joins_with_another_file_is_refused_alone) {
    static const char *const events[] = {
        "iteration 3 join transient 1\\n",
        "iteration 2 kill controller\\niteration 3 start controller\\niteration 6 join reliable 1\\n"};
    for (size_t e = 0; e < sizeof events / sizeof events[0]; e++) {
        int status = run("head -2000 ratings >some; head -1500 ratings >fewer; printf '%s' >events; "
                         "$run --reliable 1 --transient 1 --events events " PICK
                         "$tests/sum_app --data some fewer 3 --iterations 400 --slow-us 4000 --read-itself",
                         events[e]);
        if (status != 0) {
            fail_msg("%s: status %d: %s", events[e], status, read_text("err"));
        }
        assert_text("report", "\"event\":\"refused\"");
        assert_text("report", "2000 items from some (");
        assert_text("report", "node-3 (");
        assert_text("report", "1500 items from fewer (");
        assert_true(summary("items_processed") == 400.0 * 2000); /* and the sums are right */
        assert_true(summary("failures") == 0);
    }
}

/* A changed file is refused when a job resumes. */
TEST(a_resumed_job_with_another_file_is_refused) {
    static const char *const parts[] = {"the checkpoint's node-", "100000 items from data (",
                                        " 60000 items from data (", " data shards differ"};
    run_well("cp ratings data && $run --reliable 2 --checkpoint saved --checkpoint-every 2 -- $bin/mf --data data "
             "--iterations 30");
    differs("cp less data && $run --reliable 1 --resume saved -- $bin/mf --data data --iterations 40", parts, 4);
    run_well("cp ratings data && $run --reliable 1 --resume saved -- $bin/mf --data data --iterations 40");
}

/* A joining node gets its data from other nodes, so its own file does not matter. */
TEST(who_joins_with_another_file_but_need_not_read_it) {
    run_well("head -2000 ratings >some; head -1500 ratings >fewer; printf 'iteration 3 join transient 1\\n' >events; "
             "$run --reliable 1 --transient 1 --events events " PICK
             "$tests/sum_app --data some fewer 3 --iterations 1000 --slow-us 4000");
    assert_true(summary("items_processed") == 1000.0 * 2000); /* and the sums are right */
    assert_true(summary("shards_taken") > 0);
    assert_true(summary("failures") == 0);
}

/* A node reads again, for shards that it did not keep, and finds another file than at first. */
TEST(a_file_that_is_changed_under_way) {
    int status =
        run("rm -f report; head -2000 ratings >data; head -1500 ratings >changed; "
            "printf 'iteration 60 evict transient 1 notice 60s\\n' >events; "
            "{ tries=0; while [ $tries -lt 3000 ] && ! grep -q '\"event\":\"start\"' report; do sleep 0.02; "
            "tries=$((tries + 1)); done; mv changed data; } 2>/dev/null & "
            "$run --reliable 1 --transient 2 --events events -- $tests/sum_app --data data --iterations 100000 "
            "--slow-us 4000 --standby-memory 0 --read-itself; status=$?; wait; exit $status");
    static const char *const parts[] = {"2000 items from data (", " 1500 items from data (", " data shards differ"};
    if (status != 2) {
        fail_msg("status %d: %s", status, read_text("err"));
    }
    refused_for(parts, 3);
}

/* ---- The input ---- */

static void write_ratings(const char *name, unsigned count) {
    FILE *file = open_file(name, "we");
    for (unsigned n = 0; n < count; n++) {
        fprintf(file, "%u %u %.1f\n", 1 + n * 37 % 4001, 1 + n * 101 % 997, 0.5 * (n * 7919 % 10 + 1));
    }
    fclose(file);
}

static void write_documents(const char *name, unsigned count) {
    FILE *file = open_file(name, "we");
    for (unsigned d = 0; d < count; d++) {
        fprintf(file, "6");
        for (unsigned w = 0; w < 6; w++) {
            fprintf(file, " %u:%u", d % 7 + 9 * w, 1 + (d + w) % 3);
        }
        fprintf(file, "\n");
    }
    fclose(file);
}

/* Writes the same documents in three formats. Each seventh is empty, and one has more words than an extent. */
static void write_many_documents(void) {
    enum { COUNT = MANY_DOCUMENTS / 6 * 7, LONG = 3 * COUNT };
    FILE *uci = open_file("many.uci", "we");
    FILE *lda_c = open_file("many.lda-c", "we");
    FILE *text = open_file("many.text", "we");
    fprintf(uci, "%d\n%d\n%d\n", COUNT, LONG, (MANY_DOCUMENTS - 1) * 9 + LONG);
    for (unsigned d = 0; d < COUNT; d++) {
        unsigned words = d == COUNT / 2 ? LONG : d % 7 == 3 ? 0 : 9;
        fprintf(lda_c, "%u", words);
        for (unsigned w = 0; w < words; w++) {
            unsigned word = words == LONG ? w : (d % 5 + w * w) % 100;
            fprintf(uci, "%u %u %u\n", d + 1, word + 1, 1 + (d + w) % 3);
            fprintf(lda_c, " %u:%u", word, 1 + (d + w) % 3);
            fprintf(text, "word%u ", word);
        }
        fprintf(lda_c, "\n");
        fprintf(text, "\n");
    }
    fclose(uci);
    fclose(lda_c);
    fclose(text);
}

static void write_samples(const char *name, unsigned count, bool sparse) {
    FILE *file = open_file(name, "we");
    for (unsigned n = 0; n < count; n++) {
        fprintf(file, sparse ? "%u 1:%u.5 2:%u 3:1\n" : "%u,%u.5,%u,1\n", n % 3, n % 11, n % 5);
    }
    fclose(file);
}

/* Writes samples in the formats of lines. */
static void write_many(void) {
    FILE *files[] = {open_file("many.libsvm", "we"), open_file("many.csv", "we"), open_file("many.txt", "we")};
    fputs("height,width,depth,kind\n", files[1]);
    for (unsigned n = 0; n < MANY; n++) {
        unsigned kind = n * 7919 % 3;
        double values[] = {kind + n % 11 * 0.3, n % 7 * 0.5, 2.0 - kind + n % 13 * 0.2};
        fprintf(files[0], "%u 1:%.2f 2:%.2f 3:%.2f\n", kind, values[0], values[1], values[2]);
        fprintf(files[1], "%.2f,%.2f,%.2f,%u\n", values[0], values[1], values[2], kind);
        fprintf(files[2], "%u %.2f %.2f %.2f\n", kind, values[0], values[1], values[2]);
    }
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        fclose(files[f]);
    }
}

/* Writes a file above 4 MiB, whose sampled blocks are apart, and two copies of its size. In one copy a value differs,
 * in the other a label that occurs once. */
static void write_large(void) {
    static const char *const names[] = {"large", "large-value", "large-label"};
    for (size_t f = 0; f < sizeof names / sizeof names[0]; f++) {
        FILE *file = open_file(names[f], "we");
        for (unsigned n = 0; n < LARGE; n++) {
            unsigned label = n == LARGE_EDIT ? (f == 2 ? 8 : 9) : n % 3;
            unsigned value = n == LARGE_EDIT ? (f == 1 ? 95 : 90) : 10 + n % 80;
            fprintf(file, "%u,%u.%02u,%02u.5,1.5,2.5\n", label, value, n % 89, n % 47);
        }
        fclose(file);
    }
}

/* Whether the line at `offset` of a file is outside the sampled blocks, and not near a border of 2, 3 or 4 parts. */
static bool is_unseen(uint64_t offset, uint64_t bytes) {
    const uint64_t block = 64 * 1024;
    const uint64_t apart = (bytes - block) / 63;
    uint64_t in_twelfth = offset % (bytes / 12);
    return offset % apart > block + block / 4 && offset % apart < apart - block / 4 && in_twelfth > 4 * block &&
           in_twelfth < bytes / 12 - 4 * block;
}

/* Writes ratings, a copy in which all unseen lines differ, and one in which a byte in each eighth does, as nodes have
 * their parts in any order. */
static void write_huge(void) {
    enum { LINE = 17, LINES = 1 << 20 };
    static const char *const names[] = {"huge", "huge-changed", "huge-edited"};
    for (size_t f = 0; f < sizeof names / sizeof names[0]; f++) {
        FILE *file = open_file(names[f], "we");
        unsigned edited = 0;
        for (unsigned n = 0; n < LINES; n++) {
            bool unseen = is_unseen((uint64_t)n * LINE, (uint64_t)LINES * LINE);
            bool changed = unseen && (f == 1 || (f == 2 && n > LINES / 8 * edited));
            edited += changed;
            fprintf(file, "%u %u %u.%u\n", 100000 + n * 37 % 4001, 10000 + n * 101 % 997, n % 5 + 1, changed ? 5 : 0);
        }
        fclose(file);
    }
}

/* Writes images of 2 bytes, with labels. */
static void write_images(const char *name, unsigned factor) {
    FILE *images = open_file(name, "we");
    FILE *labels = open_file("labels", "we");
    static const unsigned char head[] = {0, 0, 8, 2, 0, 0, SAMPLES >> 8, SAMPLES & 255, 0, 0, 0, 2};
    static const unsigned char label_head[] = {0, 0, 8, 1, 0, 0, SAMPLES >> 8, SAMPLES & 255};
    fwrite(head, 1, sizeof head, images);
    fwrite(label_head, 1, sizeof label_head, labels);
    for (unsigned n = 0; n < SAMPLES; n++) {
        const unsigned char image[] = {(unsigned char)(n % 3 * factor), (unsigned char)(n % 5)};
        fwrite(image, 1, sizeof image, images);
        fputc((int)(n % 3), labels);
    }
    fclose(images);
    fclose(labels);
}

static int open_folder(void **state) {
    assert_int_equal(shell_open(state), 0);
    write_ratings("ratings", RATINGS);
    write_ratings("less", RATINGS_LESS);
    write_documents("documents", DOCUMENTS);
    write_documents("fewer-documents", DOCUMENTS_LESS);
    write_samples("samples", SAMPLES, false);
    write_samples("fewer-samples", SAMPLES_LESS, false);
    write_samples("sparse", SAMPLES, true);
    write_samples("fewer-sparse", SAMPLES_LESS, true);
    write_many();
    write_many_documents();
    run_well("tr 0-9: a-k <documents >words; head -120 words >fewer-words");
    write_large();
    write_huge();
    run_well("sed '30000s/1:./1:9/' many.libsvm >other.libsvm");
    write_images("images", 3);
    write_images("others", 4);
    FILE *pick = open_file("pick", "we");
    fputs("app=$1 option=$2 file=$3 other=$4 node=$5\n"
          "shift 5\n"
          "for argument in \"$@\"; do\n"
          "    if [ \"$argument\" = \"--name=node-$node\" ]; then file=$other; fi\n"
          "done\n"
          "exec \"$app\" \"$option\" \"$file\" \"$@\"\n",
          pick);
    fclose(pick);
    return 0;
}

int main(void) {
    return tests_run(open_folder, files_close);
}
