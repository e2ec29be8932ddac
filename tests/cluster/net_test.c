/* Tests of net with real processes. Any number of nodes and threads, and nodes that come and go give the same losses. A
 * network learns what logistic regression can't. Also tests models that are written and read again, refused input, and
 * accuracy where the real data is available. Nothing here depends on time. */
#include <math.h>
#include <unistd.h>

#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { SAMPLES = 800, TESTS = 200, SIDE = 10, CLASSES = 4 };

#define IMAGES       "--data train.csv --test test.csv --batch 40 --iterations 12"
#define DARK         "--data dark.csv --test dark.csv --scale none --batch 40 --iterations 12" /* zeros stay zeros */
#define CONVOLUTIONS "--layers 'conv 6x3, pool 2, conv 8x3, norm, pool 2, dense 16' --rate 0.02"

/* ---- The tests ---- */

TEST(the_same_losses_however_it_is_run) {
    static const char *const clusters[] = {"", "--threads 3", "--reliable 2 --partitions 3",
                                           "--reliable 2 --transient 2 --stage 3"};
    static const char *const options[] = {CONVOLUTIONS, "--layers 'dense 30' --optimizer sgd --rate 0.2 --lambda 1e-3",
                                          "--layers 'dense 30, dropout 0.2' --lambda 1e-3 --shift 1",
                                          "--layers 'dense 30' --optimizer adam"};
    const size_t step = only_threads() ? 2 : 1; /* optimizers run in the same threads */
    const size_t farther = sanitized() ? 3 : 1;
    for (size_t o = 0; o < sizeof options / sizeof options[0]; o += step) {
        double loss = 0;
        double test_loss = 0;
        for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c += farther) {
            run_well("$run %s -- net " IMAGES " %s", clusters[c], options[o]);
            loss = c == 0 ? summary("loss") : loss;
            test_loss = c == 0 ? summary("test_loss") : test_loss;
            /* Floats are added in another order, and training makes differences grow. */
            assert_true(fabs(summary("loss") - loss) < 0.1 * loss);
            assert_true(fabs(summary("test_loss") - test_loss) < 0.1 * test_loss);
            assert_true(summary("items_processed") == 12.0 * SAMPLES);
        }
        if (o == 0) {
            assert_true(summary("test_accuracy") > 0.95);
        }
    }
}

/* Five of eight images are dark apart from their shape, so that about two of five inputs are not 0. Parts of a batch
 * with more zeros skip them. Whether a part skips changes only the order of sums. */
PLAIN_TEST(zeros_are_skipped_alike) {
    skip_sanitized();
    static const char *const clusters[] = {"", "--threads 3", "--reliable 2 --partitions 3"};
    static const char *const options[] = {"--layers 'dense 30'", "--layers 'dropout 0.1, dense 30' --lambda 1e-3"};
    for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
        double loss = 0;
        double test_loss = 0;
        for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
            run_well("$run %s -- net " DARK " %s", clusters[c], options[o]);
            loss = c == 0 ? summary("loss") : loss;
            test_loss = c == 0 ? summary("test_loss") : test_loss;
            assert_true(fabs(summary("loss") - loss) < 0.02 * loss);
            assert_true(fabs(summary("test_loss") - test_loss) < 0.02 * test_loss);
        }
    }
    double losses[2];
    for (int time = 0; time < 2; time++) {
        run_well("$run --threads 3 -- net " DARK " --layers 'dense 30' --model-out dark.model");
        losses[time] = summary("loss");
    }
    assert_true(losses[0] == losses[1]);
    double accuracy = summary("test_accuracy");
    double test_loss = summary("test_loss");
    run_well("$bin/net --predict dark.model --data dark.csv --out predictions");
    FREED char *text = read_text("out");
    double predicted = 0;
    double loss = 0;
    assert_int_equal(sscanf(text, "samples %*d unknown_labels 0 accuracy %lf loss %lf", &predicted, &loss), 2);
    assert_true(fabs(predicted - accuracy) < 1e-5);
    assert_true(fabs(loss - test_loss) < 1e-4);
}

#define LARGE "--layers 'dense 400, dense 100' --rate 0.02 --iterations 6"

/* Layers are sent as soon as their gradients are computed: the training is the same. The sum of two numbers is the same
 * in either order. */
TEST(layers_are_flushed_early) {
    static const char *const options[] = {LARGE, LARGE " --optimizer sgd --lambda 1e-3", LARGE " --compress bf16"};
    for (size_t o = 0; o < (sanitized() ? 1 : sizeof options / sizeof options[0]); o++) {
        run_well("$run --threads 2 --reliable 2 --partitions 2 -- net " IMAGES " %s", options[o]);
        double loss = summary("loss");
        run_well("PROTEUS_LOG_LEVEL=info $run --threads 2 --reliable 2 --partitions 2 -- net " IMAGES
                 " --flush-early %s",
                 options[o]);
        assert_true(fabs(summary("loss") - loss) < 1e-6 * loss);
        assert_text("err", " times before a clock's end (--flush-early)");
    }
    run_well("$run --reliable 2 -- net " IMAGES " " LARGE);
    double loss = summary("loss");
    run_well("printf 'iteration 3 kill node-3\\n' >events; $run --reliable 2 --transient 1 --stage 1 --partitions 2 "
             "--events events -- net " IMAGES " --flush-early " LARGE);
    check_iterations(SAMPLES);
    assert_true(fabs(summary("loss") - loss) < 0.1 * loss);
    run_well("PROTEUS_LOG_LEVEL=info $run --reliable 2 --partitions 2 -- net " IMAGES " --flush-early " LARGE
             " --strategy sma");
    assert_no_text("err", "before a clock's end"); /* the mean is sent at the end */
}

/* The shapes are in any place. Convolutions find them; logistic regression does not. */
PLAIN_TEST(layers_learn_more) {
    skip_sanitized();
    run_well("$run -- net " IMAGES " " CONVOLUTIONS);
    assert_true(summary("test_accuracy") > 0.95);
    run_well("$run -- net " IMAGES " --layers ''");
    assert_true(summary("test_accuracy") < 0.8);
}

PLAIN_TEST(nodes_come_and_go) {
    skip_sanitized();
    run_well("$run -- net " IMAGES " --iterations 40 " CONVOLUTIONS);
    assert_true(summary("test_accuracy") > 0.96);
    double accuracy = summary("test_accuracy");
    run_well("printf 'iteration 4 join transient 2\\niteration 12 kill node-3\\niteration 25 evict transient all "
             "notice 60s\\n' >events; $run --reliable 2 --events events -- net " IMAGES
             " --iterations 40 " CONVOLUTIONS);
    check_iterations(SAMPLES);
    assert_true(fabs(summary("test_accuracy") - accuracy) < 0.03);
}

/* Local steps and their mean learn as well as sums, directly or by a ring. Jobs of either kind resume from the other's
 * checkpoints. */
TEST(strategies) {
    run_well("$run --reliable 3 -- net " IMAGES " " CONVOLUTIONS " --strategy sma --local-steps 5");
    double loss = summary("test_loss");
    assert_true(summary("test_accuracy") > 0.95);
    run_well("$run --reliable 3 -- net " IMAGES " " CONVOLUTIONS " --strategy sma --local-steps 5 --exchange ring");
    assert_true(fabs(summary("test_loss") - loss) < 0.1 * loss);
    static const char *const next[] = {"ssgd", "sma --local-steps 4", "ssgd"};
    run_well("rm -rf saved; $run --reliable 2 --checkpoint saved -- net " IMAGES
             " --iterations 4 --optimizer sgd --strategy sma --local-steps 3");
    for (int n = 0; n < 3; n++) {
        run_well("$run --reliable 2 --checkpoint saved --resume saved -- net " IMAGES
                 " --optimizer sgd --iterations %d --strategy %s",
                 5 + n, next[n]);
        assert_true(summary("items_processed") == 1.0 * SAMPLES);
    }
    run_refused("$run -- net " IMAGES " --strategy easgd",
                "--strategy: expected ssgd, sma, adpsgd or auto, got 'easgd'");
    run_refused("$run -- net " IMAGES " --local-steps 2", "--local-steps 2: expected 1 with --strategy ssgd");
    run_refused("$run -- mlr --data train.csv --layout sparse --strategy sma",
                "--strategy sma: expected ssgd, since mlr has no other");
}

/* A process makes the same steps by an optimizer as the servers would. They keep its states, for nodes that join, for
 * jobs that lose nodes, and for resumed jobs with another strategy. */
TEST(local_steps_of_optimizers) {
    static const char *const optimizers[] = {"momentum", "adam"};
    for (size_t o = sanitized() ? 1 : 0; o < sizeof optimizers / sizeof optimizers[0]; o++) {
        run_well("$run --threads 2 -- net " IMAGES " --optimizer %s --strategy ssgd", optimizers[o]);
        double loss = summary("test_loss");
        run_well("PROTEUS_CHECK=1 $run --threads 2 --partitions 3 -- net " IMAGES
                 " --optimizer %s --strategy sma --local-steps 7",
                 optimizers[o]);
        assert_true(fabs(summary("test_loss") - loss) < 1e-3 * loss);
        run_well("rm -rf saved; printf 'iteration 3 join transient 1\niteration 5 kill node-3\n' >events; "
                 "$run --reliable 2 --events events --checkpoint saved -- net " IMAGES
                 " --optimizer %s --strategy sma --local-steps 5 --iterations 8",
                 optimizers[o]);
        check_iterations(SAMPLES);
        run_well("PROTEUS_CHECK=1 $run --reliable 2 -- net " IMAGES " --optimizer %s --strategy auto --iterations 2",
                 optimizers[o]);
        run_well("$run --reliable 2 --resume saved --checkpoint saved -- net " IMAGES
                 " --optimizer %s --iterations 10 --strategy ssgd",
                 optimizers[o]);
        run_well("$run --resume saved -- net " IMAGES " --optimizer %s --strategy sma", optimizers[o]);
        assert_true(summary("items_processed") == 2.0 * SAMPLES);
        assert_true(fabs(summary("test_loss") - loss) < 0.3 * loss);
    }
    /* Long iterations have local steps by themselves, unless an option excludes them. */
    static const struct {
        const char *options;
        bool local;
    } cases[] = {
        {"--batch 10", true}, {"--batch 10 --compress bf16", false}, {"--batch 10 --shift 1", false}, {"", false}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        run_well("rm -rf saved; $run --checkpoint saved -- net " IMAGES " --iterations 1 %s", cases[c].options);
        int status = run("grep -rqE '\"strategy\": ?\"sma\"' saved");
        if ((status == 0) != cases[c].local) {
            fail_msg("%s: expected local steps: %d", cases[c].options, cases[c].local);
        }
    }
}

/* Averages with random peers between local steps learn as well, while nodes are killed and join. A job with another
 * strategy resumes from such a job's checkpoint. */
TEST(averages_with_peers) {
    run_well("PROTEUS_LOG_LEVEL=info $run --reliable 3 -- net " IMAGES " " CONVOLUTIONS
             " --strategy adpsgd --local-steps 5");
    assert_true(summary("test_accuracy") > 0.95);
    assert_text("err", "times with other nodes between local steps");
    run_well("PROTEUS_CHECK=1 $run --reliable 2 --threads 2 -- net " IMAGES
             " --iterations 3 --strategy adpsgd --local-steps 5");
    assert_true(summary("items_processed") == 3.0 * SAMPLES);
    run_well("printf 'iteration 4 join transient 1\niteration 8 kill node-4\niteration 12 kill node-3\n' >events; "
             "rm -rf saved; $run --reliable 1 --transient 3 --stage 2 --events events "
             "--checkpoint saved -- net " IMAGES " --iterations 30 " CONVOLUTIONS " --strategy adpsgd --local-steps 5");
    check_iterations(SAMPLES);
    assert_true(summary("test_accuracy") > 0.93);
    run_well("$run --reliable 2 --resume saved -- net " IMAGES " --iterations 31 " CONVOLUTIONS " --strategy sma");
    assert_true(summary("items_processed") == 1.0 * SAMPLES);
}

/* A GPU makes the same steps. Without a GPU `cuda` is refused and `auto` means the CPU. */
PLAIN_TEST(devices_are_alike) {
    run_well("$run -- net " IMAGES " --iterations 2 --device cpu");
    double loss = summary("loss");
    run_well("$run -- net " IMAGES " --iterations 2 --device auto");
    assert_true(fabs(summary("loss") - loss) < 1e-3 * loss);
    int status = run("$run -- net " IMAGES " --iterations 2 --device cuda");
    if (status == 0) {
        assert_true(fabs(summary("loss") - loss) < 1e-3 * loss);
        return;
    }
    FREED char *error = read_text("err");
    char *reason = strstr(error, "--device cuda: ");
    if (status != 2 || reason == NULL) {
        fail_msg("--device cuda ended with status %d: '%s'", status, error);
    }
    print_message("without a device: %s", reason);
}

static bool device_is_emulated(void) {
    bool emulated = run("test -x $tests/net_emulated") == 0;
    if (!emulated) {
        print_message("skipped: no $tests/net_emulated (sanitizers do not go with it)\n");
    }
    return emulated;
}

/* The program's device part on the device that tests/cuda emulates: all layers, training and test samples, several
 * nodes, parameters that servers change and others. */
PLAIN_TEST(an_emulated_device_is_alike) {
    if (!device_is_emulated()) {
        skip();
    }
    static const char *const runs[] = {
        "$run -- %s " IMAGES " --iterations 2 --device %s " CONVOLUTIONS " --lambda 1e-3",
        "$run --reliable 2 --transient 1 -- %s " IMAGES " --iterations 3 --device %s --optimizer adam --shift 1 "
        "--layers 'dropout 0.1, dense 30, norm, dropout 0.2'",
        "$run -- %s " IMAGES " --iterations 3 --device %s --optimizer sgd --rate 0.2 --lambda 1e-3",
        "$run --threads 2 -- %s " DARK " --iterations 3 --device %s --layers 'dense 40'", /* the CPU skips zeros */
        "PROTEUS_CHECK=1 $run -- %s " IMAGES " --iterations 2 --device %s", /* rows that are not contiguous */
    };
    for (size_t r = 0; r < sizeof runs / sizeof runs[0]; r++) {
        run_well(runs[r], "net", "cpu");
        double loss = summary("loss");
        double test_loss = summary("test_loss");
        run_well(runs[r], "$tests/net_emulated", "cuda");
        assert_true(fabs(summary("loss") - loss) < 1e-4 * loss);
        assert_true(fabs(summary("test_loss") - test_loss) < 1e-4 * test_loss);
    }
}

/* If the device has too little memory, `auto` uses the CPU and `cuda` ends with a line that says so. */
PLAIN_TEST(a_device_without_memory) {
    if (!device_is_emulated()) {
        skip();
    }
    static const char *const memories[] = {"100000", "60000"}; /* room for 53 kB of parameters, or not even that */
    run_well("$run -- net " IMAGES " --iterations 2 --device cpu");
    double loss = summary("loss");
    for (size_t m = 0; m < 2; m++) {
        char command[512];
        run_well("EMULATED_MEMORY=%s $run -- $tests/net_emulated " IMAGES " --iterations 2", memories[m]);
        assert_true(fabs(summary("loss") - loss) < 1e-6 * loss); /* another program: BLAS may round differently */
        snprintf(command, sizeof command, "EMULATED_MEMORY=%s $run -- $tests/net_emulated " IMAGES " --device cuda",
                 memories[m]);
        assert_int_equal(run("%s", command), 1);
        assert_text("err", "out of memory; --device cpu needs no device");
    }
}

/* The rate's schedule: with rate 0 from the second iteration on nothing changes any more. */
PLAIN_TEST(schedules) {
    skip_sanitized();
    static const char *const optimizers[] = {"momentum", "sgd"};
    double first = 0;
    double last = 0;
    for (size_t o = 0; o < 2; o++) { /* an iteration of one step has the rate of its middle */
        run_well("$run -- net " IMAGES " --iterations 1 --clocks-per-iteration 1 --rate 0.1 --optimizer %s",
                 optimizers[o]);
        first = summary("test_loss");
        run_well("$run -- net " IMAGES " --iterations 1 --clocks-per-iteration 1 --rate 0.2 --anneal 1 --optimizer %s",
                 optimizers[o]);
        assert_true(fabs(summary("test_loss") - first) < 1e-5 * first);
        run_well("$run -- net " IMAGES " --iterations 1 --clocks-per-iteration 1 --rate 1e-9 --optimizer %s",
                 optimizers[o]);
        assert_true(first < 0.999 * summary("test_loss"));
    }
    run_well("$run -- net " IMAGES " --momentum 0 --anneal 1");
    assert_true(whole_metric("report", 1, "test_loss", &first));
    assert_true(whole_metric("report", 12, "test_loss", &last));
    assert_true(fabs(first - last) < 1e-5 * first);
    run_well("$run -- net " IMAGES " --optimizer sgd --rate 0.1");
    double loss = summary("loss");
    run_well("$run -- net " IMAGES " --momentum 0 --rate 0.1"); /* the servers take the same steps */
    assert_true(fabs(summary("loss") - loss) < 1e-3 * loss);
    /* The servers' iterations are those of the option. */
    run_well("$run -- net " IMAGES " --optimizer sgd --rate 0.1 --anneal 12 --clocks-per-iteration 5");
    double annealed = summary("loss");
    run_well("$run -- net " IMAGES " --momentum 0 --rate 0.1 --anneal 12 --clocks-per-iteration 5");
    assert_true(fabs(summary("loss") - annealed) < 1e-3 * annealed);
    run_well("$run -- net " IMAGES " --momentum 0 --rate 0.1 --decay 0.5");
    assert_true(summary("loss") > loss);
    run_well("$run -- net " IMAGES " --momentum 0 --rate 0.1 --warm-up 12");
    assert_true(summary("loss") > loss);
}

PLAIN_TEST(a_model_is_written_and_read) {
    static const char *const options[] = {CONVOLUTIONS, "--layers 'dense 20, dropout 0.3' --scale max",
                                          "--layers '' --scale unit", "--layers 'dense 20'"};
    for (size_t o = 0; o < sizeof options / sizeof options[0]; o += sanitized() ? 2 : 1) {
        run_well("$run --reliable 2 -- net " IMAGES " --model-out model %s", options[o]);
        double accuracy = 0;
        double loss = 0;
        run_well("$bin/net --predict model --data test.csv --out predictions");
        FREED char *text = read_text("out");
        assert_int_equal(sscanf(text, "samples %*d unknown_labels 0 accuracy %lf loss %lf", &accuracy, &loss), 2);
        assert_true(fabs(accuracy - summary("test_accuracy")) < 1e-5);
        assert_true(fabs(loss - summary("test_loss")) < 1e-4);
        run_well("test $(wc -l <predictions) = %d", TESTS);
        run_well("cut -d, -f2- test.csv >unlabelled.csv; $bin/net --predict model --data unlabelled.csv >more; "
                 "cut -f2- predictions | cmp - more");
    }
    assert_int_equal(run("head -c 100 model >damaged && $bin/net --predict damaged --data test.csv"), 2);
    run_refused("$run -- mlr --data train.csv --iterations 1 --model-out other && "
                "$bin/net --predict other --data test.csv",
                "other: ");
}

PLAIN_TEST(what_is_refused) {
    run_refused("$run -- net", "--data FILE is missing");
    run_refused("$run -- net --data nowhere", "nowhere: cannot open: No such file or directory");
    run_refused("$run -- net --data train.csv --layers 'dense 3, convolution 7'",
                "--layers: layer 2, 'convolution 7': expected conv FxK, pool K, dense N, norm or dropout P");
    run_refused("$run -- net --data train.csv --scale norm",
                "--scale: expected none, byte, max, unit, standard or auto, got 'norm'");
    run_refused("$run -- net --data train.csv --layers 'pool 11'", "the images there have 10 x 10 pixels");
    run_refused("$run -- net --data train.csv --layers 'pool 2' --image-width 7",
                "100 features are no image 7 pixels wide of 1 channels");
    run_refused("$run -- net --data train.csv --channels 3", "of 3 channels");
    run_refused("printf '1 1:1 2:3\\n2 1:2\\n' >two; $run -- net --data two --layers 'conv 4x3'",
                "layer 1, 'conv 4x3': expected images, 2 features are none: see --image-width and --channels");
    run_refused("$run -- net --data train.csv --shift 10", "--shift 10: expected less than the image's width");
    run_refused("$run -- net --data train.csv --momentum 1", "--momentum");
    run_refused("$run -- net --data train.csv --optimizer adamw",
                "--optimizer: expected momentum, adam or sgd, got 'adamw'");
    run_refused("$run -- net --data train.csv --optimizer sgd --momentum 0.5",
                "--momentum: expected --optimizer momentum or adam, got sgd");
    run_refused("$run -- net --data train.csv --beta2 0.99", "--beta2: expected --optimizer adam, got momentum");
    run_refused("$run -- net --data train.csv --layers 'norm, dense 9' --image-width 10",
                "--layers: layer 1, 'norm': expected images of more than one channel");
    run_well("$run -- net --data train.csv --layers 'norm, dense 9' --iterations 1"); /* no images */
    run_refused("$run -- net --data train.csv --model-out nowhere/model",
                "nowhere/model: can't write it: No such file");
}

/* Networks with equal tables. The long descriptions differ only beyond what a message shows. */
PLAIN_TEST(other_layers_are_refused) {
#define LONG "conv 6x3, norm, pool 2, conv 8x3, norm, pool 2, dense 16, norm, dropout 0."
    static const char *const layers[][3] = {
        {"dense 8", "dense 8, dropout 0.5", "--layers 'dense 8, dropout 0.5', "},
        {LONG "25", LONG "35", "--layers 'conv 6x3, norm, pool 2, conv 8x3, norm, pool 2"},
    };
    for (size_t l = 0; l < 2; l++) {
        char command[1024];
        run_well("rm -rf saved; $run --checkpoint saved -- net --data train.csv --iterations 2 --layers '%s'",
                 layers[l][0]);
        snprintf(command, sizeof command, "$run --resume saved -- net --data train.csv --iterations 3 --layers '%s'",
                 layers[l][1]);
        run_refused(command, layers[l][2]);
        run_well("$run --resume saved -- net --data train.csv --iterations 3 --layers '%s'", layers[l][0]);
        snprintf(command, sizeof command,
                 "rm -f says; { $bin/proteus controller --listen tcp://127.0.0.1:0 --reliable 2 --transient 0 "
                 "--report report >says & } && while ! grep -q nodes says; do sleep 0.05; done; "
                 "read -r listening on at more <says; "
                 "node() { $bin/net --data train.csv --iterations 2 --controller=$at --tier=reliable \"$@\"; }; "
                 "node --name=first --layers '%s' & "
                 "while ! $bin/proteus status --controller $at 2>&1 | grep -q first; do sleep 0.05; done; "
                 "node --layers '%s'; refused=$?; node --layers '%s' && wait && exit $refused",
                 layers[l][0], layers[l][1], layers[l][0]);
        run_refused(command, layers[l][2]);
        assert_true(summary("items_processed") == 2.0 * SAMPLES);
    }
#undef LONG
    run_well("rm -rf saved; $run --checkpoint saved -- net --data train.csv --iterations 1 --scale max");
    run_refused("$run --resume saved -- net --data train.csv --iterations 2", "--scale auto, was max");
}

PLAIN_TEST(a_training_that_diverges_writes_no_model) {
    assert_int_equal(
        run("$run -- net --data train.csv --optimizer sgd --rate 1e3 --lambda 100 --iterations 3 --model-out wild"), 1);
    assert_text("err", "training diverged");
    assert_int_equal(run("test -e wild"), 1);
}

PLAIN_TEST(accuracy_on_mnist) {
    char shared[512];
    const char *source = getenv("PROTEUS_SOURCE");
    snprintf(shared, sizeof shared, "%s/../shared/data/class-mnist", source);
    char *resolved = realpath(shared, NULL);
    if (resolved == NULL || sanitized()) {
        free(resolved);
        print_message("skipped: the samples are not at hand in ../shared/data, or the build is slow\n");
        skip();
    }
    static const char *const clusters[] = {"--reliable 1 --threads 2", "--reliable 2"};
    double accuracy = 0;
    for (size_t c = 0; c < 2; c++) {
        run_well("data=%s; $run %s -- net --data $data/train-images-idx3-ubyte.gz "
                 "--labels $data/train-labels-idx1-ubyte.gz --test $data/t10k-images-idx3-ubyte.gz "
                 "--test-labels $data/t10k-labels-idx1-ubyte.gz --iterations 4 --anneal 5 --rate 0.1",
                 resolved, clusters[c]);
        assert_true(summary("test_accuracy") >= 0.97);
        assert_true(c == 0 || fabs(summary("test_accuracy") - accuracy) <= 0.003);
        accuracy = summary("test_accuracy");
    }
    free(resolved);
}

enum { COLUMNS = 6, TABLE = 900 };

/* The units of a table: factors of its columns, and offsets added to them. */
struct table_units {
    const char *name, *tests;
    double factors[COLUMNS], offsets[COLUMNS];
};

static const struct table_units TABLES[] = {
    {.name = "plain.csv", .tests = "plain-test.csv", .factors = {1, 1, 1, 1, 1, 1}},
    {.name = "units.csv", .tests = "units-test.csv", .factors = {1e-6, 1e6, 1e-3, 1e3, 10, 1e12}},
    {.name = "moved.csv",
     .tests = "moved-test.csv",
     .factors = {1e-6, 1e6, 1, 1, 1e-2, 1},
     .offsets = {1, -1e9, 1.6e9, 1000, -5, 0}},
    {.name = "sparse.libsvm", .tests = "sparse-test.libsvm", .factors = {1, 1, 1, 1, 1, 1}},
    {.name = "sparse-units.libsvm", .tests = "sparse-units-test.libsvm", .factors = {1e-9, 1e9, 1e3, 1e-3, 5, 1e6}},
};
enum { TABLE_COUNT = sizeof TABLES / sizeof TABLES[0], TABLE_SPARSE = 3 };

/* Columns in any unit and with any offset give the same loss, on one node or two. Predictions are those of the job. A
 * constant's loss is log 3. */
PLAIN_TEST(tables_in_any_unit) {
    skip_sanitized();
    static const char *const clusters[] = {"", "--reliable 2"};
    double loss = 0;
    for (size_t t = 0; t < TABLE_COUNT; t++) {
        for (size_t c = 0; c < 2; c++) {
            run_well("$run %s -- net --data %s --test %s --model-out table.model", clusters[c], TABLES[t].name,
                     TABLES[t].tests);
            loss = c == 0 && (t == 0 || t == TABLE_SPARSE) ? summary("test_loss") : loss;
            assert_true(loss < 0.4);
            assert_true(summary("test_constant") > 0.9 && summary("test_constant") < 1.2);
            assert_no_text("report", "no better than a constant");
            /* Sums of floats in another order; training makes differences grow. */
            assert_true(fabs(summary("test_loss") - loss) < 0.03 * loss);
            assert_text("report", t < TABLE_SPARSE ? "--scale standard: each of 6 features less its mean"
                                                   : "--scale standard: each of 60 features by the root mean square");
        }
        double accuracy = 0;
        double predicted = 0;
        run_well("$bin/net --predict table.model --data %s", TABLES[t].tests);
        FREED char *text = read_text("out");
        assert_int_equal(sscanf(text, "samples %*d unknown_labels 0 accuracy %lf loss %lf", &accuracy, &predicted), 2);
        assert_true(fabs(accuracy - summary("test_accuracy")) < 1e-5);
        assert_true(fabs(predicted - summary("test_loss")) < 1e-4);
    }
}

/* Test samples of other classes than the training data's are predicted worse than by the classes' shares. */
PLAIN_TEST(no_better_than_a_constant) {
    run_well("sed 's/^low/other/; s/^high/low/; s/^other/high/' plain-test.csv >wrong.csv; "
             "$run -- net --data plain.csv --test wrong.csv");
    assert_true(summary("test_loss") > summary("test_constant"));
    assert_text("report", "the model is no better than a constant: its test loss is");
    run_well("$run -- net --data plain.csv --rate 1e-9 --lambda 100 --iterations 1");
    assert_text("report", "the model is no better than a constant: its loss on the training data is");
}

/* A constant column is left out, missing values of a row are zeros, and an explicit scale takes effect. */
PLAIN_TEST(scales_of_tables) {
    run_well("awk -F, -v OFS=, '{print $0, 7, 123456789.125}' plain.csv >more.csv; "
             "awk -F, -v OFS=, '{print $0, 7, 123456789.125}' plain-test.csv >more-test.csv; "
             "$run -- net --data more.csv --test more-test.csv");
    assert_text("report", "each of 8 features less its mean, by its deviation; 2 are constant and left out");
    assert_true(summary("test_loss") < 0.4);
    run_well("$run -- net --data plain.csv --iterations 1 --scale max");
    assert_no_text("report", "--scale standard");
    run_well("awk -F, '{printf \"%%s\", $1; for (i = 2; i <= NF; i++) if ($i != 0) printf \" %%d:%%s\", i - 1, $i; "
             "print \"\"}' plain.csv >plain.libsvm; $run -- net --data plain.csv --test-fraction 0.2");
    double loss = summary("test_loss");
    run_well("$run -- net --data plain.libsvm --test plain.libsvm --model-out table.model");
    assert_text("report", "each of 6 features less its mean");
    assert_true(fabs(summary("test_loss") - loss) < 0.2);
    double all = summary("test_loss");
    double predicted = 0;
    run_well("$bin/net --predict table.model --data plain.libsvm");
    char *text = read_text("out");
    assert_int_equal(sscanf(text, "samples %*d unknown_labels 0 accuracy %*f loss %lf", &predicted), 1);
    free(text);
    assert_true(fabs(predicted - all) < 1e-4);
    run_well("$run -- net --data train.csv --layers 'conv 4x3' --iterations 1"); /* pixels keep their proportions */
    assert_no_text("report", "--scale standard");
    run_well("sed 's/\\.//g' train.csv >bytes.csv; sed 's/\\.//g' test.csv >bytes-test.csv; "
             "$run -- net --data bytes.csv --test bytes-test.csv --model-out table.model " CONVOLUTIONS);
    assert_text("report", "--scale standard: all pixels by their root mean square, ");
    assert_true(summary("test_accuracy") > 0.95);
    double images = summary("test_loss");
    run_well("$bin/net --predict table.model --data bytes-test.csv");
    text = read_text("out");
    assert_int_equal(sscanf(text, "samples %*d unknown_labels 0 accuracy %*f loss %lf", &predicted), 1);
    free(text);
    assert_true(fabs(predicted - images) < 1e-4);
    run_well("$run -- net --data bytes.csv --test bytes-test.csv --shift 1");
    assert_text("report", "--scale standard: all pixels by their root mean square, ");
    assert_true(summary("test_accuracy") > 0.5);
    run_well("$run -- net --data train.csv --shift 1 --iterations 1");
    assert_no_text("report", "--scale standard");
    /* Nodes that join, and a resumed job, find the same scale. */
    run_well("rm -rf saved; printf 'iteration 4 join transient 1\niteration 8 kill node-2\n' >events; $run "
             "--reliable 1 --events events --checkpoint saved -- net --data moved.csv "
             "--test moved-test.csv");
    loss = summary("test_loss");
    assert_true(loss < 0.4);
    run_well("$run --reliable 2 --resume saved -- net --data moved.csv --test moved-test.csv --iterations 21");
    assert_true(summary("test_loss") < 1.2 * loss);
}

/* ---- The group ---- */

static unsigned random_state = 1;

static double random_uniform(void) {
    random_state = random_state * 1664525U + 1013904223U;
    return (random_state >> 8) / 16777216.0;
}

/* Writes images of a bar, a bar of the other direction, a diagonal and a square, in any place and with noise. The first
 * `dark` images have no noise. */
static void write_images(const char *name, unsigned count, unsigned dark) {
    FILE *file = open_file(name, "we");
    for (unsigned s = 0; s < count; s++) {
        double image[SIDE][SIDE];
        unsigned label = s % CLASSES;
        unsigned x = (unsigned)(random_uniform() * (SIDE - 4));
        unsigned y = (unsigned)(random_uniform() * (SIDE - 4));
        for (unsigned p = 0; p < SIDE * SIDE; p++) {
            image[p / SIDE][p % SIDE] = (s < dark ? 0 : 0.3) * random_uniform();
        }
        for (unsigned i = 0; i < 4; i++) {
            image[y + (label == 0 ? 1 : label == 3 ? i / 2 : i)][x + (label == 1 ? 1 : label == 3 ? i % 2 : i)] = 1;
        }
        fprintf(file, "%u", label);
        for (unsigned p = 0; p < SIDE * SIDE; p++) {
            fprintf(file, ",%.3f", image[p / SIDE][p % SIDE]);
        }
        fprintf(file, "\n");
    }
    fclose(file);
}

/* Writes three classes, which depend on sums of columns. One column is mostly 0. */
static void write_table(const char *name, const struct table_units *units, unsigned rows) {
    FILE *file = open_file(name, "we");
    for (unsigned s = 0; s < rows; s++) {
        double x[COLUMNS];
        for (unsigned c = 0; c < COLUMNS; c++) {
            x[c] = 2 * random_uniform() - 1;
        }
        x[COLUMNS - 1] = x[COLUMNS - 1] > 0.6 ? x[COLUMNS - 1] : 0;
        double score = x[0] + x[1] * x[2] + x[3] - x[4];
        fprintf(file, "%s", score < -0.5 ? "low" : score < 0.5 ? "middle" : "high");
        for (unsigned c = 0; c < COLUMNS; c++) {
            fprintf(file, ",%.15g", x[c] * units->factors[c] + units->offsets[c]);
        }
        fprintf(file, "\n");
    }
    fclose(file);
}

/* Writes three classes by six fields of ten columns, of which one is 1 and the others are 0. */
static void write_sparse(const char *name, const struct table_units *units, unsigned rows) {
    FILE *file = open_file(name, "we");
    for (unsigned s = 0; s < rows; s++) {
        unsigned places[COLUMNS];
        unsigned sum = 0;
        for (unsigned c = 0; c < COLUMNS; c++) {
            places[c] = (unsigned)(random_uniform() * 10);
            sum += c < 2 ? places[c] : 0;
        }
        fprintf(file, "%u", sum < 6 ? 1U : sum < 12 ? 2U : 3U);
        for (unsigned c = 0; c < COLUMNS; c++) {
            fprintf(file, " %u:%.9g", 10 * c + places[c] + 1, units->factors[c]);
        }
        fprintf(file, "\n");
    }
    fclose(file);
}

static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    random_state = 1; /* the same samples for each group */
    write_images("train.csv", SAMPLES, 0);
    write_images("test.csv", TESTS, 0);
    write_images("dark.csv", SAMPLES, SAMPLES * 5 / 8);
    for (size_t t = 0; t < TABLE_COUNT; t++) {
        random_state = 77; /* the same samples */
        (t < TABLE_SPARSE ? write_table : write_sparse)(TABLES[t].name, &TABLES[t], TABLE);
        (t < TABLE_SPARSE ? write_table : write_sparse)(TABLES[t].tests, &TABLES[t], TABLE / 3);
    }
    return 0;
}

int main(void) {
    return tests_run(set_up, files_close);
}
