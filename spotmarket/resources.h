/* What there is that launches name, besides types and zones: the file of --resources, a JSON object.
 *
 *     {"images": ["ami-1"], "security_groups": {"sg-1": "vpc-1"}, "key_pairs": ["me"], "instance_profiles": ["node"],
 *      "subnets": {"subnet-1": {"zone": "us-east-1a", "vpc": "vpc-1"}}}
 *
 * Of a kind that is not named, everything is there: any id of the right form, and a subnet subnet-ZONE in each zone. */
#ifndef SPOTMARKET_RESOURCES_H
#define SPOTMARKET_RESOURCES_H

#include "spotmarket/cloud.h"
#include "spotmarket/parameters.h"

#include <jansson.h>

#define RESOURCES_VPC "vpc-00000000000000000" /* where everything is that no file names */

/* A zeroed struct: everything is there. */
struct resources {
    json_t *root; /* NULL: no file */
};

/* AML_EINPUT with one line: what is wrong, what was expected. */
int resources_read(struct resources *resources, const char *path, struct error *error);
void resources_close(struct resources *resources);

/* What the file has of a kind, a list or an object; NULL: everything is there. */
const json_t *resources_of(const struct resources *resources, const char *kind);
/* Whether there is such a thing of "images", "key_pairs" or "instance_profiles". */
bool resources_have(const struct resources *resources, const char *kind, const char *name);
/* The VPC of a security group; NULL: there is no such group. */
const char *resources_group(const struct resources *resources, const char *id);
/* The zone of a subnet, and its VPC; NULL: there is no such subnet. */
const char *resources_subnet(const struct resources *resources, const struct cloud *cloud, const char *id,
                             const char **vpc);

/* Whether all is there that a launch names. Else *error is EC2's. */
bool resources_allow(const struct resources *resources, const struct cloud *cloud, const struct launch_spec *spec,
                     struct api_error *error);

#endif
