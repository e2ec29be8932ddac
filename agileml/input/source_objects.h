/* Objects as sources (source.h): s3://BUCKET/KEY, which can be listed; https://; and http:// on this machine. */
#ifndef AGILEML_INPUT_SOURCE_OBJECTS_H
#define AGILEML_INPUT_SOURCE_OBJECTS_H

#include "agileml/input/source.h"

extern const struct source_scheme source_s3, source_https, source_http;

#endif
