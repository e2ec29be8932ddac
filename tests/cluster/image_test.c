/* mlr on tar files of images (apps/samples/input_images.h), with real processes. The losses are those of the same
 * pixels as idx data: on any nodes, with feeders, from disk and after kills. Models store the images' shape and the
 * class names. A fault in a file ends the job with one line. */
#include "tests/cluster/shell.h"
#include "tests/test.h"

#include <unistd.h>

enum { SAMPLES = 3000, ITERATIONS = 4 };

/* Losses and accuracies on training and test data. */
struct result {
    double loss, accuracy, test_loss, test_accuracy;
};

static struct result result(void) {
    struct result result;
    assert_true(whole_metric("report", ITERATIONS, "loss", &result.loss));
    assert_true(whole_metric("report", ITERATIONS, "train_accuracy", &result.accuracy));
    assert_true(whole_metric("report", ITERATIONS, "test_loss", &result.test_loss));
    assert_true(whole_metric("report", ITERATIONS, "test_accuracy", &result.test_accuracy));
    return result;
}

static void assert_same(struct result one, struct result other, double apart) {
    assert_float_equal(one.loss, other.loss, apart);
    assert_float_equal(one.test_loss, other.test_loss, apart);
    assert_float_equal(one.accuracy, other.accuracy, apart);
    assert_float_equal(one.test_accuracy, other.test_accuracy, apart);
}

/* The options of all jobs on digits, which also have the same steps in an iteration. They give what mlr would choose by
 * statistics of idx data, which tar files lack; FTRL's biases begin at 0. */
#define DIGITS "--test-fraction 0.2 --iterations 4 --batch 64 --optimizer ftrl --rate 0.02 --lambda 0.0001"

/* Makes digits.idx with labels.idx, and digits-0.tar to digits-2.tar of the same digits. Skips the test if the data is
 * not available. */
static void make_digits(void) {
    char shared[512];
    const char *source = getenv("PROTEUS_SOURCE");
    snprintf(shared, sizeof shared, "%s/../shared/data/class-mnist", source);
    FREED char *resolved = realpath(shared, NULL);
    if (resolved == NULL) {
        print_message("skipped: the digits are not at hand in ../shared/data\n");
        skip();
    }
    run_well("zcat %s/train-images-idx3-ubyte.gz | head -c %d >digits.idx", resolved, 16 + 784 * SAMPLES);
    run_well("zcat %s/train-labels-idx1-ubyte.gz | head -c %d >labels.idx", resolved, 8 + SAMPLES);
    run_well("for file in digits.idx labels.idx; do printf '\\%03o\\%03o' | "
             "dd of=$file bs=1 seek=6 conv=notrunc status=none; done && "
             "$tests/image_tars digits.idx labels.idx 0 %d 3 digits",
             SAMPLES / 256, SAMPLES % 256, SAMPLES);
}

TEST(images_are_as_idx) {
    make_digits();
    run_well("$run -- $bin/mlr --data digits.idx --labels labels.idx --scale byte " DIGITS);
    struct result idx = result();
    run_well("$run -- $bin/mlr --data 'digits-*.tar' " DIGITS);
    assert_same(idx, result(), 1e-9);
    run_well("$run --reliable 2 --transient 1 --threads 2 -- $bin/mlr --data "
             "digits-0.tar,digits-1.tar,digits-2.tar " DIGITS);
    assert_same(idx, result(), 1e-4);
    run_well("mkdir -p spill && $run -- $bin/mlr --data 'digits-*.tar' " DIGITS
             " --memory 1M --spill spill --log-level info");
    assert_text("err", "are more than --memory allows");
    assert_same(idx, result(), 1e-9);
    run_well("gzip -c digits-0.tar >packed && $run -- $bin/mlr --data packed,digits-1.tar,digits-2.tar " DIGITS);
    assert_same(idx, result(), 1e-9);
    /* Shifts are random, but the same on any nodes and threads. */
    run_well("$run -- $bin/mlr --data 'digits-*.tar' --shift 2 " DIGITS);
    struct result shifted = result();
    assert_true(shifted.loss > idx.loss);
    run_well("$run --threads 2 --reliable 2 -- $bin/mlr --data 'digits-*.tar' --shift 2 " DIGITS);
    assert_same(shifted, result(), 1e-4);
    run_well("$run -- $bin/mlr --data digits.idx --labels labels.idx --scale unit " DIGITS);
    struct result unit = result();
    run_well("$run -- $bin/mlr --data 'digits-*.tar' --scale unit " DIGITS);
    assert_same(unit, result(), 1e-9);
}

enum { RUNS_MAX = 20 }; /* on a busy machine all feeders may be too slow for a whole job, as nobody waits for them */
enum { LONGER_MAX = 6 }; /* times that a job is made twice as long */

/* Feeders decode images; feeders are killed and join. So do training nodes, whose data others take over. */
TEST(feeders_decode) {
    run_well("$tests/image_tars 160x120x3 5 0 300 4 photos jpeg");
    static const char job[] = "$bin/mlr --data 'photos-*.tar' --image-size 40x32 --shift 3 --batch 32 --rate 0.001 "
                              "--decay 1 --test-fraction 0.1";
    run_well("$run -- %s --iterations 4", job); /* compared below with iteration 4 of longer runs */
    struct result alone = result();
    for (unsigned run = 0; run < RUNS_MAX && (run == 0 || summary("items_fed") == 0); run++) {
        run_well("$run --reliable 1 --transient 1 --stage 1 --feeders 2 -- %s --iterations 12", job);
        assert_same(alone, result(), 1e-4);
    }
    assert_true(summary("items_fed") > 0);
    run_well("printf 'iteration 2 kill feeder all\\niteration 3 join feeder 1\\n"
             "iteration 4 kill node-2\\niteration 6 join transient 1\\n' >events && "
             "$run --reliable 1 --transient 1 --stage 1 --feeders 2 --events events -- "
             "%s --iterations 12",
             job);
    struct result killed = result();
    assert_same(alone, killed, 1e-4);
    assert_true(summary("failures") >= 1);
    /* A node takes images back that it gave to a node that joined and was lost. */
    for (unsigned run = 0; run < LONGER_MAX && (run == 0 || summary("failures") == 0); run++) {
        run_well("printf 'iteration 2 join transient 1\\niteration %u kill node-3\\n' >events && "
                 "$run --reliable 1 --transient 1 --stage 1 --events events -- %s --iterations %u",
                 6U << run, job, 12U << run); /* longer each time: on a busy machine the node joins late */
        assert_same(alone, result(), 1e-4);
    }
    assert_true(summary("failures") >= 1);
}

/* Tars as other programs write them: keys that end at the first dot (0000.input.jpg with 0000.cls), CMYK JPEG, and
 * several images of a key. Colour distinguishes the three classes. */
TEST(tars_of_others) {
    const char *source = getenv("PROTEUS_SOURCE");
    char cases[512];
    snprintf(cases, sizeof cases, "%s/../shared/cases/files", source);
    if (access(cases, R_OK) != 0) {
        print_message("skipped: the cases are not at hand in ../shared/cases\n");
        skip();
    }
    static const char *const names[] = {"N11", "N13"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        run_well("$run -- $bin/mlr --data %s/%s.tar --iterations 4 --test-fraction 0.2 --model-out coloured", cases,
                 names[n]);
        assert_true(result().accuracy > 0.9 && result().test_accuracy > 0.9);
        run_well("$bin/mlr --predict coloured --data %s/%s.tar --out lines >said", cases, names[n]);
    }
    run_well("mkdir both && tar xf %s/N11.tar -C both && cd both && for name in *.input.jpg; do "
             "cp $name ${name%%.input.jpg}.other.jpg; done && tar cf ../both.tar --sort=name *",
             cases);
    run_refused("$run -- $bin/mlr --data both.tar", "both.tar: 0000.other.jpg: a second image of this key, beside "
                                                    "0000.input.jpg: expected one");
}

TEST(models_of_images) {
    run_well("$tests/image_tars 24x16x3 3 0 150 1 folders jpeg folders && "
             "$tests/image_tars 30x20x1 3 0 4 1 others bare");
    run_well("$run -- $bin/mlr --data folders-0.tar --iterations 20 --batch 10 --model-out model");
    run_well("$bin/mlr --predict model --data folders-0.tar --out lines >said");
    assert_text("said", "samples 150  unknown_labels 0  accuracy ");
    assert_text("lines", "class 2\tclass 2\t");
    run_well("$bin/mlr --predict model --data others-0.tar >said && test $(wc -l <said) = 4 && grep -q '^class ' said");
    /* A folder that is not one of the model's classes is no label, unless folders before it are. */
    run_well("mkdir -p moved/photos && tar xf others-0.tar -C moved/photos && tar cf moved.tar -C moved photos && "
             "$bin/mlr --predict model --data moved.tar >said && test $(wc -l <said) = 4 && grep -q '^class ' said");
    run_well("$bin/mlr --predict model --data folders-0.tar,moved.tar >said");
    assert_text("said", "samples 154  unknown_labels 4  accuracy ");
    run_well("printf '1 2 3\\n' >text");
    run_refused("$bin/mlr --predict model --data text", "text:1: expected 1152");
    run_well("printf '0 1:1\\n1 2:1\\n' >words && $run -- $bin/mlr --data words --iterations 1 --model-out of-words");
    run_refused("$bin/mlr --predict of-words --data others-0.tar",
                "others-0.tar: these are images in a tar file, but of-words was not trained on images");
    run_well("$run -- $bin/mlr --data folders-0.tar --channels 1 --image-size 12x8 --iterations 2 --model-out small && "
             "test $(wc -c <small) -lt $(wc -c <model)");
}

/* Networks train on images, too. */
TEST(networks) {
    run_well("$tests/image_tars 12x8x3 3 0 200 2 small jpeg");
    static const char net[] = "$bin/net --data 'small-*.tar' --layers 'conv 4x3, pool 2' --iterations 5 --batch 20";
    run_well("$run -- %s --model-out network", net);
    double loss;
    double same;
    assert_true(whole_metric("report", 5, "loss", &loss));
    run_well("$run --reliable 2 --feeders 1 -- %s", net);
    assert_true(whole_metric("report", 5, "loss", &same));
    assert_float_equal(loss, same, 1e-3);
    run_well("$bin/net --predict network --data small-1.tar >said");
    assert_text("said", "samples 100  unknown_labels 0  accuracy ");
}

TEST(wrong_options) {
    run_well("$tests/image_tars 24x16x3 3 0 30 1 few");
    run_refused("$run -- $bin/mlr --data few-0.tar --image-size 12",
                "--image-size: expected WIDTHxHEIGHT such as 64x48");
    run_refused("$run -- $bin/mlr --data few-0.tar --image-size 0x4", "--image-size: expected WIDTHxHEIGHT");
    run_refused("$run -- $bin/mlr --data few-0.tar --channels 2",
                "--channels: expected 1 for grey or 3 for colour, got 2");
    run_refused("$run -- $bin/mlr --data few-0.tar --scale max", "--scale: expected byte, unit or none for images");
    run_refused("$run -- $bin/mlr --data few-0.tar --scale standard",
                "--scale: expected byte, unit or none for images, got 'standard'");
    run_refused("$run -- $bin/mlr --data few-0.tar --labels few-0.tar",
                "--labels: expected idx data, few-0.tar is a tar");
    run_refused("$run -- $bin/mlr --data few-0.tar --layout sparse", "few-0.tar: expected dense samples");
    run_refused("$run -- $bin/mlr --data few-0.tar --shift 16", "--shift 16: expected less than the image's width and "
                                                                "height, 24 x 16");
    run_refused("$run -- $bin/mlr --data few-0.tar --device cuda",
                "--device cuda: expected no images that are decoded");
    run_refused("$run -- $bin/mlr --data few-0.tar --image-size 600x600",
                "few-0.tar: images of 600 x 600 pixels with 3 channels: expected at most 262143 values in all");
    run_well("printf '0 1:1\\n1 2:1\\n' >words");
    run_refused("$run -- $bin/mlr --data words --image-size 3x3",
                "--image-size: expected images in tar files, words is");
    run_refused("$run -- $bin/mlr --data words --format tar", "words: expected a tar file");
}

/* Each fault ends the job before its first clock, with one line: the file, the entry and what was expected. */
TEST(wrong_files) {
    run_well("$tests/image_tars 24x16x3 3 0 60 1 whole && mkdir unpacked && tar xf whole-0.tar -C unpacked");
    run_well("head -c 40000 whole-0.tar >cut.tar");
    run_refused("$run -- $bin/mlr --data cut.tar", "cut.tar: the tar file is damaged at or behind 0");
    run_well("head -c $(($(wc -c <whole-0.tar) / 10240 * 10240 - 10240)) whole-0.tar | head -c 51200 >cut.tar");
    run_refused("$run -- $bin/mlr --data cut.tar", "cut.tar: the tar file ");
    /* A damaged image is found when a node reads it. */
    run_well(
        "cd unpacked && head -c 500 000040.png >short && mv short 000040.png && tar cf ../damaged.tar *.cls *.png");
    run_refused("$run -- $bin/mlr --data damaged.tar", "damaged.tar: 000000.cls: a label without an image");
    run_well("cd unpacked && tar cf ../damaged.tar $(ls | sort)");
    run_refused("$run -- $bin/mlr --data damaged.tar", "damaged.tar: 000040.png: damaged PNG image: ");
    run_refused("$run --reliable 3 --feeders 1 -- $bin/mlr --data whole-0.tar,damaged.tar",
                "damaged.tar: 000040.png: damaged PNG image: ");
    run_well("cd unpacked && rm 000040.png && ln -s 000041.png 000040.png && tar cf ../links.tar $(ls | sort)");
    run_refused("$run -- $bin/mlr --data links.tar", "links.tar: 000040.png: a link: expected a file");
    run_well("cd unpacked && rm 000040.* && echo cat >000041.cls && tar cf ../words.tar $(ls | sort)");
    run_refused("$run -- $bin/mlr --data words.tar", "words.tar: 000041.cls: expected a number as text");
    run_well("cd unpacked && rm 000041.cls && tar cf ../none.tar $(ls | sort)");
    run_refused("$run -- $bin/mlr --data none.tar",
                "none.tar: 000041.png: no label: expected an entry of this name with");
    run_well("tar cf empty.tar -T /dev/null");
    run_refused("$run -- $bin/mlr --data empty.tar", "empty.tar: no images: expected .jpg, .jpeg or .png");
    run_well("$tests/image_tars 24x16x3 9 0 60 1 nine");
    run_refused("$run -- $bin/mlr --data whole-0.tar --test nine-0.tar",
                "expected a label that occurs in the training data, got '");
}

/* Once the first node has surveyed its files, the second node replaces them. It keeps the old files for itself. */
TEST(files_that_change) {
    run_well("$tests/image_tars 24x16x3 3 0 200 4 early && $tests/image_tars 24x16x3 3 0 204 4 late && "
             "printf '%%s\\n' 'case \" $* \" in *\" --name=node-2 \"*)' "
             "'until grep -qs event.*join.*node-1 report; do sleep 0.02; done' "
             "'mkdir kept && mv early-*.tar kept && for n in 0 1 2 3; do mv late-$n.tar early-$n.tar; done && cd kept' "
             "'esac; exec \"$@\"' >change");
    run_refused("rm -f report; $run --reliable 2 -- sh change $bin/mlr --data 'early-*.tar' --iterations 3",
                ".tar: the file has changed since this process began");
}

int main(void) {
    return tests_run(shell_open, files_close);
}
