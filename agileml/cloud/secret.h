/* Memory for secrets: pages of their own, left out of core dumps, not swapped where the system allows it, and wiped
 * when freed. */
#ifndef AGILEML_CLOUD_SECRET_H
#define AGILEML_CLOUD_SECRET_H

#include <stddef.h>

/* Returns zeroed memory; never NULL: see memory_exhausted. */
void *secret_new(size_t size);
void secret_free(void *memory, size_t size); /* `size` as given to secret_new; NULL is allowed */

/* Makes jansson wipe what it frees, until the matching secret_json_end. */
void secret_json_begin(void);
void secret_json_end(void);

#endif
