/* Prevents core dumps of a process that holds a secret. */
#ifndef AGILEML_BASE_CORE_DUMPS_H
#define AGILEML_BASE_CORE_DUMPS_H

/* From now on this process leaves no core dump, and only root attaches to it or reads its memory. Programs that it
 * starts leave none either (they inherit the limit), but may be attached to. Call it before a secret is read. */
void core_dumps_forbid(void);

#endif
