/* Has moved. */
#include "agileml/base/instant.h"
