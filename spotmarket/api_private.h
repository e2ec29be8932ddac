/* What the actions share. See api.h. */
#ifndef SPOTMARKET_API_PRIVATE_H
#define SPOTMARKET_API_PRIVATE_H

#include "spotmarket/api.h"

/* Returns true when there is no mistake and no DryRun. Call it after reading all parameters, before any change. */
bool api_ready(struct api *api);

/* ---- Filters ---- */

struct filter {
    const char *name;
    const char *values[API_FILTER_VALUES_MAX]; /* one must match; '*' matches any characters, '?' one */
    size_t value_count;
};

struct filters {
    struct filter list[API_FILTERS_MAX]; /* all must match */
    size_t count;
};

/* Reads Filter.N. Rejects names not in `known`, a list that ends with NULL. `tags`: "tag:KEY" and "tag-key" are known,
 * too. */
void api_filters(struct api *api, struct filters *filters, const char *const *known, bool tags);
/* `value` returns the value to compare with a filter; NULL: none. */
bool filters_match(const struct filters *filters, const struct cloud_tags *tags,
                   const char *(*value)(const void *context, const char *name), const void *context);

/* ---- Pages ---- */

struct page {
    size_t first;   /* index of the page's first item */
    int64_t moment; /* a time shared by all pages */
    size_t most;    /* most items */
};

/* Reads MaxResults (least..most; `otherwise` when absent) and NextToken. `ids`: the request has ids. */
struct page api_page(struct api *api, int64_t least, int64_t most, int64_t otherwise, bool ids);
/* Writes <nextToken> for the page that starts at `next`. */
void api_page_next(struct api *api, const struct page *page, size_t next);

/* ---- Pieces ---- */

/* Returns whether the name is in `known`, which ends with NULL. */
bool api_name_known(const char *const *known, const char *name);
/* Reads the tags of TagSpecification.N for resources of `type`. `known` lists the allowed types, and ends with NULL.
 * The caller closes *tags. */
void api_tag_specifications(struct api *api, const char *prefix, const char *const *known, const char *type,
                            struct cloud_tags *tags);
/* Reads an InstanceInterruptionBehavior. Rejects all but terminate. */
void api_interruption_behavior(struct api *api, const char *name);
/* Sets the error for a cloud at CLOUD_RECORDS_MAX. */
void api_launch_limit(struct api *api);
void api_tag_check(struct api *api, const char *key, const char *value);
void api_write_state(struct text *body, const char *name, enum instance_state state);
void api_write_instance(struct api *api, const struct instance *instance);
void api_write_request(struct api *api, const struct spot_request *request);
/* Returns the type of that name in this region; NULL with an error when there is none. */
const struct catalog_price *api_type(struct api *api, const char *name);
/* Return NULL with an error when the id is unknown. */
struct instance *api_find_instance(struct api *api, const char *id);
struct spot_request *api_find_request(struct api *api, const char *id);
/* Reads and checks ClientToken; "" when absent. */
const char *api_token(struct api *api);
/* Returns whether a call with this token was made before, and sets *attempt. Other parameters than in that call are an
 * error. */
bool api_repeated(struct api *api, const char *token, struct attempt **attempt);
/* Remembers the result of a call under its token: the indexes of the machines or requests that it made, or its
 * `answer`. */
void api_remember(struct api *api, const char *token, size_t first, size_t count, const char *answer);

/* ---- Actions ---- */

void api_describe_spot_price_history(struct api *api);
void api_describe_instances(struct api *api);
void api_describe_spot_instance_requests(struct api *api);
void api_describe_instance_types(struct api *api);
void api_describe_availability_zones(struct api *api);
void api_describe_tags(struct api *api);
void api_describe_images(struct api *api);
void api_describe_subnets(struct api *api);
void api_describe_security_groups(struct api *api);
void api_run_instances(struct api *api);
void api_request_spot_instances(struct api *api);
void api_create_fleet(struct api *api);
void api_cancel_spot_instance_requests(struct api *api);
void api_terminate_instances(struct api *api);
void api_create_tags(struct api *api);
void api_create_launch_template(struct api *api);
void api_create_launch_template_version(struct api *api);
void api_describe_launch_templates(struct api *api);
void api_delete_launch_template(struct api *api);
/* Frees the template's contents. */
void launch_template_close(struct launch_template *template);

/* ---- Launch specifications and templates (api_spec.c) ---- */

/* Reads a specification from parameters that begin with `prefix`. Absent values come from `base` (NULL: none). The
 * caller drops the result, which is never NULL, and checks its type, which may be NULL. */
struct launch_spec *api_spec(struct api *api, const char *prefix, const struct launch_spec *base);
/* Sets `place` to the zone, given by a subnet or by its name (NULL: not given). */
void api_spec_place(struct api *api, const char *subnet, const char *zone, char place[MARKET_TEXT_MAX]);
/* Finds the template and version given by parameters with `prefix`. Returns false when none is given; also, with an
 * error, when it does not exist. */
bool api_template(struct api *api, const char *prefix, const struct launch_template **found, size_t *version);

#endif
