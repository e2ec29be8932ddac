/* The profile of `bidbrain advise --app FILE`: a JSON object with the application's row of the paper's Table 2, and
 * limits. */
#ifndef BIDBRAIN_STUDY_PROFILE_H
#define BIDBRAIN_STUDY_PROFILE_H

#include "agileml/base/error.h"

#include <stdint.h>

enum { PROFILE_TYPE_MAX = 48 };

struct profile {
    double work_vcpu_hours; /* work left */
    double phi, sigma_seconds, lambda_seconds;
    double checkpoint_seconds; /* time between checkpoints; used without reliable machines */
    /* type of the `reliable` on-demand machines, which hold state and do no work */
    char reliable_type[PROFILE_TYPE_MAX];
    int64_t reliable;
    double most_vcpus; /* most vCPUs at once */
    int64_t most_machines, least_markets;
    double most_dollars_per_hour;
    int64_t vcpus_min;
    double memory_min;
};

/* Reads the members "work_vcpu_hours" and "most_vcpus", and those with defaults: "phi" (1), "sigma_seconds" (30),
 * "lambda_seconds" (60), "checkpoint_seconds" (3600), "reliable" (1), "reliable_type" ("c4.2xlarge"), "most_machines",
 * "least_markets" (1), "most_dollars_per_hour", "vcpus_min" (2), "memory_min" (GiB, 3). Returns AML_EINPUT with one
 * line. */
int profile_read(struct profile *profile, const char *path, struct error *error);

#endif
