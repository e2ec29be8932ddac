/* Mistakes of operators: in the configuration, files, environment, credentials, network and cloud. Each mistake is a
 * row: how a good setup is changed, which command finds it, and the words of the one line that reports it. All rows
 * share one spotmarket as the cloud. */

#include "agileml/base/clock.h"
#include "tests/cluster/shell.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 60 * 1000, POLL_MS = 20, WORDS_MAX = 5 };

static char market[128];     /* spotmarket's URL */
static char silent[64];      /* an address that accepts connections and never answers */
static char controller[128]; /* the controller of a job with a key */
static json_t *good;         /* the configuration that all rows change */

/* ---- The good setup ---- */

/* Waits until the file contains `text`. Copies what follows it on that line. */
static void wait_for(const char *file, const char *text, char *rest, size_t size) {
    for (int waited = 0;; waited += POLL_MS) {
        char *all = read_text(file);
        char *at = strstr(all, text);
        if (at != NULL && strchr(at, '\n') != NULL) {
            snprintf(rest, size, "%.*s", (int)strcspn(at + strlen(text), " \n"), at + strlen(text));
            free(all);
            return;
        }
        if (waited > WAIT_MS) {
            fail_msg("no '%s' in %s: %s", text, file, all);
        }
        free(all);
        clock_pause_ms(POLL_MS);
    }
}

static void write_file(const char *name, const char *text) {
    FILE *file = open_file(name, "w");
    fputs(text, file);
    fclose(file);
}

/* m3.large is sold in us-east-1a, c3.xlarge in a and b, c4.large nowhere. */
static void write_inputs(void) {
    run_well("mkdir prices && cd prices && printf 'timestamp_utc,price_usd\\n2016-02-25T00:00:00Z,0.05\\n' >one && "
             "cp one m3.large-us-east-1a.csv && cp one c3.xlarge-us-east-1a.csv && cp one c3.xlarge-us-east-1b.csv && "
             "rm one && printf 'type,price\\nm3.large,cheap\\n' >../broken.csv");
    write_file("credentials", "[default]\naws_access_key_id = AKIDTEST\naws_secret_access_key = secret\n"
                              "[looker]\naws_access_key_id = AKIDLOOKER\naws_secret_access_key = secret\n"
                              "[launcher]\naws_access_key_id = AKIDLAUNCHER\naws_secret_access_key = secret\n"
                              "[blind]\naws_access_key_id = AKIDBLIND\naws_secret_access_key = secret\n");
    write_file("roles", "{\"user/looker\": [\"Describe*\", \"TerminateInstances\"],\n"
                        " \"user/launcher\": [\"Describe*\", \"RunInstances\"],\n"
                        " \"user/blind\": [\"RunInstances\", \"TerminateInstances\", \"DescribeSpot*\", "
                        "\"DescribeImages\", \"DescribeSubnets\", \"DescribeSecurityGroups\"]}\n");
    write_file("resources",
               "{\"images\": [\"ami-12345678\"], \"key_pairs\": [\"me\"], \"instance_profiles\": [\"node\"],\n"
               " \"security_groups\": {\"sg-1\": \"vpc-1\", \"sg-2\": \"vpc-2\"},\n"
               " \"subnets\": {\"subnet-a\": {\"zone\": \"us-east-1a\", \"vpc\": \"vpc-1\"},\n"
               "             \"subnet-b\": {\"zone\": \"us-east-1b\", \"vpc\": \"vpc-1\"}}}\n");
    run_well("chmod 600 credentials; $bin/proteus keygen job.key; $bin/proteus keygen other.key; "
             "$bin/proteus keygen --role node --key job.key a.token; cp job.key open.key; chmod 644 open.key; "
             "printf 'no key\\n' >no.key; chmod 600 no.key");
    run_well("printf '#!/bin/sh\\n\\nexec ${binary} --controler ${controler}\\n' >typo.sh; "
             "{ echo '#!/bin/sh'; head -c 20000 /dev/zero | tr '\\0' '#'; } >long.sh; "
             "printf '{\"c9.large\": {\"vcpus\": 2,\\n' >broken.json; printf 'no state of anything' >garbage.db; "
             "printf '[default\\naws_access_key_id = A\\n' >broken-credentials; touch file");
}

static void start_cloud(void) {
    run_well("$bin/spotmarket --prices prices --credentials credentials --roles roles --resources resources --folder "
             "cloud --start 2016-03-01T00:00:00Z --model ec2 >market-out 2>&1 & echo $! >market.pid");
    run_well(
        "$bin/proteus controller --listen tcp://127.0.0.1:0 --reliable 1 --transient 0 --partitions 4 --key job.key "
        ">ctl-out 2>&1 & echo $! >ctl.pid");
    wait_for("market-out", "spotmarket at ", market, sizeof market);
    wait_for("ctl-out", "listening on ", controller, sizeof controller);
}

/* The kernel accepts connections for a listening socket; this program never serves them. */
static void listen_silently(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 64), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    snprintf(silent, sizeof silent, "http://127.0.0.1:%d", ntohs(address.sin_port));
}

static void make_good(void) {
    char clock[sizeof market + 8];
    snprintf(clock, sizeof clock, "%s/clock", market);
    good = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:{s:[s,s], s:[s,s]}, s:{s:s, s:{s:s, s:s}, s:[s], s:s, s:s}, s:{s:s, s:s}, s:s, "
        "s:s, s:{s:s}, s:{s:i}}",
        "job", "test", "provider", "ec2", "region", "us-east-1", "endpoint", market, "clock", clock, "markets", "types",
        "m3.large", "c3.xlarge", "zones", "us-east-1a", "us-east-1b", "launch", "image", "ami-12345678", "subnets",
        "us-east-1a", "subnet-a", "us-east-1b", "subnet-b", "security_groups", "sg-1", "key_name", "me",
        "instance_profile", "node", "node", "app", "mf", "binary", "/bin/true", "controller", controller, "key",
        "job.key", "on_demand", "type", "m3.large", "limits", "most_vcpus", 8);
    assert_non_null(good);
}

static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    write_inputs();
    start_cloud();
    listen_silently();
    make_good();
    return 0;
}

static int tear_down(void **state) {
    json_decref(good);
    (void)run("kill -KILL $(cat ctl.pid); p=$(cat market.pid); kill -TERM $p; "
              "while grep -q '^State:.[^ZX]' /proc/$p/status; do sleep 0.02; done");
    return files_close(state);
}

/* ---- The mistakes ---- */

/* The command that finds the mistake. */
enum finder {
    CHECK,  /* check-config, with status 2 */
    ONLINE, /* check-config --online, with status 2 */
    DOUBTS, /* check-config: a warning, as it may be intended, and status 0 */
    WARNS,  /* check-config --online: a warning, and status 0 */
    RUN,    /* run, which ends with status 2 */
    WAITS,  /* run, which continues until SIGTERM and then ends with status 0 */
};

struct mistake {
    const char *name;
    enum finder finder;
    const char *key;   /* the changed key of the configuration, "a.b"; NULL: none */
    const char *value; /* its new JSON value; NULL: the key is removed */
    const char *words[WORDS_MAX];
    const char *prepare;     /* a shell command after the configuration was written; NULL: none */
    const char *environment; /* replaces the good credentials; NULL: does not */
    const char *arguments;   /* additional arguments of the command; NULL: none */
    bool slow;               /* the command waits for an answer that never comes */
};

static const struct mistake MISTAKES[] = {
    /* The text of the configuration. */
    {"no configuration", CHECK, NULL, NULL, .words = {"bidbrain.json: No such file"}, .prepare = "rm bidbrain.json"},
    {"a folder", CHECK, NULL, NULL, .words = {"bidbrain.json: "}, .prepare = "rm bidbrain.json; mkdir bidbrain.json"},
    {"an empty file", CHECK, NULL, NULL, .words = {"bidbrain.json:1: "}, .prepare = ": >bidbrain.json"},
    {"a comma too many", CHECK, NULL, NULL, .words = {"bidbrain.json:", ": "},
     .prepare = "sed -i 's/}$/,}/' bidbrain.json"},
    {"a key twice", CHECK, NULL, NULL, .words = {"bidbrain.json:", "uplicate"},
     .prepare = "sed -i '1s/{/{\"job\": \"x\",/' bidbrain.json"},
    {"a mistyped key", CHECK, "limits.most_vcpu", "8", .words = {"limits.most_vcpu: unknown key", "\"most_vcpus\""}},
    {"a missing key", CHECK, "controller", NULL, .words = {"controller: is missing"}},
    {"a text for a number", CHECK, "limits.most_vcpus", "\"8\"", .words = {"limits.most_vcpus: expected a number"}},
    {"half a machine", CHECK, "limits.most_machines", "1.5",
     .words = {"limits.most_machines: expected a whole number"}},
    {"a text for a list", CHECK, "markets.types", "\"m3.large\"", .words = {"markets.types: expected a list"}},
    {"another cloud", CHECK, "provider", "\"gce\"", .words = {"provider: expected one of \"ec2\", \"local\""}},
    {"an unknown model", CHECK, "model", "\"ec2-2020\"", .words = {"model: expected one of"}},
    {"a job's name with a blank", CHECK, "job", "\"my job\"", .words = {"job: expected at most 40 letters"}},
    /* Limits. */
    {"a negative budget", CHECK, "limits.budget_dollars", "-1",
     .words = {"limits.budget_dollars: expected a number from 0"}},
    {"no vCPUs", CHECK, "limits.most_vcpus", "0", .words = {"limits.most_vcpus: expected a number from 1"}},
    {"fewer vCPUs than a machine has", CHECK, "limits.most_vcpus", "1",
     .words = {"limits.most_vcpus: 1 ", "2 vCPUs of m3.large", "nothing could be bought"}},
    {"more markets than there are", CHECK, "limits", "{\"most_vcpus\": 64, \"least_markets\": 7}",
     .words = {"limits.least_markets: 7", "markets has 4"}},
    {"a rate below the reliable machines'", CHECK, "limits.most_dollars_per_hour", "0.05",
     .words = {"limits.most_dollars_per_hour: $0.05", "1 x m3.large on demand at $0.133"}},
    {"a budget below their first hour", CHECK, "limits.budget_dollars", "0.1",
     .words = {"limits.budget_dollars: $0.1", "m3.large"}},
    /* Places and types. */
    {"a mistyped region", CHECK, "region", "\"us-esat-1\"", .words = {"region: 'us-esat-1'", "us-east-1"}},
    {"a region of nowhere", CHECK, "markets.zones", "[\"us-esat-1a\"]", .words = {"region: 'us-east-1'", "us-esat-1"}},
    {"a zone of another region", CHECK, "markets.zones", "[\"us-east-1a\", \"us-west-2a\"]",
     .words = {"markets.zones[1]: 'us-west-2a' is no zone of region us-east-1"}},
    {"a region for a zone", CHECK, "markets.zones", "[\"us-east-1\"]",
     .words = {"markets.zones[0]: 'us-east-1' is no zone", "us-east-1a"}},
    {"reliable machines elsewhere", CHECK, "on_demand.zone", "\"eu-west-1a\"",
     .words = {"on_demand.zone: 'eu-west-1a' is no zone of region us-east-1"}},
    {"a subnet for another region's zone", CHECK, "launch.subnets.us-west-2a", "\"subnet-c\"",
     .words = {"launch.subnets.us-west-2a: 'us-west-2a' is no zone of region us-east-1"}},
    {"a mistyped type", CHECK, "markets.types", "[\"m3.lagre\"]",
     .words = {"markets.types[0]: 'm3.lagre'", "mean m3.large?"}},
    {"a burstable type", CHECK, "markets.types", "[\"m3.large\", \"t2.large\"]",
     .words = {"markets.types[1]: 't2.large' is never bought", "burstable"}},
    {"a type that limits leave out", CHECK, "markets.types", "[\"m3.large\", \"m3.medium\"]",
     .words = {"markets.types[1]: 'm3.medium' is never bought", "1 vCPUs", "limits.vcpus_min is 2"}},
    {"an unknown reliable type", CHECK, "on_demand.type", "\"c9.large\"",
     .words = {"on_demand.type: 'c9.large'", "\"catalog\""}},
    /* What machines are launched with. */
    {"no image", CHECK, "launch.image", NULL, .words = {"launch.image: is missing"}},
    {"a name for an image", CHECK, "launch.image", "\"debian-12\"",
     .words = {"launch.image: 'debian-12'", "(ami-...)"}},
    {"a name for a security group", CHECK, "launch.security_groups", "[\"default\"]",
     .words = {"launch.security_groups[0]: 'default'", "(sg-...)"}},
    {"a VPC for a subnet", CHECK, "launch.subnets.us-east-1a", "\"vpc-1\"",
     .words = {"launch.subnets.us-east-1a: 'vpc-1'", "(subnet-...)"}},
    {"a fleet without a template", CHECK, "launch.call", "\"create-fleet\"",
     .words = {"launch.launch_template: is missing"}},
    {"a program by a relative path", CHECK, "node.binary", "\"mf\"", .words = {"node.binary: expected s3://"}},
    {"bidbrain's own argument", CHECK, "node.arguments", "[\"--tier\", \"reliable\"]",
     .words = {"node.arguments: --tier"}},
    {"a start script that is not there", CHECK, "launch.user_data", "\"none.sh\"",
     .words = {"launch.user_data: none.sh: No such file"}},
    {"a mistyped name in it", CHECK, "launch.user_data", "\"typo.sh\"",
     .words = {"launch.user_data: typo.sh: ", "line 3", "${controler}"}},
    {"a start script that is too long", CHECK, "launch.user_data", "\"long.sh\"",
     .words = {"launch.user_data: ", "16384 bytes"}},
    /* Files. */
    {"a key that is not there", CHECK, "key", "\"none.key\"", .words = {"key: none.key: ", "No such file"}},
    {"a key that others can read", CHECK, "key", "\"open.key\"",
     .words = {"key: open.key: ", "mode 0644", "mode 0600"}},
    {"a token for the key", CHECK, "key", "\"a.token\"", .words = {"key: a.token: a token, expected the job's key"}},
    {"no key at all", CHECK, "key", "\"no.key\"", .words = {"key: no.key: "}},
    {"a catalog that is not there", CHECK, "catalog", "\"none.json\"", .words = {"catalog: none.json: No such file"}},
    {"a broken catalog", CHECK, "catalog", "\"broken.json\"", .words = {"catalog: broken.json:2: "}},
    {"prices that are not there", CHECK, "prices", "\"none.csv\"", .words = {"prices: none.csv: No such file"}},
    {"broken prices", CHECK, "prices", "\"broken.csv\"", .words = {"prices: broken.csv"}},
    {"prices of other types", CHECK, "markets.types", "[\"c4.large\"]",
     .words = {"prices: prices: of its 3 markets none"},
     .prepare = "sed -i '1s/{/{\"prices\": \"prices\",/' bidbrain.json"},
    {"interruptions of nothing known", CHECK, "interruptions", "\"often\"",
     .words = {"interruptions: ", "advisor:FILE"}},
    {"interruptions of a file that is not there", CHECK, "interruptions", "\"advisor:none\"",
     .words = {"interruptions: none"}},
    {"a state in no folder", CHECK, "state", "\"none/state.db\"",
     .words = {"state: none/state.db", "none: No such file"}},
    {"a state in a file", CHECK, "state", "\"file/state.db\"", .words = {"state: file/state.db", "file is no folder"}},
    {"a state that is none", CHECK, "state", "\"garbage.db\"", .words = {"state: garbage.db: ", "not a state file"}},
    {"a folder for the state", CHECK, "state", "\"prices\"", .words = {"state: prices is no file"}},
    /* Addresses. */
    {"a controller without tcp://", CHECK, "controller", "\"10.0.0.1:7000\"",
     .words = {"controller: expected tcp://HOST:PORT"}},
    {"a controller without a port", CHECK, "controller", "\"tcp://10.0.0.1\"",
     .words = {"controller: ", "tcp://10.0.0.1"}},
    {"a controller of no such name", CHECK, "controller", "\"tcp://no-such-host.invalid:7000\"",
     .words = {"controller: ", "no-such-host.invalid"}},
    {"no key for a controller elsewhere", CHECK, "key", NULL, .words = {"key: is missing", "on another machine"},
     .prepare = "sed -i 's|tcp://[^\"]*|tcp://10.0.0.1:7000|' bidbrain.json"},
    {"plain http to another machine", CHECK, "endpoint", "\"http://ec2.us-east-1.amazonaws.com\"",
     .words = {"endpoint: ", "plain http", "expected https"}},
    {"plain http by the environment", CHECK, "endpoint", NULL,
     .words = {"endpoint: ", "http://10.0.0.1", "expected https"},
     .environment = "AWS_SHARED_CREDENTIALS_FILE=credentials AWS_ENDPOINT_URL_EC2=http://10.0.0.1"},
    {"an endpoint that is no URL", CHECK, "endpoint", "\"ec2\"", .words = {"endpoint: 'ec2' is not an endpoint"}},
    {"a clock that is no URL", CHECK, "clock", "\"utc\"", .words = {"clock: expected http"}},
    {"a clock of its own with ec2", CHECK, "clock", "{\"start\": \"2016-03-01T00:00:00Z\"}",
     .words = {"clock: expected a URL"}},
    /* Credentials. */
    {"a profile that is not there", CHECK, NULL, NULL, .words = {"credentials: ", "nobody"},
     .environment = "AWS_SHARED_CREDENTIALS_FILE=credentials AWS_PROFILE=nobody"},
    {"a broken file of credentials", CHECK, NULL, NULL, .words = {"credentials: ", "broken-credentials"},
     .environment = "AWS_SHARED_CREDENTIALS_FILE=broken-credentials"},
    {"half of the keys", CHECK, NULL, NULL, .words = {"credentials: ", "AWS_SECRET_ACCESS_KEY"},
     .environment = "AWS_ACCESS_KEY_ID=AKIDTEST"},
    {"no credentials", ONLINE, NULL, NULL, .words = {"credentials: no credentials"},
     .environment = "AWS_SHARED_CREDENTIALS_FILE=none"},
    {"a wrong secret", ONLINE, NULL, NULL, .words = {"credentials: ", "the signature was not accepted"},
     .environment = "AWS_ACCESS_KEY_ID=AKIDTEST AWS_SECRET_ACCESS_KEY=wrong"},
    {"an unknown access key", ONLINE, NULL, NULL, .words = {"credentials: ", "AuthFailure"},
     .environment = "AWS_ACCESS_KEY_ID=AKIDOTHER AWS_SECRET_ACCESS_KEY=secret"},
    /* Network and time. */
    {"nothing at the endpoint", ONLINE, "endpoint", "\"http://127.0.0.1:9\"",
     .words = {"endpoint: http://127.0.0.1:9"}},
    {"an endpoint of no such name", ONLINE, "controller", "\"tcp://10.0.0.1:7000\"",
     .words = {"endpoint: https://no-such-host.invalid/", "resolve host"},
     .prepare = "sed -i 's|\"endpoint\": \"[^\"]*\"|\"endpoint\": \"https://no-such-host.invalid\"|; "
                "s|\"clock\": \"[^\"]*\", ||' bidbrain.json"},
    {"a controller that each machine takes for itself", DOUBTS, "endpoint", "\"https://no-such-host.invalid\"",
     .words = {"controller: tcp://127.0.0.1", "is each machine itself"}},
    {"a zone without a subnet", DOUBTS, "launch.subnets.us-east-1b", NULL,
     .words = {"launch.subnets: none for us-east-1b", "default subnet"}},
    {"an endpoint that is silent", ONLINE, NULL, NULL, .slow = true,
     .words = {"endpoint: EC2 has not answered within 5 s"},
     .prepare = "sed -i \"s|\\\"endpoint\\\": \\\"[^\\\"]*\\\"|\\\"endpoint\\\": \\\"$silent\\\"|\" $config"},
    {"nothing at the clock", ONLINE, "clock", "\"http://127.0.0.1:9/clock\"", .slow = true,
     .words = {"clock: no answer from http://127.0.0.1:9"}},
    {"the wrong page for a clock", ONLINE, NULL, NULL, .words = {"clock: ", "status 404"},
     .prepare = "sed -i 's|/clock|/time|' bidbrain.json"},
    {"a computer's clock that is minutes late", ONLINE, NULL, NULL,
     .words = {"time of this computer: ", "s behind EC2's", "expected less than 60 s"},
     .prepare = "curl -sf -H @cloud/authorization -d '{\"spec\": \"clock=400\"}' $market/faults"},
    {"a computer's clock that is a minute early", WARNS, NULL, NULL,
     .words = {"time of this computer: ", "s ahead of EC2's"},
     .prepare = "curl -sf -H @cloud/authorization -d '{\"spec\": \"clock=-100\"}' $market/faults"},
    /* What exists in the cloud. */
    {"an image that is not there", ONLINE, "launch.image", "\"ami-87654321\"",
     .words = {"launch.image: ", "InvalidAMIID.NotFound", "ami-87654321"}},
    {"a subnet that is not there", ONLINE, "launch.subnets.us-east-1b", "\"subnet-x\"",
     .words = {"launch.subnets.us-east-1b: ", "InvalidSubnetID.NotFound", "subnet-x"}},
    {"a subnet in another zone", ONLINE, "launch.subnets.us-east-1b", "\"subnet-a\"",
     .words = {"launch.subnets.us-east-1b: 'subnet-a' is in us-east-1a"}},
    {"a security group that is not there", ONLINE, "launch.security_groups", "[\"sg-1\", \"sg-9\"]",
     .words = {"launch.security_groups[1]: ", "InvalidGroup.NotFound", "sg-9"}},
    {"a security group of another VPC", ONLINE, "launch.security_groups", "[\"sg-2\"]",
     .words = {"launch.security_groups[0]: 'sg-2' is of vpc-2, the subnets are of vpc-1"}},
    {"a key pair that is not there", ONLINE, "launch.key_name", "\"you\"",
     .words = {"launch: ", "InvalidKeyPair.NotFound", "'you'"}},
    {"an instance profile that is not there", ONLINE, "launch.instance_profile", "\"nodes\"",
     .words = {"launch: ", "Invalid IAM Instance Profile name", "nodes"}},
    {"a launch template that is not there", ONLINE, "launch.call", "\"create-fleet\"",
     .words = {"launch.launch_template: ", "InvalidLaunchTemplateName.NotFoundException", "fleet-of-mine"},
     .prepare = "sed -i 's|\"call\"|\"launch_template\": \"fleet-of-mine\", \"call\"|' bidbrain.json"},
    {"a product of which nothing is sold", ONLINE, "markets.product", "\"Linux\"",
     .words = {"markets.product: ", "'Linux'", "Linux/UNIX"}},
    {"a type that is not sold there", ONLINE, "markets.types", "[\"c3.xlarge\", \"c4.large\"]",
     .words = {"markets.types: 'c4.large' has no spot price"}},
    {"a zone where nothing is sold", ONLINE, "markets.types", "[\"m3.large\"]",
     .words = {"markets.zones: ", "'us-east-1b'"}},
    {"another region's endpoint", ONLINE, "region", "\"us-west-2\"",
     .words = {"credentials: ", "the signature was not accepted", "an endpoint of region us-west-2"},
     .prepare = "sed -i 's/us-east-1/us-west-2/g' bidbrain.json"},
    /* Rights. */
    {"no right to launch", ONLINE, NULL, NULL,
     .words = {"rights: RunInstances: UnauthorizedOperation", "expected a policy"},
     .environment = "AWS_SHARED_CREDENTIALS_FILE=credentials AWS_PROFILE=looker"},
    {"no right to list", ONLINE, NULL, NULL,
     .words = {"rights: DescribeInstances: UnauthorizedOperation", "expected a policy"},
     .environment = "AWS_SHARED_CREDENTIALS_FILE=credentials AWS_PROFILE=blind"},
    {"no right to terminate", WARNS, NULL, NULL,
     .words = {"rights: TerminateInstances: UnauthorizedOperation", "given back"},
     .environment = "AWS_SHARED_CREDENTIALS_FILE=credentials AWS_PROFILE=launcher"},
    /* Machines that are local processes. */
    {"a program that is not there", CHECK, "node.binary", "\"/none/mf\"",
     .words = {"node.binary: /none/mf: No such file"},
     .prepare = "sed -i 's|\"ec2\"|\"local\", \"prices\": \"prices\"|; s|\"clock\": \"[^\"]*\", ||' bidbrain.json"},
    {"no prices to offer", CHECK, "provider", "\"local\"", .words = {"prices: is missing"}},
    /* What only `run` finds. */
    {"no configuration to run", RUN, NULL, NULL, .words = {"none.json: No such file"},
     .arguments = "--config none.json"},
    {"a mistyped option", RUN, NULL, NULL, .words = {"--dry-rnu", "--dry-run"}, .arguments = "--dry-rnu"},
    {"a report in no folder", RUN, NULL, NULL, .words = {"--report none/report", "No such file"},
     .arguments = "--report none/report"},
    {"several mistakes at once", RUN, "limits", "{\"most_vcpus\": 0, \"budget_dollars\": -1}",
     .words = {"limits.most_vcpus: ", "(and 1 more: 'bidbrain check-config' lists all)"}},
    {"a state of another job", RUN, "job", "\"another\"", .words = {"made.db: ", "job 'test'"},
     .prepare = "sed -i 's/bidbrain.db/made.db/' $config"},
    {"a state in no folder", RUN, "state", "\"none/state.db\"", .words = {"state: none/state.db"}},
    {"nothing where the controller should be", WAITS, "controller", "\"tcp://127.0.0.1:9\"",
     .words = {"waiting for the controller at tcp://127.0.0.1:9"}},
    {"another job's key", WAITS, "key", "\"other.key\"", .words = {"tcp://127.0.0.1", "refused the handshake"}},
    {"no key for a job that has one", WAITS, "key", NULL, .words = {"refused the handshake", "--key"}},
    {"a wrong secret while it runs", WAITS, NULL, NULL, .words = {"Describe", "the signature was not accepted"},
     .environment = "AWS_ACCESS_KEY_ID=AKIDTEST AWS_SECRET_ACCESS_KEY=wrong"},
    {"a silent endpoint while it runs", WAITS, NULL, NULL,
     .words = {"neither prices nor machines", "within 5 s", "check-config --online"},
     .prepare = "sed -i \"s|\\\"endpoint\\\": \\\"[^\\\"]*\\\"|\\\"endpoint\\\": \\\"$silent\\\"|\" $config"},
    {"no credentials while it runs", WAITS, NULL, NULL, .words = {"Describe", "no credentials"},
     .environment = "AWS_SHARED_CREDENTIALS_FILE=none"},
    {"no right to list while it runs", WAITS, NULL, NULL, .words = {"DescribeInstances: UnauthorizedOperation"},
     .environment = "AWS_SHARED_CREDENTIALS_FILE=credentials AWS_PROFILE=blind"},
};
enum { MISTAKE_COUNT = sizeof MISTAKES / sizeof *MISTAKES };

/* ---- Making a mistake ---- */

/* Sets the value of "a.b.c" in the object, or removes it. */
static void change(json_t *config, const char *key, const char *value) {
    char name[64];
    const char *dot = strchr(key, '.');
    snprintf(name, sizeof name, "%.*s", dot != NULL ? (int)(dot - key) : (int)strlen(key), key);
    if (dot != NULL) {
        change(json_object_get(config, name), dot + 1, value);
    } else if (value == NULL) {
        assert_int_equal(json_object_del(config, name), 0);
    } else {
        json_t *json = json_loads(value, JSON_DECODE_ANY, NULL);
        assert_non_null(json);
        assert_int_equal(json_object_set_new(config, name, json), 0);
    }
}

/* Writes the mistake's configuration to NAME.json. Its other files are called NAME, too. */
static void make(const struct mistake *mistake, const char *name) {
    char path[64];
    json_t *config = json_deep_copy(good);
    snprintf(path, sizeof path, "%s.db", name);
    assert_int_equal(json_object_set_new(config, "state", json_string(path)), 0);
    if (mistake->key != NULL) {
        change(config, mistake->key, mistake->value);
    }
    FREED char *text = json_dumps(config, JSON_PRESERVE_ORDER);
    run_well("rm -rf %s.* %s-*", name, name);
    snprintf(path, sizeof path, "%s.json", name);
    write_file(path, text);
    json_decref(config);
    if (mistake->prepare != NULL) {
        run_well("market=%s; silent=%s; config=%s; %s", market, silent, path, mistake->prepare);
    }
}

/* ---- Finding a mistake ---- */

static bool has_words(const char *line, size_t length, const struct mistake *mistake) {
    for (size_t w = 0; w < WORDS_MAX && mistake->words[w] != NULL; w++) {
        const char *at = strstr(line, mistake->words[w]);
        if (at == NULL || at + strlen(mistake->words[w]) > line + length) {
            return false;
        }
    }
    return true;
}

/* Counts the text's lines that have the mistake's words; *lines: all lines. */
static unsigned count_told(const char *text, const struct mistake *mistake, unsigned *lines) {
    unsigned told = 0;
    *lines = 0;
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        told += has_words(line, length, mistake);
        *lines += length > 0;
        line += length + (line[length] == '\n');
    }
    return told;
}

static const char *environment_of(const struct mistake *mistake) {
    return mistake->environment != NULL ? mistake->environment : "AWS_SHARED_CREDENTIALS_FILE=credentials";
}

#define ENVIRONMENT                                                                                                    \
    "unset AWS_PROFILE AWS_REGION AWS_DEFAULT_REGION AWS_ENDPOINT_URL AWS_ENDPOINT_URL_EC2; "                          \
    "AWS_CONFIG_FILE=/dev/null AWS_EC2_METADATA_DISABLED=true"

/* Checks for one line and the end: an error and status 2, or a warning and status 0. */
static bool is_found(const struct mistake *mistake, const char *name) {
    static const char *const commands[] = {[CHECK] = "check-config %s.json",
                                           [DOUBTS] = "check-config %s.json",
                                           [ONLINE] = "check-config %s.json --online",
                                           [WARNS] = "check-config %s.json --online",
                                           [RUN] = "run --config %s.json"};
    char command[128];
    char file[64];
    unsigned lines;
    snprintf(command, sizeof command, commands[mistake->finder], name);
    snprintf(file, sizeof file, "%s.said", name);
    int status = run(ENVIRONMENT " %s timeout %d $bin/bidbrain %s %s >%s-out 2>%s", environment_of(mistake),
                     WAIT_MS / 1000, command, mistake->arguments != NULL ? mistake->arguments : "", file, file);
    FREED char *said = read_text(file);
    unsigned told = count_told(said, mistake, &lines);
    bool warns = mistake->finder == DOUBTS || mistake->finder == WARNS;
    bool found = status == (warns ? 0 : 2) && told == 1 && lines == 1 &&
                 strncmp(said, warns ? "bidbrain: warning: " : "bidbrain: error: ", 17) == 0;
    if (!found) {
        print_error("%s: status %d: %s\n", mistake->name, status, said);
    }
    return found;
}

static bool is_told(const struct mistake *mistake, const char *name) {
    make(mistake, name);
    bool told = is_found(mistake, name);
    if (mistake->prepare != NULL && strstr(mistake->prepare, "/faults") != NULL) {
        run_well("curl -sf -H @cloud/authorization -d '{\"spec\": \"\"}' %s/faults", market);
    }
    return told;
}

/* Starts the command for a mistake whose report takes long, beside other commands. */
static pid_t start_slow(size_t number) {
    char name[32];
    snprintf(name, sizeof name, "slow-%zu", number);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(is_told(&MISTAKES[number], name) ? 0 : 1);
    }
    return child;
}

static bool has_done_well(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- Mistakes found while bidbrain runs ---- */

/* Starts a bidbrain of the mistake's own. Its output goes to wait-N.out. */
static void start(size_t number) {
    char name[32];
    snprintf(name, sizeof name, "wait-%zu", number);
    make(&MISTAKES[number], name);
    run_well(ENVIRONMENT " %s timeout -s KILL %d $bin/bidbrain run --config %s.json >%s.out 2>&1 & echo $! >%s.pid",
             environment_of(&MISTAKES[number]), 2 * WAIT_MS / 1000, name, name, name);
}

/* Waits until the output has the mistake's words. Returns how often. */
static unsigned wait_until_told(size_t number) {
    char file[32];
    unsigned told = 0;
    unsigned lines;
    snprintf(file, sizeof file, "wait-%zu.out", number);
    for (int waited = 0; told == 0 && waited <= WAIT_MS; waited += POLL_MS) {
        FREED char *said = read_text(file);
        told = count_told(said, &MISTAKES[number], &lines);
        clock_pause_ms(POLL_MS);
    }
    return told;
}

/* Checks for one line, in either output, and the end after a signal. */
static bool is_told_and_ends(size_t number) {
    char file[32];
    unsigned lines;
    int ended = run("p=$(cat wait-%zu.pid); n=0; while grep -q '^State:.[^ZX]' /proc/$p/status; do sleep 0.02; "
                    "n=$((n + 1)); [ $n -lt %d ] || exit 1; done",
                    number, WAIT_MS / 20);
    snprintf(file, sizeof file, "wait-%zu.out", number);
    FREED char *said = read_text(file);
    bool found = count_told(said, &MISTAKES[number], &lines) == 1 && ended == 0 &&
                 strstr(said, "giving everything back") != NULL;
    if (!found) {
        print_error("%s: %s: %s\n", MISTAKES[number].name, ended == 0 ? "said" : "runs on", said);
    }
    return found;
}

/* ---- Tests ---- */

TEST(the_good_setup_is_good) {
    make(&(struct mistake){0}, "bidbrain");
    run_well(ENVIRONMENT " AWS_SHARED_CREDENTIALS_FILE=credentials $bin/bidbrain check-config bidbrain.json --online "
                         ">said-out 2>said");
    char *said = read_text("said");
    assert_string_equal(said, "");
    free(said);
    assert_text("said-out", "bidbrain.json is well");
    assert_text("said-out", "answers");
    run_well("[ ! -e bidbrain.db ]"); /* no state is made */
    run_well("curl -sf -H @cloud/authorization %s/bill | grep -q '\"instances\": \\[\\]'", market);
    run_well(
        "sed 's/\"region\": \"us-east-1\", //' bidbrain.json >by-zones.json; ! cmp -s bidbrain.json by-zones.json");
    run_well(ENVIRONMENT " AWS_SHARED_CREDENTIALS_FILE=credentials AWS_REGION=us-west-2 "
                         "$bin/bidbrain check-config by-zones.json --online"); /* the region follows from the zones */
    run_well("sed -i 's/bidbrain.db/made.db/; s|\"tcp:[^\"]*\"|\"tcp://127.0.0.1:9\"|' bidbrain.json");
    run_well(ENVIRONMENT
             " AWS_SHARED_CREDENTIALS_FILE=credentials $bin/bidbrain run --config bidbrain.json >said 2>&1 & "
             "p=$!; while ! grep -q waiting said && kill -0 $p; do sleep 0.02; done; kill $p; wait $p; "
             "[ -s made.db ]");
}

TEST(each_mistake_is_told_in_one_line) {
    unsigned untold = 0;
    pid_t slow[MISTAKE_COUNT];
    assert_true(MISTAKE_COUNT >= 50);
    for (size_t m = 0; m < MISTAKE_COUNT; m++) {
        slow[m] = MISTAKES[m].slow ? start_slow(m) : 0;
    }
    for (size_t m = 0; m < MISTAKE_COUNT; m++) {
        untold += !MISTAKES[m].slow && MISTAKES[m].finder != WAITS && !is_told(&MISTAKES[m], "bidbrain");
    }
    for (size_t m = 0; m < MISTAKE_COUNT; m++) {
        untold += MISTAKES[m].slow && !has_done_well(slow[m]);
    }
    assert_int_equal(untold, 0);
}

/* All of these run at the same time, each with a state of its own. */
TEST(each_mistake_is_told_while_it_runs) {
    unsigned untold = 0;
    for (size_t m = 0; m < MISTAKE_COUNT; m++) {
        if (MISTAKES[m].finder == WAITS) {
            start(m);
        }
    }
    for (size_t m = 0; m < MISTAKE_COUNT; m++) {
        if (MISTAKES[m].finder == WAITS) {
            (void)wait_until_told(m);
            run_well("kill -TERM $(cat wait-%zu.pid)", m);
        }
    }
    for (size_t m = 0; m < MISTAKE_COUNT; m++) {
        untold += MISTAKES[m].finder == WAITS && !is_told_and_ends(m);
    }
    assert_int_equal(untold, 0);
}

/* Runs bidbrain for all mistakes of finder WAITS at the same time, each with a state of its own. */
TEST(several_mistakes_are_told_at_once) {
    make(&(struct mistake){.prepare = "sed -i 's/ami-12345678/ami-9/; s/sg-1/sg-9/; s/subnet-b/subnet-9/; "
                                      "s/\"mf\"/\"mf\", \"threads\": 2/' bidbrain.json"},
         "bidbrain");
    assert_int_equal(run(ENVIRONMENT
                         " AWS_SHARED_CREDENTIALS_FILE=credentials $bin/bidbrain check-config bidbrain.json "
                         "--online >said-out 2>said"),
                     2);
    assert_text("said", "launch.image: ");
    assert_text("said", "launch.security_groups[0]: ");
    assert_text("said", "launch.subnets.us-east-1b: ");
    run_well("[ $(wc -l <said) = 3 ]");
    make(&(struct mistake){.prepare = "sed -i 's/\"mf\"/1/; s/\"job\"/\"jobs\"/' bidbrain.json"}, "bidbrain");
    assert_int_equal(run("$bin/bidbrain check-config bidbrain.json 2>said"), 2);
    run_well("[ $(wc -l <said) = 3 ]"); /* node.app, the unknown key, the missing key */
}

TEST(its_own_command_line_is_checked) {
    run_refused("$bin/bidbrain check-config", "expected 'bidbrain check-config FILE [--online]'");
    run_refused("$bin/bidbrain check-config --onlin bidbrain.json", "expected 'bidbrain check-config FILE [--online]'");
    run_refused("$bin/bidbrain check-config a b", "expected 'bidbrain check-config FILE [--online]'");
    run_well("$bin/bidbrain check-config --help | grep -q -- '--online'");
}

int main(void) {
    return tests_run(set_up, tear_down);
}
