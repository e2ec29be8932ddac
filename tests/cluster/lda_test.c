/* Tests of lda with real processes. At its end the app itself checks that all counts are exact, and fails the job if
 * not. Here it runs on many clusters, while nodes join, are evicted and are killed. Also tests models, new documents
 * and wrong input. Nothing here depends on time. */
#include <math.h>
#include <unistd.h>

#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { DOCUMENTS = 240, WORDS = 60, SUBJECTS = 4 };

static void assert_bad(const char *arguments, const char *part) {
    assert_int_equal(run("$bin/proteus run -- lda %s", arguments), 2);
    FREED char *text = read_text("err");
    if (strstr(text, part) == NULL) {
        fail_msg("'%s': '%s', expected '%s'", arguments, text, part);
    }
}

/* ---- The tests ---- */

PLAIN_TEST(counts_are_exact) {
    const char *const clusters[] = {"--reliable 1", "--reliable 1 --threads 3",
                                    "--reliable 2 --transient 2 --threads 2",
                                    "--reliable 1 --transient 2 --stage traditional --partitions 3",
                                    "--reliable 2 --transient 3 --stage 3 --commit-every 3 --partitions 5"};
    const char *const jobs[] = {"--topics 8", "--topics 300 --staleness 2 --clocks-per-iteration 4 --optimize-alpha",
                                "--topics 20 --staleness 1 --server-threads 2 --test-fraction 0.2 --proposals 1"};
    for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
        for (size_t j = 0; j < sizeof jobs / sizeof jobs[0]; j++) {
            run_well("$bin/proteus run %s --report report -- lda --data uci --iterations 20 %s", clusters[c], jobs[j]);
            assert_true(summary("iterations") == 20);
            if (strstr(jobs[j], "--test-fraction") == NULL) {
                assert_int_equal(check_iterations(DOCUMENTS), 0);
            }
        }
    }
}

TEST(counts_are_exact_while_nodes_come_and_go) {
    const char *const jobs[] = {"--topics 8", "--topics 30 --staleness 1 --clocks-per-iteration 3 --optimize-alpha"};
    const unsigned iterations = sanitized() ? 200 : 400; /* sanitized ones take several times as long */
    for (size_t j = only_threads() ? 1 : 0; j < sizeof jobs / sizeof jobs[0]; j++) {
        run_well("printf 'iteration 15 join transient 2\\niteration 40 evict transient 2 notice 60s\\n"
                 "iteration 70 kill node-3\\niteration 100 join transient 1\\n' > events; "
                 "$bin/proteus run --reliable 2 --transient 3 --threads 2 --events events "
                 "--report report -- lda --data uci --iterations %u --top-words 3 %s",
                 iterations, jobs[j]);
        assert_true(summary("iterations") == iterations);
        assert_true(summary("evictions") == 2);
        assert_true(summary("failures") == 1);
        check_iterations(DOCUMENTS);
    }
    for (int i = only_threads() ? 1 : 0; i < 2; i++) { /* all transient nodes at once: much work is repeated */
        run_well("printf 'iteration 30 kill transient all\\n' > events; "
                 "$bin/proteus run --reliable 1 --transient 3 --stage 2 --commit-every 5 "
                 "--events events --report report -- lda --data uci --topics 12 --iterations 120");
        assert_true(summary("failures") == 3);
        check_iterations(DOCUMENTS);
    }
}

/* With rare measurements the last iteration is measured, too. Its value is that of a run that measures every
 * iteration. */
PLAIN_TEST(the_last_iteration_is_always_measured) {
    static const char *const stops[] = {
        "$bin/proteus run --report report -- lda --data uci --topics 8 --test-fraction 0.1 --likelihood-every 1000 "
        "--iterations 60",
        "$bin/proteus run --report report -- lda --data uci --topics 8 --test-fraction 0.1 --likelihood-every 1000000 "
        "--seconds 0.3",
        "rm -f report; ($bin/proteus run --report report -- lda --data uci --topics 8 --test-fraction 0.1 "
        "--likelihood-every 1000000 --iterations 100000000 >out) & "
        "while ! grep -qs '\"iteration\":2[0-9],' report; do kill -0 $! || exit 1; sleep 0.05; done; "
        "$bin/proteus stop --controller $(sed -n 's/^controller at \\([^ ]*\\).*/\\1/p' out); wait $!"};
    for (size_t s = 0; s < sizeof stops / sizeof *stops; s++) {
        double first[2];
        double last[2];
        double expected;
        static const char *const keys[] = {"log_likelihood_per_token", "perplexity"};
        run_well("%s", stops[s]);
        unsigned iterations = (unsigned)summary("iterations");
        for (int k = 0; k < 2; k++) {
            last[k] = summary(keys[k]);
            assert_true(whole_metric("report", 1, keys[k], &first[k]));
            assert_false(whole_metric("report", 2, keys[k], &expected)); /* null: not measured */
            assert_true(whole_metric("report", iterations, keys[k], &expected) && expected == last[k]);
            assert_true(last[k] != first[k]);
        }
        run_well("$bin/proteus run --report report -- lda --data uci --topics 8 --test-fraction 0.1 "
                 "--likelihood-every 1 --iterations %u",
                 iterations);
        for (int k = 0; k < 2; k++) {
            assert_true(fabs(summary(keys[k]) - last[k]) < 1e-6 * fabs(last[k]));
        }
    }
    /* On several nodes each node measures its part. */
    run_well("$bin/proteus run --reliable 2 --transient 2 --report report -- lda --data uci --topics 8 --staleness 1 "
             "--likelihood-every 1000000 --seconds 0.5");
    double value;
    assert_true(whole_metric("report", (unsigned)summary("iterations"), "log_likelihood_per_token", &value));
    assert_true(value == summary("log_likelihood_per_token"));
    assert_true(whole_metric("report", 1, "log_likelihood_per_token", &value));
    assert_true(value < summary("log_likelihood_per_token"));
}

TEST(one_seed_one_result) {
    const char *command = "$bin/proteus run --threads %d --report report -- lda --data uci --topics 10 --iterations 15 "
                          "--test-fraction 0.1 --seed %d";
    double results[3];
    for (int i = 0; i < 3; i++) { /* with any number of threads */
        run_well(command, i < 2 ? i + 1 : 1, i < 2 ? 7 : 8);
        results[i] = summary("log_likelihood_per_token");
    }
    assert_true(results[0] - results[1] < 1e-12 && results[1] - results[0] < 1e-12); /* sums differ in their order */
    assert_true(results[0] != results[2]);
}

/* Words and documents belong to one of four subjects each: the topics must be these subjects. */
PLAIN_TEST(topics_are_found) {
    run_well("$bin/proteus run --reliable 2 --report report -- lda --data text --topics 4 --alpha 0.1 --iterations 60 "
             "--top-words 6 --test-fraction 0.1 --model-out model");
    double perplexity = summary("perplexity");
    assert_true(perplexity < 1.5 * WORDS / SUBJECTS); /* of 60 words each document uses 15 */
    assert_true(perplexity > 0.7 * WORDS / SUBJECTS);
    char *text = read_text("out");
    unsigned found = 0;
    for (char *line = strstr(text, "topic "); line != NULL; line = strstr(line + 1, "\ntopic ")) {
        char subjects[6];
        char *from = strchr(line, ':') + 1;
        for (int w = 0; w < 6; w++) {
            char word[16];
            int length = 0;
            assert_int_equal(sscanf(from, " %15s%n", word, &length), 1);
            subjects[w] = word[0];
            from += length;
            assert_int_equal(subjects[w], subjects[0]);
        }
        found |= 1U << (subjects[0] - 'a');
    }
    assert_int_equal(found, (1U << SUBJECTS) - 1);
    free(text);
    /* The model knows these words; a new document has one topic. */
    run_well("printf 'aone atwo afour afive unknown aone\\n' > new; $bin/lda --infer model --data new > topics; "
             "$bin/lda --infer model --data text --out topics.all");
    text = read_text("topics");
    double share = 0;
    assert_int_equal(sscanf(text, "1\t%*d:%lf", &share), 1);
    assert_true(share > 0.9);
    free(text);
    text = read_text("topics.all");
    unsigned lines = 0;
    for (const char *c = text; *c != '\0'; c++) {
        lines += *c == '\n' ? 1 : 0;
    }
    assert_int_equal(lines, DOCUMENTS);
    free(text);
}

/* A matrix with its rows in order is split like uci. The results are the same. */
PLAIN_TEST(a_matrix_is_read_like_uci) {
    static const char *const orders[] = {"", "sort -k2,2n -k1,1n |"};
    run_well("$bin/proteus run --threads 1 -- lda --data uci --topics 5 --iterations 3 --model-out model-1");
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        run_well(
            "(echo '%%%%MatrixMarket matrix coordinate real general'; head -n 3 uci | tr '\\n' ' '; echo; "
            "tail -n +4 uci | %s sed 's/$/.0/') >matrix; $bin/proteus run --threads 1 --report report -- lda --data "
            "matrix --topics 5 --iterations 3 --model-out model-2 && cmp model-1 model-2",
            orders[o]);
        run_well("$bin/proteus run --reliable 2 --transient 2 --report report -- lda --data matrix --topics 5 "
                 "--iterations 3");
        assert_int_equal(check_iterations(DOCUMENTS), 0);
        FREED char *text = read_text("out");
        assert_non_null(strstr(text, "matrix: MatrixMarket, its 240 rows taken for documents"));
        assert_non_null(strstr(text, "read 240 documents with"));
        assert_true((strstr(text, "not in the order of rows") != NULL) == (o == 1));
    }
}

/* Each document has a line with its own id, also without words that the model knows. */
PLAIN_TEST(every_document_has_its_line) {
    static const struct {
        const char *documents, *ids[4]; /* ids of the lines; the second and the last document are unknown */
    } inputs[] = {{"aone atwo\n\nbone btwo\nnothing\n", {"1", "2", "3", "4"}},
                  {"id,text\nx,\"aone\natwo\"\ny,\nz,bone\nw,nothing\n", {"x", "y", "z", "w"}},
                  {"d1 |text aone:4 atwo\nd2 |\nd3 |text bone:2\nd4 |text nothing:3\n", {"d1", "d2", "d3", "d4"}},
                  {"a\ten\taone atwo\nb\ten\tno words\nc\ten\tbone\nd\ten\tnothing of all\n", {"a", "b", "c", "d"}}};
    run_well("$bin/proteus run -- lda --data text --topics 4 --iterations 30 --model-out model");
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        FILE *file = open_file("new", "we");
        fputs(inputs[i].documents, file);
        assert_int_equal(fclose(file), 0);
        run_well("$bin/lda --infer model --data new > topics");
        FREED char *text = read_text("topics");
        char *line = text;
        for (unsigned l = 0; l < 4; l++) {
            char id[16];
            char topics[256];
            int length = 0;
            assert_int_equal(sscanf(line, "%15[^\t]\t%255[^\n]\n%n", id, topics, &length), 2);
            assert_string_equal(id, inputs[i].ids[l]);
            assert_int_equal(strcmp(topics, "unknown") == 0, l % 2);
            line += length;
        }
        assert_int_equal(*line, '\0');
    }
    run_well("$bin/proteus run -- lda --data uci --topics 4 --iterations 5 --model-out model-2");
    run_well("printf '4\n60\n2\n1 1 3\n3 2 1.0\n' >new; $bin/lda --infer model-2 --data new > topics");
    FREED char *text = read_text("topics");
    assert_non_null(strstr(text, "\n2\tunknown\n3\t"));
    assert_non_null(strstr(text, "\n4\tunknown\n"));
}

/* Without options alpha begins with 5 / K and is adapted; a given alpha stays. */
PLAIN_TEST(defaults) {
    double first;
    double last;
    run_well("$bin/proteus run --report report -- lda --data uci --iterations 20");
    assert_true(whole_metric("report", 1, "alpha", &first) && whole_metric("report", 20, "alpha", &last));
    assert_true(fabs(first - 0.05) < 1e-6 && fabs(last - 0.05) > 1e-4); /* 100 topics */
    run_well("$bin/proteus run --report report -- lda --data uci --iterations 20 --topics 5 --alpha 0.2");
    assert_true(whole_metric("report", 20, "alpha", &last) && fabs(last - 0.2) < 1e-6);
    run_well(
        "$bin/proteus run --report report -- lda --data uci --iterations 20 --topics 5 --alpha 0.2 --optimize-alpha");
    assert_true(whole_metric("report", 20, "alpha", &last) && fabs(last - 0.2) > 1e-4);
}

/* Words that are independent of each other. */
PLAIN_TEST(no_better_than_a_constant) {
    FILE *file = open_file("noise", "we");
    uint32_t random = 5;
    for (int d = 0; d < 200; d++) {
        for (int w = 0; w < 20; w++) {
            random = random * 1664525 + 1013904223;
            fprintf(file, "w%c%c ", 'a' + (random >> 24) % 20, 'a' + (random >> 16) % 20);
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
    run_well("$bin/proteus run --report report -- lda --data noise --topics 20 --test-fraction 0.2 --minimum-length 1");
    assert_true(summary("perplexity") >= summary("unigram_perplexity"));
    char *text = read_text("out");
    assert_non_null(strstr(text, "no better than the words' frequencies"));
    free(text);
    run_well("$bin/proteus run --report report -- lda --data uci --topics 4 --test-fraction 0.2");
    assert_true(summary("perplexity") < 0.5 * summary("unigram_perplexity"));
    text = read_text("out");
    assert_null(strstr(text, "no better than"));
    free(text);
}

PLAIN_TEST(bad_input) {
    assert_bad("", "--data FILE is missing");
    assert_bad("--data missing", "missing");
    assert_bad("--data uci --test uci --test-fraction 0.1", "expected one of them");
    assert_bad("--data uci --format csv",
               "--format: expected auto, uci, lda-c, matrix-market, text, vw, table or mallet, got 'csv'");
    assert_bad("--data uci --topics 65536", "--topics");
    assert_bad("--data uci --model-out nowhere/model", "nowhere");
    assert_bad("--data uci --staleness 2 --clocks-per-iteration 2", "expected more than --staleness 2");
    assert_int_equal(run("head -n 20 uci > short; $bin/proteus run --reliable 2 -- lda --data short"), 2);
    char *text = read_text("err");
    assert_non_null(strstr(text, "short: ends after 17 counts"));
    free(text);
    assert_int_equal(run("$bin/lda --infer uci --data uci"), 2);
    assert_int_equal(run("$bin/lda --infer missing --data uci"), 2);
    assert_int_equal(run("$bin/lda --infer model"), 2);
    assert_int_equal(run("$bin/lda --infer model --data text --out /dev/full"), 1);
}

/* ---- The group ---- */

static const char *const numerals[] = {"one",  "two", "three",  "four",   "five",     "six",      "seven",  "eight",
                                       "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen"};

static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    FILE *uci = open_file("uci", "we");
    FILE *text = open_file("text", "we");
    uint32_t random = 3;
    fprintf(uci, "%d\n%d\n%d\n", DOCUMENTS, WORDS, DOCUMENTS * WORDS / SUBJECTS);
    for (int d = 0; d < DOCUMENTS; d++) {
        for (int w = d % SUBJECTS; w < WORDS; w += SUBJECTS) {
            random = random * 1664525 + 1013904223;
            unsigned count = 1 + (random >> 28) + (d == 5 ? 200 : 0); /* one document is long */
            fprintf(uci, "%d %d %u\n", d + 1, w + 1, count);
            for (unsigned i = 0; i < count % 6; i++) {
                fprintf(text, "%c%s ", 'a' + w % SUBJECTS, numerals[w / SUBJECTS]);
            }
        }
        fprintf(text, "%cone\n", 'a' + d % SUBJECTS);
    }
    return fclose(uci) == 0 && fclose(text) == 0 ? 0 : -1;
}

int main(void) {
    return tests_run(set_up, files_close);
}
