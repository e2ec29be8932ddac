/* The library's workers/data.c. See main.c. */
#include "workers/data.h"

#include "bench/input/variant.h"

const struct variant variant_with = VARIANT_HERE;
