/* The script that starts a node on a machine, from a template: text in which ${name} stands for a value. Pure
 * functions. */
#ifndef BIDBRAIN_CLOUD_USER_DATA_H
#define BIDBRAIN_CLOUD_USER_DATA_H

#include "bidbrain/cloud/provider.h"

enum { USER_DATA_MAX = 16384 }; /* bytes, what EC2 takes */

/* The built-in template: a cloud-init script (bash) that fetches the binary, writes the token's file (mode 0600), asks
 * the metadata service for the instance's id, runs the node under that name, and shuts the machine down when the node
 * ends. */
extern const char USER_DATA_TEMPLATE[];

/* Names: app, binary, controller, group (the launch's zone and type, for --group; empty in a launch template), job,
 * linger (seconds), threads, tier, token: each one word, quoted for a shell; arguments: their words, quoted; key: the
 * lines of a token's file, for a here-document, by which the nodes of this launch's machines may join the job; nothing
 * without a key. "${" with anything but a name in small letters and "}" behind it is the shell's, and stays.
 * From malloc; it may hold a token, so wipe it. AML_EINPUT: an unknown name (with its line), a key file that is not the
 * job's key, a binary that is neither s3://, https://, file:/// nor an absolute path, too long. */
int user_data_render(const struct provider_options *options, const struct provider_launch *launch, char **text,
                     struct error *error);

#endif
