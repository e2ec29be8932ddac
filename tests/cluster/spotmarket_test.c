/* spotmarket as a program. Machines are real processes and leave nothing behind, however they or the market end. Also
 * tests evictions by price with notice and bill, faults on the wire, requests that are not HTTP, and AWS's own command
 * line. A tag in the environment identifies processes. Time limits only end a hang. */

#include "agileml/base/clock.h"
#include "agileml/cloud/sigv4.h"
#include "agileml/net/http.h"
#include "tests/files.h"
#include "tests/test.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HANG_MS = 60 * 1000, POLL_MS = 10, ARGUMENTS_MAX = 40, FORM_MAX = 20000, TEXT_MAX = 1 << 20 };
#define KEY_ID "AKIDEXAMPLE"
#define SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define IN_A   "&Placement.AvailabilityZone=us-east-1a"
#define RUN    "Action=RunInstances&ImageId=ami-1&InstanceType=m3.large&MinCount=1" IN_A
#define SPOT   "&InstanceMarketOptions.MarketType=spot&InstanceMarketOptions.SpotOptions.MaxPrice=0.1"

static char tag[64];
static struct http *http;

static struct {
    pid_t pid;
    char url[100], folder[100];
} market;

/* ---- Files and processes ---- */

/* Returns a file's text in static memory; "" when there is no file. */
static const char *read_path(const char *path) {
    static char text[TEXT_MAX];
    FILE *file = fopen(path, "r");
    size_t size = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    text[size] = '\0';
    if (file != NULL) {
        fclose(file);
    }
    return text;
}

static bool has_tag(const char *pid) {
    char path[PATH_MAX];
    static char environment[1 << 16];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file >= 0 ? read(file, environment, sizeof environment) : -1;
    if (file >= 0) {
        close(file);
    }
    return size > 0 && memmem(environment, (size_t)size, tag, strlen(tag)) != NULL;
}

/* Counts the test's living processes: spotmarket itself, supervisors, and what machines run. */
static int tagged(void) {
    DIR *proc = opendir("/proc");
    int count = 0;
    assert_non_null(proc);
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        bool number = entry->d_name[0] >= '1' && entry->d_name[0] <= '9';
        count += number && strtol(entry->d_name, NULL, 10) != getpid() && has_tag(entry->d_name);
    }
    closedir(proc);
    return count;
}

/* Waits until `condition` holds. */
#define WAIT_FOR(condition)                                                                                            \
    do {                                                                                                               \
        for (int64_t limit_ = monotonic_ms() + HANG_MS; !(condition); clock_pause_ms(POLL_MS)) {                       \
            if (monotonic_ms() > limit_) {                                                                             \
                fail_msg("never came: %s", #condition);                                                                \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

/* ---- The market ---- */

/* Writes the prices. m3.large in us-east-1a: 2 cents from 2016-03-01 on, 40 cents from 00:10:00, 3 cents from 00:15:00;
 * c3.xlarge: 5 cents. */
static int set_up_all(void **unused) {
    if (files_open(unused) != 0 || http_open(&http, NULL) != 0) {
        return -1;
    }
    write_text("prices.csv", "us-east-1a,m3.large,Linux/UNIX,0.02,2016-03-01T00:00:00Z\n"
                             "us-east-1a,m3.large,Linux/UNIX,0.4,2016-03-01T00:10:00Z\n"
                             "us-east-1a,m3.large,Linux/UNIX,0.03,2016-03-01T00:15:00Z\n"
                             "us-east-1b,m3.large,Linux/UNIX,0.03,2016-02-29T00:00:00Z\n"
                             "us-east-1a,c3.xlarge,Linux/UNIX,0.05,2016-03-01T00:00:00Z\n");
    write_text("credentials", "[default]\naws_access_key_id = " KEY_ID "\naws_secret_access_key = " SECRET "\n");
    if (chmod("credentials", 0600) != 0) {
        return -1;
    }
    snprintf(tag, sizeof tag, "SPOTMARKET_TEST=%ld", (long)getpid());
    char *equals = strchr(tag, '=');
    *equals = '\0';
    setenv(tag, equals + 1, 1);
    *equals = '=';
    return 0;
}

static int tear_down_all(void **unused) {
    http_close(http);
    return files_close(unused);
}

static const char *program(void) {
    static char path[PATH_MAX];
    const char *programs = getenv("PROTEUS_BIN");
    snprintf(path, sizeof path, "%s/spotmarket", programs);
    return path;
}

/* Starts spotmarket with more options, NULL at the end, and waits until it serves. */
static void market_start(const char *const *more) {
    static int number;
    int ready[2];
    char descriptor[16];
    snprintf(market.folder, sizeof market.folder, "%s", in_folder("market"));
    snprintf(market.folder + strlen(market.folder), 8, "%d", number++);
    assert_int_equal(pipe(ready), 0);
    snprintf(descriptor, sizeof descriptor, "%d", ready[1]);
    const char *arguments[ARGUMENTS_MAX] = {program(),
                                            "--prices",
                                            in_folder("prices.csv"),
                                            "--credentials",
                                            in_folder("credentials"),
                                            "--folder",
                                            market.folder,
                                            "--start",
                                            "2016-03-01T00:00:00Z",
                                            "--ready-fd",
                                            descriptor};
    for (size_t i = 11; *more != NULL; i++, more++) {
        assert_true(i + 1 < ARGUMENTS_MAX);
        arguments[i] = *more;
    }
    market.pid = fork();
    if (market.pid == 0) {
        close(ready[0]);
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        execv(program(), (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    close(ready[1]);
    ssize_t size = read(ready[0], market.url, sizeof market.url - 1);
    close(ready[0]);
    assert_true(size > 0);
    market.url[size - 1] = '\0'; /* the newline */
}

#define START(...) market_start((const char *const[]){__VA_ARGS__, NULL})

/* Ends the market by the signal. Returns its exit status, or minus the signal that ended it. */
static int market_end(int signal) {
    int status;
    assert_int_equal(kill(market.pid, signal), 0);
    assert_int_equal(waitpid(market.pid, &status, 0), market.pid);
    market.pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int tear_down(void **unused) {
    if (market.pid > 0) {
        (void)market_end(SIGKILL);
    }
    for (int64_t limit = monotonic_ms() + HANG_MS; tagged() > 0 && monotonic_ms() < limit; clock_pause_ms(POLL_MS)) {
    }
    return tagged();
}

/* ---- Requests ---- */

static struct {
    int status;
    char body[TEXT_MAX];
} answer;

static void on_done(void *context, const struct http_answer *got) {
    answer.status = got->status;
    snprintf(answer.body, sizeof answer.body, "%s", got->status != 0 ? got->body : got->error);
}

static const char *fetch(const char *method, const char *path, const char *header, const char *body) {
    char url[600];
    snprintf(url, sizeof url, "%s%s", market.url, path);
    struct http_request request = {
        .method = method, .url = url, .headers = {header}, .body = body, .body_size = body != NULL ? strlen(body) : 0};
    http_run(http, http_start(http, &request, on_done, NULL));
    return answer.body;
}

/* Returns the header by which the market recognizes its owner. */
static const char *owner(void) {
    static char header[200];
    char path[200];
    snprintf(path, sizeof path, "%s/authorization", market.folder);
    const char *text = read_path(path);
    snprintf(header, sizeof header, "%.*s", (int)strcspn(text, "\n"), text);
    assert_true(strncmp(header, "Authorization: ", 15) == 0);
    return header;
}

/* Sends a signed EC2 call. Returns the answer. */
static const char *ask(const char *form) {
    static char body[2 * FORM_MAX];
    char date[SIGV4_DATE], url[120], date_header[60], line[1000];
    FREED char *authorization;
    snprintf(body, sizeof body, "%s&Version=2016-11-15", form);
    snprintf(url, sizeof url, "%s/", market.url);
    sigv4_date((int64_t)time(NULL), date);
    static int nonces;
    char nonce[20], nonce_header[60];
    snprintf(nonce, sizeof nonce, "%d", nonces++);
    struct sigv4_header headers[] = {{"host", market.url + strlen("http://")},
                                     {"x-amz-date", date},
                                     {"content-type", "application/x-www-form-urlencoded"},
                                     {"amz-sdk-invocation-id", nonce}};
    struct sigv4_request to_sign = {.method = "POST",
                                    .path = "/",
                                    .query = "",
                                    .headers = headers,
                                    .header_count = 4,
                                    .body = body,
                                    .body_size = strlen(body)};
    struct sigv4_scope scope = {.region = "us-east-1", .service = "ec2"};
    strcpy(scope.date, date);
    assert_int_equal(sigv4_authorization(&to_sign, &scope, KEY_ID, SECRET, &authorization, NULL), 0);
    snprintf(line, sizeof line, "authorization: %s", authorization);
    snprintf(date_header, sizeof date_header, "x-amz-date: %s", date);
    snprintf(nonce_header, sizeof nonce_header, "amz-sdk-invocation-id: %s", nonce);
    struct http_request request = {
        .method = "POST",
        .url = url,
        .headers = {"content-type: application/x-www-form-urlencoded", nonce_header, date_header, line},
        .body = body,
        .body_size = strlen(body)};
    http_run(http, http_start(http, &request, on_done, NULL));
    return answer.body;
}

static const char *asked(const char *form) {
    const char *text = ask(form);
    if (answer.status != 200) {
        fail_msg("%.200s: %d %s", form, answer.status, text);
    }
    return text;
}

static char *element(const char *text, const char *name, char value[100]) {
    char open[60];
    snprintf(open, sizeof open, "<%s>", name);
    const char *begin = strstr(text, open);
    assert_non_null(begin);
    begin += strlen(open);
    snprintf(value, 100, "%.*s", (int)strcspn(begin, "<"), begin);
    return value;
}

/* Returns `script` as a form's parameter in base64. */
static const char *user_data(const char *script) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char form[FORM_MAX];
    size_t size = strlen(script);
    size_t at = (size_t)snprintf(form, sizeof form, "&UserData=");
    for (size_t i = 0; i < size; i += 3) {
        uint32_t bits = 0;
        for (size_t b = 0; b < 3; b++) {
            bits = bits << 8 | (i + b < size ? (unsigned char)script[i + b] : 0);
        }
        for (size_t c = 0; c < 4; c++) {
            bool padding = i + c > size;
            char digit = padding ? '=' : digits[bits >> (18 - 6 * c) & 63];
            at += (size_t)snprintf(form + at, sizeof form - at, strchr("+/=", digit) != NULL ? "%%%02X" : "%c", digit);
        }
    }
    return form;
}

/* Launches machines. Returns the first machine's id. */
static char *launch(const char *more, const char *script, char id[100]) {
    static char form[FORM_MAX + 400];
    snprintf(form, sizeof form, RUN "%.200s%s", more, user_data(script));
    return element(asked(form), "instanceId", id);
}

static bool says(const char *id, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s/console.log", market.folder, id);
    return strstr(read_path(path), text) != NULL;
}

/* Whether the machine is in the state. */
static bool in_state(const char *id, const char *state) {
    char form[200], name[60];
    snprintf(form, sizeof form, "Action=DescribeInstances&InstanceId.1=%s", id);
    snprintf(name, sizeof name, "<name>%s</name>", state);
    return strstr(asked(form), name) != NULL;
}

/* A script whose processes hide as well as they can: in the background, in their own sessions, without a parent. */
static const char HIDING[] = "#!/bin/sh\n"
                             "sleep 1000 &\n"
                             "(setsid sleep 1001 &)\n"
                             "(setsid sh -c 'trap \"\" TERM HUP INT; sleep 1002; sleep 1003' &)\n"
                             "echo started\n"
                             "exec sleep 1004\n";

/* A script that prints where its metadata is. */
#define ENDPOINT_SAID "#!/bin/sh\necho \"endpoint $AWS_EC2_METADATA_SERVICE_ENDPOINT \"\n"

/* Returns the path that the script printed. */
static const char *metadata_of(const char *id, char path[300]) {
    char console[300], beginning[120];
    snprintf(console, sizeof console, "%s/%s/console.log", market.folder, id);
    WAIT_FOR(says(id, " \n"));
    snprintf(beginning, sizeof beginning, "endpoint %s", market.url);
    const char *said = strstr(read_path(console), beginning);
    assert_non_null(said);
    snprintf(path, 300, "%.*s", (int)strcspn(said + strlen(beginning), " "), said + strlen(beginning));
    return path;
}

/* ---- Tests ---- */

static void test_terminated_machines_are_gone(void **unused) {
    char id[100], other[100], form[200];
    START("--model", "ec2");
    launch("&MaxCount=1" SPOT, HIDING, id);
    launch("&MaxCount=1", HIDING, other);
    WAIT_FOR(says(id, "started") && says(other, "started"));
    WAIT_FOR(tagged() == 1 + 2 * 6); /* the market; for each machine a supervisor, the script and its four processes */
    snprintf(form, sizeof form, "Action=TerminateInstances&InstanceId.1=%s", id);
    (void)asked(form);
    WAIT_FOR(tagged() == 1 + 6);
    assert_true(in_state(other, "running"));
    WAIT_FOR(in_state(id, "terminated"));
    assert_int_equal(market_end(SIGTERM), 0);
    assert_int_equal(tagged(), 0);
}

static void test_kill_9_leaves_nothing(void **unused) {
    char id[100];
    START("--model", "ec2");
    launch("&MaxCount=3" SPOT, HIDING, id);
    WAIT_FOR(says(id, "started"));
    WAIT_FOR(tagged() == 1 + 3 * 6);
    assert_int_equal(market_end(SIGKILL), -SIGKILL);
    WAIT_FOR(tagged() == 0);
}

static void test_sigterm_writes_the_bill(void **unused) {
    char id[100], path[200];
    START("--model", "ec2-2016");
    launch("&MaxCount=1&ClientToken=tok" SPOT, HIDING, id);
    WAIT_FOR(says(id, "started"));
    assert_int_equal(market_end(SIGTERM), 0);
    assert_int_equal(tagged(), 0);
    snprintf(path, sizeof path, "%s/bill.json", market.folder);
    json_auto_t *bill = json_load_file(path, 0, NULL);
    assert_non_null(bill);
    json_t *machine = json_array_get(json_object_get(bill, "instances"), 0);
    assert_string_equal(json_string_value(json_object_get(machine, "id")), id);
    assert_string_equal(json_string_value(json_object_get(machine, "token")), "tok");
    assert_string_equal(json_string_value(json_object_get(machine, "how")), "released");
    assert_true(json_is_string(json_object_get(machine, "end")));
    json_t *cost = json_object_get(json_object_get(machine, "cost"), "ec2-2016");
    assert_string_equal(json_string_value(json_object_get(cost, "dollars")), "0.0200"); /* one hour at 2 cents */
}

static void test_script_that_ends(void **unused) {
    char spot[100], stopping[100], terminating[100];
    START("--model", "ec2");
    launch("&MaxCount=1" SPOT, "#!/bin/sh\nsleep 1000 &\n$PROTEUS_SHUTDOWN && exit 0\n", spot);
    launch("&MaxCount=1", "#!/bin/sh\nexit 3\n", stopping);
    launch("&MaxCount=1&InstanceInitiatedShutdownBehavior=terminate", "#!/nowhere/sh\n", terminating);
    WAIT_FOR(in_state(spot, "terminated"));
    assert_non_null(strstr(answer.body, "Client.InstanceInitiatedShutdown"));
    WAIT_FOR(in_state(stopping, "stopped"));
    WAIT_FOR(in_state(terminating, "terminated"));
    assert_true(says(terminating, "can't run the user data"));
    WAIT_FOR(tagged() == 1);
}

static void test_machine_finds_its_way(void **unused) {
    char id[100], own[PATH_MAX], script[PATH_MAX], metadata[300];
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1); /* for the test; machines have their own service */
    START("--model", "ec2");
    unsetenv("AWS_EC2_METADATA_DISABLED");
    launch("&MaxCount=1" SPOT,
           ENDPOINT_SAID "echo \"shutdown: $PROTEUS_SHUTDOWN\"\n"
                         "echo \"disabled: ${AWS_EC2_METADATA_DISABLED-no}\"\n"
                         "echo \"$PATH\"\npwd\ngrep SigIgn /proc/self/status\necho done\nsleep 1000\n",
           id);
    WAIT_FOR(says(id, "done"));
    assert_int_equal(strncmp(metadata_of(id, metadata), "/metadata/i-", 12), 0);
    assert_true(says(id, "shutdown: true\n"));
    assert_true(says(id, "disabled: no"));
    assert_non_null(realpath(program(), own));
    *strrchr(own, '/') = '\0';
    assert_true(says(id, strcat(own, ":")));
    assert_true(says(id, "SigIgn:\t0000000000000000")); /* the script's signal handling is that of a login */
    snprintf(script, sizeof script, "%s/%s/user-data", market.folder, id);
    struct stat status;
    assert_int_equal(stat(script, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
}

/* Returns the state of the process whose number the machine printed (/proc/PID/stat). */
static char state_of(const char *id) {
    char path[300];
    int pid = 0;
    char state = '?';
    snprintf(path, sizeof path, "%s/%s/console.log", market.folder, id);
    assert_int_equal(sscanf(read_path(path), "pid %d", &pid), 1);
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
    return state;
}

/* A slow machine is stopped and continued again and again. */
static void test_slow_machines(void **unused) {
    char slow[100];
    unsigned still = 0;
    unsigned runs = 0;
    write_text("speeds", "{\"m3.large\": 0.5}");
    START("--model", "ec2", "--speeds", in_folder("speeds"));
    launch("&MaxCount=1", "#!/bin/sh\necho pid $$\nwhile :; do :; done\n", slow);
    WAIT_FOR(says(slow, "pid "));
    for (unsigned looks = 0; looks < 2000 && (still < 5 || runs < 5); looks++, usleep(10 * 1000)) {
        bool stopped = state_of(slow) == 'T';
        still += stopped ? 1 : 0;
        runs += stopped ? 0 : 1;
    }
    assert_true(still >= 5 && runs >= 5);
    char form[200];
    snprintf(form, sizeof form, "Action=TerminateInstances&InstanceId.1=%s", slow);
    asked(form);
    WAIT_FOR(in_state(slow, "terminated"));
}

/* Another user of this computer gets nothing of the machines, no bill, and can't set faults. */
static void test_strangers_get_nothing(void **unused) {
    char id[100], path[400];
    START("--model", "ec2");
    launch("&MaxCount=1&IamInstanceProfile.Name=role" SPOT, "#!/bin/sh\n# a secret\nsleep 1000\n", id);
    snprintf(path, sizeof path, "/metadata/%s/latest/api/token", id);
    (void)fetch("PUT", path, "x-aws-ec2-metadata-token-ttl-seconds: 600", NULL);
    assert_int_equal(answer.status, 404);
    (void)fetch("GET", "/bill", NULL, NULL);
    assert_int_equal(answer.status, 401);
    (void)fetch("POST", "/faults", NULL, "{\"spec\":\"503=1\"}");
    assert_int_equal(answer.status, 401);
    struct stat status;
    snprintf(path, sizeof path, "%s/authorization", market.folder);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(stat(market.folder, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(market_end(SIGTERM), 0);
    assert_int_equal(stat(path, &status), -1);
}

static void test_eviction_by_price(void **unused) {
    char id[100], path[400], metadata[300], header[200], form[300];
    START("--speed", "100", "--log", in_folder("log.jsonl")); /* the price passes the bid after 6 s; 1.2 s of notice */
    launch("&MaxCount=1" SPOT, ENDPOINT_SAID "exec sleep 1000\n", id);
    snprintf(path, sizeof path, "%s/latest/api/token", metadata_of(id, metadata));
    snprintf(header, sizeof header, "x-aws-ec2-metadata-token: %.100s",
             fetch("PUT", path, "x-aws-ec2-metadata-token-ttl-seconds: 600", NULL));
    assert_int_equal(answer.status, 200);
    snprintf(path, sizeof path, "%s/latest/meta-data/spot/instance-action", metadata);
    (void)fetch("GET", path, header, NULL);
    assert_int_equal(answer.status, 404);
    WAIT_FOR((fetch("GET", path, header, NULL), answer.status == 200));
    assert_string_equal(answer.body, "{\"action\":\"terminate\",\"time\":\"2016-03-01T00:12:00Z\"}");
    WAIT_FOR(in_state(id, "terminated"));
    WAIT_FOR(tagged() == 1);
    (void)asked("Action=DescribeSpotInstanceRequests");
    assert_non_null(strstr(answer.body, "<code>instance-terminated-by-price</code>"));
    json_auto_t *bill = json_loads(fetch("GET", "/bill", owner(), NULL), 0, NULL);
    assert_non_null(bill);
    json_t *machine = json_array_get(json_object_get(bill, "instances"), 0);
    assert_string_equal(json_string_value(json_object_get(machine, "how")), "evicted");
    assert_string_equal(json_string_value(json_object_get(machine, "end")), "2016-03-01T00:12:00Z");
    json_t *total = json_object_get(json_object_get(bill, "total"), "ec2-2016");
    assert_string_equal(json_string_value(json_object_get(total, "dollars")), "0.0000"); /* cut short: free */
    /* A request below the price waits, and gets its machine once the price has fallen. */
    snprintf(form, sizeof form,
             "Action=RequestSpotInstances&SpotPrice=0.1&LaunchSpecification.ImageId=ami-1"
             "&LaunchSpecification.InstanceType=m3.large"
             "&LaunchSpecification.Placement.AvailabilityZone=us-east-1a");
    (void)asked(form);
    WAIT_FOR(strstr(asked("Action=DescribeSpotInstanceRequests&Filter.1.Name=state&Filter.1.Value.1=active"),
                    "<code>fulfilled</code>") != NULL);
    const char *log = read_path("log.jsonl");
    assert_non_null(strstr(log, "{\"time\":\"2016-03-01T00:10:00Z\",\"event\":\"noticed\""));
    assert_non_null(strstr(log, "{\"time\":\"2016-03-01T00:12:00Z\",\"event\":\"ended\""));
}

/* The owner's lock is free. An open request may still get a machine, which the owner may want to find later. */
static void test_an_open_request_keeps_the_market(void **unused) {
    char form[300], request[100];
    int status;
    write_text("owner", "");
    int lock = open(in_folder("owner"), O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    START("--owner", in_folder("owner"), "--model", "ec2");
    snprintf(form, sizeof form,
             "Action=RequestSpotInstances&SpotPrice=0.001&LaunchSpecification.ImageId=ami-1"
             "&LaunchSpecification.InstanceType=m3.large"
             "&LaunchSpecification.Placement.AvailabilityZone=us-east-1a");
    element(asked(form), "spotInstanceRequestId", request);
    close(lock);
    for (int looks = 0; looks < 4; looks++) { /* spotmarket checks every half second */
        clock_pause_ms(500);
        assert_int_equal(waitpid(market.pid, &status, WNOHANG), 0);
    }
    snprintf(form, sizeof form, "Action=CancelSpotInstanceRequests&SpotInstanceRequestId.1=%s", request);
    (void)asked(form);
    WAIT_FOR(waitpid(market.pid, &status, WNOHANG) == market.pid);
    market.pid = 0;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A second market would overwrite the first one's bill. */
static void test_a_folder_has_one_market(void **unused) {
    char command[3 * PATH_MAX];
    START("--speed", "1");
    snprintf(command, sizeof command, "%s --prices %s --credentials %s --folder %s 2>%s", program(),
             in_folder("prices.csv"), in_folder("credentials"), market.folder, in_folder("refused"));
    int status = system(command);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    assert_non_null(strstr(read_path("refused"), "another spotmarket works in it"));
    (void)asked("Action=DescribeInstances");
}

static void test_events_and_boot(void **unused) {
    char id[100];
    write_text("events", "# by schedule\nat 2016-03-01T00:05:00Z interrupt m3.large/us-east-1a notice 60s\n");
    START("--speed", "200", "--model", "ec2", "--events", in_folder("events"), "--boot", "60", "--rebalance", "100");
    launch("&MaxCount=1" SPOT, HIDING, id);
    assert_true(in_state(id, "pending"));
    WAIT_FOR(in_state(id, "running"));
    WAIT_FOR(in_state(id, "terminated"));
    assert_non_null(strstr(fetch("GET", "/bill", owner(), NULL), "\"end\": \"2016-03-01T00:06:00Z\""));
    WAIT_FOR(tagged() == 1);
}

static void set_faults(const char *spec) {
    char body[200];
    snprintf(body, sizeof body, "{\"spec\":\"%s\"}", spec);
    (void)fetch("POST", "/faults", owner(), body);
    assert_int_equal(answer.status, 200);
}

static void test_faults_on_the_wire(void **unused) {
    static const char call[] = RUN "&MaxCount=1&ClientToken=once" SPOT;
    char id[100];
    START("--faults", "lost=1");
    (void)ask(call);
    assert_int_equal(answer.status, 0);
    set_faults("broken=1");
    (void)ask(call);
    assert_int_equal(answer.status, 0);
    set_faults("slow=0.2:1");
    element(asked(call), "instanceId", id);
    set_faults("");
    (void)asked("Action=DescribeInstances");
    const char *first = strstr(answer.body, "<instanceId>");
    assert_non_null(first);
    assert_null(strstr(first + 1, "<instanceId>"));
    /* Answers that wait are dropped without an error when the market ends. */
    set_faults("slow=1000:1");
    char body[] = "Action=DescribeInstances&Version=2016-11-15";
    char url[120];
    snprintf(url, sizeof url, "%s/", market.url);
    struct http_request request = {.method = "POST", .url = url, .body = body, .body_size = strlen(body)};
    struct http_call *waiting = http_start(http, &request, on_done, NULL);
    for (int i = 0; i < 20; i++) {
        http_step(http);
        clock_pause_ms(POLL_MS);
    }
    assert_int_equal(market_end(SIGTERM), 0);
    http_run(http, waiting);
    assert_int_equal(answer.status, 0);
}

/* Sends raw bytes. Returns the answer's status, 0 when the server closes without an answer, -1 when it waits for
 * more. */
static int send_raw(const char *bytes, size_t size, size_t repeat) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *colon = strrchr(market.url, ':');
    address.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    for (size_t i = 0; i < repeat; i++) {
        if (send(fd, bytes, size, MSG_NOSIGNAL) != (ssize_t)size) {
            break; /* the server closed the connection */
        }
    }
    char text[64] = "";
    ssize_t got = recv(fd, text, sizeof text - 1, 0);
    bool waits = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    close(fd);
    if (waits) {
        return -1;
    }
    return got > 12 && strncmp(text, "HTTP/1.1 ", 9) == 0 ? (int)strtol(text + 9, NULL, 10) : 0;
}

static void test_what_is_no_request(void **unused) {
    static char many[20000];
    START("--model", "ec2");
    static const char large[] = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n";
    assert_int_equal(send_raw(large, sizeof large - 1, 1), 413);
    size_t size = (size_t)snprintf(many, sizeof many, "POST / HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < 200; i++) {
        size += (size_t)snprintf(many + size, sizeof many - size, "H%d: x\r\n", i);
    }
    size += (size_t)snprintf(many + size, sizeof many - size, "Content-Length: 0\r\n\r\n");
    assert_int_equal(send_raw(many, size, 1), 431);
    size = (size_t)snprintf(many, sizeof many, "GET /%05000d HTTP/1.1\r\nHost: x\r\n\r\n", 1);
    assert_int_equal(send_raw(many, size, 1), 414);
    (void)send_raw("\x16\x03\x01\r\n\r\n", 7, 1000);
    memset(many, 'a', sizeof many);
    (void)send_raw(many, sizeof many, 100); /* 2 MB without the end of a line */
    static const char chunked[] = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    static char chunk[70000];
    size = (size_t)snprintf(chunk, sizeof chunk, "%s", chunked);
    size += (size_t)snprintf(chunk + size, sizeof chunk - size, "10000000\r\n"); /* 256 MB */
    memset(chunk + size, 'b', sizeof chunk - size);
    assert_int_equal(send_raw(chunk, sizeof chunk, 20), 0);
    (void)fetch("GET", "/clock", NULL, NULL);
    assert_int_equal(answer.status, 200);
    assert_int_equal(market_end(SIGINT), 0);
}

/* Opens a connection that begins a request and does not go on. */
static int slow_client(const char *beginning) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)strtoul(strrchr(market.url, ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    (void)send(fd, beginning, strlen(beginning), MSG_NOSIGNAL);
    return fd;
}

/* Slow clients above the limit of connections, and more all the time, keep no other client out. */
static void test_slow_clients(void **unused) {
    static const char *const beginnings[] = {"", "GET /clock HTT", "GET /clock HTTP/1.1\r\nHost: localhost\r\n",
                                             "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nAct"};
    enum { SLOW = 700, MORE = 20, ASKED = 10 };
    static int slow[SLOW + MORE * ASKED];
    size_t count = 0;
    START("--model", "ec2");
    while (count < SLOW) {
        slow[count] = slow_client(beginnings[count % 4]);
        count++;
    }
    for (int i = 0; i < ASKED; i++) {
        for (int more = 0; more < MORE; more++) {
            slow[count] = slow_client(beginnings[count % 4]);
            count++;
        }
        (void)fetch("GET", "/clock", NULL, NULL);
        assert_int_equal(answer.status, 200);
        (void)asked("Action=DescribeInstances");
    }
    for (size_t i = 0; i < count; i++) {
        close(slow[i]);
    }
    assert_int_equal(market_end(SIGTERM), 0);
}

/* ---- Wrong use ---- */

static void test_wrong_use(void **unused) {
    write_text("bad-events", "at noon interrupt m3.large/us-east-1a\n");
    write_text("too-fast", "{\"m3.large\": 1.5}");
    write_text("no-credentials", "[default]\nregion = us-east-1\n");
    assert_int_equal(chmod("no-credentials", 0600), 0);
    write_text("others-read-it", "[default]\n");
    assert_int_equal(chmod("others-read-it", 0640), 0);
    static const struct {
        const char *option, *value, *says;
    } wrong[] = {
        {"--listen", "0.0.0.0:80", "loopback"},
        {"--listen", "127.0.0.1", "loopback"},
        {"--model", "ec3", "--model"},
        {"--start", "now", "--start"},
        {"--region", "eu-west-1", "--region"},
        {"--faults", "boom=1", "unknown fault"},
        {"--events", "bad-events", "bad-events:1"},
        {"--roles", "bad-events", "bad-events:1"},
        {"--credentials", "no-credentials", "aws_access_key_id"},
        {"--credentials", "others-read-it", "expected mode 0600"},
        {"--folder", "/tmp", "expected a folder of yours with mode 0700"},
        {"--speed", "0", "--speed"},
        {"--speeds", "too-fast", "expected a number from 0.05 to 1"},
        {"--speeds", "bad-events", "--speeds"},
        {"--interruptions", "none:", "--interruptions"},
        {"--prices", "nowhere", "nowhere"},
        {"--colour", "red", "unknown option"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char command[5 * PATH_MAX];
        bool file = access(in_folder(wrong[i].value), F_OK) == 0;
        snprintf(command, sizeof command, "%s --prices %s --credentials %s --folder %s %s %s >/dev/null 2>%s",
                 program(), in_folder("prices.csv"), in_folder("credentials"), in_folder("wrong"), wrong[i].option,
                 file ? in_folder(wrong[i].value) : wrong[i].value, in_folder("stderr"));
        int status = system(command);
        const char *text = read_path("stderr");
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 2 || strstr(text, wrong[i].says) == NULL ||
            strchr(text, '\n') != text + strlen(text) - 1) {
            fail_msg("%s %s: status %d: %s", wrong[i].option, wrong[i].value, status, text);
        }
    }
}

/* ---- AWS's own command line ---- */

/* Runs `aws ec2 ...`. Returns its standard output; *status: its exit status. */
static const char *aws(const char *arguments, int *status) {
    static char command[4000];
    snprintf(command, sizeof command, "aws --endpoint-url %s --output text ec2 %s >%s 2>%s", market.url, arguments,
             in_folder("aws-out"), in_folder("aws-err"));
    int code = system(command);
    *status = WIFEXITED(code) ? WEXITSTATUS(code) : -1;
    return read_path("aws-out");
}

static const char *aws_done(const char *arguments) {
    int status;
    const char *text = aws(arguments, &status);
    if (status != 0) {
        fail_msg("aws ec2 %s: %d: %s", arguments, status, read_path("aws-err"));
    }
    return text;
}

static void word_of(const char *text, char word[100]) {
    snprintf(word, 100, "%.*s", (int)strcspn(text, "\t\n "), text);
    assert_true(word[0] != '\0');
}

static void test_awscli(void **unused) {
    char first[100], sir[100], other[100], command[1000];
    int status;
    if (system("aws --version >/dev/null 2>&1") != 0) {
        print_message("skipped: aws is not installed\n");
        skip();
    }
    setenv("AWS_SHARED_CREDENTIALS_FILE", in_folder("credentials"), 1);
    setenv("AWS_CONFIG_FILE", "/dev/null", 1);
    setenv("AWS_DEFAULT_REGION", "us-east-1", 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    START("--model", "ec2", "--page", "2");
    write_text("user-data", HIDING);

    const char *text = aws_done("describe-spot-price-history --instance-types m3.large c3.xlarge --start-time "
                                "2016-02-29T12:00:00Z --query 'SpotPriceHistory[].SpotPrice'");
    assert_non_null(strstr(text, "0.02"));
    assert_non_null(strstr(text, "0.03")); /* both pages */
    assert_null(strstr(text, "0.4"));
    assert_non_null(strstr(aws_done("describe-instance-types --instance-types m3.large "
                                    "--query 'InstanceTypes[].VCpuInfo.DefaultVCpus'"),
                           "2"));
    snprintf(command, sizeof command,
             "run-instances --image-id ami-1 --instance-type m3.large --count 3 --client-token t1 "
             "--instance-market-options 'MarketType=spot,SpotOptions={MaxPrice=0.1,SpotInstanceType=one-time}' "
             "--user-data file://%s --placement AvailabilityZone=us-east-1a --security-group-ids sg-1 "
             "--iam-instance-profile Name=role --tag-specifications "
             "'ResourceType=instance,Tags=[{Key=proteus:job,Value=\"a & b\"}]' --query 'Instances[].InstanceId'",
             in_folder("user-data"));
    word_of(aws_done(command), first);
    WAIT_FOR(says(first, "started"));
    text = aws_done("describe-instances --filters Name=instance-state-name,Values=running "
                    "'Name=tag:proteus:job,Values=a & b' --query 'Reservations[].Instances[].InstanceId'");
    assert_non_null(strstr(text, first));
    snprintf(command, sizeof command, "create-tags --resources %s --tags Key=colour,Value=red", first);
    (void)aws_done(command);

    word_of(aws_done("request-spot-instances --spot-price 0.001 --type one-time --launch-specification "
                     "'{\"ImageId\":\"ami-1\",\"InstanceType\":\"m3.large\",\"SecurityGroupIds\":[\"sg-1\"],"
                     "\"Placement\":{\"AvailabilityZone\":\"us-east-1a\"}}' "
                     "--query 'SpotInstanceRequests[].SpotInstanceRequestId'"),
            sir);
    snprintf(command, sizeof command,
             "describe-spot-instance-requests --spot-instance-request-ids %s "
             "--query 'SpotInstanceRequests[].[State,Status.Code]'",
             sir);
    assert_string_equal(aws_done(command), "open\tprice-too-low\n");
    snprintf(command, sizeof command,
             "cancel-spot-instance-requests --spot-instance-request-ids %s "
             "--query 'CancelledSpotInstanceRequests[].State'",
             sir);
    assert_string_equal(aws_done(command), "cancelled\n");

    (void)aws_done("create-launch-template --launch-template-name node --launch-template-data "
                   "'{\"ImageId\":\"ami-1\",\"InstanceType\":\"m3.large\"}'");
    text = aws_done("create-fleet --type instant --launch-template-configs '[{\"LaunchTemplateSpecification\":"
                    "{\"LaunchTemplateName\":\"node\",\"Version\":\"$Latest\"},\"Overrides\":["
                    "{\"AvailabilityZone\":\"us-east-1a\",\"MaxPrice\":\"0.001\"},"
                    "{\"InstanceType\":\"c3.xlarge\",\"AvailabilityZone\":\"us-east-1a\"}]}]' "
                    "--target-capacity-specification TotalTargetCapacity=1,DefaultTargetCapacityType=spot "
                    "--query '[Instances[0].InstanceIds[0],Errors[0].ErrorCode]'");
    assert_non_null(strstr(text, "SpotMaxPriceTooLow"));
    word_of(text, other);
    snprintf(command, sizeof command,
             "terminate-instances --instance-ids %s %s "
             "--query 'TerminatingInstances[].CurrentState.Name'",
             first, other);
    assert_non_null(strstr(aws_done(command), "shutting-down"));
    assert_non_null(strstr(aws_done("describe-availability-zones --query 'AvailabilityZones[].ZoneName'"),
                           "us-east-1a\tus-east-1b"));

    setenv("AWS_ACCESS_KEY_ID", "AKIDSTRANGER", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "guessed", 1);
    (void)aws("describe-instances", &status);
    assert_int_not_equal(status, 0);
    assert_non_null(strstr(read_path("aws-err"), "AuthFailure"));
    setenv("AWS_ACCESS_KEY_ID", KEY_ID, 1);
    (void)aws("describe-instances", &status);
    assert_int_not_equal(status, 0);
    assert_non_null(strstr(read_path("aws-err"), "SignatureDoesNotMatch"));
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    assert_int_equal(market_end(SIGTERM), 0);
    assert_int_equal(tagged(), 0);
}

int main(void) {
#define EACH(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        EACH(test_terminated_machines_are_gone),
        EACH(test_kill_9_leaves_nothing),
        EACH(test_sigterm_writes_the_bill),
        EACH(test_script_that_ends),
        EACH(test_machine_finds_its_way),
        EACH(test_slow_machines),
        EACH(test_strangers_get_nothing),
        EACH(test_eviction_by_price),
        EACH(test_an_open_request_keeps_the_market),
        EACH(test_a_folder_has_one_market),
        EACH(test_events_and_boot),
        EACH(test_faults_on_the_wire),
        EACH(test_what_is_no_request),
        EACH(test_slow_clients),
        EACH(test_wrong_use),
        EACH(test_awscli),
    };
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
