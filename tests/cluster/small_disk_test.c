/* Jobs whose data does not fit --memory, with a disk of 1 MB in its own mount namespace. The disk fills up while the
 * input is read or rows are written, and the job ends with one line. Needs the right to mount a disk. */

#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { SKIPPED = 77 /* for ctest */ };

static void test_a_small_disk(void **state) {
    static const char *const jobs[] = {"mlr --data samples", "lda --data documents --topics 20"};
    for (int nodes = 1; nodes <= 2; nodes++) {
        for (int j = 0; j < 2; j++) {
            assert_int_equal(run("unshare -rm sh -c \"mount -t tmpfs -o size=1m none small && "
                                 "exec $run --quiet --reliable %d -- %s --memory 1M --spill small\"",
                                 nodes, jobs[j]),
                             1);
            assert_text("err", "error: small: can't write");
            assert_text("err", "No space left on device; free space, name another folder by --spill");
            FREED char *text = read_text("err");
            assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* a single line */
        }
    }
}

/* Writes samples of 60 features, and a bag of words in UCI's format. */
static void write_files(void) {
    run_well("awk 'BEGIN {for (s = 0; s < 6000; s++) {printf \"%%d\", s %% 2; for (f = 1; f <= 60; f++) "
             "printf \" %%d:0.%%d\", f, 1 + (s * 7 + f * 13) %% 97; print \"\"}}' >samples");
    run_well("awk 'BEGIN {print 3000; print 2000; print 3000 * 40; for (d = 1; d <= 3000; d++) "
             "for (w = 0; w < 40; w++) print d, 1 + (d * 31 + w * 47) %% 2000, 1 + (d + w) %% 3}' >documents");
    run_well("mkdir small");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_small_disk),
    };
    if (shell_open(NULL) != 0) {
        return EXIT_FAILURE;
    }
    write_files();
    if (run("unshare -rm mount -t tmpfs -o size=1m none small") != 0) {
        printf("skipped: this user may not mount a disk\n");
        files_close(NULL);
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, files_close);
}
