/* The resources that launches can name, besides types and zones: the file of --resources, a JSON object.
 *
 *     {"images": ["ami-1"], "security_groups": {"sg-1": "vpc-1"}, "key_pairs": ["me"], "instance_profiles": ["node"],
 *      "subnets": {"subnet-1": {"zone": "us-east-1a", "vpc": "vpc-1"}}}
 *
 * Of a kind that the file does not have, everything exists: any well-formed id, and a subnet subnet-ZONE in each
 * zone. */
#ifndef SPOTMARKET_RESOURCES_H
#define SPOTMARKET_RESOURCES_H

#include "spotmarket/cloud.h"
#include "spotmarket/parameters.h"

#include <jansson.h>

#define RESOURCES_VPC "vpc-00000000000000000" /* the VPC of all that the file does not name */

/* In a zeroed struct everything exists. */
struct resources {
    json_t *root; /* NULL: no file */
};

/* AML_EINPUT with one line: what is wrong, what was expected. */
int resources_read(struct resources *resources, const char *path, struct error *error);
void resources_close(struct resources *resources);

/* Returns what the file has of a kind, a list or an object; NULL: everything exists. */
const json_t *resources_of(const struct resources *resources, const char *kind);
/* Returns whether "images", "key_pairs" or "instance_profiles" has that name. */
bool resources_have(const struct resources *resources, const char *kind, const char *name);
/* Returns the VPC of a security group; NULL: there is no such group. */
const char *resources_group(const struct resources *resources, const char *id);
/* Returns the zone of a subnet, and its VPC; NULL: there is no such subnet. */
const char *resources_subnet(const struct resources *resources, const struct cloud *cloud, const char *id,
                             const char **vpc);

/* Returns whether all resources of a launch exist. Otherwise sets *error as EC2 does. */
bool resources_allow(const struct resources *resources, const struct cloud *cloud, const struct launch_spec *spec,
                     struct api_error *error);

#endif
