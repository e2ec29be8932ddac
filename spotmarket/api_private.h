/* What the actions share. See api.h. */
#ifndef SPOTMARKET_API_PRIVATE_H
#define SPOTMARKET_API_PRIVATE_H

#include "spotmarket/api.h"

/* All parameters are read: true when there is no mistake and it is no dry run. Nothing may be changed before. */
bool api_ready(struct api *api);

/* ---- Filters ---- */

struct filter {
    const char *name;
    const char *values[API_FILTER_VALUES_MAX]; /* any of them; '*' and '?' stand for any characters, any one */
    size_t value_count;
};

struct filters {
    struct filter list[API_FILTERS_MAX]; /* all of them */
    size_t count;
};

/* Reads Filter.N; a name that is not in `known` (NULL at the end; "tag:KEY" and "tag-key" go with `tags`) is refused.
 */
void api_filters(struct api *api, struct filters *filters, const char *const *known, bool tags);
/* `value` gives the thing's value of a filter; NULL: it has none. */
bool filters_match(const struct filters *filters, const struct cloud_tags *tags,
                   const char *(*value)(const void *context, const char *name), const void *context);

/* ---- Pages ---- */

struct page {
    size_t first;   /* where in the list this page begins */
    int64_t moment; /* a moment that all pages share */
    size_t most;    /* items */
};

/* Reads MaxResults (least..most, `otherwise` when absent) and NextToken. `ids`: the request names things by id. */
struct page api_page(struct api *api, int64_t least, int64_t most, int64_t otherwise, bool ids);
/* <nextToken> for the page that begins at `next`. */
void api_page_next(struct api *api, const struct page *page, size_t next);

/* ---- Pieces ---- */

/* The tags that TagSpecification.N has for things of `type`; `known`: the types that may be named, NULL at the end. To
 * be closed by the caller. */
void api_tag_specifications(struct api *api, const char *prefix, const char *const *known, const char *type,
                            struct cloud_tags *tags);
void api_tag_check(struct api *api, const char *key, const char *value);
void api_write_tags(struct api *api, const struct cloud_tags *tags);
void api_write_instance(struct api *api, const struct instance *instance);
void api_write_request(struct api *api, const struct spot_request *request);
/* The type of that name here; NULL and an error when there is none. */
const struct catalog_price *api_type(struct api *api, const char *name);
/* NULL and an error when there is none of that id. */
struct instance *api_find_instance(struct api *api, const char *id);
struct spot_request *api_find_request(struct api *api, const char *id);
/* ClientToken, checked; "" when there is none. */
const char *api_token(struct api *api);
/* All parameters as one text, from malloc. */
char *api_arguments(const struct api *api);
/* Whether that was asked for before: then what it did is in *attempt, or an error is set. */
bool api_repeated(struct api *api, const char *token, struct attempt **attempt);
/* Remembers what a call did under its token: machines or requests at their places, or its `answer`. */
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
/* Frees what the template holds. */
void launch_template_close(struct launch_template *template);

/* ---- Launch specifications and templates (api_spec.c) ---- */

/* Reads a specification whose parameters begin with `prefix` over `base` (NULL: none). Never NULL; the type may be: the
 * caller checks. To be dropped by the caller. */
struct launch_spec *api_spec(struct api *api, const char *prefix, const struct launch_spec *base);
/* The zone that SubnetId or AvailabilityZone name, "" for none. */
void api_spec_place(struct api *api, const char *subnet, const char *zone, char place[MARKET_TEXT_MAX]);
/* The template and version that parameters with `prefix` name; false: none is named, or not found (then an error). */
bool api_template(struct api *api, const char *prefix, const struct launch_template **found, size_t *version);

#endif
