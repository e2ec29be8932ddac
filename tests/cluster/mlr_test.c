/* Tests of mlr with real processes. Dense and sparse samples, any number of nodes and threads, and nodes that come and
 * go give the same losses. Also tests models that are written and read again, refused input, and accuracy where the
 * real data is available. Nothing here depends on time. */
#include <math.h>
#include <unistd.h>

#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { SAMPLES = 900, TESTS = 300, FEATURES = 70 /* enough for the loops of few classes */, CLASSES = 5 };

/* ---- A reference of the optimizers ---- */

/* Full batches in double precision, by the formulas of agileml/optimizers.h. mlr computes the same in float32 on any
 * number of nodes. */
enum optimizer { MOMENTUM, ADAGRAD, ADAM, FTRL, OPTIMIZERS };
static const char *const optimizer_options[OPTIMIZERS] = {"momentum --rate 0.05 --momentum 0.8", "adagrad --rate 0.1",
                                                          "adam --rate 0.02", "ftrl --rate 0.1 --l1 0.002"};
static const double LAMBDA = 0.01;

struct samples {
    double x[SAMPLES][FEATURES + 1]; /* the last feature is 1, for the bias */
    unsigned y[SAMPLES];
    unsigned count;
};

typedef double matrix[FEATURES + 1][CLASSES];

static void read_samples(const char *name, struct samples *samples) {
    FREED char *text = read_text(name);
    char *at = text;
    *samples = (struct samples){.count = 0};
    for (; *at != '\0'; samples->count++) {
        double *x = samples->x[samples->count];
        samples->y[samples->count] = (unsigned)strtoul(at, &at, 10);
        x[FEATURES] = 1;
        while (*at == ' ') {
            unsigned long index = strtoul(at, &at, 10);
            x[index - 1] = strtod(at + 1, &at);
        }
        at++;
    }
}

/* Returns the mean loss; sets the gradient. */
static double losses(const struct samples *samples, matrix w, matrix gradient) {
    double loss = 0;
    memset(gradient, 0, sizeof(matrix));
    for (unsigned s = 0; s < samples->count; s++) {
        double z[CLASSES] = {0};
        double sum = 0;
        for (unsigned i = 0; i <= FEATURES; i++) {
            for (unsigned k = 0; k < CLASSES; k++) {
                z[k] += samples->x[s][i] * w[i][k];
            }
        }
        for (unsigned k = 0; k < CLASSES; k++) {
            sum += exp(z[k]);
        }
        loss += (log(sum) - z[samples->y[s]]) / samples->count;
        for (unsigned k = 0; k < CLASSES; k++) {
            double error = (exp(z[k]) / sum - (k == samples->y[s])) / samples->count;
            for (unsigned i = 0; i <= FEATURES; i++) {
                gradient[i][k] += error * samples->x[s][i];
            }
        }
    }
    return loss;
}

static double reference_step(enum optimizer optimizer, double w, double g, double *a, double *b, unsigned t,
                             bool bias) {
    double l2 = bias ? 0 : LAMBDA;
    double l1 = bias ? 0 : 0.002;
    if (optimizer == FTRL) {
        *a += g - (sqrt(*b + g * g) - sqrt(*b)) / 0.1 * w;
        *b += g * g;
        return fabs(*a) <= l1 ? 0 : -(*a - copysign(l1, *a)) / ((1.0 / 50 + sqrt(*b)) / 0.1 + l2);
    }
    g += l2 * w;
    if (optimizer == MOMENTUM) {
        *a = 0.8 * *a + g;
        return w - 0.05 * *a;
    }
    if (optimizer == ADAGRAD) {
        *a += g * g;
        return w - 0.1 * g / (sqrt(*a) + 1e-8);
    }
    *a = 0.9 * *a + 0.1 * g;
    *b = 0.999 * *b + 0.001 * g * g;
    return w - 0.02 * *a / (1 - pow(0.9, t)) / (sqrt(*b / (1 - pow(0.999, t))) + 1e-8);
}

/* Returns the loss of the test samples after `steps` steps. */
static double reference_loss(enum optimizer optimizer, unsigned steps) {
    FREED struct samples *train = malloc(sizeof *train);
    FREED struct samples *test = malloc(sizeof *test);
    matrix w = {{0}};
    matrix a = {{0}};
    matrix b = {{0}};
    matrix gradient;
    read_samples("uneven.libsvm", train);
    read_samples("test.libsvm", test);
    for (unsigned s = 0; s < train->count && optimizer != FTRL; s++) { /* the classes' shares, counted at first */
        w[FEATURES][train->y[s]]++;
    }
    for (unsigned k = 0; k < CLASSES && optimizer != FTRL; k++) {
        w[FEATURES][k] = log((w[FEATURES][k] + 0.5) / (train->count + 0.5 * CLASSES));
    }
    for (unsigned t = 1; t <= steps; t++) {
        losses(train, w, gradient);
        for (unsigned i = 0; i <= FEATURES; i++) {
            for (unsigned k = 0; k < CLASSES; k++) {
                w[i][k] = reference_step(optimizer, w[i][k], gradient[i][k], &a[i][k], &b[i][k], t, i == FEATURES);
            }
        }
    }
    double loss = losses(test, w, gradient);
    return loss;
}

/* ---- The tests ---- */

/* The first steps of each optimizer equal the reference's up to rounding: in both layouts, on one node and on several,
 * with slices and without. */
PLAIN_TEST(optimizers_are_as_in_the_reference) {
    static const char *const clusters[] = {"--threads 2", "--reliable 2 --transient 2 --stage 3 --partitions 3"};
    static const char *const layouts[] = {"dense", "sparse", "dense --slice 70"};
    static const unsigned steps[] = {1, 2, 6};
    /* Classes of unequal size: otherwise the biases' first gradients would be nothing but rounding. */
    run_well("head -n 893 train.libsvm >uneven.libsvm");
    for (unsigned o = 0; o < OPTIMIZERS; o++) {
        for (unsigned l = sanitized() ? o % 2 : 0; l < 3; l += sanitized() ? 2 : 1) {
            run_well("$run %s -- mlr --data uneven.libsvm --test test.libsvm --clocks-per-iteration 1 --batch 50 "
                     "--scale none --decay 1 --lambda %g --iterations 6 --optimizer %s --layout %s",
                     clusters[(o + l) % 2], LAMBDA, optimizer_options[o], layouts[l]);
            for (unsigned s = 0; s < 3; s++) {
                double loss = reference_loss((enum optimizer)o, steps[s]);
                double found;
                assert_true(whole_metric("report", steps[s], "test_loss", &found));
                if (!(fabs(found - loss) < 2e-5 * loss)) {
                    fail_msg("%s, %u steps, %s: loss %.9g, expected %.9g", optimizer_options[o], steps[s], layouts[l],
                             found, loss);
                }
            }
        }
    }
}

/* Rows and states survive kills: the losses are those of an undisturbed job. */
PLAIN_TEST(optimizers_while_nodes_come_and_go) {
    skip_sanitized();
    for (unsigned o = 0; o < OPTIMIZERS; o++) {
        const char *layout = o % 2 == 0 ? "sparse" : "dense";
        run_well("$run -- mlr --data train.libsvm --batch 50 --iterations 40 --optimizer %s --layout %s",
                 optimizer_options[o], layout);
        double loss = summary("loss");
        run_well("printf 'iteration 5 join transient 3\\niteration 15 kill node-4\\niteration 25 evict transient all "
                 "notice 60s\\n' >events; $run --reliable 2 --events events -- "
                 "mlr --data train.libsvm --batch 50 --iterations 40 --optimizer %s --layout %s",
                 optimizer_options[o], layout);
        assert_true(fabs(summary("loss") - loss) < 1e-3 * loss);
    }
}

/* In iterations of many steps nodes take steps by themselves, and the mean of their weights and states is taken. On one
 * node that changes nothing; several learn as well, while nodes come and go (the optimizers that do so by default). */
PLAIN_TEST(optimizers_with_local_steps) {
    skip_sanitized(); /* net_test has local steps, too */
    for (unsigned o = 0; o < OPTIMIZERS; o++) {
        static const char job[] =
            "-- mlr --data train.libsvm --test test.libsvm --layout dense --batch 10 --iterations 12 "
            "--optimizer";
        run_well("$run --threads 2 %s %s --strategy ssgd", job, optimizer_options[o]);
        double loss = summary("test_loss");
        const bool chosen = o == ADAM || o == MOMENTUM;
        const char *strategy = chosen ? "" : "--strategy sma";
        run_well("$run --threads 2 --partitions 3 %s %s %s", job, optimizer_options[o], strategy);
        assert_true(fabs(summary("test_loss") - loss) < 1e-3 * loss);
        (chosen ? assert_text : assert_no_text)("report", "nodes take steps on copies of the model");
        if (!chosen) {
            continue;
        }
        run_well(
            "printf 'iteration 3 join transient 3\niteration 5 kill node-4\niteration 8 evict transient all notice "
            "60s\n' >events; $run --reliable 2 --events events %s %s %s",
            job, optimizer_options[o], strategy);
        check_iterations(SAMPLES);
        assert_true(fabs(summary("test_loss") - loss) < 0.15 * loss); /* steps of two samples */
    }
}

/* A job resumed from a checkpoint continues with its states as if it had not stopped. Another optimizer is refused. */
PLAIN_TEST(optimizers_resume) {
    run_well("$run -- mlr --data train.libsvm --test test.libsvm --batch 50 --optimizer adagrad --decay 1 "
             "--iterations 12");
    double loss = summary("test_loss");
    run_well("$run --checkpoint saved -- mlr --data train.libsvm --test test.libsvm --batch 50 --optimizer adagrad "
             "--decay 1 --iterations 5");
    run_refused("$run --resume saved -- mlr --data train.libsvm --test test.libsvm --batch 50 --optimizer momentum",
                "--optimizer momentum, was adagrad");
    run_refused("$run --resume saved -- mlr --data train.libsvm --test test.libsvm --batch 50",
                "--optimizer auto, was adagrad");
    run_well("$run --resume saved --reliable 2 -- mlr --data train.libsvm --test test.libsvm --batch 50 "
             "--optimizer adagrad --decay 1 --iterations 12");
    assert_true(fabs(summary("test_loss") - loss) < 1e-5 * loss);
    /* FTRL's state depends on the earlier steps' rate; other states do not. */
    run_well("$run --resume saved -- mlr --data train.libsvm --test test.libsvm --batch 50 --optimizer adagrad "
             "--iterations 6 --rate 0.01");
    run_well("$run --checkpoint by-ftrl -- mlr --data train.libsvm --batch 50 --optimizer ftrl --iterations 2 "
             "--rate 0.02");
    run_refused("$run --resume by-ftrl -- mlr --data train.libsvm --batch 50 --optimizer ftrl --iterations 3",
                "--rate 0, was 0.02");
    run_well("$run --resume by-ftrl -- mlr --data train.libsvm --batch 50 --optimizer ftrl --iterations 3 --rate 0.02");
}

TEST(the_same_losses_however_it_is_run) {
    static const char *const clusters[] = {"", "--threads 3", "--reliable 2 --partitions 3",
                                           "--reliable 2 --transient 2 --stage 3"};
    enum { LAYOUTS = 4 };
    static const char *const layouts[LAYOUTS] = {"--layout dense --optimizer sgd --scale none",
                                                 "--layout sparse --optimizer sgd --scale none", "--layout dense",
                                                 "--layout sparse"};
    /* The samples of a step depend on the layout (how data is dealt to clocks), not on the cluster. */
    double loss[LAYOUTS];
    double test_loss[LAYOUTS];
    const size_t step = sanitized() ? 3 : 1;
    for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c += step) {
        for (size_t l = 0; l < (sanitized() ? 2 : LAYOUTS); l++) { /* other tests use the other ones */
            run_well("$run %s -- mlr --data train.libsvm --test test.libsvm --batch 50 --iterations 20 %s", clusters[c],
                     layouts[l]);
            if (c == 0) {
                loss[l] = summary("loss");
                test_loss[l] = summary("test_loss");
                assert_true(summary("test_accuracy") > 0.9);
            }
            /* L2 of sparse samples depends on how often a node meets features: only the expectation is the same. */
            double tolerance = l % 2 == 0 ? 1e-4 : 1e-2;
            assert_true(fabs(summary("loss") - loss[l]) < tolerance * loss[l]);
            assert_true(fabs(summary("test_loss") - test_loss[l]) < tolerance * test_loss[l]);
            assert_true(summary("items_processed") == 20.0 * SAMPLES);
        }
    }
    assert_true(fabs(loss[1] - loss[0]) < 0.1 * loss[0]);
}

/* A step in slices is the same step. 7 does not divide a node's 25 or 50 samples of a step. */
PLAIN_TEST(slices_change_nothing) {
    skip_sanitized();
    static const char *const options[] = {"", "--momentum 0.5", "--lambda 0.1", "--clocks-per-iteration 3"};
    static const char *const clusters[] = {"--threads 2", "--reliable 2"};
    for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
        for (size_t c = 0; c < 2; c++) {
            char command[1024];
            snprintf(command, sizeof command,
                     "$run %s -- mlr --data train.libsvm --test test.libsvm --batch 50 --layout dense --device cpu "
                     "--optimizer sgd --scale none --iterations 20 %s",
                     clusters[c], options[o]);
            run_well("%s", command);
            double loss = summary("loss");
            double test_loss = summary("test_loss");
            run_well("%s --slice 7", command);
            assert_true(fabs(summary("loss") - loss) < 1e-5 * loss);
            assert_true(fabs(summary("test_loss") - test_loss) < 1e-5 * test_loss);
            run_well("%s --slice 100", command); /* one slice, as without the option: the same bits */
            assert_true(c > 0 || summary("loss") == loss);
        }
    }
    run_refused("$run -- mlr --data train.libsvm --layout sparse --slice 7", "--slice 7: expected 0");
}

/* Steps from stale weights are shorter. Without staleness no step is shorter. */
TEST(lag) {
    run_well("$run --reliable 2 --balance none -- mlr --data train.libsvm --batch 50 --optimizer sgd --iterations 20");
    double loss = summary("loss");
    run_well("$run --reliable 2 --balance none -- mlr --data train.libsvm --batch 50 --lag 1 --iterations 20");
    assert_true(fabs(summary("loss") - loss) < 1e-5 * loss);
    run_well("$run --reliable 2 --balance none -- mlr --data train.libsvm --batch 50 --iterations 20 --staleness 3 "
             "--lag 100");
    assert_true(summary("loss") < 1); /* log 5 at the start: the slowest node is not stale */
}

PLAIN_TEST(regularization_is_the_same_in_both_layouts) {
    double losses[2];
    for (int l = 0; l < 2; l++) {
        run_well("$run --reliable 2 -- mlr --data train.libsvm --batch 50 --iterations 20 --lambda 0.1 --layout %s",
                 l == 0 ? "dense" : "sparse");
        losses[l] = summary("loss");
    }
    run_well("$run -- mlr --data train.libsvm --batch 50 --iterations 20 --lambda 0 --layout dense");
    assert_true(losses[0] > 1.3 * summary("loss"));
    assert_true(fabs(losses[1] - losses[0]) < 0.05 * losses[0]);
}

PLAIN_TEST(nodes_come_and_go) {
    static const char *const layouts[] = {"dense", "sparse"};
    for (int l = 0; l < 2; l++) {
        run_well("$run -- mlr --data train.libsvm --batch 50 --iterations 60 --lambda 0 --layout %s", layouts[l]);
        double loss = summary("loss");
        run_well("printf 'iteration 5 join transient 3\\niteration 20 kill node-4\\niteration 40 evict transient all "
                 "notice 60s\\n' >events; $run --reliable 2 --events events -- "
                 "mlr --data train.libsvm --batch 50 --iterations 60 --lambda 0 --layout %s",
                 layouts[l]);
        assert_true(fabs(summary("loss") - loss) < 1e-3 * loss);
    }
}

/* After a kill an iteration's loss is that of all samples, or its line says of which part. */
PLAIN_TEST(losses_after_a_kill_are_of_all_samples) {
    skip_sanitized();
    enum { ITERATIONS = 60 };
    run_well("$bin/proteus run --report calm -- mlr --data train.libsvm --test test.libsvm --batch 50 --iterations %d "
             "--lambda 0 --layout dense",
             ITERATIONS);
    for (unsigned kill = 10; kill < 20; kill += 3) {
        run_well("printf 'iteration %u kill node-3\niteration 40 kill transient all\n' >events; "
                 "$run --reliable 1 --transient 4 --events events -- mlr --data train.libsvm "
                 "--test test.libsvm --batch 50 --iterations %d --lambda 0 --layout dense",
                 kill, ITERATIONS);
        unsigned partial = check_iterations(SAMPLES);
        unsigned compared = 0;
        for (unsigned i = 1; i <= ITERATIONS; i++) {
            static const char *const keys[] = {"loss", "test_loss"};
            for (int k = 0; k < 2; k++) {
                double calm;
                double value;
                assert_true(whole_metric("calm", i, keys[k], &calm));
                if (whole_metric("report", i, keys[k], &value)) {
                    assert_true(fabs(value - calm) < 1e-2 * calm);
                    compared++;
                }
            }
        }
        assert_int_equal(compared, 2 * (ITERATIONS - partial));
    }
}

/* A GPU makes the same steps. Without a GPU `cuda` is refused and `auto` means the CPU. */
PLAIN_TEST(devices_are_alike) {
    static const char *const options[] = {"", "--momentum 0.5"};
    for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
        char command[1024];
        snprintf(
            command, sizeof command,
            "$run --reliable 2 -- mlr --data train.libsvm --batch 50 --iterations 20 --layout dense --optimizer sgd %s",
            options[o]);
        run_well("%s --device cpu", command);
        double loss = summary("loss");
        run_well("%s --device auto", command);
        assert_true(fabs(summary("loss") - loss) < 1e-4 * loss);
        int status = run("%s --device cuda", command);
        if (status == 0) {
            assert_true(fabs(summary("loss") - loss) < 1e-4 * loss);
            continue;
        }
        FREED char *error = read_text("err");
        char *reason = strstr(error, "--device cuda: ");
        if (status != 2 || reason == NULL) {
            fail_msg("--device cuda ended with status %d: '%s'", status, error);
        }
        print_message("without a device: %s", reason);
    }
}

/* The program's device part on the device that tests/cuda emulates: training and test samples, a smaller last
 * minibatch, several threads, nodes that come and go. */
PLAIN_TEST(an_emulated_device_is_alike) {
    if (run("test -x $tests/mlr_emulated") != 0) {
        print_message("skipped: no $tests/mlr_emulated (sanitizers do not go with it)\n");
        skip();
    }
    static const char *const runs[] = {
        "$run --reliable 2 -- %s --data train.libsvm --test test.libsvm --batch 70 --iterations 6 %s",
        "$run --threads 2 -- %s --data train.libsvm --test test.libsvm --batch 256 --iterations 6 --momentum 0.5 %s",
        "$run -- %s --data train.libsvm --test test.libsvm --batch 256 --iterations 6 --momentum 0.5 --slice 100 %s",
        "printf 'iteration 5 join transient 2\niteration 9 kill node-2\niteration 15 evict "
        "transient all notice 60s\n' >events; $run --events events -- %s --data "
        "train.libsvm --test test.libsvm --batch 50 --iterations 25 %s"};
    for (size_t r = 0; r < sizeof runs / sizeof runs[0]; r++) {
        char command[1024];
        snprintf(command, sizeof command, runs[r], "mlr", "--layout dense --device cpu --optimizer sgd");
        run_well("%s", command);
        double loss = summary("loss");
        double test_loss = summary("test_loss");
        snprintf(command, sizeof command, runs[r], "$tests/mlr_emulated", "--layout dense --device cuda");
        run_well("%s", command);
        double tolerance = r < 3 ? 1e-4 : 1e-2; /* which nodes are present at a step differs in each run */
        assert_true(fabs(summary("loss") - loss) < tolerance * loss);
        assert_true(fabs(summary("test_loss") - test_loss) < tolerance * test_loss);
    }
}

PLAIN_TEST(formats_are_alike) {
    run_well("$run -- mlr --data train.libsvm --batch 50 --iterations 20 --layout dense");
    double loss = summary("loss");
    static const char *const files[] = {"train.csv --label-column -1", "train.txt --format text",
                                        "train.libsvm.gz --index-base 1"};
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        run_well("$run -- mlr --batch 50 --iterations 20 --layout dense --data %s", files[f]);
        assert_true(fabs(summary("loss") - loss) < 1e-6);
    }
}

PLAIN_TEST(a_model_is_written_and_read) {
    static const char *const options[] = {"--layout dense --scale max", "--layout sparse --scale unit",
                                          "--layout dense --momentum 0.5"};
    for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
        run_well("$run --reliable 2 -- mlr --data train.libsvm --test test.libsvm --batch 50 --iterations 20 "
                 "--model-out model %s",
                 options[o]);
        double accuracy = 0;
        double loss = 0;
        run_well("$bin/mlr --predict model --data test.libsvm --out predictions");
        char *text = read_text("out");
        assert_int_equal(sscanf(text, "samples %*d unknown_labels 0 accuracy %lf loss %lf", &accuracy, &loss), 2);
        assert_true(fabs(accuracy - summary("test_accuracy")) < 1e-5);
        assert_true(fabs(loss - summary("test_loss")) < 1e-4);
        free(text);
        text = read_text("predictions");
        int right = 0;
        int lines = 0;
        for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"), lines++) {
            int label;
            int prediction;
            double probability;
            assert_int_equal(sscanf(line, "%d %d %lf", &label, &prediction, &probability), 3);
            assert_true(probability >= 1.0 / CLASSES - 1e-6 && probability <= 1 + 1e-6);
            right += label == prediction;
        }
        assert_int_equal(lines, TESTS);
        assert_true(fabs((double)right / TESTS - accuracy) < 1e-5);
        free(text);
    }
    assert_int_equal(run("head -c 100 model >damaged && $bin/mlr --predict damaged --data test.libsvm"), 2);
    assert_int_equal(run("$bin/mlr --predict model --data missing"), 2);
    assert_int_equal(run("$bin/mlr --predict model"), 2);
    assert_int_equal(run("$bin/mlr --predict model --data test.libsvm --out /dev/full"), 1);
}

PLAIN_TEST(what_is_refused) {
    run_refused("$run -- mlr", "--data FILE is missing");
    run_refused("$run -- mlr --data nowhere", "nowhere: cannot open: No such file or directory");
    run_refused("$run -- mlr --data train.libsvm --format csf",
                "--format: expected auto, libsvm, text, csv, idx, criteo or tar");
    run_refused("$run -- mlr --data train.libsvm --scale big",
                "--scale: expected none, byte, max, unit, standard or auto");
    run_refused("$run -- mlr --data train.libsvm --layout long", "--layout: expected auto, dense or sparse");
    run_refused("$run -- mlr --data train.libsvm --test-fraction 0.1 --test test.libsvm", "expected one of them");
    run_refused("$run -- mlr --data train.libsvm --test-labels x", "--test-labels: expected --test too");
    run_refused("$run -- mlr --data train.libsvm --layout sparse --momentum 0.5 --optimizer sgd",
                "--momentum: expected dense samples");
    run_refused("$run -- mlr --data train.libsvm --optimizer adamw",
                "--optimizer: expected sgd, momentum, adagrad, adam or ftrl, got 'adamw'");
    run_refused("$run -- mlr --data train.libsvm --optimizer adam --momentum 0.5",
                "--momentum: expected --optimizer momentum or sgd, got adam");
    run_refused("$run -- mlr --data train.libsvm --l1 1", "--l1: expected --optimizer ftrl, got adam");
    run_refused("$run -- mlr --data train.libsvm --optimizer ftrl --lag 1",
                "--lag: expected --optimizer sgd, got ftrl");
    run_refused("$run -- mlr --data train.libsvm --optimizer ftrl --layout sparse --rare 0.5",
                "--rare: expected --optimizer sgd, got ftrl");
    run_refused("$run -- mlr --data train.libsvm --optimizer ftrl --layout dense --device cuda",
                "--device cuda: expected --optimizer sgd, got ftrl");
    run_refused("$run -- mlr --data train.libsvm --device gpu", "--device: expected auto, cpu or cuda, got 'gpu'");
    run_refused("$run -- mlr --data train.libsvm --layout sparse --device cuda",
                "--device cuda: expected dense samples");
    run_refused("$run -- mlr --data train.libsvm --model-out nowhere/model",
                "nowhere/model: can't write it: No such file");
    run_refused("printf '1 1:1\\n1 2:1\\n' >one; $run -- mlr --data one", "one: expected at least 2 different labels");
    run_refused("printf '1 1:1\\n2 2:x\\n' >bad; $run -- mlr --data bad", "bad:2: expected a finite number");
    run_refused("printf '9 1:1\\n' >new; $run -- mlr --data train.libsvm --test new",
                "new:1: expected a label that occurs in the training data, got '9'");
    run_refused("printf '1,2\\n' >narrow; $run -- mlr --data train.csv --label-column -1 --test narrow",
                "narrow:1: expected 70 features as in train.csv, got 1");
}

static const char *shared_data(void) {
    static char shared[512];
    const char *source = getenv("PROTEUS_SOURCE");
    snprintf(shared, sizeof shared, "%s/../shared/data", source);
    FREED char *resolved = realpath(shared, NULL);
    if (resolved == NULL) {
        print_message("skipped: the samples are not at hand in ../shared/data\n");
        skip();
    }
    snprintf(shared, sizeof shared, "%s", resolved);
    return shared;
}

PLAIN_TEST(accuracy_on_mnist) {
    skip_sanitized();
    const char *shared = shared_data();
    static const char *const clusters[] = {"--reliable 1 --threads 2", "--reliable 2"};
    for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
        run_well("data=%s/class-mnist; $run %s -- mlr --data $data/train-images-idx3-ubyte.gz "
                 "--labels $data/train-labels-idx1-ubyte.gz --test $data/t10k-images-idx3-ubyte.gz "
                 "--test-labels $data/t10k-labels-idx1-ubyte.gz",
                 shared, clusters[c]);
        assert_true(summary("test_accuracy") >= 0.92);
        assert_true(summary("items_processed") == 10 * 60000);
    }
}

/* scikit-learn's LogisticRegression reaches 0.763 and 0.977 (bench/accuracy). */
PLAIN_TEST(accuracy_on_letters_and_news) {
    skip_sanitized();
    const char *shared = shared_data();
    run_well("$run -- mlr --data %s/class-letter/letter.scale.gz --test-fraction 0.2", shared);
    assert_true(summary("test_accuracy") >= 0.75);
    run_well("$run --reliable 2 -- mlr --data %s/class-tdt2/tdt2.libsvm.gz --scale unit --test-fraction 0.2 "
             "--iterations 3",
             shared);
    assert_true(summary("test_accuracy") >= 0.965);
}

/* ---- The group ---- */

static unsigned random_state = 1;

static double random_uniform(void) {
    random_state = random_state * 1664525U + 1013904223U;
    return (random_state >> 8) / 16777216.0;
}

/* Samples around centres that overlap a little, in every text format. A third of the values are zeros. */
static void write_samples(const char *name, unsigned count) {
    char path[256];
    FILE *files[3];
    const char *const endings[] = {"libsvm", "csv", "txt"};
    for (int f = 0; f < 3; f++) {
        snprintf(path, sizeof path, "%s.%s", name, endings[f]);
        files[f] = open_file(path, "we");
    }
    for (int i = 0; i < FEATURES; i++) {
        fprintf(files[1], "x%d,", i);
    }
    fprintf(files[1], "class\n");
    for (unsigned s = 0; s < count; s++) {
        unsigned label = s % CLASSES;
        fprintf(files[0], "%u", label);
        fprintf(files[2], "%u", label);
        for (unsigned i = 0; i < FEATURES; i++) {
            double value = sin(label * 1.7 + i * (label + 1)) + 4 * (random_uniform() - 0.5);
            value = random_uniform() < 1.0 / 3 ? 0 : value;
            if (value != 0) {
                fprintf(files[0], " %u:%.4f", i + 1, value);
            }
            fprintf(files[1], "%.4f,", value);
            fprintf(files[2], " %.4f", value);
        }
        fprintf(files[0], "\n");
        fprintf(files[1], "%u\n", label);
        fprintf(files[2], "\n");
    }
    for (int f = 0; f < 3; f++) {
        fclose(files[f]);
    }
}

static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    random_state = 1; /* the same samples for each group */
    write_samples("train", SAMPLES);
    write_samples("test", TESTS);
    return run("gzip -k train.libsvm");
}

int main(void) {
    return tests_run(set_up, files_close);
}
