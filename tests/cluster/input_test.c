/* Tests of the apps' input and output as a new user meets them, with the programs themselves: files as spreadsheets,
 * Windows and old Macs write them, data without labels or ratings, models for which there is no place, help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cluster/shell.h"

static const struct { const char *name, *data; } APPS[] = {{"mf", "ratings"}, {"mlr", "samples"}, {"lda", "documents"}};

enum { APP_COUNT = sizeof APPS / sizeof APPS[0] };

static void assert_holds(const char *file, const char *part) {
    char *text = read_text(file);
    if (strstr(text, part) == NULL) {
        fail_msg("%s: '%s', expected '%s'", file, text, part);
    }
    free(text);
}

/* ---- --model-out ---- */

static void test_a_model_that_cannot_be_written_is_refused_before_training(void **state) {
    (void)state;
    static const struct {
        const char *path, *message;
    } cases[] = {
        {"folder", "--model-out: folder: a folder: expected the path of a file"},
        {"folder/", "--model-out: folder/: a folder: expected the path of a file"},
        {"missing/model", "--model-out: missing/model: can't write it: No such file or directory"},
        {"ratings/model", "--model-out: ratings/model: can't write it: Not a directory"},
        {"/dev/full", "--model-out: /dev/full: a device or pipe: expected the path of a file"},
        {"''", "--model-out: the path is empty: expected that of a file"},
    };
    run_well("mkdir -p folder");
    for (size_t a = 0; a < APP_COUNT; a++) {
        char command[256];
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            snprintf(command, sizeof command, "$run -- %s --data %s --model-out %s", APPS[a].name, APPS[a].data,
                     cases[c].path);
            run_refused(command, cases[c].message);
            char *out = read_text("out");
            assert_string_equal(out, ""); /* no controller, no iteration */
            free(out);
        }
        snprintf(command, sizeof command, "$run -- %s --data ./%s --model-out %s", APPS[a].name, APPS[a].data,
                 APPS[a].data);
        run_refused(command, "the job reads this file: expected another");
    }
    assert_int_equal(run("test -z \"$(ls folder)\" && test -c /dev/full && ls ratings samples documents"), 0);
}

/* A job that fails keeps the model of the one before. */
static void test_an_existing_model_is_not_truncated(void **state) {
    (void)state;
    for (size_t a = 0; a < APP_COUNT; a++) {
        run_well("echo old >model");
        assert_int_equal(run("$run -- %s --data %s --model-out model --check-nothing", APPS[a].name, APPS[a].data), 2);
        run_well("test \"$(cat model)\" = old");
        assert_int_equal(run("$run -- %s --data missing --model-out model", APPS[a].name), 2);
        run_well("test \"$(cat model)\" = old");
        run_well("$run -- %s --data %s --iterations 1 --model-out model && test $(wc -c <model) -gt 40", APPS[a].name,
                 APPS[a].data);
    }
}

/* ---- Help ---- */

static void test_help_of_predict_and_infer(void **state) {
    (void)state;
    static const struct {
        const char *app, *option, *usage;
    } tools[] = {{"mf", "predict", "usage: mf --predict MODEL --data FILE [--out FILE]"},
                 {"mlr", "predict", "usage: mlr --predict MODEL --data FILE [--labels FILE] [--out FILE]"},
                 {"lda", "infer", "usage: lda --infer MODEL --data FILE [--out FILE]"}};
    static const char *const ways[] = {"--%s --help", "--%s model --help", "--help --%s", "-h --%s=model"};
    for (size_t t = 0; t < sizeof tools / sizeof tools[0]; t++) {
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            char arguments[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(arguments, sizeof arguments, ways[w], tools[t].option);
#pragma GCC diagnostic pop
            run_well("$bin/%s %s", tools[t].app, arguments);
            assert_holds("out", tools[t].usage);
            run_well("$run -- %s %s", tools[t].app, arguments);
            assert_holds("out", tools[t].usage);
        }
        char line[64];
        run_well("$bin/%s --help", tools[t].app);
        snprintf(line, sizeof line, "  --%s MODEL", tools[t].option);
        assert_holds("out", line);
        snprintf(line, sizeof line, "see %s --%s --help", tools[t].app, tools[t].option);
        assert_holds("out", line);
    }
}

static void test_proteus_run_mf_predict_says_what_to_do(void **state) {
    (void)state;
    run_refused("$run -- mf --predict model --data ratings",
                "--predict needs no job: run 'mf --predict ...' itself, without 'proteus run --'");
    run_refused("$run -- mlr --data samples --predict=model", "run 'mlr --predict ...' itself, without 'proteus run");
    run_refused("$run -- lda --infer model", "run 'lda --infer ...' itself, without 'proteus run --'");
    run_refused("$bin/mf --controller tcp://127.0.0.1:1 --predict model", "run 'mf --predict ...' itself");
}

/* ---- The group ---- */

static int set_up(void **state) {
    (void)state;
    if (shell_open("input_test") != 0) {
        return -1;
    }
    FILE *ratings = open_file("ratings", "we");
    FILE *samples = open_file("samples", "we");
    FILE *documents = open_file("documents", "we");
    for (int i = 0; i < 60; i++) {
        fprintf(ratings, "%d,%d,%d.5,96498%d\n", i % 12 + 1, i % 7 + 1, (i % 12 + i % 7) % 5, 1000 + i);
        fprintf(samples, "%d 1:%d 2:0.%d 3:%d\n", i % 2, i % 2 + 1, i, i % 3 + 1);
        fprintf(documents, i % 2 == 0 ? "apple pear plum apple\n" : "wolf bear deer bear\n");
    }
    return fclose(ratings) == 0 && fclose(samples) == 0 && fclose(documents) == 0 ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return shell_close();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_model_that_cannot_be_written_is_refused_before_training),
        cmocka_unit_test(test_an_existing_model_is_not_truncated),
        cmocka_unit_test(test_help_of_predict_and_infer),
        cmocka_unit_test(test_proteus_run_mf_predict_says_what_to_do),
    };
    return cmocka_run_group_tests_name("input", tests, set_up, tear_down);
}
