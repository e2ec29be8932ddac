/* Memory for secrets: pages of their own, left out of core dumps, not swapped where the system lets us, wiped when
 * they are given back. */
#ifndef AGILEML_CLOUD_SECRET_H
#define AGILEML_CLOUD_SECRET_H

#include <stddef.h>

/* Zeroed; never NULL: see memory_exhausted. */
void *secret_new(size_t size);
void secret_free(void *memory, size_t size); /* the size it was made with; NULL is allowed */

/* Has jansson wipe what it frees, until the matching secret_json_end. */
void secret_json_begin(void);
void secret_json_end(void);

#endif
