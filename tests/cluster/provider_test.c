/* The provider `ec2` against spotmarket, whose machines are processes: recorded prices, machines by each call,
 * evictions and withdrawals. Under faults of every kind the footprint stays right by spotmarket's own bill. */

#include "agileml/base/instant.h"
#include "agileml/net/http.h"
#include "bidbrain/cloud/aws/ec2.h"
#include "bidbrain/cloud/provider.h"
#include "tests/files.h"
#include "tests/test.h"

#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POINTS = 60, MACHINES_MAX = 128, ARGUMENTS_MAX = 32 };
#define START  INT64_C(1456790400) /* 2016-03-01 */
#define JUMP   (START + 900)       /* c4.large becomes expensive, for ever */
#define SCRIPT "#!/bin/sh\nexec sleep 1000\n"

/* ---- The cloud ---- */

struct cloud {
    pid_t pid;
    char url[64];
};

/* Returns point i of m3.large; points are ten minutes apart, before and after START. */
static struct market_point point_of(int i) {
    return (struct market_point){START + (i - POINTS / 2) * 600, 40000 + i};
}

static int set_up(void **state) {
    char text[POINTS * 64];
    char when[INSTANT_TEXT_MAX];
    if (files_open(state) != 0) {
        return -1;
    }
    size_t used = (size_t)sprintf(text, "timestamp_utc,price_usd\n");
    for (int i = 0; i < POINTS; i++) {
        instant_format(point_of(i).time, when);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s,0.%06d\n", when, (int)point_of(i).price);
    }
    write_text("prices/m3.large-us-east-1a.csv", text);
    instant_format(JUMP, when);
    snprintf(text, sizeof text, "timestamp_utc,price_usd\n2016-02-28T00:00:00Z,0.02\n%s,0.5\n", when);
    write_text("prices/c4.large-us-east-1a.csv", text);
    write_text("credentials", "[default]\naws_access_key_id = AKIDTEST\naws_secret_access_key = secret/of+test\n");
    chmod("credentials", 0600);
    setenv("AWS_SHARED_CREDENTIALS_FILE", in_folder("credentials"), 1);
    setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    static const char *const unset[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
                                        "AWS_PROFILE",       "AWS_ENDPOINT_URL",      "AWS_ENDPOINT_URL_EC2"};
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) {
        unsetenv(unset[i]);
    }
    return 0;
}

/* Starts spotmarket with more options; `extra` ends with NULL. */
static struct cloud cloud_start(const char *const *extra) {
    char binary[512], number[16];
    const char *bin = getenv("PROTEUS_BIN");
    int pipes[2];
    struct cloud cloud = {0};
    assert_non_null(bin);
    assert_int_equal(pipe(pipes), 0);
    snprintf(binary, sizeof binary, "%s/spotmarket", bin);
    snprintf(number, sizeof number, "%d", pipes[1]);
    const char *arguments[ARGUMENTS_MAX] = {binary,
                                            "--prices",
                                            in_folder("prices"),
                                            "--credentials",
                                            in_folder("credentials"),
                                            "--folder",
                                            in_folder("machines"),
                                            "--start",
                                            "2016-03-01T00:00:00Z",
                                            "--ready-fd",
                                            number};
    for (size_t i = 11; *extra != NULL; i++) {
        assert_true(i < ARGUMENTS_MAX - 1);
        arguments[i] = *extra++;
    }
    cloud.pid = fork();
    assert_true(cloud.pid >= 0);
    if (cloud.pid == 0) {
        close(pipes[0]);
        (void)!freopen("/dev/null", "w", stdout);
        execv(binary, (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    close(pipes[1]);
    size_t size = 0;
    ssize_t got;
    while ((got = read(pipes[0], cloud.url + size, sizeof cloud.url - 1 - size)) > 0 &&
           strchr(cloud.url, '\n') == NULL) {
        size += (size_t)got;
    }
    close(pipes[0]);
    cloud.url[strcspn(cloud.url, "\n")] = '\0';
    assert_true(strncmp(cloud.url, "http://127.0.0.1:", 17) == 0);
    return cloud;
}

static void cloud_stop(const struct cloud *cloud) {
    int status;
    assert_int_equal(kill(cloud->pid, SIGTERM), 0);
    assert_int_equal(waitpid(cloud->pid, &status, 0), cloud->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void take_body(void *context, const struct http_answer *answer) {
    char **body = context;
    if (answer->status == 200) {
        *body = strdup(answer->body);
    }
}

/* Reads the header by which spotmarket recognizes its owner. */
static void read_authorization(char header[128]) {
    FILE *file = open_file("machines/authorization", "r");
    assert_non_null(fgets(header, 128, file));
    header[strcspn(header, "\n")] = '\0';
    fclose(file);
}

/* Sends a request to spotmarket itself. Returns the answer's body, from malloc. */
static char *cloud_ask(const struct cloud *cloud, const char *method, const char *path, const char *body) {
    struct http *http = NULL;
    char url[128];
    char *answer = NULL;
    char authorization[128];
    snprintf(url, sizeof url, "%s%s", cloud->url, path);
    read_authorization(authorization);
    struct http_request request = {.method = method,
                                   .url = url,
                                   .headers = {authorization},
                                   .body = body,
                                   .body_size = body == NULL ? 0 : strlen(body)};
    assert_int_equal(http_open(&http, NULL), 0);
    http_run(http, http_start(http, &request, take_body, &answer));
    http_close(http);
    assert_non_null(answer);
    return answer;
}

/* Counts of machines, by how they ended and by launch. */
struct bill {
    int running, released, evicted;
    struct bill_of {
        char token[PROVIDER_TOKEN_TEXT];
        int machines;
    } tokens[MACHINES_MAX];
    int token_count;
};

static struct bill cloud_bill_of(const struct cloud *cloud) {
    struct bill bill = {0};
    FREED char *text = cloud_ask(cloud, "GET", "/bill", NULL);
    json_auto_t *root = json_loads(text, 0, NULL);
    json_t *instances = json_object_get(root, "instances");
    size_t i;
    json_t *instance;
    assert_true(json_is_array(instances));
    json_array_foreach(instances, i, instance) {
        const char *how = json_string_value(json_object_get(instance, "how"));
        const char *token = json_string_value(json_object_get(instance, "token"));
        assert_string_equal(json_string_value(json_object_get(instance, "job")), "test job");
        bill.running += strcmp(how, "running") == 0;
        bill.released += strcmp(how, "released") == 0;
        bill.evicted += strcmp(how, "evicted") == 0;
        int t = 0;
        while (t < bill.token_count && strcmp(bill.tokens[t].token, token) != 0) {
            t++;
        }
        bill.token_count = t == bill.token_count ? t + 1 : bill.token_count;
        snprintf(bill.tokens[t].token, sizeof bill.tokens[t].token, "%s", token);
        bill.tokens[t].machines++;
    }
    return bill;
}

/* ---- The daemon's view ---- */

struct world {
    struct provider *provider;
    pid_t cloud;
    struct provider_machine machines[MACHINES_MAX];
    int machine_count;
    struct provider_outcome outcomes[MACHINES_MAX];
    int outcome_count;
    struct market_point points[POINTS];
    int point_count, prices_ends, list_ends, failures;
    bool listing, whole;
};

static void on_price(void *context, const char *type, const char *zone, const char *product,
                     struct market_point point) {
    struct world *world = context;
    assert_string_equal(type, "m3.large");
    assert_string_equal(zone, "us-east-1a");
    assert_string_equal(product, "Linux/UNIX");
    assert_true(world->point_count < POINTS);
    world->points[world->point_count++] = point;
}

static void on_prices_end(void *context, bool whole) {
    struct world *world = context;
    world->prices_ends++;
    world->whole = whole;
}

static void on_outcome(void *context, const struct provider_outcome *outcome) {
    struct world *world = context;
    int i = 0;
    while (i < world->outcome_count && strcmp(world->outcomes[i].token, outcome->token) != 0) {
        i++;
    }
    assert_true(i < MACHINES_MAX);
    world->outcome_count = i == world->outcome_count ? i + 1 : world->outcome_count;
    world->outcomes[i] = *outcome;
}

static void on_machine(void *context, const struct provider_machine *machine) {
    struct world *world = context;
    int i = 0;
    while (i < world->machine_count && strcmp(world->machines[i].id, machine->id) != 0) {
        i++;
    }
    assert_true(i < MACHINES_MAX);
    world->machine_count = i == world->machine_count ? i + 1 : world->machine_count;
    world->machines[i] = *machine;
}

static void on_list_end(void *context, bool whole) {
    struct world *world = context;
    world->list_ends += whole;
    world->listing = false;
}

static void on_failed(void *context, const char *text, bool lasting) {
    struct world *world = context;
    assert_null(strstr(text, "secret"));
    world->failures++;
}

/* Opens a world whose machines run `script`; NULL: the provider's own script, which starts the program `node`. */
static struct world *world_open_with(const struct cloud *cloud, enum provider_call call, const char *script) {
    static const char *const types[] = {"m3.large", NULL};
    struct world *world = calloc(1, sizeof *world);
    world->cloud = cloud->pid;
    struct error error = {0};
    const struct provider_options options = {.job = "test job",
                                             .user_data = script,
                                             .app = "sleep",
                                             .binary = in_folder("node"),
                                             .controller = "tcp://127.0.0.1:1",
                                             .aws = {.region = "us-east-1", .endpoint = cloud->url},
                                             .call = call,
                                             .threads = 2,
                                             .image = "ami-1",
                                             .launch_template = "workers",
                                             .types = types,
                                             .product = "Linux/UNIX",
                                             .listener = {.price = on_price,
                                                          .prices_end = on_prices_end,
                                                          .outcome = on_outcome,
                                                          .machine = on_machine,
                                                          .list_end = on_list_end,
                                                          .failed = on_failed,
                                                          .context = world}};
    if (provider_ec2_open(&world->provider, &options, &error) != 0) {
        fail_msg("%s", error.text);
    }
    return world;
}

static struct world *world_open(const struct cloud *cloud, enum provider_call call) {
    return world_open_with(cloud, call, SCRIPT);
}

static void world_close(struct world *world) {
    provider_close(world->provider);
    free(world);
}

static void world_turn(struct world *world) {
    struct provider *provider = world->provider;
    struct pollfd waiting = {.fd = provider_fd(provider), .events = POLLIN};
    int wait_ms = provider_wait_ms(provider);
    (void)poll(&waiting, 1, wait_ms < 0 || wait_ms > 20 ? 20 : wait_ms);
    provider_step(provider);
    assert_int_equal(waitpid(world->cloud, NULL, WNOHANG), 0); /* spotmarket still serves */
}

/* Lists machines until the condition holds after a listing. */
#define UNTIL(world, condition)                                                                                        \
    do {                                                                                                               \
        for (int round_ = 0;; round_++) {                                                                              \
            world_list(world);                                                                                         \
            if (condition) {                                                                                           \
                break;                                                                                                 \
            }                                                                                                          \
            if (round_ == 300) {                                                                                       \
                fail_msg("never: %s", #condition);                                                                     \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

static void world_list(struct world *world) {
    world->listing = true;
    provider_list(world->provider);
    while (world->listing) {
        world_turn(world);
    }
    for (int i = 0; i < 5; i++) {
        world_turn(world);
    }
}

static int count_state(const struct world *world, enum machine_state state) {
    int count = 0;
    for (int i = 0; i < world->machine_count; i++) {
        count += world->machines[i].state == state;
    }
    return count;
}

static const struct provider_outcome *outcome_of(const struct world *world, const char *token) {
    for (int i = 0; i < world->outcome_count; i++) {
        if (strcmp(world->outcomes[i].token, token) == 0) {
            return &world->outcomes[i];
        }
    }
    return NULL;
}

static struct provider_launch launch_of(enum provider_kind kind, const char *type, const char *token, unsigned count,
                                        int64_t bid) {
    struct provider_launch launch = {
        .kind = kind, .count = count, .bid = bid, .zone = "us-east-1a", .product = "Linux/UNIX"};
    snprintf(launch.type, sizeof launch.type, "%s", type);
    snprintf(launch.token, sizeof launch.token, "%s", token);
    return launch;
}

static const struct provider_outcome *world_launch(struct world *world, struct provider_launch launch) {
    provider_launch(world->provider, &launch);
    for (int turns = 0; outcome_of(world, launch.token) == NULL; turns++) {
        assert_true(turns < 5000);
        world_turn(world);
    }
    return outcome_of(world, launch.token);
}

static void world_give_back(struct world *world) {
    const char *ids[MACHINES_MAX];
    size_t count = 0;
    for (int i = 0; i < world->machine_count; i++) {
        if (world->machines[i].state != MACHINE_GONE) {
            ids[count++] = world->machines[i].id;
        }
    }
    provider_terminate(world->provider, ids, count);
}

/* ---- Tests ---- */

TEST(prices_are_the_recorded_ones) {
    static const char *const extra[] = {"--page", "7", NULL};
    CLOSED_BY(cloud_stop) struct cloud cloud = cloud_start(extra);
    struct world *world = world_open(&cloud, PROVIDER_RUN_INSTANCES);
    provider_prices(world->provider, START - 7200 + 1);
    while (world->prices_ends == 0) {
        world_turn(world);
    }
    /* The points from the last change before the beginning until now. */
    assert_true(world->whole);
    assert_int_equal(world->point_count, 13);
    for (int i = 0; i < world->point_count; i++) {
        struct market_point wanted = point_of(POINTS / 2 - 12 + i);
        int found = 0;
        for (int j = 0; j < world->point_count; j++) {
            found += world->points[j].time == wanted.time && world->points[j].price == wanted.price;
        }
        assert_int_equal(found, 1);
    }
    world_close(world);
}

TEST(machines_run_and_are_taken) {
    static const char *const extra[] = {"--speed", "100", "--page", "2", NULL};
    CLOSED_BY(cloud_stop) struct cloud cloud = cloud_start(extra);
    struct world *world = world_open(&cloud, PROVIDER_RUN_INSTANCES);
    assert_int_equal(world_launch(world, launch_of(PROVIDER_SPOT, "c4.large", "spot-1", 3, 30000))->machines, 3);
    assert_int_equal(world_launch(world, launch_of(PROVIDER_ON_DEMAND, "m3.large", "demand-1", 2, 0))->machines, 2);
    assert_string_equal(world_launch(world, launch_of(PROVIDER_SPOT, "c4.large", "spot-2", 1, 10000))->code,
                        "SpotMaxPriceTooLow");
    assert_false(outcome_of(world, "spot-2")->ours);
    const struct provider_outcome *wrong = world_launch(world, launch_of(PROVIDER_SPOT, "c4.huge", "spot-3", 1, 10000));
    assert_int_equal(wrong->state, LAUNCH_REFUSED);
    assert_true(wrong->ours);
    free(cloud_ask(&cloud, "POST", "/faults", "{\"spec\":\"capacity=1\"}"));
    assert_string_equal(world_launch(world, launch_of(PROVIDER_SPOT, "c4.large", "spot-4", 1, 30000))->code,
                        "InsufficientInstanceCapacity");
    assert_false(outcome_of(world, "spot-4")->ours);
    free(cloud_ask(&cloud, "POST", "/faults", "{\"spec\":\"\"}"));
    UNTIL(world, count_state(world, MACHINE_RUNNING) == 5);
    /* The price rises above the bid: first the notice is seen, then the end. */
    UNTIL(world, count_state(world, MACHINE_RUNNING) == 5 && world->machines[0].noticed);
    UNTIL(world, count_state(world, MACHINE_GONE) == 3);
    world_give_back(world);
    UNTIL(world, count_state(world, MACHINE_GONE) == 5);
    for (int i = 0; i < world->machine_count; i++) {
        const struct provider_machine *machine = &world->machines[i];
        bool spot = strcmp(machine->token, "spot-1") == 0;
        assert_int_equal(machine->kind, spot ? PROVIDER_SPOT : PROVIDER_ON_DEMAND);
        assert_int_equal(machine->evicted, spot);
        assert_string_equal(machine->type, spot ? "c4.large" : "m3.large");
        assert_true(machine->launched >= START && machine->launched < JUMP);
    }
    struct bill bill = cloud_bill_of(&cloud);
    assert_int_equal(bill.evicted, 3);
    assert_int_equal(bill.released, 2);
    assert_int_equal(bill.running, 0);
    assert_int_equal(world->failures, 0);
    world_close(world);
}

TEST(requests_wait_are_filled_and_withdrawn) {
    static const char *const extra[] = {NULL};
    CLOSED_BY(cloud_stop) struct cloud cloud = cloud_start(extra);
    struct world *world = world_open(&cloud, PROVIDER_REQUEST_SPOT);
    assert_int_equal(world_launch(world, launch_of(PROVIDER_SPOT, "c4.large", "low", 2, 10000))->state, LAUNCH_WAITING);
    world_list(world);
    assert_int_equal(outcome_of(world, "low")->state, LAUNCH_WAITING);
    assert_non_null(strstr(outcome_of(world, "low")->text, "price-too-low"));
    assert_int_equal(world->machine_count, 0);
    (void)world_launch(world, launch_of(PROVIDER_SPOT, "c4.large", "high", 2, 30000));
    UNTIL(world, count_state(world, MACHINE_RUNNING) == 2 && outcome_of(world, "high")->state == LAUNCH_FILLED);
    assert_int_equal(outcome_of(world, "high")->machines, 2);
    provider_cancel(world->provider, "low");
    UNTIL(world, outcome_of(world, "low")->state == LAUNCH_REFUSED);
    assert_string_equal(outcome_of(world, "low")->code, "canceled-before-fulfillment");
    world_close(world);
    /* Another provider, without any knowledge, finds the machines. */
    world = world_open(&cloud, PROVIDER_REQUEST_SPOT);
    world_list(world);
    assert_int_equal(count_state(world, MACHINE_RUNNING), 2);
    assert_string_equal(world->machines[0].token, "high");
    assert_int_equal(outcome_of(world, "high")->state, LAUNCH_FILLED);
    /* A repeated attempt launches nothing new. */
    (void)world_launch(world, launch_of(PROVIDER_SPOT, "c4.large", "high", 2, 30000));
    world_list(world);
    assert_int_equal(world->machine_count, 2);
    world->outcome_count = 0;
    /* With other parameters the repeat is refused, because the launch was carried out. The outcome reports its
     * machines. */
    const struct provider_outcome *mismatch =
        world_launch(world, launch_of(PROVIDER_SPOT, "c4.large", "high", 1, 30000));
    assert_int_equal(mismatch->state, LAUNCH_FILLED);
    assert_int_equal(mismatch->machines, 2);
    world_give_back(world);
    UNTIL(world, count_state(world, MACHINE_GONE) == 2);
    assert_false(world->machines[0].evicted || world->machines[1].evicted);
    struct bill bill = cloud_bill_of(&cloud);
    assert_int_equal(bill.released, 2);
    assert_int_equal(bill.running + bill.evicted, 0);
    world_close(world);
}

/* The built-in script starts the node under the machine's id. The machine ends with the node, so that none idles. */
TEST(nodes_are_started_and_end_their_machines) {
    static const char *const extra[] = {NULL};
    char path[256], expected[400];
    write_text("node", "#!/bin/sh\necho \"$@\" >arguments\n");
    assert_int_equal(chmod("node", 0700), 0);
    CLOSED_BY(cloud_stop) struct cloud cloud = cloud_start(extra);
    struct world *world = world_open_with(&cloud, PROVIDER_RUN_INSTANCES, NULL);
    assert_int_equal(world_launch(world, launch_of(PROVIDER_SPOT, "c4.large", "node", 1, 30000))->machines, 1);
    UNTIL(world, count_state(world, MACHINE_GONE) == 1);
    assert_false(world->machines[0].evicted);
    snprintf(path, sizeof path, "machines/%s/arguments", world->machines[0].id);
    snprintf(expected, sizeof expected,
             "--controller tcp://127.0.0.1:1 --tier transient --name %s --group us-east-1a/c4.large "
             "--listen 127.0.0.1 --poll-notice 5 --threads 2\n",
             world->machines[0].id);
    assert_file(path, expected);
    assert_int_equal(cloud_bill_of(&cloud).released, 1);
    world_close(world);
}

static void template_made(void *context, const struct ec2_answer *answer) {
    *(bool *)context = true;
    assert_null(answer->failure);
}

static void make_template(const struct cloud *cloud) {
    struct ec2 *ec2 = NULL;
    const struct ec2_options options = {.region = "us-east-1", .endpoint = cloud->url};
    bool made = false;
    assert_int_equal(ec2_open(&ec2, &options, NULL), 0);
    struct ec2_request *request = ec2_request_new("CreateLaunchTemplate");
    ec2_set(request, "workers", "LaunchTemplateName");
    ec2_set(request, "ami-1", "LaunchTemplateData.ImageId");
    ec2_set_base64(request, SCRIPT, strlen(SCRIPT), "LaunchTemplateData.UserData");
    ec2_start(ec2, request, template_made, &made);
    while (!made) {
        struct pollfd waiting = {.fd = ec2_fd(ec2), .events = POLLIN};
        int wait_ms = ec2_wait_ms(ec2);
        (void)poll(&waiting, 1, wait_ms < 0 || wait_ms > 100 ? 100 : wait_ms);
        ec2_step(ec2);
    }
    ec2_close(ec2);
}

TEST(fleets_are_machines_too) {
    static const char *const extra[] = {"--speed", "100", NULL};
    CLOSED_BY(cloud_stop) struct cloud cloud = cloud_start(extra);
    make_template(&cloud);
    struct world *world = world_open(&cloud, PROVIDER_CREATE_FLEET);
    const struct provider_outcome *low = world_launch(world, launch_of(PROVIDER_SPOT, "c4.large", "low", 1, 10000));
    assert_int_equal(low->state, LAUNCH_REFUSED);
    assert_string_equal(low->code, "SpotMaxPriceTooLow");
    assert_int_equal(world_launch(world, launch_of(PROVIDER_SPOT, "c4.large", "high", 2, 30000))->machines, 2);
    UNTIL(world, count_state(world, MACHINE_RUNNING) == 2);
    assert_string_equal(world->machines[0].token, "high");
    UNTIL(world, world->machines[0].noticed && world->machines[1].noticed);
    UNTIL(world, count_state(world, MACHINE_GONE) == 2);
    assert_true(world->machines[0].evicted && world->machines[1].evicted);
    world_close(world);
}

/* Launches by all calls under a list of faults. Then the running machines are those reported, no launch was carried out
 * twice, and all machines can be given back. */
static void survive(const char *faults, const char *throttle) {
    const char *const extra[] = {"--faults", faults, throttle, NULL};
    static const enum provider_call calls[] = {PROVIDER_RUN_INSTANCES, PROVIDER_REQUEST_SPOT, PROVIDER_CREATE_FLEET};
    char body[256];
    CLOSED_BY(cloud_stop) struct cloud cloud = cloud_start(extra);
    free(cloud_ask(&cloud, "POST", "/faults", "{\"spec\":\"\"}"));
    make_template(&cloud);
    snprintf(body, sizeof body, "{\"spec\":\"%s\"}", faults);
    free(cloud_ask(&cloud, "POST", "/faults", body));
    int wanted = 0;
    struct world *world = NULL;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        world = world_open(&cloud, calls[c]);
        for (unsigned n = 0; n < 3; n++) {
            char token[PROVIDER_TOKEN_TEXT];
            snprintf(token, sizeof token, "call-%zu-%u", c, n);
            struct provider_launch launch = launch_of(PROVIDER_SPOT, "c4.large", token, n + 1, 30000);
            for (int again = 0; outcome_of(world, token) == NULL; again++) {
                assert_true(again < 50);
                int failures = world->failures;
                provider_launch(world->provider, &launch); /* repeats the attempt, as the daemon does */
                while (outcome_of(world, token) == NULL && world->failures == failures) {
                    world_turn(world);
                }
            }
            wanted += outcome_of(world, token)->state == LAUNCH_REFUSED ? 0 : (int)n + 1;
        }
        if (c + 1 < sizeof calls / sizeof *calls) {
            world_close(world); /* another provider takes over */
        }
    }
    UNTIL(world, world->list_ends > 0 && count_state(world, MACHINE_RUNNING) >= wanted);
    struct bill bill = cloud_bill_of(&cloud);
    assert_int_equal(bill.running, wanted);
    assert_int_equal(count_state(world, MACHINE_RUNNING), wanted);
    for (int t = 0; t < bill.token_count; t++) {
        int count = atoi(strrchr(bill.tokens[t].token, '-') + 1) + 1;
        assert_int_equal(bill.tokens[t].machines, count);
    }
    for (int again = 0; bill.running > 0; again++) {
        assert_true(again < 50);
        world_give_back(world);
        world_list(world);
        bill = cloud_bill_of(&cloud);
    }
    UNTIL(world, count_state(world, MACHINE_GONE) == world->machine_count);
    world_close(world);
}

TEST(each_fault_is_survived) {
    static const char *const faults[] = {"slow=0.3:0.3", "broken=0.3",  "503=0.3",     "throttle=0.2", "html=0.3",
                                         "clock=7200",   "clock=-3600", "expired=0.2", "lost=0.5"};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        survive(faults[i], NULL);
    }
}

TEST(all_faults_together_are_survived) {
    survive("slow=0.2:0.1,broken=0.1,503=0.1,throttle=0.05,html=0.1,clock=3600,expired=0.1,lost=0.4", "--throttle");
}

int main(void) {
    return tests_run(set_up, files_close);
}
