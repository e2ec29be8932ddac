/* The provider `ec2`: its life cycle, and what its parts share. See provider.h and ec2_private.h. */
#include "bidbrain/cloud/ec2_private.h"

#include "agileml/base/memory.h"
#include "bidbrain/cloud/user_data.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EC2_TAG_VALUE_MAX = 128 }; /* most characters of the job's name: half of what a tag's value may have */

/* ---- Options ---- */

static int options_check(const struct provider_options *options, struct error *error) {
    if (options->job == NULL || options->job[0] == '\0' || strlen(options->job) > EC2_TAG_VALUE_MAX) {
        return error_set(error, AML_EINPUT,
                         "the job's name is the value of a tag on its machines: expected 1 to %d bytes",
                         EC2_TAG_VALUE_MAX);
    }
    for (const char *c = options->job; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && strchr("-_.:/+@ ", *c) == NULL) {
            return error_set(error, AML_EINPUT, "job '%.60s': expected letters, digits, spaces and -_.:/+@ alone",
                             options->job);
        }
    }
    if (options->call == PROVIDER_CREATE_FLEET && options->launch_template == NULL) {
        return error_set(error, AML_EINPUT, "create-fleet needs a launch template: expected its id or name");
    }
    if (options->call != PROVIDER_CREATE_FLEET && options->image == NULL) {
        return error_set(error, AML_EINPUT, "no image to start machines from: expected an id such as ami-0abc");
    }
    /* Finds mistakes in the template now, not at the first launch. */
    const struct provider_launch launch = {.token = "0", .count = 1};
    char *text = NULL;
    int result = options->image == NULL ? 0 : user_data_render(options, &launch, &text, error);
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
        free(text);
    }
    return result;
}

/* ---- Operations and reports ---- */

void operation_begin(struct provider *of, struct operation *operation, void (*free_it)(struct operation *)) {
    operation->of = of;
    operation->free = free_it;
    operation->next = of->operations;
    of->operations = operation;
}

void operation_end(struct operation *operation) {
    struct operation **at = &operation->of->operations;
    while (*at != operation) {
        at = &(*at)->next;
    }
    *at = operation->next;
    operation->free(operation);
}

void provider_ec2_failed(struct provider *of, const char *action, const struct ec2_failure *failure) {
    char line[PROVIDER_LINE_TEXT];
    ec2_failure_line(failure, action, line, sizeof line);
    of->options.listener.failed(of->options.listener.context, line, failure->lasting);
}

void provider_ec2_failed_text(struct provider *of, const char *action, const char *text) {
    struct ec2_failure failure = {0};
    ec2_failure_text(&failure, text);
    provider_ec2_failed(of, action, &failure);
}

void provider_ec2_machine(struct provider *of, const struct provider_machine *machine) {
    of->options.listener.machine(of->options.listener.context, machine);
}

void provider_ec2_outcome(struct provider *of, const struct provider_outcome *outcome) {
    of->options.listener.outcome(of->options.listener.context, outcome);
}

void provider_ec2_defer(struct provider *of, const struct provider_outcome *outcome) {
    of->deferred = memory_resized(of->deferred, of->deferred_count + 1, sizeof *of->deferred);
    of->deferred[of->deferred_count++] = *outcome;
}

struct ec2_request *provider_ec2_page(const char *action, const char *filter, const char *value, const char *token) {
    struct ec2_request *request = ec2_request_new(action);
    ec2_set(request, filter, "Filter.1.Name");
    ec2_set(request, value, "Filter.1.Value.1");
    ec2_set_number(request, PROVIDER_EC2_PAGE, "MaxResults");
    ec2_set(request, token, "NextToken");
    return request;
}

void provider_ec2_tags(struct provider *of, struct ec2_request *request, const char *prefix, const char *token,
                       const char *tier) {
    char name[EC2_TAG_VALUE_MAX + EC2_ID_TEXT];
    snprintf(name, sizeof name, "%s %s", of->options.job, tier);
    const char *const tags[][2] = {
        {"proteus:job", of->options.job}, {"proteus:token", token}, {"proteus:tier", tier}, {"Name", name}};
    unsigned number = 0;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (tags[i][1][0] != '\0') {
            number++;
            ec2_set(request, tags[i][0], "%s.%u.Key", prefix, number);
            ec2_set(request, tags[i][1], "%s.%u.Value", prefix, number);
        }
    }
}

/* ---- Opening, stepping, closing ---- */

void provider_close(struct provider *of) {
    if (of == NULL) {
        return;
    }
    ec2_close(of->ec2);
    while (of->operations != NULL) {
        operation_end(of->operations);
    }
    provider_options_free(&of->options);
    free(of->fresh);
    free(of->deferred);
    free(of);
}

int provider_fd(const struct provider *provider) {
    return ec2_fd(provider->ec2);
}

int provider_wait_ms(struct provider *of) {
    return of->deferred_count > 0 ? 0 : ec2_wait_ms(of->ec2);
}

void provider_step(struct provider *of) {
    struct provider_outcome *deferred = of->deferred;
    size_t count = of->deferred_count;
    of->deferred = NULL;
    of->deferred_count = 0;
    for (size_t i = 0; i < count; i++) {
        provider_ec2_outcome(of, &deferred[i]);
    }
    free(deferred);
    ec2_step(of->ec2);
}

int provider_ec2_open(struct provider **provider, const struct provider_options *options, struct error *error) {
    *provider = NULL;
    int result = options_check(options, error);
    struct ec2 *ec2 = NULL;
    if (result == 0) {
        const struct ec2_options client = {
            .region = options->aws.region, .endpoint = options->aws.endpoint, .attempts = options->aws.attempts};
        result = ec2_open(&ec2, &client, error);
    }
    if (result != 0) {
        return result;
    }
    struct provider *opened = memory_zeroed(1, sizeof *opened);
    opened->ec2 = ec2;
    provider_options_copy(&opened->options, options);
    *provider = opened;
    return 0;
}
