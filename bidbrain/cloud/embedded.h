/* Starts spotmarket, the embedded cloud (docs/spotmarket.md): its arguments, its credentials, and the environment of a
 * bidbrain that works with it. The market of `proteus run --market` is a child of that process. The market of `bidbrain
 * run` with provider local outlives bidbrain.
 *
 * A market of provider local holds the lock (flock) of its folder, taken before it started. Its output goes to
 * FOLDER/spotmarket.log, whose first line has its address. FOLDER/spotmarket.terms has the options that the
 * configuration determined when the market started, one per line. */
#ifndef BIDBRAIN_CLOUD_EMBEDDED_H
#define BIDBRAIN_CLOUD_EMBEDDED_H

#include "agileml/base/process.h"

#include <stdint.h>

enum { EMBEDDED_URL_TEXT = 128 };

/* spotmarket's options of the same names. NULL: not set. */
struct embedded {
    const char *prices, *model, *region; /* required */
    const char *folder;                  /* folder of the machines; required */
    const char *catalog, *product, *interruptions;
    const char *owner; /* owner of a market that outlives its parent */
    int64_t start;     /* seconds since 1970 */
    int64_t first;     /* the configured start, for spotmarket.terms */
    double speed;
    int64_t notice; /* seconds of market time */
    int64_t seed;
};

/* Returns the notice that machines get: 120 s of market time, or 3 s of real time if that is longer. A market may run
 * faster than real time; nodes do not. */
int64_t embedded_notice(double speed);
/* Sets spotmarket's command line, with the credentials of the folder `credentials`. */
void embedded_arguments(struct arguments *arguments, const struct embedded *cloud, const char *credentials);
/* Writes a new pair of keys into FOLDER/credentials, mode 0600. Returns 0 or AML_EFAIL. */
int embedded_write_credentials(const char *folder, struct error *error);
/* Returns our environment with FOLDER/credentials in place of all other AWS settings. Ends with NULL; the list and its
 * texts are from malloc. */
char **embedded_environment(const char *folder);

/* Finds the market of cloud->folder, or starts one if none runs and `start` is set. Waits until `url` is known; it is
 * empty when there is no market. The market's credentials are in the folder.
 *
 * Once the descriptor `signals` is readable (-1: none), ends the market that it started, and fails. Returns 0,
 * AML_EINPUT (also when the running market has other terms), AML_ESTOP or AML_EFAIL. */
int embedded_open(const struct embedded *cloud, bool start, int signals, char url[EMBEDDED_URL_TEXT],
                  struct error *error);
/* Whether a market of this folder seems to run. */
bool embedded_runs(const char *folder);

#endif
