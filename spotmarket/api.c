/* See api.h: finds the action, frames its answer. */
#include "spotmarket/api_private.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(struct api *api);
} ACTIONS[] = {
    {"CancelSpotInstanceRequests", api_cancel_spot_instance_requests},
    {"CreateFleet", api_create_fleet},
    {"CreateLaunchTemplate", api_create_launch_template},
    {"CreateLaunchTemplateVersion", api_create_launch_template_version},
    {"CreateTags", api_create_tags},
    {"DeleteLaunchTemplate", api_delete_launch_template},
    {"DescribeAvailabilityZones", api_describe_availability_zones},
    {"DescribeImages", api_describe_images},
    {"DescribeInstanceTypes", api_describe_instance_types},
    {"DescribeInstances", api_describe_instances},
    {"DescribeLaunchTemplates", api_describe_launch_templates},
    {"DescribeSecurityGroups", api_describe_security_groups},
    {"DescribeSpotInstanceRequests", api_describe_spot_instance_requests},
    {"DescribeSpotPriceHistory", api_describe_spot_price_history},
    {"DescribeSubnets", api_describe_subnets},
    {"DescribeTags", api_describe_tags},
    {"RequestSpotInstances", api_request_spot_instances},
    {"RunInstances", api_run_instances},
    {"TerminateInstances", api_terminate_instances},
};
enum { ACTION_COUNT = sizeof ACTIONS / sizeof *ACTIONS };

static int action_find(const char *name) {
    for (int a = 0; a < ACTION_COUNT; a++) {
        if (strcmp(ACTIONS[a].name, name) == 0) {
            return a;
        }
    }
    return -1;
}

const char *api_action(struct parameters *parameters) {
    const char *action = parameters_text(parameters, "Action");
    return action != NULL ? action : "";
}

bool api_known(const char *action) {
    return action_find(action) >= 0;
}

void api_error_document(struct text *answer, const struct api_error *error, const char *request_id) {
    text_add(answer, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error>");
    xml_text(answer, "Code", error->code);
    xml_text(answer, "Message", error->message);
    text_add(answer, "</Error></Errors>");
    xml_text(answer, "RequestID", request_id);
    text_add(answer, "</Response>");
}

int api_handle(struct api_state *state, struct parameters *parameters, const char *request_id, bool no_capacity,
               struct text *answer) {
    struct api api = {.state = state, .cloud = state->cloud, .parameters = *parameters, .no_capacity = no_capacity};
    api.error = *parameters->error;
    api.parameters.error = &api.error;
    api.action = api_action(&api.parameters);
    const char *version = parameters_required(&api.parameters, "Version");
    int action = action_find(api.action);
    if (api.error.status == 0 && strcmp(version, API_VERSION) != 0) {
        api_error_set(&api.error, 400, "NoSuchVersion",
                      "The requested version (%.40s) of service AmazonEC2 does not "
                      "exist",
                      version);
    } else if (api.action[0] == '\0') {
        api_error_set(&api.error, 400, "MissingAction", "The request must contain the parameter Action");
    } else if (action < 0) {
        api_error_set(&api.error, 400, "InvalidAction", "The action %.80s is not valid for this web service.",
                      api.action);
    }
    if (api.error.status == 0) {
        ACTIONS[action].run(&api);
    }
    int status = api.error.status != 0 ? api.error.status : 200;
    if (api.error.status != 0) {
        api_error_document(answer, &api.error, request_id);
    } else {
        text_format(answer,
                    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<%sResponse "
                    "xmlns=\"http://ec2.amazonaws.com/doc/" API_VERSION "/\">",
                    api.action);
        xml_text(answer, "requestId", request_id);
        text_add(answer, api.body.data != NULL ? api.body.data : "");
        text_format(answer, "</%sResponse>", api.action);
    }
    text_close(&api.body);
    return status;
}

void api_state_close(struct api_state *state) {
    for (size_t t = 0; t < state->template_count; t++) {
        launch_template_close(&state->templates[t]);
    }
    free(state->templates);
    resources_close(&state->resources);
    *state = (struct api_state){0};
}
