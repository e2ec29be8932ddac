/* Tokens in a job of real processes. A token lets a limited number of nodes join, each role has its own rights, and
 * everything else is refused with a message. Who was let in can't fill memory by a message without end. */
#include "tests/cluster/shell.h"
#include "tests/test.h"

#define SUM "$tests/sum_app --data ratings.csv"

/* Defines the shell function `begin OPTIONS`, which starts a controller and sets its process, $controller, and its
 * address, $at. */
#define BEGIN                                                                                                          \
    "rm -f says report; "                                                                                              \
    "begin() { $bin/proteus controller --listen tcp://127.0.0.1:0 --key job.key --report report $* >says & "           \
    "controller=$!; while ! grep -q nodes says; do kill -0 $controller || exit 1; sleep 0.05; done; "                  \
    "read -r listening on at more <says; }; "

static int set_up(void **state) {
    assert_int_equal(shell_open_with_ratings(state), 0);
    run_well("$bin/proteus keygen job.key && $bin/proteus keygen other.key && "
             "for role in node operator observer; do "
             "$bin/proteus keygen --role $role --key job.key --nodes 3 $role.token || exit 1; done && "
             "stat -c %%a *.token | sort -u | grep -qx 600 && ! grep -q secret *.token");
    return 0;
}

/* Three nodes join by a token for three. An observer sees them; an operator evicts one of them and stops the job. */
TEST(a_job_by_tokens) {
    run_well(BEGIN
             "begin --reliable 1 --transient 2 --stage 1; "
             "for node in r/reliable s/transient t/transient; do " SUM " --iterations 100000 --slow-us 2000 "
             "--controller=$at --name=${node%%/*} --tier=${node#*/} --key node.token 2>>nodes & done; "
             "while ! grep -q '\"type\":\"iteration\"' report; do kill -0 $controller || exit 1; sleep 0.05; done; "
             "p() { command=$1; key=$2; shift 2; $bin/proteus $command --controller $at --key $key \"$@\"; }; "
             "p status observer.token --json >status && grep -q '\"name\":\"t\"' status || exit 10; "
             "p stop observer.token 2>refused; [ $? = 2 ] && grep -q 'does not allow STOP' refused || exit 11; "
             "p evict node.token s 2>refused; [ $? = 2 ] && grep -q 'does not allow EVICT' refused || exit 12; "
             "p status node.token 2>refused; [ $? = 2 ] && grep -q 'does not allow STATUS' refused || exit 13; "
             "p status other.key 2>refused; [ $? = 2 ] && grep -q 'same --key' refused || exit 14; "
             "p evict operator.token --notice 1s t || exit 15; "
             "p stop operator.token || exit 16; wait $controller || exit 17; "
             "tail -n 1 report | grep -q '\"ok\":true' || exit 18; wait");
}

/* A fourth node waits until one of the three has gone. */
TEST(a_token_for_three_lets_a_fourth_wait) {
    run_well(BEGIN
             "begin --reliable 1 --transient 2 --stage 1 --failure-timeout 2; "
             "node() { " SUM " --iterations 100000 --slow-us 2000 --controller=$at --tier=$1 --key node.token "
             "2>>nodes & last=$!; }; node reliable; node transient; node transient; first=$last; "
             "while ! grep -q '\"type\":\"iteration\"' report; do kill -0 $controller || exit 1; sleep 0.05; done; "
             "node transient; fourth=$last; sleep 1.5; joins() { grep -c '\"event\":\"join\"' report; }; "
             "kill -0 $fourth || exit 10; [ $(joins) = 3 ] || exit 11; "
             "kill -9 $first; while [ $(joins) = 3 ]; do kill -0 $controller $fourth || exit 12; sleep 0.1; done; "
             "$bin/proteus stop --controller $at --key operator.token || exit 13; wait $controller");
}

/* A process that was given up while it was stopped joins again after its token has expired. */
TEST(a_node_rejoins_after_its_tokens_time) {
    run_well(BEGIN
             "begin --reliable 1 --transient 1 --stage 1 --failure-timeout 1; "
             "$bin/proteus keygen --role node --tier transient --key job.key --lifetime 3s short.token; "
             "made=$(date +%%s); "
             "node() { " SUM " --iterations 100000 --slow-us 2000 --controller=$at --tier=$1 --key $2 2>>nodes & "
             "last=$!; }; node reliable node.token; node transient short.token; transient=$last; "
             "while ! grep -q '\"type\":\"iteration\"' report; do kill -0 $controller || exit 1; sleep 0.05; done; "
             "kill -STOP $transient; "
             "while ! grep -q '\"event\":\"failure\"' report || [ $(date +%%s) -lt $((made + 4)) ]; do "
             "kill -0 $controller || exit 10; sleep 0.1; done; kill -CONT $transient; "
             "while [ $(grep -c '\"event\":\"join\"' report) = 2 ]; do "
             "kill -0 $controller $transient || exit 11; sleep 0.1; done; "
             "$bin/proteus stop --controller $at --key operator.token || exit 12; wait $controller");
}

/* Revoking a token cuts off the node and the observer that came by it, and lets nobody in by it, also when the
 * controller was killed and started again. The job goes on without them; sum_app checks that its result is exact. */
TEST(a_revoked_token_is_void) {
    run_well(
        BEGIN
        "rm -f job.store nodes spots followed; "
        "begin --reliable 1 --transient 2 --stage 1 --store job.store; "
        "$bin/proteus keygen --role node --key job.key spot.token >made && "
        "serial=$(sed -n 's/its serial number is //p' made) && "
        "$bin/proteus keygen --role observer --key job.key watcher.token >made && "
        "watcher=$(sed -n 's/its serial number is //p' made) || exit 9; "
        "node() { " SUM " --iterations 100000 --slow-us 2000 --controller=$at --name=$1 --tier=$2 --key $3; }; "
        "node r reliable node.token 2>>nodes & node s transient node.token 2>>nodes & "
        "node t transient spot.token 2>spots & spot=$!; "
        "p() { command=$1; key=$2; shift 2; $bin/proteus $command --controller $at --key $key \"$@\"; }; "
        "iterations() { grep -c '\"type\":\"iteration\"' report; }; "
        "goes_on() { n=$(iterations); while [ $(iterations) -lt $((n + 3)) ]; do kill -0 $controller || exit $1; "
        "sleep 0.05; done; }; goes_on 10; "
        "p follow watcher.token >followed 2>&1 & follower=$!; while ! grep -q iteration followed; do "
        "sleep 0.05; done; "
        "p status observer.token --json | grep -q \"\\\"token\\\":\\\"$serial\\\"\" || exit 11; "
        "p revoke job.key spot.token | grep -qx 'revoked: cut off 1 node and 0 observers' || exit 12; "
        "wait $spot; [ $? = 2 ] && grep -q \"token $serial, was revoked\" spots || exit 13; "
        "node again transient spot.token 2>refused; [ $? = 2 ] && grep -q 'for a node until .* was revoked' refused "
        "|| exit 14; "
        "p revoke job.key $watcher | grep -q 'cut off 0 nodes and 1 observer' || exit 15; "
        "wait $follower; [ $? = 2 ] && grep -q 'was revoked' followed || exit 16; "
        "p revoke job.key spot.token | grep -q 'nobody in the job came by it' || exit 17; goes_on 18; "
        "kill -9 $controller; wait $controller; $bin/proteus controller --listen $at --key job.key --report report "
        "--reliable 1 --transient 2 --stage 1 --store job.store >says & controller=$!; goes_on 19; "
        "node again transient spot.token 2>refused; [ $? = 2 ] && grep -q 'was revoked' refused || exit 20; "
        "p status watcher.token 2>refused; [ $? = 2 ] && grep -q 'was revoked' refused || exit 21; "
        "p stop operator.token || exit 22; wait $controller || exit 23; "
        "tail -n 1 report | grep -q '\"ok\":true' && tail -n 1 report | grep -q '\"failures\":1,' || exit 24; "
        "[ $(grep -c '\"event\":\"revoke\"' report) = 2 ] || exit 25; wait");
    run_refused("$bin/proteus revoke --controller tcp://127.0.0.1:1 spot.token", "expected the job's key");
    run_refused("$bin/proteus revoke --controller tcp://127.0.0.1:1 --key operator.token spot.token",
                "a token, expected the job's key");
    run_refused("$bin/proteus revoke --controller tcp://127.0.0.1:1 --key other.key spot.token",
                "a token of another job");
    run_refused("$bin/proteus revoke --controller tcp://127.0.0.1:1 --key job.key job.key", "can't be revoked");
    run_refused("$bin/proteus revoke --controller tcp://127.0.0.1:1 --key job.key unknown.token", "can't read the key");
    run_refused("chmod 600 ratings.csv; $bin/proteus revoke --controller tcp://127.0.0.1:1 --key job.key ratings.csv",
                "ratings.csv: not a key file");
    run_refused("$bin/proteus revoke --controller tcp://127.0.0.1:1 --key job.key", "0 tokens, expected one");
}

/* In a job without a key everybody is let in. The controller and a node's pulse cut off who sends messages without end,
 * and the job goes on; a node's server, which may get more, waits for more. */
TEST(messages_without_end_cost_their_sender) {
    run_well("rm -f said nodes report; $bin/proteus controller --listen tcp://127.0.0.1:0 --report report --reliable 1 "
             "--transient 1 --stage 1 >says 2>said & controller=$!; while ! grep -q nodes says; do sleep 0.05; done; "
             "read -r listening on at more <says; "
             "node() { " SUM " --iterations 100000 --slow-us 2000 --controller=$at --tier=$1 2>>nodes & last=$!; }; "
             "node transient; node reliable; "
             "while ! grep -q '\"type\":\"iteration\"' report; do kill -0 $controller || exit 1; sleep 0.05; done; "
             "endless() { python3 \"$PROTEUS_SOURCE/tests/cluster/endless.py\" $* >cut; cat cut; }; "
             "[ $(endless 1000000000 ${at##*:}) = 1 ] || exit 10; "
             "grep -q 'cut off the process at 127.0.0.1:.*: more than 67108864 bytes of one message' said || exit 11; "
             "[ $(endless 200000000 --pid $last) = 1 ] || exit 12; "
             "grep -q 'cut off the process at 127.0.0.1:.*: more than 65536 bytes of one message' nodes || exit 13; "
             "peak=$(sed -n 's/VmHWM:[^0-9]*\\([0-9]*\\) kB/\\1/p' /proc/$controller/status); "
             "[ $peak -lt 1000000 ] || exit 14; "
             "$bin/proteus stop --controller $at || exit 15; wait $controller || exit 16; "
             "tail -n 1 report | grep -q '\"failures\":0,' || exit 17; wait");
}

TEST(refusals) {
    run_refused("$bin/proteus controller --listen tcp://127.0.0.1:0 --key node.token --reliable 1",
                "the controller needs the job's key: a token was given");
    run_refused("$bin/proteus keygen --role node --key node.token new.token", "a token, expected the job's key");
    run_refused("$bin/proteus keygen --role nod --key job.key new.token", "expected node, operator or observer");
    run_refused("$bin/proteus keygen --role node --tier spot --key job.key new.token",
                "expected reliable, transient or feeder");
    run_refused("$bin/proteus keygen --role node new.token", "--role needs --key");
    run_refused("$bin/proteus keygen --role node --key job.key --lifetime soon new.token", "such as 90m, 12h or 7d");
    run_refused("$bin/proteus keygen --role node --key job.key node.token", "never overwritten");
    run_well("[ ! -e new.token ]; " BEGIN "begin --reliable 1 --transient 0; "
             "$bin/proteus keygen --role node --key job.key --lifetime 1s late.token && sleep 2; " SUM
             " --iterations 2 --controller=$at --tier=reliable --key late.token 2>refused; [ $? = 2 ] && "
             "grep -q 'has expired' refused || exit 10; " SUM
             " --iterations 2 --controller=$at --tier=reliable --key observer.token 2>refused; [ $? = 2 ] && "
             "grep -q 'does not allow REGISTER' refused || exit 11; "
             "kill $controller; wait $controller; true");
}

int main(void) {
    return tests_run(set_up, files_close);
}
