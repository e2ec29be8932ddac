/* How spotmarket, the embedded cloud (docs/spotmarket.md), is started: its arguments, its credentials, and the
 * environment of a bidbrain that works with it. For `proteus run --market`, whose child it is, and for `bidbrain run`
 * with provider local, which it outlives.
 *
 * A market of provider local holds the lock (flock) of its folder, which was taken before it started. Its output is
 * FOLDER/spotmarket.log, whose first line says its address; FOLDER/spotmarket.terms has the options with which it was
 * started, a line each, as far as a configuration says them. */
#ifndef BIDBRAIN_CLOUD_EMBEDDED_H
#define BIDBRAIN_CLOUD_EMBEDDED_H

#include "agileml/base/process.h"

#include <stdint.h>

enum { EMBEDDED_URL_TEXT = 128 };

/* spotmarket's options of the same names. NULL: not given. */
struct embedded {
    const char *prices, *model, *region; /* needed */
    const char *folder;                  /* needed; of the machines */
    const char *catalog, *product, *interruptions;
    const char *owner; /* of a market that outlives its parent */
    int64_t start;     /* seconds since 1970 */
    int64_t first;     /* the start that the configuration says; for spotmarket.terms */
    double speed;
    int64_t notice; /* seconds of market time */
    int64_t seed;
};

/* The notice that machines get: 120 s of market time, or 3 s of real time if that is longer. The market may be fast,
 * the nodes are not. */
int64_t embedded_notice(double speed);
/* spotmarket's command line, with the credentials of the folder `credentials`. */
void embedded_arguments(struct arguments *arguments, const struct embedded *cloud, const char *credentials);
/* Writes FOLDER/credentials, mode 0600: a pair of keys that is new each time. 0 or AML_EFAIL. */
int embedded_write_credentials(const char *folder, struct error *error);
/* Our environment with FOLDER/credentials in place of all other settings for AWS. NULL at the end; the list and its
 * texts are from malloc. */
char **embedded_environment(const char *folder);

/* Finds the market of cloud->folder, or starts one if none runs and `start` is set. Waits until `url` is known; it is
 * empty when there is no market. The market has its credentials in the folder. Once the descriptor `signals` is
 * readable (-1: none), ends the market that it has started, and fails. 0; AML_EINPUT, also when the market that was
 * found was started with other terms; AML_ESTOP or AML_EFAIL. */
int embedded_open(const struct embedded *cloud, bool start, int signals, char url[EMBEDDED_URL_TEXT],
                  struct error *error);
/* Whether a market of this folder runs, as far as can be seen. */
bool embedded_runs(const char *folder);

#endif
