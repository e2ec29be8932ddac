/* The provider `ec2`: checks whether EC2 would carry out the daemon's calls. It describes what the configuration names.
 * It makes launches and a termination with DryRun, for which EC2 only checks rights and parameters. One call at a time,
 * in the order of `enum check_step`. */
#include "bidbrain/cloud/ec2_private.h"

#include "agileml/base/instant.h"
#include "agileml/base/memory.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHECK_REPORTED_MAX = 64, /* most different failures that are reported */
    CHECK_FAILURE_TEXT = EC2_ACTION_TEXT + EC2_CODE_TEXT + EC2_LINE_TEXT + 8,
    CHECK_PAGES_MAX = 100,
    CHECK_CLOCK_WARN_S = 60,
    CHECK_CLOCK_MAX_S = 300, /* EC2 rejects older signatures */
};

/* An id that no instance has. */
#define CHECK_NO_INSTANCE "i-00000000000000000"

enum check_step {
    CHECK_PRICES,
    CHECK_INSTANCES,
    CHECK_REQUESTS,
    CHECK_IMAGE,
    CHECK_SUBNETS, /* one call for each subnet */
    CHECK_GROUPS,  /* one call for each group */
    CHECK_TEMPLATE,
    CHECK_LAUNCHES, /* one call for each launch */
    CHECK_TERMINATE,
    CHECK_STEPS
};

struct check_operation {
    struct operation operation;
    struct provider_launch *launches;
    size_t launch_count;
    int64_t now;
    enum check_step step;
    size_t at; /* index of the call in a step of several calls */
    unsigned pages;
    char action[EC2_ACTION_TEXT];
    char page[EC2_PAGE_TOKEN_TEXT];
    char vpc[EC2_ID_TEXT];      /* VPC of the subnets; "": unknown */
    char instance[EC2_ID_TEXT]; /* a machine of the job; "": none */
    bool answered;              /* EC2 has answered and accepted the caller */
    bool things_wrong;          /* something that launches use is wrong, so that they would fail */
    char reported[CHECK_REPORTED_MAX][CHECK_FAILURE_TEXT]; /* failures already reported */
    size_t reported_count;
};

static void check_free(struct operation *operation) {
    free(((struct check_operation *)operation)->launches);
    free(operation);
}

/* ---- Reporting ---- */

/* BidBrain itself never makes these calls, so a missing right for them is no error. */
static bool check_only_looks(const struct check_operation *check) {
    return check->step >= CHECK_IMAGE && check->step <= CHECK_TEMPLATE;
}

__attribute__((format(printf, 4, 5))) static void
check_found(struct check_operation *check, enum provider_finding finding, const char *key, const char *format, ...) {
    const struct provider_listener *listener = &check->operation.of->options.listener;
    char text[PROVIDER_LINE_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    check->things_wrong |= finding == PROVIDER_ERROR && check_only_looks(check);
    listener->found(listener->context, finding, key, text);
}

static void check_end(struct check_operation *check) {
    const struct provider_listener *listener = &check->operation.of->options.listener;
    operation_end(&check->operation);
    listener->check_end(listener->context);
}

/* Returns whether this failure was reported before. If not, remembers it. */
static bool check_reported(struct check_operation *check, const char *text) {
    for (size_t t = 0; t < check->reported_count; t++) {
        if (strcmp(check->reported[t], text) == 0) {
            return true;
        }
    }
    if (check->reported_count < CHECK_REPORTED_MAX) {
        snprintf(check->reported[check->reported_count++], CHECK_FAILURE_TEXT, "%s", text);
    }
    return false;
}

/* Returns the configuration key that the present call is about. */
static const char *check_key(const struct check_operation *check, char key[PROVIDER_CODE_TEXT]) {
    const char *const keys[CHECK_STEPS] = {[CHECK_PRICES] = "markets",
                                           [CHECK_INSTANCES] = "rights",
                                           [CHECK_REQUESTS] = "rights",
                                           [CHECK_IMAGE] = "launch.image",
                                           [CHECK_TEMPLATE] = "launch.launch_template",
                                           [CHECK_LAUNCHES] = "launch",
                                           [CHECK_TERMINATE] = "rights"};
    if (check->step == CHECK_SUBNETS) {
        snprintf(key, PROVIDER_CODE_TEXT, "launch.subnets.%s", check->launches[check->at].zone);
        return key;
    }
    if (check->step == CHECK_GROUPS) {
        snprintf(key, PROVIDER_CODE_TEXT, "launch.security_groups[%zu]", check->at);
        return key;
    }
    return keys[check->step];
}

/* Describes the present launch, such as " (m3.large in us-east-1a, spot)". */
static void check_launch_text(const struct check_operation *check, char text[PROVIDER_LINE_TEXT]) {
    const struct provider_launch *launch = &check->launches[check->at];
    snprintf(text, PROVIDER_LINE_TEXT, " (%s%s%s, %s)", launch->type, launch->zone[0] != '\0' ? " in " : "",
             launch->zone, launch->kind == PROVIDER_SPOT ? "spot" : "on demand");
}

/* ---- The clock ---- */

static void check_clock(struct check_operation *check) {
    int64_t ahead;
    if (!ec2_clock_ahead(check->operation.of->ec2, &ahead) || llabs(ahead) < CHECK_CLOCK_WARN_S) {
        return;
    }
    bool refused = llabs(ahead) > CHECK_CLOCK_MAX_S;
    check_found(check, refused ? PROVIDER_ERROR : PROVIDER_WARNING, "time of this computer",
                "%" PRIu64 " s %s EC2's, which refuses signatures that are %d s off: expected less than %d s; see "
                "whether NTP runs",
                (uint64_t)llabs(ahead), ahead > 0 ? "behind" : "ahead of", CHECK_CLOCK_MAX_S, CHECK_CLOCK_WARN_S);
}

/* ---- Failures ---- */

static bool check_is_denied(const struct ec2_failure *failure) {
    return strcmp(failure->code, "UnauthorizedOperation") == 0;
}

/* Ends the check, since the first call failed: EC2 can't be reached, or does not accept the caller. */
static void check_out_of_reach(struct check_operation *check, const struct ec2_failure *failure) {
    const struct ec2 *ec2 = check->operation.of->ec2;
    bool signature = strstr(failure->code, "Signature") != NULL;
    bool said_no = failure->status >= 400 && failure->status < 500;
    check_clock(check);
    check_found(check, PROVIDER_ERROR, said_no ? "credentials" : "endpoint", "%.80s: %s: %s%s%.150s%s%s",
                ec2_endpoint(ec2), check->action, failure->code, failure->code[0] != '\0' ? ": " : "", failure->text,
                signature ? ": expected the secret of this access key, and an endpoint of region " : "",
                signature ? ec2_region(ec2) : "");
    check_end(check);
}

/* EC2 should reject TerminateInstances for an unknown id because of the id. It rejects the call as unauthorized where
 * the right depends on the job's tag. */
static void check_end_refused(struct check_operation *check, const struct ec2_failure *failure, const char *line) {
    bool made_up = check->instance[0] == '\0';
    if (made_up && check_is_denied(failure)) {
        check_found(check, PROVIDER_WARNING, "rights",
                    "TerminateInstances: %s for an instance that does not exist: correct if the policy requires the "
                    "job's tag; otherwise machines could not be given back",
                    failure->code);
    } else if (strncmp(failure->code, "InvalidInstanceID", 17) != 0) {
        check_found(check, PROVIDER_ERROR, "rights", "%.260s", line);
    }
}

static void check_launch_failed(struct check_operation *check, const struct ec2_failure *failure, const char *line) {
    char which[PROVIDER_LINE_TEXT];
    bool denied = check_is_denied(failure);
    if (check->things_wrong && !denied) {
        return; /* their causes were already reported */
    }
    check_launch_text(check, which);
    check_found(check, provider_ec2_ours(failure->code) ? PROVIDER_ERROR : PROVIDER_WARNING,
                denied ? "rights" : "launch", "%.200s%.70s%s", line, which,
                denied ? ": expected a policy that allows it" : "");
}

static void check_failed(struct check_operation *check, const struct ec2_failure *failure) {
    char line[CHECK_FAILURE_TEXT];
    char key[PROVIDER_CODE_TEXT];
    bool denied = check_is_denied(failure);
    snprintf(line, sizeof line, "%s: %s%s%s", check->action, failure->code, failure->code[0] != '\0' ? ": " : "",
             failure->text);
    /* Rights differ between calls. Any other failure is the same for all launches. */
    bool alike = check->step == CHECK_LAUNCHES && !denied;
    if (strcmp(failure->code, "DryRunOperation") == 0 ||
        check_reported(check, alike ? line + strlen(check->action) : line)) {
        return;
    }
    if (check->step == CHECK_TERMINATE) {
        check_end_refused(check, failure, line);
    } else if (check->step == CHECK_LAUNCHES) {
        check_launch_failed(check, failure, line);
    } else if (check_only_looks(check) && denied) {
        check_found(check, PROVIDER_WARNING, check_key(check, key), "not looked at: %.250s", line);
    } else {
        check_found(check, PROVIDER_ERROR, denied ? "rights" : check_key(check, key), "%.250s%s", line,
                    denied ? ": expected a policy that allows it" : "");
    }
}

/* ---- What there is ---- */

static void check_read_prices(struct check_operation *check, struct xml_element root) {
    const struct provider_listener *listener = &check->operation.of->options.listener;
    struct xml_element set = xml_element_at(root, "spotPriceHistorySet");
    struct xml_element item = {0};
    struct ec2_price price;
    while (xml_element_next(set, "item", &item)) {
        if (ec2_price_read(item, &price)) {
            listener->price(listener->context, price.type, price.zone, price.product, price.point);
        }
    }
    if (ec2_page_token(root, check->page) != 1 || ++check->pages == CHECK_PAGES_MAX) {
        check->page[0] = '\0';
        listener->prices_end(listener->context, true);
    }
}

static void check_read_instances(struct check_operation *check, struct xml_element root) {
    struct xml_element set = xml_element_at(root, "reservationSet");
    struct xml_element reservation = {0};
    while (xml_element_next(set, "item", &reservation)) {
        struct xml_element items = xml_element_at(reservation, "instancesSet");
        struct xml_element item = {0};
        struct ec2_instance instance;
        while (xml_element_next(items, "item", &item)) {
            if (ec2_instance_read(item, &instance) && instance.state == EC2_INSTANCE_RUNNING) {
                memcpy(check->instance, instance.id, sizeof check->instance);
            }
        }
    }
}

static void check_read_image(struct check_operation *check, struct xml_element root) {
    const char *image = check->operation.of->options.image;
    struct xml_element item = xml_element_at(root, "imagesSet/item");
    const char *state = xml_text_at(item, "imageState");
    if (strcmp(xml_text_at(item, "imageId"), image) != 0) {
        check_found(check, PROVIDER_ERROR, "launch.image", "'%.60s': EC2 shows no such image", image);
    } else if (state[0] != '\0' && strcmp(state, "available") != 0) {
        check_found(check, PROVIDER_ERROR, "launch.image", "'%.60s' is %.60s: expected an image that is available",
                    image, state);
    } else if (strcmp(xml_text_at(item, "platform"), "windows") == 0) {
        check_found(check, PROVIDER_ERROR, "launch.image", "'%.60s' is of Windows: the start script needs Linux",
                    image);
    }
}

static void check_read_subnet(struct check_operation *check, struct xml_element root) {
    const struct provider_launch *launch = &check->launches[check->at];
    const char *subnet = provider_ec2_subnet(check->operation.of, launch);
    char key[PROVIDER_CODE_TEXT];
    struct xml_element item = xml_element_at(root, "subnetSet/item");
    const char *zone = xml_text_at(item, "availabilityZone");
    const char *vpc = xml_text_at(item, "vpcId");
    check_key(check, key);
    if (strcmp(xml_text_at(item, "subnetId"), subnet) != 0) {
        check_found(check, PROVIDER_ERROR, key, "'%.60s': EC2 shows no such subnet", subnet);
        return;
    }
    if (strcmp(zone, launch->zone) != 0) {
        check_found(check, PROVIDER_ERROR, key, "'%.60s' is in %.60s: expected a subnet in %.60s", subnet, zone,
                    launch->zone);
    }
    if (strcmp(xml_text_at(item, "availableIpAddressCount"), "0") == 0) {
        check_found(check, PROVIDER_ERROR, key, "'%.60s' has no address left: no machine can start there", subnet);
    }
    if (check->vpc[0] == '\0') {
        snprintf(check->vpc, sizeof check->vpc, "%s", vpc);
    } else if (strcmp(check->vpc, vpc) != 0) {
        check_found(check, PROVIDER_WARNING, key, "'%.60s' is in %.60s, another subnet in %.60s", subnet, vpc,
                    check->vpc);
    }
}

static void check_read_group(struct check_operation *check, struct xml_element root) {
    const char *group = check->operation.of->options.security_groups[check->at];
    struct xml_element item = xml_element_at(root, "securityGroupInfo/item");
    const char *vpc = xml_text_at(item, "vpcId");
    char key[PROVIDER_CODE_TEXT];
    check_key(check, key);
    if (strcmp(xml_text_at(item, "groupId"), group) != 0) {
        check_found(check, PROVIDER_ERROR, key, "'%.60s': EC2 shows no such security group", group);
    } else if (check->vpc[0] != '\0' && vpc[0] != '\0' && strcmp(vpc, check->vpc) != 0) {
        check_found(check, PROVIDER_ERROR, key, "'%.60s' is of %.60s, the subnets are of %.60s: expected one of theirs",
                    group, vpc, check->vpc);
    }
}

static void check_read(struct check_operation *check, struct xml_element root) {
    switch (check->step) {
    case CHECK_PRICES:
        check_read_prices(check, root);
        break;
    case CHECK_INSTANCES:
        check_read_instances(check, root);
        break;
    case CHECK_IMAGE:
        check_read_image(check, root);
        break;
    case CHECK_SUBNETS:
        check_read_subnet(check, root);
        break;
    case CHECK_GROUPS:
        check_read_group(check, root);
        break;
    default: /* the answer's content does not matter */
        break;
    }
}

/* ---- Asking ---- */

static struct ec2_request *check_prices_request(const struct check_operation *check) {
    const struct provider_options *options = &check->operation.of->options;
    struct ec2_request *request = ec2_request_new("DescribeSpotPriceHistory");
    char moment[INSTANT_TEXT_MAX];
    for (unsigned i = 0; options->types[i] != NULL; i++) {
        ec2_set(request, options->types[i], "InstanceType.%u", i + 1);
    }
    ec2_set(request, options->product, "ProductDescription.1");
    instant_format(check->now, moment);
    ec2_set(request, moment, "StartTime");
    ec2_set(request, moment, "EndTime");
    ec2_set_number(request, PROVIDER_EC2_PAGE, "MaxResults");
    ec2_set(request, check->page, "NextToken");
    return request;
}

static struct ec2_request *check_one(const char *action, const char *name, const char *id) {
    struct ec2_request *request = ec2_request_new(action);
    ec2_set(request, id, "%s", name);
    request->filtered = true;
    return request;
}

/* Returns the subnet of the launch at `at`; NULL if an earlier launch has the same subnet. */
static const char *check_subnet(const struct check_operation *check) {
    const struct provider *of = check->operation.of;
    const char *subnet = provider_ec2_subnet(of, &check->launches[check->at]);
    for (size_t l = 0; l < check->at && subnet != NULL; l++) {
        const char *other = provider_ec2_subnet(of, &check->launches[l]);
        if (other != NULL && strcmp(other, subnet) == 0 &&
            strcmp(check->launches[l].zone, check->launches[check->at].zone) == 0) {
            return NULL;
        }
    }
    return subnet;
}

static struct ec2_request *check_template_request(const struct provider_options *options) {
    const char *template = options->launch_template;
    bool id = template != NULL && strncmp(template, "lt-", 3) == 0;
    return template == NULL || options->call != PROVIDER_CREATE_FLEET
               ? NULL
               : check_one("DescribeLaunchTemplates", id ? "LaunchTemplateId.1" : "LaunchTemplateName.1", template);
}

static struct ec2_request *check_dry(struct ec2_request *request) {
    if (request != NULL) {
        ec2_set(request, "true", "DryRun");
    }
    return request;
}

/* Returns the present call's request; NULL: there is none. */
static struct ec2_request *check_request(const struct check_operation *check) {
    struct provider *of = check->operation.of;
    const struct provider_options *options = &of->options;
    const char *instance = check->instance[0] != '\0' ? check->instance : CHECK_NO_INSTANCE;
    switch (check->step) {
    case CHECK_PRICES:
        return check_prices_request(check);
    case CHECK_INSTANCES:
        return provider_ec2_page("DescribeInstances", "tag:proteus:job", options->job, "");
    case CHECK_REQUESTS:
        return provider_ec2_page("DescribeSpotInstanceRequests", "tag:proteus:job", options->job, "");
    case CHECK_IMAGE:
        return options->image != NULL ? check_one("DescribeImages", "ImageId.1", options->image) : NULL;
    case CHECK_SUBNETS: {
        const char *subnet = check_subnet(check);
        return subnet != NULL ? check_one("DescribeSubnets", "SubnetId.1", subnet) : NULL;
    }
    case CHECK_GROUPS:
        return check_one("DescribeSecurityGroups", "GroupId.1", options->security_groups[check->at]);
    case CHECK_TEMPLATE:
        return check_template_request(options);
    case CHECK_LAUNCHES:
        return check_dry(provider_ec2_launch_request(of, &check->launches[check->at]));
    default:
        return check_dry(check_one("TerminateInstances", "InstanceId.1", instance));
    }
}

/* Returns the number of calls in the present step. */
static size_t check_calls(const struct check_operation *check) {
    size_t groups = 0;
    while (check->operation.of->options.security_groups[groups] != NULL) {
        groups++;
    }
    return check->step == CHECK_SUBNETS || check->step == CHECK_LAUNCHES ? check->launch_count
           : check->step == CHECK_GROUPS                                 ? groups
                                                                         : 1;
}

static void check_answered(void *context, const struct ec2_answer *answer);

/* Makes the present call. If the present step has no call left, goes on to the next step that has one. */
static void check_ask(struct check_operation *check) {
    for (; check->step < CHECK_STEPS; check->step++, check->at = 0) {
        for (size_t count = check_calls(check); check->at < count; check->at++) {
            struct ec2_request *request = check_request(check);
            if (request != NULL) {
                memcpy(check->action, request->action, sizeof check->action);
                ec2_start(check->operation.of->ec2, request, check_answered, check);
                return;
            }
        }
    }
    check_clock(check);
    check_end(check);
}

static void check_answered(void *context, const struct ec2_answer *answer) {
    struct check_operation *check = context;
    const struct ec2_failure *failure = answer->failure;
    bool known = failure == NULL || check_is_denied(failure) || strncmp(failure->code, "InvalidParameter", 16) == 0;
    if (!check->answered && !known) {
        check_out_of_reach(check, failure);
        return;
    }
    if (!check->answered) {
        check->answered = true;
        check_found(check, PROVIDER_WELL, "endpoint", "%s answers", ec2_endpoint(check->operation.of->ec2));
    }
    if (failure != NULL) {
        check->page[0] = '\0';
        check_failed(check, failure);
        if (check->step == CHECK_PRICES) {
            const struct provider_listener *listener = &check->operation.of->options.listener;
            listener->prices_end(listener->context, false);
        }
    } else {
        check_read(check, answer->root);
    }
    if (check->page[0] != '\0') { /* another page of prices: the step goes on */
        check->at = 0;
    } else {
        check->at++;
    }
    check_ask(check);
}

void provider_ec2_check(struct provider *of, const struct provider_launch *launches, size_t count, int64_t now) {
    struct check_operation *check = memory_zeroed(1, sizeof *check);
    check->launches = memory_zeroed(count + 1, sizeof *check->launches);
    memcpy(check->launches, launches, count * sizeof *launches);
    check->launch_count = count;
    check->now = now;
    operation_begin(of, &check->operation, check_free);
    check_ask(check);
}
