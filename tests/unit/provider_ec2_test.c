/* bidbrain/cloud/ec2: the requests to EC2 for the daemon's calls, and the reports to the daemon about the answers. */

#include "bidbrain/cloud/provider.h"
#include "tests/test.h"
#include "tests/unit/fake_ec2.h"

#include <poll.h>
#include <unistd.h>

#define TAG(key, value) "<item><key>" key "</key><value>" value "</value></item>"
#define TAGS(token)                                                                                                    \
    "<tagSet>" TAG("proteus:job", "ml-1m") TAG("proteus:token", token) TAG("proteus:tier", "transient") "</tagSet>"
#define STATE(name) "<instanceState><name>" name "</name></instanceState>"
#define MACHINE                                                                                                        \
    "<instanceType>c4.large</instanceType><placement><availabilityZone>us-east-1a</availabilityZone></placement>"
#define SPOT(request)                                                                                                  \
    "<instanceLifecycle>spot</instanceLifecycle><spotInstanceRequestId>" request "</spotInstanceRequestId>"
#define INSTANCE(id, in) "<item><instanceId>" id "</instanceId>" MACHINE in "</item>"
#define INSTANCES(in)                                                                                                  \
    "<DescribeInstancesResponse><reservationSet><item><instancesSet>" in                                               \
    "</instancesSet></item></reservationSet></DescribeInstancesResponse>"
#define REQUEST(id, state, code, in)                                                                                   \
    "<item><spotInstanceRequestId>" id "</spotInstanceRequestId><state>" state "</state><status><code>" code           \
    "</code><message>m</message></status><launchSpecification><instanceType>c4.large</instanceType></"                 \
    "launchSpecification>" in "</item>"
#define REQUEST_AT(id, state, code, at, in)                                                                            \
    "<item><spotInstanceRequestId>" id "</spotInstanceRequestId><state>" state "</state><status><code>" code           \
    "</code><updateTime>" at                                                                                           \
    "</updateTime></status><launchSpecification><instanceType>c4.large</instanceType></launchSpecification>" in        \
    "</item>"
#define REQUESTS(in)                                                                                                   \
    "<DescribeSpotInstanceRequestsResponse><spotInstanceRequestSet>" in                                                \
    "</spotInstanceRequestSet></DescribeSpotInstanceRequestsResponse>"
#define NAMES(id) "<instanceId>" id "</instanceId>"
#define ERROR_BODY(code)                                                                                               \
    "<Response><Errors><Error><Code>" code                                                                             \
    "</Code><Message>because</Message></Error></Errors><RequestID>r</RequestID>"                                       \
    "</Response>"
#define SCRIPT(...)                                                                                                    \
    do {                                                                                                               \
        static const struct fake_reply script_[] = {__VA_ARGS__};                                                      \
        fake_ec2_script(fake, script_, sizeof script_ / sizeof *script_);                                              \
    } while (0)

static struct fake_ec2 *fake;

/* ---- Reports as lines ---- */

enum { TOLD_MAX = 1 << 14 };

struct told {
    char lines[TOLD_MAX];
    int ends; /* number of listings, histories, outcomes and failures that have ended */
};

static struct told told;

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...) {
    va_list arguments;
    size_t used = strlen(told.lines);
    va_start(arguments, format);
    vsnprintf(told.lines + used, sizeof told.lines - used, format, arguments);
    va_end(arguments);
}

static void tell_price(void *context, const char *type, const char *zone, const char *product,
                       struct market_point point) {
    tell("price %s %s %s %lld %lld\n", type, zone, product, (long long)point.time, (long long)point.price);
}

static void tell_prices_end(void *context, bool whole) {
    tell("prices end %s\n", whole ? "whole" : "broken");
    told.ends++;
}

static void tell_outcome(void *context, const struct provider_outcome *outcome) {
    static const char *const names[] = {"waiting", "filled", "refused"};
    tell("outcome %s %s %u %s%s\n", outcome->token, names[outcome->state],
         outcome->state == LAUNCH_FILLED ? outcome->machines : 0, outcome->code, outcome->ours ? " ours" : "");
    told.ends++;
}

static void tell_machine(void *context, const struct provider_machine *machine) {
    static const char *const states[] = {"pending", "running", "stopping", "gone"};
    tell("machine %s %s %s %s %s %s%s%s\n", machine->id, machine->token,
         machine->kind == PROVIDER_SPOT ? "spot" : "on-demand", machine->type, machine->zone, states[machine->state],
         machine->noticed ? " noticed" : "", machine->evicted ? " evicted" : "");
    if (machine->ended != 0) {
        tell("... until %lld\n", (long long)machine->ended);
    }
}

static void tell_list_end(void *context, bool whole) {
    tell("list end %s\n", whole ? "whole" : "broken");
    told.ends++;
}

static void tell_failed(void *context, const char *text, bool lasting) {
    tell("failed %s\n", text);
    told.ends++;
}

static void tell_found(void *context, enum provider_finding finding, const char *key, const char *text) {
    static const char *const names[] = {"well", "warning", "error"};
    tell("%s %s: %s\n", names[finding], key, finding == PROVIDER_WELL ? "" : text);
}

static void tell_check_end(void *context) {
    tell("check end\n");
    told.ends++;
}

/* ---- A provider ---- */

static const char *subnet_of(const void *context, const char *zone) {
    return strcmp(zone, "us-east-1a") == 0 ? "subnet-a" : NULL;
}

static const char *const types[] = {"c4.large", "m3.large", NULL};
static const char *const groups[] = {"sg-1", "sg-2", NULL};
static const char *const arguments[] = {"--data", "it's here", NULL};

static struct provider_options options_of(enum provider_call call) {
    return (struct provider_options){.job = "ml-1m",
                                     .app = "mf",
                                     .arguments = arguments,
                                     .binary = "/opt/mf",
                                     .controller = "tcp://10.0.0.1:7000",
                                     .aws = {.region = "us-east-1", .endpoint = fake_ec2_url(fake)},
                                     .call = call,
                                     .image = "ami-1",
                                     .key_name = "k",
                                     .instance_profile = "node",
                                     .launch_template = "lt-1",
                                     .security_groups = groups,
                                     .subnet = subnet_of,
                                     .types = types,
                                     .product = "Linux/UNIX",
                                     .listener = {.price = tell_price,
                                                  .prices_end = tell_prices_end,
                                                  .outcome = tell_outcome,
                                                  .machine = tell_machine,
                                                  .list_end = tell_list_end,
                                                  .failed = tell_failed,
                                                  .found = tell_found,
                                                  .check_end = tell_check_end}};
}

static struct provider *opened(enum provider_call call) {
    struct provider *provider = NULL;
    struct error error = {0};
    struct provider_options options = options_of(call);
    if (provider_ec2_open(&provider, &options, &error) != 0) {
        fail_msg("%s", error.text);
    }
    told = (struct told){{0}, 0};
    return provider;
}

/* Runs until `ends` calls have ended and the whole script is used. */
static void run_until(struct provider *provider, int ends) {
    for (int turns = 0; told.ends < ends || fake_ec2_left(fake) > 0; turns++) {
        if (turns == 20000) {
            fail_msg("told: %s", told.lines);
        }
        struct pollfd waiting = {.fd = provider_fd(provider), .events = POLLIN};
        int wait_ms = provider_wait_ms(provider);
        (void)poll(&waiting, 1, wait_ms < 0 || wait_ms > 20 ? 20 : wait_ms);
        provider_step(provider);
    }
    assert_int_equal(fake_ec2_left(fake), 0);
}

static struct provider_launch launch_of(enum provider_kind kind, unsigned count, int64_t bid) {
    struct provider_launch launch = {.kind = kind, .count = count, .bid = bid};
    strcpy(launch.token, "token-1");
    strcpy(launch.type, "c4.large");
    strcpy(launch.zone, "us-east-1a");
    strcpy(launch.product, "Linux/UNIX");
    return launch;
}

static void assert_told(const char *lines) {
    assert_string_equal(told.lines, lines);
}

/* The nth form of an action contains the parameter; the value ends at the next parameter. */
static void assert_parameter(const char *action, size_t n, const char *parameter) {
    char wanted[300];
    const char *form = fake_ec2_form(fake, action, n);
    const char *at = form;
    snprintf(wanted, sizeof wanted, "&%s", parameter);
    size_t length = strlen(wanted);
    while ((at = strstr(at, wanted)) != NULL && at[length] != '&' && at[length] != '\0') {
        at += length;
    }
    if (at == NULL) {
        fail_msg("%s is not in %s", parameter, form);
    }
}

static void assert_no_parameter(const char *action, size_t n, const char *beginning) {
    char unwanted[100];
    snprintf(unwanted, sizeof unwanted, "&%s", beginning);
    assert_null(strstr(fake_ec2_form(fake, action, n), unwanted));
}

static int set_up(void **state) {
    static const char *const unset[] = {"AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2"};
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) {
        unsetenv(unset[i]);
    }
    setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
    fake = fake_ec2_open();
    return 0;
}

static int tear_down(void **state) {
    fake_ec2_close(fake);
    return 0;
}

/* ---- Prices ---- */

#define PRICE(time, price)                                                                                             \
    "<item><timestamp>" time "</timestamp><spotPrice>" price "</spotPrice><instanceType>c4.large</instanceType>"       \
    "<productDescription>Linux/UNIX</productDescription><availabilityZone>us-east-1a</availabilityZone></item>"
#define PRICES(in, token)                                                                                              \
    "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet>" in "</spotPriceHistorySet>" token                        \
    "</DescribeSpotPriceHistoryResponse>"

TEST(prices_are_read_page_by_page) {
    struct provider *provider = opened(PROVIDER_RUN_INSTANCES);
    SCRIPT({.action = "DescribeSpotPriceHistory",
            .status = 200,
            .body = PRICES(PRICE("2016-03-01T01:00:00.000Z", "0.02") "<item/>", "<nextToken>p 2</nextToken>")},
           {.action = "DescribeSpotPriceHistory",
            .status = 200,
            .body = PRICES("", "<nextToken>p3</nextToken>"),
            .asked = "&NextToken=p 2"},
           {.action = "DescribeSpotPriceHistory",
            .status = 200,
            .body = PRICES(PRICE("2016-02-28T00:00:00Z", "0.03"), "<nextToken></nextToken>"),
            .asked = "&NextToken=p3"});
    provider_prices(provider, 1456790400);
    provider_prices(provider, 1456790400); /* joins the first call */
    run_until(provider, 1);
    assert_told("price c4.large us-east-1a Linux/UNIX 1456794000 20000\n"
                "price c4.large us-east-1a Linux/UNIX 1456617600 30000\n"
                "prices end whole\n");
    assert_parameter("DescribeSpotPriceHistory", 0, "StartTime=2016-03-01T00:00:00Z");
    assert_parameter("DescribeSpotPriceHistory", 2, "StartTime=2016-03-01T00:00:00Z");
    assert_parameter("DescribeSpotPriceHistory", 0, "InstanceType.2=m3.large");
    assert_parameter("DescribeSpotPriceHistory", 0, "ProductDescription.1=Linux/UNIX");
    assert_parameter("DescribeSpotPriceHistory", 0, "MaxResults=1000");
    told = (struct told){{0}, 0};
    SCRIPT({.action = "DescribeSpotPriceHistory", .status = 200, .body = PRICES("", "<nextToken>x</nextToken>")},
           {.action = "DescribeSpotPriceHistory", .status = 400, .body = ERROR_BODY("InvalidNextToken")});
    provider_prices(provider, 0);
    run_until(provider, 2);
    assert_no_parameter("DescribeSpotPriceHistory", 0, "StartTime");
    assert_told("failed DescribeSpotPriceHistory: InvalidNextToken: because (request r)\nprices end broken\n");
    told = (struct told){{0}, 0};
    SCRIPT({.action = "DescribeSpotPriceHistory", .status = 200, .body = PRICES("", "<nextToken>x</nextToken>")},
           {.action = "DescribeSpotPriceHistory", .status = 200, .body = PRICES("", "<nextToken>x</nextToken>")});
    provider_prices(provider, 0);
    run_until(provider, 2);
    assert_told("failed DescribeSpotPriceHistory: its pages have no end\nprices end broken\n");
    provider_close(provider);
}

/* ---- Launches ---- */

#define RUN(in) "<RunInstancesResponse><instancesSet>" in "</instancesSet></RunInstancesResponse>"

TEST(machines_are_run) {
    struct provider *provider = opened(PROVIDER_RUN_INSTANCES);
    struct provider_launch launch = launch_of(PROVIDER_SPOT, 3, 105000);
    SCRIPT(
        {.action = "RunInstances", .status = 200, .body = RUN(INSTANCE("i-1", STATE("pending")) INSTANCE("i-2", ""))});
    provider_launch(provider, &launch);
    provider_launch(provider, &launch); /* a repeat of the same attempt */
    run_until(provider, 1);
    assert_told("machine i-1 token-1 spot c4.large us-east-1a pending\n"
                "machine i-2 token-1 spot c4.large us-east-1a pending\n"
                "outcome token-1 filled 2 \n");
    static const char *const parameters[] = {"ClientToken=token-1",
                                             "MinCount=1",
                                             "MaxCount=3",
                                             "ImageId=ami-1",
                                             "InstanceType=c4.large",
                                             "KeyName=k",
                                             "SecurityGroupId.1=sg-1",
                                             "SecurityGroupId.2=sg-2",
                                             "SubnetId=subnet-a",
                                             "Placement.AvailabilityZone=us-east-1a",
                                             "IamInstanceProfile.Name=node",
                                             "InstanceInitiatedShutdownBehavior=terminate",
                                             "InstanceMarketOptions.MarketType=spot",
                                             "InstanceMarketOptions.SpotOptions.SpotInstanceType=one-time",
                                             "InstanceMarketOptions.SpotOptions.MaxPrice=0.105",
                                             "TagSpecification.1.ResourceType=instance",
                                             "TagSpecification.1.Tag.1.Key=proteus:job",
                                             "TagSpecification.1.Tag.1.Value=ml-1m",
                                             "TagSpecification.1.Tag.2.Key=proteus:token",
                                             "TagSpecification.1.Tag.2.Value=token-1",
                                             "TagSpecification.1.Tag.3.Key=proteus:tier",
                                             "TagSpecification.1.Tag.3.Value=transient",
                                             "TagSpecification.1.Tag.4.Key=Name",
                                             "TagSpecification.2.ResourceType=spot-instances-request"};
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        assert_parameter("RunInstances", 0, parameters[i]);
    }
    assert_non_null(strstr(fake_ec2_form(fake, "RunInstances", 0), "&UserData=IyEvYmluL2Jhc2gK")); /* "#!/bin/bash\n" */
    told = (struct told){{0}, 0};
    SCRIPT({.action = "RunInstances", .status = 200, .body = RUN(INSTANCE("i-3", ""))});
    launch = launch_of(PROVIDER_ON_DEMAND, 1, 0);
    launch.reliable = true;
    strcpy(launch.zone, "us-east-1b");
    provider_launch(provider, &launch);
    run_until(provider, 1);
    assert_told("machine i-3 token-1 on-demand c4.large us-east-1b pending\noutcome token-1 filled 1 \n");
    assert_no_parameter("RunInstances", 0, "InstanceMarketOptions");
    assert_no_parameter("RunInstances", 0, "SubnetId");
    assert_no_parameter("RunInstances", 0, "TagSpecification.2");
    assert_parameter("RunInstances", 0, "TagSpecification.1.Tag.3.Value=reliable");
    provider_close(provider);
}

TEST(refused_launches_are_told) {
    static const struct {
        struct fake_reply reply;
        const char *told;
    } examples[] = {
        {{.action = "RunInstances", .status = 400, .body = ERROR_BODY("SpotMaxPriceTooLow")},
         "outcome token-1 refused 0 SpotMaxPriceTooLow\n"},
        {{.action = "RunInstances", .status = 500, .body = ERROR_BODY("InsufficientInstanceCapacity")},
         "outcome token-1 refused 0 InsufficientInstanceCapacity\n"},
        {{.action = "RunInstances", .status = 400, .body = ERROR_BODY("VcpuLimitExceeded")},
         "outcome token-1 refused 0 VcpuLimitExceeded\n"},
        {{.action = "RunInstances", .status = 400, .body = ERROR_BODY("MaxSpotInstanceCountExceeded")},
         "outcome token-1 refused 0 MaxSpotInstanceCountExceeded\n"},
        {{.action = "RunInstances", .status = 400, .body = ERROR_BODY("InvalidAMIID.NotFound")},
         "outcome token-1 refused 0 InvalidAMIID.NotFound ours\n"},
        {{.action = "RunInstances", .status = 403, .body = ERROR_BODY("UnauthorizedOperation")},
         "outcome token-1 refused 0 UnauthorizedOperation ours\n"},
        /* After these answers it is unknown whether machines were launched: no outcome. */
        {{.action = "RunInstances", .status = 403, .body = "<html>a proxy</html>"},
         "failed RunInstances: HTTP status 403 with a body of 20 bytes that is not an error of EC2\n"},
        {{.action = "RunInstances", .status = 200, .body = RUN("")},
         "failed RunInstances: the answer names no instance\n"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct provider *provider = opened(PROVIDER_RUN_INSTANCES);
        struct provider_launch launch = launch_of(PROVIDER_SPOT, 1, 0);
        fake_ec2_script(fake, &examples[i].reply, 1);
        provider_launch(provider, &launch);
        run_until(provider, 1);
        assert_told(examples[i].told);
        assert_no_parameter("RunInstances", 0, "InstanceMarketOptions.SpotOptions.MaxPrice");
        provider_close(provider);
    }
    struct provider *provider = opened(PROVIDER_RUN_INSTANCES);
    struct provider_launch launch = launch_of(PROVIDER_SPOT, PROVIDER_COUNT_MAX + 1, 0);
    SCRIPT({.action = "DescribeInstances", .status = 200, .body = INSTANCES("")},
           {.action = "DescribeSpotInstanceRequests", .status = 200, .body = REQUESTS("")});
    provider_launch(provider, &launch);
    assert_told(""); /* reported by the next step only */
    assert_int_equal(provider_wait_ms(provider), 0);
    provider_list(provider);
    run_until(provider, 2);
    assert_told("outcome token-1 refused 0 InvalidLaunch ours\nlist end whole\n");
    provider_close(provider);
}

/* A repeated launch finds the first attempt's machines as its own, even if the configuration has changed or a
 * machine has ended. */
TEST(repetitions_of_what_was_carried_out_find_it) {
    struct provider *provider = opened(PROVIDER_RUN_INSTANCES);
    struct provider_launch launch = launch_of(PROVIDER_ON_DEMAND, 2, 0);
    for (int found = 1; found >= 0; found--) {
        told = (struct told){{0}, 0};
        SCRIPT({.action = "RunInstances", .status = 400, .body = ERROR_BODY("IdempotentInstanceTerminated")},
               {.action = "DescribeSpotInstanceRequests",
                .status = 200,
                .body = REQUESTS(""),
                .asked = "&Filter.2.Name=tag:proteus:token&Filter.2.Value.1=token-1"},
               {.action = "DescribeInstances", .status = 200, .body = INSTANCES("")});
        if (found) {
            SCRIPT({.action = "RunInstances", .status = 400, .body = ERROR_BODY("IdempotentParameterMismatch")},
                   {.action = "DescribeSpotInstanceRequests", .status = 200, .body = REQUESTS("")},
                   {.action = "DescribeInstances",
                    .status = 200,
                    .body = INSTANCES(INSTANCE("i-1", STATE("running") TAGS("token-1"))),
                    .asked = "&Filter.2.Name=tag:proteus:token&Filter.2.Value.1=token-1"});
        }
        provider_launch(provider, &launch);
        run_until(provider, 2);
        assert_told(found ? "failed RunInstances: IdempotentParameterMismatch: because (request r)\n"
                            "machine i-1 token-1 on-demand c4.large us-east-1a running\noutcome token-1 filled 1 \n"
                          : "failed RunInstances: IdempotentInstanceTerminated: because (request r)\n"
                            "outcome token-1 refused 0 IdempotentInstanceTerminated\n");
    }
    provider_close(provider);
}

#define SPOT_ANSWER(in)                                                                                                \
    "<RequestSpotInstancesResponse><spotInstanceRequestSet>" in                                                        \
    "</spotInstanceRequestSet></RequestSpotInstancesResponse>"

TEST(spot_requests_wait_and_fill) {
    struct provider *provider = opened(PROVIDER_REQUEST_SPOT);
    struct provider_launch launch = launch_of(PROVIDER_SPOT, 2, 30000);
    SCRIPT({.action = "RequestSpotInstances",
            .status = 200,
            .body = SPOT_ANSWER(REQUEST("sir-1", "open", "pending-evaluation", "") REQUEST("sir-2", "open", "x", ""))});
    provider_launch(provider, &launch);
    run_until(provider, 1);
    assert_told("outcome token-1 waiting 0 \n");
    static const char *const parameters[] = {"ClientToken=token-1",
                                             "InstanceCount=2",
                                             "Type=one-time",
                                             "SpotPrice=0.03",
                                             "LaunchSpecification.ImageId=ami-1",
                                             "LaunchSpecification.InstanceType=c4.large",
                                             "LaunchSpecification.SecurityGroupId.2=sg-2",
                                             "LaunchSpecification.Placement.AvailabilityZone=us-east-1a",
                                             "LaunchSpecification.SubnetId=subnet-a",
                                             "LaunchSpecification.IamInstanceProfile.Name=node",
                                             "TagSpecification.1.ResourceType=spot-instances-request"};
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        assert_parameter("RequestSpotInstances", 0, parameters[i]);
    }
    assert_no_parameter("RequestSpotInstances", 0, "InstanceInitiatedShutdownBehavior");

    /* One request is filled: its instance has no tags yet, and is found by the request. */
    told = (struct told){{0}, 0};
    SCRIPT({.action = "DescribeSpotInstanceRequests",
            .status = 200,
            .body = REQUESTS(REQUEST("sir-1", "active", "fulfilled", NAMES("i-1") TAGS("token-1"))
                                 REQUEST("sir-2", "open", "price-too-low", TAGS("token-1"))),
            .asked = "&Filter.1.Name=tag:proteus:job&Filter.1.Value.1=ml-1m&MaxResults=1000"},
           {.action = "DescribeInstances",
            .status = 200,
            .body = INSTANCES(""),
            .asked = "&Filter.1.Name=tag:proteus:job&Filter.1.Value.1=ml-1m&MaxResults=1000"},
           {.action = "DescribeInstances",
            .status = 200,
            .body = INSTANCES(INSTANCE("i-1", STATE("running") SPOT("sir-1"))),
            .asked = "&Filter.1.Name=instance-id&Filter.1.Value.1=i-1"},
           {.action = "CreateTags",
            .status = 200,
            .body = "<CreateTagsResponse><return>true</return></CreateTagsResponse>",
            .asked = "&ResourceId.1=i-1&Tag.1.Key=proteus:job&Tag.1.Value=ml-1m&Tag.2.Key=proteus:token&Tag.2.Value="
                     "token-1&Tag.3.Key=proteus:tier&Tag.3.Value=transient&Tag.4.Key=Name"});
    provider_list(provider);
    run_until(provider, 2);
    assert_told("machine i-1 token-1 spot c4.large us-east-1a running\noutcome token-1 waiting 0 \nlist end whole\n");

    /* All requests are filled, but an instance can't be seen yet: pending. */
    told = (struct told){{0}, 0};
    SCRIPT({.action = "DescribeSpotInstanceRequests",
            .status = 200,
            .body = REQUESTS(REQUEST("sir-1", "active", "fulfilled", NAMES("i-1") TAGS("token-1"))
                                 REQUEST("sir-2", "active", "fulfilled", NAMES("i-2") TAGS("token-1")))},
           {.action = "DescribeInstances",
            .status = 200,
            .body = INSTANCES(INSTANCE("i-1", STATE("running") SPOT("sir-1") TAGS("token-1")))},
           {.action = "DescribeInstances", .status = 200, .body = INSTANCES(""), .asked = "Value.1=i-2"});
    provider_list(provider);
    run_until(provider, 2);
    assert_told("machine i-1 token-1 spot c4.large us-east-1a running\nmachine i-2 token-1 spot c4.large  pending\n"
                "outcome token-1 filled 2 \nlist end whole\n");
    provider_close(provider);
}

#define FLEET(in, errors)                                                                                              \
    "<CreateFleetResponse><fleetId>f</fleetId><fleetInstanceSet>" in "</fleetInstanceSet><errorSet>" errors            \
    "</errorSet></CreateFleetResponse>"
#define FLEET_ERROR(code)                                                                                              \
    "<item><errorCode>" code "</errorCode><errorMessage>m</errorMessage><lifecycle>spot</lifecycle></item>"

TEST(fleets_tell_errors_inside) {
    static const struct {
        struct fake_reply reply;
        const char *told;
    } examples[] = {
        {{.action = "CreateFleet",
          .status = 200,
          .body = FLEET("<item><instanceIds><item>i-1</item><item>i-2</item></instanceIds></item>",
                        FLEET_ERROR("InsufficientInstanceCapacity"))},
         "machine i-1 token-1 spot c4.large us-east-1a pending\nmachine i-2 token-1 spot c4.large us-east-1a pending\n"
         "outcome token-1 filled 2 \n"},
        {{.action = "CreateFleet", .status = 200, .body = FLEET("", FLEET_ERROR("InsufficientInstanceCapacity"))},
         "outcome token-1 refused 0 InsufficientInstanceCapacity\n"},
        {{.action = "CreateFleet", .status = 200, .body = FLEET("", FLEET_ERROR("InvalidFleetConfiguration"))},
         "outcome token-1 refused 0 InvalidFleetConfiguration ours\n"},
        {{.action = "CreateFleet", .status = 200, .body = "<CreateFleetResponse><errorSet/></CreateFleetResponse>"},
         "outcome token-1 refused 0 UnfulfillableCapacity\n"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct provider *provider = opened(PROVIDER_CREATE_FLEET);
        struct provider_launch launch = launch_of(PROVIDER_SPOT, 2, 30000);
        fake_ec2_script(fake, &examples[i].reply, 1);
        provider_launch(provider, &launch);
        run_until(provider, 1);
        assert_told(examples[i].told);
        provider_close(provider);
    }
    static const char *const parameters[] = {
        "Type=instant",
        "ClientToken=token-1",
        "TargetCapacitySpecification.TotalTargetCapacity=2",
        "TargetCapacitySpecification.DefaultTargetCapacityType=spot",
        "LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateId=lt-1",
        "LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=$Default",
        "LaunchTemplateConfigs.1.Overrides.1.InstanceType=c4.large",
        "LaunchTemplateConfigs.1.Overrides.1.SubnetId=subnet-a",
        "LaunchTemplateConfigs.1.Overrides.1.MaxPrice=0.03",
        "TagSpecification.1.ResourceType=instance",
        "TagSpecification.1.Tag.2.Value=token-1"};
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        assert_parameter("CreateFleet", 0, parameters[i]);
    }
}

/* ---- Listings ---- */

TEST(evictions_are_seen) {
    struct provider *provider = opened(PROVIDER_RUN_INSTANCES);
    SCRIPT(
        {.action = "DescribeSpotInstanceRequests",
         .status = 200,
         .body = REQUESTS(REQUEST("sir-1", "active", "marked-for-termination", NAMES("i-1") TAGS("t")) REQUEST(
             "sir-2", "closed", "instance-terminated-no-capacity", NAMES("i-2") TAGS("t"))
                              REQUEST("sir-3", "closed", "instance-terminated-by-user", NAMES("i-3") TAGS("t"))
                                  REQUEST("sir-9", "closed", "instance-terminated-by-price", NAMES("i-9") TAGS("t")))},
        {.action = "DescribeInstances",
         .status = 200,
         .body = INSTANCES(
             INSTANCE("i-1", STATE("running") SPOT("sir-1") TAGS("t"))
                 INSTANCE("i-2", STATE("running") SPOT("sir-2") TAGS("t"))
                     INSTANCE("i-3", STATE("terminated") SPOT("sir-3") TAGS("t"))
                         INSTANCE("i-4", STATE("terminated") SPOT("sir-4")
                                             TAGS("t") "<stateReason><code>Server.SpotInstanceTermination</"
                                                       "code><message>m</message></stateReason>")
                             INSTANCE("i-5", STATE("running") TAGS("u")) INSTANCE("i-6", STATE("dreaming") TAGS("u"))
                                 INSTANCE("i-7", STATE("running") SPOT("sir-7") TAGS("v")))},
        /* A fleet's request has no tags, so it is requested by its id. */
        {.action = "DescribeSpotInstanceRequests",
         .status = 200,
         .body = REQUESTS(REQUEST("sir-7", "active", "marked-for-termination", NAMES("i-7"))),
         .asked =
             "&Filter.1.Name=spot-instance-request-id&Filter.1.Value.1=sir-4&MaxResults=1000&Filter.1.Value.2=sir-7"});
    provider_list(provider);
    provider_list(provider); /* joins the first call */
    run_until(provider, 2);
    assert_told("machine i-1 t spot c4.large us-east-1a running noticed\n"
                "machine i-2 t spot c4.large us-east-1a running noticed evicted\n"
                "machine i-3 t spot c4.large us-east-1a gone\n"
                "machine i-4 t spot c4.large us-east-1a gone noticed evicted\n"
                "machine i-5 u on-demand c4.large us-east-1a running\n"
                "machine i-6 u on-demand c4.large us-east-1a pending\n"
                "machine i-7 v spot c4.large us-east-1a running noticed\n"
                "machine i-9 t spot c4.large  gone noticed evicted\n"
                "outcome t filled 4 \n"
                "list end whole\n");
    provider_close(provider);
}

static int64_t now_of_test(const void *context) {
    return INT64_C(1456797600); /* 2016-03-01T02:00:00Z */
}

/* A machine's end is the time in its reason, or that in its request's status. For a request closed within the hour
 * the instance is requested too, as it has the time from which it is paid. */
TEST(ends_are_told) {
    struct provider_options options = options_of(PROVIDER_REQUEST_SPOT);
    struct provider *provider;
    struct error error = {0};
    options.now = now_of_test;
    told = (struct told){0};
    assert_int_equal(provider_ec2_open(&provider, &options, &error), 0);
    SCRIPT({.action = "DescribeSpotInstanceRequests",
            .status = 200,
            .body = REQUESTS(REQUEST_AT("sir-1", "closed", "instance-terminated-by-price", "2016-03-01T01:00:01Z",
                                        NAMES("i-1") TAGS("t"))
                                 REQUEST_AT("sir-2", "closed", "instance-terminated-by-user", "2016-03-01T00:59:59Z",
                                            NAMES("i-2") TAGS("t")))},
           {.action = "DescribeInstances",
            .status = 200,
            .body = INSTANCES(INSTANCE("i-3", STATE("terminated") "<reason>User initiated (2016-03-01 01:30:00 GMT)"
                                                                  "</reason>" TAGS("u")))},
           {.action = "DescribeInstances",
            .status = 200,
            .body = INSTANCES(INSTANCE("i-1", STATE("terminated") SPOT("sir-1"))),
            .asked = "&Filter.1.Name=instance-id&Filter.1.Value.1=i-1&MaxResults"});
    provider_list(provider);
    run_until(provider, 2);
    assert_told("machine i-1 t spot c4.large us-east-1a gone noticed evicted\n... until 1456794001\n"
                "machine i-3 u on-demand c4.large us-east-1a gone\n... until 1456795800\n"
                "machine i-2 t spot c4.large  gone\n... until 1456793999\n"
                "outcome t filled 2 \n"
                "list end whole\n");
    provider_close(provider);
}

/* RequestSpotInstances tags only its request. A newly opened provider finds the instances by their request,
 * whichever of the two names the other, and tags them. */
TEST(machines_of_requests_are_tagged) {
    struct provider *provider = opened(PROVIDER_REQUEST_SPOT);
    SCRIPT({.action = "DescribeSpotInstanceRequests",
            .status = 200,
            .body = REQUESTS(REQUEST("sir-1", "active", "fulfilled", NAMES("i-1") TAGS("t"))
                                 REQUEST("sir-2", "active", "fulfilled", NAMES("i-2") TAGS("t")))},
           {.action = "DescribeInstances", .status = 200, .body = INSTANCES("")},
           {.action = "DescribeInstances",
            .status = 200,
            .body = INSTANCES(INSTANCE("i-1", STATE("running") SPOT("sir-1")) INSTANCE("i-2", STATE("pending")))},
           {.action = "CreateTags",
            .status = 200,
            .body = "<CreateTagsResponse><return>true</return></CreateTagsResponse>",
            .asked = "&ResourceId.1=i-1&Tag.1.Key=proteus:job&Tag.1.Value=ml-1m&Tag.2.Key=proteus:token&Tag.2."
                     "Value=t&Tag.3.Key=proteus:tier&Tag.3.Value=transient&"},
           {.action = "CreateTags",
            .status = 200,
            .body = "<CreateTagsResponse><return>true</return></CreateTagsResponse>",
            .asked = "&ResourceId.1=i-2&Tag.1.Key=proteus:job&Tag.1.Value=ml-1m&Tag.2.Key=proteus:token&Tag.2."
                     "Value=t&Tag.3.Key=proteus:tier&Tag.3.Value=transient&"});
    provider_list(provider);
    run_until(provider, 2);
    assert_told("machine i-1 t spot c4.large us-east-1a running\nmachine i-2 t spot c4.large us-east-1a pending\n"
                "outcome t filled 2 \nlist end whole\n");
    provider_close(provider);
}

TEST(listings_go_by_pages_and_may_break) {
    struct provider *provider = opened(PROVIDER_RUN_INSTANCES);
    SCRIPT({.action = "DescribeSpotInstanceRequests", .status = 400, .body = ERROR_BODY("InvalidParameterValue")},
           {.action = "DescribeInstances",
            .status = 200,
            .body = "<DescribeInstancesResponse><reservationSet><item><instancesSet>" INSTANCE(
                "i-2", STATE("running") TAGS("t")) "</instancesSet></item></reservationSet><nextToken>more</"
                                                   "nextToken></DescribeInstancesResponse>"},
           {.action = "DescribeInstances",
            .status = 200,
            .body = INSTANCES(INSTANCE("i-1", STATE("running") TAGS("t")) INSTANCE("i-2", STATE("running") TAGS("t"))),
            .asked = "&NextToken=more"});
    provider_list(provider);
    run_until(provider, 2);
    assert_told("failed DescribeSpotInstanceRequests: InvalidParameterValue: because (request r)\n"
                "machine i-1 t on-demand c4.large us-east-1a running\n"
                "machine i-2 t on-demand c4.large us-east-1a running\n"
                "list end broken\n");
    /* One request of a launch is known; another, which may still be open, is not: no outcome. */
    told = (struct told){{0}, 0};
    SCRIPT({.action = "DescribeSpotInstanceRequests",
            .status = 200,
            .body = "<DescribeSpotInstanceRequestsResponse><spotInstanceRequestSet>" REQUEST(
                "sir-1", "failed", "bad-parameters", TAGS("t")) "</spotInstanceRequestSet><nextToken>more</nextToken>"
                                                                "</DescribeSpotInstanceRequestsResponse>"},
           {.action = "DescribeSpotInstanceRequests", .status = 400, .body = ERROR_BODY("InvalidNextToken")},
           {.action = "DescribeInstances", .status = 200, .body = INSTANCES("")});
    provider_list(provider);
    run_until(provider, 2);
    assert_told("failed DescribeSpotInstanceRequests: InvalidNextToken: because (request r)\nlist end broken\n");
    provider_close(provider);
}

TEST(a_new_machine_that_is_not_shown_is_not_dead) {
    struct provider *provider = opened(PROVIDER_RUN_INSTANCES);
    struct provider_launch launch = launch_of(PROVIDER_ON_DEMAND, 1, 0);
    SCRIPT({.action = "RunInstances", .status = 200, .body = RUN(INSTANCE("i-1", ""))});
    provider_launch(provider, &launch);
    run_until(provider, 1);
    for (int round = 0; round < 3; round++) {
        told = (struct told){{0}, 0};
        SCRIPT({.action = "DescribeSpotInstanceRequests", .status = 200, .body = REQUESTS("")},
               {.action = "DescribeInstances", .status = 200, .body = INSTANCES("")});
        if (round == 1) {
            SCRIPT({.action = "DescribeSpotInstanceRequests", .status = 200, .body = REQUESTS("")},
                   {.action = "DescribeInstances",
                    .status = 200,
                    .body = INSTANCES(INSTANCE("i-1", STATE("running") TAGS("token-1")))});
        }
        provider_list(provider);
        run_until(provider, 1);
        assert_told(round == 0   ? "machine i-1 token-1 on-demand c4.large us-east-1a pending\nlist end whole\n"
                    : round == 1 ? "machine i-1 token-1 on-demand c4.large us-east-1a running\nlist end whole\n"
                                 : "list end whole\n");
    }
    provider_close(provider);
}

TEST(stopped_machines_are_given_back) {
    struct provider *provider = opened(PROVIDER_RUN_INSTANCES);
    SCRIPT(
        {.action = "DescribeSpotInstanceRequests", .status = 200, .body = REQUESTS("")},
        {.action = "DescribeInstances", .status = 200, .body = INSTANCES(INSTANCE("i-1", STATE("stopped") TAGS("t")))},
        {.action = "DescribeSpotInstanceRequests", .status = 200, .body = REQUESTS(""), .asked = "=instance-id&"},
        {.action = "TerminateInstances",
         .status = 200,
         .body = "<TerminateInstancesResponse/>",
         .asked = "&InstanceId.1=i-1"});
    provider_list(provider);
    run_until(provider, 1);
    assert_told("machine i-1 t on-demand c4.large us-east-1a stopping\nlist end whole\n");
    provider_close(provider);
}

TEST(looking_changes_nothing) {
    struct provider *provider = NULL;
    struct provider_options options = options_of(PROVIDER_RUN_INSTANCES);
    options.look_only = true;
    assert_int_equal(provider_ec2_open(&provider, &options, NULL), 0);
    told = (struct told){{0}, 0};
    SCRIPT(
        {.action = "DescribeSpotInstanceRequests",
         .status = 200,
         .body = REQUESTS(REQUEST("sir-1", "active", "fulfilled", NAMES("i-2") TAGS("t")))},
        {.action = "DescribeInstances", .status = 200, .body = INSTANCES(INSTANCE("i-1", STATE("stopped") TAGS("t")))},
        {.action = "DescribeInstances",
         .status = 200,
         .body = INSTANCES(INSTANCE("i-2", STATE("running") SPOT("sir-1")))});
    provider_list(provider);
    run_until(provider, 2);
    for (int turn = 0; turn < 20; turn++) {
        provider_step(provider);
        (void)poll(NULL, 0, 5);
    }
    assert_int_equal(fake_ec2_asked(fake, NULL), 3);
    assert_told("machine i-1 t on-demand c4.large us-east-1a stopping\n"
                "machine i-2 t spot c4.large us-east-1a running\noutcome t filled 1 \nlist end whole\n");
    provider_close(provider);
}

TEST(requests_alone_tell_of_machines) {
    struct provider *provider = opened(PROVIDER_REQUEST_SPOT);
    SCRIPT(
        {.action = "DescribeSpotInstanceRequests",
         .status = 200,
         .body = REQUESTS(REQUEST("sir-1", "cancelled", "request-canceled-and-instance-running", NAMES("i-1") TAGS("t"))
                              REQUEST("sir-2", "cancelled", "instance-terminated-by-user", NAMES("i-2") TAGS("t"))
                                  REQUEST("sir-3", "active", "fulfilled", NAMES("i-3") TAGS("t"))
                                      REQUEST("sir-4", "failed", "bad-parameters", TAGS("u"))
                                          REQUEST("sir-5", "open", "capacity-not-available", TAGS("v")))},
        {.action = "DescribeInstances", .status = 200, .body = INSTANCES("")},
        {.action = "DescribeInstances", .status = 200, .body = INSTANCES(""), .asked = "&Filter.1.Name=instance-id&"});
    provider_list(provider);
    run_until(provider, 4);
    assert_told("machine i-1 t spot c4.large  pending\nmachine i-2 t spot c4.large  gone\n"
                "machine i-3 t spot c4.large  pending\noutcome t filled 3 \noutcome u refused 0 bad-parameters ours\n"
                "outcome v waiting 0 \nlist end whole\n");
    provider_close(provider);
}

/* ---- Terminating machines ---- */

#define TERMINATE(id)                                                                                                  \
    "<TerminateInstancesResponse><instancesSet><item>" NAMES(id) "</item></instancesSet></TerminateInstancesResponse>"

TEST(requests_are_cancelled_before_machines_end) {
    static const char *const ids[] = {"i-1", "i-2"};
    struct provider *provider = opened(PROVIDER_REQUEST_SPOT);
    SCRIPT({.action = "DescribeSpotInstanceRequests",
            .status = 200,
            .body = REQUESTS(REQUEST("sir-1", "active", "fulfilled", NAMES("i-1"))
                                 REQUEST("sir-2", "closed", "x", NAMES("i-2"))),
            .asked = "&Filter.1.Name=instance-id&Filter.1.Value.1=i-1&MaxResults=1000&Filter.1.Value.2=i-2"},
           {.action = "CancelSpotInstanceRequests",
            .status = 200,
            .body = "<CancelSpotInstanceRequestsResponse/>",
            .asked = "&SpotInstanceRequestId.1=sir-1"},
           {.action = "TerminateInstances",
            .status = 400,
            .body = ERROR_BODY("OperationNotPermitted"),
            .asked = "&InstanceId.1=i-1&InstanceId.2=i-2"},
           {.action = "TerminateInstances", .status = 200, .body = TERMINATE("i-1"), .asked = "&InstanceId.1=i-1"},
           {.action = "TerminateInstances",
            .status = 400,
            .body = ERROR_BODY("InvalidInstanceID.NotFound"),
            .asked = "&InstanceId.1=i-2"});
    provider_terminate(provider, ids, 2);
    run_until(provider, 1);
    assert_no_parameter("CancelSpotInstanceRequests", 0, "SpotInstanceRequestId.2");
    assert_told("failed TerminateInstances: InvalidInstanceID.NotFound: because (request r)\n");
    /* A machine whose request can't be looked up is terminated nevertheless. */
    told = (struct told){{0}, 0};
    SCRIPT({.action = "DescribeSpotInstanceRequests", .status = 403, .body = ERROR_BODY("UnauthorizedOperation")},
           {.action = "TerminateInstances", .status = 200, .body = TERMINATE("i-1")});
    provider_terminate(provider, ids, 1);
    run_until(provider, 1);
    assert_told("failed DescribeSpotInstanceRequests: UnauthorizedOperation: because (request r)\n");
    provider_close(provider);
}

TEST(a_launch_is_withdrawn_and_its_catch_told) {
    struct provider *provider = opened(PROVIDER_REQUEST_SPOT);
    SCRIPT(
        {.action = "DescribeSpotInstanceRequests",
         .status = 200,
         .body = REQUESTS(REQUEST("sir-1", "open", "price-too-low", TAGS("t"))
                              REQUEST("sir-2", "active", "fulfilled", NAMES("i-2") TAGS("t"))),
         .asked = "&Filter.2.Name=tag:proteus:token&Filter.2.Value.1=t"},
        {.action = "CancelSpotInstanceRequests",
         .status = 200,
         .body = "<CancelSpotInstanceRequestsResponse/>",
         .asked = "&SpotInstanceRequestId.1=sir-1"},
        /* A race: the request was filled before it was cancelled. */
        {.action = "DescribeSpotInstanceRequests",
         .status = 200,
         .body = REQUESTS(REQUEST("sir-1", "cancelled", "request-canceled-and-instance-running", NAMES("i-1") TAGS("t"))
                              REQUEST("sir-2", "active", "fulfilled", NAMES("i-2") TAGS("t"))),
         .asked = "&Filter.2.Value.1=t"},
        {.action = "DescribeInstances",
         .status = 200,
         .body = INSTANCES(INSTANCE("i-2", STATE("running") SPOT("sir-2") TAGS("t"))),
         .asked = "&Filter.2.Value.1=t"},
        {.action = "DescribeInstances",
         .status = 200,
         .body = INSTANCES(INSTANCE("i-1", STATE("pending") SPOT("sir-1"))),
         .asked = "=i-1&"},
        {.action = "CreateTags", .status = 200, .body = "<CreateTagsResponse/>", .asked = "&ResourceId.1=i-1"});
    provider_cancel(provider, "t");
    run_until(provider, 1);
    assert_told("machine i-1 t spot c4.large us-east-1a pending\nmachine i-2 t spot c4.large us-east-1a running\n"
                "outcome t filled 2 \n");
    told = (struct told){{0}, 0};
    SCRIPT({.action = "DescribeSpotInstanceRequests",
            .status = 200,
            .body = REQUESTS(REQUEST("sir-1", "open", "price-too-low", TAGS("t")))},
           {.action = "CancelSpotInstanceRequests", .status = 200, .body = "<CancelSpotInstanceRequestsResponse/>"},
           {.action = "DescribeSpotInstanceRequests",
            .status = 200,
            .body = REQUESTS(REQUEST("sir-1", "cancelled", "canceled-before-fulfillment", TAGS("t")))},
           {.action = "DescribeInstances", .status = 200, .body = INSTANCES("")});
    provider_cancel(provider, "t");
    run_until(provider, 1);
    assert_told("outcome t refused 0 canceled-before-fulfillment\n");
    provider_close(provider);
}

/* ---- Opening and closing ---- */

static void assert_open_fails(struct provider_options options, const char *message) {
    struct provider *provider = NULL;
    struct error error = {0};
    assert_int_equal(provider_ec2_open(&provider, &options, &error), AML_EINPUT);
    assert_null(provider);
    if (strstr(error.text, message) == NULL) {
        fail_msg("%s: expected %s", error.text, message);
    }
}

TEST(wrong_options_are_explained) {
    struct provider_options options = options_of(PROVIDER_RUN_INSTANCES);
    options.job = "";
    assert_open_fails(options, "the job's name");
    options.job = "a\nb";
    assert_open_fails(options, "expected letters, digits");
    options = options_of(PROVIDER_RUN_INSTANCES);
    options.image = NULL;
    assert_open_fails(options, "no image");
    options = options_of(PROVIDER_CREATE_FLEET);
    options.launch_template = NULL;
    assert_open_fails(options, "create-fleet needs a launch template");
    options = options_of(PROVIDER_RUN_INSTANCES);
    options.user_data = "#!/bin/bash\n${appp}\n";
    assert_open_fails(options, "user data, line 2: no value is named ${appp}");
    options = options_of(PROVIDER_RUN_INSTANCES);
    options.aws.endpoint = "http://example.org";
    assert_open_fails(options, "plain http");
}

TEST(what_is_under_way_is_dropped) {
    static const char *const ids[] = {"i-1"};
    struct provider *provider = opened(PROVIDER_RUN_INSTANCES);
    struct provider_launch launch = launch_of(PROVIDER_SPOT, 1, 0);
    fake_ec2_script(fake, NULL, 0);
    provider_launch(provider, &launch);
    provider_list(provider);
    provider_prices(provider, 0);
    provider_terminate(provider, ids, 1);
    provider_cancel(provider, "t");
    provider_step(provider);
    provider_close(provider);
    assert_told("");
}

/* ---- Checks ---- */

#define NO_PRICES "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet/></DescribeSpotPriceHistoryResponse>"
#define IMAGE(in)                                                                                                      \
    "<DescribeImagesResponse><imagesSet><item><imageId>ami-1</imageId>" in                                             \
    "</item></imagesSet></DescribeImagesResponse>"
#define SUBNET(zone, left)                                                                                             \
    "<DescribeSubnetsResponse><subnetSet><item><subnetId>subnet-a</subnetId><vpcId>vpc-1</vpcId>"                      \
    "<availabilityZone>" zone "</availabilityZone><availableIpAddressCount>" left                                      \
    "</availableIpAddressCount></item></subnetSet></DescribeSubnetsResponse>"
#define GROUP(id)                                                                                                      \
    "<DescribeSecurityGroupsResponse><securityGroupInfo><item><groupId>" id "</groupId><vpcId>vpc-1</vpcId></item>"    \
    "</securityGroupInfo></DescribeSecurityGroupsResponse>"
#define SEEN                                                                                                           \
    {.action = "DescribeSpotPriceHistory", .status = 200, .body = NO_PRICES}, {                                        \
        .action = "DescribeSpotInstanceRequests", .status = 200, .body = REQUESTS("")                                  \
    }
#define DRY(name, code)                                                                                                \
    { .action = name, .status = 412, .body = ERROR_BODY(code), .asked = "&DryRun=true" }

static void check_told(enum provider_call call, size_t launches, const char *expected) {
    struct provider *provider = opened(call);
    struct provider_launch both[2] = {launch_of(PROVIDER_SPOT, 1, 0), launch_of(PROVIDER_ON_DEMAND, 1, 0)};
    provider_ec2_check(provider, both, launches, 1456790400);
    run_until(provider, 2); /* one end for the prices, one for the check */
    assert_told(expected);
    provider_close(provider);
}

/* All important calls are checked with DryRun, the termination on an existing machine. Calls that BidBrain can do
 * without may be denied. */
TEST(a_check_changes_nothing) {
    SCRIPT(SEEN, {.action = "DescribeInstances", .status = 200, .body = INSTANCES(INSTANCE("i-7", STATE("running")))},
           {.action = "DescribeImages", .status = 403, .body = ERROR_BODY("UnauthorizedOperation")},
           {.action = "DescribeSubnets", .status = 200, .body = SUBNET("us-east-1a", "9")},
           {.action = "DescribeSecurityGroups", .status = 200, .body = GROUP("sg-1"), .asked = "&GroupId.1=sg-1"},
           {.action = "DescribeSecurityGroups", .status = 200, .body = GROUP("sg-2"), .asked = "&GroupId.1=sg-2"},
           DRY("RunInstances", "DryRunOperation"), DRY("RunInstances", "DryRunOperation"),
           DRY("TerminateInstances", "DryRunOperation"));
    check_told(PROVIDER_RUN_INSTANCES, 2,
               "well endpoint: \nprices end whole\nwarning launch.image: not looked at: DescribeImages: "
               "UnauthorizedOperation: because\ncheck end\n");
    assert_parameter("TerminateInstances", 0, "InstanceId.1=i-7");
    assert_parameter("RunInstances", 0, "InstanceMarketOptions.MarketType=spot");
    assert_no_parameter("RunInstances", 1, "InstanceMarketOptions");
    assert_parameter("DescribeSpotPriceHistory", 0, "StartTime=2016-03-01T00:00:00Z");
}

TEST(a_check_tells_what_is_wrong) {
    SCRIPT(SEEN, {.action = "DescribeInstances", .status = 200, .body = INSTANCES(INSTANCE("i-7", STATE("running")))},
           {.action = "DescribeImages", .status = 200, .body = IMAGE("<platform>windows</platform>")},
           {.action = "DescribeSubnets", .status = 200, .body = SUBNET("us-east-1b", "0")},
           {.action = "DescribeSecurityGroups", .status = 400, .body = ERROR_BODY("InvalidGroup.NotFound")},
           {.action = "DescribeSecurityGroups", .status = 200, .body = GROUP("sg-2")},
           {.action = "RunInstances", .status = 400, .body = ERROR_BODY("InvalidGroup.NotFound")},
           {.action = "TerminateInstances", .status = 403, .body = ERROR_BODY("UnauthorizedOperation")});
    check_told(PROVIDER_RUN_INSTANCES, 1,
               "well endpoint: \nprices end whole\n"
               "error launch.image: 'ami-1' is of Windows: the start script needs Linux\n"
               "error launch.subnets.us-east-1a: 'subnet-a' is in us-east-1b: expected a subnet in us-east-1a\n"
               "error launch.subnets.us-east-1a: 'subnet-a' has no address left: no machine can start there\n"
               "error launch.security_groups[0]: DescribeSecurityGroups: InvalidGroup.NotFound: because\n"
               "error rights: TerminateInstances: UnauthorizedOperation: because\ncheck end\n");
    SCRIPT({.action = "DescribeSpotPriceHistory", .status = 403, .body = ERROR_BODY("UnauthorizedOperation")},
           {.action = "DescribeInstances", .status = 200, .body = INSTANCES("")},
           {.action = "DescribeSpotInstanceRequests", .status = 200, .body = REQUESTS("")},
           {.action = "DescribeImages", .status = 200, .body = IMAGE("<imageState>pending</imageState>")},
           {.action = "DescribeLaunchTemplates",
            .status = 400,
            .body = ERROR_BODY("InvalidLaunchTemplateId.NotFound"),
            .asked = "&LaunchTemplateId.1=lt-1"},
           {.action = "DescribeSecurityGroups", .status = 200, .body = GROUP("sg-1")},
           {.action = "DescribeSecurityGroups", .status = 200, .body = GROUP("sg-2")},
           {.action = "DescribeSubnets", .status = 200, .body = SUBNET("us-east-1a", "1")},
           DRY("CreateFleet", "DryRunOperation"),
           {.action = "TerminateInstances", .status = 400, .body = ERROR_BODY("InvalidInstanceID.NotFound")});
    check_told(
        PROVIDER_CREATE_FLEET, 1,
        "well endpoint: \n"
        "error rights: DescribeSpotPriceHistory: UnauthorizedOperation: because: expected a policy that allows it\n"
        "prices end broken\n"
        "error launch.image: 'ami-1' is pending: expected an image that is available\n"
        "error launch.launch_template: DescribeLaunchTemplates: InvalidLaunchTemplateId.NotFound: because\n"
        "check end\n");
}

/* After EC2 has rejected the credentials, no other request is sent. */
TEST(a_check_ends_where_nobody_is_let_in) {
    struct provider *provider = opened(PROVIDER_RUN_INSTANCES);
    const struct provider_launch launch = launch_of(PROVIDER_SPOT, 1, 0);
    SCRIPT({.action = "DescribeSpotPriceHistory", .status = 401, .body = ERROR_BODY("AuthFailure"), .clock = 500});
    provider_ec2_check(provider, &launch, 1, 1456790400);
    fake_ec2_wait(fake);
    for (int turns = 0; told.ends == 0 && turns < 2000; turns++) {
        provider_step(provider);
        (void)poll(NULL, 0, 5);
    }
    assert_non_null(strstr(told.lines, "check end\n"));
    assert_non_null(strstr(told.lines, "error credentials: "));
    assert_int_equal(fake_ec2_asked(fake, "DescribeInstances"), 0);
    provider_close(provider);
}

int main(void) {
    return tests_run(set_up, tear_down);
}
