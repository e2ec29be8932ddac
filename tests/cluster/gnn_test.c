/* Tests of gnn with real processes: an iteration's line is the same on any number of nodes, while they are killed and
 * join, and after a job is resumed. Also tests predictions, the asynchronous pipeline, items on disk and bad input. The
 * graph is a made block model; Cora, where the real data is available. Nothing here depends on time. */
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "tests/cluster/shell.h"
#include "tests/test.h"

enum {
    VERTICES = 400,
    CLASSES = 4,
    EDGES = 1600,
    WORDS = 60,
    TRAINING = 80,
    VALIDATION = 80,
    WIDE = 360,      /* columns of the dense features */
    FIRST = 20,      /* iterations after which rounding may have grown too much for a comparison */
    PARTIAL = 12,    /* lines at most that losses of nodes make partial: iterations are short */
    LINES_MAX = 8000 /* iterations of a job */
};

#define GRAPH "--edges edges --features features --split split --interval 32"
/* Steps in which differences between two jobs hardly grow. */
#define SMOOTH "--optimizer sgd --rate 0.05 --lambda 0 --anneal 0"

/* ---- Lines of a report ---- */

enum { LOSSES = 3, METRICS = 6 };

/* The metrics of an iteration of all items. */
struct line {
    bool there;
    double values[METRICS]; /* NAN: not measured */
};

/* Reads the lines of iterations that are not partial; iteration i is lines[i]. Returns the last iteration. */
static unsigned read_lines(const char *name, struct line lines[LINES_MAX + 1]) {
    static const char *const keys[METRICS] = {"loss",           "validation_loss",     "test_loss",
                                              "train_accuracy", "validation_accuracy", "test_accuracy"};
    FREED char *text = read_text(name);
    char *rest = NULL;
    unsigned last = 0;
    memset(lines, 0, (LINES_MAX + 1) * sizeof *lines);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (strstr(line, "\"type\":\"iteration\"") == NULL || strstr(line, "\"partial\"") != NULL) {
            continue;
        }
        json_auto_t *object = json_loads(line, 0, NULL);
        unsigned iteration = (unsigned)json_integer_value(json_object_get(object, "iteration"));
        assert_true(iteration >= 1 && iteration <= LINES_MAX);
        lines[iteration].there = true;
        for (unsigned m = 0; m < METRICS; m++) {
            const json_t *value = json_object_get(object, keys[m]);
            lines[iteration].values[m] = json_is_number(value) ? json_number_value(value) : NAN;
        }
        last = iteration > last ? iteration : last;
    }
    return last;
}

/* The difference that is allowed: losses `near`, and accuracies as of one vertex whose two best classes are as good. */
static double allowed(unsigned metric, double near) {
    static const double vertices[] = {TRAINING, VALIDATION, VERTICES - TRAINING - VALIDATION};
    return near > 0 && metric >= LOSSES ? 1.5 / vertices[metric - LOSSES] : near;
}

/* Asserts that iterations first..last are in `base`, and equal in `report` where it has whole lines. All, or all but a
 * few, must be there. */
static void assert_same_lines(const char *what, unsigned first, unsigned last, unsigned missing, double near) {
    static struct line base[LINES_MAX + 1], lines[LINES_MAX + 1];
    unsigned lacking = 0;
    assert_true(read_lines("base", base) >= last);
    (void)read_lines("report", lines);
    for (unsigned i = first; i <= last; i++) {
        assert_true(base[i].there);
        lacking += lines[i].there ? 0 : 1;
        for (unsigned m = 0; m < METRICS && lines[i].there; m++) {
            double difference = fabs(base[i].values[m] - lines[i].values[m]);
            if (!(difference <= allowed(m, near))) {
                fail_msg("%s: iteration %u, metric %u: %.9g, expected %.9g", what, i, m, lines[i].values[m],
                         base[i].values[m]);
            }
        }
    }
    if (lacking > missing) {
        fail_msg("%s: %u of iterations %u to %u have no whole line", what, lacking, first, last);
    }
}

/* Runs a job that the next ones are compared with, on one node and one thread. */
static void run_base(const char *options, unsigned iterations) {
    run_well("$bin/proteus run --report base --threads 1 -- gnn " GRAPH " --iterations %u %s", iterations, options);
}

/* ---- Training ---- */

static const char *const networks[] = {"--model gcn --aggregate once", "--model gcn --aggregate each",
                                       "--model sage --aggregate once", "--model sage --aggregate each",
                                       "--model gat --heads 3 --output-heads 2"};
enum { NETWORKS = sizeof networks / sizeof networks[0] };

/* Each network runs on each cluster once, with another depth or dropout. */
TEST(the_same_lines_however_it_is_run) {
    static const char *const clusters[] = {"--reliable 2 --partitions 3", "--reliable 3 --threads 2",
                                           "--reliable 1 --transient 4", "--threads 4"};
    static const char *const variants[] = {"--layers 12", "--layers 12 --dropout 0", "--layers 12,8",
                                           "--layers 12,8 --dropout 0"};
    for (unsigned n = 0; n < NETWORKS; n++) {
        for (unsigned v = 0; v < 4; v += sanitized() ? 2 : 1) {
            const char *cluster = clusters[(n + v) % 4];
            char options[256];
            snprintf(options, sizeof options, "%s %s", networks[n], variants[v]);
            run_base(options, FIRST);
            run_well("$run %s -- gnn " GRAPH " --iterations %d %s", cluster, FIRST, options);
            assert_same_lines(options, 1, FIRST, 0, 1e-4);
        }
    }
}

TEST(nodes_are_killed) {
    static const char *const clusters[] = {
        "--stage 1 --reliable 1 --transient 3", "--stage 2 --reliable 1 --transient 3",
        "--stage 3 --reliable 1 --transient 3", "--stage transient --reliable 0 --transient 4"};
    static const char *const options[] = {"", "--model gat", "--model sage --aggregate each --layers 16,16",
                                          "--aggregate once --layers 16,16"};
    run_well("printf 'iteration 4 kill node-3\\niteration 9 join transient 1\\niteration 14 kill node-2\\n' >events");
    for (unsigned c = 0; c < 4; c++) {
        run_base(options[c], 5 * FIRST);
        run_well("$run %s --events events -- gnn " GRAPH " --iterations %d %s", clusters[c], 5 * FIRST, options[c]);
        assert_true(summary("failures") == 2);
        assert_same_lines(options[c], 1, FIRST, PARTIAL, 1e-4);
        (void)check_iterations((VERTICES + 31) / 32);
        static struct line base[LINES_MAX + 1];
        assert_int_equal(read_lines("base", base), 5 * FIRST);
        assert_true(fabs(summary("test_accuracy") - base[5 * FIRST].values[METRICS - 1]) < 0.03);
    }
}

/* With constant parameters nothing depends on the order of sums: all digits are the same. */
TEST(constant_parameters_give_the_same_digits) {
    static const char *const options[] = {"--model gat --rate 0", "--model sage --rate 0 --layers 16,16"};
    run_well("printf 'iteration 4 kill node-3\\niteration 9 join transient 1\\niteration 14 kill node-2\\n' >events");
    for (unsigned o = 0; o < 2; o++) {
        run_base(options[o], 2 * FIRST);
        run_well("$run --reliable 1 --transient 3 --threads 2 --events events -- gnn " GRAPH " --iterations %d %s",
                 2 * FIRST, options[o]);
        assert_same_lines(options[o], 1, 2 * FIRST, PARTIAL, 0);
    }
}

/* Returns the clock from which on the first node that joined takes part; 0: it came too late. */
static unsigned joined_clock(void) {
    FREED char *text = read_text("report");
    const char *event = strstr(text, "\"event\":\"take-part\"");
    const char *clock = event != NULL ? strstr(event, "\"first_clock\":") : NULL;
    return clock != NULL ? (unsigned)strtoul(clock + strlen("\"first_clock\":"), NULL, 10) : 0;
}

/* A job is run with more iterations if a node came too late. */
TEST(nodes_join) {
    static const char options[] = "--model gat --layers 4 --dropout 0 " SMOOTH;
    unsigned iterations = 60;
    unsigned iteration = 0;
    for (;; iterations *= 3) {
        run_well("printf 'iteration 2 join transient 2\\niteration 3 join reliable 1\\n' >events; "
                 "$run --events events -- gnn " GRAPH " --iterations %u %s",
                 iterations, options);
        iteration = (unsigned)(joined_clock() * summary("iterations") / summary("clocks"));
        if (iteration > 0 && iteration + 10 < iterations) {
            break;
        }
        if (iterations > LINES_MAX / 3) {
            fail_msg("no node joined in %u iterations", iterations);
        }
    }
    run_base(options, iterations);
    assert_same_lines(options, 1, iterations, 6, 1e-4);
}

/* The rate and momentum of later iterations are those of a job that was not interrupted. */
TEST(a_job_is_resumed) {
    static const char *const options[] = {"--optimizer momentum --rate 0.02 --anneal 30 --layers 16,16",
                                          "--model gat --dropout 0 --rate 0.002 --anneal 0",
                                          "--model sage --pipeline async --dropout 0 --rate 0.002 --anneal 30"};
    for (unsigned o = 0; o < 3; o++) {
        run_base(options[o], 30);
        run_well("rm -rf saved; $run --reliable 2 --checkpoint saved --checkpoint-every 5 -- "
                 "gnn " GRAPH " --iterations 18 %s",
                 options[o]);
        run_well("$run --reliable 1 --transient 2 --resume saved -- gnn " GRAPH " --iterations 30 %s", options[o]);
        unsigned from = (unsigned)summary("resumed_iteration");
        assert_int_equal(from, 18);
        assert_same_lines(options[o], from + 1, 30, 0, 1e-4);
    }
    run_refused("$run --resume saved -- gnn " GRAPH " --iterations 40 --model gat", "");
    run_refused("$run --resume saved -- gnn " GRAPH " --iterations 40 --model sage", "");
}

/* Begins a job of two nodes without spare copies of data, does `then` to the file `moving`, kills a node, and runs the
 * command `last`; returns its status. */
static int run_losing(const char *then, const char *last) {
    return run(
        "cp edges moving; rm -f report; $run --reliable 1 --transient 1 -- gnn --edges moving --features features "
        "--split split --interval 32 --iterations 100000000 --standby-memory 0 >job & pid=$!; "
        "until grep -qs '\"iteration\":3,' report; do kill -0 $pid || exit 9; sleep 0.05; done; %s; "
        "kill -9 $(ps -eo pid=,ppid=,args= | awk -v p=$pid '$2 == p && /--name=node-2/ {print $1}'); %s",
        then, last);
}

/* Another node reads the lost node's part of the graph again, and finds out if it cannot or if it has changed. */
TEST(data_of_a_lost_node_is_read_again) {
    assert_int_equal(run_losing("true",
                                "until grep -qs '\"recover\"' report; do kill -0 $pid || exit 9; sleep 0.05; done; "
                                "$bin/proteus stop --controller $(sed -n 's/^controller at \\([^ ]*\\).*/\\1/p' "
                                "job) && wait $pid"),
                     0);
    assert_true(summary("failures") == 1 && summary("test_accuracy") > 0.9);
    assert_int_equal(run_losing("rm moving", "wait $pid"), 2);
    assert_text("err", "proteus: error: moving: cannot open: No such file");
    assert_int_equal(run_losing("head -n 1000 edges >moving", "wait $pid"), 2);
    assert_text("err", "proteus: error: moving, or another file of the graph, has changed since the job began");
    assert_no_text("err", "Sanitizer");
}

/* With staleness 0 the rows of other intervals are those of the iteration before, wherever intervals are. With more,
 * results depend on which node is late. */
TEST(the_asynchronous_pipeline) {
    static const char *const options[] = {"--pipeline async", "--pipeline async --model gat --rate 0.003",
                                          "--pipeline async --model sage --aggregate each"};
    static const char *const clusters[] = {"--reliable 3", "--reliable 1 --transient 2 --threads 2", "--threads 3"};
    for (unsigned o = 0; o < 3; o++) {
        run_base(options[o], 60);
        run_well("$run %s -- gnn " GRAPH " --iterations 60 %s", clusters[o], options[o]);
        assert_same_lines(options[o], 1, FIRST, 0, 1e-4);
        assert_true(summary("test_accuracy") > 0.9);
        run_well("$run --reliable 3 -- gnn " GRAPH " --iterations 60 --staleness 2 %s", options[o]);
        assert_true(summary("test_accuracy") > 0.8);
        assert_true(summary("clocks") == 60);
    }
    run_well("printf 'iteration 6 kill node-2\\niteration 8 join transient 1\\niteration 12 kill node-3\\n' >events; "
             "$run --reliable 1 --transient 2 --events events -- gnn " GRAPH
             " --iterations 60 --staleness 1 --pipeline async");
    assert_true(summary("test_accuracy") > 0.8);
}

TEST(misuse_is_not_found) {
    static const char *const options[] = {"--pipeline async --staleness 1", "--layers 16,16",
                                          "--pipeline async --model gat"};
    for (unsigned n = 0; n < NETWORKS; n++) {
        run_well("PROTEUS_CHECK=1 $run --reliable 2 --threads 2 -- gnn " GRAPH " --iterations 4 %s %s", networks[n],
                 n % 2 == 0 ? "" : "--layers 8,8");
    }
    for (unsigned o = 0; o < 3; o++) {
        run_well("PROTEUS_CHECK=1 $run --reliable 2 --threads 2 -- gnn " GRAPH " --iterations 4 %s", options[o]);
    }
}

/* The dense features are more than --memory allows. */
PLAIN_TEST(items_on_disk) {
    static const char graph[] = "--edges edges --features wide.npy --labels labels --split split --interval 40";
    static const char *const options[] = {"--aggregate each", "--model gat --layers 4",
                                          "--model sage --pipeline async"};
    run_well("mkdir -p spill");
    for (unsigned o = 0; o < 3; o++) {
        run_well("$bin/proteus run --report base --threads 1 -- gnn %s --iterations 8 %s", graph, options[o]);
        run_well("$run --threads 2 -- gnn %s --iterations 8 --memory 1M --spill spill --log-level info %s", graph,
                 options[o]);
        assert_text("err", "are more than --memory allows");
        assert_true(summary("disk_bytes") > 1e6);
        assert_same_lines(options[o], 1, 8, 0, 1e-4);
    }
    run_well("$bin/proteus run --report base --threads 1 -- gnn %s --iterations 8 %s", graph, options[1]);
    run_well("printf 'iteration 3 kill node-2\\n' >events; $run --reliable 1 --transient 1 --events events -- gnn %s "
             "--iterations 8 --memory 1M --spill spill %s",
             graph, options[1]);
    assert_same_lines(options[1], 1, 8, 5, 1e-4);
    run_well("[ -z \"$(ls spill)\" ]");
}

TEST(an_interrupted_job_leaves_nothing) {
    assert_int_equal(run("rm -f report model; $run --reliable 2 -- gnn " GRAPH
                         " --iterations 100000000 --model-out model >job 2>said & pid=$!; "
                         "until grep -qs '\"iteration\":3,' report; do kill -0 $pid || exit 9; sleep 0.05; done; "
                         "kill -INT $pid; wait $pid"),
                     1);
    assert_text("said",
                "proteus: error: interrupted by SIGINT, the model is not saved; to end a job well: proteus stop ");
    run_well("[ $(wc -l <said) = 1 ] && [ ! -e model ]");
    run_well("rm -f report; $run --reliable 2 -- gnn " GRAPH " --iterations 100000000 --model-out model >job & pid=$!; "
             "until grep -qs '\"iteration\":3,' report; do kill -0 $pid || exit 9; sleep 0.05; done; "
             "$bin/proteus stop --controller $(sed -n 's/^controller at \\([^ ]*\\).*/\\1/p' job) && wait $pid && "
             "$bin/gnn --predict model --edges edges --features features --out predictions");
}

/* ---- Predictions ---- */

/* Returns the share of the test vertices whose prediction in the file `predictions` is their label's. */
static double predicted_accuracy(void) {
    FREED char *labels = read_text("labels");
    FREED char *predictions = read_text("predictions");
    FREED char *split = read_text("split");
    char classes[VERTICES][16];
    char predicted[VERTICES][16];
    int length = 0;
    for (unsigned v = 0, at = 0; v < VERTICES; v++, at += (unsigned)length) {
        assert_int_equal(sscanf(labels + at, "%15s%n", classes[v], &length), 1);
    }
    for (unsigned v = 0, at = 0; v < VERTICES; v++, at += (unsigned)length) {
        unsigned vertex = VERTICES;
        double probability = 0;
        assert_int_equal(sscanf(predictions + at, "%u %15s %lf%n", &vertex, predicted[v], &probability, &length), 3);
        assert_int_equal(vertex, v);
        assert_true(probability >= 0.999 / CLASSES && probability <= 1);
    }
    char *end = strchr(strchr(split, '\n') + 1, '\n'); /* the third line */
    unsigned tests = 0;
    unsigned correct = 0;
    for (char *at = end; (void)strtoul(at, &end, 10), end != at; at = end, tests++) {
        unsigned long vertex = strtoul(at, NULL, 10);
        correct += strcmp(classes[vertex], predicted[vertex]) == 0 ? 1 : 0;
    }
    assert_int_equal(tests, VERTICES - TRAINING - VALIDATION);
    return (double)correct / tests;
}

/* A model predicts what the job's last line says. */
TEST(a_model_predicts) {
    static const char *const options[] = {"--features features --aggregate once",
                                          "--features features --aggregate each --layers 16,16",
                                          "--features features --model sage --scale none",
                                          "--features wide.npy --labels labels --model gat --layers 4",
                                          "--features wide.npy --labels labels --model sage --scale standard",
                                          "--features features --directed"};
    for (unsigned o = 0; o < sizeof options / sizeof options[0]; o += sanitized() ? 2 : 1) {
        const bool wide = strstr(options[o], "wide") != NULL;
        run_well("rm -f model; $run --reliable 2 -- gnn --edges edges --split split --interval 40 --iterations 12 "
                 "--model-out model %s",
                 options[o]);
        run_well("$bin/gnn --predict model --edges edges --features %s --out predictions",
                 wide ? "wide.npy" : "features");
        if (fabs(predicted_accuracy() - summary("test_accuracy")) > 1e-6) {
            fail_msg("%s: accuracy %g of predictions, %g in the report", options[o], predicted_accuracy(),
                     summary("test_accuracy"));
        }
        assert_true(summary("test_accuracy") > 0.5);
    }
    run_well("$run -- gnn " GRAPH " --iterations 12 --model-out model; "
             "$bin/gnn --predict model --edges edges --features features --out predictions");
    run_well("$bin/gnn --predict model --edges edges --features features --labels labels --probabilities --out more && "
             "tail -n +2 more | cut -f 1-3 >less && cmp less predictions");
    assert_text("out", "accuracy ");
    FREED char *text = read_text("more");
    assert_int_equal(strncmp(text, "vertex\tprediction\tprobability\tclass", 34), 0);
    double values[CLASSES];
    assert_int_equal(
        sscanf(strchr(text, '\n'), "%*d %*s %*f %lf %lf %lf %lf", &values[0], &values[1], &values[2], &values[3]),
        CLASSES);
    assert_true(fabs(values[0] + values[1] + values[2] + values[3] - 1) < 1e-5);
    /* Without labels, and with labels of other names. */
    run_well("cut -d ' ' -f 2- features | sed 's/^/0 /' >foreign; $bin/gnn --predict model --edges edges "
             "--features foreign --out more && cmp more predictions");
    assert_no_text("out", "accuracy ");
}

PLAIN_TEST(models_that_do_not_fit) {
    run_well("$run -- gnn " GRAPH " --iterations 2 --model-out model");
    run_refused("$bin/gnn --predict model --edges edges --features wide.npy --out none",
                "wide.npy: expected 60 features, as model has, got 360");
    run_refused("head -c 1000 model >damaged; $bin/gnn --predict damaged --edges edges --features features --out none",
                "damaged");
    run_refused("$bin/gnn --predict features --edges edges --features features --out none", "features: ");
    run_refused("$bin/gnn --predict missing --edges edges --features features --out none", "missing: ");
    run_refused("$bin/gnn --predict model --features features --out none", "--edges: expected --graph, or --edges");
    run_refused("$bin/gnn --predict model --edges edges --features missing --out none", "missing: ");
    run_refused("$bin/gnn --predict model --edges far.edges --features features --out none", "far.edges:1601: ");
    run_well("[ ! -e none ]");
    assert_int_equal(run("$bin/gnn --predict model --edges edges --features features --out /dev/full"), 1);
}

/* Columns of numbers whose scale no float has, or whose distances it has not, are no matter. */
PLAIN_TEST(features_of_any_size) {
    run_well("awk '{ v = NR - 1; print v %% 2 \"e-40,\" (v %% 3 - 1) * 3 \"e38,\" v %% 4 + NR %% 3 / 2 }' labels "
             ">sizes.csv; "
             "$run -- gnn --edges edges --features sizes.csv --labels labels --split split --iterations 30 "
             "--model-out model; $bin/gnn --predict model --edges edges --features sizes.csv --out predictions");
    assert_true(summary("loss") < 1);
    assert_true(fabs(predicted_accuracy() - summary("test_accuracy")) < 1e-6);
}

/* ---- Packed graphs ---- */

#define WORDS_OF   "--edges edges --split split --features features "
#define NUMBERS_OF "--edges edges --split split --labels labels --features wide.npy " /* two parts */

/* Jobs on a packed graph have the lines of jobs on its files. Its model predicts both alike. */
TEST(packed_graphs) {
    static const struct {
        const char *graph, *packed, *network;
    } cases[] = {{WORDS_OF "--interval 32", "--aggregate once", ""},
                 {NUMBERS_OF "--interval 40", "--aggregate each", "--model gat"},
                 {NUMBERS_OF "--interval 40", "--aggregate once --model sage", "--model sage --layers 16,16"},
                 {WORDS_OF "--directed --interval 32", "", ""}};
    run_well("printf 'iteration 4 kill node-3\\niteration 8 join transient 1\\n' >events");
    for (unsigned c = 0; c < sizeof cases / sizeof cases[0]; c += sanitized() ? 2 : 1) {
        run_well("$bin/proteus run --report base --threads 1 -- gnn %s --iterations %d --model-out other %s",
                 cases[c].graph, FIRST, cases[c].network);
        run_well("rm -rf packed; $bin/gnn --pack packed %s %s", cases[c].graph, cases[c].packed);
        assert_text("out", "packed: 400 vertices, ");
        run_well("$run --reliable 2 --transient 1 -- gnn --graph packed --iterations %d --model-out model %s", FIRST,
                 cases[c].network);
        assert_same_lines(cases[c].graph, 1, FIRST, 0, 1e-4);
        run_well("$bin/gnn --predict model --graph packed --out predictions");
        assert_true(fabs(predicted_accuracy() - summary("test_accuracy")) < 1e-6);
        run_well("$bin/gnn --predict model --edges edges --features %s --out more && paste more predictions | "
                 "awk '$2 != $5 { wrong++ } END { exit wrong > 1 }'",
                 strstr(cases[c].graph, "wide") != NULL ? "wide.npy" : "features");
        if (c == 0) {
            run_well("$run --reliable 1 --transient 2 --events events -- gnn --graph packed --iterations %d", FIRST);
            assert_same_lines("kills", 1, FIRST, PARTIAL, 1e-4);
        }
    }
}

/* Damaged, foreign and missing parts, and options that a packed graph excludes. */
PLAIN_TEST(packed_graphs_that_do_not_fit) {
    static const struct {
        const char *command, *message;
    } cases[] = {
        {"$run -- gnn --graph packed --model gat",
         "packed: the graph was packed for --model gcn, expected --model gat"},
        {"$run -- gnn --graph packed --model sage", "packed: the graph was packed for --model gcn"},
        {"$run -- gnn --graph packed --interval 10", "--interval: expected without --graph"},
        {"$run -- gnn --graph packed --split split", "--split: expected without --graph"},
        {"$bin/gnn --pack packed " GRAPH, "packed: has 'part-0000"},
        {"$bin/gnn --pack new --edges far.edges --features features --split split", "far.edges:1601: "},
        {"$bin/gnn --pack new --graph packed", "--graph: expected --edges and --features"},
        {"head -c -1 packed/part-00001.graph >bad/part-00001.graph; $run -- gnn --graph bad",
         "bad/part-00001.graph: truncated or too long"},
        {"cp packed/part-00001.graph bad; printf x | dd of=bad/part-00001.graph bs=1 seek=100000 conv=notrunc 2>dd; "
         "$run -- gnn --graph bad",
         "bad/part-00001.graph: "},
        {"cp other/part-00001.graph bad; $run -- gnn --graph bad", "bad/part-00001.graph: "},
        {"cp packed/part-00000.graph bad/part-00001.graph; $run -- gnn --graph bad", "bad/part-00001.graph: "},
        {"rm bad/part-00001.graph; $run -- gnn --graph bad", "bad: "},
        {"cp packed/* bad; echo >bad/foreign; $run -- gnn --graph bad", "bad: has 'foreign', which is no part"},
        {"rm bad/*; $run -- gnn --graph bad", "bad: no packed graph"},
    };
    run_well("rm -rf packed other bad; $bin/gnn --pack packed " NUMBERS_OF
             " --aggregate once && $bin/gnn --pack other " NUMBERS_OF
             " --aggregate once --scale none && [ $(ls packed | wc -l) = 2 ] && cp -r packed bad");
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char command[512];
        snprintf(command, sizeof command, "%s; status=$?; [ $(wc -l <err) = 1 ] && [ ! -e new ] && exit $status",
                 cases[c].command);
        run_refused(command, cases[c].message);
    }
}

/* ---- Bad input ---- */

static const struct {
    const char *arguments; /* behind `gnn` */
    const char *message;
} mistakes[] = {
    {"--edges far.edges --features features --split split",
     "far.edges:1601: expected a vertex from 0 to 399, as features has 400 rows, got 400 (vertices count from 0)"},
    {"--edges single.edges --features features --split split", "single.edges:3: expected 2 fields"},
    {"--edges word.edges --features features --split split", "word.edges:3: expected two vertices of an edge"},
    {"--edges half.npy --features features --split split", "half.npy: "},
    {"--edges far.npy --features features --split split", "far.npy: element [1][1]: expected a vertex from 0 to 399"},
    {"--edges thrice.npy --features features --split split", "thrice.npy: expected"},
    {"--edges missing --features features --split split", "--edges: missing: No such file"},
    {"--edges edges --features nan --split split", "nan:1: expected a finite number"},
    {"--edges edges --features nan.npy --labels labels --split split",
     "nan.npy: element [1][0]: expected a finite number"},
    {"--edges edges --features wide.npy --split split", "--labels: expected a file of labels, as wide.npy has none"},
    {"--edges edges --features text.npy --labels labels --split split", "text.npy: an array of type '<U1': expected"},
    {"--edges edges --features fortran.npy --labels labels --split split", "fortran.npy: an array in Fortran order"},
    {"--edges edges --features short.npy --labels labels --split split", "short.npy: truncated: expected"},
    {"--edges edges --features long.npy --labels labels --split split", "long.npy: too long: expected"},
    {"--edges edges --features pickle --labels labels --split split", "pickle: a Python pickle: expected text or .npy"},
    {"--edges edges --features missing --split split", "--features: missing: No such file"},
    {"--edges edges --features features --labels few --split split", "few has 399 rows, but features has 400"},
    {"--edges edges --features features --labels one --split split",
     "expected training vertices of at least 2 classes"},
    {"--edges edges --features features --labels unknown --split split", "is for training, but has no label"},
    {"--edges edges --features few.features --labels labels --split split",
     "labels has 400 rows, but few.features has 399"},
    {"--edges edges --features features --split twice.split", "twice.split:2: vertex 0 is for validation and training"},
    {"--edges edges --features features --split far.split", "far.split:3: expected a vertex from 0 to 399"},
    {"--edges edges --features features --split none.split", "none.split: expected vertices for training"},
    {"--edges edges --features features --split two.split", "two.split: expected three lines"},
    {"--edges edges --features features --split mask.npy,far.npy,half.npy",
     "mask.npy: expected a mask of 400 elements"},
    {"--edges edges --features features --split missing", "--split: missing: cannot open: No such file"},
    {"--edges edges --features features --split split,missing,split", "--split: missing: cannot open"},
    {"--edges edges --features features", "--split or --train-per-class: expected one of them"},
    {"--edges edges --features features --train-per-class 101", "expected at least 101 + 0 for training"},
    {GRAPH " --train-per-class 2", "--split: expected it without --train-per-class"},
    {"--features features --split split", "--edges: expected --graph, or --edges and --features"},
    {"--graph missing", "--graph: missing: No such file"},
    {GRAPH " --graph .", "--edges: expected without --graph"},
    {GRAPH " --staleness 1", "--staleness 1: expected --pipeline async"},
    {GRAPH " --heads 2", "--heads: expected --model gat, got gcn"},
    {GRAPH " --output-heads 2", "--output-heads: expected --model gat, got gcn"},
    {GRAPH " --attention-dropout 0.1", "--attention-dropout: expected --model gat, got gcn"},
    {GRAPH " --layers 0", "--layers: expected the width of each hidden layer, 1 to 4096"},
    {GRAPH " --layers 64,", "--layers: expected the width of each hidden layer"},
    {GRAPH " --layers ''", "--layers: expected the width of each hidden layer"},
    {GRAPH " --layers 1,2,3,4,5,6,7", "--layers: expected at most 6 hidden layers"},
    {"--edges edges --features far.features --split split",
     "--layers: expected at most 268435456 parameters, got 3200"},
    {GRAPH " --model gat --layers 600", "expected at most 4096 values of a vertex in a layer, got 8 x 600"},
    {GRAPH " --model gat --aggregate once", "--aggregate once: expected --model gcn or sage"},
    {GRAPH " --model gcm", "--model: expected gcn, gat or sage, got 'gcm'"},
    {GRAPH " --pipeline half", "--pipeline: expected sync or async, got 'half'"},
    {GRAPH " --optimizer sgd --momentum 0.5", "--momentum: expected --optimizer adam or momentum, got sgd"},
    {GRAPH " --optimizer momentum --beta2 0.5", "--beta2: expected --optimizer adam, got momentum"},
    {GRAPH " --rate -0.5", "--rate: expected at least 0, or -1, got -0.5"},
    {GRAPH " --dropout -0.5", "--dropout: expected at least 0, or -1"},
    {GRAPH " --model-out edges", "--model-out: edges: this is an input file of the job"},
    {GRAPH " --model-out split", "--model-out: split: this is an input file of the job"},
    {GRAPH " --model-out nowhere/model", "--model-out: nowhere/model: can't write it"},
    {GRAPH " --strategy sma", "--strategy sma: expected ssgd"},
    {GRAPH " --clocks-per-iteration 4", "--clocks-per-iteration 4: expected 3, or without it"},
    {GRAPH " --clocks-per-iteration 6", "--clocks-per-iteration 6: expected 3, or without it"},
    {GRAPH " --pipeline async --clocks-per-iteration 2", "--clocks-per-iteration 2: expected 1, or without it"},
};

/* Each mistake ends the job with one line, before anything is written. */
PLAIN_TEST(bad_input) {
    for (size_t m = 0; m < sizeof mistakes / sizeof mistakes[0]; m++) {
        char command[512];
        bool out = strstr(mistakes[m].arguments, "--model-out") != NULL;
        snprintf(command, sizeof command,
                 "$bin/proteus run -- gnn %s%s; status=$?; "
                 "[ $(wc -l <err) = 1 ] && [ ! -e none ] && exit $status",
                 mistakes[m].arguments, out ? "" : " --model-out none");
        run_refused(command, mistakes[m].message);
    }
}

/* ---- Real data ---- */

/* Kipf and Welling (2017) report 81.5 %, Velickovic et al. (2018) 83.0 %. */
PLAIN_TEST(cora) {
    char source[512];
    char folder[600];
    assert_non_null(realpath(getenv("PROTEUS_SOURCE"), source));
    snprintf(folder, sizeof folder, "%s/../shared/data/graph-cora", source);
    if (access(folder, R_OK) != 0 || sanitized()) {
        print_message("skipped: Cora is not at hand in ../shared/data, or the build is slow\n");
        skip();
    }
    static const char *const options[] = {"", "--model gat --iterations 100"};
    for (unsigned o = 0; o < sizeof options / sizeof options[0]; o++) {
        run_well("printf 'iteration 20 kill node-2\\niteration 30 join transient 1\\n' >events; d=%s; "
                 "$run --reliable 1 --transient 2 --events events -- gnn --edges $d/cora.edges.gz --features "
                 "$d/cora.features.gz --split $d/cora.split.gz %s",
                 folder, options[o]);
        assert_true(summary("test_accuracy") > 0.79);
    }
}

/* ---- The group ---- */

static uint32_t random_state = 1;

/* Returns a random number below `limit`. */
static unsigned random_below(unsigned limit) {
    random_state = random_state * 1664525U + 1013904223U;
    return (unsigned)(((uint64_t)random_state * limit) >> 32);
}

/* Returns a random vertex; mostly one of a class. */
static unsigned random_like(unsigned limit, unsigned class, unsigned percent) {
    unsigned vertex = random_below(limit);
    return random_below(100) < percent ? vertex / CLASSES * CLASSES + class : vertex;
}

/* Writes edges that are mostly within classes, and words of which more than half are of the vertex's class. */
static void write_graph(void) {
    FILE *edges = open_file("edges", "we");
    FILE *features = open_file("features", "we");
    FILE *labels = open_file("labels", "we");
    for (unsigned e = 0; e < EDGES; e++) {
        unsigned from = random_below(VERTICES);
        fprintf(edges, "%u %u\n", from, random_like(VERTICES, from % CLASSES, 75));
    }
    for (unsigned v = 0; v < VERTICES; v++) {
        bool words[WORDS] = {false};
        for (unsigned w = 0; w < 7; w++) {
            words[random_like(WORDS, v % CLASSES, 30)] = true;
        }
        words[WORDS - 1] = words[WORDS - 1] || v == 0; /* the last column is there */
        fprintf(features, "class%u", v % CLASSES);
        fprintf(labels, "class%u\n", v % CLASSES);
        for (unsigned w = 0; w < WORDS; w++) {
            if (words[w]) {
                fprintf(features, " %u:1", w + 1);
            }
        }
        fputc('\n', features);
    }
    assert_true(fclose(edges) == 0 && fclose(features) == 0 && fclose(labels) == 0);
}

/* Writes each vertex into one of three lines, which 0, 1 and 2 begin. */
static void write_split(void) {
    FILE *split = open_file("split", "we");
    const unsigned ends[] = {TRAINING, TRAINING + VALIDATION, VERTICES};
    for (unsigned s = 0, at = 0; s < 3; s++) {
        for (; at < ends[s]; at++) {
            fprintf(split, "%u ", at * 7 % VERTICES);
        }
        fputc('\n', split);
    }
    assert_int_equal(fclose(split), 0);
}

/* Writes an array in numpy's format: its type, shape and `size` bytes. */
static void write_npy(const char *name, const char *head, const void *bytes, size_t size) {
    FILE *file = open_file(name, "we");
    const unsigned char start[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
    assert_int_equal(fwrite(start, 1, sizeof start, file), sizeof start);
    fprintf(file, "{%-116s\n", head);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

#define NPY(type, fortran, shape) "'descr': '" type "', 'fortran_order': " fortran ", 'shape': " shape ", }"

/* Writes dense features, which depend on the class a little, and arrays with mistakes. */
static void write_arrays(void) {
    static float wide[VERTICES][WIDE];
    for (unsigned v = 0; v < VERTICES; v++) {
        for (unsigned c = 0; c < WIDE; c++) {
            wide[v][c] = (float)random_below(1000) / 1000 + (c % CLASSES == v % CLASSES ? 0.2F : 0);
        }
    }
    write_npy("wide.npy", NPY("<f4", "False", "(400, 360)"), wide, sizeof wide);
    write_npy("fortran.npy", NPY("<f4", "True", "(400, 360)"), wide, sizeof wide);
    write_npy("short.npy", NPY("<f4", "False", "(400, 360)"), wide, sizeof wide - 1);
    write_npy("long.npy", NPY("<f4", "False", "(399, 360)"), wide, sizeof wide);
    write_npy("text.npy", NPY("<U1", "False", "(400, 90)"), wide, sizeof wide);
    wide[1][0] = NAN;
    write_npy("nan.npy", NPY("<f4", "False", "(400, 360)"), wide, sizeof wide);
    const int64_t far[] = {0, 1, 2, 3, 400, 4};
    const double half[] = {0.5, 1, 2, 3};
    const unsigned char mask[VERTICES - 1] = {1};
    write_npy("far.npy", NPY("<i8", "False", "(2, 3)"), far, sizeof far);
    write_npy("half.npy", NPY("<f8", "False", "(2, 2)"), half, sizeof half);
    write_npy("thrice.npy", NPY("<i8", "False", "(3, 1)"), far, 3 * sizeof *far);
    write_npy("mask.npy", NPY("|b1", "False", "(399,)"), mask, sizeof mask);
}

static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    write_graph();
    write_split();
    write_arrays();
    run_well("(cat edges; echo 0 400) >far.edges; (head -n 2 edges; echo 7; cat edges) >single.edges; "
             "(head -n 2 edges; echo 7 x; cat edges) >word.edges; sed '1s/:1/:nan/' features >nan; "
             "head -n 399 features >few.features; sed '1s/$/ 5000000:1/' features >far.features; "
             " head -n 399 labels >few; sed 's/.*/x/' labels >one; "
             "sed '1s/.*/?/' labels >unknown; sed '2s/$/ 0/' split >twice.split; sed '3s/$/ 400/' split >far.split; "
             "sed '1s/.*//' split >none.split; head -n 2 split >two.split; printf '\\200\\004K\\001.' >pickle");
    return 0;
}

int main(void) {
    return tests_run(set_up, files_close);
}
