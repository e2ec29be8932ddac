/* Signals as a descriptor that an event loop reads. */
#ifndef AGILEML_BASE_SIGNALS_H
#define AGILEML_BASE_SIGNALS_H

#include "agileml/base/error.h"

/* Blocks the signals (a list that ends with 0) in this thread and in threads it starts, and opens a descriptor for
 * them. A SIGHUP or SIGTSTP that is ignored stays ignored, for nohup. Returns 0 or AML_EFAIL. */
int signals_open(int *fd, const int *numbers, struct error *error);
/* Returns the next pending signal, or 0. Does not wait. */
int signals_next(int fd);

#endif
