/* The resources, besides types and zones, that launches can refer to: the file of --resources, a JSON object.
 *
 *     {"images": ["ami-1"], "security_groups": {"sg-1": "vpc-1"}, "key_pairs": ["me"], "instance_profiles": ["node"],
 *      "subnets": {"subnet-1": {"zone": "us-east-1a", "vpc": "vpc-1"}}}
 *
 * For a kind that the file does not have, every well-formed id exists, and each zone has a subnet subnet-ZONE. */
#ifndef SPOTMARKET_RESOURCES_H
#define SPOTMARKET_RESOURCES_H

#include "spotmarket/cloud.h"
#include "spotmarket/parameters.h"

#include <jansson.h>

#define RESOURCES_VPC "vpc-00000000000000000" /* the VPC of resources that are not in the file */

/* Zeroed: everything exists. */
struct resources {
    json_t *root; /* NULL: no file */
};

/* Returns 0, or AML_EINPUT with one line: what is wrong, what was expected. */
int resources_read(struct resources *resources, const char *path, struct error *error);
void resources_close(struct resources *resources);

/* Returns the file's list or object of a kind; NULL: everything exists. */
const json_t *resources_of(const struct resources *resources, const char *kind);
/* Returns whether "images", "key_pairs" or "instance_profiles" has that name. */
bool resources_have(const struct resources *resources, const char *kind, const char *name);
/* Returns the VPC of a security group; NULL: there is no such group. */
const char *resources_group(const struct resources *resources, const char *id);
/* Returns the zone of a subnet, and its VPC; NULL: there is no such subnet. */
const char *resources_subnet(const struct resources *resources, const struct cloud *cloud, const char *id,
                             const char **vpc);

/* Returns whether all resources of a launch exist. If not, sets *error as EC2 does. */
bool resources_allow(const struct resources *resources, const struct cloud *cloud, const struct launch_spec *spec,
                     struct api_error *error);

#endif
