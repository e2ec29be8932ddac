/* A job's files: only their owner can read them, nobody else can choose what is written to, and the next run removes
 * what a killed run left in the temporary folder. */
#include "tests/cluster/shell.h"
#include "tests/test.h"

#define SUM "$tests/sum_app --data ratings.csv"

TEST(reports_and_stores_are_their_owners_alone) {
    run_well("umask 0; $bin/proteus keygen job.key && "
             "{ $bin/proteus controller --listen tcp://127.0.0.1:0 --key job.key --reliable 1 --transient 0 "
             "--store job.store --report job.report --http auto >says & } && while ! grep -q nodes says; do sleep "
             "0.05; done; "
             "read -r listening on at more <says; stat -c '%%a %%n' job.* >modes; " SUM
             " --iterations 2 --controller=$at --tier=reliable --key job.key && wait");
    run_well(
        "grep -qx '600 job.store' modes && grep -qx '600 job.report' modes && grep -qx '600 job.store-wal' modes && "
        "grep -qx '600 job.store-history' modes");
    run_well("umask 0; rm -f report; $run --reliable 1 -- " SUM " --iterations 2; stat -c %%a report | grep -qx 600");
}

TEST(a_store_of_a_job_that_has_ended_is_named) {
    run_well("rm -f old.store says; { $bin/proteus controller --listen tcp://127.0.0.1:0 --reliable 1 --transient 0 "
             "--store old.store >says & } && while ! grep -q nodes says; do sleep 0.05; done; "
             "read -r listening on at more <says; " SUM " --iterations 2 --controller=$at --tier=reliable && wait");
    run_well("$bin/proteus controller --listen tcp://127.0.0.1:0 --reliable 1 --transient 0 --store old.store 2>err; "
             "grep -q 'warning: old.store: the job of this store has ended; for another job remove the file' err");
}

TEST(others_do_not_choose_what_is_written_to) {
    run_well("mkdir -m 1777 shared && echo precious >precious && ln -s ../precious shared/report && "
             "ln -s ../precious shared/store && ln precious shared/second");
    run_refused("$bin/proteus run --report shared/report --reliable 1 -- " SUM " --iterations 2",
                "--report shared/report: can't create the file: a symbolic link in a folder that others can write to");
    run_refused("$bin/proteus run --report shared/second --reliable 1 -- " SUM " --iterations 2", "several names");
    run_refused("$bin/proteus controller --listen tcp://127.0.0.1:0 --reliable 1 --transient 0 --store shared/store",
                "shared/store: can't open the controller's store: a symbolic link");
    run_well("grep -qx precious precious && rm shared/* && "
             "$bin/proteus run --report shared/report --reliable 1 -- " SUM " --iterations 2 && "
             "tail -n 1 shared/report | grep -q '\"ok\":true'");
}

/* KILL can't be caught: the folder with the controller's store stays until the next run. Other folders stay for good,
 * also similar ones and that of a running job. */
TEST(what_a_killed_run_left_is_swept) {
    run_well("mkdir tmp tmp/proteus-backup && echo precious >tmp/proteus-backup/file; "
             "ln -s ../out tmp/proteus-abcdef; export TMPDIR=$PWD/tmp; "
             "begin() { $bin/proteus run --reliable 1 -- " SUM " --iterations 100000 --slow-us 5000 >$1 2>&1 & }; "
             "folders() { find tmp -mindepth 1 -maxdepth 1 -type d -name 'proteus-*' ! -name proteus-backup |"
             " wc -l; }; "
             "begin one; one=$!; begin two; two=$!; "
             "for f in one two; do while ! grep -q 'iteration 1 ' $f; do"
             " kill -0 $one $two || exit 1; sleep 0.05; done; done; "
             "[ $(folders) = 2 ] || { echo not two; exit 1; }; kill -9 $one; wait $one; "
             "[ $(folders) = 2 ] || { echo no folder left; exit 1; }; "
             "$bin/proteus run --reliable 1 -- " SUM " --iterations 2 && [ $(folders) = 1 ] || "
             "{ echo not swept, or too much; exit 1; }; "
             "kill -0 $two && kill -INT $two; wait $two; [ $(folders) = 0 ] || { echo two has left; exit 1; }; "
             "grep -qx precious tmp/proteus-backup/file && [ -L tmp/proteus-abcdef ]");
}

int main(void) {
    return tests_run(shell_open_with_ratings, files_close);
}
