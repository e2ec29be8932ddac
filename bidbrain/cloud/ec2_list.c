/* The provider `ec2`: lists the job's machines, from its spot requests and instances. In turn:
 *  1. spot requests with the job's tag, 2. instances with it, by pages;
 *  3. further instances of these requests, as RequestSpotInstances tags only the request;
 *  4. further requests of these instances, as CreateFleet tags only the instance;
 *  5. reports all machines and outcomes, and tags instances that have no tags.
 * Ids are passed as filters, which ignore an id that EC2 does not know (yet). As a parameter, such an id would fail the
 * call.
 *
 * EC2's listings lag behind. An instance that a request or a launch has named but no listing shows therefore counts as
 * pending, not as gone, while the request is active or for PROVIDER_EC2_FRESH_S after the launch. */
#include "bidbrain/cloud/ec2_private.h"

#include "agileml/base/clock.h"
#include "agileml/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct list_operation {
    struct operation operation;
    char launch[PROVIDER_TOKEN_TEXT]; /* lists only this launch; empty: the whole job */
    char page[EC2_PAGE_TOKEN_TEXT];
    unsigned pages;
    bool whole;
    /* EC2's code that says that `launch` was carried out before; the listing then finds its outcome */
    const char *carried_out;
    struct ec2_spot_request *requests;
    size_t request_count, request_capacity;
    struct ec2_instance *instances;
    size_t instance_count, instance_capacity;
    size_t known_requests, known_instances; /* those sorted by id; steps 3 and 4 append others */
    size_t looked_at;                       /* requests that step 3, or instances that step 4, has handled so far */
};

static void list_free(struct operation *operation) {
    struct list_operation *list = (struct list_operation *)operation;
    free(list->requests);
    free(list->instances);
    free(list);
}

/* ---- Requests and instances found ---- */

/* Both structs begin with their id. */
static int list_by_id(const void *a, const void *b) {
    return strcmp(a, b);
}

static size_t list_unique(void *items, size_t count, size_t size) {
    char *bytes = items;
    size_t kept = 0;
    if (count > 0) {
        qsort(items, count, size, list_by_id);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || strcmp(bytes + (kept - 1) * size, bytes + i * size) != 0) {
            memmove(bytes + kept * size, bytes + i * size, size);
            kept++;
        }
    }
    return kept;
}

static void list_sort(struct list_operation *list) {
    list->request_count = list_unique(list->requests, list->request_count, sizeof *list->requests);
    list->instance_count = list_unique(list->instances, list->instance_count, sizeof *list->instances);
    list->known_requests = list->request_count;
    list->known_instances = list->instance_count;
}

/* Searches the sorted requests. NULL: not found. */
static const struct ec2_spot_request *list_request(const struct list_operation *list, const char *id) {
    return list->known_requests == 0
               ? NULL
               : bsearch(id, list->requests, list->known_requests, sizeof *list->requests, list_by_id);
}

static const struct ec2_instance *list_instance(const struct list_operation *list, const char *id) {
    return list->known_instances == 0
               ? NULL
               : bsearch(id, list->instances, list->known_instances, sizeof *list->instances, list_by_id);
}

static void list_add_request(struct list_operation *list, struct xml_element item) {
    struct ec2_spot_request request;
    if (!ec2_spot_request_read(item, &request) || list->request_count == PROVIDER_EC2_FOUND_MAX) {
        return;
    }
    list->requests =
        memory_extended(list->requests, list->request_count, &list->request_capacity, sizeof *list->requests);
    list->requests[list->request_count++] = request;
}

static void list_add_instance(struct list_operation *list, struct xml_element item) {
    struct ec2_instance instance;
    if (!ec2_instance_read(item, &instance) || list->instance_count == PROVIDER_EC2_FOUND_MAX) {
        return;
    }
    list->instances =
        memory_extended(list->instances, list->instance_count, &list->instance_capacity, sizeof *list->instances);
    list->instances[list->instance_count++] = instance;
}

static void list_add(struct list_operation *list, struct xml_element root) {
    struct xml_element requests = xml_element_at(root, "spotInstanceRequestSet");
    struct xml_element reservations = xml_element_at(root, "reservationSet");
    struct xml_element item = {0};
    while (xml_element_next(requests, "item", &item)) {
        list_add_request(list, item);
    }
    struct xml_element reservation = {0};
    while (xml_element_next(reservations, "item", &reservation)) {
        struct xml_element instances = xml_element_at(reservation, "instancesSet");
        struct xml_element instance = {0};
        while (xml_element_next(instances, "item", &instance)) {
            list_add_instance(list, instance);
        }
    }
}

/* ---- Machines ---- */

static enum machine_state list_state(enum ec2_instance_state state) {
    switch (state) {
    case EC2_INSTANCE_RUNNING:
        return MACHINE_RUNNING;
    case EC2_INSTANCE_STOPPING:
    case EC2_INSTANCE_STOPPED: /* useless, but its disk costs money: terminated below */
        return MACHINE_STOPPING;
    case EC2_INSTANCE_TERMINATED:
        return MACHINE_GONE;
    case EC2_INSTANCE_PENDING:
    default:
        return MACHINE_PENDING;
    }
}

/* `request` may be NULL. */
static struct provider_machine list_machine(const struct ec2_instance *instance,
                                            const struct ec2_spot_request *request) {
    struct provider_machine machine = {.kind = instance->spot || request != NULL ? PROVIDER_SPOT : PROVIDER_ON_DEMAND,
                                       .state = list_state(instance->state),
                                       .launched = instance->launched};
    const char *token = instance->tags.token[0] != '\0' || request == NULL ? instance->tags.token : request->tags.token;
    bool taken = request != NULL && ec2_status_evicted(request->code);
    machine.ended = instance->ended;
    if (machine.ended == 0 && request != NULL && ec2_status_ended(request->code)) {
        machine.ended = request->updated;
    }
    machine.evicted = instance->evicted || taken;
    machine.noticed = machine.evicted || (request != NULL && ec2_status_noticed(request->code));
    strcpy(machine.id, instance->id);
    strcpy(machine.token, token);
    strcpy(machine.type, instance->type);
    strcpy(machine.zone, instance->zone);
    if (instance->code[0] != '\0') {
        /* EC2's text begins with the code. */
        bool coded = strncmp(instance->reason, instance->code, strlen(instance->code)) == 0;
        snprintf(machine.reason, sizeof machine.reason, "%s%s%s", coded ? "" : instance->code, coded ? "" : ": ",
                 instance->reason);
    } else if (machine.noticed) {
        snprintf(machine.reason, sizeof machine.reason, "%s: %s", request->code, request->text);
    }
    return machine;
}

struct provider_machine provider_ec2_machine_of_request(const struct ec2_spot_request *request) {
    struct provider_machine machine = {.kind = PROVIDER_SPOT, .state = MACHINE_PENDING};
    bool waits = request->state == EC2_REQUEST_OPEN || request->state == EC2_REQUEST_ACTIVE;
    /* The request was filled before it was withdrawn: a listing will show the instance. */
    bool kept =
        request->state == EC2_REQUEST_CANCELLED && strcmp(request->code, "request-canceled-and-instance-running") == 0;
    machine.evicted = ec2_status_evicted(request->code);
    machine.noticed = ec2_status_noticed(request->code);
    machine.state = waits || kept ? MACHINE_PENDING : MACHINE_GONE;
    machine.ended = ec2_status_ended(request->code) ? request->updated : 0;
    strcpy(machine.id, request->instance);
    strcpy(machine.token, request->tags.token);
    strcpy(machine.type, request->type);
    strcpy(machine.zone, request->zone);
    snprintf(machine.reason, sizeof machine.reason, "spot request %s: %s", request->id, request->code);
    return machine;
}

/* ---- Outcomes ---- */

struct provider_outcome provider_ec2_outcome_of(const struct ec2_spot_request *requests, size_t count) {
    struct provider_outcome outcome = {.state = LAUNCH_REFUSED};
    const struct ec2_spot_request *telling = &requests[0];
    for (size_t i = 0; i < count; i++) {
        bool waits = requests[i].instance[0] == '\0' &&
                     (requests[i].state == EC2_REQUEST_OPEN || requests[i].state == EC2_REQUEST_ACTIVE);
        outcome.machines += requests[i].instance[0] != '\0';
        if (waits) {
            outcome.state = LAUNCH_WAITING;
            telling = &requests[i];
        }
    }
    if (outcome.state != LAUNCH_WAITING && outcome.machines > 0) {
        outcome.state = LAUNCH_FILLED;
    }
    strcpy(outcome.token, telling->tags.token);
    snprintf(outcome.text, sizeof outcome.text, "%s: %s", telling->code, telling->text);
    if (outcome.state == LAUNCH_REFUSED) {
        strcpy(outcome.code, telling->code);
        outcome.ours = strncmp(telling->code, "bad-parameter", 13) == 0;
    }
    return outcome;
}

static int list_by_token(const void *a, const void *b) {
    const struct ec2_spot_request *const *one = a;
    const struct ec2_spot_request *const *other = b;
    return strcmp((*one)->tags.token, (*other)->tags.token);
}

/* Reports an outcome for each launch that has requests. */
static void list_tell_outcomes(struct provider *of, struct list_operation *list) {
    struct ec2_spot_request *sorted = memory_zeroed(list->request_count + 1, sizeof *sorted);
    const struct ec2_spot_request **order = memory_zeroed(list->request_count + 1, sizeof *order);
    for (size_t i = 0; i < list->request_count; i++) {
        order[i] = &list->requests[i];
    }
    qsort(order, list->request_count, sizeof *order, list_by_token);
    for (size_t i = 0; i < list->request_count; i++) {
        sorted[i] = *order[i];
    }
    for (size_t first = 0, end; first < list->request_count; first = end) {
        end = first + 1;
        while (end < list->request_count && strcmp(sorted[first].tags.token, sorted[end].tags.token) == 0) {
            end++;
        }
        if (sorted[first].tags.token[0] != '\0') {
            struct provider_outcome outcome = provider_ec2_outcome_of(&sorted[first], end - first);
            provider_ec2_outcome(of, &outcome);
        }
    }
    free(order);
    free(sorted);
}

/* Reports the outcome of a launch that EC2 said was carried out, if its requests do not show the outcome. */
static void list_tell_carried_out(struct provider *of, const struct list_operation *list) {
    struct provider_outcome outcome = {.state = LAUNCH_REFUSED};
    for (size_t i = 0; i < list->request_count; i++) {
        if (strcmp(list->requests[i].tags.token, list->launch) == 0) {
            return;
        }
    }
    if (list->instance_count > 0) {
        outcome = (struct provider_outcome){.state = LAUNCH_FILLED, .machines = (unsigned)list->instance_count};
    } else {
        snprintf(outcome.code, sizeof outcome.code, "%s", list->carried_out);
        strcpy(outcome.text, "carried out before, and nothing of it is there");
    }
    strcpy(outcome.token, list->launch);
    provider_ec2_outcome(of, &outcome);
}

/* ---- Step 5: telling, tagging ---- */

/* Returns the request of an instance: either of them may name the other. NULL: none is known. */
static const struct ec2_spot_request *list_request_of(const struct list_operation *list,
                                                      const struct ec2_instance *instance) {
    const struct ec2_spot_request *request =
        instance->request[0] != '\0' ? list_request(list, instance->request) : NULL;
    for (size_t i = 0; i < list->request_count && instance->request[0] == '\0' && request == NULL; i++) {
        request = strcmp(list->requests[i].instance, instance->id) == 0 ? &list->requests[i] : NULL;
    }
    return request;
}

static void list_tagged(void *context, const struct ec2_answer *answer) {
    if (answer->failure != NULL) {
        provider_ec2_failed(context, "CreateTags", answer->failure);
    }
}

static void list_tag(struct provider *of, const struct ec2_instance *instance, const struct ec2_spot_request *request) {
    bool live = instance->state == EC2_INSTANCE_PENDING || instance->state == EC2_INSTANCE_RUNNING;
    if (!live || instance->tags.job[0] != '\0' || request == NULL || strcmp(request->tags.job, of->options.job) != 0) {
        return;
    }
    struct ec2_request *call = ec2_request_new("CreateTags");
    ec2_set(call, instance->id, "ResourceId.1");
    provider_ec2_tags(of, call, "Tag", request->tags.token,
                      request->tags.tier[0] != '\0' ? request->tags.tier : "transient");
    ec2_start(of->ec2, call, list_tagged, of);
}

static void list_tell_instances(struct provider *of, const struct list_operation *list) {
    for (size_t i = 0; i < list->instance_count; i++) {
        const struct ec2_instance *instance = &list->instances[i];
        const struct ec2_spot_request *request = list_request_of(list, instance);
        struct provider_machine machine = list_machine(instance, request);
        if (instance->state == EC2_INSTANCE_STOPPED && !of->options.look_only) {
            const char *id = instance->id;
            provider_terminate(of, &id, 1);
        }
        if (!of->options.look_only) {
            list_tag(of, instance, request);
        }
        provider_ec2_machine(of, &machine);
    }
    for (size_t i = 0; i < list->request_count; i++) {
        const struct ec2_spot_request *request = &list->requests[i];
        if (request->instance[0] != '\0' && list_instance(list, request->instance) == NULL) {
            struct provider_machine machine = provider_ec2_machine_of_request(request);
            provider_ec2_machine(of, &machine);
        }
    }
}

static bool list_names(const struct list_operation *list, const char *id) {
    bool named = list_instance(list, id) != NULL;
    for (size_t i = 0; i < list->request_count && !named; i++) {
        named = strcmp(list->requests[i].instance, id) == 0;
    }
    return named;
}

/* Drops fresh machines that a listing has shown, and those that are too old. Reports the others again. */
static void list_tell_fresh(struct provider *of, const struct list_operation *list) {
    uint64_t now_us = monotonic_us();
    size_t kept = 0;
    for (size_t i = 0; i < of->fresh_count; i++) {
        if (!list_names(list, of->fresh[i].machine.id) && of->fresh[i].until_us > now_us) {
            of->fresh[kept++] = of->fresh[i];
        }
    }
    of->fresh_count = kept;
    for (size_t i = 0; i < of->fresh_count; i++) {
        /* a copy: the listener may launch, which moves the array */
        struct provider_machine machine = of->fresh[i].machine;
        provider_ec2_machine(of, &machine);
    }
}

static void list_end(struct list_operation *list) {
    struct provider *of = list->operation.of;
    bool all = list->launch[0] == '\0';
    list_sort(list);
    list_tell_instances(of, list);
    if (all) {
        list_tell_fresh(of, list);
    }
    if (list->whole) { /* without all requests of a launch, its outcome could be wrong */
        list_tell_outcomes(of, list);
    }
    if (list->whole && list->carried_out != NULL) {
        list_tell_carried_out(of, list);
    }
    bool whole = list->whole;
    if (all) {
        of->list = NULL;
    }
    operation_end(&list->operation);
    if (all) {
        of->options.listener.list_end(of->options.listener.context, whole);
    }
}

/* ---- Steps 1 to 4 ---- */

/* Each step makes its calls, and then starts the next step. */
static void list_ask_requests(struct list_operation *list);
static void list_ask_instances(struct list_operation *list);
static void list_ask_untagged_instances(struct list_operation *list);
static void list_ask_untagged_requests(struct list_operation *list);

/* Returns whether there is another page. */
static bool list_answered(struct list_operation *list, const char *action, const struct ec2_answer *answer) {
    struct provider *of = list->operation.of;
    int more = 0;
    if (answer->failure != NULL) {
        provider_ec2_failed(of, action, answer->failure);
        list->whole = false;
    } else {
        list_add(list, answer->root);
        more = ec2_page_token(answer->root, list->page);
    }
    if (more < 0 || (more == 1 && ++list->pages >= PROVIDER_EC2_PAGES_MAX) ||
        list->request_count == PROVIDER_EC2_FOUND_MAX || list->instance_count == PROVIDER_EC2_FOUND_MAX) {
        provider_ec2_failed_text(of, action, "its pages have no end");
        list->whole = false;
        more = 0;
    }
    if (more == 0) {
        list->page[0] = '\0';
    }
    return more == 1;
}

static void list_ask(struct list_operation *list, const char *action, ec2_done *done) {
    struct provider *of = list->operation.of;
    struct ec2_request *request = provider_ec2_page(action, "tag:proteus:job", of->options.job, list->page);
    if (list->launch[0] != '\0') {
        ec2_set(request, "tag:proteus:token", "Filter.2.Name");
        ec2_set(request, list->launch, "Filter.2.Value.1");
    }
    ec2_start(of->ec2, request, done, list);
}

static void list_have_requests(void *context, const struct ec2_answer *answer) {
    struct list_operation *list = context;
    if (list_answered(list, "DescribeSpotInstanceRequests", answer)) {
        list_ask_requests(list);
    } else {
        list_ask_instances(list);
    }
}

static void list_ask_requests(struct list_operation *list) {
    list_ask(list, "DescribeSpotInstanceRequests", list_have_requests);
}

static void list_have_instances(void *context, const struct ec2_answer *answer) {
    struct list_operation *list = context;
    if (list_answered(list, "DescribeInstances", answer)) {
        list_ask_instances(list);
        return;
    }
    list_sort(list);
    list->looked_at = 0;
    list_ask_untagged_instances(list);
}

static void list_ask_instances(struct list_operation *list) {
    list_ask(list, "DescribeInstances", list_have_instances);
}

static void list_have_untagged_instances(void *context, const struct ec2_answer *answer) {
    struct list_operation *list = context;
    (void)list_answered(list, "DescribeInstances", answer); /* a batch is less than a page */
    list_ask_untagged_instances(list);
}

/* EC2 shows closed requests for days, and their instances for an hour. After that hour the request is enough. Within
 * the hour, the instance is looked up: it shows the start of its bill, which no listing may have shown yet. */
static bool list_lacks_instance(const struct list_operation *list, const struct ec2_spot_request *request) {
    const struct provider_options *options = &list->operation.of->options;
    int64_t now = options->now != NULL ? options->now(options->now_context) : (int64_t)time(NULL);
    bool forgotten = request->state == EC2_REQUEST_CLOSED && now - request->updated > HOUR;
    return request->instance[0] != '\0' && !forgotten && list_instance(list, request->instance) == NULL;
}

static void list_ask_untagged_instances(struct list_operation *list) {
    struct ec2_request *request = NULL;
    unsigned number = 0;
    for (; list->looked_at < list->request_count && number < PROVIDER_EC2_BATCH; list->looked_at++) {
        const char *id = list->requests[list->looked_at].instance;
        if (!list_lacks_instance(list, &list->requests[list->looked_at])) {
            continue;
        }
        if (request == NULL) {
            request = provider_ec2_page("DescribeInstances", "instance-id", id, NULL);
        }
        ec2_set(request, number == 0 ? NULL : id, "Filter.1.Value.%u", number + 1);
        number++;
    }
    if (request != NULL) {
        ec2_start(list->operation.of->ec2, request, list_have_untagged_instances, list);
        return;
    }
    list->looked_at = 0;
    list_ask_untagged_requests(list);
}

static void list_have_untagged_requests(void *context, const struct ec2_answer *answer) {
    struct list_operation *list = context;
    (void)list_answered(list, "DescribeSpotInstanceRequests", answer);
    list_ask_untagged_requests(list);
}

static bool list_lacks_request(const struct list_operation *list, const struct ec2_instance *instance) {
    bool over = instance->state == EC2_INSTANCE_TERMINATED && instance->ended != 0;
    return instance->request[0] != '\0' && !over && list_request(list, instance->request) == NULL;
}

static void list_ask_untagged_requests(struct list_operation *list) {
    struct ec2_request *request = NULL;
    unsigned number = 0;
    for (; list->looked_at < list->instance_count && number < PROVIDER_EC2_BATCH; list->looked_at++) {
        const struct ec2_instance *instance = &list->instances[list->looked_at];
        if (!list_lacks_request(list, instance)) {
            continue;
        }
        if (request == NULL) {
            request =
                provider_ec2_page("DescribeSpotInstanceRequests", "spot-instance-request-id", instance->request, NULL);
        }
        ec2_set(request, number == 0 ? NULL : instance->request, "Filter.1.Value.%u", number + 1);
        number++;
    }
    if (request != NULL) {
        ec2_start(list->operation.of->ec2, request, list_have_untagged_requests, list);
    } else {
        list_end(list);
    }
}

/* ---- Calls ---- */

static struct list_operation *list_begin(struct provider *of, const char *launch) {
    struct list_operation *list = memory_zeroed(1, sizeof *list);
    list->whole = true;
    snprintf(list->launch, sizeof list->launch, "%s", launch);
    operation_begin(of, &list->operation, list_free);
    list_ask_requests(list);
    return list;
}

void provider_list(struct provider *of) {
    if (of->list == NULL) {
        of->list = &list_begin(of, "")->operation;
    }
}

void provider_ec2_list_token(struct provider *of, const char *token, const char *carried_out) {
    list_begin(of, token)->carried_out = carried_out;
}

/* Lists what the withdrawn launch got. */
static void list_withdrawn(struct provider *of, const char *token) {
    (void)list_begin(of, token);
}

void provider_cancel(struct provider *of, const char *token) {
    provider_ec2_withdraw(of, token, list_withdrawn);
}
