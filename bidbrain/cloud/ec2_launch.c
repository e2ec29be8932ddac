/* The provider `ec2`: requests machines by one of three calls. Each has the launch's token as ClientToken, by which EC2
 * recognizes a retry. Each sets tags, by which listings find the machines and requests. */
#include "bidbrain/cloud/ec2_private.h"

#include "agileml/base/clock.h"
#include "agileml/base/memory.h"
#include "bidbrain/cloud/user_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct launch_operation {
    struct operation operation;
    struct provider_launch launch;
    const char *action; /* name of the call */
};

/* ---- What the calls have in common ---- */

static const char *launch_tier(const struct provider_launch *launch) {
    return launch->reliable ? "reliable" : "transient";
}

const char *provider_ec2_subnet(const struct provider *of, const struct provider_launch *launch) {
    return of->options.subnet == NULL ? NULL : of->options.subnet(of->options.context, launch->zone);
}

/* Adds the machine's parameters; `prefix` is "" for RunInstances, "LaunchSpecification." for RequestSpotInstances. */
static void launch_set_machine(struct provider *of, struct ec2_request *request, const struct provider_launch *launch,
                               const char *prefix, const char *user_data) {
    const struct provider_options *options = &of->options;
    const char *profile = options->instance_profile;
    ec2_set(request, options->image, "%sImageId", prefix);
    ec2_set(request, launch->type, "%sInstanceType", prefix);
    ec2_set(request, options->key_name, "%sKeyName", prefix);
    for (unsigned i = 0; options->security_groups[i] != NULL; i++) {
        ec2_set(request, options->security_groups[i], "%sSecurityGroupId.%u", prefix, i + 1);
    }
    ec2_set(request, launch->zone, "%sPlacement.AvailabilityZone", prefix);
    ec2_set(request, provider_ec2_subnet(of, launch), "%sSubnetId", prefix);
    if (profile != NULL) {
        ec2_set(request, profile, "%sIamInstanceProfile.%s", prefix, strncmp(profile, "arn:", 4) == 0 ? "Arn" : "Name");
    }
    ec2_set_base64(request, user_data, strlen(user_data), "%sUserData", prefix);
}

static void launch_set_tags(struct provider *of, struct ec2_request *request, const struct provider_launch *launch,
                            unsigned number, const char *resource) {
    char prefix[EC2_ID_TEXT];
    snprintf(prefix, sizeof prefix, "TagSpecification.%u.Tag", number);
    ec2_set(request, resource, "TagSpecification.%u.ResourceType", number);
    provider_ec2_tags(of, request, prefix, launch->token, launch_tier(launch));
}

/* Adds the bid in dollars. Without a bid, EC2's cap is the on-demand price. */
static void launch_set_bid(struct ec2_request *request, const struct provider_launch *launch, const char *name) {
    char text[PRICE_TEXT_MAX];
    if (launch->bid > 0) {
        price_format(launch->bid, text);
        ec2_set(request, text, "%s", name);
    }
}

/* ---- The calls ---- */

static struct ec2_request *launch_run_instances(struct provider *of, const struct provider_launch *launch,
                                                const char *user_data) {
    struct ec2_request *request = ec2_request_new("RunInstances");
    ec2_set(request, launch->token, "ClientToken");
    ec2_set_number(request, 1, "MinCount");
    ec2_set_number(request, launch->count, "MaxCount");
    launch_set_machine(of, request, launch, "", user_data);
    ec2_set(request, "terminate", "InstanceInitiatedShutdownBehavior");
    ec2_set(request, "required", "MetadataOptions.HttpTokens"); /* only version 2, and not from containers: */
    ec2_set(request, "1", "MetadataOptions.HttpPutResponseHopLimit");
    launch_set_tags(of, request, launch, 1, "instance");
    if (launch->kind == PROVIDER_SPOT) {
        ec2_set(request, "spot", "InstanceMarketOptions.MarketType");
        ec2_set(request, "one-time", "InstanceMarketOptions.SpotOptions.SpotInstanceType");
        ec2_set(request, "terminate", "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior");
        launch_set_bid(request, launch, "InstanceMarketOptions.SpotOptions.MaxPrice");
        launch_set_tags(of, request, launch, 2, "spot-instances-request");
    }
    return request;
}

static struct ec2_request *launch_request_spot(struct provider *of, const struct provider_launch *launch,
                                               const char *user_data) {
    struct ec2_request *request = ec2_request_new("RequestSpotInstances");
    ec2_set(request, launch->token, "ClientToken");
    ec2_set_number(request, launch->count, "InstanceCount");
    ec2_set(request, "one-time", "Type");
    ec2_set(request, "terminate", "InstanceInterruptionBehavior");
    launch_set_bid(request, launch, "SpotPrice");
    launch_set_machine(of, request, launch, "LaunchSpecification.", user_data);
    launch_set_tags(of, request, launch, 1, "spot-instances-request");
    return request;
}

static struct ec2_request *launch_create_fleet(struct provider *of, const struct provider_launch *launch) {
    static const char override[] = "LaunchTemplateConfigs.1.Overrides.1.";
    const char *template = of->options.launch_template;
    const char *subnet = provider_ec2_subnet(of, launch);
    struct ec2_request *request = ec2_request_new("CreateFleet");
    ec2_set(request, launch->token, "ClientToken");
    ec2_set(request, "instant", "Type");
    ec2_set_number(request, launch->count, "TargetCapacitySpecification.TotalTargetCapacity");
    ec2_set(request, "spot", "TargetCapacitySpecification.DefaultTargetCapacityType");
    ec2_set(request, "terminate", "SpotOptions.InstanceInterruptionBehavior");
    ec2_set(request, template, "LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplate%s",
            strncmp(template, "lt-", 3) == 0 ? "Id" : "Name");
    ec2_set(request, "$Default", "LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version");
    ec2_set(request, launch->type, "%sInstanceType", override);
    ec2_set(request, subnet, "%sSubnetId", override);
    if (subnet == NULL) { /* a subnet implies its zone; EC2 rejects a call with both */
        ec2_set(request, launch->zone, "%sAvailabilityZone", override);
    }
    ec2_set(request, of->options.image, "%sImageId", override);
    launch_set_bid(request, launch, "LaunchTemplateConfigs.1.Overrides.1.MaxPrice");
    launch_set_tags(of, request, launch, 1, "instance");
    return request;
}

/* ---- Answers ---- */

bool provider_ec2_ours(const char *code) {
    static const char *const not_ours[] = {"SpotMaxPriceTooLow",
                                           "Unsupported",
                                           "UnfulfillableCapacity",
                                           "InternalError",
                                           "InternalFailure",
                                           "ServerInternal",
                                           "Unavailable",
                                           "ServiceUnavailable",
                                           "PendingVerification",
                                           "ConcurrentTagAccess",
                                           ""};
    static const char *const endings[] = {"LimitExceeded", "CountExceeded", "Throttling", "ThrottledException"};
    size_t length = strlen(code);
    for (size_t i = 0; i < sizeof not_ours / sizeof *not_ours; i++) {
        if (strcmp(code, not_ours[i]) == 0) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t ending = strlen(endings[i]);
        if (length >= ending && strcmp(code + length - ending, endings[i]) == 0) {
            return false;
        }
    }
    return strstr(code, "Insufficient") == NULL;
}

static struct provider_outcome launch_refused(const struct provider_launch *launch, const char *code,
                                              const char *text) {
    struct provider_outcome outcome = {.state = LAUNCH_REFUSED, .ours = provider_ec2_ours(code)};
    struct ec2_failure failure = {0};
    ec2_failure_text(&failure, text);
    snprintf(outcome.token, sizeof outcome.token, "%s", launch->token);
    snprintf(outcome.code, sizeof outcome.code, "%s", code);
    snprintf(outcome.text, sizeof outcome.text, "%s", failure.text);
    return outcome;
}

static struct provider_outcome launch_filled(const struct provider_launch *launch, unsigned machines) {
    struct provider_outcome outcome = {.state = LAUNCH_FILLED, .machines = machines};
    snprintf(outcome.token, sizeof outcome.token, "%s", launch->token);
    return outcome;
}

/* Reports a machine from the answer, since listings may show it only later. */
static void launch_tell_machine(struct provider *of, const struct provider_launch *launch, const char *id,
                                int64_t launched) {
    struct provider_machine machine = {.kind = launch->kind, .state = MACHINE_PENDING, .launched = launched};
    snprintf(machine.id, sizeof machine.id, "%s", id);
    snprintf(machine.token, sizeof machine.token, "%s", launch->token);
    snprintf(machine.type, sizeof machine.type, "%s", launch->type);
    snprintf(machine.zone, sizeof machine.zone, "%s", launch->zone);
    if (of->fresh_count == of->fresh_capacity && of->fresh_capacity < PROVIDER_EC2_FRESH_MAX) {
        of->fresh_capacity = of->fresh_capacity == 0 ? 16 : of->fresh_capacity * 2;
        of->fresh = memory_resized(of->fresh, of->fresh_capacity, sizeof *of->fresh);
    }
    if (of->fresh_count < of->fresh_capacity) {
        of->fresh[of->fresh_count++] =
            (struct fresh_machine){machine, monotonic_us() + PROVIDER_EC2_FRESH_S * UINT64_C(1000000)};
    }
    provider_ec2_machine(of, &machine);
}

static unsigned launch_instances(struct provider *of, const struct provider_launch *launch, struct xml_element root) {
    struct xml_element set = xml_element_at(root, "instancesSet");
    struct xml_element item = {0};
    struct ec2_instance instance;
    unsigned count = 0;
    while (xml_element_next(set, "item", &item)) {
        if (ec2_instance_read(item, &instance)) {
            launch_tell_machine(of, launch, instance.id, instance.launched);
            count++;
        }
    }
    return count;
}

static unsigned launch_fleet_instances(struct provider *of, const struct provider_launch *launch,
                                       struct xml_element root) {
    struct xml_element pools = xml_element_at(root, "fleetInstanceSet");
    struct xml_element pool = {0};
    unsigned count = 0;
    while (xml_element_next(pools, "item", &pool)) {
        struct xml_element ids = xml_element_at(pool, "instanceIds");
        struct xml_element id = {0};
        while (xml_element_next(ids, "item", &id)) {
            size_t length = strlen(xml_element_text(id));
            if (length > 0 && length < EC2_ID_TEXT) {
                launch_tell_machine(of, launch, xml_element_text(id), 0);
                count++;
            }
        }
    }
    return count;
}

/* Reports whether the requests are open or filled. Listings find, tag and report their instances. */
static void launch_requests(struct provider *of, const struct provider_launch *launch, struct xml_element root) {
    struct ec2_spot_request *requests = memory_zeroed(PROVIDER_COUNT_MAX, sizeof *requests);
    struct xml_element set = xml_element_at(root, "spotInstanceRequestSet");
    struct xml_element item = {0};
    size_t count = 0;
    while (count < PROVIDER_COUNT_MAX && xml_element_next(set, "item", &item)) {
        if (ec2_spot_request_read(item, &requests[count])) {
            snprintf(requests[count].tags.token, sizeof requests[count].tags.token, "%s", launch->token);
            count++;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (requests[i].instance[0] != '\0') {
            struct provider_machine machine = provider_ec2_machine_of_request(&requests[i]);
            provider_ec2_machine(of, &machine);
        }
    }
    if (count > 0) {
        struct provider_outcome outcome = provider_ec2_outcome_of(requests, count);
        provider_ec2_outcome(of, &outcome);
    } else {
        provider_ec2_failed_text(of, "RequestSpotInstances", "the answer names no request");
    }
    free(requests);
}

static void launch_succeeded(struct provider *of, const struct launch_operation *launch, struct xml_element root) {
    const struct provider_launch *asked = &launch->launch;
    if (strcmp(launch->action, "RequestSpotInstances") == 0) {
        launch_requests(of, asked, root);
        return;
    }
    bool fleet = strcmp(launch->action, "CreateFleet") == 0;
    unsigned machines = fleet ? launch_fleet_instances(of, asked, root) : launch_instances(of, asked, root);
    struct xml_element error = xml_element_at(root, "errorSet/item");
    if (machines > 0) {
        struct provider_outcome outcome = launch_filled(asked, machines);
        provider_ec2_outcome(of, &outcome);
    } else if (fleet) {
        char code[PROVIDER_CODE_TEXT];
        if (xml_copy_at(error, "errorCode", code, sizeof code) != 0) {
            strcpy(code, "UnfulfillableCapacity");
        }
        struct provider_outcome outcome = launch_refused(asked, code, xml_text_at(error, "errorMessage"));
        provider_ec2_outcome(of, &outcome);
    } else {
        provider_ec2_failed_text(of, launch->action, "the answer names no instance");
    }
}

/* Returns the code if it means that a launch with this token was carried out before, else NULL. EC2 returns such a code
 * when the configuration has changed since, or the machine has ended. */
static const char *launch_carried_out(const char *code) {
    static const char *const codes[] = {"IdempotentParameterMismatch", "IdempotentInstanceTerminated"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(code, codes[i]) == 0) {
            return codes[i];
        }
    }
    return NULL;
}

static void launch_answered(void *context, const struct ec2_answer *answer) {
    struct launch_operation *launch = context;
    struct provider *of = launch->operation.of;
    const struct ec2_failure *failure = answer->failure;
    if (failure == NULL) {
        launch_succeeded(of, launch, answer->root);
    } else if (launch_carried_out(failure->code) != NULL) {
        provider_ec2_failed(of, launch->action, failure);
        provider_ec2_list_token(of, launch->launch.token, launch_carried_out(failure->code));
    } else if (answer->refused) {
        struct provider_outcome outcome = launch_refused(&launch->launch, failure->code, failure->text);
        provider_ec2_outcome(of, &outcome);
    } else {
        provider_ec2_failed(of, launch->action, failure);
    }
    operation_end(&launch->operation);
}

/* ---- Requests ---- */

static void launch_free(struct operation *operation) {
    free(operation);
}

static bool launch_under_way(const struct provider *of, const char *token) {
    for (const struct operation *at = of->operations; at != NULL; at = at->next) {
        if (at->free == launch_free && strcmp(((const struct launch_operation *)at)->launch.token, token) == 0) {
            return true;
        }
    }
    return false;
}

struct ec2_request *provider_ec2_launch_request(struct provider *of, const struct provider_launch *launch) {
    bool spot = launch->kind == PROVIDER_SPOT;
    struct error error = {0};
    char *user_data = NULL;
    struct ec2_request *request = NULL;
    if (launch->token[0] == '\0' || launch->count == 0 || launch->count > PROVIDER_COUNT_MAX) {
        (void)error_set(&error, AML_EINPUT, "a launch needs a token and 1 to %d machines", PROVIDER_COUNT_MAX);
    } else if (spot && of->options.call == PROVIDER_CREATE_FLEET) {
        return launch_create_fleet(of, launch); /* user data is in the launch template */
    } else if (of->options.image == NULL) {
        (void)error_set(&error, AML_EINPUT, "no image to start machines from");
    } else if (user_data_render(&of->options, launch, &user_data, &error) == 0) {
        request = spot && of->options.call == PROVIDER_REQUEST_SPOT ? launch_request_spot(of, launch, user_data)
                                                                    : launch_run_instances(of, launch, user_data);
        explicit_bzero(user_data, strlen(user_data));
        free(user_data);
    }
    if (request == NULL) {
        struct provider_outcome outcome = launch_refused(launch, "InvalidLaunch", error.text);
        provider_ec2_defer(of, &outcome);
    }
    return request;
}

void provider_launch(struct provider *of, const struct provider_launch *launch) {
    struct ec2_request *request = launch_under_way(of, launch->token) ? NULL : provider_ec2_launch_request(of, launch);
    if (request == NULL) {
        return;
    }
    struct launch_operation *operation = memory_zeroed(1, sizeof *operation);
    operation->launch = *launch;
    operation->action = launch->kind == PROVIDER_ON_DEMAND          ? "RunInstances"
                        : of->options.call == PROVIDER_REQUEST_SPOT ? "RequestSpotInstances"
                        : of->options.call == PROVIDER_CREATE_FLEET ? "CreateFleet"
                                                                    : "RunInstances";
    operation_begin(of, &operation->operation, launch_free);
    ec2_start(of->ec2, request, launch_answered, operation);
}
