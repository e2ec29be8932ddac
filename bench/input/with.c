/* The library's own workers/data/data.c. See main.c. */
#include "workers/data/data.h"

#include "bench/input/variant.h"

const struct variant variant_with = VARIANT_HERE;
