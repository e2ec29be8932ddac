/* --listen and --advertise with different addresses, in jobs of real processes. Nodes and a controller listen at all
 * addresses of the machine and advertise a certain one. */
#include "tests/cluster/shell.h"
#include "tests/test.h"

#include "agileml.h"

#define SUM        "$tests/sum_app --data ratings.csv"
#define CONTROLLER "rm -f says; { $bin/proteus controller --insecure --reliable 2 --transient 0 --report report "
#define STARTED                                                                                                        \
    ">says 2>log & } && while ! grep -q nodes says; do sleep 0.05; done; read -r listening on at more <says; "         \
    "port=${at##*:}; "
#define NODE                                                                                                           \
    "node() { timeout 300 " SUM " --slow-us 20000 --iterations $1 --controller=tcp://127.0.0.1:$port --tier=reliable " \
    "--listen 0.0.0.0 --advertise $2 --insecure; }; "

/* Each node has connections to the address that the other node advertises. The kernel shows addresses in
 * hexadecimal. */
TEST(nodes) {
    run_well(CONTROLLER "--listen tcp://127.0.0.1:0 " STARTED NODE
                        "node 100000 127.9.8.1 & one=$!; node 100000 127.9.8.2 & two=$!; "
                        "for a in 1 2; do until grep -q \" 0${a}08097F:\" /proc/net/tcp; do "
                        "kill -0 $one && kill -0 $two && sleep 0.05 || exit 1; done; done; "
                        "until grep -q type.*:.iteration. report; do sleep 0.05; done; "
                        "$bin/proteus stop --controller $at --insecure && wait $one && wait $two");
}

TEST(a_controller) {
    run_well(CONTROLLER "--listen tcp://0.0.0.0:0 --advertise 127.9.8.3 " STARTED
                        "[ ${at%%:*} = tcp://127.9.8.3 ] && " NODE
                        "node 2 127.0.0.1 & one=$!; node 2 127.0.0.1 && wait $one");
}

TEST(joined_nodes) {
    run_well(CONTROLLER "--listen tcp://[::]:0 --advertise [::1] " STARTED
                        "$bin/proteus join --controller=$at --tier=reliable --count=2 --listen [::] --advertise [::1] "
                        "--insecure -- " SUM " --iterations 2");
}

TEST(refused) {
#define NODE_OF SUM " --controller tcp://127.0.0.1:9 --insecure "
    static const char *const cases[][2] = {
        {NODE_OF "--listen 0.0.0.0", "other nodes can't reach that; expected this machine's address, or --advertise"},
        {NODE_OF "--listen [::]", "--advertise HOST"},
        {NODE_OF "--listen '*'", "--advertise HOST"},
        {NODE_OF "--listen 0.0.0.0 --advertise 0.0.0.0", "--advertise 0.0.0.0: others can't connect to that"},
        {NODE_OF "--listen 0.0.0.0 --advertise 127.0.0.1:80",
         "--advertise 127.0.0.1:80: expected a host without a port"},
        {NODE_OF "--listen [::] --advertise [::1]:80", "--advertise [::1]:80: expected a host without a port"},
        {NODE_OF "--listen 0.0.0.0 --advertise localhost:80", "a node has several ports, chosen by the kernel"},
        {NODE_OF "--listen 0.0.0.0 --advertise ::1", "--advertise ::1: expected a host"},
        {"$bin/proteus controller --listen tcp://127.0.0.1:0 --advertise '[::]'", "--advertise [::]: others can't"},
        {"$bin/proteus controller --listen tcp://127.0.0.1:0 --advertise 127.0.0.1:99999", "expected a host"},
        {"$bin/proteus run --listen 0.0.0.0 --insecure -- " SUM, "--listen 0.0.0.0: other machines can't reach that"},
        {"$bin/proteus run --listen tcp://127.0.0.1:80 -- " SUM, "--listen tcp://127.0.0.1:80: expected a host alone"},
        {"$bin/proteus join --controller tcp://127.0.0.1:9 --tier reliable --listen 127.0.0.1:80 --insecure -- " SUM,
         "--listen 127.0.0.1:80: expected a host alone"},
        {NODE_OF "--listen ::1 --advertise 127.0.0.1", "--listen ::1: expected a host alone"},
        {NODE_OF "--listen 127.0.0.256", "--listen 127.0.0.256: expected a host: "},
        {"$bin/proteus run -- " SUM " --advertise 127.0.0.1", "--advertise belongs to 'proteus run'"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        run_refused(cases[c][0], cases[c][1]);
    }
}

int main(void) {
    return tests_run(shell_open_with_ratings, files_close);
}
