/* Prevents core dumps of a process that holds a secret. */
#ifndef AGILEML_BASE_CORE_DUMPS_H
#define AGILEML_BASE_CORE_DUMPS_H

/* From now on this process leaves no core dump, and only root can attach to it or read its memory. Programs that it
 * starts inherit the limit and leave no dump either, but a debugger can attach to them. Call this before reading a
 * secret. */
void core_dumps_forbid(void);

#endif
