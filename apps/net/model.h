/* The file of a trained network. The reader checks everything.
 *
 * The format, version 1, or 2 if features are standardized. All numbers are little-endian; "float" is an IEEE 754
 * binary32.
 *
 *     bytes      what
 *     8          magic: "AMLNNMDL"
 *     4          version: 1 or 2
 *     4          how values are scaled (enum scale_kind without SCALE_AUTO)
 *     4          index of the first feature in libsvm files: 0 or 1
 *     4          d: features, 1..SAMPLES_DENSE_MAX
 *     4 + 4 + 4  height, width and channels of a sample, whose product is d
 *     4          1: samples are images; 0: vectors, d channels of height and width 1
 *     4          K: classes, 2..LABELS_MAX
 *     4          L: bytes of the description, at most NETWORK_TEXT_MAX
 *     4          P: parameters of the network
 *     L          the layers as --layers describes them (network.h)
 *     56 K       the labels (apps/samples/model.h)
 *     ...        the scale (apps/samples/model.h), SCALE_STANDARD in version 2 only
 *     4 P        floats: the parameters, in the order and shapes of network.h
 *     ...        the columns' names (apps/samples/model.h), if the version is 16 more
 *     4          CRC-32 (zlib's) of all bytes before
 *
 * Every float is finite. */
#ifndef APPS_NET_MODEL_H
#define APPS_NET_MODEL_H

#include "apps/net/network.h"
#include "apps/samples/model.h"

enum { NET_MODEL_VERSION = 1, NET_MODEL_VERSION_STANDARD = 2, NET_MODEL_NEWEST = NET_MODEL_VERSION_STANDARD };

/* Writes a whole file or none, by the rules of model_file.h. `layers` is the description, or NULL. Returns 0 or a code
 * as model_file_end; AML_EFAIL for a parameter that is not finite. */
int net_model_write(const char *path, const struct samples_model *samples, const char *layers,
                    const struct network *network, const float *parameters, struct error *error);

struct net_model {
    struct samples_model samples;
    struct network network;
    float *parameters;
};

/* Loads a file. Returns 0 and a model that net_model_close frees; or, with nothing to free, AML_EINPUT, AML_EFAIL
 * (reading failed) or AML_ENOMEM. */
int net_model_load(const char *path, struct net_model *model, struct error *error);
void net_model_close(struct net_model *model);

#endif
