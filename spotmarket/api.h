/* The EC2 Query API on a cloud: parameters of a request in, an XML answer or an EC2 error out. service.h checks
 * signatures, throttling and faults beforehand. No I/O, one thread. */
#ifndef SPOTMARKET_API_H
#define SPOTMARKET_API_H

#include "spotmarket/cloud.h"
#include "spotmarket/parameters.h"
#include "spotmarket/resources.h"
#include "spotmarket/text.h"

enum {
    API_FILTERS_MAX = 20,
    API_FILTER_VALUES_MAX = 200,
    API_TEMPLATES_MAX = 1000,         /* launch templates */
    API_TEMPLATE_VERSIONS_MAX = 1000, /* versions of a template */
    API_TAG_KEY_MAX = 128,            /* bytes */
    API_TAG_VALUE_MAX = 256,
    API_PAGE_MAX = 1000,
};
#define API_VERSION "2016-11-15"

struct launch_template {
    char id[CLOUD_ID_TEXT];
    char *name;
    int64_t created;
    struct launch_spec **versions; /* version 1, 2, ...; their types may be NULL */
    struct cloud_tags *tags;       /* tags of each version's machines */
    size_t version_count;
};

/* The API's state besides the cloud. */
struct api_state {
    struct cloud *cloud;
    int64_t page; /* most items of a page; 0: the caller's choice */
    struct launch_template *templates;
    size_t template_count;
    struct resources resources;
};

void api_state_close(struct api_state *state);

/* A request under way. */
struct api {
    struct api_state *state;
    struct cloud *cloud;
    struct parameters parameters;
    struct api_error error;
    const char *action;
    bool no_capacity; /* launches find no capacity */
    struct text body; /* content of the answer, after requestId */
};

/* Returns the action of a request; "" if it has none. */
const char *api_action(struct parameters *parameters);
/* Returns whether the action exists. */
bool api_known(const char *action);
/* Handles the request of `parameters` at the cloud's present time. `no_capacity`: new launches find no capacity. Adds a
 * complete XML document to `answer`, and returns the HTTP status. */
int api_handle(struct api_state *state, struct parameters *parameters, const char *request_id, bool no_capacity,
               struct text *answer);
/* Adds an error document. */
void api_error_document(struct text *answer, const struct api_error *error, const char *request_id);

#endif
