/* See service.h. */
#include "agileml/base/instant.h"
#include "spotmarket/authorize.h"
#include "spotmarket/service_private.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void service_open(struct service *service, struct cloud *cloud, const struct users *users) {
    *service = (struct service){.cloud = cloud, .users = users, .speed = 1};
    service->api.cloud = cloud;
    keyring_open(&service->keyring);
}

void service_close(struct service *service) {
    api_state_close(&service->api);
    roles_close(&service->roles);
    replays_close(&service->replays);
    keyring_close(&service->keyring);
}

/* ---- EC2 ---- */

static void service_request_id(struct service *service, char id[CLOUD_ID_TEXT]) {
    uint64_t a = hash_mix(service->cloud->options.seed ^ ++service->requests);
    uint64_t b = hash_mix(a);
    snprintf(id, CLOUD_ID_TEXT, "%08" PRIx64 "-%04" PRIx64 "-4%03" PRIx64 "-a%03" PRIx64 "-%012" PRIx64, a >> 32,
             (a >> 16) & 0xffff, a & 0xfff, b >> 52, b & 0xffffffffffff);
}

static bool action_launches(const char *action) {
    return strcmp(action, "RunInstances") == 0 || strcmp(action, "RequestSpotInstances") == 0 ||
           strcmp(action, "CreateFleet") == 0;
}

/* Draws faults that replace the answer. Returns true if *answer is set; sets *error instead for an EC2 error. */
static bool service_fault(struct service *service, struct service_answer *answer, struct api_error *error) {
    if (faults_draw(&service->faults, FAULT_HTML)) {
        service_say(answer, 502, "text/html",
                    "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n");
        return true;
    }
    if (faults_draw(&service->faults, FAULT_503)) {
        api_error_set(error, 503, "Unavailable", "The server is overloaded and can't handle the request.");
    } else if (faults_draw(&service->faults, FAULT_THROTTLE)) {
        api_error_set(error, 503, "RequestLimitExceeded", "Request limit exceeded.");
    } else if (faults_draw(&service->faults, FAULT_EXPIRED)) {
        if (service->faults.draws % 2 == 0) {
            api_error_set(error, 400, "RequestExpired", "Request has expired.");
        } else {
            api_error_set(error, 403, "ExpiredToken", "The security token included in the request is expired");
        }
    }
    return false;
}

/* Returns whether the request has no filters and no ids. */
static bool is_unfiltered(const struct parameters *parameters) {
    return !parameters_has(parameters, "Filter.") && !parameters_has(parameters, "InstanceId.") &&
           !parameters_has(parameters, "SpotInstanceRequestId.") && !parameters_has(parameters, "ImageId.") &&
           !parameters_has(parameters, "SubnetId.") && !parameters_has(parameters, "GroupId.") &&
           !parameters_has(parameters, "MaxResults");
}

/* Returns the machine whose role's session token is in the request, with the role's keys and their expiry. NULL: no
 * such machine, or it has ended. */
static const struct instance *service_role(const struct service *service, const struct sigv4_request *request,
                                           struct user *role, int64_t *until) {
    char id[CLOUD_ID_TEXT];
    const char *token = request_header(request, "x-amz-security-token");
    if (token == NULL || !keyring_role_of(&service->keyring, token, role, id, until)) {
        return NULL;
    }
    const struct instance *machine = cloud_find_instance(service->cloud, id);
    return machine != NULL && instance_lives(machine) && machine->spec->profile != NULL ? machine : NULL;
}

/* Returns whether the request's signer may do `action`. A user may do everything by default, a machine what its role
 * allows. */
static bool service_authorize(const struct service *service, const struct sigv4_request *request, const char *action,
                              int64_t now, struct authorized *authorized, struct api_error *error) {
    struct user role;
    int64_t until;
    const struct instance *machine = service_role(service, request, &role, &until);
    bool known = authorize(request, service->users, machine != NULL ? &role : NULL, service->cloud->options.region, now,
                           authorized, error);
    bool is_role = known && authorized->by_role;
    if (is_role && until <= now) {
        api_error_set(error, 400, "ExpiredToken", "The security token included in the request is expired");
    } else if (is_role && !roles_allow(&service->roles, machine->spec->profile, action)) {
        api_error_set(error, 403, "UnauthorizedOperation",
                      "You are not authorized to perform this operation: role '%.60s' may not %.60s",
                      machine->spec->profile, action);
    } else if (known && !is_role && !roles_allow_user(&service->roles, authorized->user->name, action)) {
        api_error_set(error, 403, "UnauthorizedOperation",
                      "You are not authorized to perform this operation: user '%.60s' may not %.60s",
                      authorized->user->name, action);
    }
    explicit_bzero(&role, sizeof role);
    return error->status == 0;
}

static void service_checked(struct service *service, const struct sigv4_request *request,
                            const struct service_clock *clock, struct parameters *parameters,
                            struct service_answer *answer) {
    const char *action = api_action(parameters);
    struct api_error *error = parameters->error;
    char id[CLOUD_ID_TEXT];
    service_request_id(service, id);
    answer->type = "text/xml;charset=UTF-8";
    if (service_fault(service, answer, error)) {
        return;
    }
    struct authorized authorized;
    if (error->status != 0 || !service_authorize(service, request, action, answer->date, &authorized, error)) {
        /* *error has the reason */
    } else if (service->throttling && api_known(action) &&
               !throttle_take(&service->throttle, action, is_unfiltered(parameters), clock->steady_us)) {
        api_error_set(error, 503, "RequestLimitExceeded", "Request limit exceeded.");
    } else if (!replays_take(&service->replays, authorized.signature, authorized.date,
                             strncmp(action, "Describe", 8) == 0, clock->steady_us)) {
        api_error_set(error, 503, "RequestReplayed", "This request came before: sign it again, with a later date.");
    }
    if (error->status != 0) {
        answer->status = error->status;
        api_error_document(&answer->body, error, id);
        return;
    }
    bool launches = action_launches(action);
    bool no_capacity = launches && faults_draw(&service->faults, FAULT_CAPACITY);
    answer->status = api_handle(&service->api, parameters, id, no_capacity, &answer->body);
    answer->lost = launches && faults_draw(&service->faults, FAULT_LOST);
}

static void service_ec2(struct service *service, const struct sigv4_request *request, const struct service_clock *clock,
                        struct service_answer *answer) {
    struct api_error error = {0};
    struct parameters parameters;
    parameters_open(&parameters, request->body, request->body_size, &error);
    service_checked(service, request, clock, &parameters, answer);
    parameters_close(&parameters);
    answer->delay_ms = faults_draw(&service->faults, FAULT_SLOW) ? (int64_t)(service->faults.slow_seconds * 1000) : 0;
    answer->broken = faults_draw(&service->faults, FAULT_BROKEN);
}

/* ---- The rest ---- */

static void service_say_clock(const struct service *service, const struct service_clock *clock,
                              struct service_answer *answer) {
    char moment[INSTANT_TEXT_MAX];
    int64_t seconds = clock->market_us / 1000000;
    instant_format(seconds, moment);
    moment[strlen(moment) - 1] = '\0'; /* cuts the Z */
    service_say(answer, 200, "application/json", "{\"now\":\"%s.%03dZ\",\"seconds\":%" PRId64 ".%06d,\"speed\":%.9g}\n",
                moment, (int)(clock->market_us / 1000 % 1000), seconds, (int)(clock->market_us % 1000000),
                service->speed);
}

/* Returns whether the request is the owner's. Otherwise answers 401 with the expected header. */
static bool service_owner_asks(const struct service *service, const struct sigv4_request *request,
                               struct service_answer *answer) {
    static const char scheme[] = "Bearer ";
    const char *header = request_header(request, "authorization");
    bool owner = header != NULL && strncmp(header, scheme, sizeof scheme - 1) == 0 &&
                 keyring_owner_good(&service->keyring, header + sizeof scheme - 1);
    if (!owner) {
        service_say(answer, 401, "text/plain", "expected the header in the file 'authorization' of --folder\n");
    }
    return owner;
}

static void service_say_bill(const struct service *service, const struct sigv4_request *request,
                             struct service_answer *answer) {
    if (service_owner_asks(service, request, answer)) {
        char *bill = service_bill(service->cloud);
        service_say(answer, 200, "application/json", "%s", bill);
        free(bill);
    }
}

static void service_set_faults(struct service *service, const struct sigv4_request *request,
                               struct service_answer *answer) {
    if (!service_owner_asks(service, request, answer)) {
        return;
    }
    json_error_t wrong;
    struct error error = {0};
    json_t *root = json_loadb(request->body, request->body_size, 0, &wrong);
    const char *spec = json_string_value(json_object_get(root, "spec"));
    if (spec == NULL) {
        error_set(&error, AML_EINPUT, "expected {\"spec\": \"slow=2:0.3,...\"}");
    } else {
        (void)faults_parse(&service->faults, spec, &error);
    }
    service_say(answer, error.code == 0 ? 200 : 400, "text/plain", "%s", error.code == 0 ? "ok\n" : error.text);
    json_decref(root);
}

/* Returns whether the host is "localhost" or an address 127.X.X.X, with or without a port. */
static bool host_is_loopback(const char *host) {
    char name[INET_ADDRSTRLEN];
    struct in_addr address;
    size_t length = strcspn(host, ":");
    const char *port = host + length + (host[length] == ':');
    if (length >= sizeof name || port[strspn(port, "0123456789")] != '\0') {
        return false;
    }
    snprintf(name, sizeof name, "%.*s", (int)length, host);
    return strcasecmp(name, "localhost") == 0 ||
           (inet_pton(AF_INET, name, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

/* Returns whether the request can't be from a web page. A page sends its Origin. A page from a name that now resolves
 * to us (DNS rebinding) sends that name as Host. The port may differ from ours, for instance through a tunnel. */
static bool service_is_local(const struct sigv4_request *request) {
    size_t hosts = 0;
    bool local = true;
    for (size_t h = 0; h < request->header_count; h++) {
        local = local && strcasecmp(request->headers[h].name, "origin") != 0;
        if (strcasecmp(request->headers[h].name, "host") == 0) {
            hosts++;
            local = local && host_is_loopback(request->headers[h].value);
        }
    }
    return local && hosts == 1;
}

void service_handle(struct service *service, const struct sigv4_request *request, const struct service_clock *clock,
                    struct service_answer *answer) {
    bool get = strcmp(request->method, "GET") == 0;
    bool post = strcmp(request->method, "POST") == 0;
    *answer = (struct service_answer){.type = "text/plain"};
    answer->date = clock->real + service->faults.clock_seconds;
    cloud_advance(service->cloud, clock->market_us / 1000000);
    if (!service_is_local(request)) {
        service_say(answer, 403, "text/plain", "expected a Host that is localhost or 127.0.0.1, and no Origin\n");
    } else if (strcmp(request->path, "/") == 0 && post) {
        service_ec2(service, request, clock, answer);
    } else if (strncmp(request->path, "/metadata/", 10) == 0) {
        service_metadata(service, request, request->path + 10, clock, answer);
    } else if (strcmp(request->path, "/clock") == 0 && get) {
        service_say_clock(service, clock, answer);
    } else if (strcmp(request->path, "/bill") == 0 && get) {
        service_say_bill(service, request, answer);
    } else if (strcmp(request->path, "/faults") == 0 && post) {
        service_set_faults(service, request, answer);
    } else {
        service_say(
            answer, 404, "text/plain",
            "no such resource: expected POST /, GET /clock, GET /bill, POST /faults, /metadata/ID/SECRET/...\n");
    }
    if (answer->body.data == NULL) {
        text_add(&answer->body, "");
    }
}
