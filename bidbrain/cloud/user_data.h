/* Makes the script that starts a node on a machine from a template, a text in which ${name} stands for a value. Pure
 * functions. */
#ifndef BIDBRAIN_CLOUD_USER_DATA_H
#define BIDBRAIN_CLOUD_USER_DATA_H

#include "bidbrain/cloud/provider.h"

enum { USER_DATA_MAX = 16384 }; /* bytes; EC2's limit */

/* The built-in template: a cloud-init script (bash). It fetches the binary, writes the token's file (mode 0600), and
 * asks the metadata service for the instance's id. It runs the node under that name, and shuts the machine down when
 * the node ends. */
extern const char USER_DATA_TEMPLATE[];

/* Makes the script of a launch. A template may use these names:
 *     app, binary, controller, job, linger (seconds), threads, tier, token: one word, quoted for a shell
 *     group       the launch's zone and type for --group, quoted; empty in a launch template
 *     arguments   words, each quoted
 *     key         lines of a token's file, for a here-document; the nodes of this launch join the job by it.
 *                 Empty without a key.
 * "${" without a lower-case name and "}" after it stays: it is the shell's.
 *
 * The result is from malloc; it may hold a token, so wipe it. Returns AML_EINPUT for an unknown name (with its line), a
 * key file that is not the job's key, and a text that is too long. Also for a binary that is neither s3://, https://,
 * file:/// nor an absolute path. */
int user_data_render(const struct provider_options *options, const struct provider_launch *launch, char **text,
                     struct error *error);

#endif
