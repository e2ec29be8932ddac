/* mf without options, on ratings of any scale, as real jobs. k x rating + c is learned like the rating, and predictions
 * are in the data's units. Counts with long tails are learned at least as well as by biases alone, and data that can't
 * be learned is refused. Data are made up, apart from the cases of ../shared/cases where available. */
#include <math.h>
#include <unistd.h>

#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { USERS = 150, ITEMS = 80, FACTORS = 3 };

/* Returns a number in [0, 1). */
static double uniform(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

static double gauss(uint64_t *state) {
    double radius = sqrt(-2 * log(1 - uniform(state)));
    return radius * cos(2 * 3.141592653589793 * uniform(state));
}

/* ---- Ratings of any scale ---- */

/* Writes stars from 1 to 5, times `factor`, plus `offset`, to the files `train` and `test`. */
static void write_stars(double factor, double offset) {
    uint64_t state = 5;
    double users[USERS][FACTORS + 1], items[ITEMS][FACTORS + 1];
    FILE *train = open_file("train", "we");
    FILE *test = open_file("test", "we");
    for (unsigned k = 0; k <= FACTORS; k++) {
        for (unsigned u = 0; u < USERS; u++) {
            users[u][k] = 0.6 * gauss(&state);
        }
        for (unsigned i = 0; i < ITEMS; i++) {
            items[i][k] = 0.6 * gauss(&state);
        }
    }
    for (unsigned u = 0; u < USERS; u++) {
        for (unsigned i = 0; i < ITEMS; i++) {
            double rating = 3.6 + users[u][FACTORS] + items[i][FACTORS] + 0.6 * gauss(&state);
            for (unsigned k = 0; k < FACTORS; k++) {
                rating += users[u][k] * items[i][k];
            }
            double chosen = uniform(&state);
            if (chosen < 0.3) {
                fprintf(chosen < 0.03 ? test : train, "%u,%u,%.9g\n", u, i,
                        factor * fmin(fmax(round(rating), 1), 5) + offset);
            }
        }
    }
    assert_int_equal(fclose(train), 0);
    assert_int_equal(fclose(test), 0);
}

static double predicted_rmse(void) {
    run_well("$bin/mf --predict model --data test");
    FREED char *text = read_text("out");
    double rmse = NAN;
    assert_int_equal(sscanf(text, "ratings %*d rmse %lf", &rmse), 1);
    return rmse;
}

TEST(any_scale) {
    static const struct {
        double factor, offset;
    } scales[] = {{1, 0}, {1e-20, 0}, {1e20, 0}, {-3, 0}, {1, 1000}, {0.01, 0}, {1000, -7}, {20, 0}, {-1e20, 3e20}};
    double trained = 0;
    double tested = 0;
    double predicted = 0;
    for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
        double unit = fabs(scales[s].factor);
        write_stars(scales[s].factor, scales[s].offset);
        run_well("$run -- mf --data train --test test --model-out model");
        trained = s == 0 ? summary("train_rmse") : trained;
        tested = s == 0 ? summary("test_rmse") : tested;
        predicted = s == 0 ? predicted_rmse() : predicted;
        assert_true(tested < 0.85); /* a constant has 1.08 */
        if (fabs(summary("train_rmse") / unit - trained) > 1e-3 * trained ||
            fabs(summary("test_rmse") / unit - tested) > 1e-3 * tested ||
            fabs(summary("objective") / unit - trained) > 1e-3 * trained ||
            fabs(predicted_rmse() / unit - predicted) > 1e-3 * predicted) {
            fail_msg("%g x rating + %g: RMSE / factor: train %g, test %g, predicted %g, expected %g, %g, %g",
                     scales[s].factor, scales[s].offset, summary("train_rmse") / unit, summary("test_rmse") / unit,
                     predicted_rmse() / unit, trained, tested, predicted);
        }
    }
    write_stars(1, 0);
    run_well("$run --reliable 4 -- mf --data train --test test");
    assert_true(summary("test_rmse") < 1.02 * tested);
    run_well("$run -- mf --data train --test test --optimizer adagrad");
    assert_true(summary("test_rmse") < 1.03 * tested);
    run_well("$run -- mf --data train --test test --iterations 1");
    assert_true(summary("test_rmse") < 1.08);
    run_well("$run -- mf --data train --test test --seconds 0.2");
    assert_true(summary("test_rmse") < 1.08);
}

/* Options still take effect. A rate that is not a normal float, and a penalty that shrinks rows to nothing, end
 * well. */
TEST(explicit_options) {
    write_stars(1, 0);
    run_well("$run -- mf --data train --test test --rate 1e-40");
    double constant = summary("test_rmse");
    assert_true(constant > 1); /* nothing was learned */
    run_well("$run -- mf --data train --test test --lambda 20 --lambda-bias 20 --rate 0.04");
    assert_true(fabs(summary("test_rmse") - constant) < 0.05);
    run_well("$run -- mf --data train --test test --rate 0.04 --decay 1 --lambda 0 --lambda-bias 0 --bias-prior 0 "
             "--clip 0 --iterations 40");
    assert_true(summary("train_rmse") < 0.65); /* it fits the noise */
    run_refused("$run -- mf --data train --clip -1", "--clip: expected a number from 0");
}

/* A job that has learned nothing useful reports that; others do not. */
TEST(no_better_than_the_mean) {
    static const char *const said = "the model is no better than a constant: its RMSE on the ";
    write_stars(1, 0);
    run_well("$run -- mf --data train --test test");
    assert_no_text("report", said);
    run_well("$run --reliable 2 -- mf --data train");
    assert_no_text("report", said);
    run_well("$run -- mf --data train --test test --rate 0.5 --decay 1 --clip 1");
    assert_text("report", said);
    assert_text("report", "test ratings is ");
    run_well("$run --reliable 2 -- mf --data train --rate 1e-40");
    assert_text("report", "training ratings is ");
    /* Noise: users and items without influence. */
    run_well("awk 'BEGIN {srand(1); for (u = 0; u < 200; u++) for (i = 0; i < 20; i++) "
             "print u, int(rand() * 100), int(rand() * 10)}' >noise; $run -- mf --data noise --test-fraction 0.2");
    assert_text("report", said);
}

/* ---- Counts ---- */

struct play {
    unsigned user, item;
    double hours;
};
enum { PLAYERS = 1000, GAMES = 300, PLAYS = 20000 };

/* Makes hours played: a lognormal number for each pair. Few games have most hours. */
static void make_hours(struct play plays[PLAYS], uint64_t seed, double deviation) {
    uint64_t state = seed;
    double users[PLAYERS], items[GAMES];
    for (unsigned u = 0; u < PLAYERS; u++) {
        users[u] = gauss(&state);
    }
    for (unsigned i = 0; i < GAMES; i++) {
        items[i] = gauss(&state);
    }
    for (unsigned n = 0; n < PLAYS; n++) {
        double game = pow(GAMES, uniform(&state)) - 1; /* the n-th game has a share of about 1 / n */
        plays[n].user = (unsigned)(uniform(&state) * PLAYERS);
        plays[n].item = game < GAMES - 1 ? (unsigned)game : GAMES - 1;
        plays[n].hours = exp(users[plays[n].user] + items[plays[n].item] + deviation * gauss(&state));
    }
}

static bool is_test(unsigned n) {
    return n % 10 == 9;
}

static void write_hours(const struct play plays[PLAYS]) {
    FILE *train = open_file("train", "we");
    FILE *test = open_file("test", "we");
    for (unsigned n = 0; n < PLAYS; n++) {
        fprintf(is_test(n) ? test : train, "%u\t%u\t%.3f\n", plays[n].user, plays[n].item, plays[n].hours);
    }
    assert_int_equal(fclose(train), 0);
    assert_int_equal(fclose(test), 0);
}

/* Fits one side's biases to the residuals of the other side's. */
static void fit_biases(const struct play plays[PLAYS], double mean, double *users, double *items, bool of_users) {
    enum { PRIOR = 5 };
    double sums[PLAYERS] = {0};
    double counts[PLAYERS] = {0};
    for (unsigned n = 0; n < PLAYS; n++) {
        if (!is_test(n)) {
            unsigned row = of_users ? plays[n].user : plays[n].item;
            sums[row] += plays[n].hours - mean - (of_users ? items[plays[n].item] : users[plays[n].user]);
            counts[row]++;
        }
    }
    for (unsigned row = 0; row < (of_users ? PLAYERS : GAMES); row++) {
        (of_users ? users : items)[row] = sums[row] / (counts[row] + PRIOR);
    }
}

/* Returns the test RMSE of mean + user bias + item bias. */
static double biases_rmse(const struct play plays[PLAYS]) {
    double users[PLAYERS] = {0};
    double items[GAMES] = {0};
    double sum = 0;
    double squares = 0;
    unsigned tests = 0;
    for (unsigned n = 0; n < PLAYS; n++) {
        sum += is_test(n) ? 0 : plays[n].hours;
        tests += is_test(n);
    }
    double mean = sum / (PLAYS - tests);
    for (unsigned pass = 0; pass < 10; pass++) {
        fit_biases(plays, mean, users, items, false);
        fit_biases(plays, mean, users, items, true);
    }
    for (unsigned n = 0; n < PLAYS; n++) {
        double error = plays[n].hours - mean - users[plays[n].user] - items[plays[n].item];
        squares += is_test(n) ? error * error : 0;
    }
    return sqrt(squares / tests);
}

TEST(hours_with_a_long_tail) {
    static const double deviations[] = {1.2, 1.6, 2};
    FREED struct play *plays = calloc(PLAYS, sizeof *plays);
    for (size_t d = 0; d < sizeof deviations / sizeof deviations[0]; d++) {
        make_hours(plays, d + 1, deviations[d]);
        write_hours(plays);
        run_well("$run -- mf --data train --test test");
        if (summary("test_rmse") > biases_rmse(plays)) {
            fail_msg("deviation %g: test RMSE %g, that of biases alone is %g", deviations[d], summary("test_rmse"),
                     biases_rmse(plays));
        }
    }
}

/* Counts of which a few are far above all others are noted once, with advice. Other ratings are not. */
TEST(a_long_tail_is_noted) {
    run_well("for u in $(seq 100); do for i in $(seq 20); do echo $u $i $((u * i %% 7)); done; done >counts && "
             "$run -- mf --data counts --iterations 2");
    assert_no_text("report", "standard deviations");
    run_well("echo 101 1 5000 >>counts; $run --reliable 2 -- mf --data counts --iterations 2");
    assert_text("report", "ratings: the highest, 5000, is 45 standard deviations (112) above the mean, 5.21");
    assert_text("report", "--log1p learns log(1 + rating) instead");
    run_well("$run -- mf --data counts --iterations 2 --log1p");
    assert_no_text("report", "standard deviations");
    run_well("echo 102 1 -1 >>counts; $run -- mf --data counts --iterations 2");
    assert_text("report", "give their logarithms");
}

/* Logarithms are learned and measured; hours are predicted. */
TEST(logarithms) {
    FREED struct play *plays = calloc(PLAYS, sizeof *plays);
    make_hours(plays, 4, 0.7);
    write_hours(plays);
    run_well("$run -- mf --data train --test test --log1p --model-out model");
    assert_true(summary("test_rmse") < 0.75); /* of the logarithms, whose noise is below 0.7 */
    run_well("$bin/mf --predict model --data test --out predictions && "
             "paste test predictions | awk '{d = log(1 + $3) - log(1 + $6); s += d * d; if ($6 < 0) exit 1} "
             "END {print sqrt(s / NR)}' >rmse");
    FREED char *text = read_text("rmse");
    double rmse = strtod(text, NULL);
    assert_true(rmse < 0.75 && fabs(rmse - summary("test_rmse")) < 0.02);
    run_refused("printf '1 1 3\\n1 2 -4\\n' >negative && $run -- mf --data negative --log1p",
                "--log1p: expected ratings of at least 0, got -4");
}

/* ---- What can't be learned ---- */

TEST(refused_ratings) {
    run_refused("for u in 1 2 3 4; do echo $u 1 1; echo $u 2 1; done >equal; $run -- mf --data equal",
                "all ratings (8) are 1: expected ratings that differ");
    run_refused("awk '{print $1, $2, 0}' equal >zero; $run --reliable 2 -- mf --data zero --model-out model2",
                "all ratings (8) are 0");
    run_refused("awk '{print $1, $2, NR \"e-40\"}' equal >small; $run -- mf --data small",
                "all ratings (8) are 0 (numbers below 1.2e-38 count as 0)");
    run_refused("awk '{print $1, $2, NR % 2 ? \"3e38\" : \"-3e38\"}' equal >large; $run -- mf --data large",
                "the ratings go from -3e+38 to 3e+38: expected numbers between -1e+37 and 1e+37");
    run_refused("echo 1 1 5 >one; $run -- mf --data one", "all ratings (1) are 5");
    assert_int_equal(run("test -e model2"), 1);
}

TEST(the_case_of_large_numbers) {
    const char *source = getenv("PROTEUS_SOURCE");
    char path[512];
    snprintf(path, sizeof path, "%s/../shared/cases/files/S1.csv", source);
    if (access(path, R_OK) != 0) {
        print_message("skipped: the cases are not at hand in ../shared/cases\n");
        skip();
    }
    run_well("$run -- mf --data %s", path);
    assert_true(summary("train_rmse") < 23467); /* the standard deviation */
}

int main(void) {
    return tests_run(shell_open, files_close);
}
