/* The EC2 Query API on a cloud: a request's parameters in, an XML answer or one of EC2's errors out. Signatures,
 * throttling and faults come before this (service.h). No I/O, one thread. */
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
    API_TEMPLATE_VERSIONS_MAX = 1000, /* of one */
    API_TAG_KEY_MAX = 128,            /* bytes */
    API_TAG_VALUE_MAX = 256,
    API_PAGE_MAX = 1000,
};
#define API_VERSION "2016-11-15"

struct launch_template {
    char id[CLOUD_ID_TEXT];
    char *name;
    int64_t created;
    struct launch_spec **versions; /* of version 1, 2, ...; a type may be NULL in them */
    struct cloud_tags *tags;       /* of their machines, likewise */
    size_t version_count;
};

/* What the API keeps besides the cloud. */
struct api_state {
    struct cloud *cloud;
    int64_t page; /* items of a page at most; 0: as the caller asks */
    struct launch_template *templates;
    size_t template_count;
    struct resources resources;
};

void api_state_close(struct api_state *state);

/* One request under way. */
struct api {
    struct api_state *state;
    struct cloud *cloud;
    struct parameters parameters;
    struct api_error error;
    const char *action;
    bool no_capacity; /* launches find no capacity */
    struct text body; /* what stands behind requestId */
};

/* The action of a request; "" when it names none. */
const char *api_action(struct parameters *parameters);
/* Whether there is such an action. */
bool api_known(const char *action);
/* Carries out the request of `parameters` (open, Action not read yet is fine) at the cloud's present time.
 * `no_capacity`: new launches find no capacity. A whole XML document is added to `answer`; the HTTP status. */
int api_handle(struct api_state *state, struct parameters *parameters, const char *request_id, bool no_capacity,
               struct text *answer);
/* An error as a document of its own. */
void api_error_document(struct text *answer, const struct api_error *error, const char *request_id);

#endif
